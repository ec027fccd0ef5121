"""The statements that make the value of an expression."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import libcst as cst

from retrofit.survey.branches import exclude_each_other
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import conjuncts
from retrofit.survey.nodes import dotted, leaves, names_in, parted, unquoted
from retrofit.survey.order import runs_always
from retrofit.survey.ranks import of_some
from retrofit.survey.scopes import Binding, Statement
from retrofit.survey.scores.filling import Filling
from retrofit.survey.scores.values import as_item, bare_of, is_set_by_variable, only_begins, root_of, way_to_root
from retrofit.survey.scores.ways import last_before_leaving, tests_around
from retrofit.survey.sites.loop import EpochLoop


def makers_of(flow: Flow, node: cst.BaseExpression, inside: Callable[[cst.CSTNode], bool]) -> list[Statement]:
    """Return the statements ``inside`` that make a value, other than those that only begin it with a constant.

    Of an object that is filled after it is made, they are those that fill it, each with the loops around it.
    """
    index, filling = flow.index, Filling(flow, node)
    standing = node in index.parents
    parts = {as_item(index, part) for part in way_to_root(node)}
    here = [b for b in (*index.bindings, *index.items, *index.appended) if inside(b.statement.node)]
    made = [b for b in here if not isinstance(b.value, (cst.Integer, cst.Float, cst.Name))]
    anew = [b for b in made if unquoted(b.target) in parts or _fills_some_item(b, bare_of(node))]
    held = [b.statement for b in anew if unquoted(b.target) in filling.names]
    plain = isinstance(bare_of(node), cst.Name)
    begun = [b for b in anew if b.statement in held and not plain and only_begins(index, b)]
    anew = [b for b in anew if b not in begun]
    calls = [(call, index.statement(call)) for call in index.calls if inside(call)]
    filled = [at for call, at in calls if filling.by(call)]
    if not anew and (begun or not standing):
        fills = [*filled, *(b.statement for b in here if _may_be_read(b, node))]
        if standing and _filled_here(flow, node, begun, fills):
            return [index.statement(node)]
        first = [b.statement for b in begun] or [at for call, at in calls if filling.ends(call)]
        if fills or begun:
            given = [at for call, at in calls if fills and filling.may_be_by(call)]
            around = [_around(one, first, inside) for one in fills]
            around += [_around(one, first, inside, wholly=True) for one in given]
            return around or [last_before_leaving(first[-1])]
    own = {b.target for b in made}
    named = [b for b in here if unquoted(b.target) in parts and isinstance(b.value, cst.Name)]
    renamed = [b for b in named if isinstance(b.value, cst.Name) and b.value.value in own]
    other_branches = [b for b in named if any(exclude_each_other(b.statement, one.statement) for one in anew)]
    first = held if len(held) == len(anew) else []
    early = [at for at in filled if not standing or at.order <= index.statement(node).order]
    later = [at for at in early if any(at.order > one.order and one.parent in at.path for one in first)]
    makers = [b.statement for b in [*anew, *other_branches] or renamed]
    return [*makers, *(_around(one, held, inside, wholly=True) for one in later)]


def _around(
    fill: Statement, first: list[Statement], inside: Callable[[cst.CSTNode], bool], wholly: bool = False
) -> Statement:
    """Return the statement after which the loops are over in which an object is filled.

    Args:
        first: what begins the object; what is around that too is not meant.
        wholly: whether conditions around it do not count either.
    """
    path = [part for part in fill.path if inside(part.node)]
    beside = [part for part in path if any(part.parent is one.parent for one in first)]
    path = path[path.index(beside[-1]) :] if beside else path
    return next((part for part in path if wholly or not isinstance(part.node, (cst.If, cst.With))), fill)


def _fills_some_item(binding: Binding, node: cst.BaseExpression) -> bool:
    """Whether an item is set by a key that is worked out, so that it may be the one that is read: `sums[name] += x`."""
    holder = binding.target.partition("[")[0]
    read = isinstance(node, cst.Subscript) and not _by_variable(node) and dotted(node.value) == holder
    return read and is_set_by_variable(binding)


def _filled_here(flow: Flow, node: cst.BaseExpression, begun: list[Binding], fills: list[Statement]) -> bool:
    """Whether what is begun before is filled under a condition that ``node`` is under too, or nowhere to be seen."""
    index, here = flow.index, flow.index.statement(node)
    around = {part for b in begun for part in b.statement.path}
    ifs = {part for part in here.ancestors if isinstance(part.node, cst.If) and part not in around}
    if not fills or any(not ifs.isdisjoint(fill.path) for fill in fills):
        return True
    known = _conditions(flow, ifs)
    if _by_variable(node) and known - _of_turns(index, here) - {"rank"}:
        return True  # the key may have a value only there
    return all(not known.isdisjoint(_conditions(flow, fill.around)) for fill in fills)


def _may_be_read(binding: Binding, node: cst.BaseExpression) -> bool:
    """Whether an item is set that may be the one that is read by a key that is worked out: `rs[name]["acc"]`."""
    holder, _, key = binding.target.partition("[")
    return bool(key) and holder == root_of(node) and any(map(_by_variable, way_to_root(node)))


def _by_variable(node: cst.BaseExpression) -> bool:
    """Whether an item is taken by a name: `log[self.monitor]`."""
    bare = bare_of(node)
    keys = [one.slice for one in bare.slice] if isinstance(bare, cst.Subscript) else []
    return any(isinstance(key, cst.Index) and isinstance(key.value, (cst.Name, cst.Attribute)) for key in keys)


def _conditions(flow: Flow, around: Iterable[Statement]) -> set[str]:
    """Return the code of the conditions of the `if`s among some statements, every rank check alike."""
    parts = [part for one in around if isinstance(one.node, cst.If) for part in conjuncts(one.node.test)]
    return {"rank" if of_some(flow, part) else flow.index.source.code(part) for part in parts}


def _of_turns(index: Index, place: Statement) -> set[str]:
    """Return the code of those conditions around a statement that hold in some turns of a loop around it."""
    turns = {name for part in place.ancestors if isinstance(part.node, cst.For) for name in names_in(part.node.target)}
    parts = [part for test in tests_around(place) for part in conjuncts(test)]
    return {index.source.code(part) for part in parts if not turns.isdisjoint(names_in(part))}


def reaching_makers(here: Statement, makers: list[Statement]) -> tuple[list[Statement], bool]:
    """Leave those makers whose value can be the one in a statement; tell as well whether one makes it anew after it."""
    early = [maker for maker in makers if maker.order <= here.order or exclude_each_other(maker, here)]
    sure = [maker.order for maker in early if any(maker in part.siblings for part in here.path)]
    return [maker for maker in early if not sure or maker.order >= max(sure)], len(early) < len(makers)


def given_to(
    index: Index, loop: EpochLoop, name: str, keys: tuple[str, ...], at: Statement, after: bool = False
) -> list[tuple[Binding, tuple[str, ...]]]:
    """Return what may give a variable, or an item of it, the value that it has in a statement.

    In the epoch loop, what an earlier turn gave does not count.

    Args:
        keys: the code of the keys that take the item out, one after the other.
        after: whether the statement is over.

    Returns:
        each with the keys by which an item is still to be taken out of what it gives.
    """
    scope, end = at.scope, at.last + 1 if after else at.order
    found = [(b, keys) for b in index.bound([name], scope)]
    sets = [(b, _keys_of(b, name)) for b in index.items if b.statement.scope is scope]
    found += [(b, keys[len(own) :]) for b, own in sets if own and _lead_to(own, keys)]
    found = [(b, left) for b, left in found if b.statement.order < end and _within(b.statement, loop, at)]
    last = {b.statement: b for b, left in found if left == keys and b.value is not None}  # of several in a line
    found = [(b, left) for b, left in found if left != keys or b.value is None or last[b.statement] is b]
    sure = [early for part in at.path if part.scope is scope for early in part.preceding]
    sure += [at] if after and not leaves(at.node) else []

    def is_set_anew(one: Statement) -> bool:
        later = {b.statement.node for b, _ in found if b.statement.order > one.order}
        behind = [a for part in one.path if part.scope is scope for a in part.following if a.order < end]
        between = [a for a in behind if a not in at.path] + [early for early in sure if early.order > one.order]
        heads = [part.node for part in at.ancestors]  # whose targets have a value in them
        return any(runs_always(part.node, later) for part in between) or any(head in later for head in heads)

    return [(b, left) for b, left in found if not exclude_each_other(b.statement, at) and not is_set_anew(b.statement)]


def _within(statement: Statement, loop: EpochLoop, at: Statement) -> bool:
    """Whether a statement stands in the epoch loop, as far as another one of its function does."""
    return loop.statement in statement.path or loop.statement not in at.path


def _keys_of(binding: Binding, name: str) -> list[str]:
    """Return the code of the keys by which an item of a variable is set, one after the other; none for any other."""
    holder, keys = parted(unquoted(binding.target))
    return keys if holder == name else []


def _lead_to(own: list[str], keys: tuple[str, ...]) -> bool:
    """Whether an item is set by the first of some keys, or by one that is worked out, which may be it: `sums[name]`."""
    pairs = zip(own, keys, strict=False)
    return len(own) <= len(keys) and all(one == key or one[:1].isidentifier() for one, key in pairs)
