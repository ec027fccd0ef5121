"""What speaks for a value as the validation score, and whether that is enough to take it without asking."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from retrofit.survey.scores.making import TRAINED, Making
from retrofit.survey.scores.words import Candidate

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
