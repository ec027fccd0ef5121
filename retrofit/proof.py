"""Prove a rewritten file before it is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from retrofit.edits import Edit
from retrofit.errors import EngineError
from retrofit.source import split_lines
from retrofit.survey.index import Index


def prove(index: Index, edits: Sequence[Edit], text: str) -> None:
    """Check that a rewriting is sound.

    It must compile, and hold every line outside the edited statements, in order. Blank lines before a removed
    statement may go.

    Args:
        index: the file before.
        edits: what was applied to it.
        text: the file after.

    Raises:
        EngineError: it is not; nothing may be written.
    """
    name = index.source.shown
    if not _compiles(text, name):
        raise EngineError(f"{name}: the rewritten file does not compile")
    kept = _untouched_lines(index, edits)
    if not _in_order(kept, split_lines(text)):
        raise EngineError(f"{name}: the rewriting changes lines that it was not asked to change")


def _compiles(text: str, name: str) -> bool:
    try:
        compile(text, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def _untouched_lines(index: Index, edits: Sequence[Edit]) -> list[str]:
    lines = split_lines(index.source.text)
    touched: set[int] = set()
    for edit in edits:
        if edit.kind in ("replace", "guard", "remove", "set-keyword"):
            first, last = index.source.lines(edit.node)
            touched.update(range(first, last + 1))
            while edit.kind == "remove" and first > 1 and not lines[first - 2].strip():
                first -= 1
                touched.add(first)
    return [line for number, line in enumerate(lines, start=1) if number not in touched]


def _in_order(wanted: Iterable[str], lines: Iterable[str]) -> bool:
    rest = iter(lines)
    return all(any(line == other for other in rest) for line in wanted)
