"""Tell what runs before what: before the model is there, before training, after it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence, Set
from itertools import takewhile

import libcst as cst

from retrofit.survey.branches import exclude_each_other
from retrofit.survey.displays import chosen_of
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import EXITS, dotted, exits, last_of, never_runs, receiver
from retrofit.survey.nodes import leaves as leaves_block
from retrofit.survey.origins import Origin
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.model import Model

RulesOut = Callable[[Statement, cst.Call, Flow], bool]


def leads_to(place: Statement, training: set[Statement]) -> bool:
    """Whether a statement runs before what leads to the epoch loop in its own function."""
    return any(later in training and not defines(later) for part in (place, *place.around) for later in part.following)


def apart_from_training(
    place: Statement, loops: list[EpochLoop], flow: Flow, ruled_out: RulesOut | None = None
) -> bool:
    """Whether a statement runs only after the training or instead of it, as in a branch or a function that tests."""
    training = leading_to(loops, flow)
    ways = beside_training(place, loops, flow, ruled_out)
    return bool(ways) and not any(leads_to(way, training) or way in training for way in ways)


def beside_training(
    place: Statement, loops: list[EpochLoop], flow: Flow, ruled_out: RulesOut | None = None
) -> list[Statement]:
    """Return the statements by which one runs, each in the innermost function that leads to the epoch loop.

    Nothing where it runs in that loop.

    Args:
        ruled_out: tells of a statement by which calls of its function it does not run.
    """
    scopes = {part.scope for part in leading_to(loops, flow) if not defines(part)}
    inside = {loop.statement for loop in loops}
    waiting, seen, found = [place], {place}, []
    while waiting:
        here = waiting.pop()
        if not inside.isdisjoint(here.path):
            return []
        if here.scope in scopes:
            found.append(here)
        else:
            leading = [call for call in flow.callers(here.scope) if not (ruled_out and ruled_out(here, call, flow))]
            calls = {*map(flow.index.statement, leading)} - seen
            seen |= calls
            waiting += calls
    return found


def leading_to(places: Iterable[Site], flow: Flow) -> set[Statement]:
    """Return the statements around some places, as epoch loops, in their functions and in those that call these."""
    return {part for place in places for way in flow.leading(place.statement) for part in way.path}


def after_training(training: set[Statement]) -> set[Statement]:
    """Return the statements after all that lead to an epoch loop; those after a function's definition run before."""
    run = {part for part in training if not defines(part)}
    return {later for part in run for later in part.following if run.isdisjoint([later, *later.following])}


def ways_to(
    statement: Statement,
    flow: Flow,
    origins: Set[Origin] = frozenset(),
    loops: Sequence[Site] = (),
    building: Set[Scope] = frozenset(),
) -> dict[Scope, list[Statement]]:
    """Return the statements by which one runs: itself, and the calls that lead to it, by their functions.

    Args:
        origins: where the model is built; of a function's calls those count that are given it, if any is.
        loops: epoch loops; no call counts that a run makes in their place.
        building: functions whose calls do not count, as each of them builds a model of its own.
    """
    index = flow.index
    found: dict[Scope, list[Statement]] = {}
    waiting = [statement]
    while waiting:
        here = waiting.pop()
        known = found.setdefault(here.scope, [])
        if here in known:
            continue
        known.append(here)
        calls = [] if here.scope in building else flow.callers(here.scope)
        given = [
            call
            for call in calls
            if any(not origins.isdisjoint(flow.deep_origins(a.value, index.scope_of(call))) for a in call.args)
        ]
        waiting += [one for one in map(index.statement, given or calls) if not runs_instead(one, loops, flow)]
    return found


def starting(first: Statement, second: Statement, flow: Flow) -> cst.Call | None:
    """Return what starts the processes in which a statement runs, where another one runs in the process that does so.

    What stands in a module under no condition runs in each process that imports it.
    """
    if first.scope.kind == "module" and len(first.path) == 1:
        return None
    made = ways_to(first, flow)
    calls = (call for function in ways_to(second, flow) if function not in made for call in flow.callers(function))
    return next((call for call in calls if flow.spawns(call) or flow.starts_process(call)), None)


def after_model(place: Statement, model: Model, flow: Flow, origins: Set[Origin] = frozenset()) -> bool:
    """Whether a statement runs after the model is perforated, as far as is seen.

    Args:
        origins: where the model is built, if the statement counts only in calls that are given it.
    """
    if place.scope is model.scope:
        return place.order > model.statement.order and model.statement not in place.path
    made = ways_to(model.statement, flow)
    here = ways_to(place, flow, origins, building={flow.index.scope_of(one.node) for one in origins} - made.keys())
    inner = next((scope for scope in (model.scope, place.scope) if scope in here and scope in made), None)

    return any(
        (one.order > other.order and other not in one.path and not exclude_each_other(one, other))
        or (one is other and _comes_first(one, made, here, flow))
        for scope in (here.keys() & made.keys() if inner is None else {inner})
        for one in here[scope]
        for other in made[scope]
    )


def _comes_first(there: Statement, early: Collection[Scope], late: Collection[Scope], flow: Flow) -> bool:
    """Whether, in a statement that leads to two functions, the call to one is a part of that to the other.

    So are `Trainer(net).fit()` and `train(get_model(), get_optimizer())`.
    """
    leading = [{c for scope in ways for c in flow.callers(scope)} for ways in (early, late)]
    inside = [call for call in leading[0] if flow.index.statement(call) is there]
    return any(not leading[1].isdisjoint(flow.index.ancestors(call)) for call in inside)


def sooner(place: Statement, other: Statement, flow: Flow) -> bool:
    """Whether a statement may run before another, as far as both stand in one function, or calls that lead to them."""
    early, late = ways_to(place, flow), ways_to(other, flow)
    return any(
        one.order < two.order or (one is two and _comes_first(one, early, late, flow))
        for one, two in meeting_ways(place, other, flow)
        if not exclude_each_other(one, two)
    )


def meeting_ways(first: Statement, second: Statement, flow: Flow) -> list[tuple[Statement, Statement]]:
    """Return the statements by which two run, as `ways_to` does, as far as both stand in one function."""
    here, there = ways_to(first, flow), ways_to(second, flow)
    return [(one, other) for scope in here.keys() & there.keys() for one in here[scope] for other in there[scope]]


def parting(first: Statement, second: Statement, flow: Flow) -> list[tuple[Statement, Statement]]:
    """Return the same without the calls that lead to both, which tell nothing of their order."""
    return [(one, other) for one, other in meeting_ways(first, second, flow) if one is not other]


def runs_instead(place: Statement, others: Sequence[Site], flow: Flow) -> bool:
    """Whether a run that comes to a statement comes to none of some others, as far as branches tell."""
    apart = [pair for other in others for pair in parting(place, other.statement, flow)]
    return bool(apart) and all(exclude_each_other(*pair) for pair in apart)


def may_follow(place: Statement, other: Statement, flow: Flow) -> bool:
    """Whether a statement may run after another, or with it: not where all ways to it come first."""
    apart = parting(place, other, flow)
    return not apart or any(one.order > early.order or one in early.path for one, early in apart)


def sooner_than_model(statement: Statement, model: Model, origins: Set[Origin], flow: Flow) -> Statement | None:
    """Return what leads to a statement of another function before the model is perforated."""
    if statement.scope is model.scope or model.in_wrapper:
        return None
    making = ways_to(model.statement, flow)
    for scope, calls in ways_to(statement, flow, origins).items():
        for call in calls:
            for made in making.get(scope, ()):
                if made is model.statement and made in call.path[:-1]:
                    return call  # in one of the branches in which it is built
                early = call.order < made.order or call is made is model.statement
                if early and not exclude_each_other(call, made) and built_by(call, making[scope]) is None:
                    return call
    return None


def built_by(call: Statement, made: list[Statement]) -> Statement | None:
    """Return which of the calls that build a model leads to it by the time of another call."""
    built = [one for one in made if one.order <= call.order and not exclude_each_other(one, call)]
    return next((one for one in built if one is not call or len(made) > 1), None)


def one_after_the_other(first: Statement, second: Statement) -> bool:
    """Whether two statements of a function may both run: in no different branches of one choice, nor behind its end."""
    reached = not any(map(always_leaves, (*first.preceding, *second.preceding)))
    return first.scope is second.scope and first is not second and reached and not exclude_each_other(first, second)


def defines(statement: Statement) -> bool:
    """Whether a statement only defines a function or a class, and runs nothing of it."""
    return isinstance(statement.node, (cst.FunctionDef, cst.ClassDef))


def leaves(index: Index, statement: Statement) -> bool:
    """Whether a block ends its function or the program: it loads a model to test it."""
    ends = [node for node, _ in index.returns] + [call for call in index.calls if dotted(call.func) in EXITS]
    return any(statement in index.statement(node).path for node in ends)


def always_leaves(statement: Statement) -> bool:
    """Whether a statement, whatever the conditions, ends its function or the program."""
    node = statement.node
    small = node.body if isinstance(node, cst.SimpleStatementLine) else ()
    return any(isinstance(one, (cst.Return, cst.Raise)) or exits(one) for one in small)


def leaves_loop(here: Statement) -> bool:
    """Whether what runs after a statement in a turn of its loop leaves that loop."""
    inside = takewhile(lambda part: not isinstance(part.node, (cst.For, cst.While)), (here, *here.around))
    later = [one for part in inside for one in (part, *part.following)]
    return any(always_leaves(one) or isinstance(last_of(one.node), cst.Break) for one in later)


def runs_always(node: cst.CSTNode | None, some: Collection[cst.CSTNode], leaves: bool = True) -> bool:
    """Whether one of some statements runs whichever way another goes, or that leaves.

    Args:
        leaves: whether that counts; else an exception alone does, after which nothing goes on.
    """
    if node is None or node in some:
        return node is not None
    if isinstance(node, cst.If) and (ruled_out := never_runs(node)) is not None:
        return runs_always(node.orelse if ruled_out is node.body else node.body, some, leaves)
    if isinstance(node, cst.If):
        return runs_always(node.body, some, leaves) and runs_always(node.orelse, some, leaves)
    if isinstance(node, cst.Try):
        tried = [node.body, *(handler.body for handler in node.handlers)]
        return runs_always(node.finalbody, some, leaves) or all(runs_always(body, some, leaves) for body in tried)
    if isinstance(node, (cst.With, cst.Else, cst.Finally)):
        return runs_always(node.body, some, leaves)
    if isinstance(node, cst.IndentedBlock):
        return any(runs_always(one, some, leaves) for one in node.body)
    return leaves_block(node) if leaves else isinstance(last_of(node), cst.Raise)


def first_values(index: Index, flow: Flow, loop: EpochLoop, name: str) -> list[Binding]:
    """Return what gives a variable its value before the epoch loop, nothing where it has none on some way there.

    Args:
        name: a variable, attribute or item, as the code of the loop's function names it.
    """
    bound = [b for b in (*index.bindings, *index.items) if b.target == name and b.value is not None]
    here = [b for b in bound if b.statement.scope is loop.scope and b.statement.order < loop.statement.order]
    if _come_first(loop.statement, here):
        return here
    scope = loop.scope.module
    if name in loop.scope.outer and scope.file is not None:
        begun = [b for b in bound if b.statement.scope is scope]
        return begun if any(runs_always(s.node, {b.statement.node for b in begun}) for s in scope.file.body) else []
    variable = flow.member(name, loop.scope)
    makers = [one for one in index.scopes if one.name in ("__init__", "__post_init__")]
    makers = [one for one in makers if one.enclosing_class and flow.family(one.enclosing_class) is variable[0]]
    begun = [b for b in index.bindings if b.target == variable[1] and b.value is not None and makers]
    begun = [b for b in begun if flow.variable(b.target, b.statement.scope) == variable]
    return begun if any(_always_gives(one, begun, flow) for one in makers) else []


def holder_may_be_none(index: Index, flow: Flow, loop: EpochLoop, name: str) -> bool:
    """Whether what an attribute belongs to begins as None on some way to the epoch loop, as on all ranks but one."""
    holder = name.partition("[")[0].rpartition(".")[0]
    begun = first_values(index, flow, loop, holder) if holder else []
    lacking = [b for b in begun if any(dotted(value) == "None" for value in (b.value, *chosen_of(b.value)))]
    made = [b.statement for b in begun if b not in lacking]
    nodes = {one.node for one in made}

    def made_later(none: Binding) -> bool:
        """Whether it is made on every way behind the place where it begins as None, or by another function."""
        here = none.statement
        behind = [later for part in (here, *here.around) for later in part.following]
        elsewhere = {one.scope for one in made if one.scope is not here.scope}
        return any(runs_always(one.node, nodes) for one in behind) or any(
            runs_always(_body(scope), nodes) and not any(map(chosen, flow.callers(scope))) for scope in elsewhere
        )

    def chosen(call: cst.Call) -> bool:
        return any(isinstance(part.node, cst.If) for part in index.statement(call).around)

    return not all(map(made_later, lacking))


def may_lack_value(name: str, place: Statement, index: Index) -> bool:
    """Whether a name gets its value in the function around a statement, and not on every way there."""
    here = index.bound([name], place.scope)
    return bool(here) and name not in place.scope.parameters and not _come_first(place, here)


def _come_first(place: Statement, some: list[Binding]) -> bool:
    """Whether one of some assignments runs on every way to a statement of its function."""
    nodes = {binding.statement.node for binding in some}
    return any(runs_always(early.node, nodes) for early in place.before)


def _always_gives(maker: Scope, begun: list[Binding], flow: Flow) -> bool:
    """Whether one of some assignments runs in each call of a method, perhaps in another one that it calls."""
    some: set[cst.CSTNode] = {b.statement.node for b in begun}
    calls: dict[Scope, list[tuple[Scope, cst.CSTNode]]] = {}
    waiting = [maker]
    while waiting:
        method = waiting.pop()
        own = [call for call in flow.index.calls_of(method) if _of_itself(receiver(call))]
        calls[method] = [(one, flow.index.statement(call).node) for call in own if (one := flow.called(call))]
        waiting += [one for one, _ in calls[method] if one not in calls]
    giving: set[Scope] = set()
    while new := [one for one in calls if one not in giving and runs_always(_body(one), some)]:
        giving.update(new)
        some |= {node for called in calls.values() for one, node in called if one in giving}
    return maker in giving


def _body(function: Scope) -> cst.CSTNode | None:
    return function.node.body if isinstance(function.node, cst.FunctionDef) else None


def _of_itself(node: cst.CSTNode | None) -> bool:
    """Whether what a method is called on is the object whose method calls it: `self`, `super()`."""
    return dotted(node) == "self" or isinstance(node, cst.Call)
