"""The history of a library, which is data: names, arguments and settings of its releases, and their successors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from retrofit.errors import Problem, UserError, shown_path
from retrofit.toml import read_toml


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A name of a library, or a setting.

    Attributes:
        name: its full name; of a setting, or of a method of the library's layers, the name alone.
        since: the first release that has it, of those without a gap after them.
        until: the last one.
        also: earlier releases that had it before a gap.
        takes: its arguments in their order, `*args` and `**kwargs` among them; None where it takes none known.
        added: the release in which an argument came to it, for those that were not there from the beginning.
        dropped: the last release that takes an argument, for those that are gone.
        successor: the name, in the same form, of what took its place; "" for none.
        one_to_one: whether the successor means the same; of a setting, after which words.
        changes: what its meaning came to be, by the release that changed it.
        default: an argument, as `name=code`, that it had by itself where it was not given, and its successor has not.
        beside: of a setting, what has to be set beside its successor for the same to come of it, as a method's name
            with its arguments, by the word before the setting's name.
        unless: the setting that makes this needless, where it is set as well.
    """

    name: str
    since: str
    until: str
    also: tuple[str, ...] = ()
    takes: tuple[str, ...] | None = None
    added: Mapping[str, str] = field(default_factory=dict)
    dropped: Mapping[str, str] = field(default_factory=dict)
    successor: str = ""
    one_to_one: bool | tuple[str, ...] = False
    changes: Mapping[str, str] = field(default_factory=dict)
    default: str = ""
    beside: Mapping[str, str] = field(default_factory=dict)
    unless: str = ""

    def replaced(self, word: str = "") -> bool:
        """Whether its successor can take its place as it is.

        Args:
            word: of a setting, the word before its name, such as `set_`.
        """
        same = self.one_to_one if isinstance(self.one_to_one, bool) else word in self.one_to_one
        return bool(self.successor) and same


@dataclass(frozen=True, kw_only=True)
class History:
    """What the releases of a library have.

    Attributes:
        package: the library.
        releases: its releases, in their order.
        names: its functions, classes, methods and values, by their full names.
        settings: its settings, by their names.
        layers: the methods of the layers that it makes, by their names.
        modules: the modules of releases before the first one, with what is there instead.
        holder: the full name of the object whose methods make the settings.
        tracker: the full name of the object that takes the scores, all of whose methods are on record.
        words: what these methods have before a setting's name.
        taken: the words with which a name that no setting has is accepted and does nothing, by the release since which.
        addon: the package that has further settings.
        addon_settings: their names.
        perforates: the functions that make a model grow dendrites, by their full names.
        loads: those that give back what was saved of such a model.
        read_once: the settings that the former read, and that nothing reads later.
        coming: functions that no release has yet, by their full names, with what a script does without them.
    """

    package: str
    releases: tuple[str, ...]
    names: Mapping[str, Entry]
    settings: Mapping[str, Entry]
    layers: Mapping[str, Entry]
    modules: Mapping[str, str]
    holder: str
    tracker: str
    words: tuple[str, ...]
    taken: Mapping[str, str]
    addon: str
    addon_settings: frozenset[str]
    perforates: frozenset[str]
    loads: frozenset[str]
    read_once: frozenset[str]
    coming: Mapping[str, str]

    @property
    def latest(self) -> str:
        """The newest release."""
        return self.releases[-1]

    @cached_property
    def methods(self) -> frozenset[str]:
        """The methods of the tracker, by their full names."""
        return frozenset(full for full in self.names if full.rpartition(".")[0] == self.tracker)

    @cached_property
    def _number(self) -> dict[str, int]:
        return {release: number for number, release in enumerate(self.releases)}

    def has(self, entry: Entry, release: str = "") -> bool:
        """Whether a release, the newest unless told otherwise, has a name or setting."""
        number = self._number[release or self.latest]
        return self._number[entry.since] <= number <= self._number[entry.until] or release in entry.also

    def takes(self, entry: Entry, release: str = "") -> list[str]:
        """Return the arguments that a function takes in a release, the newest unless told otherwise.

        Those that were dropped since stand last, as their place is not on record.
        """
        number = self._number[release or self.latest]
        first = self.releases[0]
        known = [a for a in entry.takes or () if self._number[entry.added.get(a.lstrip("*"), first)] <= number]
        return known + [name for name, last in entry.dropped.items() if number <= self._number[last]]

    def not_after(self, release: str, other: str) -> bool:
        """Whether a release came before another one, or is the same."""
        return self._number[release] <= self._number[other]

    def next_after(self, release: str) -> str:
        """Return the release after one, "" after the newest."""
        return next(iter(self.releases[self._number[release] + 1 :]), "")

    def method(self, full: str) -> tuple[str, str] | None:
        """Return the word and the setting's name that a full name is made of, `set_` and `silent`; None for others."""
        holder, _, name = full.rpartition(".")
        if holder != self.holder or full in self.names:
            return None
        return next(((word, name.removeprefix(word)) for word in self.words if name.startswith(word)), None)

    def entry(self, full: str) -> Entry | None:
        """Return what is on record of a full name, that of a method of a setting as well; None for nothing."""
        method = self.method(full)
        return self.names.get(full) if method is None else self.settings.get(method[1])


@cache
def load_history(folder: Path) -> History:
    """Load the history of a library, once in a process.

    Args:
        folder: holds releases.toml, names.toml and settings.toml; the first says what is in them.

    Raises:
        UserError: a file is no valid TOML, or what it says does not fit together.
    """
    path = folder / "releases.toml"
    shared = read_toml(path, "RF007")
    settings = read_toml(folder / "settings.toml", "RF007")
    names = read_toml(folder / "names.toml", "RF007")
    try:
        releases = tuple(shared["releases"])
        modules: Mapping[str, Mapping[str, Mapping[str, Any]]] = names["names"]
        found = History(
            package=shared["package"],
            releases=releases,
            names={
                full: _entry(full, data, releases)
                for module, inside in modules.items()
                for full, data in ((f"{module}.{name}", data) for name, data in inside.items())
            },
            settings={name: _entry(name, data, releases) for name, data in settings["settings"].items()},
            layers={name: _entry(name, data, releases) for name, data in shared["layers"].items()},
            modules=shared["modules"],
            holder=shared["methods"]["of"],
            tracker=shared["methods"]["tracker"],
            words=tuple(shared["methods"]["words"]),
            taken=shared["methods"]["taken"],
            addon=settings["addon"]["package"],
            addon_settings=frozenset(settings["addon"]["settings"]),
            perforates=frozenset(shared["model"]["perforates"]),
            loads=frozenset(shared["model"]["loads"]),
            read_once=frozenset(settings["perforation"]["settings"]),
            coming=shared["coming"],
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        message = f"is no valid history of a library: {error}"
        raise UserError(Problem(shown_path(path), 0, 0, "RF007", message)) from None
    return found


def _entry(name: str, data: Mapping[str, Any], releases: tuple[str, ...]) -> Entry:
    lists = {key: tuple(data[key]) for key in ("also", "takes") if key in data}
    same = data.get("one_to_one", False)
    given = {
        "since": releases[0],
        "until": releases[-1],
        **data,
        **lists,
        "one_to_one": same if isinstance(same, bool) else tuple(same),
    }
    unknown = {given["since"], given["until"], *given.get("changes", ()), *given.get("also", ())} - {*releases}
    if unknown:
        raise ValueError(f"{name} is of unknown releases: {', '.join(sorted(unknown))}")
    return Entry(name=name, **given)
