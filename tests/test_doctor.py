"""`retrofit doctor`: judgement on made-up facts, what finds the facts out, and real process groups."""

from __future__ import annotations

import ast
import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

from retrofit import doctor
from retrofit.doctor import Finding, children, exit_code, to_json, to_text
from retrofit.doctor.facts import Gpu, Group, Interpreter, Machine, Rank
from retrofit.doctor.finding import verdict
from retrofit.doctor.judge_environment import judge_environment
from retrofit.doctor.judge_gpus import judge_gpus
from retrofit.doctor.judge_group import bandwidth, judge_group
from retrofit.doctor.judge_machine import judge_machine
from retrofit.doctor.judge_software import judge_software
from retrofit.doctor.machine import look_around, port_refusal
from retrofit.doctor.runs import PROBE, RANKS, ask, try_group
from retrofit.errors import UserError
from tests.forked import training_python

DEADLINE = 120.0  # seconds; only a test that is about to fail waits so long
GIB = 2**30
posix = pytest.mark.skipif(sys.platform == "win32", reason="has no process groups")

A100 = Gpu("A100", (8, 0), 80 * GIB, 79 * GIB)
SOUND = Interpreter(
    "/env/bin/python",
    perforatedai="3.2.9",
    torch="2.6.0+cu124",
    cuda="12.4",
    gpus=(A100,) * 4,
    architectures=("sm_80", "sm_90", "compute_90"),
    nccl="2.21.5",
)
CPU = replace(SOUND, torch="2.6.0+cpu", cuda=None, gpus=(), architectures=(), nccl=None)
BARE = replace(SOUND, perforatedai=None)
ENVIRON = {"OMP_NUM_THREADS": "1"}
NODE = Machine(environ=ENVIRON, gpu_devices=4)


def judged(
    facts: Interpreter = SOUND,
    machine: Machine = NODE,
    ranks: int | None = None,
    environ: Mapping[str, str] | None = None,
) -> list[Finding]:
    machine = replace(machine, environ={**machine.environ, **(environ or {})})
    number = ranks or max(2, len(facts.gpus))
    return [
        *judge_software(facts, machine, {"perforatedai": ("3.2.8", "3.2.9"), "torch": ("2.6.0",)}),
        *judge_gpus(facts, machine, ranks),
        *judge_environment(facts, machine, number),
        *judge_machine(facts, machine, number),
    ]


def test_nothing_is_said_of_versions_that_nobody_proved() -> None:
    assert only(judge_software(SOUND, NODE, {}), "torch").what == "torch 2.6.0+cu124, built for CUDA 12.4."


def only(findings: list[Finding], topic: str) -> Finding:
    (finding,) = (finding for finding in findings if finding.topic == topic)
    return finding


def with_gpus(*gpus: Gpu, **more: Any) -> Interpreter:
    return replace(SOUND, gpus=gpus, **more)


# ---- judgement ------------------------------------------------------------------------------------------------------


def test_all_is_well_on_a_sound_machine() -> None:
    findings = judged()
    assert [finding for finding in findings if finding.level != "ok"] == []
    assert [finding.topic for finding in findings] == [
        *["Python", "torch", "perforatedai", "packages", "bash", "torchrun"],
        *["GPUs", "GPU memory", "NCCL", "peer access"],
        *["torchrun's variables", "OMP_NUM_THREADS"],
        *["port", "host names", "shared memory", "open files", "working folder", "CPUs"],
    ]


@pytest.mark.parametrize(
    ("facts", "topic", "level", "what", "cure"),
    [
        # an installed perforatedai is the proof that there is one for this Python
        (replace(SOUND, python=(3, 13, 0)), "Python", "ok", "Python 3.13.0 (/env/bin/python).", ""),
        (replace(BARE, python=(3, 9, 1)), "Python", "ok", "Python 3.9.1", ""),
        (replace(BARE, python=(3, 12, 1)), "Python", "ok", "Python 3.12.1", ""),
        (
            replace(BARE, python=(3, 8, 1)),
            "Python",
            "problem",
            "for Python 3.9 to 3.12 only",
            "python3.12 -m venv .venv",
        ),
        (replace(BARE, python=(3, 13, 0)), "Python", "problem", "for Python 3.9 to 3.12 only", "python3.12 -m venv"),
        (replace(BARE, platform="darwin", machine="arm64"), "Python", "ok", "Python 3.11.7", ""),
        (
            replace(BARE, platform="darwin", machine="arm64", python=(3, 12, 0)),
            *("Python", "problem", "for Python 3.11 only", "python3.11 -m venv"),
        ),
        (replace(BARE, platform="win32", machine="AMD64", python=(3, 10, 0)), "Python", "problem", "3.11 only", "3.11"),
        (replace(BARE, machine="aarch64"), "Python", "problem", "no wheel for linux aarch64", "Linux x86_64"),
        (SOUND, "torch", "ok", "torch 2.6.0+cu124, built for CUDA 12.4. The recipe was proven with it.", ""),
        (replace(SOUND, torch="2.13.1"), "torch", "ok", "The recipe was proven with 2.6.0.", ""),
        (replace(SOUND, cuda=None, hip="6.2"), "torch", "ok", "built for ROCm 6.2.", ""),
        (CPU, "torch", "ok", "built for the CPU only.", ""),
        (
            replace(SOUND, torch=None),
            "torch",
            "problem",
            "torch is not installed.",
            "/env/bin/python -m pip install torch",
        ),
        (
            replace(SOUND, torch=None, torch_error="ImportError: libcudnn.so.9"),
            *("torch", "problem", "cannot be imported: ImportError: libcudnn.so.9", "--force-reinstall torch"),
        ),
        (replace(SOUND, torch="2.3.1"), "torch", "problem", "retrofit needs 2.4 or newer", "install --upgrade torch"),
        (replace(SOUND, torch="2.10.0"), "torch", "ok", "torch 2.10.0", ""),
        (replace(SOUND, distributed=False), "torch", "problem", "lacks torch.distributed", "--force-reinstall torch"),
        (SOUND, "perforatedai", "ok", "perforatedai 3.2.9.", ""),
        (replace(SOUND, perforatedai="3.2.8"), "perforatedai", "ok", "perforatedai 3.2.8.", ""),
        (
            replace(SOUND, perforatedai="3.3.0"),
            *(
                "perforatedai",
                "warning",
                "proven with 3.2.8 and 3.2.9 only",
                "pip install --no-deps perforatedai==3.2.9",
            ),
        ),
        (BARE, "perforatedai", "problem", "is not installed", "-m pip install --no-deps perforatedai==3.2.9"),
        (
            replace(SOUND, perforatedai_error="ImportError: bad"),
            *("perforatedai", "problem", "cannot be imported: ImportError: bad", "perforatedai==3.2.9"),
        ),
        # said once, where it can be cured
        (replace(SOUND, perforatedai_error="no yaml", missing=("pyyaml",)), "perforatedai", "ok", "3.2.9", ""),
        (SOUND, "packages", "ok", "All packages", ""),
        (
            replace(SOUND, missing=("pyyaml", "pandas")),
            *("packages", "problem", "not installed: pyyaml, pandas.", "/env/bin/python -m pip install pyyaml pandas"),
        ),
        (replace(SOUND, executable="/my env/python", torch=None), "torch", "problem", "", "'/my env/python' -m pip"),
        # GPUs
        (SOUND, "GPUs", "ok", "torch sees 4 GPUs: 4 x A100.", ""),
        (
            with_gpus(A100, replace(A100, name="H100", capability=(9, 0))),
            *("GPUs", "ok", "2 GPUs: 1 x A100 and 1 x H100", ""),
        ),
        (with_gpus(A100), "GPUs", "warning", "1 GPU: 1 x A100. Distributed training needs two", "NUM_GPUS=1"),
        (SOUND, "GPU memory", "ok", "At least 79 GiB free on each GPU.", ""),
        (with_gpus(A100, replace(A100, free=None)), "GPU memory", "ok", "At least 79 GiB", ""),
        (with_gpus(replace(A100, free=None)), "GPU memory", "ok", "80 GiB on each GPU.", ""),
        (
            with_gpus(*[replace(A100, free=GIB // 2)] * 4),
            *(
                "GPU memory",
                "problem",
                "GPU 0: 512 MiB of 80 GiB, GPU 1: 512 MiB",
                "nvidia-smi shows what runs there; end it.",
            ),
        ),
        (
            with_gpus(A100, replace(A100, free=40 * GIB), A100),
            *("GPU memory", "warning", "is free on GPU 1: 40 GiB of 80 GiB.", "export CUDA_VISIBLE_DEVICES=0,2"),
        ),
        (
            with_gpus(A100, replace(A100, free=GIB // 2), replace(A100, free=40 * GIB)),
            *("GPU memory", "problem", "GPU 1: 512 MiB of 80 GiB, GPU 2: 40 GiB", "CUDA_VISIBLE_DEVICES=0"),
        ),
        (
            with_gpus(A100, replace(A100, free=None, error="RuntimeError: busy")),
            *("GPU memory", "problem", "GPU 1 cannot be used: RuntimeError: busy", "nvidia-smi"),
        ),
        (
            with_gpus(replace(A100, name="T4", capability=(8, 0)), A100, A100),
            *("GPU models", "warning", "of different models", "export CUDA_VISIBLE_DEVICES=1,2"),
        ),
        # sm_80 code runs on 8.6, sm_90 code not on 8.9; compute_90 is compiled for all that come later
        (
            with_gpus(*[replace(A100, capability=(7, 0))] * 2),
            *("GPU support", "problem", "GPUs 0 and 1 (compute capability 7.0)", "previous-versions"),
        ),
        (
            with_gpus(replace(A100, capability=(10, 0)), architectures=("sm_80", "sm_90a")),
            *("GPU support", "problem", "it has sm_80, sm_90a.", "Install a build"),
        ),
        (SOUND, "NCCL", "ok", "torch has NCCL 2.21.5.", ""),
        (replace(SOUND, nccl=None), "NCCL", "problem", "torch has no NCCL", "Install a Linux build with CUDA"),
        (with_gpus(A100, nccl=None), "NCCL", "warning", "torch has no NCCL", "Install a Linux build with CUDA"),
        (replace(CPU, gloo=False), "NCCL", "problem", "neither NCCL", "official build"),
        (CPU, "NCCL", "ok", "gloo takes its place", ""),
        (SOUND, "peer access", "ok", "Each GPU can read", ""),
        (replace(SOUND, strangers=((0, 2), (1, 3))), "peer access", "ok", "2 of 6 pairs of GPUs cannot", ""),
    ],
)
def test_interpreter(facts: Interpreter, topic: str, level: str, what: str, cure: str) -> None:
    check(only(judged(facts), topic), level, what, cure)


def check(finding: Finding, level: str, what: str, cure: str) -> None:
    assert finding.level == level
    assert what in finding.what
    assert cure in finding.cure
    assert bool(finding.cure) == (level != "ok")


@pytest.mark.parametrize(
    ("capability", "architectures"),
    [
        ((8, 6), ("sm_80",)),
        ((9, 0), ("sm_80", "sm_90a")),
        ((12, 0), ("sm_80", "compute_90")),
        ((9, 0), ()),
        ((9, 0), ("gfx90a",)),
    ],
)
def test_gpus_that_torch_has_code_for(capability: tuple[int, int], architectures: tuple[str, ...]) -> None:
    findings = judged(with_gpus(replace(A100, capability=capability), architectures=architectures))
    assert "GPU support" not in {finding.topic for finding in findings}


@pytest.mark.parametrize(
    ("facts", "devices", "environ", "level", "what", "cure"),
    [
        (CPU, 0, {}, "warning", "There is no GPU here", "NUM_GPUS=2 ./train_distributed.sh"),
        (CPU, 4, {}, "problem", "shows 4 GPUs, but torch is built for the CPU only", "Install a build with CUDA"),
        (replace(CPU, cuda="12.4"), 0, {}, "warning", "CUDA 12.4, but sees no GPU.", "--gpus all"),
        (
            *(replace(CPU, cuda="12.4", cuda_error="RuntimeError: Found no NVIDIA driver"), 0, {}),
            *("warning", "sees no GPU: RuntimeError: Found no NVIDIA driver", "NUM_GPUS=2"),
        ),
        (
            *(replace(CPU, cuda="12.4", cuda_error="RuntimeError: driver too old"), 1, {}),
            *(
                "problem",
                "shows 1 GPU, but torch, built with CUDA 12.4, can use none: RuntimeError: driver",
                "below 12.4",
            ),
        ),
        (
            *(replace(CPU, cuda="12.4"), 2, {"CUDA_VISIBLE_DEVICES": "-1"}),
            *("problem", "CUDA_VISIBLE_DEVICES='-1' hides them", "unset CUDA_VISIBLE_DEVICES"),
        ),
    ],
)
def test_no_visible_gpu(
    facts: Interpreter, devices: int, environ: dict[str, str], level: str, what: str, cure: str
) -> None:
    check(only(judged(facts, replace(NODE, gpu_devices=devices), environ=environ), "GPUs"), level, what, cure)


def test_more_processes_than_gpus_are_a_problem_only_where_there_are_gpus() -> None:
    check(only(judged(ranks=8), "GPUs"), "problem", "8 processes need as many", "NUM_GPUS=4")
    assert only(judged(ranks=4), "GPUs").level == "ok"
    assert only(judged(with_gpus(A100), ranks=1), "GPUs").level == "ok"
    assert only(judged(CPU, replace(NODE, gpu_devices=0), ranks=8), "GPUs").level == "warning"


def test_nothing_is_said_of_gpus_where_there_is_no_torch() -> None:
    topics = {finding.topic for finding in judged(replace(CPU, torch=None))}
    assert topics.isdisjoint({"GPUs", "NCCL", "GPU memory"})


def test_gpus_are_named_as_the_variable_that_hides_others_names_them() -> None:
    facts = with_gpus(A100, replace(A100, free=GIB), A100)
    finding = only(judged(facts, environ={"CUDA_VISIBLE_DEVICES": "4,5,7"}), "GPU memory")
    assert "CUDA_VISIBLE_DEVICES=4,7" in finding.cure


VARIABLES = "torchrun's variables"


@pytest.mark.parametrize(
    ("environ", "topic", "level", "what", "cure"),
    [
        ({}, VARIABLES, "ok", "None is left over", ""),
        (
            {"RANK": "0", "WORLD_SIZE": "4"},
            *(
                VARIABLES,
                "warning",
                "RANK=0 WORLD_SIZE=4 is left over in this shell, without LOCAL_RANK, MASTER_ADDR and",
            ),
            "unset RANK WORLD_SIZE",
        ),
        (
            {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "29500"},
            *(VARIABLES, "warning", "MASTER_PORT=29500 is left over in this shell. torchrun sets"),
            "unset RANK LOCAL_RANK WORLD_SIZE MASTER_ADDR MASTER_PORT",
        ),
        ({"MASTER_ADDR": "a"}, VARIABLES, "warning", "MASTER_ADDR=a is set without MASTER_PORT", "MASTER_PORT=29500"),
        ({"MASTER_PORT": "1234"}, VARIABLES, "warning", "without MASTER_ADDR", "export MASTER_ADDR=localhost"),
        ({"MASTER_ADDR": "a", "MASTER_PORT": "1234"}, VARIABLES, "ok", "MASTER_ADDR=a MASTER_PORT=1234 is set", ""),
        ({"MASTER_PORT": "http"}, VARIABLES, "problem", "MASTER_PORT='http' is no port", "export MASTER_PORT=29500"),
        ({"MASTER_PORT": "65536"}, VARIABLES, "problem", "is no port", "export MASTER_PORT=29500"),
        (
            {"PET_NNODES": "2", "PET_MAX_RESTARTS": "3"},
            *("torchrun's defaults", "warning", "With PET_NNODES, the launcher expects several machines."),
            "unset PET_MAX_RESTARTS PET_NNODES",
        ),
        ({"PET_MAX_RESTARTS": "3"}, "torchrun's defaults", "warning", "changes torchrun's defaults.", "unset PET_"),
        ({"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, "CUDA_VISIBLE_DEVICES", "ok", "chooses 4 GPUs", ""),
        ({"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}, "CUDA_VISIBLE_DEVICES", "ok", "chooses 2 GPUs", ""),
        ({"CUDA_VISIBLE_DEVICES": ""}, "CUDA_VISIBLE_DEVICES", "warning", "hides all GPUs", "unset CUDA_VISIBLE"),
        (
            {"CUDA_VISIBLE_DEVICES": "0,1,1"},
            *("CUDA_VISIBLE_DEVICES", "problem", "names a GPU twice", "export CUDA_VISIBLE_DEVICES=0,1"),
        ),
        (
            {"CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5"},
            *(
                "CUDA_VISIBLE_DEVICES",
                "problem",
                "names 6 GPUs, but torch sees 4",
                "export CUDA_VISIBLE_DEVICES=0,1,2,3",
            ),
        ),
        ({"OMP_NUM_THREADS": "4"}, "OMP_NUM_THREADS", "ok", "OMP_NUM_THREADS=4.", ""),
        ({"OMP_NUM_THREADS": "5"}, "OMP_NUM_THREADS", "warning", "4 processes 20 threads, on 16 CPUs", "=4"),
        ({"OMP_NUM_THREADS": "many"}, "OMP_NUM_THREADS", "warning", "no number of threads", "export OMP_NUM_THREADS=4"),
        ({"NUM_GPUS": "4"}, "NUM_GPUS", "ok", "NUM_GPUS=4.", ""),
        ({"NUM_GPUS": "gpu"}, "NUM_GPUS", "ok", "NUM_GPUS=gpu.", ""),
        ({"NUM_GPUS": "8"}, "NUM_GPUS", "problem", "NUM_GPUS=8, but torch sees 4 GPUs", "export NUM_GPUS=4"),
        ({"NUM_GPUS": "0"}, "NUM_GPUS", "problem", "no number of processes", "export NUM_GPUS=4"),
        ({"NUM_GPUS": "all"}, "NUM_GPUS", "problem", "no number of processes", "export NUM_GPUS=4"),
        ({"NCCL_DEBUG": "INFO"}, "NCCL_DEBUG", "ok", "makes NCCL write what it does", ""),
        ({"NCCL_P2P_DISABLE": "1"}, "NCCL_P2P_DISABLE", "warning", "slower", "unset NCCL_P2P_DISABLE"),
        ({"NCCL_SHM_DISABLE": "1"}, "NCCL_SHM_DISABLE", "warning", "slower", "unset NCCL_SHM_DISABLE"),
        ({"NCCL_IB_DISABLE": "1"}, "NCCL_IB_DISABLE", "warning", "InfiniBand", "unset NCCL_IB_DISABLE"),
        (
            {"TORCH_DISTRIBUTED_DEBUG": "detail"},
            "TORCH_DISTRIBUTED_DEBUG",
            "warning",
            "every collective",
            "unset TORCH",
        ),
        ({"TORCH_DISTRIBUTED_DEBUG": "INFO"}, "TORCH_DISTRIBUTED_DEBUG", "ok", "write what it does", ""),
        ({"CUDA_LAUNCH_BLOCKING": "1"}, "CUDA_LAUNCH_BLOCKING", "warning", "much slower", "unset CUDA_LAUNCH_BLOCKING"),
        ({"PYTORCH_CUDA_ALLOC_CONF": "x:y"}, "PYTORCH_CUDA_ALLOC_CONF", "ok", "takes GPU memory", ""),
        ({"PYTORCH_ALLOC_CONF": "x:y"}, "PYTORCH_ALLOC_CONF", "ok", "takes GPU memory", ""),
        *[
            ({"NCCL_SOCKET_IFNAME": value}, "NCCL_SOCKET_IFNAME", "ok", "chooses the network interface", "")
            for value in ("eth", "eth0", "=eth0", "ib,eth", "^docker", "^=eth")
        ],
        *[
            (
                {"NCCL_SOCKET_IFNAME": value},
                "NCCL_SOCKET_IFNAME",
                "problem",
                "this machine has lo and eth0",
                "unset NCCL_",
            )
            for value in ("ib0", "=eth", "^lo,eth")
        ],
        ({"GLOO_SOCKET_IFNAME": "lo"}, "GLOO_SOCKET_IFNAME", "ok", "chooses the network interface", ""),
        ({"GLOO_SOCKET_IFNAME": "eth"}, "GLOO_SOCKET_IFNAME", "problem", "has lo and eth0", "unset GLOO_SOCKET_IFNAME"),
        *[
            ({name: "1"}, name, "warning", f"{name}=1 makes every", f"unset {name}")
            for name in ("PAI_TESTING_DENDRITE_CAPACITY", "PAI_PERFORATE_MODEL_PARALLEL", "PAI_PREFILL_GRADIENTS")
        ],
        (
            {"PAI_LOAD_FOLDER": "PAI"},
            "PAI_LOAD_FOLDER",
            "warning",
            "go on from the checkpoints",
            "unset PAI_LOAD_FOLDER",
        ),
        ({"PAI_TESTING_DENDRITE_CAPACITY": "0"}, "PAI_TESTING_DENDRITE_CAPACITY", "ok", "changes nothing", ""),
        ({"PAI_OTHER": "1"}, "PAI_OTHER", "ok", "changes nothing", ""),
        ({"PYTHON": "/x/python"}, "torchrun", "ok", "PYTHON=/x/python is set", ""),
    ],
)
def test_environment(environ: dict[str, str], topic: str, level: str, what: str, cure: str) -> None:
    check(only(judged(environ=environ), topic), level, what, cure)


@pytest.mark.parametrize(
    ("facts", "cpus", "level", "what"),
    [
        (SOUND, 16, "ok", "torchrun sets it to 1."),
        (CPU, 16, "warning", "8 threads are free for each process"),
        (CPU, 2, "ok", "torchrun sets it to 1."),
    ],
)
def test_number_of_threads_is_left_open(facts: Interpreter, cpus: int, level: str, what: str) -> None:
    finding = only(judged(facts, Machine(environ={}, cpus=cpus)), "OMP_NUM_THREADS")
    check(finding, level, what, f"export OMP_NUM_THREADS={cpus // 2}" if level == "warning" else "")


def test_gpus_are_asked_for_on_the_cpu() -> None:
    finding = only(judged(CPU, environ={"NUM_GPUS": "gpu"}), "NUM_GPUS")
    check(finding, "problem", "torch sees no GPU", "export NUM_GPUS=2")


JOB = {"SLURM_JOB_ID": "7", "SLURM_NNODES": "1", "SLURM_GPUS_ON_NODE": "4"}


@pytest.mark.parametrize(
    ("environ", "topic", "level", "what", "cure"),
    [
        (JOB, "SLURM", "ok", "This is job 7, on one node.", ""),
        ({**JOB, "SLURM_NTASKS": "1"}, "SLURM", "ok", "This is job 7", ""),
        (
            {**JOB, "SLURM_NTASKS": "8"},
            *("SLURM tasks", "warning", "SLURM_NTASKS=8: srun would start the launcher 8 times"),
            "without srun, or #SBATCH --ntasks-per-node=1 --gpus-per-node=4",
        ),
        ({**JOB, "SLURM_NTASKS": "8"}, "SLURM tasks", "warning", "SLURM sets no RANK or WORLD_SIZE", "#SBATCH"),
        (
            {**JOB, "SLURM_NNODES": "2", "SLURM_NTASKS": "2"},
            *("SLURM nodes", "warning", "Job 7 has 2 nodes"),
            "srun --nodes=2 --ntasks-per-node=1 ./train_distributed.sh",
        ),
        (
            {**JOB, "SLURM_NNODES": "2", "SLURM_NTASKS": "8"},
            *("SLURM tasks", "warning", "8 times", "#SBATCH --ntasks-per-node=1 --gpus-per-node=4"),
        ),
        (
            {**JOB, "SLURM_GPUS_ON_NODE": "8"},
            *("SLURM GPUs", "warning", "SLURM_GPUS_ON_NODE=8, but torch sees 4.", "--gpus-per-task=8"),
        ),
    ],
)
def test_slurm(environ: dict[str, str], topic: str, level: str, what: str, cure: str) -> None:
    findings = judged(environ=environ)
    check(only(findings, topic), level, what, cure)
    assert ("SLURM" in {finding.topic for finding in findings}) == (topic == "SLURM")


def test_slurm_login_node() -> None:
    check(only(judged(machine=replace(NODE, slurm=True)), "SLURM"), "warning", "in no job", "salloc")
    assert "SLURM" not in {finding.topic for finding in judged()}


@pytest.mark.parametrize(
    ("machine", "topic", "level", "what", "cure"),
    [
        (replace(NODE, bash=None), "bash", "problem", "no bash on PATH", "Install bash"),
        (
            replace(NODE, torchrun=None),
            "torchrun",
            "problem",
            "no torchrun on PATH",
            "PYTHON=/env/bin/python ./train_d",
        ),
        (replace(NODE, torchrun_python="/env/bin/python3"), "torchrun", "ok", "torchrun is /env/bin/torchrun.", ""),
        (
            replace(NODE, torchrun_python="/usr/bin/python3"),
            *("torchrun", "warning", "It runs /usr/bin/python3, another Python", "PYTHON=/env/bin/python"),
        ),
        (NODE, "port", "ok", "Port 29500 is free.", ""),
        (
            replace(NODE, ports={29500: "Address already in use"}),
            *("port", "warning", "Port 29500, PyTorch's usual port, cannot be used: Address already in use."),
            "export MASTER_PORT=29501",
        ),
        (
            replace(NODE, ports={65535: "Address already in use"}, environ={**ENVIRON, "MASTER_PORT": "65535"}),
            *("port", "warning", "Port 65535, MASTER_PORT, cannot be used", "export MASTER_PORT=29500"),
        ),
        (replace(NODE, environ={**ENVIRON, "MASTER_PORT": "1234"}), "port", "ok", "Port 1234 is free.", ""),
        (NODE, "host names", "ok", "localhost and node lead to this machine.", ""),
        (
            replace(NODE, unresolved={"localhost": "Name or service not known"}),
            *("host names", "problem", "localhost does not lead to this machine: Name or", "'127.0.0.1 localhost'"),
        ),
        (
            replace(NODE, unresolved={"node": "it leads to 10.0.0.9, which is not this machine"}),
            *("host names", "warning", "it leads to 10.0.0.9", "'127.0.1.1 node' | sudo tee -a /etc/hosts\nor"),
        ),
        (NODE, "shared memory", "ok", "/dev/shm has 32 GiB of 32 GiB free.", ""),
        (
            replace(NODE, shared_memory=(64 * 2**20, 63 * 2**20)),
            *("shared memory", "warning", "63 MiB of 64 MiB free", "docker run --shm-size=8g, or --ipc=host"),
        ),
        (replace(NODE, shared_memory=(32 * GIB, 1)), "shared memory", "warning", "0 KiB of 32 GiB", "ls -l /dev/shm"),
        (replace(NODE, shared_memory=None), "shared memory", "warning", "There is no /dev/shm", "--shm-size=8g"),
        (NODE, "open files", "ok", "A process may open 65536 files.", ""),
        (replace(NODE, open_files=(sys.maxsize, sys.maxsize)), "open files", "ok", "as many files as it likes", ""),
        (replace(NODE, open_files=(256, 4096)), "open files", "warning", "may open 256 files only", "ulimit -n 4096"),
        (replace(NODE, open_files=(256, sys.maxsize)), "open files", "warning", "256 files", "ulimit -n 65536"),
        (replace(NODE, open_files=(256, 256)), "open files", "warning", "256 files", "limits.conf"),
        (
            replace(NODE, folder="/w"),
            "working folder",
            "ok",
            "/w has 500 GiB free; files can be written and locked",
            "",
        ),
        (replace(NODE, disk_free=GIB), "working folder", "warning", "1.0 GiB free", "Free some space"),
        (replace(NODE, disk_free=2**20), "working folder", "problem", "1.0 MiB free", "Free some space"),
        (
            replace(NODE, not_writable="Permission denied", disk_free=0),
            *("working folder", "problem", "cannot be written to: Permission denied", "cd to a folder of your own"),
        ),
        (
            replace(NODE, not_lockable="No locks available"),
            *("working folder", "warning", "cannot be locked there: No locks available", "NFS: not with nolock"),
        ),
        (replace(NODE, cpus=4), "CPUs", "ok", "4 CPUs for 4 processes.", ""),
        (replace(NODE, cpus=3), "CPUs", "warning", "3 CPUs for 4 processes; each", "--cpus-per-task=8"),
    ],
)
def test_machine(machine: Machine, topic: str, level: str, what: str, cure: str) -> None:
    check(only(judged(machine=machine), topic), level, what, cure)


def test_no_shared_memory_is_expected_elsewhere() -> None:
    findings = judged(replace(SOUND, platform="darwin"), replace(NODE, shared_memory=None))
    assert "shared memory" not in {finding.topic for finding in findings}


# ---- a process group's judgement ------------------------------------------------------------------------------------

GOOD = Rank("done", "", 0, 0, 0, 2**24, (0.004, 0.002, 0.003), True, True, 1e-16)
GROUP = Group("nccl", (GOOD,) * 4)


def test_sound_group() -> None:
    findings = judge_group(GROUP)
    assert [(finding.topic, finding.level) for finding in findings] == [
        ("process group", "ok"),
        ("all-reduce", "ok"),
        ("gradients", "ok"),
    ]
    assert findings[0].what == "nccl over 4 processes met."
    assert "16 MiB in 3 ms: algorithm bandwidth 5.59 GB/s, bus bandwidth 8.39 GB/s." in findings[1].what


def test_bandwidth_is_that_of_nccl_tests() -> None:
    slow = replace(GOOD, seconds=(0.001, 0.008, 0.004))  # of each all-reduce, the last rank's time counts
    seconds, algorithm, bus = bandwidth(Group("nccl", (GOOD, GOOD, GOOD, slow)))
    assert seconds == 0.004
    assert algorithm == 2**24 / 0.004
    assert bus == algorithm * 2 * 3 / 4


def test_one_process_has_nothing_to_time() -> None:
    finding = only(judge_group(Group("gloo", (GOOD,))), "all-reduce")
    assert finding.level == "ok"
    assert "bandwidth" not in finding.what


@pytest.mark.parametrize(
    ("bad", "topic", "what", "cure"),
    [
        ({"wrong_sums": 12}, "all-reduce", "12 of 4194304 sums are wrong on rank 2.", "NCCL_P2P_DISABLE=1"),
        (
            {"same_parameters": False},
            "gradients",
            "left parameters that differ from rank to rank on rank 2.",
            "Reinstall",
        ),
        ({"same_gradients": False}, "gradients", "gradients differ from rank to rank on rank 2.", "Reinstall torch"),
        (
            {"gradient_error": 1e-3},
            "gradients",
            "are not the mean of all ranks' own ones on rank 2.",
            "Reinstall torch",
        ),
        ({"gradient_error": float("nan")}, "gradients", "are not the mean", "Reinstall torch"),
        ({"gradient_error": None}, "process group", "failed: rank 2 ended without a result.", "NCCL_DEBUG=INFO"),
        (
            {"status": 1, "stage": "in an all-reduce", "error": "RuntimeError: NCCL error"},
            *(
                "process group",
                "failed: rank 2 ended while in an all-reduce: RuntimeError: NCCL error",
                "NCCL_DEBUG=INFO",
            ),
        ),
        ({"status": 3, "stage": ""}, "process group", "rank 2 ended: exit status 3.", "NCCL_P2P_DISABLE=1"),
        ({"status": -signal.SIGTERM}, "process group", "signal SIGTERM.", "NCCL_P2P_DISABLE=1"),
        ({"status": -99}, "process group", "signal 99.", "NCCL_P2P_DISABLE=1"),
        pytest.param({"status": -7}, "process group", "signal SIGBUS.", "--shm-size=8g", marks=posix),
        pytest.param({"status": -9}, "process group", "signal SIGKILL.", "Memory ran out", marks=posix),
    ],
)
def test_bad_rank(bad: dict[str, Any], topic: str, what: str, cure: str) -> None:
    finding = only(judge_group(replace(GROUP, ranks=(GOOD, GOOD, replace(GOOD, **bad), GOOD))), topic)
    check(finding, "problem", what, cure)


def test_the_rank_that_failed_first_is_named() -> None:
    first, second = replace(GOOD, status=1, ended=1, error="first"), replace(GOOD, status=1, ended=2, error="second")
    killed = replace(GOOD, status=None, ended=None)
    (finding,) = judge_group(replace(GROUP, ranks=(GOOD, second, killed, first)))
    assert "rank 3 ended" in finding.what
    assert finding.what.endswith("first")


@pytest.mark.parametrize(("backend", "cure"), [("nccl", "NCCL_DEBUG=INFO"), ("gloo", "GLOO_SOCKET_IFNAME=lo retrofit")])
def test_hung_group(backend: str, cure: str) -> None:
    waiting = Rank("forming the process group")
    (finding,) = judge_group(Group(backend, (waiting, GOOD, waiting, Rank("")), 90.0))
    check(finding, "problem", f"{backend} over 4 processes hung, and was killed after 90 seconds", cure)
    assert finding.what.endswith(": ranks 0 and 2 were forming the process group; rank 3 was starting.")


# ---- what is printed ------------------------------------------------------------------------------------------------

SAID = [
    Finding("A", "ok", "Fine."),
    Finding("Long", "warning", "Hm.", "do this\nor that"),
    Finding("C", "problem", "No.", "x"),
]


def test_text_and_json() -> None:
    assert to_text(SAID).splitlines() == [
        "ok       A     Fine.",
        "warning  Long  Hm.",
        "               do this",
        "               or that",
        "problem  C     No.",
        "               x",
    ]
    assert json.loads(to_json(SAID))[1] == {
        "topic": "Long",
        "level": "warning",
        "what": "Hm.",
        "cure": "do this\nor that",
    }


def test_verdict_and_exit_code() -> None:
    assert verdict(SAID[:2], 4, True).what == "This machine can train with 4 processes, each on a GPU."
    assert verdict(SAID[:2], 1, False).what == "This machine can train with 1 process, on the CPU."
    assert verdict(SAID, 4, True).what == "This machine cannot train so yet: 1 problem."
    assert verdict([*SAID, *SAID], 4, True).what.endswith(": 2 problems.")
    assert exit_code([*SAID[:2], verdict(SAID[:2], 2, True)]) == 0
    assert exit_code(SAID) == 1


# ---- the interpreter that trains ------------------------------------------------------------------------------------

FAKE_TORCH = """
from types import SimpleNamespace as S
print("noise on stdout")
__version__ = "2.6.0+cu124"
version = S(cuda="12.4", hip=None)
distributed = S(is_available=lambda: True, is_nccl_available=lambda: True)
def busy(index):
    if index == 1:
        raise RuntimeError("CUDA error:\\n  devices are busy")
    return (40, 80)
cuda = S(
    init=lambda: None, device_count=lambda: 2, nccl=S(version=lambda: (2, 21, 5)), get_arch_list=lambda: ["sm_80"],
    can_device_access_peer=lambda one, other: False, mem_get_info=busy,
    get_device_properties=lambda index: S(name="A100", major=8, minor=0, total_memory=80),
)
"""


def fake_modules(folder: Path, torch: str, perforatedai: str = "") -> dict[str, str]:
    """Return an environment whose Python has these modules, and a perforatedai, before all others."""
    (folder / "perforatedai").mkdir(parents=True)
    (folder / "torch.py").write_text(torch)
    (folder / "perforatedai" / "__init__.py").write_text("")
    (folder / "perforatedai" / "globals_perforatedai.py").write_text(perforatedai)
    (folder / "perforatedai" / "utils_perforatedai.py").write_text("")
    (folder / "perforatedai-9.8.7.dist-info").mkdir()
    (folder / "perforatedai-9.8.7.dist-info" / "METADATA").write_text("Name: perforatedai\nVersion: 9.8.7\n")
    return {**os.environ, "PYTHONPATH": str(folder)}


def test_probe_with_gpus(tmp_path: Path) -> None:
    facts = ask(sys.executable, fake_modules(tmp_path / "lib", FAKE_TORCH), DEADLINE)
    assert facts.python == sys.version_info[:3]
    assert (facts.torch, facts.cuda, facts.hip, facts.nccl) == ("2.6.0+cu124", "12.4", None, "2.21.5")
    assert facts.gpus == (
        Gpu("A100", (8, 0), 80, 40),
        Gpu("A100", (8, 0), 80, None, "RuntimeError: CUDA error: devices are busy"),
    )
    assert (facts.architectures, facts.strangers) == (("sm_80",), ((0, 1),))
    assert (facts.perforatedai, facts.perforatedai_error, facts.torch_error) == ("9.8.7", "", "")


@posix
@pytest.mark.parametrize(
    ("torch", "error"),
    [
        ("raise ImportError('libcudnn.so.9:\\n  not found')", "ImportError: libcudnn.so.9: not found"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "it took the process down with it."),
    ],
)
def test_probe_of_a_torch_that_cannot_be_imported(torch: str, error: str, tmp_path: Path) -> None:
    facts = ask(sys.executable, fake_modules(tmp_path / "lib", torch), DEADLINE)
    assert (facts.torch, facts.torch_error) == (None, error)
    assert facts.perforatedai == "9.8.7"  # what was known before is not lost


@posix
def test_probe_of_a_perforatedai_that_cannot_be_imported(tmp_path: Path) -> None:
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    facts = ask(sys.executable, fake_modules(tmp_path / "lib", FAKE_TORCH, crash), DEADLINE)
    assert facts.perforatedai_error == "it took the process down with it."
    assert len(facts.gpus) == 2


def test_probe_where_cuda_does_not_start(tmp_path: Path) -> None:
    torch = FAKE_TORCH + "def no():\n    raise RuntimeError('driver too old')\ncuda.init = no\n"
    facts = ask(sys.executable, fake_modules(tmp_path / "lib", torch), DEADLINE)
    assert (facts.gpus, facts.cuda_error) == ((), "RuntimeError: driver too old")


@posix
@pytest.mark.parametrize(
    ("content", "what"),
    [
        (None, "is no program that can be run"),
        ("#!/bin/sh\n", "did not answer as a Python does (it said nothing)"),
        ("#!/bin/sh\necho 3\necho [1]\necho worse >&2\n", "did not answer as a Python does (worse)"),
        ("#!/no/such/program\n", "could not be run (No such file or directory)"),
        ("\x7fELF", "could not be run (Exec format error)"),
    ],
)
def test_no_python(content: str | None, what: str, tmp_path: Path) -> None:
    program = tmp_path / "python"
    if content is not None:
        program.write_text(content)
        program.chmod(0o755)
    with pytest.raises(UserError) as caught:
        doctor.examine(str(program), None, DEADLINE, {"perforatedai": ("3.2.9",)})
    assert str(caught.value) == f"--python {program}: RF017 {what}. Name the Python that trains, 3.9 or newer."


@pytest.mark.parametrize("script", [PROBE, RANKS], ids=lambda path: path.name)
def test_scripts_need_nothing_but_python(script: Path) -> None:
    tree = ast.parse(script.read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


def test_retrofit_does_not_import_torch(tmp_path: Path) -> None:
    environ = fake_modules(tmp_path / "lib", "raise SystemExit('torch was imported')")
    code = (
        "import sys; from retrofit.doctor import examine; examine(sys.executable, 2, 60, {}); "
        "print('torch' in sys.modules)"
    )
    environ |= {"PYTHONPATH": f"{environ['PYTHONPATH']}{os.pathsep}{os.getcwd()}"}
    result = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)
    assert (result.stdout.strip(), result.stderr) == ("False", "")


def test_no_group_is_tried_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", fake_modules(tmp_path / "lib", "raise ImportError('no')")["PYTHONPATH"])
    findings = doctor.examine(sys.executable, None, DEADLINE, {"perforatedai": ("9.8.7",)})
    assert only(findings, "process group").level == "warning"
    assert only(findings, "torch").level == "problem"
    assert (findings[-1].topic, findings[-1].level) == ("verdict", "problem")


# ---- this machine ---------------------------------------------------------------------------------------------------


def test_a_port_is_taken_while_somebody_listens() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert look_around({"MASTER_PORT": str(port)}).ports == {port: os.strerror(errno.EADDRINUSE)}
    assert port_refusal(port) == ""


@posix
def test_a_connection_that_has_ended_keeps_no_port() -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        address = listener.getsockname()
        with socket.create_connection(address) as client:
            listener.accept()[0].close()  # who closes first keeps the port for a minute
            assert client.recv(1) == b""
    with socket.socket() as strict, pytest.raises(OSError, match="in use"):
        strict.bind(address)
    assert port_refusal(address[1]) == ""


def test_the_working_folder(tmp_path: Path) -> None:
    sound = look_around({}, str(tmp_path))
    assert (sound.not_writable, sound.not_lockable, sound.folder) == ("", "", str(tmp_path))
    assert sound.disk_free > 0
    assert list(tmp_path.iterdir()) == []
    gone = look_around({}, str(tmp_path / "gone"))
    assert gone.not_writable == os.strerror(errno.ENOENT)


@posix
def test_a_removed_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert look_around({}).not_writable == os.strerror(errno.ENOENT)


@posix
def test_a_folder_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(number: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    machine = look_around({}, str(tmp_path))
    assert (machine.not_writable, machine.not_lockable) == ("", "No locks available")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        # an address that is for documentation only, so that no machine has it
        ("203.0.113.1", "it leads to 203.0.113.1, which is not this machine"),
        ("127.0.0.1", None),
    ],
)
def test_host_names(answer: str | Exception, reason: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(name: str, port: int, **more: object) -> list[object]:
        if isinstance(answer, Exception):
            raise answer
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (answer if name == "me" else "127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "gethostname", lambda: "me")
    assert look_around({}).unresolved.get("me") == reason


@posix
@pytest.mark.parametrize(
    ("first_line", "python"),
    [("#!/env/bin/python3.11\n", "/env/bin/python3.11"), ("#!/usr/bin/env python\n", ""), ("\x7fELF\n", ""), ("", "")],
)
def test_programs_on_path(first_line: str, python: str, tmp_path: Path) -> None:
    for name in ("torchrun", "bash", "srun"):
        (tmp_path / name).write_text(first_line)
        (tmp_path / name).chmod(0o755)
    machine = look_around({"PATH": str(tmp_path)})
    assert (machine.torchrun, machine.bash) == (str(tmp_path / "torchrun"), str(tmp_path / "bash"))
    assert (machine.slurm, machine.torchrun_python) == (True, python)
    nothing = look_around({"PATH": str(tmp_path / "none")})
    assert (nothing.torchrun, nothing.bash, nothing.slurm) == (None, None, False)


# ---- processes end --------------------------------------------------------------------------------------------------

#: A rank that waits for ever, with a process of its own that does as well; both hold the pipe open.
WAITING = """
import json, os, signal, subprocess, sys
print(json.dumps({"stage": "waiting"}), flush=True)
pipe = os.open(os.environ["TEST_PIPE"], os.O_WRONLY)
code = "import os, signal; os.write(int(os.environ['PIPE']), b'x'); signal.pause()"
subprocess.Popen([sys.executable, "-c", code], pass_fds=[pipe], env={**os.environ, "PIPE": str(pipe)})
if "TEST_READY" in os.environ:
    open(os.environ["TEST_READY"], "w").close()
signal.pause()
"""


class Pipe:
    """A named pipe that ranks hold open: it says when they are there, and when the last of them is gone."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self.reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        # ours keeps it open from the start: without any writer so far it would seem neither open nor closed
        self.writer: int | None = os.open(path, os.O_WRONLY)

    def wait_for(self, ranks: int) -> None:
        """Wait until so many ranks, and their own processes, run."""
        for _ in range(ranks):
            assert select.select([self.reader], [], [], DEADLINE)[0], "the ranks did not start"
            assert os.read(self.reader, 1) == b"x"

    def is_closed(self) -> bool:
        """Return whether all ranks and their own processes end."""
        if self.writer is not None:
            os.close(self.writer)
            self.writer = None
        while select.select([self.reader], [], [], DEADLINE)[0]:
            if os.read(self.reader, 100) == b"":
                return True
        return False


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    pipe = Pipe(tmp_path / "pipe")
    yield pipe
    pipe.is_closed()
    os.close(pipe.reader)


def written(folder: Path, text: str) -> Path:
    script = folder / "rank.py"
    script.write_text(dedent(text))
    return script


def environ_of(pipe: Pipe, **more: str) -> Mapping[str, str]:
    return {**os.environ, "TEST_PIPE": str(pipe.path), **more}


@posix
def test_a_hang_is_a_problem_and_leaves_nothing(pipe: Pipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = iter(range(2))

    def clock() -> float:
        """Let the time be over as soon as all ranks hang."""
        if next(asked) == 0:
            return 0.0
        pipe.wait_for(2)
        return 1000.0

    monkeypatch.setattr(children, "time", SimpleNamespace(monotonic=clock))
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    group = try_group(sys.executable, 2, "gloo", environ_of(pipe), 90.0, written(tmp_path, WAITING))
    assert group == Group("gloo", (Rank("waiting"), Rank("waiting")), 90.0)
    assert pipe.is_closed()
    assert list(temporary.iterdir()) == []
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    (finding,) = judge_group(group)
    assert "hung, and was killed after 90 seconds: ranks 0 and 1 were waiting." in finding.what


@posix
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"])
def test_a_signal_leaves_nothing(name: str, pipe: Pipe, tmp_path: Path) -> None:
    number = signal.Signals[name]
    (temporary := tmp_path / "temporary").mkdir()
    code = """
        import os, resource, signal, sys
        from pathlib import Path
        from retrofit.doctor.runs import try_group

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # a test runner may run with some of them ignored
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        try_group(sys.executable, 2, "gloo", os.environ, 1e6, Path(sys.argv[1]))
    """
    command = [sys.executable, "-c", dedent(code), str(written(tmp_path, WAITING))]
    environ = environ_of(pipe, TMPDIR=str(temporary))
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, start_new_session=True) as process:
        try:
            pipe.wait_for(2)
            assert [path.name[:16] for path in temporary.iterdir()] == ["retrofit-doctor-"]
            process.send_signal(number)
            error = process.communicate(timeout=DEADLINE)[1]
        finally:
            process.kill()
    assert process.returncode == -number, error
    assert pipe.is_closed()
    assert list(temporary.iterdir()) == []


@posix
def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        code = "import os, signal; os.kill(os.getppid(), signal.SIGHUP); print('sent')"
        (outcome,), hung = children.run_together([sys.executable, "-c", code], [os.environ], DEADLINE)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (outcome.status, outcome.out, hung) == (0, "sent\n", False)


@posix
def test_one_rank_s_failure_ends_the_others(pipe: Pipe, tmp_path: Path) -> None:
    failing = """
        import json, os, sys
        if os.environ["RANK"] == "1":
            print(json.dumps({"stage": "meeting"}), flush=True)
            open(os.environ["TEST_READY"]).read()
            sys.exit("it broke")
    """
    os.mkfifo(tmp_path / "ready")
    environ = environ_of(pipe, TEST_READY=str(tmp_path / "ready"))
    group = try_group(sys.executable, 2, "gloo", environ, DEADLINE, written(tmp_path, dedent(failing) + WAITING))
    assert group.hung_after is None
    assert group.ranks[0] == Rank("waiting")
    assert pipe.is_closed()
    (finding,) = judge_group(group)
    assert finding.what == "gloo over 2 processes failed: rank 1 ended while meeting: it broke"


def test_ranks_get_torchrun_s_variables(tmp_path: Path) -> None:
    names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS"]
    script = written(
        tmp_path, f"import json, os; print(json.dumps({{'stage': ' '.join(os.environ[n] for n in {names})}}))"
    )
    environ = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    group = try_group(sys.executable, 3, "gloo", {**environ, "RANK": "9", "WORLD_SIZE": "9"}, DEADLINE, script)
    assert [rank.stage for rank in group.ranks] == ["0 0 3 3 1", "1 1 3 3 1", "2 2 3 3 1"]


# ---- with torch -----------------------------------------------------------------------------------------------------


@pytest.mark.real
def test_examination_of_a_real_interpreter() -> None:
    findings = doctor.examine(sys.executable, 2, 300.0, {"perforatedai": ("3.2.9",)})
    text = to_text(findings)
    assert only(findings, "torch").level == "ok", text
    assert only(findings, "perforatedai").what == "perforatedai 3.2.9. The recipe was proven with it.", text
    assert only(findings, "packages").level == "ok", text
    assert "All sums are right." in only(findings, "all-reduce").what, text
    assert "are the mean of all ranks' own gradients" in only(findings, "gradients").what, text


@pytest.mark.real
def test_a_single_process_and_several() -> None:
    for ranks in (1, 3):
        findings = judge_group(try_group(sys.executable, ranks, "gloo", os.environ, 300.0))
        assert [finding.level for finding in findings] == ["ok"] * 3, to_text(findings)


#: What is put in place of torch's own before `ranks.py` runs.
BREAKAGES = {
    "all-reduce": """
        real = torch.distributed.all_reduce
        def broken(tensor):
            real(tensor)
            tensor[5] += 1
        torch.distributed.all_reduce = broken
        """,
    "parameters": """
        class Broken(torch.nn.Module):
            def __init__(self, module, device_ids):
                super().__init__()
                self.module = module
            def forward(self, inputs):
                return self.module(inputs)
            no_sync = contextlib.nullcontext
        torch.nn.parallel.DistributedDataParallel = Broken
        """,
    "gradients that stay apart": """
        real = torch.nn.parallel.DistributedDataParallel
        class Broken(real):
            def forward(self, inputs):
                return self.module(inputs)
            def no_sync(self):
                self.require_backward_grad_sync = False
                return contextlib.nullcontext()
        torch.nn.parallel.DistributedDataParallel = Broken
        """,
    "gradients that are added up": """
        real = torch.nn.parallel.DistributedDataParallel
        class Broken(real):
            def __init__(self, module, device_ids):
                super().__init__(module, device_ids=device_ids)
                def add(state, bucket):
                    work = torch.distributed.all_reduce(bucket.buffer(), async_op=True)
                    return work.get_future().then(lambda done: done.value()[0])
                self.register_comm_hook(None, add)
        torch.nn.parallel.DistributedDataParallel = Broken
        """,
}


@pytest.mark.real
@pytest.mark.parametrize(
    ("breakage", "topic", "what"),
    [
        ("all-reduce", "all-reduce", "1 of 1048576 sums are wrong on ranks 0 and 1."),
        ("parameters", "gradients", "left parameters that differ from rank to rank on ranks 0 and 1."),
        ("gradients that stay apart", "gradients", "gradients differ from rank to rank on ranks 0 and 1."),
        (
            "gradients that are added up",
            "gradients",
            "gradients are not the mean of all ranks' own ones on ranks 0 and 1.",
        ),
    ],
)
def test_what_is_broken_is_found(breakage: str, topic: str, what: str, tmp_path: Path) -> None:
    head = "import contextlib, runpy, torch, torch.distributed\n" + dedent(BREAKAGES[breakage])
    script = written(tmp_path, f"{head}\nrunpy.run_path({str(RANKS)!r}, run_name='__main__')\n")
    findings = judge_group(try_group(training_python(), 2, "gloo", os.environ, 300.0, script))
    assert [finding.topic for finding in findings if finding.level != "ok"] == [topic], to_text(findings)
    assert what in only(findings, topic).what


@pytest.mark.real
def test_a_rank_s_error_is_told() -> None:
    environ = {**os.environ, "GLOO_SOCKET_IFNAME": "nosuch0"}
    (finding,) = judge_group(try_group(training_python(), 2, "gloo", environ, 300.0))
    assert "ended while forming the process group: RuntimeError: " in finding.what
    assert "nosuch0" in finding.what
    assert "\n" not in finding.what
