"""Scores that one rank alone has: by `dist.reduce(total, 0)`, or as it alone measures them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import libcst as cst

from retrofit.knowledge.kinds import Collective
from retrofit.survey.branches import exclude_each_other
from retrofit.survey.conditions import argument_of, taken_in_turn
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import argument, dotted, key_of, method_name, receiver, spelled, unquoted
from retrofit.survey.parameters import default_of
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.scores.making import Making
from retrofit.survey.scores.presence import filled_on_first
from retrofit.survey.scores.site import taken_at
from retrofit.survey.scores.standins import StandIns
from retrofit.survey.scores.words import Candidate
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.score import Score


@dataclass(frozen=True)
class _Given:
    """A variable, or an item of one, that a collective is given, itself or by a function that passes it on."""

    name: str
    at: Statement
    call: cst.Call


def _left_on_one(index: Index, flow: Flow, read: Collection[tuple[str, Statement]]) -> cst.Call | None:
    """Return the collective that leaves a value on one rank alone, None where all ranks have it.

    Args:
        read: the variables of which the value is made, each with a statement that reads it.
    """
    known = {name: one for name, one in index.knowledge.named(Collective).items() if one.result and one.rank}
    left = [one.call for one in _given(index, flow, known) if _reaches(one, read)]
    return left[0] if left and not _shared(index, flow, read) else None


def _shared(index: Index, flow: Flow, read: Collection[tuple[str, Statement]]) -> bool:
    """Whether a collective gives all ranks what a value is made of."""
    known = {name: one for name, one in index.knowledge.named(Collective).items() if one.result and not one.rank}
    return any(_reaches(one, read) for one in _given(index, flow, known))


def _is_left_on_first(index: Index, flow: Flow, call: cst.Call) -> bool:
    """Whether a collective leaves its result on rank 0, which all callers of its function may name."""
    known = index.knowledge.named(Collective)[index.qualified(call.func)]
    rank, here = next((argument(call, *one) for one in known.rank.items()), None), index.scope_of(call)
    named, name = [rank], dotted(rank)
    if name in here.parameters and isinstance(here.node, cst.FunctionDef):
        if index.bound([name], here):
            return False  # what the callers say need not be what it is by then
        callers = flow.callers(here)
        named = [argument_of(here, one, name) or default_of(here, name) for one in callers] or named
    return rank is None or all(one is not None and _is_zero(flow, one) for one in named)


def _is_zero(flow: Flow, node: cst.BaseExpression) -> bool:
    made = flow.origins(node, flow.index.scope_of(node))
    return {flow.index.source.code(one.node) for one in made} == {"0"}


def _given(index: Index, flow: Flow, collectives: Mapping[str, Collective]) -> Iterator[_Given]:
    """Yield the variables that some collectives are given for their results."""
    called = [(call, one.result) for name, one in collectives.items() for call in index.calls_to(name)]
    waiting = [(call, call, argument(call, *what)) for call, result in called for what in result.items()]
    seen: set[Scope] = set()
    while waiting:
        made, call, value = waiting.pop()
        held = value
        while isinstance(held, cst.Subscript) and key_of(held) is None:
            held = held.value  # `stats[key]`: which one, its key does not say
        name, here = spelled(held), index.statement(call)
        if name is None:
            continue
        for one in _in_turn(value, index) or [name]:
            yield _Given(unquoted(one), here, made)
        bound = [one.statement for one in index.bound([name], here.scope) if one.statement.order <= here.order]
        last = max(bound, key=lambda one: one.order, default=None)
        if last is not None and last in here.path and isinstance(last.node, cst.For):
            yield from (_Given(part, here, made) for part in _walked(last.node.iter))
        if name in here.scope.parameters and not index.bound([name], here.scope) and here.scope not in seen:
            seen.add(here.scope)
            waiting += [(made, outer, argument_of(here.scope, outer, name)) for outer in flow.callers(here.scope)]


def _in_turn(node: cst.BaseExpression | None, index: Index) -> list[str]:
    """Return the items of a variable that a loop over keys, as they are written down, takes one after the other."""
    element = node.slice[0].slice if isinstance(node, cst.Subscript) and len(node.slice) == 1 else None
    if not isinstance(node, cst.Subscript) or not isinstance(element, cst.Index) or dotted(node.value) is None:
        return []
    keys = taken_in_turn(element.value, index)
    return [f"{dotted(node.value)}[{key.value}]" for key in keys if isinstance(key, cst.SimpleString)]


def _walked(node: cst.BaseExpression) -> list[str]:
    """Return the variables of which a loop takes one after the other, or the one that holds what it takes."""
    if isinstance(node, (cst.Tuple, cst.List)):  # `for x in (total, hits):`
        return [dotted(part.value) or "" for part in node.elements]
    return [dotted(receiver(node) if method_name(node) in ("items", "values") else node) or ""]


def _reaches(given: _Given, read: Collection[tuple[str, Statement]]) -> bool:
    """Whether a variable is read for a value after a collective was given it."""
    return any(
        (
            name == given.name
            or name.startswith((f"{given.name}.", f"{given.name}["))
            or given.name.startswith(f"{name}[")
        )
        and at.scope is given.at.scope
        and at.order >= given.at.order
        and not exclude_each_other(at, given.at)
        for name, at in read
    )


def tell_ranks(flow: Flow, loop: EpochLoop, score: Score, candidate: Candidate, making: Making) -> None:
    """Say of a score whether a collective leaves it on one rank alone, or rank 0 alone fills what it is made of."""
    index, read = score.index, making.read_for(candidate.node, candidate.call)
    left = _left_on_one(index, flow, read)
    call = left or _filled_on_first(index, flow, loop, score, candidate)
    if call is None or (left is None and _shared(index, flow, read)):
        return
    told = f"{index.place(call, score.file)}: {index.source.code(call)}"
    score.alone, score.elsewhere = (told, "") if left is None or _is_left_on_first(index, flow, left) else ("", told)


def _filled_on_first(index: Index, flow: Flow, loop: EpochLoop, score: Score, candidate: Candidate) -> cst.Call | None:
    """Return what fills on rank 0 alone, on all ways, what a score is made of that the other ranks have too."""
    if score.present or (score.kept is not None and score.kept.present):
        return None  # it is taken on that rank alone
    values = StandIns(index, flow, loop).values(candidate.node, *taken_at(score, candidate))
    made = [(one.node, one.reading.at) for one in values if one.node is not None and dotted(one.node) != "None"]
    fills = [filled_on_first(flow, node, at) for node, at in made]
    return fills[0] if fills and None not in fills else None
