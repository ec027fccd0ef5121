"""What the formats share: text that is safe to print on a line, and numbers in words."""

from __future__ import annotations

import unicodedata

_BIDIRECTIONAL = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})


def visible(text: str) -> str:
    """Return a text with a picture for each control character, which could change or hide what a terminal shows."""
    return text if text.isprintable() else "".join(map(_picture, text))


def _picture(character: str) -> str:
    if character < " ":
        return chr(0x2400 + ord(character))
    hidden = unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
    return "\ufffd" if hidden or unicodedata.bidirectional(character) in _BIDIRECTIONAL else character


def width(character: str) -> int:
    """Return how many columns of a terminal a character takes."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun; the plural ends in s where no other is given."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def listed(parts: list[str]) -> str:
    """Return an enumeration, with `and` before its last part."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
