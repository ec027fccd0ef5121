"""How the tests run, and what those of the command line share: a small DDP script, and a folder to run retrofit in."""

from __future__ import annotations

import gc
import os
import signal
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import libcst
import pytest
from click.testing import CliRunner

from retrofit.cli import main

#: Beyond so many processes their start takes longer than what they save.
MOST_PROCESSES = 8


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Three processes on two CPUs, as some wait for what they started, and none but this one for single tests.

    Trainings wait more than half of their time: for one of their processes, and for what hangs.
    """
    if all("::" in argument for argument in config.args):
        return 0
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    halves = 4 if config.option.markexpr == "real" else 3
    return min(cpus * halves // 2, MOST_PROCESSES) if cpus > 1 else 0


def pytest_configure() -> None:
    """Have a syntax tree named shortly where an assertion fails: to write out a script's takes a quarter of an hour.

    And let what tests start be interrupted, also where a shell has started them in the background, without SIGINT.
    """
    libcst.CSTNode.__repr__ = object.__repr__  # type: ignore[method-assign]
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Let the garbage collector leave out what stays, and look less often: a script's tree is many objects at once."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


SCRIPT = '''\
"""Train."""
import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def validate(model, loader):
    """Return the share of hits."""
    hits = total = 0
    with torch.no_grad():
        for x, y in loader:
            hits += (model(x).argmax(1) == y).sum().item()
            total += len(y)
    return hits / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--epochs', type=int, default=3)
    parser.add_argument('--lr', type=float, default=0.1)
    args = parser.parse_args()
    dist.init_process_group('gloo')
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    model = DistributedDataParallel(model)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    loader = [(torch.randn(8, 4), torch.randint(0, 2, (8,)))]
    best_acc = 0.0
    for epoch in range(args.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        acc = validate(model, loader)
        if acc > best_acc:
            best_acc = acc
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
'''


#: Changes after which apply has a note on the script.
NOTED = (
    ("import argparse\n", "import argparse\nimport sys\n"),
    ("    args = parser", "    if len(sys.argv) == 1:\n        parser.print_help()\n    args = parser"),
)


def swapped(text: str, *pairs: tuple[str, str]) -> str:
    """Replace each first text of a pair, which must be there just once, by the second."""
    for old, new in pairs:
        assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
        text = text.replace(old, new)
    return text


@dataclass(frozen=True)
class Answer:
    """What one run of retrofit said."""

    code: int
    out: str
    err: str
    raw: bytes

    @property
    def lines(self) -> list[str]:
        """The lines on stderr."""
        return self.err.splitlines()


@dataclass(frozen=True)
class Folder:
    """The folder that retrofit is run in."""

    path: Path

    def write(self, name: str, content: str | bytes, mode: int | None = None) -> Path:
        """Write a file, with its folders."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        if mode is not None:
            path.chmod(mode)
        return path

    def run(self, *arguments: str) -> Answer:
        """Run retrofit within this process; an exception that gets out of it fails the test."""
        result = CliRunner().invoke(main, list(arguments))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr, result.stdout_bytes)

    def text(self, name: str) -> str:
        """Return what a file holds."""
        return (self.path / name).read_bytes().decode()

    def mode(self, name: str) -> int:
        """Return a file's permissions."""
        return stat.S_IMODE((self.path / name).stat().st_mode)

    def names(self) -> set[str]:
        """Return the paths of all files, without retrofit's own record."""
        paths = [path.relative_to(self.path) for path in self.path.rglob("*") if path.is_file()]
        return {str(path) for path in paths if ".retrofit" not in path.parts}

    def contents(self) -> dict[str, tuple[int, bytes]]:
        """Return mode and bytes of all files but retrofit's own record."""
        return {name: (self.mode(name), (self.path / name).read_bytes()) for name in self.names()}

    def state(self) -> dict[str, tuple[object, ...]]:
        """Return everything about every file and folder below this one that must not change by itself."""
        found: dict[str, tuple[object, ...]] = {}
        for folder, folders, files in os.walk(self.path):
            for name in [*folders, *files]:
                path = Path(folder, name)
                status = path.lstat()
                content = path.read_bytes() if path.is_file() else None
                changed = None if stat.S_ISDIR(status.st_mode) else status.st_mtime_ns
                found[str(path.relative_to(self.path))] = (status.st_mode, changed, content)
        return found


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return what makes the commands believe that people read them, on a terminal of some width."""

    def widen(columns: int) -> None:
        monkeypatch.setattr("retrofit.console.is_terminal", lambda stream: True)
        for name in ("NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", str(columns))

    return widen


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """An empty folder, which is the working folder."""
    path = tmp_path / "work"
    path.mkdir()
    monkeypatch.chdir(path)
    return Folder(path)
