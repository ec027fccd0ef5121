"""The fixes of `retrofit check` on whole scripts, run before and after on two gloo ranks."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from retrofit.check.checker import Checker
from retrofit.check.finding import Wanted
from retrofit.check.settings import Settings
from tests.forked import training_python
from tests.helpers import code

pytestmark = pytest.mark.real

CHECKER = Checker()
SECONDS = 120

#: What each script begins and ends with; `note` is what a rank leaves behind for its test. It leaves without taking
#: gloo apart, which aborts now and then after all work is done (`terminate called without an active exception`).
HEAD = """
import datetime
import json
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
torch.manual_seed(0)
note = {}
"""
TAIL = """
with open(f"rank{dist.get_rank()}.json", "w") as file:
    json.dump(note, file)
dist.barrier()
os._exit(0)
"""


class Run(NamedTuple):
    """What two ranks did: whether both ended well, and what each noted."""

    status: int
    notes: list[dict[str, Any]]


def fixed(text: str, *codes: str) -> str:
    """Return a script after the fixes of some rules, each of which must have something to repair."""
    wanted = Wanted(frozenset({"safe", "unsafe"}))
    outcome = CHECKER.check(Path("/project/train.py"), "train.py", text.encode(), Settings(select=codes), wanted)
    assert outcome.fixed is not None
    assert set(outcome.repaired) == set(codes)
    assert outcome.findings == ()
    return outcome.fixed.decode()


def launch(folder: Path, text: str) -> Run:
    """Run a script on two ranks in a folder of its own."""
    folder.mkdir()
    (folder / "train.py").write_text(text)
    torchrun = [training_python(), "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "train.py"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(torchrun, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS)
    notes = [folder / f"rank{rank}.json" for rank in range(2)]
    if done.returncode == 0:
        assert all(note.exists() for note in notes), done.stderr
    return Run(done.returncode, [json.loads(note.read_text()) for note in notes if note.exists()])


def before_and_after(folder: Path, body: str, *codes: str) -> tuple[Run, Run]:
    """Run a script as it is, and again after the fixes of some rules."""
    text = code(HEAD) + code(body) + code(TAIL)
    return launch(folder / "before", text), launch(folder / "after", fixed(text, *codes))


def test_sampler_gives_each_rank_its_own_share_in_another_order_each_epoch(tmp_path: Path) -> None:
    body = """
    dataset = TensorDataset(torch.arange(16.0).unsqueeze(1))
    train_loader = DataLoader(dataset, batch_size=4, shuffle=True)
    model = DDP(nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    note["seen"] = []
    for epoch in range(2):
        seen = []
        for (x,) in train_loader:
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
            seen += x.flatten().tolist()
        note["seen"].append(seen)
    """
    before, after = before_and_after(tmp_path, body, "DDP201")
    everything = [float(number) for number in range(16)]
    for epoch in range(2):
        whole, shares = ([note["seen"][epoch] for note in run.notes] for run in (before, after))
        assert sorted(whole[0]) == sorted(whole[1]) == everything
        assert len(shares[0]) == len(shares[1]) == 8
        assert sorted(shares[0] + shares[1]) == everything
    assert all(note["seen"][0] != note["seen"][1] for note in after.notes)


def test_set_epoch_makes_another_order_each_epoch(tmp_path: Path) -> None:
    body = """
    dataset = TensorDataset(torch.arange(16.0).unsqueeze(1))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=4, sampler=sampler)
    model = DDP(nn.Linear(1, 1))
    note["seen"] = []
    for epoch in range(2):
        seen = []
        for (x,) in loader:
            model(x).mean().backward()
            seen += x.flatten().tolist()
        note["seen"].append(seen)
    """
    before, after = before_and_after(tmp_path, body, "DDP203")
    assert all(note["seen"][0] == note["seen"][1] for note in before.notes)
    assert all(note["seen"][0] != note["seen"][1] for note in after.notes)
    first, second = (note["seen"][1] for note in after.notes)
    assert sorted(first + second) == [float(number) for number in range(16)]


def test_one_rank_saves(tmp_path: Path) -> None:
    body = """
    writes, save = [], torch.save
    torch.save = lambda value, path: (writes.append(path), save(value, path))
    model = DDP(nn.Linear(2, 2))
    for epoch in range(2):
        torch.save(model.module.state_dict(), "model.pt")
    dist.barrier()
    note["writes"] = len(writes)
    note["keys"] = list(torch.load("model.pt", map_location="cpu"))
    """
    text = code(HEAD) + code(body) + code(TAIL)
    # Read back in the same file, the save is left to its author; the script reads it here for the test alone.
    hidden = text.replace('torch.load("model.pt", map_location="cpu")', "READ")
    before = launch(tmp_path / "before", hidden.replace("READ", "model.module.state_dict()"))
    after = launch(
        tmp_path / "after", fixed(hidden, "DDP501").replace("READ", 'torch.load("model.pt", map_location="cpu")')
    )
    assert [note["writes"] for note in before.notes] == [2, 2]
    assert [note["writes"] for note in after.notes] == [2, 0]
    assert all(note["keys"] == ["weight", "bias"] for note in after.notes)


def test_saved_keys_load_into_a_bare_model(tmp_path: Path) -> None:
    body = """
    model = DDP(nn.Linear(2, 2))
    note["resumed"] = os.path.exists("last.pt")
    if dist.get_rank() == 0:
        torch.save({"model": model.state_dict()}, "last.pt")
    dist.barrier()
    model.load_state_dict(torch.load("last.pt", map_location="cpu")["model"])
    state = torch.load("last.pt", map_location="cpu")["model"]
    note["keys"] = list(state)
    """
    before, after = before_and_after(tmp_path, body, "DDP502")
    assert before.status == after.status == 0
    assert all(note["keys"] == ["module.weight", "module.bias"] for note in before.notes)
    assert all(note["keys"] == ["weight", "bias"] for note in after.notes)

    from torch import load, nn

    bare = nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\) in state_dict: \"module.weight\""):
        bare.load_state_dict(load(tmp_path / "before" / "last.pt")["model"])
    bare.load_state_dict(load(tmp_path / "after" / "last.pt")["model"])


def test_gradients_are_averaged_once_a_step(tmp_path: Path) -> None:
    body = """
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    reduced = []

    def counted(state, bucket):
        reduced.append(bucket.index())
        return allreduce_hook(None, bucket)

    model = DDP(nn.Linear(2, 2))
    model.register_comm_hook(None, counted)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = torch.randn(8, 4, 2, generator=torch.Generator().manual_seed(dist.get_rank()))
    note["gradients"] = []
    for epoch in range(2):
        for i, x in enumerate(batches):
            # Four batches make a step.
            output = model(x)
            loss = output.pow(2).mean() / 4
            loss.backward()
            if (i + 1) % 4 == 0:
                note["gradients"].append(model.module.weight.grad.flatten().tolist())
                optimizer.step()
                optimizer.zero_grad()
    note["reduced"] = len(reduced)
    """
    before, after = before_and_after(tmp_path, body, "DDP401")
    assert [note["reduced"] for note in before.notes] == [16, 16]
    assert [note["reduced"] for note in after.notes] == [4, 4]
    assert after.notes[0]["gradients"] == after.notes[1]["gradients"]
    for old, new in zip(before.notes[0]["gradients"], after.notes[0]["gradients"], strict=True):
        assert new == pytest.approx(old, rel=1e-4, abs=1e-6)


def test_rank_0_evaluates_without_the_others(tmp_path: Path) -> None:
    body = """
    model = DDP(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    model(torch.randn(4, 2)).sum().backward()
    if dist.get_rank() == 0:
        model.eval()
        with torch.no_grad():
            note["output"] = model(torch.ones(1, 2)).tolist()
    dist.barrier()
    """
    text = code(HEAD).replace("seconds=60", "seconds=10") + code(body) + code(TAIL)
    before, after = launch(tmp_path / "before", text), launch(tmp_path / "after", fixed(text, "DDP506"))
    assert before.status != 0  # after ten seconds of waiting
    assert after.status == 0
    assert after.notes[0]["output"]


@pytest.mark.parametrize(
    ("rule", "wrapped"),
    [
        ("DDP102", "model = nn.DataParallel(model)"),
        ("DDP102", "model = torch.nn.parallel.DataParallel(model)"),
        ("DDP103", "model = DDP(model).double()"),
    ],
)
def test_ranks_agree_once_ddp_wraps_the_model_that_trains(rule: str, wrapped: str, tmp_path: Path) -> None:
    body = """
    model = nn.Linear(2, 2)
    WRAP
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(dist.get_rank())
    for x in torch.randn(4, 8, 2):
        optimizer.zero_grad()
        model(x.to(model.module.weight.dtype)).pow(2).mean().backward()
        optimizer.step()
    note["weight"] = model.module.weight.flatten().tolist()
    """
    before, after = before_and_after(tmp_path, body.replace("WRAP", wrapped), rule)
    assert before.notes[0]["weight"] != before.notes[1]["weight"]
    assert after.notes[0]["weight"] == after.notes[1]["weight"]
