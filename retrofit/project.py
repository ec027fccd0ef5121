"""The entry script and the modules of its project that it imports."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

from retrofit.configured import MAY_BE_CONFIGURED, NO_SETTINGS, Settings, read_settings
from retrofit.errors import Problem, UserError
from retrofit.imports import (
    INSTALLED,
    above_package,
    find_module,
    folders_added,
    imports,
    lacking,
    lent_names,
    names_asked,
    own_name,
    roots_of,
    with_parents,
)
from retrofit.late_imports import (
    MAY_IMPORT_LATE,
    MadeName,
    alternatives,
    extended,
    made_names,
    named_in_data,
    told_own_name,
)
from retrofit.launch import MARK
from retrofit.neighbours import STARTED, TRAINS, Neighbour, neighbours
from retrofit.reading import DEFAULT_MEGABYTES, data_of, files_below, read_file, size_fault
from retrofit.root import INSTALLING, holds_more, project_root
from retrofit.source import Source, read_source
from retrofit.text import tree_of

#: What code that trains mentions: wrapper, backward pass, optimizer, options. What imports such code may train by it.
_TRAINING = re.compile(
    rb"DataParallel|\.backward\(|\boptim\b|\boptimizers?\b|lr_scheduler|ArgumentParser|parse_args|perforatedai"
)
#: What matters in a file itself. Models and data sets mostly have none of this.
_RELEVANT = re.compile(
    rb"\bepoch|init_process_group\(|import_module\(|__import__\(|\.eval\(\)|\.train\(False|\bno_grad\b|\binference_mode\b|\bpower\b"
    rb"|return.*\.parameters\(|\.data\.(?:mul|lerp|copy)_\(|\btorch\.save\(|best|\.grad\b(?!\()"
)
#: What may end at the second start, as what the first wrote is there: a folder made unasked, or a refusal of what is,
#: of which a condition may ask among others.
_MAKES_NEW = re.compile(
    rb"^(?!.*\b(?:not|try)\b).*\n(?!.*\bnot\b).*\b(?:makedirs|mkdir|copytree)\((?!(?:[^()]|\([^()]*\))*exist_ok)"
    rb"|(?:\b(?:if|elif|and|or)\b|=)(?:(?!\b(?:and|or|not)\b).){0,200}(?:exists|is_?dir|is_?file)\("
    rb"(?:.*\n){0,3}?.*\b(?:raise\b|exit\()"
    rb"|\bassert\s+not\b.*(?:exists|is_?dir|is_?file)\(",
    re.MULTILINE,
)
#: Where a name decorates what a file defines, or is a base of a class there.
_MAKES_OTHERS = re.compile(rb"^(?:@(\w+)|class\s+\w+\(([^)]*))", re.MULTILINE)
_DEFINED = re.compile(rb"\bdef (\w+)\(")
#: What is called, with what it is given before further parentheses, and how a name is given: perhaps to be run.
_CALLS, _GIVEN = re.compile(rb"\b(\w+)(?=(\([^()]*\)?))"), re.compile(rb"(?<=[(\s,=])(\w+)\s*[,)]")
#: Where what a function gives takes the place of what it is given: `model = freeze(model)`.
_GIVES_BACK = re.compile(rb"^[ \t]*([\w.]+)\s*=\s*(\w+)\(\s*\1\s*[,)]", re.MULTILINE)
_WORD = re.compile(rb"\w+")
#: What a script's files hold where they train by themselves, whatever else they import when they run.
_WRAPS, _STEPS = re.compile(rb"DataParallel"), re.compile(rb"\.backward\(")
#: More modules than these are not offered.
_MOST_OFFERED = 6
#: More files than these are not searched for other scripts.
_LOOKED_THROUGH = 2000
_COMMENT = re.compile(rb"#[^\n]*")


@dataclass(frozen=True)
class Project:
    """An entry script with what it imports from its own project.

    Attributes:
        entry: the script.
        modules: the imported files that matter, by the full names of their modules.
        unread: why files that wrap or train a model could not be read.
        neighbours: other scripts that import a module, perhaps through others, by its full name, or the entry, by "".
        module: the entry script's own full name, where it imports its package as a module does; else "".
        library: how messages name the folder of the library's own code, where that lies in the project; else "".
        late: the modules that are imported by a name made at run time, as the user says or the project tells.
        told: how messages name the files of data that tell of them.
        offered: modules that wrap or train and that nothing is seen to import, where such an import may do so.
        settings: what files of settings say, where the script may read them.
        lacking: modules that are imported of a package of the project that has no such file: by which file and line.
    """

    entry: Source
    modules: Mapping[str, Source] = field(default_factory=dict)
    unread: Sequence[Problem] = ()
    neighbours: Mapping[str, Sequence[Neighbour]] = field(default_factory=dict)
    module: str = ""
    library: str = ""
    late: Sequence[str] = ()
    told: Sequence[str] = ()
    offered: Sequence[str] = ()
    settings: Settings = NO_SETTINGS
    lacking: Sequence[tuple[str, int, str]] = ()

    @property
    def sources(self) -> list[Source]:
        """The script and the modules."""
        return [self.entry, *self.modules.values()]

    def with_texts(self, texts: Mapping[Source, str]) -> Project:
        """Return the project with other texts for some of its files."""
        return self.with_sources({s: Source(s.path, s.encode(text), s.shown) for s, text in texts.items()})

    def with_sources(self, sources: Mapping[Source, Source]) -> Project:
        """Return the project with other files in the place of some of its own."""
        modules = {name: sources.get(source, source) for name, source in self.modules.items()}
        entry = sources.get(self.entry, self.entry)
        return replace(self, entry=entry, modules=modules)


def load_project(
    path: Path,
    shown: str,
    pending: Mapping[Path, bytes] | None = None,
    helper: str = "",
    megabytes: float = DEFAULT_MEGABYTES,
    library: str = "",
    words: Sequence[bytes] = (),
    late: Sequence[str] = (),
    scripts: Collection[Path] = (),
) -> Project:
    """Read an entry script, and follow its imports as far as they lead to files of its project.

    Imports are looked for beside the script, where it adds constant paths to `sys.path`, in its project's root, in
    folders of the project that are on PYTHONPATH or from which it installs a package, and in `src` of such a folder or
    the root. Left out are files that cannot be read or parsed, that say nothing of training, or that retrofit made.

    Args:
        path: the script.
        shown: how messages name it.
        pending: what files are about to hold, by their real paths.
        helper: the name of the module that the recipe adds, by which rewritten scripts are known.
        megabytes: how large a file may be to be looked into.
        library: the package that the recipe is for. Its own code is nobody's training, wherever it lies.
        words: what else a file may hold that says something of training.
        late: the modules that it imports by a name made at run time, as the user says.
        scripts: the real paths of those that are rewritten with it, which are nobody's neighbours.

    Raises:
        UserError: the script itself cannot be read or parsed, or has no such module.
    """
    pending = pending or {}
    entry = read_source(path, shown, pending, megabytes)
    reading = _Reading(entry, pending, megabytes, library)
    reading.follow(reading.main)
    told: list[str] = []
    made = reading.made_names()
    if late:
        reading.import_late(reading.given(late))
    elif made and not reading.trains():
        told = reading.import_told(made)
    elif made:
        reading.import_heirs(one for one in made if one.each)
    modules = {}
    for name in _relevant(reading.main, reading.files, words, late):
        try:
            known_as = entry.shows(reading.files[name].path)
            modules[name] = read_source(reading.files[name].path, known_as, pending, megabytes)
        except UserError as error:
            if TRAINS.search(reading.files[name].data):
                reading.unread += error.problems
    others = neighbours(
        entry,
        above_package(entry.path, reading.module),
        {**_led_to(modules, reading.files), entry.path: {""}},
        reading.roots,
        reading.unreached(scripts),
        helper,
        scripts,
    )
    offered = reading.offered() if made and not reading.trains() else []
    return Project(
        entry,
        modules,
        reading.unread,
        others,
        reading.module,
        reading.own_code,
        [name for name in reading.late if name in modules],
        told,
        offered,
        reading.settings(),
        [*reading.lacking(modules)],
    )


class _Reading:
    """The files of a project, as far as they were read.

    Args:
        entry: the entry script.
        pending: what files are about to hold, by their real paths.
        megabytes: how large a file may be to be looked into.
        library: the package that the recipe is for.
    """

    def __init__(self, entry: Source, pending: Mapping[Path, bytes], megabytes: float, library: str) -> None:
        self._entry, self._pending, self._megabytes = entry, pending, megabytes
        self._library = library
        root = project_root(entry.path) or entry.path.parent
        #: The project's Python files, and what its packages are installed by.
        self.near = [] if holds_more(root) else [*_looked_through(root)]
        self.roots = roots_of(entry, [path.parent for path in self.near if path.name in INSTALLING])
        self.module = own_name(entry)
        if self.module:
            self.roots = [above_package(entry.path, self.module), *self.roots]
        self.main = _Module(entry.path, entry.data, set(imports(entry.path, self.module, entry.data)), self.module)
        self.files: dict[str, _Module] = {}
        self.known = {entry.path}
        self.unread: list[Problem] = []
        self.own_code = ""
        self.late: list[str] = []
        self._parsed: dict[tuple[str, Path], _Module] = {}  # which trials have in common

    def follow(self, *files: _Module) -> None:
        """Read what some files import, and so on."""
        waiting = [*files]
        while waiting:
            file = waiting.pop(0)
            waiting += self._read_all(sorted(file.imports - file.later))
            waiting += self._read_all(sorted(self._asked(file)))

    def _read_all(self, names: list[str]) -> list[_Module]:
        """Return the modules of some names that were not read yet, with what packages import once asked for these."""
        found: list[_Module] = []
        for name in names:  # which become more
            file = self._read(name)
            found += [file] if file is not None else []
            names += sorted(self._lent(name).difference(names))
        return found

    def _lent(self, name: str) -> set[str]:
        """Return what a package imports once it is asked for one of its names."""
        package, _, member = name.rpartition(".")
        file = self.files.get(package)
        if file is None or not file.lent:
            return set()
        if member == "*":
            return set().union(*file.lent.values())
        if member in file.lent:
            return file.lent[member]
        own = name in self.files or any(one.endswith(f".{member}") for one in file.imports - file.later)
        return file.lent.get("*", set()) if not own and not member.startswith("_") else set()

    def _asked(self, file: _Module) -> set[str]:
        """Return the names for which a file asks packages that import them only then.

        What a package's own modules look up in it by names made at run time is none of these.
        """
        lending = {name: one.path.parent for name, one in self.files.items() if one.lent and name in file.imports}
        asked = names_asked(file.path, file.name, file.data, lending) if lending else set()
        ways = ((full, full.rpartition(".")) for one in asked for full in with_parents(one))
        return {
            full
            for full, (package, _, name) in ways
            if package in lending and (name != "*" or lending[package] not in file.path.parents)
        }

    def _read(self, name: str) -> _Module | None:
        """Return a module that was not read before and may import more, None for any other."""
        file = find_module(name, self.roots)
        if file is None or file in self.known:
            return None
        self.known.add(file)
        if self._library and name.partition(".")[0] == self._library:
            if name == self._library:
                held = file.parent if file.name == "__init__.py" else file
                self.own_code = self._entry.shows(held)
            return None
        try:
            data = self._pending[file] if file in self._pending else read_file(file)
        except OSError as error:
            message = f"is imported as {name}, and cannot be read: {error.strerror}."
            self.unread.append(Problem(self._entry.shows(file), 0, 0, "RF001", message))
            return None
        if MARK.encode() in data[:200]:
            return None
        if size_fault(data, self._megabytes, ""):  # which is told where it matters
            self.files[name] = _Module(file, data, set(), name)
            return None
        self.roots = list(dict.fromkeys([*self.roots, *folders_added(file, data)]))
        if (name, file) not in self._parsed:
            lent, named = lent_names(file, name, data), set(imports(file, name, data))
            later = named.difference(imports(file, name, data, lent=False)) if lent else set()
            self._parsed[name, file] = _Module(file, data, named, name, later, lent)
        self.files[name] = self._parsed[name, file]
        return self.files[name]

    def lacking(self, modules: Collection[str]) -> Iterator[tuple[str, int, str]]:
        """Yield where the script and some modules import what a package of the project has no file for."""
        own = {name: (file.path, file.data) for name, file in self.files.items()}
        for file in (self.main, *(self.files[name] for name in modules)):
            for line, module in lacking(file.path, file.name, file.data, self.roots, own):
                yield self._entry.shows(file.path), line, module

    def unreached(self, scripts: Collection[Path]) -> list[Path]:
        """Return the project's files that were not read, and may be scripts or lead from one to what was.

        No module of a package that imports what it is asked for alone does, unless it is started by itself.

        Args:
            scripts: further files that are none of them.
        """
        lending = {file.path.parent for file in self.files.values() if file.lent}
        left = [path for path in self.near if path.suffix == ".py" and path not in self.known.union(scripts)]
        return [path for path in left if lending.isdisjoint(path.parents) or STARTED.search(data_of(path))]

    def trains(self) -> bool:
        """Whether the files that were read may hold both a wrapper and a backward pass."""
        return self._has(_WRAPS) and self._has(_STEPS)

    def made_names(self) -> list[MadeName]:
        """Return the names, made at run time, by which modules are imported."""
        found: list[MadeName] = []
        asking: dict[str, MadeName] = {}  # by the modules whose functions may be told the package
        for name, file in {self.module: self.main, **self.files}.items():
            tree = tree_of(file.data) if MAY_IMPORT_LATE.search(file.data) else None
            mine = list(made_names(tree, name, file.path.name == "__init__.py")) if tree is not None else []
            asking.update((name, one) for one in mine if not one.begins)
            found += mine
        for name, file in self.files.items():
            package = asking and file.path.name == "__init__.py" and b"__name__" in file.data
            tree = tree_of(file.data) if package else None
            told = {*told_own_name(tree)} if tree is not None else set()
            ways = (full.rpartition(".") for full in file.imports)
            found += [replace(asking[way], begins=f"{name}.") for way, _, one in ways if way in asking and one in told]
        return list(dict.fromkeys(found))

    def import_late(self, late: Iterable[str]) -> None:
        """Read modules as if the entry script imported them, each with its packages."""
        names = [*late]
        self.late += names
        more = {one for name in names for one in with_parents(name)}
        self.main.imports.update(more)
        self.follow(replace(self.main, imports=more))

    def given(self, names: Sequence[str]) -> list[str]:
        """Return the modules that the user names.

        Raises:
            UserError: the project has none of such a name.
        """
        lacking = [name for name in names if find_module(name, self.roots) is None]
        if lacking:
            places = ", ".join(dict.fromkeys(self._entry.shows(root) for root in self.roots))
            message = f"--module {lacking[0]} names no module of the project. It was looked for in {places}."
            raise UserError(Problem(self._entry.shown, 0, 0, "RF045", message))
        return [*names]

    def import_told(self, made: Sequence[MadeName]) -> list[str]:
        """Read the modules that the project itself tells of, where one of them, or what it imports, wraps or trains.

        Those are the modules of a package that is written down, and the ones that files of data name.

        Returns:
            How messages name the files of data.
        """
        groups = {("", number): alternatives(one, self.roots) for number, one in enumerate(made)}
        root = project_root(self._entry.path) or self._entry.path.parent
        if any(not one.begins for one in made) and not holds_more(root):
            for path, strings in named_in_data(root):
                found = (self._module_in(string) for string in strings)
                groups[self._entry.shows(path), 0] = [name for name in found if name]
        trial = self._copy()
        trial.import_late(name for names in groups.values() for name in names)
        sign = _WRAPS if self._has(_STEPS) else _STEPS  # what tells a training from a test that wraps as well
        signed = [name for name in trial.files.keys() - self.files.keys() if sign.search(trial.files[name].text)]
        leading = _led_to(signed, trial.files)
        chosen = {
            key: names
            for key, names in groups.items()
            if any(find_module(name, trial.roots) in leading for name in names)
        }
        self.import_late(dict.fromkeys(name for names in chosen.values() for name in names))
        return [shown for shown, _ in chosen if shown]

    def settings(self) -> Settings:
        """Return what files of settings say, where the script may read them."""
        root = project_root(self._entry.path) or self._entry.path.parent
        return read_settings(root) if self._has(MAY_BE_CONFIGURED) and not holds_more(root) else NO_SETTINGS

    def import_heirs(self, made: Iterable[MadeName]) -> None:
        """Read modules of packages, which import each of their own, where a class that trains extends one that does.

        The script may make an object of it, though no file names it: `Base.__subclasses__()`.
        """
        names = {name for one in made for name in alternatives(one, self.roots)}
        known = {name for file in self.files.values() for name in _training_classes(file)}
        trial = self._copy()
        trial.import_late(names if known else ())
        further = {name: trial.files[name] for name in sorted(names & (trial.files.keys() - self.files.keys()))}
        self.import_late(
            name for name, file in further.items() if any(known & bases for bases in _training_classes(file).values())
        )

    def _copy(self) -> _Reading:
        other = copy(self)
        other.files, other.known, other.unread, other.late = {**self.files}, {*self.known}, [*self.unread], []
        other.main = replace(self.main, imports={*self.main.imports})
        return other

    def _has(self, sign: re.Pattern[bytes]) -> bool:
        return any(sign.search(file.text) for file in (self.main, *self.files.values()))

    def _module_in(self, string: str) -> str:
        """Return the module of the project that a string names, or names with something in it; "" for none."""
        file, parent = find_module(string, self.roots), string.rpartition(".")[0]
        if file is None:
            file, string = find_module(parent, self.roots), parent
            file = file if file is not None and file.name != "__init__.py" else None  # any word may follow a package
        return string if file is not None and file != self._entry.path else ""

    def offered(self) -> list[str]:
        """Return modules that wrap or train and were not read, by the names under which the script finds them."""
        found: list[str] = []
        for path in self.near:
            data = data_of(path) if path not in self.known else b""
            if not TRAINS.search(_COMMENT.sub(b"", data)) or STARTED.search(data) or MARK.encode() in data[:200]:
                continue
            base = next((one for one in self.roots if one in path.parents), None)
            name = ".".join(path.with_suffix("").relative_to(base).parts) if base is not None else ""
            if name and all(part.isidentifier() for part in name.split(".")):
                found.append(name)
        return found if len(found) <= _MOST_OFFERED else []


def _training_classes(file: _Module) -> dict[str, set[str]]:
    """Return the classes of a file that wraps or trains, with those that each extends."""
    tree = tree_of(file.data) if TRAINS.search(file.text) else None
    return extended(tree) if tree is not None else {}


def _led_to(modules: Iterable[str], files: Mapping[str, _Module]) -> dict[Path, set[str]]:
    """Return for each file that was read those of some modules that importing it imports too, itself among them."""
    found: dict[Path, set[str]] = defaultdict(set)
    importers: dict[str, set[str]] = defaultdict(set)
    for name, file in files.items():
        for other in file.imports & files.keys():
            importers[other].add(name)
    for module in modules:
        waiting, seen = [module], {module}
        while waiting:
            name = waiting.pop()
            found[files[name].path].add(module)
            waiting += importers[name] - seen
            seen |= importers[name]
    return found


def _looked_through(root: Path) -> Iterator[Path]:
    """Yield a project's Python files and what installs packages of it, in order, as many as take no time."""

    def own(folder: os.DirEntry[str]) -> bool:
        installed = folder.name.startswith(".") or folder.name in INSTALLED
        return not installed and not os.path.exists(f"{folder.path}/pyvenv.cfg")

    found = (path for path in files_below(root, own) if path.suffix == ".py" or path.name in INSTALLING)
    yield from (Path(os.path.realpath(path)) for path in islice(found, _LOOKED_THROUGH))


@dataclass(frozen=True)
class _Module:
    path: Path
    data: bytes
    imports: set[str]
    name: str
    #: What it imports only once it is asked for that, and by which names it is.
    later: set[str] = field(default_factory=set)
    lent: dict[str, set[str]] = field(default_factory=dict)

    @cached_property
    def text(self) -> bytes:
        """What it holds without its comments."""
        return _COMMENT.sub(b"", self.data)

    @cached_property
    def taken(self) -> set[bytes]:
        """The last names of what it makes things by that it defines, or gives a part of its training."""
        found = {name for names in _MAKES_OTHERS.findall(self.text) for one in names for name in _WORD.findall(one)}
        if _TRAINING.search(self.text):
            found |= {name for _, name in _GIVES_BACK.findall(self.text)}
        defined = {*_DEFINED.findall(self.text)} if _STEPS.search(self.text) else set()
        for name, given in _CALLS.findall(self.text) if defined else ():
            found |= {name} if not defined.isdisjoint(_GIVEN.findall(given)) else set()
        return found


def _relevant(main: _Module, files: Mapping[str, _Module], words: Sequence[bytes], late: Iterable[str]) -> list[str]:
    """The modules that say something of training or are named, those that use them, and packages that pass names on.

    A module that uses them counts where the entry script leads to it by names, also by those that a package makes
    itself; one that only passes names on may import many more. So does one that decorates what trains, as where a
    registry of it lies, one with the base of a class there, which may hold the model, one that is given a step of
    the training to run, one that gives something back in the place of what it gets, perhaps another model, and one
    that may refuse at a later start what an earlier one has written.
    """
    code = {name: m.text for name, m in files.items()}
    used = {name: _used(m, files) for name, m in files.items()}
    named: set[str] = set()
    waiting = _used(main, files)
    while waiting:
        named |= waiting
        waiting = {one for name in waiting for one in used[name]} - named
    signs = (_TRAINING, _RELEVANT, _MAKES_NEW)
    found = {name for name, text in code.items() if any(sign.search(text) for sign in signs)}
    found |= {name for name, text in code.items() if any(word in text for word in words)}
    found |= files.keys() & {*late}
    while more := {name for name in named - found if not found.isdisjoint(used[name])}:
        found |= more
    using = [main, *(files[name] for name in found)]
    while using:
        taken = {full for one in using for full in one.imports if full.rpartition(".")[2].encode() in one.taken}
        more = {one for full in taken for one in _meant(full, files, set())} - found
        found |= more
        using = [files[name] for name in more]
    packages = {name: m for name, m in files.items() if m.path.name == "__init__.py"}
    while more := {name for name, m in packages.items() if name not in found and not found.isdisjoint(m.imports)}:
        found |= more
    return [name for name in files if name in found]


def _used(module: _Module, files: Mapping[str, _Module]) -> set[str]:
    """Return the modules that define what a file imports, or asks a package for that it imports: `package.name`."""
    packages = [name for name in module.imports & files.keys() if files[name].path.name == "__init__.py"]
    words = b"|".join({name.rpartition(".")[2].encode() for name in packages})
    packages = packages if re.search(rb"\bimport\b(?:[^\n(]|\([^)]*)*?\b(?:%b)\b" % words, module.data) else []
    asked = names_asked(module.path, module.name, module.data, packages) if packages else set()
    named = module.imports | {one for full in asked for one in with_parents(full)}
    return {one for full in named for one in _meant(full, files, set())}


def _meant(full: str, files: Mapping[str, _Module], seen: set[str]) -> set[str]:
    """Return the modules that define what an import names, behind the packages that only pass it on."""
    if full in files:
        return {full} if files[full].path.name != "__init__.py" else set()
    package, _, name = full.rpartition(".")
    if package not in files or full in seen:
        return set()
    seen.add(full)
    inside = [one for one in files[package].imports if one.endswith(f".{name}")]
    inside = inside or [one.replace("*", name) for one in files[package].imports if one.endswith(".*")]
    return {one for other in inside for one in _meant(other, files, seen)} or {package}
