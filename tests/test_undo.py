"""Going back: step by step, around what was edited or renamed since, and by no record that cannot be trusted."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from retrofit.write.files import DISK
from tests.conftest import SCRIPT, Folder, swapped

LAUNCHER = "train_distributed.sh"


def git(*words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)


@pytest.fixture
def applied(folder: Folder) -> Folder:
    """A folder with a script that was rewritten."""
    folder.write("train.py", SCRIPT, 0o640)
    assert folder.run("apply", "train.py").code == 0
    return folder


# ---- steps


def test_the_steps_on_record_are_listed_the_newest_first(applied: Folder) -> None:
    applied.run("apply", "train.py", "--gpus", "0,1")
    for asked in ("train.py", "."):
        lines = applied.run("undo", "--list", asked).out.splitlines()
        assert [line.split()[0] for line in lines] == ["2", "1"]
        assert lines[0].endswith(f"apply  {LAUNCHER}")
        assert lines[1].endswith("apply  train.py, pai_distributed/, train_distributed.sh")


def test_nothing_on_record_is_said(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    answer = folder.run("undo", "--list", "train.py")
    assert (answer.code, answer.out) == (0, "There is nothing to undo.\n")


def test_undo_goes_back_so_many_steps(applied: Folder) -> None:
    states = [applied.contents()]
    for gpus in ("0", "1", "0,1"):
        assert applied.run("apply", "train.py", "--gpus", gpus).code == 0
        states.append(applied.contents())
    assert applied.run("undo", "--steps", "1", "train.py").out == f"restored {LAUNCHER}\n"
    assert applied.contents() == states[2]
    assert applied.run("undo", "--steps", "2", "train.py").code == 0
    assert applied.contents() == states[0]
    assert applied.run("undo", "train.py").code == 0
    assert applied.contents() == {"train.py": (0o640, SCRIPT.encode())}


def test_a_dry_run_prints_a_diff_that_git_applies_and_writes_nothing(applied: Folder) -> None:
    before = applied.state()
    answer = applied.run("undo", "--dry-run", "train.py")
    assert (answer.code, answer.err) == (0, "")
    assert applied.state() == before
    subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], input=answer.raw, check=True)
    assert applied.names() == {"train.py"}
    assert applied.text("train.py") == SCRIPT


def test_a_fix_is_undone_for_each_file_by_itself(folder: Folder) -> None:
    bad = "from torch.utils.data import DataLoader, DistributedSampler\nsampler = DistributedSampler(data)\n"
    bad += "loader = DataLoader(data, shuffle=True, sampler=sampler)\n"
    for name in ("a.py", "b.py"):
        folder.write(name, bad)
    folder.run("check", "--fix", ".")
    fixed = folder.text("b.py")
    assert fixed != bad
    assert folder.run("undo", "a.py").out == "restored a.py\n"
    assert (folder.text("a.py"), folder.text("b.py")) == (bad, fixed)
    assert folder.run("undo", "b.py").code == 0
    assert folder.text("b.py") == bad
    assert sorted(os.listdir()) == ["a.py", "b.py"]


# ---- edited since

EDIT = ("    hits = total = 0\n", "    hits = total = 0  # a day of work\n")


def test_edits_since_are_merged(applied: Folder) -> None:
    applied.write("train.py", swapped(applied.text("train.py"), EDIT), 0o700)
    answer = applied.run("undo", "train.py")
    assert (answer.code, answer.err) == (0, "")
    assert applied.text("train.py") == swapped(SCRIPT, EDIT)
    assert applied.mode("train.py") == 0o700  # which was changed since, too


def test_a_conflict_is_marked_and_named_and_nothing_is_lost(applied: Folder) -> None:
    line = next(line for line in applied.text("train.py").splitlines() if "find_unused_parameters=" in line)
    applied.write("train.py", applied.text("train.py").replace(line, line + "  # mine"))
    answer = applied.run("undo", "train.py")
    assert answer.code == 1
    text = applied.text("train.py")
    [place] = [number for number, one in enumerate(text.splitlines(), start=1) if one == "<<<<<<< now"]
    assert answer.lines == [f"train.py:{place}:1: RF035 is in conflict with what was edited since. Resolve it."]
    ours, _, theirs = text.partition("<<<<<<< now\n")[2].partition("=======\n")
    assert line + "  # mine" in ours
    assert "    model = DistributedDataParallel(model)\n" in theirs.partition(">>>>>>>")[0]


@pytest.mark.parametrize("edited", ["train.py", LAUNCHER])
def test_what_a_repository_or_a_user_sets_for_git_changes_no_merge(
    applied: Folder, monkeypatch: pytest.MonkeyPatch, edited: str
) -> None:
    git("init", "-q")
    git("config", "merge.conflictStyle", "diff3")
    (applied.path / ".gitattributes").write_text("*.py merge=ours\n")
    applied.write(edited, applied.text(edited) + "# mine\n")
    assert applied.run("undo", "train.py").code == 0
    assert applied.text("train.py") == SCRIPT + ("# mine\n" if edited == "train.py" else "")


def test_a_file_that_was_deleted_since_comes_back(applied: Folder) -> None:
    (applied.path / "train.py").unlink()
    (applied.path / LAUNCHER).unlink()
    answer = applied.run("undo", "train.py")
    assert (answer.code, answer.out) == (0, "restored train.py\nremoved pai_distributed/\n")
    assert applied.contents() == {"train.py": (0o640, SCRIPT.encode())}


def test_what_is_the_original_already_is_left(applied: Folder) -> None:
    applied.write("train.py", SCRIPT, 0o640)  # git checkout
    assert applied.run("undo", "train.py").out == f"removed pai_distributed/\nremoved {LAUNCHER}\n"
    assert applied.contents() == {"train.py": (0o640, SCRIPT.encode())}


# ---- renamed since


@pytest.mark.parametrize("asked", ["old", "new"])
@pytest.mark.parametrize("edit", [False, True], ids=["as it was", "edited"])
def test_a_file_that_git_has_renamed_is_found_by_what_it_holds(applied: Folder, asked: str, edit: bool) -> None:
    git("init", "-q")
    git("add", ".")
    os.mkdir("tools")
    for name in ("train.py", "pai_distributed", LAUNCHER):
        git("mv", name, f"tools/my_{name}")
    applied.write("other.py", SCRIPT.replace("acc", "score"))
    if edit:
        applied.write("tools/my_train.py", swapped(applied.text("tools/my_train.py"), EDIT))
    answer = applied.run("undo", "train.py" if asked == "old" else "tools/my_train.py")
    assert (answer.code, answer.err) == (0, "")
    assert f"{'merged' if edit else 'restored'} tools/my_train.py (was train.py)" in answer.out
    assert "removed tools/my_pai_distributed/score.py (was pai_distributed/score.py)" in answer.out
    assert applied.text("tools/my_train.py") == (swapped(SCRIPT, EDIT) if edit else SCRIPT)
    assert applied.names() - {name for name in applied.names() if name.startswith(".git/")} == {
        "other.py",
        "tools/my_train.py",
    }


def test_another_script_that_is_much_alike_is_not_taken_for_a_renamed_one(applied: Folder) -> None:
    applied.write("other.py", SCRIPT)
    applied.run("apply", "other.py", "--force")
    before = applied.text("other.py")
    (applied.path / "train.py").unlink()
    assert applied.run("undo", "train.py").code == 0
    assert applied.text("other.py") == before
    assert applied.text("train.py") == SCRIPT


def test_a_project_that_was_moved_is_undone_where_it_is(applied: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    new = applied.path.with_name("elsewhere")
    applied.path.rename(new)
    monkeypatch.chdir(new)
    assert applied.run("undo", "train.py").code == 0
    assert (new / "train.py").read_text() == SCRIPT


# ---- what other scripts need

SHARED = "def step(loss, optimizer):\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
USES = swapped(
    SCRIPT,
    ("            optimizer.zero_grad()\n", ""),
    ("            loss.backward()\n", "            engine.step(loss, optimizer)\n"),
    ("            optimizer.step()\n", ""),
    ("import argparse\n", "import argparse\n\nimport engine\n"),
)


def test_what_a_later_script_needs_stays_until_it_is_undone_too(folder: Folder) -> None:
    folder.write("engine.py", SHARED)
    for name in ("a.py", "b.py"):
        folder.write(name, USES)
        assert folder.run("apply", "--force", name).code == 0
    engine = folder.text("engine.py")
    assert engine != SHARED
    answer = folder.run("undo", "a.py")
    assert answer.code == 0
    assert "left engine.py (for b.py)" in answer.out.splitlines()
    assert "left pai_distributed/ (for b.py)" in answer.out.splitlines()
    assert (folder.text("a.py"), folder.text("engine.py")) == (USES, engine)
    assert "nothing to do" in folder.run("apply", "b.py").out
    assert folder.run("undo", "b.py").code == 0
    assert folder.contents().keys() == {"a.py", "b.py", "engine.py"}
    assert (folder.text("b.py"), folder.text("engine.py")) == (USES, SHARED)
    assert not (folder.path / ".retrofit").exists()


# ---- records that cannot be trusted


def content(data: bytes, mode: str = "644") -> dict[str, Any]:
    return {"mode": mode, "sha256": sha256(data).hexdigest(), "bytes": base64.b64encode(data).decode()}


def entry(path: str, **changed: Any) -> dict[str, Any]:
    """Return what a record says of a file that would be overwritten."""
    both = {"before": content(b"from the record\n"), "after": content(b"precious\n")}
    return {"path": path, "scripts": ["train.py"], **both, **changed}


def record(*entries: dict[str, Any], **changed: Any) -> str:
    data = {"format": 1, "command": "apply", "time": "", "uses": [], "files": list(entries)}
    return json.dumps({**data, **changed})


WRONG_DIGEST = {**content(b"x"), "sha256": sha256(b"y").hexdigest()}
TAMPERED = {
    "absolute": record(entry("{outside}/victim")),
    "upwards": record(entry("../outside/victim")),
    "upwards from below": record(entry("sub/../../outside/victim")),
    "a folder that is a link": record(entry("link/victim")),
    "a file that is a link": record(entry("linked")),
    "the journal itself": record(entry(".retrofit/victim")),
    "a hook of git": record(entry(".git/hooks/pre-commit", before=content(b"evil", "755"), after=None)),
    "git in other words": record(entry("sub/.GIT/config", before=content(b"evil"), after=None)),
    "git with a dot": record(entry(".git./config", before=content(b"evil"), after=None)),
    "git on a Mac": record(entry(".g\u200cit/config", before=content(b"evil"), after=None)),
    "no name": record(entry("")),
    "a dot": record(entry(".")),
    "two slashes": record(entry("sub//victim")),
    "a null": record(entry("vic\0tim")),
    "a long name": record(entry("n" * 300, before=content(b"evil"), after=None)),
    "other bytes": record(entry("train.py", before=WRONG_DIGEST)),
    "no base64": record(entry("train.py", before={**content(b"x"), "bytes": "?"})),
    "an empty file": record(entry("train.py", before={**content(b"x"), "bytes": ""})),
    "a mode": record(entry("train.py", before=content(b"x", "4755"))),
    "a file twice": record(entry("train.py"), entry("Train.py")),
    "scripts outside": record(entry("train.py", scripts=["../outside/victim"])),
    "nothing": record(entry("train.py", before=None, after=None)),
    "a number": record(entry("train.py", before=3)),
    "steps within steps": record(entry("train.py"), replaces={"1": json.loads(record(replaces={"2": None}))}),
}


@pytest.fixture
def hostile(folder: Folder) -> Folder:
    """A project with links that lead out of it, beside a folder with a file that is nobody else's."""
    outside = folder.path.with_name("outside")
    outside.mkdir()
    (outside / "victim").write_text("precious\n")
    folder.write("train.py", "precious\n")
    folder.write("sub/victim", "precious\n")
    (folder.path / "link").symlink_to("../outside")
    (folder.path / "linked").symlink_to("../outside/victim")
    (folder.path / ".git" / "hooks").mkdir(parents=True)
    return folder


def everything(folder: Folder) -> dict[str, str]:
    """Return all files below the folder around a project, those of the journal left out."""
    files = [path for path in folder.path.parent.rglob("*") if path.is_file() and ".retrofit" not in path.parts]
    return {str(path): path.read_text() for path in files}


@pytest.mark.parametrize("name", ["0001.json", "pending.json", "undone.json"])
@pytest.mark.parametrize("text", TAMPERED.values(), ids=TAMPERED)
def test_a_tampered_record_touches_nothing(hostile: Folder, text: str, name: str) -> None:
    text = text.replace("{outside}", str(hostile.path.with_name("outside")))
    hostile.write(f".retrofit/{name}", text)
    before = everything(hostile)
    answer = hostile.run("undo", "train.py")
    assert (answer.code, answer.out) == (2, "")
    assert re.search(r"(\.retrofit(/\w+\.json)?|link/victim|linked|n{300}): RF0(10|14) ", answer.err), answer.err
    assert len(answer.lines) == 1
    assert everything(hostile) == before


def test_an_unfinished_change_that_came_with_a_project_is_not_taken_back_unasked(hostile: Folder) -> None:
    hostile.write(".retrofit/pending.json", record(entry("train.py"), place=os.stat(hostile.path).st_ino))
    before = everything(hostile)
    answer = hostile.run("apply", "train.py")
    assert (answer.code, answer.out) == (2, "")
    assert ".retrofit: RF032 holds an unfinished apply that was not begun here" in answer.err
    assert everything(hostile) == before


@pytest.mark.parametrize("kind", ["file", "link", "dangling link"])
def test_what_is_in_the_place_of_the_journal_is_not_written_through(hostile: Folder, kind: str) -> None:
    journal = hostile.path / ".retrofit"
    if kind == "file":
        journal.write_text("")
    else:
        journal.symlink_to("../outside" if kind == "link" else "../nowhere")
    hostile.write("train.py", SCRIPT)
    before = everything(hostile)
    for command in ("apply", "undo"):
        answer = hostile.run(command, "train.py")
        assert answer.code == 2
        assert answer.lines[0].startswith((".retrofit: RF014 ", "train.py: RF011 "))
    assert everything(hostile) == before
    assert os.listdir(hostile.path.with_name("outside")) == ["victim"]


@pytest.mark.parametrize("name", ["staged", "saved"])
@pytest.mark.parametrize("pending", [False, True])
def test_no_link_within_the_journal_is_followed(hostile: Folder, name: str, pending: bool) -> None:
    hostile.write("train.py", SCRIPT)
    hostile.write(".retrofit/pending.json" if pending else ".retrofit/0001.json", record(entry("train.py")))
    (hostile.path / ".retrofit" / name).symlink_to("../../outside")
    before = everything(hostile)
    for arguments in (["apply", "train.py"], ["undo", "train.py"], ["check", "--fix", "."]):
        answer = hostile.run(*arguments)
        if arguments[0] != "check":
            assert f".retrofit/{name}: RF014 is in the place of retrofit's folder." in answer.err
    assert everything(hostile) == before


def test_the_disk_lists_no_folder_through_a_link(hostile: Folder) -> None:
    with pytest.raises(NotADirectoryError):
        DISK.names(hostile.path / "link")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_journal_of_another_user_is_not_read(applied: Folder) -> None:
    os.chown(".retrofit", 12345, 12345)
    for command in ("undo", "apply"):
        assert ".retrofit: RF014 belongs to another user" in applied.run(command, "train.py", *LIST[command]).err


LIST = {"undo": [], "apply": ["--gpus", "0"]}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_in_folders_around_a_project_only_the_users_own_journals_are_read(folder: Folder) -> None:
    folder.write("project/pyproject.toml", "")
    folder.write("project/train.py", SCRIPT)
    folder.write(".retrofit/0001.json", "no record")
    assert ".retrofit/0001.json: RF014 " in folder.run("undo", "project/train.py").err
    for path in (folder.path, folder.path / ".retrofit"):
        os.chown(path, 12345, 12345)
    assert folder.run("undo", "project/train.py").lines[0].startswith("project/train.py: RF011 ")


def test_a_record_of_an_older_layout_is_not_read(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    folder.write(".retrofit/undo.json", '{"train.py": {"train.py": {"before": "eA==", "mode": 420, "after": ""}}}')
    assert folder.run("undo", "train.py").lines[0].startswith("train.py: RF011 ")
    assert folder.run("apply", "train.py").code == 0
    assert folder.run("undo", "train.py").code == 0
    assert folder.text("train.py") == SCRIPT


def test_the_journal_is_kept_in_one_folder_at_the_root_that_git_does_not_see(folder: Folder) -> None:
    folder.write("deep/down/train.py", SCRIPT)
    git("init", "-q")
    assert folder.run("apply", "deep/down/train.py").code == 0
    found = [str(path.relative_to(folder.path)) for path in Path().resolve().rglob(".retrofit")]
    assert found == [".retrofit"]
    status = subprocess.run(["git", "status", "--porcelain", "-uall"], check=True, capture_output=True, text=True)
    assert ".retrofit" not in status.stdout
