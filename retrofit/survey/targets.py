"""Tell which variable gets what a call makes, and by which names a call is given what it is."""

from __future__ import annotations

import re

import libcst as cst

from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted


def target_of(index: Index, call: cst.CSTNode, item: int | None = None) -> str:
    """Return the variable that gets a call's value, perhaps by choice: `a() if x else b()`, `{1: a(), 2: b()}[x]`.

    Args:
        item: which of the values that it returns together is meant, None for what it returns.
    """
    value = held_as(index, call)
    part = ""
    if isinstance(value, cst.Dict):  # of several things, not one of them: an item of it
        around = index.parents[call]
        if around not in value.elements or not isinstance(around, cst.DictElement):
            return ""
        if not isinstance(around.key, cst.SimpleString):
            return ""
        if _returned_by_choice(index, value):
            return ""
        part = f"[{around.key.value}]"
    bindings = [*index.bindings, *(b for b in index.items if re.fullmatch(r"[\w.]+\[[\"']\w+[\"']\]", b.target))]
    return next((f"{b.target}{part}" for b in bindings if b.value is value and item in (None, b.item)), "")


def _returned_by_choice(index: Index, made: cst.Dict) -> bool:
    """Whether a function returns the one item of a dict that a value chooses: `return choice[args.optimizer]`."""
    names = {b.target for b in index.bindings if b.value is made}
    return any(
        isinstance(one.value, cst.Subscript)
        and dotted(one.value.value) in names
        and scope is index.scope_of(made)
        and isinstance(key := one.value.slice[0].slice, cst.Index)
        and not isinstance(key.value, (cst.SimpleString, cst.Integer))
        for one, scope in index.returns
    )


def held_as(index: Index, call: cst.CSTNode) -> cst.CSTNode:
    """Return the whole value of which a call's may be one by choice."""
    holder = index.parents.get(call)
    while isinstance(holder, (cst.IfExp, cst.DictElement, cst.Dict, cst.Subscript)):
        call, holder = holder, index.parents.get(holder)
    return call


def bind(index: Index, call: cst.Call, parameters: tuple[str, ...], skip: int = 0) -> list[tuple[str, str]] | None:
    """Bind a call's arguments to parameter names.

    Args:
        parameters: the names that arguments by position take.
        skip: how many first parameters to leave out.

    Returns:
        (name, code) pairs in the order of the call, `("**", code)` for an unpacked mapping; None where an argument by
        position has no known name.
    """
    bound = []
    for number, arg in enumerate(call.args):
        code = index.source.code(arg.value)
        if arg.star == "**":
            bound.append(("**", code))
        elif arg.star or (arg.keyword is None and number >= len(parameters)):
            return None
        else:
            name = arg.keyword.value if arg.keyword else parameters[number]
            if name not in parameters[:skip]:
                bound.append((name, code))
    return bound
