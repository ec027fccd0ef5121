"""What is certain of wrappers, devices and process groups, and what depends on code that cannot be seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrofit.check.checker import Checker
from retrofit.check.settings import Settings

IMPORTS = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
"""
NET = """
class Net(torch.nn.Module):
    def embed(self, x):
        return x
"""
TRAIN = """
for x, y in loader:
    criterion(model(x), y).backward()
"""
SAVE = """
checkpoint = {'model': model.state_dict()}
torch.save(checkpoint, path)
"""
CHECKER = Checker()


@pytest.mark.parametrize(
    ("code", "text", "level"),
    [
        ("DDP103", f"{NET}model = DDP(Net()).cuda()", "error"),
        ("DDP103", "from models import Net\nmodel = DDP(Net()).cuda()", "advice"),
        ("DDP103", f"{NET}self.model = Net()\nself.model = DDP(self.model)\nself.model.cuda()", "advice"),
        ("DDP103", f"{NET}model = DDP(Net().cuda()).half(){TRAIN}", "error"),
        ("DDP103", f"{NET}model = DDP(Net().cuda()).half()", "advice"),
        ("DDP106", f"{NET}model = DDP(Net())\nmodel.embed(x)", "error"),
        ("DDP106", f"{NET}model = Net()\nif args.distributed:\n    model = DDP(model)\nmodel.embed(x)", "error"),
        ("DDP106", f"{NET}model = DDP(Net())\ndef features():\n    return model.embed(x)", "advice"),
        ("DDP301", "dist.init_process_group()\nmodel = DDP(Net().cuda(), device_ids=[0])", "advice"),
        ("DDP301", "dist.init_process_group()\nprint(args.local_rank)\nmodel = DDP(Net(), device_ids=[0])", "warning"),
        ("DDP302", "dist.init_process_group('nccl')\nmodel = DDP(Net().cuda())", "advice"),
        ("DDP302", "dist.init_process_group('nccl')\nprint(args.local_rank)\nmodel = DDP(Net().cuda())", "warning"),
        ("DDP304", f"dist.init_process_group('nccl'){TRAIN}", "warning"),
        ("DDP304", f"dist.init_process_group(args.backend){TRAIN}", "advice"),
        ("DDP502", f"model = DDP(Net()){SAVE}", "warning"),
        ("DDP502", f"net = Net()\nnet.load_state_dict(torch.load(path))\nmodel = DDP(net){SAVE}", "warning"),
        ("DDP502", f"model = DDP(Net())\ndata = load_data(path)\nloader = make_loader(data, model){SAVE}", "warning"),
        ("DDP502", f"net = Net()\nload_checkpoint(path, net)\nmodel = DDP(net){SAVE}", "warning"),
        ("DDP502", f"model = DDP(Net())\nupload(model)\npayload(model)\nDataLoader(model){SAVE}", "warning"),
        ("DDP502", f"model = DDP(Net())\nload_checkpoint(path, model.module){SAVE}", "warning"),
        ("DDP502", f"model = DDP(Net())\nmodel.load_state_dict(torch.load(path)['model']){SAVE}", "advice"),
        (
            "DDP502",
            f"model = DDP(Net())\ncheckpoint = torch.load(path)\nmodel.load_state_dict(checkpoint['model']){SAVE}",
            "advice",
        ),
        ("DDP502", f"model = DDP(Net())\nrestart_from_checkpoint(path, state_dict=model){SAVE}", "advice"),
        ("DDP502", f"model = DDP(Net())\nutils.resume(path, {{'model': model}}){SAVE}", "advice"),
        ("DDP502", f"model = DDP(Net())\nmaybeLoadCheckpoint([model]){SAVE}", "advice"),
        ("DDP502", f"model = DDP(Net())\nDetectionCheckpointer(model, path).resume(){SAVE}", "advice"),
    ],
)
def test_level_says_how_certain_a_finding_is(code: str, text: str, level: str) -> None:
    data = (IMPORTS.lstrip("\n") + text).encode()
    outcome = CHECKER.check(Path("/project/train.py"), "train.py", data, Settings(select=(code,)))
    assert [finding.level for finding in outcome.findings] == [level]
