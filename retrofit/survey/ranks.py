"""Which ranks a condition lets through, and which get to a statement."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted, key_of, leaves, names_in
from retrofit.survey.order import always_leaves
from retrofit.survey.origins import Origin
from retrofit.survey.scopes import Scope, Statement

#: "first": rank 0 alone, or the first rank of each machine; "others": the rest; "all": every rank, as far as the whole
#: way there can be seen; "unknown": it depends on code elsewhere.
Ranks = Literal["first", "others", "all", "unknown"]

_RANK = re.compile(r"(^|[._])((local|global|world|dist|ddp|process|worker|proc)_?)?rank(_?id)?$|^get_\w*rank$", re.I)
#: A process's device, by whose number scripts tell ranks too.
_GPU = re.compile(r"(^|[._])gpu$", re.I)
#: The number of a machine, which all ranks on it share.
_NODE_RANK = re.compile(r"(node|machine|host)_?rank", re.I)
_FIRST = re.compile(
    r"(^|[._])_?(is|am|on|if)_?(the_)?(global_|local_|world_)?"
    r"(main|master|primary|chief|root|first|zero|rank_?(zero|0)|rank_?first|logging|save)"
    r"(_?(process|proc|rank|worker|node|thread|zero|gpu))*$|(^|[._])(main|master|primary)_?(process|proc|rank)$|rank_?(zero|0)$",
    re.I,
)
_ALONE = re.compile(
    r"distributed|is_initialized|is_available|world_size|multi|\bddp\b|parallel|n_?gpus?|num_gpus", re.I
)
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

_MIRRORED: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.LessThan: cst.GreaterThan,
    cst.GreaterThan: cst.LessThan,
    cst.LessThanEqual: cst.GreaterThanEqual,
    cst.GreaterThanEqual: cst.LessThanEqual,
}
#: Through how many variables what is compared is followed.
_DEPTH = 3
#: Comparisons of a rank that hold on the first one, on all others, on every one of a run that is distributed, on none.
_FIRST_ONE = {(cst.Equal, "0"), (cst.Is, "0"), (cst.LessThan, "1"), (cst.LessThanEqual, "0")}
_ALL_OTHERS = {(cst.NotEqual, "0"), (cst.IsNot, "0"), (cst.GreaterThan, "0"), (cst.GreaterThanEqual, "1")}
_EVERY_ONE = {(cst.NotEqual, "-1"), (cst.IsNot, "-1"), (cst.GreaterThan, "-1"), (cst.GreaterThanEqual, "0")}
_NONE = {(cst.Equal, "-1"), (cst.Is, "-1"), (cst.LessThanEqual, "-1"), (cst.LessThan, "0")}


def condition(flow: Flow, test: cst.BaseExpression, depth: int = _DEPTH) -> Literal["first", "others", ""]:
    """Return which ranks a condition lets through, "" where it is about something else.

    `rank == 0`, `not rank`, `is_main_process()`, `rank in (-1, 0)` and `not distributed or rank == 0` let the first
    one through. `rank == -1` is about something else: it means that the run is not distributed.

    Args:
        depth: through how many variables it is followed to what they are given.
    """
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        if is_rank(flow, test.expression, depth):
            return "first"
        return opposite(condition(flow, test.expression, depth))
    if isinstance(test, cst.BooleanOperation):
        sides = [condition(flow, side, depth) for side in (test.left, test.right)]
        if isinstance(test.operator, cst.And):
            return next((side for side in sides if side), "")
        if all(sides) and len(set(sides)) == 1:
            return sides[0]
        other = test.left if sides[1] else test.right
        undistributed = _ALONE.search(flow.index.source.read(other)) or distributed(flow, other) is False
        return "first" if "first" in sides and undistributed else ""
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        return _compared(flow, test, depth)
    values = given_alone(flow, test) if depth else []
    for value in values:
        if told := condition(flow, value, depth - 1):
            return told
    name = _called(test.func if isinstance(test, cst.Call) else test)
    return "first" if all(_is_unseen(flow, value) for value in values) and _FIRST.search(name) else ""


def of_some(flow: Flow, test: cst.BaseExpression) -> bool:
    """Whether a condition may hold on some ranks only, as a part of it compares a rank or says which one it is for."""
    if isinstance(test, cst.BooleanOperation):
        return of_some(flow, test.left) or of_some(flow, test.right)
    if isinstance(test, cst.UnaryOperation):
        return of_some(flow, test.expression)
    if distributed(flow, test) is not None:
        return False  # it holds on all ranks alike
    if isinstance(test, cst.Comparison) and _GPU.search(dotted(test.left) or ""):
        return flow.index.source.code(test.comparisons[0].comparator) == "0"
    _, value = _rank_compared(flow, test) or (None, "None")
    return value != "None" or is_rank(flow, test) or condition(flow, test) != ""


def _is_unseen(flow: Flow, value: cst.BaseExpression) -> bool:
    """Whether code elsewhere makes a value, so that the name by which it goes may be all that tells of it."""
    return isinstance(value, cst.Call) or (isinstance(value, cst.Subscript) and not given_alone(flow, value))


def _called(node: cst.BaseExpression) -> str:
    """Return by which name an expression goes: its own, or the key of an item; "" where it has none."""
    return dotted(node) or (key_of(node) or "").strip("\"'")


def given_alone(flow: Flow, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return all that a variable is given, or an item of a dict, nothing where that cannot be seen."""
    index = flow.index
    if node not in index.parents:
        return []
    if isinstance(node, cst.Subscript):
        return [one.node for one in flow.origins(node, index.scope_of(node)) if one != Origin(node)]
    if not isinstance(node, cst.Name):
        return []
    name, scope = node.value, index.scope_of(node)
    around = (one for one in scope.around if one.kind != "class")
    owner = next((one for one in (scope, *around) if name in one.names and name not in one.outer), scope)
    bound = [] if name in owner.parameters or name in owner.imports else index.bound((name,), owner)
    values = [one.value for one in bound if one.value is not None and one.item is None]
    return values if len(values) == len(bound) else []


def opposite(ranks: str) -> Literal["first", "others", ""]:
    """Return the ranks that a condition keeps out, where it lets through ``ranks``; "" where that cannot be told."""
    return {"first": "others", "others": "first"}.get(ranks, "")  # type: ignore[return-value]


def _compared(flow: Flow, test: cst.Comparison, depth: int) -> Literal["first", "others", ""]:
    compared = _rank_compared(flow, test, depth)
    if compared is None:
        part = test.comparisons[0]
        true = isinstance(part.operator, cst.Equal) and flow.index.source.code(part.comparator) == "True"
        return condition(flow, test.left, depth) if true else ""
    operator, value = compared
    with_zero = {"0"} <= {one.strip() for one in value.strip("()[]{}").split(",")} <= {"", "0", "-1"}
    if compared in _FIRST_ONE or (operator is cst.In and with_zero):
        return "first"
    return "others" if compared in _ALL_OTHERS or (operator is cst.NotIn and with_zero) else ""


def _rank_compared(
    flow: Flow, test: cst.BaseExpression, depth: int = _DEPTH
) -> tuple[type[cst.BaseCompOp], str] | None:
    """Return how a comparison compares this process's rank, and with what; None for any other condition."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    left, right = test.left, test.comparisons[0].comparator
    operator: type[cst.BaseCompOp] = type(test.comparisons[0].operator)
    if is_rank(flow, right, depth) and not is_rank(flow, left, depth):
        left, right, operator = right, left, _MIRRORED.get(operator, operator)
    return (operator, flow.index.source.code(right).strip("\"'")) if is_rank(flow, left, depth) else None


def distributed(flow: Flow, test: cst.BaseExpression) -> bool | None:
    """Whether a comparison of a rank says that the run is distributed, None where it says something else.

    A rank of -1 stands for a run that is not: `rank != -1` and `rank >= 0` hold on every rank, `rank == -1` on none.
    """
    compared = _rank_compared(flow, test)
    return True if compared in _EVERY_ONE else False if compared in _NONE else None


def is_rank(flow: Flow, node: cst.BaseExpression, depth: int = _DEPTH) -> bool:
    """Whether an expression is this process's rank: `args.local_rank`, `dist.get_rank()`, `int(os.environ["RANK"])`.

    The rank of a node is not: all of its processes have it.
    """
    if _NODE_RANK.search(flow.index.source.code(node)):
        return False
    if variable := flow.index.environment_variable(node):
        return re.search(r"RANK|PROCID|LOCALID", variable) is not None
    if isinstance(node, cst.Call):
        name = dotted(node.func) or ""
        if name in ("int", "str") and len(node.args) == 1:
            return is_rank(flow, node.args[0].value, depth)
        return re.search(r"get_\w*rank$|(^|\.)rank$|process_index$", name) is not None
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
        return is_rank(flow, node.left, depth)
    if _RANK.search(_called(node)) is not None:
        return True
    return depth > 0 and any(is_rank(flow, value, depth - 1) for value in given_alone(flow, node))


def ranks_at(
    index: Index,
    flow: Flow,
    statement: Statement,
    spawns: Collection[cst.Call] = (),
    known: dict[Scope, Ranks] | None = None,
) -> Ranks:
    """Return which ranks get to a statement.

    Conditions around it, functions that leave early on some ranks, decorators such as `rank_zero_only` and all callers
    count. In a function whose callers cannot be seen it is "unknown", unless its own code tells; so is what the process
    does that starts the ranks itself.

    Args:
        spawns: the calls that start the ranks, such as `mp.spawn(main_worker, ...)`.
        known: the same of functions, as far as it is told.
    """
    unclear = False  # a choice may be of some ranks, which the choices around it may still tell
    for part in (statement, *statement.around):
        told: Ranks | Literal[""] = _held_back(index, flow, part)
        outer = part.parent
        if not told and outer is not None and isinstance(outer.node, cst.If):
            told = _branch(index, flow, outer, part)
        if told == "first" or (told in ("others", "all") and not unclear):
            return told
        unclear = unclear or told != ""
    scope = statement.scope
    if scope.kind == "module":
        return "unknown" if spawns or unclear else "all"
    if scope.kind != "function":
        return "unknown"
    known = {} if known is None else known
    if scope not in known:
        known[scope] = "unknown"  # where it calls itself
        known[scope] = _ranks_of(index, flow, scope, spawns, known)
    return "unknown" if unclear and known[scope] != "first" else known[scope]


def _ranks_of(index: Index, flow: Flow, scope: Scope, spawns: Collection[cst.Call], known: dict[Scope, Ranks]) -> Ranks:
    """Return which ranks call a function."""
    decorators = scope.node.decorators if isinstance(scope.node, cst.FunctionDef) else ()
    if any(_ONLY_FIRST.search(name) for one in decorators for name in names_in(one.decorator)):
        return "first"
    calls = flow.callers(scope)
    if any(call in spawns for call in calls):
        return "all"
    ways = {ranks_at(index, flow, index.statement(call), spawns, known) for call in calls}
    return ways.pop() if len(ways) == 1 else ("unknown" if not ways or "unknown" in ways else "all")


def _branch(index: Index, flow: Flow, outer: Statement, part: Statement) -> Ranks | Literal[""]:
    """Which ranks get into the branch of an `if` or `elif` that holds a statement, "" where all may."""
    assert isinstance(outer.node, cst.If)
    passed: Ranks | Literal[""] = ""
    here: cst.If | cst.Else | None = outer.node
    while isinstance(here, cst.If):
        meant = _meant(index, flow, outer, here.test)
        told = condition(flow, meant)
        inside = part.siblings is index.statements_in(here.body)
        if inside and told:
            return told
        several = distributed(flow, meant)
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
    if value is None or isinstance(value, (cst.Name, cst.Attribute)):
        return test
    return test if _is_unseen(flow, value) and not condition(flow, value) else value


def _may_tell(index: Index, flow: Flow, at: Statement, test: cst.BaseExpression) -> bool:
    """Whether ranks may go different ways at a condition of which more cannot be said.

    It names something of a rank, what is given where only some ranks come, such as rank 0's logger, or one of several
    things that a function elsewhere returns, which may be a rank.
    """
    if _MAY_TELL.search(index.source.read(test)):
        return True
    for name in names_in(test):
        for source in flow.sources(flow.variable(name, at.scope)):
            value = source.value
            elsewhere = isinstance(value, cst.Call) and source.item is not None and flow.called(value) is None
            if elsewhere or (value is not None and _depends(flow, value)):
                return True
    return False


def _depends(flow: Flow, value: cst.BaseExpression) -> bool:
    """Whether only some ranks give a variable this value."""
    tests = [value.test] if isinstance(value, cst.IfExp) else []
    if isinstance(value, (cst.BooleanOperation, cst.Comparison, cst.UnaryOperation)):
        tests = [value]
    if any(condition(flow, test) or _MAY_TELL.search(flow.index.source.read(test)) for test in tests):
        return True
    statement = flow.index.statement(value)
    parents = [part.parent.node for part in [statement, *statement.ancestors] if part.parent is not None]
    return any(isinstance(node, cst.If) and condition(flow, node.test) for node in parents)


def _held_back(index: Index, flow: Flow, part: Statement) -> Ranks | Literal[""]:
    """Which ranks are left after an earlier `if rank != 0: return` of the same block."""
    for earlier in part.preceding:
        node = earlier.node
        if not isinstance(node, cst.If) or node.orelse is not None:
            continue
        if leaves(node.body) or always_leaves(index.statements_in(node.body)[-1]):
            meant = _meant(index, flow, earlier, node.test)
            told = opposite(condition(flow, meant))
            if told and not isinstance(node.test, cst.BooleanOperation):
                return told
            if distributed(flow, meant) is False:
                continue
            if told or _may_tell(index, flow, earlier, node.test):
                return "unknown"
    return ""
