"""The newest structure and weights, for a round that starts, and the output dimensions that go with them."""

import itertools
import json
import os
import re
import sys
from typing import Any

import safetensors
import torch
from perforatedai import globals_perforatedai as GPA
from perforatedai import utils_perforatedai as UPA

from .layers import (
    _pai_freeze_averages,
    _pai_frozen_layers,
    _pai_layer_prefixes,
    _pai_layers,
    _pai_leave_frozen_layers_out,
)
from .library import _pai_copy_tied_tensors, _pai_hide_records, _pai_with_frozen_parameters
from .process import _pai, _pai_device, _pai_fail, _pai_say, initializing


def load_latest_switch(
    model: torch.nn.Module,
    folder: str | None,
    output_dimensions: dict[str, list[int]] | None = None,
    *,
    thaws: bool = False,
) -> torch.nn.Module:
    """Give the perforated model its output dimensions and, after a restart, its newest structure and weights.

    The initialisation run watches its batch for layers whose output has other dimensions than the library
    expects, such as a Linear in a Transformer, where the library would leave in the middle of backward, with
    status 0 (measured). Later runs set them before they load, else it would load a part and go on (measured).

    A layer that is frozen in the initialisation run stays as it is, without dendrites, in all runs. One that holds an
    average over time of another (a momentum encoder) grows with that, so that their parameters still make pairs.

    Args:
        model: what `UPA.perforate_model` returned, not wrapped yet.
        folder: where the switch files are, or None to start from the beginning.
        output_dimensions: your own word on layers, by name: 0 where the neurons are and -1 elsewhere, as in
            {"encoder.linear1": [-1, -1, 0]}. It beats what was found.
        thaws: frozen layers will learn later, and get dendrites. The batch of the initialisation run thaws them.

    Returns:
        The model, on the device where it was.

    Raises:
        SystemExit: status 1, with a message: no initialisation run, or one with another model.
    """
    _pai.model = model
    save = GPA.pc.get_save_name()
    GPA.pai_tracker.setup_optimizer = _pai_with_frozen_parameters(GPA.pai_tracker.setup_optimizer)
    # The library cannot save tied tensors, such as a language model's embedding and head: "Some tensors share
    # memory"; what it saves with weight_tying_experimental, a new process cannot load (both measured).
    model.register_state_dict_post_hook(_pai_copy_tied_tensors)
    for part in model.modules():
        if _pai_layer_prefixes(part):
            part.register_load_state_dict_pre_hook(_pai_take_plain_names)
    _pai_hide_records(model)
    if initializing():
        _pai.frozen.update(_pai_frozen_layers(model, thaws))
        _pai_leave_frozen_layers_out(model)
        _pai_set_output_dimensions(model, output_dimensions or {})
        for layer in _pai_layers(model):
            layer.register_forward_hook(_pai_note_output_dimensions)
            if thaws and layer.name not in _pai.frozen:
                layer.register_forward_pre_hook(_pai_thaw)
        return model
    _pai.frozen.update(_pai_record(save, "frozen_layers"))
    _pai_leave_frozen_layers_out(model)
    _pai_require_initialization(model, save)
    _pai_set_output_dimensions(model, _pai_record(save, "output_dimensions"))
    _pai_set_output_dimensions(model, output_dimensions or {})
    GPA.pai_tracker.initialize_tracker_settings()  # now, so that a copy made from here on has all buffers
    if not folder:
        return model
    names = os.listdir(folder) if os.path.isdir(folder) else []
    numbers = [int(match[1]) for name in names if (match := re.fullmatch(r"switch_(\d+)\.pt", name))]
    for number in sorted(numbers, reverse=True):
        path = os.path.join(folder, f"switch_{number}.pt")
        try:
            # Compares the header with the length: a file cut short shows before the model changes.
            with safetensors.safe_open(path, framework="pt"):
                pass
        except (OSError, safetensors.SafetensorError) as error:
            _pai_say(f"{path} cannot be read ({error}); falling back to the one before it")
            continue
        device = _pai_device(model)  # the library moves the model to its own
        _pai.model = model = UPA.load_system(model, folder, f"switch_{number}", True).to(device)
        _pai_freeze_averages(model)
        _pai_say(f"Loaded {path}")
        _pai_let_restored_weights_win(model)
        return model
    _pai_say(f"Starting from the beginning: {folder} has no switch_N.pt that can be read")
    return model


def _pai_record(save: str, name: str) -> dict[str, Any]:
    """What the initialisation run has found; nothing, where it was made by other means."""
    path = os.path.join(save, f"{name}.json")
    if not os.path.exists(path):
        return {}
    with open(path) as file:
        return dict(json.load(file))


def _pai_require_initialization(model: torch.nn.Module, save: str) -> None:
    """Leave with a message where the library would open a debugger."""
    path = os.path.join(save, "array_dims.csv")
    start = "torchrun --nproc_per_node=1" if "LOCAL_RANK" in os.environ else "python"
    cure = f"Run once, with your arguments:\n    {start} {sys.argv[0]} --perforate_model_parallel"
    if not os.path.exists(path):
        _pai_fail(f"{path} is missing. {cure}")
    with open(path) as file:
        known = {line.partition(",")[0] for line in file}
    if not known.issuperset(layer.name for layer in _pai_layers(model)):
        _pai_fail(f"{path} was made with another model. {cure}")


def _pai_set_output_dimensions(model: torch.nn.Module, output_dimensions: dict[str, list[int]]) -> None:
    layers = {layer.name.lstrip("."): layer for layer in _pai_layers(model)}
    for name, dimensions in output_dimensions.items():
        if name.lstrip(".") not in layers:
            _pai_fail(f"Output dimensions of {name}: no such perforated layer. There are {', '.join(layers)}")
        layers[name.lstrip(".")].set_this_output_dimensions(dimensions)


def _pai_note_output_dimensions(layer: Any, _inputs: Any, output: Any) -> None:
    """Forward hook: set what the library's backward hook is about to check, and remember it."""
    if not isinstance(output, torch.Tensor) or output.dim() == len(layer.this_output_dimensions):
        return
    convolution = any(isinstance(part, torch.nn.modules.conv._ConvNd) for part in layer.main_module.modules())
    dimensions = [-1] * output.dim()
    dimensions[1 if convolution and output.dim() > 2 else -1] = 0
    layer.set_this_output_dimensions(dimensions)
    _pai.found_dimensions[layer.name] = dimensions


def _pai_thaw(layer: torch.nn.Module, _inputs: Any) -> None:
    """Forward hook: let a frozen layer learn, in the initialisation run, so that its output's shape is recorded."""
    layer.requires_grad_(True)


def _pai_take_plain_names(model: torch.nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Load hook: weights of the model as it was before dendrites go to the script's own layers, which they are of.

    Without it a script that loads pretrained weights later, with strict=False, would train on without them. In the
    initialisation run, which has no wrapper, so do those of a wrapped model.
    """
    of_wrapped = not prefix and "module" not in model._modules and all(name.startswith("module.") for name in state)
    if of_wrapped and initializing():
        for name in list(state):
            state[name.removeprefix("module.")] = state.pop(name)
    layers = _pai_layer_prefixes(model)
    plain, of_library = False, {}
    for name, value in model.state_dict().items():
        layer = next((layer for layer in layers if name.startswith(layer)), None)
        if layer is None:
            continue
        if name.startswith(f"{layer}main_module."):
            old = prefix + layer + name.removeprefix(f"{layer}main_module.")
            if old in state:
                state[prefix + name] = state.pop(old)
                plain = True
        else:
            of_library[prefix + name] = value
    if plain:  # what is the library's own stays as it is
        state.update({name: value for name, value in of_library.items() if name not in state})


def _pai_let_restored_weights_win(model: torch.nn.Module) -> None:
    """Undo, before the first batch, what a script does to the model's weights each time that it starts.

    It loads pretrained weights, or initialises a part: in a restarted round that would be over what was learned.
    """
    state = model.state_dict().items()
    restored = {name: value.to("cpu", copy=True) for name, value in state if isinstance(value, torch.Tensor)}

    def put_back(module: torch.nn.Module, _inputs: Any) -> None:
        # Not as a hook of the model: torch.compile would bake it in. Its own call is seen here, as DDP's is.
        if torch.compiler.is_compiling() or not (model.training and torch.is_grad_enabled()):
            return
        if all(part is not model for part in module.modules()):
            return
        hook.remove()
        changed = []
        for name, value in itertools.chain(model.named_parameters(), model.named_buffers()):
            old = restored.get(name, value)
            if old.shape == value.shape and not torch.equal(old.to(value), value):
                value.data.copy_(old)
                changed.append(name)
        if changed:
            _pai_say(f"The script had changed {len(changed)} of the restored weights ({changed[0]}, ...): put back")

    hook = torch.nn.modules.module.register_module_forward_pre_hook(put_back)
