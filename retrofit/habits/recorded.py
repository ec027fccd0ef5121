"""Find the names and calls of the library whose history is on record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from retrofit.habits.file import TrainingFile
from retrofit.habits.library import LibrarySetting, full_name, guarded
from retrofit.habits.sites import Call
from retrofit.history import Entry, History
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted
from retrofit.survey.scopes import Statement
from retrofit.survey.sites.base import Site
from retrofit.wording import did_you_mean


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


@dataclass(eq=False, kw_only=True)
class UnknownMethod(Call):
    """A call of a method of the library's tracker that no release on record has.

    Attributes:
        name: the method's name.
        history: what is on record of the library.
    """

    name: str
    history: History

    @property
    def latest(self) -> str:
        """The newest release."""
        return self.history.latest

    @property
    def near(self) -> str:
        """The methods that are spelled much like it, as the end of a message; "" for none."""
        return did_you_mean(self.name, [full.rpartition(".")[2] for full in self.history.methods])


def find_unknown_methods(file: TrainingFile) -> Iterator[UnknownMethod]:
    """Yield the calls of methods of the tracker that no release has, those that the file asks for first left out."""
    history = file.history
    if history is None or not file.perforated:
        return
    for call in file.index.calls:
        full = full_name(file, call.func)
        holder, _, name = full.rpartition(".")
        if holder != history.tracker or full in history.methods or guarded(file, file.index.statement(call), call):
            continue
        yield UnknownMethod(node=call, index=file.index, habits=file, name=name, history=history)


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
