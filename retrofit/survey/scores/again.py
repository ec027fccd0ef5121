"""Scores that a turn measures under one name in several places, each under conditions of its own, as it trains on."""

from __future__ import annotations

import ast
from dataclasses import replace
from itertools import pairwise

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted
from retrofit.survey.scopes import Statement
from retrofit.survey.scores.validation import validated_variables
from retrofit.survey.scores.values import target_node
from retrofit.survey.scores.words import Candidate
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.score import Score


def measured_again(index: Index, flow: Flow, loop: EpochLoop, candidate: Candidate) -> list[Candidate]:
    """Return a variable that the user names once for each place that validates for it, where some train on between."""
    name = dotted(candidate.node) or ""
    places = [binding.statement for binding, _ in validated_variables(index, flow, loop) if binding.target == name]
    if not any(_trains_on(loop, *pair) for pair in pairwise(places)):
        return [candidate]
    return [replace(candidate, node=target_node(index, one, name)) for one in places]


def join_later(loop: EpochLoop, first: Score, last: Score) -> bool:
    """Let a score be what is measured last, where a turn trains on after it has measured it; tell whether it does.

    Args:
        first: the score as it is measured first, under a condition.
        last: the same later, under another one; where that does not hold, the first counts.
    """
    scores = (first, last)
    made = [one.index.statement(one.anchors["made"]) for one in scores if one.guarded and not one.in_turn]
    alike = _measure_alike(first, last) and len({(one.anchors["report"], one.ranks, one.when) for one in scores}) == 1
    if any(one.kept for one in scores) or not alike or len(made) != 2 or not _trains_on(loop, *made):
        return False
    last.earlier = [*first.earlier, first]
    last.anchors["guard"] = first.anchors["guard"]
    last.condition = _either(first.condition, last.condition)
    return True


def _measure_alike(first: Score, last: Score) -> bool:
    """Whether two scores are measured in the same way, with the same data as far as the code tells."""
    one, other = (score.index.statement(score.node).node for score in (first, last))
    if not (isinstance(one, cst.SimpleStatementLine) and isinstance(other, cst.SimpleStatementLine)):
        return False
    return len(one.body) == len(other.body) and all(map(cst.CSTNode.deep_equals, one.body, other.body))


def _trains_on(loop: EpochLoop, first: Statement, last: Statement) -> bool:
    """Whether a statement stands in a loop that trains, and another one behind that."""
    return any(part in loop.inner and part not in last.path for part in first.path) and first.order < last.order


def _either(first: str, last: str) -> str:
    """Return the code of what holds where one of two conditions does, alone where the other holds only with it."""
    if _conjuncts(last) <= _conjuncts(first):
        return last
    return first if _conjuncts(first) <= _conjuncts(last) else f"({first}) or ({last})"


def _conjuncts(code: str) -> set[str]:
    test = ast.parse(f"({code})", mode="eval").body
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    return {ast.unparse(part) for part in parts}
