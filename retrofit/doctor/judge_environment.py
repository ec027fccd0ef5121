"""Judges the environment variables: those of torchrun, SLURM, CUDA, NCCL, PerforatedAI and the launcher."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from retrofit.doctor.facts import Interpreter, Machine
from retrofit.doctor.finding import Finding, Level
from retrofit.doctor.judge_gpus import visible
from retrofit.doctor.machine import USUAL_PORT
from retrofit.wording import counted, listed

_OF_A_RANK = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
_OF_THE_MEETING = ("MASTER_ADDR", "MASTER_PORT")


def judge_environment(facts: Interpreter, machine: Machine, ranks: int) -> list[Finding]:
    """Judge the environment variables.

    Args:
        facts: the interpreter that trains.
        machine: this machine.
        ranks: how many processes are tried.
    """
    environ = machine.environ
    return [
        _rendezvous(environ),
        *_torchrun_defaults(environ),
        *_cuda_devices(environ, facts),
        _threads(environ, facts, machine.cpus, ranks),
        *_launcher(environ, facts),
        *_settings(environ),
        *_interfaces(environ, machine.interfaces),
        *_perforatedai(environ),
        *_slurm(machine, facts),
    ]


def _shown(environ: Mapping[str, str], names: Iterable[str]) -> str:
    return " ".join(f"{name}={shlex.quote(environ[name])}" for name in names)


def _rendezvous(environ: Mapping[str, str]) -> Finding:
    topic = "torchrun's variables"
    known = (*_OF_A_RANK, *_OF_THE_MEETING)
    found = [name for name in known if name in environ]
    absent = [name for name in known if name not in environ]
    port = environ.get("MASTER_PORT", str(USUAL_PORT))
    if any(name in environ for name in _OF_A_RANK):
        missing = f", without {listed(absent)}" if absent else ""
        return Finding(
            topic,
            "warning",
            f"{_shown(environ, found)} is left over in this shell{missing}. torchrun sets these itself; a script "
            "started without it takes them for its own, and waits for processes that never come.",
            f"unset {' '.join(found)}",
        )
    if not (port.isdecimal() and 0 < int(port) < 65536):
        return Finding(topic, "problem", f"MASTER_PORT={port!r} is no port.", f"export MASTER_PORT={USUAL_PORT}")
    if len(found) == 1:
        (other,) = (name for name in _OF_THE_MEETING if name not in found)
        value = USUAL_PORT if other == "MASTER_PORT" else "localhost"
        return Finding(
            topic,
            "warning",
            f"{_shown(environ, found)} is set without {other}; a script that starts its processes itself needs both.",
            f"export {other}={value}, or unset {found[0]}",
        )
    if found:
        return Finding(topic, "ok", f"{_shown(environ, found)} is set, for scripts that start their processes.")
    return Finding(topic, "ok", "None is left over in this shell.")


def _torchrun_defaults(environ: Mapping[str, str]) -> Iterable[Finding]:
    found = sorted(name for name in environ if name.startswith("PET_"))
    if not found:
        return
    several = [name for name in ("PET_NNODES", "PET_RDZV_ENDPOINT", "PET_MASTER_ADDR") if environ.get(name)]
    effect = f" With {listed(several)}, the launcher expects several machines." if several else ""
    yield Finding(
        "torchrun's defaults",
        "warning",
        f"{_shown(environ, found)} changes torchrun's defaults.{effect}",
        f"If that is not meant: unset {' '.join(found)}",
    )


def _cuda_devices(environ: Mapping[str, str], facts: Interpreter) -> Iterable[Finding]:
    name = "CUDA_VISIBLE_DEVICES"
    value = environ.get(name)
    if value is None:
        return
    shown = visible(value)
    seen = len(facts.gpus)
    if len(set(shown)) < len(shown):
        unique = ",".join(dict.fromkeys(shown))
        yield Finding(
            name, "problem", f"{name}={value} names a GPU twice; CUDA then shows none.", f"export {name}={unique}"
        )
    elif not shown:
        yield Finding(name, "warning", f"{name}={value!r} hides all GPUs.", f"To train on GPUs: unset {name}")
    elif facts.torch is not None and seen and seen < len(shown):
        yield Finding(
            name,
            "problem",
            f"{name}={value} names {counted(len(shown), 'GPU')}, but torch sees {seen}.",
            f"nvidia-smi -L lists them, from 0; export {name}={','.join(map(str, range(seen)))}",
        )
    else:
        yield Finding(name, "ok", f"{name}={value} chooses {counted(len(shown), 'GPU')}.")


def _threads(environ: Mapping[str, str], facts: Interpreter, cpus: int, ranks: int) -> Finding:
    name = "OMP_NUM_THREADS"
    share = max(1, cpus // ranks)
    value = environ.get(name)
    cure = f"export {name}={share}"
    if value is None:
        what = f"{name} is not set; torchrun sets it to 1."
        # on GPUs one thread mostly does, and torchrun's own choice is the safe one
        if facts.torch is None or facts.gpus or share == 1:
            return Finding(name, "ok", what)
        return Finding(name, "warning", f"{what} On the CPU, {share} threads are free for each process.", cure)
    if not value.split(",")[0].isdecimal() or int(value.split(",")[0]) < 1:
        return Finding(name, "warning", f"{name}={value!r} is no number of threads.", cure)
    threads = int(value.split(",")[0])
    if threads > share:
        return Finding(
            name,
            "warning",
            f"{name}={value} gives {counted(ranks, 'process', 'processes')} {counted(ranks * threads, 'thread')}, on "
            f"{counted(cpus, 'CPU')}.",
            cure,
        )
    return Finding(name, "ok", f"{name}={value}.")


def _launcher(environ: Mapping[str, str], facts: Interpreter) -> Iterable[Finding]:
    value = environ.get("NUM_GPUS")
    seen = len(facts.gpus)
    if not value or facts.torch is None:
        return
    cure = f"export NUM_GPUS={seen or 2}"
    if value == "gpu" and not seen:
        what = "NUM_GPUS=gpu, but torch sees no GPU; torchrun ends with an error then."
    elif value not in ("gpu", "cpu", "auto") and (not value.isdecimal() or int(value) < 1):
        what = f"NUM_GPUS={value!r} is no number of processes."
    elif value.isdecimal() and seen and int(value) > seen:
        what = f"NUM_GPUS={value}, but torch sees {counted(seen, 'GPU')}."
    else:
        yield Finding("NUM_GPUS", "ok", f"NUM_GPUS={value}.")
        return
    yield Finding("NUM_GPUS", "problem", what, cure)


@dataclass(frozen=True)
class _Setting:
    """What a variable does: its name, the values that matter (all where empty), the level, and what it does."""

    name: str
    values: tuple[str, ...]
    level: Level
    what: str


#: From NCCL's user guide, "Environment Variables", and PyTorch's notes on CUDA and on torch.distributed.
_SETTINGS = (
    _Setting("NCCL_DEBUG", (), "ok", "makes NCCL write what it does to stdout, or to NCCL_DEBUG_FILE."),
    _Setting("NCCL_P2P_DISABLE", ("1",), "warning", "keeps GPUs from reading each other's memory; slower."),
    _Setting("NCCL_SHM_DISABLE", ("1",), "warning", "keeps GPUs from exchanging data in shared memory; slower."),
    _Setting("NCCL_IB_DISABLE", ("1",), "warning", "keeps NCCL off InfiniBand and RoCE; slower on several machines."),
    _Setting("TORCH_DISTRIBUTED_DEBUG", ("DETAIL",), "warning", "checks every collective call on all ranks; slower."),
    _Setting("TORCH_DISTRIBUTED_DEBUG", ("INFO",), "ok", "makes DistributedDataParallel write what it does."),
    _Setting("CUDA_LAUNCH_BLOCKING", ("1",), "warning", "waits for each GPU operation; much slower."),
    _Setting("PYTORCH_CUDA_ALLOC_CONF", (), "ok", "changes how torch takes GPU memory."),
    _Setting("PYTORCH_ALLOC_CONF", (), "ok", "changes how torch takes GPU memory."),
)


def _settings(environ: Mapping[str, str]) -> Iterable[Finding]:
    for setting in _SETTINGS:
        value = environ.get(setting.name)
        if value and (not setting.values or value.upper() in setting.values):
            cure = f"If that is not meant: unset {setting.name}" if setting.level != "ok" else ""
            yield Finding(setting.name, setting.level, f"{setting.name}={value} {setting.what}", cure)


def _interfaces(environ: Mapping[str, str], interfaces: tuple[str, ...]) -> Iterable[Finding]:
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        value = environ.get(name)
        if not value:
            continue
        if _some_interface(value, interfaces, exact=name.startswith("GLOO")):
            yield Finding(name, "ok", f"{name}={value} chooses the network interface.")
        else:
            yield Finding(
                name,
                "problem",
                f"{name}={value}, but this machine has {listed(interfaces) if interfaces else 'no interface'}.",
                f"unset {name}",
            )


def _some_interface(value: str, interfaces: tuple[str, ...], exact: bool) -> bool:
    """Return whether a setting leaves an interface.

    gloo takes names; NCCL takes beginnings of names, names after ``=``, and what not to take after ``^``.
    """
    if exact:
        return all(word in interfaces for word in value.split(","))
    refused, value = value.startswith("^"), value.removeprefix("^")
    whole, value = value.startswith("="), value.removeprefix("=")
    words = value.split(",")
    return any(any(one == w if whole else one.startswith(w) for w in words) != refused for one in interfaces)


#: What the helper, and the launcher, read.
_PAI = {
    "PAI_TESTING_DENDRITE_CAPACITY": "makes every training a quick capacity test, in a folder of its own.",
    "PAI_PERFORATE_MODEL_PARALLEL": "makes every start of the script an initialisation, which leaves after one batch.",
    "PAI_LOAD_FOLDER": "makes every start of the script go on from the checkpoints there.",
    "PAI_PREFILL_GRADIENTS": "makes every backward pass fill in missing gradients; slower.",
    "PAI_ACCEPT_WORLD_SIZE": "lets a training go on with another number of processes than before, if it is this one.",
}
#: Those that are no switches, which do nothing at any other value than 1.
_WITH_A_VALUE = ("PAI_LOAD_FOLDER", "PAI_ACCEPT_WORLD_SIZE")


def _perforatedai(environ: Mapping[str, str]) -> Iterable[Finding]:
    for name in sorted(name for name in environ if name.startswith("PAI_") and environ[name]):
        if name in _PAI and (name in _WITH_A_VALUE or environ[name] == "1"):
            what = f"{_shown(environ, [name])} {_PAI[name]}"
            yield Finding(name, "warning", what, f"If that is not meant: unset {name}")
        else:
            yield Finding(name, "ok", f"{_shown(environ, [name])} changes nothing that retrofit writes.")


def _number(environ: Mapping[str, str], *names: str) -> int | None:
    for name in names:
        if environ.get(name, "").isdecimal():
            return int(environ[name])
    return None


def _slurm(machine: Machine, facts: Interpreter) -> Iterable[Finding]:
    environ = machine.environ
    job = environ.get("SLURM_JOB_ID")
    if job is None:
        if machine.slurm:
            yield Finding(
                "SLURM",
                "warning",
                "SLURM is here, but this shell is in no job of it; a login node is not what trains.",
                "salloc --gpus-per-node=2 srun --pty bash, and retrofit doctor there",
            )
        return
    nodes = _number(environ, "SLURM_NNODES", "SLURM_JOB_NUM_NODES") or 1
    tasks = _number(environ, "SLURM_NTASKS")
    granted = _number(environ, "SLURM_GPUS_ON_NODE")
    seen = len(facts.gpus)
    sound = True
    if nodes > 1:
        sound = False
        yield Finding(
            "SLURM nodes",
            "warning",
            f"Job {job} has {nodes} nodes; the launcher must run once on each, in a folder that all share.",
            f"srun --nodes={nodes} --ntasks-per-node=1 ./train_distributed.sh",
        )
    if tasks is not None and tasks > nodes:
        sound = False
        ranked = "" if "WORLD_SIZE" in environ else " SLURM sets no RANK or WORLD_SIZE for a script started so."
        yield Finding(
            "SLURM tasks",
            "warning",
            f"SLURM_NTASKS={tasks}: srun would start the launcher {tasks} times, but torchrun starts the processes of "
            f"a node itself.{ranked}",
            ("./train_distributed.sh without srun, or " if nodes == 1 else "")
            + f"#SBATCH --ntasks-per-node=1 --gpus-per-node={granted or seen or 2}",
        )
    if granted is not None and facts.torch is not None and granted != seen:
        sound = False
        yield Finding(
            "SLURM GPUs",
            "warning",
            f"SLURM_GPUS_ON_NODE={granted}, but torch sees {seen}.",
            f"srun --ntasks=1 --gpus-per-task={granted} --pty bash, and look at CUDA_VISIBLE_DEVICES there",
        )
    if sound:
        yield Finding("SLURM", "ok", f"This is job {job}, on one node.")
