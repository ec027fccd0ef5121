"""The Python that trains, which need not be the one that runs retrofit, and what is installed there."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass

from retrofit.errors import Problem, UserError

_FACTS = """
import sys
if sys.path[:1] == [""]:  # the working folder, in which anything may lie
    del sys.path[0]
import importlib.metadata, json, os, shutil
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
facts = {"version": "%d.%d" % sys.version_info[:2], "torch": version("torch"),
         "perforatedai": version("perforatedai"), "gpus": 0}
# Importing torch takes seconds: only where there may be a GPU.
if facts["torch"] and (shutil.which("nvidia-smi") or shutil.which("rocm-smi") or os.path.exists("/dev/nvidiactl")):
    import torch
    facts["gpus"] = torch.cuda.device_count()
print(json.dumps(facts))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python that trains.

    Attributes:
        path: the program.
        version: such as "3.11".
        torch: the version of torch there, "" where it is not installed.
        perforatedai: the version of perforatedai there, "" where it is not installed.
        gpus: how many GPUs torch sees there.
    """

    path: str
    version: str
    torch: str
    perforatedai: str
    gpus: int


def find_python(chosen: str | None) -> str:
    """Return the program of the Python that trains.

    Args:
        chosen: the user's word; None for the Python that runs retrofit where it has torch, else the first on PATH.

    Raises:
        UserError: there is no such program.
    """
    if chosen is None:
        if importlib.util.find_spec("torch"):
            return sys.executable
        found = shutil.which("python") or shutil.which("python3")
        return found or sys.executable
    found = shutil.which(chosen)
    if found is None:
        raise UserError(Problem(f"--python {chosen}", 0, 0, "RF017", "is no program that can be run."))
    return found


def look_at(python: str) -> Interpreter:
    """Return what is installed for a Python.

    Args:
        python: the program.

    Raises:
        UserError: it is no Python that runs.
    """
    result = subprocess.run([python, "-c", _FACTS], capture_output=True, text=True, check=False)
    try:
        facts = json.loads(result.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        said = (result.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise UserError(
            Problem(f"--python {python}", 0, 0, "RF017", f"did not answer as a Python does ({said}).")
        ) from None
    return Interpreter(path=python, **facts)
