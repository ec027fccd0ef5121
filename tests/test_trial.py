"""`retrofit verify` on the real library: it proves what is right, disproves what is wrong, and leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from retrofit.cli import main
from tests.forked import training_python
from tests.projects import DEADLINE, Project, files_below, load_projects
from tests.wrong import WRONGS, Wrong

pytestmark = pytest.mark.real

PROJECTS = {project.name: project for project in load_projects()}


def _command(entry: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "retrofit", "verify", entry, *options]


def _environment(folder: Path, **changes: str) -> dict[str, str]:
    """Ours, with a folder of its own for temporary files, so that it shows what is left there."""
    temporary = folder.parent / f"{folder.name}-tmp"
    temporary.mkdir()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PAI_")}
    return {**inherited, "OMP_NUM_THREADS": "1", "TMPDIR": str(temporary), **changes}


def _verify(folder: Path, entry: str, *options: str, python: str = "") -> subprocess.CompletedProcess[str]:
    environment = _environment(folder)
    result = subprocess.run(
        _command(entry, "--python", python or training_python(), *options),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert not os.listdir(environment["TMPDIR"])
    return result


@pytest.mark.parametrize("project", PROJECTS.values(), ids=lambda project: project.name)
def test_every_fixture_is_proven(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within this process: to start another one, and load the rules in it, takes as long as half of the training."""
    folder, kept = tmp_path / "project", tmp_path / "kept"
    project.copy("before", folder)
    before = files_below(folder)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    python = training_python()  # whose own files are there while it is
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    for name, value in (("OMP_NUM_THREADS", "1"), ("UNDRAWN_GRAPHS", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    options = [*project.options, "--python", python, "--json", "--keep", str(kept)]
    result = CliRunner().invoke(main, ["verify", project.entry, *options, "--", *project.arguments])
    assert result.exit_code == 0, result.output
    assert not os.listdir(temporary)
    report = json.loads(result.stdout)
    assert report["verdict"] == "proven"
    assert report["applied"]
    rounds = [(one["name"], one["loaded"], one["switch"]) for one in report["rounds"]]
    assert rounds == [
        ("initialisation", "", ""),
        ("round 1", "", "switch_2"),
        ("round 2", "switch_2", "switch_4"),
        ("round 3", "switch_4", "switch_6"),
        ("round 4", "switch_6", ""),
    ]
    results = {check["name"]: check["result"] for check in report["checks"]}
    expected = {
        "initialisation",
        "score",
        "optimizer",
        "learning rate",
        "checkpoints",
        "library",
        "rounds",
        "completion",
    }
    if project.kind == "ddp":
        expected |= {"wrapper", "parameters", "buffers"}
    assert {name for name, result in results.items() if result == "ok"} >= expected
    assert files_below(folder) == before
    graphs = [path for path in kept.rglob("*.png") if (path.parent / "array_dims.csv").exists()]
    assert len(graphs) == int(project.graphs)  # drawn once, though there were six scores


@pytest.mark.parametrize("wrong", WRONGS, ids=lambda wrong: wrong.name)
def test_a_wrong_rewriting_is_disproven_and_its_cause_named(wrong: Wrong, tmp_path: Path) -> None:
    project = PROJECTS[wrong.fixture]
    script = project.copy("after", tmp_path)
    text = script.read_text()
    for old, new in wrong.replacements:
        assert old in text
        text = text.replace(old, new)
    script.write_text(text)
    python = sys.executable if wrong.hangs else training_python()
    result = _verify(tmp_path, project.entry, *wrong.options, "--json", "--", *project.arguments, python=python)
    assert result.returncode == 1, result.stderr + result.stdout
    report = json.loads(result.stdout)
    assert not report["applied"]
    assert report["cause"].startswith(f"{wrong.check}: ")
    assert wrong.cause in report["cause"]


def test_interrupting_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    project = PROJECTS["ddp_torchrun"]
    project.copy("before", tmp_path)
    before = files_below(tmp_path)
    environment = _environment(tmp_path)
    with subprocess.Popen(
        _command(project.entry, "--", *project.arguments),
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("initialisation")  # the workers of round 1 are on their way
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 128 + signal.SIGINT
    assert "Stopped" in errors
    assert "Traceback" not in errors
    assert not os.listdir(environment["TMPDIR"])
    assert files_below(tmp_path) == before
    assert not [line for line in _command_lines() if environment["TMPDIR"] in line]


def _command_lines() -> list[str]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        info: dict[str, Any] = process.info
        found.append(" ".join(info["cmdline"] or ()))
    return found


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "import torch\n",
            "import torch\nimport a_package_that_is_not_there\n",
            "it needs a package that is not there",
        ),
        ("    model = ShellNet()", "    open('points.csv')\n    model = ShellNet()", "it needs what is not there"),
        (
            "    model = ShellNet()",
            "    assert not 'sound'\n    model = ShellNet()",
            "before its rewriting it does not run",
        ),
        ("    model = ShellNet()", "    open(OUT, 'w')\n    model = ShellNet()", "changes nothing outside its folder"),
    ],
    ids=["package", "data", "broken", "whole-path"],
)
def test_what_could_not_be_tried_says_why(old: str, new: str, words: str, tmp_path: Path) -> None:
    project = PROJECTS["ddp_torchrun"]
    script = project.copy("before", tmp_path)
    text = script.read_text()
    assert old in text
    script.write_text(text.replace(old, new, 1).replace("OUT", repr(str(tmp_path / "out.txt"))))
    result = _verify(tmp_path, project.entry)
    assert result.returncode == 2, result.stdout
    assert f"{project.entry}: RF018 cannot be tried: " in result.stderr
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out.txt").exists()


@pytest.mark.parametrize("parses", [True, False], ids=["the script parses", "the module does it all"])
def test_what_a_module_does_wrong_is_tried_as_the_module_was(parses: bool, tmp_path: Path) -> None:
    project = PROJECTS["ddp_torchrun"]
    script = project.copy("before", tmp_path)
    text = script.read_text().replace("    best_acc = 0.0\n", "    assert not 'points'\n    best_acc = 0.0\n", 1)
    start = "from training import *\n\nif __name__ == '__main__':\n    main()\n"
    if parses:
        begin, end = text.index("def get_arguments"), text.index("def train(")
        start = "import argparse\n" + text[begin:end] + start.replace("main()", "main(get_arguments())")
        text = text[:begin] + text[end:].replace("def main()", "def main(args)").replace("args = get_arguments()", "")
    (tmp_path / "training.py").write_text(text)
    script.write_text(start)
    result = _verify(tmp_path, project.entry)
    assert result.returncode == 2, result.stdout
    assert "before its rewriting it does not run here either. AssertionError" in result.stderr


def test_wrong_arguments_of_the_script_are_said_to_be_wrong(tmp_path: Path) -> None:
    project = PROJECTS["ddp_torchrun"]
    project.copy("before", tmp_path)
    result = _verify(tmp_path, project.entry, "--", "--no-such-argument")
    assert result.returncode == 2
    assert "it wants other arguments" in result.stderr
    assert "--no-such-argument" in result.stderr
