"""Find data loaders, and the samplers that share a dataset out among the ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from retrofit.habits.file import TrainingFile
from retrofit.habits.ranked import alone, made_of
from retrofit.habits.sites import Call
from retrofit.knowledge.kinds import DataLoader, Framework, GoesOver
from retrofit.knowledge.kinds import Sampler as SamplerKind
from retrofit.survey.counters import increments
from retrofit.survey.nodes import argument, dotted, last_name
from retrofit.survey.order import defines
from retrofit.survey.origins import Origin
from retrofit.survey.scopes import Statement
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.words import GATHERS, NORMALISES, SEVERAL, SHARES, speak


@dataclass(eq=False, kw_only=True)
class Loader(Call):
    """A `DataLoader` call."""

    @property
    def shuffle(self) -> str:
        """The code of `shuffle`, "" where it is not given."""
        return self.argument("shuffle", 2) or ""

    @property
    def sampler(self) -> cst.BaseExpression | None:
        """What is given as `sampler` or `batch_sampler`, `None` itself excepted."""
        for name, position in (("sampler", 3), ("batch_sampler", 4)):
            value = self.argument_node(name, position)
            if value is not None and self.index.source.code(value) != "None":
                return value
        return None

    @cached_property
    def samplers(self) -> list[Origin]:
        """Where the values of its sampler are made."""
        if self.sampler is None:
            return []
        return list(self.habits.flow.deep_origins(self.sampler, self.scope))

    @property
    def sampler_code(self) -> str:
        """The code of its sampler, "" for none."""
        return "" if self.sampler is None else self.index.source.code(self.sampler)

    @property
    def sampler_given(self) -> bool:
        """Whether its sampler is surely one, and not None on some way."""
        return bool(self.samplers) and all(isinstance(origin.node, cst.Call) for origin in self.samplers)

    @property
    def shared_out(self) -> bool:
        """Whether its sampler may be a DistributedSampler."""
        return any(self._made_by(origin, shares=True) for origin in self.samplers)

    @property
    def all_shared_out(self) -> bool:
        """Whether its sampler is surely a DistributedSampler."""
        return all(self._made_by(origin, shares=True) for origin in self.samplers)

    def _made_by(self, origin: Origin, shares: bool) -> bool:
        """Whether a sampler is a known one that shares samples out, or that goes over all."""
        made = _sampler(self.habits, origin.node) if isinstance(origin.node, cst.Call) else None
        return made is not None and made.shares is shares

    @cached_property
    def training(self) -> list[Statement]:
        """The batch loops with a backward pass in them that take their batches from it."""
        return [s for s in self.habits.training_loops if isinstance(s.node, cst.For) and self.gives(s.node.iter)]

    def gives(self, iterable: cst.BaseExpression) -> bool:
        """Whether ``iterable`` goes over it."""
        flow = self.habits.flow
        passing = {"enumerate", "iter", *self.index.knowledge.last_names(GoesOver)}
        while isinstance(iterable, cst.Call) and iterable.args:
            if last_name(iterable.func) not in passing:
                break
            iterable = iterable.args[0].value
        if not isinstance(iterable, (cst.Name, cst.Attribute, cst.Call)):
            return False
        return any(origin.node is self.node for origin in flow.deep_origins(iterable, self.index.scope_of(iterable)))

    @property
    def dataset(self) -> cst.BaseExpression | None:
        """The dataset."""
        return argument(self.call, "dataset", 0)

    @property
    def dropping(self) -> str:
        """Which leaves samples out by `drop_last=True`: "DataLoader" itself, its "DistributedSampler" or none, ""."""
        if self.argument("drop_last", 8) == "True":
            return "DataLoader"
        for origin in self.samplers:
            args = origin.node.args if isinstance(origin.node, cst.Call) else ()
            given = {arg.keyword.value: self.index.source.code(arg.value) for arg in args if arg.keyword}
            if given.get("drop_last") == "True":
                return "DistributedSampler"
        return ""

    @cached_property
    def whole(self) -> bool:
        """Whether it surely goes over the whole dataset in its own order: no sampler, or a plain one of PyTorch."""
        if self.spread:
            return False
        if self.sampler is None:
            return True
        return bool(self.samplers) and all(self._made_by(origin, shares=False) for origin in self.samplers)

    @cached_property
    def elsewhere(self) -> bool:
        """Whether another branch or loader may share the data out, or a library that prepares loaders itself."""
        sharing = [module for one in self.index.knowledge.of(Framework) if one.shares for module in one.modules]
        packages = {module.partition(".")[0] for module in sharing}
        if any(module.partition(".")[0] in packages for _, module in self.index.entry.imports):
            return True
        tests = [part.node.test for part in self.statement.ancestors if isinstance(part.node, cst.If)]
        tests += [node.test for node in self.index.ancestors(self.node) if isinstance(node, cst.IfExp)]
        if any(speak(self.index.source.words(test), SEVERAL) for test in tests):
            return True
        others = [site for site in self.habits.sites("loader") if isinstance(site, Loader) and site is not self]
        return any(other.shared_out and not set(other.training).isdisjoint(self.training) for other in others)

    @cached_property
    def trains_wrapped(self) -> bool:
        """Whether a loop over it surely trains a model in DistributedDataParallel."""
        inside = set(self.training)
        if not inside:
            return False
        for call in self.index.calls:
            if not inside.isdisjoint(self.index.statement(call).path):
                for node in (call.func, *(arg.value for arg in call.args)):
                    wrapper = self.habits.wrapper_of(node) if dotted(node) else None
                    if wrapper is not None and wrapper.kind == "ddp":
                        return True
        return False

    @cached_property
    def own_share(self) -> bool | None:
        """Whether the dataset may give each rank its own share; None where its class cannot be seen."""
        if self.dataset is None:
            return True
        origins = self.habits.flow.deep_origins(self.dataset, self.scope)
        made = [node for origin in origins for node in (origin.node, *self._classes(origin.node))]
        words = made_of(self.habits, self.dataset, self.scope).union(*map(self.index.source.words, made))
        if speak(words, SHARES):
            return True
        known = [self._finite(origin.node) for origin in origins]
        return None if not known or not all(known) else False

    def _finite(self, made: cst.BaseExpression) -> bool:
        """Whether an expression surely builds a dataset that a sampler can pick from."""
        if not isinstance(made, cst.Call):
            return False
        name = self.index.qualified(made.func)
        if name.startswith("torchvision.datasets.") or name.rpartition(".")[2] in ("TensorDataset", "Subset"):
            return True
        return self.habits.flow.class_made(made) is not None

    def _classes(self, made: cst.BaseExpression) -> list[cst.CSTNode]:
        """Return the class of the file that a call makes an object of, and its bases in the file."""
        defined = self.habits.flow.class_made(made)
        return [] if defined is None else [part.node for part in self.habits.flow.lineage(defined)]

    @cached_property
    def loop(self) -> EpochLoop | None:
        """The epoch loop, where it goes over it again and again with a variable that counts."""
        return _epoch_loop(self.habits, [self])

    @cached_property
    def new_sampler(self) -> str:
        """The name for a sampler of its own: `train_sampler` for `train_loader`; "" where there is no good one."""
        holder = self.index.parents.get(self.node)
        if not isinstance(holder, cst.Assign) or self.statement.crowded or not self.target:
            return ""
        base, dot, last = self.target.rpartition(".")
        if re.fullmatch(r"(data_?)?(loader|dl)", last, re.I):
            last = "sampler"
        else:
            last = re.sub(r"_?(data_?)?(loader|dl)$", "", last, flags=re.I) + "_sampler"
        name = base + dot + last
        taken = self.index.bound_names | self.file.scope.names | self.scope.names
        return "" if name in taken or self.index.parents.get(holder) is not self.statement.node else name

    @property
    def dataset_code(self) -> str:
        """The code of the dataset, "" where it is more than a name."""
        return "" if self.dataset is None or dotted(self.dataset) is None else self.index.source.code(self.dataset)

    @property
    def sampler_class(self) -> str:
        """The name of DistributedSampler in the file, "" where it is not imported."""
        known = self.index.entry.imported_as
        return next(filter(None, map(known, _shares(self.habits))), "")

    @cached_property
    def fixable(self) -> bool:
        """Whether it is sure how it gets a DistributedSampler: the process group is there, and so is the epoch."""
        plain = self.sampler is None and self.shuffle in ("", "True", "False")
        plain = plain and all(arg.keyword is not None for arg in self.call.args[2:])
        if not plain or not self.new_sampler or not self.dataset_code or self.loop is None:
            return False
        return bool(self.in_loop) and self._after_group

    @property
    def _after_group(self) -> bool:
        """Whether a process group is started before it, in its own function or in those that call it."""
        return any(
            early.scope is late.scope and early.order < late.order
            for group in self.habits.groups
            for early in self.habits.flow.leading(self.index.statement(group))
            for late in self.habits.flow.leading(self.statement)
        )

    @property
    def alone(self) -> bool:
        """Whether the script may also run without a process group."""
        return alone(self.habits)

    @property
    def in_loop(self) -> str:
        """The code by which the epoch loop reaches the new sampler."""
        if self.loop is None:
            return ""
        if self.loop.scope is self.scope:
            return self.new_sampler
        names = self.habits.flow.names_of({Origin(self.call)}, self.loop.scope)
        return f"{names[0]}.sampler" if names else ""


@dataclass(eq=False, kw_only=True)
class Sampler(Call):
    """A `DistributedSampler` call.

    Attributes:
        loaders: the data loaders that take it.
    """

    loaders: list[Loader]

    @property
    def shuffles(self) -> bool:
        """Whether it surely shuffles."""
        return not self.spread and self.argument("shuffle", 3) in (None, "True")

    @property
    def told_epoch(self) -> bool:
        """Whether anything in the file tells a sampler the epoch."""
        return "set_epoch" in self.index.source.words()

    @cached_property
    def loop(self) -> EpochLoop | None:
        """The epoch loop, where it goes over its loader again and again with a variable that counts."""
        return _epoch_loop(self.habits, self.loaders)

    @property
    def reached(self) -> str:
        """The code by which the epoch loop reaches it: its name, or its loader's `.sampler`; "" where it cannot."""
        if self.loop is None:
            return ""
        names = self.habits.flow.names_of({Origin(self.call)}, self.loop.scope)
        if names:
            return names[0]
        for loader in self.loaders:
            names = self.habits.flow.names_of({Origin(loader.call)}, self.loop.scope)
            if names:
                return f"{names[0]}.sampler"
        return ""

    @property
    def conditional(self) -> bool:
        """Whether there is another value where the script does not run on several ranks."""
        in_branch = any(isinstance(part.node, cst.If) for part in self.statement.around)
        return in_branch or self.index.inside(self.node, cst.IfExp)

    @property
    def class_name(self) -> str:
        """Its class as the file spells it."""
        return self.index.source.code(self.call.func)

    @cached_property
    def share_fault(self) -> str:
        """What is wrong with the share that its arguments give each rank, "" where nothing is."""
        if self.spread:
            return ""
        number, rank = self._value("num_replicas", 1), self._value("rank", 2)
        if rank is not None and rank.isdigit() and not (number == "1" and rank == "0"):
            return f"`rank={rank}` is the same in every process, so all ranks get one and the same share"
        if number is not None and number.isdigit() and (number != "1" or rank is None):
            return f"`num_replicas={number}` is right for {number} processes only"
        if number is not None and re.search(r"(^|[._])(batch_?size|bs|batch)$", number):
            return f"`num_replicas={number}` is a batch size, not the number of processes"
        if rank is not None and re.search(
            r"device_count\(\)$|(^|[._])(world_?size|n_?gpus?|num_gpus)$|get_world_size\(", rank
        ):
            return f"`rank={rank}` is the number of processes, not the rank of this one"
        if number is not None and re.search(r"(^|[._])(local_)?rank$|get_rank\(", number):
            return f"`num_replicas={number}` is a rank, not the number of processes"
        return ""

    def _value(self, name: str, position: int) -> str | None:
        node = self.argument_node(name, position)
        if node is None:
            return None
        code = self.index.source.code(self.habits.value_of(node))
        return code if code.isdigit() else self.index.source.code(node)

    @property
    def defaults(self) -> str:
        """The call without the arguments that the process group answers by itself."""
        kept = [
            arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)
            for number, arg in enumerate(self.call.args)
            if not (arg.keyword.value in ("num_replicas", "rank") if arg.keyword else number in (1, 2))
        ]
        behind = any(arg.keyword is None for arg in self.call.args[3:])
        return "" if behind else self.index.source.module.code_for_node(self.call.with_changes(args=kept))

    @cached_property
    def other_dataset(self) -> str:
        """The dataset of a loader that takes it, where that is surely another one than its own; "" for none."""
        mine = argument(self.call, "dataset", 0)
        for loader in self.loaders if mine is not None and dotted(mine) else ():
            theirs = loader.dataset
            if mine is None or theirs is None or dotted(theirs) is None or len(loader.samplers) != 1:
                continue
            ways = [self._single(mine, self), self._single(theirs, loader)]
            if ways[0] is None or ways[1] is None or ways[0] is ways[1]:
                continue
            names = [self.index.source.code(node) for node in (mine, theirs)]
            made = [made_of(self.habits, way, self.index.scope_of(way)) for way in ways if way is not None]
            last = [name.rpartition(".")[2] for name in names]
            if last[0] in made[1] or last[1] in made[0] or made[0] == made[1]:
                continue
            return names[1]
        return ""

    def _single(self, node: cst.BaseExpression, at: Call) -> cst.BaseExpression | None:
        """Return the one call that makes a value, None where there may be several."""
        name = dotted(node)
        sources = [] if name is None else self.habits.flow.sources(self.habits.flow.variable(name, at.scope))
        if len(sources) != 1 or not isinstance(sources[0].value, cst.Call) or sources[0].item is not None:
            return None
        return sources[0].value

    @property
    def own_dataset(self) -> str:
        """The code of its dataset."""
        node = argument(self.call, "dataset", 0)
        return "" if node is None else self.index.source.code(node)


@dataclass(eq=False, kw_only=True)
class Evaluation(Site):
    """A loop without a backward pass over a rank's share of the data; the anchor "head" is what it goes over.

    Attributes:
        sums: the variables that add something up over its batches.
        used: whether a later statement of the function uses one of them.
        reduced: whether the function, or one that calls it, may bring the ranks' values together.
        dropping: the call that leaves samples out by `drop_last=True`: "DataLoader", "DistributedSampler" or "".
    """

    sums: list[str]
    used: bool
    reduced: bool
    dropping: str


def _loader(file: TrainingFile, call: cst.Call) -> Loader:
    site = Loader(node=call, index=file.index, habits=file)
    if file.ddp and site.loop is not None:
        site.anchors["loop"] = file.index.statements_in(site.loop.body)[0].node
    return site


def _sampler(file: TrainingFile, call: cst.Call) -> SamplerKind | None:
    return file.index.knowledge.known(SamplerKind, file.index.qualified(call.func))


def _shares(file: TrainingFile) -> list[str]:
    """Return the full names of samplers that share samples out among the ranks."""
    return [name for name, one in file.index.knowledge.named(SamplerKind).items() if one.shares]


def find_loaders(file: TrainingFile) -> list[Loader]:
    """Return the data loaders of a file."""
    return [_loader(file, call) for call in file.calls(*file.index.knowledge.named(DataLoader))]


def find_samplers(file: TrainingFile) -> Iterator[Sampler]:
    """Yield the distributed samplers of a file."""
    loaders = [site for site in file.sites("loader") if isinstance(site, Loader)]
    for call in file.calls(*_shares(file)):
        mine = [loader for loader in loaders if any(origin.node is call for origin in loader.samplers)]
        site = Sampler(node=call, index=file.index, habits=file, loaders=mine)
        if site.loop is not None:
            site.anchors["loop"] = file.index.statements_in(site.loop.body)[0].node
        yield site


def find_evaluations(file: TrainingFile) -> Iterator[Evaluation]:
    """Yield the loops that evaluate on a share of the data."""
    loaders = [site for site in file.sites("loader") if isinstance(site, Loader)]
    shared = [loader for loader in loaders if loader.samplers and loader.sampler_given and loader.all_shared_out]
    for statement in file.index.loops if shared else ():
        node = statement.node
        if not isinstance(node, cst.For) or statement in file.training_loops or statement.scope.kind != "function":
            continue
        mine = [loader for loader in shared if loader.gives(node.iter)]
        if not mine:
            continue
        if any(loader.gives(node.iter) for loader in loaders if loader not in shared):
            continue
        sums = list(_sums(file, statement))
        around = (statement, *statement.around)
        later = {name for part in around for after in part.following for name in file.source.words(after.node)}
        yield Evaluation(
            node=node,
            index=file.index,
            anchors={"head": node.iter},
            sums=sums,
            used=any(name in later for name in sums),
            reduced=_may_reduce(file, statement),
            dropping=mine[0].dropping if len(mine) == 1 else "",
        )


def _sums(file: TrainingFile, loop: Statement) -> Iterator[str]:
    """Yield the plain variables to which a loop adds: `correct += ...`, `correct = correct + ...`."""
    for binding in file.index.bindings:
        if loop not in binding.statement.path or "." in binding.target:
            continue
        line = binding.statement.node
        small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
        counts = isinstance(small, cst.AugAssign) and file.source.code(small.value) == "1"
        if increments(binding) and not counts:
            yield binding.target


def _may_reduce(file: TrainingFile, loop: Statement) -> bool:
    """Whether the code of a loop's function, or of those that call it, speaks of bringing the ranks together."""
    scopes = {here.scope for here in file.flow.leading(loop)}
    parts = [scope.node for scope in scopes if scope.kind != "module"]
    if file.index.scope in scopes:
        parts += [part.node for part in file.index.entry.body if not defines(part)]
    words = {word for part in parts for word in file.source.words(part)}
    return speak((word for word in words if not speak([word], NORMALISES)), GATHERS)


def _epoch_loop(file: TrainingFile, loaders: list[Loader]) -> EpochLoop | None:
    """Return the epoch loop that goes over one of some loaders again and again with a variable that counts."""
    if not any(loader.training for loader in loaders):
        return None
    found = [loop for loop in file.loops if loop.target.isidentifier()]
    repeated = [
        loop
        for loop in found
        if loop.statement in file.training_loops and not any(loop.statement in loader.training for loader in loaders)
    ]
    return repeated[0] if len(repeated) == 1 else None
