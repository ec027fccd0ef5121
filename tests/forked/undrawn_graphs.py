"""Draws nothing and leaves the files of graphs empty where UNDRAWN_GRAPHS is set: it takes half of a small training."""

import functools
import inspect
import os
from collections.abc import Callable
from typing import Any

from matplotlib import pyplot


class _Nothing:
    """Stands for a figure and all that is drawn in it."""

    def __getattr__(self, name: str) -> "_Nothing":
        return self

    def __call__(self, *_: Any, **__: Any) -> "_Nothing":
        return self


def _unless_undrawn(draw: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(draw)
    def drawn(*arguments: Any, **options: Any) -> Any:
        if "UNDRAWN_GRAPHS" not in os.environ:
            return draw(*arguments, **options)
        if draw is _savefig:
            open(arguments[0], "wb").close()
        return _Nothing()

    return drawn


_savefig = pyplot.savefig
for _name, _function in inspect.getmembers(pyplot, inspect.isfunction):
    if _function.__module__ == pyplot.__name__:
        setattr(pyplot, _name, _unless_undrawn(_function))
