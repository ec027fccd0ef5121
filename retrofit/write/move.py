"""One file on its way from what it was to what it shall be, and back.

The new content waits beside the journal. It and the old file exchange their names in one step of the system, so that
at any moment the file's name has the one or the other, and what was replaced can be looked at afterwards.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from retrofit.write.files import DISK, UNSUPPORTED, Content
from retrofit.write.journal import Entry

#: How long to wait for a program that has a file open for writing: so many looks, with so many seconds between.
_LOOKS, _PAUSE = 50, 0.02
#: How the name of a file ends that is not whole yet.
PART = ".part"


class ChangedError(Exception):
    """A file is not what it was when the change was worked out."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path


@dataclass(frozen=True)
class Move:
    """One file of a step on its way.

    Attributes:
        entry: what it was and shall be.
        path: where it is.
        staged: where its new content waits, and its old one afterwards.
    """

    entry: Entry
    path: Path
    staged: Path

    def check(self) -> None:
        """Compare the file with what it was, before anything is begun.

        Raises:
            ChangedError: it is another one.
            OSError: it cannot be read or written.
        """
        if not holds(self.path, self.entry.before):
            raise ChangedError(self.path)
        if self.entry.before is not None and not os.access(self.path, os.W_OK):
            raise PermissionError(13, "it is write-protected", str(self.path))

    def stage(self, content: Content | None) -> None:
        """Write a content where it waits for the file's name."""
        if content is not None:
            DISK.create(self.staged, *content)
            if DISK.read(self.path) is not None:
                DISK.belong_as(self.staged, self.path)
            DISK.flush(self.staged)

    def forth(self) -> None:
        """Let the file be what it shall be.

        Raises:
            ChangedError: it is not what it was; it stays what it is.
        """
        _put(self.path, self.staged, self.entry.before, self.entry.after)

    def settle(self) -> None:
        """Make sure that nobody has written, or still writes, in the old file, nor has in the new one.

        Raises:
            ChangedError: somebody has.
        """
        before, after = self.entry.before, self.entry.after
        if before is not None:
            for _ in range(_LOOKS):
                if not DISK.written_to(self.staged):
                    break
                time.sleep(_PAUSE)
            else:
                raise ChangedError(self.path)
            if not holds(self.staged, before):
                raise ChangedError(self.path)
        if not holds(self.path, after):
            raise ChangedError(self.path)

    def back(self) -> bool:
        """Let the file be what it was, wherever it is on its way; one that somebody has saved since stays as it is.

        Returns:
            Whether the original, or what somebody made of it, is there.
        """
        before, after = self.entry.before, self.entry.after
        old = _old(self.staged)
        if DISK.read(old) is not None:  # stopped within an exchange
            if DISK.read(self.staged) is None:
                DISK.rename(old, self.staged)
            else:
                DISK.unlink(old)
        if holds(self.path, before):
            return True
        if not holds(self.path, after):
            return holds(self.staged, after)  # it was never replaced
        if before is None or DISK.read(self.staged) is None or holds(self.staged, after):
            with suppress(FileNotFoundError):
                DISK.unlink(self.staged)
            self.stage(before)
        try:
            _put(self.path, self.staged, after, before)
        except ChangedError:
            return False
        return True


def holds(path: Path, content: Content | None) -> bool:
    """Whether a name has a content, whatever the permissions."""
    now = DISK.read(path)
    return now == content or (now is not None and content is not None and now.data == content.data)


def _put(path: Path, staged: Path, expected: Content | None, wanted: Content | None) -> None:
    """Let the staged file and that of a name change places. One that is not the expected one goes back at once.

    Raises:
        ChangedError: it was not.
    """
    try:
        if expected is None:
            _rename_to_free(staged, path)
            return
        if wanted is None:
            DISK.rename(path, staged)
        else:
            _exchange(staged, path)
    except (FileExistsError, FileNotFoundError):
        raise ChangedError(path) from None
    if not holds(staged, expected):
        if wanted is None:
            _rename_to_free(staged, path)
        else:
            _exchange(staged, path)
        raise ChangedError(path)


def _exchange(staged: Path, path: Path) -> None:
    try:
        DISK.exchange(staged, path)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        _second_name(path, _old(staged))
        if not holds(path, DISK.read(_old(staged))):
            DISK.unlink(_old(staged))
            raise ChangedError(path) from None
        DISK.rename(staged, path)
        DISK.rename(_old(staged), staged)


def _rename_to_free(old: Path, new: Path) -> None:
    try:
        DISK.rename_to_free(old, new)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        try:
            DISK.link(old, new)
        except OSError as another:
            if another.errno not in UNSUPPORTED:
                raise
            if DISK.read(new) is not None:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new)) from None
            DISK.rename(old, new)
        else:
            DISK.unlink(old)


def _second_name(path: Path, new: Path) -> None:
    """Give a file a second name, or where it can have none a copy."""
    try:
        DISK.link(path, new)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        content = DISK.read(path)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
        write_whole(new, content)


def write_whole(path: Path, content: Content) -> None:
    """Write a file of retrofit's own, all of it or nothing."""
    new = path.with_name(f"{path.name}{PART}")
    with suppress(FileNotFoundError):
        DISK.unlink(new)
    DISK.create(new, *content)
    DISK.flush(new)
    DISK.rename(new, path)


def _old(staged: Path) -> Path:
    """Return the second name of a file that is being replaced where names cannot be exchanged."""
    return staged.with_name(f"{staged.name}.old")
