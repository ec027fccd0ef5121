"""Tell what may hold the value of an expression, through names, attributes, items, calls and whatever is made of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Set

import libcst as cst

from retrofit.survey.flow import Flow, Source
from retrofit.survey.index import Binding, Scope
from retrofit.survey.nodes import children, dotted


class Holding:
    """Tells what may hold the value of some expressions; whatever is made of one may, as far as nothing else is known.

    Args:
        made: the expressions.
        flow: of the whole project.
        beside: attributes of such a value that do not hold it.
    """

    def __init__(self, made: Collection[cst.CSTNode], flow: Flow, beside: Set[str] = frozenset()) -> None:
        self._made, self._flow, self._index, self._beside = made, flow, flow.index, beside
        self._free: set[tuple[Scope, str]] = set()
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
        names, functions = set[tuple[Scope, str]](), set[Scope]()
        while waiting:
            here, scope = waiting.pop()
            if here in self._made:
                return True
            name = dotted(here)
            if name is not None:
                if self._beside.isdisjoint(name.split(".")[1:]) and (scope, name) not in names | self._free:
                    names.add((scope, name))
                    waiting += [(one.value, one.scope) for one in self._gives(name, scope) if one.value is not None]
                continue
            if isinstance(here, cst.Attribute) and here.attr.value in self._beside:
                continue
            function = self._flow.called(here) if isinstance(here, cst.Call) else None
            returned = self._index.returned(function) if function is not None else []
            if function is not None and function not in functions:
                functions.add(function)
                waiting += [(value, function) for value in returned]
            if function is None or not returned or function.inner:  # what it makes may hold what it is given
                waiting += [(child, scope) for child in children(here)]
        self._free |= names
        return False

    def _gives(self, name: str, scope: Scope) -> Iterator[Source]:
        """What gives a name, what stands before its dots, an item of it or such an attribute of any object a value."""
        parts = name.split(".")
        for number in range(1, len(parts) + 1):
            yield from self._flow.sources(self._flow.variable(".".join(parts[:number]), scope))
        for part in (parts[0], *(f".{attribute}" for attribute in parts[1:])):
            yield from (Source(one.value, one.statement.scope, one.item) for one in self._parts[part])
