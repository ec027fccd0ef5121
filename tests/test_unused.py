"""Imports that only replaced code used, which go with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import swapped
from tests.helpers import plan_of, rewritten
from tests.test_adoption import integrated

SYS = "import sys\n"
GONE = {
    "a line of its own": (SYS, ""),
    "with a comment": ("import sys  # to leave\n", ""),
    "beside others": ("import sys, json\n", "import json\n"),
    "behind others": ("import json, sys  # both\n", "import json  # both\n"),
    "from a module": ("from sys import exit as leave, path\n", "from sys import path\n"),
    "in parentheses": ("from sys import (\n    path,\n    exit as leave,\n)\n", "from sys import (\n    path,\n)\n"),
}
KEPT = {
    "used elsewhere": (SYS, "sys.stdout.flush()\n"),
    "exported": (SYS, "__all__ = ['sys', 'main']\n"),
    "in an annotation": (SYS, "def own(x: 'list[sys.Own]'): pass\n"),
    "exported by its name": ("import sys as sys\n", ""),
    "if there is one": ("try:\n    import sys\nexcept ImportError:\n    sys = None\n", ""),
    "on a line with others": ("import sys; import json\n", ""),
}
SAID = '"""Uses sys."""\n'


def text_of(imported: str, after: str = "") -> str:
    """Return an integrated script in which only the hand-over leaves by `sys`."""
    text = swapped(integrated(after=after), (SYS, imported))
    return text.replace("sys.exit", "leave") if "leave" in imported and "from" in imported else text


@pytest.mark.parametrize(("imported", "left"), GONE.values(), ids=GONE)
def test_an_import_goes_with_what_used_it(tmp_path: Path, imported: str, left: str) -> None:
    new = rewritten(plan_of(tmp_path, SAID + text_of(imported)))
    assert new.partition("import torch\n")[0] == f"{SAID}import argparse\n{left}"


@pytest.mark.parametrize(("imported", "after"), KEPT.values(), ids=KEPT)
def test_an_import_stays_where_something_else_may_use_it(tmp_path: Path, imported: str, after: str) -> None:
    new = rewritten(plan_of(tmp_path, text_of(imported, after)))
    assert "import sys" in new.partition("import torch\n")[0]


def test_an_import_that_nothing_used_stays(tmp_path: Path) -> None:
    new = rewritten(plan_of(tmp_path, text_of(f"import json\n{SYS}")))
    assert new.partition("import torch\n")[0] == "import argparse\nimport json\n"


def test_a_script_without_an_integration_keeps_its_imports(tmp_path: Path) -> None:
    text = "import glob\nimport torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
    assert plan_of(tmp_path, text).files == []


ENGINE = """\
import sys

from perforatedai import globals_perforatedai as GPA


def step(args, model, optimizer, x, y):
    optimizer.zero_grad()
    loss = (model(x) - y).sum()
    loss.backward()
    if args.perforate_model_parallel:
        GPA.pai_tracker.save_tracker_settings()
        sys.exit(0)
    optimizer.step()
"""
LOOP = """\
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
"""
OTHERS = {
    "of none": ("", "", False),
    "of that name": ("from engine import sys\n", "", True),
    "of the whole file": ("import engine\n", "", True),
    "of all its names": ("from engine import *\n", "", True),
    "of another script": ("", "from engine import sys\n\nif __name__ == '__main__':\n    print(sys.path)\n", True),
}


@pytest.mark.parametrize(("imported", "other", "stays"), OTHERS.values(), ids=OTHERS)
def test_an_import_that_another_file_takes_from_there_stays(
    tmp_path: Path, imported: str, other: str, stays: bool
) -> None:
    (tmp_path / "engine.py").write_text(ENGINE)
    if other:
        (tmp_path / "test.py").write_text(other)
    text = integrated(prefill="", leave="")
    text = swapped(
        text,
        (LOOP, "            step(args, model, optimizer, x, y)\n"),
        (SYS, f"from engine import step\n{SYS}{imported}"),
    )
    [engine] = [file for file in plan_of(tmp_path, text).files if file.path.name == "engine.py"]
    assert (b"import sys\n" in engine.after, b"sys.exit" in engine.after) == (stays, False)
    assert engine.after.startswith(b"import sys\n" if stays else b"import pai_distributed\n")
