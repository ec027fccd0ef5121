"""torch.compile, DataLoader, optimizers and profilers, where they look for a GPU."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from .devices import torch
from .patching import wrap


def install() -> None:
    """Replace torch.compile, and what the others do on the account of a GPU."""
    wrap("compile", _compile, torch)
    wrap("__init__", _without_pinning, torch.utils.data.dataloader._BaseDataLoaderIter)
    wrap("__init__", _profile, torch.profiler.profiler._KinetoProfile)
    wrap("__init__", _autograd_profile, torch.autograd.profiler.profile)
    # There are no CUDA graphs, and each step would ask the devices; an older torch has the second name.
    for name in ("_accelerator_graph_capture_health_check", "_cuda_graph_capture_health_check"):
        wrap(name, lambda real: lambda self: None, torch.optim.Optimizer)
    # The package hides some of its modules behind functions and classes.
    users = [module for name, module in sys.modules.items() if name.startswith("torch.optim.")]
    wrap("_get_capturable_supported_devices", _capturable, sys.modules["torch.optim.optimizer"], *users)


def _compile(real: Any) -> Any:
    def compile(model: Any = None, **options: Any) -> Any:
        if model is None:
            return lambda function: compile(function, **options)
        if not isinstance(model, torch.nn.Module) or options.get("disable"):
            return model
        # Not backend="eager", which still traces: seconds for each shape, and it breaks on what it cannot follow.
        return importlib.import_module("torch._dynamo").disable(model)

    return compile


def _without_pinning(real: Any) -> Any:
    def init(self: Any, loader: Any) -> None:
        real(self, loader)
        self._pin_memory = False  # so that no thread is started; the loader's own attribute stays

    return init


def _capturable(real: Any) -> Any:
    return lambda *args, **options: [*real(*args, **options), "cpu"]


def _profile(real: Any) -> Any:
    def init(self: Any, *, activities: Any = None, **options: Any) -> None:
        if activities is not None:
            activities = [activity for activity in activities if activity != torch.profiler.ProfilerActivity.CUDA]
        real(self, activities=activities, **options)

    return init


def _autograd_profile(real: Any) -> Any:
    def init(self: Any, enabled: bool = True, **options: Any) -> None:
        options.pop("use_cuda", None)
        if options.get("use_device") == "cuda":
            del options["use_device"]
        real(self, enabled, **options)

    return init
