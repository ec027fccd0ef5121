"""Simulated CUDA devices, so that a training script for GPUs runs unmodified on the CPU.

`install(torch, devices=N)` is called once per process, right after `import torch` and before any other code uses it.
From then on torch answers as if the machine had N GPUs, while every tensor stays on the CPU. Functions are replaced in
torch's namespaces; no torch function mode or dispatch mode is active, so it works in all threads and costs next to
nothing.

Simulated:

- Devices: `.cuda()`, `.to("cuda:1")`, `.to(1)`, `device=` of the functions that create tensors, `torch.device(1)`,
  `with torch.device("cuda")`, `torch.set_default_device`, `torch.cuda.FloatTensor`, `torch.Generator("cuda")`,
  `torch.load(map_location=...)`. All of it gives the CPU, after a check: a device that does not exist raises
  "CUDA error: invalid device ordinal". `.cpu()` and `.to("cpu")` give a copy where no gradient is required, as from
  a GPU.
- `torch.cuda` and `torch.accelerator`: the number of devices, the current one (per thread), names and properties,
  streams, events (with the real time between them), random states, nvtx. Memory statistics are all 0.
- Mixed precision: autocast for "cuda" is autocast for the CPU, with bfloat16 in place of float16, which many CPU
  kernels lack or run slowly. GradScaler really scales.
- `torch.distributed`: "nccl" is gloo; `get_backend` tells the script "nccl", and torch itself the truth.
  ReduceOp.AVG and reduce_scatter, which not every gloo has, are made of an all_reduce.
- DistributedDataParallel: `device_ids` and `output_device` are checked, then dropped. SyncBatchNorm has real
  statistics over all processes.
- DataParallel: real replicas, one for each device, which run one after the other in the caller's thread.
- `torch.compile` gives its OptimizedModule, which runs the module as it is: no compiler is needed, nothing is traced,
  and the names of parameters and submodules are those of a compiled one. A function comes back as it was.
- DataLoader(pin_memory=True) pins nothing and starts no thread; optimizers take fused, foreach and capturable.

Not simulated:

- What a tensor says of itself: `x.device` is the CPU, `x.is_cuda` False, `x.get_device()` -1 (which is taken back as
  a device and means the CPU), `x.is_pinned()` False, `x.type()` "torch.FloatTensor". Tensors on different devices
  can so be used together, which CUDA refuses.
- `.cuda()` and `.to("cuda")` give the tensor itself, as for one that is already there: not a copy, and a leaf stays
  a leaf.
- Random numbers drawn on a device come from the CPU's generator. `torch.cuda.manual_seed` and the states of the
  CUDA generators are kept and given back, and change no draw.
- CUDA graphs, memory pools, custom kernels and whatever else of `torch.cuda` is not listed raise NotSimulated.
- Devices named inside TorchScript or asked of `torch.ops` directly; FullyShardedDataParallel; backends other than
  gloo and nccl; collectives that gloo does not have.
- Speed and memory, of course; also the order of additions within a sum, where CUDA's differs.

On a machine that has GPUs everything runs on the CPU all the same.
"""

from __future__ import annotations

import os
from typing import Any

from .patching import NotSimulated

__all__ = ["NotSimulated", "install"]


def install(torch: Any, devices: int) -> None:
    """Make torch behave as if there were CUDA devices. Once it has been called, further calls do nothing.

    Args:
        torch: the imported module.
        devices: how many there are. CUDA_VISIBLE_DEVICES, where set, leaves fewer, as with real ones.
    """
    if hasattr(torch, "_simulated_devices"):
        return
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        devices = min(devices, _listed(visible))
    torch._simulated_devices = devices

    # They need torch, which this package does not import by itself.
    from . import amp, batchnorm, cuda, distributed, parallel, tensors, training
    from .devices import set_count

    set_count(devices)
    for part in (tensors, cuda, amp, training, parallel, batchnorm, distributed):
        part.install()


def _listed(visible: str) -> int:
    """Return how many devices CUDA_VISIBLE_DEVICES lists: those before the first that is negative, as CUDA has it."""
    count = 0
    for name in visible.split(","):
        if not name.strip() or name.strip().startswith("-"):
            break
        count += 1
    return count
