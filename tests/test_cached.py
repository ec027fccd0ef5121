"""What an object keeps where it is asked for it first: its trainer, its model, the optimizer of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import code, plan_of, rewritten

TEXT = code("""
    import torch
    from networks import Factory

    class Trainer:
        def run(self, model, optimizer):
            model = torch.nn.DataParallel(model)
            for epoch in range(9):
                for x, y in loader:
                    optimizer.zero_grad()
                    criterion(model(x), y).backward()
                    optimizer.step()
                acc = evaluate(model)
                if acc > best:
                    best = acc

    class Builder:
        def __init__(self):
            self.factory = Factory()
            self._network = None
            self._trainer = None
            self._optimizer = None

        def get_network(self):
            if self._network is not None: return self._network
            self._network = self.factory.get_model(num_classes=2)
            return self._network

        def get_optimizer(self):
            if self._optimizer is None:
                self._optimizer = torch.optim.Adam(self.get_network().parameters(), lr=0.01)
            return self._optimizer

        def get_trainer(self):
            if self._trainer is None:
                self._trainer = Trainer()
            return self._trainer

    def main():
        builder = Builder()
        trainer = builder.get_trainer()
        return trainer.run(builder.get_network(), builder.get_optimizer())

    main()
    """)


READ = TEXT.replace("def get_", "@property\n    def ").replace("get_model", "make")
for asked in ("network", "optimizer", "trainer"):
    READ = READ.replace(f".get_{asked}()", f".{asked}")


@pytest.mark.parametrize("text", [TEXT, READ], ids=["method", "property"])
def test_a_model_that_an_object_keeps_is_perforated_where_it_is_made_first(tmp_path: Path, text: str) -> None:
    plan = plan_of(tmp_path, text)
    assert not plan.questions
    before, _, after = rewritten(plan).partition("UPA.perforate_model(")
    assert "self._network = self.factory." in before
    assert after.index("return self._network") < after.index("setup_optimizer(self.")


def test_a_model_whose_optimizer_is_built_where_it_is_wrapped_is_perforated_there(tmp_path: Path) -> None:
    text = TEXT.replace(", builder.get_optimizer())", ")").replace("model, optimizer):", "model):")
    text = text.replace(
        "    model = torch.nn", "    optimizer = torch.optim.Adam(model.parameters())\n        model = torch.nn"
    )
    new = rewritten(plan_of(tmp_path, text))
    assert new.index("def run(") < new.index("UPA.perforate_model(") < new.index("class Builder:")


def test_a_trainer_that_may_be_another_one_is_asked_about(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, TEXT.replace("self._trainer = None", "self._trainer = Other()"))
    assert "nothing was found to call `run`" in plan.questions[0].message
