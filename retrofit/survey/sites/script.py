"""A whole script, with all of its sites."""

from __future__ import annotations

import os
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import libcst as cst

from retrofit.neighbours import Neighbour
from retrofit.survey.configured import configured_calls
from retrofit.survey.flow import Flow
from retrofit.survey.nodes import dotted, is_choice, method_name, nodes_in, receiver
from retrofit.survey.scopes import Statement
from retrofit.survey.sites.argument import LocalRank, Parser, ProcessNumber
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.block import Block
from retrofit.survey.sites.call import CallSite, FailingCall, Spawn
from retrofit.survey.sites.folder import NewFolder, Resumption
from retrofit.survey.sites.framework import Detour, Framework
from retrofit.survey.sites.loop import Backward, EpochLoop, PlannedCount, Stop
from retrofit.survey.sites.model import Assertion, Follower, Minimum, Model, ModuleCount, UnnamedModel
from retrofit.survey.sites.optimizer import Optimizer, Rebuilding, Scheduler, Step
from retrofit.survey.sites.score import EarlyEnd, KeptScore, Score
from retrofit.survey.sites.wrapper import Wrapper

#: Python's own functions that import a module by its name.
_IMPORTING = ("importlib.import_module", "importlib.__import__", "__import__")
#: The words by which rules name the kinds of sites, besides "script" and "epoch-loop".
SITE_KINDS = (
    "wrapper",
    "model",
    "unnamed-model",
    "follower",
    "optimizer",
    "rebuilding",
    "scheduler",
    "step",
    "backward",
    "score",
    "kept-score",
    "earlier-score",
    "early-end",
    "assertion",
    "parser",
    "local-rank",
    "framework",
    "detour",
    "module-count",
    "new-folder",
    "resumption",
    "block",
    "stop",
    "trial",
    "minimum",
    "planned-count",
)


def _counted(node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return what a call asks for its length: `len(x)`, `x.__len__()`."""
    if isinstance(node, cst.Call) and dotted(node.func) == "len" and len(node.args) == 1:
        return node.args[0].value
    return receiver(node) if method_name(node) == "__len__" else None


def _is_method(node: cst.CSTNode) -> bool:
    """Whether a string has process groups begin by the environment."""
    return isinstance(node, cst.SimpleString) and node.raw_value == "env://"


@dataclass(eq=False, kw_only=True)
class Script(Site):
    """The whole entry script; `node` is its module.

    Attributes:
        flow: where the values of the project's names come from, by all that is left of it.
        wrappers: where a model is wrapped.
        models: where the model that is wrapped gets built.
        optimizers: the constructions of optimizers that train it.
        schedulers: the constructions of learning-rate schedulers.
        steps: the calls of a scheduler's `step`.
        backwards: the backward passes in loops.
        instead: what trains the model in a run that does not come to the epoch loop: backward passes, other loops.
        loops: the epoch loops.
        scores: what may be the validation score.
        parsers: the argparse parsers.
        handed_on: where the parsed command line is handed on whole, or gone through, so that it has no place for more.
        local_ranks: the spellings of the option that gives a process its number on its machine.
        rank_flags: absl's flags of that name, which no launcher gives, where nothing else tells that number.
        numbers: what alone tells a process its number, how many there are and its GPU, where torchrun does not.
        other_gpu: where its first process takes another GPU than the first, by its number; None for no such.
        frameworks: the uses of libraries that own the training loop or shard the model.
        detours: where options, off by default, lead to what no rewriting covers.
        assertions: the script's own checks of the model's parameters.
        module_counts: the walks through the perforated model that dendrites are to be left out of.
        minimums: the conditions by which it trains only on several GPUs or in several processes.
        planned_counts: the planned numbers of epochs that are taken together with what its epoch loop fills.
        new_folders: where it insists that what it writes is not there yet.
        resumptions: the statements by which its own checkpoint of an earlier round would end a later one at once.
        blocks: what people put in by hand in the place of what the recipe writes.
        trials: the calls by which a library runs the training again and again, with other settings.
        spawns: the calls that start the processes from one.
        spawned_numbers: the parameters by which the functions that they start know their process.
        groups: the whole-model wrappers, grouped by the model that they wrap.
        hints: (name, place) of values that the script compares with its best outside the epoch loop.
        taken: (name, answer, place) of the hints that their functions return, with what takes them in the epoch loop.
        silent: (function, place) of its calls in the epoch loop that validate and of which it takes nothing.
        measures: (expression, place) of what its validation knows and keeps to itself.
        validation: where the epoch loop begins to validate, "" where nothing shows that it does.
        trained: (answer, expression, place) of what its training tells of itself, the answer as a shell takes it.
        apart: the places of wrappers of a model that is built anew, for a test alone.
        disorder: why the model cannot be perforated where it is built, "" where it can.
        either_loop: whether a run takes one of the epoch loops.
        built_in: the functions that build the model.
        unmatched: what pairs its layers with those of a model that gets no dendrites, "" for nothing.
        built_aside: the calls, in what is passed over, of functions that build it.
        followers: where a model is built once more that takes the weights of the trained one before anything trains.
        averages: (place, option) of copies that follow the model's weights, and whether a condition decides on each.
        starting_points: what copies the model's weights before the training, which then goes by them.
        reloads: where weights are loaded, perhaps without a training before, into a model that is built anew.
        other_loads: where a model that is not built as the trained one loads what a walk through that one has saved.
        rebuilt: where a model is built as the trained one, apart from the training, by what leaves out its dendrites.
        besides: where a model is built as the wrapped one is, and trained in place of it.
        chosen: the condition that chooses between the first of these and the wrapped one, other than by how many GPUs a
            run sees, and its place; "" for none.
        repeated: the places of two calls, one after the other, that both build the model.
        plural: why what a wrapper wraps is more than one model, "" where it is one.
        bypass: a call of the bare model in its training, where that never calls the wrapper; None for no such.
        builders: what tells the model of each class that builds one from the others, as far as something does.
        adrift: backward passes that no loop was found around.
        cut_off: what always leaves before a backward pass, where there is no other one.
        passed_over: the heads of the loops around the backward passes, outermost first, where none is over epochs.
        uncalled: the function that holds such a loop or backward pass, and that nothing was found to call; "" for none.
        failing: the call that alone would run that function, or one that wraps a model not seen to be built, and that
            fails for its arguments; None for no such.
        given_to: what that function is given to, and so may call it, as `app.run(main)` does; "" for nothing.
        unstarted: the function that leads to the epoch loops, where no run comes to it; None where one may.
        perhaps: a call of a method of that function's name, of what is not seen to be made; "" for none.
        elsewhere: where it starts the one that has the epoch loops by a command; None where it may train itself.
        pooled: where it gives the function that has them to a pool of workers; None where it may train by itself.
        trained_before: where other models are wrapped that the same run trains before the chosen one.
        trained_after: the same of those that it trains after that, in the process that starts the training's own.
        other_ways: the same of those that a run trains instead of the chosen one, in the same epoch loop.
        trained_beside: the same of those that a run may train as well, by another call that leads to that loop.
        part_of_other: whether the chosen model is a part of the first of them.
        within: parts of the wrapped model that are wrapped by themselves, beside which another optimizer trains others.
        answers: what tells each of several wrapped models from the others, as far as something does.
        trainers: what tells each epoch loop of the one model from the others, where a run takes one of several.
        nameless: where torch's optimizers are built that no name or item of a known name holds.
        unnamed_models: where the model is built, if no name gets it there, but one could.
        offered: modules that wrap or train and that nothing is seen to import, where a name made at run time may do so.
        holding: the modules that hold the epoch loops, where a name made at run time imports one of several.
        other_models: the same for all that are wrapped, where none of them is the one that the user named.
        neighbours: the other scripts that import one of the modules, by its full name, or the entry, by "".
        namespace: tells the name of the parsed command line at a site, None where it is not in scope.
        kind: "ddp" where any wrapper is DistributedDataParallel, else "dp", and where the user has one process train by
            a script that can do either; "" without a wrapper.
        launcher: what the user has start it, "" where the script decides.
        in_process: whether the model is to be restructured while the process goes on, without a restart.
        goes_on: whether a script with DataParallel does what it must when its model was restructured.
    """

    flow: Flow
    wrappers: list[Wrapper] = field(default_factory=list)
    models: list[Model] = field(default_factory=list)
    optimizers: list[Optimizer] = field(default_factory=list)
    schedulers: list[Scheduler] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    backwards: list[Backward] = field(default_factory=list)
    instead: list[Site] = field(default_factory=list)
    loops: list[EpochLoop] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    parsers: list[Parser] = field(default_factory=list)
    handed_on: list[Site] = field(default_factory=list)
    local_ranks: list[LocalRank] = field(default_factory=list)
    rank_flags: list[CallSite] = field(default_factory=list)
    numbers: list[ProcessNumber] = field(default_factory=list)
    other_gpu: ProcessNumber | None = None
    frameworks: list[Framework] = field(default_factory=list)
    detours: list[Detour] = field(default_factory=list)
    assertions: list[Assertion] = field(default_factory=list)
    hints: list[tuple[str, str]] = field(default_factory=list)
    taken: list[tuple[str, str, str]] = field(default_factory=list)
    silent: list[tuple[str, str]] = field(default_factory=list)
    measures: list[tuple[str, str]] = field(default_factory=list)
    validation: str = ""
    trained: list[tuple[str, str, str]] = field(default_factory=list)
    apart: list[str] = field(default_factory=list)
    disorder: str = ""
    either_loop: bool = False
    built_in: list[Site] = field(default_factory=list)
    built_aside: list[CallSite] = field(default_factory=list)
    unmatched: str = ""
    followers: list[Follower] = field(default_factory=list)
    averages: list[tuple[str, bool]] = field(default_factory=list)
    starting_points: list[CallSite] = field(default_factory=list)
    reloads: list[CallSite] = field(default_factory=list)
    other_loads: list[CallSite] = field(default_factory=list)
    rebuilt: list[CallSite] = field(default_factory=list)
    besides: list[CallSite] = field(default_factory=list)
    chosen: tuple[str, str] = ("", "")
    repeated: list[str] = field(default_factory=list)
    module_counts: list[ModuleCount] = field(default_factory=list)
    minimums: list[Minimum] = field(default_factory=list)
    planned_counts: list[PlannedCount] = field(default_factory=list)
    new_folders: list[NewFolder] = field(default_factory=list)
    resumptions: list[Resumption] = field(default_factory=list)
    plural: str = ""
    bypass: CallSite | None = None
    builders: list[str] = field(default_factory=list)
    adrift: list[Backward] = field(default_factory=list)
    cut_off: list[Site] = field(default_factory=list)
    passed_over: list[tuple[str, str]] = field(default_factory=list)
    uncalled: str = ""
    failing: FailingCall | None = None
    given_to: str = ""
    perhaps: str = ""
    elsewhere: CallSite | None = None
    pooled: CallSite | None = None
    unstarted: Site | None = None
    trained_before: list[Wrapper] = field(default_factory=list)
    trained_after: list[Wrapper] = field(default_factory=list)
    other_ways: list[Wrapper] = field(default_factory=list)
    trained_beside: list[Wrapper] = field(default_factory=list)
    part_of_other: bool = False
    within: list[Wrapper] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    trainers: list[str] = field(default_factory=list)
    nameless: list[CallSite] = field(default_factory=list)
    unnamed_models: list[UnnamedModel] = field(default_factory=list)
    offered: list[str] = field(default_factory=list)
    holding: list[str] = field(default_factory=list)
    other_models: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    trials: list[CallSite] = field(default_factory=list)
    spawns: list[Spawn] = field(default_factory=list)
    spawned_numbers: set[str] = field(default_factory=set)
    groups: list[list[Wrapper]] = field(default_factory=list)
    neighbours: Mapping[str, Sequence[Neighbour]] = field(default_factory=dict)
    launcher: str = ""
    in_process: bool = False
    goes_on: bool = False
    namespace: Callable[[Site], str | None] = lambda site: None

    @property
    def statement(self) -> Statement:
        raise LookupError("the script as a whole is no statement")

    @property
    def position(self) -> tuple[int, int]:
        return (1, 1)

    @property
    def owned(self) -> bool:
        """Whether a library owns what the training needs."""
        return any(one.standing(self) == "owner" for one in self.frameworks)

    @property
    def relative_imports(self) -> list[Site]:
        """The entry script's imports relative to its package, by which it only runs as a module, `python -m`."""
        return [site for site in self._relative_imports if not any(is_choice(s.node) for s in site.statement.path)]

    @property
    def chosen_relative_imports(self) -> list[Site]:
        """Those of such imports that a condition leads to."""
        return [site for site in self._relative_imports if any(is_choice(s.node) for s in site.statement.path)]

    @property
    def _relative_imports(self) -> list[Site]:
        return [
            Site(node=statement.node, index=self.index)
            for statement, module in self.index.entry.imports
            if module.startswith(".") and not any(isinstance(part.node, cst.Try) for part in statement.path)
        ]

    @property
    def module(self) -> str:
        """The full name by which the script is started, `python -m`; "" for one that is started by its path."""
        relative = any(module.startswith(".") for _, module in self.index.entry.imports)
        return self.index.module if self.relative_imports or not relative else ""

    @property
    def import_folder(self) -> str:
        """The folder in which Python looks for the script's own modules, from where the user is; "" for that one."""
        folder = os.path.dirname(self.index.source.shown)
        found = os.path.normpath(os.path.join(folder, *[".."] * self.module.count(".")))
        return "" if found == "." else found

    def importable(self, name: str) -> str:
        """Return the path of a file in that folder, from where the user is, as a shell takes it."""
        return shlex.quote(os.path.join(self.import_folder, name))

    @property
    def program(self) -> str:
        """How `python` starts the script from where the user is, as a shell takes it."""
        return f"-m {self.module}" if self.module else self.beside(self.file_name)

    @property
    def spawning(self) -> Spawn | None:
        """The call that alone can start the processes.

        So does one that usually runs: each process of another launcher would start as many again, as it would where
        each that trains in parallel comes to it. Any other under a condition can where nothing reads a process's number
        from the environment, but the process group is given one. Who asks for `env://` there numbers the machines by
        it, and only the spawned function knows its GPU; but where the number given is the one that the spawned function
        gets, that alone counts.
        """
        number = self.argument("torch.distributed.init_process_group", "rank")
        asked = [node for name, node in self.index.environment if re.search(r"RANK|WORLD_SIZE", name)]
        if number not in self.spawned_numbers:
            texts = filter(_is_method, self.index.nodes_of(cst.SimpleString))
            asked += [text for text in texts if self.index.holds(self.index.scope_of(text))]
        told = any(not self._if_asked_for(node) for node in asked)
        alone = [
            site for site in self.spawns if not site.conditional or site.usual or site.needed or (number and not told)
        ]
        return alone[0] if alone else None

    def _if_asked_for(self, node: cst.CSTNode) -> bool:
        """Whether code is of `if args.dist_url == "env://" and args.rank == -1:`, as in PyTorch's ImageNet example."""
        tests = [part.test for part in self.index.ancestors(node) if isinstance(part, cst.If)]
        compared = [
            [part.comparator for part in nodes_in(test) if isinstance(part, cst.ComparisonTarget)] for test in tests
        ]
        return any(
            any(map(_is_method, some)) and any(isinstance(one, cst.UnaryOperation) for one in some) for some in compared
        )

    @property
    def argument_counts(self) -> list[Site]:
        """Where the script decides by the number of words on its command line."""
        return [
            Site(node=node, index=self.index)
            for node in self.index.comparisons
            if any(self.index.qualified(_counted(part)) == "sys.argv" for part in nodes_in(node))
        ]

    @property
    def file_name(self) -> str:
        """The entry script's file name."""
        return self.index.source.path.name

    @property
    def folder(self) -> str:
        """The folder in which Python looks for the script's own modules, as a shell takes it."""
        return shlex.quote(self.import_folder or ".")

    def beside(self, name: str) -> str:
        """Return the path of a file beside the script, from where the user is, as a shell takes it."""
        folder = self.index.source.shown.rpartition("/")[0]
        return shlex.quote(f"{folder}/{name}" if folder else name)

    @property
    def stem(self) -> str:
        """The file name without its ending, in letters, digits, `_`, `.` and `-` only."""
        return re.sub(r"[^A-Za-z0-9_.-]+", "_", self.index.source.path.stem)

    @property
    def kind(self) -> str:
        kinds = self._wrappers_by_kind.keys()
        alone = self.launcher == "python" and self.either is not None
        return "ddp" if "ddp" in kinds and not alone else "dp" if kinds else ""

    @property
    def either(self) -> Wrapper | None:
        """The wrapper by which a single process trains, in a script that is started for that or for several."""
        kinds = self._wrappers_by_kind
        return kinds["dp"] if len(kinds) > 1 and not self.spawns else None

    @property
    def lone(self) -> ProcessNumber | None:
        """What begins a process group of one process by itself, whatever starts the script."""
        fixed = [one for one in self.numbers if one.source == "fixed"]
        told = {(one.variable, one.name.strip("'\"")) for one in fixed}
        return fixed[0] if told == {("RANK", "0"), ("WORLD_SIZE", "1")} else None

    @property
    def _wrappers_by_kind(self) -> dict[str, Wrapper]:
        """A wrapper of each kind, as far as no constant rules it out; all where one rules out each."""
        running = [wrapper for wrapper in self.wrappers if not wrapper.idle]
        return {kind: wrapper for wrapper in running or self.wrappers for kind in wrapper.kinds}

    @property
    def stops(self) -> list[Stop]:
        """Where some ranks may leave the epoch loop, and others not."""
        return [stop for loop in self.loops for stop in loop.stops]

    @property
    def parser(self) -> Parser | None:
        """The main parser: of those that the entry script reads, else of all, the one with the most options."""
        return max(self.parsers, key=lambda parser: (parser.own, len(parser.options)), default=None)

    @property
    def own_options(self) -> bool:
        """Whether two more options may go to that parser: nothing takes all of them on, or ends at what it lacks."""
        return self.parser is not None and self.parser.alone and not self.handed_on

    @property
    def score(self) -> Score | None:
        """The score, where there is just one."""
        return self.scores[0] if len(self.scores) == 1 else None

    @property
    def candidates(self) -> list[Score]:
        """The scores of which the user is to choose one: those that are one number each, where there are several."""
        fit = [score for score in self.scores if not score.unfit[0]]
        return fit if len(fit) > 1 else self.scores

    @property
    def score_mode(self) -> str:
        """The score's direction, "" where there is no clear one."""
        return self.score.direction if self.score else ""

    @property
    def kept_scores(self) -> list[KeptScore]:
        """The scores that functions keep to themselves."""
        kept = [score.kept for score in self.scores if score.kept is not None]
        return [part for one in kept for part in (one, *one.further)]

    @property
    def earlier_scores(self) -> list[Score]:
        """The same scores as they are measured before a turn trains on, for turns that do not measure them again."""
        return [one for score in self.scores for one in score.earlier]

    @property
    def early_ends(self) -> list[EarlyEnd]:
        """Every `continue` by which some ranks end a turn behind a score, and hand it over there."""
        return [one for score in self.scores for one in score.early]

    @property
    def optimizer(self) -> Optimizer | None:
        """The optimizer, where there is just one."""
        return self.optimizers[0] if len(self.optimizers) == 1 else None

    @property
    def early_optimizer(self) -> bool:
        """Whether an optimizer is built by another function than that which perforates the model, and before it."""
        return any(one.early for one in self.optimizers)

    @property
    def late_optimizer(self) -> Optimizer | None:
        """An optimizer that is built, or built again, where the tracker could not know it while the model trains."""
        return next((one for one in self.optimizers if one.late), None)

    @property
    def collected_optimizer(self) -> Optimizer | None:
        """The optimizer whose variable holds several in a dict or list in some runs, None where none does."""
        return next((one for one in self.optimizers if one.collected), None)

    @property
    def rebuildings(self) -> list[Rebuilding]:
        """The further constructions of the optimizer in other functions."""
        return [one for optimizer in self.optimizers for one in optimizer.rebuilt]

    @property
    def loop(self) -> EpochLoop | None:
        """The epoch loop, where there is just one."""
        return self.loops[0] if len(self.loops) == 1 else None

    def anchor(self, name: str | None) -> cst.CSTNode:
        if name == "parser" and self.parser is not None:
            return self.parser.node
        return self.node

    def calls(self, name: str) -> list[CallSite]:
        """Return the calls of a function, whatever it is imported as.

        Args:
            name: the end of its full name, `module.function`; without a dot, a function that the recipe provides.
        """
        found = []
        for full, call in self._calls_by_last_name[name.rpartition(".")[2]]:
            if f".{full}".endswith(f".{name}") if "." in name else self.index.is_provided(call.func):
                anchors: dict[str, cst.CSTNode] = {"call": call, "function": call.func}
                found.append(CallSite(node=call, index=self.index, anchors=anchors))
        return found

    def after_training(self, site: Site) -> bool:
        """Whether a site runs once the epoch loop is over: what is built there is for a test, or to be saved."""
        return any(part in loop.leftovers for loop in self.loops for part in site.statement.path)

    def calls_in_training(self, name: str) -> list[CallSite]:
        """Return the calls of a function, those once the epoch loop is over left out."""
        return [site for site in self.calls(name) if not self.after_training(site)]

    @property
    def late_imports(self) -> str:
        """The places where a module is imported by a name that is made at run time, "" where none is unknown."""
        if self.index.late:
            return ""
        calls = [
            CallSite(node=call, index=self.index, anchors={"call": call}) for call in self.index.calls_to(*_IMPORTING)
        ]
        return ", ".join(call.place() for call in calls if not call.literal("name", 0))

    @property
    def starters(self) -> list[str]:
        """The other scripts that import what leads to the training and nothing here comes to."""
        imported = self.neighbours.get(self.unstarted.file.name, ()) if self.unstarted is not None else ()
        return [one.shown for one in imported]

    @property
    def unsettled(self) -> list[CallSite]:
        """Calls that make what a file of settings names, where nothing tells of which class that is."""
        calls = [call for call in configured_calls(self.index) if not self.flow.is_configured(call.func)]
        return [CallSite(node=call, index=self.index, anchors={"call": call}) for call in calls]

    def named(self, prefix: str) -> list[Site]:
        """Return where the project uses what has a full name that begins so, whatever it is imported as."""
        nodes = self._named_by_package[prefix.partition(".")[0]]
        return [Site(node=node, index=self.index) for node, full in nodes if full.startswith(prefix)]

    @cached_property
    def _named_by_package(self) -> defaultdict[str, list[tuple[cst.CSTNode, str]]]:
        """What is called and every attribute, with their full names, in the order of the files."""
        found: defaultdict[str, list[tuple[cst.CSTNode, str]]] = defaultdict(list)
        for node in dict.fromkeys([*(call.func for call in self.index.calls), *self.index.attributes]):
            full = self.index.qualified(node)
            found[full.partition(".")[0]].append((node, full))
        for nodes in found.values():
            nodes.sort(key=lambda named: self.index.source.span(named[0]))
        return found

    @cached_property
    def _calls_by_last_name(self) -> defaultdict[str, list[tuple[str, cst.Call]]]:
        """Every call with its full name: rules ask for a hundred names, in projects of tens of thousands of calls."""
        found: defaultdict[str, list[tuple[str, cst.Call]]] = defaultdict(list)
        for call in self.index.calls:
            full = self.index.qualified(call.func)
            found[full.rpartition(".")[2]].append((full, call))
        return found

    @property
    def inlined(self) -> bool:
        """Whether the functions that the recipe provides stand in the script itself."""
        return self.index.inlined

    def binds(self, name: str) -> bool:
        """Whether the script gives a meaning of its own to ``name`` anywhere."""
        return name in self.index.bound_names or name in self.index.scope.names

    def literal(self, function: str, name: str, position: int | None = None) -> str:
        """Return the first plain string that ``function`` is called with, "" where there is none."""
        return next((text for call in self.calls(function) if (text := call.literal(name, position))), "")

    def argument(self, function: str, name: str) -> str:
        """Return the code of an argument that ``function`` is called with, "" where there is none."""
        return next((code for call in self.calls(function) if (code := call.argument(name))), "")

    def sites(self) -> Iterator[tuple[str, Site]]:
        """Yield every site with the word by which rules name its kind."""
        yield "script", self
        for kind in SITE_KINDS:
            for site in getattr(self, kind.replace("-", "_") + "s"):
                yield kind, site
        for loop in self.loops:
            yield "epoch-loop", loop
