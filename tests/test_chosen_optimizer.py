"""A script may build several optimizers of a model, and step one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import code, plan_of, rewritten

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
