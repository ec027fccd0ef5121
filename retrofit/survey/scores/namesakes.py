"""Variables of several functions that have the name by which the user means the score."""

from __future__ import annotations

import re

import libcst as cst

from retrofit.survey.conditions import constant, taken_in_turn
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import called_in
from retrofit.survey.nodes import names_in, unquoted
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.scores.making import is_validation
from retrofit.survey.scores.values import in_loop, trains
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.score import Score

#: What needs no quotes on a command line.
_PLAIN = re.compile(r"[\w.]+")


def namesakes(index: Index, flow: Flow, loop: EpochLoop, name: str, function: Scope, score: Score) -> list[Scope]:
    """Return the functions whose variable may be meant as well as that of the one which a name is taken from.

    They run once in a turn and give the variable a value of their own. Of those that this function leads to, they
    count only where it has no value in each turn.

    Args:
        name: what the user calls the score.
        function: the function whose variable is taken for it.
        score: how the loop gets it.
    """
    if not name.isidentifier() or function.kind != "function":
        return []
    conditional = score.kept is not None and bool(score.kept.condition)
    below = called_in(index, flow, index.statement(function.node))
    making = called_in(index, flow, *made_of(index, name, function))
    once = once_in_a_turn(index, flow, loop)
    validating = {one for one in once if is_validation(index, one)}
    validating |= called_in(index, flow, *(index.statement(one.node) for one in validating))
    return [
        one
        for one in once
        if one.name != function.name
        and one not in making
        and _has_its_own(index, name, one)
        and (trains(index, function) or not trains(index, one))
        and (conditional if one in below else one in validating or function not in validating)
    ]


def _has_its_own(index: Index, name: str, function: Scope) -> bool:
    """Whether a function gives a variable a value, and no other function that one."""
    given = bool(index.bound([name], function))
    return given and name not in function.parameters and name not in function.outer


def made_of(index: Index, name: str, function: Scope) -> list[Statement]:
    """Return the statements of a function that make a variable, and what that is made of."""
    found: list[Statement] = []
    waiting, seen = [name], set[str]()
    while waiting:
        here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        for binding in index.bound([here], function):
            found.append(binding.statement)
            waiting += names_in(binding.value, called=False) if binding.value is not None else ()
    return found


def once_in_a_turn(index: Index, flow: Flow, loop: EpochLoop) -> list[Scope]:
    """Return the functions that a turn of the epoch loop leads to, but in no loop inside it."""
    found: dict[Scope, None] = {}
    waiting = [call for call in index.calls if in_loop(index, loop, call)]
    while waiting:
        call = waiting.pop(0)
        function, path = flow.called(call), index.statement(call).path
        inside = path[path.index(loop.statement) + 1 :] if loop.statement in path else index.statement(call).around
        looped = any(isinstance(one.node, (cst.For, cst.While)) and one not in loop.inner for one in inside)
        if function is not None and function not in found and not looped:
            found[function] = None
            waiting += index.calls_of(function)
    return list(found)


def words_given(index: Index, call: cst.Call) -> list[str]:
    """Return what a call is given as a user may write it, strings without their quotes, to tell it from others."""
    return [_word(index, arg.value) for arg in call.args]


def words_in_turn(index: Index, call: cst.Call) -> list[str]:
    """Return what a loop around a call has it given one after the other, in the same way."""
    return [_word(index, one) for arg in call.args for one in taken_in_turn(arg.value, index)]


def _word(index: Index, value: cst.BaseExpression) -> str:
    made = constant(value)
    return made if isinstance(made, str) else unquoted(index.source.code(value))


def told_apart(index: Index, calls: list[cst.Call]) -> list[tuple[str, cst.Call]]:
    """Return of several calls of one function each that is given something of its own, after that."""
    given = [words_given(index, call) for call in calls]
    turns = [word for call in calls for word in words_in_turn(index, call)]
    known = [*given, turns]
    own = [
        next((word for word in words if _PLAIN.fullmatch(word) and sum(word in one for one in known) == 1), "")
        for words in given
    ]
    return [(word, call) for word, call in zip(own, calls, strict=True) if word]
