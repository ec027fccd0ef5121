"""Run a script through initialisation and every restart, in a copy of its project, and record what was seen."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import retrofit
from retrofit.launch import own_environment
from retrofit.verify import processes
from retrofit.verify.judge import Training
from retrofit.verify.record import Event, Round, cut_rounds, read_events
from retrofit.verify.scratch import HELPER, Scratch

_PACKAGE = Path(retrofit.__file__).parent
_ROUND_LIMIT_STATUS = 75  # of train_distributed.sh, which runs one round when MAX_ROUNDS=1
#: Where the output goes on with what torchrun has to say of a worker that failed.
_TORCHRUN = re.compile(r"^.*torch/distributed/elastic/multiprocessing/api\.py.*$", re.MULTILINE)
#: A line of faulthandler: File "x.py", line 3 in function
_FRAME = re.compile(r'File "(.+)", line (\d+) in (.+)')


@dataclass(frozen=True)
class Limits:
    """How a script is run.

    Attributes:
        gpus: the number of GPUs, and of processes for DistributedDataParallel.
        simulate: whether the GPUs are simulated.
        max_batches: after how many batches each data loader ends.
        max_rounds: after how many rounds to give up.
        timeout: after how many seconds without a sign of life a round counts as hanging.
    """

    gpus: int
    simulate: bool
    max_batches: int
    max_rounds: int
    timeout: float


class Trial:
    """The runs of one script in the copy of its project.

    Args:
        python: the Python that trains.
        arguments: the script's own arguments.
        limits: how it is run.
        scratch: the copy.
        folder: where records, logs and temporary files go.
        told: called with every round that has ended, the initialisation first.
        check: called several times a second; what it raises ends everything.
    """

    def __init__(
        self,
        python: str,
        arguments: tuple[str, ...],
        limits: Limits,
        scratch: Scratch,
        folder: Path,
        told: Callable[[Round], None],
        check: Callable[[], None],
    ) -> None:
        self._python = python
        self._arguments = arguments
        self._limits = limits
        self._scratch = scratch
        self._told = told
        self._check = check
        self._events = folder / "events"
        self._temporary = folder / "tmp"
        for made in (self._events, self._temporary):
            made.mkdir()
        for path in scratch.cwd.iterdir():  # what an earlier training has left
            if (path / "array_dims.csv").exists() or (path / ".training_complete").exists():
                path.unlink() if path.is_symlink() else shutil.rmtree(path)

    def train_in_rounds(self, kind: str, launcher: Path) -> Training:
        """Run the launcher, a round at a time: the first time it initialises too.

        Args:
            kind: "ddp" or "dp".
            launcher: the copy of train_distributed.sh.
        """
        settings = {
            "PYTHON": self._python,
            "NUM_GPUS": str(self._limits.gpus),
            "REHEARSE": "0",  # it is one
            "MAX_ROUNDS": "1",
            "STOP_SECONDS": "5",
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),  # the processes share the cores
        }
        initial, rounds = Round("initialisation"), list[Round]()
        while len(rounds) < self._limits.max_rounds and (not rounds or rounds[-1].ended == "restructured"):
            stage = f"round{len(rounds) + 1}"
            one = Round(f"round {len(rounds) + 1}", loaded=self._newest_switch())
            tick = self._tell_when_initialised(initial) if not rounds else _nothing
            ended = self._run(stage, ["bash", str(launcher), *self._arguments], settings, tick)
            initialising, one.ranks = read_events(self._events, stage)
            if not rounds:
                initial.ranks = initialising
                if not self._initialised(initial, ended):
                    return self._training(kind, initial, rounds)
                ended.seconds -= initial.seconds
            self._end(one, ended)
            if ended.status == _ROUND_LIMIT_STATUS and self._newest_switch() != one.loaded:
                one.ended, one.switch = "restructured", self._newest_switch()
            rounds.append(one)
            self._told(one)
        return self._training(kind, initial, rounds)

    def train_in_process(self) -> Training:
        """Run the two commands of a DataParallel script whose process goes on after a restructuring."""
        command = [self._python, *self._scratch.program, *self._arguments]
        initial, rounds = Round("initialisation"), list[Round]()
        ended = self._run("initialisation", [*command, "--perforate_model_parallel"], {}, _nothing)
        initial.ranks, _ = read_events(self._events, "initialisation")
        if not self._initialised(initial, ended):
            return self._training("dp", initial, rounds)
        ended = self._run("round1", command, {}, _nothing)
        pieces = cut_rounds(read_events(self._events, "round1")[1]) or [{}]
        for number, ranks in enumerate(pieces, start=1):
            one = Round(f"round {number}", ranks=ranks, loaded=rounds[-1].switch if rounds else "")
            if number < len(pieces):
                one.ended, one.switch = "restructured", f"switch_{2 * number}"
            else:
                self._end(one, ended)
            one.seconds = _seconds(ranks)
            rounds.append(one)
            self._told(one)
        return self._training("dp", initial, rounds)

    def run_unchanged(self, before: Mapping[Path, bytes], spawns: bool, workers: int, steps: int) -> tuple[Round, str]:
        """Run the script as it was, up to some step of an optimizer.

        Args:
            before: all files that were rewritten, by their paths in the project, as they were.
            spawns: whether it starts its processes itself.
            workers: how many processes to start otherwise.
            steps: the step at which it may leave.

        Returns:
            What was seen, and "" if it came so far or to its end, else the last line of its output.
        """
        for path, text in before.items():
            if (copy := self._scratch.copy_of(path)) is not None:
                copy.write_bytes(text)
        launch = [] if spawns else ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={workers}"]
        command = [self._python, *launch, *self._scratch.program, *self._arguments]
        ended = self._run("unchanged", command, {}, _nothing, stop_after_steps=steps)
        one = Round("the script as it was")
        _, one.ranks = read_events(self._events, "unchanged")
        self._end(one, ended)
        if one.all("runs") or (one.steps and not ended.status):
            return one, ""
        own = _TORCHRUN.split(ended.output)[0].strip().splitlines()
        return one, (own or [f"it left with status {ended.status}"])[-1]

    @property
    def impossible(self) -> str:
        """What the script asks of a rehearsal that is not to be had in one, "" where it asks nothing such."""
        path = self._events.parent / "cause"
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
        return next((line for line in lines if "The rehearsal " in line), "")

    def _training(self, kind: str, initial: Round, rounds: list[Round]) -> Training:
        return Training(kind, initial, rounds, self._complete(), self._limits.max_rounds)

    def _initialised(self, initial: Round, ended: processes.Ended) -> bool:
        """Whether the initialisation did its work, so that training could follow."""
        told = initial.ended == "initialised"
        if self._has_shapes():
            initial.ended, initial.seconds = "initialised", initial.seconds or ended.seconds
        else:
            self._end(initial, ended)
        if not told:
            self._told(initial)
        return initial.ended == "initialised"

    def _end(self, one: Round, ended: processes.Ended) -> None:
        one.status, one.seconds, one.output = ended.status, ended.seconds, ended.output
        if ended.stacks:
            one.stacks = _stacks(one, ended.stacks, self._scratch.project)
        one.ended = "hung" if ended.stacks else "complete" if self._complete() else "failed"

    def _tell_when_initialised(self, initial: Round) -> Callable[[], None]:
        begun = time.monotonic()

        def tick() -> None:
            if not initial.ended and self._has_shapes():
                initial.ended, initial.seconds = "initialised", time.monotonic() - begun
                self._told(initial)

        return tick

    def _run(
        self,
        stage: str,
        command: list[str],
        settings: Mapping[str, str],
        tick: Callable[[], None],
        stop_after_steps: int = 0,
    ) -> processes.Ended:
        def watch() -> None:
            self._check()
            tick()

        gpus = self._limits.gpus if self._limits.simulate else 0
        path = self._events / "settings.json"
        watching = {
            "events": str(self._events),
            "helper": str(HELPER),
            "project": str(self._scratch.project),
            "simulate": gpus,
            "simulator": str(_PACKAGE / "simulator"),
            "plain_scores": 2 if stage == "round1" else 0,  # so that what all ranks do then is seen too
            "stop_after_steps": stop_after_steps,
        }
        path.write_text(json.dumps(watching), encoding="utf-8")
        startup = str(_PACKAGE / "verify" / "inside" / "startup")
        environment = {
            **own_environment(),
            "MPLBACKEND": "agg",
            "PAI_TESTING_DENDRITE_CAPACITY": "1",
            "PAI_MIRROR": "enter",
            "PAI_REHEARSAL_BATCHES": str(self._limits.max_batches),
            "PYTHONDONTWRITEBYTECODE": "1",  # the copy links to folders of the original
            "PYTHONPATH": os.pathsep.join(filter(None, [startup, self._scratch.imports, os.environ.get("PYTHONPATH")])),
            "PYTHONUNBUFFERED": "1",
            "RETROFIT_VERIFY": str(path),
            "RETROFIT_VERIFY_STAGE": stage,
            "TMPDIR": str(self._temporary),
            **settings,
        }
        if gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(str(gpu) for gpu in range(gpus))
        log = self._events.parent / f"{stage}.log"
        command = [self._python, "-IS", str(HELPER / "mirror.py"), str(self._events.parent), "--", *command]
        return processes.run(command, self._scratch.cwd, environment, self._events, log, self._limits.timeout, watch)

    def _newest_switch(self) -> str:
        numbers = [int(path.stem.partition("_")[2]) for path in self._scratch.cwd.glob("*/switch_[0-9]*.pt")]
        return f"switch_{max(numbers)}" if numbers else ""

    def _has_shapes(self) -> bool:
        return any(self._scratch.cwd.glob("*/array_dims.csv"))

    def _complete(self) -> bool:
        return any(self._scratch.cwd.glob("*/.training_complete"))


def _nothing() -> None:
    pass


def _seconds(ranks: dict[int, list[Event]]) -> float:
    times = [event["time"] for events in ranks.values() for event in events]
    return max(times) - min(times) if times else 0.0


def _stacks(one: Round, stacks: dict[int, str], project: Path) -> dict[str, list[str]]:
    """Where each rank is: the call that it waits in, then the project's own calls, the innermost first."""
    root = os.path.realpath(project) + os.sep
    names = {event["process"]: f"rank {rank}" for rank, events in one.ranks.items() if rank >= 0 for event in events}
    shown = {}
    for process, text in stacks.items():
        # Of all threads the main one is printed last.
        lines = text.rpartition("most recent call first")[2].splitlines()
        calls = [match.groups() for line in lines if (match := _FRAME.fullmatch(line.strip()))]
        own = [
            f"{function} ({os.path.realpath(path).removeprefix(root)}:{line})"
            for path, line, function in calls
            if os.path.realpath(path).startswith(root)
        ]
        if own:
            waiting = [] if os.path.realpath(calls[0][0]).startswith(root) else [calls[0][2]]
            shown[names.get(process, f"process {process}")] = waiting + own
    return dict(sorted(shown.items(), key=lambda item: (not item[0].startswith("rank"), item[0])))
