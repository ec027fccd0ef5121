"""What the question for a score can propose where none was found."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Binding, Index, Scope, dotted, names_in
from retrofit.survey.loops import VALIDATES
from retrofit.survey.scores.best import COMPARE, class_of
from retrofit.survey.scores.inline import collected_values, told_values
from retrofit.survey.scores.keepers import measured_scores, outlives, returned_parts, ways_to
from retrofit.survey.scores.site import score_site
from retrofit.survey.scores.validation import (
    call_within,
    called_by,
    filled_items,
    is_validation,
    items_of,
    returned_values,
    validated_variables,
    validation_functions,
)
from retrofit.survey.scores.values import (
    in_loop,
    is_collection,
    is_object,
    returned_by,
    root_of,
    target_node,
    written_items,
)
from retrofit.survey.scores.words import NO_VALUE, OF_TRAINING, SEVERAL, VALIDATION_DATA, direction_of
from retrofit.survey.sites import EpochLoop


def find_hints(index: Index, loops: list[EpochLoop]) -> list[tuple[str, str]]:
    """Return (name, place) of what is compared with the best so far elsewhere than in the epoch loop itself."""
    found: dict[str, str] = {}
    for comparison in index.comparisons:
        if len(comparison.comparisons) != 1 or any(in_loop(index, loop, comparison) for loop in loops):
            continue
        left, right = comparison.left, comparison.comparisons[0].comparator
        for best, score in ((left, right), (right, left)):
            name = dotted(score)
            known = isinstance(best, (cst.Name, cst.Attribute, cst.Subscript)) and "best" in index.source.code(best)
            scope = index.scope_of(comparison)
            known = known and (any(loop.scope is scope for loop in loops) or not _searched(index, scope, root_of(best)))
            if not name or not known or NO_VALUE.search(name.rpartition(".")[2]):
                continue
            values = [b.value for b in index.bindings if b.target == index.source.code(best)]
            told = direction_of(name) or any(name in names_in(value) for value in values if value is not None)
            if told and type(comparison.comparisons[0].operator) in COMPARE:
                found.setdefault(name, index.place(comparison, loops[0].file if loops else None))
    return list(found.items())


def find_silent(index: Index, loops: list[EpochLoop]) -> list[tuple[str, str]]:
    """Return (function, place) of calls in the epoch loop that validate, by their names, and give it nothing."""
    return [
        (index.source.code(call.func), index.place(call, loop.file))
        for loop in loops
        for call in index.calls
        if call.args  # else it may be `model.eval()`
        and in_loop(index, loop, call)
        and isinstance(index.parents[call], cst.Expr)
        and VALIDATES.search((dotted(call.func) or "").rpartition(".")[2])
    ]


def find_measures(index: Index, flow: Flow, loops: list[EpochLoop]) -> list[tuple[str, str]]:
    """Return (expression, place) of what validation makes and the epoch loop does not take as a score, but can."""
    found: dict[str, str] = {}
    for loop in loops:
        known: dict[str, str] = {}
        dropped = {f: c for f, c in called_by(index, flow, loop).items() if len(c) == 1}
        dropped = {f: c for f, c in dropped.items() if isinstance(index.parents[c[0]], cst.Expr)}
        validating = validation_functions(index, flow, loop)
        functions = [f for f in dropped if f in validating and is_validation(index, f)]
        training = [f for f in dropped if f not in validating and ".eval()" in index.source.code(f.node)]
        functions = functions or training
        ways = ways_to(index, flow, loop)
        functions += [f for f, way in ways.items() if len(way) > 1 and flow.called(way[0]) in functions]
        for binding in index.bindings:
            scope, target = binding.statement.scope, re.escape(binding.target)
            if scope not in functions or not direction_of(target) or NO_VALUE.search(target):
                continue
            if isinstance(binding.value, (cst.List, cst.ListComp, cst.FormattedString, cst.SimpleString)):
                continue
            if scope in training and not VALIDATION_DATA.search(binding.target):
                continue
            meter = re.search(rf"\b{target}\.(avg|mean|global_avg)\b(?!\()", index.source.code(scope.node))
            if (
                binding.value is not None
                and not meter
                and (is_object(binding.value) or class_of(index, flow, binding.value))
            ):
                continue
            ratio = None if meter else _ratio_of(index, binding)
            around = [part.node for part in binding.statement.ancestors if part.scope is scope]
            if any(ratio is b.value and direction_of(b.target) for b in index.bindings if ratio is not None):
                continue  # it has a name
            if ratio is not None:
                known.setdefault(index.source.code(ratio), _place_in(index, ratio, loop))
            elif meter or not any(isinstance(node, (cst.For, cst.While)) for node in around) or _after_batches(binding):
                name = meter[0] if meter else binding.target
                known.setdefault(name, _place_in(index, binding.statement.node, loop))
        for part in index.items:
            scope = part.statement.scope
            if scope in training and not VALIDATION_DATA.search(part.target):
                continue
            if scope in functions and direction_of(part.target):
                known.setdefault(part.target, _place_in(index, part.statement.node, loop))
        for function in functions:
            for _, returned in [one for value in returned_by(index, function) for one in returned_parts(index, value)]:
                name = dotted(returned) or ""
                if name not in ("", "None", *known) and not any(k.startswith(f"{name}[") for k in known):
                    for shown in _numbers_in(index, function, name):
                        known[shown] = _place_in(index, returned, loop)
        for name, place in known.items():
            handed = next(measured_scores(index, flow, loop, name.removesuffix("[...]")), None)
            site = score_site(index, flow, loop, handed) if handed is not None else None
            if site is not None and site.known:
                found.setdefault(name, place)
        for binding, call in validated_variables(index, flow, loop):
            if items_of(index, flow, loop, binding, call) != []:
                continue
            items: list[tuple[str, cst.CSTNode]] = [
                (key, item)
                for value in returned_values(index, flow, call, binding.item)
                for key, item in written_items(index, value)
                if direction_of(index.source.code(item)) or direction_of(key)
            ]
            for key, filled in filled_items(index, flow, call, binding.item):
                if _of_coco(index, filled) or direction_of(key):
                    items.append((f"{key}][0" if _of_coco(index, filled) else key, filled.statement.node))
            for key, item in items:
                found.setdefault(f"{binding.target}[{key}]", index.place(item, loop.file))
            values = returned_values(index, flow, call, binding.item)
            holder = class_of(index, flow, target_node(index, binding.statement, binding.target))
            if holder is not None or any(map(is_object, values)):
                attributes: dict[str, cst.CSTNode] = {
                    b.target.replace("self", binding.target, 1): b.statement.node
                    for b in index.bindings
                    if b.target.startswith("self.") and b.statement.scope.parent is holder and direction_of(b.target)
                    if not NO_VALUE.search(b.target)
                }
                told = direction_of(binding.target) or SEVERAL.search(binding.target) or binding.item is None
                others: dict[str, cst.CSTNode] = {f"{binding.target}.ATTRIBUTE": call} if told else {}
                coco: dict[str, cst.CSTNode] = {
                    f"{b.target}[0]": b.statement.node
                    for b in index.bindings
                    if in_loop(index, loop, b.statement.node)
                    if _of_coco(index, b) and b.value is not None and root_of(b.value) == binding.target
                }
                for name, node in (coco or attributes or others).items():
                    found.setdefault(name, index.place(node, loop.file))
            elif not items:
                found.setdefault(f"{binding.target}[...]", index.place(call, loop.file))
        for name, average in collected_values(index, loop):
            if any(b.value is average and direction_of(b.target) for b in index.bindings):
                continue  # it has a better name
            found.setdefault(name, index.place(average, loop.file))
        for binding in _of_each_set(index, flow, loop) if not found else ():
            found.setdefault(binding.target, index.place(binding.statement.node, loop.file))
        if all(name.endswith("[...]") for name in found):
            validated = {binding.target for binding, _ in validated_variables(index, flow, loop)}
            logged = {name: index.place(node, loop.file) for name, node in told_values(index, loop, validated)}
            found = logged or found
    return [(name, place) for name, place in found.items() if not OF_TRAINING.search(name)] or list(found.items())


def _of_each_set(index: Index, flow: Flow, loop: EpochLoop) -> Iterator[Binding]:
    """Yield what a validation gives for each of several sets of data: `for name in names: cmc, mAP = test(name)`."""
    for binding in index.bindings:
        call = call_within(binding.value)
        function = flow.called(call) if call is not None and in_loop(index, loop, call) else None
        if function is None or not direction_of(binding.target) or not is_validation(index, function):
            continue
        around = [part for part in binding.statement.ancestors if isinstance(part.node, cst.For)]
        passes = any(part.scope is function for part in index.loops)
        if passes and around and around[0] is not loop.statement and around[0] not in loop.inner:
            yield binding


def _place_in(index: Index, node: cst.CSTNode, loop: EpochLoop) -> str:
    """Return "line N in `function`" as messages print it."""
    return f"{index.place(node, loop.file)} in `{index.scope_of(node).name}`"


def _of_coco(index: Index, binding: Binding) -> bool:
    """Whether a variable or item gets what pycocotools computes, of which the first number is the average precision."""
    return (
        binding.value is not None
        and re.search(r"\.stats(\.tolist\(\))?$", index.source.code(binding.value)) is not None
    )


def _searched(index: Index, function: Scope, best: str) -> bool:
    """Whether a function looks for the best of what it goes through itself, from a constant on: for a threshold."""
    values = [b.value for b in index.bindings if b.target == best and b.statement.scope is function]
    constants = (cst.Integer, cst.Float, cst.UnaryOperation)
    return not outlives(function, best) and any(isinstance(value, constants) for value in values)


def _numbers_in(index: Index, function: Scope, name: str) -> list[str]:
    """Return how the numbers in a function's variable are written, `name[...]` for unknown ones of a collection."""
    values = [b.value for b in index.bindings if b.target == name and b.statement.scope is function]
    items = [item for value in values if value is not None for item in written_items(index, value)]
    told = [f"{name}[{key}]" for key, item in items if direction_of(key) or direction_of(index.source.code(item))]
    several = any(value is not None and is_collection(index, value) for value in values)
    return told or [f"{name}[...]" if several else name]


def _after_batches(binding: Binding) -> bool:
    """Whether a value is made after a loop in the same block, as in a validation of several sets of data."""
    return any(isinstance(early.node, cst.For) for early in binding.statement.preceding)


def _ratio_of(index: Index, binding: Binding) -> cst.BinaryOperation | None:
    """Return the `100 * correct / total` that a function makes of a count, None where it makes none."""
    ratios = [
        node
        for node in index.parents
        if isinstance(node, cst.BinaryOperation)
        and isinstance(node.operator, cst.Divide)
        and index.scope_of(node) is binding.statement.scope
        and binding.target in names_in(node.left, called=False)
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
