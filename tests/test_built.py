"""What trains is found however the object that trains is made: by tables, registries, factories and class methods."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrofit.options import Options
from retrofit.survey.sites.script import Script
from tests.helpers import code, plan_of, plan_of_project, rewritten, survey_of

#: A script whose model object owns network, optimizer and pass; tests replace the words in capitals.
SCRIPT = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

REGISTRY = {}

def register(name):
    def keep(kind):
        REGISTRY[name] = kind
        return kind
    return keep

class Base:
    def __init__(self, opt):
        self.opt = opt

    @classmethod
    def from_opt(cls, opt):
        return cls(opt)

    def optimize(self, x, y):
        self.optimizer.zero_grad()
        self.loss = torch.nn.functional.mse_loss(self.net(x), y)
        self.loss.backward()
        self.optimizer.step()

@register("own")
class Own(Base):
    def __init__(self, opt):
        super().__init__(opt)
        self.net = DDP(torch.nn.Linear(4, 4))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

class Other:
    def optimize(self, x, y):
        print(x, y)

def make(opt):
    return Own(opt)

KINDS = {"own": Own, "other": Other}

class Factory:
    kinds = {"own": Own}

    @classmethod
    def create(cls, opt):
        return cls.kinds[opt.kind](opt)

    @staticmethod
    def build(opt):
        return Factory.kinds[opt.kind](opt)

class Builder:
    def __init__(self, opt):
        self.opt, self.kinds = opt, {"own": Own}

    def build(self):
        return self.kinds[self.opt.kind](self.opt)

def create(opt):
    CREATE

model = create(opt)
for epoch in range(10):
    for x, y in loader:
        model.optimize(x, y)
"""

MADE = [
    "return KINDS.get(opt.kind)(opt)",
    "return KINDS.get(opt.kind, Own)(opt)",
    "return {}.get(opt.kind, Own)(opt)",
    "kind = KINDS.get(opt.kind)\n    if kind is None:\n        raise KeyError(opt.kind)\n    return kind(opt)",
    "kind = KINDS.get('else') or Own\n    return kind(opt)",
    "return {'a': KINDS}['a'].get('own')(opt)",
    "return REGISTRY[opt.kind](opt)",
    "return REGISTRY.get(opt.kind)(opt)",
    "return {'own': make}[opt.kind](opt)",
    "return Own.from_opt(opt)",
    "return KINDS[opt.kind].from_opt(opt)",
    "return Factory.create(opt)",
    "return Factory.build(opt)",
    "return Builder(opt).build()",
    "kinds = {}\n    kinds['own'] = Own\n    return kinds[opt.kind](opt)",
]


def _with(create: str) -> Script:
    return survey_of(code(SCRIPT).replace("CREATE", create))


@pytest.mark.parametrize("create", MADE)
def test_an_object_that_trains_is_found_however_it_is_made(create: str) -> None:
    script = _with(create)
    assert [len(script.loops), len(script.backwards), len(script.optimizers)] == [1, 1, 1]


def test_a_class_method_without_a_parameter_is_no_error() -> None:
    text = code(SCRIPT).replace("def create(opt):\n    CREATE", "def create(opt):\n    return Factory.create()")
    assert not survey_of(text.replace("def create(cls, opt)", "def create()")).loops


@pytest.mark.parametrize(
    "create",
    [
        "return KINDS.get('other')(opt)",  # by another key
        "return KINDS.get('other', None)(opt)",
        "return Other()",
        "kinds = {}\n    kinds['own'] = Own\n    return kinds['else'](opt)",
    ],
)
def test_what_another_key_gives_trains_nothing(create: str) -> None:
    assert not _with(create).loops


CHOSEN = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from outside import stepped

class One:
    def wrap(self, net):
        return net
    def optimizer(self, net):
        return torch.optim.SGD(net.parameters(), lr=0.1)

class Many:
    def wrap(self, net):
        return DDP(net)
    def optimizer(self, net):
        return torch.optim.AdamW(net.parameters(), lr=0.1)

dist.init_process_group("nccl")
way = Many() if dist.is_initialized() else One()
model = torch.nn.Linear(4, 4)
model = WRAP
optimizer = OPTIMIZER
for epoch in range(10):
    for x, y in loader:
        loss = criterion(model(x), y)
        STEP
"""
STEP = "loss.backward()\n        optimizer.step()\n        optimizer.zero_grad()"
UNSEEN = "loss.backward()\n        stepped(optimizer)"


@pytest.mark.parametrize("step", [STEP, UNSEEN])
def test_the_optimizer_that_a_method_of_one_of_several_classes_returns_is_the_training_s(step: str) -> None:
    text = CHOSEN.replace("WRAP", "DDP(model)").replace("OPTIMIZER", "way.optimizer(model)").replace("STEP", step)
    (optimizer,) = survey_of(text).optimizers
    assert (optimizer.target, optimizer.keeps != "") == ("optimizer", True)


def test_a_model_that_only_one_of_several_classes_wraps_is_built_where_it_is_built() -> None:
    text = CHOSEN.replace("WRAP", "way.wrap(model)").replace("OPTIMIZER", "torch.optim.SGD(model.parameters(), 0.1)")
    script = survey_of(text.replace("STEP", STEP))
    assert [(one.target, one.line) for one in script.models] == [("model", 20)]
    assert script.bypass is None


def test_a_model_that_one_of_several_classes_makes_anew_is_not_the_one_that_it_gets() -> None:
    text = CHOSEN.replace("        return net\n", "        return torch.nn.Identity()\n").replace("STEP", STEP)
    text = text.replace("WRAP", "way.wrap(model)").replace("OPTIMIZER", "torch.optim.SGD(model.parameters(), 0.1)")
    assert [one.line for one in survey_of(text).models] == [21]


WRAPPING = """
import argparse
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Trainer:
    def __init__(self, args):
        self.args = args
        self.net = self.wrap(torch.nn.Linear(4, 4))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    METHOD

    def fit(self):
        for epoch in range(10):
            for x, y in loader:
                loss = criterion(self.net(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            acc = validate(self.net)

def main():
    parser = argparse.ArgumentParser()
    args = parser.parse_args()
    Trainer(args).fit()

main()
"""


@pytest.mark.parametrize(
    ("method", "asks"),
    [
        ("def wrap(self, net):\n        return DDP(net)", "not self.args.perforate_model_parallel"),
        ("@staticmethod\n    def wrap(net):\n        return DDP(net)", "not pai_distributed.initializing()"),
    ],
)
def test_a_static_method_has_no_attributes_of_the_object(method: str, asks: str, tmp_path: Path) -> None:
    plan = plan_of(tmp_path, WRAPPING.replace("METHOD", method), Options(metric="acc", mode="max"))
    assert plan.questions == []
    assert f"        if {asks}:\n" in rewritten(plan)


OWN = """
from torch.optim import SGD

class Noam:
    def __init__(self, *inner):
        self.inner = inner[0]
    def zero_grad(self):
        self.inner.zero_grad()
    def step(self):
        self.inner.step()

def build(net):
    GIVEN
"""


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("base = SGD(net.parameters(), lr=0.1)\n    return Noam(base)", ["optimizer"]),
        ("return Noam(SGD(net.parameters(), lr=0.1))", ["optimizer"]),
        ("return Noam(SGD(net[0].parameters(), lr=0.1), SGD(net[1].parameters(), lr=0.1))", []),  # none is the one
    ],
)
def test_an_object_around_an_optimizer_is_the_one_optimizer_and_none_of_several(given: str, found: list[str]) -> None:
    text = CHOSEN.replace("class One", OWN.replace("GIVEN", given) + "\nclass One").replace("WRAP", "DDP(model)")
    script = survey_of(text.replace("OPTIMIZER", "build(model)").replace("STEP", STEP))
    assert [one.target for one in script.optimizers] == found


MODULE = SCRIPT.rpartition("def create")[0]
ENTRY = """
import kinds
from outside import things

def create(opt):
    CREATE

model = create(opt)
for epoch in range(10):
    for x, y in loader:
        model.optimize(x, y)
    acc = validate(model)
"""


@pytest.mark.parametrize(
    ("create", "loops"),
    [
        ("return getattr(kinds, opt.kind)(opt)", 1),
        ("return kinds.__dict__[opt.kind](opt)", 1),
        ("return vars(kinds)[opt.kind](opt)", 1),
        ("kind = getattr(kinds, opt.kind)\n    return kind(opt)", 1),
        ("return getattr(things, opt.kind)(opt)", 0),  # of a package that is not the project's
        ("kinds = things.load()\n    return getattr(kinds, opt.kind)(opt)", 0),  # of another object
    ],
)
def test_what_a_made_name_finds_in_an_imported_module_is_followed(create: str, loops: int, tmp_path: Path) -> None:
    (tmp_path / "kinds.py").write_text(code(MODULE))
    (tmp_path / "train.py").write_text(code(ENTRY).replace("CREATE", create))
    assert len(plan_of_project(tmp_path / "train.py").script.loops) == loops


@pytest.mark.parametrize(("before", "after", "loops"), [("print(model.config)", "", 1), ("", "print(model.config)", 0)])
def test_what_a_name_was_before_tells_nothing_of_what_it_is(
    before: str, after: str, loops: int, tmp_path: Path
) -> None:
    (tmp_path / "kinds.py").write_text(code(MODULE))
    text = code(ENTRY).replace("CREATE", "return getattr(kinds, opt.kind)(opt)")
    made = "model = create(opt)\n"
    (tmp_path / "train.py").write_text(text.replace(made, f"model = parse()\n{before}\n{made}{after}\n"))
    assert len(plan_of_project(tmp_path / "train.py").script.loops) == loops


#: What builds a model by a method that is named as one of a module that moves it; tests replace the word in capitals.
BUILDS = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Net(torch.nn.Linear):
    def double(self):
        return super().double()

class Factory:
    def __init__(self, width):
        self.width = width

    def double(self):
        return torch.nn.Linear(self.width, 8)

MODEL
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    acc = validate(model)
    if acc > best:
        best = acc
"""


@pytest.mark.parametrize(
    ("model", "built", "wrapped"),
    [
        ("model = DDP(Factory(16).double())", "Factory(16).double()", "model"),
        ("model = Factory(16).double()\nmodel = DDP(model)", "Factory(16).double()", "model"),
        ("model = DDP(Factory(16).double().double())", "Factory(16).double()", "model.double()"),
        ("model = DDP(Net(16, 8).double())", "Net(16, 8)", "model.double()"),
        ("model = DDP(torch.nn.Linear(16, 8).double())", "torch.nn.Linear(16, 8)", "model.double()"),
    ],
)
def test_a_method_of_what_is_no_module_builds_where_that_of_a_module_moves(
    model: str, built: str, wrapped: str, tmp_path: Path
) -> None:
    changed = rewritten(plan_of(tmp_path, code(BUILDS).replace("MODEL", model)))
    assert f"model = {built}\n" in changed
    assert f"DDP({wrapped}, find_unused" in " ".join(changed.replace("DDP(\n", "DDP(").split())
