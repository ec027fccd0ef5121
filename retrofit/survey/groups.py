"""Tell which wrapped models are those that train, where a script wraps several."""

from __future__ import annotations

import libcst as cst

from retrofit.survey.bypass import calls_model
from retrofit.survey.constructions import with_optimizers
from retrofit.survey.flow import Flow
from retrofit.survey.holding import Holding
from retrofit.survey.models import is_frozen
from retrofit.survey.nodes import mentions
from retrofit.survey.order import apart_from_training
from retrofit.survey.origins import Origin
from retrofit.survey.scores.making import without_gradients
from retrofit.survey.sites.loop import Backward
from retrofit.survey.sites.script import Script
from retrofit.survey.sites.wrapper import Wrapper
from retrofit.survey.wrappers import of_each

#: Models, each by where it is built, with its wrappers.
Groups = list[tuple[set[Origin], list[Wrapper]]]


def groups_fed(groups: Groups, backwards: list[Backward], flow: Flow, *, parts: bool) -> Groups:
    """Leave out a wrapper that the training does not call, where it calls that of the same model in another module.

    A model may be wrapped twice: with its loss for training, and alone for validation, or as a copy of averages.

    Args:
        parts: whether one stays that the user may choose, as a student, which the training calls in a module with its
            teacher; not where that is in a DistributedDataParallel, which awaits each gradient of the student's.
    """
    index, scopes = flow.index, {backward.scope for backward in backwards}
    called = [
        call
        for call in index.calls
        if len(groups) > 1 and index.scope_of(call) in scopes
        if not any(without_gradients(index, part.node) for part in index.statement(call).path)
    ]
    unused = [group for group in groups if not any(calls_model(call, group[0], flow) for call in called)]

    def around(outer: set[Origin], inner: set[Origin]) -> bool:
        return any(
            not inner.isdisjoint(flow.deep_origins(arg.value, index.scope_of(origin.node)))
            for origin in outer
            if isinstance(origin.node, cst.Call)
            for arg in origin.node.args
        )

    return [
        group
        for group in groups
        if group not in unused
        or not any(
            around(other[0], group[0]) or around(group[0], other[0])
            for other in groups
            if other not in unused and not (parts and all(wrapper.kind == "dp" for wrapper in other[1]))
        )
    ]


def groups_trained(groups: Groups, script: Script, flow: Flow) -> Groups:
    """Return the models in sight where a backward pass is, all where that tells nothing, but no frozen teacher, and
    none that is only tested.

    One that a function wraps which nothing calls is of another command of the script, wherever that trains it. A
    backward pass of such a function tells nothing where others are called.
    """
    found = []
    called = [one for one in script.backwards if flow.uncalled(one.statement) is None]
    for origins, wrappers in groups:
        everything = flow.closure(origins)
        for backward in called or script.backwards:
            named = mentions(backward.scope.node, flow.names_of(everything, backward.scope))
            if named or _uses_each(backward, wrappers, flow):
                found.append((origins, wrappers))
                break
    commands = [{flow.uncalled(wrapper.statement) for wrapper in wrappers} for _, wrappers in groups]
    known = [command for group, command in zip(groups, commands, strict=True) if group in found]
    if known and all(None not in one for one in known):
        found = [
            group
            for group, command in zip(groups, commands, strict=True)
            if group in found or (None not in command and all(command.isdisjoint(one) for one in known))
        ]
    used = [group for group, command in zip(groups, commands, strict=True) if None in command]
    groups = found or used or groups
    tested = [g for g in groups if all(apart_from_training(w.statement, script.loops, flow) for w in g[1])]
    groups = [group for group in groups if group not in tested] or groups
    optimized = with_optimizers([origins for origins, _ in groups], flow) if len(groups) > 1 else []
    groups = [group for group in groups if group[0] in optimized] or groups
    return [group for group in groups if len(groups) == 1 or not is_frozen(group[0], flow)] or groups


def _uses_each(backward: Backward, wrappers: list[Wrapper], flow: Flow) -> bool:
    """Whether the function of a backward pass calls what holds several models that a comprehension wraps."""
    wrapped = {wrapper.call for wrapper in wrappers if of_each(flow.index, wrapper.call)}
    if not wrapped:
        return False
    held = Holding(wrapped, flow)
    return any(held.holds(call.func) for call in flow.index.calls_of(backward.scope))
