"""Train the demo project, telling how far it is."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: What the launcher says when it starts the initialisation, or a round.
_STARTS = re.compile(r"train_distributed: (?:(Initialising)|(Round \d+): training)")
#: What the demo's scripts print after each epoch.
_EPOCH = re.compile(r"epoch \d+: .*accuracy (\d\.\d+)")
_TAIL = 30


@dataclass
class Stage:
    """The initialisation, or a round of training.

    Attributes:
        name: how it is shown.
        started: when, by the clock.
        seconds: how long it has taken so far.
        accuracies: of its epochs so far, from 0 to 1.
    """

    name: str
    started: float
    seconds: float = 0.0
    accuracies: list[float] = field(default_factory=list)

    @property
    def reached(self) -> str:
        """How far it has come, "" before its first epoch."""
        count = len(self.accuracies)
        return f"{count} epoch{'s'[: count != 1]}, best accuracy {max(self.accuracies):.4f}" if count else ""

    def __str__(self) -> str:
        return f"{self.name:<14}  {self.seconds:5.1f} s  {self.reached}".rstrip()


@dataclass
class Trained:
    """How a training went.

    Attributes:
        status: the exit status; 0 where training is complete.
        stages: the initialisation and the rounds.
        tail: the last lines of what it printed.
    """

    status: int = 0
    stages: list[Stage] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)


def train(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    log: Path,
    told: Callable[[str, str], None],
    ended: Callable[[Stage], None],
    clock: Callable[[], float] = time.monotonic,
) -> Trained:
    """Run the command that trains.

    Args:
        command: the program with its arguments.
        folder: its working folder.
        environment: its whole environment.
        log: the file for all that it prints.
        told: called with the stage that goes on, and how far it is.
        ended: called with each stage that has ended.
        clock: tells the time in seconds.
    """
    trained = Trained()
    with open(log, "w", encoding="utf-8") as copy:
        for line in _lines(command, folder, environment, trained):
            copy.write(line)
            trained.tail = [*trained.tail[1 - _TAIL :], line.rstrip("\n")]
            if start := _STARTS.search(line):
                _end(trained, ended, clock)
                trained.stages.append(Stage("initialisation" if start[1] else start[2].lower(), clock()))
            if trained.stages:
                stage = trained.stages[-1]
                stage.accuracies += map(float, _EPOCH.findall(line))
                told(stage.name, stage.reached)
    _end(trained, ended, clock)
    return trained


def _end(trained: Trained, ended: Callable[[Stage], None], clock: Callable[[], float]) -> None:
    for stage in trained.stages[-1:]:
        stage.seconds = clock() - stage.started
        ended(stage)


def _lines(command: Sequence[str], folder: Path, environment: Mapping[str, str], trained: Trained) -> Iterator[str]:
    """Yield what a program prints, and note its exit status. An interruption is passed on, and waited for."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    assert process.stdout is not None
    try:
        yield from process.stdout
    except BaseException:
        process.send_signal(signal.SIGINT)
        raise
    finally:
        process.stdout.close()
        trained.status = process.wait()
