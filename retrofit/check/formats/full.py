"""`--format full`: each finding with its source, for people."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter

from retrofit.check import LEVELS
from retrofit.check.finding import Finding, Report
from retrofit.check.formats.concise import line
from retrofit.layout import PLAIN, View, width
from retrofit.wording import counted, listed, visible

_TAB = 4
#: A longer line, such as one of data, is cut around what is underlined.
_WIDEST = 160
_OPTIONS = {"safe": "--fix", "unsafe": "--fix --unsafe-fixes"}


def render(report: Report, view: View = PLAIN, brief: bool = False) -> str:
    """Return every finding with the lines that it is about, then the summary."""
    findings = [_finding(finding, view) for finding in report.findings]
    return "\n\n".join([*findings, *([] if brief else [view.wrap(summary(report))])])


def summary(report: Report) -> str:
    """Return how much was found and repaired, and how much more can be."""
    levels = Counter(finding.level for finding in report.findings)
    fixes = Counter(finding.fix for finding in report.findings if finding.fix)
    sentences = []
    if report.repaired:
        codes = [f"{number} {code}" for code, number in sorted(Counter(report.repaired).items())]
        sentences.append(f"Repaired {counted(len(report.repaired), 'finding')}: {listed(codes)}.")
    nouns = {"advice": ("piece of advice", "pieces of advice"), "open": ("open question",)}
    found = [counted(levels[level], *nouns.get(level, (level,))) for level in reversed(LEVELS) if levels[level]]
    if found:
        sentences.append(f"Found {listed(found)} in {counted(report.files, 'file')}.")
    elif report.files:
        sentences.append(f"Nothing found in {counted(report.files, 'file')}.")
    else:
        sentences.append("There was no Python file to check.")
    if fixes:
        sentences.append(
            f"{listed([f'`{option}` repairs {fixes[kind]}' for kind, option in _OPTIONS.items() if fixes[kind]])}."
        )
    if report.problems:
        sentences.append(f"{counted(len(report.problems), 'problem')}: not everything was checked.")
    return " ".join(sentences)


def _finding(finding: Finding, view: View) -> str:
    margin = " " * len(str(finding.line + len(finding.excerpt) - 1))
    widest = min(_WIDEST, (view.width or _WIDEST) - len(margin) - len(" | ") - len("……"))
    lines = [view.wrap(line(finding, view), hang="  "), *_excerpt(finding, margin, widest)]
    below = [f"rule: {finding.name}; `retrofit rule {finding.code}` explains it"]
    if finding.fix:
        below.append(f"fix: {finding.fix}, `{_OPTIONS[finding.fix]}` applies it")
    lines += [view.wrap(f"{margin} = {text}", hang="   ") for text in below]
    return "\n".join(lines)


def _excerpt(finding: Finding, margin: str, widest: int) -> list[str]:
    """Return the lines that a finding is about, each with carets below the part that is meant."""
    lines = [f"{margin} |"] if finding.excerpt else []
    for number, text in enumerate(finding.excerpt, finding.line):
        first = finding.column - 1 if number == finding.line else len(text) - len(text.lstrip())
        last = finding.end_column - 1 if number == finding.end_line else len(text.rstrip())
        if number > finding.line and number == finding.end_line and not text[:last].strip():
            return lines  # it ends with the line end before
        shown, carets = _underlined(text, first, last, widest)
        lines.append(f"{number:>{len(margin)}} | {shown}".rstrip())
        if text.strip() or finding.line == finding.end_line:
            lines.append(f"{margin} | {carets}")
    if finding.excerpt and finding.line + len(finding.excerpt) <= finding.end_line:
        lines.append(f"{margin} | ...")
    return lines


def _underlined(text: str, first: int, last: int, widest: int) -> tuple[str, str]:
    """Return a line as it is shown, cut to a width, and the carets below the characters from ``first`` to ``last``."""
    pieces: list[str] = []
    places = [0]
    for character in text:
        piece = " " * (_TAB - places[-1] % _TAB) if character == "\t" else visible(character)
        pieces.append(piece)
        places.append(places[-1] + sum(map(width, piece)))
    left = 0 if places[max(first, last)] <= widest else first
    right = bisect_right(places, places[left] + widest) - 1
    before, after = "…" * (left > 0), "…" * (right < len(pieces))
    shown = before + "".join(pieces[left:right]) + after
    indent = len(before) + places[first] - places[left]
    return shown, " " * indent + "^" * max(1, places[min(last, right)] - places[first])
