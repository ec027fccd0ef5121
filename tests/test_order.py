"""What runs before what: the model has its dendrites' layers before its optimizer is built, or the helper is told."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent

import pytest

from tests.helpers import code, plan_of, rewritten, script, survey_of

SCORE = "acc = evaluate(model)\nif acc > best:\n    best = acc"
BUILT = "model = Net()\nmodel = DDP(model)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
PAIR = """
def build():
    net = Net()
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    return net, sgd

"""
OWNER = """
class Trained(Net):
    def __init__(self):
        super().__init__()
        self.sgd = torch.optim.SGD(self.parameters(), lr=0.1)

"""


def made(building: str, helpers: str = "") -> str:
    """Return the script with another way to get model and optimizer."""
    return script(SCORE, "best = 0").replace(BUILT, building).replace("\n\n", f"\n{code(helpers)}\n", 1)


@pytest.mark.parametrize(
    "way",
    [
        pytest.param("def make():\n    return build()\n", id="passed on"),
        pytest.param("def make():\n    model, sgd = build()\n    return model, sgd\n", id="by names"),
        pytest.param("def make():\n    return inner()\n\ndef inner():\n    return build()\n", id="three calls down"),
        pytest.param("def make():\n    model, sgd = build()\n    return model.cuda(), sgd\n", id="moved on the way"),
    ],
)
def test_model_that_is_built_with_its_optimizer_any_number_of_calls_down(way: str) -> None:
    found = survey_of(made("model, optimizer = make()\nmodel = DDP(model)\n", f"{PAIR}\n{way}"))
    assert [(model.target, model.scope.name) for model in found.models] == [("net", "build")]
    assert not found.early_optimizer
    assert found.optimizers[0].plain


def test_model_that_is_built_with_its_optimizer_into_a_dict() -> None:
    pair = PAIR.replace("net, sgd\n", "{'net': net, 'sgd': sgd}\n")
    found = survey_of(
        made("parts = build()\nmodel, optimizer = parts['net'], parts['sgd']\nmodel = DDP(model)\n", pair)
    )
    assert [(model.target, model.scope.name) for model in found.models] == [("net", "build")]
    assert not found.early_optimizer


def test_model_that_a_function_builds_by_another_is_perforated_where_its_optimizer_follows() -> None:
    pair = PAIR.replace("Net()", "plain()") + "\ndef plain():\n    layers = Net()\n    return layers\n"
    text = made("model, optimizer = make()\nmodel = DDP(model)\n", pair + "\ndef make():\n    return build()\n")
    assert [(model.target, model.scope.name) for model in survey_of(text).models] == [("net", "build")]


@pytest.mark.parametrize(
    ("building", "helpers"),
    [
        pytest.param(
            "parts = build()\nmodel, optimizer = parts.net, parts.sgd\nmodel = DDP(model)\n",
            PAIR.replace("net, sgd\n", "Parts(net=net, sgd=sgd)\n"),
            id="in an object out of sight",
        ),
        pytest.param("model = Trained()\noptimizer = model.sgd\nmodel = DDP(model)\n", OWNER, id="by the model"),
    ],
)
def test_optimizer_that_another_function_builds_before_the_model_is_perforated_waits_for_it(
    tmp_path: Path, building: str, helpers: str
) -> None:
    text = made(building, helpers)
    (optimizer,) = survey_of(text).optimizers
    assert optimizer.early
    assert "the model is finished only after it" in optimizer.keeps
    new = rewritten(plan_of(tmp_path, text))
    assert "pai_distributed.set_optimizer_instance(" in new
    assert "GPA.pai_tracker.set" not in new


@pytest.mark.parametrize(
    "building",
    [
        pytest.param("model = Net()\noptimizer = step_by(model)\nmodel = DDP(model)\n", id="before the wrapper"),
        pytest.param("model = Net()\nmodel = DDP(model)\noptimizer = step_by(model)\n", id="after it"),
    ],
)
def test_optimizer_that_another_function_builds_of_the_perforated_model_does_not_wait(building: str) -> None:
    step_by = "def step_by(net):\n    sgd = torch.optim.SGD(net.parameters(), lr=0.1)\n    return sgd\n"
    assert not survey_of(made(building, step_by)).early_optimizer


EITHER = """
def build(wide):
    if wide:
        net = Net(64)
        sgd = torch.optim.SGD(net.parameters(), lr=0.1)
        return net, sgd
    slim = Net(32)
    sgd = torch.optim.Adam(slim.parameters())
    return slim, sgd

"""


@pytest.mark.parametrize(
    "either",
    [
        pytest.param(EITHER, id="one after the other"),
        pytest.param(
            EITHER.replace("    slim", "    else:\n        slim")
            .replace("    sgd = torch.optim.Adam", "        sgd = torch.optim.Adam")
            .replace("    return slim", "        return slim"),
            id="either",
        ),
    ],
)
def test_branches_that_return_their_model_each_have_dendrites_and_optimizer_of_their_own(
    tmp_path: Path, either: str
) -> None:
    text = rewritten(plan_of(tmp_path, made("model, optimizer = build(True)\nmodel = DDP(model)\n", either)))
    build = text[text.index("def build") : text.index("return slim")]
    for name, built in (("net", "SGD"), ("slim", "Adam")):
        assert re.search(rf"(?s){name} = UPA.*optim\.{built}\(\S+ *\S*\)\n +GPA\.pai_tracker\.set_opt", build)


def wrapped_inside(building: str) -> str:
    """Return the script where one kind of model is wrapped by the function that builds it, and then ``building``."""
    helpers = """
def other():
    net = Other()
    return torch.nn.DataParallel(net)

def build(kind):
    if kind == "own":
        net = Net()
        return net, None
    net = other()
    return net, 0

"""
    text = made(f"model, _ = build(sys.argv[1])\n{building}optimizer = SGD(model.parameters(), lr=0.1)\n", helpers)
    return text.replace("import torch\n", "import sys\nimport torch\nfrom torch.optim import SGD\n", 1)


def test_model_of_which_one_of_several_kinds_is_wrapped_before_has_dendrites_where_each_is_there(
    tmp_path: Path,
) -> None:
    text = rewritten(plan_of(tmp_path, wrapped_inside("model = DDP(model)\n")))
    assert re.search(r"model, _ = build\(.*\)\n(?s:.)*\n    model = UPA(?s:.)*\n    model = DDP\(model, ", text)
    assert text.count("UPA.perforate_model") == 1
    assert "    return torch.nn.DataParallel(net)\n" in text


@pytest.mark.parametrize(
    "building",
    [
        pytest.param("if several:\n    model = DDP(model)\n", id="where the further wrapper may be left out"),
        pytest.param("", id="where there is none"),
    ],
)
def test_model_of_one_of_several_kinds_keeps_its_wrapper(building: str) -> None:
    assert "dp" in [wrapper.kind for wrapper in survey_of(wrapped_inside(building)).wrappers]


BRANCHES = """
if resumed:
    model = Net()
    model = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
else:
    if wide:
        model = Net(64).to(device)
    else:
        model = Net(32).to(device)
    model = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


def test_optimizer_of_one_branch_waits_for_no_model_of_another(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, made(code(BRANCHES)))
    assert plan.questions == []
    new = rewritten(plan)
    assert new.count("set_optimizer_instance(optimizer)") == 1
    assert new.rindex("torch.optim.SGD") < new.index("set_optimizer_instance(optimizer)")


TWICE = """
def build(settings):
    net = Net(settings)
    net = DDP(net)
    return net

if FIRST:
    model = build(settings)
    for epoch in range(9):
        for x, y in loader:
            (model(x) - y).mean().backward()
BETWEEN
if SECOND:
    model = build(settings)
    model.eval()
"""


@pytest.mark.parametrize(
    ("first", "second", "between", "both"),
    [
        ("not args.eval", "args.eval", "", False),
        ("train", "not train", "", False),
        ("args.mode == 'train'", "args.mode == 'test'", "", False),
        ("stage == 1", "stage == 2", "print(stage)", False),
        ("train", "test", "", True),
        ("args.mode == 'train'", "args.mode == 'train'", "", True),
        ("args.mode == 'train'", "args.task == 'test'", "", True),
        ("args.mode == 'train'", "args.mode != 'test'", "", True),
        ("train", "not train", "train = False", True),
        ("not args.eval", "args.eval", "args = parse()", True),
    ],
)
def test_builds_under_conditions_that_never_hold_together_are_one(
    first: str, second: str, between: str, both: bool
) -> None:
    text = f"import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n{TWICE}"
    found = survey_of(text.replace("FIRST", first).replace("SECOND", second).replace("BETWEEN", between))
    assert bool(found.repeated) is both


# ---- the optimizer that trains

DRAWN = """
FIRST = torch.optim.SGD(model.parameters(), lr=0.1)
SECOND = torch.optim.lr_scheduler.StepLR(FIRST, 3)
for _ in range(10):
    rates.append(FIRST.param_groups[0]["lr"])
    FIRST.step()
    SECOND.step()
"""


def drawn(first: str, second: str) -> str:
    return code(DRAWN).replace("FIRST", first).replace("SECOND", second)


@pytest.mark.parametrize(
    "drawing",
    [
        pytest.param(drawn("sgd", "schedule"), id="beside the training"),
        pytest.param(
            "def draw(model):\n" + indent(drawn("optimizer", "schedule"), "    ") + "draw(model)\n",
            id="in a function, by the same name",
        ),
        pytest.param(
            "def draw(model):\n"
            + indent(drawn("sgd", "schedule"), "    ").replace("        sgd.step()\n", "")
            + "draw(model)",
            id="never stepped",
        ),
    ],
)
def test_optimizer_by_which_a_schedule_is_drawn_is_none_that_trains(tmp_path: Path, drawing: str) -> None:
    text = script(SCORE, "best = 0\n" + drawing)
    (optimizer,) = survey_of(text).optimizers
    assert (optimizer.target, optimizer.line, optimizer.plain) == ("optimizer", 6, True)
    new = rewritten(plan_of(tmp_path, text))
    assert new.count("GPA.pai_tracker.set") == 2
    assert "set_optimizer_instance" not in new


@pytest.mark.parametrize(
    ("before", "stepped"),
    [
        pytest.param(drawn("sgd", "schedule"), "sgd.step()", id="stepped in the loop"),
        pytest.param(drawn("sgd", "schedule"), "step(sgd)", id="given to what the loop calls"),
        pytest.param(
            drawn("sgd", "schedule") + "both = Both(optimizer, sgd)", "both.step()", id="within what the loop steps"
        ),
        pytest.param(
            drawn("sgd", "schedule") + "several = [optimizer, sgd]",
            "for one in several:\n    one.step()",
            id="where it is not known what the loop steps",
        ),
    ],
)
def test_second_optimizer_that_may_train_is_asked_about(before: str, stepped: str) -> None:
    found = survey_of(script(stepped, before)).optimizers
    assert [optimizer.target for optimizer in found] == ["optimizer", "sgd"]


# ---- the wrapper that trains

CALLED = "criterion(model(x), y)"
APART = "wrapped = DDP(model)\n"


def through(loss: str, before: str = "", wrapped: str = APART) -> str:
    """Return the script with the wrapper in a variable of its own, and a loss."""
    text = script("", f"{wrapped}{before}").replace("model = DDP(model)\n", "")
    return text.replace(CALLED, loss)


@pytest.mark.parametrize(
    ("loss", "before"),
    [
        pytest.param(CALLED, "", id="by name"),
        pytest.param("criterion(model.forward(x), y)", "", id="by its method"),
        pytest.param("model.loss_of(x, y)", "", id="by a method of its own"),
        pytest.param("loss_of(x, y)", "loss_of = model.loss_of\n", id="by a method that a name holds"),
        pytest.param("loss_of(x, y)", "loss_of = given or model.loss_of\n", id="by a method for want of another"),
        pytest.param("criterion(wrapped.module(x), y)", "", id="out of the wrapper"),
        pytest.param("loss_of(model, x)", "def loss_of(net, x):\n    return net(x).sum()\n", id="in a function"),
        pytest.param(CALLED, "print(wrapped)\nvalidate(wrapped)\n", id="though others are given it"),
        pytest.param(CALLED, "size = sum(p.numel() for p in wrapped.parameters())\n", id="though it is measured"),
        pytest.param(
            CALLED + " + deep(x)(y)", "def deep(x):\n    return deep(x - 1)(x)\n", id="by a function that calls itself"
        ),
        pytest.param(
            "loss_of(wrapped, x)['loss'].sum()\n        for one in loss_of(wrapped, x).values():\n            log(one)",
            "def loss_of(net, x):\n    bare = net.module\n    return {'loss': bare(x).sum()}\n",
            id="of whose losses something is called",
        ),
    ],
)
def test_training_that_goes_around_its_wrapper_is_asked_about(tmp_path: Path, loss: str, before: str) -> None:
    found = survey_of(through(loss, before)).bypass
    assert found is not None
    (question,) = [q for q in plan_of(tmp_path, through(loss, before)).questions if q.code == "PAI101"]
    assert (question.line, question.column) == found.position
    assert "the wrapper that is made at line 6 is called nowhere around the backward pass" in question.message


HELD = """
class Deep(torch.nn.Module):
    def __init__(self, body):
        self.model = body
    def loss_of(self, x):
        return self.model(x).sum()

class Trainer:
    def __init__(self, net):
        self.model = net
    def loss_of(self, x):
        return self.model.module.loss_of(x)

t = Trainer(Deep(model))
t.model = DDP(t.model)
"""


@pytest.mark.parametrize(
    ("before", "around"),
    [
        pytest.param(HELD, True, id="two classes"),
        pytest.param(
            f"{HELD}if not many:\n    t.model = torch.nn.DataParallel(t.model)\n", True, id="and another wrapper"
        ),
        pytest.param(HELD.replace(".module", ""), False, id="the wrapper"),
        pytest.param(HELD.replace("Trainer:", "Trainer(Deep):"), False, id="one class"),
        pytest.param(f"class Both(Deep, Other, Trainer):\n    pass\n{HELD}keep(Both)\n", False, id="both in one"),
        pytest.param(HELD.replace("t.model = DDP(", "t = choose(t)\nt.model = DDP("), False, id="an object not seen"),
    ],
)
def test_attributes_of_one_name_are_of_two_objects_of_two_classes(before: str, around: bool) -> None:
    assert (survey_of(through("t.loss_of(x)", before, "")).bypass is not None) is around


TAKEN_OUT = "model = DDP(model, [0])\n"
UNDER = f"if many:\n    {TAKEN_OUT}"
OF_BOTH = f"{UNDER}    bare = model.module\nelse:\n    bare = model\n"
SCALING = """
class Scaling:
    def __init__(self, net):
        self.net = net
    def scaled(self, x):
        return x.sum() / 2

loss_of = Scaling(model)
"""
OWNED = """
class Owner:
    def __init__(self, net, size):
        self.net, self.size = net, size
        if size > 1:
            self.net = DDP(self.net)
    def loss_of(self, x):
        return (self.net.module if self.size > 1 else self.net)(x).sum()

owner = Owner(model, size)
"""
OWNING = """
class Owner:
    def __init__(self, net):
        self.net = DDP(net)
        FIRST
        self.net = self.net.module
    def loss_of(self, x):
        return self.net(x).sum()

owner = Owner(model)
"""


RETURNING = """
class Owner:
    def __init__(self, net):
        self.net = net
    def wrap(self):
        self.net = DDP(self.net)
        return 1
    def loss_of(self, x):
        return self.net(x).sum()

owner = Owner(model)
owner.wrap()
"""


def test_the_first_call_that_goes_around_the_wrapper_is_named() -> None:
    """However many functions do."""
    names = [f"loss{number}" for number in range(8)]
    functions = "".join(f"def {name}(net, x):\n    return net(x).sum()\n" for name in names)
    found = survey_of(text := through(" + ".join(f"{name}(model, x)" for name in names), functions)).bypass
    assert found is not None
    assert found.position[0] == text[: text.index("return net(x)")].count("\n") + 1


@pytest.mark.parametrize(
    ("loss", "before", "wrapped"),
    [
        pytest.param(CALLED, "model = model.module\n", TAKEN_OUT, id="at once"),
        pytest.param(CALLED, "print(model)\nmodel = model.module\n", f"if many:\n    {TAKEN_OUT}", id="whatever ran"),
        pytest.param(
            CALLED,
            "if many:\n    model = model.module\nelse:\n    model = bare\n",
            f"bare = model\n{TAKEN_OUT}",
            id="either",
        ),
        pytest.param(
            "loss_of(model, x)",
            "def loss_of(net, x):\n    net = net.module\n    return net(x)\n",
            TAKEN_OUT,
            id="a parameter",
        ),
        pytest.param("owner.loss_of(x)", "", OWNING.replace("FIRST", "print(net)"), id="an attribute"),
        pytest.param("criterion(bare(x), y)", "", OF_BOTH, id="in the branch of the wrapper"),
        pytest.param("criterion((model.module if many else model)(x), y)", "", UNDER, id="where it is wrapped"),
        pytest.param(
            "criterion(bare(x), y)",
            "bare = model.module if hasattr(model, 'module') else model\n",
            UNDER,
            id="asked by a part",
        ),
        pytest.param(
            "criterion(inner(model)(x), y)",
            "def inner(net):\n    if not isinstance(net, DDP):\n        return net\n    return net.module\n",
            UNDER,
            id="asked by its class",
        ),
        pytest.param(CALLED, "print(x)\nif many:\n    model = model.module\n", UNDER, id="under its condition"),
        pytest.param("criterion(getattr(model, 'module', model)(x), y)", "", UNDER, id="by a name"),
        pytest.param("criterion(bare(x), y)", "bare = getattr(model, 'module', model)\n", UNDER, id="by a name before"),
        pytest.param(
            "criterion(bare(x), y)",
            "bare = model\nwhile hasattr(bare, 'module'):\n    bare = bare.module\n",
            UNDER,
            id="as long as there is a wrapper",
        ),
        pytest.param("loss_of(model.module, x)", "loss_of = Loss()\n", UNDER, id="given to an object"),
        pytest.param("loss_of.scaled(model.module(x))", SCALING, TAKEN_OUT, id="beside a method that holds it"),
        pytest.param("owner.loss_of(x)", "", OWNED, id="asked by an attribute for what a parameter was"),
        pytest.param(
            "library(model.module, x)",
            "optimizer = torch.optim.SGD(drawn(model), 1)\n",
            TAKEN_OUT,
            id="stepped by a library",
        ),
    ],
)
def test_training_of_what_is_taken_out_of_its_wrapper_is_asked_about(loss: str, before: str, wrapped: str) -> None:
    assert survey_of(through(loss, before, wrapped)).bypass is not None


@pytest.mark.parametrize(
    ("loss", "before", "wrapped"),
    [
        pytest.param("criterion(wrapped(x), y)", "", APART, id="called"),
        pytest.param("criterion((model.module if few else model)(x), y)", "", UNDER, id="called under a condition"),
        pytest.param(
            "criterion((model.module if many else model)(x), y)", "many = single\n", UNDER, id="where it changes"
        ),
        pytest.param("criterion((model if many else model.module)(x), y)", "", UNDER, id="where it is wrapped"),
        pytest.param(
            "loss_of.scaled(model.module(x))",
            SCALING.replace("x.sum()", "self.net(x)"),
            TAKEN_OUT,
            id="held and called",
        ),
        pytest.param("owner.loss_of(x)", "", OWNED.replace("> 1 else", "== 1 else"), id="asked otherwise"),
        pytest.param("library(x)", "ema.update(model.module)\n", TAKEN_OUT, id="followed by an average"),
        pytest.param(
            "engine(x)", "engine = library.made[0]\n", f"{TAKEN_OUT}library.made.append(model)\n", id="kept elsewhere"
        ),
        pytest.param(CALLED, "model = Other()\n", TAKEN_OUT, id="of another model"),
        pytest.param(CALLED, "if single:\n    model = model.module\n", TAKEN_OUT, id="perhaps taken out"),
        pytest.param(CALLED, "if single:\n    model = model.module\n", UNDER, id="under another condition"),
        pytest.param(CALLED, "many = single\nif many:\n    model = model.module\n", UNDER, id="under one that changes"),
        pytest.param("criterion(getattr(model, 'inner', model)(x), y)", "", UNDER, id="another attribute"),
        pytest.param(
            CALLED,
            "while hasattr(model, 'module'):\n    model = model.module\nmodel = DDP(model, [1])\n",
            UNDER,
            id="taken out and wrapped",
        ),
        pytest.param(
            f"{CALLED}\n        model = model.module\n        model = DDP(model)",
            "",
            TAKEN_OUT,
            id="taken out for a while",
        ),
        pytest.param(
            "owner.loss_of(x)", "", OWNING.replace("FIRST", "self.loss_of(first)"), id="called before it is taken out"
        ),
        pytest.param("owner.loss_of(x)", "", RETURNING, id="made in a method that returns"),
        pytest.param("criterion(model(x), y) + wrapped(x)", "", APART, id="both called"),
        pytest.param(CALLED, "", "model = DDP(model)\n", id="of the same name"),
        pytest.param("criterion(net(x), y)", "net = wrapped if many else model\n", APART, id="one of both"),
        pytest.param("loss_of(x)", "loss_of = wrapped.forward or model.forward\n", APART, id="a method of one"),
        pytest.param("log(x) + wrapped(x)", "log = model.log\n", APART, id="beside a method"),
        pytest.param(
            "loss_of(wrapped, x)", "def loss_of(net, x):\n    return net(x).sum()\n", APART, id="in a function"
        ),
        pytest.param("library.loss_of(wrapped, model(x))", "", APART, id="given to what is not seen"),
        pytest.param("step(wrapped, x) + model(x)", "from library import step\n", APART, id="given to an import"),
        pytest.param("engine.loss_of(x) + model(x)", "engine = Engine(wrapped)\n", APART, id="in an object"),
        pytest.param("nets['a'](x) + model(x)", "nets = {}\nnets['a'] = wrapped\n", APART, id="in a dict"),
        pytest.param("owner.net(x) + model(x)", "owner.net = wrapped\n", APART, id="in an attribute"),
        pytest.param("criterion(pick()(x), model(x))", "def pick():\n    return wrapped\n", APART, id="returned"),
        pytest.param(
            "criterion(same(wrapped)(x), model(x))", "def same(net):\n    return net\n", APART, id="handed through"
        ),
        pytest.param(
            "criterion(step(x), model(x))",
            "def made(net):\n    def one(x):\n        return net(x)\n    return one\nstep = made(wrapped)\n",
            APART,
            id="in a function that is returned",
        ),
        pytest.param(
            "average(model) + criterion(model(x), y)",
            "import torch.distributed as dist\ndef average(net):\n    for one in net.parameters():\n"
            "        dist.all_reduce(one.grad)\n    return 0\n",
            APART,
            id="averaged by hand",
        ),
        pytest.param(CALLED, "for one in model.parameters():\n    one.register_hook(average)\n", APART, id="by hooks"),
        pytest.param(CALLED, "", "wrapped = torch.nn.DataParallel(model)\n", id="in one process"),
    ],
)
def test_training_that_may_call_its_wrapper_is_not_asked_about(loss: str, before: str, wrapped: str) -> None:
    assert survey_of(through(loss, before, wrapped)).bypass is None


TRAINS_ITSELF = """import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(2, 2)
    def forward(self, x):
        return self.body(x)
    def one_epoch(self, net, optimizer, loader):
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(self(x), y)
            loss.backward()
            optimizer.step()
    def score(self, x):
        return self(x).mean()

def average(net):
    for one in net.parameters():
        dist.all_reduce(one.grad)

def main(loader):
    dist.init_process_group("nccl")
    model = Net()
    wrapped = DDP(model)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    best = 0
    for epoch in range(9):
        wrapped.module.one_epoch(None, optimizer, loader)
        acc = wrapped.module.score(loader)
        if acc > best:
            best = acc
            torch.save(model.state_dict(), "best.pt")

main(load())
"""
OUTER = "wrapped.module.one_epoch(None, optimizer, loader)"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("", "", id="taken out of the wrapper"),
        pytest.param(OUTER, OUTER.replace("wrapped.module", "model"), id="of the bare model"),
        pytest.param("self(x), y", "self.forward(x), y", id="by its name"),
        pytest.param("self(x), y", "self.body(x), y", id="by its layers"),
        pytest.param("def main", "def train(net, *rest):\n    net.module.one_epoch(None, *rest)\n\ndef main", id="in"),
        pytest.param(OUTER, f"{OUTER}\n        wrapped(first)", id="though it is called beside it"),
    ],
)
def test_model_that_trains_in_a_method_of_its_own_goes_around_its_wrapper(old: str, new: str) -> None:
    text = TRAINS_ITSELF.replace(old, new) if old else TRAINS_ITSELF
    text = text.replace(OUTER, "train(wrapped, optimizer, loader)") if "def train" in text else text
    found = survey_of(text).bypass
    assert found is not None
    assert "one_epoch" in text.splitlines()[found.position[0] - 1]


@pytest.mark.parametrize(
    ("loss", "old", "new"),
    [
        pytest.param("net(x), y", "one_epoch(None,", "one_epoch(wrapped,", id="given the wrapper"),
        pytest.param("self.net(x), y", "wrapped = DDP", "wrapped = model.net = DDP", id="kept in the model"),
        pytest.param("self(x), y", OUTER, f"{OUTER}\n        average(model)", id="averaged behind it"),
        pytest.param("self(x), y", OUTER, f"{OUTER}\n        dist.all_reduce(model.body.weight.grad)", id="there"),
        pytest.param("self(x), y", "= DDP(model)", "= torch.nn.DataParallel(model)", id="in one process"),
    ],
)
def test_method_of_the_model_that_may_call_the_wrapper_is_not_asked_about(loss: str, old: str, new: str) -> None:
    assert survey_of(TRAINS_ITSELF.replace("self(x), y", loss).replace(old, new)).bypass is None
