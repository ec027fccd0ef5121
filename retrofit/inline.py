"""Prepare the helper module to stand inside the script itself."""

from __future__ import annotations

import re

import libcst as cst
import libcst.matchers as m

from retrofit.rules import Recipe
from retrofit.survey.index import Index


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
    imports: list[cst.SimpleStatementLine | cst.BaseCompoundStatement] = []
    body: list[cst.SimpleStatementLine | cst.BaseCompoundStatement] = []
    provided = {name.rpartition(".")[2] for name in recipe.provided}
    collisions = {name for name in provided if name in index.scope.names or name in index.bound_names}
    for text in recipe.helper_sources.values():
        for statement in cst.parse_module(text).body[1:]:
            imported = _imported(statement)
            collisions.update(name for name, module in imported.items() if name in aliases and bound[name] != module)
            if imported and any(name not in bound for name in imported):
                imports.append(statement.with_changes(leading_lines=[]))
            elif not imported and not _of_package(statement):
                body.append(statement)
            bound.update(imported)
    source = re.sub(r"\n{4,}", "\n\n\n", cst.Module(body=[*imports, *body]).code).strip("\n")
    return {"helper_source": source, "collisions": ", ".join(sorted(collisions))}


def _of_package(statement: cst.CSTNode) -> bool:
    """Has a statement a meaning in a package alone, as imports from its other files and `__all__` have?"""
    return m.matches(
        statement,
        m.SimpleStatementLine(
            body=[
                m.ImportFrom(relative=[m.AtLeastN(m.Dot(), n=1)])
                | m.Assign(targets=[m.AssignTarget(m.Name("__all__"))])
            ]
        ),
    )


def _imported(statement: cst.CSTNode) -> dict[str, str]:
    """Return the names that an import statement binds, with the full path of each; {} for any other statement."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return {}
    small = statement.body[0]
    if not isinstance(small, (cst.Import, cst.ImportFrom)) or isinstance(small.names, cst.ImportStar):
        return {}
    if isinstance(small, cst.ImportFrom) and small.relative:
        return {}
    module = cst.Module(body=[])
    prefix = module.code_for_node(small.module) + "." if isinstance(small, cst.ImportFrom) and small.module else ""
    found = {}
    for alias in small.names:
        path = prefix + module.code_for_node(alias.name)
        name = module.code_for_node(alias.asname.name) if alias.asname else module.code_for_node(alias.name)
        found[name] = path
    return found
