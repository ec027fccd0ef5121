"""Find where code takes what has an item for each epoch together with the number of epochs that are planned."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from retrofit.knowledge.kinds import Counts, MakesArray
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.last_turns import counted, limit_of
from retrofit.survey.loops import called_in
from retrofit.survey.names import Variable
from retrofit.survey.nodes import argument, dotted, names_in, nodes_in, receiver, spelled
from retrofit.survey.origins import Origin
from retrofit.survey.reaching import conditions
from retrofit.survey.scopes import Statement
from retrofit.survey.scores.namesakes import once_in_a_turn
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.loop import EpochLoop, PlannedCount

#: What has as many items as what it is given.
_COPIES = frozenset({"list", "tuple"})


def find_planned_counts(index: Index, flow: Flow, loops: list[EpochLoop]) -> list[PlannedCount]:
    """Return each planned number of epochs that is taken, after the loop, together with what its turns append to.

    A round has as many epochs as its structure needs, so `plt.plot(range(1, epochs + 1), losses)` fails, and so does
    `table[:] = torch.tensor(losses)` for an array of as many items.
    """
    found: dict[cst.CSTNode, PlannedCount] = {}
    for loop in loops:
        limit = limit_of(loop.anchors["range"])
        if limit is not None and (gathered := _gathered(index, flow, loop)):
            for site in _Counts(index, flow, loop, limit, gathered).found():
                found.setdefault(site.node, site)
    return list(found.values())


def note_planned_files(index: Index, flow: Flow, loops: list[EpochLoop]) -> None:
    """Note what loads, after a loop, files that its turns save by their numbers, by those that are planned."""
    for loop in loops:
        limit = limit_of(loop.anchors["range"])
        loop.planned_files = _Counts(index, flow, loop, limit, set()).files() if limit is not None else []


def _gathered(index: Index, flow: Flow, loop: EpochLoop) -> set[Origin]:
    """Return the lists, as they begin before a loop, that each of its turns appends an item to, itself or by a call."""
    found: set[Origin] = set()
    once, begun_anew = once_in_a_turn(index, flow, loop), called_in(index, flow, loop.statement)
    for call, held in index.method_calls("append"):
        here = index.statement(call)
        around = [one for one in here.around if isinstance(one.node, (cst.For, cst.While))]
        if around[:1] == [loop.statement] or (here.scope in once and not around):
            found.update(one for one in flow.origins(held, here.scope) if isinstance(one.node, cst.List))
    begun = [(one, index.statement(one.node)) for one in found]
    return {one for one, here in begun if loop.statement not in here.path and here.scope not in begun_anew}


class _Counts:
    """Looks for the counts that belong to one epoch loop.

    Args:
        loop: the epoch loop.
        limit: the name of what limits it.
        gathered: the lists that it fills.
    """

    def __init__(self, index: Index, flow: Flow, loop: EpochLoop, limit: str, gathered: set[Origin]) -> None:
        self._index, self._flow, self._loop, self._gathered = index, flow, loop, gathered
        self._limit, self._counting = flow.member(limit, loop.scope), index.knowledge.named(Counts)
        arrays = index.knowledge.named(MakesArray)
        self._sized = {name for name, one in arrays.items() if one.sized}
        self._copying = arrays.keys() - self._sized
        self._functions = called_in(index, flow, *loop.leftovers)

    def found(self) -> Iterator[PlannedCount]:
        """Yield the counts, each with the items that it is taken together with first."""
        for numbers, items in self._meetings():
            counts = [count for node in numbers for count in self._counts(node)]
            names = [name for node in items for name in self._wholes(node) if spelled(name) and self._filled(name)]
            if counts and names:
                yield from (self._site(count, names[0]) for count in counts)

    def files(self) -> list[Site]:
        """Return each call that loads a file by a planned number, where turns save some by theirs, and none by that."""
        index, turns = self._index, called_in(self._index, self._flow, self._loop.statement)
        saves = [(index.statement(one), self._in_path(one, 1)) for one in index.calls_to("torch.save")]
        inside = [named for here, named in saves if self._loop.statement in here.path or here.scope in turns]
        by_turn = any(self._flow.member(self._loop.target, self._loop.scope) in named for named in inside)
        if not by_turn or any(self._limit in named for _, named in saves):
            return []
        numbers = {self._limit}
        heads: list[cst.For | cst.CompFor] = [*index.nodes_of(cst.For), *index.nodes_of(cst.CompFor)]
        for head in heads:
            if self._is_later(index.statement(head)) and any(self._counts(head.iter)):
                numbers.add(self._flow.member(dotted(head.target) or "", index.scope_of(head.target)))
        loads = [(one, self._in_path(one, 0)) for one in index.calls_to("torch.load")]
        later = [(one, path) for one, path in loads if self._is_later(index.statement(one))]
        return [Site(node=one, index=index) for one, path in later if numbers & path and not self._asks(one, path)]

    def _asks(self, node: cst.CSTNode, path: set[Variable]) -> bool:
        """Whether a condition on the way to a node gives a call what a path is made of: `if os.path.exists(path)`."""
        index = self._index
        tests = [test for test, holds in conditions(index, node) if holds]
        heads = [one.for_in for one in index.ancestors(node) if isinstance(one, cst.BaseComp)]
        tests += [one.test for head in heads for one in head.ifs]
        calls = [test for test in tests if isinstance(test, cst.Call)]
        parts = [*filter(None, map(receiver, calls)), *(arg.value for one in calls for arg in one.args)]
        numbers = [one for one in parts if self._flow.member(dotted(one) or "", index.scope_of(one)) in path]
        return any(path & self._made_of(one) for one in parts if one not in numbers)

    def _in_path(self, call: cst.Call, position: int) -> set[Variable]:
        """Return the variables that the path of a file is made of, and those that calls give for such a parameter."""
        path = argument(call, "f", position)
        return self._made_of(path) if path is not None else set()

    def _made_of(self, node: cst.BaseExpression) -> set[Variable]:
        """Return the variables that a text or path is made of."""
        made = self._flow.origins(node, self._index.scope_of(node))
        values = [(one.node, self._index.scope_of(one.node)) for one in made]
        own = {self._flow.member(name, scope) for node, scope in values for name in names_in(node)}
        given = [source for one in own if one[1] in one[0].parameters for source in self._flow.sources(one)]
        named = [(name, one.scope) for one in given if one.value is not None for name in names_in(one.value)]
        return own | {self._flow.member(*one) for one in named}

    def _meetings(self) -> Iterator[tuple[list[cst.BaseExpression], list[cst.BaseExpression]]]:
        """Yield what calls and loops after the epoch loop take together, as numbers and as items."""
        for call in self._index.calls:
            if self._is_later(self._index.statement(call)) and not _ends_with_the_shortest(call):
                given = [arg.value for arg in call.args]
                yield given, given
        for statement in self._index.statements:
            node = statement.node
            if isinstance(node, cst.For) and self._is_later(statement):
                yield [node.iter], _taken_by(node.body, dotted(node.target))
        filled = [(one.targets[0].target, one.value) for one in self._index.nodes_of(cst.Assign)]
        for target, value in filled:
            if isinstance(target, cst.Subscript) and _is_whole(target) and self._is_later(self._index.statement(value)):
                yield [target.value], [value]

    def _is_later(self, statement: Statement) -> bool:
        """Whether a statement runs after the loop."""
        return statement.scope in self._functions or any(one in statement.path for one in self._loop.leftovers)

    def _wholes(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """Yield an expression, what a display holds, and what has as many items as the expression."""
        yield node
        within: list[cst.BaseExpression] = []
        if isinstance(node, (cst.Dict, cst.List, cst.Tuple)):
            within = [element.value for element in node.elements]
        elif isinstance(node, cst.BaseComp) and not (node.for_in.ifs or node.for_in.inner_for_in):
            within = [node.for_in.iter]
        elif isinstance(node, cst.Call) and (dotted(node.func) in _COPIES or dotted(node.func) == "zip"):
            within = [] if _ends_with_the_shortest(node) else [arg.value for arg in node.args]
        elif isinstance(node, cst.Call) and self._index.qualified(node.func) in self._copying:
            within = [arg.value for arg in node.args[:1]]
        for one in within:
            yield from self._wholes(one)

    def _counts(self, node: cst.BaseExpression) -> Iterator[cst.Call]:
        """Yield what goes through the planned epochs of what an expression is."""
        for whole in self._wholes(node):
            for origin in self._flow.origins(whole, self._index.scope_of(whole)):
                made = [whole] if origin.node is whole else [*self._wholes(origin.node)]
                yield from (one for one in made if isinstance(one, cst.Call) and self._is_planned(one))

    def _is_planned(self, call: cst.Call) -> bool:
        limit = self._limit_in(call)
        name = counted(limit) if limit is not None else None
        return name is not None and self._flow.member(name, self._index.scope_of(call)) == self._limit

    def _limit_in(self, call: cst.Call) -> cst.BaseExpression | None:
        """Return what a call counts to, or how many items it makes."""
        plain = [arg.value for arg in call.args if not (arg.star or arg.keyword)]
        name = self._index.qualified(call.func)
        if name in self._sized:
            return plain[0] if plain else None
        return plain[:2][-1] if plain and len(plain) == len(call.args) and name in self._counting else None

    def _filled(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a list that the loop fills, or has an item for each of its items."""
        waiting, seen = [node], set[cst.CSTNode]()
        while waiting:
            here = waiting.pop()
            if here in seen:
                continue
            seen.add(here)
            origins = self._flow.origins(here, self._index.scope_of(here))
            if not self._gathered.isdisjoint(origins):
                return True
            made = [one.node for one in origins if isinstance(one.node, (cst.BaseComp, cst.Call))]
            waiting += [whole for one in made for whole in self._wholes(one) if whole is not here]
        return False

    def _site(self, count: cst.Call, items: cst.BaseExpression) -> PlannedCount:
        index, here, start = self._index, self._index.statement(count), count.args[0].value
        name, limit = spelled(items) or "", self._limit_in(count)
        assert limit is not None
        together = here.scope is index.scope_of(items) and self._is_later(here)
        from_zero = limit is start or (len(count.args) == 2 and index.source.code(start) == "0")
        known = together and (from_zero or (len(count.args) == 2 and isinstance(start, (cst.Integer, cst.Name))))
        anew = "" if not known else f"len({name})" + ("" if from_zero else f" + {index.source.code(start)}")
        return PlannedCount(node=count, index=index, items=name, anew=anew, anchors={"limit": limit})


def _ends_with_the_shortest(call: cst.Call) -> bool:
    """Whether a call goes through several things at once as long as all have an item."""
    return dotted(call.func) == "zip" and dotted(argument(call, "strict")) != "True"


def _is_whole(part: cst.Subscript) -> bool:
    """Whether a part of an array is all of it: `table[:]`."""
    of = part.slice[0].slice
    return len(part.slice) == 1 and isinstance(of, cst.Slice) and not (of.lower or of.upper or of.step)


def _taken_by(body: cst.CSTNode, number: str | None) -> list[cst.BaseExpression]:
    """Return what code takes an item of by a number: the `losses` of `losses[k]`."""
    asked = [one for one in nodes_in(body) if isinstance(one, cst.Subscript) and len(one.slice) == 1]
    parts = [(one.value, one.slice[0].slice) for one in asked]
    return [held for held, part in parts if number and isinstance(part, cst.Index) and dotted(part.value) == number]
