"""Make an epoch short: each data loader gives its first batches only, loaded in this process; graphs are drawn once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from pathlib import Path
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

    That of a subclass that goes through its batches in a way of its own ends after so many of those.

    Args:
        torch: the imported torch.
        max_batches: how many batches a loader gives.
        events: told of every batch, and when a loader is asked for more.
    """
    loader_class = torch.utils.data.DataLoader
    make = loader_class.__init__
    signature = inspect.signature(make)

    @functools.wraps(make)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        bound = signature.bind(self, *args, **kwargs)
        for name, value in _WITHOUT_WORKERS.items():
            if name in bound.arguments:
                bound.arguments[name] = value
        make(*bound.args, **bound.kwargs)

    def limited(real: Any) -> Any:
        @functools.wraps(real)
        def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807
            # A loader made of another one may take more than an epoch's batches from it.
            return first(real(self)) if type(self).__iter__ is __iter__ else iter(real(self))

        return __iter__

    def first(batches: Any) -> Iterator[Any]:
        for number, batch in enumerate(batches):
            if number == max_batches:
                events.write("cut")
                return
            events.alive()
            yield batch

    def shortened(real: Any) -> Any:
        @functools.wraps(real)
        def __len__(self: Any) -> int:  # noqa: N807
            return min(int(real(self)), max_batches)

        return __len__

    def limit(kind: Any) -> None:
        for name, wrapper in (("__iter__", limited), ("__len__", shortened)):
            if name in vars(kind):
                setattr(kind, name, wrapper(vars(kind)[name]))

    prepare = loader_class.__init_subclass__

    def __init_subclass__(cls: Any, /, **options: Any) -> None:  # noqa: N807
        prepare.__func__(cls, **options)
        limit(cls)

    loader_class.__init__ = __init__
    loader_class.__init_subclass__ = classmethod(__init_subclass__)
    limit(loader_class)


def limit_graphs(module: Any) -> None:
    """Have perforatedai draw its graphs once in the whole training: each time takes as long as many short epochs.

    Args:
        module: the imported perforatedai.tracker_perforatedai.
    """
    kind = module.PAINeuronModuleTracker
    draw = kind.save_graphs

    @functools.wraps(draw)
    def save_graphs(self: Any, *args: Any, **kwargs: Any) -> None:
        if not any(Path(self.save_name).glob("*.png")):
            draw(self, *args, **kwargs)

    kind.save_graphs = save_graphs
