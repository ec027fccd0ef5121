"""Find where a training goes around its wrapper, so that the processes never average their gradients."""

from __future__ import annotations

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.holding import ASKING, Holding
from retrofit.survey.loops import called_in
from retrofit.survey.nodes import dotted
from retrofit.survey.origins import Origin
from retrofit.survey.sites.call import CallSite
from retrofit.survey.sites.loop import Backward
from retrofit.survey.sites.wrapper import Wrapper

_HOOKS = ("register_hook", "register_post_accumulate_grad_hook")


def find_bypass(
    wrappers: list[Wrapper], backwards: list[Backward], origins: set[Origin], flow: Flow
) -> CallSite | None:
    """Return a call of the bare model around a backward pass, where nothing there can be a call of its wrapper.

    None where the script may average the gradients by itself.

    Args:
        wrappers: those of the model.
        backwards: the backward passes.
        origins: where the model is built.
    """
    index = flow.index
    loops = {backward.loop for backward in backwards if backward.loop is not None}
    scopes = called_in(index, flow, *loops).union(backward.scope for backward in backwards)
    inside = {call for loop in loops for call in index.calls_in(loop)}
    apart = scopes.difference(loop.scope for loop in loops)
    calls = [call for call in index.calls if call in inside or index.scope_of(call) in apart]
    led = [call for loop in loops for way in flow.leading(loop) for call in flow.callers(way.scope)]
    heads = {part for call in led for part in index.statement(call).path if isinstance(part.node, (cst.For, cst.While))}
    beyond = [call for scope in called_in(index, flow, *heads) for call in index.calls_of(scope)]
    beyond += [call for head in heads for call in index.calls_in(head)]  # what follows a batch may average
    sent = [call for call in [*calls, *beyond] if index.qualified(call.func).startswith("torch.distributed.")]
    averaging = {index.scope_of(call) for call in sent}
    by_hand = any(node.attr.value == "grad" and index.scope_of(node) in averaging for node in index.attributes)
    seen = all(not one.part and (one.target or one.returned) for one in wrappers)
    if not seen or all(one.kind != "ddp" for one in wrappers) or by_hand or index.method_calls(*_HOOKS):
        return None
    wrapped = [node for one in wrappers if isinstance(node := one.anchors["operand"], cst.BaseExpression)]
    within = {one.node for one in origins if any(Holding({one.node}, flow).holds(node) for node in wrapped)}
    built = Holding(within, flow)
    bare = next((call for call in calls if _forwards(call, origins, flow) and built.used_by(call)), None)
    methods = [call for call in led if calls_model(call, origins, flow) and built.used_by(call)]
    bare = bare or next(iter(methods), None)  # a method of the model, which trains in it and calls itself
    beside = index.knowledge.wrapper_members - index.knowledge.module_methods - {"forward"}
    holding = Holding({wrapper.node for wrapper in wrappers}, flow, beside)
    opaque = [call for call in calls if flow.called(call) is None or _forwards(call, origins, flow)]
    if bare is None or any(holding.used_by(call) for call in opaque):  # the calls of what is seen are among them
        return None
    return CallSite(node=bare, index=index)


def calls_model(call: cst.Call, origins: set[Origin], flow: Flow) -> bool:
    """Whether a call is of the model, or of a method that the model has of its own, also within its wrapper."""
    members = flow.index.knowledge.wrapper_members - {"forward"}
    named = [one.node for one in flow.origins(call.func, flow.index.scope_of(call)) if one.item is None]
    methods = [one for one in (call.func, *named) if isinstance(one, cst.Attribute) and one.attr.value not in members]
    return _is_of([call.func, *(one.value for one in methods)], origins, flow)


def _forwards(call: cst.Call, origins: set[Origin], flow: Flow) -> bool:
    """Whether a call is of the model, of a method that the model has of its own, or makes something of the model."""
    makes = (
        flow.called(call) is None
        and not flow.index.is_provided(call.func)
        and dotted(call.func) not in ASKING
        and not isinstance(flow.index.parents[call], cst.Expr)
    )
    given = [arg.value for arg in call.args] if makes else []
    return calls_model(call, origins, flow) or _is_of(given, origins, flow)


def _is_of(nodes: list[cst.BaseExpression], origins: set[Origin], flow: Flow) -> bool:
    return any(not origins.isdisjoint(flow.origins(node, flow.index.scope_of(node))) for node in nodes)
