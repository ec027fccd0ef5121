"""Find data loaders, and the samplers that share a dataset out among the ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from retrofit.habits.file import TrainingFile
from retrofit.habits.sites import Call
from retrofit.survey.flow import Origin, first_argument
from retrofit.survey.index import Statement
from retrofit.survey.sites import EpochLoop

_DISTRIBUTED = ("torch.utils.data.distributed.DistributedSampler", "torch.utils.data.DistributedSampler")
_LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
_ITERATORS = frozenset({"enumerate", "iter", "tqdm", "tqdm.tqdm", "tqdm.auto.tqdm", "track", "rich.progress.track"})


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
        return any(
            isinstance(o.node, cst.Call) and self.index.qualified(o.node.func) in _DISTRIBUTED for o in self.samplers
        )

    @cached_property
    def training(self) -> list[Statement]:
        """The batch loops with a backward pass in them that take their batches from it."""
        loops = {s for b in self.habits.backwards for way in self.habits.flow.enclosing_loops(b.statement) for s in way}
        return [s for s in loops if isinstance(s.node, cst.For) and self.gives(s.node.iter)]

    def gives(self, iterable: cst.BaseExpression) -> bool:
        """Whether ``iterable`` goes over it."""
        flow = self.habits.flow
        while isinstance(iterable, cst.Call) and iterable.args:
            if self.index.qualified(iterable.func) not in _ITERATORS:
                break
            iterable = iterable.args[0].value
        if not isinstance(iterable, (cst.Name, cst.Attribute, cst.Call)):
            return False
        return any(origin.node is self.node for origin in flow.deep_origins(iterable, self.index.scope_of(iterable)))

    @property
    def dataset(self) -> cst.BaseExpression | None:
        """The dataset."""
        return first_argument(self.call, "dataset")

    @cached_property
    def own_share(self) -> bool | None:
        """Whether the dataset may give each rank its own share; None where its class cannot be seen."""
        if self.dataset is None:
            return True
        origins = self.habits.flow.deep_origins(self.dataset, self.scope)
        code = " ".join(self.index.source.code(origin.node) for origin in origins)
        if re.search(r"rank|shard|world_size|split_by|by_node|Iterable|WebDataset|stream", code):
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
        defined = self.habits.flow.defined(made.func, self.index.scope_of(made))
        return defined is not None and defined.kind == "class" and "rank" not in self.index.source.code(defined.node)


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
        return re.search(r"\bset_epoch\b", self.index.source.text) is not None

    @cached_property
    def loop(self) -> EpochLoop | None:
        """The epoch loop, where it goes over its loader again and again with a variable that counts."""
        if not any(loader.training for loader in self.loaders):
            return None
        found = [loop for loop in self.habits.loops if re.fullmatch(r"[A-Za-z_]\w*", loop.target)]
        own = {s for b in self.habits.backwards for way in self.habits.flow.enclosing_loops(b.statement) for s in way}
        repeated = [loop for loop in found if loop.statement in own and not self._goes_over(loop)]
        return repeated[0] if len(repeated) == 1 else None

    def _goes_over(self, loop: EpochLoop) -> bool:
        return any(loop.statement in loader.training for loader in self.loaders)

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
        in_branch = any(isinstance(s.node, cst.If) and s.scope is self.scope for s in self.statement.ancestors)
        inline = any(isinstance(node, cst.IfExp) for node in self.index.ancestors(self.node))
        return in_branch or inline

    @property
    def class_name(self) -> str:
        """Its class as the file spells it."""
        return self.index.source.code(self.call.func)


def find_loaders(file: TrainingFile) -> list[Loader]:
    """Return the data loaders of a file."""
    return [Loader(node=call, index=file.index, habits=file) for call in file.calls(*_LOADERS)]


def find_samplers(file: TrainingFile) -> Iterator[Sampler]:
    """Yield the distributed samplers of a file."""
    loaders = [site for site in file.sites("loader") if isinstance(site, Loader)]
    for call in file.calls(*_DISTRIBUTED):
        mine = [loader for loader in loaders if any(origin.node is call for origin in loader.samplers)]
        site = Sampler(node=call, index=file.index, habits=file, loaders=mine)
        if site.loop is not None:
            site.anchors["loop"] = file.index.statements_in(site.loop.body)[0].node
        yield site
