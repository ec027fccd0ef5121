"""Deliberately wrong rewritings of a fixture, each a mistake that the published recipe invites."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wrong:
    """A mistake, made by replacing text in a rewritten fixture.

    Attributes:
        name: what is wrong.
        fixture: which fixture's after/ is spoiled.
        replacements: what is replaced by what in its entry script; each must be there.
        check: the check that must fail.
        cause: words that its detail must have.
        options: what `retrofit verify` gets besides the script.
        hangs: whether processes are left that verify must find and kill.
    """

    name: str
    replacements: tuple[tuple[str, str], ...]
    check: str
    cause: str
    fixture: str = "ddp_torchrun"
    options: tuple[str, ...] = ()
    hangs: bool = False


_REPORT = "        if pai_distributed.report_validation_score(acc, model, leave=False):\n            break\n"

WRONGS = (
    Wrong(
        "score-from-one-rank",
        (
            (
                _REPORT,
                _REPORT.replace("if ", "if rank == 0 and "),
            ),
        ),
        "score",
        "rank 0 handed over score 1 and rank 1 did not",
        options=("--timeout", "20"),
    ),
    Wrong(
        "scores-differ",
        (
            (
                _REPORT,
                "        _, restructured, complete = GPA.pai_tracker.add_validation_score(acc + rank, model.module)\n"
                "        if restructured or complete:\n            break\n",
            ),
        ),
        "score",
        "different scores",
        options=("--timeout", "20"),
    ),
    Wrong(
        "tracker-string-in-broadcast",
        (
            (
                "pai_distributed.keep_tracker_state_local(model)",
                "pai_distributed.hidden._pai_show(model)",
            ),
        ),
        "wrapper",
        "tracker_string",
    ),
    Wrong(
        "stale-optimizer",
        (
            (
                "    model = pai_distributed.load_latest_switch(",
                "    stale = [p for p in model.parameters() if p.dim() > 1]\n"
                "    model = pai_distributed.load_latest_switch(",
            ),
            ('{"params": model.parameters(), "lr"', '{"params": stale, "lr"'),
        ),
        "optimizer",
        "older structure?",
    ),
    Wrong(
        "scheduler-stepped-twice",
        ((_REPORT, "        scheduler.step()\n" + _REPORT),),
        "learning rate",
        "the tracker steps it as well",
    ),
    Wrong(
        "wrong-dimensions",
        (("args.pai_load_folder)\n", 'args.pai_load_folder, {"fc1": [-1, 0, -1]})\n'),),
        "library",
        "output dimensions are wrong",
    ),
    Wrong(
        "unused-parameters-not-found",
        (
            ("        pai_distributed.keep_tracker_state_local(model)\n", ""),
            ("=pai_distributed.finds_unused_parameters()", "=False"),
        ),
        "wrapper",
        "gradients that never come",
    ),
    Wrong(
        "rank-left-out-of-a-barrier",
        (("        acc = validate(", "        if rank == 0:\n            dist.barrier()\n        acc = validate("),),
        "rounds",
        "hung",
        options=("--timeout", "20"),
        hangs=True,
    ),
)
