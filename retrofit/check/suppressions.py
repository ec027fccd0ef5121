"""Comments that silence findings: `# noqa: DDP203` and `# retrofit: ignore[DDP203]`."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field

from retrofit.check.finding import Replacement
from retrofit.rules_folder import known_rules
from retrofit.text import split_lines

_NOQA = re.compile(r"#\s*noqa(?!\w)(?:\s*:\s*(?P<codes>[A-Za-z]+\d+(?:[,\s]+[A-Za-z]+\d+)*))?", re.IGNORECASE)
_IGNORE = re.compile(r"#\s*retrofit:\s*ignore(?!-?\w)(?:\[(?P<codes>[^\]]*)\])?", re.IGNORECASE)


@dataclass(eq=False)
class Suppression:
    """One comment that silences findings of its line.

    Attributes:
        line: 1-based.
        column: where the comment's own words begin, 1-based.
        text: the words, from `#` on.
        codes: what it names, in capitals; empty for everything.
        own: whether it is retrofit's own kind, and not `noqa`, which other tools read as well.
        used: the codes that have silenced something.
    """

    line: int
    column: int
    text: str
    codes: tuple[str, ...]
    own: bool
    used: set[str] = field(default_factory=set)

    def silences(self, code: str) -> bool:
        """Whether it silences a rule."""
        return not self.codes or code in self.codes

    def without(self, code: str, line: str) -> Replacement:
        """Return its line, given with its end, without ``code``; the comment goes where nothing is left of it."""
        kept = [known for known in self.codes if known != code]
        first, last = self.column - 1, self.column - 1 + len(self.text)
        words = ""
        if kept:
            words = f"# retrofit: ignore[{', '.join(kept)}]" if self.own else f"# noqa: {', '.join(kept)}"
        body = line.rstrip("\r\n")
        rest = body[:first] + words + body[last:]
        return Replacement(self.line, self.line, (rest if words else rest.rstrip()) + line[len(body) :])


def find_suppressions(text: str) -> list[Suppression]:
    """Return the suppressing comments of a file's text."""
    if not re.search(r"#\s*(noqa|retrofit:)", text, re.IGNORECASE):
        return []
    return [
        Suppression(line, column + match.start() + 1, match[0], _codes(match["codes"]), pattern is _IGNORE)
        for line, column, comment in _comments(text)
        for pattern in (_NOQA, _IGNORE)
        for match in pattern.finditer(comment)
    ]


def unused(suppressions: list[Suppression], enabled: set[str]) -> Iterator[tuple[Suppression, str, str]]:
    """Yield each code that silences nothing, with its comment and what to say.

    Codes of rules that are not ``enabled`` may silence something another day, and those after `noqa` that are not
    retrofit's belong to other tools.
    """
    known = known_rules()
    for comment in suppressions:
        for code in comment.codes:
            if code in enabled and code not in comment.used:
                yield comment, code, f"`{code}` silences nothing here. Take it out."
            elif comment.own and code not in known:
                yield comment, code, f"`{code}` is no rule, so it silences nothing. Take it out."
        if comment.own and not comment.codes and not comment.used:
            yield comment, "", f"`{comment.text}` silences nothing here. Take it out."


def _codes(text: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(re.findall(r"[A-Z]+\d+", (text or "").upper())))


def _comments(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield every comment with its 1-based line and 0-based column."""
    lines = iter([line + "\n" for line in split_lines(text)])
    try:
        for token in tokenize.generate_tokens(lambda: next(lines, "")):
            if token.type == tokenize.COMMENT:
                yield *token.start, token.string
    except (tokenize.TokenError, SyntaxError):
        return
