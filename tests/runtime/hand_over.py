"""Two ranks hand a score over, and something is wrong with it; what it is, is the argument."""
# mypy: ignore-errors

import os
import sys

import pai_distributed
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
model = nn.Linear(2, 2)
if sys.argv[1] == "places":
    if dist.get_rank() == 0:
        pai_distributed.report_validation_score(0.5, model)
    else:
        pai_distributed.report_validation_score(torch.tensor(0.5), model)
elif sys.argv[1] == "rank 1":
    pai_distributed.process._pai.model = nn.Linear(2, 2) if dist.get_rank() == 1 else model
    pai_distributed.report_validation_score(0.5, model)
elif sys.argv[1] == "of rank 0":
    pai_distributed.score._pai_share = lambda number, *_, **__: os.write(1, f"score {number}\n".encode())
    model(torch.ones(1, 2)).sum().backward()
    pai_distributed.report_validation_score(0.25 + dist.get_rank(), model, of_rank_0=True)
