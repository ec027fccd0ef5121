"""Find where validation scores are handed to the tracker, and what they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from retrofit.habits.file import TrainingFile
from retrofit.habits.library import full_name
from retrofit.habits.loaders import Evaluation
from retrofit.habits.names import follows, may_follow, text
from retrofit.habits.perforation import Perforation, find_perforations
from retrofit.habits.sites import Call
from retrofit.knowledge.kinds import Scheduler
from retrofit.survey.nodes import argument, dotted, mentions, method_name, receiver
from retrofit.survey.scopes import Binding, Statement
from retrofit.survey.scores.words import told_by_name
from retrofit.survey.sites.base import Site

_TAKES_SCORES = ("pai_tracker.add_validation_score", "pai_distributed.add_validation_score", "report_validation_score")
_EXTRA = ("pai_tracker.add_extra_score", "pai_tracker.add_extra_score_without_graphing", "pai_tracker.add_test_score")
_AVERAGES = ("avg", "average", "value", "val", "mean", "global_avg")
_SMALLER = ("item", "mean", "cpu", "detach", "float", "numpy")


@dataclass(eq=False, kw_only=True)
class ScoreReport(Call):
    """A call that hands a validation score to the tracker, itself or by the helper."""

    @property
    def score(self) -> cst.BaseExpression | None:
        """The score."""
        return self.argument_node("accuracy", 0) or self.argument_node("score", 0)

    @cached_property
    def _perforation(self) -> Perforation | None:
        found = find_perforations(self.habits)
        return found[0] if len(found) == 1 else None

    @cached_property
    def name(self) -> str:
        """The name of the score, that of the item or of what computes it where it has none; "" where it is more."""
        return _named(self.habits, self.score)

    @cached_property
    def told(self) -> str:
        """Which scores are better as the name says, "max" or "min"; "" where it does not."""
        return told_by_name(self.name)

    @cached_property
    def direction(self) -> str:
        """Which scores are better as the model was perforated, "max" or "min"; "" where that is not seen."""
        maximizing = None if self._perforation is None else self._perforation.maximizing
        return "" if maximizing is None else "max" if maximizing else "min"

    @property
    def perforated_line(self) -> int:
        """The line in which the model is made to grow dendrites."""
        return 0 if self._perforation is None else self._perforation.line

    @cached_property
    def best(self) -> bool:
        """Whether it is the best so far: a name that is given another value only where that is a better one."""
        name = dotted(self.score)
        if name is None:
            return False
        given = self.index.bound([name], self.scope)
        kept = [b for b in given if _keeps_best(b, name)]
        inside = [b for b in given if any(isinstance(s.node, (cst.For, cst.While)) for s in b.statement.ancestors)]
        return bool(kept) and len(kept) == len(inside)

    @cached_property
    def whole(self) -> bool:
        """Whether its fraction is cut off before: `int(acc)`, `round(acc)`."""
        value = None if self.score is None else self.habits.value_of(self.score)
        if not isinstance(value, cst.Call):
            return False
        called = dotted(value.func)
        return called == "int" or (called == "round" and len(value.args) == 1)

    @property
    def by_default(self) -> bool:
        """Whether nothing in the call that perforates the model says so."""
        return self._perforation is not None and self._perforation.argument_node("maximizing_score", 4) is None

    @property
    def code_of_score(self) -> str:
        """The code of the score."""
        return "" if self.score is None else self.index.source.code(self.score)

    @property
    def parallel(self) -> bool:
        """Whether the file trains in several processes."""
        return self.habits.ddp or bool(self.habits.groups)

    @property
    def direct(self) -> bool:
        """Whether it goes to the tracker itself, which leaves the ranks to the script."""
        return full_name(self.habits, self.call.func).endswith(_TAKES_SCORES[0])

    @cached_property
    def alone(self) -> bool:
        """Whether no other rank than the first ever hands a score over, in a run of several processes."""
        others = [one for one in self.habits.sites("score-report") if isinstance(one, ScoreReport)]
        return self.parallel and all(one.ranks == "first" for one in others)

    @cached_property
    def unreduced(self) -> bool:
        """Whether each rank hands over the score of its own share of the data."""
        loops = [one for one in self.habits.sites("evaluation") if isinstance(one, Evaluation)]
        return any(one.sums and one.used and not one.reduced for one in loops)

    @cached_property
    def untrained(self) -> bool:
        """Whether it is handed over before the epoch loop begins."""
        return any(follows(loop.statement, self.statement) for loop in self.habits.loops)


@dataclass(eq=False, kw_only=True)
class ExtraScore(Call):
    """A call that gives the tracker a further score to draw."""

    @cached_property
    def name(self) -> str:
        """The score's name, "" where it is not written out."""
        return text(self.habits, self.argument_node("extra_score_name", 1))


@dataclass(eq=False, kw_only=True)
class ReplacedOptimizer(Site):
    """An optimizer that is built anew in a loop whose scheduler steps the one before; `node` is the statement.

    Attributes:
        name: the optimizer's name.
        scheduler: the scheduler's name.
        made: the line in which that was made.
    """

    name: str
    scheduler: str
    made: int


@dataclass(eq=False, kw_only=True)
class KeptOptimizer(Call):
    """A call that gives the tracker an optimizer from before the restructuring, of which nothing is built anew.

    Attributes:
        name: the optimizer's name.
        reported: the line in which the score is handed over that may restructure the model.
    """

    name: str
    reported: int


def _named(file: TrainingFile, node: cst.BaseExpression | None) -> str:
    """Return the identifier that tells what a value is."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        return _named(file, node.value) if node.attr.value in _AVERAGES else node.attr.value
    if isinstance(node, cst.Subscript) and len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
        return text(file, node.slice[0].slice.value)
    return _named(file, receiver(node)) if method_name(node) in _SMALLER else ""


def _keeps_best(binding: Binding, name: str) -> bool:
    """Whether a name is given another value only where it is a better one."""
    value = binding.value
    if isinstance(value, cst.Call) and dotted(value.func) in ("max", "min"):
        return mentions(value, [name])
    around = [part.node for part in binding.statement.ancestors if isinstance(part.node, cst.If)]
    return any(_compares(one.test, name) for one in around)


def _compares(test: cst.BaseExpression, name: str) -> bool:
    if isinstance(test, cst.BooleanOperation):
        return _compares(test.left, name) or _compares(test.right, name)
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    ordered = isinstance(
        test.comparisons[0].operator, (cst.GreaterThan, cst.LessThan, cst.GreaterThanEqual, cst.LessThanEqual)
    )
    return ordered and (dotted(test.left) == name or dotted(test.comparisons[0].comparator) == name)


def find_score_reports(file: TrainingFile) -> list[ScoreReport]:
    """Return the calls that hand a validation score over."""
    calls = [call for call in file.index.calls if full_name(file, call.func).endswith(_TAKES_SCORES)]
    return [ScoreReport(node=call, index=file.index, habits=file) for call in calls]


def find_extra_scores(file: TrainingFile) -> list[ExtraScore]:
    """Return the calls that give the tracker a further score."""
    calls = [call for call in file.index.calls if full_name(file, call.func).endswith(_EXTRA)]
    return [ExtraScore(node=call, index=file.index, habits=file) for call in calls]


def find_replaced_optimizers(file: TrainingFile) -> Iterator[ReplacedOptimizer]:
    """Yield the optimizers that are built anew in a loop, while a scheduler goes on with the one before."""
    if not file.perforated:
        return
    for call in file.calls(*file.index.knowledge.named(Scheduler)):
        name, scheduler = dotted(argument(call, "optimizer", 0)), file.index.target_of(call)
        if name is None or not scheduler:
            continue
        made = file.index.statement(call)
        stepped = [one for one, holder in file.index.method_calls("step") if dotted(holder) == scheduler]
        loops = [loop for one in stepped for loop in _loops(file.index.statement(one)) if loop not in made.path]
        for binding in file.index.bound([name], made.scope):
            inside = [loop for loop in loops if loop in binding.statement.path]
            again = [
                b for b in file.index.bound([scheduler], made.scope) if any(loop in b.statement.path for loop in inside)
            ]
            if inside and not again and isinstance(binding.value, cst.Call):
                line = file.index.source.position(call)[0]
                yield ReplacedOptimizer(
                    node=binding.statement.node, index=file.index, name=name, scheduler=scheduler, made=line
                )


def find_kept_optimizers(file: TrainingFile) -> Iterator[KeptOptimizer]:
    """Yield where the tracker is given again what it had before a score that may have restructured the model."""
    reports = [one.statement for one in find_score_reports(file)]
    for call in file.index.calls:
        name = dotted(call.args[0].value) if call.args else None
        if name is None or "." in name or not full_name(file, call.func).endswith("pai_tracker.set_optimizer_instance"):
            continue
        here = file.index.statement(call)
        made = [binding.statement for binding in file.index.bound([name], here.scope)]
        grown = [one for one, held in file.index.method_calls("add_param_group") if dotted(held) == name]
        made += [file.index.statement(one) for one in grown]
        for report in (one for one in reports if one.scope is here.scope and may_follow(here, one)):
            loops = [loop for loop in _loops(report) if loop in here.path]
            if not any(one.order > report.order or any(loop in one.path for loop in loops) for one in made):
                line = file.index.source.position(report.node)[0]
                yield KeptOptimizer(node=call, index=file.index, habits=file, name=name, reported=line)
                break


def _loops(statement: Statement) -> list[Statement]:
    return [part for part in statement.ancestors if isinstance(part.node, (cst.For, cst.While))]
