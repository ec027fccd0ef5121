"""Find where models are wrapped, and what goes wrong around the wrapper."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from retrofit.habits.file import TrainingFile
from retrofit.habits.loaders import Loader
from retrofit.habits.names import conditions, converts, follows, literal, may_follow, moves, spelled
from retrofit.habits.perforation import made_by
from retrofit.habits.processes import Group
from retrofit.habits.sites import Call
from retrofit.survey.nodes import dotted, last_of, mentions, names_in, nodes_in, receiver
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.wrapper import Wrapper
from retrofit.survey.words import ASKS_FOR_WRAPPER, WITHOUT_GRADIENT, speak

_DDP = "torch.nn.parallel.DistributedDataParallel"
_NORMALISED = re.compile(r"\bBatchNorm[123]d\b")
_NORMALISED_MODELS = re.compile(
    r"torchvision\.models\.(resnet|resnext|wide_resnet|densenet|mobilenet|efficientnet|googlenet|inception|mnasnet|"
    r"regnet|shufflenet|vgg\d+_bn)"
)
_SHARDING = frozenset({"OSS", "ShardedDataParallel", "FullyShardedDataParallel", "FSDP"})
_SMALL_BATCH = 8
_DEFAULTS = frozenset({"set_default_device", "set_default_tensor_type"})


@dataclass(eq=False, kw_only=True)
class Wrapping(Call):
    """A `DistributedDataParallel` or `DataParallel` call.

    Attributes:
        wrapper: what the survey knows of it.
    """

    wrapper: Wrapper

    @property
    def kind(self) -> str:
        """The wrapper's kind, "ddp" or "dp"."""
        return self.wrapper.kind

    @property
    def first(self) -> bool:
        """Whether it is the first of its kind in the file."""
        return next(w for w in self.habits.wrappers if w.kind == self.kind) is self.wrapper

    @property
    def operand(self) -> str:
        """The code of what is wrapped."""
        return self.wrapper.operand

    @property
    def operand_node(self) -> cst.BaseExpression:
        """What is wrapped."""
        node = self.wrapper.anchors["operand"]
        assert isinstance(node, cst.BaseExpression)
        return node

    @cached_property
    def group(self) -> Group | None:
        """The `init_process_group` that has surely run before."""
        groups = [site for site in self.habits.sites("group") if isinstance(site, Group) and not site.alone]
        return next((group for group in groups if group.before(self.statement)), None)

    @cached_property
    def thrown_away(self) -> bool:
        """Whether the module in it takes its place before anything has used it."""
        whole = self.index.parents.get(self.node)
        if isinstance(whole, cst.Attribute):
            return whole.attr.value == "module" and bool(self.index.target_of(whole))
        names = [binding.target for binding in self.index.bindings if binding.value is self.node]
        for later in self.statement.following if len(names) == 1 else ():
            if mentions(later.node, names):
                bound = [one for one in self.index.bindings if one.statement is later]
                return any(one.target == names[0] and dotted(one.value) == f"{names[0]}.module" for one in bound)
        return False

    @property
    def averaged(self) -> bool:
        """Whether anything in the file averages gradients, or anything else, over the ranks by hand."""
        return re.search(r"all_reduce|(average|reduce)_gradients|horovod|apex", self.index.source.read()) is not None

    @property
    def ddp_call(self) -> str:
        """The code that wraps its model in DistributedDataParallel on this rank's device, "" where it is not known."""
        group = self.group
        if group is None or self.wrapper.chain or self.wrapper.module != self.operand or "#" in self.code:
            return ""
        if group.backend != "nccl":
            return f"{self.ddp_name}({self.operand})"
        device = self._own_device
        return f"{self.ddp_name}({self.operand}, device_ids=[{device}])" if device else ""

    @property
    def ddp_name(self) -> str:
        """DistributedDataParallel as the file can write it."""
        return spelled(self.index, _DDP, self.scope) or "DistributedDataParallel"

    @property
    def ddp_imported(self) -> bool:
        """Whether an import of the file reaches DistributedDataParallel."""
        return bool(spelled(self.index, _DDP, self.scope))

    @property
    def _own_device(self) -> str:
        """The code of this rank's device, as the file gives it to `set_device` before."""
        for call in self.habits.calls("torch.cuda.set_device"):
            statement = self.index.statement(call)
            if call.args and statement.scope is self.scope and follows(self.statement, statement):
                return self.index.source.code(call.args[0].value)
        return ""

    @cached_property
    def unknown(self) -> list[str]:
        """The keywords that the wrapper's class does not have."""
        known = self.index.knowledge.wrapper_parameters(self.habits.flow.class_called(self.call))
        return [a.keyword.value for a in self.call.args if a.keyword is not None and a.keyword.value not in known]

    @property
    def without_timeout(self) -> str:
        """The code of the call without `timeout`."""
        code = self.index.source.code
        kept = [
            code(arg).rstrip().rstrip(",")
            for arg in self.call.args
            if arg.keyword is None or arg.keyword.value != "timeout"
        ]
        return f"{code(self.call.func)}({', '.join(kept)})"

    @property
    def timeout_fix(self) -> bool:
        """Whether its `timeout` can go to the file's one `init_process_group`, which has none."""
        groups = self.habits.groups
        if self.unknown != ["timeout"] or self.spread or len(groups) != 1 or "\n" in self.code:
            return False
        given = self.argument_node("timeout")
        named = set[str]() if given is None else {name.partition(".")[0] for name in names_in(given)}
        known = named - set(self.index.entry.aliases)
        shared = {arg.keyword.value for arg in groups[0].args if arg.keyword is not None}
        local = {b.target.partition(".")[0] for b in self.index.bindings} & known
        return "timeout" not in shared and not local and not any(arg.star for arg in groups[0].args)

    @property
    def moved_late(self) -> bool:
        """Whether the model is moved or converted after it is wrapped, where nothing did the same before."""
        return self.late_move is not None

    @cached_property
    def late_move(self) -> cst.Call | None:
        """The first call that moves or converts the model after it is wrapped, where nothing did the same before."""
        index = self.index
        if self.kind != "ddp" or not _DEFAULTS.isdisjoint(index.source.words()):
            return None
        late = self._chained_change or self._later_change
        if late is None:
            return None
        same = converts if converts(index, late) else moves
        origins = set(self.habits.flow.origins(self.operand_node, self.scope))
        for call in index.calls:
            held = receiver(call) if call is not late and same(index, call) else None
            if held is None or (self._after(index.statement(call)) and dotted(held) == self.wrapper.target):
                continue
            if not origins.isdisjoint(self.habits.flow.origins(held, index.scope_of(call))):
                return None
        return late

    @property
    def converted(self) -> bool:
        """Whether the late change is one of the number format."""
        return self.late_move is not None and converts(self.index, self.late_move)

    @cached_property
    def move_fix(self) -> str:
        """How the move can be made first: "chain" where it is called on the wrapper itself, "statement", or ""."""
        late = self.late_move
        if late is None or self.spread or len(self.call.args) == 0:
            return ""
        if late is self._chained_change:
            return "chain" if receiver(late) is self.call else ""
        statement = self.index.statement(late)
        if statement.siblings is not self.statement.siblings or statement.crowded:
            return ""
        small = last_of(statement.node)
        plain = isinstance(small, (cst.Expr, cst.Assign)) and small.value is late
        if isinstance(small, cst.Assign):
            plain = plain and [dotted(t.target) for t in small.targets] == [self.wrapper.target]
        named = {name.partition(".")[0] for arg in late.args for name in names_in(arg.value)}
        between = range(self.statement.order, statement.order)
        changed = any(b.target.partition(".")[0] in named and b.statement.order in between for b in self.index.bindings)
        return "statement" if plain and not changed else ""

    @property
    def move_code(self) -> str:
        """The code of the late move, such as `.to(device)`."""
        code, held = self.index.source.code, receiver(self.late_move)
        return "" if self.late_move is None or held is None else code(self.late_move)[len(code(held)) :]

    @property
    def moved_operand(self) -> str:
        """The code of what is wrapped, moved."""
        return self.operand + self.move_code

    @property
    def moved_call(self) -> str:
        """The code of the wrapper around the moved model."""
        source = self.index.source
        (first, last), (inner, end) = source.span(self.call), source.span(self.operand_node)
        return source.text[first:inner] + self.moved_operand + source.text[end:last]

    def _after(self, statement: Statement) -> bool:
        return statement.scope is self.scope and follows(statement, self.statement)

    @property
    def _chained_change(self) -> cst.Call | None:
        chain = self.index.called_on(self.call)
        return next((call for call in chain if moves(self.index, call) or converts(self.index, call)), None)

    @property
    def _later_change(self) -> cst.Call | None:
        target = self.wrapper.target
        given = [one.statement for one in self.index.bound([target], self.scope) if one.statement is not self.statement]
        trained = [loop for loop in self.index.loops if loop.scope is self.scope]
        for call in self.index.calls:
            statement, changes = self.index.statement(call), moves(self.index, call) or converts(self.index, call)
            if target and changes and dotted(receiver(call)) == target and self._after(statement):
                between = range(self.statement.order + 1, statement.order)
                return None if any(one.order in between for one in (*given, *trained)) else call
        return None

    @cached_property
    def built(self) -> bool | None:
        """Whether the wrapped model is surely built as every model is, on the CPU and in single precision.

        None where its making cannot be seen at all, or is told otherwise.
        """
        told = r"dtype|half|float16|double" if self.converted else r"device|cuda|gpu"
        chosen = told if self.converted else r"\bdevice\b|\.cuda\(|\.to\("
        found: list[bool] = [False] if self.operand.startswith("self.") else []  # whoever holds it may move it
        for origin in self.habits.flow.deep_origins(self.operand_node, self.scope):
            if not isinstance(origin.node, cst.Call):
                return None
            defined = self.habits.flow.defined(origin.node.func, self.index.scope_of(origin.node))
            name = self.index.qualified(origin.node.func)
            code = self.index.source.read(origin.node)
            if re.search(told, code):
                return None
            if defined is not None and defined.kind == "function":
                continue
            if defined is not None:
                if re.search(chosen, self.index.source.read(defined.node)):
                    return None
                found.append(True)
            else:
                found.append(name.startswith(("torch.nn.", "torchvision.models.")))
        return all(found) if found else None

    @cached_property
    def model_class(self) -> Scope | None:
        """The class of the wrapped model, where it is one of this file."""
        return _model_class(self.habits, self.operand_node, self.scope)

    @property
    def perforated(self) -> bool:
        """Whether the wrapped model grows dendrites."""
        history = self.habits.history
        return history is not None and made_by(self.habits, self.operand_node, history.perforates)

    @property
    def finds_unused(self) -> bool:
        """Whether it looks for unused parameters at every step."""
        return self.argument("find_unused_parameters", 8) == "True" and self.argument("static_graph", 11) != "True"

    @property
    def may_leave_unused(self) -> bool:
        """Whether the model's own code shows that a step may leave parameters out: branches, frozen parts."""
        if self.model_class is None:
            return False
        node = self.model_class.node
        branches = any(isinstance(part, (cst.If, cst.For, cst.While, cst.Try, cst.IfExp)) for part in nodes_in(node))
        return branches or speak(self.index.source.words(node), WITHOUT_GRADIENT)

    @cached_property
    def unsynchronised(self) -> bool:
        """Whether the model is seen to hold BatchNorm layers that nothing in the file synchronises."""
        if self.kind != "ddp" or re.search(
            r"sync_?_?b(atch_?)?n|convert_syncbn|GroupNorm", self.index.source.read(), re.I
        ):
            return False
        if self.model_class is not None:
            code = self.index.source.read(self.model_class.node)
            return _NORMALISED.search(code) is not None
        origins = self.habits.flow.deep_origins(self.operand_node, self.scope)
        names = [self.index.qualified(o.node.func) for o in origins if isinstance(o.node, cst.Call)]
        return len(origins) == 1 and all(_NORMALISED_MODELS.match(name) for name in names) and bool(names)

    @cached_property
    def small_batch(self) -> int:
        """The batch size of a rank where a training loader's is given and small, else 0."""
        for loader in self.habits.sites("loader"):
            if isinstance(loader, Loader) and loader.training:
                size = literal(self.habits, loader.argument_node("batch_size", 1))
                if isinstance(size, int) and 0 < size <= _SMALL_BATCH:
                    return size
        return 0


@dataclass(eq=False, kw_only=True)
class OwnAttribute(Site):
    """An attribute of the user's own model class that is asked of the wrapper around the model; `node` is the access.

    Attributes:
        wrapper: the wrapper.
        wrapped: the code of what holds the wrapped model.
        name: the attribute.
        class_name: the model's class, which defines it.
        certain: whether the value has surely been wrapped here, in a run that wraps it.
        always: whether every run wraps it.
    """

    wrapper: Wrapper
    wrapped: str
    name: str
    class_name: str
    certain: bool
    always: bool

    @property
    def wrapper_name(self) -> str:
        """The wrapper's class."""
        return "DistributedDataParallel" if self.wrapper.kind == "ddp" else "DataParallel"


@dataclass(eq=False, kw_only=True)
class FairscaleCall(Call):
    """A call of fairscale's sharding."""

    @property
    def name(self) -> str:
        """The class."""
        return self.index.qualified(self.call.func).rpartition(".")[2]

    @property
    def successor(self) -> str:
        """What PyTorch has for it."""
        if self.name == "OSS":
            return "torch.distributed.optim.ZeroRedundancyOptimizer, or shard the model as well with FSDP"
        return "PyTorch's FSDP (torch.distributed.fsdp.fully_shard)"


def find_wrappings(file: TrainingFile) -> Iterator[Wrapping]:
    """Yield the wrapper calls of a file."""
    for wrapper in file.wrappers:
        site = Wrapping(node=wrapper.call, index=file.index, habits=file, wrapper=wrapper)
        site.anchors["operand"] = wrapper.anchors["operand"]
        if site.timeout_fix:
            site.anchors["group"] = file.groups[0]
        if site.late_move is not None:
            site.anchors["late-move"] = site.late_move
            site.anchors["late-statement"] = file.index.statement(site.late_move).node
        yield site


def find_own_attributes(file: TrainingFile) -> Iterator[OwnAttribute]:
    """Yield where an attribute of the model's class is read from the wrapper."""
    if not file.wrappers:
        return
    index = file.index
    classes = [scope for scope in index.scopes if scope.kind == "class"]
    names = {name for scope in classes for name in _members(file, scope)}
    names -= index.knowledge.wrapper_members
    through = {
        (dotted(node.value.value), node.attr.value)
        for node in index.attributes
        if isinstance(node.value, cst.Attribute) and node.value.attr.value == "module"
    }
    given = {binding.target for binding in index.bindings}
    for node in index.attributes:
        name = node.attr.value
        if (
            name not in names
            or name.startswith("_")
            or isinstance(index.parents.get(node), (cst.AssignTarget, cst.Del))
        ):
            continue
        if dotted(node.value) is None or dotted(node) in given or (dotted(node.value), name) in through:
            continue
        statement = index.statement(node)
        wrapper = file.wrapper_of(node.value)
        if wrapper is None or _guarded(file, node, statement) or name in _further_methods(file, wrapper):
            continue
        found = _model_class(file, wrapper.call, index.scope_of(wrapper.call))
        if found is None or name not in {n for c in file.flow.lineage(found) for n in _members(file, c)}:
            continue
        wraps = index.statement(wrapper.node)
        yield OwnAttribute(
            node=node,
            index=index,
            anchors={"access": node, "wrapped": node.value},
            wrapper=wrapper,
            wrapped=index.source.code(node.value),
            name=name,
            class_name=found.name,
            certain=wraps.scope is statement.scope and may_follow(statement, wraps),
            always=wraps.scope is statement.scope
            and follows(statement, wraps)
            and not index.inside(wrapper.node, cst.IfExp),
        )


def _further_methods(file: TrainingFile, wrapper: Wrapper) -> tuple[str, ...]:
    """The methods that a wrapper has besides those that any has."""
    call = wrapper.call
    return file.index.knowledge.wrapper_methods(file.flow.class_called(call)) if isinstance(call, cst.Call) else ()


def find_fairscale_calls(file: TrainingFile) -> list[FairscaleCall]:
    """Return the calls that shard a model or an optimizer by fairscale."""
    named = [(call, file.index.qualified(call.func)) for call in file.index.calls]
    calls = [call for call, name in named if name.startswith("fairscale.") and name.rpartition(".")[2] in _SHARDING]
    return [FairscaleCall(node=call, index=file.index, habits=file) for call in calls]


def _model_class(file: TrainingFile, node: cst.BaseExpression, scope: Scope) -> Scope | None:
    """Return the class of this file that alone makes a value."""
    made = [origin.node for origin in file.flow.deep_origins(node, scope) if not file.flow.inside(origin)]
    classes = {file.flow.class_made(one) for one in made}
    return classes.pop() if len(classes) == 1 else None


def _members(file: TrainingFile, scope: Scope) -> set[str]:
    """The methods and attributes that a class gives its objects."""
    cached: dict[Scope, set[str]] = file.__dict__.setdefault("_class_members", {})
    if not cached:
        for binding in file.index.bindings:
            holder = binding.statement.scope.enclosing_class
            if holder is None:
                continue
            if binding.target.startswith("self.") and binding.target.count(".") == 1:
                cached.setdefault(holder, set()).add(binding.target[5:])
            elif binding.statement.scope is holder and "." not in binding.target:
                cached.setdefault(holder, set()).add(binding.target)
        for one in file.index.scopes:
            if one.kind == "class":
                cached.setdefault(one, set()).update(one.inner)
    return cached.get(scope, set())


def _guarded(file: TrainingFile, node: cst.Attribute, statement: Statement) -> bool:
    """Whether code around an access asks whether the model is wrapped, or expects that it may fail."""
    around = list(file.index.ancestors(node))
    asked = [*conditions(statement), *(part.test for part in around if isinstance(part, cst.IfExp))]
    asked += [part.left for part in around if isinstance(part, cst.BooleanOperation)]
    if any(speak(file.source.words(test), ASKS_FOR_WRAPPER) for test in asked):
        return True
    return any(isinstance(part.node, (cst.Try, cst.TryStar)) for part in statement.ancestors)
