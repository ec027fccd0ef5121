"""Prepare the helper module to stand inside the script itself."""

from __future__ import annotations

import re

import libcst as cst

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
    body: list[cst.SimpleStatementLine | cst.BaseCompoundStatement] = []
    provided = {name.rpartition(".")[2] for name in recipe.provided}
    collisions = {name for name in provided if name in index.scope.names or name in index.bound_names}
    for statement in cst.parse_module(recipe.helper_source).body[1:]:
        imported = _imported(statement)
        collisions.update(name for name, module in imported.items() if name in aliases and bound[name] != module)
        if not imported or any(name not in bound for name in imported):
            body.append(statement)
    source = re.sub(r"\n{4,}", "\n\n\n", cst.Module(body=body).code).strip("\n")
    return {"helper_source": source, "collisions": ", ".join(sorted(collisions))}


def _imported(statement: cst.CSTNode) -> dict[str, str]:
    """Return the names that an import statement binds, with the full path of each; {} for any other statement."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return {}
    small = statement.body[0]
    if not isinstance(small, (cst.Import, cst.ImportFrom)) or isinstance(small.names, cst.ImportStar):
        return {}
    module = cst.Module(body=[])
    prefix = module.code_for_node(small.module) + "." if isinstance(small, cst.ImportFrom) and small.module else ""
    found = {}
    for alias in small.names:
        path = prefix + module.code_for_node(alias.name)
        name = module.code_for_node(alias.asname.name) if alias.asname else module.code_for_node(alias.name)
        found[name] = path
    return found
