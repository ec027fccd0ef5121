"""Scores that measure one model beside another, as a baseline is measured beside the model that is trained."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted, method_name, nodes_in, parted, receiver
from retrofit.survey.origins import Origin
from retrofit.survey.scores.making import Making
from retrofit.survey.scores.values import in_loop
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.score import Score


def measures_the_other(index: Index, flow: Flow, loop: EpochLoop, own: Score, other: Score) -> bool:
    """Whether a score is of the model that an optimizer trains, and another one is the same of another model.

    The calls by which they are measured are then alike but for the model: of the same data, for example.
    """
    making = Making(index, flow, loop)
    calls = [[*_calls_for(index, loop, making, one)] for one in (own, other)]
    trained = _trained(index, flow)
    for first in calls[0]:
        for second in calls[1]:
            pairs = [*zip(_operands(first), _operands(second), strict=False)]
            apart = [pair for pair in pairs if not pair[0].deep_equals(pair[1])]
            if len(first.args) == len(second.args) and len(apart) == 1 and len(pairs) > 1:
                mine, its = (set(flow.origins(one, index.scope_of(one))) for one in apart[0])
                if not trained.isdisjoint(mine) and trained.isdisjoint(its):
                    return True
    return False


def _calls_for(index: Index, loop: EpochLoop, making: Making, score: Score) -> Iterator[cst.Call]:
    """Yield the calls in what gives the variables their values out of which the epoch loop makes a score."""
    node = score.node if isinstance(score.node, cst.BaseExpression) else cst.parse_expression(score.expression)
    read = {dotted(node), *(parted(name)[0] for name, at in making.read_for(node) if at.scope is loop.scope)}
    for binding in index.bindings:
        if binding.target in read and binding.value is not None and in_loop(index, loop, binding.statement.node):
            yield from (one for one in nodes_in(binding.value) if isinstance(one, cst.Call))


def _operands(call: cst.Call) -> list[cst.BaseExpression]:
    return [call.func, *(arg.value for arg in call.args)]


def _trained(index: Index, flow: Flow) -> set[Origin]:
    """Return where the models are made of which something that steps was given the parameters."""
    built = [
        origin.node for _, held in index.method_calls("step") for origin in flow.origins(held, index.scope_of(held))
    ]
    given = [receiver(one) for call in built for one in nodes_in(call) if method_name(one).endswith("parameters")]
    return {origin for one in given if one is not None for origin in flow.origins(one, index.scope_of(one))}
