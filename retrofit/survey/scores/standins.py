"""What a script takes for its score where nothing was measured: `return 0.0` on other ranks, or between validations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import libcst as cst

from retrofit.knowledge.kinds import ReturnsNumber
from retrofit.survey.conditions import (
    SOMETHING,
    argument_of,
    constant,
    given_constants,
    holds_under,
    holds_with,
    rules_out,
)
from retrofit.survey.counters import counts_alike
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import (
    argument,
    dotted,
    key_of,
    last_name,
    method_name,
    names_in,
    nodes_in,
    receiver,
    unquoted,
)
from retrofit.survey.order import runs_always
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.scores.makers import given_to
from retrofit.survey.scores.values import bare_of, written, written_items
from retrofit.survey.scores.ways import by_rank
from retrofit.survey.sites.loop import EpochLoop

#: So many calls and variables are followed one after the other.
_DEEP = 8
#: Methods that only tell what a dict has.
_TELLING = ("copy", "get", "items", "keys", "values")
_NO_NUMBERS = ("inf", "infinity", "nan")
_CONDITIONS = (cst.Comparison, cst.BooleanOperation, cst.UnaryOperation, cst.BinaryOperation, cst.Name)


@dataclass(frozen=True)
class StandIn:
    """A constant, or a value of an earlier turn, in the place of a score.

    Attributes:
        value: its expression, None where a function comes to its end.
        at: the statement that gives it.
        whole: whether it stands for what the score is taken out of: `{}` for `stats["acc"]`.
        ranked: whether it is there on some ranks alone.
        condition: the code of a condition about the turn's number under which it is not, "" for none.
        plain: whether it is a number, measured or not, where the script has a dict on another way.
        deep: how many items are taken out of what it stands for: two for `stats["valid"]["acc"]`.
    """

    value: cst.BaseExpression | None
    at: Statement
    whole: bool
    ranked: bool
    condition: str
    plain: bool = False
    deep: int = 1

    @property
    def absent(self) -> bool:
        """Whether it is None."""
        return self.value is None or dotted(self.value) == "None"

    @property
    def finite(self) -> bool:
        """Whether it counts as a score: the helper passes infinity over, as it does None."""
        return not self.absent and not _is_infinite(self.value)


@dataclass(frozen=True)
class Test:
    """A condition on the way to a value, whether it holds there, and what names the turn's number in it."""

    node: cst.BaseExpression
    at: Statement
    holds: bool
    turn: frozenset[str]


@dataclass(frozen=True)
class _Reading:
    """Where an expression is read, in the statement or after it, how that comes about, and whether as a number.

    The call is that by which its function is read, None in the epoch loop itself.
    """

    at: Statement
    turn: frozenset[str]
    after: bool = False
    tests: tuple[Test, ...] = ()
    left: tuple[tuple[Statement, Binding], ...] = ()
    depth: int = 0
    number: bool = False
    call: cst.Call | None = None


@dataclass(frozen=True)
class Value:
    """What an expression may be, and of which items are still to be taken out."""

    node: cst.BaseExpression | None
    keys: tuple[str, ...]
    reading: _Reading

    @property
    def left(self) -> tuple[tuple[Statement, Binding], ...]:
        """The loops that the value is brought out of, the first way first, each with what it is given to in there."""
        return self.reading.left


class StandIns:
    """Tells which constants a score of an epoch loop may be beside what is measured.

    Args:
        loop: the epoch loop.
    """

    def __init__(self, index: Index, flow: Flow, loop: EpochLoop) -> None:
        self._index, self._flow, self._loop = index, flow, loop
        inside = [b.target for b in index.bindings if loop.statement in b.statement.path and counts_alike(b)]
        self._turn = self._following({loop.target, *inside}, loop.scope)

    def of(self, node: cst.BaseExpression, at: Statement, call: cst.Call | None = None) -> list[StandIn]:
        """Return the constants that an expression may be after a statement, and what it may be of an earlier turn.

        Args:
            call: the epoch loop's call of the function in which the statement stands, None in the loop itself.
        """
        values, added = self.values(node, at, call), self._added(node, at, call)
        values = [value for value in values if not _begins_again(value, values)]
        constant = [
            value
            for value in values
            if _is_constant(value) or self._is_of_before(value) or (added and _works_keys_out(value))
        ]
        measured = [value for value in values if value not in constant] + added
        found = [self._stand_in(one, measured) for one in constant] if measured else []
        return [one for one in found if one is not None] + self._numbers(node, at, call)

    def _numbers(self, node: cst.BaseExpression, at: Statement, call: cst.Call | None) -> list[StandIn]:
        """Return the numbers that stand, where it is measured otherwise, for the dict of which an item is a score."""
        bare = bare_of(node)
        if not isinstance(bare, cst.Subscript) or dotted(bare.value) is None:
            return []
        wholes = self.values(bare.value, at, call)
        numbers = [one for one in wholes if one.reading.number or _is_computed(one.node) or self._is_number(one.node)]
        dicts = any(isinstance(one.node, cst.Dict) for one in wholes)
        return [StandIn(one.node, one.reading.at, True, False, "", plain=True) for one in numbers if dicts]

    def _is_number(self, node: cst.BaseExpression | None) -> bool:
        """Whether an expression is what a library's function returns that returns one number, as it is called."""
        known = self._index.knowledge.known(ReturnsNumber, self._index.qualified(getattr(node, "func", None)))
        if known is None or not isinstance(node, cst.Call):
            return False
        given = [(argument(node, name), values) for name, values in known.several.items()]
        told = [(constant(one), values) for one, values in given if one is not None]
        return all(one is not SOMETHING and str(one) not in values for one, values in told)

    def values(
        self, node: cst.BaseExpression, at: Statement, call: cst.Call | None = None, after: bool = True
    ) -> list[Value]:
        """Return all that an expression visibly may be in a statement, or after it, as for `of`."""
        turn = self._turn if call is None else self._within(at.scope, call, self._turn)
        return list(self._values(node, (), _Reading(at, turn, after, call=call)))

    def _added(self, node: cst.BaseExpression, at: Statement, call: cst.Call | None) -> list[Value]:
        """Return what `update` may add to the dict of an item, nothing where it surely adds more than is told here."""
        bare, turn = bare_of(node), self._turn if call is None else self._within(at.scope, call, self._turn)
        held = dotted(bare.value) if isinstance(bare, cst.Subscript) else None
        found = []
        for one, own in self._index.method_calls("update") if held is not None else ():
            place = self._index.statement(one)
            here = place.scope is at.scope and self._loop.statement in place.path and place.order <= at.last
            if here and dotted(own) == held and one.args and isinstance(bare, cst.Subscript):
                tests = tuple(tests_around(self._index, place, at.path[:-1], turn))
                key = unquoted(written(self._index, bare.slice[0]))
                found.append(Value(one.args[0].value, (key,), _Reading(place, turn, tests=tests)))
        found = [value for value in found if not _is_constant(value) and not self._lacks(value.node, value.keys[0])]
        return found if all(value.reading.tests for value in found) else []

    def _lacks(self, node: cst.BaseExpression | None, key: str, deep: int = 0) -> bool:
        """Whether an expression is on all ways a dict that is written out, and surely has no such item."""
        lacks, index = partial(self._lacks, key=key, deep=deep + 1), self._index
        if isinstance(node, cst.DictComp) and (walked := _walked(node)) is not None:
            return lacks(walked)
        if (keys := _keys_of(node)) is not None:
            return key not in keys
        if deep == _DEEP or node is None:
            return False
        if isinstance(node, cst.IfExp):
            return lacks(node.body) and lacks(node.orelse)
        if isinstance(node, cst.Name):
            scope = index.scope_of(node)
            bound = [] if node.value in scope.parameters else index.bound([node.value], scope)
            plain = bool(bound) and all(one.item is None and lacks(one.value) for one in bound)
            return plain and self._is_only_read(node, scope, key)
        function = self._flow.called(node) if isinstance(node, cst.Call) and not index.is_provided(node.func) else None
        if function is None or not isinstance(node, cst.Call) or function.name == "__init__":
            return False
        ways = [one for one, scope in index.returns if scope is function]
        ways = [one for one in ways if not rules_out(index.statement(one), node, self._flow)]
        return bool(ways) and all(lacks(one.value) for one in ways)

    def _is_only_read(self, name: cst.Name, scope: Scope, key: str) -> bool:
        """Whether a variable stands, but for a place, only where no such item is put into what it has."""
        named = [one for one in nodes_in(scope.node) if isinstance(one, cst.Name) and one.value == name.value]
        for one, parent in ((one, self._index.parents[one]) for one in named if one is not name):
            read = isinstance(parent, (cst.AssignTarget, cst.AnnAssign, cst.Return))
            told = isinstance(parent, cst.Attribute) and (parent.attr is one or parent.attr.value in _TELLING)
            taken = isinstance(parent, cst.Subscript) and key_of(parent) not in (None, key)
            if not (read or told or taken):
                return False
        return True

    def _is_of_before(self, value: Value) -> bool:
        """Whether a value is what a variable has from an earlier turn, as the best so far where nothing validates."""
        name, at = dotted(value.node), value.reading.at
        bound = self._index.bound([name], at.scope) if name is not None and not value.keys else []
        return self._loop.statement in at.path and any(self._loop.statement in b.statement.path for b in bound)

    def read(self, part: cst.BaseExpression, value: Value) -> list[Value]:
        """Return all that a part of the expression of a value visibly may be."""
        return list(self._values(part, (), value.reading))

    def _stand_in(self, value: Value, measured: list[Value]) -> StandIn | None:
        """Return a constant as what stands in for a score, None where it is an empty collection that is filled."""
        there, here = [test for one in measured for test in one.reading.tests], value.reading.tests
        tests = [(test, not test.holds) for test in here if not _is_among(test, there)]
        both = [test for test in there if _is_among(replace(test, holds=not test.holds), there)]
        tests = tests or [(test, test.holds) for test in there if test not in both and not _is_among(test, here)]
        if isinstance(value.node, cst.Dict) and not tests:
            return None
        ranked = any(by_rank(self._index, self._flow, test.node, test.at) for test, _ in tests)
        code = self._index.source.code
        asked = [(test, holds) for test, holds in tests if holds_with(test.node, {}) is not holds]
        told = [(code(t.node), holds) for t, holds in asked if not t.turn.isdisjoint(names_in(t.node))]
        condition = next((test if holds else f"not ({test})" for test, holds in told), "")
        return StandIn(value.node, value.reading.at, bool(value.keys), ranked, condition, deep=len(value.keys))

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

    def _values(self, node: cst.BaseExpression, keys: tuple[str, ...], reading: _Reading) -> Iterator[Value]:
        """Yield what an expression, or the item of it that ``keys`` take out, visibly may be."""
        bare = bare_of(node)
        reading = replace(reading, number=True) if bare is not node else reading
        node = bare
        here = node in self._index.parents
        items = written_items(self._index, node) if keys and here else []
        taken = [item for key, item in items if unquoted(key) == keys[0]]
        function = self._flow.called(node) if isinstance(node, cst.Call) and here else None
        if isinstance(node, cst.Call) and self._index.is_provided(node.func):
            function = None  # nothing is known of what is in it
        name = dotted(node)
        if reading.depth == _DEEP:
            yield Value(node, keys, reading)
        elif isinstance(node, cst.IfExp):
            for one, holds in self._ways(node, reading):
                test = Test(node.test, reading.at, holds, reading.turn)
                yield from self._values(one, keys, replace(reading, tests=(*reading.tests, test)))
        elif isinstance(node, cst.Subscript) and len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
            key = unquoted(written(self._index, node.slice[0].slice.value))
            yield from self._values(node.value, (key, *keys), reading)
        elif taken:
            yield from self._values(taken[-1], keys[1:], reading)
        elif isinstance(node, cst.Call) and function is not None and isinstance(function.node, cst.FunctionDef):
            yield from self._returned(function, node, keys, reading)
        elif name is not None and (bound := given_to(self._index, self._loop, name, keys, reading.at, reading.after)):
            for binding, left in bound:
                anew = [b.statement for b, _ in bound if b.target == name and b.value is not None]
                replaced = self._is_replaced(binding.statement, anew, reading.call)
                if not (replaced or self._is_passed_over(binding.statement, reading.call)):
                    yield from self._of_binding(binding, left, reading)
        else:
            yield Value(node, keys, reading)

    def _ways(self, node: cst.IfExp, reading: _Reading) -> list[tuple[cst.BaseExpression, bool]]:
        """Return what a conditional expression may be in a call, each with whether the test holds for it."""
        function, call = reading.at.scope, reading.call
        inside = call is not None and self._flow.called(call) is function
        known = holds_with(node.test, given_constants(function, call, self._flow)) if call and inside else None
        return [(one, holds) for one, holds in ((node.body, True), (node.orelse, False)) if known in (None, holds)]

    def _is_passed_over(self, at: Statement, call: cst.Call | None) -> bool:
        """Whether a statement does not run by the call of its function."""
        return call is not None and self._flow.called(call) is at.scope and rules_out(at, call, self._flow)

    def _is_replaced(self, early: Statement, giving: list[Statement], call: cst.Call | None) -> bool:
        """Whether a choice behind a statement gives a variable another value by the call of its function."""
        if call is None or self._flow.called(call) is not early.scope:
            return False
        for later in giving:
            test, held = next(self._index.guards(later.node), (None, False))
            choice = self._index.statement(test) if test is not None and held else None
            behind = choice is later.parent and any(choice in part.following for part in early.path)
            if behind and test is not None and holds_under(test, call, self._flow):
                return True
        return False

    def _of_binding(self, binding: Binding, keys: tuple[str, ...], reading: _Reading) -> Iterator[Value]:
        at = binding.statement
        known = reading.at.path[:-1] if reading.after else reading.at.path
        tests = (*reading.tests, *tests_around(self._index, at, known, reading.turn))
        around = [part for part in at.path if part.scope is at.scope and part not in known]
        loops = [(part, binding) for part in around if isinstance(part.node, (cst.For, cst.While))][:1]
        left = (*reading.left, *loops)
        here = replace(reading, at=at, after=False, tests=tests, left=left, depth=reading.depth + 1)
        if binding.value is None:
            yield Value(cst.Ellipsis(), keys, here)  # a loop's variable, or `total += x`
        else:
            yield from self._values(binding.value, keys if binding.item is None else (str(binding.item), *keys), here)

    def _returned(self, function: Scope, call: cst.Call, keys: tuple[str, ...], reading: _Reading) -> Iterator[Value]:
        turn, depth = self._within(function, call, reading.turn), reading.depth + 1
        assert isinstance(function.node, cst.FunctionDef)
        if function.name == "__init__":
            yield Value(call, keys, reading)
            return
        if (mute := _mute_around(self._flow, function)) is not None:
            last = self._index.statements_in(mute.body)[-1]
            yield Value(None, keys, replace(reading, at=last, turn=turn, depth=depth))
            return
        for leaving, scope in self._index.returns:
            at = self._index.statement(leaving)
            if scope is function and not rules_out(at, call, self._flow):
                tests = (*reading.tests, *tests_around(self._index, at, (), turn))
                inner = replace(reading, at=at, turn=turn, after=False, tests=tests, depth=depth, call=call)
                if leaving.value is None:
                    yield Value(None, keys, inner)
                else:
                    yield from self._values(leaving.value, keys, inner)
        if not runs_always(function.node.body, ()):
            last = self._index.statements_in(function.node.body)[-1]
            yield Value(None, keys, replace(reading, at=last, turn=turn, depth=depth))


def _mute_around(flow: Flow, function: Scope) -> cst.FunctionDef | None:
    """Return what a decorator of the project runs in the place of a function, where that returns nothing."""
    index = flow.index
    for one in function.node.decorators if isinstance(function.node, cst.FunctionDef) else ():
        name = one.decorator.func if isinstance(one.decorator, cst.Call) else one.decorator
        made = flow.defined(name, function.parent or function)
        for _ in range(1 + (name is not one.decorator)):  # one that is called returns the decorator
            given = index.returned(made) if made is not None and made.kind == "function" else []
            made = flow.defined(given[0], made) if made is not None and len(given) == 1 else None
        gives = made is None or any(index.scope_of(part) is made for part in index.nodes_of(cst.Yield))
        if made is not None and not gives and isinstance(made.node, cst.FunctionDef) and not index.returned(made):
            return made.node
    return None


def _is_among(test: Test, others: Iterable[Test]) -> bool:
    return any(one.node is test.node and one.holds is test.holds for one in others)


def _is_constant(value: Value) -> bool:
    """Whether a value is one that nothing has measured."""
    node = value.node.expression if isinstance(value.node, cst.UnaryOperation) else value.node
    if isinstance(node, cst.Dict):
        lacks = value.keys and value.keys[0][0] in "'0123456789"
        keys = [one.key if isinstance(one, cst.DictElement) else None for one in node.elements]
        told = all(key is not None and constant(key) is not SOMETHING for key in keys)
        return not node.elements or (bool(lacks) and told)
    if value.keys and dotted(node) in ("True", "False"):
        return True  # it has no items
    return (
        node is None or isinstance(node, (cst.Integer, cst.Float)) or dotted(node) == "None" or _is_infinite(value.node)
    )


def _begins_again(value: Value, values: list[Value]) -> bool:
    """Whether a turn of a loop that adds to a sum has it begin again behind that, as where it has been told."""
    early, tests = set(value.reading.at.before), value.reading.tests
    sums = [one.reading for one in values if isinstance(one.node, cst.Ellipsis)]
    sums = [one for one in sums if not early.isdisjoint(one.at.path) and all(_is_among(t, tests) for t in one.tests)]
    return _is_constant(value) and any(loop in one.at.path for one in sums for loop, _ in value.left)


def _works_keys_out(value: Value) -> bool:
    """Whether a value is a dict that works its keys out, `{k: m.avg for k, m in meters.items()}`: has it an item?"""
    return bool(value.keys) and isinstance(value.node, cst.DictComp)


def _keys_of(node: cst.BaseExpression | None) -> set[str] | None:
    """Return the code of the keys of a dict that is written out, or made by `dict(loss=x)`, None for any other."""
    if isinstance(node, cst.Dict):
        keys = [one.key if isinstance(one, cst.DictElement) else None for one in node.elements]
        told = [repr(one.evaluated_value) for one in keys if isinstance(one, cst.SimpleString)]
        return set(told) if len(told) == len(keys) else None
    if isinstance(node, cst.Call) and dotted(node.func) == "dict" and all(one.keyword for one in node.args):
        return {f"'{one.keyword.value}'" for one in node.args if one.keyword}
    return None


def _walked(node: cst.DictComp) -> cst.BaseExpression | None:
    """Return the dict of which another has some keys: `out` in `{k: float(v) for k, v in out.items()}`."""
    walk = node.for_in
    if not isinstance(walk.target, cst.Tuple) or method_name(walk.iter) != "items":
        return None
    same = dotted(walk.target.elements[0].value) == dotted(node.key) and walk.inner_for_in is None
    return receiver(walk.iter) if same else None


def _is_computed(node: cst.BaseExpression | None) -> bool:
    """Whether an expression is a number, or what arithmetic makes: not what two dicts make together."""
    joins = isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitOr)
    return isinstance(node, (cst.BinaryOperation, cst.Integer, cst.Float)) and not joins


def _is_infinite(node: cst.BaseExpression | None) -> bool:
    """Whether an expression is infinity or no number: `-np.inf`, or the string of `float("nan")`."""
    node = node.expression if isinstance(node, cst.UnaryOperation) else node
    written = str(node.evaluated_value) if isinstance(node, cst.SimpleString) else last_name(node)
    return written.lstrip("+-").lower() in _NO_NUMBERS


def tests_around(index: Index, place: Statement, known: Collection[Statement], turn: frozenset[str]) -> Iterator[Test]:
    """Yield the conditions around a statement of a function, but for those around what is ``known``."""
    for part, below in zip(place.ancestors, place.path[::-1], strict=False):
        here = part.node
        while isinstance(here, cst.If) and part.scope is place.scope and part not in known:
            inside = below.siblings is index.statements_in(here.body)
            yield Test(here.test, part, inside, turn)
            if inside or not isinstance(here.orelse, cst.If):
                break
            here = here.orelse
