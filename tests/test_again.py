"""Scores that a turn measures under one name in several places, each under conditions, as it trains on."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrofit.options import Options
from tests.helpers import code, plan_of, rewritten, script, survey_of

STEP = "        optimizer.step()\n"
#: Every so many steps, and at the end of an epoch, whatever its number of steps is.
NOW_AND_THEN = """\
        optimizer.step()
        if args.often and step % 200 == 0:
            val_loss = evaluate(model)
            log(val_loss)
"""
AT_THE_END = """
if args.often:
    val_loss = evaluate(model)
    log(val_loss)
"""


def measured(end: str = AT_THE_END, before: str = NOW_AND_THEN) -> str:
    return script(end).replace(STEP, before)


@pytest.mark.parametrize("options", [Options(), Options(metric="val_loss", mode="min")], ids=["found", "named"])
def test_of_a_score_that_is_measured_as_a_turn_trains_and_at_its_end_the_last_counts(
    tmp_path: Path, options: Options
) -> None:
    plan = plan_of(tmp_path, measured(), options)
    new = rewritten(plan)
    assert "            log(val_loss)\n            pai_score = val_loss\n" in new
    assert new.rstrip().endswith(
        "        log(val_loss)\n        pai_score = val_loss\n"
        "    pai_distributed.report_validation_score(pai_score, model)"
    )
    assert new.index("pai_score = None") < new.index("for ", new.index("for epoch") + 1)
    told = [note.message.partition(";")[0] for note in plan.notes if note.code == "PAI012"]
    assert told == ["there is a score only if args.often"]


@pytest.mark.parametrize("metric", ["sum(val_loss.values())", "max(list(val_loss.values()))"])
def test_of_what_is_made_of_a_variable_the_last_counts_too(tmp_path: Path, metric: str) -> None:
    plan = plan_of(tmp_path, measured(), Options(metric=metric, mode="min"))
    assert rewritten(plan).count(f"pai_score = {metric}\n") == 2
    assert "gets another value later" not in " ".join(note.message for note in plan.notes)


def test_of_one_that_is_made_of_other_data_at_the_end_the_first_counts_and_that_is_told(tmp_path: Path) -> None:
    text = measured(AT_THE_END.replace("(model)", "(model, test)"))
    plan = plan_of(tmp_path, text, Options(metric="sum(val_loss.values())", mode="min"))
    assert rewritten(plan).count("pai_score = sum(val_loss.values())\n") == 1
    assert "gets another value later" in " ".join(note.message for note in plan.notes)


@pytest.mark.parametrize(("numbers", "joined"), [(("step", "epoch"), True), (("step", "test"), False)])
def test_by_which_step_or_epoch_a_validation_is_told_is_all_the_same(numbers: tuple[str, str], joined: bool) -> None:
    first, last = (f"evaluate(model, {one})" for one in numbers)
    text = measured(
        *(one.replace("evaluate(model)", call) for one, call in ((AT_THE_END, last), (NOW_AND_THEN, first)))
    )
    (score,) = survey_of(text.replace("for x, y in loader", "for step, (x, y) in enumerate(loader)")).scores
    assert bool(score.earlier) is joined


def test_a_turn_has_a_score_where_either_of_two_places_measures_it() -> None:
    (score,) = survey_of(measured(AT_THE_END.replace("args.often", "epoch % 2 == 0 or last"))).scores
    assert score.condition == "(args.often and step % 200 == 0) or (epoch % 2 == 0 or last)"


@pytest.mark.parametrize(
    ("end", "before"),
    [
        pytest.param("val_loss = evaluate(model)", NOW_AND_THEN, id="at the end in any case"),
        pytest.param(
            "if epoch % 2 == 0:\n    val_loss = evaluate(model)\n" + AT_THE_END, STEP, id="nothing trains between"
        ),
        pytest.param(AT_THE_END.replace("(model)", "(model, test)"), NOW_AND_THEN, id="of other data at the end"),
        pytest.param("pass", NOW_AND_THEN + code(AT_THE_END).replace("\n", "\n        "), id="both as it trains"),
    ],
)
def test_a_score_of_one_place_is_measured_nowhere_earlier(end: str, before: str) -> None:
    (score,) = survey_of(measured(end, before)).scores
    assert (score.expression, score.earlier) == ("val_loss", [])


#: A turn that tells its loss every so many batches, on rank 0, as it trains and, without gradients, as it validates.
TOLD = """\
        if STEP:
            if rank == 0:
                told_loss = gathered['sum']
                log(told_loss)
"""
VALIDATED = """
model.eval()
gathered = {'sum': 0.0, 'n': 0}
with torch.no_grad():
    for step, (x, y) in enumerate(val_loader):
        gathered['sum'] += criterion(model(x), y).item()
        gathered['n'] += 1
        if LAST:
            if rank == 0:
                told_loss = gathered['sum'] / gathered['n']
                log(told_loss)
"""


def told_twice(step: str = "step % 4 == 0", last: str = "step == len(val_loader) - 1") -> str:
    text = measured(VALIDATED.replace("LAST", last), STEP + TOLD.replace("STEP", step))
    learnt = "        loss.backward()\n        gathered['sum'] += loss.item()\n"
    text = text.replace("        loss.backward()\n", learnt)
    return text.replace("    for x, y", "    gathered = {'sum': 0.0}\n    for step, (x, y)").replace(
        "in loader", "in enumerate(loader)"
    )


def test_of_a_name_that_the_training_gives_a_value_too_that_of_the_validation_counts(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, told_twice(), Options(metric="told_loss", mode="min"))
    new = rewritten(plan)
    assert new.count("pai_score = told_loss\n") == 1
    assert "/ gathered['n']\n                    log(told_loss)\n                    pai_score = told_loss\n" in new
    assert [note.message for note in plan.notes if note.code == "PAI012"] == []


def test_what_counts_of_two_that_both_train_is_told_without_a_reason(tmp_path: Path) -> None:
    text = measured("pass", STEP + TOLD.replace("STEP", "step % 4 == 0") + TOLD.replace("STEP", "step % 9 == 0"))
    text = text.replace("    loss.backward()\n", "    loss.backward()\n        gathered['sum'] += loss.item()\n")
    plan = plan_of(tmp_path, text, Options(metric="told_loss", mode="min"))
    told = [note.message for note in plan.notes if "another value later" in note.message]
    assert told == [
        "`told_loss` counts as it is made here; it gets another value later (line 21), which does not count"
    ]


OF_RANK_0 = """\
        optimizer.step()
        if dist.get_rank() == 0 and step % 200 == 0:
            val_loss = evaluate(model)
            log(val_loss)
"""


@pytest.mark.parametrize(
    ("end", "counts"),
    [
        pytest.param(AT_THE_END, True, id="of the same data"),
        pytest.param(AT_THE_END.replace("(model)", "(model, test)"), False, id="of other data"),
        pytest.param(AT_THE_END.replace("args.often", "args.often and dist.get_rank() == 0"), False, id="of rank 0"),
    ],
)
def test_what_all_ranks_measure_at_the_end_counts_rather_than_what_rank_0_does_between(
    tmp_path: Path, end: str, counts: bool
) -> None:
    plan = plan_of(tmp_path, measured(end, OF_RANK_0))
    new = rewritten(plan)
    assert ("            pai_score = val_loss\n" not in new) == counts
    told = [note.message.partition(";")[0] for note in plan.notes if note.code == "PAI012"]
    assert ("there is a score only if args.often" in told) == counts
