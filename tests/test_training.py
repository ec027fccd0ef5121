"""Fixtures train as their authors left them, and rewritten by the library's own patience; see also test_trial.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.forked import training_python
from tests.projects import Project, load_projects, run, shown

pytestmark = pytest.mark.real

PROJECTS = load_projects()
#: What the library prints, or its debugger, where something went wrong without an exit status.
TRAPS = re.compile(r"\(Pdb\)|not properly set|Traceback \(most recent call last\)")


def _command(project: Project) -> list[str]:
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    script = ["-m", project.module] if project.module else [project.entry]
    return [training_python(), *(torchrun if project.start != "python" else []), *script, *project.arguments]


@pytest.mark.parametrize("project", [p for p in PROJECTS if p.before_runs], ids=lambda project: project.name)
def test_before_trains(project: Project, tmp_path: Path) -> None:
    project.copy("before", tmp_path)
    result = run(_command(project), tmp_path)
    # gloo aborts at its end now and then, whatever the script: then the run counts by what it printed before.
    assert result.returncode == 0 or "terminate called without an active exception" in result.stdout, shown(result)


@pytest.mark.parametrize("project", [p for p in PROJECTS if p.history], ids=lambda project: project.name)
def test_after_trains_by_the_library_s_own_patience(project: Project, tmp_path: Path) -> None:
    project.copy("after", tmp_path)
    result = run(["bash", "train_distributed.sh", *project.arguments], tmp_path, NUM_GPUS="2", PYTHON=training_python())
    assert result.returncode == 0, shown(result)
    assert not TRAPS.search(result.stdout), shown(result)
    (mark,) = tmp_path.glob("*/.training_complete")
    assert not mark.parent.name.endswith("_capacity_test")
    assert (mark.parent / "switch_2.pt").exists()
    rates = [float(rate) for rate in re.findall(r"\blr (0\.\d+)", result.stdout)]
    assert len(set(rates)) > 1, "the scheduler was never stepped"
