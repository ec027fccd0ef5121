"""The text of a Python file, and whether Python can read it; light enough for files that nobody parses further."""

from __future__ import annotations

import ast
import codecs
import contextlib
import re
import sys
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from io import BytesIO, StringIO
from itertools import accumulate

from retrofit.errors import Problem, UserError

#: Code of people is not nested more deeply than this, in nodes of Python's own tree.
_DEEP = 80
#: What a statement may have of tokens, or be nested, and still be worked with.
_MUCH = 800
#: How long a line may be for its nesting to be no deeper than LibCST can parse.
_LONG = 4000
NEWLINE = re.compile(r"\r\n?|\n")


def decode(data: bytes, shown: str) -> tuple[str, str]:
    """Return a file's text without its byte order mark, and its encoding.

    Args:
        data: the file's bytes.
        shown: how messages name it.

    Raises:
        UserError: the bytes are no text in the declared encoding.
    """
    if b"\0" in data:
        raise UserError(Problem(shown, 0, 0, "RF003", "is not a text file."))
    try:
        encoding = tokenize.detect_encoding(BytesIO(data).readline)[0].replace("utf-8-sig", "utf-8")
        return data.removeprefix(codecs.BOM_UTF8).decode(encoding), encoding
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        message = f"cannot be decoded: {error}. Save the file as UTF-8 or declare its encoding."
        raise UserError(Problem(shown, 1, 1, "RF003", message)) from None


def split_lines(text: str) -> list[str]:
    """Split text at the line ends that Python knows, unlike `str.splitlines`, which also splits at form feeds."""
    return NEWLINE.split(text)


def whole_lines(text: str) -> list[str]:
    """Split text as `split_lines` does, each line with its end; no empty one comes after the last end."""
    ends = [match.end() for match in NEWLINE.finditer(text)]
    lines = [text[first:last] for first, last in zip([0, *ends], [*ends, len(text)], strict=True)]
    return lines if lines[-1] else lines[:-1]


def comments(text: str) -> Iterator[tokenize.TokenInfo]:
    """Yield the comments of a Python file's text, in their order."""
    if "#" in text:
        lines = StringIO(NEWLINE.sub("\n", text))
        yield from (token for token in tokenize.generate_tokens(lines.readline) if token.type == tokenize.COMMENT)


@lru_cache(maxsize=8)  # one file after the other is asked about, each several times
def parsed(text: str | bytes) -> ast.Module:
    """Return Python's own tree of a text, which is not to be changed, without its warnings about it.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: Python cannot parse it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


@lru_cache(maxsize=8)
def nodes_of(tree: ast.AST) -> Sequence[ast.AST]:
    """Return all nodes of a tree that `parsed` gives, in the order of `ast.walk`, at a fraction of what that takes.

    They are kept as the trees are, of which a dozen questions each go through all.
    """
    found = [tree]
    for node in found:
        for name in node._fields:
            value = getattr(node, name, None)
            if value.__class__ is list:
                found += [one for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found


def tree_of(text: str | bytes) -> ast.Module | None:
    """Return Python's own tree of a text, None where it cannot parse it."""
    try:
        return parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def syntax_fault(text: str, shown: str) -> Problem | None:
    """Return what Python itself says against a text, None where it compiles.

    It knows the place better than LibCST does, refuses what LibCST lets pass, such as a `return` outside a function,
    and survives nesting at which LibCST's parser overruns its stack.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, shown, "exec", dont_inherit=True)
    except SyntaxError as error:
        if "too many nested" in error.msg:
            return replace(too_deep(text, shown), line=error.lineno or 1, column=error.offset or 1)
        line = error.lineno or 1
        hint, cure = _hint(text, line), "Fix it first"
        if not hint and _is_newer(text):
            hint = f", but of a newer one than the {sys.version_info[0]}.{sys.version_info[1]} that runs retrofit"
            cure = "Run retrofit by the Python that the script is written for"
        message = f"is not Python 3 that can be parsed here{hint}: {error.msg}. {cure}; nothing was changed."
        return Problem(shown, line, error.offset or 1, "RF004", message)
    except (RecursionError, MemoryError):
        return too_deep(text, shown)
    except ValueError as error:
        return Problem(shown, 1, 1, "RF004", f"cannot be parsed: {error}.")
    return None


def _is_newer(text: str) -> bool:
    """Whether a text that Python cannot parse is of a later release, as LibCST knows the syntax of all."""
    import libcst  # imported here: most files can be parsed

    depths = accumulate({"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(letter, 0) for letter in text)
    if max(depths, default=0) > _DEEP or max(map(len, split_lines(text)), default=0) > _LONG:
        return False  # where it would overrun its stack, perhaps
    with contextlib.suppress(SyntaxError):
        ast.parse(text)
        return False  # but it means nothing, as a `return` outside of a function
    with contextlib.suppress(libcst.ParserSyntaxError, RecursionError):
        libcst.parse_module(text)
        return True
    return False


def too_deep(text: str, shown: str, task: str = "parsed") -> Problem:
    """Return the problem of a text that is nested more deeply than can be worked with, at the code that is so."""
    _, line, column = deepest(text)
    return Problem(shown, line, column, "RF004", f"is nested too deeply to be {task}. Nothing was changed.")


def is_deep(text: str) -> bool:
    """Whether a text is nested so deeply, or says so much in one statement, that working with it may fail."""
    return deepest(text)[0] > _MUCH


def deepest(text: str) -> tuple[int, int, int]:
    """Return how deeply a text is nested, and the line and column of the code that is so most.

    Where Python itself cannot take that in, or it is not so deep, it is the statement of the most tokens, and how many.
    """
    most = (0, 1, 1)
    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        waiting: list[tuple[ast.AST, int]] = [(parsed(text), 0)]
        while waiting:
            node, depth = waiting.pop()
            if depth > most[0] and isinstance(node, (ast.stmt, ast.expr)):
                most = (depth, node.lineno, node.col_offset + 1)
            waiting += [(child, depth + 1) for child in ast.iter_child_nodes(node)]
    return most if most[0] > _DEEP else max(_statements(text), default=most)


def _statements(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield for each logical line how many tokens it has, and the line and column where it begins."""
    tokens, begin = 0, (1, 0)
    with contextlib.suppress(SyntaxError, tokenize.TokenError):
        for token in tokenize.generate_tokens(StringIO(text).readline):
            begin = begin if tokens else token.start
            tokens = tokens + 1 if token.type != tokenize.NEWLINE else 0
            yield tokens, begin[0], begin[1] + 1


def _hint(text: str, line: int) -> str:
    lines = split_lines(text)
    shown = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    if shown.startswith(("print ", "exec ")) or (shown.startswith("except ") and "," in shown):
        return " (it looks like Python 2)"
    if re.search(r"\basync\s*=[^=]", shown):
        return " (`async` became a keyword with Python 3.7, and torch's argument is `non_blocking=True` now)"
    return ""
