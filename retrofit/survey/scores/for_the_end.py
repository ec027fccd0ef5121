"""What the script keeps with its best score for the code after the epoch loop."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from itertools import takewhile
from operator import itemgetter

import libcst as cst

from retrofit.knowledge.kinds import MakesArray
from retrofit.survey.conditions import argument_of
from retrofit.survey.counters import given_in
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import called_in, conjuncts, turns_begun_by
from retrofit.survey.nodes import dotted, mentions, named_in, names_in, nodes_in, wholes_of
from retrofit.survey.order import first_values, runs_always
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.scores.begun import in_the_loop, is_begun, is_first_turn
from retrofit.survey.scores.best import tracked_scores
from retrofit.survey.scores.filling import FILLS
from retrofit.survey.scores.handed_on import bests_returned
from retrofit.survey.scores.keepers import kept_where_given
from retrofit.survey.scores.values import (
    code_of,
    element_of,
    in_loop,
    is_collection,
    is_dict,
    names_around,
    written_bare,
    written_items,
)
from retrofit.survey.scores.words import Candidate
from retrofit.survey.sites.loop import EpochLoop

#: What makes a collection, beside what is visibly one.
_COLLECTIONS = ("set", "collections.deque")


def kept_for_end(
    index: Index, flow: Flow, loop: EpochLoop, candidate: Candidate, ending: Collection[Statement] = ()
) -> tuple[list[str], str]:
    """Return what the epoch loop calls the best score, and what a better one gives, where that is read after the loop.

    So it is with the bests of other scores that the loop keeps: in the end they are the best round's, as its files are.
    And the name of what is kept so, but has no name or value before the loop, or is returned within it; "" for none.

    Args:
        ending: what ends the training within the loop, where it is given before that.
    """
    found, lost = list[str](), ""
    if not candidate.holder:
        function = index.scope_of(candidate.node) if candidate.node in index.parents else loop.scope
        holder, keeper = kept_where_given(flow, function, written_bare(index, candidate.node))
        candidate = replace(candidate, holder=holder, keeper=keeper)
    for name, scope in _read_afterwards(index, flow, loop, candidate):
        own = in_the_loop(index, flow, loop, name, scope)
        known = bool(own) and is_begun(index, flow, loop, own)
        found += [own] if known else []
        lost = lost or ("" if known and not _is_returned(index, loop, own, ending) else name)
    for other in _tracked_beside(index, loop, candidate):
        read = _read_afterwards(index, flow, loop, other)
        named = (in_the_loop(index, flow, loop, name, scope) for name, scope in read)
        found += [own for own in named if own and is_begun(index, flow, loop, own)]
    return list(dict.fromkeys(found)), lost


def _tracked_beside(index: Index, loop: EpochLoop, candidate: Candidate) -> Iterator[Candidate]:
    """Yield other scores of which the epoch loop itself keeps the best so far."""
    for one in tracked_scores(index, code_of(index, loop)):
        if not one.outside and one.keeper is loop.scope and one.holder != candidate.holder:
            yield one


def _is_returned(index: Index, loop: EpochLoop, name: str, ending: Collection[Statement]) -> bool:
    """Whether the training's function returns a value within the loop, where one rank ends it, say."""
    within = [node for node, scope in index.returns if scope is loop.scope and in_loop(index, loop, node)]
    given = [node.value for node in within if isinstance(node, cst.Return) and index.statement(node) not in ending]
    return any(mentions(value, [name]) for value in given if value and not isinstance(value, cst.Comparison))


def _read_afterwards(index: Index, flow: Flow, loop: EpochLoop, candidate: Candidate) -> Iterator[tuple[str, Scope]]:
    """Yield the names of what is kept, and the functions that have them so."""
    keeper = candidate.keeper if candidate.keeper is not None else loop.scope
    bound = [*index.bindings, *index.items]
    inside = [b for b in bound if b.statement.scope is keeper]
    if keeper is loop.scope:
        inside = [b for b in inside if loop.statement in b.statement.path]
    appended = {b.target.removesuffix("[-1]") for b in index.appended}
    holder = flow.behind_property(candidate.holder, keeper)
    set_by = _set_by_calls(flow, loop, bound, holder, keeper) if holder else []
    known = bool(set_by) or (keeper is not loop.scope and holder in keeper.parameters)
    best = _as_bound(holder, {*(b.target for b in inside), *appended, *([holder] if known else [])})
    better = {*_where_better(flow, loop, inside, best, candidate.holder, set_by)}
    running = _run_by(flow, better)
    taken = [b for b in inside if _is_in(b, better)] + [b for b in bound if b.statement.scope in running]
    if keeper is not loop.scope:
        told = {*_where_told(index, flow, loop, keeper, better)}
        turns = [b for b in bound if b.statement.scope is loop.scope and loop.statement in b.statement.path]
        inside = inside + turns if told else inside
        taken += [b for b in turns if _is_in(b, told)]
    others = [b for b in inside if b not in taken]
    afterwards = _afterwards(flow, loop, keeper)
    whole = _whole(best)
    names = {(_whole(b.target), b.statement.scope) for b in taken} - {(whole, keeper)}
    also = [b for b in others if any(_is_same(flow, b, *one) for one in names)]
    beside = {*_where_others_are_better(flow, loop, inside, keeper)} if also else set()
    also = [b for b in also if not _is_in(b, beside)]
    alone = [one for one in sorted(names, key=itemgetter(0)) if not any(_is_same(flow, b, *one) for b in also)]
    kept = [(whole, keeper), *alone]
    for name, scope in kept:  # and what is handed back of that, by one function to the next
        kept += [one for one in _handed_back(flow, loop, name, scope) if one not in kept]
    read = [(name, scope) for name, scope in kept if name and _is_read(flow, loop, afterwards, name, scope)]
    yield from read
    gathered = ((name, loop.scope) for name in _gathered(flow, loop))
    parts = {name.partition("[")[0] for name, _ in read}
    yield from (one for one in gathered if one[0] not in parts and _is_read(flow, loop, afterwards, *one))


def _gathered(flow: Flow, loop: EpochLoop) -> Iterator[str]:
    """Yield what the loop fills turn by turn: `history["test"].append(acc)`, `heappush(kept, (acc, path))`.

    Later code takes its best, looks it up by the best epoch's number, or finds there the names of files, which in the
    end are the best round's.
    """
    index = flow.index
    pushed = [(call, call.args[0].value) for call in index.calls_to("heapq.heappush") if call.args]
    calls = (*index.method_calls(*FILLS), *pushed)
    filled = [(index.statement(call), index.source.code(held)) for call, held in calls]
    filled += [(item.statement, item.target) for item in index.items]
    running = called_in(index, flow, loop.statement)
    own = [code for at, code in filled if at.scope is loop.scope and loop.statement in at.path]
    others = {(code, at.scope) for at, code in filled if at.scope in running and code.startswith("self.")}
    own += [in_the_loop(index, flow, loop, code, scope) for code, scope in sorted(others, key=itemgetter(0))]
    inside = dict.fromkeys(code.partition("[")[0] for code in own if code)
    given = {name: given_in(index, flow, loop.statement, running, name) for name in inside}
    for name in [one for one in inside if not any(map(_begins_anew, given[one]))]:
        begun = [b.value for b in first_values(index, flow, loop, name) if _begins_anew(b)]
        items = [b for b in index.items if b.target.startswith(f"{name}[") and b.statement.scope is loop.scope]
        before = [b.value for b in items if b.statement.order < loop.statement.order]
        if not all(value is not None and _is_data(value) for value in before):
            continue
        if begun and all(value is not None and _is_collection(index, value) for value in begun):
            yield name


def _is_collection(index: Index, value: cst.BaseExpression) -> bool:
    """Whether a value is a collection, or an array, and no object that is filled as one: `[0.0] * epochs`.

    A dict that begins with objects, `{"model": model, "epoch": 0}`, gathers nothing: code behind the loop uses them.
    """
    held = value.left if isinstance(value, cst.BinaryOperation) else value
    made = index.qualified(held.func) if isinstance(held, cst.Call) else ""
    of_objects = is_dict(index, held) and not all(_is_data(part) for _, part in written_items(index, held))
    known = is_collection(index, held) or made in _COLLECTIONS or made in index.knowledge.named(MakesArray)
    return known and not of_objects


def _is_data(value: cst.BaseExpression) -> bool:
    """Whether a value is written down: a number, a text, or a collection of such."""
    if isinstance(value, cst.UnaryOperation):
        return _is_data(value.expression)
    if isinstance(value, (cst.Dict, cst.List, cst.Tuple, cst.Set)):
        return all(_is_data(element.value) for element in value.elements)
    return isinstance(value, (cst.BaseNumber, cst.BaseString)) or dotted(value) in ("None", "True", "False")


def _is_read(flow: Flow, loop: EpochLoop, afterwards: list[tuple[cst.CSTNode, Scope]], name: str, scope: Scope) -> bool:
    """Whether code after the loop reads what a name has there, and not what it gives that name itself."""
    index, later = flow.index, set(loop.leftovers)
    anew = [b for b in index.bindings if not later.isdisjoint(b.statement.path) and _is_same(flow, b, name, scope)]
    anew = [b for b in anew if _begins_anew(b)]
    sure = {b.statement.node for b in anew if not isinstance(b.statement.node, cst.For)}  # which may make no turn
    for node, where in afterwards:
        for part in named_in(node) if _names(flow, node, where, name, scope) else ():
            if _names(flow, part, where, name, scope) and not _is_own(index, part):
                here = index.statement(part) if part in index.parents else None
                early = here.before if here is not None else []
                given = here is not None and any(b.statement in here.path for b in anew)
                if not given and not any(runs_always(one.node, sure, leaves=False) for one in early):
                    return True
        if runs_always(node, sure, leaves=False):
            return False
    return False


def _is_own(index: Index, part: cst.CSTNode) -> bool:
    """Whether a name is one of an expression alone: an argument's, `f(x=1)`, or a comprehension's own variable."""
    around = index.parents.get(part)
    keyword = isinstance(around, cst.Arg) and around.keyword is part
    return keyword or (dotted(part) or "").partition(".")[0] in names_around(index, part)


def _handed_back(flow: Flow, loop: EpochLoop, name: str, function: Scope) -> Iterator[tuple[str, Scope]]:
    """Yield what callers give as a parameter of a function and get back from it: `best = validate(model, best)`."""
    index, back = flow.index, dict[tuple[str, Scope], list[Binding]]()
    for call in flow.callers(function) if name in function.parameters and function is not loop.scope else ():
        for b in index.bound_by(index.statement(call)):
            if b.value is call and b.target == dotted(argument_of(function, call, name)):
                values = {dotted(element_of(value, b.item)) for value in index.returned(function)}
                if values == {name} or any(one.best == name for one in bests_returned(index, function, b.item)):
                    back.setdefault((b.target, b.statement.scope), []).append(b)
    for (target, scope), given in back.items():
        bound = index.bound([target], scope)
        bound = [b for b in bound if scope is not loop.scope or in_loop(index, loop, b.statement.node)]
        if all(b in given for b in bound):
            yield target, scope


def _where_better(
    flow: Flow, loop: EpochLoop, inside: list[Binding], best: str, holder: str, set_by: list[Statement]
) -> Iterator[Statement]:
    """Yield what runs as the score is the best so far: choices, what is behind a guard, assignments by a condition."""
    index = flow.index
    flags = {best, holder, *(b.target for b in inside if b.value is not None and mentions(b.value, [best, holder]))}
    better = partial(_is_better, index, loop, lambda test: mentions(test, flags))
    asked = [part for part in index.statements if isinstance(part.node, cst.If) and mentions(part.node.test, flags)]
    given = [*(b.statement for b in inside if b.target == best), *set_by]
    for one in given:
        if one.parent is not None and isinstance(one.parent.node, cst.If):
            yield from one.siblings
    guards = turns_begun_by(index, loop.statement)
    for part in asked:
        if any(part in b.statement.path for b in inside):
            yield from _better_branch(index, part, better, [one for one in given if part in one.around], guards)
    for goes_on in guards:  # `if acc <= best: continue`
        for part in asked:
            if part in goes_on.path:
                around = takewhile(partial(_lasts, flow, loop), part.around)
                yield from (later for one in (part, *around) for later in one.following)
    for b in inside:  # `state = new if improved else state`
        if isinstance(b.value, cst.IfExp) and (better(b.value.test, True) or better(b.value.test, False)):
            yield b.statement


def _lasts(flow: Flow, loop: EpochLoop, part: Statement) -> bool:
    """Whether a choice in the epoch loop is the same in all its turns, as by an option, or there is none at all."""
    if not isinstance(part.node, cst.If):
        return isinstance(part.node, cst.With)
    index, running, test = flow.index, called_in(flow.index, flow, loop.statement), part.node.test
    read = {whole for name in names_in(test) for whole in wholes_of(name)}
    items = [b for b in index.items if loop.statement in b.statement.path and b.target.partition("[")[0] in read]
    given = items or any(given_in(index, flow, loop.statement, running, name) for name in read)
    return not given and not any(isinstance(one, cst.Call) for one in nodes_in(test))


def _where_others_are_better(flow: Flow, loop: EpochLoop, inside: list[Binding], keeper: Scope) -> Iterator[Statement]:
    """Yield what runs as any score is the best so far, of those by which an option lets the script choose, say."""
    index, bound = flow.index, {b.target for b in inside}
    tracked = tracked_scores(index, code_of(index, loop if keeper is loop.scope else keeper))
    for one in (one for one in tracked if not one.outside):
        yield from _where_better(flow, loop, inside, _as_bound(one.holder, bound), one.holder, [])


def _where_told(
    index: Index, flow: Flow, loop: EpochLoop, keeper: Scope, better: set[Statement]
) -> Iterator[Statement]:
    """Yield what the loop runs where the function that keeps the best answers that it is one: `if stop.step(acc)`."""
    left = [*_flags_left(index, keeper, better)]
    found = [(node.value, index.statement(node)) for node, _ in index.returns if isinstance(node, cst.Return)]
    given = [(value, not better.isdisjoint(at.path)) for value, at in found if at.scope is keeper]

    def tells(item: int | None) -> bool:
        """Whether what is returned, or an item of it, is true where the score is better, and nowhere else."""
        parts = given
        if item is not None:
            tuples = [(value.elements, so) for value, so in given if isinstance(value, cst.Tuple)]
            parts = [(one.value, so) for elements, so in tuples for one in elements[item : item + 1]]
        if not parts or len(parts) != len(given):
            return False
        by_constants = {so for _, so in parts} == {True, False} and all(dotted(part) == str(so) for part, so in parts)
        return by_constants or (len({dotted(part) for part, _ in parts}) == 1 and dotted(parts[0][0]) in left)

    calls = [call for call in flow.callers(keeper) if loop.statement in index.statement(call).path]
    flags = {b.target for b in index.bindings if b.value in calls and tells(b.item)}
    asked = calls if tells(None) else []

    def says(test: cst.BaseExpression) -> bool:
        answered = mentions(test, flags) or any(one in asked for one in nodes_in(test))
        return answered or any(_names(flow, test, loop.scope, flag, keeper) for flag in left)

    told = partial(_is_better, index, loop, says)
    for part in index.statements:
        if isinstance(part.node, cst.If) and part.scope is loop.scope and loop.statement in part.path:
            yield from _better_branch(index, part, told, [], [])


def _flags_left(index: Index, keeper: Scope, better: set[Statement]) -> Iterator[str]:
    """Yield the names that a function leaves true where the score is better, and false elsewhere: `self.improved`.

    It gives them both by constants, or a condition by which it keeps the best itself: `if self.improved: ...`.
    """
    given: dict[str, list[Binding]] = {}
    for b in index.bindings:
        if b.statement.scope is keeper:
            given.setdefault(b.target, []).append(b)
    tests = {one.parent.node.test for one in better if one.parent is not None and isinstance(one.parent.node, cst.If)}
    asked = {dotted(test) for test in tests}
    for name, bound in given.items():
        known = {(dotted(b.value), _is_in(b, better)) for b in bound}
        if known == {("True", True), ("False", False)} or (
            name in asked and not {"True", "False"} & dict(known).keys()
        ):
            yield name


def _is_better(
    index: Index, loop: EpochLoop, tells: Callable[[cst.BaseExpression], bool], test: cst.BaseExpression, holds: bool
) -> bool:
    """Whether the score is surely the best so far where a condition holds, or does not, as in a first turn it is.

    Args:
        tells: whether a part of it asks for that.
    """
    better = partial(_is_better, index, loop, tells)
    if isinstance(test, cst.UnaryOperation):
        return better(test.expression, not holds)
    if isinstance(test, cst.Comparison) and dotted(test.comparisons[0].comparator) == "False":
        return isinstance(test.comparisons[0].operator, (cst.Is, cst.Equal)) and better(test.left, not holds)
    if isinstance(test, cst.BooleanOperation):
        sides = better(test.left, holds), better(test.right, holds)
        return any(sides) if isinstance(test.operator, cst.And) is holds else all(sides)
    return holds and (tells(test) or is_first_turn(index, loop, test))


def _better_branch(
    index: Index,
    part: Statement,
    better: Callable[[cst.BaseExpression, bool], bool],
    given: list[Statement],
    guards: list[Statement],
) -> Iterator[Statement]:
    """Yield the branches of an `if` that give the best, else the one that is surely taken for a better score."""
    node: cst.CSTNode | None = part.node
    assert isinstance(node, cst.If)
    first = index.statements_in(node.body)
    other = [one for one in index.statements if one.parent is part and one not in first]
    if given:
        giving = [one for one in (*first, *other) if any(one in g.path for g in given)]
        yield from (one for one in (*first, *other) if any(one in g.siblings for g in giving))
        while isinstance(node, cst.If):  # and those of a tie, `elif acc == best`
            asked = [one for one in conjuncts(node.test) if isinstance(one, cst.Comparison)]
            tied = [one for one in asked if isinstance(one.comparisons[0].operator, cst.Equal)]
            yield from index.statements_in(node.body) if any(better(one, True) for one in tied) else []
            node = node.orelse
    elif not any(part in goes_on.path for goes_on in guards):
        yield from first if better(node.test, True) else other if better(node.test, False) else []


def _set_by_calls(flow: Flow, loop: EpochLoop, bound: list[Binding], holder: str, keeper: Scope) -> list[Statement]:
    """Return the calls, where the best so far is asked for, of functions that set it."""
    index = flow.index
    setting = {
        b.statement.scope for b in bound if b.statement.scope is not keeper and _is_same(flow, b, holder, keeper)
    }
    calls = [index.statement(call) for one in setting for call in flow.callers(one) if index.scope_of(call) is keeper]
    calls = [one for one in calls if keeper is not loop.scope or loop.statement in one.path]
    asking = [(one, one.parent.node) for one in calls if one.parent is not None]
    return [one for one, node in asking if isinstance(node, cst.If) and mentions(node.test, [holder])]


def _run_by(flow: Flow, blocks: set[Statement]) -> set[Scope]:
    """Return the functions that run only by some statements."""
    functions, before = called_in(flow.index, flow, *blocks), set[Scope]()
    while functions != before:
        before, functions = functions, {one for one in functions if _is_led_to(flow, one, blocks, functions)}
    return functions


def _is_led_to(flow: Flow, function: Scope, blocks: set[Statement], functions: set[Scope]) -> bool:
    """Whether each call of a function stands in some blocks or functions."""
    calls = [(flow.index.statement(call), flow.index.scope_of(call)) for call in flow.callers(function)]
    return all(scope in functions or not blocks.isdisjoint(statement.path) for statement, scope in calls)


def _is_same(flow: Flow, binding: Binding, name: str, scope: Scope) -> bool:
    """Whether what gets a value is what a function has by some name."""
    given, here = _whole(binding.target), binding.statement.scope
    alike = given.rpartition(".")[2] == name.rpartition(".")[2]
    return alike and flow.member(given.partition("[")[0], here) == flow.member(name.partition("[")[0], scope)


def _as_bound(name: str, bound: set[str]) -> str:
    """Return the whole of which a variable, attribute or item is part, as it gets its values; "" for none."""
    whole, before = name, ""
    while whole not in ("", before, *bound):
        before, whole = whole, re.sub(r"(^|\.)\w+$|\[[^\[\]]*\]$", "", whole)
    given_by_method = re.fullmatch(r"([\w.]+)(\[[^\[\]]+\])+", name)
    return whole if whole in bound else given_by_method[1] if given_by_method else ""


def _is_in(binding: Binding, some: set[Statement]) -> bool:
    return not some.isdisjoint(binding.statement.path)


def _whole(name: str) -> str:
    """Return a dict that is filled by keys that are worked out, `state[name]`, else the variable or item itself."""
    return re.sub(r"\[[^\d'\"\[].*", "", name)


def _afterwards(flow: Flow, loop: EpochLoop, keeper: Scope) -> list[tuple[cst.CSTNode, Scope]]:
    """Return what runs after the loop, with its scopes: statements, and the functions and properties that they use."""
    found: list[tuple[cst.CSTNode, Scope]] = [(later.node, later.scope) for later in loop.leftovers]
    found += [(cst.parse_expression(loop.result), loop.scope)] if loop.result else []
    seen: set[Scope | None] = {None, keeper, loop.scope}
    for node, scope in found:
        calls = (part for part in nodes_in(node) if isinstance(part, cst.Call) and part in flow.index.parents)
        used = [*map(flow.called, calls)]
        used += (one for name in names_in(node) for part in wholes_of(name) for one in flow.properties(part, scope))
        found += [(one.node, one) for one in dict.fromkeys(used) if one is not None and one not in seen]
        seen.update(used)
    return found


def _names(flow: Flow, node: cst.CSTNode, scope: Scope, name: str, keeper: Scope) -> bool:
    """Whether code in a scope has the variable that ``name`` means in another."""
    whole = name.partition("[")[0]
    said = {part for found in names_in(node) for part in wholes_of(found)}
    alike = (one for one in said if one.rpartition(".")[2] == whole.rpartition(".")[2])
    return any(flow.member(one, scope) == flow.member(whole, keeper) for one in alike)


def _begins_anew(binding: Binding) -> bool:
    """Whether a name gets a value that is not made of the one that it has: `f` in `with open(path) as f:`."""
    value, node = binding.value, binding.statement.node
    if value is None and isinstance(node, cst.For):
        return not mentions(node.iter, [binding.target])
    return isinstance(node, cst.With) if value is None else not mentions(value, [binding.target])
