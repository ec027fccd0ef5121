"""What goes beside a rewritten script: the helper, the launch script, the job of a batch system."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from retrofit.errors import Problem, UserError, shown_path
from retrofit.imports import above_package
from retrofit.inline import launcher_program
from retrofit.jobs import job_files
from retrofit.launch import MARK, SYSTEMS, Launch, is_ours, launch_script, own_launcher, starts
from retrofit.options import Options
from retrofit.reading import read_file
from retrofit.rules import Output, Recipe
from retrofit.shell import Started, read_launcher
from retrofit.survey.sites.script import Script
from retrofit.write.fence import outside
from retrofit.write.new import NewFile

_LAUNCH_CHOICES = frozenset({"nproc_per_node", "gpus", "launcher", "save_name"})


@dataclass(frozen=True)
class Company:
    """What else one command applies the recipe to.

    Attributes:
        pending: what the plans of the scripts before this one write, by the files' real paths.
        neighbours: whether another script of this one's folder is among them, so that each gets a launcher of its own.
        root: the folder below which files may be written, None for any.
        scripts: the real paths of all of its scripts.
    """

    pending: Mapping[Path, bytes] = field(default_factory=dict)
    neighbours: bool = False
    root: Path | None = None
    scripts: Collection[Path] = ()

    def data(self, path: Path) -> bytes | None:
        """Return what a file holds, or is about to hold, None where there is none."""
        with suppress(FileNotFoundError):  # an undo may take it away at this moment
            return self.pending.get(path) or (read_file(path) if os.path.isfile(path) else None)
        return None


#: Of a script that is the only one.
ALONE = Company()


@dataclass(frozen=True)
class Place:
    """Where an output goes, and what is there.

    Attributes:
        output: what the recipe says of it.
        path: the file.
        shown: how messages name it.
        before: its bytes now, None where there is none.
        started: what it does where it is somebody's launch script that trains round after round.
    """

    output: Output
    path: Path
    shown: str
    before: bytes | None
    started: Started | None

    def problem(self, code: str, message: str, line: int = 0) -> Problem:
        """Return a problem of the file, or of a line in it."""
        return Problem(self.shown, line, 1 if line else 0, code, message)


def find_place(output: Output, script: Script, recipe: Recipe, company: Company) -> Place:
    """Return where an output of the recipe goes, and what is there.

    What is imported lies where Python looks for the script's own modules; a launcher has a name of its own where the
    folder has other scripts to start.
    """
    entry = script.index.source.path
    path, folder = above_package(entry, script.module) / output.path, script.import_folder
    if output.launcher:
        path, folder = entry.parent / output.path, os.path.dirname(script.index.source.shown)
        own, there = own_launcher(path, entry), _text(company.data(path))
        if company.data(own) is not None or (company.neighbours and there and not starts(there, entry.name)):
            path = own
    before = company.data(path)
    shown = os.path.join(folder, path.name if output.launcher else output.path)
    started = _rounds(before, script, recipe) if output.launcher else None
    return Place(output, path, shown, before, started)


def _rounds(data: bytes | None, script: Script, recipe: Recipe) -> Started | None:
    """Return what somebody's shell script does that starts the training round after round, None for any other."""
    text, signs = _text(data), recipe.signs
    if not signs.flag or is_ours(text):
        return None
    return read_launcher(text, script.file_name, [signs.flag, *signs.earlier_flags], [signs.folder])


def as_launched(options: Options, started: Started | None) -> Options:
    """Return the choices with those of a launch script that ours takes the place of, where the user made none."""
    if started is None:
        return options
    taken = {"nproc_per_node": started.processes, "gpus": started.gpus}
    taken = {name: value for name, value in taken.items() if value and not options.origin(name)}
    return replace(options, launched=frozenset(taken), **taken)  # type: ignore[arg-type]


def new_file(
    place: Place, script: Script, recipe: Recipe, options: Options, save_name: str, force: bool, root: Path | None
) -> tuple[NewFile | None, list[Problem]]:
    """Return an output of the recipe, None where what is there stays, and what the user should know of it.

    Args:
        place: where it goes.
        script: the survey.
        recipe: what has its template.
        options: what a launch script starts the training with.
        save_name: the folder of the checkpoints.
        force: replace a file that would be kept.
        root: the folder below which files may be written, None for any.

    Raises:
        UserError: it may not be written, or another file is in its way.
    """
    output, old = place.output, _text(place.before)
    fault = outside(root, place.path) if root is not None else ""
    if fault:
        raise UserError(Problem(shown_path(place.path), 0, 0, "RF030", fault))
    text = (recipe.folder / output.template).read_text(encoding="utf-8")
    if output.launcher:
        text = launch_script(text, _launch(script, recipe, options, save_name, place.path.name))
    after = text.encode(errors="surrogateescape")  # a script's name may be in any bytes
    new = NewFile(place.path, place.before, after, output.executable) if place.before != after else None
    if place.before is not None and not force:
        if not (is_ours(old) if output.launcher else MARK in old[:200]):
            _check_replaceable(place, script)
        elif output.launcher and not starts(old, script.file_name):
            message = "starts another script of this folder. Move it away, or replace it with --force."
            raise UserError(place.problem("RF008", message))
        elif new is not None and not (output.launcher and options.commanded & _LAUNCH_CHOICES):
            message = "differs from what would be generated and is kept. Replace it with --force."
            return None, [place.problem("RF009", message)]
    notes = list(_others(place, script, recipe)) if output.launcher and new is not None else []
    if place.started is None:
        return new, notes
    message = "started the training round after round, and ours takes its place; `retrofit undo` brings it back."
    return new, [place.problem("RF038", message), *notes]


def _others(place: Place, script: Script, recipe: Recipe) -> Iterator[Problem]:
    """Yield the shell scripts beside a launcher that start the same training round after round by themselves."""
    for path in sorted(place.path.parent.glob("*.sh")):
        if path != place.path and path.is_file() and _rounds(read_file(path), script, recipe) is not None:
            message = f"starts {script.file_name} round after round as well. Each round ends with status 0, whatever \
came of it: start {place.path.name} in its place, which goes on only while there is progress."
            yield Problem(os.path.join(os.path.dirname(place.shown), path.name), 0, 0, "RF042", message)


def job(script: Script, launcher: str, recipe: Recipe, options: Options, force: bool) -> list[NewFile]:
    """Return the files of the job of a batch system that runs a launcher, none where none is asked for.

    Raises:
        UserError: a file is in the way.
    """
    if options.launcher not in SYSTEMS or not launcher:
        return []
    path, processes = script.index.source.path, options.nproc_per_node
    return job_files(path, launcher, recipe.folder, options.launcher, options.nodes, processes, force)


def chosen_launcher(script: Script, options: Options) -> tuple[str, str]:
    """Return the launcher, and where the choice comes from.

    A script that spawns its own workers, always or as the only way, or is one process by itself, is run by plain
    python; one that takes `--local_rank` is started by torch.distributed.launch, which passes it, but for one where
    another parser would end it at that; any other by torchrun.
    """
    if options.program:
        return options.program, options.origin("launcher")
    if script.kind == "dp":
        return "python", "DataParallel trains in one process"
    if script.spawning is not None:
        return "python", f"{script.spawning.place()} spawns the workers"
    if script.lone is not None:
        return "python", f"{script.lone.place()} begins a process group of one process"
    taking = [parser for parser in script.parsers if parser.takes_number]
    ended = taking and any(parser.strict and parser not in taking for parser in script.parsers)
    if script.local_ranks and not ended:
        return "launch", f"an option at {script.local_ranks[0].place()} is --local_rank"
    return "torchrun", "default"


def _check_replaceable(place: Place, script: Script) -> None:
    """Raise what says that a file is not ours, and does more than ours would."""
    started, line = place.started, 0
    message = "exists and was not generated by retrofit. Move it away, or replace it with --force."
    if started is not None:
        if not started.others:
            return
        line, code = started.others[0]
        message = f"starts {script.file_name} round after round, as ours would, and does more here: `{code}`. \
Do that before you start ours, or give it to ours as its arguments, and replace this with --force."
    raise UserError(place.problem("RF008", message, line))


def _launch(script: Script, recipe: Recipe, options: Options, save_name: str, name: str) -> Launch:
    number = options.nproc_per_node
    return Launch(
        script=script.file_name,
        module=script.module,
        save_name=save_name,
        nproc_per_node="gpu" if number == "gpu" else int(number),
        gpus=options.gpus or None,
        launcher=chosen_launcher(script, options)[0],  # type: ignore[arg-type]
        name=name,
        program=launcher_program(recipe) if options.inline or script.inlined else "",
        sees_all=script.other_gpu is not None,
    )


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="surrogateescape")
