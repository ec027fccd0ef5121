"""The script's own optimizer, and the gradients before its steps."""

import os
from typing import Any

import torch
from perforatedai import globals_perforatedai as GPA
from torch.optim.optimizer import register_optimizer_step_post_hook

from .layers import _pai_twin
from .process import _pai, _pai_fail, _pai_grouped


def set_optimizer_instance(optimizer: Any) -> None:
    """Tell the library of an optimizer that the script builds itself.

    As `GPA.pai_tracker.set_optimizer_instance`; besides, `add_validation_score` gives it the parameters of the
    restructured model. It stays the same object, so schedulers and whatever else holds it go on with it.

    Where no model is perforated, as in another script that builds its optimizer by the same function, it does nothing.

    Args:
        optimizer: the optimizer, with parameters of the perforated model in its groups, or an object that holds it.

    Raises:
        SystemExit: status 1, with a message, where it is none and does not hold one.
    """
    if not GPA.pai_tracker:
        return
    _pai.optimizer = _pai_torch_optimizer(optimizer)
    GPA.pai_tracker.set_optimizer_instance(_pai.optimizer)


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


def _pai_renew(optimizer: torch.optim.Optimizer, net: torch.nn.Module, names: dict[int, str]) -> None:
    """Give the script's own optimizer the restructured model's parameters, and no state, as if built anew.

    A parameter goes to the group in which its name was, one of dendrites to the group of that parameter of the
    script's own layer whose copy it is, or else of the layer's first. What was in no group stays out.

    Args:
        names: the parameters' names before the restructuring, by their identities.
    """
    groups = {names[id(p)]: group for group in optimizer.param_groups for p in group["params"] if id(p) in names}
    for path, layer in net.named_modules():
        if type(layer).__name__ == "PAINeuronModule":
            path = path and f"{path}."
            own = [name for name, _ in layer.main_module.named_parameters()]
            for name, _ in layer.named_parameters():
                group = groups.get(f"{path}main_module.{_pai_twin(name, own)}")
                if group is not None:
                    groups.setdefault(path + name, group)
    for group in optimizer.param_groups:  # what is not the model's, such as a loss's weights, stays
        group["params"][:] = [parameter for parameter in group["params"] if id(parameter) not in names]
    for name, parameter in net.named_parameters():
        if name in groups:  # at rest too: a script may freeze its model while it validates
            groups[name]["params"].append(parameter)
    optimizer.state.clear()
    if isinstance(optimizer, torch.optim.Adagrad):  # makes its state in advance
        optimizer.state.update(torch.optim.Adagrad(optimizer.param_groups, **optimizer.defaults).state)
    GPA.pai_tracker.set_optimizer_instance(optimizer)


@register_optimizer_step_post_hook
def _pai_count_step(*_: Any) -> None:
    """Optimizer hook: note that this process trains."""
    _pai.steps += 1
