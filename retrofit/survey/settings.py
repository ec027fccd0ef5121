"""What gives the attributes of an object of settings their values: `settings.amp`, by the class that it is of."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted
from retrofit.survey.scopes import Binding, Scope


def given_elsewhere(flow: Flow, name: str, scope: Scope) -> list[Binding]:
    """Return what gives an attribute of an object a value by another name than ``name``, such as that of its class.

    None of it where the object may also get the attribute by a name that only the run knows.
    """
    holder, _, attribute = name.rpartition(".")
    held = _class_of(flow, holder, scope) if holder else None
    if held is None or is_set_by_name(flow, attribute, held):
        return []
    meant = flow.variable(name, scope)
    named = [b for b in flow.index.bindings if "." in b.target and b.target.rpartition(".")[2] == attribute]
    others = [b for b in named if flow.variable(b.target, b.statement.scope) != meant]
    return [b for b in others if _class_of(flow, b.target.rpartition(".")[0], b.statement.scope) is held]


def is_set_by_name(flow: Flow, attribute: str, holder: Scope) -> bool:
    """Whether objects of a class of the project, the last of its bases, may get an attribute by a string."""
    found = set_by_name(flow, attribute)
    return any(holder in _classes_of(flow, dotted(held) or "", scope) for held, scope in found)


def _class_of(flow: Flow, name: str, scope: Scope) -> Scope | None:
    """Return the class of the project, by the last of its bases, that the objects of a name are of, if it is one."""
    found = _classes_of(flow, name, scope)
    return found.pop() if len(found) == 1 else None


def _classes_of(flow: Flow, name: str, scope: Scope) -> set[Scope | None]:
    """Return the same for each object that a name may be, None for what is none of a class of the project."""
    if name == "self":
        return {flow.family(scope.enclosing_class) if scope.enclosing_class is not None else None}
    holder, _, attribute = name.rpartition(".")
    own = flow.sources(flow.variable(name, scope))
    whole = _class_of(flow, holder, scope) if holder and not own else None
    given = flow.sources((whole, f"self.{attribute}")) if whole is not None else []
    parts = [(one.value, one.scope) for one in given] or [(cst.parse_expression(name), scope)]
    made = [origin for node, here in parts if node is not None for origin in flow.deep_origins(node, here)]
    built = [flow.class_made(origin.node) for origin in made if not flow.inside(origin)]
    return {flow.family(one) if one is not None else None for one in built}


def calls_by_name(
    index: Index,
) -> Iterator[tuple[cst.Call, cst.BaseExpression, cst.BaseExpression | None, cst.BaseExpression]]:
    """Yield the calls that give an object attributes by strings: `setattr(x, name, y)`, `x.__dict__.update(known)`.

    Returns:
        each with the object, the name, None for those of a dict, and what is given.
    """
    for call in index.calls_to("setattr", "object.__setattr__"):
        if len(call.args) == 3:
            held, name, value = (arg.value for arg in call.args)
            yield call, held, name, value
    for call, own in index.method_calls("update"):
        whole = own.value if isinstance(own, cst.Attribute) and own.attr.value == "__dict__" else None
        if isinstance(own, cst.Call) and index.qualified(own.func) == "vars" and own.args:
            whole = own.args[0].value
        if whole is not None and call.args:
            yield call, whole, None, call.args[0].value


def set_by_name(flow: Flow, attribute: str) -> list[tuple[cst.BaseExpression, Scope]]:
    """Return the objects that may get an attribute by a string."""
    return [(held, scope) for held, scope, name in _set_by_names(flow) if name in (None, attribute)]


@lru_cache(maxsize=1)  # as it is asked for each attribute
def _set_by_names(flow: Flow) -> list[tuple[cst.BaseExpression, Scope, str | bytes | None]]:
    """Return the objects that may get attributes by strings, each with the name that is written down, None for any."""
    index, found = flow.index, list[tuple[cst.BaseExpression, Scope, str | bytes | None]]()
    for call, held, name, _ in calls_by_name(index):
        written = name.evaluated_value if isinstance(name, cst.SimpleString) else None
        found.append((held, index.scope_of(call), written))
    for binding in (*index.bindings, *index.items):
        whole, by_dict, rest = binding.target.partition(".__dict__")
        if by_dict and rest[:1] in ("", "["):
            found.append((cst.parse_expression(whole), binding.statement.scope, None))
    return found
