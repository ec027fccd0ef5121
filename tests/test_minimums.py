"""A script that insists on several GPUs or processes is let through in the initialisation run, which has one."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from tests.helpers import code, plan_of, rewritten, script, survey_of

TEXT = """\
import os
import sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

def train(rank, world_size):
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    model = Net()
    model = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best = 0
    for epoch in range(10):
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        acc = evaluate(model)
        if acc > best:
            best = acc

def main():
    n = torch.cuda.device_count()
START

if __name__ == "__main__":
    main()
"""
SPAWN = "torch.multiprocessing.spawn(train, args=(n,), nprocs=n)"
INITIALIZING = "pai_distributed.initializing()"


def started(lines: str) -> str:
    """Return the script with some code that starts its processes; SPAWN stands for the call."""
    indented = "".join(f"    {line}\n" for line in lines.replace("SPAWN", SPAWN).splitlines())
    return TEXT.replace("START\n", indented)


@pytest.mark.parametrize(
    ("lines", "changed"),
    [
        pytest.param("assert n >= 2, n\nSPAWN", f"assert n >= 2 or {INITIALIZING}, n", id="assert"),
        pytest.param("if n < 2:\n    raise SystemError(n)\nSPAWN", f"if n < 2 and not {INITIALIZING}:", id="raise"),
        pytest.param("if n == 1:\n    sys.exit(1)\nSPAWN", f"if n == 1 and not {INITIALIZING}:", id="exit"),
        pytest.param(
            "def check():\n    if n < 2:\n        exit()\ncheck()\nSPAWN",
            f"    if n < 2 and not {INITIALIZING}:",
            id="in a function",
        ),
        pytest.param("if n < 2:\n    print(n)\nelse:\n    SPAWN", f"if n < 2 and not {INITIALIZING}:", id="else"),
        pytest.param("if n < 2:\n    return\nelse:\n    SPAWN", f"if n < 2 and not {INITIALIZING}:", id="else return"),
        pytest.param("if 1 < n:\n    SPAWN", f"if 1 < n or {INITIALIZING}:", id="only then"),
        pytest.param(
            "if not torch.cuda.is_available() or torch.cuda.device_count() <= 1:\n    return\nSPAWN",
            f"if (not torch.cuda.is_available() or torch.cuda.device_count() <= 1) and not {INITIALIZING}:",
            id="beside another",
        ),
        pytest.param(
            "assert (cuda() and (n > 1)), n\nSPAWN",
            f"assert (cuda() and (n > 1)) or {INITIALIZING}, n",
            id="in brackets",
        ),
        pytest.param(
            'assert int(os.environ["WORLD_SIZE"]) > 1\nSPAWN',
            f'assert int(os.environ["WORLD_SIZE"]) > 1 or {INITIALIZING}',
            id="processes",
        ),
    ],
)
def test_a_script_that_insists_on_several_initialises_with_one(tmp_path: Path, lines: str, changed: str) -> None:
    plan = plan_of(tmp_path, started(lines))
    assert plan.questions == []
    assert f"    {changed}\n" in rewritten(plan)


@pytest.mark.parametrize(
    "lines",
    [
        "SPAWN",
        "assert n > 0\nSPAWN",
        "assert n >= 1\nSPAWN",
        "if n == 0:\n    raise SystemError(n)\nSPAWN",
        "if n > 1:\n    SPAWN\nelse:\n    train(0, 1)",
        "if n > 1:\n    print(n)\nSPAWN",
        "if rank > 1:\n    raise SystemError(n)\nSPAWN",
        "SPAWN\nassert n > 1",
        "assert len(weights) == 3, weights\nSPAWN",
        "assert len(weights) > 1\nSPAWN",
        "SPAWN\nif n < 2:\n    raise SystemError(n)",
        "def alone():\n    if n < 2:\n        return True\nalone()\nSPAWN",
    ],
)
def test_other_conditions_stay(lines: str) -> None:
    assert survey_of(started(lines)).minimums == []


COUNTED = "if torch.cuda.device_count() > 1:\n    model = DDP(model)\n    model.to(device)\n"


@pytest.mark.parametrize(
    ("wrapped", "asked"),
    [
        pytest.param(COUNTED, "device_count() > 1 or", id="there alone"),
        pytest.param(
            COUNTED.replace("> 1:", "< 2:\n    print(1)\nelse:"), "device_count() < 2 and not", id="in the else"
        ),
        pytest.param(f"{COUNTED}else:\n    model.to(device)\n", "", id="in both"),
        pytest.param(f"model = model.cuda()\n{COUNTED}", "", id="before it too"),
        pytest.param(COUNTED.replace("model.to(device)", "other.to(device)"), "", id="of another"),
        pytest.param(COUNTED.replace("    model.to(device)\n", ""), "", id="nowhere"),
    ],
)
def test_a_model_that_is_moved_only_where_several_are_counted(tmp_path: Path, wrapped: str, asked: str) -> None:
    plan = plan_of(tmp_path, script("val_loss = evaluate(model)").replace("model = DDP(model)\n", wrapped))
    assert plan.questions == []
    told = [line for line in rewritten(plan).splitlines() if "device_count()" in line]
    assert [f"{asked} {INITIALIZING}:" in line for line in told] == [bool(asked)]


IN_GROUP = "if dist.is_initialized():\n            x = model.module.gather(x)\n        "


@pytest.mark.parametrize(
    ("wrapped", "used", "asked"),
    [
        pytest.param(
            "if torch.cuda.device_count() > 1:\n    WRAP\n", IN_GROUP, "device_count() > 1 or", id="elsewhere"
        ),
        pytest.param("if 1 >= dist.get_world_size():\n    pass\nelse:\n    WRAP\n", IN_GROUP, "", id="beside another"),
        pytest.param("if torch.cuda.device_count() > 1:\n    WRAP\n", "", "", id="nowhere"),
        pytest.param(
            "if torch.cuda.device_count() > 1 and one:\n    model = nn.DataParallel(model)\nif not one:\n    WRAP\n",
            IN_GROUP,
            "",
            id="in one of two ways",
        ),
        pytest.param(
            "if torch.cuda.device_count() > 1:\n    WRAP\n",
            IN_GROUP.replace("dist.is_initialized()", "torch.cuda.device_count() > 1"),
            "",
            id="there alone",
        ),
        pytest.param("if args.distributed:\n    WRAP\n", IN_GROUP, "", id="by an option"),
    ],
)
def test_what_only_a_wrapper_has_is_there_where_several_are_counted_alone(
    tmp_path: Path, wrapped: str, used: str, asked: str
) -> None:
    text = script("val_loss = evaluate(model)").replace(
        "import torch\n", "import torch\nimport torch.distributed as dist\n"
    )
    text = text.replace("model = DDP(model)\n", wrapped.replace("WRAP", "model = DDP(model)"))
    text = text.replace("loss = criterion", f"{used}loss = criterion")
    plan = plan_of(tmp_path, text)
    assert plan.questions == []
    assert [
        f"{asked} {INITIALIZING}:" in line for line in rewritten(plan).splitlines() if line.startswith("if torch")
    ] == ([bool(asked)] if wrapped.startswith("if torch") else [])


CHOSEN = "if torch.cuda.device_count() > 1:\n    begin(model.module)\nelse:\n    begin(model)\n"


@pytest.mark.parametrize(
    ("chosen", "asked"),
    [
        pytest.param(CHOSEN, f"> 1 or {INITIALIZING}:", id="one of two"),
        pytest.param(
            code("""
                if torch.cuda.device_count() < 2:
                    begin(model)
                else:
                    begin(model.module)
                """),
            f"< 2 and not {INITIALIZING}:",
            id="turned round",
        ),
        pytest.param(CHOSEN.partition("else")[0], "> 1:", id="nothing instead"),
        pytest.param(CHOSEN.replace("model.module", "loader"), "> 1:", id="of something else"),
    ],
)
def test_what_takes_the_wrapper_for_one_where_several_are_counted_does_so_with_it(
    tmp_path: Path, chosen: str, asked: str
) -> None:
    wrapped = f"if torch.cuda.device_count() > 1:\n    model = DDP(model)\n{chosen}"
    text = script("val_loss = evaluate(model)").replace(
        "import torch\n", "import torch\nimport torch.distributed as dist\n"
    )
    text = text.replace("model = DDP(model)\n", wrapped).replace("loss = criterion", f"{IN_GROUP}loss = criterion")
    plan = plan_of(tmp_path, text)
    assert plan.questions == []
    first, second = [line for line in rewritten(plan).splitlines() if line.startswith("if torch")]
    assert first.endswith(f"> 1 or {INITIALIZING}:")
    assert second.endswith(asked)


SIZED = code("""
    import os

    def sized():
        if "WORLD_SIZE" in os.environ:
            rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        else:
            rank, size = 0, OTHERWISE
        return rank, size

    rank, size = sized()
    if size > 1:
        model = DDP(model)
    """)


@pytest.mark.parametrize(("otherwise", "found"), [("1", 1), ("args.size", 0)])
def test_several_are_counted_by_what_a_function_tells_or_a_number_in_its_place(otherwise: str, found: int) -> None:
    text = script().replace("model = DDP(model)\n", SIZED.replace("OTHERWISE", otherwise))
    text = text.replace("loss = criterion(", "loss = model.module.scale * criterion(")
    assert [one.wanted for one in survey_of(text).minimums] == [True] * found


ASKED = TEXT.replace("import os\n", "import argparse\nimport os\n").replace(
    "    n = torch.cuda.device_count()\n",
    "    parser = argparse.ArgumentParser()\n    parser.add_argument('--n-gpu', type=int, default=1)\n"
    "    args = parser.parse_args()\n",
)
ASKING = "args.perforate_model_parallel"
BY_OPTION = "torch.multiprocessing.spawn(train, args=(args.n_gpu, args), nprocs=args.n_gpu)\n"


@pytest.mark.parametrize(
    ("worker", "start", "changed"),
    [
        pytest.param(
            "assert dist.get_world_size() == args.n_gpu",
            "",
            f"assert dist.get_world_size() == args.n_gpu or {ASKING}",
            id="processes",
        ),
        pytest.param(
            "if world_size > torch.cuda.device_count():\n    raise ValueError(world_size)",
            "",
            f"if world_size > torch.cuda.device_count() and not {ASKING}:",
            id="passed on",
        ),
        pytest.param(
            "pass",
            "if torch.cuda.device_count() < args.n_gpu:\n    sys.exit('too few')",
            f"if torch.cuda.device_count() < args.n_gpu and not {ASKING}:",
            id="before",
        ),
        pytest.param("assert dist.get_world_size() >= args.batches", "", "", id="another option"),
        pytest.param("assert dist.get_world_size() <= args.n_gpu", "", "", id="what one meets"),
        pytest.param("pass", "if args.n_gpu > torch.cuda.device_count():\n    print('few')", "", id="only told"),
    ],
)
def test_a_script_that_insists_on_as_many_as_it_was_told_initialises_with_one(
    tmp_path: Path, worker: str, start: str, changed: str
) -> None:
    text = ASKED.replace("def train(rank, world_size):", "def train(rank, world_size, args):")
    text = text.replace("    model = Net()\n", f"{indent(worker, '    ')}\n    model = Net()\n")
    plan = plan_of(tmp_path, text.replace("START\n", indent(f"{start}\n{BY_OPTION}", "    ")))
    assert plan.questions == []
    found = len(plan.script.minimums)
    assert found == bool(changed)
    assert not changed or f"    {changed}\n" in rewritten(plan)
