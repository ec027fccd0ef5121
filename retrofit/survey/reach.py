"""Tell which functions and classes of a project's modules its entry script can use at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import attribute_asked, dotted, last_name
from retrofit.survey.scopes import Scope


def reachable(
    index: Index, flow: Flow, begin: Collection[Scope] | None = None, without: Collection[Scope] = ()
) -> set[Scope]:
    """Return the scopes whose code may run: the modules' own statements, what these mention, and so on.

    A class is mentioned with all its methods, but for those of one by itself that nothing can mean: others call their
    own by that name. A function that is registered by a decorator counts as mentioned, and what a class extends where
    the class does.

    Args:
        begin: what runs, None for the modules' own statements.
        without: functions and classes that are not run.
    """
    mentions: dict[Scope, dict[object, cst.BaseExpression]] = defaultdict(dict)
    named: list[cst.BaseExpression] = [*index.nodes_of(cst.Name), *index.nodes_of(cst.Attribute), *flow.lookups.nodes]
    named += [call for call in index.calls if attribute_asked(call)]
    members = {one.attr for one in index.nodes_of(cst.Attribute)}  # `runner.test` means no function `test`
    extending = {base.value: scope for scope in index.scopes for base in getattr(scope.node, "bases", ())}
    for node in named:
        if node in members:
            continue
        said = node if flow.is_configured(node) else dotted(node) or node
        mentions[extending.get(node) or index.scope_of(node)].setdefault(said, node)  # one said twice leads nowhere new
    inner: dict[Scope, list[Scope]] = defaultdict(list)
    for scope in index.scopes:
        if scope.parent is not None:
            inner[scope.parent].append(scope)
    found: set[Scope] = set()
    waiting = [file.scope for file in index.files] if begin is None else [*begin]
    heirs: dict[Scope, list[Scope]] = defaultdict(list)
    if any(one.attr.value == "__subclasses__" for one in index.nodes_of(cst.Attribute)):
        for scope in index.scopes:
            for base in flow.lineage(scope) if scope.kind == "class" else ():
                heirs[base].append(scope)
    asked = {str(one.evaluated_value) for one in index.nodes_of(cst.SimpleString)}
    methods, seen = _methods_by_themselves(index, flow), set[object]()
    while waiting := waiting or [s for s in methods - found - {*without} if s.name in asked and s.parent in found]:
        scope = waiting.pop()
        if scope in found or scope in without:
            continue
        found.add(scope)
        waiting += [s for s in inner[scope] if (scope.kind != "module" and s not in methods) or _registered(s)]
        for node in mentions[scope].values():
            defined = flow.defined(node, scope)
            if defined is None and isinstance(node, cst.Attribute):
                asked.add(node.attr.value)
            for one in [defined] if defined is not None else flow.choices.of(node, scope, seen):
                waiting.append(one)
                waiting += [*flow.lineage(one), *heirs[one]] if one.kind == "class" else []
    return found


def _methods_by_themselves(index: Index, flow: Flow) -> set[Scope]:
    """Return the methods that only a call by their names can run: of classes that extend none and none extends.

    Not of those that are handed on, themselves or what they make, to whatever may call their methods.
    """
    classes = [scope for scope in index.scopes if scope.kind == "class"]
    related = {one for scope in classes if len(lineage := flow.lineage(scope)) > 1 for one in lineage}
    alone = {scope for scope in classes if scope not in related and flow.root(scope) in ("", "object")}
    names = {scope.name for scope in alone}
    for node in index.nodes_of(cst.Name) if alone else ():
        if node.value not in names:
            continue
        call, *around = index.ancestors(node)
        scope = index.scope_of(node)
        named = isinstance(call, cst.Call) and call.func is node and not isinstance(around[0], cst.Arg)
        named |= isinstance(call, cst.Attribute) and call.value is node and flow.defined(call, scope) is not None
        meant = None if named else flow.defined(node, scope)
        alone -= {meant} if meant is not None else set()
    return {
        method
        for scope in alone
        for name, method in scope.inner.items()
        if method.kind == "function" and not name.startswith("__") and not _registered(method)
    }


def _registered(scope: Scope) -> bool:
    """Whether a decorator may keep a function or a class for others to find; one that only binds a method does not."""
    nodes = scope.node.decorators if isinstance(scope.node, (cst.FunctionDef, cst.ClassDef)) else ()
    return any(last_name(one.decorator) not in ("classmethod", "staticmethod") for one in nodes)
