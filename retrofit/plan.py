"""Work out everything that an apply would write, and prove it, without touching a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from retrofit.adopt import NOTHING, Adopted, adopt
from retrofit.edits import Edit
from retrofit.errors import EngineError, Problem, UserError
from retrofit.evaluate import Evaluator, Outcome
from retrofit.inline import inlining
from retrofit.knowledge import load_knowledge
from retrofit.launch import SUBMITTING, SYSTEMS
from retrofit.options import Options
from retrofit.outputs import ALONE, Company, as_launched, chosen_launcher, find_place, job, new_file
from retrofit.progress import Told, untold
from retrofit.project import Project, load_project
from retrofit.proof import left_without_value, passed_over, prove, without_value
from retrofit.rewrite import by_file, crowded, rewriting
from retrofit.rules import STAGES, Recipe
from retrofit.rules_folder import proven_versions
from retrofit.skips import offering, stray
from retrofit.source import Source
from retrofit.survey.frameworks import may_wrap
from retrofit.survey.scopes import File
from retrofit.survey.script import Choices, survey
from retrofit.survey.sites.script import Script
from retrofit.text import deepest, is_deep, too_deep
from retrofit.unfold import unfolded
from retrofit.unused import unused_imports
from retrofit.wording import counted, did_you_mean
from retrofit.write.fence import outside
from retrofit.write.new import NewFile


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

    script: Script = field(repr=False)
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
    paths = [Path(os.path.realpath(script)) for script in scripts]
    folders = [path.parent for path in paths]
    plans: list[Plan] = []
    problems: list[Problem] = []
    pending: dict[Path, bytes] = {}
    for script, folder in zip(scripts, folders, strict=True):
        try:
            company = Company(pending, folders.count(folder) > 1, root, paths)
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


def make_plan(
    path: Path,
    shown: str,
    recipe: Recipe,
    options: Options,
    force: bool = False,
    survey_only: bool = False,
    company: Company = ALONE,
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
    words, library = load_knowledge(options.knowledge).own_words, recipe.signs.library
    size, late = options.max_file_size, options.module
    project = load_project(path, shown, company.pending, recipe.helper, size, library, words, late, company.scripts)
    begun = NOTHING
    if project.library and recipe.history is not None:
        message = f"is the library's own code, and left as it is. Where Python finds it before what is installed, \
the script trains with that release of it; the recipe is for {recipe.history.latest}."
        begun = begun.noting([Problem(project.library, 0, 0, "RF039", message)])
    lacking = [*_lacking(project)]
    begun = begun.noting(_other_release()).noting(_told(project)).noting(lacking)
    try:
        plan = _plan(project, recipe, options, force, survey_only, company, told, begun)
        if plan.questions:  # which may be open for want of these files
            notes = [note for note in plan.notes if note not in lacking]
            return replace(plan, questions=[*lacking, *plan.questions], notes=notes)
        return plan
    except EngineError as error:
        if recipe.extra is None:
            raise
        message = f"its rules write what cannot be: {error}. Nothing was changed."
        raise UserError(Problem(str(recipe.extra), 0, 0, "RF007", message)) from None
    except RecursionError:
        source = max((project.entry, *project.modules.values()), key=lambda source: deepest(source.text))
        if not is_deep(source.text):
            raise  # a mistake of ours, not of the file
        raise UserError(too_deep(source.text, source.shown, "rewritten")) from None


def _told(project: Project) -> Iterator[Problem]:
    """Note which files of data tell what is imported by a name made at run time."""
    if project.told:
        more = f", as other files of the project do ({len(project.told) - 1})" if len(project.told) > 1 else ""
        message = f"names modules that are imported by a name made at run time{more}: {', '.join(project.late)}. \
They are read as if imported; one that trains and that no such file names is not rewritten: --module names all."
        yield Problem(project.told[0], 0, 0, "RF044", message)


def _lacking(project: Project) -> Iterator[Problem]:
    """Note what files import of the project that it does not have."""
    for shown, line, module in project.lacking:
        message = f"imports {module}, but the project's package has no such file: nothing is known of what is in it, \
and what trains, evaluates or builds the model there is not rewritten. Put it there, and rewrite the script then."
        yield Problem(shown, line, 1, "RF047", message)


def _other_release() -> Iterator[Problem]:
    """Note that another release of the library is installed than the recipe was proven with."""
    with suppress(PackageNotFoundError):
        proven, installed = proven_versions()["perforatedai"], version("perforatedai")
        if installed not in proven:
            message = f"is installed; the recipe was proven with {' and '.join(proven)}."
            yield Problem(f"perforatedai {installed}", 0, 0, "RF041", message)


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
    library, knowledge = recipe.signs.library.encode(), load_knowledge(options.knowledge)
    idle = not any(may_wrap(file.data, knowledge) or (library and library in file.data) for file in project.sources)
    if not survey_only and not project.unread and idle:
        plan = _without_wrapper(source, recipe, options)
        if plan.questions:
            return plan
    files_read = counted(1 + len(project.modules), "file")
    told("surveying", files_read)
    choices = Choices(
        options.metric,
        options.mode,
        options.model,
        options.optimizer,
        recipe.module_functions,
        recipe.provided,
        recipe.handover,
        options.in_process,
        options.program,
        recipe.signs,
        options.inline and bool(adopted.edits),
        knowledge,
    )
    _check_settings(options, recipe)
    script = _surveyed(project, choices)
    _check_model(options, script)
    told("rewriting", files_read)
    texts = inlining(recipe, script.index) if options.inline else {}
    evaluator = Evaluator(recipe, options.for_rules(), texts, bool(adopted.edits))
    first = evaluator.first(script)
    first_questions = [
        *dict.fromkeys(first.questions),
        *stray(script.index),
        *_outside(script, first.edits, company.root),
    ]
    if first_questions:
        return Plan(script, [], [*project.unread] or first_questions, first.notes)
    adopted = adopted.noting(first.notes)
    if first.edits:
        project, adopted = adopt(project, script, first, adopted)
        return _plan(project, recipe, options, force, survey_only, company, told, adopted)
    outcome = evaluator.outcome(script)
    questions = sorted(set(outcome.questions), key=lambda one: (one.line, one.column, one.code, one.message))
    if questions and project.unread:
        questions = list(project.unread)  # the others are asked without having seen these files
    else:

        def asked(texts: Mapping[Source, str]) -> list[Problem]:
            return evaluator.outcome(_surveyed(project.with_texts(texts), choices)).questions

        last = {rule.code for rule in recipe.rules if rule.asked == "last"}
        questions = offering(questions, outcome.skips, asked, last)
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
            outcome.edits.extend(unused_imports(script, edited, adopted.edits))
            edited = by_file(script.index, outcome.edits)
            for file, mine in edited.items():
                new = rewriting(script.index, mine, file)
                written[file] = new.text
                lacking = [*without_value(script.index, file, new)]
                lacking = lacking or [*left_without_value(script.index, file, mine, new)]
                questions += lacking or passed_over(script.index, file, mine, new)
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
    made: dict[Path, NewFile | None] = {}
    for output in (one for one in recipe.outputs if evaluator.evaluate(one.when, names)):
        place = find_place(output, script, recipe, company)
        if output.launcher:
            names["launcher"] = place.path.name
            options = as_launched(options, place.started)
        try:
            made[place.path], said = new_file(place, script, recipe, options, save_name, force, company.root)
            notes += said
        except UserError as error:
            problems += error.problems
    ends = [(file.source, texts.get(file, file.source.text)) for file in script.index.files]
    new = [NewFile(source.path, source.data, source.encode(text)) for source, text in ends]
    files = [file for file in new if file.after != file.before]  # some are changed by the first stages alone
    try:
        made_too = [*made.values(), *job(script, str(names.get("launcher", "")), recipe, options, force)]
        files += [file for file in made_too if file is not None]
    except UserError as error:
        problems += error.problems
    if problems:
        raise UserError(*_told_once(problems))
    decisions = _decisions(script, options, save_name, "launcher" in names)
    names["submitting"] = SUBMITTING.get(options.launcher, "")
    names["ending"] = SYSTEMS.get(options.launcher, "")
    next_steps = evaluator.render(recipe.next_steps, names).strip()
    kept = [path for path, file in made.items() if file is None]
    return Plan(script, outcome.edits, [], notes, files, decisions, next_steps, kept, adopted)


def _check_model(options: Options, script: Script) -> None:
    if script.other_models:
        wrapped = ", ".join(f"`{name}`" for name in script.other_models if name)
        told = wrapped or "these have one name, so give each another, or wrap each in a function of its own"
        message = f"--model {options.model} names none of the wrapped models: {told}."
        raise UserError(Problem(script.index.source.shown, 0, 0, "RF015", message))


def _check_settings(options: Options, recipe: Recipe) -> None:
    for name, _ in options.settings:
        if name not in recipe.settings:
            near = did_you_mean(name, [*recipe.settings]) or f" There are {', '.join(recipe.settings)}."
            message = f"the library has no setting {name!r} that can be chosen so.{near}"
            raise UserError(Problem(options.origin("settings"), 0, 0, "RF006", message))


def _surveyed(project: Project, choices: Choices) -> Script:
    return survey(
        project.entry,
        choices,
        project.modules,
        project.neighbours,
        project.module,
        project.late,
        project.offered,
        project.settings,
    )


def _without_wrapper(source: Source, recipe: Recipe, options: Options) -> Plan:
    """Return what the recipe asks where there is no wrapper, without a survey: of a file that has nothing in it."""
    script = survey(Source(source.path, b"", source.shown))
    outcome = Evaluator(recipe, options.for_rules()).outcome(script)
    return Plan(script, [], outcome.questions, outcome.notes)


def _told_once(problems: Sequence[Problem]) -> Iterator[Problem]:
    """Yield each problem; several files that lie outside the project are told of by the folder that holds them."""
    outer: dict[str, list[Problem]] = {}
    for one in problems:
        if one.code != "RF030":
            yield one
        else:
            outer.setdefault(one.message, []).append(one)
    for alike in outer.values():
        yield replace(alike[0], file=os.path.commonpath([one.file for one in alike]))


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
    again = _surveyed(changed, choices)
    outcomes = [evaluator.afresh.outcome(again, stage) for stage in STAGES]
    questions = [question for outcome in outcomes for question in outcome.questions]
    if questions:
        raise EngineError(f"{questions[0]} (after the rewriting)")
    codes = ", ".join(sorted({edit.code for outcome in outcomes for edit in outcome.edits}))
    if codes:
        raise EngineError(f"{project.entry.shown}: a second rewriting would change it again ({codes})")


def _decisions(script: Script, options: Options, save_name: str, launched: bool) -> list[tuple[str, str, str]]:
    found = [("checkpoints", save_name, options.origin("save_name") or "the script's own name, or its file name")]
    if script.score is not None:
        better = {"max": " (higher is better)", "min": " (lower is better)"}.get(script.score.direction, "")
        told = script.score.evidence
        source = options.origin(told.removeprefix("--")) if told.startswith("--") else told
        found.append(("validation score", (options.metric or script.score.expression) + better, source))
    if script.optimizer is not None:
        kept = script.optimizer.keeps
        if kept:
            found.append(("optimizer", f"{script.optimizer.name}, built by the script", kept))
        else:
            found.append(("optimizer", f"{script.optimizer.name}, built by the tracker", script.optimizer.place()))
    if launched:
        found.append(("launcher", *chosen_launcher(script, options)))
    if script.kind == "ddp" and script.lone is None:
        found.append(("processes", *_processes(script, options)))
    if options.gpus:
        found.append(("GPUs", options.gpus, options.origin("gpus")))
    if launched and script.other_gpu is not None:
        taken = f"{script.other_gpu.place()} takes {script.other_gpu.name}"
        found.append(("initialisation", "sees all GPUs (INIT_GPUS)", taken))
    return found


def _processes(script: Script, options: Options) -> tuple[str, str]:
    """Return how many processes train on a machine, and where that comes from."""
    number, source = options.nproc_per_node, options.origin("nproc_per_node")
    launcher, chosen = chosen_launcher(script, options)
    if launcher != "python":
        return "one on each visible GPU" if number == "gpu" else number, source or "default"
    overruled = f", whatever {source} says" if source else ""
    start = script.spawning or next(iter(script.spawns), None)
    if start is None:
        return f"the one that is started{overruled}", chosen
    told = f": {' '.join(start.number.split())}" if start.number else ""
    return f"as many as the script starts{told}{overruled}", start.place()
