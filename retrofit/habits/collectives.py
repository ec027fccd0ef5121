"""Find what all ranks have to run together, and runs on some alone: collectives, and a wrapped model's forward pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from retrofit.habits.file import TrainingFile
from retrofit.habits.ranked import RankCall, bare, told_by_rank
from retrofit.knowledge.kinds import Collective as CollectiveKind
from retrofit.survey.nodes import dotted, last_name
from retrofit.survey.ranks import opposite
from retrofit.survey.scopes import Scope
from retrofit.survey.sites.wrapper import Wrapper
from retrofit.survey.wrappers import new_groups


@dataclass(eq=False, kw_only=True)
class Collective(RankCall):
    """A call that waits for all ranks of the group, or of a function of the file that does so.

    Attributes:
        waits: the collective itself, or the one in the called function.
        answered: whether the ranks that do not come here run a collective elsewhere.
    """

    waits: cst.Call
    answered: bool

    @property
    def name(self) -> str:
        """What waits, by its last name."""
        return last_name(self.waits.func)

    @property
    def through(self) -> str:
        """The function of the file that is called and holds the collective, "" where it stands here."""
        return "" if self.waits is self.node else dotted(self.call.func) or ""

    @property
    def whole_group(self) -> bool:
        """Whether it is about all ranks, as far as its arguments tell."""
        if any(arg.star for arg in self.waits.args):
            return False
        return not any(
            (arg.keyword is not None and arg.keyword.value == "group")
            or "group" in self.index.source.code(arg.value)
            or new_groups(self.index, self.habits.flow.origins(arg.value, self.index.scope_of(arg.value)))
            for arg in self.waits.args
        )

    @cached_property
    def alone_at(self) -> str:
        """Which ranks alone run it, by a condition that surely speaks of ranks: "first", "others" or ""."""
        ranks = self.ranks
        return ranks if ranks in ("first", "others") and told_by_rank(self.habits, self.node) else ""


@dataclass(eq=False, kw_only=True)
class WrappedForward(RankCall):
    """A call of a model in DistributedDataParallel; the anchor "model" is the model.

    Attributes:
        wrapper: the wrapper.
    """

    wrapper: Wrapper

    @property
    def model_code(self) -> str:
        """The code of the model."""
        return self.index.source.code(self.call.func)

    @property
    def bare(self) -> str:
        """The code of the model without its wrapper."""
        return bare(self.habits, self.wrapper, self.model_code)

    @cached_property
    def trains(self) -> bool:
        """Whether rank 0 alone runs a backward pass after it."""
        later = [b for b in self.habits.backwards if b.scope is self.scope and b.statement.order > self.statement.order]
        return any(self.habits.ranks(backward.node) == "first" for backward in later)

    @cached_property
    def first_alone(self) -> bool:
        """Whether rank 0 alone runs it, by a condition that surely speaks of ranks, and the others no other one."""
        if self.ranks != "first" or not told_by_rank(self.habits, self.node):
            return False
        others = (site for site in self.habits.sites("wrapped-forward") if isinstance(site, WrappedForward))
        return not any(other.ranks == "others" for other in others)


def find_collectives(file: TrainingFile) -> Iterator[Collective]:
    """Yield the collectives of a file, and the calls of its functions that run one on every way."""
    own = file.calls(*file.index.knowledge.named(CollectiveKind))
    built = [wrapper.call for wrapper in file.wrappers if wrapper.kind == "ddp"]
    holders: dict[Scope, cst.Call] = {}
    for call in own:
        statement = file.index.statement(call)
        if statement.parent is not None and statement.parent.node is statement.scope.node:
            holders.setdefault(statement.scope, call)
    found = [(call, call) for call in (*own, *built)]
    found += [(call, held) for scope, held in holders.items() for call in file.flow.callers(scope)]
    ranks = {call: file.ranks(call) for call, _ in found}
    for call, waits in found:
        if call is waits or ranks[waits] not in ("first", "others"):
            answered = any(ranks[one] == opposite(ranks[call]) for one, _ in found)
            yield Collective(node=call, index=file.index, habits=file, waits=waits, answered=answered)


def find_wrapped_forwards(file: TrainingFile) -> Iterator[WrappedForward]:
    """Yield the calls of models in DistributedDataParallel."""
    if not file.ddp:
        return
    beside = file.index.knowledge.module_methods
    for call in file.index.calls:
        name = dotted(call.func)
        if name is None or name.rpartition(".")[2] in beside or name in file.index.entry.aliases:
            continue
        wrapper = file.wrapper_of(call.func)
        if wrapper is not None and wrapper.kind == "ddp":
            site = WrappedForward(node=call, index=file.index, habits=file, wrapper=wrapper)
            site.anchors["model"] = call.func
            yield site
