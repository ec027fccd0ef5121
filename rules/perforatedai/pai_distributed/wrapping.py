"""The model and its wrapper, in training and in the initialisation run, which has none."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from perforatedai import globals_perforatedai as GPA
from torch.nn.parallel import DistributedDataParallel

from .layers import _pai_settle
from .process import _pai_cuda_index, _pai_device, _pai_fail


def keep_tracker_state_local(model: torch.nn.Module) -> None:
    """Keep the library's own buffers out of DistributedDataParallel's broadcast, before the wrapper.

    They are the same on all ranks, but with Perforated Backpropagation. A model without buffers of its own waits in
    its forward pass for no other rank then, as it was written, and rank 0 may validate alone through the wrapper,
    where it would hang else (measured).
    """
    _pai_settle(model, _pai_device(model))
    ignored = list(getattr(model, "_ddp_params_and_buffers_to_ignore", []))
    if not GPA.pc.get_perforated_backpropagation():
        ignored += [
            f"{path}.{name}"
            for path, module in model.named_modules()
            if type(module).__module__.partition(".")[0] == "perforatedai"
            for name, _ in module.named_buffers(recurse=False)
        ]
    # Torch has no public way yet (pytorch issue 43690). What the model ignored before stays ignored.
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ignored)  # type: ignore[no-untyped-call]


def without_wrapper(model: torch.nn.Module) -> torch.nn.Module:
    """Give the model of the initialisation run what scripts use of a wrapper, such as `module`."""
    # Past nn.Module's __setattr__, which would make the model a submodule of itself.
    object.__setattr__(model, "module", model)
    object.__setattr__(model, "no_sync", contextlib.nullcontext)
    object.__setattr__(model, "require_backward_grad_sync", True)
    return model


def on_one_device(model: torch.nn.Module) -> torch.nn.Module:
    """Give the model of the initialisation run a DataParallel of one device, which makes no replicas.

    For scripts that use what only the wrapper has, such as `module`, or that insist on it.
    """
    return torch.nn.DataParallel(model, [_pai_cuda_index()] if torch.cuda.is_available() else None)


def repeat(batches: Iterable[Any]) -> Iterator[Any]:
    """Go through the batches again and again, for a script that would do so once: training ends by its scores.

    Args:
        batches: a data loader.

    Raises:
        SystemExit: status 1 where it has no batches, or cannot be gone through again.
    """
    while True:
        empty = True
        for batch in batches:
            empty = False
            yield batch
        if empty:
            _pai_fail("the data loader has no (more) batches")
