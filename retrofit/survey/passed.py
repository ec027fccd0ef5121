"""Find the functions that get a model from several others, of which a run takes one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.names import Source
from retrofit.survey.order import runs_instead, ways_to
from retrofit.survey.origins import Origin
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.sites.model import Model
from retrofit.survey.sites.wrapper import Wrapper


def passed_to(
    models: list[Model], origins: set[Origin], wrappers: list[Wrapper], flow: Flow
) -> Iterator[tuple[Scope, str]]:
    """Yield the functions on the way to the wrapper that always get the model, the nearest first, with its name there.

    Nothing where a run may make several.

    Args:
        models: the places after which the model is there, in several functions or one after the other.
        origins: where it is built.
        wrappers: the wrappers of this model.
    """
    ways = [ways_to(wrapper.statement, flow) for wrapper in wrappers]
    if all(
        runs_instead(one.statement, [other], flow) or _takes_place(one, other, ways)
        for one, other in combinations(models, 2)
    ):
        for function in ways[0]:
            name = next(_always(function, origins, wrappers, flow), None)
            if name is not None and all(function in found for found in ways):
                yield function, name


def _takes_place(one: Model, other: Model, ways: list[dict[Scope, list[Statement]]]) -> bool:
    """Whether one of two models of a function takes the name of the other, before any way to a wrapper: to resume."""
    wrapping = [way.order for found in ways for way in found.get(one.scope, ())]
    same = one.scope is other.scope and one.target == other.target
    return same and max(one.statement.last, other.statement.last) < min(wrapping, default=0)


def _always(function: Scope, origins: set[Origin], wrappers: list[Wrapper], flow: Flow) -> Iterator[str]:
    """Yield the parameters by which each call of a function gives it the model, and that mean nothing else in it.

    Then the attribute that is wrapped, where the function is a method of its object.
    """
    for name in function.parameters:
        given = flow.sources((function, name))
        outside = sum(one.scope is not function for one in given)
        if outside == len(flow.callers(function)) > 0 and all(_is_one_of(one, origins, flow) for one in given):
            yield name
    held = wrappers[0].module
    same = held.startswith("self.") and flow.variable(held, function) == flow.variable(held, wrappers[0].scope)
    if same and _is_one_of(Source(cst.parse_expression(held), function), origins, flow):
        yield held


def _is_one_of(given: Source, origins: set[Origin], flow: Flow) -> bool:
    made = flow.origins(given.value, given.scope, given.item) if given.value is not None else []
    return bool(made) and origins.issuperset(made)
