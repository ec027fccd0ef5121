"""One process of a process group that is tried out: run by file path with the interpreter that trains.

It forms the group, checks and times an all-reduce, and checks that DistributedDataParallel synchronises gradients.
It needs torch alone. It prints a JSON object a line; what libraries print goes to stderr.

The debugging steps that the gradient check is taken from fill the gradients *after* the backward pass and expect
their mean. DistributedDataParallel reduces during the backward pass only, so nothing would be reduced any more, and
that check fails where all is well. Here every rank feeds data of its own, notes its own gradients from a backward pass
under ``no_sync()``, and those of a normal backward pass must be the mean of all ranks' own ones, and the same on each.
Each rank also starts from parameters of its own, so that wrapping must have made them equal.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from datetime import timedelta
from typing import Any

WARM_UPS, REPEATS = 2, 5


def main(rank: int, world: int, backend: str, folder: str, timeout: float) -> None:
    """Try everything out, in order, and say how it went; the names are those of `facts.Rank`.

    Args:
        rank: the number of this process.
        world: how many there are.
        backend: "nccl" or "gloo".
        folder: one that all ranks share, and that is removed afterwards.
        timeout: seconds that anything may take.
    """
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if path != here]  # its files must not hide the interpreter's own
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(**facts: object) -> None:
        print(json.dumps(facts), file=out, flush=True)

    try:
        say(stage="importing torch")
        torch: Any = importlib.import_module("torch")
        say(stage="forming the process group")
        device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
        if backend == "nccl":
            torch.cuda.set_device(device)
        store = _store(torch, rank, world, folder, timedelta(seconds=timeout))
        torch.distributed.init_process_group(
            backend, store=store, rank=rank, world_size=world, timeout=timedelta(seconds=timeout)
        )
        say(stage="in an all-reduce")
        say(**_all_reduce(torch, rank, world, device))
        say(stage="wrapping a model in DistributedDataParallel")
        say(**_gradients(torch, rank, world, device))
        say(stage="in the last barrier")
        torch.distributed.barrier()
        say(stage="done")
    except BaseException as error:
        # behind that comes PyTorch's own stack, in C++
        text = f"{type(error).__name__}: {error}".split("Exception raised from")[0]
        say(error=" ".join(text.split())[:400])
        os._exit(1)
    # gloo aborts now and then where the group is destroyed, after all work is done
    os._exit(0)


def _store(torch: Any, rank: int, world: int, folder: str, timeout: timedelta) -> Any:
    """Return a store over TCP, as torchrun has one, at a port that the system chooses and a file hands on."""
    note = torch.distributed.FileStore(os.path.join(folder, "store"), world)
    note.set_timeout(timeout)
    port = 0 if rank == 0 else int(note.get("port"))
    store = torch.distributed.TCPStore("127.0.0.1", port, world, rank == 0, timeout, wait_for_workers=False)
    if rank == 0:
        note.set("port", str(store.port))
    return store


def _all_reduce(torch: Any, rank: int, world: int, device: Any) -> dict[str, object]:
    elements = 2**22 if device.type == "cuda" else 2**20  # 16 and 4 MiB
    pattern = torch.arange(elements, device=device) % 101
    # whole numbers, so that the sum is exact in whatever order it is made
    tensor = (pattern * (rank + 1)).float()
    torch.distributed.all_reduce(tensor)
    wrong = int((tensor != (pattern * (world * (world + 1) // 2)).float()).sum())
    seconds = []
    tensor.zero_()
    for repeat in range(WARM_UPS + REPEATS):
        torch.distributed.barrier()
        _synchronize(torch, device)
        start = time.perf_counter()
        torch.distributed.all_reduce(tensor)
        _synchronize(torch, device)
        if repeat >= WARM_UPS:
            seconds.append(time.perf_counter() - start)
    return {"wrong_sums": wrong, "size": elements * 4, "seconds": seconds}


def _synchronize(torch: Any, device: Any) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _gradients(torch: Any, rank: int, world: int, device: Any) -> dict[str, object]:
    torch.manual_seed(1000 + rank)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)).double().to(device)
    inputs, targets = torch.randn(32, 8).double().to(device), torch.randn(32, 4).double().to(device)

    def everywhere(what: str) -> Any:
        """Return the model's parameters or gradients on all ranks, a row each."""
        tensors = [getattr(parameter, what).detach().flatten() for parameter in model.parameters()]
        rows = [torch.empty_like(torch.cat(tensors)) for _ in range(world)]
        torch.distributed.all_gather(rows, torch.cat(tensors))
        return torch.stack(rows)

    def same(rows: Any) -> bool:
        return bool((rows == rows[0]).all())

    def backward() -> None:
        wrapped.zero_grad()
        torch.nn.functional.mse_loss(wrapped(inputs), targets).backward()

    different = world == 1 or not same(everywhere("data"))
    wrapped = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank] if device.type == "cuda" else None)
    equal = same(everywhere("data"))
    with wrapped.no_sync():
        backward()
    own = everywhere("grad")
    backward()
    reduced = everywhere("grad")
    error = (reduced - own.mean(0)).abs().max() / own.abs().max()
    return {
        "same_parameters": different and equal,
        "same_gradients": same(reduced) and (world == 1 or not same(own)),
        "gradient_error": float(error),
    }


if __name__ == "__main__":
    environ = os.environ
    main(
        int(environ["RANK"]),
        int(environ["WORLD_SIZE"]),
        environ["DOCTOR_BACKEND"],
        environ["DOCTOR_FOLDER"],
        float(environ["DOCTOR_TIMEOUT"]),
    )
