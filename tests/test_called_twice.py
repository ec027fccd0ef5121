"""Scores of functions that an epoch calls in several places, by constants that tell which of them measures."""

from __future__ import annotations

import pytest

from tests.helpers import script, survey_of

#: A function that validates, or tests and keeps no best.
PREDICT = """
def predict(epoch, test=True):
    global best
    MADE
    if not test:
        KEPT
        if f1 > best:
            best = f1
"""
BEFORE = PREDICT.replace("MADE", "f1 = measure(model)").replace("KEPT", "print(f1)")
WITHIN = PREDICT.replace("MADE", "hits = measure(model)").replace("KEPT", "f1 = hits / total")
BOTH = "predict(epoch, test=False)\npredict(epoch, test=True)"


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        pytest.param(BEFORE, BOTH, id="made by both calls"),
        pytest.param(WITHIN, BOTH, id="made by one call"),
        pytest.param(WITHIN + "    return test\n", "predict(epoch, False)\npredict(epoch)", id="noted"),
    ],
)
def test_score_of_a_function_is_that_of_the_one_call_that_leads_to_its_best(function: str, calls: str) -> None:
    (score,) = survey_of(script(calls, function)).scores
    assert score.kept is not None
    assert (score.expression, score.direction, score.condition) == ("f1", "max", "")
    assert score.kept.call.startswith("predict(epoch, test=False)" if calls is BOTH else "predict(epoch, False)")


def test_score_of_one_of_two_calls_is_there_where_that_is_made() -> None:
    calls = "if epoch % 2 == 0:\n    predict(epoch, False)\nelse:\n    predict(epoch, True)"
    (score,) = survey_of(script(calls, WITHIN + "    return test\n")).scores
    assert (score.expression, score.condition) == ("f1", "epoch % 2 == 0")


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param("predict(epoch, False)\npredict(epoch + 1, False)", id="both lead there"),
        pytest.param("predict(epoch, debug)\npredict(epoch, other)", id="nothing tells"),
        pytest.param("predict(epoch)\npredict(epoch)", id="neither leads there"),
    ],
)
def test_score_of_calls_of_which_not_one_alone_leads_to_its_best_is_none(calls: str) -> None:
    assert survey_of(script(calls, WITHIN)).scores == []


def test_score_that_is_noted_where_the_other_call_would_note_its_own_is_none() -> None:
    assert survey_of(script("predict(epoch, False)\npredict(epoch)", BEFORE + "    return test\n")).scores == []


def test_condition_that_a_call_leaves_open_is_told() -> None:
    (score,) = survey_of(script("predict(epoch, epoch % 3)", WITHIN)).scores
    assert score.condition == "not test"
