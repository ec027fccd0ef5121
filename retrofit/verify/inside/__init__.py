"""What runs inside the processes of a verified training: it watches, limits and, where there is no GPU, simulates.

It is started by `startup/sitecustomize.py`, before the script and without a change to it, and writes what it sees to
a file of JSON lines, one a process. Standard library and torch only, and only relative imports: the interpreter that
trains need not have retrofit.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def start(load: Callable[[str, Path], None]) -> None:
    """Set everything up that the settings file named by RETROFIT_VERIFY asks for.

    Args:
        load: imports a package under a name from its folder.
    """
    from . import files, limits, watch
    from .after_import import after_import
    from .events import Events

    settings: dict[str, Any] = json.loads(Path(os.environ["RETROFIT_VERIFY"]).read_text(encoding="utf-8"))
    events = Events(Path(settings["events"]), Path(settings["project"]))
    files.import_from_the_copy(Path(settings["original"]), Path(settings["project"]))
    files.keep_the_original(Path(settings["original"]), Path(settings["copy"]), events)
    watch.errors(events)

    def torch_is_there(torch: Any) -> None:
        if settings["simulate"]:
            load("_retrofit_simulator", Path(settings["simulator"]))
            sys.modules["_retrofit_simulator"].install(torch, devices=settings["simulate"])
        limits.limit_loaders(torch, settings["max_batches"], events)
        watch.torch_library(torch, events)
        files.tell_of_saves(torch)
        if settings["stop_after_steps"]:
            watch.stop_after_steps(settings["stop_after_steps"], events)

    def tracker_is_there(module: Any) -> None:
        limits.limit_graphs(module)
        watch.tracker(module, settings["plain_epochs"], events)

    after_import("torch", torch_is_there)
    after_import("bdb", lambda module: watch.debugger(module, events))
    after_import("perforatedai.tracker_perforatedai", tracker_is_there)
    after_import("perforatedai.utils_perforatedai", lambda module: watch.library(module, events))
    after_import("pai_distributed", lambda module: watch.helper(module, events))
