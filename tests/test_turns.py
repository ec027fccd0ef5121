"""A score of one turn of a loop, such as the last batch's, is never taken for that of all without a word."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from retrofit.options import Options
from tests.helpers import code, plan_of, rewritten, script, survey_of

_FUNCTIONS = """
class Meter:
    def __init__(self):
        self.total, self.count = 0, 0

    def update(self, value):
        self.total += value
        self.count += 1

    @property
    def loss(self):
        return self.total / self.count


def note(meter, value):
    meter.update(value)


def last_batch(model):
    for x, y in held_out:
        loss = criterion(model(x), y)
    return loss.item()


def of_sets(model):
    for name, held in sets.items():
        right = 0
        for x, y in held:
            right += hits(model(x), y)
        acc = right / len(held)
    return {'acc': acc}


def of_appended(model):
    outs = labels = None
    for x, y in held_out:
        out = model(x)
        if outs is None:
            outs, labels = out, y
        else:
            outs, labels = torch.cat([outs, out]), torch.cat([labels, y])
    return error(outs, labels)


def of_another_kind(model):
    loss = None
    for x, y in held_out:
        out = model(x)
        if binary:
            loss = criterion(out, y)
        else:
            loss = error(out, y)
    return loss


def added_up(model):
    total = 0
    for number, (x, y) in enumerate(held_out):
        loss = criterion(model(x), y)
        total += loss.item()
    return total / (number + 1)


def so_far(model):
    right = total = 0
    for x, y in held_out:
        out = model(x)
        right, total = right + hits(out, y), total + len(y)
        acc = right / total
        bar.set_postfix(acc=acc)
    return acc


def of_meter(model):
    meter = Meter()
    for x, y in held_out:
        loss = criterion(model(x), y)
        meter.update(loss)
        mean = meter.loss
    return mean


def of_meter_elsewhere(model):
    meter = Meter()
    for x, y in held_out:
        loss = criterion(model(x), y)
        note(meter, loss)
    return meter.loss


def of_list(model):
    found = []
    for x, y in held_out:
        found.append(model(x))
        mean = average(found)
    return mean


def running(model):
    mean = 0.0
    for x, y in held_out:
        mean = 0.9 * mean + 0.1 * criterion(model(x), y)
    return mean


def per_key(model):
    stats = {}
    for name in sets:
        stats[name] = measure(model, sets[name])
    return stats


def of_each_batch(model):
    stats = {}
    for x, y in held_out:
        for name, value in measures(model(x), y).items():
            if name not in stats:
                stats[name] = [value]
            else:
                stats[name].append(value)
    return stats


def of_best_threshold(model):
    best = -1
    for limit in range(1, 10):
        stats = {'acc': measure(model, limit)}
        if stats['acc'] >= best:
            result, best = stats, stats['acc']
    return result


def of_late_limits(model):
    seen = 0
    for limit in range(1, 10):
        if seen > 3:
            stats = {'acc': measure(model, limit)}
        seen += 1
    return stats


def copied(model):
    stats, result = {}, measure(model, held_out)
    for name, value in result.items():
        print(name, value)
    for name, value in result.items():
        stats[name] = value
    return stats


def meant_after_all(model):
    sums = {}
    for x, y in held_out:
        stats = {'acc': hits(model(x), y)}
        for name, value in stats.items():
            sums.setdefault(name, []).append(value)
    for name, values in sums.items():
        stats[name] = sum(values) / len(values)
    return stats


def trains(model, epoch):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
    if epoch % 5 == 0:
        loss = evaluate(model, held_out)
    return loss


def trains_and_sums(model, epoch):
    total = 0
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        total += loss.item()
    if rare:
        total = 0
        with torch.no_grad():
            for x, y in held_out:
                total += criterion(model(x), y)
    return total


def trains_and_validates(model, epoch):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
    loss = evaluate(model, held_out)
    return loss


def per_measured_key(model):
    stats = {}
    for x, y in held_out:
        for name, value in measures(model(x), y).items():
            stats[f'val_{name}'] = stats.get(f'val_{name}', 0) + value
    return stats


def one_batch(model):
    for x, y in held_out:
        loss = criterion(model(x), y)
        break
    return loss


def named(model):
    for name, held in sets.items():
        if name == 'val':
            acc = measure(model, held)
    return acc


def counted(model):
    right = 0
    for x, y in held_out:
        right += hits(model(x), y)
    return right / sum(len(y) for x, y in held_out)


"""
COMPARED = "\nif LOSS < best:\n    best = LOSS"
BEST = COMPARED.replace("LOSS", "loss")
PHASES = """
for phase in PHASES:
    right = 0
    for x, y in loaders[phase]:
        right += hits(model(x), y)
    acc = right / 2
"""


def last_in(epoch: str) -> str:
    (score,) = survey_of(script(epoch, f"{code(_FUNCTIONS)}best = 9\n")).scores
    return score.last[0]


@pytest.mark.parametrize(
    ("epoch", "loop"),
    [
        pytest.param(f"loss = last_batch(model){BEST}", "for x, y in held_out:", id="a function's last batch"),
        pytest.param(
            "for again in range(2):\n    error = evaluate(model, held_out)" + COMPARED.replace("LOSS", "error"),
            "for again in range(2):",
            id="twice",
        ),
        pytest.param(f"loss = of_another_kind(model){BEST}", "for x, y in held_out:", id="in branches"),
        pytest.param(
            "stats = of_late_limits(model)\nbest = max(best, stats['acc'])",
            "for limit in range(1, 10):",
            id="the last limit",
        ),
        pytest.param(
            f"with torch.no_grad():\n    for x, y in held_out:\n        loss = criterion(model(x), y){BEST}",
            "for x, y in held_out:",
            id="the last batch",
        ),
        pytest.param(
            f"with torch.no_grad():\n    for x, y in held_out:\n        out = model(x)\nloss = error(out, y){BEST}",
            "for x, y in held_out:",
            id="made after it",
        ),
        pytest.param(
            f"for held in sets:\n    loss = evaluate(model, held)\n    print(loss){BEST}",
            "for held in sets:",
            id="sets",
        ),
        pytest.param(
            "for held in sets:\n    loss = evaluate(model, held)\n    if loss < best:\n        best = loss",
            "for held in sets:",
            id="sets, compared each",
        ),
        pytest.param(
            f"stats = of_sets(model){COMPARED.replace('LOSS', 'stats[ACC]').replace('ACC', repr('acc'))}",
            "for name, held in sets.items():",
            id="a function's last set",
        ),
        *(
            pytest.param(
                f"for held in sets:\n    loss = evaluate(model, held, logger)\n    logger.{told}{BEST}",
                "for held in sets:",
                id=told,
            )
            for told in ("info('set %s', held)", "add_scalar('loss', loss)", "print(loss)")
        ),
        pytest.param(
            PHASES.replace("PHASES", "['val', 'test']") + "best = max(best, acc)",
            "for phase in ['val', 'test']:",
            id="phases",
        ),
        pytest.param(
            PHASES.replace("PHASES", "['train', 'val', 'test']")
            + "    if phase == 'val' and acc > best:\n        best = acc",
            "for phase in ['train', 'val', 'test']:",
            id="phases, one compared",
        ),
        pytest.param(
            PHASES.replace("PHASES", "['val', 'train']") + "    if phase == 'val' and acc > best:\n        best = acc",
            "for phase in ['val', 'train']:",
            id="phases, training last",
        ),
    ],
)
def test_a_score_of_the_last_turn_alone_is_told(epoch: str, loop: str) -> None:
    assert last_in(epoch) == loop


@pytest.mark.parametrize(
    "epoch",
    [
        *(
            pytest.param(f"loss = {name}(model){BEST}", id=name)
            for name in (
                "added_up", "so_far", "of_meter", "of_meter_elsewhere", "of_list", "running", "one_batch", "named",
                "counted", "of_appended",
            )
        ),
        *(
            pytest.param(f"stats = {name}(model)\nbest = max(best, stats['acc'])", id=name)
            for name in ("per_key", "of_each_batch", "of_best_threshold", "copied", "meant_after_all")
        ),
        pytest.param("stats = per_measured_key(model)\nbest = max(best, stats['val_acc'])", id="per_measured_key"),
        pytest.param(
            "for again in range(1):\n    error = evaluate(model, held_out)" + COMPARED.replace("LOSS", "error"),
            id="a single turn",
        ),
        pytest.param(f"loss = evaluate(model){BEST}\nfor held in sets:\n    print(held)", id="another loop"),
        pytest.param(PHASES.replace("PHASES", "['train', 'val']") + "best = max(best, acc)", id="one that validates"),
        pytest.param(
            PHASES.replace("PHASES", "['val', 'test']").replace("acc =", "if phase == 'val': acc =")
            + "best = max(best, acc)",
            id="one phase alone",
        ),
        pytest.param(
            PHASES.replace("PHASES", "['val', 'train']").replace("acc =", "if phase == 'val': acc =")
            + "best = max(best, acc)",
            id="one phase alone, before the training",
        ),
        pytest.param(
            "phases = ['train', 'val']\n" + PHASES.replace("PHASES", "phases") + "best = max(best, acc)", id="by a name"
        ),
        pytest.param(
            f"for held in sets:\n    loss = evaluate(model, meter)\n    meter.update(held){BEST}",
            id="an object that is given",
        ),
        pytest.param(
            "losses = []\nfor x, y in held_out:\n    with torch.no_grad(): losses.append(criterion(model(x), y))\n"
            f"loss = sum(losses) / len(losses){BEST}",
            id="a list",
        ),
    ],
)  # fmt: skip
def test_one_of_all_turns_is_taken(epoch: str) -> None:
    assert last_in(epoch) == ""


def test_one_that_the_user_names_is_taken_with_a_note(tmp_path: Path) -> None:
    text = script(f"for held in sets:\n    loss = evaluate(model, held){BEST}", "best = 9")
    plan = plan_of(tmp_path, text, Options(metric="loss", mode="min"))
    (note,) = [note for note in plan.notes if note.code == "PAI012"]
    assert note.message.endswith("each turn of `for held in sets:` (line 14), and the last one's alone counts")
    assert "report_validation_score(loss, model)" in rewritten(plan)


@pytest.mark.parametrize(("mode", "loop"), [("'whole'", ""), ("'parts'", "for part in range(9):")])
def test_a_score_is_of_what_the_epochs_call_runs(mode: str, loop: str) -> None:
    function = """
def in_mode(model, mode):
    if mode == 'parts':
        for part in range(9):
            loss = evaluate(model, part)
    else:
        loss = evaluate(model, None)
    return loss
best = 9
"""
    (score,) = survey_of(script(f"loss = in_mode(model, {mode}){BEST}", code(function))).scores
    assert score.last[0] == loop


#: The last batch's loss, or under a condition the mean, as the epoch runs it under one.
UNDER_ONE = """
def on_some(model, options, also=True):
    losses = []
    for x, y in held_out:
        loss = criterion(model(x), y)
        losses.append(loss.item())
    if INNER:
        loss = np.mean(losses)
        log(loss)
    return loss
best = 9
"""


@pytest.mark.parametrize(
    ("outer", "inner", "loop"),
    [
        ("rank == 0", "rank == 0", ""),
        ("args.rank == -1 or get_rank() == 0", "options.rank == -1 or get_rank() == 0", ""),
        ("args.rank == -1 or get_rank() == 0 and args.valid", "options.rank == -1 or get_rank() == 0", ""),
        ("rank == 0 and (args.often or done)", "rank == 0", ""),
        ("rank == 0 or args.valid", "rank == 0", "for x, y in held_out:"),
        ("rank == 0", "rank == 0 and options.valid", "for x, y in held_out:"),
        ("args.rank == 0", "also.rank == 0", "for x, y in held_out:"),
        ("other.rank == 0", "options.rank == 0", "for x, y in held_out:"),
        ("draw() < 9", "draw() < 9", "for x, y in held_out:"),
    ],
)
def test_what_a_function_gives_counts_as_it_is_under_the_condition_of_its_call(
    outer: str, inner: str, loop: str
) -> None:
    epoch = f"if {outer}:\n    loss = on_some(model, args)\n" + indent(BEST.strip(), "    ")
    text = script(epoch, code(UNDER_ONE).replace("INNER", inner))
    (score,) = survey_of(text, metric="loss", mode="min").scores
    assert score.last[0] == loop


@pytest.mark.parametrize(
    ("between", "given"),
    [
        pytest.param("often = done()", "loss = np.mean(losses)", id="of which something gives another value between"),
        pytest.param("log()", "loss += 1", id="that only adds"),
        pytest.param("log()", "loss = loss / 2", id="that makes it of the same"),
        pytest.param("log()", "for one in losses: loss = one / 2", id="in a loop that may make no turn"),
    ],
)
def test_and_not_by_one(between: str, given: str) -> None:
    epoch = f"if often:\n    {between}\n    loss = on_some(model, args){indent(BEST, '    ')}"
    text = script(epoch, code(UNDER_ONE).replace("INNER", "often").replace("loss = np.mean(losses)", given))
    (score,) = survey_of(text, metric="loss", mode="min").scores
    assert score.last[0] == "for x, y in held_out:"


@pytest.mark.parametrize("made", ["trains", "trains_and_sums"])
def test_a_function_that_gives_what_the_training_makes_where_it_does_not_validate_is_told(made: str) -> None:
    (score,) = survey_of(script(f"loss = {made}(model, epoch){BEST}", f"{code(_FUNCTIONS)}best = 9\n")).scores
    assert score.trained.startswith("line ")


@pytest.mark.parametrize("made", ["trains_and_validates(model, epoch)", "added_up(model)", "evaluate(model)"])
def test_one_that_always_validates_is_not(made: str) -> None:
    (score,) = survey_of(script(f"loss = {made}{BEST}", f"{code(_FUNCTIONS)}best = 9\n")).scores
    assert score.trained == ""


@pytest.mark.parametrize(
    "made",
    [
        pytest.param("loss = evaluate(model)", id="by a function"),
        pytest.param(
            "loss = 0\n    with torch.no_grad():\n        for x, y in held_out: loss += criterion(model(x), y)",
            id="a sum",
        ),
    ],
)
def test_a_name_that_training_and_validation_share_is_taken_where_it_is_validated(tmp_path: Path, made: str) -> None:
    epoch = f"if epoch % 5 == 0:\n    {made}{BEST}"
    new = rewritten(plan_of(tmp_path, script(epoch, "best = 9\n")))
    assert "        pai_score = loss\n    if loss < best:" in new
    assert "report_validation_score(pai_score, model)" in new


@pytest.mark.parametrize("leaving", ["if acc > best:\n    best = acc\n    continue", "if acc < best: continue"])
def test_a_score_is_taken_before_its_turn_may_be_passed_over(tmp_path: Path, leaving: str) -> None:
    steps = "steps += 1\nif steps % 50 == 0 and rank == 0:\n    acc = validate(model)\n" + indent(leaving, "    ")
    steps += "\n    torch.save(model.state_dict(), path)"
    text = script("pass", "steps, best = 0, 0").replace("r.step()\n", f"r.step()\n{indent(steps, ' ' * 8)}\n", 1)
    new = rewritten(plan_of(tmp_path, text, Options(mode="max")))
    assert "            acc = validate(model)\n            pai_score = acc\n            if acc" in new


def test_so_it_is_in_each_epoch_where_each_validates(tmp_path: Path) -> None:
    new = rewritten(plan_of(tmp_path, script(f"loss = evaluate(model){BEST}", "best = 9\n")))
    assert "report_validation_score(loss, model)" in new


ONCE = """
def once(net):
    for x, y in loader:
        loss = criterion(net(x), y)
        loss.backward()
    return net
"""


@pytest.mark.parametrize(
    ("text", "metric", "noted"),
    [
        pytest.param(script("print(loss)"), "loss", True, id="in the loop"),
        pytest.param(script("model = once(model)", ONCE), "once:loss", True, id="in a function"),
        pytest.param(script("print(loss)"), "loss.mean()", True, id="its mean"),
        pytest.param(script("model = once(model)", ONCE), "once:loss.mean()", True, id="its mean in a function"),
        pytest.param(script("", "sum = 0").replace("loss.b", "sum += loss; loss.b"), "sum", False, id="the sum"),
    ],
)
def test_a_loss_of_the_last_batch_is_taken_with_a_note(tmp_path: Path, text: str, metric: str, noted: bool) -> None:
    plan = plan_of(tmp_path, text, Options(metric=metric, mode="min"))
    assert plan.questions == []
    told = [note.message for note in plan.notes if "`for x, y in loader:`" in note.message]
    assert [message.endswith("and the last one's alone counts") for message in told] == [True] * noted


def test_a_name_that_batches_and_the_epoch_share_is_taken_where_the_epoch_gives_it_its_value(tmp_path: Path) -> None:
    batches, each = "        optimizer.step()\n", "        stats = eval_metrics(loss)\n        sums.add(stats)\n"
    text = script(epoch="stats = sums.mean()\nlog(stats)").replace(batches, batches + each)
    plan = plan_of(tmp_path, text, Options(metric="stats['acc']", mode="max"))
    assert plan.questions == []
    assert "    log(stats)\n    pai_distributed.report_validation_score(stats['acc'], model)\n" in rewritten(plan)


SEARCHED = """
results = validate(model)
for key in results:
    TAKEN
if epe < best:
    best = epe
"""
FIRST = "if 'epe' in key:\n        epe = results[key]\n        break"


@pytest.mark.parametrize(
    ("taken", "asked"), [(FIRST, ""), ("epe = results[key]", "made anew in each turn of `for key in results:`")]
)
def test_what_a_loop_looks_for_among_measures_is_one_of_them(tmp_path: Path, taken: str, asked: str) -> None:
    plan = plan_of(tmp_path, script(code(SEARCHED).replace("TAKEN", taken), "best = 9"))
    assert [asked in one.message for one in plan.questions] == [True] * bool(asked)
    assert asked or "report_validation_score(pai_score, model)" in rewritten(plan)


def test_a_measure_that_has_a_best_of_its_own_in_each_turn_is_one_of_several() -> None:
    text = "for key in results:\n    epe = results[key]\n    if epe < best:\n        best = epe"
    assert survey_of(script(f"results = validate(model)\n{text}", "best = 9")).scores == []


@pytest.mark.parametrize("asked", [Options(), Options(metric="total / number", mode="min")])
def test_the_number_of_a_turn_makes_no_value_one_of_the_last_turn(asked: Options, tmp_path: Path) -> None:
    before = """
    def average(value):
        dist.all_reduce(value)
        return value.item()

    def run(model):
        total = torch.tensor(0.0)
        for number, x in enumerate(held_out):
            total += model(x).item()
        total = average(total)
        if total / number < kept['best']:
            kept['best'] = total / number
            torch.save(model, 'best.pt')

    kept = {'best': 9}
    """
    plan = plan_of(tmp_path, script("model.eval()\nrun(model)", code(before)), asked)
    assert plan.questions == []
    assert "made anew in each turn" not in " ".join(note.message for note in plan.notes)


#: A function that keeps the best of one phase, called in a loop that goes on to another one.
OF_A_PHASE = """
best_acc = 0
def finish(phase, right, count):
    global best_acc
    acc = right / count
    if CHOSEN:
        kept = acc
        if SCORE > best_acc:
            best_acc = SCORE
            torch.save(model.state_dict(), 'best.pt')
"""
TO_THE_TEST = """
for phase in ['train', 'dev', 'test']:
    right = count = 0
    for x, y in loaders[phase]:
        with torch.set_grad_enabled(phase == 'train'):
            output = model(x)
            if phase == 'train':
                loss = criterion(output, y)
                loss.backward()
                optimizer.step()
        right += hits(output, y)
        count += len(y)
    finish(phase, right, count)
"""
DP_OF_PHASES = """
import torch
from torch import nn
model = nn.DataParallel(nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
FUNCTIONS
for epoch in range(9):
    EPOCH
"""


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("score", ["acc", "kept"])
def test_what_is_compared_in_one_phase_counts_for_that_phase(tmp_path: Path, score: str, named: bool) -> None:
    """Others come behind it, and what is made in them too is none by which the script keeps its best."""
    function = OF_A_PHASE.replace("CHOSEN", "phase == 'dev'").replace("SCORE", score)
    text = code(DP_OF_PHASES).replace("FUNCTIONS", function).replace("    EPOCH\n", indent(TO_THE_TEST, "    "))
    plan = plan_of(tmp_path, text, Options(metric=score if named else "", mode="max"))
    assert plan.questions == []
    assert not any("the last one's alone counts" in note.message for note in plan.notes)
    changed = rewritten(plan)
    within, behind = changed.index("    if phase == 'dev':\n"), changed.index("for epoch in")
    assert within < changed.index(f"        pai_distributed.note_score({score})\n") < behind
    assert "report_validation_score(pai_distributed.noted_score(), model)" in changed


@pytest.mark.parametrize("chosen", ["phase != 'train'", "phase == 'train':\n        print(acc)\n    else"])
def test_what_is_compared_in_several_phases_is_asked_about(tmp_path: Path, chosen: str) -> None:
    function = OF_A_PHASE.replace("CHOSEN", chosen).replace("SCORE", "acc")
    text = code(DP_OF_PHASES).replace("FUNCTIONS", function).replace("    EPOCH\n", indent(TO_THE_TEST, "    "))
    (question,) = plan_of(tmp_path, text).questions
    assert "`acc` is made anew in each turn of `for phase in ['train', 'dev', 'test']:`" in question.message


_RUN, _COMPARED = (
    "metrics[split] = run(model, split)",
    "if split == 'val' and metrics[split] > best:\n    best = metrics[split]",
)
_BEHIND = "if 'val' in metrics and metrics['val'] > best:\n    best = metrics['val']"
_TAKEN = "if split == 'val':\n{0}    pai_score = metrics['val']\n"


@pytest.mark.parametrize(
    ("turn", "behind", "metric", "taken", "handed"),
    [
        pytest.param(f"{_RUN}\n{_COMPARED}", "", "", "", "metrics['val']", id="compared in its turn"),
        pytest.param(
            f"{_RUN}\nif split == 'val':\n    if metrics[split] > best:\n        best = metrics[split]",
            "",
            "",
            "",
            "metrics['val']",
            id="compared within",
        ),
        pytest.param(
            _RUN, "if metrics['val'] > best:\n    best = metrics['val']", "", "", "metrics['val']", id="behind"
        ),
        pytest.param(
            f"if epoch % 5 == 0:\n    {_RUN}",
            _BEHIND,
            "",
            _TAKEN.replace("metrics['val']\n", "metrics['val'] if 'val' in metrics else None\n"),
            "pai_score",
            id="in some epochs",
        ),
        pytest.param(
            f"if split == 'train' or epoch % 5 == 0:\n    {_RUN}", "", "metrics['val']", _TAKEN, "pai_score", id="named"
        ),
        pytest.param(
            f"if split == 'train' or epoch % 5 == 0:\n    {_RUN}\n    print(split)",
            "",
            "metrics['val']",
            _TAKEN,
            "pai_score",
            id="behind more of its block",
        ),
        pytest.param(
            f"if split == 'val' and epoch % 5 == 0:\n    {_RUN}",
            "",
            "metrics['val']",
            "            pai_score = metrics['val']\n",
            "pai_score",
            id="in no other turn",
        ),
        pytest.param(
            f"if split == 'val' and epoch % 5:\n    continue\n{_RUN}",
            "",
            "metrics['val']",
            "",
            "metrics['val'] if 'val' in metrics else None",
            id="passed over",
        ),
    ],
)
@pytest.mark.parametrize("order", ["['train', 'val']", "['val', 'train']"])
def test_an_item_that_one_turn_fills_is_taken_of_that_turn(
    tmp_path: Path, turn: str, behind: str, metric: str, taken: str, handed: str, order: str
) -> None:
    epoch = f"metrics = {{}}\nfor split in {order}:\n{indent(turn, '    ')}\n{behind}"
    changed = rewritten(plan_of(tmp_path, script(epoch, "best = 0"), Options(metric=metric, mode="max")))
    assert f"\n    pai_distributed.report_validation_score({handed}, model)\n" in changed
    assert taken.format(" " * 12) in changed


SAVES = "if acc > best_acc:\n    best_acc = acc\n    torch.save(model.state_dict(), 'best.pt')\n"


@pytest.mark.parametrize(
    ("chosen", "handed"),
    [
        pytest.param("if args.save:\n    SAVES", "\n    return acc\n", id="an option"),
        pytest.param("if epoch > 3:\n    SAVES", "\n    return acc\n", id="later epochs"),
        pytest.param(
            "if phase == 'dev':\n    if args.save:\n        SAVES",
            "\n        pai_distributed.note_score(acc)\n",
            id="an option within",
        ),
    ],
)
def test_what_is_the_same_in_all_phases_keeps_no_score_back(tmp_path: Path, chosen: str, handed: str) -> None:
    """A training without that option, or its first epochs, would have no score at all."""
    saves = chosen.replace("SAVES", indent(SAVES, "        " if "phase" in chosen else "    ").strip())
    function = "best_acc = 0\ndef finish(phase, epoch, right, count):\n    global best_acc\n    acc = right / count\n"
    text = code(DP_OF_PHASES).replace("FUNCTIONS", f"{function}{indent(saves, '    ')}")
    text = text.replace("    EPOCH\n", indent(TO_THE_TEST.replace("finish(phase, ", "finish(phase, epoch, "), "    "))
    plan = plan_of(tmp_path, text, Options(metric="acc", mode="max"))
    assert plan.questions == []
    assert handed in rewritten(plan)


OF_SPLITS = """
metrics = {}
for split in ["train", "val"]:
    total = 0
    for x, y in loaders[split]:
        out = model(x)
        if split == "train":
            loss = criterion(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += accuracy(out, y)
    if ASKED:
        metrics[split] = total
if metrics["val"] > best:
    best = metrics["val"]
"""


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        pytest.param("split == 'train' or epoch % 5 == 0", ["epoch % 5 == 0"], id="another turn's, or of some epochs"),
        pytest.param("split == 'val' or epoch % 5 == 0", [], id="in any case"),
        pytest.param("split != 'test' and epoch % 5 == 0", ["epoch % 5 == 0"], id="of some turns"),
        pytest.param("epoch % 5 == 0", ["epoch % 5 == 0"], id="of some epochs"),
    ],
)
def test_the_condition_of_a_score_is_that_of_its_own_turn(tmp_path: Path, condition: str, told: list[str]) -> None:
    text = script(code(OF_SPLITS).replace("ASKED", condition), "best = 0")
    text = text[: text.index("    for x, y in loader:")] + text[text.index("    metrics = {}") :]
    notes = [note.message for note in plan_of(tmp_path, text, Options(mode="max")).notes]
    found = [one.partition(" only if ")[2].partition(";")[0] for one in notes if "a score only if" in one]
    assert found == told
