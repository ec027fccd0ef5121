"""Files as a command would leave them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class NewFile:
    """A file that an apply writes.

    Attributes:
        path: where.
        before: its bytes now, None where it does not exist.
        after: its bytes then.
        executable: whether it may be run.
    """

    path: Path
    before: bytes | None
    after: bytes
    executable: bool = False


def final_files(written: Iterable[Sequence[NewFile]]) -> list[NewFile]:
    """Return what is to be written in one go, where several plans write, as the last of them leaves it."""
    found: dict[Path, NewFile] = {}
    for file in (file for files in written for file in files):
        first = found.get(file.path)
        found[file.path] = file if first is None else replace(file, before=first.before)
    return list(found.values())
