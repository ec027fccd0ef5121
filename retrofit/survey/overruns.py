"""Find indices that grow with the epochs, into what is as long as the number of epochs that was planned."""

from __future__ import annotations

import re

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index, dotted
from retrofit.survey.loops import COUNTER, PLANNED, called_in
from retrofit.survey.sites import EpochLoop, Overrun

_SCHEDULE = re.compile(r"schedule(?!r)|(^|_)(lrs|lr_list)$")
_FILLED = frozenset({"zeros", "ones", "empty", "full", "Tensor", "FloatTensor"})


def find_overruns(index: Index, flow: Flow, loops: list[EpochLoop]) -> list[Overrun]:
    """Return where a counter is an index into such a sequence in training: `lr_schedule[it]`, `history[epoch, 0]`.

    Args:
        loops: the epoch loops, which no longer end after the number of epochs that was planned.
    """
    bodies = {loop.statement for loop in loops}
    running = {scope for loop in loops for scope in called_in(index, flow, loop.statement)}
    found = []
    for node in index.parents:
        if not isinstance(node, cst.Subscript) or not isinstance(node.slice[0].slice, cst.Index):
            continue
        array, counter = dotted(node.value), node.slice[0].slice.value
        statement = index.statement(node)
        trains = statement.scope in running or statement.scope.name == "forward" or bodies & set(statement.path[:-1])
        if array is None or not trains:
            continue
        if not COUNTER.search(index.source.code(counter)) or isinstance(counter, (cst.Call, cst.BaseString)):
            continue
        if isinstance(counter, cst.BinaryOperation) and isinstance(counter.operator, cst.Modulo):
            continue
        if _is_planned(index, flow, node.value):
            found.append(
                Overrun(
                    node=node,
                    index=index,
                    array=array,
                    counter=index.source.code(counter),
                    anchors={"counter": counter},
                )
            )
    return found


def _is_planned(index: Index, flow: Flow, array: cst.BaseExpression) -> bool:
    """Whether a value is a sequence as long as the planned training: a schedule, or an array with a place an epoch."""
    scope = index.scope_of(array)
    inside = [origin.node for origin in flow.deep_origins(array, scope)]
    if any(isinstance(node, (cst.Dict, cst.DictComp)) or _last(node) in ("dict", "defaultdict") for node in inside):
        return False
    made = [origin.node for origin in flow.origins(array, scope) if dotted(origin.node) != "None"]
    if _SCHEDULE.search((dotted(array) or "").rpartition(".")[2]):
        return bool(made) and all(
            isinstance(node, cst.Call)
            and (index.qualified(node.func).startswith("numpy.") or PLANNED.search(index.source.code(node)))
            for node in made
        )
    for node in made:
        size: cst.BaseExpression | None = None
        if isinstance(node, cst.Call) and node.args and _last(node) in _FILLED:
            size = node.args[0].value
            size = size.elements[0].value if isinstance(size, (cst.Tuple, cst.List)) and size.elements else size
        elif isinstance(node, cst.BinaryOperation) and isinstance(node.left, cst.List):
            size = node.right
        if size is not None and PLANNED.search(index.source.code(size)):
            return True
    return False


def _last(node: cst.BaseExpression) -> str:
    return (dotted(node.func) or "").rpartition(".")[2] if isinstance(node, cst.Call) else ""
