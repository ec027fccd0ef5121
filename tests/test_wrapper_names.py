"""A model that is wrapped, or built, where it is put into a dict, a list or a call: an item is as a name."""

from pathlib import Path

import pytest

from retrofit.options import Options
from tests.helpers import plan_of, rewritten

HEAD = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Engine:
    def __init__(self, module):
        self.net = module

"""
LOOP = """
optimizer = torch.optim.SGD(USED.parameters(), lr=0.1)
best = 0
for epoch in range(9):
    for x, y in loader:
        optimizer.zero_grad()
        USED(x).backward()
        optimizer.step()
    acc = evaluate(USED)
    if acc > best:
        best = acc
"""


def written(folder: Path, build: str, used: str) -> str:
    """Return what becomes of a script that builds and uses a model so."""
    plan = plan_of(folder, HEAD + build + LOOP.replace("USED", used))
    assert plan.questions == []
    return rewritten(plan)


@pytest.mark.parametrize(
    ("build", "wrapped"),
    [
        ("held = {}\nheld['net'] = DDP(Net())", "held['net'] = DDP(held['net'], "),
        ("held = {}\nheld['net'] = Net()\nheld['net'] = DDP(held['net']).cuda()", "held['net'] = DDP(held['net'], "),
    ],
    ids=["built", "item of itself"],
)
def test_an_item_that_a_wrapper_gets_is_treated_as_a_name(tmp_path: Path, build: str, wrapped: str) -> None:
    text = written(tmp_path, build, "held['net']")
    assert text.index("held['net'] = UPA.perforate_model(") < text.index(f"    {wrapped}")


@pytest.mark.parametrize(
    ("build", "used"),
    [
        ("models = {'net': DDP(Net())}", "models['net']"),
        ("parts = [DDP(Net())]", "parts[0]"),
        ("net = Net()\nheld = Engine(DDP(net))", "held.net"),
        ("def make():\n    net = Net()\n    return DDP(net), 1\n\nmodel, _ = make()", "model"),
        (
            "class Own(Engine):\n    def __init__(self):\n        super().__init__(DDP(Net()))\n\nheld = Own()",
            "held.net",
        ),
        ("models = {'net': DDP(Net()) for _ in parts}", "models['net']"),
        ("models = dict(size=measure(), net=DDP(Net()))", "models['net']"),
        ("models = {'net': many and DDP(Net())}", "models['net']"),
        ("models = {'net': (lambda: DDP(Net()))()}", "models['net']"),
    ],
    ids=[
        "dict",
        "list",
        "argument",
        "returned with others",
        "of a base class",
        "comprehension",
        "behind a call",
        "under a condition",
        "lambda",
    ],
)
def test_where_no_name_gets_the_wrapper_one_is_asked_for(tmp_path: Path, build: str, used: str) -> None:
    plan = plan_of(tmp_path, HEAD + build + LOOP.replace("USED", used))
    assert any("is not assigned to a name" in str(one) for one in plan.questions if one.code == "PAI102")


def test_an_item_is_perforated_where_it_is_built(tmp_path: Path) -> None:
    """What collects its parameters before it is wrapped collects those of the perforated model."""
    build = (
        "models, params = {}, []\nmodels['net'] = Net()\nparams += list(models['net'].parameters())\n"
        "models['net'] = DDP(models['net'])\n"
    )
    text = written(tmp_path, build, "models['net']")
    assert text.index("models['net'] = UPA.perforate_model(") < text.index("params += list(")
    assert text.index("params += list(") < text.index("models['net'] = DDP(models['net']")
    build = "models = {'net': Net(), 'head': Head()}\nparams = list(models['net'].parameters())\n"
    text = written(tmp_path, f"{build}models['net'] = DDP(models['net'])", "models['net']")
    assert text.index("models['net'] = UPA.perforate_model(") < text.index("params = list(")


def test_what_the_wrapper_has_is_seen_through_an_item(tmp_path: Path) -> None:
    build = "held = {'net': Net()}\nheld['net'] = DDP(held['net'])\nprint(held['net'].module)"
    assert "held['net'] = pai_distributed.without_wrapper(held['net'])" in written(tmp_path, build, "held['net']")


@pytest.mark.parametrize("loop", ["for name in parts", "while parts"])
def test_of_a_loop_that_wraps_in_each_turn_that_is_said(tmp_path: Path, loop: str) -> None:
    build = f"models = {{}}\n{loop}:\n    models['net'] = DDP(Net())"
    (question,) = plan_of(tmp_path, HEAD + build + LOOP.replace("USED", "models['net']")).questions
    assert "each turn of the loop at line 10 wraps one" in str(question)


def test_of_several_one_is_chosen_by_its_name(tmp_path: Path) -> None:
    build = (
        "first, second, models = First(), Second(), {}\nmodels['first'] = DDP(first)\nmodels['second'] = DDP(second)"
    )
    text = HEAD + build + LOOP.replace("USED", "models['second']").replace("SGD(", "SGD(CHOSEN or ")
    (question,) = plan_of(tmp_path, text).questions
    assert "--model NAME: models['first'] or models['second']" in str(question)
    plan = plan_of(tmp_path, text, Options(model="second"))
    assert plan.questions == []
    assert "    models['second'] = DDP(second, " in rewritten(plan)


def test_an_item_of_what_a_function_returns_is_perforated_in_it(tmp_path: Path) -> None:
    made = "net = Net()\n    step = torch.optim.SGD(net.parameters(), lr=0.1)\n    return {'net': net, 'o': step}"
    build = f"def make():\n    {made}\n\nheld = make()\nheld['net'] = DDP(held['net'])\n"
    train = LOOP.partition("lr=0.1)\n")[2].replace("USED", "held['net']").replace("optimizer.", "held['o'].")
    plan = plan_of(tmp_path, HEAD + build + train)
    assert plan.questions == []
    text = rewritten(plan)
    assert text.index("net = UPA.perforate_model(") < text.index(".set_optimizer(") < text.index("return {'net': net")
    assert text.count("perforate_model(") == 1


def test_an_item_that_nobody_knows_is_perforated_where_it_is_wrapped(tmp_path: Path) -> None:
    text = written(tmp_path, "held = torch.load('all.pt')\nnet = DDP(held['net'])", "net")
    assert "net = held['net']\nwith pai_distributed.one_rank_at_a_time():\n    net = UPA.perforate_model(" in text


TRAINER = """
class Trainer(Engine):
    def __init__(self, module):
        super().__init__(module)
        self.net = DDP(self.net)

"""


@pytest.mark.parametrize(
    "build",
    [
        "held = Trainer(Net())",
        "held = [Trainer(Net().cuda())][0]",
        "def make():\n    return {'net': Net()}\n\nparts = make()\nheld = Trainer(parts['net'])",
        "model, kind = 1, Trainer\nheld = kind(module=Net())",
    ],
)
def test_where_no_name_gets_the_model_one_is_asked_for(tmp_path: Path, build: str) -> None:
    text = HEAD + TRAINER + build + LOOP.replace("USED", "held.net")
    (question,) = plan_of(tmp_path, text).questions
    assert (question.code, question.line) == ("PAI102", text.count("\n", 0, text.index("Net()")) + 1)
    assert "the model gets no name where it is built" in question.message


@pytest.mark.parametrize("built", ["load() or Net()", "Net() if many else Other()"])
def test_so_where_one_of_several_is_built(tmp_path: Path, built: str) -> None:
    plan = plan_of(tmp_path, HEAD + TRAINER + f"held = Trainer({built})" + LOOP.replace("USED", "held.net"))
    assert [question.code for question in plan.questions] == ["PAI102"]
