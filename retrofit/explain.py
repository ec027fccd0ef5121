"""Diffs for people: coloured, and with the rules behind each hunk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from retrofit.edits import Edit
from retrofit.layout import PLAIN, View
from retrofit.plan import Plan
from retrofit.report import diff
from retrofit.rewrite import placed
from retrofit.survey.scopes import File
from retrofit.write.new import NewFile

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? ")
#: The lines that a hunk shows around what changes.
_CONTEXT = 3
#: Part of a file, from the one line end up to the other; where both are the same, the place between two lines.
_Span = tuple[int, int]
_COLORS = {b"-": "red", b"+": "green", b"@": "cyan"}


def colored(data: bytes, view: View) -> bytes:
    """Return a unified diff in colours, where the view has any.

    Args:
        data: the diff of one file, or a part of it, as `retrofit.report.diff` returns it.
        view: how it is shown.
    """
    if not view.color:
        return data
    head, *hunks = (part.split(b"\n") for part in _hunks(data))
    lines = [_painted(line, view, bold=True) for line in head[:-1]] + head[-1:]
    for hunk in hunks:
        lines[-1:] = [_painted(line, view, _COLORS.get(line[:1], "")) for line in hunk]
    return b"\n".join(lines)


def _painted(line: bytes, view: View, color: str = "", bold: bool = False) -> bytes:
    if not (color or bold):
        return line
    before, after = view.paint("\0", color, bold).encode().split(b"\0")
    text = line.removesuffix(b"\r")
    return before + text + after + line[len(text) :]


def explained(plan: Plan, names: Mapping[Path, str], titles: Mapping[str, str], view: View = PLAIN) -> str:
    """Return the diff of the user's own files, before each hunk the codes and titles of the rules that made it.

    Args:
        plan: what an apply would do to a script.
        names: how the diff names files, by their paths.
        titles: the rules' titles by their codes.
        view: how it is shown.

    Returns:
        The text, without a last line end; "" where no file of the user's own changes. Files that the recipe adds are
        left out.
    """
    files = {file.source.path: file for file in plan.script.index.files}
    parts = []
    for new in plan.files:
        if new.path in files:
            parts.append(_explained(new, plan, files[new.path], names[new.path], titles, view))
    return "\n".join(parts)


def edits_text(plan: Plan, titles: Mapping[str, str], view: View = PLAIN) -> str:
    """Return a line for each change of the user's own files: where, and the rule behind it.

    Args:
        plan: what an apply would do to a script.
        titles: the rules' titles by their codes.
        view: how it is shown.
    """
    rows = []
    for file in plan.script.index.files:
        places = sorted((place[0] + 1, code) for code, place in _places(plan, file))
        rows += [(f"{file.source.shown}:{line}", code, titles[code]) for line, code in dict.fromkeys(places)]
    return view.table(rows)


def _edits(plan: Plan, file: File) -> list[Edit]:
    index = plan.script.index
    return placed(index, [edit for edit in plan.edits if index.file(edit.node) is file], file)


def _places(plan: Plan, file: File) -> list[tuple[str, _Span]]:
    """Return the rules behind a file's changes, each with what it changes of the old file."""
    first = [(code, (begin - 1, last)) for path, code, begin, last in plan.adopted.edits if path == file.source.path]
    return [*first, *((edit.code, _place(edit, file)) for edit in _edits(plan, file))]


def _explained(new: NewFile, plan: Plan, file: File, name: str, titles: Mapping[str, str], view: View) -> str:
    head, *hunks = _hunks(diff(new, name))
    makers = _makers(hunks, _places(plan, file))
    parts = []
    for data, codes in zip((head, *hunks), ([], *makers), strict=True):
        parts += [view.wrap(f"{view.paint(code, bold=True)} {titles[code]}", hang="  ") + "\n" for code in codes]
        parts.append(colored(data, view).decode(file.source.encoding, errors="backslashreplace"))
    return "".join(parts).removesuffix("\n")


def _hunks(data: bytes) -> list[bytes]:
    """Return the head of a file's diff, then each of its hunks."""
    return re.split(rb"^(?=@@ -)", data, flags=re.MULTILINE)


def _changes(hunk: bytes) -> Iterator[_Span]:
    """Yield what a hunk changes of the old file."""
    head, *lines = hunk.removesuffix(b"\n").split(b"\n")
    match = _HUNK.match(head)
    assert match is not None
    end = int(match[1]) - (match[2] != b"0")  # the number of the line before, but of the line itself for an empty range
    for line in lines:
        if line[:1] == b"+":
            yield end, end
        elif line[:1] == b"-":
            yield end, end + 1
        end += line[:1] in (b"-", b" ")


def _place(edit: Edit, file: File) -> _Span:
    """Return what an edit changes of the old file."""
    first, last = (
        file.source.told(line)
        for line in (file.source.lines(edit.node)[0], file.source.lines(edit.last or edit.node)[1])
    )
    if edit.kind == "insert-before":
        return first - 1, first - 1
    return (last, last) if edit.kind == "insert-after" else (first - 1, last)


def _makers(hunks: Sequence[bytes], edits: Sequence[tuple[str, _Span]]) -> list[list[str]]:
    """Return for each hunk the codes of the rules whose edits made it, in their order."""
    changes = [list(_changes(hunk)) for hunk in hunks]
    found: list[list[str]] = [[] for _ in hunks]
    for code, place in edits:
        distances = [min(_distance(place, change) for change in spans) for spans in changes]
        # A diff may show new lines a little off where equal ones stand beside them.
        nearest = min(distances, default=_CONTEXT + 1)
        if nearest <= _CONTEXT:
            for codes, distance in zip(found, distances, strict=True):
                codes += [code] if distance == nearest and code not in codes else []
    return found


def _distance(one: _Span, other: _Span) -> int:
    return max(0, one[0] - other[1], other[0] - one[1])
