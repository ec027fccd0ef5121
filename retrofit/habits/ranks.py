"""Which ranks run a statement."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index, Scope, Statement, dotted, names_in
from retrofit.survey.ranks import condition, distributed, opposite

#: "first": rank 0 alone, or the first rank of each machine; "others": the rest; "all": every rank, as far as the whole
#: way there can be seen; "unknown": it depends on code elsewhere.
Ranks = Literal["first", "others", "all", "unknown"]

_ONLY_FIRST = re.compile(
    r"(rank_?(zero|0)|master|main(_process)?|primary|main_rank|first)_?(only|process|rank)|on_main_process"
)
#: A condition with such a word may differ from rank to rank.
_MAY_TELL = re.compile(
    r"rank|(?<![a-z_])nr(?![a-z_])|(?<![a-z])(proc|process|node|machine|host)_?(id|nr)(?![a-z])"
    r"|(?<![a-z])(is|if|on)_?(main|master|primary|chief|root|first|zero)|(?<![a-z])(gpu|device|node|process|worker|proc)s?"
    r"(_?(id|idx|index|no|num|number))?\s*(==|!=|>|<)|process_index|hostname|(?<![a-z])(log|logger|logging|writer|saver)(?![a-z])",
    re.I,
)


def ranks_at(
    index: Index,
    flow: Flow,
    statement: Statement,
    spawns: Collection[cst.Call] = (),
    seen: frozenset[Scope] = frozenset(),
) -> Ranks:
    """Return which ranks get to a statement.

    Conditions around it, functions that leave early on some ranks, decorators such as `rank_zero_only` and all callers
    count. In a function whose callers cannot be seen it is "unknown", unless its own code tells; so is what the process
    does that starts the ranks itself.

    Args:
        spawns: the calls that start the ranks, such as `mp.spawn(main_worker, ...)`.
    """
    for part in [statement, *statement.ancestors]:
        node = part.node
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)) and part is not statement:
            break
        told: Ranks | Literal[""] = _held_back(index, flow, part)
        if told:
            return told
        outer = part.parent
        if outer is not None and isinstance(outer.node, cst.If):
            told = _branch(index, flow, outer, part)
            if told:
                return told
    scope = statement.scope
    if scope.kind == "module":
        return "unknown" if spawns else "all"
    if scope.kind != "function" or scope in seen:
        return "unknown"
    decorators = scope.node.decorators if isinstance(scope.node, cst.FunctionDef) else ()
    if any(_ONLY_FIRST.search(index.source.read(one.decorator)) for one in decorators):
        return "first"
    calls = flow.callers(scope)
    if any(call in spawns for call in calls):
        return "all"
    ways = {ranks_at(index, flow, index.statement(call), spawns, seen | {scope}) for call in calls}
    return ways.pop() if len(ways) == 1 else ("unknown" if not ways or "unknown" in ways else "all")


def _branch(index: Index, flow: Flow, outer: Statement, part: Statement) -> Ranks | Literal[""]:
    """Which ranks get into the branch of an `if` or `elif` that holds a statement, "" where all may."""
    assert isinstance(outer.node, cst.If)
    passed: Ranks | Literal[""] = ""
    here: cst.If | cst.Else | None = outer.node
    while isinstance(here, cst.If):
        meant = _meant(index, flow, outer, here.test)
        told = condition(index, meant)
        inside = part.siblings is index.statements_in(here.body)
        if inside and told:
            return told
        several = distributed(index, meant)
        if inside and several is False:
            return "unknown"
        if not told and several is None and _may_tell(index, flow, outer, here.test):
            return passed or "unknown"
        if inside:
            return passed
        passed = passed or opposite(told)
        here = here.orelse
    return passed


def _meant(index: Index, flow: Flow, at: Statement, test: cst.BaseExpression) -> cst.BaseExpression:
    """Return the condition that a flag stands for, where it is given just once: `first = rank == 0`."""
    name = dotted(test)
    sources = [] if name is None else flow.sources(flow.variable(name, at.scope))
    value = sources[0].value if len(sources) == 1 and sources[0].item is None else None
    return test if value is None or isinstance(value, (cst.Name, cst.Attribute)) else value


def _may_tell(index: Index, flow: Flow, at: Statement, test: cst.BaseExpression) -> bool:
    """Whether ranks may go different ways at a condition of which more cannot be said.

    It names something of a rank, or what is given where only some ranks come, such as rank 0's logger.
    """
    if _MAY_TELL.search(index.source.read(test)):
        return True
    for name in names_in(test):
        for source in flow.sources(flow.variable(name, at.scope)):
            if source.value is not None and _depends(index, source.value):
                return True
    return False


def _depends(index: Index, value: cst.BaseExpression) -> bool:
    """Whether only some ranks give a variable this value."""
    tests = [value.test] if isinstance(value, cst.IfExp) else []
    if isinstance(value, (cst.BooleanOperation, cst.Comparison, cst.UnaryOperation)):
        tests = [value]
    if any(condition(index, test) or _MAY_TELL.search(index.source.read(test)) for test in tests):
        return True
    statement = index.statement(value)
    parents = [part.parent.node for part in [statement, *statement.ancestors] if part.parent is not None]
    return any(isinstance(node, cst.If) and condition(index, node.test) for node in parents)


def _held_back(index: Index, flow: Flow, part: Statement) -> Ranks | Literal[""]:
    """Which ranks are left after an earlier `if rank != 0: return` of the same block."""
    for earlier in part.preceding:
        node = earlier.node
        if isinstance(node, cst.If) and node.orelse is None and _leaves(node.body):
            meant = _meant(index, flow, earlier, node.test)
            told = opposite(condition(index, meant))
            if told and not isinstance(node.test, cst.BooleanOperation):
                return told
            if distributed(index, meant) is False:
                continue
            if told or _may_tell(index, flow, earlier, node.test):
                return "unknown"
    return ""


def _leaves(body: cst.BaseSuite) -> bool:
    last = body.body[-1] if body.body else None
    small = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
    if isinstance(small, (cst.Return, cst.Continue, cst.Raise)):
        return True
    return (
        isinstance(small, cst.Expr)
        and isinstance(small.value, cst.Call)
        and dotted(small.value.func) in ("exit", "sys.exit", "quit")
    )
