"""What a project says of the modules that it imports when it runs: `import_module(f"models.{name}")`."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from retrofit.reading import files_below, read_file
from retrofit.text import nodes_of

#: What a file holds that may import by such a name, for most files are not even parsed for it.
MAY_IMPORT_LATE = re.compile(rb"\b(?:import_module|__import__|instantiate)\s*\(")
#: A folder of more modules than these is no folder of alternatives; a part of them would be worse than none.
_MOST_ALTERNATIVES = 60
#: Files of data in which a project may name its modules, how many of them are looked into, and how large one may be.
_DATA = (".json", ".json5", ".jsonc", ".yaml", ".yml", ".toml")
_MOST_FILES, _MOST_BYTES = 500, 1_000_000
_DOTTED = rb"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+"
#: A dotted name that is a whole string: in quotes, or a plain scalar of YAML.
_STRING = re.compile(rb"([\"'])(%b)\1|(?m:[:\-][ \t]+(%b)[ \t]*(?:#.*)?\r?$)" % (_DOTTED, _DOTTED))
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_PLACEHOLDERS = re.compile(r"%[sdr]|\{[^{}]*\}")


@dataclass(frozen=True)
class MadeName:
    """What is written down of a module's name that is made at run time.

    Attributes:
        begins: its beginning, with the package in full: `models.` of `f"models.{name}"`; "" for none.
        ends: its end: `_model` of `f"models.{name}_model"`; "" for none.
        each: whether a loop imports what has such a name, one after the other.
    """

    begins: str
    ends: str
    each: bool = False


def made_names(tree: ast.Module, module: str, is_package: bool) -> Iterator[MadeName]:
    """Yield the names, made at run time, by which a file imports modules.

    Args:
        tree: the file.
        module: its own full name, "" for the entry script.
        is_package: whether it is a package's `__init__.py`.
    """
    repeated = (node for node in nodes_of(tree) if isinstance(node, (ast.For, *_COMPREHENSIONS)))
    each = {part for node in repeated for part in ast.walk(node)}
    for call, parts in _named(tree, module, is_package):
        if None in parts:
            yield MadeName(parts[0] or "", parts[-1] or "", call in each)


def written_names(tree: ast.Module, module: str, is_package: bool) -> Iterator[str]:
    """Yield the names that are written down by which a file imports modules: `import_module("models.unet")`.

    Args:
        tree: the file.
        module: its own full name, "" for the entry script.
        is_package: whether it is a package's `__init__.py`.
    """
    for _, parts in _named(tree, module, is_package):
        if None not in parts:
            yield "".join(part or "" for part in parts)


def _named(tree: ast.Module, module: str, is_package: bool) -> Iterator[tuple[ast.Call, list[str | None]]]:
    """Yield the calls that import modules when a file runs, with the pieces of the names, their packages in full."""
    values: dict[str, list[ast.expr]] = {}
    for node in nodes_of(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    values.setdefault(target.id, []).append(node.value)
    known = {name: given[0] for name, given in values.items() if len(given) == 1}
    for node in nodes_of(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called not in ("import_module", "__import__", "instantiate"):
            continue
        first, *others = _parts(node.args[0], known) or [""]
        if first is not None and first.startswith("."):
            first = _absolute(first, node, module, is_package)
        yield node, [first, *others]


def told_own_name(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the functions to which a package gives its own, as one that imports all of its modules."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Call) and any(isinstance(one, ast.Name) and one.id == "__name__" for one in node.args):
            yield node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def extended(tree: ast.Module) -> dict[str, set[str]]:
    """Return the classes at the top level of a file, with the last names of those that each extends."""
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    return {node.name: set(map(_base, node.bases)) for node in classes}


def _base(base: ast.expr) -> str:
    """Return the last name of what a class extends: `Base` for `nets.Base[Model]`."""
    return ast.unparse(base).partition("[")[0].rpartition(".")[2]


def _parts(node: ast.expr, known: dict[str, ast.expr]) -> list[str | None]:
    """Return the pieces of a string, None for each that is made at run time."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        return [part for value in node.values for part in _parts(value, {})]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_parts(node.left, known), *_parts(node.right, known)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return _filled(node.left)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return _filled(node.func.value)
    if isinstance(node, ast.Name) and node.id in known:
        return _parts(known[node.id], {})
    return [None]


def _filled(template: ast.expr) -> list[str | None]:
    """Return the pieces of a string that is filled in: `"models.%s" % name`."""
    if not isinstance(template, ast.Constant) or not isinstance(template.value, str):
        return [None]
    first, *others = _PLACEHOLDERS.split(template.value)
    return [first, *(piece for other in others for piece in (None, other))]


def _absolute(begins: str, call: ast.Call, module: str, is_package: bool) -> str:
    """Return the beginning of a name that is relative to the package that the call names, "" where none is known."""
    given = [keyword.value for keyword in call.keywords if keyword.arg == "package"] or call.args[1:2]
    anchor = given[0] if given else None
    package = ""
    if isinstance(anchor, ast.Constant) and isinstance(anchor.value, str):
        package = anchor.value
    elif isinstance(anchor, ast.Name) and anchor.id == "__name__":
        package = module
    elif isinstance(anchor, ast.Name) and anchor.id == "__package__":
        package = module if is_package else module.rpartition(".")[0]
    name = begins.lstrip(".")
    levels = package.split(".")[: len(package.split(".")) + 1 - (len(begins) - len(name))] if package else []
    return ".".join([*levels, name]) if levels else ""


def alternatives(name: MadeName, roots: Iterable[Path]) -> list[str]:
    """Return the modules that may have such a name: those of the folder that it names; nothing where it names none."""
    package, _, first = name.begins.rpartition(".")
    if not package:
        return []
    for root in roots:
        folder = root / package.replace(".", os.sep)
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        stems = [
            entry.name.removesuffix(".py")
            for entry in entries
            if (entry.name.endswith(".py") and entry.name != "__init__.py")
            or os.path.isfile(os.path.join(entry.path, "__init__.py"))
        ]
        found = [stem for stem in stems if stem.isidentifier() and stem.startswith(first) and stem.endswith(name.ends)]
        return [f"{package}.{stem}" for stem in found] if len(found) <= _MOST_ALTERNATIVES else []
    return []


def data_files(root: Path, endings: Collection[str]) -> Iterator[tuple[Path, bytes]]:
    """Yield a project's files of data with what they hold, in order.

    Args:
        root: the project's folder.
        endings: how their names end.
    """

    def own(folder: os.DirEntry[str]) -> bool:
        return not folder.name.startswith(".") and folder.name not in ("site-packages", "dist-packages", "node_modules")

    found = (path for path in files_below(root, own) if path.suffix in endings)
    for path in islice(found, _MOST_FILES):
        try:
            yield path, read_file(path) if os.path.getsize(path) <= _MOST_BYTES else b""
        except OSError:
            continue


def named_in_data(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield the dotted names that a project's files of data hold as whole strings, by file, in order.

    Args:
        root: the project's folder.
    """
    for path, data in data_files(root, _DATA):
        names = [(quoted or plain).decode() for _, quoted, plain in _STRING.findall(data)]
        if names:
            yield path, list(dict.fromkeys(names))
