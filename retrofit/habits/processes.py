"""Find how a file starts its processes: process groups, launchers, and the options that launchers pass."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from retrofit.habits.file import TrainingFile
from retrofit.habits.names import follows, met, spelled, text, unconditional
from retrofit.habits.sites import Call
from retrofit.knowledge.kinds import StartsProcesses
from retrofit.survey.arguments import spellings
from retrofit.survey.branches import exclude_each_other
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted, exits, guards_main, last_name, nodes_in
from retrofit.survey.order import always_leaves
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.sites.base import Site
from retrofit.survey.words import ENDING, speak

_TELLS = re.compile(
    r"^(str|int|float|round|len|super)$|(^|\.)_?(print|info|debug|warning|log|write|flush|close|format|finish|time|now)$"
)
_DESTROY = "torch.distributed.destroy_process_group"
_COMMAND = re.compile(r"\s*(\S*=\S*\s+)*\S*python\S*\s+-m torch\.distributed\.launch")
_LEAVING = (cst.Break, cst.Return, cst.Raise)
_RANK_OPTION = re.compile(r"--local[-_]rank")


@dataclass(eq=False, kw_only=True)
class Group(Call):
    """A call of `init_process_group`."""

    @cached_property
    def backend(self) -> str:
        """Its backend, "" where it is not given as one plain text."""
        return text(self.habits, self.argument_node("backend", 0)).lower()

    @property
    def alone(self) -> bool:
        """Whether it is a group of one process."""
        return self.argument("world_size", 3) == "1"

    @cached_property
    def _started(self) -> list[Statement]:
        """The statements after which it has surely run, up the ways by which it is called."""
        found = [self.statement]
        for statement in found:
            scope = statement.scope
            plain = isinstance(statement.node, cst.SimpleStatementLine) and unconditional(statement)
            if scope.kind == "function" and plain:
                calls = [call for call in self.habits.flow.callers(scope) if not self._spawns(call)]
                found += [s for call in calls if (s := self.index.statement(call)) not in found]
        return [s for s in found if isinstance(s.node, cst.SimpleStatementLine)]

    def _surely(self, earlier: Statement, later: Statement) -> bool:
        """Whether a statement has run before a later one of its function, for which the same conditions hold."""
        asked = {self.index.source.read(test) for test in met(self.index, later)}
        held = met(self.index, earlier)
        here = earlier
        while not follows(later, here):
            node = here.parent.node if here.parent is not None else None
            if not isinstance(node, cst.If) or node.test not in held or self.index.source.read(node.test) not in asked:
                return False
            assert here.parent is not None
            here = here.parent
        return True

    def _spawns(self, call: cst.Call) -> bool:
        """Whether a call runs a function in processes of its own."""
        return self.index.knowledge.known(StartsProcesses, self.index.qualified(call.func)) is not None

    def before(self, statement: Statement, seen: frozenset[Scope] = frozenset()) -> bool:
        """Whether it has surely run when a statement does."""
        if any(s.scope is statement.scope and self._surely(s, statement) for s in self._started):
            return True
        scope = statement.scope
        if scope.kind != "function" or scope in seen:
            return False
        calls = self.habits.flow.callers(scope)
        return bool(calls) and all(
            not self._spawns(call) and self.before(self.index.statement(call), seen | {scope}) for call in calls
        )

    @cached_property
    def trains(self) -> bool:
        """Whether the file is a program that trains: it starts this group when it is run, and has a backward pass."""
        ways = self.habits.flow.leading(self.statement)
        return bool(self.habits.backwards) and any(way.scope.kind == "module" for way in ways)

    @property
    def ended(self) -> bool:
        """Whether the file ends process groups, or calls something whose name says so."""
        called = {last_name(call.func) for call in self.index.calls}
        return "destroy_process_group" in self.index.source.words() or speak(called, ENDING)

    def _spelled(self, full: str) -> str:
        """Return how a name can be written where the group is to be destroyed."""
        return spelled(self.index, full, self.scope if self.last is None else self.last.scope)

    @property
    def destroy(self) -> str:
        """The code that ends process groups, as the file can write it."""
        return self._spelled(_DESTROY) or "dist.destroy_process_group"

    @property
    def is_initialized(self) -> str:
        """The code that asks whether there is a process group, as the file can write it."""
        return self._spelled("torch.distributed.is_initialized") or "dist.is_initialized"

    @property
    def imported(self) -> bool:
        """Whether an import of the file reaches the function that ends process groups."""
        return bool(self._spelled(_DESTROY))

    @cached_property
    def always(self) -> bool:
        """Whether every way through the function at whose end it is destroyed starts it."""
        last = self.last
        return last is not None and any(s.scope is last.scope and unconditional(s) for s in self._started)

    @property
    def ends_in_sight(self) -> bool:
        """Whether there is a last statement of what runs in the process group."""
        return self.last is not None

    @cached_property
    def last(self) -> Statement | None:
        """The last statement of what runs in the process group, where every way through it ends there.

        That is the function, or the program, in which the training starts as well.
        """
        ways = [way for one in self.habits.backwards for way in self.habits.flow.leading(one.statement)[1:]]
        training = self.habits.training_loops.union(ways)
        for statement in self._started:
            inside = [s for s in training if s.scope is statement.scope]
            if inside and all(s.order > statement.order for s in inside):
                return self._last_of(statement, frozenset())
        return None

    def _goes_on(self, statement: Statement) -> bool:
        """Whether anything that may need the group runs after a statement's function, in those that call it."""
        ways = self.habits.flow.leading(statement)[1:]
        return any(later.scope is way.scope and follows(later, way) for way in ways for later in self._calling)

    @cached_property
    def _calling(self) -> set[Statement]:
        """The statements that call anything but a function that only tells, or tidies up."""
        return {
            self.index.statement(call)
            for call in self.index.calls
            if not _TELLS.search(dotted(call.func) or self.index.source.code(call.func))
        }

    def _last_of(self, statement: Statement, seen: frozenset[Scope]) -> Statement | None:
        """Return the last statement of a function, or of the program, that holds a statement.

        Where the function may return before its end, or more of the program follows, that of its caller.
        """
        scope = statement.scope
        if isinstance(scope.node, cst.FunctionDef):
            block = self.index.statements_in(scope.node.body)
            leaves = any(holder is scope for _, holder in self.index.returns)
            if leaves or self._goes_on(statement):
                calls = self.habits.flow.callers(scope)
                plain = len(calls) == 1 and not self._spawns(calls[0]) and not scope.node.decorators
                return (
                    self._last_of(self.index.statement(calls[0]), seen | {scope})
                    if plain and scope not in seen
                    else None
                )
        else:
            guarded = [part for part in statement.path if part.parent is not None and guards_main(part.parent.node)]
            block = [*guarded, statement][0].siblings
        last = block[-1]
        ends = (
            isinstance(last.node, (cst.FunctionDef, cst.ClassDef))
            or last.crowded
            or isinstance(last.node, cst.While)
            or always_leaves(last)
        )
        return None if ends or last is self.statement else last

    @cached_property
    def earlier(self) -> Call | None:
        """Another `init_process_group` that has surely run before, and whose group is not ended since."""
        if "destroy_process_group" in self.index.source.words() or self._asks:
            return None
        for other in self.habits.sites("group"):
            if other is self or not isinstance(other, Group) or exclude_each_other(other.statement, self.statement):
                continue
            if any(isinstance(p.node, (cst.Try, cst.TryStar)) for p in other.statement.ancestors):
                continue
            if other.before(self.statement):
                return other
        return None

    @property
    def earlier_line(self) -> int:
        """The line of that one."""
        return 0 if self.earlier is None else self.earlier.line

    @cached_property
    def repeated(self) -> bool:
        """Whether a loop comes to it again and again, with nothing in the file that ends the group in between."""
        if "destroy_process_group" in self.index.source.words() or self._asks:
            return False
        return any(self._again(statement) for statement in self._started)

    def _again(self, statement: Statement) -> bool:
        for part in statement.around:
            if isinstance(part.node, (cst.Try, cst.TryStar)):
                return False
            if isinstance(part.node, (cst.For, cst.While)):
                return not any(isinstance(node, _LEAVING) or exits(node) for node in nodes_in(part.node))
        return False

    @property
    def _asks(self) -> bool:
        """Whether the file asks if a group is there already."""
        return any("is_initialized" in word for word in self.index.source.words())


@dataclass(eq=False, kw_only=True)
class RankOption(Call):
    """An argparse option `--local_rank`."""

    @property
    def flags(self) -> list[str]:
        """The spellings that it takes."""
        return [str(spelling) for spelling in spellings(self.call)]

    @property
    def from_environment(self) -> bool:
        """Whether the file reads the local rank from where torchrun puts it, or another launcher passes the option."""
        return (
            re.search(r"LOCAL_RANK|deepspeed|horovod|torch_xla|get_local_rank|'RANK'", self.index.source.read())
            is not None
        )

    @property
    def dest(self) -> str:
        """The name of its value."""
        return (self.literal("dest") or self.flags[0].lstrip("-")).replace("-", "_")

    @cached_property
    def used(self) -> bool:
        """Whether the file goes by its value alone: it reads it, and never gives it another."""
        reads = [node for node in self.index.attributes if node.attr.value == self.dest]
        given = [b for b in self.index.bindings if b.target.endswith(f".{self.dest}")]
        return bool(reads) and not given

    @property
    def default(self) -> str:
        """The code of its default, "" for none."""
        return self.argument("default") or ""

    @property
    def os(self) -> str:
        """The name of the module `os` here, "" where it is not imported."""
        return spelled(self.index, "os", self.scope)

    @property
    def fixable(self) -> bool:
        """Whether its default is a plain number, or not given."""
        return re.fullmatch(r"(-?\d+)?", self.default) is not None and not self.spread


@dataclass(eq=False, kw_only=True)
class Launcher(Site):
    """Code that runs `torch.distributed.launch`; `node` is the text, or the import, that names it."""


def find_groups(file: TrainingFile) -> list[Group]:
    """Return the calls of `init_process_group`."""
    found = [Group(node=call, index=file.index, habits=file) for call in file.groups]
    for group in found:
        if group.last is not None:
            group.anchors["last"] = group.last.node
    return found


def find_rank_options(file: TrainingFile) -> Iterator[RankOption]:
    """Yield the options by which old launchers tell a process its local rank."""
    if not _RANK_OPTION.search(file.source.read()):
        return
    for call, _ in file.index.method_calls("add_argument"):
        site = RankOption(node=call, index=file.index, habits=file)
        if any(_RANK_OPTION.fullmatch(flag) for flag in site.flags):
            yield site


def find_launchers(file: TrainingFile) -> Iterator[Launcher]:
    """Yield where a file starts `torch.distributed.launch` itself."""
    if "torch.distributed.launch" not in file.source.text and "distributed import launch" not in file.source.text:
        return
    for statement, module in file.index.entry.imports:
        if module == "torch.distributed.launch":
            yield Launcher(node=statement.node, index=file.index)
    for node in file.index.nodes_of(cst.SimpleString):
        if _runs(file.index, node):
            yield Launcher(node=node, index=file.index)


def _runs(index: Index, node: cst.SimpleString) -> bool:
    """Whether a text is a command, or a word of one in a list, and not help or a message."""
    if "torch.distributed.launch" not in node.value or isinstance(index.parents[node], cst.Expr):
        return False
    value = node.evaluated_value
    if value == "torch.distributed.launch":
        return isinstance(index.parents[node], cst.Element)
    return isinstance(value, str) and _COMMAND.match(value) is not None
