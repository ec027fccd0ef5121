"""A script may build several optimizers of a model, and step one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import code, plan_of, rewritten, survey_of

TEXT = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(Net())
built = {
    "sgd": torch.optim.SGD(model.parameters(), lr=0.1),
    "adam": torch.optim.Adam(model.parameters(), lr=0.1),
}
optimizer = CHOSEN
best = 0
for epoch in range(9):
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    acc = evaluate(model)
    if acc > best:
        best = acc
"""


@pytest.mark.parametrize("chosen", ['built["sgd"] if plain else built["adam"]', "built[kind]"])
def test_the_one_that_steps_is_registered_where_it_is_chosen(tmp_path: Path, chosen: str) -> None:
    new = rewritten(plan_of(tmp_path, code(TEXT).replace("CHOSEN", chosen)))
    assert f"optimizer = {chosen}\nGPA.pai_tracker.set_optimizer_instance(optimizer)\n" in new


@pytest.mark.parametrize("further", ["for one in built.values():\n    one.step()", 'built["sgd"].step()'])
def test_several_that_step_are_asked_about(tmp_path: Path, further: str) -> None:
    text = code(TEXT).replace("CHOSEN", "built[kind]").replace("best = 0", f"best = 0\n{further}")
    assert [one.code for one in plan_of(tmp_path, text).questions] == ["PAI103"]


BY_AN_OPTION = """model = DDP(Net())
first = torch.optim.SGD(model.parameters(), lr=0.1)
second = torch.optim.Adam(model.parameters(), lr=0.1)
CHOSEN"""


@pytest.mark.parametrize(("chosen", "asked"), [("", 1), ("optimizer = first if plain else second\n", 0)])
def test_of_several_by_an_option_the_question_tells_how_each_is_registered(
    tmp_path: Path, chosen: str, asked: int
) -> None:
    """Named by --optimizer, the other one would step unknown in a run that takes it, and end that."""
    text = code(TEXT)
    start, end = text.index("model = DDP"), text.index("best = 0")
    text = text[:start] + code(BY_AN_OPTION).replace("CHOSEN", chosen) + text[end:]
    if not chosen:
        steps = "if plain:\n            first.step()\n        else:\n            second.step()\n"
        text = text.replace("optimizer.step()\n", steps).replace("optimizer.zero_grad()", "model.zero_grad()")
    plan = plan_of(tmp_path, text)
    told = "a name where they are built (`optimizer = first if ... else second`), and step it by that name"
    assert [told in one.message for one in plan.questions] == [True] * asked
    assert asked or "GPA.pai_tracker.set_optimizer_instance(optimizer)\n" in rewritten(plan)


PARTS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(8, 8, 1))
        self.head = nn.Linear(8, 2)

model = Net()
other = OTHER
groups = [{"params": WHOSE.down.parameters()}, {"params": WHOSE.head.parameters()}]
first = torch.optim.SGD(groups, lr=0.1)
second = torch.optim.AdamW([p for n, p in model.named_parameters() if "bias" in n])
model = DDP(model)
"""


@pytest.mark.parametrize(("whose", "found"), [("model", ["first", "second"]), ("other", ["second"])])
def test_one_of_parts_of_the_model_in_groups_by_a_name_is_one_of_several(whose: str, found: list[str]) -> None:
    """The parts of another model are not its own, such as those of a teacher."""
    built = PARTS.replace("WHOSE", whose).replace("OTHER", "Teacher()")
    text = code(TEXT).replace("model = DDP(Net())\n", f"from torch import nn\n{built}")
    text = text[: text.index("built = {")] + text[text.index("best = 0") :]
    text = text.replace("optimizer.zero_grad()", "first.zero_grad()\n        second.zero_grad()")
    text = text.replace("optimizer.step()", "first.step()\n        second.step()")
    assert [one.target for one in survey_of(text).optimizers] == found


MADE = """
def make(params):
    optimizer = torch.optim.SGD(params, lr=0.1)
    return optimizer


def build(split, model):
    if split:
        return {"a": create(first), "b": create(rest)}
    return torch.optim.SGD(model.parameters(), lr=0.1)


"""
A, B = "make(first)", "make(rest)"
ELSE = "\nelse:\n    optimizer = make(model.parameters())"


@pytest.mark.parametrize(
    "built",
    [
        pytest.param(f"if split:\n    optimizer = {{'a': {A}, 'b': {B}}}{ELSE}", id="a dict"),
        pytest.param(f"if split:\n    a = {A}\n    b = {B}\n    optimizer = [a, b]{ELSE}", id="a list of names"),
        pytest.param(f"if split:\n    optimizer = {{}}\n    optimizer['a'] = {A}{ELSE}", id="a dict that is filled"),
        pytest.param(f"if split:\n    optimizer = [make(one) for one in groups]{ELSE}", id="by a comprehension"),
        pytest.param(
            "optimizer = [create(first), create(rest)] if split else torch.optim.SGD(model.parameters())",
            id="by an expression",
        ),
        pytest.param("optimizer = build(split, model)", id="by a function"),
    ],
)
def test_several_at_once_in_one_variable_are_asked_about(tmp_path: Path, built: str) -> None:
    text = code(TEXT).replace("model = DDP", code(MADE) + "model = DDP")
    text = text[: text.index("built = {")] + built + text[text.index("\nbest = 0") :]
    stepped = "for one in parts(optimizer) if split else [optimizer]:\n            one.step()"
    questions = plan_of(tmp_path, text.replace("optimizer.step()", stepped)).questions
    assert [one.code for one in questions] == ["PAI103"]
    assert "a dict or list of several" in questions[0].message
