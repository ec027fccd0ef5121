"""A checkpoint that a script has saved in an earlier round neither ends a later one, nor keeps it from training."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import code, plan_of, rewritten, survey_of

SCRIPT = """
import os, sys, torch
from torch.nn.parallel import DistributedDataParallel as DDP

def main():
    model = Net()
    model = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best, first, stopper, stop = 0, 0, Stopper(), False
    if os.path.exists("last.pt"):
        state = torch.load("last.pt")
        model.load_state_dict(state["model"])
        RESUMED
    BEGUN
    for epoch in range(first, 10):
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        acc = evaluate(model)
        if acc > best:
            best = acc
        ENDED
        torch.save({"model": model.state_dict(), "epoch": epoch}, "last.pt")

main()
"""
STOPS = "stopper(acc)\nif stopper.stop:\n    break"


def resumed(taken: str = "pass", begun: str = "pass", ended: str = "pass") -> str:
    """Return the script that takes something from its checkpoint, looks at it before the loop, and ends in it."""
    text = code(SCRIPT).replace("RESUMED", taken.replace("\n", "\n        "))
    return text.replace("BEGUN", begun.replace("\n", "\n    ")).replace("ENDED", ended.replace("\n", "\n        "))


@pytest.mark.parametrize(
    ("text", "guarded"),
    [
        pytest.param(
            resumed("first = state['epoch'] + 1", "if first >= 10:\n    return"), "    return", id="all epochs are over"
        ),
        pytest.param(resumed("if state['finished']:\n    sys.exit()"), "    sys.exit()", id="a flag says so"),
        pytest.param(
            resumed("stopper.load_state_dict(state['stopper'])", ended=STOPS), "stopper.load_state_dict", id="stopping"
        ),
        pytest.param(
            resumed("stopper.__dict__.update(state['stopper'])", ended=STOPS), "stopper.__dict__", id="its attributes"
        ),
        pytest.param(
            resumed("stopper.bad, stopper.best = state['stopper']", ended=STOPS), "stopper.bad, ", id="two of them"
        ),
        pytest.param(resumed("stop = state['stop']", ended="if stop:\n    break"), "stop = state", id="a flag"),
        pytest.param(
            resumed("stopper = state['stopper']", ended="if stopper(acc):\n    break"),
            "stopper = state",
            id="an object",
        ),
    ],
)
def test_what_ends_a_training_by_an_earlier_rounds_checkpoint_does_so_in_the_first(
    tmp_path: Path, text: str, guarded: str
) -> None:
    plan = plan_of(tmp_path, text)
    assert len(plan.script.resumptions) == 1
    lines = [line.removeprefix("        ").removeprefix("    ") for line in rewritten(plan).splitlines()]
    (line,) = [
        n for n, one in enumerate(lines) if one.strip().startswith(guarded.strip()) and "load_folder" in lines[n - 1]
    ]
    assert lines[line - 1].strip() == "if not pai_distributed.load_folder():"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(resumed("first = state['epoch'] + 1"), id="a counter"),
        pytest.param(resumed("best = state['best']", ended="if acc > best:\n    best = acc"), id="the best so far"),
        pytest.param(resumed("stopper.load_state_dict(state['stopper'])"), id="stops nothing"),
        pytest.param(
            resumed("pass", "kept = {'first': state['epoch'], 'worse': 0}", ended="if kept['worse'] > 3:\n    break"),
            id="all that begins a name, which is read later",
        ),
        pytest.param(resumed("pass", "if only_test:\n    evaluate(model)\n    return"), id="leaves by an option"),
        pytest.param(resumed("if 'model' not in state:\n    raise ValueError"), id="raises"),
        pytest.param(resumed(ended="if epoch > 5:\n    break"), id="a number of epochs"),
        pytest.param(
            resumed("stop = state['stop']", ended="if stop:\n    break").replace("torch.save(", "print("),
            id="not its own",
        ),
    ],
)
def test_what_an_earlier_rounds_checkpoint_does_not_end_is_left_alone(text: str) -> None:
    assert survey_of(text).resumptions == []
