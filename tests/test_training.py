"""Rewritten fixtures train on the real library: from initialisation over every restart to completion."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.projects import Project, load_projects, run, shown

pytestmark = pytest.mark.real

PROJECTS = load_projects()
INSTRUMENTS = Path(__file__).parent / "instruments"
#: What the library prints, or its debugger, where something went wrong without an exit status.
TRAPS = re.compile(r"\(Pdb\)|not properly set|Traceback \(most recent call last\)")


def _torchrun(project: Project) -> list[str]:
    return ["torchrun", "--standalone", "--nproc_per_node=2", project.entry, *project.arguments]


@pytest.mark.parametrize("project", [p for p in PROJECTS if p.before_runs], ids=lambda project: project.name)
def test_before_trains(project: Project, tmp_path: Path) -> None:
    project.copy("before", tmp_path)
    command = ["python", project.entry, *project.arguments] if project.kind == "dp" else _torchrun(project)
    result = run(command, tmp_path)
    # gloo aborts at its end now and then, whatever the script: then the run counts by what it printed before.
    assert result.returncode == 0 or "terminate called without an active exception" in result.stdout, shown(result)


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_after_trains_through_every_restart(project: Project, tmp_path: Path) -> None:
    project.copy("after", tmp_path)
    digests = tmp_path / "digests"
    digests.mkdir()
    watched = {"TEST_DIGESTS": str(digests), "PYTHONPATH": str(INSTRUMENTS), "PAI_TESTING_DENDRITE_CAPACITY": "1"}
    if project.kind == "ddp":
        result = run(["bash", "train_distributed.sh", *project.arguments], tmp_path, NUM_GPUS="2", **watched)
    else:
        script = [project.entry, *project.arguments]
        result = run(["python", *script, "--perforate_model_parallel"], tmp_path, **watched)
        assert result.returncode == 0, shown(result)
        result = run(["python", *script], tmp_path, **watched)
    assert result.returncode == 0, shown(result)
    assert not TRAPS.search(result.stdout), shown(result)
    (save,) = tmp_path.glob("*_capacity_test")
    made = {path.name for path in save.iterdir()}
    assert {"array_dims.csv", "switch_2.pt", "switch_4.pt", "switch_6.pt", ".training_complete"} <= made
    if project.kind == "ddp":
        _check_equal_parameters(digests, rounds=4)


def _check_equal_parameters(digests: Path, rounds: int) -> None:
    runs: dict[str, dict[str, str]] = defaultdict(dict)
    for path in digests.iterdir():
        _, name, rank = path.name.rsplit("-", 2)
        runs[name][rank] = path.read_text()
    complete = {name: ranks for name, ranks in runs.items() if len(ranks) == 2}
    assert len(complete) >= rounds
    assert all(len(set(ranks.values())) == 1 for ranks in complete.values()), complete


@pytest.mark.parametrize("project", [p for p in PROJECTS if p.history], ids=lambda project: project.name)
def test_after_trains_by_the_library_s_own_patience(project: Project, tmp_path: Path) -> None:
    project.copy("after", tmp_path)
    result = run(["bash", "train_distributed.sh", *project.arguments], tmp_path, NUM_GPUS="2")
    assert result.returncode == 0, shown(result)
    assert not TRAPS.search(result.stdout), shown(result)
    (mark,) = tmp_path.glob("*/.training_complete")
    assert not mark.parent.name.endswith("_capacity_test")
    assert (mark.parent / "switch_2.pt").exists()
    rates = [float(rate) for rate in re.findall(r"\blr (0\.\d+)", result.stdout)]
    assert len(set(rates)) > 1, "the scheduler was never stepped"
