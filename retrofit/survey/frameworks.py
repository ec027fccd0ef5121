"""Recognise libraries that own the training loop or shard the model, which no rewriting of a plain loop covers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from retrofit.survey.defaults import Defaults
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index, Scope, Statement, dotted
from retrofit.survey.ranks import condition
from retrofit.survey.sites import Framework

_OWNS_LOOP = (
    "It owns the training loop. Use a plain PyTorch loop, or the library's own callback for dendrites if it has one."
)
_SHARDS = (
    "It shards parameters over the ranks, but dendrites need the whole model on each. Use DistributedDataParallel."
)

#: Modules whose import is enough, and calls that are needed to tell: library, names, advice.
_IMPORTS = (
    ("PyTorch Lightning", ("lightning", "pytorch_lightning", "lightning_fabric"), _OWNS_LOOP),
    (
        "Hugging Face Accelerate",
        ("accelerate",),
        "It wraps model and backward pass itself. Use DistributedDataParallel.",
    ),
    ("DeepSpeed", ("deepspeed",), _SHARDS),
    ("Horovod", ("horovod",), "It averages gradients in its own optimizer. Use DistributedDataParallel."),
    (
        "submitit",
        ("submitit",),
        "It submits the training as a job, which the launcher would do once for each process. Rewrite the script that "
        "trains, and submit the train_distributed.sh that comes with it.",
    ),
)
#: Libraries of which other parts are of use to any script; they count where the script wraps no model by itself.
_ENGINES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("detectron2", ("detectron2.engine",)),
    ("OpenMMLab's runner", ("mmcv.runner", "mmengine.runner", "mmdet.apis", "mmseg.apis")),
    ("PyTorch-Ignite", ("ignite.engine", "ignite.distributed")),
    ("fastai", ("fastai",)),
    ("Catalyst", ("catalyst",)),
    ("Composer", ("composer",)),
)
#: What lets parameters differ between ranks.
_UNEVEN = ("_ddp_params_and_buffers_to_ignore", "add_param_to_skip_allreduce")
_APEX, _APEX_AMP, _AVERAGED = "NVIDIA Apex", "NVIDIA Apex amp", "torch.optim.swa_utils.AveragedModel"
_CALLS = (
    (
        _APEX,
        ("apex.parallel.DistributedDataParallel",),
        "Its wrapper takes no find_unused_parameters. Use torch's DistributedDataParallel.",
    ),
    (
        _APEX_AMP,
        ("apex.amp.initialize", "apex.amp.scale_loss"),
        "It holds on to the parameters that the optimizer has when it is initialised. Use torch.amp.",
    ),
    ("Hugging Face Trainer", ("transformers.Trainer", "transformers.Seq2SeqTrainer"), _OWNS_LOOP),
    (
        "FSDP",
        (
            "torch.distributed.fsdp.",
            "fairscale.nn.FullyShardedDataParallel",
            "torch.distributed._composable.fsdp.",
        ),
        _SHARDS,
    ),
    (
        _AVERAGED,
        (_AVERAGED,),
        "It is a copy of the model, which gets no dendrites when the model is restructured in its process. "
        "Where training restarts instead, it can stay.",
    ),
)


#: What a condition is about that is no option of training: how it is started, and how far it is.
_NO_OPTION = re.compile(
    r"__name__|distributed|is_initialized|is_available|world_size|multi|\bddp\b|parallel|n_?gpus?|num_gpus|device_count"
    r"|(?<![.\w])\w*(epoch|iter|step)(?!\w)|^\W*(True|1)\W*$",
    re.IGNORECASE,
)


def may_wrap(data: bytes) -> bool:
    """Whether a file's bytes can hold what wraps a model, imports what does so, or uses one of these libraries."""
    tables = [names for _, names, _ in (*_IMPORTS, *_CALLS)] + [names for _, names in _ENGINES]
    paths = [name.strip(".").split(".") for names in tables for name in names]
    words = {"DataParallel", "import_module", *_UNEVEN, *(path[-1 if path[0] == "torch" else 0] for path in paths)}
    return any(word.encode() in data for word in words)


def known_libraries() -> dict[str, str]:
    """Return the libraries that are recognised, each with what its user can do."""
    named = {name: advice for name, _, advice in (*_IMPORTS, *_CALLS)}
    return {**named, **{name: _OWNS_LOOP for name, _ in _ENGINES}}


def find_frameworks(index: Index, flow: Flow) -> list[Framework]:
    """Return the first use of each such library in a project, of one that only an option leads to with that option."""
    found: dict[str, Framework] = {}
    defaults = Defaults(index, flow)
    for name, modules, advice in _IMPORTS:
        imports = [
            statement
            for statement, module in (one for file in index.files for one in file.imports)
            if module.partition(".")[0] in modules
        ]
        uses = list(_uses(index, tuple(f"{module}." for module in modules))) if imports else []
        option = _option(index, flow, uses)
        if imports and (uses or not all(_is_tried(statement) for statement in imports)):
            node = _first(index, uses) if option else imports[0].node
            found[name] = Framework(
                node=node, index=index, name=name, advice=advice, beside=bool(option), option=option
            )
    for name, prefixes, advice in _CALLS:
        apex = name == _APEX
        uses = [use for use in _uses(index, prefixes) if name != _APEX_AMP or not defaults.never_run(use)]
        if uses:
            option = "" if apex else _option(index, flow, uses)
            if name == _APEX_AMP and not all(map(defaults.leave_out, uses)):
                option = ""  # which leads to it by default, or may
            site = Framework(node=_first(index, uses), index=index, name=name, advice=advice, option=option)
            calls = [use for use in uses if isinstance(use, cst.Call)] if apex else []
            either = [use for use in calls if any(one.startswith("torch.") for one in index.meanings(use.func))]
            if either:
                site.node = either[0]
                site.advice = "This is its wrapper where it is installed, and else torch's. Import torch's alone."
            site.wraps, site.copies = apex and not either, name == _AVERAGED
            site.beside = site.wraps or bool(option)
            found[name] = site
    for name, engines in _ENGINES:
        for statement, module in (one for file in index.files for one in file.imports):
            if any(f"{module}.".startswith(f"{engine}.") for engine in engines):
                site = Framework(node=statement.node, index=index, name=name, advice=_OWNS_LOOP, beside=True)
                found.setdefault(name, site)
    for node in index.attributes:
        if node.attr.value in _UNEVEN and not _only_buffers(index, node):
            advice = "Parameters that it leaves out differ between ranks, and a restart has rank 0's alone."
            found.setdefault(node.attr.value, Framework(node=node, index=index, name=node.attr.value, advice=advice))
    return list(found.values())


def _only_buffers(index: Index, attribute: cst.Attribute) -> bool:
    """Whether an assignment names what DistributedDataParallel leaves out, and no parameters, which are trained."""
    assign = index.parents[index.parents[attribute]]
    if not isinstance(assign, cst.Assign):
        return False
    value = assign.value
    if isinstance(value, (cst.ListComp, cst.SetComp)):
        source = value.for_in.iter
        return isinstance(source, cst.Call) and (dotted(source.func) or "").endswith(".named_buffers")
    if not isinstance(value, (cst.List, cst.Set, cst.Tuple)):
        return False
    ends = [re.search(r"(\w+)'$", index.source.read(element.value)) for element in value.elements]
    parameters = {
        binding.target.rpartition(".")[2]
        for binding in index.bindings
        if isinstance(binding.value, cst.Call) and index.qualified(binding.value.func).endswith("Parameter")
    }
    return all(end is not None and end[1] not in {"weight", "bias", *parameters} for end in ends)


def _uses(index: Index, prefixes: tuple[str, ...]) -> Iterator[cst.Call | cst.ClassDef]:
    """Yield the calls of what a library has, and the classes that extend it."""
    ambiguous = prefixes[0].startswith("apex.")  # torch has its amp and its wrapper too, by the same names perhaps
    for call in index.calls:
        names = index.meanings(call.func) if ambiguous else [index.qualified(call.func)]
        if any(name.startswith(prefixes) for name in names):
            yield call
    for statement in index.statements:
        node = statement.node
        if isinstance(node, cst.ClassDef) and any(index.qualified(b.value).startswith(prefixes) for b in node.bases):
            yield node


def _first(index: Index, uses: list[cst.Call | cst.ClassDef]) -> cst.CSTNode:
    return next((use for use in uses if isinstance(use, cst.Call)), uses[0])


def _is_tried(statement: Statement) -> bool:
    """Whether the script also goes on where an import fails."""
    return any(isinstance(part.node, cst.Try) for part in statement.path)


def _option(index: Index, flow: Flow, uses: list[cst.Call | cst.ClassDef]) -> str:
    """Return the condition under which a library is used, the first of several; "" where it is used under none."""
    found = []
    for use in uses:
        if isinstance(use, cst.ClassDef):
            made = [
                call
                for call in index.calls
                if flow.defined(call.func, index.scope_of(call)) is index.function_scope(use)
            ]
            found += [_asked(index, flow, call, set()) for call in made] or [""]
        else:
            found.append(_asked(index, flow, use, set()))
    return found[0] if all(found) and found else ""


def _asked(index: Index, flow: Flow, node: cst.CSTNode, seen: set[Scope]) -> str:
    """Return an option's condition that alone leads to some code, the outermost in its function or around its calls."""
    inner, found = node, ""
    for around in index.ancestors(node):
        if isinstance(around, (cst.If, cst.IfExp)) and inner is not around.test:
            code = index.source.read(around.test)
            if not condition(index, around.test) and not _NO_OPTION.search(code):
                found = code if inner is around.body else f"not ({code})"
        if isinstance(around, (cst.FunctionDef, cst.ClassDef)):
            break
        inner = around
    if found:
        return found
    scope = index.scope_of(node)
    if scope.kind != "function" or scope in seen:
        return ""
    callers = [_asked(index, flow, call, seen | {scope}) for call in flow.callers(scope)]
    return callers[0] if callers and all(callers) else ""
