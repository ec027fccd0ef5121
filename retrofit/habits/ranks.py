"""Which ranks run a statement."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Literal

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index, Scope, Statement, dotted

#: "first": rank 0 alone, or the first rank of each machine; "others": the rest; "all": every rank, as far as the whole
#: way there can be seen; "unknown": it depends on code elsewhere.
Ranks = Literal["first", "others", "all", "unknown"]

_RANK = re.compile(r"(^|[._])((local|global|world|dist|ddp|process|worker|proc)_?)?rank(_?id)?$|^get_\w*rank$", re.I)
_FIRST = re.compile(
    r"(^|[._])_?(is|am|on|if)_?(the_)?(global_|local_|world_)?"
    r"(main|master|primary|chief|root|first|zero|rank_?(zero|0)|rank_?first|logging|save)"
    r"(_?(process|proc|rank|worker|node|thread|zero|gpu))*$|(^|[._])(main|master|primary)_?(process|proc|rank)$|rank_?(zero|0)$",
    re.I,
)
#: The number of a machine, which all ranks on it share.
_NODE_RANK = re.compile(r"(node|machine|host)_?rank", re.I)
_ONLY_FIRST = re.compile(
    r"(rank_?(zero|0)|master|main(_process)?|primary|main_rank|first)_?(only|process|rank)|on_main_process"
)
_ALONE = re.compile(
    r"distributed|is_initialized|is_available|world_size|multi|\bddp\b|parallel|n_?gpus?|num_gpus", re.I
)
#: A condition with such a word may differ from rank to rank.
_MAY_TELL = re.compile(
    r"rank|(?<![a-z_])nr(?![a-z_])|(?<![a-z])(proc|process|node|machine|host)_?(id|nr)(?![a-z])"
    r"|(?<![a-z])(is|if|on)_?(main|master|primary|chief|root|first|zero)|(?<![a-z])(gpu|device|node|process|worker|proc)s?"
    r"(_?(id|idx|index|no|num|number))?\s*(==|!=|>|<)|process_index|hostname|(?<![a-z])(log|logger|logging|writer|saver)(?![a-z])",
    re.I,
)


_MIRRORED: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.LessThan: cst.GreaterThan,
    cst.GreaterThan: cst.LessThan,
    cst.LessThanEqual: cst.GreaterThanEqual,
    cst.GreaterThanEqual: cst.LessThanEqual,
}


def condition(index: Index, test: cst.BaseExpression) -> Literal["first", "others", ""]:
    """Return which ranks a condition lets through, "" where it is about something else.

    `rank == 0`, `not rank`, `is_main_process()`, `rank in (-1, 0)` and `not distributed or rank == 0` let the first
    one through. `rank == -1` is about something else: it means that the run is not distributed.
    """
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        if _is_rank(index, test.expression):
            return "first"
        return _opposite(condition(index, test.expression))
    if isinstance(test, cst.BooleanOperation):
        sides = [condition(index, side) for side in (test.left, test.right)]
        if isinstance(test.operator, cst.And):
            return next((side for side in sides if side), "")
        if all(sides) and len(set(sides)) == 1:
            return sides[0]
        other = test.left if sides[1] else test.right
        undistributed = _ALONE.search(index.source.code(other)) or _distributed(index, other) is False
        return "first" if "first" in sides and undistributed else ""
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        return _compared(index, test.left, test.comparisons[0])
    name = dotted(test.func if isinstance(test, cst.Call) else test) or ""
    return "first" if _FIRST.search(name) else ""


def _opposite(ranks: Ranks | Literal[""]) -> Literal["first", "others", ""]:
    return {"first": "others", "others": "first"}.get(ranks, "")  # type: ignore[return-value]


def _compared(index: Index, left: cst.BaseExpression, part: cst.ComparisonTarget) -> Literal["first", "others", ""]:
    right = part.comparator
    operator: type[cst.BaseCompOp] = type(part.operator)
    if _is_rank(index, right) and not _is_rank(index, left):
        left, right = right, left
        operator = _MIRRORED.get(operator, operator)
    value = index.source.code(right).strip("\"'")
    if not _is_rank(index, left):
        if operator is cst.Equal and value == "True":
            return condition(index, left)
        return ""
    if operator in (cst.Equal, cst.Is) and value == "0":
        return "first"
    with_zero = re.fullmatch(r"[(\[{]\s*(-1|0)(\s*,\s*(-1|0))*,?\s*[)\]}]", value) is not None and "0" in value
    if operator is cst.In and with_zero:
        return "first"
    if (operator, value) in ((cst.LessThan, "1"), (cst.LessThanEqual, "0")):
        return "first"
    if (operator, value) in (
        (cst.NotEqual, "0"),
        (cst.GreaterThan, "0"),
        (cst.GreaterThanEqual, "1"),
        (cst.IsNot, "0"),
    ):
        return "others"
    return "others" if operator is cst.NotIn and with_zero else ""


def _distributed(index: Index, test: cst.BaseExpression) -> bool | None:
    """Whether a comparison of a rank says that the run is distributed, None where it says something else.

    A rank of -1 stands for a run that is not: `rank != -1` and `rank >= 0` hold on every rank, `rank == -1` on none.
    """
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    left, right = test.left, test.comparisons[0].comparator
    operator: type[cst.BaseCompOp] = type(test.comparisons[0].operator)
    if _is_rank(index, right):
        left, right, operator = right, left, _MIRRORED.get(operator, operator)
    if not _is_rank(index, left):
        return None
    compared = (operator, index.source.code(right).strip("\"'"))
    if compared in ((cst.NotEqual, "-1"), (cst.IsNot, "-1"), (cst.GreaterThan, "-1"), (cst.GreaterThanEqual, "0")):
        return True
    if compared in ((cst.Equal, "-1"), (cst.Is, "-1"), (cst.LessThanEqual, "-1"), (cst.LessThan, "0")):
        return False
    return None


def _is_rank(index: Index, node: cst.BaseExpression) -> bool:
    """Whether an expression is this process's rank: `args.local_rank`, `dist.get_rank()`, `int(os.environ["RANK"])`.

    The rank of a node is not: all of its processes have it.
    """
    if _NODE_RANK.search(index.source.code(node)):
        return False
    if isinstance(node, cst.Call):
        name = dotted(node.func) or ""
        if name in ("int", "str") and len(node.args) == 1:
            return _is_rank(index, node.args[0].value)
        if re.search(r"environ\.get$|getenv$", name) and node.args:
            return re.search(r"RANK", index.source.code(node.args[0].value)) is not None
        return re.search(r"get_\w*rank$|(^|\.)rank$|process_index$", name) is not None
    if isinstance(node, cst.Subscript):
        code = index.source.code(node)
        return (
            "environ" in code
            and re.search(r"[\"'](LOCAL_|GLOBAL_|SLURM_)?(RANK|PROCID|LOCALID)[\"']", code) is not None
        )
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
        return _is_rank(index, node.left)
    return _RANK.search(dotted(node) or "") is not None


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
    if any(_ONLY_FIRST.search(index.source.code(one.decorator)) for one in decorators):
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
        distributed = _distributed(index, meant)
        if inside and distributed is False:
            return "unknown"
        if not told and distributed is None and _may_tell(index, flow, outer, here.test):
            return passed or "unknown"
        if inside:
            return passed
        passed = passed or _opposite(told)
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
    if _MAY_TELL.search(index.source.code(test)):
        return True
    for name in _names(test):
        for source in flow.sources(flow.variable(name, at.scope)):
            if source.value is not None and _depends(index, source.value):
                return True
    return False


def _depends(index: Index, value: cst.BaseExpression) -> bool:
    """Whether only some ranks give a variable this value."""
    tests = [value.test] if isinstance(value, cst.IfExp) else []
    if isinstance(value, (cst.BooleanOperation, cst.Comparison, cst.UnaryOperation)):
        tests = [value]
    if any(condition(index, test) or _MAY_TELL.search(index.source.code(test)) for test in tests):
        return True
    statement = index.statement(value)
    parents = [part.parent.node for part in [statement, *statement.ancestors] if part.parent is not None]
    return any(isinstance(node, cst.If) and condition(index, node.test) for node in parents)


def _names(node: cst.CSTNode) -> Iterator[str]:
    """Yield the names and dotted names in an expression."""
    name = dotted(node)
    if name is not None:
        yield name
        return
    for child in node.children:
        yield from _names(child)


def _held_back(index: Index, flow: Flow, part: Statement) -> Ranks | Literal[""]:
    """Which ranks are left after an earlier `if rank != 0: return` of the same block."""
    for earlier in part.preceding:
        node = earlier.node
        if isinstance(node, cst.If) and node.orelse is None and _leaves(node.body):
            meant = _meant(index, flow, earlier, node.test)
            told = _opposite(condition(index, meant))
            if told and not isinstance(node.test, cst.BooleanOperation):
                return told
            if _distributed(index, meant) is False:
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
