"""Tensors, modules, storages and generators that stay on the CPU."""

from __future__ import annotations

import importlib
import inspect
import types
from collections.abc import Callable
from typing import Any

from .devices import CPU, RealDevice, count, on_cpu, require, torch
from .patching import replace, wrap

_RealGenerator: Any = torch.Generator
_device_context: Any = importlib.import_module("torch.utils._device")


def install() -> None:
    """Replace what takes a device."""
    _install_factories()  # before torch.device, to know them
    _install_devices()
    _install_tensor()
    _install_storage()
    _install_types()
    wrap("to", _move_module, torch.nn.Module)
    # torch.load asks these in the order of their numbers; that for real CUDA devices has 20.
    torch.serialization.register_package(5, lambda storage: None, _restored)
    wrap("load", _load_script, torch.jit)


class _StandIn(type):
    """The type of a class that makes objects of another one, which C does not allow to be replaced or derived from."""

    real: Any

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.real)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.real)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.real, name)


class _Device(metaclass=_StandIn):
    real = RealDevice

    def __new__(cls, *args: Any, **options: Any) -> Any:
        # Without an accelerator torch has no meaning for a number alone.
        if len(args) == 1 and isinstance(args[0], int) and not options:
            return CPU if args[0] < 0 else RealDevice("cuda", args[0])
        return RealDevice(*args, **options)


class _Generator(metaclass=_StandIn):
    real = _RealGenerator

    def __new__(cls, device: Any = "cpu") -> Any:
        return _RealGenerator(on_cpu(device))


def _install_devices() -> None:
    for name, new in (("device", _Device), ("Generator", _Generator)):
        new.__name__ = new.__qualname__ = name
        new.__module__ = "torch"
        new.__doc__ = getattr(torch, name).__doc__
        replace(name, new, torch)
    # `with torch.device("cuda")` makes one, and so does set_default_device.
    wrap("__init__", _takes_device(1), _device_context.DeviceContext)
    wrap("set_default_device", _set_default_device, torch)


def _set_default_device(real: Callable[..., None]) -> Callable[..., None]:
    def set_default_device(device: Any) -> None:
        # A default of "cpu" is a function mode, which slows every call down; None is the same without one.
        real(None if on_cpu(device) is CPU else device)

    return set_default_device


def _takes_device(position: int) -> Callable[[Any], Any]:
    """Return what wraps a function whose argument at a position, or by the name of device, may be a device."""

    def make(real: Callable[..., Any]) -> Callable[..., Any]:
        def function(*args: Any, **options: Any) -> Any:
            if len(args) > position:
                args = (*args[:position], on_cpu(args[position]), *args[position + 1 :])
            if options.get("device") is not None:
                options["device"] = on_cpu(options["device"])
            return real(*args, **options)

        return function

    return make


def _factory(real: Callable[..., Any]) -> Callable[..., Any]:
    def function(*args: Any, **options: Any) -> Any:
        if options:
            if options.get("device") is not None:
                options["device"] = on_cpu(options["device"])
            options.pop("pin_memory", None)
        return real(*args, **options)

    return function


def _install_factories() -> None:
    # What belongs to a default device is looked up once, by identity, and has to be the real functions.
    constructors = _device_context._device_constructors()
    for module, prefix in ((torch, ""), (torch.fft, "fft_"), (torch.special, "special_")):
        for name in dir(module):
            function = getattr(module, name)
            if name.startswith("_") or isinstance(function, (type, types.ModuleType)) or not callable(function):
                continue
            if function in constructors or _has_device(function, f"aten::{prefix}{name}"):
                wrap(name, _factory, module)
    for module in (torch.nested, torch.signal.windows):
        for name in module.__all__:
            if _has_device(getattr(module, name), f"aten::{name}"):
                wrap(name, _factory, module)


def _has_device(function: Any, operator: str) -> bool:
    """Does a function take `device=`? Python says so in its signature, an operator in its schemas."""
    if isinstance(function, types.FunctionType):
        return "device" in inspect.signature(function).parameters
    schemas = torch._C._jit_get_schemas_for_operator(operator)
    return any(argument.name == "device" for schema in schemas for argument in schema.arguments)


def _method(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what wraps a tensor's method so that subclasses with __torch_function__ get to know of it, as from C."""

    def wrapping(real: Any) -> Any:
        simulated = make(real)

        def method(self: Any, *args: Any, **options: Any) -> Any:
            if torch.overrides.has_torch_function_unary(self):
                return torch.overrides.handle_torch_function(method, (self,), self, *args, **options)
            return simulated(self, *args, **options)

        return method

    return wrapping


def _install_tensor() -> None:
    for name, make in (("to", _to), ("cuda", _cuda), ("cpu", _copy_to_cpu), ("type", _type)):
        wrap(name, _method(make), torch.Tensor)
    for name in dir(torch.Tensor):
        if name == "new" or name.startswith("new_"):
            wrap(name, _method(_factory), torch.Tensor)
    wrap("pin_memory", lambda real: lambda self, device=None: self, torch.Tensor)
    wrap("is_pinned", lambda real: lambda self, device=None: False, torch.Tensor)
    wrap("record_stream", lambda real: lambda self, stream: None, torch.Tensor)


def _to(real: Any) -> Any:
    def to(self: Any, *args: Any, **options: Any) -> Any:
        device = args[0] if args else options.get("device")
        if not isinstance(device, (str, int, RealDevice)):
            return real(self, *args, **options)
        target = on_cpu(device)
        if args:
            args = (target, *args[1:])
        else:
            options["device"] = target
        result = real(self, *args, **options)
        # Not for a torch.device, which may be what another tensor has said of itself.
        return _copied(result) if device == "cpu" and result is self else result

    return to


def _cuda(real: Any) -> Any:
    def cuda(self: Any, device: Any = None, non_blocking: bool = False, **options: Any) -> Any:
        require()
        # Some scripts say where to with None.
        return self.to("cuda" if device is None else device, **options)

    return cuda


def _copy_to_cpu(real: Any) -> Any:
    return lambda self, *args, **options: _copied(real(self, *args, **options))


def _copied(tensor: Any) -> Any:
    """Return a copy, which a tensor from a GPU is: `best = {k: v.cpu() ...}` must not follow the training.

    A tensor that requires a gradient stays, to remain a leaf; one shared by processes stays, to remain shared.
    """
    if tensor.requires_grad or tensor.layout is not torch.strided or tensor.untyped_storage().is_shared():
        return tensor
    return tensor.clone()


def _type(real: Any) -> Any:
    def type(self: Any, dtype: Any = None, *args: Any, **options: Any) -> Any:
        return real(self, _cpu_type(dtype), *args, **options)

    return type


def _cpu_type(name: Any) -> Any:
    return name.replace("torch.cuda.", "torch.") if isinstance(name, str) else name


def _install_types() -> None:
    if not count():
        return
    for suffix in ("Tensor", "Storage"):
        for name in dir(torch.cuda):
            if name.endswith(suffix) and hasattr(torch, name):
                replace(name, getattr(torch, name), torch.cuda)
    for name in dir(torch.cuda.sparse):
        if name.endswith("Tensor") and hasattr(torch.sparse, name):
            replace(name, getattr(torch.sparse, name), torch.cuda.sparse)
    wrap("set_default_tensor_type", lambda real: lambda kind: real(_cpu_type(kind)), torch)


def _move_module(real: Any) -> Any:
    def to(self: Any, *args: Any, **options: Any) -> Any:
        if args:
            args = (on_cpu(args[0]), *args[1:])
        if options.get("device") is not None:
            options["device"] = on_cpu(options["device"])
        return real(self, *args, **options)

    return to


def _install_storage() -> None:
    def cuda(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
        on_cpu("cuda" if device is None else device)
        return self

    for storage in (torch.storage._StorageBase, torch.TypedStorage):
        wrap("cuda", lambda real: cuda, storage)
        wrap("to", _takes_device(1), storage)
        wrap("pin_memory", lambda real: lambda self, device=None: self, storage)
        wrap("is_pinned", lambda real: lambda self, device=None: False, storage)


def _restored(storage: Any, location: str) -> Any:
    if not location.startswith("cuda"):
        return None
    on_cpu(location)
    return storage


def _load_script(real: Any) -> Any:
    def load(f: Any, map_location: Any = None, *args: Any, **options: Any) -> Any:
        return real(f, on_cpu(map_location), *args, **options)

    return load
