"""Find where a model is made to grow dendrites, and what comes before it that should come after, or the other way."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from retrofit.habits.file import TrainingFile
from retrofit.habits.library import calls_of_any, full_name, perforating, settings
from retrofit.habits.names import follows, literal, moves, text
from retrofit.habits.sites import Call
from retrofit.knowledge.kinds import AveragesModel, Compiles, Optimizer, Recomputes
from retrofit.survey.blocks import names_read
from retrofit.survey.branches import exclude_each_other
from retrofit.survey.folders import is_fresh
from retrofit.survey.layers import is_layer
from retrofit.survey.nodes import argument, dotted, method_name, nodes_in, receiver
from retrofit.survey.scopes import Statement
from retrofit.survey.sites.base import Site
from retrofit.survey.slashes import has_slash
from retrofit.survey.wrappers import at_margin

_OF_GPUS = ("torch.cuda.", "torch.accelerator.")
_TESTS = "testing_dendrite_capacity"
_PLATEAU = "torch.optim.lr_scheduler.ReduceLROnPlateau"
_SETUP = "pai_tracker.setup_optimizer"
#: Built-in functions that ask an object for an attribute by its name.
_ASKING = frozenset({"hasattr", "getattr", "setattr", "delattr"})
#: How far a name is followed back through what it was given.
_DEPTH = 12


def came_by(file: TrainingFile, node: cst.BaseExpression, depth: int = _DEPTH) -> Iterator[cst.BaseExpression]:
    """Yield the expressions that a value has surely gone through where an expression stands, the last one first.

    A name is followed back to what it was given last before, in its own function.
    """
    yield node
    following = file.flow.module_operand(node)
    name = dotted(node)
    if following is None and name is not None:
        use = file.index.statement(node)
        given = [b for b in file.index.bound([name], use.scope) if b.statement.order < use.order]
        given = [b for b in given if not exclude_each_other(b.statement, use)]
        last = given[-1] if given else None
        if last is not None and last.item is None and follows(use, last.statement):
            following = last.value
    if following is not None and depth:
        yield from came_by(file, following, depth - 1)


def made_by(file: TrainingFile, node: cst.BaseExpression, names: Collection[str]) -> bool:
    """Whether the value of an expression has surely gone through a call of one of some functions where it stands."""
    return any(isinstance(one, cst.Call) and full_name(file, one.func) in names for one in came_by(file, node))


@dataclass(eq=False, kw_only=True)
class Perforation(Call):
    """A call that makes a model grow dendrites."""

    @property
    def grown(self) -> cst.BaseExpression | None:
        """The model."""
        return self.argument_node("model", 0)

    @cached_property
    def prepared(self) -> tuple[Statement, str]:
        """The statement of its block after which the model is ready to be wrapped, and the model's name there.

        That is where the tracker builds its optimizer, else the call itself; the name is "" where none holds it.
        """
        later = self.statement.following
        for call in self.index.calls:
            name = dotted(argument(call, "net", 0))
            if name and self.index.statement(call) in later and self.index.qualified(call.func).endswith(_SETUP):
                return self.index.statement(call), name
        return self.statement, self.target

    @property
    def held(self) -> str:
        """A name for the model, where what is called on the perforated one gives it back, or it is returned; else "".

        That is its name, or the one that gets what is given back, where nothing reads that before.
        """
        name = "" if self.grown is None else dotted(self.grown) or ""
        node, holder = self.node, self.index.parents[self.node]
        while isinstance(holder, cst.Attribute) or (isinstance(holder, cst.Call) and holder.func is node):
            node, holder = holder, self.index.parents[holder]
        given = self.index.target_of(node)
        inside = {part for part in nodes_in(self.call) if isinstance(part, cst.Name)}
        if given and all(part in inside for part in names_read(node, given.partition(".")[0])):
            name = given
        back = isinstance(holder, cst.Return) or given == name
        local = name in self.scope.names or name in self.scope.parameters
        return name if back and (local or "." in name) else ""

    @property
    def several(self) -> bool:
        """Whether another model is made to grow dendrites in the same run, and not in another branch instead."""
        others = [self.index.statement(call) for call in perforating(self.habits) if call is not self.node]
        return any(not exclude_each_other(self.statement, other) for other in others)

    @property
    def unassigned(self) -> str:
        """The model's name, where the call is a statement of its own, as for what is changed in place; else ""."""
        alone = isinstance(self.index.parents[self.node], cst.Expr) and self.grown is not None
        return dotted(self.grown) or "" if alone else ""

    @property
    def whole_code(self) -> str:
        """The call's code, its further lines without the indentation of its statement."""
        return at_margin(self.index, self.call)

    @cached_property
    def called_whole(self) -> bool:
        """Whether anything calls the model itself, and not its parts alone; also where nobody knows what it is."""
        made = set(self.habits.flow.origins(self.call, self.scope))
        calls = [call for call in self.index.calls if call is not self.node]
        return not made or any(
            made.intersection(self.habits.flow.deep_origins(c.func, self.index.scope_of(c))) for c in calls
        )

    @cached_property
    def other_name(self) -> str:
        """An attribute that holds the model from before the call, and is what is called then; "" where none is."""
        flow, (ready, name) = self.habits.flow, self.prepared
        made = set() if self.grown is None else set(flow.deep_origins(self.grown, self.scope))
        called = {dotted(call.func) for call in self.index.calls}
        for bound in self.index.bindings:
            early = bound.statement.scope is self.scope and follows(self.statement, bound.statement)
            if not early or bound.value is None or bound.target == name or "." not in bound.target:
                continue
            again = [
                b.statement for b in self.index.bound([bound.target], self.scope) if b.statement.order > ready.order
            ]
            if bound.target in called and not again and made.intersection(flow.deep_origins(bound.value, self.scope)):
                return bound.target
        return ""

    @cached_property
    def on_gpu(self) -> bool:
        """Whether anything of its project names a GPU."""
        texts = (one.value.strip("'\"") for one in self.index.nodes_of(cst.SimpleString))
        parts = (one.value for one in self.index.nodes_of(cst.FormattedStringText))
        asked = any(self.index.qualified(one).startswith(_OF_GPUS) for one in self.index.attributes)
        return asked or bool(self.index.method_calls("cuda")) or any(one.startswith("cuda") for one in (*texts, *parts))

    @cached_property
    def apple_device(self) -> Site | None:
        """Where something is put on Apple's GPU, of which there is one, in a project that names no other GPU."""
        for call in self.index.calls if not self.on_gpu else ():
            if method_name(call) != "to" and self.index.qualified(call.func) != "torch.device":
                continue
            given = argument(call, "device", 0) or argument(call, "type", 0)
            made = [] if given is None else self.habits.flow.origins(given, self.index.scope_of(call))
            for one in (origin.node for origin in made):
                if isinstance(one, cst.SimpleString) and one.raw_value.partition(":")[0] == "mps":
                    return Site(node=one, index=self.index)
        return None

    @cached_property
    def late_layer(self) -> Site | None:
        """Where the model gets another layer, no further wrapper, only after the call."""
        grown = set(self.habits.flow.deep_origins(self.call, self.scope))
        for node in self.index.attributes:
            assign = self.index.parents.get(self.index.parents[node])
            statement = self.index.statement(node)
            made = isinstance(assign, cst.Assign) and is_layer(assign.value, self.habits.flow)
            if not made or not follows(statement, self.statement):
                continue
            if not grown.isdisjoint(self.habits.flow.deep_origins(node.value, statement.scope)):
                return Site(node=node, index=self.index)
        return None

    @property
    def torch(self) -> str:
        """The name under which its file imports torch, "" for none."""
        return self.file.imported_as("torch") or ""

    @cached_property
    def save_name(self) -> str:
        """The name under which it is saved, "" where it is not written out."""
        return text(self.habits, self.argument_node("save_name", 2))

    @cached_property
    def name_has_slash(self) -> bool | None:
        """Whether that name has a slash in it; None where it may have one, as parts that are joined may be empty."""
        given = self.argument_node("save_name", 2)
        return given is not None and has_slash(given, self.habits.flow)

    @cached_property
    def fresh_name(self) -> str:
        """The code of the name under which it is saved, where that is another one at each start, else ""."""
        given = self.argument_node("save_name", 2)
        return self.index.source.code(given) if given is not None and is_fresh(given, self.habits.flow) else ""

    @cached_property
    def wrapped(self) -> str:
        """The wrapper that is around the model already, "ddp" or "dp"; "" for none."""
        wrapper = None if self.grown is None else self.habits.wrapper_of(self.grown)
        return "" if wrapper is None else wrapper.kind

    @cached_property
    def compiled(self) -> bool:
        """Whether the model has been compiled before."""
        return self.grown is not None and made_by(self.habits, self.grown, self.index.knowledge.named(Compiles))

    @cached_property
    def left_behind(self) -> int:
        """The line of the DistributedDataParallel whose model was moved before the call, and not after; 0 for none."""
        for one in self.habits.wrappers:
            if one.kind != "ddp" or not one.call.args or self.habits.imports("pai_distributed"):  # which moves it
                continue
            way = list(came_by(self.habits, one.call.args[0].value))
            place = next((number for number, node in enumerate(way) if node is self.node), 0)
            names = {name for node in way if (name := dotted(node)) is not None}
            moved = [call for call in self.index.calls if moves(self.index, call)]
            stated = [call for call in moved if call not in way and dotted(receiver(call)) in names]
            after = [call for call in stated if self.index.statement(call).order > self.statement.order]
            if place and not after and not any(node in moved for node in way[:place]):
                before = [call for call in stated if follows(self.statement, self.index.statement(call))]
                if before or any(node in moved for node in way[place:]):
                    return one.line
        return 0

    @cached_property
    def maximizing(self) -> bool | None:
        """Whether higher scores are better, None where it cannot be told."""
        if self.spread:
            return None
        given = self.argument_node("maximizing_score", 4)
        if given is None:
            made = [s for s in settings(self.habits, "maximizing_score") if s.word == "set_"]
            given = made[-1].call.args[0].value if made and made[-1].call.args else None
            return _truth(self.habits, given) if made else True
        return _truth(self.habits, given)

    @cached_property
    def tests_capacity(self) -> str:
        """Whether the test of how many dendrites fit into memory is on: "set", "default", or "" where it is off.

        It is on unless it is turned off, by a setting of the file, or by the helper.
        """
        made = settings(self.habits, _TESTS)
        values = [_truth(self.habits, s.call.args[0].value) for s in made if s.call.args]
        if made:
            return "set" if all(value is True for value in values) else ""
        return "" if self.habits.imports("pai_distributed") else "default"

    @property
    def settings_here(self) -> bool:
        """Whether the file makes settings of the library at all."""
        return bool(self.habits.sites("library-setting"))

    @property
    def trains(self) -> bool:
        """Whether the file hands scores over as well, so that the whole of a training is in it."""
        return bool(self.habits.sites("score-report"))


@dataclass(eq=False, kw_only=True)
class ModelAttribute(Site):
    """What no wrapper has, or takes, asked of a model that may be in one.

    Attributes:
        holder: the code of what it is asked of.
        quote: a quotation mark that may stand in the code there.
    """

    holder: str
    quote: str


@dataclass(eq=False, kw_only=True)
class EarlyAverage(Call):
    """A running average of a model that is made before the model grows dendrites.

    Attributes:
        later: the line in which the model is made to grow them.
    """

    later: int


@dataclass(eq=False, kw_only=True)
class EarlyOptimizer(Call):
    """An optimizer that is built before a saved model is loaded, and with it the dendrites that it has.

    Attributes:
        later: the line in which it is loaded.
    """

    later: int


@dataclass(eq=False, kw_only=True)
class EarlyTracker(Site):
    """A name for the tracker from before a model is perforated, when there is none yet; `node` is the statement.

    Attributes:
        name: the name.
        imported: whether an import gives it.
    """

    name: str
    imported: bool


@dataclass(eq=False, kw_only=True)
class SystemLoad(Call):
    """A call that gives back what was saved of a model with dendrites."""

    @cached_property
    def state(self) -> str:
        """The name of the saved state, "" where it is not written out."""
        return text(self.habits, self.argument_node("name", 2))

    @property
    def after_newest(self) -> bool:
        """Whether the newest switch has been loaded before, by the helper."""
        others = self.habits.calls("pai_distributed.load_latest_switch")
        return any(follows(self.statement, self.index.statement(call)) for call in others)


@dataclass(eq=False, kw_only=True)
class Recomputation(Call):
    """A call that computes activations again in the backward pass instead of keeping them."""

    @property
    def perforated(self) -> bool:
        """Whether the file trains a perforated model in DistributedDataParallel."""
        return self.habits.ddp and bool(perforating(self.habits))

    @property
    def reentrant(self) -> bool:
        """Whether it does so the reentrant way, which is the default."""
        return self.argument("use_reentrant") in (None, "True") and not any(a.star == "**" for a in self.call.args)


@dataclass(eq=False, kw_only=True)
class Plateau(Call):
    """A hand-over of an optimizer with a ReduceLROnPlateau, which is given the validation score.

    Attributes:
        mode: the plateau's mode, "min" or "max".
        perforation: how the model was made to grow dendrites.
    """

    mode: str
    perforation: Perforation

    @property
    def wanted(self) -> str:
        """The mode that fits the direction of the score, "" where that cannot be told."""
        maximizing = self.perforation.maximizing
        return "" if maximizing is None else "max" if maximizing else "min"


def _truth(file: TrainingFile, node: cst.BaseExpression | None) -> bool | None:
    value = None if node is None else file.value_of(node)
    name = value.value if isinstance(value, cst.Name) else ""
    return {"True": True, "False": False}.get(name)


def find_perforations(file: TrainingFile) -> list[Perforation]:
    """Return the calls that make a model grow dendrites."""
    found = [Perforation(node=call, index=file.index, habits=file) for call in perforating(file)]
    for one in found:
        one.anchors["prepared"] = one.prepared[0].node
    return found


def find_model_attributes(file: TrainingFile) -> Iterator[ModelAttribute]:
    """Yield where something that no wrapper has is asked of a model that may be in one, or that is to be itself."""
    wrapped = {one: set(file.flow.origins(one.call, one.scope)) for one in file.wrappers}
    for node, asked in (*_attributes(file), *_by_itself(file)) if wrapped else ():
        name, scope = dotted(asked), file.index.scope_of(node)
        if name is None or name.endswith(".module"):
            continue
        made, statement = file.flow.deep_origins(asked, scope), file.index.statement(node)
        around = [one for one, origins in wrapped.items() if origins.intersection(made)]
        here = [part for part in statement.path if part.scope is statement.scope]
        early = [one for one in around if any(follows(one.statement, part) for part in here)]
        if any(one not in early and not exclude_each_other(one.statement, statement) for one in around):
            quotes = {f.start[-1] for f in file.index.ancestors(node) if isinstance(f, cst.FormattedString)}
            quote = "'" if quotes == {'"'} else '"'
            yield ModelAttribute(node=node, index=file.index, anchors={"holder": asked}, holder=name, quote=quote)


def _attributes(file: TrainingFile) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Yield where objects are asked for attributes that no wrapper has, each with what is asked."""
    asked = [(node, node.value, node.attr.value) for node in file.index.attributes]
    asked += [
        (call, call.args[0].value, text(file, call.args[1].value))  # type: ignore[misc]
        for call in file.index.calls
        if file.index.qualified(call.func) in _ASKING and len(call.args) > 1
    ]
    for node, holder, attribute in asked:
        if attribute and attribute not in file.index.knowledge.wrapper_members:
            yield node, holder


def _by_itself(file: TrainingFile) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Yield where a model is to be without a wrapper: what the library loads into, and what goes to the CPU to be used.

    DataParallel refuses a model that is not on its first GPU.
    """
    for call in calls_of_any(file, () if file.history is None else file.history.loads):
        given = argument(call, "net", 0)
        if given is not None:
            yield call, given
    for call, moved in file.index.method_calls("cpu", "to"):
        device = call.args[0].value if len(call.args) == 1 else None
        if isinstance(device, cst.Call) and file.index.qualified(device.func) == "torch.device" and device.args:
            device = device.args[0].value
        on_cpu = not call.args if method_name(call) == "cpu" else device is not None and text(file, device) == "cpu"
        parent = file.index.parents.get(call)
        same = isinstance(parent, cst.Assign) and any(dotted(t.target) == dotted(moved) for t in parent.targets)
        if on_cpu and not same and not isinstance(parent, cst.Expr):
            yield call, moved


def find_system_loads(file: TrainingFile) -> list[SystemLoad]:
    """Return the calls that give back what was saved of a model with dendrites."""
    loads = () if file.history is None else file.history.loads
    return [SystemLoad(node=call, index=file.index, habits=file) for call in calls_of_any(file, loads)]


def find_early_averages(file: TrainingFile) -> Iterator[EarlyAverage]:
    """Yield the running averages of a model from before it grows dendrites."""
    known = file.index.knowledge.last_names(AveragesModel)  # which projects copy, in modules of their own
    averages = [call for call in file.index.calls if file.index.qualified(call.func).rpartition(".")[2] in known]
    for perforation in find_perforations(file) if averages else ():
        name = dotted(perforation.grown)
        for call in averages:
            given = argument(call, "model", 0)
            after = follows(perforation.statement, file.index.statement(call))
            if name is not None and dotted(given) == name and after:
                yield EarlyAverage(node=call, index=file.index, habits=file, later=perforation.line)


def find_early_optimizers(file: TrainingFile) -> Iterator[EarlyOptimizer]:
    """Yield the optimizers that are built of a model's parameters before a saved state of the model is loaded."""
    for load in find_system_loads(file):
        name = dotted(load.argument_node("net", 0))
        for call in file.calls(*file.index.knowledge.named(Optimizer)) if name is not None else ():
            given = argument(call, "params", 0)
            if given is None or not follows(load.statement, file.index.statement(call)):
                continue
            plain = file.source.read(given) in (f"{name}.parameters()", f"list({name}.parameters())")
            if plain and _goes_on(file, call, load):
                yield EarlyOptimizer(node=call, index=file.index, habits=file, later=load.line)


def _goes_on(file: TrainingFile, made: cst.Call, load: SystemLoad) -> bool:
    """Whether an optimizer is used after a model is loaded, and not built anew there."""
    target = file.index.target_of(made)
    if any(follows(b.statement, load.statement) for b in file.index.bound([target], load.scope)):
        return False
    later = [call for call in file.index.calls if follows(file.index.statement(call), load.statement)]
    used = [node for call in later for node in (receiver(call), *(arg.value for arg in call.args))]
    return bool(target) and any(dotted(node) == target for node in used)


def find_early_trackers(file: TrainingFile) -> Iterator[EarlyTracker]:
    """Yield the names that the tracker is given before there is one."""
    if file.history is None or not file.perforated:
        return
    tracker = f"{file.history.holder.rpartition('.')[0]}.pai_tracker"
    module = tracker.rpartition(".")[0]
    for statement, imported in file.index.entry.imports:
        names = [name for name, full in file.index.entry.aliases.items() if full == tracker]
        if imported == module and names and "pai_tracker" in file.source.read(statement.node):
            yield EarlyTracker(node=statement.node, index=file.index, name=names[0], imported=True)
    perforations = [file.index.statement(call) for call in perforating(file)]
    for binding in file.index.bindings:
        value, statement = binding.value, binding.statement
        if value is None or not isinstance(value, cst.Attribute) or file.index.qualified(value) != tracker:
            continue
        early = [p for p in perforations if p.scope is not statement.scope or follows(p, statement)]
        if early and (statement.scope.kind == "module" or early[0].scope is statement.scope):
            yield EarlyTracker(node=statement.node, index=file.index, name=binding.target, imported=False)


def find_recomputations(file: TrainingFile) -> list[Recomputation]:
    """Return the calls that compute activations again in the backward pass."""
    calls = file.calls(*file.index.knowledge.named(Recomputes))
    return [Recomputation(node=call, index=file.index, habits=file) for call in calls]


def find_plateaus(file: TrainingFile) -> Iterator[Plateau]:
    """Yield the hand-overs of an optimizer with a ReduceLROnPlateau whose mode is seen."""
    perforations = find_perforations(file)
    chosen = [
        call for call in file.index.calls if file.index.qualified(call.func).endswith("pai_tracker.set_scheduler")
    ]
    classes = {file.index.qualified(call.args[0].value) if call.args else "" for call in chosen}
    if len(perforations) != 1 or classes != {_PLATEAU}:
        return
    for call in file.index.calls:
        if not file.index.qualified(call.func).endswith(_SETUP):
            continue
        given = argument(call, "sched_args", 2)
        value = None if given is None else file.value_of(given)
        mode = _item(file, value, "mode", "min")
        if mode is not None:
            yield Plateau(node=call, index=file.index, habits=file, mode=mode, perforation=perforations[0])


def _item(file: TrainingFile, node: cst.BaseExpression | None, key: str, default: str) -> str | None:
    """Return the text of an item of a dict as it is written down, None where it cannot be told."""
    if (
        isinstance(node, cst.Call)
        and dotted(node.func) == "dict"
        and not any(a.star or not a.keyword for a in node.args)
    ):
        found = [arg.value for arg in node.args if arg.keyword is not None and arg.keyword.value == key]
    elif isinstance(node, cst.Dict) and all(isinstance(one, cst.DictElement) for one in node.elements):
        elements = [one for one in node.elements if isinstance(one, cst.DictElement)]
        found = [one.value for one in elements if literal(file, one.key) == key]
    else:
        return None
    value = literal(file, found[-1]) if found else default
    return value if isinstance(value, str) else None
