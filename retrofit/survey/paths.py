"""Tell the paths that a script builds from one another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted, method_name, receiver
from retrofit.survey.slashes import JOIN, PATHS, SAME

#: What makes a path of others.
BUILDERS = frozenset({JOIN, *PATHS, *SAME})


def is_same(one: cst.CSTNode, other: cst.CSTNode, flow: Flow) -> bool:
    """Whether two expressions are one variable or attribute, or, where they are neither, one text."""
    index, name, known = flow.index, dotted(one), dotted(other)
    if name is None or known is None:
        return isinstance(one, type(other)) and index.source.code(one) == index.source.code(other)
    here = index.scope_of(one)
    if "." in name and "." in known:
        module = any(name.partition(".")[0] in scope.imports for scope in (here, *here.around))
        return not module and name.rpartition(".")[2] == known.rpartition(".")[2]
    return flow.variable(name, here) == flow.variable(known, index.scope_of(other))


def relation(path: cst.BaseExpression, other: cst.BaseExpression, flow: Flow) -> str:
    """Return what a path is to another one, as far as they begin with the same parts and go on with written text.

    Args:
        path: the path.
        other: the other one.
        flow: the project's values.

    Returns:
        "inside" where it is a file or folder in the other one, "apart" where neither can be in the other, and "" for
        what may be the same, holds the other one, or cannot be told.
    """
    mine, others = pieces_of(path, flow.index), pieces_of(other, flow.index)
    while mine and others and _is_one(mine[0], others[0], flow):
        del mine[0], others[0]
    if mine and others and isinstance(mine[0], str) and isinstance(others[0], str):
        alike = takewhile(lambda pair: pair[0] == pair[1], zip(mine[0], others[0], strict=False))
        common = sum(1 for _ in alike)
        mine[0], others[0] = mine[0][common:], others[0][common:]
    first, second = (next(filter(None, pieces), "") for pieces in (mine, others))
    if not isinstance(first, str) or not isinstance(second, str) or first == second:
        return ""
    if not second:
        return "inside" if first.startswith("/") else "apart"
    return "" if not first and second.startswith("/") else "apart"


def _is_one(piece: str | cst.BaseExpression, other: str | cst.BaseExpression, flow: Flow) -> bool:
    if isinstance(piece, str) or isinstance(other, str):
        return piece == other
    return is_same(piece, other, flow)


def pieces_of(path: cst.BaseExpression, index: Index) -> list[str | cst.BaseExpression]:
    """Return the texts and expressions of which a path, or a command, is put together, in their order."""
    found: list[str | cst.BaseExpression] = []
    for piece in _taken_apart(path, index):
        if found and isinstance(piece, str) and isinstance(found[-1], str):
            found[-1] += piece
        else:
            found.append(piece)
    found = [re.sub("/+", "/", piece) if isinstance(piece, str) else piece for piece in found]
    if found and isinstance(found[-1], str):
        found[-1] = found[-1].rstrip("/")
    return found


def _taken_apart(node: cst.BaseExpression, index: Index) -> Iterator[str | cst.BaseExpression]:
    text = node.evaluated_value if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)) else None
    if isinstance(text, str):
        yield text
    elif isinstance(node, cst.FormattedString):
        for part in node.parts:
            if isinstance(part, cst.FormattedStringText):
                yield part.value
            elif isinstance(part, cst.FormattedStringExpression):
                plain = part.format_spec is None and part.conversion is None
                yield from _taken_apart(part.expression, index) if plain else [part.expression]
    elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Add, cst.Divide)):
        yield from _taken_apart(node.left, index)
        yield from ["/"] if isinstance(node.operator, cst.Divide) else []
        yield from _taken_apart(node.right, index)
    elif isinstance(node, cst.Call) and node.args and index.qualified(node.func) in BUILDERS:
        for number, arg in enumerate(node.args):
            yield from ["/"] if number else []
            yield from _taken_apart(arg.value, index)
    elif (filled := _filled(node)) is not None:
        texts, values = filled
        for number, one in enumerate(texts):
            yield one
            yield from _taken_apart(values[number], index) if number < len(values) else []
    else:
        yield node


def _filled(node: cst.BaseExpression) -> tuple[list[str], list[cst.BaseExpression]] | None:
    """Return the texts around what a text is filled with, and that: `"{}/last".format(out)` and `"%s/last" % out`."""
    if isinstance(node, cst.Call) and method_name(node) == "format" and not any(a.keyword or a.star for a in node.args):
        text, mark, marks, values = receiver(node), "{}", "{", [arg.value for arg in node.args]
    elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
        text, mark, marks, right = node.left, "%s", "%", node.right
        values = [one.value for one in right.elements] if isinstance(right, cst.Tuple) else [right]
    else:
        return None
    written = text.evaluated_value if isinstance(text, (cst.SimpleString, cst.ConcatenatedString)) else None
    if not isinstance(written, str) or not written.count(mark) == written.count(marks) == len(values):
        return None
    return written.split(mark), values
