"""What counts: assignments that make a value of the one before, `n += 1`."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from retrofit.survey.nodes import dotted
from retrofit.survey.scopes import Binding


def changes(binding: Binding) -> list[cst.AugAssign]:
    """Return the `total += loss` by which a statement changes a variable or an item, nothing where it sets it anew."""
    node = binding.statement.node
    small = node.body if isinstance(node, (cst.SimpleStatementLine, cst.SimpleStatementSuite)) else ()
    return [one for one in small if isinstance(one, cst.AugAssign) and _is(one.target, binding)]


def increments(binding: Binding) -> bool:
    """Whether an assignment adds to what it assigns to: `n += 1`, `n = n + 1`."""
    value = binding.value
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add):
        return _is(value.left, binding) or _is(value.right, binding)
    return any(isinstance(one.operator, cst.AddAssign) for one in changes(binding)[:1])


def counts(binding: Binding) -> bool:
    """Whether an assignment counts on or down, perhaps beginning anew: also `n -= 1`, `n = 0 if better else n + 1`."""
    value = binding.value
    if isinstance(value, cst.IfExp):
        return any(counts(replace(binding, value=one)) for one in (value.body, value.orelse))
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Subtract):
        return _is(value.left, binding)
    return increments(binding) or any(isinstance(one.operator, cst.SubtractAssign) for one in changes(binding))


def _is(node: cst.BaseExpression, binding: Binding) -> bool:
    """Whether an expression is what an assignment assigns to, a variable or an item."""
    if not isinstance(node, cst.Subscript):
        return dotted(node) == binding.target
    return cst.Module(body=[]).code_for_node(node).replace('"', "'") == binding.target.replace('"', "'")
