"""Scores of a single turn of a loop: of the last of several sets of data, or of the last batch."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from retrofit.survey.branches import exclude_each_other
from retrofit.survey.conditions import argument_of, holds_with
from retrofit.survey.counters import carries_on, changes
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import (
    children,
    dotted,
    is_single,
    last_name,
    method_name,
    names_in,
    nodes_in,
    receiver,
    wholes_of,
)
from retrofit.survey.scopes import Binding, Statement
from retrofit.survey.scores.making import EVALUATED, TRAINED, Making, is_turns_number
from retrofit.survey.scores.standins import StandIns, Value, tests_around
from retrofit.survey.scores.values import is_set_by_variable, phases_of
from retrofit.survey.scores.words import OF_TRAINING
from retrofit.survey.sites.loop import EpochLoop

_ORDERS = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)
#: So many expressions are followed one after the other.
_DEEP = 4


class Turns:
    """Tells of values of an epoch loop whether they are of one turn of a loop inside it, the last.

    Args:
        loop: the epoch loop.
        making: tells what makes its values.
    """

    def __init__(self, index: Index, flow: Flow, loop: EpochLoop, making: Making) -> None:
        self._index, self._flow, self._loop, self._making = index, flow, loop, making
        self._values = StandIns(index, flow, loop)

    def last_of(self, node: cst.BaseExpression, at: Statement, call: cst.Call | None = None) -> Statement | None:
        """Return the loop of which a value is the last turn's alone, None where it is of all turns, or of no loop.

        Args:
            node: its expression.
            at: the statement after which it is taken, and
            call: the epoch loop's call of the function in which that stands, None in the loop itself.
        """
        values = self._values.values(node, at, call)
        named = [b.statement for value in values for _, b in value.left if is_set_by_variable(b)]

        def is_replaced(loop: Statement) -> bool:
            return any(one.scope is loop.scope and one.order > loop.last for one in named)

        found = [one for one in self._left(values, 0) if one is None or not is_replaced(one)]
        told = [one for one in found if one not in self._loop.training]
        told = told or (found if all(value.left or [*self._left([value], 0)] for value in values) else [])
        return told[0] if told and None not in found else None

    def trained_at(self, node: cst.BaseExpression, at: Statement, call: cst.Call | None = None) -> Statement | None:
        """Return where the training makes a value that an evaluation makes on other ways, None where it does not.

        Args:
            node, at, call: as for `last_of`.
        """
        trained, chosen = list[Statement](), False
        for value in self._values.values(node, at, call):
            here = value.reading.at
            added = [b.target for _, b in value.left if b.statement is here]
            inner, making = value.node, self._making
            made = making.given_by(here, added[0]) if added else making.made_at(inner, here) if inner else ""
            trained += [here] if made == TRAINED else []
            chosen |= made == EVALUATED and bool(value.reading.tests)  # a loop alone makes a pass
        return trained[-1] if trained and chosen else None

    def _left(self, values: list[Value], depth: int) -> Iterator[Statement | None]:
        """Yield the loops that values are brought out of, None where one gathers over its turns."""
        for value in values:
            for loop, binding in value.left:
                if self.gathers(loop, binding):
                    yield None
                elif self._of_one_turn(loop, binding):
                    yield loop
            if not value.left and value.node is not None and depth < _DEEP:
                for part in _parts(value.node):
                    yield from self._left(self._values.read(part, value), depth + 1)

    def gathers(self, loop: Statement, binding: Binding) -> bool:
        """Whether what a variable is given in a loop is made of what the loop's turns add to."""
        if binding.value is None:
            return bool(changes(binding))
        inside = [b for b in self._index.bound_in(loop) if b.statement.scope is loop.scope]
        waiting, seen = [binding.target, *names_in(binding.value, called=False), *_held(binding.value)], set[str]()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            wholes = wholes_of(name)
            bound = [b for b in inside if b.target.partition("[")[0] in wholes]
            going_on = [b.statement for b in bound if carries_on(b)]
            begun = [b for b in bound if b.target in wholes and b.statement not in going_on]
            # A first turn begins what the others add to: `if all is None: all = out` and `else: all = cat([all, out])`.
            begun = [b for b in begun if not any(exclude_each_other(b.statement, one) for one in going_on)]
            if not begun and (bound or any(self._adds(call, whole) for call in self._calls(loop) for whole in wholes)):
                return True
            waiting += [more for b in begun if b.value for more in (*names_in(b.value, called=False), *_held(b.value))]
        return False

    def _calls(self, loop: Statement) -> list[cst.Call]:
        return [call for call in self._index.calls_in(loop) if self._index.scope_of(call) is loop.scope]

    def _adds(self, call: cst.Call, name: str, depth: int = 0) -> bool:
        """Whether a call puts something into an object: as a method whose value nothing takes, or where it is given.

        What tells its user something, such as a logger, gathers nothing.
        """
        alone = isinstance(self._index.parents[call], cst.Expr) and bool(call.args)
        held = receiver(call) or call.func
        if alone and dotted(held) == name and method_name(call) not in self._index.knowledge.module_methods:
            return not self._index.knowledge.logs(last_name(call.func))
        function = self._flow.called(call) if any(dotted(arg.value) == name for arg in call.args) else None
        if function is None or depth == _DEEP:
            return False
        own = [p for p in function.parameters if dotted(argument_of(function, call, p)) == name]
        return any(self._adds(inner, one, depth + 1) for inner in self._index.calls_of(function) for one in own)

    def _of_one_turn(self, loop: Statement, binding: Binding) -> bool:
        """Whether a variable is given a value in several turns of a loop, of which the last one stays."""
        at, node = binding.statement, loop.node
        if (
            not isinstance(node, cst.For)
            or is_single(node.iter)
            or any(_breaks(later) for later in (at, *at.following))
        ):
            return False
        names = set(names_in(node.target))
        around = [part for part in at.path if loop in part.path[:-1]]
        heads = [node, *(part.node for part in around if isinstance(part.node, cst.For))]
        counted = {name for head in heads for name in names_in(head.target)}
        key = binding.target.partition("[")[2]
        if is_turns_number(binding) or is_set_by_variable(binding) or not counted.isdisjoint(re.findall(r"\w+", key)):
            return False  # a turn may have an item of its own
        tests = [one for one in tests_around(self._index, at, loop.path, frozenset()) if one.at in around]
        phases = phases_of(self._index, node)
        if phases is not None and all(isinstance(one, str) for one in phases[1]):
            name, values = phases
            runs = [v for v in values if all(holds_with(t.node, {name: v}) is not (not t.holds) for t in tests)]
            trains = [OF_TRAINING.search(str(one)) is not None for one in runs]
            return not all(trains) and (trains[-1] or trains.count(False) > 1)
        if loop in self._loop.training and self._making.given_by(at, binding.target) != TRAINED:
            return False  # of a validation every so many steps
        chosen = (cst.Equal, cst.In, cst.Is)
        beside = {b.target for b in self._index.bound_in(loop) if b.statement in at.siblings}
        return not any(
            binding.target in names_in(test.node)
            or (_orders(test.node) and not beside.isdisjoint(names_in(test.node)))
            or (
                isinstance(test.node, cst.Comparison)
                and isinstance(test.node.comparisons[0].operator, chosen)
                and not names.isdisjoint(names_in(test.node))
            )
            for test in tests
        )


def _held(node: cst.CSTNode) -> Iterator[str]:
    """Yield the objects of which code calls methods: the `meter` of `meter.compute()`."""
    for held in map(receiver, nodes_in(node)):
        yield from names_in(held) if held is not None else ()


def _parts(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Yield the expressions out of which one is made, one step down."""
    if isinstance(node, (cst.Attribute, cst.Subscript)):
        yield node.value
    elif isinstance(node, cst.Call):
        yield from (one for one in (receiver(node), *(arg.value for arg in node.args)) if one is not None)
    elif isinstance(node, cst.CompFor):
        yield node.iter
    elif isinstance(node, (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)):
        yield from _parts(node.for_in)
    elif not isinstance(node, (cst.Lambda, cst.BaseString)):
        for child in children(node):
            yield from [child] if isinstance(child, cst.BaseExpression) else _parts(child)


def _orders(test: cst.BaseExpression) -> bool:
    """Whether a condition tells the better one of two values."""
    return isinstance(test, cst.Comparison) and isinstance(test.comparisons[0].operator, _ORDERS)


def _breaks(later: Statement) -> bool:
    node = later.node
    simple = (cst.SimpleStatementLine, cst.SimpleStatementSuite)
    return isinstance(node, simple) and isinstance(node.body[-1], cst.Break)
