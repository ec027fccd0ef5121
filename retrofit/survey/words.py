"""Words that count where nothing else tells, matched to whole words of names: `warm_up_epochs` has `warmup`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

#: A rank, and what only rank 0 is.
OF_RANK = frozenset(
    {
        "rank", "localrank", "globalrank", "procid", "localid", "main", "master", "primary", "chief",
        "isfirst", "iszero",
    }
)  # fmt: skip
#: What differs between ranks, or processes, when a path is made of it.
OWN = frozenset(
    {
        "rank", "localrank", "globalrank", "gpu", "local", "device", "node", "host", "hostname", "worker", "proc",
        "process", "procid", "localid", "pid", "getpid", "uuid", "time", "datetime", "timestamp", "strftime",
        "tempfile", "mkdtemp", "mkstemp", "random",
    }
)  # fmt: skip
#: The share of a rank in the data.
SHARES = frozenset(
    {
        "rank", "localrank", "shard", "sharded", "worldsize", "splitby", "bynode", "iterable", "webdataset", "stream",
        "streaming", "distributed", "parallel", "numreplicas",
    }
)  # fmt: skip
#: How a run is distributed.
SEVERAL = frozenset(
    {
        "rank", "localrank", "world", "worldsize", "dist", "distributed", "ddp", "dp", "parallel", "gpu", "ngpu",
        "numgpu", "multi", "multigpu", "multiprocessing", "sampler",
    }
)  # fmt: skip
#: What brings ranks together.
GATHERS = frozenset(
    {
        "reduce", "allreduce", "reduced", "reducer", "gather", "gathered", "allgather", "synchronize", "synchronise",
        "synchronized", "synchronization", "torchmetrics", "torcheval", "sync", "collect", "collector", "broadcast",
        "merge", "aggregate", "aggregator", "average",
    }
)  # fmt: skip
#: What brings ranks together for itself alone.
NORMALISES = frozenset({"batchnorm", "bn"})
#: A seed of its own for each rank, or one that a library sees to.
SEEDED = frozenset({"rank", "localrank", "generator", "seedeverything", "workerinit", "workerinitfn"})
WITHOUT_GRADIENT = frozenset({"requiresgrad", "nograd", "detach"})
WARMING = frozenset({"warmup", "warmstart", "onecyclelr", "sequentiallr", "linearlr", "rampup"})
ENDING = frozenset({"cleanup", "destroy", "teardown", "shutdown", "finalize", "finalise", "finalizer"})
#: What asks whether a model is wrapped.
ASKS_FOR_WRAPPER = frozenset(
    {
        "distributed", "distribute", "ddp", "parallel", "isinstance", "hasattr", "getattr", "worldsize", "module",
        "gpu", "ngpu", "numgpu", "multi", "multigpu", "devicecount", "wrapped",
    }
)  # fmt: skip


@cache
def _parts(name: str) -> frozenset[str]:
    """Return the words of a name in lower case, alone and joined with those behind them, one and several alike."""
    words = [one.lower() for one in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]
    joined = {"".join(words[a:b]) for a in range(len(words)) for b in range(a + 1, len(words) + 1)}
    return frozenset(joined | {one.removesuffix("s") for one in joined})


def speak(names: Iterable[str], table: frozenset[str]) -> bool:
    """Whether one of some names has a word of a table."""
    return any(not table.isdisjoint(_parts(name)) for name in names)
