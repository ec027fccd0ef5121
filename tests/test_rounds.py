"""What only the run can know is decided there: rewritten variants of one small script, trained by their launchers.

The library works as it does for users: by its own patience, three scores, where it is not the launcher that matters.
The scores are made up of the epoch and of the dendrites, so that a round ends where the test says.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from click.testing import CliRunner

from retrofit.cli import main
from tests.conftest import swapped
from tests.forked import training_python
from tests.launching import runs, until
from tests.projects import apply, files_below, run, shown

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
            rate, order, draw = optimizer.param_groups[0]["lr"], list(sampler)[:4], torch.rand(1).item()
            print(f"epoch {epoch} lr {rate} acc {acc:.4f} order {order} draw {draw:.6f}")
    if dist.get_rank() == 0:
        print("after the loop")


if __name__ == "__main__":
    main()
'''
OPTIMIZER = "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
LOOP = "    for epoch in range(args.epochs):\n"
PRINTED = 'draw {draw:.6f}")\n'
END = '    if dist.get_rank() == 0:\n        print("after the loop")\n'
SETTINGS = ("--settings", "n_epochs_to_switch=3", "--settings", "max_dendrites=1")


def train(
    folder: Path, text: str, *options: str, settings: tuple[str, ...] = SETTINGS, python: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Rewrite a script and train it by its launcher, on two processes."""
    script = folder / "train.py"
    script.write_text(text)
    apply(script, *settings, *options)
    environment = {"NUM_GPUS": "2", "PYTHON": python or training_python(), "UNDRAWN_GRAPHS": "1", **environment}
    return run(["bash", "train_distributed.sh"], folder, **environment)


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
    text = swapped(
        DDP, (OPTIMIZER, OPTIMIZER + cosine), ("        acc = v", "        scheduler.step()\n        acc = v")
    )
    found = rounds(train(tmp_path, text))
    assert [len(one) for one in found][:2] == [5, 5]
    assert {len(one) for one in found} == {5}


def test_a_planned_end_is_that_of_the_loop_where_its_last_turn_brings_several_scores(tmp_path: Path) -> None:
    """A script of one epoch, whose rate moves with each step, validates at the second and last of its four steps."""
    cosine = "    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4 * args.epochs)\n"
    head, _, rest = DDP.partition("        for inputs, labels in loader:\n")
    body, _, last = rest.partition("        acc = validate")
    validation, _, end = ("        acc = validate" + last).partition(END)
    text = f"{head}        for step, (inputs, labels) in enumerate(loader):\n{body}            scheduler.step()\n"
    text += f"            if step % 2:\n{indent(validation, 8 * ' ')}{END}{end}"
    text = swapped(
        text,
        (OPTIMIZER, OPTIMIZER + cosine),
        ("default=5", "default=1"),
        ("validate(model, epoch)\n  ", "validate(model, step)\n  "),
    )
    result = train(tmp_path, text)
    assert [len(one) for one in rounds(result)][:2] == [2, 2]


def test_a_rate_that_has_faded_waits_for_no_end(tmp_path: Path) -> None:
    """One that falls by a factor each epoch, towards an end so far away that nobody waits for it."""
    decay = "    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.3)\n"
    text = swapped(
        DDP, (OPTIMIZER, OPTIMIZER + decay), ("        acc = v", "        scheduler.step()\n        acc = v")
    )
    found = rounds(train(tmp_path, swapped(text, ("default=5", "default=10000"))))
    assert [len(one) for one in found] == [6, 6], "0.3 ** 5 is below a hundredth"


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
    result = train(tmp_path, text, "--rounds", "history")
    for one in rounds(result):
        rates = [complex(rate) for rate in values(one, "lr")]
        assert len(rates) == 6
        assert all(rate.imag == 0 and rate.real > 0 for rate in rates[:4])
    assert result.stdout.count("and is kept at") == 2
    assert "past the planned end of training" in result.stdout


def test_a_score_that_comes_at_the_planned_end_alone_ends_the_round(tmp_path: Path) -> None:
    late = f"        if epoch != args.epochs - 1:\n            continue\n{' ' * 8}acc = validate"
    result = train(tmp_path, swapped(DDP, ("        acc = validate", late), ("default=5", "default=3")))
    assert [len(one) for one in rounds(result)] == [1, 1]
    assert "The planned end of training is past" not in result.stdout


def test_a_score_that_comes_no_more_ends_the_round(tmp_path: Path) -> None:
    early = f"        if not 0 < epoch < 3:\n            continue\n{' ' * 8}acc = validate"
    result = train(tmp_path, swapped(DDP, ("        acc = validate", early)))
    assert [len(one) for one in rounds(result)] == [2, 2]
    assert "No validation score has come for 5 turns of the training loop" in result.stdout


@pytest.mark.parametrize(
    ("turn", "error"),
    [
        ("        weight = weights[epoch]\n", "IndexError"),
        (
            "        if epoch < args.epochs:\n            weight = 1.0\n        print(weight)\n        del weight\n",
            "Unbound",
        ),
        ("        weight = (None if epoch >= args.epochs else model).training\n", "AttributeError"),
    ],
    ids=["a list", "a branch", "an attribute"],
)
def test_a_script_that_cannot_go_on_past_its_plan_ends_its_rounds_there(turn: str, error: str, tmp_path: Path) -> None:
    """Its data, a list of rates or a table of epochs ends with what it has planned."""
    planned = "    weights = [1.0] * args.epochs\n"
    text = swapped(DDP, (LOOP, f"{planned}{LOOP}{turn}"), ("default=5", "default=2"))
    result = train(tmp_path, text)
    assert [len(one) for one in rounds(result)] == [2, 2]
    assert re.search(rf"train\.py:\d+: the script cannot go on past its planned end \({error}", result.stdout)
    assert result.stdout.count("The planned end of training is reached") == 1, "in the second round"


def test_a_structure_is_trained_through_all_stages(tmp_path: Path) -> None:
    """A loop around the epoch loop trains the model further: with the first round's end the process went on in it."""
    head, _, rest = DDP.partition(LOOP)
    body, _, after = rest.partition(END)
    text = (
        f"{head}    for stage in range(2):\n{indent(LOOP + body, 4 * ' ')}"
        f"        if dist.get_rank() == 0:\n            print('stage', stage)\n{END}{after}"
    )
    result = train(tmp_path, swapped(text, ("default=5", "default=3")))
    assert [values(one, "epoch") for one in rounds(result)] == [[*"012012"], [*"012012"]]
    assert result.stdout.count("The planned end of training is reached") == 2
    assert result.stdout.count("after the loop") == 1


@pytest.mark.parametrize("leaves", ["break", "return"])
def test_the_scripts_own_end_is_the_rounds(leaves: str, tmp_path: Path) -> None:
    text = swapped(DDP, (PRINTED, f"{PRINTED}        if epoch == 2:\n            {leaves}\n"))
    result = train(tmp_path, text, settings=("--settings", "n_epochs_to_switch=9", "--settings", "max_dendrites=1"))
    assert [len(one) for one in rounds(result)] == [3, 3]
    assert "The script has ended its training by itself" in result.stdout


@pytest.mark.parametrize("leaves", ["break", "exit()"])
def test_a_signal_that_ends_the_loop_is_no_end_of_the_round(leaves: str, tmp_path: Path) -> None:
    begun = (
        "import signal\n\nstopped = False\n\n\ndef stop(number, frame):\n    global stopped\n    stopped = True\n\n\n"
    )
    ended = f"""\
        if epoch == 1 and "SIGNALLED" in os.environ:
            os.kill(os.getpid(), signal.SIGUSR1)
        if stopped:
            {leaves}
"""
    handled = "    signal.signal(signal.SIGUSR1, stop)\n    parser = argparse.ArgumentParser()\n"
    text = swapped(DDP, ("    parser = argparse.ArgumentParser()\n", handled), (PRINTED, PRINTED + ended))
    result = train(tmp_path, begun + text, REHEARSE="0", SIGNALLED="1")
    assert result.returncode != 0, shown(result)
    assert "a signal has interrupted the training, and this round has not come to its end" in shown(result)
    assert not list((tmp_path / "PAI_train").glob("switch_*"))
    again = run(["bash", "train_distributed.sh"], tmp_path, NUM_GPUS="2", PYTHON=training_python(), UNDRAWN_GRAPHS="1")
    assert values(rounds(again)[0], "epoch")[:3] == ["0", "1", "2"]


@pytest.mark.parametrize("rehearse", ["0", "1"])
def test_a_script_that_ends_by_itself_before_its_first_score_is_told(rehearse: str, tmp_path: Path) -> None:
    measured = "        acc = validate(model, epoch)\n"
    text = swapped(DDP, (measured, f"        if os.path.exists(__file__):\n            return\n{measured}"))
    result = train(tmp_path, text, REHEARSE=rehearse)
    assert result.returncode == 1, shown(result)
    told = "The script has ended its training by itself, without a validation score in this round: train longer"
    assert told in result.stdout, shown(result)
    assert ("Round 1" in result.stdout) == (rehearse == "0"), "the rehearsal tells it first"


# ---- what a round goes on with


def test_rounds_go_on_from_one_another(tmp_path: Path) -> None:
    """Dendrites make the score worse, so that they are tried again; and the script works in a folder of its own."""
    import torch

    text = swapped(
        DDP,
        ("/ 1000", "/ -1000"),
        ("    dist.init_p", '    os.makedirs("run", exist_ok=True)\n    os.chdir("run")\n    dist.init_p'),
    )
    result = train(tmp_path, text)
    found = rounds(result)
    assert len(found) > 2, "no dendrite was tried again"
    for name in ("order", "draw"):
        seen = [value for one in found for value in values(one, name)]
        assert len(set(seen)) == len(seen), f"{name} repeats itself"
    assert result.stdout.count("after the loop") == 1
    assert (tmp_path / "run" / "PAI_train").resolve() == tmp_path / "PAI_train"
    best = torch.load(tmp_path / "run" / "best.pt")
    assert not any(".layers.0." in name for name in best), "the best checkpoint is not of the best round"
    assert not list((tmp_path / "PAI_train").glob("beside*")), "nothing is trained beside the model"


def test_the_best_of_all_rounds_is_there_whatever_it_is_compared_by(tmp_path: Path) -> None:
    """Dendrites make the score worse. The bests of a dict begin anew in each round."""
    import torch

    taken = """\
        if acc > max(bests.values(), default=-1):
            bests[epoch] = acc
            if dist.get_rank() == 0:
                torch.save(model.module.state_dict(), "last.pt")
                shutil.copyfile("last.pt", "best.pt")
"""
    before, _, after = DDP.partition("        if acc > best_acc:\n")
    text = before + taken + after.partition('"best.pt")\n')[2]
    text = swapped(
        text, ("import os\n", "import os\nimport shutil\n"), ("best_acc = 0.0", "bests = {}"), ("/ 1000", "/ -1000")
    )
    result = train(tmp_path, text)
    assert len(rounds(result)) > 1
    assert "is set aside in PAI_train/files: the next one begins" in result.stdout
    assert "What an earlier round has saved (last.pt, ...) is back in its place" in result.stdout
    for name in ("last.pt", "best.pt"):
        assert not any(".layers.0." in part for part in torch.load(tmp_path / name)), name


BESIDE = "    beside = torch.zeros(1, requires_grad=True)\n"
TOGETHER = '    optimizer = torch.optim.SGD([{"params": model.parameters()}, {"params": [beside]}], lr=0.1)\n'


@pytest.mark.parametrize(
    ("built", "stepped", "late"),
    [
        (BESIDE + TOGETHER, "", ""),
        (f"{BESIDE}{OPTIMIZER}    other = torch.optim.SGD([beside], lr=0.1)\n", "            other.step()\n", ""),
        (f"{OPTIMIZER}    beside = None\n", "", f"if beside is None:\n{BESIDE}{TOGETHER}"),
    ],
    ids=["in a group", "with an optimizer of their own", "built in the first step"],
)
def test_parameters_beside_the_model_go_on(tmp_path: Path, built: str, stepped: str, late: str) -> None:
    zeroed = indent(late, 12 * " ")
    zeroed += f"            optimizer.zero_grad()\n{stepped and '            other.zero_grad()'}\n"
    text = swapped(
        DDP,
        (OPTIMIZER, built),
        ("            optimizer.zero_grad()\n", zeroed),
        ("            optimizer.step()\n", f"            optimizer.step()\n{stepped}"),
        ("labels)\n            loss.b", "labels) + beside.sum()\n            loss.b"),
        (PRINTED, 'draw {draw:.6f} beside {beside.item():.3f}")\n'),
    )
    told = '    print(f"rank {dist.get_rank()} ends {beside.item()}\\n", end="", flush=True)\n'  # in one piece
    result = train(tmp_path, swapped(text, (END, END + told)))
    lines = [values(lines, "beside") for lines in rounds(result)]
    steps = [-float(value) / 0.1 for one in lines for value in one]
    each = steps[0]
    assert [len(one) for one in lines] == [6, 6]
    # The best score of each round is its third, and the library goes back to it.
    assert steps == pytest.approx([each * count for count in (1, 2, 3, 4, 5, 6, 4, 5, 6, 7, 8, 9)], abs=0.1)
    ends = dict(re.findall(r"^rank (\d) ends (\S+)$", result.stdout, re.MULTILINE))
    assert {rank: round(float(value), 3) for rank, value in ends.items()} == dict.fromkeys("01", float(lines[1][2]))


def test_what_a_pass_has_left_in_the_model_is_as_it_was_at_the_best_score(tmp_path: Path) -> None:
    """As an adjacency or the weights of an attention, which no state dict has: it was of the last epoch's pass."""
    left = "[round(float(one), 4) for one in model.module.seen[0].sum(0)]"
    text = swapped(
        DDP,
        ("        return self.last(torch", "        self.seen = [self.first(x)]\n        return self.last(torch"),
        (PRINTED, f'draw {{draw:.6f}} left {{{left}}}")\n'),
        (END, f'    print(f"rank {{dist.get_rank()}} ends {{{left}}}\\n", end="", flush=True)\n'),
    )
    result = train(tmp_path, text, "--model", "model")
    *_, last = ([json.loads(one) for one in values(lines, "left")] for lines in rounds(result))
    ends = dict(re.findall(r"^rank (\d) ends (.+)$", result.stdout, re.MULTILINE))
    assert {rank: json.loads(one) for rank, one in ends.items()} == dict.fromkeys("01", last[2])
    assert last[2] not in last[3:]


@pytest.mark.parametrize("times", [1, 2], ids=["the same", "its own"])
def test_what_each_rank_trains_for_itself_goes_on_as_its_own(tmp_path: Path, times: int) -> None:
    """As a decoder for the data of each rank, which no wrapper keeps equal: all had rank 0's from the second round."""
    told = 'print(f"rank {dist.get_rank()} has {beside.item():.3f}\\n", end="", flush=True)\n'  # in one piece
    text = swapped(
        DDP,
        (OPTIMIZER, BESIDE + TOGETHER),
        ("labels)\n            loss.b", f"labels) + beside.sum() * {times} ** dist.get_rank()\n            loss.b"),
        ("        acc = v", f"        {told}        acc = v"),
        (END, f"{END}    {told}"),
    )
    result = train(tmp_path, text)
    assert len(rounds(result)) == 2
    _, *parts = re.split(r"train_distributed: Round \d+: ", result.stdout)
    for part in parts:
        first, second = ([*map(float, re.findall(rf"rank {one} has (-?\d+\.\d+)", part))] for one in "01")
        assert len(first) >= 6
        assert second == pytest.approx([value * times for value in first], abs=0.002)
    names = [one.name for one in tmp_path.glob("PAI_train/beside*_rank*.pt")]
    assert sorted(names) == ([] if times == 1 else ["beside_0_rank1.pt", "beside_2_rank1.pt", "beside_best_rank1.pt"])


def test_one_of_two_models_that_a_function_wraps_grows(tmp_path: Path) -> None:
    helper = "def place(net):\n    net = DistributedDataParallel(net)\n    return net\n\n\ndef main():\n"
    built = "    model = Net()\n    head = nn.Linear(2, 2)\n    model = place(model)\n    head = place(head)\n"
    text = swapped(
        DDP,
        ("def main():\n", helper),
        ("    model = DistributedDataParallel(Net())\n", built),
        ("SGD(model.parameters()", "SGD([*model.parameters(), *head.parameters()]"),
        ("cross_entropy(model(inputs)", "cross_entropy(head(model(inputs))"),
        (PRINTED, 'draw {draw:.6f} layers {len(list(model.modules()))} {len(list(head.modules()))}")\n'),
    )
    lines = rounds(train(tmp_path, text, "--model", "model"))
    layers = [set(re.findall(r"layers (\d+) (\d+)", "\n".join(one))) for one in lines]
    assert [len(one) for one in layers] == [1, 1]
    ((grown, head),) = layers[1] - layers[0]
    assert (int(grown) > 5, head) == (True, "2")


NETWORK = """\
    other = DistributedDataParallel(nn.Sequential(nn.BatchNorm1d(4, affine=False), nn.Linear(4, 2)))
    optimizer = torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.1)
"""
SUMS = "[round(float(one.double().sum()), 5) for one in other.state_dict().values()]"
LOADED = f"""\
import json
import pai_distributed, torch, train

other = torch.nn.Sequential(torch.nn.BatchNorm1d(4, affine=False), torch.nn.Linear(4, 2))
pai_distributed.load_final_model(train.Net(), "PAI_train", other)
print({SUMS}, other.training)
pai_distributed.load_final_model(train.Net(), "PAI_train", torch.nn.Linear(4, 3))
"""


def test_a_network_beside_the_model_is_as_it_was_at_the_best_score(tmp_path: Path) -> None:
    text = swapped(
        DDP,
        (OPTIMIZER, NETWORK),
        ("model(inputs), labels)\n            loss.b", "model(inputs) + other(inputs), labels)\n            loss.b"),
        (PRINTED, f'draw {{draw:.6f}} other {{{SUMS}}}")\n'),
        (END, f'{END}        print("ends", {SUMS})\n'),
    )
    result = train(tmp_path, text, "--model", "model")
    first, last = ([json.loads(sums) for sums in values(lines, "other")] for lines in rounds(result))
    assert (first[2][2], last[0][2]) == (12, 16), (
        "the count of batches of BatchNorm goes on from that of the best score"
    )
    best = values(rounds(result)[-1], "other")[2]
    assert f"ends {best}\n" in result.stdout
    assert "What is trained beside it is in " in result.stdout
    (tmp_path / "use.py").write_text(LOADED)
    use = run([training_python(), "use.py"], tmp_path)
    assert use.stdout.splitlines()[0] == f"{best} False"
    assert "ValueError: PAI_train/beside_best.pt has nothing that fits the Linear" in use.stdout


def resuming(text: str, load: str) -> str:
    """Return a script that resumes from its own newest checkpoint."""
    block = f"""\
    start_epoch = 0
    if os.path.exists("last.pt"):
        checkpoint = torch.load("last.pt")
        {load}
        optimizer.load_state_dict(checkpoint["optimizer"])
        start_epoch = checkpoint["epoch"] + 1
        print(f"resumed at {{start_epoch}}")
"""
    saved = """\
        if dist.get_rank() == 0:
            parts = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            torch.save(parts, "last.pt")
"""
    loop = LOOP.replace("range(args", "range(start_epoch, args")
    return swapped(text, (LOOP, block + loop), (PRINTED, PRINTED + saved))


LOADS = (
    'model.module.load_state_dict(checkpoint["model"])',
    'model.load_state_dict({"module." + name: value for name, value in checkpoint["model"].items()})',
    'model.module.load_state_dict(checkpoint["model"], strict=False)',
)


def test_no_round_resumes_from_the_one_before(tmp_path: Path) -> None:
    result = train(tmp_path, resuming(DDP, LOADS[0]))
    found = rounds(result)
    assert [len(one) for one in found] == [6, 6]
    assert [one[0].split()[1] for one in found] == ["0", "0"]
    assert "resumed at" not in result.stdout
    assert (tmp_path / "last.pt").is_file()
    assert not (tmp_path / "PAI_train" / "files").exists()


def test_a_first_round_that_was_stopped_past_its_plan_goes_on_from_there(tmp_path: Path) -> None:
    """Its script resumes at an epoch past the plan, and none was left: neither to initialise with, nor to train."""
    stop = '            torch.save(parts, "last.pt")\n'
    text = swapped(resuming(DDP, LOADS[0]), ("default=5", "default=2"))
    text = swapped(text, (stop, f'{stop}        if epoch == 3 and os.path.exists("stop"):\n            os._exit(7)\n'))
    (tmp_path / "stop").touch()
    assert train(tmp_path, text, REHEARSE="0").returncode != 0
    (tmp_path / "stop").unlink()
    result = run(["bash", "train_distributed.sh"], tmp_path, NUM_GPUS="2", PYTHON=training_python())
    found = [values(one, "epoch") for one in rounds(result)]
    assert found == [[*"45678"], [*"012345"]]
    assert "resumed at 4" not in result.stdout.partition("Round 2: ")[2], "its file is none of before the training"
    assert "Trained with 0 sets of dendrites for 8 epochs" in result.stdout, "three of them before the stop"


@pytest.mark.parametrize("load", LOADS, ids=["strict", "wrapped", "not-strict"])
def test_each_round_resumes_from_where_the_first_did(load: str, tmp_path: Path) -> None:
    """Its weights, however, are those of the newest structure."""
    import torch

    space: dict[str, Any] = {}
    exec(DDP.partition("def validate")[0], space)
    net = space["Net"]()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    parts = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 2}
    torch.save(parts, tmp_path / "last.pt")
    result = train(tmp_path, resuming(DDP, load))
    assert [one[0].split()[1] for one in rounds(result)] == ["3", "3"]
    assert result.stdout.count("resumed at 3") == 5, "the initialisation, which has one process, and two rounds"
    assert "The model keeps its weights: what the script loads is of another structure or round" in result.stdout
    assert "The optimizer goes on as in the first round" in result.stdout
    assert torch.load(tmp_path / "last.pt")["epoch"] > 2


@pytest.mark.parametrize("scheduled", ["before", "after"])
def test_a_rate_that_the_script_takes_from_its_own_checkpoint_does_no_harm(scheduled: str, tmp_path: Path) -> None:
    """It would fall from round to round."""
    schedule = "    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)\n"
    taken = """\
    if os.path.exists("last.pt"):
        rate = torch.load("last.pt")["rate"]
        for group in optimizer.param_groups:
            group["lr"] = rate
"""
    saved = """\
        if dist.get_rank() == 0:
            torch.save({"rate": scheduler.get_last_lr()[0]}, "last.pt")
"""
    begun = schedule + taken if scheduled == "before" else taken + schedule
    text = swapped(DDP, (LOOP, begun + LOOP), (PRINTED, f"{PRINTED}        scheduler.step()\n{saved}"))
    result = train(tmp_path, text, settings=(*SETTINGS[:3], "max_dendrites=2"))
    rates = [[round(float(rate), 6) for rate in values(one, "lr")[:3]] for one in rounds(result)]
    assert rates == [[0.1, 0.09, 0.081]] * 3


def test_a_schedule_of_the_scripts_own_class_begins_anew(tmp_path: Path) -> None:
    """What it says of its state it takes back in its own way."""
    own = """\
class Falling(torch.optim.lr_scheduler.ExponentialLR):
    def state_dict(self):
        return {"last_epoch": self.last_epoch}

    def load_state_dict(self, state_dict):
        self.__dict__.update(state_dict)

    def get_lr(self):
        return [rate * self.gamma**self.last_epoch for rate in self.base_lrs]


"""
    taken = """\
    scheduler = Falling(optimizer, 0.9)
    if os.path.exists("last.pt"):
        scheduler.load_state_dict(torch.load("last.pt"))
"""
    saved = """\
        scheduler.step()
        if dist.get_rank() == 0:
            torch.save(scheduler.state_dict(), "last.pt")
"""
    text = swapped(DDP, ("def validate(", f"{own}def validate("), (LOOP, taken + LOOP), (PRINTED, PRINTED + saved))
    result = train(tmp_path, text)
    rates = [[round(float(rate), 6) for rate in values(one, "lr")[:3]] for one in rounds(result)]
    assert rates == [[0.1, 0.09, 0.081]] * 2


EARLY_RESUME = """\
    start_epoch = 0
    if os.path.exists("last.pt"):
        checkpoint = torch.load("last.pt")
        net = Net()
        net.load_state_dict(checkpoint["model"])
        start_epoch = checkpoint["epoch"] + 1
    else:
        net = Net()
    model = DistributedDataParallel(net)
"""
SAVED = """\
        if dist.get_rank() == 0:
            torch.save({"model": model.module.state_dict(), "epoch": epoch}, "last.pt")
"""


@pytest.mark.parametrize("loop", ["range", "while"])
def test_a_resume_before_the_model_is_perforated_does_no_harm(loop: str, tmp_path: Path) -> None:
    """Its checkpoint has the library's names by then, and an epoch at which training would be over."""
    head, end = LOOP.replace("range(args", "range(start_epoch, args"), ""
    if loop == "while":
        head, end = "    epoch = start_epoch\n    while epoch < args.epochs:\n", "        epoch += 1\n"
    text = swapped(DDP, ("    model = DistributedDataParallel(Net())\n", EARLY_RESUME), (LOOP, head))
    result = train(tmp_path, swapped(text, (PRINTED, PRINTED + SAVED + end)))
    found = rounds(result)
    assert [len(one) for one in found] == ([6, 6] if loop == "range" else [5, 5])
    assert [one[0].split()[1] for one in found] == ["0", "0"]


def test_what_a_resume_reads_before_the_model_is_perforated_sets_no_rate(tmp_path: Path) -> None:
    """An optimizer of what is beside the model has as many parameters in each round, and would take them all back."""
    built = f"""\
{BESIDE}{OPTIMIZER}\
    other = torch.optim.SGD([beside], lr=0.1)
    if start_epoch:
        other.load_state_dict(checkpoint["other"])
    scheduler = torch.optim.lr_scheduler.ExponentialLR(other, 0.5, last_epoch=start_epoch - 1)
"""
    text = swapped(
        DDP,
        ("    model = DistributedDataParallel(Net())\n", EARLY_RESUME),
        (OPTIMIZER, built),
        ("            optimizer.step()\n", "            optimizer.step()\n            other.step()\n"),
        ("labels)\n            loss.b", "labels) + beside.sum()\n            loss.b"),
        ("rate, order", 'other_rate = other.param_groups[0]["lr"]\n            rate, order'),
        ("lr {rate}", "lr {other_rate}"),
        (LOOP, LOOP.replace("range(args", "range(start_epoch, args")),
        (PRINTED, PRINTED + SAVED.replace("(),", '(), "other": other.state_dict(),') + "        scheduler.step()\n"),
    )
    result = train(tmp_path, text, settings=(*SETTINGS[:3], "max_dendrites=2"))
    assert [values(one, "lr")[:3] for one in rounds(result)] == [["0.1", "0.05", "0.025"]] * 3


@pytest.mark.parametrize(
    ("stop", "epochs"),
    [
        pytest.param("start_epoch + args.epochs", 2, id="counted from it"),
        pytest.param("args.epochs + 1", 3, id="fixed"),
    ],
)
def test_epochs_that_begin_where_a_checkpoint_ends_are_as_many_in_each_round(
    stop: str, epochs: int, tmp_path: Path
) -> None:
    head = LOOP.replace("range(args.epochs", f"range(start_epoch, {stop}")
    text = swapped(DDP, ("    model = DistributedDataParallel(Net())\n", EARLY_RESUME), (LOOP, head))
    text = swapped(text, (PRINTED, PRINTED + SAVED), ("default=5", "default=2"))
    found = rounds(train(tmp_path, text, "--rounds", "planned"))
    assert [len(one) for one in found] == [epochs, epochs]
    assert [one[0].split()[1] for one in found] == ["0", "0"]


def test_what_is_drawn_without_a_seed_is_that_of_the_first_round(tmp_path: Path) -> None:
    """A split drawn anew would train on what validates. In their epochs rounds draw other numbers than one another."""
    drawn = "[torch.randperm(64)[:4].tolist(), random.random(), numpy.random.rand(), list(set('abcdefgh'))]"
    text = swapped(
        DDP,
        ("import os\n", "import os\nimport random\n\nimport numpy\n"),
        ("    torch.manual_seed(0)\n", ""),
        (OPTIMIZER, f'{OPTIMIZER}    print(f"rank {{dist.get_rank()}} drew {{{drawn}}}\\n", end="")\n'),
    )
    result = train(tmp_path, text)
    first, second = (values(one, "draw") for one in rounds(result))
    assert set(first).isdisjoint(second)
    for rank in (0, 1):
        (one,) = set(re.findall(rf"rank {rank} drew (.*)", result.stdout.partition("Round 1: ")[2]))
        assert result.stdout.count(one) == len(rounds(result))


def test_the_initialisation_replaces_no_checkpoint(tmp_path: Path) -> None:
    """A script may save what it has just loaded, to read it back. A file by that name may be of another model."""
    import torch

    exchange = """\
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "begin.pt")
    dist.barrier()
    model.module.load_state_dict(torch.load("begin.pt"))
"""
    script = tmp_path / "train.py"
    script.write_text(swapped(DDP, (OPTIMIZER, exchange + OPTIMIZER)))
    torch.save({"other.weight": torch.ones(3)}, tmp_path / "begin.pt")
    before = (tmp_path / "begin.pt").read_bytes()
    apply(script)
    torchrun = [training_python(), "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=1", "train.py"]
    started = run([*torchrun, "--perforate_model_parallel"], tmp_path)
    assert started.returncode == 0, shown(started)
    assert (tmp_path / "begin.pt").read_bytes() == before
    assert "begin.pt stays as it is" in started.stdout


def test_what_a_script_initialises_does_not_replace_the_weights_of_a_round(tmp_path: Path) -> None:
    """Each round begins with the weights that the one before has left, whatever the script sets or loads first."""
    begins = """\
    net = Net()
    if not os.path.exists("pretrained.pt"):  # in the initialisation, which is one process
        torch.save(net.state_dict(), "pretrained.pt")
    net.load_state_dict(torch.load("pretrained.pt"), strict=False)
    nn.init.constant_(net.last.weight, 0.5)
"""
    weight = "next(p for n, p in model.named_parameters() if 'last' in n and p.shape == (2, 8)).std().item()"
    text = swapped(
        DDP,
        ("    model = DistributedDataParallel(Net())\n", begins + "    model = DistributedDataParallel(net)\n"),
        ("        model.train()\n", f"        model.train()\n        begun = {weight}\n"),
        ("draw {draw:.6f}", "draw {draw:.6f} begun {begun:.6f}"),
    )
    first, *later = [values(one, "begun")[0] for one in rounds(train(tmp_path, text))]
    assert float(first) == 0
    assert later
    assert all(float(one) > 0 for one in later)


BIAS = "dict(model.module.named_parameters())['last.bias'].abs().sum().item()"


@pytest.mark.parametrize("called", ["model", "model.module.predict"], ids=["the wrapper", "a method"])
def test_what_a_script_initialises_behind_its_wrapper_does_not_either(called: str, tmp_path: Path) -> None:
    """The first batch of a round finds what the round before has learnt, also where the model itself is not called."""
    initialise = "def initialise(m):\n    if isinstance(m, nn.Linear):\n        nn.init.zeros_(m.bias)\n\n\n"
    method = called.rpartition(".")[2]
    text = swapped(
        DDP if method == "model" else DATA_PARALLEL.replace("def forward(", f"def {method}("),
        ("def validate(", f"{initialise}def validate("),
        ("    best_acc = 0.0\n", "    model.apply(initialise)\n    best_acc = 0.0\n"),
        ("        model.train()\n", "        model.train()\n        begun = None\n"),
        (
            "            loss.backward()\n",
            f"            begun = {BIAS} if begun is None else begun\n            loss.backward()\n",
        ),
        ("draw {draw:.6f}", "draw {draw:.6f} begun {begun:.6f}"),
    )
    result = train(tmp_path, re.sub(r"\bmodel\((?=inputs|torch)", f"{called}(", text))
    first, *later = [float(values(one, "begun")[0]) for one in rounds(result)]
    assert first == 0
    assert later
    assert all(later)
    assert "put back" in result.stdout


# ---- collective calls


@pytest.mark.parametrize("begins", ["        model.train()\n", ""], ids=["in training", "as validation leaves it"])
def test_rank_0_alone_may_validate_through_the_wrapper(tmp_path: Path, begins: str) -> None:
    """Also where it trains on in evaluation mode, as in a script that forgets to leave it."""
    text = swapped(
        DDP,
        (
            "        acc = validate(model, epoch)\n",
            "        acc = validate(model, epoch) if dist.get_rank() == 0 else 0.0\n",
        ),
        ("        model.train()\n", begins),
    )
    assert len(rounds(train(tmp_path, text))) == 2


def test_an_error_after_the_backward_pass_ends_no_initialisation(tmp_path: Path) -> None:
    """It waits for a layer that is not used, and comes to code that is for wrappers."""
    text = swapped(
        DDP,
        ("        self.last =", "        self.idle = nn.Linear(8, 2)\n        self.last ="),
        ("DataLoader(data, 8,", "DataLoader(data, 16,"),
        ("DistributedDataParallel(Net())", "DistributedDataParallel(Net(), find_unused_parameters=True)"),
    )
    result = train(tmp_path, text, REHEARSE="0")
    assert len(rounds(result)) == 2
    assert re.search(r"train.py:\d+: AttributeError: 'Net' object has no attribute 'module'", result.stdout)


def test_what_is_reduced_to_one_rank_is_known_to_all(tmp_path: Path) -> None:
    """On the others torch leaves in it what it likes, and the mean of the ranks counts."""
    reduced = """\
        parts = torch.tensor([acc * (1 + dist.get_rank())])
        dist.reduce(parts, dst=0, op=dist.ReduceOp.SUM)
        acc = parts.item()
        if dist.get_rank() == 1:
            print(f"rank 1 has {acc:.4f}")
"""
    text = swapped(
        DDP, ("        if acc > best_acc", f"{reduced}        if acc > best_acc"), ("default=5", "default=2")
    )
    result = train(tmp_path, text)
    rounds(result)
    here, there = (set(re.findall(rf"{words} (\d\.\d{{4}})", result.stdout)) for words in (r"\bacc", "rank 1 has"))
    assert here == there != set()


def test_a_rank_that_does_not_come_is_named(tmp_path: Path) -> None:
    text = swapped(
        DDP,
        (PRINTED, PRINTED + "        while epoch == 1 and dist.get_rank() == 1:\n            time.sleep(0.1)\n"),
        ("import os\n", "import os\nimport time\n"),
    )
    result = train(tmp_path, text, PAI_WAIT_SECONDS="3")
    assert result.returncode not in (0, None), shown(result)
    assert "After 3 s rank 1 has not come to hand over a score." in result.stdout
    assert re.search(r'File ".*train.py", line \d+ in main', result.stdout), shown(result)


@pytest.mark.parametrize("rank", [0, 1])
def test_what_one_rank_alone_hands_over_and_is_no_number_ends_all(tmp_path: Path, rank: int) -> None:
    made = f"        acc = torch.full((2,), one) if dist.get_rank() == {rank} else None\n"
    text = swapped(
        DDP,
        ("acc = validate(model, epoch)\n", f"one = validate(model, epoch)\n{made}"),
        ("if acc > best_acc:\n            best_acc = acc", "if one > best_acc:\n            best_acc = one"),
        ("{acc:.4f}", "{one:.4f}"),
    )
    result = train(tmp_path, text, "--metric", "acc", "--mode", "max", REHEARSE="0", PAI_WAIT_SECONDS="3")
    assert result.returncode not in (0, None), shown(result)
    assert "must be one number, but it is of type Tensor" in result.stdout, shown(result)
    assert not re.search("has not come|Connection closed|RuntimeError", result.stdout), shown(result)


@pytest.mark.parametrize(
    "begun",
    [
        'dist.init_process_group("gloo", rank=int(os.path.exists("second")), world_size=2)',
        'os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_PORT="23450")\n    dist.init_process_group("gloo")',
    ],
    ids=["by the rank given", "by the environment"],
)
def test_a_process_that_takes_itself_for_the_first_one_is_told(begun: str, tmp_path: Path) -> None:
    result = train(tmp_path, swapped(DDP, ('dist.init_process_group("gloo")', begun)), REHEARSE="0")
    assert result.returncode not in (0, None), shown(result)
    assert re.search(r"train.py:\d+: torchrun has started this process as rank 1, but the script gives", shown(result))


def test_an_early_stopping_of_rank_0_alone_ends_the_structure_on_all_ranks(tmp_path: Path) -> None:
    lone = "        if dist.get_rank() == 0 and epoch == 3:\n            break\n        dist.barrier()\n"
    found = rounds(train(tmp_path, swapped(DDP, (PRINTED, PRINTED + lone), ("default=5", "default=9"))))
    assert {len(one) for one in found} == {4}
    assert len(found) > 1


def test_a_rank_with_more_batches_than_the_others_is_named(tmp_path: Path) -> None:
    text = swapped(DDP, ("DataLoader(data, 8, ", "DataLoader(data, 8 if dist.get_rank() else 4, "))
    result = train(tmp_path, text, PAI_WAIT_SECONDS="3")
    assert result.returncode not in (0, None), shown(result)
    assert "After 3 s rank 0 has not come to hand over a score." in result.stdout
    assert "with equally many batches: one that has more waits for the others" in result.stdout
    assert re.search(r'File ".*train.py", line \d+ in main', result.stdout), shown(result)


# ---- layers


def test_layers_that_no_gradient_comes_through_are_left_without_dendrites(tmp_path: Path) -> None:
    text = swapped(
        DDP,
        (
            "        self.last = nn",
            "        self.spare = nn.Linear(8, 2)\n        self.wide = nn.Linear(8, 8)\n        self.last = nn",
        ),
        (
            "        return self.last(torch.relu(self.norm(self.first(x))))\n",
            "        x = self.wide(self.norm(self.first(x)).unsqueeze(1))\n"
            "        return self.last(torch.relu_(x).squeeze(1))\n",
        ),
        ("DistributedDataParallel(Net())", "DistributedDataParallel(Net(), find_unused_parameters=True)"),
    )
    result = train(tmp_path, text)
    assert len(rounds(result)) == 2
    (line,) = re.findall(r"No dendrites for (.*): no gradient came through them", result.stdout)
    assert set(line.split(", ")) == {".spare", ".wide"}


def test_an_output_that_the_loss_leaves_out_gives_its_layers_no_gradient(tmp_path: Path) -> None:
    """A wrapper that looks for unused parameters calls their hooks nevertheless, with None."""
    text = swapped(
        DDP,
        ("        self.last = nn", "        self.wide = nn.Linear(8, 8)\n        self.last = nn"),
        (
            "        return self.last(torch.relu(self.norm(self.first(x))))\n",
            "        x = torch.relu(self.norm(self.first(x)))\n        return self.last(x), self.last(self.wide(x))\n",
        ),
        ("model(torch.ones(2, 4)).shape", "model(torch.ones(2, 4))[0].shape"),
        ("cross_entropy(model(inputs), labels)", "cross_entropy(model(inputs)[0], labels)"),
        ("DistributedDataParallel(Net())", "DistributedDataParallel(Net(), find_unused_parameters=True)"),
    )
    assert len(rounds(train(tmp_path, text))) == 2


def test_layers_that_the_optimizer_leaves_out_by_their_names_get_no_dendrites(tmp_path: Path) -> None:
    """They have gradients: none was frozen. Each set of theirs was trained by nothing, and dropped as of no use."""
    named = 'SGD([p for name, p in model.named_parameters() if "last" in name], lr=0.1)'
    grown_parts = "sorted({n.split('.')[1] for n, _ in model.named_parameters() if 'dendrites' in n})"
    text = swapped(
        DDP,
        ("SGD(model.parameters(), lr=0.1)", named),
        (PRINTED, f'draw {{draw:.6f}} grown {{{grown_parts}}}")\n'),
    )
    result = train(tmp_path, text, "--model", "model")
    grown = [set(re.findall(r"grown (.*)", "\n".join(lines))) for lines in rounds(result)]
    assert grown == [{"[]"}, {"['last']"}]
    assert "No dendrites for .first: no optimizer has their parameters" in result.stdout


# ---- the optimizer


MOVED = [
    ("nn.Linear(4, 8)", "nn.Linear(4, 8, bias=False)"),  # a normalisation comes after it
    ("        model.train()\n", "        model.train()\n        before = [p.clone() for p in model.parameters()]\n"),
    (
        "        acc = v",
        "        moved = [(now - then).abs().sum().item() > 0 for now, then in zip(model.parameters(), before)]\n"
        "        acc = v",
    ),
    ("draw {draw:.6f}", "draw {draw:.6f} moved {sum(moved)} of {len(moved)}"),
]


def test_an_optimizer_that_is_built_anew_in_the_loop_trains_all(tmp_path: Path) -> None:
    """As where frozen layers are let train; also what has dendrites by then."""
    anew = "        if epoch == 2:\n            optimizer = torch.optim.SGD(model.parameters(), lr=0.05)\n"
    found = rounds(train(tmp_path, swapped(DDP, (LOOP, LOOP + anew), *MOVED)))
    assert [len(one) for one in found] == [6, 6]
    for one in found:
        assert values(one, "lr") == ["0.1"] * 2 + ["0.05"] * 4
        assert values(one, "moved") == values(one, "of")
    assert int(values(found[1], "of")[0]) > int(values(found[0], "of")[0])


def test_an_optimizer_that_is_built_before_the_model_trains_all(tmp_path: Path) -> None:
    """The layers are perforated and, in a later round, loaded after that, and keep their parameters."""
    built = """\
    body, head = Net(), nn.Linear(2, 2)
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
    model = nn.Sequential(body, head)
    model = DistributedDataParallel(model)
"""
    all_trains(tmp_path, swapped(DDP, ("    model = DistributedDataParallel(Net())\n", built), (OPTIMIZER, ""), *MOVED))


def test_an_optimizer_that_the_model_builds_trains_all(tmp_path: Path) -> None:
    """The library is told of it once there is a perforated model."""
    last = "        self.last = nn.Linear(8, 2)\n"
    own = f"{last}        self.sgd = torch.optim.SGD(self.parameters(), lr=0.1)\n"
    wrapped = "    model = DistributedDataParallel(Net())\n"
    built = f"    model = Net()\n    optimizer = model.sgd\n{wrapped.replace('Net()', 'model')}"
    all_trains(tmp_path, swapped(DDP, (last, own), (wrapped, built), (OPTIMIZER, ""), *MOVED))


CHOSEN = {
    "by class": """\
    weights, others = [], []
    for module in net.modules():
        if isinstance(module, nn.Linear):
            weights += module.parameters()
        elif isinstance(module, nn.BatchNorm1d):
            others += module.parameters()
        elif not isinstance(module, (Net, DistributedDataParallel)):
            raise ValueError(type(module))
""",
    "by name": """\
    weights, others = [], []
    for name, parameter in net.named_parameters():
        if name.endswith("weight"):
            weights.append(parameter)
        elif name.endswith("bias"):
            others.append(parameter)
        else:
            raise ValueError(name)
""",
    "by both": """\
    decay, rest = set(), set()
    for path, module in net.named_modules():
        for name, _ in module.named_parameters():
            full = f"{path}.{name}" if path else name
            if name.endswith("weight") and isinstance(module, nn.Linear):
                decay.add(full)
            elif name.endswith("bias") or isinstance(module, nn.BatchNorm1d):
                rest.add(full)
    known = dict(net.named_parameters())
    assert not known.keys() - (decay | rest)
    weights, others = [known[name] for name in sorted(decay)], [known[name] for name in sorted(rest)]
""",
    "by the wrapper's name": """\
    known = dict(net.named_parameters())
    prefix = "module." if isinstance(net, DistributedDataParallel) else ""
    weights = [known[f"{prefix}last.{name}"] for name, _ in net.module.last.named_parameters()]
    others = [known[name] for name in known if name.startswith((f"{prefix}first", f"{prefix}norm"))]
""",
}
GROUPED = '    return [{"params": weights}, {"params": others, "weight_decay": 0.0}]\n\n\n'
ALIKE = """\
        mine = torch.cat([p.detach().flatten() for p in model.parameters()])
        first = mine.clone()
        dist.broadcast(first, 0)
        apart = (first - mine).abs().max()
        dist.all_reduce(apart, op=dist.ReduceOp.MAX)
        assert apart.item() == 0
"""


@pytest.mark.parametrize("way", CHOSEN)
def test_parameters_that_a_script_chooses_and_must_all_know_train(tmp_path: Path, way: str) -> None:
    """It raises at a class or a name that it does not know. What it sees nothing of is trained, alike on all ranks."""
    chosen = OPTIMIZER.replace("model.parameters()", "groups_of(model)")
    groups = f"def groups_of(net):\n{CHOSEN[way]}{GROUPED}"
    text = swapped(DDP, ("def validate", f"{groups}def validate"), (OPTIMIZER, chosen), *MOVED)
    all_trains(tmp_path, swapped(text, ("        if acc > best_acc", f"{ALIKE}        if acc > best_acc")))


def all_trains(folder: Path, text: str) -> None:
    """Train, and see each parameter move in each epoch of two rounds, those of dendrites too."""
    found = rounds(train(folder, text))
    assert [len(one) for one in found] == [6, 6]
    for one in found:
        assert values(one, "moved") == values(one, "of")
    assert int(values(found[1], "of")[0]) > int(values(found[0], "of")[0])


def test_what_a_better_score_gives_is_there_when_training_is_complete(tmp_path: Path) -> None:
    """Also where the last round comes to no score better than those of the rounds before."""
    keeper = "class Keeper:\n    def __init__(self):\n        self.best = 0.0\n\n    def keep(self, acc, state):\n"
    keeper += "        if acc > self.best:\n            self.best, self.kept = acc, state\n\n\n"
    old = DDP[DDP.index("        if acc > best_acc:") : DDP.index("        if dist.get_rank() == 0:\n            rate")]
    text = swapped(
        DDP,
        ("def validate(", f"{keeper}def validate("),
        ("    best_acc = 0.0\n", "    keeper = Keeper()\n"),
        (old, "        keeper.keep(acc, model.module.state_dict())\n"),
        ("len(list(model.parameters())) / 1000", "1 / len(list(model.parameters()))"),
        ('print("after the loop")', 'torch.save(keeper.kept, "kept.pt")'),
    )
    result = train(tmp_path, text)
    assert len(rounds(result)) > 1
    assert "AttributeError" not in result.stdout
    assert (tmp_path / "kept.pt").exists()


def test_weights_that_are_tied_behind_the_wrapper_stay_tied(tmp_path: Path) -> None:
    ties = "self.two.weight = self.one.weight"
    text = swapped(
        DDP,
        (
            "        self.norm",
            f"        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)\n        {ties}\n        self.norm",
        ),
        ("self.first(x)", "self.two(self.one(self.first(x)))"),
        (OPTIMIZER, f"    {ties.replace('self', 'model.module')}\n{OPTIMIZER}"),
        (PRINTED, 'draw {draw:.6f} tied {model.module.two.weight is model.module.one.weight}")\n'),
    )
    first, second = rounds(train(tmp_path, text))
    assert set(values([*first, *second], "tied")) == {"True"}


def test_a_best_score_is_in_the_end_that_of_the_best_round(tmp_path: Path) -> None:
    """Each round begins its own, as the first one did."""
    tells = '    if dist.get_rank() == 0:\n        print(f"kept {best_acc:.4f}")\n'
    result = train(tmp_path, swapped(DDP, (END, tells)))
    found = rounds(result)
    best = max(float(score) for one in found for score in values(one, "acc"))
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("kept ")]
    assert len(found) > 1
    assert line == f"kept {best:.4f}"


def test_a_test_behind_the_training_loads_its_best_checkpoint_into_a_model_built_anew(tmp_path: Path) -> None:
    tested = """\
    if dist.get_rank() == 0:
        net = Net()
        net.load_state_dict(torch.load("best.pt"))
        print("tested", validate(net, 2))
"""
    result = train(tmp_path, swapped(DDP, (END, tested)))
    best = max(float(score) for one in rounds(result) for score in values(one, "acc"))
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("tested ")]
    assert f"{float(line.split()[1]):.4f}" == f"{best:.4f}"


# ---- ways to start


def test_the_early_stopping_of_a_round_begins_with_it(tmp_path: Path) -> None:
    """Though the script resumes it, and all else, from the checkpoint of the round before."""
    resumed = """\
    start, patience = 0, {"best": -1.0, "bad": 0}
    if os.path.exists("last.pt"):
        state = torch.load("last.pt")
        model.module.load_state_dict(state["model"])
        start, patience = state["epoch"] + 1, state["patience"]
    if patience["bad"] > 3:
        return
"""
    kept = """\
        patience["bad"] = 0 if acc > patience["best"] else patience["bad"] + 1
        patience["best"] = max(acc, patience["best"])
        if dist.get_rank() == 0:
            torch.save({"model": model.module.state_dict(), "epoch": epoch, "patience": patience}, "last.pt")
        dist.barrier()
"""
    stopped = f'{PRINTED}        if patience["bad"] > 3:\n            break\n'
    text = swapped(DDP, ("    best_acc = 0.0\n", f"    best_acc = 0.0\n{resumed}"), (PRINTED, stopped))
    text = swapped(text, ("        if acc > best_acc", f"{kept}        if acc > best_acc"))
    text = swapped(text, ("range(args.epochs)", "range(start, 100)"))
    found = rounds(train(tmp_path, text, settings=("--settings", "max_dendrites=1")))
    assert [len(one) for one in found] == [7, 7]


def test_an_output_folder_that_must_be_new_is_so_at_the_first_start(tmp_path: Path) -> None:
    new = """\
    if dist.get_rank() == 0:
        if os.path.exists("out"):
            raise RuntimeError("out is there already")
        os.mkdir("out")
    dist.barrier()
    assert os.path.isdir("out")
"""
    group = '    dist.init_process_group("gloo")\n'
    assert len(rounds(train(tmp_path, swapped(DDP, (group, group + new))))) == 2


def test_a_folder_that_the_initialisation_has_made_is_none_to_resume_from(tmp_path: Path) -> None:
    """Nothing is saved in it at first, and later what is of another structure, with the last epoch of a round."""
    built = """\
    there = os.path.isdir("out")
    dist.barrier()
    os.makedirs("out", exist_ok=True)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    start_epoch = 0
    if there:
        checkpoint = torch.load("out/last.pt")
        net.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        start_epoch = checkpoint["epoch"] + 1
    model = DistributedDataParallel(net)
"""
    saved = """\
        if dist.get_rank() == 0:
            parts = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            torch.save(parts, "out/last.pt")
"""
    text = swapped(DDP, ("    model = DistributedDataParallel(Net())\n", built), (OPTIMIZER, ""))
    text = swapped(text, (LOOP, LOOP.replace("range(args", "range(start_epoch, args")), (PRINTED, PRINTED + saved))
    found = rounds(train(tmp_path, text, settings=(*SETTINGS[:3], "max_dendrites=2")))
    assert [one[0].split()[1] for one in found] == ["0", "0", "0"]


SPAWNED = """\
    processes = []
    for rank in range(2):
        process = multiprocessing.Process(target=main, args=(rank, args))
        process.start()
        processes.append(process)
    for process in processes:
        process.join()
"""
TWO_GPUS = """\
import os

import torch

COUNT = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").count(",") + 1


def set_device(number):
    if number >= COUNT:
        raise RuntimeError("CUDA error: invalid device ordinal")


torch.cuda.set_device = set_device
"""


def in_processes(started: str) -> str:
    """Return a script that starts its two processes itself, each with a GPU of its own."""
    parsed = DDP[DDP.index("    parser = ") : DDP.index("    dist.init_process_group")]
    joined = "init_method='file://' + os.path.abspath(f'group{os.getppid()}'), rank=rank, world_size=2)"
    return swapped(
        swapped(DDP, (parsed, ""), ("def main():", "def main(rank, args):"), ("    main()\n", parsed + started)),
        (
            '    dist.init_process_group("gloo")',
            f'    torch.cuda.set_device(rank)\n    dist.init_process_group("gloo", {joined}',
        ),
        ("import os\n", "import multiprocessing\nimport os\n"),
        ("from torch import nn\n", "import two_gpus\nfrom torch import nn\n"),
    )


def cleaned_up(text: str) -> str:
    """Let each process of such a script end its process group at last, whatever its training comes to."""
    tried = "    try:\n        main(rank, args)\n    finally:\n        dist.destroy_process_group()\n"
    begun = 'if __name__ == "__main__":\n'
    text = text.replace("target=main", "target=run").replace("spawn(main", "spawn(run")
    return swapped(text, (begun, f"def run(rank, args):\n{tried}\n\n{begun}"))


@pytest.mark.parametrize(
    "started",
    [
        SPAWNED,
        "    torch.multiprocessing.start_processes(main, args=(args,), nprocs=2, start_method='fork')\n",
    ],
    ids=["Process", "start_processes"],
)
def test_processes_that_a_script_starts_train(started: str, tmp_path: Path) -> None:
    """They are two in the initialisation as well, where there is one GPU."""
    (tmp_path / "two_gpus.py").write_text(TWO_GPUS)
    result = train(tmp_path, in_processes(started))
    assert [len(one) for one in rounds(result)] == [6, 6]
    assert "Traceback" not in result.stdout


@pytest.mark.parametrize("kind", ["Queue", "SimpleQueue"])
def test_a_script_that_waits_for_results_of_its_processes_ends_with_them(kind: str, tmp_path: Path) -> None:
    (tmp_path / "two_gpus.py").write_text(TWO_GPUS)
    asked = "    print('results', sorted(args.results.get() for _ in processes))\n"
    text = in_processes(f"    args.results = multiprocessing.{kind}()\n{SPAWNED}{asked}")
    result = train(tmp_path, swapped(text, (END, f"{END}    args.results.put(rank)\n")))
    assert [len(one) for one in rounds(result)] == [6, 6]
    assert result.stdout.count("the processes that this waits for have left, so it does") == 2
    assert "results [0, 1]" in result.stdout


@pytest.mark.parametrize(
    "started",
    [
        SPAWNED,
        SPAWNED.replace("args=(rank, args)", "args=(rank, args), daemon=True").replace(
            "in processes:\n        process.join", "in processes[::-1]:\n        process.join"
        ),
        "    torch.multiprocessing.spawn(main, args=(args,), nprocs=2)\n",
        SPAWNED.replace("        process.join()", "        while process.is_alive():\n            pass"),
    ],
    ids=["Process", "daemons, the last one first", "torch", "looked at"],
)
def test_what_follows_the_processes_that_a_script_starts_runs_when_training_is_complete(
    started: str, tmp_path: Path
) -> None:
    """Those leave with status 0 for the next round too, and so would the code behind them take each for the last.

    What it starts before them, for something else, it goes on behind.
    """
    (tmp_path / "two_gpus.py").write_text(TWO_GPUS)
    other = "    other = multiprocessing.Process(target=print, args=('other',))\n    other.start()\n    other.join()\n"
    text = in_processes(
        f"{other}    print('before')\n{started}    print('behind')\n    os.rename('best.pt', 'tested.pt')\n"
    )
    result = train(tmp_path, text)
    assert [len(one) for one in rounds(result)] == [6, 6]
    assert [result.stdout.count(f"\n{said}\n") for said in ("before", "behind")] == [3, 1]
    assert result.stdout.count("the processes that this waits for have left, so it does") == 2
    assert (tmp_path / "tested.pt").exists()


@pytest.mark.parametrize(
    "started", [SPAWNED, "    torch.multiprocessing.spawn(main, args=(args,), nprocs=2)\n"], ids=["Process", "torch"]
)
@pytest.mark.parametrize("ended", [False, True], ids=["", "without a group"])
def test_processes_of_its_own_that_cannot_go_on_past_their_plan_end_the_rounds_there(
    started: str, ended: bool, tmp_path: Path
) -> None:
    """No error of a process that was started so comes to `sys.excepthook`."""
    (tmp_path / "two_gpus.py").write_text(TWO_GPUS)
    planned = "    weights = [1.0] * args.epochs\n"
    text = swapped(in_processes(started), (LOOP, f"{planned}{LOOP}        weight = weights[epoch]\n"))
    if ended:
        text = cleaned_up(text)
    result = train(tmp_path, swapped(text, ("default=5", "default=2")))
    assert [len(one) for one in rounds(result)] == [2, 2]
    assert re.search(r"train\.py:\d+: the script cannot go on past its planned end \(IndexError", result.stdout)
    assert result.stdout.count("fails while it leaves") == ended, "as it leaves the initialisation"


def test_a_script_that_insists_on_two_gpus_initialises_on_one(tmp_path: Path) -> None:
    (tmp_path / "two_gpus.py").write_text(TWO_GPUS + "torch.cuda.device_count = lambda: COUNT\n")
    number = "    number = torch.cuda.device_count()\n    assert number >= 2, 'two GPUs, please'\n"
    text = in_processes(number + "    torch.multiprocessing.spawn(main, args=(args,), nprocs=number)\n")
    result = train(tmp_path, text)
    assert [len(one) for one in rounds(result)] == [6, 6]
    assert "two GPUs" not in result.stdout


def test_a_script_whose_option_tells_the_number_of_processes_initialises_with_one(tmp_path: Path) -> None:
    """It starts as many as it is told, and says so where they meet, counts the GPUs and makes groups of them."""
    (tmp_path / "two_gpus.py").write_text(TWO_GPUS + "torch.cuda.device_count = lambda: COUNT\n")
    text = in_processes("    torch.multiprocessing.spawn(main, args=(args,), nprocs=args.number)\n")
    met = "    dist.new_group(list(range(args.number)))\n    if args.number > torch.cuda.device_count():\n"
    met += "        raise ValueError('more than there are')\n    assert dist.get_world_size() == args.number\n"
    joined = "rank=rank, world_size=args.number)\n"
    option = '    parser.add_argument("--number", type=int, default=2)\n'
    text = swapped(text, ("rank=rank, world_size=2)\n", joined + met), ("    args = p", f"{option}    args = p"))
    result = train(tmp_path, text)
    assert [len(one) for one in rounds(result)] == [6, 6]


def test_a_script_that_names_another_gpu_is_told_how_to_initialise(tmp_path: Path) -> None:
    """The only process of the initialisation run cannot leave it to others."""
    (tmp_path / "two_gpus.py").write_text(TWO_GPUS)
    text = swapped(DDP, ("from torch import nn\n", "import two_gpus\nfrom torch import nn\n"))
    text = swapped(text, ("    args = p", "    torch.cuda.set_device(1)\n    args = p"))
    result = train(tmp_path, text, INIT_GPUS="first")
    assert result.returncode not in (0, None), shown(result)
    told = r"if it names others \('invalid device ordinal'\), .* INIT_GPUS=all shows it all"
    assert re.search(told, result.stdout), shown(result)
    rehearsed = train(tmp_path, text, REHEARSE="only", INIT_GPUS="first")
    assert re.search(told, rehearsed.stdout), shown(rehearsed)
    again = ["bash", "train_distributed.sh"]  # whose default is all
    assert len(rounds(run(again, tmp_path, NUM_GPUS="2", PYTHON=training_python()))) == 2


def test_a_script_that_divides_its_batch_initialises_with_the_share_of_a_process(tmp_path: Path) -> None:
    shared = "32 // int(os.environ['WORLD_SIZE']) // dist.get_world_size()"
    full = "            if len(inputs) > 8:\n                raise torch.OutOfMemoryError('CUDA out of memory.')\n"
    zeroed = "            optimizer.zero_grad()\n"
    text = swapped(DDP, ("DataLoader(data, 8,", f"DataLoader(data, {shared},"), (zeroed, full + zeroed))
    result = train(tmp_path, text, REHEARSE="0")
    assert "Initialisation failed with status 1" in result.stdout, shown(result)
    assert "INIT_WORLD_SIZE=8 says that 8 train" in result.stdout
    again = ["bash", "train_distributed.sh"]
    found = run(again, tmp_path, NUM_GPUS="2", PYTHON=training_python(), REHEARSE="1")
    assert "INIT_WORLD_SIZE=2 holds from here on" in found.stdout, shown(found)
    assert len(rounds(found)) == 2


PARSED = "    args = parser.parse_args()\n"
BEGUN = '    dist.init_process_group("gloo")\n'
SETUP = """\
def setup():
    if "WORLD_SIZE" in os.environ:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    else:
        rank, size = 0, 1
    if size > 1:
        dist.init_process_group("gloo")
    return rank, size


"""


def test_a_script_that_counts_on_several_processes_initialises_with_one(tmp_path: Path) -> None:
    """It begins a group, and wraps, only with several, and asks the group and the wrapper whatever there is."""
    wrapped, zeroed = "    model = DistributedDataParallel(Net())\n", "            optimizer.zero_grad()\n"
    text = swapped(
        DDP,
        (f"{PARSED}{BEGUN}", f"{PARSED}    rank, size = setup()\n"),
        ("def main():\n", f"{SETUP}def main():\n"),
        ("sampler = DistributedSampler(data)", "sampler = DistributedSampler(data, size, rank)"),
        (wrapped, "    model = Net()\n    if size > 1:\n        model = DistributedDataParallel(model)\n"),
        (zeroed, f"{zeroed}            assert dist.get_rank() == rank and model.module.training\n"),
    )
    assert len(rounds(train(tmp_path, text))) == 2


@pytest.mark.parametrize("begin", ["dist.init_process_group", "init_process_group"])
def test_a_script_that_asks_too_early_for_its_group_begins_it(begin: str, tmp_path: Path) -> None:
    asked = "    try:\n        print(dist.get_rank())\n    except ValueError:\n        print('no group')\n"
    text = swapped(DDP, (BEGUN, asked + BEGUN.replace("dist.init_process_group", begin)))
    text = f"from torch.distributed import init_process_group\n{text}"
    result = train(tmp_path, text, REHEARSE="0")
    assert len(rounds(result)) == 2
    assert result.stdout.count("no group") == 4


@pytest.mark.parametrize("spawned", [False, True])
def test_a_clean_up_that_fails_when_training_leaves_ends_nothing(spawned: bool, tmp_path: Path) -> None:
    """It does in the initialisation, and in each round but the last."""
    (tmp_path / "two_gpus.py").write_text(TWO_GPUS)
    started = "    torch.multiprocessing.spawn(main, args=(args,), nprocs=2)\n"
    text = in_processes(started) if spawned else DDP
    loop = text[text.index(LOOP) : text.index(END)]
    tried = "".join(f"    {line}" for line in loop.splitlines(keepends=True))
    whole = (
        f"    ended = None\n    try:\n{tried}        ended = epoch\n    finally:\n        print(f'ended {{ended:d}}')\n"
    )
    result = train(tmp_path, swapped(text, (loop, whole)))
    assert len(rounds(result)) == 2
    assert "failed with status" not in result.stdout
    assert "left with status" not in result.stdout
    failing = r"train.py:\d+: the script fails while it leaves \(TypeError: unsupported format string passed to None"
    assert len(re.findall(failing, result.stdout)) >= 3


def ending(text: str, end: str) -> str:
    """Let a script end its process group at last, whatever its training comes to."""
    tried = f"    try:\n        main()\n    finally:\n        {end}()\n"
    return swapped(text, ("    main()\n", "    run()\n"), ("if __name__", f"def run():\n{tried}\n\nif __name__"))


def test_what_fails_as_a_round_leaves_or_behind_the_training_is_no_end_of_a_plan(tmp_path: Path) -> None:
    """The end of the group is part of the clean-up, and meets its error."""
    text = swapped(DDP, ("default=5", "default=2"))
    loop = text[text.index(LOOP) : text.index(END)]
    tried = "".join(f"    {line}" for line in loop.splitlines(keepends=True))
    whole = f"    try:\n{tried}        final = epoch\n    finally:\n        print(final)\n    print(missing)\n"
    result = train(tmp_path, ending(swapped(text, (loop, whole)), "dist.destroy_process_group"))
    assert [len(one) for one in rounds(result)] == [6, 6]
    assert "cannot go on past its planned end" not in result.stdout
    assert "has initialised in" not in result.stdout


@pytest.mark.parametrize("end", ["dist.destroy_process_group", "destroy_process_group"])
def test_a_group_that_the_script_ends_at_an_error_is_there_to_end_the_structure(end: str, tmp_path: Path) -> None:
    text = swapped(DDP, (LOOP, f"    weights = [1.0] * args.epochs\n{LOOP}        weight = weights[epoch]\n"))
    text = f"from torch.distributed import destroy_process_group\n{swapped(text, ('default=5', 'default=2'))}"
    result = train(tmp_path, ending(text, end))
    assert [len(one) for one in rounds(result)] == [2, 2]
    assert "failed with status" not in result.stdout


@pytest.mark.parametrize("spawned", [True, False], ids=["spawn", "Process"])
def test_a_clean_up_without_a_group_does_not_fail_the_initialisation(spawned: bool, tmp_path: Path) -> None:
    """A process that leaves the initialisation to the first one has joined none."""
    (tmp_path / "two_gpus.py").write_text(TWO_GPUS)
    started = "    torch.multiprocessing.spawn(main, args=(args,), nprocs=2)\n" if spawned else SPAWNED
    result = train(tmp_path, cleaned_up(in_processes(started)))
    assert len(rounds(result)) == 2
    assert result.stdout.count("the script fails while it leaves (AssertionError: Process group cannot be None") == 1
    assert "Traceback" not in result.stdout


DATA_PARALLEL = swapped(
    DDP,
    ("import torch.distributed as dist\n", ""),
    ("from torch.nn.parallel import DistributedDataParallel\n", ""),
    ("from torch.utils.data.distributed import DistributedSampler\n", ""),
    ('    dist.init_process_group("gloo")\n', ""),
    ("    sampler = DistributedSampler(data)\n", ""),
    ("        sampler.set_epoch(epoch)\n", ""),
    ("sampler=sampler", "shuffle=True"),
    ("DistributedDataParallel(Net())", "nn.DataParallel(Net())"),
    ("list(sampler)[:4]", "torch.randperm(64)[:4].tolist()"),
).replace("if dist.get_rank() == 0:", "if True:")


def test_data_parallel_goes_on_by_restarts(tmp_path: Path) -> None:
    """After a restructuring the schedule begins anew, and the parameters move."""
    step = "    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)\n"
    measured = """\
        moved = sum((now - then).abs().sum().item() for now, then in zip(model.parameters(), before))
        scheduler.step()
"""
    text = swapped(
        DATA_PARALLEL,
        (OPTIMIZER, OPTIMIZER + step),
        ("        acc = v", measured + "        acc = v"),
        (
            "        model.train()\n",
            "        model.train()\n        before = [p.clone() for p in model.parameters()]\n",
        ),
        ("draw {draw:.6f}", "draw {draw:.6f} moved {moved}"),
    )
    found = rounds(train(tmp_path, text))
    assert [len(one) for one in found] == [6, 6]
    for one in found:
        rates = [float(rate) for rate in values(one, "lr")]
        assert rates[0] == 0.1
        assert rates[-1] < 0.01
        assert all(float(moved) > 0 for moved in values(one, "moved"))


def test_data_parallel_keeps_what_it_trains_beside_the_model(tmp_path: Path) -> None:
    """With no other rank to compare it with."""
    text = swapped(
        DATA_PARALLEL,
        (OPTIMIZER, BESIDE + TOGETHER),
        ("labels)\n            loss.b", "labels) + beside.sum()\n            loss.b"),
        (PRINTED, 'draw {draw:.6f} beside {beside.item():.3f}")\n'),
    )
    first, second = ([*map(float, values(one, "beside"))] for one in rounds(train(tmp_path, text)))
    assert second[0] < first[0]


def test_data_parallel_in_process_is_the_published_loop(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(DATA_PARALLEL)
    apply(script, *SETTINGS, "--in-process")
    assert not (tmp_path / "train_distributed.sh").exists()
    started = run([training_python(), "train.py", "--perforate_model_parallel"], tmp_path)
    assert started.returncode == 0, shown(started)
    trained = run([training_python(), "train.py"], tmp_path)
    assert trained.returncode == 0, shown(trained)
    assert "Training is complete" in trained.stdout
    assert (tmp_path / "PAI_train" / ".training_complete").exists()


# ---- the end


ENDED = 'print("after the loop")'
OUTPUTS = "model.module.eval()(torch.ones(2, 4)).tolist()"
DROPPED = ("/ 1000", "/ -1000")


def told(save: Path) -> str:
    """Return what `retrofit report` says of a training."""
    answer = CliRunner().invoke(main, ["report", str(save)])
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def loaded(project: Path, folder: Path) -> str:
    """Load the final model in a copy of a project, by the lines that are told; return what it makes of ones."""
    shutil.copytree(project, folder)
    before = files_below(folder)
    code = told(folder / "PAI_train").partition(f"To load it for inference, in {folder}:\n")[2]
    lines = [line.removeprefix("    ") for line in code.strip("\n").splitlines()]
    assert len([line for line in lines if line]) <= 5
    (folder / "use.py").write_text("\n".join([*lines, "import torch", f"print({OUTPUTS.replace('.module', '')})"]))
    used = run([training_python(), "use.py"], folder)
    assert used.returncode == 0, shown(used)
    (folder / "use.py").unlink()
    assert files_below(folder) == before
    return used.stdout.splitlines()[-1]  # one with --inline begins with what the library says when it is imported


@pytest.mark.parametrize(
    ("swaps", "options"), [([], ()), ([DROPPED], ()), ([], ("--inline",))], ids=["kept", "dropped", "inline"]
)
def test_the_end_is_told_and_its_lines_load_the_final_model(
    swaps: list[tuple[str, str]], options: tuple[str, ...], tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    result = train(project, swapped(DDP, (ENDED, f'print("outputs", {OUTPUTS})'), *swaps), *options)
    found = rounds(result)
    said = told(project / "PAI_train")
    assert result.stdout.count("[pai_distributed] Training is complete") == 1
    assert said in result.stdout
    assert f"{len(found)} rounds, {sum(map(len, found))} epochs" in said
    if swaps:
        assert "Dendrites did not pay: both tries were dropped" in said
        assert "74 parameters, 0 sets of dendrites, score 0.194." in said
        assert result.stdout.count("Trained with 1 set of dendrites for 6 epochs: best score 0.188: dropped") == 2
    else:
        assert "Dendrites paid: best score 0.212 with them, 0.206 without, for 68 more parameters (+92%)." in said
    (outputs,) = re.findall("^outputs (.*)$", result.stdout, re.MULTILINE)
    assert loaded(project, tmp_path / "copy") == outputs


def test_the_end_of_a_training_in_one_process_is_told(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    script = project / "train.py"
    script.write_text(swapped(DATA_PARALLEL, (ENDED, f'print("outputs", {OUTPUTS})'), DROPPED))
    apply(script, *SETTINGS, "--in-process")
    trained_by = "        kept.append(optimizer)  # those of earlier structures train nothing\n        model.train()\n"
    begun = "    best_acc = 0.0\n    kept = []\n"
    swaps = (("        model.train()\n", trained_by), ("    best_acc = 0.0\n", begun))
    script.write_text(swapped(script.read_text(), *swaps))
    assert run([training_python(), "train.py", "--perforate_model_parallel"], project).returncode == 0
    trained = run([training_python(), "train.py"], project)
    assert trained.returncode == 0, shown(trained)
    assert "Dendrites did not pay: both tries were dropped" in told(project / "PAI_train")
    assert "Training is complete: 1 round, " in trained.stdout
    assert "beside" not in trained.stdout
    (outputs,) = re.findall("^outputs (.*)$", trained.stdout, re.MULTILINE)
    assert loaded(project, tmp_path / "copy") == outputs


def test_a_training_that_was_stopped_tells_how_far_it_is(tmp_path: Path) -> None:
    """What it did not end begins anew, and is counted once.

    It stops at once, as where it is killed: its exit handlers would take that for the end that it has planned.
    """
    stop = PRINTED + '        if epoch == 1 and os.path.exists("stop"):\n            os._exit(7)\n'
    (tmp_path / "stop").touch()
    stopped = train(tmp_path, swapped(DDP, (PRINTED, stop)))
    assert stopped.returncode != 0
    assert told(tmp_path / "PAI_train").startswith("Training is not complete; so far: 1 round, 1 epoch, ")
    (tmp_path / "stop").unlink()
    result = run(["bash", "train_distributed.sh"], tmp_path, NUM_GPUS="2", PYTHON=training_python())
    assert len(rounds(result)) == 2
    assert "Training is complete: 2 rounds, 12 epochs, " in result.stdout


def test_the_library_says_once_what_it_would_say_in_each_process(tmp_path: Path) -> None:
    talks = f'{PRINTED}            print("Adding validation score", "[PAI Config] Saved 75 variables")\n'
    result = train(tmp_path, swapped(DDP, (PRINTED, talks)))
    count = sum(map(len, rounds(result)))
    for line in ("Building dendrites without", "[PAI Config] Saved"):
        assert len(re.findall(f"^{re.escape(line)}", result.stdout, re.MULTILINE)) == 1, line
    assert result.stdout.count("Adding validation score [PAI Config] Saved 75 variables\n") == count
    assert not re.search(r"Checking PAI|calling set mode|save_tracker_settings|DeprecationWarning", result.stdout)


def test_on_demand_the_library_says_all(tmp_path: Path) -> None:
    result = train(tmp_path, DDP, PAI_VERBOSE="1", PAI_TESTING_DENDRITE_CAPACITY="1")
    assert len(rounds(result)) == 4
    assert len(re.findall(r"^Adding validation score", result.stdout, re.MULTILINE)) >= 4
    assert result.stdout.count("Building dendrites without") == 1 + 2 * 4
    settings = json.loads((tmp_path / "PAI_train_capacity_test" / "rounds.json").read_text())
    assert settings["capacity_test"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_processes_do_not_train_on_when_torchrun_is_killed(tmp_path: Path) -> None:
    text = swapped(
        DDP,
        ("import os\n", "import os\nimport signal\n"),
        (
            "        acc = validate(model, epoch)\n",
            '        open(f"rank{os.getpid()}", "w").close()\n        dist.barrier()\n'
            "        if dist.get_rank() == 0:\n            os.kill(os.getppid(), signal.SIGKILL)\n"
            "        while True:\n            signal.pause()\n"
            "        acc = validate(model, epoch)\n",
        ),
    )
    result = train(tmp_path, text, python=sys.executable)  # a fork's parent is the one that forks
    assert result.returncode == 137, shown(result)
    pids = [int(path.name.removeprefix("rank")) for path in tmp_path.glob("rank*")]
    assert len(pids) == 2
    until(lambda: not any(runs(pid) for pid in pids), "both ranks end")
