"""Judges the GPUs: whether torch sees them, one for each process, their models and memory, and NCCL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from retrofit.doctor.facts import Gpu, Interpreter, Machine
from retrofit.doctor.finding import Finding, size
from retrofit.wording import counted, listed

#: Below this, CUDA's context and NCCL's buffers alone hardly fit.
_NO_ROOM = 2**30
#: Below this share of free memory somebody else computes there; a desktop takes less.
_SHARED = 0.75

_ON_THE_CPU = "To train on the CPU: NUM_GPUS=2 ./train_distributed.sh"


def judge_gpus(facts: Interpreter, machine: Machine, ranks: int | None) -> list[Finding]:
    """Judge the GPUs.

    Args:
        facts: the interpreter that trains; nothing is said where it has no torch.
        machine: this machine.
        ranks: how many processes the user asked for, None where that was left open.
    """
    if facts.torch is None:
        return []
    if not facts.gpus:
        return [_none(facts, machine), _nccl(facts)]
    return [
        _number(facts, ranks),
        *_architectures(facts),
        _memory(facts, machine),
        *_models(facts, machine),
        _nccl(facts),
        *_peers(facts),
    ]


def _none(facts: Interpreter, machine: Machine) -> Finding:
    built = f"CUDA {facts.cuda}" if facts.cuda else f"ROCm {facts.hip}" if facts.hip else ""
    there = machine.gpu_devices
    if there and not built:
        return Finding(
            "GPUs",
            "problem",
            f"The driver shows {counted(there, 'GPU')}, but torch is built for the CPU only.",
            "Install a build with CUDA: https://pytorch.org/get-started/locally/ has the command.",
        )
    hiding = machine.environ.get("CUDA_VISIBLE_DEVICES")
    if there and hiding is not None and not visible(hiding):
        return Finding(
            "GPUs",
            "problem",
            f"The driver shows {counted(there, 'GPU')}, but CUDA_VISIBLE_DEVICES={hiding!r} hides them.",
            "unset CUDA_VISIBLE_DEVICES",
        )
    if there:
        return Finding(
            "GPUs",
            "problem",
            f"The driver shows {counted(there, 'GPU')}, but torch, built with {built}, can use none: "
            f"{facts.cuda_error or 'it gives no reason.'}",
            f"Run nvidia-smi: if it fails, repair the driver; if it names a CUDA version below {facts.cuda},\n"
            "update the driver, or install torch for that version: https://pytorch.org/get-started/locally/",
        )
    if not built:
        return Finding("GPUs", "warning", "There is no GPU here; training runs on the CPU.", _ON_THE_CPU)
    reason = f": {facts.cuda_error}" if facts.cuda_error else "."
    return Finding(
        "GPUs",
        "warning",
        f"torch is built with {built}, but sees no GPU{reason}",
        "If there is one, nvidia-smi must list it; a container needs --gpus all, a SLURM job --gpus-per-node=N.\n"
        + _ON_THE_CPU,
    )


def _number(facts: Interpreter, ranks: int | None) -> Finding:
    models = Counter(gpu.name for gpu in facts.gpus)
    number = len(facts.gpus)
    what = f"torch sees {counted(number, 'GPU')}: {listed(f'{n} x {name}' for name, n in models.items())}."
    if ranks is not None and ranks > number:
        return Finding(
            "GPUs",
            "problem",
            f"{what} {ranks} processes need as many; they were tried on the CPU.",
            f"retrofit doctor --ranks {number}, and NUM_GPUS={number} ./train_distributed.sh",
        )
    if number == 1 and ranks is None:
        return Finding(
            "GPUs",
            "warning",
            f"{what} Distributed training needs two or more; two processes were tried on the CPU.",
            "With one GPU: NUM_GPUS=1 ./train_distributed.sh, and here retrofit doctor --ranks 1",
        )
    return Finding("GPUs", "ok", what)


def _architectures(facts: Interpreter) -> Iterable[Finding]:
    if not facts.cuda or not facts.architectures:
        return
    left_out = [number for number, gpu in enumerate(facts.gpus) if not _compiled_for(gpu, facts.architectures)]
    if left_out:
        major, minor = facts.gpus[left_out[0]].capability
        yield Finding(
            "GPU support",
            "problem",
            f"torch has no code for {_gpus(left_out)} (compute capability {major}.{minor}); it has "
            f"{', '.join(facts.architectures)}.",
            "Install a build for it, older or newer: https://pytorch.org/get-started/previous-versions/",
        )


def _compiled_for(gpu: Gpu, architectures: Iterable[str]) -> bool:
    """Return whether a GPU runs one of the architectures.

    Machine code (``sm_86``) runs on the same generation from that version on, what is compiled at run time
    (``compute_90``) on all later ones: NVIDIA's CUDA C++ Programming Guide, "Binary Compatibility".
    """
    for architecture in architectures:
        kind, _, version = architecture.partition("_")
        digits = version.rstrip("af")
        if not digits.isdecimal():
            return True  # nothing that we know
        own = int(digits[:-1]), int(digits[-1])
        if own <= gpu.capability and (kind == "compute" or own[0] == gpu.capability[0]):
            return True
    return False


def _memory(facts: Interpreter, machine: Machine) -> Finding:
    topic = "GPU memory"
    failed = [number for number, gpu in enumerate(facts.gpus) if gpu.error]
    if failed:
        return Finding(
            topic,
            "problem",
            f"{_gpus(failed)} cannot be used: {facts.gpus[failed[0]].error}",
            "Run nvidia-smi: another process may have it for itself, or it needs a reset.",
        )
    known = [(number, gpu, gpu.free) for number, gpu in enumerate(facts.gpus) if gpu.free is not None]
    full = [number for number, gpu, free in known if free < _NO_ROOM]
    shared = [number for number, gpu, free in known if free < _SHARED * gpu.total]
    if not known:
        return Finding(topic, "ok", f"{size(min(gpu.total for gpu in facts.gpus))} on each GPU.")
    if not shared and not full:
        least = min(free for _, _, free in known)
        return Finding(topic, "ok", f"At least {size(least)} free on each GPU.")
    bad = sorted({*full, *shared})
    shown = ", ".join(f"GPU {n}: {size(free)} of {size(gpu.total)}" for n, gpu, free in known if n in bad)
    others = [number for number in range(len(facts.gpus)) if number not in bad]
    cure = "nvidia-smi shows what runs there; end it"
    cure += f", or leave those out: export CUDA_VISIBLE_DEVICES={names(others, machine)}" if others else "."
    return Finding(topic, "problem" if full else "warning", f"Little memory is free on {shown}.", cure)


def _models(facts: Interpreter, machine: Machine) -> Iterable[Finding]:
    models = Counter(gpu.name for gpu in facts.gpus)
    if len(models) < 2:
        return
    model, _ = models.most_common(1)[0]
    chosen = [number for number, gpu in enumerate(facts.gpus) if gpu.name == model]
    yield Finding(
        "GPU models",
        "warning",
        "The GPUs are of different models; all wait for the slowest, and the smallest memory bounds the batch.",
        f"To use those of one model: export CUDA_VISIBLE_DEVICES={names(chosen, machine)}",
    )


def _nccl(facts: Interpreter) -> Finding:
    if facts.nccl is not None:
        return Finding("NCCL", "ok", f"torch has NCCL {facts.nccl}.")
    if facts.gpus:
        several = len(facts.gpus) > 1
        return Finding(
            "NCCL",
            "problem" if several else "warning",
            "torch has no NCCL, with which GPUs exchange gradients.",
            "Install a Linux build with CUDA: https://pytorch.org/get-started/locally/; on Windows train in WSL 2.",
        )
    if not facts.gloo:
        return Finding(
            "NCCL",
            "problem",
            "torch has neither NCCL, for GPUs, nor gloo, for the CPU.",
            "Install an official build: https://pytorch.org/get-started/locally/",
        )
    return Finding("NCCL", "ok", "torch has no NCCL; on the CPU gloo takes its place.")


def _peers(facts: Interpreter) -> Iterable[Finding]:
    number = len(facts.gpus)
    if number < 2:
        return
    if not facts.strangers:
        yield Finding("peer access", "ok", "Each GPU can read the memory of each other one.")
        return
    pairs = number * (number - 1) // 2
    yield Finding(
        "peer access",
        "ok",
        f"{len(facts.strangers)} of {counted(pairs, 'pair')} of GPUs cannot read each other's memory; there NCCL goes "
        "through the CPU's, which is slower.",
    )


def visible(value: str) -> list[str]:
    """Return the devices that a value of CUDA_VISIBLE_DEVICES shows: CUDA stops at the first that is none."""
    shown = []
    for device in (word.strip() for word in value.split(",")):
        if not (device.isdecimal() or device.startswith(("GPU-", "MIG-"))):
            break
        shown.append(device)
    return shown


def names(numbers: Collection[int], machine: Machine) -> str:
    """Return torch's numbers of GPUs as CUDA_VISIBLE_DEVICES must name them, which may number others already."""
    shown = visible(machine.environ.get("CUDA_VISIBLE_DEVICES", ""))
    return ",".join(shown[number] if number < len(shown) else str(number) for number in numbers)


def _gpus(numbers: Collection[int]) -> str:
    return f"GPU{'s' if len(numbers) > 1 else ''} {listed(numbers)}"
