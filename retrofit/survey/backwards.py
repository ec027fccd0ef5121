"""Find the backward passes of a training loop."""

from __future__ import annotations

import re

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index, Statement, dotted
from retrofit.survey.sites import Backward


def find_backwards(index: Index, flow: Flow, adrift: bool = False) -> list[Backward]:
    """Return the statements that call `.backward()` on a loss inside a loop.

    Args:
        adrift: return those around which no loop is found instead.

    A `backward` inside a class that defines its own differentiation (`torch.autograd.Function`) is none, nor is
    `torch.autograd.backward` of something else than losses. A call of something that is not of this project, by a name
    that says it scales, with a loss and an optimizer (`loss_scaler(loss, optimizer)`), holds the backward pass.
    """
    found: list[Backward] = []
    for call in index.calls:
        if _scales(index, flow, call):
            loops = next(iter(flow.enclosing_loops(index.statement(call))))
            found += [] if bool(loops) is adrift else [Backward(node=call, index=index, loop=_batch_loop(loops))]
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "backward":
            continue
        if index.source.code(call.func.value) in ("self", "ctx", "super()"):
            continue
        losses = index.source.code(call.args[0].value) if call.args else ""
        if index.qualified(call.func).startswith("torch.") and "loss" not in losses.lower():
            continue
        statement = index.statement(call)
        if not isinstance(statement.node, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
            continue
        loops = next(iter(flow.enclosing_loops(statement)))
        if bool(loops) is not adrift:
            found.append(Backward(node=call, index=index, loop=_batch_loop(loops)))
    return found


def _scales(index: Index, flow: Flow, call: cst.Call) -> bool:
    """Whether a call hands loss and optimizer to a helper of another project that does the backward pass."""
    name = (dotted(call.func) or "").rpartition(".")[2]
    statement = index.statement(call).node
    if not re.search(r"scaler$", name, re.IGNORECASE) or flow.called(call) is not None or len(call.args) < 2:
        return False
    given = [index.source.code(arg.value) for arg in call.args[:2]]
    plain = isinstance(statement, (cst.SimpleStatementLine, cst.SimpleStatementSuite))
    return plain and "loss" in given[0].lower() and "optim" in given[1].lower()


def _batch_loop(loops: list[Statement]) -> Statement | None:
    return loops[0] if loops else None
