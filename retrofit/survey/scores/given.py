"""Values that the epoch loop gives to what decides by them: a scheduler, early stopping, a keeper of checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted, receiver
from retrofit.survey.scores.values import bare_of, in_loop, root_of
from retrofit.survey.scores.words import STOPS, Candidate, direction_of, told_by_name
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.optimizer import Scheduler

#: How schedulers are stepped.
STEPS_SCHEDULER = re.compile(r"sched\w*\.step(_update)?$")


def given_to_plateau(index: Index, loop: EpochLoop, schedulers: list[Scheduler]) -> Iterator[Candidate]:
    """What the script gives to ReduceLROnPlateau."""
    for scheduler in schedulers:
        if scheduler.kind != "ReduceLROnPlateau":
            continue
        for step in scheduler.steps:
            call = step.node
            if isinstance(call, cst.Call) and call.args and in_loop(index, loop, call):
                mode = dict(scheduler.bound).get("mode", "'min'").strip("'\"")
                yield Candidate(
                    call.args[0].value,
                    mode if mode in ("min", "max") else "",
                    f"{step.place()}: {step.code}",
                )


def written_modes(index: Index, loop: EpochLoop, schedulers: list[Scheduler]) -> dict[str, str]:
    """Return the modes that the script writes for ReduceLROnPlateau, by the code of what that is given."""
    told = [one for one in schedulers if "mode" in dict(one.bound)]
    return {index.source.code(c.node): c.direction for c in given_to_plateau(index, loop, told) if c.direction}


def _mode_of(index: Index, flow: Flow, call: cst.Call) -> str:
    """Return the mode with which the object is built that a call is of, or whose method it calls; "" where unclear."""
    held = receiver(call) or call.func
    names = [call.func, held] if dotted(call.func) != dotted(held) else [held]
    made = [one.node for name in names for one in flow.origins(name, index.scope_of(call))]
    given = {
        index.source.code(arg.value).strip("'\"")
        for one in made
        if isinstance(one, cst.Call)
        for arg in one.args
        if arg.keyword is not None and arg.keyword.value == "mode"
    }
    return given.pop() if len(given) == 1 and given <= {"max", "min"} else ""


def watched_scores(index: Index, flow: Flow, loop: EpochLoop) -> Iterator[Candidate]:
    """What the loop gives to something that decides by it: early stopping, a scheduler, a keeper of checkpoints."""
    found: dict[str, list[Candidate]] = {"scheduler": [], "stop": [], "save": []}
    bound = {b.target.partition(".")[0] for b in index.bindings if in_loop(index, loop, b.statement.node)}
    for call in index.calls:
        if not in_loop(index, loop, call):
            continue
        name = dotted(call.func) or ""
        named = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
        plain = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
        kind, mode, value = "", "", named.get("metric", named.get("metrics"))
        if STEPS_SCHEDULER.search(name):
            second = plain[1] if len(plain) == 2 and not isinstance(plain[1], cst.Name) else None
            kind, value = "scheduler", value or second
        elif STOPS.search(name):
            told = [v for v in plain if direction_of(index.source.code(v))]
            mode = _mode_of(index, flow, call)
            kind, value = "stop", value or next(iter(told or (plain if mode else [])), None)
        elif re.search(r"save", name):
            kind = "save"
        plainly = value is not None and isinstance(bare_of(value), (cst.Name, cst.Attribute, cst.Subscript))
        if kind and value is not None and plainly and root_of(value) in bound:
            direction = mode or told_by_name(index.source.code(value))
            found[kind].append(Candidate(value, direction, f"{index.place(call)}: {index.source.code(call)}"))
    yield from next((candidates for candidates in found.values() if candidates), [])
