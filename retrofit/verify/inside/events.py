"""The record that a process keeps of its training, as JSON lines, and its sign of life."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

_INSIDE = os.path.dirname(os.path.abspath(__file__))


class Events:
    """Writes what happens in this process, one file a process.

    Args:
        folder: where the files are.
        project: the project's root; places in the code are given relative to it.
    """

    def __init__(self, folder: Path, project: Path) -> None:
        self._folder = folder
        self._project = os.path.realpath(project) + os.sep
        self._process = 0
        self._alive = 0.0
        self._lock = threading.Lock()

    def write(self, kind: str, **facts: Any) -> None:
        """Note an event with its facts, which are JSON values."""
        with self._lock:
            if self._process != os.getpid():  # the first event, or the first after a fork
                self._process = os.getpid()
                path = self._folder / f"{os.environ.get('RETROFIT_VERIFY_STAGE', '')}-{self._process}.jsonl"
                self._file = open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115 - open to the end
            record = {"kind": kind, "process": self._process, "rank": rank(), "time": time.time(), **facts}
            self._file.write(json.dumps(record) + "\n")

    def alive(self) -> None:
        """Show that training goes on, at most once a second."""
        now = time.monotonic()
        if now - self._alive >= 1:
            self._alive = now
            (self._folder / f"alive-{os.getpid()}").touch()

    def place(self, frame: FrameType | None = None) -> str:
        """Return where in the project's own code we are, as `file:line`; "" where there is none of it.

        Args:
            frame: where to look from; None for the caller.
        """
        frame = frame or sys._getframe(1)
        fallback = ""
        while frame is not None:
            name = self.shown(frame.f_code.co_filename)
            if name:
                place = f"{name}:{frame.f_lineno}"
                if not in_helper(name):
                    return place
                fallback = fallback or place
            frame = frame.f_back
        return fallback

    def shown(self, path: str) -> str:
        """Return a file of the project relative to its root, "" for any other file."""
        path = os.path.realpath(path)
        return path[len(self._project) :] if path.startswith(self._project) else ""


def in_helper(path: str) -> bool:
    """Is a file one of the helper's?"""
    return os.path.basename(os.path.dirname(path)) == "pai_distributed"


def rank() -> int | None:
    """The rank of this process; None where it has none (yet)."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and getattr(distributed, "is_available", bool)() and distributed.is_initialized():
        return int(distributed.get_rank())
    return int(os.environ["RANK"]) if os.environ.get("RANK", "").isdigit() else None
