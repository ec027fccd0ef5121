"""Mixed precision: what is asked of CUDA is done on the CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .devices import count, torch
from .patching import wrap


def install() -> None:
    """Replace autocast, GradScaler and the queries of autocast's state."""
    if not count():
        return
    mode = torch.amp.autocast_mode
    wrap("__init__", _autocast, torch.autocast)
    wrap("__init__", _grad_scaler, torch.amp.GradScaler)
    for name in ("custom_fwd", "custom_bwd"):
        wrap(name, _custom, torch.amp, mode)
        new = functools.partial(getattr(torch.amp, name), device_type="cuda")
        wrap(name, functools.partial(_constant, new), torch.cuda.amp, torch.cuda.amp.autocast_mode)
    # Without a device type they speak of CUDA.
    wrap("is_autocast_enabled", lambda real: lambda device_type="cuda": real(_device_type(device_type)), torch)
    wrap("get_autocast_dtype", lambda real: lambda device_type: real(_device_type(device_type)), torch)
    wrap("get_autocast_gpu_dtype", lambda real: lambda: torch.get_autocast_dtype("cpu"), torch)
    wrap("set_autocast_enabled", _set_enabled, torch)
    wrap("set_autocast_dtype", lambda real: lambda kind, dtype: real(_device_type(kind), _dtype(kind, dtype)), torch)
    wrap("set_autocast_gpu_dtype", lambda real: lambda dtype: torch.set_autocast_dtype("cuda", dtype), torch)


def _device_type(device_type: str) -> str:
    return "cpu" if device_type == "cuda" else device_type


def _dtype(device_type: str, dtype: Any) -> Any:
    # Many CPU kernels lack float16, or run it slowly. bfloat16 has its size, and rounds more coarsely.
    return torch.bfloat16 if device_type == "cuda" and dtype is torch.float16 else dtype


def _autocast(real: Any) -> Any:
    def init(self: Any, device_type: str, dtype: Any = None, *args: Any, **options: Any) -> None:
        real(self, _device_type(device_type), _dtype(device_type, dtype), *args, **options)

    return init


def _grad_scaler(real: Any) -> Any:
    def init(self: Any, device: str = "cuda", *args: Any, **options: Any) -> None:
        real(self, _device_type(device), *args, **options)

    return init


def _custom(real: Any) -> Any:
    def custom(fwd: Any = None, *, device_type: str, **options: Any) -> Any:
        if "cast_inputs" in options:
            options["cast_inputs"] = _dtype(device_type, options["cast_inputs"])
        return real(fwd, device_type=_device_type(device_type), **options)

    return custom


def _constant(new: Callable[..., Any], old: Any) -> Callable[..., Any]:
    return lambda *args, **options: new(*args, **options)


def _set_enabled(real: Any) -> Any:
    def set_autocast_enabled(*args: Any) -> None:
        device_type, enabled = args if len(args) == 2 else ("cuda", *args)
        real(_device_type(device_type), enabled)

    return set_autocast_enabled
