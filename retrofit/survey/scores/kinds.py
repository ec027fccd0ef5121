"""What a value is that the tracker can take for no number: a string, an object, several values."""

from __future__ import annotations

import re

import libcst as cst

from retrofit.knowledge.kinds import DataLoader, MakesArray, Metric, Reduces, ReturnsText, Scheduler
from retrofit.survey.constructions import is_torchs_class
from retrofit.survey.counters import is_number
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import argument, dotted, last_name, method_name, nodes_in, receiver, unquoted
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.scores.best import class_of
from retrofit.survey.scores.making import is_bound
from retrofit.survey.scores.standins import StandIns, Value
from retrofit.survey.scores.values import (
    element_of,
    formatted,
    in_loop,
    is_collection,
    is_object,
    root_of,
    target_node,
    written,
)
from retrofit.survey.scores.words import direction_of
from retrofit.survey.sites.loop import EpochLoop

SEVERAL, TEXT, NOTHING, TRUTH, ALWAYS = "several values", "a string", "None", "true or false", "always"
_WRITES = re.compile(r"save|dump|show|plot|draw|image|figure|video|audio|grid|histogram", re.IGNORECASE)
#: Of which an object is a number or may be one.
_NUMBERS = ("float", "int", "Tensor", "Number")
#: Modules of torch whose classes make no numbers.
_OF_OBJECTS = ("torch.nn.", "torch.optim.", "torch.utils.data.")
_COMPUTED = (cst.BinaryOperation, cst.UnaryOperation, cst.Integer, cst.Float, cst.Ellipsis)
_MOVES = ("to", "cpu", "cuda")
_OF_TENSORS = (
    *_MOVES,
    "item",
    "detach",
    "numpy",
    "tolist",
    "data",
    "mean",
    "sum",
    "max",
    "min",
    "shape",
    "size",
    "round",
)


class Kinds:
    """Tells of values of an epoch loop whether they visibly are no numbers.

    Args:
        loop: the epoch loop.
    """

    def __init__(self, index: Index, flow: Flow, loop: EpochLoop) -> None:
        self._index, self._flow, self._loop = index, flow, loop
        self._values = StandIns(index, flow, loop)
        members = [one for one in index.attributes if in_loop(index, loop, one)]
        #: What the loop asks for a member that no tensor has.
        self._asked = {dotted(one.value) for one in members if one.attr.value not in _OF_TENSORS} - {None}
        read = [one for one in index.nodes_of(cst.Subscript) if self._has_more(one)]
        more: list[tuple[cst.BaseExpression, cst.BaseExpression]] = [(one.value, one) for one in read]
        walked = [one.iter for one in index.nodes_of(cst.For)] + [one.iter for one in index.nodes_of(cst.CompFor)]
        more += [(one, one) for one in walked if in_loop(index, loop, one) and self._is_given_once(one)]
        self._several = {unquoted(written(index, named)): one for named, one in more}

    def of(
        self, node: cst.BaseExpression, at: Statement | None = None, call: cst.Call | None = None
    ) -> tuple[str, str]:
        """Return what an expression is that is no number, on any way to it, and where; "" for anything else.

        An item is several values where it is so on all ways: keys that are worked out may take the mean of each.

        Args:
            node, call: as for `StandIns.values`.
            at: the statement after which it counts, None for the one in which it stands, or the loop's last.
        """
        known = node in self._index.parents
        last = self._index.statements_in(self._loop.body)[-1]
        after = at is not None or not known or is_bound(self._index, node)
        at = at or (self._index.statement(node) if known else last)
        values = self._values.values(node, at, call, after)
        filled = [one for one in values if not _is_empty(one.node)] or values
        kinds = ["" if one.reading.number else self._kind(one) for one in filled]  # `float(f"{acc:.3f}")`
        for value, kind in zip(filled, kinds, strict=True):
            if kind and (kind != SEVERAL or not isinstance(node, cst.Subscript) or set(kinds) == {SEVERAL}):
                return kind, self._index.place(value.reading.at.node, self._loop.file)
        if values and all(self._is_given_none(one) for one in values):
            return NOTHING, self._index.place(values[0].reading.at.node, self._loop.file)
        if len(numbers := {self._number_ever(one) for one in values}) == 1 and (number := numbers.pop()):
            return f"{ALWAYS} {number}", self._index.place(values[0].reading.at.node, self._loop.file)
        if values and all(_is_truth(one.node) and not one.reading.number for one in values):
            return TRUTH, self._index.place(values[0].reading.at.node, self._loop.file)
        if (item := self._several.get(unquoted(written(self._index, node)))) is not None:
            return SEVERAL, self._index.place(item, self._loop.file)
        made = [one.node for one in self._flow.origins(node, at.scope)] if dotted(node) in self._asked else []
        if made and all(is_object(self._index, one) and self._flow.class_made(one) is None for one in made):
            return "an object", self._index.place(made[0], self._loop.file)
        for value in values:
            if (given := self._given(value)) is not None and (kind := self._object(given)):
                return kind, self._index.place(given, self._loop.file)
        return "", ""

    def _has_more(self, item: cst.Subscript) -> bool:
        """Whether the loop reads an item that only several values have, `errors[3]`, of what it gives a name once."""
        key = item.slice[0].slice
        numbered = isinstance(key, cst.Index) and isinstance(key.value, cst.Integer) and key.value.evaluated_value > 0
        return numbered and in_loop(self._index, self._loop, item) and self._is_given_once(item)

    def _is_given_once(self, node: cst.BaseExpression) -> bool:
        """Whether the loop gives what an expression is of, or is, its name once, before that is read."""
        here = self._index.statement(node)
        names = [root_of(node)] if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)) else []
        bound = [b for b in self._index.bound(names, here.scope) if self._loop.statement in b.statement.path]
        return len(bound) == 1 and bound[0].statement.order < here.order

    def _is_given_none(self, value: Value) -> bool:
        """Whether a value is the None that a function of the project returns: a variable may get its own elsewhere."""
        node, function = value.node, value.reading.at.scope
        given = node is None or (dotted(node) == "None" and isinstance(self._index.parents.get(node), cst.Return))
        return given and function.kind == "function" and self._runs_as_written(function)

    def _runs_as_written(self, function: Scope) -> bool:
        """Whether a function that is called is surely that one itself: no decorator's, and no heir's."""
        around = function.node.decorators if isinstance(function.node, cst.FunctionDef) else ()
        made = [one.decorator.func if isinstance(one.decorator, cst.Call) else one.decorator for one in around]
        plain = all(self._index.qualified(one) == "functools.wraps" for one in made)
        heirs = [c for c in self._index.scopes if c.kind == "class" and function.parent in self._flow.lineage(c)[1:]]
        return plain and not any(function.name in heir.inner for heir in heirs)

    def _number_ever(self, value: Value) -> str:
        """Return the code of the number that a value is in all epochs, "" where it may be another.

        It may be returned as it stands, or be all that a variable is ever given, by its own function or another.
        """
        index, node, at = self._index, value.node, value.reading.at
        number = _number_in(node)
        if node is None or value.keys or not self._runs_as_written(at.scope):
            return ""
        around = (one for one in index.ancestors(node) if not isinstance(one, (cst.Element, cst.Tuple)))
        if number and isinstance(next(around), cst.Return):
            return number
        bound = [b.target for b in index.bound_in(at) if _part(b.value, b.item) is node] if number else []
        names = bound or [dotted(node) or ""]
        given = [one for name in names for one in self._flow.sources(self._flow.variable(name, at.scope))]
        told = {_number_in(_part(one.value, one.item)) for one in given}
        return told.pop() if len(told) == 1 and names[0].isidentifier() else ""

    def is_mute(self, binding: Binding) -> bool:
        """Whether the loop takes something of a validation that is no measure: a string, or what nothing counts with.

        A value that only its function's name tells to be a score may be pictures or samples: nothing prints, compares
        or divides them, and they are made by no arithmetic.
        """
        index = self._index
        node = target_node(index, binding.statement, binding.target)
        kind = self.of(node)[0]
        told = kind in (TEXT, NOTHING) or kind.startswith(ALWAYS)
        if direction_of(binding.target) or told:
            return told
        values = self._values.values(node, binding.statement)
        outer = {value.node for value in values if isinstance(value.node, cst.Call) and value.reading.depth == 1}
        if not values or outer or any(isinstance(value.node, _COMPUTED) for value in values):
            return False
        taken = [one for one in index.nodes_of(cst.Name) if one.value == binding.target and one is not node]
        taken = [one for one in taken if in_loop(index, self._loop, one)]
        return not any(self._counts_with(one) for one in taken)

    def _counts_with(self, name: cst.Name) -> bool:
        """Whether what is around a name may take it for a number, rather than write it to a file."""
        calls = [node for node in self._index.ancestors(name) if isinstance(node, (cst.Call, cst.BaseStatement))]
        call = next(iter(calls), None)
        return not isinstance(call, cst.Call) or _WRITES.search(last_name(call.func)) is None

    def _kind(self, value: Value) -> str:
        node = value.node
        while method_name(node) in _MOVES:
            node = receiver(node)
        if value.keys:
            return SEVERAL if len(value.keys) == 1 and self._is_of_lists(node, value.reading.at) else ""
        if node is None:
            return ""
        added = nodes_in(value.reading.at.node) if isinstance(node, cst.Ellipsis) else ()
        texts = [one.value for one in added if isinstance(one, cst.AugAssign)]
        if _is_text(node) or any(isinstance(one, cst.BaseString) or _is_text(one) for one in texts):
            return TEXT
        if is_collection(self._index, node) and last_name(getattr(node, "func", None)) not in ("zeros", "ones"):
            return "" if self._is_array_of_number(node, value) else SEVERAL
        if node not in self._index.parents:
            return ""
        if isinstance(node, cst.Call) and self._is_of_each_column(node, value.reading.at.scope):
            return SEVERAL
        if isinstance(node, cst.Call) and self._returns_text(node):
            return TEXT
        return self._object(node)

    def _is_of_lists(self, node: cst.BaseExpression | None, at: Statement) -> bool:
        """Whether each item of a dict begins as a list, `defaultdict(list)`, while no function gets the dict."""
        if not isinstance(node, cst.Call) or self._index.qualified(node.func) != "collections.defaultdict":
            return False
        names = {b.target for b in self._index.bound_in(at)}
        handed = {dotted(arg.value) for call in self._index.calls_of(at.scope) for arg in call.args}
        return dotted(argument(node, "default_factory", 0)) in ("list", "dict", "set") and names.isdisjoint(handed)

    def _given(self, value: Value) -> cst.BaseExpression | None:
        """Return what makes all that a function is given by a name: of an optimizer also what it is wrapped in."""
        name = dotted(value.node)
        origins = self._flow.origins(value.node, value.reading.at.scope) if value.node and name else []
        made = [one.node for one in origins if dotted(one.node) != "None"]
        objects = all(is_object(self._index, one) for one in made)
        return next(filter(self._object, made), None) if objects and not value.keys else None

    def _object(self, made: cst.BaseExpression) -> str:
        """Say of an expression what object it makes that is no number, "" where it may make something else."""
        made_by = made.func if isinstance(made, cst.Call) else made
        name, full = last_name(made_by), self._index.qualified(made_by)
        known = any(self._index.knowledge.known(kind, full) for kind in (DataLoader, Metric, Scheduler))
        known |= full.startswith(_OF_OBJECTS) and not full.endswith("Parameter")
        if made_by is not made and name[:1].isupper() and (known or is_torchs_class(self._index, made_by)):
            return f"an object of `{name}`"
        own = class_of(self._index, self._flow, made)
        if own is None or "__float__" in own.inner:
            return ""
        numbers = any(last_name(base) in _NUMBERS for base in self._flow.bases(own))
        return "" if numbers else f"an object of `{own.name}`"

    def _is_array_of_number(self, node: cst.BaseExpression, value: Value) -> bool:
        """Whether an expression makes an array of what is a number on all ways to it, which counts as that number."""
        of_numpy = isinstance(node, cst.Call) and self._index.qualified(node.func) == "numpy.array"
        given = argument(node, "", 0) if of_numpy and isinstance(node, cst.Call) else None
        values = self._values.read(given, value) if given is not None else []
        return bool(values) and all(one.reading.number or isinstance(one.node, _COMPUTED) for one in values)

    def _returns_text(self, call: cst.Call) -> bool:
        """Whether a function of a library, or a method of what one makes, returns a text."""
        index = self._index
        known = index.knowledge.known(ReturnsText, index.qualified(call.func))
        if known is not None and not known.methods:
            return True
        held = receiver(call)
        made = [one.node for one in self._flow.origins(held, index.scope_of(call))] if held is not None else []
        makers = [index.qualified(one.func) for one in made if isinstance(one, cst.Call)]
        entries = [index.knowledge.known(ReturnsText, maker) for maker in makers]
        return any(entry is not None and method_name(call) in entry.methods for entry in entries)

    def _is_of_each_column(self, call: cst.Call, scope: Scope) -> bool:
        """Whether a call makes a number of each column of a list of rows: `np.mean(x, 0)`, `np.array(x).mean(0)`."""
        name, given, first = self._index.qualified(call.func), next((arg.value for arg in call.args), None), 0
        held = receiver(call)
        made = self._index.qualified(held.func) if isinstance(held, cst.Call) and held.args else ""
        array = self._index.knowledge.known(MakesArray, made)
        if array is not None and not array.sized and isinstance(held, cst.Call):  # as `np.mean` does with it
            name, given, first = f"{made.partition('.')[0]}.{method_name(call)}", held.args[0].value, 1
        known = self._index.knowledge.known(Reduces, name)
        axes = known.axis.items() if known is not None else ()
        axis = next((argument(call, word, place - first) for word, place in axes), None)
        rows = dotted(given)
        if rows is None or not is_number(axis):
            return False
        variable = self._flow.variable(rows, scope)
        added = [
            one.value
            for one in self._index.appended
            if one.target == f"{rows}[-1]" and self._flow.variable(rows, one.statement.scope) == variable
        ]
        return bool(added) and all(one is not None and is_collection(self._index, one) for one in added)


def _is_text(node: cst.BaseExpression) -> bool:
    """Whether an expression is a string that is made of something, rather than one that is written down."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Add, cst.Divide)):  # `folder / "a.png"`
        return any(isinstance(one, cst.BaseString) or _is_text(one) for one in (node.left, node.right))
    return formatted(node)


def _part(value: cst.BaseExpression | None, item: int | None) -> cst.BaseExpression | None:
    """Return an item of what is assigned, or all of it."""
    return element_of(value, item) if value is not None else None


def _number_in(node: cst.BaseExpression | None) -> str:
    """Return the code of a number that is written down, perhaps with a sign, "" for any other expression."""
    plain = node.expression if isinstance(node, cst.UnaryOperation) else node
    return cst.Module([]).code_for_node(node) if node and isinstance(plain, (cst.Integer, cst.Float)) else ""


def _is_truth(node: cst.BaseExpression | None) -> bool:
    """Whether an expression only says yes or no: `acc > self.best`, which a validation may return as `is_best`."""
    negated = isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not)
    return negated or isinstance(node, cst.Comparison) or dotted(node) in ("True", "False")


def _is_empty(node: cst.BaseExpression | None) -> bool:
    """Whether an expression is a collection without anything in it, perhaps where nothing is measured."""
    return isinstance(node, (cst.Dict, cst.List)) and not node.elements
