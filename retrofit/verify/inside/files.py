"""Keep the user's project untouched: the copy that trains links to large files, and writing must not follow a link.

An audit hook sees Python's writes before they happen, and puts a copy or nothing in the link's place. Writes of
compiled code are seen where torch makes them; others, such as those of an image library, are not.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from .events import Events

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: Audit events whose arguments at these positions are paths that change.
_CHANGES = {
    "os.mkdir": (0,),
    "os.remove": (0,),
    "os.rmdir": (0,),
    "os.rename": (0, 1),
    "os.link": (1,),
    "os.symlink": (1,),
    "os.truncate": (0,),
    "os.chmod": (0,),
    "os.utime": (0,),
}
_FOLLOW_LINKS = {"os.truncate", "os.chmod", "os.utime"}


def keep_the_original(original: Path, project: Path, events: Events) -> None:
    """Have writes that would reach the original project end in the copy, or fail where they name the original itself.

    Args:
        original: the user's project.
        project: its copy, in which the training runs.
        events: told of a write that was refused.
    """
    root, copy = os.path.realpath(original), os.path.realpath(project)
    busy = False

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal busy
        if (event != "open" and event not in _CHANGES) or busy:
            return
        if event == "open":
            path, mode, flags = arguments
            if not _writes(mode, flags):
                return
            paths, follows, keep = [path], True, not (isinstance(mode, str) and "w" in mode)
        else:
            paths = [arguments[position] for position in _CHANGES[event]]
            follows = keep = event in _FOLLOW_LINKS
        busy = True
        try:
            for path in paths:
                if isinstance(path, (str, bytes, os.PathLike)):
                    _part(os.path.abspath(os.fsdecode(path)), root, copy, events)
                    if follows:
                        _replace_link(os.path.abspath(os.fsdecode(path)), root, keep)
        finally:
            busy = False

    sys.addaudithook(hook)


def _writes(mode: object, flags: object) -> bool:
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & _WRITING)


def _part(path: str, root: str, copy: str, events: Events) -> None:
    """Put real folders in place of the links to folders of the original that a path goes through."""
    folder = os.path.dirname(path)
    there = os.path.realpath(folder)
    if not _below(there, root) or _below(there, copy):
        return
    if not _below(path, copy):
        events.write("original", path=path, place=events.place())
        raise PermissionError(f"retrofit verify keeps {root} as it is, and the script would change {path}")
    step = copy
    for part in os.path.relpath(folder, copy).split(os.sep):
        step = os.path.join(step, part)
        if os.path.islink(step):
            target = os.path.realpath(step)
            os.unlink(step)
            os.mkdir(step)
            for entry in os.scandir(target):
                os.symlink(entry.path, os.path.join(step, entry.name))


def _replace_link(path: str, root: str, keep: bool) -> None:
    """Put a copy, or nothing where ``keep`` is false, in place of a link to a file of the original."""
    target = os.path.realpath(path)
    if os.path.islink(path) and _below(target, root):
        os.unlink(path)
        if keep and os.path.exists(target):
            shutil.copy2(target, path)


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
