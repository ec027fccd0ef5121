"""Tell what may hold the value of an expression, through names, attributes, items, calls and whatever is made of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Set

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Binding, Scope, Statement
from retrofit.survey.loops import called_in
from retrofit.survey.nodes import children, dotted
from retrofit.survey.order import runs_always


class Holding:
    """Tells what may hold the value of some expressions; whatever is made of one may, as far as nothing else is known.

    Args:
        made: the expressions.
        flow: of the whole project.
        beside: attributes of such a value that do not hold it.
    """

    def __init__(self, made: Collection[cst.CSTNode], flow: Flow, beside: Set[str] = frozenset()) -> None:
        self._made, self._flow, self._index, self._beside = made, flow, flow.index, beside
        self._free: set[cst.CSTNode] = set()
        self._parts: defaultdict[str, list[Binding]] = defaultdict(list)
        for bound in (*self._index.bindings, *self._index.items, *self._index.appended):
            whole, item, _ = bound.target.partition("[")
            if "." in whole or item:
                self._parts[whole[whole.rfind(".") :] if "." in whole else whole].append(bound)

    def used_by(self, call: cst.Call) -> bool:
        """Whether a call calls such a value, or gives it to code that is not seen."""
        given = [arg.value for arg in call.args if self._flow.called(call) is None]
        return any(self.holds(node) for node in [*given, call.func])

    def holds(self, node: cst.BaseExpression) -> bool:
        """Whether an expression may hold such a value."""
        waiting: list[tuple[cst.CSTNode, Scope]] = [(node, self._index.scope_of(node))]
        seen: set[cst.CSTNode] = set()
        while waiting:
            here, scope = waiting.pop()
            if here in self._made:
                return True
            if here in seen | self._free:
                continue
            seen.add(here)
            name = dotted(here)
            if name is not None:
                if self._beside.isdisjoint(name.split(".")[1:]):
                    waiting += self._gives(name, here, scope)
                continue
            if isinstance(here, cst.Attribute) and here.attr.value in self._beside:
                continue
            function = self._flow.called(here) if isinstance(here, cst.Call) else None
            returned = self._index.returned(function) if function is not None else []
            if function is not None:
                waiting += [(value, function) for value in returned]
            if function is None or not returned or function.inner:  # what it makes may hold what it is given
                waiting += [(child, scope) for child in children(here)]
        self._free |= seen
        return False

    def _gives(self, name: str, read: cst.CSTNode, scope: Scope) -> Iterator[tuple[cst.CSTNode, Scope]]:
        """What gives a name, what stands before its dots, an item of it or such an attribute of any object a value.

        Args:
            read: where its value is asked for.
            scope: of that place.
        """
        parts = name.split(".")
        for number in range(1, len(parts) + 1):
            holder, variable = self._flow.variable(".".join(parts[:number]), scope)
            for one in self._flow.sources((holder, variable)):
                if one.value is None:
                    continue
                argument = one.scope is not holder and variable in holder.parameters
                if not self._gone(variable, holder if argument else self._index.statement(one.value), read):
                    yield one.value, one.scope
        for part in (parts[0], *(f".{attribute}" for attribute in parts[1:])):
            for bound in self._parts[part]:
                if bound.value is not None and not self._gone(bound.target, bound.statement, read):
                    yield bound.value, bound.statement.scope

    def _gone(self, name: str, given: Statement | Scope, read: cst.CSTNode) -> bool:
        """Whether what a statement gives a name, or a call a function's parameter, is replaced before it is read."""
        index, here = self._index, self._index.statement(read)
        if isinstance(given, Statement):
            scope, ways = given.scope, [([part], part.following) for part in (given, *given.around)]
        else:
            body = given.node.body if isinstance(given.node, cst.FunctionDef) else None
            scope, ways = given, [([], index.statements_in(body))] if body is not None else []
        others = {one.statement.node for one in index.bound([name], scope) if one.statement is not given}
        for first, following in ways if others else ():
            for number, later in enumerate(following, 1):
                if runs_always(later.node, others):
                    between = [*first, *following[:number]]
                    within = any(one in here.path for one in between)
                    return not within and here.scope not in called_in(index, self._flow, *between)
        return False
