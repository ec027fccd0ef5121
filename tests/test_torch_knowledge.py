"""What is known of torch, held against the installed torch."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

from retrofit.knowledge import load_knowledge
from retrofit.knowledge.kinds import Collective, Loss, Optimizer, ReturnsModule, Scheduler, Wraps

pytestmark = pytest.mark.real

KNOWN = load_knowledge()
WRAPPERS = sorted(name for name in KNOWN.named(Wraps) if name.startswith("torch."))


def resolve(path: str) -> Any:
    """Return what a dotted path names."""
    parts = path.split(".")
    for number in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:number]))
        except ModuleNotFoundError:
            continue
        for part in parts[number:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(path)


def positional(function: Any) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in inspect.signature(function).parameters.values() if p.kind in kinds]


@pytest.mark.parametrize("name", sorted(KNOWN.signatures(Optimizer)))
def test_optimizer_parameters_are_torchs_own(name: str) -> None:
    optim = importlib.import_module("torch.optim")
    known = list(KNOWN.signatures(Optimizer)[name])
    assert positional(getattr(optim, name))[: len(known)] == known


@pytest.mark.parametrize("name", sorted(KNOWN.signatures(Scheduler)))
def test_scheduler_parameters_are_torchs_own(name: str) -> None:
    scheduler = importlib.import_module("torch.optim.lr_scheduler")
    known = list(KNOWN.signatures(Scheduler)[name])
    assert positional(getattr(scheduler, name))[: len(known)] == known


@pytest.mark.parametrize("name", sorted(KNOWN.signatures(Optimizer)))
def test_optimizer_is_an_optimizer(name: str) -> None:
    optim = importlib.import_module("torch.optim")
    assert issubclass(getattr(optim, name), optim.Optimizer)


@pytest.mark.parametrize("path", WRAPPERS)
def test_wrapper_is_torchs_own(path: str) -> None:
    kind = "DistributedDataParallel" if path in KNOWN.wrappers["ddp"] else "DataParallel"
    assert resolve(path) is resolve(f"torch.nn.parallel.{kind}")


@pytest.mark.parametrize("path", [*WRAPPERS, *sorted(p for p in KNOWN.named(ReturnsModule) if p.startswith("torch."))])
def test_module_function_takes_the_module_first(path: str) -> None:
    assert positional(resolve(path))[0] in ("module", "model")


@pytest.mark.parametrize("name", sorted(KNOWN.module_methods))
def test_module_method_returns_the_module(name: str) -> None:
    nn = importlib.import_module("torch.nn")
    module = nn.Linear(1, 1)
    arguments = {"to": ("cpu",), "apply": (lambda part: None,)}.get(name, ())
    assert callable(getattr(module, name))
    if name not in ("cuda", "xpu"):
        assert getattr(module, name)(*arguments) is module


@pytest.mark.parametrize("path", WRAPPERS)
def test_wrapper_parameters_are_torchs_own(path: str) -> None:
    assert tuple(positional(resolve(path))) == KNOWN.named(Wraps)[path].parameters


@pytest.mark.parametrize("wrapper", ["DistributedDataParallel", "DataParallel"])
def test_wrapper_members_are_known(wrapper: str) -> None:
    members = {name for name in dir(resolve(f"torch.nn.parallel.{wrapper}")) if not name.startswith("_")}
    assert members <= KNOWN.wrapper_members


@pytest.mark.parametrize("name", sorted(KNOWN.named(Collective)))
def test_arguments_of_collectives_are_torchs_own(name: str) -> None:
    known = KNOWN.named(Collective)[name]
    parameters = positional(resolve(name))
    assert all(parameters[position] == argument for argument, position in {**known.result, **known.rank}.items())


@pytest.mark.parametrize("name", sorted(KNOWN.named(Loss)))
def test_tensors_of_losses_are_torchs_own(name: str) -> None:
    parameters = inspect.signature(resolve(name)).parameters
    for argument, position in KNOWN.named(Loss)[name].tensors.items():
        assert argument in parameters
        assert position < 0 or positional(resolve(name))[position] == argument


def test_losses_are_those_of_torch_without_parameters() -> None:
    nn = importlib.import_module("torch.nn")
    weighted = {"AdaptiveLogSoftmaxWithLoss", "LinearCrossEntropyLoss"}
    losses = {name for name in dir(nn) if name.endswith("Loss")} - weighted
    assert {f"torch.nn.{name}" for name in losses} == set(KNOWN.named(Loss))
