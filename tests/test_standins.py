"""A score that not all ranks have, or not all epochs: whose counts, and what is asked."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from retrofit.options import Options
from tests.helpers import code, plan_of, rewritten, script, survey_of

_FUNCTIONS = """
import torch.distributed as dist
rank, world = dist.get_rank(), dist.get_world_size()


def mean_of(value):
    value = value.clone()
    dist.reduce(value, dst=0)
    return value / world


def add_up(value):
    dist.reduce(value, 0)


def mean_on(value, first):
    dist.reduce(value, dst=first)
    return value / world


def mean_by_default(value, first=0):
    dist.reduce(value, first)
    return value / world


def mean_on_last(value, first=0):
    if world > 4:
        first = world - 1
    dist.reduce(value, first)
    return value / world


def mean_for_all(value):
    dist.all_reduce(value)
    return value / world


def reduced(model):
    right, total = count(model)
    dist.reduce(right, 0)
    dist.reduce(total, 0)
    return (right / total).item()


def reduced_in_turn(model):
    right, total = count(model)
    for value in (right, total):
        dist.reduce(value, dst=0)
    return right / total


def reduced_by_key(model):
    stats = {'loss': count(model), 'acc': count(model)}
    for key in stats:
        dist.reduce(stats[key], dst=0)
    return {key: value.item() for key, value in stats.items()}


def reduced_by_value(model):
    stats = {'loss': count(model), 'acc': count(model)}
    for name, value in stats.items():
        dist.reduce(value, dst=0)
    return stats


def reduced_first(model):
    parts = [count(model), count(model)]
    dist.reduce(parts[0], 0)
    return parts


def shared_by_key(model):
    stats = {'loss': count(model), 'acc': count(model)}
    for key in stats:
        dist.all_reduce(stats[key])
    return {key: value.item() for key, value in stats.items()}


def some_shared_by_key(model):
    stats = {'loss': count(model), 'acc': count(model)}
    dist.reduce(stats['acc'], 0)
    for key in ("loss", "n"):
        dist.all_reduce(stats[key])
    return stats


def some_reduced_by_key(model):
    stats = {'loss': count(model), 'acc': count(model)}
    for key in ("loss", "n"):
        dist.reduce(stats[key], 0)
    return stats


def copies_reduced_by_value(model):
    stats = {'loss': count(model), 'acc': count(model)}
    for name, value in stats.items():
        value = torch.tensor(value)
        dist.reduce(value, dst=0)
        print(name, value)
    return stats


def shared_in_turn(model):
    right, total = count(model)
    for value in (right, total):
        dist.all_reduce(value)
    return right / total


def broadcast(model):
    right = count(model)
    dist.reduce(right, 0)
    dist.broadcast(right, 0)
    return right.item()


def gathered(model):
    parts = [None] * world
    dist.gather_object(count(model), parts, dst=0)
    return sum(parts)


def leaves_early(model, other=None):
    if rank != 0:
        return 0.0
    with torch.no_grad():
        return count(model)


def begins_with_zero(model):
    acc = 0.0
    if dist.get_rank() == 0:
        acc = count(model)
    return acc


def in_a_dict(model):
    stats = {'loss': count(model), 'acc': 0.0}
    if rank == 0:
        stats['acc'] = count(model)
    return stats


def not_in_a_dict(model):
    stats = {'loss': count(model)}
    if rank == 0:
        stats['acc'] = count(model)
    return stats


def two(model):
    return (count(model), 1) if rank == 0 else (float('-inf'), 0)


def every_few(model, number):
    if number % 5:
        return -1
    return count(model)


def none_but_every_few(model, number):
    rare = number % 5 == 0
    if rare:
        return count(model)


def summed_every_few(model, number):
    if number % 5 == 0:
        total = 0
        for x, y in held_out:
            total += hits(model(x), y)
        return total
    return None


def summed_from_0(model, more=False):
    stats = {'valid': 0}
    for x, y in all_of(held_out, more):
        stats['valid'] += hits(model(x), y)
    return stats


def of_none(model):
    return right / total if total else 0.0


"""


def planned(folder: Path, epoch: str, options: str = "") -> tuple[str, list[str]]:
    """Return the rewritten hand-over of a score, and the questions."""
    plan = plan_of(folder, code(_FUNCTIONS) + script(epoch, f"best = 0\n{options}"))
    new = rewritten(plan).splitlines() if not plan.questions else []
    given = [line.partition("report_validation_score")[2] for line in new if "report_validation_score" in line]
    return "".join(given), [question.message for question in plan.questions]


BEST = "\nbest = max(best, acc)"


@pytest.mark.parametrize(
    "epoch",
    [
        pytest.param(f"acc = reduced(model){BEST}", id="reduced in a function"),
        pytest.param(f"acc = reduced_in_turn(model){BEST}", id="reduced one after the other"),
        pytest.param(f"acc = reduced_by_key(model)['acc']{BEST}", id="reduced item by item"),
        pytest.param(f"acc = reduced_by_value(model)['acc']{BEST}", id="reduced value by value"),
        pytest.param(f"acc = some_shared_by_key(model)['acc']{BEST}", id="of which other items are shared"),
        pytest.param(f"acc = reduced_first(model)[0]{BEST}", id="the item that is reduced"),
        pytest.param(f"acc = mean_of(evaluate(model)){BEST}", id="by a helper"),
        pytest.param(f"acc = mean_on(evaluate(model), 0){BEST}", id="on the rank that is named"),
        pytest.param(f"acc = mean_by_default(evaluate(model)){BEST}", id="on the rank that is meant by default"),
        pytest.param(f"acc = evaluate(model)\nadd_up(acc)\nacc = acc / world{BEST}", id="by a helper, in place"),
        pytest.param(f"acc = evaluate(model)\ndist.reduce(tensor=acc, dst=0){BEST}", id="in the loop"),
        pytest.param("acc = reduced(model)\nif rank == 0:\n    best = max(best, acc)", id="compared on rank 0"),
        pytest.param(f"acc = gathered(model){BEST}", id="gathered"),
        pytest.param(f"acc = leaves_early(model){BEST}", id="left early"),
        pytest.param(f"acc = begins_with_zero(model){BEST}", id="begun with 0"),
        pytest.param(f"acc = evaluate(model) if rank == 0 else 0{BEST}", id="chosen"),
        pytest.param(f"acc, n = two(model){BEST}", id="the first of two"),
    ],
)
def test_what_rank_0_alone_has_is_its_score_alone(tmp_path: Path, epoch: str) -> None:
    assert planned(tmp_path, epoch) == ("(acc, model, of_rank_0=True)", [])


FILLED = """
def validate(model):
    results, others = [], []
    for x, y in val_loader:
        acc = (model(x) == y).mean()
        FILL
    END
"""


@pytest.mark.parametrize(
    ("fill", "end", "alone"),
    [
        ("if rank == 0:\n            results.append(acc)", "return sum(results) / max(1, len(results))", True),
        (
            "if rank != 0:\n            pass\n        else:\n            results.append(acc)",
            "return sum(results)",
            True,
        ),
        ("if is_main_process():\n            results.append(acc)", "return np.sum(results)", True),
        ("if rank == 1:\n            results.append(acc)", "return sum(results)", False),
        ("if rank == 0:\n            others.append(acc)\n        results.append(acc)", "return sum(results)", False),
        ("if len(x) == 8:\n            results.append(acc)", "return sum(results)", False),
        (
            "if rank == 0:\n            results.append(acc)",
            "out = torch.tensor(sum(results))\n    dist.broadcast(out, 0)\n    return out.item()",
            False,
        ),
    ],
)
def test_so_is_what_is_made_of_what_it_alone_fills(tmp_path: Path, fill: str, end: str, alone: bool) -> None:
    before = FILLED.replace("FILL", fill).replace("END", end)
    head = "import numpy as np\nimport torch.distributed as dist\nrank = dist.get_rank()\nbest = 0\n"
    (score,) = survey_of(script(f"acc = validate(model){BEST}", head + before)).scores
    assert (score.expression, bool(score.alone)) == ("acc", alone)


def test_so_is_one_that_is_named_and_made_in_what_the_turn_ends_with(tmp_path: Path) -> None:
    epoch = "if epoch % 1 == 0:\n    stats = reduced_by_key(model)\n    print(stats)"
    plan = plan_of(tmp_path, code(_FUNCTIONS) + script(epoch), Options(metric="stats['acc']", mode="max"))
    assert "pai_distributed.report_validation_score(pai_score, model, of_rank_0=True)" in rewritten(plan)


@pytest.mark.parametrize(
    ("made", "given"),
    [
        ("in_a_dict", "(stats['acc'], model, of_rank_0=True)"),
        ("not_in_a_dict", "(stats['acc'] if 'acc' in stats else None, model)"),
    ],
)
def test_so_is_an_item_that_it_alone_makes(tmp_path: Path, made: str, given: str) -> None:
    epoch = f"stats = {made}(model)\nif rank == 0:\n    best = max(best, stats['acc'])"
    assert planned(tmp_path, epoch) == (given, [])


@pytest.mark.parametrize(
    "epoch",
    [
        pytest.param(f"acc = mean_for_all(evaluate(model)){BEST}", id="all have it"),
        pytest.param(f"acc = shared_in_turn(model){BEST}", id="shared one after the other"),
        pytest.param(f"acc = shared_by_key(model)['acc']{BEST}", id="shared item by item"),
        pytest.param(f"acc = copies_reduced_by_value(model)['acc']{BEST}", id="copies reduced"),
        pytest.param(f"acc = reduced_first(model)[1]{BEST}", id="an item that is not reduced"),
        pytest.param(f"acc = some_reduced_by_key(model)['acc']{BEST}", id="an item of other keys"),
        pytest.param(f"acc = broadcast(model){BEST}", id="all get it"),
        pytest.param(f"dist.reduce(loss, 0)\nlog(loss)\nacc = evaluate(model){BEST}", id="another value"),
        pytest.param(f"acc = evaluate(model){BEST}\nadd_up(acc)", id="after it is taken"),
        pytest.param(f"acc = of_none(model){BEST}", id="none counted"),
        pytest.param(f"n += len(loader)\nacc = evaluate(model) if n > 0 else 0{BEST}", id="a sum that is there"),
        pytest.param(f"acc = 0.0\nacc = evaluate(model){BEST}", id="made anew"),
        pytest.param(f"acc = evaluate(model) if rank == 0 else evaluate(other){BEST}", id="measured either way"),
    ],
)
def test_the_mean_of_all_counts_otherwise(tmp_path: Path, epoch: str) -> None:
    assert planned(tmp_path, epoch) == ("(acc, model)", [])


@pytest.mark.parametrize("rank", ["1", "args.first", "y"])
def test_what_another_rank_has_is_asked(tmp_path: Path, rank: str) -> None:
    _, questions = planned(tmp_path, f"acc = evaluate(model)\ndist.reduce(acc, {rank}){BEST}")
    assert len(questions) == 1
    assert f": dist.reduce(acc, {rank})). Leave it on rank 0" in questions[0]


@pytest.mark.parametrize("rank", ["1", "rank", "0)\nlow = mean_on(loss, 1"])
def test_so_is_what_a_helper_leaves_on_a_rank_that_may_be_another(tmp_path: Path, rank: str) -> None:
    _, questions = planned(tmp_path, f"acc = mean_on(evaluate(model), {rank}){BEST}")
    assert len(questions) == 1
    assert ": dist.reduce(value, dst=first)). Leave it on rank 0" in questions[0]


def test_so_is_what_it_leaves_on_a_rank_that_it_chooses_anew(tmp_path: Path) -> None:
    _, (asked,) = planned(tmp_path, f"acc = mean_on_last(evaluate(model), 0){BEST}")
    assert ": dist.reduce(value, first)). Leave it on rank 0" in asked


@pytest.mark.parametrize(
    ("made", "number", "condition"),
    [
        pytest.param("every_few(model, epoch)", "-1", "not (number % 5)", id="a function"),
        pytest.param("evaluate(model) if epoch % 5 == 0 else 0.0", "0.0", "epoch % 5 == 0", id="the loop"),
        pytest.param("evaluate(model) if epoch % 5 == 0 else best", "best", "epoch % 5 == 0", id="the best so far"),
    ],
)
def test_a_number_in_place_of_a_score_is_asked(tmp_path: Path, made: str, number: str, condition: str) -> None:
    _, questions = planned(tmp_path, f"acc = {made}{BEST}")
    assert len(questions) == 1
    assert f"`acc` is {number} (line" in questions[0]
    assert f"only if {condition}, and" in questions[0]


@pytest.mark.parametrize(
    ("made", "condition"),
    [
        pytest.param("none_but_every_few(model, epoch)", "rare", id="a function"),
        pytest.param("evaluate(model) if epoch % 5 == 0 else None", "epoch % 5 == 0", id="the loop"),
        pytest.param("evaluate(model) if epoch % 1 == 0 else 0.0", "", id="each by a count"),
        pytest.param("evaluate(model) if epoch / 2 % 1 == 0 else None", "epoch / 2 % 1 == 0", id="half a count"),
        pytest.param("evaluate(model) if epoch else np.inf", "epoch", id="no number"),
        pytest.param("summed_every_few(model, epoch)", "number % 5 == 0", id="a sum"),
        pytest.param("evaluate(model) if rank == 0 else None", "", id="of a rank"),
        pytest.param("evaluate(model)", "", id="each"),
    ],
)
def test_none_in_its_place_keeps_a_scheduler_that_is_stepped_every_epoch(made: str, condition: str) -> None:
    text = script(
        f"sched.step()\nacc = {made}\nif acc is not None:\n    best = max(best, acc)",
        f"{_FUNCTIONS}best = 0\nsched = torch.optim.lr_scheduler.StepLR(optimizer, 3)",
    )
    found = survey_of(text)
    assert (found.scores[0].condition, found.scores[0].unmeasured[0]) == (condition, "")
    assert found.steps[0].removed is not bool(condition)


def test_a_sum_that_each_branch_begins_is_measured_in_both(tmp_path: Path) -> None:
    made = "stats = summed_from_0(model, True) if epoch == 9 else summed_from_0(model)"
    given, questions = planned(tmp_path, f"{made}\nif stats['valid'] > best:\n    best = stats['valid']")
    assert (given, questions) == ("(stats['valid'], model)", [])


DECORATED = """
import functools

def timed(f):
    @functools.wraps(f)
    def inner(*args):
        BODY
    return inner

def named(text):
    return timed

@DECORATOR
def evaluate(model):
    acc = hits(model)
    return acc
"""


@pytest.mark.parametrize("decorator", ["timed", "named('test')"])
@pytest.mark.parametrize(
    ("body", "mute"),
    [
        pytest.param("f(*args)", True, id="nothing"),
        pytest.param("return f(*args)", False, id="what it gets"),
        pytest.param("found = f(*args)\n        return found", False, id="by a name"),
    ],
)
def test_what_a_decorator_of_the_project_does_not_return_is_no_score(decorator: str, body: str, mute: bool) -> None:
    before = DECORATED.replace("DECORATOR", decorator).replace("BODY", body)
    found = survey_of(script("acc = evaluate(model)\nprint(acc)", before)).scores
    assert [score.expression for score in found] == ["acc"] * (not mute)


@pytest.mark.parametrize(
    ("adding", "number"),
    [
        pytest.param("total += right(x)", "", id="once a turn"),
        pytest.param("for y in x:\n    total += right(y)", "", id="in a loop"),
        pytest.param("for y in x:\n    total = right(y)", "0.5", id="nothing is added"),
    ],
)
def test_a_sum_that_begins_again_behind_what_each_turn_adds_is_measured(adding: str, number: str) -> None:
    batch = f"{adding}\nif epoch % 5 == 0:\n    print(total)\n    total = 0.5"
    (score,) = survey_of(script(f"total = 0.0\nfor x in held_out:\n{indent(batch, '    ')}"), "total", "max").scores
    assert score.unmeasured[0] == number
