"""A small DataParallel training for test_runtime.py, written as `retrofit apply` writes it.

With --reuse-arguments the optimizer's arguments are one dict for the whole run. What became of it is in result.json.
"""
# mypy: ignore-errors

import argparse
import json

import pai_distributed
import torch
from perforatedai import globals_perforatedai as GPA
from perforatedai import utils_perforatedai as UPA
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--perforate_model_parallel", action="store_true")
parser.add_argument("--reuse-arguments", action="store_true")
args = parser.parse_args()

torch.manual_seed(0)
inputs, targets = torch.randn(8, 6), torch.arange(8) % 2
model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2))
pai_distributed.configure_library(restarts=False)
GPA.pc.set_n_epochs_to_switch(3)
GPA.pc.set_max_dendrites(1)
with pai_distributed.one_rank_at_a_time():
    model = UPA.perforate_model(
        model, save_name=pai_distributed.save_name("PAI"), maximizing_score=True, making_graphs=False
    )
model = pai_distributed.load_latest_switch(model, None)
arguments = {"params": model.parameters(), "lr": 0.01}


def setup_optimizer(model):
    GPA.pai_tracker.set_optimizer(torch.optim.Adam)
    GPA.pai_tracker.set_scheduler(torch.optim.lr_scheduler.StepLR)
    fresh = {"params": model.parameters(), "lr": 0.01}
    return GPA.pai_tracker.setup_optimizer(model, arguments if args.reuse_arguments else fresh, {"step_size": 2})


def compare(optimizer, model):
    """How many of the model's trainable parameters the optimizer lacks, and how many strangers it has."""
    has = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    needs = {id(parameter) for parameter in model.parameters() if parameter.requires_grad}
    return {"missing": len(needs - has), "stale": len(has - needs)}


optimizer, scheduler = setup_optimizer(model)
if not args.perforate_model_parallel:
    GPA.pai_tracker.initialize_tracker_settings()
    model = nn.DataParallel(model)
else:
    model = pai_distributed.on_one_device(model)
result = {"parameters": [compare(optimizer, model)], "after": []}
for epoch in range(30):
    for start in (0, 4):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs[start : start + 4]), targets[start : start + 4])
        pai_distributed.fill_missing_gradients(model)
        loss.backward()
        if args.perforate_model_parallel:
            pai_distributed.finish_initialization()
        optimizer.step()
    score = torch.tensor([min(epoch, 2) + GPA.pai_tracker.member_vars["num_dendrites_added"]]) * 0.1
    model, restructured, training_complete = pai_distributed.add_validation_score(score, model)
    result["after"].append([type(model).__name__, restructured, training_complete])
    if training_complete:
        break
    if restructured:
        optimizer, scheduler = setup_optimizer(model)
        result["parameters"].append(compare(optimizer, model))
with open("result.json", "w") as file:
    json.dump(result, file)
