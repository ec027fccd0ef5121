"""What the documentation says of a training, on the real library."""

from __future__ import annotations

import ast
import json
import re
import shutil
from pathlib import Path

import pytest

from tests.forked import training_python
from tests.projects import ROOT, apply, run, shown

pytestmark = pytest.mark.real

DOCS = ROOT / "docs"


def test_the_lines_for_inference_load_the_trained_model(tmp_path: Path) -> None:
    tutorial = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    (project,) = re.findall(r"<!-- project: (\S+) -->", tutorial)
    shutil.copytree(ROOT / project, tmp_path, dirs_exist_ok=True)
    apply(tmp_path / "train.py")
    settings = {"NUM_GPUS": "2", "PAI_TESTING_DENDRITE_CAPACITY": "1", "PAI_VERBOSE": "1", "UNDRAWN_GRAPHS": "1"}
    trained = run(["bash", "train_distributed.sh"], tmp_path, PYTHON=training_python(), **settings)
    assert trained.returncode == 0, shown(trained)

    blocks = re.findall(r"^```python[^\n]*\n(.*?)^```$", (DOCS / "inference.md").read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    code = "".join(blocks).replace('"PAI_train"', '"PAI_train_capacity_test"')
    (tmp_path / "predict.py").write_text(code)
    result = run([training_python(), "predict.py"], tmp_path)
    assert result.returncode == 0, shown(result)
    # In a capacity test the library counts each score as a new best.
    score = float(re.findall(r"Adding validation score ([\d.]+)", trained.stdout)[-1])
    assert f"accuracy {score:.4f}\n" in result.stdout, shown(result)


def test_the_library_has_the_defaults_that_are_listed(tmp_path: Path) -> None:
    page = (DOCS / "library-settings.md").read_text(encoding="utf-8")
    listed: dict[str, str] = dict(re.findall(r"^\| `(\w+)` \| `(.*?)` \|", page, re.MULTILINE))
    assert len(listed) > 15
    (tmp_path / "ask.py").write_text(
        "import sys, json, torch\n"
        "from perforatedai import globals_perforatedai as GPA\n"
        "names = sys.argv[1:]\n"
        "found = {name: getattr(GPA.pc, name) for name in names}\n"
        "found = {name: 'torch.sigmoid' if value is torch.sigmoid else value for name, value in found.items()}\n"
        "print('FOUND', json.dumps(found))\n"
        "print('HISTORY', GPA.pc.DOING_HISTORY)\n"
    )
    result = run([training_python(), "ask.py", *listed], tmp_path)
    assert result.returncode == 0, shown(result)
    found = json.loads(re.findall(r"^FOUND (.*)$", result.stdout, re.MULTILINE)[0])
    history = json.loads(re.findall(r"^HISTORY (.*)$", result.stdout, re.MULTILINE)[0])
    named = {"GPA.pc.DOING_HISTORY": history, "torch.sigmoid": "torch.sigmoid"}
    for name, default in listed.items():
        assert found[name] == (named[default] if default in named else ast.literal_eval(default)), name
