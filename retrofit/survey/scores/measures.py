"""What the question for a score can propose where none was found."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import libcst as cst

from retrofit.survey.arguments import is_namespace
from retrofit.survey.clocks import tells_time
from retrofit.survey.counters import changes
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import VALIDATES
from retrofit.survey.nodes import dotted, key_of, last_name, mentions, method_name, names_in, nodes_in, receiver
from retrofit.survey.scopes import Binding, Scope
from retrofit.survey.scores.begun import begins
from retrofit.survey.scores.best import COMPARE, class_of, tracked_scores
from retrofit.survey.scores.given import STEPS_SCHEDULER
from retrofit.survey.scores.handed_on import is_handed_on
from retrofit.survey.scores.inline import collected_values, told_values
from retrofit.survey.scores.keepers import led_to_once, outlives, returned_parts
from retrofit.survey.scores.kinds import SEVERAL as SEVERAL_VALUES
from retrofit.survey.scores.kinds import TEXT, Kinds
from retrofit.survey.scores.making import TRAINED, Making, is_validation, without_gradients
from retrofit.survey.scores.namesakes import namesakes
from retrofit.survey.scores.site import brought
from retrofit.survey.scores.told import Told, numbers_in
from retrofit.survey.scores.validation import (
    call_within,
    called_by,
    filled_items,
    items_of,
    returned_values,
    validated_variables,
    validation_functions,
)
from retrofit.survey.scores.values import (
    bare_of,
    code_of,
    element_of,
    formatted,
    in_loop,
    is_object,
    is_set_by_variable,
    root_of,
    target_node,
    without_margin,
    written_items,
)
from retrofit.survey.scores.words import AVERAGES, NO_VALUE, OF_TRAINING, SEVERAL, VALIDATION_DATA, direction_of
from retrofit.survey.sites.loop import EpochLoop

_AVERAGES = ("avg", "mean", "global_avg")
_NO_NUMBERS = (cst.List, cst.ListComp, cst.BaseString)


def find_hints(index: Index, loops: list[EpochLoop]) -> list[tuple[str, cst.Comparison]]:
    """Return the names of what is compared with the best so far elsewhere than in the epoch loop itself, and where."""
    found: dict[str, cst.Comparison] = {}
    for comparison in index.comparisons:
        if len(comparison.comparisons) != 1 or any(in_loop(index, loop, comparison) for loop in loops):
            continue
        left, right = comparison.left, comparison.comparisons[0].comparator
        for limit, score in ((left, right), (right, left)):
            best, name = without_margin(limit), dotted(score)
            known = isinstance(best, (cst.Name, cst.Attribute, cst.Subscript)) and "best" in index.source.code(best)
            scope = index.scope_of(comparison)
            known = known and (any(loop.scope is scope for loop in loops) or not _searched(index, scope, root_of(best)))
            if not name or not known or NO_VALUE.search(name.rpartition(".")[2]):
                continue
            values = [b.value for b in index.bindings if b.target == index.source.code(best)]
            told = direction_of(name) or any(name in names_in(value) for value in values if value is not None)
            if told and type(comparison.comparisons[0].operator) in COMPARE:
                found.setdefault(name, comparison)
    return list(found.items())


def find_taken(
    index: Index, flow: Flow, loops: list[EpochLoop], name: str, hint: cst.Comparison
) -> Iterator[tuple[str, str]]:
    """Yield (name, place) of what takes, in the epoch loop, the value of a hint that its function returns."""
    function = index.scope_of(hint)
    values = index.returned(function) if isinstance(function.node, cst.FunctionDef) else []
    for loop in loops:
        for bound in index.bindings:
            if isinstance(bound.value, cst.Call) and in_loop(index, loop, bound.statement.node):
                parts = [element_of(one, bound.item) for one in values]
                returned = any(one is not None and dotted(one) == name for one in parts)
                if returned and flow.called(bound.value) is function:
                    yield bound.target, index.place(bound.statement.node, loop.file)


def find_silent(index: Index, flow: Flow, loops: list[EpochLoop]) -> list[tuple[str, str]]:
    """Return (function, place) of calls in the epoch loop that validate, by names or flags, and give it nothing."""
    found = []
    for loop in loops:
        making = Making(index, flow, loop)
        dropped = [
            c for c in index.calls if isinstance(index.parents[c], cst.Expr) and in_loop(index, loop, c) and c.args
        ]
        for call in dropped:  # without arguments it may be `model.eval()`
            if VALIDATES.search(last_name(call.func)) or making.rules_training_out(call):
                found.append((index.source.code(call.func), index.place(call, loop.file)))
    return found


def find_measures(index: Index, flow: Flow, loops: list[EpochLoop]) -> list[tuple[str, str]]:
    """Return (expression, place) of what validation makes and the epoch loop does not take as a score, but can."""
    found: dict[str, str] = {}
    for loop in loops:
        for name, place in _Dropped(index, flow, loop).measures():
            found.setdefault(name, place)
        for name, node in _taken(index, flow, loop):
            nameless = name.isidentifier() and isinstance(node, cst.BaseExpression)
            shown = f": {index.source.code(node)}" if nameless else ""
            found.setdefault(name, index.place(node, loop.file) + shown)
        making = Making(index, flow, loop)
        for name, average in collected_values(index, loop, making):
            if not any(
                b.value is average and direction_of(b.target) for b in index.bindings
            ):  # else it has a better name
                found.setdefault(name, index.place(average, loop.file))
        for name, place in _of_each_set(index, flow, loop) if not found else ():
            found.setdefault(name, place)
        if all(name.endswith("[...]") for name in found):
            kinds = Kinds(index, flow, loop)
            validated = {b.target for b, _ in validated_variables(index, flow, loop) if not kinds.is_mute(b)}
            told = [one for one in told_values(index, loop, making, validated) if not kinds.of(one[1])[0]]
            logged = {name: index.place(node, loop.file) for name, node in told if making.of(node) != TRAINED}
            found = logged or found
    return [(name, place) for name, place in found.items() if not OF_TRAINING.search(name)]


class _Dropped:
    """What the functions measure that the epoch loop calls, without taking what they return."""

    def __init__(self, index: Index, flow: Flow, loop: EpochLoop) -> None:
        self._index = index
        self._flow = flow
        self._loop = loop
        calls = {f: c[0] for f, c in called_by(index, flow, loop).items() if len(c) == 1}
        dropped = [f for f, call in calls.items() if isinstance(index.parents[call], cst.Expr)]
        validating = validation_functions(index, flow, loop)
        self._functions = [f for f in dropped if f in validating and is_validation(index, f)]
        #: Of these only what is told to be of validation counts.
        evaluates = {index.scope_of(call) for call, _ in index.method_calls("eval")}
        evaluates |= {
            turns.scope for turns in index.loops if any(without_gradients(index, p.node) for p in turns.around)
        }
        self._training = [f for f in dropped if f not in validating and f in evaluates]
        self._functions = self._functions or self._training[:]
        for function, (first, *inner) in led_to_once(index, flow, loop).items():
            outer = flow.called(first)
            dropped_all = all(isinstance(index.parents[call], cst.Expr) for call in inner)
            behind = [one for one in map(flow.called, inner) if one is not None and dropped_all]
            validates = outer in dropped and any(is_validation(index, one) for one in behind)
            self._functions += [function] if behind and (outer in self._functions or validates) else []
            self._training += [function] if behind and outer in self._training and not validates else []
        #: What validates and returns no number.
        kinds = Kinds(index, flow, loop)
        mute = [call for binding, call in validated_variables(index, flow, loop) if kinds.is_mute(binding)]
        self._mute = [f for f in map(flow.called, mute) if f is not None]

    def measures(self) -> Iterator[tuple[str, str]]:
        """Yield (expression, place) of what can be handed over."""
        known: dict[str, cst.CSTNode] = {}
        for name, node in chain(self._variables(), self._items(), self._returned(), self._stepped()):
            known.setdefault(name, node)
        told = Told(self._index, self._flow, self._loop)
        plain = all(self._is_sum(name, node) for name, node in known.items())
        for function in [*self._mute, *(self._functions if plain else [])]:
            for name, node in told.by(function):
                known.setdefault(f"{function.name}:{name}", node)
        index, flow, loop = self._index, self._flow, self._loop
        for name, node in known.items():
            bound = index.bound([name.rpartition(":")[2]], index.scope_of(node))
            if any(b.value is not None and tells_time(b.value, flow) for b in bound):
                continue
            if bound and all(self._is_cut(b) or self._is_option(b) for b in bound):
                continue
            site, function = brought(index, flow, loop, name.removesuffix("[...]"), node), index.scope_of(node)
            others = namesakes(index, flow, loop, name, function, site) if site is not None else []
            if site is not None:
                yield f"{function.name}:{name}" if others else name, _place_in(index, node, loop)
            for other in others:
                where = index.bound([name], other)[0].statement.node
                if brought(index, flow, loop, f"{other.name}:{name}", where) is not None:
                    yield f"{other.name}:{name}", _place_in(index, where, loop)

    def _is_sum(self, name: str, node: cst.CSTNode) -> bool:
        """Whether a variable is only added to, so that what is made of it may be told elsewhere."""
        bound = self._index.bound([name], self._index.scope_of(node))
        return bool(bound) and all(changes(one) or isinstance(one.value, (cst.Integer, cst.Float)) for one in bound)

    def _counts(self, target: str, scope: Scope) -> bool:
        if scope not in self._functions or not direction_of(target):
            return False
        return scope not in self._training or VALIDATION_DATA.search(target) is not None

    def _variables(self) -> Iterator[tuple[str, cst.CSTNode]]:
        index = self._index
        bests = {(f, c.holder) for f in self._functions for c in tracked_scores(index, code_of(index, f))}
        for binding in index.bindings:
            scope, target, value = binding.statement.scope, binding.target, binding.value
            if (scope, target) in bests and outlives(scope, target):  # the best so far, which never falls
                continue
            if not self._counts(target, scope) or NO_VALUE.search(target) or isinstance(value, _NO_NUMBERS):
                continue
            meter = self._average_of(target, scope)
            if value is not None and not meter and (is_object(index, value) or class_of(index, self._flow, value)):
                continue
            ratio, whole = None if meter else _ratio_of(index, binding), bare_of(value) if value is not None else None
            if ratio is not None and ratio is not whole:  # else the sum's own name is that of its mean
                named = [b for b in index.bindings if direction_of(b.target) and b.value is not None]
                kept = [one for one in index.items if one.value is not None and bare_of(one.value) is ratio]
                if kept and mentions(
                    ratio, [kept[0].target.partition("[")[0]]
                ):  # it stands there in the place of the sum
                    yield kept[0].target, kept[0].statement.node
                elif not any(ratio is bare_of(b.value) for b in named if b.value is not None):  # else it has a name
                    yield index.source.code(ratio), ratio
                continue
            if meter or not _in_turns(binding) or _after_batches(binding):
                yield meter or self._mean_of(binding) or target, binding.statement.node

    def _stepped(self) -> Iterator[tuple[str, cst.CSTNode]]:
        """Yield the variables that a scheduler is given, perhaps by a function between, whatever they are called."""
        steps = [call for call in self._index.calls if call.args and STEPS_SCHEDULER.search(dotted(call.func) or "")]
        waiting = [(call.args[0].value, self._index.scope_of(call)) for call in steps]
        for value, scope in waiting:
            if isinstance(value, cst.Name) and value.value in scope.parameters:
                given = self._flow.sources((scope, value.value))
                waiting += [(one.value, one.scope) for one in given if one.value is not None and one.scope is not scope]
            elif isinstance(value, cst.Name) and scope in self._functions:
                yield value.value, value

    def _average_of(self, meter: str, scope: Scope) -> str:
        """Return the attribute of a meter that a function reads as its average, "" where it reads none."""
        for node in self._index.nodes_of(cst.Attribute):
            parent = self._index.parents[node]
            called = isinstance(parent, cst.Call) and parent.func is node
            read = node.attr.value in _AVERAGES and dotted(node.value) == meter and not called
            if read and self._index.scope_of(node) is scope:
                return f"{meter}.{node.attr.value}"
        return ""

    def _mean_of(self, binding: Binding) -> str:
        """Return the call by which a function takes the mean of what may be several, as of an error at each place."""
        for call, held in self._index.method_calls("mean"):
            here = self._index.statement(call)
            read = dotted(held) == binding.target and not call.args and here.order > binding.statement.order
            if read and here.scope is binding.statement.scope:
                return f"{binding.target}.mean()"
        return ""

    def _is_cut(self, binding: Binding) -> bool:
        """Whether what a variable is given is a part of several, or such a part is taken or set later."""
        cut = [one for one in self._index.nodes_of(cst.Slice) if self._index.scope_of(one) is binding.statement.scope]
        around = [next(a for a in self._index.ancestors(one) if isinstance(a, cst.Subscript)) for one in cut]
        return any(
            whole is binding.value
            or (dotted(whole.value) == binding.target and self._index.statement(whole).order > binding.statement.order)
            for whole in around
        )

    def _is_option(self, binding: Binding) -> bool:
        """Whether a value is an option of the command line, which nothing changes."""
        value = binding.value
        if not isinstance(value, cst.Attribute):
            return False
        made = self._flow.deep_origins(value.value, binding.statement.scope)
        given = any("." in b.target and b.target.rpartition(".")[2] == value.attr.value for b in self._index.bindings)
        return bool(made) and not given and all(is_namespace(one.node, self._flow) for one in made)

    def _items(self) -> Iterator[tuple[str, cst.CSTNode]]:
        for item in self._index.items:
            known, scope = key_of(cst.parse_expression(item.target)) is not None, item.statement.scope
            if known and self._counts(item.target, scope) and not _is_of_a_batch(item):
                yield item.target, item.statement.node
            elif is_set_by_variable(item) and changes(item) and scope in self._functions:
                yield f"{item.target.partition('[')[0]}[...]", item.statement.node

    def _returned(self) -> Iterator[tuple[str, cst.CSTNode]]:
        index = self._index
        named = {name for name, _ in chain(self._variables(), self._items())}
        for function in self._functions:
            parts = [one for value in index.returned(function) for one in returned_parts(index, value)]
            for _, value in parts:
                name = dotted(value) or ""
                if function in self._training and not self._counts(name, function):
                    continue
                if name not in ("", "None", *named) and not any(one.startswith(f"{name}[") for one in named):
                    shown = numbers_in(index, self._flow, function, name)
                    named |= set(shown)
                    yield from ((one, value) for one in shown)


def _taken(index: Index, flow: Flow, loop: EpochLoop) -> Iterator[tuple[str, cst.CSTNode]]:
    """Yield (expression, node) of what may be in the variables that get what validation returns."""
    kinds, making = Kinds(index, flow, loop), Making(index, flow, loop)
    for binding, call in validated_variables(index, flow, loop):
        node = target_node(index, binding.statement, binding.target)
        whole = kinds.of(node)[0] not in ("", SEVERAL_VALUES)
        numbers = items_of(index, flow, loop, binding, call)
        known = numbers is None or any(kinds.of(one)[0] != TEXT for one in numbers)
        if kinds.is_mute(binding) or making.of(node) == TRAINED:
            continue
        values = returned_values(index, flow, call, binding.item)
        if known and not whole:
            if binding.item is not None and not direction_of(binding.target):  # else it is a candidate by its name
                parts = [element_of(value, binding.item) for value in index.returned(flow.called(call))]
                shown = [one for one in [*parts, *values] if one is not None]
                yield from ((binding.target, one) for one in shown if direction_of(index.source.code(one)))
            continue
        items: list[tuple[str, cst.CSTNode]] = [
            (key, item)
            for value in values
            for key, item in written_items(index, value)
            if direction_of(index.source.code(item)) or direction_of(key)
        ]
        given = filled_items(index, flow, call, binding.item)
        handed_on = [filled for _, filled in given if is_handed_on(index, filled)]
        for key, filled in given:
            if _of_coco(filled) or (direction_of(key) and filled not in handed_on):
                items.append((f"{key}][0" if _of_coco(filled) else key, filled.statement.node))
        yield from ((f"{binding.target}[{key}]", item) for key, item in items)
        holder = class_of(index, flow, node)
        if holder is not None or whole or any(is_object(index, one) for one in values):
            yield from _parts_of(index, loop, binding, call, holder)
        elif not items and not handed_on:
            yield f"{binding.target}[...]", call


def _parts_of(
    index: Index, loop: EpochLoop, binding: Binding, call: cst.Call, holder: Scope | None
) -> Iterator[tuple[str, cst.CSTNode]]:
    """Yield what may be the score of an object that validation returns."""
    coco: dict[str, cst.CSTNode] = {
        f"{b.target}[0]": b.statement.node
        for b in index.bindings
        if in_loop(index, loop, b.statement.node)
        if _of_coco(b) and b.value is not None and root_of(b.value) == binding.target
    }
    parts = coco or {**dict(_numbers_of(index, loop, binding, holder)), **dict(_made_of(index, loop, binding))}
    told = direction_of(binding.target) or SEVERAL.search(binding.target) or binding.item is None
    yield from (parts or ({f"{binding.target}.ATTRIBUTE": call} if told else {})).items()


def _made_of(index: Index, loop: EpochLoop, whole: Binding) -> Iterator[tuple[str, cst.CSTNode]]:
    """Yield the variables, named as measures are, that the loop makes of an object: `acc, iou = matrix.compute()`."""
    made = {whole.target}
    for one in index.bindings:
        later = one.statement.order > whole.statement.order and in_loop(index, loop, one.statement.node)
        if later and one.value is not None and root_of(one.value) in made:
            made.add(one.target)
            if direction_of(one.target):
                yield one.target, one.statement.node


def _numbers_of(
    index: Index, loop: EpochLoop, binding: Binding, holder: Scope | None
) -> Iterator[tuple[str, cst.CSTNode]]:
    """Yield what of an object may be a number: by its name, as its class makes it, or as the loop reads it."""
    for attribute in index.attributes:
        if dotted(attribute.value) == binding.target and in_loop(index, loop, attribute):
            call = index.parents[attribute]
            method = holder.inner.get(attribute.attr.value) if holder is not None else None
            if not isinstance(call, cst.Call) or call.func is not attribute:
                yield index.source.code(attribute), attribute
            elif not call.args and attribute.attr.value in AVERAGES and method is None:
                yield index.source.code(call), call
    members = [(b.target, b.statement) for b in index.bindings]
    members += [(dotted(one.target) or "", index.statement(one)) for one in index.nodes_of(cst.AnnAssign)]
    for target, at in members if holder is not None else ():
        own = target.removeprefix("self.")
        of_class = at.scope.parent is holder if own != target else at.scope is holder
        if of_class and direction_of(own) and not NO_VALUE.search(own):
            yield f"{binding.target}.{own}", at.node
    for method in holder.inner.values() if holder is not None else ():
        plain = method.kind == "function" and len(method.parameters) == 1
        leaving = [one for one in nodes_in(method.node) if isinstance(one, cst.Return)] if plain else []
        values = [one.value for one in leaving if one.value is not None]  # also of one that nothing calls
        items = values and all(isinstance(value, (cst.Dict, cst.DictComp)) for value in values)
        counted = all(isinstance(value, cst.BinaryOperation) and not formatted(value) for value in values)
        if values and (items or counted):
            marks = [last_name(one.decorator) for one in getattr(method.node, "decorators", ())]
            called = "" if any("property" in mark for mark in marks) else "()"
            yield f"{binding.target}.{method.name}{called}{'[...]' if items else ''}", method.node


def _of_each_set(index: Index, flow: Flow, loop: EpochLoop) -> Iterator[tuple[str, str]]:
    """Yield (expression, place) of what a validation gives for each of several sets: `for one in sets: test(one)`."""
    for binding in (*index.bindings, *index.items):
        call = call_within(binding.value)
        function = flow.called(call) if call is not None and in_loop(index, loop, call) else None
        name, item, _ = binding.target.partition("[")
        if function is None or not (item or direction_of(name)) or not is_validation(index, function):
            continue
        around = [part for part in binding.statement.ancestors if isinstance(part.node, cst.For)]
        passes = any(part.scope is function for part in index.loops)
        if passes and around and around[0] is not loop.statement and around[0] not in loop.inner:
            place = index.place(binding.statement.node, loop.file)
            yield (f"{name}[...]", place) if item else (name, f"{place}, of the last turn alone")


def _place_in(index: Index, node: cst.CSTNode, loop: EpochLoop) -> str:
    """Return "line N in `function`" as messages print it."""
    return f"{index.place(node, loop.file)} in `{index.scope_of(node).name}`"


def _of_coco(binding: Binding) -> bool:
    """Whether a variable or item gets what pycocotools computes, of which the first number is the average precision."""
    value = binding.value
    value = receiver(value) if method_name(value) == "tolist" else value
    return isinstance(value, cst.Attribute) and value.attr.value == "stats"


def _searched(index: Index, function: Scope, best: str) -> bool:
    """Whether a function looks for the best of what it goes through itself, from nothing on: for a threshold."""
    values = [b.value for b in index.bound([best], function) if b.value is not None]
    constants = (cst.Integer, cst.Float, cst.UnaryOperation)
    return not outlives(function, best) and any(
        isinstance(one, constants) or dotted(one) == "None" or begins(index.source.code(one)) for one in values
    )


def _in_turns(binding: Binding) -> bool:
    """Whether a value is made in a loop of its function."""
    here = binding.statement
    return any(isinstance(part.node, (cst.For, cst.While)) for part in here.ancestors if part.scope is here.scope)


def _is_of_a_batch(item: Binding) -> bool:
    """Whether an item is set anew in each turn of a loop, and so is the last batch's when that is over."""
    held = item.target.partition("[")[0]
    adds = changes(item) or (item.value is not None and mentions(item.value, [held]))
    return _in_turns(item) and not adds and not _after_batches(item)


def _after_batches(binding: Binding) -> bool:
    """Whether a value is made after a loop in the same block, as in a validation of several sets of data."""
    return any(isinstance(early.node, cst.For) for early in binding.statement.preceding)


def _ratio_of(index: Index, binding: Binding) -> cst.BinaryOperation | None:
    """Return the `100 * correct / total` that a function makes of a count, None where it makes none.

    What a running mean is made of, `mean += (loss - mean) / (i + 1)`, is none of these.
    """
    running = [b.statement for b in index.bound([binding.target], binding.statement.scope) if _in_turns(b)]
    ratios = [
        node
        for node in index.parents
        if isinstance(node, cst.BinaryOperation)
        and isinstance(node.operator, cst.Divide)
        and index.scope_of(node) is binding.statement.scope
        and binding.target in names_in(node.left, called=False)
        and index.statement(node) not in running
    ]
    if not ratios:
        return None
    around = {node: [part.node for part in index.statement(node).ancestors] for node in ratios}
    whole = [node for node in ratios if not any(isinstance(part, (cst.For, cst.While)) for part in around[node])]
    ratios = whole or ratios
    found: cst.BinaryOperation = ratios[0]
    while isinstance(outer := index.parents[found], cst.BinaryOperation):
        if not isinstance(outer.operator, (cst.Divide, cst.Multiply)):
            break
        found = outer
    return found
