"""Copies of the weights that training keeps close to, or measures its way from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import swapped
from tests.helpers import code, plan_of

TEXT = code("""
import argparse, copy, torch
from torch import nn
from own import Projected

class Ema:
    def __init__(self, model):
        self.shadow = {}
        for name, parameter in model.named_parameters():
            self.shadow[name] = parameter.data.clone()

    def update(self, model):
        for name, parameter in model.named_parameters():
            self.shadow[name] = 0.9 * self.shadow[name] + 0.1 * parameter.data

class Pull:
    def __init__(self, model):
        self.means = {}
        for name, parameter in model.named_parameters():
            self.means[name] = parameter.data.clone()

    def penalty(self, model):
        return sum((p - self.means[n]).pow(2).sum() for n, p in model.named_parameters())

class Distilled:
    def __init__(self, model):
        self.teacher = copy.deepcopy(model)

    def loss(self, model, x):
        return (model(x) - self.teacher(x)).pow(2).sum()

def l2(params, others):
    return sum((p - other).pow(2).sum() for p, other in zip(params, others))

def train():
    model = Net()
    model.load_state_dict(torch.load("pretrained.pt"))
    model = nn.DataParallel(model)
    params = [p for p in model.parameters() if p.requires_grad]
    begun = COPY
    optimizer = torch.optim.SGD(params, lr=0.1)
    for epoch in range(10):
        for x, y in loader:
            loss = criterion(model(x), y)
            USE
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        val_loss = evaluate(model)
        END

train()
""")
DEEP = "copy.deepcopy(params)"
NAMED = "{n: p.detach().clone() for n, p in model.named_parameters()}"
WHOLE = "copy.deepcopy(model)"
CALLED = "loss = loss + (model(x) - begun(x)).pow(2).sum()"
ZIP = "loss = loss + sum((p - a).pow(2).sum() for p, a in zip(params, begun))"


def told(folder: Path, text: str) -> list[tuple[int, str]]:
    made = plan_of(folder, text)
    assert made.questions == []
    return [(note.line, note.message) for note in made.notes if note.code == "PAI122"]


def training(copied: str, use: str, end: str = "pass") -> str:
    return swapped(TEXT, ("COPY", copied), ("USE", use), ("END", end))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(training(DEEP, ZIP), 39, id="a list that the loss takes"),
        pytest.param(training(DEEP, "loss = loss + l2(params, begun)"), 39, id="in a function"),
        pytest.param(
            training("[p.clone().detach() for p in params]", "loss = loss + l2(params, begun)"), 39, id="by clone"
        ),
        pytest.param(
            training(NAMED, "loss += sum((p - begun[n]).norm() for n, p in model.named_parameters())"),
            39,
            id="by names",
        ),
        pytest.param(
            training(
                "copy.deepcopy(model.state_dict())",
                "for n, p in model.named_parameters():\n                loss = loss + torch.norm(p - begun[n])",
            ),
            39,
            id="a state_dict",
        ),
        pytest.param(training("Pull(model)", "loss = loss + begun.penalty(model)"), 19, id="an object's"),
        pytest.param(training(WHOLE, CALLED), 39, id="a teacher"),
        pytest.param(training("copy.deepcopy(model.module).eval()", CALLED), 39, id="a teacher without its wrapper"),
        pytest.param(training("Distilled(model)", "loss += begun.loss(model, x)"), 26, id="a teacher in an object"),
        pytest.param(
            swapped(
                training(DEEP, "pass"),
                (
                    "torch.optim.SGD(params, lr=0.1)",
                    'Projected([{"params": params, "pre": begun}], lr=0.1)  # type: torch.optim.Optimizer',
                ),
            ).replace("from own import Projected", "class Projected(torch.optim.SGD):\n    pass\n"),
            41,
            id="that the optimizer takes",
        ),
    ],
)
def test_a_copy_of_the_weights_that_training_compares_with_is_told(tmp_path: Path, text: str, line: int) -> None:
    assert [place for place, _ in told(tmp_path, text)] == [line]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(training("Ema(model)", "begun.update(model)"), id="an average"),
        pytest.param(training(DEEP, "pass"), id="never read"),
        pytest.param(training(WHOLE, "pass"), id="a whole model that is never read"),
        pytest.param(
            training(WHOLE, CALLED, "begun.load_state_dict(model.state_dict())"), id="a teacher that gets weights"
        ),
        pytest.param(
            training(f"{WHOLE}\n    begun.load_state_dict(torch.load('teacher.pt'))", CALLED), id="a teacher of a file"
        ),
        pytest.param(training(WHOLE, CALLED, "move(begun, model, 0.99)"), id="a teacher that something moves"),
        pytest.param(
            training(WHOLE, CALLED, "for p, a in zip(model.parameters(), begun.parameters()): a.data.lerp_(p, 0.1)"),
            id="a teacher that follows",
        ),
        pytest.param(training(WHOLE, CALLED, "begun = copy.deepcopy(model)"), id="the model of the epoch before"),
        pytest.param(
            training(f"None\n    for task in tasks:\n        begun = {WHOLE}\n        fit(begun)", CALLED),
            id="the model of a stage before",
        ),
        pytest.param(
            training("copy.deepcopy(model.state_dict())", "pass", "begun = copy.deepcopy(model.state_dict())"),
            id="the best, so far",
        ),
        pytest.param(
            training("copy.deepcopy(model.state_dict())", "if bad: model.load_state_dict(begun)"), id="taken back"
        ),
        pytest.param(
            training("copy.deepcopy(model.state_dict())", "pass", "torch.save(begun, 'begun.pt')"), id="saved"
        ),
        pytest.param(
            training(DEEP, "loss = loss + l2(params, begun)", "for p, a in zip(params, begun): a.data.copy_(p.data)"),
            id="moved in place",
        ),
        pytest.param(
            training("copy.deepcopy(model.state_dict())", "pass", "torch.save({'begun': begun}, 'last.pt')"),
            id="saved with more",
        ),
        pytest.param(
            training("copy.deepcopy(model.state_dict())", "if bad and begun: model.load_state_dict(begun)"),
            id="taken back where there is one",
        ),
        pytest.param(training("torch.load('pretrained.pt')", "loss = loss + l2(params, begun)"), id="of a file"),
        pytest.param(training("copy.deepcopy(args)", "loss = loss + begun.weight"), id="of no weights"),
    ],
)
def test_what_is_no_such_copy_is_not(tmp_path: Path, text: str) -> None:
    assert told(tmp_path, text) == []
