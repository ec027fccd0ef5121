"""Which files belong to a script, and that each is edited where its sites are."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from textwrap import indent

import pytest

from retrofit.imports import find_module
from retrofit.project import load_project
from tests.helpers import plan_of_project

TRAINS = "def train(model, loss):\n    loss.backward()\n"


def write(folder: Path, files: dict[str, str]) -> None:
    """Write modules, given by their paths without an ending."""
    for name, text in files.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def modules(script: Path) -> dict[str, str]:
    """The modules that count, by name, as paths relative to the script."""
    project = load_project(script, script.name)
    return {name: os.path.relpath(source.path, script.parent) for name, source in project.modules.items()}


# ---- which files


@pytest.mark.parametrize(
    "statement",
    [
        "import engine",
        "import engine as e",
        "from engine import train",
        "from engine import *",
        "def late():\n    import engine\n",
    ],
)
def test_imports_of_every_form_are_followed(tmp_path: Path, statement: str) -> None:
    write(tmp_path, {"main": f"{statement}\n", "engine": TRAINS})
    assert modules(tmp_path / "main.py") == {"engine": "engine.py"}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        pytest.param("mean.data.mul_(0.9).add_(now.data)", {"nets"}, id="lets one model follow another"),
        pytest.param("mean.data.normal_()", set(), id="gives it first weights"),
    ],
)
def test_what_changes_weights_by_others_is_read(tmp_path: Path, change: str, found: set[str]) -> None:
    write(tmp_path, {"main": "from nets import follow\n", "nets": f"def follow(mean, now):\n    {change}\n"})
    assert modules(tmp_path / "main.py").keys() == found


@pytest.mark.parametrize(
    ("value", "found"), [("one.grad", {"sync"}), ("one.grad.data", {"sync"}), ("torch.autograd.grad(one, two)", set())]
)
def test_what_averages_gradients_is_read(tmp_path: Path, value: str, found: set[str]) -> None:
    sync = f"def average(net):\n    for one in net.parameters():\n        dist.all_reduce({value})\n"
    write(tmp_path, {"main": "from sync import average\n", "sync": sync})
    assert modules(tmp_path / "main.py").keys() == found


@pytest.mark.parametrize(("test", "found"), [("value > self.best", {"stops"}), ("value > self.limit", set())])
def test_what_keeps_a_best_is_read(tmp_path: Path, test: str, found: set[str]) -> None:
    """Whatever it says of epochs: what the loop keeps by its answer is that of the best round."""
    stops = f"class Stop:\n    def __call__(self, value):\n        self.improved = {test}\n"
    write(tmp_path, {"main": "from stops import Stop\n", "stops": stops})
    assert modules(tmp_path / "main.py").keys() == found


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("from parts.engine import train", "parts.engine"),
        ("import engine", "engine"),
        ("from parts import train", ""),  # the like of which may be installed
        ("import own\nfrom parts.engine import train", ""),  # which needs both folders
    ],
)
def test_a_project_within_another_is_looked_through(tmp_path: Path, statement: str, found: str) -> None:
    """Its script is started with the folder above on PYTHONPATH, or as a module there."""
    (tmp_path / ".git").mkdir()
    inner = {"tools/main": f"{statement}\n", "tools/own": "", "parts/__init__": TRAINS}
    write(tmp_path / "inner", {**inner, "parts/engine": TRAINS, "engine": TRAINS})
    project = load_project(tmp_path / "inner" / "tools" / "main.py", "main.py")
    assert ("tools.main" if found else "") == project.module
    assert [name for name in project.modules if name != "parts"] == [found] * bool(found)


@pytest.mark.parametrize(("added", "found"), [("inner", {"parts.engine"}), ("", set()), ("../other", set())])
def test_folders_of_the_project_on_pythonpath_are_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, added: str, found: set[str]
) -> None:
    root = tmp_path / "root"
    text = "import own\nfrom parts.engine import train\n"
    write(root / "inner", {"tools/main": text, "tools/own": "", "parts/engine": TRAINS})
    write(tmp_path / "other", {"parts/engine": TRAINS})
    (root / ".git").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(root / added) if added else "")
    monkeypatch.chdir(root / "inner")  # which an empty entry would mean
    assert modules(root / "inner" / "tools" / "main.py").keys() == found


def test_imports_are_followed_through_packages_and_relative_ones(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "main": "from tool import train\n",
            "tool/__init__": "from .core import train\n",
            "tool/core/__init__": "from .deep import train\nfrom .. import other\n",
            "tool/core/deep": TRAINS,
            "tool/other": "optimizer = None\n",
            "tool/unused": TRAINS,
        },
    )
    assert modules(tmp_path / "main.py") == {
        "tool": "tool/__init__.py",
        "tool.core": "tool/core/__init__.py",
        "tool.core.deep": "tool/core/deep.py",
        "tool.other": "tool/other.py",
    }


#: A package that imports nothing before it is asked for a name, and the packages and modules behind it.
LENDING = {
    "nets/__init__": (
        "from typing import TYPE_CHECKING\nfrom .lazy import Lazy\n"
        "if TYPE_CHECKING:\n    from .small import Small\n    if torch:\n        from .large import Net as Large\n"
        "    from .other import *\nelse:\n    from .always import log\n"
        "    sys.modules[__name__] = Lazy(__name__, structure)\n"
    ),
    "nets/lazy": "optimizer = None\n",
    "nets/always": "optimizer = None\n",
    "nets/small/__init__": (
        "import typing\nif typing.TYPE_CHECKING:\n    from .model import Small, Tiny\n    from .old import Old\n"
        "def __getattr__(name):\n    return find(name)\n"
    ),
    "nets/small/model": "from ..base import fit\noptimizer = None\n",
    "nets/small/old": TRAINS,
    "nets/base": TRAINS,
    "nets/large": TRAINS,
    "nets/other": TRAINS,
}
ALWAYS = {"nets", "nets.lazy", "nets.always"}
SMALL = {"nets.small", "nets.small.model", "nets.base"}


@pytest.mark.parametrize(
    ("main", "found"),
    [
        pytest.param("from nets import Small", SMALL, id="by its name"),
        pytest.param("from nets import Large", {"nets.large"}, id="by another name than the module's"),
        pytest.param("from nets.small import Tiny", SMALL, id="of a package in it"),
        pytest.param("from nets import Lazy, log, __version__", set(), id="what it has"),
        pytest.param("from nets import Unknown", {"nets.other"}, id="what only a module gives all names of may have"),
        pytest.param("import nets\nnets.Large()", {"nets.large"}, id="of the package itself"),
        pytest.param("import nets as n\nn.Small.load()", SMALL, id="of the package by another name"),
        pytest.param("import nets.small\nnets.small.Old()", {"nets.small", "nets.small.old"}, id="of one in it itself"),
        pytest.param(
            "import nets\ngetattr(nets, kind)()", {*SMALL, "nets.large", "nets.other"}, id="by a name made at run time"
        ),
        pytest.param("from nets import *", {*SMALL, "nets.large", "nets.other"}, id="all of its names"),
    ],
)
def test_a_package_that_imports_what_it_is_asked_for_alone_leads_no_further(
    tmp_path: Path, main: str, found: set[str]
) -> None:
    write(tmp_path, {"main": f"{main}\n", **LENDING})
    assert modules(tmp_path / "main.py").keys() == ALWAYS | found


def test_what_is_not_asked_of_such_a_package_is_no_neighbour(tmp_path: Path) -> None:
    text = "from nets.base import fit\nfor one in fit():\n    one.backward()\n"
    started = f"{text}if __name__ == '__main__':\n    pass\n"
    files = {"main": "from nets import Small\n", **LENDING, "nets/large": text, "nets/convert": started, "test": text}
    write(tmp_path, files)
    found = load_project(tmp_path / "main.py", "main.py").neighbours["nets.base"]
    assert {one.shown for one in found} == {"nets/convert.py", "test.py"}


def test_a_package_with_imports_for_annotations_alone_has_neighbours(tmp_path: Path) -> None:
    package = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .base import fit\n"
    again = "from nets.base import fit\ndef run():\n    fit()\n"
    files = {"main": "from nets.base import fit\n", "nets/__init__": package, "nets/base": TRAINS, "nets/again": again}
    write(tmp_path, {**files, "tune": "from nets.again import run\nrun()\n"})
    found = load_project(tmp_path / "main.py", "main.py").neighbours["nets.base"]
    assert [one.shown for one in found] == ["tune.py"]


GUARD = "if __name__ == '__main__':\n"


@pytest.mark.parametrize(
    ("run", "found"),
    [
        pytest.param(f"from engine import fit\n{GUARD}    fit(options())\n", True, id="by an import of the file"),
        pytest.param(f"{GUARD}    from engine import fit\n    fit(options())\n", True, id="of its own"),
        pytest.param(
            f"import engine\ndef go():\n    engine.fit(options())\n{GUARD}    go()\n", True, id="by a function"
        ),
        pytest.param(f"from engine import fit\n{GUARD}    print(options())\n", False, id="not then"),
        pytest.param("from engine import fit\n", False, id="not by itself"),
        pytest.param(
            f"import engine\nclass N:\n    e = engine\n{GUARD}    print(N())\n", False, id="a look at a class"
        ),
    ],
)
def test_what_the_script_imports_is_a_neighbour_where_it_trains_when_it_is_started(
    tmp_path: Path, run: str, found: bool
) -> None:
    main = "from engine import fit\nfrom other import options\nfit(options())\n"
    write(tmp_path, {"main": main, "engine": TRAINS, "other": f"def options():\n    return 1\n{run}"})
    project = load_project(tmp_path / "main.py", "main.py")
    (other,) = project.neighbours.get("engine", ()) or (None,)
    assert (other is not None and other.reached and other.may_call(["fit"])) is found


def test_what_a_module_imports_for_type_checkers_is_followed(tmp_path: Path) -> None:
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from trainer import Trainer\noptimizer = None\n"
    write(tmp_path, {"main": "import engine\n", "engine": text, "trainer": TRAINS})
    assert modules(tmp_path / "main.py").keys() == {"engine", "trainer"}


@pytest.mark.parametrize("line", ["import pack as p", "from above import (\n    other,\n    pack as p,\n)"])
def test_files_that_ask_a_package_for_what_trains_use_it(tmp_path: Path, line: str) -> None:
    asking = {"a": f"{line}\ndef run():\n    p.train()\n", "d": "import pack\npack.log()\n"}
    made = {"pack/__init__": "from .c import log\nfrom .b import train\n", "pack/b": TRAINS, "pack/c": ""}
    above = "above." if "above" in line else ""
    files = {"main": "import a\nimport d\na.run()\n", **asking}
    files |= {f"{above.replace('.', '/')}{name}": text for name, text in made.items()}
    write(tmp_path, {**files, "above/__init__": "", "above/other": ""})
    assert {"a", f"{above}pack", f"{above}pack.b"} == modules(tmp_path / "main.py").keys() - {"above"}


def test_files_that_say_nothing_of_training_count_only_where_they_pass_on_what_does(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"main": "import a\nimport nets\n", "a": "from b import train\n", "b": TRAINS, "nets": "import c", "c": ""},
    )
    assert modules(tmp_path / "main.py") == {"a": "a.py", "b": "b.py"}


def test_models_that_a_package_only_registers_are_left_out(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "main": "from zoo import make\nfrom engine import train\n",
            "engine": TRAINS,
            "zoo/__init__": "from .builder import make\nfrom .small import *\nfrom .large import *\n",
            "zoo/builder": "from .resume import load\n\ndef make(name):\n    return load(name)\n",
            "zoo/resume": "def load(name, optimizer=None):\n    return name\n",
            "zoo/small": "from .builder import make\n",
            "zoo/large": "from .resume import load\n# no optimizer here\n",
        },
    )
    assert list(modules(tmp_path / "main.py")) == ["engine", "zoo", "zoo.builder", "zoo.resume"]


def test_the_file_of_a_base_class_counts_of_what_trains(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "main": "from trainer import Agent\n",
            "trainer": "from parts.base import Base\nfrom parts.nets import Net\n"
            f"class Agent(nn.Module, Base):\n    pass\n{TRAINS}",
            "parts/base": "from parts import least\nclass Base(least.Least):\n    pass\n",
            "parts/least": "class Least:\n    def __init__(self, policy):\n        self.policy = policy\n",
            "parts/nets": "class Net:\n    pass\n",
        },
    )
    assert set(modules(tmp_path / "main.py")) == {"trainer", "parts.base", "parts.least"}


STEP = """
from tools import timed

def train(model, loss):
    def step():
        loss.backward()
    CALL
"""


@pytest.mark.parametrize("entry", ["main", "engine"])
@pytest.mark.parametrize(
    ("call", "counts"),
    [
        ("timed(step)", True),
        ("print(timed(step))", True),
        ("took = timed(3, closure=step)", True),
        ("step(timed(3))", False),
        ("timed(loss)", False),
    ],
)
def test_the_file_of_a_function_that_is_given_a_step_to_run_counts(
    tmp_path: Path, entry: str, call: str, counts: bool
) -> None:
    main = {"main": "from engine import train\nfrom tools import timed\n\ndef log():\n    pass\ntimed(log)\n"}
    write(tmp_path, {**main, "engine": STEP.replace("CALL", call), "tools": "def timed(closure):\n    closure()\n"})
    assert ("tools" in modules(tmp_path / f"{entry}.py")) is counts


@pytest.mark.parametrize(
    ("call", "counts"),
    [
        ("model = rest(model)", True),
        ("self.model = rest(\n        self.model, 3)", True),
        ("loss = rest(model)", False),
        ("model = rest(models)", False),
        ("rest(model)", False),
        ("# model = rest(model)", False),
    ],
)
def test_the_file_of_a_function_that_gives_back_what_code_that_trains_gives_it_counts(
    tmp_path: Path, call: str, counts: bool
) -> None:
    """Unread, it might give another model in its place."""
    tools = "def rest(model, layers=0):\n    return model\n"
    code = f"from tools import rest\n\ndef train(model, optimizer):\n    {call}\n    optimizer.step()\n"
    write(tmp_path, {"main": "from engine import train\ntrain(1, 2)\n", "engine": code, "tools": tools})
    assert ("tools" in modules(tmp_path / "main.py")) is counts
    write(tmp_path, {"engine": code.replace("optimizer", "other")})
    assert "tools" not in modules(tmp_path / "main.py")


def test_a_script_in_a_package_imports_it_by_its_full_name(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"tool/__init__": "", "tool/train": "from tool.core.engine import train\n", "tool/core/engine": TRAINS},
    )
    assert modules(tmp_path / "tool" / "train.py") == {"tool.core.engine": "core/engine.py"}


def test_what_a_package_makes_its_own_names_of_counts(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "main": "from trainers import make\nmake('plain', model)\n",
            "trainers/__init__": "from .plain import Plain\ndef make(kind, m): return {'plain': Plain}[kind](m)\n",
            "trainers/base": TRAINS,
            "trainers/plain": "from .base import train\n\nclass Plain:\n    pass\n",
        },
    )
    assert list(modules(tmp_path / "main.py")) == ["trainers", "trainers.plain", "trainers.base"]


def test_paths_that_the_script_adds_and_the_project_s_root_are_searched(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    write(
        tmp_path,
        {
            "tools/train": "import sys, os\nsys.path.append(os.path.join(os.path.dirname(__file__), '..', 'lib'))\n"
            "import beside\nimport below\nimport installed_for_development\n",
            "lib/beside": TRAINS,
            "below": TRAINS,
            "src/installed_for_development/__init__": TRAINS,
        },
    )
    assert modules(tmp_path / "tools" / "train.py") == {
        "beside": "../lib/beside.py",
        "below": "../below.py",
        "installed_for_development": "../src/installed_for_development/__init__.py",
    }


@pytest.mark.parametrize("told", ["setup.py", "setup.cfg", "pyproject.toml", ""])
def test_a_folder_of_the_project_that_installs_a_package_is_searched_last(tmp_path: Path, told: str) -> None:
    """As by `cd libs/Engine; python setup.py develop`. A data folder is no such place, nor one of another project."""
    write(
        tmp_path,
        {
            "run": "from engine.train import main\nimport late, known, alone\n",
            "known": TRAINS,
            "libs/Engine/known": TRAINS,
            "libs/Engine/engine/__init__": "",
            "libs/Engine/engine/train": TRAINS,
            "libs/Engine/src/late/__init__": TRAINS,
            "venv/alone": TRAINS,
        },
    )
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")
    for folder in (tmp_path / "venv", tmp_path / "libs" / "Engine"):
        (folder / (told or "README.md")).write_text("")
    engine = {"engine.train": "libs/Engine/engine/train.py", "late": "libs/Engine/src/late/__init__.py"}
    assert modules(tmp_path / "run.py") == {"known": "known.py", **(engine if told else {})}


def test_what_is_installed_or_generated_is_left_out(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"main": "import far\nimport pai_distributed\n", "pai_distributed": f'"""Generated by retrofit"""\n{TRAINS}'},
    )
    write(tmp_path / "site-packages", {"far": TRAINS})
    (tmp_path / "main.py").write_text("import sys\nsys.path.append('site-packages')\nimport far, pai_distributed\n")
    assert modules(tmp_path / "main.py") == {}


def test_a_module_that_cannot_be_parsed_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, {"main": "import old\nimport engine\n", "old": f"print 'x'\n{TRAINS}", "engine": TRAINS})
    assert modules(tmp_path / "main.py") == {"engine": "engine.py"}


def test_imports_in_a_circle_end(tmp_path: Path) -> None:
    write(tmp_path, {"main": "import a\n", "a": f"import b\n{TRAINS}", "b": f"import a, main\n{TRAINS}"})
    assert modules(tmp_path / "main.py") == {"a": "a.py", "b": "b.py"}


# ---- what is written

MAIN = """\
import torch
from torch.nn.parallel import DistributedDataParallel
IMPORT
from data import loaders
from nets import Net


def main():
    torch.distributed.init_process_group("gloo")
    train_loader, val_loader = loaders()
    model = Net()
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best_acc = 0
    for epoch in range(10):
        TRAIN(model, train_loader, optimizer)
        acc = EVALUATE(model, val_loader)
        if acc > best_acc:
            best_acc = acc


main()
"""
ENGINE = """\
import torch


def train_one_epoch(model, loader, optimizer):
    for inputs, targets in loader:
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def evaluate(model, loader):
    return sum((model(inputs).argmax(1) == targets).float().mean() for inputs, targets in loader)
"""


@pytest.mark.parametrize(
    ("statement", "prefix"),
    [
        ("from engine import evaluate, train_one_epoch", ""),
        ("import engine", "engine."),
        ("import engine as e", "e."),
        ("from engine import *", ""),
        ("from package.engine import evaluate, train_one_epoch", ""),
        ("import package.engine as e", "e."),
        ("import package.engine", "package.engine."),
        ("from package import engine", "engine."),
        ("from package import evaluate, train_one_epoch", ""),
    ],
)
def test_the_backward_pass_is_edited_in_the_file_that_has_it(tmp_path: Path, statement: str, prefix: str) -> None:
    main = MAIN.replace("IMPORT", statement)
    main = main.replace("TRAIN", f"{prefix}train_one_epoch").replace("EVALUATE", f"{prefix}evaluate")
    write(
        tmp_path,
        {
            "main": main,
            "engine": ENGINE,
            "package/__init__": "from .engine import evaluate, train_one_epoch\n",
            "package/engine": ENGINE,
        },
    )
    plan = plan_of_project(tmp_path / "main.py")
    assert not plan.questions
    changed = {os.path.relpath(file.path, tmp_path): file.after.decode() for file in plan.files if file.before}
    engine = "package/engine.py" if "package" in statement else "engine.py"
    assert set(changed) == {"main.py", engine}
    assert changed[engine] == ENGINE.replace("import torch\n", "import torch\nimport pai_distributed\n").replace(
        "        loss.backward()\n",
        "        pai_distributed.fill_missing_gradients(model)\n        loss.backward()\n"
        "        if pai_distributed.initializing():\n            pai_distributed.finish_initialization()\n",
    )
    assert "pai_distributed.report_validation_score(acc, model)" in changed["main.py"]


def test_a_name_of_its_own_is_no_import(tmp_path: Path) -> None:
    """`engine` is a module and, in a function, a variable: what is called on that is not the module's."""
    main = MAIN.replace("IMPORT", "import engine\nfrom engine import evaluate").replace("EVALUATE", "evaluate")
    main = main.replace("        TRAIN(", "        engine = Runner()\n        engine.train_one_epoch(")
    write(tmp_path, {"main": main, "engine": ENGINE})
    plan = plan_of_project(tmp_path / "main.py")
    assert [question.code for question in plan.questions] == ["PAI104"]


# ---- classes


TRAINER = """
from base import Base


class Trainer(Base):
    def __init__(self, model, loader):
        super().__init__(model)
        self.loader = loader
        self.best = 0.0

    def train(self, max_epochs):
        for epoch in range(max_epochs):
            self.run_epoch()
            acc = self.validate()
            if acc > self.best:
                self.best = acc
"""
BASE = """
from torch.nn.parallel import DistributedDataParallel as DDP


class Base:
    def __init__(self, model):
        self.model = model
        self.model = DDP(self.model)

    def run_epoch(self):
        for batch in self.loader:
            self.backward(batch)

    def backward(self, batch):
        self.model(batch).backward()
"""
ENTRY = """
import torch
from trainer import Trainer

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
trainer = Trainer(model, loader)
trainer.train(10)
"""


def test_methods_of_a_base_class_belong_to_the_class(tmp_path: Path) -> None:
    write(tmp_path, {"main": ENTRY, "trainer": TRAINER, "base": BASE})
    plan = plan_of_project(tmp_path / "main.py")
    assert not plan.questions
    changed = {file.path.stem: file.after.decode() for file in plan.files if file.before}
    assert "perforate_model(" in changed["main"]
    assert "planned_epochs(" in changed["trainer"]
    assert "fill_missing_gradients(self.model)" in changed["base"]
    assert "find_unused_parameters=pai_distributed.finds_unused_parameters()" in changed["base"]


#: An object whose parts are in classes that it extends together, none of which extends another.
TOGETHER = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Data:
    def load(self):
        self.loader = make_loader()

class Shown:
    def show(self, text):
        self.shown = print(text)

class Training:
    def fit(self):
        best = 0
        for epoch in range(10):
            for x, y in self.loader:
                loss = criterion(self.wrapped(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            acc = validate(self.model)
            if acc > best:
                best = acc

class Net(torch.nn.Module, Shown):
    pass

class Experiment(Data, Training, Shown):
    def run(self):
        self.load()
        self.model = Net()
        self.wrapped = DDP(self.model)
        self.model = self.wrapped.module
        self.optimizer = torch.optim.SGD(self.wrapped.parameters(), lr=0.1)
        self.fit()

Experiment().run()
"""


@pytest.mark.parametrize("bases", ["Data, Training", "Training, Data", "object, Data, Training"])
def test_methods_and_attributes_of_all_base_classes_belong_to_the_class(tmp_path: Path, bases: str) -> None:
    write(tmp_path, {"main": TOGETHER.replace("Data, Training", bases)})
    plan = plan_of_project(tmp_path / "main.py")
    assert not plan.questions
    new = next(file.after.decode() for file in plan.files if file.before)
    assert "        else:\n            self.wrapped = pai_distributed.without_wrapper(self.model)\n" in new
    assert "fill_missing_gradients(self.wrapped)" in new


@pytest.mark.parametrize(
    ("wrapping", "named"),
    [
        pytest.param("if many:\n            self.wrapped = DDP(self.model)", "self.model", id="on some ways"),
        pytest.param("self.wrapped = DDP(self.model)", "self.wrapped", id="on all"),
        pytest.param(
            "self.wrapped = self.model\n        if many:\n            self.wrapped = DDP(self.model)",
            "self.wrapped",
            id="replaced",
        ),
        pytest.param(
            "if many:\n            self.wrapped = DDP(self.model)"
            "\n        else:\n            self.wrapped = self.model",
            "self.wrapped",
            id="on all branches",
        ),
    ],
)
def test_attribute_that_only_some_ways_give_the_wrapped_model_is_not_read(
    tmp_path: Path, wrapping: str, named: str
) -> None:
    text = TOGETHER.replace("self.wrapped = DDP(self.model)", wrapping).replace("self.wrapped.module", "self.model")
    write(tmp_path, {"main": text.replace("self.wrapped.parameters()", "self.model.parameters()")})
    plan = plan_of_project(tmp_path / "main.py")
    assert not plan.questions
    new = next(file.after.decode() for file in plan.files if file.before)
    assert f"fill_missing_gradients({named})" in new


def test_what_several_kinds_of_objects_extend_does_not_make_them_one(tmp_path: Path) -> None:
    write(tmp_path, {"main": TOGETHER})
    flow = plan_of_project(tmp_path / "main.py").script.flow
    classes = {one.name: one for one in flow.index.scopes if one.kind == "class"}
    assert [one.name for one in flow.lineage(classes["Experiment"])] == ["Experiment", "Data", "Training", "Shown"]
    families = {name: flow.family(one).name for name, one in classes.items()}
    assert families == {"Experiment": "Data", "Data": "Data", "Training": "Data", "Shown": "Shown", "Net": "Net"}


@pytest.mark.parametrize(
    ("first", "family"), [("Shown", "Shown"), ("Data", "Net")], ids=["what another begins with", "what none does"]
)
def test_what_is_mixed_in_belongs_to_it_where_no_other_object_begins_with_it(
    tmp_path: Path, first: str, family: str
) -> None:
    main = TOGETHER.replace("(Data, Training, Shown)", "(Data, Training)")
    write(tmp_path, {"main": f"{main}\nclass Log({first}):\n    pass\n\nLog()\n"})
    flow = plan_of_project(tmp_path / "main.py").script.flow
    classes = {one.name: one for one in flow.index.scopes if one.kind == "class"}
    assert flow.family(classes["Shown"]).name == family


def test_what_is_called_on_an_object_is_its_class_s_method(tmp_path: Path) -> None:
    """Also where the object comes in as a parameter, and where the object itself is called."""
    main = MAIN.replace("IMPORT", "from engine import Engine, evaluate\nfrom scaler import Scaler")
    main = main.replace("    best_acc = 0\n", "    engine = Engine(Scaler())\n    best_acc = 0\n")
    main = main.replace("TRAIN", "engine.train_one_epoch").replace("EVALUATE", "evaluate")
    start, rest = ENGINE.split("def train_one_epoch(")
    train, evaluate = rest.split("\n\n\n")
    engine = f"""{start}class Engine:
    def __init__(self, scaler):
        self.scaler = scaler

    def train_one_epoch(self, {indent(train, "    ").lstrip()}


{evaluate}"""
    engine = engine.replace("loss.backward()", "self.scaler(loss)")
    scaler = "class Scaler:\n    def __call__(self, loss):\n        loss.backward()\n"
    write(tmp_path, {"main": main, "engine": engine, "scaler": scaler})
    plan = plan_of_project(tmp_path / "main.py")
    assert not plan.questions
    assert {file.path.name for file in plan.files if file.before} == {"main.py", "scaler.py"}
    assert plan.script.loops[0].line == main[: main.index("for epoch")].count("\n") + 1


def test_a_helper_may_return_the_wrapped_model(tmp_path: Path) -> None:
    main = MAIN.replace("IMPORT", "from engine import evaluate, train_one_epoch\nfrom tools import wrap")
    main = main.replace("TRAIN", "train_one_epoch").replace("EVALUATE", "evaluate")
    main = main.replace("(model, ", "(net, ")
    main = main.replace(
        "model = DistributedDataParallel(model)", "bare = model\n    net = wrap(model, torch.distributed.get_rank())"
    )
    tools = """\
from torch.nn.parallel import DistributedDataParallel


def wrap(model, rank):
    if next(model.parameters()).is_cuda:
        return DistributedDataParallel(model, device_ids=[rank])
    return DistributedDataParallel(model)
"""
    write(tmp_path, {"main": main, "engine": ENGINE, "tools": tools})
    plan = plan_of_project(tmp_path / "main.py")
    assert not plan.questions
    changed = {file.path.stem: file.after.decode() for file in plan.files if file.before}
    head, _, end = changed["tools"].rpartition("    if not pai_distributed.initializing():\n")
    unused = "find_unused_parameters=pai_distributed.finds_unused_parameters()"
    assert f"return DistributedDataParallel(model, device_ids=[rank], {unused})\n" in head
    assert end.endswith(f"return DistributedDataParallel(model, {unused})\n    else:\n        return model\n")
    assert "report_validation_score(acc, net)" in changed["main"]


def test_a_package_may_import_from_itself(tmp_path: Path) -> None:
    """`from nets import wide` in `nets` means the module nets.wide, also where that one is left out."""
    main = MAIN.replace("IMPORT", "from engine import evaluate, train_one_epoch").replace("TRAIN", "train_one_epoch")
    main = main.replace("model = Net()", "model, parameters = build()").replace("model.parameters()", "parameters")
    main = main.replace("import Net", "import build").replace("EVALUATE", "evaluate")
    nets = "from nets import wide\n\n\ndef build():\n    model = wide.Net()\n    return model, model.parameters()\n"
    files = {"main": main, "engine": ENGINE, "nets/__init__": nets, "nets/wide": "class Net:\n    width = 2\n"}
    write(tmp_path, files)
    plan = plan_of_project(tmp_path / "main.py")
    assert not plan.questions
    (optimizer,) = plan.script.optimizers
    assert dict(optimizer.bound)["params"] == "model.parameters()"


def test_a_module_that_many_files_import_is_looked_for_once_in_each_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[tuple[str, Path]] = Counter()

    def find(name: str, roots: list[Path]) -> Path | None:
        asked[name, roots[0]] += 1
        return find_module(name, roots)

    monkeypatch.setattr("retrofit.neighbours.find_module", find)
    others = {f"other{number}": f"import model\nmodel.train({number})\n" for number in range(3)}
    write(tmp_path, {"train": f"import model\n{TRAINS}", "model": TRAINS, **others})
    found = load_project(tmp_path / "train.py", "train.py").neighbours
    assert [one.shown for one in found["model"]] == [f"{name}.py" for name in others]
    assert set(asked.values()) == {1}
