"""Judges the machine: ports, names, shared memory, open files, the working folder and the CPUs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable

from retrofit.doctor.facts import Interpreter, Machine
from retrofit.doctor.finding import Finding, size
from retrofit.doctor.machine import USUAL_PORT
from retrofit.wording import counted

#: A DataLoader's workers hand over whole batches through it, NCCL some megabytes for each pair of GPUs.
_SHARED_MEMORY = 2**30
#: Tensors that workers hand over are an open file each; many systems allow 1024, macOS 256.
_OPEN_FILES = 1024
_DISK, _NO_DISK = 5 * 2**30, 2**28


def judge_machine(facts: Interpreter, machine: Machine, ranks: int) -> list[Finding]:
    """Judge the machine.

    Args:
        facts: the interpreter that trains.
        machine: this machine.
        ranks: how many processes are tried.
    """
    return [
        _port(machine),
        *_names(machine),
        *_shared_memory(facts, machine),
        *_open_files(machine),
        _folder(machine),
        _cpus(machine, ranks),
    ]


def _port(machine: Machine) -> Finding:
    chosen = machine.environ.get("MASTER_PORT")
    for port, reason in machine.ports.items():
        origin = "MASTER_PORT" if chosen == str(port) else "PyTorch's usual port"
        return Finding(
            "port",
            "warning",
            f"Port {port}, {origin}, cannot be used: {reason}. A launch with --standalone finds one itself.",
            f"ss -ltnp 'sport = :{port}' shows who has it; for other launches: export MASTER_PORT={port + 1}"
            if port < 65535
            else f"export MASTER_PORT={USUAL_PORT}",
        )
    valid = chosen if chosen and chosen.isdecimal() and 0 < int(chosen) < 65536 else USUAL_PORT
    return Finding("port", "ok", f"Port {valid} is free.")


def _names(machine: Machine) -> Iterable[Finding]:
    local, own = machine.unresolved.get("localhost"), machine.unresolved.get(machine.hostname)
    if local:
        yield Finding(
            "host names",
            "problem",
            f"localhost does not lead to this machine: {local}. torchrun --standalone meets there.",
            "echo '127.0.0.1 localhost' | sudo tee -a /etc/hosts",
        )
    if own and machine.hostname != "localhost":
        yield Finding(
            "host names",
            "warning",
            f"{machine.hostname}, this machine's own name, does not lead to it: {own}. gloo looks there for its "
            "network interface, and may hang.",
            f"echo {shlex.quote('127.0.1.1 ' + machine.hostname)} | sudo tee -a /etc/hosts\n"
            "or, to train on one machine: export GLOO_SOCKET_IFNAME=lo",
        )
    if not local and not own:
        yield Finding("host names", "ok", f"localhost and {machine.hostname} lead to this machine.")


def _shared_memory(facts: Interpreter, machine: Machine) -> Iterable[Finding]:
    cure = "docker run --shm-size=8g, or --ipc=host; elsewhere: sudo mount -o remount,size=8g /dev/shm"
    topic = "shared memory"
    if machine.shared_memory is None:
        if facts.platform == "linux":
            yield Finding(topic, "warning", "There is no /dev/shm, which DataLoader's workers and NCCL use.", cure)
        return
    total, free = machine.shared_memory
    if free >= _SHARED_MEMORY:
        yield Finding(topic, "ok", f"/dev/shm has {size(free)} of {size(total)} free.")
        return
    if total >= _SHARED_MEMORY:
        cure = "ls -l /dev/shm shows what fills it; remove what ended processes left"
    yield Finding(
        topic,
        "warning",
        f"/dev/shm has {size(free)} of {size(total)} free. DataLoader's workers die of a bus error where it is full.",
        cure,
    )


def _open_files(machine: Machine) -> Iterable[Finding]:
    if machine.open_files is None:
        return
    soft, hard = machine.open_files
    if soft >= _OPEN_FILES:
        shown = "as many files as it likes" if soft == sys.maxsize else f"{soft} files"
        yield Finding("open files", "ok", f"A process may open {shown}.")
        return
    yield Finding(
        "open files",
        "warning",
        f"A process may open {soft} files only; DataLoader's workers need one for each tensor.",
        f"ulimit -n {min(hard, 65536)}"
        if hard > soft
        else "Ask the administrator to raise nofile in /etc/security/limits.conf.",
    )


def _folder(machine: Machine) -> Finding:
    topic = "working folder"
    if machine.not_writable:
        return Finding(
            topic,
            "problem",
            f"{machine.folder} cannot be written to: {machine.not_writable}. Checkpoints are written there.",
            "cd to a folder of your own",
        )
    if machine.disk_free < _DISK:
        return Finding(
            topic,
            "problem" if machine.disk_free < _NO_DISK else "warning",
            f"{machine.folder} has {size(machine.disk_free)} free; each change of the model's structure writes a "
            "checkpoint there.",
            "Free some space, or cd to a folder on a larger disk.",
        )
    free = f"{machine.folder} has {size(machine.disk_free)} free"
    if machine.not_lockable:
        return Finding(
            topic,
            "warning",
            f"{free}, but files cannot be locked there: {machine.not_lockable}. Ranks then take turns by a lock in the "
            "temporary folder, which works on one machine only.",
            "For several machines: have it mounted with locks (NFS: not with nolock; Lustre: with flock).",
        )
    return Finding(topic, "ok", f"{free}; files can be written and locked there.")


def _cpus(machine: Machine, ranks: int) -> Finding:
    what = f"{counted(machine.cpus, 'CPU')} for {counted(ranks, 'process', 'processes')}"
    if machine.cpus >= ranks:
        return Finding("CPUs", "ok", f"{what}.")
    return Finding(
        "CPUs",
        "warning",
        f"{what}; each needs one, and its DataLoader workers more.",
        f"Ask for more: docker run --cpus={2 * ranks}, or #SBATCH --cpus-per-task={2 * ranks}",
    )
