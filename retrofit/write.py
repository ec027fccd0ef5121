"""Write files whole: each atomically, all or none, the originals kept so that `retrofit undo` brings them back."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from retrofit.errors import Problem, UserError, shown_path
from retrofit.plan import NewFile, final_files

_JOURNAL = ".retrofit/undo.json"


@dataclass(frozen=True)
class _Target:
    """What a file shall be: its bytes and mode, or no file where ``data`` is None."""

    path: Path
    data: bytes | None
    mode: int | None


def write_files(*applied: tuple[Path, Sequence[NewFile]]) -> None:
    """Write all files, or none where one cannot be written.

    Args:
        applied: entry scripts, each with what to write for it, on top of what those before it write; the originals are
            kept in `.retrofit/` beside the script.

    Raises:
        UserError: a file cannot be written; all are as they were.
    """
    journals: dict[Path, dict[str, Any]] = {}
    for script, new in applied:
        journal = script.parent / _JOURNAL
        records = journals[journal] if journal in journals else journals.setdefault(journal, _read(journal))
        record = records.setdefault(script.name, {})
        for file in new:
            name = os.path.relpath(file.path, script.parent)
            record[name] = _entry(file, record.get(name))
    files = final_files([new for _, new in applied])
    _put([*(_Target(f.path, f.after, _mode(f)) for f in files), *(_journal(j, r) for j, r in journals.items())])


def undo(script: Path, shown: str, force: bool = False) -> list[Path]:
    """Bring back what the applies to a script changed.

    Args:
        script: the entry script.
        shown: how messages name it.
        force: also where a file was changed since.

    Returns:
        The files that were brought back or taken away. New files stay while another script of the folder may need them.

    Raises:
        UserError: there is nothing to undo, a file was changed since, or one cannot be written; all are as they were.
    """
    journal = script.parent / _JOURNAL
    records = _read(journal)
    record = records.pop(script.name, None)
    if not record:
        raise UserError(
            Problem(shown, 0, 0, "RF011", "there is nothing to undo: no apply to this script is on record.")
        )
    mine = {name: entry for name, entry in record.items() if entry["before"] is not None or not records}
    changed = [name for name, entry in mine.items() if _digest_of(script.parent / name) != entry["after"]]
    if changed and not force:
        names = ", ".join(changed)
        message = f"was not undone: {names} changed since. --force undoes all the same, and loses what was changed."
        raise UserError(Problem(shown, 0, 0, "RF012", message))
    for heir in list(records.values())[-1:]:  # the last undo takes the files away that all scripts need
        for name in record.keys() - mine.keys():
            heir.setdefault(name, record[name])
    targets = [
        _Target(script.parent / name, None if e["before"] is None else base64.b64decode(e["before"]), e["mode"])
        for name, e in mine.items()
    ]
    _put([*targets, _journal(journal, records)])
    if not records:
        (journal.parent / ".gitignore").unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            journal.parent.rmdir()
    return [target.path for target in targets]


def _put(targets: Sequence[_Target]) -> None:
    """Make every file what it shall be, or leave all as they are."""
    made: list[Path] = []
    temporary: dict[Path, Path] = {}
    kept: dict[Path, Path | None] = {}
    done: list[Path] = []
    here = targets[0].path
    try:
        for target in targets:
            here = target.path
            if target.data is not None:
                if not here.parent.is_dir():
                    here.parent.mkdir()
                    made.append(here.parent)
                    (here.parent / ".gitignore").write_text("*\n")
                temporary[here] = _temporary(target)
        for target in targets:
            here = target.path
            kept[here] = _kept(here)
            if target.data is None:
                here.unlink(missing_ok=True)
            else:
                os.replace(temporary[here], here)
            done.append(here)
    except BaseException as error:
        for path in reversed(done):
            original = kept.pop(path)
            if original is None:
                path.unlink(missing_ok=True)
            else:
                os.replace(original, path)
        _forget(kept)
        for file in temporary.values():
            file.unlink(missing_ok=True)
        for folder in made:
            (folder / ".gitignore").unlink(missing_ok=True)
            folder.rmdir()
        if not isinstance(error, OSError):
            raise
        message = f"cannot be written: {error.strerror or error}. Nothing was changed."
        raise UserError(Problem(shown_path(here), 0, 0, "RF010", message)) from None
    _forget(kept)


def _forget(kept: dict[Path, Path | None]) -> None:
    for original in kept.values():
        if original is not None:
            original.unlink(missing_ok=True)


def _kept(path: Path) -> Path | None:
    """Keep a file under a second name beside it, from which it can be brought back even on a full disk."""
    if path.is_dir():
        raise IsADirectoryError(21, "a folder has its name", str(path))
    if not path.exists():
        return None
    kept = path.with_name(f".{path.name}.kept")
    kept.unlink(missing_ok=True)
    try:
        os.link(path, kept)
    except OSError:
        shutil.copy2(path, kept)
    return kept


def _temporary(target: _Target) -> Path:
    """Write a file's new bytes beside it."""
    assert target.data is not None
    if target.path.exists() and not os.access(target.path, os.W_OK):
        raise PermissionError(13, "it is write-protected", str(target.path))
    handle, name = tempfile.mkstemp(dir=target.path.parent, prefix=f".{target.path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(target.data)
        if target.mode is not None:
            os.chmod(name, target.mode)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _mode(file: NewFile) -> int:
    mask = os.umask(0)
    os.umask(mask)
    mode = stat.S_IMODE(file.path.stat().st_mode) if file.before is not None else 0o666 & ~mask
    return mode | 0o111 & ~mask if file.executable else mode


def _entry(file: NewFile, older: dict[str, Any] | None) -> dict[str, Any]:
    """Return the record of a file; the older original counts where nobody wrote the file since."""
    if older is not None and file.before is not None and _digest(file.before) == older["after"]:
        return {**older, "after": _digest(file.after)}
    if file.before is None:
        return {"before": None, "mode": None, "after": _digest(file.after)}
    mode = stat.S_IMODE(file.path.stat().st_mode)
    return {"before": base64.b64encode(file.before).decode(), "mode": mode, "after": _digest(file.after)}


def _journal(path: Path, records: dict[str, Any]) -> _Target:
    return _Target(path, json.dumps(records, indent=1).encode() if records else None, 0o600)


def _read(journal: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the records by script and file.

    Raises:
        UserError: the journal is none; it may hold originals, so nothing is written over it.
    """
    try:
        data = json.loads(journal.read_text(encoding="utf-8"))
        for record in data.values():
            for entry in record.values():
                _ = entry["before"], entry["mode"], entry["after"]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        message = "is no record that can be read. Move it away; it may hold the originals of earlier applies."
        raise UserError(Problem(shown_path(journal), 0, 0, "RF014", message)) from None
    return dict(data)


def _digest_of(path: Path) -> str:
    return _digest(path.read_bytes()) if path.is_file() else ""


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
