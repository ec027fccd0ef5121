"""perforatedai as several processes without a terminal need it: its settings, one rank at a time, what it saves."""

import contextlib
import functools
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import torch
from perforatedai import globals_perforatedai as GPA
from perforatedai import utils_perforatedai as UPA

from .process import _pai_cuda_index, _pai_publish_rank

# Copies of a model share its layers' settings: each of its own would read SAVE_config.json, which other ranks may be
# writing (JSONDecodeError, measured).
type(GPA.pc).__deepcopy__ = lambda settings, _: settings


def configure_library(*, restarts: bool = True) -> None:
    """Make the settings that a run without a terminal and with several processes needs.

    A setting that the script has made itself before stays, but for a capacity test. Make yours with
    `GPA.pc.set_...`, not `append_...`: what this process has not set comes from SAVE/SAVE_config.json, if
    there is one (measured).

    Args:
        restarts: training restarts after each restructuring (DistributedDataParallel). The library's search
            for a learning rate is then off: it says "restructured" without writing a new switch file, so
            every restart would repeat it, for ever (measured, with a registered scheduler).
    """
    cuda = torch.cuda.is_available()
    settings = {
        "configuration_confirmed": True,  # else a configuration screen
        "unwrapped_modules_confirmed": True,  # else a debugger prompt about norm layers
        "testing_dendrite_capacity": False,  # the library's default is a test
        # The JSON has the device of the process that wrote it last.
        "use_cuda": cuda,
        "device": torch.device("cuda", _pai_cuda_index()) if cuda else torch.device("cpu"),
    }
    if restarts:
        settings["find_best_lr"] = False
    made = GPA.pc._manually_set_keys
    for name in settings.keys() - made:
        getattr(GPA.pc, f"set_{name}")(settings[name])
    if os.environ.get("PAI_TESTING_DENDRITE_CAPACITY") == "1":
        GPA.pc.set_testing_dendrite_capacity(True)
    # In evaluation torch's fast path for TransformerEncoderLayer goes past the layers, and so past their
    # dendrites (measured): scores would leave them out.
    torch.backends.mha.set_fastpath_enabled(False)


def save_name(name: str) -> str:
    """The folder to save in: `name`, or another one for a capacity test.

    A real run in a capacity test's folder would load the test's dendrites and stop after an epoch (measured).
    """
    return name + "_capacity_test" if os.environ.get("PAI_TESTING_DENDRITE_CAPACITY") == "1" else name


@contextlib.contextmanager
def one_rank_at_a_time() -> Iterator[None]:
    """Let one process at a time run the `with` block, which holds `UPA.perforate_model(...)`.

    Every rank reads and rewrites SAVE/SAVE_config.json there. All at once, one reads what another has half
    written: JSONDecodeError (measured). A file's lock needs no process group, and ends with its process.
    """
    _pai_publish_rank()
    with contextlib.ExitStack() as stack:
        if sys.platform != "win32":  # which has no fcntl
            import fcntl

            # In the working folder, as SAVE is; if the file system cannot lock there, in the node's own.
            for folder in (".", tempfile.gettempdir()):
                with contextlib.suppress(OSError):
                    lock = stack.enter_context(open(os.path.join(folder, f".pai_{os.getuid()}.lock"), "a"))
                    fcntl.flock(lock, fcntl.LOCK_EX)
                    break
        if torch.cuda.is_available():
            stack.enter_context(torch.cuda.device(_pai_cuda_index()))
        yield


def _pai_hide_records(model: torch.nn.Module, hide: bool = True) -> None:
    """Keep out of the model's state, but for the library, what an average of the weights cannot take in.

    `tracker_string`, the library's records as text, is longer after each score and not the same on all ranks: a copy
    of the model, a checkpoint and DistributedDataParallel's broadcast stumble over it (measured). So it is no buffer,
    but an attribute, which serves the library as well. Of a `this_node_index` of 3 an average makes 2 (measured).
    """
    for module in model.modules():
        if "this_node_index" in module._buffers:
            (module._non_persistent_buffers_set.add if hide else module._non_persistent_buffers_set.discard)(
                "this_node_index"
            )
    if hide and "tracker_string" in model._buffers:
        model.__dict__["tracker_string"] = model._buffers.pop("tracker_string")
    elif not hide and "tracker_string" in model.__dict__:
        model.register_buffer("tracker_string", model.__dict__.pop("tracker_string"))


def _pai_with_records(function: Callable[..., Any]) -> Callable[..., Any]:
    """What the library saves and loads holds its records."""

    @functools.wraps(function)
    def save_or_load(net: torch.nn.Module, *arguments: Any) -> Any:
        _pai_hide_records(net, False)
        try:
            return function(net, *arguments)
        finally:
            _pai_hide_records(net)

    return save_or_load


def _pai_copy_tied_tensors(_model: Any, state: dict[str, Any], _prefix: str, _metadata: Any) -> None:
    """State-dict hook: give each further name of a tied parameter a copy. In the model they stay tied."""
    known = set()
    for name, tensor in state.items():
        if isinstance(tensor, torch.Tensor) and tensor.numel():
            place = (tensor.data_ptr(), tensor.shape, tensor.stride())
            if place in known:
                state[name] = tensor.clone()
            known.add(place)


def _pai_with_frozen_parameters(setup: Callable[..., Any]) -> Callable[..., Any]:
    """Let the optimizer have the frozen parameters that the script gives it, as torch does: they may thaw later.

    The library leaves them out, so that they would never learn (measured).
    """

    @functools.wraps(setup)
    def setup_optimizer(net: torch.nn.Module, *arguments: Any, **keywords: Any) -> Any:
        frozen = [p for p in net.parameters() if not p.requires_grad and p.is_floating_point()]
        try:
            for parameter in frozen:
                parameter.requires_grad_(True)
            return setup(net, *arguments, **keywords)
        finally:
            for parameter in frozen:
                parameter.requires_grad_(False)

    return setup_optimizer


UPA.save_net, UPA.load_net = _pai_with_records(UPA.save_net), _pai_with_records(UPA.load_net)
