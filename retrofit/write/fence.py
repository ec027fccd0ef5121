"""What a command may write: files of the project, and no other.

A project is a folder, its root: the Git repository around the script as the user names it; else the nearest folder
that looks like a project's; else the folder of the script's outermost package. Links are resolved before it is asked
whether a file lies below it.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path, PurePosixPath

from retrofit.errors import Problem, UserError, shown_path
from retrofit.root import holds_more, project_root
from retrofit.write.journal import taken_path


def root_of(script: Path, chosen: Path | None = None) -> Path:
    """Return the folder below which a command for a script may write.

    Args:
        script: the script, or a folder, as the user gave it; where it is a link, the project around the link counts.
        chosen: the user's own choice.

    Raises:
        UserError: the choice is no folder.
    """
    if chosen is not None:
        root = Path(os.path.realpath(chosen))
        if not root.is_dir():
            raise UserError(Problem("--project-root", 0, 0, "RF006", f"{chosen} is no folder."))
        return root
    folder = Path(os.path.realpath(script if script.is_dir() else script.parent))
    around = [above for above in (folder, *folder.parents) if not holds_more(above)]
    repository = next((above for above in around if os.path.lexists(above / ".git")), None)
    package = next(above for above in (folder, *folder.parents) if not os.path.lexists(above / "__init__.py"))
    return repository or project_root(folder / "x") or package


def below(root: Path, path: Path) -> str | None:
    """Return a file's path from a root, with forward slashes; None where it lies elsewhere.

    Args:
        root: a real path.
        path: a real path, of a file that need not exist.
    """
    if path.is_relative_to(root):
        return path.relative_to(root).as_posix()
    for folder in path.parents:  # one folder has several names where case does not count
        try:
            if os.path.samefile(folder, root):
                return path.relative_to(folder).as_posix()
        except OSError:
            continue
    return None


def outside(root: Path, path: Path) -> str:
    """Return why a file may not be written, as the end of a message; "" where it may.

    Args:
        root: the project's root.
        path: the file's real path.
    """
    inside = below(root, path)
    if inside is None:
        return (
            f"lies outside the project, {root}. --project-root DIR, with a folder that holds both, "
            "lets it be written; or copy it into the project."
        )
    fault = taken_path(inside)
    return f"is not to be written: it {fault}." if fault else ""


def target(root: Path, path: str) -> Path:
    """Return where a file of a project is.

    Args:
        root: the project's root.
        path: the file's path from there, as a journal has it.

    Raises:
        OSError: something else than a folder is on the way, or than a file is there, such as a link.
    """
    fault = taken_path(path)
    if fault:
        raise OSError(errno.EPERM, f"it {fault}", path)
    here = root
    *folders, name = PurePosixPath(path).parts
    for folder in folders:
        here /= folder
        _expect(here, stat.S_IFDIR)
    _expect(here / name, stat.S_IFREG)
    return here / name


def _expect(path: Path, kind: int) -> None:
    try:
        found = stat.S_IFMT(os.lstat(path).st_mode)
    except FileNotFoundError:
        return
    if found != kind:
        what = "a link" if found == stat.S_IFLNK else "a folder" if found == stat.S_IFDIR else "no regular file"
        raise OSError(errno.EPERM, f"{shown_path(path)} is {what}", str(path))
