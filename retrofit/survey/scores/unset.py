"""Scores that are an attribute, or a dict's item, which is set on some ways only: on rank 0, or every few epochs."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.nodes import dotted, is_choice, key_of
from retrofit.survey.order import leading_to, runs_always
from retrofit.survey.scopes import Binding, Statement
from retrofit.survey.scores.values import way_to_root
from retrofit.survey.scores.words import Candidate
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.score import Score


def tell_unset(flow: Flow, loop: EpochLoop, score: Score, candidate: Candidate) -> None:
    """Say of a score that the user names whether it is an attribute or item that only some ways through an epoch set.

    One that the loop's own function reads or sets itself is taken under the conditions of that.
    """
    index, name = flow.index, next((one for part in way_to_root(candidate.node) if (one := dotted(part))), "")
    holder, _, attribute = name.rpartition(".")
    if not name or candidate.node in index.parents or candidate.call is not None:
        return
    training = leading_to([loop], flow)
    item = next((part for part in way_to_root(candidate.node) if key_of(part) is not None), None)
    if isinstance(item, cst.Subscript) and dotted(item.value) == name:
        _tell(flow, score, f"{name}[{key_of(item)}]", _givers(flow, loop, name, key_of(item)), training)
    if not holder or score.unset[0]:
        return
    meant = flow.member(name, loop.scope)
    of_name = [b for b in index.bindings if b.target.rpartition(".")[2] == attribute and "." in b.target]
    bound = [b for b in of_name if flow.member(b.target, b.statement.scope) == meant]
    if meant[0].kind != "class":  # the object's class is not known
        bound = [b for b in of_name if b.target == f"self.{attribute}"]
    if not any(b.statement.scope.name == "__init__" or b.statement.scope is loop.scope for b in bound):
        _tell(flow, score, name, bound, training)


def _tell(flow: Flow, score: Score, name: str, bound: list[Binding], training: set[Statement]) -> None:
    nodes = {one.statement.node for one in bound}
    ways = [_conditions(one, nodes, training, flow) for one in bound]
    if ways and all(ways):
        score.unset = (
            name,
            " and ".join(dict.fromkeys(ways[0])),
            flow.index.place(bound[0].statement.node, score.file),
        )


def _givers(flow: Flow, loop: EpochLoop, holder: str, key: str | None) -> list[Binding]:
    """Return what sets an item of a dict that begins empty, nothing where something else may give it as well."""
    index, held = flow.index, set(flow.origins(cst.parse_expression(holder), loop.scope))
    empty = all(isinstance(one.node, cst.Dict) and not one.node.elements for one in held)
    found = [
        (b, key_of(node))
        for b in index.items
        if isinstance(node := cst.parse_expression(b.target), cst.Subscript)
        and not held.isdisjoint(flow.origins(node.value, b.statement.scope))
    ]
    filled = any(
        not held.isdisjoint(flow.origins(one, index.scope_of(call)))
        for method in ("update", "setdefault")
        for call, one in index.method_calls(method)
    )
    bound = [b for b, known in found if known == key]
    sure = bool(held) and empty and not filled and all(known is not None for _, known in found)
    return bound if sure and not any(b.statement.scope is loop.scope for b in bound) else []


def _conditions(binding: Binding, beside: Collection[cst.CSTNode], training: set[Statement], flow: Flow) -> list[str]:
    """Return the conditions on a way from the epoch loop to what sets an attribute, nothing where a way has none.

    Args:
        beside: all that set it; where each branch of a choice does, that is no condition.
    """
    index = flow.index
    found: list[list[str]] = []
    waiting: list[tuple[Statement, Collection[cst.CSTNode], list[str]]] = [(binding.statement, beside, [])]
    seen: set[Statement] = set()
    while waiting:
        here, beside, told = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        choices = [part.node for part in here.around if part not in training and is_choice(part.node)]
        choices = [one for one in choices if not runs_always(one, beside, leaves=False)]
        told = [*(index.source.code(one.test) for one in reversed(choices) if isinstance(one, cst.If)), *told]
        calls = (
            []
            if not training.isdisjoint([here, *here.around])
            else [index.statement(c) for c in flow.callers(here.scope)]
        )
        waiting += [(call, {one.node for one in calls}, told) for call in calls]
        if not calls:
            found.append(told)
    return min(found, key=len, default=[])
