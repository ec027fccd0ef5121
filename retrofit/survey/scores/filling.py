"""What fills the object or the collection that a value is taken out of: a meter, a list, a dict of numbers."""

from __future__ import annotations

import builtins

import libcst as cst

from retrofit.survey.conditions import argument_of
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted, mentions, method_name, names_in, nodes_in, receiver, unquoted
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.scores.values import bare_of, items_given, only_begins, variable_of, way_to_root, written

#: Methods by which a collection or a meter takes in a value, and by which it begins anew.
FILLS = ("update", "append", "add", "add_batch", "extend", "accumulate", "put", "record", "insert", "__call__")
EMPTIES = ("reset", "clear", "__init__", "zero_", "fill_", "fill")


def parts_of(index: Index, node: cst.BaseExpression) -> set[str]:
    """Return the code of an expression and of all that it takes its value out of, but for the object of a method."""
    return {unquoted(written(index, part)) for part in way_to_root(node)} - {"self"}


def is_of(index: Index, node: cst.BaseExpression, names: set[str]) -> bool:
    """Whether an object is one of some, or an item of theirs by a key that is worked out: `meters[name]`."""
    if isinstance(node, cst.Subscript) and unquoted(written(index, node)) not in names:
        constant = (cst.SimpleString, cst.Integer)
        keys = [one.slice for one in node.slice]
        worked_out = all(isinstance(key, cst.Index) and not isinstance(key.value, constant) for key in keys)
        return worked_out and is_of(index, node.value, names)
    return unquoted(written(index, node)) in names


class Filling:
    """Tells what fills that which an expression takes its value out of.

    Args:
        node: the expression.
    """

    def __init__(self, flow: Flow, node: cst.BaseExpression) -> None:
        index = flow.index
        self._index, self._flow = index, flow
        #: A number is filled by methods that change it in place alone: torch's, which end with `_`.
        self._plain = isinstance(bare_of(node), cst.Name)
        whole = unquoted(written(index, bare_of(node)))
        self._node, self._parts = node, parts_of(index, node)
        #: The code of what it is taken out of.
        self.names = {whole} if self._plain else self._parts - {whole}

    def by(self, call: cst.Call) -> bool:
        """Whether a call fills it: as its method, as a function that is given it, or that knows it."""
        return self._fills(call, self._parts, frozenset())

    def may_be_by(self, call: cst.Call) -> bool:
        """Whether it is given to what is not known, and may fill it as well as read it."""
        name = dotted(call.func) or ""
        known = hasattr(builtins, name) or self._index.knowledge.logs(name) or self._flow.called(call) is not None
        given = {unquoted(written(self._index, arg.value)) for arg in call.args}
        return not known and not self._plain and not self.names.isdisjoint(given)

    def ends(self, call: cst.Call) -> bool:
        """Whether a call lets it begin anew by its method."""
        held = receiver(call) if method_name(call) in EMPTIES else None
        return held is not None and is_of(self._index, held, self._parts)

    def _fills(self, call: cst.Call, names: set[str], seen: frozenset[Scope]) -> bool:
        held, method, known = receiver(call), method_name(call), self._index.knowledge
        alone = isinstance(self._index.parents[call], cst.Expr)
        own_names, names = names, names | self._called_besides(call, names)
        if held is not None and is_of(self._index, held, names):
            # By another name it may be a plain value, which is only read: `for one in losses.values(): one.backward()`.
            whole = is_of(self._index, held, own_names) or any(one.startswith(f"{dotted(held)}.") for one in names)
            told = alone and whole and method not in known.module_methods and not known.logs(method)
            takes_in = (
                method.endswith("_") if self._plain else method in FILLS or (told and not self._empties(call, names))
            )
            return takes_in and method not in EMPTIES and not self._gives_others(call, held, names)
        if self._plain:
            return False
        function = self._flow.called(call)
        if function is None or function.kind != "function" or function in seen:
            return alone and dotted(call.func) in names
        own = {name for one in function.parameters for name in self._given_as(one, function, call, names)}
        scope = self._index.scope_of(call)
        own |= {one for one in names if self._flow.variable(one, function) == self._flow.variable(one, scope)}
        return bool(own) and self._filled_in(function, own, seen | {function})

    def _called_besides(self, call: cst.Call, names: set[str]) -> set[str]:
        """Return the code of it by what a loop around takes out of it in turn, and by a variable that is given it."""
        found: set[str] = set()
        for around in self._index.ancestors(call):
            walk = around.for_in if isinstance(around, cst.BaseComp) else around
            if isinstance(walk, (cst.For, cst.CompFor)):
                walked = [walk.iter]
                if isinstance(walk.iter, cst.Call) and dotted(walk.iter.func) in ("enumerate", "zip"):
                    walked = [arg.value for arg in walk.iter.args]
                rests = {rest for one in walked for rest in self._behind_item(one, names)}
                found |= {name + rest for name in names_in(walk.target, called=False) for rest in rests}
        objects = [call.func, *(arg.value for arg in call.args)]
        own = {name.partition(".")[0] for one in objects for name in names_in(one)} - names
        for b in self._index.bound(own, self._index.scope_of(call)):
            if b.item is None and isinstance(b.value, (cst.Name, cst.Attribute, cst.Subscript)):
                rests = self._behind(b.value, names)
                if not rests and isinstance(b.value, cst.Subscript) and is_of(self._index, b.value, names):
                    rests = self._behind_item(b.value.value, names)
                found |= {b.target + rest for rest in rests}
        return found

    def _behind(self, value: cst.BaseExpression, names: set[str]) -> set[str]:
        """Return what is taken, under some names, out of a value that has one of these."""
        given = unquoted(written(self._index, value))
        rests = {one[len(given) :] for one in names if given in names and one.startswith(given)}
        return {rest for rest in rests if rest[:1] in ("", ".", "[")}

    def _behind_item(self, whole: cst.BaseExpression, names: set[str]) -> set[str]:
        """Return what is taken, under some names, out of items of a collection: `.avg` of `meters["loss"].avg`."""
        held = receiver(whole) if method_name(whole) in ("items", "values") else None
        before = f"{unquoted(written(self._index, held or whole))}["
        return {one[len(before) :].partition("]")[2] for one in names if one.startswith(before)}

    def _gives_others(self, call: cst.Call, held: cst.BaseExpression, names: set[str]) -> bool:
        """Whether a dict is given other items than the one that is read, `log.update(epoch=3)`."""
        whole = f"{unquoted(written(self._index, held))}["
        read = {one.removeprefix(whole).partition("]")[0] for one in names if one.startswith(whole)}
        dicts = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
        parts = [part for one in dicts for part in (one.elements if isinstance(one, cst.Dict) else [None])]
        keys = [part.key if isinstance(part, cst.DictElement) else None for part in parts]
        told = not any(arg.star for arg in call.args) and all(isinstance(key, cst.SimpleString) for key in keys)
        given = {unquoted(key) for arg in call.args for key, _ in items_given(self._index, arg)}
        written_out = method_name(call) == "update" and told and all(one[:1] == "'" for one in read)
        return written_out and bool(read and given) and read.isdisjoint(given)

    def _empties(self, call: cst.Call, names: set[str]) -> bool:
        """Whether an object's own method lets begin anew what it works the expression out of."""
        behind = _worked_out_of(self._index, self._flow, self._node, self._index.scope_of(call))
        return bool(behind) and empties(self._index, self._flow, call, names | behind)

    def _given_as(self, parameter: str, function: Scope, call: cst.Call, names: set[str]) -> set[str]:
        """Return the code by which a function has the parts that a call gives it as a parameter."""
        value = argument_of(function, call, parameter)
        return {parameter + rest for rest in self._behind(value, names)} if value is not None else set()

    def _filled_in(self, function: Scope, names: set[str], seen: frozenset[Scope]) -> bool:
        """Whether a function fills it, which it has under some names."""
        bound = (b for b in (*self._index.bindings, *self._index.items) if b.statement.scope is function)
        return any(self._sets(one, names) for one in bound) or any(
            self._fills(call, names, seen) for call in self._index.calls_of(function)
        )

    def _sets(self, binding: Binding, names: set[str]) -> bool:
        """Whether a statement sets a part of it: an attribute, or the item that is read, or one by another name."""
        target = cst.parse_expression(binding.target)
        if isinstance(target, cst.Attribute):
            return is_of(self._index, target.value, names)
        return isinstance(target, cst.Subscript) and is_of(self._index, target, names)


def begun_anew(index: Index, flow: Flow, place: Statement, node: cst.BaseExpression) -> Statement | None:
    """Return the first later statement of a block in which what an expression is made of begins anew, None for none.

    One in which it is filled as well counts as its making.
    """
    parts = parts_of(index, node) | _worked_out_of(index, flow, node, place.scope)
    ends = set_back(index, node)
    filled = changing(index, parts) - emptying(index, parts)
    for later in place.following:
        if any(later in one.path for one in filled):
            continue
        calls = [call for call in index.calls_in(later) if index.scope_of(call) is place.scope]
        if any(later in end.path for end in ends) or any(empties(index, flow, call, parts) for call in calls):
            return later
    return None


def _worked_out_of(index: Index, flow: Flow, node: cst.BaseExpression, scope: Scope) -> set[str]:
    """Return the attributes out of which an object's own property or method makes what an expression takes of it."""
    found: set[str] = set()
    for part in way_to_root(node):
        made_by = part.func if isinstance(part, cst.Call) else part
        if not isinstance(made_by, cst.Attribute):
            continue
        called = flow.called(part) if isinstance(part, cst.Call) and part in index.parents else None
        waiting = [called] if called is not None else flow.properties(dotted(made_by) or "", scope)
        waiting = [one for one in waiting if one.enclosing_class is not None]
        for one in waiting:
            read = [dotted(attribute) or "" for attribute in nodes_in(one.node) if isinstance(attribute, cst.Attribute)]
            own = {name.removeprefix("self.").partition(".")[0] for name in read if name.startswith("self.")}
            found |= {f"{unquoted(written(index, made_by.value))}.{name}" for name in own}
            further = [function for call in index.calls_of(one) if (function := flow.called(call)) is not None]
            waiting += [f for f in further if f.enclosing_class is one.enclosing_class and f not in waiting]
    return found


def empties(index: Index, flow: Flow, call: cst.Call, parts: set[str]) -> bool:
    """Whether a local function lets a variable begin anew, which it is given or knows, and then fills it no more."""
    function = flow.called(call)
    if function is None or function.kind != "function":
        return False
    own = {name for name in function.parameters if dotted(argument_of(function, call, name)) in parts}
    own |= {name for name in parts if flow.variable(name, function) == flow.variable(name, index.scope_of(call))}
    if function.enclosing_class is not None and (held := receiver(call)) is not None:
        before = f"{unquoted(written(index, held))}."
        own |= {f"self.{name.removeprefix(before)}" for name in parts if name.startswith(before)}
    resets = {one for one in emptying(index, own) if one.scope is function}
    filled = {one for one in changing(index, own) if one.scope is function} - resets
    return any(all(one.order > other.order for other in filled) for one in resets)


def set_back(index: Index, node: cst.BaseExpression) -> set[Statement]:
    """Return where what an expression is made of begins anew for the next turn: `loss_sum = 0`, `meter.reset()`."""
    found = emptying(index, parts_of(index, node))
    return {one for one in found if not any(mentions(later.node, [variable_of(node)]) for later in one.following)}


def emptying(index: Index, names: set[str]) -> set[Statement]:
    begun = [b for b in (*index.bindings, *index.items) if unquoted(b.target) in names]
    found = {b.statement for b in begun if begins(index, b)}
    return found | {index.statement(call) for call, held in index.method_calls(*EMPTIES) if is_of(index, held, names)}


def changing(index: Index, names: set[str]) -> set[Statement]:
    bound = {b.statement for b in (*index.bindings, *index.items) if unquoted(b.target) in names}
    return bound | {index.statement(call) for call, held in index.method_calls(*FILLS) if is_of(index, held, names)}


def begins(index: Index, binding: Binding) -> bool:
    """Whether a variable is given a number or an empty collection to begin with."""
    return isinstance(binding.value, (cst.Integer, cst.Float)) or only_begins(index, binding)
