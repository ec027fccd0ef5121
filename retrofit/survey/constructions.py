"""Find the calls that make an optimizer of the model."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Sequence

import libcst as cst

from retrofit.knowledge.kinds import AveragesModel, Logs, Loss, Metric, Optimizer, Scheduler, Wraps
from retrofit.survey.backwards import backpropagations, has_own_tensors
from retrofit.survey.flow import Flow
from retrofit.survey.holders import ADDING, modules_walked, parameter_holders
from retrofit.survey.holding import Holding
from retrofit.survey.index import Index
from retrofit.survey.loops import called_in
from retrofit.survey.nodes import argument, dotted, last_name, mentions, method_name, named_in, names_in
from retrofit.survey.origins import Origin
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.targets import held_as, target_of
from retrofit.survey.weights import of_model


def outermost(flow: Flow, made: list[Origin]) -> list[Origin]:
    """Leave out the constructions in a helper that another one of the calls calls, and what is given to one there."""
    inside = {o.node for origin in made for o in flow.closure(set(flow.inside(origin)))}
    around = [node for node in inside if isinstance(node, cst.Call) and flow.class_made(node) is not None]
    given = [(arg.value, flow.index.scope_of(node)) for node in around for arg in node.args]
    inside |= {o.node for value, scope in given for o in flow.deep_origins(value, scope)}
    return [origin for origin in made if origin.node not in inside] or made


def goes_to_tracker(index: Index, flow: Flow, call: cst.Call, handover: frozenset[str]) -> bool:
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
    scope = index.scope_of(node)
    made = [] if isinstance(node.func, cst.Attribute) else flow.origins(node.func, scope)
    registered = flow.lookups.registrations(node.func, scope)
    if any(not isinstance(one, Scope) and is_torchs_class(index, one) for one in registered):
        return True
    return any(
        is_torchs_class(index, part) or index.qualified(part) in ("torch.optim", "torch.optim.__dict__")
        for one in (node.func, *(origin.node for origin in made))
        for part in ([one] if isinstance(one, cst.Attribute) else named_in(one))
    )


def is_torchs_class(index: Index, node: cst.CSTNode) -> bool:
    name = index.qualified(node)
    kind = name.rpartition(".")[2]
    known = index.knowledge
    other = known.known(Scheduler, name) or known.known(AveragesModel, name)
    own = name.startswith("torch.optim.") and kind[:1].isupper() and other is None
    return own or kind in known.signatures(Optimizer) or known.known(Optimizer, name) is not None


def _used(index: Index, flow: Flow, method: str) -> set[Origin]:
    """Return where all that has a method called is made, and what `scaler.step` is given."""
    found: set[Origin] = set()
    for call, holder in index.method_calls(method):
        operand = argument(call, "", 0) if method == "step" else None
        for node in (holder, operand):
            found |= flow.deep_origins(node, index.scope_of(call)) if node is not None else set()
    for call, known in backpropagations(index, flow) if method == "step" else ():
        stepped = next((argument(call, *one) for one in known.optimizer.items()), None)
        found |= flow.deep_origins(stepped, index.scope_of(call)) if stepped is not None else set()
    return found | {Origin(o.node.value) for o in found if isinstance(o.node, cst.Subscript)}  # what returns an item


def find_constructions(index: Index, flow: Flow, model: set[Origin], handover: frozenset[str]) -> list[Origin]:
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
        if is_of(index, flow, o.node, model)
    }
    if not used["zero_grad"].isdisjoint(model):
        both |= {o for o in used["step"] if named_so(o)}
    found: list[Origin] = []
    assigned = {binding.value for binding in [*index.bindings, *index.items]}
    for call in index.calls:
        torchs = held_as(index, call) in assigned and is_torchs(index, flow, call)
        kinds = [Origin(call)] if torchs or is_own_class(flow, call) else []
        kinds += [Origin(call)] if call in assigned and _returns_torchs(index, flow, call) else []
        kinds += sorted(
            (o for o in both if o.node is call and (o.item is None or _makes_item(flow, o))), key=lambda o: o.item or 0
        )
        if not kinds:
            continue
        if has_own_tensors(index, call) or goes_to_tracker(index, flow, call, handover):
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

    found = [o for o in found if not holds_another(o) and not _holds_several(index, flow, o)]
    found = [o for o in found if not _returned_by_name(index, flow, o.node, calls)]
    own = [o for o in found if not trains_another(index, flow, o.node, model)]
    training = {target_of(index, o.node, o.item) for o in found if is_of(index, flow, o.node, model)}
    if training:
        training |= {target_of(index, o.node, o.item) for o in own if _takes_part(flow, o.node, model)}
    elif not any(index.qualified(call.func) in handover for call in index.calls):
        # where parameters are collected before, nothing names the model; but another's are named
        training = {target_of(index, o.node, o.item) for o in own or found}
    chosen = [o for o in found if target_of(index, o.node, o.item) in training]
    return [o for o in chosen if o in own] or chosen


def with_optimizers(models: Sequence[set[Origin]], flow: Flow) -> list[set[Origin]]:
    """Leave out the models whose parameters no optimizer is given, as a teacher or what a loss compares features of.

    What is made of another one stays, and what may learn in another way. All are returned where it is not known whose
    parameters one is given.

    Args:
        models: where each is built.
    """
    index = flow.index
    grown = [name for _, held in index.method_calls(*ADDING) for name in names_in(held)]
    if any("param_groups" in name.split(".") for name in grown):
        return [*models]
    stepped = {one.node for one in _used(index, flow, "step")}
    sure = {one.node for one in _used(index, flow, "zero_grad")} & stepped
    sure |= {call for call in index.calls if is_torchs(index, flow, call) or is_own_class(flow, call)}
    sure |= {call for call, _ in index.method_calls("add_param_group")}
    everything = flow.closure(set().union(*models))
    trained = list[set[Origin]]()
    for node in {one for one in sure | stepped if dotted(one) != "None" and not flow.uncalled(index.statement(one))}:
        of = _given_to(node, models, flow) if isinstance(node, cst.Call) else []
        trained += of
        if not of and node in sure and not trains_another(index, flow, node, everything):
            return [*models]
    learning = Holding({origin.node for one in trained for origin in one}, flow)
    of_these = [one for one in models if one in trained or any(map(learning.holds, _given_where_built(one)))]
    return [one for one in models if one in of_these or _may_learn(one, flow)]


def _may_learn(model: set[Origin], flow: Flow) -> bool:
    """Whether code that is not seen has a model, or its parameters, or the project reads their gradients itself."""
    index, holding = flow.index, Holding({one.node for one in model}, flow)

    def is_of(node: cst.BaseExpression) -> bool:
        scope = index.scope_of(node)
        return not model.isdisjoint(flow.deep_origins(node, scope) | (parameter_holders(node, scope, flow) or set()))

    def is_called(node: cst.CSTNode) -> bool:
        return flow.uncalled(index.statement(node)) is None

    given = [arg.value for call in index.calls if not _only_uses(call, flow) for arg in call.args]
    graded = [part.value for part in index.nodes_of(cst.Attribute) if part.attr.value == "grad"]
    return any(is_of(one) and is_called(one) for one in given) or any(
        holding.holds_in_turn(one) and is_called(one) for one in graded
    )


def _only_uses(call: cst.Call, flow: Flow) -> bool:
    """Whether a call is known to train nothing that it is given, or is of the project, whose own calls are read."""
    name, known = flow.index.qualified(call.func), flow.index.knowledge
    if flow.called(call) is not None or flow.class_made(call) is not None or method_name(call) in ADDING:
        return True
    if any(known.known(kind, name) is not None for kind in (Wraps, Loss, Metric, Logs)):
        return True
    package = name.partition(".")[0]
    return hasattr(builtins, name) or package in sys.stdlib_module_names or bool(re.match(r"torch\.(?!.*optim)", name))


def _given_where_built(origins: set[Origin]) -> list[cst.BaseExpression]:
    """Return what the calls that build a model are given."""
    return [arg.value for one in origins if isinstance(one.node, cst.Call) for arg in one.node.args]


def _given_to(call: cst.Call, models: Sequence[set[Origin]], flow: Flow) -> list[set[Origin]]:
    """Return the models whose parameters an optimizer is given, or any that may be among what it is given."""
    values, everything = [arg.value for arg in call.args], flow.closure(set().union(*models))
    scope = flow.index.scope_of(call)
    known = [parameter_holders(one, scope, flow) or flow.deep_origins(one, scope) for one in values]
    sure = set().union(*(held for held in known if held <= everything))
    found = [one for one in models if not one.isdisjoint(sure)]
    rest = [value for value, held in zip(values, known, strict=True) if not held <= everything]
    rest += _given_where_built(sure)
    for built in ([*models], [flow.closure(one) for one in models]):  # where it is built as well, as far as needed
        holding = [Holding({one.node for one in origins}, flow) for origins in built]
        found += [one for one, held in zip(models, holding, strict=True) if any(map(held.holds, rest))]
        if found:
            return found
        rest = values
    return []


def used_to_train(
    index: Index, flow: Flow, made: list[Origin], loops: list[EpochLoop], handover: frozenset[str]
) -> list[Origin]:
    """Leave out what only others than the training use, where it is known of all that it steps.

    That is what draws a schedule, or what a function that trains by itself makes, as one that finds a learning rate.
    """
    bodies = [loop.statement for loop in loops]
    running, backwards = called_in(index, flow, *bodies), {index.scope_of(c) for c, _ in index.method_calls("backward")}
    training = backwards.intersection(running.union(loop.scope for loop in loops)) or backwards
    apart, scopes = backwards - training, running | training
    calls = [call for body in bodies for call in index.calls_in(body)]
    calls += [call for scope in scopes.difference(loop.scope for loop in loops) for call in index.calls_of(scope)]
    values = [arg.value for call in calls for arg in call.args]
    used = {origin for value in values for origin in flow.deep_origins(value, index.scope_of(value))}
    for call, whose in index.method_calls("step"):
        if call not in calls:
            continue
        every = flow.deep_origins(whose, index.scope_of(call))
        stepped = {o for o in every if dotted(o.node) != "None"}
        makers = [origin.node for origin in stepped if isinstance(origin.node, cst.Call)]
        if not every or len(makers) < len(stepped):
            return made
        given = [arg.value for maker in makers for arg in maker.args]
        used |= stepped.union(*(flow.deep_origins(value, index.scope_of(value)) for value in given))
    by_tracker = any(
        isinstance(one.node, cst.Call) and goes_to_tracker(index, flow, one.node, handover) for one in used
    )
    found = [origin for origin in made if not used.isdisjoint(flow.closure({origin}))]
    if (found or by_tracker) and index.calls_to(*handover):
        return found  # the script tells the tracker itself which one trains, and of no other
    used |= _used(index, flow, "zero_grad")  # a further one may train all the same, but not one that is only given on
    others = [one for one in made if index.scope_of(one.node) not in apart]
    kept = [one for one in others if not used.isdisjoint(flow.closure({one})) or not _given_on(index, one)]
    kept = [one for one in made if one in found or one in kept]
    return kept if found or by_tracker else made


def those_stepped(index: Index, flow: Flow, made: list[Origin]) -> list[Origin]:
    """Leave out what nothing steps, where something else is stepped, and all that is stepped is known."""
    stepped: set[Origin] = set()
    for call, whose in index.method_calls("step"):
        held = {o for o in flow.deep_origins(whose, index.scope_of(call)) if dotted(o.node) != "None"}
        if not held or not all(isinstance(one.node, cst.Call) for one in held):
            return made
        stepped |= held
    for call in index.calls:  # of what is out of sight, which may step what it is given
        if flow.called(call) is None and index.knowledge.known(Scheduler, index.qualified(call.func)) is None:
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
    if flow.index.knowledge.known(Scheduler, root) is not None or root.startswith("torch.optim.swa_utils."):
        return False
    return root.startswith("torch.optim.") or flow.index.knowledge.known(Optimizer, root) is not None


def _holds_several(index: Index, flow: Flow, made: Origin) -> bool:
    """Whether what is made is an object of the project's own class that is given several optimizers: `Both(a, b)`."""
    objects = [o.node for o in flow.closure({made}) if flow.class_made(o.node) is not None]
    values = [[arg.value for arg in node.args] for node in objects if isinstance(node, cst.Call)]
    origins = [[flow.deep_origins(value, index.scope_of(value)) for value in some] for some in values]
    return any(sum(any(is_torchs(index, flow, o.node) for o in one) for one in some) > 1 for some in origins)


def _returned_by_name(index: Index, flow: Flow, call: cst.BaseExpression, found: list[cst.Call]) -> bool:
    """Whether a call of an unknown object's method has the name of a function here that builds an optimizer."""
    makers = {index.scope_of(other) for other in found if other is not call}
    unknown = isinstance(call, cst.Call) and flow.called(call) is None
    return unknown and any(scope.kind == "function" and scope.name == method_name(call) for scope in makers)


def is_of(index: Index, flow: Flow, call: cst.BaseExpression, model: set[Origin]) -> bool:
    """Whether a construction's arguments mention the model."""
    names = flow.names_of(model, index.scope_of(call))
    return isinstance(call, cst.Call) and any(mentions(arg, names) for arg in call.args)


def _takes_part(flow: Flow, node: cst.BaseExpression, model: set[Origin]) -> bool:
    """Whether an optimizer gets the parameters of a part of the model, perhaps in groups that have a name."""
    params = argument(node, "params", 0) if isinstance(node, cst.Call) else None
    walked = modules_walked(params, flow.index.scope_of(params), flow) if params is not None else ()
    return any(part is not None and of_model(part[0], model, flow) for part in walked)


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
        and not _takes_part(flow, node, model)
        and not any(is_of(index, flow, call, model) for call in made)
    )


def optimizer_statements(index: Index) -> list[Statement]:
    """Return the statements that build an optimizer, after which the model's layers have their names for good."""
    calls = [
        call
        for call in index.calls
        if re.match(r"torch\.optim\.(?!lr_scheduler\.)", name := index.qualified(call.func))
        or name.rpartition(".")[2] in index.knowledge.signatures(Optimizer)
        or index.knowledge.known(Optimizer, name) is not None
    ]
    calls += [
        b.value
        for b in index.bindings
        if isinstance(b.value, cst.Call)
        and b.item is None
        and "optim" in b.target.lower()
        and "optim" in last_name(b.value.func).lower()
    ]
    return [index.statement(call) for call in calls]
