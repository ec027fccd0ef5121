"""Tell what may hold the value of an expression, through names, attributes, items, calls and whatever is made of it."""

from __future__ import annotations

from collections.abc import Collection, Set

import libcst as cst

from retrofit.survey.displays import item_of
from retrofit.survey.flow import Flow
from retrofit.survey.nodes import attribute_asked, dotted, key_of, mentions, nodes_in, operands
from retrofit.survey.reaching import conditions, reaching_of
from retrofit.survey.scopes import Scope

#: Functions that only tell something of what they are given.
ASKING = ("getattr", "hasattr", "id", "isinstance", "print", "type")


class Holding:
    """Tells what may hold the value of some expressions; whatever is made of one may, as far as nothing else is known.

    Args:
        made: the expressions.
        flow: of the whole project.
        beside: attributes of such a value that do not hold it.
        free: expressions that hold no such value, whatever they are made of.
    """

    def __init__(
        self,
        made: Collection[cst.CSTNode],
        flow: Flow,
        beside: Set[str] = frozenset(),
        free: Collection[cst.CSTNode] = (),
    ) -> None:
        self._made, self._flow, self._index, self._beside = made, flow, flow.index, beside
        self._reaching = reaching_of(flow)
        self._free = set(free)

    def used_by(self, call: cst.Call) -> bool:
        """Whether a call calls such a value, or gives it to code that is not seen."""
        asks = self._flow.called(call) is not None or dotted(call.func) in ASKING
        given = [] if asks else [arg.value for arg in call.args]
        return any(self.holds(node) for node in [*given, call.func])

    def holds(self, node: cst.CSTNode) -> bool:
        """Whether an expression may hold such a value."""
        waiting: list[tuple[cst.CSTNode, Scope, str]] = [(node, self._index.scope_of(node), "")]
        seen: set[tuple[cst.CSTNode, str]] = set()
        while waiting:
            here, scope, key = waiting.pop()  # of the only item that is taken out of it, if that is told
            if here in self._made:
                return True
            if (here, key) in seen or here in self._free:
                continue
            seen.add((here, key))
            name = dotted(here)
            if name is not None:
                if self._beside.isdisjoint(name.split(".")[1:]) and not self._denied(name, here):
                    given = self._reaching.gives(name, here, scope, key)
                    waiting += [(one, there, item or key) for one, there, item in given]
                continue
            if isinstance(here, cst.Subscript) and (asked := key_of(here)) and dotted(here.value) is not None:
                waiting.append((here.value, scope, asked))
                continue
            if isinstance(here, cst.Attribute) and here.attr.value in self._beside:
                continue
            if isinstance(here, cst.Call) and attribute_asked(here) in self._beside:
                continue  # what it gives otherwise is of what lacks that
            if isinstance(here, cst.Call) and self._index.qualified(here.func).startswith("torch.optim."):
                continue  # it holds parameters, and is no way to what they are of
            if isinstance(here, cst.IfExp):
                waiting += [(here.body, scope, key), (here.orelse, scope, key)]
                continue
            item = int(key) if key.isdigit() else None
            told = item_of(here, item) if item is not None and isinstance(here, cst.BaseExpression) else None
            if told is not None:
                waiting.append((told, scope, ""))
                continue
            functions = self._flow.run_by(here) if isinstance(here, cst.Call) else []
            returned = [(value, one, left) for one in functions for value, left in self._flow.returned(one, item)]
            waiting += [(value, one, "" if left is None else str(left)) for value, one, left in returned]
            if not returned or any(one.inner for one in functions):  # what it makes may hold what it is given
                waiting += [(child, scope, "") for child in operands(here)]
        self._free |= {one for one, key in seen if not key}
        return False

    def holds_in_turn(self, node: cst.CSTNode) -> bool:
        """Whether an expression may hold such a value, or one that a loop over such a value takes from it."""
        names = {one.value for one in nodes_in(node, cst.SubscriptElement) if isinstance(one, cst.Name)}
        heads = [one.for_in if isinstance(one, cst.BaseComp) else one for one in self._index.ancestors(node)]
        around = [one for one in heads if isinstance(one, (cst.For, cst.CompFor))]
        return any(map(self.holds, [node, *(one.iter for one in around if mentions(one.target, names))]))

    def _denied(self, name: str, read: cst.CSTNode) -> bool:
        """Whether a value is read only where it is no object of their class, or lacks what such a value has."""
        for test, holds in conditions(self._index, read):
            called = dotted(test.func) if isinstance(test, cst.Call) and len(test.args) == 2 else None
            asks = self._index.statement(test)
            between = range(asks.last + 1, self._index.statement(read).order + 1)
            if any(b.statement.order in between for b in self._index.bound([name], asks.scope)):
                continue
            if holds or called is None or not isinstance(test, cst.Call) or dotted(test.args[0].value) != name:
                continue
            asked = test.args[1].value
            if called == "hasattr" and isinstance(asked, cst.SimpleString) and asked.evaluated_value in self._beside:
                return True
            classes = [one.value for one in asked.elements] if isinstance(asked, cst.Tuple) else [asked]
            known = {self._index.qualified(one) for one in classes}
            made = [one.func if isinstance(one, cst.Call) else None for one in self._made]
            if called == "isinstance" and known.issuperset(self._index.qualified(one) for one in made):
                return True
        return False
