"""Find a script's own checks of the model's parameters and their names, which are others with dendrites."""

from __future__ import annotations

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted, is_lacking, last_name, method_name, names_in, nodes_in, receiver
from retrofit.survey.order import after_model
from retrofit.survey.origins import Origin
from retrofit.survey.scopes import Scope
from retrofit.survey.sites.model import Assertion, Model
from retrofit.survey.weights import of_model

#: What gives the parameters of a module.
_WALKS = ("parameters", "named_parameters")


def find_assertions(index: Index, flow: Flow, origins: set[Origin], models: list[Model]) -> list[Assertion]:
    """Return assertions of how many parameters the built model has, and what gives its state to a check of its names.

    Args:
        origins: where the model is built.
        models: the places after which it is there.
    """
    counting = (_counting(index, flow, node, origins) for node in index.nodes_of(cst.Assert))
    checking = (_checking(index, flow, node, origins) for node in index.nodes_of(cst.Call))
    refusing = (_refusing(index, flow, call, model, origins) for call, model in index.method_calls("state_dict"))
    found = [site for site in (*counting, *checking, *refusing) if site is not None]
    return [site for site in found if any(after_model(site.statement, model, flow) for model in models)]


def _counting(index: Index, flow: Flow, node: cst.Assert, origins: set[Origin]) -> Assertion | None:
    """Return an assertion that the model has just so many parameters: `assert len(parameters) == 2`."""
    test, code = node.test, index.source.code
    if not isinstance(test, cst.Comparison) or not isinstance(test.comparisons[0].operator, cst.Equal):
        return None
    sides = [test.left, test.comparisons[0].comparator]
    for side, other in (sides, sides[::-1]):
        if _counts_parameters(index, flow, side, origins):
            least = f"{code(side)} >= {code(other)}" if isinstance(other, cst.Integer) else ""
            return Assertion(node=node, index=index, least=least, anchors={"comparison": test})
    return None


def _counts_parameters(index: Index, flow: Flow, node: cst.BaseExpression, origins: set[Origin]) -> bool:
    """Whether an expression is the length of a list of the model's parameters."""
    if not isinstance(node, cst.Call) or dotted(node.func) != "len" or len(node.args) != 1:
        return False
    value, scope = node.args[0].value, index.scope_of(node)
    values = [value]
    if isinstance(value, cst.Name):
        values = [
            source.value for source in flow.sources(flow.variable(value.value, scope)) if source.value is not None
        ]
    names = flow.names_of(origins, scope)
    walks = [[part for part in nodes_in(one) if method_name(part) in _WALKS] for one in values]
    return bool(walks) and all(any(dotted(receiver(part)) in names for part in parts) for parts in walks)


def _checking(index: Index, flow: Flow, node: cst.Call, origins: set[Origin]) -> Assertion | None:
    """Return a call of a function that asserts something of the model's state, and does nothing else with it."""
    states = [arg.value for arg in node.args if method_name(arg.value) == "state_dict"]
    function = flow.called(node) if states else None
    parts = [] if function is None else [*nodes_in(function.node)]
    called = [last_name(part.func) or method_name(part) for part in parts if isinstance(part, cst.Call)]
    does = any("save" in name or name in ("load_state_dict", "step") for name in called)
    if does or not any(isinstance(part, cst.Assert) for part in parts):
        return None
    for value in states:
        model = receiver(value)
        if model is not None and not origins.isdisjoint(flow.deep_origins(model, index.scope_of(node))):
            return Assertion(node=node, index=index, checked=index.source.code(model), anchors={"state": value})
    return None


def _refusing(
    index: Index, flow: Flow, state: cst.Call, model: cst.BaseExpression, origins: set[Origin]
) -> Assertion | None:
    """Return what gives the model's state where a function raises at names that it has and another has not."""
    scope = index.scope_of(state)
    raised = [node for node in index.nodes_of(cst.Raise) if index.scope_of(node) is scope]
    tests = [around.test for node in raised for around in index.ancestors(node) if isinstance(around, cst.If)]
    tests += [node.test for node in index.nodes_of(cst.Assert) if index.scope_of(node) is scope]
    compared = [one for test in tests for one in _made_of(index, test, scope) if any(map(_compares, nodes_in(one)))]
    refused = any(state in nodes_in(part) for one in compared for part in _made_of(index, one, scope))
    parts = [model, *(one.node for one in flow.origins(model, scope))] if refused else []
    if not any(of_model(part, origins, flow) for part in parts):
        return None
    return Assertion(node=state, index=index, checked=index.source.code(model), anchors={"state": state})


def _made_of(index: Index, node: cst.BaseExpression, scope: Scope) -> list[cst.BaseExpression]:
    """Return an expression, and what a function gives the names in it, and what loops go through for these, in turn."""
    found, waiting = list[cst.BaseExpression](), [node]
    while waiting:
        found.append(waiting.pop())
        for made in index.bound(list(names_in(found[-1])), scope):
            head = made.statement.node
            value = head.iter if made.value is None and isinstance(head, cst.For) else made.value
            waiting += [value] if value is not None and value not in [*found, *waiting] else []
    return found


def _compares(node: cst.CSTNode) -> bool:
    """Whether an expression tells what one has and another lacks, or asks whether it has something."""
    return is_lacking(node) or (isinstance(node, cst.ComparisonTarget) and isinstance(node.operator, cst.NotIn))
