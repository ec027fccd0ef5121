"""Find the backward passes of a training loop."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from retrofit.knowledge.kinds import Backpropagates
from retrofit.survey.flow import Flow
from retrofit.survey.holding import Holding
from retrofit.survey.index import Index
from retrofit.survey.nodes import argument, dotted, last_name, leaves, method_name, names_in, nodes_in, receiver
from retrofit.survey.origins import Origin
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.loop import Backward


def find_backwards(index: Index, flow: Flow, adrift: bool = False) -> list[Backward]:
    """Return the statements that call `.backward()` on a loss inside a loop.

    Args:
        adrift: return those around which no loop is found instead.

    A `backward` inside a class that defines its own differentiation (`torch.autograd.Function`) is none, nor is
    `torch.autograd.backward` of something else than losses. A call of something that is not of this project, which is
    known to hold the backward pass, or by a name that says it scales and with a loss and an optimizer
    (`loss_scaler(loss, optimizer)`), is one.

    One that tunes a tensor of its own function, with an optimizer of just that, is no part of the training, nor is one
    through a copy of the model that its function makes to see what changes an input, nor, beside others, one for the
    gradient of such a tensor.
    """
    found: list[Backward] = []
    aside: list[Backward] = []
    known = {call for call, _ in backpropagations(index, flow)}
    for call in index.calls:
        if call in known or _scales(index, flow, call):
            loops = _loops_around(flow, index.statement(call))
            found += [] if bool(loops) is adrift else [Backward(node=call, index=index, loop=next(iter(loops), None))]
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
        loops = _loops_around(flow, statement)
        if loops and (_tunes_a_tensor(index, flow, loops[0], statement) or _is_of_a_copy(index, flow, call)):
            continue
        if bool(loops) is not adrift:
            kind = aside if _is_for_a_tensor(index, flow, statement) else found
            kind.append(Backward(node=call, index=index, loop=next(iter(loops), None)))
    return found or aside


def find_cut_off(index: Index) -> list[Site]:
    """Return the statements that always leave before a backward pass, as a `return` that was left in to try something.

    What is behind them never runs, and is not looked into otherwise.
    """
    return [
        Site(node=one.node, index=index)
        for one in index.statements
        if leaves(one.node)
        and not isinstance(one.node, cst.Raise)
        and any(method_name(node) == "backward" for later in one.following for node in nodes_in(later.node))
    ]


def _loops_around(flow: Flow, statement: Statement) -> list[Statement]:
    """Return the loops on the first way to a statement that has any; that of a function nothing calls has none."""
    return next(filter(None, flow.enclosing_loops(statement)), [])


def backpropagations(index: Index, flow: Flow) -> Iterator[tuple[cst.Call, Backpropagates]]:
    """Yield the calls in which a library runs the backward pass, by a function or by an object of a class of it."""
    known = index.knowledge.named(Backpropagates)
    made = {Origin(call): known[index.qualified(call.func)] for call in index.calls_to(*known)}
    for call in index.calls if made else ():
        found = made.get(Origin(call))
        if found is None or last_name(call.func)[:1].isupper():  # which makes the object
            origins = flow.origins(call.func, index.scope_of(call))
            found = next((made[one] for one in origins if one in made), None)
        if found is not None and all(argument(call, *one) is not None for one in found.loss.items()):
            yield call, found


def _tunes_a_tensor(index: Index, flow: Flow, loop: Statement, backward: Statement) -> bool:
    """Whether the optimizers that a loop steps have nothing but tensors that the function around it makes."""
    stepped = [
        origin.node
        for call, stepping in index.method_calls("step")
        if loop in index.statement(call).path and index.scope_of(call) is backward.scope
        for origin in flow.origins(stepping, backward.scope)
    ]
    here = [index.scope_of(node) is backward.scope and has_own_tensors(index, node) for node in stepped]
    return bool(here) and all(here)


def _is_for_a_tensor(index: Index, flow: Flow, backward: Statement) -> bool:
    """Whether the function around a backward pass reads the gradient of a tensor that it makes, for no step.

    Guided sampling does so, and an attack on the model: neither it nor what calls it steps anything.
    """
    scope = backward.scope
    around = {scope, *(index.scope_of(call) for call in flow.callers(scope))}
    if scope.kind != "function" or any(index.scope_of(call) in around for call, _ in index.method_calls("step")):
        return False
    told = [dotted(held) for call, held in index.method_calls("requires_grad_") if index.scope_of(call) is scope]
    told += [b.target.removesuffix(".requires_grad") for b in index.bindings if b.target.endswith(".requires_grad")]
    given = {b.target for b in index.bindings if b.statement.scope is scope and b.value is not None}
    tensors = _tensors(index, scope) | {name for name in told if name in given.union(scope.parameters)}
    return any(
        node.attr.value == "grad" and dotted(node.value) in tensors and index.statement(node).order > backward.order
        for node in index.nodes_of(cst.Attribute)
        if index.scope_of(node) is scope
    )


def _is_of_a_copy(index: Index, flow: Flow, backward: cst.Call) -> bool:
    """Whether a loss is of a copy of a model that its function makes, runs in its place, neither trains nor returns.

    An attack on a model does so, which needs the gradient of its inputs alone.
    """
    scope, loss = index.scope_of(backward), receiver(backward)
    calls, copies = index.calls_of(scope), index.calls_to("copy.deepcopy")
    if loss is None or not isinstance(scope.node, cst.FunctionDef):
        return False
    if not {"step", "parameters", "named_parameters"}.isdisjoint(map(method_name, calls)):
        return False
    for copy in (one for one in copies if one in calls and one.args):
        copied = dotted(copy.args[0].value)
        ran = {call for call in calls if Origin(copy) in flow.origins(call.func, scope)}
        instead = copied is not None and any(one.value is copy for one in index.bound([copied], scope))
        alone = instead or sum(f"{name}.".startswith(f"{copied}.") for name in names_in(scope.node.body)) == 1
        kept = any(Origin(copy) in flow.origins(value, scope) for value in index.returned(scope))  # trained elsewhere
        if alone and ran and not kept and Holding(ran, flow).holds(loss):
            return True
    return False


def has_own_tensors(index: Index, made: cst.BaseExpression) -> bool:
    """Whether an optimizer is built of nothing but tensors that the function around it makes."""
    scope = index.scope_of(made)
    if not isinstance(made, cst.Call) or scope.kind != "function":
        return False
    params = argument(made, "params", 0)
    if not isinstance(params, (cst.List, cst.Tuple)):
        return False
    return _tensors(index, scope).issuperset(dotted(element.value) or "" for element in params.elements)


def _tensors(index: Index, scope: Scope) -> set[str]:
    """Return the names of tensors that a function makes, and that may be trained."""
    values = [(b.target, b.value) for b in index.bindings if b.statement.scope is scope and b.value is not None]
    return {name for name, value in values if any(map(_makes_parameter, nodes_in(value)))}


def _makes_parameter(node: cst.CSTNode) -> bool:
    """Whether an expression makes a tensor that may be trained."""
    if not isinstance(node, cst.Call):
        return False
    asked = argument(node, "requires_grad")
    return last_name(node.func) == "Parameter" or method_name(node) == "requires_grad_" or dotted(asked) == "True"


def _scales(index: Index, flow: Flow, call: cst.Call) -> bool:
    """Whether a call hands loss and optimizer to a helper of another project that does the backward pass."""
    name = last_name(call.func)
    statement = index.statement(call).node
    if not re.search(r"scaler$", name, re.IGNORECASE) or flow.called(call) is not None or len(call.args) < 2:
        return False
    given = [index.source.code(arg.value) for arg in call.args[:2]]
    plain = isinstance(statement, (cst.SimpleStatementLine, cst.SimpleStatementSuite))
    return plain and "loss" in given[0].lower() and "optim" in given[1].lower()
