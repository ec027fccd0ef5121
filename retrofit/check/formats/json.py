"""`--format json`: one object, for programs."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict

from retrofit import __version__
from retrofit.check import LEVELS
from retrofit.check.finding import Finding, Report

#: Goes up when a key is renamed, taken away or given another meaning, not when one is added.
VERSION = 1


def render(report: Report) -> str:
    """Return one object.

    Its keys:
        version: of this form, an integer.
        retrofit: the version of retrofit.
        files: how many files were looked at.
        counts: the number of findings of each level: `error`, `warning`, `advice`.
        findings: each with `file`, `line`, `column`, `end_line`, `end_column` (1-based characters; the end is the first
            place behind it), `code`, `name`, `level`, `message`, `excerpt` (up to 5 lines of the file, from `line` on)
            and `fix`: null, or an object with `kind` ("safe" or "unsafe") and `replacements`, in the order of the
            lines. Each replaces the lines from `first` to `last` by `text`, which has its line ends; where `last` is
            `first` - 1 it comes in before `first`.
        problems: what could not be checked: `file`, `line`, `column` (0 for the file as a whole), `code`, `message`.
        repaired: the number of findings that fixes repaired, by their codes.
    """
    levels = Counter(finding.level for finding in report.findings)
    data = {
        "version": VERSION,
        "retrofit": __version__,
        "files": report.files,
        "counts": {level: levels[level] for level in reversed(LEVELS)},
        "findings": [_finding(finding) for finding in report.findings],
        "problems": [asdict(problem) for problem in report.problems],
        "repaired": dict(sorted(Counter(report.repaired).items())),
    }
    return json.dumps(data, indent=2)


def _finding(finding: Finding) -> dict[str, object]:
    data = asdict(finding)
    replacements = data.pop("replacements")
    data["fix"] = {"kind": finding.fix, "replacements": replacements} if finding.fix else None
    return data
