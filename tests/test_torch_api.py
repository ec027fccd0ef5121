"""What the engine knows of torch's signatures, held against the installed torch."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

from retrofit import torch_api

pytestmark = pytest.mark.real


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


@pytest.mark.parametrize("name", sorted(torch_api.OPTIMIZERS))
def test_optimizer_parameters_are_torchs_own(name: str) -> None:
    optim = importlib.import_module("torch.optim")
    known = list(torch_api.OPTIMIZERS[name])
    assert positional(getattr(optim, name))[: len(known)] == known


@pytest.mark.parametrize("name", sorted(torch_api.SCHEDULERS))
def test_scheduler_parameters_are_torchs_own(name: str) -> None:
    scheduler = importlib.import_module("torch.optim.lr_scheduler")
    known = list(torch_api.SCHEDULERS[name])
    assert positional(getattr(scheduler, name))[: len(known)] == known


@pytest.mark.parametrize("name", sorted(torch_api.OPTIMIZERS))
def test_optimizer_is_an_optimizer(name: str) -> None:
    optim = importlib.import_module("torch.optim")
    assert issubclass(getattr(optim, name), optim.Optimizer)


@pytest.mark.parametrize(
    "path", sorted(p for p in torch_api.DDP_NAMES | torch_api.DATA_PARALLEL_NAMES if p.startswith("torch."))
)
def test_wrapper_is_torchs_own(path: str) -> None:
    kind = "DistributedDataParallel" if path in torch_api.DDP_NAMES else "DataParallel"
    assert resolve(path) is resolve(f"torch.nn.parallel.{kind}")


@pytest.mark.parametrize("path", sorted(p for p in torch_api.MODULE_FUNCTIONS if p.startswith("torch.")))
def test_module_function_takes_the_module_first(path: str) -> None:
    assert positional(resolve(path))[0] in ("module", "model")


@pytest.mark.parametrize("name", sorted(torch_api.MODULE_METHODS))
def test_module_method_returns_the_module(name: str) -> None:
    nn = importlib.import_module("torch.nn")
    module = nn.Linear(1, 1)
    arguments = {"to": ("cpu",), "apply": (lambda part: None,)}.get(name, ())
    assert callable(getattr(module, name))
    if name not in ("cuda", "xpu"):
        assert getattr(module, name)(*arguments) is module


def test_every_moving_method_is_a_module_method() -> None:
    assert torch_api.MOVING_METHODS <= torch_api.MODULE_METHODS


@pytest.mark.parametrize(
    ("wrapper", "known"),
    [
        ("DistributedDataParallel", torch_api.DDP_PARAMETERS),
        ("DataParallel", torch_api.DATA_PARALLEL_PARAMETERS),
    ],
)
def test_wrapper_parameters_are_torchs_own(wrapper: str, known: tuple[str, ...]) -> None:
    assert tuple(positional(resolve(f"torch.nn.parallel.{wrapper}"))) == known


@pytest.mark.parametrize("wrapper", ["DistributedDataParallel", "DataParallel"])
def test_wrapper_members_are_known(wrapper: str) -> None:
    members = {name for name in dir(resolve(f"torch.nn.parallel.{wrapper}")) if not name.startswith("_")}
    assert members <= torch_api.WRAPPER_MEMBERS


@pytest.mark.parametrize("name", sorted({*torch_api.TO_ONE_RANK, *torch_api.TO_ALL_RANKS}))
def test_arguments_of_collectives_are_torchs_own(name: str) -> None:
    asked = torch_api.TO_ONE_RANK.get(name) or (torch_api.TO_ALL_RANKS[name],)
    parameters = positional(resolve(name))
    assert all(parameters[position] == argument for argument, position in asked)


def test_losses_are_those_of_torch_without_parameters() -> None:
    nn = importlib.import_module("torch.nn")
    weighted = {"AdaptiveLogSoftmaxWithLoss", "LinearCrossEntropyLoss"}
    losses = {name for name in dir(nn) if name.endswith("Loss")} - weighted
    assert {f"torch.nn.{name}" for name in losses} == torch_api.LOSSES
