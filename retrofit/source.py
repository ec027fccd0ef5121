"""One source file: its bytes, its LibCST tree, and where each node stands in the text."""

from __future__ import annotations

import bisect
import codecs
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from pathlib import Path

import libcst as cst
from libcst._nodes.internal import CodegenState

from retrofit.errors import Problem, UserError
from retrofit.reading import DEFAULT_MEGABYTES, read_file, size_fault
from retrofit.text import NEWLINE, decode, split_lines, syntax_fault, too_deep


class _PositionState(CodegenState):
    """Notes at which token each node begins and ends while LibCST writes the module out.

    LibCST's PositionProvider updates a line and column at every token, which costs twice the parse; the token's number
    is enough to work out any position later. tests/test_source.py holds the result against PositionProvider. An
    expression's span includes the parentheses around it, so that its text can stand anywhere.
    """

    def __init__(self, module: cst.Module) -> None:
        super().__init__(default_indent=module.default_indent, default_newline=module.default_newline)
        self.spans: dict[cst.CSTNode, tuple[int, int]] = {}
        self._starts: list[int] = []

    def before_codegen(self, node: cst.CSTNode) -> None:
        self._starts.append(len(self.tokens))

    def after_codegen(self, node: cst.CSTNode) -> None:
        start = self._starts.pop()
        if node not in self.spans or isinstance(node, cst.BaseExpression):
            self.spans[node] = (start, len(self.tokens))

    def record_syntactic_position(  # type: ignore[override]
        self,
        node: cst.CSTNode,
        *,
        start_node: cst.CSTNode | None = None,
        end_node: cst.CSTNode | None = None,
    ) -> AbstractContextManager[None]:
        return _Recording(self, node, start_node, end_node)


class _Recording:
    """Notes a node's span when what is in it was written; one is made for each node, so it is no generator."""

    __slots__ = ("_end", "_first", "_node", "_start", "_state")

    def __init__(
        self, state: _PositionState, node: cst.CSTNode, start: cst.CSTNode | None, end: cst.CSTNode | None
    ) -> None:
        self._state, self._node, self._start, self._end = state, node, start, end

    def __enter__(self) -> None:
        self._first = len(self._state.tokens)

    def __exit__(self, failed: object, *_: object) -> None:
        if failed is not None:
            return  # what is nested too deeply has no end yet
        spans = self._state.spans
        first = self._first if self._start is None else spans[self._start][0]
        spans[self._node] = (first, len(self._state.tokens) if self._end is None else spans[self._end][1])


@lru_cache(maxsize=8)
def _parsed(path: Path, text: str, shown: str) -> tuple[cst.Module, dict[cst.CSTNode, tuple[int, int]], list[str]]:
    """Return a file's tree, at which of its tokens each node begins and ends, and the tokens.

    Kept for a file that is read again as it is: after it was proven, or by the next of several scripts. Two files with
    the same text have a tree each, as a node tells its file.
    """
    fault = syntax_fault(text, shown)
    if fault is not None:
        raise UserError(fault)
    module = cst.parse_module(text)
    state = _PositionState(module)
    module._codegen(state)
    return module, state.spans, state.tokens


#: A string of one word, which may be a key or a name; all others are for people to read.
_WORD = re.compile(r"""([A-Za-z]*)(["']{3}|["'])([^\s\\"']*)\2""")
_NAME = re.compile(r"\w+")
_TEXTS = (cst.SimpleString, cst.ConcatenatedString)
_QUOTE = re.compile(r"""([A-Za-z]*)(["']{3}|["'])""")


def _meaning(token: str) -> str:
    """Return a token as questions read it: no comment, and strings with one kind of quotes and but one word in them."""
    if token.startswith("#"):
        return ""
    if not token.endswith(("'", '"')):
        return token
    word = _WORD.fullmatch(token)
    quote = None if word else _QUOTE.fullmatch(token)  # where an f-string begins or ends
    return f"{word[1]}'{word[3]}'" if word else f"{quote[1]}'" if quote else "''"


class Source:
    """A Python file as read from disk.

    Args:
        path: where the file is.
        data: its bytes.
        shown: how messages name the file.

    Raises:
        UserError: the bytes are no text in the declared encoding, or no Python that LibCST can parse.
    """

    def __init__(self, path: Path, data: bytes, shown: str) -> None:
        self.path = path
        self.data = data
        self.shown = shown
        self.bom = data.startswith(codecs.BOM_UTF8)
        self.text, self.encoding = decode(data, shown)
        try:
            self.module, self._tokens, tokens = _parsed(path, self.text, shown)
        except cst.ParserSyntaxError as error:
            message = "is Python, but not of a kind that can be parsed here. Nothing was changed."
            raise UserError(Problem(shown, error.raw_line, error.raw_column + 1, "RF004", message)) from None
        except RecursionError:
            raise UserError(too_deep(self.text, shown)) from None
        written = "".join(tokens)
        if written != self.text:
            raise UserError(
                Problem(
                    shown,
                    _first_difference(self.text, written),
                    1,
                    "RF005",
                    "holds white space that cannot be kept byte for byte (a form feed, mixed line ends, or spaces that "
                    "end the file). "
                    "Remove it and run again.",
                )
            )
        self._offsets = [0, *accumulate(map(len, tokens))]
        self._end = len(self._offsets) - 1
        self._told: Mapping[int, int] = {}

    def shows(self, path: Path) -> str:
        """Return how messages name another file of the project: as they name this one."""
        beside = os.path.relpath(path, self.path.parent)
        return os.path.normpath(os.path.join(os.path.dirname(self.shown), beside))

    def relaid(self, text: str, lines: Mapping[int, int]) -> Source:
        """Return the file with another text, of which messages speak as if it were this one.

        Args:
            text: the text.
            lines: the lines of it that have other numbers in messages.
        """
        source = Source(self.path, self.encode(text), self.shown)
        source.data, source._told = self.data, lines
        return source

    def told(self, line: int) -> int:
        """Return the number by which messages name a line."""
        return self._told.get(line, line)

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in NEWLINE.finditer(self.text))]

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return the first and last offset of ``node`` in the text, without its surrounding white space."""
        first, last = self._tokens[node]
        # Without a last line end, LibCST takes its token back.
        return self._offsets[min(first, self._end)], self._offsets[min(last, self._end)]

    def holds(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is one of this file."""
        return node in self._tokens

    def file(self, node: cst.CSTNode) -> Source:
        """Return the file that ``node`` stands in: this one."""
        return self

    def code(self, node: cst.CSTNode) -> str:
        """Return the text of ``node`` exactly as it stands in the file."""
        first, last = self.span(node)
        return self.text[first:last]

    @cached_property
    def _read(self) -> tuple[str, list[int]]:
        """The text as questions read it, and at which of its offsets each token begins."""
        tokens = [_meaning(self.text[a:b]) for a, b in pairwise(self._offsets)]
        for node, (first, last) in self._tokens.items():
            kind = type(node)
            told = kind is cst.FormattedStringText and re.search(r"\s", node.value)  # type: ignore[attr-defined]
            if told or (kind is cst.Expr and type(node.value) in _TEXTS):  # type: ignore[attr-defined]
                tokens[first:last] = [""] * (last - first)
        return "".join(tokens), [0, *accumulate(map(len, tokens))]

    def read(self, node: cst.CSTNode | None = None) -> str:
        """Return code as questions about it read it: without comments, documentation, and what its strings tell people.

        Args:
            node: whose code, None for the whole file's.
        """
        text, offsets = self._read
        first, last = self._tokens[node] if node is not None else (0, self._end)
        return text[offsets[min(first, self._end)] : offsets[min(last, self._end)]]

    def words(self, node: cst.CSTNode | None = None) -> frozenset[str]:
        """Return the names in code, and the parts of its strings of one word; see `read`."""
        return self._words if node is None else frozenset(_NAME.findall(self.read(node)))

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(_NAME.findall(self.read()))

    def position(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return the 1-based line and column of ``node``."""
        return self.place(self.span(node)[0])

    def place(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line and column of an offset in the text."""
        line = bisect.bisect_right(self._line_starts, offset)
        return self.told(line), offset - self._line_starts[line - 1] + 1

    def column(self, offset: int) -> int:
        """Return the 1-based column of an offset in the text."""
        return self.place(offset)[1]

    def lines(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return the first and last 1-based line of ``node``."""
        first, last = self.span(node)
        return bisect.bisect_right(self._line_starts, first), bisect.bisect_right(
            self._line_starts, max(first, last - 1)
        )

    def encode(self, text: str) -> bytes:
        """Return ``text`` as bytes in this file's encoding, with its byte order mark where it has one."""
        return (codecs.BOM_UTF8 if self.bom else b"") + text.encode(self.encoding)


class Sources:
    """Several files of one project that are read as one text, so that a node's place tells its file as well.

    Args:
        files: the files, the entry script first.
    """

    def __init__(self, files: Sequence[Source]) -> None:
        self.files = files
        self._last, self._numbers = 0, dict[cst.CSTNode, int]()  # the latter of what several files were asked for
        self._bases = [0]
        for file in files:
            self._bases.append(self._bases[-1] + len(file.text) + 1)

    @cached_property
    def text(self) -> str:
        """The texts of all files, one after the other."""
        return "\n".join(file.text for file in self.files)

    @property
    def path(self) -> Path:
        """Where the entry script is."""
        return self.files[0].path

    @property
    def shown(self) -> str:
        """How messages name the entry script."""
        return self.files[0].shown

    @property
    def module(self) -> cst.Module:
        """The tree of the entry script."""
        return self.files[0].module

    def _number(self, node: cst.CSTNode) -> int:
        if not self.files[self._last].holds(node):  # mostly one asks of the same file again, or of the next one
            if node not in self._numbers:
                numbers = (*range(self._last + 1, len(self.files)), *range(self._last))
                self._numbers[node] = next(number for number in numbers if self.files[number].holds(node))
            self._last = self._numbers[node]
        return self._last

    def file(self, node: cst.CSTNode) -> Source:
        """Return the file that ``node`` stands in."""
        return self.files[self._number(node)]

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return the first and last offset of ``node`` in the joint text."""
        number = self._number(node)
        first, last = self.files[number].span(node)
        return first + self._bases[number], last + self._bases[number]

    def code(self, node: cst.CSTNode) -> str:
        """Return the text of ``node`` exactly as it stands in its file."""
        return self.file(node).code(node)

    def read(self, node: cst.CSTNode | None = None) -> str:
        """Return code as questions about it read it; see `Source.read`."""
        return "\n".join(file.read() for file in self.files) if node is None else self.file(node).read(node)

    def words(self, node: cst.CSTNode | None = None) -> frozenset[str]:
        """Return the names in code, and the parts of its strings of one word; see `read`."""
        return self._words if node is None else self.file(node).words(node)

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset[str]().union(*(file.words() for file in self.files))

    def position(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return the 1-based line and column of ``node`` in its file."""
        return self.file(node).position(node)

    def column(self, offset: int) -> int:
        """Return the 1-based column of an offset in the joint text."""
        number = bisect.bisect_right(self._bases, offset) - 1
        return self.files[number].column(offset - self._bases[number])

    def lines(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return the first and last 1-based line of ``node`` in its file."""
        return self.file(node).lines(node)


def read_source(
    path: Path, shown: str, pending: Mapping[Path, bytes] | None = None, megabytes: float = DEFAULT_MEGABYTES
) -> Source:
    """Read and parse one file.

    Args:
        path: where it is.
        shown: how messages name it.
        pending: what files are about to hold, by their real paths.
        megabytes: how large the file may be.

    Raises:
        UserError: no such file, a directory, unreadable, too large, or not parsable Python.
    """
    real = Path(os.path.realpath(path))
    try:
        data = pending[real] if pending and real in pending else read_file(path)
    except FileNotFoundError:
        raise UserError(Problem(shown, 0, 0, "RF001", "no such file. Give the path of the training script.")) from None
    except IsADirectoryError:
        raise UserError(
            Problem(
                shown,
                0,
                0,
                "RF002",
                "is a directory. Give the training script itself, for example train.py in it.",
            )
        ) from None
    except OSError as error:
        raise UserError(Problem(shown, 0, 0, "RF001", f"cannot be read: {error.strerror}.")) from None
    fault = size_fault(data, megabytes, shown)
    if fault is not None:
        raise UserError(fault)
    return Source(real, data, shown)


def _first_difference(left: str, right: str) -> int:
    for number, (a, b) in enumerate(zip(split_lines(left), split_lines(right), strict=False), start=1):
        if a != b:
            return number
    return 1
