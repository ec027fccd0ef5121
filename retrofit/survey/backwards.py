"""Find the backward passes of a training loop."""

from __future__ import annotations

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index, Statement
from retrofit.survey.sites import Backward


def find_backwards(index: Index, flow: Flow) -> list[Backward]:
    """Return the statements that call `.backward()` on a loss inside a loop.

    A `backward` inside a class that defines its own differentiation (`torch.autograd.Function`) is none, nor is a
    function such as `torch.autograd.backward`.
    """
    found = []
    for call in index.calls:
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "backward":
            continue
        if index.source.code(call.func.value) in ("self", "ctx", "super()"):
            continue
        if index.qualified(call.func).startswith("torch."):
            continue
        statement = index.statement(call)
        if not isinstance(statement.node, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
            continue
        loops = next(iter(flow.enclosing_loops(statement)))
        if loops:
            found.append(Backward(node=call, index=index, loop=_batch_loop(loops)))
    return found


def _batch_loop(loops: list[Statement]) -> Statement:
    return loops[0]
