"""Run a program with all the processes that it starts: watch that they go on, and leave none behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import psutil

from retrofit.errors import Interrupted

#: How often we look, in seconds.
_TICK = 0.2
#: How much of the output is looked at, in bytes.
_OUTPUT_LIMIT = 2**20


@dataclass
class Ended:
    """How a program ended.

    Attributes:
        status: its exit status; negative where a signal ended it.
        seconds: how long it took.
        output: what it and its processes printed, of much the end.
        stacks: where each process was, by its number, if the program hung and was killed; else empty.
    """

    status: int
    seconds: float
    output: str
    stacks: dict[int, str] = field(default_factory=dict)


@contextlib.contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Take the signals that ask to stop, so that no process that is just being started is lost sight of.

    Yields:
        A function that raises Interrupted if there was such a signal.
    """
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    def check() -> None:
        if received:
            raise Interrupted(received[0])

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield check
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(
    command: list[str],
    folder: Path,
    environment: Mapping[str, str],
    signs: Path,
    log: Path,
    timeout: float,
    tick: Callable[[], None],
) -> Ended:
    """Run a program to its end, or until none of its processes has shown a sign of life for a while.

    Args:
        command: the program and its arguments.
        folder: its working folder.
        environment: its whole environment.
        signs: the folder in which its processes leave signs of life, in files `NAME-PROCESS`.
        log: the file for its output.
        timeout: after how many seconds without a sign of life or output it counts as hanging.
        tick: called several times a second; what it raises ends the program.
    """
    with _terminal() as terminal:
        return _run(command, folder, environment, terminal, signs, log, timeout, tick)


@contextlib.contextmanager
def _terminal() -> Iterator[int]:
    """Give a terminal of 80 columns at which nobody types.

    A script finds what it would find at its user's, such as the width for its progress bar, but whatever it or a
    debugger reads is the end of the input.
    """
    try:
        ours, theirs = os.openpty()
    except OSError:  # there is none to be had in some containers
        yield subprocess.DEVNULL
        return
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        os.write(ours, b"\x04" * 1000)  # one is used up by each read
        yield theirs
    finally:
        os.close(theirs)
        os.close(ours)


def _run(
    command: list[str],
    folder: Path,
    environment: Mapping[str, str],
    stdin: int,
    signs: Path,
    log: Path,
    timeout: float,
    tick: Callable[[], None],
) -> Ended:
    started = time.time()
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=dict(environment), stdin=stdin, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    stacks: dict[int, str] = {}
    last, seen = time.monotonic(), (0.0, 0)
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_TICK)
                break
            tick()
            signs_now = (max((entry.stat().st_mtime for entry in os.scandir(signs)), default=0.0), log.stat().st_size)
            if signs_now != seen:
                last, seen = time.monotonic(), signs_now
            elif time.monotonic() - last > timeout:
                stacks = _stacks(process.pid, signs, started)
                break
    finally:
        _kill(process, signs, started)
    tick()
    return Ended(process.returncode, time.time() - started, _end(log), stacks)


def _end(log: Path) -> str:
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - _OUTPUT_LIMIT))
        return file.read().decode("utf-8", errors="replace")


def _family(root: int, signs: Path, started: float) -> dict[int, psutil.Process]:
    """All processes of a program by number: its children, and those that left a sign of life and lost their parent."""
    found = {}
    with contextlib.suppress(psutil.NoSuchProcess):
        top = psutil.Process(root)
        found = {child.pid: child for child in (top, *top.children(recursive=True))}
    names = (entry.name for entry in os.scandir(signs))
    registered = {int(match[1]) for name in names if (match := re.search(r"-(\d+)(\.jsonl)?$", name))}
    for number in registered - found.keys():
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(number)
            if process.create_time() >= started - 1:  # else the number belongs to another program by now
                found.update({child.pid: child for child in (process, *process.children(recursive=True))})
    return {number: process for number, process in found.items() if _runs(process)}


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def _kill(process: subprocess.Popen[bytes], signs: Path, started: float) -> None:
    while family := _family(process.pid, signs, started):
        for member in family.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_TICK)
        psutil.wait_procs(list(family.values()), timeout=_TICK)
    process.wait()


def _stacks(root: int, signs: Path, started: float) -> dict[int, str]:
    """Ask every watched process where it is. Their handlers answer also while they wait in compiled code."""
    files = {int(path.name.partition("-")[2]): path for path in signs.glob("stack-*")}
    asked = {number: path for number, path in files.items() if number in _family(root, signs, started)}
    for number in asked:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGUSR2)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and not all(_answered(path) for path in asked.values()):
        time.sleep(_TICK)
    return {number: path.read_text(errors="replace") for number, path in asked.items()}


def _answered(path: Path) -> bool:
    return "most recent call first" in path.read_text(errors="replace")
