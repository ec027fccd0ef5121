"""Find how a file sets the library whose history is on record, and by which names it knows it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import libcst as cst

from retrofit.habits.file import TrainingFile
from retrofit.habits.names import follows
from retrofit.habits.sites import Call
from retrofit.history import Entry, History
from retrofit.survey.nodes import dotted, nodes_in, receiver
from retrofit.survey.scopes import Statement
from retrofit.survey.sites.base import Site
from retrofit.wording import did_you_mean

_VERSION = re.compile(r"version", re.IGNORECASE)
_ASKS = re.compile(r"\b(hasattr|getattr|inspect|signature)\b|version", re.IGNORECASE)


@dataclass(eq=False, kw_only=True)
class LibrarySetting(Call):
    """A call that makes a setting of the library: `set_NAME(value)` or `append_NAME(value)` on what holds them.

    Attributes:
        word: what the method has before the setting's name.
        setting: the setting's name.
        history: what is on record of the library.
    """

    word: str
    setting: str
    history: History

    @property
    def _entry(self) -> Entry | None:
        return self.history.settings.get(self.setting)

    @property
    def known(self) -> bool:
        """Whether the newest release has the setting."""
        return self._entry is not None and self.history.has(self._entry)

    @property
    def latest(self) -> str:
        """The newest release."""
        return self.history.latest

    @property
    def gone(self) -> str:
        """The first release without it, "" where none ever had it."""
        return "" if self._entry is None else self.history.next_after(self._entry.until)

    @property
    def addon(self) -> str:
        """The package that has it, where that is another one; "" elsewhere."""
        return self.history.addon if self.setting in self.history.addon_settings else ""

    @property
    def successor(self) -> str:
        """The setting that took its place, "" for none."""
        return "" if self._entry is None else self._entry.successor

    @property
    def change(self) -> str:
        """Since when that means what else, "" where it means the same."""
        changes = {} if self._entry is None or self.replaced else self._entry.changes
        return "; ".join(f"since {release} it {what}" for release, what in changes.items())

    @property
    def replaced(self) -> bool:
        """Whether its successor means the same."""
        return self._entry is not None and self._entry.replaced(self._kind)

    @property
    def _kind(self) -> str:
        """The word by which a value that is made of what is there before counts, as what is appended to that."""
        if self.word != "set_" or not self.call.args:
            return self.word
        own = f"{self.history.holder}.get_{self.setting}"
        read = [part.func for part in nodes_in(self.call.args[0].value) if isinstance(part, cst.Call)]
        return "append_" if any(full_name(self.habits, one) == own for one in read) else self.word

    @property
    def beside(self) -> str:
        """What has to be set beside its successor for the same to come of it, as a call; "" where nothing does that."""
        call = "" if self._entry is None or self.with_unless else self._entry.beside.get(self._kind, "")
        return f"{self.holder}.{call}" if call else ""

    @property
    def first(self) -> bool:
        """Whether that has to come before the setting: it takes the place of what is there."""
        return ".set_" in self.beside

    @property
    def shifted(self) -> str:
        """The release that gave the setting another meaning than it had, before it was gone."""
        return "" if self._entry is None else next(iter(self._entry.changes), "")

    @property
    def with_unless(self) -> bool:
        """Whether the setting is set as well with which its successor means the same as it."""
        if self._entry is None or self._kind not in self._entry.beside:
            return False
        return any(one._kind == self._kind for one in settings(self.habits, self._entry.unless))

    @property
    def resets(self) -> bool:
        """Whether what has to be set beside its successor would undo a setting, wherever it goes."""
        return self.first and any(not follows(one, self._place) for one in self._undone if one is not self._place)

    @property
    def _undone(self) -> list[Statement]:
        """The statements that make the setting which has to be set beside its successor, under any name of it."""
        method, _, _ = self.beside.removeprefix(f"{self.holder}.").partition("(")
        name = method.removeprefix("set_")
        same = {name, *(one for one, entry in self.history.settings.items() if entry.successor == name)}
        return [one.statement for setting in same for one in settings(self.habits, setting)]

    @property
    def _place(self) -> Statement:
        """The statement beside which that is set: its own, or the first of its block that would be undone."""
        near = [one for one in self._undone if one.siblings is self.statement.siblings] if self.first else []
        return min([self.statement, *near], key=lambda one: one.index)

    def anchor(self, name: str | None) -> cst.CSTNode:
        return self._place.node if name == "place" else super().anchor(name)

    @property
    def alone(self) -> bool:
        """Whether the call is a statement."""
        return isinstance(self.index.parents.get(self.node), cst.Expr)

    @property
    def near(self) -> str:
        """The settings that are spelled much like it, as the end of a message; "" for none."""
        known = [name for name, entry in self.history.settings.items() if self.history.has(entry)]
        return did_you_mean(self.setting, known)

    @property
    def holder(self) -> str:
        """The code of what holds the settings."""
        return self.index.source.code(self.anchors["holder"])

    @property
    def late(self) -> int:
        """The line of the perforation that has read it before, 0 where nothing has or it is read later as well."""
        if self.setting not in self.history.read_once or self.word == "get_":
            return 0
        calls = perforating(self.habits)
        found = [call for call in calls if follows(self.statement, self.index.statement(call))]
        return self.index.source.position(found[-1])[0] if found and len(found) == len(calls) else 0

    @property
    def parallel(self) -> bool:
        """Whether the file trains in several processes."""
        return self.habits.ddp or bool(self.habits.groups)

    @property
    def given(self) -> str:
        """The code of the value."""
        return self.index.source.code(self.call.args[0].value) if self.call.args else ""

    @property
    def versioned(self) -> bool:
        """Whether the code around it asks for the release first; whether there is such a method says nothing."""
        return any(_VERSION.search(self.index.source.code(test)) for test in _tests(self.habits, self.node))


def settings(file: TrainingFile, name: str) -> list[LibrarySetting]:
    """Return the calls that make one setting."""
    sites = file.sites("library-setting")
    return [one for one in sites if isinstance(one, LibrarySetting) and one.setting == name]


@dataclass(eq=False, kw_only=True)
class AssignedSetting(Site):
    """A setting of the library that is assigned to, as if it were an attribute; `node` is the statement.

    Attributes:
        holder: the code of what holds the settings.
        setting: the setting's name.
        value: the code of the value.
        known: whether the newest release has it.
        plain: whether the statement is this assignment alone, on a line of its own.
    """

    holder: str
    setting: str
    value: str
    known: bool
    plain: bool


def guarded(file: TrainingFile, statement: Statement, node: cst.CSTNode, successor: str = "") -> bool:
    """Whether code stands where it may fail, or where it was asked before what the library has.

    Args:
        successor: the name that can take the place of one in it. Where the code around it does not try that as well,
            it may fail for another reason: that there is no library at all.
    """
    if any(_ASKS.search(file.index.source.code(test)) for test in _tests(file, node)):
        return True
    tried = [part.node for part in statement.ancestors if isinstance(part.node, (cst.Try, cst.TryStar))]
    return any(not successor or successor in file.index.source.words(one) for one in tried)


def _tests(file: TrainingFile, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What is asked around a node, in the function that it stands in or around that."""
    yield from (part.node.test for part in file.index.statement(node).ancestors if isinstance(part.node, cst.If))
    yield from (part.test for part in file.index.ancestors(node) if isinstance(part, cst.IfExp))


def full_name(file: TrainingFile, node: cst.BaseExpression) -> str:
    """Return the full name of what an expression stands for, also by a variable for a part of it: `pc = GPA.pc`."""
    if isinstance(node, cst.Attribute):
        holder = file.value_of(node.value)
        if holder is not node.value and dotted(holder) not in (None, "None"):
            return f"{file.index.qualified(holder)}.{node.attr.value}"
    return file.index.qualified(node)


def calls_of_any(file: TrainingFile, names: Collection[str]) -> list[cst.Call]:
    """Return the calls of what has one of some full names, also by a variable for a part of it."""
    return [call for call in file.index.calls if full_name(file, call.func) in names]


def perforating(file: TrainingFile) -> list[cst.Call]:
    """Return the calls that make a model grow dendrites."""
    return calls_of_any(file, () if file.history is None else file.history.perforates)


def find_library_settings(file: TrainingFile) -> Iterator[LibrarySetting]:
    """Yield the calls that make settings of the library."""
    history = file.history
    if history is None or not file.perforated:
        return
    for call in file.index.calls:
        method, holder = history.method(full_name(file, call.func)), receiver(call)
        if method is not None and method[0] in history.taken and holder is not None:
            site = LibrarySetting(
                node=call, index=file.index, habits=file, word=method[0], setting=method[1], history=history
            )
            site.anchors.update(name=call.func, holder=holder)
            yield site


def find_assigned_settings(file: TrainingFile) -> Iterator[AssignedSetting]:
    """Yield the assignments to what are settings of the library."""
    history = file.history
    if history is None or not file.perforated:
        return
    for binding in file.index.bindings:
        node = binding.statement.node
        small = node.body[0] if isinstance(node, cst.SimpleStatementLine) else None
        target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
        if not isinstance(target, cst.Attribute) or binding.value is None or dotted(target) != binding.target:
            continue
        holder, _, setting = full_name(file, target).rpartition(".")
        if holder != history.holder or setting.isupper() or setting.startswith("_"):
            continue
        entry = history.settings.get(setting)
        yield AssignedSetting(
            node=node,
            index=file.index,
            holder=file.index.source.code(target.value),
            setting=setting,
            value=file.index.source.code(binding.value),
            known=entry is not None and history.has(entry),
            plain=not binding.statement.crowded,
        )
