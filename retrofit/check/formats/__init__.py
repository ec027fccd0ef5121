"""How `retrofit check` says what it found: a module for each format, loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module

from retrofit.check.finding import Report


def render(name: str, report: Report) -> str:
    """Return a report as text, without a last line end; "" where a format has nothing to say.

    Args:
        name: "full", "concise", "json", "sarif", "github" or "junit", or "statistics".
        report: what was found; `json` and `sarif` print the replacements of its findings.
    """
    text: str = import_module(f"{__name__}.{name}").render(report)
    return text
