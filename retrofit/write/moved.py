"""Find where a file has gone that was renamed since, by what it holds."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path

from retrofit.check.files import EXCLUDED
from retrofit.reading import files_below
from retrofit.write.files import DISK, Content

#: More files than these are not looked through.
_MOST = 5_000
#: The share of common lines from which on a file counts as another one renamed; git's own.
_ALIKE = 0.5


def find_moved(root: Path, path: str, content: Content, known: Collection[str]) -> str | None:
    """Return the path of the file that a file has become, None where there is none.

    Args:
        root: the project's root.
        path: the file's path from there, which is free now.
        content: what the file held.
        known: the paths of files that are on record as something else.
    """
    found: tuple[float, str] = (0.0, "")
    for other in _files(root, Path(path).suffix):
        if other not in known:
            share = likeness(root / other, content.data)
            if share > found[0]:
                found = (share, other)
    return found[1] if found[0] >= _ALIKE else None


def likeness(path: Path, data: bytes) -> float:
    """Return the share of lines that a file has in common with some bytes."""
    try:
        if not len(data) / 4 <= path.lstat().st_size <= len(data) * 4:
            return 0.0
        content = DISK.read(path)
    except OSError:
        return 0.0
    if content is None:
        return 0.0
    if content.data == data:
        return 1.0
    one, other = Counter(content.data.splitlines()), Counter(data.splitlines())
    return min(0.99, 2 * (one & other).total() / max(1, one.total() + other.total()))


def alike(share: float) -> bool:
    """Whether a share of common lines makes a file another one renamed."""
    return share >= _ALIKE


def _files(root: Path, suffix: str) -> Iterator[str]:
    """Yield the project's files of a kind, by their paths from its root."""

    def own(folder: os.DirEntry[str]) -> bool:
        return folder.name not in EXCLUDED and not folder.name.startswith(".")

    found = (path for path in files_below(root, own) if path.suffix == suffix)
    yield from (path.relative_to(root).as_posix() for path in islice(found, _MOST))
