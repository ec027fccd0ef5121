"""`--statistics`: how often each rule found something."""

from __future__ import annotations

from collections import Counter

from retrofit.check import LEVELS
from retrofit.check.finding import Report
from retrofit.check.formats.full import summary
from retrofit.layout import PLAIN, View


def render(report: Report, view: View = PLAIN, brief: bool = False) -> str:
    """Return a line for each code and level, the most frequent first, then the summary."""
    found = Counter((finding.code, finding.level, finding.name) for finding in report.findings)
    fixable = Counter((finding.code, finding.level, finding.name) for finding in report.findings if finding.fix)
    rows = sorted(found.items(), key=lambda row: (-row[1], row[0]))
    digits = len(str(max(found.values(), default=0)))
    level_width = max(map(len, LEVELS))
    cells = []
    for (code, level, name), number in rows:
        fixes = f"{fixable[code, level, name]} fixable" if fixable[code, level, name] else ""
        cells.append((f"{number:>{digits}}", code, view.graded(f"{level:<{level_width}}"), name, fixes))
    parts = [view.table(cells)] if cells else []
    return "\n\n".join([*parts, *([] if brief else [view.wrap(summary(report))])])
