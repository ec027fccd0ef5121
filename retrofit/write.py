"""Write files whole: each atomically, all or none, the originals kept so that `retrofit undo` brings them back."""

from __future__ import annotations

import base64
import json
import os
import stat
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from retrofit.errors import Problem, UserError
from retrofit.plan import NewFile

_JOURNAL = ".retrofit/undo.json"


def write_files(script: Path, files: Sequence[NewFile]) -> None:
    """Write all files, or none where one cannot be written.

    Args:
        script: the entry script; the originals are kept in `.retrofit/` beside it.
        files: what to write.

    Raises:
        UserError: a file cannot be written; those written before are as they were.
    """
    journal = script.parent / _JOURNAL
    prepared: list[tuple[Path, NewFile]] = []
    try:
        for file in files:
            prepared.append((_prepare(file), file))
        record = _record(script, files)
        journal.parent.mkdir(exist_ok=True)
        (journal.parent / ".gitignore").write_text("*\n")
        _replace(journal, json.dumps(_merged(journal, script.name, record), indent=1).encode(), 0o600)
    except OSError as error:
        for temporary, _ in prepared:
            temporary.unlink(missing_ok=True)
        raise UserError(_cannot_write(error, files[0].path)) from None
    done: list[NewFile] = []
    try:
        for temporary, file in prepared:
            os.replace(temporary, file.path.resolve())
            done.append(file)
    except OSError as error:
        for temporary, _ in prepared:
            temporary.unlink(missing_ok=True)
        for file in done:
            if file.before is None:
                file.path.unlink(missing_ok=True)
            else:
                file.path.write_bytes(file.before)
        raise UserError(_cannot_write(error, files[len(done)].path)) from None


def undo(script: Path, shown: str, force: bool = False) -> list[Path]:
    """Bring back what the last apply to a script changed.

    Args:
        script: the entry script.
        shown: how messages name it.
        force: also where a file was changed since.

    Returns:
        The files that were brought back or taken away.

    Raises:
        UserError: there is nothing to undo, or a file was changed since.
    """
    journal = script.parent / _JOURNAL
    records = _read(journal)
    record = records.pop(script.name, None)
    if record is None:
        raise UserError(
            Problem(shown, 0, 0, "RF011", "there is nothing to undo: no apply to this script is on record.")
        )
    changed = [
        script.parent / name
        for name, entry in record.items()
        if not (script.parent / name).is_file() or _digest((script.parent / name).read_bytes()) != entry["after"]
    ]
    if changed and not force:
        names = ", ".join(path.name for path in changed)
        raise UserError(
            Problem(
                shown,
                0,
                0,
                "RF012",
                f"was not undone: {names} changed since. Undo all the same with --force.",
            )
        )
    for name, entry in record.items():
        path = script.parent / name
        if entry["before"] is None:
            path.unlink(missing_ok=True)
        else:
            _replace(path, base64.b64decode(entry["before"]), entry["mode"])
    _replace(journal, json.dumps(records, indent=1).encode(), 0o600)
    return [script.parent / name for name in record]


def _record(script: Path, files: Sequence[NewFile]) -> dict[str, Any]:
    return {
        os.path.relpath(file.path, script.parent): {
            "before": None if file.before is None else base64.b64encode(file.before).decode(),
            "mode": stat.S_IMODE(file.path.stat().st_mode) if file.before is not None else None,
            "after": _digest(file.after),
        }
        for file in files
    }


def _merged(journal: Path, name: str, record: dict[str, Any]) -> dict[str, Any]:
    """Add a record to those of other scripts; an earlier one of the same script keeps its older originals."""
    records = _read(journal)
    older = records.get(name, {})
    for path, entry in record.items():
        if path in older:
            entry = {**older[path], "after": entry["after"]}
        older[path] = entry
    return {**records, name: older}


def _read(journal: Path) -> dict[str, Any]:
    try:
        data = json.loads(journal.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _prepare(file: NewFile) -> Path:
    """Write a file's new bytes beside it, with the mode that it shall have."""
    if file.before is not None and not os.access(file.path, os.W_OK):
        raise PermissionError(13, "it is write-protected", str(file.path))
    mode = stat.S_IMODE(file.path.stat().st_mode) if file.before is not None else 0o666 & ~_umask()
    if file.executable:
        mode |= 0o111 & ~_umask()
    handle, name = tempfile.mkstemp(dir=file.path.resolve().parent, prefix=f".{file.path.name}.")
    with os.fdopen(handle, "wb") as stream:
        stream.write(file.after)
    os.chmod(name, mode)
    return Path(name)


def _replace(path: Path, data: bytes, mode: int) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "wb") as stream:
        stream.write(data)
    os.chmod(name, mode)
    os.replace(name, path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def _cannot_write(error: OSError, path: Path) -> Problem:
    return Problem(
        str(error.filename or path),
        0,
        0,
        "RF010",
        f"cannot be written: {error.strerror}. Nothing was changed.",
    )
