"""What the doctor says: findings, and how they are printed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

from retrofit.layout import PLAIN, View
from retrofit.wording import counted

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        topic: what it is about, such as ``GPU memory``.
        level: "ok"; "warning": training runs, but perhaps not as meant; "problem": it does not run so.
        what: what was seen, in whole sentences.
        cure: what to do, a command or a setting where possible; "" where all is well.
    """

    topic: str
    level: Level
    what: str
    cure: str = ""


def to_text(findings: Iterable[Finding], view: View = PLAIN) -> str:
    """Return a line for each finding, with its cure below it."""
    findings = list(findings)
    rows = [(view.graded(f"{finding.level:<7}"), finding.topic, finding.what) for finding in findings]
    return view.table(rows, below=[finding.cure for finding in findings])


def to_json(findings: Iterable[Finding]) -> str:
    """Return the findings as a JSON list of objects, in their order."""
    return json.dumps([asdict(finding) for finding in findings], indent=2)


def exit_code(findings: Iterable[Finding]) -> int:
    """Return 1 where there is a problem, else 0."""
    return int(any(finding.level == "problem" for finding in findings))


def verdict(findings: Iterable[Finding], ranks: int, on_gpus: bool) -> Finding:
    """Return the last line: whether this machine can train, and with how many processes.

    Args:
        findings: all others.
        ranks: how many processes were tried.
        on_gpus: whether each of them had a GPU.
    """
    problems = sum(finding.level == "problem" for finding in findings)
    if problems:
        return Finding("verdict", "problem", f"This machine cannot train so yet: {counted(problems, 'problem')}.")
    where = "each on a GPU" if on_gpus else "on the CPU"
    return Finding("verdict", "ok", f"This machine can train with {counted(ranks, 'process', 'processes')}, {where}.")


def size(number: float) -> str:
    """Return a number of bytes as people read it, in binary units."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20)):
        if number >= factor:
            scaled = number / factor
            return f"{scaled:.0f} {unit}" if scaled >= 10 else f"{scaled:.1f} {unit}"
    return f"{number / 2**10:.0f} KiB"
