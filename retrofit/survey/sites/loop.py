"""The loop over epochs, and the backward passes in it."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from retrofit.survey.nodes import is_single
from retrofit.survey.scopes import Statement
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.call import CallSite


@dataclass(eq=False, kw_only=True)
class Backward(Site):
    """A backward pass; `node` is the call.

    Attributes:
        loop: the batch loop around it.
    """

    loop: Statement | None

    _facts = (("call", "code"),)


@dataclass(eq=False, kw_only=True)
class Clock(Site):
    """A condition under which an epoch loop is left at a time of the clock.

    Attributes:
        optional: whether it is asked only where an option says otherwise than by default.
    """

    optional: bool = False


@dataclass(eq=False, kw_only=True)
class Stop(Site):
    """What leaves the epoch loop, or its head's condition, where some ranks may do so and others not.

    So does what leaves a loop that goes through what the epoch loop yields, on all ranks, and what a signal alone has
    leave the epoch loop.

    Attributes:
        report: where the epoch loop hands the score of that turn over then, which is left before; "" for the others.
        cuts: whether more of such a turn would follow.
        skips: where a turn hands its score over that some ranks leave before, with their batches alone; "" for others.
        signalled: whether a signal alone has it leave, so that the training is interrupted.
    """

    report: str = ""
    cuts: bool = False
    skips: str = ""
    signalled: bool = False

    @property
    def is_head(self) -> bool:
        """Whether it is the condition of the loop's head."""
        return isinstance(self.node, cst.BaseExpression)


@dataclass(eq=False, kw_only=True)
class EpochLoop(Site):
    """The loop over epochs, or over iterations where there is none; `node` is the loop's statement.

    The anchor "range" is what limits it: what a `for` goes through, within `enumerate` and progress bars, or the
    condition of a `while`.

    Attributes:
        target: the loop variable's code; for a `while` loop the counter in its condition, "" where it has none.
        limited: whether the loop's head ends it after a number of turns.
        by_iteration: whether a turn is one step of the optimizer, so that no loop over batches is inside.
        by_step: whether it goes on by such turns, rather than through epochs of one step each.
        unclear: whether nothing tells which of both such turns are.
        inner: the loops inside it, in its function, that lead to a backward pass.
        training: all statements that lead to a backward pass, in its function and in others.
        repeats: the heads and places of the loops around it, which train anew.
        goes_on: what trains one model further by it in the same run: loops around it, calls after another one.
        further: those that train one model further, where no score tells which of all these is over epochs.
        stage: the head and place of the loop over epochs in each of its turns, where these are stages of one training.
        earlier: the places of the loops that train before it and validate nothing, as for a warm-up.
        leftovers: the statements after the loop, which training cannot reach with its best where it leaves inside it.
        leaving: what leaves the loop, but for the end of what a `for` loop goes through: statements, its condition.
        takers: the loops that go through what it yields.
        stops: where of them some ranks may leave it, and others not, or all by a signal.
        clocks: the conditions under which it is left at a time of the clock.
        shares: what takes each rank's own share of something that its loops go through.
        joins: the contexts around it in which ranks go through their epochs without waiting for each other.
        absentees: the collectives of ranks that never come to it.
        partings: what ends the process group in a turn of it, after which it goes on.
        thaws: (place, code) of each `if` about the turn's number by which it lets frozen parameters train.
        last_turns: the conditions under which something runs in its planned last turn alone.
        planned_files: what loads, after it, a file by the number of a planned turn, where each saves its own.
        resumed: counters that may go on in it from a number of an earlier start, such as that in a checkpoint.
        repeated: the place of a loop around it that builds and trains a model in each turn, "" for none.
        anew: the place at which each of its turns builds the model anew, "" for none.
        tried: whether it runs only as one of several trials of a library.
        taken: the condition by which a run takes it and none of the others, of several; "" where nothing tells.
        result: the code of what its function gives when it leaves the loop and not after it, "" for nothing.
    """

    target: str
    limited: bool
    by_iteration: bool = False
    by_step: bool = False
    unclear: bool = False
    inner: list[Statement] = field(default_factory=list)
    training: set[Statement] = field(default_factory=set)
    repeats: list[tuple[str, str]] = field(default_factory=list)
    goes_on: list[Site] = field(default_factory=list)
    further: list[tuple[str, str]] = field(default_factory=list)
    stage: tuple[str, str] = ("", "")
    earlier: list[str] = field(default_factory=list)
    leftovers: list[Statement] = field(default_factory=list)
    leaving: list[cst.CSTNode] = field(default_factory=list)
    takers: list[EpochLoop] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    clocks: list[Clock] = field(default_factory=list)
    shares: list[Site] = field(default_factory=list)
    joins: list[Site] = field(default_factory=list)
    absentees: list[CallSite] = field(default_factory=list)
    partings: list[Site] = field(default_factory=list)
    thaws: list[tuple[str, str]] = field(default_factory=list)
    last_turns: list[Site] = field(default_factory=list)
    planned_files: list[Site] = field(default_factory=list)
    resumed: list[str] = field(default_factory=list)
    repeated: str = ""
    anew: str = ""
    tried: bool = False
    taken: str = ""
    result: str = ""

    @property
    def iterated(self) -> str:
        """The code of what a `for` loop goes through, within `enumerate` and progress bars; "" for a `while` loop."""
        return self.index.source.code(self.anchors["range"]) if isinstance(self.node, cst.For) else ""

    @property
    def single(self) -> bool:
        """Whether it goes through one number alone: `range(1)`, `range(0, 1)`."""
        return isinstance(self.node, cst.For) and is_single(self.anchors.get("range"))

    @property
    def ends(self) -> list[int]:
        """The lines at which it is left, but by a signal, or by a `break` that some ranks alone may come to."""
        shared = [site.node for site in self.stops if isinstance(site.node, cst.Break) or site.signalled]
        return [self.index.source.position(node)[0] for node in self.leaving if node not in shared]

    @property
    def otherwise(self) -> bool:
        """Whether it has an `else`, which runs only where it is not left by a `break`."""
        return isinstance(self.node, (cst.For, cst.While)) and self.node.orelse is not None

    @property
    def body(self) -> cst.BaseSuite:
        """The loop's block."""
        assert isinstance(self.node, (cst.For, cst.While))
        return self.node.body

    _facts = (("variable", "target"), ("limited", "limited"))


@dataclass(eq=False, kw_only=True)
class PlannedCount(Site):
    """What counts the planned epochs where the loop's items are taken too; `node` is the call that goes through them.

    The anchor "limit" is what it counts to.

    Attributes:
        items: the code of what has an item for each epoch of a round.
        anew: the code of a limit by which it has as many numbers, "" where the items are not known there.
    """

    items: str
    anew: str
