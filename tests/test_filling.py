"""A score out of what each epoch makes anew and fills is handed over after the last statement that fills it."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from retrofit.options import Options
from tests.helpers import code, plan_of, rewritten

#: An epoch that makes an object, trains, validates and keeps the best; tests replace the words in capitals.
EPOCH = """
import numpy as np
import torch
from torch.nn.parallel import DistributedDataParallel as DDP


def train_one_epoch(model, state):
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        state['loss'] = loss.item()


def evaluate(model, held):
    with torch.no_grad():
        for x, y in val_loader:
            held.update(hits(model(x), y))


def measure(model, held):
    result = 0
    with torch.no_grad():
        for x, y in val_loader:
            result += hits(model(x), y)
    held['acc'] = result


model = DDP(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best, st, other = 0, {}, {}
for epoch in range(10):
    MADE
    train_one_epoch(model, other)
    model.eval()
    FILLED
    AFTER
"""
#: How a validation fills its object batch by batch.
BATCHES = "with torch.no_grad():\n        for x, y in val_loader:\n            "
KEPT = "if SCORE > best:\n        best = SCORE"
BY_RANK = "if rank == 0 and SCORE > best:\n        best = SCORE"
SHOWN = "log(SCORE)"

FILLED = [
    pytest.param("m = AverageMeter()", BATCHES + "m.update(hits(x))", "m.avg", id="a meter"),
    pytest.param("m = new_meter()", BATCHES + "m.update(hits(x))", "m.avg", id="a meter that a function makes"),
    pytest.param(
        "ms = {'acc': AverageMeter(), 'loss': AverageMeter()}",
        BATCHES + "ms['acc'].update(hits(x))",
        "ms['acc'].avg",
        id="a dict of meters",
    ),
    pytest.param(
        "ms = {name: AverageMeter() for name in names}",
        BATCHES + "ms['acc'].update(hits(x))",
        "ms['acc'].avg",
        id="meters that a comprehension makes",
    ),
    pytest.param("accs = []", BATCHES + "accs.append(hits(x))", "np.mean(accs)", id="a list"),
    pytest.param("sums = torch.zeros(2).cuda()", BATCHES + "sums[0] += hits(x)", "sums[0]", id="a tensor's item"),
    pytest.param("hit = torch.zeros(1).cuda()", BATCHES + "hit.add_(hits(x))", "hit.item()", id="a tensor in place"),
    pytest.param("judge = Judge(9)", BATCHES + "judge.see(x, y)", "judge.miou()", id="by a method of any name"),
    pytest.param("m = new_meter()", "evaluate(model, m)", "m.avg", id="by a function that is given it"),
    pytest.param("st = {'lr': rate()}", "measure(model, st)", "st['acc']", id="a dict without the item"),
    pytest.param(
        "st = {'lr': 1}\n    st.update(n=2)", "engine.measure(st)", "st['acc']", id="perhaps by what is unknown"
    ),
    pytest.param(
        "if small:\n        m = Meter(1)\n    else:\n        m = Meter(2)",
        "evaluate(model, m)",
        "m.avg",
        id="made in either branch",
    ),
]
BEFORE = pytest.param("st.update(lr=rate())", "measure(model, st)", "st['acc']", id="a dict that is there before")


def epoch(made: str, filled: str, after: str, score: str) -> str:
    text = code(EPOCH).replace("MADE", made).replace("FILLED", filled).replace("AFTER", after)
    return text.replace("SCORE", score)


def handed_over(folder: Path, text: str, metric: str = "") -> list[str]:
    """Return the lines of the epoch before the score is handed over."""
    plan = plan_of(folder, text, Options(metric=metric, mode="max" if metric else ""))
    assert plan.questions == []
    before, _, _ = rewritten(plan).partition("pai_distributed.report_validation_score(")
    return [line.strip() for line in before.rpartition("range(10)")[2].splitlines()]


@pytest.mark.parametrize(("made", "filled", "score"), FILLED)
@pytest.mark.parametrize("kept", [KEPT, BY_RANK])
def test_a_best_is_handed_over_after_what_fills_it(
    tmp_path: Path, made: str, filled: str, score: str, kept: str
) -> None:
    assert filled.splitlines()[-1].strip() in handed_over(tmp_path, epoch(made, filled, kept, score))


@pytest.mark.parametrize(("made", "filled", "score"), [*FILLED, BEFORE])
def test_what_is_named_is_handed_over_after_what_fills_it(tmp_path: Path, made: str, filled: str, score: str) -> None:
    lines = handed_over(tmp_path, epoch(made, filled, "log(SCORE)", score), score)
    assert filled.splitlines()[-1].strip() in lines


def test_what_a_training_gives_to_a_dict_is_handed_over_after_it(tmp_path: Path) -> None:
    text = epoch("other.update(lr=rate())", "show(model)", "pass", "")
    assert "train_one_epoch(model, other)" in handed_over(tmp_path, text, "other['loss']")


def test_a_meter_that_some_epochs_fill_is_handed_over_in_these(tmp_path: Path) -> None:
    text = epoch("m = new_meter()", "if epoch % 5 == 0:\n        evaluate(model, m)", "log(SCORE)", "m.avg")
    named = handed_over(tmp_path, text.replace("new_meter", "Meter"), "m.avg")
    assert named[named.index("evaluate(model, m)") + 1] == "pai_score = m.avg"


#: How a function fills a meter of a dict that it is given, by another name than the dict's.
RENAMED = {
    "by the items in turn": "for name, one in held.items():\n    one.update(hits(name))",
    "by the values in turn": "for one in held.values():\n    one.see(model)",
    "by the values beside others": "for name, one in zip(names, held.values()):\n    one.update(hits(name))",
    "by a comprehension": "[one.update(hits(model)) for one in held.values()]",
    "by a variable": "one = held['acc']\none.update(hits(model))",
    "by a variable of a key": "for name in names:\n    one = held[name]\n    one.update(hits(model))",
    "by a function that is given each": "for one in held.values():\n    evaluate(model, one)",
}
#: How it reads it so.
READ = {
    "shown in turn": "for name, one in held.items():\n    print(name, one)",
    "taken out in turn": "for name, one in held.items():\n    other[name].append(one.avg)",
    "begun anew in turn": "for one in held.values():\n    one.reset()",
    "other items by their variable": "one = other['acc']\none.update(hits(model))",
}


def in_some_epochs(folder: Path, body: str, metric: str) -> list[str]:
    """Return the lines of an epoch before a metric is handed over that a function may fill in every fifth one."""
    text = epoch("pass", "if epoch % 5 == 0:\n        fill(model, ms)", "show(model)", "")
    text = text.replace(
        "\nmodel = DDP", f"\ndef fill(model, held):\n{indent(body, '    ')}\n\n\nms = begin()\nmodel = DDP"
    )
    return handed_over(folder, text, metric)


@pytest.mark.parametrize("body", RENAMED.values(), ids=RENAMED)
def test_a_meter_that_a_function_fills_by_another_name_is_handed_over_after_it(tmp_path: Path, body: str) -> None:
    lines = in_some_epochs(tmp_path, body, "ms['acc'].avg")
    assert lines[lines.index("fill(model, ms)") + 1] == "pai_score = ms['acc'].avg"


@pytest.mark.parametrize("body", READ.values(), ids=READ)
def test_a_meter_that_a_function_reads_by_another_name_is_not_filled_there(tmp_path: Path, body: str) -> None:
    lines = in_some_epochs(tmp_path, body, "ms['acc'].avg")
    assert lines[lines.index("fill(model, ms)") + 1] == "show(model)"


def test_what_is_read_in_turn_is_not_filled_there(tmp_path: Path) -> None:
    lines = in_some_epochs(tmp_path, "for one in held.values():\n    one.backward()", "ms['acc']")
    assert lines[lines.index("fill(model, ms)") + 1] == "show(model)"


def test_what_reads_an_object_alone_does_not_fill_it(tmp_path: Path) -> None:
    text = epoch("m = AverageMeter()\n    evaluate(model, m)", "print(m)", "log(SCORE)", "m.avg")
    lines = handed_over(tmp_path, text, "m.avg")
    assert "train_one_epoch(model, other)" not in lines
