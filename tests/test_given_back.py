"""A function that gives back the model that it is given builds none, so its optimizer may be there already."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import code, plan_of, rewritten

TEXT = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP


def load_model(net, state):
    net.load_state_dict(state)
    return net


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if resumed:
    model = DDP(load_model(model, torch.load("last.pt")))
else:
    model = DDP(model)
best = 0
for epoch in range(9):
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
    acc = evaluate(model)
    if acc > best:
        best = acc
"""


@pytest.mark.parametrize("branches", [True, False])
def test_a_model_is_perforated_before_its_optimizer_where_its_wrapper_gets_it_back(
    tmp_path: Path, branches: bool
) -> None:
    text = code(TEXT) if branches else code(TEXT).replace("else:\n    model = DDP(model)\n", "")
    new = rewritten(plan_of(tmp_path, text))
    assert new.index("UPA.perforate_model(") < new.index("setup_optimizer(")
    assert '    model = DDP(load_model(model, torch.load("last.pt")),' in new
    assert '    else:\n        model = load_model(model, torch.load("last.pt"))\n' in new


def test_what_a_wrapper_gets_back_before_the_optimizer_is_built_is_finished_first(tmp_path: Path) -> None:
    optimizer = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    head, _, rest = code(TEXT).replace(optimizer, "").partition("if resumed:\n")
    wrapped = rest.partition("else:")[0].lstrip()
    new = rewritten(plan_of(tmp_path, f"{head}{wrapped}{optimizer}{rest[rest.index('best = 0') :]}"))
    assert new.index("\nmodel = load_model(") < new.index("UPA.perforate_model(") < new.index("setup_optimizer(")


@pytest.mark.parametrize(
    ("other", "perforated"),
    [
        pytest.param("DDP(model)", 1, id="by no function"),
        pytest.param("DDP(model.cuda())", 1, id="moved"),
        pytest.param("DDP(load_model(model, first))", 2, id="by that function too"),
    ],
)
def test_what_one_of_two_wrappers_gets_back_is_perforated_before_both_where_the_other_gets_it_as_it_is(
    tmp_path: Path, other: str, perforated: int
) -> None:
    optimizer = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    text = code(TEXT).replace(optimizer, "").replace("model = DDP(model)", f"model = {other}")
    plan = plan_of(tmp_path, text.replace("best = 0\n", f"{optimizer}best = 0\n"))
    assert plan.questions == []
    new = rewritten(plan)
    assert new.count("UPA.perforate_model(") == perforated
    assert (new.index("UPA.perforate_model(") < new.index("if resumed:")) is (perforated == 1)


def test_a_layer_that_a_function_puts_into_what_it_gives_back_is_asked_about(tmp_path: Path) -> None:
    optimizer = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    text = code(TEXT).replace(optimizer, "").replace("net.load_state_dict(state)", "net.head = torch.nn.Linear(8, 2)")
    asked = plan_of(tmp_path, text.replace("best = 0\n", f"{optimizer}best = 0\n")).questions
    assert [one.code for one in asked] == ["PAI102"]


def test_a_function_that_makes_another_model_gives_none_back(tmp_path: Path) -> None:
    text = code(TEXT).replace("    return net\n", "    return Larger(net)\n")
    assert any(one.code == "PAI102" for one in plan_of(tmp_path, text).questions)
