"""A model that one function gets from all that make it: from several, of which a run takes one, or another process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import code, plan_of, rewritten

TEXT = code("""
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
    from torch.nn.parallel import DistributedDataParallel as DDP

    class Task(torch.nn.Module):
        def build_model(self):
            return Net()

        def configure_optimizers(self):
            return torch.optim.AdamW(self.model.parameters())

    class Trainer:
        def fit(self, cls):
            if gpus > 1:
                mp.spawn(self.worker, nprocs=gpus, args=(cls,))
            else:
                self.task = cls()
                self.run(self.task)

        def worker(self, rank, cls):
            task = cls()
            self.task = task
            dist.init_process_group("nccl", rank=rank, world_size=gpus)
            self.run(task)

        def run(self, task=None):
            task.model = task.build_model()
            load_weights(task)
            self.optimizer = task.configure_optimizers()
            if gpus > 1:
                self.task = self.wrap(self.task)
            self.train()

        def resume(self):
            self.task.load_state_dict(torch.load("last.pt"))

        def wrap(self, task):
            task = DDP(task)
            return task

        def train(self):
            for epoch in range(20):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    loss = self.task(x, y)
                    loss.backward()
                    self.optimizer.step()
                acc = validate(self.task)
                print(acc)

    if __name__ == "__main__":
        Trainer().fit(Task)
    """)
OPTIMIZER = "        self.optimizer = task.configure_optimizers()\n"
TRAINS = "        if not testing:\n"
BUILT = "        task.model = task.build_model()\n        load_weights(task)\n"
LOADED = "        load_weights(task)\n        if resumes:\n            self.resume()\n"
ELSE = "        else:\n            self.task = cls()\n            self.run(self.task)\n"
SECOND = ELSE.replace("        else:\n    ", "").replace("\n    ", "\n")
#: Two are built and wrapped, and the later one gets the optimizer.
TWO = (
    TEXT.replace("mp.spawn(self.worker, nprocs=gpus, args=(cls,))", "self.worker(0, cls)")
    .replace(OPTIMIZER, "")
    .replace("        self.train()\n", "")
    .replace(ELSE, f"{SECOND}{OPTIMIZER}        self.train()\n".replace("= task.", "= self.task."))
)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        pytest.param("", "", OPTIMIZER, id="an optimizer"),
        pytest.param(OPTIMIZER, f"{TRAINS}    {OPTIMIZER}", TRAINS, id="an optimizer in a branch"),
        pytest.param("self.run(task)", "self.run(task=task)", OPTIMIZER, id="given by name"),
        pytest.param("        load_weights(task)\n", LOADED, "        if resumes:\n", id="a checkpoint to resume from"),
        pytest.param(f"{BUILT}{OPTIMIZER}", f"{OPTIMIZER}        load_weights(task)\n", OPTIMIZER, id="at once"),
    ],
)
def test_a_model_is_perforated_before_what_needs_it_where_each_way_gives_it(
    tmp_path: Path, old: str, new: str, place: str
) -> None:
    text = rewritten(plan_of(tmp_path, TEXT.replace(old, new, 1)))
    assert text.count("UPA.perforate_model(") == 1
    assert text.find(BUILT) < text.index("            task = UPA.perforate_model(") < text.index(place)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TEXT.replace(ELSE, SECOND), id="one after the other"),
        pytest.param(TWO, id="two before the optimizer"),
        pytest.param(TEXT.replace("self.run(task)", "self.run()"), id="one way gives nothing"),
        pytest.param(TEXT.replace("self.run(task)", "self.run(rank)"), id="one way gives another thing"),
        pytest.param(TEXT.replace("        load_", "        task = load_"), id="it is replaced"),
        pytest.param(
            TEXT.replace("self.run(task)", "self.run()").replace(
                "        load_", "        task = self.task\n        load_"
            ),
            id="it is taken where it is not given",
        ),
        pytest.param(
            TEXT.replace("            self.run(self", f"    {OPTIMIZER}            self.run(self"), id="an earlier one"
        ),
    ],
)
def test_a_model_that_no_place_has_on_each_way_is_asked_about(tmp_path: Path, text: str) -> None:
    assert text != TEXT
    questions = plan_of(tmp_path, text).questions
    assert any("the model is built in several functions" in question.message for question in questions)


#: The model is built again to resume, in the branch that trains, and wrapped in one of two ways there.
REBUILT = code("""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP

    def train(model):
        optimizer = torch.optim.AdamW(model.parameters())
        single = model
        if gpus > 1:
            model = torch.nn.DataParallel(single)
        if dist.is_initialized():
            model = DDP(model)
        for epoch in range(20):
            for x, y in loader:
                optimizer.zero_grad()
                loss = model(x, y)
                loss.backward()
                optimizer.step()
            acc = validate(model)
            print(acc)

    def main():
        model = Net()
        if trains:
            if saved:
                model = Net(torch.load(saved))
            train(model)

    main()
    """)
AGAIN = "            model = Net(torch.load(saved))\n"


@pytest.mark.parametrize("before", ["", "        print(model)\n"])
def test_a_model_that_is_built_again_before_it_is_given_on_is_one(tmp_path: Path, before: str) -> None:
    text = rewritten(plan_of(tmp_path, REBUILT.replace("        if saved:\n", f"{before}        if saved:\n")))
    assert text.count("UPA.perforate_model(") == 1
    assert text.index("def train(") < text.index("model = UPA.perforate_model(") < text.index("optimizer, _ =")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("        if saved:\n", "        train(model)\n        if saved:\n", id="trained before"),
        pytest.param(
            f"{AGAIN}        train(model)\n",
            f"            other = Net()\n{AGAIN}            train(other)\n        train(model)\n",
            id="by another name",
        ),
    ],
)
def test_models_of_which_each_may_be_trained_are_not(tmp_path: Path, old: str, new: str) -> None:
    text = REBUILT.replace(old, new)
    assert text != REBUILT
    questions = plan_of(tmp_path, text).questions
    assert any(question.code == "PAI102" for question in questions)


#: The model is made in the process that starts the others, and handed to each of them.
SPAWNED = code("""
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
    from torch.nn.parallel import DistributedDataParallel as DDP

    def setup(rank):
        dist.init_process_group("nccl", rank=rank, world_size=2)

    def work(rank, net, lr):
        print(rank)
        setup(rank)
        net.cuda(rank)
        optimizer = torch.optim.SGD(net.parameters(), lr=lr)
        net = DDP(net, device_ids=[rank])
        for epoch in range(20):
            for x, y in loader:
                optimizer.zero_grad()
                net(x, y).backward()
                optimizer.step()
            acc = validate(net)
            print(acc)

    def main(lr):
        model = Net()
        mp.spawn(work, args=(model, lr), nprocs=2)

    if __name__ == "__main__":
        main(0.1)
    """)
MADE = SPAWNED.partition("def main")[0] + code("""
    if __name__ == "__main__":
        model = Net()
        mp.spawn(work, args=(model, 0.1), nprocs=2)
    """)
HELD = (
    SPAWNED.replace("def work(rank, net, lr)", "class Trainer:\n  def work(self, rank, lr)")
    .replace("    mp.spawn(work, args=(model, lr), nprocs=2)", "    Trainer(model).start(lr)")
    .replace("net", "self.net")
    .replace("def main", "  def __init__(self, net):\n    self.net = net\n\n  def start(self, lr):\n"
             "    mp.spawn(self.work, args=(lr,), nprocs=2)\n\ndef main")
)  # fmt: skip
SAME = "if many:\n        mp.spawn(work, args=(model, lr), nprocs=2)\n    else:\n        work(0, model, lr)"


@pytest.mark.parametrize(
    ("text", "name", "before"),
    [
        pytest.param(SPAWNED, "net", "net.cuda(rank)", id="from a function"),
        pytest.param(MADE, "net", "net.cuda(rank)", id="from the main block"),
        pytest.param(
            SPAWNED.replace("    model = Net()\n", "").replace("model, lr)", "Net(), lr)"),
            "net",
            "net.cuda(rank)",
            id="by no name",
        ),
        pytest.param(HELD, "self.net", "self.net.cuda(rank)", id="in an object"),
        pytest.param(
            SPAWNED.replace("mp.spawn(work, args=(model, lr), nprocs=2)", SAME), "net", "net.cuda(rank)", id="or not"
        ),
        pytest.param(
            SPAWNED.replace("net.cuda(rank)", "net = net.cuda(rank)\n    net.load_state_dict(torch.load('a.pt'))"),
            "net",
            "GPA.pai_tracker.set_optimizer",
            id="loaded there",
        ),
        pytest.param(
            SPAWNED.replace(
                "mp.spawn(work, args=(model, lr), nprocs=2)", "mp.Process(target=work, args=(0, model, lr)).start()"
            ),
            "net",
            "net.cuda(rank)",
            id="a process by itself",
        ),
    ],
)
def test_a_model_that_is_handed_to_other_processes_is_perforated_in_each(
    tmp_path: Path, text: str, name: str, before: str
) -> None:
    plan = plan_of(tmp_path, text)
    assert not plan.questions
    lines = [line.strip() for line in rewritten(plan).splitlines()]
    (place,) = [number for number, line in enumerate(lines) if "UPA.perforate_model(" in line]
    assert lines[place].startswith(f"{name} = UPA")
    assert lines.index("setup(rank)") < place < next(n for n, line in enumerate(lines) if line.startswith(before))


def test_a_model_whose_optimizer_other_processes_get_with_it_is_asked_about(tmp_path: Path) -> None:
    line = "    optimizer = torch.optim.SGD(net.parameters(), lr=lr)\n"
    text = SPAWNED.replace(line, "").replace("optimizer", "lr")
    text = text.replace("    mp.spawn", line.replace("net", "model").replace("optimizer", "lr", 1) + "    mp.spawn")
    questions = plan_of(tmp_path, text).questions
    assert any("in the process that starts those which wrap it" in question.message for question in questions)


CHOSEN = code("""
    import torch
    import torch.distributed as dist
    from torch import nn

    def train(args, net):
        args.log = open("log.txt", "w")
        WRAP
        optimizer = torch.optim.AdamW(net.parameters())
        for epoch in range(20):
            for x, y in loader:
                optimizer.zero_grad()
                loss = criterion(net(x), y)
                loss.backward()
                optimizer.step()
            val_loss = validate(net)
            print(val_loss)
        return "done", net

    for seed in seeds:
        net = Net()
        _, net = {"usual": train}[args.kind](args, net)
    """)
WRAPS = "    net = nn.DataParallel(net)"


@pytest.mark.parametrize(
    "wraps",
    [
        pytest.param(f"if gpus > 1:\n{WRAPS}", id="on some ways"),
        pytest.param(f"if gpus > 1:\n    if big:\n    {WRAPS}", id="on fewer"),
        pytest.param(f"if big:\n{WRAPS}\nelse:\n{WRAPS}.half()", id="on each way"),
        pytest.param(f"if gpus > 1:\n    dist.init_process_group()\n{WRAPS}", id="in a group of its own"),
    ],
)
def test_a_model_that_is_wrapped_on_some_ways_is_perforated_on_all(tmp_path: Path, wraps: str) -> None:
    plan = plan_of(tmp_path, CHOSEN.replace("WRAP\n", wraps.replace("\n", "\n    ") + "\n"))
    assert plan.questions == []
    model = plan.script.models[0]
    assert (model.target, model.side) == ("net", "after")
    assert model.index.source.code(model.node).strip() == "net = Net()"
