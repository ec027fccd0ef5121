"""Writing and undoing: all files or none, bytes and modes kept, and the way back."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import symtable
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SCRIPT, Folder, swapped
from tests.faults import before_each, full, full_for
from tests.helpers import HELPER, recipe

#: One file of the helper, and the launcher.
COMPANIONS = {"pai_distributed/score.py", "train_distributed.sh"}
LAUNCHER = "train_distributed.sh"
MINE = "#!/bin/sh\necho mine\n"


# ---- what is kept


@pytest.mark.parametrize("mode", [0o755, 0o600])
def test_the_script_keeps_its_mode_through_apply_and_undo(folder: Folder, mode: int) -> None:
    folder.write("train.py", SCRIPT, mode)
    assert folder.run("apply", "train.py").code == 0
    assert folder.mode("train.py") == mode
    assert folder.run("undo", "train.py").code == 0
    assert folder.mode("train.py") == mode


def test_new_files_get_the_modes_that_the_umask_leaves(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    old = os.umask(0o027)
    try:
        folder.run("apply", "train.py")
    finally:
        os.umask(old)
    assert folder.mode("pai_distributed/score.py") == 0o640
    assert folder.mode(LAUNCHER) == 0o750


@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_every_line_keeps_the_scripts_line_end(folder: Folder, end: str) -> None:
    folder.write("train.py", SCRIPT.replace("\n", end))
    assert folder.run("apply", "train.py").code == 0
    text = folder.text("train.py")
    assert "pai_distributed" in text
    assert text.count(end) == text.count("\n") == len(text.splitlines())
    assert text.count("\r") == (text.count("\n") if end == "\r\n" else 0)
    assert "nothing to do" in folder.run("apply", "train.py").out


def test_a_byte_order_mark_stays_the_first_and_only_one(folder: Folder) -> None:
    folder.write("train.py", b"\xef\xbb\xbf" + SCRIPT.encode())
    assert folder.run("apply", "train.py").code == 0
    data = (folder.path / "train.py").read_bytes()
    assert data.startswith(b'\xef\xbb\xbf"""Train."""')
    assert data.count(b"\xef\xbb\xbf") == 1
    assert "nothing to do" in folder.run("apply", "train.py").out


def test_a_declared_encoding_is_kept(folder: Folder) -> None:
    text = "# -*- coding: latin-1 -*-\n" + SCRIPT.replace("Train.", "Entraîner.")
    folder.write("train.py", text.encode("latin-1"))
    assert folder.run("apply", "train.py").code == 0
    assert "Entraîner." in (folder.path / "train.py").read_bytes().decode("latin-1")


def test_a_missing_last_line_end_stays_missing(folder: Folder) -> None:
    folder.write("train.py", SCRIPT.removesuffix("\n"))
    assert folder.run("apply", "train.py").code == 0
    assert folder.text("train.py").endswith("    main()")


# ---- links


def linked(folder: Folder) -> None:
    """Make train.py a link to a script in another folder."""
    folder.write("src/real.py", SCRIPT, 0o640)
    (folder.path / "train.py").symlink_to("src/real.py")


def test_a_linked_script_stays_a_link_and_its_target_is_rewritten(folder: Folder) -> None:
    linked(folder)
    assert folder.run("apply", "train.py").code == 0
    assert os.readlink("train.py") == "src/real.py"
    assert "pai_distributed" in folder.text("src/real.py")
    assert folder.mode("src/real.py") == 0o640
    assert "nothing to do" in folder.run("apply", "train.py").out


def test_undo_of_a_linked_script_restores_its_target_and_keeps_the_link(folder: Folder) -> None:
    linked(folder)
    folder.run("apply", "train.py")
    assert folder.run("undo", "train.py").code == 0
    assert folder.text("src/real.py") == SCRIPT
    assert (folder.path / "train.py").is_symlink()


def test_a_linked_script_finds_its_helper(folder: Folder) -> None:
    linked(folder)
    folder.run("apply", "train.py")
    find = "import importlib.util\nassert importlib.util.find_spec('pai_distributed') is not None\n"
    (folder.path / "src" / "real.py").write_text(find)
    subprocess.run([sys.executable, "train.py"], check=True, capture_output=True)


# ---- what is not ours


@pytest.mark.parametrize("name", sorted(COMPANIONS))
def test_a_foreign_file_is_refused_in_one_line_and_nothing_is_written(folder: Folder, name: str) -> None:
    folder.write("deep/train.py", SCRIPT)
    folder.write(f"deep/{name}", MINE)
    before = folder.state()
    answer = folder.run("apply", "deep/train.py")
    assert (answer.code, answer.out) == (2, "")
    [line] = answer.lines
    assert line.startswith(f"deep/{name}: RF008 ")
    assert "--force" in line
    assert folder.state() == before


def test_all_foreign_files_are_named_at_once(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    for name in COMPANIONS:
        folder.write(name, MINE)
    assert {line.partition(":")[0] for line in folder.run("apply", "train.py").lines} == COMPANIONS


@pytest.mark.parametrize("name", sorted(COMPANIONS))
def test_force_replaces_a_foreign_file_and_undo_brings_it_back(folder: Folder, name: str) -> None:
    folder.write("train.py", SCRIPT)
    folder.write(name, MINE, 0o600)
    before = folder.contents()
    assert folder.run("apply", "--force", "train.py").code == 0
    assert "Generated by retrofit" in folder.text(name)
    assert "nothing to do" in folder.run("apply", "train.py").out
    assert folder.run("undo", "train.py").code == 0
    assert folder.contents() == before


def test_a_forced_launcher_becomes_executable_for_those_who_may_read_it(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    folder.write(LAUNCHER, MINE, 0o644)
    folder.run("apply", "--force", "train.py")
    assert folder.mode(LAUNCHER) == 0o755


@pytest.mark.parametrize("name", sorted(COMPANIONS))
def test_a_generated_file_that_was_changed_is_kept_with_a_note(folder: Folder, name: str) -> None:
    folder.write("train.py", SCRIPT)
    folder.run("apply", "train.py")
    folder.write(name, folder.text(name) + "# mine\n")
    [other] = COMPANIONS - {name}
    (folder.path / other).unlink()
    answer = folder.run("apply", "train.py")
    assert answer.code == 0
    assert f"wrote {other} " in answer.out
    [line] = answer.lines
    assert line.startswith(f"{name}: RF009 ")
    assert "--force" in line
    assert "# mine" in folder.text(name)
    assert folder.run("apply", "--force", "train.py").code == 0
    assert "# mine" not in folder.text(name)


def test_a_changed_launcher_is_kept_also_where_pyproject_sets_its_values(folder: Folder) -> None:
    folder.write("pyproject.toml", "[tool.retrofit]\nnproc-per-node = 2\n")
    folder.write("train.py", SCRIPT)
    folder.run("apply", "train.py")
    folder.write(LAUNCHER, folder.text(LAUNCHER) + "# mine\n")
    folder.write("pyproject.toml", "[tool.retrofit]\nnproc-per-node = 3\n")
    before = folder.state()
    assert folder.run("apply", "train.py").out == "train.py: nothing to do\n"
    assert folder.state() == before


def test_a_second_script_in_the_folder_gets_the_launcher_only_by_force(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    folder.write("other.py", SCRIPT)
    folder.run("apply", "train.py")
    before = folder.state()
    answer = folder.run("apply", "other.py")
    assert (answer.code, answer.out) == (2, "")
    [line] = answer.lines
    assert line.startswith(f"{LAUNCHER}: RF008 starts another script")
    assert folder.state() == before
    assert folder.run("apply", "--force", "other.py").code == 0
    assert "PYTHON_SCRIPT=$here/other.py" in folder.text(LAUNCHER)


def test_undo_leaves_the_helper_to_another_rewritten_script(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    folder.write("other.py", SCRIPT)
    folder.run("apply", "train.py")
    assert folder.run("apply", "--force", "other.py").code == 0
    assert folder.run("undo", "train.py").code == 0
    assert folder.text("train.py") == SCRIPT
    assert folder.names() >= HELPER


# ---- all or none


@pytest.mark.parametrize("name", ["train.py", *sorted(COMPANIONS), "pending.json", "0001.json"])
def test_a_full_disk_at_any_file_leaves_all_as_it_was(folder: Folder, name: str) -> None:
    folder.write("train.py", SCRIPT, 0o750)
    before = folder.contents()
    with full_for(Path(name).name):
        answer = folder.run("apply", "train.py")
    assert (answer.code, answer.out) == (2, "")
    [line] = answer.lines
    assert "RF010" in line
    assert "No space left on device" in line
    assert folder.contents() == before
    assert os.listdir() == ["train.py"]  # nor a journal


def test_undo_still_works_after_a_later_apply_failed(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    folder.run("apply", "train.py")
    with full_for(LAUNCHER):
        assert folder.run("apply", "train.py", "--nproc-per-node", "3").code == 2
    assert folder.run("undo", "train.py").code == 0
    assert folder.text("train.py") == SCRIPT


def test_what_is_rolled_back_has_its_mode_again(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    folder.write(LAUNCHER, MINE, 0o644)
    before = folder.contents()
    with full_for("0001.json"):
        assert folder.run("apply", "--force", "train.py").code == 2
    assert folder.contents() == before


def test_no_byte_is_lost_where_the_disk_is_full_for_the_rollback_too(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    begun = False

    def tell(name: str, arguments: tuple[Any, ...]) -> None:
        nonlocal begun
        begun |= name == "exchange"
        if begun and name in ("create", "rename"):
            raise full(arguments[0])

    with before_each(tell):
        answer = folder.run("apply", "train.py")
    assert (answer.code, len(answer.lines)) == (2, 1)
    assert folder.text("train.py") == SCRIPT


def test_ctrl_c_while_files_are_written_leaves_all_as_it_was(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)

    def tell(name: str, arguments: tuple[Any, ...]) -> None:
        if arguments[-1] == folder.path / "train.py":
            raise KeyboardInterrupt

    with before_each(tell, ("exchange",)):
        assert folder.run("apply", "train.py").code == 130
    assert folder.text("train.py") == SCRIPT
    assert os.listdir() == ["train.py"]


def test_a_folder_in_the_place_of_a_new_file_leaves_the_script_as_it_was(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    (folder.path / LAUNCHER).mkdir()
    answer = folder.run("apply", "train.py")
    assert answer.code == 2
    assert len(answer.lines) == 1
    assert folder.names() == {"train.py"}
    assert folder.text("train.py") == SCRIPT
    assert set(os.listdir()) == {"train.py", LAUNCHER}


def test_a_file_that_cannot_be_written_is_named_as_the_user_knows_it(folder: Folder) -> None:
    folder.write("deep/train.py", SCRIPT)
    with full_for(LAUNCHER):
        assert folder.run("apply", "deep/train.py").lines[0].startswith(f"deep/{LAUNCHER}: RF010 ")


def test_a_broken_record_is_named_as_the_user_knows_it(folder: Folder) -> None:
    folder.write("deep/train.py", SCRIPT)
    folder.write("deep/.retrofit/pending.json", "{")
    assert folder.run("apply", "deep/train.py").lines[0].startswith("deep/.retrofit/pending.json: RF014 ")


def test_a_file_in_the_place_of_the_record_stops_apply_before_it_writes(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    folder.write(".retrofit", "not a folder")
    before = folder.state()
    answer = folder.run("apply", "train.py")
    assert answer.code == 2
    [line] = answer.lines
    assert line.startswith(".retrofit: RF014 ")
    assert "Move it away" in line
    assert folder.state() == before


@pytest.mark.parametrize("protected", ["train.py", LAUNCHER])
def test_a_write_protected_file_is_one_line_and_nothing_changes(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, protected: str
) -> None:
    folder.write("train.py", SCRIPT)
    folder.write(LAUNCHER, MINE)
    before = folder.state()
    access = os.access  # root may write everything
    monkeypatch.setattr(
        os, "access", lambda path, mode: (Path(path).name != protected and access(path, mode)) or mode != os.W_OK
    )
    answer = folder.run("apply", "--force", "train.py")
    assert (answer.code, answer.out) == (2, "")
    [line] = answer.lines
    assert f"{protected}: RF010 " in line
    assert "write-protected" in line
    assert folder.state() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_read_only_folder_is_one_line_and_nothing_changes(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    before = folder.state()
    folder.path.chmod(0o555)
    try:
        answer = folder.run("apply", "train.py")
    finally:
        folder.path.chmod(0o755)
    assert (answer.code, len(answer.lines)) == (2, 1)
    assert folder.state() == before


# ---- undo


def test_undo_restores_the_bytes_and_removes_the_new_files(folder: Folder) -> None:
    folder.write("train.py", SCRIPT.replace("\n", "\r\n"), 0o751)
    before = folder.contents()
    folder.run("apply", "train.py")
    answer = folder.run("undo", "train.py")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines() == [
        "restored train.py",
        "removed pai_distributed/",
        "removed train_distributed.sh",
    ]
    assert folder.contents() == before


def test_undo_of_everything_leaves_nothing_of_retrofit(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    folder.run("apply", "train.py")
    folder.run("undo", "train.py")
    assert os.listdir() == ["train.py"]


def test_the_record_of_undo_stays_out_of_git(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    folder.run("apply", "train.py")
    subprocess.run(["git", "init", "-q"], check=True)
    status = subprocess.run(["git", "status", "--porcelain", "-uall"], check=True, capture_output=True, text=True)
    assert {line.split()[-1] for line in status.stdout.splitlines()} == {"train.py", *HELPER, LAUNCHER}


def test_undo_after_two_applies_goes_back_to_the_first_original(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    before = folder.contents()
    folder.run("apply", "train.py")
    assert folder.run("apply", "train.py", "--nproc-per-node", "4").code == 0
    assert folder.run("apply", "train.py", "--gpus", "0,1").code == 0
    assert folder.run("undo", "train.py").code == 0
    assert folder.contents() == before
    assert folder.run("undo", "train.py").code == 2


def test_undo_never_takes_back_what_the_user_wrote_between_two_applies(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    folder.run("apply", "train.py")
    folder.write("train.py", SCRIPT + "# a day's work\n")  # git checkout, then work, then apply again
    folder.run("apply", "train.py")
    assert folder.run("undo", "train.py").code == 0
    assert folder.text("train.py") == SCRIPT + "# a day's work\n"


@pytest.mark.parametrize("name", ["train.py", *sorted(COMPANIONS)])
def test_undo_keeps_what_was_edited_since_unless_forced(folder: Folder, name: str) -> None:
    folder.write("train.py", SCRIPT)
    folder.run("apply", "train.py")
    folder.write(name, folder.text(name) + "# mine\n")
    answer = folder.run("undo", "train.py")
    assert (answer.code, answer.err) == (0, "")
    kept = f"merged {name} (with what was edited since)" if name == "train.py" else f"kept {name} (it was edited since)"
    assert kept in answer.out.splitlines()
    assert folder.text(name).endswith("# mine\n")
    assert folder.text("train.py").removesuffix("# mine\n") == SCRIPT
    assert folder.names() == {"train.py", name}


@pytest.mark.parametrize("name", ["train.py", *sorted(COMPANIONS)])
def test_a_forced_undo_loses_what_was_edited_since(folder: Folder, name: str) -> None:
    folder.write("train.py", SCRIPT)
    folder.run("apply", "train.py")
    folder.write(name, folder.text(name) + "# mine\n")
    assert folder.run("undo", "--force", "train.py").code == 0
    assert folder.text("train.py") == SCRIPT
    assert folder.names() == {"train.py"}


def test_without_git_undo_refuses_where_a_file_was_edited_since(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("train.py", SCRIPT)
    folder.run("apply", "train.py")
    folder.write("train.py", folder.text("train.py") + "# mine\n")
    before = folder.state()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    answer = folder.run("undo", "train.py")
    assert (answer.code, answer.out) == (2, "")
    [line] = answer.lines
    assert line.startswith("train.py: RF012 ")
    assert "train.py changed since" in line
    assert "--force" in line
    assert folder.state() == before


def test_undo_of_a_script_in_another_folder_shows_paths_from_here(folder: Folder) -> None:
    folder.write("deep/train.py", SCRIPT)
    folder.run("apply", "deep/train.py")
    assert "restored deep/train.py" in folder.run("undo", "deep/train.py").out.splitlines()
    assert folder.names() == {"deep/train.py"}


def test_undo_touches_no_other_scripts_record(folder: Folder) -> None:
    for name in ("a/train.py", "b/train.py"):
        folder.write(name, SCRIPT)
        folder.run("apply", name)
    folder.run("undo", "a/train.py")
    assert folder.run("undo", "b/train.py").code == 0
    assert folder.names() == {"a/train.py", "b/train.py"}


@pytest.mark.parametrize("name", ["train.py", "nowhere.py", ".", "no/such/folder.py"])
def test_nothing_to_undo_is_one_line_and_exit_2(folder: Folder, name: str) -> None:
    folder.write("train.py", SCRIPT)
    before = folder.state()
    answer = folder.run("undo", name)
    assert (answer.code, answer.out) == (2, "")
    [line] = answer.lines
    assert line.startswith(f"{name}: RF011 ")
    assert folder.state() == before


@pytest.mark.parametrize("command", ["undo", "apply"])
@pytest.mark.parametrize(
    "content", ["", "{", "[]", "3", b"\xff\xfe", '{"train.py": 3}', "[" * 100_000, '{"format": 2}', '{"format": 1}']
)
def test_a_broken_record_is_one_line_and_nothing_changes(folder: Folder, content: str | bytes, command: str) -> None:
    folder.write("train.py", SCRIPT)
    folder.write(".retrofit/pending.json", content)
    before = folder.contents()
    answer = folder.run(command, "train.py")
    assert (answer.code, answer.out) == (2, "")
    [line] = answer.lines
    assert ".retrofit/pending.json: RF014 " in line
    assert folder.contents() == before


def test_undo_on_a_full_disk_changes_nothing(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    folder.write(LAUNCHER, MINE)
    folder.run("apply", "--force", "train.py")
    before = folder.contents()
    with full_for(LAUNCHER):
        answer = folder.run("undo", "train.py")
    assert (answer.code, len(answer.lines)) == (2, 1)
    assert folder.contents() == before


# ---- inline


FUTURE = "from __future__ import annotations\nimport argparse\n"


def test_the_files_of_the_helper_define_no_name_twice() -> None:
    """In one file the later definition would take the place of the other."""
    tables = [symtable.symtable(source, "helper", "exec") for source in recipe().helper_sources.values()]
    names = Counter(one.get_name() for table in tables for one in table.get_symbols() if one.is_assigned())
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(SCRIPT.replace('"""', "'''"), id="single quotes"),
        pytest.param(SCRIPT, id="docstrings"),
        pytest.param(SCRIPT.replace("'", '"'), id="double quotes"),
        pytest.param(
            swapped(
                SCRIPT.replace('"""', "'''"),
                ("import argparse\n", FUTURE),
            ),
            id="future",
        ),
    ],
)
def test_inline_writes_one_file_that_compiles_and_is_complete(folder: Folder, script: str) -> None:
    folder.write("train.py", script)
    answer = folder.run("apply", "--inline", "train.py")
    assert (answer.code, answer.err) == (0, "")
    assert folder.names() == {"train.py", LAUNCHER}
    text = folder.text("train.py")
    compile(text, "train.py", "exec")
    assert "pai_distributed" not in {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    for name in ("fill_missing_gradients", "finish_initialization", "report_validation_score", "load_latest_switch"):
        assert text.count(f"def {name}(") == 1
    assert "nothing to do" in folder.run("apply", "train.py").out  # it shows that it is inlined
    assert "nothing to do" in folder.run("apply", "--inline", "train.py").out
    assert folder.run("undo", "train.py").code == 0
    assert folder.text("train.py") == script


def test_the_inlined_helper_never_speaks_of_a_file_that_is_not_there(folder: Folder) -> None:
    folder.write("train.py", SCRIPT.replace('"""', "'''"))
    assert folder.run("apply", "--inline", "train.py").code == 0
    assert "import pai_distributed" not in folder.text("train.py")
