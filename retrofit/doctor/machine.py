"""Finds out what can be known of this machine and this shell without torch."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from retrofit.doctor.facts import Machine

#: The port that torchrun takes where it is told none.
USUAL_PORT = 29500
#: Seconds for a name's resolution; a name server that does not answer takes longer.
_NAME_WAIT = 10.0


def look_around(environ: Mapping[str, str], folder: str = ".") -> Machine:
    """Return the facts about this machine.

    Args:
        environ: the environment variables.
        folder: the folder that training would be started in.
    """
    path = environ.get("PATH")
    torchrun = shutil.which("torchrun", path=path)
    hostname = socket.gethostname()
    reasons = {name: _unresolved(name) for name in ("localhost", hostname)}
    not_writable, not_lockable = _try_file(folder)
    return Machine(
        environ=environ,
        folder=_absolute(folder),
        bash=shutil.which("bash", path=path),
        torchrun=torchrun,
        torchrun_python=_first_line_s_python(torchrun) if torchrun else "",
        slurm=shutil.which("srun", path=path) is not None,
        gpu_devices=len(list(Path("/dev").glob("nvidia[0-9]*"))),
        cpus=_cpus(),
        shared_memory=_shared_memory(),
        open_files=_open_files(),
        disk_free=_disk_free(folder),
        not_writable=not_writable,
        not_lockable=not_lockable,
        hostname=hostname,
        unresolved={name: reason for name, reason in reasons.items() if reason},
        ports={port: reason for port in _ports(environ) if (reason := port_refusal(port))},
        interfaces=tuple(name for _, name in socket.if_nameindex()),
    )


def _ports(environ: Mapping[str, str]) -> list[int]:
    chosen = environ.get("MASTER_PORT", "")
    # beyond these bounds it is no port, which the environment's own check says
    return [int(chosen)] if chosen.isdecimal() and 0 < int(chosen) < 65536 else [USUAL_PORT]


def port_refusal(port: int) -> str:
    """Return why this machine cannot listen at a port, "" where it can."""
    with socket.socket() as listener:
        # As torch does it: a connection that ended a minute ago does not count. On Windows the option means more.
        if sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
        except OSError as error:
            return error.strerror or str(error)
    return ""


def _unresolved(name: str) -> str:
    """Return why a name does not lead to this machine, "" where it does: gloo binds to what its own name leads to."""
    # Nothing can interrupt a resolution; a thread may be left to it.
    answers = [f"no answer within {_NAME_WAIT:.0f} seconds"]
    thread = threading.Thread(target=lambda: answers.append(_resolve(name)), daemon=True)
    thread.start()
    thread.join(_NAME_WAIT)
    return answers[-1]


def _resolve(name: str) -> str:
    try:
        found = socket.getaddrinfo(name, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return getattr(error, "strerror", None) or str(error)
    for family, kind, protocol, _, address in found:
        with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as probe:
            probe.bind(address)
            return ""
    return f"it leads to {found[0][4][0]}, which is not this machine"


def _first_line_s_python(program: str) -> str:
    try:
        with open(program, "rb") as file:
            line = file.readline(500).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    words = line[2:].split() if line.startswith("#!") else []
    # others, such as /bin/sh or /usr/bin/env, do not say which Python runs in the end
    return words[0] if words and Path(words[0]).name.startswith("python") else ""


def _cpus() -> int:
    cpus = os.cpu_count() or 1
    if sys.platform == "linux":
        cpus = len(os.sched_getaffinity(0))
        with contextlib.suppress(OSError, ValueError):  # a container's share, where there is one
            quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
            if quota != "max":
                cpus = min(cpus, max(1, int(quota) // int(period)))
    return cpus


def _shared_memory() -> tuple[int, int] | None:
    try:
        usage = shutil.disk_usage("/dev/shm")
    except OSError:
        return None
    return usage.total, usage.free


def _absolute(folder: str) -> str:
    try:
        return os.path.abspath(folder)
    except OSError:  # it was removed; that nothing can be written there says so
        return folder


def _disk_free(folder: str) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def _open_files() -> tuple[int, int] | None:
    if sys.platform == "win32":
        return None
    import resource

    soft, hard = (
        sys.maxsize if limit == resource.RLIM_INFINITY else limit
        for limit in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    return soft, hard


def _try_file(folder: str) -> tuple[str, str]:
    """Return why a file cannot be written and why it cannot be locked, each "" where it can."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
            file.flush()
            return "", _lock_refusal(file.fileno())
    except OSError as error:
        return error.strerror or str(error), ""


def _lock_refusal(number: int) -> str:
    if sys.platform == "win32":
        return ""
    import fcntl

    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.strerror or str(error)
    return ""
