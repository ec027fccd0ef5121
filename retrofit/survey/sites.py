"""The places in a script that matter, with everything that a rule may ask or a template may print."""

from __future__ import annotations

import os
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import libcst as cst

from retrofit.project import Neighbour
from retrofit.survey.index import File, Index, Scope, Statement, argument, is_choice, nodes_in
from retrofit.survey.literals import dict_literal

#: The words by which rules name the kinds of sites, besides "script" and "epoch-loop".
SITE_KINDS = (
    "wrapper",
    "model",
    "unnamed-model",
    "optimizer",
    "rebuilding",
    "scheduler",
    "step",
    "backward",
    "score",
    "kept-score",
    "assertion",
    "parser",
    "local-rank",
    "framework",
    "module-count",
    "new-folder",
    "resumption",
    "block",
)


@dataclass(eq=False, kw_only=True)
class Site:
    """One place in one file of the project.

    Attributes:
        node: the expression or statement that the site is about.
        index: the project's files.
        arguments: the name under which the parsed command line is in scope here, None where it is not.
        model: the name under which the wrapped model is in scope here, "" where it is not.
        anchors: further nodes of the site that an edit may be about, by name.
        facts: what `retrofit inspect` shows of the site.
    """

    node: cst.CSTNode
    index: Index
    arguments: str | None = None
    model: str = ""
    anchors: dict[str, cst.CSTNode] = field(default_factory=dict)
    #: Words for such facts, each with the attribute that is one.
    _facts: ClassVar[tuple[tuple[str, str], ...]] = ()

    @property
    def statement(self) -> Statement:
        """The statement that holds the site."""
        return self.index.statement(self.node)

    @property
    def scope(self) -> Scope:
        """The scope that the site is evaluated in."""
        return self.statement.scope

    @property
    def file(self) -> File:
        """The file that the site stands in."""
        return self.index.file(self.node)

    @property
    def shown(self) -> str:
        """How messages name the site's file."""
        return self.file.source.shown

    @property
    def position(self) -> tuple[int, int]:
        """1-based line and column."""
        return self.index.source.position(self.node)

    @property
    def line(self) -> int:
        """1-based line."""
        return self.position[0]

    def place(self, beside: Site | None = None) -> str:
        """Return "line N", with the name of any file other than that of ``beside``, the entry script's."""
        return self.index.place(self.node, beside.file if beside is not None else None)

    @property
    def code(self) -> str:
        """The site's code as it stands in the file."""
        return self.index.source.code(self.node)

    @property
    def facts(self) -> dict[str, object]:
        """What `retrofit inspect` shows besides the place."""
        return {word: getattr(self, name) for word, name in self._facts}

    def anchor(self, name: str | None) -> cst.CSTNode:
        """Return the node that an edit is about: the named anchor, or the statement that holds the site."""
        return self.anchors[name] if name else self.statement.node

    def preceded_by(self, name: str) -> bool:
        """Whether an earlier statement of the same block mentions ``name``."""
        return any(self._names(statement.node, name) for statement in self.statement.preceding)

    def just_preceded_by(self, name: str) -> bool:
        """Whether the statement directly before this one mentions ``name``."""
        return any(self._names(statement.node, name) for statement in self.statement.preceding[:1])

    def just_followed_by(self, name: str) -> bool:
        """Whether the statement directly after this one mentions ``name``."""
        return any(self._names(statement.node, name) for statement in self.statement.following[:1])

    def followed_by(self, name: str) -> bool:
        """Whether a later statement of the same block mentions ``name``."""
        return any(self._names(statement.node, name) for statement in self.statement.following)

    def inside(self, name: str) -> bool:
        """Whether the site stands in an `if`, `with` or function whose head mentions ``name``."""
        for ancestor in self.statement.ancestors:
            node = ancestor.node
            heads: list[cst.CSTNode] = []
            if isinstance(node, cst.If):
                heads = [node.test]
            elif isinstance(node, cst.With):
                heads = list(node.items)
            elif isinstance(node, (cst.FunctionDef, cst.ClassDef)):
                heads = [node.name]
            if any(self._names(head, name) for head in heads):
                return True
        return False

    def mentions(self, name: str) -> bool:
        """Whether the site's own code mentions ``name``."""
        return self._names(self.node, name)

    def _names(self, node: cst.CSTNode, name: str) -> bool:
        return re.search(rf"\b{name}\b", self.index.source.read(node)) is not None


@dataclass(eq=False, kw_only=True)
class Wrapper(Site):
    """A model wrapped for several devices; `node` is the wrapper call.

    Attributes:
        kind: "ddp" or "dp".
        target: what the wrapped model is assigned to, "" where it is not assigned plainly.
        operand: the code of what is wrapped.
        module: the name of the module in it: `model` for the operand `model.to(device)`, "" where the call builds it.
        others: what else it is assigned to by the same statement.
        chain: what is called on the wrapper in the same statement, such as `.cuda()`.
        part: whether only a part of a model is wrapped (`model.features`).
        moved: where the call builds the model, the moves called on it there, such as `.to(device)`.
        members: whether what only the wrapper has (`.module`, `no_sync`) is used before the first backward pass, or the
            script insists on a wrapper.
        moves_inputs: whether the model may rely on the wrapper to move what it is called with to its device.
        returned: whether a function returns it instead of assigning it.
        fresh: where it is neither, but used in a statement, a name that nothing has yet for it; "" where none helps.
        first: whether it is the first wrapper of its statement.
        other_model: whether it is the first wrapper of a further model.
        preset: the arguments that a `functools.partial` gives it.
        choice: the classes of which the call takes one, where not all are of this kind; "" for no choice.
        closed: the wrapper's class, where it is the project's own and takes no keyword arguments beyond its own.
    """

    kind: str
    target: str
    operand: str
    module: str
    others: list[str] = field(default_factory=list)
    chain: str = ""
    part: bool = False
    moved: str = ""
    members: bool = False
    moves_inputs: bool = False
    returned: bool = False
    fresh: str = ""
    first: bool = True
    other_model: bool = False
    preset: list[cst.Arg] = field(default_factory=list)
    choice: str = ""
    closed: str = ""

    @property
    def call(self) -> cst.Call:
        """The wrapper call."""
        assert isinstance(self.node, cst.Call)
        return self.node

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
        """The code of the model as this statement leaves it, but not wrapped."""
        return (self.operand if self.module else self.target + self.moved) + self.chain

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


@dataclass(eq=False, kw_only=True)
class Model(Site):
    """Where the model that is wrapped gets built; `node` is the statement after which it is there.

    Attributes:
        target: the variable that holds it.
        built: the building expression without the moves, "" where the statement is not a single plain assignment.
        moved: the moves called on it in the same statement, such as `.to(device)`.
        in_wrapper: whether it is built inside the wrapper call, so that `node` is the wrapper's statement.
        side: where new statements about the model go: "after" the statement, or "before" the wrapper's.
    """

    target: str
    built: str = ""
    moved: str = ""
    in_wrapper: bool = False
    side: str = "after"

    _facts = (("target", "target"), ("moved", "moved"))


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
class UnnamedModel(Site):
    """The construction of a model that no name gets; `node` is its call.

    Attributes:
        fresh: a name that nothing has yet.
    """

    fresh: str

    @property
    def whole(self) -> str:
        """The code of the construction with what is called on it."""
        return self.index.source.code(self.anchors["whole"])


@dataclass(eq=False, kw_only=True)
class Optimizer(Site):
    """The construction of the optimizer; `node` is its call, or the statement that holds several constructions.

    Attributes:
        target: the variable.
        name: the class as the script writes it.
        bound: its arguments as (parameter, code), `params` first.
        scheduler: the scheduler that belongs to it and can be handed over with it.
        keeps: why the script's own construction is kept, "" where the class and its arguments can be handed over.
        handed_over: whether the script gives it to the tracker already.
        parameter_model: the name of the model whose parameters it takes, "" where that is no plain name.
        early: whether another function builds it before the model has its dendrites' layers.
        late: the place that builds it again while the model trains, where the tracker could not know it; "" for none.
        rebuilt: the places in other functions that build it as well.
        held: where the script's variable holds an object around torch's optimizer, the attribute of it, with its dot.
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
    """A construction of the optimizer in another function than the first one; `node` is its call.

    Attributes:
        target: the variable there, with the attribute that holds torch's optimizer.
        handed_over: whether the script gives it to the tracker already.
    """

    target: str
    handed_over: bool

    _facts = (("target", "target"),)


@dataclass(eq=False, kw_only=True)
class Backward(Site):
    """A backward pass; `node` is the call.

    Attributes:
        loop: the batch loop around it.
    """

    loop: Statement | None

    _facts = (("call", "code"),)


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
class ModuleCount(Site):
    """A walk through the perforated model, such as `modules()`, that dendrites are to be left out of.

    The script counts the modules of a class, or raises at a class or a name that it does not know. The anchor "state"
    is the same as `node`.

    Attributes:
        kind: "modules", "named_modules" or "named_parameters".
        whose: the code of the model, or of a part of it.
    """

    kind: str
    whose: str

    _facts = (("walk", "kind"), ("of", "whose"))


@dataclass(eq=False, kw_only=True)
class NewFolder(Site):
    """Where the script insists that a file or folder of its own is not there yet.

    `node` is what leaves or asserts, or the call that makes the folder; its anchors are then "call" and "function".

    Attributes:
        makes: whether it is such a call.
        maker: the code of the function that makes it, where that is another than the one called, for `os.mkdir` cannot
            be told to take a folder that is there.
    """

    makes: bool = False
    maker: str = ""

    _facts = (("makes it", "makes"),)


@dataclass(eq=False, kw_only=True)
class Resumption(Site):
    """A statement by which a checkpoint of the script's own, of an earlier round, would end a later one at once."""


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
        inner: the loops inside it, in its function, that lead to a backward pass.
        training: all statements that lead to a backward pass, in its function and in others.
        repeats: the heads and places of the loops around it, which train anew.
        earlier: the places of the loops that train before it and validate nothing, as for a warm-up.
        leftovers: the statements after the loop that no longer run when training leaves inside it.
        ends: lines at which the loop is left, but for the end of what a `for` loop goes through.
        clocks: the conditions under which it is left at a time of the clock.
        shares: what takes each rank's own share of something that its loops go through.
        thaws: (place, code) of each `if` about the turn's number by which it lets frozen parameters train.
        resumed: counters that may go on in it from a number of an earlier start, such as that in a checkpoint.
        repeated: the place of a loop around it that builds and trains a model in each turn, "" for none.
        tried: the place at which a library runs it as one of several trials, "" for none.
        result: the code of what its function gives when it leaves the loop and not after it, "" for nothing.
    """

    target: str
    limited: bool
    by_iteration: bool = False
    by_step: bool = False
    inner: list[Statement] = field(default_factory=list)
    training: set[Statement] = field(default_factory=set)
    repeats: list[tuple[str, str]] = field(default_factory=list)
    earlier: list[str] = field(default_factory=list)
    leftovers: list[Statement] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    clocks: list[Site] = field(default_factory=list)
    shares: list[Site] = field(default_factory=list)
    thaws: list[tuple[str, str]] = field(default_factory=list)
    resumed: list[str] = field(default_factory=list)
    repeated: str = ""
    tried: str = ""
    result: str = ""

    @property
    def iterated(self) -> str:
        """The code of what a `for` loop goes through, within `enumerate` and progress bars; "" for a `while` loop."""
        return self.index.source.code(self.anchors["range"]) if isinstance(self.node, cst.For) else ""

    @property
    def body(self) -> cst.BaseSuite:
        """The loop's block."""
        assert isinstance(self.node, (cst.For, cst.While))
        return self.node.body

    _facts = (("variable", "target"), ("limited", "limited"))


@dataclass(eq=False, kw_only=True)
class KeptScore(Site):
    """A score that a function keeps to itself; `node` is the function's last statement.

    The anchor "call" is the epoch loop's statement that calls the function. Where the score is made only under a
    condition, the anchors "guard" and "made" are as those of `Score`, in the function.

    Attributes:
        expression: the score's code in the function.
        call: the code of the call.
        condition: the code of a condition, other than a rank check, under which the function has a score; "" for none.
        ranks: "all", or "first" where only rank 0 has one.
        returns: whether the function returns the score already, and only the loop does not take it.
        ends: whether the function's last statement is a `return` that is replaced.
        beside: the code of what that returns already, which the loop takes, "" where it has no value.
        targets: the code of what takes it.
        present: a condition without which the expression cannot be evaluated, "" for none.
        inner: where the function gets the score from another one that it calls, how that one returns it.
        others: the same at other calls of the function, of which one alone runs in a turn of the loop.
    """

    expression: str
    call: str
    present: str = ""
    inner: KeptScore | None = None
    others: list[KeptScore] = field(default_factory=list)
    condition: str = ""
    ranks: str = "all"
    returns: bool = False
    ends: bool = False
    beside: str = ""
    targets: str = ""

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
class Score(Site):
    """The validation score; `node` is the expression that holds it.

    The anchor "report" is the statement after which all ranks can hand it over. Where the score is made only under a
    condition, the anchor "guard" is the outermost conditional statement around that place, and the anchor "made" the
    last statement of the block in which it is made. Where its name is used anew later in the epoch, "made" is the
    statement that makes it. The anchor "loop" is the epoch loop, and "turn" the loop over batches inside it, where the
    score is handed over in there.

    Attributes:
        expression: the score's code at that place.
        direction: "max", "min", or "" where nothing tells.
        evidence: where expression and direction come from.
        ranks: "all", or "first" where only rank 0 validates.
        condition: the code of a condition, other than a rank check, under which there is a score; "" for none.
        kept: where a function keeps the score to itself, how it is to return it; the site is its call then.
        when: a condition, the same on all ranks, under which they have something to hand over; "" for always.
        known: whether the expression's names have a meaning at that place.
        owners: where they have none, the functions that know them, and where they do.
        against: what in the script shows the other direction than `evidence`, "" for nothing.
        outdone: what decides on checkpoints in place of it, where only its name speaks for it, and the place; else "".
        saved: whether a checkpoint is saved by it.
        cut_off: the line at which some ranks leave the epoch before the score can be handed over, 0 where none do.
        once: whether it is made in a single epoch.
        parted: the name that some ways through the choice at the anchor "parting" leave without a value, "" for none.
        listed: the line at which its name gets several values instead of one number, 0 where it does not.
        running: where a function compares the score of an epoch with this one, the best so far; "" where it is none.
        ranked: whether only some ranks do.
        best: what it is compared with, where that has a first value before the epoch loop; else "".
        lost: what it is compared with where a checkpoint is saved by it, and which begins anew in each round; else "".
        present: a condition without which the expression cannot be evaluated, "" for none.
        made: what makes it: "evaluated", "trained", or "" where nothing tells.
        alone: by what rank 0 alone has it, and where, while the others have another number; "" where all have it.
        elsewhere: the same of another rank, or of one that is not told.
        named: whether the user names it.
        last: the head of a loop of which it is the last turn's alone, and the place; "" for none.
        trained: where the training makes it, while an evaluation does on other ways; "" where it does not.
        carried: what it is made of that adds up over all epochs, and where it does; "" for nothing.
        emptied: where what it is made of begins anew before it can be handed over, "" where it does not.
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
    owners: list[tuple[str, str]] = field(default_factory=list)
    against: str = ""
    outdone: tuple[str, str] = ("", "")
    saved: bool = False
    cut_off: int = 0
    once: bool = False
    parted: str = ""
    listed: int = 0
    running: str = ""
    ranked: bool = False
    best: str = ""
    lost: str = ""
    present: str = ""
    made: str = ""
    alone: str = ""
    elsewhere: str = ""
    named: bool = False
    last: tuple[str, str] = ("", "")
    trained: str = ""
    carried: tuple[str, str] = ("", "")
    emptied: str = ""
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
        return self.kept.expression if self.kept is not None else self.expression

    @property
    def answer(self) -> str:
        """The options that name this score, as a shell takes them."""
        return answer_for(self.written, self.direction)

    @property
    def only_alone(self) -> str:
        """The part of the condition that holds only where no other process trains, "" for none."""
        parts = [] if " or " in self.condition else self.condition.split(" and ")
        return next((one for one in parts if re.search(r"rank == -1$|world_size (==|<=) 1$", one)), "")

    @property
    def captured(self) -> bool:
        """Whether it is to be kept under a name of its own from where it is made."""
        return "made" in self.anchors

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


@dataclass(eq=False, kw_only=True)
class Parser(Site):
    """An argparse parser; `node` is the statement after which arguments can be added.

    Attributes:
        target: the parser's variable.
        options: the option strings that it has.
        early: whether another file than the entry script reads the command line by it as it is imported.
    """

    target: str
    options: frozenset[str]
    early: bool = False

    @property
    def facts(self) -> dict[str, object]:
        return {"parser": self.target, "options": len(self.options)}


@dataclass(eq=False, kw_only=True)
class LocalRank(Site):
    """The spelling of an option by which a launcher tells each process its number on its machine.

    Attributes:
        hyphened: whether the project has it as `--local-rank`.
    """

    hyphened: bool

    _facts = (("option", "code"),)


@dataclass(eq=False, kw_only=True)
class ProcessNumber(Site):
    """What alone tells a process its number, the number of processes or its GPU, and is not torchrun's environment.

    Attributes:
        source: "option" for one of the command line, "MPI", "dask", "backend" for a process group's of MPI, "fixed" for
            a number that is written down, or "device" for that of a GPU that all take.
        name: the option, or the code.
        variable: the environment variable in which torchrun says it.
    """

    source: str
    name: str
    variable: str

    _facts = (("source", "source"), ("name", "name"))


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
    """

    name: str
    advice: str
    beside: bool = False
    option: str = ""
    wraps: bool = False
    copies: bool = False

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
        if not script.kind or not self.beside:
            return "owner"
        if self.wraps:
            always = not any(isinstance(part.node, cst.If) for part in self.statement.path)
            return "owner" if script.kind == "dp" and always else "wrapper"
        if script.loops:
            return "option" if self.option else ""
        return "" if self.option else "engine"

    _facts = (("name", "name"),)


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
        return [script.shown for script in self.neighbours]

    @property
    def elsewhere(self) -> list[str]:
        """Those of them that do not find what lies in the folder from which the entry script is started."""
        return [script.shown for script in self.neighbours if not script.finds]

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


@dataclass(eq=False, kw_only=True)
class CallSite(Site):
    """Any call, for rules that ask for one by name; its anchors are "call" and "function"."""

    @property
    def qualified(self) -> str:
        """The called function's full path, import aliases resolved."""
        assert isinstance(self.node, cst.Call)
        return self.index.qualified(self.node.func)

    @property
    def called(self) -> str:
        """The called function's own name."""
        return self.qualified.rpartition(".")[2]

    @property
    def target(self) -> str:
        """The name to which the call's value is assigned, "" where it is not assigned plainly."""
        return self.index.target_of(self.node)

    @property
    def conditional(self) -> bool:
        """Whether it runs only under a condition other than being the main program."""
        return any(is_choice(s.node) for s in self.statement.ancestors)

    @property
    def condition(self) -> str:
        """What holds where it runs, by the innermost `if` around it; "" where there is none."""
        around = list(self.index.ancestors(self.node))
        for node in around:
            if isinstance(node, cst.If):
                test = self.index.source.code(node.test)
                return test if node.body in around else f"not ({test})"
        return ""

    def argument(self, name: str, position: int | None = None) -> str | None:
        """Return the code of an argument by keyword or position, None where it is not given."""
        node = self.argument_node(name, position)
        return None if node is None else self.index.source.code(node)

    def argument_node(self, name: str, position: int | None = None) -> cst.BaseExpression | None:
        """Return an argument's expression by keyword or position, None where it is not given."""
        assert isinstance(self.node, cst.Call)
        return argument(self.node, name, position)

    def literal(self, name: str, position: int | None = None) -> str | None:
        """Return a string argument's value, None where it is not given or no plain string, nor a name for just one."""
        node = self.argument_node(name, position)
        if isinstance(node, cst.Name):
            scopes = (self.scope, *(scope for scope in self.scope.around if scope.kind != "class"))
            scope = next((scope for scope in scopes if node.value in scope.names), self.scope)
            owner, known = self.index.imported(node.value, scope) or (scope, node.value)
            bound = self.index.bound([known], owner) if known not in owner.parameters else []
            node = bound[0].value if len(bound) == 1 and bound[0].item is None else None
        value = node.evaluated_value if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)) else None
        return value if isinstance(value, str) else None


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
    def called(self) -> str:
        """The name of the function that it calls."""
        return self.index.qualified(getattr(self.node, "func", None)).rpartition(".")[2]


def _is_method(node: cst.CSTNode) -> bool:
    """Whether a string has process groups begin by the environment."""
    return isinstance(node, cst.SimpleString) and node.evaluated_value == "env://"


@dataclass(eq=False, kw_only=True)
class Script(Site):
    """The whole entry script; `node` is its module.

    Attributes:
        wrappers: where a model is wrapped.
        models: where the model that is wrapped gets built.
        optimizers: the constructions of optimizers that train it.
        schedulers: the constructions of learning-rate schedulers.
        steps: the calls of a scheduler's `step`.
        backwards: the backward passes in loops.
        loops: the epoch loops.
        scores: what may be the validation score.
        parsers: the argparse parsers.
        handed_on: where the parsed command line is handed on whole, or gone through, so that it has no place for more.
        local_ranks: the spellings of the option that gives a process its number on its machine.
        rank_flags: absl's flags of that name, which no launcher gives, where nothing else tells that number.
        numbers: what alone tells a process its number, how many there are and its GPU, where torchrun does not.
        frameworks: the uses of libraries that own the training loop or shard the model.
        assertions: the script's own checks of the model's parameters.
        module_counts: the walks through the perforated model that dendrites are to be left out of.
        new_folders: where it insists that what it writes is not there yet.
        resumptions: the statements by which its own checkpoint of an earlier round would end a later one at once.
        blocks: what people put in by hand in the place of what the recipe writes.
        spawns: the calls that start the processes from one.
        spawned_numbers: the parameters by which the functions that they start know their process.
        groups: the whole-model wrappers, grouped by the model that they wrap.
        hints: (name, place) of values that the script compares with its best outside the epoch loop.
        silent: (function, place) of its calls in the epoch loop that validate and of which it takes nothing.
        measures: (expression, place) of what its validation knows and keeps to itself.
        validation: where the epoch loop begins to validate, "" where nothing shows that it does.
        trained: (answer, expression, place) of what its training tells of itself, the answer as a shell takes it.
        apart: the places of wrappers of a model that is built anew, for a test alone.
        disorder: why the model cannot be perforated where it is built, "" where it can.
        averages: (place, option) of copies that follow the model's weights, and whether a condition decides on each.
        reloads: where weights are loaded, after the training or instead of it, into a model that is built anew.
        loads_after: what loads a file in the process that starts the others, once these have ended.
        besides: where a model is built as the wrapped one is, and trained in place of it.
        repeated: the places of two calls, one after the other, that both build the model.
        plural: why what a wrapper wraps is more than one model, "" where it is one.
        bypass: a call of the bare model in its training, where that never calls the wrapper; None for no such.
        builders: what tells the model of each class that builds one from the others, as far as something does.
        adrift: backward passes that no loop was found around.
        passed_over: the heads of the loops around the backward passes, outermost first, where none is over epochs.
        uncalled: the function that holds such a loop or backward pass, and that nothing was found to call; "" for none.
        answers: what tells each of several wrapped models from the others, as far as something does.
        trainers: what tells each epoch loop of the one model from the others, where a run takes one of several.
        nameless: where torch's optimizers are built that no name or item of a known name holds.
        unnamed_models: where the model is built, if no name gets it there, but one could.
        other_models: the same for all that are wrapped, where none of them is the one that the user named.
        neighbours: the other scripts that import one of the modules, by its full name, or the entry, by "".
        namespace: tells the name of the parsed command line at a site, None where it is not in scope.
        kind: "ddp" where any wrapper is DistributedDataParallel, else "dp", and where the user has one process train by
            a script that can do either; "" without a wrapper.
        launcher: what the user has start it, "" where the script decides.
        in_process: whether the model is to be restructured while the process goes on, without a restart.
    """

    wrappers: list[Wrapper] = field(default_factory=list)
    models: list[Model] = field(default_factory=list)
    optimizers: list[Optimizer] = field(default_factory=list)
    schedulers: list[Scheduler] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    backwards: list[Backward] = field(default_factory=list)
    loops: list[EpochLoop] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    parsers: list[Parser] = field(default_factory=list)
    handed_on: list[Site] = field(default_factory=list)
    local_ranks: list[LocalRank] = field(default_factory=list)
    rank_flags: list[CallSite] = field(default_factory=list)
    numbers: list[ProcessNumber] = field(default_factory=list)
    frameworks: list[Framework] = field(default_factory=list)
    assertions: list[Assertion] = field(default_factory=list)
    hints: list[tuple[str, str]] = field(default_factory=list)
    silent: list[tuple[str, str]] = field(default_factory=list)
    measures: list[tuple[str, str]] = field(default_factory=list)
    validation: str = ""
    trained: list[tuple[str, str, str]] = field(default_factory=list)
    apart: list[str] = field(default_factory=list)
    disorder: str = ""
    averages: list[tuple[str, bool]] = field(default_factory=list)
    reloads: list[CallSite] = field(default_factory=list)
    besides: list[CallSite] = field(default_factory=list)
    loads_after: list[CallSite] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    module_counts: list[ModuleCount] = field(default_factory=list)
    new_folders: list[NewFolder] = field(default_factory=list)
    resumptions: list[Resumption] = field(default_factory=list)
    plural: str = ""
    bypass: CallSite | None = None
    builders: list[str] = field(default_factory=list)
    adrift: list[Backward] = field(default_factory=list)
    passed_over: list[tuple[str, str]] = field(default_factory=list)
    uncalled: str = ""
    answers: list[str] = field(default_factory=list)
    trainers: list[str] = field(default_factory=list)
    nameless: list[CallSite] = field(default_factory=list)
    unnamed_models: list[UnnamedModel] = field(default_factory=list)
    other_models: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    spawns: list[CallSite] = field(default_factory=list)
    spawned_numbers: set[str] = field(default_factory=set)
    groups: list[list[Wrapper]] = field(default_factory=list)
    neighbours: Mapping[str, Sequence[Neighbour]] = field(default_factory=dict)
    launcher: str = ""
    in_process: bool = False
    namespace: Callable[[Site], str | None] = lambda site: None

    @property
    def statement(self) -> Statement:
        raise LookupError("the script as a whole is no statement")

    @property
    def position(self) -> tuple[int, int]:
        return (1, 1)

    @property
    def relative_imports(self) -> list[Site]:
        """The entry script's imports relative to its package, by which it only runs as a module, `python -m`."""
        return [site for site in self._relative_imports if not any(is_choice(s.node) for s in site.statement.path)]

    @property
    def chosen_relative_imports(self) -> list[Site]:
        """Those of such imports that a condition leads to."""
        return [site for site in self._relative_imports if any(is_choice(s.node) for s in site.statement.path)]

    @property
    def _relative_imports(self) -> list[Site]:
        return [
            Site(node=statement.node, index=self.index)
            for statement, module in self.index.entry.imports
            if module.startswith(".") and not any(isinstance(part.node, cst.Try) for part in statement.path)
        ]

    @property
    def module(self) -> str:
        """The full name by which the script is started, `python -m`; "" for one that is started by its path."""
        relative = any(module.startswith(".") for _, module in self.index.entry.imports)
        return self.index.module if self.relative_imports or not relative else ""

    @property
    def import_folder(self) -> str:
        """The folder in which Python looks for the script's own modules, from where the user is; "" for that one."""
        folder = os.path.dirname(self.index.source.shown)
        found = os.path.normpath(os.path.join(folder, *[".."] * self.module.count(".")))
        return "" if found == "." else found

    def importable(self, name: str) -> str:
        """Return the path of a file in that folder, from where the user is, as a shell takes it."""
        return shlex.quote(os.path.join(self.import_folder, name))

    @property
    def program(self) -> str:
        """How `python` starts the script from where the user is, as a shell takes it."""
        return f"-m {self.module}" if self.module else self.beside(self.file_name)

    @property
    def spawning(self) -> CallSite | None:
        """The call that alone can start the processes.

        One under a condition can where nothing reads a process's number from the environment, but the process group is
        given one. Who asks for `env://` there numbers the machines by it, and only the spawned function knows its GPU;
        but where the number given is the one that the spawned function gets, that alone counts.
        """
        number = self.argument("torch.distributed.init_process_group", "rank")
        asked = [node for name, node in self.index.environment if re.search(r"RANK|WORLD_SIZE", name)]
        if number not in self.spawned_numbers:
            asked += [text for text in self.index.nodes_of(cst.SimpleString) if _is_method(text)]
        told = any(not self._if_asked_for(node) for node in asked)
        alone = [site for site in self.spawns if not site.conditional or (number and not told)]
        return alone[0] if alone else None

    def _if_asked_for(self, node: cst.CSTNode) -> bool:
        """Whether code is of `if args.dist_url == "env://" and args.rank == -1:`, as in PyTorch's ImageNet example."""
        tests = [part.test for part in self.index.ancestors(node) if isinstance(part, cst.If)]
        compared = [
            [part.comparator for part in nodes_in(test) if isinstance(part, cst.ComparisonTarget)] for test in tests
        ]
        return any(
            any(map(_is_method, some)) and any(isinstance(one, cst.UnaryOperation) for one in some) for some in compared
        )

    @property
    def argument_counts(self) -> list[Site]:
        """Where the script decides by the number of words on its command line."""
        return [
            Site(node=node, index=self.index)
            for node in self.index.comparisons
            if re.search(r"\blen\(sys\.argv\)|sys\.argv\.__len__\(\)", self.index.source.read(node))
        ]

    @property
    def file_name(self) -> str:
        """The entry script's file name."""
        return self.index.source.path.name

    @property
    def folder(self) -> str:
        """The folder in which Python looks for the script's own modules, as a shell takes it."""
        return shlex.quote(self.import_folder or ".")

    def beside(self, name: str) -> str:
        """Return the path of a file beside the script, from where the user is, as a shell takes it."""
        folder = self.index.source.shown.rpartition("/")[0]
        return shlex.quote(f"{folder}/{name}" if folder else name)

    @property
    def stem(self) -> str:
        """The file name without its ending, in letters, digits, `_`, `.` and `-` only."""
        return re.sub(r"[^A-Za-z0-9_.-]+", "_", self.index.source.path.stem)

    @property
    def kind(self) -> str:
        kinds = {wrapper.kind for wrapper in self.wrappers}
        alone = self.launcher == "python" and self.either is not None
        return "ddp" if "ddp" in kinds and not alone else "dp" if kinds else ""

    @property
    def either(self) -> Wrapper | None:
        """The wrapper by which a single process trains, in a script that is started for that or for several."""
        kinds = {wrapper.kind: wrapper for wrapper in self.wrappers}
        return kinds["dp"] if len(kinds) > 1 and not self.spawns else None

    @property
    def parser(self) -> Parser | None:
        """The main parser: the one with the most options."""
        return max(self.parsers, key=lambda parser: len(parser.options), default=None)

    @property
    def score(self) -> Score | None:
        """The score, where there is just one."""
        return self.scores[0] if len(self.scores) == 1 else None

    @property
    def score_mode(self) -> str:
        """The score's direction, "" where there is no clear one."""
        return self.score.direction if self.score else ""

    @property
    def kept_scores(self) -> list[KeptScore]:
        """The scores that functions keep to themselves."""
        found = []
        for score in self.scores:
            kept = score.kept
            while kept is not None:
                found += [kept, *kept.others]
                kept = kept.inner
        return found

    @property
    def optimizer(self) -> Optimizer | None:
        """The optimizer, where there is just one."""
        return self.optimizers[0] if len(self.optimizers) == 1 else None

    @property
    def early_optimizer(self) -> bool:
        """Whether an optimizer is built by another function than that which perforates the model, and before it."""
        return any(one.early for one in self.optimizers)

    @property
    def late_optimizer(self) -> Optimizer | None:
        """An optimizer that is built, or built again, in an epoch loop or what holds one; None for those before it."""
        return next((one for one in self.optimizers if one.late), None)

    @property
    def rebuildings(self) -> list[Rebuilding]:
        """The further constructions of the optimizer in other functions."""
        return [one for optimizer in self.optimizers for one in optimizer.rebuilt]

    @property
    def loop(self) -> EpochLoop | None:
        """The epoch loop, where there is just one."""
        return self.loops[0] if len(self.loops) == 1 else None

    def anchor(self, name: str | None) -> cst.CSTNode:
        if name == "parser" and self.parser is not None:
            return self.parser.node
        return self.node

    def calls(self, name: str) -> list[CallSite]:
        """Return the calls of a function, whatever it is imported as.

        Args:
            name: the end of its full name, `module.function`; without a dot, a function that the recipe provides.
        """
        wanted = {name}
        if "." not in name:
            wanted = {full for full in self.index.provided if full.rpartition(".")[2] == name}
            wanted |= {name} & self.index.bare
        found = []
        for full, call in self._calls_by_last_name[name.rpartition(".")[2]]:
            if full in wanted or ("." in name and full.endswith("." + name)):
                anchors: dict[str, cst.CSTNode] = {"call": call, "function": call.func}
                found.append(CallSite(node=call, index=self.index, anchors=anchors))
        return found

    @property
    def late_imports(self) -> str:
        """The places where a module is imported by a name that is made at run time, "" for none."""
        calls = [call for call in self.calls("importlib.import_module") if not call.literal("name", 0)]
        return ", ".join(call.place() for call in calls)

    def named(self, prefix: str) -> list[Site]:
        """Return where the project uses what has a full name that begins so, whatever it is imported as."""
        nodes = self._named_by_package[prefix.partition(".")[0]]
        return [Site(node=node, index=self.index) for node, full in nodes if full.startswith(prefix)]

    @cached_property
    def _named_by_package(self) -> defaultdict[str, list[tuple[cst.CSTNode, str]]]:
        """What is called and every attribute, with their full names, in the order of the files."""
        found: defaultdict[str, list[tuple[cst.CSTNode, str]]] = defaultdict(list)
        for node in dict.fromkeys([*(call.func for call in self.index.calls), *self.index.attributes]):
            full = self.index.qualified(node)
            found[full.partition(".")[0]].append((node, full))
        for nodes in found.values():
            nodes.sort(key=lambda named: self.index.source.span(named[0]))
        return found

    @cached_property
    def _calls_by_last_name(self) -> defaultdict[str, list[tuple[str, cst.Call]]]:
        """Every call with its full name: rules ask for a hundred names, in projects of tens of thousands of calls."""
        found: defaultdict[str, list[tuple[str, cst.Call]]] = defaultdict(list)
        for call in self.index.calls:
            full = self.index.qualified(call.func)
            found[full.rpartition(".")[2]].append((full, call))
        return found

    @property
    def inlined(self) -> bool:
        """Whether the functions that the recipe provides stand in the script itself."""
        return self.index.inlined

    def binds(self, name: str) -> bool:
        """Whether the script gives a meaning of its own to ``name`` anywhere."""
        return name in self.index.bound_names or name in self.index.scope.names

    def literal(self, function: str, name: str, position: int | None = None) -> str:
        """Return the first plain string that ``function`` is called with, "" where there is none."""
        return next((text for call in self.calls(function) if (text := call.literal(name, position))), "")

    def argument(self, function: str, name: str) -> str:
        """Return the code of an argument that ``function`` is called with, "" where there is none."""
        return next((code for call in self.calls(function) if (code := call.argument(name))), "")

    def sites(self) -> Iterator[tuple[str, Site]]:
        """Yield every site with the word by which rules name its kind."""
        yield "script", self
        for kind in SITE_KINDS:
            for site in getattr(self, kind.replace("-", "_") + "s"):
                yield kind, site
        for loop in self.loops:
            yield "epoch-loop", loop
