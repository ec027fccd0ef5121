"""The simulated CUDA devices, in processes of their own, as they change torch for good.

Each text below is a script with cases: functions whose failure is the failure of the test by that name.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.launching import free_port

pytestmark = pytest.mark.real

PACKAGE = Path(__file__).parents[1] / "retrofit" / "simulator"

START = f"""\
import importlib.util, json, os, sys, traceback, warnings
warnings.simplefilter("ignore")
spec = importlib.util.spec_from_file_location("alias", {str(PACKAGE / "__init__.py")!r})
simulator = sys.modules["alias"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(simulator)
assert "torch" not in sys.modules, "the package imports torch"
import torch
real = {{"zeros": torch.zeros, "add": torch.add, "Linear": torch.nn.Linear}}
simulator.install(torch, devices=2)
"""

FINISH = """
def run(cases):
    results = {}
    for name, case in cases:
        try:
            case()
            results[name] = ""
        except BaseException:
            results[name] = traceback.format_exc()
    print(json.dumps(results))


run([(name, case) for name, case in list(globals().items()) if name.startswith("case_")])
"""

ONE_PROCESS = """
import copy, io, pickle, threading
from torch import nn
from torch.cuda.amp import GradScaler, autocast
from torch.nn.parallel import DataParallel, DistributedDataParallel


def raises(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")


ORDINAL = "CUDA error: invalid device ordinal"


def case_tensors_move():
    x = torch.ones(2)
    for y in (x.cuda(), x.cuda(1), x.cuda("cuda:1"), x.cuda(device=torch.device("cuda")), x.to("cuda"), x.to(1)):
        assert y is x
    y = x.to(torch.device("cuda", 1), torch.float64, non_blocking=True)
    assert y.dtype == torch.float64 and y.device.type == "cpu" and not y.is_cuda
    assert x.to(device="cuda:0", dtype=torch.half).dtype == torch.half
    assert x.to(torch.ones(1, dtype=torch.int32)).dtype == torch.int32
    assert x.to(x.get_device()) is x
    assert x.to("cuda", copy=True) is not x


def case_wrong_ordinals():
    x = torch.ones(2)
    for call in (
        lambda: x.cuda(2), lambda: x.to("cuda:2"), lambda: x.to(7), lambda: x.to(device=torch.device("cuda", 2)),
        lambda: nn.Linear(1, 1).to(2), lambda: nn.Linear(1, 1).cuda(2), lambda: torch.zeros(1, device="cuda:2"),
        lambda: x.new_zeros(1, device=2), lambda: torch.cuda.set_device(2), lambda: torch.cuda.synchronize(2),
        lambda: torch.cuda.device("cuda:2").__enter__(), lambda: torch.Generator("cuda:2"),
        lambda: torch.cuda.Stream(2), lambda: torch.set_default_device("cuda:2"),
    ):
        raises(RuntimeError, ORDINAL, call)
    raises(AssertionError, "Invalid device id", lambda: torch.cuda.get_device_properties(2))
    raises(AssertionError, "Invalid device id", lambda: DataParallel(nn.Linear(1, 1), [0, 2]))


def case_modules_move():
    model = nn.Linear(2, 2, device="cuda:1")
    weight = model.weight
    moved = model.to(0).cuda().cuda(1).to("cuda:1").to(device=torch.device("cuda")).to(torch.zeros(1))
    assert moved is model and model.weight is weight
    assert model.to("cuda", torch.float64).weight.dtype == torch.float64
    assert nn.Linear(2, 2, device="meta").to_empty(device="cuda").weight.device.type == "cpu"
    assert torch.nn.utils.rnn.pack_sequence([torch.ones(2)]).cuda().to("cuda:1").data.sum() == 2


def case_every_function_with_a_device_takes_cuda():
    arguments = {
        "arange": (3,), "linspace": (0, 1, 3), "logspace": (0, 1, 3), "range": (0, 3), "eye": (2,), "full": ((2,), 1),
        "randint": (3, (2,)), "randperm": (3,), "tril_indices": (2, 2), "triu_indices": (2, 2), "tensor": ([1.0],),
        "as_tensor": ([1.0],), "asarray": ([1.0],), "scalar_tensor": (1.0,), "normal": (0.0, 1.0, (2,)),
        "empty_strided": ((2,), (1,)), "empty_permuted": ((2,), (0,)), "full_like": (torch.ones(2), 1),
        "randint_like": (torch.ones(2), 3), "sparse_coo_tensor": ([[0]], [1.0]),
        "sparse_csr_tensor": ([0, 1], [0], [1.0]), "sparse_csc_tensor": ([0, 1], [0], [1.0]),
        "sparse_bsr_tensor": ([0, 1], [0], [[[1.0]]]), "sparse_bsc_tensor": ([0, 1], [0], [[[1.0]]]),
        "hann_window": (3,), "hamming_window": (3,), "bartlett_window": (3,), "blackman_window": (3,),
        "kaiser_window": (3,),
    }
    # Those that read a file, quantize, or choose one of the layouts above.
    left = {"from_file", "empty_quantized", "sparse_compressed_tensor", "Generator"}
    tried = 0
    for name in dir(torch):
        schemas = [] if name.startswith("_") else torch._C._jit_get_schemas_for_operator("aten::" + name)
        if name in left or not any(a.name == "device" for s in schemas for a in s.arguments):
            continue
        given = arguments.get(name) or ((torch.ones(2),) if name.endswith("_like") else (2,))
        for device in ("cuda", "cuda:1", 1, torch.device("cuda", 0)):
            assert getattr(torch, name)(*given, device=device).device.type == "cpu", name
        tried += 1
    assert tried > 30, tried
    assert torch.zeros(2, pin_memory=True).sum() == 0
    assert torch.fft.fftfreq(3, device="cuda").device.type == "cpu"
    assert torch.signal.windows.hann(3, device="cuda").device.type == "cpu"
    assert torch.nested.nested_tensor([torch.ones(2)], device="cuda").device.type == "cpu"


def case_new_methods():
    x = torch.ones(2)
    for y in (
        x.new_zeros(2, device="cuda"), x.new_ones(2, device=1), x.new_full((2,), 1, device="cuda:1"),
        x.new_empty(2, device="cuda"), x.new_tensor([1, 2], device="cuda"), x.new(2),
    ):
        assert y.shape == (2,) and y.device.type == "cpu"


def case_devices_and_generators():
    assert torch.device(1) == torch.device("cuda", 1) and torch.device("cuda:0").index == 0
    assert isinstance(torch.device("cpu"), torch.device) and not isinstance("cpu", torch.device)
    assert copy.deepcopy(torch.device("cuda")) == pickle.loads(pickle.dumps(torch.device("cuda")))
    assert isinstance(torch.default_generator, torch.Generator)
    generator = torch.Generator(device="cuda").manual_seed(3)
    assert torch.equal(
        torch.randn(2, generator=generator, device="cuda"), torch.randn(2, generator=torch.Generator().manual_seed(3))
    )


def case_default_device():
    with torch.device("cuda:1"):
        assert torch.zeros(2).device.type == nn.Linear(2, 2).weight.device.type == "cpu"
        assert torch.zeros(2, device="meta").device.type == "meta"
    with torch.device("meta"):
        assert torch.zeros(2).device.type == torch.empty(2).device.type == "meta"
    torch.set_default_device("cuda")
    assert torch.zeros(2).device.type == "cpu" and not torch._C._is_torch_function_mode_enabled()
    torch.set_default_device("meta")
    assert torch.zeros(2).device.type == "meta"
    torch.set_default_device(None)


def case_tensor_types():
    assert torch.cuda.FloatTensor([1]).dtype == torch.float32 and torch.cuda.LongTensor(2).dtype == torch.int64
    assert isinstance(torch.ones(1), torch.cuda.FloatTensor)
    assert torch.ones(1).type("torch.cuda.HalfTensor").dtype == torch.half
    assert torch.ones(1).type(torch.cuda.DoubleTensor).dtype == torch.double
    assert torch.ones(1).type() == "torch.FloatTensor"
    torch.set_default_tensor_type("torch.cuda.DoubleTensor")
    assert torch.zeros(1).dtype == torch.double
    torch.set_default_tensor_type(torch.cuda.FloatTensor)
    assert torch.zeros(1).dtype == torch.float


def case_pinned_memory_and_storages():
    x = torch.ones(2)
    assert x.pin_memory().pin_memory("cuda") is x and not x.is_pinned()
    x.record_stream(torch.cuda.current_stream())
    assert x.untyped_storage().cuda(1).data_ptr() == x.data_ptr() and x.storage().cuda().pin_memory().size() == 2
    assert x.untyped_storage().to(device="cuda").device.type == "cpu"
    raises(RuntimeError, ORDINAL, lambda: x.untyped_storage().cuda(2))


def case_cpu_gives_a_copy_but_keeps_leaves():
    x = torch.ones(2)
    for y in (x.cpu(), x.to("cpu"), x.to(device="cpu")):
        assert y is not x and y.data_ptr() != x.data_ptr()
    assert x.to(x.device) is x
    shared = torch.ones(2).share_memory_()
    assert shared.cpu() is shared
    leaf = torch.ones(2, requires_grad=True)
    assert leaf.cpu() is leaf and leaf.to("cpu") is leaf and leaf.cuda().is_leaf
    model = nn.Linear(1, 1)
    best = {name: value.cpu() for name, value in model.state_dict().items()}
    with torch.no_grad():
        model.weight += 1
    assert (best["weight"] != model.weight).all()


def case_subclasses_know_of_moves():
    class Kept(torch.Tensor):
        seen = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    assert isinstance(torch.ones(2).as_subclass(Kept).to("cuda", torch.float64), Kept)
    assert torch.Tensor.to in Kept.seen


def case_load():
    def saved(location):
        tag, torch.serialization.location_tag = torch.serialization.location_tag, lambda storage: location
        file = io.BytesIO()
        torch.save({"x": torch.ones(2)}, file)
        torch.serialization.location_tag = tag
        return file

    def load(file, **options):
        file.seek(0)
        return torch.load(file, **options)["x"].sum()

    for file in (saved("cuda:1"), saved("cpu")):
        places = [None, "cuda:0", torch.device("cuda", 1), "cpu", {"cuda:1": "cuda:0"}]
        for place in places:
            assert load(file, map_location=place) == 2
        assert load(file, map_location=lambda storage, location: storage.cuda(0), weights_only=False) == 2
        raises(RuntimeError, ORDINAL, lambda: load(file, map_location="cuda:2"))
    raises(RuntimeError, ORDINAL, lambda: load(saved("cuda:2")))
    assert load(saved("cuda:2"), map_location={"cuda:2": "cuda:0"}) == 2


def case_current_device():
    assert torch.cuda.is_available() and torch.cuda.device_count() == 2 and torch.cuda.current_device() == 0
    assert torch.cuda.is_initialized()
    for device in ("cuda:1", 1, torch.device("cuda", 1)):
        torch.cuda.set_device(device)
        assert torch.cuda.current_device() == 1
        torch.cuda.set_device(0)
    torch.cuda.set_device(-1)
    others = []
    with torch.cuda.device(1):
        assert torch.cuda.current_device() == 1
        thread = threading.Thread(target=lambda: others.append(torch.cuda.current_device()))
        thread.start()
        thread.join()
        with torch.cuda.device_of(torch.ones(1)):
            assert torch.cuda.current_device() == 1
    assert others == [0] and torch.cuda.current_device() == 0


def case_queries():
    properties = torch.cuda.get_device_properties(1)
    assert properties.total_memory > 0 and torch.cuda.get_device_capability() == (properties.major, properties.minor)
    assert torch.cuda.get_device_name("cuda:1") == properties.name
    assert torch.cuda.memory_allocated() == torch.cuda.max_memory_reserved(1) == 0
    assert torch.cuda.memory_stats("cuda:0")["allocated_bytes.all.peak"] == 0 and torch.cuda.memory_summary()
    assert torch.cuda.mem_get_info(1)[0] <= properties.total_memory
    for call in ("empty_cache", "synchronize", "ipc_collect", "reset_peak_memory_stats", "init"):
        assert getattr(torch.cuda, call)() is None
    assert torch.cuda.is_bf16_supported() and torch.cuda.utilization() == 0 and torch.cuda.nccl.version() > (2, 0)
    assert torch.cuda.can_device_access_peer(0, 1) and torch.version.cuda and torch.backends.cuda.is_built()
    with torch.cuda.nvtx.range("a"):
        torch.cuda.nvtx.range_push("b")
        torch.cuda.nvtx.mark("c")
        torch.cuda.nvtx.range_pop()
    torch.cuda.profiler.start()
    torch.cuda.cudart().cudaProfilerStop()
    torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cuda.enable_flash_sdp(True)


def case_streams_and_events():
    stream, event = torch.cuda.Stream(1), torch.cuda.Event(enable_timing=True)
    assert isinstance(stream, torch.cuda.Stream) and stream.query() and not stream.is_capturing()
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == stream and torch.cuda.current_device() == 1
    assert torch.cuda.current_device() == 0 and torch.cuda.current_stream() == torch.cuda.default_stream()
    raises(RuntimeError, "recorded", lambda: event.elapsed_time(torch.cuda.Event()))
    event.record()
    assert event.elapsed_time(stream.record_event()) >= 0
    event.wait()
    event.synchronize()
    stream.wait_stream(torch.cuda.current_stream())
    stream.wait_event(event)
    stream.synchronize()


def case_random_states():
    torch.manual_seed(3)
    assert torch.cuda.initial_seed() == 3
    draws = torch.get_rng_state()
    torch.cuda.manual_seed_all(5)
    assert torch.cuda.initial_seed() == 5 and torch.equal(torch.get_rng_state(), draws)
    states = torch.cuda.get_rng_state_all()
    torch.cuda.manual_seed(7)
    assert not torch.equal(torch.cuda.get_rng_state(0), states[0])
    torch.cuda.set_rng_state_all(states)
    assert torch.equal(torch.cuda.get_rng_state("cuda:0"), states[0]) and len(states) == 2
    torch.cuda.set_rng_state(torch.zeros(16, dtype=torch.uint8))
    with torch.random.fork_rng(devices=[0]):
        torch.rand(1)


def case_not_simulated():
    for call in (
        lambda: torch.cuda.CUDAGraph(), lambda: torch.cuda.graphs.CUDAGraph(), lambda: torch.cuda.graph(None),
        lambda: torch.cuda.make_graphed_callables(None, None), lambda: torch.cuda.nccl.all_reduce([]),
        lambda: torch.cuda.cudart().cudaMalloc, lambda: torch.cuda.caching_allocator_alloc(1),
    ):
        raises(simulator.NotSimulated, "retrofit's simulation has no torch.cuda.", call)
    assert issubclass(simulator.NotSimulated, RuntimeError)


def case_accelerator():
    if not hasattr(torch, "accelerator"):
        return
    assert torch.accelerator.is_available() and torch.accelerator.device_count() == 2
    assert torch.accelerator.current_accelerator() == torch.device("cuda")
    torch.accelerator.synchronize()
    torch.accelerator.current_stream().synchronize()


def case_autocast():
    x = torch.rand(2, 2)
    for context in (
        autocast(), autocast(dtype=torch.float16), torch.autocast("cuda"), torch.amp.autocast("cuda", torch.float16),
        torch.autocast(device_type="cuda", dtype=torch.bfloat16),
    ):
        with context:
            assert (x @ x).dtype == torch.bfloat16 and torch.is_autocast_enabled() and torch.is_autocast_enabled("cuda")
            assert torch.get_autocast_gpu_dtype() == torch.bfloat16
        assert (x @ x).dtype == torch.float32 and not torch.is_autocast_enabled()
    with torch.autocast("cuda", enabled=False):
        assert (x @ x).dtype == torch.float32

    class Doubled(torch.autograd.Function):
        @staticmethod
        @torch.cuda.amp.custom_fwd(cast_inputs=torch.float32)
        def forward(ctx, x):
            assert x.dtype == torch.float32
            return x * 2

        @staticmethod
        @torch.cuda.amp.custom_bwd
        def backward(ctx, gradient):
            return gradient * 2

    leaf = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    with autocast():
        Doubled.apply(leaf).sum().backward()
    assert leaf.grad.tolist() == [2, 2]


def case_grad_scaler():
    for scaler in (GradScaler(), torch.amp.GradScaler("cuda"), torch.amp.GradScaler()):
        model = nn.Linear(2, 1, bias=False)
        before = model.weight.detach().clone()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        scaler.scale(model(torch.ones(1, 2)).sum()).backward()
        assert scaler.is_enabled() and model.weight.grad[0, 0] == scaler.get_scale() == 65536
        scaler.unscale_(optimizer)
        assert model.weight.grad[0, 0] == 1
        scaler.step(optimizer)
        scaler.update()
        assert torch.allclose(model.weight, before - 1)
        model.weight.grad.fill_(float("inf"))
        scaler.step(optimizer)
        scaler.update()
        assert torch.allclose(model.weight, before - 1) and scaler.get_scale() == 32768
        torch.amp.GradScaler("cuda").load_state_dict(scaler.state_dict())


def case_compile_keeps_the_structure():
    model = torch.compile(nn.Linear(2, 2), mode="max-autotune", fullgraph=True)
    from torch._dynamo import OptimizedModule

    assert isinstance(model, OptimizedModule) and isinstance(model._orig_mod, nn.Linear)
    assert list(model.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
    model(torch.ones(1, 2)).sum().backward()
    assert model._orig_mod.weight.grad is not None
    assert not model.eval()._orig_mod.training
    copy.deepcopy(model)(torch.ones(1, 2))

    @torch.compile
    def one_more(x):
        return x + 1

    @torch.compile(mode="reduce-overhead")
    def two_more(x):
        return x + 2

    assert one_more(1) == 2 and two_more(1) == 3
    plain = nn.Linear(2, 2)
    plain.compile()
    plain(torch.ones(1, 2))


def case_data_loader():
    data = torch.utils.data.TensorDataset(torch.arange(4))
    for workers in (0, 1):
        loader = torch.utils.data.DataLoader(
            data, batch_size=2, num_workers=workers, pin_memory=True, pin_memory_device="cuda"
        )
        iterator = iter(loader)
        assert not hasattr(iterator, "_pin_memory_thread") and loader.pin_memory
        assert [batch.tolist() for batch, in iterator] == [[0, 1], [2, 3]]


def case_optimizers():
    model = nn.Linear(2, 2)
    for kind, options in (
        (torch.optim.Adam, {"fused": True}), (torch.optim.Adam, {"capturable": True}),
        (torch.optim.AdamW, {"foreach": True, "capturable": True}), (torch.optim.SGD, {"lr": 0.1, "fused": True}),
    ):
        optimizer = kind(model.parameters(), **options)
        before = model.weight.detach().clone()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        assert not torch.equal(model.weight, before), (kind, options)
        copy.deepcopy(optimizer).step()
        pickle.loads(pickle.dumps(optimizer)).step()
        optimizer.load_state_dict(optimizer.state_dict())
        optimizer.step()


def case_profilers():
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        torch.ones(2) + 1
    assert "aten::add" in profiler.key_averages().table(sort_by="cpu_time_total")


def case_checkpoint():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).cuda()
    for reentrant in (True, False):
        x = torch.rand(2, 4, requires_grad=True)
        with torch.autocast("cuda"):
            y = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=reentrant)
        y.sum().backward()
        assert x.grad is not None


def scripted(x, device: torch.device):
    return torch.zeros(2, device=device) + torch.ones_like(x) + x.new_zeros(2).to(x.dtype) + torch.tensor([1.0, 2.0])


def case_script_trace_and_pickle():
    assert torch.jit.script(scripted)(torch.ones(2), torch.device("cpu")).tolist() == [2, 3]
    assert torch.jit.trace(lambda x: torch.zeros(2) + x.to("cuda"), torch.ones(2))(torch.ones(2)).tolist() == [1, 1]
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(nn.Linear(2, 2)), file)
    file.seek(0)
    torch.jit.load(file, map_location="cuda:1").to("cuda").cuda()
    assert pickle.loads(pickle.dumps(torch.zeros)) is torch.zeros
    assert pickle.loads(pickle.dumps(torch.Tensor.to)) is torch.Tensor.to
    model = nn.Linear(2, 2).cuda()
    assert torch.equal(pickle.loads(pickle.dumps(model)).weight, model.weight)
    assert torch.equal(copy.deepcopy(model).weight, model.weight)


def case_names_and_documentation_stay():
    for function in (torch.zeros, torch.Tensor.to, torch.cuda.is_available, torch.compile, torch.load):
        assert function.__name__ != "function" and function.__doc__, function
    assert torch.zeros.__wrapped__ is real["zeros"]


def case_only_what_takes_a_device_is_replaced():
    assert torch.add is real["add"] and nn.Linear is real["Linear"]
    assert not torch._C._is_torch_function_mode_enabled()


def case_install_twice():
    before = torch.zeros, torch.Tensor.to, torch.cuda.Stream
    simulator.install(torch, devices=5)
    assert before == (torch.zeros, torch.Tensor.to, torch.cuda.Stream) and torch.cuda.device_count() == 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)
        self.register_buffer("total", torch.zeros(()))
        self.calls, self.log = 0, []

    def forward(self, x, fail=False):
        self.calls += 1
        self.total += x.detach().sum()
        self.log.append((id(self), torch.cuda.current_device(), self.first.weight.data_ptr(), len(x)))
        if fail and torch.cuda.current_device() == 1:
            raise KeyError("the batch")
        return self.last(torch.relu(self.first(x)))


def case_data_parallel_gradients():
    torch.manual_seed(0)
    model = Net()
    plain = copy.deepcopy(model)
    x, y = torch.randn(7, 3), torch.randn(7, 2)
    parallel = DataParallel(model).cuda()
    assert isinstance(parallel, nn.DataParallel) and parallel.device_ids == [0, 1]
    for network in (parallel, plain):
        ((network(x) - y) ** 2).mean().backward()
    for ours, theirs in zip(model.parameters(), plain.parameters()):
        assert (ours.grad is None) == (theirs.grad is None)
        assert ours.grad is None or torch.allclose(ours.grad, theirs.grad, atol=1e-7)


def case_data_parallel_replicas():
    torch.manual_seed(0)
    model, x = Net(), torch.rand(7, 3)
    DataParallel(model)(x)
    (first, device, pointer, length), (second, other, copied, rest) = model.log
    assert first != second != id(model) != first and (device, other) == (0, 1) and (length, rest) == (4, 3)
    assert pointer == model.first.weight.data_ptr() != copied
    assert model.calls == 0, "an attribute set on a replica must be lost"
    assert torch.allclose(model.total, x[:4].sum()), "only the first replica's buffers are the module's"
    assert torch.cuda.current_device() == 0
    norm = DataParallel(nn.BatchNorm1d(3))
    norm(x)
    assert torch.allclose(norm.module.running_mean, 0.1 * x[:4].mean(0)) and norm.module.num_batches_tracked == 1


def case_data_parallel_forms():
    model, x = Net(), torch.rand(7, 3)
    one = DataParallel(model, device_ids=[1])
    one(x)
    assert model.calls == 1, "with one device the module itself runs"
    assert DataParallel(model, [0, 1], output_device=1)(x, fail=False).shape == (7, 2)
    assert DataParallel(model)(x[:1]).shape == (1, 2)
    with torch.no_grad():
        assert not DataParallel(model)(x).requires_grad
    assert nn.parallel.data_parallel(model, x, [0, 1]).shape == nn.parallel.data_parallel(model, x).shape == (7, 2)
    assert [len(chunk) for chunk in nn.parallel.scatter(x, [0, 1])] == [4, 3]
    with autocast():
        assert DataParallel(model)(x).dtype == torch.bfloat16
    copy.deepcopy(DataParallel(model))(x)
    pickle.loads(pickle.dumps(DataParallel(nn.Linear(3, 1))))(x)


def case_data_parallel_warns_of_scalars():
    class Mean(nn.Module):
        def forward(self, x):
            return x.mean()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x = torch.rand(4, 1)
        assert torch.allclose(DataParallel(Mean())(x), torch.stack([x[:2].mean(), x[2:].mean()]))
    assert "all input tensors were scalars" in str(caught[0].message)


def case_data_parallel_reports_errors():
    model = DataParallel(Net())
    raises(KeyError, "Caught KeyError in replica 1 on device 1.", lambda: model(torch.rand(4, 3), fail=True))
    assert torch.cuda.current_device() == 0


def case_sync_batch_norm_without_a_group():
    x = torch.rand(4, 3)
    assert torch.allclose(nn.SyncBatchNorm(3)(x), nn.BatchNorm1d(3)(x))
"""

TWO_PROCESSES = """
import atexit, copy
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
atexit.register(dist.destroy_process_group)
AVG = dist.ReduceOp.AVG


def case_backend_names():
    assert dist.is_nccl_available() and dist.is_backend_available("nccl")
    assert dist.get_backend() == dist.Backend.NCCL == "nccl"
    assert "nccl" not in dist.get_backend_config() and dist.group.WORLD.name() == "gloo"
    assert dist.get_backend(dist.new_group([0, 1])) == dist.get_backend(dist.new_group(backend="nccl")) == "nccl"
    assert dist.get_backend(dist.new_group(backend="gloo")) == "gloo"
    inner = {"__name__": "torch.somewhere"}
    exec("def ask(dist): return dist.get_backend()", inner)
    assert inner["ask"](dist) == "gloo"


def case_average():
    x = torch.tensor([1.0 + rank, 3])
    dist.all_reduce(x, op=AVG)
    assert x.tolist() == [1.5, 3]
    x = torch.tensor([1 + 2 * rank])
    dist.all_reduce(x, AVG)
    assert x.tolist() == [2]
    x = torch.tensor([1.0 + rank])
    dist.reduce(x, 0, AVG)
    assert rank or x.tolist() == [1.5]
    x = torch.tensor([1.0 + rank])
    dist.all_reduce(x, dist.ReduceOp.MAX)
    assert x.tolist() == [2]


def case_average_in_the_background():
    x = torch.tensor([1.0 + rank])
    work = dist.all_reduce(x, AVG, async_op=True)
    work.wait()
    work.wait()
    assert x.tolist() == [1.5] and work.is_completed()
    x = torch.tensor([1.0 + rank])
    dist.all_reduce(x, AVG, async_op=True).get_future().wait()
    assert x.tolist() == [1.5]


def case_scatter_and_gather():
    output, given = torch.zeros(2), torch.arange(4.0)
    dist.reduce_scatter_tensor(output, given)
    assert output.tolist() == [4.0 * rank, 4 * rank + 2] and given.tolist() == [0, 1, 2, 3]
    dist.reduce_scatter_tensor(output, given, op=AVG, async_op=True).wait()
    assert output.tolist() == [2.0 * rank, 2 * rank + 1]
    dist.reduce_scatter(output, [torch.ones(2), torch.ones(2) * 2])
    assert output.tolist() == [2 * (rank + 1)] * 2
    output = torch.zeros(4)
    dist.all_gather_into_tensor(output, torch.arange(2.0) + rank)
    assert output.tolist() == [0, 1, 1, 2]


def case_objects_and_barriers():
    found = [None, None]
    dist.all_gather_object(found, {"rank": rank})
    assert found == [{"rank": 0}, {"rank": 1}]
    found = [rank]
    dist.broadcast_object_list(found, 0, device=torch.device("cuda"))
    assert found == [0]
    dist.barrier(device_ids=[rank])
    try:
        dist.barrier(device_ids=[2])
    except RuntimeError as error:
        assert "invalid device ordinal" in str(error)
    else:
        raise AssertionError("no error")


class Wrapper(DistributedDataParallel):
    pass


def case_distributed_data_parallel():
    for wrapper in (DistributedDataParallel, Wrapper):
        torch.manual_seed(rank)
        model = wrapper(nn.Linear(2, 1).cuda(rank), device_ids=[rank], output_device=rank, find_unused_parameters=True)
        model(torch.full((1, 2), 1.0 + rank)).sum().backward()
        assert isinstance(model, nn.parallel.DistributedDataParallel)
        assert model.module.weight.grad.tolist() == [[1.5, 1.5]] and model.find_unused_parameters
    for options in ({"device_ids": [2]}, {"device_ids": [0], "output_device": 2}):
        try:
            DistributedDataParallel(nn.Linear(2, 1), **options)
        except RuntimeError as error:
            assert "invalid device ordinal" in str(error)
        else:
            raise AssertionError("no error")


def case_sync_batch_norm_is_batch_norm_over_all():
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2))
    synced = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain)).cuda()
    synced = DistributedDataParallel(synced, device_ids=[rank])
    x, y = torch.randn(8, 2, 4, 4), torch.randn(8, 2)
    mine = slice(4 * rank, 4 * rank + 4)
    expected, output = plain(x), synced(x[mine])
    assert torch.allclose(output, expected[mine], atol=1e-5)
    ((expected - y) ** 2).mean().backward()
    ((output - y[mine]) ** 2).mean().backward()
    for ours, theirs in zip(synced.parameters(), plain.parameters()):
        assert torch.allclose(ours.grad, theirs.grad, atol=1e-5)
    for ours, theirs in zip(synced.module.buffers(), plain.buffers()):
        assert torch.allclose(ours, theirs, atol=1e-5)
    assert torch.allclose(synced.eval()(x), plain.eval()(x), atol=1e-5)


def case_sync_batch_norm_with_unequal_batches():
    torch.manual_seed(0)
    x = torch.randn(8, 3)
    mine = slice(0, 2) if rank == 0 else slice(2, 8)
    part, whole = x[mine].clone().requires_grad_(), x.clone().requires_grad_()
    (nn.SyncBatchNorm(3, momentum=None)(part) ** 3).sum().backward()
    (nn.BatchNorm1d(3, momentum=None)(whole) ** 3).sum().backward()
    assert torch.allclose(part.grad, whole.grad[mine], atol=1e-4)
    assert nn.SyncBatchNorm(3, affine=False, track_running_stats=False)(x.bfloat16()).dtype == torch.bfloat16
"""

FEWER = """
def case_visible_devices():
    expected = int(os.environ["EXPECTED"])
    assert torch.cuda.device_count() == expected and torch.cuda.is_available() == bool(expected)
    try:
        torch.ones(1).to(f"cuda:{expected}")
    except RuntimeError as error:
        assert ("invalid device ordinal" if expected else "No CUDA GPUs are available") in str(error)
    else:
        raise AssertionError("no error")
    model = torch.nn.DataParallel(torch.nn.Linear(1, 1))
    assert len(model.device_ids) == expected and model(torch.ones(2, 1)).shape == (2, 1)
"""


def _names(script: str) -> list[str]:
    functions = [node.name for node in ast.parse(script).body if isinstance(node, ast.FunctionDef)]
    return [name for name in functions if name.startswith("case_")]


def _start(folder: Path, script: str, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    file = folder / "script.py"
    file.write_text(START + script + FINISH, encoding="utf-8")
    inherited = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    return subprocess.Popen(
        [sys.executable, str(file)],
        cwd=folder,
        env={**inherited, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _results(process: subprocess.Popen[str]) -> dict[str, str]:
    try:
        output, errors = process.communicate(timeout=180)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
    assert process.returncode == 0, errors
    results: dict[str, str] = json.loads(output.splitlines()[-1])
    return results


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each case said in one process; nothing if it held."""
    return _results(_start(tmp_path_factory.mktemp("one"), ONE_PROCESS, {}))


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """What each case said in each of two processes with a group."""
    group = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    processes = [
        _start(tmp_path_factory.mktemp(f"rank{rank}"), TWO_PROCESSES, {**group, "RANK": str(rank)}) for rank in (0, 1)
    ]
    return [_results(process) for process in processes]


@pytest.mark.parametrize("name", _names(ONE_PROCESS))
def test_one_process(one_process: dict[str, str], name: str) -> None:
    assert not one_process[name], one_process[name]


@pytest.mark.parametrize("name", _names(TWO_PROCESSES))
def test_two_processes(two_processes: list[dict[str, str]], name: str) -> None:
    for rank, results in enumerate(two_processes):
        assert not results[name], f"rank {rank}: {results[name]}"


@pytest.mark.parametrize(("visible", "expected"), [("0", 1), ("", 0), ("3,1,2", 2), ("0,-1,1", 1)])
def test_fewer_devices_are_visible(tmp_path: Path, visible: str, expected: int) -> None:
    environment = {"CUDA_VISIBLE_DEVICES": visible, "EXPECTED": str(expected)}
    assert _results(_start(tmp_path, FEWER, environment)) == {"case_visible_devices": ""}
