"""A copy of the user's project to train in, so that the project stays as it is."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrofit.imports import above_package
from retrofit.root import holds_more, project_root
from retrofit.rules_folder import rules_folder

#: What makes, keeps and shortens a rehearsal, for the training and for this copy of its project.
HELPER = rules_folder() / "perforatedai" / "pai_distributed"


@dataclass(frozen=True)
class Scratch:
    """Where the copy is: in a mirror of the file system, so that all paths lead where they did.

    Attributes:
        root: what stands for the root of the file system.
        original: the root of the user's project.
        script: the copy of the entry script.
        cwd: what stands for the user's working folder.
        module: the script's full name, where it is started as a module; else "".
    """

    root: Path
    original: Path
    script: Path
    cwd: Path
    module: str = ""

    @property
    def project(self) -> Path:
        """The root of the copy."""
        return self.root / self.original.relative_to(self.original.anchor)

    @property
    def program(self) -> list[str]:
        """What `python` is given to start the script."""
        return ["-m", self.module] if self.module else [str(self.script)]

    @property
    def imports(self) -> str:
        """Where Python must be told to look for the script's package, "" for a script that is started by its path."""
        return str(above_package(self.script, self.module)) if self.module else ""

    def copy_of(self, path: Path) -> Path | None:
        """Return the copy of a file of the project, None where it was not copied but linked to, or lies elsewhere.

        Args:
            path: the file's real path; the file itself need not exist.
        """
        if not path.is_relative_to(self.original):
            return None
        copy = self.project / path.relative_to(self.original)
        return copy if Path(os.path.realpath(copy.parent)).is_relative_to(os.path.realpath(self.root)) else None


def copy_project(script: Path, folder: Path, module: str = "", arguments: Sequence[str] = ()) -> Scratch:
    """Copy the project of a script, as the launcher does for a rehearsal.

    The project is the nearest folder above the script that looks like a project's root, else the script's own folder;
    with the working folder, and the folders that arguments name. Large files are linked to, and so is all else.

    Args:
        script: the entry script.
        folder: an empty folder for the copy, by its real path.
        module: the script's full name, where it is started as a module.
        arguments: the script's own.
    """
    script = Path(os.path.realpath(script))
    cwd = Path.cwd()
    above = above_package(script, module)
    project = project_root(script) or above
    project = above if above in project.parents else project
    if cwd in project.parents and not holds_more(cwd):
        project = cwd
    mirror = _mirror()
    named = [path for word in arguments if os.path.isdir(path := mirror._pai_named(word))]
    mirror._pai_make_mirror(str(folder), [str(project), str(cwd), *named])
    root = folder / "root"
    return Scratch(
        root=root,
        original=project,
        script=root / script.relative_to(script.anchor),
        cwd=root / cwd.relative_to(cwd.anchor),
        module=module,
    )


def _mirror() -> Any:
    spec = importlib.util.spec_from_file_location("pai_mirror", HELPER / "mirror.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
