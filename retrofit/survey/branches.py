"""Which statements exclude each other, and where their ways meet."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from typing import Any

import libcst as cst

from retrofit.survey.nodes import COMPARING, exits, last_of, leaves, mentions, names_in, nodes_in, receiver
from retrofit.survey.scopes import Statement

_ASSIGNING = (cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.NamedExpr, cst.For, cst.CompFor)


def meeting(statements: list[Statement]) -> Statement | None:
    """Return the statement after which every one of ``statements`` has had its chance to run.

    That is the last of them in their common block, or the compound statement whose branches hold them; None where they
    are in different functions, or there are none.
    """
    if not statements:
        return None
    paths = [statement.path for statement in statements]
    depth = 0
    while all(len(path) > depth for path in paths) and len({path[depth] for path in paths}) == 1:
        depth += 1
    heads = [path[depth] for path in paths if len(path) > depth]
    if len(heads) == len(paths) and len({id(head.siblings) for head in heads}) == 1:
        found = max(heads, key=lambda head: head.index)
    elif depth:
        found = paths[0][depth - 1]
    else:
        return None  # in different files
    return None if isinstance(found.node, (cst.FunctionDef, cst.ClassDef)) else found


def given_before(joint: Statement, statement: Statement, names: Collection[str]) -> bool:
    """Whether the branch of a statement returns one of some names before it comes to where all branches meet.

    Args:
        joint: that place, as `meeting` finds it.
    """
    lasts = (last_of(part.siblings[-1].node) for part in statement.path[len(joint.path) :])
    values = (last.value for last in lasts if isinstance(last, cst.Return))
    return any(mentions(held, names) for value in values if (held := _held(value)) is not None)


def _held(value: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """Return what methods are called on one after the other, None where a plain function is called."""
    while isinstance(value, cst.Call):
        value = receiver(value)
    return value


def exclude_each_other(first: Statement, second: Statement) -> bool:
    """Whether two statements of a function stand in different branches of one choice, or one returns first."""
    parting = next(((a, b) for a, b in zip(first.path, second.path, strict=False) if a is not b), None)
    if parting is None or first.scope is not second.scope:
        return False
    if parting[0].siblings is not parting[1].siblings:
        return True
    early, later = (first, parting[1]) if parting[0].index < parting[1].index else (second, parting[0])
    return _returns_before(early, later) or _contradict(first, second, *parting)


def _contradict(first: Statement, second: Statement, one: Statement, other: Statement) -> bool:
    """Whether two statements stand in the bodies of an `if` each, side by side, whose tests cannot both hold."""
    if not isinstance(one.node, cst.If) or not isinstance(other.node, cst.If):
        return False
    inside = [
        part for around, path in ((one, first.path), (other, second.path)) for part in path if part.parent is around
    ]
    bodies = (one.node.body.body, other.node.body.body)
    if len(inside) != 2 or not all(part.node in body for part, body in zip(inside, bodies, strict=True)):
        return False
    if not _exclude(one.node.test, other.node.test):
        return False
    asked = {name for test in (one.node.test, other.node.test) for name in names_in(test)}
    start, end = sorted((one.index, other.index))
    assigning = [
        node for part in one.siblings[start:end] for node in nodes_in(part.node) if isinstance(node, _ASSIGNING)
    ]
    given = {name for node in assigning for name in names_in(node.target)}
    return not any(name == new or name.startswith(f"{new}.") for name in asked for new in given)


def _exclude(one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """Whether two tests never hold together: `a` and `not a`, `a == 1` and `a != 1`, `a == 1` and `a > 1`."""
    for here, there in ((one, other), (other, one)):
        if isinstance(there, cst.UnaryOperation) and isinstance(there.operator, cst.Not):
            return here.deep_equals(there.expression)
        if _denies(here, there):
            return True
    asked = [known for test in (one, other) if (known := _asked(test)) is not None]
    if len(asked) != 2 or not asked[0][0].deep_equals(asked[1][0]):
        return False
    (_, first, here), (_, second, there) = asked
    if isinstance(here, (str, bytes)) or isinstance(there, (str, bytes)):
        return first is second is operator.eq and here != there
    near = (here, there, (here + there) / 2, *(value + step for value in (here, there) for step in (-1, 1)))
    return not any(first(value, here) and second(value, there) for value in near)


def _asked(test: cst.BaseExpression) -> tuple[cst.BaseExpression, Callable[[Any, Any], bool], Any] | None:
    """Return what a test compares, how, and with which text or number that is written down; None for any other."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    asks, value = COMPARING.get(type(test.comparisons[0].operator)), test.comparisons[0].comparator
    if asks is None or not isinstance(value, (cst.SimpleString, cst.Integer, cst.Float)):
        return None
    return test.left, asks, value.evaluated_value


#: Operators that hold where others do not.
_TURNED = {cst.Is: cst.IsNot, cst.Equal: cst.NotEqual, cst.In: cst.NotIn}


def _denies(one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """Whether one of two comparisons holds just where the other does not: `a == 1` and `a != 1`."""
    if not (isinstance(one, cst.Comparison) and isinstance(other, cst.Comparison) and one.left.deep_equals(other.left)):
        return False
    (here, *more), (there, *further) = one.comparisons, other.comparisons
    turned = _TURNED.get(type(here.operator)) is type(there.operator)
    return turned and not more and not further and here.comparator.deep_equals(there.comparator)


def _returns_before(early: Statement, later: Statement) -> bool:
    """Whether what runs a statement, in a block beside ``later``, returns, exits or raises before it comes there."""
    raised = False  # as far as nothing around it may catch that
    while early.siblings is not later.siblings and early.parent is not None:
        lasts = [last_of(part.node) for part in (early, *early.following)]
        if any(isinstance(last, cst.Return) or exits(last) for last in lasts):
            return True
        raised = raised or any(isinstance(last, cst.Raise) for last in lasts)
        early = early.parent
        raised = raised and isinstance(early.node, cst.If)
    return raised


def left_before(here: Statement) -> list[cst.If]:
    """Return the `if`s before a statement, in its function, by whose blocks that or the process is left."""
    before = [one.node for one in here.before if isinstance(one.node, cst.If)]
    return [one for one in before if leaves(one.body) or exits(last_of(one.body))]
