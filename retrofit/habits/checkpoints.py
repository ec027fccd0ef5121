"""Find where checkpoints are saved and loaded, and whether what they hold is the wrapper's state or the model's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile

import libcst as cst

from retrofit.habits.file import TrainingFile
from retrofit.habits.ranked import RankCall, bare, made_of
from retrofit.habits.sites import Call
from retrofit.survey.nodes import argument, dotted, last_name, method_name, receiver
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.sites.wrapper import Wrapper
from retrofit.survey.words import OWN, speak

_STRIPS = re.compile(r"""["'`]module\.?["'`]|\b(k|key|name)\[7:\]|\bconsume_prefix_in_state_dict_if_present\b""")
#: The name of a function or method that loads something, though no data: `restart_from_checkpoint`, `resumeModel`.
_LOADS = re.compile(
    r"(^|_)(?i:(re)?(load(?!er)|restor|resum|restart))|(?<=[a-z])(Load(?!er)|Restor|Resum|Restart)|[Cc]heckpointer"
)
#: What has a state, and is no model.
_NO_MODEL = re.compile(r"optim|sched|scaler", re.I)
_GPU = frozenset({"cuda", "nccl"})


@dataclass(eq=False, kw_only=True)
class Save(RankCall):
    """A `torch.save` call; the anchor "last" is the last of the statements with it that use the file."""

    @property
    def path(self) -> str:
        """The code of the path."""
        return self.argument("f", 1) or ""

    @cached_property
    def shared_path(self) -> bool:
        """Whether the path is the same on all ranks, as far as the file shows how it is made."""
        node = self.argument_node("f", 1)
        return node is not None and not speak(made_of(self.habits, node, self.scope), OWN)

    @cached_property
    def read_back(self) -> bool:
        """Whether the file uses what it saves there elsewhere, perhaps before rank 0 has written it."""
        path = _exact(self.habits, self.argument_node("f", 1))
        if any(_exact(self.habits, argument(call, "f", 0)) == path for call in self.habits.calls("torch.load")):
            return True
        behind = self.statement.following[len(self.together) :]
        behind += [later for part in self.statement.around for later in part.following]
        return any(self._uses(part) for part in behind)

    @cached_property
    def together(self) -> list[Statement]:
        """The statements directly behind it that use the file, such as those that copy it."""
        found = list(takewhile(self._uses, self.statement.following))
        bound = any(part in found for binding in self.index.bindings for part in binding.statement.path)
        return [] if bound or any(part.crowded for part in found) else found

    def _uses(self, part: Statement) -> bool:
        """Whether a statement uses the saved file, other than by saving it anew."""
        code = self.index.source.read(part.node)
        node = self.argument_node("f", 1)
        name = rf"(?<![.\w]){re.escape('' if node is None else self.index.source.read(node))}(?!\w)"
        return re.search(rf"{name}(?!\s*=[^=])", code) is not None and "torch.save(" not in code


@dataclass(eq=False, kw_only=True)
class State(Call):
    """A call of a method of a model that is about its state; the anchor "model" is the model."""

    @property
    def model_node(self) -> cst.BaseExpression:
        """The model."""
        model = receiver(self.call)
        assert model is not None
        return model

    @property
    def model_code(self) -> str:
        """The code of the model."""
        return self.index.source.code(self.model_node)

    @cached_property
    def wrapper(self) -> Wrapper | None:
        """The wrapper whose state it is, None for a bare model's or where it cannot be told."""
        return self.habits.wrapper_of(self.model_node)

    @property
    def bare(self) -> str:
        """The code of the model without its wrapper."""
        assert self.wrapper is not None
        return bare(self.habits, self.wrapper, self.model_code)


@dataclass(eq=False, kw_only=True)
class SavedState(State):
    """A `model.state_dict()` that goes into a `torch.save` of the file.

    The anchor "model" is the expression whose state it is; "restored" that of the one load that takes a wrapper's
    state, where there is just one.

    Attributes:
        key: under which it stands in the saved dictionary, "" for the whole.
        save: the call that saves it.
        handed: whether the file hands a wrapper to a function that loads something, by its name.
    """

    key: str
    save: Save
    handed: bool

    @property
    def strips(self) -> bool:
        """Whether something in the file deals with the prefix `module.` of keys."""
        return _STRIPS.search(self.index.source.read()) is not None

    @cached_property
    def restored(self) -> list[RestoredState]:
        """Where the file loads a wrapper's state from a checkpoint."""
        return [site for site in self._wrapped_loads if site.reads]

    @cached_property
    def taken_back(self) -> bool:
        """Whether the file loads anything into a wrapper, itself or through a function named for that."""
        return self.handed or bool(self._wrapped_loads)

    @cached_property
    def fixable(self) -> bool:
        """Whether all that takes a wrapper's state in the file can be told, so that both sides change together."""
        if self.handed or any(site.any_model for site in self._loads):
            return False
        return len(self.restored) < 2 and self.restored == self._wrapped_loads

    @property
    def _loads(self) -> list[RestoredState]:
        return [site for site in self.habits.sites("restored-state") if isinstance(site, RestoredState)]

    @cached_property
    def _wrapped_loads(self) -> list[RestoredState]:
        return [site for site in self._loads if site.wrapper is not None]


@dataclass(eq=False, kw_only=True)
class RestoredState(State):
    """A `model.load_state_dict(...)`; the anchor "model" is the model.

    Attributes:
        reads: the `torch.load` calls that its value surely comes from as it is, with the key in what they return.
    """

    reads: list[tuple[cst.Call, str]] = field(default_factory=list)

    @property
    def any_model(self) -> bool:
        """Whether it may be a wrapper that takes the state, as the file does not show what it is."""
        name = dotted(self.model_node)
        if name is None or name.endswith(".module") or _NO_MODEL.search(name):
            return False
        return not self.habits.flow.sources(self.habits.flow.variable(name, self.scope))

    @cached_property
    def mismatch(self) -> str:
        """How the state differs from what the file saves at that path: "wrapped", "bare", "" where it does not."""
        if _STRIPS.search(self.index.source.read()):
            return ""
        mine = _form(self.habits, self.model_node)
        sites = (site for site in self.habits.sites("saved-state") if isinstance(site, SavedState))
        forms = {_form(self.habits, site.model_node) for site in sites if self._same(site)}
        return forms.pop() if len(forms) == 1 and mine and "" not in forms and mine not in forms else ""

    def _same(self, saved: SavedState) -> bool:
        path = _exact(self.habits, saved.save.argument_node("f", 1))
        return bool(path) and any(
            key == saved.key and _exact(self.habits, argument(call, "f", 0)) == path for call, key in self.reads
        )


@dataclass(eq=False, kw_only=True)
class CheckpointRead(RankCall):
    """A `torch.load` call.

    Attributes:
        restores: whether a model's or an optimizer's state is loaded from what it returns.
        beside: whether another call loads the same with `map_location`, such as one for runs on another device.
    """

    restores: bool
    beside: bool

    @property
    def placed(self) -> bool:
        """Whether it says where the tensors go."""
        return self.spread or self.argument("map_location", 1) is not None

    @property
    def on_gpu(self) -> bool:
        """Whether the file uses GPUs."""
        return not _GPU.isdisjoint(self.index.source.words())


def find_saves(file: TrainingFile) -> list[Save]:
    """Return the calls of `torch.save`."""
    found = [Save(node=call, index=file.index, habits=file) for call in file.calls("torch.save")]
    for save in found:
        save.anchors["last"] = [save.statement, *save.together][-1].node
    return found


def find_saved_states(file: TrainingFile) -> Iterator[SavedState]:
    """Yield the states of models that go into `torch.save`, each once."""
    seen: set[cst.CSTNode] = set()
    saves = file.sites("save")
    handed = bool(saves and file.wrappers) and _hands_wrapper_to_load(file)
    for save in saves:
        assert isinstance(save, Save)
        value = save.argument_node("obj", 0)
        for call, key in [] if value is None else _states(file, value, save.scope, "", frozenset()):
            if call not in seen:
                seen.add(call)
                site = SavedState(node=call, index=file.index, habits=file, key=key, save=save, handed=handed)
                site.anchors["model"] = site.model_node
                if site.wrapper is not None and len(site.restored) == 1:
                    site.anchors["restored"] = site.restored[0].model_node
                yield site


def find_restored_states(file: TrainingFile) -> Iterator[RestoredState]:
    """Yield the calls of `load_state_dict`."""
    for call, model in file.index.method_calls("load_state_dict"):
        if call.args:
            reads = _reads(file, call.args[0].value, "", frozenset())
            yield RestoredState(node=call, index=file.index, habits=file, reads=reads, anchors={"model": model})


def find_checkpoint_reads(file: TrainingFile) -> Iterator[CheckpointRead]:
    """Yield the calls of `torch.load`."""
    calls = file.calls("torch.load")
    if not calls:
        return
    restored = {
        origin.node
        for call, _ in file.index.method_calls("load_state_dict")
        for given in call.args[:1]
        for origin in file.flow.origins(_root(given.value), file.index.scope_of(call))
    }
    placed = {
        file.index.source.code(call.args[0].value)
        for call in calls
        if call.args and argument(call, "map_location", 1) is not None
    }
    for call in calls:
        path = file.index.source.code(call.args[0].value) if call.args else ""
        yield CheckpointRead(node=call, index=file.index, habits=file, restores=call in restored, beside=path in placed)


def _hands_wrapper_to_load(file: TrainingFile) -> bool:
    """Whether a wrapper goes to a function that loads, by its name: `restart_from_checkpoint(path, model)`."""
    for call in file.index.calls:
        name = last_name(call.func)
        if name != "load_state_dict" and _LOADS.search(name):
            values = [value for arg in call.args for value in _parts(arg.value)]
            if any(file.wrapper_of(value) is not None for value in values):
                return True
    return False


def _parts(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield an expression, or what is in it where it is a list, a tuple or a dictionary."""
    if isinstance(node, (cst.List, cst.Tuple, cst.Dict)):
        for element in node.elements:
            yield from _parts(element.value)
    else:
        yield node


def _form(file: TrainingFile, node: cst.BaseExpression) -> str:
    """Return "wrapped" or "bare" for a model, "" where it cannot be told."""
    if file.wrapper_of(node) is not None:
        return "wrapped"
    if isinstance(node, cst.Attribute) and node.attr.value == "module" and file.wrapper_of(node.value) is not None:
        return "bare"
    return ""


def _exact(file: TrainingFile, node: cst.BaseExpression | None) -> str:
    """The code of a path as far back as it is one plain value."""
    return "" if node is None else file.index.source.code(file.value_of(node))


def _states(
    file: TrainingFile, node: cst.BaseExpression, scope: Scope, key: str, seen: frozenset[object]
) -> Iterator[tuple[cst.Call, str]]:
    """Yield the calls of `state_dict` in a value that is saved, with the key under which each stands."""
    if isinstance(node, cst.IfExp):
        yield from _states(file, node.body, scope, key, seen)
        yield from _states(file, node.orelse, scope, key, seen)
    elif isinstance(node, cst.Call) and method_name(node) == "state_dict":
        yield node, key
    elif isinstance(node, (cst.Dict, cst.Call)):
        for item_key, value in _items(file, node):
            yield from _states(file, value, scope, item_key, seen)
    elif (name := dotted(node)) is not None:
        variable = file.flow.variable(name, scope)
        if variable in seen:
            return
        seen |= {variable}
        for source in file.flow.sources(variable):
            if source.value is not None and source.item is None:
                yield from _states(file, source.value, source.scope, key, seen)
        for item in file.index.items:
            base, _, rest = item.target.partition("[")
            if item.value is not None and file.flow.variable(base, item.statement.scope) == variable:
                yield from _states(file, item.value, item.statement.scope, rest.strip("]\"'"), seen)


def _items(file: TrainingFile, node: cst.Dict | cst.Call) -> Iterator[tuple[str, cst.BaseExpression]]:
    """Yield the items of a dictionary, `{"model": x}` or `dict(model=x)`, whose keys are written down."""
    if isinstance(node, cst.Dict):
        for element in node.elements:
            if isinstance(element, cst.DictElement) and isinstance(element.key, cst.SimpleString):
                yield element.key.raw_value, element.value
    elif file.index.qualified(node.func) in ("dict", "collections.OrderedDict"):
        yield from ((arg.keyword.value, arg.value) for arg in node.args if arg.keyword is not None)


def _reads(
    file: TrainingFile, node: cst.BaseExpression, key: str, seen: frozenset[object]
) -> list[tuple[cst.Call, str]]:
    """Return the `torch.load` calls whose value, or an item of it, an expression is; [] where it may be another."""
    if isinstance(node, cst.Subscript) and len(node.slice) == 1 and not key:
        part = node.slice[0].slice
        if isinstance(part, cst.Index) and isinstance(part.value, cst.SimpleString):
            return _reads(file, node.value, str(part.value.raw_value), seen)
    elif isinstance(node, cst.Call):
        return [(node, key)] if file.index.qualified(node.func) == "torch.load" else []
    name = dotted(node)
    variable = None if name is None else file.flow.variable(name, file.index.scope_of(node))
    if variable is None or variable in seen:
        return []
    found = []
    for source in file.flow.sources(variable):
        plain = source.value if source.item is None else None
        found.append([] if plain is None else _reads(file, plain, key, seen | {variable}))
    return [one for reads in found for one in reads] if all(found) else []


def _root(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return what an item or attribute is taken from: `checkpoint` for `checkpoint["model"]`."""
    held = node.value if isinstance(node, cst.Subscript) else receiver(node) if method_name(node) == "get" else None
    return node if held is None else _root(held)
