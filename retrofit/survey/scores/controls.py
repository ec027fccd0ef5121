"""By which values of the epoch loop a script decides whether a checkpoint is saved."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from retrofit.survey.conditions import argument_of
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted, last_name, named_in, names_in
from retrofit.survey.scopes import Statement
from retrofit.survey.scores.making import EVALUATED, Making
from retrofit.survey.scores.validation import called_by
from retrofit.survey.scores.values import bindings_of, in_loop, root_of
from retrofit.survey.scores.words import BEST
from retrofit.survey.sites.loop import EpochLoop

#: What saves a checkpoint, or keeps a copy of the weights, by its name.
_SAVES = re.compile(r"(^|_)save(_|$)|^deepcopy$|^save[A-Z]")


def deciders(index: Index, flow: Flow, loop: EpochLoop, making: Making) -> Iterator[tuple[cst.BaseExpression, str]]:
    """Yield the values of an evaluation by which an epoch loop decides whether to save, with their places."""
    functions = called_by(index, flow, loop)
    for part in index.statements:
        if not isinstance(part.node, cst.If) or not saves(index, part):
            continue
        if in_loop(index, loop, part.node):
            given: list[cst.BaseExpression] = [part.node.test]
        else:
            names = {name.partition(".")[0] for name in names_in(part.node.test)} & {*part.scope.parameters}
            calls = functions.get(part.scope, [])
            given = [
                arg for call in calls for name in names if (arg := argument_of(part.scope, call, name)) is not None
            ]
        for value in given:
            for name in _evaluated(index, loop, making, value, 3):
                yield name, index.place(part.node, loop.file)


def saves(index: Index, statement: Statement) -> bool:
    """Whether a statement saves, or one in it does."""
    plain = isinstance(statement.node, cst.SimpleStatementLine)  # else a call of its own is one of its test
    inside = (call for call in index.calls_in(statement) if plain or index.statement(call) is not statement)
    return any(_SAVES.search(last_name(call.func)) for call in inside)


def _evaluated(
    index: Index, loop: EpochLoop, making: Making, node: cst.BaseExpression, deep: int
) -> Iterator[cst.BaseExpression]:
    """Yield the variables in an expression that an evaluation makes; of a flag those that it is made of."""
    for part in named_in(node, called=False):
        assert isinstance(part, cst.BaseExpression)
        if BEST.search(dotted(part) or "") or making.of(part) != EVALUATED:
            continue
        within = [
            one
            for b in bindings_of(index, loop, dotted(part))
            if b.value is not None and b.item is None and deep
            for one in _evaluated(index, loop, making, b.value, deep - 1)
        ]
        yield from within or [part]


def related(index: Index, loop: EpochLoop, first: cst.BaseExpression, second: cst.BaseExpression) -> bool:
    """Whether one of two values of the epoch loop is made of the other, or both are parts of one."""
    return root_of(second) in _made_of(index, loop, first) or root_of(first) in _made_of(index, loop, second)


def _made_of(index: Index, loop: EpochLoop, node: cst.BaseExpression) -> set[str]:
    waiting, found = [root_of(node)], set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            values = [b.value for b in bindings_of(index, loop, name) if b.value is not None]
            waiting += [one.partition(".")[0] for value in values for one in names_in(value, called=False)]
    return found
