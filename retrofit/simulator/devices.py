"""The simulated devices: how many, which is current, and what a script means by one."""

from __future__ import annotations

import sys
import threading
from typing import Any

# To mypy Any, whether torch is installed or not: what is done here to its functions no type describes.
torch: Any = sys.modules["torch"]
RealDevice: Any = torch.device
CPU: Any = RealDevice("cpu")


class _State:
    count = 0
    used = False


class _Thread(threading.local):
    current = 0


_state = _State()
_thread = _Thread()


def set_count(count: int) -> None:
    """Set how many devices there are."""
    _state.count = count


def count() -> int:
    """Return how many devices there are."""
    return _state.count


def used() -> bool:
    """Has the process used a device yet?"""
    return _state.used


def current() -> int:
    """Return this thread's current device."""
    require()
    return _thread.current


def exchange(index: int) -> int:
    """Make a device this thread's current one. A negative index changes nothing, as in torch.cuda.

    Returns:
        The one before, or -1 where nothing has changed.
    """
    if index < 0:
        return -1
    before = _thread.current
    _thread.current = _existing(index)
    return before


def require() -> None:
    """Use CUDA.

    Raises:
        RuntimeError: there is no device.
    """
    if not _state.count:
        raise RuntimeError("No CUDA GPUs are available")
    _state.used = True


def index(device: Any = None) -> int:
    """Return the index of the CUDA device that a script names: None, a number, a string or a torch.device.

    Raises:
        RuntimeError: there is no such device.
        ValueError: it is no CUDA device.
    """
    if device is None:
        return current()
    if isinstance(device, int):
        return _existing(device)
    named = RealDevice(device) if isinstance(device, str) else device
    if named.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {device}")
    return current() if named.index is None else _existing(named.index)


def on_cpu(device: Any) -> Any:
    """Return what stands for a device that a script asks for: the CPU for a CUDA device, all else as it is.

    Raises:
        RuntimeError: there is no such CUDA device.
    """
    if isinstance(device, RealDevice):
        if device.type != "cuda":
            return device
    elif isinstance(device, str):
        if not device.startswith("cuda"):
            return device
    elif not isinstance(device, int):
        return device
    elif device < 0:  # from get_device() of a tensor
        return CPU
    index(device)
    return CPU


def _existing(number: int) -> int:
    require()
    if not 0 <= number < _state.count:
        raise RuntimeError("CUDA error: invalid device ordinal")
    return number
