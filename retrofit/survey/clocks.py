"""Find where the clock ends a training, which is not the end that the script has planned for it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from retrofit.knowledge.kinds import TellsTime
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import children, receiver
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.loop import EpochLoop

#: Functions that make a number of what they are given.
_NUMBERS = frozenset({"abs", "divmod", "float", "int", "max", "min", "round", "sum"})


def find_clocks(index: Index, flow: Flow, loop: EpochLoop) -> list[Site]:
    """Return the conditions, of an epoch loop or of what leaves it, that hold at a time of the clock."""
    return [Site(node=test, index=index) for test in _ending(index, loop) if _tells_time(test, flow)]


def _ending(index: Index, loop: EpochLoop) -> Iterator[cst.BaseExpression]:
    """Yield the conditions that end an epoch loop."""
    for node in loop.leaving:
        choice = next((one for one in index.ancestors(node) if isinstance(one, (cst.If, cst.For, cst.While))), None)
        if isinstance(choice, (cst.If, cst.While)):
            yield choice.test


def _tells_time(test: cst.BaseExpression, flow: Flow) -> bool:
    """Whether an expression is made of the time, by names and by what functions of the project return."""
    index, seen = flow.index, set[cst.CSTNode]()
    waiting: list[cst.CSTNode] = [test]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if not isinstance(node, cst.Call):
            waiting += children(node)
        elif index.qualified(node.func) in index.knowledge.named(TellsTime):
            return True
        else:
            given = node.args if index.qualified(node.func) in _NUMBERS else ()
            waiting += [*index.returned(flow.called(node)), *(arg.value for arg in given)]
            waiting += [held] if (held := receiver(node)) is not None else []
        if isinstance(node, (cst.Name, cst.Attribute)):
            waiting += [origin.node for origin in flow.origins(node, index.scope_of(node))]
    return False
