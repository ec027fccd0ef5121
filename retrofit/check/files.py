"""Which files a check reads: those given, those of the folders given, and of these only what may be of interest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from retrofit.launch import MARK
from retrofit.reading import read_file

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

#: Folders that hold no code of the project's own. A folder that is given itself is checked whatever its name.
EXCLUDED = frozenset(
    {
        ".eggs", ".git", ".hg", ".mypy_cache", ".nox", ".pytest_cache", ".ruff_cache", ".svn", ".tox", ".venv",
        "__pycache__", "__pypackages__", "build", "dist", "node_modules", "site-packages", "venv",
    }
)  # fmt: skip

#: With one of these a file uses the library, or the helper, that rules speak of, or starts a script that does.
_LIBRARIES = (b"perforatedai", b"pai_distributed", b"pai_load_folder")
#: Without one of these a file that does not has nothing that a rule speaks of.
_WORDS = (
    b"DataParallel",
    b"torch.distributed",
    b"init_process_group",
    b"DistributedSampler",
    b"local_rank",
    b"local-rank",
    b"fairscale",
    b"retrofit: ignore",
)


def uses_library(data: bytes) -> bool:
    """Whether a file's bytes name the library that rules speak of, or the helper."""
    return any(name in data for name in _LIBRARIES)


def irrelevant(data: bytes, words: Callable[[], Sequence[bytes]] = tuple) -> str:
    """Return why a file's bytes hold nothing that a rule speaks of, "" where they may.

    Args:
        words: returns what else may be spoken of, as its project says.
    """
    plain = not uses_library(data) and (b"torch" not in data or not any(word in data for word in _WORDS))
    if plain and not any(word in data for word in words()):
        return "passed over, nothing in it that a rule speaks of"
    return "passed over, retrofit generated it" if MARK.encode() in data[:200] else ""


@dataclass(frozen=True)
class _Ignores:
    """The patterns of one .gitignore.

    Attributes:
        folder: where it stands, with a slash at the end; patterns are relative to it.
    """

    folder: str
    patterns: GitIgnoreSpec


def python_files(
    folder: str,
    excluded: Sequence[str] = (),
    base: str = "",
    passed: Callable[[str, str], None] = lambda path, why: None,
) -> Iterator[str]:
    """Yield the Python files below a folder in the order of their names.

    Files that .gitignore names are passed over, those of the Git repository around the folder included, and so are
    virtual environments and PyTorch's own package, whose code the rules are about. Links to folders are not followed.

    Args:
        folder: the folder as the user gave it; the files' paths begin with it.
        excluded: further patterns, as in .gitignore.
        base: the folder that they are relative to, "" for the working folder.
        passed: is told what is passed over, and why.
    """
    top = os.path.realpath(folder)
    ignores = _ignores_above(top)
    if excluded:
        ignores = [_patterns(os.path.realpath(base or "."), excluded), *ignores]
    yield from _walk(folder, top, ignores, passed)


def _walk(shown: str, real: str, ignores: list[_Ignores], passed: Callable[[str, str], None]) -> Iterator[str]:
    waiting = _entries(shown, real, ignores)  # the next one last: folders may be nested more deeply than functions
    while waiting:
        entry, path, ignores = waiting.pop()
        folder = not entry.name.endswith(".py")
        if not (entry.is_dir(follow_symlinks=False) if folder else os.path.isfile(entry.path)):
            continue
        why = _foreign(path, entry.name) if folder else ""
        if not why and ignores and _ignored(path + "/" * folder, ignores):
            why = "named by .gitignore or exclude"
        if why:
            passed(entry.path, f"passed over, {why}")
        elif folder:
            waiting += _entries(entry.path, path, ignores)
        else:
            yield entry.path


def _entries(shown: str, real: str, ignores: list[_Ignores]) -> list[tuple[os.DirEntry[str], str, list[_Ignores]]]:
    """Return what is in a folder, the last name first, each with its real path and the patterns that count there."""
    try:
        entries = sorted(os.scandir(shown or "."), key=lambda entry: entry.name, reverse=True)
    except OSError:
        return []
    if any(entry.name == ".gitignore" for entry in entries):
        ignores = [*ignores, *_read(real)]
    return [(entry, f"{real}/{entry.name}", ignores) for entry in entries]


def _foreign(path: str, name: str) -> str:
    """Return why a folder holds nothing of the project's own, "" where it may."""
    if name in EXCLUDED:
        return "a folder of this name holds no code of the project's own"
    if name == "torch" and os.path.isfile(f"{path}/nn/parallel/distributed.py"):
        return "PyTorch itself"
    return "a virtual environment" if os.path.isfile(f"{path}/pyvenv.cfg") else ""


def _ignored(path: str, ignores: list[_Ignores]) -> bool:
    """Whether .gitignore files name a path; the one nearest to it counts."""
    for one in reversed(ignores):
        if path.startswith(one.folder):
            told = one.patterns.check_file(path[len(one.folder) :]).include
            if told is not None:
                return told
    return False


def _ignores_above(folder: str) -> list[_Ignores]:
    """Return the .gitignore files of the repository around a folder, none where they name the folder itself."""
    parents = [folder, *map(str, Path(folder).parents)]
    root = next((n for n, parent in enumerate(parents) if os.path.exists(f"{parent}/.git")), 0)
    found = [ignores for parent in reversed(parents[1 : root + 1]) for ignores in _read(parent)]
    return [] if found and _ignored(folder + "/", found) else found


def _read(folder: str) -> list[_Ignores]:
    try:
        text = read_file(f"{folder}/.gitignore").decode(errors="replace")
        return [_patterns(folder, text.splitlines())]
    except OSError:
        return []


def _patterns(folder: str, lines: Sequence[str]) -> _Ignores:
    from pathspec import GitIgnoreSpec

    def valid(line: str) -> bool:
        try:
            return bool(GitIgnoreSpec.from_lines([line]))
        except ValueError:  # git passes over such a line too
            return False

    try:
        patterns = GitIgnoreSpec.from_lines(lines)
    except ValueError:
        patterns = GitIgnoreSpec.from_lines([line for line in lines if valid(line)])
    return _Ignores(folder.rstrip("/") + "/", patterns)
