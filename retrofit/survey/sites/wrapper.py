"""Where a model is wrapped for several GPUs."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from retrofit.survey.nodes import argument, dotted, nodes_in
from retrofit.survey.scopes import Binding, Statement
from retrofit.survey.sites.base import Site


@dataclass(eq=False, kw_only=True)
class Wrapper(Site):
    """A model wrapped for several devices; `node` is the wrapper call.

    Attributes:
        kind: "ddp" or "dp"; "ddp" where the script chooses one of them.
        kinds: those of which the call takes one.
        target: what the wrapped model is assigned to, "" where it is not assigned plainly.
        operand: the code of what is wrapped.
        module: the name of the module in it: `model` for the operand `model.to(device)`, "" where the call builds it.
        others: what else it is assigned to by the same statement.
        chain: what is called on the wrapper in the same statement, such as `.cuda()`.
        part: whether only a part of a model is wrapped (`model.features`).
        moved: where the call builds the model, the moves called on it there, such as `.to(device)`.
        members: whether what only the wrapper has (`.module`, `no_sync`) is used before the first backward pass, or the
            script insists on a wrapper.
        uses: where that is.
        moves_inputs: whether the model may rely on the wrapper to move what it is called with to its device.
        returned: whether a function returns it instead of assigning it.
        fresh: where it is neither, but used in a statement, a name that nothing has yet for it; "" where none helps.
        by: the calls of its function that wrap this model, and give it a name.
        shared: whether others of them wrap other models.
        first: whether it is the first wrapper of its statement.
        preset: the arguments that a `functools.partial` gives it.
        choice: what the call takes one of, where that may be no wrapper; "" for no such choice.
        idle: whether it is none of the training's: another one wraps the model so for itself, or a constant rules it
            out, and every process group too: `ddp = False`, and `if ddp:` around them.
        uncalled: where what is wrapped is not seen, the function around it that nothing was found to call; else "".
        brought: where what is wrapped is not seen, and its function is given what has it, and the optimizer, the place
            that starts a process by that; else "".
        own: whether its class is the project's own DataParallel, which may be called as no other is.
        closed: the wrapper's class, where it is a project's or library's own and takes no find_unused_parameters.
        alone: where the process group of one process is made that it is given, "" for any other.
    """

    kind: str
    kinds: tuple[str, ...]
    target: str
    operand: str
    module: str
    others: list[str] = field(default_factory=list)
    chain: str = ""
    part: bool = False
    moved: str = ""
    members: bool = False
    uses: list[Statement] = field(default_factory=list)
    moves_inputs: bool = False
    returned: bool = False
    fresh: str = ""
    by: list[Binding] = field(default_factory=list)
    shared: bool = False
    first: bool = True
    preset: list[cst.Arg] = field(default_factory=list)
    choice: str = ""
    idle: bool = False
    uncalled: str = ""
    brought: str = ""
    own: bool = False
    closed: str = ""
    alone: str = ""

    @property
    def call(self) -> cst.Call:
        """The wrapper call."""
        assert isinstance(self.node, cst.Call)
        return self.node

    @property
    def function(self) -> str:
        """The code of what is called."""
        return self.index.source.code(self.call.func)

    @property
    def name(self) -> str:
        """The model's name: that which it gets of a call of its function, where others wrap other models."""
        return self.by[0].target if self.shared else self.target or self.operand

    def placed(self, beside: Site | None = None) -> str:
        """Return the place where this model alone is wrapped, as `place` does."""
        file = beside.file if beside is not None else None
        return self.index.place(self.by[0].statement.node, file) if self.shared else self.place(beside)

    @property
    def whole(self) -> str:
        """The code of the wrapper with what is called on it."""
        return self.index.source.code(self.anchors["whole"])

    def given(self, name: str, position: int | None = None) -> cst.BaseExpression | None:
        """Return an argument's expression, that of the call before one that is preset; None where it is not given."""
        preset = (arg.value for arg in self.preset if arg.keyword is not None and arg.keyword.value == name)
        return argument(self.call, name, position) or next(preset, None)

    def keyword(self, name: str) -> str | None:
        """Return the code of a keyword argument, None where it is not given."""
        value = self.given(name)
        return None if value is None else self.index.source.code(value)

    @property
    def unused(self) -> str:
        """The code of find_unused_parameters, "" where it is not given."""
        return self.keyword("find_unused_parameters") or ""

    @property
    def spread(self) -> bool:
        """Whether keyword arguments come from a mapping, `**kwargs`."""
        return any(arg.star == "**" for arg in self.call.args)

    @property
    def mapping(self) -> str:
        """The code of the last `**kwargs` where it may hold find_unused_parameters, which nothing may give twice."""
        if not self.spread or "find_unused_parameters" not in self.index.source.words():
            return ""
        code = self.index.source.code(self.anchors["mapping"])
        bare = isinstance(self.anchors["mapping"], (cst.Name, cst.Attribute, cst.Subscript, cst.Call, cst.Dict))
        return code if bare else f"({code})"

    @property
    def unwrapped(self) -> str:
        """The code of the model as this statement leaves it, but not wrapped, moved under the same condition."""
        code = (self.operand if self.module else self.target + self.moved) + self.chain
        choice = self.index.parents[self.anchors["whole"]]
        if self.chain and isinstance(choice, cst.IfExp) and {dotted(choice.body), dotted(choice.orelse)} != {None}:
            if any(isinstance(one, cst.Comparison) for one in nodes_in(choice.test)):
                return code  # it may be with the number of processes or GPUs, of which the initialisation has one
            return self._in_choice(choice, code)
        return code

    def chosen(self, code: str) -> str:
        """Return code in the wrapper's place, under its condition where the bare model is taken else."""
        choice = self.index.parents[self.anchors["whole"]]
        if self.chain or not isinstance(choice, cst.IfExp):
            return code
        ways = {self.index.source.code(one) for one in (choice.body, choice.orelse)}
        return self._in_choice(choice, code) if ways == {self.whole, self.operand} else code

    def _in_choice(self, choice: cst.IfExp, code: str) -> str:
        return self.index.source.code(choice).replace(self.whole, code, 1)

    @property
    def keeps(self) -> str:
        """What stands before the wrapper in its statement: `model = `, or `return `."""
        return "return " if self.returned else "".join(f"{name} = " for name in [self.target, *self.others])

    @property
    def changes_unwrapped(self) -> bool:
        """Whether leaving the statement out leaves more out than the wrapper: another name, a move to a device."""
        return bool(self.others) or self.target != self.unwrapped

    @property
    def facts(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "target": self.target,
            "operand": self.operand,
            "keywords": {a.keyword.value: self.index.source.code(a.value) for a in self.call.args if a.keyword},
            "part": self.part,
        }
