"""Stop, fail or watch the operations by which retrofit writes, each in turn."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from retrofit.write.files import DISK

#: The operations that change what is on the disk, and those that only look.
CHANGING = (
    "create", "belong_as", "flush", "flush_folder", "exchange", "rename_to_free", "rename", "link", "unlink",
    "make_folder", "remove_folder",
)  # fmt: skip
LOOKING = ("read", "names", "written_to", "number")
OPERATIONS = CHANGING + LOOKING

Operation = Callable[..., Any]


@contextmanager
def around(wrap: Callable[[str, Operation], Operation], names: tuple[str, ...] = OPERATIONS) -> Iterator[None]:
    """Put what ``wrap`` makes of each operation, given with its name, in the operation's place."""
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(DISK, name, wrap(name, getattr(DISK, name)))
        yield


@contextmanager
def before_each(tell: Callable[[str, tuple[Any, ...]], None], names: tuple[str, ...] = OPERATIONS) -> Iterator[None]:
    """Call ``tell`` with the name and the arguments of each operation before it is done."""

    def wrap(name: str, operation: Operation) -> Operation:
        def told(*arguments: Any) -> Any:
            tell(name, arguments)
            return operation(*arguments)

        return told

    with around(wrap, names):
        yield


@contextmanager
def full_for(target: str) -> Iterator[None]:
    """Let the disk be full when a file of this name would take its place."""

    def tell(name: str, arguments: tuple[Any, ...]) -> None:
        if any(Path(argument).name == target for argument in arguments if isinstance(argument, Path)):
            raise full(arguments[0])

    with before_each(tell, ("exchange", "rename_to_free", "rename", "link", "unlink")):
        yield


def full(path: Path) -> OSError:
    """Return what the system says where the disk is full."""
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def unable(*names: str) -> Callable[[str, Operation], Operation]:
    """Let a file system know no operations of these names."""

    def wrap(name: str, operation: Operation) -> Operation:
        def refuse(*arguments: Any) -> Any:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

        return refuse if name in names else operation

    return wrap


def no_flushes(name: str, operation: Operation) -> Operation:
    """Let nothing be flushed, which takes time and which no test can see."""
    return (lambda *arguments: None) if name in ("flush", "flush_folder") else operation
