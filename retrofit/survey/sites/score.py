"""The validation score, and the functions that keep one to themselves."""

from __future__ import annotations

import ast
import re
import shlex
from dataclasses import dataclass, field

from retrofit.survey.sites.base import Site


@dataclass(eq=False, kw_only=True)
class KeptScore(Site):
    """A score that a function keeps to itself; `node` is its last statement, or the one that makes a score to be noted.

    The anchor "call" is the epoch loop's statement that calls the function, or leads to it. Where a score to be
    returned is made only under a condition, the anchors "guard" and "made" are as those of `Score`, in the function.
    The anchor "turn" is a loop each turn of which notes one, so that the last one's counts.

    Attributes:
        expression: the score's code in the function.
        call: the code of the call.
        condition: the code of a condition, other than a rank check, under which the function has a score; "" for none.
        ranks: "all", or "first" where only rank 0 has one.
        returns: whether the function returns the score already, and only the loop does not take it.
        ends: whether the function's last statement is a `return` that is replaced.
        present: a condition without which the expression cannot be evaluated, "" for none.
        noted: whether the function notes it, rather than return it, for the loop to find.
        further: the other statements after which it notes it.
    """

    expression: str
    call: str = ""
    present: str = ""
    noted: bool = False
    further: list[KeptScore] = field(default_factory=list)
    condition: str = ""
    ranks: str = "all"
    returns: bool = False
    ends: bool = False

    @property
    def value(self) -> str:
        """The code of the score, or of None where there is none."""
        return f"{self.expression} if {self.present} else None" if self.present else self.expression

    @property
    def guarded(self) -> bool:
        """Whether the score is made only under a condition."""
        return "guard" in self.anchors

    _facts = (("expression", "expression"), ("of", "call"))


@dataclass(eq=False, kw_only=True)
class EarlyEnd(Site):
    """A `continue` behind the score, by which some ranks end the turn, while the others go on to what they save.

    So is the beginning of what ends the training there on all ranks.

    Attributes:
        leaves: whether it is that.
        returns: whether it leaves the function or the process, past what stands behind the epoch loop.
        behind: whether the score is handed over before it anyway.
    """

    leaves: bool = False
    returns: bool = False
    behind: bool = False


@dataclass(eq=False, kw_only=True)
class Score(Site):
    """The validation score; `node` is the expression that holds it.

    The anchor "report" is the statement after which all ranks can hand it over. Where the score is made only under a
    condition, the anchor "guard" is the outermost conditional statement around that place, and the anchor "made" the
    last statement of the block in which it is made. Where its name is used anew later in the epoch, "made" is the
    statement that makes it. The anchor "loop" is the epoch loop, and "turn", where the score is handed over in a loop
    over batches inside it, the statement after which the epoch loop is left then: that loop, or a later one. The anchor
    "inner turn" is a further loop within that loop, where the score is handed over in it.

    Attributes:
        expression: the score's code at that place.
        direction: "max", "min", or "" where nothing tells.
        evidence: where expression and direction come from.
        ranks: "all", or "first" where only rank 0 validates.
        condition: the code of a condition, other than a rank check, under which there is a score; "" for none.
        kept: where a function keeps the score to itself, how it is to return it; the site is its call then.
        when: a condition, the same on all ranks, under which they have something to hand over; "" for always.
        known: whether the expression's names have a meaning at that place.
        owners: where they have none, the variables of functions that have one, as in `namesakes`; where the training
            makes it, those of functions that validate, which the loop can have.
        against: what in the script shows the other direction than `evidence`, "" for nothing.
        outdone: what decides on checkpoints in place of it, where only its name speaks for it, and the place; else "".
        saved: whether a checkpoint is saved by it.
        early: every `continue` at which some ranks hand it over, and what ends the training behind it by a count.
        cut_off: the line at which some ranks leave the epoch before the score can be handed over, 0 where none do.
        once: whether it is made in a single epoch.
        by_clock: whether it is made when so much time has passed, in whatever epoch that is.
        parted: the name to which the loops in the block at the anchor "parting" may give no value, "" for none.
        unfit: what it is in place of one number, and where that is made; "" for nothing.
        running: where the score of an epoch is compared with this one, the best so far; "" where it is none.
        ranked: whether only some ranks do.
        own: the options that name the epoch's own score then, "" where the loop cannot have it.
        kept_for_end: what the epoch loop calls its best score and what it keeps with that, where it reads that later.
        lost_with_best: the name of what it keeps with that and reads later, but which has no value before the loop.
        best_anew: what the epoch loop calls its best so far, where that begins anew in some turn, and where; else "".
        present: a condition without which the expression cannot be evaluated, "" for none.
        of_turn: the condition of the turn of a loop inside the epoch loop that makes it, among others; "" for none.
        made: what makes it: "evaluated", "trained", or "" where nothing tells.
        each_step: whether each step of the optimizer in the epoch loop itself has one.
        of_step: whether no evaluation makes it in a loop of which nothing tells that its turns are epochs.
        alone: by what rank 0 alone has it, and where, while the others have another number; "" where all have it.
        elsewhere: the same of another rank, or of one that is not told.
        named: whether the user names it.
        namesakes: (answer, place, whether the loop can have it) of the variables of several functions that the user's
            word for it may mean, where it is not plain which.
        owner: what has to stand before its code for the user to mean it, `FUNCTION:`; "" where that alone tells.
        last: the head of a loop of which it is the last turn's alone, and the place; "" for none.
        earlier: the same as it is measured before the turn trains on, or in another branch of a choice, for a turn that
            does not measure it here.
        later: where it gets another value later in the turn, which does not count; "" where it gets none.
        trained: where the training makes it, while an evaluation does on other ways; "" where it does not.
        carried: what it is made of that adds up over all epochs, and where it does; "" for nothing.
        emptied: where what it is made of begins anew before it can be handed over, "" where it does not.
        unset: an attribute or a dict's item that it is of, the conditions on which that is set, and where; "" for none.
        unlike: by what data decide whether a turn of a loop over batches takes a step, so that ranks may be in unlike
            epochs as they hand over, where, and whether it is made within that loop; "" where they do not.
        unmeasured: what it is in turns in which nothing is measured, where, and the condition of those that measure it.
    """

    expression: str
    direction: str
    evidence: str
    ranks: str = "all"
    condition: str = ""
    kept: KeptScore | None = None
    when: str = ""
    known: bool = True
    owners: list[tuple[str, str, bool]] = field(default_factory=list)
    against: str = ""
    outdone: tuple[str, str] = ("", "")
    saved: bool = False
    early: list[EarlyEnd] = field(default_factory=list)
    cut_off: int = 0
    once: bool = False
    by_clock: bool = False
    parted: str = ""
    unfit: tuple[str, str] = ("", "")
    running: str = ""
    ranked: bool = False
    own: str = ""
    kept_for_end: list[str] = field(default_factory=list)
    lost_with_best: str = ""
    best_anew: tuple[str, str] = ("", "")
    present: str = ""
    of_turn: str = ""
    made: str = ""
    each_step: bool = False
    of_step: bool = False
    alone: str = ""
    elsewhere: str = ""
    named: bool = False
    namesakes: list[tuple[str, str, bool]] = field(default_factory=list)
    owner: str = ""
    last: tuple[str, str] = ("", "")
    earlier: list[Score] = field(default_factory=list)
    later: str = ""
    trained: str = ""
    carried: tuple[str, str] = ("", "")
    emptied: str = ""
    unset: tuple[str, str, str] = ("", "", "")
    unlike: tuple[str, str, bool] = ("", "", False)
    unmeasured: tuple[str, str, str] = ("", "", "")

    @property
    def value(self) -> str:
        """The code of the score, or of None where there is none."""
        return f"{self.expression} if {self.present} else None" if self.present else self.expression

    @property
    def guarded(self) -> bool:
        """Whether the score is made only under a condition."""
        return "guard" in self.anchors

    @property
    def written(self) -> str:
        """The score's code as the script has it, where a function keeps it to itself in that function."""
        return self.expression if self.kept is None else self.kept.expression

    @property
    def told(self) -> str:
        """What names it, with the function that keeps it to itself where others may be meant."""
        return self.owner + (self.written if self.owner else self.expression)

    @property
    def answer(self) -> str:
        """The options that name this score, as a shell takes them."""
        return answer_for(self.owner + self.written, self.direction)

    @property
    def only_alone(self) -> str:
        """The part of the condition that holds only where no other process trains, "" for none."""
        alone = re.compile(r"[\w.]*(rank == -1|world_size (==|<=) 1)")
        return next((one for one in written_conjuncts(self.condition) if alone.fullmatch(one)), "")

    @property
    def captured(self) -> bool:
        """Whether it is to be kept under a name of its own from where it is made."""
        return "made" in self.anchors

    @property
    def taken(self) -> bool:
        """Whether it is what a call in another expression measures, which is not to do so again."""
        return "taken" in self.anchors

    @property
    def noted(self) -> bool:
        """Whether the function that makes it notes it."""
        return self.kept is not None and self.kept.noted

    def handed(self, name: str, helper: str) -> str:
        """Return the code of what is handed over.

        Args:
            name: of the variable that holds what is returned or captured.
            helper: what stands before the helper's functions.
        """
        if self.noted:
            return f"{helper}noted_score()"
        return name if self.captured or self.taken or self.kept is not None else self.value

    @property
    def in_turn(self) -> bool:
        """Whether it is handed over inside a loop over batches."""
        return "turn" in self.anchors

    _facts = (
        ("expression", "expression"),
        ("direction", "direction"),
        ("from", "evidence"),
        ("ranks", "ranks"),
        ("only if", "condition"),
    )


def answer_for(expression: str, direction: str) -> str:
    """Return the options that name a score, as a shell takes them.

    Args:
        expression: its code.
        direction: "max" or "min", "" where the user is to say which.
    """
    plain = not any(char in expression for char in '"$`\\!')
    quoted = f'"{expression}"' if "'" in expression and plain else shlex.quote(expression)
    return f"--metric {quoted} --mode {direction or 'max or min'}"


def written_conjuncts(condition: str) -> list[str]:
    """Return the code of the parts that must all hold where a condition does, "" being none; as Python writes them."""
    if not condition:
        return []
    return [ast.unparse(part) for part in _conjuncts(ast.parse(f"({condition})", mode="eval").body)]


def _conjuncts(test: ast.expr) -> list[ast.expr]:
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else []
    return [one for part in parts for one in _conjuncts(part)] or [test]
