"""Find how a file uses the library whose history is on record: names and settings that its newest release lacks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from retrofit.habits.file import TrainingFile
from retrofit.habits.names import follows
from retrofit.habits.sites import Call
from retrofit.history import Entry, History
from retrofit.survey.index import Index, Statement
from retrofit.survey.nodes import dotted, nodes_in, receiver
from retrofit.survey.sites.base import Site
from retrofit.wording import did_you_mean

_VERSION = re.compile(r"version", re.IGNORECASE)
_ASKS = re.compile(r"\b(hasattr|getattr|inspect|signature)\b|version", re.IGNORECASE)


@dataclass(eq=False, kw_only=True)
class OldName(Site):
    """A name of an earlier release that the newest one lacks; `node` is its use, or the statement that imports it.

    Attributes:
        full: its full name.
        entry: what is on record of it, None of a module.
        history: what is on record of the library.
        replacement: the code with its successor, "" where that does not mean the same.
    """

    full: str
    entry: Entry | None
    history: History
    replacement: str = ""

    @property
    def latest(self) -> str:
        """The newest release."""
        return self.history.latest

    @property
    def name(self) -> str:
        """The name alone."""
        return self.full.rpartition(".")[2]

    @property
    def module(self) -> bool:
        """Whether it is a module."""
        return self.entry is None

    @property
    def gone(self) -> str:
        """The first release without it."""
        return self.history.releases[0] if self.entry is None else self.history.next_after(self.entry.until)

    @property
    def successor(self) -> str:
        """The name of what took its place, "" for nothing."""
        full = self.history.modules[self.full] if self.entry is None else self.entry.successor
        return full.rpartition(".")[2]

    @property
    def change(self) -> str:
        """In what its meaning came to be another one, "" for nothing."""
        return "" if self.entry is None else "; ".join(self.entry.changes.values())


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


@dataclass(eq=False, kw_only=True)
class LibraryCall(Call):
    """A call of a function or method of the library that is on record.

    Attributes:
        entry: what is on record of it.
        history: what is on record of the library.
    """

    entry: Entry
    history: History

    @cached_property
    def unknown(self) -> list[str]:
        """The keywords that it does not take."""
        takes = self.history.takes(self.entry)
        if self.entry.takes is None or any(name.startswith("**") for name in takes):
            return []
        return [a.keyword.value for a in self.call.args if a.keyword is not None and a.keyword.value not in takes]

    @property
    def latest(self) -> str:
        """The newest release."""
        return self.history.latest

    @property
    def takes(self) -> list[str]:
        """The arguments that it takes."""
        return self.history.takes(self.entry)

    @property
    def name(self) -> str:
        """The function's name alone."""
        return self.entry.name.rpartition(".")[2]

    @cached_property
    def taken_whole(self) -> bool:
        """Whether a method of an optimizer is called on what it returns."""
        used = self.index.method_calls("step", "zero_grad")
        return bool(self.target) and any(dotted(holder) == self.target for _, holder in used)

    @property
    def guarded(self) -> bool:
        """Whether the code around it asks first what the library has."""
        return guarded(self.habits, self.statement, self.node, self.entry.successor.rpartition(".")[2])

    @property
    def perforates(self) -> bool:
        """Whether it makes a model grow dendrites."""
        return self.entry.name in self.history.perforates

    @property
    def unnamed(self) -> str:
        """The names of what it is given by position, that of the first left out; "" where there is no second one."""
        given = [arg for arg in self.call.args if arg.keyword is None]
        known = not self.spread and 1 < len(given) <= len(self.takes)
        return ",".join(["", *self.takes[1 : len(given)]]) if known else ""

    @property
    def default(self) -> str:
        """An argument, as `name=code`, that it has by itself, and its successor has not; "" where it is given one."""
        name = self.entry.default.partition("=")[0]
        position = self.takes.index(name) if name in self.takes else None
        return "" if not name or self.spread or self.argument(name, position) is not None else self.entry.default

    @property
    def spelled(self) -> str:
        """How its value is taken: "name" for that of one name, "parts" in parts, "whole" in any other way."""
        target = self.anchors.get("target")
        if target is None:
            return "parts" if isinstance(self.index.parents.get(self.node), cst.Subscript) else "whole"
        return "name" if isinstance(target, (cst.Name, cst.Attribute)) else "parts"

    def lacks(self, name: str, position: int) -> bool:
        """Whether it is surely not given an argument, or None."""
        value = self.argument(name, position)
        return not self.spread and value in (None, "None")

    def before(self, release: str) -> bool:
        """Whether the file uses what is gone by a release, and so was not written for it."""
        sites = [*self.habits.sites("old-name"), *self.habits.sites("library-setting")]
        gone = [one.gone for one in sites if isinstance(one, (OldName, LibrarySetting))]
        return any(one and self.history.not_after(one, release) for one in gone)


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


def find_old_names(file: TrainingFile) -> Iterator[OldName]:
    """Yield the names that the newest release lacks, those that the file asks for first left out."""
    history = file.history
    if history is None or not file.perforated:
        return
    yield from _imported(file, history)
    for node in file.index.attributes:
        if isinstance(file.index.parents.get(node), cst.Attribute):
            continue  # a part of a longer name
        for part in _parts(node):
            full = full_name(file, part)
            entry = history.layers.get(part.attr.value)
            if entry is None and not _called_setting(history, full):
                entry = history.entry(full)
            if entry is None or history.has(entry):
                continue
            name = _renamed(history, entry, full, "append_" if _added_to(file, history, part) else "")
            if guarded(file, file.index.statement(part), part, name):
                continue
            holder = file.index.source.code(part.value)
            yield OldName(
                node=part,
                index=file.index,
                anchors={"name": part},
                full=full or part.attr.value,
                entry=entry,
                history=history,
                replacement=f"{holder}.{name}" if name else "",
            )
            break


def _parts(node: cst.Attribute) -> Iterator[cst.Attribute]:
    here: cst.BaseExpression = node
    while isinstance(here, cst.Attribute):
        yield here
        here = here.value


def _called_setting(history: History, full: str) -> bool:
    """Whether a name is that of a method of settings that takes any name, which is another site."""
    method = history.method(full)
    return method is not None and method[0] in history.taken


def _added_to(file: TrainingFile, history: History, node: cst.BaseExpression) -> bool:
    """Whether a setting's value is read for that setting's new value, as `set_x(get_x() + [...])` does."""
    around = [
        history.method(full_name(file, one.func)) for one in file.index.ancestors(node) if isinstance(one, cst.Call)
    ]
    method = history.method(full_name(file, node))
    return method is not None and method[0] == "get_" and ("set_", method[1]) in around


def _renamed(history: History, entry: Entry, full: str, kind: str = "") -> str:
    """Return the last part of the name that can take another one's place beside what holds it, "" for none."""
    method = history.method(full)
    word = method[0] if method is not None else ""
    same_place = entry.successor.rpartition(".")[0] == entry.name.rpartition(".")[0]
    return word + entry.successor.rpartition(".")[2] if entry.replaced(kind or word) and same_place else ""


def _imported(file: TrainingFile, history: History) -> Iterator[OldName]:
    """Yield the imports of modules and names that are no more."""
    index = file.index
    for statement, module in (one for each in index.files for one in each.imports):
        node = _import_in(statement.node)
        names = [] if node is None or isinstance(node.names, cst.ImportStar) else node.names
        fulls = {f"{module}.{dotted(one.name)}": one for one in names} if isinstance(node, cst.ImportFrom) else {}
        for full in (module, *fulls):
            entry = history.names.get(full)
            if full not in history.modules and (entry is None or history.has(entry)):
                continue
            alias = fulls.get(full)
            renamed = "" if entry is None or alias is None else _renamed(history, entry, full)
            if guarded(file, statement, statement.node, renamed):
                continue
            yield OldName(
                node=statement.node,
                index=index,
                anchors={"name": statement.node},
                full=full,
                entry=entry,
                history=history,
                replacement=_imported_as(index, statement, alias, renamed) if renamed and alias is not None else "",
            )
            break


def _imported_as(index: Index, statement: Statement, alias: cst.ImportAlias, name: str) -> str:
    """Return the code of an import that takes another name for the same."""
    code = index.source.code(statement.node)
    first, last = (place - index.source.span(statement.node)[0] for place in index.source.span(alias.name))
    kept = "" if alias.asname is not None else f" as {code[first:last]}"
    return f"{code[:first]}{name}{kept}{code[last:]}".rstrip()


def _import_in(node: cst.CSTNode) -> cst.Import | cst.ImportFrom | None:
    small = node.body[0] if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1 else None
    return small if isinstance(small, (cst.Import, cst.ImportFrom)) else None


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


def find_library_calls(file: TrainingFile) -> Iterator[LibraryCall]:
    """Yield the calls of functions and methods of the library that its newest release has."""
    return _calls(file, True)


def find_old_calls(file: TrainingFile) -> Iterator[LibraryCall]:
    """Yield the calls of those that it lacks, and that have a successor."""
    return (one for one in _calls(file, False) if one.entry.replaced() and not one.guarded)


def _calls(file: TrainingFile, there: bool) -> Iterator[LibraryCall]:
    history = file.history
    if history is None or not file.perforated:
        return
    for call in file.index.calls:
        entry = history.names.get(full_name(file, call.func))
        if entry is not None and history.has(entry) == there:
            site = LibraryCall(node=call, index=file.index, habits=file, entry=entry, history=history)
            holder = file.index.parents.get(call)
            if isinstance(holder, cst.Assign) and len(holder.targets) == 1:
                site.anchors["target"] = holder.targets[0].target
            yield site
