"""Scores that are an attribute of an object which is set on some ways only: on rank 0, or every few epochs."""

from __future__ import annotations

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.nodes import dotted, is_choice
from retrofit.survey.order import leading_to
from retrofit.survey.scopes import Binding, Statement
from retrofit.survey.scores.values import way_to_root
from retrofit.survey.scores.words import Candidate
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.score import Score


def tell_unset(flow: Flow, loop: EpochLoop, score: Score, candidate: Candidate) -> None:
    """Say of a score that the user names whether it is an attribute that only some ways through an epoch set.

    One that the loop's own function reads or sets itself is taken under the conditions of that.
    """
    index, name = flow.index, next((one for part in way_to_root(candidate.node) if (one := dotted(part))), "")
    holder, _, attribute = name.rpartition(".")
    if not holder or candidate.node in index.parents or candidate.call is not None:
        return
    training = leading_to([loop], flow)
    meant = flow.member(name, loop.scope)
    of_name = [b for b in index.bindings if b.target.rpartition(".")[2] == attribute and "." in b.target]
    bound = [b for b in of_name if flow.member(b.target, b.statement.scope) == meant]
    if meant[0].kind != "class":  # the object's class is not known
        bound = [b for b in of_name if b.target == f"self.{attribute}"]
    if not bound or any(b.statement.scope.name == "__init__" or b.statement.scope is loop.scope for b in bound):
        return
    ways = [_conditions(one, training, flow) for one in bound]
    if all(ways):
        score.unset = (name, " and ".join(dict.fromkeys(ways[0])), index.place(bound[0].statement.node, score.file))


def _conditions(binding: Binding, training: set[Statement], flow: Flow) -> list[str]:
    """Return the conditions on a way from the epoch loop to what sets an attribute, nothing where a way has none."""
    index = flow.index
    found: list[list[str]] = []
    waiting: list[tuple[Statement, list[str]]] = [(binding.statement, [])]
    seen: set[Statement] = set()
    while waiting:
        here, told = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        choices = [part.node for part in here.around if part not in training and is_choice(part.node)]
        told = [*(index.source.code(one.test) for one in reversed(choices) if isinstance(one, cst.If)), *told]
        calls = (
            []
            if not training.isdisjoint([here, *here.around])
            else [index.statement(c) for c in flow.callers(here.scope)]
        )
        waiting += [(call, told) for call in calls]
        if not calls:
            found.append(told)
    return min(found, key=len, default=[])
