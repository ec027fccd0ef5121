"""Find the other scripts of a project that import what a script imports."""

from __future__ import annotations

import ast
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from retrofit.imports import find_module, found_modules, imports
from retrofit.reading import data_of
from retrofit.root import project_root
from retrofit.source import Source
from retrofit.text import tree_of

#: What a file holds without which the others say nothing true of the training.
TRAINS = re.compile(rb"DataParallel|\.backward\(")
#: What a file holds that is started by itself.
STARTED = re.compile(rb"__main__|parse_args\(|sys\.argv|\bdef test_")
#: A command that an installation makes of a function: `train = "package.train:main"`.
_COMMAND = re.compile(rb"=\s*[\"']?([A-Za-z_][\w.]*):[A-Za-z_]")


@dataclass(frozen=True)
class Neighbour:
    """Another script that imports one of the modules.

    Attributes:
        shown: how messages name it.
        finds: whether it finds what lies in the folder from which the entry script is started.
        takes: the names that it takes of modules, "*" for all.
        reached: whether the entry script imports it too, so that only what it starts by itself counts.
    """

    shown: str
    finds: bool
    takes: frozenset[str] = frozenset()
    reached: bool = False

    def may_call(self, names: Collection[str]) -> bool:
        """Whether it takes one of some functions or classes."""
        return "*" in self.takes or not self.takes.isdisjoint(names)


def neighbours(
    entry: Source,
    start: Path,
    leading: Mapping[Path, set[str]],
    roots: list[Path],
    unreached: list[Path],
    helper: str,
    together: Collection[Path] = (),
) -> dict[str, list[Neighbour]]:
    """Return the scripts and tests that import the entry or one of its modules.

    They may do so through files that the entry does not reach. Of those that it does reach, what they do when they are
    started by themselves counts. Those that use the ``helper`` already are left out, and those that train come first.

    Args:
        entry: the script.
        start: the folder from which it is started.
        leading: the modules to which each file leads that the entry script imports, "" for itself.
        roots: where its imports are looked for.
        unreached: the project's files that it does not import.
        helper: the module by which rewritten scripts are known.
        together: the scripts that are rewritten with it.
    """
    root = project_root(entry.path) or entry.path.parent
    others = {path: data for path in unreached if (data := data_of(path))}
    reached = leading.keys() - {entry.path, *together}
    others |= {path: data for path in reached if (data := data_of(path)) and b"__main__" in data}
    others = {path: data for path, data in others.items() if not helper or helper.encode() not in data}
    others = {path: _started_alone(data, path.stem) if path in reached else data for path, data in others.items()}
    places, commands = list(dict.fromkeys([*roots, root])), _commands(root)
    led = {path: {*modules} for path, modules in leading.items()}
    found: dict[str, dict[Path, tuple[bool, Neighbour]]] = defaultdict(dict)
    imported: dict[Path, list[tuple[Path, Path]]] = {}
    find = cache(lambda name, place: find_module(name, [place]))  # many files import the same
    taken = cache(lambda path: _taken(others[path]))
    waiting = {*led}
    while waiting:
        named = {path.parent.name if path.name == "__init__.py" else path.stem for path in waiting}
        mentioned = re.compile(b"|".join(rb"\b" + re.escape(os.fsencode(name)) + rb"\b" for name in named))
        more: set[Path] = set()
        for path in (path for path, data in others.items() if mentioned.search(data)):
            if path not in imported:
                own = os.path.relpath(path.with_suffix(""), root).replace(os.sep, ".")
                imported[path] = [*found_modules(imports(path, own, others[path]), [path.parent, *places], find)]
            for file, there in imported[path]:
                if file not in waiting or (file == path and path not in reached):
                    continue
                known = led.setdefault(path, set())
                more |= {path} if led[file] - known else set()
                known |= led[file]
                last, shown = not TRAINS.search(others[path]), entry.shows(path)
                for module in led[file]:
                    other = found[module].get(path)
                    finds = start in (path.parent, there) and (other is None or other[1].finds)
                    found[module][path] = last, Neighbour(shown, finds, taken(path), path in reached)
        waiting = more
    used = {path: {file.stem for file, _ in files if file in led} for path, files in imported.items()}
    started = {path for scripts in found.values() for path in scripts}
    started = {path for path in started if _is_started(path, others[path], commands, used[path])}
    ordered = {
        module: sorted(
            (one for path, one in scripts.items() if path in started), key=lambda one: (one[0], one[1].shown)
        )
        for module, scripts in found.items()
    }
    return {module: [script for _, script in scripts] for module, scripts in ordered.items() if scripts}


def _started_alone(data: bytes, name: str) -> bytes:
    """Return of a module what it does when it is started by itself: with the functions and the imports for it.

    What it has of its own for that it takes of itself there, by its name, as another script would.
    """
    tree = tree_of(data)
    body = tree.body if tree is not None else []
    kept: list[ast.stmt] = [one for one in body if isinstance(one, ast.If) and "__main__" in ast.dump(one.test)]
    left = [one for one in body if isinstance(one, (ast.FunctionDef, ast.Import, ast.ImportFrom))]
    names: set[str] = set()
    while more := {one.id for part in kept for one in ast.walk(part) if isinstance(one, ast.Name)} - names:
        names |= more
        kept = [*(one for one in left if one not in kept and not names.isdisjoint(_bound(one))), *kept]
    own = [one.name for one in body if isinstance(one, (ast.FunctionDef, ast.ClassDef)) and one.name in names]
    if own and name.isidentifier():
        kept.append(ast.ImportFrom(name, [ast.alias(one) for one in own], 0))
    return ast.unparse(ast.Module(kept, [])).encode()


def _bound(node: ast.stmt) -> set[str]:
    """Return the names that an import or a function gives; `*` may be any, and is none here."""
    if isinstance(node, ast.FunctionDef):
        return {node.name}
    given = node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else []
    return {one.asname or one.name.partition(".")[0] for one in given}


def _taken(data: bytes) -> frozenset[str]:
    """Return the names that a file takes of modules: those that it imports, and of what it has by any name."""
    nodes = [*ast.walk(tree)] if (tree := tree_of(data)) is not None else []
    taken = {one.name for node in nodes if isinstance(node, ast.ImportFrom) for one in node.names}
    return frozenset(taken | {node.attr for node in nodes if isinstance(node, ast.Attribute)})


def _is_started(path: Path, data: bytes, commands: set[str], used: set[str]) -> bool:
    """Whether a file is more than a module: a command, a test, or one that does more than define names when imported.

    Args:
        path: the file.
        data: what it holds.
        commands: the modules that an installation of the project starts.
        used: the names of those that it imports.
    """
    names = {".".join(path.with_suffix("").parts[-number:]) for number in range(1, 6)}
    if STARTED.search(data) or not names.isdisjoint(commands):
        return True
    tree = tree_of(data)
    if tree is None:
        return False
    own = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    for node in _run_at_once(tree):
        if isinstance(node, (ast.For, ast.While, ast.With)) or (isinstance(node, ast.Expr) and _runs(node.value, own)):
            return True
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            above = (getattr(node, "module", None) or "").split(".")[-1]
            meant = (one for one in node.names if not used.isdisjoint((above, one.name.split(".")[-1])))
            own |= {one.asname or one.name.split(".")[0] for one in meant}
        elif isinstance(node, ast.Assign) and _runs(node.value, own):
            own |= {one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name)}
    return False


def _run_at_once(block: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements of a module, and those of its `try` and `if` statements, in order."""
    for part in ("body", "handlers", "orelse", "finalbody"):
        for node in getattr(block, part, ()):
            if isinstance(node, (ast.Try, ast.If, ast.ExceptHandler)):
                yield from _run_at_once(node)
            else:
                yield node


def _runs(node: ast.expr, own: set[str]) -> bool:
    """Whether a statement calls one of some functions, or has it called: `main()`, `fire.Fire(main)`, `trainer.fit()`.

    Args:
        own: those of a module, what it imports from others of the project, and what it has made by them.
    """
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    while isinstance(called, (ast.Attribute, ast.Call)):
        called = called.value if isinstance(called, ast.Attribute) else called.func
    return not own.isdisjoint(one.id for one in (called, *node.args) if isinstance(one, ast.Name))


def _commands(root: Path) -> set[str]:
    """Return the modules of the functions that are started as commands where a project is installed."""
    settings = [data_of(root / name) for name in ("pyproject.toml", "setup.cfg", "setup.py")]
    return {name.decode() for data in settings for name in _COMMAND.findall(data)}
