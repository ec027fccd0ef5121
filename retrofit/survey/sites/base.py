"""One place in one file of a project, with what a rule may ask of any."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import libcst as cst

from retrofit.survey.index import Index
from retrofit.survey.scopes import File, Scope, Statement


@dataclass(eq=False, kw_only=True)
class Site:
    """One place in one file of the project.

    Attributes:
        node: the expression or statement that the site is about.
        index: the project's files.
        arguments: the name under which the parsed command line is in scope here, None where it is not.
        model: the name under which the wrapped model is in scope here, "" where it is not.
        anchors: further nodes of the site that an edit may be about, by name.
        facts: what `retrofit inspect` shows of the site.
    """

    node: cst.CSTNode
    index: Index
    arguments: str | None = None
    model: str = ""
    anchors: dict[str, cst.CSTNode] = field(default_factory=dict)
    #: Words for such facts, each with the attribute that is one.
    _facts: ClassVar[tuple[tuple[str, str], ...]] = ()

    @property
    def statement(self) -> Statement:
        """The statement that holds the site."""
        return self.index.statement(self.node)

    @property
    def scope(self) -> Scope:
        """The scope that the site is evaluated in."""
        return self.statement.scope

    @property
    def file(self) -> File:
        """The file that the site stands in."""
        return self.index.file(self.node)

    @property
    def shown(self) -> str:
        """How messages name the site's file."""
        return self.file.source.shown

    @property
    def position(self) -> tuple[int, int]:
        """1-based line and column."""
        return self.index.source.position(self.node)

    @property
    def line(self) -> int:
        """1-based line."""
        return self.position[0]

    def place(self, beside: Site | None = None) -> str:
        """Return "line N", with the name of any file other than that of ``beside``, the entry script's."""
        return self.index.place(self.node, beside.file if beside is not None else None)

    @property
    def code(self) -> str:
        """The site's code as it stands in the file."""
        return self.index.source.code(self.node)

    @property
    def facts(self) -> dict[str, object]:
        """What `retrofit inspect` shows besides the place."""
        return {word: getattr(self, name) for word, name in self._facts}

    def anchor(self, name: str | None) -> cst.CSTNode:
        """Return the node that an edit is about: the named anchor, or the statement that holds the site."""
        return self.anchors[name] if name else self.statement.node

    def preceded_by(self, name: str) -> bool:
        """Whether an earlier statement of the same block mentions ``name``."""
        return any(self._names(statement.node, name) for statement in self.statement.preceding)

    def just_preceded_by(self, name: str) -> bool:
        """Whether the statement directly before this one mentions ``name``."""
        return any(self._names(statement.node, name) for statement in self.statement.preceding[:1])

    def just_followed_by(self, name: str) -> bool:
        """Whether the statement directly after this one mentions ``name``."""
        return any(self._names(statement.node, name) for statement in self.statement.following[:1])

    def followed_by(self, name: str) -> bool:
        """Whether a later statement of the same block mentions ``name``."""
        return any(self._names(statement.node, name) for statement in self.statement.following)

    def inside(self, name: str) -> bool:
        """Whether the site stands in an `if`, `with` or function whose head mentions ``name``."""
        for ancestor in self.statement.ancestors:
            node = ancestor.node
            heads: list[cst.CSTNode] = []
            if isinstance(node, cst.If):
                heads = [node.test]
            elif isinstance(node, cst.With):
                heads = list(node.items)
            elif isinstance(node, (cst.FunctionDef, cst.ClassDef)):
                heads = [node.name]
            if any(self._names(head, name) for head in heads):
                return True
        return False

    def mentions(self, name: str) -> bool:
        """Whether the site's own code mentions ``name``."""
        return self._names(self.node, name)

    def _names(self, node: cst.CSTNode, name: str) -> bool:
        return name in self.index.source.words(node)
