"""A model that several functions make, of which a run takes one, and that one function gets from all of them."""

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
