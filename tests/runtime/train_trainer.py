"""A DistributedDataParallel training for test_runtime.py that averages weights, and loads them in its constructor.

It is written as `retrofit apply` writes it, and starts anew in each round as it did in the first: it loads pretrained
weights, zeroes others, and begins its moving averages. What became of it is in rank<N>.json.
"""
# mypy: ignore-errors

import argparse
import atexit
import copy
import itertools
import json
import os

import pai_distributed
import torch
import torch.distributed as dist
from perforatedai import globals_perforatedai as GPA
from perforatedai import utils_perforatedai as UPA
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

parser = argparse.ArgumentParser()
parser.add_argument("--perforate_model_parallel", action="store_true")
parser.add_argument("--pai_load_folder")
parser.add_argument("--compile", action="store_true")
parser.add_argument("--without", metavar="CURE")
args = parser.parse_args()
if args.without == "records hidden":
    hide = pai_distributed.hidden._pai_hide

    def hide_but_records(model):
        hide(model)
        if "tracker_string" in vars(model):
            model.register_buffer("tracker_string", vars(model).pop("tracker_string"))

    pai_distributed.structure._pai_hide = pai_distributed.hidden._pai_hide = hide_but_records
elif args.without == "restored weights win":
    pai_distributed.structure._pai_let_restored_weights_win = lambda model: None


class Net(nn.Module):
    """Has a Linear whose neurons are in dimension 3, buffers of its own, and a bare parameter used first."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6))
        self.norm = nn.BatchNorm2d(2)
        self.mlp = nn.Linear(6, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(torch.relu(self.mlp(self.norm(x * self.scale))).mean((1, 2)))


class Average:
    """As timm's ModelEma: over the values of state dicts, whatever their types."""

    def __init__(self, model):
        self.module = copy.deepcopy(model).eval()

    @torch.no_grad()
    def update(self, model):
        for average, value in zip(self.module.state_dict().values(), model.state_dict().values(), strict=True):
            average.copy_(average * 0.9995 + (1 - 0.9995) * value)


class Buffers(Average):
    """Over parameters and buffers, without state dicts."""

    @torch.no_grad()
    def update(self, model):
        for average, value in zip(self.module.parameters(), model.parameters(), strict=True):
            average.lerp_(value, 0.1)
        for average, value in zip(self.module.buffers(), model.buffers(), strict=True):
            average.copy_(value)


class Trainer:
    def __init__(self):
        torch.manual_seed(0)
        self.model = Net()
        pai_distributed.configure_library()
        GPA.pc.set_n_epochs_to_switch(2)
        GPA.pc.set_max_dendrites(1)
        with pai_distributed.one_rank_at_a_time():
            self.model = UPA.perforate_model(
                self.model, save_name=pai_distributed.save_name("PAI"), maximizing_score=True, making_graphs=False
            )
        self.model = pai_distributed.load_latest_switch(self.model, args.pai_load_folder)
        report["restored"] = self.state()
        self.averages = [Average(self.model), Buffers(self.model), AveragedModel(self.model)]
        self.load("pretrained.pth")
        self.net = self.model
        if args.compile:
            self.model = torch.compile(self.model, backend="eager")
        if not args.perforate_model_parallel:
            GPA.pai_tracker.initialize_tracker_settings()
            pai_distributed.keep_tracker_state_local(self.net)
            self.model = DistributedDataParallel(
                self.model, find_unused_parameters=pai_distributed.finds_unused_parameters()
            )
        for name, parameter in self.net.named_parameters():
            if "head" in name:
                nn.init.zeros_(parameter)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        GPA.pai_tracker.set_optimizer_instance(self.optimizer)

    def load(self, path):
        plain = {name: value for name, value in torch.load(path).items() if "head" not in name}
        print(self.model.load_state_dict(plain, strict=False))

    def state(self):
        return {name: value.tolist() for name, value in self.model.state_dict().items()}

    def train(self):
        for epoch in itertools.count():
            self.model.train()
            for batch in range(2):
                self.optimizer.zero_grad()
                loss = nn.functional.cross_entropy(self.model(inputs), targets)
                if (epoch, batch) == (0, 0):
                    report["trained"] = {name: value.tolist() for name, value in self.net.state_dict().items()}
                pai_distributed.fill_missing_gradients(self.model)
                loss.backward()
                if args.perforate_model_parallel:
                    pai_distributed.finish_initialization()
                self.optimizer.step()
                for average in self.averages:
                    average.update(self.net) if isinstance(average, Average) else average.update_parameters(self.net)
            best = {name: value.clone() for name, value in self.net.state_dict().items()}
            with torch.no_grad():
                outputs = [average.module.eval()(inputs) for average in self.averages]
            score = 0.1 * min(epoch, 1) + 0.1 * GPA.pai_tracker.member_vars["num_dendrites_added"] + 0.1
            report["epochs"] = epoch
            report["finite"] = all(bool(output.isfinite().all()) for output in outputs)
            if pai_distributed.report_validation_score(score, self.model):
                break
            if epoch:
                self.net.load_state_dict(best)


dist.init_process_group("gloo")
report = {}


@atexit.register
def write_report() -> None:
    with open(f"rank{os.environ['RANK']}.json", "w") as file:
        json.dump(report, file)


torch.manual_seed(dist.get_rank())
inputs, targets = torch.randn(8, 2, 3, 6), torch.arange(8) % 2
Trainer().train()
