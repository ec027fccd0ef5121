"""Numbers and lists in words, and text that is safe to print on a line."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

_BIDIRECTIONAL = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})


def visible(text: str) -> str:
    """Return a text with a picture for each control character, which could change or hide what a terminal shows."""
    return text if text.isprintable() else "".join(map(_picture, text))


def _picture(character: str) -> str:
    if character < " ":
        return chr(0x2400 + ord(character))
    hidden = unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
    return "\ufffd" if hidden or unicodedata.bidirectional(character) in _BIDIRECTIONAL else character


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun; the plural ends in s where no other is given."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def listed(words: Iterable[object]) -> str:
    """Return words as a sentence lists them, with `and` before the last."""
    *head, last = map(str, words)
    return f"{', '.join(head)} and {last}" if head else last


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """Return a question, with a space before it, whether a known word was meant; "" where none is like ``word``."""
    import difflib

    words = {one.lower(): one for one in known}
    found = difflib.get_close_matches(word.lower(), words, 1)
    return f" Did you mean {words[found[0]]}?" if found else ""
