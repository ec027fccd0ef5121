"""Verify a script: decide what to run, run it in a copy of its project, and judge what was seen."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from retrofit.errors import Problem, UserError, shown_path
from retrofit.interpreter import Interpreter, look_at
from retrofit.launch import own_launcher
from retrofit.options import Options
from retrofit.plan import Plan, make_plan
from retrofit.progress import Told, untold
from retrofit.rules import Recipe
from retrofit.verify import causes, processes
from retrofit.verify.judge import Check, Training, first_error, judge, summary
from retrofit.verify.record import Round
from retrofit.verify.scratch import copy_project
from retrofit.verify.trial import Limits, Trial

#: Errors by which a script says that it lacks something that nobody but its user can know about.
_LACKING = frozenset(
    {
        "FileNotFoundError",
        "NotADirectoryError",
        "ConnectionError",
        "URLError",
        "HTTPError",
        "gaierror",
        "OfflineModeIsEnabled",
    }
)


@dataclass(frozen=True)
class Request:
    """What to verify, and how.

    Attributes:
        script: the entry script.
        shown: how messages name it.
        arguments: the script's own arguments.
        python: the Python that trains.
        gpus: the number of GPUs, and of processes for DistributedDataParallel.
        simulate: simulate the GPUs also where there are enough.
        as_is: run the script as it stands, without applying the recipe.
        max_batches: after how many batches each data loader ends.
        max_rounds: after how many rounds to give up.
        timeout: after how many seconds without a sign of life a round counts as hanging.
        keep: a new folder in which the copy of the project and all records stay; None to leave nothing.
    """

    script: Path
    shown: str
    arguments: tuple[str, ...]
    python: str
    gpus: int
    simulate: bool
    as_is: bool
    max_batches: int
    max_rounds: int
    timeout: float
    keep: Path | None


@dataclass(frozen=True)
class Verdict:
    """What came of it.

    Attributes:
        request: what was asked.
        applied: whether the recipe was applied; else the script ran as it stands.
        notes: what the apply had to remark.
        limits: how it was run.
        interpreter: what trained.
        training: what was seen.
        checks: what that proves or disproves.
        seconds: how long it took.
    """

    request: Request
    applied: bool
    notes: tuple[Problem, ...]
    limits: Limits
    interpreter: Interpreter
    training: Training
    checks: list[Check]
    seconds: float

    @property
    def failure(self) -> Check | None:
        """The failed check that best says why; None where the script is proven."""
        return next((check for check in self.checks if check.result == "failed"), None)


def verify(
    request: Request,
    recipe: Recipe,
    options: Options,
    ended: Callable[[Round], None],
    noted: Callable[[Problem], None],
    told: Told = untold,
) -> Verdict:
    """Verify a script.

    Args:
        request: what to verify.
        recipe: the recipe to apply.
        options: the user's choices for it.
        ended: called with every round that has ended, the initialisation first.
        noted: called, before the training, with all that an apply would remark.
        told: is told of each step.

    Raises:
        UserError: it could not be tried, and why; or the recipe cannot be applied.
        Interrupted: a signal asked to stop; no process and no file is left.
    """
    try:
        return _verify(request, recipe, options, ended, noted, told)
    except OSError as error:  # such as a full disk
        raise _untried(request, f"cannot be tried: {error}") from None


def _verify(
    request: Request,
    recipe: Recipe,
    options: Options,
    ended: Callable[[Round], None],
    noted: Callable[[Problem], None],
    told: Told,
) -> Verdict:
    started = time.monotonic()
    if request.keep is not None:
        _prepare_to_keep(request, request.keep)
    plan, applied = _plan(request, recipe, options, told)
    for note in plan.notes if applied else ():
        noted(note)
    told("asking the Python that trains", "")
    interpreter = _interpreter(request)
    simulate = request.simulate or interpreter.gpus < request.gpus
    limits = Limits(request.gpus, simulate, request.max_batches, request.max_rounds, request.timeout)
    rounds = itertools.count(1)

    def ended_one(one: Round) -> None:
        ended(one)
        told(f"round {next(rounds)}" if one.ended in ("initialised", "restructured") else "judging", "")

    told("initialisation", "")
    with processes.interruptible() as check:
        folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="retrofit-")))
        try:
            scratch = copy_project(request.script, folder, plan.script.module, request.arguments)
            for file in plan.files if applied else ():
                target = scratch.copy_of(file.path)
                if target is None:
                    message = (
                        f"cannot be tried: {shown_path(file.path)} would be rewritten, but lies outside the project, "
                        "or in a part of it that is too large to be copied."
                    )
                    raise _untried(request, message)
                target.parent.mkdir(exist_ok=True)
                target.unlink(missing_ok=True)  # it may be a link
                target.write_bytes(file.after)
            trial = Trial(interpreter.path, request.arguments, limits, scratch, folder, ended_one, check)
            launcher = _launcher(recipe, scratch.script)
            if launcher.is_file():
                training = trial.train_in_rounds(plan.script.kind, launcher)
            elif plan.script.kind == "dp":
                training = trial.train_in_process()
            else:
                message = f"cannot be tried as it stands: {launcher.name} is not beside it. `retrofit apply` writes it."
                raise _untried(request, message)
            for note in _raise_if_untried(request, trial, training, plan, applied):
                noted(note)
            checks = judge(training)
            notes = tuple(plan.notes) if applied else ()
            return Verdict(request, applied, notes, limits, interpreter, training, checks, time.monotonic() - started)
        finally:
            try:
                if request.keep is not None:
                    shutil.rmtree(folder / "tmp", ignore_errors=True)
                    shutil.move(folder, request.keep)
            finally:
                shutil.rmtree(folder, ignore_errors=True)


def _prepare_to_keep(request: Request, keep: Path) -> None:
    """Find out before the training whether the copy can be kept."""
    if os.path.lexists(keep):
        raise _untried(request, f"cannot be tried: --keep {keep} is there already. Name a new folder.")
    keep.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(keep.parent, os.W_OK):
        raise _untried(request, f"cannot be tried: --keep {keep} cannot be written.")


def _plan(request: Request, recipe: Recipe, options: Options, told: Told) -> tuple[Plan, bool]:
    """The plan of an apply, and whether it is to be carried out."""
    survey = make_plan(request.script, request.shown, recipe, options, survey_only=True, told=told)
    own = bool(survey.adopted.edits)  # an integration by hand, in the place of which the recipe's is put
    retrofitted = not own and any(survey.script.calls(name.rpartition(".")[2]) for name in recipe.provided)
    if request.as_is or retrofitted:
        if not survey.script.kind:
            raise _untried(request, "cannot be tried: it wraps no model in DistributedDataParallel or DataParallel.")
        return survey, False
    plan = make_plan(request.script, request.shown, recipe, options, force=True, told=told)
    if plan.questions:
        raise UserError(*plan.questions)
    return plan, True


def _launcher(recipe: Recipe, script: Path) -> Path:
    path = next(script.parent / output.path for output in recipe.outputs if output.launcher)
    own = own_launcher(path, script)
    return own if own.is_file() else path


def _interpreter(request: Request) -> Interpreter:
    found = look_at(request.python)
    for package in ("torch", "perforatedai"):
        if not getattr(found, package):
            message = (
                f"cannot be tried: {package} is not installed for {found.path} (Python {found.version}). "
                "--python names another Python; `retrofit doctor` says what is missing."
            )
            raise _untried(request, message)
    return found


def _untried(request: Request, message: str) -> UserError:
    return UserError(Problem(request.shown, 0, 0, "RF018", message))


def _raise_if_untried(
    request: Request, trial: Trial, training: Training, plan: Plan, applied: bool
) -> Iterator[Problem]:
    """Raise UserError where the script failed for a reason of its own, which says nothing of the rewriting.

    One that had dendrites before may do so for another reason than the rewritten one: the library asks at a terminal,
    or has other names now. That is yielded as a note.
    """
    last = (training.initial, *training.rounds)[-1]
    if trial.impossible:
        cure = " Raise --max-batches." if "batches" in trial.impossible else " Give it a relative path."
        raise _untried(request, f"cannot be tried: {trial.impossible}.{cure}")
    if any(one.epochs for one in training.rounds) and not any(one.all("step") for one in training.rounds):
        batches = f"in the {request.max_batches} batches of an epoch no optimizer makes a step"
        raise _untried(request, f"cannot be tried: {batches}. Raise --max-batches.")
    if len(training.rounds) > 1 or last.epochs:
        return
    if last.ended == "hung" and not last.all("perforated"):
        message = f"nothing happened for {request.timeout:g} s before the model was there. {_waiting(last)}".strip()
        raise _untried(request, f"cannot be tried: {message} Raise --timeout if it needs so long to begin.")
    if last.ended not in ("failed", "hung"):
        return
    reason = _reason(last) if last.ended == "failed" else ""
    if not reason and applied:
        before = {file.path: file.before for file in plan.files if file.before is not None}
        if before:
            alone = plan.script.kind == "dp" or bool(plan.script.spawns)
            processes_, steps = (1, 1) if last is training.initial else (request.gpus, last.steps + 1)
            unchanged, output = trial.run_unchanged(before, alone, processes_, steps)
            if output:
                said = _waiting(unchanged) or _said(unchanged) or output[:300]
                integrated = plan.adopted.edits or plan.script.calls("utils_perforatedai.perforate_model")
                if not integrated or _failure(unchanged) == _failure(last):
                    reason = f"before its rewriting it does not run here either. {said}"
                else:
                    message = f"did not run here before its rewriting either, but for another reason: {said}"
                    yield Problem(request.shown, 0, 0, "RF040", message)
    if reason:
        raise _untried(request, f"cannot be tried: {reason}")


def _reason(last: Round) -> str:
    """Why a round failed, where that is the script's own affair; else ""."""
    usage = [line for line in last.output.splitlines() if line.startswith("usage: ") or ": error: " in line]
    if usage and not last.all("perforated"):
        return f"it wants other arguments; they come after `--`. {usage[-1].strip()}"
    found = first_error(last)
    if found is None or causes.cause(f"{found[1]['error']}: {found[1]['message']}"):
        return ""
    kind = found[1]["error"]
    if kind == "NotSimulated":
        return f"it needs a real GPU. {_said(last)}"
    if kind in ("ModuleNotFoundError", "ImportError"):
        return f"it needs a package that is not there. {_said(last)}"
    return f"it needs what is not there. {_said(last)}" if kind in _LACKING else ""


def _waiting(one: Round) -> str:
    """Where each rank was when it hung, "" where none did."""
    return "; ".join(f"{who} is in {', called by '.join(stack[:3])}" for who, stack in one.stacks.items())


def _failure(one: Round) -> str:
    """What a round failed of, wherever that was; "" where it hung or said nothing of it."""
    found = first_error(one)
    return "" if found is None else summary(found[1])


def _said(one: Round) -> str:
    found = first_error(one)
    if found is None:
        return ""
    event = found[1]
    said = summary(event)
    return said + (f" ({event['place']})" if event["place"] else "")
