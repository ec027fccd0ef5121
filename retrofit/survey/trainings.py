"""Tell the trainings of one script apart, where it has several and a run takes one of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import permutations

import libcst as cst

from retrofit.knowledge.kinds import RunsTrials, Scheduler
from retrofit.survey.adversaries import optimizers_stepped
from retrofit.survey.branches import exclude_each_other
from retrofit.survey.constructions import trains_another
from retrofit.survey.defaults import Defaults
from retrofit.survey.flow import Flow
from retrofit.survey.frameworks import engines
from retrofit.survey.holders import parameter_holders
from retrofit.survey.index import Index
from retrofit.survey.loops import called_in, find_loops, trains_once, validation_at
from retrofit.survey.nodes import argument, dotted, mentions, named_in
from retrofit.survey.order import meeting_ways, ways_to
from retrofit.survey.origins import Origin
from retrofit.survey.reach import reachable
from retrofit.survey.repetitions import repeats_itself
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.scores.ways import by_rank, tests_around
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.call import CallSite
from retrofit.survey.sites.loop import Backward, EpochLoop
from retrofit.survey.sites.model import Model
from retrofit.survey.sites.script import Script
from retrofit.survey.sites.wrapper import Wrapper
from retrofit.survey.weights import of_model
from retrofit.survey.wrappers import wrapped_origins


def of_other_models(loops: list[EpochLoop], origins: set[Origin], flow: Flow) -> list[EpochLoop]:
    """Return the epoch loops that train a model of their own, and run instead of those of the wrapped one, or after.

    So a script may train on a single device where it does not on several, or by another library.

    Args:
        loops: the epoch loops.
        origins: where the wrapped model is built, and what it is made of.
    """
    mine, others = _told_apart(loops, origins, flow)
    return [other for other in others if mine and not any(_before(other, loop, flow) for loop in mine)]


def without_early_and_late_ones(loops: list[EpochLoop], origins: set[Origin], flow: Flow) -> list[EpochLoop]:
    """Leave out the epoch loops that train a model of their own before or after the only one of the wrapped model.

    They share no function that trains, as that of the wrapped model ends the initialisation. What comes after it runs
    once, as all that does, such as a linear probe of what the model has learned; not where each round comes back to it
    from the processes that it starts.

    Args:
        loops: the epoch loops.
        origins: where the wrapped model is built, and what it is made of.
    """
    mine, others = _told_apart(loops, origins, flow)
    training = [{one.scope for one in loop.training} & called_in(flow.index, flow, loop.statement) for loop in mine]
    apart = [
        other
        for other in others
        if len(mine) == 1 and training[0].isdisjoint(called_in(flow.index, flow, other.statement))
    ]
    early = [other for other in apart if _before(other, mine[0], flow)]
    late = [
        other
        for other in apart
        if trains_others(other, origins, flow)
        if _before(mine[0], other, flow) and not _in_processes(mine[0], flow)
    ]
    for loop in mine if early else ():
        loop.earlier += [one.place(loop) for one in early]
    return [loop for loop in loops if loop not in (*early, *late)]


def _told_apart(loops: list[EpochLoop], origins: set[Origin], flow: Flow) -> tuple[list[EpochLoop], list[EpochLoop]]:
    """Return the epoch loops of the wrapped model, and those that train one of their own, or by another library."""
    given = {loop: _given(loop, flow) for loop in loops if len(loops) > 1}
    apart = [loop for loop in given if trains_others(loop, origins, flow)]
    mine = [loop for loop in given if loop not in apart and not given[loop].isdisjoint(origins)]
    others = [
        loop
        for loop in given
        if loop not in mine
        if loop in apart
        or any(trains_another(flow.index, flow, one.node, origins) for one in given[loop])
        or engines(flow.index, given[loop])
    ]
    return mine, others


def trains_others(loop: EpochLoop, origins: set[Origin], flow: Flow) -> bool:
    """Whether all that an epoch loop steps has parameters of others than the wrapped model, which it may only ask."""
    index, inside = flow.index, called_in(flow.index, flow, loop.statement)
    stepped: set[Origin] = set()
    for call, held in index.method_calls("step"):
        if loop.statement not in index.statement(call).path and index.scope_of(call) not in inside:
            continue
        made = [one.node for one in flow.origins(held, index.scope_of(call))]
        names = [index.qualified(one.func) for one in made if isinstance(one, cst.Call)]
        if made and len(names) == len(made) and all(index.knowledge.known(Scheduler, name) for name in names):
            continue
        found = optimizers_stepped(index, flow, call, held)
        if not found:
            return False
        stepped |= found
    return bool(stepped) and all(
        trains_another(index, flow, one.node, origins) and not _holds_part(one.node, origins, flow) for one in stepped
    )


def without_those_within(
    backwards: list[Backward], loops: list[EpochLoop], wrappers: list[Wrapper], flow: Flow
) -> list[Backward]:
    """Leave out the backward passes of a training of its own in each turn of the wrapped model's, as of a probe.

    Its epoch loop hides the one around it, which holds backward passes that come to no epoch loop.

    Args:
        backwards: the backward passes.
        loops: the epoch loops.
        wrappers: of all the models.
    """
    ways = {id(one): [*flow.enclosing_loops(one.statement)] for one in backwards}
    training = {loop.statement for loop in loops}
    called = [ways[id(one)] for one in backwards if flow.uncalled(one.statement) is None]
    beyond = {part for found in called if all(map(training.isdisjoint, found)) for way in found for part in way}
    within = [loop for loop in loops if any(not beyond.isdisjoint(way) for way in flow.enclosing_loops(loop.statement))]
    if not within:
        return backwards
    origins = flow.closure({origin for one in wrappers for origin in wrapped_origins(one, flow)})
    aside = {loop.statement for loop in within if trains_others(loop, origins, flow)}
    return [one for one in backwards if not all(not aside.isdisjoint(way) for way in ways[id(one)])]


def _holds_part(optimizer: cst.CSTNode, origins: set[Origin], flow: Flow) -> bool:
    """Whether an optimizer is given parameters of what is built with a part of the wrapped model."""
    assert isinstance(optimizer, cst.Call)
    params = argument(optimizer, "params", 0)
    holders = parameter_holders(params, flow.index.scope_of(params), flow) or () if params is not None else ()
    given = [arg.value for one in holders if isinstance(one.node, cst.Call) for arg in one.node.args]
    made = [one.node for node in given for one in flow.origins(node, flow.index.scope_of(node))]
    return any(of_model(one, origins, flow) for one in made if isinstance(one, cst.BaseExpression))


def without_warm_ups(loops: list[EpochLoop], flow: Flow, decides: Callable[[EpochLoop], bool]) -> list[EpochLoop]:
    """Leave out the loops that validate nothing and run before the only one by whose scores something is decided.

    Args:
        loops: the epoch loops.
        decides: whether something decides by the score of a loop's turns.
    """
    if len(loops) < 2:
        return loops
    plain = [loop for loop in loops if not validation_at(flow.index, flow, loop) and not decides(loop)]
    kept = [loop for loop in loops if loop not in plain]
    if len(kept) != 1 or not decides(kept[0]):
        return loops
    if any(_before(kept[0], one, flow) or not _before(one, kept[0], flow) for one in plain):
        return loops
    kept[0].earlier = [one.place(kept[0]) for one in plain]
    return kept


def without_other_runs(
    script: Script, origins: set[Origin], flow: Flow, decides: Callable[[EpochLoop], bool]
) -> list[EpochLoop]:
    """Leave out the epoch loops that other runs take, with another model or in place of the only one that validates.

    Nothing else may tell them apart, such as a name by which the user chooses, or the ranks that come to each.

    Args:
        origins: where the wrapped model is built, and what it is made of.
        decides: whether something decides by the score of a loop's turns.
    """
    loops = script.loops
    if len(loops) < 2 or len(script.trainers) >= len(loops) or not exclude_one_another(loops, flow):
        return loops
    ways = [way for loop in loops for found in ways_to(loop.statement, flow).values() for way in found]
    if any(by_rank(flow.index, flow, test, way) for way in ways for test in tests_around(way)):
        return loops
    if others := of_other_models(loops, origins, flow):
        return [loop for loop in loops if loop not in others]
    measured = [loop for loop in loops if validation_at(flow.index, flow, loop) or decides(loop)]
    return measured if len(measured) == 1 else loops


def of_optimizer(loops: list[EpochLoop], name: str, flow: Flow) -> list[EpochLoop]:
    """Leave out the loops that step other optimizers than the one that the user names, before its only one or instead.

    Args:
        loops: the epoch loops.
        name: the optimizer's variable, "" where none is named.
    """
    index = flow.index
    bound = [(b.value, b.statement.scope) for b in index.bindings if name and b.target == name]
    made = {origin for value, scope in bound if value is not None for origin in flow.origins(value, scope)}

    def is_it(node: cst.BaseExpression) -> bool:
        found = set(flow.origins(node, index.scope_of(node)))
        return not made.isdisjoint(found) or (found == {Origin(node)} and dotted(node) == name)

    stepping = index.method_calls("step") if made else []  # also of a loss scaler, which is given it
    steps = [call for call, held in stepping if any(map(is_it, (held, *(arg.value for arg in call.args))))]
    kept = [
        loop
        for loop in loops
        if any(
            loop.statement in index.statement(call).path
            or index.scope_of(call) in called_in(index, flow, loop.statement)
            for call in steps
        )
    ]
    others = [loop for loop in loops if loop not in kept]
    if len(kept) != 1 or any(_before(kept[0], one, flow) for one in others):
        return loops
    kept[0].earlier += [one.place(kept[0]) for one in others if _before(one, kept[0], flow)]
    return kept


def measured_beside(
    backwards: list[Backward], loops: list[EpochLoop], flow: Flow, decides: Callable[[EpochLoop], bool]
) -> list[EpochLoop]:
    """Return the loops over steps that validate, and by which a run may train in place of the epoch loops.

    A setting may choose between both, or each have an option, so that neither is the training for itself. One that
    comes before an epoch loop otherwise is noted there; one of a run that the user has to ask for is left alone.

    Args:
        backwards: the backward passes.
        loops: the epoch loops.
        decides: whether something decides by the score of a loop's turns.
    """
    found = find_loops(flow.index, flow, backwards, decides, without=loops) if loops else []
    called = [one for one in found if one.by_iteration and flow.uncalled(one.statement) is None]
    measured = [one for one in called if validation_at(flow.index, flow, one)]
    if not measured:
        return []
    usual = Defaults(flow.index, flow)
    if all(usual.leave_out(loop.node) for loop in loops):
        return measured
    instead = [one for one in measured if exclude_one_another([one, *loops], flow)]
    for loop in loops:
        loop.earlier += [one.place(loop) for one in measured if _before(one, loop, flow)]
    return [one for one in instead if not usual.leave_out(one.node)]


def trained_instead(
    backwards: list[Backward], loops: list[EpochLoop], origins: set[Origin], flow: Flow
) -> list[Backward]:
    """Return the backward passes that train the wrapped model in runs that come to no epoch loop.

    Args:
        backwards: those outside the epoch loops.
        loops: the epoch loops.
        origins: where the wrapped model is built, and what it is made of.
    """
    steps = [flow.index.statement(call) for call, _ in flow.index.method_calls("step")]
    kept = {part for loop in loops for part in loop.statement.path}

    def own(one: Backward) -> cst.CSTNode:
        """Return the function around a backward pass, or what of it is apart from an epoch loop in there."""
        path = [part for part in one.statement.path if part.scope is one.scope]
        return one.scope.node if kept.isdisjoint(path[0].siblings) else next(p.node for p in path if p not in kept)

    return [
        one
        for one in backwards
        if flow.uncalled(one.statement) is None
        and mentions(own(one), flow.names_of(origins, one.scope))
        and any(one.loop in step.path and step.scope is one.scope for step in steps)
        and all(exclude_one_another([one, loop], flow) for loop in loops)
    ]


def trained_too(chosen: list[Wrapper], others: list[Wrapper], flow: Flow) -> tuple[list[Wrapper], list[Wrapper]]:
    """Return which of other models a run trains before the chosen one, and which after it has come back from that.

    It comes back in a process that starts others for the training: they alone leave for the next round.

    Args:
        chosen: the wrappers of the chosen model.
        others: those of the others.
    """
    early = [one for one in others if any(_before(one, first, flow) for first in chosen)]
    late = [one for one in others if any(_before(first, one, flow) for first in chosen if _in_processes(first, flow))]
    return early, late


def in_place_of(others: list[Wrapper], chosen: list[Wrapper], loops: list[EpochLoop], flow: Flow) -> list[Wrapper]:
    """Return which of other models a run trains in the place of the chosen one, in an epoch loop for all of them.

    Args:
        others: their wrappers.
        chosen: those of the chosen model.
        loops: the epoch loops.
    """
    return [
        one
        for one in others
        if all(exclude_one_another([one, mine], flow) for mine in chosen)
        and any(_before(one, loop, flow) and _before(mine, loop, flow) for loop in loops for mine in chosen)
    ]


def trained_beside(others: list[Wrapper], chosen: list[Wrapper], loops: list[EpochLoop], flow: Flow) -> list[Wrapper]:
    """Return which of other models a run may train as well, by another call that leads to the chosen one's epoch loop.

    Args:
        others: their wrappers.
        chosen: those of the chosen model.
        loops: the epoch loops.
    """
    begun = {scope for loop in loops for scope in ways_to(loop.statement, flow)}
    given = [[_given_in(call, flow) for call in flow.callers(scope)] for scope in begun]
    mine = {origin for one in chosen for origin in wrapped_origins(one, flow)}

    def differ(calls: list[set[Origin]], other: set[Origin]) -> bool:
        """Whether calls of one function are given another model each, or one of them both."""
        held = {(mine.isdisjoint(found), other.isdisjoint(found)) for found in calls}
        return len(held - {(True, True)}) > 1

    return [
        one
        for one in others
        if any(differ(calls, wrapped_origins(one, flow)) for calls in given)
        and not exclude_one_another([one, *chosen], flow)
    ]


def _given_in(call: cst.Call, flow: Flow) -> set[Origin]:
    """Return where all is made that a call is given, also in the object whose method it calls."""
    found: set[Origin] = set()
    holder = [call.func.value] if isinstance(call.func, cst.Attribute) else []
    for node in (*holder, *(arg.value for arg in call.args)):
        made = flow.deep_origins(node, flow.index.scope_of(call))
        found |= made
        inner = [arg.value for origin in made if isinstance(origin.node, cst.Call) for arg in origin.node.args]
        for one in inner:
            found |= flow.deep_origins(one, flow.index.scope_of(one))
    return found


def is_made_of(whole: Wrapper, parts: Collection[Origin], flow: Flow) -> bool:
    """Whether what is wrapped is built with another model, which is a part of it."""
    operand = cst.parse_expression(whole.operand)
    made = flow.deep_origins(operand, whole.scope) if dotted(operand) is not None else set()
    calls = [origin.node for origin in made if isinstance(origin.node, cst.Call)]
    given = [(arg.value, flow.index.scope_of(call)) for call in calls for arg in call.args]
    return any(not flow.deep_origins(*one).isdisjoint(parts) for one in given)


def _in_processes(site: Site, flow: Flow) -> bool:
    """Whether a model is wrapped, or trained, in processes that the script starts."""
    calls = [call for scope in ways_to(site.statement, flow) for call in flow.callers(scope)]
    return any(flow.spawns(call) or flow.starts_process(call) for call in calls)


def exclude_one_another(loops: Sequence[Site], flow: Flow) -> bool:
    """Whether a run takes one of some epoch loops or backward passes, as far as branches tell."""
    return not any(_before(first, second, flow) for first, second in permutations(loops, 2))


def find_further(loop: EpochLoop, models: list[Model], origins: set[Origin], flow: Flow) -> list[Site]:
    """Return what trains one model further by the same epoch loop: each `for` around it, and calls after another one.

    Args:
        models: where the model is built; what builds another one does not train it further, nor does one of seeds.
        origins: where the wrapped model is built, and what it is made of.
    """
    built = {part for model in models for way in flow.enclosing_loops(model.statement) for part in way}
    around = {part for way in flow.enclosing_loops(loop.statement) for part in way[1:]} - built
    fors = [part for part in sorted(around, key=lambda one: one.order) if isinstance(part.node, cst.For)]
    turns = [one for one in fors if not (repeats_itself(one.node) or trains_once(flow, one, loop))]
    found = [Site(node=one.node, index=loop.index) for one in turns if _trains_in_turns(one, loop, flow)]
    building = {model.scope for model in models}
    again = _called_again(loop, origins, flow)
    return [*found, *(call for call in again if called_in(loop.index, flow, call.statement).isdisjoint(building))]


def _trains_in_turns(part: Statement, loop: EpochLoop, flow: Flow) -> bool:
    """Whether the turns of a loop lead to the epoch loop, and not its head alone: `for acc in train():`."""
    assert isinstance(part.node, cst.For)
    turn = loop.index.statements_in(part.node.body)
    return part in loop.statement.path or loop.scope in called_in(loop.index, flow, *turn)


def _called_again(loop: EpochLoop, origins: set[Origin], flow: Flow) -> list[CallSite]:
    """Return each call that leads to an epoch loop after another one, in the same run, with the same model.

    Not what runs one of several functions, which may be another one.
    """
    index, ways = flow.index, ways_to(loop.statement, flow, origins)
    made = {index.statement(call): call for scope in ways for call in flow.callers(scope) if not flow.is_chosen(call)}

    def is_again(first: Statement, second: Statement) -> bool:
        holders = [
            set(flow.origins(call.func.value, index.scope_of(call)))
            for call in (made[first], made[second])
            if isinstance(call.func, cst.Attribute)
        ]
        apart = len(holders) == 2 and all(holders) and holders[0].isdisjoint(holders[1])
        return first.order < second.order and not (apart or exclude_each_other(first, second))

    found = [
        second
        for statements in ways.values()
        for first, second in permutations((one for one in statements if one in made), 2)
        if is_again(first, second)
    ]
    return [CallSite(node=made[one], index=index) for one in dict.fromkeys(found)]


def find_trials(index: Index, flow: Flow, loop: EpochLoop) -> tuple[list[CallSite], bool]:
    """Return the calls by which a library runs a training as one of its trials, and whether it runs in no other way."""
    ways, found = ways_to(loop.statement, flow), []
    begun: set[Scope] = set()
    for call in _trials(index, flow):
        inside = [call, *(one for arg in call.args for one in named_in(arg))]
        functions = {flow.defined(one, index.scope_of(one)) for one in inside if isinstance(one, cst.BaseExpression)}
        if tried := [one for one in ways if one in functions]:
            found.append(CallSite(node=call, index=index))
            begun.update(tried)
    calls = {site.node for site in found}
    if any(calls.isdisjoint((outer, *index.ancestors(outer))) for one in begun for outer in flow.callers(one)):
        return found, False
    modules = [file.scope for file in index.files]
    return found, bool(found) and loop.scope not in reachable(index, flow, modules, begun)


def _trials(index: Index, flow: Flow) -> list[cst.Call]:
    known = index.knowledge.named(RunsTrials)
    makers = {name: one.method for name, one in known.items() if one.method}
    studies = [
        call
        for method in sorted(set(makers.values()))
        for call, study in index.method_calls(method)
        for made in flow.origins(study, index.scope_of(call))
        if isinstance(made.node, cst.Call) and makers.get(index.qualified(made.node.func)) == method
    ]
    return [*index.calls_to(*(name for name in known if name not in makers)), *studies]


def left_out(index: Index, flow: Flow, others: list[EpochLoop], kept: list[EpochLoop]) -> set[Scope]:
    """Return what is there for some trainings alone: their functions, classes and files; nothing that leads to others.

    Args:
        others: the epoch loops of these trainings.
        kept: those of the others.
    """
    training = {loop.scope for loop in kept}
    shared = {scope for loop in kept for scope in loop.scope.around}
    alone: set[Scope] = set()
    for loop in others:
        for scope in (loop.scope, *loop.scope.around):
            within = [one for one in index.scopes if one is scope or scope in one.around]
            if scope in shared or scope.parent is None or not training.isdisjoint(reachable(index, flow, within)):
                break
            alone.update(within)
    begun = [*(file.scope for file in index.files), *training]  # of what calls a training not all may be seen
    needed = reachable(index, flow, begun, alone)
    gone = reachable(index, flow, alone) - needed
    rest = {scope.module for scope in index.scopes if scope.parent is not None and scope not in gone}
    return gone | {scope.module for scope in gone if scope.module not in rest | {index.scope}}


def _given(loop: EpochLoop, flow: Flow) -> set[Origin]:
    """Return where everything is made that an epoch loop names, and that functions get otherwise than from a call."""
    found: set[Origin] = set()
    for scope in (loop.scope, *called_in(flow.index, flow, loop.statement)):
        here, handed = (loop.node, set()) if scope is loop.scope else (scope.node, {*scope.parameters} - {"self"})
        names = {name: node for node in _named(here) if (name := dotted(node)) is not None}
        for name, node in names.items():
            if name.partition(".")[0] not in handed:
                found |= flow.deep_origins(node, scope)
    return found


def _named(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Yield what has a name in some code, and what it is an attribute of."""
    for one in named_in(node):
        assert isinstance(one, (cst.Name, cst.Attribute))
        here: cst.BaseExpression = one
        while isinstance(here, cst.Attribute):
            yield here
            here = here.value
        yield here


def _before(first: Site, second: Site, flow: Flow) -> bool:
    """Whether a run may come to an epoch loop, or another site, and then to a second one."""
    return any(
        one.order < other.order and not exclude_each_other(one, other)
        for one, other in meeting_ways(first.statement, second.statement, flow)
    )
