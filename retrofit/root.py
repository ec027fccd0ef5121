"""Where a project begins."""

from __future__ import annotations

import os
from pathlib import Path

#: What packages are installed by, from the folder in which it lies.
INSTALLING = ("pyproject.toml", "setup.py", "setup.cfg")
_PROJECT_MARKS = (".git", *INSTALLING)


def project_root(script: Path) -> Path | None:
    """Return the nearest folder above a script that looks like a project's root, None where there is none.

    Args:
        script: the script's real path.
    """
    for folder in script.parents:
        if not holds_more(folder) and any(os.path.lexists(folder / mark) for mark in _PROJECT_MARKS):
            return folder
    return None


def holds_more(folder: Path) -> bool:
    """Does a folder hold much that cannot belong to one project, as a home and the root of the file system do?"""
    return folder in (Path(folder.anchor), Path(os.path.expanduser("~")))
