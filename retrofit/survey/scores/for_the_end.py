"""What the script keeps with its best score for the code after the epoch loop."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import turns_begun_by
from retrofit.survey.nodes import mentions, names_in
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.scores.begun import in_the_loop, is_begun
from retrofit.survey.scores.values import in_loop
from retrofit.survey.scores.words import Candidate
from retrofit.survey.sites.loop import EpochLoop


def kept_for_end(index: Index, flow: Flow, loop: EpochLoop, candidate: Candidate) -> tuple[list[str], str]:
    """Return what the epoch loop calls the best score, and what a better one gives, where that is read after the loop.

    And the name of what is kept so, but has no name or value before the loop, or is returned within it; "" for none.
    """
    keeper = candidate.keeper if candidate.keeper is not None else loop.scope
    found, lost = list[str](), ""
    for name in _read_afterwards(index, flow, loop, candidate, keeper):
        own = in_the_loop(index, flow, loop, name, candidate.keeper)
        known = bool(own) and is_begun(index, flow, loop, own)
        found += [own] if known else []
        lost = lost or ("" if known and not _is_returned(index, loop, own) else name)
    return found, lost


def _is_returned(index: Index, loop: EpochLoop, name: str) -> bool:
    """Whether the training's function returns a value within the loop, where its early stopping ends, say."""
    within = [node for node, scope in index.returns if scope is loop.scope and in_loop(index, loop, node)]
    return any(mentions(node, [name]) for node in within)


def _read_afterwards(index: Index, flow: Flow, loop: EpochLoop, candidate: Candidate, keeper: Scope) -> Iterator[str]:
    """Yield the names of what is kept, as what keeps it has them."""
    inside = [b for b in (*index.bindings, *index.items) if b.statement.scope is keeper]
    if keeper is loop.scope:
        inside = [b for b in inside if loop.statement in b.statement.path]
    appended = {b.target.removesuffix("[-1]") for b in index.appended}
    best = _as_bound(candidate.holder, {*(b.target for b in inside), *appended})
    flags = {best, *(b.target for b in inside if b.value is not None and mentions(b.value, [best]))}
    asked = [part for part in index.statements if isinstance(part.node, cst.If) and mentions(part.node.test, flags)]
    better = {b.statement.path[-2] for b in inside if b.target == best} - {loop.statement}
    better |= {part for part in asked if any(part in b.statement.path for b in inside)}
    for goes_on in turns_begun_by(index, loop.statement):  # `if acc <= best: continue`
        better.update(later for part in asked if part in goes_on.path for later in part.following)
    better |= {
        b.statement for b in inside if isinstance(b.value, cst.IfExp) and mentions(b.value.test, flags)
    }  # `state = new if improved else state`
    afterwards = _afterwards(flow, loop, keeper)
    for name in dict.fromkeys([best, *sorted({_whole(b.target) for b in inside if _is_in(b, better)})]):
        given = [b for b in inside if _whole(b.target) == name]
        alone = name == best or all(_is_in(b, better) for b in given)
        first = next((node for node, scope in afterwards if _names(flow, node, scope, name, keeper)), None)
        anew = any(b.statement.node is first and _begins_anew(b) for b in index.bindings if b.target == name)
        if name and alone and first is not None and not anew:
            yield name


def _as_bound(name: str, bound: set[str]) -> str:
    """Return the whole of which a variable, attribute or item is part, as it gets its values; "" for none."""
    whole, before = name, ""
    while whole not in ("", before, *bound):
        before, whole = whole, re.sub(r"(^|\.)\w+$|\[[^\[\]]*\]$", "", whole)
    given_by_method = re.fullmatch(r"([\w.]+)(\[[^\[\]]+\])+", name)
    return whole if whole in bound else given_by_method[1] if given_by_method else ""


def _is_in(binding: Binding, some: set[Statement]) -> bool:
    return not some.isdisjoint(binding.statement.path)


def _whole(name: str) -> str:
    """Return a dict that is filled by keys that are worked out, `state[name]`, else the variable or item itself."""
    return re.sub(r"\[[^\d'\"\[].*", "", name)


def _afterwards(flow: Flow, loop: EpochLoop, keeper: Scope) -> list[tuple[cst.CSTNode, Scope]]:
    """Return what runs after the loop: statements and the functions that they call, with their scopes."""
    found: list[tuple[cst.CSTNode, Scope]] = [(later.node, later.scope) for later in loop.leftovers]
    found += [(cst.parse_expression(loop.result), loop.scope)] if loop.result else []
    calls, seen = [call for later in loop.leftovers for call in flow.index.calls_in(later)], {keeper, loop.scope}
    for call in calls:
        function = flow.called(call)
        if function is not None and function not in seen:
            seen.add(function)
            calls += flow.index.calls_of(function)
            found.append((function.node, function))
    return found


def _names(flow: Flow, node: cst.CSTNode, scope: Scope, name: str, keeper: Scope) -> bool:
    """Whether code in a scope has the variable that ``name`` means in another."""
    whole = name.partition("[")[0]
    bare = whole.rpartition(".")[2]
    said = {found for found in names_in(node) if bare in found.split(".")}
    said = {found[: f"{found}.".rindex(f"{bare}.") + len(bare)] for found in said}
    return any(flow.member(found, scope) == flow.member(whole, keeper) for found in said)


def _begins_anew(binding: Binding) -> bool:
    """Whether a name gets a value that is not made of the one that it has: `f` in `with open(path) as f:`."""
    value = binding.value
    return isinstance(binding.statement.node, cst.With) if value is None else not mentions(value, [binding.target])
