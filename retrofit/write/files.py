"""The thin layer over the system through which everything that is written goes.

Each method is one operation on names or bytes, so that a test can stop, fail or forget any one of them by putting
another `Disk` in the place of `DISK`. Nothing here decides anything.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

#: What a file system says that has no such operation.
UNSUPPORTED = frozenset(
    {errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.EXDEV}
)
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL})
_EXCHANGE, _NO_REPLACE = "exchange", "no-replace"
#: The flags of Linux' renameat2 (linux/fs.h) and macOS' renamex_np (sys/stdio.h).
_FLAGS = {"linux": {_EXCHANGE: 2, _NO_REPLACE: 1}, "darwin": {_EXCHANGE: 2, _NO_REPLACE: 4}}


class Content(NamedTuple):
    """A regular file's bytes and permissions."""

    data: bytes
    mode: int


class Disk:
    """The operations, as the system does them.

    Raises:
        OSError: of any method, as the system says.
    """

    def read(self, path: Path) -> Content | None:
        """Return a file's content, None where the name is free; links are not followed, and what is no file raises."""
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        try:
            handle = os.open(path, flags)
        except FileNotFoundError:
            return None
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            os.close(handle)
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        with os.fdopen(handle, "rb") as stream:
            return Content(stream.read(), status.st_mode & 0o777)

    def create(self, path: Path, data: bytes, mode: int) -> None:
        """Make a new file; what is there already is never written to."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        handle = os.open(path, flags, 0o600)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            os.chmod(path, mode)
        except BaseException:
            os.unlink(path)
            raise

    def belong_as(self, path: Path, other: Path) -> None:
        """Give a file the owner, the group and the extended attributes of another one, as far as one may."""
        own, status = os.lstat(path), os.lstat(other)
        if hasattr(os, "chown") and (status.st_uid, status.st_gid) != (own.st_uid, own.st_gid):
            with contextlib.suppress(OSError):
                os.chown(path, status.st_uid, status.st_gid)
        if hasattr(os, "listxattr"):
            with contextlib.suppress(OSError):
                for name in os.listxattr(other):
                    os.setxattr(path, name, os.getxattr(other, name))
        os.chmod(path, stat.S_IMODE(own.st_mode))  # of which either may have taken bits

    def flush(self, path: Path) -> None:
        """Bring a file's bytes to the disk."""
        handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
        try:
            _flush(handle)
        finally:
            os.close(handle)

    def flush_folder(self, path: Path) -> None:
        """Bring a folder's names to the disk, where the system knows how to."""
        if os.name == "nt":
            return
        handle = os.open(path, os.O_RDONLY)
        try:
            _flush(handle)
        except OSError as error:
            if error.errno not in UNSUPPORTED:  # some network file systems have no such thing
                raise
        finally:
            os.close(handle)

    def exchange(self, one: Path, other: Path) -> None:
        """Let two files change their names in one step; raises where the file system cannot."""
        _rename_with(_EXCHANGE, one, other)

    def rename_to_free(self, old: Path, new: Path) -> None:
        """Rename a file to a name that nothing has, in one step; raises where the file system cannot."""
        _rename_with(_NO_REPLACE, old, new)

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file, over one that has the name."""
        os.replace(old, new)

    def link(self, path: Path, new: Path) -> None:
        """Give a file a second name, which is free."""
        os.link(path, new, follow_symlinks=False) if os.link in os.supports_follow_symlinks else os.link(path, new)

    def unlink(self, path: Path) -> None:
        """Take a name away."""
        os.unlink(path)

    def make_folder(self, path: Path) -> None:
        """Make a folder."""
        os.mkdir(path)

    def remove_folder(self, path: Path) -> None:
        """Remove an empty folder."""
        os.rmdir(path)

    def names(self, folder: Path) -> list[str]:
        """Return the names in a folder, none where there is no folder; links are not followed."""
        if os.path.islink(folder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
        try:
            return sorted(os.listdir(folder))
        except FileNotFoundError:
            return []

    def written_to(self, path: Path) -> bool:
        """Whether a program has a file open for writing, as far as the system tells (Linux: a lease is refused)."""
        if fcntl is None or not hasattr(fcntl, "F_SETLEASE"):
            return False
        handle = os.open(path, os.O_RDONLY)
        try:
            fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)  # to hear of a breach by a signal that nobody heeds
            fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except OSError as error:
            return error.errno == errno.EAGAIN
        finally:
            os.close(handle)
        return False

    def number(self, path: Path) -> int:
        """Return what tells a folder from every other one of its file system."""
        return os.lstat(path).st_ino


def try_lock(handle: int) -> bool:
    """Take an open file's lock, and return whether it could be had; no process has it longer than it lives.

    Where a file system knows no locks, anybody has it: there it has to do that each file is compared when replaced.
    """
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    except OSError as error:
        return error.errno in _NO_LOCKS
    return True


def new_mode() -> int:
    """Return the permissions that the umask leaves to a new file."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _flush(handle: int) -> None:
    full = getattr(fcntl, "F_FULLFSYNC", None)  # macOS, where fsync leaves the bytes in the drive
    if full is None:
        os.fsync(handle)
    else:
        fcntl.fcntl(handle, full)


def _rename_with(flag: str, old: Path, new: Path) -> None:
    function, flags = _renaming(), _FLAGS.get(sys.platform, {})
    if function is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(old), None, str(new))
    code = function(os.fsencode(old), os.fsencode(new), flags[flag])
    if code:
        raise OSError(code, os.strerror(code), str(old), None, str(new))


@cache
def _renaming() -> Callable[[bytes, bytes, int], int] | None:
    """Return the system's rename with flags, which returns an error number; None where it has none."""
    import ctypes

    try:
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            plain = library.renamex_np
            return lambda old, new, flags: ctypes.get_errno() if plain(old, new, ctypes.c_uint(flags)) else 0
        at, here = library.renameat2, -100  # AT_FDCWD
        return lambda old, new, flags: ctypes.get_errno() if at(here, old, here, new, ctypes.c_uint(flags)) else 0
    except (OSError, AttributeError, TypeError):
        return None


#: Through which all that is written goes.
DISK = Disk()
