"""Tell whose parameters an expression collects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.names import Source
from retrofit.survey.nodes import dotted
from retrofit.survey.origins import Origin
from retrofit.survey.scopes import Scope

#: The methods of a module that go through its parameters or its modules.
WALKS = frozenset({"parameters", "named_parameters", "modules", "named_modules", "children", "named_children"})
_PASSING = frozenset({"list", "tuple", "iter", "filter", "dict", "itertools.chain", "itertools.chain.from_iterable"})
#: The methods of a list that put something into it.
ADDING = frozenset({"append", "extend", "insert"})


def parameter_holders(node: cst.BaseExpression, scope: Scope, flow: Flow) -> set[Origin] | None:
    """Return where the modules are made whose parameters an expression has, through lists, groups and loops over them.

    Args:
        node: what an optimizer is given.
        scope: the function that it stands in.

    Returns:
        Where they are made; None where some of them cannot be told.
    """
    found: set[Origin] = set()
    for walked in modules_walked(node, scope, flow):
        if walked is None:
            return None
        found |= _made(*walked, flow)
    return found


def modules_walked(
    node: cst.BaseExpression, scope: Scope, flow: Flow
) -> Iterator[tuple[cst.BaseExpression, Scope] | None]:
    """Yield the modules whose parameters an expression has, each with the function that names it.

    None for what cannot be told.
    """
    waiting, seen = [(node, scope)], {id(node)}
    while waiting:
        here, inside = waiting.pop()
        if isinstance(here, cst.Call) and isinstance(here.func, cst.Attribute) and here.func.attr.value in WALKS:
            yield here.func.value, inside
            continue
        parts = list(_parts(here, inside, flow))
        if not parts and not isinstance(here, (cst.List, cst.Tuple)):
            yield None
        for part in parts:
            if part.value is None or part.item is not None:
                yield None
            elif id(part.value) not in seen:
                seen.add(id(part.value))
                waiting.append((part.value, part.scope))


def _parts(node: cst.BaseExpression, scope: Scope, flow: Flow) -> Iterator[Source]:
    """What an expression is made of; nothing where that cannot be told."""
    if isinstance(node, cst.Call):
        if flow.index.qualified(node.func) in _PASSING:
            yield from (Source(arg.value, scope) for arg in node.args if not isinstance(arg.value, cst.Lambda))
    elif isinstance(node, cst.BaseSimpleComp):
        walked: cst.CompFor | None = node.for_in
        while walked is not None:
            yield Source(walked.iter, scope)
            walked = walked.inner_for_in
    elif isinstance(node, (cst.List, cst.Tuple)):
        yield from (Source(element.value, scope) for element in node.elements)
    elif isinstance(node, cst.Dict):
        for element in node.elements:
            key = element.key if isinstance(element, cst.DictElement) else None
            if isinstance(key, cst.SimpleString) and key.evaluated_value == "params":
                yield Source(element.value, scope)
    elif isinstance(node, cst.BinaryOperation):
        yield from (Source(node.left, scope), Source(node.right, scope))
    elif isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
        given = flow.given(node, scope)
        changed = list(_changes(node, scope, flow))
        yield from (one for one in given if one.value is not None)
        yield from changed
        name = dotted(node)
        own = flow.sources(flow.variable(name, scope)) if name is not None else []
        known, there = (sum(one.value is None for one in some) for some in (own, given))
        if max(known, there - known) > len(changed):  # an attribute's are among those of its object, too
            yield Source(None, scope)
        if isinstance(node, cst.Subscript):
            yield from (Source(one, scope) for one in _in_item(node, scope, flow))
        for call, holder in flow.index.method_calls(*ADDING):
            if call.args and _same(node, scope, holder, flow.index.scope_of(call), flow):
                yield Source(call.args[-1].value, flow.index.scope_of(call))


def _changes(node: cst.BaseExpression, scope: Scope, flow: Flow) -> Iterator[Source]:
    """Yield what is added to a list by `+=`, and what a loop goes through by that variable."""
    index = flow.index
    for target, value in _changed(flow).get(index.source.code(node), ()):
        if _same(node, scope, target, index.scope_of(target), flow):
            yield Source(value, index.scope_of(target))


@lru_cache(maxsize=1)
def _changed(flow: Flow) -> dict[str, list[tuple[cst.BaseExpression, cst.BaseExpression]]]:
    """Return by its code what `+=` adds to and what a loop gives, each with the value: asked of every argument."""
    index, found = flow.index, defaultdict[str, list[tuple[cst.BaseExpression, cst.BaseExpression]]](list)
    loops = [loop.node for loop in index.loops if isinstance(loop.node, cst.For)]
    adding = [
        (one.target, one.value) for one in index.nodes_of(cst.AugAssign) if isinstance(one.operator, cst.AddAssign)
    ]
    for target, value in [*adding, *((loop.target, loop.iter) for loop in loops)]:
        targets = [one.value for one in target.elements] if isinstance(target, (cst.Tuple, cst.List)) else [target]
        for one in targets:
            found[index.source.code(one)].append((one, value))
    return found


def _same(node: cst.BaseExpression, scope: Scope, other: cst.BaseExpression, here: Scope, flow: Flow) -> bool:
    """Whether two expressions mean one variable, or one item of it."""
    code = flow.index.source.code
    if type(node) is not type(other) or code(node) != code(other):
        return False
    while isinstance(node, cst.Subscript) and isinstance(other, cst.Subscript):
        node, other = node.value, other.value
    name = dotted(node)
    return name is not None and dotted(other) == name and flow.variable(name, scope) == flow.variable(name, here)


def _made(module: cst.BaseExpression, scope: Scope, flow: Flow) -> set[Origin]:
    """Where a module is made, or what it is a part of, where nothing else is known of it."""
    given = _in_item(module, scope, flow) if isinstance(module, cst.Subscript) else []
    found = {origin for one in given or [module] for origin in flow.deep_origins(one, scope)}
    if isinstance(module, cst.Attribute) and all(origin.node is module for origin in found):
        return _made(module.value, scope, flow)
    return found


def _in_item(node: cst.Subscript, scope: Scope, flow: Flow) -> list[cst.BaseExpression]:
    """Return what `losses['center']` was given in this scope, by itself or as part of a dict."""
    index = flow.index
    code = index.source.code(node)
    given = [b.value for b in index.items if b.target == code and b.statement.scope is scope and b.value is not None]
    for one in flow.origins(node.value, scope):
        elements = one.node.elements if isinstance(one.node, cst.Dict) and index.scope_of(one.node) is scope else []
        parts = [part for part in elements if isinstance(part, cst.DictElement)]
        given += [part.value for part in parts if code.endswith(f"[{index.source.code(part.key)}]")]
    return given
