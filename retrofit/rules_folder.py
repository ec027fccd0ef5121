"""Where the rules are."""

from __future__ import annotations

from pathlib import Path


def rules_folder() -> Path:
    """Return the folder `rules/`, inside the installed package or beside it in a checkout."""
    here = Path(__file__).resolve().parent
    installed = here / "_rules"
    return installed if installed.is_dir() else here.parent / "rules"
