"""The command line: it reads options, calls the engine and prints. Slow imports stand where they are used."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from retrofit import __version__
from retrofit.errors import EngineError, Interrupted, Problem, UserError, shown_path

if TYPE_CHECKING:
    from retrofit.rules import Recipe

_F = TypeVar("_F", bound=Callable[..., Any])

_MAX_FILE_SIZE = click.option(
    "--max-file-size",
    type=click.FloatRange(min=0, min_open=True),
    metavar="MB",
    help="The largest file that is looked into, in megabytes. [default: 2]",
)

OK, FOUND, QUESTION, OUR_ERROR = 0, 1, 2, 123


def _guarded(command: _F) -> _F:
    """Turn what goes wrong into lines on stderr and an exit code."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        for stream in (sys.stdout, sys.stderr):  # a file's name may have what no encoding has
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        try:
            _find_working_folder()
            code = command(*args, **kwargs)
        except UserError as error:
            for problem in error.problems:
                click.echo(str(problem), err=True)
            code = QUESTION
        except Interrupted as error:
            click.echo("Stopped. Nothing of it is left.", err=True)
            code = 128 + error.number
        except KeyboardInterrupt:
            click.echo("Stopped.", err=True)
            code = 128 + signal.SIGINT
        except BrokenPipeError:  # whoever read our output has gone
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - what is left in the buffer goes there at exit
            code = 128 + signal.SIGPIPE
        except OSError as error:  # a disk or a permission that gives way where nobody expects it
            problem = Problem(str(error.filename or "."), 0, 0, "RF010", f"{error.strerror or error}.")
            click.echo(str(problem), err=True)
            code = QUESTION
        except EngineError as error:
            click.echo(f"retrofit failed its own check, and changed nothing: {error}", err=True)
            click.echo(
                "This is a mistake of retrofit. Please report it with the script, or the part that matters.",
                err=True,
            )
            code = OUR_ERROR
        except Exception as error:
            if os.environ.get("RETROFIT_TRACEBACK"):
                raise
            click.echo(f"retrofit failed, and changed nothing: {type(error).__name__}: {error}", err=True)
            click.echo("This is a mistake of retrofit. RETROFIT_TRACEBACK=1 shows where; please report it.", err=True)
            code = OUR_ERROR
        sys.exit(code or OK)

    return run  # type: ignore[return-value]


def _find_working_folder() -> None:
    try:
        os.getcwd()
    except OSError:
        raise UserError(
            Problem(".", 0, 0, "RF036", "the working folder is gone. Change to one that is there.")
        ) from None


def _recipe_options(command: _F) -> _F:
    """Options that say something about the script, for inspect and apply."""
    for option in reversed(
        [
            click.option(
                "--metric",
                metavar="EXPR",
                help="The validation score, as an expression of the epoch loop. [default: found]",
            ),
            click.option(
                "--mode",
                type=click.Choice(["max", "min"]),
                help="Is a higher or a lower score better? [default: found]",
            ),
            click.option(
                "--model",
                metavar="NAME",
                help="The wrapped model that gets dendrites; where several have one name, with the function or class "
                "that wraps it (Trainer.model), or with the file (lib/train.py:model). [default: the only one]",
            ),
            click.option(
                "--save-name",
                metavar="NAME",
                help="Folder of the checkpoints. [default: the script's, or PAI_ and its file name]",
            ),
            click.option(
                "--output-dimensions",
                metavar="LAYER=DIMS",
                multiple=True,
                help="Where a layer's neurons are: 0 there, -1 elsewhere, as in encoder.fc=-1,-1,0; may be repeated. "
                "[default: found by the initialisation run]",
            ),
            click.option(
                "--rules",
                type=click.Path(path_type=Path),
                metavar="DIR",
                help="A folder of further rules. [default: none]",
            ),
            _MAX_FILE_SIZE,
        ]
    ):
        command = option(command)
    return command


_PYTHON = click.option(
    "--python", metavar="PROGRAM", help="The Python that trains. [default: retrofit's own if it has torch, else PATH's]"
)
_PROJECT_ROOT = click.option(
    "--project-root",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The folder below which files may be written. [default: the script's repository, project or package]",
)
_SCRIPT = click.argument("script", type=click.Path(path_type=Path), metavar="SCRIPT")
_SCRIPTS = click.argument("scripts", type=click.Path(path_type=Path), metavar="SCRIPT...", nargs=-1, required=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="retrofit")
def main() -> None:
    """Rewrite a multi-GPU PyTorch training script so that it trains with PerforatedAI's dendrites.

    Every choice can also stand in [tool.retrofit] of the project's pyproject.toml; the command line wins.

    Exit codes: 0 done, or nothing to do; 1 something was found; 2 a question, an unsupported script or wrong usage;
    123 a mistake of retrofit itself. A script that cannot be rewritten whole is not touched.
    """


@main.command()
@_SCRIPT
@_recipe_options
@_PROJECT_ROOT
@click.option("--json", "as_json", is_flag=True, help="Print JSON. [default: text]")
@_guarded
def inspect(script: Path, as_json: bool, rules: Path | None, project_root: Path | None, **chosen: Any) -> int:
    """Show every site in SCRIPT, and every open question.

    Exit code 0 also where questions are open: they are what inspect is for.
    """
    from retrofit import report
    from retrofit.options import load_options
    from retrofit.plan import Company, make_plan

    company = Company(root=_root([script], project_root))
    options = load_options(script, chosen)
    plan = make_plan(script, str(script), _recipe(rules), options, survey_only=True, company=company)
    click.echo(report.survey_json(plan.script, plan) if as_json else report.survey_text(plan.script, plan))
    return OK


@main.command()
@_SCRIPTS
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the diff of everything that would be written, and write nothing. [default: off]",
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if anything would change. [default: off]")
@click.option(
    "--nproc-per-node",
    metavar="N|gpu",
    help="Processes on one machine. [default: gpu, one on each visible GPU]",
)
@click.option(
    "--gpus", metavar="IDS", help="GPUs to use, such as 0,1, exported as CUDA_VISIBLE_DEVICES. [default: all]"
)
@click.option(
    "--launcher",
    type=click.Choice(["torchrun", "launch", "python"]),
    help="What starts the processes; launch is torch.distributed.launch, python is for scripts that spawn their own. "
    "[default: torchrun, or as the script shows]",
)
@_recipe_options
@click.option(
    "--inline",
    is_flag=True,
    help="Put the helper's functions into SCRIPT itself. [default: pai_distributed.py beside it]",
)
@click.option(
    "--force",
    is_flag=True,
    help="Replace a train_distributed.sh or pai_distributed.py that would be kept. [default: off]",
)
@_PROJECT_ROOT
@_guarded
def apply(
    scripts: tuple[Path, ...],
    dry_run: bool,
    check: bool,
    rules: Path | None,
    force: bool,
    project_root: Path | None,
    **chosen: Any,
) -> int:
    """Rewrite each SCRIPT, and write its helper and launcher.

    They are pai_distributed.py and train_distributed.sh beside it. Where several scripts of a folder are given, the
    launchers after the first are named after their scripts. Modules that scripts share are changed for all of them.

    DataParallel scripts get no launcher. All files are written, or none; `retrofit undo` brings the old ones back.
    """
    from retrofit import report
    from retrofit.options import load_options
    from retrofit.plan import final_files, make_plans

    if len(scripts) > 1 and chosen.get("save_name"):
        message = "is for one script: several would overwrite each other's checkpoints there."
        raise UserError(Problem("--save-name", 0, 0, "RF006", message))
    root = _root(scripts, project_root)
    _recover(scripts, writing=not (dry_run or check))
    plans = make_plans(scripts, _recipe(rules), lambda script: load_options(script, chosen), force, root)
    for script, plan in zip(scripts, plans, strict=True):
        if not plan.files:
            ignored = [name for name in ("metric", "mode", "model", "output_dimensions", "inline") if chosen.get(name)]
            for name in ignored:
                option = f"--{name.replace('_', '-')}"
                click.echo(f"{script}: RF016 {option} changes nothing in a script that is rewritten already.", err=True)
            # Among several scripts it would stand in the middle of a diff.
            click.echo(f"{script}: nothing to do", err=dry_run and len(scripts) > 1)
            continue
        for note in plan.notes:
            click.echo(f"{note}", err=True)
    files = final_files(plan.files for plan in plans)
    if not files:
        return OK
    if dry_run:
        names = report.names_in_diff(files, scripts)
        for file in files:
            click.echo(report.diff(file, names[file.path]), nl=False)
        return FOUND if check else OK
    if check:
        for file in files:
            click.echo(f"would write {shown_path(file.path)}")
        return FOUND
    from retrofit.write.record import Written, write_files

    changing = [plan for plan in plans if plan.files]
    write_files(root, "apply", *(Written(plan.path, plan.files, plan.uses) for plan in changing))
    shown = {file.path: shown_path(file.path) for file in files}
    click.echo("\n\n".join(report.summary(plan, shown) for plan in changing))
    return OK


@main.command()
@_SCRIPT
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGUMENTS]")
@click.option(
    "--simulate-gpus",
    type=click.IntRange(min=1),
    metavar="N",
    help="Run on N GPUs simulated on the CPU. [default: 2, where torch sees fewer than 2 GPUs; else 2 real ones]",
)
@click.option(
    "--max-batches",
    type=click.IntRange(min=1),
    metavar="K",
    default=4,
    help="Batches that each data loader gives. [default: 4]",
)
@click.option(
    "--max-rounds",
    type=click.IntRange(min=4),  # three dendrites, then completion
    metavar="N",
    default=10,
    help="Rounds before giving up. [default: 10]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    default=300,
    help="How long a round may go without a batch, a step or a line of output before it counts as hanging. "
    "[default: 300]",
)
@_PYTHON
@click.option("--as-is", is_flag=True, help="Run SCRIPT as it stands. [default: where it is retrofitted already]")
@click.option(
    "--keep", type=click.Path(path_type=Path), metavar="DIR", help="Keep the copy that trained in DIR. [default: none]"
)
@click.option(
    "--launcher",
    type=click.Choice(["torchrun", "launch", "python"]),
    help="As for apply. [default: as the script shows]",
)
@_recipe_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON. [default: text]")
@_guarded
def verify(
    script: Path,
    arguments: tuple[str, ...],
    simulate_gpus: int | None,
    max_batches: int,
    max_rounds: int,
    timeout: float,
    python: str | None,
    as_is: bool,
    keep: Path | None,
    rules: Path | None,
    as_json: bool,
    **chosen: Any,
) -> int:
    """Train the rewritten SCRIPT, and prove that it works.

    A copy of the project is rewritten and trained with the real perforatedai in its capacity test, from initialisation
    over every restart to completion. Your files stay as they are. ARGUMENTS are those of SCRIPT.

    Exit codes: 0 proven; 1 disproven; 2 could not be tried, or a question of apply.
    """
    from retrofit.interpreter import find_python
    from retrofit.options import load_options
    from retrofit.verify.progress import Progress
    from retrofit.verify.report import to_json, to_text
    from retrofit.verify.verdict import Request
    from retrofit.verify.verdict import verify as run_trial

    request = Request(
        script=script,
        shown=str(script),
        arguments=arguments,
        python=find_python(python),
        gpus=simulate_gpus or 2,
        simulate=simulate_gpus is not None,
        as_is=as_is,
        max_batches=max_batches,
        max_rounds=max_rounds,
        timeout=timeout,
        keep=keep,
    )
    with Progress() as progress:
        verdict = run_trial(request, _recipe(rules), load_options(script, chosen), progress.ended)
    click.echo(to_json(verdict) if as_json else to_text(verdict))
    return OK if verdict.failure is None else FOUND


@main.command()
@_PYTHON
@click.option(
    "--ranks",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes to try. [default: one on each visible GPU, at least 2]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    default=120,
    help="How long the imports may take, and then the process group. [default: 120]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON. [default: text]")
@_guarded
def doctor(python: str | None, ranks: int | None, timeout: float, as_json: bool) -> int:
    """Say whether this machine can train so.

    It looks at the Python that trains, GPUs, environment, ports and memory, and starts a real process group. Where
    something is wrong it says what to do.

    Exit codes: 0 no problem; 1 a problem; 2 the Python does not exist.
    """
    from retrofit.doctor import examine, exit_code, to_json, to_text
    from retrofit.interpreter import find_python

    findings = examine(find_python(python), ranks, timeout, _recipe(None).proven)
    click.echo(to_json(findings) if as_json else to_text(findings))
    return exit_code(findings)


@main.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--fix", is_flag=True, help="Repair what can be repaired safely. [default: off]")
@click.option(
    "--unsafe-fixes",
    is_flag=True,
    help="With --fix or --diff: also where it may change what is trained. [default: off]",
)
@click.option("--diff", is_flag=True, help="Print the diff of the repairs, and write nothing. [default: off]")
@click.option(
    "--select",
    metavar="RULES",
    multiple=True,
    help="Rules that count: codes, their beginnings such as DDP2, names, or ALL, with commas between. [default: ALL]",
)
@click.option("--ignore", metavar="RULES", multiple=True, help="Rules that do not count. [default: none]")
@click.option(
    "--exclude",
    metavar="PATTERN",
    multiple=True,
    help="Files to pass over in folders, as in .gitignore; may be repeated. [default: none]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["full", "concise", "json", "sarif", "github", "junit"]),
    default="full",
    help="How to print the findings. [default: full]",
)
@click.option("--statistics", is_flag=True, help="Print a count for each rule instead. [default: off]")
@click.option(
    "--fail-on",
    type=click.Choice(["advice", "warning", "error"]),
    default="advice",
    help="The mildest finding that exit code 1 stands for. [default: advice]",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes that work at a time. [default: one on each CPU]",
)
@click.option(
    "--stdin-filename", metavar="NAME", default="stdin.py", help="What to call the input of `-`. [default: stdin.py]"
)
@_PROJECT_ROOT
@_MAX_FILE_SIZE
@_guarded
def check(
    paths: tuple[str, ...],
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
    form: str,
    statistics: bool,
    fail_on: str,
    jobs: int | None,
    stdin_filename: str,
    project_root: Path | None,
    max_file_size: float | None,
    **chosen: tuple[str, ...],
) -> int:
    """Find mistakes in each PATH's use of DDP.

    A PATH is a file, a folder with all its Python files, or `-` for standard input. In folders, files that .gitignore
    names are passed over, and so are virtual environments, installed packages, build folders, and PyTorch itself.
    A comment `# noqa: DDP203` or `# retrofit: ignore[DDP203]` silences a rule in its line.

    Exit codes: 0 nothing found; 1 something found; 2 a file or setting that cannot be read, the others are checked.
    """
    from retrofit.check import command

    request = command.Request(
        paths=paths,
        fixes=command.fixes(fix or diff, unsafe_fixes),
        write=fix and not diff,
        diff=diff,
        form="statistics" if statistics else form,
        fail_on=fail_on,
        jobs=jobs,
        stdin_name=stdin_filename,
        root=project_root,
        max_file_size=max_file_size,
        **{key: tuple(word for words in given for word in words.split(",")) for key, given in chosen.items()},
    )
    return command.check(request)


@main.command()
@_SCRIPT
@click.option("--list", "listing", is_flag=True, help="List what can be undone; SCRIPT may be a folder. [default: off]")
@click.option(
    "--dry-run", is_flag=True, help="Print the diff of everything that would be undone, write nothing. [default: off]"
)
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Go back so many steps. [default: all]")
@click.option(
    "--force", is_flag=True, help="Bring the originals back also over what was edited since. [default: merge]"
)
@_guarded
def undo(script: Path, listing: bool, dry_run: bool, steps: int | None, force: bool) -> int:
    """Bring back what applies to SCRIPT, or fixes of it, changed.

    What was edited since is merged by git where there is one. Conflicts are marked as git marks them. A file that was
    renamed is found by what it holds. Files that another rewritten script needs stay.

    Exit codes: 0 undone; 1 conflicts are marked; 2 there is nothing to undo, or a file cannot be merged.
    """
    from retrofit.report import steps_text, undo_diff, undo_text
    from retrofit.write.undo import steps_on_record
    from retrofit.write.undo import undo as undo_steps

    if listing:
        click.echo(steps_text(steps_on_record(script)))
        return OK
    undone = undo_steps(script, str(script), steps, force, dry_run)
    for line in undone.said:
        click.echo(line, err=True)
    if dry_run:
        click.echo(undo_diff(undone.files), nl=False)
    else:
        click.echo(undo_text(undone.files), nl=bool(undone.files))
    conflicts = [
        Problem(shown_path(file.path), line, 1, "RF035", "is in conflict with what was edited since. Resolve it.")
        for file in undone.files
        for line in file.conflicts
    ]
    for problem in conflicts:
        click.echo(str(problem), err=True)
    return FOUND if conflicts else OK


@main.command()
@click.argument("code", required=False, metavar="[CODE]")
@click.option(
    "--rules",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A folder of further rules. [default: none]",
)
@_guarded
def rule(code: str | None, rules: Path | None) -> int:
    """List the rules, or explain the one with CODE.

    It says what the rule does, why, the code that it writes, and where it comes from.
    """
    from retrofit import report

    both = [*_recipe(None, "ddp").rules, *_recipe(rules).rules]
    if code is None:
        click.echo(report.rule_list(sorted(both, key=lambda rule: rule.code)))
        return OK
    for known in both:
        if code.lower() in (known.code.lower(), known.name):
            click.echo(report.rule_text(known))
            return OK
    raise UserError(Problem(code, 0, 0, "RF013", "is no rule. `retrofit rule` lists them."))


def _recipe(rules: Path | None, name: str = "perforatedai") -> Recipe:
    from retrofit.rules import load_recipe
    from retrofit.rules_folder import rules_folder

    return load_recipe(rules_folder() / name, rules)


def _recover(scripts: Sequence[Path], writing: bool = True) -> None:
    """See to what a command left unfinished before another one begins, or only say so."""
    from retrofit.write.record import recover_around, unfinished_around

    for script in scripts:
        for line in recover_around(script) if writing else unfinished_around(script):
            click.echo(line, err=True)


def _root(scripts: Sequence[Path], chosen: Path | None) -> Path:
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
