"""Where optimizers are built, and built again, with their schedulers."""

from __future__ import annotations

from dataclasses import dataclass, field

from retrofit.survey.literals import dict_literal
from retrofit.survey.sites.base import Site


@dataclass(eq=False, kw_only=True)
class Step(Site):
    """A call of a scheduler's `step`; `node` is the call.

    Attributes:
        receiver: the scheduler's name here.
        argument: the code of what it is given, "" where nothing.
        per: "epoch" or "batch".
        conditional: whether it runs only under some condition inside the loop.
        removed: whether the step goes away because the scheduler is handed over.
    """

    receiver: str
    argument: str
    per: str
    conditional: bool
    removed: bool = False

    _facts = (("receiver", "receiver"), ("argument", "argument"), ("per", "per"))


@dataclass(eq=False, kw_only=True)
class Scheduler(Site):
    """The construction of a learning-rate scheduler; `node` is the call.

    Attributes:
        target: the variable.
        name: the class as the script writes it.
        kind: the class's own name.
        bound: its arguments after the optimizer, as (parameter, code).
        steps: where it is stepped.
        optimizer: the optimizer with which it is handed over, None where it is not.
    """

    optimizer: Optimizer | None = None
    target: str
    name: str
    kind: str
    bound: list[tuple[str, str]]
    steps: list[Step] = field(default_factory=list)

    def as_dict(self, prefix: str, mode: str = "") -> str:
        """Return the arguments after the optimizer as a dict literal.

        Args:
            prefix: what stands before the literal on its line.
            mode: the direction of the score; ReduceLROnPlateau gets it where the script leaves out its own.
        """
        extra = [("mode", repr(mode))] if mode == "max" and self.kind == "ReduceLROnPlateau" else []
        given = {name for name, _ in self.bound}
        return dict_literal(self.index, self.node, self.bound, prefix, [pair for pair in extra if pair[0] not in given])

    @property
    def facts(self) -> dict[str, object]:
        return {"class": self.name, "target": self.target, "stepped": [step.per for step in self.steps]}


@dataclass(eq=False, kw_only=True)
class Optimizer(Site):
    """The construction of the optimizer; `node` is its call, or the statement that holds several constructions.

    Attributes:
        target: the variable.
        name: the class as the script writes it; of several, of which a run takes one, all of them.
        bound: its arguments as (parameter, code), `params` first.
        scheduler: the scheduler that belongs to it and can be handed over with it.
        keeps: why the script's own construction is kept, "" where the class and its arguments can be handed over.
        handed_over: whether the script gives it to the tracker already.
        parameter_model: the name of the model whose parameters it takes, "" where that is no plain name.
        early: whether another function builds it before the model has its dendrites' layers.
        late: the place that builds it again while the model trains, where the tracker could not know it; "" for none.
        rebuilt: the further places that build it as well, in other functions, in branches or at turns of the loop.
        held: where the script's variable holds an object around torch's optimizer, the attribute of it, with its dot.
        collected: the place of a dict or list of optimizers that the variable holds in some runs; "" for none.
    """

    target: str
    name: str
    bound: list[tuple[str, str]]
    scheduler: Scheduler | None = None
    keeps: str = ""
    handed_over: bool = False
    parameter_model: str = ""
    early: bool = False
    late: str = ""
    rebuilt: list[Rebuilding] = field(default_factory=list)
    held: str = ""
    collected: str = ""

    def as_dict(self, prefix: str) -> str:
        """Return the arguments as a dict literal; ``prefix`` is what stands before it on its line."""
        return dict_literal(self.index, self.node, self.bound, prefix)

    @property
    def plain(self) -> bool:
        """Whether class and arguments can be handed over."""
        return not self.keeps

    @property
    def facts(self) -> dict[str, object]:
        return {
            "class": self.name,
            "target": self.target,
            "arguments": dict(self.bound),
            "scheduler": self.scheduler.name if self.scheduler else None,
            "kept as it is because": self.keeps or None,
        }


@dataclass(eq=False, kw_only=True)
class Rebuilding(Site):
    """A construction of the optimizer elsewhere than the first one; `node` is its call.

    Attributes:
        target: the variable there, with the attribute that holds torch's optimizer.
        handed_over: whether the script gives it to the tracker already.
    """

    target: str
    handed_over: bool

    _facts = (("target", "target"),)
