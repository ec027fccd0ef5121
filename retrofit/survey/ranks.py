"""Which ranks a condition lets through."""

from __future__ import annotations

import re
from typing import Literal

import libcst as cst

from retrofit.survey.index import Index, dotted

_RANK = re.compile(r"(^|[._])((local|global|world|dist|ddp|process|worker|proc)_?)?rank(_?id)?$|^get_\w*rank$", re.I)
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

_MIRRORED: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.LessThan: cst.GreaterThan,
    cst.GreaterThan: cst.LessThan,
    cst.LessThanEqual: cst.GreaterThanEqual,
    cst.GreaterThanEqual: cst.LessThanEqual,
}
#: Comparisons of a rank that hold on the first one, on all others, on every one of a run that is distributed, on none.
_FIRST_ONE = {(cst.Equal, "0"), (cst.Is, "0"), (cst.LessThan, "1"), (cst.LessThanEqual, "0")}
_ALL_OTHERS = {(cst.NotEqual, "0"), (cst.IsNot, "0"), (cst.GreaterThan, "0"), (cst.GreaterThanEqual, "1")}
_EVERY_ONE = {(cst.NotEqual, "-1"), (cst.IsNot, "-1"), (cst.GreaterThan, "-1"), (cst.GreaterThanEqual, "0")}
_NONE = {(cst.Equal, "-1"), (cst.Is, "-1"), (cst.LessThanEqual, "-1"), (cst.LessThan, "0")}


def condition(index: Index, test: cst.BaseExpression) -> Literal["first", "others", ""]:
    """Return which ranks a condition lets through, "" where it is about something else.

    `rank == 0`, `not rank`, `is_main_process()`, `rank in (-1, 0)` and `not distributed or rank == 0` let the first
    one through. `rank == -1` is about something else: it means that the run is not distributed.
    """
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        if is_rank(index, test.expression):
            return "first"
        return opposite(condition(index, test.expression))
    if isinstance(test, cst.BooleanOperation):
        sides = [condition(index, side) for side in (test.left, test.right)]
        if isinstance(test.operator, cst.And):
            return next((side for side in sides if side), "")
        if all(sides) and len(set(sides)) == 1:
            return sides[0]
        other = test.left if sides[1] else test.right
        undistributed = _ALONE.search(index.source.read(other)) or distributed(index, other) is False
        return "first" if "first" in sides and undistributed else ""
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        return _compared(index, test)
    name = dotted(test.func if isinstance(test, cst.Call) else test) or ""
    return "first" if _FIRST.search(name) else ""


def opposite(ranks: str) -> Literal["first", "others", ""]:
    """Return the ranks that a condition keeps out, where it lets through ``ranks``; "" where that cannot be told."""
    return {"first": "others", "others": "first"}.get(ranks, "")  # type: ignore[return-value]


def _compared(index: Index, test: cst.Comparison) -> Literal["first", "others", ""]:
    compared = _rank_compared(index, test)
    if compared is None:
        part = test.comparisons[0]
        true = isinstance(part.operator, cst.Equal) and index.source.code(part.comparator) == "True"
        return condition(index, test.left) if true else ""
    operator, value = compared
    with_zero = re.fullmatch(r"[(\[{]\s*(-1|0)(\s*,\s*(-1|0))*,?\s*[)\]}]", value) is not None and "0" in value
    if compared in _FIRST_ONE or (operator is cst.In and with_zero):
        return "first"
    return "others" if compared in _ALL_OTHERS or (operator is cst.NotIn and with_zero) else ""


def _rank_compared(index: Index, test: cst.BaseExpression) -> tuple[type[cst.BaseCompOp], str] | None:
    """Return how a comparison compares this process's rank, and with what; None for any other condition."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    left, right = test.left, test.comparisons[0].comparator
    operator: type[cst.BaseCompOp] = type(test.comparisons[0].operator)
    if is_rank(index, right) and not is_rank(index, left):
        left, right, operator = right, left, _MIRRORED.get(operator, operator)
    return (operator, index.source.code(right).strip("\"'")) if is_rank(index, left) else None


def distributed(index: Index, test: cst.BaseExpression) -> bool | None:
    """Whether a comparison of a rank says that the run is distributed, None where it says something else.

    A rank of -1 stands for a run that is not: `rank != -1` and `rank >= 0` hold on every rank, `rank == -1` on none.
    """
    compared = _rank_compared(index, test)
    return True if compared in _EVERY_ONE else False if compared in _NONE else None


def is_rank(index: Index, node: cst.BaseExpression) -> bool:
    """Whether an expression is this process's rank: `args.local_rank`, `dist.get_rank()`, `int(os.environ["RANK"])`.

    The rank of a node is not: all of its processes have it.
    """
    if _NODE_RANK.search(index.source.code(node)):
        return False
    if isinstance(node, cst.Call):
        name = dotted(node.func) or ""
        if name in ("int", "str") and len(node.args) == 1:
            return is_rank(index, node.args[0].value)
        if re.search(r"environ\.get$|getenv$", name) and node.args:
            return re.search(r"RANK", index.source.read(node.args[0].value)) is not None
        return re.search(r"get_\w*rank$|(^|\.)rank$|process_index$", name) is not None
    if isinstance(node, cst.Subscript):
        code = index.source.read(node)
        return "environ" in code and re.search(r"'(LOCAL_|GLOBAL_|SLURM_)?(RANK|PROCID|LOCALID)'", code) is not None
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
        return is_rank(index, node.left)
    return _RANK.search(dotted(node) or "") is not None
