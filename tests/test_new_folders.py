"""A script that insists on a new folder does so at its first start alone: a training has several."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import code, plan_of, rewritten, script, survey_of

ARGUMENTS = """
import argparse, os, sys, time
from pathlib import Path
parser = argparse.ArgumentParser()
args = parser.parse_args()
"""
SCORE = "acc = evaluate(model)\nif acc > best:\n    best = acc"


def begun(text: str) -> str:
    """Return the script that begins with some code."""
    return script(SCORE, "best = 0").replace("\n\n", f"\n{ARGUMENTS}{code(text)}\n", 1)


@pytest.mark.parametrize(
    ("text", "new"),
    [
        pytest.param("os.makedirs(args.out)", "exist_ok=not args.perforate_model_parallel)", id="made"),
        pytest.param("os.makedirs(args.out, exist_ok=False)", "exist_ok=not args.perf", id="made, and said so"),
        pytest.param("os.mkdir(args.out)", "os.makedirs(args.out, exist_ok=not args.perf", id="one folder made"),
        pytest.param("Path(args.out).mkdir()", "Path(args.out).mkdir(exist_ok=not args.perf", id="a path's method"),
        pytest.param(
            "out = Path('runs') / args.name\nout.mkdir(parents=True)", "True, exist_ok=not args.perf", id="of a path"
        ),
    ],
)
def test_what_is_to_be_new_is_so_at_the_first_start_alone(tmp_path: Path, text: str, new: str) -> None:
    plan = plan_of(tmp_path, begun(text))
    assert len(plan.script.new_folders) == 1
    assert new in rewritten(plan)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("os.makedirs(args.out, exist_ok=True)", id="may be there"),
        pytest.param("os.makedirs(args.out, 0o755, True)", id="may be there, by position"),
        pytest.param("if not os.path.exists(args.out):\n    os.makedirs(args.out)", id="looked for"),
        pytest.param("try:\n    os.makedirs(args.out)\nexcept FileExistsError:\n    pass", id="tried"),
        pytest.param("os.makedirs(os.path.join('runs', str(time.time())))", id="with the time in it"),
        pytest.param("now = time.strftime('%d')\nout = f'runs/{now}'\nos.makedirs(out)", id="with a name for the time"),
        pytest.param("remote.mkdir(args.out)", id="of another kind"),
    ],
)
def test_what_may_be_there_is_left_alone(text: str) -> None:
    assert survey_of(begun(text)).new_folders == []


def test_a_path_that_is_made_of_itself_is_followed_once(tmp_path: Path) -> None:
    up = "def make(root):\n    while not root.exists():\n        root = root.parent\n    root.mkdir()\nmake(args.out)"
    assert survey_of(begun(up)).new_folders == []
    drawn = "out = args.out\nfor name in 'ab':\n    out = os.path.join(out, name) + str(out)\nos.makedirs(out)"
    assert len(survey_of(begun(drawn)).new_folders) == 1
