"""Give statements that share a line lines of their own: `a; b`, `if x: a`."""

from __future__ import annotations

import ast
from collections.abc import Collection

import libcst as cst

from retrofit.errors import EngineError
from retrofit.source import Source
from retrofit.text import nodes_of, parsed


def unfolded(source: Source, crowded: Collection[cst.CSTNode]) -> Source:
    """Return a file in which some statements that share a line have lines of their own, and mean the same.

    Messages go on to name the lines of the file as it is.

    Args:
        source: the file.
        crowded: lines with several statements, and blocks that stand behind their colon.

    Raises:
        EngineError: the statements would mean something else.
    """
    changed = source.module.visit(_Unfolding(crowded))
    assert isinstance(changed, cst.Module)
    old, new = parsed(source.text), parsed(changed.code)
    if ast.dump(old) != ast.dump(new):
        raise EngineError(f"{source.shown}: its statements would mean something else on lines of their own")
    lines = {
        after.lineno: source.told(before.lineno)
        for before, after in zip(nodes_of(old), nodes_of(new), strict=True)
        if isinstance(before, (ast.stmt, ast.expr)) and isinstance(after, (ast.stmt, ast.expr))
    }
    return source.relaid(changed.code, lines)


class _Unfolding(cst.CSTTransformer):
    def __init__(self, crowded: Collection[cst.CSTNode]) -> None:
        super().__init__()
        self._crowded = set(crowded)

    def on_visit(self, node: cst.CSTNode) -> bool:
        return not isinstance(node, cst.BaseExpression)

    def leave_SimpleStatementLine(  # noqa: N802
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.BaseStatement]:
        if original_node not in self._crowded:
            return updated_node
        lines = _lines(updated_node)
        return cst.FlattenSentinel([lines[0].with_changes(leading_lines=updated_node.leading_lines), *lines[1:]])

    def leave_SimpleStatementSuite(  # noqa: N802
        self, original_node: cst.SimpleStatementSuite, updated_node: cst.SimpleStatementSuite
    ) -> cst.BaseSuite:
        return cst.IndentedBlock(_lines(updated_node)) if original_node in self._crowded else updated_node


def _lines(crowded: cst.SimpleStatementLine | cst.SimpleStatementSuite) -> list[cst.SimpleStatementLine]:
    """Return each of several statements on a line of its own; a comment behind them stays behind the last."""
    smalls = [small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT) for small in crowded.body]
    lines = [cst.SimpleStatementLine([small]) for small in smalls]
    end = crowded.trailing_whitespace
    if end.comment is not None and end.whitespace.empty:  # which stood behind the last semicolon
        end = end.with_changes(whitespace=cst.SimpleWhitespace("  "))
    lines[-1] = lines[-1].with_changes(trailing_whitespace=end)
    return lines
