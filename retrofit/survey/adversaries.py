"""Loops in which an adversary takes steps of its own, beside the one that the model takes."""

from __future__ import annotations

import libcst as cst

from retrofit.knowledge.kinds import Optimizer
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.origins import Origin
from retrofit.survey.scopes import Statement


def steps_another(index: Index, flow: Flow, inner: Statement, loop: Statement) -> bool:
    """Whether a loop that counts steps other optimizers than one around it, which draws a batch and steps beside it."""
    node = inner.node
    if (
        not isinstance(node, cst.For)
        or not isinstance(node.iter, cst.Call)
        or index.qualified(node.iter.func) != "range"
    ):
        return False

    def stands(call: cst.Call) -> str:
        paths = [way.path for way in flow.leading(index.statement(call))]
        return "" if not any(loop in path for path in paths) else "in" if any(inner in path for path in paths) else "by"

    steps = [(stands(call), _optimizers(index, flow, call, held)) for call, held in index.method_calls("step")]
    own, others = (set[Origin]().union(*(made for at, made in steps if at == where)) for where in ("in", "by"))
    draws = any(stands(call) == "by" for call in index.calls_to("next"))
    return draws and bool(own and others) and own.isdisjoint(others)


def _optimizers(index: Index, flow: Flow, step: cst.Call, stepped: cst.BaseExpression) -> set[Origin]:
    """Return where the optimizers are built that a call steps, or a scaler that is given them."""
    held = [stepped, *(arg.value for arg in step.args)]
    made = {origin for one in held for origin in flow.origins(one, index.scope_of(step))}
    known = index.knowledge.named(Optimizer)
    return {one for one in made if isinstance(one.node, cst.Call) and index.qualified(one.node.func) in known}
