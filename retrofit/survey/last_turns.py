"""Find what an epoch loop runs only in the last turn that the script has planned."""

from __future__ import annotations

import libcst as cst

from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted, leaves
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.loop import EpochLoop


def last_turns(index: Index, loop: EpochLoop) -> list[Site]:
    """Return each `if` in a loop that holds in its planned last turn alone: `if epoch == epochs - 1`."""
    limit = limit_of(loop.anchors["range"])
    found = []
    for comparison in index.comparisons if limit is not None else ():
        here = index.statement(comparison)
        sides = [counted(comparison.left), *(counted(one.comparator) for one in comparison.comparisons)]
        equal = isinstance(comparison.comparisons[0].operator, cst.Equal) and set(sides) == {loop.target, limit}
        if equal and loop.statement in here.path[:-1] and isinstance(here.node, cst.If) and not leaves(here.node.body):
            around = [one for one in index.ancestors(comparison) if isinstance(one, cst.BooleanOperation)]
            if all(isinstance(one.operator, cst.And) for one in around):
                found.append(Site(node=comparison, index=index))
    return found


def limit_of(node: cst.CSTNode) -> str | None:
    """Return the name of what limits a loop: that of `range(name)`, `range(first, name)` or `while turn < name`."""
    last = end_of(node)
    return counted(last) if last is not None else None


def end_of(node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return to what a loop counts: `2 * n` in `range(2 * n)`, `range(first, 2 * n)` or `while turn < 2 * n`."""
    if isinstance(node, cst.Comparison):
        return node.comparisons[0].comparator
    return node.args[:2][-1].value if isinstance(node, cst.Call) and node.args else None


def counted(node: cst.CSTNode) -> str | None:
    """Return the name in an expression that counts from it: `epochs`, `epochs - 1`."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.right, cst.Integer):
        return dotted(node.left) if isinstance(node.operator, (cst.Add, cst.Subtract)) else None
    return dotted(node)
