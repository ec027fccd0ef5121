"""`--format concise`: one line a finding, for editors and grep."""

from __future__ import annotations

from retrofit.check.finding import Finding, Report
from retrofit.check.formats.text import visible


def render(report: Report) -> str:
    """Return `file:line:col: CODE level message` for each finding."""
    return "\n".join(line(finding) for finding in report.findings)


def line(finding: Finding) -> str:
    """Return the line of one finding."""
    return visible(f"{finding.place}: {finding.code} {finding.level} {finding.message}")
