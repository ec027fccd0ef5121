"""What libraries do, as data: one TOML file a library in `rules/knowledge/`, and files of a project's own.

Each table of such a file says what some functions, classes or methods do: `[[wraps]]`, `[[optimizer]]` and so on, one
class below for each kind. They are known by their full names, wherever a script imports them from; `module.*` is all of
a module; methods by their names alone, as the class of an object is seldom told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from retrofit.errors import Problem, UserError, shown_path
from retrofit.rules_folder import rules_folder
from retrofit.toml import read_toml
from retrofit.wording import did_you_mean

_CODE = "RF043"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What some functions, classes or methods do.

    Attributes:
        names: full names of functions and classes; `module.*` is all of a module.
        methods: names of methods, of whatever object.
        example: a script that shows it.
        finds: what is to be found in it, as a Jinja2 expression over `script`, as `apply` sees it, and `codes`, which
            `check` reports.
    """

    names: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    example: str = ""
    finds: str = ""

    @property
    def all_names(self) -> tuple[str, ...]:
        """The full names that it is about."""
        return self.names


@dataclass(frozen=True, kw_only=True)
class Wraps(Entry):
    """Wraps a model for several GPUs.

    Attributes:
        by: `ddp` for what does as DistributedDataParallel, `dp` for what does as DataParallel.
        parameters: its parameters, in order; none for those of PyTorch's own.
        members: what it has of its own; `.module` has the model's.
    """

    by: str
    parameters: tuple[str, ...] = ()
    members: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ReturnsModule(Entry):
    """Returns a module that it is given, perhaps with something around it.

    Attributes:
        argument: which one, counted from 0.
    """

    argument: int = 0


@dataclass(frozen=True, kw_only=True)
class ReturnsArguments(Entry):
    """Returns the very objects that it is given.

    Attributes:
        arguments: which, by their names, in the order in which it returns and takes them.
    """

    arguments: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ModuleMethod(Entry):
    """Is a method of a module that returns the module itself.

    Attributes:
        moves: whether it puts the module on a device or changes its number format.
    """

    moves: bool = False


@dataclass(frozen=True, kw_only=True)
class _Built(Entry):
    """What is built by its class.

    Attributes:
        signatures: the parameters of each class in the order in which they may be given by position.
    """

    signatures: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def all_names(self) -> tuple[str, ...]:
        return (*self.names, *self.signatures)


@dataclass(frozen=True, kw_only=True)
class Optimizer(_Built):
    """Builds an optimizer of the parameters that it is given."""


@dataclass(frozen=True, kw_only=True)
class Scheduler(_Built):
    """Builds a learning-rate scheduler of the optimizer that it is given.

    With a signature it takes plain values after the optimizer, and is meant to be stepped once an epoch.
    """


@dataclass(frozen=True, kw_only=True)
class Loss(Entry):
    """Builds a loss that has no parameters to train.

    Attributes:
        tensors: the arguments that are tensors, which it holds on to, each with its position, -1 for none.
    """

    tensors: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Backpropagates(Entry):
    """Runs the backward pass: the function itself, or what a class makes, when that is called.

    Attributes:
        loss: the argument that is the loss, with its position.
        optimizer: the argument that is the optimizer which it steps, with its position; none where it steps none.
    """

    loss: Mapping[str, int]
    optimizer: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Framework(Entry):
    """Owns the training loop, or shards the model over the ranks, which no rewriting of a plain loop covers.

    Attributes:
        library: the name by which people know it.
        modules: where it is imported from.
        parts: the functions and classes that own a training or take part in one, all of the modules' where none is
            named: others, such as settings, loggers and callbacks, do nothing by themselves.
        advice: what its user can do.
        owns: whether a script that imports it and has no training of its own leaves that to it.
        engine: whether other parts of it are of use to any script; it counts where the script wraps no model by itself.
        shadows: whether PyTorch has the same by the same name, so that it may be either.
        wraps: whether it is a wrapper of one model, and no more.
        copies: whether it is a copy of the model.
        optional: whether scripts mostly take it by an option, which may be left out by default.
        shares: whether it shares the data out among the ranks by itself.
    """

    library: str
    modules: tuple[str, ...]
    advice: str
    parts: tuple[str, ...] = ()
    owns: bool = False
    engine: bool = False
    shadows: bool = False
    wraps: bool = False
    copies: bool = False
    optional: bool = False
    shares: bool = False

    def has(self, module: str) -> bool:
        """Whether a module, or what is in it, is the library's."""
        return any(f"{module}.".startswith(f"{one}.") for one in self.modules)

    def trains(self, name: str) -> bool:
        """Whether the full name of what is called or extended is that of something that trains."""
        return self.has(name) and (not self.parts or not set(self.parts).isdisjoint(name.split(".")))


@dataclass(frozen=True, kw_only=True)
class AveragesModel(Entry):
    """Keeps a running average of a model, in a copy that it makes at once."""


@dataclass(frozen=True, kw_only=True)
class Compiles(Entry):
    """Compiles a model."""


@dataclass(frozen=True, kw_only=True)
class Recomputes(Entry):
    """Computes activations again in the backward pass."""


@dataclass(frozen=True, kw_only=True)
class DataLoader(Entry):
    """Loads batches, as PyTorch's DataLoader does."""


@dataclass(frozen=True, kw_only=True)
class Sampler(Entry):
    """Chooses the samples of a data loader.

    Attributes:
        shares: whether it shares them out among the ranks, or else goes over all of them.
    """

    shares: bool = False


@dataclass(frozen=True, kw_only=True)
class GoesOver(Entry):
    """Goes over what it is given first, item by item, as a progress bar does."""


@dataclass(frozen=True, kw_only=True)
class Counts(Entry):
    """Goes over numbers, as `range` does."""


@dataclass(frozen=True, kw_only=True)
class Endless(Entry):
    """Goes on without an end."""


@dataclass(frozen=True, kw_only=True)
class Collective(Entry):
    """Waits for all ranks of the group.

    Attributes:
        result: the argument that holds the result, with its position; none where none does.
        rank: the argument that names the one rank which has the result, with its position; none where all have it.
    """

    result: Mapping[str, int] = field(default_factory=dict)
    rank: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CountsProcesses(Entry):
    """Returns the number of processes, or of GPUs."""


@dataclass(frozen=True, kw_only=True)
class StartsProcesses(Entry):
    """Starts processes that run a function.

    Attributes:
        how: `spawn` for what takes a function and its arguments behind the number of the process, as
            `torch.multiprocessing.spawn` does; `process` for what takes `target` and `args`; `launch` for any other.
    """

    how: str


@dataclass(frozen=True, kw_only=True)
class RunsTrials(Entry):
    """Runs a function that it is given again and again, with other settings each time.

    Attributes:
        method: the method of what it makes that does so, where it does not itself.
    """

    method: str = ""


@dataclass(frozen=True, kw_only=True)
class ReadsCommandLine(Entry):
    """Reads the command line as a whole, and would refuse an option that it does not know."""


@dataclass(frozen=True, kw_only=True)
class TellsTime(Entry):
    """Tells the time."""


@dataclass(frozen=True, kw_only=True)
class Fresh(Entry):
    """Is another value at each start of a program, such as a name made of the time.

    Attributes:
        attribute: the attribute of it that is so, where it is no value itself.
    """

    attribute: str = ""


@dataclass(frozen=True, kw_only=True)
class AsksForPath(Entry):
    """Asks whether a file or folder is there."""


@dataclass(frozen=True, kw_only=True)
class WritesPath(Entry):
    """Writes a file or makes a folder whose path it is given."""


@dataclass(frozen=True, kw_only=True)
class Seeds(Entry):
    """Seeds random numbers.

    Attributes:
        torch: whether it seeds those of PyTorch, from which augmentation, dropout and the loader's workers draw.
    """

    torch: bool = False


@dataclass(frozen=True, kw_only=True)
class MakesTensor(Entry):
    """Makes a tensor, on the CPU where it is not told otherwise."""


@dataclass(frozen=True, kw_only=True)
class Metric(Entry):
    """Makes an object that computes a metric, which is no number itself."""


@dataclass(frozen=True, kw_only=True)
class Logs(Entry):
    """Tells its user a number, as a method or function by that name does; `log*` is all whose name begins so."""


def _kind(cls: type[Entry]) -> str:
    """Return the word by which files name a kind of entry: `returns-module`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()


#: The kinds of entries, by the words for them.
KINDS: Mapping[str, type[Entry]] = {
    _kind(one): one
    for one in (
        Wraps, ReturnsModule, ReturnsArguments, ModuleMethod, Optimizer, Scheduler, Loss, Backpropagates, Framework,
        AveragesModel, Compiles, Recomputes, DataLoader, Sampler, GoesOver, Counts, Endless, Collective,
        CountsProcesses, StartsProcesses, RunsTrials, ReadsCommandLine, TellsTime, Fresh, AsksForPath, WritesPath,
        Seeds, MakesTensor, Metric, Logs,
    )
}  # fmt: skip
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
    def signatures(self, kind: type[_Built]) -> Mapping[str, tuple[str, ...]]:
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
