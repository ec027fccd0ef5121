"""Turns of a loop over batches that take a step only where enough data have come together.

Ranks take unlike numbers of steps in an epoch then. The same step alone is one at which they all are.
"""

from __future__ import annotations

from itertools import takewhile

import libcst as cst

from retrofit.knowledge.kinds import Collective
from retrofit.survey.counters import carries_on, counts_alike
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import turns_begun_by
from retrofit.survey.nodes import mentions, names_in
from retrofit.survey.scopes import Binding, Statement
from retrofit.survey.sites.loop import EpochLoop

_COMPUTED = (cst.BinaryOperation, cst.BooleanOperation, cst.Comparison, cst.UnaryOperation)


class Packed:
    """The step of a loop over batches, and what of the data decides whether a turn takes it.

    Attributes:
        condition: that, None where each turn takes one, or as many turns on all ranks do.

    Args:
        loop: the epoch loop.
        batches: the loop over batches in it.
    """

    def __init__(self, flow: Flow, loop: EpochLoop, batches: Statement) -> None:
        self._index, self._loop, self._begun = flow.index, loop, turns_begun_by(flow.index, batches)
        inside = [one for one in loop.training if batches in one.path[:-1] and one.scope is batches.scope]
        self._step = max(inside, key=lambda one: one.order, default=batches)
        ways = [self._step, *(part for part in self._begun if part.order < self._step.order)]
        tests = [test for way in ways for test, _ in flow.index.guards(way.node)]
        tests = [test for test in tests if batches in flow.index.statement(test).path[:-1]]
        moved = _that_begin_anew(flow.index, batches) if tests else []
        self.condition = next((test for test in tests if _is_of_data(test, moved, frozenset())), None)

    def step_around(self, here: Statement) -> Statement:
        """Return the innermost statement that holds both the step and a place in the loop over batches."""
        return next(part for part in here.ancestors if part in self._loop.training)

    def meets_at(self, here: Statement) -> bool:
        """Whether ranks come to a place in the block of the step by the number of steps alone, and so together."""
        tests, within = [test for test, _ in self._index.guards(here.node)], self.step_around(here)
        held = [self._step, *takewhile(lambda one: isinstance(one.node, (cst.With, cst.Try)), self._step.ancestors)]
        if not any(one in part.siblings for part in held for one in here.path):
            return False  # it is met in turns without a step, too
        return self._is_of_steps([one for one in tests if within in self._index.statement(one).path[:-1]], frozenset())

    def _is_of_steps(self, nodes: list[cst.BaseExpression], seen: frozenset[str]) -> bool:
        names = {name for node in nodes for name in names_in(node, called=False)} - seen
        bound = [one for one in self._index.bound_in(self._loop.statement) if one.target in names]
        return bool(bound) and all(
            self._counts_steps(one) or (one.value is not None and self._is_of_steps([one.value], seen | names))
            for one in bound
        )

    def _counts_steps(self, binding: Binding) -> bool:
        """Whether an assignment counts on wherever the step is taken, and there alone."""
        first, last = sorted([binding.statement.order, self._step.order])
        beside = any(one in self._step.path for one in binding.statement.siblings)
        return counts_alike(binding) and beside and not any(first < part.order < last for part in self._begun)


def _that_begin_anew(index: Index, batches: Statement) -> list[Binding]:
    """Return what turns assign, but what they only add to, as what is skipped is, and what is made alike on all ranks.

    What a step is made of begins anew with it, and not before what a turn adds: `loss = f(x)`, `loss += g(x)`.
    """
    bound = index.bound_in(batches)
    begun = {one.target for one in bound if not carries_on(one)}
    plain = [one for one in bound if not carries_on(one) and one.statement.parent is batches]
    shared = {
        name
        for call in index.calls_in(batches)
        if index.knowledge.known(Collective, index.qualified(call.func))
        for name in names_in(call)
    }

    def goes_on(one: Binding) -> bool:
        early = any(by.target == one.target and by.statement.order < one.statement.order for by in plain)
        return not (early and carries_on(one))

    bound = [one for one in bound if one.target in begun and goes_on(one)]
    return [one for one in bound if shared.isdisjoint(names_in(one.statement.node))]


def _is_of_data(node: cst.BaseExpression, moved: list[Binding], seen: frozenset[str]) -> bool:
    """Whether an expression is made of what turns add up of what each of them has: `tokens += len(x)`.

    Args:
        moved: what the turns assign.
    """
    names, own = set(names_in(node, called=False)) - seen, {one.target for one in moved}
    return any(
        mentions(one.statement.node, own - {one.target})
        if carries_on(one)
        else isinstance(one.value, _COMPUTED) and _is_of_data(one.value, moved, seen | names)
        for one in moved
        if one.target in names
    )
