"""A project with a launch script, for tests that run it as a process.

The scripts that are "trained" here are plain Python: they write the files that a training run writes, and nothing
else, and a small program named torchrun is first on PATH.
TEST_BASH=/path/to/bash runs everything with another bash (the oldest one supported is 3.2).
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from retrofit.launch import Launch, Launcher, launch_script

RECIPE = Path(__file__).parents[1] / "rules" / "perforatedai"
TEMPLATE = (RECIPE / "train_distributed.sh.j2").read_text("utf-8")
HELPER = RECIPE / "pai_distributed"
DEADLINE = 120.0  # seconds; only a test that is about to fail waits so long


def free_port() -> int:
    """A port that is free with the two after it: below 32768, from where on Linux gives ports to connections."""
    while True:
        port = 20000 + secrets.randbelow(12000)
        with contextlib.suppress(OSError), contextlib.ExitStack() as servers:
            for number in range(port, port + 3):
                servers.enter_context(socket.create_server(("", number)))
            return port


STATUS = {
    signal.SIGHUP: 129,
    signal.SIGINT: 130,
    signal.SIGQUIT: 131,
    signal.SIGTERM: 143,
}  # with which the launcher leaves

# What every trained script does first: say how it was called, and play the initialisation run.
PREAMBLE = """
import fcntl, json, os, pathlib, signal, subprocess, sys
FOLDER = pathlib.Path(os.environ.get("TEST_SAVE", "PAI"))
FOLDER.mkdir(exist_ok=True)
RANK = int(os.environ.get("RANK", "0"))

def note(**more):
    call = dict(argv=sys.argv, cwd=os.getcwd(), options=os.environ.get("TEST_OPTIONS", ""), pid=os.getpid(),
                parent=os.getppid(), env=dict(os.environ), **more)
    with open("calls.jsonl", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # an environment is longer than what is written at once
        file.write(json.dumps(call) + "\\n")

def switch(number, text="weights"):
    (FOLDER / f"switch_{number}.pt").write_text(text)

def complete():
    (FOLDER / ".training_complete").write_text("complete")

initialising = "--perforate_model_parallel" in sys.argv
calls = []
if os.path.exists("calls.jsonl"):
    with open("calls.jsonl") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        calls = file.readlines()
round_ = 1 + sum("--perforate_model_parallel" not in json.loads(line)["argv"] for line in calls)
"""
INITIALISE = """
note()
if initialising:
    (FOLDER / "array_dims.csv").write_text(".0,1,8\\n")
    sys.exit(0)
"""
THREE_ROUNDS = """
if round_ < 3:
    switch(2 * round_)
else:
    complete()
"""
# Says that it runs, then waits for a signal.
HANG = """
pathlib.Path("running").touch()
while True:
    signal.pause()
"""

FAKE_TORCHRUN = """#!/bin/sh
TEST_OPTIONS=
while case $1 in -*) true ;; *) false ;; esac; do
    TEST_OPTIONS="$TEST_OPTIONS$1 "
    shift
done
export TEST_OPTIONS
exec "$TEST_PYTHON" -I -S "$@"
"""
FAKE_PYTHON = """#!/bin/sh
TEST_OPTIONS=
if [ "$1" = -m ]; then
    TEST_OPTIONS="$1 $2 "
    shift 2
    while case $1 in -*) true ;; *) false ;; esac; do
        TEST_OPTIONS="$TEST_OPTIONS$1 "
        shift
    done
fi
export TEST_OPTIONS
exec "$TEST_PYTHON" -E -s -S "$@"
"""


def until(condition: Callable[[], object], what: str) -> None:
    """Wait until `condition` holds, however slow the machine is."""
    end = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"not in {DEADLINE:.0f} s: {what}")
        time.sleep(0.005)


def runs(pid: int) -> bool:
    """Does this process run? One that ended and was not yet waited for does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return not state.strip().startswith("Z") and bool(state.strip())


@pytest.fixture(autouse=True, scope="module")
def heed_signals() -> Iterator[None]:
    """Start processes that heed every signal, also where the tests themselves run under nohup or in the background."""
    defaults = {signal.SIGINT: signal.default_int_handler}
    before = {number: signal.signal(number, defaults.get(number, signal.SIG_DFL)) for number in STATUS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Run:
    """One project folder with a launch script, a user's working folder, and the processes started from them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.project = root / "project"
        self.work = root / "work"
        self.bin = root / "bin"
        self.work.mkdir()
        self.bin.mkdir()
        self.save = self.work / "PAI"
        self.output = root / "output"
        self.launcher = self.project / "train_distributed.sh"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.passed: tuple[int, ...] = ()
        self.env = {
            "PATH": os.pathsep.join([str(self.bin), "/usr/bin", "/bin"]),
            "HOME": str(root),
            "TEST_PYTHON": sys.executable,
            "NUM_GPUS": "2",
            "REHEARSE": "0",
        }
        self.program("torchrun", FAKE_TORCHRUN)
        if other := os.environ.get("TEST_BASH"):
            (self.bin / "bash").symlink_to(other)

    def program(self, name: str, text: str) -> None:
        """Put a program first on PATH."""
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def with_torch(self) -> None:
        """Use PyTorch's own torchrun and python."""
        (self.bin / "torchrun").unlink()
        self.env["PATH"] = os.pathsep.join([str(self.bin), str(Path(sys.executable).parent), "/usr/bin", "/bin"])
        self.env["OMP_NUM_THREADS"] = "1"

    def write(
        self,
        body: str,
        *,
        script: str = "train.py",
        save_name: str = "PAI",
        nproc: int | Literal["gpu"] = "gpu",
        gpus: str | None = None,
        launcher: Launcher = "torchrun",
        initialise: str = INITIALISE,
        module: str = "",
        sees_all: bool = False,
    ) -> None:
        """Write the training script and its launcher."""
        self.project.mkdir(exist_ok=True)
        (self.project / script).write_text(PREAMBLE + initialise + body, "utf-8")
        nodes = self.project.joinpath(*[".."] * module.count("."), HELPER.name, "nodes")
        shutil.copytree(HELPER / "nodes", nodes, dirs_exist_ok=True)
        plan = Launch(script, save_name, nproc, gpus, launcher, module=module, sees_all=sees_all)
        self.launcher.write_text(launch_script(TEMPLATE, plan), "utf-8")
        self.launcher.chmod(0o755)

    def start(self, *arguments: str, output: Path | None = None, **env: str) -> subprocess.Popen[bytes]:
        """Start the launcher as a user's shell would: by its path, in a process group of its own."""
        with (output or self.output).open("wb") as file:
            process = subprocess.Popen(
                [str(self.launcher), *arguments],
                cwd=self.work,
                env=self.env | env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=self.passed,
            )
        self.processes.append(process)
        return process

    def __call__(self, *arguments: str, **env: str) -> int:
        """Run the launcher to its end; its exit status."""
        return self.start(*arguments, output=None, **env).wait(DEADLINE)

    @property
    def said(self) -> str:
        return self.output.read_text("utf-8", "replace")

    @property
    def calls(self) -> list[dict[str, Any]]:
        """How the training script was called so far."""
        path = self.work / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def arguments(self) -> list[list[str]]:
        return [call["argv"][1:] for call in self.calls]

    @property
    def pids(self) -> set[int]:
        """The processes that training consisted of, each of which told its number."""
        own = {os.getpid(), *(process.pid for process in self.processes)}
        told = {pid for call in self.calls for pid in (call["pid"], call["parent"], *call.get("others", []))}
        return {pid for pid in told if pid > 1} - own

    def start_and_wait(self, *arguments: str, processes: int = 1, **env: str) -> subprocess.Popen[bytes]:
        """Start the launcher and wait until the training script says in its folder that it runs."""
        process = self.start(*arguments, output=None, **env)
        until(
            lambda: len(list(self.work.glob("running*"))) >= processes or process.poll() is not None,
            f"training runs; so far: {self.said}",
        )
        assert process.poll() is None, self.said
        return process

    def clean_up(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait(DEADLINE)
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(name="run")
def project_to_run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path.resolve())
    yield run
    try:
        assert not [pid for pid in run.pids if runs(pid)], "processes survived the test"
    finally:
        run.clean_up()
