"""What several commands share: arguments, options, the recipe, the folder that is written to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from retrofit.errors import Problem, UserError
from retrofit.reading import DEFAULT_MEGABYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retrofit.console import Console
    from retrofit.rules import Recipe

SCRIPT = click.argument("script", type=click.Path(readable=False, path_type=Path), metavar="SCRIPT")
SCRIPTS = click.argument(
    "scripts", type=click.Path(readable=False, path_type=Path), metavar="SCRIPT...", nargs=-1, required=True
)
PYTHON = click.option(
    "--python",
    type=click.Path(readable=False),
    metavar="PROGRAM",
    help="The Python that trains. [default: retrofit's own if it has torch, else PATH's]",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON. [default: text]")
PROJECT_ROOT = click.option(
    "--project-root",
    type=click.Path(readable=False, path_type=Path),
    metavar="DIR",
    help="The folder below which files may be written. [default: the script's repository, project or package]",
)
MAX_FILE_SIZE = click.option(
    "--max-file-size",
    type=click.FloatRange(min=0, min_open=True),
    default=DEFAULT_MEGABYTES,
    metavar="MB",
    help=f"The largest file that is looked into, in megabytes. [default: {DEFAULT_MEGABYTES:g}]",
)


def named_recipe(rules: Path | None, name: str = "perforatedai") -> Recipe:
    from retrofit.rules import load_recipe
    from retrofit.rules_folder import rules_folder

    return load_recipe(rules_folder() / name, rules)


def see_to_unfinished(console: Console, scripts: Sequence[Path], writing: bool) -> None:
    """See to what a command left unfinished before another one begins, or only say so."""
    from retrofit.write.record import recover_around, unfinished_around

    for script in scripts:
        for problem in recover_around(script) if writing else unfinished_around(script):
            console.problem(problem)


def root_for(scripts: Sequence[Path], chosen: Path | None) -> Path:
    """Return the folder below which a command for some scripts may write."""
    from retrofit.write.fence import root_of

    roots = {root_of(script, chosen): script for script in scripts}
    if len(roots) > 1:
        one, other = list(roots.values())[:2]
        message = (
            f"is of another project than {one}, and all or no files of a project are written. Run once for each, or "
            "give --project-root a folder that holds both."
        )
        raise UserError(Problem(str(other), 0, 0, "RF030", message))
    return next(iter(roots))
