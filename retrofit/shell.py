"""Read what somebody's launch script does: whether it starts a training round after round, and what else."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

#: What starts the processes as a module.
_MODULES = ("torch.distributed.run", "torch.distributed.launch")  # retrofit: ignore[DDP306]
#: What changes nothing but what is shown, or the way through the script.
_HARMLESS = frozenset(
    {
        "echo", "printf", "sleep", "exit", "break", "continue", "true", "false", ":", "test", "[", "[[", "ls", "tail",
        "head", "sort", "wc", "grep", "basename", "dirname", "set", "date", "pwd",
    }
)  # fmt: skip
_KEYWORDS = frozenset(
    {"if", "then", "elif", "else", "fi", "while", "until", "for", "do", "done", "!", "{", "}", "time"}
)
_BETWEEN = re.compile(r"[;&|()]+")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_PROCESSES = re.compile(r"--nproc[-_]per[-_]node(?:=(.*))?")
_PYTHON = re.compile(r"python[\d.]*")
_DEVICES = "CUDA_VISIBLE_DEVICES"


@dataclass
class Started:
    """What a launch script does besides starting a training round after round.

    Attributes:
        processes: on one machine, as it is written; "" where nothing says so.
        gpus: the value of CUDA_VISIBLE_DEVICES that it sets, "" for none.
        others: (line, code) of what it does besides.
        endless: the line of the start in a `while` or `until`, 0 where the rounds are counted.
    """

    processes: str = ""
    gpus: str = ""
    others: list[tuple[int, str]] = field(default_factory=list)
    endless: int = 0


def read_launcher(text: str, script: str, flags: Sequence[str], valued: Sequence[str]) -> Started | None:
    """Return what a shell script does that starts a training in a loop, None for any other.

    Args:
        text: the shell script.
        script: the training script's file name.
        flags: the options with which such a loop starts it, and
        valued: those that are followed by a value.
    """
    reader = _Reader(script, flags, valued)
    for number, words in _commands(text):
        reader.read(number, words)
    return reader.found if reader.repeats and reader.tells else None


def _commands(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the commands of a shell script with their lines; one that cannot be taken apart as one word."""
    lines = iter(enumerate(text.split("\n"), start=1))
    for number, line in lines:
        while line.endswith("\\"):
            line = line[:-1] + next(lines, (0, ""))[1]
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|()<>")
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:
            yield number, [line.strip()]
            continue
        command: list[str] = []
        for word in words:
            if _BETWEEN.fullmatch(word):
                yield number, command
                command = []
            else:
                command.append(word)
        yield number, command


class _Reader:
    """Goes through the commands of a shell script."""

    def __init__(self, script: str, flags: Sequence[str], valued: Sequence[str]) -> None:
        self.script = script
        self.flags = {f"--{name}" for name in flags}
        self.valued = {f"--{name}" for name in valued}
        self.found = Started()
        self.repeats = self.tells = False
        self._known: dict[str, str] = {}
        self._loops: list[str] = []

    def read(self, number: int, words: list[str]) -> None:
        """Note what a command does."""
        while words and words[0] in _KEYWORDS:
            if words[0] in ("while", "until", "for"):
                self._loops.append(words[0])
            elif words[0] == "done":
                self._loops = self._loops[:-1]
            words = [] if words[0] == "for" else words[1:]
        words = [self._filled(word) for word in words]
        given: dict[str, str] = {}
        while words and (match := _ASSIGNED.fullmatch(words[0])):
            given[match[1]] = match[2]
            words = words[1:]
        if words[:1] == ["export"]:
            exported = {match[1]: match[2] for word in words[1:] if (match := _ASSIGNED.fullmatch(word))}
            self._set(number, exported if len(exported) == len(words) - 1 else {"": ""}, words)
        elif not words:
            self._known.update(given)
        elif self.script in map(_name, words):
            self._set(number, given if self._loops else {}, words)
            self._start(number, words)
        elif given or words[0] not in _HARMLESS:
            self._more(number, words)

    def _filled(self, word: str) -> str:
        return _VARIABLE.sub(lambda match: self._known.get(match[1] or match[2], match[0]), word)

    def _set(self, number: int, given: dict[str, str], words: list[str]) -> None:
        """Note what is set in the environment."""
        for name, value in given.items():
            if name == _DEVICES and re.fullmatch(r"[\d,]+", value):
                self.found.gpus = value
            else:
                self._more(number, words)

    def _start(self, number: int, words: list[str]) -> None:
        """Note how the training is started."""
        place = [_name(word) for word in words].index(self.script)
        before, after = iter(words[:place]), iter(words[place + 1 :])
        program = _name(next(before, ""))
        known = program == "torchrun" or _PYTHON.fullmatch(program) is not None
        for word in before:
            processes = _PROCESSES.fullmatch(word)
            if processes is not None:
                self.found.processes = processes[1] if processes[1] is not None else next(before, "")
                known &= self.found.processes == "gpu" or self.found.processes.isdecimal()
            elif word == "-m":
                known &= next(before, "") in _MODULES
            else:
                known &= word in ("--standalone", "--nnodes=1", "-u")
        for word in after:
            name, _, value = word.partition("=")
            self.tells |= name in self.flags | self.valued
            if name in self.valued and not value:
                next(after, None)
            elif name not in self.flags | self.valued and word != "$@":
                known = False
        self.repeats |= bool(self._loops)
        if {*self._loops} - {"for"}:
            self.found.endless = number
        if not known:
            self._more(number, words)

    def _more(self, number: int, words: list[str]) -> None:
        self.found.others.append((number, " ".join(words)))


def _name(word: str) -> str:
    return PurePosixPath(word).name
