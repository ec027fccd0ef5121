"""Find what every rank does in the same way and should not: devices, seeds, learning rates, prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from retrofit.habits.file import TrainingFile
from retrofit.habits.names import conditions, follows, met, moves, unconditional
from retrofit.habits.processes import Group
from retrofit.habits.sites import Call
from retrofit.habits.wrapping import Wrapping
from retrofit.knowledge.kinds import Seeds
from retrofit.survey.branches import exclude_each_other
from retrofit.survey.nodes import dotted, last_name, method_name, receiver
from retrofit.survey.scopes import Statement
from retrofit.survey.sites.base import Site
from retrofit.survey.words import OF_RANK, SEEDED, WARMING, speak

_DISTRIBUTED = re.compile(r"distributed|world_size|local_rank\s*(!=|>=|>)\s*-?1?0?$")
_PLAIN_DEVICE = re.compile(r"(?:torch\.device\()?f?[\"'](cpu|cuda)\b[^\"']*[\"'](?:,[^()]*)?\)?")
_FIXED = re.compile(r"""(["'])cuda:(\d+)\1""")
_AUGMENTS = re.compile(
    r"\b(Random(?!Sampler|ForestR|State)\w+|ColorJitter|RandAugment|AutoAugment|TrivialAugment\w*|Mixup|CutMix)\s*\(|\balbumentations\b"
)
_WORLD = re.compile(
    r"(^|[._])(world_?size|n_?gpus?|num_gpus|ngpus_per_node|num_replicas|num_processes|device_count|get_world_size)(\(\))?$",
    re.I,
)
_RATE = re.compile(r"(^|[._])(base_|init_|initial_|max_)?(lr|learning_?rate)(_\w+)?$", re.I)
_ONE_GPU_EACH = re.compile(
    r"CUDA_VISIBLE_DEVICES|SLURM|gpus[-_]per[-_]task|set_default_device|set_default_tensor_type", re.I
)
_STARTS = re.compile(r"multiprocessing\b[^\n]*\bspawn|mp\.spawn|\blocal_rank\b", re.I)
_CHOOSES_DEVICE = re.compile(
    r"set_device|device_ids|device_id\b|cuda\.device\(|cuda:(\{|%)|[\"']cuda:?[\"']\s*[+,%]|\.cuda\(\s*[^)\s]|"
    r"torch\.device\(\s*[^\"'\s]|LOCAL_RANK[^\n]*cuda|accelerat|Accelerator",
)
_QUIET = re.compile(
    r"builtins?\.print|__builtin__|print\s*=|setup_for_distributed|suppress_print|def print\b|sys\.stdout\s*=|devnull"
)

_LOGGING = frozenset({"debug", "info", "warning"})
_LOGGING_SETUP = re.compile(r"basicConfig$|set\w*$|addHandler$|disable$|\w*log(ger|ging)s?$", re.I)


@dataclass(eq=False, kw_only=True)
class FixedDevice(Site):
    """One GPU by its number where every rank of a DDP run gets the same one; `node` is what names it.

    Attributes:
        device: the device, such as `cuda:0`.
        certain: whether each process surely sees all GPUs.
    """

    device: str
    certain: bool


@dataclass(eq=False, kw_only=True)
class SameDevice(Site):
    """A move to "the" GPU in a script that never says which one is the rank's; `node` is the move.

    Attributes:
        group: the NCCL process group.
        certain: whether each process surely sees all GPUs.
    """

    group: Group
    certain: bool


@dataclass(eq=False, kw_only=True)
class Seed(Call):
    """The first seed that is the same on all ranks of a script with random augmentation.

    Attributes:
        augmentation: what is random.
    """

    augmentation: str


@dataclass(eq=False, kw_only=True)
class ScaledRate(Site):
    """A learning rate multiplied by the number of processes; `node` is the product."""

    @property
    def warms_up(self) -> bool:
        """Whether anything in the file speaks of warming up."""
        return speak(self.index.source.words(), WARMING)


@dataclass(eq=False, kw_only=True)
class Print(Call):
    """The first line that every rank prints or logs in a training loop.

    Attributes:
        others: how many more the loop has.
    """

    others: int

    @property
    def printed(self) -> bool:
        """Whether it is printed, and not logged."""
        return self.qualified == "print"


@dataclass(eq=False, kw_only=True)
class WrongBackend(Site):
    """A model that is wrapped on the CPU in an NCCL process group, or on a GPU in a Gloo one; `node` is the backend.

    Attributes:
        backend: "nccl" or "gloo".
        device: "cpu" or "cuda".
    """

    backend: str
    device: str


def _ddp(file: TrainingFile) -> list[Wrapping]:
    return [site for site in file.sites("wrapping") if isinstance(site, Wrapping) and site.kind == "ddp"]


def _calls_on(file: TrainingFile, site: Wrapping, *methods: str) -> Iterator[cst.Call]:
    """Yield the calls of methods of some names on the model that is wrapped."""
    origins = set(file.flow.origins(site.operand_node, site.scope))
    for call, holder in file.index.method_calls(*methods):
        if not origins.isdisjoint(file.flow.origins(holder, file.index.scope_of(call))):
            yield call


def find_fixed_devices(file: TrainingFile) -> Iterator[FixedDevice]:
    """Yield where a rank's device is a fixed one."""
    wrappings = _ddp(file)
    if not wrappings or not file.groups or any(isinstance(g, Group) and g.alone for g in file.sites("group")):
        return
    certain = _sees_all(file)
    index = file.index
    seen: set[cst.CSTNode] = set()
    for site in wrappings:
        ids = site.argument_node("device_ids", 1)
        if isinstance(ids, cst.List) and ids.elements and all(isinstance(e.value, cst.Integer) for e in ids.elements):
            yield FixedDevice(node=ids, index=index, device=index.source.code(ids), certain=certain)
        for node in _placed_on(file, site):
            if node not in seen:
                seen.add(node)
                device = _FIXED.search(index.source.code(node))
                if device is not None:
                    yield FixedDevice(node=node, index=index, device=device[0].strip("\"'"), certain=certain)
    for call in file.calls("torch.cuda.set_device"):
        first = call.args[0].value if call.args else None
        fixed = isinstance(first, cst.Integer) or (
            isinstance(first, cst.SimpleString) and _FIXED.fullmatch(first.value)
        )
        if fixed and _in_every_process(file, index.statement(call)) and file.ranks(call) == "all":
            assert first is not None
            yield FixedDevice(node=call, index=index, device=index.source.code(first), certain=certain)


def _sees_all(file: TrainingFile) -> bool:
    """Whether each process surely sees all GPUs.

    It does where the file starts the processes itself, or reads a local rank, which is of no use otherwise, and nothing
    in the file hints at a launcher that shows each process one GPU alone.
    """
    text = file.source.read()
    return _STARTS.search(text) is not None and _ONE_GPU_EACH.search(text) is None


def _in_every_process(file: TrainingFile, statement: Statement) -> bool:
    """Whether a statement runs in a run of several processes, whatever else it depends on."""
    tests = [file.index.source.read(test) for test in met(file.index, statement)]
    if any(_DISTRIBUTED.search(test) and "not " not in test for test in tests):
        return True
    return unconditional(statement)


def _placed_on(file: TrainingFile, site: Wrapping) -> Iterator[cst.BaseExpression]:
    """Yield the one expression that names the device of each move of a wrapped model."""
    index = file.index
    for call in _calls_on(file, site, "to", "cuda"):
        if not call.args or not moves(index, call):
            continue
        statement, value = index.statement(call), file.value_of(call.args[0].value)
        numbered = method_name(call) == "cuda" and isinstance(value, cst.Integer)
        # What runs under further conditions may be for a run of one process.
        apart = exclude_each_other(site.statement, statement) or not _wherever(site, statement)
        if (
            (numbered or _FIXED.search(index.source.code(value)))
            and not apart
            and _wherever(site, index.statement(value))
        ):
            yield value


def _wherever(site: Wrapping, statement: Statement) -> bool:
    """Whether a statement runs under no other conditions than a wrapper."""
    around = conditions(site.statement)
    return all(test in around for test in conditions(statement))


def find_same_devices(file: TrainingFile) -> Iterator[SameDevice]:
    """Yield the first move of a wrapped model to the default GPU where no rank chooses its own."""
    text = file.source.read()
    if not file.ddp or _CHOOSES_DEVICE.search(text) or _ONE_GPU_EACH.search(text):
        return
    groups = [s for s in file.sites("group") if isinstance(s, Group) and s.backend == "nccl" and not s.alone]
    for site in _ddp(file):
        group = next((group for group in groups if group.before(site.statement)), None)
        if group is None:
            continue
        for call in _calls_on(file, site, "to", "cuda", "xpu"):
            where = file.index.source.code(file.value_of(call.args[0].value)) if call.args else ""
            plain = not where or re.search(r"^[\"']cuda[\"']$|device\([\"']cuda[\"']", where)
            if plain and moves(file.index, call):
                yield SameDevice(node=call, index=file.index, group=group, certain=_sees_all(file))
                return


def find_seeds(file: TrainingFile) -> Iterator[Seed]:
    """Yield the first seed of a DDP script with random augmentation, where no rank has its own.

    PyTorch's counts: from it come augmentation and dropout in the process, and the seeds of the loader's workers.
    """
    augmentation = _AUGMENTS.search(file.source.read())
    known = file.index.knowledge.named(Seeds)
    calls = file.calls(*(name for name, one in known.items() if one.torch))
    if not _ddp(file) or augmentation is None or not calls:
        return
    every = [*calls, *file.calls(*(name for name, one in known.items() if not one.torch))]
    given = [*every, *(file.value_of(call.args[0].value) for call in every if call.args)]
    if "worker_init_fn" in file.source.words() or any(speak(file.source.words(node), SEEDED) for node in given):
        return
    first = next((call for call in calls if file.ranks(call) != "first"), None)
    if first is not None:
        name = augmentation[0].rstrip("( ")
        yield Seed(node=first, index=file.index, habits=file, augmentation=name)


def find_scaled_rates(file: TrainingFile) -> Iterator[ScaledRate]:
    """Yield the products of a learning rate and the number of processes."""
    if not file.ddp:
        return
    for node in file.index.parents:
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
            sides = ((node.left, node.right), (node.right, node.left))
            if any(_is_world(file, b) and (_is_rate(file, a) or _becomes_rate(file, node, a)) for a, b in sides):
                yield ScaledRate(node=node, index=file.index)
        elif (
            isinstance(node, cst.AugAssign)
            and isinstance(node.operator, cst.MultiplyAssign)
            and _is_rate(file, node.target)
            and _is_world(file, node.value)
        ):
            yield ScaledRate(node=node.value, index=file.index)


def _becomes_rate(file: TrainingFile, product: cst.BinaryOperation, factor: cst.BaseExpression) -> bool:
    """Whether a product of a number is given as a learning rate: `lr=0.1 * world_size`."""
    holder = file.index.parents[product]
    keyword = holder.keyword if isinstance(holder, cst.Arg) else None
    return isinstance(factor, cst.BaseNumber) and keyword is not None and keyword.value == "lr"


def _is_rate(file: TrainingFile, node: cst.CSTNode) -> bool:
    return _RATE.search(file.index.source.code(node)) is not None and dotted(node) is not None


def _is_world(file: TrainingFile, node: cst.BaseExpression) -> bool:
    name = dotted(node.func if isinstance(node, cst.Call) else node)
    return name is not None and _WORLD.search(name) is not None


def find_prints(file: TrainingFile) -> Iterator[Print]:
    """Yield the first line that all ranks print or log in a training loop, where a file does not silence the others."""
    if not file.ddp or not file.groups or _QUIET.search(file.source.read()):
        return
    index = file.index
    inside = {loop.scope for loop in file.training_loops}
    prints = [call for call in index.calls if dotted(call.func) == "print" or _logs(file, call)]
    prints = [call for call in prints if not speak(index.source.words(call), OF_RANK)]
    found: dict[Statement, list[cst.Call]] = {}
    for call in prints:
        statement = index.statement(call)
        if statement.scope not in inside:
            continue
        around = [part for part in statement.ancestors if part in file.training_loops]
        if around and file.ranks(call) == "all":
            found.setdefault(around[-1], []).append(call)
    for calls in list(found.values())[:1]:
        yield Print(node=calls[0], index=index, habits=file, others=len(calls) - 1)


def _logs(file: TrainingFile, call: cst.Call) -> bool:
    """Whether a call logs something that no rank is set up to leave out, as far as the file shows."""
    logger = receiver(call) if method_name(call) in _LOGGING else None
    made = [one.node for one in file.flow.origins(logger, file.index.scope_of(call))] if logger is not None else []
    names = {file.index.qualified(node.func if isinstance(node, cst.Call) else node) for node in made}
    if not names or not names <= {"logging", "logging.getLogger"}:
        return False
    setups = [one for one in file.index.calls if _LOGGING_SETUP.match(last_name(one.func))]
    seen = any(file.index.qualified(one.func) == "logging.basicConfig" for one in setups)
    return seen and all(file.ranks(one) == "all" and not speak(file.source.words(one), OF_RANK) for one in setups)


def find_wrong_backends(file: TrainingFile) -> Iterator[WrongBackend]:
    """Yield the process groups whose backend does not fit the device of the model that is wrapped."""
    index = file.index
    for site in _ddp(file):
        groups = [s for s in file.sites("group") if isinstance(s, Group) and s.backend in ("nccl", "gloo")]
        if len(file.groups) != 1 or len(groups) != 1:
            return
        group = groups[0]
        device = _device_of(file, site)
        if (group.backend, device) in (("nccl", "cpu"), ("gloo", "cuda")):
            node = group.argument_node("backend", 0) or group.node
            plain: dict[str, cst.CSTNode] = {"backend": node} if isinstance(node, cst.SimpleString) else {}
            yield WrongBackend(node=node, index=index, backend=group.backend, device=device, anchors=plain)
            return


def _device_of(file: TrainingFile, site: Wrapping) -> str:
    """Return "cpu" or "cuda" where every move of a model before it is wrapped goes there, else ""."""
    index = file.index
    found = set()
    for call in _calls_on(file, site, "to", "cuda", "cpu"):
        statement, name = index.statement(call), method_name(call)
        if statement.scope is site.scope and follows(statement, site.statement):
            continue
        if statement is not site.statement and not follows(site.statement, statement):
            return ""
        if name in ("cuda", "cpu"):
            found.add(name)
        elif call.args:
            code = index.source.code(file.value_of(call.args[0].value))
            match = _PLAIN_DEVICE.fullmatch(code)
            found.add(match[1] if match else "")
    return found.pop() if len(found) == 1 else ""
