"""Files that other rules change."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import libcst as cst

from retrofit.neighbours import Neighbour
from retrofit.paths import leaves_out
from retrofit.survey.scopes import Scope
from retrofit.survey.sites.base import Site
from retrofit.text import tree_of


@dataclass(eq=False, kw_only=True)
class EditedFile(Site):
    """A file that other rules change, for the imports that their code needs; `node` is its module.

    Attributes:
        entry: whether it is the entry script.
        written: all new code for it.
        neighbours: other scripts that import it.
    """

    entry: bool
    written: str
    neighbours: Sequence[Neighbour] = ()

    @property
    def position(self) -> tuple[int, int]:
        return (1, 1)

    @property
    def scope(self) -> Scope:
        return self.file.scope

    def anchor(self, name: str | None) -> cst.CSTNode:
        return self.node

    @property
    def importers(self) -> list[str]:
        """The other scripts that import it, as messages name them."""
        return [script.shown for script in self.neighbours if script.shown != self.file.source.shown]

    @property
    def alone(self) -> bool:
        """Whether it trains by itself as well, when it is started."""
        return len(self.importers) < len(self.neighbours)

    @property
    def elsewhere(self) -> list[str]:
        """Those of them that do not find what lies in the folder from which the entry script is started."""
        return [script.shown for script in self.neighbours if not script.finds]

    @property
    def lost(self) -> bool:
        """Whether the file, or another one of the project, may take that folder off Python's path."""
        trees = [tree_of(one.source.data) for one in self.index.files if b"sys.path" in one.source.data]
        return any(leaves_out(tree) for tree in trees if tree is not None)

    @property
    def way(self) -> str:
        """The path of that folder, from the file's own."""
        start = self.index.source.path.parents[self.index.module.count(".")]
        return Path(os.path.relpath(start, self.file.source.path.parent)).as_posix()

    def uses(self, name: str) -> bool:
        """Whether the new code uses ``name``."""
        return re.search(rf"\b{name}\b", self.written) is not None

    def imported_as(self, module: str) -> str | None:
        """Return the name under which ``module`` is imported in the file, None where it is not."""
        return self.file.imported_as(module)
