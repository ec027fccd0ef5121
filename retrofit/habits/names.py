"""What the sites of several kinds ask about names, statements and devices."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from retrofit.survey.branches import exclude_each_other
from retrofit.survey.index import Index
from retrofit.survey.nodes import guards_main, method_name, nodes_in
from retrofit.survey.scopes import Scope, Statement

if TYPE_CHECKING:
    from retrofit.habits.file import TrainingFile

_FORMATS = frozenset(f"torch.{name}" for name in ("float16", "half", "bfloat16", "float64", "double"))
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
    return any(name in here.names for here in (scope, *scope.around))


def literal(file: TrainingFile, node: cst.BaseExpression | None) -> str | int | None:
    """Return the text or whole number that an expression stands for, None where it is neither or cannot be told."""
    value = None if node is None else file.value_of(node)
    if isinstance(value, cst.SimpleString):
        text = value.evaluated_value
        return text if isinstance(text, str) else None
    return int(value.value, 0) if isinstance(value, cst.Integer) else None


def text(file: TrainingFile, node: cst.BaseExpression | None) -> str:
    """Return the text that an expression stands for, "" where it is none or cannot be told."""
    value = literal(file, node)
    return value if isinstance(value, str) else ""


def moves(index: Index, call: cst.Call) -> bool:
    """Whether a call is one of a module or tensor that puts it on an accelerator: `.cuda()`, `.to(device)`."""
    name = method_name(call)
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
    if method_name(call) == "to" and len(call.args) == 1:
        return index.qualified(call.args[0].value) in _FORMATS
    return method_name(call) in ("half", "bfloat16", "double") and not call.args


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
    for part in statement.around:
        choice: cst.CSTNode | None = part.node
        while isinstance(choice, cst.If):
            found.append(choice.test)
            choice = choice.orelse
    return found


def met(index: Index, statement: Statement) -> list[cst.BaseExpression]:
    """Return the tests of the `if`s, within its function, whose body holds a statement."""
    return [test for test, holds in index.guards(statement.node) if holds]


def unconditional(statement: Statement) -> bool:
    """Whether a statement runs whenever its function, or the module, does."""
    around = [part for part in statement.around if part.parent is not None or not guards_main(part.node)]
    if not all(isinstance(part.node, cst.With) for part in around):
        return False
    earlier = (one.node for part in (statement, *statement.around) for one in part.preceding)
    return not any(isinstance(part, cst.Return) for node in earlier for part in nodes_in(node, cst.FunctionDef))
