"""The epoch's score: one for all ranks, handed to the library in a safe order, and what follows from it."""

import contextlib
import math
import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from perforatedai import globals_perforatedai as GPA
from perforatedai import utils_perforatedai as UPA

from .layers import _pai_fail_without_gradients, _pai_freeze_averages, _pai_settle, _pai_unwrap
from .optimizer import _pai_torch_optimizer
from .process import (
    _pai,
    _pai_device,
    _pai_fail,
    _pai_grouped,
    _pai_leave,
    _pai_publish_rank,
    _pai_rank,
    _pai_say,
    initializing,
)

# To the library 0.0 means "no best score yet": with constant zeros it never switches (measured).
_pai_almost_zero = 1e-12


def report_validation_score(score: Any, model: torch.nn.Module | None = None, *, leave: bool = True) -> bool:
    """Hand the epoch's score to the library (DistributedDataParallel): on every rank, last in the epoch.

    Rank 0 goes first: all at once, others miss the best_model.pt it writes (FileNotFoundError, measured).
    They learn what came of it and follow where nothing changed, so that every rank's scheduler steps.

    Args:
        score: a number, or a tensor or array of one; None on a rank without. The ranks' mean counts.
        model: the model, wrapped or not; None, where it is not in scope, for that of `load_latest_switch`.
        leave: leave when training is complete; with False the code after the epoch loop can run.

    Returns:
        True when training is complete and `leave` is False; then every rank has the best model. Else False.

    Raises:
        SystemExit: status 0 for the next round and at the end; 3 after five scores in a row are not finite.
    """
    model = _pai.model if model is None else model
    assert model is not None
    net = _pai_unwrap(model)
    number = _pai_common_score(score, net)
    if number is None:
        return False
    restructured, complete = _pai_hand_over(number, net) if _pai_rank() == 0 else (False, False)
    if _pai_grouped():
        flags = torch.tensor([restructured, complete]).int().to(_pai_device(net))
        dist.broadcast(flags, 0)
        restructured, complete = (bool(flag) for flag in flags.tolist())
    if complete:
        _pai_complete(net, load_best=not leave)
        if leave:
            _pai_leave(0, net)
        return True
    if restructured:
        _pai_say("The model was restructured: leaving, for the next round to load the new structure")
        _pai_leave(0, net)
    if _pai_rank() != 0:
        _pai_hand_over(number, net)
    return False


def add_validation_score(score: Any, model: torch.nn.Module | None = None) -> tuple[torch.nn.Module, bool, bool]:
    """Hand the epoch's validation score to the library, as `GPA.pai_tracker.add_validation_score` takes it.

    In one process (DataParallel) the model is restructured here. In a process group the process leaves for a
    restart instead, as in `report_validation_score`.

    Args:
        score: a number, or a tensor or array of one; None to hand nothing over.
        model: the model, wrapped or not; None, where it is not in scope, for that of `load_latest_switch`.

    Returns:
        The model, restructured in place, inside its wrapper; whether it was restructured, so that an optimizer
        that the library sets up must be set up again from fresh arguments; and whether training is complete.

    Raises:
        SystemExit: status 3 after five scores in a row are not finite; 0 for a restart.
    """
    model = _pai.model if model is None else model
    assert model is not None
    if _pai_grouped():
        return model, False, report_validation_score(score, model, leave=False)
    net = _pai_unwrap(model)
    number = _pai_common_score(score, net)
    if number is None:
        return model, False, False
    device = _pai_device(net)
    restructured, complete = _pai_hand_over(number, net)
    if complete:
        _pai_complete(net, load_best=True)
        return model, False, True
    if restructured:
        _pai_settle(net, device)
        _pai_freeze_averages(net)
    return model, restructured, False


def _pai_number(score: Any) -> float | None:
    """The score as a plain number; None where there is none."""
    if score is None:
        return None
    with contextlib.suppress(TypeError, ValueError, RuntimeError):
        number = score.item() if hasattr(score, "item") else score
        if not isinstance(number, bool):
            return float(number)
    raise TypeError(f"The validation score must be one number, but it is of {type(score)}: {score!r:.200}")


def _pai_common_score(score: Any, net: torch.nn.Module) -> float | None:
    """One score for all ranks, fit for the library; None where there is nothing to hand over.

    A script that validates before it trains, as at iteration 0, begins with a score that says nothing of its
    dendrites, and that the library takes to its debugger (measured). It is passed over, but only the first.
    """
    if initializing():
        _pai.scores += 1
        if _pai.scores > 1 and _pai.idle_passes:
            _pai_fail_without_gradients(GPA.pai_tracker.neuron_module_vector)
        if _pai.scores > 1:
            _pai_fail("The initialisation run ended an epoch without a backward pass: is there a batch?")
        return None
    number = _pai_number(score)
    if _pai_grouped():
        mine = [0.0, 0.0] if number is None else [number, 1.0]
        sums = torch.tensor(mine, dtype=torch.float64, device=_pai_device(net))
        dist.all_reduce(sums)
        total, count = sums.tolist()
        number = total / count if count else None
    if number is None:
        if not _pai.missing_scores:
            _pai_say("There is no validation score (None), so nothing is counted, here and whenever it is so")
        _pai.missing_scores += 1
        return None
    _pai.scores += 1
    if _pai.scores == 1 and not _pai.steps and all(p.grad is None for p in net.parameters()):
        _pai_say(f"The validation score {number} is from before the first step, so it is not counted")
        return None
    if math.isfinite(number):
        _pai.unusable_scores = 0
        return number or _pai_almost_zero
    # Handed over, it would stay the library's best score for ever (measured).
    _pai.unusable_scores += 1
    _pai_say(f"The validation score is {number}, so it is not counted ({_pai.unusable_scores} in a row)")
    if _pai.unusable_scores == 5:
        _pai_say("Leaving, because training or its validation has gone wrong")
        _pai_leave(3, net)
    return None


def _pai_hand_over(number: float, net: torch.nn.Module) -> tuple[bool, bool]:
    """Was the model restructured (in place), and is training complete?"""
    if not GPA.pai_tracker:
        _pai_fail(
            f"{sys.argv[0]} trains by code in which the library ends the training, but has no perforated model: "
            "rewrite it as well, or let it import that code as it was"
        )
    _pai_publish_rank()
    known = GPA.pai_tracker.member_vars
    known["optimizer_instance"] = _pai_torch_optimizer(known["optimizer_instance"])
    _, restructured, complete = GPA.pai_tracker.add_validation_score(number, net)
    return bool(restructured), bool(complete)


def _pai_complete(net: torch.nn.Module, *, load_best: bool) -> None:
    """Leave the mark that ends the rounds, and say where the final model is."""
    save = GPA.pc.get_save_name()
    if load_best:  # The library does it on rank 0 alone, and not at the end of a capacity test (measured).
        device = _pai_device(net)
        UPA.load_system(net, save, "best_model", switch_call=True)
        _pai_settle(net, device)
    if _pai_rank() == 0:
        with open(os.path.join(save, ".training_complete"), "w") as file:
            file.write("complete\n")
    _pai_say(
        f"Training is complete. The final model is {save}/best_model.pt. To use it:\n"
        "    pai_distributed.configure_library()\n"
        f"    model = UPA.perforate_model(your_model, save_name='{save}')\n"
        "    model = pai_distributed.load_latest_switch(model, None)\n"
        f"    model = UPA.load_system(model, '{save}', 'best_model', True)"
    )
