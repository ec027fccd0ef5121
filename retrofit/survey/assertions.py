"""Find a script's own checks of the model's parameters and their names, which are others with dendrites."""

from __future__ import annotations

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted, last_name, method_name, nodes_in, receiver
from retrofit.survey.order import after_model
from retrofit.survey.origins import Origin
from retrofit.survey.sites.model import Assertion, Model

#: What gives the parameters of a module.
_WALKS = ("parameters", "named_parameters")


def find_assertions(index: Index, flow: Flow, origins: set[Origin], models: list[Model]) -> list[Assertion]:
    """Return assertions of how many parameters the built model has, and calls that are given its state to check it.

    Args:
        origins: where the model is built.
        models: the places after which it is there.
    """
    counting = (_counting(index, flow, node, origins) for node in index.nodes_of(cst.Assert))
    checking = (_checking(index, flow, node, origins) for node in index.nodes_of(cst.Call))
    found = [site for site in (*counting, *checking) if site is not None]
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
