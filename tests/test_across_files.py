"""Surveys of several files: what is resolved across them, and what of them counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrofit.options import Options
from retrofit.plan import Plan, make_plan
from tests.helpers import code, recipe

MAIN = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from engine import train_one_epoch, validate

def main():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model = DDP(model)
    best_acc = 0
    for epoch in range(10):
        train_one_epoch(model, loader, optimizer)
        acc = validate(model)
        best_acc = max(best_acc, acc)

main()
"""
ENGINE = """
import torch

def train_one_epoch(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

def validate(model):
    return model.score()
"""


@pytest.fixture
def plan_project(tmp_path: Path):
    """Return a function that plans an apply on `main.py` among further files."""

    def make(main: str, **files: str) -> Plan:
        (tmp_path / "main.py").write_text(code(main))
        for name, text in files.items():
            path = tmp_path / (f"{name}.py")
            path.parent.mkdir(exist_ok=True)
            path.write_text(code(text))
        return make_plan(tmp_path / "main.py", "main.py", recipe(), Options())

    return make


def changed(plan: Plan) -> dict[str, str]:
    """Return the new texts of the files that were there before, by their names."""
    assert plan.questions == []
    return {file.path.name: file.after.decode() for file in plan.files if file.before is not None}


def test_the_loop_may_be_a_method_of_an_object_from_another_file(plan_project):
    main = """
    import torch
    from trainer import Trainer

    if __name__ == "__main__":
        trainer = Trainer(Net())
        for epoch in range(10):
            trainer.train(epoch)
            acc = trainer.validate()
            trainer.best = max(trainer.best, acc)
    """
    trainer = """
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP

    class Trainer:
        def __init__(self, model):
            self.best = 0
            self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            self.model = DDP(model)

        def train(self, epoch):
            for x, y in self.loader:
                self.optimizer.zero_grad()
                self.model(x).backward()
                self.optimizer.step()

        def validate(self):
            return 1.0
    """
    plan = plan_project(main, trainer=trainer)
    assert [loop.target for loop in plan.script.loops] == ["epoch"]


def test_attributes_and_methods_of_a_base_class_in_another_file_are_the_same_objects(plan_project):
    base = """
    class BaseTrainer:
        def __init__(self, model, optimizer):
            self.model = model
            self.optimizer = optimizer
            self.best_acc = 0

        def _train_epoch(self, epoch):
            raise NotImplementedError

        def train(self):
            for epoch in range(10):
                acc = self._train_epoch(epoch)
                if acc > self.best_acc:
                    self.best_acc = acc
    """
    trainer = """
    from base import BaseTrainer

    class Trainer(BaseTrainer):
        def __init__(self, model, optimizer, loader):
            super().__init__(model, optimizer)
            self.loader = loader

        def _train_epoch(self, epoch):
            for x, y in self.loader:
                self.optimizer.zero_grad()
                loss = self.model(x)
                loss.backward()
                self.optimizer.step()
            return self.score()
    """
    main = """
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP
    from trainer import Trainer

    def main():
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model = DDP(model)
        Trainer(model, optimizer, loader).train()

    main()
    """
    texts = changed(plan_project(main, trainer=trainer, base=base))
    assert "fill_missing_gradients(self.model)" in texts["trainer.py"]
    assert "report_validation_score(acc, self.model)" in texts["base.py"]


def test_a_name_that_a_package_imports_from_itself_is_no_endless_search(plan_project):
    package = "from package import models\n# DataParallel"
    main = MAIN.replace("import torch\n", "import torch\nimport package\npackage.models.build()\n", 1)
    assert "main.py" in changed(plan_project(main, engine=ENGINE, **{"package/__init__": package}))


def test_a_global_statement_at_module_level_is_no_endless_search(plan_project):
    main = MAIN + "\nif True:\n    global step\n    step = 1\n"
    assert "main.py" in changed(plan_project(main, engine=ENGINE))


def test_only_what_the_entry_script_uses_of_a_module_counts(plan_project):
    other = """

    def main():
        net = torch.nn.DataParallel(Net())
        optimizer = torch.optim.Adam(net.parameters())
        for epoch in range(3):
            for x in loader:
                optimizer.zero_grad()
                net(x).backward()
                optimizer.step()

    if __name__ == "__main__":
        main()
    """
    texts = changed(plan_project(MAIN, engine=ENGINE + code(other)))
    assert texts["engine.py"].count("fill_missing_gradients") == 1


def test_a_backward_in_a_helper_that_does_not_know_the_model_is_edited_at_its_call(plan_project):
    engine = ENGINE.replace("loss.backward()\n        optimizer.step()", "scaler(loss, optimizer)")
    engine = engine.replace("import torch\n", "import torch\nfrom misc import Scaler\nscaler = Scaler()\n", 1)
    misc = """
    class Scaler:
        def __call__(self, loss, optimizer):
            loss.backward()
            optimizer.step()
    """
    texts = changed(plan_project(MAIN, engine=engine, misc=misc))
    assert "misc.py" not in texts
    assert "fill_missing_gradients(model)\n        scaler(loss, optimizer)\n        if " in texts["engine.py"]


def test_a_scaler_of_another_project_holds_the_backward_pass(plan_project):
    engine = ENGINE.replace("loss.backward()\n        optimizer.step()", "loss_scaler(loss, optimizer)")
    engine = engine.replace("loader, optimizer)", "loader, optimizer, loss_scaler)")
    main = MAIN.replace("loader, optimizer)", "loader, optimizer, NativeScaler())")
    main = main.replace("torch.optim.SGD(model.parameters(), lr=0.1)", "create_optimizer(args, model)")
    main = main.replace("import torch\n", "from timm.utils import NativeScaler\nfrom timm.optim import create_optimizer\n")
    texts = changed(plan_project(main, engine=engine))
    assert "fill_missing_gradients(model)\n        loss_scaler(loss, optimizer)\n        if " in texts["engine.py"]
    assert "set_optimizer_instance(optimizer)" in texts["main.py"]
