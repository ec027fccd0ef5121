"""Tell what makes a layer, and what puts one into an object."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from retrofit.knowledge.kinds import Loss, Wraps
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import argument, dotted, mentions, names_in, receiver
from retrofit.survey.reaching import conditions


def is_layer(node: cst.CSTNode, flow: Flow) -> bool:
    """Whether an expression makes a layer, torch's or of an own class, no wrapper and no loss that keeps nothing."""
    made = flow.class_made(node)
    name = flow.index.qualified(node.func) if isinstance(node, cst.Call) else ""
    if made is None and isinstance(node, cst.Call) and _keeps_nothing(node, name, flow):
        return False
    name = name if made is None else flow.root(made)
    layer = re.fullmatch(r"torch\.nn\.([A-Z]\w+|modules\..*)", name)
    return bool(layer) and flow.index.knowledge.known(Wraps, name) is None


def _keeps_nothing(call: cst.Call, name: str, flow: Flow) -> bool:
    """Whether a call makes a loss that has no parameters, and is given no tensor."""
    loss = flow.index.knowledge.known(Loss, name)
    return loss is not None and not any(argument(call, one, number) for one, number in loss.tensors.items())


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


def put_once(node: cst.CSTNode, flow: Flow) -> bool:
    """Whether a layer is put into an object only where that has none of its name yet: a further call changes nothing.

    Args:
        node: what puts it there: a call, or what an assignment gives an attribute.
    """
    index, place = flow.index, _place_of(node, flow.index)
    return place is not None and any(_lacking(test, holds, index) == place for test, holds in conditions(index, node))


def _place_of(node: cst.CSTNode, index: Index) -> tuple[str, str] | None:
    """Return the object and the attribute of it into which a layer is put."""
    if isinstance(node, cst.Call) and dotted(node.func) == "setattr":
        return _named(node.args[0].value, node.args[1].value, index)
    held = receiver(node)
    if isinstance(node, cst.Call) and held is not None and node.args:
        return _named(held, node.args[0].value, index)
    targets = [one.target for one in node.targets] if isinstance(node, cst.Assign) else []
    return _asked(targets[0], index) if len(targets) == 1 and isinstance(targets[0], cst.Attribute) else None


def _lacking(test: cst.BaseExpression, holds: bool, index: Index) -> tuple[str, str] | None:
    """Return the object and the attribute that it does not have, or that is None, where a condition holds or not."""
    if isinstance(test, cst.Comparison):
        operator, other = test.comparisons[0].operator, dotted(test.comparisons[0].comparator)
        known = isinstance(operator, (cst.Is, cst.IsNot)) and other == "None" and len(test.comparisons) == 1
        return _asked(test.left, index) if known and holds is isinstance(operator, cst.Is) else None
    return None if holds else _asked(test, index)


def _asked(node: cst.BaseExpression, index: Index) -> tuple[str, str] | None:
    """Return the object and the attribute that an expression asks for, by itself or by a name that it was given."""
    if isinstance(node, cst.Attribute):
        return index.source.code(node.value), node.attr.value
    if isinstance(node, cst.Call) and dotted(node.func) in ("getattr", "hasattr") and len(node.args) > 1:
        return _named(node.args[0].value, node.args[1].value, index)
    if not isinstance(node, cst.Name):
        return None
    here = index.statement(node)
    early = [one for one in index.bound([node.value], here.scope) if one.statement.order < here.order]
    sure = early and any(early[-1].statement in part.preceding for part in (here, *here.around))
    value = early[-1].value if sure else None
    return _asked(value, index) if value is not None and not isinstance(value, cst.Name) else None


def _named(held: cst.BaseExpression, name: cst.BaseExpression, index: Index) -> tuple[str, str] | None:
    word = name.evaluated_value if isinstance(name, cst.SimpleString) else None
    return (index.source.code(held), word) if isinstance(word, str) else None


def _gone_through(node: cst.BaseExpression, index: Index) -> cst.BaseExpression:
    """Return what the loops around an expression go through where it is an item of that: `net.children()`."""
    for around in index.ancestors(node):
        if isinstance(around, cst.For) and mentions(around.target, list(names_in(node))):
            node = around.iter
    return node
