"""Tell whether a value that a name is given somewhere can be there where the name is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property, lru_cache

import libcst as cst

from retrofit.survey.arguments import is_namespace
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import called_in
from retrofit.survey.names import Variable
from retrofit.survey.nodes import children, dotted, leaves, names_in, nodes_in
from retrofit.survey.order import runs_always
from retrofit.survey.origins import Origin
from retrofit.survey.scopes import Binding, Scope, Statement


class Reaching:
    """Tells which of the values that names are given can be there where the names are read.

    Args:
        flow: of the whole project.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._given: dict[tuple[cst.CSTNode, Scope, str], list[tuple[cst.CSTNode, Scope, str]]] = {}
        self._under: dict[cst.CSTNode, list[tuple[object, cst.BaseExpression, bool]]] = {}
        self._parts: defaultdict[str, list[Binding]] = defaultdict(list)
        for bound in (*flow.index.bindings, *flow.index.items, *flow.index.appended):
            whole = bound.target.partition("[")[0]
            if "." in whole:
                self._parts[whole.rpartition(".")[2]].append(bound)
        self._giving: dict[tuple[str, Scope], set[cst.CSTNode]] = {}
        self._kept: dict[tuple[str, Statement | Scope], tuple[int, range, set[Scope]]] = {}

    def gives(self, name: str, read: cst.CSTNode, scope: Scope, key: str = "") -> list[tuple[cst.CSTNode, Scope, str]]:
        """Return what gives a name, what stands before its dots, an item of it or an attribute of any object a value.

        Each comes with its scope, and the number of the item that is taken out of it, "" where it is all of it.

        Args:
            read: where its value is asked for.
            scope: of that place.
            key: of the only item that is taken out of it, "" for none, or where that is not written.
        """
        if (read, scope, key) not in self._given:
            self._given[read, scope, key] = list(self._gives(name, read, scope, key))
        return self._given[read, scope, key]

    def _gives(self, name: str, read: cst.CSTNode, scope: Scope, key: str) -> Iterator[tuple[cst.CSTNode, Scope, str]]:
        parts, here = name.split("."), self._flow.index.statement(read)
        for number in range(1, len(parts) + 1):
            holder, variable = self._flow.variable(".".join(parts[:number]), scope)
            for one in self._flow.sources((holder, variable)):
                if one.value is None:
                    continue
                argument = one.scope is not holder and variable in holder.parameters
                given = holder if argument else self._flow.index.statement(one.value)
                if not self.replaced(variable, given, here) and not self._excluded(one.value, read):
                    yield one.value, one.scope, "" if one.item is None else str(one.item)
        for number, part in enumerate(parts):
            bindings = self._parts[part] if number else self._filling(part, scope)
            owner = cst.parse_expression(".".join(parts[:number])) if number and bindings else None
            own = scope.enclosing_class if number == 1 and parts[0] == "self" else None
            made = self._flow.deep_origins(owner, scope) if owner is not None and own is None else set()
            for bound in bindings:
                gone = bound.value is None or self.replaced(bound.target, bound.statement, here)
                gone = gone or self._of_another(bound, own, made)
                gone = gone or (number == len(parts) - 1 and _is_of_another_key(bound, key))
                if bound.value is not None and not gone and not self._excluded(bound.value, read):
                    yield bound.value, bound.statement.scope, "" if bound.item is None else str(bound.item)

    def _filling(self, name: str, scope: Scope) -> list[Binding]:
        """Return what gives items to what a name is in a scope: the variable, or another one that has the same."""
        return list(dict.fromkeys(one for meant in self._meant(name, scope) for one in self._filled.get(meant, ())))

    @cached_property
    def _filled(self) -> dict[Variable | Origin, list[Binding]]:
        """What gives items to variables, by these and by where what they have is made."""
        found = defaultdict[Variable | Origin, list[Binding]](list)
        for bound in (*self._flow.index.items, *self._flow.index.appended):
            whole = bound.target.partition("[")[0]
            for meant in self._meant(whole, bound.statement.scope) if whole.isidentifier() else ():
                found[meant].append(bound)
        return found

    def _meant(self, name: str, scope: Scope) -> set[Variable | Origin]:
        """Return a variable, and where what it has is made; for a method's own object the class."""
        holder = scope.enclosing_class if name == scope.own else None
        if holder is not None:
            return {(self._flow.family(holder), name)}
        return {self._flow.variable(name, scope), *self._flow.deep_origins(cst.Name(name), scope)}

    def _of_another(self, bound: Binding, own: Scope | None, made: set[Origin]) -> bool:
        """Whether what gets an attribute is of one class, and what is read is an attribute of no such object.

        Args:
            bound: what gives the attribute, or an item of it.
            own: the class whose own object is read, None where it is read of another one.
            made: where the objects are made of which it is read then, nothing where that is not seen.
        """
        name, scope = bound.target.partition("[")[0].rpartition(".")[0], bound.statement.scope
        if name == "self":
            holder = scope.enclosing_class
        else:
            known = self._flow.deep_origins(cst.parse_expression(name), scope) if name and (own or made) else set()
            classes = {self._flow.class_made(origin.node) for origin in known}
            holder = classes.pop() if len(classes) == 1 else None
        if holder is None or not (own or made):
            return False
        if own is not None:
            return own is not holder and not any({own, holder} <= line for line in self._lines)
        return not any(self._may_be_of(origin.node, holder) for origin in made)

    def _may_be_of(self, made: cst.BaseExpression, holder: Scope) -> bool:
        """Whether an expression may make an object of a class, or of one that extends it."""
        kind = self._flow.class_made(made)
        if kind is None:
            return not is_namespace(made, self._flow)
        return holder in self._flow.lineage(kind)

    @cached_property
    def _lines(self) -> list[set[Scope]]:
        """What each class is together with all that it extends."""
        return [{*self._flow.lineage(one)} for one in self._flow.index.scopes if one.kind == "class"]

    def _excluded(self, value: cst.CSTNode, read: cst.CSTNode) -> bool:
        """Whether a value is given under a condition that does not hold where it is read."""
        index = self._flow.index
        given, here = index.statement(value), index.scope_of(read)
        under = self._conditions(value)
        for meant, test, holds in self._conditions(read) if under else ():
            for other, one, held in under:
                if held is not holds and other == meant:
                    names = [(name, given.scope) for name in names_in(one)] + [(name, here) for name in names_in(test)]
                    return not any(_changes(name, scope, given, index) for name, scope in names)
        return False

    def _conditions(self, node: cst.CSTNode) -> list[tuple[object, cst.BaseExpression, bool]]:
        """Return the conditions on the way to a node in its function, each after what it asks for."""
        if node not in self._under:
            scope, found = self._flow.index.scope_of(node), conditions(self._flow.index, node)
            self._under[node] = [(_meant(test, scope, self._flow), test, holds) for test, holds in found]
        return self._under[node]

    def replaced(self, name: str, given: Statement | Scope, here: Statement) -> bool:
        """Whether what a statement or an argument gives a name is replaced before another one, or comes later."""
        if (name, given) not in self._kept:
            between = self._until_replaced(name, given)
            there = range(between[0].order, between[-1].last + 1) if between else range(0)
            called = called_in(self._flow.index, self._flow, *between)
            self._kept[name, given] = (_comes(name, given), there, called)
        begin, there, called = self._kept[name, given]
        if here.last < begin and isinstance(given, Statement) and given.scope is here.scope:
            return True
        return bool(there) and here.order not in there and here.scope not in called

    def _until_replaced(self, name: str, given: Statement | Scope) -> list[Statement]:
        """Return the statements from one that gives a name a value to the one that does so whichever way is taken."""
        index = self._flow.index
        if isinstance(given, Statement):
            scope, ways = given.scope, [([part], part.following) for part in (given, *given.around)]
        else:
            body = given.node.body if isinstance(given.node, cst.FunctionDef) else None
            scope, ways = given, [([], index.statements_in(body))] if body is not None else []
        if (name, scope) not in self._giving:
            self._giving[name, scope] = {one.statement.node for one in index.bound([name], scope)}
        giving, ends = self._giving[name, scope], not _outlives(name, scope)
        for first, following in ways:
            for number, later in enumerate(following, 1):
                if runs_always(self._branch(later, given), giving, ends):
                    return [*first, *following[:number]]
        return []

    def _branch(self, later: Statement, given: Statement | Scope) -> cst.CSTNode | None:
        """Return what runs of a statement where a value was given: one branch, under a condition of the value's own."""
        node, flow = later.node, self._flow
        if not isinstance(node, cst.If) or not isinstance(given, Statement):
            return node
        for test, holds in conditions(flow.index, given.node):
            if _meant(test, given.scope, flow) == _meant(node.test, given.scope, flow):
                names = (*names_in(test), *names_in(node.test))
                same = not any(_changes(name, given.scope, given, flow.index) for name in names)
                return (node.body if holds else node.orelse) if same else node
        return node


@lru_cache(maxsize=1)
def reaching_of(flow: Flow) -> Reaching:
    """Return what tells it of a project: one alone, as all that asks about the same one asks the same."""
    return Reaching(flow)


def _is_of_another_key(bound: Binding, key: str) -> bool:
    """Whether what gets a value is an item by a key that is written, and not the one by some key."""
    given = bound.target.partition("[")[2].partition("]")[0]
    return key != "" and given[:1] in ("'", '"') and given[1:-1] != key.strip("'")


def _outlives(name: str, scope: Scope) -> bool:
    """Whether what a function gives a name is there when it has ended."""
    return "." in name or name in scope.outer


def _comes(name: str, given: Statement | Scope) -> int:
    """Return from which statement on a function's own variable may have a value: that of the outermost loop, if any."""
    if not isinstance(given, Statement) or _outlives(name, given.scope):
        return -1
    turns = [one.order for one in given.around if isinstance(one.node, (cst.For, cst.While))]
    return min([given.order, *turns])


def conditions(index: Index, node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """Yield the conditions on the way to a node in its function, each with whether it holds there."""
    early = [one.node for one in index.statement(node).before]
    left = [(one.test, False) for one in early if isinstance(one, cst.If) and leaves(one.body)]
    left += [(one.test, False) for one in early if isinstance(one, cst.While) and not _may_break(one)]
    for test, holds in (*index.guards(node), *left):
        yield from _known(test, holds)


def _known(test: cst.BaseExpression, holds: bool) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """Yield what a condition says that holds or not: itself, and each part of it of which that tells the same."""
    while isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        test, holds = test.expression, not holds
    yield test, holds
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And if holds else cst.Or):
        yield from (*_known(test.left, holds), *_known(test.right, holds))


def _may_break(loop: cst.While) -> bool:
    return any(isinstance(one, cst.Break) for one in nodes_in(loop.body, cst.For, cst.While))


def _meant(test: cst.CSTNode, scope: Scope, flow: Flow) -> object:
    """Return what a test asks for: the same as another one where its variables get all that they are from the same."""
    name = dotted(test)
    if name is None:
        parts = children(test)
        kind = (type(test), type(getattr(test, "operator", None)))
        return (kind, *(_meant(part, scope, flow) for part in parts)) if parts else flow.index.source.code(test)
    variable, seen = flow.variable(name, scope), set[Variable]()
    while variable not in seen and len(sources := flow.sources(variable)) == 1 and sources[0].item is None:
        seen.add(variable)
        given = dotted(sources[0].value)
        variable = flow.variable(given, sources[0].scope) if given is not None else variable
    return variable


def _changes(name: str, scope: Scope, given: Statement, index: Index) -> bool:
    """Whether what a condition asks for may be another thing after a value is given under it."""
    for bound in (one.statement for one in index.bound([name], scope)):
        if any(isinstance(part.node, (cst.For, cst.While)) for part in bound.around):
            return True
        if scope is given.scope and bound.order > given.order:
            return True
    return False
