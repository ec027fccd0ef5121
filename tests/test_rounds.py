"""What only the run can know is decided there: rewritten variants of one small script, trained by their launchers.

The library works as it does for users: by its own patience, three scores, where it is not the launcher that matters.
The scores are made up of the epoch and of the dendrites, so that a round ends where the test says.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import swapped
from tests.projects import apply, run, shown

pytestmark = pytest.mark.real

DDP = '''\
import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))


def validate(model, epoch):
    """A score that rises for three epochs, and with each set of dendrites."""
    model.eval()
    with torch.no_grad():
        assert model(torch.ones(2, 4)).shape == (2, 2)
    return min(epoch, 2) / 10 + len(list(model.parameters())) / 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, 8, sampler=sampler)
    model = DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best_acc = 0.0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        model.train()
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
        acc = validate(model, epoch)
        if acc > best_acc:
            best_acc = acc
            if dist.get_rank() == 0:
                torch.save(model.module.state_dict(), "best.pt")
        if dist.get_rank() == 0:
            rate = optimizer.param_groups[0]["lr"]
            print(f"epoch {epoch} lr {rate:.6f} acc {acc:.4f} order {list(sampler)[:4]} draw {torch.rand(1).item():.6f}")
    if dist.get_rank() == 0:
        print("after the loop")


if __name__ == "__main__":
    main()
'''
OPTIMIZER = "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
LOOP = "    for epoch in range(args.epochs):\n"
END = '    if dist.get_rank() == 0:\n        print("after the loop")\n'
SETTINGS = ("--settings", "n_epochs_to_switch=3", "--settings", "max_dendrites=1")


def train(
    folder: Path, text: str, *options: str, settings: tuple[str, ...] = SETTINGS, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Rewrite a script and train it by its launcher, on two processes."""
    script = folder / "train.py"
    script.write_text(text)
    apply(script, *settings, *options)
    return run(["bash", "train_distributed.sh"], folder, NUM_GPUS="2", **environment)


def rounds(result: subprocess.CompletedProcess[str]) -> list[list[str]]:
    """Return the lines of a complete training that its script has printed for each epoch, round by round."""
    assert result.returncode == 0, shown(result)
    assert "Training is complete" in result.stdout, shown(result)
    parts = re.split(r"train_distributed: Round \d+: ", result.stdout)[1:]
    return [re.findall(r"^epoch .*", part, re.MULTILINE) for part in parts]


def values(lines: list[str], name: str) -> list[str]:
    """Return what an epoch's lines say of something."""
    return [re.findall(rf"\b{name} (\[.*?\]|\S+)", line)[0] for line in lines]


# ---- how long a round is


def test_a_rate_that_ends_as_planned_ends_the_round(tmp_path: Path) -> None:
    cosine = "    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)\n"
    text = swapped(DDP, (OPTIMIZER, OPTIMIZER + cosine), ("        acc = v", "        scheduler.step()\n        acc = v"))
    found = rounds(train(tmp_path, text))
    assert [len(one) for one in found][:2] == [5, 5]
    assert {len(one) for one in found} == {5}


def test_a_rate_that_says_nothing_of_an_end_goes_on(tmp_path: Path) -> None:
    result = train(tmp_path, swapped(DDP, ("default=5", "default=3")))
    found = rounds(result)
    assert [len(one) for one in found] == [6, 6], "three scores that rise, and three that do not"
    assert result.stdout.count("The planned end of training is past") == len(found)


def test_history_goes_on_past_the_plan_at_the_last_good_rate(tmp_path: Path) -> None:
    decay = """\
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * (1 - epoch / args.epochs) ** 0.9
"""
    text = swapped(DDP, (LOOP, LOOP + decay), ("default=5", "default=4"))
    text = text.replace("{rate:.6f}", "{rate}")
    result = train(tmp_path, text, "--rounds", "history")
    for one in rounds(result):
        rates = [complex(rate) for rate in values(one, "lr")]
        assert len(rates) == 6
        assert all(rate.imag == 0 and rate.real > 0 for rate in rates[:4])
    assert result.stdout.count("and is kept at") == 2
    assert "past the planned end of training" in result.stdout


@pytest.mark.parametrize("leaves", ["break", "return"])
def test_the_scripts_own_end_is_the_rounds(leaves: str, tmp_path: Path) -> None:
    text = swapped(DDP, ("        if dist.get_rank() == 0:\n            rate", f"        STOP\n        if dist.get_rank() == 0:\n            rate"))
    text = text.replace("        STOP\n", f"        if epoch == 3:\n            {leaves}\n")
    result = train(tmp_path, text, settings=("--settings", "n_epochs_to_switch=9", "--settings", "max_dendrites=1"))
    found = rounds(result)
    assert len(found) > 1
    assert {len(one) for one in found} == {3}
    assert "The script has ended its training by itself" in result.stdout


# ---- what a round goes on with


def test_rounds_go_on_from_one_another(tmp_path: Path) -> None:
    text = swapped(DDP, ("{min(epoch, 2) / 10}", "")) if False else DDP
    text = text.replace("/ 1000", "/ -1000")  # dendrites make it worse
    text = swapped(text, ("    dist.init_process_group(", '    os.makedirs("run", exist_ok=True)\n    os.chdir("run")\n    dist.init_process_group('))
    result = train(tmp_path, text, settings=("--settings", "n_epochs_to_switch=3", "--settings", "max_dendrites=2"))
    found = rounds(result)
    assert len(found) > 2, "a dendrite is tried again"
    orders = [order for one in found for order in values(one, "order")]
    assert len(set(orders)) == len(orders)
    draws = [draw for one in found for draw in values(one, "draw")]
    assert len(set(draws)) == len(draws)
    assert result.stdout.count("after the loop") == 1
    assert not (tmp_path / "run" / "PAI_train").exists()
    best = max(float(acc) for one in found for acc in values(one, "acc"))
    holder = [number for number, one in enumerate(found) if any(float(a) == best for a in values(one, "acc"))]
    assert holder == [0]
