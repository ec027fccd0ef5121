"""One command at a time writes in a project."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from retrofit.errors import Problem, UserError, shown_path
from retrofit.write.files import DISK, new_mode, try_lock
from retrofit.write.journal import Journal

#: How long a command waits for another one, in seconds, and how often it looks.
_PATIENCE, _PAUSE = 10.0, 0.05
_NAME, _IGNORE = "lock", ".gitignore"


@contextmanager
def locked(journal: Journal) -> Iterator[None]:
    """Have a project's journal to oneself. Its folder is made where there is none, and goes where nothing is in it.

    A process that ends, however it does, lets go of it.

    Raises:
        UserError: another command has it and does not end, or the folder cannot be made or trusted.
    """
    lock = journal.folder / _NAME
    end = time.monotonic() + _PATIENCE
    handle = _open(journal, lock)
    try:
        while not (try_lock(handle) and _has(lock, handle)):  # whoever had it may have removed it
            if time.monotonic() > end:
                message = "another retrofit command is writing in this project. Wait for it, then run again."
                raise UserError(Problem(shown_path(journal.folder), 0, 0, "RF033", message))
            os.close(handle)
            time.sleep(_PAUSE)
            handle = _open(journal, lock)
        try:
            with suppress(FileExistsError):
                DISK.create(journal.folder / _IGNORE, b"*\n", new_mode())
            yield
        except OSError as error:
            raise _fault(journal, error) from None
        finally:
            with suppress(OSError):  # it does no harm, and the next command can have another try
                if not set(DISK.names(journal.folder)) - {_NAME, _IGNORE}:
                    for name in set(DISK.names(journal.folder)) & {_IGNORE}:
                        DISK.unlink(journal.folder / name)
                    DISK.unlink(lock)
                    DISK.remove_folder(journal.folder)
    finally:
        os.close(handle)


def _open(journal: Journal, lock: Path) -> int:
    """Open the lock file, for which the folder is made."""
    problem = journal.problem()
    if problem is not None:
        raise problem
    while True:
        try:
            with suppress(FileExistsError):
                DISK.make_folder(journal.folder)
                DISK.flush_folder(journal.root)
            with suppress(FileExistsError):
                DISK.create(lock, b"", new_mode())
            return os.open(lock, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        except FileNotFoundError as error:  # another command has just removed the folder
            if not journal.root.is_dir():
                raise _fault(journal, error) from None
        except OSError as error:
            with suppress(OSError):
                DISK.remove_folder(journal.folder)
            raise _fault(journal, error) from None


def _fault(journal: Journal, error: OSError) -> UserError:
    message = (
        f"cannot be written: {error.strerror or error}. Nothing was changed. `retrofit undo` needs it; "
        "--project-root DIR, with a folder around the script, puts it elsewhere."
    )
    return UserError(Problem(shown_path(journal.folder), 0, 0, "RF010", message))


def _has(lock: Path, handle: int) -> bool:
    """Whether a name is still that of an open file."""
    try:
        return os.path.samestat(os.stat(lock), os.fstat(handle))
    except FileNotFoundError:
        return False
