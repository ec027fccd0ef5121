"""What the sites of several kinds ask about names, statements and devices."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from retrofit.survey.index import Index, Scope, Statement, exclude_each_other, guards_main

if TYPE_CHECKING:
    from retrofit.habits.file import TrainingFile

_FORMAT = re.compile(r"torch\.(float16|half|bfloat16|float64|double)")
_NO_DEVICE = re.compile(r"dtype|memory_format|channels_last|torch\.(b?float\d*|half|double|int\d*|long|bool)\b")


def spelled(index: Index, full: str, scope: Scope) -> str:
    """Return how code in ``scope`` can write a full name by the file's imports, "" where none reaches it there."""
    module, rest = full, ""
    while module:
        name = index.entry.imported_as(module)
        if name is not None and _visible(name.partition(".")[0], scope):
            return f"{name}.{rest}" if rest else name
        module, _, last = module.rpartition(".")
        rest = f"{last}.{rest}" if rest else last
    return ""


def _visible(name: str, scope: Scope) -> bool:
    here: Scope | None = scope
    while here is not None:
        if name in here.names:
            return True
        here = here.parent
    return False


def literal(file: TrainingFile, node: cst.BaseExpression | None) -> str | int | None:
    """Return the text or whole number that an expression stands for, None where it is neither or cannot be told."""
    value = None if node is None else file.value_of(node)
    if isinstance(value, cst.SimpleString):
        text = value.evaluated_value
        return text if isinstance(text, str) else None
    return int(value.value, 0) if isinstance(value, cst.Integer) else None


def moves(index: Index, call: cst.Call) -> bool:
    """Whether a call is one of a module or tensor that puts it on an accelerator: `.cuda()`, `.to(device)`."""
    if not isinstance(call.func, cst.Attribute):
        return False
    name = call.func.attr.value
    if name == "to" and call.args:
        first = call.args[0]
        word = first.keyword.value if first.keyword is not None else ""
        code = index.source.read(first.value)
        return word in ("", "device") and not _NO_DEVICE.search(code) and code != "'cpu'"
    return name in ("cuda", "xpu") and index.qualified(call.func) != "torch.cuda"


def converts(index: Index, call: cst.Call) -> bool:
    """Whether a call is one of a module or tensor that changes its number format: `.half()`, `.to(torch.bfloat16)`.

    `.float()` is left out: it is what most models have already.
    """
    if not isinstance(call.func, cst.Attribute):
        return False
    if call.func.attr.value == "to" and len(call.args) == 1:
        return _FORMAT.fullmatch(index.qualified(call.args[0].value)) is not None
    return call.func.attr.value in ("half", "bfloat16", "double") and not call.args


def follows(later: Statement, earlier: Statement) -> bool:
    """Whether a statement runs only after another one of its function, or of the module, has run."""
    return any(part.siblings is earlier.siblings and part.index > earlier.index for part in later.path)


def may_follow(later: Statement, earlier: Statement) -> bool:
    """Whether a statement runs after another one of its function, where the other's conditions hold."""
    here: Statement | None = earlier
    while here is not None:
        if follows(later, here):
            return not exclude_each_other(later, earlier)
        here = here.parent if here.parent is not None and isinstance(here.parent.node, (cst.If, cst.With)) else None
    return False


def conditions(statement: Statement) -> list[cst.BaseExpression]:
    """Return what the `if`s around a statement ask, within its function."""
    found = []
    for part in statement.ancestors:
        if isinstance(part.node, (cst.FunctionDef, cst.ClassDef)):
            break
        if isinstance(part.node, cst.If):
            found.append(part.node.test)
            other = part.node.orelse
            while isinstance(other, cst.If):
                found.append(other.test)
                other = other.orelse
    return found


def met(index: Index, statement: Statement) -> list[cst.BaseExpression]:
    """Return the tests of the `if`s, within its function, whose body holds a statement."""
    found = []
    inner = statement
    for part in statement.ancestors:
        if isinstance(part.node, (cst.FunctionDef, cst.ClassDef)):
            break
        if isinstance(part.node, cst.If) and inner.siblings is index.statements_in(part.node.body):
            found.append(part.node.test)
        inner = part
    return found


def unconditional(statement: Statement) -> bool:
    """Whether a statement runs whenever its function, or the module, does."""
    for part in statement.ancestors:
        if isinstance(part.node, cst.FunctionDef):
            break
        guard = guards_main(part.node) and part.parent is None
        if not guard and not isinstance(part.node, cst.With):
            return False
    return not any(_may_leave(one.node) for one in _earlier(statement))


def _earlier(statement: Statement) -> list[Statement]:
    found = []
    for part in [statement, *statement.ancestors]:
        if isinstance(part.node, cst.FunctionDef) and part is not statement:
            break
        found += part.preceding
    return found


class _Leaving(cst.CSTVisitor):
    found = False

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: N802
        return False

    def visit_Return(self, node: cst.Return) -> None:  # noqa: N802
        self.found = True


def _may_leave(node: cst.CSTNode) -> bool:
    """Whether a statement may return from its function."""
    if isinstance(node, cst.SimpleStatementLine):
        return isinstance(node.body[-1], cst.Return)
    leaving = _Leaving()
    node.visit(leaving)
    return leaving.found


def main_guarded(scope: Scope, statement: Statement) -> bool:
    """Whether a statement of the module runs only where the file is the program."""
    return scope.kind == "module" and any(guards_main(part.node) for part in statement.ancestors)
