"""Tell the trainings of one script apart: the one of the wrapped model, and the one that the user chooses."""

from pathlib import Path

import pytest

from retrofit.options import Options
from tests.helpers import plan_of, rewritten, survey_of

CHOICE = """
import argparse
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def evaluate(model):
    return sum(float(model(x)) for x in val)

def train(model, optimizer):
    for epoch in range(9):
        for x, y in loader:
            optimizer.zero_grad()
            (model(x) - y).mean().backward()
            optimizer.step()
        val_loss = evaluate(model)
        if val_loss < best:
            torch.save(model.state_dict(), "best.pt")

def train_time(model, optimizer):
    for epoch in range(9):
        for x, y, t in loader:
            optimizer.zero_grad()
            (model(x, t) - y).mean().backward()
            optimizer.step()
        val_loss = evaluate(model)
        if val_loss < best:
            torch.save(model.state_dict(), "best.pt")

parser = argparse.ArgumentParser()
parser.add_argument("--time", action="store_true")
args = parser.parse_args()
model = DDP(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if args.time:
    train_time(model, optimizer)
else:
    train(model, optimizer)
"""

FALLBACK = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def train_epoch(model, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        (model(x) - y).mean().backward()
        optimizer.step()

def train_distributed():
    model = Net()
    model = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(9):
        train_epoch(model, optimizer)

def train_alone():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(9):
        train_epoch(model, optimizer)

RUN
"""

EITHER = "train_distributed() if torch.cuda.is_available() else train_alone()"


@pytest.mark.parametrize(("chosen", "line"), [("train_time.model", 19), ("train.model", 9)])
def test_one_of_several_training_functions_is_chosen(tmp_path: Path, chosen: str, line: int) -> None:
    found = survey_of(CHOICE)
    assert found.trainers == ["train.model", "train_time.model"]
    (loop,) = survey_of(CHOICE, model=chosen).loops
    assert loop.line == line
    assert "train.model or train_time.model" in str(plan_of(tmp_path, CHOICE).questions[0])
    plan = plan_of(tmp_path, CHOICE, Options(model=chosen, metric="val_loss", mode="min"))
    assert plan.questions == []
    assert rewritten(plan).count("planned_epochs(") == 1


def test_trainings_of_which_one_runs_after_the_other_are_no_choice() -> None:
    both = CHOICE.replace("else:\n    train(model, optimizer)", "train(model, optimizer)")
    assert (len(survey_of(both).loops), survey_of(both).trainers) == (2, [])


def test_an_unknown_training_is_told() -> None:
    assert survey_of(CHOICE, model="fit.model").other_models == ["model"]


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(f"{EITHER}", id="either"),
        pytest.param("if cuda:\n    train_distributed()\nelse:\n    train_alone()", id="branches"),
        pytest.param("done = train_distributed()\nif not done:\n    train_alone()", id="fallback"),
    ],
)
def test_a_training_of_another_model_that_is_not_wrapped_is_left_alone(run: str) -> None:
    found = survey_of(FALLBACK.replace("RUN", run))
    assert ([loop.scope.name for loop in found.loops], found.trainers) == (["train_distributed"], [])
    assert [optimizer.scope.name for optimizer in found.optimizers] == ["train_distributed"]


def test_a_training_of_another_model_that_comes_first_is_asked_about() -> None:
    assert len(survey_of(FALLBACK.replace("RUN", "train_alone()\ntrain_distributed()")).loops) == 2


def test_a_training_of_which_it_is_not_known_what_it_trains_is_asked_about() -> None:
    unknown = FALLBACK.replace("RUN", EITHER).replace(
        "    model = Net()\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
        "    model, optimizer = make()",
    )
    assert len(survey_of(unknown).loops) == 2


def test_a_function_that_a_helper_is_given_to_start_is_run() -> None:
    started = FALLBACK.replace("def train_distributed():", "def train_distributed(rank):").replace(
        "RUN",
        "def start(run, processes):\n    torch.multiprocessing.spawn(run, args=(), nprocs=processes)\n\n"
        "if cuda:\n    start(train_distributed, 2)\nelse:\n    train_alone()",
    )
    found = survey_of(started)
    assert [loop.scope.name for loop in found.loops] == ["train_distributed"]
    assert found.spawning is not None


@pytest.mark.parametrize(
    "step", ["self.step(x)", "self.optimizer.zero_grad(); self.model(x).backward(); self.optimizer.step()"]
)
def test_a_trainer_that_wraps_no_model_is_left_alone(step: str) -> None:
    trainer = """
class NAME:
    def __init__(self):
        self.model = Net()
        WRAP
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self, x):
        self.optimizer.zero_grad()
        self.model(x).backward()
        self.optimizer.step()

    def train(self):
        for epoch in range(9):
            for x in loader:
                STEP
"""
    one = trainer.replace("STEP", step)
    alone, wrapping = one.replace("NAME", "Alone").replace("WRAP", "pass"), one.replace("NAME", "Several")
    wrapping = wrapping.replace("WRAP", "self.model = DDP(self.model)")
    head = "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
    found = survey_of(f"{head}{alone}{wrapping}\ntrainer = Several() if cuda else Alone()\ntrainer.train()\n")
    assert [loop.scope.enclosing_class.name for loop in found.loops] == ["Several"]  # type: ignore[union-attr]
