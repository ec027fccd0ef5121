"""Find the loop over epochs: the limited loop around the loop over batches."""

from __future__ import annotations

import re

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index, Statement, dotted
from retrofit.survey.sites import Backward, EpochLoop


def find_loops(index: Index, flow: Flow, backwards: list[Backward]) -> list[EpochLoop]:
    """Return the epoch loops, one in nearly every script.

    Args:
        backwards: the backward passes; an epoch loop is around the batch loop of one of them, perhaps through calls.
    """
    found: dict[Statement, EpochLoop] = {}
    for backward in backwards:
        for loops in flow.enclosing_loops(backward.statement):
            loop = _choose([site for s in loops if (site := _epoch_loop(index, s)) is not None], loops)
            if loop is not None:
                found.setdefault(loop.statement, loop)
    for loop in found.values():
        loop.leftovers = _leftovers(loop.statement, flow)
        loop.breaks = _breaks(loop)
    return list(found.values())


def _choose(candidates: list[EpochLoop], loops: list[Statement]) -> EpochLoop | None:
    """Choose the epoch loop among the countable loops around a backward pass, innermost first."""
    outer = [site for site in candidates if site.statement is not loops[0]]
    named = [site for site in outer if re.search(r"epoch", site.target, re.IGNORECASE)]
    if named or outer:
        return (named or outer)[0]
    return None


def _epoch_loop(index: Index, statement: Statement) -> EpochLoop | None:
    node = statement.node
    if not isinstance(node, cst.For):
        return None
    iterable = node.iter
    code = index.source.code
    bar, rest = "", ""
    if isinstance(iterable, cst.Call) and iterable.args and _last_name(index, iterable.func) == "tqdm":
        iterable = iterable.args[0].value
    if not isinstance(iterable, cst.Call):
        return None
    name = index.qualified(iterable.func)
    site = EpochLoop(
        node=node, index=index, target=code(node.target), count="", limited=True, anchors={"range": iterable}
    )
    if name == "itertools.count":
        site.limited = False
        return site
    if name.startswith("tqdm") and name.endswith(".trange"):
        bar = code(iterable.func)[: -len("trange")] + "tqdm"
        rest = "".join(f", {arg.keyword.value}={code(arg.value)}" for arg in iterable.args if arg.keyword is not None)
    elif name != "range" or "range" in index.bound_names | index.scope.names:
        return None
    if any(arg.star for arg in iterable.args):
        return None
    values = [code(arg.value) for arg in iterable.args if arg.keyword is None]
    start = values[0] if len(values) > 1 else ""
    if len(values) == 3:
        site.count = f"{start}, {values[2]}"
    else:
        site.count = "" if start == "0" else start
    site.bar, site.bar_arguments = bar, rest
    return site


def _last_name(index: Index, node: cst.BaseExpression) -> str:
    return (dotted(node) or "").rpartition(".")[2]


def _leftovers(statement: Statement, flow: Flow) -> list[tuple[int, str]]:
    """Return what runs after the loop: later statements around it, in its function and in those that call it."""
    index = flow.index
    found: list[tuple[int, str]] = []
    seen = set()
    waiting = [statement]
    while waiting:
        here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        for part in here.path[::-1]:
            if isinstance(part.node, (cst.FunctionDef, cst.ClassDef)):
                waiting += [index.statement(call) for call in flow.callers(index.function_scope(part.node))]
                break
            for later in part.following:
                if not isinstance(later.node, (cst.FunctionDef, cst.ClassDef)):
                    line = index.source.position(later.node)[0]
                    found.append((line, index.source.code(later.node).splitlines()[0].strip()))
    return found


def _breaks(loop: EpochLoop) -> list[int]:
    """Return the lines of `break` and `return` that leave the loop itself."""
    lines = []

    def walk(node: cst.CSTNode, inner: bool) -> None:
        if isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
            return
        if isinstance(node, cst.Return) or (isinstance(node, cst.Break) and not inner):
            lines.append(loop.index.source.position(node)[0])
        for child in node.children:
            walk(child, inner or isinstance(node, (cst.For, cst.While)))

    assert isinstance(loop.node, cst.For)
    walk(loop.node.body, False)
    return lines
