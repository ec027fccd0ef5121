"""The place where all ranks can hand a score over."""

from __future__ import annotations

import builtins
import re
import symtable
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import takewhile

import libcst as cst

from retrofit.survey.branches import exclude_each_other, meeting
from retrofit.survey.conditions import argument_of, constant, holds_with
from retrofit.survey.counters import counts_alike, given_in, increments, read_in
from retrofit.survey.defaults import Defaults
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.last_turns import end_of
from retrofit.survey.loops import VALIDATES, called_in, head, passing_over, turns_begun_by
from retrofit.survey.nodes import (
    dotted,
    exits,
    last_of,
    leaves,
    mentions,
    names_in,
    nodes_in,
    receiver,
    unquoted,
    wholes_of,
)
from retrofit.survey.order import may_lack_value, runs_always
from retrofit.survey.reaching import conditions
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.scores.again import made_alike
from retrofit.survey.scores.begun import begins_again
from retrofit.survey.scores.best import kept_where_better
from retrofit.survey.scores.controls import saves
from retrofit.survey.scores.filling import begun_anew, changing, empties, emptying, parts_of, set_back
from retrofit.survey.scores.for_the_end import kept_for_end
from retrofit.survey.scores.handed_on import best_in
from retrofit.survey.scores.keepers import kept_score, measured_scores, owner_of
from retrofit.survey.scores.kinds import Kinds
from retrofit.survey.scores.makers import makers_of, reaching_makers
from retrofit.survey.scores.making import EVALUATED, TRAINED, Making
from retrofit.survey.scores.packed import Packed
from retrofit.survey.scores.presence import minds_a_key, presence
from retrofit.survey.scores.standins import StandIn, StandIns
from retrofit.survey.scores.validation import validated_variables
from retrofit.survey.scores.values import (
    bare_of,
    bindings_of,
    code_of,
    deleted_later,
    in_loop,
    is_dict,
    names_around,
    of_one_turn,
    of_phases,
    root_of,
    tells_the_turn,
    turn_that_fills,
    turned_within,
    whole_of,
    written_bare,
)
from retrofit.survey.scores.ways import (
    Way,
    by_rank,
    common_condition,
    cut_off_at,
    last_before_leaving,
    left_by_some,
    tests_around,
    way_in,
)
from retrofit.survey.scores.words import Candidate, direction_of
from retrofit.survey.settings import is_set_by_name
from retrofit.survey.signals import Signals
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.optimizer import Scheduler
from retrofit.survey.sites.score import EarlyEnd, KeptScore, Score, answer_for

#: As many epochs no training takes.
_ENDLESS = 100_000


def score_site(index: Index, flow: Flow, loop: EpochLoop, candidate: Candidate) -> Score | None:
    """Return where all ranks can hand a candidate over, None where it is no score to decide by.

    Args:
        loop: the epoch loop that is to know it.
        candidate: what may be the score.
    """
    pinned = of_one_turn(index, loop, candidate.node)
    expression, name = written_bare(index, candidate.node), root_of(candidate.node)
    expression = pinned(expression)
    kept = kept_score(index, flow, loop, candidate) if candidate.call is not None else None
    here, makers, again = _made_at(index, flow, loop, candidate, kept)
    branches = [part for part in turns_begun_by(index, loop.statement) if here in part.path]
    if left_by_some(index, flow, here, branches) is not None:
        here = meeting([maker for maker in makers if here not in maker.path]) or here
    turns = _batches_around(index, loop, here)
    body, within, unlike = _met_within(flow, loop, turns, here)
    way = way_in(index, flow, body, here)
    if turns and (len(turns) > 2 or not way.condition or not within):
        if kept is not None and not (way.condition or candidate.named):
            return None
        turns, way = [], way_in(index, flow, loop.statement, here, turns)
    direct = bool(way.condition) and (bool(turns) or loop.by_iteration)
    by_batch = loop.by_iteration and bool(candidate.best) and not (candidate.named or way.condition)
    if by_batch and Making(index, flow, loop).of(candidate.node, candidate.call) == TRAINED:
        return None
    passing = turns_begun_by(index, turns[-1] if turns else loop.statement)
    way = _before_continuing(index, flow, way, here, passing)
    inside = [part for part in passing if way.guard in part.path and part.order > way.block.order]
    inside = [part for part in inside if way.ranks != "all" or not exclude_each_other(part, way.block)]
    together = (direct or bool(inside)) and way.ranks == "all" and not way.looped
    deleted = deleted_later(index, here, name)
    in_each = None if _is_of_a_turn(flow, way, kept, candidate) else _taken_in_turns(way, kept, deleted)
    guard = None if together else way.guard or in_each
    compared = index.statement(candidate.node) if candidate.node in index.parents else way.block
    before = _choice_before(compared, way) if together and not inside else None
    going_on = _going_on(index, flow, loop, way) if together and not (inside or before) else None
    if going_on is not None:
        together, guard = False, going_on
    if before is not None and compared not in before.siblings:
        guard = before
    outer = guard or before or way.block
    choice = _choice_that_parts(index, here, makers, name)
    fills = choice is None and guard is None and _is_filled_by(index, way.block, name)
    apart = direct and not together and guard is not None
    when = common_condition(index, flow, replace(way, guard=guard)) if apart else ""
    anew = again or any(maker.order > outer.last for maker in makers)
    early = [] if anew or direct else [part for part in passing if _some_end_there(index, flow, outer, part)]
    passing = [part for part in passing if part not in early]
    begun = begun_anew(index, flow, way.block, candidate.node) if kept is None else None
    spent = again or deleted is not None or begun is not None
    takers = _taken_after(
        index, way, here, makers, begun, parted=choice is not None, guarded=guard is not None, spent=spent, again=again
    )
    noting = index.scope_of(candidate.node) if kept is not None and kept.noted else None
    behind = [] if turns else _ending_behind(index, flow, loop, outer, takers, noting)
    before_these = passing + (_ending(index, loop, outer) if direct else _ending_last(index, outer, behind))
    report = _past_the_rest(index, flow, loop, outer, when) if apart else _last_of_turn(loop, outer, before_these)
    captured = guard is not None or (again and not direct) or choice is not None
    ending = behind if captured or not anew else []
    score = Score(
        node=(candidate.call or candidate.node) if candidate.node in index.parents else here.node,
        index=index,
        expression=expression,
        direction=candidate.direction or _told_by_value(index, candidate.node, makers),
        evidence=candidate.evidence,
        saved=candidate.saved,
        kept=kept,
        known=kept is not None or not name or name in flow.variable(name, loop.scope)[0].names,
        condition=_condition(index, flow, loop, way, kept, report, early),
        ranks="first" if kept is not None and kept.ranks == "first" else way.ranks,
        when=when,
        unlike=unlike,
        anchors={"report": report.node},
    )
    turning = in_each.node if in_each is not None else kept and kept.anchors.get("turn")
    if turning:
        score.last = head(index, index.statement(turning)), index.place(turning, score.file)
    if fills:
        score.parted, score.anchors["parting"] = name, way.block.node
    if kept is None:
        item = isinstance(bare_of(candidate.node), cst.Subscript)
        _tell_best_so_far(score, flow, loop, written_bare(index, candidate.node) if item else name)
    score.kept_for_end, score.lost_with_best = kept_for_end(index, flow, loop, candidate, ending)
    score.best_anew = begins_again(index, flow, loop, candidate)
    score.early = [
        end for part in (*early, *ending) if (end := _early_end(score, loop, outer, takers, part, ending)) is not None
    ]
    score.anchors |= {"loop": loop.node} | ({"turn": _done_with(index, loop, turns[0]).node} if turns else {})
    score.anchors |= {"inner turn": turns[1].node} if turns[1:] else {}
    score.cut_off = cut_off_at(index, flow, outer, report, passing)
    if guard is not None and inside:
        score.cut_off = index.source.position(inside[0].node)[0]
    score.once = re.fullmatch(rf"{re.escape(loop.target or '-')} ?== ?[\w.\[\]'\" +-]+", score.condition) is not None
    if guard is not None:
        score.anchors |= {"guard": guard.node, "made": takers[-1].node}
    elif (again or deleted) and not direct:
        score.anchors["made"] = way.block.node
    elif begun is not None and begun.order <= report.order:
        ends = any(end.statement.order < begun.order for end in score.early)  # where it is read before that
        score.anchors["made"] = way.block.node if ends else begun.siblings[begun.index - 1].node
    at, call = taken_at(score, candidate)
    score.known = score.known and not (candidate.named and lacks(flow, whole_of(index, candidate), at.scope))
    later = [maker for maker in makers_of(flow, candidate.node, code_of(index, loop)) if maker.order > at.last]
    further = [maker for maker in later if not exclude_each_other(maker, here)]
    score.later = index.place(further[0].node, score.file) if candidate.named and again and further else ""
    _tell_emptied(score, flow, candidate.node, at)
    score.unfit = Kinds(index, flow, loop).of(whole_of(index, candidate), at, call)
    stand_ins = StandIns(index, flow, loop).of(candidate.node, at, call)
    _tell_stand_ins(score, stand_ins)
    if kept is None:
        plain = not fills or isinstance(bare_of(candidate.node), cst.Name)
        there = [] if plain else [f"{name} is not None"]
        there += presence(flow, candidate.node, way.block, stand_ins)
        _tell_turn(score, loop, there)
        score.present = pinned(score.present) if score.present else ""
    _take_in_branches(score, choice, takers)
    return score


def _tell_turn(score: Score, loop: EpochLoop, there: list[str]) -> None:
    """Say of a score in which turn of an inner loop it is made, if it is taken there, and by what it is there."""
    name, value, filled = turn_that_fills(score.index, loop, score.expression)
    within = turned_within(score.index, loop, score.anchors["made"]) if score.guarded else []
    taken_there = any(name in names_in(part.target) for part in within)
    score.of_turn = f"{name} == {value}" if name and taken_there else ""
    score.present = " and ".join(dict.fromkeys(there or ([filled] if filled and not score.guarded else [])))
    if name and score.condition:
        left = _left_open(cst.parse_expression(score.condition), {name: constant(cst.parse_expression(value))})
        score.condition = cst.Module([]).code_for_node(left) if left is not None else ""


def _left_open(test: cst.BaseExpression, given: dict[str, object]) -> cst.BaseExpression | None:
    """Return what is left of a condition where some names are told, None where it holds then."""
    if holds_with(test, given):
        return None
    if isinstance(test, cst.BooleanOperation):
        both = isinstance(test.operator, cst.And)
        sides = [one for one in (test.left, test.right) if holds_with(one, given) is not both]
        return _left_open(sides[0], given) if len(sides) == 1 else test
    return test


def lacks(flow: Flow, node: cst.BaseExpression, scope: Scope) -> bool:
    """Whether an expression reads a name without a value in a scope, or a part that the project's objects have not."""
    return _lacks_name(flow, node, scope) or _lacks_part(flow, node, scope)


def _lacks_name(flow: Flow, node: cst.BaseExpression, scope: Scope) -> bool:
    tables = [symtable.symtable(f"({cst.Module([]).code_for_node(node)})", "", "eval")]
    for table in tables:
        tables += table.get_children()
    said = [one for table in tables for one in table.get_symbols() if one.is_global()]
    made = {one.get_name() for one in said if one.is_assigned()}
    file = flow.index.file_of(scope)
    plain = {one.name for one in flow.index.files if not one.stars}
    if not plain.issuperset(file.stars):
        return False  # it may have any name from there
    free = {one.get_name() for one in said} - made - vars(builtins).keys() - {"__name__", "__file__"}
    bound = set[str]().union(*(one.names for one in scope.searched))
    lacking = {name for name in free - bound if flow.index.imported(name, file.scope) is None}
    reads = [one for one in flow.index.nodes_of(cst.Name) if one.value in lacking] if lacking else []
    reads = [one for one in reads if flow.index.scope_of(one) is scope]
    own = {one.value for one in reads if one.value not in names_around(flow.index, one)}
    return bool(lacking - own)  # what the script reads there itself, it has by some means


def _lacks_part(flow: Flow, node: cst.BaseExpression, scope: Scope) -> bool:
    """Whether an attribute is read of what is a dict, or one, or an item, of objects that nothing gives them.

    Only what the project's own classes have is known.
    """
    if not isinstance(node, (cst.Attribute, cst.Subscript)):
        return False
    if dotted(node.value) is None and node.value not in flow.index.parents:
        return False  # the user alone has written it, so that nothing is known of what it calls
    index, name = flow.index, node.attr.value if isinstance(node, cst.Attribute) else "__getitem__"
    origins = flow.deep_origins(node.value, scope)
    made = [one.node for one in origins if not flow.inside(one) and dotted(one.node) != "None"]
    if made and all(is_dict(index, one) for one in made):
        return isinstance(node, cst.Attribute)
    classes = [flow.class_made(one) for one in made]
    lineage = {part for one in classes if one is not None for part in flow.lineage(one)}
    if not classes or None in classes or any(_may_have_more(flow, one, name) for one in lineage):
        return False
    given = any(binding.target.endswith(f".{name}") for binding in index.bindings)
    return not given and all(name not in one.names for one in lineage)


def _may_have_more(flow: Flow, holder: Scope, name: str) -> bool:
    """Whether a class may have an attribute that is not seen: by what it inherits from, or as it is given by name."""
    node = holder.node
    if not isinstance(node, cst.ClassDef) or flow.root(holder) not in ("", "object", "builtins.object"):
        return True
    by_name = {"__getattr__", "__getattribute__"} & holder.inner.keys()
    more = by_name or node.decorators or flow.bases(holder)[1:]
    return bool(more) or is_set_by_name(flow, name, flow.family(holder))


def _batches_around(index: Index, loop: EpochLoop, place: Statement) -> list[Statement]:
    """Return the loops over batches around a statement of the epoch loop, without those over an epoch's phases."""
    around = [part for part in place.path[:-1] if part in loop.inner]
    return [part for part in around if not of_phases(index, part.node)]


def _met_within(
    flow: Flow, loop: EpochLoop, turns: list[Statement], here: Statement
) -> tuple[Statement, bool, tuple[str, str, bool]]:
    """Return in what the way to a place begins, whether ranks meet at it among the batches, and `Score.unlike`."""
    packed = next((one for batches in turns or loop.inner if (one := Packed(flow, loop, batches)).condition), None)
    body, none = [*turns[-1:], loop.statement][0], ("", "", False)
    if packed is None or packed.condition is None:
        return body, bool(turns) and not _goes_by_turns(flow, loop), none
    if turns and packed.meets_at(here):
        return packed.step_around(here), True, none
    place = flow.index.place(packed.condition, loop.file)
    return body, False, (flow.index.source.code(packed.condition), place, bool(turns))


def _goes_by_turns(flow: Flow, loop: EpochLoop) -> bool:
    """Whether what ends a loop is the number of its turns, rather than that of steps in a loop inside it, or a flag."""
    index, counts = flow.index, loop.limited and not _is_endless(flow, loop)
    asked = [test for node in loop.leaving for test in tests_around(index.statement(node))]
    counters = [loop.target] if counts else [name for test in asked for name in names_in(test)]
    counting = [b.statement for name in counters for b in bindings_of(index, loop, name) if increments(b)]
    counted = isinstance(loop.node, cst.For) and loop.target in counters
    return counted or any(not _batches_around(index, loop, one) for one in counting)


def _is_endless(flow: Flow, loop: EpochLoop) -> bool:
    """Whether a loop's head ends it after more turns than any training takes, by default: `range(int(1e9))`."""
    last = end_of(loop.anchors["range"])
    turns = Defaults(flow.index, flow).values(last) if last is not None else []
    return bool(turns) and all(isinstance(one, (int, float)) and one >= _ENDLESS for one in turns)


def brought(index: Index, flow: Flow, loop: EpochLoop, metric: str, of: cst.CSTNode | None = None) -> Score | None:
    """Return what the epoch loop can have of what functions know that it leads to, as `measured_scores` names it.

    Args:
        metric: what names it.
        of: where it is seen; a variable of that place's function is meant, and none of another's that has its name.
    """
    function, handed = next(measured_scores(index, flow, loop, metric), (None, None))
    own = [] if of is None else index.bound([root_of(cst.parse_expression(owner_of(metric)[1]))], index.scope_of(of))
    beside = {index.scope_of(one.node) for one in handed.beside} if handed is not None else set()
    if own and own[0].statement.scope not in {function, *beside}:
        return None
    site = score_site(index, flow, loop, handed) if handed is not None else None
    return site if site is not None and site.known else None


def can_be_brought(index: Index, flow: Flow, loop: EpochLoop, metric: str, of: cst.CSTNode | None = None) -> bool:
    """Whether the epoch loop can have that; see `brought`. What goes over several lines, a user does not name."""
    return "\n" not in metric and brought(index, flow, loop, metric, of) is not None


def taken_at(score: Score, candidate: Candidate) -> tuple[Statement, cst.Call | None]:
    """Return the statement after which a score's value is taken, and the call of the function in which that stands."""
    kept = score.kept
    if kept is None:
        return score.index.statement(score.anchors.get("made", score.anchors["report"])), None
    at = candidate.node if kept.returns else kept.anchors.get("made", kept.node)
    return score.index.statement(at), [candidate.call, *candidate.inner][-1]


def _tell_stand_ins(score: Score, stand_ins: list[StandIn]) -> None:
    """Say of a score what it is where nothing is measured, on the other ranks or in some turns."""
    index = score.index
    for one in stand_ins:
        code = index.source.code(one.value) if one.value is not None else "None"
        place = index.place(one.at.node if one.value is None else one.value, score.file)
        if one.ranked and not one.absent and not one.whole:
            score.alone = f"{place}: {code}"
        elif not one.ranked and one.condition and (one.whole or not one.finite):
            score.condition = score.condition or one.condition
        elif not one.ranked and one.condition:
            score.unmeasured = (code, place, one.condition)


def _condition(
    index: Index,
    flow: Flow,
    loop: EpochLoop,
    way: Way,
    kept: KeptScore | None,
    report: Statement,
    early: list[Statement],
) -> str:
    """Return the code of a condition under which a turn that trains has a score, "" where each one has.

    Args:
        early: every `continue` at which it is handed over as well.
    """
    found = [way.condition or (kept.condition if kept is not None else "")]
    for part in passing_over(index, loop, report):
        if part not in early and not exclude_each_other(part, way.block):
            left = way_in(index, flow, loop.statement, part).condition
            found.append(f"not ({left})" if left else "")
    return " and ".join(dict.fromkeys(code for code in found if code))


def comes_with_steps(flow: Flow, loop: EpochLoop, score: Score, schedulers: list[Scheduler]) -> bool:
    """Whether each step of the optimizer has a score: what keeps that from a turn keeps the step from it as well."""
    index, kept = flow.index, score.kept
    if not (score.condition or score.when or score.guarded):
        return True
    if kept is not None and (kept.condition or kept.guarded):
        return False
    made, of_schedules = index.statement(score.node), {step.node for one in schedulers for step in one.steps}
    around = {part for part in made.path[:-1] if part.order > loop.statement.order}
    passing = passing_over(index, loop, index.statement(score.anchors["report"]))
    passing = [part for part in passing if all(part.node is not one.node for one in score.early)]
    steps = [index.statement(call) for call, _ in index.method_calls("step") if call not in of_schedules]
    ways = [[way for way in flow.leading(step) if loop.statement in way.path[:-1]] for step in steps]

    def comes(way: Statement) -> bool:
        """Whether what a turn does on its way to a step has the score."""
        told = around.issubset(way.path) and not exclude_each_other(way, made)
        return told and all(part.order < way.order for part in passing)

    return any(found and all(map(comes, found)) for found in ways)


def _take_in_branches(score: Score, choice: cst.CSTNode | None, takers: list[Statement]) -> None:
    """Let a score be taken in each branch of a choice that makes it, where there is such a choice."""
    if choice is not None:
        *others, last = takers
        score.anchors = {"guard": choice, **score.anchors, "made": last.node}
        score.earlier = [replace(score, anchors={"made": one.node}) for one in others]


def _before_continuing(index: Index, flow: Flow, way: Way, here: Statement, passing: list[Statement]) -> Way:
    """Return a way under no condition whose block ends before a `continue` of all ranks in the `with` that it was."""
    every = [part for part in passing if way.guard is None and left_by_some(index, flow, here, [part]) is None]
    return replace(way, block=_within(way.block, here, lambda later: any(later in part.path for part in every)))


def _within(block: Statement, here: Statement, leaving: Callable[[Statement], bool]) -> Statement:
    """Return a block, or what a `with` that it is holds around a place, where something behind that place may leave."""
    while isinstance(block.node, cst.With) and block in here.path[:-1]:
        inner = here.path[here.path.index(block) + 1 :]
        if not any(leaving(later) for part in inner for later in part.following):
            break
        block = inner[0]
    return block


def _choice_that_parts(index: Index, here: Statement, makers: list[Statement], name: str) -> cst.CSTNode | None:
    """Return the choice that gives a name its value on some ways only, None where all ways do.

    On the others the script may read the value that it has from an earlier turn, so the name is left to it.
    """
    made = [b for b in index.bound([name], here.scope) if b.statement in makers]
    first = [b.value for b in made if b.value is not None and not any(one in makers for one in b.statement.preceding)]
    carried = any(mentions(value, [name]) for value in first)  # of the value that it has, as the best so far
    if not name or carried or not _is_parted(here, makers):
        return None
    choice: cst.CSTNode = here.node
    while isinstance(index.parents[choice], cst.If):  # an `elif` is none of its own
        choice = index.parents[choice]
    return choice


def _taken_in_turns(way: Way, kept: KeptScore | None, deleted: Statement | None) -> Statement | None:
    """Return the loop in each turn of which a score is taken: by the function that keeps it, or before it is deleted.

    Args:
        deleted: where what it is taken from is deleted.
    """
    if kept is not None:
        return way.block if isinstance(way.block.node, (cst.For, cst.While)) else None
    spent = deleted is not None and way.block in deleted.path[:-1]
    return way.block if spent and isinstance(way.block.node, cst.For) else None


def _is_of_a_turn(flow: Flow, way: Way, kept: KeptScore | None, candidate: Candidate) -> bool:
    """Whether a function notes a score in one turn of the loop that calls it, which tells it by what it goes through.

    That is `if phase == "dev":` in a function that gets the `phase` of `for phase in phases:`.
    """
    turns, call = way.block.node, candidate.call
    if kept is None or not kept.noted or call is None or candidate.inner or not isinstance(turns, cst.For):
        return False
    counted, function = {*names_in(turns.target)}, flow.index.scope_of(candidate.node)
    for test, holds in conditions(flow.index, kept.node):
        one = (cst.Equal, cst.Is) if holds else (cst.NotEqual, cst.IsNot)  # what any of the others is may be of several
        picks = isinstance(test, cst.Comparison) and isinstance(test.comparisons[0].operator, one)
        for name in names_in(test) if picks else ():
            given = argument_of(function, call, name) if name in function.parameters else None
            if given is not None and not counted.isdisjoint(names_in(given)):
                return True
    return False


def _taken_after(
    index: Index,
    way: Way,
    here: Statement,
    makers: list[Statement],
    begun: Statement | None,
    *,
    parted: bool,
    guarded: bool,
    again: bool,
    spent: bool,
) -> list[Statement]:
    """Return the statements after each of which a score can be handed over.

    Args:
        begun: where what it is made of begins anew.
        parted: whether a choice makes it in some of its branches.
        guarded: whether it is made under a condition.
        again: whether its name is used anew later.
        spent: whether that is so, or it begins anew or is deleted then, so that it is taken at once.
    """
    if parted:
        return [*dict.fromkeys(one if again else _last_that_makes(index, one, here) for one in makers)]
    if guarded:
        return [_last_that_makes(index, way.block, here, begun)]
    return [way.block] if spent else makers or [here]


def _last_that_makes(index: Index, block: Statement, here: Statement, begun: Statement | None = None) -> Statement:
    """Return the statement after which a score is taken: where it is made, in a loop that may have no turn.

    It is the last of its block that no `continue` or `break` before it passes over, and before what it is made of is
    begun anew. What `with` holds may leave within it.
    """
    if isinstance(block.node, cst.For) and isinstance(here.node, cst.SimpleStatementLine) and begun is None:
        return here
    block = _within(block, here, partial(_leaves, index))
    leaving = next((later for later in block.following if later is begun or _leaves(index, later)), None)
    return leaving.siblings[leaving.index - 1] if leaving is not None else block.siblings[-1]


def _choice_before(compared: Statement, way: Way) -> Statement | None:
    """Return the choice in which a score is made, where the script compares it later in the block around that one."""
    for part in way.block.ancestors:
        if part is way.guard or part.scope is not way.block.scope:
            return None
        if any(later in compared.path for later in part.following):
            return part
    return None


def _made_at(
    index: Index, flow: Flow, loop: EpochLoop, candidate: Candidate, kept: KeptScore | None
) -> tuple[Statement, list[Statement], bool]:
    """Return the statement after which a score is known, what makes its value, and whether that is made anew later."""
    if kept is not None and candidate.call is not None:
        return index.statement(kept.anchors["call"]), [], False
    makers, again = makers_of(flow, candidate.node, code_of(index, loop)), False
    if candidate.made is not None:
        return candidate.made, [], candidate.named and any(one.order > candidate.made.order for one in makers)
    if candidate.node in index.parents:
        by_itself = makers in ([], [index.statement(candidate.node)])
        choice = _choice_that_reads(index, loop, candidate.node) if by_itself else None
        if choice is not None:
            return choice, [], False
        if not makers:
            return index.statement(candidate.node), [], False
        reaching, again = reaching_makers(index.statement(candidate.node), makers)
        if not reaching and set_back(index, candidate.node).issuperset(makers):
            return index.statement(candidate.node), [], True
        reaching += _in_other_branches(index, flow, loop, index.statement(candidate.node), reaching, makers)
        makers = _validating(index, flow, loop, reaching or makers, root_of(candidate.node))
        here = _where_of_validation(index, flow, loop, candidate.node, makers)
        return here or meeting(makers) or index.statements_in(loop.body)[-1], makers, again
    if makers:
        last = max(maker.order for maker in makers)
        if candidate.compared is not None:  # by what rank 0 sends to the others, say, rather than what it has measured
            makers = reaching_makers(index.statement(candidate.compared), makers)[0] or makers
        validating = {binding.statement for binding, _ in validated_variables(index, flow, loop)}
        bound = bindings_of(index, loop, root_of(candidate.node))
        validating |= {b.statement for b in bound if _calls_validation(index, b.value)}
        each_turn = max((m.order for m in makers if m.parent is loop.statement), default=0)
        lasting = [m for m in makers if m.order >= each_turn or not any(part in loop.inner for part in m.ancestors)]
        measured = [maker for maker in lasting if maker in validating] or lasting
        measured = _validating(index, flow, loop, measured, root_of(candidate.node))
        measured = _of_each_turn(flow, loop, measured)
        measured = _first_alone(index, measured, root_of(candidate.node)) or measured
        measured = _summed_up(index, loop, measured, makers) or measured
        again = last > max(m.order for m in measured)
        makers = measured
    return meeting(makers) or index.statements_in(loop.body)[-1], makers, again


def _in_other_branches(
    index: Index, flow: Flow, loop: EpochLoop, here: Statement, reaching: list[Statement], makers: list[Statement]
) -> list[Statement]:
    """Return what makes a value in other branches as it is made in the one that compares it, `if args.distributed:`.

    A training that takes another one would have no score. Where turns choose, they may measure by other data.
    """
    others = [one for one in makers if one not in reaching and exclude_each_other(one, here)]
    choices = [meeting([here, one]) for one in others]
    ifs = [(one, one.node.test) for one in choices if one in here.path[:-1] and isinstance(one.node, cst.If)]
    running = called_in(index, flow, loop.statement)
    settled = len(ifs) == len(others) and not any(
        by_rank(index, flow, test, choice)
        or any(isinstance(part, cst.Call) for part in nodes_in(test))
        or any(given_in(index, flow, loop.statement, running, name) for name in read_in(index, test))
        for choice, test in ifs
    )
    alike = all(
        any(
            made_alike(index, loop, one, known) and _made_there(index, choice, one) == _made_there(index, choice, known)
            for known in reaching
        )
        for one, choice in zip(others, choices, strict=True)
    )
    return others if settled and alike else []


def _made_there(index: Index, choice: Statement | None, place: Statement) -> list[str]:
    """Return the code by which a branch gives its values to what a statement in it reads, as the loader of its batches.

    A number of hits and one of rows, of which each branch makes the same ratio, may be those of a training in one.
    """
    early = [one for one in index.statements if choice in one.path[:-1] and one.order < place.order]
    needed, found = {*names_in(place.node)}, list[str]()
    for one in [early for early in reversed(early) if not exclude_each_other(early, place)]:
        given = {b.target.partition("[")[0] for b in index.bound_in(one) if b.statement is one}
        if any(name == part or name.startswith(f"{part}.") for part in given for name in needed):
            found.append(head(index, one) if isinstance(one.node, cst.For) else index.source.code(one.node).strip())
            needed |= {*names_in(one.node.iter if isinstance(one.node, cst.For) else one.node)}
    return found


def _choice_that_reads(index: Index, loop: EpochLoop, node: cst.BaseExpression) -> Statement | None:
    """Return the choice around an item that several of its branches read, as they compare it upwards and downwards.

    In one of them alone it would be handed over in some trainings only. A `try` around it minds where it is not there.
    """
    here = index.statement(node)
    choice = here.parent
    tried = any(isinstance(one.node, cst.Try) and minds_a_key(index, one.node) for one in here.around)
    if choice is None or not isinstance(choice.node, cst.If) or not isinstance(bare_of(node), cst.Subscript):
        return None
    same = [one for one in index.nodes_of(type(node)) if index.source.code(one) == index.source.code(node)]
    beside = [one for one in map(index.statement, same) if one.parent is choice and one.siblings is not here.siblings]
    all_read = runs_always(choice.node, {one.node for one in (here, *beside)}, leaves=False)
    goes_on = any(choice in part.path for part in turns_begun_by(index, loop.statement))
    return choice if beside and (all_read or tried) and not goes_on else None


def _summed_up(index: Index, loop: EpochLoop, measured: list[Statement], makers: list[Statement]) -> list[Statement]:
    """Return what gives a variable, once in each turn, what a loop gathers that has others for it: `loss = sum / n`."""
    shared = [part for part in measured[0].path if all(part in one.path for one in measured)]
    inside = [part for part in shared if loop.statement in part.around]
    passes = next((part for part in inside if isinstance(part.node, (cst.For, cst.While))), None)
    if passes is None:
        return []
    within = [b for b in index.bindings if passes in b.statement.path and increments(b)]
    alone = [call for call in index.calls_in(passes) if isinstance(index.parents[call], cst.Expr)]
    gathered = {*(b.target for b in within), *(name for call in alone if (name := dotted(receiver(call))))}
    behind = [later for part in passes.path if part in inside for later in part.following]
    later = [one for one in makers if any(part in behind for part in one.path)]
    known = gathered | vars(builtins).keys()  # as in `if len(losses) > 0`
    later = [one for one in later if all(known.issuperset(names_in(test)) for test in _between(index, one, passes))]
    made = [(b, b.value) for b in index.bindings if b.statement in later[-1:] and b.value is not None]
    return [b.statement for b, value in made if mentions(value, gathered) and not mentions(value, [b.target])]


def _between(index: Index, place: Statement, earlier: Statement) -> list[cst.BaseExpression]:
    """Return the conditions around a statement that are asked after an earlier one: `if count > 0`."""
    return [test for test, _ in index.guards(place.node) if index.statement(test).order > earlier.last]


def _first_alone(index: Index, makers: list[Statement], name: str) -> list[Statement]:
    """Leave the first of those that give a variable its value one after the other, where not all ways have it at last.

    A turn that measures further only under further conditions gives another score there than the other turns.
    """
    end, nodes = meeting(makers), {maker.node for maker in makers}
    if end is None or any(end in maker.path[:-1] for maker in makers[:1]) or runs_always(end.node, nodes):
        return []
    if not may_lack_value(name, end, index):
        return []
    return [one for one in makers if one is makers[0] or exclude_each_other(one, makers[0])]


def _of_each_turn(flow: Flow, loop: EpochLoop, makers: list[Statement]) -> list[Statement]:
    """Leave out those that give a variable another value after each turn has one, in some turns alone.

    These would have another score than the others, as where the name serves for something else every tenth epoch.
    """
    last = max((maker.order for maker in makers if maker.parent is loop.statement), default=loop.statement.last)
    return [one for one in makers if one.order <= last or not _in_some_turns(flow, loop, one)]


def _in_some_turns(flow: Flow, loop: EpochLoop, place: Statement) -> bool:
    """Whether a statement runs by the number of the turn: `if epoch % 10 == 0`, perhaps by a counter or a flag."""
    counting = {b.target for b in flow.index.bindings if counts_alike(b) and b.statement.parent is loop.statement}
    around = [part.node for part in place.around if isinstance(part.node, cst.If) and loop.statement in part.path]
    asked = {name for node in around for name in names_in(node.test)}
    return any(name in counting or tells_the_turn(flow, loop, cst.parse_expression(name)) for name in asked)


def _validating(index: Index, flow: Flow, loop: EpochLoop, makers: list[Statement], name: str) -> list[Statement]:
    """Leave those that evaluate of the statements that give a variable its value, where others train."""
    making = Making(index, flow, loop) if len(makers) > 1 else None
    made = [making.given_by(maker, name) for maker in makers] if making is not None else []
    if EVALUATED not in made:
        return makers
    return [maker for maker, kind in zip(makers, made, strict=True) if kind != TRAINED]


def _is_parted(here: Statement, makers: list[Statement]) -> bool:
    """Whether a value is made in several branches of one choice, and not in all."""
    inside = all(here in maker.path[:-1] for maker in makers)
    made = {maker.node for maker in makers}
    return len(makers) > 1 and isinstance(here.node, cst.If) and inside and not runs_always(here.node, made)


def _is_filled_by(index: Index, block: Statement, name: str) -> bool:
    """Whether a variable gets a value in a block's loops alone, which may make no pass."""
    bound = index.bound([name], block.scope)
    ways = [b.statement.path[b.statement.path.index(block) : -1] if block in b.statement.path else [] for b in bound]
    return bool(bound) and all(any(isinstance(part.node, (cst.For, cst.While)) for part in way) for way in ways)


def _tell_best_so_far(score: Score, flow: Flow, loop: EpochLoop, name: str) -> None:
    """Say of a score where it is the best one so far, and whether only some ranks know that."""
    index = flow.index
    for one in [*best_in(index, flow, loop, name), *kept_where_better(index, loop, score.expression)]:
        score.running, own = index.place(one.node, score.file), written_bare(index, one.node)
        score.direction = score.direction or one.direction
        known = in_loop(index, loop, one.node) or can_be_brought(index, flow, loop, own)
        score.own = answer_for(own, one.direction) if known else ""
        bound = [b for b in index.bindings if b.target == one.best]
        function = index.scope_of(one.node)
        updates = [b.statement for b in bound if b.statement.scope is function]
        updates += [index.statement(value) for value in index.returned(function) if mentions(value, [own])]
        score.ranked = any(by_rank(index, flow, test, part) for part in updates for test in tests_around(part))


def _calls_validation(index: Index, value: cst.BaseExpression | None) -> bool:
    names = re.findall(r"(\w+)\(", index.source.code(value)) if value is not None else []
    return any(VALIDATES.search(name) for name in names)


def _last_of_turn(loop: EpochLoop, place: Statement, passing: list[Statement]) -> Statement:
    """Return the last statement of a block that no `continue` passes over.

    A turn that validates before it trains has measured other weights than it ends with.
    """
    for later in place.following:
        if later in loop.training or any(later in part.path[:-1] for part in passing):
            return later.siblings[later.index - 1]
    return last_before_leaving(place)


def _some_end_there(index: Index, flow: Flow, place: Statement, part: Statement) -> bool:
    """Whether some ranks alone end their turn at a `continue` behind a place, as the others go on to what they save."""
    later = any(one in part.path for one in place.following)
    return later and left_by_some(index, flow, place, [part]) is not None


def _ending(index: Index, loop: EpochLoop, place: Statement) -> list[Statement]:
    """Return what ends the training under conditions of its own in a block, where that saves nothing later.

    A score that is to be handed over behind it would be lost, and it may be the only one.
    """
    leaving = {index.statement(node) for node in loop.leaving}
    choices = [(one, one.node) for one in place.following if isinstance(one.node, cst.If)]
    choices = [(one, node) for one, node in choices if not any(saves(index, later) for later in one.following)]
    lasts = [index.statements_in(node.body)[-1] for _, node in choices]
    return [last for last in lasts if last in leaving or isinstance(last_of(last.node), cst.Break)]


def _ending_last(index: Index, place: Statement, ending: list[Statement]) -> list[Statement]:
    """Return what alone ends the training in a block, where all that follows is to count on.

    Handed over behind it, the last turn's score would be lost, while nothing else of that turn is still to come.

    Args:
        ending: what ends it so behind a place.
    """
    for later in place.following:
        bound = [binding for one in later.following for binding in index.bound_in(one)]
        if len(bound) == len(later.following) and all(map(increments, bound)) and isinstance(later.node, cst.If):
            *others, last = index.statements_in(later.node.body)
            calls = all(_only_calls(one) and not saves(index, one) for one in others)
            return [last] if last in ending and calls else []
    return []


def _only_calls(statement: Statement) -> bool:
    """Whether a statement is a call of something that it gives nothing: `bar.close()`."""
    lines = (cst.SimpleStatementLine, cst.SimpleStatementSuite)
    parts = statement.node.body if isinstance(statement.node, lines) else ()
    called = [one.value for one in parts if isinstance(one, cst.Expr) and isinstance(one.value, cst.Call)]
    return len(called) == len(parts) and not any(call.args for call in called)


def _ending_behind(
    index: Index, flow: Flow, loop: EpochLoop, place: Statement, takers: list[Statement], noting: Scope | None
) -> list[Statement]:
    """Return what ends the training behind a score, on all ranks: a number of steps, an option, an early stopping.

    A signal does not end it, but interrupts it.

    It may do so in the first turn, whose score is the only one then, and by another measure than the score, of which
    that turn's may be the best.

    Args:
        place: the outermost statement around what makes it.
        takers: the statements within that after which its value is there, and may not be before.
        noting: the function that notes the score, if one does: what it notes again on the way, of a test, would count.
    """
    signals = Signals(flow)
    ends = [index.statement(node) for node in loop.leaving if not signals.interrupt(loop, node)]
    around = [place, *(part for one in takers for part in one.path if place in part.path[:-1])]
    steps = {part: one for part in ends for outer in around for one in outer.following if one in part.path}
    behind = [part for part in steps if place not in part.path or not _is_in_loop(part, place)]
    behind = [part for part in behind if noting not in called_in(index, flow, steps[part])]

    def of_all(part: Statement) -> bool:
        tests = [test for test, _ in index.guards(part.node) if loop.statement in index.statement(test).path[:-1]]
        shared = [test for test in tests if index.statement(test) not in place.around]
        around = takewhile(lambda one: one is not loop.node, index.ancestors(part.node))
        handles = any(isinstance(one, cst.ExceptHandler) for one in around)
        return not handles and not any(by_rank(index, flow, one, part) for one in shared)

    return [part for part in behind if of_all(part)]


def _is_in_loop(part: Statement, place: Statement) -> bool:
    """Whether a loop within a statement is around another one: a turn of it may have a score of its own."""
    around = part.path[part.path.index(place) :]
    return any(isinstance(one.node, (cst.For, cst.While)) for one in around)


def _early_end(
    score: Score, loop: EpochLoop, place: Statement, takers: list[Statement], part: Statement, ending: list[Statement]
) -> EarlyEnd | None:
    """Return how a turn that a statement ends hands its score over, None where it has done so by then."""
    report, last = score.index.statement(score.anchors["report"]), last_of(part.node)
    returns, behind = part in ending and not isinstance(last, cst.Break), part.order > report.last
    if behind and not returns:
        return None
    begun = part
    if returns:
        begun = _begun_to_end(score.index, loop, place, takers, part, score.kept_for_end)
    return EarlyEnd(node=begun.node, index=score.index, leaves=part in ending, returns=returns, behind=behind)


def _begun_to_end(
    index: Index, loop: EpochLoop, place: Statement, takers: list[Statement], end: Statement, kept: list[str]
) -> Statement:
    """Return where the block begins that ends the training, but for its score, what it saves of it or gives the best.

    What else it does, it does for the end: it reads the best, loads its weights and tests them, or ends the group.
    """
    if end in place.siblings:
        return end
    leaving = [*map(index.statement, loop.leaving), *turns_begun_by(index, loop.statement)]
    for early in end.preceding:
        gives = any(bound.target in kept for bound in index.bound_in(early))
        if early in takers or gives or saves(index, early) or any(early in part.path for part in leaving):
            return early.following[0]
    return end.siblings[0]


def _done_with(index: Index, loop: EpochLoop, turn: Statement) -> Statement:
    """Return the statement after which the epoch loop is left: the loop over batches, or the last one of the epoch.

    It is the last one where what stands between gives a name its value that is read after the epoch loop.
    """
    end = _last_of_turn(loop, turn, turns_begun_by(index, loop.statement))
    skipped = turn.siblings[turn.index + 1 : end.index + 1]
    given = {b.target for b in index.bindings if any(one in b.statement.path for one in skipped)}
    read = {name for later in loop.leftovers if later.scope is loop.scope for name in names_in(later.node)}
    return end if any(may_lack_value(name, turn, index) for name in given & read) else turn


def _going_on(index: Index, flow: Flow, loop: EpochLoop, way: Way) -> Statement | None:
    """Return the outermost choice around a score behind which its turn does more, and can ask the condition there.

    Behind what may leave the turn no score is handed over: then it is a choice within that one, up to what leaves.
    """
    around = way.block.path[way.block.path.index(way.guard) :] if way.guard is not None else []
    for number, guard in enumerate(around, 1):
        when = common_condition(index, flow, replace(way, guard=guard))
        outer = [later for part in around[number:-1] for later in part.following]
        if not when or any(_leaves(index, later) for later in (*outer, *way.block.following)):
            continue
        if any(_does(index, flow, one) for one in outer) or _past_the_rest(index, flow, loop, guard, when) is not guard:
            return guard
    return None


def _past_the_rest(index: Index, flow: Flow, loop: EpochLoop, place: Statement, when: str) -> Statement:
    """Return the last later statement of a block that does something, while all train nothing and leave no turn.

    A process that leaves where it hands the score over would lose what the turn still does: saves, writes, measures. Of
    a turn that trains on behind it, what only begins that counts for nothing.

    Args:
        when: a condition that all of them leave as it is.
    """
    last = place
    further = any(later in loop.training for later in place.following)
    for later in place.following:
        trains = any(later in part.path for part in loop.training)
        if trains or _leaves(index, later) or _changes(index, flow, later, when):
            break
        last = later if (saves(index, later) if further else _does(index, flow, later)) else last
    return last


def _changes(index: Index, flow: Flow, place: Statement, when: str) -> bool:
    """Whether a statement, or a function that it runs, gives a condition's names, attributes or items other values."""
    running = called_in(index, flow, place)
    given = [(b.target, b.statement) for b in (*index.bindings, *index.items)]
    given += [(dotted(held) or "", index.statement(call)) for call, held in index.method_calls("update")]
    here = {target.partition("[")[0] for target, at in given if place in at.path}
    there = {target for target, at in given if at.scope in running}
    parts = {target.rpartition(".")[2] for target in there if "." in target}
    keys = {unquoted(key) for target in there if (key := "".join(target.partition("[")[1:]))}
    asked = re.findall(r"[\w.]+", when)
    return (
        any(name in here or ("." in name and name.rpartition(".")[2] in parts) for name in asked)
        or any(key in unquoted(when) for key in keys)
        or not here.isdisjoint(whole for name in asked for whole in wholes_of(name))
    )


def _leaves(index: Index, place: Statement) -> bool:
    """Whether a statement, or one in it, ends a loop's turn, a loop, a function or the process."""
    inside = [one.node for one in index.statements if place in one.path]
    return any(leaves(node) or exits(last_of(node)) for node in inside)


def _does(index: Index, flow: Flow, place: Statement) -> bool:
    """Whether a statement, or one in it, does more than to count, or to call what it gives nothing: `bar.update()`.

    A function of the project may do anything, and what saves does: `trainer.save()`.
    """
    inside = [one for one in index.statements if place in one.path]
    lines = [one for one in inside if isinstance(one.node, (cst.SimpleStatementLine, cst.SimpleStatementSuite))]
    counting = {b.statement for b in index.bindings if increments(b)}
    lines = [one for one in lines if one not in counting]
    called = [call for one in lines for call in index.calls_in(one)]
    own = any(flow.called(call) is not None for call in called)
    return own or any(saves(index, one) or not _only_calls(one) for one in lines)


def _tell_emptied(score: Score, flow: Flow, node: cst.BaseExpression, at: Statement) -> None:
    """Say of a score what lets its parts begin anew on the way from what fills them last to a statement's end."""
    index = score.index
    names, end = parts_of(index, node), at.last
    resets = emptying(index, names)
    changed = [one for one in changing(index, names) if one.scope is at.scope and one.order <= end]
    filled = [one for one in changed if one not in resets]
    last = max(filled, key=lambda one: one.order, default=None)
    if last is None:  # whatever fills them, a function that stands last and lets them begin anew does not
        behind = [one for one in index.statements if one.order == end and one not in resets]
    else:
        behind = [later for part in last.path for later in part.following]
    behind = [one for one in behind if one.order <= end and isinstance(one.node, cst.SimpleStatementLine)]
    calls = {one: index.calls_in(one) for one in behind}
    resets |= {one for one in behind if any(empties(index, flow, call, names) for call in calls[one])}
    found = next((one for one in behind if one in resets), None)
    score.emptied = index.place(found.node, score.file) if found is not None else ""


def _where_of_validation(
    index: Index, flow: Flow, loop: EpochLoop, node: cst.BaseExpression, makers: list[Statement]
) -> Statement | None:
    """Return where a score is compared in those turns alone that validate, if in the others its value is training's."""
    path = index.statement(node).path
    inner = path[path.index(loop.statement) + 1 :]
    place = 0
    while place + 1 < len(inner) and isinstance(test := inner[place].node, cst.If):
        place += 1
        if not by_rank(index, flow, test.test, inner[place - 1]):
            break
    if place == 0 or any(inner[place - 1] in maker.path for maker in makers):
        return None
    validating = {binding.statement for binding, _ in validated_variables(index, flow, loop)}
    values = [b.value for b in index.bindings if b.statement in makers and b.value is not None]
    for name in {root_of(node), *(name for value in values for name in names_in(value, called=False))}:
        bound = bindings_of(index, loop, name)
        called = {b.statement for b in bound if isinstance(b.value, cst.Call)}
        if called & validating and called - validating:
            return inner[place]
    return None


def _told_by_value(index: Index, node: cst.BaseExpression, makers: list[Statement]) -> str:
    """Return the direction that the name of a function, item or attribute tells out of which a variable is made."""
    values = [b.value for b in index.bindings if b.statement in makers and b.target == dotted(node) and b.item is None]
    told = set()
    for value in (bare_of(value) for value in values if value is not None):
        last = value.func if isinstance(value, cst.Call) else value
        last = last.attr if isinstance(last, cst.Attribute) else last
        words = last.slice[-1] if isinstance(last, cst.Subscript) else last
        told.add(direction_of(index.source.code(words)) if isinstance(words, (cst.Name, cst.SubscriptElement)) else "")
    return told.pop() if len(told) == 1 else ""
