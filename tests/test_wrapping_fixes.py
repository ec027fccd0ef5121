"""Fixes around wrappers, proven by running a script before and after them on two ranks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from retrofit.check.checker import Checker
from retrofit.check.finding import Wanted
from retrofit.check.settings import Settings

pytestmark = pytest.mark.real

HEAD = """
import torch
import torch.distributed as dist

dist.init_process_group('gloo')
torch.manual_seed(dist.get_rank())
model = torch.nn.Linear(4, 2)
"""
REST = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    batch = torch.randn(8, 4).to(next(model.parameters()).dtype)
    model(batch).pow(2).sum().backward()
    optimizer.step()
print(sum(parameter.sum().item() for parameter in model.module.parameters()))
dist.destroy_process_group()
"""
WRAPPED = {
    "DDP102": "model = torch.nn.DataParallel(model)",
    "DDP103": "model = torch.nn.parallel.DistributedDataParallel(model).double()",
}


def on_two_ranks(script: Path) -> list[str]:
    """Return what each of two ranks prints."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script)],
            env={**shared, "RANK": rank},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in ("0", "1")
    ]
    outputs = [process.communicate(timeout=120) for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0], outputs
    return [out for out, _ in outputs]


@pytest.mark.parametrize("code", WRAPPED)
def test_ranks_train_one_model_after_the_fix(code: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(HEAD.lstrip("\n") + WRAPPED[code] + REST)
    first, second = on_two_ranks(script)
    assert first != second
    wanted = Wanted(frozenset({"safe", "unsafe"}))
    outcome = Checker().check(script, "train.py", script.read_bytes(), Settings(select=(code,)), wanted)
    assert outcome.repaired == (code,)
    assert outcome.fixed is not None
    script.write_bytes(outcome.fixed)
    first, second = on_two_ranks(script)
    assert first == second
