"""What the record of a training proves or disproves, check by check."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from retrofit.verify import causes
from retrofit.verify.record import Event, Round

Result = Literal["ok", "failed", "warning", "not seen"]


@dataclass(frozen=True)
class Check:
    """One thing that must hold.

    Attributes:
        name: what it is about.
        result: "ok", "failed", "warning", or "not seen" where the training did not come so far.
        detail: what was seen, and where it failed why and what to do.
        place: where in the script, as `file:line`, "" for no one place.
    """

    name: str
    result: Result
    detail: str
    place: str = ""


@dataclass(frozen=True)
class Training:
    """A whole training as it was seen.

    Attributes:
        kind: "ddp" or "dp".
        initial: the initialisation.
        rounds: the rounds, of which only the last may have failed.
        complete: whether the mark of completion is there.
        max_rounds: after how many rounds it was stopped.
    """

    kind: str
    initial: Round
    rounds: list[Round]
    complete: bool
    max_rounds: int


def judge(training: Training) -> list[Check]:
    """Return every check, those that name a cause before those that only see its effect."""
    checks: list[Callable[[Training], Iterator[Check]]] = [
        _initialisation,
        _wrapper,
        _scores,
        _parameters,
        _buffers,
        _optimizer,
        _rates,
        _loading,
        _traps,
        _restarts,
        _completion,
    ]
    return [found for check in checks for found in check(training)]


def _initialisation(training: Training) -> Iterator[Check]:
    initial, name = training.initial, "initialisation"
    done = initial.of(0, "initialized")
    layers = max((event["layers"] for _, event in initial.all("perforated")), default=0)
    if initial.ended == "initialised" and done:
        steps, waits = done[0]["steps"], done[0]["waits"]
        if steps and not waits:
            yield Check(name, "warning", f"left after {steps} optimizer step(s) instead of the first backward pass")
            return
        waited = f"{_count(steps, 'optimizer step')}, as some layers had no gradient in the first"
        after = waited if steps else "the first backward pass"
        yield Check(name, "ok", f"left after {after}; {_count(layers, 'layer')} can grow dendrites")
        return
    moved = initial.all("moved")
    if done and moved:
        message = (
            "the script changes its working folder, and the library writes below the new one: no launcher finds it"
        )
        yield Check(name, "failed", message, moved[-1][1]["place"])
        return
    yield Check(name, "failed", *_why(initial, "ended without writing array_dims.csv"))


def _wrapper(training: Training) -> Iterator[Check]:
    wrappers = [event for one in training.rounds for _, event in one.all("wrapper")]
    for event in wrappers:
        if event["broadcasts_records"]:
            message = (
                "the buffer tracker_string is in the wrapper's broadcast, and its length differs between ranks: "
                "load_latest_switch(model, ...) before the wrapper"
            )
            yield Check("wrapper", "failed", message, event["place"])
            return
        if event["waits_for"]:
            message = (
                f"it waits for gradients that never come, of {_names(event['waits_for'])}: "
                "keep_tracker_state_local(model) before the wrapper, "
                "or find_unused_parameters=pai_distributed.finds_unused_parameters() in it"
            )
            yield Check("wrapper", "failed", message, event["place"])
            return
    if training.kind == "ddp":
        seen: Result = "ok" if wrappers else "not seen"
        detail = "waits for no gradient that never comes, keeps the tracker's records local"
        yield Check("wrapper", seen, detail if wrappers else "")


def _scores(training: Training) -> Iterator[Check]:
    count = 0
    for one in training.rounds:
        handovers = {rank: one.of(rank, "handover") for rank in one.ranks if rank >= 0}
        most = max((len(events) for events in handovers.values()), default=0)
        count += most
        lacking = [rank for rank, events in handovers.items() if len(events) < most and not _own_error(one, rank)]
        if lacking and one.ended in ("failed", "hung"):
            others = [rank for rank in handovers if rank not in lacking]
            place = handovers[others[0]][-1]["place"]
            message = (
                f"in {one.name} {_ranks(others)} handed over score {most} and {_ranks(lacking)} did not, "
                "but every rank must take part: the others wait for it, or go on without it"
            )
            yield Check("score", "failed", message, place)
            return
        for rank, event in one.all("score"):
            if not isinstance(event["score"], float):
                message = f"{one.name}: rank {rank} gave the tracker {event['score']}, not a finite number"
                yield Check("score", "failed", message, _place(handovers.get(rank, [])))
                return
        numbers = [[event["score"] for event in one.of(rank, "score")] for rank in handovers]
        for given in zip(*(column for column in numbers if column), strict=False):
            if len(set(given)) > 1:
                message = f"{one.name}: the ranks gave the tracker different scores, {_list(given)}"
                yield Check("score", "failed", message, _place(handovers.get(0, [])))
                return
    ranks = {rank for one in training.rounds for rank in one.ranks if rank >= 0}
    if count:
        on_all = f", on all {len(ranks)} ranks" if len(ranks) > 1 else ""
        yield Check("score", "ok", f"{_count(count, 'score')}, finite{' and equal' if on_all else ''}{on_all}")
    else:
        yield Check("score", "not seen", "no score was handed over")


def _parameters(training: Training) -> Iterator[Check]:
    compared = 0
    for one in training.rounds:
        for kind, key in (("step", "digest"), ("handover", "parameters")):
            for number, (digests, event) in _side_by_side(one, kind, key):
                compared += 1
                if len(set(digests)) > 1:
                    at = f"after step {event['number']}" if kind == "step" else f"at score {number}"
                    message = f"{one.name}: the ranks' parameters differ {at}"
                    yield Check("parameters", "failed", message, event.get("place", ""))
                    return
    if training.kind == "ddp":
        detail = f"equal on all ranks, {compared} comparisons" if compared else "no two ranks came so far"
        yield Check("parameters", "ok" if compared else "not seen", detail)


def _buffers(training: Training) -> Iterator[Check]:
    compared = False
    for one in training.rounds:
        for _, (buffers, event) in _side_by_side(one, "handover", "buffers"):
            compared = True
            names = [name for name in buffers[0] if len({ranks.get(name) for ranks in buffers}) > 1]
            if names:
                message = f"{one.name}: {_names(names)} differ between ranks"
                yield Check("buffers", "warning", message, event["place"])
                return
    if compared:
        yield Check("buffers", "ok", "equal on all ranks, but for running statistics of each rank's own batches")


def _optimizer(training: Training) -> Iterator[Check]:
    first: set[str] | None = None
    warning = ""
    for one in training.rounds:
        for _, event in one.all("handover"):
            left_out = set(event.get("left_out", ()))
            if first is None:
                first = left_out
            # What the script leaves out from the start is its choice; what dendrites bring is not.
            lost = sorted(name for name in left_out if name not in first or ".dendrite_module" in name)
            if lost:
                message = (
                    f"{one.name}: in no optimizer: {_count(len(lost), 'trainable parameter')} of the model, "
                    f"{_names(lost)}. Was it built from the parameters of an older structure?"
                )
                yield Check("optimizer", "failed", message, _place(one.of(0, "optimizer")) or event["place"])
                return
            if left_out:
                warning = f"from the start without {_names(sorted(left_out))}: was that so before?"
    if first is None:
        yield Check("optimizer", "not seen", "")
    elif warning:
        yield Check("optimizer", "warning", warning)
    else:
        yield Check("optimizer", "ok", "has every trainable parameter after each restructuring")


def _rates(training: Training) -> Iterator[Check]:
    name = "learning rate"
    seen: list[float] = []
    scheduler = ""
    for one in training.rounds:
        for _, event in one.all("optimizer"):
            scheduler = event["scheduler"] or scheduler
        for _, event in one.all("scheduler-step"):
            if event["owned"] and event["place"]:
                message = f"the script steps {event['scheduler']}, and the tracker steps it as well"
                yield Check(name, "failed", message, event["place"])
                return
        for _, event in one.all("handover"):
            for place in event["idle_schedulers"]:
                message = "the scheduler that is stepped here belongs to an optimizer that does not train"
                yield Check(name, "failed", message, place)
                return
        for rank, event in one.all("score"):
            if event["expected"] is not None and not _close(event["rates"], event["expected"]):
                message = (
                    f"{one.name}: rank {rank} has {_list(event['rates'])} where {scheduler or 'the schedule'} says "
                    f"{_list(event['expected'])}"
                )
                yield Check(name, "failed", message, _place(one.of(rank, "handover")))
                return
        for _, (rates, event) in _side_by_side(one, "step", "rates"):
            seen += rates[0][:1]
            if any(not _close(other, rates[0]) for other in rates):
                message = f"{one.name}: the ranks have different ones at step {event['number']}, {_list(rates)}"
                yield Check(name, "failed", message)
                return
    seen = seen or [event["rates"][0] for one in training.rounds for event in one.of(0, "step") if event["rates"]]
    if not all(math.isfinite(rate) for rate in seen):
        yield Check(name, "failed", f"is not finite: {_list(seen)}")
    elif seen:
        distinct = list(dict.fromkeys(seen))
        shown = " ".join(f"{rate:g}" for rate in distinct[:6]) + (" ..." if len(distinct) > 6 else "")
        by = f"; {scheduler}, stepped by the tracker" if scheduler else ""
        yield Check(name, "ok", shown + by)
    else:
        yield Check(name, "not seen", "")


def _loading(training: Training) -> Iterator[Check]:
    loads = 0
    for one in training.rounds:
        for rank, event in one.all("loaded"):
            loads += 1
            if event["different"]:
                message = (
                    f"{one.name}: {event['name']} was loaded only in part on rank {rank}: {_names(event['different'])}"
                )
                yield Check("checkpoints", "failed", message)
                return
    names = list(dict.fromkeys(one.loaded for one in training.rounds if one.loaded))
    written = [one.switch for one in training.rounds if one.switch]
    detail = f"written {_list(written)}" + (f", loaded whole {_list(names)}" if names else "")
    yield Check("checkpoints", "ok" if written else "not seen", detail if written else "")


def _traps(training: Training) -> Iterator[Check]:
    for one in (training.initial, *training.rounds):
        entered = one.all("debugger")
        line = causes.trap(one.output)
        if entered or line:
            meaning = causes.cause(one.output) or causes.cause(line)
            detail = f"{one.name}: " + (meaning or f"the library stopped for a question: {line}")
            yield Check("library", "failed", detail, entered[0][1]["place"] if entered else "")
            return
    yield Check("library", "ok", "asked nothing and complained of nothing")


def _restarts(training: Training) -> Iterator[Check]:
    for one in training.rounds:
        if one.ended in ("restructured", "complete"):
            continue
        told = "ended without a new checkpoint and without completion"
        if one.epochs and not one.status:
            ended = f"ended on its own after {_count(one.epochs, 'epoch')}"
            told = f"{ended}, before the tracker was done: is its number of epochs limited?"
        yield Check("rounds", "failed", *_why(one, told))
        return
    switches = [int(one.switch.partition("_")[2]) for one in training.rounds if one.switch]
    if switches != sorted(set(switches)):
        yield Check(
            "rounds", "failed", f"the checkpoints do not advance: {_list([one.switch for one in training.rounds])}"
        )
    elif training.rounds:
        epochs = sum(one.epochs for one in training.rounds)
        yield Check("rounds", "ok", f"{_count(len(training.rounds), 'round')} of {_count(epochs, 'epoch')} in all")
    else:
        yield Check("rounds", "not seen", "")


def _completion(training: Training) -> Iterator[Check]:
    if training.complete:
        finals = [
            event for one in training.rounds[-1:] for event in one.of(0, "loaded") if event["name"] == "best_model"
        ]
        loaded = bool(finals) and not finals[-1]["different"]
        detail = "training is complete" + (", and the final model loads" if loaded else "")
        yield Check("completion", "ok" if loaded else "failed", detail if loaded else "the final model was not loaded")
    elif training.rounds and training.rounds[-1].ended == "restructured":
        yield Check("completion", "failed", f"not within {_count(training.max_rounds, 'round')}: see --max-rounds")
    else:
        yield Check("completion", "not seen", "training did not come to its end")


def first_error(one: Round) -> tuple[int, Event] | None:
    """Return the error that a round died of, with its rank: not that of a rank that lost another one."""
    # What torchrun raises only says that a worker has failed.
    found = [(rank, event) for rank, event in one.all("error") if event["error"] != "ChildFailedError"]
    errors = sorted(found, key=lambda item: (_secondary(item[1]), item[0] < 0, item[1]["time"]))
    return errors[0] if errors else None


def summary(event: Event) -> str:
    """Return an error in one line. A process that spawned others has theirs at the end of its message."""
    lines = event["message"].strip().splitlines() or [""]
    return str(
        lines[-1] if "Traceback (most recent call last)" in event["message"] else f"{event['error']}: {lines[0]}"
    )[:300]


def _secondary(event: Event) -> bool:
    return causes.between_ranks(event["message"])


def _own_error(one: Round, rank: int) -> bool:
    return any(not _secondary(event) for event in one.of(rank, "error"))


def _why(one: Round, otherwise: str) -> tuple[str, str]:
    """Return why a round failed, and where."""
    if one.ended == "hung":
        where = "; ".join(f"{who} waits in {', called by '.join(stack[:3])}" for who, stack in one.stacks.items())
        return f"{one.name} hung: {where or 'nothing of it showed a sign of life'}", ""
    found = first_error(one)
    if found is None:
        meaning = causes.cause(one.output)
        return f"{one.name} {otherwise}" + (f": {meaning}" if meaning else "") + f" (status {one.status})", ""
    rank, event = found
    said = summary(event)
    meaning = causes.cause(f"{event['error']}: {event['message']}")
    on = f" on rank {rank}" if rank >= 0 and len(one.ranks) > 1 else ""
    return f"{one.name} failed{on}: " + (f"{meaning} ({said})" if meaning else said), event["place"]


def _side_by_side(one: Round, kind: str, key: str) -> Iterator[tuple[int, tuple[list[Any], Event]]]:
    """Return what all ranks noted of the same moment, as far as every rank came: its number, the values, an event."""
    columns = [one.of(rank, kind) for rank in sorted(one.ranks) if rank >= 0]
    if len(columns) < 2:
        return
    for number, events in enumerate(zip(*columns, strict=False), start=1):
        if all(key in event for event in events):
            yield number, ([event[key] for event in events], events[0])


def _close(some: list[float], others: list[float]) -> bool:
    return len(some) == len(others) and all(
        math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-12) for a, b in zip(some, others, strict=True)
    )


def _place(events: list[Event]) -> str:
    return str(events[-1]["place"]) if events else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _ranks(ranks: list[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + _list(ranks)


def _list(items: object) -> str:
    return ", ".join(str(item) for item in items)  # type: ignore[attr-defined]


def _names(names: list[str]) -> str:
    return _list(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
