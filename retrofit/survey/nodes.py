"""What the nodes of a tree say by themselves: names, calls, and what ends a block."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import fields
from functools import cache

import libcst as cst

_CODE = cst.Module([])
#: Parts of nodes in which nothing is looked for: blank lines, punctuation, and what the node itself is asked for.
_SIGNS = frozenset(
    {
        "leading_lines", "lines_after_decorators", "header", "footer", "comma", "trailing_comma", "semicolon", "lpar",
        "rpar", "lbracket", "rbracket", "lbrace", "rbrace", "dot", "colon", "first_colon", "second_colon", "equal",
        "operator", "asynchronous", "relative",
    }
)  # fmt: skip
#: Nodes of which LibCST keeps the parts in another order than that of the text.
_ORDERS: dict[type[cst.CSTNode], tuple[str, ...]] = {
    cst.Arg: ("keyword", "value"),
    cst.ClassDef: ("decorators", "name", "type_parameters", "bases", "keywords", "body"),
    cst.ExceptHandler: ("type", "name", "body"),
    cst.ExceptStarHandler: ("type", "name", "body"),
    cst.FunctionDef: ("decorators", "name", "type_parameters", "params", "returns", "body"),
    cst.IfExp: ("body", "test", "orelse"),
    cst.Parameters: ("posonly_params", "posonly_ind", "params", "star_arg", "kwonly_params", "star_kwarg"),
}


#: What a comment says by which a user lets code be passed over.
SKIP = re.compile(r"#\s*retrofit:\s*skip\b", re.IGNORECASE)
EXITS = frozenset({"exit", "quit", "sys.exit", "os._exit"})


def dotted(node: cst.CSTNode | None) -> str | None:
    """Return `a.b.c` for a name or a chain of attributes, else None."""
    # LibCST's classes are abstract ones, of which isinstance takes ten times as long to say no.
    name = ""
    while type(node) is cst.Attribute:
        name = f".{node.attr.value}{name}"
        node = node.value
    return node.value + name if type(node) is cst.Name else None


def unquoted(code: str) -> str:
    """Return code with its strings in one kind of quotes, to be compared."""
    return code.replace('"', "'")


def parted(code: str) -> tuple[str, list[str]]:
    """Return what holds an item, and the code of the keys that lead to it in turn: `stats["val"]["acc"]`."""
    holder, _, keys = code.partition("[")
    return holder, keys[:-1].split("][") if keys else []


def last_name(node: cst.CSTNode | None) -> str:
    """Return `c` for `c` and for `a.b.c`, "" for what is no name or chain of attributes."""
    return (dotted(node) or "").rpartition(".")[2]


def caught_by(handler: cst.ExceptHandler) -> list[cst.BaseExpression]:
    """Return the exceptions that a handler names: both of `except (OSError, ValueError):`, nothing for `except:`."""
    if isinstance(handler.type, cst.Tuple):
        return [item.value for item in handler.type.elements]
    return [handler.type] if handler.type is not None else []


def receiver(node: cst.CSTNode | None) -> cst.BaseExpression | None:
    """Return `a.b` for the call `a.b.method(...)`, None for what calls no method."""
    function = node.func if type(node) is cst.Call else None
    return function.value if type(function) is cst.Attribute else None


def method_name(node: cst.CSTNode | None) -> str:
    """Return `method` for the call `a.b.method(...)`, "" for what calls no method."""
    function = node.func if type(node) is cst.Call else None
    return function.attr.value if type(function) is cst.Attribute else ""


def calls_one_of(node: cst.CSTNode, *methods: str) -> bool:
    """Whether code calls a method of one of some names, whatever it is called on."""
    return any(method_name(part) in methods for part in nodes_in(node))


@cache
def _parts(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    known = (f.name for f in fields(kind) if f.type is not str and f.name not in _SIGNS)
    return _ORDERS.get(kind) or tuple(name for name in known if "whitespace" not in name)


@cache
def _is_node(kind: type) -> bool:
    return issubclass(kind, cst.CSTNode)


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the nodes right below one, in the order of the text, without white space, punctuation and operators.

    LibCST's own `children` goes through all that with a visitor, at twenty times the cost.
    """
    found: list[cst.CSTNode] = []
    for name in _parts(node.__class__):
        value = getattr(node, name)
        if value.__class__ is tuple or value.__class__ is list:
            found += value
        elif _is_node(value.__class__):
            found.append(value)
    return found


def operands(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the nodes right below one, but for the name of an attribute, or of what an argument is given to.

    These are of another object or function, whatever has that name where the code stands.
    """
    return [node.value] if isinstance(node, (cst.Arg, cst.Attribute)) else children(node)


def nodes_in(node: cst.CSTNode, *left_out: type[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """Yield a node and all that is in it, but for nodes of some kinds and what is in these."""
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if left_out and isinstance(here, left_out):
            continue
        yield here
        waiting += reversed(children(here))


def key_of(node: cst.CSTNode | None) -> str | None:
    """Return the key of an item as it is written down, None for any other expression."""
    index = node.slice[0].slice if isinstance(node, cst.Subscript) and len(node.slice) == 1 else None
    value = index.value if isinstance(index, cst.Index) else None
    return repr(value.evaluated_value) if isinstance(value, (cst.SimpleString, cst.Integer)) else None


def spelled(node: cst.CSTNode | None) -> str | None:
    """Return `a.b` as `dotted` does, and the code of an item of it as well: `models["net"]`."""
    known = isinstance(node, cst.Subscript) and key_of(node) is not None and dotted(node.value) is not None
    return _CODE.code_for_node(node) if known and node is not None else dotted(node)


#: What comparisons come to, by the nodes of their operators.
COMPARING: dict[type[cst.BaseCompOp], Callable[..., bool]] = {
    cst.Equal: operator.eq, cst.Is: operator.eq, cst.NotEqual: operator.ne, cst.IsNot: operator.ne,
    cst.LessThan: operator.lt, cst.LessThanEqual: operator.le,
    cst.GreaterThan: operator.gt, cst.GreaterThanEqual: operator.ge,
}  # fmt: skip


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
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if dotted(here) is not None:
            yield here
        elif type(here) is cst.Call and not called:
            waiting += reversed(here.args)
        else:
            waiting += reversed(operands(here))


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


def attribute_asked(node: cst.CSTNode) -> str:
    """Return the attribute for which `getattr(x, "name", y)` asks, "" for anything else."""
    if not isinstance(node, cst.Call) or dotted(node.func) != "getattr" or len(node.args) < 2:
        return ""
    name = node.args[1].value
    asked = str(name.evaluated_value) if isinstance(name, cst.SimpleString) else ""
    return asked if asked.isidentifier() else ""


def guards_main(node: cst.CSTNode) -> bool:
    """Whether a statement is `if __name__ == "__main__"`."""
    return isinstance(node, cst.If) and "__name__" in names_in(node.test)


def is_choice(node: cst.CSTNode) -> bool:
    """Whether a statement is an `if` about something else than being the main program."""
    return isinstance(node, cst.If) and "__name__" not in names_in(node.test)


def skipping(node: cst.CSTNode) -> cst.Comment | None:
    """Return the comment that says to pass over a simple statement, at its end, or a block, where that begins.

    With the block of a loop or a `with`, its head is passed over, too.
    """
    if isinstance(node, (cst.For, cst.While, cst.With)):
        return skipping(node.body)
    if isinstance(node, cst.IndentedBlock):
        comment = node.header.comment
    elif isinstance(node, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
        comment = node.trailing_whitespace.comment
    else:
        return None
    return comment if comment is not None and SKIP.search(comment.value) else None


def never_runs(node: cst.If) -> cst.CSTNode | None:
    """Return the branch of an `if` that a constant in its head rules out, None for none."""
    holds = _constant(node.test)
    return None if holds is None else node.orelse if holds else node.body


def _constant(node: cst.BaseExpression) -> bool | None:
    """Return whether a constant counts as true, None for what is none."""
    if isinstance(node, cst.Name) and node.value in ("True", "False", "None"):
        return node.value == "True"
    if isinstance(node, cst.Integer):
        return node.evaluated_value != 0
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        held = _constant(node.expression)
        return None if held is None else not held
    if isinstance(node, cst.BooleanOperation):
        decides = isinstance(node.operator, cst.Or)
        sides = [_constant(node.left), _constant(node.right)]
        return decides if decides in sides else None if None in sides else not decides
    return None


def exits(node: cst.CSTNode | None) -> bool:
    """Whether a small statement ends the program by a call: `sys.exit()`."""
    call = node.value if isinstance(node, cst.Expr) else None
    return isinstance(call, cst.Call) and dotted(call.func) in EXITS


def wholes_of(name: str) -> list[str]:
    """Return a dotted name and what it is a part of: `self.meter.avg`, `self.meter`."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(len(parts), parts[0] == "self", -1)]


def is_single(over: cst.CSTNode | None) -> bool:
    """Whether what a loop goes through is one number alone: `range(1)`, `range(0, 1)`."""
    if not isinstance(over, cst.Call) or dotted(over.func) != "range":
        return False
    known = [one.value.evaluated_value for one in over.args if isinstance(one.value, cst.Integer)]
    return len(known) == len(over.args) in (1, 2) and known[-1] - sum(known[:-1]) == 1
