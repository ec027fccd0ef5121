"""A verdict as text and as JSON."""

from __future__ import annotations

import json

from retrofit.layout import PLAIN, View
from retrofit.verify.judge import Check, first_error
from retrofit.verify.record import Round
from retrofit.verify.verdict import Verdict


def round_line(one: Round) -> str:
    """Return the line that is shown when a round has ended."""
    ended = {"restructured": f"restructured, {one.switch}.pt", "complete": "training is complete"}.get(
        one.ended, one.ended
    )
    return f"{one.name:<14}  {one.seconds:5.1f} s  " + (
        ended if one.name == "initialisation" else f"{_trained(one)}: {ended}"
    )


def _trained(one: Round) -> str:
    scores = [event["score"] for event in one.of(0, "score")]
    score = f", score {scores[-1]:.4g}" if scores and isinstance(scores[-1], float) else ""
    return f"{one.epochs} epoch{'' if one.epochs == 1 else 's'}, {one.steps} steps{score}"


def to_text(verdict: Verdict, view: View = PLAIN, failures_only: bool = False) -> str:
    """Return the report: a table of the checks, or of those that failed, then the verdict."""
    checks = [check for check in verdict.checks if check.result == "failed" or not failures_only]
    lines = [view.table([(view.graded(check.result), check.name, _detail(check)) for check in checks])]
    failure = verdict.failure
    if failure is not None:
        last = (verdict.training.initial, *verdict.training.rounds)[-1]
        if last.ended in ("failed", "hung"):
            lines += ["", *_evidence(last)]
    lines += ["", view.wrap(f"{verdict.request.shown}: {_conclusion(verdict)}")]
    return "\n".join(lines)


def _evidence(last: Round) -> list[str]:
    """What a failed round left to read."""
    if last.stacks:
        return [f"{who}: {' < '.join(stack)}" for who, stack in last.stacks.items()]
    found = first_error(last)
    if found is not None:
        rank, event = found
        return [f"{last.name}, rank {max(rank, 0)}:", *(f"  {line}" for line in event["traceback"].splitlines()[-30:])]
    tail = [line for line in last.output.splitlines() if line.strip()][-15:]
    return ["The output ends with:", *(f"  {line[:200]}" for line in tail)]


def _conclusion(verdict: Verdict) -> str:
    how = "rewritten" if verdict.applied else "as it stands"
    gpus = f"{verdict.request.gpus} {'simulated GPUs' if verdict.limits.simulate else 'GPUs'}"
    with_ = f"torch {verdict.interpreter.torch}, perforatedai {verdict.interpreter.perforatedai}"
    failure = verdict.failure
    if failure is None:
        return f"proven, {how}: it trains over every restart to completion ({gpus}, {with_}, {verdict.seconds:.0f} s)."
    return f"disproven, {how} ({gpus}, {with_}, {verdict.seconds:.0f} s).\n{failure.name}: {_detail(failure)}"


def _detail(check: Check) -> str:
    return f"{check.detail} ({check.place})" if check.place else check.detail


def to_json(verdict: Verdict) -> str:
    """Return the report for machines.

    An object with `script`, `verdict` ("proven" or "disproven"), `cause`, `applied`, `gpus`, `simulated`, `torch`,
    `perforatedai`, `seconds`, `notes` (what apply remarks, each with file, line, column, code, message), `rounds` (each
    with name, seconds, epochs, steps, scores, loaded, switch, ended) and `checks` (each with name, result, detail,
    place).
    """
    failure = verdict.failure
    data = {
        "script": verdict.request.shown,
        "verdict": "proven" if failure is None else "disproven",
        "cause": "" if failure is None else f"{failure.name}: {_detail(failure)}",
        "applied": verdict.applied,
        "gpus": verdict.request.gpus,
        "simulated": verdict.limits.simulate,
        "torch": verdict.interpreter.torch,
        "perforatedai": verdict.interpreter.perforatedai,
        "seconds": round(verdict.seconds, 1),
        "notes": [vars(note) for note in verdict.notes],
        "rounds": [_round(one) for one in (verdict.training.initial, *verdict.training.rounds)],
        "checks": [vars(check) for check in verdict.checks],
    }
    return json.dumps(data, indent=2)


def _round(one: Round) -> dict[str, object]:
    return {
        "name": one.name,
        "seconds": round(one.seconds, 1),
        "epochs": one.epochs,
        "steps": one.steps,
        "scores": [event["score"] for event in one.of(0, "score")],
        "loaded": one.loaded,
        "switch": one.switch,
        "ended": one.ended,
    }
