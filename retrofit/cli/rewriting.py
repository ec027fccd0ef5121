"""The commands that plan and write: `inspect`, `apply`, `launch` and `undo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from retrofit.cli.frame import FOUND, OK, Command
from retrofit.cli.options import Asked, keyed
from retrofit.cli.shared import (
    JSON,
    MAX_FILE_SIZE,
    PROJECT_ROOT,
    SCRIPT,
    SCRIPTS,
    named_recipe,
    root_for,
    see_to_unfinished,
)
from retrofit.errors import Problem, UserError, shown_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retrofit.console import Console
    from retrofit.plan import Plan
    from retrofit.rules import Recipe
    from retrofit.write.new import NewFile


@click.command(
    cls=Command,
    examples=(
        ("What does it find in a script?", "retrofit inspect train.py"),
        ("Which rules would change what?", "retrofit inspect -v train.py"),
        ("Does an answer settle the question?", "retrofit inspect --metric val_acc train.py"),
        ("For programs:", "retrofit inspect --json train.py"),
    ),
)
@SCRIPT
@JSON
@PROJECT_ROOT
@MAX_FILE_SIZE
@keyed
def inspect(asked: Asked, script: Path, as_json: bool, project_root: Path | None, max_file_size: float) -> int:
    """Show every site in SCRIPT, and every open question.

    Exit code 0 also where questions are open: they are what inspect is for.
    """
    from retrofit import report
    from retrofit.options import load_options
    from retrofit.outputs import Company
    from retrofit.plan import make_plan

    console = asked.console
    recipe = named_recipe(asked.choices["rules"])
    company = Company(root=root_for([script], project_root))
    with console.progress(not as_json) as told:
        chosen = load_options(script, asked.chosen, max_file_size)
        plan = make_plan(script, str(script), recipe, chosen, survey_only=True, company=company, told=told)
    if as_json:
        console.result(report.survey_json(plan.script, plan))
        return OK
    console.result(report.survey_text(plan.script, plan, console.out))
    if console.verbose and plan.edits:
        from retrofit.explain import edits_text

        console.result("Changes:\n" + edits_text(plan, recipe.titles, console.out))
    return OK


@click.command(
    cls=Command,
    examples=(
        ("Rewrite a script:", "retrofit apply train.py"),
        ("Look first; with -v each hunk names its rules:", "retrofit apply --dry-run -v train.py"),
        ("Say which score counts, and which way:", "retrofit apply --metric val_loss --mode min train.py"),
        ("Fail where a script is not up to date:", "retrofit apply --check train.py"),
    ),
)
@SCRIPTS
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the diff of everything that would be written, and write nothing. [default: off]",
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if anything would change. [default: off]")
@click.option(
    "--force",
    is_flag=True,
    help="Replace a train_distributed.sh or files of pai_distributed/ that would be kept. [default: off]",
)
@PROJECT_ROOT
@MAX_FILE_SIZE
@keyed
def apply(
    asked: Asked,
    scripts: tuple[Path, ...],
    dry_run: bool,
    check: bool,
    force: bool,
    project_root: Path | None,
    max_file_size: float,
) -> int:
    """Rewrite each SCRIPT, and write its helper and launcher.

    They are pai_distributed/ and train_distributed.sh beside it. Where several scripts of a folder are given, the
    launchers after the first are named after their scripts. Modules that scripts share are changed for all of them.

    With --in-process there is no launcher. All files are written, or none; `retrofit undo` brings the old ones back.

    A comment `# retrofit: skip` at the end of a statement, or of the line that begins a block, says that it has nothing
    to do with the training that gets dendrites: it is passed over, and stays as it is.
    """
    from retrofit import report
    from retrofit.options import load_options
    from retrofit.plan import make_plans
    from retrofit.write.new import final_files

    console = asked.console
    if len(scripts) > 1 and asked.chosen["save_name"]:
        message = "is for one script: several would overwrite each other's checkpoints there."
        raise UserError(Problem("--save-name", 0, 0, "RF006", message))
    recipe = named_recipe(_shared_rules(asked, scripts))
    root = root_for(scripts, project_root)
    see_to_unfinished(console, scripts, writing=not (dry_run or check))
    with console.progress() as told:
        plans = make_plans(
            scripts, recipe, lambda script: load_options(script, asked.chosen, max_file_size), force, root, told
        )
    changing = [plan for plan in plans if plan.files]
    _remark(asked, scripts, plans, dry_run)
    files = final_files(plan.files for plan in changing)
    if not files:
        return OK
    if dry_run or console.verbose:
        _print_diffs(console, scripts, changing, files, recipe)
    if check or dry_run:
        if console.verbose or not dry_run:
            old = [shown_path(file.path) for file in files if file.before is not None]
            new = report.by_package(file.path for file in files if file.before is None)
            console.tell("\n".join(f"would write {name}" for name in (*old, *new)))
        return FOUND if check else OK
    from retrofit.write.record import Written, write_files

    write_files(root, "apply", *(Written(plan.path, plan.files, plan.uses) for plan in changing))
    console.tell("\n\n".join(report.summary(plan, console.out) for plan in changing))
    return OK


@click.command(
    cls=Command,
    examples=(
        ("A SLURM job for one machine:", "retrofit launch train.py"),
        ("For two machines with four GPUs each:", "retrofit launch --nodes 2 --nproc-per-node 4 train.py"),
    ),
)
@SCRIPT
@click.option("--dry-run", is_flag=True, help="Print the file, and write nothing. [default: off]")
@click.option("--force", is_flag=True, help="Replace a file that would be kept. [default: off]")
@PROJECT_ROOT
@keyed
def launch(asked: Asked, script: Path, dry_run: bool, force: bool, project_root: Path | None) -> int:
    """Write a job of a batch system that trains SCRIPT.

    For a script that `retrofit apply` has rewritten the job runs its train_distributed.sh once on each machine; any
    other DistributedDataParallel script it starts by torchrun. The script does not change.

    Exit codes: 0 written, or nothing to do; 2 a file is in the way.
    """
    from retrofit.jobs import job_files, launcher_of
    from retrofit.launch import SUBMITTING, SYSTEMS
    from retrofit.rules_folder import rules_folder
    from retrofit.source import read_source

    choices, console = asked.choices, asked.console
    system = choices["launcher"] or "slurm"
    if system not in SYSTEMS:
        message = f"is {system}, no batch system; give {' or '.join(SYSTEMS)}, or use it with `retrofit apply`."
        raise UserError(Problem("--launcher", 0, 0, "RF006", message))
    path = read_source(script, shown_path(script)).path
    folder = rules_folder() / "perforatedai"
    launcher = launcher_of(path)
    files = job_files(path, launcher, folder, system, choices["nodes"], choices["nproc_per_node"], force)
    if not files:
        console.tell(f"{script}: nothing to do")
    elif dry_run:
        console.result("\n---\n".join(file.after.decode(errors="surrogateescape").rstrip("\n") for file in files))
    else:
        from retrofit.write.record import Written, write_files

        root = root_for([script], project_root)
        see_to_unfinished(console, [script], writing=True)
        write_files(root, "launch", Written(script, files, []))
        wrote = " and ".join(shown_path(file.path) for file in files)
        name = shown_path(path.with_name(launcher or path.name).with_suffix(SYSTEMS[system]))
        arguments = f" [arguments of {script.name}]" if system in ("slurm", "submitit") else ""
        console.tell(
            f"wrote {wrote}\n\nFill in the first lines, and train with: {SUBMITTING[system]} {name}{arguments}"
        )
    return OK


@click.command(
    cls=Command,
    examples=(
        ("Go back to what was before the applies:", "retrofit undo train.py"),
        ("Take back only the last one; look first:", "retrofit undo --steps 1 --dry-run train.py"),
        ("What can be undone in this project?", "retrofit undo --list ."),
        ("Also where you changed it since, which is lost then:", "retrofit undo --force train.py"),
    ),
)
@SCRIPT
@click.option("--list", "listing", is_flag=True, help="List what can be undone; SCRIPT may be a folder. [default: off]")
@click.option(
    "--dry-run", is_flag=True, help="Print the diff of everything that would be undone, write nothing. [default: off]"
)
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Go back so many steps. [default: all]")
@click.option(
    "--force", is_flag=True, help="Bring the originals back also over what was edited since. [default: merge]"
)
@keyed
def undo(asked: Asked, script: Path, listing: bool, dry_run: bool, steps: int | None, force: bool) -> int:
    """Bring back what applies to SCRIPT, or fixes of it, changed.

    What was edited since is merged by git where there is one. Conflicts are marked as git marks them. A file that was
    renamed is found by what it holds. Files that another rewritten script needs stay.

    Exit codes: 0 undone; 1 conflicts are marked; 2 there is nothing to undo, or a file cannot be merged.
    """
    from retrofit.explain import colored
    from retrofit.report import steps_rows, undo_diff, undo_text
    from retrofit.write.undo import steps_on_record
    from retrofit.write.undo import undo as undo_steps

    console = asked.console
    if listing:
        rows = steps_rows(steps_on_record(script))
        console.result(console.out.table(rows) if rows else "There is nothing to undo.")
        return OK
    undone = undo_steps(script, str(script), steps, force, dry_run)
    for problem in undone.recovered:
        console.problem(problem)
    if dry_run:
        console.result(colored(undo_diff(undone.files), console.patch), nl=False)
    elif undone.files:
        console.tell(undo_text(undone.files))
    conflicts = [
        Problem(shown_path(file.path), line, 1, "RF035", "is in conflict with what was edited since. Resolve it.")
        for file in undone.files
        for line in file.conflicts
    ]
    for problem in conflicts:
        console.problem(problem)
    return FOUND if conflicts else OK


def _shared_rules(asked: Asked, scripts: Sequence[Path]) -> Path | None:
    """Return the folder of further rules, which several scripts have to have in common."""
    from retrofit.options import load_choices

    rules: Path | None = asked.choices["rules"]
    for script in scripts[1:]:
        if load_choices(script, asked.chosen, "apply")["rules"] != rules:
            message = f"its project has other rules than {scripts[0]}'s. Apply to them one by one."
            raise UserError(Problem(str(script), 0, 0, "RF006", message))
    return rules


def _remark(asked: Asked, scripts: Sequence[Path], plans: Sequence[Plan], dry_run: bool) -> None:
    """Say of each script what is to be known before it is written."""
    console = asked.console
    for script, plan in zip(scripts, plans, strict=True):
        if plan.files:
            for note in plan.notes:
                console.remark(str(note))
            continue
        for name in ("metric", "mode", "model", "optimizer", "output_dimensions", "settings", "inline"):
            if asked.chosen[name]:
                option = f"--{name.replace('_', '-')}"
                message = f"{option} changes nothing in a script that is rewritten already."
                console.problem(Problem(str(script), 0, 0, "RF016", message))
        # Among several scripts it would stand in the middle of a diff.
        (console.remark if dry_run and len(scripts) > 1 else console.tell)(f"{script}: nothing to do")


def _print_diffs(
    console: Console, scripts: Sequence[Path], plans: Sequence[Plan], files: Sequence[NewFile], recipe: Recipe
) -> None:
    """Print the diffs of all files as `git apply` takes them, or explained those of the user's own."""
    from retrofit import report
    from retrofit.explain import colored, explained

    names = report.names_in_diff(files, scripts)
    if not console.verbose:
        for file in files:
            console.result(colored(report.diff(file, names[file.path]), console.patch), nl=False)
        return
    for plan in plans:
        text = explained(plan, names, recipe.titles, console.out)
        if text:
            console.result(text)
