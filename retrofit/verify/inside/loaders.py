"""Load batches in the training's own process: simulated GPUs are not there in others."""

from __future__ import annotations

import functools
import inspect
from typing import Any

#: What a loader does without, whatever the script asks for: worker processes, and what needs them.
_WITHOUT_WORKERS = {
    "num_workers": 0,
    "timeout": 0,
    "worker_init_fn": None,
    "multiprocessing_context": None,
    "prefetch_factor": None,
    "persistent_workers": False,
}


def without_workers(torch: Any) -> None:
    """Have every DataLoader run without workers.

    Args:
        torch: the imported torch.
    """
    loader = torch.utils.data.DataLoader
    make = loader.__init__
    signature = inspect.signature(make)

    @functools.wraps(make)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        bound = signature.bind(self, *args, **kwargs)
        for name, value in _WITHOUT_WORKERS.items():
            if name in bound.arguments:
                bound.arguments[name] = value
        make(*bound.args, **bound.kwargs)

    loader.__init__ = __init__
