"""Where in a file a finding stands."""

from __future__ import annotations

from typing import TypedDict

from retrofit.source import Source
from retrofit.text import split_lines

_LONGEST_EXCERPT = 5


class Located(TypedDict):
    """The part of a finding that tells its place."""

    line: int
    column: int
    end_line: int
    end_column: int
    excerpt: tuple[str, ...]


def located(source: Source, first: int, last: int) -> Located:
    """Return the place of a stretch of a file's text, given by its offsets."""
    line, column = source.place(first)
    end_line, end_column = source.place(last)
    excerpt = tuple(split_lines(source.text)[line - 1 : end_line][:_LONGEST_EXCERPT])
    return Located(line=line, column=column, end_line=end_line, end_column=end_column, excerpt=excerpt)
