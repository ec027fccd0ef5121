"""How `retrofit check` says what it found: a module for each format, loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from retrofit.check.finding import Report
from retrofit.rules import Rule

FORMATS = ("full", "concise", "json", "sarif", "github", "junit")

#: Those that print what fixes change, for which findings need their `replacements`.
PRINT_FIXES = frozenset({"json", "sarif"})


def render(name: str, report: Report, rules: Mapping[str, Rule] | None = None) -> str:
    """Return a report as text, without a last line end; "" where a format has nothing to say.

    Args:
        name: one of `FORMATS`, or "statistics".
        report: what was found.
        rules: the rules that were asked, by their codes; `sarif` describes them.
    """
    text: str = import_module(f"{__name__}.{name}").render(report, rules or {})
    return text
