"""The functions that validate, and what the epoch loop gets of what they return."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from retrofit.survey.conditions import never_runs, rules_out
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import VALIDATES
from retrofit.survey.nodes import dotted, last_name, method_name, names_in, nodes_in, receiver
from retrofit.survey.order import leaves_loop
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.scores.kinds import Kinds
from retrofit.survey.scores.makers import reaching_makers
from retrofit.survey.scores.making import TRAINED, Making, is_validation
from retrofit.survey.scores.values import (
    bare_of,
    bindings_of,
    code_of,
    code_within,
    element_of,
    in_loop,
    is_collection,
    is_object,
    mean_of,
    of_phases,
    part_of,
    root_of,
    taken_by_turn,
    target_node,
    trains,
)
from retrofit.survey.scores.words import AVERAGED, BEST, NAMES, NO_SCORE, SEVERAL, Candidate, direction_of, told_by_name
from retrofit.survey.sites.loop import EpochLoop


def validation_functions(index: Index, flow: Flow, loop: EpochLoop) -> dict[Scope, list[cst.Call]]:
    """Return the functions that the epoch loop itself calls and that do not train, with their calls.

    Those of them that are given an average of the model do not count where another one is.
    """
    found = called_by(index, flow, loop)
    found = {f: calls for f, calls in found.items() if not trains(index, f)}
    own = {f: [c for c in calls if not any(map(_averaged, c.args))] for f, calls in found.items()}
    return {f: own[f] or calls for f, calls in found.items()}


def _averaged(arg: cst.Arg) -> bool:
    return any(AVERAGED.search(name) for name in names_in(arg.value, called=False))


def called_by(index: Index, flow: Flow, loop: EpochLoop) -> dict[Scope, list[cst.Call]]:
    """Return the functions that the epoch loop itself calls, with their calls, but for those that never run.

    One after which the loop is over, such as a last test, does not count where another one is.
    """
    found: dict[Scope, list[cst.Call]] = {}
    for call in index.calls:
        function = flow.called(call) if in_loop(index, loop, call) else None
        own = function is not None and not is_of_optimizer(flow, function)
        if function is not None and own and not never_runs(index.statement(call), flow):
            found.setdefault(function, []).append(call)
    going_on = {f: [call for call in calls if not _is_last(index, loop, call)] for f, calls in found.items()}
    return {f: going_on[f] or calls for f, calls in found.items()}


def is_of_optimizer(flow: Flow, function: Scope) -> bool:
    """Whether a function is a method of one of the project's own optimizers, which measures nothing."""
    owner = function.enclosing_class
    return owner is not None and flow.root(owner).startswith("torch.optim.")


def _is_last(index: Index, loop: EpochLoop, call: cst.Call) -> bool:
    """Whether the epoch loop is left after a call of its own."""
    here = index.statement(call)
    within = here.path[here.path.index(loop.statement) + 1 :]
    return leaves_loop(here) and not any(isinstance(part.node, (cst.For, cst.While)) for part in within)


def validates_there(index: Index, flow: Flow, node: cst.BaseExpression) -> bool:
    """Whether an expression calls a validation where it stands, which it would do again elsewhere."""
    calls = [part for part in nodes_in(node, cst.Lambda) if isinstance(part, cst.Call) and part in index.parents]
    functions = [function for call in calls if (function := flow.called(call)) is not None]
    return any(is_validation(index, function) for function in functions)


def runs_with_its_statement(index: Index, node: cst.CSTNode) -> bool:
    """Whether an expression that gets no name is evaluated whenever its statement is."""
    stops = (cst.IfExp, cst.BooleanOperation, cst.BaseComp, cst.Lambda, cst.NamedExpr, cst.Return, cst.BaseStatement)
    around = next(one for one in index.ancestors(node) if isinstance(one, stops) or _is_chained(index, one))
    simple = isinstance(around, (cst.If, cst.SimpleStatementLine)) and around is index.statement(node).node
    return simple and not isinstance(index.parents[node], (cst.Assign, cst.AnnAssign, cst.AugAssign))


def _is_chained(index: Index, node: cst.CSTNode) -> bool:
    """Whether a side of a comparison is evaluated only where the ones before it hold: the `c` of `a < b < c`."""
    whole = index.parents[node]
    return isinstance(whole, cst.Comparison) and node in whole.comparisons[1:]


def may_be_taken(index: Index, flow: Flow, node: cst.BaseExpression) -> bool:
    """Whether a score can be handed over without validating once more: by its name, or from where it is made."""
    return not validates_there(index, flow, node) or runs_with_its_statement(index, node)


def validated_variables(index: Index, flow: Flow, loop: EpochLoop) -> Iterator[tuple[Binding, cst.Call]]:
    """Yield the variables of the loop that hold what a validation function returns, with its call.

    What a function makes of a batch's training without gradients, such as the strength of an augmentation, is none
    where its name tells of no score.
    """
    training, making = {one.scope for one in loop.training}, None
    for binding in index.bindings:
        call = call_within(binding.value)
        if call is None or not in_loop(index, loop, binding.statement.node):
            continue
        name = last_name(call.func)
        function = flow.called(call)
        turns = [*loop.inner, *([loop.statement] if loop.by_iteration else [])]
        batches = [part for part in binding.statement.ancestors if part in turns]
        every = batches and not under_condition(binding.statement, batches[0])
        named = VALIDATES.search(name) is not None
        told = named or not batches or direction_of(binding.target)
        own = function is not None and not every and is_validation(index, function)
        if function in training and not (own or every):
            making = making or Making(index, flow, loop)
            own = making.rules_training_out(call)
        validates = named or (own and (told or not _tunes(index, flow, loop, call, binding.statement)))
        moded = method_name(call) == "eval" and not call.args
        plain = "." not in binding.target and binding.target != "_" and not NAMES.search(binding.target)
        score = direction_of(binding.target) or not NO_SCORE.search(binding.target)
        part = isinstance(bare_of(binding.value or call), cst.Subscript) and not direction_of(binding.target)
        if _only_tests(index, call, function) or (
            part and re.match(r"_?(make|get|build|create|load|init|setup)", name)
        ):
            continue
        if validates and not moded and plain and score and not of_batches(index, loop, binding.statement):
            yield binding, call


def call_within(value: cst.BaseExpression | None) -> cst.Call | None:
    """Return the call whose value, or a part of it, an expression is: `evaluate(net)["acc"]`, `evaluate(net).cpu()`."""
    value = bare_of(value) if value is not None else None
    while isinstance(value, (cst.Subscript, cst.Call)):
        if isinstance(value, cst.Subscript):
            value = value.value
        elif method_name(value) in ("to", "cpu", "cuda", "numpy", "item"):
            value = receiver(value)
        else:
            return value
    return None


def _tunes(index: Index, flow: Flow, loop: EpochLoop, call: cst.Call, at: Statement) -> bool:
    """Whether a call is given what the training makes."""
    making = Making(index, flow, loop)
    return any(making.made_at(arg.value, at) == TRAINED for arg in call.args)


def _only_tests(index: Index, call: cst.Call, function: Scope | None) -> bool:
    """Whether a call tells whether something holds, as a function's name or all that it returns shows."""
    returned = index.returned(function)
    if returned:
        return all(_is_condition(index, value) for value in returned)
    return re.match(r"_?(is|has|should|needs?|can|must)_", last_name(call.func)) is not None


def _is_condition(index: Index, value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.BooleanOperation):
        return _is_condition(index, value.left) and _is_condition(index, value.right)
    negated = isinstance(value, cst.UnaryOperation) and isinstance(value.operator, cst.Not)
    called = dotted(value.func) if isinstance(value, cst.Call) else ""
    named = dotted(value) in ("True", "False") or called in ("bool", "any", "all", "isinstance", "hasattr")
    return negated or named or isinstance(value, cst.Comparison)


def under_condition(statement: Statement, outer: Statement) -> bool:
    return any(isinstance(part.node, cst.If) for part in statement.path[statement.path.index(outer) + 1 :])


def of_batches(index: Index, loop: EpochLoop, statement: Statement) -> bool:
    """Whether a statement is run for one batch after the other, or for several sets of data, of one validation."""
    inner = statement.path[statement.path.index(loop.statement) + 1 : -1]
    return any(
        isinstance(part.node, (cst.For, cst.While)) and part not in loop.inner and not of_phases(index, part.node)
        for part in inner
    )


def returned_values(index: Index, flow: Flow, call: cst.Call, item: int | None) -> list[cst.BaseExpression]:
    """Return what a local function visibly returns by a call, its names followed to what they are given."""
    function = flow.called(call)
    found = []
    for value in (one for one in index.returned(function) if not rules_out(index.statement(one), call, flow)):
        element = element_of(value, item)
        if isinstance(element, cst.Name):
            found += [
                b.value
                for b in index.bindings
                if b.statement.scope is function and b.target == element.value and b.item is None
            ]
        else:
            found.append(element)
    return [value for value in found if value is not None]


def filled_items(index: Index, flow: Flow, call: cst.Call, item: int | None) -> list[tuple[str, Binding]]:
    """Return the codes of the keys under which a local function fills what a call gives, with where it does."""
    function = flow.called(call)
    names = {dotted(element_of(value, item)) for value in index.returned(function)} - {None}
    filled = [b for b in index.items if b.statement.scope is function and not rules_out(b.statement, call, flow)]
    found = [(b.target.partition("["), b) for b in filled]
    return [(key[:-1], b) for (name, _, key), b in found if name in names and re.fullmatch(r"(['\"])[^'\"]+\1\]", key)]


def items_of(
    index: Index, flow: Flow, loop: EpochLoop, binding: Binding, call: cst.Call
) -> list[cst.BaseExpression] | None:
    """Return the numbers that the loop takes out of what a call returns, each once; None where that is one itself.

    What it only asks whether it holds is no number: `if stats["early_stop"]`.
    """
    if isinstance(bare_of(binding.value or call), cst.Subscript):
        return None
    found: dict[str, cst.Subscript] = {}
    means: dict[str, cst.BaseExpression] = {}
    values = returned_values(index, flow, call, binding.item)
    several = any(is_collection(index, value) or is_object(index, value) for value in values)
    makers = [b.statement for b in bindings_of(index, loop, binding.target)]
    for node, parent in index.parents.items():
        if not isinstance(node, cst.Name) or node.value != binding.target or not in_loop(index, loop, node):
            continue
        if binding.statement not in reaching_makers(index.statement(node), makers)[0]:
            continue
        if isinstance(parent, cst.Subscript) and parent.value is node:
            around = index.parents[parent]
            set_here = isinstance(around, (cst.AssignTarget, cst.AugAssign))
            asked = isinstance(around, (cst.If, cst.While, cst.BooleanOperation))
            asked |= isinstance(around, cst.UnaryOperation) and isinstance(around.operator, cst.Not)
            single = all(isinstance(element.slice, cst.Index) for element in parent.slice)
            if not (set_here or asked) and single and not taken_by_turn(index, code_of(index, loop), parent):
                found.setdefault(index.source.code(parent), parent)
            several = True
        unpacked = isinstance(parent, (cst.StarredDictElement, cst.StarredElement))
        unpacked = unpacked or (isinstance(parent, cst.Arg) and bool(parent.star))
        gone_through = isinstance(parent, cst.Attribute) and parent.attr.value in ("items", "keys", "values")
        several = several or unpacked or gone_through
        taken = parent if isinstance(parent, cst.Subscript) and parent.value is node else node
        mean = mean_of(index, taken)
        if mean is not None:
            means.setdefault(index.source.code(taken), mean)
    numbers_made = any(isinstance(value, (cst.BinaryOperation, cst.Integer, cst.Float)) for value in values)
    several = several or (not numbers_made and SEVERAL.search(binding.target) is not None)
    if binding.target in means:
        return [means[binding.target]]
    numbers: list[cst.BaseExpression] = []
    for code, item in found.items():
        parts = [part_of(index, value, item) for value in values]
        if code in means or not any(part is not None and is_collection(index, part) for part in parts):
            numbers.append(means.get(code, item))
    return numbers if numbers or several else None


def named_scores(index: Index, flow: Flow, loop: EpochLoop, keepers: set[Scope]) -> Iterator[Candidate]:
    """What functions that validate return, as far as its name tells that it is a score.

    A function among ``keepers`` has a best of its own, so another value that it returns may not be what counts.
    """
    kinds = Kinds(index, flow, loop)
    for binding, call in validated_variables(index, flow, loop):
        name = last_name(call.func)
        mute = not direction_of(binding.target) and (binding.item is not None or kinds.is_mute(binding))
        if mute or flow.called(call) in keepers:
            continue
        evidence = f"{index.place(call)}: its name"
        items = items_of(index, flow, loop, binding, call)
        made = [] if items is None else list(_made_of(index, loop, binding))
        for one in made:
            yield Candidate(target_node(index, one.statement, one.target), told_by_name(one.target), evidence)
        for item in items or []:
            if not any(one.value is not None and code_within(index, item, one.value) for one in made):
                direction = told_by_name(index.source.code(item)) or told_by_name(name)
                yield Candidate(item, direction, evidence)
        if items is None:
            value = bare_of(binding.value or call)
            key = index.source.code(value)[len(index.source.code(call)) :] if isinstance(value, cst.Subscript) else ""
            direction = next(filter(None, map(told_by_name, (binding.target, key, name))), "")
            yield Candidate(target_node(index, binding.statement, binding.target), direction, evidence)


def _made_of(index: Index, loop: EpochLoop, whole: Binding) -> Iterator[Binding]:
    """Yield where the loop computes a number of what validation returns: `acc = counts[0] / counts[1]`."""
    for binding in index.bindings:
        value = bare_of(binding.value) if binding.value is not None else None
        taken = value
        while isinstance(taken, cst.Subscript):
            taken = taken.value
        computed = isinstance(taken, (cst.BinaryOperation, cst.Call))
        later = binding.statement.order > whole.statement.order and in_loop(index, loop, binding.statement.node)
        told = direction_of(binding.target) and "." not in binding.target and not BEST.search(binding.target)
        if not (computed and later and told) or value is None or binding.item is not None:
            continue
        if root_of(value) == whole.target and not of_batches(index, loop, binding.statement):
            yield binding
