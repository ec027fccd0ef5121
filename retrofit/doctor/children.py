"""Runs processes together so that none of them, and no file of theirs, outlives the run."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

#: Seconds to wait for a killed process; one that the driver holds cannot be killed, and must not hold us as well.
_LAST_WAIT = 10.0


@dataclass(frozen=True)
class Outcome:
    """How a process ended.

    Attributes:
        status: its exit status, negative for a signal; None where it still ran when all were stopped.
        ended: 0 for the first that ended, 1 for the next; None where it still ran when all were stopped.
        out: what it wrote to stdout.
        err: what it wrote to stderr.
    """

    status: int | None
    ended: int | None
    out: str
    err: str


def run_together(
    command: Sequence[str], environs: Sequence[Mapping[str, str]], timeout: float
) -> tuple[list[Outcome], bool]:
    """Run a command once with each of some environments, at the same time.

    All are killed, with the processes that they started, as soon as one fails, when the time is over, and when this
    process is told to stop; the signal then takes its usual course. ``DOCTOR_FOLDER`` in their environment is a folder
    that they share, and that is removed.

    Args:
        command: the program and its arguments.
        environs: an environment for each process.
        timeout: seconds after which all are killed.

    Returns:
        How each ended, and whether the time was over before.

    Raises:
        OSError: the program cannot be started, or there is no place for temporary files.
    """
    # Everything that happens comes through one queue, signals too: a signal that raised wherever it comes could leave
    # a process behind that was just started.
    events: queue.SimpleQueue[tuple[int, int] | None] = queue.SimpleQueue()
    with (
        _signals_put(events) as caught,
        tempfile.TemporaryDirectory(prefix="retrofit-doctor-", ignore_cleanup_errors=True) as folder,
    ):
        processes: list[subprocess.Popen[bytes]] = []
        statuses: dict[int, int] = {}
        hung = False
        try:
            for number, environ in enumerate(environs):
                if not caught:
                    processes.append(_start(command, {**environ, "DOCTOR_FOLDER": folder}, Path(folder), number))
                    threading.Thread(target=_report, args=(events, number, processes[-1]), daemon=True).start()
            deadline = time.monotonic() + timeout
            while len(statuses) < len(processes) and not caught and not any(statuses.values()):
                left = deadline - time.monotonic()
                # Python 3.10 may wait for ever where it is told to wait for next to no time
                event = events.get(timeout=left) if left > 0.01 else events.get_nowait()
                if event is not None:
                    statuses[event[0]] = event[1]
        except queue.Empty:
            hung = True
        finally:
            for process in processes:
                _kill(process)
            for process in processes:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_LAST_WAIT)
        order = list(statuses)
        outcomes = [
            Outcome(
                statuses.get(number),
                order.index(number) if number in statuses else None,
                _read(Path(folder, f"{number}.out")),
                _read(Path(folder, f"{number}.err")),
            )
            for number in range(len(processes))
        ]
    return outcomes, hung


def _start(command: Sequence[str], environ: Mapping[str, str], folder: Path, number: int) -> subprocess.Popen[bytes]:
    with open(folder / f"{number}.out", "wb") as out, open(folder / f"{number}.err", "wb") as err:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=dict(environ), start_new_session=True
        )


def _report(events: queue.SimpleQueue[tuple[int, int] | None], number: int, process: subprocess.Popen[bytes]) -> None:
    events.put((number, process.wait()))


def _kill(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        # its whole group, also where it has ended itself; macOS does not permit it where nothing is left
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


@contextlib.contextmanager
def _signals_put(events: queue.SimpleQueue[tuple[int, int] | None]) -> Iterator[list[int]]:
    """Note signals that would stop this process, and wake up who waits for events; later they take their course."""
    caught: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        caught.append(number)
        events.put(None)

    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {}
    if threading.current_thread() is threading.main_thread():  # no other may have handlers
        before = {number: signal.getsignal(number) for number in numbers}
        # one that is ignored, as after nohup, stays so; one that C code handles cannot be put back
        before = {number: old for number, old in before.items() if old not in (signal.SIG_IGN, None)}
    try:
        for number in before:
            signal.signal(number, note)
        yield caught
    finally:
        for number, old in before.items():
            signal.signal(number, old)
        if caught:
            signal.raise_signal(caught[0])
            raise SystemExit(128 + caught[0])  # where a handler of someone else's let us go on
