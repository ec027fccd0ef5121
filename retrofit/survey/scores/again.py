"""Scores that a turn measures under one name in several places, each under conditions of its own, as it trains on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import libcst as cst

from retrofit.survey.counters import increments
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted, names_in, nodes_in
from retrofit.survey.scopes import Statement
from retrofit.survey.scores.validation import validated_variables
from retrofit.survey.scores.values import root_of, target_node
from retrofit.survey.scores.words import Candidate
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.score import Score, written_conjuncts


def measured_again(index: Index, flow: Flow, loop: EpochLoop, candidate: Candidate) -> list[Candidate]:
    """Return what the user names once for each place that validates for it, where some train on between.

    That is a variable, or what is made of one.
    """
    name, own = dotted(candidate.node) or "", root_of(candidate.node)
    places = [binding.statement for binding, _ in validated_variables(index, flow, loop) if binding.target == own]
    if candidate.node in index.parents or not any(_trains_on(loop, *pair) for pair in pairwise(places)):
        return [candidate]
    return [
        replace(candidate, **({"node": target_node(index, one, name)} if name else {"made": one})) for one in places
    ]


def join_later(loop: EpochLoop, first: Score, last: Score) -> bool:
    """Let a score be what is measured last, where a turn trains on after it has measured it; tell whether it does.

    Args:
        first: the score as it is measured first, under a condition.
        last: the same later, under another one; where that does not hold, the first counts.
    """
    scores = (first, last)
    made = [one.index.statement(one.anchors["made"]) for one in scores if one.guarded and not one.in_turn]
    alike = (
        measured_alike(loop, first, last) and len({(one.anchors["report"], one.ranks, one.when) for one in scores}) == 1
    )
    if any(one.kept for one in scores) or not alike or len(made) != 2 or not _trains_on(loop, *made):
        return False
    last.earlier = [*first.earlier, first]
    last.anchors["guard"] = first.anchors["guard"]
    last.condition = _either(first.condition, last.condition)
    return True


def measured_alike(loop: EpochLoop, first: Score, last: Score) -> bool:
    """Whether two scores are measured in the same way, with the same data as far as the code tells."""
    return made_alike(first.index, loop, *(score.index.statement(score.node) for score in (first, last)))


def made_alike(index: Index, loop: EpochLoop, one: Statement, other: Statement) -> bool:
    """Whether two statements have the same code; by what number of a step or epoch it tells is all the same."""
    if not (isinstance(one.node, cst.SimpleStatementLine) and isinstance(other.node, cst.SimpleStatementLine)):
        return False
    counted = {loop.target, *_counted(index, one), *_counted(index, other)}
    codes = [[index.source.code(part) for part in node.body] for node in (one.node, other.node)]
    return _uncounted("\n".join(codes[0]), counted) == _uncounted("\n".join(codes[1]), counted)


def _counted(index: Index, place: Statement) -> Iterator[str]:
    """Yield the names by which a statement knows the number of its turn or step."""
    for part in place.ancestors:
        node = part.node
        if isinstance(node, cst.For) and isinstance(node.target, cst.Tuple):
            called = [dotted(one.func) for one in nodes_in(node.iter) if isinstance(one, cst.Call)]
            yield from names_in(node.target.elements[0].value) if "enumerate" in called else ()
    yield from (b.target for b in index.bindings if b.statement.scope is place.scope and increments(b))


def _uncounted(code: str, counted: set[str]) -> str:
    """Return what tells code apart from other code, with all names alike that count."""
    tree = ast.parse(code)
    for name in ast.walk(tree):
        if isinstance(name, ast.Name) and name.id in counted:
            name.id = ""
    return ast.dump(tree)


def _trains_on(loop: EpochLoop, first: Statement, last: Statement) -> bool:
    """Whether a statement stands in a loop that trains, and another one behind that."""
    return any(part in loop.inner and part not in last.path for part in first.path) and first.order < last.order


def _either(first: str, last: str) -> str:
    """Return the code of what holds where one of two conditions does, alone where the other holds only with it."""
    if {*written_conjuncts(last)} <= {*written_conjuncts(first)}:
        return last
    return first if {*written_conjuncts(first)} <= {*written_conjuncts(last)} else f"({first}) or ({last})"
