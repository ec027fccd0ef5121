"""Jobs of batch systems: what `retrofit launch` writes, run with small programs in place of SLURM's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SCRIPT, Folder
from tests.launching import DEADLINE, until
from tests.test_launch import shellcheck

#: Stands for srun: says how it was called, and waits where the test asks for it.
SRUN = """#!{python}
import json, os, signal, sys
told = dict(argv=sys.argv[1:], gpus=os.environ.get("NUM_GPUS"), cpus=os.environ.get("SRUN_CPUS_PER_TASK"))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
with open("srun.json", "w") as file:
    json.dump(told | dict(pid=os.getpid()), file)
os.rename("srun.json", "srun")
while os.environ.get("WAITS"):
    signal.pause()
sys.exit(int(os.environ.get("STATUS", "0")))
"""
SCANCEL = '#!/bin/sh\necho "scancel $*" >> deeds\nkill -TERM "$(sed "s/.*pid.: //; s/}.*//" srun)"\n'
SCONTROL = """#!/bin/sh
case $1 in
    show) if [ "$2" = job ]; then echo "   Command=$COMMAND"; else echo node7; fi ;;
    requeue) echo "scontrol $*" >> deeds; exit 1 ;;
esac
"""


@pytest.fixture
def project(folder: Folder, tmp_path: Path) -> Folder:
    """A rewritten script, and the programs of SLURM."""
    folder.write("train.py", SCRIPT)
    assert folder.run("apply", "train.py").code == 0
    programs = {"srun": SRUN.replace("{python}", sys.executable), "scancel": SCANCEL, "scontrol": SCONTROL}
    for name, text in programs.items():
        path = tmp_path / "slurm" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    return folder


def start(
    project: Folder, *arguments: str, job: str = "train_distributed.sbatch", **env: str
) -> subprocess.Popen[bytes]:
    """Run the job as SLURM does: a copy of it, in the folder it was submitted from."""
    copy = project.path / "slurm_script"
    copy.write_bytes((project.path / job).read_bytes())
    slurm = {"SLURM_JOB_ID": "12345", "SLURM_JOB_NAME": "train", "SLURM_SUBMIT_DIR": "/nowhere"}
    slurm |= {"SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "node[7-8]", "SLURM_CPUS_PER_TASK": "8"}
    slurm |= {"PATH": os.pathsep.join([str(project.path.parent / "slurm"), "/usr/bin", "/bin"])}
    slurm |= {"COMMAND": " ".join([f"{project.path}/{job}", *arguments])}
    return subprocess.Popen(
        ["bash", str(copy), *arguments], cwd=project.path, env=slurm | env, stdout=subprocess.DEVNULL
    )


def deeds(project: Folder) -> list[str]:
    path = project.path / "deeds"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ((), ["--nodes=1", "--gpus-per-node=1", "--cpus-per-task=4"]),
        (("--nproc-per-node", "4"), ["--nodes=1", "--gpus-per-node=4", "--cpus-per-task=16"]),
        (("--nodes", "3", "--nproc-per-node", "1"), ["--nodes=3", "--gpus-per-node=1", "--cpus-per-task=4"]),
        (("--nodes", "2", "--nproc-per-node", "4"), ["--nodes=2", "--gpus-per-node=4", "--cpus-per-task=16"]),
    ],
)
def test_a_job_starts_the_launcher_once_on_each_node(
    project: Folder, tmp_path: Path, options: tuple[str, ...], lines: list[str]
) -> None:
    answer = project.run("launch", *options, "train.py")
    assert (answer.code, answer.err) == (0, "")
    assert "sbatch train_distributed.sbatch [arguments of train.py]" in answer.out
    text = (project.path / "train_distributed.sbatch").read_text()
    directives = [line.split()[1] for line in text.splitlines() if line.startswith("#SBATCH")]
    assert set(lines) <= set(directives)
    assert {"--ntasks-per-node=1", "--requeue", "--signal=B:USR1@120"} <= set(directives)
    assert shellcheck(tmp_path, text) == ""
    job = start(project, "--lr", "1")
    assert job.wait(DEADLINE) == 0
    told = json.loads((project.path / "srun").read_text())
    assert told["argv"] == ["bash", str(project.path / "train_distributed.sh"), "--lr", "1"]
    assert told["gpus"] == (options[-1] if "--nproc-per-node" in options else None)
    assert told["cpus"] == "8"
    assert not deeds(project)


def test_a_job_near_its_end_stops_the_training_and_goes_back_into_the_queue(project: Folder) -> None:
    project.run("launch", "train.py")
    job = start(project, WAITS="yes")
    until(lambda: (project.path / "srun").exists(), "it trains")
    job.send_signal(signal.SIGUSR1)
    assert job.wait(DEADLINE) == 143
    assert deeds(project) == ["scancel --signal=TERM 12345", "scontrol requeue 12345"]


@pytest.mark.parametrize(("status", "requeued"), [(0, False), (1, False), (75, True), (143, False)])
def test_a_job_goes_back_into_the_queue_for_another_round_only(project: Folder, status: int, requeued: bool) -> None:
    project.run("launch", "train.py")
    assert start(project, STATUS=str(status)).wait(DEADLINE) == status
    assert deeds(project) == ["scontrol requeue 12345"] * requeued


def test_a_script_without_rounds_is_started_by_torchrun(project: Folder, tmp_path: Path) -> None:
    project.write("it's.py", SCRIPT)
    assert project.run("launch", "--nodes", "2", "it's.py").code == 0
    text = (project.path / "it's.sbatch").read_text()
    assert "round" not in text
    assert shellcheck(tmp_path, text) == ""
    assert start(project, "--lr", "1", job="it's.sbatch").wait(DEADLINE) == 0
    argv = json.loads((project.path / "srun").read_text())["argv"]
    assert argv[:3] == ["torchrun", "--nnodes=2", "--nproc_per_node=gpu"]
    assert "--rdzv_endpoint=node7:22345" in argv
    assert argv[-3:] == [str(project.path / "it's.py"), "--lr", "1"]


def test_a_file_of_somebody_else_is_kept(project: Folder) -> None:
    project.write("train_distributed.sbatch", "#!/bin/bash\n")
    answer = project.run("launch", "train.py")
    assert answer.code == 2
    assert "train_distributed.sbatch:" in answer.err
    assert "RF008" in answer.err
    assert project.run("launch", "--force", "train.py").code == 0


def test_a_job_is_written_again_by_other_options_and_taken_back(project: Folder) -> None:
    before = project.contents()
    project.run("launch", "train.py")
    first = project.contents()
    assert "nothing to do" in project.run("launch", "train.py").out
    project.run("launch", "--nodes", "2", "train.py")
    project.run("undo", "--steps", "1", "train.py")
    assert project.contents() == first
    project.run("undo", "--steps", "1", "train.py")
    assert project.contents() == before


def test_a_dry_run_prints_the_job(project: Folder) -> None:
    before = project.contents()
    assert project.run("launch", "--dry-run", "train.py").out.startswith("#!/usr/bin/env bash\n")
    assert project.contents() == before


def test_apply_writes_the_job_as_well(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    answer = folder.run("apply", "--launcher", "slurm", "--nodes", "2", "--nproc-per-node", "4", "train.py")
    assert answer.code == 0
    text = (folder.path / "train_distributed.sbatch").read_text()
    assert "#SBATCH --nodes=2\n" in text
    assert "LAUNCHER=${LAUNCHER:-torchrun}" in (folder.path / "train_distributed.sh").read_text()
    assert "nothing to do" in folder.run("launch", "--nodes", "2", "--nproc-per-node", "4", "train.py").out


def test_launch_is_for_batch_systems(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    answer = folder.run("launch", "--launcher", "torchrun", "train.py")
    assert (answer.code, "no batch system; give slurm" in answer.err) == (2, True)


def test_a_job_needs_a_script(folder: Folder) -> None:
    answer = folder.run("launch", "train.py")
    assert (answer.code, "RF001" in answer.err) == (2, True)
