"""Find the place to perforate a model that an object has of what is not seen: right before it is wrapped."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from retrofit.survey.branches import exclude_each_other
from retrofit.survey.flow import Flow
from retrofit.survey.order import meeting_ways, sooner
from retrofit.survey.scopes import Statement
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.model import Model
from retrofit.survey.sites.wrapper import Wrapper
from retrofit.survey.weights import following


def before_wrapper(
    wrappers: list[Wrapper], optimizers: Iterable[Statement], loops: list[EpochLoop], flow: Flow
) -> list[Model]:
    """Return the model that an object is seen to have, but not to get, as it is there before its wrappers.

    Nothing where something may have taken its parameters by then, or where no optimizer is seen to take them later.

    Args:
        wrappers: the wrappers of this model.
        optimizers: the statements that build an optimizer.
        loops: the epoch loops.
    """
    first = wrappers[0]
    heads = {_head(wrapper, flow) for wrapper in wrappers}
    head = heads.pop()
    if heads or head is None or any(one.module != first.module for one in wrappers):
        return []
    if not before_use(head, optimizers, loops, flow):
        return []
    return [Model(node=head.node, index=flow.index, target=first.module, side="before", unseen=True)]


def before_use(head: Statement, optimizers: Iterable[Statement], loops: list[EpochLoop], flow: Flow) -> bool:
    """Whether nothing has taken a model's parameters or layers before a statement, and an optimizer does so after it.

    Args:
        optimizers: the statements that build an optimizer.
        loops: the epoch loops.
    """
    index = flow.index

    compiled = [index.statement(call) for call in index.calls_to("torch.compile", "torch.jit.script")]
    compiled += [index.statement(call) for call, _ in index.method_calls("compile")]
    fixing = [*optimizers, *compiled, *(binding.statement for binding, _ in following(loops, flow))]
    ways = [pair for one in optimizers for pair in meeting_ways(one, head, flow)]
    return not any(sooner(one, head, flow) for one in fixing) and not all(exclude_each_other(*pair) for pair in ways)


def _head(wrapper: Wrapper, flow: Flow) -> Statement | None:
    """Return the statement before which the object with the model is there on every way to its wrapper.

    None where the model is no attribute of an object that the function makes or gets, or is wrapped in a loop.
    """
    scope, name = wrapper.scope, wrapper.module
    holders = [name[:end] for end, letter in enumerate(name) if letter == "."]
    bound = [binding.statement for binding in flow.index.bound(holders, scope)]
    if not holders or not (bound or holders[0] in scope.parameters):
        return None
    own = [
        part for part in wrapper.statement.path if part.scope is scope and not isinstance(part.node, cst.FunctionDef)
    ]
    heads = [part for part in own if all(one.order < part.order for one in bound)]
    if not heads or any(isinstance(part.node, (cst.For, cst.While)) for part in (*heads, *heads[0].around)):
        return None
    return heads[0]
