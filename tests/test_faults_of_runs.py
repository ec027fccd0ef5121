"""Whatever ends a training, nothing is lost but the work since its newest switch file, and nothing is left running.

A small script is trained once, undisturbed, and each fault comes to a copy of what it had been after two rounds. Then
the same command again must come to the same model by the same epochs.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import swapped
from tests.forked import training_python
from tests.launching import DEADLINE, free_port, heed_signals, until  # noqa: F401 - a fixture
from tests.projects import apply
from tests.test_rounds import DDP, OPTIMIZER, PRINTED

pytestmark = pytest.mark.real

SAVE = "PAI_train_capacity_test"
SCRIPT = swapped(
    DDP,
    ("import os\n", "import os\n\nimport trouble\n"),
    ("            loss.backward()\n", '            trouble.at("backward")\n            loss.backward()\n'),
    ("            optimizer.step()\n", '            optimizer.step()\n            trouble.at("step")\n'),
    ("    model.eval()\n", '    model.eval()\n    trouble.at("validation")\n'),
    ("                torch.save(", '                trouble.at("checkpoint")\n                torch.save('),
    (OPTIMIZER, '    beside = torch.zeros(1, requires_grad=True)\n    optimizer = torch.optim.SGD([{"params": '
     'model.parameters()}, {"params": [beside]}], lr=0.1)\n'),
    ("model(inputs), labels)", "model(inputs), labels) + beside.sum()"),
    (PRINTED, 'draw {draw:.6f} beside {beside.item():.3f}")\n'),
)  # fmt: skip
WHOLE = bool(os.environ.get("RETROFIT_TEST_WHOLE"))


class Project:
    """The script and its launcher in a folder, and what it has come to there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.save = folder / SAVE
        self.output = folder / "output"

    def start(self, python: str = "", output: Path | None = None, **environment: str) -> subprocess.Popen[bytes]:
        """Start the launcher, as a user does."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PAI_")}
        inherited["UNDRAWN_GRAPHS"] = "1"
        settings = {"NUM_GPUS": "2", "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "REHEARSE": "0"}
        settings |= {"PAI_TESTING_DENDRITE_CAPACITY": "1", "PYTHON": python or training_python(), "STOP_SECONDS": "20"}
        with (output or self.output).open("ab" if output else "wb") as said:
            return subprocess.Popen(
                ["bash", "train_distributed.sh"],
                cwd=self.folder,
                env={**inherited, **settings, **environment, "TEST_FOLDER": str(self.folder)},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def run(self, python: str = "", **environment: str) -> int:
        """Run the launcher to its end."""
        return self.start(python, None, **environment).wait(DEADLINE)

    @property
    def said(self) -> str:
        return self.output.read_text("utf-8", "replace")

    @property
    def complete(self) -> bool:
        return (self.save / ".training_complete").exists()

    @property
    def processes(self) -> list[int]:
        """Those that run of all that were started here."""
        noted = {int(path.name) for path in (self.folder / "processes").iterdir()}
        return [number for number in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._ours(number, noted)]

    def _ours(self, number: int, noted: set[int]) -> bool:
        try:
            state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
            environment = Path(f"/proc/{number}/environ").read_bytes().split(b"\0")
        except OSError:
            return False
        return state != "Z" and (number in noted or f"TEST_FOLDER={self.folder}".encode() in environment)

    @property
    def epochs(self) -> list[list[str]]:
        """What the script has printed of the epochs, round by round."""
        parts = re.split(r"train_distributed: Round \d+: ", self.said)[1:]
        return [re.findall(r"^epoch .*", part, re.MULTILINE) for part in parts]

    def switches(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.save.glob("switch_*.pt"))}

    def model(self) -> dict[str, list[float]]:
        """The newest structure and its weights, by names; without the tracker's, which counts seconds."""
        import safetensors

        newest = max(self.save.glob("switch_?.pt"))
        with safetensors.safe_open(self.save / "best_model.pt" if self.complete else newest, "pt") as file:
            names = [name for name in file.keys() if not name.endswith("tracker_string")]  # noqa: SIM118
            return {name: file.get_tensor(name).tolist() for name in names}


class Undisturbed(NamedTuple):
    """What becomes of the script where nothing goes wrong.

    Attributes:
        after: copies of the project before its first round, and after each of four.
        epochs: of each round.
        opened: how often each file of SAVE was opened in the initialisation, and in each round.
    """

    after: list[Project]
    epochs: list[list[str]]
    opened: list[dict[str, int]]


@contextlib.contextmanager
def counted(folder: Path) -> Iterator[Counter[str]]:
    """Count how often the files of a folder are opened in the `with` block, by whatever process or compiled part.

    Two openings without another event between them may be told as one.
    """
    counts: Counter[str] = Counter()
    if sys.platform != "linux":
        yield counts
        return
    libc = ctypes.CDLL(None)
    events = libc.inotify_init1(os.O_NONBLOCK)
    libc.inotify_add_watch(events, os.fsencode(folder), 0x20)  # IN_OPEN
    with open(events, "rb", buffering=0) as file:
        yield counts
        while data := file.read(2**16):
            while data:
                length = struct.unpack_from("iIII", data)[3]
                counts[os.fsdecode(data[16 : 16 + length].rstrip(b"\0"))] += 1
                data = data[16 + length :]


@pytest.fixture(scope="module", name="undisturbed")
def trained_undisturbed(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Undisturbed:
    """The script trained to its end, round by round; by one process of the tests for all."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "undisturbed"
    with (folder.parent / "undisturbed.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "trained").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            trained = _trained(folder)
            (folder / "trained").write_text(json.dumps(trained))
    epochs, opened = json.loads((folder / "trained").read_text())
    return Undisturbed([Project(folder / str(rounds)) for rounds in range(5)], epochs, opened)


def _trained(folder: Path) -> tuple[list[list[str]], list[Counter[str]]]:
    """Train the script in a folder, with a copy after each round: what it printed, and which files were opened."""
    project = Project(folder / "project")
    project.folder.mkdir()
    (project.folder / "train.py").write_text(SCRIPT)
    shutil.copy(Path(__file__).with_name("trouble.py"), project.folder)
    apply(project.folder / "train.py")
    project.save.mkdir()
    (project.save / "seed").write_text("1\n")
    epochs: list[list[str]] = []
    opened: list[Counter[str]] = []
    for number in range(5):
        settings = {} if number else {"PREPARE": "only"}
        with counted(project.save) as counts:
            assert project.run(MAX_ROUNDS="1", **settings) == (75 if 0 < number < 4 else 0), project.said
        noted = project.folder / "opened"
        opened.append(counts | Counter(noted.read_text().splitlines()))
        noted.unlink()
        epochs += project.epochs
        shutil.copytree(project.folder, folder / str(number))
    assert len(epochs) == 4, epochs
    return epochs, opened


Copies = Callable[[int], Project]
Completes = Callable[..., None]


@pytest.fixture(name="copied")
def copies_of_a_project(undisturbed: Undisturbed, tmp_path: Path) -> Iterator[Copies]:
    """Give copies of the project after so many rounds."""
    made: list[Project] = []

    def copy(rounds: int) -> Project:
        folder = tmp_path / f"project{len(made)}"
        made.append(Project(Path(shutil.copytree(undisturbed.after[rounds].folder, folder))))
        return made[-1]

    yield copy
    left = [number for project in made for number in project.processes]
    for number in left:
        os.kill(number, signal.SIGKILL)
    assert not left, "processes are left"


@pytest.fixture
def completes(undisturbed: Undisturbed) -> Completes:
    """See the same command again come to what the undisturbed training did, after so many rounds.

    One of the first rounds is as good as all that follow, which begin with no more than what it has left.
    """

    def completes(project: Project, rounds: int, **environment: str) -> None:
        limit = {"MAX_ROUNDS": "1"} if rounds < 2 and not WHOLE else {}
        assert project.run(**environment, **limit) == (75 if limit else 0), project.said
        after = rounds + 1 if limit else len(undisturbed.epochs)
        assert project.epochs == undisturbed.epochs[rounds:after]
        assert list(project.switches()) == list(undisturbed.after[after].switches())
        assert project.model() == undisturbed.after[after].model()

    return completes


#: A sitecustomize with which the clock is another one at each second look.
JUMPS = """
import time
now, looks = time.time, [0]
def jump():
    looks[0] += 1
    return now() + {hours} * 3600 * (looks[0] % 2)
time.time = jump
"""
AGAIN = "Running the same command again continues from"


def python_for(trouble: str) -> str:
    """A plain one where torchrun is killed: its processes are told by the system, forks of another one are not."""
    return sys.executable if "orphaned" in trouble else ""


@pytest.mark.parametrize(
    ("trouble", "said", "rounds"),
    [
        ("step killed 1", "Signal 9 (SIGKILL)", 3),
        ("step killed", "Signal 9 (SIGKILL)", 0),
        ("step raises 1", "RuntimeError: the script fails", 2),
        ("step orphaned 0", "", 2),
        ("saving full 0", "File too large", 1),
        ("checkpoint full 0", "torch.save(", 1),
    ],
)
def test_a_round_that_fails_is_begun_again(
    trouble: str, said: str, rounds: int, copied: Copies, completes: Completes
) -> None:
    project = copied(rounds)
    before = project.switches()
    status = 137 if "orphaned" in trouble else 1  # torchrun's own, which was killed
    assert project.run(python_for(trouble), TROUBLE=trouble) == status, project.said
    assert said in project.said
    newest = f"{SAVE}/switch_{2 * rounds}.pt" if rounds else "the beginning"
    assert (
        f"Round 1 failed with status {status} and without a new checkpoint; its messages are above. {AGAIN} {newest}."
        in project.said
    )
    assert project.switches() == before
    until(lambda: not project.processes, f"all end; so far: {project.said}")
    completes(project, rounds)


def test_an_initialisation_on_a_full_disk(copied: Copies, completes: Completes) -> None:
    project = copied(0)
    (project.save / "array_dims.csv").unlink()
    assert project.run(TROUBLE="initialisation stuffed") == 1, project.said
    assert "Initialisation failed with status 1; its messages are above. Training was not started." in project.said
    completes(project, 0)


@pytest.mark.parametrize(("trouble", "rounds"), [("step once 1", 2), ("step once", 0), ("saved once 0", 0)])
def test_torchrun_restarts_a_round_from_the_newest_switch(
    trouble: str, rounds: int, copied: Copies, undisturbed: Undisturbed
) -> None:
    """By --max-restarts: the launcher sees one round, whatever becomes of its processes."""
    project = copied(rounds)
    assert project.run(TROUBLE=trouble, TORCHRUN_ARGS="--standalone --max-restarts=2", MAX_ROUNDS="1") == 75
    assert "failed with status" not in project.said
    after = rounds + (2 if trouble.startswith("saved") else 1)
    assert project.epochs[0] == [epoch for round_ in undisturbed.epochs[rounds:after] for epoch in round_]
    assert list(project.switches()) == list(undisturbed.after[after].switches())
    assert project.model() == undisturbed.after[after].model()
    assert not project.processes
    environment = {"MAX_ROUNDS": "1"} if after < 3 else {}
    assert project.run(**environment) == (75 if environment else 0), project.said
    assert project.epochs == undisturbed.epochs[after : after + 1 if environment else None]


# ---- signals, and a launcher that is killed


STATUS = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGUSR1: 75, signal.SIGKILL: -9}


POINTS = ("initialisation", "step", "validation", "switch", "rehearsal")
STOPS = [(point, number) for point in POINTS for number in STATUS]


# Each signal at one of them, one of them in the rehearsal too, and after it the whole way.
@pytest.mark.parametrize(("point", "number"), STOPS if WHOLE else [*STOPS[::5], STOPS[18]])
def test_a_launcher_that_is_stopped(point: str, number: signal.Signals, copied: Copies, completes: Completes) -> None:
    rounds = {"initialisation": 0, "rehearsal": 0, "switch": 2}.get(point, 3)
    project = copied(rounds)
    if point == "initialisation":
        (project.save / "array_dims.csv").unlink()
    before = project.switches()
    rehearses = {"TROUBLE": "step waits 0", "REHEARSE": "only"}  # a capacity test rehearses only where it is asked to
    process = project.start(**rehearses if point == "rehearsal" else {"TROUBLE": f"{point} waits 0"})  # type: ignore[arg-type]
    until(lambda: list(project.folder.rglob("waits")), project.said)
    process.send_signal(number)
    assert process.wait(DEADLINE) == STATUS[number], project.said
    until(lambda: not project.processes, f"all end; so far: {project.said}")
    assert {name: data for name, data in project.switches().items() if name in before} == before
    completes(project, rounds)


BETWEEN = [signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGKILL]


@pytest.mark.parametrize("number", BETWEEN if WHOLE else BETWEEN[:1])
def test_a_signal_between_two_rounds(number: signal.Signals, copied: Copies, completes: Completes) -> None:
    project = copied(2)
    program = project.folder / "pai_distributed" / "nodes" / "launcher.py"
    written, looks = program.read_text(), "            progress = bool("
    program.write_text(swapped(written, (looks, f"            os.kill(os.getpid(), {int(number)})\n{looks}")))
    assert project.run() == STATUS[number], project.said
    assert list(project.switches()) == ["switch_2.pt", "switch_4.pt", "switch_6.pt"]
    assert not project.processes
    program.write_text(written)
    completes(project, 3)


# ---- what is found in SAVE


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [cut, empty])
@pytest.mark.parametrize("rounds", [3, 1])
def test_a_newest_switch_that_is_no_good(
    damage: Callable[[Path], None], rounds: int, copied: Copies, completes: Completes
) -> None:
    project = copied(rounds)
    damage(project.save / f"switch_{2 * rounds}.pt")
    completes(project, rounds - 1)
    assert f"{SAVE}/switch_{2 * rounds}.pt cannot be read" in project.said
    assert "falling back to the one before it" in project.said or rounds == 1


@pytest.mark.parametrize("shape", [(), (4, 4)])
def test_a_newest_switch_of_another_model(shape: tuple[int, ...], copied: Copies, completes: Completes) -> None:
    import safetensors.torch
    import torch

    project = copied(3)
    safetensors.torch.save_file({"first.main_module.weight": torch.zeros(shape)}, project.save / "switch_6.pt")
    assert project.run() == 1, project.said
    assert f"{SAVE}/switch_6.pt is of another model: its layer first has" in project.said
    assert "[rank0]: Traceback" not in project.said
    (project.save / "switch_6.pt").unlink()
    completes(project, 2)


@pytest.mark.parametrize("name", ["rounds", "planned", "loggers", "processes", "frozen_layers", "output_dimensions"])
def test_a_record_that_is_no_good(name: str, copied: Copies, completes: Completes) -> None:
    project = copied(3)
    cut(project.save / f"{name}.json")
    assert project.run() == 1, project.said
    assert "[rank0]: Traceback" not in project.said
    assert f"{SAVE}/{name}.json cannot be read" in project.said
    (project.save / f"{name}.json").unlink()
    for other in re.findall(r"Remove it and (\S+),", project.said):
        (project.folder / other).unlink()
    if name != "rounds":  # by whose number a round draws its random numbers
        completes(project, 3)
    else:
        assert project.run() == 0, project.said


# ---- several machines


class Machines:
    """A launcher on each of some machines, as if each were one of its own.

    Attributes:
        projects: as each machine sees it.
    """

    def __init__(self, projects: list[Project], processes: int = 1) -> None:
        self.projects = projects
        self.numbers = range(len(projects))
        self.outputs = [projects[0].folder.with_name(f"output{number}") for number in self.numbers]
        self.place = {"NNODES": str(len(projects)), "NUM_GPUS": str(processes), "MASTER_ADDR": "127.0.0.1"}
        self.place |= {"MASTER_PORT": str(free_port()), "PAI_NODES_SECONDS": "60"}

    def start(self, number: int, **environment: str) -> subprocess.Popen[bytes]:
        place = self.place | {"NODE_RANK": str(number)}
        return self.projects[number].start(output=self.outputs[number], **place, **environment)

    def run(self, **environment: str) -> list[int]:
        """Run all to their end, the first one last."""
        launchers = [self.start(number, **environment) for number in reversed(self.numbers)]
        return [launcher.wait(DEADLINE) for launcher in reversed(launchers)]

    def wait(self) -> list[subprocess.Popen[bytes]]:
        """Start all, and wait until training waits on the last."""
        (self.projects[0].folder / "waits").unlink(missing_ok=True)
        rank = len(self.projects) * int(self.place["NUM_GPUS"]) - 1
        launchers = [self.start(number, TROUBLE=f"step waits {rank}") for number in self.numbers]
        until((self.projects[0].folder / "waits").exists, self.said)
        return launchers

    @property
    def said(self) -> str:
        return "\n".join(path.read_text("utf-8", "replace") for path in self.outputs if path.exists())

    def said_by(self, number: int) -> str:
        """What a machine has said since this was asked the last time."""
        said = self.outputs[number].read_text("utf-8", "replace")
        self.outputs[number].write_bytes(b"")
        return said


def test_faults_on_two_machines(copied: Copies, undisturbed: Undisturbed) -> None:
    """One after the other in the last round, which in the end comes to what one machine comes to undisturbed."""
    project = copied(3)
    machines = Machines([project, project])
    newest = project.switches()
    for trouble, said in (("step killed 1", "Signal 9 (SIGKILL)"), ("step orphaned 1", ""), ("backward waits 1", "")):
        (project.folder / "waits").unlink(missing_ok=True)
        statuses = machines.run(python=python_for(trouble), TROUBLE=trouble, PAI_HANG_SECONDS="5")
        assert statuses[0] == statuses[1] != 0, machines.said
        until(lambda: not project.processes, f"all end; so far: {machines.said}")
        told = [machines.said_by(number) for number in range(2)]
        assert all(f"{AGAIN} {SAVE}/switch_6.pt" in one for one in told), told
        assert said in told[1], told
        if "waits" in trouble:
            hangs = r'Rank 1 hangs at .* for 5 s .*\n(  .*\n)*  File ".*train.py", line \d+, in main'
            assert re.search(hangs, told[1]), told
        assert project.switches() == newest
    for lost, number in ((0, signal.SIGKILL), (1, signal.SIGUSR1)):
        launchers = machines.wait()
        launchers[lost].send_signal(number)
        assert launchers[lost].wait(DEADLINE) == STATUS[number], machines.said
        until(lambda: "was lost, or stopped. This round begins again" in machines.said, machines.said)
        if lost == 0:
            launchers[1].terminate()
            assert launchers[1].wait(DEADLINE) == 143, machines.said
            until(lambda: not project.processes, f"all end; so far: {machines.said}")
            assert project.switches() == newest
            for one in (0, 1):
                machines.said_by(one)
    again = machines.start(1)
    assert [launchers[0].wait(DEADLINE), again.wait(DEADLINE)] == [0, 0], machines.said
    assert project.model() == undisturbed.after[4].model()
    assert (
        re.findall(r"^epoch .*", machines.said_by(0), re.MULTILINE)[-len(undisturbed.epochs[3]) :]
        == (undisturbed.epochs[3])
    )
    assert not project.processes


def test_what_is_wrong_with_the_shared_folder_of_two_machines(
    copied: Copies, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    """Its disk is full as a switch file is written, then the newest is cut short, while both clocks jump, each anew."""
    project = copied(2)
    machines = Machines([project, project])
    before = project.switches()
    assert machines.run(TROUBLE="saving full 0") == [1, 1], machines.said
    told = [machines.said_by(number) for number in machines.numbers]
    assert all(f"{AGAIN} {SAVE}/switch_4.pt" in one for one in told), told
    assert "File too large" in told[0]
    assert project.switches() == before
    cut(project.save / "switch_4.pt")
    (tmp_path / "sitecustomize.py").write_text(JUMPS.format(hours=48))
    # the second round again, and the third
    for rounds in (2, 3):
        assert machines.run(MAX_ROUNDS="1", PYTHONPATH=str(tmp_path)) == [75, 75], machines.said
        assert project.model() == undisturbed.after[rounds].model()
        assert list(project.switches()) == list(undisturbed.after[rounds].switches())
    assert f"{SAVE}/switch_4.pt cannot be read" in machines.said
    assert not project.processes


@pytest.mark.skipif(not WHOLE, reason="it is as with two machines in their last round")
@pytest.mark.parametrize(("count", "processes"), [(2, 1), (2, 2), (3, 1), (3, 2)])
def test_a_machine_that_is_killed_in_round_2_and_started_again(
    count: int, processes: int, copied: Copies, undisturbed: Undisturbed
) -> None:
    project = copied(0)
    machines = Machines([project] * count, processes)
    assert machines.run(MAX_ROUNDS="1") == [75] * count, machines.said
    launchers = machines.wait()
    launchers[-1].kill()
    launchers[-1].wait(DEADLINE)
    until(lambda: machines.said.count("was lost, or stopped. This round begins again") == 1, machines.said)
    launchers[-1] = machines.start(count - 1)
    assert [launcher.wait(DEADLINE) for launcher in launchers] == [0] * count, machines.said
    assert list(project.switches()) == list(undisturbed.after[4].switches())
    if count * processes == 2:
        assert project.model() == undisturbed.after[4].model()
    assert not project.processes


def test_machines_come_and_go_between_rounds(copied: Copies) -> None:
    """One goes on with what two processes began, a second comes in a later round, is killed there, and is done without.

    `NNODES=1:2` needs no PAI_ACCEPT_WORLD_SIZE.
    """
    project = copied(1)
    machines = Machines([project, project])
    machines.place |= {"NNODES": "1:2", "PAI_JOIN_SECONDS": "3"}
    first = machines.start(0, TROUBLE="step waits 1")
    until(lambda: "1 of 2 machines train this round: node 0." in machines.said, machines.said)
    second = machines.start(1, TROUBLE="step waits 1")
    until((project.folder / "waits").exists, "it trains in a later round")
    assert "This round has 1 processes, and the one before had 2" in machines.said
    newest = list(project.switches())
    second.kill()
    assert [first.wait(DEADLINE), second.wait(DEADLINE)] == [0, -signal.SIGKILL], machines.said
    assert project.complete
    assert list(project.switches())[: len(newest)] == newest != ["switch_2.pt"]
    before, _, after = machines.said.rpartition("This round begins again with those that are there.")
    assert "2 of 2 machines train this round: node 0, 1." in before
    assert "2 of 2" not in after
    until(lambda: not project.processes, "all end")


# ---- time


def test_a_rank_that_hangs(copied: Copies, completes: Completes) -> None:
    project = copied(3)
    assert project.run(TROUBLE="validation waits 1", PAI_WAIT_SECONDS="3") == 1, project.said
    assert "After 3 s rank 1 has not come to hand over a score." in project.said
    assert re.search(r'File ".*train.py", line \d+ in validate', project.said), project.said
    assert not project.processes
    completes(project, 3)


def test_a_rank_that_hangs_in_a_step(copied: Copies) -> None:
    """The others wait in a collective call of torch's own, which ends them, here after 10 s; in evaluation mode."""
    project = copied(3)
    script = project.folder / "train.py"
    backward = "            loss.backward()\n"
    group = "process_group=dist.new_group(timeout=__import__('datetime').timedelta(seconds=10)),"
    text = swapped(
        script.read_text(),
        ("DistributedDataParallel(model,", f"DistributedDataParallel(model, {group}"),
        (backward, f"            model.eval()\n{backward}"),
    )
    script.write_text(text)
    assert project.run(TROUBLE="backward waits 1", PAI_WAIT_SECONDS="3") == 1, project.said
    lines = text.splitlines()
    waits, missed = (1 + lines.index(" " * 12 + call) for call in ("loss.backward()", 'trouble.at("backward")'))
    mode = r", in a backward pass in evaluation mode \(.*call model\.train\(\) then\)"
    assert re.search(rf"No step for 3 s: rank 0 at train.py:{waits}{mode}; rank 1 at trouble\.py", project.said)
    for rank, line, name in ((0, waits, "main"), (1, missed, "main")):
        assert re.search(
            rf'Rank {rank} has been at .*\n(  .*\n)*  File ".*train.py", line {line}, in {name}', project.said
        )
    assert "Timed out waiting" in project.said
    assert not project.processes


@pytest.mark.parametrize("trouble", ["step loops", "backward waits 1"])
def test_ranks_that_hang_are_ended(trouble: str, copied: Copies, completes: Completes) -> None:
    """For torch they would wait half an hour where one hangs, and for ever where all do."""
    project = copied(1)
    assert project.run(TROUBLE=trouble, PAI_HANG_SECONDS="5") == 1, project.said
    assert re.search(r"No step and no batch on any rank for 5 s: rank 0.* at .*\. All leave\.", project.said)
    for rank in (0, 1):
        hangs = rf'Rank {rank} hangs at .* for 5 s .*\n(  .*\n)*  File ".*train.py", line \d+, in main'
        assert re.search(hangs, project.said), project.said
    assert f"Round 1 failed with status 1 and without a new checkpoint; its messages are above. {AGAIN}" in project.said
    assert not project.processes
    completes(project, 1)


@pytest.mark.parametrize("hours", [-48, 48])
def test_a_clock_that_jumps(hours: int, copied: Copies, completes: Completes, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(JUMPS.format(hours=hours))
    completes(copied(2), 2, PYTHONPATH=str(tmp_path))


# ---- the shared folder


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
def test_one_process_of_a_machine_reads_what_a_round_begins_with(undisturbed: Undisturbed) -> None:
    assert undisturbed.opened[3]["best_model.pt"]
    read = ("array_dims.csv", "switch_4.pt", "beside_2.pt")
    records = ("frozen_layers", "output_dimensions", "planned", "processes", "rounds", "loggers")
    names = [*read, *(f"{name}.json" for name in records)]
    assert {name: undisturbed.opened[3].get(name) for name in names} == dict.fromkeys(names, 1)


# ---- round after round


GROWS = """
import tempfile


def runs_for(folder, number):
    try:
        with open(f"/proc/{number}/environ", "rb") as file:
            return f"TEST_FOLDER={folder}".encode() in file.read()
    except OSError:
        return False


def open_and_kept():
    status = open("/proc/self/status").read()
    kept = int(status.partition("VmRSS:")[2].split()[0])
    count = sum(runs_for(HERE, number) for number in os.listdir("/proc") if number.isdigit())
    return (
        f"open {len(os.listdir('/proc/self/fd'))} threads {len(os.listdir('/proc/self/task'))} processes {count} "
        f"temporary {len(os.listdir(tempfile.gettempdir()))} kept {kept} kB"
    )
"""


@pytest.mark.skipif(not WHOLE, reason="twenty rounds take minutes")
def test_nothing_grows_by_rounds(tmp_path: Path) -> None:
    """Twenty restructurings: a rank of the last round holds what one of the second did, and so does the launcher.

    There are as many processes and temporary files then, and none in the end.
    """
    project = Project(tmp_path)
    (tmp_path / "trouble.py").write_text(Path(__file__).with_name("trouble.py").read_text() + GROWS)
    drawn, shown = 'beside {beside.item():.3f}")\n', 'draw {trouble.open_and_kept()}")\n'
    told = swapped(SCRIPT, (drawn, shown), ("default=5", "default=100"))
    (tmp_path / "train.py").write_text(told)
    apply(tmp_path / "train.py", "--settings", "n_epochs_to_switch=1", "--settings", "max_dendrites=20")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = project.start(PAI_TESTING_DENDRITE_CAPACITY="0", TMPDIR=str(temporary))
    launcher = Path(f"/proc/{process.pid}")
    seen = []
    for round_ in (2, 10, 19):
        until(lambda number=round_: f"Round {number}: " in project.said, project.said)  # type: ignore[misc]
        status = (launcher / "status").read_text()
        seen.append((len(list((launcher / "fd").iterdir())), int(status.partition("VmRSS:")[2].split()[0])))
    assert process.wait(DEADLINE) == 0, project.said
    # A look may fall where it is just making the pipe to its guard, and then finds fewer.
    assert seen[-1][0] <= max(count for count, _ in seen[:-1])
    assert seen[-1][1] < 1.2 * seen[0][1]
    assert "Training is complete after 21 round(s)." in project.said
    counts = r"open (\d+) threads (\d+) processes (\d+) temporary (\d+) kept (\d+)"
    held = [tuple(map(int, re.findall(counts, " ".join(epochs))[-1])) for epochs in project.epochs]
    assert held[1][:-1] == held[-1][:-1]
    assert held[-1][-1] < 1.1 * held[1][-1]
    assert [path.suffix for path in temporary.iterdir()] == [".lock"]  # of the machine's ranks
    assert not project.processes
