"""Prove a rewritten file before it is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from retrofit.edits import Edit
from retrofit.errors import EngineError
from retrofit.source import Source
from retrofit.text import split_lines


def prove(source: Source, edits: Sequence[Edit], text: str) -> None:
    """Check that a rewriting is sound.

    It must compile, and hold every line outside the edited statements, in order. Blank lines before a removed
    statement may go.

    Args:
        source: the file before.
        edits: what was applied to it.
        text: the file after.

    Raises:
        EngineError: it is not; nothing may be written.
    """
    name = source.shown
    if not _compiles(text, name):
        raise EngineError(f"{name}: the rewritten file does not compile")
    kept = _untouched_lines(source, edits)
    if not _in_order(kept, split_lines(text)):
        raise EngineError(f"{name}: the rewriting changes lines that it was not asked to change")


def _compiles(text: str, name: str) -> bool:
    try:
        compile(text, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def _untouched_lines(source: Source, edits: Sequence[Edit]) -> list[str]:
    lines = split_lines(source.text)
    touched: set[int] = set()
    for edit in edits:
        if edit.kind in ("replace", "guard", "remove", "set-keyword"):
            first, last = source.lines(edit.node)[0], source.lines(edit.last or edit.node)[1]
            touched.update(range(first, last + 1))
            while edit.kind == "remove" and first > 1 and not lines[first - 2].strip():
                first -= 1
                touched.add(first)
    return [line for number, line in enumerate(lines, start=1) if number not in touched]


def _in_order(wanted: Iterable[str], lines: Iterable[str]) -> bool:
    rest = iter(lines)
    return all(any(line == other for other in rest) for line in wanted)
