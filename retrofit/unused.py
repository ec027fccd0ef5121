"""Take out the imports that only replaced code used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import libcst as cst

from retrofit.edits import Edit
from retrofit.rewrite import rewriting
from retrofit.survey.scopes import File, Statement
from retrofit.survey.sites.script import Script
from retrofit.text import decode, nodes_of, parsed


def unused_imports(
    script: Script, edited: Mapping[File, Sequence[Edit]], adopted: Iterable[tuple[Path, str, int, int]]
) -> Iterator[Edit]:
    """Yield what takes out the imports that a file used before rules of the first stages changed it, and no more.

    A name that stands as a text in the file, as in `__all__`, counts as used. So does each name of a package's
    `__init__.py`, of a file that the project imports as a whole, and of one that other scripts import.

    Args:
        script: the survey of the files as the first stages left them.
        edited: the changes that the other rules make of them.
        adopted: (path, rule, first line, last line) of each change of the first stages.

    Raises:
        UserError: the changes cannot be made.
        EngineError: two of them want the same place.
    """
    codes = {path: code for path, code, _, _ in adopted}
    for file in script.index.files:
        path = file.source.path
        if path not in codes or path.name == "__init__.py" or script.neighbours.get(file.name):
            continue
        mine = edited.get(file, [])
        text = rewriting(script.index, mine, file).text if mine else file.source.text
        now = _used(text)
        before, _ = decode(file.source.data, file.source.shown)
        gone = {name for name in _used(before) - now if not _is_imported(file, name, script)}
        changed = {edit.node for edit in mine}
        for statement in dict.fromkeys(statement for statement, _ in file.imports):
            if statement.crowded or statement.node in changed or not _is_plain(statement):
                continue
            if (edit := _without(statement.node, gone, codes[path])) is not None:
                yield edit


def _used(text: str) -> set[str]:
    """Return the names that are used in a text, those included that stand in an annotation or alone as a text."""
    found = set()
    for node in nodes_of(parsed(text)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            found.add(node.value)
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            parts = ast.walk(annotation) if isinstance(annotation, ast.AST) else ()
            texts = (part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))
            found.update(word for written in texts for word in re.findall(r"\w+", written))
    return found


def _is_imported(file: File, name: str, script: Script) -> bool:
    """Whether another file of the project takes a name from one, or may do so."""
    module = file.name or script.module or file.source.path.stem
    for other in script.index.files:
        fulls = other.aliases.values()
        if other is not file and (module in other.stars or f"{module}.{name}" in fulls or module in fulls):
            return True
    return False


def _is_plain(statement: Statement) -> bool:
    """Whether an import always runs where its block does: it stands in no `if` or `try`."""
    around = [part.node for part in statement.path[:-1]]
    return all(isinstance(node, (cst.FunctionDef, cst.ClassDef)) for node in around)


def _without(node: cst.CSTNode, gone: set[str], code: str) -> Edit | None:
    """Return what takes some names out of an import, None where it has none of them."""
    assert isinstance(node, cst.SimpleStatementLine)
    small = node.body[0]
    if not isinstance(small, (cst.Import, cst.ImportFrom)) or isinstance(small.names, cst.ImportStar):
        return None
    kept = [alias for alias in small.names if _bound(alias) not in gone]
    if len(kept) == len(small.names):
        return None
    if not kept:
        return Edit("take-out", node, "", code)
    # What stands between the last name and the end of the line, or the parenthesis, stays there.
    kept[-1] = kept[-1].with_changes(comma=small.names[-1].comma)
    text = cst.Module([cst.SimpleStatementLine([small.with_changes(names=kept)])]).code
    return Edit("replace", node, text, code)


def _bound(alias: cst.ImportAlias) -> str:
    """Return the name that an import gives, "" where it is written so that it is one of the file's own."""
    if alias.evaluated_alias is None:
        return alias.evaluated_name.partition(".")[0]
    return "" if alias.evaluated_alias == alias.evaluated_name else alias.evaluated_alias
