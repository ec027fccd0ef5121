"""What speaks for a value as the validation score, and whether that is enough to take it without asking."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.scores.begun import begins_at
from retrofit.survey.scores.controls import deciders, related
from retrofit.survey.scores.making import TRAINED, Making
from retrofit.survey.scores.values import bare_of, written
from retrofit.survey.scores.words import Candidate, told_by_name
from retrofit.survey.sites.loop import EpochLoop

#: What may decide by a value, the strongest first. By its name alone nothing does.
BEST, PLATEAU, WATCHED, NAME = "best", "plateau", "watched", "name"


@dataclass(frozen=True)
class Evidence:
    """What speaks for a value.

    Attributes:
        controls: what decides by it.
        made: what makes it: "evaluated", "trained", or "" where nothing tells.
    """

    candidate: Candidate
    controls: str
    made: str


def weigh(
    making: Making, groups: Iterable[tuple[str, Callable[[], Iterable[Candidate]]]]
) -> tuple[list[Evidence], list[Evidence]]:
    """Choose among the candidates for the score.

    Args:
        making: tells what makes a value.
        groups: what may decide by a value, the strongest first, with what finds such values.

    Returns:
        the strongest that the training alone does not make, those that it makes where there are no others; and
        stronger ones that it makes.
    """
    trained: list[list[Evidence]] = []
    for controls, find in groups:
        found = [Evidence(one, controls, making.of(one.node, one.call)) for one in find()]
        told = [one for one in found if one.made != TRAINED]
        if told:
            return told, [one for passed in trained for one in passed]
        trained += [found] if found else []
    return (trained[0] if trained else []), []


def outdone_by(
    index: Index, flow: Flow, loop: EpochLoop, making: Making, evidence: Evidence, passed: list[Evidence]
) -> tuple[str, str]:
    """Return what decides on checkpoints in place of a value that only its name speaks for, and where; "" for nothing.

    Args:
        passed: stronger candidates, which the training makes.
    """
    if evidence.controls != NAME:
        return "", ""
    for one in passed:
        if one.candidate.saved:
            return written(index, one.candidate.node), index.place(one.candidate.node, loop.file)
    for node, place in deciders(index, flow, loop, making):
        if not related(index, loop, node, evidence.candidate.node):
            return index.source.code(node), place
    return "", ""


def against(index: Index, flow: Flow, loop: EpochLoop, evidence: Evidence, modes: dict[str, str]) -> str:
    """Return what contradicts the direction that is told for a score, as messages say it; "" where nothing does.

    A name contradicts a comparison, and a mode that nobody has written. A best that begins at a number that no score
    betters, and a plateau of another mode, count where the name does not confirm the direction.

    Args:
        modes: the modes that are written for plateaus, by the code of the values that these get.
    """
    candidate = evidence.candidate
    named = _named(index, candidate)
    if evidence.controls == NAME or not candidate.direction or named == candidate.direction:
        return ""
    code = written(index, candidate.node)
    begins, value = begins_at(index, flow, loop, candidate)
    if named and (candidate.best if evidence.controls == BEST else evidence.controls == PLATEAU and code not in modes):
        return f"the name of `{code}` says that {_better(named)} is"
    if begins and begins != candidate.direction:
        return f"what it is compared with begins at {value}"
    mode = modes.get(code, candidate.direction)
    return f"a scheduler that is given it has the mode {mode}" if mode != candidate.direction else ""


def _named(index: Index, candidate: Candidate) -> str:
    """Return the direction that a value's name tells, "" where the value may be turned round."""
    node = bare_of(candidate.node)
    if not isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
        return ""
    code = written(index, node)
    scope = index.scope_of(candidate.node) if candidate.node in index.parents else None
    values = [b.value for b in index.bindings if b.target == code and scope in (None, b.statement.scope)]
    turned = any(isinstance(value, (cst.UnaryOperation, cst.BinaryOperation)) for value in values if value is not None)
    return "" if turned else told_by_name(code)


def _better(direction: str) -> str:
    return "a higher one" if direction == "max" else "a lower one"
