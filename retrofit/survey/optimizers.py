"""Find the optimizer and the learning-rate schedulers, and tell whether they can be handed over as they are."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import libcst as cst

from retrofit import torch_api
from retrofit.survey.backwards import has_own_tensors
from retrofit.survey.branches import exclude_each_other, meeting
from retrofit.survey.flow import Flow, Origin
from retrofit.survey.holders import parameter_holders
from retrofit.survey.index import Index, Scope, Statement
from retrofit.survey.loops import called_in, passing_over
from retrofit.survey.nodes import argument, dotted, last_name, mentions, method_name, named_in, receiver
from retrofit.survey.order import apart_from_training, leading_to, sooner_than_model
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.model import Model
from retrofit.survey.sites.optimizer import Optimizer, Rebuilding, Scheduler, Step
from retrofit.survey.sites.score import Score

_SCHEDULER_MODULE = "torch.optim.lr_scheduler."


def find_schedulers(index: Index, flow: Flow, loops: list[EpochLoop]) -> tuple[list[Scheduler], list[Step]]:
    """Return the learning-rate schedulers of torch and the calls that step them.

    Args:
        loops: the epoch loops, to tell steps once an epoch from steps once a batch.
    """
    schedulers = []
    for call in index.calls:
        name = index.qualified(call.func)
        kind = name.rpartition(".")[2]
        if name.startswith(_SCHEDULER_MODULE) or (kind in torch_api.SCHEDULERS and _by_star(index, call, name)):
            schedulers.append(
                Scheduler(
                    node=call,
                    index=index,
                    target=target_of(index, call),
                    name=index.source.code(call.func),
                    kind=kind,
                    bound=bind(index, call, torch_api.SCHEDULERS.get(kind, ()), skip=1) or [],
                )
            )
    by_origin = {Origin(s.node): s for s in schedulers if isinstance(s.node, cst.BaseExpression)}
    steps = []
    for call, operand in index.method_calls("step"):
        origins = [o for o in flow.origins(operand, index.scope_of(call)) if dotted(o.node) != "None"]
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
    """
    by_target: dict[str, list[cst.Call]] = {}
    built = _outermost(flow, _used_to_train(index, flow, _constructions(index, flow, model, handover), loops, handover))
    built = _stepped(index, flow, built) if len(built) > 1 else built
    built = [one for one in built if not _beside_tracker(index, flow, one.node, handover)]
    beside = {index.scope_of(origin.node) for origin in model}
    near = {statement.scope for statement in leading_to(loops, flow)}
    made_at = [
        one if index.scope_of(one.node) in beside else _at_the_call(flow, one, near, shared)
        for one in [o for o in built if not apart_from_training(index.statement(o.node), loops, flow)] or built
    ]
    for origin in dict.fromkeys(made_at):
        assert isinstance(origin.node, cst.Call)
        by_target.setdefault(target_of(index, origin.node, origin.item), []).append(origin.node)
    found = []
    for target, calls in _joined(index, flow, by_target).items():
        call = calls[0]
        name = index.source.code(call.func)
        kind = index.qualified(call.func).rpartition(".")[2]
        whole = _model_of_parameters(index, flow, call, model)
        bound = bind(index, call, torch_api.OPTIMIZERS.get(kind, ())) or []
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
        optimizer.handed_over = _handed_over(index, flow, optimizer, calls, handover)
        later = [one for one in models if finished_after(one, optimizer.statement)]
        behind = [one for one in models if sooner_than_model(optimizer.statement, one, model, flow) is not None]
        optimizer.early, finished = bool(behind), [*later, *behind]
        unnamed = not optimizer.parameter_model and not flow.names_of(model, optimizer.scope)
        optimizer.keeps = (
            _reason_to_keep(index, flow, optimizer, calls, schedulers, scores)
            or ("other scripts import its file" if optimizer.file.name in shared else "")
            or ("the model has no name where it is built" if unnamed else "")
            or ("it is built only where none is given" if _unless_given(index, optimizer) is not None else "")
            or (f"it may have another value ({index.place(others[0].node)})" if others else "")
            or (f"the model is finished only after it ({finished[-1].place(optimizer)})" if finished else "")
            or (_reason_not_to_build_again(index, flow, optimizer, loops) if in_process else "")
            or ("the script gives it to the tracker" if optimizer.handed_over else "")
        )
        mine = _schedulers_of(flow, calls, schedulers)
        if optimizer.plain and mine:
            optimizer.scheduler = mine[0]
            mine[0].optimizer = optimizer
            for step in mine[0].steps:
                step.removed = True
        _place(flow, optimizer, calls, others, loops, handover, in_process)
        if later:
            optimizer.anchors["made"] = later[-1].node
        found.append(optimizer)
    return found


def _place(
    flow: Flow,
    optimizer: Optimizer,
    calls: list[cst.Call],
    others: list[Statement],
    loops: list[EpochLoop],
    handover: frozenset[str],
    in_process: bool,
) -> None:
    """Tell after which statement an optimizer is there, and where it is built again.

    Args:
        calls: its constructions.
        others: the statements that give its variable another value.
    """
    index, leading, bodies = flow.index, leading_to(loops, flow), {loop.statement for loop in loops}
    made = [index.statement(call) for call in calls]
    given = optimizer.target in optimizer.scope.parameters
    if given and _held_by(flow, optimizer.target, optimizer.scope).issuperset(calls):
        made = [statement for statement in made if statement.scope is optimizer.scope]
    here = [s for s in made if s.scope is optimizer.scope] or [optimizer.statement]
    if not in_process:
        here = [s for s in here if not _at_a_turn(s, bodies)] or here
    anchor = _unless_given(index, optimizer) or meeting([*here, *others]) or optimizer.statement
    while anchor in leading and (inner := meeting([s for s in here if anchor in s.path[:-1]])) is not None:
        if inner is anchor:
            break
        anchor = inner  # built anew in the block that trains
    optimizer.anchors["made"] = anchor.node
    elsewhere = [one for one in calls if index.statement(one) in made and index.statement(one) not in here]
    optimizer.rebuilt = [_rebuilding(index, flow, one, handover) for one in elsewhere]
    running = called_in(index, flow, *bodies) if in_process else ()
    late = [one.statement for one in optimizer.rebuilt if one.scope in running]
    if not bodies.isdisjoint(anchor.path) or (anchor in leading and len(here) > 1):
        late.append(next((s for s in here if not bodies.isdisjoint(s.path)), here[-1]))
    optimizer.late = index.place(late[0].node, optimizer.file) if late else ""


def finished_after(model: Model, built: Statement) -> bool:
    """Whether a function finishes the model after it builds an optimizer, whose parameters are those of the parts."""
    here = model.statement
    late = here.scope is built.scope and here.order >= built.order and model.side == "after"
    return late and not exclude_each_other(here, built)


def _at_a_turn(made: Statement, bodies: set[Statement]) -> bool:
    """Whether a statement runs at some turns of the epoch loop only, as where frozen layers are let train."""
    inside = [part for part in made.around if not bodies.isdisjoint(part.path[:-1])]
    return any(isinstance(part.node, cst.If) for part in inside)


def _rebuilding(index: Index, flow: Flow, call: cst.Call, handover: frozenset[str]) -> Rebuilding:
    target = target_of(index, call) + _held(flow, call)
    scope = index.scope_of(call)
    handing = [call for call in index.calls_of(scope) if index.qualified(call.func) in handover]
    given = [operand for c in handing if (operand := argument(c, "", 0)) is not None]
    told = target in map(index.source.code, given)
    return Rebuilding(node=call, index=index, target=target, handed_over=told)


def _reason_not_to_build_again(index: Index, flow: Flow, optimizer: Optimizer, loops: list[EpochLoop]) -> str:
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
        scheduler = name in torch_api.SCHEDULERS or index.qualified(call.func).startswith(_SCHEDULER_MODULE)
        if lasting and not scheduler and any(means_it(arg.value, place.scope) for arg in call.args):
            return name
    return ""


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


def _outermost(flow: Flow, made: list[Origin]) -> list[Origin]:
    """Leave out the constructions in a helper that another one of the calls calls."""
    inside = {o.node for origin in made for o in flow.closure(set(flow.inside(origin)))}
    return [origin for origin in made if origin.node not in inside] or made


def _at_the_call(flow: Flow, made: Origin, near: set[Scope], shared: Collection[str]) -> Origin:
    """Return the call by which the training gets an optimizer from a function that others call too, else ``made``.

    Args:
        near: the scopes that lead to the training.
        shared: the names of modules that other scripts import too.
    """
    index = flow.index
    function = index.scope_of(made.node)
    callers = flow.callers(function)
    callers = [call for call in callers if index.scope_of(call) in near] or callers
    if function.kind != "function" or len(callers) != 1:
        return made
    if index.file_of(function).name not in shared and len(list(_calls_by_name(index, function))) < 2:
        return made
    for binding in index.bindings:
        outer = Origin(callers[0], binding.item)
        if binding.value is callers[0] and made in flow.closure({outer}):
            return _at_the_call(flow, outer, near, shared)
    return made


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


def _held(flow: Flow, call: cst.Call) -> str:
    """Return the attribute in which an object of the project's own class, no optimizer itself, keeps the one given."""
    init = flow.called(call)
    if init is None or init.name != "__init__" or init.parent is None or flow.root(init.parent).startswith("torch."):
        return ""
    if re.search(r"def (param_groups|__getattr__)\b|self\.param_groups =", flow.index.source.read(init.parent.node)):
        return ""
    for binding in flow.index.bindings:
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


def _by_tracker(index: Index, flow: Flow, call: cst.Call, handover: frozenset[str]) -> bool:
    """Whether a call, or the local function that it calls, leaves the construction to the recipe's library."""
    if index.qualified(call.func) in handover:
        return True
    function = flow.called(call)
    return function is not None and any(index.qualified(inner.func) in handover for inner in index.calls_of(function))


def is_torchs(index: Index, flow: Flow, node: cst.CSTNode) -> bool:
    """Whether an expression builds an optimizer of torch, perhaps one that is chosen when it runs.

    So are `getattr(optim, name)(...)`, `optim.__dict__[name](...)` and `{"sgd": SGD}[name](...)`, or a name for these.
    """
    if not isinstance(node, cst.Call):
        return False
    made = [] if isinstance(node.func, cst.Attribute) else flow.origins(node.func, index.scope_of(node))
    return any(
        is_torchs_class(index, part) or index.qualified(part) in ("torch.optim", "torch.optim.__dict__")
        for one in (node.func, *(origin.node for origin in made))
        for part in ([one] if isinstance(one, cst.Attribute) else named_in(one))
    )


def is_torchs_class(index: Index, node: cst.CSTNode) -> bool:
    name = index.qualified(node)
    kind = name.rpartition(".")[2]
    own = name.startswith("torch.optim.") and not name.startswith(_SCHEDULER_MODULE) and kind[:1].isupper()
    return (own and kind != "AveragedModel") or kind in torch_api.OPTIMIZERS


def _used(index: Index, flow: Flow, method: str) -> set[Origin]:
    """Return where all that has a method called is made, and what `scaler.step` is given."""
    found: set[Origin] = set()
    for call, holder in index.method_calls(method):
        operand = argument(call, "", 0) if method == "step" else None
        for node in (holder, operand):
            found |= flow.deep_origins(node, index.scope_of(call)) if node is not None else set()
    return found | {Origin(o.node.value) for o in found if isinstance(o.node, cst.Subscript)}  # what returns an item


def _constructions(index: Index, flow: Flow, model: set[Origin], handover: frozenset[str]) -> list[Origin]:
    """Return the calls that make an optimizer: torch's own classes, and whatever is stepped and zeroed like one."""
    used = {name: _used(index, flow, name) for name in ("step", "zero_grad")}
    both = (used["step"] & used["zero_grad"]) - model

    def named_so(origin: Origin) -> bool:
        """Whether a call makes something by the name of an optimizer out of the model."""
        node = origin.node
        if not isinstance(node, cst.Call) or origin in model:
            return False
        named = f"{index.source.code(node.func)} {target_of(index, node, origin.item)}".lower()
        return re.search(r"optim|\bopt\b", named) is not None and "sched" not in named

    # an optimizer that something outside the project makes, and steps; then one whose gradients the model zeroes
    both |= {
        o
        for o in used["zero_grad"]
        if named_so(o) and isinstance(o.node, cst.Call) and not flow.called(o.node)
        if _trains(index, flow, o.node, model)
    }
    if not used["zero_grad"].isdisjoint(model):
        both |= {o for o in used["step"] if named_so(o)}
    found: list[Origin] = []
    assigned = {binding.value for binding in [*index.bindings, *index.items]}
    for call in index.calls:
        torchs = _held_as(index, call) in assigned and is_torchs(index, flow, call)
        kinds = [Origin(call)] if torchs or is_own_class(flow, call) else []
        kinds += [Origin(call)] if call in assigned and _returns_torchs(index, flow, call) else []
        kinds += sorted(
            (o for o in both if o.node is call and (o.item is None or _makes_item(flow, o))), key=lambda o: o.item or 0
        )
        if not kinds:
            continue
        if has_own_tensors(index, call) or _by_tracker(index, flow, call, handover):
            continue
        several = kinds if kinds[0].item is not None else kinds[:1]
        found += [one for one in several if target_of(index, call, one.item)]
    calls = [o.node for o in found if isinstance(o.node, cst.Call)]
    classes = {holder for call in calls if (holder := index.scope_of(call).enclosing_class) is not None}

    def holds_another(origin: Origin) -> bool:
        """Whether what is made is an object whose class builds one of the others, and is no optimizer itself."""
        made = [flow.called(one.node) for one in flow.closure({origin}) if isinstance(one.node, cst.Call)]
        holders = [init.parent for init in made if init is not None and init.name == "__init__"]
        return any(one in classes and not flow.root(one).startswith("torch.optim.") for one in holders if one)

    found = [o for o in found if not holds_another(o) and not _returned_by_name(index, flow, o.node, calls)]
    own = [o for o in found if not trains_another(index, flow, o.node, model)]
    training = {target_of(index, o.node, o.item) for o in found if _trains(index, flow, o.node, model)}
    if not training and not any(index.qualified(call.func) in handover for call in index.calls):
        # where parameters are collected before, nothing names the model; but another's are named
        training = {target_of(index, o.node, o.item) for o in own or found}
    chosen = [o for o in found if target_of(index, o.node, o.item) in training]
    return [o for o in chosen if o in own] or chosen


def _used_to_train(
    index: Index, flow: Flow, made: list[Origin], loops: list[EpochLoop], handover: frozenset[str]
) -> list[Origin]:
    """Leave out what only others than the training use, to draw a schedule, where it is known of all that it steps."""
    bodies = [loop.statement for loop in loops]
    scopes = called_in(index, flow, *bodies).union(index.scope_of(call) for call, _ in index.method_calls("backward"))
    calls = [call for body in bodies for call in index.calls_in(body)]
    calls += [call for scope in scopes.difference(loop.scope for loop in loops) for call in index.calls_of(scope)]
    values = [arg.value for call in calls for arg in call.args]
    used = {origin for value in values for origin in flow.deep_origins(value, index.scope_of(value))}
    for call, whose in index.method_calls("step"):
        if call not in calls:
            continue
        stepped = {o for o in flow.deep_origins(whose, index.scope_of(call)) if dotted(o.node) != "None"}
        makers = [origin.node for origin in stepped if isinstance(origin.node, cst.Call)]
        if not stepped or len(makers) < len(stepped):
            return made
        given = [arg.value for maker in makers for arg in maker.args]
        used |= stepped.union(*(flow.deep_origins(value, index.scope_of(value)) for value in given))
    by_tracker = any(isinstance(one.node, cst.Call) and _by_tracker(index, flow, one.node, handover) for one in used)
    found = [origin for origin in made if not used.isdisjoint(flow.closure({origin}))]
    if (found or by_tracker) and index.calls_to(*handover):
        return found  # the script tells the tracker itself which one trains, and of no other
    used |= _used(index, flow, "zero_grad")  # a further one may train all the same, but not one that is only given on
    kept = [one for one in made if not used.isdisjoint(flow.closure({one})) or not _given_on(index, one)]
    return kept if found or by_tracker else made


def _stepped(index: Index, flow: Flow, made: list[Origin]) -> list[Origin]:
    """Leave out what nothing steps, where something else is stepped, and all that is stepped is known."""
    stepped: set[Origin] = set()
    for call, whose in index.method_calls("step"):
        held = {o for o in flow.deep_origins(whose, index.scope_of(call)) if dotted(o.node) != "None"}
        if not held or not all(isinstance(one.node, cst.Call) for one in held):
            return made
        stepped |= held
    for call in index.calls:  # of what is out of sight, which may step what it is given
        if flow.called(call) is None and not index.qualified(call.func).startswith(_SCHEDULER_MODULE):
            stepped.update(*(flow.deep_origins(arg.value, index.scope_of(call)) for arg in call.args))
    return [one for one in made if not stepped.isdisjoint(flow.closure({one}))] or made


def _given_on(index: Index, made: Origin) -> bool:
    """Whether the function that makes an optimizer gives it to anything, such as a scheduler."""
    target = target_of(index, made.node, made.item)
    return any(dotted(arg.value) == target for call in index.calls_of(index.scope_of(made.node)) for arg in call.args)


def _returns_torchs(index: Index, flow: Flow, call: cst.Call) -> bool:
    """Whether a local function returns an optimizer of torch right where it builds it: `return SGD(...)`."""
    inside = [origin.node for origin in flow.inside(Origin(call)) if is_torchs(index, flow, origin.node)]
    return bool(inside) and not any(target_of(index, node) for node in inside)


def _makes_item(flow: Flow, origin: Origin) -> bool:
    """Whether a call makes one of the values that it returns, as far as is seen: neither got it nor builds it here."""
    assert isinstance(origin.node, cst.Call)
    given = {dotted(arg.value) for arg in origin.node.args}
    target = target_of(flow.index, origin.node, origin.item)
    inside = [o.node for o in flow.closure({origin}) if is_torchs(flow.index, flow, o.node)]
    return target not in given and not any(target_of(flow.index, node) for node in inside)


def is_own_class(flow: Flow, call: cst.Call) -> bool:
    """Whether a call makes an object of a class of the project that extends one of torch's optimizers."""
    defined = flow.class_made(call)
    root = "" if defined is None else flow.root(defined)
    return root.startswith("torch.optim.") and not root.startswith((_SCHEDULER_MODULE, "torch.optim.swa_utils."))


def _returned_by_name(index: Index, flow: Flow, call: cst.BaseExpression, found: list[cst.Call]) -> bool:
    """Whether a call of an unknown object's method has the name of a function here that builds an optimizer."""
    makers = {index.scope_of(other) for other in found if other is not call}
    unknown = isinstance(call, cst.Call) and flow.called(call) is None
    return unknown and any(scope.kind == "function" and scope.name == method_name(call) for scope in makers)


def _trains(index: Index, flow: Flow, call: cst.BaseExpression, model: set[Origin]) -> bool:
    """Whether a construction's arguments mention the model."""
    names = flow.names_of(model, index.scope_of(call))
    return isinstance(call, cst.Call) and any(mentions(arg, names) for arg in call.args)


def trains_another(index: Index, flow: Flow, node: cst.BaseExpression, model: set[Origin]) -> bool:
    """Whether an optimizer gets the parameters of what neither is the model nor is made from it, as a loss.

    Args:
        node: its construction; no other expression does.
        model: where the model is built.
    """
    params = argument(node, "params", 0) if isinstance(node, cst.Call) else None
    holders = parameter_holders(params, index.scope_of(params), flow) if params is not None else None
    made = [origin.node for origin in holders or () if isinstance(origin.node, cst.Call)]
    return (
        holders is not None
        and len(made) == len(holders) > 0
        and holders.isdisjoint(model)
        and not any(_trains(index, flow, call, model) for call in made)
    )


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
    handing = [index.statement(call) for call in index.calls_of(own.scope) if _by_tracker(index, flow, call, handover)]
    return any(exclude_each_other(one, own) for one in handing)


def _reason_to_keep(
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
    kind = index.qualified(call.func).rpartition(".")[2]
    if kind not in torch_api.OPTIMIZERS or not index.qualified(call.func).startswith("torch.optim"):
        return f"{optimizer.name} is no optimizer class of torch.optim"
    if bind(index, call, torch_api.OPTIMIZERS[kind]) is None:
        return "its arguments cannot be bound to names"
    if not _is_plain_assignment(index, call):
        return "it is not assigned by a statement of its own"
    if not optimizer.parameter_model and not _plain_parameters(index, call):
        return f"its parameters come from {index.source.code(call.args[0].value)}"
    by_hand = _rate_set_by_hand(index)
    if by_hand:
        return f"{by_hand} sets the learning rate by hand"
    mine = _schedulers_of(flow, calls, schedulers)
    if len(mine) > 1:
        return f"it has {len(mine)} schedulers"
    for scheduler in mine:
        reason = _scheduler_reason(index, optimizer, scheduler)
        if reason:
            return reason
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
    if scheduler.kind not in torch_api.SCHEDULERS:
        return f"its scheduler {scheduler.name} cannot be handed over as a class and values"
    if not scheduler.target or not _is_plain_assignment(index, call):
        return f"its scheduler {scheduler.name} is not assigned by a statement of its own"
    if bind(index, call, torch_api.SCHEDULERS[scheduler.kind], skip=1) is None:
        return "its scheduler's arguments cannot be bound to names"
    if not scheduler.steps:
        return f"its scheduler {scheduler.target} is never stepped here"
    for step in scheduler.steps:
        if step.per == "batch":
            return f"its scheduler is stepped once a batch ({step.place()})"
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


def _schedulers_of(flow: Flow, calls: list[cst.Call], schedulers: list[Scheduler]) -> list[Scheduler]:
    origins = {Origin(call) for call in calls}
    found = []
    for scheduler in schedulers:
        assert isinstance(scheduler.node, cst.Call)
        operand = argument(scheduler.node, "optimizer", 0)
        if operand is not None and not origins.isdisjoint(flow.origins(operand, scheduler.scope)):
            found.append(scheduler)
    return found


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
    groups = {
        index.source.code(loop.node.target)
        for loop in index.loops
        if isinstance(loop.node, cst.For) and "param_groups" in index.source.code(loop.node.iter)
    }
    for node in index.nodes_of(cst.Subscript):
        parent = index.parents[node]
        if not isinstance(parent, (cst.AssignTarget, cst.AugAssign)):
            continue
        code, base = index.source.code(node), index.source.code(node.value)
        rate = parent.target is node and re.search(r"""\[\s*["'](lr|learning_rate)["']\s*\]$""", code)
        if rate and ("param_group" in base or any(re.search(rf"\b{re.escape(base)}\b", group) for group in groups)):
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
        return index.qualified(params.func) in ("filter", "list") and ".parameters()" in index.source.code(params)
    return isinstance(params, (cst.List, cst.Tuple, cst.GeneratorExp, cst.ListComp)) and "named_parameters" not in (
        index.source.code(params)
    )


def target_of(index: Index, call: cst.CSTNode, item: int | None = None) -> str:
    """Return the variable that gets a call's value, perhaps by choice: `a() if x else b()`, `{1: a(), 2: b()}[x]`.

    Args:
        item: which of the values that it returns together is meant, None for what it returns.
    """
    value = _held_as(index, call)
    part = ""
    if isinstance(value, cst.Dict):  # of several things, not one of them: an item of it
        around = index.parents[call]
        if around not in value.elements or not isinstance(around, cst.DictElement):
            return ""
        if not isinstance(around.key, cst.SimpleString):
            return ""
        if _returned_by_choice(index, value):
            return ""
        part = f"[{around.key.value}]"
    bindings = [*index.bindings, *(b for b in index.items if re.fullmatch(r"[\w.]+\[[\"']\w+[\"']\]", b.target))]
    return next((f"{b.target}{part}" for b in bindings if b.value is value and item in (None, b.item)), "")


def _returned_by_choice(index: Index, made: cst.Dict) -> bool:
    """Whether a function returns the one item of a dict that a value chooses: `return choice[args.optimizer]`."""
    names = {b.target for b in index.bindings if b.value is made}
    return any(
        isinstance(one.value, cst.Subscript)
        and dotted(one.value.value) in names
        and scope is index.scope_of(made)
        and isinstance(key := one.value.slice[0].slice, cst.Index)
        and not isinstance(key.value, (cst.SimpleString, cst.Integer))
        for one, scope in index.returns
    )


def _held_as(index: Index, call: cst.CSTNode) -> cst.CSTNode:
    """Return the whole value of which a call's may be one by choice."""
    holder = index.parents.get(call)
    while isinstance(holder, (cst.IfExp, cst.DictElement, cst.Dict, cst.Subscript)):
        call, holder = holder, index.parents.get(holder)
    return call


def bind(index: Index, call: cst.Call, parameters: tuple[str, ...], skip: int = 0) -> list[tuple[str, str]] | None:
    """Bind a call's arguments to parameter names.

    Args:
        parameters: the names that arguments by position take.
        skip: how many first parameters to leave out.

    Returns:
        (name, code) pairs in the order of the call, `("**", code)` for an unpacked mapping; None where an argument by
        position has no known name.
    """
    bound = []
    for number, arg in enumerate(call.args):
        code = index.source.code(arg.value)
        if arg.star == "**":
            bound.append(("**", code))
        elif arg.star or (arg.keyword is None and number >= len(parameters)):
            return None
        else:
            name = arg.keyword.value if arg.keyword else parameters[number]
            if name not in parameters[:skip]:
                bound.append((name, code))
    return bound
