"""Says what an interpreter has for training: run by file path with that interpreter, without retrofit.

It prints a JSON object a line, each as soon as it is known, so that a library that takes the process down with it hides
nothing of what was known before. What libraries print goes to stderr.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
from typing import Any

#: What perforatedai needs, by the names that pip knows, and the modules.
NEEDED = {
    "numpy": "numpy",
    "matplotlib": "matplotlib",
    "pandas": "pandas",
    "cryptography": "cryptography",
    "pyyaml": "yaml",
    "safetensors": "safetensors",
    "requests": "requests",
}


def main() -> None:
    """Print the facts; the names are those of `facts.Interpreter`."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if folder != here]  # its files must not hide the interpreter's own
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(**facts: object) -> None:
        print(json.dumps(facts), file=out, flush=True)

    say(executable=sys.executable, python=sys.version_info[:3], platform=sys.platform, machine=platform.machine())
    say(
        missing=[name for name, module in NEEDED.items() if importlib.util.find_spec(module) is None],
        perforatedai=_version("perforatedai"),
    )
    if importlib.util.find_spec("torch") is None:
        return
    say(torch_error="it took the process down with it.")
    try:
        torch: Any = importlib.import_module("torch")
    except BaseException as error:
        say(torch_error=_text(error))
        return
    say(torch=str(torch.__version__), torch_error="", cuda=torch.version.cuda, hip=torch.version.hip)
    say(**_distributed(torch))
    say(**_gpus(torch))
    if importlib.util.find_spec("perforatedai") is not None:
        say(perforatedai_error="it took the process down with it.")
        try:
            importlib.import_module("perforatedai.globals_perforatedai")
            importlib.import_module("perforatedai.utils_perforatedai")
            say(perforatedai_error="")
        except BaseException as error:
            say(perforatedai_error=_text(error))


def _version(name: str) -> str | None:
    if importlib.util.find_spec(name) is None:
        return None
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "of an unknown version"


def _text(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]


def _distributed(torch: Any) -> dict[str, object]:
    if not torch.distributed.is_available():
        return {"distributed": False, "gloo": False}
    nccl = None
    if torch.distributed.is_nccl_available():
        try:
            nccl = ".".join(map(str, torch.cuda.nccl.version()))
        except Exception:
            nccl = "of an unknown version"
    # is_gloo_available is newer than the oldest torch that can be asked here
    gloo = getattr(torch.distributed, "is_gloo_available", lambda: True)()
    return {"distributed": True, "nccl": nccl, "gloo": gloo}


def _gpus(torch: Any) -> dict[str, object]:
    if not torch.version.cuda and not torch.version.hip:
        return {}
    try:
        torch.cuda.init()
        number = torch.cuda.device_count()
    except Exception as error:
        return {"cuda_error": _text(error)}
    strangers = [
        (one, other)
        for one in range(number)
        for other in range(one + 1, number)
        if not torch.cuda.can_device_access_peer(one, other)
    ]
    return {
        "gpus": [_gpu(torch, index) for index in range(number)],
        "architectures": torch.cuda.get_arch_list(),
        "strangers": strangers,
    }


def _gpu(torch: Any, index: int) -> dict[str, object]:
    properties = torch.cuda.get_device_properties(index)
    facts: dict[str, object] = {
        "name": properties.name,
        "capability": (properties.major, properties.minor),
        "total": properties.total_memory,
        "free": None,
    }
    try:
        facts["free"] = torch.cuda.mem_get_info(index)[0]
    except Exception as error:  # as where another process has it for itself
        facts["error"] = _text(error)
    return facts


if __name__ == "__main__":
    main()
