"""Find where an epoch loop lets frozen parameters train by the number of its turn."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from retrofit.survey.conditions import argument_of, default_of, given_constants, holds_with, rules_out
from retrofit.survey.counters import increments
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import argument, dotted, last_name, names_in, nodes_in
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.sites.loop import EpochLoop

#: Functions and methods that let parameters train, by their names.
_THAWS = re.compile(r"(?i)(un_?freeze|thaw)")

_Letting = tuple[Statement, cst.BaseExpression | None]


def find_thaws(flow: Flow, loop: EpochLoop) -> list[tuple[str, str]]:
    """Return (place, code) of each `if` about the turn's number by which the loop lets frozen parameters train.

    What lets them may be a function's parameter, `set_trainable(model, True)`, and so may the number be.
    """
    index, turn = flow.index, _Turn(flow, loop)
    waiting, found = list(_letting(index)), dict[cst.CSTNode, str]()
    for here, value in waiting:  # which grows
        lets, calls = value is None or holds_with(value, {}), flow.callers(here.scope)
        further: list[_Letting] = []
        if lets:
            found |= {part.node: f"if {index.source.code(test)}" for part, test in turn.asked_around(here)}
            further += [(index.statement(call), None) for call in calls if not rules_out(here, call, flow)]
        elif lets is None and turn.decides_from_some_on(here):  # `p.requires_grad = epoch >= 5`
            found[here.node] = index.source.code(here.node).strip()
        elif lets is None and value is not None:
            further += [(index.statement(call), _given(value, here.scope, call, flow)) for call in calls]
        waiting += [one for one in further if one not in waiting]
    return [(index.place(node, loop.file), head) for node, head in found.items()]


def _letting(index: Index) -> Iterator[_Letting]:
    """Yield what may let parameters train, with what tells whether it does, None where it surely does."""
    for bound in index.bindings:
        if bound.target.endswith(".requires_grad") and bound.value is not None:
            yield bound.statement, bound.value
    for call in index.calls:
        if last_name(call.func) == "requires_grad_":
            yield index.statement(call), argument(call, "requires_grad", 0)
        elif _THAWS.match(last_name(call.func)):
            yield index.statement(call), None


def _given(value: cst.BaseExpression, function: Scope, call: cst.Call, flow: Flow) -> cst.BaseExpression | None:
    """Return what tells, where a function is called, whether an expression of its parameters holds in it."""
    holds = holds_with(value, given_constants(function, call, flow))
    if holds is None and (name := dotted(value)) in function.parameters:
        return argument_of(function, call, name) or default_of(function, name) or cst.Name("False")
    return cst.Name(str(bool(holds)))


class _Turn:
    """Tells what is about the number of an epoch loop's turn, whatever functions call it."""

    def __init__(self, flow: Flow, loop: EpochLoop) -> None:
        self._flow, self._loop = flow, loop
        counted = [one for one in flow.index.bound_in(loop.statement) if one.statement.parent is loop.statement]
        names = [loop.target] if loop.target else [one.target for one in counted if increments(one)]  # `while True`
        self._numbers = {flow.member(name, loop.scope) for name in names}

    def asked_around(self, here: Statement) -> Iterator[tuple[Statement, cst.BaseExpression]]:
        """Yield each `if` about the number that is around a statement in its function, and in the loop of its own."""
        for one in (here, *here.around):
            inside = one.scope is not self._loop.scope or self._loop.statement in one.path
            if inside and isinstance(one.node, cst.If) and self._is_about(one.node.test, one.scope):
                yield one, one.node.test

    def decides_from_some_on(self, here: Statement) -> bool:
        """Whether a statement compares so that it holds in all turns from some one on: `epoch >= 5`."""
        index = self._flow.index
        return any(self._is_from_some_on(one) for one in index.comparisons if index.statement(one) is here)

    def _is_from_some_on(self, test: cst.Comparison) -> bool:
        sides = (test.left, *(one.comparator for one in test.comparisons))
        operators = [type(one.operator) for one in test.comparisons]
        if operators in ([cst.LessThan], [cst.LessThanEqual]):
            sides = sides[::-1]
        elif operators not in ([cst.GreaterThan], [cst.GreaterThanEqual]):
            return False
        return self._is_about(sides[0], self._flow.index.scope_of(test))

    def _is_about(self, node: cst.CSTNode, scope: Scope) -> bool:
        waiting = [(name, scope) for name in names_in(node)] if self._numbers else []
        for name, here in waiting:  # which grows
            variable = self._flow.member(name, here)
            if variable in self._numbers:
                return True
            for source in self._flow.sources(variable):
                if source.value is not None and not any(isinstance(one, cst.Call) for one in nodes_in(source.value)):
                    names = [(one, source.scope) for one in names_in(source.value)]
                    waiting += [one for one in names if one not in waiting]
        return False
