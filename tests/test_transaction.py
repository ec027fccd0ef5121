"""All files or none, whatever stops, fails or is changed meanwhile."""

from __future__ import annotations

import errno
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from retrofit.errors import UserError
from retrofit.write.files import DISK
from retrofit.write.journal import Journal
from retrofit.write.lock import locked
from retrofit.write.new import NewFile
from retrofit.write.record import Written, recover_around, write_files
from retrofit.write.transaction import unfinished
from retrofit.write.undo import undo
from tests.faults import CHANGING, around, before_each, no_flushes, unable
from tests.power import Disk

ROOT = Path(__file__).resolve().parents[1]
#: Whether to go through everything, which takes minutes, instead of a sample.
WHOLE = bool(os.environ.get("RETROFIT_TEST_WHOLE"))
#: What some file systems cannot do: none, all that is new, and second names too.
POOR: list[tuple[str, ...]] = [(), ("exchange", "rename_to_free")]
POOR += [("exchange", "rename_to_free", "link")] if WHOLE else []


def poor_name(names: tuple[str, ...]) -> str:
    return f"without {' '.join(names)}" if names else "all"


@pytest.fixture(params=POOR, ids=poor_name)
def poor(request: pytest.FixtureRequest) -> Any:
    with around(unable(*request.param)):
        yield request.param


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return mode and bytes of all files but retrofit's own."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mode & 0o777, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".retrofit" not in path.parts
    }


def begin(folder: Path) -> None:
    """Put a script and a module of its into a folder."""
    (folder / "lib").mkdir(parents=True)
    (folder / "train.py").write_bytes(b"old script\n" * 300)
    (folder / "train.py").chmod(0o750)
    (folder / "lib" / "steps.py").write_bytes(b"old steps\n")


def change(folder: Path) -> None:
    """Change both, and write two new files."""
    files = [
        NewFile(folder / "train.py", b"old script\n" * 300, b"new script\n" * 300),
        NewFile(folder / "lib" / "steps.py", b"old steps\n", b"new steps\n"),
        NewFile(folder / "helper.py", None, b"helper\n"),
        NewFile(folder / "lib" / "deep" / "train.sh", None, b"launcher\n", executable=True),
    ]
    write_files(folder, "apply", Written(folder / "train.py", files))


def take_back(folder: Path) -> None:
    undo(folder / "train.py", "train.py")


# ---- stopped


@pytest.mark.parametrize(
    ("command", "names"),
    [(command, names) for command in ("apply", "undo", "fix") for names in (POOR if WHOLE else POOR[:1])],
)
def test_a_kill_at_any_operation_or_moment_leaves_what_one_command_puts_right(
    tmp_path: Path, command: str, names: tuple[str, ...]
) -> None:
    how = ["--again", "8", "--random", "200"] if WHOLE else ["--every", "6", "--random", "3"]
    seen = killed(tmp_path, command, "--unable", *names, *how, "--seed", "7")
    assert seen["operations"] > 40
    assert seen["old, told"]
    assert seen["new, told"]


def killed(folder: Path, *words: str) -> Counter[str]:
    """Run trials in a process of their own, and return how often each outcome was seen."""
    command = [sys.executable, "-m", "tests.crash", words[0], str(folder / "project"), *words[1:]]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout.splitlines()[-1])
    assert answer["wrong"] == []
    return Counter(answer["seen"])


@contextmanager
def failing_from(first: Callable[[str, tuple[Any, ...]], bool], once: bool = False) -> Iterator[None]:
    """Let the operation for which ``first`` holds fail, and all that come after it unless only ``once``."""
    failing = False

    def tell(name: str, arguments: tuple[Any, ...]) -> None:
        nonlocal failing, first
        if failing or first(name, arguments):
            failing = not once
            first = (lambda name, arguments: False) if once else first
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with before_each(tell):
        yield


def replaces_script(name: str, arguments: tuple[Any, ...]) -> bool:
    return name in ("exchange", "rename") and arguments[-1].name == "train.py"


def flushes_all(name: str, arguments: tuple[Any, ...]) -> bool:
    return name == "flush_folder" and arguments[0].name == "staged"


def fail_to_change(folder: Path) -> None:
    """Let the last file of a change be one that cannot be written, so that the others are taken back."""
    with failing_from(replaces_script, once=True), pytest.raises(UserError):
        change(folder)


def recover(folder: Path) -> None:
    recover_around(folder / "train.py")


def take_half_back(folder: Path) -> None:
    """Stop a change, as a kill does, while it writes the last file, and let the next command see to it."""
    with failing_from(replaces_script), pytest.raises(UserError):
        change(folder)
    recover(folder)


def finish(folder: Path) -> None:
    """Stop a change when all files are written, and let the next command see to it."""
    with failing_from(flushes_all), pytest.raises(UserError):
        change(folder)
    recover(folder)


@pytest.mark.parametrize(
    ("run", "names"),
    [
        (run, names)
        for run in (change, take_back, fail_to_change, take_half_back, finish)
        for names in (POOR if WHOLE or run is change else POOR[:1])
    ],
)
def test_power_that_fails_at_any_operation_leaves_what_one_command_puts_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[[Path], None], names: tuple[str, ...]
) -> None:
    monkeypatch.setattr(DISK, "number", lambda path: 1)  # so that a copy of the folder is taken for itself
    folder = tmp_path / "project"
    begin(folder)
    old, new = before_and_after(tmp_path)
    if run is take_back:
        change(folder)
    left: list[Path] = []
    dice = random.Random(5)

    def look(name: str, arguments: tuple[Any, ...]) -> None:
        if WHOLE or not dice.randrange(3):
            left.extend(disk.after_power_loss(tmp_path / f"after {len(left)}", dice, 20 if WHOLE else 1))

    disk = Disk(folder)
    with around(no_flushes), around(unable(*names)), disk.noting(), before_each(look, CHANGING):
        run(folder)
    look("", ())
    outcomes: Counter[str] = Counter()
    with around(no_flushes):
        for here in left:
            state = files(here)
            for name in {*state, *old, *new}:
                assert state.get(name) in (old.get(name), new.get(name)), f"{name} in {here}"
            recover(here)
            state = files(here)
            outcomes["old" if state == old else "new" if state == new else f"mixed in {here}"] += 1
            assert len(Journal(here).numbers()) == (state == new), f"steps in {here}"
    assert outcomes.keys() == ({"old"} if run in (fail_to_change, take_half_back) else {"old", "new"})
    assert outcomes.total() > 12


def before_and_after(folder: Path) -> tuple[dict[str, tuple[int, bytes]], dict[str, tuple[int, bytes]]]:
    """Return the files before a change and after it."""
    begin(folder / "other")
    old = files(folder / "other")
    change(folder / "other")
    return old, files(folder / "other")


# ---- failing


def codes_of(run: Callable[[Path], None], folder: Path) -> list[str]:
    """Return the codes of what a command ends with, none where it ends well."""
    try:
        run(folder)
    except UserError as error:
        return [problem.code for problem in error.problems]
    return []


def at(number: int) -> Callable[[str, tuple[Any, ...]], bool]:
    """Return what holds for the operation of a number."""
    left = number

    def here(name: str, arguments: tuple[Any, ...]) -> bool:
        nonlocal left
        left -= 1
        return left < 0

    return here


def prepared(folder: Path, run: Callable[[Path], None]) -> Path:
    """Bring a folder to where a command can begin."""
    begin(folder)
    if run is take_back:
        with around(no_flushes):
            change(folder)
    return folder


def operations(folder: Path, run: Callable[[Path], None]) -> list[tuple[str, tuple[Any, ...]]]:
    """Return the operations by which a command writes, from a trial of it in another folder."""
    prepared(folder, run)
    log: list[tuple[str, tuple[Any, ...]]] = []
    with before_each(lambda name, arguments: log.append((name, arguments))):
        run(folder)
    return log


@pytest.mark.parametrize("once", [True, False], ids=["once", "from then on"])
@pytest.mark.parametrize("run", [change, take_back])
def test_an_operation_that_fails_leaves_all_old_or_all_new(
    tmp_path: Path, run: Callable[[Path], None], once: bool, poor: tuple[str, ...]
) -> None:
    old, new = before_and_after(tmp_path)
    log = operations(tmp_path / "trial", run)
    for number in range(0, len(log), 1 if WHOLE else 3 if once and not poor else 7):
        folder = prepared(tmp_path / str(number), run)
        with around(no_flushes), failing_from(at(number), once):
            failed = codes_of(run, folder)
        where = f"operation {number}: {log[number]}"
        assert failed in ([], ["RF010"], ["RF014"]), where
        state = files(folder)
        if once:
            assert state == (old if bool(failed) == (run is change) else new), where
            assert not failed or not unfinished(Journal(folder)), where
        for name in {*state, *old, *new}:
            assert state.get(name) in (old.get(name), new.get(name)), where
        with around(no_flushes):
            recover(folder)
        state = files(folder)
        assert state in (old, new), where
        assert len(Journal(folder).numbers()) == (state == new), where


# ---- changed meanwhile


def by_rename(path: Path) -> None:
    """Save a file as most editors do."""
    new = path.with_name(f"{path.name}~")
    new.write_bytes(b"an edit\n")
    new.rename(path)


def in_place(path: Path) -> None:
    """Save a file as the others do."""
    with open(path, "wb") as stream:
        stream.write(b"an edit\n")


@pytest.mark.parametrize("run", [change, take_back])
@pytest.mark.parametrize("name", ["train.py", "helper.py"])
@pytest.mark.parametrize("save", [by_rename, in_place])
def test_an_edit_saved_at_any_moment_is_not_lost(
    tmp_path: Path, save: Callable[[Path], None], name: str, run: Callable[[Path], None], poor: tuple[str, ...]
) -> None:
    old, new = before_and_after(tmp_path)
    log = operations(tmp_path / "trial", run)
    refused = 0
    for number in range(0, len(log), 1 if WHOLE else 11 if poor else 5):
        operation, arguments = log[number]
        replaced = operation == "rename" and arguments[-1].name == Path(name).name
        if replaced and (save is by_rename or "link" in poor):
            continue  # the one moment that such a file system leaves no way to see
        folder = prepared(tmp_path / str(number), run)
        left = number

        def save_then(operation: str, arguments: tuple[Any, ...], folder: Path = folder) -> None:
            nonlocal left
            left -= 1
            if left == -1:
                save(folder / name)

        where = f"operation {number}: {log[number]}"
        with around(no_flushes), before_each(save_then):
            failed = codes_of(run, folder)
        assert failed in ([], ["RF031"]), where
        refused += len(failed)
        state = files(folder)
        assert b"an edit\n" in state.pop(name)[1], where
        before, after = (old, new) if run is change else (new, old)
        assert state == {other: one for other, one in (before if failed else after).items() if other != name}, where
    assert refused > 1


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "still open"])
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has a file open")
def test_what_is_written_to_a_file_that_was_open_all_the_while_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    monkeypatch.setattr("retrofit.write.move._PAUSE", 0)
    old, new = before_and_after(tmp_path)
    refused = 0
    for number in range(0, len(operations(tmp_path / "trial", change)), 1 if WHOLE else 2):
        folder = tmp_path / str(number)
        begin(folder)
        left = number
        with open(folder / "train.py", "ab", buffering=0) as stream:

            def write_then(operation: str, arguments: tuple[Any, ...], stream: Any = stream) -> None:
                nonlocal left
                left -= 1
                if left == -1:
                    stream.write(b"an edit\n")
                    stream.close() if closed else None

            with around(no_flushes), before_each(write_then):
                failed = codes_of(change, folder)
            state = files(folder)
            if failed:
                assert state.pop("train.py")[1] == b"old script\n" * 300 + b"an edit\n"
                assert state == {"lib/steps.py": old["lib/steps.py"]}
            else:  # it was written when all was done
                assert closed
                assert state == new
            refused += len(failed)
    assert refused > 10


# ---- several at once


@pytest.mark.parametrize("commands", ["apply apply", "apply undo", *(["undo undo"] if WHOLE else [])])
def test_of_two_commands_at_once_each_does_all_or_nothing(tmp_path: Path, commands: str) -> None:
    times = 20 if WHOLE else 1
    seen = killed(tmp_path, "together", "--commands", *commands.split(), "--times", str(times))
    assert sum(seen.values()) == times


@pytest.mark.parametrize("there", [True, False])
def test_what_a_script_needs_as_it_is_must_still_be_there(tmp_path: Path, there: bool) -> None:
    """An undo may have taken a helper away that was there, and so not to be written, when the script was read."""
    begin(tmp_path)
    before = files(tmp_path)
    helper = tmp_path / ("lib/steps.py" if there else "helper.py")
    script = NewFile(tmp_path / "train.py", b"old script\n" * 300, b"new script\n")
    written = Written(script.path, [script], [helper])
    if there:
        write_files(tmp_path, "apply", written)
        assert files(tmp_path) != before
        return
    with pytest.raises(UserError, match=r"helper.py: RF031 was removed while this command worked"):
        write_files(tmp_path, "apply", written)
    assert files(tmp_path) == before


def test_a_command_waits_for_another_one_and_then_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrofit.write.lock._PATIENCE", 0.0)
    begin(tmp_path)
    with locked(Journal(tmp_path)), pytest.raises(UserError, match="RF033 another retrofit command is writing"):
        change(tmp_path)
    change(tmp_path)
    assert files(tmp_path) != {}
