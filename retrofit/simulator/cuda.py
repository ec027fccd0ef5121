"""torch.cuda and torch.accelerator: devices, streams, events, random states and the rest of the queries."""

from __future__ import annotations

import collections
import contextlib
import inspect
import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from . import devices
from .devices import RealDevice, torch
from .patching import NotSimulated, replace, wrap

_MEMORY = 16 * 2**30
# What torch.cuda offers that needs no simulation, as it asks what is simulated.
_AS_IT_IS = {"device", "device_of", "CudaError", "DeferredCudaCallError", "cudaStatus"}


class Stream:
    """A stream. Whatever is put on it has run when the call returns."""

    _numbers = itertools.count(1)

    def __init__(self, device: Any = None, priority: int = 0, **options: Any) -> None:
        self.device = RealDevice("cuda", devices.index(device))
        self.device_index = self.device.index
        self.priority = priority
        self.stream_id = options.get("stream_id", next(Stream._numbers))
        self.cuda_stream = self.stream_id
        self._before: list[Any] = []

    def synchronize(self) -> None:
        """Wait, which needs no time."""

    def query(self) -> bool:
        """Has everything run?"""
        return True

    def is_capturing(self) -> bool:
        """Is a CUDA graph being captured?"""
        return False

    def wait_event(self, event: Any) -> None:
        """Wait for an event, which needs no time."""

    def wait_stream(self, stream: Any) -> None:
        """Wait for another stream, which needs no time."""

    def record_event(self, event: Any = None) -> Any:
        """Record an event, a new one if none is given, and return it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        self._before.append(StreamContext(self))
        self._before[-1].__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._before.pop().__exit__(*error)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.device, self.stream_id) == (other.device, other.stream_id)

    def __hash__(self) -> int:
        return hash((self.device, self.stream_id))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.stream_id:#x}>"


class Event:
    """An event, which keeps the time when it was recorded."""

    def __init__(self, *args: Any, enable_timing: bool = False, **options: Any) -> None:
        self._time: float | None = None

    def record(self, stream: Any = None) -> None:
        """Keep the time."""
        self._time = time.perf_counter()

    def elapsed_time(self, end_event: Any) -> float:
        """Return the milliseconds between this event and another one.

        Raises:
            RuntimeError: one of them has not been recorded.
        """
        if self._time is None or end_event._time is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return float(end_event._time - self._time) * 1000

    def wait(self, stream: Any = None) -> None:
        """Let a stream wait, which needs no time."""

    def synchronize(self) -> None:
        """Wait, which needs no time."""

    def query(self) -> bool:
        """Has everything run?"""
        return True


class StreamContext:
    """Make a stream, and its device, current within a `with` block."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self._device = devices.exchange(self.stream.device_index)
            self._before = _streams.current.get(self.stream.device_index)
            _streams.current[self.stream.device_index] = self.stream

    def __exit__(self, *error: Any) -> None:
        if self.stream is not None:
            _streams.current[self.stream.device_index] = self._before
            devices.exchange(self._device)


class _Streams(threading.local):
    def __init__(self) -> None:
        self.current: dict[int, Any] = {}


_streams = _Streams()


def default_stream(device: Any = None) -> Stream:
    """Return a device's default stream."""
    return Stream(device, stream_id=0)


def current_stream(device: Any = None) -> Any:
    """Return the stream that is current on a device."""
    return _streams.current.get(devices.index(device)) or default_stream(device)


def set_stream(stream: Any) -> None:
    """Make a stream, and its device, current."""
    if stream is not None:
        devices.exchange(stream.device_index)
        _streams.current[stream.device_index] = stream


class DeviceProperties(SimpleNamespace):
    """What a device says of itself: as much as an A100 with 16 GiB."""

    def __init__(self) -> None:
        super().__init__(
            name="Simulated CUDA device",
            major=8,
            minor=0,
            total_memory=_MEMORY,
            multi_processor_count=108,
            max_threads_per_multi_processor=2048,
            warp_size=32,
            regs_per_multiprocessor=65536,
            shared_memory_per_block=49152,
            is_integrated=0,
            is_multi_gpu_board=0,
            gcnArchName="",
            L2_cache_size=40 * 2**20,
        )


def _properties(device: Any = None) -> DeviceProperties:
    try:
        devices.index(device)
    except RuntimeError as error:
        # As torch has it: it asks for the number before CUDA does.
        raise AssertionError("Invalid device id") if devices.count() else error from None
    return DeviceProperties()


def _answer(value: Any) -> Callable[..., Any]:
    """Return a query with a constant answer, of the current device or the one it is given."""

    def query(device: Any = None, *args: Any, **options: Any) -> Any:
        if device is not None:
            devices.index(device)
        return value() if callable(value) else value

    return query


def _no_device(value: Any = None) -> Callable[..., Any]:
    """Return a function with a constant answer whose arguments are no devices."""
    return lambda *args, **options: value


def _set_device(device: Any) -> None:
    # A negative number changes nothing, as in torch.cuda.
    if not (isinstance(device, int) and device < 0):
        devices.exchange(devices.index(device))


def _is_available() -> bool:
    return devices.count() > 0


def _initialize() -> None:
    devices.require()


def _call_later(call: Callable[[], None], **options: Any) -> None:
    """Drop what torch keeps until CUDA is initialised, such as seeds."""


def _can_access_peer(device: Any, peer_device: Any) -> bool:
    return devices.index(device) != devices.index(peer_device)


class _Runtime:
    """The runtime library, of which scripts only use the profiler's switches."""

    cudaProfilerStart = cudaProfilerStop = staticmethod(lambda: 0)  # noqa: N815

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotSimulated(f"torch.cuda.cudart().{name}")


def _replacements() -> dict[str, Any]:
    found: dict[str, Any] = {
        "is_available": _is_available,
        "device_count": devices.count,
        "current_device": devices.current,
        "set_device": _set_device,
        "_exchange_device": devices.exchange,
        "_maybe_exchange_device": devices.exchange,
        "init": _initialize,
        "_lazy_init": _initialize,
        "_lazy_call": _call_later,
        "is_initialized": devices.used,
        "can_device_access_peer": _can_access_peer,
        "cudart": lambda: _Runtime(),
        "get_device_properties": _properties,
        "get_device_name": lambda device=None: _properties(device).name,
        "get_device_capability": lambda device=None: (8, 0) if _properties(device) else None,
        "Stream": Stream,
        "Event": Event,
        "StreamContext": StreamContext,
        "stream": StreamContext,
        "current_stream": current_stream,
        "default_stream": default_stream,
        "set_stream": set_stream,
        "mem_get_info": _answer((_MEMORY, _MEMORY)),
        "memory_stats": _answer(lambda: collections.defaultdict(int)),
        "memory_stats_as_nested_dict": _answer(dict),
        "memory_summary": _answer("No memory statistics: the CUDA devices are simulated."),
        "list_gpu_processes": _answer("No processes: the CUDA devices are simulated."),
        "is_bf16_supported": _no_device(True),
        "is_tf32_supported": _no_device(True),
        "is_current_stream_capturing": _no_device(False),
        "get_arch_list": lambda: ["sm_80"],
        "get_gencode_flags": _no_device(""),
        "get_allocator_backend": _no_device("native"),
        "get_per_process_memory_fraction": _answer(1.0),
        "get_sync_debug_mode": _no_device(0),
        "host_memory_stats": lambda: collections.defaultdict(int),
        "host_memory_stats_as_nested_dict": dict,
        "memory_snapshot": lambda *args, **options: [],
        "check_error": _no_device(),
    }
    for name in ("memory_allocated", "memory_reserved", "memory_cached"):
        found[name] = found[f"max_{name}"] = _answer(0)
    for name in ("utilization", "memory_usage", "device_memory_used", "temperature", "power_draw", "clock_rate"):
        found[name] = _answer(0)
    for name in ("accumulated_memory_stats", "peak_memory_stats", "max_memory_allocated", "max_memory_cached"):
        found[f"reset_{name}"] = _answer(None)
    found["synchronize"] = _answer(None)
    for name in ("empty_cache", "ipc_collect", "set_per_process_memory_fraction", "set_sync_debug_mode"):
        found[name] = _no_device()
    for name in ("reset_accumulated_host_memory_stats", "reset_peak_host_memory_stats", "caching_allocator_enable"):
        found[name] = _no_device()
    return found | _random_states()


def _random_states() -> dict[str, Any]:
    """Return the functions of torch.cuda.random, which keep the states of generators that nothing draws from."""
    generators = tuple(torch.Generator() for _ in range(devices.count()))

    def one(device: Any = "cuda") -> Any:
        return generators[devices.index(device)]

    def manual_seed(seed: int) -> None:
        if generators:
            one().manual_seed(int(seed))

    def manual_seed_all(seed: int) -> None:
        for generator in generators:
            generator.manual_seed(int(seed))

    def seed_all() -> None:
        if generators:
            manual_seed_all(one().seed())

    def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
        # The state of a real CUDA generator, in a checkpoint, has another form.
        with contextlib.suppress(RuntimeError):
            one(device).set_state(new_state)

    def set_rng_state_all(new_states: Any) -> None:
        for i, state in enumerate(new_states):
            set_rng_state(state, i)

    return {
        "default_generators": generators,
        "get_rng_state": lambda device="cuda": one(device).get_state(),
        "get_rng_state_all": lambda: [generator.get_state() for generator in generators],
        "set_rng_state": set_rng_state,
        "set_rng_state_all": set_rng_state_all,
        "manual_seed": manual_seed,
        "manual_seed_all": manual_seed_all,
        "seed": lambda: one().seed(),
        "seed_all": seed_all,
        "initial_seed": lambda: one().initial_seed(),
    }


def install() -> None:
    """Replace what torch.cuda and its relatives offer."""
    cuda = torch.cuda
    places = (cuda, cuda.memory, cuda.random, cuda.streams, cuda.profiler, cuda.graphs)
    replacements = _replacements()
    for name, new in replacements.items():
        # An older torch lacks some, which then stay absent.
        owners = [place for place in places if hasattr(place, name)]
        if not owners:
            continue
        if isinstance(new, type) or not callable(new):
            replace(name, new, *owners)
        else:
            wrap(name, _instead(new), *owners)
    for name in set(cuda.__all__) - set(replacements) - _AS_IT_IS:
        old = getattr(cuda, name, None)
        if callable(old) and not name.endswith(("Tensor", "Storage")):
            replace(name, _not_simulated(old, f"torch.cuda.{name}"), cuda, cuda.graphs, cuda.memory, cuda.streams)
    for generic, new in (("Stream", Stream), ("Event", Event)):
        new.__module__ = "torch.cuda"
        if hasattr(torch, generic):
            replace(generic, new, torch)
    if "torch._streambase" in sys.modules:  # an older torch, in which torch.compile insists on its base classes
        sys.modules["torch._streambase"]._StreamBase.register(Stream)
        sys.modules["torch._streambase"]._EventBase.register(Event)
    cuda.nvtx._nvtx = SimpleNamespace(
        rangePushA=_no_device(0),
        rangePop=_no_device(0),
        markA=_no_device(),
        rangeStartA=_no_device(0),
        rangeEnd=_no_device(),
        deviceRangeStart=_no_device(0),
        deviceRangeEnd=_no_device(),
    )
    for name in cuda.nccl.__all__:
        replace(name, _not_simulated(getattr(cuda.nccl, name), f"torch.cuda.nccl.{name}"), cuda.nccl)
    replace("version", lambda: (2, 21, 5), cuda.nccl)
    replace("is_available", _no_device(True), cuda.nccl)
    if devices.count():
        wrap("is_built", _instead(_no_device(True)), torch.backends.cuda)
        torch.version.cuda = torch.version.cuda or "12.4"
    if hasattr(torch, "accelerator"):
        _install_accelerator()


def _instead(new: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return what makes a function of its own, for wrap to name after the old one."""

    def make(old: Any) -> Callable[..., Any]:
        def function(*args: Any, **options: Any) -> Any:
            return new(*args, **options)

        return function

    return make


def _not_simulated(old: Any, name: str) -> Any:
    def fail(*args: Any, **options: Any) -> Any:
        raise NotSimulated(name)

    if inspect.isclass(old):
        return type(old.__name__, (), {"__new__": fail, "__module__": old.__module__, "__doc__": old.__doc__})
    return fail


def _install_accelerator() -> None:
    accelerator = torch.accelerator
    places = [accelerator, *([accelerator.memory] if hasattr(accelerator, "memory") else [])]

    def current_accelerator(check_available: bool = False) -> Any:
        return RealDevice("cuda") if devices.count() else None

    @contextlib.contextmanager
    def device_index(device: int | None) -> Iterator[None]:
        before = devices.exchange(-1 if device is None else device)
        try:
            yield
        finally:
            devices.exchange(before)

    new: dict[str, Any] = {
        "is_available": _is_available,
        "device_count": devices.count,
        "current_accelerator": current_accelerator,
        "current_device_index": devices.current,
        "current_device_idx": devices.current,
        "set_device_index": _set_device,
        "set_device_idx": _set_device,
        "device_index": device_index,
        "get_memory_info": _answer((_MEMORY, _MEMORY)),
        "empty_host_cache": _no_device(),
    }
    for name in accelerator.__all__:
        old = getattr(accelerator, name)
        simulated = new.get(name, getattr(torch.cuda, name, None))
        if simulated is None or not callable(simulated):
            replace(name, _not_simulated(old, f"torch.accelerator.{name}"), *places)
        else:
            wrap(name, _instead(simulated), *places)
