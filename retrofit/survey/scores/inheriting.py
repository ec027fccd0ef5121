"""What a method does that several classes inherit: by the methods that the object's own class has."""

from __future__ import annotations

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.nodes import dotted, method_name, receiver
from retrofit.survey.scopes import Scope, Statement

#: So many methods are followed, one called by the other: they may call each other.
_DEEP = 6


def object_class(flow: Flow, function: Scope, call: cst.Call, kind: Scope | None) -> Scope | None:
    """Return the class of the object whose method a call runs, None where it is none, or may be of several.

    Args:
        kind: the class of the object whose method the call stands in, if that is known.
    """
    held = receiver(call)
    if function.holder is None or held is None:
        return None
    if dotted(held) == "self" or (isinstance(held, cst.Call) and dotted(held.func) == "super"):
        return kind
    made = {flow.class_made(one.node) for one in flow.origins(held, flow.index.scope_of(call))}
    return made.pop() if len(made) == 1 else None


def method_run(flow: Flow, call: cst.Call, kind: Scope | None) -> Scope | None:
    """Return the local function that a call runs: of `self.method()` that of the object's class, where it is known."""
    if kind is not None and dotted(receiver(call)) == "self":
        name = method_name(call)
        holder = next((one for one in flow.lineage(kind) if name in one.names), None)
        if holder is not None:
            return holder.inner.get(name)
    return flow.called(call)


def leads_as(flow: Flow, step: Statement, kind: Scope | None, steps: list[Statement], deep: int = _DEEP) -> bool:
    """Whether a statement leads to a backward pass where an object of a class runs it.

    Args:
        steps: those that do so for some object.
    """
    if kind is None or not deep:
        return True
    training = {one.scope for one in steps}
    calls = [c for c in flow.index.calls_in(step) if any(c in flow.callers(scope) for scope in training)]
    runs = [method_run(flow, call, kind) if dotted(receiver(call)) == "self" else None for call in calls]
    return not calls or any(
        one is None or any(part.scope is one and leads_as(flow, part, kind, steps, deep - 1) for part in steps)
        for one in runs
    )
