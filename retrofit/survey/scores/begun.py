"""With what the best score so far begins, and what the epoch loop calls that which holds it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from retrofit.survey.counters import given_in
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import called_in
from retrofit.survey.nodes import dotted, mentions, parted, unquoted
from retrofit.survey.order import first_values, holder_may_be_none, may_lack_value
from retrofit.survey.scopes import Scope
from retrofit.survey.scores.values import in_loop, written_items
from retrofit.survey.scores.words import Candidate
from retrofit.survey.sites.loop import EpochLoop


def is_begun(index: Index, flow: Flow, loop: EpochLoop, name: str) -> bool:
    """Whether a variable, attribute or item has a value on every way to the epoch loop, as its function names it."""
    if name in loop.scope.parameters:
        return True
    return bool(_begun(index, flow, loop, name)) and not holder_may_be_none(index, flow, loop, name)


def _begun(index: Index, flow: Flow, loop: EpochLoop, name: str) -> list[cst.BaseExpression | None]:
    return [b.value for b in first_values(index, flow, loop, name)] or _parts_begun(index, flow, loop, name)


def _parts_begun(index: Index, flow: Flow, loop: EpochLoop, name: str) -> list[cst.BaseExpression | None]:
    """Return what an item, or an attribute that is set anew, has of what is made as a whole: `State(best=0.0)`."""
    holder, keys = parted(name)
    if not keys and _is_set(index, flow, loop, name):
        holder, _, key = name.rpartition(".")
        keys = [f"'{key}'"]
    keys = [unquoted(key) for key in keys]
    if not (holder and keys) or not all(re.fullmatch(r"'\w+'|\d+", key) for key in keys):
        return []
    begun = [b.value for b in first_values(index, flow, loop, holder)] or _parts_begun(index, flow, loop, holder)
    for key in keys:  # those that are seen, as the script reads it whatever it was given
        parts = [_parts_of(index, flow, value) for value in begun if value is not None]
        begun = [part[key] for part in parts if key in part]
    return begun


def _is_set(index: Index, flow: Flow, loop: EpochLoop, name: str) -> bool:
    """Whether something gives a variable or attribute a value, as a method of a dataclass's object does."""
    variable, last = flow.member(name, loop.scope), name.rpartition(".")[2]
    alike = [b for b in index.bindings if b.target == name or b.target.endswith(f".{last}")]
    return any(b.target == name or flow.member(b.target, b.statement.scope) == variable for b in alike)


def _parts_of(index: Index, flow: Flow, value: cst.BaseExpression) -> dict[str, cst.BaseExpression | None]:
    """Return what the parts of a new collection or object begin with, by their keys or names."""
    if not isinstance(value, cst.Call):
        items = written_items(index, value) if not isinstance(value, cst.Tuple) else []  # which takes no other item
        return {unquoted(key): part for key, part in items}
    made = flow.class_made(value)
    own = [b for one in flow.lineage(made) for b in index.bindings if b.statement.scope is one] if made else []
    given: dict[str, cst.BaseExpression | None] = {
        f"'{arg.keyword.value}'": arg.value for arg in value.args if arg.keyword is not None
    }
    plain = [arg for arg in value.args if arg.keyword is None]
    if plain and (made is None or not _is_dataclass(index, made) or any(arg.star for arg in plain)):
        return given  # whatever it makes of the others
    fields = flow.fields(made) if made else []
    given |= {f"'{name}'": arg.value for name, arg in zip(fields, plain, strict=False)}
    return {f"'{b.target}'": b.value for b in reversed(own)} | given


def _is_dataclass(index: Index, made: Scope) -> bool:
    """Whether a class takes its fields in their order."""
    decorators = made.node.decorators if isinstance(made.node, cst.ClassDef) else ()
    called = [one.decorator.func if isinstance(one.decorator, cst.Call) else one.decorator for one in decorators]
    return any(index.qualified(one) == "dataclasses.dataclass" for one in called)


def begins_at(index: Index, flow: Flow, loop: EpochLoop, candidate: Candidate) -> tuple[str, str]:
    """Return the direction that the first value of a best so far tells, and that value's code; "" where none does."""
    name = in_the_loop(index, flow, loop, candidate.holder, candidate.keeper)
    begun = _begun(index, flow, loop, name) if name else []
    codes = {index.source.code(value) for value in begun if value is not None}
    told = {begins(code) for code in codes}
    return (told.pop(), codes.pop()) if len(told) == len(codes) == 1 else ("", "")


def begins(code: str) -> str:
    """Return the direction in which a first value can be bettered: any score is lower than infinity, higher than 0."""
    bare = re.sub(
        r"""\bfloat\((["'])([+-]?)inf(inity)?\1\)|\b(np|numpy|math|torch)\.inf\b|\bsys\.maxsize\b""", r"\2inf", code
    )
    try:
        number = float(bare.replace(" ", "").replace("--", ""))
    except ValueError:
        return ""
    return "max" if number <= 0 else "min" if number >= 1000 else ""


def begins_again(index: Index, flow: Flow, loop: EpochLoop, candidate: Candidate) -> tuple[str, str]:
    """Return what the epoch loop calls a best so far that begins anew in some turn, and where; "" where none does.

    So it does as another stage begins, which may have another measure. What the first turn does is no such.
    """
    name = in_the_loop(index, flow, loop, candidate.holder, candidate.keeper) if candidate.holder else ""
    if not name or not is_begun(index, flow, loop, name):
        return "", ""
    running = called_in(index, flow, loop.statement)
    for bound in given_in(index, flow, loop.statement, running, name):
        code = index.source.code(bound.value) if bound.value is not None else ""
        ways = [one for one in flow.leading(bound.statement) if one.scope in running or loop.statement in one.path]
        inner = [part for one in ways for part in one.around if part.scope in running or loop.statement in part.path]
        tests = [part.node.test for part in inner if isinstance(part.node, cst.If)]
        asks = any(mentions(test, [bound.target]) or is_first_turn(index, loop, test) for test in tests)
        if tests and not asks and (code == "None" or begins(code)):
            return name, index.place(bound.statement.node, loop.file)
    return "", ""


def is_first_turn(index: Index, loop: EpochLoop, test: cst.BaseExpression) -> bool:
    """Whether a condition holds in a loop's first turn alone: `epoch == start` in `range(start, epochs)`."""
    counting = loop.anchors["range"]
    if not isinstance(counting, cst.Call) or not isinstance(test, cst.Comparison):
        return False
    first = index.source.code(counting.args[0].value) if len(counting.args) > 1 else "0"
    equal, other = test.comparisons[0].operator, test.comparisons[0].comparator
    return isinstance(equal, cst.Equal) and {*map(index.source.code, (test.left, other))} == {loop.target, first}


def in_the_loop(index: Index, flow: Flow, loop: EpochLoop, holder: str, keeper: Scope | None) -> str:
    """Return what the epoch loop calls a variable, or an attribute or item, of another function, "" for nothing."""
    if keeper is None or keeper is loop.scope:
        return holder
    root, bracket, key = holder.partition("[")
    variable, names = flow.variable(root, keeper), [root]
    if root in keeper.parameters:
        given = {*_given_by(flow, loop, root, keeper, set())}
        return f"{own}{bracket}{key}" if len(given) == 1 and (own := given.pop()) else ""
    if root.startswith("self."):
        calls = [call for call in index.calls if in_loop(index, loop, call)]
        held = [call.func.value for call in calls if isinstance(call.func, cst.Attribute)]
        held += [arg.value for call in calls for arg in call.args]  # to a function that calls its method
        held += _own_parts(flow, loop)
        sure = [name for name in sorted(loop.scope.names) if not may_lack_value(name, loop.statement, index)]
        names += [f"{name}{root[4:]}" for name in (*map(dotted, held), *sure) if name is not None]
    elif loop.scope is not keeper.module and root not in loop.scope.outer | loop.scope.names:
        return ""  # an assignment would make it a variable of the loop's function, or file
    return next((name + bracket + key for name in names if flow.member(name, loop.scope) == variable), "")


def _own_parts(flow: Flow, loop: EpochLoop) -> Iterator[cst.BaseExpression]:
    """Yield the attributes of the loop's own object whose methods the object's other ones call: `self.manager`."""
    index, own = flow.index, loop.scope.enclosing_class
    for function in called_in(index, flow, loop.statement):
        holder = function.enclosing_class
        if own is not None and holder is not None and flow.family(holder) is flow.family(own):
            held = [call.func.value for call in index.calls_of(function) if isinstance(call.func, cst.Attribute)]
            yield from (one for one in held if (dotted(one) or "").startswith("self."))


def _given_by(flow: Flow, loop: EpochLoop, name: str, scope: Scope, seen: set[Scope]) -> Iterator[str | None]:
    """Yield what the epoch loop calls that which a function gets as a parameter, also through functions between."""
    seen.add(scope)
    for source in flow.sources(flow.variable(name, scope)):
        given = dotted(source.value)
        if source.scope is loop.scope:
            yield given
        elif given in source.scope.parameters and source.scope not in seen:
            yield from _given_by(flow, loop, given, source.scope, seen)
