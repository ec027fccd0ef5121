"""Kill commands while they write, and look at what is left; run as a process of its own, as it forks.

    python -m tests.crash apply|undo|fix FOLDER [--unable OPERATION...] [--again N] [--every N] [--random N] [--seed N]
    python -m tests.crash together FOLDER --commands COMMAND COMMAND --times N

For every operation of the command on files, a child is killed just before it, and for each file that it makes also in
the middle of its bytes. Then each file must be old or new, and one further command must bring back all of the one or
of the other, and say which; `--again` kills that one too, at N places chosen at random for each. `--every` takes each
N-th operation only, `--random` kills a child at any moment besides, N times. `together` starts two commands at
the same time.

What is wrong is printed as JSON, with how often which outcome was seen.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner

import retrofit.write.record
from retrofit.cli import main
from retrofit.write.record import recover_around
from tests.conftest import SCRIPT
from tests.faults import around, no_flushes, unable
from tests.test_check import BAD

State = dict[str, tuple[int, bytes]]


@dataclass
class Trial:
    """A command that is killed again and again, in a folder that is put back each time.

    Attributes:
        script: the script that it is for.
        run: does what the command does, up to where it is killed.
    """

    folder: Path
    script: Path
    run: Callable[[], object]
    old: State = field(default_factory=dict)
    new: State = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    def state(self) -> State:
        """Return mode and bytes of all files but retrofit's own."""
        return {
            str(path.relative_to(self.folder)): (path.stat().st_mode, path.read_bytes())
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and ".retrofit" not in path.parts
        }

    def begin(self) -> None:
        """Keep how it is before the command, and find out how it is afterwards."""
        self.kept = self.folder.with_name("kept")
        shutil.copytree(self.folder, self.kept)
        self.old = self.state()
        self.in_child(self.run)
        self.new = self.state()
        if self.old == self.new:
            self.wrong.append("the command changes nothing")
        self.put_back()

    def put_back(self) -> None:
        """Let the folder be as it was before the command; its journal's folder stays the same one."""
        for path in sorted(self.folder.rglob("*"), reverse=True):
            if path.is_dir():
                path.rmdir() if path.name != ".retrofit" or not (self.kept / ".retrofit").exists() else None
            else:
                path.unlink()
        shutil.copytree(self.kept, self.folder, dirs_exist_ok=True)

    def in_child(self, work: Callable[[], object]) -> int:
        """Do something in a child, and return the signal that ended it."""
        child = os.fork()
        if child == 0:
            code = 1
            try:
                work()
                code = 0
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def killed_at(self, number: int, torn: bool, work: Callable[[], object]) -> bool:
        """Kill a child at one operation, and return whether it came so far."""

        def wrap(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
            def count(*arguments: Any) -> Any:
                nonlocal number
                number -= 1
                if number < 0:
                    if torn and name == "create":
                        path, data, mode = arguments
                        operation(path, data[: len(data) // 2], mode)
                    if not torn or name == "create":
                        os.kill(os.getpid(), signal.SIGKILL)
                return operation(*arguments)

            return count

        def doomed() -> None:
            with around(wrap):
                work()

        code = self.in_child(doomed)
        if code not in (0, -signal.SIGKILL):
            self.wrong.append(f"operation {number}: ended with {code}")
        return code != 0

    def check(self, where: str) -> None:
        """Look at what a kill has left, and at what one further command makes of it."""
        state = self.state()
        for name in {*state, *self.old, *self.new}:
            if state.get(name) not in (self.old.get(name), self.new.get(name)):
                self.wrong.append(f"{where}: {name} is neither old nor new")
        try:
            said = " ".join(map(str, recover_around(self.script)))
        except Exception as error:
            self.wrong.append(f"{where}: {type(error).__name__}: {error}")
            return
        state = self.state()
        outcome = "old" if state == self.old else "new" if state == self.new else "mixed"
        if outcome == "mixed" or {"old": "finished", "new": "taken back"}[outcome] in said:
            self.wrong.append(f"{where}: all is {outcome}, and {said!r}")
        self.seen[f"{outcome}, {'told' if said else 'silent'}"] += 1
        left = {path.name for path in (self.folder / ".retrofit").glob("*")} - {".gitignore", "lock"}
        if any(not name[:4].isdigit() for name in left):
            self.wrong.append(f"{where}: {left} is left")


def every_operation(trial: Trial, again: int, dice: random.Random, step: int) -> None:
    """Kill the command at every operation, or every ``step``-th, and what comes after it too, ``again`` times each."""
    for torn in (False, True):
        number = dice.randrange(step)
        while trial.killed_at(number, torn, trial.run):
            trial.check(f"killed {'within' if torn else 'before'} operation {number}")
            for _ in range(again):
                trial.put_back()
                trial.killed_at(number, torn, trial.run)
                second = dice.randrange(30)
                trial.killed_at(second, dice.random() < 0.3, lambda: recover_around(trial.script))
                trial.check(f"killed at operation {number}, and then at {second}")
            trial.put_back()
            number += step
        trial.seen["torn" if torn else "operations"] = number
        trial.put_back()


def any_moment(trial: Trial, times: int, dice: random.Random) -> None:
    """Kill the command at moments chosen at random."""
    begun = time.monotonic()
    trial.in_child(trial.run)
    lasts = time.monotonic() - begun
    trial.put_back()
    for number in range(times):
        child = os.fork()
        if child == 0:
            try:
                trial.run()
            finally:
                os._exit(0)
        time.sleep(dice.random() * lasts * 1.2)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        trial.check(f"random kill {number}")
        trial.put_back()


def together(trial: Trial, commands: list[str], times: int) -> None:
    """Start two commands at once, and look at what comes of them; then undo must bring the originals back."""
    options = {"apply": ["apply", "--nproc-per-node", "4", "train.py"], "undo": ["undo", "train.py"]}
    originals, names = (trial.old, trial.new) if commands == ["apply", "apply"] else (trial.new, trial.old)
    for number in range(times):
        reading, writing = os.pipe()
        children = [_waiting(trial, options[command], reading, writing) for command in commands]
        os.close(reading)
        os.close(writing)  # which lets them go
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        for said in trial.folder.parent.glob("said-*"):
            trial.wrong.append(f"{number}: {said.read_text()}")
            said.unlink()
        if 0 not in codes:
            trial.wrong.append(f"{number}: ended with {codes}")
        trial.seen[" ".join(map(str, sorted(codes)))] += 1
        state = trial.state()
        if state != originals:
            if state.keys() != names.keys():
                trial.wrong.append(f"{number}: half of the files are there: {sorted(state)}")
            CliRunner().invoke(main, ["undo", "train.py"])
        if trial.state() != originals:
            trial.wrong.append(f"{number}: undo does not bring the originals back")
        trial.put_back()


def _waiting(trial: Trial, command: list[str], reading: int, writing: int) -> int:
    """Start a child that waits until the pipe is closed, and then runs a command."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(writing)
            os.read(reading, 1)
            result = CliRunner().invoke(main, command)
            code = result.exit_code
            if code not in (0, 2) or (code == 2 and not re.search("RF0(11|31|33) ", result.stderr)):
                trial.folder.with_name(f"said-{os.getpid()}").write_text(f"{command} {code}: {result.output}")
        finally:
            os._exit(code)
    return child


def trial_of(command: str, folder: Path) -> Trial:
    """Return the trial of a command in a new folder."""
    folder.mkdir(parents=True)
    os.chdir(folder)
    script = folder / "train.py"
    runner = CliRunner()
    if command == "fix":
        for name in ("train.py", "other.py", "third.py"):
            (folder / name).write_text(BAD)
        return Trial(folder, script, _writing(["check", "--fix", "--jobs", "1", "."]))
    script.write_text(SCRIPT)
    script.chmod(0o750)
    if command == "apply":
        return Trial(folder, script, _writing(["apply", "train.py"]))
    for options in ([], ["--nproc-per-node", "3"]):
        assert runner.invoke(main, ["apply", "train.py", *options]).exit_code == 0
    return Trial(folder, script, lambda: runner.invoke(main, ["undo", "train.py"]))


def _writing(arguments: list[str]) -> Callable[[], object]:
    """Return what writes what a command has worked out, so that it is worked out only once."""
    write = retrofit.write.record.write_files
    written: list[tuple[Any, ...]] = []
    retrofit.write.record.write_files = lambda *given: written.append(given)
    try:
        result = CliRunner().invoke(main, arguments)
    finally:
        retrofit.write.record.write_files = write
    assert len(written) == 1, result.output
    return lambda: write(*written[0])


def run(words: list[str]) -> int:
    """Run the trials that the command line asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["apply", "undo", "fix", "together"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--unable", nargs="*", default=[])
    parser.add_argument("--again", type=int, default=0)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commands", nargs=2)
    parser.add_argument("--times", type=int, default=0)
    chosen = parser.parse_args(words)
    dice = random.Random(chosen.seed)
    kind = chosen.command
    if kind == "together":
        kind = "apply" if chosen.commands == ["apply", "apply"] else "undo"
    trial = trial_of(kind, chosen.folder)
    with around(no_flushes), around(unable(*chosen.unable)):
        trial.begin()
        if chosen.command == "together":
            together(trial, chosen.commands, chosen.times)
        else:
            every_operation(trial, chosen.again, dice, chosen.every)
            any_moment(trial, chosen.random, dice)
    print(json.dumps({"wrong": trial.wrong, "seen": trial.seen}))
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
