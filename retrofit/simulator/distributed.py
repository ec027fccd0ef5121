"""torch.distributed, where nccl is gloo."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

from . import devices
from .devices import torch
from .patching import asked_by_torch, wrap

dist: Any = torch.distributed

# What the script has asked for, by the groups' names.
_asked: dict[str, str] = {}


def install() -> None:
    """Replace the functions that a script calls with nccl in mind."""
    if not dist.is_available():
        return
    c10d = dist.distributed_c10d
    wrap("init_process_group", _init_process_group, dist, c10d)
    wrap("new_group", _new_group, dist, c10d)
    wrap("get_backend", _get_backend, dist, c10d)
    wrap("is_nccl_available", lambda real: lambda: real() if asked_by_torch() else True, dist, c10d)
    wrap("is_backend_available", _is_backend_available, dist, c10d)
    wrap("barrier", _barrier, dist, c10d)
    for name in ("reduce_scatter", "reduce_scatter_tensor"):
        wrap(name, _reduce_scatter, dist, c10d)
    for name in ("all_reduce", "reduce", "all_reduce_coalesced", "reduce_scatter", "reduce_scatter_tensor"):
        wrap(name, _averaging, dist, c10d)
    mesh = dist.device_mesh
    wrap("init_device_mesh", _on_cpu_mesh(0), mesh, dist)
    if isinstance(getattr(mesh, "DeviceMesh", None), type):
        wrap("__init__", _on_cpu_mesh(1), mesh.DeviceMesh)


def _gloo(backend: Any) -> Any:
    if not backend:
        return backend
    names = [part.rpartition(":")[2] for part in str(backend).lower().split(",")]
    return "gloo" if "nccl" in names else backend


def _init_process_group(real: Any) -> Any:
    def init_process_group(backend: Any = None, *args: Any, **options: Any) -> None:
        options = _without_device(options)
        # Without a name torch takes nccl for its GPUs as well.
        real(_gloo(backend) or "gloo", *args, **options)
        _remember(dist.group.WORLD, backend)

    return init_process_group


def _new_group(real: Any) -> Any:
    def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **options: Any) -> Any:
        group = real(ranks, timeout, _gloo(backend), *args, **_without_device(options))
        _remember(group, backend or _asked.get(dist.group.WORLD.group_name))
        return group

    return new_group


def _without_device(options: dict[str, Any]) -> dict[str, Any]:
    """Check and leave out the device that a group is bound to, and options that are nccl's."""
    if options.get("device_id") is not None:
        devices.index(options["device_id"])
    return {name: value for name, value in options.items() if name not in ("device_id", "pg_options")}


def _remember(group: Any, backend: Any) -> None:
    if not isinstance(group, dist.ProcessGroup):  # this process is not in it
        return
    _asked.pop(group.group_name, None)
    if backend:
        _asked[group.group_name] = str(backend).lower()


def _get_backend(real: Any) -> Any:
    def get_backend(group: Any = None) -> Any:
        truth = real(group)
        if asked_by_torch():
            return truth
        return dist.Backend(_asked.get((group or dist.group.WORLD).group_name, truth))

    return get_backend


def _is_backend_available(real: Any) -> Any:
    return lambda backend: str(backend).lower() == "nccl" or real(backend)


def _barrier(real: Any) -> Any:
    def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None, **options: Any) -> Any:
        for device in device_ids or ():
            devices.index(device)
        return real(group, async_op, **options)

    return barrier


class Work:
    """An asynchronous operation, with something left to do once it has run."""

    def __init__(self, work: Any, finish: Callable[[], None]) -> None:
        self._work = work
        self._finish: Callable[[], None] | None = finish
        self._lock = threading.Lock()  # futures finish in another thread

    def wait(self, *args: Any, **options: Any) -> bool:
        """Wait, and finish."""
        self._work.wait(*args, **options)
        self._finish_once()
        return True

    def get_future(self) -> Any:
        """Return a future that finishes."""

        def then(future: Any) -> Any:
            self._finish_once()
            return future.value()

        return self._work.get_future().then(then)

    def _finish_once(self) -> None:
        with self._lock:
            finish, self._finish = self._finish, None
            if finish is not None:
                finish()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


def _finished(work: Any, finish: Callable[[], None]) -> Any:
    """Return a collective's result, with something to do after it: later, if it runs in the background."""
    if work is None:
        finish()
        return None
    return Work(work, finish)


def _averaging(real: Any) -> Any:
    """Make a collective whose first argument is the result know ReduceOp.AVG, which gloo has not."""
    signature = inspect.signature(real)

    def function(*args: Any, **options: Any) -> Any:
        call = signature.bind(*args, **options)
        if call.arguments.get("op", dist.ReduceOp.SUM) != dist.ReduceOp.AVG:
            return real(*args, **options)
        call.arguments["op"] = dist.ReduceOp.SUM
        result = next(iter(call.arguments.values()))
        group = call.arguments.get("group")

        def divide() -> None:
            size = dist.get_world_size(group)
            if size < 1 or (call.arguments.get("dst") is not None and not _receives(call.arguments)):
                return
            for tensor in [result] if isinstance(result, torch.Tensor) else result:
                tensor.div_(size, rounding_mode=None if tensor.is_floating_point() else "trunc")

        return _finished(real(*call.args, **call.kwargs), divide)

    return function


def _receives(arguments: dict[str, Any]) -> bool:
    return bool(dist.get_rank() == arguments["dst"])


def _reduce_scatter(real: Any) -> Any:
    """Make it of an all_reduce."""

    def reduce_scatter(
        output: Any, input: Any, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False
    ) -> Any:
        whole = input.clone() if isinstance(input, torch.Tensor) else torch.stack(list(input))
        work = dist.all_reduce(whole, op, group, async_op)
        size, rank = dist.get_world_size(group), dist.get_rank(group)
        return _finished(work, lambda: output.copy_(whole.view(size, *output.shape)[rank]))

    return reduce_scatter


def _on_cpu_mesh(position: int) -> Callable[[Any], Any]:
    def make(real: Any) -> Any:
        def function(*args: Any, **options: Any) -> Any:
            if len(args) > position:
                args = (*args[:position], _cpu_type(args[position]), *args[position + 1 :])
            elif "device_type" in options:
                options["device_type"] = _cpu_type(options["device_type"])
            return real(*args, **options)

        return function

    return make


def _cpu_type(device_type: Any) -> Any:
    return "cpu" if device_type == "cuda" else device_type
