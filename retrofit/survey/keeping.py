"""Tell why an optimizer is left as the script builds it, rather than built by the tracker."""

from __future__ import annotations

import libcst as cst

from retrofit.knowledge.kinds import Optimizer as OptimizerKind
from retrofit.knowledge.kinds import Scheduler as SchedulerKind
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import (
    argument,
    calls_one_of,
    dotted,
    key_of,
    last_name,
    mentions,
    method_name,
    named_in,
    names_in,
)
from retrofit.survey.origins import Origin
from retrofit.survey.schedulers import schedulers_of
from retrofit.survey.scopes import Scope
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.optimizer import Optimizer, Scheduler
from retrofit.survey.sites.score import Score
from retrofit.survey.targets import bind


def reason_not_to_build_again(index: Index, flow: Flow, optimizer: Optimizer, loops: list[EpochLoop]) -> str:
    if loops and optimizer.scope not in (loops[0].scope, *loops[0].scope.around):
        return "it is built in another function than the one with the epoch loop"
    if not optimizer.parameter_model:
        return "its parameters are not those of the whole model"
    holder = _holder(index, flow, optimizer, loops)
    if holder:
        return f"{holder} holds it as well"
    added = next((call for call in index.calls if (dotted(call.func) or "").endswith(".add_param_group")), None)
    return f"a group is added to it ({index.place(added)})" if added is not None else ""


def _holder(index: Index, flow: Flow, optimizer: Optimizer, loops: list[EpochLoop]) -> str:
    """Return what else keeps the optimizer beside its variable: an attribute, or an object that is made with it."""
    variable = flow.variable(optimizer.target, optimizer.scope)

    def means_it(value: cst.BaseExpression | None, scope: Scope) -> bool:
        name = dotted(value)
        return name is not None and flow.variable(name, scope) == variable

    for binding in index.bindings:
        if "." in binding.target and means_it(binding.value, binding.statement.scope):
            return binding.target
    for call in index.calls:
        name, place = last_name(call.func), index.statement(call)
        lasting = name[:1].isupper() and not any(loop.statement in place.path for loop in loops)
        known = index.knowledge
        scheduler = name in known.signatures(SchedulerKind) or known.known(SchedulerKind, index.qualified(call.func))
        if lasting and not scheduler and any(means_it(arg.value, place.scope) for arg in call.args):
            return name
    return ""


def reason_to_keep(
    index: Index,
    flow: Flow,
    optimizer: Optimizer,
    calls: list[cst.Call],
    schedulers: list[Scheduler],
    scores: list[Score],
) -> str:
    call = calls[0]
    if len(calls) > 1:
        return f"it is built in {len(calls)} places"
    full, signatures = index.qualified(call.func), index.knowledge.signatures(OptimizerKind)
    kind = full.rpartition(".")[2]
    own = full.startswith("torch.optim") or full in index.knowledge.named(OptimizerKind)
    if kind not in signatures or not own:
        return f"{optimizer.name} is no optimizer class of torch.optim"
    if bind(index, call, signatures[kind]) is None:
        return "its arguments cannot be bound to names"
    if not _is_plain_assignment(index, call):
        return "it is not assigned by a statement of its own"
    if not optimizer.parameter_model and not _plain_parameters(index, call):
        return f"its parameters come from {index.source.code(call.args[0].value)}"
    by_hand = _rate_set_by_hand(index)
    if by_hand:
        return f"{by_hand} sets the learning rate by hand"
    mine = schedulers_of(flow, calls, schedulers)
    if len(mine) > 1:
        return f"it has {len(mine)} schedulers"
    for scheduler in mine:
        reason = _scheduler_reason(index, optimizer, scheduler)
        if reason:
            return reason
        score = next((one for one in scores if _turns_against(scheduler, one)), None)
        if score is not None:
            step = scheduler.steps[0]
            return f"its scheduler follows `{step.argument}` ({step.place()}), not the score `{score.expression}`"
    rare = next((score for score in scores if score.condition), None)
    if mine and rare is not None:
        return f"its scheduler is stepped every epoch, but there is a score only if {rare.condition} ({rare.place()})"
    other = _other_scheduler(index, flow, calls, mine)
    if other:
        return f"{other} is no scheduler class of torch"
    return ""


def _scheduler_reason(index: Index, optimizer: Optimizer, scheduler: Scheduler) -> str:
    call = scheduler.node
    assert isinstance(call, cst.Call)
    signatures = index.knowledge.signatures(SchedulerKind)
    if scheduler.kind not in signatures:
        return f"its scheduler {scheduler.name} cannot be handed over as a class and values"
    if not scheduler.target or not _is_plain_assignment(index, call):
        return f"its scheduler {scheduler.name} is not assigned by a statement of its own"
    if bind(index, call, signatures[scheduler.kind], skip=1) is None:
        return "its scheduler's arguments cannot be bound to names"
    if not scheduler.steps:
        return f"its scheduler {scheduler.target} is never stepped here"
    for step in scheduler.steps:
        if step.per == "batch":
            return f"its scheduler is stepped once a batch ({step.place()})"
        around = step.statement.parent
        if step.conditional and around is not None and isinstance(around.node, cst.FunctionDef):
            return f"its scheduler is not stepped in the epoch loop itself ({step.place()})"
        if step.conditional:
            return f"its scheduler is stepped only under a condition ({step.place()})"
        if step.argument and scheduler.kind != "ReduceLROnPlateau":
            return f"its scheduler is stepped with an argument ({step.place()})"
    if len(scheduler.steps) > 1:
        return f"its scheduler is stepped in {len(scheduler.steps)} places"
    made, here = index.statement(optimizer.node), index.statement(call)
    if made.siblings is not here.siblings:
        return "it and its scheduler are built in different blocks"
    between = made.siblings[made.index + 1 : here.index]
    for statement in between:
        if mentions(statement.node, [optimizer.target]):
            return f"it is used before its scheduler is built ({index.place(statement.node)})"
    return ""


def _turns_against(scheduler: Scheduler, score: Score) -> bool:
    """Whether a scheduler says that it takes the other direction for better: it follows another value."""
    mode = dict(scheduler.bound).get("mode", "") if scheduler.kind == "ReduceLROnPlateau" else ""
    return {mode.strip("'\""), score.direction} == {"min", "max"}


def _other_scheduler(index: Index, flow: Flow, calls: list[cst.Call], mine: list[Scheduler]) -> str:
    """Return the name of anything else made from the optimizer and stepped: a scheduler of the project's own."""
    origins = {Origin(call) for call in calls}
    stepped = {
        origin
        for call, scheduler in index.method_calls("step", "step_update")
        for origin in flow.origins(scheduler, index.scope_of(call))
    }
    known = {scheduler.node for scheduler in mine}
    for call in index.calls:
        if Origin(call) not in stepped or call in known:
            continue
        if any(not origins.isdisjoint(flow.origins(arg.value, index.scope_of(call))) for arg in call.args):
            return index.source.code(call.func)
    return ""


def _rate_set_by_hand(index: Index) -> str:
    """Return where a parameter group's learning rate is assigned, "" where it is not."""
    loops = [loop.node for loop in index.loops if isinstance(loop.node, cst.For)]
    walks = [loop for loop in loops if "param_groups" in map(last_name, named_in(loop.iter))]
    groups = {name for loop in walks for name in names_in(loop.target)}
    for node in index.nodes_of(cst.Subscript):
        parent = index.parents[node]
        is_set = isinstance(parent, (cst.AssignTarget, cst.AugAssign)) and parent.target is node
        of_group = any("param_group" in name or name in groups for name in names_in(node.value))
        if is_set and of_group and key_of(node) in ("'lr'", "'learning_rate'"):
            return index.place(node)
    return ""


def _is_plain_assignment(index: Index, call: cst.Call) -> bool:
    assign = index.parents.get(call)
    return isinstance(assign, cst.Assign) and len(assign.targets) == 1 and dotted(assign.targets[0].target) is not None


def _plain_parameters(index: Index, call: cst.Call) -> bool:
    """Whether the parameters come straight from the model, not from a helper or a list made before."""
    params = argument(call, "params", 0)
    if params is None:
        return False
    if isinstance(params, cst.Call):
        if method_name(params):
            return method_name(params) == "parameters"
        passing = index.qualified(params.func) in ("filter", "list")
        return passing and calls_one_of(params, "parameters")
    named = calls_one_of(params, "named_parameters")
    return isinstance(params, (cst.List, cst.Tuple, cst.GeneratorExp, cst.ListComp)) and not named
