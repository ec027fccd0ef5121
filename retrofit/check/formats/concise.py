"""`--format concise`: one line a finding, for editors and grep."""

from __future__ import annotations

from retrofit.check.finding import Finding, Report
from retrofit.layout import PLAIN, View
from retrofit.wording import visible


def render(report: Report, view: View = PLAIN, brief: bool = False) -> str:
    """Return `file:line:col: CODE level message` for each finding; there is no summary."""
    return "\n".join(line(finding, view) for finding in report.findings)


def line(finding: Finding, view: View = PLAIN) -> str:
    """Return the line of one finding, which is never broken."""
    place, message = visible(finding.place), visible(finding.message)
    return f"{place}: {view.paint(finding.code, bold=True)} {view.graded(finding.level)} {message}"
