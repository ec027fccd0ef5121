"""Tell which functions and classes of a project's modules its entry script can use at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index, Scope
from retrofit.survey.nodes import dotted


def reachable(
    index: Index, flow: Flow, begin: Collection[Scope] | None = None, without: Collection[Scope] = ()
) -> set[Scope]:
    """Return the scopes whose code may run: all of the entry script, and what that mentions, and so on.

    A class is mentioned with all its methods. A function that is registered by a decorator counts as mentioned.

    Args:
        begin: what runs, None for all of the entry script and the modules' own statements.
        without: functions and classes that are not run.
    """
    mentions: dict[Scope, dict[object, cst.BaseExpression]] = defaultdict(dict)
    named: list[cst.BaseExpression] = [*index.nodes_of(cst.Name), *index.nodes_of(cst.Attribute)]
    for node in named:
        mentions[index.scope_of(node)].setdefault(dotted(node) or node, node)  # a name said twice leads nowhere new
    inner: dict[Scope, list[Scope]] = defaultdict(list)
    for scope in index.scopes:
        if scope.parent is not None:
            inner[scope.parent].append(scope)
    found: set[Scope] = set()
    waiting = list(begin or ())
    if begin is None:
        waiting = [scope for scope in index.scopes if index.file_of(scope) is index.entry]
        waiting += [file.scope for file in index.files]
    while waiting:
        scope = waiting.pop()
        if scope in found or scope in without:
            continue
        found.add(scope)
        waiting += [s for s in inner[scope] if scope.kind != "module" or _registered(s)]
        for node in mentions[scope].values():
            defined = flow.defined(node, scope)
            for one in [defined] if defined is not None else flow.choices(node, scope):
                waiting.append(one)
                waiting += flow.lineage(one) if one.kind == "class" else []
    return found


def _registered(scope: Scope) -> bool:
    node = scope.node
    return isinstance(node, (cst.FunctionDef, cst.ClassDef)) and bool(node.decorators)
