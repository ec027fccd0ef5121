"""What code consists of: files, scopes in which names live, statements, and values that are given to names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import libcst as cst

from retrofit.source import Source


@dataclass(eq=False)
class Scope:
    """A module, class or function body in which names live.

    Attributes:
        kind: "module", "class" or "function".
        name: as in the source, "" for the module.
        parameters: a function's parameter names in order, `self` included.
        names: every name bound in this scope.
        assigned: those of them that are bound otherwise than by an import.
        imports: what the names that it imports stand for, several things where an `if` decides.
        outer: names declared global or nonlocal.
        file: a module's file, None for any other scope.
        earlier: the function or class that the scope around this one gave this name before, None for none.
        adopter: the class that a function is a method of as its body imports it, None for none.
    """

    kind: str
    name: str
    parent: Scope | None
    node: cst.CSTNode
    parameters: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    assigned: set[str] = field(default_factory=set)
    imports: dict[str, list[str]] = field(default_factory=dict)
    outer: set[str] = field(default_factory=set)
    inner: dict[str, Scope] = field(default_factory=dict)
    file: File | None = None
    earlier: Scope | None = None
    adopter: Scope | None = None

    @property
    def module(self) -> Scope:
        """The module's scope that this one is in."""
        return self if self.parent is None else self.parent.module

    @property
    def around(self) -> Iterator[Scope]:
        """The scopes around this one, innermost first."""
        parent = self.parent
        while parent is not None:
            yield parent
            parent = parent.parent

    @property
    def holder(self) -> Scope | None:
        """The class whose method this scope is, None for any other."""
        return self.adopter or (self.parent if self.parent is not None and self.parent.kind == "class" else None)

    @cached_property
    def searched(self) -> list[Scope]:
        """The scopes that are searched for a name which is read here, this one first: of classes no other."""
        return [self, *(scope for scope in self.around if scope.kind != "class")]

    def binds(self, name: str) -> bool:
        """Whether the code gives ``name`` a meaning here; a module counts whole."""
        return any(name in scope.names and name not in scope.outer for scope in self.searched)

    @property
    def own(self) -> str:
        """The name that the method around has for its object."""
        adopted = next((one for one in (self, *self.around) if one.adopter is not None), None)
        return adopted.parameters[0] if adopted is not None else "self"

    @property
    def enclosing_class(self) -> Scope | None:
        """The class whose method this scope is, or is in."""
        scope: Scope | None = self
        while scope is not None and scope.kind != "class":
            scope = scope.adopter or scope.parent
        return scope


@dataclass(eq=False)
class Statement:
    """A statement and its place among its siblings.

    Attributes:
        siblings: the statements of the block it stands in, itself included.
        parent: the compound statement that holds its block, None at module level.
        order: how many statements of the project begin before it.
        last: the order of the last statement that it holds, its own where it holds none.
        crowded: whether it shares its line with another statement (`if x: a`, `a; b`).
    """

    node: cst.BaseStatement | cst.BaseSuite
    scope: Scope
    parent: Statement | None
    siblings: list[Statement]
    index: int
    order: int
    crowded: bool = False
    last: int = -1

    @property
    def ancestors(self) -> Iterator[Statement]:
        """The statements around this one, innermost first, the function's or class's own statement last."""
        parent = self.parent
        while parent is not None:
            yield parent
            parent = parent.parent

    @property
    def around(self) -> list[Statement]:
        """The statements around this one in its own function, innermost first."""
        return [one for one in self.ancestors if one.scope is self.scope]

    @property
    def path(self) -> list[Statement]:
        """The way from module level down to this statement, itself last."""
        return [*reversed(list(self.ancestors)), self]

    @property
    def following(self) -> list[Statement]:
        """The later statements of the same block."""
        return self.siblings[self.index + 1 :]

    @property
    def preceding(self) -> list[Statement]:
        """The earlier statements of the same block, nearest first."""
        return self.siblings[: self.index][::-1]

    @property
    def before(self) -> list[Statement]:
        """The earlier statements of its block and of those around that in its function, nearest first."""
        return [early for part in (self, *self.around) for early in part.preceding]


@dataclass(eq=False)
class File:
    """One file of a project.

    Attributes:
        name: its module's full name, "" for the entry script.
        package: the full name of the package that its relative imports start from, "" where none is known.
        aliases: what each imported name stands for, as a full path.
        imports: every import, as its statement and the module.
        stars: the modules of which it imports everything.
        body: its statements at module level.
    """

    source: Source
    name: str
    scope: Scope
    aliases: dict[str, str] = field(default_factory=dict)
    imports: list[tuple[Statement, str]] = field(default_factory=list)
    stars: list[str] = field(default_factory=list)
    body: list[Statement] = field(default_factory=list)
    package: str = ""

    def imported_as(self, module: str) -> str | None:
        """Return the name under which ``module`` is imported here, None where it is not."""
        return next((name for name, full in self.aliases.items() if full == module), None)


@dataclass(eq=False)
class Binding:
    """A value given to a name: an assignment, a loop target, a `with ... as`.

    Attributes:
        target: the name, or dotted path such as `self.model`.
        value: the expression, None where it cannot be told (loop targets).
        item: position in an unpacked tuple, None for a plain assignment.
    """

    target: str
    value: cst.BaseExpression | None
    item: int | None
    statement: Statement
