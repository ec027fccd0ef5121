"""Where the model is built, counted and checked."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from retrofit.survey.scopes import Statement
from retrofit.survey.sites.base import Site


@dataclass(eq=False, kw_only=True)
class Model(Site):
    """Where the model that is wrapped gets built; `node` is the statement after which it is there.

    Attributes:
        target: the variable that holds it.
        built: the building expression without the moves, "" where the statement is not a single plain assignment.
        moved: the moves called on it in the same statement, such as `.to(device)`.
        in_wrapper: whether it is built inside the wrapper call, so that `node` is the wrapper's statement.
        side: where new statements about the model go: "after" the statement, or "before" the wrapper's.
        unseen: whether what builds it is not seen.
    """

    target: str
    built: str = ""
    moved: str = ""
    in_wrapper: bool = False
    side: str = "after"
    unseen: bool = False

    @property
    def done(self) -> Statement:
        """The first statement that runs where new statements about the model do."""
        return next(iter(self.statement.following), self.statement) if self.side == "after" else self.statement

    _facts = (("target", "target"), ("moved", "moved"))


@dataclass(eq=False, kw_only=True)
class UnnamedModel(Site):
    """The construction of a model that no name gets; `node` is its call, or the item that it is.

    Attributes:
        fresh: a name that nothing has yet.
    """

    fresh: str

    @property
    def whole(self) -> str:
        """The code of the construction with what is called on it."""
        return self.index.source.code(self.anchors["whole"])


@dataclass(eq=False, kw_only=True)
class Follower(Site):
    """The construction of a second model that is to follow the trained one, as a target network does.

    Its anchor "built" is the call.

    Attributes:
        model: the code of the model whose weights it takes.
    """

    model: str

    @property
    def copies(self) -> str:
        """The name under which its file imports the module copy, "" for none."""
        return self.file.imported_as("copy") or ""

    _facts = (("of", "model"),)


@dataclass(eq=False, kw_only=True)
class Assertion(Site):
    """A script's own check of the model's parameters, which are more with dendrites, or of their names, which change.

    `node` is an `assert`, its anchor "comparison" the test; the call of a function that checks, its anchor "state" the
    model's state, which it is given.

    Attributes:
        least: for a number that the model has just so many parameters as, the code that it has no fewer; "" for others.
        checked: the code of the model whose state is checked, "" for an `assert`.
    """

    least: str = ""
    checked: str = ""

    _facts = (("checks", "code"),)


@dataclass(eq=False, kw_only=True)
class Minimum(Site):
    """A condition by which a script trains only on several GPUs or in several processes; `node` is it.

    Attributes:
        wanted: whether it holds where there are several.
    """

    wanted: bool

    @property
    def anew(self) -> str:
        """The condition's code, as one side of another."""
        assert isinstance(self.node, cst.BaseExpression)
        return self.code if self.node.lpar or isinstance(self.node, cst.Comparison) else f"({self.code})"


@dataclass(eq=False, kw_only=True)
class ModuleCount(Site):
    """A walk through the perforated model, such as `modules()`, that dendrites are to be left out of, or a child of it.

    The script counts the modules of a class, raises at a class or a name that it does not know, trains or freezes
    parameters by their places, or asks for the class of a child, which is the library's. The anchor "state" is the
    same as `node`.

    Attributes:
        kind: "modules", "named_modules", "parameters" or "named_parameters"; "layer" for a child.
        whose: the code of the model, of a part of it, or of the child.
    """

    kind: str
    whose: str

    _facts = (("walk", "kind"), ("of", "whose"))
