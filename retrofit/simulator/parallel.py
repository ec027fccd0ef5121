"""DataParallel with real replicas, in turn, and DistributedDataParallel without devices."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from . import devices
from .devices import CPU, torch
from .patching import replace, wrap


def install() -> None:
    """Replace what moves tensors between devices; replicate, scatter and gather then work by themselves."""
    parallel = torch.nn.parallel
    # The package has functions by the names of some of these modules.
    name = parallel.__name__
    functions, comm, scatter_gather = (sys.modules[f"{name}.{m}"] for m in ("_functions", "comm", "scatter_gather"))
    apply_module, data_module = (sys.modules[f"{name}.{m}"] for m in ("parallel_apply", "data_parallel"))
    for moving in (Broadcast, Scatter, Gather):
        replace(moving.__name__, moving, functions, scatter_gather)
    wrap("broadcast", lambda real: _broadcast, comm)
    wrap("broadcast_coalesced", lambda real: _broadcast_coalesced, comm)
    wrap("reduce_add", lambda real: _reduce_add, comm)
    wrap("reduce_add_coalesced", lambda real: _reduce_add_coalesced, comm)
    wrap("scatter", lambda real: _scatter, comm)
    wrap("gather", lambda real: _gather, comm)
    if devices.count():
        wrap("parallel_apply", lambda real: _parallel_apply, apply_module, parallel, data_module)
        wrap("data_parallel", lambda real: _data_parallel, data_module, parallel)
        wrap("__init__", _init_data_parallel, parallel.DataParallel)
        wrap("__init__", _init_distributed, parallel.DistributedDataParallel)


class Broadcast:
    """Stands for torch.nn.parallel._functions.Broadcast. Autograd adds the copies' gradients up by itself."""

    @staticmethod
    def apply(target_gpus: Any, *inputs: Any) -> tuple[Any, ...]:
        """Return the inputs as views for the first device, followed by a copy for each of the others."""
        targets = [devices.index(device) for device in target_gpus]
        first = [tensor.view_as(tensor) for tensor in inputs]
        return (*first, *(tensor.clone() for _ in targets[1:] for tensor in inputs))


class Scatter:
    """Stands for torch.nn.parallel._functions.Scatter."""

    @staticmethod
    def apply(target_gpus: Any, chunk_sizes: Any, dim: int, input: Any) -> tuple[Any, ...]:
        """Return the input in chunks: a view for the first device, copies for the others."""
        return _scatter(input, target_gpus, chunk_sizes, dim)


class Gather:
    """Stands for torch.nn.parallel._functions.Gather."""

    @staticmethod
    def apply(target_device: Any, dim: int, *inputs: Any) -> Any:
        """Return the inputs in one tensor; numbers become a vector, with torch's warning."""
        if dim == 0 and all(tensor.dim() == 0 for tensor in inputs):
            warnings.warn(
                "Was asked to gather along dimension 0, but all input tensors were scalars; "
                "will instead unsqueeze and return a vector.",
                stacklevel=2,
            )
            inputs = tuple(tensor.view(1) for tensor in inputs)
        return _gather(inputs, dim, target_device)


def _scatter(
    tensor: Any, devices: Any = None, chunk_sizes: Any = None, dim: int = 0, **options: Any
) -> tuple[Any, ...]:
    targets = _indices(devices)
    # A single view each, unlike those of chunk: in-place operations are then allowed, as on a GPU.
    sizes = chunk_sizes or [chunk.size(dim) for chunk in tensor.chunk(len(targets), dim)]
    chunks, start = [], 0
    for i, size in enumerate(sizes):
        chunk = tensor.narrow(dim, start, size)
        chunks.append(chunk.clone() if i else chunk)
        start += size
    return tuple(chunks)


def _gather(tensors: Any, dim: int = 0, destination: Any = None, **options: Any) -> Any:
    if destination != "cpu" and destination != -1:
        devices.on_cpu(devices.current() if destination is None else destination)
    return torch.cat(list(tensors), dim)


def _broadcast(tensor: Any, devices: Any = None, *, out: Any = None) -> Any:
    if out is not None:
        return tuple(copy.copy_(tensor) for copy in out)
    return (tensor, *(tensor.clone() for _ in _indices(devices)[1:]))


def _broadcast_coalesced(tensors: Any, devices: Any, buffer_size: int = 0) -> list[list[Any]]:
    return [list(tensors), *([tensor.clone() for tensor in tensors] for _ in _indices(devices)[1:])]


def _reduce_add(inputs: Any, destination: Any = None) -> Any:
    devices.index(destination)
    return torch.stack(list(inputs)).sum(0)


def _reduce_add_coalesced(inputs: Any, destination: Any = None, buffer_size: int = 0) -> tuple[Any, ...]:
    return tuple(_reduce_add(copies, destination) for copies in zip(*inputs, strict=True))


def _indices(given: Any) -> list[int]:
    return [devices.index(device) for device in given]


def _parallel_apply(modules: Any, inputs: Any, kwargs_tup: Any = None, devices: Any = None) -> list[Any]:
    options = [{}] * len(modules) if kwargs_tup is None else kwargs_tup
    targets = [None] * len(modules) if devices is None else devices
    if not len(modules) == len(inputs) == len(options) == len(targets):
        raise AssertionError("The numbers of modules, inputs, kwargs_tup and devices are not equal")
    outputs = []
    for i, (module, given, named, device) in enumerate(zip(modules, inputs, options, targets, strict=True)):
        number = torch.cuda.current_device() if device is None else _indices([device])[0]
        try:
            with torch.cuda.device(number):
                outputs.append(module(*(given if isinstance(given, (list, tuple)) else (given,)), **named))
        except Exception:
            outputs.append(torch._utils.ExceptionWrapper(where=f"in replica {i} on device {number}"))
    # As with threads, the others run when one has failed.
    for output in outputs:
        if isinstance(output, torch._utils.ExceptionWrapper):
            output.reraise()
    return outputs


def _data_parallel(
    module: Any,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    parallel = torch.nn.parallel
    given = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    targets = list(range(devices.count())) if device_ids is None else _indices(device_ids)
    scattered, options = parallel.scatter_gather.scatter_kwargs(given, module_kwargs, targets, dim)
    if not scattered and not options:
        scattered, options = ((),), ({},)
    if len(targets) == 1:
        return module(*scattered[0], **options[0])
    targets = targets[: len(scattered)]
    replicas = parallel.replicate(module, targets)
    outputs = parallel.parallel_apply(replicas, scattered, options, targets)
    return parallel.gather(outputs, targets[0] if output_device is None else output_device, dim)


def _init_data_parallel(real: Any) -> Any:
    def init(self: Any, *args: Any, **options: Any) -> None:
        real(self, *args, **options)
        self.src_device_obj = CPU  # where its forward wants the parameters to be

    return init


def _init_distributed(real: Any) -> Any:
    def init(
        self: Any, module: Any, device_ids: Any = None, output_device: Any = None, *args: Any, **options: Any
    ) -> None:
        for device in (*(device_ids or ()), output_device):
            if device is not None:
                devices.on_cpu(device) if not isinstance(device, int) else devices.index(device)
        if device_ids and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        real(self, module, None, None, *args, **options)

    return init
