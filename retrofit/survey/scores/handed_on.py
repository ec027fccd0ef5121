"""The best score so far that a function gets from the epoch loop, and hands back to it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from retrofit.survey.conditions import argument_of
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted, names_in, unquoted
from retrofit.survey.scopes import Binding, Scope
from retrofit.survey.scores.best import tracked_scores
from retrofit.survey.scores.values import bare_of, bindings_of, code_of, element_of, in_loop, written_items
from retrofit.survey.scores.ways import tests_around
from retrofit.survey.scores.words import Candidate
from retrofit.survey.sites.loop import EpochLoop


def best_in(index: Index, flow: Flow, loop: EpochLoop, name: str) -> list[Candidate]:
    """Return what a function compares with the best so far that it returns to the epoch loop.

    Args:
        name: the loop's variable that holds it, or the code of the item of one: `state["best"]`.
    """
    found: list[Candidate] = []
    whole, _, key = unquoted(name).partition("[")
    for binding in bindings_of(index, loop, whole):
        call = binding.value
        function = flow.called(call) if isinstance(call, cst.Call) else None
        if isinstance(call, cst.Call) and function is not None:
            if key:
                found += _bests_in_item(index, loop, function, binding, key)
            else:
                bests = bests_returned(index, function, binding.item)
                found += [one for one in bests if _goes_on(index, loop, function, binding, one.best)]
            found += _bests_in_attribute(index, flow, function, binding.item, key)
    return found


def _bests_in_attribute(index: Index, flow: Flow, function: Scope, item: int | None, key: str) -> Iterator[Candidate]:
    """Yield scores of which a function returns the best so far as an attribute has it: `self.best = f(self.best)`.

    Args:
        item: which of what it returns is meant.
        key: the number of the item of that which is meant, and a bracket; "" for the whole.
    """
    names = {dotted(element_of(value, item)) or "" for value in index.returned(function)}
    numbers = [int(key[:-1])] if key[:-1].isdecimal() else [] if key else [None]
    for binding in index.bound(names, function) if len(names) == 1 else ():
        call = binding.value if "." in binding.target and binding.item is None else None
        inner = flow.called(call) if isinstance(call, cst.Call) else None
        anew = any(other is not binding for other in index.bound([binding.target], function))
        if not isinstance(call, cst.Call) or inner is None or anew:
            continue
        for one in (one for number in numbers for one in bests_returned(index, inner, number)):
            parameter, part = _given(index, inner)[one.best]
            if dotted(argument_of(inner, call, parameter)) == binding.target and part == key[:-1]:
                yield one


def _bests_in_item(index: Index, loop: EpochLoop, function: Scope, taken: Binding, key: str) -> list[Candidate]:
    """Return scores of a function that puts the best so far of them into an item of what it returns."""
    returned = {dotted(element_of(value, taken.item)) for value in index.returned(function)}
    targets = {f"{one}[{key}" for one in returned}
    filled = [b for b in index.items if b.statement.scope is function and unquoted(b.target) in targets]
    if len(returned) != 1 or not filled:
        return []
    tracked = tracked_scores(index, code_of(index, function), list(function.parameters))
    kept = [c for c in tracked if not c.outside and {c.best} == {dotted(one.value) for one in filled}]
    if all(is_handed_on(index, one) for one in filled):
        return kept
    return [c for c in kept if c.best in function.parameters and _goes_on(index, loop, function, taken, c.best)]


def is_handed_on(index: Index, filled: Binding) -> bool:
    """Whether a function fills an item with what it got as that item, and gives it another value on some ways only.

    So it hands on the best of all epochs, or how many have brought nothing, and no score of the epoch's own.
    """
    function, code = filled.statement.scope, unquoted(filled.target)
    name = dotted(filled.value) or ""
    bound = index.bound([name], function)
    got = [one for one in bound if one.value is not None and unquoted(index.source.code(one.value)) == code]
    own = index.bound([code.partition("[")[0]], function)  # begun here, and so none that it got
    kept = [one for one in bound if tests_around(one.statement) or (one.value and name in names_in(one.value))]
    return bool(got) and not own and all(one in got or one in kept for one in bound)


def bests_returned(index: Index, function: Scope, item: int | None) -> Iterator[Candidate]:
    """Yield scores of a function that returns the best so far of them, and got it: it returns that, or a better one."""
    given = _given(index, function)
    values = [element_of(value, item) for value in index.returned(function)]
    returned = [one for value in values if value is not None for one in _either(value)]
    codes = {index.source.code(bare_of(one)) for one in returned}
    for best in sorted(given.keys() & codes) if None not in values else ():
        taking = [Binding(best, value, None, index.statement(value)) for value in values if value is not None]
        for one in tracked_scores(index, code_of(index, function), list(given), taking):
            if one.best == best and not one.outside and codes <= {best, index.source.code(bare_of(one.node))}:
                yield one


def _either(value: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return what a value is one of: `min(best, loss)`, `best if best < loss else loss`."""
    if isinstance(value, cst.IfExp):
        return [value.body, value.orelse]
    if isinstance(value, cst.Call) and dotted(value.func) in ("min", "max") and len(value.args) == 2:
        return [arg.value for arg in value.args]
    return [value]


def _given(index: Index, function: Scope) -> dict[str, tuple[str, str]]:
    """Return what a function is given, by its own names for it, each as a parameter and the key of the item in it."""
    found = {name: (name, "") for name in function.parameters}
    for binding in index.bindings:
        value, key = binding.value, "" if binding.item is None else str(binding.item)
        if isinstance(value, cst.Subscript):
            key, value = index.source.code(value.slice[0].slice), value.value
        if binding.statement.scope is function and dotted(value) in function.parameters:
            found.setdefault(binding.target, (dotted(value) or "", key))
    return found


def _goes_on(index: Index, loop: EpochLoop, function: Scope, taken: Binding, best: str) -> bool:
    """Whether a call gives a best so far that the loop has of it, rather than one with which it begins anew.

    A parameter that it compares may be given something else, as a threshold that the training has chosen.
    """
    assert isinstance(taken.value, cst.Call)
    parameter, key = _given(index, function)[best]
    whole = argument_of(function, taken.value, parameter)
    given = dict(written_items(index, whole)).get(key, whole) if whole is not None else None
    inside = [b for b in (*index.bindings, *index.items, *index.appended) if in_loop(index, loop, b.statement.node)]
    roots, made = {_root(taken.target)}, set[str]()
    while roots != made:
        made = set(roots)
        roots |= {_root(b.target) for b in inside if b.value and not made.isdisjoint(map(_root, names_in(b.value)))}
    return given is not None and not made.isdisjoint(map(_root, names_in(given, called=False)))


def _root(name: str) -> str:
    return name.partition("[")[0].partition(".")[0]
