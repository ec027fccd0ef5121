"""A collective that some ranks alone come to is told as the script is rewritten: a run of it hangs there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import plan_of, script

SCORE = "acc = evaluate(model)\nif acc > best:\n    best = acc"
DIST = "import torch.distributed as dist\n"
REDUCING = f"{DIST}def mean(value):\n    dist.all_reduce(value)\n    return value\n"
LEFT = "if dist.get_rank() != 0:\n        return\n    "


def told(folder: Path, epoch: str, before: str, wrapper: str = "DDP(model)") -> list[str]:
    text = script(f"{epoch}\n{SCORE}", f"{before}best = 0\n")
    plan = plan_of(folder, text.replace("DDP(model)", wrapper))
    assert not plan.questions
    return [note.message for note in plan.notes if note.code == "PAI123"]


@pytest.mark.parametrize(
    ("epoch", "before"),
    [
        pytest.param("if dist.get_rank() == 0:\n    dist.all_reduce(loss)", DIST, id="here"),
        pytest.param("if dist.get_rank() == 0:\n    print(mean(loss))", REDUCING, id="in a function"),
        pytest.param("mean(loss)", REDUCING.replace("dist.all_reduce", f"{LEFT}dist.all_reduce"), id="behind a return"),
    ],
)
def test_collective_that_rank_0_alone_comes_to_is_told(tmp_path: Path, epoch: str, before: str) -> None:
    (message,) = told(tmp_path, epoch, before)
    assert "`all_reduce` waits for every rank, but rank 0 alone comes here" in message


@pytest.mark.parametrize(
    ("epoch", "before"),
    [
        pytest.param("mean(loss)\nif dist.get_rank() == 0:\n    print(loss)", REDUCING, id="on all ranks"),
        pytest.param(
            "if dist.get_rank() == 0:\n    dist.barrier()\nelse:\n    dist.barrier()", DIST, id="in both branches"
        ),
        pytest.param("if dist.get_rank() == 0:\n    dist.all_reduce(loss, group=some)", DIST, id="of some ranks"),
        pytest.param(
            "if dist.get_rank() == 0:\n    dist.barrier(some)", f"{DIST}some = dist.new_group([0])\n", id="of a group"
        ),
        pytest.param("if dist.get_world_size() > 1:\n    dist.all_reduce(loss)", DIST, id="under another condition"),
        pytest.param("pass", REDUCING.replace("dist.all", "if dist.get_rank() == 0: dist.all"), id="called nowhere"),
    ],
)
def test_no_other_collective_is_told(tmp_path: Path, epoch: str, before: str) -> None:
    assert told(tmp_path, epoch, before) == []


def test_nor_one_beside_data_parallel(tmp_path: Path) -> None:
    epoch = "if dist.get_rank() == 0:\n    dist.all_reduce(loss)"
    assert told(tmp_path, epoch, DIST, "torch.nn.DataParallel(model)") == []


def test_one_that_another_file_keeps_to_rank_0_is_told(tmp_path: Path) -> None:
    """The condition is no code of the script's own file."""
    validating = "def evaluate(model):\n    model.eval()\n    return sum(model(x) for x in held)\n"
    ranked = "    if dist.get_rank() == 0:\n        dist.all"
    (tmp_path / "parts.py").write_text(validating + REDUCING.replace("    dist.all", ranked))
    (message,) = told(tmp_path, "mean(loss)", "from parts import evaluate, mean\n")
    assert "`all_reduce` waits for every rank, but rank 0 alone comes here" in message
