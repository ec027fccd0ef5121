"""Whatever lies in a project, and whatever the machine refuses: a located line and exit code 2, or done right."""

from __future__ import annotations

import errno
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from retrofit.cli import main
from retrofit.interpreter import look_at
from retrofit.survey.index import Index
from retrofit.text import deepest
from tests.conftest import SCRIPT, Folder, swapped
from tests.faults import CHANGING, before_each
from tests.test_check import BAD
from tests.test_transaction import WHOLE
from tests.test_undo import SHARED, USES

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = ("inspect", "apply", "check", "undo")


def located(answer: Any, code: str) -> bool:
    """Whether a command refused in one line."""
    return answer.code == 2 and len(answer.lines) == 1 and f": {code} " in answer.lines[0]


# ---- what is no file, or no text

NO_FILE: dict[str, Callable[[Path], object]] = {
    "a link that leads nowhere": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": Path.mkdir,
    "a socket": lambda path: socket.socket(socket.AF_UNIX).bind(path.name),
}


@pytest.mark.filterwarnings("ignore:unclosed")
@pytest.mark.parametrize("make", NO_FILE.values(), ids=NO_FILE)
def test_what_is_no_file_is_refused_as_a_script_and_passed_over_elsewhere(
    folder: Folder, make: Callable[[Path], object]
) -> None:
    make(folder.path / "odd.py")
    for command in ("inspect", "apply", "undo"):
        answer = folder.run(command, "odd.py")
        assert answer.code == 2
        assert len(answer.lines) == 1
    folder.write("train.py", SCRIPT)
    folder.write("pyproject.toml", "")  # so that all of the project is looked through
    folder.write(".gitignore", "!\n[\n")
    for command in COMMANDS[1:]:
        answer = folder.run(command, "." if command == "check" else "train.py")
        assert (answer.code, answer.err) == (0, ""), command


@pytest.mark.filterwarnings("ignore:unclosed")
@pytest.mark.parametrize("make", NO_FILE.values(), ids=NO_FILE)
def test_what_is_no_file_is_named_where_it_is_needed(folder: Folder, make: Callable[[Path], object]) -> None:
    make(folder.path / "engine.py")
    folder.write("train.py", USES)
    answer = folder.run("apply", "train.py")
    assert answer.code == 2
    assert len(answer.lines) == 1
    if make is not Path.mkdir:  # which Python would pass over as well
        assert "RF001 is imported as engine, and cannot be read: " in answer.err


@pytest.mark.filterwarnings("ignore:unclosed")
@pytest.mark.parametrize("make", NO_FILE.values(), ids=NO_FILE)
@pytest.mark.parametrize("place", ["odd.py", "tools/odd.py", "engine/odd.py"])
def test_what_is_no_file_is_passed_over_beside_a_script_of_several_files(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object], place: str
) -> None:
    folder.write("train.py", USES)
    folder.write("engine/__init__.py" if place.startswith("engine") else "engine.py", SHARED)
    folder.write("other.py", USES)
    folder.write("pyproject.toml", "")
    (folder.path / place).parent.mkdir(exist_ok=True)
    monkeypatch.chdir((folder.path / place).parent)  # a socket's path is short
    make(folder.path / place)
    monkeypatch.chdir(folder.path)
    answer = folder.run("apply", "train.py")
    assert (answer.code, [line for line in answer.lines if "PAI113" not in line]) == (0, [])


@pytest.mark.parametrize("name", ["pyproject.toml", ".gitignore", "pai_distributed", "train_distributed.sh"])
def test_a_pipe_in_the_place_of_a_file_of_ours_keeps_nothing_waiting(folder: Folder, name: str) -> None:
    folder.write("train.py", SCRIPT)
    os.mkfifo(folder.path / name)
    for command in COMMANDS:
        answer = folder.run(command, "." if command == "check" else "train.py")
        assert answer.code in (0, 2)
        assert len(answer.lines) <= 1


def test_a_file_that_goes_while_the_project_is_read_is_passed_over(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("train.py", USES)
    folder.write("engine.py", SHARED)
    folder.write("other.py", USES)
    folder.write("pyproject.toml", "")
    there = os.path.realpath

    def gone(path: Any, **chosen: Any) -> str:
        if Path(path).name == "other.py":
            (folder.path / "other.py").unlink(missing_ok=True)
        return str(there(path, **chosen))

    monkeypatch.setattr(os.path, "realpath", gone)
    assert folder.run("apply", "train.py").code == 0
    assert not (folder.path / "other.py").exists()


@pytest.mark.parametrize("command", ["inspect", "apply", "check"])
@pytest.mark.parametrize(("name", "code"), [("train.py", "RF001"), ("pyproject.toml", "RF006")])
def test_a_file_that_cannot_be_read_is_one_line(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, name: str, code: str, command: str
) -> None:
    folder.write("train.py", SCRIPT)
    folder.write("pyproject.toml", "")
    opened = os.open

    def refuse(path: Any, *chosen: Any, **more: Any) -> int:
        if Path(path).name == name:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, *chosen, **more)

    monkeypatch.setattr(os, "open", refuse)  # as root may read everything
    answer = folder.run(command, "train.py")
    assert located(answer, code)
    assert answer.err.endswith(f"{name}: {code} cannot be read: Permission denied.\n")


def test_no_path_is_looked_at_before_the_command_does() -> None:
    """Else click says that it cannot be read, with the usage and without a place."""
    kinds = [parameter.type for command in main.commands.values() for parameter in command.params]
    assert not [kind for kind in kinds if isinstance(kind, click.Path) and (kind.readable or kind.exists)]


# ---- how large


@pytest.mark.parametrize("command", ["inspect", "apply", "check"])
def test_a_file_that_is_too_large_is_one_line_that_names_the_option(folder: Folder, command: str) -> None:
    folder.write("train.py", SCRIPT + "#" * 2_000_000 + "\n")
    answer = folder.run(command, "train.py")
    assert located(answer, "RF034")
    assert "has 2.0 MB, and files of more than 2 MB are not looked into. --max-file-size allows more." in answer.err
    assert folder.run(command, "train.py", "--max-file-size", "2.1").code == 0


@pytest.mark.parametrize("key", ["max-file-size = 60", "project-root = '/'"])
def test_a_project_widens_no_guard_of_its_user(folder: Folder, key: str) -> None:
    folder.write("train.py", SCRIPT)
    folder.write("pyproject.toml", f"[tool.retrofit]\n{key}\n")
    assert "has the unknown key" in folder.run("apply", "train.py").err


def test_a_large_module_is_named_only_where_it_is_needed(folder: Folder) -> None:
    folder.write("train.py", USES)
    folder.write("engine.py", SHARED + "#" * 2_000_000)
    assert located(folder.run("apply", "train.py"), "RF034")
    folder.write("engine.py", "TABLE = 0\n" + "#" * 2_000_000)
    folder.write("train.py", swapped(USES, ("engine.step(loss, optimizer)", "loss.backward()")))
    folder.write(
        "train.py",
        swapped(folder.text("train.py"), ("    best_acc = 0.0\n", "    best_acc = 0.0\n    optimizer.step()\n")),
    )
    answer = folder.run("apply", "train.py")
    assert "RF034" not in answer.err


def test_a_large_file_that_does_not_matter_is_passed_over(folder: Folder) -> None:
    folder.write("table.py", "TABLE = 0\n" + "#" * 3_000_000)
    assert folder.run("check", ".").code == 0


class Counted(list[Any]):
    """A list that counts how many of its elements are looked at, one after the other."""

    seen = 0

    def __iter__(self) -> Iterator[Any]:
        Counted.seen += len(self)
        return super().__iter__()


@pytest.mark.parametrize("line", ["x{0} = loss * {0}", "x = f(x)", "args.x{0} = args.y{0} + 1"])
def test_the_survey_takes_as_much_longer_as_a_file_is_longer(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    made = Index.__init__

    def counting(index: Index, *given: Any) -> None:
        made(index, *given)
        index.bindings = Counted(index.bindings)

    def work(number: int) -> int:
        """Count calls and looks at assignments, which no other work on the machine changes."""
        lines = "".join(f"    {line.format(one)}\n" for one in range(number))
        folder.write("train.py", swapped(SCRIPT, ("    best_acc = 0.0\n", f"    best_acc = 0.0\n{lines}")))
        calls = 0

        def count(frame: Any, event: str, argument: Any) -> None:
            nonlocal calls
            calls += event == "call"

        Counted.seen = 0
        sys.setprofile(count)
        try:
            folder.run("inspect", "train.py")
        finally:
            sys.setprofile(None)
        return calls + Counted.seen

    monkeypatch.setattr(Index, "__init__", counting)
    work(1)  # with what is done but once
    few, more, most = (work(number) for number in (20, 60, 100))
    assert most - more < 1.3 * (more - few)


def test_a_file_without_a_wrapper_is_refused_without_a_survey(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write("train.py", SCRIPT.replace("DistributedDataParallel", "Other"))
    before = folder.run("inspect", "train.py").out
    assert "PAI101" in before

    def never(*given: Any) -> None:
        raise AssertionError("it was surveyed")

    monkeypatch.setattr(
        "retrofit.survey.script.find_loops", lambda index, *rest, **more: [] if not index.statements else never()
    )
    answer = folder.run("apply", "train.py")
    assert located(answer, "PAI101")
    assert answer.lines[0] in before


# ---- what is nested, or ends lines otherwise


def test_folders_may_be_nested_as_deeply_as_a_path_can_name(folder: Folder) -> None:
    folder.write("pyproject.toml", "")
    folder.write("engine.py", SHARED)
    folder.write("train.py", USES)
    for _ in range(1100):
        os.mkdir("d")
        os.chdir("d")
    os.chdir(folder.path)
    assert folder.run("apply", "train.py").code == 0
    assert folder.run("check", ".").code == 0
    (folder.path / "train.py").rename(folder.path / "main.py")
    assert "restored main.py (was train.py)" in folder.run("undo", "main.py").out
    subprocess.run(["rm", "-r", "d"], cwd=folder.path, check=True)  # which pytest cannot


DEEP = {
    "terms": "    x = " + " + ".join(["a"] * 3000) + "\n",
    "attributes": "    x = a" + ".b" * 3000 + "\n",
    "calls": "    x = a" + ".b()" * 1500 + "\n",
    "strings": "    x = (" + "'a'\n      " * 3000 + ")\n",
    "signs": "    x = " + "-" * 3000 + "1\n",
    "brackets": "    x = " + "(" * 900 + "1" + ")" * 900 + "\n",
    "branches": "    if a: pass\n" + "".join(f"    elif a == {n}: pass\n" for n in range(2500)),
}


@pytest.mark.parametrize("name", DEEP)
def test_what_is_nested_too_deeply_is_located(folder: Folder, name: str) -> None:
    folder.write("train.py", swapped(SCRIPT, ("    best_acc = 0.0\n", f"    best_acc = 0.0\n{DEEP[name]}")))
    first = SCRIPT.partition("    best_acc = 0.0\n")[0].count("\n") + 2
    for command in ("inspect", "apply", "check"):
        answer = folder.run(command, "train.py")
        assert located(answer, "RF004"), answer.err
        line = int(answer.lines[0].split(":")[1])
        assert first <= line <= first + DEEP[name].count("\n")


@pytest.mark.parametrize("command", ["retrofit.plan._plan", "retrofit.check.checker.Checker._findings"])
def test_an_analysis_without_an_end_is_not_put_down_to_the_file(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def endless(*given: object) -> None:
        raise RecursionError("maximum recursion depth exceeded")

    folder.write("train.py", SCRIPT)
    monkeypatch.setattr(command, endless)
    answer = folder.run("check" if "check" in command else "apply", "train.py")
    assert answer.code == 123
    assert "This is a mistake of retrofit." in answer.err


def test_code_of_several_lines_is_told_in_one(folder: Folder) -> None:
    old = "    model = DistributedDataParallel(model)\n"
    folder.write(
        "train.py", swapped(SCRIPT, (old, "    model = hold(DistributedDataParallel(\n        model\n    ))\n"))
    )
    answer = folder.run("apply", "train.py")
    assert answer.code == 2
    assert answer.lines
    assert all(line.startswith("train.py:") for line in answer.lines)


def test_the_deepest_code_is_found_also_where_it_is_shallow() -> None:
    assert deepest("x = 1\ny = f(g(1, 2), 3)\nz = 2\n")[1:] == (2, 1)
    assert deepest("")[1:] == (1, 1)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        pytest.param("def main", "\x0cdef main", 2, id="form feed before a statement"),
        pytest.param("import argparse\n", "import argparse\n\x0c\n", 0, id="form feed in a line of its own"),
        pytest.param("    best_acc = 0.0\n", "    best_acc = 0.0\r    last = 0\n", 0, id="one lone CR"),
        pytest.param("'gloo'", "'gl\x0b\x1c\x85\u2028oo'", 0, id="what only str.splitlines splits at"),
        pytest.param("'gloo'", "'\\ud800'", 0, id="half a character"),
    ],
)
def test_odd_white_space_is_kept_or_refused_at_its_line(folder: Folder, old: str, new: str, code: int) -> None:
    text = swapped(SCRIPT, (old, new)).encode()
    folder.write("train.py", text)
    answer = folder.run("apply", "train.py")
    assert answer.code == code
    if code:
        assert located(answer, "RF005")
        assert int(answer.lines[0].split(":")[1]) == SCRIPT.partition(old)[0].count("\n") + 1
    else:
        assert set(new) - set(old) <= set(folder.text("train.py"))
        assert folder.run("undo", "train.py").code == 0
    assert (folder.path / "train.py").read_bytes() == text


@pytest.mark.parametrize("coding", ["zork", "rot13", "utf-16", "utf-7", "hex", "idna"])
def test_a_declared_encoding_that_cannot_be_is_one_line(folder: Folder, coding: str) -> None:
    folder.write("train.py", f"# coding: {coding}\n".encode() + SCRIPT.encode() + b"# \xff\n")
    for command in ("inspect", "apply", "check"):
        assert located(folder.run(command, "train.py"), "RF003")


@pytest.mark.parametrize("text", ["[" * 100_000, "x = " + "[" * 100_000, "\0"])
def test_settings_that_cannot_be_read_are_one_line(folder: Folder, text: str) -> None:
    folder.write("train.py", SCRIPT)
    folder.write("pyproject.toml", text)
    for command in ("inspect", "apply", "check"):
        assert located(folder.run(command, "train.py"), "RF006")


# ---- names in any bytes


@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems take only UTF-8")
def test_names_in_any_bytes_work_from_apply_to_undo(folder: Folder) -> None:
    name = os.fsdecode(b"caf\xe9.py")
    folder.write(name, USES)
    folder.write("engine.py", SHARED)
    folder.write(os.fsdecode(b"d\xff/other.py"), BAD + "import engine\nif __name__ == '__main__':\n    pass\n")
    folder.write("pyproject.toml", "")
    for command in ("inspect", "apply"):
        assert folder.run(command, name).code == 0
    launcher = (folder.path / "train_distributed.sh").read_bytes()
    assert b"caf\xe9.py" in launcher
    assert "nothing to do" in folder.run("apply", name).out
    assert "restored" in folder.run("undo", name).out
    assert folder.text(name) == USES
    diff = folder.run("apply", "--dry-run", name).raw
    subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], input=diff, check=True)
    assert folder.run("check", "--fix", ".").code in (0, 1)
    assert folder.text(os.fsdecode(b"d\xff/other.py")) != BAD


# ---- what the machine refuses


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("command", ["apply", "undo", "check"])
def test_a_disk_that_takes_nothing_is_one_line_and_nothing_changes(folder: Folder, command: str, number: int) -> None:
    arguments = {"apply": ["apply", "train.py"], "undo": ["undo", "train.py"], "check": ["check", "--fix", "."]}
    folder.write("train.py", SCRIPT if command != "check" else BAD)
    if command == "undo":
        folder.run("apply", "train.py")
    before = folder.contents()

    def refuse(name: str, given: tuple[Any, ...]) -> None:
        raise OSError(number, os.strerror(number), str(given[0]))

    with before_each(refuse, tuple(name for name in CHANGING if name not in ("unlink", "remove_folder"))):
        answer = folder.run(*arguments[command])
    assert located(answer, "RF010"), answer.err
    assert os.strerror(number) in answer.err
    assert folder.contents() == before
    assert (folder.path / ".retrofit").exists() == (command == "undo")


def test_a_limit_on_the_size_of_files_is_one_line_and_nothing_changes(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    before = folder.state()

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    result = run(folder.path, "-m", "retrofit", "apply", "train.py", preexec_fn=limited)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert "RF010 cannot be written: File too large. Nothing was changed." in result.stderr
    assert folder.state() == before


@pytest.mark.parametrize("arguments", [["apply", "train.py"], ["check", "."], ["undo", "train.py"], ["inspect", "x"]])
def test_a_working_folder_that_is_gone_is_one_line(folder: Folder, arguments: list[str]) -> None:
    gone = folder.path / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    answer = folder.run(*arguments)
    assert located(answer, "RF036")


def test_no_home_is_needed(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    folder.write("pyproject.toml", "")
    environment = {name: value for name, value in os.environ.items() if name != "HOME"}
    program = "import pwd, os, sys\ndef nobody(user): raise KeyError(user)\npwd.getpwuid = nobody\n"
    program += "from retrofit.cli import main\nmain(sys.argv[1:])\n"
    result = run(folder.path, "-c", program, "apply", "train.py", env=environment)
    assert (result.returncode, result.stderr) == (0, "")


# ---- what would run

#: Names by which Python, retrofit, what it uses, and tools around them import; those of the standard library too.
TRAPS = (
    "sitecustomize", "usercustomize", "click", "libcst", "jinja2", "rich", "pathspec", "tomllib", "tomli", "json",
    "ast", "ctypes", "difflib", "tempfile", "multiprocessing", "subprocess", "torch", "perforatedai", "conftest",
    "setup", "utils",
)  # fmt: skip


@pytest.fixture
def traps(folder: Folder) -> Path:
    """A file that is there when something of the folder has run."""
    ran = folder.path.parent / "ran"
    trap = f"open({str(ran)!r}, 'a').write(__file__)\n"
    for name in TRAPS:
        folder.write(f"{name}.py", trap)
        folder.write(f"{name}.pth", f"import {name}\n")
    for name, text in (("train.py", USES), ("engine.py", SHARED), ("bad.py", BAD)):
        folder.write(name, trap + text)
    backend = '[build-system]\nrequires = []\nbuild-backend = "conftest"\nbackend-path = ["."]\n'
    folder.write("pyproject.toml", backend)
    return ran


WORDS = (["inspect", "train.py"], ["apply", "train.py"], ["check", "--fix", "."], ["undo", "train.py"])


def test_nothing_of_a_hostile_folder_runs(folder: Folder, traps: Path) -> None:
    for words in WORDS if WHOLE else WORDS[1:2]:
        result = run(folder.path, "-m", "retrofit", *words)
        assert (result.returncode, result.stderr) == (0, "")
    assert not traps.exists()


def test_nothing_of_a_hostile_folder_runs_by_the_console_script(folder: Folder, traps: Path) -> None:
    script = folder.path.parent / "script.py"
    each = "    try: main(words)\n    except SystemExit as end: assert end.code == 0\n"
    script.write_text(f"from retrofit.cli import main\nfor words in {WORDS}:\n{each}")
    result = run(folder.path, str(script))
    assert (result.returncode, result.stderr) == (0, "")
    assert not traps.exists()


def test_the_python_that_trains_is_looked_at_without_the_working_folder(folder: Folder) -> None:
    folder.write("json.py", "raise SystemExit(3)\n")
    assert look_at(sys.executable).path == sys.executable


def run(folder: Path, *arguments: str, **chosen: Any) -> subprocess.CompletedProcess[str]:
    """Run this Python in a folder."""
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False, **chosen
    )
