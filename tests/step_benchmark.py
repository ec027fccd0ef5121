"""How long a training step of a rewritten script takes, beside the original's: python -m tests.step_benchmark.

Two processes, as torchrun starts them, train the same model in several ways in turn, a few steps at a time, so that
whatever else the machine does falls on all of them alike. Printed is the median of the ratios of neighbours:

    original    DistributedDataParallel around the model
    rewritten   as `retrofit apply` writes it, before the first dendrite
    library     PerforatedAI's layers as they come, with find_unused_parameters=True, as in the published recipe

and the same with three dendrites in each layer; before that, what each check takes of a rewritten step. It needs torch
and perforatedai.
"""
# mypy: ignore-errors

import argparse
import contextlib
import functools
import importlib
import io
import os
import random
import socket
import statistics
import sys
import tempfile
import time
import timeit
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SAVE = "PAI"
HELPER = Path(__file__).resolve().parents[1] / "rules" / "perforatedai"
DENDRITES = 3
#: Twice, to see how much of a difference is chance.
ORIGINALS = ("original", "again")
#: Where torch keeps what all optimizers do at a step.
HOOKS = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")


class Transformer(nn.Module):
    """Two layers of an encoder, and a head."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of the classes."""
        scores: torch.Tensor = self.head(self.encoder(x).mean(1))
        return scores


def _tiny() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(256, 768), nn.ReLU(), nn.Linear(768, 1024), nn.ReLU(), nn.Linear(1024, 10))


def _convolutions() -> nn.Module:
    layers: list[nn.Module] = []
    for channels_in, channels in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(channels_in, channels, 3, 2, 1), nn.BatchNorm2d(channels), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


#: What makes a model, and the shape of its batch.
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "tiny MLP": (_tiny, (32, 32)),
    "MLP, 1 M": (_mlp, (64, 256)),
    "conv + BatchNorm": (_convolutions, (32, 3, 32, 32)),
    "Transformer": (Transformer, (16, 32, 64)),
}


class Way:
    """One way to train a model.

    Attributes:
        bytes: how many bytes of gradients a step reduces between the ranks.
        step: does a step.
    """

    def __init__(self, model: nn.Module, inputs: torch.Tensor, *, unused: bool, before: Callable[[], object]) -> None:
        self.bytes = _reduced(model, inputs, unused)
        wrapped = DistributedDataParallel(model, find_unused_parameters=unused)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
        targets = torch.arange(len(inputs)) % 10

        def step() -> None:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(wrapped(inputs), targets)
            before()
            loss.backward()
            optimizer.step()

        self.step = step
        hooks: Any = sys.modules["torch.optim.optimizer"]
        self.checks: dict[str, Callable[[], object]] = {
            hook.__name__: functools.partial(hook, optimizer, (), {})
            for name in HOOKS
            for hook in getattr(hooks, name).values()
        }
        self.checks |= {"will_sync_module_buffers": wrapped.will_sync_module_buffers, "before backward": before}


def _reduced(model: nn.Module, inputs: torch.Tensor, unused: bool) -> int:
    """Return how many bytes of gradients a step reduces, in a wrapper of its own."""
    sizes = []

    def count(_state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        sizes.append(bucket.buffer().nbytes)
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    wrapped = DistributedDataParallel(model, find_unused_parameters=unused)
    wrapped.register_comm_hook(None, count)
    wrapped(inputs).sum().backward()
    model.zero_grad()
    return sum(sizes)


@contextlib.contextmanager
def _without_hooks() -> Iterator[None]:
    """Take away what the helper does in the steps of all optimizers, which the original has nothing of."""
    optimizers: Any = sys.modules["torch.optim.optimizer"]
    kept = {name: getattr(optimizers, name) for name in HOOKS}
    broadcasts = DistributedDataParallel.will_sync_module_buffers
    try:
        for name in HOOKS:
            setattr(optimizers, name, OrderedDict())
        DistributedDataParallel.will_sync_module_buffers = _AS_TORCH_HAS_IT  # type: ignore[method-assign]
        yield
    finally:
        for name, hooks in kept.items():
            setattr(optimizers, name, hooks)
        DistributedDataParallel.will_sync_module_buffers = broadcasts  # type: ignore[method-assign]


_AS_TORCH_HAS_IT = DistributedDataParallel.will_sync_module_buffers


def _perforated(name: str, helper: Any) -> nn.Module:
    """Return a model with PerforatedAI's layers, as they are before a round loads its structure."""
    from perforatedai import utils_perforatedai as UPA

    with helper.one_rank_at_a_time(), contextlib.redirect_stdout(io.StringIO()):
        model: nn.Module = UPA.perforate_model(MODELS[name][0](), save_name=SAVE, maximizing_score=True)
    return model


def _prepare(_rank: int, name: str) -> None:
    """Initialise a training in this folder, and add dendrites as a capacity test does."""
    sys.stdout = io.StringIO()  # the library talks
    helper = _helper()
    inputs = torch.randn(MODELS[name][1])
    os.environ["PAI_PERFORATE_MODEL_PARALLEL"] = "1"
    model = helper.load_latest_switch(_perforated(name, helper), None)
    model(inputs).sum().backward()
    with contextlib.suppress(SystemExit):
        helper.finish_initialization()
    del os.environ["PAI_PERFORATE_MODEL_PARALLEL"]
    os.environ["PAI_TESTING_DENDRITE_CAPACITY"] = "1"
    helper.configure_library()
    for score in range(DENDRITES):
        tracker = importlib.import_module("perforatedai.globals_perforatedai")
        if score == 0:
            model = helper.load_latest_switch(_perforated(name, helper), None)
        tracker.pai_tracker.set_optimizer_instance(torch.optim.SGD(model.parameters(), lr=0.0))
        model(inputs).sum().backward()
        helper.add_validation_score(score + 1.0, model)


def _ways(name: str, helper: Any, grown: bool) -> dict[str, Way]:
    """Return the ways to train a model, with three dendrites in each layer or without."""
    from perforatedai import utils_perforatedai as UPA

    inputs = torch.randn(MODELS[name][1])
    ways = {way: Way(MODELS[name][0](), inputs, unused=False, before=lambda: None) for way in ORIGINALS}

    published = _perforated(name, helper)
    helper.structure._pai_set_output_dimensions(published, helper.record._pai_read("output_dimensions"))
    if grown:
        published = UPA.load_system(published, SAVE, f"switch_{2 * DENDRITES}", True)
        helper.hidden._pai_show(published)
    ways["library"] = Way(published, inputs, unused=True, before=lambda: None)

    model = helper.load_latest_switch(_perforated(name, helper), SAVE if grown else None)
    helper.keep_tracker_state_local(model)
    unused = helper.finds_unused_parameters()
    ways["rewritten"] = Way(model, inputs, unused=unused, before=lambda: helper.fill_missing_gradients(model))
    return ways


def _helper() -> Any:
    """Return the helper package, with the settings that it makes."""
    sys.path.insert(0, str(HELPER))
    torch.set_num_threads(1)
    with contextlib.redirect_stdout(io.StringIO()):
        helper = importlib.import_module("pai_distributed")
        helper.configure_library()
    return helper


def _measure(rank: int, name: str, rounds: int, steps: int, port: int) -> None:
    """Train in all ways, in turn, and print how long each takes beside the original."""
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    helper = _helper()
    for grown in (False, True):
        helper.process._pai.steps = 0  # else the second model is refused, by which the first one's training were lost
        with contextlib.redirect_stdout(io.StringIO()):
            ways = _ways(name, helper, grown)
        order, shuffled = list(ways), random.Random(0)
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(rounds + 1):
            shuffled.shuffle(order)
            for way in order:
                with _without_hooks() if way in ORIGINALS else contextlib.nullcontext():
                    dist.barrier()
                    start = time.perf_counter()
                    for _ in range(steps):
                        ways[way].step()
                    seconds[way].append((time.perf_counter() - start) / steps)
        if rank == 0:
            measured = list(zip(*(seconds[way][1:] for way in ways), strict=True))  # the first turn warms up
            original = [statistics.mean(turn[: len(ORIGINALS)]) for turn in measured]
            print(f"{name}, {DENDRITES if grown else 0} dendrites: {statistics.median(original) * 1e3:.2f} ms a step")
            for number, way in enumerate(ways):
                ratio = statistics.median(turn[number] / whole for turn, whole in zip(measured, original, strict=True))
                print(f"    {way:10} {ratio:6.3f} {ways[way].bytes:>12,} bytes")
    dist.destroy_process_group()


def _measure_checks(_rank: int, name: str) -> None:
    """Print the least that each check takes, and how much that is of a step of one process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    helper = _helper()
    with contextlib.redirect_stdout(io.StringIO()):
        way = _ways(name, helper, False)["rewritten"]

    def least(call: Callable[[], object], number: int) -> float:
        return min(timeit.repeat(call, number=number, repeat=20)) / number

    step = least(way.step, 50)
    print(f"{name}, one process: {step * 1e3:.2f} ms a step")
    for check, call in way.checks.items():
        seconds = least(call, 1000)
        print(f"    {check:24} {seconds * 1e6:6.2f} us {seconds / step:7.2%}")
    dist.destroy_process_group()


def main() -> None:
    """Measure each model in processes of its own."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL", help="of " + ", ".join(MODELS))
    parser.add_argument("--rounds", type=int, default=200, help="how often each way has its turn (200)")
    parser.add_argument("--steps", type=int, default=10, help="of one turn (10)")
    arguments = parser.parse_args()
    for name in arguments.models:
        with socket.create_server(("", 0)) as free:
            port = free.getsockname()[1]
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            torch.multiprocessing.spawn(_prepare, (name,))
            torch.multiprocessing.spawn(_measure_checks, (name,))
            torch.multiprocessing.spawn(_measure, (name, arguments.rounds, arguments.steps, port), 2)
            os.chdir("/")


if __name__ == "__main__":
    main()
