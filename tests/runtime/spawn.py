"""A script without argparse that spawns its own processes: what they know of pai_distributed's options."""
# mypy: ignore-errors

import json
import os
import sys

import pai_distributed
import torch.distributed as dist
import torch.multiprocessing


def work(rank: int) -> None:
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("group"), rank=rank, world_size=2)
    with pai_distributed.one_rank_at_a_time():
        known = {
            "arguments": sys.argv[1:],
            "initializing": pai_distributed.initializing(),
            "load_folder": pai_distributed.load_folder(),
            "RANK": os.environ["RANK"],
        }
    with open(f"rank{rank}.json", "w") as file:
        json.dump(known, file)
    dist.barrier()  # one that leaves while the other still connects would take it along
    pai_distributed.process._pai_leave(0)


if __name__ == "__main__":
    pai_distributed.take_options()
    torch.multiprocessing.spawn(work, nprocs=2)
