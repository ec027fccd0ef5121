"""How much time rounds, faults and time limits cost over weeks, by simulation: `python -m docs.scale` prints it."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass

#: Between two faults of one node: 16,384 GPUs of 2,048 nodes had 419 unexpected interruptions in 54 days
#: (The Llama 3 Herd of Models, 2024, section 3.3.4).
NODE_HOURS = 2048 * 54 * 24 / 419


@dataclass(frozen=True)
class Training:
    """A training in rounds.

    Attributes:
        nodes: machines, any of which ends a start by a fault.
        round_hours: what a round takes on average, undisturbed, after its start.
        spread: by which part of that rounds may be longer or shorter.
        checkpoint_hours: after how long the script saves a checkpoint from which it goes on; 0 where it does not.
        limit_hours: the time of a job; infinite where there is none.
        start_minutes: from the end of a process to the first step of the next.
    """

    nodes: int
    round_hours: float
    spread: float = 0.5
    checkpoint_hours: float = 0.0
    limit_hours: float = 24.0
    start_minutes: float = 1.0


def lost(training: Training, weeks: float, seed: int = 0) -> float:
    """Return the share of the machines' time in which nothing is learned that lasts.

    A fault ends a start at a random moment, a job at its limit; the wait in a queue is not counted. What began after
    the newest switch file, or after the script's own checkpoint, is done again.

    Args:
        training: what is trained.
        weeks: how long.
        seed: of the faults.
    """
    draw = random.Random(seed)

    def until_fault() -> float:
        return draw.expovariate(training.nodes / NODE_HOURS) if training.nodes else math.inf

    def hours() -> float:
        return training.round_hours * draw.uniform(1 - training.spread, 1 + training.spread)

    clock, useful, kept, length = 0.0, 0.0, 0.0, hours()  # kept: of this round
    fault, limit = until_fault(), training.limit_hours
    while clock < weeks * 7 * 24:
        begin = clock + training.start_minutes / 60
        clock = min(begin + length - kept, fault, limit)
        done = kept + max(0.0, clock - begin)
        if clock < min(fault, limit):
            useful, kept, length = useful + length, 0.0, hours()
        else:
            kept = done // training.checkpoint_hours * training.checkpoint_hours if training.checkpoint_hours else 0.0
        if clock == fault:
            fault += until_fault()
        if clock == limit:
            limit += training.limit_hours
    return 1 - useful / clock


def table(weeks: float = 400.0) -> str:
    """Return the shares for trainings of several sizes, as a table of Markdown."""
    lines = [
        "| nodes | a round | jobs of 24 h | jobs of 24 h, checkpoints each half hour | no time limit |",
        "| --- | --- | --- | --- | --- |",
    ]
    for nodes, hours in itertools.product((1, 8, 125), (0.25, 1.0, 4.0, 12.0)):
        kinds = (Training(nodes, hours), Training(nodes, hours, checkpoint_hours=0.5))
        shares = [lost(kind, weeks) for kind in (*kinds, Training(nodes, hours, limit_hours=math.inf))]
        lines.append(f"| {nodes} | {hours:g} h | " + " | ".join(f"{share:.1%}" for share in shares) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
