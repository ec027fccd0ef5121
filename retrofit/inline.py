"""Prepare the helper module to stand inside the script itself."""

from __future__ import annotations

import ast
import re
from functools import cache

from retrofit.rules import Recipe
from retrofit.survey.index import Index
from retrofit.text import whole_lines


def inlining(recipe: Recipe, index: Index) -> dict[str, str]:
    """Return what templates need to put the helper's functions into a script.

    Args:
        recipe: has the helper module, and the imports that its rules add by themselves.
        index: the script.

    Returns:
        `helper_source`, its imports that the script lacks and its definitions; `collisions`, the names that mean
        something else in the script.
    """
    aliases = index.entry.aliases
    bound = {**aliases, **{name: module for name, module in recipe.imports.items() if name not in aliases}}
    imports: list[str] = []
    body: list[str] = []
    provided = {name.rpartition(".")[2] for name in recipe.provided}
    collisions = {name for name in provided if name in index.scope.names or name in index.bound_names}
    for source in recipe.helper_sources.values():
        for text, imported in _statements(source):
            collisions.update(name for name, module in imported.items() if name in aliases and bound[name] != module)
            if not imported:
                body.append(text)
            elif any(name not in bound for name in imported):
                imports.append(text.lstrip("\n"))
            bound.update(imported)
    joined = re.sub(r"\n{4,}", "\n\n\n", "".join([*imports, *body])).strip("\n")
    return {"helper_source": joined, "collisions": ", ".join(sorted(collisions))}


def launcher_program(recipe: Recipe) -> str:
    """Return the launcher's modules as one text, which needs no other file."""
    imports: dict[str, None] = {}
    body: list[str] = []
    for source in recipe.launcher_sources.values():
        for text, imported in _statements(source, frozenset(recipe.launcher_sources)):
            if imported:
                imports[text.strip("\n")] = None
            else:
                body.append(text)
    return "\n".join(imports) + "".join(body)


@cache
def _statements(source: str, package: frozenset[str] = frozenset()) -> list[tuple[str, dict[str, str]]]:
    """Return what a module's statements mean outside its package, each with the lines before it, and what it imports.

    Its docstring is left out, and so are imports from the package's other modules, whose names may be given, and
    `__all__`.
    """
    lines = whole_lines(source)
    found, begin = [], 0
    for statement in ast.parse(source).body:
        assert statement.end_lineno is not None
        if not _of_package(statement, package):
            found.append(("".join(lines[begin : statement.end_lineno]), _imported(statement)))
        begin = statement.end_lineno
    return found[1:]


def _of_package(statement: ast.stmt, package: frozenset[str]) -> bool:
    if isinstance(statement, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id == "__all__" for target in statement.targets)
    return isinstance(statement, ast.ImportFrom) and (statement.level > 0 or statement.module in package)


def _imported(statement: ast.stmt) -> dict[str, str]:
    """Return the names that an import statement binds, with the full path of each; {} for any other statement."""
    if not isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {}
    prefix = f"{statement.module}." if isinstance(statement, ast.ImportFrom) and statement.module else ""
    return {alias.asname or alias.name: prefix + alias.name for alias in statement.names}
