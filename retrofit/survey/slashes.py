"""Find out whether a text has a slash in it, as the path of a folder in another one has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.nodes import children, dotted, receiver

#: What gives a text or path back as it is, and what gives the whole path from the root. All are of Python's own
#: library.
SAME = frozenset({"str", "os.fspath", "os.path.normpath", "os.path.expanduser"})
_WHOLE = frozenset({"os.path.abspath", "os.path.realpath", "os.getcwd", "pathlib.Path.cwd", "pathlib.Path.home"})
JOIN = "os.path.join"
PATHS = frozenset(f"pathlib.{name}" for name in ("Path", "PurePath", "PosixPath", "PurePosixPath"))


def has_slash(node: cst.BaseExpression, flow: Flow) -> bool | None:
    """Return whether a text has a slash in it, as far as the code shows.

    Args:
        node: the text, or a path of `pathlib`.
        flow: the project's values.

    Returns:
        True where it surely has one; None where parts are joined with one between them, of which a part that nobody
        knows may be empty, or where only some of its values have one; False where nothing puts one in.
    """
    return _Reading(flow).of(node)


class _Reading:
    """Reads an expression; what it has been through already has no slash of its own."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._index = flow.index
        self._seen: set[cst.CSTNode] = set()

    def of(self, node: cst.CSTNode) -> bool | None:
        if node in self._seen:
            return False
        self._seen.add(node)
        if isinstance(node, cst.SimpleString):
            return "/" in str(node.evaluated_value)
        if isinstance(node, cst.FormattedStringText):
            return "/" in node.value
        if isinstance(node, cst.FormattedStringExpression):
            return self.of(node.expression)
        if isinstance(node, (cst.FormattedString, cst.ConcatenatedString)):
            return _any(self.of(part) for part in children(node))
        if isinstance(node, cst.BinaryOperation):
            return self._operation(node)
        if isinstance(node, cst.Call):
            made = self._call(node)
            return self._elsewhere(node) if made is False else made
        if isinstance(node, cst.IfExp):
            return _each([self.of(node.body), self.of(node.orelse)])
        return self._index.qualified(node) == "os.sep" or self._elsewhere(node)

    def _operation(self, node: cst.BinaryOperation) -> bool | None:
        if isinstance(node.operator, cst.Divide):
            paths = [part for part in (node.left, node.right) if self._is_path(part)]
            return self._joined([node.left, node.right], dots=False) if paths else False
        if isinstance(node.operator, cst.Modulo):
            return self.of(node.left)
        return _any([self.of(node.left), self.of(node.right)]) if isinstance(node.operator, cst.Add) else False

    def _call(self, call: cst.Call) -> bool | None:
        name, held, given = self._index.qualified(call.func), receiver(call), [arg.value for arg in call.args]
        if name in _WHOLE:
            return True
        if name == JOIN or name in PATHS:
            joined = self._joined(given, dots=name == JOIN)
            return None if joined is False and any(arg.star for arg in call.args) else joined
        if name in SAME:
            return self.of(given[0]) if given else False
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        if held is None:
            return False
        if method in ("absolute", "resolve") and self._is_path(held):
            return True
        if method == "joinpath" and self._is_path(held):
            return self._joined([held, *given], dots=False)
        if method == "join" and self.of(held):
            parts = given[0] if given else None
            several = isinstance(parts, (cst.List, cst.Tuple)) and len(parts.elements) > 1
            return True if several else None
        return self.of(held) if method in ("as_posix", "format", "lower", "upper") else False

    def _joined(self, parts: Sequence[cst.BaseExpression], dots: bool) -> bool | None:
        """Return it of parts that are joined, where a part that is a dot alone stays one or not."""
        if len(parts) < 2:
            return self.of(parts[0]) if parts else False
        texts = [self._text(part) for part in parts]
        if not dots:
            texts = ["" if text == "." else text for text in texts]
        named = [number for number, text in enumerate(texts) if text]
        within = _any(self.of(part) for part in parts)
        # `os.path.join("runs", "")` is "runs/", and `Path("runs", "")` is "runs".
        sure = bool(named) and (named[0] < len(parts) - 1 if dots else len(named) > 1)
        maybe = None if None in texts else False
        return within or sure or maybe

    def _text(self, node: cst.BaseExpression) -> str | None:
        """Return the text that a part is, None where nobody knows."""
        made = [origin.node for origin in self._flow.origins(node, self._index.scope_of(node)) if origin.item is None]
        one = made[0] if len(made) == 1 else node
        if isinstance(one, cst.Call) and self._index.qualified(one.func) in PATHS | SAME and len(one.args) == 1:
            one = one.args[0].value
        value = one.evaluated_value if isinstance(one, (cst.SimpleString, cst.ConcatenatedString)) else None
        return value if isinstance(value, str) else None

    def _is_path(self, node: cst.BaseExpression) -> bool:
        """Whether a value is a path of `pathlib`."""
        for origin in self._flow.origins(node, self._index.scope_of(node)):
            made: cst.BaseExpression | None = origin.node
            while isinstance(made, cst.BinaryOperation):
                made = made.left
            while isinstance(made, cst.Call) and self._index.qualified(made.func) not in PATHS | _WHOLE:
                made = receiver(made)
            if isinstance(made, cst.Call) or (made is not None and made is not origin.node and self._is_path(made)):
                return True
        return False

    def _elsewhere(self, node: cst.CSTNode) -> bool | None:
        """Return it of what makes the value of a name or call elsewhere, or adds to it."""
        if not isinstance(node, (cst.Name, cst.Attribute, cst.Call)):
            return False
        scope, name = self._index.scope_of(node), dotted(node)
        made = [origin for origin in self._flow.origins(node, scope) if origin.node is not node]
        values = [False if one.item is not None else self.of(one.node) for one in made]
        function = self._flow.called(node) if isinstance(node, cst.Call) else None
        values += [self.of(value) for value in self._index.returned(function)] if function is not None else []
        own = _each(values)
        added = [
            self.of(one.value)
            for one in (self._index.nodes_of(cst.AugAssign) if name else ())
            if dotted(one.target) == name and self._index.scope_of(one) is scope
        ]
        return True if own else None if own is None or any(part is not False for part in added) else False


def _any(found: Iterable[bool | None]) -> bool | None:
    """Return whether some part surely has one, None where some part may have one."""
    parts = [*found]
    return True if True in parts else None if None in parts else False


def _each(found: Sequence[bool | None]) -> bool | None:
    """Return whether each of several possible values has one, None where only some may."""
    if not found:
        return False
    return True if all(found) else None if any(part is not False for part in found) else False
