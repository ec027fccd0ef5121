"""Loops in which an adversary takes steps of its own, beside the one that the model takes."""

from __future__ import annotations

import libcst as cst

from retrofit.knowledge.kinds import Optimizer, Wraps
from retrofit.survey.flow import Flow
from retrofit.survey.holders import parameter_holders
from retrofit.survey.index import Index
from retrofit.survey.origins import Origin
from retrofit.survey.scopes import Statement


def steps_another(index: Index, flow: Flow, inner: Statement, loop: Statement) -> bool:
    """Whether a loop that counts steps other optimizers than one around it, which draws a batch and steps beside it."""
    if not isinstance(inner.node, cst.For) or inner.node.iter not in index.calls_to("range"):
        return False

    def stands(call: cst.Call) -> str:
        paths = [way.path for way in flow.leading(index.statement(call))]
        return "" if not any(loop in path for path in paths) else "in" if any(inner in path for path in paths) else "by"

    steps = [(stands(call), optimizers_stepped(index, flow, call, held)) for call, held in index.method_calls("step")]
    own, others = (set[Origin]().union(*(made for at, made in steps if at == where)) for where in ("in", "by"))
    draws = any(stands(call) == "by" for call in index.calls_to("next"))
    if not (draws and own and others and own.isdisjoint(others)):
        return False
    return not _of_wrapped(index, flow, own) or _of_wrapped(index, flow, others)


def _of_wrapped(index: Index, flow: Flow, optimizers: set[Origin]) -> bool:
    """Whether some optimizers are given parameters of what a wrapper has, as the model is."""
    wrapping = [call for call in index.calls if index.knowledge.known(Wraps, flow.class_called(call)) is not None]
    operands = [operand for call in wrapping if (operand := flow.wrapped(call)) is not None]
    wrapped = set[Origin]().union(*(flow.deep_origins(one, index.scope_of(one)) for one in operands))
    given = [arg.value for one in optimizers if isinstance(one.node, cst.Call) for arg in one.node.args[:1]]
    return any(not wrapped.isdisjoint(parameter_holders(one, index.scope_of(one), flow) or ()) for one in given)


def optimizers_stepped(index: Index, flow: Flow, step: cst.Call, stepped: cst.BaseExpression) -> set[Origin]:
    """Return where the optimizers are built that a call steps, or a scaler that is given them."""
    held = [stepped, *(arg.value for arg in step.args)]
    made = {origin for one in held for origin in flow.origins(one, index.scope_of(step))}
    known = index.knowledge.named(Optimizer)
    return {one for one in made if isinstance(one.node, cst.Call) and index.qualified(one.node.func) in known}
