"""Libraries that own the training loop, or shard the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from retrofit.survey.sites.base import Site

if TYPE_CHECKING:
    from retrofit.survey.sites.script import Script


@dataclass(eq=False, kw_only=True)
class Framework(Site):
    """A use of a library that owns the training loop or shards the model.

    Attributes:
        name: the library.
        advice: what its user can do.
        beside: whether code that goes through it may stand beside a training of the script's own.
        option: the condition under which alone it is used, "" where there is none.
        wraps: whether it wraps the model itself, and holds on to its parameters.
        copies: whether it is a copy of the model.
        uses: where it takes part in a training, only under the option.
        used: where what trains in it is called or extended, of those that no option keeps from where there are any.
    """

    name: str
    advice: str
    beside: bool = False
    option: str = ""
    wraps: bool = False
    copies: bool = False
    uses: list[cst.CSTNode] = field(default_factory=list)
    used: list[Site] = field(default_factory=list)

    def standing(self, script: Script) -> str:
        """Tell what such a library is to a training.

        Args:
            script: the script that it is used in.

        Returns:
            "owner" of what the training needs; "engine" of a training that has no loop of its own; "option" of one that
            has; "wrapper" that only other code goes through; "copy" of the model that begins anew with each round; or
            "" where it is none of these.
        """
        if self.copies and script.kind and not script.in_process:
            return "copy"
        may_wrap = script.kind or (script.late_imports and self.option)  # what is imported so may
        if not may_wrap or not self.beside:
            return "owner"
        if self.wraps:
            always = not any(isinstance(part.node, cst.If) for part in self.statement.path)
            return "owner" if script.kind == "dp" and always else "wrapper"
        if script.loops:
            return "option" if self.option else ""
        return "" if self.option else "engine"

    _facts = (("name", "name"),)


@dataclass(eq=False, kw_only=True)
class Detour(Site):
    """The first statement under an option, off by default, that leads to what no rewriting covers.

    Attributes:
        option: the condition that holds there.
        why: what it leads to.
    """

    option: str
    why: str

    _facts = (("option", "option"),)
