"""Code that people put into a script by hand, in the place of what a recipe writes."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from retrofit.survey.sites.base import Site
from retrofit.survey.sites.call import CallSite


@dataclass(eq=False, kw_only=True)
class Block(Site):
    """Code that people put into a script by hand, in the place of what a recipe writes; `node` is a call in it.

    The anchor "whole" is the outermost statement of it.

    Attributes:
        name: its kind.
        odd: what stands in it that it does not need, or that reads what it gives a name.
        rest: the code that stays of it, "" where nothing does.
        score: of one that hands the score over, the code of the score.
        complete: the name by which what follows asks whether training is complete, "" where nothing does.
    """

    name: str
    odd: list[Site] = field(default_factory=list)
    rest: str = ""
    score: str = ""
    complete: str = ""

    _facts = (("kind", "name"),)

    @property
    def chosen_folder(self) -> str:
        """The code of the folder that it loads from, "" where that is written out, or there is none."""
        call = CallSite(node=self.node, index=self.index)
        given = call.argument("folder", 1) if isinstance(self.node, cst.Call) else None
        return "" if given is None or call.literal("folder", 1) is not None else given

    @property
    def called(self) -> str:
        """The name of the function that it calls."""
        return self.index.qualified(getattr(self.node, "func", None)).rpartition(".")[2]
