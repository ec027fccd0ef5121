"""A shared folder that shows late what another machine has changed, as a network's file systems do.

    python tests/late.py TREE MOUNT SECONDS OTHER_TREE...

mounts at MOUNT, with FUSE, the files of TREE. What is changed there is changed in TREE at once and, as many seconds
later and in the same order, in each OTHER_TREE, which is what another machine has mounted. A file is passed on as it is
when a process closes it.
"""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

fuse: Any = None
with suppress(ImportError, OSError):  # OSError: there is no libfuse
    fuse = import_module("mfusepy")

#: The kernel asks anew each time.
FRESH = {"attr_timeout": 0, "entry_timeout": 0, "negative_timeout": 0}


class Folder:
    """What a machine's file system does, by the names that FUSE has for it."""

    use_ns = True

    def __init__(self, tree: str, seconds: float, others: list[str]) -> None:
        self.tree, self.seconds, self.others = tree, seconds, others
        self.told: queue.Queue[tuple[float, Callable[[str], None]]] = queue.Queue()
        self.written: set[int] = set()
        self.copies = 0
        threading.Thread(target=self._pass_on, daemon=True).start()

    def _at(self, path: str) -> str:
        return self.tree + path

    def _everywhere(self, change: Callable[[str], None]) -> int:
        """Change this machine's tree now, and the others' later."""
        change(self.tree)
        self.told.put((time.monotonic() + self.seconds, change))
        return 0

    def _pass_on(self) -> None:
        while True:
            due, change = self.told.get()
            time.sleep(max(0.0, due - time.monotonic()))
            for other in self.others:
                with suppress(OSError):  # they have changed it too
                    change(other)

    # ---- what changes nothing

    def init(self, path: str) -> None:
        pass

    def getattr(self, path: str, handle: int | None = None) -> dict[str, int]:
        found = os.lstat(self._at(path))
        names = ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks")
        times = {f"st_{name}time": getattr(found, f"st_{name}time_ns") for name in ("a", "m", "c")}
        return {name: getattr(found, name) for name in names} | times

    def readdir(self, path: str, handle: int) -> list[str]:
        return [".", "..", *os.listdir(self._at(path))]

    def readlink(self, path: str) -> str:
        return os.readlink(self._at(path))

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self._at(path))
        names = (
            "f_bavail",
            "f_bfree",
            "f_blocks",
            "f_bsize",
            "f_favail",
            "f_ffree",
            "f_files",
            "f_frsize",
            "f_namemax",
        )
        return {name: getattr(found, name) for name in names}

    def open(self, path: str, flags: int) -> int:
        return os.open(self._at(path), flags & ~os.O_APPEND)  # the kernel says where to write

    def read(self, path: str, size: int, offset: int, handle: int) -> bytes:
        return os.pread(handle, size, offset)

    def release(self, path: str, handle: int) -> int:
        self.written.discard(handle)
        os.close(handle)
        return 0

    # ---- what changes a file, which is passed on when it is closed

    def create(self, path: str, mode: int) -> int:
        handle = os.open(self._at(path), os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)
        self.written.add(handle)
        return handle

    def write(self, path: str, data: bytes, offset: int, handle: int) -> int:
        self.written.add(handle)
        return os.pwrite(handle, data, offset)

    def truncate(self, path: str, length: int, handle: int | None = None) -> int:
        os.truncate(self._at(path), length)
        self._pass_file_on(path)
        return 0

    def flush(self, path: str, handle: int) -> int:
        if handle in self.written:
            self.written.discard(handle)
            self._pass_file_on(path)
        return 0

    def _pass_file_on(self, path: str) -> None:
        """Have the others see this file as it is now."""
        self.copies += 1
        copy = f"{self.tree}.copy{self.copies}"
        with suppress(FileNotFoundError):  # removed while it was open
            shutil.copy2(self._at(path), copy)
            self.told.put((time.monotonic() + self.seconds, lambda tree: self._replace(copy, tree + path)))

    @staticmethod
    def _replace(copy: str, path: str) -> None:
        shutil.copy2(copy, f"{copy}.new")
        os.replace(f"{copy}.new", path)

    # ---- what changes names

    def chmod(self, path: str, mode: int) -> int:
        return self._everywhere(lambda tree: os.chmod(tree + path, mode))

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        return self._everywhere(lambda tree: os.utime(tree + path, ns=times or (time.time_ns(),) * 2))

    def mkdir(self, path: str, mode: int) -> int:
        return self._everywhere(lambda tree: os.mkdir(tree + path, mode))

    def rmdir(self, path: str) -> int:
        return self._everywhere(lambda tree: os.rmdir(tree + path))

    def unlink(self, path: str) -> int:
        return self._everywhere(lambda tree: os.unlink(tree + path))

    def rename(self, old: str, new: str) -> int:
        return self._everywhere(lambda tree: os.rename(tree + old, tree + new))

    def symlink(self, path: str, target: str) -> int:
        return self._everywhere(lambda tree: os.symlink(target, tree + path))


@contextmanager
def shown_late(folder: Path, machines: int, seconds: float) -> Iterator[list[Path]]:
    """Give a folder of each machine, empty at first, in which it sees late what the others do; none where none can be.

    Args:
        folder: where they are made.
        machines: how many.
        seconds: how late.
    """
    trees = [folder / f"tree{number}" for number in range(machines)]
    mounts = [folder / f"machine{number}" for number in range(machines)]
    for path in (*trees, *mounts):
        path.mkdir()
    mounting = [
        subprocess.Popen(
            [sys.executable, __file__, str(trees[number]), str(mount), str(seconds)]
            + [str(tree) for tree in trees if tree is not trees[number]]
        )
        for number, mount in enumerate(mounts if fuse else ())
    ]
    try:
        while any(one.poll() is None for one in mounting) and not all(map(os.path.ismount, mounts)):
            time.sleep(0.01)
        yield mounts if mounting and all(map(os.path.ismount, mounts)) else []
    finally:
        for mount in filter(os.path.ismount, mounts):
            program = shutil.which("fusermount3") or "fusermount"
            subprocess.run([program, "-u", "-z", str(mount)], check=True)
        for one in mounting:
            one.wait()


if __name__ == "__main__":
    tree, mount, seconds, *others = sys.argv[1:]
    fuse.FUSE(Folder(tree, float(seconds), others), mount, foreground=True, nothreads=True, **FRESH)
