"""Modules that are imported by a name made at run time, and classes that are looked up by one."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path

import libcst as cst
import pytest

from retrofit.late_imports import MadeName, alternatives, made_names, named_in_data, written_names
from retrofit.options import Options
from retrofit.plan import Plan, make_plan
from retrofit.project import load_project
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from tests.helpers import code, plan_of, plan_of_project, recipe, refusal_of, script

#: A trainer that wraps, has the epoch loop and asks for one answer at most.
BASE = """
import torch

class Base:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer
        if torch.cuda.device_count() > 1:
            self.model = torch.nn.DataParallel(self.model)

    def train(self):
        best_acc = 0
        for epoch in range(9):
            self.model.train()
            self.one_epoch()
            self.model.eval()
            acc = self.validate()
            best_acc = max(acc, best_acc)
"""
TRAINER = """
import torch
from trainer.base import Base

class Trainer(Base):
    def one_epoch(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()

    @torch.no_grad()
    def validate(self):
        return sum(self.model(x).eq(y).sum() for x, y in self.loader) / 9
"""
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self, width=3):
        super().__init__()
"""
#: Classes by name, as a configuration has them.
MAIN = """
import importlib
import json
import sys
import torch

def initialize(cfg, call=True):
    made = getattr(importlib.import_module(cfg["module"]), cfg["main"])
    return made(**cfg["args"]) if call else made

def main(config):
    model = initialize(config["model"])
    optimizer = torch.optim.Adam(params=model.parameters(), lr=1e-3)
    trainer = initialize(config["trainer"], call=False)(model=model, optimizer=optimizer)
    trainer.train()

main(json.load(open(sys.argv[1])))
"""
CONFIG = {
    "model": {"module": "nets.unet", "main": "Net", "args": {}},
    "trainer": {"module": "trainer.plain", "main": "Trainer"},
}
PLAIN = {"main.py": MAIN, "trainer/base.py": BASE, "trainer/plain.py": TRAINER, "nets/unet.py": NET}
TOLD = {**PLAIN, "config/train.json": json.dumps(CONFIG, indent=2)}

Planner = Callable[..., Plan]


@pytest.fixture
def plan(tmp_path: Path) -> Planner:
    """Return a function that plans an apply on `main.py` among files, given by their paths."""

    def make(files: dict[str, str], *module: str) -> Plan:
        write(tmp_path, files)
        return make_plan(tmp_path / "main.py", "main.py", recipe(), Options(module=module))

    return make


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files, given by their paths, in a project."""
    (folder / ".git").mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(code(text) if name.endswith(".py") else text)


def flow_of(folder: Path, files: dict[str, str]) -> Flow:
    """Return what is known of the values of a project."""
    write(folder, files)
    project = load_project(folder / "main.py", "main.py")
    return Flow(Index(project.entry, modules=project.modules, late=project.late))


def called(flow: Flow, text: str) -> str | None:
    """Return the function or method that a call calls, with its class; None for none that is known."""
    (call,) = [call for call in flow.index.calls if flow.index.source.code(call) == text]
    found = flow.called(call)
    holder = found.enclosing_class if found is not None else None
    return None if found is None else f"{holder.name}.{found.name}" if holder is not None else found.name


def changed(plan: Plan) -> dict[str, str]:
    """The new texts of the files that were there, by their names."""
    assert [question.message for question in plan.questions] == []
    return {file.path.name: file.after.decode() for file in plan.files if file.before}


# ---- what the user names


@pytest.mark.parametrize("imports", ["importlib.import_module", "importlib.__import__", "__import__"])
def test_modules_that_wrap_and_train_are_offered_for_an_import_by_a_made_name(plan: Planner, imports: str) -> None:
    other = "import torch\nprint(torch.nn.DataParallel(net))\nmain(sys.argv)\n"
    main = PLAIN["main.py"].replace("importlib.import_module", imports)
    (question,) = plan({**PLAIN, "main.py": main, "other.py": other}).questions
    assert question.code == "PAI101"
    assert "(line 7) was not looked into" in question.message
    assert "(--module trainer.base --module trainer.plain); else give the script" in question.message


@pytest.mark.parametrize(("name", "told"), [("sys.argv[1]", True), ('"nets.unet"', False)])
def test_an_import_by_a_name_that_is_written_down_is_no_made_one(plan: Planner, name: str, told: bool) -> None:
    main = f"import sys\n\nnets = __import__({name})\nprint(nets)\n"
    (question,) = plan({"main.py": main, "nets/unet.py": NET}).questions
    assert ("was not looked into" in question.message) is told


@pytest.mark.parametrize("named", [("trainer.plain",), ("trainer.base", "trainer.plain")])
def test_a_named_module_is_read_as_if_it_were_imported(plan: Planner, named: tuple[str, ...]) -> None:
    texts = changed(plan(PLAIN, *named))
    assert sorted(texts) == ["base.py", "main.py", "plain.py"]
    assert "perforate_model(" in texts["main.py"]
    assert "report_validation_score(" in texts["base.py"]
    assert "finish_initialization()" in texts["plain.py"]


def test_a_named_module_is_read_though_it_says_nothing_of_training(tmp_path: Path) -> None:
    write(tmp_path, PLAIN)
    project = load_project(tmp_path / "main.py", "main.py", late=("nets.unet", "trainer.plain"))
    assert (project.late, project.offered) == (["nets.unet", "trainer.plain"], [])
    assert "nets.unet" in project.modules


def test_a_name_that_is_no_module_is_refused(tmp_path: Path) -> None:
    write(tmp_path, PLAIN)
    options = Options(module=("trainer.none",))
    (problem,) = refusal_of(lambda: make_plan(tmp_path / "main.py", "main.py", recipe(), options)).problems
    assert (problem.code, "--module trainer.none names no module" in problem.message) == ("RF045", True)


# ---- what the project tells


def test_modules_that_a_file_of_data_names_are_read_and_told_of(plan: Planner) -> None:
    made = plan(TOLD)
    assert sorted(changed(made)) == ["base.py", "main.py", "plain.py"]
    (note,) = [note for note in made.notes if note.code == "RF044"]
    assert note.file == "config/train.json"
    assert "trainer.plain" in note.message


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.yaml", "trainer:\n  module: trainer.plain  # the usual one\n  main: Trainer\n"),
        ("train.yml", "trainers:\n- 'trainer.plain'\n"),
        ("train.toml", '[trainer]\nmodule = "trainer.plain"\n'),
        ("train.json5", "{trainer: {module: 'trainer.plain'}}"),
        ("whole.yaml", "target: trainer.plain.Trainer\n"),
    ],
)
def test_data_of_each_kind_tells(tmp_path: Path, name: str, text: str) -> None:
    write(tmp_path, {**PLAIN, name: text})
    project = load_project(tmp_path / "main.py", "main.py")
    assert (project.late, project.told) == (["trainer.plain"], [name])
    assert "trainer.base" in project.modules


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.txt", '{"module": "trainer.plain"}'),
        ("train.json", '{"module": "see trainer.plain"}'),
        ("train.json", '{"file": "trainer.plain.json/x"}'),
        ("train.json", '{"module": "trainer"}'),
        ("train.json", '{"module": "nets.unet"}'),
        (".hidden/train.json", '{"module": "trainer.plain"}'),
        ("train.json", '{"module": "trainer.plain"}' + " " * 1_000_000),
    ],
)
def test_what_names_no_module_that_trains_tells_nothing(tmp_path: Path, name: str, text: str) -> None:
    write(tmp_path, {**PLAIN, name: text})
    project = load_project(tmp_path / "main.py", "main.py")
    assert (project.late, project.told, list(project.modules)) == ([], [], [])
    assert project.offered == ["trainer.base", "trainer.plain"]


def test_nothing_is_told_where_no_module_is_imported_by_a_made_name(tmp_path: Path) -> None:
    main = MAIN.replace('importlib.import_module(cfg["module"])', "importlib.import_module('json')")
    write(tmp_path, {**TOLD, "main.py": main})
    project = load_project(tmp_path / "main.py", "main.py")
    assert (project.late, project.told, project.offered) == ([], [], [])


def test_a_script_that_trains_by_what_it_imports_plainly_is_told_nothing_more(tmp_path: Path) -> None:
    write(tmp_path, {**TOLD, "main.py": f"import trainer.plain\n{code(MAIN)}"})
    project = load_project(tmp_path / "main.py", "main.py")
    assert (project.late, project.told, project.offered) == ([], [], [])


def test_data_of_another_script_is_left_alone(tmp_path: Path) -> None:
    tester = "import torch\n\nclass Tester:\n    def test(self):\n        torch.nn.DataParallel(self.model).eval()\n"
    files = {**TOLD, "tests/plain.py": tester, "test.json": '{"tester": {"module": "tests.plain", "main": "Tester"}}'}
    write(tmp_path, files)
    project = load_project(tmp_path / "main.py", "main.py")
    assert (project.told, "tests.plain" in project.modules) == (["config/train.json"], False)


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("import_module(f'models.{n}')", [MadeName("models.", "")]),
        ("importlib.import_module('models.' + n + '_model')", [MadeName("models.", "_model")]),
        ("import_module('models.%s_net' % n)", [MadeName("models.", "_net")]),
        ("import_module('models.{}'.format(n))", [MadeName("models.", "")]),
        ("import_module('.' + n, package=__name__)", [MadeName("pack.sub.", "")]),
        ("import_module(f'..nets.{n}', __package__)", [MadeName("pack.nets.", "")]),
        ("import_module(f'.{n}', 'other')", [MadeName("other.", "")]),
        ("name = 'models.' + n\nimport_module(name)", [MadeName("models.", "")]),
        ("import_module(cfg['module'])", [MadeName("", "")]),
        ("for n in names:\n    import_module('.' + n, __name__)", [MadeName("pack.sub.", "", each=True)]),
        ("found = {n: import_module('nets.' + n) for n in names}", [MadeName("nets.", "", each=True)]),
        ("import_module('json')", []),
        ("name = 'json'\nimport_module(name)", []),
    ],
)
def test_what_is_written_down_of_a_made_name(expression: str, found: list[MadeName]) -> None:
    assert list(made_names(ast.parse(expression), "pack.sub", True)) == found


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("import_module('nets.unet')", ["nets.unet"]),
        ("name = 'nets.unet'\nimport_module(name)", ["nets.unet"]),
        ("__import__('nets.' + 'unet')", ["nets.unet"]),
        ("import_module('.unet', package=__name__)", ["pack.sub.unet"]),
        ("import_module('..unet', __package__)", ["pack.unet"]),
        ("import_module('nets.' + n)", []),
        ("import_module(f'')", [""]),
        ("import_module()", []),
    ],
)
def test_a_name_that_is_written_down_is_no_made_one(expression: str, found: list[str]) -> None:
    assert list(written_names(ast.parse(expression), "pack.sub", True)) == found


#: A module of two functions that train: the one is meant that the script calls.
WRITTEN = """
import torch

def run():
    model = torch.nn.DataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(9):
        for x in loader:
            optimizer.zero_grad()
            model(x).backward()
            optimizer.step()
        val_loss = validate(model)

def run_long():
    model = torch.nn.DataParallel(torch.nn.Linear(4, 1))
"""


@pytest.mark.parametrize(
    "body",
    [
        "engine = importlib.import_module('lib.engine')\n    engine.run()",
        "engine = importlib.import_module('lib.engine')\n    run = getattr(engine, 'run')\n    run()",
        "getattr(importlib.import_module('lib.engine'), 'run')()",
        "getattr(0, 'to run', getattr(0, 'run', None))\n    importlib.import_module('lib.engine').run()",
        "importlib.import_module('lib.engine').run()",
    ],
)
def test_a_module_imported_by_a_name_that_is_written_down_is_followed(plan: Planner, body: str) -> None:
    main = f"import importlib\n\ndef main():\n    {body}\n\nmain()\n"
    texts = changed(plan({"main.py": main, "lib/engine.py": WRITTEN}))
    head, long = texts["engine.py"].split("def run_long")
    assert ("report_validation_score(" in head, "pai_distributed" in long) == (True, False)


def test_a_folder_of_many_modules_is_no_folder_of_alternatives(tmp_path: Path) -> None:
    files = {f"models/m{number}.py": "" for number in range(60)}
    write(tmp_path, {**files, "models/__init__.py": "", "models/deep/__init__.py": "", "models/notes.txt": ""})
    assert "models.deep" not in alternatives(MadeName("models.m", ""), [tmp_path])
    assert len(alternatives(MadeName("models.m", ""), [tmp_path])) == 60
    assert alternatives(MadeName("models.", ""), [tmp_path]) == []
    assert alternatives(MadeName("models.", "5"), [tmp_path])[0] == "models.m15"
    assert alternatives(MadeName("m", ""), [tmp_path]) == []


def test_names_are_whole_strings(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a.b": "c.d e", "f": ["g.h"], "i": "j.k\'}')
    assert list(named_in_data(tmp_path)) == [(tmp_path / "a.json", ["a.b", "g.h"])]


SCANNED = {
    "main.py": """
        from models import create_model

        model = create_model({"type": "PlainModel"})
        best = 0
        for epoch in range(9):
            for batch in loader:
                model.optimize(batch)
            acc = model.validate()
            best = max(acc, best)
        """,
    "models/__init__.py": """
        import importlib
        import os

        names = [f[:-3] for f in os.listdir(os.path.dirname(__file__)) if f.endswith('_model.py')]
        mods = [importlib.import_module(f'models.{n}') for n in names]

        def create_model(opt):
            return next(getattr(m, opt['type']) for m in mods if hasattr(m, opt['type']))(opt)
        """,
    "models/plain_model.py": """
        import torch
        from nets import Net

        class PlainModel:
            def __init__(self, opt):
                self.net = Net()
                self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
                self.net = torch.nn.DataParallel(self.net)

            def optimize(self, batch):
                self.net.train()
                self.optimizer.zero_grad()
                self.net(batch).sum().backward()
                self.optimizer.step()

            def validate(self):
                self.net.eval()
                with torch.no_grad():
                    return sum(self.net(x).eq(y).sum() for x, y in val_loader)
        """,
    "nets.py": NET,
}
LOOPED = """
    model_type = opt['type']
    for module in mods:
        kind = getattr(module, model_type, None)
        if kind is not None:
            break
    return kind(opt)
"""
BY_DICT = """
    module = importlib.import_module('models.' + opt['type'] + '_model')
    kind = None
    for name, one in module.__dict__.items():
        if name.lower() == opt['type']:
            kind = one
    return kind(opt)
"""
ITEM = """
    module = importlib.import_module('.' + opt['type'] + '_model', package=__name__)
    return vars(module)[opt['kind']](opt)
"""
PUT_IN = """
    return kinds[opt['type']](opt)

kinds = {}
for name in names:
    module = importlib.import_module('models.' + name)
    kind = {one.lower(): one for one in dir(module)}[name.replace('_', '')]
    kinds[name] = getattr(module, kind)
"""


@pytest.mark.parametrize("body", ["", LOOPED, BY_DICT, ITEM, PUT_IN], ids=["next", "loop", "items", "vars", "put in"])
def test_modules_of_a_package_that_is_written_down_are_read(plan: Planner, body: str) -> None:
    package = code(SCANNED["models/__init__.py"])
    head, _, _ = package.partition("    return next")
    made = plan({**SCANNED, "models/__init__.py": head + body if body else package})
    texts = changed(made)
    assert sorted(texts) == ["main.py", "plain_model.py"]
    assert "finish_initialization()" in texts["plain_model.py"]
    assert "report_validation_score(" in texts["main.py"]
    assert not [note for note in made.notes if note.code == "RF044"]


@pytest.mark.parametrize(
    ("imported", "module"),
    [("", "importlib.import_module('models.' + opt['type'] + '_model')"), ("plain_model", "plain_model")],
    ids=["by a made name", "plainly"],
)
def test_what_a_module_imported_by_a_made_name_makes_is_part_of_the_initialisation(
    plan: Planner, imported: str, module: str
) -> None:
    """Where the model has no wrapper, whose `.module` it asked for."""
    head, _, _ = code(SCANNED["models/__init__.py"]).partition("    return next")
    head = f"from models import {imported}\n{head}" if imported else head
    package = f"{head}    return {module}.PlainModel(opt)\n"
    asking = SCANNED["models/plain_model.py"].replace(
        "DataParallel(self.net)",
        "parallel.DistributedDataParallel(self.net)\n                describe(self.net.module)",
    )
    texts = changed(plan({**SCANNED, "models/__init__.py": package, "models/plain_model.py": asking}))
    assert "self.net = pai_distributed.without_wrapper(self.net)" in texts["plain_model.py"]


def test_each_of_several_classes_that_build_a_model_is_asked_about(plan: Planner) -> None:
    other = SCANNED["models/plain_model.py"].replace("PlainModel", "OtherModel").replace("Net()", "Net(5)")
    questions = plan({**SCANNED, "models/other_model.py": other}).questions
    assert {question.code for question in questions} == {"PAI102"}
    assert "--model" in questions[0].message


#: The methods of a trainer that have its loops.
METHODS = """
    def train(self):
        best_acc = 0
        for epoch in range(9):
            self.one_epoch()
            acc = self.validate()
            best_acc = max(acc, best_acc)

    def one_epoch(self):
        self.model.train()
        for x, y in self.loader:
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        return sum(self.model(x).eq(y).sum() for x, y in self.loader) / 9
"""
BUILT = """
import torch

class Base:
    def __init__(self, model):
        self.model = model
        self.model = torch.nn.DataParallel(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
"""
#: A package that imports all of its modules, and finds the trainers in them as heirs of one that it names.
HEIRS = {
    "main.py": """
        import sys
        import torch
        from trainers import factory

        factory(sys.argv[1], torch.nn.Linear(4, 1)).train()
        """,
    "trainers/__init__.py": """
        import os
        import pkgutil
        from importlib import import_module
        from .base import Base

        for _, name, _ in pkgutil.iter_modules([os.path.dirname(__file__)]):
            import_module('.' + name, package=__name__)

        TRAINERS = {kind.__name__: kind for kind in Base.__subclasses__()}

        def factory(name, model):
            kind = TRAINERS[name]
            return kind(model)
        """,
    "trainers/base.py": code(BUILT) + METHODS,
    "trainers/plain.py": "from .base import Base\n\nclass Plain(Base):\n    pass\n",
    "trainers/other.py": f"import torch\nfrom .base import Base\n\nclass Other(Base):{METHODS}",
}
BY_HELPER = {
    "finding.py": """
        import os
        import pkgutil
        from importlib import import_module

        def import_all(file, package):
            for _, name, _ in pkgutil.iter_modules([os.path.dirname(file)]):
                import_module('.' + name, package=package)
        """,
    "trainers/__init__.py": """
        from finding import import_all
        from .base import Base

        import_all(__file__, __name__)
        TRAINERS = {kind.__name__: kind for kind in Base.__subclasses__()}

        def factory(name, model):
            kind = TRAINERS[name]
            return kind(model)
        """,
}


@pytest.mark.parametrize("further", [{}, BY_HELPER], ids=["by itself", "by a function"])
def test_a_class_that_trains_in_a_package_that_imports_all_of_its_modules_is_known(
    tmp_path: Path, further: dict[str, str]
) -> None:
    write(tmp_path, {**HEIRS, **further})
    assert load_project(tmp_path / "main.py", "main.py").late == ["trainers.other"]

    def planned(model: str) -> Plan:
        return make_plan(tmp_path / "main.py", "main.py", recipe(), Options(model=model))

    (question,) = planned("").questions
    assert question.message.endswith("Say which trains with --model NAME: Base.self.model or Other.self.model.")
    texts = changed(planned("Other.self.model"))
    assert ("report_validation_score(" in texts["other.py"], "report_validation_score(" in texts["base.py"]) == (
        True,
        False,
    )


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("trainers/other.py", "loss.backward()", "self.learn(loss)"),
        ("trainers/other.py", "class Other(Base)", "class Other"),
        ("trainers/__init__.py", "for _, name, _ in", "if name := "),
    ],
    ids=["that does not train", "that extends none", "chosen"],
)
def test_a_module_of_such_a_package_is_left_alone(tmp_path: Path, name: str, old: str, new: str) -> None:
    files = {**HEIRS, name: HEIRS[name].replace(old, new)}
    write(tmp_path, files)
    assert load_project(tmp_path / "main.py", "main.py").late == []


def test_a_module_of_such_a_package_that_extends_a_generic_class_is_known(tmp_path: Path) -> None:
    other = HEIRS["trainers/other.py"].replace("class Other(Base)", "class Other(Base[Model])")
    write(tmp_path, {**HEIRS, "trainers/other.py": other})
    assert load_project(tmp_path / "main.py", "main.py").late == ["trainers.other"]


# ---- what is looked up


def test_a_class_that_lacks_what_is_asked_of_an_object_is_not_the_one_meant(tmp_path: Path) -> None:
    """Both are made by one function of one argument, and both have the method `train`."""
    main = """
    import importlib
    import torch

    def create(cfg, given):
        return getattr(importlib.import_module(cfg["module"]), cfg["main"])(given)

    model = create(config["model"], 3)
    optimizer = torch.optim.Adam(model.parameters())
    model.train()
    trainer = create(config["trainer"], (model, optimizer))
    trainer.train()
    """
    flow = flow_of(tmp_path, {**TOLD, "main.py": main, "trainer/base.py": BASE.replace("model, optimizer)", "given)")})
    assert called(flow, "model.train()") is None
    assert called(flow, "trainer.train()") == "Base.train"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("model=model, optimizer=optimizer", "Base.train"),
        ("model, **config['args']", "Base.train"),
        ("model=model, **config['args']", "Base.train"),
        ("**config['args']", None),
        ("*given", None),
        ("", None),
        ("model=model, other=optimizer", None),
        ("model, optimizer, 3", None),
    ],
)
def test_what_is_looked_up_takes_the_arguments(tmp_path: Path, given: str, found: str | None) -> None:
    main = MAIN.replace("model=model, optimizer=optimizer", given)
    assert called(flow_of(tmp_path, {**TOLD, "main.py": main}), "trainer.train()") == found


@pytest.mark.parametrize(
    ("base", "function", "found"),
    [
        ("torch.nn.Sequential", "def wrap(net):\n    return torch.nn.DataParallel(net)", ["Net"]),
        ("torch.nn.Sequential", "def wrap(net):\n    net = torch.nn.DataParallel(net)\n    return net", ["Net"]),
        ("torch.nn.Sequential", "def build(width):\n    return torch.nn.DataParallel(Net(width))", ["Net", "build"]),
        ("torch.nn.DataParallel", "def wrap(net):\n    return torch.nn.DataParallel(net)", ["Net", "wrap"]),
        ("Plan", "def wrap(net):\n    return torch.nn.DataParallel(net)", ["Net", "wrap"]),
    ],
)
def test_what_wraps_a_model_that_it_is_given_is_none_of_the_models_beside_it(
    tmp_path: Path, base: str, function: str, found: list[str]
) -> None:
    nets = f"import torch\nfrom plans import Plan\nclass Net({base}):\n    pass\n{function}\n"
    flow = flow_of(tmp_path, {"main.py": "import nets\nnet = getattr(nets, kind)(3)\n", "nets.py": nets})
    (call,) = [one for one in flow.index.calls if isinstance(one.func, cst.Call)]
    assert [one.name for one in flow.choices.called(call)] == found


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("torch.nn.Linear(2, 2)", ["Net", "wrap"]),
        ("nets.Net()", ["Net", "wrap"]),
        ("torch.ones(2)", ["Net"]),
        ("settings", ["Net"]),
    ],
)
def test_what_wraps_a_model_counts_beside_models_where_the_call_gives_it_one(
    tmp_path: Path, given: str, found: list[str]
) -> None:
    nets = "import torch\nclass Net(torch.nn.Module):\n    def __init__(self, x=None):\n        self.x = x\n"
    nets += "def wrap(net):\n    return torch.nn.DataParallel(net)\n"
    main = f"import nets\nimport torch\nx = {given}\nnet = getattr(nets, kind)(x)\n"
    flow = flow_of(tmp_path, {"main.py": main, "nets.py": nets})
    (call,) = [one for one in flow.index.calls if isinstance(one.func, cst.Call)]
    assert [one.name for one in flow.choices.called(call)] == found


def test_of_trainers_that_each_wrap_a_model_the_one_is_rewritten_that_the_user_names(tmp_path: Path) -> None:
    other = f"{code(BASE)}\n\n{code(TRAINER)}".replace("from trainer.base import Base\n", "")
    other = other.replace("Base", "OtherBase").replace("Trainer", "Other")
    config = {"trainer": {"module": "trainer.other", "main": "Other"}}
    write(tmp_path, {**TOLD, "trainer/other.py": other, "config/other.json": json.dumps(config)})

    def planned(model: str) -> Plan:
        return make_plan(tmp_path / "main.py", "main.py", recipe(), Options(model=model))

    (question,) = planned("").questions
    assert question.code == "PAI104"
    assert "Say which trains with --model NAME: OtherBase.self.model or Base.self.model." in question.message
    assert sorted(changed(planned("OtherBase.self.model"))) == ["main.py", "other.py"]
    assert sorted(changed(planned("Base.self.model"))) == ["base.py", "main.py", "plain.py"]


def test_trainers_that_a_name_chooses_are_all_rewritten(plan: Planner) -> None:
    other = TRAINER.replace("/ 9", "/ 7")
    config = {"trainer": {"module": "trainer.other", "main": "Trainer"}}
    texts = changed(plan({**TOLD, "trainer/other.py": other, "config/other.json": json.dumps(config)}))
    assert "finish_initialization()" in texts["plain.py"]
    assert "finish_initialization()" in texts["other.py"]


@pytest.mark.parametrize("made", ['import_module(f"runs.{kind}")', '__import__(f"runs.{kind}", fromlist=["x"])'])
def test_a_class_is_taken_out_of_the_import_itself(tmp_path: Path, made: str) -> None:
    main = f"""
        import sys
        from importlib import import_module

        kind = sys.argv[1]
        run = {made}.Run(kind) if kind else None
        run.update(kind)
        """
    run = """
        import torch

        class Run:
            def __init__(self, kind):
                self.kind = kind

            def update(self, kind):
                loss = torch.ones(1).sum()
                loss.backward()
        """
    flow = flow_of(tmp_path, {"main.py": main, "runs/__init__.py": "", "runs/a.py": run})
    assert called(flow, "run.update(kind)") == "Run.update"


HOROVOD = """
import horovod.torch as hvd
import torch.distributed as dist

def begin(backend):
    if backend == "horovod":
        hvd.init()
    else:
        dist.init_process_group("nccl")

"""


@pytest.mark.parametrize(
    ("begun", "code"),
    [
        pytest.param("begin(sys.argv[2])", "PAI101", id="by an option"),
        pytest.param("hvd.init()", "PAI100", id="always"),
    ],
)
def test_a_library_that_an_option_begins_hides_no_module_that_wraps(plan: Planner, begun: str, code: str) -> None:
    main = HOROVOD + MAIN.replace("\n\ndef init", f"\n\n{begun}\n\ndef init")
    (question,) = plan({**PLAIN, "main.py": main}).questions
    assert question.code == code
    assert ("--module trainer." in question.message) == (code == "PAI101")
    if code == "PAI101":
        found = plan({**PLAIN, "main.py": main}, "trainer.plain", "nets.unet")
        assert "PAI100" not in [one.code for one in found.questions]


# ---- registries

REGISTRY = """
class Registry:
    def __init__(self):
        self.known = {}

    def register(self, one=None):
        if one is None:
            return self.register
        self.known[one.__name__] = one
        return one

    def get(self, name):
        return self.known[name]

    def __getitem__(self, name):
        return self.known[name]
"""
REGISTERED = {
    "registry.py": REGISTRY,
    "tables.py": "from registry import Registry\n\nARCHS = Registry()\nOPTIMIZERS = Registry()\n",
    "archs.py": """
        import torch
        from nets import Net
        from tables import ARCHS

        @ARCHS.register
        class Plain:
            def __init__(self, cfg):
                self.model = Net()
                self.model = torch.nn.DataParallel(self.model)

            def update(self, batch, optimizer):
                optimizer.zero_grad()
                self.model(batch).sum().backward()
                optimizer.step()
        """,
    "nets.py": NET,
    "main.py": """
        import torch
        from torch.optim import SGD, Adam
        import archs
        from tables import ARCHS, OPTIMIZERS

        OPTIMIZERS.register(Adam)
        OPTIMIZERS.register(SGD)

        class Trainer:
            def __init__(self, cfg):
                self.arch = ARCHS.get(cfg.arch)(cfg)
                self.optimizer = OPTIMIZERS.get(cfg.opt)(self.arch.model.parameters(), lr=0.1)

            def train(self):
                best = 0
                for epoch in range(9):
                    self.arch.model.train()
                    for batch in loader:
                        self.arch.update(batch, self.optimizer)
                    self.arch.model.eval()
                    acc = self.validate()
                    best = max(acc, best)

            @torch.no_grad()
            def validate(self):
                return sum(self.arch.model(x).eq(y).sum() for x, y in val_loader)

        Trainer(cfg).train()
        """,
}


@pytest.mark.parametrize("decorator", ["@ARCHS.register", "@ARCHS.register()"])
@pytest.mark.parametrize("lookup", ["ARCHS.get(cfg.arch)", "ARCHS[cfg.arch]"])
def test_what_a_registry_gives_is_one_of_those_registered(plan: Planner, decorator: str, lookup: str) -> None:
    files = {
        **REGISTERED,
        "archs.py": REGISTERED["archs.py"].replace("@ARCHS.register", decorator),
        "main.py": REGISTERED["main.py"].replace("ARCHS.get(cfg.arch)", lookup),
    }
    texts = changed(plan(files))
    assert "finish_initialization()" in texts["archs.py"]
    assert "setup_optimizer(" in texts["main.py"] or "set_optimizer_instance(" in texts["main.py"]


#: A function that looks a class of its module up there, as that of a registry is.
OWN = {
    **REGISTERED,
    "archs.py": REGISTERED["archs.py"].replace("@ARCHS.register\n        ", "")
    + "\n        class Other:\n            pass\n\n        def find(name):\n            return globals()[name]\n",
    "main.py": REGISTERED["main.py"].replace("ARCHS.get(cfg.arch)", "archs.find(cfg.arch)"),
}


@pytest.mark.parametrize(
    "lookup", ["globals()[name]", "globals().get(name)", "globals().get(name, Other)", "eval(name)"]
)
def test_what_a_module_finds_among_its_own_definitions_is_one_of_those(plan: Planner, lookup: str) -> None:
    files = {**OWN, "archs.py": OWN["archs.py"].replace("globals()[name]", lookup)}
    texts = changed(plan(files))
    assert "finish_initialization()" in texts["archs.py"]
    assert "setup_optimizer(" in texts["main.py"] or "set_optimizer_instance(" in texts["main.py"]


@pytest.mark.parametrize("imported", ["from archs import *", "from archs import Plain"])
@pytest.mark.parametrize("lookup", ["globals()[cfg.arch]", "eval(cfg.arch)"])
def test_what_a_module_finds_among_what_it_imports_is_one_of_those(plan: Planner, lookup: str, imported: str) -> None:
    main = OWN["main.py"].replace("archs.find(cfg.arch)", lookup).replace("import archs", imported)
    texts = changed(plan({**OWN, "main.py": main}))
    assert "finish_initialization()" in texts["archs.py"]
    assert "setup_optimizer(" in texts["main.py"] or "set_optimizer_instance(" in texts["main.py"]


#: What trains looks its model's class up among all that its module has, itself included, or calls what does.
TO_ITSELF = {
    "nets.py": """
        from torch import nn

        class Net(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.layer = nn.Linear(8, width)
        """,
    "main.py": """
        import torch
        from nets import *

        def loss_of(cfg):
            return LOSS(cfg.weight)

        def build(cfg):
            return eval(cfg.arch)(cfg.width)

        def train(cfg):
            model = build(cfg)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model = torch.nn.DataParallel(model)
            best = 0
            for epoch in range(9):
                for x, y in loader:
                    optimizer.zero_grad()
                    torch.nn.functional.cross_entropy(model(x), y).backward()
                    optimizer.step()
                acc = validate(model)
                best = max(acc, best)

        train(load())
        """,
}


@pytest.mark.parametrize("lookup", ["eval(cfg.arch)", "globals()[cfg.arch]"])
@pytest.mark.parametrize("built", ["build(cfg)", "LOOKUP(cfg.width)"])
def test_what_looks_a_name_up_finds_nothing_that_leads_to_it(plan: Planner, lookup: str, built: str) -> None:
    main = TO_ITSELF["main.py"].replace("= build(cfg)", f"= {built}").replace("LOOKUP", lookup)
    main = main.replace("LOSS", lookup.replace("arch", "loss"))
    texts = changed(plan({**TO_ITSELF, "main.py": main.replace("eval(cfg.arch)", lookup)}))
    assert texts["main.py"].count("perforate_model(") == 1


@pytest.mark.parametrize("lookup", ["eval(cfg.way)", "globals()[cfg.way]"])
def test_what_looks_a_name_up_may_find_what_trains(plan: Planner, lookup: str) -> None:
    main = TO_ITSELF["main.py"].replace("train(load())", "cfg = load()\n        WAY(cfg)").replace("WAY", lookup)
    main = main.replace("build(cfg)\n", "Net(cfg.width)\n").replace("LOSS", "print")
    texts = changed(plan({**TO_ITSELF, "main.py": main}))
    assert "report_validation_score(" in texts["main.py"] or "add_validation_score(" in texts["main.py"]


@pytest.mark.parametrize("lookup", ['globals()["{}"]', 'globals().get("{}")'])
@pytest.mark.parametrize(("name", "found"), [("Plain", "Plain.update"), ("Other", None)])
def test_of_a_modules_own_definitions_the_one_is_known_that_is_written_down(
    tmp_path: Path, lookup: str, name: str, found: str | None
) -> None:
    archs = OWN["archs.py"].replace("globals()[name]", lookup.format(name))
    flow = flow_of(tmp_path, {**OWN, "archs.py": archs})
    assert called(flow, "self.arch.update(batch, self.optimizer)") == found


def test_an_attribute_of_a_class_may_be_a_registry(plan: Planner) -> None:
    tables = "class Tables:\n    archs = Registry()\n    optimizers = Registry()\n"
    files = {**REGISTERED, "tables.py": f"from registry import Registry\n\n{tables}"}
    for name in ("archs.py", "main.py"):
        text = files[name].replace("ARCHS.", "Tables.archs.").replace("OPTIMIZERS.", "Tables.optimizers.")
        files[name] = text.replace("import ARCHS, OPTIMIZERS", "import Tables").replace("import ARCHS", "import Tables")
    texts = changed(plan(files))
    assert "finish_initialization()" in texts["archs.py"]
    assert "setup_optimizer(" in texts["main.py"] or "set_optimizer_instance(" in texts["main.py"]


def test_what_is_asked_whether_it_is_there_may_lack(tmp_path: Path) -> None:
    asked = "if hasattr(self.arch, 'build'):\n                    self.optimizer = self.arch.build()\n                "
    main = REGISTERED["main.py"].replace("self.optimizer = ", f"{asked}self.optimizer = ")
    flow = flow_of(tmp_path, {**REGISTERED, "main.py": main})
    assert called(flow, "self.arch.update(batch, self.optimizer)") == "Plain.update"
    unasked = main.replace("hasattr(self.arch, 'build')", "cfg.own")
    flow = flow_of(tmp_path, {**REGISTERED, "main.py": unasked})
    assert called(flow, "self.arch.update(batch, self.optimizer)") is None


@pytest.mark.parametrize(
    "main",
    [
        REGISTERED["main.py"].replace("ARCHS.get(cfg.arch)", "ARCHS.register(cfg.arch)"),
        REGISTERED["main.py"].replace("ARCHS.get(cfg.arch)", "OPTIMIZERS.get(cfg.arch)"),
        REGISTERED["main.py"].replace("ARCHS.get(cfg.arch)", "ARCHS.get()"),
        REGISTERED["main.py"].replace("import ARCHS, OPTIMIZERS", "import OPTIMIZERS\n\n        ARCHS = {}"),
    ],
    ids=["stores", "another", "asks nothing", "its own"],
)
def test_what_is_no_lookup_in_that_registry_gives_nothing(tmp_path: Path, main: str) -> None:
    flow = flow_of(tmp_path, {**REGISTERED, "main.py": main})
    assert called(flow, "self.arch.update(batch, self.optimizer)") is None


def test_a_decorator_of_a_module_is_no_registry(tmp_path: Path) -> None:
    archs = REGISTERED["archs.py"].replace("@ARCHS.register", "@torch.jit.script")
    flow = flow_of(tmp_path, {**REGISTERED, "archs.py": archs})
    assert flow.lookups.registered == {}
    assert called(flow, "self.arch.update(batch, self.optimizer)") is None


# ---- functions that train


RUNNER = """
import torch

class Runner:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.model = torch.nn.DataParallel(self.model)

    def one_epoch(self):
        for x, y in loader:
            self.optimizer.zero_grad()
            torch.nn.functional.mse_loss(self.model(x), y).backward()
            self.optimizer.step()

    def validate(self):
        self.model.eval()
        return sum(self.model(x).sum().item() for x, y in loader)

    def test(self):
        print(self.model)
"""
TRAINS = """
import torch
from lib.runner import Runner

def train():
    model = torch.nn.Linear(4, 1)
    runner = Runner(model)
    for epoch in range(9):
        runner.one_epoch()
        val_loss = runner.validate()
    runner.test()

def train_long():
    model = torch.nn.Linear(4, 1)
    runner = Runner(model)
    for epoch in range(99):
        runner.one_epoch()
        val_loss = runner.validate()

def test():
    model = torch.nn.Linear(4, 1)
    Runner(model).test()
"""
PACKED = {
    "main.py": "import importlib, sys\nchosen = importlib.import_module(f'lib.kinds.{sys.argv[1]}')\nchosen.train()\n",
    "lib/__init__.py": "",
    "lib/runner.py": RUNNER,
    "lib/kinds/__init__.py": "",
    "lib/kinds/one/__init__.py": "from .work import test, train, train_long\n",
    "lib/kinds/one/work.py": TRAINS,
}


def test_the_function_that_is_called_of_such_a_module_is_the_one_that_trains(plan: Planner) -> None:
    texts = changed(plan(PACKED))
    head, long = texts["work.py"].split("def train_long")
    assert (head.count("perforate_model("), long.count("pai_distributed")) == (1, 0)


def test_which_of_such_modules_is_imported_is_asked(plan: Planner) -> None:
    other = {"lib/kinds/two/__init__.py": "from .work import train\n", "lib/kinds/two/work.py": TRAINS}
    (question,) = plan({**PACKED, **other}).questions
    assert question.message.endswith("say which with --module NAME: lib.kinds.one or lib.kinds.two.")
    for kind in ("one", "two"):
        made = plan({**PACKED, **other}, f"lib.kinds.{kind}")
        assert [file.path.parent.name for file in made.files if file.path.name == "work.py"] == [kind]


def test_a_module_that_trains_what_the_script_wraps_is_offered(plan: Planner) -> None:
    main = """
    import importlib
    import torch

    model = torch.nn.DataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = importlib.import_module(sys.argv[1])
    for epoch in range(9):
        engine.train(model, optimizer)
        val_loss = validate(model)
    """
    engine = "def train(net, optimizer):\n    for x in loader:\n        net(x).backward()\n        optimizer.step()\n"
    files = {"main.py": main, "engines/__init__.py": "", "engines/plain.py": engine}
    (question,) = plan(files).questions
    assert question.message.endswith("name that with --module NAME: engines.plain.")
    assert "finish_initialization()" in changed(plan(files, "engines.plain"))["plain.py"]


@pytest.mark.parametrize("model", ["train.model", "train_long.model"])
def test_a_function_that_nothing_is_seen_to_call_can_be_chosen(tmp_path: Path, model: str) -> None:
    """What the chosen training uses is not left out with the others."""
    work = TRAINS.partition("def test")[0]
    write(
        tmp_path,
        {**PACKED, "main.py": PACKED["main.py"].replace("chosen.train", "run(chosen)"), "lib/kinds/one/work.py": work},
    )

    def planned(model: str) -> Plan:
        return make_plan(tmp_path / "main.py", "main.py", recipe(), Options(model=model))

    (question,) = planned("").questions
    assert question.message.endswith("Say which trains with --model NAME: train.model or train_long.model.")
    head, long = changed(planned(model))["work.py"].split("def train_long")
    assert ("report_validation_score(" in head, "report_validation_score(" in long) == (
        model == "train.model",
        model != "train.model",
    )


@pytest.mark.parametrize(
    ("files", "line", "told"),
    [
        pytest.param([], "from parts.data import loader", True, id="missing"),
        pytest.param([], "import parts.data.more as more", False, id="of a package that is not known"),
        pytest.param(["parts/data.py"], "from parts.data import loader", False, id="there"),
        pytest.param(["parts/data.pyx"], "from parts.data import loader", False, id="to be compiled"),
        pytest.param(["parts/data/one.txt"], "from parts.data import loader", False, id="a folder"),
        pytest.param([], "from parts import data", False, id="a name of a module, perhaps"),
        pytest.param([], "from others.data import loader", False, id="installed, perhaps"),
        pytest.param([], "try:\n    from parts.data import loader\nexcept ImportError:\n    pass", False, id="tried"),
        pytest.param([], "with suppress(ImportError):\n    from parts.data import loader", False, id="tried by `with`"),
        pytest.param([], "try:\n    import fast\nexcept ImportError:\n    import parts.data", False, id="else"),
    ],
)
def test_a_module_that_a_package_of_the_project_lacks_is_told(
    tmp_path: Path, files: list[str], line: str, told: bool
) -> None:
    for name in ("parts/__init__.py", "parts/nets.py", *files):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("import torch\n")
    (tmp_path / "train.py").write_text(f"import parts.nets\n{line}\n{script('acc = evaluate(model)', 'best = 0')}")
    found = [(note.file, note.line) for note in plan_of_project(tmp_path / "train.py").notes if note.code == "RF047"]
    assert found == [("train.py", 2)] * told


@pytest.mark.parametrize(
    ("files", "line", "told"),
    [
        pytest.param({}, "from .sets.dense import loader", True, id="of no folder"),
        pytest.param({"sets/other.py": ""}, "from .sets.dense import loader", True, id="of a folder"),
        pytest.param({"sets.py": ""}, "from .sets import loader", False, id="a module"),
        pytest.param({"sets/dense.so": ""}, "from .sets.dense import loader", False, id="compiled"),
        pytest.param(
            {"__init__.py": "import sys\nsys.modules['x.sets'] = sys"}, "from .sets import a", False, id="lent"
        ),
        pytest.param({}, "from . import sets", True, id="of the package"),
        pytest.param({"__init__.py": ""}, "from . import sets", True, id="of a package with a file"),
        pytest.param({"sets/one.txt": ""}, "from . import sets", False, id="a folder there"),
        pytest.param({"__init__.py": "sets = [1]"}, "from . import sets", False, id="a name"),
        pytest.param({"__init__.py": "from json import loads as sets"}, "from . import sets", False, id="an import"),
        pytest.param({"__init__.py": "from . import sets"}, "from . import sets", True, id="asked for there, too"),
        pytest.param({"__init__.py": "from json import *"}, "from . import sets", False, id="any import"),
        pytest.param({"__init__.py": "globals().update(sets=1)"}, "from . import sets", False, id="set by a name"),
        pytest.param({"__init__.py": "def sets():\n    pass"}, "from . import sets", False, id="a function"),
        pytest.param({"sub/__init__.py": ""}, "from .sub import sets", True, id="of a package within"),
        pytest.param({"sub.py": ""}, "from .sub import sets", False, id="a name of a module"),
        pytest.param({"sub/a.py": ""}, "from .sub import *", False, id="everything"),
        pytest.param({}, "try:\n    from . import sets\nexcept ImportError:\n    sets = None", False, id="tried"),
    ],
)
def test_a_module_that_a_relative_import_does_not_find_is_told(
    tmp_path: Path, files: dict[str, str], line: str, told: bool
) -> None:
    package = tmp_path / "work"
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    package.mkdir(exist_ok=True)
    (package / "train.py").write_text(f"{line}\n{script('acc = evaluate(model)', 'best = 0')}")
    found = [note.line for note in plan_of_project(package / "train.py").notes if note.code == "RF047"]
    assert found == [1] * told


@pytest.mark.parametrize(
    ("wrapped", "asked"),
    [
        pytest.param("torch.nn.DataParallel(work.net)", (3, "PAI104"), id="trains"),
        pytest.param("work.net", (1, "PAI101"), id="wraps"),
    ],
)
def test_what_is_asked_for_want_of_a_missing_module_is_asked_with_it(
    tmp_path: Path, wrapped: str, asked: tuple[int, str]
) -> None:
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "train.py").write_text(f"import torch\nfrom . import work\nmodel = {wrapped}\nwork.train(model)\n")
    plan = plan_of_project(tmp_path / "train.py")
    found = [(one.line, one.code) for one in plan.questions if one.code in ("RF047", asked[1])]
    assert found == [(2, "RF047"), asked]
    assert not [note for note in plan.notes if note.code == "RF047"]


#: A function that trains what it is given, called by one of those that a mode names, and another one that does not.
NAMED_RUNS = """
import argparse
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
parser = argparse.ArgumentParser()
parser.add_argument("--mode")
args = parser.parse_args()

def fit(model):
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
        best = max(acc, best)

def run_net(args):
    model = Net()
    fit(model)

def run_nothing(args):
    print(args)

CALLED
"""


@pytest.mark.parametrize(
    ("called", "known"),
    [
        pytest.param('eval("run_" + args.mode)(args)', True, id="eval"),
        pytest.param('eval("run_" + args.mode + "(args)")', True, id="a whole call"),
        pytest.param('eval(f"run_{args.mode}")(args)', True, id="a formatted string"),
        pytest.param('name = "run_%s" % args.mode\neval(name)(args)', True, id="by a variable"),
        pytest.param('globals()["run_" + args.mode](args)', True, id="globals"),
        pytest.param('globals().get("run_" + args.mode)(args)', True, id="asked of globals"),
        pytest.param("eval(args.mode)(args)", False, id="any function"),
        pytest.param('eval(args.mode + "t")(args)', False, id="how the one that trains ends"),
    ],
)
def test_what_a_name_made_at_run_time_begins_with_tells_what_is_run(tmp_path: Path, called: str, known: bool) -> None:
    """The arguments are no model that is built in several places, as they are where the function itself may be run."""
    plan = plan_of(tmp_path, code(NAMED_RUNS).replace("CALLED", called))
    assert [one.code for one in plan.questions] == ([] if known else ["PAI102"])
