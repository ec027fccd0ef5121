"""What is on record of a project: each command that wrote files there, with the bytes before and after.

A project's journal is the folder `.retrofit` at its root. A file `0007.json` there is a step that can be undone. A
file `pending.json` is a step that is being made, and `undone.json` an undo that has only its bookkeeping left.

A journal is read as if somebody else had written it, who may have: it can come with a project.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any

from retrofit.errors import Problem, UserError, shown_path
from retrofit.write.files import DISK, Content

FOLDER = ".retrofit"
PENDING, UNDONE = "pending.json", "undone.json"
#: The folders in the journal's own: of files on their way, and of what nobody's record knows.
STAGED, SAVED = "staged", "saved"
_FORMAT = 1
_STEP = re.compile(r"[0-9]{4,9}\.json")
#: What keeps the history of a project is nobody's to write in, whatever the case that a file system takes for the same.
_NEVER = frozenset({".git", ".hg", ".svn", ".bzr", ".jj", FOLDER})


@dataclass(frozen=True)
class Entry:
    """What a step does to one file.

    Attributes:
        path: the file, from the project's root, with forward slashes.
        before: its content, None where there is none.
        after: the same for afterwards.
        scripts: the entry scripts for which it is written, as paths from the root.
    """

    path: str
    before: Content | None
    after: Content | None
    scripts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """What one command writes.

    Attributes:
        command: such as "apply".
        entries: the files, in the order in which they are written.
        time: when, in ISO format.
        uses: the files that the scripts need as they are from then on, by path.
        replaces: what becomes of steps on record, by number: None for steps that are taken back whole.
        place: the number of the journal's folder where the step began, which no copy of the folder has.
        folders: the folders that it makes, or that the steps have made which it takes back, by path.
    """

    command: str
    entries: tuple[Entry, ...]
    time: str = ""
    uses: tuple[str, ...] = ()
    replaces: Mapping[int, Step | None] = field(default_factory=dict)
    place: int = 0
    folders: tuple[str, ...] = ()

    @property
    def scripts(self) -> tuple[str, ...]:
        """The entry scripts of the step, in order."""
        return tuple(dict.fromkeys(script for entry in self.entries for script in entry.scripts))


class Journal:
    """A project's journal.

    Args:
        root: the project's root.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / FOLDER

    def problem(self) -> UserError | None:
        """Return why the folder cannot be trusted, None where it can, or is not there."""
        try:
            status = os.lstat(self.folder)
        except OSError:
            return None
        for folder in (self.folder, self.folder / STAGED, self.folder / SAVED):
            if os.path.lexists(folder) and not stat.S_ISDIR(os.lstat(folder).st_mode):
                return _refusal(folder, "is in the place of retrofit's folder. Move it away.")
        if hasattr(os, "geteuid") and status.st_uid not in (os.geteuid(), os.stat(self.root).st_uid):
            return _refusal(self.folder, "belongs to another user. Move it away, or ask them.")
        return None

    def is_own(self) -> bool:
        """Whether the user made the folder, and it can be trusted."""
        return self.problem() is None and (not hasattr(os, "geteuid") or os.lstat(self.folder).st_uid == os.geteuid())

    def numbers(self) -> list[int]:
        """Return the numbers of the steps on record, the oldest first."""
        return sorted(int(name.partition(".")[0]) for name in DISK.names(self.folder) if _STEP.fullmatch(name))

    def path(self, number: int) -> Path:
        """Return where a step is on record."""
        return self.folder / f"{number:04}.json"

    def steps(self) -> dict[int, Step]:
        """Return the steps on record, the oldest first.

        Raises:
            UserError: one cannot be read, or is no step.
        """
        return {number: self.step(self.path(number)) for number in self.numbers()}

    def step(self, path: Path) -> Step:
        """Return a step from its file.

        Raises:
            UserError: it cannot be read, or is no step.
        """
        try:
            content = DISK.read(path)
        except OSError as error:
            raise _refusal(path, f"cannot be read: {error.strerror}.") from None
        try:
            if content is None:
                raise ValueError("it is gone")
            return _step(json.loads(content.data))
        except RecursionError:
            raise _no_record(path, "it is nested too deeply") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _no_record(path, str(error)) from None


def step_bytes(step: Step) -> bytes:
    """Return a step as it is put on record."""
    return json.dumps(_as_data(step), indent=1).encode()


def taken_path(path: str) -> str:
    """Return what is wrong with a path of a journal, "" where it can name a file of a project.

    Args:
        path: a path from the project's root.
    """
    parts = PurePosixPath(path).parts
    if not parts or path != "/".join(parts) or path.startswith("/") or "\0" in path:
        return "is no path below the project's root"
    if any(part == ".." or (os.name == "nt" and re.search(r"[\\:]", part)) for part in parts):
        return "leaves the project"
    if any(_folded(part) in _NEVER for part in parts):
        return "is no file of the project's own"
    return ""


def _folded(name: str) -> str:
    """Return a name as the file systems see it that see the least of it."""
    kept = "".join(c for c in name if not 0x200B <= ord(c) <= 0x200F and not 0x202A <= ord(c) <= 0x202E)
    return re.sub(r"^git~\d+$", ".git", kept.rstrip(". ").casefold().replace("\ufeff", ""))


def _as_data(step: Step) -> dict[str, Any]:
    data: dict[str, Any] = {
        "format": _FORMAT,
        "command": step.command,
        "time": step.time,
        "files": [
            {
                "path": entry.path,
                "scripts": list(entry.scripts),
                "before": _content_data(entry.before),
                "after": _content_data(entry.after),
            }
            for entry in step.entries
        ],
        "uses": list(step.uses),
    }
    if step.replaces:
        data["replaces"] = {str(n): None if other is None else _as_data(other) for n, other in step.replaces.items()}
    if step.place:
        data["place"] = step.place
    if step.folders:
        data["folders"] = list(step.folders)
    return data


def _content_data(content: Content | None) -> dict[str, Any] | None:
    if content is None:
        return None
    return {
        "mode": f"{content.mode:03o}",
        "sha256": sha256(content.data).hexdigest(),
        "bytes": base64.b64encode(content.data).decode(),
    }


def _step(data: Any, whole: bool = True) -> Step:
    """Return what JSON says of a step.

    Args:
        whole: whether it may replace other steps.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it says nothing of the kind.
    """
    if data["format"] != _FORMAT:
        raise ValueError(f"it is of format {data['format']!r}, and this version knows {_FORMAT}")
    entries = tuple(_entry(one) for one in _typed(data["files"], list))
    paths = [entry.path for entry in entries]
    if len({path.casefold() for path in paths}) < len(paths):
        raise ValueError("it names a file twice")
    replaces = _typed(data.get("replaces", {}), dict)
    if replaces and not whole:
        raise ValueError("a step in it replaces others")
    return Step(
        command=_typed(data["command"], str),
        entries=entries,
        time=_typed(data["time"], str),
        uses=_paths(data["uses"]),
        replaces={_number(n): None if one is None else _step(one, False) for n, one in replaces.items()},
        place=_typed(data.get("place", 0), int),
        folders=_paths(data.get("folders", [])),
    )


def _entry(data: Any) -> Entry:
    [path] = _paths([data["path"]])
    entry = Entry(path, _content(data["before"]), _content(data["after"]), _paths(data["scripts"]))
    if entry.before is None and entry.after is None:
        raise ValueError(f"it says nothing of {path!r}")
    return entry


def _content(data: Any) -> Content | None:
    if data is None:
        return None
    try:
        content = base64.b64decode(_typed(data["bytes"], str), validate=True)
    except binascii.Error:
        raise ValueError("it holds bytes that cannot be decoded") from None
    if sha256(content).hexdigest() != data["sha256"]:
        raise ValueError("it holds bytes that are not those of their digest")
    mode = _typed(data["mode"], str)
    if not re.fullmatch(r"[0-7]{3}", mode, re.ASCII):
        raise ValueError(f"it gives a file the mode {mode!r}")
    return Content(content, int(mode, 8))


def _paths(data: Any) -> tuple[str, ...]:
    paths = tuple(_typed(path, str) for path in _typed(data, list))
    for path in paths:
        fault = taken_path(path)
        if fault:
            raise ValueError(f"{path!r} {fault}")
    return paths


def _number(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        raise ValueError(f"it replaces {text!r}")
    return int(text)


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise ValueError(f"it has {value!r:.40} where a {kind.__name__} should be")
    return value


def _no_record(path: Path, why: str) -> UserError:
    return _refusal(path, f"is no record that can be trusted: {why}. Move it away; it may hold originals.")


def _refusal(path: Path, message: str) -> UserError:
    return UserError(Problem(shown_path(path), 0, 0, "RF014", message))
