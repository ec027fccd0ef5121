"""Two ranks hand a score over, and something is wrong with it; what it is, is the argument."""
# mypy: ignore-errors

import os
import sys

import pai_distributed
import torch
import torch.distributed as dist
from perforatedai import globals_perforatedai as GPA
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = nn.Linear(2, 2)
GPA.pai_tracker = type("Tracker", (), {"member_vars": {}})  # as where a model is perforated
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
elif sys.argv[1] == "ends":
    if dist.get_rank() == 1:
        pai_distributed.process._pai.last_score, pai_distributed.process._pai.model = 0.5, model
        pai_distributed.rounds._pai_end_structure("It ends")
    pai_distributed.report_validation_score(None, model)
elif sys.argv[1] == "early":
    pai_distributed.score._pai_share = lambda number, *_, **__: os.write(1, f"score {number}\n".encode())
    model(torch.ones(1, 2)).sum().backward()
    if dist.get_rank() == 0:
        pai_distributed.report_validation_score(0.25, model)
    else:
        pai_distributed.report_validation_score(0.75, model, early=True)
elif sys.argv[1] == "trained":
    pai_distributed.score._pai_share = lambda number, *_, **__: os.write(1, f"score {number}\n".encode())
    if "ignored" in sys.argv:
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ["bias"])
    wrapper = DistributedDataParallel(model)
    if "loaded" in sys.argv and dist.get_rank() == 1:
        nn.init.ones_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if "own rate" in sys.argv and dist.get_rank() == 1:
        optimizer.param_groups[0]["lr"] = 0.05
    pai_distributed.process._pai.model = model
    GPA.pai_tracker.member_vars["optimizer_instance"] = optimizer
    if "rounding" in sys.argv and dist.get_rank() == 1:
        optimizer.register_step_post_hook(lambda *_: model.weight.data.mul_(1 + 1e-6))
    for epoch in range(2):
        batch = torch.tensor([[1.0, -1.0]]) if dist.get_rank() == 1 else torch.ones(1, 2)
        trained = {"past the wrapper": model, "by hand": model}.get(sys.argv[2], wrapper)
        loss = trained(batch).square().sum()
        if "ignored" in sys.argv:
            loss = loss + dist.get_rank() * model.bias.sum()
        loss.backward()
        if sys.argv[2] == "by hand":
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
        optimizer.step()
        pai_distributed.report_validation_score(0.5 + epoch, wrapper)
    pai_distributed.process._pai.complete = True  # as no score came to where one is kept
