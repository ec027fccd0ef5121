"""How `retrofit check` says what it found: a module for each format, loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module

from retrofit.check.finding import Report
from retrofit.layout import PLAIN, View

#: The formats that people read; the others are for programs, and the same wherever they go.
FOR_PEOPLE = frozenset({"full", "concise", "statistics"})


def render(name: str, report: Report, view: View = PLAIN, brief: bool = False) -> str:
    """Return a report as text, without a last line end; "" where a format has nothing to say.

    Args:
        name: "full", "concise", "json", "sarif", "github" or "junit", or "statistics".
        report: what was found; `json` and `sarif` print the replacements of its findings.
        view: how a format for people is laid out.
        brief: whether a format for people leaves out its summary.
    """
    module = import_module(f"{__name__}.{name}")
    text: str = module.render(report, view, brief) if name in FOR_PEOPLE else module.render(report)
    return text
