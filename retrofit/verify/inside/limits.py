"""Make an epoch short: each data loader gives its first batches only, and loads them in this process."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Iterator
from typing import Any

from .events import Events

#: What a loader does without, whatever the script asks for: worker processes, and what needs them.
_WITHOUT_WORKERS = {
    "num_workers": 0,
    "timeout": 0,
    "worker_init_fn": None,
    "multiprocessing_context": None,
    "prefetch_factor": None,
    "persistent_workers": False,
}


def limit_loaders(torch: Any, max_batches: int, events: Events) -> None:
    """End every DataLoader after its first batches, which its length says too, and run it without workers.

    Args:
        torch: the imported torch.
        max_batches: how many batches a loader gives.
        events: told of every batch.
    """
    loader_class = torch.utils.data.DataLoader
    make, iterate, length = loader_class.__init__, loader_class.__iter__, loader_class.__len__
    signature = inspect.signature(make)

    @functools.wraps(make)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        bound = signature.bind(self, *args, **kwargs)
        for name, value in _WITHOUT_WORKERS.items():
            if name in bound.arguments:
                bound.arguments[name] = value
        make(*bound.args, **bound.kwargs)

    @functools.wraps(iterate)
    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807
        for batch in itertools.islice(iterate(self), max_batches):
            events.alive()
            yield batch

    @functools.wraps(length)
    def __len__(self: Any) -> int:  # noqa: N807
        return min(int(length(self)), max_batches)

    loader_class.__init__, loader_class.__iter__, loader_class.__len__ = __init__, __iter__, __len__
