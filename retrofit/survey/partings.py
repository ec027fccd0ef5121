"""Find where an epoch loop ends the process group before it is over itself."""

from __future__ import annotations

import libcst as cst

from retrofit.survey.conditions import holds_with
from retrofit.survey.defaults import Defaults
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import called_in
from retrofit.survey.nodes import argument, dotted
from retrofit.survey.order import leaves_loop
from retrofit.survey.scopes import Statement
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.loop import EpochLoop

#: What makes a process group beside the one of all ranks.
_BESIDE = tuple(f"torch.distributed.new_{one}" for one in ("group", "subgroups", "subgroups_by_enumeration"))


def find_partings(index: Index, flow: Flow, loop: EpochLoop) -> list[Site]:
    """Return what destroys the process group in a turn of an epoch loop that goes on after it, and makes no other."""
    ends = index.calls_to("torch.distributed.destroy_process_group")
    calls = [call for call in ends if _is_default(call, index, flow)]
    if not calls:
        return []
    called = called_in(index, flow, loop.statement)
    made = [index.statement(call) for call in index.calls_to("torch.distributed.init_process_group")]
    if any(loop.statement in here.path or here.scope in called for here in made):
        return []
    constants = Defaults(index, flow, options=False)
    ways = {way: None for call in calls if not constants.leave_out(call) for way in _ways(index.statement(call), flow)}
    return [Site(node=way.node, index=index) for way in ways if loop.statement in way.path[:-1]]


def _is_default(call: cst.Call, index: Index, flow: Flow) -> bool:
    """Whether the group that a call is given, if any, may be the one of all ranks, and is none made beside that."""
    group = argument(call, "group", 0)
    made = flow.deep_origins(group, index.scope_of(group)) if group is not None else set()
    beside = index.calls_to(*_BESIDE)
    others = [origin.node for origin in made if origin.node not in beside]
    none = {dotted(group) or "": None} if group is not None else {}
    guarded = any(holds_with(test, none) is (not held) for test, held in index.guards(call))
    return not made or any(dotted(one) != "None" or not guarded for one in others)


def _ways(here: Statement, flow: Flow) -> list[Statement]:
    """Return a statement and those whose calls lead to it, but where one handles an error, or leaves the loop."""
    found, waiting = list[Statement](), [here]
    while waiting:
        way = waiting.pop()
        handles = any(isinstance(part, cst.ExceptHandler) for part in flow.index.ancestors(way.node))
        if way not in found and not handles and not leaves_loop(way):
            found.append(way)
            waiting += [flow.index.statement(call) for call in flow.callers(way.scope)]
    return found
