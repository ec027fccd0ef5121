"""Write what a command has worked out, and put it on record."""

from __future__ import annotations

import datetime
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from retrofit.errors import Problem, UserError, shown_path
from retrofit.write.fence import below, outside, root_of
from retrofit.write.files import Content, new_mode
from retrofit.write.journal import Entry, Journal, Step
from retrofit.write.lock import locked
from retrofit.write.new import NewFile, final_files
from retrofit.write.transaction import make, recover, unfinished


@dataclass(frozen=True)
class Written:
    """What a command writes for one script.

    Attributes:
        script: the script's real path.
        files: what is written, on top of what is written for the scripts before it.
        uses: the real paths of further files that the script needs as they are now.
    """

    script: Path
    files: Sequence[NewFile]
    uses: Sequence[Path] = ()


def write_files(root: Path, command: str, *written: Written) -> None:
    """Write all files, or none where one cannot be written; `retrofit undo` brings the old ones back.

    Args:
        root: the project's root, below which all of them lie.
        command: what `retrofit undo --list` calls it.
        written: what is written for each script.

    Raises:
        UserError: a file lies elsewhere, has changed since it was read, is gone, or cannot be written; all are as they
            were.
    """
    journal = Journal(root)
    files = final_files(one.files for one in written)
    problems = [
        Problem(shown_path(file.path), 0, 0, "RF030", why) for file in files if (why := outside(root, file.path))
    ]
    if problems:
        raise UserError(*problems)
    with locked(journal):
        recover(journal)
        made = {file.path for file in files}
        needed = [path for one in written for path in one.uses if path not in made]
        gone = [path for path in needed if not os.path.lexists(path)]  # by an undo since the script was read
        if gone:
            message = "was removed while this command worked. Nothing was changed. Run again."
            raise UserError(Problem(shown_path(gone[0]), 0, 0, "RF031", message))
        entries = tuple(_entry(root, file, written) for file in files)
        uses = {path for one in written for used in one.uses if (path := below(root, used)) is not None}
        make(journal, Step(command, entries, now(), tuple(sorted(uses))))


def now() -> str:
    """Return the time as a step has it."""
    return datetime.datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")


def journals_around(script: Path) -> Iterator[Journal]:
    """Yield the journals that may have a script on record: its project's, and the user's own in folders around it.

    Args:
        script: the script as the user gave it.
    """
    own = root_of(script)
    folder = Path(os.path.realpath(script if script.is_dir() else script.parent))
    for root in (folder, *folder.parents):
        journal = Journal(root)
        if journal.folder.is_dir() and (root == own or journal.is_own()):
            yield journal


def recover_around(script: Path) -> list[Problem]:
    """Finish or take back what a command left unfinished in the project of a script, and return what was done.

    Raises:
        UserError: it cannot be finished or taken back without a decision of the user.
    """
    told = []
    for journal in journals_around(script):
        if unfinished(journal):
            with locked(journal):
                recovered = recover(journal)
            told += [recovered.told] if recovered is not None else []
    return told


def unfinished_around(script: Path) -> list[Problem]:
    """Return what a command left unfinished in the project of a script."""
    message = (
        "a command was interrupted here, and its files may be half written. "
        "The next `retrofit apply` or `retrofit undo` sees to it."
    )
    return [
        Problem(shown_path(journal.folder), 0, 0, "RF032", message)
        for journal in journals_around(script)
        if unfinished(journal)
    ]


def _entry(root: Path, file: NewFile, written: Sequence[Written]) -> Entry:
    path = below(root, file.path)
    assert path is not None
    scripts = [
        below(root, one.script)
        for one in written
        if file.path in one.uses or any(file.path == other.path for other in one.files)
    ]
    mode = new_mode()
    if file.before is not None:
        with suppress(OSError):  # whatever is wrong there, the transaction says so
            mode = stat.S_IMODE(os.lstat(file.path).st_mode) & 0o777
    after = Content(file.after, mode | (mode & 0o444) >> 2 if file.executable else mode)
    before = None if file.before is None else Content(file.before, mode)
    return Entry(path, before, after, tuple(dict.fromkeys(script for script in scripts if script is not None)))
