"""Flags that say of a turn's score that it is the best so far, by which another function saves."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import called_in
from retrofit.survey.nodes import dotted, key_of, nodes_in, unquoted
from retrofit.survey.scores.begun import in_the_loop
from retrofit.survey.scores.best import keeps
from retrofit.survey.scores.values import code_within, in_loop
from retrofit.survey.scores.words import Candidate
from retrofit.survey.sites.loop import EpochLoop


def saved_by_flag(index: Index, flow: Flow, loop: EpochLoop, candidate: Candidate) -> str:
    """Return what holds the best so far, where a better score raises a flag by which a checkpoint is saved; else "".

    The flag is an attribute or an item, which other functions know as well.
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
    return ""


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
