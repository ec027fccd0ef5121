"""Write a call's arguments as a dict literal that keeps their lines and comments."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from retrofit.survey.index import Index


def dict_literal(
    index: Index, call: cst.CSTNode, bound: list[tuple[str, str]], prefix: str, extra: Sequence[tuple[str, str]] = ()
) -> str:
    """Return a call's arguments as a dict literal with their lines and comments kept.

    Args:
        index: the file.
        call: the call.
        bound: (name, code) of the arguments to keep, in order.
        prefix: what stands before the literal on its line, relative to the statement; continued lines
            that were aligned with the call's parenthesis are aligned with the brace.
        extra: pairs to add at the end.
    """
    source = index.source
    assert isinstance(call, cst.Call)
    kept = list(call.args)[len(call.args) - len(bound) :]
    pairs = [*zip(kept, bound, strict=True)]
    if any(
        source.code(arg.value) != code or (arg.keyword and arg.keyword.value != name) for arg, (name, code) in pairs
    ):
        return "{" + ", ".join(f"{name!r}: {code}" for name, code in [*bound, *extra]) + "}"
    pieces: list[str] = []
    end = source.span(call)[1] - 1
    start = source.span(call.func)[1] + 1
    here = start if kept and kept[0] is call.args[0] else (source.span(kept[0])[0] if kept else end)
    for arg, (name, _) in pairs:
        pieces.append(source.text[here : source.span(arg)[0]])
        pieces.append("**" if name == "**" else f"{name!r}: ")
        here, value_end = source.span(arg.value)
        pieces.append(source.text[here:value_end])
        here = value_end
    tail = source.text[here:end] if kept else ""
    text = "".join(pieces)
    for name, code in extra:
        text += f"{', ' if text else ''}{name!r}: {code}"
    return "{" + _realign(text + tail, index, call, prefix, start) + "}"


def _realign(text: str, index: Index, call: cst.CSTNode, prefix: str, start: int) -> str:
    """Move continued lines with their statement: aligned ones with the brace, others with its first column."""
    lines = text.replace("\r\n", "\n").split("\n")
    if len(lines) == 1 or '"""' in text or "'''" in text:
        return text
    source = index.source
    indent = source.position(index.statement(call).node)[1] - 1
    shift = len(prefix) - len(prefix.lstrip()) - indent
    if lines[0].strip():
        shift = len(prefix) - (source.column(start) - 2)
    return "\n".join(
        [
            lines[0],
            *(" " * max(0, len(line) - len(line.lstrip()) + shift) + line.lstrip() for line in lines[1:]),
        ]
    )
