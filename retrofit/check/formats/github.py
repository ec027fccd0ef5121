"""`--format github`: workflow commands, which GitHub Actions shows as annotations in the changed files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from retrofit.check.finding import Report
from retrofit.rules import Rule

_COMMANDS = {"error": "error", "warning": "warning", "advice": "notice"}
_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = _DATA | str.maketrans({":": "%3A", ",": "%2C"})


def render(report: Report, rules: Mapping[str, Rule]) -> str:
    """Return a command for each finding and problem."""
    return "\n".join(_commands(report))


def _commands(report: Report) -> Iterator[str]:
    for finding in report.findings:
        properties = {"file": finding.file, "line": finding.line, "endLine": finding.end_line}
        if finding.line == finding.end_line:  # GitHub takes columns within one line only
            properties |= {"col": finding.column, "endColumn": finding.end_column}
        properties["title"] = f"{finding.code} {finding.name}"
        yield _command(_COMMANDS[finding.level], properties, f"{finding.place}: {finding.code} {finding.message}")
    for problem in report.problems:
        place = {"line": problem.line, "col": problem.column} if problem.line else {}
        yield _command("error", {"file": problem.file, **place, "title": problem.code}, str(problem))


def _command(name: str, properties: Mapping[str, object], message: str) -> str:
    settings = ",".join(f"{key}={str(value).translate(_PROPERTY)}" for key, value in properties.items())
    return f"::{name} {settings}::{message.translate(_DATA)}"
