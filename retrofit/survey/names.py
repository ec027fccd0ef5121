"""Find parameters that a script names as a whole, `decay.remove("head.weight")`, where their names have changed."""

from __future__ import annotations

import re

import libcst as cst

from retrofit.survey.flow import Flow, Origin
from retrofit.survey.index import Index, Scope, dotted, names_in
from retrofit.survey.order import after_model
from retrofit.survey.sites import Model, WholeName
from retrofit.survey.weights import of_model

_WALKS = frozenset({"named_parameters", "named_modules", "state_dict"})
_TAKES = frozenset({"remove", "discard", "pop", "get_parameter", "add"})
_WHOLE = re.compile(r"\w+(\.\w+)*\.(weight|bias)")
#: Layers that keep their parameters' names: the recipe's library leaves them as they are.
_KEPT = re.compile(r"torch\.nn\.(Embedding|EmbeddingBag|\w*Norm\w*|PReLU|Parameter)")


def find_whole_names(origins: set[Origin], models: list[Model], flow: Flow) -> list[WholeName]:
    """Return where a name that is written out is looked for among those of the perforated model's parameters.

    Args:
        origins: where the model is built.
        models: the places after which it is there.
    """
    index = flow.index
    walked = {call: _whose(call, origins, models, flow) for call in index.calls if _method(call) in _WALKS}
    walks = [call for call, known in walked.items() if known]
    found: list[WholeName] = []
    for node in [*index.calls, *(n for n in index.parents if walks and isinstance(n, cst.Subscript))]:
        name, holder = _taken(node)
        if name is None or holder is None or not _WHOLE.fullmatch(name) or _keeps_its_name(name, index):
            continue
        taken = isinstance(node, cst.Call) and _method(node) == "get_parameter" and _whose(node, origins, models, flow)
        if taken or any(_holds_names(holder, walk, flow) for walk in walks):
            found.append(WholeName(node=node, index=index, name=name))
    return sorted(found, key=lambda site: index.source.span(site.node))


def _method(node: cst.CSTNode) -> str:
    return node.func.attr.value if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) else ""


def _taken(node: cst.CSTNode) -> tuple[str | None, cst.BaseExpression | None]:
    """Return the name that is written out and what it is looked for in: `decay.remove("head.weight")`, `known["a"]`."""
    key: cst.BaseExpression | None = None
    holder: cst.BaseExpression | None = None
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _TAKES:
        key, holder = node.args[0].value if node.args else None, node.func.value
    elif isinstance(node, cst.Subscript) and len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
        key, holder = node.slice[0].slice.value, node.value
    value = key.evaluated_value if isinstance(key, cst.SimpleString) else None
    return (value if isinstance(value, str) else None), holder


def _whose(call: cst.Call, origins: set[Origin], models: list[Model], flow: Flow) -> bool:
    """Whether a method is called on the model once it is perforated, also by the model's class itself, on `self`."""
    assert isinstance(call.func, cst.Attribute)
    index = flow.index
    calls = [call]
    if dotted(call.func.value) == "self":
        calls = [one for one in flow.callers(index.scope_of(call)) if isinstance(one.func, cst.Attribute)]
    return any(
        after_model(index.statement(one), model, flow) and of_model(one.func.value, origins, flow)
        for one in calls
        for model in models
        if isinstance(one.func, cst.Attribute)
    )


def _holds_names(holder: cst.BaseExpression, walk: cst.Call, flow: Flow) -> bool:
    """Whether a set or dict has the names that a walk through the model gives: by its value, or filled in the walk."""
    index, scope = flow.index, flow.index.scope_of(walk)
    name = dotted(holder)
    if name is None:
        return walk in _inside(holder)
    if index.scope_of(holder) is not scope:
        return False
    if any(b.value is not None and walk in _inside(b.value) for b in index.bound([name], scope)):
        return True
    loops = [
        s for s in index.loops if isinstance(s.node, cst.For) and s.scope is scope and walk in _inside(s.node.iter)
    ]
    return any(loop in index.statement(fill).path for loop in loops for fill in _fills(name, scope, index))


def _fills(name: str, scope: Scope, index: Index) -> list[cst.CSTNode]:
    """Return where a set or dict gets an item of a name that is no constant."""
    items = [b.statement.node for b in index.items if b.statement.scope is scope and b.target.startswith(f"{name}[")]
    added = [
        call
        for call in index.calls
        if isinstance(call.func, cst.Attribute) and dotted(call.func.value) == name and index.scope_of(call) is scope
        if call.args and any(names_in(arg.value) for arg in call.args)
    ]
    return [*items, *added]


def _inside(node: cst.CSTNode) -> list[cst.CSTNode]:
    return [node, *(inner for child in node.children for inner in _inside(child))]


def _keeps_its_name(name: str, index: Index) -> bool:
    """Whether the layer that a parameter belongs to is visibly of a kind that is left as it is."""
    layer = name.split(".")[-2]
    made = [b.value for b in index.bindings if b.target == f"self.{layer}"]
    return bool(made) and all(
        isinstance(value, cst.Call) and _KEPT.fullmatch(index.qualified(value.func)) is not None for value in made
    )
