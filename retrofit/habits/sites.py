"""What the sites of `retrofit check` share."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from retrofit.habits.file import TrainingFile
from retrofit.survey.nodes import argument, dotted, receiver
from retrofit.survey.sites.call import CallSite


@dataclass(eq=False, kw_only=True)
class Call(CallSite):
    """A call of a known function or class; the anchor "call" is the call itself.

    Attributes:
        habits: the file that it stands in.
    """

    habits: TrainingFile

    def __post_init__(self) -> None:
        self.anchors.setdefault("call", self.node)

    @property
    def call(self) -> cst.Call:
        """The call."""
        assert isinstance(self.node, cst.Call)
        return self.node

    @property
    def met_early(self) -> bool:
        """Whether ranks that end their turn early meet the others in it, from a call with `early=True` beside it."""
        calls = [one for one in self.index.calls if self.index.qualified(one.func) == self.qualified]
        beside = [one for one in calls if self.index.scope_of(one) is self.scope]
        return any(dotted(argument(one, "early")) == "True" for one in beside)

    @property
    def spread(self) -> bool:
        """Whether arguments come from a list or mapping, `*args` or `**kwargs`, so that they cannot be told."""
        return any(arg.star for arg in self.call.args)

    @property
    def ranks(self) -> str:
        """Which ranks run it: "first", "others", "all" or "unknown"."""
        return self.habits.ranks(self.node)

    def on_result_of(self, name: str, item: int | None = None) -> bool:
        """Whether it is a method called on what a function returns.

        Args:
            name: the end of the function's full name.
            item: the position in a tuple that it returns, None for the whole.
        """
        held = receiver(self.call)
        made = [] if held is None else self.habits.flow.origins(held, self.scope)
        return any(
            isinstance(one.node, cst.Call) and one.item == item and self.index.qualified(one.node.func).endswith(name)
            for one in made
        )
