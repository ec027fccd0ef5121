"""Find where a signal ends a training, which is an interruption, and not the end that the script has planned."""

from __future__ import annotations

import libcst as cst

from retrofit.survey.conditions import constant
from retrofit.survey.flow import Flow
from retrofit.survey.names import Variable
from retrofit.survey.nodes import argument, dotted, receiver
from retrofit.survey.scopes import Scope
from retrofit.survey.sites.loop import EpochLoop

#: What a script has sent to itself, by `signal.alarm(limit)`.
_ALARMS = ("signal.SIGALRM", "signal.SIGPROF", "signal.SIGVTALRM")

#: Through how many names and functions a condition is followed to what a handler sets.
_DEPTH = 8


class Signals:
    """Tells what only a signal brings about.

    Args:
        flow: the project's values.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow, self._index = flow, flow.index
        calls = [call for call in self._index.calls_to("signal.signal") if not self._is_own_alarm(call)]
        given = [(argument(call, "handler", 1), self._index.scope_of(call)) for call in calls]
        found = [flow.defined(handler, scope) for handler, scope in given if handler is not None]
        self._handlers = {one for one in found if one is not None}
        for one in (waiting := list(self._handlers)):  # which grows by what they alone call
            called = [flow.called(call) for call in self._index.calls_of(one)]
            further = {f for f in called if f is not None and f not in self._handlers and self._is_left_to_them(f)}
            self._handlers |= further
            waiting += further

    def _is_own_alarm(self, call: cst.Call) -> bool:
        """Whether a handler is of a signal that the script itself has sent when a time is over, as it plans."""
        number = argument(call, "signalnum", 0)
        return number is not None and self._index.qualified(number) in _ALARMS

    def _is_left_to_them(self, function: Scope) -> bool:
        return all(self._index.scope_of(call) in self._handlers for call in self._flow.callers(function))

    def interrupt(self, loop: EpochLoop, node: cst.CSTNode) -> bool:
        """Whether a signal alone has an epoch loop left at a node: `if stopped: break`."""
        if not self._handlers:
            return False
        if isinstance(node, cst.BaseExpression):  # the condition of its head
            return self._is_kept_up_without(node)
        tests = [test for test, holds in self._index.guards(node) if holds]
        inside = [test for test in tests if loop.statement in self._index.statement(test).path[:-1]]
        return any(self._tells(test, self._index.scope_of(test), _DEPTH) for test in inside)

    def _is_kept_up_without(self, test: cst.BaseExpression) -> bool:
        """Whether a part of the condition for a further turn is that no signal has come: `n < 9 and not stopped`."""
        if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
            return self._is_kept_up_without(test.left) or self._is_kept_up_without(test.right)
        if not isinstance(test, cst.UnaryOperation) or not isinstance(test.operator, cst.Not):
            return False
        return self._tells(test.expression, self._index.scope_of(test), _DEPTH)

    def _tells(self, node: cst.BaseExpression, scope: Scope, depth: int) -> bool:
        """Whether an expression is true after a signal alone."""
        if depth == 0:
            return False
        if isinstance(node, cst.BooleanOperation):
            parts = [self._tells(one, scope, depth - 1) for one in (node.left, node.right)]
            return all(parts) if isinstance(node.operator, cst.Or) else any(parts)
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            asked = node.comparisons[0]
            same, other = isinstance(asked.operator, (cst.Equal, cst.Is)), constant(asked.comparator)
            more = isinstance(asked.operator, (cst.NotEqual, cst.IsNot, cst.GreaterThan, cst.GreaterThanEqual))
            return (bool(other) if same else more) and self._tells(node.left, scope, depth - 1)
        if isinstance(node, cst.Call):
            function = self._flow.called(node)
            if function is not None:
                returned = self._index.returned(function)
                return bool(returned) and all(self._tells(one, function, depth - 1) for one in returned)
            plain = [arg.value for arg in node.args if arg.keyword is None]
            part = plain[0] if plain else receiver(node)  # as a number or tensor of it, or of the ranks'
            return len(plain) < 2 and part is not None and self._tells(part, scope, depth - 1)
        held = node.value if isinstance(node, cst.Subscript) else node
        name = dotted(held)
        return name is not None and self._is_set(self._flow.member(name, scope), depth)

    def _is_set(self, variable: Variable, depth: int) -> bool:
        """Whether a handler alone gives a variable, an item of it or an event its value, or what gives it tells so."""
        flow, index = self._flow, self._index
        given = [(one.value, one.scope) for one in flow.sources(variable)]
        items = [(b.target.partition("[")[0], b.value, b.statement.scope) for b in index.items]
        events = [(dotted(held) or "", None, index.scope_of(call)) for call, held in index.method_calls("set")]
        filled = [(value, scope) for name, value, scope in (*items, *events) if flow.member(name, scope) == variable]
        begins = [] if filled else [(value, scope) for value, scope in given if constant(value)]
        changes = filled or begins
        if any(scope in self._handlers for _, scope in changes):
            return all(scope in self._handlers for _, scope in changes)
        told = [value is not None and self._tells(value, scope, depth - 1) for value, scope in changes]
        return bool(told) and all(told)
