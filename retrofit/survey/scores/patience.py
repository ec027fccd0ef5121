"""Whether an epoch loop counts the turns without a better score, to its own end or to a lower learning rate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import libcst as cst

from retrofit.survey.counters import counts
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted, names_in, nodes_in, unquoted
from retrofit.survey.scopes import Binding, Statement
from retrofit.survey.scores.begun import in_the_loop
from retrofit.survey.scores.making import numbers_turns
from retrofit.survey.scores.values import in_loop, written, written_items
from retrofit.survey.scores.words import Candidate
from retrofit.survey.sites.loop import EpochLoop


def in_loop_or_keeper(index: Index, loop: EpochLoop, candidate: Candidate) -> Callable[[cst.CSTNode], bool]:
    """Return a test whether a node stands in the epoch loop, or in what keeps the best."""
    keeper = candidate.keeper if candidate.keeper is not None else loop.scope
    owner = keeper.enclosing_class or keeper

    def within(node: cst.CSTNode) -> bool:
        scope = index.scope_of(node)
        return in_loop(index, loop, node) or (keeper is not loop.scope and owner in (scope, *scope.around))

    return within


def counts_to_an_end(index: Index, flow: Flow, loop: EpochLoop, best: str, candidate: Candidate) -> bool:
    """Whether turns without a better score are counted, in the loop or by what keeps it, or lower the learning rate.

    The best of earlier rounds would end a round in which dendrites have just begun to learn, or let them rest.
    """
    within = in_loop_or_keeper(index, loop, candidate)
    inside = [b for b in (*index.bindings, *index.items) if within(b.statement.node)]
    tests = {part: part.node.test for b in inside for part in b.statement.path if isinstance(part.node, cst.If)}
    bests = {one.partition("[")[0] for one in (best, candidate.holder)}
    told = bests.union(b.target for b in inside if b.value is not None and not bests.isdisjoint(names_in(b.value)))
    choices = {part for part, test in tests.items() if not told.isdisjoint(names_in(test))}
    waited = {*_begun_and_counted(inside, choices), *_counted_by_choice(index, inside, {best, candidate.holder})}
    waited.update(_counted_otherwise(index, inside, {part.node for part in choices}, bests))
    waited |= {in_the_loop(index, flow, loop, name, candidate.keeper) for name in waited} - {""}
    blocks = {b.statement.parent for b in inside if b.target.partition("[")[0] in bests} - {loop.statement}
    turns = {loop.target, *(b.target for b in inside if numbers_turns(loop, b))}
    since = {name for b in inside if b.statement.parent in blocks for name in _given_turn(index, b, turns)}
    for names in _asked(index, loop, inside, within):
        if names & waited or (names & turns and names & since):
            return True
    rates = [b.statement for b in index.items if unquoted(b.target).endswith("['lr']")]
    rates += [
        index.statement(call)
        for call, stepped in index.method_calls("step")
        for made in flow.origins(stepped, index.scope_of(call))
        if isinstance(made.node, cst.Call) and index.qualified(made.node.func).startswith("torch.optim.lr_scheduler.")
    ]
    return any(within(rate.node) and not choices.isdisjoint(rate.path) for rate in rates)


def _begun_and_counted(inside: list[Binding], choices: set[Statement]) -> set[str]:
    """Return what begins anew under some conditions, and counts."""
    chosen = [b for b in inside if not choices.isdisjoint(b.statement.path)]
    begun = {unquoted(b.target) for b in chosen if b.value is not None and not counts(b)}
    return {name for b in inside if (name := unquoted(b.target)) in begun and counts(b)}


def _counted_otherwise(
    index: Index, inside: list[Binding], choices: set[cst.CSTNode], bests: set[str]
) -> Iterator[str]:
    """Yield what counts where a choice takes no better score, also what never begins anew: `else: tries -= 1`."""

    def branches(binding: Binding) -> set[cst.CSTNode]:
        node = binding.statement.node
        return {inner for inner, outer in pairwise((node, *index.ancestors(node))) if outer in choices}

    better = {one for b in inside if b.target.partition("[")[0] in bests for one in branches(b)}
    for binding in filter(counts, inside):
        found = branches(binding)
        if found and found.isdisjoint(better):
            yield unquoted(binding.target)


def _counted_by_choice(index: Index, inside: list[Binding], bests: set[str]) -> Iterator[str]:
    """Yield what is made of itself and of whether a score is better: `bad = 0 if acc > best else bad + 1`."""
    known = {unquoted(one) for one in bests}
    read = {b: _read(index, b.value) for b in inside if b.value is not None}
    told = known.union(unquoted(b.target) for b, names in read.items() if names & known)
    for binding, names in read.items():
        name = unquoted(binding.target)
        if name in names and name not in known and names & (told - {name}):
            yield name


def _given_turn(index: Index, binding: Binding, turns: set[str]) -> Iterator[str]:
    """Yield what an assignment gives the turn's number, also an item of a dictionary that is written down."""
    target, value = unquoted(binding.target), binding.value
    if dotted(value) in turns:
        yield target
    for key, item in written_items(index, value) if isinstance(value, cst.Dict) else ():
        if dotted(item) in turns:
            yield f"{target}[{unquoted(key)}]"


def _asked(
    index: Index, loop: EpochLoop, inside: list[Binding], within: Callable[[cst.CSTNode], bool]
) -> Iterator[set[str]]:
    """Yield the names of each condition on which something depends, and of what these are given."""
    heads = [loop.node.test] if isinstance(loop.node, cst.While) else []
    tests = [one.node.test for one in index.statements if isinstance(one.node, cst.If) and within(one.node)]
    asked = [*tests, *filter(within, index.comparisons)]
    for test in (*heads, *(one for one in asked if not _only_tells(index, index.statement(one)))):
        names = _read(index, test)
        given = [b.value for b in inside if b.value is not None and unquoted(b.target) in names]
        yield names.union(*(_read(index, value) for value in given))


def _only_tells(index: Index, statement: Statement) -> bool:
    """Whether a statement, with what it holds, does no more than to print, to log and to save."""
    small = [one for one in nodes_in(statement.node) if isinstance(one, cst.BaseSmallStatement)]
    calls = [one.value if isinstance(one, cst.Expr) else None for one in small if not isinstance(one, cst.Pass)]
    return all(
        isinstance(call, cst.Call)
        and (index.knowledge.logs(dotted(call.func) or "") or index.qualified(call.func) == "torch.save")
        for call in calls
    )


def _read(index: Index, node: cst.CSTNode) -> set[str]:
    """Return the names in code, and the items."""
    items = (written(index, part) for part in nodes_in(node) if isinstance(part, cst.Subscript))
    return {*names_in(node), *map(unquoted, items)}
