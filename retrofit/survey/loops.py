"""Find the loop over epochs: the loop around the loop over batches."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain

import libcst as cst

from retrofit.knowledge.kinds import Counts, DataLoader, Endless, GoesOver, Optimizer, Wraps
from retrofit.survey.adversaries import steps_another
from retrofit.survey.branches import left_before
from retrofit.survey.conditions import never_runs
from retrofit.survey.counters import counts_turns, given_in, handed_through, increments, read_in
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.last_turns import last_turns
from retrofit.survey.nodes import (
    calls_one_of,
    caught_by,
    dotted,
    exits,
    last_name,
    last_of,
    leaves,
    mentions,
    method_name,
    names_in,
    nodes_in,
    receiver,
    wholes_of,
)
from retrofit.survey.order import defines, leading_to, may_lack_value, runs_always, ways_to
from retrofit.survey.repetitions import comprehended, has_one_item, last_part, repeats_itself
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.sites.loop import Backward, EpochLoop

#: What a loop over epochs calls its variable.
_EPOCH = re.compile(r"(\w+_)?(epochs?|ep)(_?(i|id|idx|index|n|no|num|number))?", re.IGNORECASE)

#: A function or class by such a name finds a learning rate.
_FINDS_RATE = re.compile(
    r"(find|range_?test|search).*(?<![a-z])(lr|clr|learning_?rate)|(?<![a-z])c?lr_?(find|range|search)", re.IGNORECASE
)

#: What gives the numbers of which it is made in another order, or some of them.
_OF_NUMBERS = ("reversed", "islice")

#: What is true or false by what it compares.
_ANSWERS = (cst.Comparison, cst.BooleanOperation)

#: What asks of a number, or of each of a tensor, whether it is not finite, and whether it is.
_NOT_FINITE, _FINITE = ("isnan", "isinf"), ("isfinite",)
#: Methods of loggers that tell of an error.
_TELLS_ERROR = ("error", "exception", "critical", "fatal")

#: A call by this name, or one that holds it as a word, validates.
VALIDATES = re.compile(r"(^|_)(vali?|valid|validat\w*|eval|evaluat\w*|test|testing)(_|\d|$)", re.IGNORECASE)


def find_loops(
    index: Index,
    flow: Flow,
    backwards: list[Backward],
    decides: Callable[[EpochLoop], bool],
    *,
    staged: bool = False,
    without: Sequence[EpochLoop] = (),
) -> list[EpochLoop]:
    """Return the epoch loops, one in nearly every script.

    Args:
        backwards: the backward passes; an epoch loop is around the batch loop of one of them, perhaps through calls.
            Where nothing has two such loops, one that fetches its batches by itself counts.
        decides: whether something decides by the score of a loop's turns.
        staged: whether a loop counts in place of those that are each a stage of it.
        without: loops that are known; what runs in them does not count.
    """
    found: dict[Statement, EpochLoop] = {}
    ways = [loops for backward in backwards for loops in flow.enclosing_loops(backward.statement)]
    passed = {loop.statement for loop in without}
    ways = [loops for loops in ways if passed.isdisjoint(loops)]
    ways = [loops for loops in ways if not any(_only_tries(index, part) for part in loops)] or ways
    ways = [loops for loops in ways if not _by_pieces(index, flow, loops, ways)]
    sites = {s: _epoch_loop(index, flow, s) for loops in ways for s in loops}
    outside = [_around_batches(index, flow, loops) for loops in ways]
    within = [_before_repeats(index, flow, loops, sites) for loops in outside]
    for alone in (False, True):
        missing = all(flow.uncalled(statement) is not None for statement in found)
        within = [_within_repeats(flow, loops) for loops in within] if alone and missing else within
        left = [loops for loops in within if not found or _runs(index, flow, loops)] if missing else []
        for loops in left:
            candidates = [site for s in loops if (site := sites[s]) is not None]
            candidates = _without_rounds(index, flow, _without_parts(index, flow, candidates, loops), loops)
            candidates = _without_steps(index, flow, candidates, loops)
            loop = _choose(candidates, loops, alone)
            if loop is not None:
                further = [site for site in candidates[candidates.index(loop) + 1 :] if _goes_on(index, flow, site)]
                further += (fed := _takers(flow, loop, loops))  # in whose turns those of a generator go on
                if further and not decides(loop):  # it passes over the same batches again, as over those just collected
                    unseen = [] if validation_at(index, flow, loop) else fed
                    known = next(filter(decides, further), None)
                    known = known or next((one for one in unseen if validation_at(index, flow, one)), None)
                    if known is None:
                        loop.further = [(head(index, s.statement), index.place(s.node, loop.file)) for s in further]
                    loop = known or loop
                if staged:
                    loop = _of_stages(index, flow, loop, loops, decides) or loop
                found.setdefault(loop.statement, loop)
    for loops in ways if not found else []:
        loop = _only_pass(index, flow, loops)
        if loop is not None:
            found.setdefault(loop.statement, loop)
    around = {part for loops in ways for s in loops if s in found for part in loops[loops.index(s) + 1 :]}
    found = {statement: loop for statement, loop in found.items() if statement not in around}
    called = {statement: loop for statement, loop in found.items() if flow.uncalled(statement) is None}
    found = called or found  # a class that only lends its functions may have a loop of its own
    training = leading_to(backwards, flow)
    for loop in found.values():
        loop.training = training
        inner = [part for loops in ways if loop.statement in loops for part in loops[: loops.index(loop.statement)]]
        by_epoch = _EPOCH.fullmatch(last_part(loop.target)) or _counts_epochs(loop)
        alone = not by_epoch and any(loops[:1] == [loop.statement] for loops in ways)  # a step of its own
        loop.by_iteration = all(
            _accumulates(index, flow, part) or (alone and steps_another(index, flow, part, loop.statement))
            for part in inner
        )
        loop.by_step = loop.by_iteration and _goes_by_steps(index, flow, loop)
        loop.unclear = loop.by_iteration and not loop.by_step and not by_epoch
        loop.inner = [part for part in dict.fromkeys(inner) if part.scope is loop.scope]
        outer = [part for loops in ways if loop.statement in loops for part in loops[loops.index(loop.statement) + 1 :]]
        loop.takers = _takers(flow, loop, outer)
        outer = [part for part in dict.fromkeys(outer) if not trains_once(flow, part, loop)]
        loop.repeats = [(head(index, part), index.place(part.node, loop.file)) for part in outer]
        listed = comprehended(flow, loop.statement)
        loop.repeats += [(index.source.code(one).strip(), index.place(one, loop.file)) for one in listed]
        loop.leftovers = leftovers(loop.statement, flow)
        loop.result = _result(index, flow, loop)
        for one in (loop, *loop.takers):
            one.leaving = _leaving(one, flow)
        loop.last_turns = last_turns(index, loop)
    return list(found.values())


def _runs(index: Index, flow: Flow, loops: list[Statement]) -> bool:
    """Whether a run comes to some loops, which step: else one that nothing is seen to call may be the training."""
    return bool(loops) and flow.uncalled(loops[-1]) is None and _steps(index, flow, loops[-1])


def _only_tries(index: Index, loop: Statement) -> bool:
    """Whether a loop trains nothing for good: of a learning-rate finder, of what gives the state back, of a test."""
    scope = loop.scope
    names = [scope.name, *([scope.enclosing_class.name] if scope.enclosing_class is not None else [])]
    if scope.kind != "function":
        return False
    if any(_FINDS_RATE.search(name) for name in names):
        return True
    called = {method_name(call) for call in index.calls_of(scope)}
    if VALIDATES.search(scope.name) and "eval" in called and called.isdisjoint(("train", "backward")):
        return True
    turns = [part for part in loop.path if isinstance(part.node, (cst.For, cst.While)) and part.scope is scope]
    for call, _ in index.method_calls("load_state_dict"):
        given = dotted(call.args[0].value) if len(call.args) == 1 else None
        place = index.statement(call)
        here = place.scope is scope and place.order > loop.order and not any(part in place.path for part in turns)
        if given is None or not here:
            continue
        kept = index.bound((given,), scope)
        before = all(one.statement.order < loop.order and loop not in one.statement.path for one in kept)
        if kept and before and all(one.value is not None and calls_one_of(one.value, "state_dict") for one in kept):
            return True
    return False


def _around_batches(index: Index, flow: Flow, loops: list[Statement]) -> list[Statement]:
    """Return the loops around a backward pass without those within one over a DataLoader, which go over no epochs."""
    return next((loops[number:] for number, loop in enumerate(loops) if _loaders_of(index, flow, loop)), loops)


def _loaders_of(index: Index, flow: Flow, loop: Statement) -> list[cst.Call]:
    """Return the calls that make the DataLoader whose batches a loop goes through."""
    node = loop.node
    made = _sources(index, flow, node.iter) if isinstance(node, cst.For) else []
    calls = [one for one in made if isinstance(one, cst.Call)]
    return [call for call in calls if index.qualified(call.func) in index.knowledge.named(DataLoader)]


def _by_pieces(index: Index, flow: Flow, loops: list[Statement], ways: list[list[Statement]]) -> bool:
    """Whether one of the loops, in which nothing steps, is over pieces of a batch.

    It is told from the loop over batches by another way to a backward pass that differs by it alone.
    """
    for number, loop in enumerate(loops[:-1]):
        if not isinstance(loop.node, cst.For) or [*loops[:number], *loops[number + 1 :]] not in ways:
            continue
        if not _steps(index, flow, loop) and (len(loops) > 2 or _accumulates(index, flow, loop)):
            return True
    return False


def head(index: Index, loop: Statement) -> str:
    """Return the first line of a loop, as messages quote it."""
    return index.source.code(loop.node).splitlines()[0].split("#")[0].strip()


def _choose(candidates: list[EpochLoop], loops: list[Statement], alone: bool) -> EpochLoop | None:
    """Choose the epoch loop among the countable loops around a backward pass, innermost first.

    Args:
        alone: whether the only loop may be it.
    """
    outer = [site for site in candidates if site.statement is not loops[0] or (alone and len(loops) == 1)]
    named = [site for site in outer if re.search(r"epoch", site.target, re.IGNORECASE)]
    named = named or [site for site in outer if _counts_epochs(site)]
    if named or outer:
        return (named or outer)[0]
    return None


def _goes_on(index: Index, flow: Flow, loop: EpochLoop) -> bool:
    """Whether the turns of a loop train one model further, rather than each another one: of a fold, a seed."""
    return not repeats_itself(loop.node) and not _begins_anew(index, flow, loop.statement)


def _of_stages(
    index: Index, flow: Flow, epochs: EpochLoop, loops: list[Statement], decides: Callable[[EpochLoop], bool]
) -> EpochLoop | None:
    """Return the loop whose turns are the stages of one training, each of them a loop over epochs; None for no such.

    A structure is trained through all of them, as through the epochs of a single loop: ended within the first stage,
    it would never come to the others.
    """
    around = [
        _for_loop(index, flow, part, part.node)
        for part in loops[loops.index(epochs.statement) + 1 :]
        if isinstance(part.node, cst.For) and part.scope is epochs.scope
    ]
    stages = [one for one in around if _goes_on(index, flow, one) and not trains_once(flow, one.statement, epochs)]
    if not stages or not decides(epochs):
        return None
    stages[-1].stage = head(index, epochs.statement), index.place(epochs.node, epochs.file)
    return stages[-1]


def mode_told(index: Index, call: cst.Call) -> str:
    """Return what a call tells the model, "train" or "eval", "" for neither.

    What evaluates on until a backward pass in its own block is a teacher, and not the model that trains there.
    """
    name, given = method_name(call), [dotted(arg.value) for arg in call.args]
    if name not in ("eval", "train") or given not in ([], ["True"], ["False"]):
        return ""
    here, own = index.statement(call), wholes_of(dotted(receiver(call)) or "")
    if name == "train" and given != ["False"]:
        return "train"
    passes = [index.statement(one) for one, _ in index.method_calls("backward")]
    step = next((one for later in here.following for one in passes if later in one.path), None)
    back = [
        index.statement(one)
        for one, held in index.method_calls("train")
        if not {*own}.isdisjoint(wholes_of(dotted(held) or ""))
    ]
    return "" if step is not None and not any(here.order < one.order < step.order for one in back) else "eval"


def validation_at(index: Index, flow: Flow, loop: EpochLoop) -> str:
    """Return the place at which an epoch loop begins to validate, "" where nothing shows that it does."""
    running = called_in(index, flow, loop.statement)
    for call in index.calls:
        name = last_name(call.func)
        if mode_told(index, call) == "eval" or (VALIDATES.search(name) and call.args):
            at = index.statement(call)
            within = at.scope in running or (at.scope is loop.scope and loop.statement in at.ancestors)
            if within and not never_runs(at, flow):
                return index.place(call, loop.file)
    return ""


def _without_rounds(index: Index, flow: Flow, sites: list[EpochLoop], loops: list[Statement]) -> list[EpochLoop]:
    """Leave out loops that go round the data until enough steps are taken, where it is one around them that validates.

    Args:
        sites: the countable ones of all the loops around a backward pass, innermost first.
    """

    def counts_steps(site: EpochLoop) -> bool:
        inner = loops[: loops.index(site.statement)]
        moved = [b.statement for b in index.bindings if b.target == site.target and increments(b)]
        return any(part in moving.path for moving in moved for part in inner)

    rounds = [site for site in sites if counts_steps(site) and not validation_at(index, flow, site)]
    others = [site for site in sites if site not in rounds and not _begins_anew(index, flow, site.statement)]
    measured = bool(rounds) and any(validation_at(index, flow, site) for site in others)
    return [site for site in sites if site not in rounds] if measured else sites


def _without_parts(index: Index, flow: Flow, sites: list[EpochLoop], loops: list[Statement]) -> list[EpochLoop]:
    """Leave out loops over the parts of the data, where one around them goes over these again.

    Args:
        sites: the countable ones of all the loops around a backward pass, innermost first.
    """
    parts = [site for site in sites if _over_parts(index, flow, site, loops)]
    further = [site for one in parts[-1:] for site in sites[sites.index(one) + 1 :] if _goes_on(index, flow, site)]
    return [site for site in sites if site not in parts] if further else sites


def _without_steps(index: Index, flow: Flow, sites: list[EpochLoop], loops: list[Statement]) -> list[EpochLoop]:
    """Leave out loops whose turns are one step each, of gradients that loops inside add up, where training goes on.

    Args:
        sites: the countable ones of all the loops around a backward pass, innermost first.
    """

    def is_step(site: EpochLoop) -> bool:
        inside = loops[: loops.index(site.statement)]
        added = bool(inside) and all(_accumulates(index, flow, part) for part in inside)
        by_epoch = _EPOCH.fullmatch(last_part(site.target)) or _counts_epochs(site)
        return added and not by_epoch and _steps(index, flow, site.statement)

    steps = [site for site in sites if is_step(site)]
    further = [site for one in steps[-1:] for site in sites[sites.index(one) + 1 :] if _goes_on(index, flow, site)]
    return [site for site in sites if site not in steps] if further else sites


def _over_parts(index: Index, flow: Flow, site: EpochLoop, loops: list[Statement]) -> bool:
    """Whether a loop goes through a list by its numbers, with batches of their own for each item."""
    loop, gone_through = site.statement, site.anchors["range"]
    ends = gone_through.args[:2][-1:] if isinstance(gone_through, cst.Call) and isinstance(loop.node, cst.For) else ()
    limits = [one.node for end in ends for one in flow.origins(end.value, loop.scope)]
    calls = [one for one in limits if isinstance(one, cst.Call) and index.qualified(one.func) == "len"]
    items = [one for one in nodes_in(site.body) if isinstance(one, cst.Subscript) and mentions(one, [site.target])]
    if {dotted(one.args[0].value) for one in calls}.isdisjoint(filter(None, (dotted(one.value) for one in items))):
        return False
    inside = loops[: loops.index(loop)]
    made = [call for part in inside for call in _loaders_of(index, flow, part)]
    return any(_is_made_of(index, flow, call, items) for call in made) or any(
        isinstance(part.node, cst.For) and _gone_through(index, part.node.iter) in items for part in inside
    )


def _is_made_of(index: Index, flow: Flow, call: cst.Call, parts: Collection[cst.BaseExpression]) -> bool:
    """Whether a call, or one that makes what it is given, is given one of some expressions."""
    waiting, seen = [call], set[cst.Call]()
    while waiting:
        one = waiting.pop()
        seen.add(one)
        for arg in one.args:
            made = [origin.node for origin in flow.origins(arg.value, index.scope_of(one))]
            if not {arg.value, *made}.isdisjoint(parts):
                return True
            waiting += [node for node in made if isinstance(node, cst.Call) and node not in seen]
    return False


def _counts_epochs(site: EpochLoop) -> bool:
    """Whether what limits a loop is a number of epochs by its name: `range(args.n_epochs)`."""
    limit = site.anchors["range"]
    return any(re.search(r"(?<!per_)(?<!per)epoch", last_part(name), re.IGNORECASE) for name in names_in(limit))


def _before_repeats(
    index: Index, flow: Flow, loops: list[Statement], sites: Mapping[Statement, EpochLoop | None]
) -> list[Statement]:
    """Return the loops around a backward pass, only the innermost where that is over epochs and those around repeat it.

    That is so where it has no loop over batches inside, and another fold or seed begins with an optimizer of its own.
    """
    targets = [site.target for part in loops if (site := sites[part]) is not None]
    named = [bool(re.search("epoch", target, re.IGNORECASE)) for target in targets]
    inner = sites[loops[0]] if len(targets) > 1 else None
    if inner is None or not _EPOCH.fullmatch(inner.target) or any(named[1:]):
        return loops
    return loops[:1] if any(_begins_anew(index, flow, part) for part in loops[1:]) else loops


def _within_repeats(flow: Flow, loops: list[Statement]) -> list[Statement]:
    """Return the innermost loop around a backward pass alone where those around it have one turn each, or repeat it."""
    index = flow.index
    around = [(part, part.node) for part in loops[1:]]
    again = [
        isinstance(node, cst.For)
        and (repeats_itself(node) or has_one_item(flow, _gone_through(index, node.iter), part.scope))
        for part, node in around
    ]
    return loops[:1] if all(again) else loops


def _begins_anew(index: Index, flow: Flow, loop: Statement) -> bool:
    """Whether each turn of a loop wraps a model, or builds an optimizer, perhaps by a library that gets its class."""
    running = called_in(index, flow, loop)
    mentioned = [
        index.qualified(node)
        for call in chain(index.calls_in(loop), *map(index.calls_of, running))
        if dotted(call.func) != "isinstance" and not _resets(index, call, loop)
        for node in (call.func, *(arg.value for arg in call.args))
    ]
    return any(not index.knowledge.named(kind).keys().isdisjoint(mentioned) for kind in (Optimizer, Wraps))


def _resets(index: Index, call: cst.Call, loop: Statement) -> bool:
    """Whether a call makes anew, in some turns of a loop, what has been made before the loop, or in one of them."""
    here, made = index.statement(call), index.target_of(call)
    bound, turn = index.bound((made,), here.scope), names_in(loop.node.target) if isinstance(loop.node, cst.For) else ()
    before = any(b.statement.order < loop.order and dotted(b.value) != "None" for b in bound)
    choices = [part.node for part in here.around if isinstance(part.node, cst.If) and loop in part.path[:-1]]
    once = any(mentions(choice.test, (made, *turn)) for choice in choices)
    anew = {b.statement.node for b in bound if loop in b.statement.path[:-1]}
    return bool(choices) and (before or once) and not any(runs_always(choice, anew) for choice in choices)


def _only_pass(index: Index, flow: Flow, loops: list[Statement]) -> EpochLoop | None:
    """Return the only loop of a training as long as its batches last, which validates every so many of them."""
    if not loops or not all(_accumulates(index, flow, part) for part in loops[:-1]):
        return None
    statement, node = loops[-1], loops[-1].node
    if not isinstance(node, cst.For):
        return None
    if flow.uncalled(statement) is not None:
        return None
    validating = [
        call
        for call in index.calls_in(statement)
        if VALIDATES.search(last_name(call.func))
        if any(isinstance(part.node, cst.If) and statement in part.path for part in index.statement(call).ancestors)
    ]
    return _for_loop(index, flow, statement, node) if validating else None


def _accumulates(index: Index, flow: Flow, statement: Statement) -> bool:
    """Whether a loop only adds up gradients, without a step of the optimizer: one that counts, or goes over sources."""
    node = statement.node
    if not isinstance(node, cst.For) or _steps(index, flow, statement):
        return False
    counts = isinstance(node.iter, cst.Call) and index.qualified(node.iter.func) == "range"
    return counts or _draws_from_each(index, statement, node)


def _draws_from_each(index: Index, loop: Statement, node: cst.For) -> bool:
    """Whether each turn of a loop draws a batch from another source: `x = next(sources[name])`."""
    drawn = [call.args[0].value for call in index.calls_to("next") if loop in index.statement(call).path and call.args]
    sources = [one.args[0].value if isinstance(one, cst.Call) and dotted(one.func) == "iter" else one for one in drawn]
    turn = [*names_in(node.target)]
    return any(not isinstance(one, cst.Call) and mentions(one, turn) for one in sources)


def _steps(index: Index, flow: Flow, loop: Statement) -> bool:
    """Whether a method `step` is called in a loop, or in a function whose callers lead back to it."""
    steps = [index.statement(call) for call, _ in index.method_calls("step")]
    return any(loop in way.path for step in steps for way in flow.leading(step))


def _goes_by_steps(index: Index, flow: Flow, loop: EpochLoop) -> bool:
    """Whether turns of one step each are no epochs: by the loop's kind and name, or as each has its own batch."""
    if _EPOCH.fullmatch(last_part(loop.target)):
        return False
    if isinstance(loop.node, cst.For) and not _counts(index, flow, loop.node):
        return True
    draws = [index.statement(call) for call in index.calls_to("next")]
    training = {one.scope for one in loop.training} & called_in(index, flow, loop.statement)
    drawn = any(loop.statement in one.path or one.scope in training for one in draws)
    return drawn or not loop.iterated or not loop.limited


def _epoch_loop(index: Index, flow: Flow, statement: Statement) -> EpochLoop | None:
    """Return a loop that may be over epochs: one that counts, or by its variable's name; None for any other."""
    node = statement.node
    if isinstance(node, cst.While):
        return _while_loop(index, flow, statement, node)
    if not isinstance(node, cst.For):
        return None
    site = _for_loop(index, flow, statement, node)
    return site if _counts(index, flow, node) or _EPOCH.fullmatch(site.target) else None


def _for_loop(index: Index, flow: Flow, statement: Statement, node: cst.For) -> EpochLoop:
    number = node.target.elements[0].value if isinstance(node.target, cst.Tuple) else node.target
    return EpochLoop(
        node=node,
        index=index,
        target=index.source.code(number),
        limited=_makers(index, flow, node).isdisjoint(index.knowledge.last_names(Endless)),
        anchors={"range": _gone_through(index, node.iter)},
    )


def _counts(index: Index, flow: Flow, node: cst.For) -> bool:
    """Whether a loop goes through numbers: `range`."""
    return not _makers(index, flow, node, *_OF_NUMBERS).isdisjoint(index.knowledge.last_names(Counts))


def _makers(index: Index, flow: Flow, node: cst.For, *further: str) -> set[str]:
    """Return the names of the functions that make what a loop goes through: `range`.

    Args:
        further: what may be around that besides a list of it all.
    """
    made = _sources(index, flow, node.iter, "list", *further)
    return {last_name(one.func) if isinstance(one, cst.Call) else "" for one in made}


def _sources(index: Index, flow: Flow, iterable: cst.BaseExpression, *further: str) -> list[cst.BaseExpression]:
    """Return where it is made what a loop goes through, also by names for it and for progress bars around it."""
    waiting, found = [iterable], list[cst.BaseExpression]()
    for one in waiting:
        within = _gone_through(index, one, *further)
        made = [origin.node for origin in flow.origins(within, index.scope_of(one))]
        found += [within] if within in made else []
        waiting += [node for node in made if node is not within and node not in waiting]
    return found


def _gone_through(index: Index, iterable: cst.BaseExpression, *further: str) -> cst.BaseExpression:
    """Return what a loop goes through, within a progress bar, `enumerate` and what a recipe has put around it."""
    while isinstance(iterable, cst.Call) and iterable.args:
        names = {"enumerate", *index.knowledge.last_names(GoesOver), *further}
        if last_name(iterable.func) not in names and not index.is_provided(iterable.func):
            break
        iterable = iterable.args[0].value
    return iterable


def _while_loop(index: Index, flow: Flow, statement: Statement, node: cst.While) -> EpochLoop | None:
    """Return a `while` loop that goes on for ever, or until a counter or a flag ends it; None for any other.

    Where no loop is around it, an answer counts as a flag: `while not done: done = stopper(acc)`.
    """
    running = called_in(index, flow, statement)
    inside = any(isinstance(part.node, (cst.For, cst.While)) for part in statement.around)
    asked = node.test.expression if isinstance(node.test, cst.UnaryOperation) else node.test
    target, flagged = "", isinstance(asked, cst.Call) and flow.called(asked) is not None and not inside
    for read in read_in(index, node.test):
        name = read if "[" in read else flow.behind_property(read, statement.scope)
        made = given_in(index, flow, statement, running, name)
        answered = asked is not node.test and dotted(asked) == read and bool(made)
        flagged |= any(dotted(b.value) in ("True", "False") for b in made)
        flagged |= not inside and (answered or any(isinstance(b.value, _ANSWERS) for b in made))
        counted = any(counts_turns(index, statement, b) or handed_through(index, flow, b) for b in made)
        if not target and (counted or _is_advanced(index, flow, statement, read)):
            target = name
    if not (target or flagged or _is_true(index, node.test)):
        return None
    return EpochLoop(node=node, index=index, target=target, limited=bool(target), anchors={"range": node.test})


def _is_advanced(index: Index, flow: Flow, loop: Statement, name: str) -> bool:
    """Whether a name is how far a progress bar is that a loop's turns move on: `bar.n`, by `bar.update(1)`."""
    holder, _, count = name.rpartition(".")
    known = index.knowledge.named(GoesOver)
    named = all(part.isidentifier() for part in holder.split("."))
    bars = set(flow.origins(cst.parse_expression(holder), loop.scope)) if named else set()
    made = {origin: index.qualified(origin.node.func) for origin in bars if isinstance(origin.node, cst.Call)}
    methods = {bar.advance for one in made.values() if (bar := known.get(one)) is not None and bar.count == count}
    return any(
        loop in index.statement(call).path and not bars.isdisjoint(flow.origins(moved, index.scope_of(call)))
        for method in methods
        for call, moved in index.method_calls(method)
    )


def _is_true(index: Index, test: cst.BaseExpression) -> bool:
    return index.source.code(test).strip("()") in ("True", "1")


def conjuncts(test: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return what must all hold for a condition to hold."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return [*conjuncts(test.left), *conjuncts(test.right)]
    return [test]


def called_in(index: Index, flow: Flow, *blocks: Statement, perhaps: bool = False) -> set[Scope]:
    """Return the local functions that run within loops or other statements.

    Args:
        perhaps: whether those count of which a call runs one, by a name made at run time.
    """
    found: set[Scope] = set()
    waiting = [call for block in blocks for call in index.calls_in(block)]
    while waiting:
        call = waiting.pop()
        function = flow.called(call)
        run = {*flow.overriding(call), *([] if function is None else [function])} - found
        run |= {*flow.running(call)} - found if perhaps else set()
        found |= run
        waiting += [further for one in run for further in index.calls_of(one)]
    return found


def _exits(index: Index, node: cst.CSTNode) -> bool:
    """Whether a statement ends the program as one that has done its work."""
    if not isinstance(node, cst.Expr) or not isinstance(node.value, cst.Call):
        return False
    call = node.value
    done = not call.args or index.source.code(call.args[0].value) in ("0", "None")
    return done and index.qualified(call.func) in ("sys.exit", "exit", "quit")


def trains_once(flow: Flow, outer: Statement, loop: EpochLoop) -> bool:
    """Whether a `for` loop around the epoch loop gets there once: by one turn, as it is left, picks that or is fed."""
    index, node = flow.index, outer.node
    if not isinstance(node, cst.For):
        return False
    if has_one_item(flow, _gone_through(index, node.iter), outer.scope) or _is_fed_by(flow, outer, node, loop):
        return True
    inside = {part for part in leading_to([loop], flow) if outer in part.path[:-1]}
    variable = index.source.code(node.target)

    def picked(statement: Statement, operator: type[cst.BaseCompOp]) -> list[Statement]:
        """Return the block of an `if` that compares the loop's variable so, and nothing else."""
        choice = statement.node
        if not isinstance(choice, cst.If) or not isinstance(choice.test, cst.Comparison):
            return []
        sides = (choice.test.left, *(one.comparator for one in choice.test.comparisons))
        found = isinstance(choice.test.comparisons[0].operator, operator) and variable in map(index.source.code, sides)
        return index.statements_in(choice.body) if found else []

    return any(
        not inside.isdisjoint(picked(part, cst.Equal))
        or any(leaves(block[-1].node) for early in part.preceding if (block := picked(early, cst.NotEqual)))
        or _ends_with(outer, part)
        for part in inside
    )


def _ends_with(outer: Statement, part: Statement) -> bool:
    """Whether a loop is left once a statement of it has run through: by its block's end, or a `try`'s `else`."""
    within = part.path[part.path.index(outer) + 1 : -1]
    otherwise = part.node.orelse if isinstance(part.node, (cst.Try, cst.TryStar)) else None
    lasts = [last_of(part.siblings[-1].node), *([last_of(otherwise.body)] if otherwise is not None else [])]
    plain = all(isinstance(one.node, (cst.Try, cst.TryStar, cst.With)) for one in within)
    return plain and any(isinstance(last, (cst.Break, cst.Return)) for last in lasts)


def _is_fed_by(flow: Flow, outer: Statement, node: cst.For, loop: EpochLoop) -> bool:
    """Whether a loop goes through what each turn of the epoch loop yields: `for acc in epochs(model):`."""
    index = flow.index
    made = _sources(index, flow, node.iter)
    fed = [isinstance(one, cst.Call) and flow.called(one) is loop.scope for one in made]
    yields = (one for one in nodes_in(loop.node) if isinstance(one, cst.Yield))
    return fed == [True] and any(index.scope_of(one) is loop.scope for one in yields)


def _takers(flow: Flow, loop: EpochLoop, around: list[Statement]) -> list[EpochLoop]:
    """Return those loops around the epoch loop that go through what it yields."""
    found = [(part, part.node) for part in dict.fromkeys(around) if isinstance(part.node, cst.For)]
    return [_for_loop(flow.index, flow, part, node) for part, node in found if _is_fed_by(flow, part, node, loop)]


def leftovers(statement: Statement, flow: Flow) -> list[Statement]:
    """Return what runs after the loop: later statements around it, in its function and in those that call it."""
    ways = [way for ways in ways_to(statement, flow).values() for way in ways]
    around = [(way, part) for way in ways for part in way.path if part.scope is way.scope]
    found = [later for way, part in around for later in (*part.following, *_finally(flow.index, part, way))]
    return [later for later in found if not defines(later)]


def _finally(index: Index, around: Statement, way: Statement) -> list[Statement]:
    """Return what a `try` around a statement runs at last."""
    last = around.node.finalbody if isinstance(around.node, (cst.Try, cst.TryStar)) else None
    return [one for one in index.statements_in(last.body) if one.order > way.order] if last is not None else []


def _result(index: Index, flow: Flow, loop: EpochLoop) -> str:
    """Return what its function gives when it leaves the loop, where it gives nothing after the loop; else ""."""
    returns = [(node, index.statement(node)) for node, scope in index.returns if scope is loop.scope and node.value]
    values = {index.source.code(node.value) for node, _ in returns if node.value is not None}
    inside = all(loop.statement in statement.path for _, statement in returns)
    taken = any(not isinstance(index.parents[call], cst.Expr) for call in flow.callers(loop.scope))
    if len(values) != 1 or not inside or not taken:
        return ""
    names = {name.partition(".")[0] for node, _ in returns if node.value is not None for name in names_in(node.value)}
    known = not any(may_lack_value(name, loop.statement, index) for name in names)
    return values.pop() if known else ""


def _leaving(loop: EpochLoop, flow: Flow) -> list[cst.CSTNode]:
    """Return what leaves the loop: `break`, `return`, `exit()`, the condition of a `while` loop, what is caught."""
    index, caught = loop.index, _caught(loop, flow)
    block = index.statements_in(loop.body)
    heads = isinstance(loop.node, cst.While) and not _is_true(index, loop.node.test)
    found = [loop.anchors["range"]] if heads else []
    for statement in index.statements:
        line = statement.node
        if statement.scope is not loop.scope or not isinstance(
            line, (cst.SimpleStatementLine, cst.SimpleStatementSuite)
        ):
            continue
        leaves = [small for small in line.body if isinstance(small, (cst.Return, cst.Break)) or _exits(index, small)]
        leaves += [
            small
            for small in line.body
            if isinstance(small, cst.Raise) and _raised(index, small) in caught and not _is_for_no_number(flow, small)
        ]
        path = statement.path if leaves else []
        inside = path[path.index(loop.statement) + 1 :] if loop.statement in path else []
        if not inside or inside[0].siblings is not block:
            continue
        if any(isinstance(part.node, cst.If) and _asks_recipe(index, part.node.test) for part in inside):
            continue
        own = loop_of(index, statement) is loop.statement
        tried = any(isinstance(part.node, cst.Try) for part in inside)  # which may catch it there
        leaves = [small for small in leaves if not (tried and isinstance(small, cst.Raise))]
        found += [small for small in leaves if own or not isinstance(small, cst.Break)]
    return found


def _caught(loop: EpochLoop, flow: Flow) -> set[str]:
    """Return the full names of the exceptions that end a loop and are caught around it, where the script goes on.

    What is an error, by its class or what catches it, or ends the script as one, is no end of the training.
    """
    index, found = loop.index, set[str]()
    for way in flow.leading(loop.statement):
        for part, node in ((part, part.parent.node) for part in way.path if part.parent is not None):
            if not isinstance(node, cst.Try) or index.statements_in(node.body) is not part.siblings:
                continue
            for one in node.handlers:
                block = index.statements_in(one.body)
                last = last_of(block[-1].node)
                fails = isinstance(last, cst.Raise) or (last is not None and exits(last) and not _exits(index, last))
                fails |= any(method_name(call) in _TELLS_ERROR for said in block for call in index.calls_in(said))
                kinds = [] if fails else caught_by(one)
                found.update(index.qualified(kind) for kind in kinds if not _is_error(flow, kind, way.scope))
    return found


def _is_error(flow: Flow, kind: cst.BaseExpression, scope: Scope) -> bool:
    """Whether an exception's class is one of Python's errors, or any exception, but for what only stops something."""
    own = flow.defined(kind, scope)
    name = flow.root(own) if own is not None else flow.index.qualified(kind)
    known = getattr(builtins, name.removeprefix("builtins."), None)
    if own is not None and known in (Exception, BaseException):
        return False
    stops = (KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration, StopAsyncIteration, Warning)
    return isinstance(known, type) and issubclass(known, BaseException) and not issubclass(known, stops)


def _is_for_no_number(flow: Flow, node: cst.Raise) -> bool:
    """Whether something is raised as a value is not finite, which no training that is to get dendrites ends by."""
    index, statement = flow.index, flow.index.statement(node)
    asked = [*index.guards(node), *((one.test, False) for one in left_before(statement))]
    for test, holds in asked:
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            asked.append((test.expression, not holds))
        elif isinstance(test, cst.BooleanOperation):
            asked += [(test.left, holds), (test.right, holds)]
        elif isinstance(test, cst.NamedExpr):
            asked.append((test.value, holds))
        elif isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
            compared = test.comparisons[0]
            sides = {index.source.code(one) for one in (test.left, compared.comparator)}
            if len(sides) == 1 and isinstance(compared.operator, cst.NotEqual if holds else cst.Equal):
                return True
        elif isinstance(test, cst.Call):
            if last_name(test.func) in (_NOT_FINITE if holds else _FINITE):
                return True
            whole = [arg.value for arg in test.args] if dotted(test.func) in ("any", "all", "bool") else []
            asked += [(one, holds) for one in (*whole, receiver(test)) if isinstance(one, cst.Call)]
        elif dotted(test) is not None:
            made = [one.node for one in flow.origins(test, statement.scope)]
            asked += [(one, holds) for one in made if isinstance(one, cst.BaseExpression) and dotted(one) is None]
    return False


def _raised(index: Index, node: cst.Raise) -> str:
    """Return the full name of the exception that is raised, "" where it is the one that was caught."""
    raised = node.exc
    return index.qualified(raised.func if isinstance(raised, cst.Call) else raised) if raised is not None else ""


def _asks_recipe(index: Index, test: cst.BaseExpression) -> bool:
    """Whether a condition is what a function answers that a recipe provides."""
    scope = index.scope_of(test)
    values = [b.value for b in index.bound(list(names_in(test)), scope)]
    return any(isinstance(value, cst.Call) and index.is_provided(value.func) for value in (test, *values))


def turns_begun_by(index: Index, loop: Statement) -> list[Statement]:
    """Return every `continue` of a loop."""
    return _jumps(index, loop, cst.Continue)


def left_at(index: Index, loop: Statement) -> list[Statement]:
    """Return every `break` of a loop."""
    return _jumps(index, loop, cst.Break)


def _jumps(index: Index, loop: Statement, kind: type[cst.Break | cst.Continue]) -> list[Statement]:
    inside, simple = range(loop.order, loop.last + 1), (cst.SimpleStatementLine, cst.SimpleStatementSuite)
    return [
        part
        for part in index.statements
        if part.order in inside and isinstance(part.node, simple) and isinstance(part.node.body[-1], kind)
        if loop_of(index, part) is loop
    ]


def loop_of(index: Index, statement: Statement) -> Statement | None:
    """Return the loop that a `break` or `continue` is about: not one in whose `else` it stands."""
    around = zip(statement.ancestors, statement.path[::-1], strict=False)
    turns = (part for part, below in around if not in_else_of(index, part, below))
    return next((part for part in turns if isinstance(part.node, (cst.For, cst.While))), None)


def in_else_of(index: Index, loop: Statement, below: Statement) -> bool:
    """Whether a statement of a loop stands in its `else`, and so in none of its turns."""
    node = loop.node
    otherwise = node.orelse if isinstance(node, (cst.For, cst.While)) else None
    return otherwise is not None and below.siblings is index.statements_in(otherwise.body)


def ends_untrained(index: Index, loop: EpochLoop, node: cst.CSTNode) -> bool:
    """Whether a turn that comes to a place goes on to the next before it trains, as a resumed run's first may."""
    first = min((part.order for part in loop.training if loop.statement in part.path[:-1]), default=0)
    path = index.statement(node).path if node in index.parents else ()
    around = [part for part in path if loop.statement in part.path[:-1]]
    later = {one for part in around for one in part.following if one.order < first}
    return not later.isdisjoint(turns_begun_by(index, loop.statement))


def passing_over(index: Index, loop: EpochLoop, place: Statement) -> list[Statement]:
    """Return every `continue` by which a turn that has trained does not come to a place of the epoch loop."""
    trained = [part for part in loop.training if loop.statement in part.path[:-1]]
    return [
        part
        for part in turns_begun_by(index, loop.statement)
        if part.order < place.order and any(one.order < part.order and one not in part.path for one in trained)
    ]
