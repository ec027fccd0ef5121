"""A score that adds up over all epochs is told, and one that begins anew in each is taken."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from retrofit.options import Options
from tests.helpers import plan_of, rewritten, script, survey_of

_BEFORE = """
import numpy as np, torchmetrics


class Meter:
    def __init__(self):
        self.clear()

    def clear(self):
        self.total = self.count = 0

    def update(self, value):
        self.total += value
        self.count += 1

    def average(self):
        return self.total / self.count


class Plain:
    def __init__(self):
        self.total, self.count, self.avg = 0, 0, 0

    def update(self, value):
        self.total += value
        self.count += 1
        self.avg = self.total / self.count


def validate(model, found):
    for x, y in held_out:
        found.append(hits(model(x), y))
    return np.mean(found)


def begin(metric):
    metric.reset()


def of_all(model):
    found = []
    for x, y in held_out:
        found.append(hits(model(x), y))
    return sum(found) / len(found)


meter, plain, metric = Meter(), Plain(), 0
acc_of = torchmetrics.Accuracy()
total, right, accs, known = 0, 0, [], [1]
counts = torch.zeros(1)
best = 0
"""
PASS = "with torch.no_grad():\n    for x, y in held_out:\n        "
BEST = "\nbest = max(best, acc)"


def carried_in(epoch: str) -> str:
    (score,) = survey_of(script(epoch, _BEFORE)).scores
    return score.carried[0]


@pytest.mark.parametrize(
    ("epoch", "name"),
    [
        pytest.param(f"accs.append(evaluate(model))\nacc = np.mean(accs){BEST}", "accs", id="a list of the epochs"),
        pytest.param(f"{PASS}accs.append(hits(model(x), y))\nacc = sum(accs) / len(accs){BEST}", "accs", id="batches"),
        pytest.param(f"accs = [*accs, evaluate(model)]\nacc = np.mean(accs){BEST}", "accs", id="a list around"),
        pytest.param(
            f"accs.append(evaluate(model))\nacc = np.mean(accs){BEST}\naccs = accs[:9]", "accs", id="cut off at its end"
        ),
        pytest.param(f"acc = validate(model, accs){BEST}", "accs", id="a function's argument"),
        pytest.param(f"{PASS}right += hits(model(x), y)\nacc = right / len(held_out){BEST}", "right", id="a sum"),
        pytest.param(f"{PASS}meter.update(hits(model(x), y))\nacc = meter.average(){BEST}", "self.total", id="a meter"),
        pytest.param(
            f"{PASS}plain.update(hits(model(x), y))\nbest = max(best, plain.avg)", "self.total", id="an attribute"
        ),
        pytest.param(f"{PASS}counts.add(hits(model(x), y))\nacc = counts / 9{BEST}", "counts", id="a tensor"),
        pytest.param(f"{PASS}acc_of.update(model(x), y)\nacc = acc_of.compute(){BEST}", "acc_of", id="torchmetrics"),
        pytest.param(f"{PASS}right += hits(model(x), y)\nacc = right - known{BEST}", "right", id="less something else"),
        pytest.param(
            f"total += evaluate(model)\nacc = total - right{BEST}\nif epoch == 0:\n    right = total",
            "total",
            id="since the first",
        ),
        pytest.param(
            "total += evaluate(model)\nif epoch % 5 == 0:\n    acc = total - right\n    best = max(best, acc)\n"
            "if epoch % 10 == 0:\n    right = total",
            "total",
            id="since then, or since the one before",
        ),
    ],
)
def test_a_score_of_all_epochs_so_far_is_told(epoch: str, name: str) -> None:
    assert carried_in(epoch) == name


@pytest.mark.parametrize(
    "epoch",
    [
        pytest.param(f"accs.append(evaluate(model))\nacc = accs[-1]{BEST}", id="the newest of a list"),
        pytest.param("acc = evaluate(model)\naccs.append(acc)\nif acc >= max(accs):\n    save(model)", id="its best"),
        pytest.param(f"accs = []\n{PASS}accs.append(hits(model(x), y))\nacc = np.mean(accs){BEST}", id="begun anew"),
        pytest.param(
            f"accs.append(evaluate(model))\nacc = np.mean(accs){BEST}\naccs = accs[9:]",
            id="begun anew with the last",
        ),
        pytest.param(
            f"{PASS}accs.append(hits(x))\nacc = np.mean(accs){BEST}\naccs = accs[:0]", id="cut off at its beginning"
        ),
        *(
            pytest.param(f"{newest}\naccs = accs[:3]\nacc = np.mean(accs){BEST}", id=f"the newest three: {newest}")
            for newest in (
                "accs.insert(0, evaluate(model))",
                "accs = [evaluate(model), *accs]",
                "accs = [evaluate(model)] + accs",
            )
        ),
        pytest.param(f"accs = [accs[-1], evaluate(model)]\nacc = np.mean(accs){BEST}", id="a list of two"),
        pytest.param(f"accs.clear()\n{PASS}accs.append(hits(model(x), y))\nacc = np.mean(accs){BEST}", id="emptied"),
        pytest.param(f"acc = validate(model, []){BEST}", id="another list in each epoch"),
        pytest.param(f"{PASS}right += hits(model(x), y)\nacc = right / 9{BEST}\nright = 0", id="begun anew at the end"),
        pytest.param(f"meter.clear()\n{PASS}meter.update(hits(x, y))\nacc = meter.average(){BEST}", id="a meter's own"),
        pytest.param(
            f"counts.zero_()\n{PASS}counts.add(hits(model(x), y))\nacc = counts / 9{BEST}", id="a tensor, set to zero"
        ),
        pytest.param(f"begin(acc_of)\n{PASS}acc_of.update(model(x), y)\nacc = acc_of.compute(){BEST}", id="elsewhere"),
        pytest.param(f"acc = evaluate(model, right){BEST}\nright += 1", id="given the number of the turn"),
        pytest.param(
            f"{PASS}right += hits(model(x), y)\nacc = (right - total) / 9{BEST}\ntotal = float(right)", id="since then"
        ),
        pytest.param(
            f"{PASS}right += hits(model(x), y)\nif epoch % 5 == 0:\n    acc = right - total\n"
            "    best = max(best, acc)\n    with lock:\n        total = right",
            id="since then, under one condition",
        ),
        pytest.param(f"acc = of_all(model){BEST}\ntotal += acc\nprint(total)", id="another sum"),
    ],
)
def test_one_that_begins_anew_in_each_epoch_is_taken(epoch: str) -> None:
    assert carried_in(epoch) == ""


def test_one_that_the_user_names_is_taken_with_a_note(tmp_path: Path) -> None:
    text = script(f"accs.append(evaluate(model))\nacc = np.mean(accs){BEST}", "import numpy as np\naccs, best = [], 0")
    plan = plan_of(tmp_path, text, Options(metric="acc", mode="max"))
    (note,) = [note for note in plan.notes if note.code == "PAI012"]
    assert "`acc` is of all epochs so far: `accs`" in note.message
    assert "report_validation_score(acc, model)" in rewritten(plan)


MEASURES = """
model.eval()
val_loss = 0.0
with torch.no_grad():
    for x, y in held_out:
        val_loss += criterion(model(x), y)
val_loss /= 9
val_losses += [val_loss]
"""


@pytest.mark.parametrize("cut", ["", "\nval_losses = val_losses[:9]"])
@pytest.mark.parametrize(
    ("made", "score"),
    [
        pytest.param("val_loss_tensor = torch.tensor(val_losses)\ntorch.save(val_loss_tensor, 'losses')", "val_loss"),
        pytest.param("val_loss_log = torch.log(val_loss)", "val_loss_log"),
    ],
    ids=["all so far", "this epoch's"],
)
def test_one_of_this_epoch_comes_before_what_is_of_all(made: str, score: str, cut: str) -> None:
    (found,) = survey_of(script(f"{MEASURES}{made}{cut}", "val_losses = []")).scores
    assert (found.expression, found.carried[0]) == (score, "")


LOGS = """
class Log:
    def __init__(self):
        self.epoch = 0

    def values(self):
        found = {"epoch": self.epoch}
        found.update({"loss": measure()})
        print(found)

log = Log()
"""


def test_an_item_is_not_of_what_those_beside_it_are_of(tmp_path: Path) -> None:
    text = script("log.epoch += 2\nlog.values()", LOGS)
    plan = plan_of(tmp_path, text, Options(metric="found['loss']", mode="min"))
    assert (plan.questions, [one.message for one in plan.notes if "of all epochs so far" in one.message]) == ([], [])


TRACKED = f"{PASS}meter.update(hits(model(x), y))\nif meter.avg > best:\n    best = meter.avg\n"
FILLED = f"{PASS}accs.append(hits(model(x), y))\nif np.mean(accs) > best:\n    best = np.mean(accs)\n"
CALL = "    pai_distributed.report_validation_score("


@pytest.mark.parametrize(
    ("epoch", "new"),
    [
        pytest.param(
            f"{TRACKED}meter.reset()\nlog()",
            f"    pai_score = meter.avg\n    meter.reset()\n    log()\n{CALL}pai_score, model)\n",
            id="at once",
        ),
        pytest.param(
            f"{TRACKED}if rank == 0:\n    log(meter)\n    meter.reset()\nend()",
            "    pai_score = meter.avg\n    if rank == 0:\n        log(meter)\n        meter.reset()\n    end()\n"
            f"{CALL}pai_score, model)",
            id="in a branch",
        ),
        pytest.param(
            f"{TRACKED}tell(meter)\nend()",
            f"    pai_score = meter.avg\n    tell(meter)\n    end()\n{CALL}pai_score, model)",
            id="in a function",
        ),
        pytest.param(
            f"if epoch % 5 == 0:\n{indent(TRACKED, '    ')}    meter.reset()\n    log()",
            "            best = meter.avg\n        pai_score = meter.avg\n        meter.reset()\n",
            id="under its condition",
        ),
        pytest.param(
            f"{FILLED}accs = []\nlog()",
            f"    pai_score = np.mean(accs)\n    accs = []\n    log()\n{CALL}pai_score, model)\n",
            id="a list",
        ),
        pytest.param(
            "stats['acc'] = evaluate(model)\nbest = max(best, stats['acc'])\nstats['acc'] = 0\nlog()",
            f"    pai_score = stats['acc']\n    stats['acc'] = 0\n    log()\n{CALL}pai_score, model)\n",
            id="an item",
        ),
        pytest.param(f"meter.reset()\n{TRACKED}log()", f"    log()\n{CALL}meter.avg, model)", id="before it is filled"),
        pytest.param(f"{TRACKED}other.reset()\nlog()", f"    log()\n{CALL}meter.avg, model)", id="another"),
        pytest.param(f"{TRACKED}tell(other)\nlog()", f"    log()\n{CALL}meter.avg, model)", id="another's function"),
    ],
)
def test_a_score_is_taken_before_it_begins_anew(tmp_path: Path, epoch: str, new: str) -> None:
    before = (
        "from meters import Meter\ndef tell(one):\n    log(one)\n    one.reset()\nmeter, other = Meter(), Meter()\n"
    )
    assert new in rewritten(plan_of(tmp_path, script(epoch, f"{before}accs, stats = [], {{}}\nbest = 0\n")))


COUNTED = """\
hits = 0.0
for x, y in held_out:
    hits += right(model(x), y)
log("valid", (hits / 9))
hits = 0.0
for x, y in kept_out:
    hits += right(model(x), y)
log("test", hits / 9)
"""


def test_an_expression_that_the_user_names_is_taken_where_the_loop_first_says_it(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, script(COUNTED), Options(metric="hits/9", mode="max"))
    assert plan.questions == []
    lines = [line.strip() for line in rewritten(plan).splitlines()]
    assert lines[lines.index('log("valid", (hits / 9))') - 1] == "pai_score = hits / 9"
    assert lines[lines.index('log("test", hits / 9)') + 1] == CALL.strip() + "pai_score, model)"
