"""Judges a process group that was tried: whether it formed, its all-reduce, and synchronised gradients."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from statistics import median

from retrofit.doctor.facts import Group, Rank
from retrofit.doctor.finding import Finding, size
from retrofit.wording import counted, listed

#: The check computes in double precision; what a different order of additions does is far below this.
_TOLERANCE = 1e-9


def judge_group(group: Group) -> list[Finding]:
    """Judge a process group that was tried."""
    failed = _failure(group)
    if failed:
        return [failed]
    name = f"{group.backend} over {counted(len(group.ranks), 'process', 'processes')}"
    return [Finding("process group", "ok", f"{name} met."), _all_reduce(group), _gradients(group)]


def _failure(group: Group) -> Finding | None:
    topic = "process group"
    name = f"{group.backend} over {counted(len(group.ranks), 'process', 'processes')}"
    if group.hung_after is not None:
        waiting: dict[str, list[int]] = {}
        for number, rank in enumerate(group.ranks):
            if rank.ended is None:
                waiting.setdefault(rank.stage or "starting", []).append(number)
        where = "; ".join(
            f"{_ranks(numbers)} {'was' if len(numbers) == 1 else 'were'} {stage}" for stage, numbers in waiting.items()
        )
        return Finding(
            topic, "problem", f"{name} hung, and was killed after {group.hung_after:g} seconds: {where}.", _cure(group)
        )
    failed = [(rank.ended, number) for number, rank in enumerate(group.ranks) if rank.status and rank.ended is not None]
    if failed:
        number = min(failed)[1]
        rank = group.ranks[number]
        stage = f" while {rank.stage}" if rank.stage else ""
        return Finding(
            topic,
            "problem",
            f"{name} failed: rank {number} ended{stage}: {_reason(rank)}",
            _cure(group, rank.status or 0),
        )
    silent = [number for number, rank in enumerate(group.ranks) if rank.gradient_error is None]
    if silent:
        return Finding(topic, "problem", f"{name} failed: {_ranks(silent)} ended without a result.", _cure(group))
    return None


def _ranks(numbers: list[int]) -> str:
    return f"rank{'s' if len(numbers) > 1 else ''} {listed(numbers)}"


def _reason(rank: Rank) -> str:
    if rank.error:
        return rank.error
    status = rank.status or 0
    try:
        return f"signal {signal.Signals(-status).name}." if status < 0 else f"exit status {status}."
    except ValueError:
        return f"signal {-status}."


def _cure(group: Group, status: int = 0) -> str:
    name = signal.Signals(-status).name if -status in set(signal.Signals) else ""
    if name == "SIGBUS":
        return "Shared memory is full: docker run --shm-size=8g, or --ipc=host"
    if name == "SIGKILL":
        return (
            "Memory ran out, most likely: dmesg | tail says so. Give the machine or the job more, or use fewer ranks."
        )
    if group.backend == "nccl":
        return (
            "NCCL_P2P_DISABLE=1 retrofit doctor: if that works, the GPUs cannot read each other's memory, mostly\n"
            "because of IOMMU or ACS settings; keep it set, or have those turned off.\n"
            "NCCL_DEBUG=INFO NCCL_DEBUG_FILE=nccl_%p.log retrofit doctor writes what NCCL does, a file a process."
        )
    return (
        "GLOO_SOCKET_IFNAME=lo retrofit doctor: if that works, keep it set to train on this machine alone.\n"
        "retrofit doctor --timeout 300: if that works, importing torch takes long here."
    )


def _all_reduce(group: Group) -> Finding:
    topic = "all-reduce"
    wrong = [number for number, rank in enumerate(group.ranks) if rank.wrong_sums != 0]
    first = group.ranks[0]
    if wrong:
        return Finding(
            topic,
            "problem",
            f"{group.ranks[wrong[0]].wrong_sums} of {first.size // 4} sums are wrong on {_ranks(wrong)}.",
            "NCCL_P2P_DISABLE=1 retrofit doctor: if the sums are right then, keep it set, and look at IOMMU and ACS."
            if group.backend == "nccl"
            else "Reinstall torch; if that does not help, have the machine's memory tested.",
        )
    if len(group.ranks) == 1:
        return Finding(topic, "ok", "The sums are right; one process exchanges nothing that could be timed.")
    seconds, algorithm, bus = bandwidth(group)
    return Finding(
        topic,
        "ok",
        f"All sums are right. {size(first.size)} in {seconds * 1000:.3g} ms: algorithm bandwidth "
        f"{algorithm / 1e9:.3g} GB/s, bus bandwidth {bus / 1e9:.3g} GB/s.",
    )


def bandwidth(group: Group) -> tuple[float, float, float]:
    """Return how many seconds an all-reduce took, and its algorithm and bus bandwidth in bytes a second.

    An all-reduce is over when the last rank is done, and the median of the repeats counts. The bandwidths are those of
    nccl-tests (doc/PERFORMANCE.md): size by time, and that times 2(n-1)/n, which each rank's link carries.
    """
    number = len(group.ranks)
    seconds = median(max(times) for times in zip(*(rank.seconds for rank in group.ranks), strict=True))
    algorithm = group.ranks[0].size / seconds
    return seconds, algorithm, algorithm * 2 * (number - 1) / number


def _gradients(group: Group) -> Finding:
    topic = "gradients"
    cure = "Reinstall torch: DistributedDataParallel itself does not work as it must here."
    for what, bad in _mistakes(group):
        if bad:
            return Finding(topic, "problem", f"{what} on {_ranks(bad)}.", cure)
    what = "are the mean of all ranks' own gradients, and the same on each" if len(group.ranks) > 1 else "are right"
    return Finding(topic, "ok", f"With DistributedDataParallel gradients {what}.")


def _mistakes(group: Group) -> Iterable[tuple[str, list[int]]]:
    ranks = list(enumerate(group.ranks))
    yield (
        "DistributedDataParallel left parameters that differ from rank to rank",
        [number for number, rank in ranks if not rank.same_parameters],
    )
    yield (
        "After the backward pass gradients differ from rank to rank",
        [number for number, rank in ranks if not rank.same_gradients],
    )
    yield (
        "After the backward pass gradients are not the mean of all ranks' own ones",
        # so written that "not a number" is a mistake as well
        [n for n, rank in ranks if rank.gradient_error is None or not rank.gradient_error <= _TOLERANCE],
    )
