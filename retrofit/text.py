"""The text of a Python file, and whether Python can read it; light enough for files that nobody parses further."""

from __future__ import annotations

import codecs
import re
import tokenize
import warnings
from io import BytesIO

from retrofit.errors import Problem, UserError

TOO_DEEP = "is nested too deeply to be parsed. Nothing was changed."
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
            return Problem(shown, error.lineno or 1, error.offset or 1, "RF004", TOO_DEEP)
        line = error.lineno or 1
        hint = _hint(text, line)
        message = f"is not Python 3 that can be parsed here{hint}: {error.msg}. Fix it first; nothing was changed."
        return Problem(shown, line, error.offset or 1, "RF004", message)
    except (RecursionError, MemoryError):
        return Problem(shown, 1, 1, "RF004", TOO_DEEP)
    except ValueError as error:
        return Problem(shown, 1, 1, "RF004", f"cannot be parsed: {error}.")
    return None


def _hint(text: str, line: int) -> str:
    lines = split_lines(text)
    shown = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    if shown.startswith(("print ", "exec ")) or (shown.startswith("except ") and "," in shown):
        return " (it looks like Python 2)"
    if re.search(r"\basync\s*=[^=]", shown):
        return " (`async` became a keyword with Python 3.7, and torch's argument is `non_blocking=True` now)"
    return ""
