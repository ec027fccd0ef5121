"""Find what people put into a script by hand and a recipe replaces: blocks of code around a call of its library."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import (
    argument,
    calls_one_of,
    children,
    dotted,
    last_name,
    method_name,
    named_in,
    names_in,
    nodes_in,
    receiver,
)
from retrofit.survey.order import apart_from_training
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.block import Block
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.wrapper import Wrapper

_Compound = cst.If | cst.For | cst.While | cst.With | cst.Try


@dataclass(frozen=True)
class Kind:
    """One kind of block, as a recipe describes it.

    Attributes:
        calls: the ends of the full names of the functions around whose calls it is.
        also: what it may call besides what is harmless.
        argument: name and position of the argument by which a call is told from others of the same function.
        like: the words of which such an argument has one; nothing where it does not matter.
        written: the ends of the full names of what the recipe writes in its place.
        beside: the ends of the full names of functions whose calls stand beside it, and may be made on every rank.
        again: the ends of the full names of functions by which a script goes on after it.
    """

    calls: Sequence[str]
    also: Sequence[str] = ()
    argument: Sequence[Any] = ("", 0)
    like: Sequence[str] = ()
    written: Sequence[str] = ()
    beside: Sequence[str] = ()
    again: Sequence[str] = ()


@dataclass(frozen=True)
class Signs:
    """What tells a recipe's blocks, as far as people put them into a script by hand.

    Attributes:
        kinds: the kinds of blocks, by their names.
        harmless: patterns of the full names of functions, and names of methods, that change nothing but what is shown
            or a name; a block may call them besides its own function.
        library: the package that only scripts with such blocks import.
        flag: the option under which the wrapper is left out.
        earlier_flags: what earlier forms of the recipe called it.
        folder: the option that tells where to load from.
        files: words in the names of files that such blocks write.
    """

    kinds: Mapping[str, Kind] = field(default_factory=dict)
    harmless: Sequence[str] = ()
    library: str = ""
    flag: str = ""
    earlier_flags: Sequence[str] = ()
    folder: str = ""
    files: Sequence[str] = ()

    def are_in(self, index: Index) -> bool:
        """Whether a project may have such blocks: whether it imports their library."""
        fulls = (full for file in index.files for full in file.aliases.values())
        return bool(self.library) and any(full.partition(".")[0] == self.library for full in fulls)


NO_SIGNS = Signs()


def named(full: str, names: Iterable[str]) -> bool:
    """Whether a full name ends with one of some names."""
    return any(full == name or full.endswith(f".{name}") for name in names)


class Reading:
    """Tells what some code does besides what a kind of block is there for.

    Args:
        kind: the kind of block.
        telling: whether it may print values; else it may print nothing but fixed texts.
        fixed: names of fixed texts.
    """

    def __init__(
        self,
        index: Index,
        flow: Flow,
        signs: Signs,
        kind: Kind,
        telling: bool = True,
        fixed: Collection[str] = (),
    ) -> None:
        self.index = index
        self.flow = flow
        self.signs = signs
        self.kind = kind
        self.telling = telling
        self._fixed = fixed

    def other(self, node: cst.CSTNode, bound: Collection[str] = ()) -> Iterator[cst.CSTNode]:
        """Yield the statements, and heads of statements, in some code that do anything else.

        Args:
            node: a statement, a block or a branch.
            bound: what may be assigned to besides plain names.
        """
        if isinstance(node, (cst.IndentedBlock, cst.SimpleStatementSuite, cst.SimpleStatementLine)):
            for child in node.body:
                yield from self.other(child, bound)
        elif isinstance(node, (cst.If, cst.While)):
            yield from self._branches([node.test], [node.body, node.orelse], node, bound)
        elif isinstance(node, cst.For):
            yield from self._branches([node.iter], [node.body, node.orelse], node, bound)
        elif isinstance(node, cst.With):
            items = [item.item for item in node.items]
            if self._writes(*items):
                return
            yield from self._branches(items, [node.body], node, bound)
        elif isinstance(node, cst.Try):
            blocks = [node.body, *(handler.body for handler in node.handlers), node.orelse, node.finalbody]
            yield from self._branches([], blocks, node, bound)
        elif isinstance(node, (cst.Else, cst.Finally)):
            yield from self.other(node.body, bound)
        elif not self._is_small(node, bound):
            yield node

    def _branches(
        self,
        heads: Sequence[cst.CSTNode],
        blocks: Sequence[cst.CSTNode | None],
        node: cst.CSTNode,
        bound: Collection[str],
    ) -> Iterator[cst.CSTNode]:
        if not all(self.harmless(head) for head in heads):
            yield node
        for block in blocks:
            if block is not None:
                yield from self.other(block, bound)

    def _writes(self, *nodes: cst.CSTNode) -> bool:
        """Whether some code is about a file that such blocks write."""
        parts = [part for node in nodes for part in nodes_in(node)]
        texts = [part.value for part in parts if isinstance(part, (cst.SimpleString, cst.FormattedStringText))]
        return any(word in text for text in texts for word in self.signs.files)

    def _is_small(self, node: cst.CSTNode, bound: Collection[str]) -> bool:
        if isinstance(node, (cst.Pass, cst.Import, cst.ImportFrom)):
            return True
        if isinstance(node, (cst.Break, cst.Continue, cst.Return)):
            return type(node).__name__.lower() in self.kind.also
        if isinstance(node, cst.Assign):
            targets = [target.target for target in node.targets]
        elif isinstance(node, (cst.AnnAssign, cst.AugAssign)):
            targets = [node.target]
        elif isinstance(node, cst.Expr):
            targets = []
        else:
            return False
        value = node.value
        plain = all(isinstance(part, cst.Name) or dotted(part) in bound for part in _parts(targets))
        return plain and (value is None or self._writes(value) or self.harmless(value))

    def harmless(self, node: cst.CSTNode, depth: int = 3) -> bool:
        """Whether an expression calls nothing but the block's own functions and harmless ones."""
        if isinstance(node, cst.Call) and not self._is_harmless_call(node, depth):
            return False
        if isinstance(node, (cst.NamedExpr, cst.Await, cst.Yield)):
            return False
        return all(self.harmless(child, depth) for child in children(node))

    def _is_harmless_call(self, call: cst.Call, depth: int) -> bool:
        if call not in self.index.parents or self.index.is_provided(call.func):
            return False  # in what is never run, or is the recipe's
        full = self.index.qualified(call.func)
        if named(full, self.kind.calls) or named(full, self.kind.also):
            return True
        if full == "print" and not self.telling:
            return not any(self._reads(arg.value) for arg in call.args)
        function = self.flow.called(call)
        if function is not None:
            return depth > 0 and isinstance(function.node, cst.FunctionDef) and self._only_tells(function, call, depth)
        if full and any(fnmatchcase(full, pattern) for pattern in self.signs.harmless):
            return True
        held = receiver(call)
        first = full.partition(".")[0] or ("" if held is None else self.index.source.code(held))
        foreign = first in self.index.file(call).aliases.values() or full != dotted(call.func)
        return held is not None and not (full and foreign) and f".{method_name(call)}" in self.signs.harmless

    def _reads(self, node: cst.CSTNode) -> bool:
        """Whether code reads anything but what is the same each time."""
        return any(isinstance(part, cst.Name) and part.value not in self._fixed for part in nodes_in(node))

    def _only_tells(self, function: Scope, call: cst.Call, depth: int) -> bool:
        """Whether a function of the project does nothing else, with what it is given here."""
        assert isinstance(function.node, cst.FunctionDef)
        kind = Kind((), (*self.kind.also, "return"))
        given = {name: argument(call, name, number) for number, name in enumerate(function.parameters)}
        fixed = {name for name, value in given.items() if value is not None and not self._reads(value)}
        inner = Reading(self.index, self.flow, self.signs, kind, self.telling, fixed)
        harmless = all(inner.harmless(value, depth - 1) for value in self.index.returned(function))
        return harmless and next(inner.other(function.node.body), None) is None

    def leaking(self, whole: Sequence[Statement], kept: Collection[str] = ()) -> list[Site]:
        """Return where what some statements give a name is read after them.

        Args:
            whole: the statements.
            kept: names that have their value without them as well.
        """
        nodes = {statement.node for statement in whole}
        scope = whole[0].scope
        given = {
            binding.target.partition(".")[0]
            for binding in self.index.bindings
            if binding.target not in kept and not nodes.isdisjoint(part.node for part in binding.statement.path)
        } - set(kept)
        found = []
        last = max(self.index.source.span(statement.node)[1] for statement in whole)
        for name in sorted(given):
            uses = [node for node in names_read(scope.node, name) if node in self.index.parents]
            uses = [node for node in uses if self.index.source.span(node)[0] >= last]
            first = min(uses, key=lambda node: self.index.source.span(node)[0], default=None)
            if first is not None and not self._is_target(first):
                found.append(Site(node=first, index=self.index))
        return found

    def _is_target(self, name: cst.Name) -> bool:
        """Whether a name gets a value where it stands, and is not read."""
        statement = self.index.statement(name)
        if isinstance(statement.node, cst.For) and name in (statement.node.target, *children(statement.node.target)):
            return True
        given = [b for b in self.index.bindings if b.statement is statement and b.target == name.value]
        return any(b.value is None or name not in nodes_in(b.value) for b in given)


def _parts(targets: Iterable[cst.BaseExpression]) -> Iterator[cst.BaseExpression]:
    for target in targets:
        if isinstance(target, (cst.Tuple, cst.List)):
            yield from _parts(element.value for element in target.elements)
        else:
            yield target


def names_read(node: cst.CSTNode, name: str) -> list[cst.Name]:
    """Return where a name stands in some code, but for names of attributes, keywords, parameters and modules."""
    found: list[cst.Name] = []
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if isinstance(here, cst.Name):
            found += [here] if here.value == name else []
        elif isinstance(here, (cst.Attribute, cst.Arg)):
            waiting.append(here.value)
        elif isinstance(here, cst.Param):
            waiting += [here.default] if here.default is not None else []
        elif not isinstance(here, (cst.Import, cst.ImportFrom, cst.Global, cst.Nonlocal)):
            waiting += children(here)
    return found


def find_earlier_flags(index: Index, signs: Signs) -> list[Block]:
    """Return where a script has the option under an earlier name: where it is declared, and where it is asked for."""
    declared = {
        name: arg.value
        for call, _ in index.method_calls("add_argument")
        for arg in call.args
        for name in signs.earlier_flags
        if isinstance(arg.value, cst.SimpleString) and arg.value.evaluated_value == f"--{name}"
    }
    found: list[tuple[str, cst.BaseExpression]] = []
    if signs.are_in(index):
        found += declared.items()
        found += [(node.attr.value, node) for node in index.attributes if node.attr.value in declared]
    return [_under_its_name(node, name, index, signs) for name, node in found]


def _under_its_name(node: cst.BaseExpression, name: str, index: Index, signs: Signs) -> Block:
    code = index.source.code(node)
    kept = code.removesuffix(name) if isinstance(node, cst.Attribute) else ""
    rest = f"{kept}{signs.flag}" if kept else code.replace(name, signs.flag)
    return Block(node=node, index=index, name="flag", rest=rest, anchors={"flag": node})


def find_blocks(index: Index, flow: Flow, signs: Signs, loops: list[EpochLoop], wrappers: list[Wrapper]) -> list[Block]:
    """Return the blocks of a recipe's kinds that a script has, but for those that hand its score over.

    Args:
        signs: what tells them.
        loops: the epoch loops.
        wrappers: where the model is wrapped.
    """
    found: dict[cst.CSTNode, Block] = {}
    for name, kind in signs.kinds.items() if signs.are_in(index) else ():
        if name == "hand-over":
            continue
        reading = Reading(index, flow, signs, kind)
        for call in index.calls:
            if named(index.qualified(call.func), kind.calls) and not _is_other(call, kind, loops, flow):
                around = _around(call, name, reading, loops)
                found.setdefault(around.anchors["whole"], around)
    found.update((block.anchors["whole"], block) for block in _filled(index, flow, signs))
    guards = [guard for wrapper in wrappers if (guard := _guard(wrapper, found, index, signs)) is not None]
    within = {statement for guard in guards for statement in nodes_in(guard.anchors["whole"])}
    blocks = [one for one in found.values() if one.anchors["whole"] not in within]
    fed = [part for block in blocks for part in _fed(block, index, flow, signs)]
    return [*blocks, *guards, *fed]


def _filled(index: Index, flow: Flow, signs: Signs) -> Iterator[Block]:
    """Yield the loops over a model's parameters that do nothing but give each without a gradient one of zeros."""
    kind = signs.kinds.get("prefill", Kind(()))
    reading = Reading(index, flow, signs, kind)
    for loop in index.loops if kind.also and signs.are_in(index) else ():
        if not isinstance(loop.node, cst.For):
            continue
        filled = [
            b.value
            for b in index.bindings
            if loop in b.statement.path and b.target in {f"{name}.grad" for name in names_in(loop.node.target)}
        ]
        zeros = all(isinstance(v, cst.Call) and named(index.qualified(v.func), kind.also) for v in filled)
        bound = [f"{name}.grad" for name in names_in(loop.node.target)]
        if not filled or not zeros or not calls_one_of(loop.node.iter, "parameters", "named_parameters"):
            continue
        whole = loop
        while (around := whole.parent) is not None and isinstance(around.node, cst.If):
            if next(reading.other(around.node, bound), None) is not None:
                break
            whole = around
        if next(reading.other(whole.node, bound), None) is None and not reading.leaking([whole]):
            yield Block(node=loop.node, index=index, name="prefill", anchors={"whole": whole.node})


def _is_other(call: cst.Call, kind: Kind, loops: list[EpochLoop], flow: Flow) -> bool:
    """Whether a call of a block's function is there for something else, as a load of the best model for a test."""
    statement = flow.index.statement(call)
    if not kind.like:
        return False
    inside = any(loop.statement in statement.path for loop in loops)
    return inside or (bool(loops) and apart_from_training(statement, loops, flow))


def _around(call: cst.Call, name: str, reading: Reading, loops: list[EpochLoop]) -> Block:
    """Return the block around a call: the outermost statement that does nothing else."""
    index, kind = reading.index, reading.kind
    own = index.statement(call)
    given = [b.target for b in index.bindings if b.statement is own and b.value is call]
    taken = {dotted(arg.value) or "" for arg in call.args}
    whole = own
    turns = {part for loop in loops for part in (loop.statement, *loop.inner)}
    while (parent := whole.parent) is not None and isinstance(parent.node, _Compound) and parent not in turns:
        if next(reading.other(parent.node, given), None) is not None:
            break
        whole = parent
    odd = [Site(node=node, index=index) for node in reading.other(whole.node, given)]
    odd += reading.leaking([whole], [one for one in given if one in taken])
    what = argument(call, *kind.argument) if kind.like else None
    if isinstance(what, cst.SimpleString) and not any(word in what.value for word in kind.like):
        odd.append(Site(node=call, index=index))
    if not odd and isinstance(whole.parent.node if whole.parent else None, cst.If):
        odd += _unlike(whole, reading, given)
    return Block(node=call, index=index, name=name, odd=odd, anchors={"whole": whole.node})


def _unlike(whole: Statement, reading: Reading, given: list[str]) -> list[Site]:
    """Return what stands beside a block under a condition that is only for it: `if initialising: ...; exit()`."""
    parent = whole.parent
    if parent is None or not isinstance(parent.node, cst.If) or not reading.kind.also:
        return []
    if reading.signs.flag not in map(last_name, named_in(parent.node.test)):
        return []
    return [Site(node=node, index=reading.index) for node in reading.other(parent.node, given)]


def _guard(wrapper: Wrapper, found: Mapping[cst.CSTNode, Block], index: Index, signs: Signs) -> Block | None:
    """Return the `if` that leaves a wrapper out where the script initialises, and holds nothing else."""
    parent = wrapper.statement.parent
    if parent is None or not isinstance(parent.node, cst.If) or parent.node.orelse is not None:
        return None
    test = parent.node.test
    if not isinstance(test, cst.UnaryOperation) or not isinstance(test.operator, cst.Not):
        return None
    if last_name(test.expression) != signs.flag:
        return None
    inside = index.statements_in(parent.node.body)
    rest = [one.node for one in inside if one.node not in found]
    if rest != [wrapper.statement.node] or isinstance(parent.node.body, cst.SimpleStatementSuite):
        return None
    code = cst.Module([node for node in rest if isinstance(node, cst.SimpleStatementLine)]).code
    return Block(node=wrapper.node, index=index, name="guard", rest=code, anchors={"whole": parent.node})


def _fed(block: Block, index: Index, flow: Flow, signs: Signs) -> Iterator[Block]:
    """Yield the statements directly before a block that only give it names."""
    reading = Reading(index, flow, signs, Kind(()))
    whole = [index.statement(block.anchors["whole"])]
    for early in whole[0].preceding:
        node = early.node
        small = node.body[0] if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1 else None
        names = [b.target for b in index.bindings if b.statement is early]
        read = any(names_read(part.node, name) for part in whole for name in names)
        if block.odd or not isinstance(small, cst.Assign) or not read or next(reading.other(node), None) is not None:
            return
        bound = [b for name in names for b in index.bindings if b.target == name]
        inside = {part for one in (early, *whole) for part in nodes_in(one.node)}
        everywhere = [use for name in names for use in names_read(early.scope.node, name)]
        if len(bound) != len(names) or not inside.issuperset(everywhere):
            return
        whole.append(early)
        yield Block(node=node, index=index, name=block.name, anchors={"whole": node})
