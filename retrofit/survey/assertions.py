"""Find a script's own checks of the model's parameters and their names, which are others with dendrites."""

from __future__ import annotations

import re

import libcst as cst

from retrofit.survey.flow import Flow, Origin
from retrofit.survey.index import Index, dotted
from retrofit.survey.order import after_model
from retrofit.survey.sites import Assertion, Model


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
    listed = re.compile(rf"(?<![.\w])({'|'.join(map(re.escape, names))})\.(named_)?parameters\(") if names else None
    return listed is not None and bool(values) and all(listed.search(index.source.read(one)) for one in values)


def _checking(index: Index, flow: Flow, node: cst.Call, origins: set[Origin]) -> Assertion | None:
    """Return a call of a function that asserts something of the model's state, and does nothing else with it."""
    function = flow.called(node)
    code = "" if function is None else index.source.read(function.node)
    if not re.search(r"^\s*assert\b", code, re.MULTILINE) or re.search(r"save|load_state_dict|\.step\(", code):
        return None
    for arg in node.args:
        value = arg.value
        if not isinstance(value, cst.Call) or value.args or not isinstance(value.func, cst.Attribute):
            continue
        model, method = value.func.value, value.func.attr.value
        if method == "state_dict" and not origins.isdisjoint(flow.deep_origins(model, index.scope_of(node))):
            return Assertion(node=node, index=index, checked=index.source.code(model), anchors={"state": value})
    return None
