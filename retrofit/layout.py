"""Lay text out for whoever reads it: colours, lines broken between words, tables. For a pipe it stays as it is."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from click import style

_ESCAPE = re.compile(r"\x1b\[[\d;]*m")
#: What is never broken: code between backquotes with what sticks to it, and whatever else has no space in it.
_UNIT = re.compile(r"(?:`[^`\n]*`|\S)+")
#: A column of prose that would be narrower than this stands below the others.
_NARROWEST = 30
#: The colours of the words that say how grave something is.
_GRAVITY = {
    "error": "red",
    "failed": "red",
    "problem": "red",
    "warning": "yellow",
    "advice": "cyan",
    "open": "cyan",
    "ok": "green",
}


@dataclass(frozen=True)
class View:
    """How a text is shown.

    Attributes:
        width: the columns of the terminal, None where it is none: then no line is broken.
        color: whether there are colours.
    """

    width: int | None = None
    color: bool = False

    def paint(self, text: str, color: str = "", bold: bool = False) -> str:
        """Return a text in a colour, one of those that `click.style` knows."""
        return style(text, fg=color or None, bold=bold or None) if self.color and text else text

    def graded(self, text: str) -> str:
        """Return a word such as ``warning`` in its colour; white space around it does not count."""
        return self.paint(text, _GRAVITY.get(text.strip(), ""))

    def wrap(self, text: str, indent: str = "", hang: str = "") -> str:
        """Return a text whose lines are broken between words where they are too long.

        Words stay whole, and so does code between backquotes, even where that is wider than the terminal.

        Args:
            indent: stands before each line, in addition to white space that the line begins with.
            hang: stands, behind the indentation, before what a broken line goes on with.
        """
        return "\n".join(part for line in text.split("\n") for part in self._broken(line, indent, hang))

    def _broken(self, line: str, indent: str, hang: str) -> list[str]:
        whole = f"{indent}{line}" if line else ""
        if self.width is None or columns(whole) <= self.width:
            return [whole]
        indent += line[: len(line) - len(line.lstrip())]
        lines: list[str] = []
        current = ""
        for unit in _UNIT.findall(line):
            if current.strip() and columns(current) + 1 + columns(unit) > self.width:
                lines.append(current)
                current = ""
            begin = indent + hang if lines else indent
            current = f"{current} {unit}" if current else begin + unit
        return [*lines, current]

    def table(self, rows: Sequence[Sequence[str]], indent: str = "", below: Sequence[str] = ()) -> str:
        """Return rows in columns; the last cell of each is prose, which is broken where it is too long.

        Where a terminal leaves it too little room, it stands below the other cells of its row.

        Args:
            rows: all with the same number of cells.
            indent: stands before each line.
            below: for each row the lines that follow it, in the last column: sentences, and commands, which stay whole.
        """
        widths = [max(map(columns, column)) for column in zip(*rows, strict=True)][:-1]
        head = len(indent) + sum(widths) + 2 * len(widths)
        widest = max((columns(row[-1]) for row in rows), default=0)
        stacked = self.width is not None and self.width - head < min(_NARROWEST, widest)
        inner = indent + "    " if stacked else " " * head
        lines: list[str] = []
        for number, (*cells, last) in enumerate(rows):
            text = self.wrap(last, inner)
            if stacked:
                lines.append(self.wrap("  ".join(filter(None, cells)), indent, "  "))
                lines += [text] if last else []
            else:
                begin = "".join(cell + " " * (w - columns(cell) + 2) for cell, w in zip(cells, widths, strict=True))
                lines.append((indent + begin + text[head:]).rstrip())
            for line in below[number].splitlines() if below else ():
                lines.append(self.wrap(line, inner) if line.endswith(".") else inner + line)
        return "\n".join(lines)


#: As a pipe and a file get it.
PLAIN = View()


def columns(text: str) -> int:
    """Return how many columns of a terminal a text of one line takes."""
    bare = _ESCAPE.sub("", text)
    return len(bare) if bare.isascii() else sum(map(width, bare))


def width(character: str) -> int:
    """Return how many columns of a terminal a character takes."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
