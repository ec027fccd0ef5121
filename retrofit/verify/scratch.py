"""A copy of the user's project to train in, so that the project stays as it is."""

from __future__ import annotations

import collections
import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from retrofit.project import above_package
from retrofit.root import holds_more, project_root

#: What is copied: files up to this size, in bytes, and so much altogether. The rest, mostly data, is linked to.
_FILE_LIMIT = 16 * 2**20
_TOTAL_LIMIT = 256 * 2**20
_FILES_LIMIT = 5_000
_LEFT_OUT = frozenset(
    {".git", ".hg", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", "node_modules", ".tox"}
)


@dataclass(frozen=True)
class Scratch:
    """Where the copy is.

    Attributes:
        folder: the copy, with what lies beside the project.
        original: the root of the user's project.
        project: the root of its copy.
        script: the copy of the entry script.
        cwd: the folder of the copy that stands for the user's working folder.
        module: the script's full name, where it is started as a module; else "".
    """

    folder: Path
    original: Path
    project: Path
    script: Path
    cwd: Path
    module: str = ""

    @property
    def program(self) -> list[str]:
        """What `python` is given to start the script."""
        return ["-m", self.module] if self.module else [str(self.script)]

    @property
    def imports(self) -> str:
        """Where Python must be told to look for the script's package, "" for a script that is started by its path."""
        return str(above_package(self.script, self.module)) if self.module else ""

    def copy_of(self, path: Path) -> Path | None:
        """Return the copy of a file of the project, None where it was not copied but linked to, or lies elsewhere.

        Args:
            path: the file's real path; the file itself need not exist.
        """
        if not path.is_relative_to(self.original):
            return None
        copy = self.project / path.relative_to(self.original)
        return copy if Path(os.path.realpath(copy.parent)).is_relative_to(os.path.realpath(self.project)) else None


def copy_project(script: Path, folder: Path, module: str = "") -> Scratch:
    """Copy the project of a script.

    The project is the nearest folder above the script that looks like a project's root, else the script's own folder;
    with the working folder, where that is above or below it. Large files and folders full of data are linked to, and
    so is what lies beside the project's root, so that `../data` is there.

    Args:
        script: the entry script.
        folder: an empty folder for the copy.
        module: the script's full name, where it is started as a module.
    """
    script = Path(os.path.realpath(script))
    cwd = Path.cwd()
    above = above_package(script, module)
    root = project_root(script) or above
    root = above if above in root.parents else root
    if cwd in root.parents and not holds_more(cwd):
        root = cwd
    outer = (root.parent.parent, root.parent)  # each may be the root of the file system, which has no name
    copied = folder.joinpath(*(path.name or "root" for path in (*outer, root)))
    copied.mkdir(parents=True)
    for source, target in zip(outer, (copied.parent.parent, copied.parent), strict=True):
        for entry in _entries(source) if source != root else ():
            # Not what is being written there.
            if not os.path.lexists(target / entry.name) and Path(entry.path) not in (folder, *folder.parents):
                (target / entry.name).symlink_to(entry.path)
    _copy(root, copied, script, folder)
    below = cwd.is_relative_to(root)
    return Scratch(
        folder=folder,
        original=root,
        project=copied,
        script=copied / script.relative_to(root),
        cwd=copied / cwd.relative_to(root) if below else copied / above.relative_to(root),
        module=module,
    )


def _copy(root: Path, copied: Path, script: Path, folder: Path) -> None:
    """Copy folder by folder, the shallow ones first, until it is enough; link to the rest."""
    total = files = 0
    waiting = collections.deque([(root, copied)])
    while waiting:
        source, target = waiting.popleft()
        if source != root:
            linked = holds_more(root) or files >= _FILES_LIMIT or (source / "pyvenv.cfg").exists()
            if linked and source not in script.parents:
                target.symlink_to(source)
                continue
            target.mkdir()
        for entry in _entries(source):
            path, new = Path(entry.path), target / entry.name
            if path == folder:  # temporary files may lie in the project
                continue
            with contextlib.suppress(FileNotFoundError):  # it was removed meanwhile
                if entry.is_symlink():
                    new.symlink_to(_link(path, root, copied))
                elif entry.is_dir():
                    waiting.append((path, new))
                elif entry.is_file():
                    size = entry.stat().st_size
                    small = size <= _FILE_LIMIT and total + size <= _TOTAL_LIMIT and files < _FILES_LIMIT
                    if small or path.suffix == ".py":
                        _copy_file(path, new)
                        total += size
                        files += 1
                    else:
                        new.symlink_to(path)


def _copy_file(path: Path, new: Path) -> None:
    try:
        shutil.copy2(path, new)
    except PermissionError:  # whoever reads it shall be told so
        new.unlink(missing_ok=True)
        new.symlink_to(path)


def _link(path: Path, root: Path, copied: Path) -> str:
    """Where the copy of a link leads: into the copy as the original into the project, else to the same place."""
    target = os.path.normpath(os.path.join(os.path.realpath(path.parent), os.readlink(path)))
    return str(copied / os.path.relpath(target, root)) if Path(target).is_relative_to(root) else target


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        found = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    yield from (entry for entry in found if entry.name not in _LEFT_OUT)
