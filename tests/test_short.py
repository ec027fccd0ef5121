"""How a rehearsal ends loaders after a few batches, without torch."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator
from itertools import count
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.helpers import RECIPE_FOLDER


class Loader:
    """What `torch.utils.data.DataLoader` is to the helper."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __iter__(self) -> Iterator[Any]:
        return iter(self.data)


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Loaders end as in a rehearsal; what is returned is called as an optimizer that steps calls its hooks."""
    monkeypatch.delenv("PAI_REHEARSAL_BATCHES", raising=False)
    for name in ("__iter__", "__init_subclass__"):
        monkeypatch.setattr(Loader, name, getattr(Loader, name))
    hooks: list[Callable[[], None]] = []
    optimizers: Any = ModuleType("torch.optim.optimizer")
    optimizers.register_optimizer_step_post_hook = hooks.append
    monkeypatch.setitem(sys.modules, "torch.optim.optimizer", optimizers)
    torch = SimpleNamespace(
        utils=SimpleNamespace(data=SimpleNamespace(DataLoader=Loader)),
        autograd=SimpleNamespace(backward=lambda: None),
    )
    runpy.run_path(str(RECIPE_FOLDER / "pai_distributed" / "short.py"))["_pai_shorten"](torch)
    monkeypatch.setattr(Loader, "backward", torch.autograd.backward, raising=False)
    return hooks[0]


@pytest.mark.usefixtures("step")
def test_an_iterator_that_was_ended_goes_on_where_it_is_asked_again() -> None:
    batches = iter(Loader(count()))
    assert [list(batches), list(batches)] == [[*range(12)], [*range(12, 24)]]
    batches = iter(Loader(range(14)))
    assert [list(batches) for _ in range(4)] == [[*range(12)], [12, 13], [], []]


def test_a_loader_does_not_end_before_a_step_that_is_due(step: Callable[[], None]) -> None:
    batches = iter(Loader(count()))
    for _ in range(2):
        given = []
        for batch in batches:
            given.append(batch)
            Loader.backward()  # type: ignore[attr-defined]
            if len(given) == 15:
                step()
        assert len(given) == 15
