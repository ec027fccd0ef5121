"""Read files of which nothing is known: a device has no end, a pipe keeps one waiting, a file may be huge."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from retrofit.errors import Problem

#: A file may have so many megabytes where the user does not say otherwise.
DEFAULT_MEGABYTES = 2.0
#: More bytes than these are not even looked at.
_MOST = 64_000_000


def read_file(path: str | Path) -> bytes:
    """Return the bytes of a regular file, behind links.

    Raises:
        OSError: it is none, cannot be read, or is of a size that no source file has.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    handle = os.open(path, flags)
    try:
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if status.st_size > _MOST:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        with os.fdopen(handle, "rb", closefd=False) as stream:
            return stream.read(_MOST)
    finally:
        os.close(handle)


def data_of(path: Path) -> bytes:
    """Return the bytes of a file, none where it cannot be read: nobody can start such a one either."""
    try:
        return read_file(path)
    except OSError:
        return b""


def files_below(root: Path, enters: Callable[[os.DirEntry[str]], bool]) -> Iterator[Path]:
    """Yield what is no folder below a folder, in order; links are not followed, and any depth is possible.

    Args:
        root: the folder; what cannot be listed is passed over.
        enters: whether to look into a folder.
    """
    waiting = [str(root)]
    while waiting:
        try:
            entries = sorted(os.scandir(waiting.pop()), key=lambda entry: entry.name)
        except OSError:
            continue
        folders = []
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry)
            else:
                yield Path(entry.path)
        waiting += [entry.path for entry in reversed(folders) if enters(entry)]


def size_fault(data: bytes, megabytes: float, shown: str) -> Problem | None:
    """Return a problem where a file is larger than it may be, None where it is not.

    Args:
        data: its bytes.
        megabytes: how large it may be.
        shown: how messages name it.
    """
    if len(data) <= megabytes * 1e6:
        return None
    size = f"{len(data) / 1e6:.1f}"
    message = (
        f"has {size} MB, and files of more than {megabytes:g} MB are not looked into. --max-file-size allows more."
    )
    return Problem(shown, 0, 0, "RF034", message)
