"""Several machines: their launchers, each in an environment of its own on this one, begin and end rounds together."""

from __future__ import annotations

import contextlib
import os
import re
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from retrofit.inline import launcher_program
from retrofit.launch import Launch, launch_script
from retrofit.rules import load_recipe
from tests.forked import training_python
from tests.launching import (
    DEADLINE,
    HELPER,
    INITIALISE,
    STATUS,
    TEMPLATE,
    Run,
    free_port,
    heed_signals,  # noqa: F401 - a fixture
    project_to_run,  # noqa: F401 - a fixture
    until,
)
from tests.projects import load_projects, shown
from tests.projects import run as run_project

#: Only node 0 writes what rank 0 writes.
ROUNDS = """
NODE = os.environ.get("NODE_RANK")
mine = [call for call in map(json.loads, calls) if call["env"].get("NODE_RANK") == NODE]
round_ = 1 + sum("--perforate_model_parallel" not in call["argv"] for call in mine)
if NODE == "0":
    if round_ < 3:
        switch(2 * round_)
    else:
        complete()
"""


class Nodes:
    """Launchers of one project, as if each ran on a machine of its own.

    Attributes:
        outputs: what each has said.
    """

    def __init__(self, run: Run, count: int) -> None:
        self.run, self.count = run, count
        self.place = {"NNODES": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        self.place["PAI_NODES_SECONDS"] = "60"
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        run.program("python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')

    def start(self, number: int, *arguments: str, **env: str) -> subprocess.Popen[bytes]:
        """Start the launcher of one machine."""
        process = self.run.start(
            *arguments, output=self.output(number), **{**self.place, "NODE_RANK": str(number), **env}
        )
        self.processes[number] = process
        return process

    def output(self, number: int) -> Path:
        return self.run.root / f"output{number}"

    def said(self, number: int) -> str:
        return self.output(number).read_text("utf-8", "replace") if self.output(number).exists() else ""

    def ends(self) -> list[int]:
        """Wait for all: their statuses by their numbers."""
        return [self.processes[number].wait(DEADLINE) for number in sorted(self.processes)]

    @property
    def everything_said(self) -> str:
        return "\n".join(f"--- {number}\n{self.said(number)}" for number in self.processes)

    def calls(self, number: int) -> list[dict[str, Any]]:
        """How training was started on a machine, the initialisation left out."""
        started = [call for call in self.run.calls if "--perforate_model_parallel" not in call["argv"]]
        return [call for call in started if call["env"].get("NODE_RANK") == str(number)]


@pytest.mark.parametrize(("count", "order"), [(2, (0, 1)), (2, (1, 0)), (3, (2, 1, 0))])
def test_all_machines_train_each_round_together(run: Run, count: int, order: tuple[int, ...]) -> None:
    run.write(ROUNDS)
    nodes = Nodes(run, count)
    for number in order:
        nodes.start(number, "--lr", "1")
    assert nodes.ends() == [0] * count, nodes.everything_said
    assert [call["argv"][1] for call in run.calls].count("--perforate_model_parallel") == 1
    for number in range(count):
        arguments = [call["argv"][1:] for call in nodes.calls(number)]
        assert arguments == [["--lr", "1"], *[["--pai_load_folder=PAI", "--lr", "1"]] * 2]
        for call in nodes.calls(number):
            assert call["env"]["PET_NNODES"] == str(count)
            assert call["env"]["PET_NODE_RANK"] == str(number)
            assert call["env"]["PET_MASTER_ADDR"] == "127.0.0.1"
            assert call["env"]["PET_RDZV_BACKEND"] == "static"
            assert "--standalone" not in call["options"]
    for name in ("PET_MASTER_PORT", "PAI_SEED", "PYTHONHASHSEED"):
        assert len({call["env"][name] for number in range(count) for call in nodes.calls(number)[:1]}) == 1


#: Waits in its second round until a test lets it go on; each process says that it runs.
ROUNDS_THAT_WAIT = """
if round_ == 2 and not os.path.exists("go on"):
    pathlib.Path(f"running{os.environ.get('NODE_RANK')}-{os.getpid()}").touch()
    signal.sigwait([signal.SIGTERM])
    sys.exit(143)
"""


def waiting(nodes: Nodes, number: int) -> int:
    """In how many processes of a machine training waits."""
    return len(list(nodes.run.work.glob(f"running{number}-*")))


@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_machine_that_is_lost_can_come_back(run: Run, lost: int, how: signal.Signals) -> None:
    before = ROUNDS.index("if NODE ==")
    run.write(ROUNDS[:before] + ROUNDS_THAT_WAIT + ROUNDS[before:].replace("round_ < 3", "round_ < 4"))
    nodes = Nodes(run, 2)
    for number in range(2):
        nodes.start(number)
    until(lambda: waiting(nodes, 0) and waiting(nodes, 1), f"both train; so far: {nodes.everything_said}")
    (run.work / "go on").touch()
    nodes.processes[lost].send_signal(how)
    nodes.processes[lost].wait(DEADLINE)
    until(lambda: "was lost, or stopped" in nodes.said(1 - lost), "the other one says so")
    nodes.start(lost)
    assert nodes.ends() == [0, 0], nodes.everything_said
    assert f"ode {lost} " in nodes.said(1 - lost)
    # The round that broke off began again from the same checkpoint, on both.
    for number in range(2):
        loaded = ["--pai_load_folder=PAI" in call["argv"] for call in nodes.calls(number)]
        assert loaded == [False, True, True, True]


#: Each round ends when a test lets it; all see how many there were by the checkpoints.
ROUNDS_THAT_END = """
import time
rounds = len(list(FOLDER.glob("switch_*.pt")))
pathlib.Path(f"runs-{rounds}-{os.environ['TEST_NODE']}").touch()
while not os.path.exists(f"end-{rounds}"):
    time.sleep(0.01)
if os.environ["NODE_RANK"] == "0":
    complete() if os.path.exists("last") else switch(rounds + 1)
"""


def test_machines_come_and_go_between_rounds(run: Run) -> None:
    run.write(ROUNDS_THAT_END)
    nodes = Nodes(run, 3)
    nodes.place |= {"NNODES": "2:3", "PAI_JOIN_SECONDS": "2"}

    def train(*numbers: int) -> None:
        """Wait until these train a round together, and maybe rounds with fewer before it."""
        said = f"{len(numbers)} of 3 machines train this round: node {', '.join(map(str, numbers))}."
        number = len(list(run.save.glob("switch_*.pt")))
        until((run.work / f"runs-{number}-0").exists, nodes.everything_said)
        if said in re.findall(r".* machines train this round.*", nodes.said(0))[-1]:
            for one in numbers:
                until((run.work / f"runs-{number}-{one}").exists, nodes.everything_said)
        else:  # somebody was late
            (run.work / f"end-{number}").touch()
            until((run.save / f"switch_{number + 1}.pt").exists, nodes.everything_said)
            train(*numbers)

    def start(number: int) -> None:
        nodes.start(number, TEST_NODE=str(number))

    start(2)
    start(0)
    train(0, 2)
    start(1)
    until(lambda: "Node 0 trains a round without this machine. Waiting for it." in nodes.said(1), "it waits")
    (run.work / "end-0").touch()
    until((run.save / "switch_1.pt").exists, "the round ends")
    train(0, 1, 2)
    for path in run.work.glob("runs-*"):
        path.unlink()
    nodes.processes[1].kill()
    until(lambda: "Node 1 (127.0.0.1) was lost, or stopped" in nodes.said(0), "it is missed")
    (run.work / "last").touch()
    train(0, 2)
    started = [call["env"] for call in run.calls if "--perforate_model_parallel" not in call["argv"]]
    for path in run.work.glob("runs-*"):
        (run.work / path.name.replace("runs", "end").rpartition("-")[0]).touch()
    assert nodes.ends() == [0, -signal.SIGKILL, 0], nodes.everything_said
    assert "This round begins again with those that are there." in nodes.said(0)
    # Those that are there have the first numbers.
    places = {(one["PET_NNODES"], one["TEST_NODE"], one["PET_NODE_RANK"]) for one in started}
    assert places >= {("2", "0", "0"), ("2", "2", "1"), ("3", "0", "0"), ("3", "1", "1"), ("3", "2", "2")}
    assert {one["PAI_ACCEPT_WORLD_SIZE"] for one in started} == {"any"}
    assert sum("--perforate_model_parallel" in call["argv"] for call in run.calls) == 1


def test_one_machine_alone_where_the_others_may_come(run: Run) -> None:
    run.write(ROUNDS)
    nodes = Nodes(run, 1)
    nodes.start(0, NNODES="1:4", PAI_JOIN_SECONDS="0")
    assert nodes.ends() == [0], nodes.said(0)
    assert nodes.said(0).count("1 of 4 machines train this round: node 0.") == 3
    assert [call["env"]["PET_NNODES"] for call in nodes.calls(0)] == ["1"] * 3


def test_fewer_machines_than_there_must_be_train_nothing(run: Run) -> None:
    run.write(ROUNDS)
    nodes = Nodes(run, 3)
    nodes.start(0, NNODES="2:3", PAI_NODES_SECONDS="1")
    assert nodes.ends() == [1]
    assert "After 1 s node 1 has not come.\ntrain_distributed: After 1 s node 2 has not come." in nodes.said(0)
    assert not nodes.calls(0)


def test_what_fails_on_one_machine_ends_all(run: Run) -> None:
    run.write(
        "if os.environ.get('NODE_RANK') == '1':\n    sys.exit(7)\nsignal.sigwait([signal.SIGTERM])\nsys.exit(143)\n"
    )
    nodes = Nodes(run, 2)
    nodes.start(0)
    nodes.start(1)
    statuses = nodes.ends()
    assert statuses[0] == statuses[1] in (7, 143), nodes.everything_said
    assert "without a new checkpoint" in nodes.said(0)


@pytest.mark.parametrize(
    ("number", "env", "said"),
    [
        (1, {"PYTHON_SCRIPT": "HERE/other.py"}, "has another training script than node 0"),
        (1, {"NNODES": "3"}, "expects 3 nodes, not 2"),
        (1, None, "node 1 has not come"),
    ],
)
def test_a_machine_that_does_not_fit_is_named(run: Run, number: int, env: dict[str, str] | None, said: str) -> None:
    run.write(ROUNDS)
    (run.project / "other.py").write_text("# another\n")
    nodes = Nodes(run, 2)
    nodes.place["PAI_NODES_SECONDS"] = "5"
    nodes.start(0)
    if env is not None:
        nodes.start(number, **{name: value.replace("HERE", str(run.project)) for name, value in env.items()})
    assert 0 not in nodes.ends(), nodes.everything_said
    assert said in nodes.said(0)
    if env is not None:
        assert said in nodes.said(1)
    assert not nodes.calls(0)


def test_an_initialisation_that_fails_ends_all(run: Run) -> None:
    fails = "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(5))\nnote()\nwhile initialising:\n    signal.pause()\n"
    run.write(ROUNDS, initialise=fails)
    nodes = Nodes(run, 2)
    nodes.start(0)
    until(lambda: run.calls, "it initialises")
    nodes.start(1)
    # What the other has said by then has come: a connection is taken in the order of its making.
    until(lambda: "Node 0 prepares" in nodes.said(1), "the other one waits")
    os.kill(run.calls[0]["pid"], signal.SIGUSR1)
    assert nodes.ends() == [5, 5], nodes.everything_said
    assert "Node 0 has left with status 5; its own output says why." in nodes.said(1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGKILL])
def test_a_launcher_that_is_stopped_in_the_initialisation_can_come_back(run: Run, number: signal.Signals) -> None:
    hangs = "if not os.path.exists('go on'):\n    note()\n    signal.sigwait([signal.SIGTERM])\n    sys.exit(143)\n"
    run.write(ROUNDS, initialise=hangs + INITIALISE)
    nodes = Nodes(run, 2)
    nodes.start(0)
    nodes.start(1)
    until(lambda: run.calls and "Node 0 prepares" in nodes.said(1), "it initialises, and the other one waits")
    (run.work / "go on").touch()
    nodes.processes[0].send_signal(number)
    assert nodes.processes[0].wait(DEADLINE) == {**STATUS, signal.SIGUSR1: 75, signal.SIGKILL: -9}[number]
    nodes.start(0)
    assert nodes.ends() == [0, 0], nodes.everything_said
    for one in range(2):
        assert len(nodes.calls(one)) == 3


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"1\n", b'{"node": 1}\n', b'{"ready": 1}\n'])
def test_whoever_else_connects_is_no_machine(run: Run, said: bytes) -> None:
    run.write(ROUNDS)
    nodes = Nodes(run, 2)
    nodes.start(0)
    until(lambda: "Round 1" in nodes.said(0), "it waits for the other")
    connections = []

    def connected() -> bool:
        with contextlib.suppress(OSError):
            connections.append(socket.create_connection(("127.0.0.1", int(nodes.place["MASTER_PORT"]))))
        return bool(connections)

    until(connected, "it listens")
    with connections[0]:
        connections[0].sendall(said)
        nodes.start(1)
        assert nodes.ends() == [0, 0], nodes.everything_said


def test_node_0_is_missed(run: Run) -> None:
    run.write(ROUNDS)
    nodes = Nodes(run, 2)
    nodes.start(1, PAI_NODES_SECONDS="1")
    assert nodes.ends() == [1]
    assert f"nobody answers at 127.0.0.1:{nodes.place['MASTER_PORT']}" in nodes.said(1)


def test_the_same_number_twice(run: Run) -> None:
    run.write("signal.sigwait([signal.SIGTERM])\nsys.exit(143)\n")
    nodes = Nodes(run, 2)
    nodes.start(0)
    nodes.start(1)
    until(lambda: len(run.calls) == 3, "both train")
    with (run.root / "twice").open("wb"):
        twice = run.start(output=run.root / "twice", **{**nodes.place, "NODE_RANK": "0"})
    assert twice.wait(DEADLINE) == 1
    assert "cannot listen on port" in (run.root / "twice").read_text()
    for process in nodes.processes.values():
        process.terminate()
    assert nodes.ends() == [143, 143]


def test_ports_of_node_0_that_are_in_use(run: Run) -> None:
    """Of the one where machines meet node 0 says so, and the other waits for it; for training it takes the next."""
    run.write(ROUNDS)
    nodes = Nodes(run, 2)
    port = int(nodes.place["MASTER_PORT"])
    with socket.create_server(("", port)):
        assert nodes.start(0).wait(DEADLINE) == 1
        assert f"cannot listen on port {port}: Address already in use" in nodes.said(0)
        nodes.start(1)
    with socket.create_server(("", port + 1)):
        nodes.start(0)
        assert nodes.ends() == [0, 0], nodes.everything_said
    assert {call["env"]["PET_MASTER_PORT"] for call in nodes.calls(1)} == {str(port + 2)}


def test_files_that_are_seen_late_are_waited_for(run: Run) -> None:
    run.write(ROUNDS)
    nodes = Nodes(run, 2)
    late = run.root / "late"
    late.mkdir()
    (late / "calls.jsonl").symlink_to(run.work / "calls.jsonl")
    work, run.work = run.work, late
    nodes.start(1)
    run.work = work
    nodes.start(0)

    def copied() -> bool:
        """Copy what node 0 has written to where the other machine sees it."""
        if run.save.exists():
            (late / "PAI").mkdir(exist_ok=True)
            for path in run.save.iterdir():
                shutil.copy2(path, late / "PAI")
        return nodes.processes[1].poll() is not None

    until(copied, "both end")
    assert nodes.ends() == [0, 0], nodes.everything_said
    assert len(nodes.calls(1)) == 3


def test_a_switch_file_that_is_seen_after_its_removal_is_waited_out(run: Run) -> None:
    run.write(ROUNDS)
    nodes = Nodes(run, 2)
    late = run.root / "late"
    late.mkdir()
    (late / "calls.jsonl").symlink_to(run.work / "calls.jsonl")
    run.save.mkdir()
    (late / "PAI").mkdir()
    (late / "PAI" / "switch_9.pt").touch()
    work, run.work = run.work, late
    nodes.start(1)
    run.work = work
    nodes.start(0)
    waits = "Waiting up to 60 s to see what node 0 sees"
    until(lambda: waits in nodes.said(1) or nodes.processes[1].poll() is not None, "it waits")
    assert re.search(f"{waits} in .*switch_9.pt", nodes.said(1)), nodes.everything_said
    (late / "PAI" / "switch_9.pt").unlink()
    (late / "PAI").rmdir()
    (late / "PAI").symlink_to(run.save)
    assert nodes.ends() == [0, 0], nodes.everything_said
    assert len(nodes.calls(1)) == 3


def test_what_tells_a_file_from_an_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(HELPER / "nodes")
    look_at: Any = runpy.run_path(str(HELPER / "nodes" / "node.py"))["look_at"]
    names = ("rounds.json", "rounds.json.new", ".nfs01", ".training_complete", "switch_2.pt")
    seen = []
    for text in ("1", "2"):
        for name in names:
            (tmp_path / name).write_text("x" * 20_000 + text)
        seen.append(look_at(str(tmp_path)))
    assert sorted(seen[0]) == [".training_complete", "rounds.json", "switch_2.pt"]
    assert not seen[0].items() & seen[1].items()


def test_a_folder_that_is_not_shared_is_told(run: Run) -> None:
    run.write(ROUNDS)
    nodes = Nodes(run, 2)
    nodes.place["PAI_NODES_SECONDS"] = "5"
    nodes.start(0)
    (run.root / "other").mkdir()
    run.work = run.root / "other"
    nodes.start(1)
    assert 0 not in nodes.ends()
    assert f"to see what node 0 sees in {run.work / 'PAI'}: array_dims.csv" in nodes.said(1)
    assert "does not see all files that node 0 sees in PAI" in nodes.said(0)


#: How many machines, how many processes on each, and how many seconds between their starts, then in a network; below 0
#: the last machine comes first.
SHAPES = [(count, processes, apart) for apart in (0, 20, -20) for count in (2, 3) for processes in (1, 2)]
WHOLE = bool(os.environ.get("RETROFIT_TEST_WHOLE"))


@pytest.fixture
def networked(worker_id: str) -> Iterator[list[list[str]]]:
    """What runs a command on each of three machines in one network; nothing, where there can be none.

    They are network namespaces, at 10.77.0.1 to 3, of which the first has the switch.
    """
    names = [f"pai-{worker_id}-{os.getpid()}-{number}" for number in range(3)]
    first = ["-n", names[0]]
    words = [["netns", "add", name] for name in names]
    words += [["-n", name, "link", "set", "lo", "up"] for name in names]
    words += [[*first, "link", "add", "eth", "type", "bridge"], [*first, "addr", "add", "10.77.0.1/24", "dev", "eth"]]
    words += [[*first, "link", "set", "eth", "up"]]
    for number, name in enumerate(names[1:], 2):
        peer = ["peer", "name", f"port{number}", "netns", names[0]]
        words.append(["-n", name, "link", "add", "eth", "type", "veth", *peer])
        words.append([*first, "link", "set", f"port{number}", "master", "eth", "up"])
        words.append(["-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", "eth"])
        words.append(["-n", name, "link", "set", "eth", "up"])
    try:
        for line in words if WHOLE else ():
            subprocess.run(["ip", *line], check=True, capture_output=True, timeout=DEADLINE)
        yield [["ip", "netns", "exec", name] for name in names if WHOLE]
    except (OSError, subprocess.CalledProcessError):
        yield []
    finally:
        for name in names if WHOLE else ():
            with contextlib.suppress(OSError):
                subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@pytest.mark.real
@pytest.mark.parametrize(("count", "processes", "apart"), SHAPES if WHOLE else SHAPES[:1])
def test_machines_train_to_completion_on_the_real_library(
    count: int, processes: int, apart: int, networked: list[list[str]], tmp_path: Path
) -> None:
    project = next(project for project in load_projects() if project.name == "ddp_demo")
    project.copy("after", tmp_path)
    networked = networked if apart else []
    address = "10.77.0.1" if networked else "127.0.0.1"
    place = {"NNODES": str(count), "MASTER_ADDR": address, "MASTER_PORT": str(free_port())}
    place["NUM_GPUS"] = str(processes)
    place["PYTHON"] = sys.executable if networked else training_python()  # which starts processes here
    command = ["bash", "train_distributed.sh", *project.arguments]
    settings = {"PAI_TESTING_DENDRITE_CAPACITY": "1", **place}
    told: list[Future[Any]] = []
    taken = int(place["MASTER_PORT"]) + 1  # which training would take
    with ThreadPoolExecutor() as pool, socket.create_server(("", taken)):
        for number in range(count) if apart > 0 else reversed(range(count)):
            there = [*networked[number], *command] if networked else command
            told.append(pool.submit(run_project, there, tmp_path, NODE_RANK=str(number), **settings))
            time.sleep(abs(apart))
        results = [one.result() for one in told]
    for result in results:
        assert result.returncode == 0, shown(result)
        assert "Training is complete after 4 round(s)" in result.stdout, shown(result)
        assert ("Initialising" in result.stdout) is (result is results[0 if apart > 0 else -1])


# ---- where a launcher is started


def place(**known: str) -> Any:
    """Which machine an environment says that this is."""
    find: Any = runpy.run_path(str(HELPER / "nodes" / "place.py"))["find_place"]
    return find(known)


SLURM = {"SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NODEID": "1", "SLURM_JOB_ID": "1234567"}


@pytest.mark.parametrize(
    ("known", "found"),
    [
        ({}, (0, 1, "127.0.0.1", 29500)),
        ({"NNODES": "1:4", "NODE_RANK": "3", "MASTER_ADDR": "a"}, (3, 4, "a", 29500, 1)),
        ({"PET_NNODES": "2:3", "PET_NODE_RANK": "0", "MASTER_ADDR": "a"}, (0, 3, "a", 29500, 2)),
        ({"NNODES": "1", "SLURM_STEP_NUM_NODES": "4", "SLURM_STEP_NUM_TASKS": "4"}, (0, 1, "127.0.0.1", 29500)),
        ({"NNODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "7"}, (1, 2, "a", 7)),
        ({"PET_NNODES": "2:2", "PET_NODE_RANK": "0", "PET_MASTER_ADDR": "a", "PET_MASTER_PORT": "7"}, (0, 2, "a", 7)),
        ({**SLURM, "SLURM_STEP_NODELIST": "gpu[03-05,9],big1"}, (1, 2, "gpu03", 24567)),
        ({**SLURM, "SLURM_STEP_NODELIST": "n1.site,n2.site"}, (1, 2, "n1.site", 24567)),
        ({**SLURM, "SLURM_JOB_NODELIST": "n[1-2]-ib", "MASTER_PORT": "7"}, (1, 2, "n1-ib", 7)),
        ({"SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NUM_TASKS": "1", "SLURM_NODEID": "0"}, (0, 1, "127.0.0.1", 29500)),
        # the batch script itself, which is no step
        ({"SLURM_NNODES": "2", "SLURM_NODEID": "0", "SLURM_NTASKS": "2"}, (0, 1, "127.0.0.1", 29500)),
        (
            {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}
            | {"MASTER_ADDR": "a"},
            (1, 2, "a", 29500),
        ),
        ({"PMI_SIZE": "2", "PMI_RANK": "1", "MPI_LOCALNRANKS": "1", "MASTER_ADDR": "a"}, (1, 2, "a", 29500)),
    ],
)
def test_which_machine_this_is(known: Mapping[str, str], found: tuple[int, int, str, int]) -> None:
    assert place(**known) == (found if len(found) == 5 else (*found, found[1]))  # all must be there


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"NNODES": "2", "MASTER_ADDR": "a"}, "NODE_RANK is '', but must be 0 to 1"),
        ({"NNODES": "2", "NODE_RANK": "2", "MASTER_ADDR": "a"}, "NODE_RANK is '2', but must be 0 to 1"),
        ({"NNODES": "two"}, "NNODES is 'two'"),
        *(
            ({"NNODES": told}, f"NNODES is '{told}', but must be a number of machines, or the fewest and the most")
            for told in ("4:1", "0:4", ":4", "1:", "1:2:3", "0")
        ),
        ({"NNODES": "1:4", "MASTER_ADDR": "a"}, "NODE_RANK is '', but must be 0 to 3"),
        ({"NNODES": "2", "NODE_RANK": "0"}, "MASTER_ADDR must be the name or address of node 0"),
        ({"NNODES": "2", "NODE_RANK": "0", "MASTER_ADDR": "a", "MASTER_PORT": "x"}, "MASTER_PORT is 'x'"),
        ({**SLURM, "SLURM_STEP_NUM_TASKS": "8"}, "8 launchers were started on 2 machines"),
        ({"SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NUM_TASKS": "4", "SLURM_NODEID": "0"}, "srun --ntasks-per-node=1"),
        (
            {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"},
            "4 launchers were started on a machine",
        ),
    ],
)
def test_what_does_not_say_which_machine_this_is(known: Mapping[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        place(**known)


def test_machines_do_not_come_and_go_where_the_script_counts_them(run: Run) -> None:
    run.write(ROUNDS)
    Nodes(run, 1)
    assert run(NNODES="1:4", NODE_RANK="0", MASTER_ADDR="127.0.0.1", LAUNCHER="python") == 2
    assert "NNODES is '1:4', but with LAUNCHER=python the script says how many machines there are" in run.said
    assert not run.calls


def test_several_launchers_on_one_machine_train_nothing(run: Run) -> None:
    run.write(ROUNDS)
    Nodes(run, 1)
    assert run(SLURM_STEP_NUM_NODES="1", SLURM_STEP_NUM_TASKS="4", SLURM_NODEID="0") == 2
    assert "4 launchers were started on 1 machine, and each machine needs one" in run.said
    assert not run.calls


def test_a_script_with_the_helper_in_it_is_for_one_machine(run: Run) -> None:
    run.write(ROUNDS)
    program = launcher_program(load_recipe(HELPER.parent))
    run.launcher.write_text(launch_script(TEMPLATE, Launch("train.py", "PAI", program=program)))
    assert run(NNODES="2", NODE_RANK="0", MASTER_ADDR="127.0.0.1") == 2
    assert "is for one machine" in run.said


FAILS = """
import sys
from rehearsing import Rehearsal
class Training:
    helper, here, folder, script, training, told = "", ".", ".", "train.py", ["train.py"], {}
    def fail(self, status, why): sys.exit(status)
one = Rehearsal(Training())
one.folder = "."
one._fail(1, "the initialisation", ["train.py:8: ValueError: not enough values to unpack"], "3 s")
"""


@pytest.mark.parametrize(("program", "told"), [(["stty", "size"], True), (["cat", "nothing"], False)])
def test_a_rehearsal_that_fails_says_that_a_program_asks_for_the_terminal(
    tmp_path: Path, program: list[str], told: bool
) -> None:
    with (tmp_path / "output.log").open("wb") as log:
        subprocess.run(program, stdin=subprocess.DEVNULL, stderr=log, env={**os.environ, "LC_ALL": "C"}, check=False)
    environment = {"PYTHONPATH": str(HELPER / "nodes"), "PYTHONDONTWRITEBYTECODE": "1"}
    failed = subprocess.run(
        [sys.executable, "-c", FAILS], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert failed.returncode == 1
    assert ("Inappropriate ioctl for device), and this may be why" in failed.stderr) is told
    assert "The rehearsal failed in the initialisation, after 3 s:\n    train.py:8: ValueError" in failed.stderr
