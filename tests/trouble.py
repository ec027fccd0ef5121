"""What goes wrong in a training, where a test asks for it: beside a script that imports it, and calls `at`.

TROUBLE in the environment says where, what, and on which rank (each, where none is named): "step killed 1". The process
notes its number in the folder "processes", the files of SAVE that it opens in "opened", and `waits` that it does in
the file "waits".
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import safetensors.torch as files

HERE = Path(__file__).parent
WHERE, WHAT, *WHOM = os.environ.get("TROUBLE", "no trouble").split()
library: Any = files
serialize_file = library.serialize_file
(HERE / "processes").mkdir(exist_ok=True)
(HERE / "processes" / str(os.getpid())).touch()


def at(point: str) -> None:
    """Have what was asked for happen, if it was for here."""
    if "--perforate_model_parallel" in sys.argv:
        point = "initialisation"  # which ends with its backward pass
    if point == WHERE and os.environ.get("RANK", "0") in (WHOM or [os.environ.get("RANK", "0")]):
        globals()[WHAT]()


def once() -> None:
    """As killed, before torchrun restarts the processes."""
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        killed()


def killed() -> None:
    """As by the system, for want of memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def orphaned() -> None:
    """Let what has started this process be killed, and do no more: a round may be done before that is gone."""
    os.kill(os.getppid(), signal.SIGKILL)
    while True:
        signal.pause()


def waits() -> None:
    """Wait for a signal, the first process of all that come here."""
    with contextlib.suppress(FileExistsError):
        (HERE / "waits").touch(exist_ok=False)
        while True:
            signal.pause()


def loops() -> None:
    """Do something without an end, of which torch knows nothing."""
    while True:
        pass


def raises() -> None:
    """Fail as a script does."""
    raise RuntimeError("the script fails")


def stuffed() -> None:
    """Let the disk be full to the last byte, for what is said as well."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def full() -> None:
    """Let the disk be full: a file can grow no more."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))


def _serialize_file(tensors: Any, path: Any, *arguments: Any, **keywords: Any) -> None:
    """Write a file; where there is trouble with a switch file, half of it first, as what writes in place does."""
    path = Path(path)
    if WHERE == "switch" and path.name.startswith("switch_"):
        serialize_file(tensors, HERE / "whole", *arguments, **keywords)
        data = (HERE / "whole").read_bytes()
        path.write_bytes(data[: len(data) // 2])
        at("switch")
    if path.name.startswith("switch_"):
        at("saving")
    serialize_file(tensors, path, *arguments, **keywords)
    if path.name.startswith("switch_"):
        at("saved")


library.serialize_file = _serialize_file
_opened = os.open(HERE / "opened", os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def _note_opening(event: str, arguments: Any) -> None:
    """Note each file of SAVE that Python opens, by its name."""
    if event == "open" and isinstance(arguments[0], str | os.PathLike):
        folder, name = os.path.split(os.path.abspath(arguments[0]))
        if folder.startswith(str(HERE / "PAI_")):
            os.write(_opened, f"{name}\n".encode())


sys.addaudithook(_note_opening)
