"""A model that is wrapped where it is put into a dict, a list or a call gets a name of its own before."""

from pathlib import Path
from textwrap import indent

import pytest

from retrofit.options import Options
from tests.helpers import plan_of, rewritten

HEAD = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Engine:
    def __init__(self, module):
        self.net = module

"""
LOOP = """
optimizer = torch.optim.SGD(USED.parameters(), lr=0.1)
best = 0
for epoch in range(9):
    for x, y in loader:
        optimizer.zero_grad()
        USED(x).backward()
        optimizer.step()
    acc = evaluate(USED)
    if acc > best:
        best = acc
"""


def written(folder: Path, build: str, used: str) -> str:
    """Return what becomes of a script that builds and uses a model so."""
    plan = plan_of(folder, HEAD + build + LOOP.replace("USED", used))
    assert plan.questions == []
    return rewritten(plan)


@pytest.mark.parametrize(
    ("build", "used", "wrapped", "put"),
    [
        ("models = {'net': DDP(Net())}", "models['net']", "net = DDP(net", "models = {'net': net}"),
        ("parts = [DDP(Net())]", "parts[0]", "model = DDP(model", "parts = [model]"),
        ("net = Net()\nheld = Engine(DDP(net))", "held.net", "wrapped_net = DDP(net", "held = Engine(wrapped_net)"),
        ("held = {}\nheld['net'] = DDP(Net())", "held['net']", "net = DDP(net", "held['net'] = net"),
        (
            "held = {}\nheld['net'] = Net()\nheld['net'] = DDP(held['net']).cuda()",
            "held['net']",
            "net = DDP(held['net']",
            "held['net'] = net",
        ),
        (
            "def make():\n    net = Net()\n    return DDP(net), 1\n\nmodel, _ = make()",
            "model",
            "wrapped_net = DDP(net",
            "return wrapped_net, 1",
        ),
        (
            "class Own(Engine):\n    def __init__(self):\n        super().__init__(DDP(Net()))\n\nheld = Own()",
            "held.net",
            "model = DDP(model",
            "super().__init__(model)",
        ),
    ],
    ids=["dict", "list", "argument", "item", "item of itself", "returned with others", "of a base class"],
)
def test_it_is_wrapped_by_a_statement_of_its_own(tmp_path: Path, build: str, used: str, wrapped: str, put: str) -> None:
    lines = [line.strip() for line in written(tmp_path, build, used).splitlines()]
    (place,) = (number for number, line in enumerate(lines) if line.startswith(wrapped))
    assert put in lines[place:]
    assert sum("UPA.perforate_model(" in line for line in lines) == 1


def test_an_item_is_perforated_where_it_is_built(tmp_path: Path) -> None:
    """What collects its parameters before it is wrapped collects those of the perforated model."""
    build = (
        "models, params = {}, []\nmodels['net'] = Net()\nparams += list(models['net'].parameters())\n"
        "models['net'] = DDP(models['net'])\n"
    )
    text = written(tmp_path, build, "models['net']")
    assert text.index("models['net'] = UPA.perforate_model(") < text.index("params += list(")
    assert text.index("params += list(") < text.index("net = DDP(models['net']")
    build = "models = {'net': Net(), 'head': Head()}\nparams = list(models['net'].parameters())\n"
    text = written(tmp_path, f"{build}models['net'] = DDP(models['net'])", "models['net']")
    assert text.index("models['net'] = UPA.perforate_model(") < text.index("params = list(")


@pytest.mark.parametrize("other", ["", "else:\n    held['net'] = DDP(held['net'])\n"])
def test_an_item_that_is_wrapped_under_a_condition_stays_that(tmp_path: Path, other: str) -> None:
    """Another name would have no value where the condition does not hold."""
    build = f"held = {{}}\nheld['net'] = Net()\nif many:\n    held['net'] = DDP(held['net'], device_ids=[0])\n{other}"
    text = written(tmp_path, build, "held['net']")
    assert text.count("        held['net'] = DDP(held['net']") == (2 if other else 1)


def test_what_the_wrapper_has_is_seen_through_an_item(tmp_path: Path) -> None:
    build = "held = {'net': DDP(Net())}\nprint(held['net'].module)"
    assert "net = pai_distributed.without_wrapper(net)" in written(tmp_path, build, "held['net']")


UNNAMED = "is not assigned to a name"


@pytest.mark.parametrize(
    ("build", "told"),
    [
        pytest.param("models = {'net': DDP(Net()) for _ in parts}", "wraps each of several", id="comprehension"),
        pytest.param("models = {}\nwhile parts:\n    models['net'] = DDP(Net())", UNNAMED, id="loop"),
        pytest.param("models = dict(size=measure(), net=DDP(Net()))", UNNAMED, id="behind a call"),
        pytest.param("models = {'net': many and DDP(Net())}", UNNAMED, id="under a condition"),
        pytest.param("models = {'net': (lambda: DDP(Net()))()}", UNNAMED, id="lambda"),
    ],
)
def test_where_that_would_be_another_program_the_name_is_asked_for(tmp_path: Path, build: str, told: str) -> None:
    plan = plan_of(tmp_path, HEAD + build + LOOP.replace("USED", "models['net']"))
    assert any(told in str(one) for one in plan.questions if one.code == "PAI102")


def test_of_a_loop_that_wraps_in_each_turn_that_is_said(tmp_path: Path) -> None:
    build = "models = {}\nfor name in parts:\n    models['net'] = DDP(Net())"
    (question,) = plan_of(tmp_path, HEAD + build + LOOP.replace("USED", "models['net']")).questions
    assert "each turn of the loop at line 10 wraps one" in str(question)


def test_of_several_the_chosen_one_gets_a_name(tmp_path: Path) -> None:
    build = "first, second = First(), Second()\nmodels = {'first': DDP(first), 'second': DDP(second)}"
    text = HEAD + build + LOOP.replace("USED", "models['second']").replace("SGD(", "SGD(CHOSEN or ")
    (question,) = plan_of(tmp_path, text).questions
    assert "--model NAME: first or second" in str(question)
    plan = plan_of(tmp_path, text, Options(model="second"))
    assert plan.questions == []
    assert "models = {'first': DDP(first), 'second': wrapped_second}" in rewritten(plan)


def test_an_item_of_what_a_function_returns_is_perforated_in_it(tmp_path: Path) -> None:
    made = "net = Net()\n    step = torch.optim.SGD(net.parameters(), lr=0.1)\n    return {'net': net, 'o': step}"
    build = f"def make():\n    {made}\n\nheld = make()\nheld['net'] = DDP(held['net'])\n"
    train = LOOP.partition("lr=0.1)\n")[2].replace("USED", "held['net']").replace("optimizer.", "held['o'].")
    plan = plan_of(tmp_path, HEAD + build + train)
    assert plan.questions == []
    text = rewritten(plan)
    assert text.index("net = UPA.perforate_model(") < text.index(".set_optimizer(") < text.index("return {'net': net")
    assert text.count("perforate_model(") == 1


def test_an_item_that_nobody_knows_is_perforated_where_it_is_wrapped(tmp_path: Path) -> None:
    text = written(tmp_path, "held = torch.load('all.pt')\nnet = DDP(held['net'])", "net")
    assert "net = held['net']\nwith pai_distributed.one_rank_at_a_time():\n    net = UPA.perforate_model(" in text


TRAINER = """
class Trainer(Engine):
    def __init__(self, module):
        super().__init__(module)
        self.net = DDP(self.net)

"""


@pytest.mark.parametrize(
    ("build", "named"),
    [
        ("held = Trainer(Net())", "held = Trainer(model)"),
        ("held = [Trainer(Net().cuda())][0]", ""),
        (
            "def make():\n    return {'net': Net()}\n\nparts = make()\nheld = Trainer(parts['net'])",
            "return {'net': net}",
        ),
        ("model, kind = 1, Trainer\nheld = kind(module=Net())", "held = kind(module=built_model)"),
        ("held = Trainer(load() or Net())", ""),
        ("held = Trainer(Net() if many else Other())", ""),
    ],
)
def test_what_is_built_where_it_is_given_away_gets_a_name(tmp_path: Path, build: str, named: str) -> None:
    plan = plan_of(tmp_path, HEAD + TRAINER + build + LOOP.replace("USED", "held.net"))
    assert [question.code for question in plan.questions] == ([] if named else ["PAI102"])
    if named:
        text = rewritten(plan)
        assert text.count("UPA.perforate_model(") == 1
        assert text.index("UPA.perforate_model(") < text.index(named)


@pytest.mark.parametrize(
    ("build", "used", "named"),
    [
        ("net = wrap(Net(), 0)", "net", "net = wrap(model, 0)"),
        ("model = wrap(Net().cuda(), device=0)", "model", "model = wrap(built_model, device=0)"),
        ("net = wrap(nets[kind], 0)", "net", "net = wrap(model, 0)"),
        ("net = wrap(nets[kind].cuda(), 0)", "net", "net = wrap(model, 0)"),
        ("for kind in nets:\n    net = wrap(nets[kind], 0)", "net", ""),
        ("if many:\n    net = wrap(Net(), 0)\nelse:\n    net = wrap(Other(), 0)", "net", "return DDP(module"),
        ("net = wrap(Net(), 0) if many else wrap(Other(), 0)", "net", "return DDP(module"),
        ("if many:\n    net = wrap(Net(), 0)\nelse:\n    net = Net()", "net", ""),
        ("net = wrap(Net(), 0) if many else Net()", "net", ""),
    ],
)
def test_what_is_built_where_it_is_given_to_a_function_that_wraps_it_gets_a_name(
    tmp_path: Path, build: str, used: str, named: str
) -> None:
    helper = "def wrap(module, device):\n    module.to(device)\n    return DDP(module)\n\n"
    plan = plan_of(tmp_path, HEAD + helper + build + LOOP.replace("USED", used))
    assert {question.code for question in plan.questions} == (set() if named else {"PAI102"})
    if named:
        text = rewritten(plan)
        assert text.count("UPA.perforate_model(") == 1
        assert text.index("UPA.perforate_model(") < text.index(named)


_MOVING = """
class Trainer:
    def __init__(self):
        self.net = self.to_device(Net(), parallel=True)
        self.criterion = self.to_device(torch.nn.CrossEntropyLoss())

    def to_device(self, what, parallel=False):
        WAY

    def fit(self):
LOOP
"""
_EARLY = "if not parallel:\n            return what.cuda()\n        return DDP(what.cuda())"
_LATE = """if cpu:
            what = what.cpu()
        elif one or not parallel:
            what = what.cuda()
        else:
            what = DDP(what.cuda())
        return what"""


_SHORT = "if parallel: what = DDP(what.cuda())\n        return what"


@pytest.mark.parametrize("way", [_EARLY, _LATE, _SHORT])
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("", ""), ""),
        (("parallel=True", "parallel=many"), ""),
        (("self.to_device(x)", "self.to_device(x, parallel=many)"), "is wrapped besides `self.net` (line 12)"),
    ],
)
def test_what_a_function_only_moves_is_no_model_though_it_wraps_another(
    tmp_path: Path, way: str, change: tuple[str, str], told: str
) -> None:
    loop = LOOP.replace("        optimizer.zero", "        x = self.to_device(x)\n        optimizer.zero")
    text = _MOVING.replace("WAY", way).replace("LOOP", indent(loop.replace("USED", "self.net"), "        "))
    plan = plan_of(tmp_path, HEAD + text.replace(*change) + "\nTrainer().fit()\n")
    assert [(question.code, told in question.message) for question in plan.questions] == [("PAI102", True)] * bool(told)
    if not told:
        assert "model = UPA.perforate_model(" in rewritten(plan)


@pytest.mark.parametrize(
    ("wraps", "before"),
    [
        ("    if many:\n        module = DDP(module)\n    return module", "    if many:\n        if not pai_dist"),
        ("    if cpu:\n        return module\n    return DDP(module)", ""),
    ],
)
def test_what_each_branch_gives_to_a_function_is_perforated_in_it_on_every_way(
    tmp_path: Path, wraps: str, before: str
) -> None:
    build = f"def wrap(module):\n{wraps}\n\nif small:\n    net = wrap(Net(1))\nelse:\n    net = wrap(Net(2))\n"
    plan = plan_of(tmp_path, HEAD + build + LOOP.replace("USED", "net"))
    assert {question.code for question in plan.questions} == (set() if before else {"PAI102"})
    if before:
        text = rewritten(plan)
        assert text.index("def wrap(") < text.index("    module = UPA.perforate_model(") < text.index(before)


def test_a_name_that_may_lack_its_value_is_not_read_where_the_model_is_an_item(tmp_path: Path) -> None:
    build = (
        "held = {'net': Net()}\nif many:\n    held['net'] = DDP(held['net'])\nif main:\n    bare = held['net'].module\n"
    )
    assert "report_validation_score(acc)" in written(tmp_path, build, "held['net']")
