"""What runs inside the processes of a verified training: it rehearses, watches and, where there is no GPU, simulates.

It is started by `startup/sitecustomize.py`, before the script and without a change to it, and writes what it sees to
a file of JSON lines, one a process. Standard library and torch only, and only relative imports: the interpreter that
trains need not have retrofit.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any


def start(load: Callable[[str, Path], None]) -> None:
    """Set everything up that the settings file named by RETROFIT_VERIFY asks for.

    Args:
        load: imports a package under a name from its folder.
    """
    from . import watch
    from .events import Events
    from .loaders import without_workers

    settings: dict[str, Any] = json.loads(Path(os.environ["RETROFIT_VERIFY"]).read_text(encoding="utf-8"))
    events = Events(Path(settings["events"]), Path(settings["project"]))
    rehearsal = _rehearsal(settings["helper"])
    watch.errors(events)
    watch.signs_of_life(rehearsal._pai_done, events)

    def torch_is_there(torch: Any) -> None:
        if settings["simulate"]:
            load("_retrofit_simulator", Path(settings["simulator"]))
            sys.modules["_retrofit_simulator"].install(torch, devices=settings["simulate"])
        without_workers(torch)
        watch.torch_library(torch, events)
        if settings["stop_after_steps"]:
            watch.stop_after_steps(settings["stop_after_steps"], events)

    after_import = rehearsal._pai_when_imported
    after_import("torch", torch_is_there)
    after_import("bdb", lambda module: watch.debugger(module, events))
    after_import(
        "perforatedai.tracker_perforatedai", lambda module: watch.tracker(module, settings["plain_scores"], events)
    )
    after_import("perforatedai.utils_perforatedai", lambda module: watch.library(module, events))
    after_import("pai_distributed", lambda module: watch.helper(module, events))


def _rehearsal(folder: str) -> Any:
    """Make this process one of a rehearsal before the script begins, which may have no helper yet."""
    package: Any = types.ModuleType("_retrofit_rehearsal")
    package.__path__ = [folder]
    sys.modules[package.__name__] = package
    return importlib.import_module("_retrofit_rehearsal.rehearsal")
