"""What a script takes for its score where nothing was measured: `return 0.0` on other ranks, or between validations."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Binding, Index, Scope, Statement, dotted, exclude_each_other, names_in
from retrofit.survey.loops import increments
from retrofit.survey.order import runs_always
from retrofit.survey.scores.conditions import argument_of
from retrofit.survey.scores.values import bare_of, unquoted, written, written_items
from retrofit.survey.scores.ways import by_rank
from retrofit.survey.sites import EpochLoop

#: So many calls and variables are followed one after the other.
_DEEP = 6
_NO_NUMBERS = ("inf", "infinity", "nan")
_CONDITIONS = (cst.Comparison, cst.BooleanOperation, cst.UnaryOperation, cst.BinaryOperation, cst.Name)


@dataclass(frozen=True)
class StandIn:
    """A constant in the place of a score.

    Attributes:
        value: its expression, None where a function comes to its end.
        at: the statement that gives it.
        whole: whether it stands for what the score is taken out of: `{}` for `stats["acc"]`.
        ranked: whether it is there on some ranks alone.
        condition: the code of a condition about the turn's number under which it is not, "" for none.
    """

    value: cst.BaseExpression | None
    at: Statement
    whole: bool
    ranked: bool
    condition: str

    @property
    def absent(self) -> bool:
        """Whether it is None."""
        return self.value is None or dotted(self.value) == "None"


@dataclass(frozen=True)
class _Test:
    """A condition on the way to a value, whether it holds there, and what names the turn's number in it."""

    node: cst.BaseExpression
    at: Statement
    holds: bool
    turn: frozenset[str]


@dataclass(frozen=True)
class _Reading:
    """Where an expression is read, in the statement or after it, and how that comes about."""

    at: Statement
    turn: frozenset[str]
    after: bool = False
    tests: tuple[_Test, ...] = ()
    depth: int = 0


@dataclass(frozen=True)
class _Value:
    """What an expression may be, and of which items are still to be taken out."""

    node: cst.BaseExpression | None
    keys: tuple[str, ...]
    reading: _Reading


class StandIns:
    """Tells which constants a score of an epoch loop may be beside what is measured.

    Args:
        loop: the epoch loop.
    """

    def __init__(self, index: Index, flow: Flow, loop: EpochLoop) -> None:
        self._index, self._flow, self._loop = index, flow, loop
        inside = [b.target for b in index.bindings if loop.statement in b.statement.path and increments(b)]
        self._turn = self._following({loop.target, *inside}, loop.scope)

    def of(self, node: cst.BaseExpression, at: Statement, call: cst.Call | None = None) -> list[StandIn]:
        """Return the constants that an expression may be after a statement.

        Args:
            call: the epoch loop's call of the function in which the statement stands, None in the loop itself.
        """
        turn = self._turn if call is None else self._within(at.scope, call, self._turn)
        values = list(self._values(node, (), _Reading(at, turn, after=True)))
        constant = [value for value in values if _is_constant(value)]
        measured = [value for value in values if value not in constant]
        found = [self._stand_in(one, measured) for one in constant] if measured else []
        return [one for one in found if one is not None]

    def _stand_in(self, value: _Value, measured: list[_Value]) -> StandIn | None:
        """Return a constant as what stands in for a score, None where it is an empty collection that is filled."""
        tests = [(test, not test.holds) for test in value.reading.tests]
        tests = tests or [(test, test.holds) for one in measured for test in one.reading.tests]
        if isinstance(value.node, cst.Dict) and not tests:
            return None
        ranked = any(by_rank(self._index, self._flow, test.node, test.at) for test, _ in tests)
        code = self._index.source.code
        told = [(code(t.node), holds) for t, holds in tests if not t.turn.isdisjoint(names_in(t.node))]
        condition = next((test if holds else f"not ({test})" for test, holds in told), "")
        return StandIn(value.node, value.reading.at, bool(value.keys), ranked, condition)

    def _following(self, names: set[str], scope: Scope) -> frozenset[str]:
        """Return names of the turn's number, and what a function makes of it: `last = epoch == epochs - 1`."""
        made = [b for b in self._index.bindings if b.statement.scope is scope and isinstance(b.value, _CONDITIONS)]
        found: set[str] = {name for name in names if name}
        while more := {b.target for b in made if b.value and not found.isdisjoint(names_in(b.value))} - found:
            found |= more
        return frozenset(found)

    def _within(self, function: Scope, call: cst.Call, turn: frozenset[str]) -> frozenset[str]:
        """Return the names of the turn's number in a function as one call runs it."""
        given = {name: argument_of(function, call, name) for name in function.parameters}
        own = {name for name, value in given.items() if value and not turn.isdisjoint(names_in(value))}
        return self._following(own | {name for name in turn if name.partition(".")[0] not in function.names}, function)

    def _values(self, node: cst.BaseExpression, keys: tuple[str, ...], reading: _Reading) -> Iterator[_Value]:
        """Yield what an expression, or the item of it that ``keys`` take out, visibly may be."""
        node = bare_of(node)
        here = node in self._index.parents
        items = written_items(self._index, node) if keys and here else []
        taken = [item for key, item in items if unquoted(key) == keys[0]]
        function = self._flow.called(node) if isinstance(node, cst.Call) and here else None
        name = dotted(node)
        if reading.depth == _DEEP:
            yield _Value(node, keys, reading)
        elif isinstance(node, cst.IfExp):
            for one, holds in ((node.body, True), (node.orelse, False)):
                test = _Test(node.test, reading.at, holds, reading.turn)
                yield from self._values(one, keys, replace(reading, tests=(*reading.tests, test)))
        elif isinstance(node, cst.Subscript) and len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
            key = unquoted(written(self._index, node.slice[0].slice.value))
            yield from self._values(node.value, (key, *keys), reading)
        elif taken:
            yield from self._values(taken[-1], keys[1:], reading)
        elif isinstance(node, cst.Call) and function is not None and isinstance(function.node, cst.FunctionDef):
            yield from self._returned(function, node, keys, reading)
        elif name is not None and (bound := self._bound(name, keys, reading)):
            for binding, left in bound:
                yield from self._of_binding(binding, left, reading)
        else:
            yield _Value(node, keys, reading)

    def _of_binding(self, binding: Binding, keys: tuple[str, ...], reading: _Reading) -> Iterator[_Value]:
        at = binding.statement
        tests = (*reading.tests, *_tests_around(self._index, at, reading.at.path, reading.turn))
        here = _Reading(at, reading.turn, tests=tests, depth=reading.depth + 1)
        if binding.value is None:
            yield _Value(cst.Ellipsis(), keys, here)  # a loop's variable, or `total += x`
        else:
            yield from self._values(binding.value, keys if binding.item is None else (str(binding.item), *keys), here)

    def _returned(self, function: Scope, call: cst.Call, keys: tuple[str, ...], reading: _Reading) -> Iterator[_Value]:
        turn, depth = self._within(function, call, reading.turn), reading.depth + 1
        assert isinstance(function.node, cst.FunctionDef)
        if function.name == "__init__":
            yield _Value(call, keys, reading)
            return
        for leaving, scope in self._index.returns:
            if scope is function:
                at = self._index.statement(leaving)
                tests = (*reading.tests, *_tests_around(self._index, at, (), turn))
                inner = _Reading(at, turn, tests=tests, depth=depth)
                if leaving.value is None:
                    yield _Value(None, keys, inner)
                else:
                    yield from self._values(leaving.value, keys, inner)
        if not runs_always(function.node.body, ()):
            last = self._index.statements_in(function.node.body)[-1]
            yield _Value(None, keys, _Reading(last, turn, tests=reading.tests, depth=depth))

    def _bound(self, name: str, keys: tuple[str, ...], reading: _Reading) -> list[tuple[Binding, tuple[str, ...]]]:
        """Return what may give a variable, or its item, the value that it has, with the keys that are left."""
        at, scope = reading.at, reading.at.scope
        items = [b for b in self._index.items if b.statement.scope is scope and keys and _sets(b, name, keys[0])]
        found = [(b, keys) for b in self._index.bound([name], scope)]
        found += [(b, keys[1:]) for b in items]
        if scope is self._loop.scope and self._loop.statement in at.path:
            found = [(b, left) for b, left in found if self._loop.statement in b.statement.path]
        last = at.order if reading.after else at.order - 1
        found = [(b, left) for b, left in found if b.statement.order <= last]
        sure = [early for part in at.path if part.scope is scope for early in part.preceding]
        sure += [at] if reading.after else []

        def is_set_anew(one: Statement) -> bool:
            later = {b.statement.node for b, _ in found if b.statement.order > one.order}
            after = [a for part in one.path if part.scope is scope for a in part.following if a.order < at.order]
            between = [a for a in after if a not in at.path] + [early for early in sure if early.order > one.order]
            return any(runs_always(part.node, later) for part in between)

        return [
            (b, left) for b, left in found if not exclude_each_other(b.statement, at) and not is_set_anew(b.statement)
        ]


def _sets(binding: Binding, name: str, key: str) -> bool:
    """Whether an item is set by a key, or by one that is worked out, which may be it: `sums[name] += x`."""
    holder, _, own = unquoted(binding.target).partition("[")
    return holder == name and (own == f"{key}]" or own[:1].isidentifier())


def _is_constant(value: _Value) -> bool:
    """Whether a value is one that nothing has measured."""
    node = value.node.expression if isinstance(value.node, cst.UnaryOperation) else value.node
    if isinstance(node, cst.Dict):
        lacks = value.keys and value.keys[0][0] in "'0123456789"
        return not node.elements or (bool(lacks) and all(isinstance(one, cst.DictElement) for one in node.elements))
    if isinstance(node, cst.SimpleString):  # of `float("-inf")`
        return str(node.evaluated_value).lstrip("+-").lower() in _NO_NUMBERS
    return (
        node is None
        or isinstance(node, (cst.Integer, cst.Float))
        or dotted(node) == "None"
        or (dotted(node) or "").rpartition(".")[2] in _NO_NUMBERS
    )


def _tests_around(
    index: Index, place: Statement, known: Collection[Statement], turn: frozenset[str]
) -> Iterator[_Test]:
    """Yield the conditions around a statement of a function, but for those around what is ``known``."""
    for part, below in zip(place.ancestors, place.path[::-1], strict=False):
        here = part.node
        while isinstance(here, cst.If) and part.scope is place.scope and part not in known:
            inside = below.siblings is index.statements_in(here.body)
            yield _Test(here.test, part, inside, turn)
            if inside or not isinstance(here.orelse, cst.If):
                break
            here = here.orelse
