"""Put functions in the place of torch's own."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any


class NotSimulated(RuntimeError):  # noqa: N818
    """The script has used a part of CUDA that has no simulation."""

    def __init__(self, name: str) -> None:
        super().__init__(f"retrofit's simulation has no {name}")


def wrap(name: str, make: Callable[[Any], Any], *owners: Any) -> None:
    """Replace a function where torch has it.

    Args:
        name: what the function is called. Where the first owner has none, as in an older torch, nothing happens.
        make: makes the new function from the old one.
        owners: the modules or classes that have it. One that has something else by this name is left alone.
    """
    old = getattr(owners[0], name, None)
    if old is None:
        return
    new = make(old)
    # Builtins have a qualified name that pickle could not follow to the new function.
    functools.update_wrapper(new, old)
    new.__module__ = getattr(owners[0], "__module__", owners[0].__name__)
    new.__qualname__ = f"{owners[0].__qualname__}.{name}" if isinstance(owners[0], type) else name
    replace(name, new, *owners)


def replace(name: str, new: Any, *owners: Any) -> None:
    """Replace something where torch has it, and give it to the first owner in any case.

    Args:
        name: what it is called.
        new: what comes in its place.
        owners: the modules or classes that have it. Others than the first that have something else are left alone.
    """
    old = getattr(owners[0], name, None)
    setattr(owners[0], name, new)
    for owner in owners[1:]:
        if old is not None and getattr(owner, name, None) is old:
            setattr(owner, name, new)
    builtins = sys.modules["torch"].jit._builtins
    # TorchScript knows functions by identity. A table made later will find the new ones by itself.
    if builtins._builtin_table is not None and id(old) in builtins._builtin_table:
        builtins._builtin_table[id(new)] = builtins._builtin_table[id(old)]


def asked_by_torch() -> bool:
    """Did torch itself call the function that asks this, rather than a script?"""
    caller = str(sys._getframe(2).f_globals.get("__name__", ""))
    return caller == "torch" or caller.startswith("torch.")
