"""`--statistics`: how often each rule found something."""

from __future__ import annotations

from collections import Counter

from retrofit.check.finding import LEVELS, Report
from retrofit.check.formats.full import summary


def render(report: Report) -> str:
    """Return a line for each code and level, the most frequent first, then the summary."""
    found = Counter((finding.code, finding.level, finding.name) for finding in report.findings)
    fixable = Counter((finding.code, finding.level, finding.name) for finding in report.findings if finding.fix)
    rows = sorted(found.items(), key=lambda row: (-row[1], row[0]))
    columns = [max((len(str(part)) for part in column), default=0) for column in zip(*found, strict=True)]
    digits = len(str(max(found.values(), default=0)))
    level_width = max(map(len, LEVELS))
    lines = []
    for (code, level, name), number in rows:
        fixes = f"{fixable[code, level, name]} fixable" if fixable[code, level, name] else ""
        row = f"{number:>{digits}}  {code:<{columns[0]}}  {level:<{level_width}}  {name:<{columns[2]}}  {fixes}"
        lines.append(row.rstrip())
    return "\n".join([*lines, *([""] if lines else []), summary(report)])
