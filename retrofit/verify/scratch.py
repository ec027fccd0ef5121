"""A copy of the user's project to train in, so that the project stays as it is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: What is copied: files up to this size, in bytes, and so much altogether. The rest, mostly data, is linked to.
_FILE_LIMIT = 16 * 2**20
_TOTAL_LIMIT = 256 * 2**20
_FILES_LIMIT = 5_000
_PROJECT_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")
_LEFT_OUT = frozenset(
    {".git", ".hg", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", "node_modules", ".tox"}
)


@dataclass(frozen=True)
class Scratch:
    """Where the copy is.

    Attributes:
        original: the root of the user's project.
        project: the root of its copy.
        script: the copy of the entry script.
        cwd: the folder of the copy that stands for the user's working folder.
    """

    original: Path
    project: Path
    script: Path
    cwd: Path


def copy_project(script: Path, folder: Path) -> Scratch:
    """Copy the project of a script.

    The project is the nearest folder above the script that looks like a project's root, else the script's own folder;
    with the working folder, where that is above or below it. Large files and folders full of data are linked to, and
    so is what lies beside the project's root, so that `../data` is there.

    Args:
        script: the entry script.
        folder: an empty folder for the copy.
    """
    script = Path(os.path.realpath(script))
    cwd = Path.cwd()
    root = next((path for path in script.parents if _is_root(path)), script.parent)
    if cwd in root.parents and cwd != Path(cwd.anchor) and cwd != Path.home():
        root = cwd
    copied = folder / root.parent.parent.name / root.parent.name / root.name
    copied.mkdir(parents=True)
    for outer, inner in ((root.parent.parent, copied.parent.parent), (root.parent, copied.parent)):
        for path in _entries(outer):
            if not (inner / path.name).exists() and folder not in (path, *path.parents):
                (inner / path.name).symlink_to(path)
    _copy(root, copied, script)
    below = cwd.is_relative_to(root)
    return Scratch(
        original=root,
        project=copied,
        script=copied / script.relative_to(root),
        cwd=copied / cwd.relative_to(root) if below else copied / script.parent.relative_to(root),
    )


def _is_root(folder: Path) -> bool:
    return folder != Path.home() and any((folder / mark).exists() for mark in _PROJECT_MARKS)


def _copy(root: Path, copied: Path, script: Path) -> None:
    """Copy folder by folder, the shallow ones first, until it is enough; link to the rest."""
    total = files = 0
    waiting = [(root, copied)]
    while waiting:
        source, target = waiting.pop(0)
        for path in _entries(source):
            new = target / path.name
            if path.is_symlink():
                new.symlink_to(path.resolve())
            elif path.is_dir():
                if (path / "pyvenv.cfg").exists() or (path not in script.parents and files >= _FILES_LIMIT):
                    new.symlink_to(path)
                else:
                    new.mkdir()
                    waiting.append((path, new))
            elif path.is_file():
                size = path.stat().st_size
                small = size <= _FILE_LIMIT and total + size <= _TOTAL_LIMIT and files < _FILES_LIMIT
                if small or path.suffix == ".py":
                    shutil.copy2(path, new)
                    total += size
                    files += 1
                else:
                    new.symlink_to(path)


def _entries(folder: Path) -> Iterator[Path]:
    try:
        found = sorted(folder.iterdir())
    except OSError:
        return
    yield from (path for path in found if path.name not in _LEFT_OUT)
