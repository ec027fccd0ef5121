"""Flags, or what another function finds better, that say of a turn's score that it is the best so far, and save."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from retrofit.survey.conditions import argument_of
from retrofit.survey.flow import Flow
from retrofit.survey.holding import Holding
from retrofit.survey.index import Index
from retrofit.survey.loops import called_in
from retrofit.survey.nodes import dotted, key_of, nodes_in, unquoted
from retrofit.survey.scopes import Scope
from retrofit.survey.scores.begun import in_the_loop
from retrofit.survey.scores.best import COMPARE, keeps
from retrofit.survey.scores.values import code_within, in_loop, root_of
from retrofit.survey.scores.words import Candidate
from retrofit.survey.sites.loop import EpochLoop


def saved_by_flag(index: Index, flow: Flow, loop: EpochLoop, candidate: Candidate) -> str:
    """Return what holds the best so far, where a better score raises a flag by which a checkpoint is saved; else "".

    The flag is an attribute or an item, which other functions know as well. Or it is what one of them has found better.
    """
    keeper = candidate.keeper if candidate.keeper is not None else loop.scope
    raised = (in_the_loop(index, flow, loop, flag, keeper) for flag in _raised(index, candidate))
    flags = {unquoted(flag) for flag in raised} - {""}
    running = called_in(index, flow, loop.statement) if flags else set()
    for choice in index.nodes_of(cst.If) if flags else ():
        here = index.statement(choice.test)
        if here.scope in running or in_loop(index, loop, choice):
            asked = filter(None, map(_name, nodes_in(choice.test)))
            names = {unquoted(in_the_loop(index, flow, loop, name, here.scope)) for name in asked}
            if names & flags and any(keeps(index, part) for part in index.statements_in(choice.body)):
                return candidate.holder
    return _saved_by_better(index, flow, loop, candidate)


def _saved_by_better(index: Index, flow: Flow, loop: EpochLoop, candidate: Candidate) -> str:
    """Return what holds bests that take what a function finds better in the score, `bests.update(better)`; else "".

    A checkpoint is saved by what it finds.
    """
    keeping = [one for one in index.statements if in_loop(index, loop, one.node) and keeps(index, one)]
    around = [part.node for one in keeping for part in one.around if in_loop(index, loop, part.node)]
    heads = [one.test if isinstance(one, cst.If) else one.iter for one in around if isinstance(one, (cst.If, cst.For))]
    updates = [(dotted(held), arg.value) for call, held in index.method_calls("update") for arg in call.args]
    updates += [(b.target.partition("[")[0], b.value) for b in (*index.bindings, *index.items) if b.value is not None]
    for call in index.calls if heads else ():
        function = flow.called(call) if in_loop(index, loop, call) else None
        if function is None:
            continue
        given = {name: value for name in function.parameters if (value := argument_of(function, call, name))}
        for best, score in _weighed(index, function):
            if best in given and score in given and root_of(given[score]) == root_of(candidate.node):
                holder, found = dotted(given[best]), Holding([call], flow)
                taken = [value for whole, value in updates if whole == holder and in_loop(index, loop, value)]
                if holder and taken and all(map(found.holds, taken)) and any(map(found.holds, heads)):
                    return holder
    return ""


def _weighed(index: Index, function: Scope) -> Iterator[tuple[str, str]]:
    """Yield the roots of what a function asks of which is more, both ways round."""
    for one in index.comparisons:
        if index.scope_of(one) is function and type(one.comparisons[0].operator) in COMPARE:
            sides = root_of(one.left), root_of(one.comparisons[0].comparator)
            yield from (sides, sides[::-1]) if sides[0] != sides[1] else ()


def _name(node: cst.CSTNode) -> str:
    """Return how an attribute, or an item of what has a name, is written; "" for anything else."""
    if isinstance(node, cst.Subscript):
        held, key = dotted(node.value), key_of(node)
        return f"{held}[{key}]" if held is not None and key is not None else ""
    return (dotted(node) or "") if isinstance(node, cst.Attribute) else ""


def _raised(index: Index, candidate: Candidate) -> Iterator[str]:
    """Yield the attributes and items that are true where a score is better than the best so far."""
    for one in (*index.bindings, *index.items):
        if one.statement.scope is candidate.keeper and ("." in one.target or "[" in one.target):
            choices = [part.node for part in one.statement.around if isinstance(part.node, cst.If)]
            held = [choice.test for choice in choices if code_within(index, one.statement.node, choice.body)]
            told = held if dotted(one.value) == "True" else [one.value]
            parts = (part for test in told if test is not None for part in nodes_in(test))
            if any(isinstance(part, cst.Comparison) and _compares(index, part, candidate.holder) for part in parts):
                yield one.target


def _compares(index: Index, comparison: cst.Comparison, best: str) -> bool:
    return any(index.source.code(part) == best for part in nodes_in(comparison) if part in index.parents)
