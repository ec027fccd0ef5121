"""Tell which names may have no value where they are read: definite assignment, over the statements of each function.

A name has a value at a place where every way there gives it one. Conditions count: what is assigned under `if master:`
has a value under a later `if master:`, as long as nothing that the condition is about is assigned between the two. A
loop may make no pass, but for `while True` and what visibly has items; what the program itself reads has a value from
there on, as the program would have ended otherwise. What a function has from outside counts as assigned where it is
bound at all.
"""

from __future__ import annotations

import ast
import builtins
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import cast

from retrofit.text import NEWLINE, nodes_of, parsed

#: A name's 1-based line and 0-based column in bytes, as Python's own parser gives them.
Place = tuple[int, int]
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_DEFINITIONS, ast.ClassDef)
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_TRIES = (ast.Try, *([ast.TryStar] if hasattr(ast, "TryStar") else []))
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
#: What does not come back.
_LEAVES = frozenset({"exit", "quit", "sys.exit", "os._exit", "os.abort"})
#: Calls that mean the same twice, as others without arguments do.
_STABLE = frozenset({"len", "int", "bool", "float", "str", "isinstance", "hasattr", "getattr", "min", "max", "abs"})
#: More ways than these to one value are not told apart.
_MOST_WAYS = 24


@dataclass(frozen=True)
class _Fact:
    """That a condition holds, or does not.

    Attributes:
        condition: its code.
        holds: whether it holds.
        names: what it is about: names, and attributes of them such as `args.rank`.
        subject: for `subject == constant`, the code of the one, else "".
    """

    condition: str
    holds: bool
    names: frozenset[str]
    subject: str = ""

    @property
    def opposite(self) -> _Fact:
        """That it is otherwise."""
        return replace(self, holds=not self.holds)


_Facts = frozenset[_Fact]


@dataclass(frozen=True)
class _State:
    """What is known on every way to a place.

    Attributes:
        facts: the conditions that hold there.
        ways: for each name, the sets of conditions of which each gives it a value; the empty set where it has one.
    """

    facts: _Facts = frozenset()
    ways: dict[str, frozenset[_Facts]] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether a name has a value."""
        return any(all(self._known(fact) for fact in way) for way in self.ways.get(name, ()))

    def ways_of(self, name: str) -> frozenset[_Facts]:
        """Return the sets of conditions of which each gives a name its value, by what is known here."""
        return frozenset([frozenset()]) if self.has(name) else self.ways.get(name, frozenset())

    def _known(self, fact: _Fact) -> bool:
        """Whether a condition holds, also as what it is compared with equals something else."""
        others = (one for one in self.facts if one.subject and one.subject == fact.subject and one.holds)
        return fact in self.facts or (not fact.holds and any(one.condition != fact.condition for one in others))

    def told(self, facts: Iterable[_Fact]) -> _State:
        """Return the state where some conditions hold as well."""
        return _State(self.facts.union(facts), self.ways)

    def forgetting(self, changed: str) -> _State:
        """Return the state where the conditions about a name, or about `name.attribute`, may be others than before."""
        facts = frozenset(fact for fact in self.facts if changed not in fact.names)
        ways = {
            name: frozenset(way for way in known if not any(changed in fact.names for fact in way))
            for name, known in self.ways.items()
        }
        return _State(facts, ways)

    def having(self, names: Iterable[str], value: bool = True) -> _State:
        """Return the state where some names have a value, or have none."""
        known: frozenset[_Facts] = frozenset([frozenset()] if value else [])
        return _State(self.facts, {**self.ways, **dict.fromkeys(names, known)})

    def given(self, name: str, value: bool = True) -> _State:
        """Return the state after a name is assigned, or deleted."""
        return self.forgetting(name).having([name], value)


def _join(one: _State | None, other: _State | None, when: tuple[_Facts, _Facts] | None = None) -> _State | None:
    """Return what is known where two ways meet; None is a way that leads nowhere.

    Args:
        when: what holds on the one, and on the other, exactly; None where nothing tells them apart afterwards.
    """
    if one is None or other is None:
        return one or other
    apart = when is not None and when[0] <= one.facts and when[1] <= other.facts
    ways = {}
    for name in one.ways.keys() | other.ways.keys():
        first, second = one.ways_of(name), other.ways_of(name)
        found = {a | b for a, b in product(first, second)}
        if apart and when is not None:
            found |= {way | when[0] for way in first} | {way | when[1] for way in second}
        least = [way for way in sorted(found, key=len) if not any(less < way for less in found)]
        ways[name] = frozenset(least[:_MOST_WAYS])
    return _State(one.facts & other.facts, ways)


def _join_all(states: Iterable[_State | None]) -> _State | None:
    found: _State | None = None
    for state in states:
        found = _join(found, state)
    return found


def unassigned(text: str, reads: Iterable[int]) -> list[int]:
    """Return those of some names that may have no value where they are read.

    Args:
        text: a module's source, which compiles.
        reads: the offsets of names in it; those that are not read there do not count.

    Returns:
        The offsets of those names, in their order.
    """
    places = _places(text, reads)
    return sorted({places[place] for place in _Scope(parsed(text), frozenset(places), ()).faults()})


def _places(text: str, offsets: Iterable[int]) -> dict[Place, int]:
    """Return where some offsets in a text are."""
    starts = [0, *(match.end() for match in NEWLINE.finditer(text))]
    lines = ((bisect_right(starts, offset), offset) for offset in offsets)
    return {(line, len(text[starts[line - 1] : offset].encode())): offset for line, offset in lines}


def unassigned_names(text: str, names: Collection[str], new: Collection[int] | None = None) -> set[str]:
    """Return those of some names that are read anywhere in a module where they may have no value.

    Args:
        text: the module's source, which compiles.
        names: the names.
        new: the offsets of the names in new code, where loops are asked about: each makes a pass, as one over epochs or
            batches is meant to, and gives what it gives on any way out, but for the `break` of a new `if`.
    """
    tree = parsed(text)
    told = _places(text, new or ())
    breaks = None if new is None else frozenset(_breaks_of(tree, told))
    asked = [one for one in nodes_of(tree) if isinstance(one, ast.Name) and one.id in names]
    read = {_place(one): one.id for one in asked if isinstance(one.ctx, ast.Load)}
    return {read[place] for place in _Scope(tree, frozenset(read), (), breaks).faults()}


def _breaks_of(tree: ast.Module, told: Collection[Place]) -> Iterator[ast.Break]:
    """Yield each `break` right under an `if` whose condition has one of some names."""
    for node in nodes_of(tree):
        if isinstance(node, ast.If):
            names = [one for one in ast.walk(node.test) if isinstance(one, ast.Name)]
            yield from (
                one for one in node.body if isinstance(one, ast.Break) and any(_place(n) in told for n in names)
            )


@dataclass
class _Loop:
    breaks: list[_State | None] = field(default_factory=list)
    ends: list[_State] = field(default_factory=list)
    turns: list[_State | None] = field(default_factory=list)


class _Scope:
    """Goes through the statements of a module, class or function in the order in which they run.

    Args:
        node: what opens the scope.
        reads: the places that are asked about.
        outer: the names of the scopes around it, innermost first, of a module at last; classes left out.
        breaks: the only ways of leaving a loop on which what others give may be lacking, where each makes a pass; None
            where any may be one.
    """

    def __init__(
        self,
        node: ast.Module | _Definition,
        reads: frozenset[Place],
        outer: tuple[frozenset[str], ...],
        breaks: frozenset[ast.Break] | None = None,
    ) -> None:
        self._node = node
        self._breaks = breaks
        self._reads = reads
        self._outer = outer
        self._loops: list[_Loop] = []
        self._faults: set[Place] = set()
        self._inner: dict[_Definition, None] = {}
        self._asked: dict[str, None] = {}
        self._starred = False
        self._declared: set[str] = set()
        bound: set[str] = set()
        for one in _own_nodes(node):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load) and _place(one) in reads:
                self._asked.setdefault(one.id)
            bound |= set(_bound_by(one))
            self._starred |= isinstance(one, ast.ImportFrom) and one.names[0].name == "*"
            self._starred |= isinstance(one, ast.Call) and _called(one) in ("exec", "globals")
            if isinstance(one, (ast.Global, ast.Nonlocal)):
                self._declared.update(one.names)
            if isinstance(one, _SCOPES):
                self._inner.setdefault(one)
        if isinstance(node, _DEFINITIONS):
            arguments = node.args
            given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            self._parameters = {one.arg for one in [*given, arguments.vararg, arguments.kwarg] if one is not None}
        else:
            self._parameters = set()
        self._names = frozenset((bound | self._parameters) - self._declared)

    def faults(self) -> Iterator[Place]:
        """Yield the places at which a name may have no value, those in inner scopes too."""
        if self._asked:
            own = {name for name in self._asked if name in self._names}
            start = _State(ways={name: frozenset() for name in own})
            for name in self._parameters & own:
                start = start.given(name)
            self._block(self._node.body, start)
            yield from self._faults
        module = isinstance(self._node, ast.Module)
        given = {"*"} if module and self._starred else set()
        if module:  # what some function gives a value, the others may read
            given.update(*(one.names for one in nodes_of(self._node) if isinstance(one, ast.Global)))
        around = self._outer if isinstance(self._node, ast.ClassDef) else (self._names | given, *self._outer)
        for inner in self._inner:
            reads = frozenset(one for one in self._reads if inner.lineno <= one[0] <= (inner.end_lineno or 0))
            if reads:
                yield from _Scope(inner, reads, around, self._breaks).faults()

    def _bound_outside(self, name: str) -> bool:
        around = [*self._outer, self._declared, {"*"} if self._starred else set()]
        return hasattr(builtins, name) or name in ("__file__", "__name__") or any({name, "*"} & one for one in around)

    def _block(self, body: Sequence[ast.stmt], state: _State | None) -> _State | None:
        for statement in body:
            if state is None:
                return None
            state = self._statement(statement, state)
        return state

    def _statement(self, node: ast.stmt, state: _State) -> _State | None:
        if isinstance(node, ast.If):
            yes, no = self._test(node.test, state)
            return _join(self._block(node.body, yes), self._block(node.orelse, no), _told(node.test))
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            return self._loop(node, state)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                state = self._value(item.context_expr, state)
                state = state if item.optional_vars is None else self._target(item.optional_vars, state)
            after = self._block(node.body, state)
            suppresses = any(_called(item.context_expr).endswith("suppress") for item in node.items)
            return _join(after, _before_failure(state, node.body)) if suppresses else after
        if isinstance(node, _TRIES):
            return self._try(cast(ast.Try, node), state)
        if isinstance(node, ast.Match):
            return self._match(node, state)
        if isinstance(node, _SCOPES):
            for part in [*node.decorator_list, *_evaluated(node)]:
                state = self._value(part, state)
            return state.given(node.name)
        return self._simple(node, state)

    def _simple(self, node: ast.stmt, state: _State) -> _State | None:
        if isinstance(node, ast.Assert):
            yes, no = self._test(node.test, state)
            if node.msg is not None and no is not None:
                self._value(node.msg, no)
            return yes
        if isinstance(node, (ast.Break, ast.Continue)):
            loop = self._loops[-1]
            plain = loop.breaks if self._breaks is None or node in self._breaks else loop.ends
            (plain if isinstance(node, ast.Break) else loop.turns).append(state)
            return None
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            state = self._name(node.target, state)
        value = getattr(node, "value", None)
        if isinstance(value, ast.expr):
            state = self._value(value, state)
        if isinstance(node, ast.Raise):
            for part in (node.exc, node.cause):
                state = self._value(part, state) if part is not None else state
        if isinstance(node, (ast.Return, ast.Raise)) or (isinstance(node, ast.Expr) and _called(node.value) in _LEAVES):
            return None
        targets = getattr(node, "targets", [node.target] if isinstance(node, (ast.AnnAssign, ast.AugAssign)) else [])
        for target in targets if value is not None or isinstance(node, ast.Delete) else []:
            state = self._target(target, state, not isinstance(node, ast.Delete))
        for name in _bound_by(node) if isinstance(node, (ast.Import, ast.ImportFrom)) else ():
            state = state.given(name)
        return state

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, state: _State) -> _State | None:
        if not isinstance(node, ast.While):
            state = self._value(node.iter, state)
        head: _State | None = state
        while True:
            assert head is not None
            self._loops.append(_Loop())
            if isinstance(node, ast.While):
                begun, over = self._test(node.test, head)
            else:
                begun, over = self._target(node.target, head), head
            turned = self._block(node.body, begun)
            loop = self._loops.pop()
            turned = _join_all([turned, *loop.turns])
            again = _join(head, turned)
            if again == head:
                break
            head = again
        if isinstance(node, ast.While):
            over = self._test(node.test, turned)[1] if self._breaks is not None and turned is not None else over
        elif self._breaks is not None or _has_items(node.iter):
            over = turned
        done = self._block(node.orelse, over)
        ended = _join_all([done, *loop.ends])
        if ended is not None and loop.ends:
            ended = ended.having({name for one in (done, *loop.ends) if one for name in one.ways if one.has(name)})
        return _join_all([ended, *loop.breaks])

    def _try(self, node: ast.Try, state: _State) -> _State | None:
        """Handlers begin with what no statement of the body takes away, as any of them may fail."""
        done = self._block(node.orelse, self._block(node.body, state))
        failed = _before_failure(state, node.body)
        ends = [done]
        for handler in node.handlers:
            begun = failed if handler.type is None else self._value(handler.type, failed)
            begun = begun if handler.name is None else begun.given(handler.name)
            end = self._block(handler.body, begun)
            ends.append(end.given(handler.name, False) if end is not None and handler.name else end)
        after = _join_all(ends)
        if not node.finalbody:
            return after
        rest = [*node.body, *node.orelse, *(one for handler in node.handlers for one in handler.body)]
        self._block(node.finalbody, _before_failure(state, rest))
        # What the block at the end asks for on the way of a failure is asked for there, and no more on the other.
        return self._block(node.finalbody, after)

    def _match(self, node: ast.Match, state: _State) -> _State | None:
        state = self._value(node.subject, state)
        ends: list[_State | None] = []
        rest: _State | None = state
        for case in node.cases:
            if rest is None:
                break
            begun: _State | None = rest
            for part in ast.walk(case.pattern):
                for name in _bound_by(part):
                    begun = begun.given(name) if begun is not None else None
            if case.guard is not None and begun is not None:
                begun, _ = self._test(case.guard, begun)
            ends.append(self._block(case.body, begun))
            if case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None:
                rest = None
        return _join_all([rest, *ends])

    def _target(self, node: ast.expr, state: _State, value: bool = True) -> _State:
        if isinstance(node, ast.Name):
            return state.given(node.id, value)
        if isinstance(node, (ast.Tuple, ast.List)):
            for element in node.elts:
                state = self._target(element, state, value)
            return state
        if isinstance(node, ast.Starred):
            return self._target(node.value, state, value)
        for child in ast.iter_child_nodes(node):
            state = self._value(child, state) if isinstance(child, ast.expr) else state
        return state.forgetting(_changed(node))

    def _test(self, node: ast.expr, state: _State) -> tuple[_State | None, _State | None]:
        """Return what is known where a condition holds, and where it does not."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yes, no = self._test(node.operand, state)
            return no, yes
        if isinstance(node, ast.Constant):
            return (state, None) if node.value else (None, state)
        if isinstance(node, ast.BoolOp):
            both = isinstance(node.op, ast.And)
            going: _State | None = state
            left: list[_State | None] = []
            for part in node.values:
                if going is None:
                    break
                yes, no = self._test(part, going)
                going, out = (yes, no) if both else (no, yes)
                left.append(out)
            ended = _join_all(left)
            told = _told(node)
            yes, no = (going, ended) if both else (ended, going)
        else:
            state = self._value(node, state)
            yes, no, told = state, state, _told(node)
        if told is None:
            return yes, no
        return yes and yes.told(told[0]), no and no.told(told[1])

    def _value(self, node: ast.AST, state: _State) -> _State:
        if isinstance(node, ast.Name):
            return self._name(node, state)
        if isinstance(node, ast.NamedExpr):
            return self._target(node.target, self._value(node.value, state))
        if isinstance(node, ast.BoolOp):
            after = _join(*self._test(node, state))
            return state if after is None else after
        if isinstance(node, ast.IfExp):
            yes, no = self._test(node.test, state)
            after = _join(yes and self._value(node.body, yes), no and self._value(node.orelse, no), _told(node.test))
            return state if after is None else after
        if isinstance(node, ast.Lambda):
            own = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
            self._value(node.body, state.having(own))
            return state
        if isinstance(node, _COMPREHENSIONS):
            return self._comprehension(node, state)
        for child in ast.iter_child_nodes(node):
            state = self._value(child, state)
        return state

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, state: _State
    ) -> _State:
        """The first of what it goes through is looked at outside; its variables are its own."""
        state = self._value(node.generators[0].iter, state)
        inner = state
        for number, one in enumerate(node.generators):
            inner = self._value(one.iter, inner) if number else inner
            inner = inner.having({part.id for part in ast.walk(one.target) if isinstance(part, ast.Name)})
            for test in one.ifs:
                inner = self._test(test, inner)[0] or inner
        for part in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
            inner = self._value(part, inner)
        return state

    def _name(self, node: ast.Name, state: _State) -> _State:
        name = node.id
        known = state.has(name) or name not in self._asked
        if not known and name not in self._names:
            known = self._bound_outside(name)
        if not known and _place(node) in self._reads:
            self._faults.add(_place(node))
        return state.having([name]) if name in self._names and name in self._asked else state


def _place(node: ast.Name) -> Place:
    return node.lineno, node.col_offset


def _before_failure(state: _State, body: Sequence[ast.stmt]) -> _State:
    """Return what is known where any of some statements has failed: what none of them takes away."""
    for statement in body:
        for node in [statement, *_own_nodes(statement)]:
            for name in _bound_by(node):
                state = state.forgetting(name)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
                state = state.given(node.id, False)
            elif isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
                state = state.forgetting(_changed(node))
    return state


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope's own code, with the definitions in it, but not their bodies."""
    waiting: list[ast.AST] = [*node.body] if isinstance(node, _SCOPES) else [*ast.iter_child_nodes(node)]
    while waiting:
        one = waiting.pop()
        yield one
        if isinstance(one, _SCOPES):
            waiting += [*one.decorator_list, *_evaluated(one)]
        elif isinstance(one, ast.comprehension):
            waiting += [one.iter, *one.ifs]  # its variables are its own
        else:
            waiting += ast.iter_child_nodes(one)


def _evaluated(node: _Definition) -> list[ast.expr]:
    """Return the expressions of a definition that are evaluated where it stands, its decorators left out."""
    if isinstance(node, ast.ClassDef):
        return [*node.bases, *(keyword.value for keyword in node.keywords)]
    return [one for one in [*node.args.defaults, *node.args.kw_defaults] if one is not None]


def _bound_by(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node itself gives a value to."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
        yield node.id
    elif isinstance(node, _SCOPES):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        yield from [node.name] if node.name else []
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest


def _called(node: ast.expr) -> str:
    """Return the code of the function that an expression calls, "" where it is no call."""
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def _changed(node: ast.expr) -> str:
    """Return what an assignment to an attribute or an item changes: `args.rank`, or `stats` for `stats["acc"]`."""
    while isinstance(node, (ast.Subscript, ast.Starred)):
        node = node.value
    return ast.unparse(node)


def _has_items(node: ast.expr) -> bool:
    """Whether what a loop goes through visibly has an item: a display, `range(3)`, `itertools.count()`."""
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return any(not isinstance(element, ast.Starred) for element in node.elts)
    called = _called(node).rpartition(".")[2]
    if not isinstance(node, ast.Call) or not called:
        return False
    numbers = [one.value if isinstance(one, ast.Constant) else None for one in node.args]
    if called == "range" and all(isinstance(number, int) for number in numbers):
        return bool(range(*[number for number in numbers if isinstance(number, int)]))
    return called == "count" or (called in ("enumerate", "reversed", "tqdm", "list") and _has_items(node.args[0]))


def _told(node: ast.expr) -> tuple[_Facts, _Facts] | None:
    """Return what exactly holds where a condition does, and where it does not; None where it may be otherwise later."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        told = _told(node.operand)
        return told and (told[1], told[0])
    names: set[str] = set()
    for one in ast.walk(node):
        if isinstance(one, ast.Call):
            plain = ast.unparse(one.func)
            if (one.args or one.keywords) and plain not in _STABLE:
                return None
        elif isinstance(one, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda)):
            return None
        elif isinstance(one, (ast.Name, ast.Attribute)):
            names.add(ast.unparse(one))
    if isinstance(node, ast.BoolOp):
        both = isinstance(node.op, ast.And)
        parts = [told and told[0 if both else 1] for told in map(_told, node.values)]
        united = frozenset[_Fact]().union(*(part for part in parts if part is not None))
        # As what must all hold, in one order: `a or b` holds where `not b and not a` does not.
        order = sorted(f"{'' if fact.holds else 'not '}({fact.condition})" for fact in united)
        whole = _Fact(" and ".join(order), True, frozenset(names))
        if None in parts:
            whole = _Fact(ast.unparse(node), both, frozenset(names))
        return (united, frozenset([whole.opposite])) if both else (frozenset([whole.opposite]), united)
    fact = _Fact(ast.unparse(node), True, frozenset(names))
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        operator, right = node.ops[0], node.comparators[0]
        turned = {ast.NotEq: "==", ast.IsNot: "is", ast.NotIn: "in"}.get(type(operator))
        left = ast.unparse(node.left)
        if turned is not None:
            fact = replace(fact, condition=f"{left} {turned} {ast.unparse(right)}", holds=False)
        equal = isinstance(operator, (ast.Eq, ast.NotEq)) and isinstance(right, ast.Constant)
        fact = replace(fact, subject=left if equal else "")
    return frozenset([fact]), frozenset([fact.opposite])
