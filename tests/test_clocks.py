"""A training that the clock ends is asked about: each round would take that for its planned end."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from retrofit.options import Options
from tests.helpers import plan_of, rewritten, script, survey_of

BEGUN = "import datetime, time\nbest, begun = 0, time.time()\n"
SCORE = "acc = evaluate(model)\nif acc > best:\n    best = acc\n"
TIMED = "def timed():\n    return time.time() - begun, {'acc': measured(), 'at': time.time()}\n"
OVER = "def is_over():\n    return time.time() > begun + 60\n"


@pytest.mark.parametrize(
    ("ended", "before"),
    [
        pytest.param("if time.time() - begun > 60:\n    break", "", id="at once"),
        pytest.param("spent = time.time() - begun\nif spent > 60 and epoch:\n    break", "", id="by a name"),
        pytest.param("if datetime.datetime.now() > end:\n    exit()", "end = 5\n", id="by another clock"),
        pytest.param(
            "if int((datetime.datetime.now() - end).total_seconds()) > 5:\n    break", "end = 5\n", id="as a number"
        ),
        pytest.param("if is_over():\n    break", OVER, id="by a function"),
        pytest.param("spent, got = timed()\nif spent > 60:\n    break", TIMED, id="by one of two that it returns"),
        pytest.param("spent, got = timed()\nif got['at'] > 60:\n    break", TIMED, id="by an item of what it returns"),
    ],
)
def test_a_clock_that_ends_a_training_is_found(tmp_path: Path, ended: str, before: str) -> None:
    text = script(SCORE + ended, BEGUN + before)
    (loop,) = survey_of(text).loops
    (clock,) = loop.clocks
    (question,) = plan_of(tmp_path, text).questions
    assert (question.code, question.line, question.column) == ("PAI011", *clock.position)
    assert "ends the training by the clock" in question.message
    assert plan_of(tmp_path, text, Options(rounds="planned")).questions == []


LIMITED = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--minutes", type=float, default=DEFAULT)
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    ("default", "test", "optional"),
    [
        pytest.param("0", "if args.minutes and time.time() - begun > args.minutes * 60:", True, id="off"),
        pytest.param("None", "if args.minutes is not None and time.time() > begun + args.minutes:", True, id="none"),
        pytest.param("0", "if args.minutes > 0:\n    if time.time() - begun > args.minutes:", True, id="around"),
        pytest.param("9", "if args.minutes and time.time() - begun > args.minutes * 60:", False, id="on"),
        pytest.param("0", "if args.minutes or time.time() - begun > 60:", False, id="either"),
        pytest.param("0", "if args.other and time.time() - begun > args.minutes * 60:", False, id="another"),
    ],
)
def test_a_clock_that_an_option_sets_is_told_of_and_not_asked_about(
    tmp_path: Path, default: str, test: str, optional: bool
) -> None:
    text = script(
        f"{SCORE}{test}\n{' ' * (8 if '    if' in test else 4)}break", BEGUN + LIMITED.replace("DEFAULT", default)
    )
    assert [clock.optional for clock in survey_of(text).loops[0].clocks] == [optional]
    plan = plan_of(tmp_path, text)
    asked = [one for one in plan.questions if "ends the training by the clock, and" in one.message]
    told = [one for one in plan.notes if "ends the training by the clock where an option says so" in one.message]
    assert (len(asked), len(told)) == (not optional, optional)


@pytest.mark.parametrize(
    "ended",
    [
        "if epoch > 60:\n    break",
        "if time.time() - begun > 60:\n    print(acc)",
        "for x in loader:\n    if time.time() - begun > 60:\n        break",
        "first = load(model, name=time.time())\nif epoch > first:\n    break",
        "spent = time.time() - begun\nif acc > 0.9:\n    break",
        "spent, got = timed()\nif got['acc'] > 0.9:\n    break",
    ],
)
def test_other_ends_are_no_clocks(ended: str) -> None:
    (loop,) = survey_of(script(SCORE + ended, BEGUN + TIMED)).loops
    assert loop.clocks == []


def test_values_that_are_made_of_each_other_are_looked_at_once() -> None:
    made = "".join(f"v{number + 1} = v{number} + v{number}\n" for number in range(60))
    text = script(
        "acc = evaluate(model)\nif acc > best:\n    best = acc\nif v60 > 9:\n    break", f"best = v0 = 0\n{made}"
    )
    assert survey_of(text).loops[0].clocks == []


@pytest.mark.parametrize(
    ("validates", "before"),
    [
        pytest.param("if time.time() - begun > 60:", "", id="at once"),
        pytest.param("late = time.time() - begun > 60\nif late and epoch > 3:", "", id="by a name, and more"),
        pytest.param("if is_over():", OVER, id="by a function"),
        pytest.param("if torch.tensor(time.time() - begun > 60).int().item() == 1:", "", id="as a tensor"),
        pytest.param("if time.time() - begun > 60 or is_over():", OVER, id="by either of two"),
        pytest.param("if time.time() - begun < 60:\n    continue\nif True:", "", id="else by another turn"),
    ],
)
def test_a_validation_that_waits_for_the_clock_is_known(tmp_path: Path, validates: str, before: str) -> None:
    text = script(f"{validates}\n{indent(SCORE, '    ')}", BEGUN + before)
    assert [score.by_clock for score in survey_of(text).scores] == [True]
    assert "configure_library(by_clock=True)" in rewritten(plan_of(tmp_path, text))


@pytest.mark.parametrize(
    "validates",
    [
        "if epoch % 5 == 0:",
        "if time.time() - begun > 60 or epoch % 5 == 0:",
        "spent = time.time() - begun\nif epoch % 5 == 0:",
        "if not args.quick:",
        "if True:\n    print(time.time() - begun)",
    ],
)
def test_other_validations_are_no_matter_of_the_clock(validates: str) -> None:
    text = script(f"{validates}\n{indent(SCORE, '    ')}", BEGUN)
    assert [score.by_clock for score in survey_of(text).scores] == [False]


@pytest.mark.parametrize(
    ("within", "by_clock"),
    [
        ("    if time.time() - begun > 60:\n        begun = time.time()", True),
        ("    if time.time() - begun < 60:\n        return\n    if begun:", True),
        ("    if x:\n        time.time()", False),
    ],
)
def test_so_is_one_in_a_function(within: str, by_clock: bool) -> None:
    fit = (
        f"def fit():\n    global best, begun\n    for x in loader:\n{indent(within, '    ')}\n{indent(SCORE, ' ' * 12)}"
    )
    assert [score.by_clock for score in survey_of(script("fit()", BEGUN + fit)).scores] == [by_clock]


def test_a_training_that_runs_by_the_clock_validates_by_its_turns() -> None:
    text = script(SCORE, BEGUN).replace("for epoch", "if time.time() < 5:\n    exit()\nfor epoch")
    assert [score.by_clock for score in survey_of(text).scores] == [False]
