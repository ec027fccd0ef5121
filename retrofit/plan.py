"""Work out everything that an apply would write, and prove it, without touching a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from retrofit.adopt import NOTHING, Adopted, adopt
from retrofit.edits import Edit
from retrofit.errors import EngineError, Problem, UserError, shown_path
from retrofit.inline import inlining
from retrofit.jobs import job_file
from retrofit.launch import MARK, SUBMITTING, SYSTEMS, Launch, is_ours, launch_script, own_launcher, starts
from retrofit.options import Options
from retrofit.progress import Told, untold
from retrofit.project import Project, above_package, load_project
from retrofit.proof import prove, without_value
from retrofit.reading import read_file
from retrofit.rewrite import by_file, crowded, rewriting
from retrofit.rules import STAGES, Evaluator, Outcome, Output, Recipe
from retrofit.shell import Started, read_launcher
from retrofit.source import Source
from retrofit.survey.frameworks import may_wrap
from retrofit.survey.index import File
from retrofit.survey.script import Choices, survey
from retrofit.survey.sites import Script
from retrofit.text import deepest, too_deep
from retrofit.unfold import unfolded
from retrofit.wording import counted, did_you_mean
from retrofit.write.fence import outside

_LAUNCH_CHOICES = frozenset({"nproc_per_node", "gpus", "launcher", "save_name"})


@dataclass(frozen=True)
class NewFile:
    """A file that an apply writes.

    Attributes:
        path: where.
        before: its bytes now, None where it does not exist.
        after: its bytes then.
        executable: whether it may be run.
    """

    path: Path
    before: bytes | None
    after: bytes
    executable: bool = False


@dataclass(frozen=True)
class Plan:
    """What an apply would do to a script.

    Attributes:
        script: the survey.
        edits: the changes of the script, in the order of their rules.
        files: the files that would change, the script itself first.
        questions: what has to be answered before anything can be written.
        notes: what the user should know.
        decisions: what was chosen and where it came from, as (what, value, source).
        next_steps: what the user does next.
        kept: generated files that are there already, by their real paths.
        adopted: what was changed before the edits, which are of the files as that left them.
    """

    script: Script
    edits: list[Edit]
    questions: list[Problem]
    notes: list[Problem]
    files: list[NewFile] = field(default_factory=list)
    decisions: list[tuple[str, str, str]] = field(default_factory=list)
    next_steps: str = ""
    kept: list[Path] = field(default_factory=list)
    adopted: Adopted = NOTHING

    @property
    def path(self) -> Path:
        """The script's real path."""
        return self.script.index.source.path

    @property
    def uses(self) -> list[Path]:
        """The real paths of the project's other files that the script trains by, as they are after the apply."""
        return [*(file.source.path for file in self.script.index.files), *self.kept]


@dataclass(frozen=True)
class Company:
    """What else one command applies the recipe to.

    Attributes:
        pending: what the plans of the scripts before this one write, by the files' real paths.
        neighbours: whether another script of this one's folder is among them, so that each gets a launcher of its own.
        root: the folder below which files may be written, None for any.
    """

    pending: Mapping[Path, bytes] = field(default_factory=dict)
    neighbours: bool = False
    root: Path | None = None


def make_plans(
    scripts: Sequence[Path],
    recipe: Recipe,
    options: Callable[[Path], Options],
    force: bool = False,
    root: Path | None = None,
    told: Told = untold,
) -> list[Plan]:
    """Return what applying ``recipe`` to several scripts would do, each on top of the changes of those before it.

    Args:
        scripts: the entry scripts.
        options: tells the options for a script.
        force: replace a helper module or launch script that would be kept.
        root: the folder below which files may be written, None for any.
        told: is told of each step.

    Raises:
        UserError: a script cannot be read or edited, or a question is open.
        EngineError: a rewriting failed its proofs.
    """
    folders = [Path(os.path.realpath(script)).parent for script in scripts]
    plans: list[Plan] = []
    problems: list[Problem] = []
    pending: dict[Path, bytes] = {}
    for script, folder in zip(scripts, folders, strict=True):
        try:
            company = Company(pending, folders.count(folder) > 1, root)
            plan = make_plan(script, str(script), recipe, options(script), force, company=company, told=told)
        except UserError as error:
            problems += error.problems
            continue
        problems += plan.questions
        plans.append(plan)
        pending.update((file.path, file.after) for file in plan.files)
    if problems:
        raise UserError(*problems)
    return plans


def final_files(written: Iterable[Sequence[NewFile]]) -> list[NewFile]:
    """Return what is to be written in one go, where several plans write, as the last of them leaves it."""
    found: dict[Path, NewFile] = {}
    for file in (file for files in written for file in files):
        first = found.get(file.path)
        found[file.path] = file if first is None else replace(file, before=first.before)
    return list(found.values())


def make_plan(
    path: Path,
    shown: str,
    recipe: Recipe,
    options: Options,
    force: bool = False,
    survey_only: bool = False,
    company: Company = Company(),
    told: Told = untold,
) -> Plan:
    """Return what applying ``recipe`` to a script would do.

    Args:
        path: the entry script.
        shown: how messages name it.
        force: replace a helper module or launch script that would be kept.
        survey_only: stop before the new files are worked out.
        company: what else the same command applies it to.
        told: is told of each step.

    Raises:
        UserError: the script cannot be read or edited.
        EngineError: the rewriting failed its proofs.
    """
    told("reading the project", "")
    project = load_project(path, shown, company.pending, recipe.helper, options.max_file_size, recipe.signs.library)
    begun = NOTHING
    if project.library and recipe.history is not None:
        message = f"is the library's own code, and left as it is. Where Python finds it before what is installed, \
the script trains with that release of it; the recipe is for {recipe.history.latest}."
        begun = begun.noting([Problem(project.library, 0, 0, "RF039", message)])
    try:
        return _plan(project, recipe, options, force, survey_only, company, told, begun)
    except EngineError as error:
        if recipe.extra is None:
            raise
        message = f"its rules write what cannot be: {error}. Nothing was changed."
        raise UserError(Problem(str(recipe.extra), 0, 0, "RF007", message)) from None
    except RecursionError:
        source = max((project.entry, *project.modules.values()), key=lambda source: deepest(source.text))
        raise UserError(too_deep(source.text, source.shown, "rewritten")) from None


def _plan(
    project: Project,
    recipe: Recipe,
    options: Options,
    force: bool,
    survey_only: bool,
    company: Company,
    told: Told,
    adopted: Adopted = NOTHING,
) -> Plan:
    source = project.entry
    if not survey_only and not project.unread and not any(may_wrap(file.data) for file in project.sources):
        plan = _without_wrapper(source, recipe, options)
        if plan.questions:
            return plan
    files_read = counted(1 + len(project.modules), "file")
    told("surveying", files_read)
    choices = Choices(
        options.metric,
        options.mode,
        options.model,
        recipe.module_functions,
        recipe.provided,
        recipe.handover,
        options.in_process,
        recipe.signs,
        options.inline and bool(adopted.edits),
    )
    _check_settings(options, recipe)
    script = survey(source, choices, project.modules, project.neighbours, project.module)
    _check_model(options, script)
    told("rewriting", files_read)
    texts = inlining(recipe, script.index) if options.inline else {}
    evaluator = Evaluator(recipe, options.for_rules(), texts, bool(adopted.edits))
    first = evaluator.first(script)
    first_questions = [*first.questions, *_outside(script, first.edits, company.root)]
    if first_questions:
        return Plan(script, [], [*project.unread] or first_questions, first.notes)
    adopted = adopted.noting(first.notes)
    if first.edits:
        project, adopted = adopt(project, script, first, adopted)
        return _plan(project, recipe, options, force, survey_only, company, told, adopted)
    outcome = evaluator.outcome(script)
    questions = sorted(set(outcome.questions), key=lambda problem: (problem.line, problem.column, problem.code))
    if questions and project.unread:
        questions = list(project.unread)  # the others are asked without having seen these files
    questions += _outside(script, outcome.edits, company.root)
    edited = by_file(script.index, outcome.edits)
    others = [file.source.shown for file in edited if file is not script.index.entry]
    if options.inline and others and not questions:
        message = f"--inline is for one file, but {', '.join(others)} must change as well. Leave it out."
        raise UserError(Problem(source.shown, 0, 0, "RF019", message))
    shared = {file.source: nodes for file, mine in edited.items() if (nodes := crowded(script.index, mine))}
    if shared and not questions:
        project = project.with_sources({source: unfolded(source, nodes) for source, nodes in shared.items()})
        return _plan(project, recipe, options, force, survey_only, company, told, adopted)
    written: dict[File, str] = {}
    if not questions:
        try:
            for file, mine in edited.items():
                new = rewriting(script.index, mine, file)
                written[file] = new.text
                questions += without_value(script.index, file, new)
        except UserError as error:
            if not survey_only:
                raise
            questions = list(error.problems)
    outcome.notes[:0] = adopted.notes
    if questions or survey_only:
        return Plan(script, outcome.edits, questions, outcome.notes, adopted=adopted)
    told("proving", counted(len(written), "file"))
    _prove(project, script, outcome.edits, written, choices, evaluator)
    return _complete(script, recipe, options, evaluator, outcome, written, force, company, adopted)


def _complete(
    script: Script,
    recipe: Recipe,
    options: Options,
    evaluator: Evaluator,
    outcome: Outcome,
    texts: Mapping[File, str],
    force: bool,
    company: Company,
    adopted: Adopted,
) -> Plan:
    """Return the plan with what goes beside the new texts, and what is told of it."""
    names = evaluator.context(script)
    save_name = str(names["save_name"])
    notes = list(outcome.notes)
    problems: list[Problem] = []
    made: dict[Path, list[NewFile]] = {}
    for output in (one for one in recipe.outputs if evaluator.evaluate(one.when, names)):
        target = _target(output, script, company)
        if output.launcher:
            names["launcher"] = target.name
            options = _as_launched(options, _published(target, script, recipe, company))
        try:
            made[target] = _output(output, target, recipe, script, options, save_name, force, notes, company)
        except UserError as error:
            problems += error.problems
    ends = [(file.source, texts.get(file, file.source.text)) for file in script.index.files]
    new = [NewFile(source.path, source.data, source.encode(text)) for source, text in ends]
    files = [file for file in new if file.after != file.before]  # some are changed by the first stages alone
    files += [file for written in made.values() for file in written]
    try:
        files += _job(script, str(names.get("launcher", "")), recipe, options, force)
    except UserError as error:
        problems += error.problems
    if problems:
        raise UserError(*problems)
    decisions = _decisions(script, options, save_name, "launcher" in names)
    names["submitting"] = SUBMITTING.get(options.launcher, "")
    names["ending"] = SYSTEMS.get(options.launcher, "")
    next_steps = evaluator.render(recipe.next_steps, names).strip()
    kept = [target for target, written in made.items() if not written]
    return Plan(script, outcome.edits, [], notes, files, decisions, next_steps, kept, adopted)


def _check_model(options: Options, script: Script) -> None:
    if script.other_models:
        wrapped = ", ".join(f"`{name}`" for name in script.other_models if name)
        message = f"--model {options.model} names none of the wrapped models: {wrapped}."
        raise UserError(Problem(script.index.source.shown, 0, 0, "RF015", message))


def _check_settings(options: Options, recipe: Recipe) -> None:
    for name, _ in options.settings:
        if name not in recipe.settings:
            near = did_you_mean(name, [*recipe.settings]) or f" There are {', '.join(recipe.settings)}."
            message = f"the library has no setting {name!r} that can be chosen so.{near}"
            raise UserError(Problem(options.origin("settings"), 0, 0, "RF006", message))


def _without_wrapper(source: Source, recipe: Recipe, options: Options) -> Plan:
    """Return what the recipe asks where there is no wrapper, without a survey: of a file that has nothing in it."""
    script = survey(Source(source.path, b"", source.shown))
    outcome = Evaluator(recipe, options.for_rules()).outcome(script)
    return Plan(script, [], outcome.questions, outcome.notes)


def _outside(script: Script, edits: list[Edit], root: Path | None) -> Iterator[Problem]:
    """Yield a question for each file that must change and may not."""
    for file, mine in by_file(script.index, edits).items():
        fault = "" if root is None else outside(root, file.source.path)
        if fault:
            line, column = min(file.source.position(e.node) for e in mine if e.kind != "add-import" or len(mine) == 1)
            yield Problem(file.source.shown, line, column, "RF030", f"must be rewritten here, but {fault}")


def _prove(
    project: Project,
    script: Script,
    edits: list[Edit],
    texts: dict[File, str],
    choices: Choices,
    evaluator: Evaluator,
) -> None:
    """Check the rewriting, and that a second one would find nothing to do."""
    mine = by_file(script.index, edits)
    for file, text in texts.items():
        prove(file.source, mine[file], text)
    if not texts:
        return
    changed = project.with_texts({file.source: text for file, text in texts.items()})
    again = survey(changed.entry, choices, changed.modules, changed.neighbours, changed.module)
    outcomes = [evaluator.afresh.outcome(again, stage) for stage in STAGES]
    questions = [question for outcome in outcomes for question in outcome.questions]
    if questions:
        raise EngineError(f"{questions[0]} (after the rewriting)")
    codes = ", ".join(sorted({edit.code for outcome in outcomes for edit in outcome.edits}))
    if codes:
        raise EngineError(f"{project.entry.shown}: a second rewriting would change it again ({codes})")


def _target(output: Output, script: Script, company: Company) -> Path:
    """Return where a file goes: a launcher under a name of its own where the folder has other scripts to start.

    What is imported lies where Python looks for the script's own modules.
    """
    entry = script.index.source.path
    path = entry.parent / output.path
    if not output.launcher:
        return above_package(entry, script.module) / output.path
    own = own_launcher(path, entry)
    started = _text(_data(path, company) or b"")
    free = not started or starts(started, entry.name)
    return own if _data(own, company) is not None or (company.neighbours and not free) else path


def _data(path: Path, company: Company) -> bytes | None:
    """Return what a file holds, or is about to hold, None where there is none."""
    with suppress(FileNotFoundError):  # an undo may take it away at this moment
        return company.pending.get(path) or (read_file(path) if os.path.isfile(path) else None)
    return None


def _published(path: Path, script: Script, recipe: Recipe, company: Company) -> Started | None:
    """Return what the launch script does that stands where ours goes, None where none starts the training as ours."""
    text = _text(_data(path, company) or b"")
    signs = recipe.signs
    started = (
        read_launcher(text, script.file_name, [signs.flag], [signs.folder]) if text and not is_ours(text) else None
    )
    return started if signs.flag else None


def _as_launched(options: Options, started: Started | None) -> Options:
    """Return the choices with those of a launch script that ours takes the place of, where the user made none."""
    if started is None:
        return options
    taken = {"nproc_per_node": started.processes, "gpus": started.gpus}
    taken = {name: value for name, value in taken.items() if value and not options.origin(name)}
    return replace(options, launched=frozenset(taken), **taken)  # type: ignore[arg-type]


def _output(
    output: Output,
    path: Path,
    recipe: Recipe,
    script: Script,
    options: Options,
    save_name: str,
    force: bool,
    notes: list[Problem],
    company: Company,
) -> list[NewFile]:
    fault = outside(company.root, path) if company.root is not None else ""
    if fault:
        raise UserError(Problem(shown_path(path), 0, 0, "RF030", fault))
    text = (recipe.folder / output.template).read_text(encoding="utf-8")
    if output.launcher:
        text = launch_script(text, _launch(script, options, save_name, path.name))
    before = _data(path, company)
    if before is not None:
        old = _text(before)
        ours = is_ours(old) if output.launcher else MARK in old[:200]
        folder = script.import_folder if not output.launcher else os.path.dirname(script.index.source.shown)
        shown = os.path.join(folder, path.name if output.launcher else output.path)
        if output.launcher and ours and not force and not starts(old, script.file_name):
            message = "starts another script of this folder. Move it away, or replace it with --force."
            raise UserError(Problem(shown, 0, 0, "RF008", message))
        started = _published(path, script, recipe, company) if output.launcher else None
        if not ours and not force and (started is None or started.others):
            line, message = 0, "exists and was not generated by retrofit. Move it away, or replace it with --force."
            if started is not None:
                line, code = started.others[0]
                message = f"starts {script.file_name} round after round, as ours would, and does more here: `{code}`. \
Do that before you start ours, or give it to ours as its arguments, and replace this with --force."
            raise UserError(Problem(shown, line, 1 if line else 0, "RF008", message))
        if started is not None:
            message = (
                "started the training round after round, and ours takes its place; `retrofit undo` brings it back."
            )
            notes.append(Problem(shown, 0, 0, "RF038", message))
        if ours and not force and not (output.launcher and options.commanded & _LAUNCH_CHOICES):
            if old != text:
                notes.append(
                    Problem(
                        shown,
                        0,
                        0,
                        "RF009",
                        "differs from what would be generated and is kept. Replace it with --force.",
                    )
                )
            return []
    after = text.encode(errors="surrogateescape")  # a script's name may be in any bytes
    return [NewFile(path, before, after, output.executable)] if before != after else []


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _launch(script: Script, options: Options, save_name: str, name: str) -> Launch:
    number = options.nproc_per_node
    return Launch(
        script=script.file_name,
        module=script.module,
        save_name=save_name,
        nproc_per_node="gpu" if number == "gpu" else int(number),
        gpus=options.gpus or None,
        launcher=chosen_launcher(script, options)[0],  # type: ignore[arg-type]
        name=name,
    )


def _job(script: Script, launcher: str, recipe: Recipe, options: Options, force: bool) -> list[NewFile]:
    if options.launcher not in SYSTEMS or not launcher:
        return []
    path, processes = script.index.source.path, options.nproc_per_node
    job = job_file(path, launcher, recipe.folder, options.launcher, options.nodes, processes, force)
    return [job] if job else []


def chosen_launcher(script: Script, options: Options) -> tuple[str, str]:
    """Return the launcher, and where the choice comes from.

    A script that spawns its own workers, always or as the only way, is run by plain python; one that takes
    `--local_rank` is started by torch.distributed.launch, which passes it; any other by torchrun.
    """
    if options.program:
        return options.program, options.origin("launcher")
    if script.kind == "dp":
        return "python", "DataParallel trains in one process"
    if script.spawning is not None:
        return "python", f"{script.spawning.place()} spawns the workers"
    for option in script.local_ranks[:1]:
        return "launch", f"an option at {option.place()} is --local_rank"
    return "torchrun", "default"


def _decisions(script: Script, options: Options, save_name: str, launched: bool) -> list[tuple[str, str, str]]:
    found = [("checkpoints", save_name, options.origin("save_name") or "the script's own name, or its file name")]
    if script.score is not None:
        better = {"max": " (higher is better)", "min": " (lower is better)"}.get(script.score.direction, "")
        told = script.score.evidence
        source = options.origin(told.removeprefix("--")) if told.startswith("--") else told
        found.append(("validation score", script.score.expression + better, source))
    if script.optimizer is not None:
        kept = script.optimizer.keeps
        if kept:
            found.append(("optimizer", f"{script.optimizer.name}, built by the script", kept))
        else:
            found.append(("optimizer", f"{script.optimizer.name}, built by the tracker", script.optimizer.place()))
    if launched:
        found.append(("launcher", *chosen_launcher(script, options)))
    if script.kind == "ddp":
        number = "one on each visible GPU" if options.nproc_per_node == "gpu" else options.nproc_per_node
        found.append(("processes", number, options.origin("nproc_per_node") or "default"))
    if options.gpus:
        found.append(("GPUs", options.gpus, options.origin("gpus")))
    return found
