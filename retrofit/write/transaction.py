"""Make several files what a step says: all of them or none, whatever happens meanwhile.

What holds, and how:

- The step, with the bytes before and after, is on the disk before the first file changes. Where the process or the
  power fails, `recover` finds it, and finishes or takes back the whole. At any moment a file is either old or new.
- A file is replaced only where it is what was read when the change was worked out. The new file and the old one
  exchange their names in one step of the system, and the old one is looked at afterwards: if a program had saved it in
  the meantime it goes back, and nothing is written. A new file never takes a name that something has.
- A program that had the old file open can go on writing into it. So it is looked at once more at the end, on Linux
  when nobody has it open for writing any more. A file whose bytes are nobody's on record is never removed: it is put
  back, or aside in `.retrofit`.

Where a file system cannot exchange names (NFS, some of FUSE), the old file gets a second name, and is compared just
before the new one takes its first: what a program saves there in the microseconds between may be lost. Where the system
does not tell of open files (macOS), so may be what a program writes after the last look into an old file that it had
open all the while. Anything else that is said here holds there too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from retrofit.errors import Problem, UserError, shown_path
from retrofit.write.fence import target
from retrofit.write.files import DISK, Content
from retrofit.write.journal import PENDING, SAVED, STAGED, UNDONE, Journal, Step, step_bytes
from retrofit.write.move import PART, ChangedError, Move, holds, write_whole


@dataclass(frozen=True)
class Recovered:
    """What became of an unfinished step.

    Attributes:
        finished: whether it is made; else all is as it was before it.
        told: the same for the user.
    """

    step: Step
    finished: bool
    told: Problem


def make(journal: Journal, step: Step) -> None:
    """Make every file what a step says, and put the step on record; an undo takes others from it.

    Args:
        journal: the project's journal, which is locked and has nothing unfinished.
        step: what to do; its place, and the folders that it makes, are added here.

    Raises:
        UserError: a file has changed, or cannot be written; all are as they were.
    """
    here = journal.folder
    begun = False
    moves: list[Move] = []
    try:
        for entry in step.entries:
            here = journal.root / entry.path
            target(journal.root, entry.path)
        for move in _moves(journal, step):
            here = move.path
            move.check()
            moves.append(move)
        folders = _missing_folders(journal.root, moves)
        here = journal.folder
        step = replace(step, place=DISK.number(here), folders=tuple(sorted({*step.folders, *folders})))
        _stage(journal, moves)
        begun = True
        _keep(journal.folder / PENDING, step_bytes(step))
        for folder in folders:
            here = journal.root / folder
            DISK.make_folder(here)
            DISK.flush_folder(here.parent)
        for move in moves:
            here = move.path
            move.forth()
        _flush_around(moves)
        for move in moves:
            here = move.path
            move.settle()
        _mark(journal, step)
    except BaseException as error:
        left = _give_up(journal, step, moves if begun else [])
        if isinstance(error, ChangedError):
            raise _refusal(error.path, "RF031", f"was changed while this command worked. {left} Run again.") from None
        if not isinstance(error, OSError):
            raise
        raise _refusal(here, "RF010", f"cannot be written: {error.strerror or error}. {left}") from None
    with suppress(OSError):  # the next command sees to what is left
        _tidy(journal, step)
        _clear(journal, moves)


def recover(journal: Journal) -> Recovered | None:
    """Finish or take back what a command left unfinished.

    Args:
        journal: the project's journal, which is locked.

    Returns:
        What was done, None where nothing was unfinished.

    Raises:
        UserError: it cannot be finished or taken back without a decision of the user.
    """
    try:
        names = DISK.names(journal.folder)
        if UNDONE in names:
            step = journal.step(journal.folder / UNDONE)
            moves = _moves(journal, step)
            said = _finish(journal, step)
        elif PENDING in names:
            step = journal.step(journal.folder / PENDING)
            moves = _moves(journal, step)
            said = _resume(journal, step, moves)
        else:
            moves, said = [], None
        _clear(journal, moves)
    except OSError as error:
        message = f"an unfinished command can be neither finished nor taken back: {error.strerror or error}."
        raise _refusal(journal.folder, "RF010", message) from None
    return said


def unfinished(journal: Journal) -> bool:
    """Whether a command was stopped while it wrote; it may also be at work just now."""
    return journal.problem() is None and not {PENDING, UNDONE, STAGED}.isdisjoint(DISK.names(journal.folder))


def _resume(journal: Journal, step: Step, moves: Sequence[Move]) -> Recovered:
    if step.place != DISK.number(journal.folder):
        _put_on_record(journal)
        _clear(journal, moves)
        message = (
            f"holds an unfinished {step.command} that was not begun here: the folder was copied, or came with the "
            f"project. Nothing was changed. {_undo(step)} takes it back, if it is yours."
        )
        raise _refusal(journal.folder, "RF032", message)
    if all(holds(move.path, move.entry.after) for move in moves):
        _flush_around(moves)
        _mark(journal, step)
        return _finish(journal, step)
    edited = _take_back(journal, step, moves)
    if edited:
        _clear(journal, moves)
        files = ", ".join(shown_path(move.path) for move in edited)
        message = f"an interrupted {step.command} is taken back, but for what was edited since: {files}. "
        raise _refusal(journal.folder, "RF032", f"{message}{_undo(step)} merges your edits.")
    return _recovered(journal, step, False)


def _finish(journal: Journal, step: Step) -> Recovered:
    _tidy(journal, step)
    return _recovered(journal, step, True)


def _recovered(journal: Journal, step: Step, finished: bool) -> Recovered:
    files = ", ".join(shown_path(journal.root / entry.path) for entry in step.entries)
    done = "finished" if finished else "taken back"
    state = "as it writes them" if finished else "as they were before it"
    message = f"the {step.command} of {step.time} had been interrupted and is {done}: {files} are {state}."
    return Recovered(step, finished, Problem(shown_path(journal.folder), 0, 0, "RF032", message))


def _undo(step: Step) -> str:
    return f"`retrofit undo {step.scripts[0] if step.scripts else step.entries[0].path}`"


def _moves(journal: Journal, step: Step) -> list[Move]:
    """Return the files of a step: the new ones before those that may need them, those that go at last."""
    staged = journal.folder / STAGED
    moves = [Move(one, target(journal.root, one.path), staged / str(n)) for n, one in enumerate(step.entries)]
    return sorted(moves, key=lambda move: (move.entry.before is not None, move.entry.after is None))


def _missing_folders(root: Path, moves: Iterable[Move]) -> tuple[str, ...]:
    folders = {folder for move in moves if move.entry.after is not None for folder in move.path.parents}
    missing = sorted(folder for folder in folders if folder.is_relative_to(root) and not folder.exists())
    return tuple(folder.relative_to(root).as_posix() for folder in missing)


def _stage(journal: Journal, moves: Sequence[Move]) -> None:
    staged = journal.folder / STAGED
    DISK.make_folder(staged)
    for move in moves:
        move.stage(move.entry.after)
    DISK.flush_folder(journal.folder)


def _flush_around(moves: Iterable[Move]) -> None:
    folders = {folder for move in moves for folder in (move.path.parent, move.staged.parent)}
    for folder in sorted(folders):
        if folder.exists():
            DISK.flush_folder(folder)


def _mark(journal: Journal, step: Step) -> None:
    """Mark a step as made: from here on it stands, whatever happens."""
    if step.command == "undo":
        DISK.rename(journal.folder / PENDING, journal.folder / UNDONE)
    else:
        _put_on_record(journal)


def _put_on_record(journal: Journal) -> None:
    DISK.rename(journal.folder / PENDING, journal.path(max(journal.numbers(), default=0) + 1))


def _tidy(journal: Journal, step: Step) -> None:
    """Take from the record what an undo that is made takes back."""
    DISK.flush_folder(journal.folder)
    if step.command != "undo":
        return
    _remove_folders(journal, step)
    for number, other in step.replaces.items():
        if other is not None:
            _keep(journal.path(number), step_bytes(other))
        elif number in journal.numbers():
            DISK.unlink(journal.path(number))
    DISK.flush_folder(journal.folder)
    DISK.unlink(journal.folder / UNDONE)
    DISK.flush_folder(journal.folder)


def _give_up(journal: Journal, step: Step, moves: Sequence[Move]) -> str:
    """Take back what was begun, and return what that came to."""
    try:
        edited = _take_back(journal, step, moves)
        _clear(journal, moves)
    except OSError as error:
        why = error.strerror or error
        return f"What was begun could not be taken back ({why}); the next retrofit command here sees to it."
    if edited:
        files = ", ".join(shown_path(move.path) for move in edited)
        return f"Nothing else was changed, and {_undo(step)} brings back what {files} was before."
    return "Nothing was changed."


def _take_back(journal: Journal, step: Step, moves: Sequence[Move]) -> list[Move]:
    """Let every file be what it was, and return those that somebody has saved since, for which the step is kept."""
    edited = [move for move in reversed(moves) if not move.back()]
    _remove_folders(journal, step)
    _flush_around(moves)
    if PENDING in DISK.names(journal.folder):
        if edited:
            _put_on_record(journal)
        else:
            DISK.unlink(journal.folder / PENDING)
    return edited


def _remove_folders(journal: Journal, step: Step) -> None:
    """Remove the folders of a step, where they are empty."""
    for folder in reversed(step.folders):
        with suppress(OSError):  # there are other files
            DISK.remove_folder(journal.root / folder)


def _clear(journal: Journal, moves: Sequence[Move]) -> None:
    """Remove what waited or was replaced, and put aside what nobody's record knows."""
    staged = journal.folder / STAGED
    known = {content.data for move in moves for content in (move.entry.before, move.entry.after) if content is not None}
    for folder in (journal.folder, staged):
        for name in DISK.names(folder):
            if name.endswith(PART):
                DISK.unlink(folder / name)
    for name in DISK.names(staged):
        content = DISK.read(staged / name)
        if not moves or content is None or content.data in known:
            DISK.unlink(staged / name)
        else:
            _save(journal, staged / name)
    if STAGED in DISK.names(journal.folder):
        DISK.remove_folder(staged)


def _save(journal: Journal, path: Path) -> None:
    folder = journal.folder / SAVED
    if SAVED not in DISK.names(journal.folder):
        DISK.make_folder(folder)
    DISK.rename(path, folder / f"{len(DISK.names(folder))}-{path.name}")


def _keep(path: Path, data: bytes) -> None:
    """Write a file of the journal."""
    write_whole(path, Content(data, 0o600))
    DISK.flush_folder(path.parent)


def _refusal(path: Path, code: str, message: str) -> UserError:
    return UserError(Problem(shown_path(path), 0, 0, code, message))
