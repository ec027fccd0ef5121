"""An optimizer that is given away where it is built, so that no name holds it."""

from pathlib import Path

import pytest

from retrofit.options import Options
from tests.helpers import plan_of, rewritten

HEAD = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.lr_scheduler import CosineAnnealingLR

class Engine:
    def __init__(self, net, optimizer=None):
        self.net = net
        self.optimizer = optimizer

    def train(self):
        best = 0
        for epoch in range(9):
            for x, y in loader:
                self.optimizer.zero_grad()
                self.net(x).backward()
                self.optimizer.step()
            acc = evaluate(self.net)
            if acc > best:
                best = acc

def train(net, optimizer):
    Engine(net, optimizer).train()

model = Net()
model = DDP(model)
"""
SGD = "torch.optim.SGD(model.parameters(), lr=0.1)"
TOLD = f"pai_distributed.set_optimizer_instance({SGD})"


@pytest.mark.parametrize(
    "run",
    [
        pytest.param("Engine(model, SGD).train()", id="of an object"),
        pytest.param("train(net=model, optimizer=SGD)", id="of a function"),
        pytest.param("schedule = CosineAnnealingLR(SGD, 9)\nEngine(model, schedule.optimizer).train()", id="schedule"),
        pytest.param("engine = Engine(model)\nengine.optimizer = given or SGD\nengine.train()", id="unless given"),
        pytest.param("def make():\n    return Engine(model, SGD)\n\nmake().train()", id="returned"),
        pytest.param("parts = [SGD]\ntrain(model, parts[0])", id="item"),
    ],
)
def test_the_tracker_is_told_of_it_there(tmp_path: Path, run: str) -> None:
    plan = plan_of(tmp_path, HEAD + run.replace("SGD", SGD))
    assert plan.questions == []
    assert run.replace("SGD", TOLD) in rewritten(plan)
    assert "set_optimizer_instance" not in rewritten(plan).replace(TOLD, "")


def test_so_of_an_optimizer_of_the_projects_own(tmp_path: Path) -> None:
    own = "class Own(torch.optim.Optimizer):\n    pass\n\ndef built(net):\n    return Own(net.parameters(), lr=0.1)\n\n"
    plan = plan_of(tmp_path, HEAD.replace("class Engine", f"{own}class Engine") + "Engine(model, built(model)).train()")
    assert plan.questions == []
    assert "return pai_distributed.set_optimizer_instance(Own(net.parameters(), lr=0.1))" in rewritten(plan)


@pytest.mark.parametrize(
    "run",
    [
        pytest.param("if plain:\n    train(model, SGD)\nelse:\n    train(model, ADAM)", id="branches"),
        pytest.param("train(model, SGD if plain else ADAM)", id="choice"),
        pytest.param(
            "def make():\n    if plain:\n        return [SGD]\n    return [ADAM]\n\ntrain(model, *make())", id="return"
        ),
    ],
)
def test_the_tracker_is_told_of_the_one_that_a_run_takes(tmp_path: Path, run: str) -> None:
    adam = "torch.optim.Adam(model.parameters())"
    plan = plan_of(tmp_path, HEAD + run.replace("SGD", SGD).replace("ADAM", adam))
    assert plan.questions == []
    told = f"pai_distributed.set_optimizer_instance({adam})"
    assert run.replace("SGD", TOLD).replace("ADAM", told) in rewritten(plan)


@pytest.mark.parametrize(
    ("run", "further"),  # and whether it trains the model further, which is asked about as well
    [
        pytest.param("parts = [SGD, SGD]\nfor part in parts:\n    train(model, part)", True, id="two"),
        pytest.param("parts = [SGD for _ in range(2)]\ntrain(model, *parts)", False, id="any number"),
        pytest.param("for turn in range(2):\n    train(model, SGD)", True, id="loop"),
        pytest.param(
            "def make():\n    return [SGD]\n\ntrain(model, *make())\ntrain(model, *make())", True, id="called twice"
        ),
        pytest.param(
            "def make():\n    return Engine(model, SGD)\n\nmakers = [make]\nEngine(model).train()",
            False,
            id="who knows who calls",
        ),
        pytest.param("make = lambda: SGD\ntrain(model, make())", False, id="lambda"),
    ],
)
def test_of_several_a_name_is_asked_for(tmp_path: Path, run: str, further: bool) -> None:
    questions = {one.code: str(one) for one in plan_of(tmp_path, HEAD + run.replace("SGD", SGD)).questions}
    assert questions.keys() == {"PAI103", *(["PAI104"] if further else [])}
    assert "no name of its own" in questions["PAI103"]


def test_what_is_built_in_place_for_another_module_is_none(tmp_path: Path) -> None:
    other = "loss = Loss()\nEngine(model, torch.optim.SGD(loss.parameters(), lr=0.1)).train()"
    assert [question.code for question in plan_of(tmp_path, HEAD + other).questions] == ["PAI103"]


def test_in_process_there_is_no_way_to_build_it_again(tmp_path: Path) -> None:
    script = HEAD.replace("DistributedDataParallel as", "DataParallel as") + f"Engine(model, {SGD}).train()"
    (question,) = plan_of(tmp_path, script, Options(in_process=True)).questions
    assert (question.code, "it has no name of its own" in str(question)) == ("PAI007", True)


METHOD = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Net(torch.nn.Module):
    def configure_optimizers(self, rate):
        groups = [{"params": [p for p in self.parameters() if p.dim() > 1]}]
        return torch.optim.AdamW(groups, lr=rate)

model = Net()
optimizer = model.configure_optimizers(0.1)
if checkpoint:
    optimizer.load_state_dict(checkpoint["optimizer"])
model = DDP(model)
best_loss = 9
while True:
    for x, y in loader:
        optimizer.zero_grad()
        model(x).backward()
        optimizer.step()
    val_loss = evaluate(model)
    if val_loss < best_loss:
        best_loss = val_loss
"""


def test_one_that_gets_a_name_where_a_method_returns_it_is_told_of_by_that(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, METHOD)  # proves that a second rewriting changes nothing
    assert plan.questions == []
    assert rewritten(plan).count("set_optimizer_instance(") == 1
    assert "    return torch.optim.AdamW(groups, lr=rate)\n" in rewritten(plan)
