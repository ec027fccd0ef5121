"""Tell what runs before what: before the model is there, before training, after it."""

from __future__ import annotations

import re
from collections.abc import Set

import libcst as cst

from retrofit.survey.flow import Flow, Origin
from retrofit.survey.index import Index, Scope, Statement, exclude_each_other
from retrofit.survey.sites import EpochLoop, Model


def leads_to(place: Statement, training: set[Statement]) -> bool:
    """Whether a statement runs before what leads to the epoch loop in its own function."""
    return any(
        later in training and not defines(later)
        for part in place.path
        if part.scope is place.scope
        for later in part.following
    )


def apart_from_training(place: Statement, loops: list[EpochLoop], flow: Flow) -> bool:
    """Whether a statement runs only after the training or instead of it, as in a branch or a function that tests."""
    training = leading_to(loops, flow)
    ways = beside_training(place, loops, flow)
    return bool(ways) and not any(leads_to(way, training) or way in training for way in ways)


def beside_training(place: Statement, loops: list[EpochLoop], flow: Flow) -> list[Statement]:
    """Return the statements by which one runs, each in the innermost function that leads to the epoch loop.

    Nothing where it runs in that loop.
    """
    scopes = {part.scope for part in leading_to(loops, flow) if not defines(part)}
    inside = {loop.statement for loop in loops}
    waiting, seen, found = [place], {place}, []
    while waiting:
        here = waiting.pop()
        if not inside.isdisjoint(here.path):
            return []
        if here.scope in scopes:
            found.append(here)
        else:
            calls = {flow.index.statement(call) for call in flow.callers(here.scope)} - seen
            seen |= calls
            waiting += calls
    return found


def leading_to(loops: list[EpochLoop], flow: Flow) -> set[Statement]:
    """Return the statements around the epoch loops, in their functions and in those that call these."""
    found: set[Statement] = set()
    waiting = [loop.statement for loop in loops]
    while waiting:
        here = waiting.pop()
        if here not in found:
            found.update(here.path)
            waiting += [flow.index.statement(call) for call in flow.callers(here.scope)]
    return found


def after_training(training: set[Statement]) -> set[Statement]:
    """Return the statements after all that lead to an epoch loop."""
    return {later for part in training for later in part.following if training.isdisjoint([later, *later.following])}


def ways_to(statement: Statement, flow: Flow, origins: Set[Origin] = frozenset()) -> dict[Scope, list[Statement]]:
    """Return the statements by which one runs: itself, and the calls that lead to it, by their functions.

    Args:
        origins: where the model is built; of a function's calls those count that are given it, if any is.
    """
    index = flow.index
    found: dict[Scope, list[Statement]] = {}
    waiting = [statement]
    while waiting:
        here = waiting.pop()
        known = found.setdefault(here.scope, [])
        if here in known:
            continue
        known.append(here)
        calls = flow.callers(here.scope)
        given = [
            call
            for call in calls
            if any(not origins.isdisjoint(flow.deep_origins(a.value, index.scope_of(call))) for a in call.args)
        ]
        waiting += [index.statement(call) for call in given or calls]
    return found


def after_model(place: Statement, model: Model, flow: Flow) -> bool:
    """Whether a statement runs after the model is perforated, as far as is seen."""
    if place.scope is model.scope:
        return place.order > model.statement.order and model.statement not in place.path
    here, made = ways_to(place, flow), ways_to(model.statement, flow)
    inner = next((scope for scope in (model.scope, place.scope) if scope in here and scope in made), None)
    return any(
        one.order > other.order and other not in one.path and not exclude_each_other(one, other)
        for scope in (here.keys() & made.keys() if inner is None else {inner})
        for one in here[scope]
        for other in made[scope]
    )


def one_after_the_other(first: Statement, second: Statement) -> bool:
    """Whether two statements of a function may both run, because they are not in different branches of one choice."""
    return first.scope is second.scope and first is not second and not exclude_each_other(first, second)


def defines(statement: Statement) -> bool:
    """Whether a statement only defines a function or a class, and runs nothing of it."""
    return isinstance(statement.node, (cst.FunctionDef, cst.ClassDef))


def leaves(index: Index, statement: Statement) -> bool:
    """Whether a block ends its function or the program: it loads a model to test it."""
    code = index.source.code(statement.node)
    return re.search(r"^\s*return\b|\bexit\(", code, re.MULTILINE) is not None


def always_leaves(statement: Statement, index: Index) -> bool:
    """Whether a statement, whatever the conditions, ends its function or the program."""
    ending = r"(return|raise)\b|((sys|os)\.)?_?(exit|quit)\("
    return isinstance(statement.node, cst.SimpleStatementLine) and any(
        re.match(ending, index.source.code(small)) for small in statement.node.body
    )
