"""What the other files share: the state of this process, its options, its rank, and how it speaks and leaves."""

import atexit
import logging
import os
import sys
from dataclasses import dataclass, field
from typing import NoReturn

import torch
import torch.distributed as dist


@dataclass
class _PaiState:
    """What this process remembers.

    Attributes:
        model: the perforated model, without a wrapper.
        found_dimensions: layers' output dimensions that the initialisation run has found, by the layers' names.
        frozen: frozen layers, and those of which they are averages.
        steps: of optimizers.
        scores: that were handed over or passed over.
        missing_scores: how many of them were None.
        unusable_scores: how many in a row were not finite.
        idle_passes: backward passes of the initialisation run that have not reached the model.
        exit_status: with which to leave past the end of gloo, None where there is none.
    """

    model: torch.nn.Module | None = None
    found_dimensions: dict[str, list[int]] = field(default_factory=dict)
    frozen: dict[str, str | None] = field(default_factory=dict)
    steps: int = 0
    scores: int = 0
    missing_scores: int = 0
    unusable_scores: int = 0
    idle_passes: int = 0
    exit_status: int | None = None


_pai = _PaiState()


def take_options() -> None:
    """Move this file's two options from sys.argv to the environment, for scripts without argparse.

    Call it before click, hydra, fire, absl or the like look at sys.argv. Spawned processes know them too.
    """
    initialize, folder, sys.argv[:] = _pai_options()
    if initialize:
        os.environ["PAI_PERFORATE_MODEL_PARALLEL"] = "1"
    if folder:
        os.environ["PAI_LOAD_FOLDER"] = folder


def initializing() -> bool:
    """Is this the initialisation run, which sees one batch and leaves?"""
    return os.environ.get("PAI_PERFORATE_MODEL_PARALLEL") == "1" or _pai_options()[0]


def load_folder() -> str | None:
    """The folder of `--pai_load_folder`, or None to start from the beginning."""
    return os.environ.get("PAI_LOAD_FOLDER") or _pai_options()[1]


def _pai_options() -> tuple[bool, str | None, list[str]]:
    """Is --perforate_model_parallel in sys.argv, what is --pai_load_folder, and what is left without them?"""
    initialize, folder, rest = False, None, []
    words = iter(sys.argv)
    for word in words:
        if word == "--perforate_model_parallel":
            initialize = True
        elif word == "--pai_load_folder":
            folder = next(words, None) or _pai_fail("--pai_load_folder needs the name of a folder")
        elif word.startswith("--pai_load_folder="):
            folder = word.partition("=")[2]
        else:
            rest.append(word)
    return initialize, folder, rest


def _pai_grouped() -> bool:
    return dist.is_available() and dist.is_initialized()


def _pai_rank() -> int:
    return dist.get_rank() if _pai_grouped() else int(os.environ.get("RANK", "0"))


def _pai_publish_rank() -> None:
    """Set RANK, by which the library decides who writes files, also in a spawned process, which has none."""
    if _pai_grouped():
        os.environ["RANK"] = str(dist.get_rank())


def _pai_cuda_index() -> int:
    """The GPU of this process: the one that the script has chosen, or else its turn."""
    turn = int(os.environ.get("LOCAL_RANK", _pai_rank()))
    return torch.cuda.current_device() or turn % torch.cuda.device_count()


def _pai_device(model: torch.nn.Module) -> torch.device:
    return next(model.parameters()).device


def _pai_say(message: str) -> None:
    if _pai_rank() == 0:
        print(f"[pai_distributed] {message}", flush=True)


def _pai_fail(message: str) -> NoReturn:
    if _pai_rank() == 0:
        print(f"[pai_distributed] {message}", file=sys.stderr, flush=True)
    raise SystemExit(1)


def _pai_leave(status: int, net: torch.nn.Module | None = None) -> NoReturn:
    """Leave, all ranks together, in the ordinary way: `finally` blocks and exit handlers run."""
    if _pai_grouped():
        if net is not None:  # A barrier on the model's own device, where NCCL's would guess one.
            meeting = torch.zeros(1, device=_pai_device(net))
            dist.all_reduce(meeting)
            meeting.item()
        if "gloo" in str(dist.get_backend_config()):
            _pai.exit_status = status
    raise SystemExit(status)


@atexit.register
def _pai_skip_the_end_of_gloo() -> None:
    """Last of all, end the process before gloo's threads abort it now and then (measured, in any script)."""
    if _pai.exit_status is not None:
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1 if hasattr(sys, "last_type") else _pai.exit_status)  # 1: a `finally` block has failed
