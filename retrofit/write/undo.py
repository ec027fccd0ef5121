"""Bring back what commands changed, step by step, and keep what the user has edited since."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from retrofit.errors import Problem, UserError, shown_path
from retrofit.write.fence import below, target
from retrofit.write.files import DISK, Content
from retrofit.write.journal import Entry, Journal, Step
from retrofit.write.lock import locked
from retrofit.write.merge import merge
from retrofit.write.moved import alike, find_moved, likeness
from retrofit.write.record import journals_around, now
from retrofit.write.transaction import make, recover


@dataclass(frozen=True)
class Restored:
    """What an undo does to one file.

    Attributes:
        path: where the file is.
        was: the path that is on record, where it was renamed since; else "".
        before: its content now, None where there is none.
        after: its content then.
        how: what happens to it: it is as it was, gone as it was, merged with what was edited since, left because of
            that, or left because another script needs it.
        conflicts: the lines on which marks of a conflict begin.
        needed: the scripts that need it.
    """

    path: Path
    was: str
    before: Content | None
    after: Content | None
    how: Literal["restored", "removed", "merged", "kept", "left"]
    conflicts: tuple[int, ...] = ()
    needed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Undone:
    """What an undo does.

    Attributes:
        files: to each file.
        recovered: what became of unfinished commands first.
    """

    files: tuple[Restored, ...]
    recovered: tuple[Problem, ...] = ()


def steps_on_record(script: Path) -> list[tuple[Path, int, Step]]:
    """Return the root, number and content of each step on record, the newest first.

    Args:
        script: a script, of which those count that wrote for it; or a folder, of whose project all do.

    Raises:
        UserError: a record cannot be read.
    """
    found = []
    for journal in journals_around(script):
        path = below(journal.root, Path(os.path.realpath(script)))
        for number, step in reversed(journal.steps().items()):
            if script.is_dir() or path in step.scripts:
                found.append((journal.root, number, step))
    return found


def undo(script: Path, shown: str, steps: int | None = None, force: bool = False, dry_run: bool = False) -> Undone:
    """Bring back what commands changed for a script.

    Args:
        script: the entry script as the user gave it; it may have been renamed since.
        shown: how messages name it.
        steps: how many steps to go back, None for all.
        force: bring the originals back also where a file was edited since, and lose what was edited.
        dry_run: only say what would be done.

    Returns:
        What was done. Files that another script needs stay, and so does what was edited since.

    Raises:
        UserError: there is nothing to undo, an edited file cannot be merged, or one cannot be written; all are as they
            were.
    """
    told: tuple[Problem, ...] = ()
    for journal in journals_around(script):
        with locked(journal):
            recovered = None if dry_run else recover(journal)
            told += (recovered.told,) if recovered is not None else ()
            on_record = journal.steps()
            name = _recorded_name(journal.root, script, on_record)
            if name is not None:
                undoing = _Undoing(journal, on_record, name, force)
                files = undoing.restored(steps)
                if undoing.unmerged:
                    names = ", ".join(undoing.unmerged)
                    message = (
                        f"was not undone: {names} changed since, and cannot be merged without git. "
                        "--force undoes all the same, and loses what was changed."
                    )
                    raise UserError(Problem(shown, 0, 0, "RF012", message))
                if not dry_run:
                    make(journal, undoing.step(files))
                return Undone(files, told)
            if recovered is not None and not recovered.finished:
                return Undone((), told)
    raise UserError(Problem(shown, 0, 0, "RF011", "there is nothing to undo: no apply to this script is on record."))


def _recorded_name(root: Path, script: Path, steps: dict[int, Step]) -> str | None:
    """Return the name of a script on record: its path, or the one that it had before it was renamed."""
    real = Path(os.path.realpath(script))
    path = below(root, real)
    named = {name: entry for step in steps.values() for entry in step.entries for name in entry.scripts}
    if path is None or path in named:
        return path if path in named else None
    gone = {
        entry.path: entry.after
        for step in steps.values()
        for entry in step.entries
        if entry.path in named and entry.after is not None and not os.path.lexists(root / entry.path)
    }
    best = max(((likeness(real, content.data), name) for name, content in gone.items()), default=(0.0, ""))
    return best[1] if alike(best[0]) else None


class _Undoing:
    """What taking back the last steps of a script comes to.

    Attributes:
        unmerged: the files that were edited since and cannot be merged.
        remaining: what becomes of each step.
    """

    def __init__(self, journal: Journal, steps: dict[int, Step], script: str, force: bool) -> None:
        self._root = journal.root
        self._steps = steps
        self._script = script
        self._force = force
        self._needed: dict[str, tuple[str, ...]] = {}
        self.unmerged: list[str] = []
        self.remaining: dict[int, Step] = dict(steps)

    def restored(self, count: int | None) -> tuple[Restored, ...]:
        """Return what becomes of each file when the last ``count`` steps are taken back, all of them for None."""
        numbers = [
            number for number in sorted(self._steps, reverse=True) if self._script in self._steps[number].scripts
        ]
        taken: dict[str, list[Entry]] = {}
        for number in numbers[:count]:
            for entry in self._take(number):
                taken.setdefault(entry.path, []).append(entry)
        files = [self._file(path, entries) for path, entries in taken.items()]
        left = [Restored(self._root / path, "", None, None, "left", (), who) for path, who in self._needed.items()]
        return (*(file for file in files if file.before != file.after or file.how == "kept"), *left)

    def step(self, files: Sequence[Restored]) -> Step:
        """Return the step that does it."""
        entries = []
        for file in files:
            path = below(self._root, file.path)
            if file.before != file.after and path is not None:
                entries.append(Entry(path, file.before, file.after, (self._script,)))
        replaces = {
            number: step if step.entries else None
            for number, step in self.remaining.items()
            if step is not self._steps[number]
        }
        folders = {folder for number in replaces for folder in self._steps[number].folders}
        return Step("undo", tuple(entries), now(), (), replaces, 0, tuple(sorted(folders)))

    def _take(self, number: int) -> list[Entry]:
        """Take what a step wrote for the script alone from it; the rest stays there."""
        step = self._steps[number]
        later = [other for n, other in self.remaining.items() if n > number and other.entries]
        taken, rest = [], []
        for entry in step.entries:
            if self._script not in entry.scripts:
                rest.append(entry)
                continue
            heirs = [other for other in later if _concerns(other, entry.path)]
            needing = [name for name in entry.scripts if name != self._script]
            needing += [name for other in heirs for name in other.scripts if name != self._script]
            if needing:
                rest.append(replace(entry, scripts=tuple(dict.fromkeys(needing))))
                self._needed[entry.path] = rest[-1].scripts
            else:
                taken.append(entry)
        self.remaining[number] = replace(step, entries=tuple(rest))
        return taken

    def _place(self, path: str) -> Path:
        try:
            return target(self._root, path)
        except OSError as error:
            message = f"cannot be undone: {error.strerror}. Nothing was changed."
            raise UserError(Problem(shown_path(self._root / path), 0, 0, "RF014", message)) from None

    def _file(self, path: str, entries: Sequence[Entry]) -> Restored:
        """Return what becomes of a file.

        Args:
            entries: what wrote it, the newest first.
        """
        newest, oldest = entries[0], entries[-1]
        place = self._place(path)
        content = DISK.read(place)
        was = ""
        if content is None and newest.after is not None:
            known = {entry.path for step in self._steps.values() for entry in step.entries} - {path}
            moved = find_moved(self._root, path, newest.after, known)
            if moved is not None:
                was, place = path, self._place(moved)
                content = DISK.read(place)
        data = content.data if content is not None else None
        merged = False
        conflicts: tuple[int, ...] = ()
        for after, before in _segments(entries):
            if data in (after, before) or data is None or self._force:
                data = before
            elif after is None or before is None:  # what retrofit made, or took away, is the user's now
                return Restored(place, was, content, content, "kept")
            else:
                result = merge(data, after, before)
                if result is None:
                    self.unmerged.append(shown_path(place))
                    return Restored(place, was, content, content, "kept")
                data, conflicts, merged = result.data, result.conflicts, True
        if data is None:
            return Restored(place, was, content, None, "removed")
        mode = oldest.before.mode if oldest.before is not None else 0o644
        if content is not None and newest.after is not None and content.mode != newest.after.mode:
            mode = content.mode
        how: Literal["merged", "restored"] = "merged" if merged else "restored"
        return Restored(place, was, content, Content(data, mode), how, conflicts)


def _concerns(step: Step, path: str) -> bool:
    return path in step.uses or any(entry.path == path for entry in step.entries)


def _segments(entries: Sequence[Entry]) -> list[tuple[bytes | None, bytes | None]]:
    """Return what a file was after and before its steps, the newest first, those that follow on each other as one."""
    found: list[tuple[bytes | None, bytes | None]] = []
    for entry in entries:
        after = entry.after.data if entry.after is not None else None
        before = entry.before.data if entry.before is not None else None
        if found and found[-1][1] == after:
            found[-1] = (found[-1][0], before)
        else:
            found.append((after, before))
    return found
