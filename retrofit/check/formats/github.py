"""`--format github`: workflow commands, which GitHub Actions shows as annotations in the changed files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath

from retrofit.check.finding import Report

_COMMANDS = {"error": "error", "warning": "warning", "advice": "notice", "open": "notice"}
_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = _DATA | str.maketrans({":": "%3A", ",": "%2C"})


def render(report: Report) -> str:
    """Return a command for each finding and problem."""
    return "\n".join(_commands(report))


def _commands(report: Report) -> Iterator[str]:
    for finding in report.findings:
        properties = {"file": _path(finding.file), "line": finding.line, "endLine": finding.end_line}
        if finding.line == finding.end_line:  # GitHub takes columns within one line only
            properties |= {"col": finding.column, "endColumn": finding.end_column}
        properties["title"] = f"{finding.code} {finding.name}"
        yield _command(_COMMANDS[finding.level], properties, f"{finding.place}: {finding.code} {finding.message}")
    for problem in report.problems:
        place = {"line": problem.line, "col": problem.column} if problem.line else {}
        yield _command("error", {"file": _path(problem.file), **place, "title": problem.code}, str(problem))


def _path(file: str) -> str:
    """Return a path as the repository lists it: without `./`, which would keep GitHub from finding the file."""
    return PurePath(file).as_posix()


def _command(name: str, properties: Mapping[str, object], message: str) -> str:
    settings = ",".join(f"{key}={str(value).translate(_PROPERTY)}" for key, value in properties.items())
    command = f"::{name} {settings}::{message.translate(_DATA)}"
    return command.encode(errors="replace").decode()  # a path may hold bytes that are no text
