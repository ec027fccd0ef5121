"""The fixture projects, and how tests run them."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from retrofit.cli import main
from retrofit.toml import read_toml

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = ROOT / "fixtures"
#: One training takes about 30 seconds on 2 free cores; only a test that is about to fail waits so long.
DEADLINE = 600.0


@dataclass(frozen=True)
class Project:
    """A fixture as its fixture.toml describes it; see fixtures/README.md."""

    name: str
    entry: str
    kind: str
    arguments: tuple[str, ...]
    options: tuple[str, ...]
    start: str
    before_runs: bool = True
    history: bool = False

    @property
    def before(self) -> Path:
        return FIXTURES / self.name / "before"

    @property
    def after(self) -> Path:
        return FIXTURES / self.name / "after"

    def copy(self, side: str, folder: Path) -> Path:
        """Copy `before` or `after` to ``folder`` and return the entry script there."""
        shutil.copytree(FIXTURES / self.name / side, folder, dirs_exist_ok=True)
        return folder / self.entry


def load_projects() -> list[Project]:
    """Return every fixture, by name."""
    projects = []
    for path in sorted(FIXTURES.glob("*/fixture.toml")):
        data = read_toml(path, "fixture")
        projects.append(
            Project(
                name=path.parent.name,
                entry=data["entry"],
                kind=data["kind"],
                arguments=tuple(data["arguments"]),
                options=tuple(data["options"]),
                start=data.get("start", "python" if data["kind"] == "dp" else "torchrun"),
                before_runs=data.get("before_runs", True),
                history=data.get("history", False),
            )
        )
    return projects


def files_below(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file below ``folder``, by relative path, without caches and the undo journal."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not {"__pycache__", ".retrofit"} & set(path.parts)
    }


def run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a training as a user without a terminal does, and return what came of it."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PAI_")}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        command,
        cwd=folder,
        env={**inherited, "PATH": path, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE,
        check=False,
    )


def shown(result: subprocess.CompletedProcess[str]) -> str:
    """Return the end of a run's output, for a failing test's message."""
    return f"$ {shlex.join(result.args)}\n{result.stdout[-6000:]}"


def apply(script: Path, *options: str) -> str:
    """Run `retrofit apply` and return what it printed."""
    result = CliRunner().invoke(main, ["apply", str(script), *options])
    assert result.exit_code == 0, result.output
    return result.output


def write_after(names: list[str]) -> None:
    """Make after/ anew for the fixtures with these names. Read what changed, line by line, before committing it."""
    for project in load_projects():
        if project.name in names:
            shutil.rmtree(project.after, ignore_errors=True)
            script = project.copy("before", project.after)
            apply(script, *project.options)
            shutil.rmtree(script.parent / ".retrofit")


if __name__ == "__main__":
    write_after(sys.argv[1:])
