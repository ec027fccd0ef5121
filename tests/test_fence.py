"""Nothing is written outside the project: not through links, paths, modules or names, whatever leads there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from retrofit.write.fence import below, root_of
from tests.conftest import SCRIPT, Folder, swapped
from tests.test_check import BAD
from tests.test_undo import SHARED, USES

#: How a script finds the module `engine` that lies outside its project.
ADDED = "import os\nimport sys\nhere = os.path.dirname(__file__)\nsys.path.append({})\n"


@pytest.fixture
def outside(folder: Folder) -> Path:
    """A folder beside the project, with a module that trains and with a script."""
    path = folder.path.with_name("outside")
    path.mkdir()
    (path / "engine.py").write_text(SHARED)
    (path / "train.py").write_text(SCRIPT)
    (path / "bad.py").write_text(BAD)
    return path


def by_path(folder: Folder, code: str) -> str:
    folder.write("train.py", USES.replace("import engine\n", ADDED.format(code) + "import engine\n"))
    return "train.py"


def linked_module(folder: Folder, outside: Path) -> str:
    folder.write("train.py", USES)
    (folder.path / "engine.py").symlink_to(outside / "engine.py")
    return "train.py"


def linked_folder(folder: Folder, outside: Path) -> str:
    folder.write("train.py", USES.replace("import engine\n", "from lib import engine\n"))
    (folder.path / "lib").symlink_to(outside)
    return "train.py"


def chain_of_links(folder: Folder, outside: Path) -> str:
    folder.write("train.py", USES)
    (folder.path / "engine.py").symlink_to("one.py")
    (folder.path / "one.py").symlink_to("there/engine.py")
    (folder.path / "there").symlink_to("../outside")
    return "train.py"


def linked_script(folder: Folder, outside: Path) -> str:
    (folder.path / "train.py").symlink_to("../outside/train.py")
    return "train.py"


def linked_helper(folder: Folder, outside: Path) -> str:
    """The helper's place is taken by a link to another folder."""
    folder.write("train.py", SCRIPT)
    (folder.path / "pai_distributed").symlink_to("../outside")
    return "train.py"


def linked_launcher(folder: Folder, outside: Path) -> str:
    folder.write("train.py", SCRIPT)
    (folder.path / "train_distributed.sh").symlink_to("../outside/bad.py")
    return "train.py"


def script_in_the_history(folder: Folder, outside: Path) -> str:
    folder.write(".git/hooks/pre-commit", SCRIPT)
    return ".git/hooks/pre-commit"


ESCAPES: dict[str, Callable[[Folder, Path], str]] = {
    "upwards": lambda folder, outside: by_path(folder, "'../outside'"),
    "upwards from this file": lambda folder, outside: by_path(folder, "os.path.join(here, '..', 'outside')"),
    "upwards from a folder that is not told": lambda folder, outside: by_path(
        folder, "os.path.join(there, '..', 'outside')"
    ),
    "upwards in other words": lambda folder, outside: by_path(folder, "'./x/../../outside/.'"),
    "a linked module": linked_module,
    "a linked folder": linked_folder,
    "a chain of links": chain_of_links,
    "a linked script": linked_script,
    "a linked helper": linked_helper,
    "a linked launcher": linked_launcher,
    "a script in the history": script_in_the_history,
}  # fmt: skip


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {str(path): (path.lstat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["", "forced"])
@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
def test_nothing_outside_the_project_is_written(
    folder: Folder, outside: Path, escape: Callable[[Folder, Path], str], force: list[str]
) -> None:
    script = escape(folder, outside)
    before = state(outside), folder.contents()
    for command in (["apply", *force], ["inspect"]):
        answer = folder.run(*command, script)
        assert answer.code == (2 if command[0] == "apply" else 0)
        if answer.lines:
            assert len(answer.lines) == 1
            assert "RF030 " in answer.err or "RF010 " in answer.err or "RF008 " in answer.err
    assert (state(outside), folder.contents()) == before
    assert not (folder.path / ".retrofit").exists()


def test_a_module_outside_is_a_question_at_its_line_that_names_the_option(folder: Folder, outside: Path) -> None:
    by_path(folder, "'../outside'")
    [line] = folder.run("apply", "train.py").lines
    assert line.startswith("../outside/engine.py:3:5: RF030 must be rewritten here, but lies outside the project, ")
    assert "--project-root DIR" in line


def test_files_that_go_outside_together_are_told_of_by_their_folder(folder: Folder) -> None:
    folder.write("job/__init__.py", "")
    folder.write("job/common.py", "RATE = 0.1\n")
    folder.write("job/train.py", SCRIPT.replace("import torch\n", "import torch\nfrom job.common import RATE\n", 1))
    [line] = folder.run("apply", "--project-root", "job", "job/train.py").lines
    assert line.startswith("pai_distributed: RF030 lies outside the project, ")


def test_a_wider_root_lets_it_be_written_and_undone(folder: Folder, outside: Path) -> None:
    script = by_path(folder, "'../outside'")
    assert folder.run("apply", "--project-root", "..", script).code == 0
    assert "fill_missing_gradients" in (outside / "engine.py").read_text()
    assert not (folder.path / ".retrofit").exists()
    assert (folder.path.parent / ".retrofit").is_dir()
    assert folder.run("undo", script).code == 0
    assert (outside / "engine.py").read_text() == SHARED
    assert not (folder.path.parent / ".retrofit").exists()


def test_a_module_outside_that_need_not_change_is_only_read(folder: Folder, outside: Path) -> None:
    (outside / "engine.py").write_text(swapped(SHARED, ("    loss.backward()\n", "")))
    script = by_path(folder, "'../outside'")
    folder.write(script, folder.text(script).replace("engine.step(", "loss.backward()\n            engine.step("))
    before = state(outside)
    assert folder.run("apply", script).code == 0
    assert state(outside) == before


@pytest.mark.parametrize("choice", ["nowhere", "train.py"])
def test_a_root_that_is_no_folder_is_wrong_usage(folder: Folder, choice: str) -> None:
    folder.write("train.py", SCRIPT)
    answer = folder.run("apply", "--project-root", choice, "train.py")
    assert (answer.code, answer.out) == (2, "")
    assert answer.lines == [f"--project-root: RF006 {choice} is no folder."]


def test_scripts_of_two_projects_are_a_question(folder: Folder) -> None:
    for name in ("a/train.py", "b/train.py"):
        folder.write(name, SCRIPT)
    answer = folder.run("apply", "a/train.py", "b/train.py")
    assert (answer.code, answer.out) == (2, "")
    assert answer.lines[0].startswith("b/train.py: RF030 is of another project than a/train.py")
    assert folder.run("apply", "--project-root", ".", "a/train.py", "b/train.py").code == 0


@pytest.mark.parametrize(
    ("marks", "script", "root"),
    [
        pytest.param(["a/.git/", "a/b/pyproject.toml"], "a/b/c/train.py", "a", id="repository"),
        pytest.param(["a/.git"], "a/b/train.py", "a", id="worktree"),
        pytest.param(["a/setup.py"], "a/b/train.py", "a", id="project"),
        pytest.param(["a/b/__init__.py", "a/b/c/__init__.py"], "a/b/c/train.py", "a", id="package"),
        pytest.param(["a/b/x"], "a/b/train.py", "a/b", id="folder"),
    ],
)
def test_the_root_is_that_of_the_repository_the_project_or_the_package(
    folder: Folder, marks: list[str], script: str, root: str
) -> None:
    for mark in marks:
        (folder.path / mark).mkdir(parents=True) if mark.endswith("/") else folder.write(mark, "")
    assert root_of(folder.path / script) == folder.path / root


def test_the_home_is_no_project(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder.path))
    (folder.path / ".git").mkdir()
    assert root_of(folder.write("deep/train.py", SCRIPT)) == folder.path / "deep"


def test_a_folder_has_all_its_names(folder: Folder) -> None:
    (folder.path / "project").mkdir()
    (folder.path / "Project").symlink_to("project")  # as where case does not count
    file = folder.path / "Project" / "lib" / "x.py"
    assert below(folder.path / "project", file) == "lib/x.py"
    assert below(folder.path / "project", folder.path / "projects" / "x.py") is None


def test_a_fix_writes_nothing_outside_either(folder: Folder, outside: Path) -> None:
    folder.write("train.py", BAD)
    (folder.path / "linked.py").symlink_to("../outside/bad.py")
    before = state(outside)
    answer = folder.run("check", "--fix", ".")
    assert answer.code == 2
    assert answer.lines[0].startswith("./linked.py: RF030 is not fixed: it lies outside the project, ")
    assert state(outside) == before
    assert folder.text("train.py") != BAD
    assert folder.run("check", "--fix", "--project-root", "..", ".").code in (0, 1)
    assert state(outside) != before


def test_a_path_that_is_too_long_is_one_line(folder: Folder) -> None:
    for name in ("n" * 300 + ".py", "/".join(["deep"] * 2000) + "/train.py"):
        for command in ("apply", "inspect", "check", "undo"):
            answer = folder.run(command, name)
            assert (answer.code, len(answer.lines)) == (2, 1)


def test_what_was_linked_to_later_is_not_written_through(folder: Folder, outside: Path) -> None:
    folder.write("train.py", SCRIPT)
    folder.run("apply", "train.py")
    os.replace("train.py", outside / "moved.py")
    os.symlink(outside / "moved.py", "train.py")
    before = state(outside)
    answer = folder.run("undo", "train.py")
    assert answer.code == 2
    assert state(outside) == before
