"""Tell what makes a layer, and what puts one into an object."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from retrofit.knowledge.kinds import Wraps
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted, mentions, names_in


def is_layer(node: cst.CSTNode, flow: Flow) -> bool:
    """Whether an expression makes a layer, one of torch's or of an own class, and no wrapper."""
    made = flow.class_made(node)
    name = flow.index.qualified(node.func) if isinstance(node, cst.Call) else ""
    name = name if made is None else flow.root(made)
    layer = re.fullmatch(r"torch\.nn\.([A-Z]\w+|modules\..*)", name)
    return bool(layer) and flow.index.knowledge.known(Wraps, name) is None


def puts_in(flow: Flow) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
    """Yield what puts a layer into an object by a key, or by a name that is worked out, with what holds that object."""
    index = flow.index
    for assign in index.nodes_of(cst.Assign):
        keyed = [one.target for one in assign.targets if isinstance(one.target, cst.Subscript)]
        if keyed and index.holds(index.scope_of(assign)) and is_layer(assign.value, flow):
            yield keyed[0], _gone_through(keyed[0].value, index)
    given = [(call, call.args[0].value, call.args[2].value) for call in index.calls_to("setattr") if len(call.args) > 2]
    adding = index.method_calls("add_module", "register_module")
    given += [(call, held, call.args[1].value) for call, held in adding if len(call.args) > 1]
    for call, holder, value in given:
        made = [origin.node for origin in flow.origins(value, index.scope_of(call))]
        if dotted(holder) != "self" and any(is_layer(one, flow) for one in made):
            yield call, _gone_through(holder, index)


def _gone_through(node: cst.BaseExpression, index: Index) -> cst.BaseExpression:
    """Return what the loops around an expression go through where it is an item of that: `net.children()`."""
    for around in index.ancestors(node):
        if isinstance(around, cst.For) and mentions(around.target, list(names_in(node))):
            node = around.iter
    return node
