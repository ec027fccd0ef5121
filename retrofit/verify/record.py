"""What the processes of a training have noted, put together: by round and by rank."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Event = dict[str, Any]


@dataclass
class Round:
    """One round: from the start, or a restructuring, to the next restructuring or the end.

    Attributes:
        name: as messages name it: "initialisation", "round 1".
        ranks: each rank's events in their order. A training without ranks has rank 0.
        loaded: the checkpoint it began with, "" for none.
        switch: the checkpoint that it left, "" for none.
        ended: "restructured", "complete", "failed" or "hung"; "initialised" for the initialisation.
        status: the exit status of the program that ran it.
        seconds: how long it took.
        output: what was printed, if it was the last round.
        stacks: where each rank was when it was killed for hanging, the innermost call first.
    """

    name: str
    ranks: dict[int, list[Event]] = field(default_factory=dict)
    loaded: str = ""
    switch: str = ""
    ended: str = ""
    status: int = 0
    seconds: float = 0.0
    output: str = ""
    stacks: dict[str, list[str]] = field(default_factory=dict)

    def all(self, kind: str) -> list[tuple[int, Event]]:
        """Return the events of one kind as (rank, event)."""
        return [(rank, event) for rank, events in self.ranks.items() for event in events if event["kind"] == kind]

    def of(self, rank: int, kind: str) -> list[Event]:
        """Return one rank's events of one kind."""
        return [event for event in self.ranks.get(rank, []) if event["kind"] == kind]

    @property
    def epochs(self) -> int:
        """How many scores rank 0 has handed over."""
        return len(self.of(0, "handover"))

    @property
    def steps(self) -> int:
        """How many steps the optimizers of rank 0 have made."""
        return len(self.of(0, "step"))


def read_events(folder: Path, stage: str) -> tuple[dict[int, list[Event]], dict[int, list[Event]]]:
    """Return each rank's events of a stage: those of the initialisation, and those of training.

    Args:
        folder: where the processes wrote them.
        stage: the stage.
    """
    processes = {}
    for path in folder.glob(f"{stage}-*.jsonl"):
        # A process that was killed may have left its last line unfinished.
        lines = [line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]
        events = [json.loads(line) for line in lines]
        if events:
            processes[int(events[0]["process"])] = events
    initial: dict[int, list[Event]] = {}
    training: dict[int, list[Event]] = {}
    for number, events in processes.items():
        # A process gets its rank when it joins the group; what it noted before is its rank's too.
        rank = max((event["rank"] for event in events if event["rank"] is not None), default=0)
        works = any(event["kind"] not in ("start", "error") for event in events)
        ranks = initial if _initializing(number, processes) else training
        if works or any(event["rank"] is not None for event in events):
            ranks.setdefault(rank, []).extend(events)
        else:  # such as torchrun itself: its error is worth knowing where its workers tell nothing
            ranks.setdefault(-1, []).extend(event for event in events if event["kind"] == "error")
    for ranks in (initial, training):
        for events in ranks.values():
            events.sort(key=lambda event: float(event["time"]))
    return initial, training


def _initializing(number: int, processes: dict[int, list[Event]]) -> bool:
    start = processes[number][0] if number in processes else None
    if start is None or start["kind"] != "start":
        return False
    return bool(start["initializing"]) or _initializing(start["parent"], processes)


def cut_rounds(ranks: dict[int, list[Event]]) -> list[dict[int, list[Event]]]:
    """Return the rounds of a training that goes on in its process after each restructuring.

    Args:
        ranks: the events of all ranks, of which only 0 restructures.
    """
    rounds: list[list[Event]] = [[]]
    for event in ranks.get(0, []):
        rounds[-1].append(event)
        if event["kind"] == "score" and event["restructured"] and not event["complete"]:
            rounds.append([])
    return [{0: events} for events in rounds if events]
