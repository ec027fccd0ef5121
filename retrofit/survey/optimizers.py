"""Find the optimizers that train the wrapped model, and where the tracker is told of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

import libcst as cst

from retrofit.knowledge.kinds import Optimizer as OptimizerKind
from retrofit.survey.branches import exclude_each_other, given_before, meeting
from retrofit.survey.constructions import (
    find_constructions,
    goes_to_tracker,
    is_of,
    is_torchs,
    outermost,
    those_stepped,
    used_to_train,
)
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.keeping import reason_not_to_build_again, reason_to_keep
from retrofit.survey.loops import called_in
from retrofit.survey.nodes import argument, dotted, last_name, method_name, receiver
from retrofit.survey.order import (
    apart_from_training,
    leading_to,
    leads_to,
    may_lack_value,
    one_after_the_other,
    sooner_than_model,
)
from retrofit.survey.origins import Origin
from retrofit.survey.schedulers import schedulers_of
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.model import Model
from retrofit.survey.sites.optimizer import Optimizer, Rebuilding, Scheduler
from retrofit.survey.sites.score import Score
from retrofit.survey.sites.wrapper import Wrapper
from retrofit.survey.targets import bind, target_of


def find_optimizers(
    index: Index,
    flow: Flow,
    model: set[Origin],
    models: list[Model],
    schedulers: list[Scheduler],
    loops: list[EpochLoop],
    scores: list[Score],
    handover: frozenset[str] = frozenset(),
    in_process: bool = False,
    shared: Collection[str] = (),
    other_ways: Sequence[Wrapper] = (),
) -> list[Optimizer]:
    """Return the optimizers that train the wrapped model, one for each variable that holds one.

    Args:
        model: where the model is built.
        models: the places after which it is there.
        schedulers: all schedulers of the script.
        loops: the epoch loops.
        scores: the validation scores; a scheduler is handed over only where each epoch has one.
        handover: qualified names of functions by which a script gives its optimizer to the recipe's library.
        in_process: whether the model is restructured without a restart, so that what is handed over must be built
            again beside the epoch loop.
        shared: the names of modules that other scripts import too.
        other_ways: the wrappers of models that a run may train in the place of this one.
    """
    by_target: dict[str, list[cst.Call]] = {}
    built = outermost(
        flow, used_to_train(index, flow, find_constructions(index, flow, model, handover), loops, handover)
    )
    built = those_stepped(index, flow, built) if len(built) > 1 else built
    built = [one for one in built if not _beside_tracker(index, flow, one.node, handover)]
    beside = {index.scope_of(origin.node) for origin in model}
    near = {statement.scope for statement in leading_to(loops, flow)}
    made_at = [
        one
        for origin in [o for o in built if not apart_from_training(index.statement(o.node), loops, flow)] or built
        for one in (
            [origin] if index.scope_of(origin.node) in beside else _at_the_calls(flow, origin, model, near, shared)
        )
    ]
    targets: dict[cst.Call, str] = {}
    for origin in dict.fromkeys(made_at):
        assert isinstance(origin.node, cst.Call)
        targets[origin.node] = target_of(index, origin.node, origin.item)
        by_target.setdefault(targets[origin.node], []).append(origin.node)
    chosen = _chosen(index, flow, by_target) if len(by_target) > 1 else None
    if chosen is not None:
        by_target = {chosen.target: [call for calls in by_target.values() for call in calls]}
    found = []
    for target, calls in _joined(index, flow, by_target).items():
        call = calls[0]
        name = index.source.code(call.func)
        kind = index.qualified(call.func).rpartition(".")[2]
        whole = _model_of_parameters(index, flow, call, model)
        bound = bind(index, call, index.knowledge.signatures(OptimizerKind).get(kind, ())) or []
        if whole:
            bound = [(key, f"{whole}.parameters()" if key == "params" else code) for key, code in bound]
        optimizer = Optimizer(
            node=call,
            index=index,
            target=target,
            name=name,
            bound=bound,
            parameter_model=whole or _parameter_model(call),
        )
        others = _other_branches(flow, optimizer, calls)
        optimizer.held = _held(flow, call)
        optimizer.collected = _collected(flow, optimizer, calls)
        optimizer.handed_over = _handed_over(index, flow, optimizer, calls, handover)
        later = [one for one in models if finished_after(one, optimizer.statement)]
        behind = [one for one in models if sooner_than_model(optimizer.statement, one, model, flow) is not None]
        optimizer.early, finished = bool(behind), [*later, *behind]
        unnamed = not optimizer.parameter_model and all(
            may_lack_value(name, optimizer.statement, index) for name in flow.names_of(model, optimizer.scope)
        )
        optimizer.keeps = (
            reason_to_keep(index, flow, optimizer, calls, schedulers, scores)
            or ("other scripts import its file" if optimizer.file.name in shared else "")
            or ("the model has no name where it is built" if unnamed else "")
            or ("it is built only where none is given" if _unless_given(index, optimizer) is not None else "")
            or (f"it may have another value ({index.place(others[0].node)})" if others else "")
            or (f"it is one of several ({index.place(chosen.statement.node)})" if chosen is not None else "")
            or (f"`{other_ways[0].operand}` may be trained instead" if other_ways else "")
            or (f"the model is finished only after it ({finished[-1].place(optimizer)})" if finished else "")
            or ("it is built in each turn" if any(loop.statement in optimizer.statement.path for loop in loops) else "")
            or (reason_not_to_build_again(index, flow, optimizer, loops) if in_process else "")
            or ("the script gives it to the tracker" if optimizer.handed_over else "")
        )
        if not optimizer.plain:
            known = index.knowledge.named(OptimizerKind)
            own = [one for one in calls if (made := flow.called(one)) is not None and made.name == "__init__"]
            further = [one for one in calls if one in own or index.qualified(one.func) in known]
            optimizer.name = " or ".join(dict.fromkeys([name, *(index.source.code(one.func) for one in further)]))
        mine = schedulers_of(flow, calls, schedulers)
        if optimizer.plain and mine:
            optimizer.scheduler = mine[0]
            mine[0].optimizer = optimizer
            for step in mine[0].steps:
                step.removed = True
        _place(flow, optimizer, {one: targets[one] for one in calls}, others, loops, handover, in_process)
        if later or chosen is not None:
            optimizer.anchors["made"] = later[-1].node if chosen is None else chosen.statement.node
        found.append(optimizer)
    return found


def _chosen(index: Index, flow: Flow, by_target: dict[str, list[cst.Call]]) -> Binding | None:
    """Return what gives a name the one that steps of several optimizers that are built: `optimizer = built[kind]`."""
    made = {call for calls in by_target.values() for call in calls}
    bound = [
        one
        for one in index.bindings
        if isinstance(one.value, (cst.IfExp, cst.Subscript))
        and _may_be(flow, one.value, one.statement.scope) == made
        and all(index.scope_of(call) is one.statement.scope for call in made)
    ]
    if len(bound) != 1 or index.bound([bound[0].target], bound[0].statement.scope) != bound:
        return None
    variable = flow.variable(bound[0].target, bound[0].statement.scope)

    def is_chosen(node: cst.BaseExpression | None, scope: Scope) -> bool:
        """Whether an expression is that name, or a parameter that gets it alone."""
        held = flow.variable(name, scope) if (name := dotted(node)) is not None else None
        given = flow.sources(held) if held is not None and name in scope.parameters else []
        return held == variable or (bool(given) and all(is_chosen(one.value, one.scope) for one in given))

    steps = [(whose, index.scope_of(call)) for call, whose in index.method_calls("step")]
    others = [{one.node for one in flow.deep_origins(*step)} for step in steps if not is_chosen(*step)]
    known = all(some and made.isdisjoint(some) and all(isinstance(one, cst.Call) for one in some) for some in others)
    return bound[0] if known and len(others) < len(steps) else None


def _may_be(flow: Flow, value: cst.BaseExpression, scope: Scope) -> set[cst.BaseExpression]:
    """Return what an expression may stand for, each item of a dict where the key is made at run time."""
    made = {origin.node for origin in flow.origins(value, scope)}
    if isinstance(value, cst.Subscript) and not all(isinstance(one, cst.Call) for one in made):
        held = [origin.node for origin in flow.origins(value.value, scope)]
        return {item.value for one in held if isinstance(one, cst.Dict) for item in one.elements}
    return made


def _place(
    flow: Flow,
    optimizer: Optimizer,
    calls: dict[cst.Call, str],
    others: list[Statement],
    loops: list[EpochLoop],
    handover: frozenset[str],
    in_process: bool,
) -> None:
    """Tell after which statement an optimizer is there, and where it is built again.

    Args:
        calls: its constructions, with the variable that gets the value of each.
        others: the statements that give its variable another value.
    """
    index, leading, bodies = flow.index, leading_to(loops, flow), {loop.statement for loop in loops}
    made = [index.statement(call) for call in calls]
    given = optimizer.target in optimizer.scope.parameters
    here = [s for s in made if s.scope is optimizer.scope] or [optimizer.statement]
    if given and _held_by(flow, optimizer.target, optimizer.scope).issuperset(calls):
        joint = _unless_given(index, optimizer) or meeting(here) or optimizer.statement
        if not any(isinstance(part.node, cst.If) and part not in leading for part in joint.around):
            made = here  # else the training may begin with the one that is given
    if not in_process:
        here = [s for s in here if not _at_a_turn(s, bodies)] or here
    anchor = _unless_given(index, optimizer) or meeting([*here, *others]) or optimizer.statement
    while anchor in leading and (inner := meeting([s for s in here if anchor in s.path[:-1]])) is not None:
        if inner is anchor:
            break
        anchor = inner  # built anew in the block that trains
    optimizer.anchors["made"] = anchor.node
    elsewhere = [one for one in calls if index.statement(one) in made and index.statement(one) not in here]
    optimizer.rebuilt = [_rebuilding(index, flow, one, calls[one], handover) for one in elsewhere]
    running = called_in(index, flow, *bodies) if in_process else ()
    late = [one.statement for one in optimizer.rebuilt if one.scope in running]
    apart = len(here) > 1 and (
        anchor in leading
        or (not in_process and _passed_by(anchor, optimizer, here))
        or any(given_before(anchor, one, [optimizer.target]) for one in here)
    )
    inside = [s for s in (here if apart else [anchor]) if not bodies.isdisjoint(s.path)]
    if in_process or not all(leads_to(s, loop.training) for s in inside for loop in loops if loop.statement in s.path):
        late += inside or (here[-1:] if apart else [])
    elif apart:
        first, *further = [one for one in calls if index.statement(one) in here]
        optimizer.anchors["made"] = index.statement(first).node
        optimizer.rebuilt += [_rebuilding(index, flow, one, calls[one], handover) for one in further]
    optimizer.late = index.place(late[0].node, optimizer.file) if late else ""


def _passed_by(choice: Statement, optimizer: Optimizer, made: list[Statement]) -> bool:
    """Whether choices of optimizers may build none, as they have no `else`, and none is there before.

    Args:
        choice: the last of them.
        made: what builds one.
    """
    choices = [part for one in made for part in one.path if part.siblings is choice.siblings]
    for part in choices:
        last: cst.CSTNode = part.node
        while isinstance(last, cst.If) and last.orelse is not None:
            last = last.orelse
        if not isinstance(last, cst.If):
            return False
    first = min(part.order for part in choices)
    return all(one.statement.order >= first for one in optimizer.index.bound([optimizer.target], choice.scope))


def finished_after(model: Model, built: Statement) -> bool:
    """Whether a function finishes the model after it builds an optimizer, whose parameters are those of the parts."""
    here = model.statement
    late = here.scope is built.scope and here.order >= built.order and model.side == "after"
    return late and not exclude_each_other(here, built)


def _at_a_turn(made: Statement, bodies: set[Statement]) -> bool:
    """Whether a statement runs at some turns of the epoch loop only, as where frozen layers are let train."""
    inside = [part for part in made.around if not bodies.isdisjoint(part.path[:-1])]
    return any(isinstance(part.node, cst.If) for part in inside)


def _rebuilding(index: Index, flow: Flow, call: cst.Call, target: str, handover: frozenset[str]) -> Rebuilding:
    target += _held(flow, call)
    scope = index.scope_of(call)
    handing = [call for call in index.calls_of(scope) if index.qualified(call.func) in handover]
    given = [operand for c in handing if (operand := argument(c, "", 0)) is not None]
    told = target in map(index.source.code, given)
    return Rebuilding(node=call, index=index, target=target, handed_over=told)


def _joined(index: Index, flow: Flow, by_target: dict[str, list[cst.Call]]) -> dict[str, list[cst.Call]]:
    """Put together what one variable may hold, as `Adam(...) if given is None else given` does, its own call first."""
    for target, calls in by_target.items():
        for call in calls:
            held = _held_by(flow, target, index.scope_of(call))
            parts = [name for name, others in by_target.items() if held.issuperset(others)]
            if (
                call in held
                and target in parts
                and any(
                    index.scope_of(part) is not index.scope_of(call) or isinstance(index.parents[call], cst.IfExp)
                    for part in held
                )
            ):
                others = [other for name in parts for other in by_target[name] if other is not call]
                rest = {name: others for name, others in by_target.items() if name not in parts}
                return {target: [call, *others], **_joined(index, flow, rest)}
    return by_target


def _held_by(flow: Flow, target: str, scope: Scope) -> set[cst.BaseExpression]:
    """Return what a plain variable may hold; nothing for an attribute."""
    return {origin.node for origin in flow.origins(cst.Name(target), scope)} if target.isidentifier() else set()


def _unless_given(index: Index, optimizer: Optimizer) -> Statement | None:
    """Return the `if` under which a function builds the optimizer only where it was not given one, None for no such."""
    asked = (f"{optimizer.target} is None", f"not {optimizer.target}")
    for statement in optimizer.statement.around if optimizer.target in optimizer.scope.parameters else ():
        if isinstance(statement.node, cst.If) and index.source.code(statement.node.test) in asked:
            return statement
    return None


def _at_the_calls(
    flow: Flow, made: Origin, model: set[Origin], near: set[Scope], shared: Collection[str]
) -> list[Origin]:
    """Return the calls by which the training gets optimizers from a function that others call too, else ``made``.

    Args:
        model: where the model is built; of calls that make one for a model each, those count that name this.
        near: the scopes that lead to the training.
        shared: the names of modules that other scripts import too.
    """
    index = flow.index
    function = index.scope_of(made.node)
    callers = flow.callers(function)
    callers = [call for call in callers if index.scope_of(call) in near] or callers
    callers = [call for call in callers if is_of(index, flow, call, model)] or callers
    if function.kind != "function":
        return [made]
    if index.file_of(function).name not in shared and len(list(_calls_by_name(index, function))) < 2:
        return [made]
    named = [b for b in index.bindings if b.value in callers and made in flow.closure({Origin(b.value, b.item)})]
    bound = list({binding.value: binding for binding in reversed(named)}.values())[::-1]  # one a call
    several = len({binding.target for binding in bound}) == len(bound) and all(
        one_after_the_other(here.statement, there.statement) for here, there in pairwise(bound)
    )
    if len(bound) != len(callers) or not bound or not several:
        return [made]
    outer = [Origin(b.value, b.item) for b in bound if b.value is not None]
    return [one for origin in outer for one in _at_the_calls(flow, origin, model, near, shared)]


def _calls_by_name(index: Index, function: Scope) -> Iterator[cst.Call]:
    """Yield the calls of what has a function's name, also in code that is no part of the training."""
    for call in index.nodes_of(cst.Call):
        if last_name(call.func) == function.name:
            yield call


def _other_branches(flow: Flow, optimizer: Optimizer, calls: list[cst.Call]) -> list[Statement]:
    """Return the statements that give the optimizer's variable another value where its constructions do not run."""
    index = flow.index
    made = [index.statement(call) for call in calls]
    bound = [b for b in index.bound([optimizer.target], optimizer.scope) if b.value is not None]
    others = [b.statement for b in bound if dotted(b.value) != "None" and b.statement not in made]
    return [one for one in others if any(exclude_each_other(one, statement) for statement in made)]


def _collected(flow: Flow, optimizer: Optimizer, calls: list[cst.Call]) -> str:
    """Return the place of the dict or list that the optimizer's variable holds in some runs; "" for none."""
    index, target = flow.index, optimizer.target
    made = [index.statement(call) for call in calls]
    filled = any(b.target.partition("[")[0] == target for b in (*index.items, *index.appended))
    for b in index.bound([target], optimizer.scope):
        instead = b.statement in made or any(exclude_each_other(b.statement, one) for one in made)
        given = flow.origins(b.value, optimizer.scope, b.item) if b.value is not None and instead else []
        for node in [origin.node for origin in flow.through(given)]:
            display = isinstance(node, (cst.Dict, cst.List, cst.Tuple)) and (node.elements or filled)
            if display or isinstance(node, (cst.DictComp, cst.ListComp)):
                return index.place(node, optimizer.file)
    return ""


def _held(flow: Flow, call: cst.Call) -> str:
    """Return the attribute in which an object of the project's own class, no optimizer itself, keeps the one given."""
    init = flow.called(call)
    if init is None or init.name != "__init__" or init.parent is None or flow.root(init.parent).startswith("torch."):
        return ""
    own = [binding for binding in flow.index.bindings if binding.statement.scope.enclosing_class is init.parent]
    given = {*init.parent.inner, *(binding.target for binding in own)}
    if not given.isdisjoint(("param_groups", "self.param_groups", "__getattr__")):
        return ""
    for binding in own:
        if binding.statement.scope is init and binding.target.startswith("self.") and binding.value is not None:
            made = flow.origins(binding.value, init)
            if any(is_torchs(flow.index, flow, o.node) for o in made) and dotted(binding.value) in init.parameters:
                return binding.target.removeprefix("self")
    return ""


def _with_parameters(params: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """Return what `X.parameters(...)` is called on, None for any other expression."""
    return receiver(params) if method_name(params) == "parameters" else None


def _parameter_model(call: cst.Call) -> str:
    """Return `model` for `SGD(model.parameters(), ...)`."""
    name = dotted(_with_parameters(argument(call, "params", 0))) or ""
    return name if name.isidentifier() else ""


def _model_of_parameters(index: Index, flow: Flow, call: cst.Call, model: set[Origin]) -> str:
    """Return the model's name here, where a name holds its `parameters()` from before, perhaps from a factory."""
    params, scope = argument(call, "params", 0), index.scope_of(call)
    if not isinstance(params, cst.Name):
        return ""
    made = [o for o in flow.deep_origins(params, scope) if not flow.inside(o)]
    for origin in made:
        node, whose = origin.node, _with_parameters(origin.node)
        if whose is None or not isinstance(node, cst.Call) or node.args:
            return ""
        if not flow.deep_origins(whose, index.scope_of(node)) & model:
            return ""
    names = flow.names_of(model, scope) if made else []
    return next((name for name in names if name.isidentifier() and name != params.value), "")


def _handed_over(
    index: Index, flow: Flow, optimizer: Optimizer, calls: list[cst.Call], handover: frozenset[str]
) -> bool:
    origins = {Origin(call) for call in calls}
    for call in index.calls:
        operand = argument(call, "", 0) if index.qualified(call.func) in handover else None
        if operand is None:
            continue
        scope = index.scope_of(call)
        if scope is optimizer.scope and index.source.code(operand) == optimizer.target + optimizer.held:
            return True
        if not origins.isdisjoint(flow.deep_origins(operand, scope)):
            return True
    return False


def _beside_tracker(index: Index, flow: Flow, made: cst.CSTNode, handover: frozenset[str]) -> bool:
    """Whether an optimizer is built on another way than that on which the tracker has one: without dendrites."""
    own = index.statement(made)
    handing = [
        index.statement(call) for call in index.calls_of(own.scope) if goes_to_tracker(index, flow, call, handover)
    ]
    return any(exclude_each_other(one, own) for one in handing)
