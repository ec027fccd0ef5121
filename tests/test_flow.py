"""Where values come from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import libcst as cst
import pytest

from retrofit.survey.flow import Flow, Origin
from retrofit.survey.index import Index
from tests.helpers import source_of


def test_helpers_that_call_helpers_are_followed_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = "".join(f"def f{n + 1}(x):\n    return f{n}(x) if x else f{n}(x)\n" for n in range(15))
    index = Index(source_of(f"def f0(x):\n    return x\n{chain}model = Net()\nmodel = f15(model)\n"))
    steps = 0
    trace = Flow._trace

    def counted(self: Flow, *given: Any) -> Iterator[Origin]:
        nonlocal steps
        steps += 1
        return trace(self, *given)

    monkeypatch.setattr(Flow, "_trace", counted)
    flow = Flow(index)
    assert [index.source.code(o.node) for o in flow.origins(cst.Name("model"), index.scope)] == ["Net()"]
    assert steps < 1000


def test_an_object_may_be_its_own_part() -> None:
    index = Index(source_of("model = model.net\nmodel.net = wrap(model.net.module)\nmodel.net = model.net.cuda()\n"))
    assert [index.source.code(o.node) for o in Flow(index).origins(cst.Name("model"), index.scope)] == [
        "wrap(model.net.module)"
    ]
    index = Index(source_of("model = model.net\nmodel.net = model.net.cuda()\n"))
    assert Flow(index).origins(cst.Name("model"), index.scope) == []
