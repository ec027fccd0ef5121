"""Find where ranks may leave an epoch loop apart, as by an early stopping that rank 0 alone decides."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import left_at
from retrofit.survey.names import Variable
from retrofit.survey.nodes import dotted, last_of, leaves, names_in, nodes_in
from retrofit.survey.ranks import of_some, ranks_at
from retrofit.survey.scopes import Binding
from retrofit.survey.signals import Signals
from retrofit.survey.sites.loop import EpochLoop, Stop
from retrofit.survey.sites.score import Score

#: Through how many names a condition is followed to what only some ranks give.
_DEPTH = 3


def find_interruptions(flow: Flow, loop: EpochLoop) -> list[Stop]:
    """Return what a signal alone has leave an epoch loop, or the condition of its head where one is asked about."""
    signals = Signals(flow)
    return [Stop(node=one, index=flow.index, signalled=True) for one in loop.leaving if signals.interrupt(loop, one)]


def find_stops(index: Index, flow: Flow, loop: EpochLoop, scores: list[Score]) -> list[Stop]:
    """Return what leaves an epoch loop, or the condition of its head, where some ranks may do so and others not.

    So does a `break` of a loop in it that hands the score over, where an end of the epoch loop is by the same: if it
    stayed, that loop would be left before it comes to the hand-over at which all are to end. Any other one is told.
    """
    shared = _shared(index, flow, loop)

    def alone(node: cst.CSTNode) -> bool:
        return any(_parts(test, index, flow, loop, shared) for test in _conditions(index, node, loop))

    interrupting = [one.node for one in loop.stops]
    found = [Stop(node=node, index=index) for node in loop.leaving if node not in interrupting and alone(node)]
    ended = [one.node for one in found if isinstance(one.node, cst.Break)]
    tests = [test for node in ended for test in _conditions(index, node, loop)]
    asked = {name for test in tests for name in names_in(test, called=False)}
    telling = {name for name in asked if _is_of_some(name, index, flow, loop, shared, _DEPTH)}
    for report in (index.statement(one.anchors["report"]) for one in scores if one.anchors["loop"] is loop.node):
        turns = [part for part in report.path[:-1] if part in loop.inner]
        for part in (one for turn in turns for one in left_at(index, turn)):
            known = {b.target for early in part.siblings for b in index.bound_in(early)}
            known.update(name for test, _ in list(index.guards(part.node))[:1] for name in names_in(test, called=False))
            node = last_of(part.node)
            if node is None or not alone(node):  # all ranks leave their batches there, as where these have an end
                continue
            if not telling.isdisjoint(known):
                found.append(Stop(node=node, index=index))
            elif part.order <= report.last:
                found.append(Stop(node=node, index=index, skips=index.place(report.node, loop.file)))
    return found


def find_early_ends(index: Index, loop: EpochLoop, scores: list[Score]) -> list[Stop]:
    """Return what leaves a loop that goes through what the epoch loop yields, before that hands the score over."""
    yields = [index.statement(one) for one in nodes_in(loop.node) if isinstance(one, cst.Yield)]
    reports = [index.statement(one.anchors["report"]) for one in scores if one.anchors["loop"] is loop.node]
    behind = [one for one in reports if any(part.scope is one.scope and part.last <= one.last for part in yields)]
    return [
        Stop(node=node, index=index, report=index.place(behind[0].node, taker.file), cuts=_cuts(index, node, taker))
        for taker in loop.takers
        for node in taker.leaving
        if behind
    ]


def _cuts(index: Index, node: cst.CSTNode, loop: EpochLoop) -> bool:
    """Whether what leaves a loop keeps from further statements of its turn."""
    return any(part.following for part in index.statement(node).path if loop.statement in part.path[:-1])


def _conditions(index: Index, node: cst.CSTNode, loop: EpochLoop) -> Iterator[cst.BaseExpression]:
    """Yield the conditions within a loop that decide on whether it is left at a node."""
    if isinstance(node, cst.BaseExpression):
        yield node
        return
    inside = range(loop.statement.order + 1, loop.statement.last + 1)
    yield from (test for test, _ in index.guards(node) if index.statement(test).order in inside)
    here = index.statement(node)
    early = [one.node for part in (here, *here.around) if part.order in inside for one in part.preceding]
    yield from (one.test for one in early if isinstance(one, cst.If) and leaves(one.body))


def _shared(index: Index, flow: Flow, loop: EpochLoop) -> set[Variable]:
    """Return what the ranks tell each other in a loop: arguments of collectives."""
    return {
        flow.variable(name, loop.scope)
        for call in index.calls_in(loop.statement)
        if index.qualified(call.func).startswith("torch.distributed.")
        for arg in call.args
        for name in names_in(arg.value)
    }


def _parts(
    test: cst.BaseExpression, index: Index, flow: Flow, loop: EpochLoop, shared: set[Variable], depth: int = _DEPTH
) -> bool:
    """Whether a condition may hold on some ranks only: it asks for the rank, or for what some ranks alone are given."""
    if of_some(flow, test):
        return True
    return any(
        depth > 0 and _is_of_some(name, index, flow, loop, shared, depth) for name in names_in(test, called=False)
    )


def _is_of_some(name: str, index: Index, flow: Flow, loop: EpochLoop, shared: set[Variable], depth: int) -> bool:
    """Whether some ranks alone give a name its value."""
    variable = flow.member(name, loop.scope)
    given = [] if variable in shared else _given(name, variable, index, flow, loop)
    if any(ranks_at(index, flow, one.statement) in ("first", "others") for one in given):
        return True
    made = [one.value for one in given if one.value is not None and not isinstance(one.value, cst.Call)]
    return any(_parts(value, index, flow, loop, shared, depth - 1) for value in made if dotted(value) != name)


def _given(name: str, variable: Variable, index: Index, flow: Flow, loop: EpochLoop) -> list[Binding]:
    """Return what gives a name its value in a turn: the last assignment, or those of the functions that are called."""
    here = [one for one in index.bound((name,), loop.scope) if loop.statement in one.statement.path]
    if here:
        return here[-1:]
    last = name.rpartition(".")[2]
    others = [
        one for one in index.bindings if one.target.endswith(f".{last}") and one.statement.scope is not loop.scope
    ]
    return [
        one
        for one in others
        if one.statement.scope.name != "__init__" and flow.member(one.target, one.statement.scope) == variable
    ]
