"""The way through conditions to the place where a score is made, and which ranks go it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import libcst as cst

from retrofit.knowledge.kinds import Collective
from retrofit.survey.conditions import given_constants, holds_with
from retrofit.survey.counters import counts_alike
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import conjuncts, in_else_of
from retrofit.survey.names import Source, Variable
from retrofit.survey.nodes import argument, dotted, leaves, mentions, names_in, nodes_in
from retrofit.survey.ranks import is_rank, of_some
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.scores.values import code_within


@dataclass(frozen=True)
class Way:
    """The way from a body through conditions to the place where the score is made.

    Attributes:
        guard: the outermost conditional statement around that place, None where there is none.
        block: a statement of the block in which the score is known.
        condition: the code of a condition on it, other than a rank check; "" for none.
        ranks: "first" where a rank check is on it, else "all".
        looped: whether it leads through a loop to a further condition.
    """

    guard: Statement | None
    block: Statement
    condition: str
    ranks: str
    looped: bool = False


def way_in(
    index: Index,
    flow: Flow,
    body: Statement,
    made: Statement,
    batches: Collection[Statement] = (),
    call: cst.Call | None = None,
) -> Way:
    """Go from the body of a loop or function towards the place where the score is made, through conditions only.

    What is made under a condition inside a loop of its own may never be made, so that loop is the guard then.

    Args:
        batches: the loops whose own conditions count: a turn has a score where they hold for one of its batches.
        call: what runs the function; no condition counts that holds by the constants which it gives.
    """
    inner, known = made.path[made.path.index(body) + 1 :], given_constants(made.scope, call, flow) if call else {}
    conditions: list[tuple[str, str]] = []  # alone, and beside others
    guard, block, ranked, looped, untold = None, inner[-1], False, False, False
    for number, (statement, below) in enumerate(zip(inner, [*inner[1:], None], strict=True)):
        node = statement.node
        if below is not None and in_else_of(index, statement, below):
            guard = guard or statement
            continue
        deeper = below is not None and any(isinstance(part.node, cst.If) for part in inner[number + 1 : -1])
        if not isinstance(node, cst.If) and deeper:
            looped = looped or not isinstance(node, cst.With)
            untold = untold or not (isinstance(node, cst.With) or statement in batches)
            guard = guard or statement
            continue
        if not isinstance(node, cst.If) or below is None:
            block = statement
            break
        guard = guard or statement
        yes = code_within(index, below.node, node.body)
        parts = conjuncts(node.test) if yes else [node.test]
        parts = [part for part in parts if not (yes and _is_there(flow, part, statement))]
        parts = [part for part in parts if holds_with(part, known) is not yes]
        common = [part for part in parts if not by_rank(index, flow, part, statement)]
        ranked = ranked or len(common) < len(parts)
        if untold:
            continue
        code = [index.source.code(part) if yes else f"not ({index.source.code(part)})" for part in common]
        whole = yes and len(common) == len(conjuncts(node.test))
        told = [(one, one) for one in code]
        conditions += [(index.source.code(node.test), bracketed(index, node.test))] if whole else told
    condition = " and ".join(one[len(conditions) > 1] for one in conditions)
    return Way(guard, block, condition, "first" if ranked else "all", looped)


def bracketed(index: Index, test: cst.BaseExpression) -> str:
    """Return the code of a condition as it stands beside others that hold as well."""
    either = isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.Or)
    low = (either or isinstance(test, (cst.IfExp, cst.Lambda))) and not test.lpar
    code = index.source.code(test)
    return f"({code})" if low or "\n" in code else code


def _is_there(flow: Flow, test: cst.BaseExpression, at: Statement) -> bool:
    """Whether a condition asks for a function of the project, which is never None: `if self.validate is not None`."""
    first = test.comparisons[0] if isinstance(test, cst.Comparison) and len(test.comparisons) == 1 else None
    none = first is not None and isinstance(first.operator, cst.IsNot) and dotted(first.comparator) == "None"
    asked = test.left if none and isinstance(test, cst.Comparison) else test
    name = dotted(asked)
    found = flow.defined(asked, at.scope) if name is not None else None
    plain = found is not None and isinstance(found.node, cst.FunctionDef) and not found.node.decorators
    return plain and name is not None and not flow.sources(flow.variable(name, at.scope))


def by_rank(index: Index, flow: Flow, test: cst.BaseExpression, at: Statement) -> bool:
    """Whether a condition may hold on some ranks only.

    It names a rank, a flag that a rank check gives, or what only some ranks have: `if should_write:`, `if result:`.
    What a collective has given all of them by then does not count.
    """
    if of_some(flow, test) or _compares_rank(index, flow, test, at):
        return True
    around = tests_around(at)
    return any(
        source.value is not None
        and at not in index.statement(source.value).path
        and _given_by_rank(index, flow, source.value, around)
        for name in names_in(test, called=False)
        if not _is_shared(index, name, at)
        for source in _sources_of(flow, flow.sources(flow.variable(name, at.scope)), set())
    )


def _is_shared(index: Index, name: str, at: Statement) -> bool:
    """Whether a variable is surely made anew, before a statement, of what a collective gives all ranks: `sent[0]`."""
    early = [b for b in index.bound([name], at.scope) if b.statement.order < at.order]
    last = max(early, key=lambda b: b.statement.order, default=None)
    if last is None or last.value is None or not any(last.statement in part.preceding for part in at.path):
        return False
    known = {full: one for full, one in index.knowledge.named(Collective).items() if one.result and not one.rank}
    calls = [(call, one) for full, one in known.items() for call in index.calls_to(full)]
    calls = [(call, one) for call, one in calls if index.scope_of(call) is at.scope]
    calls = [(call, one) for call, one in calls if index.statement(call).order < last.statement.order]
    given = [argument(call, *what) for call, one in calls for what in one.result.items()]
    return mentions(last.value, {dotted(one) or "" for one in given} - {""})


def _sources_of(flow: Flow, given: Iterable[Source], seen: set[Variable]) -> list[Source]:
    """Return what a variable is given, and what the names are given that are handed on to it.

    Args:
        given: what it is given itself.
        seen: gets those names.
    """
    waiting, found = [*given], list[Source]()
    for source in waiting:
        found.append(source)
        name = dotted(source.value)
        before = flow.variable(name, source.scope) if name is not None else None
        if before is not None and before not in seen:
            seen.add(before)
            waiting += flow.sources(before)
    return found


def _compares_rank(index: Index, flow: Flow, test: cst.BaseExpression, at: Statement) -> bool:
    """Whether a condition compares what holds a rank, whatever its name, with numbers: `conf.device == 0`."""
    numbers = (cst.Integer, cst.List, cst.Tuple)
    compared = [one for one in nodes_in(test) if isinstance(one, cst.Comparison)]
    sides = [(one.left, one.comparisons[0].comparator) for one in compared]
    return any(
        _holds_rank(flow, one, at.scope)
        for left, right in sides
        for one, other in ((left, right), (right, left))
        if isinstance(other, numbers)
    )


def _holds_rank(flow: Flow, node: cst.BaseExpression, scope: Scope) -> bool:
    """Whether a variable is given a rank somewhere, or the number by which a process is started."""
    name = dotted(node)
    names = {flow.variable(name, scope)} if name is not None else set[Variable]()
    ranked = any(
        one.value is not None and is_rank(flow, one.value) for one in _sources_of(flow, flow.given(node, scope), names)
    )
    numbered = (function for function, own in names if own in function.parameters[:1])
    return ranked or any(flow.spawns(call) for function in numbered for call in flow.callers(function))


def _given_by_rank(index: Index, flow: Flow, value: cst.BaseExpression, around: Collection[cst.BaseExpression]) -> bool:
    """Whether a value differs between ranks, as a rank check tells that is not around what asks for it as well."""
    tests = [value.test if isinstance(value, cst.IfExp) else value]
    tests = [] if is_rank(flow, value) else tests  # a condition may be of it on all alike: `rank is not None`
    function = flow.called(value) if isinstance(value, cst.Call) else None
    returns = [index.statement(node) for node, scope in index.returns if scope is function]
    for place in [index.statement(value), *returns]:
        tests += tests_around(place)
    return any(of_some(flow, test) for test in tests if test not in around)


def tests_around(place: Statement) -> list[cst.BaseExpression]:
    """Return the conditions around a statement within its function."""
    return [part.node.test for part in place.around if isinstance(part.node, cst.If)]


def common_condition(index: Index, flow: Flow, way: Way) -> str:
    """Return what of the conditions on the way is the same on all ranks and holds afterwards too, "" where unclear."""
    assert way.guard is not None
    around = [part for part in way.block.path[:-1] if way.guard in part.path]
    ifs = [(part, part.node) for part in around if isinstance(part.node, cst.If)]
    parts = [p for part, node in ifs for p in conjuncts(node.test) if not by_rank(index, flow, p, part)]
    inside = [b for b in index.bindings if way.guard in b.statement.path]
    found = []
    for part in parts:
        code, asked = index.source.code(part), index.statement(part)
        changed = {b.target for b in inside if b.statement.order > asked.order or not counts_alike(b)}
        changed.update(name for scope in index.scopes for name in scope.outer)
        calls = set(re.findall(r"([\w.]+)\(", code)) - {"len", "int", "min", "max"}
        if calls or ":=" in code or not changed.isdisjoint(re.findall(r"[\w.]+", code)):
            return ""
        found.append(bracketed(index, part))
    return " and ".join(found) if all(code_within(index, way.block.node, node.body) for _, node in ifs) else ""


def cut_off_at(index: Index, flow: Flow, place: Statement, report: Statement, passing: list[Statement]) -> int:
    """Return the line at which some ranks leave the epoch before its score can be handed over, 0 where none do.

    Args:
        place: what makes the score.
        report: the statement after which it is handed over.
        passing: every `continue` of the loop.
    """
    for earlier in place.preceding:
        node = earlier.node
        if isinstance(node, cst.If) and leaves(node.body) and by_rank(index, flow, node.test, earlier):
            return index.source.position(node)[0]
    alone = left_by_some(index, flow, report, [part for part in passing if part.order <= report.last])
    return index.source.position(alone.node)[0] if alone is not None else 0


def left_by_some(index: Index, flow: Flow, place: Statement, passing: list[Statement]) -> Statement | None:
    """Return the first `continue` to which some ranks alone come, by a condition that is not around a place as well."""
    for part in passing:
        choices = [(one, one.node.test) for one in part.around if isinstance(one.node, cst.If)]
        if any(one not in place.around and by_rank(index, flow, test, one) for one, test in choices):
            return part
    return None


def last_before_leaving(place: Statement) -> Statement:
    """Return the last statement of the block that does not end it."""
    last = place.siblings[-1]
    node = last.node
    if isinstance(node, cst.SimpleStatementLine) and isinstance(
        node.body[0], (cst.Return, cst.Continue, cst.Break, cst.Raise)
    ):
        return last.siblings[last.index - 1] if last.index else last
    return last
