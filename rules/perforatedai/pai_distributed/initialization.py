"""The end of the initialisation run: what it has seen of the layers' outputs is recorded."""

import json
import os

from perforatedai import globals_perforatedai as GPA

from .layers import _pai_fail_without_gradients, _pai_is_frozen
from .process import _pai, _pai_fail, _pai_leave, _pai_rank, _pai_say


def finish_initialization() -> None:
    """Record the layers' output shapes and leave, after the first backward pass of the initialisation run.

    A backward pass that has not reached the model, such as that of a GAN's other half, changes nothing.

    Raises:
        SystemExit: status 0; 1, with a message, where a perforated layer that is not frozen has got no gradient, or
            a thousand backward passes have not reached the model.
    """
    save = GPA.pc.get_save_name()
    layers = {layer.name: layer for layer in GPA.pai_tracker.neuron_module_vector}
    shapes = {
        name: values.dendrite_storage_shape.tolist()
        for name, layer in layers.items()
        if hasattr(values := layer.dendrite_module.dendrite_values[0], "dendrite_storage_shape")
    }
    if not shapes:
        _pai.idle_passes += 1
        if _pai.idle_passes == 1000:
            _pai_fail_without_gradients(layers.values())
        return
    for name, source in _pai.frozen.items():
        if name in layers and source in shapes:
            layers[name].dendrite_module.dendrite_values[0].setup_arrays(shapes[source])
            shapes[name] = shapes[source]
    idle = [name for name in layers if name not in shapes]
    _pai.frozen.update({name: None for name in idle if _pai_is_frozen(layers[name])})
    unused = [name for name in idle if name not in _pai.frozen]
    if unused:
        _pai_fail(
            f"The first batch gave no gradient to {', '.join(unused)}: not used, so no dendrites. "
            f"Say so before perforate_model:\n    GPA.pc.set_module_ids_to_track({unused})"
        )
    left_out = [name for name, source in _pai.frozen.items() if source is None]
    if left_out:
        _pai_say(
            f"No dendrites for {', '.join(left_out)}: frozen. If the script thaws them later and they are to have "
            "dendrites, call load_latest_switch(..., thaws=True), and initialise again"
        )
    GPA.pai_tracker.neuron_module_vector = [layers[name] for name in layers if name not in left_out]
    if _pai_rank() == 0:
        os.makedirs(save, exist_ok=True)
        for record, value in (("output_dimensions", _pai.found_dimensions), ("frozen_layers", _pai.frozen)):
            with open(os.path.join(save, f"{record}.json"), "w") as file:
                json.dump(value, file)
        GPA.pai_tracker.save_tracker_settings()
    _pai_say(f"Initialisation complete: see {save}. Now run without --perforate_model_parallel to train.")
    _pai_leave(0)
