"""What the question for a score offers of a validation, and that each of it is taken when it is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrofit.options import Options
from tests.helpers import plan_of, script, survey_of

#: A validation that goes through batches, and ends somehow.
VALIDATE = """
def evaluate(model):
    model.eval()
    total = hits = n = 0
    stats, sums = {}, defaultdict(float)
    with torch.no_grad():
        for x, y in val_loader:
            out = model(x)
            BATCH
            total += cost(out, y).item()
            hits += right(out, y)
            n += len(x)
    END


def rates(hits, n):
    return {'top1': hits / n, 'error': 1 - hits / n, 'n': n}


class Matrix:
    def __init__(self, hits):
        self.parts = hits

    def compute(self):
        return self.parts[0], self.parts[1]
"""


@pytest.mark.parametrize(
    ("end", "epoch", "offered"),
    [
        pytest.param(
            "avg_loss = total / n\n    return avg_loss, hits / n, n",
            "a, b, c = evaluate(model)\nprint(a, b, c)",
            {"a": "avg_loss", "b": "hits / n"},
            id="parts of a tuple by what they are",
        ),
        pytest.param(
            "print(rates(hits, n))\n    m = rates(hits, n)\n    print(m)",
            "evaluate(model)",
            {"hits": "", "evaluate:m['top1']": "", "evaluate:m['error']": ""},
            id="items of what another function gives",
        ),
        pytest.param(
            "return Matrix(hits)",
            "matrix = evaluate(model)\nparts = matrix.compute()\nacc, iou = parts[:]\nprint(acc, iou)",
            {"acc": "", "iou": ""},
            id="what the loop makes of an object",
        ),
        pytest.param(
            "print(1)",
            "evaluate(model)",
            {"hits": "", "sums[...]": ""},
            id="sums by a key that is worked out, and nothing of one batch",
        ),
    ],
)
def test_the_numbers_of_a_validation_are_offered(end: str, epoch: str, offered: dict[str, str]) -> None:
    batch = "stats['loss'] = cost(out, y)\n            for key in names:\n                sums[key] += stats[key]"
    text = script(epoch, VALIDATE.replace("END", end).replace("BATCH", batch if "sums[...]" in offered else "pass"))
    found = survey_of(text)
    assert found.scores == []
    assert {name: place.partition(": ")[2] for name, place in found.measures} == offered
    for name in offered:
        (score,) = survey_of(text, name.replace("...", "'loss'"), "max").scores
        assert (score.known, score.unfit[0]) == (True, ""), name


@pytest.mark.parametrize(
    ("made", "key"),
    [
        ("OrderedDict([('em', n / 2), ('f1', total / n)])", "'f1'"),
        ("OrderedDict({'f1': total / n})", "'f1'"),
        ("dict(em=n / 2, f1=total / n)", "'f1'"),
        ("Counter(f1=total / n)", "'f1'"),
        ("OrderedDict()", "..."),
    ],
)
def test_items_are_offered_of_a_dict_however_it_is_made_and_no_attribute(tmp_path: Path, made: str, key: str) -> None:
    before = "from collections import Counter, OrderedDict\n" + VALIDATE.replace("BATCH", "pass")
    before = before.replace("END", f"results = {made}\n    return results, n")
    text = script("results, n = evaluate(model)\nfor name, value in results.items():\n    print(name, value)", before)
    found = survey_of(text)
    assert (found.scores, [name for name, _ in found.measures]) == ([], [f"results[{key}]"])
    (question,) = plan_of(tmp_path, text, Options(metric="results.f1", mode="max")).questions
    assert "`results.f1` has no meaning in this epoch loop" in question.message
    assert "evaluate:" not in question.message
    assert "between return it" not in question.message
    for other in ("results['f1']", "max(results.values())"):
        assert plan_of(tmp_path, text, Options(metric=other, mode="max")).questions == []


@pytest.mark.parametrize(
    ("head", "known"),
    [
        ("class Results:\n    pass", False),
        ("class Results(dict):\n    pass", True),
        ("class Results:\n    def __getitem__(self, name):\n        return 1.0", True),
        ("Results = EasyDict", True),
    ],
)
def test_items_have_a_meaning_only_of_what_has_items(head: str, known: bool) -> None:
    before = f"{head}\n{VALIDATE.replace('BATCH', 'pass').replace('END', 'return Results()')}"
    (score,) = survey_of(script("results = evaluate(model)\nprint(results)", before), "results['f1']", "max").scores
    assert score.known is known


def test_a_part_of_what_a_call_gives_may_be_named_that_the_user_alone_has_written() -> None:
    (score,) = survey_of(script("meter = evaluate(model)\nprint(meter)"), "meter.mean()[0]", "max").scores
    assert score.known


def test_an_item_that_is_summed_over_batches_is_offered() -> None:
    before = VALIDATE.replace("BATCH", "stats['loss'] += cost(out, y)").replace("END", "print(stats)")
    assert [name for name, _ in survey_of(script("evaluate(model)", before)).measures] == ["hits", "stats['loss']"]


def test_a_number_that_begins_again_is_no_best() -> None:
    wrapped = "number = number if number < cycle else number - cycle\nshow(validate(model), number)"
    assert survey_of(script(wrapped)).scores == []


def test_a_value_that_is_written_over_lines_is_not_offered() -> None:
    """A user names no such one, and its text alone is no expression."""
    before = """
class Trainer:
    def run(self, learns=True):
        total_loss = 0
        for i, (x, y) in enumerate(loader):
            loss = cost(model(x), y)
            if learns:
                loss.backward()
            total_loss += loss.item()
            writer.add_scalar("loss", total_loss /
                              (i + 1))
"""
    found = survey_of(script("Trainer().run()\nTrainer().run(False)", before))
    assert not any("\n" in name for name, _ in found.measures)
    assert not any("\n" in name for _, name, _ in found.trained)


def test_a_value_whose_name_and_making_tell_nothing_is_not_offered() -> None:
    before = VALIDATE.replace("BATCH", "pass").replace("END", "return n, 2 * n")
    assert survey_of(script("a, b = evaluate(model)", before)).measures == []


def test_keys_of_a_dict_that_the_loop_drops_tell_what_its_items_are() -> None:
    end = "return {'val_loss': total / n, 'acc': hits / n, 'error': 1 - hits / n, 'n': n}"
    found = survey_of(script("evaluate(model)", VALIDATE.replace("BATCH", "pass").replace("END", end))).scores
    assert [(s.expression, s.direction) for s in found] == [
        ("total / n", "min"),
        ("hits / n", "max"),
        ("1 - hits / n", "min"),
    ]


OWN = """
import torch

class Own(torch.optim.SGD):
    def step(self, closure=None):
        loss = None
        if closure is not None:
            loss = closure()
        with torch.no_grad():
            self.move()
        return loss

def fit(model, optimizer, loader):
    for x, y in loader:
        loss = cost(model(x), y)
        loss.backward()
        optimizer.step()

model = Net()
optimizer = Own(model.parameters(), lr=0.1)
model = torch.nn.DataParallel(model)
for epoch in range(9):
    fit(model, optimizer, loader)
"""


def test_what_an_optimizer_of_the_projects_own_has_in_its_step_is_none_of_it() -> None:
    assert survey_of(OWN).measures == []
    (score,) = survey_of(OWN, "loss", "min").scores
    assert score.kept is not None
    assert score.kept.index.scope_of(score.kept.node).name == "fit"


@pytest.mark.parametrize("held", ["held", "box.held"])
def test_the_mean_of_what_a_validation_collects_is_offered_also_in_an_attribute(held: str) -> None:
    epoch = f"""
        {held} = []
        model.eval()
        with torch.no_grad():
            for x, y in held_out:
                {held}.append(criterion(model(x), y).item())
        mean_known = np.mean({held})
        mean_learnt = np.mean(box.learnt)
        print(mean_known, mean_learnt)
    """
    step = "        optimizer.step()\n"
    text = script(epoch, "box = Box()").replace(step, f"{step}        box.learnt.append(loss.item())\n")
    assert [name for name, _ in survey_of(text).measures] == ["mean_known"]
    (score,) = survey_of(text, "mean_known", "min").scores
    assert (score.known, score.unfit[0]) == (True, "")


@pytest.mark.parametrize(("taken", "offered"), [("parts[i]", "parts[...]"), ("parts['acc']", "parts['acc']")])
def test_what_a_loop_takes_by_its_turns_is_not_offered_as_one_value(taken: str, offered: str) -> None:
    found = survey_of(script(f"parts = evaluate(model)\nfor i in range(3):\n    print({taken})\nprint(epoch)"))
    assert [*[name for name, _ in found.measures], *[one.expression for one in found.scores]] == [offered]


METERED = """
model.eval()
hits = 0
for x, y in val_loader:
    with torch.no_grad():
        meter.update(right(model(x), y))
        SHOWN
"""


@pytest.mark.parametrize(
    ("shown", "offered"),
    [
        ("print(meter.avg)", ["meter.avg"]),
        ("print(meter.val)", []),
        ("hits += 1\n        print(hits / len(y))", ["hits"]),
    ],
)
def test_the_mean_so_far_of_a_meter_that_a_validation_shows_is_offered(shown: str, offered: list[str]) -> None:
    found = survey_of(script(METERED.replace("SHOWN", shown), "meter = Meter()"))
    assert (found.scores, [name for name, _ in found.measures]) == ([], offered)
    for name in offered:
        (score,) = survey_of(script(METERED.replace("SHOWN", shown), "meter = Meter()"), name, "max").scores
        assert (score.known, score.unfit[0], score.last[0]) == (True, "", "")


def test_the_mean_so_far_of_the_trainings_meter_is_not_offered_beside_it() -> None:
    text = script(METERED.replace("SHOWN", "print(meter.avg)"), "meter, learnt = Meter(), Meter()")
    batch = "    for x, y in loader:\n        learnt.update(1)\n        print(learnt.avg)\n"
    found = survey_of(text.replace("    for x, y in loader:\n", batch))
    assert [name for name, _ in found.measures] == ["meter.avg"]


@pytest.mark.parametrize(
    ("better", "offered"),
    [
        pytest.param("if acc > self.highest_acc:\n            self.highest_acc = acc", ["acc"], id="the best so far"),
        pytest.param("if best > self.highest_acc:\n            self.highest_acc = best", ["best"], id="of limits"),
        pytest.param("self.last_acc = acc", ["acc", "self.last_acc"], id="the last one"),
    ],
)
def test_the_best_so_far_that_a_validation_keeps_is_not_offered(better: str, offered: list[str]) -> None:
    before = f"""
class Verification:
    def verify(self, net):
        net.eval()
        {offered[0]} = 0.0
        with torch.no_grad():
            similar = net(pairs)
        for limit in limits:
            {offered[0]} = max({offered[0]}, hits(similar, limit))
        print({offered[0]})
        {better}

    def __call__(self, number, net):
        if number % 4 == 0:
            self.verify(net)
            net.train()


verification = Verification()
"""
    step = "        optimizer.step()\n"
    text = script("pass", before).replace(step, f"{step}        verification(step, model)\n")
    found = survey_of(text)
    assert (found.scores, [name.removeprefix("verify:") for name, _ in found.measures]) == ([], offered)


#: A validation written out in the epoch loop, which knows its means at the last batch alone.
AT_THE_LAST = """
sums, meter, loss = {'n': 0}, Meter(), 0
model.eval()
for step, (x, y) in enumerate(val_loader):
    with torch.no_grad():
        out = model(x)
    ALWAYS
    if step == last:
        known = sums
        MADE
"""


@pytest.mark.parametrize(
    ("always", "made", "offered"),
    [
        pytest.param("sums['n'] += right(out, y)", "acc = sums['n'] / 9", ["acc"], id="of a dict's item"),
        pytest.param("sums['n'] += right(out, y)", "acc = known['n'] / 9", ["acc"], id="by another name"),
        pytest.param("meter.update(right(out, y))", "acc = meter.compute()", ["acc"], id="of a meter"),
        pytest.param("meter.update(right(out, y))", "acc = right(out, y)", [], id="of that batch alone"),
        pytest.param("sums['n'] += right(out, y)", "thing = sums['n'] / 9", [], id="what sounds like no score"),
        pytest.param("meter.update(right(out, y))\n    acc = meter.share(1)", "print(acc)", [], id="at each batch"),
    ],
)
def test_the_mean_that_a_validation_makes_at_its_last_batch_is_offered(
    always: str, made: str, offered: list[str]
) -> None:
    text = script(AT_THE_LAST.replace("ALWAYS", always).replace("MADE", made), "last = 9")
    found = survey_of(text)
    assert (found.scores, [name for name, _ in found.measures]) == ([], offered)
    for name in offered:
        (score,) = survey_of(text, name, "max").scores
        assert (score.known, score.unfit[0]) == (True, "")


def test_the_mean_that_a_training_makes_at_some_batches_is_not_offered() -> None:
    text = script().replace("optimizer.step()\n", "n += hits(x)\n        if n > 9:\n            acc = n / 9\n")
    assert survey_of(text).measures == []


#: An epoch that validates and then tests, of which the words for a measure are in the test's name alone.
MEASURED = """
model.eval()
with torch.no_grad():
    parts = []
    for x, y in val_loader:
        loss = criterion(model(x), y)
        parts.append(loss)
        writer.add_scalar("Batch/valid", loss.item(), n)
    losst_va = torch.stack(parts).mean()
    TELL
    for x, y in test_loader:
        parts.append(criterion(model(x), y))
    mean_score = torch.stack(parts).mean()
    print(mean_score)
"""


@pytest.mark.parametrize(
    ("tell", "others"),
    [
        ("writer.add_scalar('Loss/valid', losst_va.item(), epoch)", "`losst_va` (line 22)"),
        ("print('valid {:.4f}'.format(losst_va.item()))", "`losst_va` (line 22)"),
        ("print(f'valid {losst_va}')", "`losst_va` (line 22)"),
        ("print(epoch)", ""),
    ],
)
def test_what_is_told_beside_a_score_by_its_name_alone_is_offered(tmp_path: Path, tell: str, others: str) -> None:
    (question,) = plan_of(tmp_path, script(MEASURED.replace("TELL", tell))).questions
    assert (
        "a higher or a lower `mean_score` is better is not told by the script (line 25). Say it with"
        in question.message
    )
    assert question.message.endswith(f"or choose another value with --metric EXPR: {others}." if others else "min.")
    plan = plan_of(tmp_path, script(MEASURED.replace("TELL", tell)), Options(mode="min"))
    assert plan.questions == []


def test_what_is_told_of_each_batch_alone_is_not_offered() -> None:
    epoch = MEASURED.replace("losst_va =", "found =").replace("mean_score", "other").replace("print(other)", "pass")
    found = survey_of(script(epoch.replace("TELL", "print(found.item())")))
    assert (found.scores, [name for name, _ in found.measures]) == ([], ["found"])


HALVED = """
import argparse
import torch
from apex import amp
parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
args = parser.parse_args()
model = torch.nn.DataParallel(Net())
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(5):
    for x, y in loader:
        loss = criterion(model(x), y)
        if args.fp16:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
                SHOWN
        else:
            OTHERWISE
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("shown", "otherwise", "offered"),
    [
        pytest.param("pass", "loss.backward()", ["loss"], id="its loss"),
        pytest.param("print(f'loss {scaled_loss}')", "loss.backward()", ["loss"], id="that it tells"),
        pytest.param("pass", "pass", [], id="no other way"),
    ],
)
def test_what_stands_only_in_a_library_that_an_option_leads_to_is_not_offered(
    shown: str, otherwise: str, offered: list[str]
) -> None:
    found = survey_of(HALVED.replace("SHOWN", shown).replace("OTHERWISE", otherwise))
    assert [name for _, name, _ in found.trained] == offered


def test_what_stands_in_a_block_of_no_such_library_is_offered() -> None:
    text = HALVED.replace("amp.scale_loss(loss, optimizer)", "scaled(loss)").replace("SHOWN", "pass")
    found = survey_of(text.replace("OTHERWISE", "pass"))
    assert [name for _, name, _ in found.trained] == ["scaled_loss"]


#: A validation in a file's function that gives means, and the number of each class.
OF_EACH_CLASS = """
def rates(sums):
    rates_of = []
    for hits in sums:
        rates_of.append(hits / 9)
    return sum(rates_of) / len(rates_of), rates_of


def evaluate(model):
    model.eval()
    loss, sums = 0, [0, 0]
    with torch.no_grad():
        for x, y in val_loader:
            loss += cost(model(x), y).item()
            sums[y] += right(model(x), y)
    mean_acc, every_acc = rates(sums)
    return loss / 9, mean_acc, every_acc
"""


def test_of_several_values_those_that_are_no_number_are_not_offered(tmp_path: Path) -> None:
    """Nor is a text in a set, as some log it."""
    text = script(
        "val_loss, val_acc, accs = evaluate(model)\nshown = {f'loss {val_loss}'}\nlogging.info(shown)\n"
        "shown = {'accs'}\nlogging.info(shown)",
        f"import logging\n{OF_EACH_CLASS}",
    ).replace("accs", "acc_of_each")
    (question,) = plan_of(tmp_path, text).questions
    assert "several values may be the validation score: `val_loss` (line " in question.message
    assert "`val_acc` (line " in question.message
    assert "acc_of_each" not in question.message
    assert "shown" not in question.message
    one = text.replace("val_loss, val_acc,", "loss_there, _,").replace("val_loss", "loss_there")
    (question,) = plan_of(tmp_path, one).questions
    assert "acc_of_each" in question.message  # else nothing would be left to choose


@pytest.mark.parametrize(
    ("made", "offered"),
    [
        ("time.time()", ["hits"]),
        ("datetime.now()", ["hits"]),
        ("hits / n", ["acc_then"]),
        ("right(model)", ["hits", "acc_then"]),
    ],
)
def test_a_time_that_a_validation_takes_is_not_offered(made: str, offered: list[str]) -> None:
    end = f"acc_then = {made}\n    print(total, acc_then)"
    before = f"import time\nfrom datetime import datetime\n{VALIDATE.replace('BATCH', 'pass').replace('END', end)}"
    found = survey_of(script("evaluate(model)", before))
    assert [name for name, _ in found.measures] == offered


@pytest.mark.parametrize(
    ("end", "offered"),
    [
        pytest.param("acc_told = f'a {1}' f'b {2}'", [], id="a text over lines"),
        pytest.param("all_acc = zeros([4])\nall_acc = all_acc[:3, :]", [], id="a part of several"),
        pytest.param("all_acc = made(n)\nall_acc[0:n] = hits", [], id="what parts are set of"),
        pytest.param("all_acc = made(n)\nall_acc = all_acc[0:n].max()", ["all_acc"], id="a number of parts"),
        pytest.param("err = abs(model(rows) - labels)\nprint(err.mean())", ["err.mean()"], id="what has a mean"),
        pytest.param("err = abs(model(rows) - labels)\nprint(err)", ["err"], id="what may have none"),
        pytest.param("loss_share = args.share", [], id="an option"),
        pytest.param("args.share = right(model)\nloss_share = args.share", ["loss_share"], id="an option that is set"),
        pytest.param("loss_share = other.share", ["loss_share"], id="what is of something else"),
    ],
)
def test_what_of_a_validation_is_visibly_no_number_of_it_is_not_offered(
    tmp_path: Path, end: str, offered: list[str]
) -> None:
    before = VALIDATE.replace("BATCH", "pass").replace("END", end.replace("\n", "\n    "))
    text = script("evaluate(model)", f"import argparse\nargs = argparse.ArgumentParser().parse_args()\n{before}")
    assert [name for name, _ in survey_of(text).measures] == ["hits", *offered]
    for name in offered:
        assert plan_of(tmp_path, text, Options(metric=name, mode="max")).questions == []


def test_a_text_that_is_written_over_lines_and_told_is_not_offered() -> None:
    before = VALIDATE.replace("BATCH", "pass").replace("END", "return total, hits / n")
    told = "loss_there, score = evaluate(model)\nmsg = f'a {loss_there}' f'b {score}'\nlog.write(msg)"
    assert survey_of(script(told, before)).measures == []


@pytest.mark.parametrize(
    ("shown", "taken"),
    [
        pytest.param("' '.join('{}'.format(stats[one]) for one in chosen)", [], id="a generator"),
        pytest.param("[float(stats[one]) for _, one in chosen]", [], id="a list"),
        pytest.param("{one: stats[one] for part in chosen for one in part}", [], id="an inner one"),
        pytest.param("list(map(lambda one: stats[one], chosen))", [], id="a lambda"),
        pytest.param("[stats[which] * one for one in chosen]", ["stats[which]"], id="another name"),
        pytest.param("[stats['f1'] for one in chosen]", ["stats['f1']"], id="no name"),
    ],
)
def test_an_item_by_a_comprehensions_own_name_is_none_of_the_loops(shown: str, taken: list[str]) -> None:
    """Handed over in the loop it would end the first epoch: there the name has no value."""
    before = VALIDATE.replace("BATCH", "pass").replace("END", "return rates(hits, n)")
    found = survey_of(script(f"stats = evaluate(model)\nprint({shown})", f"which, chosen = 'f1', ['f1']\n{before}"))
    assert [one.expression for one in found.scores] == taken
    assert "stats[one]" not in [name for name, _ in found.measures]


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("early_stop(stats[one]) for one in chosen", "mean(losses)"),
        ("early_stop(one.loss) for one in stats", "mean(losses)"),
        ("early_stop(stats['f1']) for one in chosen", "stats['f1']"),
    ],
)
def test_what_a_comprehension_gives_away_by_its_own_name_is_outdone_by_what_the_loop_has(
    given: str, taken: str
) -> None:
    plateau = "chosen = ['f1']\nplateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)"
    text = script(f"stats, one = measured(), 0\n[{given}]\nplateau.step(mean(losses))", plateau)
    text = text.replace("    for x", "    losses = []\n    for x").replace(
        "step()\n", "step()\n        losses += [loss]\n"
    )
    assert [one.expression for one in survey_of(text).scores] == [taken]


def test_what_a_training_makes_of_its_sums_is_offered_before_them() -> None:
    """The question shows three, and what is the same on all ranks is made last."""
    epochs = """
for epoch in range(9):
    total_loss = right_acc = 0
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total_loss += loss.item()
        right_acc += hits(y)
    mean_loss = total_loss / len(loader)
    acc_sum = torch.tensor([100 * right_acc / len(loader)])
    dist.all_reduce(acc_sum)
    global_acc = acc_sum.item() / dist.get_world_size()
"""
    names = [name for _, name, _ in survey_of(script().partition("for epoch")[0] + epochs).trained]
    assert names[:2] == ["mean_loss", "global_acc"]
    assert set(names[2:]) >= {"total_loss", "right_acc"}
