"""Scripts that have dendrites already by another release of the library, or by retrofit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import SCRIPT, swapped
from tests.helpers import plan_of, rewritten

_IMPORTS = "from perforatedai import globals_perforatedai as GPA\nfrom perforatedai import utils_perforatedai as UPA\n"
_MODEL = "    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))\n"
PERFORATED = (_MODEL, f"{_MODEL}    model = UPA.perforate_model(model, save_name='mine', maximizing_score=True)\n")


def with_(*pairs: tuple[str, str]) -> str:
    return swapped(SCRIPT, ("import argparse\n", f"import argparse\n\n{_IMPORTS}"), *pairs)


OLDER = {
    "models": ("from perforatedai import models_perforatedai as PM\n", "PM.ResNetPAI(model)"),
    "by its name": (
        "from perforatedai.utils_perforatedai import initialize_dendrites\n",
        "initialize_dendrites(model)",
    ),
    "newer": (_IMPORTS, "UPA.initialize_dendrites(model, torch.zeros(1, 4))"),
    "pb_utils": ("from perforatedai import pb_utils as PBU\n", "PBU.initializePB(model)"),
    "pb_globals": ("from perforatedai import pb_globals as PBG\n", "(PBG.switchMode, model)[1]"),
    "by the whole name": ("import perforatedai.pb_utils\n", "perforatedai.pb_utils.convertNetwork(model)"),
}


@pytest.mark.parametrize(("imports", "made"), OLDER.values(), ids=OLDER)
def test_another_release_is_refused_where_it_is_used(tmp_path: Path, imports: str, made: str) -> None:
    text = swapped(
        SCRIPT, ("import argparse\n", f"import argparse\n\n{imports}"), (_MODEL, f"{_MODEL}    model = {made}\n")
    )
    [question] = [q for q in plan_of(tmp_path, text).questions if q.code == "PAI108"]
    assert text.splitlines()[question.line - 1].strip() == f"model = {made}"
    assert question.message.startswith("`")


def test_what_retrofit_wrote_is_refused_neither_whole_nor_beside_a_single_gpu_integration(tmp_path: Path) -> None:
    for text in (SCRIPT, with_(PERFORATED)):
        first = rewritten(plan_of(tmp_path, text))
        again = plan_of(tmp_path, first)
        assert (again.questions, [file for file in again.files if file.path.name == "train.py"]) == ([], [])


def test_names_of_others_that_sound_alike_are_none_of_the_library(tmp_path: Path) -> None:
    text = swapped(
        SCRIPT,
        (_MODEL, f"{_MODEL}    model = initialize_pai(model)\n"),
        ("def main", "def initialize_pai(net):\n    return net\n\n\ndef main"),
    )
    assert plan_of(tmp_path, text).questions == []
