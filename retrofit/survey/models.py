"""Find where the wrapped model is built, and which wrappers wrap the same model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import libcst as cst

from retrofit.survey.branches import exclude_each_other, given_before, meeting
from retrofit.survey.building import last_of_building, needing
from retrofit.survey.conditions import leaves_if, rules_out
from retrofit.survey.constructions import optimizer_statements
from retrofit.survey.displays import items_of
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import called_in
from retrofit.survey.nodes import dotted, last_name, mentions, named_in, nodes_in, spelled
from retrofit.survey.order import (
    after_training,
    always_leaves,
    apart_from_training,
    defines,
    leading_to,
    leads_to,
    one_after_the_other,
    runs_always,
    runs_instead,
    starting,
    ways_to,
)
from retrofit.survey.origins import Origin
from retrofit.survey.passed import passed_to
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.model import Model
from retrofit.survey.sites.wrapper import Wrapper
from retrofit.survey.unseen import before_use, before_wrapper
from retrofit.survey.weights import freezes
from retrofit.survey.wrappers import (
    of_each,
    one_for_each,
    split_moves,
    unmoved,
    wrapped_origins,
    wrapping_calls,
)


def group_by_model(wrappers: list[Wrapper], flow: Flow, flag: str = "") -> list[tuple[set[Origin], list[Wrapper]]]:
    """Group whole-model wrappers by the model that they wrap.

    Args:
        flag: the option under which a recipe leaves the wrapper out.
    """
    groups: list[tuple[set[Origin], list[Wrapper]]] = []
    each = [*one_for_each(wrappers, flow)]
    for wrapper in each:
        if any(_wraps_one_of_them(wrapper, outer, flow, flag) for outer in each if outer is not wrapper):
            continue
        origins = wrapped_origins(wrapper, flow)
        makers = {flow.called(o.node) for o in origins if isinstance(o.node, cst.Call)} - {wrapper.scope}
        for known, members in groups:
            same = not known.isdisjoint(origins) or any(_wraps_instead(wrapper, member) for member in members)
            again = not flow.closure(known).isdisjoint(origins) or not flow.closure(origins).isdisjoint(known)
            if same or again or any(member.scope in makers for member in members):
                known |= origins
                if again and not same:  # the calls that give it on are no further places where it is built
                    known -= {one for one in known if not known.isdisjoint(flow.closure({one}) - {one})}
                _join(wrapper, members)
                break
        else:
            groups.append((origins, [wrapper]))
    return groups


def _wraps_one_of_them(wrapper: Wrapper, outer: Wrapper, flow: Flow, flag: str) -> bool:
    """Whether a function wraps one of several models of which another wrapper wraps each, whichever is made."""
    made, known = wrapped_origins(wrapper, flow), wrapped_origins(outer, flow)
    everything = flow.closure(known)
    within = any(flow.called(o.node) is wrapper.scope for o in everything if isinstance(o.node, cst.Call))
    if not within or made.isdisjoint(everything) or not made.isdisjoint(known):
        return False
    others = {o for o in everything - flow.closure(made) if not flow.inside(o) and not _is_name(o)}
    return bool(others) and all(_surely_wraps(outer, flow.index.statement(o.node), flag) for o in known)


def _surely_wraps(wrapper: Wrapper, made: Statement, flag: str) -> bool:
    """Whether a wrapper wraps what a statement before it makes, whatever the conditions but those of a recipe."""
    index = wrapper.index
    here = next((part for part in wrapper.statement.path if part.siblings is made.siblings), None)
    around = [test for test, _ in index.guards(wrapper.call) if here in index.statement(test).path]
    return here is not None and all(
        any(last_name(one) == flag or index.is_provided(one) for one in named_in(test)) for test in around
    )


def _join(wrapper: Wrapper, members: list[Wrapper]) -> None:
    """Put a wrapper to those of the same model, as one with a call that is there already by another of its calls."""
    there = next((one for one in members if one.node is wrapper.node), None)
    if there is None:
        members.append(wrapper)
    else:
        there.by += wrapper.by


def _wraps_instead(one: Wrapper, other: Wrapper) -> bool:
    """Whether two branches of a function wrap what it is given, each of that, or what they build, for the same use."""
    index = one.index
    given = one.module in one.scope.parameters or (of_each(index, one.call) and of_each(index, other.call))
    given = given and one.module == other.module
    built = bool(one.target) and one.target == other.target and _leaves(one, other) == _leaves(other, one)
    same = (given or built) and [b.target for b in one.by] == [b.target for b in other.by]
    return same and exclude_each_other(one.statement, other.statement)


def _leaves(one: Wrapper, other: Wrapper) -> bool:
    """Whether the function is over where one of two wrappers is, and not where both may be: it tests, and returns."""
    own = set(one.statement.path) - set(other.statement.path)
    return any(always_leaves(part.siblings[-1]) for part in own)


def plural(
    origins: set[Origin], wrappers: list[Wrapper], loops: list[EpochLoop], flow: Flow
) -> tuple[str, list[Scope]]:
    """Return why what is wrapped at one place is not one model, "" where it is, and the classes that build one each.

    Args:
        origins: where the model is built.
        wrappers: its wrappers.
        loops: the epoch loops; a loop around one trains each model by itself.
    """
    index = flow.index
    made = {index.statement(o.node) for o in origins if not _is_name(o)}
    built = sorted(made, key=lambda statement: statement.order)
    holders = {holder: s for s in built if (holder := s.scope.enclosing_class) is not None}
    if len(holders) > 1:
        places = ", ".join(f"`{holder.name}` ({index.place(s.node)})" for holder, s in holders.items())
        return f"each of several classes builds its own, and the choice among them is made at run time: {places}", list(
            holders
        )
    training, epochs = leading_to(loops, flow), {loop.statement for loop in loops}
    wrapping = [call for wrapper in wrappers for call in (wrapper.call, *wrapping_calls(wrapper, flow))]
    each = [call for call in wrapping if of_each(index, call) and index.statement(call) not in training]
    if each:
        return f"the comprehension at {index.place(each[0], wrappers[0].file)} wraps each of several", []
    for wrapper in wrappers:
        if not loops and _wraps_copies(wrapper, flow):
            continue  # which may be evaluated in each epoch: the loop over these is asked for first
        ways = [way for way in _loops_around(wrapper, flow) if epochs.isdisjoint(way)]
        turns = [part for way in ways for part in way if part not in training and _wraps_in_each_turn(part, wrapper)]
        beside = [one for one in turns if apart_from_training(one, loops, flow) or runs_instead(one, loops, flow)]
        several = [one for one in turns if one not in beside]
        if several:
            calls = wrapping_calls(wrapper, flow) if several[0] not in wrapper.statement.path else []
            calls = [call for call in calls if several[0] not in index.statement(call).path]
            alone = (
                f" ({index.place(calls[0], wrapper.file)} just one: to train that, leave the loop out)" if calls else ""
            )
            return f"each turn of the loop at {index.place(several[0].node, wrapper.file)} wraps one{alone}", []
    return "", []


def _wraps_copies(wrapper: Wrapper, flow: Flow) -> bool:
    made = [origin.node for origin in wrapped_origins(wrapper, flow)]
    return all(isinstance(one, cst.Call) and flow.index.qualified(one.func) == "copy.deepcopy" for one in made)


def _loops_around(wrapper: Wrapper, flow: Flow) -> Iterator[list[Statement]]:
    """Yield the loops around a wrapper, once for each way of calls that comes to it."""
    calls, here = wrapping_calls(wrapper, flow), wrapper.statement
    if not calls or len(calls) == len(flow.callers(here.scope)):
        yield from flow.enclosing_loops(here)
        return
    own = [part for part in (here, *here.around) if isinstance(part.node, (cst.For, cst.While))]
    for call in calls:
        for around in flow.enclosing_loops(flow.index.statement(call)):
            yield [*own, *around]


def _is_name(origin: Origin) -> bool:
    """Whether an expression builds nothing: a name of what is not seen, or the `None` that keeps a model's place."""
    return isinstance(origin.node, (cst.Name, cst.Attribute))


def _wraps_in_each_turn(loop: Statement, wrapper: Wrapper) -> bool:
    """Whether a `for` loop has several turns, as far as is seen, and wraps a model in all of them."""
    node, place = loop.node, wrapper.statement
    if not isinstance(node, cst.For) or (isinstance(node.iter, (cst.List, cst.Tuple)) and len(node.iter.elements) < 2):
        return False
    inside = [part for part in place.path if loop in part.path[:-1] and part.scope is loop.scope]
    return not any(isinstance(part.node, (cst.If, cst.Try)) for part in inside)


def is_frozen(origins: set[Origin], flow: Flow) -> bool:
    """Whether a model is frozen as a whole, whatever the options, and does not follow another one's parameters either.

    Args:
        origins: where the model is built.
    """
    index = flow.index
    walks = index.method_calls("parameters", "requires_grad_")
    calls = [call for call, held in walks if not origins.isdisjoint(flow.origins(held, index.scope_of(call)))]
    around = (outer for call in calls for outer in index.ancestors(call) if isinstance(outer, cst.Call))
    if any(index.qualified(outer.func) == "zip" for outer in around):
        return False
    freezing = [here for here in map(index.statement, calls) if freezes(here.node)]
    return any(not any(isinstance(part.node, cst.If) for part in here.path) for here in freezing)


def is_apart(wrapper: Wrapper, models: list[Model], loops: list[EpochLoop], flow: Flow) -> bool:
    """Whether a wrapper gets no perforated model and leads to no training (it tests, and leaves), or comes after it.

    Args:
        models: the places after which the model is there.
        loops: the epoch loops.
    """
    here = wrapper.statement
    own = [part for part in here.path if part.scope is here.scope]
    left = any(always_leaves(part.siblings[-1]) for part in own)
    training = leading_to(loops, flow)
    if _runs_within(here, after_training(training), flow) or apart_from_training(here, loops, flow):
        return True
    if not models or not loops or (leads_to(here, training) and not left):
        return False
    return all(
        model.scope is here.scope
        and model.statement is not here
        and ((left and here.order < model.statement.order) or exclude_each_other(here, model.statement))
        for model in models
    )


def for_itself(wrapper: Wrapper, loops: list[EpochLoop], flow: Flow) -> bool:
    """Whether a function that training calls, and that trains nothing, wraps a model for itself alone: it evaluates.

    Args:
        loops: the epoch loops.
    """
    index, scope = flow.index, wrapper.scope
    training = leading_to(loops, flow).union(*(loop.training for loop in loops))
    if any(part.scope is scope for part in training):
        return False
    return any(scope in called_in(index, flow, one.statement) for one in loops) and _stays_within(wrapper, flow)


def note_trained_aside(wrappers: list[Wrapper], loops: list[EpochLoop], flow: Flow) -> None:
    """Note which wrappers another training has for itself: that of the epoch loops need not start processes for them.

    Args:
        loops: the epoch loops.
    """
    aside = [one for one in wrappers if loops and len(wrappers) > 1 and _trains_aside(one, loops, flow)]
    for one in aside if len(aside) < len(wrappers) else ():
        one.idle = True


def _trains_aside(wrapper: Wrapper, loops: list[EpochLoop], flow: Flow) -> bool:
    """Whether a function wraps a model for itself alone, and trains it without coming to an epoch loop.

    Args:
        loops: the epoch loops.
    """
    index, scope, leading = flow.index, wrapper.scope, leading_to(loops, flow)
    passes = (index.statement(call) for call, _ in index.method_calls("backward"))
    others = {way.scope for one in passes for way in flow.leading(one)}
    passed_over = {part for node in index.skipped for part in nodes_in(node) if isinstance(part, (cst.For, cst.While))}
    if scope not in others and passed_over.isdisjoint(nodes_in(scope.node)):
        return False  # a loop that the user lets be passed over may train, too
    training = {part.scope for part in leading}.union(*(called_in(index, flow, loop.statement) for loop in loops))
    return scope not in training and _stays_within(wrapper, flow)


def _stays_within(wrapper: Wrapper, flow: Flow) -> bool:
    """Whether what a function wraps has a name of its own, and is not given back or kept by anything."""
    index, scope, name = flow.index, wrapper.scope, wrapper.target
    if name in scope.outer or not name.isidentifier():
        return False
    kept = [
        b.value for b in (*index.bindings, *index.items) if b.statement.scope is scope and not b.target.isidentifier()
    ]
    returned = [one for value in index.returned(scope) for one in items_of(value)]
    leaving = [*returned, *(value for value in kept if value is not None)]
    holding = (one for value in leaving for one in nodes_in(value) if isinstance(one, cst.Call))
    held = any(flow.class_made(one) is not None and mentions(one, [name]) for one in holding)
    made = wrapped_origins(wrapper, flow)
    return not (held or any(made & flow.deep_origins(value, scope) for value in leaving))


def is_built_anew(wrapper: Wrapper, loops: list[EpochLoop], flow: Flow) -> bool:
    """Whether what is wrapped apart from the training is also built there, rather than the trained model."""
    built = [flow.index.statement(origin.node) for origin in wrapped_origins(wrapper, flow)]
    return any(apart_from_training(one, loops, flow) for one in built)


def _runs_within(here: Statement, places: set[Statement], flow: Flow) -> bool:
    """Whether a statement runs in some places alone, as far as calls give its conditions the constants to hold."""
    waiting, seen = [here], {here}
    while waiting:
        one = waiting.pop()
        if places.isdisjoint(one.path):
            calls = [call for call in flow.callers(one.scope) if not rules_out(one, call, flow)]
            ways = {flow.index.statement(call) for call in calls}
            if not ways:
                return False
            waiting += ways - seen
            seen |= ways
    return True


def find_models(
    origins: set[Origin], wrappers: list[Wrapper], flow: Flow, loops: list[EpochLoop] | None = None
) -> list[Model]:
    """Return the places after which the model is there, one where all ways of building it meet before it is wrapped.

    Args:
        origins: the expressions that build the model.
        wrappers: the wrappers of this model.
        loops: the epoch loops; nothing that leads to one, or comes after it, has a part in the building.
    """
    index = flow.index
    training = {part for part in leading_to(loops or [], flow) if not defines(part)}
    over = after_training(training) | {loop.statement for loop in loops or []}
    origins = {o for o in origins if over.isdisjoint(index.statement(o.node).path)} or origins
    trained = [w for w in wrappers if not apart_from_training(w.statement, loops or [], flow)]
    wrappers = trained or wrappers
    wrapping = [index.statement(call) for one in wrappers for call in wrapping_calls(one, flow)]
    if not any(apart_from_training(call, loops or [], flow) for call in wrapping):  # each is of the trained model
        origins = {o for o in origins if not apart_from_training(index.statement(o.node), loops or [], flow)} or origins
    wrapped_in_place = [w for w in wrappers if not w.module]
    if wrapped_in_place:
        found = [_built_in_wrapper(wrapper, flow) for wrapper in wrapped_in_place]
        others = [w for w in wrappers if all(exclude_each_other(w.statement, one.statement) for one in found)]
        origins = {
            o for o in origins if not any(exclude_each_other(index.statement(o.node), w.statement) for w in others)
        }
        return [*found, *(find_models(origins, others, flow, loops) if others else [])]
    statements = sorted(
        {index.statement(o.node) for o in _builders(origins, wrappers, flow)}, key=lambda statement: statement.order
    )
    if not statements:
        taken, name = _taken_out(flow, wrappers[0]), wrappers[0].module
        ends = [last_of_building(flow, one, name, wrappers, training) for one in taken]
        found = [Model(node=end.node, index=index, target=name) for end in ends]
        return found or before_wrapper(wrappers, optimizer_statements(index), loops or [], flow)
    joint = meeting(statements)
    if joint is None:
        joint = _taken(origins, wrappers, flow)
    elif any(given_before(joint, one, flow.names_of(flow.closure(origins), one.scope)) for one in statements):
        joint = None
    trains = joint in training and not isinstance(joint.node if joint else None, cst.SimpleStatementLine)
    chosen = len(origins) > 1 and (joint not in statements or len(statements) == 1)
    within = joint is not None and chosen and any(_wraps_within(joint, wrapper, flow) for wrapper in wrappers)
    head = _head(wrappers) if within else None
    if head is not None:
        return [Model(node=head.node, index=index, target=wrappers[0].module, side="before")]
    if joint is not None and not trains and not any(joint in wrapper.statement.path for wrapper in wrappers):
        statements = [joint]
    begun = any(not _is_name(o) and not _takes_model(o, flow, origins) for o in origins)
    if not begun and any(_gone_around(statement, wrapper) for statement in statements for wrapper in wrappers):
        return []  # it comes from what is not seen
    models = []
    for statement in statements:
        trains = statement in training and isinstance(statement.node, cst.SimpleStatementLine)
        names = [] if trains else _assigned(statement, flow.closure(origins), flow)
        wrapped = [one.module for one in wrappers if one.scope is statement.scope]  # not what some branches alone name
        target = next((name for name in names if name in wrapped), names[0] if names else "")
        if not target:
            if wrappers[0].shared or wrappers[0].module not in wrappers[0].scope.parameters:
                return []
            places = _before_wrappers(wrappers)
            given = [Model(node=one.node, index=index, target=wrappers[0].module, side="before") for one in places]
            sound = all(before_use(one.done, optimizer_statements(index), loops or [], flow) for one in given)
            if sound:
                return given
            inside = {part for one in origins for part in flow.inside(one)} - origins
            return (
                _where_passed([], origins, wrappers, loops or [], flow)
                or (find_models(inside, wrappers, flow, loops) if inside else [])
                or given
            )
        finished = last_of_building(flow, statement, target, wrappers, training)
        model = Model(node=finished.node, index=index, target=target)
        value = _plain_value(statement)
        if value is not None and finished is statement:
            built, moved = split_moves(flow, value)
            if moved:
                model.built, model.moved = built, moved
        models.append(model)
    apart = len({id(model.scope) for model in models}) > 1 or _elsewhere(models, wrappers, flow)
    apart = apart or any(one_after_the_other(a.statement, b.statement) for a, b in combinations(models, 2))
    return (_where_passed(models, origins, wrappers, loops or [], flow) if apart else []) or models


def _where_passed(
    models: list[Model], origins: set[Origin], wrappers: list[Wrapper], loops: list[EpochLoop], flow: Flow
) -> list[Model]:
    """Return the model where one function gets it from all that build it, as far as nothing has taken its parameters.

    There it has the layers that are put into it on the way, as where each of them makes an empty one, and is in the
    process that trains it, which has its number as a rank once it has begun the process group.
    """
    index, training = flow.index, {part for part in leading_to(loops, flow) if not defines(part)}
    begun = [ways_to(index.statement(c), flow) for c in index.calls_to("torch.distributed.init_process_group")]
    for function, name in passed_to(models, origins, wrappers, flow):
        assert isinstance(function.node, cst.FunctionDef)
        own = index.statements_in(function.node.body)
        using = {*training, *(part for user in needing(flow, own[0], name, wrappers) for part in user.path)}
        free = own[: next((number for number, part in enumerate(own) if part in using), len(own))]
        ranked = [part for part in free if any(part in way.path for one in begun for way in one.get(function, ()))]
        place = last_of_building(flow, (ranked or free[:1])[-1], name, wrappers, training) if free else own[0]
        model = Model(node=place.node, index=index, target=name, side="after" if free else "before")
        elsewhere = _elsewhere([model], wrappers, flow)
        if not elsewhere and before_use(model.done, optimizer_statements(index), loops, flow):
            return [model]
    return []


def _elsewhere(models: list[Model], wrappers: list[Wrapper], flow: Flow) -> bool:
    """Whether a model is there in the process that starts those which wrap it: the library's tracker would be too."""
    return any(starting(model.statement, wrapper.statement, flow) for model, wrapper in product(models, wrappers))


def _wraps_within(built: Statement, wrapper: Wrapper, flow: Flow) -> bool:
    """Whether what builds the model also gives it to the function that wraps it, as each of two branches may do."""
    calls = [flow.index.statement(call) for call in wrapping_calls(wrapper, flow)]
    return any(built in call.path for call in calls)


def _head(wrappers: list[Wrapper]) -> Statement | None:
    """Return the statement before which a function has the model that it is given to wrap, on every way through it."""
    first = wrappers[0]
    own = [part for part in first.statement.path if part.scope is first.scope]
    one = all(w.scope is first.scope and w.module == first.module and own[0] in w.statement.path for w in wrappers)
    left = any(leaves_if(early) is not None for early in own[0].preceding)
    walks = isinstance(own[0].node, (cst.For, cst.While))
    given = first.module in first.scope.parameters and not first.shared
    return own[0] if one and given and not left and not walks else None


def _before_wrappers(wrappers: list[Wrapper]) -> list[Statement]:
    """Return before what a function perforates the model that it is given to wrap: one statement, if it may not wrap.

    Each process needs its rank by then, so it is no statement that begins the process group as well.
    """
    index, head, wrapping = wrappers[0].index, _head(wrappers), [w.statement for w in wrappers if w.first]
    begun = [index.statement(call) for call in index.calls_to("torch.distributed.init_process_group")]
    if head is None or runs_always(head.node, {one.node for one in wrapping}):
        return wrapping
    return wrapping if any(head in one.path for one in begun) else [head]


def _gone_around(built: Statement, wrapper: Wrapper) -> bool:
    """Whether a function comes to its wrapper also without what it builds, as in an `if` for a snapshot."""
    own = [part for part in wrapper.statement.path if part.scope is built.scope]
    return bool(own) and not any(built.siblings is part.siblings for part in own)


def _taken_out(flow: Flow, wrapper: Wrapper) -> list[Statement]:
    """Return where a function takes what it wraps out of an object made elsewhere: `net = package.load().net`."""
    bound = [b for b in flow.index.bindings if b.target == wrapper.module and b.statement.scope is wrapper.scope]
    before = [b for b in bound if b.statement.order < wrapper.statement.order]
    made = [b for b in before if b.value is None or dotted(unmoved(b.value, flow)) != wrapper.module]
    taken = [one.statement for one in made if len(made) == 1 and isinstance(one.value, cst.Attribute)]
    return [one for one in taken if not _gone_around(one, wrapper)]


def repeated(models: list[Model], loops: list[EpochLoop], flow: Flow) -> list[Statement]:
    """Return the calls, where there are several in a row, of the function in which the model would be perforated."""
    index = flow.index

    def both_run(first: cst.Call, second: cst.Call) -> bool:
        here, there = index.statement(first), index.statement(second)
        chosen = any(isinstance(around, cst.IfExp) for around in index.ancestors(first))
        return not chosen if here is there else one_after_the_other(here, there)

    def trains(call: cst.Call, here: Statement) -> bool:
        return not (rules_out(here, call, flow) or runs_instead(index.statement(call), loops, flow))

    for model in models:
        scope, here = model.scope, model.done
        seen = {scope}
        while calls := [call for call in dict.fromkeys(flow.callers(scope)) if trains(call, here)]:
            found = next((pair for pair in combinations(calls, 2) if both_run(*pair)), None)
            if found is not None:
                return [index.statement(call) for call in found]
            scope, here = index.scope_of(calls[0]), index.statement(calls[0])
            if len(calls) > 1 or scope in seen:
                break
            seen.add(scope)
    return []


def _taken(origins: set[Origin], wrappers: list[Wrapper], flow: Flow) -> Statement | None:
    """Return where the function that wraps a model gets it, from several other functions, by a name of its own."""
    index, first = flow.index, wrappers[0]
    taken = [
        binding.statement
        for binding in index.bindings
        if binding.target == first.module
        and binding.value is not None
        and binding.statement.scope is first.scope
        and binding.statement.order < first.statement.order
        and not origins.isdisjoint(flow.deep_origins(binding.value, first.scope))
    ]
    same = all(wrapper.scope is first.scope and wrapper.module == first.module for wrapper in wrappers)
    joint, path = meeting(taken) if same else None, first.statement.path
    heads = [part for part in (joint.path if joint is not None else ()) if part not in path]  # a choice as a whole
    return heads[0] if heads and any(heads[0].siblings is part.siblings for part in path) else None


def _builders(origins: set[Origin], wrappers: list[Wrapper], flow: Flow) -> set[Origin]:
    """Return the expressions that build the model.

    Where a function wraps it, builds the optimizer or hands out parameters as well, those inside it; and none that only
    get the model passed after its optimizer was built, or where it is not wrapped.
    """
    index = flow.index
    optimizers = optimizer_statements(index)
    using = {statement.scope for statement in [*optimizers, *(wrapper.statement for wrapper in wrappers)]}
    using |= _handing_out(origins, flow)
    made = [origin for origin in origins if not _is_name(origin)]
    found = {part for origin in made for part in _before_use(origin, using, flow, {})}
    built = {o for o in found if not _takes_model(o, flow, origins)}
    if not built or built == found:
        return found
    scopes = {index.scope_of(o.node) for o in built}
    used = [statement.order for statement in optimizers if statement.scope in scopes]

    def builds(place: Statement) -> bool:
        late = bool(used) and place.order > min(used)
        return not late and not any(exclude_each_other(place, wrapper.statement) for wrapper in wrappers)

    return {o for o in found if o in built or builds(index.statement(o.node))}


def _handing_out(origins: set[Origin], flow: Flow) -> set[Scope]:
    """Return the functions that give away what they collect of a model's parameters, which an optimizer may get."""
    index, made = flow.index, flow.closure(origins)
    found = set()
    for call, holder in index.method_calls("parameters", "named_parameters"):
        scope, statement = index.scope_of(call), index.statement(call)
        given = index.returned(scope)
        names = {binding.target for binding in index.bound_in(statement)}
        adding = (one.func.value for one in index.calls_in(statement) if isinstance(one.func, cst.Attribute))
        names |= {name for node in adding if (name := dotted(node)) is not None and node is not holder}
        kept = any(name.startswith("self.") for name in names)
        if kept or any(mentions(value, names) or value in index.ancestors(call) for value in given):
            found |= {scope} if not made.isdisjoint(flow.deep_origins(holder, scope)) else set()
    return found


def _before_use(origin: Origin, using: set[Scope], flow: Flow, known: dict[Origin, set[Origin]]) -> set[Origin]:
    """Return what a call builds the model by, at any depth, inside the functions that wrap it or build its optimizer.

    Args:
        origin: the call, or any other expression.
        using: the functions that do so by themselves.
        known: the same of other calls, nothing of those that led to it.
    """
    if origin not in known:
        known[origin] = set()
        inside = {o for o in flow.inside(origin) if known.get(o) != set()}
        deeper = {part for one in inside for part in _before_use(one, using, flow, known)}
        function = flow.called(origin.node) if isinstance(origin.node, cst.Call) else None
        known[origin] = deeper if deeper and (function in using or deeper != inside) else {origin}
    return known[origin]


def _takes_model(origin: Origin, flow: Flow, origins: set[Origin]) -> bool:
    """Whether a building call is given the model itself."""
    if not isinstance(origin.node, cst.Call):
        return False
    scope = flow.index.scope_of(origin.node)
    return any(not origins.isdisjoint(flow.origins(arg.value, scope)) for arg in origin.node.args if not arg.star)


def _built_in_wrapper(wrapper: Wrapper, flow: Flow) -> Model:
    operand = wrapper.anchors["operand"]
    assert isinstance(operand, cst.BaseExpression)
    built, moved = split_moves(flow, operand)
    return Model(
        node=wrapper.statement.node,
        index=flow.index,
        target=wrapper.target,
        built=built,
        moved=moved,
        in_wrapper=True,
        side="before",
    )


def _assigned(statement: Statement, origins: set[Origin], flow: Flow) -> list[str]:
    """Return the names, or the items of a dict, to which one of ``origins`` is assigned in ``statement``."""
    found = []
    for binding in (*flow.index.bindings, *flow.index.items):
        if binding.value is None or statement not in binding.statement.path:
            continue
        for name, value in _parts(flow.index, binding.target, binding.value):
            made = flow.origins(value, binding.statement.scope)
            if not origins.isdisjoint({*made, *(Origin(o.node, binding.item) for o in made)}):
                found.append(name)
    return found


def _parts(index: Index, name: str, value: cst.BaseExpression) -> Iterator[tuple[str, cst.BaseExpression]]:
    """Yield a name with its value, then the items that a dict or list is written with: `models["net"]`, `models[0]`."""
    yield name, value
    for number, one in enumerate(value.elements if isinstance(value, (cst.Dict, cst.List)) else ()):
        if isinstance(one, cst.StarredElement):
            break
        if isinstance(one, cst.Element):
            yield f"{name}[{number}]", one.value
        elif isinstance(one, cst.DictElement) and isinstance(one.key, cst.SimpleString):
            yield f"{name}[{index.source.code(one.key)}]", one.value


def _plain_value(statement: Statement) -> cst.BaseExpression | None:
    node = statement.node
    if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1:
        small = node.body[0]
        if isinstance(small, cst.Assign) and len(small.targets) == 1 and spelled(small.targets[0].target):
            return small.value
    return None
