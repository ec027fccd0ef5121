"""The commands that run a script, or tell what a run needs and left: `verify`, `doctor`, `demo` and `report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from retrofit.cli.frame import FOUND, OK, Command
from retrofit.cli.options import Asked, keyed
from retrofit.cli.shared import (
    JSON,
    MAX_FILE_SIZE,
    PYTHON,
    SCRIPT,
    named_recipe,
)
from retrofit.rules_folder import proven_versions

if TYPE_CHECKING:
    pass


@click.command(
    cls=Command,
    examples=(
        ("Prove a script, rewritten or not yet:", "retrofit verify train.py"),
        ("With arguments of its own:", "retrofit verify train.py -- --data ./data --lr 0.1"),
        (
            "On 4 simulated GPUs, with another Python:",
            "retrofit verify --simulate-gpus 4 --python .venv/bin/python train.py",
        ),
        ("Keep what it wrote, to look into a failure:", "retrofit verify --keep /tmp/trial train.py"),
    ),
)
@SCRIPT
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGUMENTS]")
@click.option("--as-is", is_flag=True, help="Run SCRIPT as it stands. [default: where it is retrofitted already]")
@click.option(
    "--keep",
    type=click.Path(readable=False, path_type=Path),
    metavar="DIR",
    help="Keep the copy that trained in DIR. [default: none]",
)
@PYTHON
@JSON
@MAX_FILE_SIZE
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
    recipe, chosen = named_recipe(choices["rules"]), load_options(script, asked.chosen, max_file_size)
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


@click.command(
    cls=Command,
    examples=(
        ("Can this machine train?", "retrofit doctor"),
        ("With the Python of another environment:", "retrofit doctor --python .venv/bin/python"),
        ("On as many processes as the training will have:", "retrofit doctor --ranks 4"),
    ),
)
@PYTHON
@JSON
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


@click.command(
    cls=Command,
    examples=(
        ("See the whole way, in a minute:", "retrofit demo"),
        ("In another folder, with DataParallel:", "retrofit demo --dp ~/dendrites"),
    ),
)
@click.argument("folder", default="retrofit-demo", type=click.Path(readable=False, path_type=Path), metavar="[FOLDER]")
@click.option("--dp", is_flag=True, help="Show DataParallel. [default: DistributedDataParallel]")
@PYTHON
@keyed
def demo(asked: Asked, folder: Path, dp: bool, python: str | None) -> int:
    """Rewrite and train a small project that comes along, in FOLDER.

    FOLDER is a new one, retrofit-demo unless named. What would change is shown with its reasons, then it is changed,
    and trained to the end on two processes of the CPU, where torch and perforatedai are installed.

    Exit codes: 0 trained, or told what is missing for that; 1 the training failed; 2 FOLDER is there already or cannot
    be written.
    """
    from retrofit.demo.command import demo as run_demo

    return OK if run_demo(folder, "dp" if dp else "ddp", python, named_recipe(None), asked.console) else FOUND


@click.command(
    cls=Command,
    examples=(
        ("Did dendrites pay, and how is the model loaded?", "retrofit report PAI_train"),
        ("For programs, also while training goes on:", "retrofit report --json PAI_train"),
    ),
)
@click.argument("save", type=click.Path(readable=False, path_type=Path), metavar="SAVE")
@JSON
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
