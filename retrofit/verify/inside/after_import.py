"""Call a function when a module has been imported."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


class _Finder:
    """Finds a module as the other finders do, and has a function called after its code has run."""

    def __init__(self, name: str, then: Callable[[Any], None]) -> None:
        self.name = name
        self.then = then

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        loader: Any = spec and spec.loader
        if loader is None:
            sys.meta_path.insert(0, self)
            return None
        run = loader.exec_module

        def run_then(module: ModuleType) -> None:
            run(module)
            self.then(module)

        # On the one loader of this module, so that its type stays what others expect.
        loader.exec_module = run_then
        return spec


def after_import(name: str, then: Callable[[Any], None]) -> None:
    """Have a function called with a module when it has been imported, or now where it has been already.

    Args:
        name: the module's full name.
        then: the function.
    """
    if name in sys.modules:
        then(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, then))
