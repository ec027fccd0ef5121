"""Where a command's words go: what was asked for to stdout, all else to stderr, as loud and as coloured as chosen."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import TextIO

from retrofit.errors import Problem
from retrofit.layout import View
from retrofit.progress import Progress

QUIET, NORMAL, VERBOSE = -1, 0, 1


class Console:
    """The two streams of a command.

    Attributes:
        level: how much is said, QUIET, NORMAL or VERBOSE.
        color: "auto", "always" or "never".
        insisted: whether the command line itself asks for colours.
    """

    def __init__(self) -> None:
        self.level = NORMAL
        self.color = chosen_color(None, None, os.environ)
        self.insisted = False
        self._progress: Progress | None = None

    @property
    def out(self) -> View:
        """How text on stdout is laid out."""
        return self._view(sys.stdout)

    @property
    def patch(self) -> View:
        """How a diff on stdout is shown: a pipe gets it as `git apply` takes it, though FORCE_COLOR is set for all."""
        return self.out if self.insisted or is_terminal(sys.stdout) else View()

    @property
    def err(self) -> View:
        """How text on stderr is laid out."""
        return self._view(sys.stderr)

    @property
    def quiet(self) -> bool:
        """Whether only errors, questions and what was asked for are printed."""
        return self.level <= QUIET

    @property
    def verbose(self) -> bool:
        """Whether reasons and times are printed too."""
        return self.level >= VERBOSE

    def _view(self, stream: TextIO) -> View:
        terminal = is_terminal(stream)
        color = self.color == "always" or (self.color == "auto" and terminal and os.environ.get("TERM") != "dumb")
        return View(columns_of(stream) if terminal else None, color)

    def result(self, text: str | bytes, nl: bool = True) -> None:
        """Print what was asked for."""
        self._put(text, nl, False)

    def tell(self, text: str) -> None:
        """Print what happened, unless nobody wants to know."""
        if not self.quiet:
            self._put(text, True, False)

    def remark(self, text: str) -> None:
        """Print something to know, unless nobody wants to, beside the output."""
        if not self.quiet:
            self.complain(text)

    def detail(self, text: str) -> None:
        """Print what only a curious user wants to know, beside the output."""
        if self.verbose:
            self.complain(text)

    def problem(self, problem: Problem) -> None:
        """Print an error or a question."""
        self.complain(problem.shown(self.err.paint(problem.code, "red", bold=True)))

    def complain(self, text: str) -> None:
        """Print something beside the output."""
        self._put(self.err.wrap(text, hang="  "), True, True)

    def _put(self, text: str | bytes, nl: bool, err: bool) -> None:
        stream = sys.stderr if err else sys.stdout
        if stream is None:  # closed by the shell
            return
        with self._progress.held() if self._progress else nullcontext():
            if isinstance(text, bytes):
                stream.flush()
                stream.buffer.write(text)
            else:
                stream.write(text)
            stream.write("\n" if nl else "")
            stream.flush()

    @contextmanager
    def progress(self, shown: bool = True) -> Iterator[Progress]:
        """Yield what is told of each step; the line stands on stderr where that is a terminal.

        Args:
            shown: whether there may be a line, as there is none beside output for machines.
        """
        terminal = is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"
        line = shown and terminal and not self.quiet
        progress = Progress(_at_once if line else None, lambda: columns_of(sys.stderr))
        self._progress = progress
        try:
            with progress.ticking():
                yield progress
        finally:
            self._progress = None
        self.detail(progress.took())


def chosen_color(commanded: str | None, configured: str | None, environ: Mapping[str, str]) -> str:
    """Return "auto", "always" or "never".

    The command line comes first, then NO_COLOR (no-color.org) and FORCE_COLOR (force-color.org), which are the user's
    own words, then the project's.

    Args:
        commanded: the word of the command line, None for none.
        configured: that of pyproject.toml, None for none.
        environ: the environment variables.
    """
    told = "never" if environ.get("NO_COLOR") else "always" if environ.get("FORCE_COLOR") else ""
    if commanded and commanded != "auto":
        return commanded
    return told or ("" if commanded else configured) or "auto"


def is_terminal(stream: TextIO | None) -> bool:
    """Whether people read a stream."""
    return stream is not None and not stream.closed and stream.isatty()


def columns_of(stream: TextIO) -> int:
    """Return the width of a stream's terminal, or what COLUMNS says."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        return int(told)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _at_once(text: str) -> None:
    """Write to the terminal behind stderr, past a buffer that a signal may find half full."""
    with suppress(OSError, ValueError):
        os.write(sys.stderr.fileno(), text.encode(sys.stderr.encoding, errors="replace"))
