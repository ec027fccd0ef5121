"""Recognise libraries that own the training loop or shard the model, which no rewriting of a plain loop covers."""

from __future__ import annotations

import libcst as cst

from retrofit.survey.index import Index
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
_CALLS = (
    (
        "NVIDIA Apex",
        ("apex.parallel.DistributedDataParallel", "apex.amp.initialize"),
        "Its wrapper takes no find_unused_parameters, and its amp holds on to the parameters. "
        "Use torch's DistributedDataParallel and torch.amp.",
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
        "torch.optim.swa_utils.AveragedModel",
        ("torch.optim.swa_utils.AveragedModel",),
        "It is a copy of the model, which gets no dendrites when the model is restructured in its process. "
        "With DistributedDataParallel training restarts instead, so there it can stay.",
    ),
)


def find_frameworks(index: Index) -> list[Framework]:
    """Return the first use of each such library in a project."""
    found: dict[str, Framework] = {}
    for name, modules, advice in _IMPORTS:
        for statement, module in (one for file in index.files for one in file.imports):
            if module.partition(".")[0] in modules:
                found.setdefault(name, Framework(node=statement.node, index=index, name=name, advice=advice))
    for name, prefixes, advice in _CALLS:
        apex = name == "NVIDIA Apex"
        for call in index.calls:
            if index.qualified(call.func).startswith(prefixes):
                found.setdefault(name, Framework(node=call, index=index, name=name, advice=advice, beside=apex))
        for statement in index.statements:
            bases = statement.node.bases if isinstance(statement.node, cst.ClassDef) else ()
            if any(index.qualified(base.value).startswith(prefixes) for base in bases):
                site = Framework(node=statement.node, index=index, name=name, advice=advice, beside=apex)
                found.setdefault(name, site)
    for name, engines in _ENGINES:
        for statement, module in (one for file in index.files for one in file.imports):
            if any(f"{module}.".startswith(f"{engine}.") for engine in engines):
                site = Framework(node=statement.node, index=index, name=name, advice=_OWNS_LOOP, beside=True)
                found.setdefault(name, site)
    for node in index.attributes:
        if node.attr.value in _UNEVEN:
            advice = "Parameters that it leaves out differ between ranks, and a restart has rank 0's alone."
            found.setdefault(node.attr.value, Framework(node=node, index=index, name=node.attr.value, advice=advice))
    return list(found.values())
