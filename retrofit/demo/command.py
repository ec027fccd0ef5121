"""The demo: a small project is put into a new folder, rewritten, trained to the end, and what came of it is shown."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from retrofit import report
from retrofit.console import Console
from retrofit.demo.training import Trained, train
from retrofit.errors import Problem, UserError, shown_path
from retrofit.explain import explained
from retrofit.interpreter import Interpreter, find_python, look_at
from retrofit.launch import own_environment
from retrofit.options import load_options
from retrofit.outcome import Outcome
from retrofit.plan import Plan, make_plans
from retrofit.rules import Recipe
from retrofit.rules_folder import proven_versions
from retrofit.write.record import Written, write_files

_SAVE = "PAI_train"
#: Where the demo's Python needs torch and perforatedai, which brings torchvision unless told otherwise.
_INSTALL = "pip install 'torch-retrofit[demo]' && pip install --no-deps perforatedai=={}"


def projects() -> Path:
    """Return the folder with the demo's projects, inside the installed package or beside it in a checkout."""
    here = Path(__file__).resolve().parents[1]
    installed = here / "_demo"
    return installed if installed.is_dir() else here.parent / "fixtures"


def demo(folder: Path, kind: str, python: str | None, recipe: Recipe, console: Console) -> bool:
    """Show the main job on a project that comes along.

    Args:
        folder: a new folder for it.
        kind: "ddp" or "dp".
        python: the Python that trains, None to choose.
        recipe: what to apply.
        console: where it is told.

    Returns:
        Whether all went well; also where nothing can be trained.

    Raises:
        UserError: the folder is there already, or cannot be made; or the Python does not run.
    """
    interpreter = look_at(find_python(python))
    _put(projects() / f"{kind}_demo" / "before", folder)
    script = folder / "train.py"
    where = shown_path(folder)
    console.tell(f"A small {'DistributedDataParallel' if kind == 'ddp' else 'DataParallel'} project is in {where}/.")
    with console.progress() as told:
        (plan,) = make_plans([script], recipe, lambda one: load_options(one, {}), told=told)
    console.tell(f"\n$ retrofit apply --dry-run -v {shown_path(script)}\n")
    names = report.names_in_diff(plan.files, [script])
    console.tell(explained(plan, names, recipe.titles, console.out))
    write_files(Path(os.path.realpath(folder)), "apply", Written(plan.path, plan.files, plan.uses))
    console.tell(f"\n$ retrofit apply {shown_path(script)}\n")
    console.tell(report.summary(plan, console.out))
    lacking = _lacking(interpreter)
    if lacking:
        console.tell(f"\nIt is not trained here: {lacking}")
        return True
    return _trained(folder, plan, interpreter, console)


def _put(project: Path, folder: Path) -> None:
    """Copy a project to a new folder, or leave nothing.

    Only what was not there before is written, and only there: nothing of the user's can be lost, and no journal needed.
    """
    try:
        folder.mkdir()
    except FileExistsError:
        raise _refused(folder, "is there already. Name a new folder: retrofit demo FOLDER.") from None
    except OSError as error:
        message = f"cannot be made: {error.strerror}. Name another folder: retrofit demo FOLDER."
        raise _refused(folder, message) from None
    try:
        shutil.copytree(project, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise _refused(folder, f"cannot be written: {error}. Nothing was left.") from None


def _refused(folder: Path, message: str) -> UserError:
    return UserError(Problem(shown_path(folder), 0, 0, "RF021", message))


def _lacking(interpreter: Interpreter) -> str:
    """Return why nothing can be trained, and what to do; "" where something can."""
    missing = [name for name in ("torch", "perforatedai") if not getattr(interpreter, name)]
    if missing:
        install = _INSTALL.format(proven_versions()["perforatedai"][-1])
        return f"{' and '.join(missing)} must be installed for {interpreter.path}, for example by\n  {install}"
    return "" if shutil.which("bash") else "train_distributed.sh needs bash."


def _trained(folder: Path, plan: Plan, interpreter: Interpreter, console: Console) -> bool:
    """Train the project, and show what came of it."""
    launcher = next((file.path.name for file in plan.files if file.path.suffix == ".sh"), "")
    settings = {"PYTHON": interpreter.path, "NUM_GPUS": "2", "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    settings["REHEARSE"] = "0"  # a rehearsal would take as long as this training
    console.tell(f"\n$ cd {shown_path(folder)} && NUM_GPUS=2 REHEARSE=0 ./{launcher}\n")
    with console.progress() as told:
        trained = train(
            ["bash", launcher],
            folder,
            {**own_environment(), **settings, "CUDA_VISIBLE_DEVICES": ""},
            folder / "train.log",
            told,
            lambda stage: console.tell(str(stage)),
        )
    if trained.status:
        console.complain("\n".join(["", *trained.tail, "", f"The training failed with status {trained.status}."]))
        return False
    console.tell("\n" + _outcome(folder, trained))
    return True


def _outcome(folder: Path, trained: Trained) -> str:
    outcome = Outcome(folder / _SAVE)
    outcome.facts["load"]["build"] = "SpiralNet()"  # whose arguments have defaults, by which the demo trains
    seconds = sum(one.seconds for one in trained.stages)
    return "\n".join(
        [
            f"$ retrofit report {shown_path(outcome.save)}",
            "",
            outcome.text(),
            "",
            f"It took {seconds:.0f} s on the CPU. All that it printed is in {shown_path(folder)}/train.log.",
            "Now your own script: retrofit apply --dry-run -v train.py",
        ]
    )
