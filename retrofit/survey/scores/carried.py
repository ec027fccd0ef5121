"""Scores of all epochs so far: of a list, a sum or a meter that begins before the epoch loop, and never anew."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from retrofit.knowledge.kinds import Metric
from retrofit.survey.conditions import argument_of
from retrofit.survey.counters import changes
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import called_in
from retrofit.survey.names import Variable
from retrofit.survey.nodes import children, dotted, last_name, method_name, names_in, receiver
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.scores.filling import EMPTIES, FILLS
from retrofit.survey.scores.values import bare_of, numbers_turns
from retrofit.survey.sites.loop import EpochLoop

#: What makes an empty collection, or one of zeros.
_BEGINS = ("list", "torch.zeros", "numpy.zeros")
#: What takes one number out of several, rather than making one of all.
_CHOOSES = ("max", "min", "sorted", "argmax", "argmin", "len")


class Carried:
    """Tells of what values of an epoch loop are made that adds up over all epochs.

    Args:
        loop: the epoch loop.
    """

    def __init__(self, index: Index, flow: Flow, loop: EpochLoop) -> None:
        self._index, self._flow, self._loop = index, flow, loop
        self._running = called_in(index, flow, loop.statement)
        self._bound: dict[Variable, list[Binding]] = {}
        for binding in (*index.bindings, *index.items):
            holder = binding.target.partition("[")[0]
            self._bound.setdefault(flow.member(holder, binding.statement.scope), []).append(binding)
        self._filled: dict[Variable, Statement] = {}
        self._emptied: set[Variable] = set()
        self._led: set[Variable] = set()  # into which something is put before what they have
        for call in index.calls:
            at = index.statement(call)
            if self._runs(at) and isinstance(index.parents[call], cst.Expr):
                name, method = dotted(receiver(call) or call.func), method_name(call)
                if name is not None and method in EMPTIES:
                    self._emptied.add(flow.member(name, at.scope))
                elif name is not None and (method in FILLS or not method):
                    self._filled.setdefault(flow.member(name, at.scope), at)
                    self._led |= {flow.member(name, at.scope)} if method == "insert" else set()

        for call in index.calls:
            function = flow.called(call) if self._runs(index.statement(call)) else None
            if function is not None:
                self._pass_on(function, call)

    def _pass_on(self, function: Scope, call: cst.Call) -> None:
        """Note of what a call gives to a function what that does with it."""
        for parameter in function.parameters:
            given = dotted(argument_of(function, call, parameter))
            if given is not None:
                inner = self._flow.member(parameter, function)
                outer = self._flow.member(given, self._index.scope_of(call))
                if inner in self._emptied:
                    self._emptied.add(outer)
                if inner in self._filled:
                    self._filled.setdefault(outer, self._filled[inner])

    def of(self, node: cst.BaseExpression, scope: Scope) -> tuple[str, Statement] | None:
        """Return the variable that a value is made of and adds up over all epochs, and where it does; None for none."""
        return next(self._of(node, scope, set()), None)

    def _of(self, node: cst.CSTNode, scope: Scope, seen: set[object]) -> Iterator[tuple[str, Statement]]:
        name = dotted(node)
        function = self._flow.called(node) if isinstance(node, cst.Call) and node in self._index.parents else None
        if name is not None:
            for number in range(name.count(".") + 1):
                yield from self._of_variable(name.rsplit(".", number)[0], scope, seen)
        elif function is not None and function.name != "__init__":
            if (function, node) not in seen:
                seen.add((function, node))
                for value in self._index.returned(function):
                    yield from self._of(value, function, seen)
        elif isinstance(node, cst.Call):
            if last_name(node.func) not in _CHOOSES:
                for part in (receiver(node), *(arg.value for arg in node.args)):
                    yield from self._of(part, scope, seen) if part is not None else ()
        elif not (
            isinstance(node, (cst.Subscript, cst.BaseComp, cst.Lambda, cst.BaseString)) or self._since(node, scope)
        ):
            for child in children(node):
                yield from self._of(child, scope, seen)

    def _of_variable(self, name: str, scope: Scope, seen: set[object]) -> Iterator[tuple[str, Statement]]:
        variable = self._flow.member(name, scope)
        if variable in seen:
            return
        seen.add(variable)
        if name in scope.parameters:
            for call in self._flow.callers(scope):
                given = argument_of(scope, call, name) if self._runs(self._index.statement(call)) else None
                if given is not None and dotted(given) is not None:
                    yield from self._of(given, self._index.scope_of(call), seen)
        bound = self._bound.get(variable, [])
        inside = [b for b in bound if self._runs(b.statement)]
        before = [b for b in bound if b not in inside]
        added = [b.statement for b in inside if _adds(b) and not numbers_turns(self._loop, b)]
        led = variable in self._led or any(map(_leads, inside))
        anew = [b for b in inside if not (_adds(b) or (_cuts(b) and not led))]
        added += [self._filled[variable]] if variable in self._filled else []
        if not anew and added and before and variable not in self._emptied and all(map(self._begins, before)):
            yield name, added[0]
        for binding in anew if all(b.value is not None and not self._begins(b) for b in anew) else ():
            if binding.value is not None and binding.item is None:
                yield from self._of(binding.value, binding.statement.scope, seen)

    def _since(self, node: cst.CSTNode, scope: Scope) -> bool:
        """Whether a sum is taken from where it was at the same place of the last turn, as in `total - logged`."""
        if not (isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Subtract)):
            return False
        whole, before = dotted(bare_of(node.left)), dotted(bare_of(node.right))
        if whole is None or before is None:
            return False
        ways = self._flow.leading(self._index.statement(node))
        bodies = [part.siblings for way in ways if self._runs(way) for part in way.path]
        kept = [b for b in self._bound.get(self._flow.member(before, scope), []) if self._runs(b.statement)]
        kept = [b for b in kept if self._comes_along(b.statement, bodies)]
        values = [(dotted(bare_of(b.value)), b.statement.scope) for b in kept if b.value is not None and b.item is None]
        held = [self._flow.member(value, where) for value, where in values if value is not None]
        return self._flow.member(whole, scope) in held

    def _comes_along(self, place: Statement, bodies: list[list[Statement]]) -> bool:
        """Whether a statement, or a call of its function, stands in one of some bodies, and so under no condition."""
        waiting, seen = [place], set[Statement]()
        while waiting:
            here = waiting.pop()
            if any(here.siblings is body for body in bodies):
                return True
            seen.add(here)
            calls = self._flow.callers(here.scope) if not here.around else ()
            within = [one for one in here.around[:1] if isinstance(one.node, cst.With)]
            waiting += {*within, *map(self._index.statement, calls)} - seen
        return False

    def _runs(self, statement: Statement) -> bool:
        return statement.scope in self._running or self._loop.statement in statement.path

    def _begins(self, binding: Binding) -> bool:
        """Whether a variable is given nothing yet: 0, an empty list, the object of a metric."""
        value = binding.value
        if isinstance(value, cst.Call):
            made = self._index.qualified(value.func)
            return made in _BEGINS or self._index.knowledge.known(Metric, made) is not None
        return isinstance(value, (cst.Integer, cst.Float)) or (isinstance(value, cst.List) and not value.elements)


def _adds(binding: Binding) -> bool:
    """Whether a variable is given more than it had: `total += x`, `total = total + x`, `found = [*found, x]`."""
    value = binding.value
    whole = isinstance(value, cst.BinaryOperation) and binding.target in names_in(value)
    parts = value.elements if isinstance(value, (cst.List, cst.Tuple)) else ()
    spread = any(isinstance(one, cst.StarredElement) and dotted(one.value) == binding.target for one in parts)
    return bool(changes(binding)) or whole or spread


def _leads(binding: Binding) -> bool:
    """Whether a variable is given something before what it had: `found = [x, *found]`, `found = [x] + found`."""
    value = binding.value
    if isinstance(value, cst.BinaryOperation):
        return dotted(value.right) == binding.target
    parts = value.elements if isinstance(value, (cst.List, cst.Tuple)) else ()
    return any(isinstance(one, cst.StarredElement) and dotted(one.value) == binding.target for one in parts[1:])


def _cuts(binding: Binding) -> bool:
    """Whether a variable is given what it had from its beginning on, `losses = losses[:n]`.

    That forgets no epoch, unless the newest stands first.
    """
    value = binding.value
    kept = value.slice[0].slice if isinstance(value, cst.Subscript) and dotted(value.value) == binding.target else None
    if not isinstance(kept, cst.Slice):
        return False
    lower, upper = (getattr(one, "value", "") for one in (kept.lower, kept.upper))
    return (kept.lower is None or lower == "0") and upper != "0"
