"""Put the survey of an entry script together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import libcst as cst

from retrofit.configured import NO_SETTINGS, Settings
from retrofit.knowledge import Knowledge
from retrofit.neighbours import Neighbour
from retrofit.source import Source
from retrofit.survey.absentees import find_absentees
from retrofit.survey.arguments import Namespaces, find_local_ranks, find_parsers, find_rank_flags, first_reading
from retrofit.survey.assertions import find_assertions
from retrofit.survey.backwards import find_backwards, find_cut_off
from retrofit.survey.blocks import NO_SIGNS, Signs
from retrofit.survey.bypass import find_bypass
from retrofit.survey.classes import Trainers
from retrofit.survey.clocks import find_clocks, waits_for_clock
from retrofit.survey.constructions import find_constructions, is_of
from retrofit.survey.defaults import Defaults, holding
from retrofit.survey.disorder import (
    beside_another,
    built_again,
    disorder,
    following_by_name,
    late_layers,
    made_of_it,
    paired_parts,
    wrapped_where_built,
)
from retrofit.survey.elsewhere import never_started, sent_to_workers, trained_elsewhere
from retrofit.survey.flow import Flow
from retrofit.survey.folders import find_new_folders
from retrofit.survey.frameworks import find_frameworks
from retrofit.survey.groups import Groups, groups_fed, groups_trained
from retrofit.survey.handovers import (
    after_completion,
    baselines,
    find_own_blocks,
    goes_on,
    handing_over,
    loops_handing_over,
)
from retrofit.survey.index import Index
from retrofit.survey.loops import called_in, find_loops, head, trains_once, validation_at
from retrofit.survey.minimums import chosen_by, find_minimums
from retrofit.survey.models import (
    find_models,
    for_itself,
    group_by_model,
    is_apart,
    is_built_anew,
    note_trained_aside,
    plural,
    repeated,
)
from retrofit.survey.nodes import last_name, last_of, mentions, nodes_in
from retrofit.survey.numbers import Numbers
from retrofit.survey.optimizers import find_optimizers
from retrofit.survey.order import defines, may_lack_value, runs_always, ways_to
from retrofit.survey.origins import Origin
from retrofit.survey.partings import find_partings
from retrofit.survey.planned_counts import find_planned_counts, note_planned_files
from retrofit.survey.reach import reachable
from retrofit.survey.repetitions import comprehended, repeats_itself
from retrofit.survey.resuming import find_resumptions
from retrofit.survey.schedulers import find_schedulers
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.scores import (
    can_be_named,
    decides,
    find_hints,
    find_measures,
    find_scores,
    find_silent,
    find_taken,
)
from retrofit.survey.scores.making import TRAINED
from retrofit.survey.scores.site import can_be_brought
from retrofit.survey.scores.standins import tests_around
from retrofit.survey.scores.training import find_trained
from retrofit.survey.scores.validation import runs_with_its_statement, validates_there
from retrofit.survey.shares import find_joins, find_shares
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.call import CallSite, FailingCall
from retrofit.survey.sites.framework import Detour, Framework
from retrofit.survey.sites.loop import Backward, EpochLoop
from retrofit.survey.sites.model import Model
from retrofit.survey.sites.optimizer import Optimizer
from retrofit.survey.sites.score import Score, answer_for
from retrofit.survey.sites.script import Script
from retrofit.survey.sites.wrapper import Wrapper
from retrofit.survey.spawns import find_spawns, spawned_numbers
from retrofit.survey.starting_points import find_starting_points
from retrofit.survey.stops import find_early_ends, find_interruptions, find_stops
from retrofit.survey.thawing import find_thaws
from retrofit.survey.trainings import (
    exclude_one_another,
    find_further,
    find_trials,
    in_place_of,
    is_made_of,
    left_out,
    measured_beside,
    of_optimizer,
    of_other_models,
    trained_beside,
    trained_instead,
    trained_too,
    trains_others,
    without_early_and_late_ones,
    without_other_runs,
    without_those_within,
    without_warm_ups,
)
from retrofit.survey.unnamed import nameless_optimizers, unnamed_optimizers
from retrofit.survey.walks import find_module_counts
from retrofit.survey.weights import (
    copied_before,
    find_averages,
    find_besides,
    find_followers,
    find_other_loads,
    find_rebuilt,
    find_reloads,
    is_another,
    sent_away,
)
from retrofit.survey.wrappers import (
    answers,
    find_wrappers,
    mark_members,
    names_wrapper,
    told_apart,
    unlike,
    unnamed_models,
    wrapped_origins,
    wrapper_kind,
)


@dataclass(frozen=True)
class Choices:
    """What the user, not the script, says about it.

    Attributes:
        metric: the expression of the validation score, "" to find it.
        mode: "max" or "min", "" to find it.
        model: the model to treat, where several are wrapped: its variable, with `OWNER.` or `FILE:` before it where the
            name alone does not tell.
        optimizer: the variable of the optimizer to tell the library of, where several train the model, "" to find it.
        module_functions: qualified names of functions that return their first argument's module, of `name#1` another's.
        provided: full names of functions that a recipe provides.
        handover: qualified names of functions by which a script gives its optimizer to the recipe's library.
        in_process: whether the model is to be restructured while the process goes on, without a restart.
        launcher: what starts the training's processes, "" to choose by the script.
        signs: what tells what a script has in the place of what the recipe writes.
        inlining: whether the functions that a recipe provides are about to be put into the script, which calls them.
        knowledge: what is known of libraries, None for what the program comes with.
    """

    metric: str = ""
    mode: str = ""
    model: str = ""
    optimizer: str = ""
    module_functions: frozenset[str] = frozenset()
    provided: frozenset[str] = frozenset()
    handover: frozenset[str] = frozenset()
    in_process: bool = False
    launcher: str = ""
    signs: Signs = NO_SIGNS
    inlining: bool = False
    knowledge: Knowledge | None = None


def survey(
    source: Source,
    choices: Choices = Choices(),
    modules: Mapping[str, Source] | None = None,
    neighbours: Mapping[str, Sequence[Neighbour]] | None = None,
    module: str = "",
    late: Collection[str] = (),
    offered: Sequence[str] = (),
    settings: Settings = NO_SETTINGS,
) -> Script:
    """Return every site of a script.

    Args:
        source: the entry script.
        choices: what the user says about it.
        modules: the project's other files that count, by the full names of their modules.
        neighbours: the other scripts that import one of the modules, whose command lines know no further options.
        module: the script's own full name, where it imports its package as a module does.
        late: those of the modules that are imported by a name made at run time.
        offered: modules that wrap or train, and that may be imported so.
        settings: what files of settings say.
    """
    index = Index(source, choices.provided, modules, module, choices.inlining, choices.knowledge, late, settings)
    flow = Flow(index, choices.module_functions)
    flow = _without_unused(index, flow, choices)
    trainers = Trainers(flow)
    flow, choices = _of_objects(index, flow, trainers, choices)
    early, later = list[Wrapper](), list[Wrapper]()
    if choices.model:
        flow, early, later = _without_others(index, flow, choices)
    script, groups = _find_training(index, flow, choices)
    aside: list[Framework] = []
    while left := _untaken(script, groups, flow, choices):
        aside += [one for one in find_frameworks(index, flow, left) if one.option]
        index.keep(set(index.scopes) - left)
        flow = Flow(index, choices.module_functions)
        script, groups = _find_training(index, flow, choices)
    loops, origins = script.loops, flow.closure(groups[0][0]) if groups else set()
    mine = origins if len(groups) == 1 else set()
    loops = script.loops = without_early_and_late_ones(loops, mine, flow)
    loops = script.loops = _of_named(script, mine if choices.model else set(), flow)
    script.loops = without_other_runs(script, mine, flow, partial(decides, index, flow))
    note_trained_aside(script.wrappers, script.loops, flow)
    script.trained_before, script.trained_after = early, later
    script.offered = [*offered]
    script.holding = _holding(script.loops, index)
    script.parsers = find_parsers(index, flow)
    reading = first_reading(index, flow)
    script.anchors |= {"reading": reading.node} if reading is not None else {}
    namespaces = Namespaces(index, flow, script.parser.reading if script.parser else [])
    script.handed_on = namespaces.handed_on()
    script.local_ranks = find_local_ranks(index)
    script.rank_flags = find_rank_flags(index)
    numbers = Numbers(flow)
    found = numbers.found(script.wrappers)
    script.numbers = sorted(found, key=lambda one: one.source in ("job", "shared"))  # told, where others ask
    script.other_gpu = numbers.other_gpu()
    run = reachable(index, flow)
    reached: Collection[Scope] = run if _train(run, flow) else index.scopes
    wrapping, training = [one.node for one in script.wrappers], [one.node for one in script.loops]
    libraries = find_frameworks(index, flow, reached, wrapping, training)
    used = [one for one in libraries if one.option or not one.beside]  # not only imported
    script.frameworks = list({one.name: one for one in (*libraries, *aside, *used)}.values())
    for library in script.frameworks:
        if library.uses:
            _is_detour(library.uses, f"{library.name} is used, which the recipe does not cover", script, flow)
    script.spawns = [site for site in find_spawns(script.loops, script.wrappers, flow) if site.scope in reached]
    script.goes_on = script.kind == "dp" and goes_on(index, flow, choices.signs)
    restarts = bool(script.kind) and not script.in_process and not script.goes_on
    script.blocks = find_own_blocks(index, flow, choices.signs, script.loops, script.wrappers, restarts)
    script.spawned_numbers = spawned_numbers(script.spawns, flow)
    _leave_out_backwards(script, groups, flow)
    script.instead = script.instead or [loop for loop in loops if loop not in script.loops]
    script.elsewhere = trained_elsewhere(index, flow, script.loops)
    script.pooled = sent_to_workers(index, flow, script.loops)
    unknown = script.pooled or script.elsewhere or script.late_imports or script.unsettled
    function = None if unknown else never_started(index, flow, script.loops, run)
    script.unstarted = Site(node=function.node, index=index) if function is not None else None
    if not script.loops:
        _tell_what_is_there(script, flow)
    if script.loops or not script.wrappers:  # an engine that a file only helps itself from
        script.frameworks = [f for f in script.frameworks if not f.beside or f.option or f.file is index.entry]
    script.schedulers, script.steps = find_schedulers(index, flow, script.loops)
    script.scores = find_scores(index, flow, script.loops, script.schedulers, choices.metric, choices.mode)
    for score in script.scores:
        score.by_clock = waits_for_clock(flow, score)
    _relate_wrappers(script)
    if groups:
        _find_model(script, *groups[0], trainers, flow)
    for loop in script.loops:
        loop.repeated = _repeated(loop, script.models, flow)
        loop.anew = next((index.place(one.node, loop.file) for one in script.models if _is_anew(one, loop, flow)), "")
        loop.goes_on = find_further(loop, script.models, origins, flow)
        script.trials, loop.tried = find_trials(index, flow, loop)
        loop.clocks = find_clocks(index, flow, loop)
        loop.absentees = find_absentees(index, flow, loop) if script.kind == "ddp" else []
        loop.partings = find_partings(index, flow, loop) if script.kind == "ddp" else []
        loop.shares = find_shares(index, flow, loop, script.backwards) if script.kind == "ddp" else []
        loop.joins = find_joins(index, flow, loop) if script.kind == "ddp" else []
        loop.stops = find_interruptions(flow, loop)
        loop.stops += find_stops(index, flow, loop, script.scores) if script.kind == "ddp" else []
        loop.stops += find_early_ends(index, loop, script.scores)
    script.bypass = find_bypass(script.wrappers, script.backwards, origins, flow) if groups else None
    script.neighbours = _calling(neighbours or {}, script.backwards, flow)
    shared = script.neighbours.keys() - {""}
    script.optimizers = _optimizers(script, choices, origins, shared, flow)
    script.within = [one for one in script.within if _learns_alone(one, script.wrappers[0], flow)]
    if script.models and not any(one.scope.enclosing_class for one in script.optimizers):
        for wrapper in script.wrappers:
            wrapper.brought = ""  # the process builds the optimizer of the copy that it gets
    _take_where_measured(script, flow)
    script.nameless = [] if script.optimizers else nameless_optimizers(index)
    script.new_folders = find_new_folders(index, flow, script.loops)
    script.resumptions = find_resumptions(index, flow, script.loops, script.schedulers)
    script.assertions = find_assertions(index, flow, origins, script.models)
    script.minimums = find_minimums(index, flow, script.loops, origins, script.wrappers)
    script.planned_counts = find_planned_counts(index, flow, script.loops)
    note_planned_files(index, flow, script.loops)
    again = repeated(script.models, script.loops, flow)
    again = again or built_again(script.models, script.optimizers, origins, script.loops, flow)
    beside = groups[0][1][0].file if groups else None
    again = [] if again and _built_by_option(script, flow) else again
    script.repeated = [index.place(call.node, beside) for call in again]
    _tell_disorder(script, groups, origins, flow)
    _tell_builders(script)
    script.either_loop = exclude_one_another(script.loops, flow)
    _tell_choice(script.loops, flow)
    _tell_measures(script, index, flow)
    _name_models([*script.backwards, *script.scores, *script.optimizers, *script.loops], script, flow, origins)
    wrapped = flow.closure({one for built, _ in groups for one in built})
    script.besides = find_besides(origins, wrapped, script.loops, flow)
    script.chosen = chosen_by(index, flow, script.besides, script.wrappers)
    if script.own_options:
        script.namespace = partial(_known_as, script, namespaces, flow)
    for _, site in script.sites():
        if site is not script:
            site.arguments = script.namespace(site)
    return script


def _calling(
    neighbours: Mapping[str, Sequence[Neighbour]], backwards: Sequence[Site], flow: Flow
) -> dict[str, list[Neighbour]]:
    """Return the other scripts, of those that the script imports the ones that train by the same code.

    Others of these look at what they define when they are started, as at the shapes that a model gives.
    """
    training = {name for one in backwards for name in _leading(one, flow)}
    found = {
        module: [one for one in scripts if not one.reached or one.may_call(training)]
        for module, scripts in neighbours.items()
    }
    return {module: scripts for module, scripts in found.items() if scripts}


def _leading(site: Site, flow: Flow) -> set[str]:
    """Return the names of the functions, and of the classes that hold them, whose calls lead to a site."""
    scopes = {statement.scope for statement in flow.leading(site.statement)}
    while more := {scope.parent for scope in scopes if scope.parent is not None} - scopes:
        scopes |= more
    return {scope.name for scope in scopes if scope.parent is not None}


def _known_as(script: Script, namespaces: Namespaces, flow: Flow, site: Site) -> str | None:
    """Return the namespace's name at a site; None where another script may come there, with options of its own.

    One that imports the entry script takes its command line from it too, unless it gives a function others.
    """
    if site.file.name in script.neighbours.keys() - {""}:
        return None
    name = namespaces.name(site.scope)
    if name is None or not namespaces.is_given(name, site.scope):
        return name
    leading = _leading(site, flow)
    return None if any(one.may_call(leading) for one in script.neighbours.get("", ())) else name


def _find_model(script: Script, origins: set[Origin], wrappers: list[Wrapper], trainers: Trainers, flow: Flow) -> None:
    """Note where the model is built and how it is told from others, and leave out wrappers apart from its training."""
    script.plural, builders = plural(origins, wrappers, script.loops, flow)
    named = [trainers.answers(one, script.wrappers[0].target or script.wrappers[0].module) for one in builders]
    script.builders = [answer for answer in unlike(named, named) if answer]
    script.models = find_models(origins, wrappers, flow, script.loops)
    if not script.models or wrapped_where_built(script.models, wrappers, origins, flow):
        script.unnamed_models = unnamed_models(script.index, origins)
    apart = [one for one in wrappers if is_apart(one, script.models, script.loops, flow)]
    apart = apart if len(apart) < len(wrappers) else []  # what none of them leads to is not their training
    wrappers[:] = [one for one in wrappers if one not in apart]
    script.apart = [one.place(*wrappers[:1]) for one in apart if is_built_anew(one, script.loops, flow)]
    script.wrappers = [one for one in script.wrappers if one not in apart]
    mark_members(wrappers, flow, _before_leaving(script, flow))
    for wrapper in wrappers if not script.models or script.models[0].unseen else ():
        function = flow.uncalled(wrapper.statement)
        if function is not None and function.kind == "function":
            wrapper.uncalled = f"`{function.name}` ({wrapper.index.place(function.node, wrapper.file)})"
            script.failing = script.failing or _failing(script.index, flow, function)
        given = wrapper.operand.partition(".")[0] in wrapper.scope.parameters
        starts = [call for call in flow.callers(wrapper.scope) if flow.spawns(call) or flow.starts_process(call)]
        wrapper.brought = wrapper.index.place(starts[0], wrapper.file) if given and starts else ""


def _holding(loops: Sequence[EpochLoop], index: Index) -> list[str]:
    """Return the modules, imported by a name made at run time, that hold the epoch loops, each its own.

    Nothing is returned where one module holds them all, or what they share does.
    """
    names = (loop.file.name for loop in loops)
    found = [[late for late in index.late if name == late or name.startswith(f"{late}.")] for name in names]
    told = dict.fromkeys(max(modules, key=len) for modules in found if modules)
    return sorted(told) if all(found) and len(told) > 1 else []


def _tell_measures(script: Script, index: Index, flow: Flow) -> None:
    """Say of a script without a sure score what can be named as one."""
    loops, only = script.loops, script.scores[0] if len(script.scores) == 1 else None
    sure = only is not None and only.known and not only.unfit[0] and only.made != TRAINED
    told = only is not None and bool(only.direction or only.against or only.named)

    def fits(metric: str) -> bool:
        return metric.endswith("[...]") or can_be_named(index, flow, loops, script.schedulers, metric)

    if not (sure and told):
        script.measures = [one for one in find_measures(index, flow, loops) if fits(one[0])]
        script.validation = next(filter(None, (validation_at(index, flow, loop) for loop in loops)), "")
    if any(not one.unfit[0] for one in script.scores):
        return
    hints, script.silent = find_hints(index, loops), find_silent(index, flow, loops)
    tracked = [one for one in hints if any(can_be_brought(index, flow, loop, *one) for loop in loops)]
    shown = [(name, index.place(node, loops[0].file if loops else None)) for name, node in tracked or hints]
    if tracked:
        script.measures = list(dict([*shown, *script.measures]).items())
    else:
        script.hints = shown
        returned = [(hint, *one) for hint, node in hints for one in find_taken(index, flow, loops, hint, node)]
        script.taken = [(hint, answer_for(name, ""), place) for hint, name, place in returned if fits(name)]
    if not script.measures:
        aside = {use.statement for library in script.frameworks if library.option for use in library.used}
        found = [one for one in find_trained(index, flow, loops, aside) if fits(one[0])]
        script.trained = [(answer_for(name, direction), name, place) for name, direction, place in found]


def _take_where_measured(script: Script, flow: Flow) -> None:
    """Let a score be taken from within the expression that validates for it, where that stays."""
    index, going = script.index, {script.index.statement(step.node) for step in script.steps if step.removed}
    for score in script.scores:
        node = score.node
        if score.kept is not None or not isinstance(node, cst.BaseExpression) or index.statement(node) in going:
            continue
        if validates_there(index, flow, node) and runs_with_its_statement(index, node):
            score.anchors["taken"] = node


def _optimizers(
    script: Script, choices: Choices, origins: set[Origin], shared: Collection[str], flow: Flow
) -> list[Optimizer]:
    """Return the optimizers of the model that the library is to be told of: of several the one that the user names."""
    index = script.index
    found = find_optimizers(
        index,
        flow,
        origins,
        script.models,
        script.schedulers,
        script.loops,
        script.scores,
        choices.handover,
        script.in_process,
        shared,
        script.other_ways,
    )
    apart = baselines(index, flow, choices.signs)
    found = [one for one in found if one.scope not in apart and not after_completion(index, choices.signs, one.node)]
    used = [one for one in found if flow.uncalled(one.statement) is None]
    unnamed = [] if used else unnamed_optimizers(index, flow, origins, script.models, script.loops, choices.handover)
    found = used or unnamed or found  # what nothing is seen to call may be of another training
    named = [one for one in found if one.target == choices.optimizer]
    named = named or [one for one in found if choices.optimizer and one.target.endswith(f".{choices.optimizer}")]
    told = bool(choices.optimizer and index.calls_to(*choices.handover))  # of the one that is not among them
    return named if (len(named) == 1 or told) and not script.in_process else found


def _learns_alone(part: Wrapper, whole: Wrapper, flow: Flow) -> bool:
    """Whether a wrapped model is a part of another one, of which another optimizer trains another part."""
    inner, outer = (flow.closure(wrapped_origins(one, flow)) for one in (part, whole))

    def trained_by(made: set[Origin]) -> set[cst.BaseExpression]:
        built = [origin.node for origin in find_constructions(flow.index, flow, made, frozenset())]
        return {node for node in built if is_of(flow.index, flow, node, made)}

    mine = trained_by(inner)
    return bool(mine and trained_by(outer) - mine) and is_made_of(whole, inner, flow)


def _find_training(index: Index, flow: Flow, choices: Choices) -> tuple[Script, Groups]:
    """Return a script with what is wrapped and trained in it, and the models with their wrappers."""
    script = Script(node=index.entry.source.module, index=index, flow=flow, launcher=choices.launcher)
    script.wrappers = find_wrappers(index, flow)
    script.in_process = choices.in_process and script.kind == "dp"
    script.backwards = handing_over(index, flow, choices.signs, find_backwards(index, flow))
    deciding = partial(decides, index, flow, metric=choices.metric)
    loops = find_loops(index, flow, script.backwards, deciding, staged=True)
    kept = without_those_within(script.backwards, loops, script.wrappers, flow)
    if len(kept) < len(script.backwards):
        script.backwards, loops = kept, find_loops(index, flow, kept, deciding, staged=True)
    loops = without_warm_ups(loops, flow, deciding)
    loops += measured_beside(script.backwards, loops, flow, deciding)
    loops = of_optimizer(loops, choices.optimizer, flow)
    script.loops = loops_handing_over(index, flow, choices.signs, loops)
    whole = [wrapper for wrapper in script.wrappers if not wrapper.part]
    whole = [wrapper for wrapper in whole if not for_itself(wrapper, script.loops, flow)] or whole
    every = group_by_model(whole, flow, choices.signs.flag)
    fed, eligible = (groups_fed(every, script.backwards, flow, parts=parts) for parts in (False, True))
    script.within = [] if choices.model else [group[1][0] for group in eligible if group not in fed]
    groups = [one for one in eligible if one in fed or any(names_wrapper(choices.model, w) for w in one[1])]
    for loop in script.loops:
        loop.thaws = find_thaws(flow, loop)
    if choices.model:
        named = [group for group in groups if any(names_wrapper(choices.model, w) for w in group[1])]
        if len(groups) == 1:
            _name_models(script.loops, script, flow, groups[0][0])
            named = groups if any(choices.model in answers(loop, loop.model) for loop in script.loops) else named
        script.other_models = [] if named else told_apart([wrappers for _, wrappers in eligible])
        others = [w for group in groups if group not in named for w in group[1]]
        groups = named
        mine = [w for _, wrappers in groups for w in wrappers]
        script.other_ways = in_place_of(others, mine, script.loops, flow)
        script.trained_beside = trained_beside(others, mine, script.loops, flow)
        chosen = {origin for origins, _ in groups for origin in origins}
        script.part_of_other = any(is_made_of(one, chosen, flow) for one in script.other_ways[:1])
    groups = groups_trained(groups, script, flow)
    script.groups = [wrappers for _, wrappers in groups]
    script.answers = [answer for answer in told_apart(script.groups) if answer]
    trained = [wrapper for group in script.groups for wrapper in group]
    nodes = [wrapper.node for wrapper in script.wrappers]
    parts = [wrapper for wrapper in script.wrappers if wrapper.part]
    script.wrappers = sorted([*parts, *trained], key=lambda wrapper: nodes.index(wrapper.node))
    return script, groups


def _untaken(script: Script, groups: Groups, flow: Flow, choices: Choices) -> set[Scope]:
    """Return what only other trainings use than that of the wrapped model, or than the chosen one of several."""
    if len(script.loops) < 2 or len(groups) != 1:
        return set()
    origins = flow.closure(groups[0][0])
    others = of_other_models(script.loops, origins, flow)
    kept = [loop for loop in script.loops if loop not in others]
    if exclude_one_another(kept, flow):
        _name_models(kept, script, flow, origins)
        named = [answers(loop, loop.model) if loop.model else [] for loop in kept]
        offered = unlike(named, named)
        given = [replace(choices, model=answer) for answer in offered]
        tells = len(kept) > 1 and all(_goes_without(one, kept, flow, its) for one, its in zip(kept, given, strict=True))
        script.trainers = [answer for answer in offered if answer and tells]
        chosen = [loop for loop, names in zip(kept, named, strict=True) if choices.model in names]
        kept = chosen if len(chosen) == 1 else kept
    others = [loop for loop in script.loops if loop not in kept]
    return left_out(script.index, flow, others, kept) if others else set()


def _goes_without(loop: EpochLoop, loops: list[EpochLoop], flow: Flow, choices: Choices) -> bool:
    """Whether a choice leaves out the functions of all epoch loops but one: as none leads to it, or by its wrapper."""
    others = [one for one in loops if one is not loop]
    gone = left_out(flow.index, flow, others, [loop]) | ({*flow.index.scopes} - _used(flow, choices)[0])
    return {one.scope for one in others} <= gone


def _tell_disorder(script: Script, groups: Groups, origins: set[Origin], flow: Flow) -> None:
    """Note what stands in the way of a perforated model, or goes beside it."""
    script.disorder = disorder(script.models, groups[0][1] if groups else [], origins, flow)
    script.module_counts = find_module_counts(origins, script.models, flow)
    uncounted = {site.statement for site in script.module_counts}  # where dendrites are left out of the count
    script.assertions = [site for site in script.assertions if site.statement not in uncounted]
    if groups:
        script.averages = find_averages(origins, script.loops, flow)
        script.starting_points = find_starting_points(origins, script.models, script.optimizers, script.loops, flow)
        script.reloads = find_reloads(origins, script.loops, script.spawns, flow)
        script.other_loads = find_other_loads(origins, flow)
        script.rebuilt = find_rebuilt(origins, script.loops, script.spawns, flow)
        script.followers = find_followers(origins, script.models, flow)
        script.disorder = script.disorder or made_of_it(*groups[0], script.models, script.loops, flow)
        script.disorder = script.disorder or late_layers(origins, script.models, script.loops, flow)
        unmatched = chain(
            beside_another(origins, script.models, flow),
            sent_away(origins, script.models, script.loops, flow),
            copied_before(origins, script.models, script.loops, flow),
            paired_parts(origins, flow),
            following_by_name(origins, script.models, script.loops, flow),
        )
        paired = "the model's layers are paired with others, which get no dendrites"
        kept = (why for at, why in unmatched if script.followers or not _is_detour([at], paired, script, flow))
        script.unmatched = next(kept, "")


def _tell_builders(script: Script) -> None:
    """Note the functions that build the model, and where what is passed over runs one of them."""
    building = dict.fromkeys(model.scope for model in script.models if model.scope.kind == "function")
    script.built_in = [Site(node=one.node, index=script.index) for one in building]
    names = {one.holder.name if one.holder and one.name == "__init__" else one.name for one in building}
    passed_over = (one for node in script.index.skipped for one in nodes_in(node))
    calls = [one for one in passed_over if isinstance(one, cst.Call) and last_name(one.func) in names]
    script.built_aside = [CallSite(node=call, index=script.index) for call in calls]


def _built_by_option(script: Script, flow: Flow) -> bool:
    """Whether some of the calls by which the model is built run only by options that are off; note those."""
    defaults = Defaults(script.index, flow)
    if any(defaults.leave_out(loop.node) for loop in script.loops):
        return False  # it trains by such an option
    every = [flow.callers(model.scope) for model in script.models]
    off = [call for calls in every for call in calls if defaults.leave_out(call)]
    return 0 < len(off) < sum(map(len, every)) and _is_detour(off, "the model is built once more", script, flow)


def _is_detour(nodes: Sequence[cst.CSTNode], why: str, script: Script, flow: Flow) -> bool:
    """Whether some code runs only by options that are off by default; note where those lead to it."""
    training = holding(flow, [one.node for one in script.loops or script.wrappers])  # which no run leaves for
    defaults = Defaults(script.index, flow, given=training)
    branches = [defaults.branches(node) for node in nodes]
    firsts = {first: test for known in branches for test, first in known} if all(branches) else {}
    left = [first.siblings for first in firsts]
    found = {
        first.node: test
        for first, test in firsts.items()
        if not any(part.siblings is block for part in first.path[:-1] for block in left)  # it has left before
    }
    script.detours += [
        Detour(node=node, index=script.index, option=_way_to(node, test, script.index), why=why)
        for node, test in found.items()
        if node not in [site.node for site in script.detours]
    ]
    return bool(found)


def _tell_choice(loops: Sequence[EpochLoop], flow: Flow) -> None:
    """Note of epoch loops the condition by which a run comes to each and to no other."""
    told = {
        loop: [
            _condition(test.node, test.holds, flow.index)
            for ways in ways_to(loop.statement, flow).values()
            for way in ways
            for test in tests_around(flow.index, way, (), frozenset())
        ]
        for loop in loops
    }
    for loop in loops if len(loops) > 1 else ():
        others = {one for other in loops if other is not loop for one in told[other]}
        loop.taken = next((one for one in told[loop] if one not in others), "")


def _way_to(node: cst.CSTNode, test: cst.BaseExpression, index: Index) -> str:
    """Return the condition by which a branch of an `if` is taken in which some code stands."""
    choice = index.parents[test]
    return _condition(test, not isinstance(choice, cst.If) or choice.body in index.ancestors(node), index)


def _condition(test: cst.BaseExpression, holds: bool, index: Index) -> str:
    """Return the code of a condition that holds, or of its denial."""
    code = index.source.read(test)
    if holds:
        return code
    return f"not {code}" if isinstance(test, (cst.Name, cst.Attribute, cst.Call)) else f"not ({code})"


def _without_unused(index: Index, flow: Flow, choices: Choices) -> Flow:
    """Leave out code that the entry script does not run, as far as there is still a training without it."""
    used = reachable(index, flow)
    if used.issuperset(index.scopes):
        return flow
    if not _train(used, flow) and (len(index.files) == 1 or _train(index.scopes, flow)):
        return flow
    index.keep(used)
    return Flow(index, choices.module_functions)


def _train(scopes: Collection[Scope], flow: Flow) -> bool:
    """Whether some code wraps a model and holds a backward pass."""
    wrapped = any(wrapper_kind(flow, call) and flow.index.scope_of(call) in scopes for call in flow.index.calls)
    return wrapped and any(backward.scope in scopes for backward in find_backwards(flow.index, flow))


def _of_objects(index: Index, flow: Flow, trainers: Trainers, choices: Choices) -> tuple[Flow, Choices]:
    """Leave out classes that train and of which no object is made, or another is chosen, and overridden methods.

    The choice of a model by a class that inherits the wrapping means it by the class that has it.
    """
    wrappers = find_wrappers(index, flow) if choices.model else []
    meant = [one for one in wrappers if names_wrapper(choices.model, one)]
    left = trainers.left_out(trainers.coming_to(meant) or trainers.named(choices.model))
    kept = set(index.scopes) - left
    if not left or not _train(kept, flow):
        return flow, choices
    index.keep(kept)
    holders = {w.scope.enclosing_class: w.target or w.module for w in find_wrappers(index, flow)}
    wrapping = {holder: name for holder, name in holders.items() if holder is not None}
    chosen = replace(choices, model=trainers.inherited(choices.model, wrapping))
    return Flow(index, choices.module_functions), chosen


def _repeated(loop: EpochLoop, models: list[Model], flow: Flow) -> str:
    """Return the place of a loop around the epoch loop that also builds the model: one of folds or settings.

    One of seeds or runs trains the same model again, for which one turn will do.
    """
    ways = list(flow.enclosing_loops(loop.statement))
    built = [part for model in models for way in flow.enclosing_loops(model.statement) for part in way]
    around = [part for part in ways[0][1:] if isinstance(part.node, cst.For) and part in built]
    found: list[cst.CSTNode] = [p.node for p in around if not trains_once(flow, p, loop) and all(p in w for w in ways)]
    built_so = {one for model in models for one in comprehended(flow, model.statement)}
    found += [one for one in comprehended(flow, loop.statement) if one in built_so]
    return next((loop.index.place(node, loop.file) for node in found if not repeats_itself(node)), "")


def _is_anew(model: Model, loop: EpochLoop, flow: Flow) -> bool:
    """Whether each turn of the epoch loop builds the model: on every way there, and under no condition of a turn."""
    index, turn = flow.index, loop.statement
    if model.unseen or not flow.on_every_way(model.node, lambda node: turn in index.statement(node).path[:-1]):
        return False
    running = called_in(index, flow, turn)
    ways = [one for one in flow.leading(model.statement) if turn in one.path[:-1] or one.scope in running]
    parts = [part for one in ways for part in one.path if part.scope is one.scope and part not in turn.path]
    chosen = any(isinstance(part.node, (cst.If, cst.Match)) for part in parts if part is not model.statement)
    return not chosen and not any(_may_leave(index, early) for part in parts for early in part.preceding)


def _may_leave(index: Index, statement: Statement) -> bool:
    """Whether the rest of a block may be passed over by an `if` before it: `if kept is not None: return kept`."""
    within = (last_of(part.node) for part in index.statements if statement in part.path)
    return isinstance(statement.node, cst.If) and any(isinstance(one, (cst.Return, cst.Continue)) for one in within)


def _without_others(index: Index, flow: Flow, choices: Choices) -> tuple[Flow, list[Wrapper], list[Wrapper]]:
    """Leave out the functions and classes that train other models than the named one, and what only they use.

    Returns:
        What is left, and the wrappers of those that the same run trains before the named one, and after it.
    """
    used, named, others = _used(flow, choices)
    if used == {*index.scopes}:
        return flow, [], []
    early, late = trained_too(named, others, flow)
    index.keep(used)
    return Flow(index, choices.module_functions), early, late


def _used(flow: Flow, choices: Choices) -> tuple[set[Scope], list[Wrapper], list[Wrapper]]:
    """Return what a run uses that trains the named model alone, its wrappers, and those of the models left out."""
    index = flow.index
    groups = group_by_model([w for w in find_wrappers(index, flow) if not w.part], flow, choices.signs.flag)
    named = [w for _, wrappers in groups for w in wrappers if names_wrapper(choices.model, w)]
    needed = {scope for wrapper in named for scope in (wrapper.scope, *wrapper.scope.around)}
    training = {backward.scope for backward in find_backwards(index, flow)}
    others: dict[Scope, Wrapper] = {}
    for wrapper in (w for _, wrappers in groups for w in wrappers if named and w not in named):
        around = [scope for scope in (wrapper.scope, *wrapper.scope.around) if scope.parent and scope not in needed]
        for one in around[-1:]:
            if not training.isdisjoint(reachable(index, flow, [one])):
                others.setdefault(one, wrapper)
    begin = [*needed, *(file.scope for file in index.files)]
    used = reachable(index, flow, begin, {s for s in index.scopes if not others.keys().isdisjoint((s, *s.around))})
    if not others or used.isdisjoint(training):
        return {*index.scopes}, named, []
    return used, named, [*others.values()]


def _of_named(script: Script, origins: set[Origin], flow: Flow) -> list[EpochLoop]:
    """Return the epoch loops that may train the model that the user names.

    Where all train others, and something outside of them trains, they are those of that, as far as it has any.

    Args:
        origins: where the model is built, and what it is made of; nothing where the user names none.
    """
    index, training = script.index, {loop.statement for loop in script.loops}
    called = [b for b in script.backwards if flow.uncalled(b.statement) is None]
    beyond = [b for b in called if all(training.isdisjoint(way) for way in flow.enclosing_loops(b.statement))]
    apart = script.loops and all(trains_others(loop, origins, flow) for loop in script.loops)
    if not (origins and apart) or not (beyond or find_backwards(index, flow, adrift=True)):
        return script.loops
    script.backwards = beyond
    return find_loops(index, flow, beyond, partial(decides, index, flow), staged=True)


def _leave_out_backwards(script: Script, groups: Groups, flow: Flow) -> None:
    """Leave out backward passes elsewhere than in an epoch loop, such as those that measure the model's speed.

    Not those that train the wrapped model in a run that comes to no epoch loop.
    """
    training = {loop.statement for loop in script.loops}
    ways = {id(b): {s for way in flow.enclosing_loops(b.statement) for s in way} for b in script.backwards}
    inside = [b for b in script.backwards if not training.isdisjoint(ways[id(b)])]
    if inside:
        rest = [b for b in script.backwards if b not in inside]
        origins = flow.closure(groups[0][0]) if len(groups) == 1 else set()
        instead = trained_instead(rest, script.loops, origins, flow) if origins else []
        script.backwards, script.instead = inside + instead, [*instead]


def _tell_what_is_there(script: Script, flow: Flow) -> None:
    """Note what there is in place of a loop over epochs with a backward pass in it."""
    script.adrift = [] if script.backwards else find_backwards(script.index, flow, adrift=True)
    script.cut_off = [] if script.backwards or script.adrift else find_cut_off(script.index)
    for backward in [*script.backwards, *script.adrift][:1]:
        way = max(flow.enclosing_loops(backward.statement), key=len)
        heads = [head(script.index, s) for s in way]
        places = [script.index.place(s.node, backward.file) for s in way]
        script.passed_over = list(zip(heads, places, strict=True))[::-1]
        function = flow.uncalled(way[-1] if way else backward.statement)
        if function is not None:
            given = [
                call
                for call in script.index.calls
                if any(flow.defined(arg.value, script.index.scope_of(call)) is function for arg in call.args)
            ]
            script.uncalled = f"`{function.name}` ({script.index.place(function.node, backward.file)})"
            script.failing = script.failing or _failing(script.index, flow, function)
            named = script.index.method_calls(function.name) if function.holder is not None else []
            unknown = [call for call, _ in named if flow.called(call) is None]
            script.given_to, script.perhaps = (
                "".join(
                    f"`{script.index.source.code(call.func)}` ({script.index.place(call, backward.file)})"
                    for call in calls[:1]
                )
                for calls in (given, unknown)
            )


def _failing(index: Index, flow: Flow, function: Scope) -> FailingCall | None:
    """Return a call of a function that nothing else calls, where it fails before any of that runs."""
    call, why = flow.failing.get(function, (None, ""))
    return FailingCall(node=call, index=index, function=function.name, why=why) if call is not None else None


def _relate_wrappers(script: Script) -> None:
    """Note which wrappers share a statement."""
    seen = set()
    for wrapper in script.wrappers:
        wrapper.first = wrapper.statement not in seen
        seen.add(wrapper.statement)


def _before_leaving(script: Script, flow: Flow) -> set[Statement]:
    """Statements that run before the first backward pass is over: before the epoch loop, in it and in training.

    Of those that lead to it, as of the loops around it, that is so of their heads, and of what they call it with.
    """
    loops = {loop.statement for loop in script.loops}
    ways = [way for one in script.backwards for way in flow.leading(one.statement)]
    around = [part for way in ways for part in (way, *way.around)]
    found = [early for part in around for early in part.preceding if not defines(early)]
    found += [early for loop in loops for part in loop.path for early in part.preceding]
    early = [statement for statement in found if not defines(statement)]
    for backward in script.backwards:
        inside = [part for part in backward.statement.path if isinstance(part.node, cst.FunctionDef) or part in loops]
        here = inside[-1] if inside else backward.statement
        found.append(backward.loop if here in loops and backward.loop is not None else here)
    leading = {way.scope for way in ways}
    calls = {call for way in ways for call in flow.index.calls_in(way)}
    called = [one for one in flow.index.scopes if not calls.isdisjoint(flow.callers(one))]
    beside = [flow.index.statement(one.node) for one in called if one not in leading]  # of `Trainer(...).fit()`
    found += beside + [
        flow.index.statement(one.node) for one in called_in(flow.index, flow, *early, *beside, perhaps=True)
    ]
    whole = {statement for statement in found if not isinstance(statement.node, cst.ClassDef)}
    return {*around, *(one for one in flow.index.statements if not whole.isdisjoint(one.path))}


def _name_models(sites: Iterable[Site], script: Script, flow: Flow, origins: set[Origin]) -> None:
    """Note the model's name at some sites: the wrapped one's, as far as it has a value on every way there."""
    targets = [wrapper.target for wrapper in script.wrappers if wrapper.target]
    helpers = {wrapper.scope for wrapper in script.wrappers if wrapper.returned}
    calls = {call for helper in helpers for call in flow.callers(helper)}
    targets += [binding.target for binding in flow.index.bindings if binding.value in calls]
    for site in sites:
        names = flow.names_of(origins, site.scope)
        names = [name for name in names if not is_another(name, site.scope, origins, flow)] or names
        names = [name for name in names if mentions(site.scope.node, [name])] or names
        # A factory of many objects makes others as well: the model itself comes before what may be made as it is.
        made = {name: set(flow.origins(cst.parse_expression(name), site.scope)) for name in names}
        names.sort(key=lambda name: (name not in targets, origins.isdisjoint(made[name])))
        # An attribute that another function gives the wrapped model has it, though this one may replace it later.
        elsewhere = [one for one in script.wrappers if "." in one.target and one.scope is not site.scope]
        given = {one.target: _always_gives(one, flow) for one in elsewhere}
        sure = [name for name in names if given.get(name, not may_lack_value(name, site.statement, flow.index))]
        if isinstance(site, (Backward, Score)) and not script.in_process:  # the helper knows the model without it
            names = [name for name in names if name in targets]
        site.model = ((not script.in_process and sure) or names or [""])[0]


def _always_gives(wrapper: Wrapper, flow: Flow) -> bool:
    """Whether the attribute that a wrapped model is given to has a value also where its function does not wrap it."""
    variable, scope = flow.member(wrapper.target, wrapper.scope), wrapper.scope
    named = [b for b in flow.index.bindings if b.target.endswith(f".{wrapper.target.rpartition('.')[2]}")]
    bound = [b for b in named if flow.member(b.target, b.statement.scope) == variable]
    here = {b.statement.node for b in bound if b.statement.scope is scope}
    body = scope.node.body if isinstance(scope.node, cst.FunctionDef) else None
    return body is None or any(b.statement.scope is not scope for b in bound) or runs_always(body, here)
