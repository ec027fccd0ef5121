"""Find the validation score: which expression it is, whether higher is better, and where all ranks can hand it over."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice

import libcst as cst

from retrofit.survey.conditions import never_runs
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import VALIDATES, ends_untrained, head
from retrofit.survey.nodes import mentions, names_in, receiver, wholes_of
from retrofit.survey.schedulers import find_schedulers
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.scores.again import join_later, measured_again, measured_alike
from retrofit.survey.scores.alone import tell_ranks
from retrofit.survey.scores.best import as_mean, as_numbers, best_of_history, found_better, tracked_scores
from retrofit.survey.scores.carried import Carried
from retrofit.survey.scores.evidence import BEST, NAME, PLATEAU, WATCHED, Evidence, against, outdone_by, weigh
from retrofit.survey.scores.given import given_to_plateau, watched_scores, written_modes
from retrofit.survey.scores.inline import inline_scores
from retrofit.survey.scores.keepers import (
    best_scores,
    dropped_scores,
    kept_below,
    kept_by_training,
    kept_scores,
    measured_scores,
    owner_of,
    owners,
    shown_for,
)
from retrofit.survey.scores.kinds import ALWAYS, NOTHING, SEVERAL, Kinds
from retrofit.survey.scores.making import EVALUATED, TRAINED, Making, is_validation
from retrofit.survey.scores.measures import find_hints, find_measures, find_silent, find_taken
from retrofit.survey.scores.models import measures_the_other
from retrofit.survey.scores.namesakes import namesakes, told_apart
from retrofit.survey.scores.site import can_be_brought, comes_with_steps, lacks, score_site, taken_at
from retrofit.survey.scores.together import kept_together, tell_together
from retrofit.survey.scores.turns import Turns
from retrofit.survey.scores.unset import tell_unset
from retrofit.survey.scores.validation import may_be_taken, named_scores
from retrofit.survey.scores.values import code_of, in_loop, names_around, tells_the_turn, variable_of, whole_of
from retrofit.survey.scores.words import AVERAGED, OF_TRAINING, Candidate, direction_of, told_by_name
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.optimizer import Scheduler
from retrofit.survey.sites.score import Score

__all__ = [
    "can_be_named",
    "decides",
    "direction_of",
    "find_hints",
    "find_measures",
    "find_scores",
    "find_silent",
    "find_taken",
]


def find_scores(
    index: Index,
    flow: Flow,
    loops: list[EpochLoop],
    schedulers: list[Scheduler],
    metric: str = "",
    mode: str = "",
) -> list[Score]:
    """Return the candidates for the validation score, one where the script is clear about it.

    Args:
        loops: the epoch loops.
        schedulers: the schedulers; ReduceLROnPlateau is stepped with the score.
        metric: the user's own expression for it, "" to find it.
        mode: the user's word on the direction, "" to find it.
    """
    scores: dict[tuple[str, Scope | None], Score] = {}
    for loop in loops:
        for score in _scores_of(index, flow, loop, schedulers, metric):
            _merge(scores, loop, score)
    for score in scores.values():
        score.direction = "" if score.against else score.direction
    found = list(scores.values())
    found = [score for score in found if not AVERAGED.search(score.expression)] or found
    found = _without_trained(index, flow, loops, found)
    for told in (_of_saved, _of_validation, _not_of_test):
        chosen = [score for score in found if told(score)]
        if len(chosen) == 1 and not _has_peer(index, chosen[0], found):
            found = chosen
    for score in found:
        if score.kept is not None and sum(one.expression == score.expression for one in found) > 1:
            score.owner = f"{index.scope_of(score.kept.node).name}:"
        if mode:
            score.direction, score.evidence = mode, "--mode"
    return found


def can_be_named(index: Index, flow: Flow, loops: list[EpochLoop], schedulers: list[Scheduler], metric: str) -> bool:
    """Whether what a question proposes is not refused as its answer, as what goes over several lines is."""
    if "\n" in metric:
        return False
    found = find_scores(index, flow, loops, schedulers, metric)
    by_step = any(loop.by_step for loop in loops)
    return not found or any(
        not (one.unfit[0] or one.running or one.emptied or one.once or one.cut_off) and not (by_step and one.each_step)
        for one in found
    )


def decides(index: Index, flow: Flow, loop: EpochLoop, metric: str = "") -> bool:
    """Whether something decides by a value of a loop's turns that the training alone does not make.

    So does the user who names one that the loop gives to a variable, whatever makes it.
    """
    read = names_in(cst.parse_expression(owner_of(metric)[1])) if metric else ()
    named = {whole for name in read for whole in wholes_of(name)}
    if any(b.target in named and in_loop(index, loop, b.statement.node) for b in index.bindings):
        return True
    making = Making(index, flow, loop)
    groups, _ = _groups(index, flow, loop, making, find_schedulers(index, flow, [loop])[0])
    return any(
        making.of(one.node, one.call) != TRAINED for control, find in groups if control != NAME for one in find()
    )


def _groups(
    index: Index, flow: Flow, loop: EpochLoop, making: Making, schedulers: list[Scheduler]
) -> tuple[list[tuple[str, Callable[[], Iterable[Candidate]]]], list[Candidate]]:
    """Return what may be a loop's score, by what decides by it, the strongest first, and those that are compared."""
    tracked = [c for c in tracked_scores(index, code_of(index, loop)) if not tells_the_turn(flow, loop, c.node)]
    kinds = Kinds(index, flow, loop)

    def measured(one: Candidate) -> bool:
        """Whether a validation makes a number, as it does what is only given to a call together with its best."""
        return kinds.of(one.node)[0] == "" and making.of(one.node) == EVALUATED

    tracked = [one for one in tracked if (one.direction and not one.outside) or measured(one)]
    found = (*as_numbers(index, flow, tracked), *found_better(index, flow, loop))
    tracked = [one for one in found if may_be_taken(index, flow, one.node)]
    sure = [one for one in tracked if not ends_untrained(index, loop, one.node)]
    tracked = [one for one in tracked if one in sure or all(one.holder != other.holder for other in sure)]
    plateau = list(given_to_plateau(index, loop, schedulers))
    kept, keepers = kept_scores(index, flow, loop)
    tracked = tracked or list(best_of_history(index, flow, loop))
    watched = [one for one in watched_scores(index, flow, loop) if may_be_taken(index, flow, one.node)]
    groups: list[tuple[str, Callable[[], Iterable[Candidate]]]] = [
        (BEST, lambda: [*tracked, *kept]),
        (PLATEAU, lambda: plateau),
        (WATCHED, lambda: watched),
        (NAME, lambda: named_scores(index, flow, loop, keepers)),
        (NAME, lambda: dropped_scores(index, flow, loop, keepers)),
        (NAME, lambda: inline_scores(index, flow, loop, making)),
        (BEST, lambda: (c for c in kept_by_training(index, flow, loop) if making.of(c.node, c.call) != TRAINED)),
        (BEST, lambda: best_scores(index, flow, loop)),
        (BEST, lambda: kept_below(index, flow, loop)),
    ]

    def numbers(find: Callable[[], Iterable[Candidate]], unchanging: bool = False) -> Iterator[Candidate]:
        for one in find():
            runs = one.node not in index.parents or not never_runs(index.statement(one.node), flow)
            made = not one.outside or making.of(one.node, one.call) == EVALUATED
            outside = not mentions(one.node, names_around(index, one.node))  # there no comprehension's name has a value
            kind = kinds.of(one.node, call=one.call)[0] if runs and made and outside else NOTHING
            if kind.startswith(ALWAYS) if unchanging else kind in ("", SEVERAL):
                yield one

    def constants() -> Iterable[Candidate]:
        """Yield the first that is the same in all epochs, which is none, for a question to say so."""
        return islice((one for _, find in groups for one in numbers(find, unchanging=True)), 1)

    measured_by = [(control, partial(numbers, find)) for control, find in groups]
    return [*measured_by, (NAME, constants)], [*tracked, *plateau, *kept, *watched]


def _scores_of(index: Index, flow: Flow, loop: EpochLoop, schedulers: list[Scheduler], metric: str) -> Iterator[Score]:
    """Yield the scores of an epoch loop that the evidence speaks for, or the one that the user names."""
    making, passed, measured = Making(index, flow, loop), list[Evidence](), list[tuple[Scope, Candidate]]()
    groups, compared = _groups(index, flow, loop, making, schedulers)
    if metric:
        written = cst.parse_expression(owner_of(metric)[1])
        own = Candidate(_standing(index, loop, written) or written, told_by_name(metric), "--metric", named=True)
        given = shown_for(index, metric, compared)
        measured = [] if given else [*measured_scores(index, flow, loop, metric)][:1]
        candidates = given or [candidate for _, candidate in measured] or measured_again(index, flow, loop, own)
        chosen = [Evidence(one, BEST if given else NAME, "") for one in candidates]
    else:
        chosen, passed = weigh(making, groups)
        chosen = kept_together(flow, loop, chosen)
    modes, turns = written_modes(index, loop, schedulers), Turns(index, flow, loop, making)
    carried = Carried(index, flow, loop)
    for one in (replace(one, candidate=as_mean(index, loop, one.candidate)) for one in chosen):
        score = score_site(index, flow, loop, one.candidate)
        if score is None:
            continue
        tell_together(flow, loop, score, one.candidate)
        score.known = score.known and not (owner_of(metric)[0] and one.candidate.call is None and not measured)
        if not score.known:
            whole = cst.parse_expression(score.expression)
            knowing = [f for f in owners(index, flow, loop, score.expression) if not lacks(flow, whole, f)]
            score.owners = _answers(index, flow, loop, score, sorted(knowing, key=lambda f: f.name), score.expression)
        elif metric and not measured and making.of(one.candidate.node) == TRAINED:
            knowing = [f for f in owners(index, flow, loop, score.expression) if is_validation(index, f)]
            score.owners = [one for one in _answers(index, flow, loop, score, knowing, metric) if one[-1]]
        tell_ranks(flow, loop, score, one.candidate, making)
        _tell_making(score, one, turns, carried)
        score.named = bool(metric)
        for function, _ in measured:
            others = namesakes(index, flow, loop, metric, function, score)
            score.namesakes = _answers(index, flow, loop, score, [function, *others] if others else [], metric)
        if metric:
            tell_unset(flow, loop, score, one.candidate)
        if not metric:
            if score.kept is not None:
                function = index.scope_of(one.candidate.node)
                others = namesakes(index, flow, loop, score.written, function, score)
                score.owner = f"{function.name}:" if others else ""
            score.made, score.outdone = one.made, outdone_by(index, flow, loop, making, one, passed)
        score.each_step = comes_with_steps(flow, loop, score, schedulers)
        score.of_step = loop.unclear and making.of(one.candidate.node, one.candidate.call) != EVALUATED
        score.against = against(index, flow, loop, one, modes)
        yield score


def _answers(
    index: Index, flow: Flow, loop: EpochLoop, score: Score, functions: Iterable[Scope], metric: str
) -> list[tuple[str, str, bool]]:
    """Return what names the variable of each of some functions as the score; see `Score.namesakes`."""
    name, found = variable_of(cst.parse_expression(owner_of(metric)[1])), []
    for one in functions:
        bound = index.bound([name], one)
        node = bound[0].statement.node if bound else one.node  # it may be a parameter
        named = [(f"{one.name}@{word}:{metric}", call) for word, call in told_apart(index, flow.callers(one))]
        answers = [(answer, at) for answer, at in named if can_be_brought(index, flow, loop, answer, node)]
        whole = f"{one.name}:{metric}"
        known = can_be_brought(index, flow, loop, whole, node)
        found += [(answer, index.place(at, score.file), True) for answer, at in answers if not known]
        found += [(whole, index.place(node, score.file), known)] if known or not answers else []
    return found


def _standing(index: Index, loop: EpochLoop, written: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return where the loop first says an expression that the user has written, if it is more than one thing's name.

    What it is made of may be of something else later, as where a test follows that counts by the same names.
    """
    if isinstance(written, (cst.Name, cst.Attribute, cst.Subscript)):
        return None
    meant = ast.dump(ast.parse(cst.Module([]).code_for_node(written), mode="eval"))
    same = [
        node
        for node in index.nodes_of(type(written))
        if in_loop(index, loop, node)
        and index.scope_of(node) is loop.scope
        and ast.dump(ast.parse(f"({index.source.code(node)})", mode="eval")) == meant
    ]
    return min(same, key=index.source.span, default=None)


def _tell_making(score: Score, evidence: Evidence, turns: Turns, carried: Carried) -> None:
    """Say of a score whether it is of one turn of a loop, of all epochs, or sometimes of the training."""
    node, (at, call) = evidence.candidate.node, taken_at(score, evidence.candidate)

    def place(statement: Statement) -> str:
        return score.index.place(statement.node, score.file)

    guards = [part for part in at.around if isinstance(part.node, cst.For)] if score.kept is not None else []
    last = turns.last_of(node, guards[-1] if guards else at, call)
    trained, added = turns.trained_at(node, at, call), carried.of(whole_of(score.index, evidence.candidate), at.scope)
    if last is not None:
        score.last = head(score.index, last), place(last)
    if added is not None:
        score.carried = added[0], place(added[1])
    score.trained = place(trained) if trained is not None else ""


def _merge(scores: dict[tuple[str, Scope | None], Score], loop: EpochLoop, score: Score) -> None:
    """Add a score to those that are known, by their expressions, and by the functions that keep them, if all do."""
    keeper = score.index.scope_of(score.kept.node) if score.kept is not None else None
    same = [key for key in scores if key[0] == score.expression and (key[1] is keeper or None in (key[1], keeper))]
    key = same[0] if same else (score.expression, keeper)
    known = scores.setdefault(key, score)
    if score.direction and known.direction and known.direction != score.direction:
        score.against = known.against = f"{score.evidence} says the contrary"
    known.against = score.against = known.against or score.against
    known.direction = score.direction = known.direction or score.direction
    known.saved = score.saved = known.saved or score.saved
    known.present = score.present = known.present or score.present
    here = known.anchors["loop"] is score.anchors["loop"]
    shared = (known.ranks, score.ranks) == ("first", "all") and measured_alike(loop, known, score)
    if here and known.condition and (not score.condition or shared or join_later(loop, known, score)):
        scores[key] = score  # of every epoch, or of all ranks, rather than of some
    within, beyond = _loops_around(known), _loops_around(score)
    if beyond < within and loop.training.isdisjoint(within - beyond) and _sums_up(score, within - beyond):
        scores[key] = score  # of all that an inner loop goes through, rather than of one


def _sums_up(whole: Score, loops: set[Statement]) -> bool:
    """Whether a score is made of what inner loops gather of another one that has its name: `accs.append(acc)`."""
    index, name = whole.index, variable_of(cst.parse_expression(whole.expression))
    gathered = {
        variable_of(cst.parse_expression(b.target))
        for b in (*index.bindings, *index.items, *index.appended)
        if not loops.isdisjoint(b.statement.path) and b.value is not None and mentions(b.value, [name])
    }
    calls = [call for loop in loops for call in index.calls_in(loop) if isinstance(index.parents[call], cst.Expr)]
    given = [
        held for call in calls if any(mentions(arg.value, [name]) for arg in call.args) and (held := receiver(call))
    ]
    gathered |= {variable_of(held) for held in given}
    made = [b for b in index.bound([name], whole.scope) if loops.isdisjoint(b.statement.path) and b.value is not None]
    return any(mentions(b.value, gathered - {name}) for b in made if b.value is not None)


def _loops_around(score: Score) -> set[Statement]:
    made = score.index.statement(score.anchors["made"]) if "made" in score.anchors else score.statement
    return {part for part in made.path if isinstance(part.node, (cst.For, cst.While))}


def _without_trained(index: Index, flow: Flow, loops: list[EpochLoop], found: list[Score]) -> list[Score]:
    """Leave out what goes by the name of the training, but for that of the trained model beside another one's."""
    named = [score for score in found if OF_TRAINING.search(score.expression)]
    others = [score for score in found if score not in named]
    beside = (
        measures_the_other(index, flow, loop, own, other)
        for loop in loops
        for own in named
        for other in others
        if own.anchors["loop"] is other.anchors["loop"] is loop.node
    )
    return found if not others or any(beside) else others


def _of_saved(score: Score) -> bool:
    return score.saved


def _of_validation(score: Score) -> bool:
    return any(VALIDATES.search(word) for word in re.findall(r"\w+", score.expression))


def _has_peer(index: Index, score: Score, found: list[Score]) -> bool:
    """Whether a checkpoint is saved by another score as well, measured with this: `val_loss, acc = validate(model)`.

    What is measured on the test data is none that could count in its place.
    """

    def makers(one: Score) -> set[Statement]:
        return {b.statement for b in index.bound([variable_of(cst.parse_expression(one.expression))], one.scope)}

    others = [one for one in found if one is not score and one.saved and score.saved]
    others = [one for one in others if not re.search(r"(?<![A-Za-z])[Tt]est(?![a-z])", one.expression)]
    return any(not makers(score).isdisjoint(makers(one)) for one in others)


def _not_of_test(score: Score) -> bool:
    return re.search(r"(?<![A-Za-z])([Vv]al(i|id|idation)?|[Dd]ev)(?![a-z])", score.expression) is not None
