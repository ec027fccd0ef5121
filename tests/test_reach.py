"""Methods that nothing calls do not count, as where another class has its own of that name; all others do."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrofit.options import Options
from tests.helpers import plan_of, survey_of

#: Two classes wrap by a method of one name, and `train` calls one of them.
TEXT = """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Devices:
    def wrap(self, model):
        return torch.nn.DataParallel(model, device_ids=[0])

class Trainer:
    def __init__(self):
        self.devices = Devices()
    def wrap(self, model):
        model.features = DDP(model.features)
        return model
    def train(self):
        model = Net()
        model = self.wrap(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        best = 0
        for epoch in range(10):
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            acc = evaluate(model)
            if acc > best:
                best = acc

trainer = Trainer()
trainer.train()
"""


def wrapping(text: str) -> set[str]:
    """Return the classes whose `wrap` counts."""
    index = survey_of(text).index
    found = [scope for scope in index.scopes if scope.name == "wrap"]
    return {scope.enclosing_class.name for scope in found if scope.enclosing_class is not None}


def test_nothing_is_refused_for_a_method_that_nothing_calls(tmp_path: Path) -> None:
    assert wrapping(TEXT) == {"Trainer"}
    (question,) = plan_of(tmp_path, TEXT).questions
    assert "only `model.features`, a part of a model, is wrapped" in question.message
    assert wrapping(TEXT.replace("trainer.train()", "trainer.train()\nTrainer().train()")) == {"Trainer"}


def test_choosing_a_model_of_which_a_part_is_wrapped_brings_the_same_question(tmp_path: Path) -> None:
    (question,) = plan_of(tmp_path, TEXT, Options(model="model")).questions
    assert "only `model.features`, a part of a model, is wrapped" in question.message


@pytest.mark.parametrize("kind", ["staticmethod", "classmethod"])
def test_a_method_of_a_class_that_nothing_calls_does_not_count(kind: str) -> None:
    named = TEXT.replace(
        "    def wrap(self, model):\n        return", f"    @{kind}\n    def wrap(model):\n        return"
    )
    named = named.replace("class Trainer:", "    @staticmethod\n    def number():\n        return 0\n\nclass Trainer:")
    assert wrapping(named.replace("trainer.train()", "print(Devices.number())\ntrainer.train()")) == {"Trainer"}


@pytest.mark.parametrize(
    "change",
    [
        ("trainer.train()", "trainer.train()\nDevices.wrap(None, other)"),
        ("trainer.train()", "trainer.train()\nrun(Devices.wrap)"),
        ("trainer.train()", "trainer.train()\nprint(Devices.__dict__)"),
        ("trainer.train()", "trainer.train()\ntrainer.devices.wrap(other)"),
        ("trainer.train()", "trainer.train()\ngetattr(trainer.devices, 'wrap')(other)"),
        ("trainer.train()", "trainer.train()\nfire.Fire(Devices)"),
        ("trainer.train()", "trainer.train()\nserve(Devices())"),
        ("class Devices:", "class Devices(Base):"),
        ("class Trainer:", "class Several(Devices):\n    pass\n\nclass Trainer:"),
        ("    def wrap(self, model):\n        return", "    @register\n    def wrap(self, model):\n        return"),
    ],
)
def test_a_method_that_something_may_call_counts(change: tuple[str, str]) -> None:
    assert wrapping(TEXT.replace(*change)) == {"Devices", "Trainer"}


OVERRIDING = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
    def train_epoch(self):
        self.slow(next(loader))
    def slow(self, x):
        self.model(x).mean().backward()
    def train(self):
        for epoch in range(9):
            self.train_epoch()
            val_loss = evaluate(self.model)

class Quick(Trainer):
    def train_epoch(self):
        for x in loader:
            self.model(x).sum().backward()
            self.optimizer.step()

model = DDP(Net())
Quick(model, torch.optim.SGD(model.parameters(), lr=0.1)).train()
"""


def test_a_method_of_a_base_class_runs_what_the_object_has_in_place_of_another() -> None:
    found = survey_of(OVERRIDING).backwards
    assert [backward.code for backward in found] == ["self.model(x).sum().backward()"]


#: A function trains as the script does, and nothing calls it.
FOLDS = """
import torch

def train_model(model, optimizer):
    for epoch in range(9):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        val_loss = evaluate(model)
        save(model, val_loss)

def main():
    model = torch.nn.DataParallel(build())
    train_model(model, torch.optim.Adam(model.parameters()))

def cross_validate(k=5):
    for fold in range(k):
        if not done(fold):
            model = torch.nn.DataParallel(build(fold))
            train_model(model, torch.optim.Adam(model.parameters()))

main()
"""


@pytest.mark.parametrize(
    ("further", "counts"),
    [
        ("", False),
        ("other.cross_validate()\n", False),
        ("def again():\n    cross_validate()\n", False),
        ("cross_validate()\n", True),
        ("run({'folds': cross_validate})\n", True),
        ("def again(how=cross_validate):\n    how()\n", True),
    ],
)
def test_what_nothing_comes_to_in_the_script_itself_is_no_reason_to_ask(further: str, counts: bool) -> None:
    script = survey_of(FOLDS + further)
    assert ("cross_validate" in [scope.name for scope in script.index.scopes]) is counts
    assert (len(script.groups) > 1 or bool(script.besides)) is counts


def test_a_script_that_comes_to_no_training_by_itself_counts_whole() -> None:
    script = survey_of(FOLDS.replace("\nmain()\n", ""))
    assert {"main", "cross_validate"} <= {scope.name for scope in script.index.scopes}
