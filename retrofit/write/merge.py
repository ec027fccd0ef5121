"""Merge what a user has edited with what is brought back."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

#: What `git merge-file` returns for so many conflicts or more.
_MOST_CONFLICTS = 127
#: No settings of a user or a repository change how git merges, or what it runs for that.
_NO_SETTINGS = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_DIR": os.devnull}


class Merged(NamedTuple):
    """What came of a merge.

    Attributes:
        data: the bytes, with marks around what is in conflict.
        conflicts: the lines on which marks begin, from 1.
    """

    data: bytes
    conflicts: tuple[int, ...]


def merge(ours: bytes, base: bytes, theirs: bytes) -> Merged | None:
    """Merge two versions of a file that come from a third, as `git merge-file` does.

    Args:
        ours: the file with the user's edits.
        base: what the user edited.
        theirs: what is brought back.

    Returns:
        The merged file; None where there is no git, or it cannot merge such files.
    """
    git = shutil.which("git")
    if git is None:
        return None
    names = ("now", "written by retrofit", "before retrofit")
    with tempfile.TemporaryDirectory(prefix="retrofit-") as folder:
        for name, data in zip("abc", (ours, base, theirs), strict=True):
            Path(folder, name).write_bytes(data)
        labels = [word for name in names for word in ("-L", name)]
        result = subprocess.run(
            [git, "merge-file", "-p", "-q", *labels, "a", "b", "c"],
            cwd=folder,
            env={**os.environ, **_NO_SETTINGS, "GIT_CEILING_DIRECTORIES": os.path.dirname(folder)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    if not 0 <= result.returncode <= _MOST_CONFLICTS:
        return None
    lines = result.stdout.split(b"\n")
    begin = f"<<<<<<< {names[0]}".encode()
    marks = tuple(n for n, line in enumerate(lines, start=1) if line.rstrip(b"\r") == begin)
    return Merged(result.stdout, marks if result.returncode else ())
