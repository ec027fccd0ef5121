"""Values of which the script keeps the best so far."""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import TypeGuard

import libcst as cst

from retrofit.knowledge.kinds import MakesTensor
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import called_in
from retrofit.survey.nodes import (
    dotted,
    last_name,
    leaves,
    mentions,
    nodes_in,
    unquoted,
)
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.scores.making import is_validation
from retrofit.survey.scores.values import (
    bare_of,
    bindings_of,
    code_within,
    element_of,
    in_loop,
    is_size,
    mean_of,
    part_of,
    root_of,
    taken_by_turn,
    way_to_root,
    without_margin,
)
from retrofit.survey.scores.ways import tests_around
from retrofit.survey.scores.words import BEST, Candidate, told_by_name
from retrofit.survey.sites.loop import EpochLoop

COMPARE = {cst.GreaterThan: 1, cst.GreaterThanEqual: 1, cst.LessThan: -1, cst.LessThanEqual: -1}

#: What takes the higher or the lower of two values, by full names.
_EXTREMES = {
    f"{module}{name}": "max" if "max" in name else "min"
    for module in ("", "numpy.", "torch.")
    for name in ("max", "min", "maximum", "minimum", "fmax", "fmin")
}


def tracked_scores(
    index: Index,
    inside: Callable[[cst.CSTNode], bool],
    given: list[str] | None = None,
    taking: Sequence[Binding] = (),
) -> Iterator[Candidate]:
    """Values of which the code inside keeps the best so far: `if acc > best: best = acc`, `best = max(acc, best)`.

    Args:
        given: names that have a value there besides those that it binds.
        taking: what gives a best so far to others, as a `return` does, as if it gave it to the same variable.
    """
    bindings = [b for b in (*index.bindings, *index.items, *index.appended) if inside(b.statement.node)] + [*taking]
    bound = {b.target.partition(".")[0].partition("[")[0] for b in bindings}
    bound.update(given or [], (name for scope in index.scopes for name in scope.outer))

    def is_score(node: cst.BaseExpression, best: cst.BaseExpression | None = None) -> bool:
        name = index.source.code(node).rpartition(".")[2]
        told = _is_known(node, bound) or isinstance(bare_of(node), (cst.Call, cst.Subscript))
        if not told or (BEST.search(name) and not _made_anew(index, bindings, node, best)):
            return False
        values = [b.value for b in bindings if b.target == index.source.code(bare_of(node)) and b.value is not None]
        # A loop before it has left it one value.
        around = partial(_around_both, index, inside, node)
        return not any(taken_by_turn(index, around, value) or is_size(value) for value in [node, *values])

    found = False
    for binding in bindings:
        for score, direction in [*_kept_best(index, binding), *_kept_as_asked(index, binding, bindings)]:
            if is_score(score) and not taken_by_turn(
                index, inside, cst.parse_expression(binding.target), binding.statement
            ):
                known = _is_known(score, bound)
                found |= known
                code = index.source.code(binding.statement.node)
                best = re.split(r"\W", binding.target)[0]
                saved = _saved_by(index, inside, score, binding.target)
                scope = binding.statement.scope
                evidence = f"{index.place(score)}: {code}"
                yield Candidate(score, direction, evidence, best, binding.target, saved, scope, outside=not known)
    for comparison, pairs in _comparisons(index, inside):
        evidence, scope = f"{index.place(comparison)}: {index.source.code(comparison)}", index.scope_of(comparison)
        apart = _differences(index, comparison, bindings)
        for limit, compared, better in [*pairs, *apart]:
            for best, score in _read_as(limit, compared):
                bests, terms = _terms(best), _terms(score)
                parts = zip(bests, terms, strict=True) if len(bests) == len(terms) else [(best, score)]
                senses = {
                    _sense(index, comparison, partial(_takers, index, *pair, bindings), bindings) for pair in parts
                }
                sense = senses.pop() if len(senses) == 1 else 0
                kept = _keeps(index, score, best, bindings)  # so that it is the best so far of the other one
                kept |= _is_limit(best, score, apart) and not _takers(index, best, score, bindings)
                if sense and not kept and is_score(score, best) and not taken_by_turn(index, inside, best):
                    known = _is_known(score, bound) and (limit, compared, better) not in apart
                    found |= known
                    saved = _saved_by(index, inside, score, index.source.code(best))
                    direction = "max" if better * sense > 0 else "min"
                    holder, outside = index.source.code(best), not known
                    yield Candidate(score, direction, evidence, root_of(best), holder, saved, scope, outside=outside)
        if not found:
            for best, score, better in pairs:
                name = (dotted(best) or "").rpartition(".")[2]
                named = re.search(r"best|lowest|highest", name) or _best_of_history(best)
                known = root_of(score) in bound
                told = named and (known or _is_newest(index, score, best)) and is_score(score)
                sense = _saves(index, comparison) if told else 0
                if sense:
                    direction = "max" if better * sense > 0 else "min"
                    holder = index.source.code(best.args[0].value if _best_of_history(best) else best)
                    saved = _best_of_history(best)
                    yield Candidate(score, direction, evidence, root_of(best), holder, saved, scope, outside=not known)


def _made_anew(
    index: Index, bindings: list[Binding], node: cst.BaseExpression, best: cst.BaseExpression | None
) -> bool:
    """Whether a value is no best so far in spite of its name: `lowest_loss = stats["lowest_loss"]` in each turn."""
    code = index.source.code(node)
    made = [b for b in bindings if b.target == code]
    if not made and isinstance(node, cst.Subscript):  # `stats["top_1"]` of `stats = evaluate(model)`
        code = root_of(node)
        made = [b for b in bindings if b.target == code]
    begun = [b for b in made if isinstance(b.value, (cst.Integer, cst.Float)) and not tests_around(b.statement)]
    if isinstance(node, cst.Name) and any(code not in b.statement.scope.outer for b in begun):
        return True  # that of the best threshold of one validation
    tests = [test for b in made for test in tests_around(b.statement)]
    values = [b.value for b in made if isinstance(b.value, (cst.Call, cst.Subscript, cst.Attribute))]
    names = [index.source.code(part) for one in [*tests, *values] for part in nodes_in(one)]
    kept = best is not None and any(index.source.code(value) == index.source.code(best) for value in values)
    return bool(made) and len(values) == len(made) and code not in names and not kept


def _around_both(index: Index, inside: Callable[[cst.CSTNode], bool], node: cst.CSTNode, loop: cst.CSTNode) -> bool:
    """Whether a loop is inside the code, and around an expression."""
    return inside(loop) and code_within(index, node, loop)


def _is_known(node: cst.BaseExpression, bound: set[str]) -> bool:
    """Whether an expression is about a variable that the code gives a value, or is a part of an object.

    Args:
        bound: the names of these variables.
    """
    return root_of(node) in bound or isinstance(bare_of(node), cst.Attribute)


def _read_as(
    limit: cst.BaseExpression, compared: cst.BaseExpression
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Yield what may be the best and the score of a comparison: of sums term by term, else without a margin."""
    if len(_terms(limit)) == len(_terms(compared)) > 1:
        yield limit, compared
    else:
        yield from ((without_margin(limit), score) for score in dict.fromkeys((compared, without_margin(compared))))


def _terms(node: cst.BaseExpression, *by: type[cst.CSTNode]) -> list[cst.BaseExpression]:
    """Return what an expression is the sum of, `srocc + plcc`, or what some other operators join."""
    if isinstance(node, (cst.BinaryOperation, cst.BooleanOperation)) and isinstance(node.operator, by or (cst.Add,)):
        return [*_terms(node.left, *by), *_terms(node.right, *by)]
    return [node]


def _comparisons(
    index: Index, inside: Callable[[cst.CSTNode], bool]
) -> Iterator[tuple[cst.Comparison, list[tuple[cst.BaseExpression, cst.BaseExpression, int]]]]:
    """Yield the comparisons inside, with each side as what may be the best, the other one, and when that is better."""
    for comparison in index.comparisons:
        if len(comparison.comparisons) != 1 or not inside(comparison):
            continue
        right = comparison.comparisons[0]
        sign = COMPARE.get(type(right.operator))
        if isinstance(right.operator, cst.Equal):
            sign = _equal_to_best(right.comparator, 1) or _equal_to_best(comparison.left, -1)
        if sign:
            sides = (right.comparator, comparison.left)
            one, other = (side.target if isinstance(side, cst.NamedExpr) else side for side in sides)
            yield comparison, [(one, other, sign), (other, one, -sign)]


def _differences(
    index: Index, comparison: cst.Comparison, bindings: list[Binding]
) -> list[tuple[cst.BaseExpression, cst.BaseExpression, int]]:
    """Return the same of a difference that is compared: `best - loss > 1e-4`, perhaps by its name.

    So is the time since something, and the number of steps since then.
    """
    right, before = comparison.comparisons[0], index.statement(comparison).before
    sign = COMPARE.get(type(right.operator), 0)
    found: list[tuple[cst.BaseExpression, cst.BaseExpression, int]] = []
    for side, higher in ((comparison.left, sign), (right.comparator, -sign)):
        named = [b for b in bindings if b.target == dotted(side)]
        plain = len(named) == 1 and named[0].item is None and named[0].statement in before
        one = named[0].value if plain else side
        if sign and isinstance(one, cst.BinaryOperation) and isinstance(one.operator, cst.Subtract):
            found += [(one.right, one.left, higher), (one.left, one.right, -higher)]
    return found


def _is_limit(
    best: cst.BaseExpression,
    score: cst.BaseExpression,
    apart: list[tuple[cst.BaseExpression, cst.BaseExpression, int]],
) -> bool:
    """Whether one side of a comparison limits the other, a number or a difference by its name: `better = gain > 0`.

    So does the best of all before, `best = acc > max(accs)`, of which the other side is the best.
    """
    sides = {type(best), type(score)}
    of_all = isinstance(score, cst.Call) and last_name(score.func) in ("max", "min") and len(score.args) == 1
    return of_all or bool(sides & {cst.Integer, cst.Float}) or (bool(apart) and cst.BinaryOperation not in sides)


def best_of_history(index: Index, flow: Flow, loop: EpochLoop) -> Iterator[Candidate]:
    """Values that the loop appends to a list of which the script looks for the best: `np.argmax(val_accs)`.

    A method may ask whether the newest is the best: `if self.accs[-1] == max(self.accs)`.
    """
    sought = [
        (call, re.fullmatch(r"((np|numpy)\.)?(nan)?arg(max|min)", dotted(call.func) or "")) for call in index.calls
    ]
    found: list[tuple[cst.CSTNode, cst.BaseExpression, str]] = [
        (call, call.args[0].value, told[4])
        for call, told in sought
        if told is not None and len(call.args) == 1 and index.scope_of(call) is loop.scope
    ]
    running = {one for one in called_in(index, flow, loop.statement) if one.enclosing_class is not None}
    methods = {one for one in running if one.enclosing_class is loop.scope.enclosing_class}
    for comparison, pairs in _comparisons(index, lambda node: index.scope_of(node) in methods):
        for best, newest, better in pairs:
            if _best_of_history(best) and root_of(newest) == "self":
                history = best.args[0].value
                told = index.source.code(newest) == f"{index.source.code(history)}[-1]"
                found += [(comparison, history, "max" if better > 0 else "min")] if told else []
    for node, history, direction in found:
        for one in index.appended:
            around = one.statement.path[:-1]
            inner = around[around.index(loop.statement) + 1 :] if loop.statement in around else around
            once = not any(isinstance(p.node, (cst.For, cst.While)) for p in inner)
            if once and one.target == f"{index.source.code(history)}[-1]":
                evidence, code = f"{index.place(node)}: {index.source.code(node)}", index.source.code(history)
                asked = [part for part in (node, *index.ancestors(node)) if isinstance(part, cst.Comparison)]
                saved = any(_saves(index, part) for part in asked)
                newest = cst.parse_expression(one.target)
                yield Candidate(newest, direction, evidence, holder=code, saved=saved, made=one.statement)


def as_numbers(index: Index, flow: Flow, found: list[Candidate]) -> Iterator[Candidate]:
    """Yield candidates with the number by which they compare themselves, where they are objects of a local class."""
    for candidate in found:
        holder = class_of(index, flow, candidate.node)
        attribute = _compared(index, holder, "__gt__", "__lt__")[0] if holder is not None else ""
        if attribute:
            node = cst.Attribute(cst.parse_expression(index.source.code(candidate.node)), cst.Name(attribute))
            yield replace(candidate, node=node, compared=candidate.node)
        elif holder is None or "__float__" in holder.inner:
            yield candidate


def as_mean(index: Index, loop: EpochLoop, candidate: Candidate) -> Candidate:
    """Return a candidate as the loop itself takes the mean of it: one number, also where a variable holds several."""
    name = candidate.node.value if isinstance(candidate.node, cst.Name) else None
    if candidate.call is not None or candidate.best or name is None:
        return candidate
    bound = {one.statement for one in bindings_of(index, loop, name)}
    taken = [one for one in index.nodes_of(cst.Name) if one.value == name and in_loop(index, loop, one)]
    after = [one for one in taken if bound and all(b.order < index.statement(one).order for b in bound)]
    means = [mean for one in after if (mean := mean_of(index, one)) is not None]
    return replace(candidate, node=means[0]) if means else candidate


def found_better(index: Index, flow: Flow, loop: EpochLoop) -> Iterator[Candidate]:
    """Scores of objects that tell whether they are better than another: `if metrics.better_than(best_metrics)`."""
    for call in index.calls:
        if not isinstance(call.func, cst.Attribute) or not re.search(r"better|improve", call.func.attr.value):
            continue
        name, method = dotted(call.func.value), call.func.attr.value
        holder = class_of(index, flow, call.func.value) if name and in_loop(index, loop, call) else None
        attribute, direction = _compared(index, holder, method) if holder is not None else ("", "")
        if attribute:
            evidence = f"{index.place(call)}: {index.source.code(call)}"
            given = [dotted(argument.value) or "" for argument in call.args]
            holder_of_best = given[0] if len(given) == 1 else ""
            number = cst.parse_expression(f"{name}.{attribute}")
            yield Candidate(number, direction, evidence, holder=holder_of_best, compared=call)


def kept_where_better(index: Index, loop: EpochLoop, name: str) -> list[Candidate]:
    """Return what the loop compares a variable with wherever it gives that a value: `if a / n < best: best = b / m`."""
    found = list[Candidate]()
    for bound in bindings_of(index, loop, name):
        choices = [part.node for part in bound.statement.around if in_loop(index, loop, part.node)]
        compared = [
            Candidate(score, "max" if better * _branch_of(index, comparison, bound) > 0 else "min", "", name)
            for comparison, pairs in _comparisons(index, partial(in_loop, index, loop))
            for best, score, better in pairs
            if _choice_by(index, comparison) in choices and index.source.code(best) == name
            if not isinstance(score, (cst.Integer, cst.Float))
        ]
        if not compared:
            return []
        found += compared
    return found


def _branch_of(index: Index, comparison: cst.Comparison, bound: Binding) -> int:
    """Return 1 where a variable gets a value if a comparison around that holds, -1 where it does not hold."""
    choice = _choice_by(index, comparison)
    inside = choice is not None and code_within(index, bound.statement.node, choice.body)
    return _denied(index, comparison) * (1 if inside else -1)


def class_of(index: Index, flow: Flow, node: cst.BaseExpression) -> Scope | None:
    """Return the local class of the objects that an expression stands for, None where it is none or several."""
    origins = flow.origins(node, index.scope_of(node))
    made = [deep.node for origin in origins for deep in (flow.inside(origin) or [origin])]
    made = [one for one in made if dotted(one) != "None"]
    calls = [one for one in made if isinstance(one, cst.Call)]
    classes = {flow.defined(one.func, index.scope_of(one)) for one in calls}
    found = classes.pop() if len(classes) == 1 and len(calls) == len(made) else None
    return found if found is not None and found.kind == "class" else None


def _compared(index: Index, holder: Scope, *methods: str) -> tuple[str, str]:
    """Return the attribute that a class's methods compare, `self.acc > other.acc`, and the direction; else ""."""
    functions = [holder.inner[name] for name in methods if name in holder.inner]
    found = set()
    for comparison in index.comparisons:
        if index.scope_of(comparison) not in functions or len(comparison.comparisons) != 1:
            continue
        left, right = dotted(comparison.left) or "", dotted(comparison.comparisons[0].comparator) or ""
        sign = COMPARE.get(type(comparison.comparisons[0].operator), 0)
        if "self" not in (left.partition(".")[0], right.partition(".")[0]):
            continue
        same = left.partition(".")[2] == right.partition(".")[2] != ""
        sign = sign if left.startswith("self.") else -sign
        found.add((left.partition(".")[2], "max" if sign > 0 else "min") if same and sign else ("", ""))
    return found.pop() if len(found) == 1 else ("", "")


def _best_of_history(node: cst.BaseExpression) -> TypeGuard[cst.Call]:
    """Whether an expression is `min(history)` or `max(history)`."""
    return isinstance(node, cst.Call) and dotted(node.func) in ("min", "max") and len(node.args) == 1


def _is_newest(index: Index, score: cst.BaseExpression, best: cst.BaseExpression) -> bool:
    """Whether a value is the newest of the list of which another is the best, and validations alone fill that.

    The list may be an object's, whatever that goes by in the function that fills it.
    """
    code = index.source.code(score)
    history = re.sub(r"\[:-1\]$", "", index.source.code(best.args[0].value)) if _best_of_history(best) else ""
    part = re.sub(r"^\w+", "", unquoted(code))
    filled = [b.statement.scope for b in index.appended if re.sub(r"^\w+", "", unquoted(b.target)) == part]
    return code == f"{history}[-1]" and bool(filled) and all(is_validation(index, one) for one in filled)


def _equal_to_best(node: cst.BaseExpression, side: int) -> int:
    """Return ``side`` for `max(history)`, the other one for `min(history)`, 0 for anything else."""
    return (side if dotted(node.func) == "max" else -side) if _best_of_history(node) else 0


def _kept_best(index: Index, binding: Binding) -> Iterator[tuple[cst.BaseExpression, str]]:
    """Yield (score, direction) for `best = max(best, score)` and `best = score if score > best else best`."""
    value, best = binding.value, binding.target
    code = index.source.code
    if isinstance(value, cst.Call) and (direction := _EXTREMES.get(index.qualified(value.func) or code(value.func))):
        values = [arg.value for arg in value.args]
        if len(values) == 1 and isinstance(values[0], (cst.List, cst.Tuple)):
            values = [element.value for element in values[0].elements]  # `np.min([best, loss])`
        if len(values) == 1 and isinstance(values[0], cst.BinaryOperation) and isinstance(values[0].right, cst.List):
            values = [values[0].left, *(element.value for element in values[0].right.elements)]  # `min(old + [loss])`
            best_of = values[1:]
        else:
            best_of = [one for one in values if code(one) != best]
        if len(values) == 2 and len(best_of) == 1 and BEST.search(best):
            yield best_of[0], direction
    elif isinstance(value, cst.IfExp) and isinstance(value.test, cst.Comparison) and len(value.test.comparisons) == 1:
        right = value.test.comparisons[0]
        sign = COMPARE.get(type(right.operator))
        kept = value.orelse if code(value.orelse) != best else value.body
        if sign is None or best not in (code(value.body), code(value.orelse)) or mentions(kept, [best]):
            return  # `number = number if number < 9 else number - 9` keeps no best
        sign = sign if code(value.test.left) == code(kept) else -sign
        sign = sign if kept is value.body else -sign
        yield kept, "max" if sign > 0 else "min"


def _kept_as_asked(index: Index, binding: Binding, bindings: list[Binding]) -> Iterator[tuple[cst.BaseExpression, str]]:
    """Yield (score, direction) for a best that is taken where a call compares both: `if is_better(acc, best)`."""
    value = binding.value and element_of(binding.value, binding.item)
    if value is None or not BEST.search(binding.target):
        return
    tests = tests_around(binding.statement)
    tests += [b.value for b in bindings if b.value is not None and b.target in {dotted(test) for test in tests}]
    calls = [call for test in tests for call in _asking(index, test, value, binding.target)]
    if calls:
        name = index.source.code(bare_of(value))
        told = {
            sense * _sense(index, call, lambda: [binding.statement], bindings)
            for call in calls
            for sense in _answers(index, call, name, binding.target)
        }
        sense = told.pop() if len(told) == 1 else 0
        yield value, ("max" if sense > 0 else "min") if sense else told_by_name(name)


def _asking(index: Index, test: cst.BaseExpression, score: cst.BaseExpression, best: str) -> list[cst.Call]:
    """Return the calls in a condition that are given a score and the best of it."""
    both = {index.source.code(bare_of(score)), best}
    calls = [part for part in nodes_in(test) if isinstance(part, cst.Call)]
    return [call for call in calls if both <= {index.source.code(bare_of(arg.value)) for arg in call.args}]


def _answers(index: Index, call: cst.Call, score: str, best: str) -> Iterator[int]:
    """Yield 1 where a function of a call's name answers that a score is higher than the best, -1 that it is lower."""
    code = index.source.code
    plain = [code(bare_of(arg.value)) for arg in call.args if arg.keyword is None]
    named = {arg.keyword.value: code(bare_of(arg.value)) for arg in call.args if arg.keyword is not None}
    for function in index.scopes:
        if function.name == last_name(call.func) and function.kind == "function":
            taking = [one for one in function.parameters if one != function.own]
            names = dict(zip(taking, plain, strict=False)) | named
            for value in index.returned(function):
                if isinstance(value, cst.Comparison) and (sign := COMPARE.get(type(value.comparisons[0].operator))):
                    sides = [without_margin(side) for side in (value.left, value.comparisons[0].comparator)]
                    compared = [names.get(dotted(side) or "") for side in sides]
                    if set(compared) == {score, best}:
                        yield sign if compared[0] == score else -sign


def _sense(
    index: Index, test: cst.BaseExpression, find_takers: Callable[[], list[Statement]], bindings: list[Binding]
) -> int:
    """Tell whether a condition that holds means a better score.

    Args:
        find_takers: returns the statements that take the score as the best one.

    Returns:
        1 where it does, -1 where one that does not hold means it, 0 where the best is not taken by it.
    """
    statement = index.statement(test)
    if isinstance(statement.node, cst.SimpleStatementLine):
        whole = _whole(index, test)
        flag = next((b.target for b in bindings if b.value is whole), "")
        if not flag or re.search(r"best|better|improve", flag):
            return int(flag != "")
        return int(_taken_where(index, {flag}, find_takers()))
    choice = _choice_by(index, test)
    if choice is None:
        return 0
    takers = find_takers()
    sense = _denied(index, test)
    for taker in takers:
        if any(around is choice for around in index.ancestors(taker.node)):
            return sense if code_within(index, taker.node, choice.body) else -sense
        if taker in statement.following and leaves(choice.body):
            return -sense
    return sense if _taken_by_flag(index, choice, takers, bindings) else 0


def _denied(index: Index, test: cst.BaseExpression) -> int:
    """Return -1 for a condition behind a `not`, else 1."""
    around = index.ancestors(test)
    return -1 if any(isinstance(a, cst.UnaryOperation) and isinstance(a.operator, cst.Not) for a in around) else 1


def _takers(
    index: Index, best: cst.BaseExpression, score: cst.BaseExpression, bindings: list[Binding]
) -> list[Statement]:
    """Return the statements that take a score as the best one."""
    code = index.source.code
    bare = code(bare_of(score))
    wanted = {_meant(code(score)), _meant(bare)}
    if isinstance(score, (cst.Subscript, cst.Attribute)) and root_of(best) != dotted(best):
        # Kept whole: `if stats["acc"] > best["acc"]: best = stats`.
        wanted.update(_meant(code(part)) for part in way_to_root(score))
    whole = best.value if isinstance(best, (cst.Attribute, cst.Subscript)) else best
    holders = {code(best), root_of(best), code(whole), *_given_by_property(index, best)}
    bound = Counter(b.target for b in bindings)
    kept = [b for b in bindings if bound[b.target] == 1 and b.target not in holders and b.value is not None]
    named = [b.target for b in kept if b.value is not None and _is_taken(index, b.value, wanted)]  # `top = acc`
    wanted.update(map(_meant, named))
    taken = [b for b in bindings if b.target in holders and b.value is not None]
    takers = []
    if isinstance(best, cst.Subscript):  # `if acc > best[0]: best = (acc, epoch)`
        parts = [(b, part_of(index, b.value, best)) for b in taken if b.value is not None]
        takers = [b.statement for b, part in parts if part is not None and _meant(code(part)) in wanted]
    if isinstance(best, (cst.Attribute, cst.Subscript)):  # `best.update(acc=acc)`, `best = Best(acc, epoch)`
        calls = [call for call, held in index.method_calls("update") if code(held) == code(whole)]
        calls += [b.value for b in taken if isinstance(b.value, cst.Call) and b.target == code(whole)]
        takers += [index.statement(call) for call in calls if _is_given(index, call, best, wanted)]
    for given in (b for b in bindings if b.target == bare and bound[bare] == 1 and b.item is None):
        if isinstance(given.value, (cst.Attribute, cst.Subscript, cst.BinaryOperation)):  # `now = stats["err"]`
            later = [b for b in taken if b.statement.order > given.statement.order]
            same = _meant(code(given.value))
            takers += [b.statement for b in later if b.value is not None and _meant(code(b.value)) == same]
    return takers + [b.statement for b in taken if b.value is not None and _is_taken(index, b.value, wanted)]


@cache
def _meant(code: str) -> str:
    """Return the code of an expression as Python writes it: `s / n` for `(s/n)`."""
    with warnings.catch_warnings(), suppress(RecursionError):  # the warnings are for those who run the script
        warnings.simplefilter("ignore")
        return ast.unparse(ast.parse(f"({code})", mode="eval"))
    return code


def _keeps(index: Index, best: cst.BaseExpression, score: cst.BaseExpression, bindings: list[Binding]) -> bool:
    """Whether a variable takes some values of another: `best = acc`, or `best = max(best, acc)`."""
    code = index.source.code
    calls = [b.value for b in bindings if b.target == code(best) and isinstance(b.value, cst.Call)]
    extremes = [{code(arg.value) for arg in call.args} for call in calls if dotted(call.func) in ("max", "min")]
    return {code(best), code(score)} in extremes or bool(_takers(index, best, score, bindings))


def _given_by_property(index: Index, node: cst.BaseExpression) -> list[str]:
    """Return the code of what a property of the object's own class returns: `self._best` for `self.best`."""
    own, _, name = (dotted(node) or "").partition(".")
    holder = index.scope_of(node).enclosing_class if own == "self" else None
    read = holder.inner.get(name) if holder is not None else None
    return [index.source.code(value) for value in index.returned(read)] if read is not None else []


def _is_taken(index: Index, value: cst.BaseExpression, wanted: set[str]) -> bool:
    """Whether a value is one of some, as another type at most: `acc`, `acc.item()`, `torch.tensor(acc)`.

    What another call makes of it, `math.ceil(acc)`, may be a limit that is no score.
    """
    if _meant(index.source.code(value)) in wanted:
        return True
    bare, known = bare_of(value), index.knowledge.named(MakesTensor)
    if isinstance(bare, cst.Call) and bare.args and index.qualified(bare.func) in known:
        bare = bare.args[0].value
    return bare is not value and _is_taken(index, bare, wanted)


def _is_given(index: Index, call: cst.Call, best: cst.Attribute | cst.Subscript, wanted: set[str]) -> bool:
    """Whether a call gives one of some values to a part of what it changes or makes: `best.update(acc=acc)`."""
    if isinstance(best, cst.Subscript):
        key, values = (
            unquoted(index.source.code(best.slice[0].slice)),
            [part_of(index, arg.value, best) for arg in call.args],
        )
    else:  # whose place in a record is that of a field
        key, values = f"'{best.attr.value}'", [arg.value for arg in call.args if arg.keyword is None]
    values += [arg.value for arg in call.args if arg.keyword is not None and f"'{arg.keyword.value}'" == key]
    return any(_is_taken(index, value, wanted) for value in values if value is not None)


def _whole(index: Index, test: cst.CSTNode) -> cst.CSTNode:
    """Return the condition that one is part of: `(mode == "max" and acc > best) or (mode == "min" and acc < best)`."""
    around = index.parents[test]
    return _whole(index, around) if isinstance(around, cst.BooleanOperation) else test


def _taken_where(index: Index, flags: set[str], takers: list[Statement]) -> bool:
    """Whether a best is taken where one of some flags is raised: `if flag: best = acc`."""
    ways = [(part.node, taker) for taker in takers for part in taker.path if isinstance(part.node, cst.If)]
    return any(
        not flags.isdisjoint(map(dotted, _terms(node.test, cst.And))) and code_within(index, taker.node, node.body)
        for node, taker in ways
    )


def _choice_by(index: Index, test: cst.BaseExpression) -> cst.If | None:
    """Return the `if` or `elif` that asks what an expression says."""
    around = next((one for one in index.ancestors(test) if isinstance(one, (cst.If, cst.BaseSuite))), None)
    return around if isinstance(around, cst.If) and code_within(index, test, around.test) else None


def _taken_by_flag(index: Index, choice: cst.If, takers: list[Statement], bindings: list[Binding]) -> bool:
    """Whether a choice raises a flag under which a best is taken: `if acc > best: better = True`, `if better: ...`."""
    raised = [b for b in bindings if dotted(b.value) == "True"]
    flags = {b.target for b in raised if code_within(index, b.statement.node, choice.body)}
    return _taken_where(index, flags, takers)


def _saved_by(index: Index, inside: Callable[[cst.CSTNode], bool], score: cst.BaseExpression, best: str) -> bool:
    """Whether a checkpoint is saved where a score is better than the best."""
    name = index.source.code(bare_of(score))
    between = [c for c in index.comparisons if inside(c) and all(n in index.source.code(c) for n in (name, best))]
    asked = [c for c in index.calls if len(c.args) > 1 and inside(c) and index.target_of(c) != best]
    asked = [c for c in asked if c in _asking(index, c, score, best)]
    keepers = {index.scope_of(c).name for c in between if _is_answered(index, c)}
    asked += [c for c in index.calls if last_name(c.func) in keepers]
    return any(_saves(index, test) != 0 for test in (*between, *asked))


def _is_answered(index: Index, test: cst.BaseExpression) -> bool:
    """Whether the function of a condition returns whether it holds: `return acc > best`, `return True`, a flag."""
    told = {"True", "False", *_flags(index, test)}
    answers = [part for one in index.returned(index.scope_of(test)) for part in nodes_in(one)]
    return any(part is test or dotted(part) in told for part in answers)


def _flags(index: Index, test: cst.BaseExpression) -> set[str]:
    """Return the names that say whether a condition holds."""
    here, whole = index.statement(test), _whole(index, test)
    return {
        b.target
        for b in index.bindings
        if b.value is whole or (dotted(b.value) == "True" and here is b.statement.parent)
    }


def _saves(index: Index, test: cst.BaseExpression) -> int:
    """Tell where a checkpoint is saved: 1 where a condition, or its flag, holds, -1 where it does not, 0 nowhere."""
    here, node = index.statement(test), _choice_by(index, test)
    if node is not None:
        otherwise = index.statements_in(node.orelse.body) if isinstance(node.orelse, cst.Else) else []
        behind = here.following if leaves(node.body) else []
        for sense, parts in ((1, index.statements_in(node.body)), (-1, [*otherwise, *behind])):
            if any(keeps(index, part) for part in parts):
                return sense * _denied(index, test)
    flags = _flags(index, test)
    users = [s for s in index.statements if s.scope is here.scope and s is not here] if flags else []
    small = [user for user in users if isinstance(user.node, (cst.If, cst.SimpleStatementLine))]
    return int(any(keeps(index, user) and mentions(user.node, flags) for user in small))


def keeps(index: Index, statement: Statement) -> bool:
    """Whether code calls what saves or copies something, by its name or by what a function of that name does."""
    savers = {
        (index.scope_of(call).name, index.scope_of(call).enclosing_class is None)
        for call in index.calls_to("torch.save")
    }
    for call in index.calls_in(statement):
        name, full = last_name(call.func), dotted(call.func) or ""
        plain = isinstance(call.func, cst.Name) or any(index.imported(full, o) for o in index.scope_of(call).searched)
        if re.search("save|copy", name) or (name and (name, plain) in savers):
            return True
    return False
