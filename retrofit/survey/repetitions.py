"""Find what goes through a training more than once, and tell which of these do the same each time."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from retrofit.survey.counters import increments
from retrofit.survey.flow import Flow
from retrofit.survey.holders import ADDING
from retrofit.survey.nodes import dotted, last_name, names_in, spelled
from retrofit.survey.scopes import Scope, Statement

#: What a loop goes through of which each is the same training again.
_SAME_AGAIN = re.compile(
    r"(?<![a-z])(seeds?|runs?|ite?rs?|repeats?|repetitions?|trials?|reps?)(?![a-z])", re.IGNORECASE
)


def repeats_itself(node: cst.CSTNode) -> bool:
    """Whether a `for` does the same in each turn but for chance, by its names: one of seeds, runs or trials."""
    return isinstance(node, (cst.For, cst.CompFor)) and any(
        _SAME_AGAIN.search(n) for n in (*names_in(node.target), *names_in(node.iter))
    )


def has_one_item(flow: Flow, items: cst.BaseExpression, scope: Scope) -> bool:
    """Whether a loop goes through a list that is written down with one item, and that nothing makes longer.

    So does `range` that ends one behind its start, by what is written: `range(fold, fold + 1)`.
    """
    index, name = flow.index, dotted(items)
    made = [one.node for one in flow.origins(items, scope)]
    lists = [one for one in made if not _counts_once(one)]
    held = [one.elements for one in lists if isinstance(one, (cst.List, cst.Tuple))]
    grown = {last_name(one) for _, one in index.method_calls(*ADDING)}
    grown.update(last_part(b.target) for b in index.bindings if increments(b))
    alone = all(len(items) == 1 and isinstance(items[0], cst.Element) for items in held)
    return bool(made) and len(held) == len(lists) and alone and (name is None or last_part(name) not in grown)


def _counts_once(node: cst.CSTNode) -> bool:
    """Whether a call is a `range` of one number, whatever that is."""
    if not isinstance(node, cst.Call) or dotted(node.func) != "range" or len(node.args) not in (1, 2):
        return False
    start, end = (("", 0), *(_shifted(arg.value) for arg in node.args))[-2:]
    return start[0] == end[0] is not None and end[1] - start[1] == 1


def _shifted(node: cst.BaseExpression) -> tuple[str | None, int]:
    """Return a number as a name, "" for none, and what is added to it; None for what may be another the next time."""
    if isinstance(node, cst.Integer):
        return "", node.evaluated_value
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Add, cst.Subtract)):
        (left, first), (right, second) = _shifted(node.left), _shifted(node.right)
        if isinstance(node.operator, cst.Add) and "" in (left, right):
            return (right if left == "" else left), first + second
        return (left, first - second) if right == "" else (None, 0)
    return spelled(node), 0


def last_part(name: str) -> str:
    """Return the last part of a dotted name."""
    return name.rpartition(".")[2]


def comprehended(flow: Flow, statement: Statement) -> list[cst.CompFor]:
    """Return the `for` of each comprehension whose turns call what leads to a statement: `[run(k) for k in folds]`.

    What starts processes side by side is left out, what has one item, and what picks some.
    """
    index, found, seen = flow.index, dict[cst.CompFor, None](), set[Scope]()
    waiting = [statement.scope]
    while waiting:
        scope = waiting.pop()
        calls = flow.callers(scope) if scope.kind == "function" and scope not in seen else []
        seen.add(scope)
        for call in calls:
            around = index.statement(call).scope
            waiting.append(around)
            ones = _turned_by(list(index.ancestors(call)), call) if not flow.starts_process(call) else ()
            found |= {one: None for one in ones if not one.ifs and not has_one_item(flow, one.iter, around)}
    return list(found)


def _turned_by(around: list[cst.CSTNode], inner: cst.CSTNode) -> Iterator[cst.CompFor]:
    """Yield the `for` of the comprehensions around a node that run it in each turn, not what they go through."""
    for node in around:
        if isinstance(node, cst.Lambda):
            return
        if isinstance(node, cst.BaseComp) and inner is not node.for_in:
            yield node.for_in
        inner = node
