"""What the nodes of a tree say by themselves: names, calls, and what ends a block."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

_CODE = cst.Module([])


EXITS = frozenset({"exit", "quit", "sys.exit", "os._exit"})


def dotted(node: cst.CSTNode | None) -> str | None:
    """Return `a.b.c` for a name or a chain of attributes, else None."""
    # LibCST's classes are abstract ones, of which isinstance takes ten times as long to say no.
    parts: list[str] = []
    while type(node) is cst.Attribute:
        parts.append(node.attr.value)
        node = node.value
    if type(node) is not cst.Name:
        return None
    parts.append(node.value)
    return ".".join(reversed(parts))


def last_name(node: cst.CSTNode | None) -> str:
    """Return `c` for `c` and for `a.b.c`, "" for what is no name or chain of attributes."""
    return (dotted(node) or "").rpartition(".")[2]


def receiver(node: cst.CSTNode | None) -> cst.BaseExpression | None:
    """Return `a.b` for the call `a.b.method(...)`, None for what calls no method."""
    function = node.func if type(node) is cst.Call else None
    return function.value if type(function) is cst.Attribute else None


def method_name(node: cst.CSTNode | None) -> str:
    """Return `method` for the call `a.b.method(...)`, "" for what calls no method."""
    function = node.func if type(node) is cst.Call else None
    return function.attr.value if type(function) is cst.Attribute else ""


def nodes_in(node: cst.CSTNode, *left_out: type[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """Yield a node and all that is in it, but for nodes of some kinds and what is in these."""
    if isinstance(node, left_out):
        return
    yield node
    for child in node.children:
        yield from nodes_in(child, *left_out)


def key_of(node: cst.CSTNode | None) -> str | None:
    """Return the key of an item as it is written down, None for any other expression."""
    index = node.slice[0].slice if isinstance(node, cst.Subscript) and len(node.slice) == 1 else None
    value = index.value if isinstance(index, cst.Index) else None
    return repr(value.evaluated_value) if isinstance(value, (cst.SimpleString, cst.Integer)) else None


def spelled(node: cst.CSTNode | None) -> str | None:
    """Return `a.b` as `dotted` does, and the code of an item of it as well: `models["net"]`."""
    known = isinstance(node, cst.Subscript) and key_of(node) is not None and dotted(node.value) is not None
    return _CODE.code_for_node(node) if known and node is not None else dotted(node)


def leaves(node: cst.CSTNode) -> bool:
    """Whether nothing behind a statement runs, or a block ends so: by `return`, `raise`, `continue` or `break`."""
    return isinstance(last_of(node), (cst.Return, cst.Raise, cst.Continue, cst.Break))


def last_of(line: cst.CSTNode) -> cst.BaseSmallStatement | None:
    """Return the last small statement of a line or block, None where it ends with a compound one."""
    if isinstance(line, cst.IndentedBlock):
        return last_of(line.body[-1])
    return line.body[-1] if isinstance(line, (cst.SimpleStatementLine, cst.SimpleStatementSuite)) else None


def named_in(node: cst.CSTNode, called: bool = True) -> Iterator[cst.CSTNode]:
    """Yield what has a name or dotted name in an expression, what it calls only where ``called``."""
    if dotted(node) is not None:
        yield node
        return
    for child in node.children:
        if called or not (isinstance(node, cst.Call) and child is node.func):
            yield from named_in(child, called)


def names_in(node: cst.CSTNode, called: bool = True) -> Iterator[str]:
    """Yield the names and dotted names in an expression, those that it calls only where ``called``."""
    return (name for part in named_in(node, called) if (name := dotted(part)) is not None)


def mentions(node: cst.CSTNode, names: Collection[str]) -> bool:
    """Whether code has one of some names or dotted names, by itself or with an attribute after it."""
    return any(said == name or said.startswith(f"{name}.") for said in names_in(node) for name in names)


def argument(call: cst.Call, name: str, position: int | None = None) -> cst.BaseExpression | None:
    """Return an argument's expression by keyword or position, None where it is not given."""
    for number, arg in enumerate(call.args):
        if arg.keyword.value == name if arg.keyword else number == position and not arg.star:
            return arg.value
    return None


def guards_main(node: cst.CSTNode) -> bool:
    """Whether a statement is `if __name__ == "__main__"`."""
    return isinstance(node, cst.If) and "__name__" in names_in(node.test)


def is_choice(node: cst.CSTNode) -> bool:
    """Whether a statement is an `if` about something else than being the main program."""
    return isinstance(node, cst.If) and "__name__" not in names_in(node.test)


def exits(node: cst.CSTNode) -> bool:
    """Whether a small statement ends the program by a call: `sys.exit()`."""
    call = node.value if isinstance(node, cst.Expr) else None
    return isinstance(call, cst.Call) and dotted(call.func) in EXITS
