"""Leaves the files of graphs empty where UNDRAWN_GRAPHS is set, as drawing takes half of a small training."""

import os
from typing import Any

from matplotlib import pyplot

_savefig, _tight_layout = pyplot.savefig, pyplot.tight_layout


def _save(path: str, *arguments: Any, **options: Any) -> None:
    if "UNDRAWN_GRAPHS" in os.environ:
        open(path, "wb").close()
    else:
        _savefig(path, *arguments, **options)


def _lay_out(*arguments: Any, **options: Any) -> None:
    if "UNDRAWN_GRAPHS" not in os.environ:
        _tight_layout(*arguments, **options)


vars(pyplot).update(savefig=_save, tight_layout=_lay_out)
