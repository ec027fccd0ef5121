"""The numbers that a function tells its user and returns to nobody: those that it formats into a string, or logs."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted, names_in
from retrofit.survey.scopes import Scope
from retrofit.survey.scores.filling import Filling
from retrofit.survey.scores.kinds import SEVERAL, Kinds
from retrofit.survey.scores.validation import returned_values
from retrofit.survey.scores.values import (
    bare_of,
    formatted,
    is_collection,
    is_size,
    root_of,
    way_to_root,
    written_items,
)
from retrofit.survey.scores.words import AVERAGES, direction_of
from retrofit.survey.sites.loop import EpochLoop


class Told:
    """Knows what functions below an epoch loop tell of what they measure.

    Args:
        loop: the epoch loop.
    """

    def __init__(self, index: Index, flow: Flow, loop: EpochLoop) -> None:
        self._index, self._flow, self._loop = index, flow, loop
        self._kinds = Kinds(index, flow, loop)

    def by(self, function: Scope) -> list[tuple[str, cst.CSTNode]]:
        """Return (expression, node) of what a function tells: what goes by the name of a measure, else all."""
        found: dict[str, cst.CSTNode] = {}
        for node in self._formatted(function):
            for code in self._numbers(node, function):
                found.setdefault(code, node)
        named = [(code, node) for code, node in found.items() if direction_of(code)]
        return named or list(found.items())

    def _formatted(self, function: Scope) -> Iterator[cst.BaseExpression]:
        """Yield what a function puts into strings, prints, logs, or gives away under the name of a measure."""
        index = self._index
        for part in index.nodes_of(cst.FormattedStringExpression):
            if index.scope_of(part) is function:
                yield part.expression
        for node in index.nodes_of(cst.BinaryOperation):
            if formatted(node) and index.scope_of(node) is function:
                yield node.right
        for call in index.calls_of(function):
            keys = [arg.value.evaluated_value for arg in call.args if isinstance(arg.value, cst.SimpleString)]
            named = isinstance(index.parents[call], cst.Expr) and any(direction_of(str(key)) for key in keys)
            if named or formatted(call) or index.knowledge.logs(dotted(call.func) or ""):
                yield from (arg.value for arg in call.args)

    def _numbers(self, node: cst.BaseExpression, function: Scope) -> Iterator[str]:
        """Yield how the numbers are written that an expression shows, `name[...]` for those of a collection."""
        node = bare_of(node)
        parts = [node.left, node.right] if isinstance(node, cst.BinaryOperation) else []
        if isinstance(node, (cst.Tuple, cst.List)):
            parts = [part.value for part in node.elements]
        elif not any(isinstance(part, cst.List) for part in parts):  # `[step] + means`
            parts = []
        for part in parts:
            yield from self._numbers(part, function)
        if isinstance(node, cst.Name):
            yield from self._of_name(node, function)
        elif not parts and not isinstance(node, cst.BaseString) and not formatted(node):
            meter = not isinstance(node, cst.Attribute) or node.attr.value in AVERAGES
            own = function.names.intersection((root_of(node), *names_in(node, called=False))) - {*function.parameters}
            lasting = own and all(self._outlasts_loops(name, function) for name in own)
            if meter and (lasting or self._fills_own(node, function)):
                yield self._index.source.code(node)

    def _fills_own(self, node: cst.BaseExpression, function: Scope) -> bool:
        """Whether a method fills what an expression takes out of its object: `self.meter.avg`."""
        filling = Filling(self._flow, node)
        return root_of(node) == "self" and any(map(filling.by, self._index.calls_of(function)))

    def _of_name(self, name: cst.Name, function: Scope) -> Iterator[str]:
        index = self._index
        gone_through = self._gone_through(name, function)
        if gone_through is not None:
            *_, whole = way_to_root(gone_through)
            yield from self._of_name(whole, function) if isinstance(whole, cst.Name) else ()
        elif self._may_be_measured(name.value, function):
            kind, _ = self._kinds.of(name)
            if kind == SEVERAL:
                yield from numbers_in(index, self._flow, function, name.value)
            elif not kind:
                yield name.value

    def _gone_through(self, name: cst.Name, function: Scope) -> cst.BaseExpression | None:
        """Return what a loop or a comprehension around a name goes through with it, None for any other name."""
        for node in self._index.ancestors(name):
            head = node.for_in if isinstance(node, cst.BaseComp) else node
            if isinstance(head, (cst.For, cst.CompFor)) and name.value in names_in(head.target):
                return head.iter
            if node is function.node:
                break
        return None

    def _may_be_measured(self, name: str, function: Scope) -> bool:
        values = [b.value for b in self._index.bound([name], function)]
        sizes = bool(values) and all(value is not None and is_size(value) for value in values)
        return name not in function.parameters and not sizes and self._outlasts_loops(name, function)

    def _outlasts_loops(self, name: str, function: Scope) -> bool:
        """Whether a function gives a variable a value outside its loops, so that it is no single batch's."""
        epochs, loops = self._loop.statement.path, (cst.For, cst.While)
        around = [set(b.statement.around).difference(epochs) for b in self._index.bound([name], function)]
        return any(not any(isinstance(part.node, loops) for part in parts) for parts in around)


def numbers_in(index: Index, flow: Flow, function: Scope, name: str) -> list[str]:
    """Return how the numbers in a function's variable are written, `name[...]` for unknown ones of a collection."""
    bound = index.bound([name], function)
    values = [b.value for b in bound]
    values += [
        one for b in bound if isinstance(b.value, cst.Call) for one in returned_values(index, flow, b.value, b.item)
    ]
    items = [item for value in values if value is not None for item in written_items(index, value)]
    told = [f"{name}[{key}]" for key, item in items if direction_of(key) or direction_of(index.source.code(item))]
    several = any(value is not None and is_collection(index, value) for value in values)
    return told or [f"{name}[...]" if several else name]
