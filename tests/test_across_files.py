"""Surveys of several files: what is resolved across them, and what of them counts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from retrofit.evaluate import Evaluator
from retrofit.options import Options
from retrofit.plan import Plan, make_plan
from tests.helpers import code, plan_of_project, recipe

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

Planner = Callable[..., Plan]


@pytest.fixture
def plan_project(tmp_path: Path) -> Planner:
    """Return a function that plans an apply on `main.py` among further files."""

    def make(main: str, options: Options | None = None, **files: str) -> Plan:
        (tmp_path / "main.py").write_text(code(main))
        for name, text in files.items():
            path = tmp_path / (f"{name}.py")
            path.parent.mkdir(exist_ok=True)
            path.write_text(code(text))
        return make_plan(tmp_path / "main.py", "main.py", recipe(), options or Options())

    return make


def changed(plan: Plan) -> dict[str, str]:
    """Return the new texts of the files that were there before, by their names."""
    assert plan.questions == []
    return {file.path.name: file.after.decode() for file in plan.files if file.before is not None}


PROGRAM = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def build():
    return Net()

def train(best):
    model = DDP(build())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(9):
        for x, y in loader:
            criterion(model(x), y).backward()
            optimizer.step()
        acc = validate(model)
        best = max(best, acc)
"""


@pytest.mark.parametrize(
    ("does", "asked"),
    [
        ("command = 'N={} python ./lib/fit.py'\nsubprocess.Popen(command.format(3), shell=True)", True),
        ("text = 'python {}'\ncommand = text.format('./lib/fit.py')\nsubprocess.run(command, shell=True)", True),
        ("subprocess.run([sys.executable, 'lib/fit.py'])", True),
        ("os.system('python lib/fit.py')", True),
        ("subprocess.run(command())\n\ndef command():\n    return ['python', 'lib/fit.py']", True),
        ("words = ['python']\nwords.append('lib/fit.py')\nsubprocess.run(words)", True),
        ("for script in ['lib/prepare.py', 'lib/fit.py']:\n    subprocess.run(['python', script])", True),
        ("words = ['lib/fit.py']\nsubprocess.run(['git', 'log', 'lib'])", False),
        ("subprocess.run(['git', 'log', 'lib'])", False),
        ("subprocess.run([sys.executable, 'lib/prepare.py'])", False),
        ("os.system('python lib/fit.py')\nfit.train(0)", False),
    ],
)
def test_a_script_that_only_starts_the_one_that_trains_is_asked_about(
    plan_project: Planner, does: str, asked: bool
) -> None:
    main = f"import os, subprocess, sys\nfrom lib import fit\nnet = fit.build()\n{does}\n"
    plan = plan_project(main, **{"lib/fit": PROGRAM})
    told = [one for one in plan.questions if "as a program of its own" in one.message]
    assert [one.code for one in told] == ["PAI104"] * asked
    assert all("fit.py) as a program" in one.message and one.line >= 4 for one in told)


def test_what_a_module_does_as_a_program_of_its_own_is_no_part_of_the_training(plan_project: Planner) -> None:
    own = """
if __name__ == "__main__":
    weights = torch.rand(3, requires_grad=True)
    optimizer = torch.optim.Adam([weights])
    for step in range(9):
        optimizer.zero_grad()
        weights.sum().backward()
        optimizer.step()
"""
    texts = changed(plan_project(MAIN, engine=ENGINE + own))
    assert texts["engine.py"].endswith(own)


def test_the_loop_may_be_a_method_of_an_object_from_another_file(plan_project: Planner) -> None:
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


def test_attributes_and_methods_of_a_base_class_in_another_file_are_the_same_objects(plan_project: Planner) -> None:
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


def test_a_copy_that_takes_the_models_place_in_the_end_is_not_handed_over_as_the_model(plan_project: Planner) -> None:
    main = """
    import copy
    import torch

    class Manager:
        def __init__(self):
            self.model = Net()
            self.model = torch.nn.DataParallel(self.model)
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

        def train(self):
            best = 0
            best_model = None
            for epoch in range(10):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    self.model(x).backward()
                    self.optimizer.step()
                acc = validate(self.model)
                if acc > best:
                    best = acc
                    best_model = copy.deepcopy(self.model)
            self.model = best_model

    Manager().train()
    """
    plan = plan_project(main)
    assert not plan.questions
    new = next(one.after.decode() for one in plan.files if one.before)
    assert "report_validation_score(acc, self.model, leave=False)" in new


def test_what_a_registry_makes_besides_the_model_is_not_handed_over_as_the_model(plan_project: Planner) -> None:
    main = """
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP

    class Registry:
        def __init__(self):
            self.items = {}

        def build(self, kind, **given):
            return self.items[kind](**given)

    class BaseTrainer:
        def __init__(self):
            self.evaluator = None

        def before_train(self):
            model = MODELS.build("net")
            self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model = DDP(model)
            self.model = model
            self.evaluator = self.build_evaluator()
            self.best = 0

        def build_evaluator(self):
            raise NotImplementedError

        def train(self):
            self.before_train()
            for self.epoch in range(10):
                self.train_epoch()
                self.after_epoch()

        def train_epoch(self):
            for x, y in loader:
                self.optimizer.zero_grad()
                self.model(x).backward()
                self.optimizer.step()

        def after_epoch(self):
            self.evaluate_and_save()

        def evaluate_and_save(self):
            score = self.evaluator(self.model)["top1"]
            if score > self.best:
                self.best = score

    class Trainer(BaseTrainer):
        def build_evaluator(self):
            return EVALUATORS.build("top1", loader=loader)

    MODELS, EVALUATORS = Registry(), Registry()
    MODELS.items["net"] = Net
    EVALUATORS.items["top1"] = Evaluator
    Trainer().train()
    """
    text = changed(plan_project(main))["main.py"]
    assert "report_validation_score(pai_distributed.noted_score(), self.model)" in text


def test_a_name_that_a_package_imports_from_itself_is_no_endless_search(plan_project: Planner) -> None:
    package = "from package import models\n# DataParallel"
    main = MAIN.replace("import torch\n", "import torch\nimport package\npackage.models.build()\n", 1)
    assert "main.py" in changed(plan_project(main, engine=ENGINE, **{"package/__init__": package}))


def test_a_global_statement_at_module_level_is_no_endless_search(plan_project: Planner) -> None:
    main = MAIN + "\nif True:\n    global step\n    step = 1\n"
    assert "main.py" in changed(plan_project(main, engine=ENGINE))


def test_a_function_may_be_imported_in_a_branch_under_another_name_and_returned_with_others(
    plan_project: Planner,
) -> None:
    main = MAIN.replace(
        "from engine import train_one_epoch, validate\n",
        """
def setup(own):
    try:
        train, test = own.get_train(), own.get_test()
    except AttributeError:
        from engine import train_one_epoch as train
        from engine import validate as test
    return train, test
""",
    )
    main = main.replace("    model = Net()\n", "    train, test = setup(own)\n    model = Net()\n")
    main = main.replace("train_one_epoch(model", "train(model").replace("validate(model)", "test(model)")
    texts = changed(plan_project(main, engine=ENGINE))
    assert texts["engine.py"].count("fill_missing_gradients") == 1
    assert "report_validation_score(acc, model)" in texts["main.py"]


def test_only_what_the_entry_script_uses_of_a_module_counts(plan_project: Planner) -> None:
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


def test_what_a_module_does_as_a_program_of_its_own_does_not_count(plan_project: Planner) -> None:
    other = """

    if __name__ == "__main__":
        x = Image()
        optimizer = torch.optim.Adam([x])
        for i in range(3):
            optimizer.zero_grad()
            model(x).backward()
            optimizer.step()
    """
    texts = changed(plan_project(MAIN, engine=ENGINE + code(other)))
    assert texts["engine.py"].count("fill_missing_gradients") == 1


#: A copied library: a class that nothing makes is extended by another one.
KEEPER = """
import os
import torch

class Keeper:
    def keep(self, model, folder):
        os.makedirs(folder)
        torch.save(model.state_dict(), os.path.join(folder, "model.pt"))
"""
KEEPER_OF_BEST = """
from library.keeper import Keeper

class KeeperOfBest(Keeper):
    def keep(self, model, folder):
        if model.score() > self.best:
            super().keep(model, folder)
"""


@pytest.mark.parametrize(
    ("further", "counts"),
    [
        ("", False),
        ("\ndef describe(keeper: KeeperOfBest):\n    return KeeperOfBest.__name__\n", False),
        ("\nclass KeeperOfLast(KeeperOfBest):\n    pass\n", False),
        ("\nKeeperOfBest().keep(model, folder)\n", True),
        ("\nclass KeeperOfLast(KeeperOfBest):\n    pass\n\nrun(KeeperOfLast)\n", True),
        ("\nkeepers = {kind.__name__: kind for kind in Keeper.__subclasses__()}\n", True),
    ],
)
def test_a_class_that_is_only_extended_by_what_nothing_makes_does_not_count(
    plan_project: Planner, further: str, counts: bool
) -> None:
    engine = ENGINE.replace("import torch\n", "import torch\nfrom library import KeeperOfBest\n", 1)
    package = "from library.keeper import Keeper\nfrom library.best import KeeperOfBest\n"
    files = {"library/keeper": KEEPER, "library/best": KEEPER_OF_BEST + further, "library/__init__": package}
    assert ("keeper.py" in changed(plan_project(MAIN, engine=engine, **files))) is counts


def test_a_backward_in_a_helper_is_edited_there_though_it_does_not_know_the_model(plan_project: Planner) -> None:
    engine = ENGINE.replace("loss.backward()\n        optimizer.step()", "scaler(loss, optimizer)")
    engine = engine.replace("import torch\n", "import torch\nfrom misc import Scaler\nscaler = Scaler()\n", 1)
    misc = """
    class Scaler:
        def __call__(self, loss, optimizer):
            loss.backward()
            optimizer.step()
    """
    texts = changed(plan_project(MAIN, engine=engine, misc=misc))
    assert "engine.py" not in texts
    assert "fill_missing_gradients()\n        loss.backward()\n        if " in texts["misc.py"]


def test_a_scaler_of_another_project_holds_the_backward_pass(plan_project: Planner) -> None:
    engine = ENGINE.replace("loss.backward()\n        optimizer.step()", "loss_scaler(loss, optimizer)")
    engine = engine.replace("loader, optimizer)", "loader, optimizer, loss_scaler)")
    main = MAIN.replace("loader, optimizer)", "loader, optimizer, NativeScaler())")
    main = main.replace("torch.optim.SGD(model.parameters(), lr=0.1)", "create_optimizer(args, model)")
    main = main.replace(
        "import torch\n", "from timm.utils import NativeScaler\nfrom timm.optim import create_optimizer\n"
    )
    texts = changed(plan_project(main, engine=engine))
    assert "fill_missing_gradients(model)\n        loss_scaler(loss, optimizer)\n        if " in texts["engine.py"]
    assert "set_optimizer_instance(optimizer)" in texts["main.py"]


def test_a_package_may_only_pass_on_what_its_modules_define(plan_project: Planner) -> None:
    files = {"tools/__init__": "from .engine import *", "tools/engine": ENGINE}
    texts = changed(
        plan_project(MAIN.replace("from engine import train_one_epoch, validate", "from tools import *"), **files)
    )
    assert "fill_missing_gradients(model)" in texts["engine.py"]


def test_a_module_may_add_the_folder_of_the_others_to_the_path(plan_project: Planner) -> None:
    paths = """
    import os.path as osp
    import sys

    here = osp.dirname(__file__)
    lib = osp.join(here, "lib")
    sys.path.insert(0, lib)
    """
    main = MAIN.replace("from engine", "import _init_paths\nfrom engine")
    texts = changed(plan_project(main, **{"_init_paths": paths, "lib/engine": ENGINE}))
    assert "fill_missing_gradients(model)" in texts["engine.py"]


def test_what_gets_the_model_with_its_optimizer_does_not_build_it(plan_project: Planner) -> None:
    main = MAIN.replace("torch.optim.SGD(model.parameters(), lr=0.1)", "create_optimizer(args, model)")
    main = main.replace(
        "    model = DDP", "    if use_amp:\n        model, optimizer = prepare(model, optimizer)\n    model = DDP"
    )
    texts = changed(plan_project(main, engine=ENGINE))
    assert texts["main.py"].index("perforate_model(") < texts["main.py"].index("create_optimizer(")


def test_a_model_that_is_given_with_its_optimizer_and_taken_back_is_no_factorys(plan_project: Planner) -> None:
    main = MAIN.replace("torch.optim.SGD(model.parameters(), lr=0.1)", "create_optimizer(model, args)")
    main = main.replace(
        "    model = DDP",
        "    if use_amp:\n        model, optimizer = amp.initialize(model, optimizer)\n    model = DDP",
    )
    texts = changed(plan_project(main, engine=ENGINE))
    assert texts["main.py"].index("perforate_model(") < texts["main.py"].index("create_optimizer(")


DATA_PARALLEL = """
import torch

def build_optimizer(args, model):
    if args.adam:
        optimizer = torch.optim.Adam(model.parameters())
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return optimizer

def main(args):
    model = torch.nn.DataParallel(Net())
    optimizer = build_optimizer(args, model)
    SCHEDULER
    best_acc = 0
    for epoch in range(10):
        for x, y in loader:
            optimizer.zero_grad()
            model(x).backward()
            optimizer.step()
            STEP
        acc = validate(model)
        best_acc = max(best_acc, acc)

main(parse())
"""


@pytest.mark.parametrize(
    "choice",
    [
        "torch.optim.Adam(model.parameters()) if args.adam else torch.optim.SGD(model.parameters())",
        "{'adam': torch.optim.Adam(model.parameters()), 'sgd': torch.optim.SGD(model.parameters())}[args.optimizer]",
    ],
)
@pytest.mark.parametrize("wrapper", ["DataParallel", "parallel.DistributedDataParallel"])
def test_an_optimizer_may_be_chosen_in_an_expression(plan_project: Planner, choice: str, wrapper: str) -> None:
    main = DATA_PARALLEL.replace("    SCHEDULER\n", "").replace("            STEP\n", "")
    main = main.replace("build_optimizer(args, model)", choice).replace("DataParallel", wrapper)
    text = changed(plan_project("import torch" + main[main.index("\n\ndef main") :]))["main.py"]
    assert f"{choice}\n    GPA.pai_tracker.set_optimizer_instance(optimizer)\n" in text


def test_an_optimizer_made_by_a_method_of_an_object_from_elsewhere_is_that_methods(plan_project: Planner) -> None:
    main = MAIN.replace("torch.optim.SGD(model.parameters(), lr=0.1)", "find_exp(name).get_optimizer(16)")
    main = main.replace("import train_one_epoch, validate", "import *")
    exp = """

class Exp:
    def get_optimizer(self, batch):
        optimizer = torch.optim.SGD(self.biases, lr=0.1)
        optimizer.add_param_group({"params": self.weights})
        return optimizer

known = {"base": Exp}
"""
    texts = changed(plan_project(main, engine=ENGINE + exp))
    assert "lr=0.1)\n        pai_distributed.set_optimizer_instance(optimizer)\n" in texts["engine.py"]
    assert "set_optimizer" not in texts["main.py"]


def test_a_model_may_be_built_and_wrapped_by_a_function_and_loaded_by_another(plan_project: Planner) -> None:
    main = """
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP
    from engine import train_one_epoch, validate

    def load_weights(path, model):
        model.load_state_dict(torch.load(path))
        return model

    def resume(path, model, optimizer):
        model = load_weights(path, model)
        return model, optimizer

    def init_model():
        model = Net()
        model.fc = torch.nn.Linear(2, 2)
        model = load_weights("start.pt", model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model = DDP(model)
        return model, optimizer

    def main():
        model, optimizer = init_model()
        if args.resume:
            model, optimizer = resume(path, model, optimizer)
        best_acc = 0
        for epoch in range(10):
            train_one_epoch(model, loader, optimizer)
            acc = validate(model)
            best_acc = max(best_acc, acc)

    main()
    """
    text = changed(plan_project(main, engine=ENGINE))["main.py"]
    assert text.count("perforate_model(") == 1
    assert text.index('load_weights("start.pt", model)') < text.index("perforate_model(") < text.index("SGD")


def test_an_optimizer_may_be_wrapped_by_another_in_the_function_that_builds_it(plan_project: Planner) -> None:
    build = """
def build(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if use_lars:
        optimizer = LARS(optimizer)
    return optimizer, 1
"""
    main = MAIN.replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", "optimizer, rate = build(model)")
    text = changed(plan_project(main.replace("def main", build + "\ndef main"), engine=ENGINE))["main.py"]
    assert "LARS(optimizer)\n    GPA.pai_tracker.set_optimizer_instance(optimizer)\n" in text


def test_of_a_dict_that_holds_an_optimizer_the_item_is_handed_over(plan_project: Planner) -> None:
    made = "torch.optim.SGD(model.parameters()"
    main = MAIN.replace(f"optimizer = {made}, lr=0.1)", f"state = {{'o': {made})}}")
    text = changed(plan_project(main.replace("loader, optimizer)", "loader, state['o'])"), engine=ENGINE))["main.py"]
    assert "GPA.pai_tracker.set_optimizer_instance(state['o'])\n" in text


OBJECT = """
import torch
from trainer import Trainer

def main(args):
    trainer = Trainer(args)
    for epoch in range(args.epochs):
        trainer.train(epoch)
        trainer.validate(epoch)

main(parse())
"""
TRAINER = """
import torch

class Trainer:
    def __init__(self, args):
        model = Net()
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.model = WRAPPER(model)
        self.best = 0

    def train(self, epoch):
        for x, y in loader:
            self.optimizer.zero_grad()
            criterion(self.model(x), y).backward()
            self.optimizer.step()

    def validate(self, epoch):
        acc = self.model.score()
        if acc > self.best:
            self.best = acc
"""


@pytest.mark.parametrize("wrapper", ["torch.nn.parallel.DistributedDataParallel", "torch.nn.DataParallel"])
def test_a_score_is_handed_over_where_the_model_has_no_name(plan_project: Planner, wrapper: str) -> None:
    texts = changed(plan_project(OBJECT, trainer=TRAINER.replace("WRAPPER", wrapper)))
    assert "        pai_distributed.report_validation_score(pai_score)\n" in texts["main.py"]
    assert texts["trainer.py"].endswith("            self.best = acc\n        return acc\n")


def test_a_line_of_another_file_is_named_with_it(plan_project: Planner) -> None:
    rate = "\n\ndef set_rate(optimizer, lr):\n    for group in optimizer.param_groups:\n        group['lr'] = lr\n"
    main = MAIN.replace(
        "    for epoch in range(10):\n", "    for epoch in range(10):\n        set_rate(optimizer, 1)\n"
    )
    plan = plan_project(main.replace("import train_one", "import set_rate, train_one"), engine=ENGINE + rate)
    reasons = {what: source for what, _, source in plan.decisions}
    assert reasons["optimizer"] == "line 16 of engine.py sets the learning rate by hand"
    assert reasons["validation score"].startswith("line 14: best_acc")


def test_a_score_that_has_a_second_name_is_made_where_it_gets_it(plan_project: Planner) -> None:
    engine = ENGINE.replace(
        "    return model.score()",
        "    global best\n    total = run()\n    new = total\n    if new > best:\n        best = new",
    )
    main = MAIN.replace("acc = validate(model)\n        best_acc = max(best_acc, acc)", "validate(model)")
    texts = changed(plan_project(main, engine=engine))
    assert texts["engine.py"].rstrip().endswith("return new")


def test_a_backward_of_something_else_is_left_alone(plan_project: Planner) -> None:
    main = MAIN.replace("    best_acc = 0\n", "    profile([Layer()])\n    best_acc = 0\n")
    profile = "\n\ndef profile(layers):\n    for layer in layers:\n        layer(x).sum().backward()\n"
    main = main.replace("import train_one", "import profile, train_one")
    texts = changed(plan_project(main, engine=ENGINE + profile))
    assert texts["engine.py"].count("fill_missing_gradients(") == 1


def test_a_backward_without_the_model_in_sight_is_asked_for(plan_project: Planner) -> None:
    engine = ENGINE.replace("(model, loader, optimizer)", "(step, loader, optimizer)").replace(
        "criterion(model(x), y)", "step(x, y)"
    )
    main = MAIN.replace("train_one_epoch(model, ", "train_one_epoch(Step(), ").replace(
        "    for epoch", "    run = train_one_epoch\n    for epoch"
    )
    main = main.replace("        train_one_epoch(Step()", "        run(Step()")
    questions = plan_project(
        main.replace("run = train", "run = traced(train").replace("epoch\n    for", "epoch)\n    for"), engine=engine
    ).questions
    assert {question.code for question in questions} == {"PAI104"}
    assert "pai_distributed.fill_missing_gradients()\n" in changed(plan_project(main, engine=engine))["engine.py"]


def test_a_function_that_loads_pretrained_weights_is_no_resume(plan_project: Planner) -> None:
    load = "\n\ndef load_weights(path, net):\n    net.load_state_dict(torch.load(path))\n"
    main = MAIN.replace(
        "    optimizer =", "    if config.pretrained:\n        load_weights('w.pt', model)\n    optimizer ="
    )
    main = main.replace("import train_one", "import load_weights, train_one")
    assert "not pai_distributed.load_folder()" not in changed(plan_project(main, engine=ENGINE + load))["main.py"]


def test_file_that_trains_and_cannot_be_read_is_told_instead_of_what_it_lacks(plan_project: Planner) -> None:
    old = ENGINE.replace("criterion(model(x), y)", "criterion(model(x.cuda(async=True)), y)")
    (question,) = plan_project(MAIN, engine=old).questions
    assert str(question).startswith("engine.py:6:")
    assert question.code == "RF004"


def test_file_that_cannot_be_read_and_does_not_train_is_passed_over(plan_project: Planner) -> None:
    main = "import draw\n" + MAIN.lstrip()
    assert not plan_project(main, engine=ENGINE, draw="import argparse\nprint 'epoch'\n").questions


ENGINES = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Engine:
    def __init__(self, model):
        self.model = model
        self.best = 0

    def run(self):
        for self.epoch in range(9):
            self.train()
            acc = self.validate()
            self.best = max(self.best, acc)

    def train(self):
        for x, y in self.loader:
            self.step(x, y)

    def step(self, x, y):
        raise NotImplementedError

class Plain(Engine):
    def step(self, x, y):
        optimizer.zero_grad()
        self.model(x).backward()
        optimizer.step()

class Mixed(Engine):
    def step(self, x, y):
        optimizer.zero_grad()
        (2 * self.model(x)).backward()
        optimizer.step()

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model = DDP(model)
"""
CHOICE = "engine = Plain(model) if plain else Mixed(model)\nengine.run()\n"


@pytest.mark.parametrize(
    "choice",
    [
        pytest.param(CHOICE, id="expression"),
        pytest.param(CHOICE.replace(CHOICE.splitlines()[0], "engine = (Plain if plain else Mixed)(model)"), id="class"),
        pytest.param("KINDS = {'a': Plain, 'b': Mixed}\nengine = KINDS[kind](model)\nengine.run()\n", id="dict"),
        pytest.param(
            "def build():\n    if plain:\n        return Plain(model)\n    return Mixed(model)\nbuild().run()\n",
            id="function",
        ),
    ],
)
def test_every_engine_that_may_be_chosen_is_rewritten(plan_project: Planner, choice: str) -> None:
    (text,) = changed(plan_project(ENGINES + choice)).values()
    assert text.count("pai_distributed.finish_initialization()") == 2
    assert text.count("pai_distributed.report_validation_score(") == 1


def test_an_engine_that_the_script_does_not_use_stays(plan_project: Planner) -> None:
    head, _, tail = ENGINES.partition("model = Net()")
    main = "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\nfrom engines import Plain\n\n"
    main += f"model = Net(){tail}engine = Plain(model)\nengine.run()\n"
    texts = changed(plan_project(main, engines=head))
    assert texts["engines.py"].count("pai_distributed.finish_initialization()") == 1


def test_engines_of_several_files_under_one_name(plan_project: Planner) -> None:
    engine = """
    class E:
        def __init__(self, model):
            self.model = model

        def train(self):
            for x, y in loader:
                optimizer.zero_grad()
                self.model(x).backward()
                optimizer.step()
    """
    main = """
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP

    def make(kind, model):
        if kind == "a":
            from first import E
        else:
            from second import E
        return E(model)

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model = DDP(model)
    engine = make(kind, model)
    for epoch in range(9):
        engine.train()
        acc = validate(model)
        best = max(best, acc)
    """
    texts = changed(plan_project(main, first=engine, second=engine))
    assert all("finish_initialization" in texts[name] for name in ("first.py", "second.py"))


def test_one_name_that_two_functions_import_from_two_files(plan_project: Planner) -> None:
    main = MAIN.replace("from engine import train_one_epoch, validate\n", "")
    main = main.replace("def main():", "def main():\n    from engine import train_one_epoch, validate")
    main += "\ndef other():\n    from pretraining import train_one_epoch\n"
    texts = changed(plan_project(main, engine=ENGINE, pretraining=ENGINE))
    assert set(texts) == {"main.py", "engine.py"}


FACTORY = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
import nets
from engine import Engine

def make(kind, *args):
    return getattr(*kind)(*args)

def main():
    model = make((nets, "Net"))
    many = torch.cuda.device_count() > 1
    if many:
        wrapped = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    lr_scheduler = make((nets, "Warmup"), optimizer)
    Engine(lr_scheduler, wrapped if many else model, optimizer).run()

main()
"""
STEPPED = """
class Engine:
    def __init__(self, lr_scheduler, model, optimizer):
        self.lr_scheduler = lr_scheduler
        self.model = model
        self.optimizer = optimizer

    def run(self):
        best = 0
        for epoch in range(9):
            self.lr_scheduler.step()
            self.train()
            acc = self.validate()
            best = max(best, acc)

    def train(self):
        for x, y in loader:
            self.optimizer.zero_grad()
            criterion(self.model(x), y).backward()
            self.optimizer.step()

    def validate(self):
        with torch.no_grad():
            return sum((self.model(x) == y).sum() for x, y in loader)
"""


@pytest.mark.parametrize(
    ("old", "new", "model"),
    [
        pytest.param("", "", "self.model", id="another by the factory"),
        pytest.param('make((nets, "Warmup"), optimizer)', "None", "self.model", id="none"),
        pytest.param("(lr_scheduler, ", "(wrapped, ", "self.lr_scheduler", id="the model by another name"),
        pytest.param(
            "(lr_scheduler, wrapped if many else model", '(None, make((nets, "Net"))', "", id="in place of it"
        ),
    ],
)
def test_what_a_factory_of_models_makes_besides_is_not_trained_in_place_of_the_wrapped_one(
    plan_project: Planner, old: str, new: str, model: str
) -> None:
    plan = plan_project(FACTORY.replace(old, new, 1), engine=STEPPED)
    if model:
        assert f"pai_distributed.report_validation_score(acc, {model})" in changed(plan)["engine.py"]
    else:
        assert [(one.code, one.message.partition(" is")[0]) for one in plan.questions] == [
            ("PAI102", '`make((nets, "Net"))`')
        ]


def test_models_that_each_of_several_classes_builds_are_no_single_one(plan_project: Planner) -> None:
    own = ENGINES.replace("self.model = model", "self.build()").replace("model = Net()\n", "")
    own = own.replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nmodel = DDP(model)\n", "")
    own = own.replace("    def run(self):", "        self.model = DDP(self.model)\n\n    def run(self):")
    for name in ("Plain", "Mixed"):
        head = f"class {name}(Engine):\n"
        own = own.replace(head, f"{head}    def build(self):\n        self.model = {name}Net()\n\n")
    questions = plan_project(own + CHOICE.replace("(model)", "()")).questions
    told = [question.message for question in questions if question.code == "PAI102"]
    assert len(told) == 1
    assert "`Plain` (line" in told[0]
    assert "`Mixed` (line" in told[0]


def test_a_helper_that_also_wraps_what_is_not_trained_is_not_asked_about(plan_project: Planner) -> None:
    main = MAIN.replace("    model = DDP(model)\n", "    model = wrap(model)\n    other = wrap(Net())\n")
    main = main.replace("def main():", "def wrap(net):\n    return DDP(net)\n\ndef main():")
    text = changed(plan_project(main, engine=ENGINE))["main.py"]
    assert text.count("UPA.perforate_model(") == 1
    assert text.index("model = UPA.perforate_model(") < text.index("model = wrap(model)")


def test_a_script_that_runs_only_as_a_module_is_told_so(plan_project: Planner) -> None:
    main = MAIN.replace("from engine", "import parts\nfrom .engine")
    (question,) = plan_project(main, engine=ENGINE, parts="").questions
    assert (question.code, question.line) == ("PAI107", 4)
    guarded = "try:\n    from .engine import train_one_epoch, validate\nexcept ImportError:\n    from engine import "
    main = MAIN.replace("from engine import ", guarded)
    assert set(changed(plan_project(main, engine=ENGINE))) == {"main.py", "engine.py"}


def test_a_relative_import_that_an_option_leads_to_is_only_told(plan_project: Planner) -> None:
    main = MAIN.replace("    best_acc = 0\n", "    best_acc = 0\n    if zipped:\n        from .data import Zip\n", 1)
    (note,) = plan_project(main, engine=ENGINE, data="class Zip:\n    pass\n").notes
    assert (note.code, "`from .data import Zip` works only" in note.message) == ("PAI107", True)
    main = MAIN.replace("main()\n", "if __name__ == '__main__':\n    from .data import Zip\n    main()\n")
    assert [
        question.code for question in plan_project(main, engine=ENGINE, data="class Zip:\n    pass\n").questions
    ] == ["PAI107"]


@pytest.fixture
def plan_in_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Plan]:
    """Return a function that plans an apply on `main.py` of a package, from the folder above it."""
    monkeypatch.chdir(tmp_path)

    def make(
        package: str, main: str, wrapper: str = "DistributedDataParallel", in_process: bool = False, **files: str
    ) -> Plan:
        (tmp_path / package).mkdir(parents=True)
        for name, text in {"main": main.replace("DistributedDataParallel", wrapper), "engine": ENGINE, **files}.items():
            (tmp_path / package / f"{name}.py").write_text(code(text))
        shown = f"{package}/main.py"
        return make_plan(tmp_path / shown, shown, recipe(), Options(in_process=in_process))

    return make


def starts_as(launcher: str, module: str) -> bool:
    """Whether a launch script tells its program of a module that is started in the script's place."""
    return f'"$above" \\\n    {module} "$here/' in launcher


@pytest.mark.parametrize(
    "imports", ["from .engine", "from tiny.inner.engine import *\nfrom . import engine\nfrom .engine"]
)
def test_a_script_that_runs_only_as_a_module_is_started_as_one(
    plan_in_package: Callable[..., Plan], tmp_path: Path, imports: str
) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "__init__.py").write_text("")
    main = MAIN.replace("from engine", imports).replace(
        "import torch\n", "import torch\nfrom ..inner.engine import validate\n", 1
    )
    plan = plan_in_package("tiny/inner", main, __init__="")
    assert set(changed(plan)) == {"main.py", "engine.py"}
    new = {
        str(file.path.relative_to(tmp_path.resolve())): file.after.decode()
        for file in plan.files
        if file.before is None
    }
    assert {name for name in new if not name.startswith("pai_distributed/")} == {"tiny/inner/train_distributed.sh"}
    launcher = new["tiny/inner/train_distributed.sh"]
    assert starts_as(launcher, "tiny.inner.main")
    assert 'dirname -- "$PYTHON_SCRIPT")/../.." && pwd' in launcher


OWN = "from tiny.inner.engine import train_one_epoch, validate\n"
ADDED = "import os, sys\nsys.path.append(os.path.join(os.path.dirname(__file__), '../..'))\n"


@pytest.mark.parametrize(
    ("imports", "started"),
    [
        pytest.param(OWN, True, id="no other way"),
        pytest.param(f"{ADDED}{OWN}", False, id="a folder that is added"),
        pytest.param(f"import parts\n{OWN}", False, id="a plain import from beside it"),
    ],
)
def test_a_script_that_imports_its_own_package_by_name_is_started_as_a_module(
    plan_in_package: Callable[..., Plan], imports: str, started: bool
) -> None:
    main = MAIN.replace("from engine import train_one_epoch, validate\n", imports)
    plan = plan_in_package("tiny/inner", main, parts="")
    assert set(changed(plan)) == {"main.py", "engine.py"}
    new = {file.path.relative_to(Path.cwd().resolve()).as_posix(): file.after.decode() for file in plan.files}
    assert starts_as(new["tiny/inner/train_distributed.sh"], "tiny.inner.main") is started
    assert ("pai_distributed/__init__.py" in new) is started


@pytest.mark.parametrize("mark", [".git", "pyproject.toml", "setup.py"])
@pytest.mark.parametrize(("beside", "started"), [("", True), ("import own\n", False)])
def test_a_script_beside_the_packages_of_a_project_is_started_as_a_module(
    plan_in_package: Callable[..., Plan], tmp_path: Path, mark: str, beside: str, started: bool
) -> None:
    (tmp_path / mark).write_text("")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "engine.py").write_text(code(ENGINE))
    plan = plan_in_package("tools", beside + MAIN.replace("from engine", "from parts.engine"), own="")
    new = {file.path.relative_to(tmp_path.resolve()).as_posix(): file.after.decode() for file in plan.files}
    assert starts_as(new["tools/train_distributed.sh"], "tools.main") is started
    assert ("pai_distributed/__init__.py" in new) is started


def test_a_module_that_trains_in_one_process_is_started_as_one(plan_in_package: Callable[..., Plan]) -> None:
    main = MAIN.replace("from engine", "from .engine")
    plan = plan_in_package("tiny", main, "DataParallel")
    launcher = next(file.after.decode() for file in plan.files if file.path.suffix == ".sh")
    assert "LAUNCHER=${LAUNCHER:-python}" in launcher
    assert starts_as(launcher, "tiny.main")
    assert "Train with: tiny/train_distributed.sh" in plan.next_steps


def test_a_module_whose_process_goes_on_is_started_as_one(plan_in_package: Callable[..., Plan]) -> None:
    main = MAIN.replace("from engine", "from .engine")
    steps = plan_in_package("lib/my-code/tiny", main, "DataParallel", in_process=True).next_steps
    assert "CUDA_VISIBLE_DEVICES=0 PYTHONPATH=lib/my-code python -m tiny.main --perforate_model_parallel" in steps


@pytest.mark.parametrize(
    ("package", "imports"),
    [
        pytest.param("my-code", "from .engine", id="a name that no module has"),
        pytest.param("tiny", "import parts\nfrom .engine", id="a plain import from beside it"),
    ],
)
def test_what_cannot_be_a_module_is_not_started_as_one(
    plan_in_package: Callable[..., Plan], package: str, imports: str
) -> None:
    (question,) = plan_in_package(package, MAIN.replace("from engine", imports), parts="").questions
    assert question.code == "PAI107"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        pytest.param("for epoch in range(10):", "for fold in folds:", ("`for fold in folds:` (line 10 of",), id="head"),
        pytest.param("\nmain()\n", "\n", ("nothing was found to call `main` (line 5 of", "Call that"), id="uncalled"),
        pytest.param(
            "\nmain()\n",
            "\napp.run(main)\n",
            ("`main` (line 5 of main.py) but `app.run` (line 15 of main.py), which is given it. Write it as",),
            id="given to a library",
        ),
    ],
)
def test_what_is_in_place_of_an_epoch_loop(plan_project: Planner, old: str, new: str, words: tuple[str, ...]) -> None:
    main = MAIN.replace("for epoch in range(10):", "for fold in folds:").replace(old, new)
    (question,) = (q for q in plan_project(main, engine=ENGINE).questions if q.code == "PAI104")
    assert all(word in question.message for word in words), question.message


@pytest.mark.parametrize(
    ("between", "named"),
    [
        ("        return\n", True),
        ("        continue\n", True),
        ("        if epochs_done:\n            return\n", False),
    ],
)
def test_what_leaves_before_the_backward_pass_is_named(plan_project: Planner, between: str, named: bool) -> None:
    engine = ENGINE.replace("    for x, y in loader:\n", "    for x, y in loader:\n" + between)
    questions = [q for q in plan_project(MAIN, engine=engine).questions if q.code == "PAI104"]
    told = [(q.file, q.line, f"`{between.strip()}` always leaves" in q.message) for q in questions]
    assert told == ([("engine.py", 5, True)] if named else [])


def test_a_backward_pass_that_nothing_calls_is_named(plan_project: Planner) -> None:
    main = MAIN.replace("train_one_epoch(model, loader, optimizer)", "registry[kind](train_one_epoch)")
    engine = ENGINE.replace("    for x, y in loader:\n", "    if True:\n")
    (question,) = (q for q in plan_project(main, engine=engine).questions if q.code == "PAI104")
    assert (question.file, question.line) == ("engine.py", 7)
    assert "`train_one_epoch` (line 3) but `registry[kind]` (line " in question.message


SPAWN = """
import argparse
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP
from engine import train_one_epoch, validate

parser = argparse.ArgumentParser()
args = parser.parse_args()

def main(rank):
    dist.init_process_group("nccl", init_method=args.url)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model = DDP(model)
    best_acc = 0
    for epoch in range(10):
        train_one_epoch(model, loader, optimizer)
        acc = validate(model)
        best_acc = max(best_acc, acc)

if args.spawn:
    mp.spawn(main, nprocs=2)
else:
    main(0)
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        pytest.param("", "", "makes `args.spawn` true, and give", id="option"),
        pytest.param("args.spawn:", "args.single:\n    main(0)\nelif True:", "`True`", id="second branch"),
        pytest.param("if args.spawn", "if 'RANK' not in os.environ", "", id="environment"),
        pytest.param("if args.spawn:\n    mp.spawn(main, nprocs=2)\nelse:\n", "if True:\n", "", id="no spawn"),
    ],
)
def test_what_a_spawn_by_option_needs_of_torchrun_is_said(plan_project: Planner, old: str, new: str, told: str) -> None:
    main = SPAWN.replace(old, new) if old else SPAWN
    notes = [note for note in plan_project(main, engine=ENGINE).notes if note.code == "PAI014"]
    assert bool(notes) is bool(told)
    assert all(told in note.message and "`env://` for `args.url`" in note.message for note in notes)


NUMBERED = ('dist.init_process_group("nccl", ', 'dist.init_process_group("nccl", rank=rank, ')


@pytest.mark.parametrize(
    ("swap", "launcher"),
    [
        pytest.param(NUMBERED, "python", id="the only way to number the processes"),
        pytest.param(("", ""), "torchrun", id="numbered by the environment"),
        pytest.param(
            (NUMBERED[0], "args.rank = int(os.environ['RANK'])\n    " + NUMBERED[1]), "torchrun", id="either way"
        ),
        pytest.param(
            (
                NUMBERED[0],
                'if args.url == "env://" and args.rank == -1:\n        args.rank = int(os.environ["RANK"])\n    '
                + NUMBERED[1],
            ),
            "python",
            id="the number of a machine only",
        ),
        pytest.param(("init_method=args.url", 'init_method="env://", rank=rank'), "python", id="the process's own"),
        pytest.param(("init_method=args.url", 'init_method="env://", rank=args.n'), "torchrun", id="another number"),
    ],
)
def test_a_spawn_by_option_may_be_the_only_way(plan_project: Planner, swap: tuple[str, str], launcher: str) -> None:
    plan = plan_project(SPAWN.replace(*swap), engine=ENGINE)
    assert ("launcher", launcher) in [(what, value) for what, value, _ in plan.decisions]
    (note,) = [note for note in plan.notes if note.code == "PAI014"]
    assert ("plain python" in note.message) is (launcher == "python")


#: What stands before a start of processes, with or without a condition of its own, and what has to hold for that.
AVOIDED = {
    "the same in one process": ("if args.single:\n    main(0)\n    sys.exit()\n", "", ""),  # which is off by default
    "and a condition": (
        "if args.single:\n    main(0)\n    sys.exit()\n",
        "if args.spawn:\n    ",
        "`args.spawn` holds, and `args.single` does not",
    ),
    "something else": ("if args.single:\n    show(0)\n    sys.exit()\n", "if args.spawn:\n    ", "`args.spawn` holds"),
    "another launcher's": (
        "if 'RANK' in os.environ:\n    main(0)\n    sys.exit()\n",
        "if args.spawn:\n    ",
        "`args.spawn` holds",
    ),
    "another launcher's, by a name": (
        "launched = 'RANK' in os.environ\nif launched:\n    main(0)\n    sys.exit()\n",
        "if args.spawn:\n    ",
        "`args.spawn` holds",
    ),
    "other processes": (
        "if args.single:\n    mp.spawn(main, nprocs=1)\n    sys.exit()\n",
        "if args.spawn:\n    ",
        "`args.single` holds",
    ),
    "nothing": ("", "", ""),
}


@pytest.mark.parametrize("name", AVOIDED)
def test_what_has_to_hold_where_a_script_starts_its_processes_is_said(plan_project: Planner, name: str) -> None:
    before, around, told = AVOIDED[name]
    main = SPAWN.replace(*NUMBERED).partition("if args.spawn:")[0]
    option = "parser.add_argument('--single', action='store_true')\n"
    main = main.replace("args = parser", f"{option}args = parser")
    plan = plan_project(f"import os\n{main}{before}{around}mp.spawn(main, nprocs=2)\n", engine=ENGINE)
    notes = [note.message for note in plan.notes if note.code == "PAI014"]
    start = "training is started by plain python, so that this line has to start a process on each GPU: see that "
    assert notes == [f"{start}{told}, by the arguments that you give"] * bool(told)


@pytest.mark.parametrize(
    ("start", "wraps", "launcher"),
    [
        pytest.param("args.spawn", "given.spawn", "python", id="the same"),
        pytest.param("args.spawn and True", "given.spawn", "torchrun", id="more for the start"),
        pytest.param("args.spawn", "given.spawn or given.many", "torchrun", id="another as well"),
        pytest.param("args.spawn", "not given.spawn", "torchrun", id="the opposite"),
        pytest.param("args.spawn", "other.spawn", "torchrun", id="of something else"),
        pytest.param("args.spawn", "given.many", "torchrun", id="another"),
    ],
)
def test_a_spawn_without_which_nothing_is_wrapped_is_the_only_way(
    plan_project: Planner, start: str, wraps: str, launcher: str
) -> None:
    main = SPAWN.replace("args.spawn:", f"{start}:").replace("def main(rank):", "def main(rank, given):")
    main = main.replace("    model = DDP(model)", f"    if {wraps}:\n        model = DDP(model)")
    main = main.replace("nprocs=2)", "nprocs=2, args=(args,))").replace("main(0)", "main(0, args)")
    plan = plan_project(main.replace("args = parser", "other = load()\nargs = parser"), engine=ENGINE)
    assert ("launcher", launcher) in [(what, value) for what, value, _ in plan.decisions]
    (note,) = [note for note in plan.notes if note.code == "PAI014"]
    assert ("plain python" in note.message) is (launcher == "python")


@pytest.mark.parametrize(
    ("off", "spawns"),
    [
        pytest.param("if args.world_size <= 1:\n    args.spawn = False", True, id="where it is not needed"),
        pytest.param("args.spawn = False", False, id="always"),
    ],
)
def test_a_spawn_whose_option_the_script_switches_off(plan_project: Planner, off: str, spawns: bool) -> None:
    option = "parser.add_argument('--spawn', default=True, type=bool)\nargs ="
    main = SPAWN.replace(*NUMBERED).replace("args =", option).replace("if args.spawn:", f"{off}\nif args.spawn:")
    plan = plan_project(main, engine=ENGINE)
    assert len(plan.script.spawns) == spawns
    assert (("launcher", "python") in [(what, value) for what, value, _ in plan.decisions]) is spawns


CHOSEN = """
import argparse
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DataParallel, DistributedDataParallel as DDP
from engine import train_one_epoch, validate

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=0)
parser.add_argument("--ddp", action="store_true")
args = parser.parse_args()
ddp = False


def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best_acc = 0
    for epoch in range(10):
        if ddp:
            mp.spawn(train_one_epoch, args=(model, loader, optimizer), nprocs=2)
        else:
            train_one_epoch(model, loader, optimizer)
        acc = validate(model)
        best_acc = max(best_acc, acc)


model = Net()
if ddp:
    dist.init_process_group("nccl")
    model = DDP(model, device_ids=[args.local_rank])
else:
    model = DataParallel(model)
train(model)
"""


@pytest.mark.parametrize(
    ("swap", "launcher", "spawns"),
    [
        pytest.param(("", ""), "python", False, id="a constant"),
        pytest.param(("ddp = False", "ddp = args.ddp"), "launch", True, id="an option"),
        pytest.param(("if ddp:\n    dist", "if not ddp:\n    dist"), "launch", False, id="the other one"),
        pytest.param(("ddp = False", "ddp = False\nif args.ddp:\n    ddp = True"), "launch", True, id="one of two"),
        pytest.param(("ddp = False", "ddp = args.ddp = False"), "python", False, id="for an option, too"),
        pytest.param(
            ("ddp = False\n", "def main(ddp):\n    if alone():\n        ddp = False\n"),
            "launch",
            True,
            id="given",
        ),
    ],
)
def test_the_wrapper_that_no_constant_rules_out_says_how_training_starts(
    plan_project: Planner, swap: tuple[str, str], launcher: str, spawns: bool
) -> None:
    before, _, after = CHOSEN.replace(*swap).partition("\n\n\n")
    within = f"{before}\n\n{indent(after, '    ')}\nmain(args.ddp)\n" if "def main" in before else ""
    plan = plan_project(within or CHOSEN.replace(*swap), engine=ENGINE)
    assert ("launcher", launcher) in [(what, value) for what, value, _ in plan.decisions]
    assert [note.code for note in plan.notes if note.code == "PAI014"] == ["PAI014"] * spawns


@pytest.mark.parametrize(("called", "launcher"), [("main(0)", "torchrun"), ("start(main)", "python")])
def test_a_spawn_that_nothing_comes_to_starts_no_process(plan_project: Planner, called: str, launcher: str) -> None:
    before, _, _ = SPAWN.partition("if args.spawn:")
    main = f"{before}def start(train):\n    mp.spawn(train, nprocs=2)\n\n{called}\n"
    plan = plan_project(main, engine=ENGINE)
    assert ("launcher", launcher) in [(what, value) for what, value, _ in plan.decisions]


@pytest.mark.parametrize(
    ("start", "configured", "number"),
    [
        pytest.param("mp.spawn(main, nprocs=args.n)", {}, "as many as the script starts: args.n", id="an option"),
        pytest.param("mp.spawn(main, (), 2)", {}, "as many as the script starts: 2", id="two"),
        pytest.param(
            "mp.spawn(main, nprocs=(\n    args.n\n))", {}, "as many as the script starts: ( args.n )", id="on lines"
        ),
        pytest.param("mp.spawn(main)", {}, "as many as the script starts", id="left out"),
        pytest.param("mp.Process(target=main, args=(0,)).start()", {}, "as many as the script starts", id="each"),
        pytest.param("main(0)", {}, "one on each visible GPU", id="none"),
        pytest.param("main(0)", {"launcher": "python"}, "the one that is started", id="none, by python"),
        pytest.param(
            "mp.spawn(main, nprocs=args.n)", {"launcher": "torchrun"}, "one on each visible GPU", id="by torchrun"
        ),
        pytest.param(
            "mp.spawn(main, nprocs=args.n)",
            {"nproc_per_node": "4", "commanded": frozenset({"nproc_per_node"})},
            "as many as the script starts: args.n, whatever --nproc-per-node says",
            id="told another",
        ),
    ],
)
def test_the_number_of_processes_is_told_as_they_are_started(
    plan_project: Planner, start: str, configured: dict[str, Any], number: str
) -> None:
    before, _, _ = SPAWN.partition("if args.spawn:")
    plan = plan_project(f"{before}{start}\n", engine=ENGINE, options=Options(**configured))
    assert [value for what, value, _ in plan.decisions if what == "processes"] == [number]


@pytest.mark.parametrize(("called", "launcher"), [("", "python"), ("join()\n", "torchrun")])
@pytest.mark.parametrize("read", ["os.environ['RANK']", "os.getenv('RANK')", "'env://'"])
def test_code_that_nothing_calls_numbers_no_process(
    plan_project: Planner, called: str, read: str, launcher: str
) -> None:
    engine = f"import os\n{ENGINE}\n\ndef join():\n    return {read}\n\n{called}"
    plan = plan_project(SPAWN.replace("init_method=", "rank=args.n, init_method="), engine=engine)
    assert ("launcher", launcher) in [(what, value) for what, value, _ in plan.decisions]


EITHER = """
import argparse
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP
from engine import train_one_epoch, validate

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=0)
args = parser.parse_args()
ddp = False

if ddp:
    dist.init_process_group("nccl")
model = torch.nn.DataParallel(Net())
if ddp:
    model = DDP(model.module, device_ids=[args.local_rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best_acc = 0
for epoch in range(10):
    train_one_epoch(model, loader, optimizer)
    if ddp:
        mp.spawn(validate, args=(model,), nprocs=2)
    acc = validate(model)
    best_acc = max(best_acc, acc)
"""


@pytest.mark.parametrize(
    ("old", "new", "launcher"),
    [
        pytest.param("", "", "python", id="off"),
        pytest.param("ddp = False", "ddp = False\ndef setup():\n    dist.init_process_group()", "python", id="unused"),
        pytest.param("ddp = False", "ddp = False\ndist.init_process_group()", "launch", id="begun all the same"),
        pytest.param("ddp = False", "ddp = args.local_rank > 0", "launch", id="an option's"),
        pytest.param("ddp = False", "ddp = False\nif many:\n    ddp = True", "launch", id="either"),
        pytest.param("ddp = False", "ddp = False\ndef on():\n    global ddp\n    ddp = True\non()", "launch", id="set"),
    ],
)
def test_a_script_that_switches_its_process_group_off_is_started_once(
    plan_project: Planner, old: str, new: str, launcher: str
) -> None:
    plan = plan_project(EITHER.replace(old, new), engine=ENGINE)
    assert ("launcher", launcher) in [(what, value) for what, value, _ in plan.decisions]
    notes = [note.message for note in plan.notes if note.code == "PAI014"]
    assert not (notes and launcher == "python")
    assert ("processes" in [what for what, _, _ in plan.decisions]) is (launcher == "launch")


ON = "parser.add_argument('--spawn', type=eval, default=True)"


@pytest.mark.parametrize(
    ("option", "test", "launcher"),
    [
        pytest.param(ON, "args.spawn and torch.cuda.device_count() > 1", "python", id="on and several"),
        pytest.param(ON.replace("True", "False"), "args.spawn and torch.cuda.device_count() > 1", "torchrun", id="off"),
        pytest.param(ON.replace("True", "'False'"), "args.spawn", "torchrun", id="a text that a type reads"),
        pytest.param(ON.replace("True", "torch.cuda.device_count()"), "args.spawn > 1", "python", id="counted"),
        pytest.param(ON.replace("True", "1"), "args.spawn > 1", "torchrun", id="one"),
        pytest.param("parser.add_argument('--spawn', action='store_false')", "args.spawn", "python", id="switch"),
        pytest.param("", "torch.cuda.is_available() and torch.cuda.device_count() >= 2", "python", id="several"),
        pytest.param("", "torch.cuda.device_count() == 8", "torchrun", id="just so many"),
        pytest.param("", "ready()", "torchrun", id="unknown"),
    ],
)
@pytest.mark.parametrize("reading", ["os.environ['RANK'], os.environ['WORLD_SIZE']", "0"])
def test_a_spawn_that_runs_by_default_starts_the_processes(
    plan_project: Planner, option: str, test: str, launcher: str, reading: str
) -> None:
    main = SPAWN.replace("args.spawn", test).replace("args =", f"{option}\nargs =")
    plan = plan_project(main.replace("    model = Net()", f"    print({reading})\n    model = Net()"), engine=ENGINE)
    assert ("launcher", launcher) in [(what, value) for what, value, _ in plan.decisions]
    assert [note.code for note in plan.notes if note.code == "PAI014"] == ["PAI014"] * (launcher == "torchrun")


@pytest.mark.parametrize(
    ("early", "launcher"),
    [
        ("if 'RANK' in os.environ:\n    main(0)\n    sys.exit()", "torchrun"),
        ("if not torch.cuda.is_available():\n    raise SystemExit('no GPU')", "python"),
    ],
)
def test_a_spawn_that_is_come_to_only_where_nothing_leaves_before(
    plan_project: Planner, early: str, launcher: str
) -> None:
    plan = plan_project(SPAWN.replace("if args.spawn:", f"{early}\nif torch.cuda.device_count() > 1:"), engine=ENGINE)
    assert ("launcher", launcher) in [(what, value) for what, value, _ in plan.decisions]


LEAVING = "if more: sys.exit()"


@pytest.mark.parametrize(
    ("ways", "launcher"),
    [
        pytest.param("if given:\n    start(1)\nelse:\n    start(2)", "python", id="both"),
        pytest.param("if given:\n    start(1)\n    sys.exit()\nstart(2)", "python", id="left before"),
        pytest.param("if given:\n    start(1)\nelse:\n    main(0)", "torchrun", id="one of two"),
        pytest.param("if given:\n    start(1)\nelif more:\n    start(2)", "torchrun", id="no else"),
        pytest.param(f"if given:\n    start(1)\nelse:\n    {LEAVING}\n    start(2)", "torchrun", id="left within"),
        pytest.param(f"if given:\n    start(1)\n    exit()\n{LEAVING}\nstart(2)", "torchrun", id="left between"),
        pytest.param("if given:\n    mp.spawn(main)\nelse:\n    main(0)", "torchrun", id="a spawn or none"),
    ],
)
def test_a_spawn_to_which_both_branches_lead_starts_the_processes(
    plan_project: Planner, ways: str, launcher: str
) -> None:
    start = "def start(number):\n    if torch.cuda.is_available():\n        mp.spawn(main, nprocs=number)\n"
    main = SPAWN.partition("if args.spawn:")[0] + f"given, more = sys.argv[1:], sys.argv[2:]\n{start}\n{ways}\n"
    plan = plan_project(main, engine=ENGINE)
    assert ("launcher", launcher) in [(what, value) for what, value, _ in plan.decisions]


@pytest.mark.parametrize(
    ("turned_off", "spawns"),
    [("if len(args.gpus) == 1:\n    args.spread = False", True), ("args.spread = False", False)],
    ids=["for one GPU", "always"],
)
def test_what_code_gives_a_setting_in_some_case_is_not_all_that_it_may_be(
    plan_project: Planner, turned_off: str, spawns: bool
) -> None:
    """Where a file of settings is read, what an attribute is otherwise comes from there."""
    read = f"from settings import read_settings\n\nargs = read_settings('settings.yaml')\n{turned_off}"
    start = f"{read}\nif args.spread:\n    mp.spawn(main, nprocs=len(args.gpus))"
    main = SPAWN.partition("if args.spawn:")[0] + f"{start}\nelse:\n    main(0)\n"
    main = main.replace("init_method=args.url", "init_method=args.url, rank=rank, world_size=len(args.gpus)")
    plan = plan_project(main, engine=ENGINE)
    assert (("launcher", "python") in [(what, value) for what, value, _ in plan.decisions]) is spawns


@pytest.mark.parametrize(
    ("test", "told"), [("len(sys.argv) == 2", 1), ("sys.argv.__len__() == 2", 1), ("sys.argv[1] == 'x'", 0)]
)
def test_scripts_that_count_their_arguments_are_told_of_the_launchers(
    plan_project: Planner, test: str, told: int
) -> None:
    plan = plan_project(SPAWN.replace("args.spawn", test), engine=ENGINE)
    assert len([note for note in plan.notes if note.code == "PAI002"]) == told


@pytest.mark.parametrize("head", ["from common import DDP, torch", "from common import *"])
def test_a_wrapper_that_a_module_of_the_project_passes_on(plan_project: Planner, head: str) -> None:
    imports = "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
    main = MAIN.replace(imports, head + "\n")
    assert (
        "find_unused_parameters=pai_distributed.finds_"
        in changed(plan_project(main, engine=ENGINE, common=imports))["main.py"]
    )


@pytest.mark.parametrize(
    ("chosen", "asked"),
    [
        pytest.param("Model = small", [], id="one"),
        pytest.param("if args.small:\n    Model = small\nelse:\n    Model = nets.large", ["PAI102"], id="one of two"),
        pytest.param("Model = None\nif args.small:\n    Model = small", [], id="none before"),
    ],
)
def test_a_module_that_a_variable_holds(plan_project: Planner, chosen: str, asked: list[str]) -> None:
    main = f"""
import nets.large
from nets import small
{chosen}
trainer = Model.Trainer()
for epoch in range(10):
    trainer.train()
    acc = trainer.validate()
"""
    held = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Trainer:
    def __init__(self):
        self.net = Net()
        self.net = DDP(self.net)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def train(self):
        for x, y in loader:
            self.optimizer.zero_grad()
            criterion(self.net(x), y).backward()
            self.optimizer.step()

    def validate(self):
        acc = self.net.score()
        return acc
"""
    plan = plan_project(main, **{"nets/small": held, "nets/large": held})
    assert [problem.code for problem in plan.questions] == asked
    answers = "large.py:self.net or nets/small.py:self.net"
    assert all(answers in problem.message for problem in plan.questions if problem.code == "PAI102")


def test_a_package_that_imports_what_is_not_read_of_it_is_followed_once(tmp_path: Path) -> None:
    main = MAIN.replace("model = Net()", "model = Model(4)").replace(
        "import torch\n", "import torch\nfrom model import Model\n", 1
    )
    imports = "import torch\nfrom torch import nn\n"
    built = "from nets import Clip, Net\n        self.body = Net(width, width)\n        self.text = Clip()\n"
    files = {
        "main.py": code(main),
        "engine.py": code(ENGINE),
        "model.py": f"{imports}class Model(nn.Module):\n    def __init__(self, width):\n        {built}",
        "nets/__init__.py": "from .Net import Net\nfrom .clip import Clip\n",
        "nets/Net.py": f"{imports}class Net(nn.Linear):\n    pass\n",
        "nets/clip.py": f"{imports}class Clip(nn.Module):\n    def forward(self, x):\n        self.eval()\n",
    }
    (tmp_path / "nets").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert "main.py" in changed(make_plan(tmp_path / "main.py", "main.py", recipe(), Options()))


def test_keyword_is_not_given_twice_where_another_file_wraps(plan_project: Planner) -> None:
    wrap = """\
from torch.nn.parallel import DistributedDataParallel as DDP

def distributed(model, unused=False):
    options = {"find_unused_parameters": unused}
    return DDP(model, **options)
"""
    main = MAIN.replace("torch.nn.parallel import DistributedDataParallel as DDP", "common import distributed as DDP")
    texts = changed(plan_project(main, engine=ENGINE, common=wrap))
    unused = "pai_distributed.finds_unused_parameters(options)"
    assert f'DDP(model, **{{**options, "find_unused_parameters": {unused}}})' in texts["common.py"]


def test_a_script_in_the_package_that_it_imports_by_name(tmp_path: Path) -> None:
    package = tmp_path / "segment"
    package.mkdir()
    (package / "train.py").write_text(code(MAIN).replace("from engine", "from segment.engine"))
    (package / "engine.py").write_text(code(ENGINE))
    plan = make_plan(package / "train.py", "train.py", recipe(), Options())
    assert set(changed(plan)) == {"train.py", "engine.py"}


@pytest.mark.parametrize(
    ("line", "wrapped", "refused"),
    [
        ("from detectron2.engine import DefaultTrainer", False, True),
        ("from detectron2.engine import DefaultTrainer", True, False),
        ("from detectron2.config import get_cfg", False, False),
        ("from mmcv.runner import EpochBasedRunner", False, True),
        ("from mmcv.runner import get_dist_info, init_dist", False, False),
        ("from mmcv.runner import get_dist_info, build_runner", False, True),
        ("from mmcv import runner\nrunner.init_dist('pytorch')", False, False),
        ("from mmcv import runner\nrunner.build_runner(settings)", False, True),
        ("import mmcv.runner\nmmcv.runner.IterBasedRunner(None)", False, True),
    ],
)
def test_engines_of_libraries_count_where_the_script_wraps_nothing(
    plan_project: Planner, line: str, wrapped: bool, refused: bool
) -> None:
    main = f"{line}\n" + code(MAIN if wrapped else MAIN.replace("    model = DDP(model)\n", ""))
    codes = [question.code for question in plan_project(main, engine=ENGINE).questions]
    assert codes == (["PAI100"] if refused else [] if wrapped else ["PAI101"])


def test_a_wrapper_of_openmmlabs_is_guarded_as_torchs_is(plan_project: Planner) -> None:
    torchs = "from torch.nn.parallel import DistributedDataParallel as DDP"
    assert torchs in MAIN
    main = MAIN.replace(torchs, "from mmcv.parallel import MMDistributedDataParallel as DDP")
    before, after = (changed(plan_project(text, engine=ENGINE))["main.py"] for text in (MAIN, main))
    assert after.replace("mmcv.parallel import MMD", "torch.nn.parallel import D") == before


def test_modules_that_are_imported_by_a_made_name_are_not_looked_into(plan_project: Planner) -> None:
    finder = """
    import importlib
    importlib.import_module('json')
    def create(name):
        return importlib.import_module(name + '_model').Model()
    """
    main = "from finder import create\n\nmodel = create('plain')\nfor epoch in range(9):\n    model.optimize()\n"
    (question,) = plan_project(main, finder=finder).questions
    assert question.code == "PAI101"
    assert "made at run time (line 4 of finder.py) was not" in question.message


@pytest.mark.parametrize("engine", ["engine", "Engine(model)"])
def test_a_loop_that_nothing_runs_is_no_second_one(plan_project: Planner, engine: str) -> None:
    lent = """
    class Engine:
        def __init__(self, model):
            self.model = model

        def run(self):
            for self.epoch in range(9):
                self.train()
                self.model.eval()

        def train(self):
            for x, y in loader:
                optimizer.zero_grad()
                self.model(x).backward()
                optimizer.step()
    """
    main = MAIN.replace("from engine import", "from lent import Engine\nfrom engine import")
    main = main.replace("        train_one_epoch(model, loader, optimizer)\n", f"        {engine}.train()\n")
    main = main.replace("    best_acc = 0\n", "    best_acc = 0\n    engine = Engine(model)\n")
    texts = changed(plan_project(main, engine=ENGINE, lent=lent))
    assert "planned_epochs(" in texts["main.py"]
    assert "planned_epochs(" not in texts["lent.py"]
    both = main.replace("    best_acc = 0\n", "    best_acc = 0\n    other = Engine(model)\n    other.run()\n")
    questions = plan_project(both, engine=ENGINE, lent=lent).questions
    assert [question.code for question in questions] == ["PAI104"]


@pytest.mark.parametrize(
    ("start", "asked"),
    [
        pytest.param("main(Net())\n", [], id="once"),
        pytest.param("model = Net()\nfor part in range(5):\n    main(model)\n", [("PAI104", 15)], id="in parts"),
    ],
)
def test_a_training_that_a_loop_repeats_is_asked_about(
    plan_project: Planner, start: str, asked: list[tuple[str, int]]
) -> None:
    main = code(MAIN).removesuffix("main()\n").replace("main():\n    model = Net()\n", "main(model):\n")
    plan = plan_project(main + start, engine=ENGINE)
    assert [(question.code, question.line) for question in plan.questions] == asked


def test_what_runs_one_of_several_functions_is_no_training_again(plan_project: Planner) -> None:
    maps = """
    from engine import train_one_epoch
    from words import One, Split, Two

    def train(model, optimizer, **more):
        for epoch in range(9):
            train_one_epoch(model, loader, optimizer)

    def test(model, **more):
        print(model)

    def load(width):
        return Net(width)

    maps = {
        "other": {"words": Two, "run": None, "test": test, "load": load, "split": None},
        "one": {"words": One, "run": train, "load": load, "split": Split},
    }
    """
    words = "class One:\n    def __init__(self, size, split): pass\n\nclass Two(One): pass\n\nclass Split: pass\n"
    main = """
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP
    from maps import maps

    def main():
        run = maps[kind]["run"]
        load = maps[kind]["load"]
        split = maps[kind]["split"]
        split = split() if split else None
        model = DDP(load(width=8))
        words = maps[kind]["words"]
        found = words(size=3, split=split)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        run(model=model, optimizer=optimizer)

    main()
    """
    questions = plan_project(main, maps=maps, words=words, engine=ENGINE).questions
    assert "PAI104" not in [question.code for question in questions]


def test_a_loop_that_may_end_by_itself_is_followed_by_its_end(plan_project: Planner) -> None:
    main = code(MAIN).replace("        acc =", "        if stuck():\n            break\n        acc =")
    assert "\n    pai_distributed.end_of_training()\n" in changed(plan_project(main, engine=ENGINE))["main.py"]
    assert "end_of_training" not in changed(plan_project(MAIN, engine=ENGINE))["main.py"]


TRAIN_BY_NAME = """
    from engine import {first}
    import torch
    from torch.nn import DataParallel

    def main(args):
        model = DataParallel(Net())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        {choice}
        best_acc = 0
        for epoch in range(10):
            train(model, loader, optimizer)
            acc = validate(model)
            best_acc = max(best_acc, acc)

    def validate(model):
        return model.score()

    main(parser.parse_args())
"""


@pytest.mark.parametrize(
    "choice",
    [
        pytest.param("train = train_a if args.a else train_b", id="in an expression"),
        pytest.param("train = train_a\n        if args.b:\n            train = train_b", id="in a branch"),
        pytest.param("train = {'a': train_a, 'b': train_b}[args.kind]", id="in a dict"),
        pytest.param("train = train_a\n        train = train_b if args.b else train", id="by default"),
    ],
)
def test_each_function_that_a_local_name_may_mean_is_rewritten(plan_project: Planner, choice: str) -> None:
    engine = code(ENGINE).replace("train_one_epoch", "train_a") + code(ENGINE).replace("train_one_epoch", "train_b")
    main = code(TRAIN_BY_NAME.format(first="train_a, train_b", choice=choice))
    assert changed(plan_project(main, engine=engine))["engine.py"].count("finish_initialization") == 2


def test_one_name_from_two_modules_means_both(plan_project: Planner) -> None:
    engine = code(ENGINE).replace("train_one_epoch", "train")
    choice = "if args.a:\n            from one import train\n        else:\n            from two import train"
    texts = changed(plan_project(code(TRAIN_BY_NAME.format(first="something", choice=choice)), one=engine, two=engine))
    assert [texts[name].count("finish_initialization") for name in ("one.py", "two.py")] == [1, 1]


def test_a_loop_is_counted_by_what_a_module_makes_that_says_nothing_of_training_itself(plan_project: Planner) -> None:
    main = """
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP
    from tasks import Task

    def main():
        task = Task()
        model = DDP(Net())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        turns = task.turns()
        best_loss = 9
        while lr > 0 and turns.epoch < 9:
            for x, y in turns.begin():
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
            val_loss = evaluate(model)
            best_loss = min(best_loss, val_loss)

    main()
    """
    tasks = "from turns import Turns\n\nclass Task:\n    def turns(self):\n        return Turns()\n"
    turns = "class Turns:\n    epoch = 0\n    def begin(self):\n        self.epoch += 1\n        return []\n"
    assert [one.code for one in plan_project(main, tasks=tasks, turns=turns).questions] == []
    assert [one.code for one in plan_project(main, tasks=tasks, turns="Turns = object\n").questions] == ["PAI104"]


def test_gradients_are_filled_in_the_model_that_a_property_gives(plan_project: Planner) -> None:
    main = """
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP

    class Trainer:
        def __init__(self):
            self._net = Net()
            self._wrapped = None

        @property
        def model(self):
            if self._wrapped is None:
                self._wrapped = DDP(self._net)
            return self._wrapped

        def fit(self):
            optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
            best_acc = 0
            for epoch in range(9):
                for x, y in loader:
                    optimizer.zero_grad()
                    out = self.model(x)
                    criterion(out, y).backward()
                    optimizer.step()
                acc = evaluate(self.model)
                best_acc = max(acc, best_acc)

    Trainer().fit()
    """
    assert "fill_missing_gradients(self.model)" in changed(plan_project(main))["main.py"]


IGNITE = """
import torch
from ignite.engine import Engine

def make_trainer(model, optimizer):
    model = torch.nn.DataParallel(model)

    def update(engine, batch):
        optimizer.zero_grad()
        loss = criterion(model(batch))
        loss.backward()
        optimizer.step()

    return Engine(update)
"""


def test_an_engine_that_owns_the_loop_is_named_in_whatever_file(plan_project: Planner) -> None:
    main = """
    import torch
    from trainer import make_trainer

    model = Net()
    make_trainer(model, torch.optim.SGD(model.parameters(), lr=0.1)).run(loader, max_epochs=3)
    """
    questions = plan_project(main, trainer=IGNITE).questions
    (question,) = [one for one in questions if one.code in ("PAI100", "PAI104")]
    assert (question.code, question.line) == ("PAI100", 2)
    assert "PyTorch-Ignite" in question.message


def test_a_loop_that_is_missing_beside_apex_is_asked_for(plan_project: Planner) -> None:
    apex = "from apex import amp\nmodel, optimizer = amp.initialize(model, optimizer)\n"
    main = code(MAIN).replace("for epoch in range(10):", "if True:").replace("main()\n", f"main()\n{apex}")
    assert "PAI104" in [question.code for question in plan_project(main, engine=ENGINE).questions]


def test_an_engine_beside_the_loop_of_the_script_is_passed_over(plan_project: Planner) -> None:
    changed(plan_project(MAIN, engine="from ignite.engine import Events\n" + code(ENGINE)))


def test_an_engine_that_wraps_nothing_leaves_the_word_to_the_missing_wrapper(plan_project: Planner) -> None:
    main = code(MAIN).replace("model = DDP(model)\n", "pass\n")
    plan = plan_project(main, engine="from ignite.engine import Events\n" + code(ENGINE))
    assert [question.code for question in plan.questions] == ["PAI101"]


def test_a_wrapper_without_a_name_is_asked_for_one_only(plan_project: Planner) -> None:
    main = """
    import torch
    from torch.nn import DataParallel

    class Solver:
        def __init__(self):
            self.nets = {name: DataParallel(Net()) for name in names}
            self.optimizer = torch.optim.SGD(self.nets["classifier"].parameters(), lr=0.1)

        def train(self):
            best_acc = 0
            for epoch in range(10):
                for x, y in loader:
                    loss = criterion(self.nets["classifier"](x), y)
                    loss.backward()
                    self.optimizer.step()
                acc = validate()
                best_acc = max(best_acc, acc)

    Solver().train()
    """
    messages = [question.message for question in plan_project(main).questions if question.code == "PAI102"]
    assert len(messages) == 1
    assert "the comprehension at line 6 wraps each of several" in messages[0]


PARSED = (
    "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr')\nargs = parser.parse_args()\n"
)
SHARED_MAIN = PARSED + code(MAIN).replace("def main():", "def main(args):").replace("main()\n", "main(args)\n").replace(
    "loader, optimizer)", "loader, optimizer, args)"
)
SHARED_ENGINE = code(ENGINE).replace("loader, optimizer)", "loader, optimizer, args)")
TESTING = f"{PARSED}from engine import validate\nvalidate(load())\n"


def test_a_module_of_the_script_alone_asks_its_arguments(plan_project: Planner) -> None:
    plan = plan_project(SHARED_MAIN, engine=SHARED_ENGINE, other=TESTING.replace("engine", "validation"))
    assert "if args.perforate_model_parallel:" in changed(plan)["engine.py"]
    assert plan.notes == []


def test_a_module_that_another_script_imports_asks_the_helper(plan_project: Planner) -> None:
    plan = plan_project(SHARED_MAIN, engine=SHARED_ENGINE, test=TESTING)
    assert "if pai_distributed.initializing():" in changed(plan)["engine.py"]
    assert "args.perforate_model_parallel" in changed(plan)["main.py"]
    (note,) = plan.notes  # the helper lies beside it, and its validation is as it was, but it loads both now
    assert note.message == (
        "test.py uses this file too, which needs pai_distributed now, and with it PerforatedAI: both must be there "
        "wherever it is imported"
    )


@pytest.mark.parametrize("taken", ["main import main", "main import build", "data import main"])
def test_a_function_of_a_script_that_another_imports_asks_the_helper_for_what_it_is_given(
    plan_project: Planner, taken: str
) -> None:
    """The other script may give it options of a parser of its own."""
    main = SHARED_MAIN.replace("main(args)\n", "if __name__ == '__main__':\n    main(args)\n")
    plan = plan_project(main, engine=SHARED_ENGINE, other=f"{PARSED}from {taken}\nmain(args)\n")
    own = taken != "main import main"
    assert ("args.pai_load_folder" in changed(plan)["main.py"]) is own
    assert ("pai_distributed.load_folder()" in changed(plan)["main.py"]) is not own
    assert ("if args.perforate_model_parallel:" in changed(plan)["engine.py"]) is own


def test_a_script_of_another_folder_that_imports_from_where_the_helper_lies_finds_it(plan_project: Planner) -> None:
    plan = plan_project(SHARED_MAIN, engine=SHARED_ENGINE, **{"tools/test": TESTING})
    assert "sys.path" not in changed(plan)["engine.py"]
    assert ["with it PerforatedAI" in note.message for note in plan.notes] == [True]


#: A training in `tools`, of a library beside it.
TOOL = "import sys\nsys.path.append('..')\n" + SHARED_MAIN.replace("from engine", "from lib.engine")
#: Other scripts that import the library, by their paths, and whether they are named.
IMPORTERS = {
    "evaluation/test": ("from lib.engine import validate\n", True),
    "test": ("from lib.engine import validate\n", True),
    "lib/own": ("from engine import validate\n", True),
    "through": ("from lib.passing import validate\n", True),
    "tools/test": ("import sys\nsys.path.append('..')\nfrom lib.engine import validate\n", False),
    "other": ("from lib.data import load\n", False),
}


@pytest.mark.parametrize(("name", "told"), [(name, told) for name, (_, told) in IMPORTERS.items()], ids=IMPORTERS)
def test_a_module_says_where_the_helper_is_for_scripts_that_would_not_find_it(
    tmp_path: Path, name: str, told: bool
) -> None:
    files = {
        "pyproject.toml": "",
        "tools/train.py": TOOL,
        "lib/engine.py": SHARED_ENGINE,
        "lib/passing.py": "from lib.engine import train_one_epoch, validate\n",
        "lib/data.py": "def load():\n    return []\n",
        f"{name}.py": PARSED + IMPORTERS[name][0] + "print(args)\n",
    }
    if name == "through":
        files["tools/train.py"] = TOOL.replace("lib.engine", "lib.passing")
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    plan = plan_of_project(tmp_path / "tools/train.py")
    engine = changed(plan)["engine.py"]
    added = "sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '../tools'))\nimport pai_dist"
    assert (added in engine) == told
    paths = [note.message.partition(" ")[0] for note in plan.notes if "by a path that is written" in note.message]
    assert paths == [f"../{name}.py"] * told


@pytest.mark.parametrize(("change", "told"), [("sys.path[0] = '..'", True), ("sys.path.insert(0, '..')", False)])
def test_so_does_each_file_of_a_script_that_takes_its_own_folder_off_the_path(
    plan_project: Planner, change: str, told: bool
) -> None:
    plan = plan_project(f"import sys\n{change}\n{SHARED_MAIN}", engine=SHARED_ENGINE)
    added = "sys.path.append(os.path.dirname(os.path.abspath(__file__)))\nimport pai_distributed"
    assert [added in changed(plan)[name] for name in ("main.py", "engine.py")] == [told, told]


def test_the_folder_of_the_helper_is_found_from_wherever_a_script_is_started(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "lib").mkdir()
    (tmp_path / "tools" / "pai_distributed.py").write_text("print('found')\n")
    rule = next(rule for rule in recipe().rules if rule.code == "PAI001")
    template = next(change.template for change in rule.changes if "sys.path" in change.template)
    site = {"elsewhere": ["test.py"], "way": "../tools"}
    text = Evaluator(recipe(), {}).render(template, {"site": site})
    (tmp_path / "lib" / "engine.py").write_text(text)
    (tmp_path / "test.py").write_text("import lib.engine\n")
    for folder in (tmp_path, tmp_path / "lib"):
        result = subprocess.run([sys.executable, tmp_path / "test.py"], cwd=folder, capture_output=True, text=True)
        assert result.stdout == "found\n", result.stderr


@pytest.mark.parametrize(
    ("started", "named"),
    [
        pytest.param(f"{PARSED}fit(build(), None)\n", True, id="reads the command line"),
        pytest.param("for fold in range(3):\n    fit(build(), fold)\n", True, id="works when it is imported"),
        pytest.param("def train_more():\n    for fold in range(3):\n        fit(build(), fold)\n", False, id="defines"),
    ],
)
def test_a_script_that_shares_the_loop_is_named(plan_project: Planner, started: str, named: bool) -> None:
    head, loop = code(MAIN).split("    best_acc = 0\n")
    loop = "def fit(model, optimizer):\n    best_acc = 0\n" + loop.replace("main()\n", "")
    engine = code(ENGINE) + loop
    main = head.replace("train_one_epoch, validate", "fit") + "    fit(model, optimizer)\n\nmain()\n"
    notes = plan_project(main, engine=engine, other=f"from engine import fit\n{started}").notes
    assert [(note.file, note.code) for note in notes] == [("engine.py", "PAI113")] * named
    assert all(note.message.startswith("other.py imports this file too: what trains") for note in notes)


#: Other files, and which of them are named as scripts that use a changed one.
FARTHER = {
    "through a module that the script does not reach": (
        {"tools": "from engine import fit\n", "other": f"import tools\n{PARSED}tools.fit(1, 2)\n"},
        "other.py",
    ),
    "through two": (
        {
            "a": "def fit(*args):\n    import engine\n    engine.fit(*args)\n",
            "b": "from a import fit\n",
            "c": f"from b import fit\n{PARSED}",
        },
        "c.py",
    ),
    "relative to a package above": (
        {"engine/runs/__init__": "", "engine/runs/more": f"from ..loop import fit\n{PARSED}fit(1, 2)\n"},
        "engine/runs/more.py",
    ),
    "runs its own function": ({"other": "from engine import fit\ndef run():\n    fit(1, 2)\nrun()\n"}, "other.py"),
    "has it run": (
        {"other": "import fire\nfrom engine import fit\ndef run():\n    fit(1, 2)\nfire.Fire(run)\n"},
        "other.py",
    ),
    "a command of the installed project": (
        {"command": "from engine import fit\ndef run():\n    fit(1, 2)\n", "setup": "a = 'x=command:run'\n"},
        "command.py",
    ),
    "only a module": ({"tools": "import warnings\nfrom engine import fit\nwarnings.simplefilter('error')\n"}, ""),
    "only modules": ({"tools": "from engine import fit\n", "more": "from tools import fit\n"}, ""),
    "another of that name": (
        {"other/tools": f"from .engine import fit\n{PARSED}", "other/engine": "fit = print\n"},
        "",
    ),
}


@pytest.mark.parametrize(("files", "named"), FARTHER.values(), ids=FARTHER)
def test_a_script_that_uses_a_changed_file_otherwise_is_named(
    tmp_path: Path, plan_project: Planner, files: dict[str, str], named: str
) -> None:
    head, loop = code(MAIN).split("    best_acc = 0\n")
    loop = "def fit(model, optimizer):\n    best_acc = 0\n" + loop.replace("main()\n", "")
    main = head.replace("train_one_epoch, validate", "fit") + "    fit(model, optimizer)\n\nmain()\n"
    for path in files:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    package = named.startswith("engine/")
    engine = {"engine/__init__": "from .loop import fit\n", "engine/loop": code(ENGINE) + loop} if package else {}
    notes = plan_project(main, **(engine or {"engine": code(ENGINE) + loop}), **files).notes
    assert [note.message.partition(" ")[0] for note in notes if note.code == "PAI113"] == [named] * bool(named)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        pytest.param(f"from main import build\n{PARSED}", True, id="imports it"),
        pytest.param(f"{PARSED}print('import main')\n", False, id="mentions it"),
    ],
)
def test_a_script_that_imports_the_entry_script_is_named(plan_project: Planner, text: str, named: bool) -> None:
    plan = plan_project(SHARED_MAIN, engine=SHARED_ENGINE, other=text)
    assert [note.message.partition(" ")[0] for note in plan.notes] == ["other.py"] * named
    assert [note.file for note in plan.notes] == ["main.py"] * named
    assert "if not args.perforate_model_parallel:" in changed(plan)["main.py"]
    assert "if args.perforate_model_parallel:" in changed(plan)["engine.py"]


def test_the_entry_script_says_where_the_helper_is_for_scripts_that_would_not_find_it(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "test.py").write_text(f"from train.main import main\n{PARSED}")
    (tmp_path / "train" / "main.py").write_text(SHARED_MAIN)
    (tmp_path / "train" / "engine.py").write_text(SHARED_ENGINE)
    plan = plan_of_project(tmp_path / "train" / "main.py")
    assert "sys.path.append(os.path.dirname(os.path.abspath(__file__)))" in changed(plan)["main.py"]


BUILT_MAIN = code(MAIN).replace(
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", "optimizer, scheduler = common.build(model)"
)
OPTIMIZER_BUILDER = """
import torch
def build(model):
    if fast:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 3)
"""


@pytest.mark.parametrize("wrapper", ["DistributedDataParallel", "DataParallel"])
@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"pretrain": f"import common\n{PARSED}common.build(Net())\n"}, id="of another script"),
        pytest.param({"pretrain": "import common\ndef pretrain():\n    common.build(Net())\n"}, id="of another mode"),
    ],
)
def test_an_optimizer_of_a_shared_builder_is_registered_where_the_training_gets_it(
    plan_project: Planner, wrapper: str, other: dict[str, str]
) -> None:
    main = "import common\n" + BUILT_MAIN.replace("DistributedDataParallel", wrapper)
    if "parse_args" not in other["pretrain"]:
        main = "from pretrain import pretrain\n" + main.replace(
            "\nmain()\n", "\nif mode:\n    main()\nelse:\n    pretrain()\n"
        )
    plan = plan_project(main, engine=ENGINE, common=OPTIMIZER_BUILDER, **other)
    texts = changed(plan)
    assert "common.py" not in texts
    lines = [line.strip() for line in texts["main.py"].splitlines()]
    place = lines.index("optimizer, scheduler = common.build(model)")
    assert lines[place + 1].endswith("set_optimizer_instance(optimizer)")
    assert plan.notes == []


def test_an_optimizer_of_a_builder_that_nothing_else_calls_is_registered_in_it(plan_project: Planner) -> None:
    texts = changed(plan_project("import common\n" + BUILT_MAIN, engine=ENGINE, common=OPTIMIZER_BUILDER))
    assert "set_optimizer_instance(optimizer)" in texts["common.py"]


def test_an_optimizer_of_a_shared_builder_is_registered_in_it_where_it_builds_the_model_too(
    plan_project: Planner,
) -> None:
    builder = OPTIMIZER_BUILDER.replace("def build(model):\n", "def build():\n    model = Net()\n")
    wrapped = "    model = torch.nn.parallel.DistributedDataParallel(model)\n"
    builder = builder.replace("    return optimizer", f"{wrapped}    return model, optimizer")
    main = BUILT_MAIN.replace("    model = Net()\n", "").replace("    model = DDP(model)\n", "")
    main = "import common\n" + main.replace(
        "optimizer, scheduler = common.build(model)", "model, optimizer, _ = common.build()"
    )
    texts = changed(plan_project(main, engine=ENGINE, common=builder, other=f"import common\n{PARSED}common.build()\n"))
    assert "set_optimizer_instance(optimizer)" in texts["common.py"]


def test_a_shared_builder_that_keeps_its_optimizer_to_itself_is_named(plan_project: Planner) -> None:
    held = OPTIMIZER_BUILDER.replace(
        "    return optimizer, ", "    model.optimizer = optimizer\n    model.scheduler = "
    )
    main = "import common\n" + BUILT_MAIN.replace("optimizer, scheduler = ", "").replace(
        "optimizer)", "model.optimizer)"
    )
    trains = f"import common\n{PARSED}net = Net()\ncommon.build(net)\nnet(x).backward()\n"
    reads = f"import common\n{PARSED}print(common.__doc__)\n"
    plan = plan_project(main, engine=ENGINE, common=held, a=reads, b=reads, c=reads, train_more=trains)
    (note,) = plan.notes
    assert note.message.startswith("train_more.py, a.py, b.py and 1 more import this file too: what trains")
    text = changed(plan)["common.py"]  # harmless to the other scripts
    assert ("pai_distributed.set_optimizer_instance(optimizer)" in text, "GPA" in text) == (True, False)


@pytest.mark.parametrize(
    ("beside", "named"),
    [
        pytest.param("from common import Fit\nfit = Fit(Net())\nfit.run()\n", True, id="a method of what it has made"),
        pytest.param("import common\ncommon.build(Net())\n", True, id="a module's function"),
        pytest.param("from common import Fit\nFit(Net()).run()\n", True, id="at once"),
        pytest.param(
            "try:\n    import common\n    common.build(Net())\nexcept Exception as e:\n    print(e)\n",
            True,
            id="in a try",
        ),
        pytest.param("try:\n    import common\nexcept ImportError:\n    common = None\n", False, id="tried"),
        pytest.param("import logging\nimport common\nlogging.basicConfig()\n", False, id="another module's"),
        pytest.param("import common\nclass Fit(common.Fit): pass\n", False, id="a definition"),
        pytest.param("from common import Fit\nfit = Fit(Net())\n", False, id="what is only made"),
    ],
)
def test_a_file_that_has_a_changed_module_train_when_it_is_imported_is_named(
    plan_project: Planner, beside: str, named: bool
) -> None:
    held = OPTIMIZER_BUILDER.replace("    return optimizer, ", "    model.optimizer, _ = optimizer, ")
    main = BUILT_MAIN.replace("optimizer, scheduler = ", "").replace("optimizer)", "model.optimizer)")
    plan = plan_project("import common\n" + main, engine=ENGINE, common=held, beside=beside)
    assert any("beside.py imports this file too" in note.message for note in plan.notes) is named


def test_a_module_that_can_be_started_too_is_no_neighbour(plan_project: Planner) -> None:
    main = SHARED_MAIN.replace("import torch\n", "import torch\nfrom parts import shapes\n", 1)
    shapes = "from engine import validate\nif __name__ == '__main__':\n    print(validate(1))\n"
    plan = plan_project(main, engine=SHARED_ENGINE, **{"parts/__init__": "", "parts/shapes": shapes})
    assert plan.notes == []


def test_a_module_that_trains_by_a_changed_one_when_it_is_started_is_named(plan_project: Planner) -> None:
    """The script imports its options: it asked the parsed command line, which has no such option in that one."""
    main = SHARED_MAIN.replace("import torch\n", "import torch\nfrom again import options\n", 1)
    again = f"from engine import train_one_epoch\n{PARSED}if __name__ == '__main__':\n    train_one_epoch(args)\n"
    plan = plan_project(main, engine=SHARED_ENGINE, again=again.replace("args = parser.parse_args()\n", ""))
    assert [note.message.partition(",")[0].partition(" too")[0] for note in plan.notes] == ["again.py uses this file"]
    assert "if pai_distributed.initializing():" in changed(plan)["engine.py"]


@pytest.mark.parametrize("trains", [True, False])
def test_a_module_that_trains_by_itself_when_it_is_started_asks_for_no_option_of_the_script(
    plan_project: Planner, trains: bool
) -> None:
    """Its own parser has none of them: it ended at `args.perforate_model_parallel`, and nothing was said."""
    run = "train_one_epoch(None, None, None, None, parse())" if trains else "print(parse())"
    alone = f"def parse():\n    return 1\n\n\nif __name__ == '__main__':\n    {run}\n"
    plan = plan_project(SHARED_MAIN, engine=f"{SHARED_ENGINE}\n\n{alone}")
    asks = "pai_distributed.initializing()" if trains else "args.perforate_model_parallel"
    assert f"if {asks}:" in changed(plan)["engine.py"]
    assert plan.notes == []


def test_a_script_that_is_rewritten_already_is_no_neighbour(plan_project: Planner) -> None:
    plan = plan_project(SHARED_MAIN, engine=SHARED_ENGINE, test=f"import pai_distributed\n{TESTING}")
    assert "if args.perforate_model_parallel:" in changed(plan)["engine.py"]


def test_a_model_that_its_builder_may_wrap_already_is_one_model(plan_project: Planner) -> None:
    build = "def build():\n    net = Net()\n    if loaded:\n        net = DDP(net)\n    return net\n\ndef main():"
    main = MAIN.replace("def main():", build).replace("model = Net()", "model = build()")
    written = changed(plan_project(main, engine=ENGINE))["main.py"]
    assert written.count("initialize_tracker_settings()") == 2


@pytest.mark.parametrize(
    "taken",
    [
        "if model is None:\n        net = Net()\n    else:\n        net = model",
        "net = Net() if model is None else model",
    ],
)
def test_a_model_that_another_file_may_give_is_perforated_where_it_is_taken(plan_project: Planner, taken: str) -> None:
    train = code(MAIN).replace("def main():\n    model = Net()", f"def fit(model=None):\n    {taken}")
    train = train.replace("main()\n", "").replace("(model", "(net").replace("    model = DDP", "    net = DDP")
    train += "\n" + code(ENGINE).split("\n\n", 1)[1]
    main = """
    import torch
    import train
    model = None
    if restart:
        model = Net()
        model.load_state_dict(torch.load(restart))
    train.fit(model)
    """
    plan = plan_project(main, train=train.replace("from engine import train_one_epoch, validate\n", ""))
    assert plan.questions == []
    changed = {file.path.name: file.after.decode() for file in plan.files}
    lines = changed["train.py"].splitlines()
    place = lines.index("    net = pai_distributed.load_latest_switch(net, pai_distributed.load_folder())")
    assert next(number for number, line in enumerate(lines) if "net = " in line) < place
    assert place < next(number for number, line in enumerate(lines) if "SGD" in line)
    assert "UPA.perforate_model" not in changed["main.py"]


BUILDING_TRAINER = """
from torch import optim
from nets import define, validate

class Trainer:
    def __init__(self):
        self.net = define([0, 1])
        self.optimizer = optim.SGD(self.net.parameters(), lr=0.1)

    def train(self):
        best = 0
        for epoch in range(10):
            for x, y in loader:
                loss = criterion(self.net(x), y)
                loss.backward()
                self.optimizer.step()
            acc = validate(self.net)
            best = max(best, acc)
"""
BUILDER = """
from torch import nn

def define(gpus):
    net = Net()
    return nn.DataParallel(net, gpus)

def validate(net):
    return net.score()
"""


def test_a_builder_that_is_called_again_after_the_training_is_told_as_that(plan_project: Planner) -> None:
    tester = "from nets import define\n\nclass Tester:\n    def __init__(self):\n        self.net = define([0])\n"
    main = "from trainer import Trainer\nfrom tester import Tester\n\nTrainer().train()\nTester().test()\n"
    plan = plan_project(
        main, trainer=BUILDING_TRAINER, nets=BUILDER, tester=f"{tester}\n    def test(self):\n        pass\n"
    )
    message = next(question.message for question in plan.questions)
    assert "is called at line 4 of main.py and line 5 of main.py" in message
    assert plan_project(main.replace("Tester().test()\n", ""), trainer=BUILDING_TRAINER, nets=BUILDER).questions == []


def test_a_model_that_is_loaded_and_wrapped_where_nothing_trains_is_left_alone(plan_project: Planner) -> None:
    load = (
        "    def load(self):\n        self.net = torch.load('best.pt')\n        self.net = nn.DataParallel(self.net)\n"
    )
    trainer = BUILDING_TRAINER.replace("define([0, 1])", "nn.DataParallel(Net())") + "\n" + load
    main = "if args.train:\n    trainer.train()\nelse:\n    trainer.load()\n"
    main = f"from trainer import Trainer\n\ntrainer = Trainer()\n{main}"
    plan = plan_project(main, trainer=f"import torch\nfrom torch import nn\n{trainer}")
    assert plan.questions == []
    assert "        self.net = nn.DataParallel(self.net)\n" in changed(plan)["trainer.py"].partition("def load")[2]


LIBRARY = """
import torch

class Optimizer:
    @classmethod
    def from_options(cls, model, options):
        return cls(build(model, options))

    def __init__(self, inner):
        self.inner = inner

def build(model, options):
    optimizer = torch.optim.Adam(model.parameters())
    if options.half:
        from apex import amp
        model, optimizer = amp.initialize(model, optimizer)
    return optimizer

def count(model):
    return sum(1 for _ in model.parameters())
"""


def test_what_nothing_calls_of_a_library_has_no_part_in_the_training(plan_project: Planner) -> None:
    main = MAIN.replace("import torch\n", "import torch\nimport tools\n\ntools.Chosen = tools.Optimizer\n")
    main = main.replace("torch.optim.SGD(model.parameters(), lr=0.1)", "Warm(torch.optim.SGD(model.parameters()))")
    warm = "class Warm:\n    def __init__(self, optimizer):\n        self.optimizer = optimizer\n\n"
    main = main.replace("def main", f"{warm}    def step(self):\n        self.optimizer.step()\n\ndef main", 1)
    engine = ENGINE.replace("optimizer.zero_grad()", "optimizer.optimizer.zero_grad()")
    plan = plan_project(main, engine=engine, tools=LIBRARY)
    assert plan.questions == []
    assert "Warm(pai_distributed.set_optimizer_instance(torch.optim.SGD(" in changed(plan)["main.py"]
    assert "tools.py" not in changed(plan)


def test_a_model_of_a_function_that_only_tests_is_not_the_trained_one(plan_project: Planner) -> None:
    main = code(MAIN).replace("main()\n", "") + "\ndef test():\n    model = Net()\n    print(validate(model))\n\n"
    main += "main()\ntest()\n"
    assert plan_project(main, engine=ENGINE).questions == []
    shared = main.replace("DDP(model)", "wrapped(model)").replace("(validate(model))", "(validate(wrapped(model)))")
    shared += "\n"
    shared = shared.replace("def main", "def wrapped(net):\n    net = DDP(net)\n    return net\n\ndef main", 1)
    message = next(question.message for question in plan_project(shared, engine=ENGINE).questions)
    assert "built in several functions: line" in message


def test_model_that_passes_through_a_function_not_known_is_perforated_after_it(plan_project: Planner) -> None:
    build = "    model = Net()\n"
    main = MAIN.replace(build, f"{build}    run(model)\n\ndef run(model):\n    model = to_device(model)\n")
    main = main.replace("import torch\n", "import torch\nfrom somewhere import to_device\n")
    text = changed(plan_project(main, engine=ENGINE))["main.py"]
    assert text.index("= to_device(model)") < text.index("UPA.perforate_model(") < text.index("tracker.set_optimizer(")
    maybe = main.replace("    model = to_device(model)\n", "    if cuda:\n        model = to_device(model)\n")
    text = changed(plan_project(maybe, engine=ENGINE))["main.py"]
    assert text.index("        model = to_device(model)\n") < text.index("\n    pai_distributed.configure_library()\n")


@pytest.mark.parametrize(
    ("call", "told"),
    [("prune_to(goal, model)", True), ("prune_to(goal, data)", False), ("count_ops(model)", False)],
)
def test_layers_changed_between_two_trainings_are_told(plan_project: Planner, call: str, told: bool) -> None:
    head, _, rest = MAIN.partition("    optimizer = ")
    changes = f"    if args.prune:\n        run(model)\n        {call}\n    run(model)\n\ndef run(model):\n"
    main = head.replace("import torch\n", "import torch\nfrom parts import prune_to, count_ops\n") + changes
    parts = "def prune_to(goal, net):\n    pruner.step()\n\ndef count_ops(net):\n    return 1\n"
    messages = [q.message for q in plan_project(f"{main}    optimizer = {rest}", engine=ENGINE, parts=parts).questions]
    assert any("`prune_to(...)` is given it after that" in message for message in messages) == told


HOLDS = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from held import hold

model = DDP(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    total_loss = 0
    for x in loader:
        optimizer.zero_grad()
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
        total_loss += loss.item()
    found = hold(model, held_out)
"""


@pytest.mark.parametrize(
    ("hold", "said"),
    [
        pytest.param(
            "@torch.no_grad()\ndef hold(model, xs):\n    return sum(int(model(x) > 0) for x in xs) / len(xs)\n",
            "whether a higher or a lower `found` is better",
            id="without gradients",
        ),
        pytest.param(
            "def hold(model, xs):\n    model.train(False)\n    print([model(x) for x in xs])\n",
            "Name what its validation (line 4 of held.py) measures",
            id="told not to train",
        ),
        pytest.param("def hold(model, xs):\n    save(model, xs)\n", "in which nothing validates", id="neither"),
    ],
)
def test_what_is_said_of_an_epochs_validation_is_so_where_another_file_validates(
    plan_project: Planner, hold: str, said: str
) -> None:
    (asked,) = plan_project(HOLDS, held=f"import torch\n\n{hold}").questions
    assert said in asked.message


@pytest.mark.parametrize("order", [["tools", "wrapping"], ["wrapping", "tools"]])
def test_a_name_is_of_the_module_that_has_it_whatever_else_is_imported_by_star(
    plan_project: Planner, order: list[str]
) -> None:
    stars = "".join(f"from {name} import *\n    " for name in order)
    main = f"""
    import torch
    {stars}
    model = Net()
    model = wrap(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best = 0
    for epoch in range(10):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        acc = validate(model)
        best = max(best, acc)
    """
    tools = "import torch\nfrom more import *\n\ndef evaluate(model):\n    model.eval()\n"
    wrapping = """
    from torch.nn.parallel import DistributedDataParallel as DDP

    def wrap(model):
        model = DDP(model)
        return model
    """
    more = "import torch\nfrom tools import *\n\ndef adam(net):\n    return torch.optim.Adam(net.parameters())\n"
    texts = changed(plan_project(main, tools=tools, wrapping=wrapping, more=more))
    assert "model = UPA.perforate_model(" in texts["main.py"]


@pytest.mark.parametrize(
    ("back", "taken", "found"),
    [
        ("end", "end", True),
        ("begin, end", "begin, end", True),
        ("end, begin", "begin, end", False),
        ("end if more else begin", "end", False),
        ("end()", "end", False),
    ],
)
def test_a_function_that_another_one_defines_and_gives_back_returns_its_score(
    plan_project: Planner, back: str, taken: str, found: bool
) -> None:
    main = f"""
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP
    from metrics import measure

    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    {taken} = measure(model, args.more)
    for _ in range(9):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        end()
    """
    metrics = f"""
    def measure(model, more):
        def begin():
            model.eval()

        def end():
            acc = evaluate(model, held_out)
            print(acc)

        return {back}
    """
    plan = plan_project(main, Options(metric="acc", mode="max"), metrics=metrics)
    assert [one.code for one in plan.questions] == ["PAI105"] * (not found)
    if found:
        texts = changed(plan)
        assert "        print(acc)\n        return acc\n" in texts["metrics.py"]
        assert "    pai_score = end()\n" in texts["main.py"]


def test_a_function_of_another_file_that_is_handed_over_returns_its_score(plan_project: Planner) -> None:
    main = """
    from loop import train, train_epoch

    train(Net(), each_epoch=train_epoch)
    """
    loop = """
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP

    def train_epoch(model, optimizer, log):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        valid_accuracy = evaluate(model, held_out)
        log.append(valid_accuracy)

    def train(net, each_epoch):
        model = DDP(net)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(9):
            given = (model, optimizer, [])
            each_epoch(*given)
    """
    new = changed(plan_project(main, Options(metric="valid_accuracy", mode="max"), loop=loop))["loop.py"]
    assert "    log.append(valid_accuracy)\n    return valid_accuracy\n" in new
    assert new.endswith(
        "        pai_score = each_epoch(*given)\n        pai_distributed.report_validation_score(pai_score, model)\n"
    )


BRIDGE = """
class Bridge:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    from .fit import fit
    from .judge import judge
"""
FIT = """
import torch.nn.functional as F

def fit(self, loader, epochs):
    self.model.train()
    for epoch in range(epochs):
        for x, y in loader:
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()
"""
JUDGE = """
import torch
import torch.nn.functional as F

def judge(self, loader):
    self.model.eval()
    total = 0
    with torch.no_grad():
        for x, y in loader:
            total += F.cross_entropy(self.model(x), y).item()
    return total / len(loader)
"""
BRIDGED = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from bridge import Bridge

model = DDP(Net())
optimizer = torch.optim.AdamW(model.parameters())
bridge = Bridge(model, optimizer)
best = 1e5
for i in range(10):
    bridge.fit(loader, 2)
    loss = bridge.judge(loader)
    if loss < best:
        best = loss
        torch.save(model.state_dict(), "best.pt")
"""


@pytest.mark.parametrize("own", ["self", "bridge"])
def test_what_the_body_of_a_class_imports_is_a_method_of_it(plan_project: Planner, own: str) -> None:
    fit, judge = FIT.replace("self", own), JUDGE.replace("self", own)
    parts = {"bridge/__init__": BRIDGE, "bridge/fit": fit, "bridge/judge": judge}
    files = changed(plan_project(BRIDGED, **parts))
    assert "    pai_distributed.report_validation_score(loss, model)" in files["main.py"]
    assert "finish_initialization()" in files["fit.py"]
    assert {*files} == {"main.py", "fit.py"}


MADE = "optimizer = torch.optim.AdamW(model.parameters())"


def test_what_the_bodies_of_two_classes_import_is_no_method_of_the_first(plan_project: Planner) -> None:
    """Else what the second has by the same names would count as the first one's."""
    other = BRIDGE.replace("class Bridge", "class Ahead").replace("model, optimizer", "optimizer, model")
    parts = {"bridge/__init__": other + BRIDGE, "bridge/fit": FIT, "bridge/judge": JUDGE}
    scopes = plan_project(BRIDGED, **parts).script.index.scopes
    assert [scope.holder for scope in scopes if scope.name == "fit"] == [None]


@pytest.mark.parametrize(
    ("before", "begun", "together"),
    [
        ("", f"    if args.reset:\n        {MADE}", True),
        ("", f"    {MADE}", False),
        ("", f"    if args.reset:\n        {MADE}\n    else:\n        {MADE}", False),
        ("None  # ", f"    if args.adam:\n        {MADE}", False),
        ("None  # ", f"    if optimizer is None:\n        {MADE}", True),
        ("None  # ", f"    if i == 0:\n        {MADE}", True),
    ],
    ids=["in some turns", "in each", "in either branch", "for the first time", "once it is missed", "in one turn"],
)
def test_a_loop_that_makes_its_optimizer_anew_in_some_turns_trains_on_in_the_others(
    plan_project: Planner, before: str, begun: str, together: bool
) -> None:
    main = BRIDGED.replace("for i in range(10):", f"for i in range(10):\n{begun}\n    bridge.optimizer = optimizer")
    main = main.replace("optimizer = torch.optim.AdamW", f"optimizer = {before}torch.optim.AdamW", 1)
    parts = {"bridge/__init__": BRIDGE, "bridge/fit": FIT, "bridge/judge": JUDGE}
    loops = plan_project(main.replace("bridge.fit", "bridge.fit(loader, 3)\n    bridge.fit"), **parts).questions
    assert (loops == []) is together, loops


OWN_EVAL = """
    import torch
    from torch.nn import DataParallel
    {imported}

    def train(net, loader, optimizer):
        best_acc = 0
        for epoch in range(10):
            for x, y in loader:
                criterion(net(x), y).backward()
                optimizer.step()
            acc = eval({given})
            best_acc = max(best_acc, acc)

    def transfer(pretrained):
        return DataParallel(pretrained)

    net = DataParallel(Net())
    train(net, loader, torch.optim.SGD(net.parameters(), lr=0.1))
"""
MEASURES = "def eval(model, loader):\n    with torch.no_grad():\n        return total(model, loader)\n"


@pytest.mark.parametrize(
    ("own", "imported", "given", "used"),
    [
        pytest.param(MEASURES, "", "net, loader", False, id="the module's"),
        pytest.param("", "from engine import eval", "net, loader", False, id="imported"),
        pytest.param("", "", "config.measure", True, id="Python's"),
        pytest.param(
            "class Net(Module):\n" + indent(MEASURES, "    "),
            "",
            "config.measure",
            True,
            id="Python's beside a method",
        ),
    ],
)
def test_what_the_project_names_as_a_builtin_looks_nothing_up(
    plan_project: Planner, own: str, imported: str, given: str, used: bool
) -> None:
    main = code(OWN_EVAL).format(imported=imported, given=given) + own
    script = plan_project(main, engine=f"import torch\n{MEASURES}").script
    assert any(scope.name == "transfer" and script.index.holds(scope) for scope in script.index.scopes) == used


DECORATED = """
    import torch
    from torch.nn import DataParallel
    from setting import experiment

    @experiment.{decorator}
    def run():
        net = DataParallel(Net())
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step, (x, y) in enumerate(loader):
            criterion(net(x), y).backward()
            optimizer.step()
            if step % 100 == 0:
                acc = validate(net)
"""


@pytest.mark.parametrize(
    ("made", "decorator", "uncalled"),
    [
        pytest.param("from sacred import Experiment", "automain", False, id="run"),
        pytest.param("from sacred import Experiment", "main", False, id="run by its name"),
        pytest.param("from sacred import Experiment", "capture", True, id="only filled in"),
        pytest.param("from trials import Experiment", "automain", True, id="of another library"),
    ],
)
def test_a_function_that_an_object_of_a_library_runs_is_called(
    plan_project: Planner, made: str, decorator: str, uncalled: bool
) -> None:
    main = code(DECORATED).format(decorator=decorator)
    script = plan_project(main, setting=f"{made}\nexperiment = Experiment('train')\n").script
    assert (not script.loops, script.uncalled != "") == (uncalled, uncalled)


TRAINER_OF_A_FILE = """
import torch
from base import Base
from torch.nn.parallel import DistributedDataParallel as DDP

class Trainer(Base):
    def __init__(self, args):
        self.model = Net()
        self.model = DDP(self.model)
        self.optimizer = torch.optim.Adam(self.model.parameters())
"""
BASE_OF_THEM = """
class Base:
    def train(self):
        for epoch in range(9):
            for x in loader:
                self.model(x).mean().backward()
                self.optimizer.step()
"""
CHOOSES_A_CLASS = """
def choose(args):
    if args.kind == 1:
        from first import Trainer as M
    elif args.kind == 2:
        from second import Trainer as M
    elif args.kind == 3:
        from video import Other as M
    return M(args)

choose(args).train()
"""


@pytest.mark.parametrize("missing", [True, False])
def test_classes_of_one_name_that_one_name_stands_for_are_told_apart_by_their_files(
    plan_project: Planner, missing: bool
) -> None:
    main = CHOOSES_A_CLASS if missing else CHOOSES_A_CLASS.replace("video import Other", "first import Trainer")
    plan = plan_project(main, first=TRAINER_OF_A_FILE, second=TRAINER_OF_A_FILE, base=BASE_OF_THEM)
    assert plan.script.builders == ["first.py:Trainer.self.model", "second.py:Trainer.self.model"]


@pytest.mark.parametrize(
    ("ending", "kept"),
    [("saver.export()", "best, saver.newest"), ("print(best)", "best")],
)
def test_what_a_saver_of_another_file_notes_with_the_best_is_kept(
    plan_project: Planner, ending: str, kept: str
) -> None:
    saver = """
    import shutil, torch
    class Saver:
        def __init__(self):
            self.newest = None
        def mark(self, name, model):
            torch.save(model.state_dict(), name)
            self.newest = name
        def export(self):
            shutil.copy(self.newest, "final.pt")
    """
    main = f"""
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP
    from saving import Saver
    from mine import Net

    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best, saver = 0.0, Saver()
    for epoch in range(9):
        for x in loader:
            optimizer.zero_grad()
            model(x).backward()
            optimizer.step()
        acc = validate(model)
        if acc > best:
            best = acc
            saver.mark("%d.pt" % epoch, model)
    print(best)
    {ending}
    """
    new = changed(plan_project(main, saving=saver))["main.py"]
    names = f"({kept})" if "," in kept else kept
    assert f"keep_with_best(lambda: {names})" in new


#: A module with a function that trains, which nothing in it calls.
UNSTARTED = PROGRAM.replace("best):", "best=0):")


@pytest.mark.parametrize(
    ("others", "told"),
    [
        pytest.param({}, "Call it at the end of main.py", id="nothing"),
        pytest.param({"run": "from main import train\nif __name__ == '__main__':\n    train()\n"}, "run.py", id="one"),
        pytest.param(
            {"a": "import main\nmain.train()\n", "b": "import main\nmain.train()\n"}, "a.py, b.py use", id="two"
        ),
    ],
)
def test_what_nothing_in_a_script_starts_is_asked_about(
    plan_project: Planner, others: dict[str, str], told: str
) -> None:
    (question,) = plan_project(UNSTARTED, **others).questions
    assert (question.code, question.line) == ("PAI104", 7)
    assert told in question.message
    assert ("`retrofit apply run.py`" in question.message) is ("run" in others)


@pytest.mark.parametrize(
    ("started", "package"),
    [
        pytest.param("from lib.own import train\ntrain()\n", "", id="by its name"),
        pytest.param("from lib.own import *\ntrain()\n", "", id="with all that its module has"),
        pytest.param("import lib.own as own\nown.train()\n", "", id="of its module"),
        pytest.param("import lib.own\nlib.own.train()\n", "", id="by its full name"),
        pytest.param("from lib import own\nown.train()\n", "", id="of a module of a package"),
        pytest.param("from lib import train\ntrain()\n", "from .own import train\n", id="of a package"),
        pytest.param("from lib import *\ntrain()\n", "from .own import *\n", id="of all that a package has"),
        pytest.param("import lib\nlib.train()\n", "from .own import *\n", id="of a package, by its full name"),
        pytest.param("def run():\n    from lib.own import train\n    train()\nrun()\n", "", id="in a function"),
        pytest.param("try:\n    from lib.own import train\nexcept ImportError: pass\ntrain()\n", "", id="if there"),
    ],
)
def test_what_a_script_imports_and_starts_is_not_asked_about(plan_project: Planner, started: str, package: str) -> None:
    assert plan_project(started, **{"lib/__init__": package, "lib/own": UNSTARTED}).questions == []


def test_what_a_module_starts_where_it_is_no_main_program_is_asked_about(plan_project: Planner) -> None:
    own = f"{UNSTARTED}\nif __name__ == '__main__':\n    train()\n"
    (question,) = plan_project("import own\n", own=own).questions
    assert (question.code, question.file) == ("PAI104", "own.py")
