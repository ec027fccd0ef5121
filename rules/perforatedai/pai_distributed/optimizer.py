"""The script's own optimizer, and the gradients before its steps."""

import os
from typing import Any

import torch
from perforatedai import globals_perforatedai as GPA
from torch.optim.optimizer import register_optimizer_step_post_hook

from .process import _pai, _pai_fail, _pai_grouped


def set_optimizer_instance(optimizer: Any) -> None:
    """Tell the library of an optimizer that the script builds itself.

    As `GPA.pai_tracker.set_optimizer_instance`. Where no model is perforated, as in another script that builds its
    optimizer by the same function, it does nothing.

    Args:
        optimizer: the optimizer, with parameters of the perforated model in its groups, or an object that holds it.

    Raises:
        SystemExit: status 1, with a message, where it is none and does not hold one.
    """
    if not GPA.pai_tracker:
        return
    GPA.pai_tracker.set_optimizer_instance(_pai_torch_optimizer(optimizer))


def fill_missing_gradients(model: torch.nn.Module | None = None) -> None:
    """Give every trainable parameter a gradient before the backward pass, where that is needed.

    That is with Perforated Backpropagation, or if PAI_PREFILL_GRADIENTS=1. `find_unused_parameters=True` does
    otherwise; zeros cost time and let weight decay pull on parameters that should rest (measured).

    Args:
        model: the model, wrapped or not; None, where it is not in scope, for that of `load_latest_switch`.

    Raises:
        SystemExit: status 1, with a message, where processes were started together and train each for itself.
    """
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if processes > 1 and not _pai_grouped():
        _pai_fail(
            f"{processes} processes were started together, but the script has not joined them in a process group: each "
            "would train by itself. Give it the option by which it trains with DistributedDataParallel, or start one "
            "process, with NUM_GPUS=1 or LAUNCHER=python."
        )
    if not GPA.pc.get_perforated_backpropagation() and os.environ.get("PAI_PREFILL_GRADIENTS") != "1":
        return
    model = _pai.model if model is None else model
    assert model is not None
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)


def _pai_torch_optimizer(optimizer: Any) -> Any:
    """The optimizer, or the only one that an object of the script's own class holds."""
    if hasattr(optimizer, "param_groups"):
        return optimizer
    held = [value for value in getattr(optimizer, "__dict__", {}).values() if hasattr(value, "param_groups")]
    if len(held) != 1:
        _pai_fail(
            "The optimizer must be set before the first score, with set_optimizer_instance(optimizer): it is "
            f"{type(optimizer).__name__}, which has no param_groups, and {len(held)} attributes that have"
        )
    return held[0]


@register_optimizer_step_post_hook
def _pai_count_step(*_: Any) -> None:
    """Optimizer hook: note that this process trains."""
    _pai.steps += 1
