"""What is left on a disk when the power fails: what was flushed, and of the rest nobody knows what.

A `Disk` notes what retrofit writes, as facts: that a name stands for a file, a folder or nothing, and that a file has
some bytes. A fact about a name is certain when its folder was flushed since, one about bytes when the file was. Any of
the others may be lost, whatever came after it. Not even what one operation does in two folders keeps together.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests.faults import CHANGING, Operation, around

_FOLDER = -1


class Disk:
    """A folder, what was done to it since, and what of that is certain.

    Args:
        folder: the folder as it is, of which all is certain.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: dict[Path, int] = {}
        self._bytes: list[tuple[bytes, int]] = []
        self._flushed: set[int] = set()
        for path in sorted(folder.rglob("*")):
            if path.is_dir():
                self._names[path] = _FOLDER
            else:
                self._create(path, path.read_bytes(), path.stat().st_mode & 0o777)
                self._flushed.add(self._names[path])
        self._certain = dict(self._names)
        self._loose: list[dict[Path, int | None]] = []  # what an operation did in one folder
        self._seen: set[frozenset[object]] = set()

    def noting(self) -> AbstractContextManager[None]:
        """Note every operation that changes something, once it is done."""

        def wrap(name: str, operation: Operation) -> Operation:
            def note(*arguments: Any) -> None:
                operation(*arguments)
                paths = [argument for argument in arguments if isinstance(argument, Path)]
                self._note(name, *paths, *(arguments[1:] if name == "create" else ()))

            return note

        return around(wrap, CHANGING)

    def _create(self, path: Path, data: bytes, mode: int) -> None:
        self._names[path] = len(self._bytes)
        self._bytes.append((data, mode))

    def _note(self, name: str, path: Path, *rest: Any) -> None:
        names, other = self._names, rest[0] if rest and isinstance(rest[0], Path) else path
        if name == "flush":
            self._flushed.add(names[path])
        elif name == "flush_folder":
            elsewhere = {p: n for p, n in self._certain.items() if p.parent != path}
            self._certain = elsewhere | {p: n for p, n in names.items() if p.parent == path}
            self._loose = [names for names in self._loose if next(iter(names)).parent != path]
        else:
            if name == "create":
                self._create(path, *rest)
            elif name == "make_folder":
                names[path] = _FOLDER
            elif name in ("unlink", "remove_folder"):
                del names[path]
            elif name == "link":
                names[other] = names[path]
            elif name == "exchange":
                names[path], names[other] = names[other], names[path]
            elif name in ("rename", "rename_to_free"):
                names[other] = names.pop(path)
            for folder in {path.parent, other.parent}:
                self._loose.append({one: names.get(one) for one in (path, other) if one.parent == folder})

    def after_power_loss(self, folder: Path, dice: random.Random, more: int) -> Iterator[Path]:
        """Yield folders, each with what may be left of this one if the power fails now.

        Of all that is not certain, all is lost, or nothing, or each fact alone, or all but each, and ``more`` choices
        at random; with each, files that were not flushed are empty, or end in the middle.

        What was yielded before is passed over.

        Args:
            folder: where to make them, one after the other.
        """
        everything = set(range(len(self._loose)))
        choices = [set(), everything, *({n} for n in everything), *(everything - {n} for n in everything)]
        choices += [{n for n in everything if dice.random() < 0.5} for _ in range(more)]
        for number, lost in enumerate(choices):
            for share in (0.0, 0.5):
                left = self._left(lost, share)
                key = frozenset(left.items())
                if key not in self._seen:
                    self._seen.add(key)
                    here = folder / f"{number}-{share}"
                    _make(here, left)
                    yield here

    def _left(self, lost: set[int], share: float) -> dict[Path, tuple[bytes, int] | None]:
        """Return the files that are left, None for a folder, by their paths from here."""
        names: dict[Path, int | None] = dict(self._certain)
        for number, changed in enumerate(self._loose):
            names.update(changed if number not in lost else {})
        left: dict[Path, tuple[bytes, int] | None] = {}
        for path, what in sorted(names.items()):
            if what is None or (
                path.parent != self._folder and left.get(path.parent.relative_to(self._folder), 0) is not None
            ):
                continue  # it is gone, or its folder is
            data, mode = self._bytes[what] if what != _FOLDER else (b"", 0)
            whole = what in self._flushed
            part = data if whole else data[: int(len(data) * share)]
            left[path.relative_to(self._folder)] = None if what == _FOLDER else (part, mode)
        return left


def _make(folder: Path, left: dict[Path, tuple[bytes, int] | None]) -> None:
    folder.mkdir(parents=True)
    for path, content in left.items():
        if content is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(content[0])
            (folder / path).chmod(content[1])
