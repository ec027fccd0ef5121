"""Two ranks, as if on a machine each, call perforate_model, for test_runtime.py: "cured" or not.

The process group's store makes the order, not chance: rank 1 comes when rank 0 has opened the settings file for
writing, and rank 0 writes on when rank 1 has read the file.
"""
# mypy: ignore-errors

import json
import sys

import pai_distributed
import torch.distributed as dist
from perforatedai import utils_perforatedai as UPA
from torch import nn

dist.init_process_group("gloo")
rank = dist.get_rank()
store = dist.distributed_c10d._get_default_store()
dump = json.dump


def dump_late(value, file, **options):
    store.set("rank 0 has opened the file", "")
    store.wait(["rank 1 is as far as it can get"])
    dump(value, file, **options)


if rank == 0:
    json.dump = dump_late
else:
    store.wait(["rank 0 has opened the file"])
pai_distributed.configure_library()
if sys.argv[1] != "cured":
    library = pai_distributed.library
    library._pai_settings.save_config = library._pai_save_settings
    library._pai_settings.load_config = library._pai_load_settings
try:
    UPA.perforate_model(nn.Sequential(nn.Linear(2, 2)), save_name="PAI", maximizing_score=True)
finally:
    store.set("rank 1 is as far as it can get", "")
pai_distributed.process._pai_leave(0)
