"""What libraries do, as data: one TOML file a library in `rules/knowledge/`, and files of a project's own.

Each table of such a file says what some functions, classes or methods do: `[[wraps]]`, `[[optimizer]]` and so on, of
which each is a class in `kinds`. They are known by their full names, wherever a script imports them from; `module.*` is
all of a module; methods by their names alone, as the class of an object is seldom told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from retrofit.errors import Problem, UserError, shown_path
from retrofit.knowledge.kinds import KINDS, Built, Entry, Framework, Logs, ModuleMethod, StartsProcesses, Wraps
from retrofit.rules_folder import rules_folder
from retrofit.toml import read_toml
from retrofit.wording import did_you_mean

_CODE = "RF043"


#: What a text may be, where it is one of some words.
_WORDS = {(Wraps, "by"): ("ddp", "dp"), (StartsProcesses, "how"): ("spawn", "process", "launch")}

_E = TypeVar("_E", bound=Entry)


class Knowledge:
    """What is known of libraries.

    Args:
        entries: the entries; of several for one name the last one counts.
        further: how many of the last ones are a project's own.
    """

    def __init__(self, entries: Sequence[Entry], further: int = 0) -> None:
        self.entries = tuple(entries)
        self._further = self.entries[len(entries) - further :]
        self._named: dict[type[Entry], dict[str, Any]] = {}
        self._starred: set[type[Entry]] = set()

    def of(self, kind: type[_E]) -> list[_E]:
        """Return the entries of one kind."""
        return [one for one in self.entries if isinstance(one, kind)]

    def named(self, kind: type[_E]) -> Mapping[str, _E]:
        """Return the entries of one kind by the full names that they are about."""
        if kind not in self._named:
            named = self._named[kind] = {name: one for one in self.of(kind) for name in one.all_names}
            self._starred |= {kind} if any(name.endswith(".*") for name in named) else set()
        return self._named[kind]

    def known(self, kind: type[_E], name: str) -> _E | None:
        """Return what is known of a full name, itself or as part of a module; None where it is not of that kind."""
        named = self.named(kind)
        found = named.get(name)
        while found is None and name and kind in self._starred:
            name = name.rpartition(".")[0]
            found = named.get(f"{name}.*")
        return found

    @cache  # noqa: B019 - there are few, and each lasts as long as the program
    def last_names(self, kind: type[Entry]) -> frozenset[str]:
        """Return the last names of what is of one kind."""
        return frozenset(name.rpartition(".")[2] for name in self.named(kind)) - {"*"}

    @cache  # noqa: B019
    def methods(self, kind: type[Entry]) -> frozenset[str]:
        """Return the methods of one kind."""
        return frozenset(method for one in self.of(kind) for method in one.methods)

    @cache  # noqa: B019
    def signatures(self, kind: type[Built]) -> Mapping[str, tuple[str, ...]]:
        """Return the parameters of classes of one kind by their last names, as a star import leaves no more of them."""
        found = (item for one in self.of(kind) for item in one.signatures.items())
        return {name.rpartition(".")[2]: parameters for name, parameters in found}

    @cached_property
    def wrappers(self) -> Mapping[str, frozenset[str]]:
        """The full names of wrappers, `ddp` and `dp`."""
        return {by: frozenset(n for one in self.of(Wraps) if one.by == by for n in one.names) for by in ("ddp", "dp")}

    def wrapper_parameters(self, name: str) -> tuple[str, ...]:
        """Return the parameters of a wrapper, by its full name, in order; those of PyTorch's where none are told."""
        known = self.known(Wraps, name)
        alike = [one for one in self.of(Wraps) if known is not None and one.by == known.by]
        return next((one.parameters for one in (known, *alike) if one is not None and one.parameters), ())

    @cached_property
    def wrapper_members(self) -> frozenset[str]:
        """What wrappers have of their own."""
        return frozenset(member for one in self.of(Wraps) for member in one.members)

    def wrapper_methods(self, name: str) -> tuple[str, ...]:
        """Return the methods that a wrapper has besides, by its full name."""
        known = self.known(Wraps, name)
        return known.methods if known is not None else ()

    @cached_property
    def module_methods(self) -> frozenset[str]:
        """The methods of a module that return the module itself."""
        return self.methods(ModuleMethod)

    @cached_property
    def moving_methods(self) -> frozenset[str]:
        """Those that put it on a device or change its number format."""
        return frozenset(method for one in self.of(ModuleMethod) if one.moves for method in one.methods)

    @cached_property
    def logs(self) -> Callable[[str], bool]:
        """Tell of a name that is called, perhaps with dots in it, whether it tells its user a number."""
        words = {*self.methods(Logs), *self.last_names(Logs)}
        pattern = re.compile(rf"(^|\.)({'|'.join(re.escape(one) for one in sorted(words))})$".replace(r"\*", r"\w*"))
        return lambda name: pattern.search(name) is not None

    @cached_property
    def own_words(self) -> tuple[bytes, ...]:
        """The words by which code may use what a project's own files know."""
        names = {name for one in self._further for name in (*one.all_names, *one.methods)}
        parts = {part for one in self._further if isinstance(one, Framework) for part in one.modules}
        return tuple(sorted(name.removesuffix(".*").rpartition(".")[2].encode() for name in names | parts))


def load_knowledge(further: tuple[Path, ...] = ()) -> Knowledge:
    """Return what is known of libraries, which is read once in a process.

    Args:
        further: files of a project's own.

    Raises:
        UserError: one of them cannot be read, or has a mistake.
    """
    return _loaded(further)


@cache
def _loaded(further: tuple[Path, ...]) -> Knowledge:
    if not further:
        return Knowledge([entry for path in sorted(knowledge_folder().glob("*.toml")) for entry in read_entries(path)])
    own = [entry for path in further for entry in read_entries(path)]
    return Knowledge([*load_knowledge().entries, *own], len(own))


def knowledge_folder() -> Path:
    """Return the folder of the files that come with the program."""
    return rules_folder() / "knowledge"


def read_entries(path: Path) -> list[Entry]:
    """Return the entries of a file.

    Raises:
        UserError: it cannot be read, is no valid TOML, or has a mistake in an entry.
    """
    data = read_toml(path, _CODE)
    found = []
    for kind, tables in data.items():
        if kind not in KINDS:
            near = did_you_mean(kind, [*KINDS]) or f" Known are {', '.join(KINDS)}."
            raise _fault(path, kind, 0, f"knows no kind of entry {kind!r}.{near}")
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise _fault(path, kind, 0, f"{kind} must be written as [[{kind}]].")
        for number, table in enumerate(tables):
            try:
                found.append(_entry(kind, table))
            except ValueError as error:
                raise _fault(path, kind, number, f"[[{kind}]] {error}") from None
    return found


def _entry(word: str, table: dict[str, Any]) -> Entry:
    """Return an entry, as its table says it.

    Raises:
        ValueError: a key is unknown, wanting, or has a value of another type; with the reason as the end of a sentence.
    """
    kind, types, values = KINDS[word], _types(word), dict[str, Any]()
    for key, value in table.items():
        if key not in types:
            raise ValueError(f"has the unknown key {key!r}.{did_you_mean(key, [*types])}")
        values[key] = _READERS[types[key]](key, value)
        words = _WORDS.get((kind, key))
        if words and value not in words:
            raise ValueError(f"{key} is {value!r}; it must be {' or '.join(words)}.")
    needed = [one.name for one in fields(kind) if one.default is one.default_factory is MISSING]
    lacking = [name for name in needed if name not in values]
    if lacking:
        raise ValueError(f"lacks {' and '.join(lacking)}.")
    entry = kind(**values)
    if not (entry.all_names or entry.methods or isinstance(entry, Framework)):
        raise ValueError("names nothing: give it names or methods.")
    return entry


@cache
def _types(word: str) -> Mapping[str, Any]:
    """Return the types of a kind's keys."""
    return get_type_hints(KINDS[word])


def _simple(wanted: type, said: str) -> Callable[[str, object], object]:
    def read(key: str, value: object) -> object:
        if type(value) is not wanted:
            raise ValueError(f"{key} is {value!r:.40}; it must be {said}.")
        return value

    return read


def _names(key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{key} is {value!r:.40}; it must be a list of strings.")
    return tuple(value)


def _positions(key: str, value: object) -> dict[str, int]:
    if not isinstance(value, dict) or not all(type(one) is int for one in value.values()):
        raise ValueError(f"{key} is {value!r:.40}; it must be a table such as {{loss = 0}}.")
    return value


def _signatures(key: str, value: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise ValueError(f"{key} is {value!r:.40}; it must be a table of lists.")
    return {name: _names(name, one) for name, one in value.items()}


#: How values are read, by their types.
_READERS: Mapping[object, Callable[[str, object], object]] = {
    str: _simple(str, "a string"),
    bool: _simple(bool, "true or false"),
    int: _simple(int, "a whole number"),
    tuple[str, ...]: _names,
    Mapping[str, int]: _positions,
    Mapping[str, tuple[str, ...]]: _signatures,
}


def _fault(path: Path, kind: str, number: int, message: str) -> UserError:
    """Return the error about a table of a file, at the line where it begins, as far as that is seen."""
    lines = [line for line, text in _heads(path) if re.match(rf"\s*\[+\s*[\"']?{re.escape(kind)}[\"']?\s*\]", text)]
    line = lines[number] if number < len(lines) else 0
    return UserError(Problem(shown_path(path), line, 1, _CODE, message))


def _heads(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers, without those inside of longer strings."""
    text = re.sub(
        r"('''|\"\"\").*?\1", lambda match: "\n" * match[0].count("\n"), path.read_text("utf-8"), flags=re.DOTALL
    )
    yield from enumerate(text.splitlines(), 1)
