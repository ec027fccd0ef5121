"""The layers that get dendrites, those that do not, and the script's own view of its model."""

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import torch
from perforatedai import globals_perforatedai as GPA

from .process import _pai, _pai_fail


def own_state_dict(model: torch.nn.Module) -> dict[str, Any]:
    """The state of the script's own layers by the names from before dendrites, for a script's own check of them.

    Args:
        model: the model, wrapped or not. A wrapper's prefix stays in the names.
    """
    layers = _pai_layer_prefixes(model)
    own = {}
    for name, value in model.state_dict().items():
        layer = next((layer for layer in layers if name.startswith(layer)), None)
        if layer is not None and name.startswith(f"{layer}main_module."):
            own[name.replace(f"{layer}main_module.", layer, 1)] = value
        elif layer is None:
            own[name] = value
    return own


def own_named_parameters(model: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Parameter]]:
    """All parameters by the names from before dendrites, for a script that chooses some by their whole names.

    A parameter of dendrites comes with the name of that one of the script's own layer whose copy it is, or else of
    the layer's first, so that names repeat.

    Args:
        model: the model, wrapped or not. A wrapper's prefix stays in the names.
    """
    layers = {}
    for prefix in _pai_layer_prefixes(model):
        layer = model.get_submodule(f"{prefix}main_module")
        layers[prefix] = [name for name, _ in layer.named_parameters()]
    for name, parameter in model.named_parameters():
        prefix = next((prefix for prefix, own in layers.items() if name.startswith(prefix) and own), None)
        if prefix is not None:
            name = prefix + _pai_twin(name.removeprefix(prefix), layers[prefix])
        yield name, parameter


def own_modules(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The script's own modules, as `model.modules()` had them before dendrites, for a script that counts some of them.

    Dendrites hold copies of their layer, even where there are none yet.

    Args:
        model: the model, wrapped or not.
    """
    copies: set[torch.nn.Module] = set()
    for layer in model.modules():
        if type(layer).__module__.partition(".")[0] == "perforatedai":
            copies |= set(layer.modules()) - set(getattr(layer, "main_module", torch.nn.Module()).modules())
    return [module for module in model.modules() if module not in copies]


def _pai_unwrap(model: torch.nn.Module) -> torch.nn.Module:
    """The script's own model inside DistributedDataParallel, DataParallel and torch.compile."""
    while True:
        inner = getattr(model, "module", getattr(model, "_orig_mod", None))
        if not isinstance(inner, torch.nn.Module) or inner is model:
            return model
        model = inner


def _pai_layers(model: torch.nn.Module) -> list[Any]:
    """The layers that get dendrites. The script's own layer is the `main_module` of each."""
    return [module for module in model.modules() if type(module).__name__ == "PAINeuronModule"]


def _pai_layer_prefixes(model: torch.nn.Module) -> list[str]:
    """The beginnings of the names in a state dict of all layers that the library has wrapped, or only tracks."""
    return [
        path and f"{path}."
        for path, layer in model.named_modules()
        if type(layer).__module__.partition(".")[0] == "perforatedai" and hasattr(layer, "main_module")
    ]


def _pai_twin(name: str, own: list[str]) -> str:
    """The parameter of a script's own layer that one of the library's around it is, or is a copy of."""
    return max((other for other in own if f".{name}".endswith(f".{other}")), key=len, default=own[0])


def _pai_settle(model: torch.nn.Module, device: torch.device) -> None:
    """Bring what the library has made to the model's device, and let it make the rest there."""
    GPA.pc.set_device(device)
    for layer in _pai_layers(model):
        layer.to(device)


def _pai_is_frozen(layer: Any) -> bool:
    """Has the script frozen all of its own layer?"""
    return not any(parameter.requires_grad for parameter in layer.main_module.parameters())


def _pai_frozen_layers(model: torch.nn.Module, thaws: bool) -> dict[str, str | None]:
    """The layers that are frozen, and those of which they are averages over time: so far, they are their copies."""
    layers = _pai_layers(model)
    found: dict[str, str | None] = {}
    for layer in filter(_pai_is_frozen, layers):
        state = layer.main_module.state_dict()
        for other in layers:
            others = {} if _pai_is_frozen(other) else other.main_module.state_dict()
            if state.keys() == others.keys() and all(torch.equal(state[name], others[name]) for name in state):
                found[layer.name] = other.name
        if not thaws:
            found.setdefault(layer.name, None)
    return found


def _pai_leave_frozen_layers_out(model: torch.nn.Module) -> None:
    """Put the script's own layers back in the place of those which get no dendrites."""
    layers = _pai_layers(model)
    left_out = [layer for layer in layers if _pai.frozen.get(layer.name, "") is None]
    if layers and len(left_out) == len(layers):
        _pai_fail_without_gradients(layers)
    for module in list(model.modules()):
        for name, child in list(module._modules.items()):
            if child is not None and child in left_out:
                setattr(module, name, child.main_module)
    tracker = GPA.pai_tracker
    tracker.neuron_module_vector = [layer for layer in tracker.neuron_module_vector if layer not in left_out]
    for scores in ("best_scores", "current_scores"):  # the library has one list for each layer
        tracker.member_vars[scores] = [[] for _ in tracker.neuron_module_vector]


def _pai_freeze_averages(net: torch.nn.Module) -> None:
    """Let the new dendrites of an average over time be no more than that."""
    for layer in _pai_layers(net):
        if layer.name in _pai.frozen:
            layer.requires_grad_(False)


def _pai_fail_without_gradients(layers: Iterable[Any]) -> NoReturn:
    _pai_fail(
        "No layer that could have dendrites gets a gradient: "
        + ", ".join(f"{layer.name} ({'frozen' if _pai_is_frozen(layer) else 'not used'})" for layer in layers)
        + ". Is it another model that learns?"
    )
