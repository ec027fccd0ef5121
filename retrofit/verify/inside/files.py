"""Keep the user's files untouched: the copy that trains links to what is large or lies beside the project, and writing
must not follow a link.

An audit hook sees Python's writes before they happen, and puts a copy or nothing in the link's place. Writes of
compiled code are seen where torch makes them; others, such as those of an image library, are not.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .events import Events

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: Audit events with the positions of the paths that change, and of the folders' descriptors that they start from.
_CHANGES: dict[str, tuple[tuple[int, int | None], ...]] = {
    "os.mkdir": ((0, 2),),
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, None),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.utime": ((0, 3),),
    "os.setxattr": ((0, None),),
    "os.removexattr": ((0, None),),
    "shutil.rmtree": ((0, 1),),
    "sqlite3.connect": ((0, None),),
}
_FOLLOW_LINKS = {"os.truncate", "os.chmod", "os.chown", "os.utime", "os.setxattr", "os.removexattr", "sqlite3.connect"}


class _Busy(threading.local):
    """What the hook does itself is not to be hooked."""

    now = False


def keep_the_original(original: Path, copy: Path, events: Events) -> None:
    """Have writes that would leave the copy end in it, or fail where they name the original project itself.

    Args:
        original: the user's project. Its files may be written by their whole paths where it is the user's home or the
            root of the file system, which hold much that is no part of it.
        copy: the folder in which its copy is.
        events: told of a write that was refused.
    """
    root, ours = os.path.realpath(original), os.path.realpath(copy)
    kept = "" if root in (os.sep, os.path.realpath(os.path.expanduser("~"))) else root
    busy = _Busy()

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if (event != "open" and event not in _CHANGES) or busy.now:
            return
        if event == "open":
            path, mode, flags = arguments
            if not _writes(mode, flags):
                return
            paths, follows, keep = [(path, None)], True, not (isinstance(mode, str) and "w" in mode)
        else:
            positions = _CHANGES[event]
            paths = [(arguments[path], None if fd is None else arguments[fd]) for path, fd in positions]
            follows = keep = event in _FOLLOW_LINKS
        busy.now = True
        try:
            for path, descriptor in paths:
                if isinstance(path, (str, bytes, os.PathLike)):
                    whole = _whole(path, descriptor)
                    # The files in the folder are removed by their names in it, one by one.
                    _part(os.path.join(whole, "x") if event == "shutil.rmtree" else whole, kept, ours, events)
                    if follows:
                        _replace_link(whole, ours, keep)
        finally:
            busy.now = False

    sys.addaudithook(hook)


def _writes(mode: object, flags: object) -> bool:
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & _WRITING)


def _whole(path: str | bytes | os.PathLike[str], descriptor: int | None) -> str:
    name = os.fsdecode(path)
    if descriptor is not None and descriptor >= 0:
        with contextlib.suppress(OSError):  # where there is no /proc
            name = os.path.join(os.readlink(f"/proc/self/fd/{descriptor}"), name)
    return os.path.abspath(name)


def _part(path: str, kept: str, copy: str, events: Events) -> None:
    """Put real folders in place of the links that a path goes through on its way out of the copy."""
    folder = os.path.dirname(path)
    there = os.path.realpath(folder)
    if _below(there, copy):
        return
    if not _below(path, copy):
        # Beside the copy are the trial's own files, which may lie in the project as well.
        if kept and _below(there, kept) and not _below(there, os.path.dirname(copy)):
            events.write("original", path=path, place=events.place())
            raise PermissionError(f"retrofit verify keeps {kept} as it is, and the script would change {path}")
        return
    with _alone(copy):
        step = copy
        for part in os.path.relpath(folder, copy).split(os.sep):
            step = os.path.join(step, part)
            target = os.path.realpath(step)
            if os.path.islink(step) and os.path.isdir(target) and not _below(target, copy):
                os.unlink(step)
                os.mkdir(step)
                for entry in os.scandir(target):
                    os.symlink(entry.path, os.path.join(step, entry.name))


def _replace_link(path: str, copy: str, keep: bool) -> None:
    """Put a copy, or nothing where ``keep`` is false, in place of a link that leads out of the copy to a file."""
    if not os.path.islink(path) or not _below(path, copy):
        return
    with _alone(copy):
        target = os.path.realpath(path)
        if os.path.islink(path) and not _below(target, copy) and (os.path.isfile(target) or not os.path.exists(target)):
            os.unlink(path)
            if keep and os.path.exists(target):
                shutil.copy2(target, path)


@contextlib.contextmanager
def _alone(copy: str) -> Iterator[None]:
    """Keep the other processes of the training from doing the same at the same time."""
    with open(os.path.join(os.path.dirname(copy), "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + os.sep)


def import_from_the_copy(original: Path, project: Path) -> None:
    """Have modules that were installed for development, or are on PYTHONPATH, come from the copy, which is rewritten.

    Args:
        original: the user's project.
        project: its copy.
    """
    root = os.path.realpath(original)
    for number, entry in enumerate(sys.path):
        path = os.path.realpath(entry)
        if entry and _below(path, root):
            sys.path[number] = os.path.join(project, os.path.relpath(path, root))


def tell_of_saves(torch: Any) -> None:
    """Let the audit hook see the files that torch.save writes, which compiled code opens.

    Args:
        torch: the imported torch.
    """
    save = torch.save

    @functools.wraps(save)
    def saving(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(f, (str, os.PathLike)):
            sys.audit("open", os.fspath(f), "w", 0)
        save(obj, f, *args, **kwargs)

    torch.save = saving
