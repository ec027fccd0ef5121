"""The job that `retrofit launch` writes, on a SLURM of two nodes that runs on this machine, where it is installed.

On Debian: apt install slurm-wlm munge.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from retrofit.jobs import job_files
from tests.forked import training_python
from tests.launching import (
    DEADLINE,
    RECIPE,
    Run,
    free_port,
    heed_signals,  # noqa: F401 - a fixture
    project_to_run,  # noqa: F401 - a fixture
    until,
)
from tests.projects import apply
from tests.test_faults_of_runs import (
    Copies,
    Undisturbed,
    copies_of_a_project,  # noqa: F401 - a fixture
    trained_undisturbed,  # noqa: F401 - a fixture
)
from tests.test_nodes import ROUNDS, ROUNDS_THAT_WAIT, Nodes
from tests.test_rounds import DDP

WHOLE = bool(os.environ.get("RETROFIT_TEST_WHOLE"))
PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol")

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not all(shutil.which(name, path=PATH) for name in PROGRAMS), reason="SLURM is not installed"),
]

CONFIGURATION = """
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=2
SlurmdParameters=config_overrides
GresTypes=gpu
KillWait=5
MpiDefault=none
NodeName=n[1-2] NodeAddr=127.0.0.1 NodeHostname=localhost Port=[{first}-{last}] CPUs=8 Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=n[1-2] Default=YES State=UP
"""


class Slurm:
    """A cluster of two nodes on this machine, with two GPUs each, which are empty files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {**os.environ, "PATH": PATH, "SLURM_CONF": str(folder / "slurm.conf")}
        port = free_port()
        values = {"user": getpass.getuser(), "folder": folder, "port": port, "first": port + 1, "last": port + 2}
        (folder / "slurm.conf").write_text(CONFIGURATION.format(**values))
        (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-1]\n")
        (folder / "munge.key").write_bytes(os.urandom(1024))
        (folder / "munge.key").chmod(0o400)
        for name in ("gpu0", "gpu1"):
            (folder / name).touch()
        for name in ("state", "spool-n1", "spool-n2"):
            (folder / name).mkdir()
        places = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
        self.daemons: list[subprocess.Popen[bytes]] = []
        self.start("munged", "-F", "--force", f"--socket={folder}/munge.socket", *places)
        until((folder / "munge.socket").exists, "munged listens")
        self.start("slurmctld", "-D", "-i", "-c")
        for name in ("n1", "n2"):
            self.start("slurmd", "-D", "-N", name)
        until(lambda: self.ask("sinfo", "-h", "-o", "%t %D") == "idle 2", "both nodes are there")

    def start(self, *command: str) -> None:
        with (self.folder / "said").open("ab") as said:
            self.daemons.append(subprocess.Popen(command, env=self.env, stdout=said, stderr=said))

    def ask(self, *command: str) -> str:
        answer = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=DEADLINE, check=False)
        return answer.stdout.strip()

    def submit(self, run: Run, *arguments: str) -> str:
        """Submit the job of a project from its folder, as a user does: its number."""
        own = {name: value for name, value in run.env.items() if name != "NUM_GPUS"}
        return self.submit_job(run.launcher.with_suffix(".sbatch"), run.work, own, *arguments)

    def submit_job(self, job: Path, folder: Path, own: dict[str, str], *arguments: str) -> str:
        """Submit a job from a folder, with an environment."""
        port = str(free_port())
        settings = {"SLURM_CONF": self.env["SLURM_CONF"], "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        path = f"{own['PATH']}{os.pathsep}{PATH}"
        answer = subprocess.run(
            ["sbatch", "--parsable", str(job), *arguments],
            cwd=folder,
            env={**own, "PATH": path, "PAI_NODES_SECONDS": "60", **settings},
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout.strip()

    def has_gone(self, job: str) -> bool:
        """Has a job gone, or ended?"""
        return self.ask("squeue", "-h", "-j", job, "-o", "%T") in ("", "COMPLETED", "CANCELLED", "FAILED")

    def stop(self) -> None:
        self.ask("scancel", "--user", getpass.getuser())
        until(lambda: not self.ask("squeue", "-h"), "all jobs have gone")
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            daemon.wait(DEADLINE)


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    with tempfile.TemporaryDirectory() as folder:  # whose path is short enough for a socket
        os.chmod(folder, 0o755)
        cluster = Slurm(Path(folder))
        yield cluster
        cluster.stop()


def write_job(run: Run, script: str, nodes: int, gpus: int, system: str = "slurm") -> None:
    run.write(script)
    Nodes(run, nodes)
    (job,) = job_files(run.project / "train.py", run.launcher.name, RECIPE, system, nodes, str(gpus))
    job.path.write_bytes(job.after)


def said(run: Run, job: str) -> str:
    return "\n".join(path.read_text() for path in run.work.glob(f"*-{job}.log"))


@pytest.mark.parametrize(("nodes", "gpus"), [(1, 2), (2, 1), (2, 2)])
def test_a_job_trains_to_completion(slurm: Slurm, run: Run, nodes: int, gpus: int) -> None:
    write_job(run, ROUNDS.replace('NODE == "0"', 'NODE in (None, "0")'), nodes, gpus)
    job = slurm.submit(run, "--lr", "0.1")
    until(lambda: slurm.has_gone(job), said(run, job))
    assert said(run, job).count("Training is complete after 3 round(s)") == nodes, said(run, job)
    started = [call for call in run.calls if "--perforate_model_parallel" not in call["argv"]]
    assert len(started) == 3 * nodes
    assert {call["env"].get("SLURM_NODEID") for call in started} == {str(number) for number in range(nodes)}
    assert {call["env"]["NUM_GPUS"] for call in started} == {str(gpus)}
    assert all(call["argv"][-2:] == ["--lr", "0.1"] for call in started)


WAITS = ROUNDS[: ROUNDS.index("if NODE ==")] + ROUNDS_THAT_WAIT + ROUNDS[ROUNDS.index("if NODE ==") :]


HOW = ["USR1", "scancel", "a node is lost", "its time is over"]


@pytest.mark.parametrize("how", HOW if WHOLE else HOW[:3])
def test_a_job_that_is_stopped_goes_on(slurm: Slurm, run: Run, how: str) -> None:
    """By its time limit, of which --signal=B:USR1 tells it, by its user, who submits it again, or by a lost node."""
    write_job(run, WAITS.replace("round_ < 3", "round_ < 4"), 2, 1)
    if how == "its time is over":
        text = run.launcher.with_suffix(".sbatch").read_text()
        text = re.sub("--time=.*", "--time=1", text)  # minutes, of which SLURM looks each half
        run.launcher.with_suffix(".sbatch").write_text(text.replace("B:USR1@120", "B:USR1@45"))
    job = slurm.submit(run)
    until(lambda: len(list(run.work.glob("running*"))) == 2, said(run, job))
    (run.work / "go on").touch()
    if how == "its time is over":
        until(lambda: "goes back into the queue" in said(run, job), said(run, job))
    elif how == "USR1":
        slurm.ask("scancel", "--batch", "--signal=USR1", job)
        until(lambda: "goes back into the queue" in said(run, job), said(run, job))
    elif how == "a node is lost":
        slurm.ask("scontrol", "update", "nodename=n2", "state=down", "reason=test")
        until(lambda: slurm.ask("squeue", "-h", "-j", job, "-o", "%T") == "PENDING", "it is in the queue again")
        slurm.ask("scontrol", "update", "nodename=n2", "state=resume")
    else:
        slurm.ask("scancel", job)
        until(lambda: slurm.has_gone(job), "it has gone")
        job = slurm.submit(run)
    until(lambda: "Training is complete" in said(run, job), "it goes on")
    until(lambda: slurm.has_gone(job), "it ends")
    loaded = [call["argv"][1:2] for call in run.calls if "--perforate_model_parallel" not in call["argv"]]
    assert loaded.count([]) == 2, "the first round was done once"
    assert loaded.count(["--pai_load_folder=PAI"]) == 6, "the one that was stopped, again"


@pytest.mark.skipif(not WHOLE, reason="SLURM takes its time between jobs")
def test_an_array_is_a_chain_of_jobs(slurm: Slurm, run: Run) -> None:
    """Where a site does not requeue: each job goes on where the one before ended, and those after completion end."""
    write_job(run, ROUNDS.replace('NODE == "0"', 'NODE in (None, "0")'), 1, 2)
    job = run.launcher.with_suffix(".sbatch")
    job.write_text(job.read_text().replace("--requeue", "--no-requeue --array=1-4%1"))
    run.env["MAX_ROUNDS"] = "1"
    slurm.submit(run)

    def told() -> list[str]:
        return [path.read_text() for path in run.work.glob("*.log")]

    until(lambda: any("Training is already complete" in one for one in told()), "the last job ends")
    assert sum("Stopped, as MAX_ROUNDS=1 asks" in one for one in told()) == 2, told()
    assert sum("Training is complete after 1 round(s)" in one for one in told()) == 1, told()
    assert sum("SLURM did not take it back" in one for one in told()) == 2, told()
    assert len(run.calls) == 1 + 3


#: Waits in its second round until a test lets it go on, or it is stopped.
WAITS_IN_A_ROUND = """
import time
if round_ == 2:
    pathlib.Path(f"running{os.environ['SLURM_NODEID']}").touch()
    while not os.path.exists("go on"):
        time.sleep(0.01)
"""


ROUNDS_OF_SLURM = (
    ROUNDS[: ROUNDS.index("if NODE ==")] + WAITS_IN_A_ROUND + ROUNDS[ROUNDS.index("if NODE ==") :]
).replace('NODE == "0"', 'NODE in (None, "0")')
DRAINED = [(2, False), (1, True), (1, False), (2, True)]


@pytest.mark.parametrize(("nodes", "requeued"), DRAINED if WHOLE else DRAINED[:2])
def test_a_node_that_is_drained(slurm: Slurm, run: Run, nodes: int, requeued: bool) -> None:
    """A job there goes on; one that goes back into the queue takes another node, or waits where there is none."""
    write_job(run, ROUNDS_OF_SLURM, nodes, 1)
    job = slurm.submit(run)
    until(lambda: len(list(run.work.glob("running*"))) == nodes, said(run, job))
    drained = slurm.ask("squeue", "-h", "-j", job, "-o", "%B")  # where its batch script runs
    slurm.ask("scontrol", "update", f"nodename={drained}", "state=drain", "reason=test")
    try:
        assert slurm.ask("sinfo", "-h", "-n", drained, "-o", "%t") == "drng"
        if requeued:
            slurm.ask("scancel", "--batch", "--signal=USR1", job)
            until(lambda: "goes back into the queue" in said(run, job), said(run, job))
        (run.work / "go on").touch()
        if requeued and nodes == 2:
            until(lambda: "DRAINED" in slurm.ask("squeue", "-h", "-j", job, "-o", "%r"), "it waits for the node")
            slurm.ask("scontrol", "update", f"nodename={drained}", "state=resume")
        until(lambda: slurm.has_gone(job), f"it ends; so far: {said(run, job)}")
    finally:
        slurm.ask("scontrol", "update", f"nodename={drained}", "state=resume")
    assert said(run, job).count("Training is complete") == nodes, said(run, job)
    assert ("goes back" in said(run, job)) is requeued
    where = [call["env"]["SLURMD_NODENAME"] for call in run.calls]
    assert len(where) == 1 + 3 * nodes, "a round that was stopped is the second, and then the third completes"
    if nodes == 1:
        assert where[:3] == [drained] * 3
        assert (where[3] == drained) is not requeued


class Submitted:
    """A job that submitit has submitted, by the program that `retrofit launch` writes."""

    def __init__(self, slurm: Slurm, run: Run, nodes: int, **own: str) -> None:
        write_job(run, ROUNDS_OF_SLURM, nodes, 1, "submitit")
        self.folder = run.project / "submitit"
        place = {"SLURM_CONF": slurm.env["SLURM_CONF"], "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        known = {name: value for name, value in run.env.items() if name != "NUM_GPUS"} | place | own
        known["PATH"] += os.pathsep + PATH
        program = [sys.executable, str(run.launcher.with_suffix(".submit.py")), "--lr", "0.1"]
        answer = subprocess.run(program, cwd=run.work, env=known, capture_output=True, text=True, check=False)
        told = re.search(r"Submitted job (\d+); its output will be (.*)", answer.stdout)
        assert told, answer.stdout + answer.stderr
        self.number = told[1]
        assert Path(told[2]).parent == self.folder

    def said(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob(f"{self.number}_*_log.*")))


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_job_of_submitit_trains_to_completion(slurm: Slurm, run: Run, nodes: int) -> None:
    (run.work / "go on").touch()
    job = Submitted(slurm, run, nodes)
    until(lambda: slurm.has_gone(job.number), "it ends")
    assert job.said().count("Training is complete after 3 round(s)") == nodes, job.said()
    assert job.said().count("Job completed successfully") == nodes
    started = [call for call in run.calls if "--perforate_model_parallel" not in call["argv"]]
    assert len(started) == 3 * nodes
    assert all(call["argv"][-2:] == ["--lr", "0.1"] for call in started)


@pytest.mark.parametrize("how", ["USR2", "MAX_ROUNDS"] if WHOLE else ["USR2"])
def test_a_job_of_submitit_goes_back_into_the_queue(slurm: Slurm, run: Run, how: str) -> None:
    if how == "MAX_ROUNDS":
        (run.work / "go on").touch()
    job = Submitted(slurm, run, 2, **({"MAX_ROUNDS": "1"} if how == "MAX_ROUNDS" else {}))
    if how == "USR2":
        until(lambda: len(list(run.work.glob("running*"))) == 2, "it trains")
        (run.work / "go on").touch()
        slurm.ask("scancel", job.number, "--signal", "USR2")  # as submitit itself tries it
        until(lambda: "Exiting gracefully after preemption/timeout" in job.said(), job.said())
    until(lambda: "Training is complete" in job.said(), "it goes on")
    until(lambda: slurm.has_gone(job.number), "it ends")
    started = [call for call in run.calls if "--perforate_model_parallel" not in call["argv"]]
    assert len(started) == 3 * 2
    assert job.said().count("Training is complete after 1 round(s)") == 2, "the third one, by a job of its own"


def real_job(**own: str) -> dict[str, str]:
    """The environment in which a job trains on the real library."""
    known = {name: value for name, value in os.environ.items() if not name.startswith(("PAI_", "SLURM_"))}
    known |= {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "PYTHON": training_python(), "REHEARSE": "0"}
    return {**known, "PAI_TESTING_DENDRITE_CAPACITY": "1", **own}


@pytest.mark.parametrize(("nodes", "processes"), [(2, 1), (1, 2), (2, 2)])
def test_a_job_trains_on_the_real_library(slurm: Slurm, tmp_path: Path, nodes: int, processes: int) -> None:
    (tmp_path / "train.py").write_text(DDP)
    shape = ("--nodes", str(nodes), "--nproc-per-node", str(processes))
    apply(tmp_path / "train.py", "--launcher", "slurm", *shape)
    job = slurm.submit_job(tmp_path / "train_distributed.sbatch", tmp_path, real_job())
    until(lambda: slurm.has_gone(job), "the job ends")
    (log,) = tmp_path.glob(f"*-{job}.log")
    assert log.read_text().count("Training is complete after 4 round(s)") == nodes, log.read_text()
    save = tmp_path / "PAI_train_capacity_test"
    assert [path.name for path in sorted(save.glob("switch_*.pt"))] == ["switch_2.pt", "switch_4.pt", "switch_6.pt"]
    assert json.loads((save / "processes.json").read_text()) == {"count": nodes * processes}


@pytest.mark.skipif(not WHOLE, reason="SLURM looks at the time each half minute")
def test_the_time_of_a_job_is_over_in_an_epoch_on_the_real_library(
    slurm: Slurm, copied: Copies, undisturbed: Undisturbed
) -> None:
    """It goes back into the queue, and comes to what a training without an end of time comes to."""
    project = copied(3)
    (job,) = job_files(project.folder / "train.py", "train_distributed.sh", RECIPE, "slurm", 2, "1")
    text = re.sub("--time=.*", "--time=1", job.after.decode()).replace("B:USR1@120", "B:USR1@45")
    job.path.write_text(text)
    own = real_job(TROUBLE="step waits 1", TEST_FOLDER=str(project.folder))
    number = slurm.submit_job(job.path, project.folder, own)
    until((project.folder / "waits").exists, "it is in an epoch")

    def told() -> str:
        return "\n".join(path.read_text() for path in project.folder.glob(f"*-{number}.log"))

    until(lambda: "goes back into the queue" in told(), told())
    assert re.search(
        r"Stopping \(SIGTERM\)\. .* continue from .*/switch_6\.pt; the \d+ s of this round are lost", told()
    )
    until(lambda: project.complete, told())
    until(lambda: slurm.has_gone(number), "the job ends")
    assert project.model() == undisturbed.after[4].model()
    assert not project.processes
