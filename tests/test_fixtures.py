"""Each fixture's before/ becomes its after/, and stays so."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from click.testing import CliRunner

from retrofit.cli import main
from tests.projects import Project, apply, files_below, load_projects

PROJECTS = load_projects()


@pytest.fixture(params=PROJECTS, ids=lambda project: project.name)
def project(request: pytest.FixtureRequest) -> Project:
    assert isinstance(request.param, Project)
    return request.param


def test_apply_gives_after(project: Project, tmp_path: Path) -> None:
    script = project.copy("before", tmp_path)
    apply(script, *project.options)
    expected, made = files_below(project.after), files_below(tmp_path)
    assert sorted(made) == sorted(expected)
    for name, data in expected.items():
        assert made[name] == data, "".join(
            difflib.unified_diff(
                data.decode().splitlines(keepends=True),
                made[name].decode().splitlines(keepends=True),
                f"{project.name}/after/{name}",
                "made now",
            )
        )


def test_a_second_apply_changes_nothing(project: Project, tmp_path: Path) -> None:
    script = project.copy("before", tmp_path)
    apply(script, *project.options)
    made = files_below(tmp_path)
    assert "nothing to do" in apply(script)
    assert files_below(tmp_path) == made


def test_undo_brings_before_back(project: Project, tmp_path: Path) -> None:
    script = project.copy("before", tmp_path)
    apply(script, *project.options)
    assert CliRunner().invoke(main, ["undo", str(script)]).exit_code == 0
    assert files_below(tmp_path) == files_below(project.before)


def test_inline_leaves_one_file_that_stays_so(project: Project, tmp_path: Path) -> None:
    script = project.copy("before", tmp_path)
    before, after = files_below(project.before), files_below(project.after)
    if [name for name in before if name != project.entry and after[name] != before[name]]:
        answer = CliRunner().invoke(main, ["apply", str(script), "--inline", *project.options])
        assert answer.exit_code == 2
        assert "RF019" in answer.stderr
        assert files_below(tmp_path) == before
        return
    apply(script, "--inline", *project.options)
    made = files_below(tmp_path)
    assert "pai_distributed.py" not in made
    assert "nothing to do" in apply(script)
    assert "nothing to do" in apply(script, "--inline")
    assert files_below(tmp_path) == made
