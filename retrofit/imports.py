"""Work out which modules a file imports, and in which folders Python finds them."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from retrofit.late_imports import MAY_IMPORT_LATE, written_names
from retrofit.paths import added_folders
from retrofit.reading import data_of
from retrofit.root import holds_more, project_root
from retrofit.source import Source
from retrofit.text import nodes_of, tree_of

#: What answers for names that a package has not imported.
_LENDS = re.compile(rb"\b__getattr__\b|\bsys\.modules\b")
#: Folders of what is installed, which is nobody's project.
INSTALLED = frozenset({"site-packages", "dist-packages"})


def above_package(script: Path, module: str) -> Path:
    """Return the folder from which a script is started as a module.

    Args:
        script: the script's real path.
        module: the script's full name.
    """
    return script.parents[module.count(".")]


def own_name(entry: Source) -> str:
    """Return the full name of a script that imports its own package as only a module can, "" for any other.

    It does so relative to its package, or by a full name that nothing beside it has. What it imports by a plain name
    from beside it is found only where it is started by its path.
    """
    tree = tree_of(entry.data)
    levels = (
        [node.level for node in _statements(tree) if isinstance(node, ast.ImportFrom) and node.level] if tree else []
    )
    folders = entry.path.parents
    named = set(imports(entry.path, "", entry.data, relative=False))
    if levels:
        depth = max(
            [next(n for n, folder in enumerate(folders) if not os.path.isfile(folder / "__init__.py")), *levels]
        )
    else:
        depth = _own_package(entry, named)
    if not depth or depth >= len(folders) or holds_more(folders[depth]):
        return ""
    plain = {name for name in named if "." not in name}
    beside = any(find_module(name, [folders[0]]) and not find_module(name, [folders[depth]]) for name in plain)
    names = [*(folder.name for folder in folders[:depth][::-1]), entry.path.stem]
    return "" if beside or not all(name.isidentifier() for name in names) else ".".join(names)


def _own_package(entry: Source, named: set[str]) -> int:
    """Return how far above a script the folder is in which alone Python finds the script's package, 0 for none.

    In the project's root, or `src` there, that is any package of the project. Below the root it is one of which a
    module is imported: some that is installed may have a package's name alone.

    Args:
        named: what the script imports, by full names.
    """
    folders = entry.path.parents
    nearer = [folders[0], *folders_added(entry.path, entry.data)]
    root = project_root(entry.path)
    for depth, package in enumerate(folders[:-1], start=1):
        own = {name for name in named if name.partition(".")[0] == package.name}
        if root is not None and folders[depth] in (root, root / "src"):
            own = named  # installed or not, for that a project can be installed does not say that it is
        elif root in folders[depth].parents:  # a project within another
            own |= {name for name in named if _is_distinct(name, folders[depth])}
        if any(find_module(name, [folders[depth]]) and not find_module(name, nearer) for name in own):
            return depth
    return 0


def _is_distinct(name: str, folder: Path) -> bool:
    """Whether a name that is imported leads to a module in a folder, or in a package there, not to a package itself."""
    file = find_module(name, [folder])
    return file is not None and file.name != "__init__.py"


def roots_of(entry: Source, installed: list[Path]) -> list[Path]:
    """The folders in which Python, or an installation for development, looks for the project's modules.

    Args:
        entry: the script.
        installed: the folders from which the project's packages are installed.
    """
    roots = [entry.path.parent, *folders_added(entry.path, entry.data)]
    package = next(folder for folder in entry.path.parents if not os.path.isfile(folder / "__init__.py"))
    roots.append(package)  # the script may be a module of a package that imports itself by its full name
    root = project_root(entry.path)
    if root is not None:
        roots += [root, root / "src"]
    roots += _on_pythonpath(root or entry.path.parent)
    named = {name.partition(".")[0] for name in imports(entry.path, "", entry.data)}
    roots += [folder.parent for folder in entry.path.parents if folder.name in named]  # its package, installed or not
    roots += [place for folder in installed for place in (folder, folder / "src")]
    return list(dict.fromkeys(roots))


def _on_pythonpath(root: Path) -> Iterator[Path]:
    """Yield the folders of a project that the environment adds to Python's path, as it does where it trains."""
    for entry in filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        folder = Path(os.path.realpath(entry))
        if root in (folder, *folder.parents):
            yield folder


def folders_added(path: Path, data: bytes) -> list[Path]:
    """Return the folders that a file adds to `sys.path`."""
    tree = tree_of(data) if b"sys.path" in data or b"addsitedir" in data else None
    return list(added_folders(path, tree)) if tree is not None else []


def imports(path: Path, name: str, data: bytes, relative: bool = True, lent: bool = True) -> Iterator[str]:
    """Yield the full names of the modules, or of their members, that a file imports, and of their packages.

    `package.*` is everything of a package.

    Args:
        name: the file's own full name.
        relative: whether to yield what it imports relative to its package too.
        lent: whether to yield what it imports for type checkers alone too.
    """
    tree = tree_of(data)
    nodes = [*_statements(tree, lent)] if tree else []
    for module, member, _ in _imported(path, name, nodes, relative):
        yield from with_parents(module)
        if member:
            yield f"{module}.{member}".lstrip(".")
    if tree and MAY_IMPORT_LATE.search(data):
        for late in written_names(tree, name, path.name == "__init__.py"):
            yield from with_parents(late)


def lacking(
    path: Path, name: str, data: bytes, roots: list[Path], own: Mapping[str, tuple[Path, bytes]]
) -> Iterator[tuple[int, str]]:
    """Yield lines and modules that a file imports of a package of the project which has no such file.

    What is imported relative to a package is of that, whatever else is known of it.
    What it tries to import it can do without, as in `with suppress(ImportError):`, or else without what it imports
    instead; and a package may lend names, or put others in their places.

    Args:
        name: the file's own full name.
        own: the files of the project's modules, with what they hold, by their full names. What one of these is a module
            of is a package of the project.
    """
    tree = tree_of(data)
    tries = [one for one in nodes_of(tree) if isinstance(one, (ast.Try, ast.With))] if tree else []
    tried = {id(part) for one in tries for part in ast.walk(one)}
    within: dict[str, set[Path]] = {}
    for one, (file, _) in own.items():
        within.setdefault(one.rpartition(".")[0], set()).add(file.parent)
    for node in _statements(tree, lent=False) if tree else ():
        for module, member, _ in _imported(path, name, [node]) if id(node) not in tried else ():
            package, _, last = module.rpartition(".")
            begins, text = own.get(package, (None, b""))
            folders = {*within.get(package, ())} if package else set[Path]()
            folders |= {begins.parent} if begins is not None and begins.name == "__init__.py" else set()
            there = any(found.partition(".")[0] == last for folder in folders for found in os.listdir(folder))
            lends = b"__path__" in text or _LENDS.search(text)
            if folders and not (lends or there or module in own or find_module(module, roots)):
                yield getattr(node, "lineno", 0), module
            elif isinstance(node, ast.ImportFrom) and 0 < node.level <= len(path.parents):
                asked = [*(node.module.split(".") if node.module else []), member]
                absent = asked[: _absent(path.parents[node.level - 1], asked)]
                above = module.split(".")[: 1 - len(asked) or None] if module else []
                if absent and not find_module(full := ".".join([*above, *absent]), roots):
                    yield node.lineno, full


def _absent(folder: Path, asked: list[str]) -> int:
    """Return how many of the names that are asked for, one within the other, lead to what a package surely has not.

    Args:
        folder: the package's.
        asked: modules, and at last a name of the last one, "*" for all.
    """
    for number, name in enumerate(asked, start=1):
        files = os.listdir(folder) if folder.is_dir() else []
        data = data_of(folder / "__init__.py") if "__init__.py" in files else b""
        known = "__init__.py" in files or not any(one.startswith("__init__.") for one in files)
        if not known or b"__path__" in data or _LENDS.search(data):
            return 0
        last = number == len(asked)
        if not any(one.partition(".")[0] == name for one in files):
            return 0 if last and (name == "*" or _may_make(data, name)) else number
        folder /= name
        if not (folder / "__init__.py").is_file() and any(one.startswith(f"{name}.") for one in files):
            return 0  # a module, whose names are not looked for
    return 0


def _may_make(data: bytes, name: str) -> bool:
    """Whether what a package begins with may give it a name that is not that of a module of its own."""
    tree = tree_of(data) if data else ast.Module([], [])
    nodes = nodes_of(tree) if tree is not None else ()
    own = [one for one in nodes if isinstance(one, ast.ImportFrom) and one.level == 1 and not one.module]
    modules = {id(one) for node in own for one in node.names if not one.asname}
    asked = (getattr(one, key, None) for one in nodes if id(one) not in modules for key in ("asname", "id", "name"))
    made = {str(one).partition(".")[0] for one in asked if one}
    return tree is None or not {name, "*", "globals", "vars", "exec", "setattr"}.isdisjoint(made)


def lent_names(path: Path, name: str, data: bytes) -> dict[str, set[str]]:
    """Return what a package imports once it is asked for that, by the names under which it has it.

    It says so to type checkers, and what is asked for meets a function of its own, or a module that takes its place.
    What another imports for annotations alone is not to be had from it.

    Args:
        name: the package's own full name.
    """
    lends = path.name == "__init__.py" and b"TYPE_CHECKING" in data and _LENDS.search(data)
    tree = tree_of(data) if lends else None
    found: dict[str, set[str]] = {}
    for node in _statements(tree) if tree else ():
        lending = _statements(ast.Module(node.body, [])) if isinstance(node, ast.If) and _is_for_types(node) else ()
        for module, member, known in _imported(path, name, lending):
            found.setdefault(known, set()).update(with_parents(f"{module}.{member}" if member else module))
    return found


def names_asked(path: Path, name: str, data: bytes, packages: Collection[str]) -> set[str]:
    """Return the full names for which a file asks packages that it imports by themselves: `package.name`.

    `package.*` is anything, where it does something else with one.

    Args:
        name: the file's own full name.
        packages: those that count, by their full names.
    """
    tree = tree_of(data)
    known: dict[str, str] = {}
    for module, member, alias in _imported(path, name, _statements(tree)) if tree else ():
        full = f"{module}.{member}" if member else module if alias != module.partition(".")[0] else alias
        if any(one == full or one.startswith(f"{full}.") for one in packages):
            known[alias] = full
    nodes = [one for one in nodes_of(tree) if isinstance(one, (ast.Name, ast.Attribute))] if tree and known else []
    inner = {id(one.value) for one in nodes if isinstance(one, ast.Attribute)}
    used = (ast.unparse(one).partition(".") for one in nodes if id(one) not in inner)
    return {f"{known[first]}.{rest or '*'}" for first, _, rest in used if first in known}


def _imported(path: Path, name: str, nodes: Iterable[ast.AST], relative: bool = True) -> Iterator[tuple[str, str, str]]:
    """Yield modules that statements import, each with a member, "" for the module itself, and what it is known as."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, "", alias.asname or alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (relative or not node.level):
            base = [*package[: len(package) + 1 - node.level], *([node.module] if node.module else [])]
            prefix = ".".join(base) if node.level else node.module or ""
            yield from ((prefix, alias.name, alias.asname or alias.name) for alias in node.names)


def _is_for_types(node: ast.AST) -> bool:
    """Whether a statement is `if TYPE_CHECKING:`, which type checkers know by that name."""
    test = node.test if isinstance(node, ast.If) else None
    return "TYPE_CHECKING" in (getattr(test, "id", ""), getattr(test, "attr", ""))


def _statements(tree: ast.AST, lent: bool = True) -> Iterator[ast.AST]:
    """Yield every statement at any depth, for imports are statements, and expressions are nine tenths of a tree.

    Args:
        lent: whether to yield those for type checkers alone too.
    """
    waiting: list[ast.AST] = [tree]
    for node in waiting:
        yield node
        for block in ("body", "orelse", "handlers", "finalbody", "cases"):
            inner = getattr(node, block, ()) if lent or block != "body" or not _is_for_types(node) else ()
            waiting += inner if isinstance(inner, list) else ()


def with_parents(module: str) -> Iterator[str]:
    parts = module.split(".") if module else []
    yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def find_module(module: str, roots: list[Path]) -> Path | None:
    """Return the file of a module of the project, None where it has none."""
    inside = module.replace(".", os.sep)
    names = [os.path.join(root, inside, "__init__.py") for root in roots]
    places = [place for name in names for place in (name, f"{os.path.dirname(name)}.py")]
    for there in (os.path.isfile, os.path.lexists):  # what cannot be read, as a link that leads nowhere, comes last
        for place in places:
            if there(place) and not os.path.isdir(place) and INSTALLED.isdisjoint(Path(place).parts):
                return Path(os.path.realpath(place))
    return None


def found_modules(
    names: Iterable[str], roots: list[Path], find: Callable[[str, Path], Path | None]
) -> Iterator[tuple[Path, Path]]:
    """Yield the files of some modules, each with the folder in which it is found.

    Args:
        find: gives a module's file where a folder has it.
    """
    for name in dict.fromkeys(names):
        found = ((file, there) for there in roots if (file := find(name, there)))
        yield from islice(found, 1)
