"""Find what starts the training's processes from one, and how it is told which."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from retrofit.survey.branches import left_before
from retrofit.survey.defaults import SEVERAL, Defaults
from retrofit.survey.flow import Flow
from retrofit.survey.names import Variable
from retrofit.survey.nodes import argument, dotted, names_in
from retrofit.survey.order import leading_to
from retrofit.survey.origins import Origin
from retrofit.survey.sites.call import Spawn
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.wrapper import Wrapper


def find_spawns(loops: Sequence[EpochLoop], wrappers: Sequence[Wrapper], flow: Flow) -> list[Spawn]:
    """Return what starts the training's processes: `mp.spawn(...)`, or `Process(target=...)` of what leads to it.

    Args:
        loops: the epoch loops.
        wrappers: what wraps the model.
    """
    index = flow.index
    leading = leading_to(loops, flow)
    found = [
        call
        for call in index.calls
        if flow.spawns(call) or (flow.starts_process(call) and index.statement(call) in leading)
    ]
    if not found:
        return []
    defaults, constants = Defaults(index, flow, gpus=SEVERAL), Defaults(index, flow, options=False)
    trains = any(not wrapper.idle for wrapper in wrappers)
    return [
        Spawn(
            node=one,
            index=index,
            usual=defaults.run(one),
            needed=_is_needed(one, wrappers, flow),
            number=_number(one, flow),
            avoided=_avoided(one, flow, defaults),
        )
        for one in found
        if not (trains and constants.leave_out(one))
    ]


def spawned_numbers(spawns: Sequence[Spawn], flow: Flow) -> set[str]:
    """Return the parameters by which functions that are spawned get their process's number."""
    return {
        started.parameters[0]
        for site in spawns
        if (operand := site.argument_node("fn", 0)) is not None
        if (started := flow.defined(operand, site.scope)) is not None and started.parameters
    }


def _number(call: cst.Call, flow: Flow) -> str:
    """Return the code that says how many processes a call starts, "" where it does not."""
    number = argument(call, "nprocs", 2) if flow.spawns(call) else None
    return "" if number is None else flow.index.source.code(number)


def _avoided(call: cst.Call, flow: Flow, defaults: Defaults) -> str:
    """Return the condition before a call by which its function runs what the call starts itself, and leaves.

    It is one that an option decides, as its default tells: what asks the environment is of another launcher.
    """
    index, here = flow.index, flow.index.statement(call)
    started = [scope for scope in index.scopes if call in flow.callers(scope)]
    users = [user for scope in started for user in flow.callers(scope)]
    users = [user for user in users if not (flow.spawns(user) or flow.starts_process(user))]
    same = {around for user in users for around in index.ancestors(user)}
    tests = [one.test for one in left_before(here) if one.body in same]
    return " or ".join(index.source.code(test) for test in tests if defaults.values(test))


def _is_needed(call: cst.Call, wrappers: Sequence[Wrapper], flow: Flow) -> bool:
    """Whether a model is only wrapped where the options hold under which a call starts the processes."""
    index = flow.index
    tests = [(_asked(test, flow), holds) for test, holds in index.guards(call) if "__name__" not in names_in(test)]

    def hold(here: cst.CSTNode) -> bool:
        there = [(_asked(test, flow), holds) for test, holds in index.guards(here)]
        return all(any(b is held and one & other for other, held in there) for one, b in tests)

    return bool(tests) and all(flow.on_every_way(wrapper.call, hold) for wrapper in wrappers)


def _asked(test: cst.BaseExpression, flow: Flow) -> set[tuple[Variable | Origin, str]]:
    """Return what a condition asks, by which it is known again in a function that is given it: `args.distributed`."""
    scope, name = flow.index.scope_of(test), dotted(test)
    if isinstance(test, cst.Attribute) and name is not None:
        return {(made, test.attr.value) for made in flow.origins(test.value, scope)}
    return set() if name is None else {(flow.variable(name, scope), "")}
