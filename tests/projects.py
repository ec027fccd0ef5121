"""The fixture projects, and how tests run them."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from click.testing import CliRunner

from retrofit.cli import main
from retrofit.launch import Launch, Launcher, launch_script
from retrofit.rules_folder import rules_folder
from retrofit.toml import read_toml

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = ROOT / "fixtures"
HELPER = "pai_distributed"
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
    launcher: Launcher | Literal["none"]
    save_name: str
    before_runs: bool = True
    history: bool = False
    graphs: bool = True

    @property
    def before(self) -> Path:
        return FIXTURES / self.name / "before"

    @property
    def after(self) -> Path:
        return FIXTURES / self.name / "after"

    @property
    def module(self) -> str:
        """The entry script's full name where it is started as a module of its package, else ""."""
        return self.entry.removesuffix(".py").replace("/", ".") if self.start == "module" else ""

    @property
    def generated(self) -> dict[str, bytes]:
        """What an apply adds to the project's own files: the helper as it is, and a launcher with its values."""
        rules, folder = rules_folder() / "perforatedai", Path(self.entry).parent
        helper = (Path() if self.module else folder) / HELPER
        added = {
            helper / path.relative_to(rules / HELPER): path.read_bytes() for path in (rules / HELPER).rglob("*.py")
        }
        if self.launcher != "none":
            launch = Launch(Path(self.entry).name, self.save_name, launcher=self.launcher, module=self.module)
            template = (rules / "train_distributed.sh.j2").read_text(encoding="utf-8")
            added[folder / launch.name] = launch_script(template, launch).encode()
        return {str(path): data for path, data in added.items()}

    def copy(self, side: str, folder: Path) -> Path:
        """Copy `before`, or `after` with what an apply adds, to ``folder`` and return the entry script there."""
        shutil.copytree(FIXTURES / self.name / side, folder, dirs_exist_ok=True)
        for name, data in self.generated.items() if side == "after" else ():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        return folder / self.entry


def load_projects() -> list[Project]:
    """Return every fixture, by name."""
    projects = []
    for path in sorted(FIXTURES.glob("*/fixture.toml")):
        data = read_toml(path, "fixture")
        start = data.get("start", "python" if data["kind"] == "dp" else "torchrun")
        projects.append(
            Project(
                name=path.parent.name,
                entry=data["entry"],
                kind=data["kind"],
                arguments=tuple(data["arguments"]),
                options=tuple(data["options"]),
                start=start,
                launcher=data.get("launcher", "python" if start == "python" else "torchrun"),
                save_name=data.get("save_name", f"PAI_{Path(data['entry']).stem}"),
                before_runs=data.get("before_runs", True),
                history=data.get("history", False),
                graphs=data.get("graphs", True),
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
        env={**inherited, "PATH": path, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "REHEARSE": "0", **environment},
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
            with TemporaryDirectory() as made:
                apply(project.copy("before", Path(made)), *project.options)
                for name in files_below(Path(made)).keys() - project.generated.keys():
                    (project.after / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(Path(made, name), project.after / name)


if __name__ == "__main__":
    write_after(sys.argv[1:])
