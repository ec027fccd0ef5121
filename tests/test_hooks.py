"""The pre-commit hooks, with the real pre-commit program on real git repositories."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from retrofit.cli import main
from tests.test_check import BAD, GOOD

ROOT = Path(__file__).parents[1]
MANIFEST = ROOT / ".pre-commit-hooks.yaml"
#: The hooks' environment is their own, and not the one that the tests run in.
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_") and name != "PYTHONPATH"},
    **{f"GIT_{who}_{what}": "test@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    "GIT_CONFIG_GLOBAL": os.devnull,
}


def pre_commit(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pre_commit", *arguments]
    return subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True)


def test_the_manifest_is_valid() -> None:
    result = pre_commit("validate-manifest", str(MANIFEST))
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_hooks_options_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(GOOD)
    text = MANIFEST.read_text()
    arguments = [*re.findall(r"args: \[(.*)\]", text), ""]
    for entry, given in zip(re.findall(r"entry: (.*)", text), arguments, strict=True):
        program, *rest = shlex.split(entry)
        assert program == "retrofit"
        result = CliRunner().invoke(main, [*rest, *shlex.split(given.replace(",", " ")), "train.py"])
        assert result.exit_code == 0, result.output


@dataclass(frozen=True)
class Repository:
    """A git repository."""

    path: Path

    def git(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run git in it."""
        command = ["git", *arguments]
        return subprocess.run(command, cwd=self.path, env=ENVIRONMENT, capture_output=True, text=True)

    def commit(self) -> subprocess.CompletedProcess[str]:
        """Commit everything, as far as the hooks allow it."""
        self.git("add", "--all")
        return self.git("commit", "--message", "Try it")

    @property
    def committed(self) -> bool:
        """Whether everything is committed."""
        return not self.git("status", "--porcelain").stdout


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """What is checked out, as a repository that pre-commit can install hooks from."""
    repository = Repository(tmp_path_factory.mktemp("published"))
    listed = Repository(ROOT).git("ls-files", "-z", "--cached", "--others", "--exclude-standard").stdout
    for name in filter(None, listed.split("\0")):
        needless = re.match(r"tests/|fixtures/(?!\w+_demo/before/)", name)  # the demo's projects are in the package
        if (ROOT / name).is_file() and not needless:
            (repository.path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, repository.path / name)
    repository.git("init", "--quiet")
    assert repository.commit().returncode == 0
    return repository


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pre-commit keeps the environments of hooks; made once, as it takes long."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def hooked(tmp_path: Path, published: Repository, home: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository with a training script and no hook yet."""
    monkeypatch.setitem(ENVIRONMENT, "PRE_COMMIT_HOME", str(home))
    repository = Repository(tmp_path)
    repository.git("init", "--quiet")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train é 1.py").write_text(BAD)
    (tmp_path / "notes.txt").write_text(BAD)
    return repository


def install(repository: Repository, published: Repository, hook: str) -> None:
    """Let commits run a hook."""
    revision = published.git("rev-parse", "HEAD").stdout.strip()
    (repository.path / ".pre-commit-config.yaml").write_text(
        f"repos:\n- repo: {published.path}\n  rev: {revision}\n  hooks:\n  - id: {hook}\n"
    )
    result = pre_commit("install", "--install-hooks", cwd=repository.path)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.real
def test_retrofit_check_keeps_a_finding_from_being_committed(hooked: Repository, published: Repository) -> None:
    install(hooked, published, "retrofit-check")
    result = hooked.commit()
    assert result.returncode == 1
    assert "src/train é 1.py:4:10: DDP202 error " in result.stderr
    assert "notes.txt" not in result.stderr
    assert not hooked.committed

    script = hooked.path / "src" / "train é 1.py"
    script.write_text(BAD.rstrip() + "  # retrofit: ignore[DDP202]\n")
    assert hooked.commit().returncode == 0
    assert hooked.committed


@pytest.mark.real
@pytest.mark.parametrize("setting", ['severity = {DDP202 = "advice"}', 'per-file-ignores = {"src/*" = ["DDP2"]}'])
def test_retrofit_check_knows_the_project_s_settings(hooked: Repository, published: Repository, setting: str) -> None:
    install(hooked, published, "retrofit-check")
    (hooked.path / "pyproject.toml").write_text(f"[tool.retrofit]\n{setting}\n")
    result = hooked.commit()
    assert result.returncode == 0, result.stderr
    assert hooked.committed


@pytest.mark.real
def test_retrofit_fix_repairs_what_is_committed_then(hooked: Repository, published: Repository) -> None:
    install(hooked, published, "retrofit-fix")
    result = hooked.commit()
    assert result.returncode == 1
    assert "files were modified by this hook" in result.stderr
    assert (hooked.path / "src" / "train é 1.py").read_text() == GOOD
    assert (hooked.path / "notes.txt").read_text() == BAD
    assert hooked.commit().returncode == 0
    assert hooked.committed
    listed = hooked.git("ls-files", "-z").stdout.split("\0")
    assert not [
        name for name in listed if ".retrofit" in name
    ]  # what `retrofit undo` needs stays out of the repository


@pytest.mark.real
def test_many_files_are_checked_together(hooked: Repository, published: Repository) -> None:
    install(hooked, published, "retrofit-check")
    for number in range(300):
        (hooked.path / "src" / f"part{number}.py").write_text(GOOD)
    result = hooked.commit()
    assert result.returncode == 1
    assert "Found 1 error in 301 files." in result.stderr
