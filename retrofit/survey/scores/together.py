"""Functions that keep one best between them, as validations under an option of its own each do."""

from __future__ import annotations

from dataclasses import replace

from retrofit.survey.branches import meeting
from retrofit.survey.flow import Flow
from retrofit.survey.names import Variable
from retrofit.survey.order import runs_always
from retrofit.survey.scores.evidence import Evidence
from retrofit.survey.scores.keepers import kept_score
from retrofit.survey.scores.ways import way_in
from retrofit.survey.scores.words import Candidate
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.score import KeptScore, Score


def kept_together(flow: Flow, loop: EpochLoop, found: list[Evidence]) -> list[Evidence]:
    """Let the scores that several functions compare with one best be one score, which each of them notes."""
    by_best: dict[tuple[Variable, str], list[Evidence]] = {}
    for one in found:
        candidate = one.candidate
        if candidate.call is not None and candidate.holder:
            best = flow.variable(candidate.holder, flow.index.scope_of(candidate.node))
            by_best.setdefault((best, candidate.direction), []).append(one)
    for first, *others in by_best.values():
        joint = _joint(flow, loop, [one.candidate for one in (first, *others)]) if others else None
        if joint is not None:
            found = [replace(one, candidate=joint) if one is first else one for one in found if one not in others]
    return found


def _joint(flow: Flow, loop: EpochLoop, candidates: list[Candidate]) -> Candidate | None:
    """Return a score that each of several functions notes; None for several of one, or of every turn or some ranks."""
    noting = [replace(one, noted=True, taken="") for one in candidates]
    kept = [kept_score(flow.index, flow, loop, one) for one in noting]
    known = [one for one in kept if one is not None]
    apart = len({flow.index.scope_of(one.node) for one in noting}) == len(known) == len(noting)
    if not apart or len({one.ranks for one in known}) > 1 or _conditions(flow, loop, noting, known).count("") > 1:
        return None
    return replace(noting[0], beside=tuple(noting[1:]))


def tell_together(flow: Flow, loop: EpochLoop, score: Score, candidate: Candidate) -> None:
    """Say of a score of several functions where the others note it, and on what conditions one of them does."""
    found = [kept_score(flow.index, flow, loop, one) for one in candidate.beside]
    if not found or score.kept is None:
        return
    others = [one for one in found if one is not None]
    conditions = _conditions(flow, loop, [candidate, *candidate.beside], [score.kept, *others])
    always = "" in conditions or _is_exhaustive(flow, loop, [candidate, *candidate.beside], [score.kept, *others])
    score.kept.condition = score.condition = "" if always else " or ".join(dict.fromkeys(conditions))
    score.kept.further += [part for one in others for part in (one, *one.further)]


def _conditions(flow: Flow, loop: EpochLoop, candidates: list[Candidate], kept: list[KeptScore]) -> list[str]:
    """Return the code of the conditions on which a turn runs what makes each of some scores, "" for none."""
    found = []
    for candidate, one in zip(candidates, kept, strict=True):
        assert candidate.call is not None
        outer = way_in(flow.index, flow, loop.statement, flow.index.statement(candidate.call), loop.training).condition
        parts = list(filter(None, (outer, one.condition)))
        found.append(" and ".join(f"({part})" for part in parts) if parts[1:] else "".join(parts))
    return found


def _is_exhaustive(flow: Flow, loop: EpochLoop, candidates: list[Candidate], kept: list[KeptScore]) -> bool:
    """Whether the ways to functions part in branches of which a turn takes one, and each then makes its score."""
    index = flow.index
    ways = zip(*((one.call, *one.inner) for one in candidates), strict=False)
    parting = next((calls for calls in ways if len({*calls}) > 1), ())
    calls = [index.statement(call) for call in parting if call is not None]
    met = meeting(calls)
    if met is None or not runs_always(met.node, {call.node for call in calls}):
        return False
    bodies = [loop.statement if loop.statement in one.path else index.statement(one.scope.node) for one in calls]
    own = [way_in(index, flow, body, one).condition for body, one in zip(bodies, calls, strict=True)]
    return all(one.condition in ("", way) for one, way in zip(kept, own, strict=True))
