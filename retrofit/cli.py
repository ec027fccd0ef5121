"""The command line: it asks the engine, and prints. Slow imports stand where they are used."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from retrofit import __version__
from retrofit.cli_frame import FOUND, OK, Group
from retrofit.cli_options import Asked, complete_codes, keyed, options
from retrofit.errors import Problem, UserError, shown_path
from retrofit.reading import DEFAULT_MEGABYTES
from retrofit.rules_folder import proven_versions
from retrofit.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retrofit.console import Console
    from retrofit.plan import Plan
    from retrofit.rules import Recipe
    from retrofit.write.new import NewFile

_SCRIPT = click.argument("script", type=click.Path(readable=False, path_type=Path), metavar="SCRIPT")
_SCRIPTS = click.argument(
    "scripts", type=click.Path(readable=False, path_type=Path), metavar="SCRIPT...", nargs=-1, required=True
)
_PYTHON = click.option(
    "--python",
    type=click.Path(readable=False),
    metavar="PROGRAM",
    help="The Python that trains. [default: retrofit's own if it has torch, else PATH's]",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON. [default: text]")
_PROJECT_ROOT = click.option(
    "--project-root",
    type=click.Path(readable=False, path_type=Path),
    metavar="DIR",
    help="The folder below which files may be written. [default: the script's repository, project or package]",
)
_MAX_FILE_SIZE = click.option(
    "--max-file-size",
    type=click.FloatRange(min=0, min_open=True),
    default=DEFAULT_MEGABYTES,
    metavar="MB",
    help=f"The largest file that is looked into, in megabytes. [default: {DEFAULT_MEGABYTES:g}]",
)


def _version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        proven = " and ".join(f"{package} {versions[-1]}" for package, versions in proven_versions().items())
        console: Console = context.obj
        text = f"retrofit {__version__}, Python {'.'.join(map(str, sys.version_info[:3]))}\nproven with {proven}"
        console.result(console.out.wrap(text, hang="  "))
        context.exit()


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples=(
        ("What would change, and why?", "retrofit apply --dry-run -v train.py"),
        ("Change it:", "retrofit apply train.py"),
        ("Does the result train here, over every restart?", "retrofit verify train.py"),
        ("What is wrong with the DDP in a folder?", "retrofit check src"),
    ),
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Print the versions, and exit.",
)
@options("")
def main(**chosen: Any) -> None:
    """Rewrite a multi-GPU PyTorch training script so that it trains with PerforatedAI's dendrites.

    Lasting choices can also stand in [tool.retrofit] of the project's pyproject.toml, the one nearest to the script;
    the command line wins. The help of each command says which of its options can.

    Exit codes: 0 done, or nothing to do; 1 something was found; 2 a question, an unsupported script or wrong usage;
    123 a mistake of retrofit itself. A script that cannot be rewritten whole is not touched.
    """


@main.command(
    examples=(
        ("What does it find in a script?", "retrofit inspect train.py"),
        ("Which rules would change what?", "retrofit inspect -v train.py"),
        ("Does an answer settle the question?", "retrofit inspect --metric val_acc train.py"),
        ("For programs:", "retrofit inspect --json train.py"),
    )
)
@_SCRIPT
@_JSON
@_PROJECT_ROOT
@_MAX_FILE_SIZE
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
    recipe = _recipe(asked.choices["rules"])
    company = Company(root=_root([script], project_root))
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


@main.command(
    examples=(
        ("Rewrite a script:", "retrofit apply train.py"),
        ("Look first; with -v each hunk names its rules:", "retrofit apply --dry-run -v train.py"),
        ("Say which score counts, and which way:", "retrofit apply --metric val_loss --mode min train.py"),
        ("Fail where a script is not up to date:", "retrofit apply --check train.py"),
    )
)
@_SCRIPTS
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
@_PROJECT_ROOT
@_MAX_FILE_SIZE
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
    """
    from retrofit import report
    from retrofit.options import load_options
    from retrofit.plan import make_plans
    from retrofit.write.new import final_files

    console = asked.console
    if len(scripts) > 1 and asked.chosen["save_name"]:
        message = "is for one script: several would overwrite each other's checkpoints there."
        raise UserError(Problem("--save-name", 0, 0, "RF006", message))
    recipe = _recipe(_shared_rules(asked, scripts))
    root = _root(scripts, project_root)
    _recover(console, scripts, writing=not (dry_run or check))
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


@main.command(
    examples=(
        ("A SLURM job for one machine:", "retrofit launch train.py"),
        ("For two machines with four GPUs each:", "retrofit launch --nodes 2 --nproc-per-node 4 train.py"),
    )
)
@_SCRIPT
@click.option("--dry-run", is_flag=True, help="Print the file, and write nothing. [default: off]")
@click.option("--force", is_flag=True, help="Replace a file that would be kept. [default: off]")
@_PROJECT_ROOT
@keyed
def launch(asked: Asked, script: Path, dry_run: bool, force: bool, project_root: Path | None) -> int:
    """Write a job of a batch system that trains SCRIPT.

    For a script that `retrofit apply` has rewritten the job runs its train_distributed.sh once on each machine; any
    other DistributedDataParallel script it starts by torchrun. The script does not change.

    Exit codes: 0 written, or nothing to do; 2 a file is in the way.
    """
    from retrofit.jobs import job_file, launcher_of
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
    file = job_file(path, launcher_of(path), folder, system, choices["nodes"], choices["nproc_per_node"], force)
    if file is None:
        console.tell(f"{script}: nothing to do")
    elif dry_run:
        console.result(file.after.decode(errors="surrogateescape").rstrip("\n"))
    else:
        from retrofit.write.record import Written, write_files

        root = _root([script], project_root)
        _recover(console, [script], writing=True)
        write_files(root, "launch", Written(script, [file], []))
        name = shown_path(file.path)
        arguments = f" [arguments of {script.name}]" if system in ("slurm", "submitit") else ""
        console.tell(f"wrote {name}\n\nFill in its first lines, and train with: {SUBMITTING[system]} {name}{arguments}")
    return OK


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


@main.command(
    examples=(
        ("Prove a script, rewritten or not yet:", "retrofit verify train.py"),
        ("With arguments of its own:", "retrofit verify train.py -- --data ./data --lr 0.1"),
        (
            "On 4 simulated GPUs, with another Python:",
            "retrofit verify --simulate-gpus 4 --python .venv/bin/python train.py",
        ),
        ("Keep what it wrote, to look into a failure:", "retrofit verify --keep /tmp/trial train.py"),
    )
)
@_SCRIPT
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGUMENTS]")
@click.option("--as-is", is_flag=True, help="Run SCRIPT as it stands. [default: where it is retrofitted already]")
@click.option(
    "--keep",
    type=click.Path(readable=False, path_type=Path),
    metavar="DIR",
    help="Keep the copy that trained in DIR. [default: none]",
)
@_PYTHON
@_JSON
@_MAX_FILE_SIZE
@keyed
def verify(
    asked: Asked,
    script: Path,
    arguments: tuple[str, ...],
    as_is: bool,
    keep: Path | None,
    python: str | None,
    as_json: bool,
    max_file_size: float,
) -> int:
    """Train the rewritten SCRIPT, and prove that it works.

    A copy of the project is rewritten and trained with the real perforatedai in its capacity test, from initialisation
    over every restart to completion. Your files stay as they are. ARGUMENTS are those of SCRIPT.

    Exit codes: 0 proven; 1 disproven; 2 could not be tried, or a question of apply.
    """
    from retrofit.interpreter import find_python
    from retrofit.options import load_options
    from retrofit.verify.report import round_line, to_json, to_text
    from retrofit.verify.verdict import Request
    from retrofit.verify.verdict import verify as run_trial

    console, choices = asked.console, asked.choices
    request = Request(
        script=script,
        shown=str(script),
        arguments=arguments,
        python=find_python(python),
        gpus=choices["simulate_gpus"] or 2,
        simulate=choices["simulate_gpus"] is not None,
        as_is=as_is,
        max_batches=choices["max_batches"],
        max_rounds=choices["max_rounds"],
        timeout=choices["timeout"],
        keep=keep,
    )
    recipe, chosen = _recipe(choices["rules"]), load_options(script, asked.chosen, max_file_size)
    with console.progress(not as_json) as told:
        verdict = run_trial(
            request,
            recipe,
            chosen,
            lambda one: console.remark(round_line(one)),
            lambda note: console.remark(str(note)),
            told,
        )
    if as_json:
        console.result(to_json(verdict))
    elif not console.quiet or verdict.failure is not None:
        console.result(to_text(verdict, console.out, failures_only=console.quiet))
    return OK if verdict.failure is None else FOUND


@main.command(
    examples=(
        ("Can this machine train?", "retrofit doctor"),
        ("With the Python of another environment:", "retrofit doctor --python .venv/bin/python"),
        ("On as many processes as the training will have:", "retrofit doctor --ranks 4"),
    )
)
@_PYTHON
@_JSON
@keyed
def doctor(asked: Asked, python: str | None, as_json: bool) -> int:
    """Say whether this machine can train so.

    It looks at the Python that trains, GPUs, environment, ports and memory, and starts a real process group. Where
    something is wrong it says what to do.

    Exit codes: 0 no problem; 1 a problem; 2 the Python does not exist.
    """
    from retrofit.doctor import examine, exit_code, to_json, to_text
    from retrofit.interpreter import find_python

    console, choices = asked.console, asked.choices
    with console.progress(not as_json) as told:
        findings = examine(find_python(python), choices["ranks"], choices["timeout"], proven_versions(), told)
    if as_json:
        console.result(to_json(findings))
        return exit_code(findings)
    shown = [finding for finding in findings if finding.level != "ok" or not console.quiet]
    if shown:
        console.result(to_text(shown, console.out))
    return exit_code(findings)


@main.command(
    examples=(
        ("See the whole way, in a minute:", "retrofit demo"),
        ("In another folder, with DataParallel:", "retrofit demo --dp ~/dendrites"),
    )
)
@click.argument("folder", default="retrofit-demo", type=click.Path(readable=False, path_type=Path), metavar="[FOLDER]")
@click.option("--dp", is_flag=True, help="Show DataParallel. [default: DistributedDataParallel]")
@_PYTHON
@keyed
def demo(asked: Asked, folder: Path, dp: bool, python: str | None) -> int:
    """Rewrite and train a small project that comes along, in FOLDER.

    FOLDER is a new one, retrofit-demo unless named. What would change is shown with its reasons, then it is changed,
    and trained to the end on two processes of the CPU, where torch and perforatedai are installed.

    Exit codes: 0 trained, or told what is missing for that; 1 the training failed; 2 FOLDER is there already or cannot
    be written.
    """
    from retrofit.demo.command import demo as run_demo

    return OK if run_demo(folder, "dp" if dp else "ddp", python, _recipe(None), asked.console) else FOUND


@main.command(
    examples=(
        ("Did dendrites pay, and how is the model loaded?", "retrofit report PAI_train"),
        ("For programs, also while training goes on:", "retrofit report --json PAI_train"),
    )
)
@click.argument("save", type=click.Path(readable=False, path_type=Path), metavar="SAVE")
@_JSON
@keyed
def report(asked: Asked, save: Path, as_json: bool) -> int:
    """Say what the training that saves in SAVE has come to.

    SAVE is the folder of the checkpoints. It says rounds, epochs and time; parameters and best score by number of
    dendrites; what was tried and dropped; whether dendrites paid; and the lines that load the final model. While
    training goes on it says how far that is. Nothing in SAVE changes.

    Exit codes: 0 also where training is not complete; 2 SAVE has no record of a training.
    """
    from retrofit.outcome import Outcome

    outcome = Outcome(save)
    asked.console.result(outcome.to_json() if as_json else outcome.text())
    return OK


@main.command(
    examples=(
        ("Check all of a project:", "retrofit check ."),
        ("Repair what can be repaired safely:", "retrofit check --fix src"),
        ("Only some rules, and not in some files:", "retrofit check --select DDP2,DDP3 --exclude old src"),
        ("One line a finding, from warnings on:", "retrofit check --format concise --fail-on warning ."),
    )
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(readable=False), metavar="PATH...")
@click.option("--fix", is_flag=True, help="Repair what can be repaired safely. [default: off]")
@click.option("--diff", is_flag=True, help="Print the diff of the repairs, and write nothing. [default: off]")
@click.option("--statistics", is_flag=True, help="Print a count for each rule instead. [default: off]")
@click.option(
    "--stdin-filename",
    type=click.Path(readable=False),
    metavar="NAME",
    default="stdin.py",
    help="What to call the input of `-`. [default: stdin.py]",
)
@_PROJECT_ROOT
@_MAX_FILE_SIZE
@keyed
def check(
    asked: Asked,
    paths: tuple[str, ...],
    fix: bool,
    diff: bool,
    statistics: bool,
    stdin_filename: str,
    project_root: Path | None,
    max_file_size: float,
) -> int:
    """Find mistakes in each PATH's use of DDP.

    A PATH is a file, a folder with all its Python files, or `-` for standard input. In folders, files that .gitignore
    names are passed over, and so are virtual environments, installed packages, build folders, and PyTorch itself.
    A comment `# noqa: DDP203` or `# retrofit: ignore[DDP203]` silences a rule in its line.

    Exit codes: 0 nothing found; 1 something found; 2 a file or setting that cannot be read, the others are checked.
    """
    from retrofit.check import command

    choices = asked.lenient
    given = {
        name: tuple(word for words in asked.chosen[name] for word in words.split(","))
        for name in ("select", "ignore", "exclude")
    }
    request = command.Request(
        paths=paths,
        unsafe_fixes=asked.chosen["unsafe_fixes"],
        write=fix and not diff,
        diff=diff,
        form="statistics" if statistics else choices["format"],
        fail_on=choices["fail_on"],
        jobs=choices["jobs"],
        stdin_name=stdin_filename,
        problems=asked.fault.problems if asked.fault else (),
        root=project_root,
        max_file_size=max_file_size,
        **given,
    )
    return command.check(request, asked.console)


@main.command(
    examples=(
        ("Go back to what was before the applies:", "retrofit undo train.py"),
        ("Take back only the last one; look first:", "retrofit undo --steps 1 --dry-run train.py"),
        ("What can be undone in this project?", "retrofit undo --list ."),
        ("Also where you changed it since, which is lost then:", "retrofit undo --force train.py"),
    )
)
@_SCRIPT
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


@main.command(
    examples=(
        ("List all rules:", "retrofit rule"),
        ("Explain one, by its code or name:", "retrofit rule PAI009"),
        ("Explain a message:", "retrofit rule RF010"),
    )
)
@click.argument("code", required=False, metavar="[CODE]", shell_complete=complete_codes)
@keyed
def rule(asked: Asked, code: str | None) -> int:
    """List the rules, or explain the one with CODE.

    It says what the rule does, why, the code that it writes, and where it comes from. The CODE of any other message,
    such as RF010, is explained too.
    """
    from retrofit.messages import load_messages, message_text

    view = asked.console.out
    message = load_messages().get((code or "").upper())
    if message is not None:
        asked.console.result(message_text(message, view))
        return OK
    from retrofit import report

    rules = sorted([*_recipe(None, "ddp").rules, *_recipe(asked.choices["rules"]).rules], key=lambda rule: rule.code)
    if code is None:
        asked.console.result(report.rule_list(rules, view))
        return OK
    for known in rules:
        if code.lower() in (known.code.lower(), known.name):
            asked.console.result(report.rule_text(known, view))
            return OK
    names = [name for known in rules for name in (known.code, known.name)]
    hint = did_you_mean(code, [*names, *load_messages()])
    raise UserError(Problem(code, 0, 0, "RF013", f"is no rule.{hint} `retrofit rule` lists them."))


def _recipe(rules: Path | None, name: str = "perforatedai") -> Recipe:
    from retrofit.rules import load_recipe
    from retrofit.rules_folder import rules_folder

    return load_recipe(rules_folder() / name, rules)


def _recover(console: Console, scripts: Sequence[Path], writing: bool) -> None:
    """See to what a command left unfinished before another one begins, or only say so."""
    from retrofit.write.record import recover_around, unfinished_around

    for script in scripts:
        for problem in recover_around(script) if writing else unfinished_around(script):
            console.problem(problem)


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
