"""Find the learning-rate schedulers, and what steps them."""

from __future__ import annotations

import libcst as cst

from retrofit.knowledge.kinds import Scheduler as SchedulerKind
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import passing_over
from retrofit.survey.nodes import argument
from retrofit.survey.origins import Origin
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.optimizer import Scheduler, Step
from retrofit.survey.targets import bind, target_of


def find_schedulers(index: Index, flow: Flow, loops: list[EpochLoop]) -> tuple[list[Scheduler], list[Step]]:
    """Return the learning-rate schedulers of torch and the calls that step them.

    Args:
        loops: the epoch loops, to tell steps once an epoch from steps once a batch.
    """
    schedulers, known = [], index.knowledge
    signatures = known.signatures(SchedulerKind)
    for call in index.calls:
        name = index.qualified(call.func)
        kind = name.rpartition(".")[2]
        if known.known(SchedulerKind, name) or (kind in signatures and _by_star(index, call, name)):
            schedulers.append(
                Scheduler(
                    node=call,
                    index=index,
                    target=target_of(index, call),
                    name=index.source.code(call.func),
                    kind=kind,
                    bound=bind(index, call, signatures.get(kind, ()), skip=1) or [],
                )
            )
    by_origin = {Origin(s.node): s for s in schedulers if isinstance(s.node, cst.BaseExpression)}
    steps = []
    for call, operand in index.method_calls("step"):
        origins = flow.deep_origins(operand, index.scope_of(call))
        stepped = [by_origin[o] for o in origins if o in by_origin]
        if not stepped:
            continue
        step = _step(index, flow, call, operand, loops)
        steps.append(step)
        for scheduler in stepped:
            scheduler.steps.append(step)
    return schedulers, steps


def _by_star(index: Index, call: cst.Call, name: str) -> bool:
    """Whether a bare name can only come from an `import *`."""
    file = index.file(call)
    return "." not in name and name not in file.aliases and name not in file.scope.names


def _step(index: Index, flow: Flow, call: cst.Call, scheduler: cst.BaseExpression, loops: list[EpochLoop]) -> Step:
    statement = index.statement(call)
    around = next(iter(flow.enclosing_loops(statement)))
    epoch_loops = {loop.statement: loop for loop in loops}
    by_iteration = any(loop.by_iteration for loop in loops if around and loop.statement is around[0])
    per = "batch" if around and (around[0] not in epoch_loops or by_iteration) else "epoch"
    loop = epoch_loops.get(statement.parent) if statement.parent is not None else None
    return Step(
        node=call,
        index=index,
        receiver=index.source.code(scheduler),
        argument=index.source.code(call.args[0].value) if call.args else "",
        per=per,
        conditional=loop is None or bool(passing_over(index, loop, statement)),
    )


def schedulers_of(flow: Flow, calls: list[cst.Call], schedulers: list[Scheduler]) -> list[Scheduler]:
    origins = {Origin(call) for call in calls}
    found = []
    for scheduler in schedulers:
        assert isinstance(scheduler.node, cst.Call)
        operand = argument(scheduler.node, "optimizer", 0)
        if operand is not None and not origins.isdisjoint(flow.origins(operand, scheduler.scope)):
            found.append(scheduler)
    return found
