"""Find where the clock ends a training, which is not the end that the script has planned, or lets it be validated."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from retrofit.knowledge.kinds import MakesTensor, TellsTime
from retrofit.survey.defaults import Defaults
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import turns_begun_by
from retrofit.survey.nodes import children, receiver
from retrofit.survey.sites.loop import Clock, EpochLoop
from retrofit.survey.sites.score import Score

#: Functions that make a number of what they are given.
_NUMBERS = frozenset({"abs", "divmod", "float", "int", "max", "min", "round", "sum"})


def find_clocks(index: Index, flow: Flow, loop: EpochLoop) -> list[Clock]:
    """Return the conditions, of an epoch loop or of what leaves it, that hold at a time of the clock."""
    found = [(node, test) for node, test in _ending(index, loop) if tells_time(test, flow)]
    defaults = Defaults(index, flow) if found else None
    return [
        Clock(node=test, index=index, optional=defaults is not None and node is not test and defaults.leave_out(node))
        for node, test in found
    ]


def waits_for_clock(flow: Flow, score: Score) -> bool:
    """Whether there is a score when so much time has passed, in whatever turn of the epoch loop that is."""
    index, loop = flow.index, flow.index.statement(score.anchors["loop"])
    for one in (score, score.kept) if score.kept is not None else (score,):
        made = index.statement(one.anchors.get("made", one.node))
        inner = [part for part in made.path if part not in loop.path[:-1]]
        passing = [turn for part in inner for turn in turns_begun_by(index, part)]
        if loop not in inner:
            passing += [index.statement(leaving) for leaving, scope in index.returns if scope is made.scope]
        before = {part for way in passing if way.order < made.order for part in way.path}.difference(made.path)
        if any(isinstance(part.node, cst.If) and _is_timed(part.node.test, flow) for part in (*inner, *before)):
            return True
    return False


def _is_timed(test: cst.BaseExpression, flow: Flow) -> bool:
    """Whether the time decides on a condition, and nothing beside it can make it hold."""
    if isinstance(test, cst.BooleanOperation):
        parts = [_is_timed(part, flow) for part in (test.left, test.right)]
        return all(parts) if isinstance(test.operator, cst.Or) else any(parts)
    return tells_time(test, flow)


def _ending(index: Index, loop: EpochLoop) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
    """Yield what ends an epoch loop, with the condition under which it does."""
    for node in loop.leaving:
        choice = next((one for one in index.ancestors(node) if isinstance(one, (cst.If, cst.For, cst.While))), None)
        if isinstance(choice, (cst.If, cst.While)):
            yield node, choice.test


def tells_time(test: cst.BaseExpression, flow: Flow) -> bool:
    """Whether an expression is made of the time, by names and by what functions of the project return."""
    index, seen = flow.index, set[tuple[cst.CSTNode, int | None]]()
    waiting: list[tuple[cst.CSTNode, int | None]] = [(test, None)]  # each with the item of it that is meant
    while waiting:
        node, item = waiting.pop()
        if (node, item) in seen:
            continue
        seen.add((node, item))
        if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
            made = [(one.node, one.item) for one in flow.origins(node, index.scope_of(node), item)]
            waiting += made
            if isinstance(node, cst.Subscript) and (node, item) not in made:
                continue  # what else it is an item of does not count
        if not isinstance(node, cst.Call):
            waiting += [(child, None) for child in children(node)]
        elif index.qualified(node.func) in index.knowledge.named(TellsTime):
            return True
        else:
            called, function = index.qualified(node.func), flow.called(node)
            given = node.args if called in _NUMBERS or called in index.knowledge.named(MakesTensor) else ()
            waiting += flow.returned(function, item) if function is not None else ()
            waiting += [(arg.value, None) for arg in given]
            waiting += [(held, None)] if (held := receiver(node)) is not None else []
    return False
