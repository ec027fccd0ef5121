"""`--format sarif`: SARIF 2.1.0, for GitHub code scanning and other services that collect findings."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from functools import cache
from pathlib import PurePath
from urllib.parse import quote

from retrofit import __version__
from retrofit.check.finding import Finding, Replacement, Report
from retrofit.errors import Problem
from retrofit.report import rule_markdown, rule_text
from retrofit.rules import Rule, load_recipe
from retrofit.rules_folder import rules_folder

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "advice": "note", "open": "note"}
#: What GitHub calls the levels.
_SEVERITIES = {"error": "error", "warning": "warning", "advice": "recommendation", "open": "recommendation"}


def render(report: Report) -> str:
    """Return a SARIF log of one run; paths in it are relative to the folder of the check, ``%SRCROOT%``."""
    rules = sorted((rule for rule in _rules() if rule.level), key=lambda rule: rule.code)
    numbers = {rule.code: number for number, rule in enumerate(rules)}
    seen: Counter[str] = Counter()
    results = []
    for finding in report.findings:
        identity = "\0".join(
            [finding.code, _location(finding.file)["uri"], *(text.strip() for text in finding.excerpt)]
        )
        seen[identity] += 1
        fingerprint = hashlib.sha256(f"{identity}\0{seen[identity]}".encode()).hexdigest()
        results.append(_result(finding, numbers[finding.code], fingerprint))
    invocation = {
        "executionSuccessful": not report.problems,
        "toolExecutionNotifications": [_notification(problem) for problem in report.problems],
    }
    run = {
        "tool": {"driver": {"name": "retrofit", "version": __version__, "rules": [_described(rule) for rule in rules]}},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


@cache
def _rules() -> list[Rule]:
    return [rule for name in ("ddp", "perforatedai") for rule in load_recipe(rules_folder() / name).rules]


def _described(rule: Rule) -> dict[str, object]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": f"{rule.title}."},
        "fullDescription": {"text": " ".join(rule.why.split())},
        "help": {"text": rule_text(rule), "markdown": rule_markdown(rule)},
        "defaultConfiguration": {"level": _LEVELS[rule.level]},
        "properties": {"tags": ["pytorch", "distributed"], "problem.severity": _SEVERITIES[rule.level]},
    }


def _result(finding: Finding, number: int, fingerprint: str) -> dict[str, object]:
    region = {
        "startLine": finding.line,
        "startColumn": finding.column,
        "endLine": finding.end_line,
        "endColumn": finding.end_column,
    }
    result: dict[str, object] = {
        "ruleId": finding.code,
        "ruleIndex": number,
        **({"kind": "open", "level": "none"} if finding.level == "open" else {"level": _LEVELS[finding.level]}),
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": {"artifactLocation": _location(finding.file), "region": region}}],
        "partialFingerprints": {"retrofit/v1": fingerprint},
    }
    if finding.replacements:
        changes = {
            "artifactLocation": _location(finding.file),
            "replacements": [_replacement(change) for change in finding.replacements],
        }
        description = {"text": f"Apply the {finding.fix} fix of {finding.code}."}
        result["fixes"] = [{"description": description, "artifactChanges": [changes]}]
    return result


def _replacement(change: Replacement) -> dict[str, object]:
    """Return a change; where lines take the place of lines, the last line end stays, which a file may not have."""
    first, last, text = change.first, change.last, change.text
    if last < first:
        region = {"startLine": first, "startColumn": 1, "endLine": first, "endColumn": 1}
    elif text:
        region = {"startLine": first, "startColumn": 1, "endLine": last}
        text = text.removesuffix("\n").removesuffix("\r")
    else:
        region = {"startLine": first, "startColumn": 1, "endLine": last + 1, "endColumn": 1}
    return {"deletedRegion": region, "insertedContent": {"text": text}}


def _notification(problem: Problem) -> dict[str, object]:
    notification: dict[str, object] = {
        "level": "error",
        "descriptor": {"id": problem.code},
        "message": {"text": str(problem)},
    }
    if problem.line:
        region = {"startLine": problem.line, "startColumn": problem.column}
        place = {"artifactLocation": _location(problem.file), "region": region}
        notification["locations"] = [{"physicalLocation": place}]
    return notification


def _location(file: str) -> dict[str, str]:
    path = PurePath(file)
    if path.is_absolute():
        return {"uri": path.as_uri()}
    return {"uri": quote(os.fsencode(path.as_posix())), "uriBaseId": "%SRCROOT%"}
