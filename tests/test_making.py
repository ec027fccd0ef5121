"""What makes a value that may be the score: an evaluation, or the pass that trains; and what is asked where it does."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent

import pytest

from retrofit.options import Options
from tests.helpers import code, plan_of, rewritten, script, survey_of

FUNCTIONS = """
def train(net):
    net.train()
    total, right = 0, 0
    for x, y in loader:
        out = net(x)
        loss = criterion(out, y)
        loss.backward()
        total += loss.item()
        right += hits(out, y)
    total /= len(loader)
    return total, right

def check(net):
    net.eval()
    right = 0
    for x, y in held_out:
        right += hits(net(x), y)
    return right / len(held_out)

def both(net, data, optimizer=None):
    learns, total = optimizer is not None, 0
    for x, y in data:
        loss = criterion(net(x), y)
        if learns:
            loss.backward()
        total += loss.item()
    return total

def told(net):
    total = 0
    for x, y in loader:
        loss = criterion(net(x), y)
        if net.training:
            loss.backward()
        total += loss.item()
    return total

def whole(net):
    stats, meter = {}, Meter()
    for x, y in loader:
        loss = criterion(net(x), y)
        loss.backward()
        meter.update(loss.item())
    stats['learnt'] = meter.avg
    with torch.no_grad():
        stats['known'] = hits(net(val_x), val_y)
    return stats

def embed(net):
    return [net(x) for x in held_out]

def mean(values):
    return sum(values) / len(values)

def one(x, y):
    return criterion(model(x), y)

def gathered(parts):
    with torch.no_grad():
        values = []
        for key in sorted(parts.keys()):
            values.append(parts[key])
        values = reduce(torch.stack(values))
    return dict(zip(parts, values))
"""
#: A meter of the project's own, which tells by a method that goes through what it holds.
TAPE = """
class Tape:
    def __init__(self):
        self.sums, self.turns = {}, 0

    def update(self, losses, n):
        self.turns += n
        for k, v in losses.items():
            self.sums[k] += v.clone().detach()

    def add(self, net, data):
        for x, y in data:
            self.sums['all'] += criterion(net(x), y)

    def log(self, turn):
        means = Easy({k: v / self.turns for k, v in self.sums.items()})
        return means['all']

def taped(net):
    tape = Tape()
    with torch.no_grad():
        for x, y in held_out:
            tape.update({'all': criterion(net(x), y)}, 1)
    return tape.log(1)

tape = Tape()
"""
#: The batch loop of the script, with what stands at its end.
BATCHES = "        optimizer.step()\n"


@pytest.mark.parametrize(
    ("batch", "epoch", "made"),
    [
        pytest.param("", "a, b = train(model)", "trained", id="returned by what trains"),
        pytest.param("", "b, a = train(model)", "trained", id="another one of these"),
        pytest.param("", "a = check(model)", "evaluated", id="returned by what evaluates"),
        pytest.param("", "b = train(model)\na = check(model)", "evaluated", id="beside the training"),
        pytest.param("", "a = both(model, loader, optimizer)", "trained", id="of a function that does both, training"),
        pytest.param("", "a = both(model, held_out)", "evaluated", id="of a function that does both, evaluating"),
        pytest.param("", "a = both(model, x, optimizer=None)", "evaluated", id="the same by keyword"),
        pytest.param("", "model.train()\na = told(model)", "trained", id="by the model's mode, training"),
        pytest.param("", "model.eval()\na = told(model)", "evaluated", id="by the model's mode, evaluating"),
        pytest.param("", "a = told(model)", "", id="by a mode that nothing tells"),
        pytest.param("", "a = whole(model)['learnt']", "trained", id="item of what does both"),
        pytest.param("", "s = whole(model)\na = s['known']", "evaluated", id="the other item"),
        pytest.param("", "a = knn(embed(model))", "evaluated", id="of collected outputs"),
        pytest.param("", "a = somewhere.run(model)", "", id="of something unknown"),
        pytest.param("", "a = evaluate(model)", "evaluated", id="of something unknown that is said to evaluate"),
        pytest.param("all.append(loss.item())", "a = mean(all)", "trained", id="mean of a list"),
        pytest.param("all.append(loss.item())", "a = np.mean(all)", "trained", id="mean of a list by a library"),
        pytest.param("meter.update(loss, 1)", "a = meter.avg", "trained", id="meter"),
        pytest.param("self.meter.update(loss, 1)", "a = self.meter.avg", "trained", id="meter in an attribute"),
        pytest.param("total += loss.item()", "a = total / len(loader)", "trained", id="sum"),
        pytest.param("with torch.no_grad(): total += hits(model(x), y)", "a = total", "trained", id="second pass"),
        pytest.param(
            "with torch.no_grad():\n            u = x.flip(0)\n            total += hits(model(u), y)", "a = total",
            "trained", id="second pass of what is made of its batch",
        ),
        pytest.param(
            "x, y = val_x, val_y\n        with torch.no_grad(): total += hits(model(x), y)", "a = total", "evaluated",
            id="pass of another batch by the same names",
        ),
        pytest.param("with torch.no_grad(): total += hits(loss, y)", "a = total", "trained", id="of the first pass"),
        pytest.param(
            "with torch.no_grad(): goal = teacher(x)\n        total += distance(loss, goal)", "a = total", "trained",
            id="against a teacher",
        ),
        pytest.param(
            "with torch.no_grad():\n            for one, told in zip(loss, y): right.append(float(one == told))",
            "a = mean(right)",
            "trained",
            id="of the parts of its batch",
        ),
        pytest.param(
            "with torch.no_grad():\n            for u, v in held_out: right.append(float(net.head(u) == v))",
            "a = mean(right)",
            "evaluated",
            id="of other data, within its turn",
        ),
        pytest.param(
            "total = 0\n        bar = tqdm(held_out)\n        with torch.no_grad():\n            for u in bar:\n"
            "                total += model(u)",
            "a = total", "evaluated", id="of other data in a progress bar, within its turn",
        ),
        pytest.param(
            "total = 0\n        bar = tqdm(x)\n        for u in bar: total += loss * u", "a = total", "trained",
            id="of its batch in a progress bar",
        ),
        pytest.param(
            "with torch.no_grad():\n            check(model)\n            total = score(name)", "a = total",
            "evaluated", id="of a file, within its turn",
        ),
        pytest.param("total += gathered({'nll': loss})['nll']", "a = total", "trained", id="of losses of all ranks"),
        pytest.param(
            "", "total = 0\nwith torch.no_grad():\n    for x, y in rest:\n        out = model(x)\n"
            "        total += gathered({'nll': out})['nll']\na = total",
            "evaluated",
            id="of those of an evaluation",
        ),
        pytest.param("metric(loss, y)", "a = metric.compute()", "trained", id="metric"),
        pytest.param(
            "metric(loss, y)",
            "log(metric.compute())\nmetric.reset()\nmodel.eval()\nfor x, y in rest:\n    metric(model(x), y)\n"
            "a = metric.compute()",
            "evaluated",
            id="metric that begins anew",
        ),
        pytest.param(
            "total += loss.item()",
            "log(total)\ntotal = 0\nwith torch.no_grad():\n    for x, y in rest:\n"
            "        loss = criterion(model(x), y)\n        total += loss.item()\na = total",
            "evaluated",
            id="the same names once more",
        ),
        pytest.param(
            "h['train'].append(loss)",
            "h['val'].append(check(model))\na = h['train'][-1]",
            "trained",
            id="one of several histories",
        ),
        pytest.param(
            "h['train'].append(loss)", "h['val'].append(check(model))\na = h['val'][-1]", "evaluated", id="another"
        ),
        pytest.param(
            "", "total = 0\nwith torch.no_grad():\n    for x, y in rest:\n        total += one(x, y)\na = total",
            "evaluated",
            id="by a step of both",
        ),
        pytest.param("total += one(x, y)", "a = total", "trained", id="by that step in training"),
        pytest.param("", "a, b = train(model)\na = reduced(torch.tensor(a))", "trained", id="reduced over ranks"),
        pytest.param(
            "",
            "for phase in ['train', 'val']:\n    a = 0\n    for x, y in sets[phase]:\n"
            "        l = criterion(model(x), y)\n"
            "        if phase == 'train':\n            l.backward()\n        a += l.item()",
            "evaluated",
            id="last of two phases",
        ),
        pytest.param(
            "",
            "for phase in ['val', 'train']:\n    a = 0\n    for x, y in sets[phase]:\n"
            "        l = criterion(model(x), y)\n"
            "        if phase == 'train':\n            l.backward()\n        a += l.item()",
            "trained",
            id="last of two phases, training",
        ),
    ],
)  # fmt: skip
def test_what_makes_a_value(batch: str, epoch: str, made: str) -> None:
    text = script(f"{epoch}\nif a < best:\n    best = a", code(FUNCTIONS) + "best = 9")
    text = text.replace(BATCHES, f"{BATCHES}        {batch}\n" if batch else BATCHES)
    (score,) = survey_of(text).scores
    assert (score.expression, score.made) == ("a", made)


@pytest.mark.parametrize(
    ("batch", "epoch", "made"),
    [
        ("", "a = taped(model)", "evaluated"),
        ("tape.update({'all': loss}, 1)", "a = tape.log(1)", "trained"),
        ("tape.update({'all': loss}, 1)\n        tape.update({'rate': rates[0]}, 1)", "a = tape.log(1)", "trained"),
        ("", "tape.add(model, held_out)\na = tape.log(1)", "evaluated"),
    ],
)
def test_what_an_object_tells_is_made_by_what_fills_it(batch: str, epoch: str, made: str) -> None:
    text = script(f"{epoch}\nif a < best:\n    best = a", code(TAPE) + "best = 9")
    (score,) = survey_of(text.replace(BATCHES, f"{BATCHES}        {batch}\n" if batch else BATCHES)).scores
    assert (score.expression, score.made) == ("a", made)


HELD = """
@torch.no_grad()
def gathered(x):
    parts = [torch.ones_like(x) for _ in range(4)]
    return torch.cat(parts)

best, total = 9, 0
"""


MEASURED = """
import torch
from torch import nn

model = nn.DataParallel(nn.Linear(4, 4)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def logits_of(net, x):
    return net(x).gather(-1, x.argmax(-1, keepdim=True))

def gap(own, other):
    with torch.no_grad():
        wins = (own > other).float().mean().item()
    return (own - other).mean(), {"wins": wins}

wins, step = [], 0
while step < 100:
    x = next(batches)
    with torch.no_grad():
        other = logits_of(teacher, x)
    loss, stats = gap(logits_of(model, x), other)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    wins.append(stats["wins"])
    if step % 10 == 0:
        acc = sum(wins) / len(wins)
        wins.clear()
    step += 1
"""
#: The same on a batch of other data.
OTHER = "    x = held\n    with torch.no_grad():\n        stats = gap(logits_of(model, x), x)[1]\n    wins"


@pytest.mark.parametrize(("text", "asked"), [(MEASURED, True), (MEASURED.replace("    wins.a", f"{OTHER}.a"), False)])
def test_what_a_batch_that_is_learnt_is_measured_against_is_no_validation(
    tmp_path: Path, text: str, asked: bool
) -> None:
    plan = plan_of(tmp_path, text)
    assert ["--metric acc --mode max" in one.message for one in plan.questions] == [True] * asked


@pytest.mark.parametrize(("last", "made"), [("loss.backward()", "trained"), ("model.eval()", "evaluated")])
def test_a_loss_is_made_by_the_training_whatever_has_a_part_in_it(last: str, made: str) -> None:
    text = script("a = total / len(loader)\nif a < best:\n    best = a", HELD)
    batch = f"nce = criterion(model(x), gathered(held))\n        {last}\n        total += nce.item()\n"
    text = text.replace(BATCHES, f"{BATCHES}        {batch}".replace("loss.backward", "nce.backward"))
    (score,) = survey_of(text).scores
    assert (score.expression, score.made) == ("a", made)


SCALED = """
if half:
    with amp.scale_loss(nce, optimizer) as scaled:
        scaled.backward()
"""
REST = "total += nce.item()"


@pytest.mark.parametrize(
    ("otherwise", "made"), [("nce.backward()", "trained"), ("total = nce.item()\n    continue", "evaluated")]
)
def test_a_loss_may_be_passed_back_in_each_branch_of_a_choice(otherwise: str, made: str) -> None:
    text = script("a = total / len(loader)\nif a < best:\n    best = a", HELD)
    batch = f"nce = criterion(model(x), gathered(held)){SCALED}else:\n    {otherwise}\n{REST}\n"
    text = text.replace(BATCHES, BATCHES + indent(batch, 8 * " "))
    (score,) = survey_of(text).scores
    assert (score.expression, score.made) == ("a", made)


@pytest.mark.parametrize(
    ("head", "batch"),
    [
        pytest.param("for (x, y), (val_x, val_y) in zip(loader, held):\n", "", id="beside it"),
        pytest.param("for i, (x, y) in enumerate(loader):\n", "val_x, val_y = held[i]\n", id="by the same number"),
    ],
)
def test_another_batch_of_the_same_turn_is_one_that_may_be_evaluated(head: str, batch: str) -> None:
    told = f"{batch}model.eval()\na = hits(model(val_x), val_y)\nmodel.train()\n"
    text = script("if a > best:\n    best = a", "best = 0")
    (score,) = survey_of(text.replace("for x, y in loader:\n", head + indent(told, 8 * " "))).scores
    assert (score.expression, score.made) == ("a", "evaluated")


@pytest.mark.parametrize(
    ("told", "made"),
    [
        pytest.param("teacher.eval()\na = hits(model(x), y)", "trained", id="a teacher"),
        pytest.param("teacher.eval()\na = hits(model(x), y)\nmodel.train()", "trained", id="and the model trains"),
        pytest.param(
            "model.eval()\na = hits(model(x), y)\nmodel.train()", "trained", id="the model itself, of its batch"
        ),
        pytest.param("model.eval()\na = hits(model(val_x), val_y)\nmodel.train()", "evaluated", id="of another one"),
    ],
)
def test_a_teacher_that_evaluates_among_the_batches_is_no_validation(told: str, made: str) -> None:
    text, batch = script("if a > best:\n    best = a", "best = 0"), "for x, y in loader:\n"
    (score,) = survey_of(text.replace(batch, batch + indent(f"{told}\n", 8 * " "))).scores
    assert (score.expression, score.made) == ("a", made)


PHASES = """
for phase in ['train', 'val']:
    total = 0
    for x, y in sets[phase]:
        if phase == 'val':
            with torch.no_grad():
                out = model(x)
        else:
            out = model(x)
        loss = criterion(out, y)
        if epoch < warm and phase == 'train':
            loss = loss * 0.5
        if phase == 'train':
            loss.backward()
            optimizer.step()
        total += loss.item()
    epoch_loss = total / len(sets[phase])
"""


@pytest.mark.parametrize(("phases", "named"), [("['train', 'val']", ["epoch_loss"]), ("['val', 'train']", [])])
def test_what_a_loop_over_phases_makes_is_made_by_the_last(phases: str, named: list[str]) -> None:
    text = script().partition("    for x, y in loader")[0]
    text += indent(code(PHASES).replace("['train', 'val']", phases), "    ")
    assert [(score.expression, score.made) for score in survey_of(text).scores] == [(one, "evaluated") for one in named]


GRADED = """
for HEAD:
    fits, total = phase == 'train', 0
    for x, y in sets[phase]:
        with torch.set_grad_enabled(TRAINS):
            loss = criterion(model(x), y)
            if TRAINS:
                loss.backward()
                optimizer.step()
        total += loss.item()
    epoch_loss = total / len(sets[phase])
    if epoch_loss < best:
        best = epoch_loss
"""
SETS, ITEMS = "sets = {'train': first, 'val': second}", "phase, data in sets.items()"


@pytest.mark.parametrize(
    ("before", "head", "trains", "made"),
    [
        pytest.param(SETS, ITEMS, "phase == 'train'", "evaluated", id="items"),
        pytest.param(
            "sets = {'val': second, 'train': first}", ITEMS, "phase == 'train'", "trained", id="training last"
        ),
        pytest.param(f"{SETS}\nsets['more'] = first", ITEMS, "phase == 'train'", "trained", id="and another"),
        pytest.param(f"{SETS}\nsets.update(more)", ITEMS, "phase == 'train'", "trained", id="and others"),
        pytest.param(SETS, "phase in sets", "phase == 'train'", "evaluated", id="keys"),
        pytest.param("", "phase in ['train', 'val']", "fits", "evaluated", id="a flag"),
        pytest.param("", "phase in ['val', 'train']", "fits", "trained", id="a flag, training last"),
    ],
)
def test_what_a_loop_over_phases_makes_is_known_however_these_are_written(
    before: str, head: str, trains: str, made: str
) -> None:
    phases = code(GRADED).replace("HEAD", head).replace("TRAINS", trains)
    text = script(before=f"{before}\nbest = 9").partition("    for x, y in loader")[0] + indent(phases, "    ")
    assert [score.made for score in survey_of(text).scores] == [made]


ANY, TRAINING = "phase in args.phases", "phase == 'train'"


@pytest.mark.parametrize(
    ("head", "compared", "made"),
    [
        pytest.param(ANY, "if phase == 'val' and epoch_loss < best:", "evaluated", id="of a phase"),
        pytest.param(
            "phase, data in sets.items()", "if phase != 'train' and epoch_loss < best:", "evaluated", id="another"
        ),
        pytest.param(ANY, "if phase == 'train':\n        continue\n    if epoch_loss < best:", "evaluated", id="left"),
        pytest.param(ANY, "if phase == 'train' and epoch_loss < best:", "trained", id="of the training"),
        pytest.param(ANY, "if epoch_loss < best:", "trained", id="of any"),
        pytest.param("_ in args.phases", "if phase == 'val' and epoch_loss < best:", "trained", id="no loop over them"),
    ],
)
def test_phases_that_are_written_nowhere_are_those_that_are_asked_about(head: str, compared: str, made: str) -> None:
    phases = code(GRADED).replace("HEAD", head).replace("if epoch_loss < best:", compared).replace("TRAINS", TRAINING)
    text = script(before="best = 9").partition("    for x, y in loader")[0] + indent(phases, "    ")
    (score,) = survey_of(text).scores
    assert (score.made, bool(score.last[0])) == (made, True)


@pytest.mark.parametrize(("phase", "made"), [("val", "evaluated"), ("train", "trained")])
def test_what_is_kept_of_one_of_such_phases_is_of_that(phase: str, made: str) -> None:
    kept = f"if phase == '{phase}':\n        kept_loss = epoch_loss\nif kept_loss < best:\n    best = kept_loss\n"
    phases = code(GRADED).partition("    if epoch_loss")[0].replace("HEAD", ANY).replace("TRAINS", TRAINING)
    text = script(before="best = 9").partition("    for x, y in loader")[0] + indent(f"{phases}    {kept}", "    ")
    (score,) = survey_of(text).scores
    assert (score.expression, score.made, score.last[0]) == ("kept_loss", made, "")


#: One function for both passes, with another for a batch.
EITHER = """
def step(net, x, y, learns):
    with torch.set_grad_enabled(learns):
        loss = criterion(net(x), y)
    if learns:
        loss.backward()
        optimizer.step()
    return loss.item()

def run(net, data, learns=True):
    total = 0
    for x, y in data:
        total += step(net, x, y, learns)
    return total / len(data)
"""


def either(last: str) -> str:
    """Return a script that trains by such a function, and then runs a statement."""
    return script(before=EITHER).partition("    for x, y in loader")[0] + f"    loss = run(model, loader)\n    {last}\n"


@pytest.mark.parametrize(
    ("given", "made"),
    [(", learns=False", "evaluated"), (", False", "evaluated"), ("", ""), (", learns=asked", "")],
    ids=["a flag", "by its place", "its default", "not told"],
)
def test_what_a_function_of_both_passes_gives_without_training_is_validated(given: str, made: str) -> None:
    scores = survey_of(either(f"val = run(model, held_out{given})")).scores
    assert [(one.expression, one.made) for one in scores] == [("val", made)] * bool(made)


#: One pass for both, whose flag the branches of a choice by the phase set, in a function below the epoch loop.
FLAGGED = """
def turn(net):
    global best
    for phase in PHASES:
        if phase == 'fit':
            learns = True
            data = loader
        else:
            learns = FLAG
            data = held_out
        found = run(net, data, learns=learns)
        if phase == 'check':
            kept = found
            if kept < best:
                best = kept
                torch.save(net.state_dict(), 'best.pt')
    return found
"""


@pytest.mark.parametrize(
    ("phases", "flag", "asked"),
    [
        ("['fit', 'check']", "False", False),
        ("['check', 'fit']", "False", False),
        ("['fit', 'check']", "True", True),
    ],
)
def test_a_pass_is_told_by_the_flag_that_a_branch_sets_for_its_phase(
    tmp_path: Path, phases: str, flag: str, asked: bool
) -> None:
    function = code(FLAGGED).replace("PHASES", phases).replace("FLAG", flag)
    text = script(before=EITHER + function).partition("    for x, y in loader")[0] + "    turn(model)\n"
    messages = [one.message for one in plan_of(tmp_path, text).questions]
    assert ["made by the training pass alone" in one for one in messages] == [True] * asked


@pytest.mark.parametrize(
    ("before", "within", "asked"),
    [
        pytest.param("learns = True", "", True, id="before the epochs"),
        pytest.param("", "learns = True", True, id="in each"),
        pytest.param("", "learns = False", False, id="in each, not to train"),
        pytest.param("learns = False", "", False, id="before them, not to train"),
        pytest.param("learns = False", "learns = True", True, id="another one before"),
        pytest.param("learns = True", "if epoch % 2: learns = False", True, id="now and then"),
    ],
)
def test_a_pass_is_told_by_the_flag_that_a_variable_gives_it(
    tmp_path: Path, before: str, within: str, asked: bool
) -> None:
    last = f"{within or 'pass'}\n    loss = run(model, held_out, learns)\n    if loss < best:\n"
    text = either(f"{last}        best = loss\n        torch.save(model.state_dict(), 'best.pt')")
    text = text.replace("for epoch in", f"best = 9\n{before}\nfor epoch in").replace(
        "    loss = run(model, loader)\n", "", 1
    )
    messages = [one.message for one in plan_of(tmp_path, text).questions]
    assert ["made by the training pass alone" in one for one in messages] == [True] * asked


@pytest.mark.parametrize(("given", "silent"), [(", learns=False", True), ("", False)])
def test_such_a_pass_that_gives_the_loop_nothing_is_told_of(tmp_path: Path, given: str, silent: bool) -> None:
    (question,) = plan_of(tmp_path, either(f"run(model, held_out{given})")).questions
    assert ("`run(...)` (line 22) validates, but gives nothing to the loop" in question.message) is silent
    assert ("in which nothing validates" in question.message) is not silent


#: Functions and methods in which a loop goes over phases that have a name.
FITS = """
best = 9
for epoch in range(10):
"""
SET = "PHASES = ['train', 'val']"
OTHERS = "PHASES = ['val', 'train']"
IN_CLASS = f"class Trainer:\n    def __init__(self):\n        self.{SET}\n"


@pytest.mark.parametrize(
    ("before", "function", "read", "made"),
    [
        pytest.param(SET, "def fit():", "PHASES", "evaluated", id="of the file"),
        pytest.param(SET, "def fit(PHASES):", "PHASES", "trained", id="given"),
        pytest.param(SETS, "def fit(sets):", "sets", "trained", id="a dictionary, given"),
        pytest.param(
            f"{SET}\ndef ask():\n    {OTHERS}", "def fit():", "PHASES", "evaluated", id="of a function as well"
        ),
        pytest.param(
            f"{SET}\ndef ask():\n    global PHASES\n    {OTHERS}", "def fit():", "PHASES", "trained", id="set anew"
        ),
        pytest.param(IN_CLASS, "    def fit(self):", "self.PHASES", "evaluated", id="of an object"),
        pytest.param(f"a.{OTHERS}\n{IN_CLASS}", "    def fit(self):", "self.PHASES", "trained", id="set from outside"),
        pytest.param(IN_CLASS, "class Other:\n    def fit(self):", "self.PHASES", "trained", id="of another class"),
    ],
)
def test_phases_are_those_of_the_name_that_is_read(before: str, function: str, read: str, made: str) -> None:
    graded = code(GRADED).replace("HEAD", f"phase in {read}").replace("TRAINS", "phase == 'train'")
    depth = " " * (4 + len(function.rpartition("\n")[2].partition("def")[0]))
    loop = indent(code(FITS) + indent(graded, "    "), depth)
    top = script().partition("for epoch")[0]
    assert [one.made for one in survey_of(f"{top}\n{before}\n{function}\n{loop}").scores] == [made]


#: A loop over single steps, and a validation whose predictions go by files.
FILED = """
def judged(files):
    return {'a': score_of([open(file).read() for file in files])}

def predict(net, folder):
    net.eval()
    for i, (x, y) in enumerate(held_out):
        write(net(x), f'{folder}/{i}.txt')

def validate(net, step):
    folder = make_folder(step)
    predict(net, folder)
    return judged(glob(folder))

best = 0
for (x, y), step in zip(loader, range(900)):
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    step += 1
    if step % 100 == 0:
        found = validate(model, step)
        if rank == 0:
            a = float(found['a'])
            if a > best:
                best = a
        model.train()
"""


@pytest.mark.parametrize("predicts", ["predict(net, folder)", "predict(net, folder)\n    net.train()"])
def test_what_a_validation_reads_from_files_is_its_own(predicts: str) -> None:
    text = script().partition("for epoch")[0] + code(FILED)
    (score,) = survey_of(text.replace("predict(net, folder)\n    return", f"{predicts}\n    return")).scores
    assert (score.expression, score.made) == ("a", "evaluated")


def test_what_is_read_from_files_where_no_model_evaluates_is_of_the_training() -> None:
    text = script().partition("for epoch")[0] + code(FILED)
    (score,) = survey_of(text.replace("net(x), f", "x, f").replace("net.eval()", "pass")).scores
    assert (score.expression, score.made) == ("a", "trained")


def questions_of(folder: Path, epoch: str, before: str = "") -> list[str]:
    return [one.message for one in plan_of(folder, script(epoch, code(FUNCTIONS) + before)).questions]


@pytest.mark.parametrize(
    ("epoch", "before"),
    [
        pytest.param("loss, acc = train(model)\nif loss < best:\n    best = loss", "best = 9", id="best"),
        pytest.param("loss, acc = train(model)\nsched.step(loss)", "sched = Plateau(optimizer)", id="plateau"),
        pytest.param("loss, acc = train(model)\nearly_stopping(loss)", "", id="early stopping"),
    ],
)
def test_what_only_the_training_makes_is_not_taken_without_asking(tmp_path: Path, epoch: str, before: str) -> None:
    before = "from torch.optim.lr_scheduler import ReduceLROnPlateau as Plateau\n" + before
    (question,) = questions_of(tmp_path, epoch, before)
    assert question.startswith("`loss` (line ")
    assert (
        "nothing in this epoch loop validates, so that it is all there is. --metric loss --mode min takes" in question
    )
    text = script(epoch, code(FUNCTIONS) + before)
    assert "score(loss, model)" in rewritten(plan_of(tmp_path, text, Options(metric="loss", mode="min")))


@pytest.mark.parametrize(
    ("last", "told"),
    [
        pytest.param("keep(right)", "pass alone, though the epoch validates (line 73): let", id="nothing"),
        pytest.param(
            "acc = right\n    print(acc)",
            "pass alone, while the validation (line 73) knows `acc` (line 76 in `show`): choose one",
            id="a number",
        ),
        pytest.param("print(right)", "knows `show:right` (line 76 in `show`): choose one", id="a printed one"),
    ],
)
def test_what_only_the_training_makes_is_not_taken_where_something_validates(
    tmp_path: Path, last: str, told: str
) -> None:
    epoch = "show(model)\nstats = whole(model)\nif stats['learnt'] < best:\n    best = stats['learnt']"
    before = "\ndef show(net):\n    net.eval()\n    with torch.no_grad():\n        right = hits(net(x), y)\n    "
    before += f"{last}\nbest = 9"
    (question,) = questions_of(tmp_path, epoch, before)
    assert told in question
    assert """--metric "stats['learnt']" --mode min takes the training's own.""" in question


@pytest.mark.parametrize(
    ("batch", "epoch", "answers"),
    [
        pytest.param(
            "total_loss += loss.item()", "print(total_loss)", "--metric total_loss --mode min takes", id="sum"
        ),
        pytest.param("losses.update(loss)", "print(losses.avg)", "--metric losses.avg --mode min takes", id="meter"),
        pytest.param("", "train_loss, n = train(model)", "--metric train_loss --mode min takes", id="returned"),
        pytest.param("", "train_loss = steps.train(model)", "--metric train_loss --mode min takes", id="of a module"),
        pytest.param("", "train_loss = Meter().cuda()", "--metric loss --mode min takes", id="but no new meter"),
        pytest.param(
            "total_loss += loss.item()\n        if step % 9 == 0:\n            avg_loss = total_loss / 9\n"
            "            total_loss = 0",
            "print(epoch)",
            "all there is: --metric avg_loss --mode min takes `avg_loss` (line 79).",
            id="mean of every so many steps, in which the sum begins anew",
        ),
        pytest.param(
            "losses.append(loss.item())",
            "print(np.mean(losses))\nlosses = []",
            "--metric 'np.mean(losses)' --mode min takes `np.mean(losses)` (line 78).",
            id="mean of a list",
        ),
        pytest.param(
            "total_loss += loss.item()",
            "loss_step = args.loss_step\nprint(total_loss, loss_step)",
            "all there is: --metric total_loss --mode min takes `total_loss` (line 77).",
            id="and no number of the configuration",
        ),
        pytest.param(
            "sums['loss_mask'] += mask\n        sums['loss'] += loss.item()",
            "print(sums)\nsums = {'loss_mask': 0, 'loss': 0}",
            """all there is: --metric "sums['loss']" --mode min takes `sums['loss']` (line 78), """
            """--metric "sums['loss_mask']" --mode min takes `sums['loss_mask']` (line 77).""",
            id="sums in a dictionary, of what is learnt first",
        ),
        pytest.param(
            "sums['loss'] += loss.item()",
            "print(sums)\nsums['loss'] = 0",
            """all there is: --metric "sums['loss']" --mode min takes `sums['loss']` (line 77).""",
            id="set back in each epoch",
        ),
        pytest.param(
            "sums['loss'] += loss.item()",
            "print(sums)\nif epoch % 9 == 0:\n    sums['loss'] = 0",
            "all there is: --metric loss --mode min takes `loss` (line 75, of the last batch alone).",
            id="but not in some epochs alone",
        ),
        pytest.param(
            "sums['loss'] += loss.item()",
            "sums['loss'] = sums['loss'] / 9\nprint(sums)",
            "all there is: --metric loss --mode min takes `loss` (line 75, of the last batch alone).",
            id="nor of what it was",
        ),
        pytest.param(
            "sums['loss'] += loss.item()",
            "print(sums)",
            "all there is: --metric loss --mode min takes `loss` (line 75, of the last batch alone).",
            id="but none over all epochs",
        ),
        pytest.param(
            "sums = {'loss': 0}\n        sums['loss'] += loss.item()",
            "print(sums)",
            "all there is: --metric loss --mode min takes `loss` (line 75, of the last batch alone).",
            id="nor one that begins in each batch",
        ),
        pytest.param(
            "sums[name] += loss.item()",
            "print(sums)\nsums = {}",
            "all there is: --metric loss --mode min takes `loss` (line 75, of the last batch alone).",
            id="nor one of a key that changes",
        ),
        pytest.param(
            "",
            "sums = {'loss': 0}\nfor x, y in held_out:\n    with torch.no_grad():\n"
            "        sums['loss'] += criterion(model(x), y)",
            "all there is: --metric loss --mode min takes `loss` (line 75, of the last batch alone).",
            id="nor a validation's",
        ),
        pytest.param("", "print(loss)", "--mode min takes `loss` (line 75, of the last batch alone).", id="a batch's"),
        pytest.param(
            "log(loss.mean())",
            "print(epoch)",
            "all there is: --metric loss --mode min takes `loss` (line 75, of the last batch alone).",
            id="and not its mean, which is a batch's too",
        ),
        pytest.param(
            "losses += loss",
            "print(losses.mean())\nlosses = torch.zeros(2)",
            "--metric 'losses.mean()' --mode min takes",
            id="mean of a sum",
        ),
    ],
)
def test_what_the_training_tells_of_itself_is_offered_where_nothing_validates(
    tmp_path: Path, batch: str, epoch: str, answers: str
) -> None:
    text = script(epoch, code(FUNCTIONS)).replace(BATCHES, f"{BATCHES}        {batch}\n" if batch else BATCHES)
    text += "loss = show(model)\n"
    (question,) = plan_of(tmp_path, text).questions
    assert "no validation score was found in this epoch loop, in which nothing validates." in question.message
    assert answers in question.message


STATS = """
def learn(net):
    rows = {'n': 0}
    meters = Meters()
    for x, y in loader:
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
        meters.update(loss_mask=loss.item(), loss=loss.item(), rate=rates[0])
    stats = {'loss_mask': meters.loss_mask.avg, 'rate': 1, 'loss': meters.loss.avg}
    RETURN
"""


@pytest.mark.parametrize("name", ["stats", "_"])
@pytest.mark.parametrize("returned", ["stats", "{k: v.avg for k, v in meters.parts.items()}"])
def test_what_a_training_returns_by_keys_is_offered_the_whole_first(tmp_path: Path, name: str, returned: str) -> None:
    text = script(f"{name} = learn(model)", code(STATS.replace("RETURN", f"return {returned}")))
    (question,) = plan_of(tmp_path, text).questions
    loss, mask = f"{name}['loss']", f"{name}['loss_mask']"
    assert f'is: --metric "{loss}" --mode min takes `{loss}` (line ' in question.message
    assert f'), --metric "{mask}" --mode min takes `{mask}` (line ' in question.message
    assert question.message.count("--metric") == 2
    assert not plan_of(tmp_path, text, Options(metric=loss, mode="min")).questions


def test_items_of_what_a_training_returns_are_not_offered_where_it_has_none(tmp_path: Path) -> None:
    text = script("print(stats)", "def learn():\n    return {'loss': 1}\nstats = learn()")
    (question,) = plan_of(tmp_path, text).questions
    assert "['loss']" not in question.message


@pytest.mark.parametrize(
    ("batch", "offered"),
    [
        ("avg_loss = (total_loss - logged) / 9\n            logged = total_loss", "avg_loss"),
        ("log(step)", "loss"),
    ],
    ids=["what came since", "the last batch's"],
)
def test_what_the_training_adds_up_over_all_epochs_is_not_offered_beside_others(
    tmp_path: Path, batch: str, offered: str
) -> None:
    step = f"        total_loss += loss.item()\n        if step % 9 == 0:\n            {batch}\n"
    text = script("print(epoch)", "total_loss, logged = 0, 0").replace(BATCHES, BATCHES + step)
    (question,) = plan_of(tmp_path, text).questions
    assert question.message.count("--metric") == 1
    assert f"What its training tells of itself is all there is: --metric {offered} --mode min" in question.message


def test_what_a_validation_that_gives_nothing_and_the_training_know_is_offered(tmp_path: Path) -> None:
    """A gradient scaler's loss is the one that it scales."""
    text = script("evaluate(model)\nprint(loss)").replace("loss.backward()", "scaler.scale(loss).backward()")
    (question,) = plan_of(tmp_path, text).questions
    assert "`evaluate(...)` (line 14) validates, but gives nothing to the loop: name a number" in question.message
    assert question.message.endswith(
        "of its training --metric loss --mode min takes `loss` (line 12, of the last batch alone)."
    )
    assert not plan_of(tmp_path, text, Options(metric="loss", mode="min")).questions


@pytest.mark.parametrize(
    ("later", "offered"),
    [
        pytest.param("loss = judge(x)\nloss.backward()", False, id="another model's"),
        pytest.param("if adversary:\n    loss = judge(x)\n    loss.backward()", False, id="another model's, perhaps"),
        pytest.param("loss = loss.item()", True, id="its number"),
        pytest.param("judged = judge(x)\njudged.backward()", True, id="another model's of another name"),
    ],
)
def test_a_batchs_loss_is_offered_only_where_its_name_is_not_given_another(
    tmp_path: Path, later: str, offered: bool
) -> None:
    """The name would be read after the epoch's last batch."""
    text = script("print(epoch)", code(FUNCTIONS)).replace(BATCHES, f"{BATCHES}{indent(later, ' ' * 8)}\n")
    (question,) = plan_of(tmp_path, text).questions
    assert "no validation score was found in this epoch loop" in question.message
    assert ("takes `loss` (line 75, of the last batch alone)" in question.message) is offered
    assert ("--metric loss" in question.message) is offered


@pytest.mark.parametrize(("one", "other"), [("targets[1:]", "targets[2:]"), ("targets['next']", "targets['last']")])
def test_what_is_taken_out_of_itself_in_a_loop_ends(one: str, other: str) -> None:
    function = f"""
def evaluate(net, targets):
    losses = []
    for x in held_out:
        if x.any():
            losses.append(criterion(net(x), targets[0]).item())
            targets = {one}
        else:
            losses.append(criterion(net(x), targets[0]).item())
            targets = {other}
    return sum(losses)
"""
    epoch = (
        "val_loss = evaluate(model, wanted)\nif val_loss < best:\n    best = val_loss\n    torch.save(model, 'b.pt')"
    )
    (found,) = survey_of(function + script(epoch=epoch, before="best = 9")).scores
    assert (found.expression, found.made) == ("val_loss", "evaluated")


def test_what_a_function_that_trains_measures_without_gradients_is_offered(tmp_path: Path) -> None:
    function = code("""
        def run(net):
            right = 0
            for x, y in loader:
                out = net(x)
                right += hits(out, y)
                criterion(out, y).backward()
                optimizer.step()
            train_acc = right / len(loader)
            right = 0
            with torch.no_grad():
                for x, y in held_out:
                    right += hits(net(x), y)
            val_acc = right / len(held_out)
            print(train_acc, val_acc)
    """)
    batches = script().partition("    for x, y")[2].partition("\n\n")[0]
    text = function + script(epoch="run(model)").replace(f"    for x, y{batches}", "")
    (question,) = plan_of(tmp_path, text).questions
    assert "Its validation knows `val_acc` (line 13 in `run`)" in question.message


def test_losses_that_all_ranks_share_are_not_what_its_validation_knows(tmp_path: Path) -> None:
    shared = "        if step % 9 == 0:\n            loss_parts = gathered({'nll': loss})\n"
    text = script("draw(model)", FUNCTIONS).replace(BATCHES, BATCHES + shared)
    (question,) = plan_of(tmp_path, text).questions
    assert "in which nothing validates" in question.message
    assert "loss_parts" not in question.message


#: A trainer whose helper keeps the best of what its validation measures; tests replace the words in capitals.
KEPT_ELSEWHERE = """
import torch

class Meter:
    best = 9

    def update(self, metrics):
        NAME = sum(metrics) / len(metrics)
        if NAME < self.best:
            self.best = NAME
            return True
        return False

class Trainer:
    def __init__(self, model):
        self.model, self.meter = torch.nn.DataParallel(model), Meter()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self):
        for x, y in loader:
            self.optimizer.zero_grad()
            criterion(self.model(x), y).backward()
            self.optimizer.step()

    @torch.no_grad()
    def valid(self):
        self.model.eval()
        metrics = [criterion(self.model(x), y).item() for x, y in held_out]
        if self.meter.update(metrics):
            torch.save(self.model.state_dict(), "best.pt")
        if self.epoch == 9:
            mean_loss = sum(metrics) / len(metrics)
            print(mean_loss)

    def fit(self):
        for self.epoch in range(10):
            self.train()
            self.valid()

Trainer(Net()).fit()
"""
#: So that it has no number for each epoch, of which the best is kept.
KEPT_AGAIN = KEPT_ELSEWHERE.replace("print(mean_loss)\n", "print(mean_loss)\n            self.meter.update(metrics)\n")


@pytest.mark.parametrize("name", ["mean_loss", "kept_loss"])
def test_what_a_function_further_below_keeps_the_best_of_is_noted_there(tmp_path: Path, name: str) -> None:
    """Not `mean_loss` of `valid`, which is there in the last epoch alone."""
    new = rewritten(plan_of(tmp_path, KEPT_ELSEWHERE.replace("NAME", name)))
    assert f"        pai_distributed.note_score({name})\n        if {name} < self.best:\n" in new
    assert new.count("note_score(") == 1


@pytest.mark.parametrize("name", ["mean_loss", "kept_loss"])
def test_a_name_is_not_offered_where_it_would_mean_another_functions(tmp_path: Path, name: str) -> None:
    """`--metric mean_loss` takes that of `valid`, which is there in the last epoch alone."""
    (question,) = plan_of(tmp_path, KEPT_AGAIN.replace("NAME", name)).questions
    assert f"`{name}` is compared with the best at line 9: let its function return" in question.message


def test_a_parameter_that_is_compared_with_the_best_is_offered_as_what_is_given_for_it(tmp_path: Path) -> None:
    """A call in the last epoch alone, beside it, gives the same function another value."""
    text = KEPT_ELSEWHERE.replace(
        "def update(self, metrics):\n        NAME = sum(metrics) / len(metrics)\n", "def update(self, NAME):\n"
    )
    text = text.replace(
        "if self.meter.update(metrics):",
        "mean_loss = sum(metrics) / len(metrics)\n        if self.meter.update(mean_loss):",
    )
    text = text.replace("            mean_loss = sum(metrics) / len(metrics)\n", "            self.meter.update(9)\n")
    (question,) = plan_of(tmp_path, text.replace("NAME", "mean_loss")).questions
    assert "Its validation knows `mean_loss` (line 28 in `valid`): choose one" in question.message


@pytest.mark.parametrize(("shown", "offered"), [("os.path.join(folder, names[-1])", False), ("min(metrics)", True)])
def test_the_path_of_a_file_is_no_measure(tmp_path: Path, shown: str, offered: bool) -> None:
    printed = f"best = {shown}\n        print(best)"
    text = KEPT_AGAIN.replace("if self.meter.update(metrics):", f"{printed}\n        if self.meter.update(metrics):")
    text = text.replace("import torch\n", "import os\nimport torch\n", 1).replace("best = NAME", "top = NAME")
    (question,) = plan_of(tmp_path, text.replace("self.best", "self.top").replace("mean_loss", "last")).questions
    assert ("`valid:best`" in question.message) is offered


def test_a_comprehension_that_has_the_names_of_the_training_evaluates() -> None:
    text = """
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP

    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best = 9
    for epoch in range(9):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            loss = sum(criterion(model(x), y).item() for x, y in held_out)
        if loss < best:
            best = loss
    """
    (score,) = survey_of(code(text)).scores
    assert (score.expression, score.made) == ("loss", "evaluated")


#: Two classes that inherit how an epoch goes, and each has its own way with a batch, as segmentation_models_pytorch's.
EPOCHS = """
import torch

class Epoch:
    def __init__(self, model):
        self.model = model

    def start(self):
        raise NotImplementedError

    def batch(self, x, y):
        raise NotImplementedError

    def turn(self, x, y):
        return self.batch(x, y)

    def run(self, data):
        self.start()
        logs, meter = {}, Meter()
        for x, y in data:
            loss, out = self.turn(x, y)
            meter.add(hits(out, y).item())
            logs.update({'hits': meter.mean})
        return logs

class Fit(Epoch):
    def start(self):
        self.model.train()

    def batch(self, x, y):
        optimizer.zero_grad()
        out = self.model(x)
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
        return loss, out

class Check(Epoch):
    def start(self):
        self.model.eval()

    def batch(self, x, y):
        with torch.no_grad():
            out = self.model(x)
            return criterion(out, y), out

class Anew(Check):
    batch = Fit.batch

model = torch.nn.DataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
fit, check, anew = Fit(model), Check(model), Anew(model)
best = 9
for epoch in range(9):
    learnt = fit.run(loader)
    known = check.run(held_out)
    if known['hits'] < best:
        best = known['hits']
"""


@pytest.mark.parametrize("inherited", ["self.turn(x, y)", "self.batch(x, y)"])
@pytest.mark.parametrize(
    ("asked", "made"),
    [
        pytest.param("check.run(held_out)", "evaluated", id="that validates"),
        pytest.param("fit.run(held_out)", "trained", id="that trains"),
        pytest.param("anew.run(held_out)", "trained", id="that has another's method"),
        pytest.param("(fit if learns else check).run(held_out)", "", id="of one of two"),
    ],
)
def test_what_an_object_makes_is_by_its_own_classs_methods(asked: str, inherited: str, made: str) -> None:
    text = EPOCHS.replace("known = check.run(held_out)", f"known = {asked}").replace("self.turn(x, y)", inherited)
    (score,) = survey_of(text).scores
    assert (score.expression, score.made) == ("known['hits']", made)


#: What runs a batch, and has it learnt where its caller says so, one function further down than the validation.
SHARED = """
def run(net, x, y, learns=False):
    loss = criterion(net(x), y)
    if learns:
        loss.backward()
    return loss.item()

def check(net):
    net.eval()
    total = 0
    with torch.no_grad():
        for x, y in held_out:
            total += run(net, x, yHOW)
    return total
"""


@pytest.mark.parametrize(
    ("how", "made"), [("", "evaluated"), (", False", "evaluated"), (", learns=True", "trained"), (", flag", "trained")]
)
def test_what_runs_a_batch_without_learning_it_is_no_training(how: str, made: str) -> None:
    text = script("a = check(model)\nif a < best:\n    best = a", SHARED.replace("HOW", how) + "best = 9")
    text = text.replace("loss = criterion(model(x), y)", "run(model, x, y, learns=True)")
    (score,) = survey_of(re.sub(r"\n +loss.backward\(\)(?=\n        opt)", "", text)).scores
    assert (score.expression, score.made) == ("a", made)


#: Epochs of one step each, which takes all data of a graph at once.
GRAPH = """
def test(out):
    found = out.argmax(1)
    return [hits(found[mask], y[mask]) for mask in (train_mask, val_mask)]

model = torch.nn.DataParallel(Net())
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
best = 0
for epoch in range(99):
    x = graph.x.cuda()
    model.train()
    optimizer.zero_grad()
    codes = model.module.encode(x, edges)
    out = model(codes)
    loss = criterion(out[train_mask], y[train_mask])
    loss.backward()
    optimizer.step()
    MEASURED
    print(acc)
"""
OWN_PASS = "acc = (out[train_mask].argmax(1) == y[train_mask]).float().mean().item()"
HELD_OUT = OWN_PASS.replace("train_", "val_")
NO_GRAD, AGAIN = "with torch.no_grad():\n    ", "model.eval()\nout = model(x, edges)\n"


@pytest.mark.parametrize(
    ("measured", "made"),
    [
        pytest.param(NO_GRAD + OWN_PASS, "trained", id="of what is learnt"),
        pytest.param("model.eval()\n" + NO_GRAD + OWN_PASS, "trained", id="of what is learnt, told to evaluate"),
        pytest.param(NO_GRAD + "acc = test(out)[0]", "trained", id="of what is learnt, by a function"),
        pytest.param(NO_GRAD + OWN_PASS.replace("out", "codes"), "trained", id="of what the model's method gives"),
        pytest.param(NO_GRAD + HELD_OUT, "evaluated", id="of what is held out"),
        pytest.param(HELD_OUT, "evaluated", id="of what is held out, without a word"),
        pytest.param(AGAIN + OWN_PASS, "evaluated", id="of a pass of its own"),
        pytest.param(AGAIN + NO_GRAD + "acc = test(out)[1]", "evaluated", id="of a pass of its own, by a function"),
    ],
)
def test_one_pass_for_all_data_trains_but_for_what_is_held_out(measured: str, made: str) -> None:
    found = survey_of(GRAPH.replace("MEASURED", indent(measured, "    ").lstrip())).scores
    assert [(score.expression, score.made) for score in found] == [("acc", made)]


def test_what_is_held_out_is_taken_where_it_is_compared_with_the_best(tmp_path: Path) -> None:
    best = f"{HELD_OUT}\nif acc > best:\n    best = acc"
    plan = plan_of(tmp_path, GRAPH.replace("MEASURED", indent(best, "    ").lstrip()))
    assert "report_validation_score(acc, model)" in rewritten(plan)


def test_a_part_of_a_batch_that_is_learnt_is_none_of_a_validation() -> None:
    text = script("a = total\nif a < best:\n    best = a", "total, best = 0, 9")
    batch = "    for x, y in loader:\n        out = model(x)\n        total += hits(out[val_mask])\n"
    (score,) = survey_of(text.replace("    for x, y in loader:\n", batch)).scores
    assert (score.expression, score.made) == ("a", "trained")


#: A step of the training, and a measure of a batch.
STEPS = """
MARK
def measure(model, x, y):
    WITHOUT
    return (model(x).argmax(1) == y).float().mean().item()

def learn(model, x, y, number):
    criterion(model(x), y).backward()
    optimizer.step()

total = step = best = 0
"""


@pytest.mark.parametrize(
    ("measured", "made"),
    [
        pytest.param("total += measure(model, x, y)", "trained", id="the batch"),
        pytest.param("total += measure(model, data[0], data[1])", "evaluated", id="other data"),
        pytest.param("total += measure(model, held, step)", "evaluated", id="other data by the step"),
    ],
)
@pytest.mark.parametrize(
    "learnt", ["learn(model, x, y, step)", "criterion(model(x), y).backward()\n        optimizer.step()"]
)
@pytest.mark.parametrize(
    ("mark", "without"),
    [("@torch.no_grad()", "pass"), ("", "with torch.no_grad():\n    "), ("", "model.eval()")],
    ids=["decorated", "off", "eval"],
)
def test_what_a_function_without_gradients_measures_of_a_batch_that_is_learnt_is_of_the_training(
    measured: str, made: str, learnt: str, mark: str, without: str
) -> None:
    steps = STEPS.replace("MARK", mark).replace("WITHOUT\n", without if without[-1] == " " else f"{without}\n")
    text = script("acc = total / len(loader)\nif acc > best:\n    best = acc", steps)
    batch = f"        {learnt}\n        step += 1\n        {measured}\n"
    before, turns, rest = text.partition("    for x, y in loader:\n")
    (score,) = survey_of(f"{before}{turns}{batch}    acc = {rest.partition('    acc = ')[2]}").scores
    assert (score.expression, score.made) == ("acc", made)


#: A graph of which one part is learnt, and a measure of a part of it.
PARTS = """
def measure(model, graph, mask):
    model.eval()
    with torch.no_grad():
        return (model(graph.x).argmax(1)OWN == graph.yOWN).float().mean().item()

def hits(out, y, mask):
    with torch.no_grad():
        return (out.argmax(1)[mask] == y[mask]).sum()

def learn(model, graph):
    criterion(model(graph.x)[graph.train_mask], graph.y[graph.train_mask]).backward()
    optimizer.step()

acc = best = 0
"""
LEARNT = "criterion(model(graph.x)[graph.train_mask], graph.y[graph.train_mask]).backward()\n        optimizer.step()"


@pytest.mark.parametrize(
    ("own", "measured", "made"),
    [
        pytest.param("[graph.val_mask]", "measure(model, graph, None)", "evaluated", id="held out"),
        pytest.param("[8:]", "measure(model, graph, None)", "trained", id="a slice, which may be the same"),
        pytest.param("[seen[graph.y]]", "measure(model, graph, None)", "trained", id="by what is computed"),
        pytest.param("[mask]", "measure(model, graph, graph.val_mask)", "evaluated", id="held out, by what is given"),
        pytest.param("[mask]", "measure(model, graph, graph.train_mask)", "trained", id="learnt, by what is given"),
        pytest.param("[graph.train_mask]", "measure(model, graph, None)", "trained", id="learnt"),
        pytest.param("[-1]", "measure(model, graph, None)", "trained", id="the last one"),
        pytest.param("", "measure(model, graph, None)", "trained", id="all"),
        pytest.param("", "hits(graph.x, graph.y, graph.val_mask)", "trained", id="without the model"),
    ],
)
@pytest.mark.parametrize("learnt", ["learn(model, graph)", LEARNT])
def test_a_part_that_the_training_holds_out_of_its_batch_is_a_validations(
    own: str, measured: str, made: str, learnt: str
) -> None:
    text = script("if acc > best:\n    best = acc", PARTS.replace("OWN", own))
    before, _, rest = text.partition("    for x, y in loader:\n")
    batch = f"    for graph in loader:\n        {learnt}\n        acc = {measured}\n"
    (score,) = survey_of(f"{before}{batch}    if acc{rest.partition('    if acc')[2]}").scores
    assert (score.expression, score.made) == ("acc", made)


#: An object that trains and validates, and gathers its measures by names that only the run knows.
NAMED_MEASURES = """
class Restorer:
    def __init__(self):
        self.net = torch.nn.DataParallel(Net())
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.1)

    def feed(self, batch):
        self.x, self.y = batch[0].cuda(), batch[1].cuda()

    def optimize(self):
        self.optimizer.zero_grad()
        self.output = self.net(self.x)
        loss = criterion(self.output, self.y)
        loss.backward()
        self.optimizer.step()

    def test(self):
        self.net.eval()
        with torch.no_grad():
            self.output = self.net(self.x)
        self.net.train()

    def validation(self, loader):
        if rank == 0:
            return self.measured(loader)
        return None

    def measured(self, loader):
        if not hasattr(self, 'results'):
            self.results = {name: 0 for name in options['measures'].keys()}
        self.results = {name: 0 for name in self.results}
        for batch in loader:
            self.feed(batch)
            self.test()
            for name in options['measures']:
                self.results[name] += measures[name](self.output, self.y)
            del self.output
        for name in self.results:
            self.results[name] /= len(loader)
        return self.results['psnr']

model, steps = Restorer(), 0
for epoch in range(99):
    for batch in loader:
        steps += 1
        model.feed(batch)
        model.optimize()
        if steps % 50 == 0:
            psnr = model.validation(held_out)
"""


def test_an_item_is_made_by_what_is_given_to_items_by_keys_of_the_run() -> None:
    (score,) = survey_of(NAMED_MEASURES).scores
    assert (score.expression, score.made) == ("psnr", "evaluated")


def test_a_model_that_runs_itself_makes_what_it_measures() -> None:
    net = "class Net(torch.nn.Module):\n    def loss(self, x, y):\n        return criterion(self(x), y)\n"
    text = script("val_loss = model.module.loss(x, y)\nif val_loss < best:\n    best = val_loss", f"{net}best = 9")
    (score,) = survey_of(text).scores
    assert (score.expression, score.made) == ("val_loss", "")
