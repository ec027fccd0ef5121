"""What is known before anything is judged. Tests make these up; `machine`, `probe` and `group` find them out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Gpu:
    """A GPU that torch sees.

    Attributes:
        name: its model.
        capability: its CUDA compute capability, such as ``(9, 0)``.
        total: its memory in bytes.
        free: what is free of it; None where the driver does not say.
        error: why it could not be asked.
    """

    name: str
    capability: tuple[int, int] = (8, 0)
    total: int = 80 * 2**30
    free: int | None = 79 * 2**30
    error: str = ""


@dataclass(frozen=True)
class Interpreter:
    """The Python that trains, as `probe.py` found it.

    Attributes:
        executable: its path.
        python: its version.
        platform: its ``sys.platform``.
        machine: the processor, such as ``x86_64``.
        missing: the packages that perforatedai needs and that are not there, by the names that pip knows.
        perforatedai: the version of perforatedai, None where it is not installed.
        perforatedai_error: why it could not be imported.
        torch: the version of torch, None where it cannot be imported.
        torch_error: why it could not be, "" where it is not installed.
        cuda: the CUDA version that torch was built with.
        hip: the ROCm version that torch was built with.
        cuda_error: what torch says where it can use no GPU.
        gpus: the GPUs that torch sees.
        architectures: what torch was compiled for, such as ``sm_90``.
        strangers: pairs of GPUs of which one cannot read the other's memory.
        distributed: whether torch has torch.distributed.
        nccl: NCCL's version, None where torch has none.
        gloo: whether torch has gloo.
    """

    executable: str
    python: tuple[int, int, int] = (3, 11, 7)
    platform: str = "linux"
    machine: str = "x86_64"
    missing: tuple[str, ...] = ()
    perforatedai: str | None = None
    perforatedai_error: str = ""
    torch: str | None = None
    torch_error: str = ""
    cuda: str | None = None
    hip: str | None = None
    cuda_error: str = ""
    gpus: tuple[Gpu, ...] = ()
    architectures: tuple[str, ...] = ()
    strangers: tuple[tuple[int, int], ...] = ()
    distributed: bool = True
    nccl: str | None = None
    gloo: bool = True


@dataclass(frozen=True)
class Machine:
    """The machine and the shell, as `machine.py` found them.

    Attributes:
        environ: the environment variables.
        folder: the working folder.
        bash: the path of bash, None where there is none on PATH.
        torchrun: the path of torchrun, None where there is none on PATH.
        torchrun_python: the Python that it names in its first line, "" where it names none.
        slurm: whether srun is on PATH.
        gpu_devices: how many NVIDIA GPUs the driver shows as files.
        cpus: how many CPUs this process may use.
        shared_memory: size and free bytes of /dev/shm, None where there is none.
        open_files: how many files a process may open, and to how many it may raise that itself; None where unknown.
        disk_free: free bytes in the working folder.
        not_writable: why no file can be written there.
        not_lockable: why no file can be locked there.
        hostname: this machine's own name.
        unresolved: names that do not lead to this machine, with the reason.
        ports: ports that were asked for and cannot be used, with the reason.
        interfaces: names of the network interfaces.
    """

    environ: Mapping[str, str] = field(default_factory=dict)
    folder: str = "."
    bash: str | None = "/bin/bash"
    torchrun: str | None = "/env/bin/torchrun"
    torchrun_python: str = ""
    slurm: bool = False
    gpu_devices: int = 0
    cpus: int = 16
    shared_memory: tuple[int, int] | None = (32 * 2**30, 32 * 2**30)
    open_files: tuple[int, int] | None = (65536, 65536)
    disk_free: int = 500 * 2**30
    not_writable: str = ""
    not_lockable: str = ""
    hostname: str = "node"
    unresolved: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[int, str] = field(default_factory=dict)
    interfaces: tuple[str, ...] = ("lo", "eth0")


@dataclass(frozen=True)
class Rank:
    """What one process of the group said.

    Attributes:
        stage: what it did last.
        error: the error that it ended with.
        status: its exit status, negative for a signal; None where it still ran when it was stopped.
        ended: 0 for the first process that ended, 1 for the next; None where it still ran when it was stopped.
        wrong_sums: how many elements of the all-reduced tensor were wrong; None where it did not get there.
        size: bytes of that tensor.
        seconds: how long each of the timed all-reduces took.
        same_parameters: whether all ranks had the same parameters after wrapping, though not before.
        same_gradients: whether all ranks had the same gradients after the backward pass.
        gradient_error: how far they were from the mean of the ranks' own gradients, relative to the largest of those;
            None where it did not get there.
    """

    stage: str = ""
    error: str = ""
    status: int | None = None
    ended: int | None = None
    wrong_sums: int | None = None
    size: int = 0
    seconds: tuple[float, ...] = ()
    same_parameters: bool = False
    same_gradients: bool = False
    gradient_error: float | None = None


@dataclass(frozen=True)
class Group:
    """A process group that was tried, as `group.py` ran it.

    Attributes:
        backend: "nccl" or "gloo".
        ranks: what each process said.
        hung_after: seconds after which all were killed; None where they ended by themselves.
    """

    backend: str
    ranks: tuple[Rank, ...]
    hung_after: float | None = None
