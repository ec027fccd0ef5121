"""Two ranks call perforate_model, for test_runtime.py: "guarded" by one_rank_at_a_time or "unguarded".

The process group's store makes the order, not chance: rank 1 comes when rank 0 has opened the settings file for
writing, and rank 0 writes on when rank 1 has read the file, or waits at the lock.
"""
# mypy: ignore-errors

import contextlib
import fcntl
import json
import sys

import pai_distributed
import torch.distributed as dist
from perforatedai import utils_perforatedai as UPA
from torch import nn

dist.init_process_group("gloo")
rank = dist.get_rank()
store = dist.distributed_c10d._get_default_store()
guard = pai_distributed.one_rank_at_a_time if sys.argv[1] == "guarded" else contextlib.nullcontext
dump, flock = json.dump, fcntl.flock


def dump_late(value, file, **options):
    store.set("rank 0 has opened the file", "")
    store.wait(["rank 1 is as far as it can get"])
    dump(value, file, **options)


def flock_and_tell(file, operation):
    store.set("rank 1 is as far as it can get", "")
    flock(file, operation)


if rank == 0:
    json.dump = dump_late
else:
    fcntl.flock = flock_and_tell
    store.wait(["rank 0 has opened the file"])
pai_distributed.configure_library()
try:
    with guard():
        UPA.perforate_model(nn.Sequential(nn.Linear(2, 2)), save_name="PAI", maximizing_score=True)
finally:
    store.set("rank 1 is as far as it can get", "")
pai_distributed.process._pai_leave(0)
