"""Find what loads, copies or sets the weights of the built model, by the names or in the structure of before."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

import libcst as cst

from retrofit.knowledge.kinds import LoadsModel, SendsAway, WritesPath
from retrofit.survey.branches import exclude_each_other
from retrofit.survey.conditions import constant, rules_out, taken_in_turn
from retrofit.survey.counters import is_number
from retrofit.survey.displays import written
from retrofit.survey.flow import Flow
from retrofit.survey.holding import Holding
from retrofit.survey.index import Index
from retrofit.survey.loops import called_in
from retrofit.survey.nodes import (
    argument,
    dotted,
    is_choice,
    key_of,
    last_name,
    mentions,
    method_name,
    names_in,
    nodes_in,
    receiver,
)
from retrofit.survey.order import (
    after_model,
    apart_from_training,
    beside_training,
    leading_to,
    runs_always,
    runs_instead,
)
from retrofit.survey.origins import Origin
from retrofit.survey.paths import is_same
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.sites.call import CallSite, Spawn
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.model import Follower, Model
from retrofit.survey.words import speak

_WEIGHTS = re.compile("parameters|state_dict")
#: Words of a condition under which a training begins with weights from elsewhere.
_BEGINS = re.compile("pretrain|finetune|fine_tune|init", re.IGNORECASE)
#: Names of how far a training is, and of what goes on beside its model.
_PROGRESS = re.compile(r"\w*start_epoch$|best|epoch", re.IGNORECASE)
_STEPPING = re.compile("optim|sched|scaler", re.IGNORECASE)


def is_resume(flow: Flow, statement: Statement, loading: Collection[cst.Call] = (), loads: bool = False) -> bool:
    """Whether a statement loads a checkpoint of an earlier training, not weights to begin with.

    Args:
        loading: calls of functions in it which may do the loading; what these do not come to with what they are given,
            as an optimizer that is None, does not count.
        loads: whether it calls what loads by its name.
    """
    index = flow.index
    ways = [(function, call) for call in loading if (function := flow.called(call)) is not None]
    parts = [(statement, None), *((index.statement(function.node), call) for function, call in ways)]
    calls = [
        call
        for part, by in parts
        for call in index.calls_in(part)
        if method_name(call) == "load_state_dict" and not (by and rules_out(index.statement(call), by, flow))
    ]
    if not calls and not loads:
        return False
    asked = index.source.words(statement.node.test) if isinstance(statement.node, cst.If) else ()
    if any(_BEGINS.search(word) for word in asked):
        return False
    bound = [binding for part, _ in parts for binding in index.bound_in(part) if not is_number(binding.value)]
    goes_on = any(_PROGRESS.match(one.target.rpartition(".")[2]) for one in bound)
    goes_on = goes_on or any(_STEPPING.search(last_name(receiver(call))) for call in calls)
    return goes_on or any("resume" in word.lower() for word in asked)


def of_model(node: cst.BaseExpression, origins: set[Origin], flow: Flow) -> bool:
    """Whether an expression is the model, or a part of it: `model.module.encoder`.

    Args:
        origins: where the model is built.
    """
    scope = flow.index.scope_of(node)
    return any(not origins.isdisjoint(flow.deep_origins(part, scope)) for part in (node, *_roots(node)))


def freezes(node: cst.CSTNode) -> bool:
    """Whether code takes parameters out of the training: `p.requires_grad = False`, `model.requires_grad_(False)`."""
    given: list[cst.BaseExpression | None] = []
    for one in nodes_in(node):
        if isinstance(one, cst.Assign) and any(last_name(part.target) == "requires_grad" for part in one.targets):
            given.append(one.value)
        elif isinstance(one, cst.Call) and method_name(one) == "requires_grad_":
            given.append(argument(one, "requires_grad", 0))
    return any(dotted(value) == "False" for value in given)


def walked_module(value: cst.BaseExpression, parts: re.Pattern[str]) -> cst.BaseExpression | None:
    """Return the module in `module.parameters()`, `module.state_dict().values()` and the like."""
    node: cst.BaseExpression = value
    while (held := receiver(node)) is not None and parts.fullmatch(method_name(node)):
        node = held
    return None if node is value else node


def changed_in_place(index: Index) -> Iterator[tuple[cst.BaseExpression, list[cst.BaseExpression]]]:
    """Yield what gets another value in place, and what that is made of: `mean.mul_(0.9).add_(value)`."""
    for call in index.calls:
        changed = receiver(call)
        if changed is not None and method_name(call) in ("add_", "copy_", "lerp_", "sub_"):
            yield changed, [arg.value for arg in call.args]
    for added in index.nodes_of(cst.AugAssign):
        yield added.target, [added.value]
    for node in index.nodes_of(cst.Assign):
        for target in node.targets:
            if isinstance(target.target, cst.Attribute) and target.target.attr.value == "data":
                yield target.target, [node.value]


def _roots(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield what an attribute or an item is of, up to the name."""
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        node = node.value
        yield node


def find_averages(origins: set[Origin], loops: list[EpochLoop], flow: Flow) -> list[tuple[str, bool]]:
    """Return where copies of the model are made that follow its weights in training, and whether by an option.

    A copy that only keeps weights, or starts a training from them, is none.

    Args:
        origins: where the model is built.
        loops: the epoch loops.
    """
    found = [(binding, made) for binding, made in following(loops, flow) if not origins.isdisjoint(made)]
    return [
        (flow.index.place(binding.value), any(is_choice(part.node) for part in binding.statement.path))
        for binding, _ in found
        if binding.value is not None
    ]


def copied_before(
    origins: set[Origin], models: list[Model], loops: list[EpochLoop], flow: Flow
) -> Iterator[tuple[cst.CSTNode, str]]:
    """Yield what is copied of a part of the model before that is perforated, and follows its weights then.

    Args:
        origins: where the model is built.
        models: the places after which it is there.
        loops: the epoch loops.
    """
    index = flow.index
    parts = {
        part
        for origin in origins
        if isinstance(origin.node, cst.Call)
        for arg in origin.node.args
        for part in flow.deep_origins(arg.value, index.scope_of(origin.node))
        if isinstance(part.node, cst.Call)
    }
    for binding, made in following(loops, flow):
        here = binding.statement
        early = any(model.scope is here.scope and here.order < model.statement.order for model in models)
        itself = any(origin.node is binding.value for origin in origins)
        if early and not itself and not parts.isdisjoint(made):
            yield (
                here.node,
                f"`{binding.target}` ({index.place(here.node)}) is a copy of a part of it that is made before it gets "
                f"dendrites at {index.place(models[0].node)}, and follows that part in training. Make it after that",
            )


def following(loops: list[EpochLoop], flow: Flow) -> Iterator[tuple[Binding, set[Origin]]]:
    """Yield what holds a copy that follows another's weights in training, and where what it copies is made."""
    index = flow.index
    within = {scope for loop in loops for scope in called_in(index, flow, loop.statement)}
    trained = [call for loop in loops for call in index.calls_in(loop.statement)]
    trained += [call for scope in within for call in index.calls_of(scope)]
    changed = [one for one, _ in changed_in_place(index) if not _is_bound_anew(one, index)]
    changed = [one for one in changed if _runs_in(index.statement(one), loops, within)]
    for binding in index.bindings:
        call, place = binding.value, binding.statement
        kind = last_name(call.func) if isinstance(call, cst.Call) and binding.item is None and call.args else ""
        average = speak([kind], frozenset({"ema", "movingaverage"}))
        if not isinstance(call, cst.Call) or not (average or kind == "deepcopy"):
            continue
        if _runs_in(place, loops, within):
            continue
        copy = Holding({call}, flow)
        moved = any(_moves(one, binding.target.rpartition(".")[2], average) for one in trained)
        if moved or (not average and any(map(copy.holds_in_turn, changed))):
            given = walked_module(call.args[0].value, _WEIGHTS) or call.args[0].value
            yield binding, flow.closure(set(flow.origins(given, place.scope)))


def _is_bound_anew(changed: cst.BaseExpression, index: Index) -> bool:
    """Whether `+=` is about a name, which may be of a plain number."""
    return isinstance(changed, cst.Name) and isinstance(index.parents[changed], cst.AugAssign)


def _runs_in(place: Statement, loops: list[EpochLoop], within: Collection[Scope]) -> bool:
    return place.scope in within or any(loop.statement in place.path for loop in loops)


def _moves(call: cst.Call, name: str, average: bool) -> bool:
    """Whether a call, by its name, moves a copy towards the model: a method of an average, or what is given another."""
    if average:
        return last_name(receiver(call)) == name and speak([method_name(call)], frozenset({"update", "step"}))
    given = [last_name(walked_module(arg.value, _WEIGHTS) or arg.value) for arg in call.args]
    return name in given and speak([last_name(call.func)], frozenset({"update", "average", "moving"}))


def find_followers(origins: set[Origin], models: list[Model], flow: Flow) -> list[Follower]:
    """Return where a model is built as the trained one is, by the same call, and gets its weights before it is used.

    Args:
        origins: where the trained model is built.
        models: the places after which it is there.
    """
    index, found = flow.index, dict[cst.CSTNode, Follower]()
    for here, held, whole in _taking_weights(origins, flow):
        made = [origin.node for origin in flow.origins(held, here.scope)]
        call = made[0] if len(made) == 1 and isinstance(made[0], cst.Call) else None
        if call is None or not any(call.deep_equals(one.node) for one in origins):
            continue
        place, name = index.statement(call), dotted(held) or ""
        between = range(place.order, here.order)
        moved = any(bound.statement.order in between for bound in index.bound([_root(whole)], here.scope))
        again = len(index.bound([name], here.scope)) != 1 or any(
            _builds_optimizer(one, name, flow) for one in index.calls
        )
        late = any(after_model(place, model, flow) for model in models)
        again = again or "copy" in index.bound_names
        if late and place.siblings is here.siblings and place.order < here.order and not moved and not again:
            found[call] = Follower(
                node=place.node, index=index, model=index.source.code(whole), anchors={"built": call}
            )
    return list(found.values())


def _taking_weights(
    origins: set[Origin], flow: Flow
) -> Iterator[tuple[Statement, cst.BaseExpression, cst.BaseExpression]]:
    """Yield what gives a model the weights of the trained one: a statement, the model, and the trained one."""
    index = flow.index
    for call, held in index.method_calls("load_state_dict"):
        given = argument(call, "state_dict", 0)
        whole = receiver(given) if method_name(given) == "state_dict" else None
        if whole is not None and not origins.isdisjoint(flow.origins(whole, index.scope_of(call))):
            yield index.statement(call), held, whole


def _root(node: cst.BaseExpression) -> str:
    """Return the name of a model, without that of its wrapper's attribute."""
    return (dotted(node) or "").removesuffix(".module")


def _builds_optimizer(call: cst.Call, name: str, flow: Flow) -> bool:
    """Whether a call builds one of torch's optimizers of what has a name."""
    return flow.index.qualified(call.func).startswith("torch.optim.") and any(
        mentions(arg, [name]) for arg in call.args
    )


def find_reloads(origins: set[Origin], loops: list[EpochLoop], spawns: list[Spawn], flow: Flow) -> list[CallSite]:
    """Return where weights are loaded, perhaps without a training before, into a model that is built anew as it was.

    Args:
        origins: where the model is built.
        loops: the epoch loops.
        spawns: the calls that start the training's processes.
    """
    return [
        CallSite(node=call, index=flow.index)
        for call, place in _loading_anew(origins, loops, flow)
        if apart_from_training(place, loops, flow, rules_out) and not _has_trained(place, loops, spawns, flow)
    ]


def _has_trained(place: Statement, loops: list[EpochLoop], spawns: list[Spawn], flow: Flow) -> bool:
    """Whether the process has always trained before a statement, so that the helper knows the trained model there."""
    started = {one.statement for one in spawns}
    trained = {way.node for loop in loops for way in flow.leading(loop.statement) if way not in started}
    return all(_comes_after(way, trained) for way in beside_training(place, loops, flow, rules_out))


def find_other_loads(origins: set[Origin], flow: Flow) -> list[CallSite]:
    """Return where a model that is not built as the trained one loads what a walk through that one's layers has saved.

    The walk meets the layers of dendrites too, which no other model has. It is known by the file's path, as both write
    it.

    Args:
        origins: where the trained model is built.
    """
    index, found, loads = flow.index, list[CallSite](), flow.index.calls_to("torch.load")
    walks = {index.statement(one) for one, held in index.method_calls("named_modules") if of_model(held, origins, flow)}
    items = [b for b in index.items if not walks.isdisjoint(b.statement.path[:-1])]
    filled = {flow.variable(b.target.partition("[")[0], b.statement.scope) for b in items}
    saves = [(argument(one, "obj", 0), argument(one, "f", 1)) for one in index.calls_to("torch.save") if filled]

    def has_them(value: cst.CSTNode) -> bool:
        return any(flow.variable(name, index.scope_of(value)) in filled for name in names_in(value))

    saved = [(given, path) for given, path in saves if given is not None and path is not None and has_them(given)]
    for call, held in index.method_calls("load_state_dict") if saved else ():
        others, given = set(flow.origins(held, index.scope_of(call))), argument(call, "state_dict", 0)
        made = [flow.class_made(one.node) for one in others]
        if given is None or None in made or not made or of_model(held, origins, flow):
            continue
        read = [argument(one, "f", 0) for one in loads if Holding([one], flow).holds(given)]
        asked = key_of(given) or ""
        taken = [path for one, path in saved if any(map(has_them, [*written(one, asked)] or [one]))]
        same = any(path is not None and is_same(path, one, flow) for path in read for one in taken)
        if same and not _made_alike(others, origins, flow):
            found.append(CallSite(node=call, index=index))
    return found


def find_rebuilt(origins: set[Origin], loops: list[EpochLoop], spawns: list[Spawn], flow: Flow) -> list[CallSite]:
    """Return where a model of the trained one's class is built apart from the training, by what leaves dendrites out.

    One that begins with the same weights as the training, of a path or name that this has too, tests those.

    Args:
        origins: where the model is built.
        loops: the epoch loops.
        spawns: the calls that start the training's processes.
    """
    index, known = flow.index, flow.index.knowledge
    methods, of_any = known.methods(LoadsModel), known.named(LoadsModel)
    built = [one.node for one in origins if isinstance(one.node, cst.Call)]
    classes = [receiver(call) if method_name(call) in methods else call.func for call in built]
    kinds = {kind for one in classes if one is not None for kind in _meant(one, flow)}
    saves = index.method_calls(*known.methods(WritesPath)) if of_any else []
    saved = [arg.value for call, held in saves for arg in call.args[:1] if of_model(held, origins, flow)]
    starts, apart = list[cst.BaseExpression](), list[tuple[cst.Call, cst.BaseExpression]]()
    for call, held in index.method_calls(*methods):
        path, place = argument(call, "pretrained_model_name_or_path", 0), index.statement(call)
        same = not kinds.isdisjoint(_meant(held, flow))
        if path is None or not (same or (index.qualified(held) in of_any and _is_among(path, saved, flow))):
            continue
        if apart_from_training(place, loops, flow) or runs_instead(place, loops, flow):
            own = [argument(call, one.weights) for one in known.of(LoadsModel) if one.weights]
            apart.append((call, next((one for one in own if one is not None and dotted(one) != "None"), path)))
        elif call in built:
            starts.append(path)
    loads = [(index.statement(call), held) for call, held in index.method_calls("load_state_dict")]
    seen = [held for place, held in loads if _has_trained(place, loops, spawns, flow)]
    filled = {one for held in seen for one in flow.origins(held, index.scope_of(held))}
    told = [call for call, path in apart if not _is_among(path, starts, flow) and _may_be_written(path, flow)]
    told = [call for call in told if Origin(call) not in filled and _leaves_out(call, flow)]
    return [CallSite(node=call, index=index) for call in told]


def _may_be_written(path: cst.BaseExpression, flow: Flow) -> bool:
    """Whether a path is no constant, as a model's name in a library is, or one that something writes to."""
    index, known = flow.index, flow.index.knowledge
    paths = [path, *taken_in_turn(path, index)]
    made = [one.node for each in paths for one in flow.origins(each, index.scope_of(path))]
    values = {constant(one) for one in made if isinstance(one, cst.SimpleString)}
    same = Holding([one for one in index.nodes_of(cst.SimpleString) if constant(one) in values], flow)
    writing = [call for name in known.named(WritesPath) for call in index.calls_to(name)]
    writing += [call for call, _ in index.method_calls(*known.methods(WritesPath))]
    constant_alone = bool(made) and all(isinstance(one, cst.SimpleString) for one in made)
    return not constant_alone or any(same.holds(arg.value) for call in writing for arg in call.args)


def _is_among(path: cst.BaseExpression, paths: list[cst.BaseExpression], flow: Flow) -> bool:
    return any(is_same(path, one, flow) for one in paths)


def _leaves_out(call: cst.Call, flow: Flow) -> bool:
    """Whether what builds a model with weights does not load them by `load_state_dict`, which the helper sees."""
    index, function = flow.index, flow.called(call)
    methods = index.knowledge.methods(LoadsModel)
    if function is None:
        kind = flow.defined(call.func.value, index.scope_of(call)) if isinstance(call.func, cst.Attribute) else None
        bases = flow.bases(kind) if kind is not None else []
        plain = {name for one in index.knowledge.of(LoadsModel) for name in one.plain}
        return plain.isdisjoint(map(index.qualified, bases))
    ways = list(_ways_by(call, function, flow))
    own = {*function.parameters[:1], *([function.holder.name] if function.holder is not None else [])}
    builds = any(dotted(one.func) in own or method_name(one) in methods for one, _ in ways)
    loading = [way for one, way in ways if method_name(one) == "load_state_dict"]
    files = Holding(index.calls_to("torch.load"), flow)
    filling = [way for one, way in ways if _fills(one, files)]
    return builds and (not loading or any(all(_part(way, other) for other in loading) for way in filling))


def _ways_by(call: cst.Call, function: Scope, flow: Flow) -> Iterator[tuple[cst.Call, tuple[Statement, ...]]]:
    """Yield the calls that one of a function comes to, as far as the constants tell that are given, with how it does.

    Each comes with its statement, and those that lead to it.
    """
    waiting: list[tuple[Scope, cst.Call, tuple[Statement, ...]]] = [(function, call, ())]
    seen = {(function, call)}
    while waiting:
        scope, by, way = waiting.pop()
        for one in flow.index.calls_of(scope):
            here = flow.index.statement(one)
            if rules_out(here, by, flow):
                continue
            yield one, (*way, here)
            run = {(each, one) for each in (flow.called(one), *flow.overriding(one)) if each is not None} - seen
            seen |= run
            waiting += [(each, one, (*way, here)) for each, _ in run]


def _fills(call: cst.Call, files: Holding) -> bool:
    """Whether a call gives weights of a file to one layer or parameter of a model, which the helper does not see."""
    copies = method_name(call) == "copy_" and any(files.holds_in_turn(arg.value) for arg in call.args[:1])
    return copies or method_name(call) == "_load_from_state_dict"


def _part(way: tuple[Statement, ...], other: tuple[Statement, ...]) -> bool:
    """Whether a run that goes one way does not go another."""
    return any(exclude_each_other(here, there) for here in way for there in other)


def _loading_anew(origins: set[Origin], loops: list[EpochLoop], flow: Flow) -> Iterator[tuple[cst.Call, Statement]]:
    """Yield what loads weights into a model that is built anew, as the trained one was."""
    index = flow.index
    for call, held in index.method_calls("load_state_dict"):
        others = set(flow.origins(held, index.scope_of(call)))
        if origins.isdisjoint(others):
            anew = _made_alike(others, origins, flow)
        else:  # the variable is of the trained one elsewhere
            made = _made_last(held, index.statement(call), flow)
            anew = [one for one in made if apart_from_training(index.statement(one.node), loops, flow, rules_out)]
            anew = _made_alike(anew, origins.difference(anew), flow)
        if anew:
            yield call, index.statement(call)


def _made_last(held: cst.BaseExpression, place: Statement, flow: Flow) -> list[Origin]:
    """Return where what a variable has at a place is surely made, in its function, nothing where it may be another."""
    name = dotted(flow.module_operand(held) or held) or ""
    early = [b for b in flow.index.bound([name], place.scope) if b.statement.order <= place.order]
    made = [b for b in early if b.value is not None and not mentions(b.value, [name])]  # a wrapper is of the same
    last = sorted(made, key=lambda b: b.statement.order)[-1:]
    sure = [one for one in last if one.statement in (place, *place.before)]
    return [
        origin for one in sure if one.value is not None for origin in flow.origins(one.value, place.scope, one.item)
    ]


def sent_away(
    origins: set[Origin], models: list[Model], loops: list[EpochLoop], flow: Flow
) -> Iterator[tuple[cst.CSTNode, str]]:
    """Yield what sends weights of the model to another process, which loads them into a model without dendrites.

    Args:
        origins: where the model is built.
        models: the places after which it is there.
        loops: the epoch loops.
    """
    index = flow.index
    walks = [
        call
        for call, held in index.method_calls("state_dict")
        if not origins.isdisjoint(flow.deep_origins(held, index.scope_of(call)))
    ]
    weights, files = Holding(walks, flow), Holding(index.calls_to("torch.load"), flow)
    sending = [call for call in index.calls if walks and _sends(call, flow)]
    sent = [call for call in sending if any(weights.holds(arg.value) for arg in call.args)]
    for call, place in _loading_anew(origins, loops, flow) if sent else ():
        if _runs_elsewhere(place, loops, flow) and not any(files.holds(arg.value) for arg in call.args):
            yield (
                sent[0],
                f"{index.place(sent[0])} sends its weights to another process, which loads them into a model of its "
                f"own at {index.place(call)}. That gets no dendrites, so they would no longer fit. Send the model "
                f"itself with its dendrites, `copy.deepcopy({models[0].target if models else 'model'}).cpu()`, and let "
                "that process use what it gets",
            )


def _sends(call: cst.Call, flow: Flow) -> bool:
    """Whether a call gives what it is given to another process, for more than to write it to a file there."""
    index, known, name = flow.index, flow.index.knowledge, flow.index.qualified(call.func)
    if flow.called(call) is not None or any(known.known(WritesPath, index.qualified(arg.value)) for arg in call.args):
        return False
    return method_name(call) in known.methods(SendsAway) or name in known.named(SendsAway) or flow.starts_process(call)


def _runs_elsewhere(place: Statement, loops: list[EpochLoop], flow: Flow) -> bool:
    """Whether a statement runs in a process that does not train, or is of a function that nothing here calls."""
    apart = {way.scope for way in flow.leading(place)} - {way.scope for way in leading_to(loops, flow)}
    return flow.uncalled(place) is not None or any(
        flow.starts_process(call) for scope in apart for call in flow.callers(scope)
    )


def _comes_after(place: Statement, some: Collection[cst.CSTNode]) -> bool:
    """Whether one of some statements has always run before another of its function."""
    return any(runs_always(one.node, some, leaves=False) for one in place.before)


def find_besides(origins: set[Origin], wrapped: set[Origin], loops: list[EpochLoop], flow: Flow) -> list[CallSite]:
    """Return where a model is built as the wrapped one, and trained in place of it, as on one GPU: without dendrites.

    Args:
        origins: where the wrapped model is built.
        wrapped: where other models are built that are wrapped as well.
        loops: the epoch loops, which know the model's name.
    """
    index = flow.index
    trained = [
        one for loop in loops if loop.model for one in flow.origins(cst.parse_expression(loop.model), loop.scope)
    ]
    return [
        CallSite(node=one.node, index=index)
        for one in _made_alike(dict.fromkeys(trained), origins, flow)
        if one not in wrapped and not apart_from_training(index.statement(one.node), loops, flow)
    ]


def is_another(name: str, scope: Scope, origins: set[Origin], flow: Flow) -> bool:
    """Whether a name is not the model, but what another call of the function or class that makes it gives.

    Args:
        origins: where the model is built.
    """
    made = set(flow.origins(cst.parse_expression(name), scope))
    return origins.isdisjoint(made) and bool(_made_alike(made, origins, flow))


def _made_alike(some: Iterable[Origin], origins: set[Origin], flow: Flow) -> list[Origin]:
    """Return what other calls make of the function or class that makes the model."""
    built = {maker for one in origins for maker in _made_by(one, flow)}
    return [one for one in some if one not in origins and not built.isdisjoint(_made_by(one, flow))]


def _made_by(origin: Origin, flow: Flow) -> set[Scope | str]:
    """Return the function or class that makes an object, by the names that it may have where no file is read for it."""
    return _meant(origin.node.func, flow) if isinstance(origin.node, cst.Call) else set()


def _meant(node: cst.BaseExpression, flow: Flow) -> set[Scope | str]:
    """Return the function or class that an expression stands for, by the names that it may have if no file has it."""
    made = flow.defined(node, flow.index.scope_of(node))
    if made is not None:
        return {made}
    file, name = flow.index.file(node), flow.index.qualified(node)
    bare = name.partition(".")[0] not in {*file.aliases, *file.scope.names}
    return {*([name] if name else []), *(f"{star}.{name}" for star in file.stars if name and bare)}
