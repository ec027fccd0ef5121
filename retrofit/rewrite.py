"""Apply one file's edits in one pass over its tree."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile

import libcst as cst
from libcst._nodes.internal import CodegenState

from retrofit.edits import Edit
from retrofit.errors import EngineError, Problem, UserError
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted
from retrofit.survey.scopes import File, Scope, Statement
from retrofit.transform import Rewriter


@dataclass(frozen=True)
class Rewriting:
    """What becomes of a file.

    Attributes:
        text: its new text.
        names: the names in new code by their offsets in the text, each with the edit that it comes from.
    """

    text: str
    names: Mapping[int, tuple[str, Edit]]


def rewrite(index: Index, edits: Sequence[Edit], file: File | None = None) -> str:
    """Return a file's text with all its edits applied; see `rewriting`."""
    return rewriting(index, edits, file).text


def rewriting(index: Index, edits: Sequence[Edit], file: File | None = None) -> Rewriting:
    """Return what becomes of a file with all its edits applied.

    Args:
        index: the project's files.
        edits: the file's edits in the order of their rules; those at one place take effect in this order.
        file: the file; None for the entry script.

    Raises:
        UserError: a statement to edit shares its line with another.
        EngineError: two edits want the same place.
    """
    file = file or index.entry
    edits = placed(index, edits, file)
    _check_statements(index, edits)
    _refuse_overlaps(index, edits)
    rewriter = Rewriter(index, file, edits)
    changed = file.source.module.visit(rewriter)
    assert isinstance(changed, cst.Module)
    written = _Written(changed, rewriter.names, rewriter.verbatim)
    changed._codegen(written)
    text = "".join(written.tokens)
    offsets = [0, *accumulate(map(len, written.tokens))]
    places = {text.index(name.value, offsets[token]): name for name, token in written.starts.items()}
    return Rewriting(text, {place: (name.value, rewriter.names[name]) for place, name in places.items()})


class _Written(CodegenState):
    """Notes at which token each of some names begins while LibCST writes a module out.

    Args:
        module: the module.
        names: the names.
        verbatim: what is written in the place of some tokens.
    """

    def __init__(self, module: cst.Module, names: Container[cst.Name], verbatim: Mapping[str, str]) -> None:
        super().__init__(default_indent=module.default_indent, default_newline=module.default_newline)
        self._names = names
        self._verbatim = verbatim
        self.starts: dict[cst.Name, int] = {}

    def add_token(self, value: str) -> None:
        super().add_token(self._verbatim.get(value, value))

    def before_codegen(self, node: cst.CSTNode) -> None:
        if isinstance(node, cst.Name) and node in self._names:
            self.starts[node] = len(self.tokens)


def placed(index: Index, edits: Sequence[Edit], file: File) -> list[Edit]:
    """Return a file's edits, each at the node where it takes effect, with the declarations that they need.

    Args:
        index: the project's files.
        edits: the file's edits in the order of their rules.
        file: the file.
    """
    edits = [*_declarations(index, edits), *edits]
    own = [edit for edit in edits if edit.kind != "add-import"]
    imports = {statement.node for statement, _ in file.imports}  # what is changed of them asks for no name
    nodes = [edit.node for edit in own if edit.node not in imports]
    nodes += [edit.last for edit in edits if edit not in own and edit.last is not None]
    edited = min((index.statement(node).path[0].index for node in nodes if node in index.parents), default=None)
    return [_place_import(file, edit, edited) if edit.kind == "add-import" else edit for edit in edits]


def by_file(index: Index, edits: Iterable[Edit]) -> dict[File, list[Edit]]:
    """The edits of each file, the entry script first."""
    found: dict[File, list[Edit]] = {file: [] for file in index.files}
    for edit in edits:
        found[index.file(edit.node)].append(edit)
    return {file: mine for file, mine in found.items() if mine}


def crowded(index: Index, edits: Sequence[Edit]) -> list[cst.CSTNode]:
    """Return the lines and blocks that edits are about, and that have to be unfolded first; see `retrofit.unfold`."""
    nodes = [node for edit in edits for node in (edit.node, edit.last) if node is not None and node in index.parents]
    statements = [node for node in nodes if isinstance(node, (cst.SimpleStatementLine, cst.SimpleStatementSuite))]
    return [node for node in dict.fromkeys(statements) if index.statement(node).crowded]


def _check_statements(index: Index, edits: Sequence[Edit]) -> None:
    for edit in edits:
        if isinstance(edit.node, cst.BaseExpression):
            continue
        if edit.node not in index.parents or not isinstance(edit.node, (cst.BaseStatement, cst.BaseSuite)):
            raise EngineError(f"rule {edit.code} wants to edit something that is neither statement nor expression")
        for node in crowded(index, [edit]):
            line, column = index.source.position(node)
            message = f"`{index.source.code(node).strip()}` shares its line with other code. Give it a line of its own."
            raise UserError(Problem(index.source.file(node).shown, line, column, edit.code, message))


def _refuse_overlaps(index: Index, edits: Sequence[Edit]) -> None:
    owners: dict[cst.CSTNode, Edit] = {}
    for edit in edits:
        if edit.kind in ("replace", "guard", "remove", "take-out"):
            other = owners.setdefault(edit.node, edit)
            if other is not edit:
                raise EngineError(f"rules {other.code} and {edit.code} change the same code")
    for edit in edits:
        for ancestor in index.ancestors(edit.node):
            owner = owners.get(ancestor)
            if owner is not None and owner.kind != "guard":
                raise EngineError(f"rule {owner.code} replaces code that rule {edit.code} changes")


def _declarations(index: Index, edits: Sequence[Edit]) -> list[Edit]:
    """Return `global model` for each function in which an edit gives a value to a name that it has from outside."""
    declared: dict[tuple[Scope, str], list[str]] = {}
    codes: dict[Scope, str] = {}
    for edit in edits:
        if edit.node not in index.parents or isinstance(edit.node, cst.BaseExpression):
            continue
        scope = index.scope_of(edit.node)
        if scope.kind != "function":
            continue
        for name in sorted(_bound_in(edit.text) - scope.names - scope.outer - {"_"}):
            owner = next((outer for outer in scope.around if outer.kind != "class" and name in outer.names), None)
            if owner is not None:
                names = declared.setdefault((scope, "global" if owner.kind == "module" else "nonlocal"), [])
                names += [name] if name not in names else []
                codes.setdefault(scope, edit.code)
    return [
        Edit("insert-before", _first_statement(index, scope), f"{keyword} {', '.join(names)}\n", codes[scope])
        for (scope, keyword), names in declared.items()
    ]


def _first_statement(index: Index, function: Scope) -> cst.CSTNode:
    """Return the first statement of a function, behind its docstring."""
    assert isinstance(function.node, cst.FunctionDef)
    statements = index.statements_in(function.node.body)
    documented = function.node.get_docstring() is not None and len(statements) > 1
    return statements[documented].node


def _bound_in(text: str) -> set[str]:
    """Return the names to which statements give a value, those of functions inside them left out."""
    found: set[str] = set()
    try:
        nodes: list[ast.AST] = [ast.parse(text)]
    except SyntaxError:  # which is told where the code is put in its place
        nodes = []
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
            nodes += ast.iter_child_nodes(node)
    return found


def _place_import(file: File, edit: Edit, edited: int | None) -> Edit:
    """Turn an import into an insertion at the right place of the file's head.

    Args:
        edited: the first statement at module level that other edits change, or that it has to come before, by its
            index; None for none.
    """
    edit = replace(edit, verbatim=_defines(edit.text), last=None)
    end = len(file.body) if edited is None else edited
    imports = {part.index for s, _ in file.imports for part in s.path[:1]}
    head: list[Statement] = []
    for statement in file.body[:end]:
        definition = isinstance(statement.node, (cst.FunctionDef, cst.ClassDef)) or _is_main_guard(file, statement.node)
        if definition:
            break
        if statement.index in imports:
            head.append(statement)
    name = edit.text.strip().removeprefix("import ")
    if name in sys.stdlib_module_names and head:
        own = [s for s in head if _import_root(s.node) != "__future__"]
        standard = list(takewhile(lambda s: _import_root(s.node) in sys.stdlib_module_names, own))
        for statement in standard:
            if _is_plain_import(statement.node) and _import_root(statement.node) > name:
                return replace(edit, kind="insert-before", node=statement.node)
        if standard:
            return replace(edit, kind="insert-after", node=standard[-1].node)
        if own:
            return replace(edit, kind="insert-before", node=own[0].node)
    if head:
        last = head[-1]
        beyond = file.body[last.index + 1 : end]
        setting = takewhile(lambda s: re.match(r"(sys\.path|os\.environ)\b", file.source.code(s.node)), beyond)
        return replace(edit, kind="insert-after", node=[last, *setting][-1].node)
    if not file.body:
        raise EngineError(f"rule {edit.code} imports something into a file that has no statement")
    first = file.body[0]
    docstring = isinstance(first.node, cst.SimpleStatementLine) and isinstance(first.node.body[0], cst.Expr)
    return replace(edit, kind="insert-after" if docstring else "insert-before", node=first.node)


def _defines(text: str) -> bool:
    """Whether code brings functions or classes. What is no Python does not: that is told later."""
    try:
        return any(isinstance(statement, (ast.FunctionDef, ast.ClassDef)) for statement in ast.parse(text).body)
    except SyntaxError:
        return False


def _is_main_guard(file: File, node: cst.CSTNode) -> bool:
    return isinstance(node, cst.If) and "__name__" in file.source.code(node.test)


def _import_root(node: cst.CSTNode) -> str:
    """Return the top-level package that a statement imports, "" for any other statement."""
    small = node.body[0] if isinstance(node, cst.SimpleStatementLine) else None
    if isinstance(small, cst.Import):
        return (dotted(small.names[0].name) or "").partition(".")[0]
    if isinstance(small, cst.ImportFrom) and not small.relative:
        return (dotted(small.module) or "").partition(".")[0]
    return ""


def _is_plain_import(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], cst.Import)
