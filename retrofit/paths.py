"""Work out which folders a file adds to Python's path, as in `sys.path.append(str(Path(__file__).parents[1]))`."""

from __future__ import annotations

import ast
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from retrofit.text import nodes_of

#: Functions and methods that leave a path what it is, as far as it is known here.
_SAME = frozenset(
    {"abspath", "realpath", "normpath", "resolve", "absolute", "as_posix", "fspath", "str", "Path", "PurePath"}
)
_ADDS = {"append": 0, "insert": 1, "extend": 0, "addsitedir": 0}
#: Code of people asks for fewer expressions than these.
_MOST_EXPRESSIONS = 2000


def added_folders(path: Path, tree: ast.Module) -> Iterator[Path]:
    """Yield the folders that a file adds to `sys.path`. Nothing of the file is run.

    Relative ones are taken from the file's folder, as if the script were started there.

    Args:
        path: the file.
        tree: what it holds.
    """
    every = [added for node in nodes_of(tree) for added in _added(node)]
    if not every:
        return
    known = _Known(path, tree)
    for added in every:
        for found in known.values(added, frozenset()):
            folder = Path(os.path.normpath(path.parent / found))
            if folder.is_dir():
                yield folder


def leaves_out(tree: ast.Module) -> bool:
    """Whether a file may take the folder from which Python starts a script, its first one, off `sys.path`.

    What it puts there instead may be that folder again.

    Args:
        tree: what the file holds.
    """
    for node in nodes_of(tree):
        if isinstance(node, ast.Assign) and any(map(_begins, node.targets)):
            parts = {one.value for one in ast.walk(node.value) if isinstance(one, ast.Subscript)}
            found = (one for one in ast.walk(node.value) if isinstance(one, ast.expr) and one not in parts)
            restored = isinstance(node.value, ast.Name) and any(map(_is_path, node.targets))
            if not restored and not any(map(_is_path, found)):
                return True
        elif isinstance(node, ast.Delete) and any(map(_begins, node.targets)):
            return True
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_path(node.func.value):
            name, plain = node.func.attr, [isinstance(one, ast.Constant) for one in node.args]
            if name == "clear" or (name, plain) in (("pop", [True]), ("remove", [False])):
                return True
    return False


def _begins(node: ast.expr) -> bool:
    """Whether it is `sys.path`, its first item, or a slice that begins there and holds something."""
    if not isinstance(node, ast.Subscript) or not _is_path(node.value):
        return _is_path(node)
    part = node.slice
    first, last = (part.lower, part.upper) if isinstance(part, ast.Slice) else (part, None)
    at, end = (one.value if isinstance(one, ast.Constant) else None for one in (first, last))
    return (first is None or at == 0) and (last is None or end != 0)


def _added(node: ast.AST) -> list[ast.expr]:
    """Return the expressions that a statement adds to the path."""
    if isinstance(node, ast.AugAssign) and _is_path(node.target):
        return _elements(node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ADDS:
        number = _ADDS[node.func.attr]
        if len(node.args) > number and (_is_path(node.func.value) or node.func.attr == "addsitedir"):
            return _elements(node.args[number])
    return []


def _elements(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node]


def _is_path(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "path"
        and isinstance(node.value, ast.Name)
        and node.value.id == "sys"
    )


class _Known:
    """What a file's names may be, as paths.

    Args:
        path: the file.
        tree: what it holds.
    """

    def __init__(self, path: Path, tree: ast.Module) -> None:
        self._path = path
        self._asked = 0
        self._given: dict[str, list[ast.expr]] = defaultdict(list)
        functions = {node.name: node for node in nodes_of(tree) if isinstance(node, ast.FunctionDef)}
        for node in nodes_of(tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self._given[target.id].append(node.value)
            elif isinstance(node, ast.AnnAssign) and node.value is not None and isinstance(node.target, ast.Name):
                self._given[node.target.id].append(node.value)
            elif isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                self._given[node.target.id] += _elements(node.iter)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions:
                for parameter, value in zip(functions[node.func.id].args.args, node.args, strict=False):
                    self._given[parameter.arg].append(value)

    def values(self, node: ast.expr, seen: frozenset[str]) -> list[Path]:
        """Return the paths that an expression may be; none where that cannot be told."""
        self._asked += 1
        if self._asked > _MOST_EXPRESSIONS:
            return []
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return [] if os.path.isabs(node.value) else [Path(node.value)]
        if isinstance(node, ast.Name) and node.id == "__file__":
            return [self._path]
        if isinstance(node, ast.Name) and node.id not in seen:
            return [one for given in self._given[node.id] for one in self.values(given, seen | {node.id})]
        if isinstance(node, ast.Attribute) and node.attr == "parent":
            return [one.parent for one in self.values(node.value, seen)]
        if isinstance(node, ast.Subscript):
            return self._taken(node, seen)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Add)):
            return self._joined([node.left, node.right], isinstance(node.op, ast.Add), seen)
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.FormattedValue) else part for part in node.values]
            return self._joined(parts, True, seen)
        return self._called(node, seen) if isinstance(node, ast.Call) else []

    def _taken(self, node: ast.Subscript, seen: frozenset[str]) -> list[Path]:
        """Return `path.parents[1]`, or the folder of `os.path.split(path)[0]`."""
        number = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if not isinstance(number, int):
            return []
        if isinstance(node.value, ast.Attribute) and node.value.attr == "parents":
            found = [one.parents for one in self.values(node.value.value, seen)]
            return [parents[number] for parents in found if 0 <= number < len(parents)]
        if isinstance(node.value, ast.Call) and _name(node.value) == "split" and number == 0 and node.value.args:
            return [one.parent for one in self.values(node.value.args[0], seen)]
        return []

    def _called(self, node: ast.Call, seen: frozenset[str]) -> list[Path]:
        name = _name(node)
        if name in ("getcwd", "cwd"):
            return [Path()]
        of_path = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        if name in ("join", "joinpath", "Path") and len(node.args) > 1 - (name == "joinpath"):
            return self._joined([*(of_path if name == "joinpath" else []), *node.args], False, seen)
        if name in _SAME and (node.args or of_path):
            return self.values(node.args[0] if node.args else of_path[0], seen)
        return [one.parent for one in self.values(node.args[0], seen)] if name == "dirname" and node.args else []

    def _joined(self, parts: list[ast.expr], as_text: bool, seen: frozenset[str]) -> list[Path]:
        found: list[Path] = []
        for number, part in enumerate(parts):
            plain = part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else None
            values = [Path(plain)] if plain is not None and as_text else self.values(part, seen)
            if not values and number == 0 and any(_climbs(later) for later in parts):
                values = [Path()]  # the way from a folder that the file does not show is most often from its own
            if not values:
                return []
            texts = [plain] if plain is not None else [str(value) for value in values]
            if number == 0:
                found = values
            elif as_text:
                found = [Path(f"{one}{text}") for one in found for text in texts]
            else:
                found = [one / value for one in found for value in values]
        return found[:8]


def _climbs(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and ".." in Path(node.value).parts


def _name(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
