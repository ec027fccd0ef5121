"""A small DistributedDataParallel training for test_runtime.py, written as `retrofit apply` writes it.

Besides, the test gives it the scores, so that the library restructures when the test expects it, and can take
a cure of pai_distributed out (--without) to show what the cure is for. Without torchrun it is one process.
What became of it is in rank<N>.json.
"""
# mypy: ignore-errors

import argparse
import atexit
import contextlib
import itertools
import json
import os
import sys

import pai_distributed
import torch
import torch.distributed as dist
from perforatedai import globals_perforatedai as GPA
from perforatedai import utils_perforatedai as UPA
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Sequence(nn.Module):
    """Has a Linear with three output dimensions, which the library does not expect."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Linear(6, 4)
        self.norm = nn.BatchNorm1d(5)
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.norm(self.token(x))).mean(1))


class Flat(nn.Sequential):
    """Has nothing special."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


class Shared(nn.Module):
    """Has layers under several names, of which those in its Sequential are used; another name begins as one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 4)
        self.body = self.first
        self.body_norm = nn.BatchNorm1d(4)
        self.last = nn.Linear(4, 2)
        self.layers = nn.Sequential(self.first, nn.ReLU(), self.last)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.body_norm(self.layers[0](x))))


def take_out(cure: str) -> None:
    """Take a cure out of pai_distributed, so that the training does what it would do without it."""
    if cure == "rank 0 first":
        pai_distributed.report_validation_score = report_on_all_ranks_at_once
    elif cure == "records hidden":
        hide = pai_distributed.hidden._pai_hide
        put("_pai_hide", lambda model: (hide(model), show_records(model)))
    elif cure == "templates hidden":
        put("_pai_hide", lambda model: None)
    elif cure == "idle parts rest":
        put("_pai_rest", lambda model: None)
    elif cure == "learning rate search off":
        GPA.pc.set_find_best_lr = lambda value: None
    elif cure == "own device":
        GPA.pc.set_device = GPA.pc.set_use_cuda = lambda value: None
    elif cure == "output dimensions found":
        put("_pai_note_dimensions", lambda layer, output: None)
    elif cure == "almost zero":
        put("_pai_almost_zero", 0.0)
    elif cure == "layers shared":
        put("_pai_share_layers", lambda model: None)
    elif cure == "best model on every rank":
        complete = pai_distributed.score._pai_complete
        put("_pai_complete", lambda net, *, load_best: complete(net, load_best=False))
    else:
        raise ValueError(cure)


def show_records(model: nn.Module) -> None:
    """Let the library's records be a buffer again."""
    if "tracker_string" in vars(model):
        model.register_buffer("tracker_string", vars(model).pop("tracker_string"))


def put(name: str, value: object) -> None:
    """Put another thing under a name of the helper's, in all its files."""
    for module, names in list(sys.modules.items()):
        if module.startswith("pai_distributed.") and hasattr(names, name):
            setattr(names, name, value)


def report_on_all_ranks_at_once(score: float, model: nn.Module, *, leave: bool) -> bool:
    """Hand the score over as the published recipe does."""
    net = pai_distributed.wrapping._pai_unwrap(model)
    with pai_distributed.hidden._pai_library_at_work(net):
        _, restructured, complete = GPA.pai_tracker.add_validation_score(score, net)
    if restructured or complete:
        pai_distributed.process._pai_leave(0, model)
    return False


def let_rank_1_go_ahead() -> None:
    """Let rank 0 hand its score over only when rank 1 is as far as it can get: the race at its worst."""
    store = dist.distributed_c10d._get_default_store()
    add, broadcast = GPA.pai_tracker.add_validation_score, dist.broadcast

    def add_in_this_order(*arguments: object) -> object:
        if dist.get_rank() == 0:
            store.wait(["rank 1 is as far as it can get"])
            return add(*arguments)
        try:
            return add(*arguments)
        finally:
            store.set("rank 1 is as far as it can get", "")

    def broadcast_and_tell(*arguments: object) -> object:
        if dist.get_rank() == 1:
            store.set("rank 1 is as far as it can get", "")
        return broadcast(*arguments)

    GPA.pai_tracker.add_validation_score, dist.broadcast = add_in_this_order, broadcast_and_tell


parser = argparse.ArgumentParser()
parser.add_argument("--perforate_model_parallel", action="store_true")
parser.add_argument("--pai_load_folder")
parser.add_argument("--model", default="Flat")
parser.add_argument("--output-dimensions", type=json.loads)
parser.add_argument("--scores", default="0.1,0.2", help="of the epochs, the last again and again")
parser.add_argument("--max-dendrites", type=int, default=2)
parser.add_argument("--epochs", type=int, default=10, help="leave with status 9 after so many")
parser.add_argument("--stay", action="store_true", help="go on after the epoch loop")
parser.add_argument("--validate-on-rank-0", action="store_true")
parser.add_argument("--spread", type=float, default=0, help="how far rank 1 is above, and rank 0 below, the score")
parser.add_argument("--extra-score-on-rank-0", action="store_true")
parser.add_argument("--rank-1-ahead", action="store_true")
parser.add_argument("--without", metavar="CURE")
args = parser.parse_args()
if args.without:
    take_out(args.without)

distributed = "RANK" in os.environ
if distributed:
    dist.init_process_group("gloo")
rank = dist.get_rank() if distributed else 0
report = {"phase": "start"}


@atexit.register
def write_report() -> None:
    with open(f"rank{rank}.json", "w") as file:
        json.dump(report, file)


torch.manual_seed(rank)
inputs = torch.randn(8, 5, 6) if args.model == "Sequence" else torch.randn(8, 6)
targets = torch.arange(8) % 2
torch.manual_seed(0)
model = {"Sequence": Sequence, "Flat": Flat, "Shared": Shared}[args.model]()

report["parameters"] = {"original": sum(parameter.numel() for parameter in model.parameters())}
pai_distributed.configure_library()
GPA.pc.set_n_epochs_to_switch(3)
GPA.pc.set_max_dendrites(args.max_dendrites)
with pai_distributed.one_rank_at_a_time():
    model = UPA.perforate_model(
        model, save_name=pai_distributed.save_name("PAI"), maximizing_score=True, making_graphs=False
    )
model = pai_distributed.load_latest_switch(model, args.pai_load_folder, args.output_dimensions)
report["parameters"]["counted"] = sum(parameter.numel() for parameter in model.parameters())
with pai_distributed.hidden._pai_library_at_work(model):
    report["loaded"] = {name: value.tolist() for name, value in model.state_dict().items()}
GPA.pai_tracker.set_optimizer(torch.optim.Adam)
GPA.pai_tracker.set_scheduler(torch.optim.lr_scheduler.StepLR)
optimizer, scheduler = GPA.pai_tracker.setup_optimizer(
    model, {"params": model.parameters(), "lr": 0.01}, {"step_size": 2, "gamma": 0.5}
)
if not args.perforate_model_parallel:
    GPA.pai_tracker.initialize_tracker_settings()
    pai_distributed.keep_tracker_state_local(model)
    if distributed:
        model = DistributedDataParallel(model, find_unused_parameters=pai_distributed.finds_unused_parameters())
        report["searches"] = model.find_unused_parameters
else:
    model = pai_distributed.without_wrapper(model)
if args.rank_1_ahead:
    let_rank_1_go_ahead()

scores = [float(score) for score in args.scores.split(",")]
try:
    for epoch in itertools.count():
        if epoch == args.epochs:
            sys.exit(9)
        model.train()
        for start in (0, 4):
            with model.no_sync() if args.perforate_model_parallel else contextlib.nullcontext():
                optimizer.zero_grad()
                batch = slice(start, start + 4)
                loss = nn.functional.cross_entropy(model(inputs[batch]), targets[batch])
                pai_distributed.fill_missing_gradients(model)
                loss.backward()
                if args.perforate_model_parallel:
                    pai_distributed.finish_initialization()
                report["idle"] = [name for name, parameter in model.named_parameters() if parameter.grad is None]
                optimizer.step()
        model.eval()
        score = scores[min(epoch, len(scores) - 1)] + 0.1 * GPA.pai_tracker.member_vars["num_dendrites_added"]
        if args.extra_score_on_rank_0 and rank == 0:
            GPA.pai_tracker.add_extra_score(0.5, "so that the records differ in length")
        mine = None if args.validate_on_rank_0 and rank != 0 else score + (args.spread if rank else -args.spread)
        if pai_distributed.report_validation_score(mine, model, leave=not args.stay):
            break
    report["phase"] = "after the loop"
finally:
    report["epochs"] = epoch
    report["scores"] = GPA.pai_tracker.member_vars["accuracies"]
    report["rate"] = optimizer.param_groups[0]["lr"]
    report["dendrites"] = GPA.pai_tracker.member_vars["num_dendrites_added"]

net = model.module if distributed else model
report["state"] = {name: value.tolist() for name, value in net.state_dict().items()}
