"""A model that an object brings along, of which it is not seen where it is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import code, plan_of, rewritten

TEXT = code("""
    import argparse
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP
    from algos import algos

    def main(args):
        algo = algos[args.algo](8)
        algo.model.train()
        if args.distributed:
            algo.model = DDP(algo.model)
        optimizer = torch.optim.AdamW(algo.model.parameters(), lr=args.lr)
        best = 0
        for epoch in range(args.epochs):
            for x, y in loader:
                optimizer.zero_grad()
                loss = algo.model(x).mean()
                loss.backward()
                optimizer.step()
            acc = validate(algo.model)
            best = max(best, acc)

    if __name__ == "__main__":
        parser = argparse.ArgumentParser()
        parser.add_argument("--algo")
        main(parser.parse_args())
    """)
WRAPPED = "    if args.distributed:\n        algo.model = DDP(algo.model)\n"
IMPORT = "from algos import algos\n"
CLASSES = code("""
    class Plain:
        def __init__(self, width):
            self.model = torch.nn.Linear(width, 2)

    class Deep:
        def __init__(self, width):
            self.model = torch.nn.Sequential(torch.nn.Linear(width, 2))

    algos = {"plain": Plain, "deep": Deep}
    """)


@pytest.mark.parametrize(
    ("old", "new", "given"),
    [
        pytest.param("", "", "", id="made by what is not read"),
        pytest.param(IMPORT, CLASSES, "", id="of one of several classes"),
        pytest.param(
            "def main(args):\n    algo = algos[args.algo](8)\n",
            "def main(args, algo):\n",
            ", algos[name](8)",
            id="given",
        ),
        pytest.param(WRAPPED, "    algo.model = algo.model.cuda()\n" + WRAPPED, "", id="moved before"),
    ],
)
def test_model_of_an_object_is_perforated_before_it_is_wrapped(tmp_path: Path, old: str, new: str, given: str) -> None:
    plan = plan_of(tmp_path, TEXT.replace(old, new, 1).replace("parse_args())", f"parse_args(){given})"))
    text = rewritten(plan)
    assert text.count("UPA.perforate_model(") == 1
    assert text.index("    with pai_distributed.one_rank_at_a_time():\n        algo.model = ") < text.index(
        "    if args.di"
    )
    assert any("before it is wrapped" in note.message for note in plan.notes)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            WRAPPED, f"    other = torch.optim.Adam(algo.model.parameters())\n{WRAPPED}", id="optimizer before"
        ),
        pytest.param(WRAPPED, f"    fast = torch.compile(algo.model)\n{WRAPPED}", id="compiled before"),
        pytest.param(
            "    optimizer = torch.optim.AdamW(algo.model.parameters(), lr=args.lr)\n",
            "    optimizer = algo.optimizer\n",
            id="its optimizer is not seen to be built either",
        ),
        pytest.param(
            IMPORT,
            CLASSES.replace(
                "Linear(width, 2)\n\n",
                "Linear(width, 2)\n        self.optimizer = torch.optim.SGD(self.model.parameters(), 1)\n\n",
                1,
            ),
            id="one of the classes builds an optimizer",
        ),
    ],
)
def test_model_whose_parameters_may_be_taken_before_is_asked_about(tmp_path: Path, old: str, new: str) -> None:
    questions = [question.message for question in plan_of(tmp_path, TEXT.replace(old, new, 1)).questions]
    assert any("where `algo.model` is built was not found" in question for question in questions)


def test_a_model_that_a_function_wraps_in_its_place_is_not_taken_for_made_by_that(tmp_path: Path) -> None:
    text = TEXT.replace("DDP(algo.model)", "wrap(algo.model)")
    text = text.replace("def main(args)", "def wrap(net):\n    return DDP(net).to(0)\n\ndef main(args)")
    (question,) = [one.message for one in plan_of(tmp_path, text).questions if one.code == "PAI102"]
    assert "where `net` is built was not found" in question


def test_model_that_a_class_in_sight_builds_is_perforated_there(tmp_path: Path) -> None:
    text = TEXT.replace(IMPORT, CLASSES).replace("algos[args.algo](8)", "Plain(8)")
    plan = plan_of(tmp_path, text)
    assert "self.model = UPA.perforate_model(" in rewritten(plan)
    assert not any("before it is wrapped" in note.message for note in plan.notes)


@pytest.mark.parametrize("start", ["Agent().start()", "agent = Agent()\n            agent.start()"])
def test_a_model_that_a_process_gets_of_the_one_that_starts_it_is_to_be_built_in_it(tmp_path: Path, start: str) -> None:
    text = """
        import torch
        import torch.multiprocessing as mp
        from torch.nn.parallel import DistributedDataParallel as DDP

        class Agent:
            def __init__(self):
                self.actor = Net()
                self.optimizer = torch.optim.Adam(self.actor.parameters())

            def start(self):
                mp.spawn(train, nprocs=2, args=(self,))

        def train(rank, agent):
            agent.actor = DDP(agent.actor)
            best = 0
            for epoch in range(9):
                for x, y in loader:
                    agent.optimizer.zero_grad()
                    criterion(agent.actor(x), y).backward()
                    agent.optimizer.step()
                acc = validate(agent.actor)
                best = max(best, acc)

        if __name__ == "__main__":
            START
        """
    text = text.replace("START", start)
    [question] = plan_of(tmp_path, code(text)).questions
    assert question.code == "PAI102"
    assert question.message.startswith("`agent.actor` is built before the process that wraps it is started (line 11), ")
    direct = text.replace("mp.spawn(train, nprocs=2, args=(self,))", "train(0, self)")
    assert not any("before the process" in one.message for one in plan_of(tmp_path, code(direct)).questions)
