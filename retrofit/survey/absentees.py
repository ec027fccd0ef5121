"""Find ranks that never come to the epoch loop, though they take part in the process group."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from retrofit.knowledge.kinds import Collective
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import called_in, conjuncts
from retrofit.survey.nodes import exits, last_of
from retrofit.survey.order import ways_to
from retrofit.survey.scopes import Statement
from retrofit.survey.scores.ways import by_rank
from retrofit.survey.sites.call import CallSite
from retrofit.survey.sites.loop import EpochLoop


def find_absentees(index: Index, flow: Flow, loop: EpochLoop) -> list[CallSite]:
    """Return the collectives of ranks that a rank check keeps from an epoch loop, as of one that feeds the others."""
    known = index.knowledge.named(Collective)
    for ways in ways_to(loop.statement, flow).values():
        away = [one for way in ways for one in _kept_away(index, flow, way, ways)]
        calls = [call for one in away for call in index.calls_in(one)]
        calls += [call for function in called_in(index, flow, *away) for call in index.calls_of(function)]
        found = [call for call in calls if index.qualified(call.func) in known]
        if found:
            return [CallSite(node=call, index=index) for call in found]
    return []


def _kept_away(index: Index, flow: Flow, here: Statement, ways: list[Statement]) -> Iterator[Statement]:
    """Yield what other ranks run in place of a statement, where that leads to none of some others.

    That is in another branch, or before they leave: `if rank == host: serve(); return`.
    """

    def of_others(test: cst.BaseExpression, at: Statement) -> bool:
        return all(by_rank(index, flow, part, at) for part in conjuncts(test))

    for part in (here, *here.around):
        for early in part.preceding:
            if isinstance(early.node, cst.If) and _ends(early.node.body) and of_others(early.node.test, early):
                yield from index.statements_in(early.node.body)
        choice = part.parent
        if choice is None or choice.scope is not here.scope or not isinstance(choice.node, cst.If):
            continue
        asked = [(test, holds) for test, holds in index.guards(part.node) if index.statement(test) is choice]
        if any(by_rank(index, flow, test, choice) if holds else of_others(test, choice) for test, holds in asked):
            others = [one for one in index.statements if one.parent is choice and one.siblings is not part.siblings]
            yield from others if not any(one in way.path for way in ways for one in others) else ()


def _ends(body: cst.BaseSuite) -> bool:
    last = last_of(body)
    return isinstance(last, cst.Return) or exits(last)
