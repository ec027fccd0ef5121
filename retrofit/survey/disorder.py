"""Tell why the order of model and wrapper leaves no place to perforate the model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations, product

import libcst as cst

from retrofit.knowledge.kinds import ChangesLayers
from retrofit.survey.conditions import rules_out
from retrofit.survey.constructions import optimizer_statements
from retrofit.survey.flow import Flow
from retrofit.survey.holding import Holding
from retrofit.survey.index import Index
from retrofit.survey.layers import is_layer, put_once, puts_in
from retrofit.survey.loops import called_in
from retrofit.survey.nodes import last_name, mentions, method_name, names_in, nodes_in, receiver
from retrofit.survey.order import (
    after_model,
    built_by,
    leading_to,
    leads_to,
    one_after_the_other,
    sooner_than_model,
    starting,
    ways_to,
)
from retrofit.survey.origins import Origin
from retrofit.survey.reaching import conditions
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.scores.making import without_gradients
from retrofit.survey.scores.presence import minds_a_key
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.model import Model
from retrofit.survey.sites.optimizer import Optimizer
from retrofit.survey.sites.wrapper import Wrapper
from retrofit.survey.weights import changed_in_place, freezes, walked_module
from retrofit.survey.wrappers import wrapped_origins

#: Where something stands in the way, and what it is.
Told = tuple[cst.CSTNode, str]


def disorder(models: list[Model], wrappers: list[Wrapper], origins: set[Origin], flow: Flow) -> str:
    """Return why perforating the model where it is built would not do, "" where it would.

    Args:
        models: the places after which the model is there.
        wrappers: the wrappers of this model.
        origins: where it is built.
    """
    index, beside = flow.index, wrappers[0] if wrappers else None
    file = None if beside is None else beside.file

    def at(site: Site) -> str:
        return site.place(beside)

    places = ", ".join(map(at, models))
    if any(one_after_the_other(a.statement, b.statement) for a, b in combinations(models, 2)):
        return f"the model is built in several steps: {places}"
    if len({id(model.scope) for model in models}) > 1:
        return f"the model is built in several functions: {places}"
    for model, wrapper in product(models, wrappers):
        call = starting(model.statement, wrapper.statement, flow)
        if call is not None and flow.spawns(call):
            return f"{at(model)} has it in the process that starts those which wrap it, by {index.place(call, file)}"
    for model in models:
        for wrapper in wrappers if model.side == "after" else ():
            here, made = wrapper.statement, model.statement
            if here.order < made.order and one_after_the_other(here, made) and made not in here.path:
                return f"it is wrapped at {at(wrapper)}, before it is finished at {at(model)}"
            sooner = sooner_than_model(wrapper.statement, model, origins, flow)
            if sooner is not None:
                return (
                    f"{index.place(sooner.node, file)} already wraps it (by {at(wrapper)}), so build it before, by a "
                    "statement of its own"
                )
    return ""


def wrapped_where_built(models: list[Model], wrappers: list[Wrapper], origins: set[Origin], flow: Flow) -> bool:
    """Whether one statement builds the model and gives it to a function that wraps it: `model = wrap(Net())`.

    Args:
        models: the places after which the model is there.
        wrappers: the wrappers of this model.
        origins: where it is built.
    """
    return any(
        sooner_than_model(wrapper.statement, model, origins, flow) is model.statement
        for model, wrapper in product(models, wrappers)
    )


def built_again(
    models: list[Model], optimizers: list[Optimizer], origins: set[Origin], loops: list[EpochLoop], flow: Flow
) -> list[Statement]:
    """Return the calls by which a model is built, and once more after its optimizer, as for a test; else nothing."""
    for model, optimizer in product(models, optimizers):
        making = ways_to(model.statement, flow, loops=loops)
        bare, early = _ending_before(model.done, flow), _ending_before(optimizer.statement, flow)
        for scope, calls in ways_to(optimizer.statement, flow, origins).items():
            coming = [call for call in calls if call not in early]
            for call, made in product(coming, [one for one in making.get(scope, ()) if one not in bare]):
                first = built_by(call, making[scope])
                if first is not None and call.order < made.order and one_after_the_other(call, made):
                    return [first, made]
    return []


def _ending_before(place: Statement, flow: Flow) -> set[Statement]:
    """Return the calls by which, as they give it constants, a function ends before it comes to a place of it."""
    return {flow.index.statement(call) for call in flow.callers(place.scope) if rules_out(place, call, flow)}


def made_of_it(
    origins: set[Origin], wrappers: list[Wrapper], models: list[Model], loops: list[EpochLoop], flow: Flow
) -> str:
    """Return what makes another model of the perforated one, which is trained in its place, "" for nothing.

    An average that is made of it and wrapped beside it takes no place.

    Args:
        origins: where what is wrapped is made.
        wrappers: what wraps it.
        models: the places after which the perforated one is there.
        loops: the epoch loops.
    """
    index, training = flow.index, leading_to(loops, flow)
    beside: set[Origin] = set()
    for wrapper in wrappers:
        beside |= origins - wrapped_origins(wrapper, flow)
    for origin in sorted(origins - beside, key=lambda one: index.statement(one.node).order):
        call, place = origin.node, index.statement(origin.node)
        late = leads_to(place, training) and any(after_model(place, model, flow) for model in models)
        if not late or not isinstance(call, cst.Call) or not _is_given(call, origins - {origin}, flow):
            continue
        another = any(_is_another(one.node, origins, flow) for one in (origin, *flow.inside(origin)))
        if another or (flow.called(call) is None and _between_optimizers(place, flow)):
            return (
                f"`{index.source.code(call.func)}(...)` makes another model of it after that, at {index.place(call)}, "
                "which is trained in its place"
            )
    return ""


def _between_optimizers(place: Statement, flow: Flow) -> bool:
    """Whether a function builds an optimizer before a statement, and the same one again after it, of other parameters.

    So it may be known of what is not read that it does not give back the model that it gets.
    """
    built = set(optimizer_statements(flow.index))
    bound = [(b.target, b.statement) for b in flow.index.bindings if b.statement in built]
    near = [(name, one) for name, one in bound if one_after_the_other(one, place)]
    early = {name for name, one in near if one.order < place.order}
    return any(name in early for name, one in near if one.order > place.order)


def _is_another(node: cst.BaseExpression, origins: set[Origin], flow: Flow) -> bool:
    """Whether an expression makes a copy of a model, or an object of a class that does not hold it."""
    if not isinstance(node, cst.Call):
        return False
    if flow.index.qualified(node.func) == "copy.deepcopy":
        return True
    return flow.class_made(node) is not None and not _is_given(node, origins, flow)


def _is_given(call: cst.Call, origins: set[Origin], flow: Flow) -> bool:
    scope = flow.index.scope_of(call)
    return any(not origins.isdisjoint(flow.deep_origins(arg.value, scope)) for arg in call.args)


#: Names of functions that put other layers into a model, or layers of another size.
_OTHER_LAYERS = re.compile(r"_*(prune|inject|replace|swap)(_|$|[A-Z])")
#: Torch's layers with parameters, and what holds them.
_WITH_PARAMETERS = re.compile(
    r"(Lazy)?(Bilinear|Conv|Embedding|GRU|LSTM|Linear|Multihead|RNN|Sequential|Transformer)|\w+Norm"
)


def late_layers(origins: set[Origin], models: list[Model], loops: list[EpochLoop], flow: Flow) -> str:
    """Return what gives the model another layer after it is perforated, "" for nothing."""
    index, training = flow.index, leading_to(loops, flow)

    def sooner(place: Statement, node: cst.CSTNode) -> bool:
        """Whether a layer is put in before the training, and not only where an earlier call did not do so already."""
        ways = [(one, model) for model in models for one in ways_to(place, flow).get(model.scope, ())]
        if put_once(node, flow) and any(one.order <= model.done.order for one, model in ways):
            return False
        return any(leads_to(way, training) for way in flow.leading(place))

    for binding in index.bindings:
        holder, place = binding.target.rpartition(".")[0].removesuffix(".module"), binding.statement
        value = binding.value
        if not holder or value is None or not is_layer(value, flow) or not sooner(place, index.parents[value]):
            continue
        names = flow.names_of(origins, place.scope)
        late = any(after_model(place, model, flow, origins) for model in models)
        if late and any(holder == name or holder.startswith(f"{name}.") for name in names):
            return f"`{binding.target}` gets another layer after it, at {index.place(place.node)}"
    built = Holding({origin.node for origin in origins}, flow)

    def is_late(place: Statement, node: cst.CSTNode, owner: cst.BaseExpression) -> bool:
        late = sooner(place, node) and any(after_model(place, model, flow, origins) for model in models)
        return late and built.holds(owner)

    for node, owner in puts_in(flow):
        if is_late(index.statement(node), node, owner):
            return f"`{index.source.code(node)}` puts another layer into it after that, at {index.place(node)}"
    for call, held, node in _changing_methods(origins, flow):
        if is_late(index.statement(call), node, held):
            return (
                f"`{index.source.code(call)}` changes its layers after that, at {index.place(call)}. Let that stand "
                "right behind what builds it"
            )
    for call in index.calls:
        name, place = last_name(call.func), index.statement(call)
        if not _OTHER_LAYERS.match(name) or not leads_to(place, training) or place in training:
            continue
        given = any(not origins.isdisjoint(flow.deep_origins(arg.value, place.scope)) for arg in call.args)
        if given and any(model.scope is place.scope and after_model(place, model, flow) for model in models):
            return f"`{name}(...)` is given it after that, at {index.place(call)}, and may change its layers"
    return _made_when_it_runs(origins, loops, flow)


def _changing_methods(origins: set[Origin], flow: Flow) -> Iterator[tuple[cst.Call, cst.BaseExpression, cst.CSTNode]]:
    """Yield calls of methods that make a layer for their object, with that object, and what gives it the layer.

    A trainer that holds the model may make itself what it likes.
    """
    index, classes = flow.index, _with_parts(_classes_of(origins, flow), origins, flow)
    for call, held in index.method_calls(*index.knowledge.methods(ChangesLayers)):
        if flow.called(call) is None:  # else it is read what it does
            yield call, held, call
    for binding in index.bindings:
        method = binding.statement.scope
        if method.enclosing_class not in classes or method.name == "__init__" or not binding.target.startswith("self."):
            continue
        if binding.value is None or not (callers := flow.callers(method)):
            continue
        making = {method, *called_in(index, flow, binding.statement)}  # rather than a layer that it has already
        made = [one.node for one in flow.deep_origins(binding.value, method)]
        if any(index.scope_of(one) in making and _trains(one, flow) for one in made):
            yield from ((call, own, index.parents[binding.value]) for call in callers if (own := receiver(call)))


def _made_when_it_runs(origins: set[Origin], loops: list[EpochLoop], flow: Flow) -> str:
    """Return what gives the model a layer in its forward pass, or where it trains, "" for nothing."""
    index, classes = flow.index, _with_parts(_classes_of(origins, flow), origins, flow)
    methods = [method for one in classes for method in one.inner.values()]
    begin, run = ({one for one in methods if one.name == name} for name in ("__init__", "forward"))
    begun = begin | called_in(index, flow, *(index.statement(one.node) for one in begin))
    turns = [*(index.statement(one.node) for one in run), *(loop.statement for loop in loops)]
    running = (run | called_in(index, flow, *turns)) - begun
    fitting = run | called_in(index, flow, *(index.statement(one.node) for one in run))
    for binding in index.bindings:
        scope = binding.statement.scope
        own = scope.enclosing_class in classes and scope in running and "." in binding.target
        spare = own and scope in fitting and _is_spare(binding, begun, flow)
        if own and not spare and _gives_layer(binding, flow):
            return (
                f"`{binding.target}` gets a layer when it runs, at {index.place(binding.statement.node)}, which the "
                "model of the next round does not begin with. Make that when the model is built"
            )
    return ""


def _gives_layer(binding: Binding, flow: Flow) -> bool:
    """Whether an object, or a part of it, gets a layer that trains."""
    if binding.value is None or not _is_of_itself(binding):
        return False
    return any(_trains(one.node, flow) for one in flow.deep_origins(binding.value, binding.statement.scope))


def _is_spare(binding: Binding, begun: set[Scope], flow: Flow) -> bool:
    """Whether a layer of a forward pass takes, under a condition, the place of one that the object is built with.

    What fits the data has no need of it, and what does not would train it without the optimizer, dendrites or not.
    """
    scope = binding.statement.scope
    built = (one for one in flow.index.bindings if one.target == binding.target and one.statement.scope in begun)
    return any(isinstance(one.node, cst.If) for one in binding.statement.around) and any(
        one.statement.scope.enclosing_class is scope.enclosing_class and _gives_layer(one, flow) for one in built
    )


def _is_of_itself(binding: Binding) -> bool:
    """Whether a method gives an attribute to its object or, in a loop over parts of that, to one of these."""
    first = binding.target.partition(".")[0]
    loops = [part.node for part in binding.statement.around if isinstance(part.node, cst.For)]
    walked = any(mentions(loop.target, [first]) and mentions(loop.iter, ["self"]) for loop in loops)
    return first == "self" or walked


def _with_parts(classes: set[Scope], origins: set[Origin], flow: Flow) -> set[Scope]:
    """Return local classes of a model with those of the modules that they make, or get when the model is built."""
    index, found = flow.index, set(classes)
    waiting = [origin.node for origin in origins if isinstance(origin.node, cst.Call)]
    waiting += [call for one in classes for call in _built_by(one, flow)]
    seen = set(waiting)
    while waiting:
        call = waiting.pop()
        scope = index.scope_of(call)
        parts = [
            one.node for value in (call, *(arg.value for arg in call.args)) for one in flow.deep_origins(value, scope)
        ]
        made = [
            one
            for part in parts
            if (one := flow.class_made(part)) is not None and flow.root(one).startswith("torch.nn.")
        ]
        new = {one for part in made for one in flow.lineage(part)} - found
        found |= new
        inner = [one for part in new for one in _built_by(part, flow)]
        inner += [one for one in parts if isinstance(one, cst.Call)]
        waiting += [one for one in dict.fromkeys(inner) if one not in seen]
        seen.update(inner)
    return found


def _built_by(holder: Scope, flow: Flow) -> Sequence[cst.Call]:
    """Return the calls by which an object of a class is built."""
    return flow.index.calls_of(holder.inner["__init__"]) if "__init__" in holder.inner else ()


def _trains(node: cst.BaseExpression, flow: Flow) -> bool:
    """Whether an expression makes a layer that has parameters, or a copy of one."""
    if isinstance(node, cst.Call) and flow.index.qualified(node.func) == "copy.deepcopy":
        made = [one.node for arg in node.args[:1] for one in flow.deep_origins(arg.value, flow.index.scope_of(node))]
        return any(_trains(one, flow) for one in made if one is not node)
    name = last_name(node.func) if isinstance(node, cst.Call) else ""
    return is_layer(node, flow) and (flow.class_made(node) is not None or _WITH_PARAMETERS.match(name) is not None)


def _classes_of(origins: set[Origin], flow: Flow) -> set[Scope]:
    """Return the local classes of which a model is made, with those that they extend."""
    built = [flow.called(origin.node) for origin in origins if isinstance(origin.node, cst.Call)]
    return {one for function in built if function and function.parent for one in flow.lineage(function.parent)}


def beside_another(origins: set[Origin], models: list[Model], flow: Flow) -> Iterator[Told]:
    """Yield what goes through the perforated model's layers beside those of a model without dendrites.

    They pair up wrongly, as dendrites and what holds them are further layers. A copy of the perforated model has them.
    """
    index = flow.index
    parts = re.compile(r"(?:named_)?(?:parameters|modules|children|buffers)|state_dict|values|items|keys")
    for call in index.calls:
        here = index.statement(call)
        loaded = receiver(call) if method_name(call) == "load_state_dict" else None
        if loaded is None and index.qualified(call.func) != "zip":
            continue
        if not any(after_model(here, model, flow) for model in models):
            continue
        operands = [node for arg in call.args if (node := walked_module(arg.value, parts)) is not None]
        others = [loaded] if loaded is not None else operands
        made = {node: set(flow.origins(node, here.scope)) for node in (*operands, *others)}
        wholes = [node for node in operands if not origins.isdisjoint(made[node])]
        wholes = wholes or [node for node in operands if not origins.isdisjoint(flow.closure(made[node]))]
        for whole, other in product(wholes, others):
            there = [one for one in made[other] if Holding({one.node}, flow).holds(other)]  # or it is replaced
            anew = [one for one in there if _is_no_copy(one, origins, flow)]
            if anew and made[whole].isdisjoint(made[other]):
                copy, model = index.source.code(other), models[0].target or index.source.code(whole)
                first = min((index.statement(one.node) for one in anew), key=lambda one: one.order)
                which = f", as {index.place(first.node)} builds it," if len(anew) < len(there) else ","
                way = ""
                if any(first.scope is one.statement.scope for one in models):
                    way = f", `{copy} = copy.deepcopy({model})`, by a statement of its own behind what builds "
                    way += f"`{model}`, in the same function"
                elif first.scope is here.scope:
                    given = index.source.code(whole)
                    way = f", `{copy} = copy.deepcopy({given})`, or of what `{given}` holds where that is its wrapper"
                yield (
                    call,
                    f"{index.place(call)} takes the model's layers for those of `{copy}`{which} which gets no "
                    f"dendrites, so they would no longer match. Let it be a copy of the perforated one{way}",
                )


def _is_no_copy(made: Origin, origins: set[Origin], flow: Flow) -> bool:
    """Whether what makes another model is given the model at no depth."""
    built = [one.node for one in flow.closure({made}) if isinstance(one.node, cst.Call)]
    given = [(arg.value, flow.index.scope_of(one)) for one in built for arg in one.args]
    return bool(built) and all(origins.isdisjoint(flow.deep_origins(*one)) for one in given)


def following_by_name(origins: set[Origin], models: list[Model], loops: list[EpochLoop], flow: Flow) -> Iterator[Told]:
    """Yield what follows the perforated model in training by the names of its weights, and is no copy of it.

    Where it goes through its own names each is found there, so that nothing fails, but it stays without dendrites.

    Args:
        origins: where the model is built.
        models: the places after which it is there.
        loops: the epoch loops.
    """
    index, model = flow.index, Holding({origin.node for origin in origins}, flow)
    walks = [
        (call, held, set(flow.origins(held, index.scope_of(call))))
        for call, held in index.method_calls("named_parameters", "named_buffers", "state_dict")
    ]
    trained = [(call, made) for call, _, made in walks if not origins.isdisjoint(flow.closure(made))]
    inside = {loop.statement for loop in loops}
    scopes = called_in(index, flow, *inside)

    def runs(node: cst.CSTNode) -> bool:
        here = index.statement(node)
        return here.scope in scopes or not inside.isdisjoint(here.path)

    for call, other, made in walks if trained else ():
        built = [origin.node for origin in flow.closure(made) if isinstance(origin.node, cst.Call)]
        copied = any(model.holds(arg.value) for one in built for arg in one.args)
        if not built or copied or not origins.isdisjoint(made):
            continue
        of_model = Holding({one for one, whole in trained if whole.isdisjoint(made)}, flow)
        followed = Holding({call}, flow)
        copy, name = index.source.code(other), models[0].target if models else "model"
        cure = (
            f"Let it be a copy of the perforated one, `copy.deepcopy({name})`, behind what builds `{name}` and before "
            "that is wrapped, or of what its wrapper holds"
        )
        for changed, given in changed_in_place(index):
            if runs(changed) and followed.holds_in_turn(changed) and any(map(of_model.holds_in_turn, given)):
                lacks = "what is tested or saved of it would lack them"
                if _is_looked_up(changed, of_model, index):
                    lacks = "it lacks their names, which are looked up in it"
                yield (
                    changed,
                    f"{index.place(changed)} lets `{copy}` follow the model by the names of its weights, but it gets "
                    f"no dendrites, so that {lacks}. {cure}",
                )
        for item in index.nodes_of(cst.Subscript):
            stored = isinstance(index.parents[item], cst.AssignTarget)
            tried = [one for one in index.ancestors(item) if isinstance(one, cst.Try)]
            if stored or not runs(item) or any(minds_a_key(index, one) for one in tried):
                continue
            if not _is_looked_up(item, of_model, index):
                continue
            if followed.holds(item.value) and not of_model.holds(item.value):
                yield (
                    item,
                    f"{index.place(item)} looks up the names of the model's weights in those of `{copy}`, but that "
                    f"gets no dendrites, and lacks their names. {cure}",
                )


def _is_looked_up(node: cst.CSTNode, model: Holding, index: Index) -> bool:
    """Whether something is taken by the names of the model, `slow[name]`, without a question whether it is there."""
    items = [part for part in nodes_in(node) if isinstance(part, cst.Subscript)]
    keys = {name for item in items for part in item.slice for name in names_in(part)}
    loops = [one for one in index.ancestors(node) if isinstance(one, cst.For) and mentions(one.target, keys)]
    known = [(one, holds) for one, holds in conditions(index, node) if isinstance(one, cst.Comparison)]
    asked = [(one.left, last) for one, holds in known for last in one.comparisons if _is_among(last, holds)]
    found = any(mentions(name, keys) and not model.holds(last.comparator) for name, last in asked)
    return not found and any(model.holds(one.iter) for one in loops)


def _is_among(compared: cst.ComparisonTarget, holds: bool) -> bool:
    return isinstance(compared.operator, cst.In if holds else cst.NotIn)


def paired_parts(origins: set[Origin], flow: Flow) -> Iterator[Told]:
    """Yield where a method of the model has a part follow another that it is no copy of to begin with.

    A momentum encoder that is copied when the model is built grows with its encoder: the recipe's helper sees to it.
    """
    index = flow.index
    classes = _classes_of(origins, flow)
    if any(word.endswith("module_ids_to_track") for word in index.source.words()):
        return
    frozen = any(freezes(one.node) for one in classes)
    copied, following = [{*pair} for pair in _copied_parts(classes, index)], []
    for changed, pair in _paired_by_order(classes, flow):
        scope = index.scope_of(changed)
        users = {index.scope_of(user) for user in flow.callers(scope) if scope.name != "__init__"} or {scope}
        if all(user.name == "__init__" for user in users):
            copied.append({*pair})
        elif frozen or any(_runs_without_gradients(part, classes, index) for part in pair):
            following.append((changed, pair))
    for changed, pair in following:
        if {*pair} not in copied:
            own = all(part.startswith("self.") for part in pair)
            names = ", ".join(f"'{part.removeprefix('self')}'" for part in pair) if own else "'.NAME', ..."
            yield (
                changed,
                f"{index.place(changed)} goes through the parameters of `{pair[0]}` and `{pair[1]}` together. One does "
                "not learn and gets no dendrites, so they would no longer match. Copy them when the model is built, or "
                f"keep the layers of both out of dendrites by GPA.pc.set_module_ids_to_track([{names}])",
            )


def _paired_by_order(classes: set[Scope], flow: Flow) -> Iterator[tuple[cst.BaseExpression, tuple[str, str]]]:
    """Yield what gets other values in methods of some classes, and the parts whose parameters are paired there."""
    index = flow.index
    walks = [
        (call, index.source.code(held), Holding({call}, flow))
        for call, held in index.method_calls("parameters", "named_parameters")
        if index.scope_of(call).enclosing_class in classes
    ]
    for changed, given in changed_in_place(index) if walks else ():
        bound_anew = isinstance(changed, cst.Name) and isinstance(index.parents.get(changed), cst.AugAssign)
        if bound_anew or index.scope_of(changed).enclosing_class not in classes:
            continue
        led = [(call, part) for call, part, holding in walks if holding.holds_in_turn(changed)]
        leading = [(call, part) for call, part, holding in walks if any(map(holding.holds_in_turn, given))]
        for (call, part), (other, whole) in product(led, leading):
            by_order = method_name(other) == "parameters" or index.statement(call) is index.statement(other)
            if by_order and part != whole:
                yield changed, (min(part, whole), max(part, whole))


def _runs_without_gradients(part: str, classes: set[Scope], index: Index) -> bool:
    """Whether methods of some classes call a part of their object, and only where there are no gradients."""
    calls = [one for one in index.calls if index.source.code(one.func) == part]
    calls = [one for one in calls if index.scope_of(one).enclosing_class in classes]
    return bool(calls) and all(any(without_gradients(index, up) for up in index.ancestors(one)) for one in calls)


def _copied_parts(classes: set[Scope], index: Index) -> Iterator[tuple[str, str]]:
    """Yield the parts of objects of some classes that are copies as these are built, each with what it is a copy of."""
    builds = {one.inner["__init__"] for one in classes if "__init__" in one.inner}
    for bound in index.bindings:
        value = bound.value if bound.statement.scope in builds else None
        if isinstance(value, cst.Call) and index.qualified(value.func) == "copy.deepcopy" and value.args:
            yield bound.target, index.source.code(value.args[0].value)
    for call, held in index.method_calls("load_state_dict"):
        taken = walked_module(call.args[0].value, re.compile("state_dict")) if call.args else None
        if taken is not None and index.scope_of(call) in builds:
            yield index.source.code(held), index.source.code(taken)
