"""Find how gradients are added up over several batches, and losses whose weights stay on another device."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import libcst as cst

from retrofit.habits.file import TrainingFile
from retrofit.habits.ranked import alone, conditional
from retrofit.habits.sites import Call
from retrofit.knowledge.kinds import Loss, MakesTensor
from retrofit.survey.nodes import dotted, last_name, names_in
from retrofit.survey.scopes import Statement
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.wrapper import Wrapper

_KNOWN = frozenset({"no_sync", "require_backward_grad_sync"})
_OPTIMIZERS = re.compile(r"opt|scaler", re.I)


@dataclass(eq=False, kw_only=True)
class Accumulation(Site):
    """A backward pass of a model in DistributedDataParallel, of which only every n-th is followed by a step.

    The anchors "first" and "last" are the statements from the forward pass to the backward pass, where both stand in
    the loop over batches itself.

    Attributes:
        habits: the file that it stands in.
        test: the code of the condition under which the optimizer steps.
        model: the code of the wrapped model at the forward pass.
        wrapper: its wrapper.
        steady: whether the condition means the same before the forward pass.
    """

    habits: TrainingFile
    test: str
    wrapper: Wrapper
    steady: bool
    model: str = ""
    anchors: dict[str, cst.CSTNode] = field(default_factory=dict)

    @property
    def always_wrapped(self) -> bool:
        """Whether the model is wrapped however the script runs."""
        return not conditional(self.habits, self.wrapper.node) and not alone(self.habits)

    @property
    def context_import(self) -> bool:
        """Whether a fix has to import `contextlib` first."""
        return not self.habits.imports("contextlib")

    @property
    def context(self) -> str:
        """The name of the module `contextlib`, "" where it is taken."""
        known = self.file.imported_as("contextlib")
        taken = "contextlib" in self.index.bound_names | self.file.scope.names
        return known or ("" if taken else "contextlib")


@dataclass(eq=False, kw_only=True)
class LossWeight(Call):
    """A loss function that holds a tensor of weights, made on the CPU.

    Attributes:
        keyword: the argument that holds it.
    """

    keyword: str

    @cached_property
    def moved(self) -> bool:
        """Whether the loss, or a module that may hold it, may be moved to a device."""
        holder = self.index.parents.get(self.node)
        if not isinstance(holder, (cst.Assign, cst.AnnAssign)):
            return True
        name = self.target
        if not name:
            return True
        last = name.rpartition(".")[2]
        moved = any(last_name(held) == last for _, held in self.index.method_calls("to", "cuda", "half", "double"))
        return moved or (name.startswith("self.") and self._in_module)

    @property
    def _in_module(self) -> bool:
        """Whether it is a part of a module that moves with it."""
        holder = self.scope.enclosing_class
        if holder is None:
            return False
        flow = self.habits.flow
        bases = [base for one in flow.lineage(holder) for base in flow.bases(one)]
        return any((dotted(base) or "").endswith("Module") for base in bases)

    @property
    def on_gpu(self) -> bool:
        """Whether what goes through the model is surely on a GPU."""
        return bool(self.index.method_calls("cuda") and self.habits.backwards)


def find_accumulations(file: TrainingFile) -> Iterator[Accumulation]:
    """Yield the backward passes that add gradients up over batches, in files that never leave the averaging out."""
    if not file.ddp or not _KNOWN.isdisjoint(file.source.words()):
        return
    for backward in file.backwards:
        loop = backward.loop
        same = [other for other in file.backwards if other.loop is loop]
        if loop is None or len(same) != 1 or not isinstance(loop.node, cst.For) or loop.scope is not backward.scope:
            continue
        block = file.index.statements_in(loop.node.body)
        holder = next((part for part in block if part in backward.statement.path), None)
        step = _guarded_step(file, block)
        if holder is None or step is None or not holder.index < step.index:
            continue
        forward = _forward(file, block[: holder.index + 1])
        if forward is None:
            continue
        first, model, wrapper = forward
        assert isinstance(step.node, cst.If)
        names = {name.partition(".")[0] for name in names_in(step.node.test)}
        between = block[first.index : step.index]
        changed = {b.target for b in file.index.bindings if any(part in between for part in b.statement.path)}
        site = Accumulation(
            node=backward.node,
            index=file.index,
            habits=file,
            test=file.index.source.code(step.node.test),
            model=model,
            wrapper=wrapper,
            steady=names.isdisjoint(name.partition(".")[0] for name in changed),
        )
        if holder is backward.statement and not any(part.crowded for part in block):
            site.anchors.update(first=first.node, last=holder.node)
        yield site


def find_loss_weights(file: TrainingFile) -> Iterator[LossWeight]:
    """Yield the losses with a tensor of weights that is made on the CPU."""
    known = file.index.knowledge.named(Loss)
    for call in file.calls(*known):
        for keyword, position in known[file.index.qualified(call.func)].tensors.items():
            site = LossWeight(node=call, index=file.index, habits=file, keyword=keyword)
            value = site.argument_node(keyword, position if position >= 0 else None)
            if value is not None and _on_cpu(file, value):
                site.anchors["weight"] = value
                yield site


def _guarded_step(file: TrainingFile, block: list[Statement]) -> Statement | None:
    """Return the `if (i + 1) % n == 0:` of a loop under which alone the optimizer steps."""
    code = file.index.source.read
    steps = [part for part in block if _steps(file, part)]
    if len(steps) != 1 or not isinstance(steps[0].node, cst.If) or steps[0].node.orelse is not None:
        return None
    test = steps[0].node.test
    compared = test.left if isinstance(test, cst.BooleanOperation) else test
    if not isinstance(compared, cst.Comparison) or "%" not in code(compared):
        return None
    clearing = [file.index.statement(call) for call, _ in file.index.method_calls("zero_grad")]
    cleared = any(part in one.path for one in clearing for part in block if part is not steps[0])
    return None if cleared else steps[0]


def _steps(file: TrainingFile, part: Statement) -> bool:
    stepped = [held for call, held in file.index.method_calls("step") if part in file.index.statement(call).path]
    return any(_OPTIMIZERS.search(file.index.source.code(held)) for held in stepped)


def _forward(file: TrainingFile, block: list[Statement]) -> tuple[Statement, str, Wrapper] | None:
    """Return the first statement of a block that calls a model in DistributedDataParallel, or hands it on."""
    inside = set(block)
    for call in file.index.calls:
        part = next((p for p in file.index.statement(call).path if p in inside), None)
        for node in (call.func, *(arg.value for arg in call.args)) if part is not None else ():
            name = dotted(node)
            if name is None or name in file.index.entry.aliases:
                continue
            wrapper = file.wrapper_of(node)
            if part is not None and wrapper is not None and wrapper.kind == "ddp":
                return part, name, wrapper
    return None


def _on_cpu(file: TrainingFile, value: cst.BaseExpression) -> bool:
    """Whether a tensor is surely made on the CPU and moved nowhere."""
    made = file.value_of(value)
    return (
        isinstance(made, cst.Call)
        and file.index.qualified(made.func) in file.index.knowledge.named(MakesTensor)
        and not any(arg.star or (arg.keyword is not None and arg.keyword.value == "device") for arg in made.args)
        and ".cuda" not in file.index.source.read(made)
    )
