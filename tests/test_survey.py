"""What the survey finds in a script, and what it leaves alone."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent

import pytest

from retrofit.options import Options
from retrofit.survey.scores import direction_of
from retrofit.survey.sites.optimizer import Optimizer
from retrofit.survey.sites.score import Score
from retrofit.survey.sites.script import Script
from retrofit.survey.sites.wrapper import Wrapper
from tests.helpers import code, plan_of, rewritten, script, survey_of

DDP = "from torch.nn.parallel import DistributedDataParallel as DDP\n"
LOOP = """
for epoch in range(10):
    for x in loader:
        loss = model(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def indented(text: str, by: int = 4) -> str:
    return indent(code(text), " " * by)


def only_wrapper(text: str) -> Wrapper:
    (wrapper,) = survey_of(text).wrappers
    return wrapper


def only_optimizer(text: str) -> Optimizer:
    (optimizer,) = survey_of(text).optimizers
    return optimizer


# Wrappers


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        pytest.param("import torch\nm = torch.nn.parallel.DistributedDataParallel(m)\n", "ddp", id="full path"),
        pytest.param("import torch.nn as nn\nm = nn.parallel.DistributedDataParallel(m)\n", "ddp", id="nn alias"),
        pytest.param("from torch import nn\nm = nn.DataParallel(m)\n", "dp", id="from torch import nn"),
        pytest.param("import torch.nn.parallel as par\nm = par.DistributedDataParallel(m)\n", "ddp", id="module alias"),
        pytest.param("from torch.nn import parallel\nm = parallel.DataParallel(m)\n", "dp", id="parallel.DataParallel"),
        pytest.param(DDP + "m = DDP(m)\n", "ddp", id="class alias"),
        pytest.param("from torch.nn import DataParallel\nm = DataParallel(m, [0, 1])\n", "dp", id="class"),
        pytest.param(
            "import torch\nm = torch.nn.parallel.distributed.DistributedDataParallel(m)\n", "ddp", id="defining module"
        ),
        pytest.param(
            "def f():\n    from torch.nn.parallel import DistributedDataParallel as D\n    x = D(m)\n",
            "ddp",
            id="imported in a function",
        ),
        pytest.param(
            "try:\n    from torch.nn.parallel import DistributedDataParallel as D\n"
            "except ImportError:\n    D = None\nm = D(m)\n",
            "ddp",
            id="imported in a try",
        ),
        pytest.param(DDP + "m = DDP(module=m)\n", "ddp", id="module by keyword"),
    ],
)
def test_wrapper_is_found(text: str, kind: str) -> None:
    assert only_wrapper("m = Net()\n" + text).kind == kind


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("class DDP:\n    pass\nm = DDP(m)\n", id="own class called DDP"),
        pytest.param("from mine import DistributedDataParallel as DDP\nm = DDP(m)\n", id="another library's"),
        pytest.param("from .parallel import DataParallel\nm = DataParallel(m)\n", id="relative import"),
        pytest.param("from apex.parallel import DistributedDataParallel as DDP\nm = DDP(m)\n", id="apex"),
        pytest.param("import nn\nm = nn.DataParallel(m)\n", id="another module called nn"),
        pytest.param("m = DataParallel(m)\n", id="never imported"),
        pytest.param(DDP + "assert isinstance(m, DDP)\n", id="isinstance"),
        pytest.param(DDP + "kinds = [DDP]\nm = wrap(m, DDP)\n", id="class handed on"),
        pytest.param(DDP + "class Mine(DDP):\n    pass\n", id="base class"),
        pytest.param(DDP + "m = DDP()\n", id="without a module"),
        pytest.param(DDP + "m = DDP(*parts)\n", id="unpacked arguments"),
        pytest.param('text = "torch.nn.DataParallel(m)"  # nn.DataParallel(m)\n', id="string and comment"),
        pytest.param("import torch\nx = torch.nn.parallel.data_parallel(m, x)\n", id="functional data_parallel"),
        pytest.param("import torch\nm = torch.nn.parallel.replicate(m, ids)\n", id="replicate"),
        pytest.param(
            DDP + "class DDP:\n    pass\nm = DDP(m)\n",
            id="own class shadows the import",
        ),
    ],
)
def test_no_wrapper(text: str) -> None:
    assert survey_of(text).wrappers == []


@pytest.mark.parametrize(
    ("statement", "target", "operand", "module", "chain", "part", "moved"),
    [
        pytest.param("model = DDP(model)", "model", "model", "model", "", False, "", id="plain"),
        pytest.param("model = DDP(model).cuda()", "model", "model", "model", ".cuda()", False, "", id="chained cuda"),
        pytest.param(
            "model = DDP(model).to(device).train()",
            "model",
            "model",
            "model",
            ".to(device).train()",
            False,
            "",
            id="two chained",
        ),
        pytest.param("model = DDP(Net())", "model", "Net()", "", "", False, "", id="of a call"),
        pytest.param("model = DDP(Net().to(0))", "model", "Net().to(0)", "", "", False, ".to(0)", id="of a moved call"),
        pytest.param("model = DDP(net.cuda())", "model", "net.cuda()", "net", "", False, "", id="of a moved name"),
        pytest.param("ddp_model = DDP(model)", "ddp_model", "model", "model", "", False, "", id="other target"),
        pytest.param(
            "self.model = DDP(self.model)", "self.model", "self.model", "self.model", "", False, "", id="attribute"
        ),
        pytest.param(
            "model.features = DDP(model.features)",
            "model.features",
            "model.features",
            "model.features",
            "",
            True,
            "",
            id="part",
        ),
        pytest.param(
            "model = DDP(model) if many else model", "model", "model", "model", "", False, "", id="conditional"
        ),
        pytest.param("return_it(DDP(model))", "", "model", "model", "", False, "", id="not assigned"),
        pytest.param("a = b = DDP(model)", "a", "model", "model", "", False, "", id="two targets"),
        pytest.param("a: DDP = DDP(model)", "a", "model", "model", "", False, "", id="annotated"),
        pytest.param("model = (DDP(model))", "model", "model", "model", "", False, "", id="in parentheses"),
        pytest.param("model = DDP((model))", "model", "(model)", "model", "", False, "", id="operand in parentheses"),
    ],
)
def test_wrapper_says_what_it_wraps(
    statement: str, target: str, operand: str, module: str, chain: str, part: bool, moved: str
) -> None:
    trained = "optimizer = torch.optim.SGD(model.parameters())"
    wrapper = only_wrapper(f"import torch\n{DDP}model = Net()\nself.model = Net()\n{trained}\n{statement}\n")
    assert (wrapper.target, wrapper.operand, wrapper.module) == (target, operand, module)
    assert (wrapper.chain, wrapper.part, wrapper.moved) == (chain, part, moved)


@pytest.mark.parametrize(
    ("operand", "before"),
    [
        pytest.param("args.model", "", id="attribute of the arguments"),
        pytest.param("self.net", "", id="attribute of self"),
        pytest.param("model.module", "model = other(Net())\n", id="unwrapped"),
        pytest.param("trainer.model", "trainer = Trainer(args)\n", id="model held by an object"),
    ],
)
def test_whole_model_is_no_part(operand: str, before: str) -> None:
    assert not only_wrapper(f"{DDP}{before}wrapped = DDP({operand})\n").part


@pytest.mark.parametrize(
    ("trained", "part"),
    [
        pytest.param("Adam(agent.policy.parameters(), lr=agent.rate)", False, id="its own"),
        pytest.param("Adam([p for n, p in agent.policy.named_parameters()])", False, id="its own by name"),
        pytest.param("Adam(agent.policy.body.parameters())", False, id="some of its own"),
        pytest.param("Adam(policy.parameters())", False, id="its own by another name"),
        pytest.param("build_optimizer(args, agent.policy)", False, id="its own by a function that is not seen"),
        pytest.param("Adam(agent.parameters())", True, id="of all"),
        pytest.param("Adam(params)", True, id="of all by a name"),
        pytest.param("Adam([*agent.policy.parameters(), *agent.head.parameters()])", True, id="two parts"),
        pytest.param("build_optimizer(args, agent)", True, id="of all by a function that is not seen"),
    ],
)
@pytest.mark.parametrize("name", ["policy", "model"])
def test_part_is_what_an_optimizer_trains_more_than(trained: str, part: bool, name: str) -> None:
    text = f"""
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.optim import Adam
    class Agent(torch.nn.Module):
        def __init__(self, policy):
            super().__init__()
            self.policy = policy
            self.head = torch.nn.Linear(2, 2)
    policy = Net()
    agent = Agent(policy)
    params = agent.parameters()
    optimizer = {trained}
    agent.policy = DDP(agent.policy)
    optimizer.zero_grad()
    optimizer.step()
    """
    assert only_wrapper(code(text).replace("policy", name)).part == part


@pytest.mark.parametrize(
    ("holder", "part"),
    [
        pytest.param("args = parser.parse_args()", False, id="options"),
        pytest.param("class Held:\n    pass\nargs = Held()", False, id="object of a class without a base"),
        pytest.param("class Held(torch.nn.Module):\n    pass\nargs = Held()", True, id="module"),
        pytest.param("args = timm.create_model(name).cuda()", True, id="what is moved as modules are"),
    ],
)
@pytest.mark.parametrize("trained", ["SGD([*args.net.parameters(), *args.loss.parameters()])", "build_optimizer(args)"])
def test_what_is_no_module_is_no_model_whose_part_is_wrapped(holder: str, part: bool, trained: str) -> None:
    text = (
        f"import torch\nfrom torch.optim import SGD\n{DDP}{holder}\nargs.net = DDP(args.net)\noptimizer = {trained}\n"
    )
    assert only_wrapper(f"{text}optimizer.zero_grad()\noptimizer.step()\n").part == part


@pytest.mark.parametrize(
    ("imports", "kinds"),
    [
        pytest.param("from network import *", ["dp"], id="from a star"),
        pytest.param("import torch", [], id="from nowhere"),
        pytest.param("from network import *\nfrom own import nn", [], id="from elsewhere"),
        pytest.param("from network import *\nclass nn:\n    DataParallel = Net", [], id="its own"),
    ],
)
def test_torch_may_come_by_a_star_import(imports: str, kinds: list[str]) -> None:
    assert [found.kind for found in survey_of(f"{imports}\nmodel = nn.DataParallel(Net())\n").wrappers] == kinds


def test_class_that_extends_a_wrapper_wraps() -> None:
    text = """
    from torch import nn
    class Parallel(nn.DataParallel):
        def scatter(self, inputs, kwargs, devices):
            return inputs, kwargs
    class Other(nn.Module):
        pass
    model = Net()
    model = Parallel(model)
    other = Other(model)
    """
    assert (only_wrapper(code(text)).kind, only_wrapper(code(text)).module) == ("dp", "model")
    assert survey_of(code(text).replace("nn.DataParallel", "nn.Module")).wrappers == []


def test_keyword_arguments_are_told() -> None:
    wrapper = only_wrapper(DDP + "m = Net()\nm = DDP(m, device_ids=[gpu], find_unused_parameters=False)\n")
    assert wrapper.keyword("device_ids") == "[gpu]"
    assert wrapper.keyword("find_unused_parameters") == "False"
    assert wrapper.keyword("gradient_as_bucket_view") is None


@pytest.mark.parametrize(
    ("use", "members"),
    [
        pytest.param("with model.no_sync():\n    pass", True, id="no_sync anywhere"),
        pytest.param("with model.join():\n    pass", True, id="join anywhere"),
        pytest.param("model.register_comm_hook(None, hook)", True, id="a hook for what is communicated"),
        pytest.param("model._set_static_graph()", True, id="a static graph"),
        pytest.param("print(','.join(names), os.path.join(folder, name))", False, id="another join"),
        pytest.param("pass", False, id="nothing"),
        pytest.param("other.module.save()", False, id="another object's module"),
        pytest.param("save(model.module)", False, id="module only after the backward pass"),
    ],
)
def test_members_that_only_the_wrapper_has(use: str, members: bool) -> None:
    assert survey_of(script(use)).wrappers[0].members is members


@pytest.mark.parametrize(("kind", "members"), [("DDP", True), ("torch.nn.DataParallel", False)])
def test_the_device_that_a_wrapper_tells_counts_as_member(kind: str, members: bool) -> None:
    text = script().replace("DDP(", f"{kind}(").replace("    for x, y in", "    print(model.device)\n    for x, y in")
    assert survey_of(text).wrappers[0].members is members


@pytest.mark.parametrize("place", ["save(model.module)\n", ""])
def test_module_used_in_the_loop_before_training_counts_as_member(place: str) -> None:
    before = "def train():\n    for x in loader:\n        criterion(model(x)).backward()\n        optimizer.step()\n"
    text = (
        f"{DDP}{before}model = Net()\nmodel = DDP(model)\nfor epoch in range(9):\n    {place or 'pass'}\n    train()\n"
    )
    assert survey_of(f"{text}    save(model.module)\n").wrappers[0].members is bool(place)


@pytest.mark.parametrize(
    ("epoch", "members"),
    [
        pytest.param("print(model.module.fit(optimizer))", True, id="of the training itself"),
        pytest.param("if model.module.fit(optimizer):\n    log()", True, id="in a condition"),
        pytest.param("for x in model.module.parts():\n    model.fit(x)", True, id="of the loop around it"),
        pytest.param("for x in parts:\n    model.fit(x)\n    save(model.module)", False, id="after it in a loop"),
        pytest.param("if model.fit(x):\n    save(model.module)", False, id="after it under its condition"),
    ],
)
def test_module_used_where_the_training_is_called_counts_as_member(epoch: str, members: bool) -> None:
    """As a model has it that trains itself."""
    text = f"""
    {DDP.strip()}
    class Net(nn.Module):
        def fit(self, optimizer):
            for x in loader:
                self(x).backward()
                optimizer.step()

    model = Net()
    model = DDP(model)
    optimizer = SGD(model.parameters())
    for epoch in range(9):
    """
    assert survey_of(code(text) + indent(epoch, "    ") + "\n").wrappers[0].members is members


def test_module_of_a_model_that_a_function_builds_and_wraps_counts_as_member() -> None:
    text = f"{DDP}def make():\n    model = Net()\n    model = DDP(model)\n    return model\n\nmodel = make()\n"
    text += (
        "print(model.module)\nfor epoch in range(9):\n    for x in loader:\n        criterion(model(x)).backward()\n"
    )
    assert survey_of(text).wrappers[0].members


def test_module_used_before_the_loop_over_batches_counts_as_member() -> None:
    text = script().replace("    for x, y in", "    model.module.set_epoch(epoch)\n    for x, y in")
    assert survey_of(text).wrappers[0].members


@pytest.mark.parametrize(("kind", "members"), [("DDP", True), ("Net", False)])
def test_insisting_on_a_wrapper_counts_as_member(kind: str, members: bool) -> None:
    text = f"def patch(wrapped):\n    assert isinstance(wrapped, {kind})\n\npatch(model)"
    assert survey_of(script(before=text)).wrappers[0].members is members


@pytest.mark.parametrize(
    ("held", "members"),
    [("models[name]", True), ("models['net']", True), ("models['other']", False), ("others[name]", False)],
)
@pytest.mark.parametrize("made", ["models['net'] = DDP(model)", "net = DDP(model)\nmodels['net'] = net"])
def test_wrapper_in_a_dict_may_be_what_a_key_that_is_worked_out_gives(held: str, members: bool, made: str) -> None:
    text = script(before=f"others = {{}}\nfor name in names:\n    load({held}.module)")
    text = text.replace("model = DDP(model)", f"models = {{}}\n{made}")
    (wrapper,) = survey_of(text.replace("model(x)", "models['net'](x)")).wrappers
    assert wrapper.members is members


@pytest.mark.parametrize(
    ("call", "body", "members"),
    [
        pytest.param("loss = criterion(model, x)", "return net.module.head(x)", True, id="of an object"),
        pytest.param("loss = criterion(model, x)", "return net.head(x)", False, id="without its wrapper"),
        pytest.param("loss = criterion(model, x)", "return self.module.head(x)", False, id="another's"),
    ],
)
def test_module_used_by_an_object_that_gets_the_model_counts_as_member(call: str, body: str, members: bool) -> None:
    loss = f"class Loss(Module):\n    def forward(self, net, x):\n        {body}\n\ncriterion = Loss()\n"
    text = script(before=loss).replace("for x, y in loader:\n", f"for x, y in loader:\n        {call}\n")
    assert call in text
    assert survey_of(text).wrappers[0].members is members


@pytest.mark.parametrize("start", ["trainer = Trainer()\n    trainer.train()", "Trainer().train()"])
def test_module_used_by_what_is_called_before_the_training_counts_as_member(start: str) -> None:
    """Such as a trainer's constructor, where the loop is in the class that it extends, also in one statement."""
    text = f"""
    {DDP.strip()}
    class Base:
        def train(self):
            for epoch in range(3):
                for x in loader:
                    self.model(x).backward()

    class Trainer(Base):
        def __init__(self):
            self.model = Net()
            self.model = DDP(self.model)
            self.groups = groups_of(self.model.module.bert)

    {start}
    """
    assert survey_of(code(text)).wrappers[0].members
    assert not survey_of(code(text.replace("self.model.module.bert", "self.model"))).wrappers[0].members


def test_module_used_before_the_loop_counts_as_member() -> None:
    assert survey_of(script(before="print(model.module)")).wrappers[0].members


@pytest.mark.parametrize(
    ("wrapper", "batch", "moves"),
    [
        pytest.param("DDP(model, device_ids=[rank])", "pass", True, id="nothing is moved by the script"),
        pytest.param("DDP(model, [rank])", "y = y.cuda()", True, id="the labels alone are"),
        pytest.param("DDP(model, device_ids=[rank])", "x, y = x.to(rank), y.to(rank)", False, id="moved by the script"),
        pytest.param("DDP(model, device_ids=[rank])", "x = prepare(x, device)", False, id="by a function"),
        pytest.param("DDP(model)", "pass", False, id="no device ids"),
        pytest.param("DDP(model, device_ids=None)", "pass", False, id="none"),
        pytest.param("DDP(model, [rank])", "plain = not isinstance(model, DDP)", False, id="it asks for the wrapper"),
        pytest.param("torch.nn.DataParallel(model)", "x = x.cuda()", True, id="DataParallel"),
    ],
)
def test_wrapper_that_moves_the_inputs(wrapper: str, batch: str, moves: bool) -> None:
    text = script().replace("DDP(model)", wrapper).replace("        loss = ", f"        {batch}\n        loss = ")
    assert survey_of(text).wrappers[0].moves_inputs is moves


@pytest.mark.parametrize(("method", "moves"), [("__getattr__", False), ("gather", True)])
def test_wrapper_that_passes_on_attributes_is_not_replaced(method: str, moves: bool) -> None:
    own = f"class Own(torch.nn.DataParallel):\n    def {method}(self, name):\n        pass\n\nmodel = Own(model)"
    (wrapper,) = survey_of(script().replace("model = DDP(model)", own)).wrappers
    assert wrapper.moves_inputs is moves


def test_two_wrappers_of_one_model_are_one_group() -> None:
    text = "import torch\nmodel = Net()\nif many:\n    model = torch.nn.parallel.DistributedDataParallel(model)\n"
    found = survey_of(text + "else:\n    model = torch.nn.DataParallel(model)\n")
    assert [len(group) for group in found.groups] == [2]
    assert found.kind == "ddp"


def test_two_models_are_two_groups() -> None:
    found = survey_of(DDP + "a = A()\nb = B()\na = DDP(a)\nb = DDP(b)\n")
    assert [[wrapper.target for wrapper in group] for group in found.groups] == [["a"], ["b"]]


def test_of_several_models_one_question_tells(tmp_path: Path) -> None:
    text = script(
        before="b = DDP(B())\nc = DDP(C())\nc(b(1)).backward()\n"
        "more = torch.optim.SGD([*b.parameters(), *c.parameters()], 1)",
        epoch="c(b(model)).backward()",
    )
    questions = [one for one in plan_of(tmp_path, text).questions if "is wrapped besides" in one.message]
    assert [one.message.partition(" Say")[0] for one in questions] == [
        "`b` is wrapped besides `model` (line 5), as is one more, and only one model can get dendrites."
    ]


def test_a_loss_that_is_wrapped_is_no_model() -> None:
    losses = "criterion = torch.nn.BCELoss() if many else mine\ncriterion = torch.nn.DataParallel(criterion)\n"
    found = survey_of(DDP + losses + "a = A()\na = DDP(a)\n")
    assert [wrapper.target for wrapper in found.wrappers] == ["a"]


TRAIN = """
    def train(net, optimizer):
        for x in loader:
            loss = net(x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""


def test_wrapped_model_that_never_trains_is_no_second_one() -> None:
    text = DDP + code(TRAIN) + "model = A()\nteacher = B()\nteacher = DDP(teacher)\nmodel = DDP(model)\n"
    found = survey_of(text + "for epoch in range(3):\n    train(model, sgd)\n    teacher(epoch)\n")
    assert [[wrapper.target for wrapper in group] for group in found.groups] == [["model"]]


def test_wrapped_models_that_train_are_two() -> None:
    text = DDP + code(TRAIN) + "a = A()\nb = B()\na = DDP(a)\nb = DDP(b)\n"
    found = survey_of(text + "for epoch in range(3):\n    train(a, sgd)\n    train(b, adam)\n")
    assert [[wrapper.target for wrapper in group] for group in found.groups] == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("started", "answers"),
    [
        pytest.param("parser.set_defaults(func={})", ["model", "other"], id="a command of its own"),
        pytest.param("{}()", ["model"], id="on the way"),
    ],
)
def test_a_model_of_another_command_is_asked_about(started: str, answers: list[str]) -> None:
    """Also where its training is not in sight: a start of that command would train without dendrites."""
    text = f"""
    {DDP.strip()}
    def first():
        model = DDP(A())
        for epoch in range(3):
            for x in loader:
                model(x).backward()

    def second():
        other = DDP(B())
        importlib.import_module(name).train(other)

    {started.format("first")}
    {started.format("second")}
    args.func(args)
    """
    assert [wrapper.target for group in survey_of(code(text)).groups for wrapper in group] == answers


@pytest.mark.parametrize(
    ("freeze", "targets"),
    [
        pytest.param("for p in teacher.parameters():\n    p.requires_grad = False", ["model"], id="in a loop"),
        pytest.param("teacher.requires_grad_(False)", ["model"], id="by its method"),
        pytest.param("pass", ["teacher", "model"], id="not frozen"),
        pytest.param("if late:\n    teacher.requires_grad_(False)", ["teacher", "model"], id="under a condition"),
        pytest.param(
            "teacher.requires_grad_(False)\nfor p, q in zip(teacher.parameters(), model.parameters()):\n    p.data = q",
            ["teacher", "model"],
            id="following the other one",
        ),
    ],
)
def test_frozen_teacher_is_no_second_model(freeze: str, targets: list[str]) -> None:
    text = f"{DDP}teacher = B()\nmodel = A()\nteacher = DDP(teacher)\nmodel = DDP(model)\n{freeze}\n"
    text += "for epoch in range(3):\n    for x in loader:\n        criterion(model(x), teacher(x)).backward()\n"
    found = survey_of(text)
    assert [wrapper.target for group in found.groups for wrapper in group] == targets
    assert [wrapper.target for wrapper in found.wrappers] == targets


OF_MODEL = "SGD(model.parameters(), 0.1)"


@pytest.mark.parametrize(
    ("built", "optimizer", "targets"),
    [
        pytest.param("", OF_MODEL, ["model"], id="of one"),
        pytest.param(
            "", "kinds[args.kind]([p for p in model.parameters() if p.requires_grad])", ["model"], id="chosen"
        ),
        pytest.param("", "timm.optim.create_optimizer(args, model)", ["model"], id="by a library"),
        pytest.param("teacher, model = load(teacher), load(model)", "make(model)", ["model"], id="through functions"),
        pytest.param(
            "nets = {'a': teacher, 'b': model}\nteacher, model = nets['a'], nets['b']",
            "SGD(model.parameters(), 0.1)",
            ["model"],
            id="out of a dict",
        ),
        pytest.param("", "SGD([*model.parameters(), *teacher.parameters()], 0.1)", ["teacher", "model"], id="of both"),
        pytest.param(
            "",
            "SGD(model.parameters(), 0.1)\noptimizer.add_param_group({'params': teacher.parameters()})",
            ["teacher", "model"],
            id="of a further group",
        ),
        pytest.param(
            "",
            "SGD(model.parameters(), 0.1)\nsecond = make(teacher)\nsecond.zero_grad()\nsecond.step()",
            ["teacher", "model"],
            id="of each its own",
        ),
        pytest.param("", "SGD(collect(), 0.1)", ["teacher", "model"], id="of what is not seen"),
        pytest.param(
            "", f"{OF_MODEL}\nprint(len(list(teacher.parameters())), copy.copy(teacher))", ["model"], id="and counted"
        ),
        pytest.param("", f"{OF_MODEL}\nmetric = load(torch.nn.Sequential(teacher))", ["model"], id="and loaded"),
        pytest.param("", f"{OF_MODEL}\nzoo.Manager().attach(teacher)", ["teacher", "model"], id="and given away"),
        pytest.param("", f"{OF_MODEL}\nzoo.Engine(net=teacher)", ["teacher", "model"], id="and given to a class"),
        pytest.param("", f"{OF_MODEL}\nzoo.fuse(SGD, teacher.parameters())", ["teacher", "model"], id="in parts"),
        pytest.param(
            "",
            f"{OF_MODEL}\nfor p in teacher.parameters():\n    p -= 0.1 * p.grad",
            ["teacher", "model"],
            id="and learning by hand",
        ),
        pytest.param(
            "",
            f"{OF_MODEL}\nfor p in model.parameters():\n    print(p.grad)",
            ["model"],
            id="with gradients that are read",
        ),
        pytest.param(
            "",
            f"{OF_MODEL}\nfor p in teacher.parameters():\n    optimizer.param_groups[0]['params'].append(p)",
            ["teacher", "model"],
            id="of a group that grows",
        ),
        pytest.param(
            "model = C(teacher)", "SGD(model.parameters(), 0.1)", ["teacher", "model"], id="of one in the other"
        ),
        pytest.param("teacher = C(model)", "SGD(model.parameters(), 0.1)", ["teacher", "model"], id="of what it holds"),
    ],
)
def test_a_model_whose_parameters_no_optimizer_has_is_no_second_one(
    built: str, optimizer: str, targets: list[str]
) -> None:
    text = "import copy\nimport timm\nimport torch\nimport zoo\nfrom torch.optim import SGD, Adam\n"
    text += f"{DDP}kinds = {{'sgd': SGD, 'adam': Adam}}\n"
    text += "def load(net):\n    net.load_state_dict(torch.load('a.pt'))\n    return net\n\n"
    text += "def make(net):\n    return SGD(net.parameters(), 0.1)\n\nteacher = B()\nmodel = A()\n"
    text += f"{built}\nteacher = DDP(teacher)\nmodel = DDP(model)\noptimizer = {optimizer}\n"
    found = survey_of(text + LOOP.replace("model(x)", "loss_of(model(x), teacher(x))"))
    assert [wrapper.target for group in found.groups for wrapper in group] == targets


def test_model_choice_leaves_one_group() -> None:
    found = survey_of(DDP + "a = A()\nb = B()\na = DDP(a)\nb = DDP(b)\n", model="b")
    assert [wrapper.target for wrapper in found.wrappers] == ["b"]


RUNS = """
    import torch
    from torch.nn import DataParallel

    def build():
        teacher = DataParallel(Teacher())
        return teacher.eval()

    def pretrain():
        model = DataParallel(Net())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(10):
            train_masked(model, optimizer)

    def train_masked(model, optimizer):
        for x in loader:
            model(x).backward()
            optimizer.step()

    class Runner:
        def train(self):
            self.model = DataParallel(Net())
            optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
            teacher = build()
            for epoch in range(20):
                for x, y in loader:
                    criterion(self.model(x), teacher(x)).backward()
                    optimizer.step()

        def finetune(self):
            model = DataParallel(Net())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for epoch in range(30):
                for x, y in loader:
                    model(x).backward()
                    optimizer.step()
    if args.kind == "pretrain":
        pretrain()
    elif args.kind == "train":
        Runner().train()
    else:
        Runner().finetune()
"""


@pytest.mark.parametrize(
    ("model", "targets", "loops"),
    [
        pytest.param("pretrain.model", ["model"], [11], id="of a function"),
        pytest.param("Runner.model", ["model"], [32], id="of a class"),
        pytest.param("train.py:pretrain.model", ["model"], [11], id="of a function of a file"),
        pytest.param("self.model", ["self.model"], [24], id="by its own name"),
        pytest.param("model", ["model", "model"], [11, 32], id="of two"),
    ],
)
def test_model_choice_leaves_out_the_functions_that_train_others(
    model: str, targets: list[str], loops: list[int]
) -> None:
    found = survey_of(RUNS, model=model)
    assert [wrapper.target for wrapper in found.wrappers] == targets
    assert [loop.line for loop in found.loops] == loops
    assert {backward.line for backward in found.backwards} == {line + 2 if line > 11 else 16 for line in loops}


def test_models_of_one_name_are_told_apart() -> None:
    assert survey_of(RUNS).answers == ["pretrain.model", "self.model", "Runner.model"]


def test_models_that_get_their_names_by_one_statement_are_not_told_apart() -> None:
    """The code that builds them is no answer that `--model` takes."""
    text = DDP + "a, b = DDP(A(3)), DDP(B(4))\nfor e in range(3):\n    a(b(x)).backward()\n"
    survey = survey_of(text)
    assert (len(survey.groups), survey.answers) == (2, [])


def test_models_of_one_name_in_one_function_are_not_told_apart() -> None:
    text = DDP + "a = DDP(A())\nb = a\na = DDP(B())\nfor e in range(3):\n    a(b(x)).backward()\n"
    assert survey_of(text).answers == []


def test_model_choice_keeps_the_class_that_trains_it() -> None:
    text = """
    from torch.nn import DataParallel

    class Trainer:
        def __init__(self, net):
            self.net, self.critic = net, DataParallel(Critic())

        def train(self):
            for epoch in range(10):
                for x in loader:
                    self.critic(self.net(x)).backward()

    net = DataParallel(Net())
    Trainer(net).train()
    """
    found = survey_of(text, model="net")
    assert [wrapper.target for wrapper in found.wrappers] == ["net"]
    assert len(found.loops) == 1


# Where values come from, and models


def models_of(text: str) -> list[tuple[str, int, str]]:
    return [(model.target, model.line, model.moved) for model in survey_of(text).models]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("model = Net()\nmodel = DDP(model)\n", ("model", 2, ""), id="plain"),
        pytest.param(
            "model = Net().to(device)\nmodel = DDP(model)\n", ("model", 2, ".to(device)"), id="built and moved"
        ),
        pytest.param("model = Net()\nmodel = model.cuda()\nmodel = DDP(model)\n", ("model", 2, ""), id="moved later"),
        pytest.param(
            "if a:\n    model = A()\nelse:\n    model = B()\nmodel = DDP(model)\n",
            ("model", 2, ""),
            id="if and else meet",
        ),
        pytest.param(
            "model = A()\nif a:\n    model = B()\nmodel = DDP(model)\n",
            ("model", 3, ""),
            id="the last of two in one block",
        ),
        pytest.param("model = A() if a else B()\nmodel = DDP(model)\n", ("model", 2, ""), id="conditional expression"),
        pytest.param("net = Net()\nddp = DDP(net)\n", ("net", 2, ""), id="other target"),
        pytest.param(
            "def wrap(m):\n    m = DDP(m)\n    return m\nmodel = Net()\nmodel = wrap(model)\n",
            ("model", 5, ""),
            id="helper that wraps",
        ),
        pytest.param(
            "def wrap(m):\n    return DDP(m)\nmodel = Net()\nwrapped = wrap(model)\n",
            ("model", 4, ""),
            id="helper, other target",
        ),
        pytest.param(
            "def make():\n    return Net()\nmodel = make()\nmodel = DDP(model)\n",
            ("model", 4, ""),
            id="made by a function",
        ),
        pytest.param(
            "def main(net):\n    net = DDP(net)\nnet = Net()\nmain(net)\n", ("net", 4, ""), id="through a parameter"
        ),
        pytest.param(
            "def main(*, net):\n    net = DDP(net)\nx = Net()\nmain(net=x)\n", ("x", 4, ""), id="through a keyword"
        ),
        pytest.param(
            "def make():\n    return Net(), 1\nmodel, n = make()\nmodel = DDP(model)\n",
            ("model", 4, ""),
            id="from a tuple",
        ),
        pytest.param(
            "import torch.multiprocessing as mp\ndef work(rank, net):\n"
            "    net = DDP(net)\nmodel = Net()\nmp.spawn(work, args=(model,))\n",
            ("model", 5, ""),
            id="through mp.spawn",
        ),
        pytest.param("model = DDP(Net())\n", ("model", 2, ""), id="inside the wrapper"),
        pytest.param(
            "import torch\nmodel = Net()\n"
            "model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)\nmodel = DDP(model)\n",
            ("model", 3, ""),
            id="through SyncBatchNorm",
        ),
        pytest.param(
            "import torch\nmodel = Net()\nmodel = DDP(torch.compile(model))\n", ("model", 3, ""), id="through compile"
        ),
        pytest.param(
            "class T:\n    def __init__(self):\n        self.net = Net()\n        self.net = DDP(self.net)\n",
            ("self.net", 4, ""),
            id="attribute of self",
        ),
    ],
)
def test_model_is_found_where_it_is_built(text: str, expected: tuple[str, int, str]) -> None:
    assert models_of(DDP + text) == [expected]


def test_model_built_in_a_call_is_not_named_outside_the_called_function() -> None:
    text = DDP + "def main(net):\n    net = DDP(net)\nmain(Net())\n"
    for model in survey_of(text).models:
        assert (model.target, model.line) != ("net", 4)


def test_model_built_with_its_optimizer_is_there_before_the_optimizer() -> None:
    text = DDP + code("""
        import torch
        def build():
            net = Net()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            return net, optimizer
        model, optimizer = build()
        model = DDP(model)
    """)
    found = survey_of(text + LOOP)
    assert [model.line for model in found.models] == [4]


def test_split_between_building_and_moving() -> None:
    (model,) = survey_of(DDP + "model = Net(args, depth=3).cuda(0).half()\nmodel = DDP(model)\n").models
    assert (model.built, model.moved, model.side) == ("Net(args, depth=3)", ".cuda(0).half()", "after")


def test_model_built_in_wrapper_has_its_place_before() -> None:
    (model,) = survey_of(DDP + "model = DDP(Net(3).cuda())\n").models
    assert (model.built, model.moved, model.side) == ("Net(3)", ".cuda()", "before")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("def wrap(m):\n    m = DDP(m)\n    return m\n", id="parameter of a function that nothing calls"),
        pytest.param("from mine import m\nm = DDP(m)\n", id="imported"),
        pytest.param("from mine import *\nm = DDP(m)\n", id="imported by star"),
        pytest.param("from mine import a, b\nm = a.net\nm = b.net\nm = DDP(m)\n", id="taken out twice"),
    ],
)
def test_model_that_is_built_elsewhere_is_not_found(text: str) -> None:
    assert survey_of(DDP + text).models == []


def test_model_that_is_taken_out_of_an_object_made_elsewhere_is_there_then() -> None:
    text = "import mine\nwhole = mine.load()\nnet = whole.net\nnet.load_state_dict(state)\nmodel = DDP(net)\n"
    (model,) = survey_of(DDP + text).models
    assert (model.target, model.code, model.side) == ("net", "net.load_state_dict(state)", "after")


@pytest.mark.parametrize(
    ("made", "moved", "found"),
    [
        pytest.param("mine.Whole('x').net", "net = net.to(rank)", ["net"], id="moved to a device"),
        pytest.param("mine.Whole('x').net", "net = net.cuda().train()", ["net"], id="moved twice"),
        pytest.param("mine.Whole('x').net", "net = other.net", [], id="taken out of another"),
    ],
)
def test_model_that_is_taken_out_of_an_object_may_be_moved_then(made: str, moved: str, found: list[str]) -> None:
    text = f"import mine\nnet = {made}\n{moved}\nmodel = DDP(net)\n"
    assert [model.target for model in survey_of(DDP + text).models] == found


@pytest.mark.parametrize(
    ("built", "found"),
    [
        pytest.param("net = Net()\nif small:\n    cut = prune(net)\n    net = cut.cpu()\n", "net", id="in one branch"),
        pytest.param("if small:\n    cut = Net(2)\n    net = cut\nelse:\n    net = Net()\n", "net", id="in one of two"),
        pytest.param("if small:\n    net = Net(2)\nelse:\n    net = other = Net()\n", "net", id="in all branches"),
        pytest.param("if small:\n    cut = Net(2)\nelse:\n    cut = Net()\nnet = cut\n", "cut", id="later"),
    ],
)
def test_model_of_branches_goes_by_the_name_that_is_wrapped(built: str, found: str) -> None:
    text = f"import copy\n\ndef prune(net):\n    return copy.deepcopy(net)\n\n{built}model = DDP(net)\n"
    (model,) = survey_of(DDP + text).models
    assert model.target == found


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        pytest.param("model.fc = nn.Linear(8, 2)", 3, id="head replaced"),
        pytest.param("model.layers[-1] = nn.Linear(8, 2)", 3, id="layer replaced"),
        pytest.param("model.load_state_dict(torch.load(args.weights))", 3, id="weights"),
        pytest.param(
            "checkpoint = torch.load(path)\nmodel.load_state_dict(checkpoint)", 4, id="weights in a checkpoint"
        ),
        pytest.param(
            "if args.pretrained:\n    checkpoint = torch.load(args.pretrained)\n"
            "    model.load_state_dict(checkpoint['model'])",
            3,
            id="weights under a condition",
        ),
        pytest.param("for p in model.parameters():\n    p.requires_grad = False", 3, id="frozen"),
        pytest.param("model.apply(init_weights)", 3, id="initialised"),
        pytest.param("load_pretrained(args.weights, model)", 3, id="weights loaded by a function"),
        pytest.param(
            "if args.weights:\n    tools.load_weights(model)", 3, id="weights loaded by one under a condition"
        ),
        pytest.param("if args.resume:\n    load_checkpoint(model)", 2, id="resumed by a function"),
        pytest.param("model.head.apply(init_weights)", 3, id="a part initialised"),
        pytest.param("model.blocks[-1].apply(init_weights)", 3, id="a layer of a part initialised"),
        pytest.param(
            "for m in model.modules():\n    if isinstance(m, nn.Conv2d):\n        m.weight.data.normal_(0, 0.1)",
            3,
            id="layers initialised one by one",
        ),
        pytest.param(
            "for p in model.head.parameters():\n    nn.init.zeros_(p)", 3, id="parameters of a part initialised"
        ),
        pytest.param("for p in model.parameters():\n    count += p.numel()", 2, id="parameters only counted"),
        pytest.param("load_data(model.name)", 2, id="a function that loads something else"),
        pytest.param("print(model)", 2, id="only shown"),
        pytest.param("model_fc = nn.Linear(8, 2)", 2, id="another name"),
        pytest.param("if model.fc == 3:\n    pass", 2, id="only compared"),
        pytest.param(
            "if args.resume:\n    checkpoint = torch.load(args.resume)\n    model.load_state_dict(checkpoint['model'])",
            2,
            id="resumed",
        ),
        pytest.param(
            "if exists(last):\n    checkpoint = torch.load(last)\n    model.load_state_dict(checkpoint['model'])\n"
            "    start_epoch = checkpoint['epoch']",
            2,
            id="resumed with its epoch",
        ),
    ],
)
def test_model_is_there_after_its_last_change(statement: str, line: int) -> None:
    assert models_of(f"{DDP}model = Net()\n{statement}\nmodel = DDP(model)\n") == [("model", line, "")]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        pytest.param("for name, p in net.named_parameters():\n        p.requires_grad = False", 5, id="freezes"),
        pytest.param("net.head.apply(init)", 5, id="initialises"),
        pytest.param("print(sum(p.numel() for p in net.parameters()))", 4, id="only shows"),
    ],
)
def test_model_is_there_after_a_function_that_changes_it(body: str, line: int) -> None:
    text = f"{DDP}def prepare(net):\n    {body}\n"
    shift = body.count("\n")
    text += "model = Net()\nprepare(model)\nmodel = DDP(model)\n"
    assert models_of(text) == [("model", line + shift, "")]


_LOADING = """
def load(model, path, optimizer=None):
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    epoch = EPOCH
    if optimizer is not None:
        optimizer.load_state_dict(saved["optimizer"])
    return saved, epoch
"""


@pytest.mark.parametrize(
    ("call", "epoch", "last"),
    [
        pytest.param("load(model, args.load)", "0", "model.fc = nn.Linear(8, 2)", id="its weights alone"),
        pytest.param("load(model, args.load)", "saved['epoch']", "model = Net()", id="the epoch of the checkpoint"),
        pytest.param("load(model, args.load, optimizer)", "0", "model = Net()", id="its optimizer as well"),
    ],
)
def test_a_checkpoint_of_which_a_call_takes_the_weights_alone_is_none_to_resume_from(
    call: str, epoch: str, last: str
) -> None:
    text = _LOADING.replace("EPOCH", epoch)
    text += f"model = Net()\nif args.load:\n    {call}\n    model.fc = nn.Linear(8, 2)\nmodel = DDP(model)\n"
    (model,) = survey_of(DDP + text).models
    assert model.code.strip().splitlines()[-1].strip() == last


TRY = f"""
{DDP}
def train(model):
    model = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{indent(LOOP, "    ")}
model = Net()
try:
    train(model)
except RuntimeError:
    model.use_checkpointing()
    train(model)
"""


@pytest.mark.parametrize(
    ("change", "last"),
    [
        pytest.param("model[0].weight.data.copy_(w)", True, id="values of an item"),
        pytest.param("model.emb.load_glove(w)", True, id="method of a part"),
        pytest.param("model.emb.table[0].weight.copy_(w)", True, id="values of a part"),
        pytest.param("model.emb.cuda()", False, id="a part moves"),
        pytest.param("models[0].load(w)", False, id="another name"),
    ],
)
def test_change_of_a_part_is_of_the_building(change: str, last: bool) -> None:
    (model,) = survey_of(script().replace("model = Net()", f"model = Net().cuda()\n{change}")).models
    assert model.code.strip() == (change if last else "model = Net().cuda()")


def test_call_that_trains_is_no_change_of_the_model() -> None:
    (model,) = survey_of(TRY).models
    assert model.code.strip() == "model = Net()"


def test_model_loaded_after_training_has_no_part_in_its_building() -> None:
    text = script(after="model = torch.load('best.pt')\nprint(evaluate(model))")
    found = survey_of(text)
    assert [model.code.strip() for model in found.models] == ["model = Net()"]
    assert found.disorder == ""


def test_change_of_the_wrapped_model_does_not_move_its_place() -> None:
    assert models_of(DDP + "model = Net()\nmodel = DDP(model)\nmodel.fc = nn.Linear(8, 2)\n") == [("model", 2, "")]


# Checkpoints to resume from


def trainer(load: str, begin: str = "", base: str = "") -> str:
    """Return a script whose trainer resumes before its epoch loop, by a method where it does so under a condition."""
    called, load = ("self.resume()", load) if load.startswith(("if ", "self.model")) else (load, "pass")
    text = f"class Trainer{base}:\n    def __init__(self, model, optimizer, args):\n        self.model = model\n"
    text += f"        self.optimizer = optimizer\n        self.args = args\n{indent(begin, ' ' * 8)}\n"
    text += f"    def resume(self):\n{indent(load, ' ' * 8)}\n\n    def fit(self):\n        {called}\n"
    text += "        for epoch in range(self.start_epoch, 9):\n            for x in loader:\n"
    text += "                self.model(x).backward()\n            self.epochs_done = epoch\n\n"
    text += "model = Net()\noptimizer = torch.optim.SGD(model.parameters(), 0.1)\nmodel = DDP(model)\n"
    return DDP + text + "trainer = Trainer(model, optimizer, args)\ntrainer.fit()\n"


# Optimizers


def with_optimizer(*statements: str, epoch: str = "pass") -> str:
    lines = "\n".join(code(statement).rstrip() for statement in statements)
    return script(epoch).replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", lines)


@pytest.mark.parametrize(
    ("call", "bound"),
    [
        pytest.param(
            "torch.optim.SGD(model.parameters(), 0.1, 0.9)",
            [("params", "model.parameters()"), ("lr", "0.1"), ("momentum", "0.9")],
            id="by position",
        ),
        pytest.param(
            "torch.optim.AdamW(lr=lr, params=model.parameters())",
            [("lr", "lr"), ("params", "model.parameters()")],
            id="by keyword in the script's order",
        ),
        pytest.param(
            "torch.optim.Adam(model.parameters(), 1e-3, (0.9, 0.98), eps=1e-9)",
            [("params", "model.parameters()"), ("lr", "1e-3"), ("betas", "(0.9, 0.98)"), ("eps", "1e-9")],
            id="mixed",
        ),
        pytest.param(
            "torch.optim.SGD(model.parameters(), **settings)",
            [("params", "model.parameters()"), ("**", "settings")],
            id="unpacked mapping",
        ),
    ],
)
def test_optimizer_arguments_are_bound_to_their_names(call: str, bound: list[tuple[str, str]]) -> None:
    optimizer = only_optimizer(with_optimizer(f"optimizer = {call}"))
    assert optimizer.bound == bound
    assert optimizer.plain


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", id="parameters"),
        pytest.param("optimizer = torch.optim.SGD(filter(keep, model.parameters()), lr=0.1)", id="filter"),
        pytest.param("optimizer = torch.optim.SGD([p for p in model.parameters()], lr=0.1)", id="comprehension"),
        pytest.param("optimizer = torch.optim.SGD([{'params': model.a.parameters()}], lr=0.1)", id="groups in place"),
        pytest.param("from torch import optim\noptimizer = optim.RMSprop(model.parameters())", id="optim module"),
        pytest.param("from torch.optim import AdamW as A\noptimizer = A(model.parameters())", id="alias"),
        pytest.param(
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nrate = optimizer.param_groups[0]['lr']",
            id="rate only read",
        ),
        pytest.param(
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nlogs['lr'] = 3", id="another mapping's lr set"
        ),
    ],
)
def test_plain_optimizer_can_be_handed_over(statements: str) -> None:
    assert only_optimizer(with_optimizer(statements)).keeps == ""


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        pytest.param(
            "optimizer = torch.optim.SGD(groups(model), lr=0.1)",
            "parameters come from groups(model)",
            id="helper for groups",
        ),
        pytest.param(
            "params = make(model)\noptimizer = torch.optim.SGD(params, lr=0.1)",
            "parameters come from params",
            id="list made before",
        ),
        pytest.param(
            "optimizer = torch.optim.SGD([p for n, p in model.named_parameters()], lr=0.1)",
            "parameters come from",
            id="named_parameters",
        ),
        pytest.param(
            "from lion import Lion\noptimizer = Lion(model.parameters())",
            "Lion is no optimizer class",
            id="custom class",
        ),
        pytest.param("optimizer = make_optimizer(model)", "make_optimizer is no optimizer class", id="factory"),
        pytest.param(
            "from transformers import AdamW\noptimizer = AdamW(model.parameters())",
            "AdamW is no optimizer class",
            id="another library's AdamW",
        ),
        pytest.param("optimizer = torch.optim.LBFGS(model.parameters())", "LBFGS is no optimizer class", id="LBFGS"),
        pytest.param(
            "if a:\n    optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
            "else:\n    optimizer = torch.optim.Adam(model.parameters())",
            "built in 2 places",
            id="several places",
        ),
        pytest.param(
            "optimizer = torch.optim.SGD(model.parameters(), 0.1)\nfor g in optimizer.param_groups:\n    g['lr'] = 1",
            "sets the learning rate by hand",
            id="rate set by hand",
        ),
        pytest.param(
            "optimizer = torch.optim.SGD(model.parameters(), 0.1)\noptimizer.param_groups[0]['lr'] *= 0.1",
            "sets the learning rate by hand",
            id="rate changed by hand",
        ),
        pytest.param("optimizer = torch.optim.SGD(*things)", "cannot be bound", id="unpacked arguments"),
        pytest.param(
            "optimizer = torch.optim.SGD(list(params), lr=0.1)", "parameters come from", id="list of a list made before"
        ),
    ],
)
def test_reason_to_keep_the_optimizer(statements: str, reason: str) -> None:
    assert reason in only_optimizer(with_optimizer(statements)).keeps


def test_optimizer_that_the_epoch_loop_makes_over_is_told() -> None:
    assert survey_of(script("optimizer = tuned(optimizer)")).late_optimizer is not None
    assert survey_of(script("optimizer.param_groups[0]['lr'] /= 10")).late_optimizer is None


def test_all_classes_that_an_optimizer_may_have_are_named_the_scripts_own_too() -> None:
    own = "class Own(torch.optim.Optimizer):\n    def __init__(self, params):\n        super().__init__(params, {})\n\n"
    chosen = "if args.own:\n    optimizer = torch.optim.Adam(model.parameters())\nelse:\n    "
    text = own.join(["import torch\n", with_optimizer(f"{chosen}optimizer = Own(model.parameters())")])
    assert only_optimizer(text).name == "torch.optim.Adam or Own"


def test_optimizer_that_comes_back_from_a_change_is_no_other_one() -> None:
    text = script(
        "optimizer = set_rate(optimizer, 0.1 / (epoch + 1))", before="optimizer = tools.adjust_rate(optimizer, 1)"
    )
    assert only_optimizer(text).name == "torch.optim.SGD"


def test_optimizer_stepped_by_a_scaler_is_found() -> None:
    text = script().replace("torch.optim.SGD(", "build(").replace("optimizer.step()", "scaler.step(optimizer)")
    assert only_optimizer(text.replace("loss.backward()", "scaler.scale(loss).backward()")).name == "build"


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("env = Env()\nenv.step(1)", id="stepped, never zeroed"),
        pytest.param("cache = Cache()\ncache.zero_grad()", id="zeroed, never stepped"),
        pytest.param("scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)\nscheduler.step()", id="scheduler"),
        pytest.param("kind = torch.optim.Adam", id="class not called"),
        pytest.param("model.zero_grad()", id="model zeroed"),
        pytest.param("average = torch.optim.swa_utils.AveragedModel(model)", id="average of weights"),
    ],
)
def test_nothing_else_is_an_optimizer(statement: str) -> None:
    assert [o.target for o in survey_of(script(before=statement)).optimizers] == ["optimizer"]


def test_branches_that_build_one_optimizer_belong_together() -> None:
    statements = """
        if args.sgd:
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        else:
            optimizer = torch.optim.Adam(groups)
    """
    optimizer = only_optimizer(with_optimizer(statements))
    assert (optimizer.name, optimizer.keeps) == ("torch.optim.SGD or torch.optim.Adam", "it is built in 2 places")
    assert optimizer.index.source.code(optimizer.anchors["made"]).startswith("if args.sgd:")


def test_other_models_optimizer_is_left_out() -> None:
    extra = "helper = Helper()\nextra = torch.optim.Adam(helper.parameters())"
    assert [o.target for o in survey_of(script(before=extra)).optimizers] == ["optimizer"]


@pytest.mark.parametrize(
    "collected",
    [
        "[p for p in other.parameters() if p.requires_grad]",
        "list(filter(lambda p: p.requires_grad, other.parameters()))",
        "[{'params': [p for n, p in other.named_parameters() if 'bias' in n], 'lr': 0.1}]",
        "list(other.encoder.parameters()) + list(other.head.parameters())",
        "itertools.chain(other.parameters(), third.parameters())",
    ],
)
@pytest.mark.parametrize("by_name", [True, False])
@pytest.mark.parametrize("given", ["", "args.model.width"])
def test_other_models_optimizer_is_left_out_however_its_parameters_are_collected(
    collected: str, by_name: bool, given: str
) -> None:
    made = f"import itertools\nother = Other({given})\nthird = Third()\nmine = [p for p in model.parameters()]\n"
    made += f"its = {collected}\nextra = torch.optim.Adam({'its' if by_name else collected})\n"
    text = script(before=f"{made}extra.zero_grad()\nextra.step()")
    assert [o.target for o in survey_of(text.replace("SGD(model.parameters()", "SGD(mine")).optimizers] == ["optimizer"]


@pytest.mark.parametrize(
    ("collected", "its"),
    [
        ("its = []\nits += list(other.parameters())", "its"),
        ("its = []\nits.extend(other.parameters())\nits.extend(third.parameters())", "its"),
        ("its = []\nits.append({'params': other.parameters()})", "its"),
        ("its = []\nfor p in other.parameters():\n    its.append(p)", "its"),
        ("its = []\nfor name, p in other.named_parameters():\n    its += [p]", "its"),
        ("kept = {'its': [], 'mine': mine}\nkept['its'] += other.parameters()", "kept['its']"),
        ("kept = {'its': list(other.parameters()), 'mine': mine}", "kept['its']"),
        ("kept = {'its': [], 'mine': mine}\nkept['its'].extend(other.parameters())", "kept['its']"),
        ("held.its = []\nheld.its += other.parameters()", "held.its"),
    ],
)
def test_other_models_optimizer_is_left_out_where_its_parameters_are_added_to_a_list(collected: str, its: str) -> None:
    made = "other = Other()\nthird = Third()\nheld = Held()\nmine = [p for p in model.parameters()]\n"
    made += f"{collected}\nextra = torch.optim.Adam({its})\nextra.zero_grad()\nextra.step()"
    text = script(before=made).replace("SGD(model.parameters()", "SGD(mine")
    assert [o.target for o in survey_of(text).optimizers] == ["optimizer"]


@pytest.mark.parametrize(
    "added",
    [
        "its.append({'params': model.head.parameters()})",
        "its.extend(unknown)",
        "its += mine",
        "for p in model.parameters():\n    its.append(p)",
        "for p in parts:\n    its.append(p)",
        "with opened() as its:\n    pass",
    ],
)
def test_parameters_that_come_from_several_models_are_not_anothers(added: str) -> None:
    made = f"other = Other()\nmine = [p for p in model.parameters()]\nits = [p for p in other.parameters()]\n{added}\n"
    text = script(before=f"{made}extra = torch.optim.Adam(its)\nextra.zero_grad()\nextra.step()")
    found = survey_of(text.replace("SGD(model.parameters()", "SGD(mine")).optimizers
    assert [o.target for o in found] == ["optimizer", "extra"]


# Schedulers

VALUE = "v = validate(model)\n"
ACC = "acc = validate(model)\n"


def schedule(construction: str, epoch: str) -> Script:
    return survey_of(
        script(
            epoch,
            before=f"from torch.optim.lr_scheduler import *\nimport torch.optim.lr_scheduler as S\n{construction}",
        )
    )


def test_scheduler_stepped_each_epoch_goes_with_its_optimizer() -> None:
    found = schedule("sched = S.StepLR(optimizer, 30, gamma=0.5)", "sched.step()")
    assert found.optimizers[0].scheduler is found.schedulers[0]
    assert found.schedulers[0].bound == [("step_size", "30"), ("gamma", "0.5")]
    assert [(step.per, step.removed) for step in found.steps] == [("epoch", True)]


def test_plateau_scheduler_keeps_its_argument() -> None:
    found = schedule("sched = S.ReduceLROnPlateau(optimizer, 'max')", "acc = validate(model)\nsched.step(acc)")
    assert [(step.argument, step.removed) for step in found.steps] == [("acc", True)]


@pytest.mark.parametrize("mode", ["", ", 'max'", ", mode=direction"])
def test_plateau_scheduler_that_may_follow_the_score_goes_with_its_optimizer(mode: str) -> None:
    found = schedule(f"sched = S.ReduceLROnPlateau(optimizer{mode})", f"{ACC}sched.step(acc)\nbest = max(best, acc)")
    assert found.optimizers[0].keeps == ""


@pytest.mark.parametrize(
    ("construction", "epoch", "reason"),
    [
        pytest.param(
            "sched = S.StepLR(optimizer, 3)", "for y in z:\n    sched.step()", "stepped once a batch", id="per batch"
        ),
        pytest.param(
            "sched = S.StepLR(optimizer, 3)",
            "if epoch > 3:\n    sched.step()",
            "only under a condition",
            id="conditional",
        ),
        pytest.param(
            "sched = S.StepLR(optimizer, 3)\ndef end():\n    sched.step()",
            "end()",
            "not stepped in the epoch loop itself",
            id="in a function that the loop calls",
        ),
        pytest.param(
            "sched = S.StepLR(optimizer, 3)", "sched.step(epoch)", "stepped with an argument", id="with an argument"
        ),
        pytest.param("sched = S.StepLR(optimizer, 3)", "sched.step()\nsched.step()", "stepped in 2 places", id="twice"),
        pytest.param("sched = S.StepLR(optimizer, 3)", "pass", "never stepped", id="never"),
        pytest.param(
            "def build():\n    made = S.StepLR(optimizer, 3)\n    return 3, made\n\n_, sched = build()",
            "for y in z:\n    sched.step()",
            "stepped once a batch",
            id="of a function",
        ),
        pytest.param("sched = S.OneCycleLR(optimizer, 1)", "sched.step()", "cannot be handed over", id="OneCycleLR"),
        pytest.param("sched = S.StepLR(optimizer, *values)", "sched.step()", "cannot be bound", id="unpacked"),
        pytest.param(
            "a = S.StepLR(optimizer, 3)\nb = S.StepLR(optimizer, 3)", "a.step()\nb.step()", "has 2 schedulers", id="two"
        ),
        pytest.param(
            "if c:\n    sched = S.StepLR(optimizer, 3)",
            "sched.step()",
            "different blocks",
            id="built under a condition",
        ),
        pytest.param(
            "use(optimizer)\nsched = S.StepLR(optimizer, 3)",
            "sched.step()",
            "used before its scheduler",
            id="optimizer used between",
        ),
        pytest.param("sched = Warmup(optimizer)", "sched.step()", "Warmup is no scheduler class", id="own class"),
        pytest.param(
            "sched = S.StepLR(optimizer, 3)",
            f"sched.step()\nif epoch % 5:\n    continue\n{ACC}best = max(best, acc)",
            "there is a score only if not (epoch % 5)",
            id="a continue before the score",
        ),
        pytest.param(
            "sched = S.StepLR(optimizer, 3)",
            f"sched.step()\nif epoch % 5: continue\n{ACC}best = max(best, acc)",
            "there is a score only if not (epoch % 5)",
            id="a continue in one line",
        ),
        pytest.param(
            "sched = S.StepLR(optimizer, 3)",
            f"{ACC}best = max(best, acc)\nif epoch < 5:\n    continue\nsched.step()",
            "only under a condition",
            id="a continue before the step",
        ),
        pytest.param(
            "sched = S.ReduceLROnPlateau(optimizer, mode='min')",
            f"{ACC}sched.step(total_loss)\nbest = max(best, acc)",
            "its scheduler follows `total_loss` (line",
            id="of another value",
        ),
    ],
)
def test_reason_to_keep_the_scheduler(construction: str, epoch: str, reason: str) -> None:
    found = schedule(construction, epoch)
    assert reason in found.optimizers[0].keeps
    assert not any(step.removed for step in found.steps)


@pytest.mark.parametrize(
    "epoch",
    [
        pytest.param(f"{ACC}sched.step()\nif acc > best:\n    best = acc\n    continue", id="after both"),
        pytest.param(f"for a in b:\n    if a:\n        continue\nsched.step()\n{ACC}best = max(best, acc)", id="inner"),
        pytest.param(
            "sched.step()\nif not (epoch + 1) % 1:\n    acc = evaluate(model)\n    best = max(best, acc)", id="count"
        ),
    ],
)
def test_a_continue_that_passes_over_neither_step_nor_score_keeps_no_scheduler(epoch: str) -> None:
    assert schedule("sched = S.StepLR(optimizer, 3)", epoch).steps[0].removed


def test_nor_does_one_in_a_turn_that_does_not_train() -> None:
    text = script(f"sched.step()\n{ACC}best = max(best, acc)", "sched = torch.optim.lr_scheduler.StepLR(optimizer, 3)")
    skipping = "range(10):\n    if epoch < start:\n        continue\n"
    assert survey_of(text.replace("range(10):\n", skipping)).steps[0].removed


@pytest.mark.parametrize(
    ("other", "found"),
    [
        pytest.param("CenterLoss(9)", ["optimizer"], id="loss"),
        pytest.param("Both(model)", ["optimizer", "second"], id="made from the model"),
        pytest.param("model", ["optimizer", "second"], id="the model by another name"),
    ],
)
def test_optimizer_of_what_is_not_the_model_is_left_alone(other: str, found: list[str]) -> None:
    text = f"""
        import torch
        from torch.nn import DataParallel

        def make(net, other):
            groups = []
            for name, value in net.named_parameters():
                groups += [{{"params": [value]}}]
            optimizer = torch.optim.AdamW(groups)
            second = torch.optim.SGD(other.parameters(), lr=0.5)
            return optimizer, second

        model = Net()
        other = {other}
        optimizer, second = make(model, other)
        model = DataParallel(model)
        for epoch in range(9):
            for x in loader:
                optimizer.zero_grad()
                (model(x) + other(x)).backward()
                optimizer.step()
                second.step()
    """
    assert [optimizer.target for optimizer in survey_of(text).optimizers] == found


@pytest.mark.parametrize(
    ("made", "made_at"),
    [
        pytest.param("opt = SGD(model.parameters(), 0.1) if given is None else given", 5, id="by choice"),
        pytest.param("if given is None:\n        given = SGD(model.parameters(), 0.1)", 5, id="afterwards"),
    ],
)
@pytest.mark.parametrize("given", ["None", "SGD(model.parameters(), 0.2)", "optim"])
def test_optimizer_that_training_may_be_given_is_one(made: str, made_at: int, given: str) -> None:
    name = made.split(" = ")[0].split()[-1]
    resumed = "optim = None\nif resume:\n    optim = SGD(model.parameters(), 0.3)\n" if given == "optim" else ""
    text = f"""from torch.nn import DataParallel
from torch.optim import SGD

def train(model, given=None):
    {made}
    for epoch in range(9):
        for x in loader:
            {name}.zero_grad()
            model(x).backward()
            {name}.step()

model = DataParallel(Net())
{resumed}train(model, {given})
"""
    (optimizer,) = survey_of(text).optimizers
    assert optimizer.target == name
    assert optimizer.keeps
    assert optimizer.index.source.position(optimizer.anchors["made"])[0] == made_at


def test_own_class_named_like_a_scheduler_is_no_torch_class() -> None:
    found = survey_of(script("sched.step()", before="from mine import LinearLR\nsched = LinearLR(optimizer, 5, 100)"))
    assert not found.optimizers[0].plain


@pytest.mark.parametrize(
    "epoch",
    [
        pytest.param("env.step(1)", id="environment"),
        pytest.param("profiler.step()", id="profiler"),
        pytest.param("optimizer.step()", id="optimizer"),
        pytest.param("scaler.step(optimizer)", id="scaler"),
        pytest.param("sched.state_dict()", id="another method"),
        pytest.param("step()", id="function"),
    ],
)
def test_no_scheduler_step(epoch: str) -> None:
    assert schedule("sched = S.StepLR(optimizer, 3)\nenv = Env()\nprofiler = profile()", epoch).steps == []


# Backward passes


def backwards_of(text: str) -> list[str]:
    return [backward.code for backward in survey_of(text).backwards]


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("loss.backward()", id="loss"),
        pytest.param("scaler.scale(loss).backward()", id="scaled"),
        pytest.param("(loss / 4).backward()", id="divided"),
        pytest.param("loss.backward(retain_graph=True)", id="with an argument"),
        pytest.param("model(x).sum().backward()", id="of a call"),
        pytest.param("losses['total'].backward()", id="item"),
        pytest.param("self.loss.backward()", id="attribute of self"),
    ],
)
def test_backward_is_found(call: str) -> None:
    assert backwards_of(f"for epoch in range(3):\n    for x in y:\n        {call}\n") == [call]


def test_backward_pass_by_a_function_of_torch_is_found() -> None:
    text = "import torch\nfor x in y:\n    torch.autograd.backward([loss, aux_loss])\n"
    assert [backward.line for backward in survey_of(text).backwards] == [3]


def test_backward_in_a_function_called_by_the_loop_is_found() -> None:
    text = "def step(loss):\n    loss.backward()\nfor e in range(3):\n    for x in y:\n        step(x)\n"
    assert backwards_of(text) == ["loss.backward()"]


def test_backward_in_a_function_that_one_without_a_loop_calls_too_is_found() -> None:
    text = "def step(loss):\n    loss.backward()\n\ndef once(loss):\n    step(loss)\n\n"
    assert backwards_of(text) == []
    assert backwards_of(text + "for e in range(3):\n    for x in y:\n        step(x)\n") == ["loss.backward()"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("loss.backward()\n", id="outside a loop"),
        pytest.param("for x in y:\n    self.backward(x)\n", id="own method"),
        pytest.param("import torch\nfor x in y:\n    torch.autograd.backward(x)\n", id="torch.autograd.backward"),
        pytest.param("from torch import autograd\nfor x in y:\n    autograd.backward(x)\n", id="autograd.backward"),
        pytest.param(
            "import torch\nclass F(torch.autograd.Function):\n"
            "    @staticmethod\n    def backward(ctx, g):\n        return g\n",
            id="autograd.Function's definition",
        ),
        pytest.param("for x in y:\n    backward(x)\n", id="function"),
        pytest.param("for x in y:\n    f = loss.backward\n", id="not called"),
        pytest.param("for x in y:\n    loss.forward()\n", id="another method"),
        pytest.param("for x in y:\n    super().backward(x)\n", id="of the base class"),
        pytest.param("for x in y:\n    ctx.backward(x)\n", id="of a context"),
    ],
)
def test_no_backward(text: str) -> None:
    assert backwards_of(text) == []


TUNED = """
    import torch
    from torch import nn


    def adapt(first, x):
        p = MADE
        tuned = torch.optim.SGD(HELD, lr=0.1)
        for k in range(5):
            tuned.zero_grad()
            nn.functional.mse_loss(p @ x, x).backward()
            tuned.step()
        return p


    for epoch in range(9):
        for x in y:
            loss.backward()
            optimizer.step()
            adapt(model, x)
"""


@pytest.mark.parametrize(
    ("made", "held", "passes"),
    [
        ("nn.Parameter(first.detach(), requires_grad=True)", "[p]", 1),
        ("torch.zeros_like(x).requires_grad_()", "(p,)", 1),
        ("torch.zeros(3, requires_grad=True)", "[p]", 1),
        ("nn.Parameter(first)", "[p, first]", 2),
        ("nn.Linear(2, 2)", "p.parameters()", 2),
        ("first.weight", "[p]", 2),
    ],
)
def test_backward_pass_that_tunes_a_tensor_of_its_own(made: str, held: str, passes: int) -> None:
    assert len(backwards_of(code(TUNED).replace("MADE", made).replace("HELD", held))) == passes


ATTACK = """
    import copy
    import torch


    def attack(model, x):
        COPIED
        out = OTHER(x)
        for k in range(5):
            loss = criterion(out, -out.detach())
            loss.backward()
            TAKEN
            out = OTHER(x)
        return x


    for epoch in range(9):
        for x in y:
            loss.backward()
            optimizer.step()
            attack(model, x)
"""


@pytest.mark.parametrize(
    ("copied", "other", "taken", "passes"),
    [
        pytest.param("model = copy.deepcopy(model)", "model", "x = x + x.grad.sign()", 1, id="in its place"),
        pytest.param("other = copy.deepcopy(model)", "other", "x = x + x.grad.sign()", 1, id="by another name"),
        pytest.param("other = copy.deepcopy(model)", "model", "x = x + x.grad.sign()", 2, id="the model"),
        pytest.param("other = copy.deepcopy(model)", "other", "model.x = x", 2, id="beside the model"),
        pytest.param("model = copy.deepcopy(model)", "model", "inner.step()", 2, id="stepped"),
        pytest.param(
            "model = copy.deepcopy(model)", "model", "g = [p.grad for p in model.parameters()]", 2, id="taken"
        ),
        pytest.param("x = copy.deepcopy(x)", "model", "x = x + x.grad.sign()", 2, id="a copy of the batch"),
        pytest.param(
            "model = copy.deepcopy(model)", "model", "advance(inner)\n        if k > 3: return model", 2, id="returned"
        ),
        pytest.param(
            "kept = copy.deepcopy(y)\n    model = copy.deepcopy(model)",
            "model",
            "x = x + x.grad.sign()",
            1,
            id="two copies",
        ),
        pytest.param("other = Net()", "other", "x = x + x.grad.sign()", 2, id="no copy"),
    ],
)
def test_backward_pass_through_a_copy_that_its_function_makes(copied: str, other: str, taken: str, passes: int) -> None:
    text = code(ATTACK).replace("COPIED", copied).replace("OTHER", other).replace("TAKEN", taken)
    assert len(backwards_of(text)) == passes


GUIDED = """
    import torch


    def guided(model, z, steps=3):
        MADE
        for k in range(steps):
            criterion(model(z), wanted).backward()
            TAKEN
        return z


    for epoch in range(9):
        for x in y:
            TRAINED
            guided(model, x)
"""
NEW, BEHIND = "z = z.detach().requires_grad_(True)", "z = z - 0.1 * z.grad"


@pytest.mark.parametrize(
    ("made", "taken", "passes"),
    [
        pytest.param(NEW, BEHIND, 1, id="made"),
        pytest.param("z = torch.zeros(3, requires_grad=True)", "z = z - z.grad.sign()", 1, id="from nothing"),
        pytest.param("z.requires_grad_()", BEHIND, 1, id="given"),
        pytest.param("z.requires_grad = True", BEHIND, 1, id="told"),
        pytest.param("z = z.detach()", BEHIND, 2, id="none that learns"),
        pytest.param(NEW, f"{BEHIND}\n        inner.step()", 2, id="stepped"),
        pytest.param(NEW, "learned = [p.grad for p in model.parameters()]", 2, id="the model's gradients"),
        pytest.param(f"{NEW}\n    seen = z.grad", "pass", 2, id="read before it"),
        pytest.param("model.requires_grad_()", "model.bias.data -= model.bias.grad", 2, id="the model"),
        pytest.param(
            "for p in model.parameters():\n        p.requires_grad_()",
            "for p in model.parameters():\n            p.data -= p.grad",
            2,
            id="stepped by hand",
        ),
    ],
)
def test_backward_pass_for_the_gradient_of_a_tensor(made: str, taken: str, passes: int) -> None:
    text = code(GUIDED).replace("MADE", made).replace("TAKEN", taken)
    assert len(backwards_of(text.replace("TRAINED", "loss.backward()"))) == passes
    assert len(backwards_of(text.replace("TRAINED", "log(x)"))) == 1  # where nothing else trains


def test_a_backward_pass_that_the_caller_steps_by_is_of_the_training() -> None:
    """Also where its function tells how strong the gradient of its inputs is."""
    text = code(GUIDED).replace("MADE", NEW).replace("TAKEN", "print(z.grad.norm())")
    text = text.replace("    guided(model, x)", "    guided(model, x)\n        optimizer.step()")
    assert len(backwards_of(text.replace("TRAINED", "loss.backward()"))) == 2


def test_a_loop_that_samples_before_the_training_is_none_over_epochs() -> None:
    """Also where the training samples as well."""
    before = code(GUIDED).partition("for epoch")[0].replace("MADE", NEW).replace("TAKEN", BEHIND)
    before += "def tried(net):\n    for k in range(9):\n        guided(net, torch.randn(3))\n\ntried(None)\n"
    text = script("tried(model)\nacc = evaluate(model)\nbest = max(best, acc)", f"{before}best = 0\n")
    assert [one.target for one in survey_of(text).loops] == ["epoch"]


# Epoch loops


def loops_of(text: str) -> list[tuple[int, bool]]:
    return [(loop.line, loop.limited) for loop in survey_of(text).loops]


def looped(head: str, before: str = "") -> str:
    return f"{before}for epoch in {head}:\n    for x in y:\n        loss.backward()\n"


@pytest.mark.parametrize(
    ("head", "through"),
    [
        pytest.param("range(10)", "range(10)", id="range"),
        pytest.param("range(0, args.epochs)", "range(0, args.epochs)", id="from zero"),
        pytest.param("range(args.start_epoch, args.epochs)", "range(args.start_epoch, args.epochs)", id="from a start"),
        pytest.param("range(1, n + 1)", "range(1, n + 1)", id="from one"),
        pytest.param("range(0, n, 2)", "range(0, n, 2)", id="with a step"),
        pytest.param("range(n, 0, -1)", "range(n, 0, -1)", id="downwards"),
        pytest.param("tqdm(range(3, n))", "range(3, n)", id="tqdm"),
        pytest.param("tqdm.tqdm(range(n), desc='epochs')", "range(n)", id="tqdm.tqdm"),
        pytest.param("trange(2, n)", "trange(2, n)", id="trange"),
        pytest.param("np.arange(start, n)", "np.arange(start, n)", id="numpy"),
        pytest.param("list(range(2, n))", "list(range(2, n))", id="list"),
        pytest.param("tqdm(list(range(1, n)))", "list(range(1, n))", id="tqdm of a list"),
        pytest.param("track(range(1, n), description='epochs')", "range(1, n)", id="rich"),
        pytest.param("xrange(1, n)", "xrange(1, n)", id="six"),
    ],
)
def test_epoch_loop_that_counts(head: str, through: str) -> None:
    imports = "from tqdm import tqdm, trange; import numpy as np; from six.moves import xrange\n"
    (loop,) = survey_of(looped(head, imports)).loops
    assert (loop.line, loop.limited, loop.iterated) == (2, True, through)


@pytest.mark.parametrize(
    ("before", "head"),
    [
        pytest.param("bar = tqdm(range(n), desc='e')\n", "bar", id="bar with a name"),
        pytest.param("bar = trange(n, desc='e')\n", "bar", id="trange with a name"),
        pytest.param("epochs = range(n)\n", "epochs", id="name of a range, which others may use"),
    ],
)
def test_epoch_loop_through_a_name_keeps_it(before: str, head: str) -> None:
    (loop,) = survey_of(looped(head, f"from tqdm import tqdm, trange\n{before}")).loops
    assert loop.iterated == head


CHOSEN = "from tqdm import tqdm, trange\nfrom mine import numbers\n"
SHOWN = "def shown(items):\n    if quiet:\n        bar = items\n    else:\n        bar = tqdm(items)\n    return bar\n"


@pytest.mark.parametrize(
    ("before", "head"),
    [
        pytest.param("turns = range if quiet else trange\n", "turns(3, n)", id="a name for one of two"),
        pytest.param("", "(trange if loud else range)(3, n)", id="chosen at once"),
        pytest.param("if quiet:\n    turns = range\nelse:\n    turns = trange\n", "turns(3, n)", id="in branches"),
        pytest.param(f"{SHOWN}epochs = shown(list(range(3, n)))\n", "epochs", id="shown by an own function"),
        pytest.param(SHOWN, "shown(range(3, n))", id="shown by an own function at once"),
        pytest.param("def shown(r):\n    return tqdm(r, total=len(r))\n", "shown(range(3, n))", id="returned at once"),
        pytest.param("def same(r):\n    r = tqdm(r)\n    return r\n", "same(range(3, n))", id="by the same name"),
    ],
)
def test_epoch_loop_over_a_range_by_another_name(before: str, head: str) -> None:
    (loop,) = survey_of(looped(head, f"{CHOSEN}{before}")).loops
    assert loop.iterated == head


@pytest.mark.parametrize(
    ("before", "head"),
    [
        pytest.param("turns = range if quiet else numbers\n", "turns(3, n)", id="one of them unknown"),
        pytest.param("turns = numbers\n", "turns(3, n)", id="a name for something else"),
        pytest.param("def every(r):\n    return [i * 2 for i in r]\n", "every(range(3, n))", id="other numbers"),
        pytest.param("", "epochs", id="a list"),
    ],
)
def test_loop_over_anything_is_over_epochs_where_its_variable_says_so(before: str, head: str) -> None:
    text = looped(head, f"{CHOSEN}{before}")
    assert [loop.iterated for loop in survey_of(text).loops] == [head]
    assert survey_of(text.replace("epoch in", "part in")).loops == []


def test_epoch_loop_over_an_opened_bar() -> None:
    text = "from tqdm import tqdm\nwith tqdm(range(9)) as bar:\n" + indent(looped("bar"), "    ")
    (loop,) = survey_of(text).loops
    assert (loop.iterated, loop.limited) == ("bar", True)


@pytest.mark.parametrize(
    ("head", "through"),
    [
        pytest.param("epoch, seed in enumerate(seeds, start)", "seeds", id="seeds"),
        pytest.param("n_epoch, seed in enumerate(seeds[start:])", "seeds[start:]", id="a part of them"),
        pytest.param("epoch, n in enumerate(range(3, 9))", "range(3, 9)", id="range"),
        pytest.param("epoch, lr in enumerate(rates)", "rates", id="learning rates"),
        pytest.param("i, part in enumerate(parts)", None, id="parts"),
    ],
)
def test_numbered_epochs(head: str, through: str | None) -> None:
    loops = survey_of(looped("9").replace("epoch in 9", head)).loops
    assert [loop.iterated for loop in loops] == ([] if through is None else [through])


WHILE = (
    "while HEAD:\n    for x in y:\n        loss.backward()\n        step += 1\n    epoch += 1\n    self.best = acc\n"
)


@pytest.mark.parametrize("given", ["range(1, n)", "list(range(1, n))", "tqdm(list(range(1, n)))"])
def test_epoch_loop_over_a_range_that_has_a_name(given: str) -> None:
    text = looped("epochs", f"from tqdm import tqdm; epochs = {given}\n")
    assert loops_of(text.replace("epoch in", "i in")) == [(2, True)]


@pytest.mark.parametrize(
    ("head", "target", "limited"),
    [
        pytest.param("epoch < 3", "epoch", True, id="epochs"),
        pytest.param("epoch != n", "epoch", True, id="another number"),
        pytest.param("n >= epoch", "epoch", True, id="counter on the right"),
        pytest.param("epoch < self.cfg.epochs", "epoch", True, id="limit beside what changes"),
        pytest.param("epoch < n and not stop", "epoch", True, id="and a flag"),
        pytest.param("lr > 1e-6 and step < n", "step", True, id="and another limit"),
        pytest.param("True", "", False, id="for ever"),
        pytest.param("1", "", False, id="1"),
        pytest.param("(True)", "", False, id="in parentheses"),
    ],
)
def test_while_loop_with_a_counter_or_without_end(head: str, target: str, limited: bool) -> None:
    (loop,) = survey_of(WHILE.replace("HEAD", head)).loops
    assert (loop.target, loop.limited, bool(loop.ends), loop.by_iteration) == (target, limited, limited, False)


_OF_TABLE = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Scaler:
    def __init__(self):
        self.scaler = torch.cuda.amp.GradScaler()
    def __call__(self, loss, optimizer):
        self.scaler.scale(loss).backward()
        self.scaler.step(optimizer)

def forward(model, optimizer, scaler):
    for x, y in loader:
        optimizer.zero_grad()
        scaler(criterion(model(x), y), optimizer)

TABLE = {"plain": [None, forward], "other": (None, None)}

class Trainer:
    def __init__(self, name):
        self.model = DDP(Net())
        self.ready, self.turn = TABLE[name]
    def train(self):
        optimizer = create_optimizer(self.model.parameters())
        for e in range(9):
            self.turn(self.model, optimizer, Scaler())

Trainer(name).train()
"""


def test_a_function_may_be_taken_out_of_a_table_with_others() -> None:
    found = survey_of(_OF_TABLE)
    assert [loop.target for loop in found.loops] == ["e"]
    assert [optimizer.target for optimizer in found.optimizers] == ["optimizer"]
    assert survey_of(_OF_TABLE.replace("[None, forward]", "[forward, None]")).loops == []


@pytest.mark.parametrize("made", ["tqdm(range(9))", "trange(1, 9)"])
def test_a_progress_bar_is_what_a_with_statement_gives(made: str) -> None:
    text = f"""
    for number in numbers:
        with {made} as bar:
            for k in bar:
                for x, y in loader:
                    loss.backward()
    """
    assert [loop.target for loop in survey_of(code(text)).loops] == ["k"]
    opened = code(text).replace(made.partition("(")[0], "opened")
    assert [loop.target for loop in survey_of(opened).loops] != ["k"]


@pytest.mark.parametrize(
    ("gives", "target"),
    [
        pytest.param("return self._step", "runner._step", id="only gives it"),
        pytest.param("return self._step + self.start", "", id="makes another of it"),
    ],
)
def test_a_property_may_give_the_counter_of_a_while_loop(gives: str, target: str) -> None:
    text = f"""
    class Runner:
        def __init__(self):
            self._step = 0
        @property
        def step(self):
            {gives}
    runner = Runner()
    while runner.step < n:
        for x in y:
            loss.backward()
        runner._step += 1
    """
    assert [loop.target for loop in survey_of(code(text)).loops] == ([target] if target else [])


@pytest.mark.parametrize(
    ("increment", "counts"),
    [
        pytest.param("n += 1", True, id="every turn"),
        pytest.param("n = n + 1", True, id="written out"),
        pytest.param("if i % 4 == 0:\n    optimizer.step()\n    n += 1", True, id="every step of the optimizer"),
        pytest.param("n += 1\nif good:\n    n = 0", True, id="set back"),
        pytest.param("n -= 1", True, id="downwards"),
        pytest.param("n = n - 1", True, id="downwards, written out"),
        pytest.param("n = 0 if good else n + 1", True, id="set back by a choice"),
        pytest.param("n = 0 if good else m + 1", False, id="another one by a choice"),
        pytest.param("n = 9 - n", False, id="taken from something"),
        pytest.param("try:\n    save()\nexcept OSError:\n    n += 1", False, id="failures"),
        pytest.param("n = count()", False, id="from a function"),
    ],
)
def test_what_counts_turns(increment: str, counts: bool) -> None:
    found = survey_of("while n < 9:\n    for x in y:\n        loss.backward()\n" + indent(increment, "    ")).loops
    assert bool(found) is counts


@pytest.mark.parametrize(
    ("made", "counter", "counts"),
    [
        pytest.param("state = {'n': 0}", "state['n'] += 1", True, id="counted"),
        pytest.param("state = {'n': 0}", "more(state)", True, id="by a function"),
        pytest.param("state = dict(model=model, n=0)", "state['n'] += 1", True, id="of keywords"),
        pytest.param("state = dict(n=start)", "state['n'] += 1", False, id="of keywords, of what began before"),
        pytest.param("state = dict(known, m=0)", "state['n'] += 1", False, id="of another dictionary with keywords"),
        pytest.param("state = {'n': 0, 'm': 0}", "state['m'] += 1", False, id="another item"),
        pytest.param("state, held = {'n': 0}, {'n': 0}", "held['n'] += 1", False, id="of another dictionary"),
        pytest.param("state = torch.load(path)", "state['n'] += 1", False, id="of a file"),
        pytest.param("state = {'n': start}", "state['n'] += 1", False, id="of what began before"),
        pytest.param("state = {'n': 0}\nstate['n'] = start", "state['n'] += 1", False, id="set to what began before"),
        pytest.param("state = {'n': 0}\nstate.update(known)", "state['n'] += 1", False, id="updated by a file"),
    ],
)
def test_an_item_that_counts_turns(made: str, counter: str, counts: bool) -> None:
    text = "import torch\ndef more(held):\n    held['n'] += 1\n"
    text += f'{made}\nwhile state["n"] < 9:\n    for x in y:\n        loss.backward()\n    {counter}\n'
    assert [loop.target for loop in survey_of(text).loops] == ['state["n"]'] * counts


@pytest.mark.parametrize(
    ("call", "counts"),
    [
        pytest.param("n = train(n)", True, id="handed through"),
        pytest.param("n = train(n=n)", True, id="by keyword"),
        pytest.param("n = train(m)", False, id="from another variable"),
    ],
)
def test_counter_that_a_function_is_given_and_returns(call: str, counts: bool) -> None:
    text = "def train(n):\n    for x in y:\n        loss.backward()\n        n += 1\n    return n\n"
    found = survey_of(f"{text}while n < 9:\n    {call}\n").loops
    assert bool(found) is counts


@pytest.mark.parametrize(
    ("taken", "counts"),
    [
        pytest.param("total, n = train(n)", True, id="unpacked"),
        pytest.param("total, n = train(n=n)", True, id="by keyword"),
        pytest.param("n, total = train(n)", False, id="its other value"),
        pytest.param("total, n = train(m)", False, id="from another variable"),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_counter_that_a_function_returns_with_others(taken: str, counts: bool, nested: bool) -> None:
    text = "def train(n):\n    for x in y:\n        loss.backward()\n        n += 1\n    return 0.5, n\n"
    text += f"n, m = 0, 0\nwhile n < 9:\n    {taken}\n"
    text = f"def main():\n{indent(text, '    ')}\nmain()\n" if nested else text
    assert bool(survey_of(text).loops) is counts


def test_what_a_function_returns_with_others_is_no_counter_where_it_does_not_count() -> None:
    text = "def train(n):\n    for x in y:\n        loss.backward()\n    return 0.5, max(n, 1)\n"
    assert survey_of(f"{text}while n < 9:\n    total, n = train(n)\n").loops == []


@pytest.mark.parametrize("made", ["T()", "make()"])
def test_counter_in_an_object_counts(made: str) -> None:
    text = """
        class T:
            def one(self):
                for x in y:
                    self.loss(x).backward()
                self.epoch += 1
        def make():
            return T()
        trainer = MADE
        while trainer.epoch < epochs:
            trainer.one()
    """
    text = code(text).replace("MADE", made)
    assert [loop.target for loop in survey_of(text).loops] == ["trainer.epoch"]
    assert survey_of(text.replace("self.epoch += 1", "pass")).loops == []


def test_counter_of_a_method_counts() -> None:
    text = """
        class T:
            def one(self):
                for x in y:
                    self.loss(x).backward()
                self.epoch += 1
            def fit(self):
                while self.epoch < self.epochs:
                    self.one()
    """
    assert [loop.target for loop in survey_of(code(text)).loops] == ["self.epoch"]


PIECES = """
    def one(x):
        model(x).backward()

    def batch(x, split):
        if split == 1:
            one(x)
        else:
            for i in range(split):
                one(x[i])
        optimizer.step()

    def train(data):
        for n in range(9):
            batch(data[n], 2)

    def measure(data):
        for n in range(3):
            batch(data[n], 1)

    measure(held)
    for turn in range(99):
        train(data)
    """


@pytest.mark.parametrize(
    "changed",
    [
        ("", ""),
        ("range(split)", "range(len(x))"),
        ("for i in range(split):", "one(x)\n        for i in range(split):"),
    ],
)
def test_loop_over_pieces_of_a_batch_hides_no_epoch_loop(changed: tuple[str, str]) -> None:
    assert [loop.target for loop in survey_of(code(PIECES).replace(*changed)).loops] == ["turn"]


def test_loop_that_steps_is_over_no_pieces() -> None:
    text = code(PIECES).replace("    optimizer.step()", "    pass")
    text = text.replace(".backward()", ".backward(); optimizer.step()")
    assert [loop.target for loop in survey_of(text).loops] != ["turn"]


ADDED_UP = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while going:
    for number in range(len(loader) // size):
        optimizer.zero_grad()
        for part in range(size):
            model(next(batches)).backward()
        optimizer.step()
        if done > 99:
            going = False
            break
"""


@pytest.mark.parametrize(
    ("swap", "head"),
    [
        pytest.param(("", ""), "while going:", id="until a flag ends it"),
        pytest.param(("while going:", "for turn in range(9):"), "for turn in range(9):", id="within one that counts"),
        pytest.param(
            ("for part in range(size):", "for batches in iterators:"), "while going:", id="a batch of each source"
        ),
        pytest.param(
            ("for number in range(len(loader) // size):", "for epoch in range(9):"),
            "for epoch in range(9):",
            id="an epoch of one step",
        ),
        pytest.param(
            ("while going:", "for seed in range(9):"), "for number in range(len(loader) // size):", id="within seeds"
        ),
        pytest.param(
            ("        optimizer.step()", "        move()"),
            "for number in range(len(loader) // size):",
            id="nothing shows which turn is a step",
        ),
        pytest.param(
            ("while going:\n", "while going:\n    optimizer = torch.optim.SGD(model.parameters())\n"),
            "for number in range(len(loader) // size):",
            id="another training in each turn",
        ),
    ],
)
def test_loop_that_adds_up_gradients_makes_no_epochs_of_steps(swap: tuple[str, str], head: str) -> None:
    (loop,) = survey_of(DDP + ADDED_UP.replace(*swap)).loops
    assert loop.index.source.code(loop.node).lstrip().splitlines()[0].strip() == head


PARTS = """
from torch.utils.data import DataLoader, DistributedSampler

optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
files = list_files()
while True:
    random.shuffle(files)
    for part in range(first, len(files)):
        data = Part(files[part])
        if alone:
            loader = DataLoader(data)
        else:
            loader = DataLoader(data, sampler=DistributedSampler(data))
        for x, y in tqdm(loader):
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("swap", "target"),
    [
        pytest.param(("", ""), "", id="within an endless loop"),
        pytest.param(("while True", "for turn in range(9)"), "turn", id="within one that counts"),
        pytest.param(("while True", "for seed in range(9)"), "part", id="within one of seeds"),
        pytest.param(("while True", "for fold in folds"), "part", id="within one that counts nothing"),
        pytest.param(
            ("    random.shuffle(files)", "    optimizer = torch.optim.SGD()"), "part", id="with another optimizer"
        ),
        pytest.param(("len(files)", "count"), "part", id="so many"),
        pytest.param(("= list_files()", "= list_files()\ncount = len(files)"), "", id="counted before"),
        pytest.param(("files[part]", "files"), "part", id="with all files"),
        pytest.param(("data = Part(files[part])", "rate(files[part])"), "part", id="with all data"),
        pytest.param(("tqdm(loader)", "held"), "part", id="with one loader"),
        pytest.param(("tqdm(loader)", "loaders[part]"), "", id="with a list of loaders"),
    ],
)
def test_loop_over_the_parts_of_the_data_is_none_over_epochs(swap: tuple[str, str], target: str) -> None:
    text = code(PARTS).replace(*swap)
    if "count = " in text:
        text = text.replace("(first, len(files))", "(count)")
    assert [loop.target for loop in survey_of(text).loops] == [target]


STEPPING = """
def step():
    optimizer.step()

while True:
    for i in range(4):
        loss.backward()
"""


DRAWING = """
while n < total:
    for name in sources:
        x = {drawn}
        model(x).backward()
    n += 1
    if n % 2 == 0:
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("text", "by_iteration"),
    [
        pytest.param("for step in range(9):\n    loss.backward()\n", True, id="for"),
        pytest.param("while True:\n    loss.backward()\n    optimizer.step()\n", True, id="while"),
        pytest.param(
            "while True:\n    for i in range(4):\n        loss.backward()\n    optimizer.step()\n",
            True,
            id="micro steps",
        ),
        pytest.param(
            "for e in range(9):\n    for i in range(99):\n        loss.backward()\n        optimizer.step()\n",
            False,
            id="epochs of so many steps",
        ),
        pytest.param(
            f"{STEPPING}        step()\n",
            False,
            id="steps in a function",
        ),
        pytest.param(
            f"{STEPPING}    step()\n",
            True,
            id="micro steps before a function",
        ),
        pytest.param(
            DRAWING.format(drawn="next(sources[name])"),
            True,
            id="a batch drawn from each of some sources",
        ),
        pytest.param(DRAWING.format(drawn="next(iter(name))"), True, id="a batch drawn from each itself"),
        pytest.param(
            DRAWING.format(drawn="(sources[name], next(nets[name].parameters()).device)"),
            False,
            id="what is drawn of its parameters is no batch",
        ),
        pytest.param(
            DRAWING.format(drawn="(sources[name], next(others))"),
            False,
            id="a batch drawn beside those that are gone through",
        ),
        pytest.param(
            DRAWING.format(drawn="next(sources[name])\n        optimizer.step()"),
            False,
            id="a step for each source",
        ),
    ],
)
def test_loop_over_iterations(text: str, by_iteration: bool) -> None:
    assert [loop.by_iteration for loop in survey_of(text).loops] == [by_iteration]


BY_FLAG = """
acc, loss = validate(model)
better = False
if acc > best + 1e-8 or first:
    better = True
if better:
    best = acc
if loss < lowest:
    lowest = loss
"""


@pytest.mark.parametrize(
    ("swap", "scores"),
    [(("", ""), ["acc", "loss"]), (("if better", "if other"), ["loss"]), (("better = True", "pass"), ["loss"])],
    ids=["by a flag", "by another", "without"],
)
def test_best_that_is_kept_by_a_flag_counts_beside_another(swap: tuple[str, str], scores: list[str]) -> None:
    found = survey_of(script(BY_FLAG.strip().replace(*swap), "best, lowest = 0, 9")).scores
    assert [one.expression for one in found] == scores


TURN = """
def turn(batches, shown):
    x = next(batches)
    loss = model(x)
    loss.backward()
    optimizer.step()


def show():
    print(next(shown))


for turns in range(9):
    turn(batches, shown)
    show()
"""


@pytest.mark.parametrize(
    ("swap", "by_step"),
    [
        (("", ""), True),
        (("turns in", "epoch in"), False),
        (("next(batches)", "batches"), False),
        (("range(9)", "itertools.count()"), True),
    ],
    ids=["draws a batch", "epochs", "draws what it shows", "endless"],
)
def test_loop_whose_turns_are_steps(swap: tuple[str, str], by_step: bool) -> None:
    assert [loop.by_step for loop in survey_of(code(TURN.replace(*swap))).loops] == [by_step]


ONE_PASS = """
def train():
    for i, batch in enumerate(tqdm(loader)):
        loss.backward()
        if i % every == 0:
            evaluate(model)
train()
"""


@pytest.mark.parametrize(
    ("old", "new", "batches"),
    [
        pytest.param("", "", "loader", id="loader"),
        pytest.param("enumerate(tqdm(loader))", "enumerate(self.loader, 1)", "self.loader", id="attribute"),
        pytest.param("if i % every == 0", "for x in val", None, id="validation in every turn"),
        pytest.param("evaluate(model)", "log(model)", None, id="no validation"),
        pytest.param("\ntrain()\n", "\n", None, id="called from who knows where"),
        pytest.param("\ntrain()\n", "\ndef run():\n    train()\n", None, id="called by what is called from there"),
        pytest.param("tqdm(loader)", "zip(a, b)", "zip(a, b)", id="more than a name"),
        pytest.param("\ntrain()\n", "\nwhile going():\n    train()\n", None, id="in another loop"),
    ],
)
def test_only_pass_through_the_batches_that_validates(old: str, new: str, batches: str | None) -> None:
    loops = survey_of(ONE_PASS.replace(old, new) if old else ONE_PASS).loops
    found = [(loop.iterated, loop.by_iteration, loop.by_step) for loop in loops]
    assert found == ([(batches, True, True)] if batches else [])


@pytest.mark.parametrize(
    ("before", "batches", "limited"),
    [
        pytest.param("from itertools import cycle\n", "cycle(loader)", False, id="cycle"),
        pytest.param("from itertools import cycle\nlast = cycle(loader)\n", "last", False, id="cycle with a name"),
        pytest.param("def on(x):\n    while True:\n        yield from x\n", "on(loader)", True, id="generator"),
    ],
)
def test_batches_without_end(before: str, batches: str, limited: bool) -> None:
    loops = survey_of(before + code(ONE_PASS).replace("tqdm(loader)", batches)).loops
    assert [(loop.limited, loop.by_iteration) for loop in loops] == [(limited, True)]


def test_wrapper_after_the_training_stays() -> None:
    survey = survey_of(script(after="model = DDP(model)\ntest(model)"))
    assert [wrapper.line for wrapper in survey.wrappers] == [5]


def test_closure_of_the_optimizer_is_in_the_loop_that_steps() -> None:
    closure = "        def closure():\n            loss.backward()\n        optimizer.step(closure)\n"
    text = f"for epoch in range(9):\n    for x in y:\n{closure}"
    assert loops_of(text) == [(1, True)]
    assert loops_of(text.replace("optimizer.step(closure)", "keep(closure)")) == []


def test_training_that_is_called_outside_any_loop_has_none() -> None:
    text = "def step(x):\n    loss.backward()\nstep(x)\nfor x in loader:\n    step(x)\n"
    assert survey_of(text).loops == []


def test_scheduler_stepped_every_iteration_stays_with_the_script() -> None:
    text = script(before="sched = torch.optim.lr_scheduler.StepLR(optimizer, 3)")
    text = text.replace("for x, y in loader:\n", "if True:\n") + "    sched.step()\n"
    assert [step.per for step in survey_of(text).steps] == ["batch"]


def test_failure_is_no_end_of_training() -> None:
    (loop,) = survey_of("while True:\n    loss.backward()\n    n += 1\n    if n > 9:\n        sys.exit(1)\n").loops
    assert loop.ends == []


@pytest.mark.parametrize("head", ["going", "not stopped()", "trainer.goes_on()"])
def test_condition_that_the_loop_does_not_set_makes_no_epoch_loop(head: str) -> None:
    assert survey_of(WHILE.replace("HEAD", head)).loops == []


def test_what_is_left_of_a_condition_is_told_as_a_way_to_leave() -> None:
    assert [loop.ends for loop in survey_of(WHILE.replace("HEAD", "epoch < n and not stop")).loops] == [[1]]


def iterating(evaluation: str, before: str = "") -> Score:
    """Return the score of a loop over iterations."""
    text = script(before=before).replace(
        "for epoch in range(10):\n    for x, y in loader:\n", "while n < 9:\n    if True:\n"
    )
    (score,) = survey_of(text.replace("pass\n", "n += 1\n") + indent(code(evaluation), "    ") + "    log()\n").scores
    return score


TRACKS = "    acc = validate(model)\n    if acc > best:\n        best = acc\n"


@pytest.mark.parametrize(
    ("head", "report", "when", "guarded"),
    [
        pytest.param("if n % 5 == 0:", "if acc > best:", "", False, id="all ranks"),
        pytest.param("if n % 5 == 0 and rank == 0:", "if n % 5 == 0 and", "n % 5 == 0", True, id="rank 0"),
        pytest.param("if rank == 0 and (n % 5 == 0 or last):", "if rank", "(n % 5 == 0 or last)", True, id="or"),
        pytest.param("if rank == 0 and due(n):", "if rank", "", True, id="call in the condition"),
        pytest.param("if rank == 0 and n % best == 0:", "if rank", "", True, id="changed by then"),
    ],
)
def test_score_of_some_iterations_is_handed_over_there(head: str, report: str, when: str, guarded: bool) -> None:
    score = iterating(f"{head}\n{TRACKS}")
    assert score.index.source.code(score.anchors["report"]).startswith(report)
    assert (score.when, score.guarded, score.in_turn) == (when, guarded, False)


def test_score_that_is_filled_by_a_key_that_is_worked_out_is_known_after_that() -> None:
    text = f"""
    {DDP.strip()}
    model = DDP(Net())
    best = 9.0
    for epoch in range(10):
        sums = {{'elbo': 0.0, 'loss': 0.0}}
        if graph:
            sums.update({{'more': 0.0}})
        for x in loader:
            model(x).backward()
            for i, name in enumerate(names):
                sums[name] += losses[i].item()
        log(epoch)
        if sums['loss'] < best:
            best = sums['loss']
    """
    (score,) = survey_of(code(text)).scores
    assert score.expression == "sums['loss']"
    assert score.index.source.code(score.anchors["report"]).startswith("if sums['loss'] < best")


def test_what_a_function_that_calls_itself_fills_is_told() -> None:
    text = f"""
    {DDP.strip()}
    def gather(found, tree):
        for part in tree:
            gather(found, part)
        found.append(tree.loss)
    model = DDP(Net())
    best = 9.0
    for epoch in range(10):
        for x in loader:
            model(x).backward()
        model.eval()
        losses = []
        gather(losses, model(held_out))
        model.train()
        mean = sum(losses)
        if mean < best:
            best = mean
    """
    (score,) = survey_of(code(text)).scores
    assert (score.expression, score.made) == ("mean", "evaluated")


@pytest.mark.parametrize(
    ("made", "when"),
    [
        ("if is_main_process():\n        loader = Loader()", "n % 5 == 0"),
        ("if args.validate:\n        loader = Loader()", "val_loader and n % 5 == 0"),
    ],
)
def test_what_only_rank_0_is_given_is_no_common_condition(made: str, when: str) -> None:
    """Also by a name in the function that starts the training: a rank without it would not come to hand over."""
    text = f"""
    {DDP.strip()}
    def train(model, val_loader):
        best = 0
        for n, batch in enumerate(batches):
            model(batch).backward()
            optimizer.step()
            if val_loader and n % 5 == 0 and is_main_process():
                acc = validate(model, val_loader)
                best = max(best, acc)

    def main():
        loader = None
        MADE
        train(DDP(Net()), loader)

    main()
    """
    (score,) = survey_of(code(text).replace("MADE", made)).scores
    assert score.when == when


def test_score_of_rank_0_under_a_common_condition() -> None:
    score = iterating(f"if n % 5 == 0:\n    if rank == 0:\n{indent(TRACKS, '    ')}")
    assert (score.when, score.ranks, score.condition) == ("n % 5 == 0", "first", "n % 5 == 0")


def test_loss_of_single_batches_is_no_score() -> None:
    text = script().partition("for epoch")[0] + (
        "for step in range(9):\n    loss = criterion(model(x), y)\n    loss.backward()\n"
        "    if loss < best:\n        best = loss\n"
    )
    assert survey_of(text).scores == []
    assert [score.expression for score in survey_of(text, metric="loss").scores] == ["loss"]


def test_a_value_that_is_made_in_a_loop_over_batches_within_another_may_be_named() -> None:
    text = DDP + "model = DDP(Net())\nfor epoch in range(3):\n    for part in parts:\n        for x in part:\n"
    text += "            loss = model(x)\n            loss.backward()\n"
    assert survey_of(text).scores == []
    (score,) = survey_of(text, metric="loss", mode="min").scores
    assert (score.expression, score.known, score.condition) == ("loss", True, "")


def test_score_of_every_full_batch_step_is_one() -> None:
    text = script("acc = validate(model)\nbest = max(best, acc)").replace("for x, y in loader:\n", "if True:\n")
    assert [score.expression for score in survey_of(text).scores] == ["acc"]


@pytest.mark.parametrize(
    ("before", "made"),
    [
        pytest.param("first = rank == 0\n", "if first and n % 5 == 0:\n" + TRACKS, id="flag"),
        pytest.param("first = not many or args.rank == 0\n", "if first and n % 5 == 0:\n" + TRACKS, id="or alone"),
        pytest.param("first = True if rank == 0 else False\n", "if first and n % 5 == 0:\n" + TRACKS, id="if else"),
        pytest.param(
            "def results():\n    if args.gpu == 0:\n        return 1\n    return None\n",
            "if n % 5 == 0:\n    result = results()\n    if result is not None:\n" + indent(TRACKS, "    "),
            id="result that other ranks lack",
        ),
    ],
)
def test_score_under_what_a_rank_check_gives_is_handed_over_by_all_ranks(before: str, made: str) -> None:
    score = iterating(made, before)
    assert (score.ranks, score.when, score.guarded) == ("first", "n % 5 == 0", True)
    assert score.index.source.code(score.anchors["report"]).startswith(("if first", "if n %"))


@pytest.mark.parametrize(
    ("before", "test", "ranks"),
    [
        ("conf.device = int(os.environ['LOCAL_RANK'])\n", "conf.device == 0", "first"),
        (
            "def settings():\n    c = Conf()\n    c.dev = int(os.environ['RANK'])\n    return c\n\nconf = settings()\n",
            "0 == conf.dev",
            "first",
        ),
        ("conf = {}\nconf['device'] = dist.get_rank()\n", "conf['device'] in [0, 4]", "first"),
        ("gpu_id = int(os.environ['LOCAL_RANK'])\n", "gpu_id == 0", "first"),
        ("conf.device = int(os.environ['LOCAL_RANK'])\n", "conf.device is not None", "all"),
        ("conf.device = int(os.environ['LOCAL_RANK'])\n", "other.device == 0", "all"),
        ("conf.device = 0\n", "conf.device == 0", "all"),
    ],
)
def test_score_under_a_comparison_of_what_holds_a_rank_is_one_of_some_ranks(before: str, test: str, ranks: str) -> None:
    assert iterating(f"if n % 5 == 0 and {test}:\n{TRACKS}", before).ranks == ranks


NUMBERED = """
import torch

class Run:
    def __init__(self, device, world):
        self.device, self.world = device, world
        self.model = torch.nn.parallel.DistributedDataParallel(Net())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self):
        best = 0
        for epoch in range(10):
            for x, y in loader:
                loss = criterion(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            if TEST:
                acc = evaluate(self.model)
                if acc > best:
                    best = acc

"""
STARTED = """
def main(it, n):
    run = Run(it, n)
    run.train()

torch.multiprocessing.spawn(main, args=(2,), nprocs=2)
"""


@pytest.mark.parametrize(
    ("start", "test", "ranks"),
    [
        pytest.param(
            "it = torch.distributed.get_rank()\nRun(it, 2).train()\n", "self.device == 0", "first", id="asked"
        ),
        pytest.param(STARTED, "self.device == 0", "first", id="spawned"),
        pytest.param(STARTED, "0 == self.device", "first", id="the other way round"),
        pytest.param(STARTED, "self.world == 2", "all", id="what all processes are given"),
        pytest.param("Run(0, 2).train()\n", "self.device == 0", "all", id="a number that is written"),
    ],
)
def test_a_rank_that_is_handed_on_to_an_object_is_one(start: str, test: str, ranks: str) -> None:
    (score,) = survey_of(NUMBERED.replace("TEST", test) + start).scores
    assert score.ranks == ranks
    assert score.condition == (test if ranks == "all" else "")


@pytest.mark.parametrize("before", ["due = debug or args.evaluate\n", "due = args.local_rank != -1\n"])
def test_score_under_a_flag_of_all_ranks_is_handed_over_in_there(before: str) -> None:
    score = iterating("if due and n % 5 == 0:\n" + TRACKS, before)
    assert (score.ranks, score.guarded) == ("all", False)


@pytest.mark.parametrize("head", ["for i in range(3):", "while waiting():", "with context:"])
def test_score_under_a_condition_inside_another_statement_has_a_guard(head: str) -> None:
    (score,) = survey_of(script(f"{head}\n    if rank == 0 and i % 2:\n{indent(TRACKS, '    ')}log()")).scores
    assert (score.ranks, score.guarded, score.captured, score.when) == ("first", True, True, "")
    assert score.index.source.code(score.anchors["guard"]).startswith(head)
    assert score.index.source.code(score.anchors["made"]).startswith("if acc > best")
    assert score.index.source.code(score.anchors["report"]) == "log()"


@pytest.mark.parametrize("kept", ["meter.metrics['fde'].avg", "meter.metrics[name].avg", "meter.metrics[name]"])
@pytest.mark.parametrize(
    "asked",
    [
        pytest.param("rank == 0", id="one rank"),
        pytest.param("rank == 0 and epoch >= n / 2", id="late turns of one rank"),
        pytest.param("epoch >= n / 2", id="late turns"),
    ],
)
def test_score_out_of_an_object_is_known_where_that_is_filled(kept: str, asked: str) -> None:
    epoch = f"""\
    if epoch % 2:
        meter = Meter()
        meter.update(validate(model))
        if {asked}:
            if {kept} < best:
                best = {kept}
    """
    (score,) = survey_of(script(code(epoch), "best = 9.0")).scores
    assert (score.expression, score.ranks, score.condition) == (kept, "all", "epoch % 2")
    assert score.index.statement(score.anchors["made"]).parent is score.index.statement(score.anchors["guard"])


@pytest.mark.parametrize(
    ("before", "asked", "ranks", "condition"),
    [
        pytest.param(
            "due = epoch % 5 == 0", "if rank == 0:\n    due = epoch % 5 == 0\n    if due:", "first", "due", id="in it"
        ),
        pytest.param("if rank == 0:\n    due = True", "if due:", "first", "", id="before it"),
    ],
)
def test_a_condition_is_of_no_rank_for_what_is_known_where_that_rank_is(
    before: str, asked: str, ranks: str, condition: str
) -> None:
    """Turns in which it does not hold have no score on any rank."""
    head, depth = f"{before}\n{asked}", "    " * (asked.count("    if") + 1)
    epoch = f"{head}\n{depth}acc = validate(model)\n{depth}if acc > best:\n{depth}    best = acc\n"
    (score,) = survey_of(script(epoch, "best, due, rank = 0, False, dist.get_rank()")).scores
    assert (score.ranks, score.condition) == (ranks, condition)


@pytest.mark.parametrize(
    ("asked", "condition"),
    [
        ("rank == 0 and epoch >= 5", "epoch % 2 and epoch >= 5"),
        ("epoch >= 5 and rank == 0 and (full or late)", "epoch % 2 and epoch >= 5 and (full or late)"),
        ("epoch >= 5", "epoch % 2 and epoch >= 5"),
        ("(epoch >= 5) or (full)", "epoch % 2 and ((epoch >= 5) or (full))"),
        ("rank == 0", "epoch % 2"),
    ],
)
def test_what_else_is_asked_beside_a_rank_is_a_condition(asked: str, condition: str) -> None:
    (score,) = survey_of(script(f"if epoch % 2:\n    if {asked}:\n{indent(TRACKS, '    ')}")).scores
    assert score.condition == condition


def test_score_of_an_elif_is_not_told_to_be_that_of_the_if() -> None:
    assert iterating(f"if n % 2:\n    pass\nelif n % 5 == 0:\n{TRACKS}").condition == "not (n % 2)"


def test_score_of_an_else_is_handed_over_by_all_in_every_turn() -> None:
    score = iterating(f"if n % 5:\n    pass\nelse:\n    if rank == 0:\n{indent(TRACKS, '    ')}")
    assert (score.when, score.guarded) == ("", True)


@pytest.mark.parametrize(
    ("head", "step", "end", "in_turn"),
    [
        pytest.param("for epoch in range(10):", "pass", "pass", False, id="epochs"),
        pytest.param("while epoch < 10:", "step += 1", "epoch += 1", False, id="epochs by a counter"),
        pytest.param("while True:", "step += 1", "epoch += 1\nif epoch > 9:\n    break", False, id="so many epochs"),
        pytest.param("while step < 90:", "step += 1", "epoch += 1", True, id="steps"),
        pytest.param("while True:", "step += 1", "epoch += 1\nif step > 90:\n    break", True, id="so many steps"),
        pytest.param("while going:", "going = waits()", "going = True", True, id="a flag"),
        pytest.param("for epoch in count():", "step += 1", "if step > 90:\n    break", True, id="endless steps"),
        pytest.param("for epoch in count():", "step += 1", "if epoch > 9:\n    break", False, id="endless epochs"),
        pytest.param("for epoch in range(int(2e9)):", "step += 1", "pass", True, id="as good as endless"),
        pytest.param("for epoch in range(first, 10**9):", "step += 1", "pass", True, id="from a number on"),
        pytest.param("for epoch in range(10**6):", "step += 1", "if epoch > 9:\n    break", False, id="left before"),
        pytest.param("for epoch in range(int(9e3)):", "step += 1", "pass", False, id="many"),
        pytest.param("for epoch in range(10**most):", "step += 1", "pass", False, id="not told"),
        pytest.param("while epoch < 1_000_000:", "step += 1", "epoch += 1", True, id="endless by a counter"),
    ],
)
def test_score_within_the_loop_over_batches_is_handed_over_there_where_steps_end_the_training(
    head: str, step: str, end: str, in_turn: bool
) -> None:
    batch = f"optimizer.step()\n        {step}\n        if n % 5 == 0:\n{indent(TRACKS, ' ' * 8)}"
    text = script(f"{end}\nlog()").replace("for epoch in range(10):", head).replace("optimizer.step()\n", batch)
    (score,) = survey_of(text).scores
    assert (score.in_turn, score.guarded, score.condition) == (in_turn, not in_turn, "n % 5 == 0")
    assert score.index.source.code(score.anchors["report"]).startswith("if acc > best" if in_turn else "log()")


@pytest.mark.parametrize(("default", "in_turn"), [("10**6", True), ("90", False)])
def test_score_is_handed_over_in_epochs_whose_number_an_option_has_no_training_reach(
    default: str, in_turn: bool
) -> None:
    batch = f"optimizer.step()\n        if n % 5 == 0:\n{indent(TRACKS, ' ' * 8)}"
    option = f"parser = argparse.ArgumentParser()\nparser.add_argument('--epochs', type=int, default={default})\n"
    text = script("log()", f"{option}args = parser.parse_args()").replace("range(10)", "range(args.epochs)")
    (score,) = survey_of(f"import argparse\n{text}".replace("optimizer.step()\n", batch)).scores
    assert score.in_turn is in_turn


@pytest.mark.parametrize(
    ("compares", "guarded"),
    [
        pytest.param("if acc > best:\n    best = acc\n    save()\n", False, id="in the block around"),
        pytest.param("if first:\n    if acc > best:\n        best = acc\n        save()\n", True, id="deeper there"),
    ],
)
def test_score_is_handed_over_after_the_script_has_saved_by_it(compares: str, guarded: bool) -> None:
    made = f"if n % 5 == 0:\n    if validates:\n        acc = validate(model)\n    log()\n{indent(compares, '    ')}"
    score = iterating(made)
    assert score.index.source.code(score.anchors["report"]).startswith(compares.partition("\n")[0])
    assert (score.guarded, score.when) == (guarded, "")


WRITES = "if n % 7 == 0:\n    write(results, path)\n"


def stepped(later: str) -> str:
    """Return what measures every so many steps, each of several batches, and what the turn of a step does later."""
    turn = f"if n % 5 == 0:\n{TRACKS}{later}"
    return f"if x % 2 == 0:\n{indent(turn, '    ')}"


@pytest.mark.parametrize(
    ("made", "report", "when"),
    [
        pytest.param(f"if n % 5 == 0:\n{TRACKS}{WRITES}", "if n % 7", "n % 5 == 0", id="later"),
        pytest.param(f"if n % 5 == 0:\n{TRACKS}{WRITES}if n > 8:\n    break\n", "if n % 7", "n % 5 == 0", id="ends"),
        pytest.param(
            f"if n % 5 == 0:\n    if tests:\n{indent(TRACKS, '    ')}{indent(WRITES, '    ')}",
            "if n % 5",
            "n % 5 == 0 and tests",
            id="around",
        ),
        pytest.param(stepped(f"{WRITES}if n > 8:\n    break\n"), "if n % 7", "n % 5 == 0", id="ends within"),
        pytest.param(stepped(f"if n > 8:\n    break\n{WRITES}"), "if acc", "", id="writes if it does not end"),
        pytest.param(f"if n % 5 == 0:\n{TRACKS}n += 1\nbar.update()\n", "if acc", "", id="counts on"),
        pytest.param(f"if n % 5 == 0:\n{TRACKS}bar.save()\n", "bar.save()", "n % 5 == 0", id="saves"),
        pytest.param(f"if n % 5 == 0:\n{TRACKS}note()\n", "note()", "n % 5 == 0", id="calls a function"),
        pytest.param(f"if n % best == 0:\n{TRACKS}{WRITES}", "if acc", "", id="condition is another then"),
        pytest.param(
            f"if n % 5 == 0:\n{TRACKS}    if acc > 9:\n        break\n{WRITES}", "if acc > best", "", id="stop"
        ),
        pytest.param(f"if n % 5 == 0:\n{TRACKS}if n > 8:\n    exit()\n{WRITES}", "if acc > best", "", id="exit"),
        pytest.param(f"if n % 5 == 0:\n{TRACKS}n += 1\n{WRITES}", "if acc", "", id="counts before it writes"),
    ],
)
def test_score_of_some_iterations_is_handed_over_behind_what_the_turn_still_does(
    made: str, report: str, when: str
) -> None:
    score = iterating(made, "def note():\n    write(results)\n")
    assert score.index.source.code(score.anchors["report"]).startswith(report)
    assert (score.when, score.guarded) == (when, bool(when))


COUNTING = """
class State:
    def __init__(self):
        self.step = 0

    def advance(self):
        self.step += 1

def move(given):
    given.step += 1

def tick(given):
    given["n"] += 1

state, seen, note = State(), {"n": 0}, print
"""


@pytest.mark.parametrize(
    ("asked", "counted", "behind"),
    [
        pytest.param("state.step", "state.advance()", False, id="a method"),
        pytest.param("state.step", "move(state)", False, id="a function that is given the object"),
        pytest.param("seen['n']", "seen['n'] += 1", False, id="an item"),
        pytest.param("seen['n']", "seen.update(n=n)", False, id="an update"),
        pytest.param("seen['n']", "tick(seen)", False, id="a function that is given the dict"),
        pytest.param("n", "state.advance()", True, id="another's"),
        pytest.param("state.step", "note(state)", True, id="nothing"),
    ],
)
def test_and_not_behind_what_counts_on_by_which_it_is_measured(asked: str, counted: str, behind: bool) -> None:
    score = iterating(f"if {asked} % 5 == 0:\n{TRACKS}{counted}\n{WRITES}", COUNTING)
    report = score.index.source.code(score.anchors["report"])
    assert (report.startswith("if n % 7"), bool(score.when)) == (behind, behind)


VALIDATES_IN_TURN = """
        optimizer.step()
        if n % 5 == 0:
            model.eval()
            for x, y in val_loader:
                total += measure(model(x), y)
            val_err = total / len(val_loader)
            model.train()
"""


@pytest.mark.parametrize("condition", ["if n % 5 == 0:", "with pause:"])
def test_score_that_the_loop_over_batches_makes_now_and_then_is_known_by_its_name(condition: str) -> None:
    text = script().replace("\n        optimizer.step()\n", VALIDATES_IN_TURN.replace("if n % 5 == 0:", condition))
    expected = [("val_err", "min", True)] if condition.startswith("if") else []
    assert [(s.expression, s.direction, s.guarded) for s in survey_of(text).scores] == expected


def test_what_is_logged_of_a_validation_is_proposed() -> None:
    epoch = "sc, lab = evaluate(model)\nresult = tune(sc, lab)\nrates = errors(sc)\nmindcf = least(rates)\n"
    found = survey_of(script(f"{epoch}logger.info(f'{{result[1]:2.4f}} and {{mindcf}} in {{epoch}}')"))
    assert ([name for name, _ in found.measures], found.scores) == (["result[1]", "mindcf"], [])
    found = survey_of(script("with torch.no_grad():\n    elo, low = play(model, games)\nprint('elo', elo)"))
    assert [name for name, _ in found.measures] == ["elo"]


def test_what_is_logged_of_a_batch_of_the_training_is_no_validation_s() -> None:
    logs = "with torch.no_grad():\n    share = part(loss)\nprint('share', share)\n"
    text = script().replace("        optimizer.step()\n", "        optimizer.step()\n" + indent(logs, "        "))
    assert survey_of(text).measures == []


def test_score_of_every_batch_is_handed_over_at_the_end_of_the_epoch() -> None:
    text = script().replace("        optimizer.step()\n", "        optimizer.step()\n" + indent(code(TRACKS), "    "))
    (score,) = survey_of(text).scores
    assert not score.in_turn


@pytest.mark.parametrize(
    ("around", "within", "line"),
    [
        ("i in range(N_epoch)", "_ in range(steps)", 1),
        ("i in range(args.max_epochs)", "step in range(steps_per_epoch)", 1),
        ("fold in range(folds)", "i in range(epochs)", 2),
        ("stage in range(stages)", "i in range(turns)", 2),
    ],
)
def test_a_loop_whose_limit_is_a_number_of_epochs_is_one_over_epochs(around: str, within: str, line: int) -> None:
    text = f"for {around}:\n    for {within}:\n        for x in loader:\n            loss.backward()\n"
    assert [found for found, _ in loops_of(text)] == [line]


@pytest.mark.parametrize(
    ("head", "end"),
    [
        pytest.param("while not done:", "done = loss < 0.1", id="worked out"),
        pytest.param("while going:", "going = loss > 0.1", id="while it holds"),
        pytest.param("while not done:", "done = stopper(loss)", id="what a call answers"),
        pytest.param("while not reached(loss):", "pass", id="a function of its own"),
    ],
)
def test_a_loop_until_a_question_is_answered_is_over_epochs(head: str, end: str) -> None:
    asked = "def reached(loss):\n    return loss < 0.1\n"
    text = f"{asked}{head}\n    for x in loader:\n        loss.backward()\n    {end}\n"
    assert loops_of(text) == [(3, False)]


@pytest.mark.parametrize(
    ("made", "head", "moved", "found"),
    [
        pytest.param("bar = tqdm.tqdm(total=9)", "bar.n < bar.total", "bar.update(1)", True, id="to its end"),
        pytest.param("bar = tqdm.tqdm(total=9)", "9 > bar.n", "bar.update(len(loader))", True, id="to a number"),
        pytest.param("bar = tqdm.tqdm(total=9)", "bar.n < bar.total", "pass", False, id="not moved"),
        pytest.param(
            "bar, other = tqdm.tqdm(total=9), tqdm.tqdm()", "bar.n < 9", "other.update(1)", False, id="another is moved"
        ),
        pytest.param("bar = tqdm.tqdm(total=9)", "bar.total > 0", "bar.update(1)", False, id="no count"),
        pytest.param("bar = Bar()", "bar.n < 9", "bar.update(1)", False, id="no progress bar"),
    ],
)
def test_a_loop_until_a_progress_bar_is_full_is_over_epochs(made: str, head: str, moved: str, found: bool) -> None:
    text = f"import tqdm\n{made}\nwhile {head}:\n    for x in loader:\n        loss.backward()\n    {moved}\n"
    assert loops_of(text) == ([(3, True)] if found else [])


@pytest.mark.parametrize(
    ("given", "repeats"),
    [
        pytest.param("yield loss", [], id="what each turn yields"),
        pytest.param("pass\n    yield loss", ["for acc in epochs()"], id="what comes of them all"),
        pytest.param("pass\n    return losses", ["for acc in epochs()"], id="what is returned"),
    ],
)
def test_a_loop_that_is_fed_by_the_epochs_trains_nothing_again(given: str, repeats: list[str]) -> None:
    text = "def epochs():\n    for epoch in range(9):\n        for x in y:\n            loss.backward()\n        "
    (loop,) = survey_of(f"{text}{given}\nfor acc in epochs():\n    print(acc)\n").loops
    assert [head.rstrip(":") for head, _ in loop.repeats] == repeats


YIELDING = """
import torch

class Task:
    def __init__(self):
        self.model = torch.nn.DataParallel(Net())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self):
        step = 0
        for epoch in range(9):
            for x, y in loader:
                loss = criterion(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                step += 1
                if step % 4 == 0:
                    MEASURED
                    yield loss.item(), step

    def eval(self):
        self.model.eval()
        with torch.no_grad():
            return criterion(self.model(rows), labels).item()

task, best = Task(), 9
for loss, step in task.train():
    TURN
"""
DECIDED = "value = task.eval()\nif value < best:\n    best = value"


@pytest.mark.parametrize(
    ("turn", "measured", "head", "scores"),
    [
        pytest.param(DECIDED, "pass", "for loss, step in task.train():", ["value"], id="what goes through decides"),
        pytest.param("print(task.eval())", "pass", "for loss, step in task.train():", [], id="it validates"),
        pytest.param("print(loss)", "pass", "for epoch in range(9):", [], id="it does neither"),
        pytest.param("print(task.eval())", "print(self.eval())", "for epoch in range(9):", [], id="both validate"),
    ],
)
def test_a_turn_of_what_goes_through_a_training_is_an_epoch_where_that_alone_validates(
    turn: str, measured: str, head: str, scores: list[str]
) -> None:
    text = YIELDING.replace("TURN", turn.replace("\n", "\n    ")).replace("MEASURED", measured)
    found = survey_of(text)
    (loop,) = found.loops
    assert loop.code.splitlines()[0] == head
    assert loop.repeats == []
    assert [one.expression for one in found.scores] == scores


def test_trainings_of_which_a_generator_goes_through_one_have_one_loop() -> None:
    head, behind = YIELDING.replace("TURN", DECIDED.replace("\n", "\n    ")).split("        for epoch")
    train, rest = behind.split("    def eval")
    inner = f"        for epoch{train.rstrip()}".replace("\n", "\n    ").replace("MEASURED", "pass")
    text = f"{head}        if step:\n    {inner}\n        else:\n    {inner}\n\n    def eval{rest}"
    (loop,) = survey_of(text).loops
    assert loop.code.splitlines()[0] == "for loss, step in task.train():"


@pytest.mark.parametrize(
    ("numbers", "counts"),
    [
        pytest.param("reversed(range(9))", True, id="reversed"),
        pytest.param("itertools.islice(itertools.count(), 9)", True, id="some of them"),
        pytest.param("itertools.islice(batches, 9)", False, id="some of something"),
        pytest.param("zip(range(9), batches)", False, id="beside something"),
    ],
)
def test_a_loop_through_numbers_in_some_order_counts(numbers: str, counts: bool) -> None:
    text = f"import itertools\nfor turn in {numbers}:\n    for x in y:\n        loss.backward()\n"
    assert loops_of(text) == [(2, True)] * counts


@pytest.mark.parametrize(
    ("around", "counts"),
    [
        pytest.param("for seed in seeds:", True, id="seeds"),
        pytest.param("for part in [whole]:", True, id="one turn"),
        pytest.param("for part in parts:", False, id="something"),
        pytest.param("for x in loader:\n  for part in [whole]:", False, id="one turn for each batch"),
    ],
)
def test_a_loop_of_single_steps_within_one_that_trains_once_is_found(around: str, counts: bool) -> None:
    text = f"{around}\n    for step in range(99):\n        loss.backward()\n        optimizer.step()\n"
    assert [line for line, _ in loops_of(text)] == [2] * counts


@pytest.mark.parametrize(("leaves", "number"), [("break", 1), ("pass", 0)])
def test_a_loop_is_left_in_the_else_of_one_inside_it(leaves: str, number: int) -> None:
    text = "for epoch in range(9):\n    for x in y:\n        loss.backward()\n        if over:\n            break\n"
    (loop,) = survey_of(f"{text}    else:\n        {leaves}\n").loops
    assert len(loop.ends) == number


def test_endless_loop_is_not_limited() -> None:
    assert loops_of(looped("itertools.count()", "import itertools\n")) == [(2, False)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("for epoch in range(3):\n    load(f'epoch{epoch}.pt')\n", id="loads checkpoints"),
        pytest.param("for epoch in range(3):\n    for i in range(3):\n        plt.plot(epoch, i)\n", id="plots"),
        pytest.param(
            "for epoch_file in glob('epoch*'):\n    for x in epoch_file:\n        print(x)\n", id="epoch files"
        ),
        pytest.param(looped("epochs").replace("epoch in", "part in"), id="over a list"),
        pytest.param("while epoch < 3:\n    for x in y:\n        loss.backward()\n", id="while without a counter"),
        pytest.param("while loss > 0.1:\n    loss.backward()\n    n += 1\n", id="while until it converges"),
        pytest.param("while not done:\n    for x in y:\n        loss.backward()\n", id="while not done"),
        pytest.param("while left[box.n] > 0:\n    for x in y:\n        loss.backward()\n", id="while an item is"),
        pytest.param("while f(a[0])[1] > 0:\n    for x in y:\n        loss.backward()\n", id="of a call"),
        pytest.param(
            "for part in parts:\n    while not done:\n        for x in y:\n            loss.backward()\n"
            "        _, done = world.step()\n",
            id="while not done within a loop",
        ),
        pytest.param("for x in loader:\n    loss.backward()\n", id="one loop over batches"),
        pytest.param("for x in loader:\n    for i in range(2):\n        loss.backward()\n", id="micro steps only"),
        pytest.param("while True:\n    line = queue.get()\n    if line is None:\n        break\n", id="reads a queue"),
        pytest.param(
            "for part in parts:\n    while i < len(part):\n        part[i].backward()\n        i += 1\n",
            id="while over batches",
        ),
        pytest.param("def epochs():\n    return [epoch for epoch in range(3)]\n", id="comprehension"),
    ],
)
def test_no_epoch_loop(text: str) -> None:
    assert loops_of(text) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(
            "for fold in range(5):\n    for epoch in range(9):\n        for x in y:\n            loss.backward()\n",
            2,
            id="folds outside",
        ),
        pytest.param(
            "for epoch in range(9):\n    for i in range(5):\n        for x in y:\n            loss.backward()\n",
            1,
            id="parts inside",
        ),
        pytest.param(
            "def train():\n    for x in y:\n        loss.backward()\nfor ep in range(3):\n    train()\n",
            4,
            id="through a call",
        ),
        pytest.param(
            "for e in range(3):\n    plot(e)\nfor epoch in range(3):\n    for x in y:\n        loss.backward()\n",
            3,
            id="after another",
        ),
        pytest.param(
            "def run():\n    sgd = torch.optim.SGD(w, 0.1)\n    for epoch in range(9):\n        loss.backward()\n"
            "for i in range(3):\n    run()\n",
            3,
            id="repeats of a training without a loop over batches",
        ),
        pytest.param(
            "sgd = torch.optim.SGD(w, 0.1)\nfor i in range(9):\n    for epoch in range(3):\n        loss.backward()\n",
            2,
            id="passes over what a turn has collected",
        ),
        pytest.param(
            "for i in range(9):\n    sgd = torch.optim.SGD(w, i)\n    for part in range(3):\n        loss.backward()\n",
            1,
            id="a new optimizer for each epoch",
        ),
    ],
)
def test_epoch_loop_among_other_loops(text: str, line: int) -> None:
    assert [found for found, _ in loops_of(text)] == [line]


PASSES = """
    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def update(parts):
        for epoch in range(4):
            for part in parts:
                loss = model(part).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    for turn in range(99):
        parts, reward = collect(model)
        update(parts)
"""
AROUND = "Where a turn of `for turn in range(99)` (line 14), and not of this loop, is an epoch, name a value"


@pytest.mark.parametrize(("metric", "target"), [("reward", "turn"), ("reward.mean()", "turn"), ("loss", "epoch")])
def test_the_loop_that_gives_the_named_value_is_that_over_epochs(metric: str, target: str) -> None:
    """Such as that which collects what a policy gradient then passes over several times."""
    head = "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
    assert [loop.target for loop in survey_of(head + code(PASSES), metric).loops] == [target]


@pytest.mark.parametrize(
    ("named", "target"),
    [
        pytest.param("turns = range(99)\nbar = tqdm(turns)\nfor turn in bar:", "turn", id="a bar around a name"),
        pytest.param("turns = worlds()\nbar = tqdm(turns)\nfor turn in bar:", "epoch", id="no numbers"),
        pytest.param("bar = tqdm(range(99))\nbar = tqdm(bar)\nfor turn in bar:", "turn", id="a bar of its own name"),
    ],
)
def test_the_loop_that_gives_the_named_value_may_go_through_a_bar_that_has_a_name(named: str, target: str) -> None:
    head = "import torch\nfrom tqdm import tqdm\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
    text = head + code(PASSES).replace("for turn in range(99):", named)
    assert [loop.target for loop in survey_of(text, "reward").loops] == [target]


ROUNDS = """
class Trainer:
    def __init__(self, net):
        self.model = DDP(net)

    def train(self, steps):
        count = 0
        while count < steps:
            for x in loader:
                self.model(x).backward()
                optimizer.step()
                count += 1
            WITHIN
        AFTER

    def validate(self, data):
        self.model.eval()


trainer = Trainer(Net())
for i in range(args.outer_iters):
    trainer.train(100)
"""


@pytest.mark.parametrize(
    ("within", "after", "target"),
    [
        pytest.param("pass", "self.validate(data)", "i", id="around"),
        pytest.param("isinstance(self.model, DDP)", "self.validate(data)", "i", id="around, and asks for the wrapper"),
        pytest.param("self.validate(data)", "pass", "count", id="in it"),
        pytest.param("pass", "pass", "count", id="nowhere"),
        pytest.param("self.model = DDP(Net())", "self.validate(data)", "count", id="of another model each"),
    ],
)
def test_a_loop_round_the_data_until_enough_steps_is_none_over_epochs_where_one_around_validates(
    within: str, after: str, target: str
) -> None:
    text = "from torch.nn.parallel import DistributedDataParallel as DDP\n" + ROUNDS
    assert [one.target for one in survey_of(text.replace("WITHIN", within).replace("AFTER", after)).loops] == [target]


def test_a_loop_until_enough_turns_is_one_over_epochs_whatever_validates_around() -> None:
    text = "from torch.nn.parallel import DistributedDataParallel as DDP\n" + ROUNDS
    counted = text.replace("                count += 1\n", "").replace("WITHIN", "count += 1")
    assert [one.target for one in survey_of(counted.replace("AFTER", "self.validate(data)")).loops] == ["count"]


@pytest.mark.parametrize(("within", "told"), [("pass", True), ("optimizer = torch.optim.SGD(w, 1)", False)])
def test_the_question_for_a_score_names_the_loop_around_that_may_be_the_one(
    tmp_path: Path, within: str, told: bool
) -> None:
    head = "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
    text = head + code(PASSES).replace("    update(parts)", f"    {within}\n    update(parts)")
    (question,) = [one for one in plan_of(tmp_path, text).questions if one.code == "PAI105"]
    assert (AROUND in question.message) is told


def test_loop_around_the_epoch_loop_is_none_though_another_backward_pass_is_in_it() -> None:
    text = """
        def speed(net):
            for _ in range(3):
                net(x).backward()
        def train():
            speed(net)
            for epoch in range(9):
                for x in loader:
                    net(x).backward()
        if search:
            for generation in range(5):
                train()
        else:
            train()
    """
    assert [loop.target for loop in survey_of(text).loops] == ["epoch"]


@pytest.mark.parametrize(
    ("before", "least"),
    [
        pytest.param("assert len(list(model.parameters())) == 2", ["len(list(model.parameters())) >= 2"], id="counted"),
        pytest.param(
            "trained = list(filter(lambda p: p.requires_grad, model.parameters()))\nassert len(trained) == 2, 'head'",
            ["len(trained) >= 2"],
            id="named",
        ),
        pytest.param(
            "assert 2 == len([p for n, p in model.named_parameters()])",
            ["len([p for n, p in model.named_parameters()]) >= 2"],
            id="mirrored",
        ),
        pytest.param("assert len(list(model.parameters())) == len(decay) + len(rest)", [""], id="another sum"),
        pytest.param("assert len(list(model.parameters())) > 2", [], id="no fewer"),
        pytest.param("assert len(list(ema.parameters())) == 2", [], id="another model"),
        pytest.param("assert len(args.gpus) == 2", [], id="something else"),
        pytest.param("names = []\nassert len(names) == 0", [], id="no parameters"),
    ],
)
def test_assertions_of_the_number_of_parameters_are_found(before: str, least: list[str]) -> None:
    assert [found.least for found in survey_of(script(before=before)).assertions] == least


def test_assertion_before_the_model_is_perforated_holds() -> None:
    text = script().replace(
        "model = Net()\n", "model = Net()\nassert len(list(model.parameters())) == 2\nmodel.fc = f()\n"
    )
    assert survey_of(text).assertions == []


@pytest.mark.parametrize(
    ("body", "call", "checked"),
    [
        ("assert state['fc.weight'].any()", "check(model.state_dict(), 1)", ["model"]),
        ("assert state['fc.weight'].any()", "check(ema.state_dict(), 1)", []),
        ("assert state['fc.weight'].any()", "check(model, 1)", []),
        ("print(state)", "check(model.state_dict(), 1)", []),
        ("assert state\n    torch.save(state)", "check(model.state_dict(), 1)", []),
    ],
)
def test_checks_of_the_state_are_found(body: str, call: str, checked: list[str]) -> None:
    text = f"def check(state, path):\n    {body}\n\n" + script(call)
    assert [found.checked for found in survey_of(text).assertions] == checked


def test_what_runs_after_the_loop_is_told() -> None:
    (loop,) = survey_of(looped("range(3)") + "torch.save(model)\nprint('done')\n").loops
    assert [loop.index.place(later.node) for later in loop.leftovers] == ["line 4", "line 5"]


def test_what_leaves_the_loop_is_told() -> None:
    text = (
        "for epoch in range(3):\n    for x in y:\n        loss.backward()\n"
        "        if x:\n            break\n    if done:\n        break\n"
    )
    (loop,) = survey_of(text).loops
    assert loop.ends == [7]


# Scores


def scores_of(epoch: str, before: str = "", metric: str = "", mode: str = "") -> list[tuple[str, str, str]]:
    found = survey_of(script(epoch, before), metric=metric, mode=mode).scores
    return [(score.value, score.direction, score.ranks) for score in found]


LOSS = "val_loss = validate(model)\n"


@pytest.mark.parametrize(
    ("epoch", "score", "direction"),
    [
        pytest.param(ACC + "if acc > best:\n    best = acc", "acc", "max", id="if acc > best"),
        pytest.param(ACC + "if best < acc:\n    best = acc", "acc", "max", id="if best < acc"),
        pytest.param(ACC + "if acc >= best_acc:\n    best_acc = acc", "acc", "max", id="if acc >= best"),
        pytest.param(LOSS + "if val_loss < best:\n    best = val_loss", "val_loss", "min", id="if loss < best"),
        pytest.param(
            LOSS + "if min_loss > val_loss:\n    min_loss = val_loss", "val_loss", "min", id="if min_loss > loss"
        ),
        pytest.param(ACC + "is_best = acc > best\nbest = max(acc, best)", "acc", "max", id="is_best"),
        pytest.param(ACC + "best = max(best, acc)", "acc", "max", id="max"),
        pytest.param("x, n = validate(model)\nif x + delta < best:\n    best = x", "x", "min", id="margin"),
        pytest.param("x, n = validate(model)\nif best + 1e-4 < x:\n    best = x", "x", "max", id="margin of the best"),
        pytest.param("x, n = validate(model)\nif best - x > 1e-4:\n    best = x", "x", "min", id="a difference"),
        pytest.param(
            "x, n = validate(model)\nif 0.1 < x - best:\n    best = x", "x", "max", id="difference after a margin"
        ),
        pytest.param(
            "x, n = validate(model)\nless = best - x\nif less <= delta:\n    bad += 1\nelse:\n    best = x",
            "x",
            "min",
            id="a difference by its name",
        ),
        pytest.param(
            "x, n = validate(model)\nless = best - x\nimproved = less > 1e-4\nif improved:\n    best = x",
            "x",
            "min",
            id="a flag of its name",
        ),
        pytest.param(
            "x, n = validate(model)\nless = best - x\nbetter = less > args.gain\nif better:\n    best = x",
            "x",
            "min",
            id="one by an option",
        ),
        pytest.param(ACC + "is_best = acc > max(accs)\naccs.append(acc)", "acc", "max", id="a flag by a history"),
        pytest.param(
            "accs.append(validate(model))\nis_best = accs[-1] > np.max(accs[:-1])",
            "accs[-1]",
            "max",
            id="by a last one",
        ),
        pytest.param(
            "x, n = validate(model)\nbetter = best - x > 1e-4\nif better:\n    best = x", "x", "min", id="one of it"
        ),
        pytest.param(ACC + "if acc * 2 > best:\n    best = acc * 2", "acc * 2", "max", id="what is taken as it is"),
        pytest.param(ACC + "if (acc*2) > best:\n    best = acc * 2", "acc*2", "max", id="what is taken, spelled apart"),
        pytest.param(
            ACC + "if (acc * 2).item() > best:\n    best = acc * 2", "(acc * 2).item()", "max", id="taken as a tensor"
        ),
        pytest.param(
            "x, n = validate(model)\nnow = x / 9\nif now < best:\n    best = x / 9", "now", "min", id="worked out anew"
        ),
        pytest.param(
            f"{ACC}text = {' + '.join(['name'] * 380)}\nif acc > best:\n    best = acc",
            "acc",
            "max",
            id="beside a deep one",
        ),
        pytest.param(LOSS + "lowest = min(lowest, val_loss)", "val_loss", "min", id="min"),
        pytest.param(
            "accs.append(validate(model))\nif accs[-1] >= max(accs):\n    save()",
            "accs[-1]",
            "max",
            id="last of a list",
        ),
        pytest.param(
            "h['x'].append(validate(model))\nif h['x'][-1] == min(h['x']):\n    save()",
            "h['x'][-1]",
            "min",
            id="equal to the least",
        ),
        pytest.param("x, acc = validate(model)\nbest = min(past(h) + [x])", "x", "min", id="least with those before"),
        pytest.param("x, n = validate(model)\nif max(xs) == x:\n    save()", "x", "max", id="equal to the highest"),
        pytest.param(
            "x = f1_score(validate(model))\nes.save(x, metric=x)", "x", "max", id="by the function that makes it"
        ),
        pytest.param("r = validate(model)\nx = r['all']['mAP']\nsaver.save(metric=x)", "x", "max", id="by the item"),
        pytest.param(
            "state.validate()\nif state.x > best:\n    best = state.x", "state.x", "max", id="attribute of an object"
        ),
        pytest.param(ACC + "if acc <= best:\n    bad += 1\nelse:\n    best = acc", "acc", "max", id="better in else"),
        pytest.param(
            LOSS + "if val_loss >= best:\n    bad += 1\nelse:\n    best = val_loss",
            "val_loss",
            "min",
            id="lower in else",
        ),
        pytest.param(ACC + "if not acc > best:\n    bad += 1\nelse:\n    best = acc", "acc", "max", id="not, and else"),
        pytest.param(ACC + "if best is None or acc > best:\n    best = acc", "acc", "max", id="no best yet"),
        pytest.param(ACC + "best = acc if acc > best else best", "acc", "max", id="conditional expression"),
        pytest.param(
            "stats = evaluate(model)\nif stats['f1'] > best['f1']:\n    best = stats",
            "stats['f1']",
            "max",
            id="dict item",
        ),
        pytest.param(
            "stats = evaluate(model)\nif float(stats['acc']) > best:\n    best = float(stats['acc'])",
            "float(stats['acc'])",
            "max",
            id="made a float",
        ),
        pytest.param(
            "acc, miou = validate(model)\nif acc + miou > best:\n    best = acc + miou", "acc + miou", "max", id="sum"
        ),
        pytest.param(
            "a = test(model)\nema_acc = test(ema)\nbest = max(best, a)\nbest_ema = max(best_ema, ema_acc)",
            "a",
            "max",
            id="the model's, not its average's",
        ),
        pytest.param(
            "loss, acc = validate(model)\nearly_stopping(loss, model)", "loss", "min", id="what early stopping watches"
        ),
        pytest.param(
            "stats = validate(model)\nsaver.save(epoch, metric=stats['top1'])",
            "stats['top1']",
            "max",
            id="what keeps checkpoints",
        ),
        pytest.param("stats = validate(model)\nlog(stats['top1'])", "stats['top1']", "max", id="the item that is used"),
        pytest.param(
            "meter = evaluate(model)\nif meter.avg > best:\n    best = meter.avg", "meter.avg", "max", id="attribute"
        ),
        pytest.param(
            "s = validate(model)\nnow = s['x'][0]\nif now < low:\n    low = s['x'][0]", "now", "min", id="of what it is"
        ),
        pytest.param(
            "x = validate(model)\nnow = run.x\nnow /= 2\nif now < low:\n    low = run.x", "x", "", id="of what it was"
        ),
        pytest.param(ACC + "if acc > self.best:\n    self.best = acc", "acc", "max", id="best in an attribute"),
        pytest.param(
            "if acc > prev:\n    pass\nacc = validate(model)\nprev = 0",
            "acc",
            "max",
            id="by name where nothing is tracked",
        ),
        pytest.param("loss = evaluate(model)", "loss", "min", id="loss by name"),
        pytest.param("_, top1 = validate(model)", "top1", "max", id="in a tuple by name"),
        pytest.param(
            "train_loss = fit(model)\nval_acc = validate(model)", "val_acc", "max", id="training loss does not count"
        ),
        pytest.param(
            "train_acc = evaluate(a)\nval_acc = evaluate(b)\n"
            "if train_acc > best:\n    pass\nif val_acc > best:\n    best = val_acc",
            "val_acc",
            "max",
            id="validation before training",
        ),
        pytest.param(
            ACC + "if acc < best:\n    bad += 1\nif acc > best:\n    best = acc",
            "acc",
            "max",
            id="patience before the best",
        ),
        pytest.param(ACC + "if acc <= best:\n    bad += 1\nbest = max(best, acc)", "acc", "max", id="patience and max"),
        pytest.param(
            ACC + "if acc <= best:\n    bad += 1\n    continue\nbest = acc",
            "acc",
            "max",
            id="best taken after a continue",
        ),
        pytest.param(
            ACC + "best = best if best > acc else acc", "acc", "max", id="best stays in a conditional expression"
        ),
        pytest.param(
            LOSS + "if val_loss > last:\n    decay()\nlast = val_loss",
            "val_loss",
            "min",
            id="compared with the epoch before",
        ),
        pytest.param(ACC + "if epoch >= max_epochs:\n    break", "acc", "max", id="epoch limit"),
        pytest.param(ACC + "if lr < min_lr:\n    break", "acc", "max", id="learning rate limit"),
        pytest.param(ACC + "lr = max(lr, 1e-5)", "acc", "max", id="learning rate clamped"),
        pytest.param(
            ACC + "if acc > best:\n    best = acc\nif bad > max_patience:\n    break", "acc", "max", id="patience limit"
        ),
        pytest.param(VALUE + "best = numpy.min([best, v])", "v", "min", id="numpy's, of a list"),
        pytest.param(VALUE + "best = torch.minimum(best, v)", "v", "min", id="torch's"),
        pytest.param(VALUE + "if not (v > best):\n    torch.save(model, path)", "v", "min", id="saved if not"),
    ],
)
def test_score_and_its_direction(epoch: str, score: str, direction: str) -> None:
    assert scores_of(epoch) == [(score, direction, "all")]


@pytest.mark.parametrize(
    ("mode", "direction"),
    [
        pytest.param("", "min", id="default"),
        pytest.param(", 'max'", "max", id="by position"),
        pytest.param(", mode='max'", "max", id="by keyword"),
    ],
)
def test_plateau_tells_score_and_direction(mode: str, direction: str) -> None:
    before = f"sched = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer{mode})"
    assert scores_of("x = validate(model)\nsched.step(x)", before) == [("x", direction, "all")]


@pytest.mark.parametrize(
    "epoch",
    [
        pytest.param("pass", id="nothing"),
        pytest.param("loss = train(model)", id="training loss"),
        pytest.param("validate(model)", id="dropped"),
        pytest.param("if loss > 100:\n    break", id="compared with a number"),
        pytest.param("if epoch > args.best_after:\n    save()", id="compared with a setting"),
        pytest.param("if epoch == best_epoch:\n    save()", id="equal to the best epoch"),
        pytest.param("perf = epoch\nif perf >= best_perf:\n    best_perf = perf", id="number of the turn"),
        pytest.param("perf = -(epoch + 1)\nif perf < best:\n    best = perf", id="made of the turn's number"),
        pytest.param("for x in val:\n    loss, scalars = test_one(x)\n    log(loss)", id="last batch of validation"),
        pytest.param("for name, x in sets.items():\n    acc = validate(model, x)", id="last of several sets"),
        pytest.param("now = clock()\nif now - last > 60:\n    last = now\n    save()", id="the time since another"),
        pytest.param("_ = validate(model)", id="thrown away"),
        pytest.param("logger.best = validate(model)", id="kept in an attribute"),
        pytest.param("pass\nsched = make_val()[0]", id="item of a call"),
        pytest.param("latest = newest()", id="another name"),
        pytest.param("loss_now = train_interval(model)", id="val within a word"),
        pytest.param("model = model.eval()", id="model.eval"),
        pytest.param(
            "val_loader = get_val_loader()",
            id="validation loader",
        ),
    ],
)
def test_no_score(epoch: str) -> None:
    assert scores_of(epoch) == []


#: An object that keeps the best of what it is given, and when that was.
BEST_KEEPER = """class Keeper:
    def __init__(self):
        self.value, self.at = None, 0
    def note(self, value, at):
        if self.value is None or better(value, self.value):
            self.value, self.at = value, at
keeper, last = Keeper(), 0"""


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize(("part", "scores"), [("at", []), ("value", [("keeper.value", "max", "all")])])
def test_turn_that_an_object_keeps_is_no_score(part: str, scores: list[tuple[str, str, str]], counted: bool) -> None:
    turn = f"x = validate(model)\nkeeper.note(x, epoch)\nif keeper.{part} > last:\n    last = keeper.{part}"
    text = script(turn, BEST_KEEPER)
    if counted:
        (head,) = [line for line in text.splitlines() if line.startswith("for epoch in ")]
        text = text.replace(head, "epoch = 0\nwhile True:").replace("    x = ", "    epoch += 1\n    x = ")
    found = [(one.expression, one.direction, one.ranks) for one in survey_of(text).scores]
    assert [one for one in found if "keeper" in one[0]] == scores


def test_scheduler_of_every_epoch_tells_the_score() -> None:
    assert scores_of("x = validate(model)\nlr_sched.step(epoch + 1, x[key])") == [("x[key]", "", "all")]
    assert scores_of("x, acc = validate(model)\nlr_sched.step(epoch, x)") == [("acc", "max", "all")]


def test_collection_that_is_added_to_is_no_score() -> None:
    assert scores_of("stats = evaluate(model)\nstats['epoch'] = epoch\nlog(stats)") == []


def test_what_early_stopping_watches_is_no_score_turned_round() -> None:
    assert scores_of("x = validate(model)\nearly_stopping(1 - acc_of(x))")[0][:2] == ("x", "")


@pytest.mark.parametrize("name", ["val_metrics", "result", "stats", "report"])
def test_name_of_several_measures_is_no_score(name: str) -> None:
    found = survey_of(script(f"{name} = evaluate(model)\nlog({name})"))
    assert (found.scores, [measure for measure, _ in found.measures]) == ([], [f"{name}[...]"])
    counted = "def evaluate(net):\n    with torch.no_grad():\n        return run(net) / 2"
    assert [name for name, _, _ in scores_of(f"{name} = evaluate(model)", counted)] == [name]


def test_collection_without_a_known_item_is_no_score() -> None:
    assert scores_of("stats = evaluate(model)\nlog({k: v for k, v in stats.items()})") == []


RETURNING = (
    "import numpy as np\ndef validate(model):\n    with torch.no_grad():\n        a = b = run(model)\n    return "
)


@pytest.mark.parametrize(
    ("returned", "epoch", "scores"),
    [
        pytest.param("a, b, a / b", "accs = validate(model)\nprint(accs)", [], id="tuple"),
        pytest.param("[a, b]", "accs = validate(model)\nprint(accs)", [], id="list"),
        pytest.param("np.zeros(9)", "accs = validate(model)\nprint(accs)", [], id="array"),
        pytest.param("{'acc': a}", "acc = validate(model)\nprint(acc)", [], id="dictionary"),
        pytest.param("np.zeros(9)", "accs = validate(model)\nlog(np.mean(accs))", ["np.mean(accs)"], id="mean"),
        pytest.param("np.zeros(9)", "accs = validate(model)\nlog(accs.mean())", ["accs.mean()"], id="its own mean"),
        pytest.param("{'ap': np.zeros(9)}", "x = validate(model)\nlog(x['ap'])", [], id="array in a dictionary"),
        pytest.param(
            "{'ap': np.zeros(9)}", "x = validate(model)\nlog(np.mean(x['ap']))", ["np.mean(x['ap'])"], id="mean of it"
        ),
        pytest.param("{'ap': a}", "x = validate(model)\nlog(x['ap'])", ["x['ap']"], id="number in a dictionary"),
        pytest.param("a / b", "acc = validate(model)\nlog(acc)", ["acc"], id="number"),
        pytest.param(
            "{'acc': a}",
            "out = {}\npreds = out['flow']\nout = validate(model)\nlog(out)",
            [],
            id="item of an earlier one",
        ),
    ],
)
def test_score_is_a_single_number(returned: str, epoch: str, scores: list[str]) -> None:
    assert [name for name, _, _ in scores_of(epoch, f"{RETURNING}{returned}\n")] == scores


@pytest.mark.parametrize(
    "several",
    [
        pytest.param("for i in range(9):\n    y = x[i]\n    if y > best[i]:\n        best[i] = y", id="given an item"),
        pytest.param("for i in range(9):\n    if x[i] > best[i]:\n        best[i] = x[i]", id="item"),
        pytest.param("for k, v in x.items():\n    if v > best[k]:\n        best[k] = v", id="loop variable"),
        pytest.param("for k, v in x.items():\n    best[k] = max(best[k], v)", id="max"),
    ],
)
def test_each_of_several_measures_is_no_score(several: str) -> None:
    assert scores_of("x = validate(model)\n" + several) == []


@pytest.mark.parametrize(
    "sets",
    [
        pytest.param(
            "for k, s in [('a', a), ('b', b)]:\n    y = s()\n    if y > best[k]:\n        best[k] = y", id="if"
        ),
        pytest.param("for k in ['a', 'b']:\n    y = run(k)\n    best[k] = max(best[k], y)", id="max"),
    ],
)
def test_best_of_each_of_several_sets_is_no_score(sets: str) -> None:
    assert scores_of(sets) == []


@pytest.mark.parametrize("size", ["x.size(1)", "x.shape[0]", "len(x)"])
def test_size_that_is_limited_is_no_score(size: str) -> None:
    assert scores_of(f"x = crop(batch)\nmost = 9\nif {size} < most:\n    most = {size}") == []
    assert scores_of(f"x = crop(batch)\nn = {size}\nmost = 9\nif n < most:\n    most = n") == []
    assert scores_of(f"acc = validate(model) / {size}\nif acc > best:\n    best = acc") == [("acc", "max", "all")]


def test_score_of_a_phase_with_its_loader_is_one() -> None:
    epoch = (
        "for phase, data in (('train', a), ('val', b)):\n    acc = run(data)\n"
        "    if acc > best[phase]:\n        best[phase] = acc"
    )
    assert [name for name, _, _ in scores_of(epoch)] == ["acc"]


def test_score_of_a_phase_is_one() -> None:
    epoch = "for phase in ['train', 'val']:\n    acc = run(phase)[phase]\n    if acc > best:\n        best = acc"
    assert [name for name, _, _ in scores_of(epoch)] == ["acc"]


@pytest.mark.parametrize(
    ("end", "expression"),
    [
        pytest.param(
            "if rank == 0:\n        return a\n", "out[0] if out is not None else None", id="falls off its end"
        ),
        pytest.param(
            "if gpu == 0:\n        return a\n    return None\n", "out[0] if out is not None else None", id="None"
        ),
        pytest.param("if rank == 0:\n        return a\n    return b\n", "out[0]", id="something else"),
        pytest.param("return a\n", "out[0]", id="all ranks"),
    ],
)
def test_item_of_what_other_ranks_lack_is_taken_where_it_is(end: str, expression: str) -> None:
    validates = "def validate(model):\n    a = b = run(model)\n    " + end
    assert [name for name, _, _ in scores_of("out = validate(model)", validates, metric="out[0]")] == [expression]
    assert [name for name, _, _ in scores_of("out = validate(model)", validates, metric="out")] == ["out"]


def test_optimizer_that_is_made_together_with_the_model_is_not_the_model() -> None:
    text = """
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP

    def build(kind):
        return MAKERS[kind]()

    class Trainer:
        def __init__(self, kind):
            tensors, model, optimizer = build(kind)
            model = DDP(model)
            self.net, self.optimizer = model, optimizer

        def run(self):
            log(self.optimizer)
            for epoch in range(9):
                self.epoch()
                acc = validate()
                best = max(acc, best)

        def epoch(self):
            for x, y in loader:
                loss = criterion(self.net(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
    """
    (score,) = survey_of(text).scores
    assert score.model == "self.net"


def test_score_computed_from_what_is_made_under_a_condition_is_handed_over_there() -> None:
    text = script("if epoch % 5 == 0:\n    stats = evaluate(model)\n    print(np.mean(stats['ap']))")
    for metric in ("np.mean(stats['ap'])", "stats['ap'].mean()"):
        (score,) = survey_of(text, metric=metric).scores
        assert (score.expression, score.condition, score.guarded) == (metric, "epoch % 5 == 0", True)


def test_scores_of_exclusive_branches_are_one() -> None:
    (score,) = survey_of(script("if ema:\n    acc = validate(ema)\nelse:\n    acc = validate(model)\nsave()")).scores
    assert (score.guarded, score.captured) == (False, False)
    assert score.index.source.code(score.anchors["report"]) == "save()"


def test_score_that_another_branch_takes_over_is_there_in_both() -> None:
    made = "iou = validate(model)\nif iou == 0:\n    score = -loss_of(model)\nelse:\n    score = iou\n"
    (score,) = survey_of(script(made + "is_best = score > best\nbest = max(score, best)")).scores
    assert (score.expression, score.guarded, score.condition) == ("score", False, "")


def test_ambiguous_names_give_several() -> None:
    assert [name for name, _, _ in scores_of("loss, acc = validate(model)")] == ["loss", "acc"]


TWO = "loss, acc = validate(model)\nif acc > best:\n    best = acc\nif loss < least:\n    least = loss\n"


@pytest.mark.parametrize(
    ("epoch", "scores"),
    [
        pytest.param(TWO, ["acc", "loss"], id="both kept"),
        pytest.param(TWO.replace("least", "bests['loss']['low']"), ["acc", "loss"], id="one in an item of an item"),
        pytest.param(TWO + "    torch.save(state)", ["loss"], id="one saved"),
        pytest.param(TWO + "if acc >= best:\n    save(model)", ["acc"], id="one saved later"),
        pytest.param("is_best = acc > best\n" + TWO + "save(state, is_best)", ["acc"], id="one saved by a flag"),
        pytest.param(TWO + "    good = True\nif good:\n    save(model)", ["loss"], id="by a flag of its own"),
        pytest.param(TWO + "    save(a)\nif acc >= best:\n    save(b)", ["acc", "loss"], id="both saved"),
    ],
)
def test_score_by_which_a_checkpoint_is_saved_is_preferred(epoch: str, scores: list[str]) -> None:
    assert [name for name, _, _ in scores_of(epoch)] == scores


@pytest.mark.parametrize(
    ("epoch", "scores"),
    [
        pytest.param(
            "a_acc = evaluate(x)\nval_acc = evaluate(y)\ntest_acc = evaluate(z)", ["val_acc"], id="and not of the test"
        ),
        pytest.param(
            "a = evaluate(x)\ntest_stats = evaluate(y)\nlog(f(a['acc']), f(test_stats['acc']))",
            ["test_stats['acc']"],
            id="of the test where there is no other",
        ),
        pytest.param(
            "val_acc, val_f1 = evaluate(x)\ntest_f1 = evaluate(y)", ["val_acc", "val_f1", "test_f1"], id="of several"
        ),
        pytest.param("value_acc = evaluate(x)\ndevice_acc = evaluate(y)", ["value_acc", "device_acc"], id="in a word"),
    ],
)
def test_score_of_validation_is_preferred(epoch: str, scores: list[str]) -> None:
    assert [name for name, _, _ in scores_of(epoch)] == scores


@pytest.mark.parametrize(
    "epoch",
    [
        pytest.param(
            "if rank == 0:\n    acc = validate(model)\n    if acc > best:\n        best = acc", id="rank == 0"
        ),
        pytest.param(
            "if is_main_process():\n    acc = validate(model)\n    best = max(best, acc)", id="is_main_process"
        ),
        pytest.param(
            "if dist.get_rank() == 0 and epoch % 2:\n    acc = validate(model)\n    best = max(best, acc)",
            id="get_rank and epoch",
        ),
    ],
)
def test_score_of_the_first_rank_only(epoch: str) -> None:
    assert scores_of(epoch) == [("acc", "max", "first")]


@pytest.mark.parametrize(
    "epoch",
    [
        pytest.param(ACC + "if rank == 0:\n    best = max(best, acc)", id="only the best is rank 0's"),
        pytest.param(
            "if epoch % 2 == 0:\n    acc = validate(model)\n    best = max(best, acc)", id="every second epoch"
        ),
        pytest.param("with context:\n    acc = validate(model)\nbest = max(best, acc)", id="with"),
        pytest.param(
            "ranked = 1\nif ranked_epoch:\n    acc = validate(model)\n    best = max(best, acc)",
            id="rank within a word",
        ),
    ],
)
def test_score_of_all_ranks(epoch: str) -> None:
    assert scores_of(epoch) == [("acc", "max", "all")]


def keeping(function: str, epoch: str = "test(epoch)", metric: str = "") -> Script:
    """Return the survey of a script whose loop calls a local function."""
    return survey_of(script(epoch, code(function)), metric=metric)


def keeper(best: str = "best_acc", head: str = "", made: str = "acc = run()", end: str = "", inside: str = "") -> str:
    """Return a function that keeps the best of its score."""
    outer = f"    global {best}\n" if best.isidentifier() else ""
    tracks = f"if acc > {best}:\n    {best} = acc\n{inside and indent(inside, '    ')}"
    return f"{head}def test(epoch):\n{outer}{indent(made, '    ')}\n{indent(tracks, '    ')}\n{indent(end, '    ')}\n"


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(keeper(), id="global"),
        pytest.param(keeper(best="best['acc']"), id="item"),
        pytest.param(keeper(best="best['test']['acc']"), id="item of an item"),
        pytest.param(keeper(best="state.best"), id="attribute"),
        pytest.param(keeper(head="@torch.no_grad()\n"), id="under no_grad"),
        pytest.param(keeper(made="for x in y:\n    acc = run()"), id="made in a loop"),
        pytest.param(keeper(end="save()"), id="with work after it"),
        pytest.param(keeper(end="return"), id="bare return at the end"),
    ],
)
def test_score_that_a_function_keeps_to_itself(function: str) -> None:
    found = keeping(function)
    assert [(s.expression, s.direction, s.condition, s.code) for s in found.scores] == [
        ("acc", "max", "", "test(epoch)")
    ]
    assert [(kept.expression, kept.guarded, kept.returns) for kept in found.kept_scores] == [("acc", False, False)]


METHODS = """
class Trainer:
    def __init__(self):
        self.model = DDP(Net())
        self.acc = 0
    def validate(self):
        self.acc = run()
    def save(self):
        if rank == 0 and self.acc > self.best:
            self.best = self.acc
    def fit(self):
        for epoch in range(10):
            for x in y:
                self.model(x).backward()
            if epoch % 5 == 0:
                self.validate()
            self.save()
"""


@pytest.mark.parametrize(
    ("old", "new", "score"),
    [
        pytest.param("", "", [("self.acc", "max", "all", "epoch % 5 == 0")], id="for another method"),
        pytest.param(
            "        self.acc = run()", "        if rank == 0:\n            self.acc = run()", [], id="on one rank"
        ),
        pytest.param(
            "        self.acc = run()",
            "        if rank:\n            return\n        self.acc = run()",
            [],
            id="after some ranks have left",
        ),
        pytest.param("            self.save()", "            self.validate()\n            self.save()", [], id="twice"),
        pytest.param(
            "        self.acc = 0",
            "        self.state = {}\n    def forget(self):\n        self.acc = 0",
            [],
            id="and elsewhere",
        ),
    ],
)
def test_score_that_a_method_leaves_in_an_attribute(old: str, new: str, score: list[object]) -> None:
    found = survey_of(DDP + (METHODS.replace(old, new) if old else METHODS)).scores
    assert [(s.expression, s.direction, s.ranks, s.condition) for s in found] == score


BEST = """
class Best:
    def update(self, epoch, found):
        if found['x'] > self.best:
            self.best = found['x']
best = Best()
"""


@pytest.mark.parametrize(
    ("epoch", "old", "new", "score"),
    [
        pytest.param("s = run()\nif best.update(epoch, s):\n    save()", "", "", [("s['x']", "max")], id="item"),
        pytest.param("s = run()\nbest.update(epoch, found=s)", "['x']", "", [("s", "max")], id="itself"),
        pytest.param(
            "s = run()\nbest.update(epoch, s)", "        if", "        found = 1\n        if", [], id="made anew"
        ),
        pytest.param("for s in run():\n    best.update(epoch, s)", "", "", [], id="each of several"),
        pytest.param("best.update(epoch, old)", "", "", [], id="not of this epoch"),
    ],
)
def test_score_that_a_function_is_given_to_keep_the_best(epoch: str, old: str, new: str, score: list[object]) -> None:
    found = survey_of(script(epoch, BEST.replace(old, new) if old else BEST)).scores
    assert [(s.expression, s.direction) for s in found] == score


def test_score_that_a_function_leaves_in_a_global() -> None:
    text = script("test()\nif x > best:\n    best = x", "def test():\n    global x\n    x = run()")
    assert [(s.expression, s.direction) for s in survey_of(text).scores] == [("x", "max")]


def test_validation_of_an_averaged_model_besides_the_model_is_not_the_score() -> None:
    test = "def validate(net):\n    acc = run(net)\n    return acc"
    (score,) = survey_of(script("validate(model)\nif x:\n    validate(model_ema)", test)).scores
    assert (score.code, score.condition) == ("validate(model)", "")
    (score,) = survey_of(script("validate(model_ema)", test)).scores
    assert score.code == "validate(model_ema)"


def test_metric_of_what_a_function_returns_is_taken_there() -> None:
    text = script("evaluate(model)", "def evaluate(net):\n    found = run(net)\n    return found")
    (score,) = survey_of(text, metric="found.stats['box'][0]", mode="max").scores
    assert score.kept is not None
    assert score.kept.call == "evaluate(model).stats['box'][0]"
    assert survey_of(text, metric="founding", mode="max").scores[0].kept is None


def test_score_that_a_method_keeps_to_itself() -> None:
    text = DDP + code("""
        class Trainer:
            def __init__(self):
                self.model = DDP(Net())
            def validate(self, epoch):
                acc = run()
                if acc > self.best:
                    self.best = acc
            def fit(self):
                for epoch in range(10):
                    for x in y:
                        self.model(x).backward()
                    self.validate(epoch)
    """)
    assert [(s.expression, s.code) for s in survey_of(text).scores] == [("acc", "self.validate(epoch)")]


@pytest.mark.parametrize(
    ("made", "guarded", "condition", "ranks"),
    [
        pytest.param("if rank != 0:\n    return\nacc = run()", False, "", "first", id="other ranks return early"),
        pytest.param("if epoch % 2:\n    return\nacc = run()", False, "not (epoch % 2)", "all", id="epochs without"),
        pytest.param("if rank == 0:\n    acc = run()", True, "", "first", id="made on the first rank"),
        pytest.param("if epoch > 3:\n    acc = run()", True, "epoch > 3", "all", id="made in some epochs"),
    ],
)
def test_kept_score_under_a_condition(made: str, guarded: bool, condition: str, ranks: str) -> None:
    (score,) = keeping(keeper(made=made)).scores
    assert score.kept is not None
    assert (score.kept.guarded, score.condition, score.ranks) == (guarded, condition, ranks)


@pytest.mark.parametrize("test", ["acc > best_acc", "rank == 0 and acc > best_acc"])
def test_a_score_that_a_function_deletes_is_kept_before_that(tmp_path: Path, test: str) -> None:
    function = keeper(end="del acc\nreturn").replace("if acc > best_acc", f"if {test}")
    new = rewritten(plan_of(tmp_path, script("test(epoch)", function)))
    kept, _, rest = new.partition("    del acc\n")
    assert "    pai_score = acc\n" in kept
    assert rest.startswith("    return pai_score\n")


#: A training that one script starts for a single process, and others for several.
EITHER = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def test(net, best, seen=None):
    acc = run(net) if seen is None else seen
    if acc > best:
        torch.save(net.state_dict(), "best.pt")
        best = acc
    return best

def fit(rank=None, world_size=None):
    ddp = True if world_size else False
    model = Net()
    if ddp:
        torch.distributed.init_process_group("nccl", rank=rank, world_size=world_size)
        model = DDP(model)
    else:
        model = torch.nn.DataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best = 0
    for epoch in range(10):
        for x, y in loader:
            criterion(model(x), y).backward()
            optimizer.step()
        if ddp:
            seen = run(model)
            if rank == 0:
                best = test(model, best, seen)
        else:
            best = test(model, best)

fit(START)
"""


@pytest.mark.parametrize(
    ("start", "kind", "score"),
    [
        pytest.param("", "dp", "acc", id="one process"),
        pytest.param("world_size=None", "dp", "acc", id="that is said"),
        pytest.param("number, count", "ddp", "best", id="several"),
    ],
)
def test_what_a_start_by_constants_rules_out_is_no_way_to_train(
    tmp_path: Path, start: str, kind: str, score: str
) -> None:
    """A function that one call alone runs then notes what it compares with the best, which others only return."""
    plan = plan_of(tmp_path, EITHER.replace("START", start))
    assert (plan.script.kind, [one.expression for one in plan.script.scores]) == (kind, [score])
    told = ["which only some ranks compare" in one.message for one in plan.questions]
    assert told == [True] * (kind == "ddp")


def test_a_best_so_far_keeps_its_value_in_a_choice_that_goes_on_from_it(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, EITHER.replace("START", ""), Options(metric="best", mode="max"))
    new = rewritten(plan)
    assert "report_validation_score(best, model)" in new
    assert "best = None" not in new


def test_kept_score_of_a_function_that_is_called_under_a_condition() -> None:
    (score,) = keeping(keeper(), "if epoch % 5 == 0:\n    test(epoch)\nlog()").scores
    assert (score.guarded, score.condition) == (True, "epoch % 5 == 0")


FIT = """
def fit(net, history):
    val_loss = 0
    for x, y in loader:
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
    net.eval()
    for x, y in val:
        val_loss += criterion(net(x), y)
    history.append(val_loss / n)
    if len(history) <= 1 or val_loss / n <= min(history):
        torch.save(net.state_dict(), path)
for epoch in range(9):
    fit(model, history)
"""


@pytest.mark.parametrize(
    ("old", "new", "score"),
    [
        pytest.param("", "", [("val_loss / n", "min", True)], id="of what it validates"),
        pytest.param("    net.eval()\n", "", [], id="of what it trains"),
        pytest.param("torch.save(net.state_dict(), path)", "print(history)", [], id="of nothing"),
    ],
)
def test_best_kept_by_a_function_that_trains_and_validates(old: str, new: str, score: list[object]) -> None:
    head, _ = script().split("for epoch")
    found = survey_of(head + (FIT.replace(old, new) if old else FIT)).scores
    assert [(s.expression, s.direction, s.kept is not None) for s in found] == score


@pytest.mark.parametrize(
    ("call", "last", "score"),
    [
        pytest.param("validate(model)", "return top1.avg", ["top1.avg"], id="a score by its name"),
        pytest.param("validate(model)", "return results", [], id="who knows what"),
        pytest.param("validate(model)", "return 1 - acc", [], id="turned round"),
        pytest.param("validate(model)", "return preds, acc", ["acc"], id="one of several values"),
        pytest.param("validate(model)", "return {'n': n, 'val': acc}", ["acc"], id="an item"),
        pytest.param("validate(model)", "return loss, acc", ["loss", "acc"], id="several values"),
        pytest.param(
            "validate(model)", "if x:\n        return 0, acc\n    return acc, 0", ["acc"], id="at several places"
        ),
        pytest.param("validate(model)", "for acc in accs:\n        log(acc)\n    return acc, 1", [], id="last of all"),
        pytest.param("log(validate(model))", "return acc", ["acc"], id="given to a call alone"),
        pytest.param("print(f'{validate(model):.3f}')", "return acc", ["acc"], id="written alone"),
        pytest.param("val_loss = 1 - validate(model)", "return acc", ["val_loss"], id="what is made of it is taken"),
        pytest.param("print(validate(model) if epoch > 3 else 0)", "return acc", [], id="in some turns alone"),
        pytest.param("if done: pass\nelif validate(model) > 9: pass", "return acc", [], id="on some ways alone"),
    ],
)
def test_score_that_is_returned_and_dropped(call: str, last: str, score: list[str]) -> None:
    assert [
        s.expression
        for s in survey_of(script(call, f"def validate(net):\n    loss, acc, top1 = run(net)\n    {last}")).scores
    ] == score


VALIDATES_BY_TWO = "def validate(net):\n    loss, acc = run(net)\n    return {'acc': acc, 'loss': loss}"


@pytest.mark.parametrize(
    ("epoch", "taken", "functions"),
    [
        pytest.param(
            "best = max(best, validate(model))",
            "best = max(best, (pai_score := validate(model)))",
            "def validate(net):\n    acc = run(net)\n    return acc",
            id="max",
        ),
        pytest.param(
            "if validate(model)['acc'] > best:\n    best = validate(model)['acc']",
            "if (pai_score := validate(model)['acc']) > best:",
            VALIDATES_BY_TWO,
            id="an item",
        ),
        pytest.param(
            "if judge.evaluate(model) > best:\n    best = judge.evaluate(model)",
            "if (pai_score := judge.evaluate(model)) > best:",
            "class Judge:\n    def evaluate(self, net):\n        acc = run(net)\n        return acc\n\njudge = Judge()",
            id="a method",
        ),
    ],
)
def test_what_is_validated_within_an_expression_is_not_validated_again(
    tmp_path: Path, epoch: str, taken: str, functions: str
) -> None:
    plan = plan_of(tmp_path, script(f"{epoch}\nprint(best)", f"{functions}\nbest = 0.0"))
    text = rewritten(plan)
    assert plan.questions == []
    assert taken in text
    assert "report_validation_score(pai_score, model" in text


OUTSIDE = """
class History:
    def __init__(self):
        self.values, self.newest = defaultdict(list), {}

    def add(self, name, value):
        self.values[name].append(value)
        self.newest[name] = value

    def last(self, name):
        return self.values[name][-1]

class Clock:
    def __init__(self):
        self.begun = time.time()

    def seconds(self):
        return time.time() - self.begun

def memory():
    return torch.cuda.max_memory_allocated()

def others(meter=None):
    meter = Clock()
    return meter


history, clock, meter = History(), Clock(), library.Meter()
best = 0.0
"""


@pytest.mark.parametrize(
    ("score", "found"),
    [
        pytest.param("history.last('acc')", True, id="a method"),
        pytest.param("history.newest['acc']", True, id="an item"),
        pytest.param("torch.cuda.max_memory_allocated('acc')", False, id="of a library"),
        pytest.param("optimizer.param_groups[0]['lr']", False, id="of a library's object"),
        pytest.param("memory()", False, id="a function that validates nothing"),
        pytest.param("clock.seconds()", False, id="a method that validates nothing"),
        pytest.param("meter.seconds()", False, id="of a library's object, of the name of another one"),
    ],
)
def test_score_of_an_object_that_the_loop_fills(score: str, found: bool) -> None:
    epoch = f"history.add('acc', validate(model))\nif {score} > best:\n    best = {score}\n    torch.save(model, path)"
    scores = survey_of(script(epoch, OUTSIDE)).scores
    assert [(one.expression, one.direction) for one in scores] == ([(score, "max")] if found else [])


@pytest.mark.parametrize(
    ("epoch", "score"),
    [
        pytest.param("model.eval()\nval_acc = right / n", ["val_acc"], id="made inline"),
        pytest.param("val_acc = right / n", [], id="not validating"),
        pytest.param("model.eval()\nwith torch.no_grad():\n    acc = right / n", ["acc"], id="without gradients"),
        pytest.param("model.eval()\nfor x in val:\n    loss = loss_of(x)", [], id="of single batches"),
        pytest.param("model.eval()\nacc = 0", [], id="only begun"),
        pytest.param("model.eval()\nfor x in val:\n    acc += f(x)\nacc /= n", ["acc"], id="divided"),
        pytest.param("model.eval()\nfor x in val:\n    acc += f(x)\n    acc /= n", [], id="divided for each batch"),
        pytest.param("model.train(False)\nacc = meter.avg", ["acc"], id="a meter's average"),
        pytest.param("model.eval()\nloss /= n\nacc = right / n", ["acc"], id="one of them computed"),
        pytest.param("model.eval()\nloss /= n\nacc /= n", ["loss", "acc"], id="two of them divided"),
        pytest.param("model.eval()\nloss_fn = self.loss_fn", [], id="attribute"),
        pytest.param("for x in val_loader:\n    n += f(x)\nacc = n / 9", ["acc"], id="without eval()"),
        pytest.param(
            "for x in val_loader:\n    model.eval()\n    told = np.append(told, f(x))\n    model.train()\n"
            "acc = (told == meant).mean()",
            ["acc"],
            id="a mean of what is told",
        ),
        pytest.param("for x in train_loader:\n    n += f(x)\nacc = n / 9", [], id="of training data"),
        pytest.param("model.eval()\ncorrect = torch.zeros(1)\nacc = f(correct) / n", ["acc"], id="tensor begun"),
        pytest.param("model.eval()\nmodel.train()\ntrain_loss = total / n", [], id="training again"),
        pytest.param("model.eval()\nval_loss = total / n\nmodel.train()", ["val_loss"], id="training afterwards"),
        pytest.param("model.eval()\ncmc, mAP = metric.compute()", ["mAP"], id="one of several"),
        pytest.param("model.eval()\nfor x in val:\n    acc, n = run(x)", [], id="one of several of single batches"),
    ],
)
def test_score_of_a_validation_in_the_loop_itself(epoch: str, score: list[str]) -> None:
    assert [name for name, _, _ in scores_of(epoch)] == score


def test_call_of_several_lines_is_told_as_at_module_level() -> None:
    test = "def test(net, n):\n    acc = run(net)\n    return acc"
    (score,) = survey_of(script("if x:\n    test(model,\n         n)", test), metric="acc").scores
    assert score.kept is not None
    assert score.kept.call == "test(model,\n     n)"


def test_what_validation_knows_is_told() -> None:
    test = """
        def test(net):
            top1 = Meter()
            loss_avg = Meter()
            for x in val:
                loss = loss_of(net(x))
                top1.update(x)
            mean_iou = iou()
            correct += mean_iou
            print(top1.avg, f"{100. * correct / n:.2f}%")
    """
    found = survey_of(script("test(model)\nstats = evaluate(model)\nlog(**stats)", code(test)))
    assert [name for name, _ in found.measures] == ["top1.avg", "mean_iou", "100. * correct / n", "stats[...]"]


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        pytest.param("errors[task]", ["errors[task]"], id="in the sum's place"),
        pytest.param("means[task]", ["sum(errors[task]) / len(errors[task])"], id="beside it"),
    ],
)
def test_a_mean_that_is_kept_as_an_item_is_proposed_as_that(kept: str, told: list[str]) -> None:
    mean = "sum(errors[task]) / len(errors[task])"
    text = (
        "def validate():\n    errors = {'ctc': []}\n    for x in valid:\n        errors['ctc'].append(rate(model(x)))\n"
    )
    text += f"    for task in ['ctc']:\n        {kept} = {mean}\n"
    found = survey_of(text + script("validate()"))
    assert ([name for name, _ in found.measures], found.scores) == (told, [])


@pytest.mark.parametrize(
    ("mean", "told"),
    [
        ("val_loss = val_loss / n", "val_loss"),
        ("mean_loss = val_loss / n", "mean_loss"),
        ("log(val_loss / n)", "val_loss / n"),
    ],
)
def test_sum_of_a_validation_is_told_as_its_mean_is_called(mean: str, told: str) -> None:
    test = f"""
        def test(net):
            val_loss = 0.0
            for x in val:
                val_loss += loss_of(net(x))
            {mean}
            print(n)
    """
    found = survey_of(script("test(model)", code(test)))
    assert [name for name, _ in found.measures] == [told]


def test_what_validation_knows_is_told_whatever_it_returns() -> None:
    test = """
        def test(net):
            top1 = Meter()
            for x in val:
                tmp_loss, n = run(net(x))
                top1.update(tmp_loss.mean())
                if n:
                    batch_acc = run(n)
            print(top1.avg)
            found = {}
            found["loss"] = other = mean_of(top1)
            return RETURNED
    """
    for returned, told in (("found", []), ("other", ["other"]), ("n + 1", [])):
        found = survey_of(script("test(model)", code(test).replace("RETURNED", returned).replace('"', "'")))
        assert [name for name, _ in found.measures] == ["top1.avg", "found['loss']", *told]


@pytest.mark.parametrize(
    ("epoch", "told"),
    [
        pytest.param("for x in val_loader:\n    val_loss += run(x)\nlog(val_loss)", ["val_loss"], id="sum"),
        pytest.param(
            "for x in testloader:\n    a_loss += run(x)\nlog(a_loss / len(testloader))",
            ["a_loss / len(testloader)"],
            id="mean where it is logged",
        ),
        pytest.param(
            "model.eval()\nfor x in data:\n    correct += run(x)\nlog(100. * correct / n)",
            ["100. * correct / n"],
            id="per cent",
        ),
        pytest.param("for x in val:\n    losses.append(run(x))\nlog(np.mean(losses))", ["np.mean(losses)"], id="list"),
        pytest.param(
            "for x in val:\n    xs.append(run(x))\nlog(sum(xs) / len(xs))", ["sum(xs) / len(xs)"], id="sum of it"
        ),
        pytest.param("for x in TestLoader:\n    m.update(run(x))\nlog(m.avg)", ["m.avg"], id="meter"),
        pytest.param("for x in val:\n    m.update(run(x))\nlog(m.mean())", ["m.mean()"], id="meter's method"),
        pytest.param("for x in val:\n    m.update(run(x))\nm = m.mean()\nlog(m)", ["m"], id="mean under the same name"),
        pytest.param(
            "m = DictMeter()\nfor x in val:\n    m.update(run(x))\nlog(m.mean())", ["m.mean()[...]"], id="of several"
        ),
        pytest.param("for x in val:\n    loss = run(x)\nlog(loss)", [], id="last batch"),
        pytest.param("for x in intervals:\n    a_loss += run(x)\nlog(a_loss)", [], id="not validating"),
        pytest.param("for x in devices:\n    a_loss += run(x)\nlog(a_loss)", [], id="devices"),
        pytest.param(
            "model.eval()\nmodel.train()\nfor x in data:\n    a_loss += run(x)\nlog(a_loss)", [], id="in training mode"
        ),
        pytest.param("for x in val:\n    n += len(x)\nlog(n / 2)", [], id="count"),
        pytest.param("for a_loss in val:\n    log(a_loss)", [], id="each number of a collection"),
    ],
)
def test_what_a_validation_in_the_loop_adds_up_is_told(epoch: str, told: list[str]) -> None:
    found = survey_of(script(epoch))
    assert ([s.expression for s in found.scores], [name for name, _ in found.measures]) == ([], told)


@pytest.mark.parametrize(
    ("last", "score"),
    [
        pytest.param("return loss, 100 * right", ["x"], id="by the expression that made it"),
        pytest.param("return loss, acc.item()", ["x"], id="as a plain number"),
        pytest.param("return loss, 99", ["acc"], id="something else"),
    ],
)
def test_score_that_a_function_keeps_and_returns_otherwise(last: str, score: list[str]) -> None:
    found = keeping(keeper(made="acc = 100 * right", end=last), "loss, x = test(epoch)")
    assert [s.expression for s in found.scores] == score


@pytest.mark.parametrize(
    ("last", "score"),
    [
        pytest.param("return loss, acc", ["x[1]"], id="tuple"),
        pytest.param("return [acc.item(), loss]", ["x[0]"], id="list"),
        pytest.param("return {'loss': loss, 'top1': acc}", ["x['top1']"], id="dictionary"),
        pytest.param("if y:\n    return acc, loss\nreturn loss, acc", ["acc"], id="not always at the same place"),
        pytest.param("return loss, other", ["acc"], id="not in it"),
        pytest.param("return acc, acc", ["acc"], id="twice in it"),
    ],
)
def test_score_that_a_function_keeps_and_returns_with_others(last: str, score: list[str]) -> None:
    found = keeping(keeper(made="acc = 100 * right", end=last), "x = test(epoch)")
    assert [s.expression for s in found.scores] == score


@pytest.mark.parametrize(
    ("best", "taken", "direction"),
    [
        pytest.param("best[0]", "best = (x, epoch)", "max", id="tuple"),
        pytest.param("best['x']", "best = {'epoch': epoch, 'x': x}", "max", id="dictionary"),
        pytest.param("best[1]", "best = (x, epoch)", "", id="another item"),
    ],
)
def test_best_that_is_kept_with_more(best: str, taken: str, direction: str) -> None:
    epoch = f"x = validate(model)\nif x > {best}:\n    {taken}"
    assert [found[1] for found in scores_of(epoch)] == [direction]


def test_metric_by_a_name_that_training_uses_too_is_that_of_validation() -> None:
    made = "loss, acc = train(model)\nif epoch % 5 == 0:\n    loss, acc = validate(model)\nlog()"
    (score,) = survey_of(script(made), metric="acc").scores
    assert (score.guarded, score.condition) == (True, "epoch % 5 == 0")


def test_items_of_what_validation_returns_are_told() -> None:
    test = "def validate(net):\n    with torch.no_grad():\n        a = run(net)\n    return losses.avg, a, top1.avg"
    found = survey_of(script("scores = validate(model)\nlog(a + scores)", test))
    assert [name for name, _ in found.measures] == ["scores[0]", "scores[2]"]


def test_items_that_validation_fills_are_told() -> None:
    function = """
        def evaluate(net):
            stats = {k: meter.global_avg for k, meter in meters.items()}
            stats["n"] = len(val)
            stats["iou_mean"] = run(net)
            stats["coco_eval_bbox"] = coco.coco_eval["bbox"].stats.tolist()
            return stats, coco
    """
    found = survey_of(script("train_stats, _ = evaluate(a)\nstats, _ = evaluate(model)\nlog(**stats)", code(function)))
    assert [name for name, _ in found.measures] == ['stats["iou_mean"]', 'stats["coco_eval_bbox"][0]']


def test_first_number_of_a_coco_evaluation_is_told() -> None:
    epoch = "evaluator = evaluate(model)\nstats = evaluator.coco_eval['bbox'].stats\nlog(stats[0], stats[1])"
    text = script(epoch, "def evaluate(net):\n    return CocoEvaluator(net)\n")
    assert [name for name, _ in survey_of(text).measures] == ["stats[0]"]


def test_metric_of_several_values_in_one_branch_is_there_in_both() -> None:
    epoch = "if one:\n    acc = self.test(model)\nelse:\n    acc = [self.test(m) for m in sets]\nlog(acc)"
    (score,) = survey_of(script(epoch), metric="np.mean(acc)").scores
    assert (score.guarded, score.condition) == (False, "")


def test_metric_that_only_a_validation_function_knows_is_returned_by_it() -> None:
    text = script(
        "test(model)",
        "def test(net):\n    top1 = Meter()\n    for x in val:\n        top1.update(x)\n    log(top1.avg)",
    )
    (score,) = survey_of(text, metric="top1.avg", mode="max").scores
    assert score.kept is not None
    assert (score.kept.expression, score.known, score.direction) == ("top1.avg", True, "max")


@pytest.mark.parametrize(
    ("end", "call", "returns"),
    [
        pytest.param("return acc", "test(epoch)", [True], id="returned and dropped"),
        pytest.param("return loss, acc", "test(epoch)", [True], id="returned in a tuple and dropped"),
        pytest.param("return acc", "x = test(epoch)", [], id="returned"),
        pytest.param("return loss, acc", "loss, x = test(epoch)", [], id="returned in a tuple"),
    ],
)
def test_score_that_a_function_keeps_and_returns(end: str, call: str, returns: list[bool]) -> None:
    found = keeping(keeper(end=end), call)
    assert [(score.direction, score.evidence.startswith("line")) for score in found.scores] == [("max", True)]
    assert [kept.returns for kept in found.kept_scores] == returns


@pytest.mark.parametrize(
    ("function", "call"),
    [
        pytest.param(keeper(), "test(epoch)\ntest(epoch)", id="called twice"),
        pytest.param(keeper(), "for i in z:\n    test(epoch)", id="called in an inner loop"),
        pytest.param(keeper(end="yield acc"), "test(epoch)", id="generator"),
        pytest.param(keeper(made="acc = last"), "test(epoch)", id="only another name's value"),
        pytest.param("def test(epoch):\n    acc = run()\n    best = max(best, acc)\n", "test(epoch)", id="local best"),
        pytest.param(keeper().replace("run()", "0\n    run().backward()"), "test(epoch)", id="trains"),
    ],
)
def test_score_that_a_function_keeps_for_good(function: str, call: str) -> None:
    assert keeping(function, call).scores == []


@pytest.mark.parametrize(
    ("function", "call"),
    [
        pytest.param(keeper(end="return loss"), "test(epoch)", id="another value is returned"),
        pytest.param(keeper(end="return loss"), "loss = test(epoch)", id="another value is returned and named"),
        pytest.param(keeper(end="return acc"), "self.acc = test(epoch)", id="returned to an attribute"),
        pytest.param(keeper(head="@timed\n"), "test(epoch)", id="unknown decorator"),
        pytest.param(keeper(inside="return"), "test(epoch)", id="returns after the score is made"),
        pytest.param(keeper(made="try:\n    acc = run()\nexcept E:\n    pass"), "test(epoch)", id="made in a try"),
    ],
)
def test_score_that_a_function_notes_as_it_does_not_return_it(function: str, call: str) -> None:
    (score,) = keeping(function, call).scores
    assert (score.expression, score.noted) == ("acc", True)
    assert score.kept is not None
    assert score.kept.code.startswith("acc = run()")


OVER_SETS = """
def validation_epoch(epoch):
    model.eval()
    for path in paths:
        scores, labels = [], []
        for x, y in loader(path):
            with torch.no_grad():
                scores.append(model(x))
        acc_text = f'{epoch}'
        EER = tune(scores, labels)
        writer.add_scalar('eer', EER, epoch)
"""


def test_a_value_of_a_validation_of_several_sets_is_proposed_and_can_be_named() -> None:
    found = keeping(OVER_SETS, "validation_epoch(epoch)")
    assert [name for name, _ in found.measures] == ["EER"]
    (score,) = keeping(OVER_SETS, "validation_epoch(epoch)", "EER").scores
    assert score.direction == "min"
    assert score.kept is not None
    assert score.kept.guarded  # there may be no path
    guard, made = (score.index.source.code(score.kept.anchors[name]) for name in ("guard", "made"))
    assert (guard.split()[0], made.strip()) == ("for", "EER = tune(scores, labels)")


def test_what_a_validation_gives_for_each_set_is_proposed_and_kept_where_there_may_be_none() -> None:
    test = "def test(name):\n    with torch.no_grad():\n        for x in sets[name]:\n            model(x)\n"
    test += "    return rank(x), mean(x)\n"
    epoch = "if epoch % 5 == 0:\n    for name in names:\n        cmc, mAP = test(name)\n    save(model)"
    found = survey_of(script(epoch, test))
    assert ([name for name, _ in found.measures], found.scores) == (["mAP"], [])
    (score,) = survey_of(script(epoch, test), metric="mAP").scores
    assert score.index.source.code(score.anchors["made"]).strip() == "cmc, mAP = test(name)"


@pytest.mark.parametrize("made", ["perf = weigh(epoch)", "perf = epoch + acc", "perf = epoch\nif x:\n    perf = run()"])
def test_score_that_is_made_with_the_turns_number_is_one(made: str) -> None:
    assert scores_of(f"{made}\nif perf > best:\n    best = perf")[0][:2] == ("perf", "max")


TRAINERS = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Plain:
    def __init__(self, model):
        self.model = DDP(model)

    def train(self):
        for epoch in range(3):
            for x in loader:
                self.model(x).backward()

class Contrastive:
    def __init__(self, model):
        self.model = DDP(model)

    def train(self):
        for epoch in range(3):
            for x in loader:
                self.model(x, x).backward()

model = Net()
trainer = Plain(model) if plain else Contrastive(model)
trainer.train()
"""


def test_one_of_several_trainers_of_the_model_can_be_chosen() -> None:
    found = survey_of(TRAINERS)
    assert (len(found.groups), len(found.loops)) == (1, 2)
    assert found.trainers == ["Plain.self.model", "Contrastive.self.model"]
    for chosen, line in zip(found.trainers, (9, 18), strict=True):
        survey = survey_of(TRAINERS, model=chosen)
        assert [loop.line for loop in survey.loops] == [line]
        assert [wrapper.scope.enclosing_class.name for wrapper in survey.wrappers] == [chosen.partition(".")[0]]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("epoch", "silent"),
    [("self.evaluate(model)", ["self.evaluate"]), ("model.eval()", []), ("loss = criterion(model(x), y)", [])],
)
def test_a_validation_that_gives_nothing_to_the_loop_is_told(epoch: str, silent: list[str]) -> None:
    assert [name for name, _ in survey_of(script(epoch)).silent] == silent


def test_a_model_that_is_built_anew_for_a_test_is_told() -> None:
    assert survey_of(script()).apart == []
    found = survey_of(f"{script()}\nmodel = DDP(Net())\nevaluate(model)\n")
    assert len(found.apart) == 1


@pytest.mark.parametrize(
    ("function", "call", "wraps"),
    [
        ("net = DDP(net)\nreturn measured(net)", "acc = helper(model)", 1),
        ("net = DDP(net)\nreturn net", "net = helper(model)\nacc = measured(net)", 2),  # for whoever calls it
        ("net = DDP(net)\nreturn 1, {'net': net}", "acc = measured(helper(model))", 2),
        ("global model\nmodel = DDP(net)", "helper(model)\nacc = measured(model)", 2),
        ("net = DDP(net)\nholder.net = net\nreturn 1", "acc = helper(model)", 2),  # for whoever has that
        ("net = DDP(net)\nreturn Held(net)", "acc = measured(helper(model))", 2),
        ("net = DDP(net)\nfor x in y:\n    net(x).backward()\nreturn 1", "acc = helper(model)", 2),  # it trains
    ],
)
def test_wrapper_that_an_evaluation_uses_for_itself_is_left_alone(function: str, call: str, wraps: int) -> None:
    helper = f"class Held:\n    pass\n\ndef helper(net):\n{indent(function, '    ')}\n\n"
    other = "if args.predict:\n    other = Net()\n    helper(other)\n    sys.exit()\n"
    text = f"{helper}{other}{script(call)}"
    found = survey_of(text)
    assert len(found.wrappers) == wraps
    assert found.disorder == "" or wraps > 1


def test_losses_that_are_reduced_after_each_batch_are_no_score() -> None:
    reduce = "def reduce(losses):\n    with torch.no_grad():\n        return mean_of(losses)"
    text = script(before=reduce).replace(
        "        optimizer.step()\n", "        optimizer.step()\n        loss_all = reduce(loss)\n"
    )
    found = survey_of(text)
    assert (found.scores, found.measures) == ([], [])
    assert [
        s.expression for s in survey_of(text.replace("loss_all =", "if n % 9 == 0:\n            loss_all =")).scores
    ] == ["loss_all"]

    single = text.replace("for epoch in range(3):", "for n, batch in enumerate(loader):").replace(
        "    for x in y:\n", "    if True:\n"
    )
    assert survey_of(single).measures == []


@pytest.mark.parametrize(
    ("made", "compared", "condition"),
    [
        pytest.param(
            "log = {'n': epoch, **res}",
            "if epoch % 5 == 0:\n    if log[k] > best:\n        best = log[k]",
            "epoch % 5 == 0",
            id="collected",
        ),
        pytest.param(
            "",
            "if epoch % 5 == 0:\n    if res['acc'] > best:\n        best = res['acc']",
            "epoch % 5 == 0",
            id="itself",
        ),
        pytest.param(
            "",
            "if rank == 0:\n    if epoch % 5 == 0:\n        if res['acc'] > best:\n            best = res['acc']",
            "epoch % 5 == 0",
            id="on one rank",
        ),
        pytest.param(
            "",
            "if epoch % 5 == 0:\n    try:\n        if x:\n            better = res['acc'] < a\n    finally:\n        y",
            "epoch % 5 == 0",
            id="in a try",
        ),
        pytest.param("", "if res['acc'] > best:\n    best = res['acc']", "", id="in all turns"),
    ],
)
def test_score_that_is_compared_in_the_turns_that_validate_is_taken_there(
    made: str, compared: str, condition: str
) -> None:
    epoch = f"res = train(model)\nif epoch % 5 == 0:\n    res = validate(model)\n{made}\n{compared}"
    (score,) = survey_of(script(epoch)).scores
    assert (score.condition, score.guarded) == (condition, bool(condition))


@pytest.mark.parametrize("loss", ["log['loss']", "log['now']['loss']"])
@pytest.mark.parametrize(
    ("epoch", "made", "condition"),
    [
        pytest.param(
            "LOSS = 9\nif epoch % 5 == 0:\n    LOSS = validate(model)", "evaluated", "epoch % 5 == 0", id="some"
        ),
        pytest.param("LOSS = sum(step(x).item() for x in loader)", "trained", "", id="trained"),
    ],
)
def test_score_in_an_item_of_whatever_depth_is_known_as_a_variable_is(
    loss: str, epoch: str, made: str, condition: str
) -> None:
    step = "def step(x):\n    loss = model(x)\n    loss.backward()\n    return loss"
    epoch = f"{epoch}\nif LOSS < best:\n    best = LOSS".replace("LOSS", loss)
    (score,) = survey_of(script(epoch, f"{step}\nlog = {{'now': {{}}}}")).scores
    assert (score.expression, score.made, score.condition) == (loss, made, condition)


def test_score_that_is_compared_in_some_of_the_turns_is_there_in_all() -> None:
    (score,) = survey_of(script(f"{ACC}if epoch > 5:\n    if acc > best:\n        best = acc")).scores
    assert (score.condition, score.guarded) == ("", False)


@pytest.mark.parametrize(
    ("epoch", "metric", "place"),
    [
        ("for y in data:\n    total += run(y)\nprint(total)\ntotal = 0\nlast()", "total", "print(total)"),
        ("for y in data:\n    total += run(y)\nprint(total)\ntotal, n = 0, 0", "total / n", "print(total)"),
        ("for y in data:\n    m.update(run(y))\nacc = m.avg\nm.reset()\nlast()", "acc", "last()"),
        ("m = run(model)\nif m.acc > best:\n    best = m.acc\nlog()\nm.reset()\nlast()", "m.acc", "log()"),
        ("total = 0\nfor y in data:\n    total += run(y)\nlast()", "total", "last()"),
        ("total = run(model)\nother.reset()\nlast()", "total", "last()"),
        ("m = Meter()\ntrain(m)\nm.reset()\nvalidate(m)\nlast()", "m.avg", "last()"),
    ],
)
def test_score_is_taken_before_it_is_set_back_and_handed_over_last(epoch: str, metric: str, place: str) -> None:
    found = survey_of(script(epoch), metric=metric, mode="min")
    (score,) = found.scores
    taken, handed = score.anchors.get("made", score.anchors["report"]), score.index.statement(score.anchors["report"])
    assert (score.index.source.code(taken), handed.following) == (place, [])


@pytest.mark.parametrize(("last", "place"), [("m.restart()", "log()"), ("m.close()", "last()")])
def test_score_that_an_object_works_out_is_taken_before_the_object_is_set_back(last: str, place: str) -> None:
    own = """
        class Sums:
            def restart(self):
                self.sums = {key: 0.0 for key in ("acc", "loss")}

            def take(self, **values):
                for key, value in values.items():
                    self.sums[key] += value

            def result(self):
                return {key: value / 9 for key, value in self.sums.items()}

            @property
            def acc(self):
                return self.result()["acc"]

            def close(self):
                self.closed = 0

        m = Sums()
    """
    epoch = f"m.take(acc=validate(model))\nprint(m.acc)\nlog()\n{last}\nlast()"
    (score,) = survey_of(script(epoch, code(own)), metric="m.acc", mode="max").scores
    taken = score.anchors.get("made", score.anchors["report"])
    assert score.index.source.code(taken) == place


def test_names_of_measures_are_no_score() -> None:
    assert [name for name, _, _ in scores_of("error, error_names = validate(model)")] == ["error"]


def test_score_of_each_phase_and_of_some_batches_is_one() -> None:
    assert [name for name, _, _ in scores_of("for phase in ['train', 'val']:\n    acc = evaluate(phase)")] == ["acc"]


METRIC = """
    class Metric:
        def __init__(self, acc):
            self.acc = acc

        def better_than(self, other):
            return COMPARED

    def validate(net):
        with torch.no_grad():
            return Metric(run(net))
    """


@pytest.mark.parametrize(
    ("compared", "epoch", "scores"),
    [
        pytest.param("self.acc > other.acc", "if m.better_than(best):\n    best = m", [("m.acc", "max")], id="higher"),
        pytest.param("other.acc > self.acc", "if m.better_than(best):\n    best = m", [("m.acc", "min")], id="lower"),
        pytest.param("self.acc > other.acc", "better = m.better_than(best)", [("m.acc", "max")], id="flag"),
        pytest.param(
            "other is None or self.acc > other.acc",
            "if m.better_than(best):\n    best = m",
            [("m.acc", "max")],
            id="first",
        ),
        pytest.param("self.xs[0] > other.xs[0]", "if m.better_than(best):\n    best = m", [], id="item"),
        pytest.param(
            "self.acc > other.acc and self.b < other.b", "if m.better_than(best):\n    best = m", [], id="two"
        ),
        pytest.param("self.acc > other.acc", "log(m)", [], id="not compared"),
    ],
)
def test_score_of_an_object_is_the_number_that_it_compares(
    compared: str, epoch: str, scores: list[tuple[str, str]]
) -> None:
    found = survey_of(script(f"m = validate(model)\n{epoch}", code(METRIC).replace("COMPARED", compared)))
    assert [(score.expression, score.direction) for score in found.scores] == scores
    assert [name for name, _ in found.measures] == ([] if scores else ["m.acc"])


SENT = "\nbox = [m]\ndist.broadcast_object_list(box, src=0)\nm = box[0]"


@pytest.mark.parametrize(
    ("compared", "asked", "epoch", "captured"),
    [
        ("better_than", "if m.better_than(best):", "BEFORE SENT ASKED", False),
        ("__gt__", "if m > best:", "BEFORE SENT ASKED", False),
        ("better_than", "if m.better_than(best):", "BEFORE ASKED SENT", True),
        ("__gt__", "if m > best:", "BEFORE ASKED SENT", True),
    ],
)
def test_object_is_handed_over_as_it_is_compared(compared: str, asked: str, epoch: str, captured: bool) -> None:
    before = code(METRIC).replace("COMPARED", "self.acc > other.acc").replace("better_than", compared)
    made, kept = "m = validate(model) if rank == 0 else None", f"\n{asked}\n    best = m"
    body = epoch.replace("BEFORE ", made).replace("ASKED", kept).replace("SENT", SENT).replace("\n \n", "\n")
    (score,) = survey_of(script(body, before)).scores
    assert (score.expression, score.captured) == ("m.acc", captured)


def test_users_own_score_may_be_the_number_that_an_object_compares() -> None:
    before = code(METRIC).replace("COMPARED", "self.acc > other.acc")
    epoch = "m = validate(model)\nif m.better_than(best):\n    best = m"
    (score,) = survey_of(script(epoch, before), metric="m.acc").scores
    assert (score.expression, score.direction) == ("m.acc", "max")


@pytest.mark.parametrize(
    ("body", "scores"),
    [
        pytest.param("return None", [], id="returns None"),
        pytest.param("for x in loader:\n        show(model(x))", [], id="returns nothing"),
        pytest.param("if epoch:\n        return None", [], id="on all ways"),
        pytest.param("if epoch:\n        return total(model)", ["val_loss"], id="on some ways"),
        pytest.param("return total(model)", ["val_loss"], id="returns a number"),
    ],
)
def test_what_a_function_of_the_project_never_gives_is_no_score(body: str, scores: list[str]) -> None:
    text = script("val_loss = validate(epoch)", f"def validate(epoch):\n    {body}")
    assert [one.expression for one in survey_of(text).scores] == scores
    assert survey_of(text, metric="val_loss").scores[0].unfit[0] == ("" if scores else "None")
    decorated = survey_of(text.replace("def validate", "@evaluation\ndef validate"))
    assert [one.expression for one in decorated.scores] == ["val_loss"]


HOOK = """
class Base:
    def validate(self):
        return None
    def fit(self):
        for epoch in range(9):
            for x in loader:
                self.step(x)
            if self.validate is not None:
                val_loss = self.validate()

class Trainer(Base):
    def __init__(self):
        self.model = DDP(Net())
    def step(self, x):
        self.model(x).backward()
        optimizer.step()

class Other(Trainer):
    def validate(self):
        return total(self.model)
"""


@pytest.mark.parametrize(
    ("made", "scores"),
    [
        pytest.param("Trainer()", [], id="left as it is"),
        pytest.param("Other()", ["val_loss"], id="filled"),
        pytest.param("{'one': Trainer, 'two': Other}[kind]()", ["val_loss"], id="filled by one of two"),
    ],
)
def test_hook_without_a_value_is_no_score_where_no_class_fills_it(made: str, scores: list[str]) -> None:
    found = survey_of(f"{DDP}{HOOK}\n{made}.fit()\n").scores
    assert [(one.expression, one.condition) for one in found] == [(score, "") for score in scores]


@pytest.mark.parametrize(
    ("head", "condition"),
    [
        pytest.param("validate is not None", "", id="compared"),
        pytest.param("validate", "", id="by itself"),
        pytest.param("epoch % 5 == 0 and validate is not None", "epoch % 5 == 0", id="beside another"),
        pytest.param("other is not None", "other is not None", id="of a name that is not known"),
        pytest.param("validate is None", "validate is None", id="the contrary"),
    ],
)
def test_condition_that_asks_for_a_function_of_the_project_always_holds(head: str, condition: str) -> None:
    text = script(f"if {head}:\n    val_loss = validate()", "def validate():\n    return total(model)")
    assert survey_of(text).scores[0].condition == condition
    chosen = text.replace("model = Net()", "validate = None if quick else validate\nmodel = Net()")
    assert survey_of(chosen, metric="val_loss").scores[0].condition == head


def test_object_with_an_order_is_no_number() -> None:
    epoch = "m = validate(model)\nif m > best:\n    best = m"
    before = code(METRIC).replace("COMPARED", "self.acc > other.acc")
    ordered = before.replace("better_than", "__gt__")
    assert scores_of(epoch, ordered) == [("m.acc", "max", "all")]
    assert scores_of(epoch, before) == []
    assert scores_of(epoch, before.replace("better_than", "__float__")) == [("m", "max", "all")]
    assert scores_of("acc = validate(model)", ordered) == []
    begun = survey_of(script("m = validate(model)\nkeep(m)", before.replace("self.acc", "self.x") + "\nm = None"))
    assert [name for name, _ in begun.measures] == ["m.ATTRIBUTE"]
    unknown = survey_of(script("acc = validate(model)", before.replace("class Metric", "class Other")))
    assert (unknown.scores, [name for name, _ in unknown.measures]) == ([], ["acc.ATTRIBUTE"])
    evaluator = before.replace("class Metric", "class Other").replace("run(net))", "run(net)), 1")
    assert survey_of(script("evaluator, n = validate(model)", evaluator)).measures == []


@pytest.mark.parametrize(
    ("condition", "once"),
    [
        ("epoch == args.epochs - 1", True),
        ("epoch==cfg['epochs']", True),
        ("epoch % 5 == 0", False),
        ("epoch % 5 == 0 or epoch == 9", False),
        ("args.mode == 'full'", False),
        ("epoch >= 5", False),
    ],
)
def test_score_of_a_single_epoch_is_told(condition: str, once: bool) -> None:
    (score,) = survey_of(script(f"if {condition}:\n    {ACC.strip()}")).scores
    assert (score.condition, score.once) == (condition, once)


@pytest.mark.parametrize("best", ["best", "(best or acc - 1)", "best + margin"])
def test_hint_of_a_best_that_is_taken_from_elsewhere(best: str) -> None:
    keep = f"def keep(acc):\n    best = read()\n    if acc > {best}:\n        save()"
    assert [name for name, _ in survey_of(script("run(model, keep)", keep)).hints] == ["acc"]


def test_best_that_has_a_value_only_later_is_one() -> None:
    epoch = "loss = evaluate(model)\nif loss < (best or loss + 1):\n    best = loss\n    torch.save(model, path)"
    (score,) = survey_of(script(epoch, "best = None")).scores
    assert (score.expression, score.direction) == ("loss", "min")


@pytest.mark.parametrize(
    ("begun", "hint"),
    [("0", False), ("None", False), ("-np.inf", False), ("float('-inf')", False), ("read()", True)],
)
@pytest.mark.parametrize("missing", ["", "best is None or "])
def test_search_for_the_best_of_one_call_is_no_hint(begun: str, missing: str, hint: bool) -> None:
    """It begins anew in each: a threshold, or the span of a text that has most of it around a word."""
    search = f"def search(ts):\n    best = {begun}\n    for t in ts:\n        acc = run(t)\n"
    search += f"        if {missing}acc > best:\n            best = acc\n    return acc"
    seen = survey_of(script("search(model)", search))
    assert [name for name, _ in (*seen.hints, *seen.measures)] == (["acc"] if hint else [])


@pytest.mark.parametrize("test", ["best_iou > self.ignore_thre", "n_best > beam_size", "best_iou > iou_thresh"])
def test_limit_that_is_compared_with_something_best_is_no_hint(test: str) -> None:
    assert survey_of(script("run(model)", f"def check():\n    if {test}:\n        raise ValueError")).hints == []


#: A validation that gives the loop nothing, and fills what the model has; so does the training.
FILLED = """import torch
def test(net):
    net.eval()
    with torch.no_grad():
        net.past["out"].append(mean(net(x) for x in data))
def note(net, loss):
    net.past["loss"].append(loss.item())"""


@pytest.mark.parametrize(
    ("test", "scores"),
    [
        ("model.past['out'][-1] <= min(model.past['out'][:-1])", [("model.past['out'][-1]", "min")]),
        ("max(model.past['out']) == model.past['out'][-1]", [("model.past['out'][-1]", "max")]),
        ("model.past['out'][-1] <= min(model.past['loss'][:-1])", []),
        ("model.past['out'][0] <= min(model.past['out'][:-1])", []),
        ("model.past['loss'][-1] <= min(model.past['loss'][:-1])", []),
    ],
)
def test_newest_of_what_the_validation_fills_is_the_score(test: str, scores: list[tuple[str, str]]) -> None:
    turn = (
        f"note(model, loss)\ntest(model)\nif len(model.past['out']) > 1 and {test}:\n    torch.save(model, 'best.pt')"
    )
    assert [(one.expression, one.direction) for one in survey_of(script(turn, FILLED)).scores] == scores


@pytest.mark.parametrize(
    ("function", "scores"),
    [
        pytest.param("def is_eval_epoch(epoch):\n    return epoch % 2 == 0", [], id="comparison"),
        pytest.param(
            "def eval_now(epoch):\n    if epoch < 3:\n        return False\n    return epoch % 2 == 0", [], id="two"
        ),
        pytest.param("from lib import is_eval_epoch", [], id="name"),
        pytest.param("def is_eval_epoch(epoch):\n    return run(epoch)", ["due"], id="value"),
    ],
)
def test_flag_is_no_score(function: str, scores: list[str]) -> None:
    name = "eval_now" if "eval_now" in function else "is_eval_epoch"
    found = survey_of(script(f"due = {name}(epoch)\nif due:\n    test()", function)).scores
    assert [score.expression for score in found] == scores


@pytest.mark.parametrize(
    ("epoch", "scores"),
    [
        pytest.param(
            "lowest = validate(model)['low']\nif lowest < best:\n    best = lowest", [("lowest", "min")], id="item"
        ),
        pytest.param(
            "min_loss = np.min(test())\nif min_loss < best:\n    best = min_loss", [("min_loss", "min")], id="call"
        ),
        pytest.param(
            "acc = validate(model)\nif acc > top_acc:\n    top_acc = acc\nif top_acc > best:\n    best = top_acc",
            [("acc", "max")],
            id="best so far",
        ),
    ],
)
def test_score_with_the_name_of_a_best(epoch: str, scores: list[tuple[str, str]]) -> None:
    assert [(s.expression, s.direction) for s in survey_of(script(epoch)).scores] == scores


def test_score_of_every_epoch_is_preferred_to_that_of_some_steps() -> None:
    text = script("acc = validate(model)\nif acc > best:\n    best = acc").replace(
        "        optimizer.step()\n", "        optimizer.step()\n        if args.often:\n" + indent(TRACKS, " " * 8)
    )
    (score,) = survey_of(text).scores
    assert (score.in_turn, score.condition, score.direction) == (False, "", "max")


@pytest.mark.parametrize(
    ("epoch", "scores"),
    [
        pytest.param("if np.argmax(accs) < len(accs) - 5:\n    break", [("accs[-1]", "max", "")], id="stopped by it"),
        pytest.param("save(best=int(np.argmin(accs)) == epoch)", [("accs[-1]", "min", "")], id="kept by it"),
        pytest.param("print(preds.argmax(1), np.argmax(preds))", [], id="of something else"),
        pytest.param("for x in val:\n    others.append(x)\nprint(np.argmax(others))", [], id="of one epoch"),
    ],
)
def test_score_of_a_history_of_which_the_best_is_sought(epoch: str, scores: list[tuple[str, str, str]]) -> None:
    found = survey_of(script(f"accs.append(run(model))\n{epoch}", "accs = []\n")).scores
    assert [(s.expression, s.direction, s.condition) for s in found] == scores


MONITORED = """
log = {'epoch': epoch}
log.update(run(model))
if mode != 'off':
    improved = (mode == 'min' and log[key] <= best) or (mode == 'max' and log[key] >= best)
    if improved:
        best = log[key]
"""


def test_score_of_a_monitor_is_asked_for_its_direction_alone() -> None:
    (score,) = survey_of(script(MONITORED)).scores
    assert (score.expression, score.direction, score.condition) == ("log[key]", "", "mode != 'off'")
    (score,) = survey_of(script(MONITORED.replace("(mode == 'min' and log[key] <= best) or ", ""))).scores
    assert score.direction == "max"
    (score,) = survey_of(script(MONITORED.replace("log[key]", "log['acc']"))).scores
    assert score.condition == ""


HANDED_ON = """
def evaluate(net, **state):
    best, waited = state["best_acc"], state["worse_acc_count"]
    acc = total(net)
    if RANK:
        if acc > best:
            best, waited = acc, 0
        else:
            waited += 1
    state["best_acc"], state["worse_acc_count"], state["acc"] = best, waited, acc
    return state
"""


@pytest.mark.parametrize(("rank", "ranked"), [("rank == 0", True), ("due", False)])
def test_item_that_a_function_hands_on_is_no_score_of_the_epoch(rank: str, ranked: bool) -> None:
    text = script("state = evaluate(model, **state)", HANDED_ON.replace("RANK", rank))
    assert [name for name, _ in survey_of(text).measures] == ["acc", 'state["acc"]']
    (score,) = survey_of(text, metric="state['best_acc']").scores
    assert (score.running, score.ranked) == ("line 11", ranked)
    assert survey_of(text, metric="state['acc']").scores[0].running == ""
    bare = text.replace(', state["acc"] = best, waited, acc', " = best, waited")
    assert [name for name, _ in survey_of(bare).measures] == ["acc"]


UP_OR_DOWN = """
log = {'epoch': epoch}
log.update(run(model))
try:
    if mode == 'min':
        improved = log[key] <= best
    elif mode == 'max':
        improved = log[key] >= best
    else:
        improved = False
except KeyError:
    improved = False
if improved:
    best = log[key]
"""


IN_ONE = "improved = log[key] <= best"


@pytest.mark.parametrize(
    ("old", "new", "made", "value"),
    [
        pytest.param("", "", "", "log[key] if key in log else None", id="in some branches"),
        pytest.param("KeyError", "OSError", IN_ONE, "log[key]", id="it may fail in others"),
        pytest.param("log[key] >= best", "other >= best", IN_ONE, "log[key]", id="in one branch"),
    ],
)
def test_item_that_is_compared_in_either_direction_counts_in_both(old: str, new: str, made: str, value: str) -> None:
    (score,) = survey_of(script(UP_OR_DOWN.replace(old, new)), metric="log[key]").scores
    there = score.anchors.get("made")
    assert (score.index.source.code(there) if there is not None else "", score.value) == (made, value)


@pytest.mark.parametrize(
    ("added", "value"),
    [
        pytest.param(
            "if rank == 0:\n    log.update(run(model))", "log['acc'] if 'acc' in log else None", id="by some ranks"
        ),
        pytest.param(
            "if epoch % 5 == 0:\n    log.update(run(model))", "log['acc'] if 'acc' in log else None", id="at times"
        ),
        pytest.param("log.update(run(model))", "log['acc']", id="always"),
        pytest.param(
            "log.update(run(model))\nif rank == 0:\n    log.update(other(model))", "log['acc']", id="and more"
        ),
        pytest.param(
            "log['acc'] = run(model)\nif rank == 0:\n    log.update(other(model))", "log['acc']", id="beside it"
        ),
        pytest.param("log.update(run(model))\nif rank == 0:\n    other.update(run(model))", "log['acc']", id="another"),
        pytest.param(
            "log.update(losses(model))\nif rank == 0:\n    log.update(run(model))",
            "log['acc'] if 'acc' in log else None",
            id="beside others",
        ),
        pytest.param(
            "log.update(both(model))\nif rank == 0:\n    log.update(run(model))", "log['acc']", id="beside more"
        ),
        *(
            pytest.param(f"log.update({name}(model))\nif rank == 0:\n    log.update(run(model))", value, id=name)
            for name, value in {
                "kept": "log['acc'] if 'acc' in log else None",
                "called": "log['acc'] if 'acc' in log else None",
                "walked": "log['acc'] if 'acc' in log else None",
                "filled": "log['acc']",
                "updated": "log['acc']",
                "given_on": "log['acc']",
                "by_key": "log['acc']",
                "keyed": "log['acc']",
            }.items()
        ),
    ],
)
def test_item_that_is_added_under_a_condition_may_not_be_there(added: str, value: str) -> None:
    before = "def losses(model):\n    return {'loss': fit(model)}\n\n"
    before += "def both(model):\n    return {'loss': fit(model), **more}\n\n"
    before += "def called(model):\n    return dict(loss=fit(model))\n\n"
    before += "def keyed(model):\n    return {name: fit(model)}\n\n"
    for name, put, last in [
        ("kept", "out['steps'] = len(out.keys())", "out"),
        ("walked", "print(out['loss'])", "{name: float(one) for name, one in out.items()}"),
        ("filled", "out['acc'] = measure(model)", "out"),
        ("updated", "out.update(run(model))", "out"),
        ("given_on", "fill(out)", "out"),
        ("by_key", "out['a' + 'cc'] = measure(model)", "out"),
    ]:
        before += f"def {name}(model):\n    out = {{'loss': fit(model)}}\n    {put}\n    return {last}\n\n"
    text = script(
        f"log = {{'epoch': epoch}}\n{added}\nif rank == 0:\n    path = best_of(log)", f"{before}rank = dist.get_rank()"
    )
    (score,) = survey_of(text, metric="log['acc']", mode="max").scores
    assert score.value == value


@pytest.mark.parametrize(
    ("added", "value"),
    [
        pytest.param(
            "if epoch % 5 == 0:\n    log.update(run(model))", "log['acc'] if 'acc' in log else None", id="at times"
        ),
        pytest.param("log.update(run(model))", "log['acc']", id="always"),
        pytest.param("log.show(model)", "log['acc']", id="nothing"),
    ],
)
def test_what_an_epoch_has_of_its_meters_may_not_have_what_is_added_at_times(added: str, value: str) -> None:
    before = "def averages(model):\n    return {name: one.avg for name, one in fit(model).items()}\n"
    (score,) = survey_of(script(f"log = averages(model)\n{added}", before), metric="log['acc']", mode="max").scores
    assert (score.value, bool(score.condition)) == (value, " if " in value)


def test_item_that_all_branches_compare_is_there_after_them() -> None:
    text = UP_OR_DOWN.replace("elif mode == 'max':", "else:").replace("    else:\n        improved = False\n", "", 1)
    text = text.replace("try:", "if due:").replace("except KeyError:", "else:")
    (score,) = survey_of(script(text), metric="log[key]").scores
    assert (score.index.source.code(score.anchors["made"]).partition(":")[0], score.value) == (
        "if mode == 'min'",
        "log[key]",
    )


def test_item_that_all_branches_compare_is_taken_where_it_stands_if_one_of_them_goes_on() -> None:
    epoch = """
    log = {'epoch': epoch}
    log.update(run(model))
    if by == 'max':
        better = log[key] >= best
        if better:
            best = log[key]
            GOES_ON
    else:
        better = log[key] <= best
    """
    (score,) = survey_of(script(epoch.replace("GOES_ON", "print(best)")), metric="log[key]").scores
    assert score.condition == ""
    (score,) = survey_of(script(epoch.replace("GOES_ON", "continue")), metric="log[key]").scores
    assert score.condition == "by == 'max'"


TWICE = """
for epoch in range(10):
    if epoch == resumed:
        acc = validate(model)
        if acc > best:
            best = acc
        GOES_ON
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    if epoch % 2 == 0:
        acc = validate(model)
        if acc > best:
            best = acc
"""


@pytest.mark.parametrize("metric", ["", "acc"])
@pytest.mark.parametrize(
    ("goes_on", "removed", "line"),
    [
        pytest.param("continue", "", "line 21", id="a turn that does not train"),
        pytest.param("resumed = 0", "", "line 12", id="a turn that trains as well"),
        pytest.param("continue", TWICE.partition("    if epoch % 2")[2], "line 12", id="the only one"),
    ],
)
def test_score_of_a_turn_that_trains_counts_before_another(goes_on: str, removed: str, line: str, metric: str) -> None:
    loop = TWICE.replace("GOES_ON", goes_on)
    loop = loop.replace(f"    if epoch % 2{removed}", "") if removed else loop
    text = script().partition("for epoch")[0] + f"best, resumed = 0, 3\n{loop.lstrip()}"
    (score,) = survey_of(text, metric=metric).scores
    assert score.index.place(score.node) == line


def test_a_validation_of_turns_that_do_not_train_counts_where_those_that_do_keep_another_best() -> None:
    loop = """
    for epoch in range(10):
        if epoch % 2:
            value = validate(model)
            if value > best:
                best = value
            continue
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        if total < lowest:
            lowest = total
    """
    text = script().partition("for epoch")[0] + f"best, lowest = 0, 9\n{code(loop).lstrip()}"
    (score,) = survey_of(text, metric="value").scores
    assert (score.expression, score.direction) == ("value", "max")


IN_ATTRIBUTE = """
class Trainer:
    def __init__(self):
        self.best = -1, 9

    def turn(self, net, epoch):
        self.best = self.measure(net, HANDED)
        return self.best, epoch

    def measure(self, net, best):
        acc, loss = total(net)
        best_acc, best_loss = best
        if RANK:
            best_acc, best_loss = TAKEN
        return best_acc, best_loss

trainer = Trainer()
"""


@pytest.mark.parametrize(
    ("rank", "handed", "taken", "running", "ranked"),
    [
        pytest.param(
            "rank == 0", "self.best", "max(best_acc, acc), min(best_loss, loss)", "line 20", True, id="of rank 0"
        ),
        pytest.param(
            "due", "self.best", "max(best_acc, acc), min(best_loss, loss)", "line 20", False, id="of all ranks"
        ),
        pytest.param("due", "(-1, 9)", "max(best_acc, acc), min(best_loss, loss)", "", False, id="begun anew"),
        pytest.param(
            "due",
            "self.best = -1, 9; self.best",
            "max(best_acc, acc), min(best_loss, loss)",
            "",
            False,
            id="that begins anew",
        ),
        pytest.param("due", "self.best", "acc, loss", "", False, id="each turn's own"),
    ],
)
def test_best_that_an_attribute_keeps_is_no_score_of_the_epoch(
    rank: str, handed: str, taken: str, running: str, ranked: bool
) -> None:
    begun, _, handed = handed.rpartition("; ")
    before = IN_ATTRIBUTE.replace("RANK", rank).replace("HANDED", handed).replace("TAKEN", taken)
    before = before.replace(
        "        self.best = self.measure", f"        {begun or 'pass'}\n        self.best = self.measure"
    )
    text = script("bests, last = trainer.turn(model, epoch)\nprint(bests[0])", before)
    (score,) = survey_of(text, metric="bests[0]").scores
    assert (score.running, score.ranked) == (running, ranked)


@pytest.mark.parametrize(
    ("begun", "kept", "running"),
    [
        pytest.param("state['high_acc']", "if acc > best:\n        best = acc", "line 10", id="kept"),
        pytest.param("state['high_acc']", "best = max(acc, best)", "line 10", id="kept in one expression"),
        pytest.param("state['high_acc']", "log(best)\n    best = acc", "", id="always another"),
        pytest.param("0", "if acc > best:\n        best = acc", "", id="begun anew"),
    ],
)
def test_item_that_a_function_makes_anew_is_not_handed_on(begun: str, kept: str, running: str) -> None:
    body = f"best = {begun}\n    acc = total(net)\n    {kept}\n    state['high_acc'] = best\n    return state"
    text = script("state = evaluate(model, state)", f"def evaluate(net, state):\n    {body}")
    assert survey_of(text, metric="state['high_acc']").scores[0].running == running


@pytest.mark.parametrize("flag", ["not (acc > best)", "run(acc > best)"])
def test_flag_that_does_not_hold_where_the_score_is_better_tells_nothing(flag: str) -> None:
    assert survey_of(script(f"acc = run(model)\nimproved = {flag}\nlog(improved)")).scores == []


@pytest.mark.parametrize(
    ("built", "call", "scores"),
    [
        pytest.param("EarlyStopping(5, mode='max')", "stop(value)", [], id="not told to stop"),
        pytest.param("EarlyStopping(5, mode='max')", "early_stopping(value, model)", [("value", "max")], id="called"),
        pytest.param("EarlyStopping(mode='min')", "early_stopping.step(value)", [("value", "min")], id="method"),
        pytest.param("EarlyStopping(mode='max')", "early_stopping(val_loss)", [("val_loss", "max")], id="by its mode"),
        pytest.param("EarlyStopping(mode=args.mode)", "early_stopping(value)", [], id="unknown mode"),
    ],
)
def test_early_stopping_tells_the_direction_by_its_mode(built: str, call: str, scores: list[tuple[str, str]]) -> None:
    epoch = f"value = run(model)\nval_loss = run(model)\n{call}"
    found = survey_of(script(epoch, f"early_stopping = {built}\n")).scores
    assert [(s.expression, s.direction) for s in found] == scores


def test_value_of_training_is_no_score_besides_one_of_validation() -> None:
    epoch = "train_loss = test(a)\nvali_loss = test(b)\nstop = early_stopping(vali_loss) or early_stopping(train_loss)"
    assert [score.expression for score in survey_of(script(epoch)).scores] == ["vali_loss"]


@pytest.mark.parametrize(
    ("other", "listed"),
    [
        pytest.param("[validate(m) for m in sets]", True, id="list"),
        pytest.param("{n: validate(m) for n, m in sets}", True, id="dict"),
        pytest.param("validate(other)", False, id="number"),
        pytest.param("[]", False, id="only begun"),
    ],
)
def test_score_that_is_a_list_in_one_branch_is_told(other: str, listed: bool) -> None:
    epoch = f"if one:\n    acc = validate(model)\nelse:\n    acc = {other}\nlog(acc)"
    (score,) = survey_of(script(epoch)).scores
    assert score.unfit == (("several values", "line 17") if listed else ("", ""))
    for metric in ("np.mean(acc)", "sum(acc) / 2"):
        (own,) = survey_of(script(epoch, "import numpy as np"), metric=metric).scores
        assert (own.known, own.unfit) == (True, ("", ""))


def test_best_of_one_validation_is_no_best_of_the_training() -> None:
    function = "def evaluate():\n    best = 0\n    for t in ts:\n        best = max(best, run(t))\n    return best\n"
    assert [s.expression for s in keeping(function, "val_f1 = evaluate()").scores] == ["val_f1"]


def test_score_kept_by_a_function_that_is_called_after_some_batches() -> None:
    text = script(before=keeper()).replace("        optimizer.step()\n", "        optimizer.step()\nCALL")
    some = text.replace("CALL", "        n += 1\n        if n % 5 == 0:\n            test(n)\n")
    for head, in_turn in (("for epoch in range(10):", False), ("while n < 90:", True)):
        (score,) = survey_of(some.replace("for epoch in range(10):", head)).scores
        assert (score.in_turn, score.guarded, score.code) == (in_turn, not in_turn, "test(n)")
    each = text.replace("CALL", "        test(n)\n")
    assert survey_of(each).scores == []
    (score,) = survey_of(each, metric="test:acc").scores
    assert (score.in_turn, score.guarded, score.last) == (False, True, ("for x, y in loader:", "line 13"))
    assert score.index.source.code(score.anchors["report"]) == "pass"


def test_two_kept_scores_are_both_told_and_one_can_be_chosen() -> None:
    function = keeper(end="if loss < state.best:\n    state.best = loss", made="acc, loss = run()")
    assert [s.expression for s in keeping(function).scores] == ["acc", "loss"]
    assert [(s.expression, s.direction) for s in keeping(function, metric="loss").scores] == [("loss", "min")]


def test_hint_names_what_is_compared_with_the_best() -> None:
    assert [name for name, _ in keeping(keeper(), "test(epoch)\ntest(epoch)").hints] == ["acc"]


@pytest.mark.parametrize(
    ("end", "taking", "answers"),
    [
        ("return acc", "dev = test(0)\ntest(1)", ["--metric dev --mode max or min"]),
        ("return n, acc", "n, dev = test(0)\ntest(1)", ["--metric dev --mode max or min"]),
        ("return acc", "test(0)\ntest(1)", []),
        ("return n, acc", "dev = test(0)\ntest(1)", []),
        ("return best_acc", "dev = test(0)\ntest(1)", []),
    ],
)
def test_a_hint_that_its_function_returns_is_told_by_what_takes_it(
    tmp_path: Path, end: str, taking: str, answers: list[str]
) -> None:
    """What the question asks for first, its function returning it to the loop, has been done then."""
    found = keeping(keeper(end=end), taking)
    assert [answer for _, answer, _ in found.taken] == answers
    told = [one.message for one in plan_of(tmp_path, script(taking, code(keeper(end=end)))).questions]
    assert [f"{answer} takes what it returns (line " in told[0] for answer in answers] == [True] * len(answers)
    assert ("let its function return it" in told[0]) == (not answers)


@pytest.mark.parametrize(
    ("epoch", "report"),
    [
        pytest.param(ACC + "if acc > best:\n    best = acc\nprint(acc)", "print(acc)", id="last of the epoch"),
        pytest.param(
            "if epoch % 5 == 0:\n    acc = validate(model)\n    best = max(best, acc)\nprint(1)",
            "print(1)",
            id="inside a condition",
        ),
        pytest.param(ACC + "best = max(best, acc)\nlog()\ncontinue", "log()", id="before a final continue"),
        pytest.param(
            "if rank == 0:\n    acc = validate(model)\n    best = max(best, acc)\nbarrier()",
            "barrier()",
            id="outside the rank check",
        ),
        pytest.param(
            ACC + "best = max(best, acc)\nif not patience:\n    continue\nstop(acc)",
            "best = max(best, acc)",
            id="before a continue under a condition",
        ),
        pytest.param(
            "with group:\n    acc = validate(model)\n    best = max(best, acc)\n    if x:\n        continue\nlog()",
            "best = max(best, acc)",
            id="before a continue within a with",
        ),
        pytest.param(
            "with group:\n    with other:\n        acc = validate(model)\n    if acc <= best:\n        continue\n"
            "    best = acc\nstop(acc)",
            "with other:\n            acc = validate(model)",
            id="behind a with, before a continue within another",
        ),
        pytest.param(
            ACC + "best = max(best, acc)\nif rank != 0:\n    continue\nsave()",
            "save()",
            id="where some ranks continue, and at the end",
        ),
        pytest.param(
            "if x:\n    acc = validate(model)\n    best = max(best, acc)\n    if rank != 0:\n        continue\n"
            "    save()\nlog()",
            "save()",
            id="where some ranks continue under the condition that validates",
        ),
        pytest.param(
            ACC
            + "if x:\n    if rank == 0:\n        acc = mean(acc)\n    else:\n        continue\nbest = max(best, acc)",
            "acc = validate(model)",
            id="before the others continue where it is averaged",
        ),
        pytest.param(
            ACC + "best = max(best, acc)\nfor m in models:\n    if not m:\n        continue\n    save(m)\nlog()",
            "log()",
            id="continue of another loop",
        ),
        pytest.param(
            "if x:\n    acc = validate(model)\n    best = max(best, acc)\n    if y:\n        continue\nlog()",
            "best = max(best, acc)",
            id="before a continue under the condition that validates",
        ),
        pytest.param(
            "if x:\n    acc = validate(model)\n    best = max(best, acc)\nelse:\n    continue\nlog()",
            "log()",
            id="continue where nothing is validated",
        ),
    ],
)
def test_place_where_the_score_is_handed_over(epoch: str, report: str) -> None:
    (score,) = survey_of(script(epoch)).scores
    assert score.index.source.code(score.anchors["report"]) == report


@pytest.mark.parametrize(
    ("later", "early"),
    [
        pytest.param("if rank != 0:\n    continue\nsave()", 1, id="some ranks"),
        pytest.param("if rank != 0:\n    log()\n    continue\nif not is_main():\n    continue\nsave()", 2, id="twice"),
        pytest.param("if not patience:\n    continue\nsave()", 0, id="all ranks"),
        pytest.param("for one in several:\n    if rank != 0:\n        continue\n    save()", 0, id="of another loop"),
        pytest.param("if rank != 0:\n    continue\nacc = mean(acc)", 0, id="before the score is made anew"),
    ],
)
def test_ends_of_a_turn_by_which_some_ranks_leave_behind_the_score(later: str, early: int) -> None:
    before = "from utils import is_main\nrank, best = dist.get_rank(), 0"
    (score,) = survey_of(script(ACC + "if acc > best:\n    best = acc\n" + later, before)).scores
    assert [one.code for one in score.early] == ["continue"] * early
    assert (score.cut_off, score.condition) == (0, "")


@pytest.mark.parametrize(
    ("end", "report"),
    [
        pytest.param("if epoch >= 9:\n    quit()\nepoch += 1", "log(acc)", id="exit"),
        pytest.param("if epoch >= 9:\n    break\nepoch += 1\nstep += 1", "log(acc)", id="break"),
        pytest.param("if epoch >= 9:\n    break\nepoch += 1\nsave(model)", "save(model)", id="it saves later"),
        pytest.param("if epoch >= 9:\n    save(model)\n    break\nepoch += 1", "epoch += 1", id="it saves there"),
        pytest.param("if acc > 9:\n    break\nepoch += 1", "log(acc)", id="by the score"),
        pytest.param("if rank == 0:\n    break\nepoch += 1", "epoch += 1", id="on a rank"),
    ],
)
def test_score_of_the_turn_that_ends_a_while_is_handed_over(end: str, report: str) -> None:
    text = script(ACC + "if acc > best:\n    best = acc\nlog(acc)\n" + end, "best, epoch, step = 0, 0, 0")
    (score,) = survey_of(text.replace("for epoch in range(10):", "while True:")).scores
    assert score.index.source.code(score.anchors["report"]) == report


def guard_of(epoch: str) -> tuple[str, str, str, str]:
    """Return the condition of the only score, the first line of its guard, and what its two reports follow."""
    (score,) = survey_of(script(epoch)).scores
    source = score.index.source
    guard = source.code(score.anchors["guard"]).splitlines()[0] if score.guarded else ""
    made = source.code(score.anchors["made"]) if score.guarded else ""
    return score.condition, guard, made, source.code(score.anchors["report"])


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        pytest.param(ACC + "best = max(best, acc)", ("", "", "", "best = max(best, acc)"), id="in every epoch"),
        pytest.param(
            "rs = {}\nif x:\n    rs['test'] = validate(model)\n    best = max(best, rs['test']['acc'])\nlog()",
            ("x", "if x:", "best = max(best, rs['test']['acc'])", "log()"),
            id="in an item",
        ),
        pytest.param(
            "rs = dict(n=1)\nif x:\n    rs['acc'] = validate(model)\nif rs.get(\"acc\", 0) > best:\n"
            '    best = rs.get("acc", 0)',
            ("x", "if x:", "rs['acc'] = validate(model)", 'if rs.get("acc", 0) > best:'),
            id="in an item read by get",
        ),
        pytest.param(
            "rs = {'acc': 0}\nif x:\n    rs['val'] = validate(model)\n    best = max(best, rs[key])\nlog()",
            ("x", "if x:", "best = max(best, rs[key])", "log()"),
            id="in an item by a variable",
        ),
        pytest.param(
            "rs = {}\nif x:\n    rs.update(evaluate(model))\n    best = max(best, rs['acc'])",
            ("x", "if x:", "best = max(best, rs['acc'])", "if x:"),
            id="in a collection that is filled there",
        ),
        pytest.param(
            "top1 = AverageMeter()\nif x:\n    for y in val:\n        top1.update(y)\n    best = max(best, top1.avg)",
            ("x", "if x:", "best = max(best, top1.avg)", "if x:"),
            id="in a meter",
        ),
        pytest.param(
            "rs = {}\nfor n, d in sets:\n    r = validate(d)\n    if rank == 0:\n        rs[n] = r\n"
            "if is_main_process():\n    best = max(best, rs[key]['acc'])\nlog()",
            ("", "if is_main_process():", "best = max(best, rs[key]['acc'])", "log()"),
            id="in an item that rank 0 alone fills",
        ),
        pytest.param(
            "rs = {}\nif x:\n    for n in sets:\n        rs[n] = run(n)\nif x and y:\n    best = max(best, rs[key])",
            ("x and y", "if x and y:", "best = max(best, rs[key])", "if x and y:"),
            id="in an item that is filled under the same condition",
        ),
        pytest.param(
            "rs = {}\nfor n, d in sets:\n    rs[n] = validate(d)\nif rank == 0:\n    best = max(best, rs[key])\nlog()",
            ("", "", "", "log()"),
            id="in an item that all ranks fill",
        ),
        pytest.param(
            "rs = {}\nrs['acc'] = validate(model)\nif x:\n    best = max(best, rs['acc'])",
            ("", "", "", "if x:"),
            id="in an item in every epoch",
        ),
        pytest.param(
            "top1 = Meter()\nfor y in val:\n    top1.update(y)\nif x:\n    log()\n    best = max(best, top1.avg)",
            ("", "", "", "if x:"),
            id="in a meter in every epoch",
        ),
        pytest.param(
            "rs = evaluate(model)\nif x:\n    rs['epoch'] = epoch\n    best = max(best, rs['acc'])",
            ("", "", "", "if x:"),
            id="in what validation returns",
        ),
        pytest.param(
            "if epoch % 5 == 0:\n    acc = validate(model)\n    best = max(best, acc)\nlog()",
            ("epoch % 5 == 0", "if epoch % 5 == 0:", "best = max(best, acc)", "log()"),
            id="in some epochs",
        ),
        pytest.param(
            "if rank == 0:\n    acc = validate(model)\n    best = max(best, acc)",
            ("", "if rank == 0:", "best = max(best, acc)", "if rank == 0:"),
            id="on the first rank",
        ),
        pytest.param(
            "if rank == 0:\n    if epoch > 3:\n        acc = validate(model)\n        best = max(best, acc)\n    f()",
            ("epoch > 3", "if rank == 0:", "best = max(best, acc)", "if rank == 0:"),
            id="on the first rank in some epochs",
        ),
        pytest.param(
            "with context:\n    acc = validate(model)\nbest = max(best, acc)",
            ("", "", "", "best = max(best, acc)"),
            id="in a with",
        ),
        pytest.param(
            "if x or z:\n    if y:\n        acc = validate(model)\n        best = max(best, acc)\nlog()",
            ("(x or z) and y", "if x or z:", "best = max(best, acc)", "log()"),
            id="under two conditions",
        ),
    ],
)
def test_score_under_a_condition_has_a_guard(epoch: str, expected: tuple[str, str, str, str]) -> None:
    condition, guard, made, report = guard_of(epoch)
    assert (condition, guard, made, report.splitlines()[0]) == expected


@pytest.mark.parametrize(
    ("check", "cut_off"),
    [
        pytest.param("if rank != 0:\n    continue", True, id="other ranks continue"),
        pytest.param("if not is_main_process():\n    continue", True, id="all but the main process continue"),
        pytest.param("if rank != 0:\n    log()", False, id="other ranks go on"),
        pytest.param("if epoch % 5:\n    continue", False, id="all ranks continue"),
    ],
)
def test_ranks_that_leave_the_epoch_before_its_score_are_told(check: str, cut_off: bool) -> None:
    (score,) = survey_of(script(f"{check}\nacc = validate(model)\nif acc > best:\n    best = acc")).scores
    assert (score.cut_off > 0) is cut_off


FAILING = "    try:\n        evaluate()\n    except OSError:\n        continue\n"


@pytest.mark.parametrize(
    ("epoch", "cut_off"),
    [
        pytest.param(f"if rank == 0 and x:\n{FAILING}LOSS", True, id="one rank continues"),
        pytest.param(f"if rank == 0 and x:\n{FAILING}if y:\n    LOSS", True, id="one rank, and not all turns measure"),
        pytest.param("if rank == 0:\n    if x:\n        continue\n    LOSS", True, id="the rank that measures"),
        pytest.param(f"if x:\n{FAILING}LOSS", False, id="all ranks continue"),
        pytest.param(f"LOSS\nif rank == 0 and x:\n{FAILING}log()", False, id="one rank, after the score"),
        pytest.param("if rank == 0:\n    for x in y:\n        continue\nLOSS", False, id="in a loop of one rank"),
    ],
)
def test_rank_that_leaves_the_epoch_alone_before_its_score_is_told(epoch: str, cut_off: bool) -> None:
    """Then the others wait for it where the score is handed over."""
    text = script(epoch.replace("LOSS", "loss = test(model)") + "\nif rank == 0 and loss < best:\n    best = loss")
    (score,) = survey_of(text).scores
    assert [text.splitlines()[at - 1].strip() for at in (score.cut_off,) if at] == ["continue"] * cut_off


def test_condition_of_several_ways_past_the_score_is_told_once() -> None:
    epoch = "if x:\n    if y:\n        log()\n        continue\n" * 2 + "acc = test(model)\nbest = max(best, acc)"
    assert survey_of(script(epoch)).scores[0].condition == "not (x and y)"


def test_ranks_that_leave_where_the_score_is_made_are_told() -> None:
    text = "if x:\n    if rank == 0:\n        acc = mean()\n    else:\n        continue\nelse:\n    acc = test(model)\n"
    (score,) = survey_of(script(text + "best = max(best, acc)")).scores
    assert score.cut_off > 0


@pytest.mark.parametrize("leaves", ["    if y:\n        continue\n", "else:\n    continue\n"])
def test_rank_that_leaves_the_epoch_with_its_score_is_told(leaves: str) -> None:
    text = f"if rank == 0:\n    acc = validate(model)\n    best = max(best, acc)\n{leaves}log()"
    (score,) = survey_of(script(text)).scores
    assert score.cut_off > 0


@pytest.mark.parametrize(
    ("epoch", "made"),
    [
        pytest.param(
            LOSS + "best = min(best, val_loss)\nval_loss = test(model)", "val_loss = validate(model)", id="after"
        ),
        pytest.param("val_loss = run()\n" + LOSS + "best = min(best, val_loss)", "", id="before"),
        pytest.param(
            "val_loss = run()\nif x:\n    val_loss = validate(model)\n    best = min(best, val_loss)\nlog()",
            "best = min(best, val_loss)",
            id="before the condition under which it is made",
        ),
    ],
)
def test_score_is_the_value_that_is_compared_with_the_best(epoch: str, made: str) -> None:
    (score,) = survey_of(script(epoch)).scores
    assert (score.index.source.code(score.anchors["made"]) if score.captured else "") == made


def test_metric_that_the_user_names_takes_the_scripts_direction() -> None:
    assert scores_of("a, b = validate(model)\nif b < best:\n    best = b", metric="b") == [("b", "min", "all")]


def test_metric_that_the_user_names_takes_its_names_direction() -> None:
    assert scores_of("stats = run(model)", metric="stats['acc']") == [("stats['acc']", "max", "all")]


def test_mode_of_the_user_wins() -> None:
    assert scores_of(ACC + "if acc > best:\n    best = acc", mode="min") == [("acc", "min", "all")]


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("val_acc", "max"), ("mIoU", "max"), ("mAP", "max"), ("map50", "max"), ("top1", "max"), ("psnr", "max"),
        ("bleu", "max"),
        ("val_loss", "min"), ("rmse", "min"), ("perplexity", "min"), ("wer", "min"), ("test_error", "min"),
        ("epe", "min"), ("roc_auc_score", "max"), ("auroc", "max"), ("mean_squared_error", "min"), ("eer", "min"),
        ("srcc", "max"), ("fwIoU", "max"), ("ms_ssim", "max"), ("rank", ""), ("her", ""),
        ("x", ""), ("result", ""), ("power", ""), ("mapping", ""), ("acc_loss", ""), ("answer", ""), ("stats", ""),
        ("confidence", ""), ("prec1", "max"), ("precond", ""), ("architecture", ""),
        ("mAPs", "max"), ("test_stats['coco_eval_bbox'][0]", "max"), ("fscore", "max"), ("exact_match", "max"),
        ("abs_rel", "min"), ("valid_bce", "min"), ("minADE", "min"), ("si_sdr", "max"), ("mious", "max"),
        ("previous", ""), ("maps", ""), ("made", ""), ("variance", ""), ("params", ""), ("kitti-f1", ""),
        ("val_accu", "max"), ("accu_loss", "min"), ("accu_grad", ""), ("accu_val", "max"), ("loss_accu", "min"),
    ],
)  # fmt: skip
def test_direction_that_a_name_tells(name: str, direction: str) -> None:
    assert direction_of(name) == direction


@pytest.mark.parametrize(
    ("staged", "call", "repeated"),
    [
        pytest.param(False, "main()", "", id="once"),
        pytest.param(False, "for fold in folds:\n    main()", "line 7", id="a model a fold"),
        pytest.param(False, "for n, seed in enumerate(seeds):\n    main()", "", id="a seed"),
        pytest.param(False, "for ii in range(args.itr):\n    main()", "", id="a repetition"),
        pytest.param(False, "folds = [args.fold]\nfor fold in folds:\n    main()", "", id="one fold"),
        pytest.param(False, "for n, fold in enumerate([0]):\n    main()", "", id="one that is counted"),
        pytest.param(False, "for fold in range(k, k + 1):\n    main()", "", id="a range of one"),
        pytest.param(False, "for fold in range(args.k - 1, args.k):\n    main()", "", id="a range up to one"),
        pytest.param(False, "for fold in range(1):\n    main()", "", id="a range of the first"),
        pytest.param(False, "best = [main() for fold in range(3, 4)]", "", id="a range of one in a comprehension"),
        pytest.param(False, "for fold in range(k, k + 2):\n    main()", "line 7", id="a range of two"),
        pytest.param(False, "for fold in range(k, n + 1):\n    main()", "line 7", id="a range to another"),
        pytest.param(False, "for fold in range(k() - 1, k()):\n    main()", "line 7", id="a range of calls"),
        pytest.param(False, "for fold in range(k() + 1):\n    main()", "line 7", id="a range to a call"),
        pytest.param(False, "folds = [0, 1]\nfor fold in folds:\n    main()", "line 8", id="two folds"),
        pytest.param(False, "folds = [*them]\nfor fold in folds:\n    main()", "line 8", id="all of some"),
        pytest.param(
            False, "folds = [0]\nfolds.append(1)\nfor fold in folds:\n    main()", "line 9", id="one more is added"
        ),
        pytest.param(False, "folds = [0]\nfolds += [1]\nfor fold in folds:\n    main()", "line 9", id="more are added"),
        pytest.param(
            False, "folds = [0] if one else range(5)\nfor fold in folds:\n    main()", "line 8", id="one or several"
        ),
        pytest.param(False, "main()\nfor fold in folds:\n    main()", "", id="once without it"),
        pytest.param(False, "best = [main() for fold in folds]", "line 7", id="a fold in a comprehension"),
        pytest.param(False, "best = max(f(main()) for fold in folds)", "line 7", id="the best of the folds"),
        pytest.param(False, "best = [main() for seed in seeds]", "", id="seeds in a comprehension"),
        pytest.param(False, "best = [main() for fold in [args.fold]]", "", id="one fold in a comprehension"),
        pytest.param(False, "best = next(main() for k in folds if k == args.fold)", "", id="the one that is meant"),
        pytest.param(False, "ways = {fold: lambda: main() for fold in folds}\nways[args.fold]()", "", id="one of some"),
        pytest.param(False, "best = [acc for acc in main()]", "", id="what comes of it"),
        pytest.param(False, "while True:\n    main()", "", id="until it goes through"),
        pytest.param(True, "main()", "", id="one model for several stages"),
    ],
)
def test_loop_that_trains_a_model_in_each_turn_is_told(staged: bool, call: str, repeated: str) -> None:
    train = "for epoch in range(9):\n    for x in y:\n        model(x).backward()\n"
    train = "for stage in stages:\n" + indent(train, "    ") if staged else train
    body = "def main():\n    model = DDP(Net())\n" + indent(train, "    ")
    (loop,) = survey_of(DDP + body + call).loops
    assert loop.repeated == repeated
    one = any(head in call for head in ("[args.fold]", "[0])", "range(k, k + 1)", "args.k - 1", "range(1)", "(3, 4)"))
    several = re.search(r"\n    main|main\S* for(?!.* if )", call) and not one
    assert bool(loop.repeats) == (bool(several) or staged)
    assert bool(loop.goes_on) == staged


# Arguments


PARSER = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr')\n"


def arguments_of(text: str) -> str | None:
    (backward,) = survey_of(text).backwards
    return backward.arguments


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param(PARSER + "args = parser.parse_args()\n" + LOOP, "args", id="module level"),
        pytest.param(PARSER + "opt, rest = parser.parse_known_args()\n" + LOOP, "opt", id="parse_known_args"),
        pytest.param(
            "import argparse\ndef get():\n    p = argparse.ArgumentParser()\n"
            "    return p.parse_args()\nhp = get()\n" + LOOP,
            "hp",
            id="returned by a function"
        ),
        pytest.param(
            "import argparse\ndef get_args_parser():\n    p = argparse.ArgumentParser()\n    return p\n"
            "def main(args):\n" + indented(LOOP) + "main(get_args_parser().parse_args())\n",
            "args",
            id="get_args_parser and a parameter"
        ),
        pytest.param(
            PARSER + "def main():\n" + indented(LOOP)
            + "if __name__ == '__main__':\n    args = parser.parse_args()\n    main()\n",
            "args",
            id="bound under the main guard"
        ),
        pytest.param(
            PARSER + "def main():\n    global args\n    args = parser.parse_args()\n    fit()\n"
            + "def fit():\n" + indented(LOOP),
            "args",
            id="bound by main as a global",
        ),
        pytest.param(
            PARSER + "import torch.multiprocessing as mp\ndef work(rank, args):\n" + indented(LOOP)
            + "if __name__ == '__main__':\n    args = parser.parse_args()\n    mp.spawn(work, args=(args,))\n",
            "args",
            id="bound under the main guard, given to a spawned process",
        ),
        pytest.param(
            PARSER + "class T:\n    def __init__(self, a):\n        self.args = a\n    def fit(self):\n"
            + indented(LOOP, 8) + "T(parser.parse_args()).fit()\n",
            "self.args",
            id="attribute of self"
        ),
    ],
)  # fmt: skip
def test_parsed_arguments_are_in_scope(text: str, name: str) -> None:
    assert arguments_of(text) == name


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(LOOP, id="no argparse"),
        pytest.param("args = Settings()\n" + LOOP, id="settings object called args"),
        pytest.param("import click\ndef main(args):\n" + indented(LOOP), id="click"),
        pytest.param(
            PARSER + "def main():\n    args = parser.parse_args()\n    fit()\ndef fit():\n" + indented(LOOP),
            id="local to another function"
        ),
        pytest.param(
            PARSER + "def other(args):\n    pass\nother(parser.parse_args())\n" + LOOP, id="other function's parameter"
        ),
        pytest.param("from options import parse\nargs = parse()\n" + LOOP, id="another module's"),
        pytest.param(
            PARSER + "import torch.multiprocessing as mp\ndef work(rank):\n" + indented(LOOP)
            + "if __name__ == '__main__':\n    args = parser.parse_args()\n    mp.spawn(work, nprocs=2)\n",
            id="bound under the main guard, used in a spawned process",
        ),
        pytest.param(
            PARSER + "args = parser.parse_args()\nargs = vars(args)\n" + LOOP,
            id="made a dict later",
        ),
        pytest.param(
            PARSER + "def options():\n    args = parser.parse_args()\n    args = vars(args)\n    return args\n"
            "args = options()\n" + LOOP,
            id="made a dict in the function that gives it",
        ),
        pytest.param(
            PARSER + "args = parser.parse_args()\nif args.lr:\n    args = torch.load('x')['args']\n" + LOOP,
            id="a checkpoint's by turns",
        ),
        pytest.param(
            PARSER + "def main():\n    if go:\n        args = parser.parse_args()\n" + indented(LOOP) + "main()\n",
            id="bound in a branch only",
        ),
        pytest.param(PARSER + "_, config = parser.parse_args(), 1\n" + LOOP, id="thrown away"),
    ],
)  # fmt: skip
def test_parsed_arguments_are_not_in_scope(text: str) -> None:
    assert arguments_of(text) is None


@pytest.mark.parametrize(
    ("text", "target", "options", "line"),
    [
        pytest.param(PARSER + "args = parser.parse_args()\n", "parser", {"--lr"}, 3, id="module level"),
        pytest.param(
            "import argparse\np = argparse.ArgumentParser()\na = p.parse_args()\n", "p", set(), 2, id="no options yet"
        ),
        pytest.param(
            "from argparse import ArgumentParser\ndef f():\n    ap = ArgumentParser()\n"
            "    ap.add_argument('-b', '--bs')\n    return ap.parse_args()\nx = f()\n",
            "ap",
            {"-b", "--bs"},
            4,
            id="in a function",
        ),
        pytest.param(
            PARSER + "for name in names:\n    parser.add_argument('--x')\nargs = parser.parse_args()\n",
            "parser",
            {"--lr", "--x"},
            4,
            id="in a loop",
        ),
    ],
)
def test_parser_is_found(text: str, target: str, options: set[str], line: int) -> None:
    (parser,) = survey_of(text).parsers
    assert (parser.target, set(parser.options), parser.line) == (target, options, line)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("import argparse\nparser = argparse.ArgumentParser()\n", id="never parsed"),
        pytest.param("tree = parser.parse_args(text)\n", id="another parse_args"),
        pytest.param("from mine import Parser\np = Parser()\na = p.parse_args()\n", id="own parser class"),
        pytest.param("import argparse\nargs = argparse.Namespace(lr=1)\n", id="a namespace"),
    ],
)
def test_no_parser(text: str) -> None:
    assert survey_of(text).parsers == []


def test_arguments_belong_to_the_parser_that_their_name_means_then() -> None:
    found = survey_of(
        PARSER.replace("parser = ", "first = parser = ")
        + "parser = argparse.ArgumentParser()\nparser.add_argument('--a')\nparser.add_argument('--b')\n"
        + "known, rest = first.parse_known_args()\nargs = parser.parse_args(rest)\n"
    )
    assert [(p.target, sorted(p.options)) for p in found.parsers] == [("first", ["--lr"]), ("parser", ["--a", "--b"])]
    assert found.parser is found.parsers[1]


def test_parser_without_a_name_cannot_take_more_options() -> None:
    assert survey_of("import argparse\nargs = argparse.ArgumentParser().parse_args()\n").parsers == []


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("", True),
        ("sys.argv[1:]", True),
        ("args=argv", True),
        ("None", True),
        ("[]", False),
        ("args=[]", False),
        ("['--lr', '1']", False),
        ("'--lr 1'.split()", False),
        ("namespace=[]", True),
    ],
)
def test_a_list_that_stands_in_the_script_is_no_command_line(given: str, read: bool) -> None:
    made = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr')\n"
    for text in (
        f"args = parser.parse_args({given})\n",
        f"def get():\n    return parser.parse_args({given})\nargs = get()\n",
    ):
        found = survey_of(f"{made}{text}for epoch in range(3):\n    for x in y:\n        loss.backward()\n")
        assert bool(found.parsers) is read
        assert found.loops[0].arguments == ("args" if read else None)


@pytest.mark.parametrize(
    ("called", "read"),
    [
        pytest.param("main(['--lr', '1'])", False, id="a list"),
        pytest.param("given = ['--lr', '1']\nmain(given)", False, id="by a name"),
        pytest.param("main()", True, id="none"),
        pytest.param("main(sys.argv[1:])", True, id="the command line"),
        pytest.param("main(['--lr', '1'] + sys.argv[1:])", True, id="more than a list"),
        pytest.param("main([*sys.argv[1:], '--lr', '1'])", True, id="with a star"),
        pytest.param("given = ['--lr']\nmain([*given, '1'])", False, id="a star of a list"),
        pytest.param("given = ['--lr', '1']\ngiven.extend(sys.argv[1:])\nmain(given)", True, id="extended"),
        pytest.param("given = ['--lr', '1']\ngiven += sys.argv[1:]\nmain(given)", True, id="added to"),
        pytest.param("main(['--lr', '1'] if debug else None)", True, id="a list or none"),
    ],
)
def test_a_list_that_is_handed_to_the_function_that_parses_it_is_no_command_line(called: str, read: bool) -> None:
    found = survey_of(
        "import argparse, sys\ndef main(given=None):\n    parser = argparse.ArgumentParser()\n"
        "    parser.add_argument('--lr')\n    args = parser.parse_args(given)\n"
        f"    for epoch in range(3):\n        for x in y:\n            loss.backward()\n{called}\n"
    )
    assert bool(found.parsers) is read
    assert found.loops[0].arguments == ("args" if read else None)


# Frameworks


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param("import pytorch_lightning as pl\n", "PyTorch Lightning", id="pytorch_lightning"),
        pytest.param("import lightning as L\n", "PyTorch Lightning", id="lightning"),
        pytest.param("from lightning.pytorch import Trainer\n", "PyTorch Lightning", id="lightning.pytorch"),
        pytest.param("from accelerate import Accelerator\n", "Hugging Face Accelerate", id="accelerate"),
        pytest.param("import deepspeed\n", "DeepSpeed", id="deepspeed"),
        pytest.param("import horovod.torch as hvd\n", "Horovod", id="horovod"),
        pytest.param("import submitit\n", "submitit", id="submitit"),
        pytest.param("import byteps.torch as bps\n", "BytePS", id="byteps"),
        pytest.param("from dask_pytorch_ddp import dispatch\n", "dask-pytorch-ddp", id="dask_pytorch_ddp"),
        pytest.param(
            "from pyspark.ml.torch.distributor import TorchDistributor as Own\nOwn().run(main)\n",
            "Spark's TorchDistributor",
            id="TorchDistributor",
        ),
        pytest.param("import dgl\ndgl.distributed.initialize('ip.txt')\n", "dgl.distributed", id="dgl.distributed"),
        pytest.param("from dgl.distributed import initialize\ninitialize('i')\n", "dgl.distributed", id="its function"),
        pytest.param(
            "from torch_geometric.nn import DataParallel\nmodel = DataParallel(model)\n",
            "torch_geometric.nn.DataParallel",
            id="lists of graphs",
        ),
        pytest.param(
            "for name in model.experts:\n    model.add_param_to_skip_allreduce(name)\n",
            "add_param_to_skip_allreduce",
            id="parameters of one rank",
        ),
        pytest.param(
            "m._ddp_params_and_buffers_to_ignore = [n for n, _ in m.named_parameters() if 'expert' in n]\n",
            "_ddp_params_and_buffers_to_ignore",
            id="parameters of experts",
        ),
        pytest.param(
            "m._ddp_params_and_buffers_to_ignore = {'scale', 'fc.weight'}\n",
            "_ddp_params_and_buffers_to_ignore",
            id="a weight among what is left out",
        ),
        pytest.param(
            "class M(Module):\n    def __init__(self):\n        self.scale = nn.Parameter(x)\n"
            "m._ddp_params_and_buffers_to_ignore = {'scale'}\n",
            "_ddp_params_and_buffers_to_ignore",
            id="a parameter of an own class left out",
        ),
        pytest.param(
            "m._ddp_params_and_buffers_to_ignore = left_out\n",
            "_ddp_params_and_buffers_to_ignore",
            id="what is left out is not known",
        ),
        pytest.param(
            "m._ddp_params_and_buffers_to_ignore = []\nm._ddp_params_and_buffers_to_ignore.append(name)\n",
            "_ddp_params_and_buffers_to_ignore",
            id="names added one by one",
        ),
        pytest.param("from transformers import Trainer\nt = Trainer(model)\n", "Hugging Face Trainer", id="Trainer"),
        pytest.param(
            "import transformers\nt = transformers.Seq2SeqTrainer(m)\n", "Hugging Face Trainer", id="Seq2SeqTrainer"
        ),
        pytest.param(
            "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\nm = FSDP(m)\n", "FSDP", id="FSDP"
        ),
        pytest.param("from torch.distributed.fsdp import fully_shard\nfully_shard(m)\n", "FSDP", id="fully_shard"),
        pytest.param(
            "from apex.parallel import DistributedDataParallel as DDP\nm = DDP(m)\n", "NVIDIA Apex", id="apex's wrapper"
        ),
        pytest.param(
            "from torch.optim import swa_utils\nm = swa_utils.AveragedModel(m)\n",
            "torch.optim.swa_utils.AveragedModel",
            id="an average of the model",
        ),
        pytest.param("from apex import amp\nm, o = amp.initialize(m, o)\n", "NVIDIA Apex amp", id="apex's amp"),
        pytest.param(
            "from transformers import Trainer\nclass Mine(Trainer):\n    pass\nMine(model).train()\n",
            "Hugging Face Trainer",
            id="subclass of Trainer",
        ),
    ],
)
def test_framework_is_recognised(text: str, name: str) -> None:
    assert [framework.name for framework in survey_of(text).frameworks] == [name]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("from mine import Trainer\nt = Trainer(model)\n", id="own Trainer"),
        pytest.param("class Trainer:\n    pass\nTrainer()\n", id="own class"),
        pytest.param("from transformers import AutoModel\nm = AutoModel()\n", id="a model of transformers"),
        pytest.param("import lightning_utilities\n", id="lightning_utilities"),
        pytest.param("import accelerate_mine\n", id="name that begins alike"),
        pytest.param("from .accelerate import speed\n", id="relative import"),
        pytest.param("from mine import deepspeed\n", id="a name imported from elsewhere"),
        pytest.param("import mine.horovod\n", id="submodule called horovod"),
        pytest.param(
            "import dgl\nloader = dgl.dataloading.DataLoader(g, ids, s, use_ddp=True)\n", id="a loader of dgl"
        ),
        pytest.param(
            "import dgl\ndgl.distributed.partition_graph(g, 'g', 2, 'parts')\n", id="parts of a graph for dgl"
        ),
        pytest.param("from apex.normalization import FusedLayerNorm\nm = FusedLayerNorm(3)\n", id="a layer of apex"),
        pytest.param("from torch.distributed.fsdp import MixedPrecision\n", id="FSDP not called"),
        pytest.param("accelerate = 1\nlightning = 2\n", id="variables"),
        pytest.param("m._ddp_params_and_buffers_to_ignore = {'freqs_cis'}\n", id="a buffer left out"),
        pytest.param("m._ddp_params_and_buffers_to_ignore = [p + 'freqs_cis', f'{p}mask']\n", id="with a prefix"),
        pytest.param(
            "m._ddp_params_and_buffers_to_ignore = [n for n, b in m.named_buffers() if b.dtype == torch.bool]\n",
            id="buffers left out by their type",
        ),
        pytest.param("text = 'import deepspeed'\n", id="string"),
    ],
)
def test_no_framework(text: str) -> None:
    assert survey_of(text).frameworks == []


AROUND_HOROVOD = """
import horovod.torch as hvd

class Wrapper:
    @classmethod
    def init(cls):
        return hvd.init()

    @classmethod
    def size(cls):
        return hvd.size()

def size():
    return hvd.size()
"""


@pytest.mark.parametrize(
    ("used", "option"),
    [
        pytest.param("if args.command == 'pretrain':\n    Wrapper.init()\n", "args.command == 'pretrain'", id="option"),
        pytest.param("Wrapper.init()\n", "", id="always"),
        pytest.param("if args.command == 'pretrain':\n    hvd.init()\n", "", id="others may call the wrapper"),
    ],
)
def test_methods_around_a_library_that_nothing_calls_are_no_use_of_it(used: str, option: str) -> None:
    text = code(AROUND_HOROVOD).replace("def size():\n    return hvd.size()\n", "")
    (framework,) = survey_of(f"{text}{used}").frameworks
    assert framework.option == option


def test_a_function_around_a_library_that_nothing_calls_may_be_called() -> None:
    (framework,) = survey_of(f"{code(AROUND_HOROVOD)}if args.command == 'pretrain':\n    Wrapper.init()\n").frameworks
    assert framework.option == ""


@pytest.mark.parametrize(
    "before",
    [
        "net = Net()\nparams = net.parameters()\n",
        "def build():\n    m = Net()\n    return m, m.parameters()\n\nnet, params = build()\n",
    ],
    ids=["name", "factory"],
)
def test_parameters_kept_under_a_name_are_the_models(before: str) -> None:
    optimizer = only_optimizer(
        f"import torch\n{DDP}{before}net = DDP(net)\noptimizer = torch.optim.SGD(params, lr=0.1)\n{LOOP}".replace(
            "model(", "net("
        )
    )
    assert optimizer.plain
    assert dict(optimizer.bound) == {"params": "net.parameters()", "lr": "0.1"}


def test_some_parameters_kept_under_a_name_stay_so() -> None:
    before = "net = Net()\nparams = net.head.parameters()\nnet = DDP(net)\n"
    optimizer = only_optimizer(f"import torch\n{DDP}{before}optimizer = torch.optim.SGD(params, lr=0.1)\n{LOOP}")
    assert optimizer.keeps == "its parameters come from params"


@pytest.mark.parametrize(
    ("instead", "line"),
    [
        pytest.param("model = Net()\n    model.load_state_dict(torch.load(path))\n    model.eval()", 4, id="to test"),
        pytest.param("model = Net()\n    train()", 4, id="by a function that does something else"),
        pytest.param("model = Other()\n    fit(model)", None, id="trained as well"),
    ],
)
def test_a_model_of_a_branch_without_a_training_is_not_the_trained_one(instead: str, line: int | None) -> None:
    text = (
        f"{DDP}import torch\ndef main(path):\n  model = Net()\n  model = DDP(model)\n  if not path:\n    fit(model)\n"
    )
    text += f"    model = torch.load('best.pt')\n  else:\n    {instead}\n  validate(model)\n\ndef fit(model):\n"
    text += "  optimizer = torch.optim.SGD(model.parameters())\n  for epoch in range(3):\n    for x in loader:\n"
    survey = survey_of(f"{text}      model(x).backward()\n\nmain(p)\n")
    assert [model.line for model in survey.models] == [line] if line else survey.disorder


def test_models_that_are_trained_one_after_the_other_are_not_one() -> None:
    text = (
        f"{DDP}import torch\ndef main():\n    model = Net()\n    model = DDP(model)\n    train(model)\n    if more:\n"
    )
    text += "        model = Net(model)\n        model = DDP(model)\n    train(model)\n\ndef train(model):\n"
    text += (
        "    optimizer = torch.optim.SGD(model.parameters())\n    for epoch in range(3):\n        for x in loader:\n"
    )
    assert "in several steps: line 4, line 8" in survey_of(f"{text}            model(x).backward()\n").disorder


def test_training_loss_for_the_scheduler_is_no_score_where_the_loop_validates() -> None:
    text = """
    import numpy as np
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP
    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    for epoch in range(10):
        losses = []
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        VALIDATE
        scheduler.step(np.mean(losses))
    """
    validating = code(text).replace("VALIDATE", "val_acc = evaluate(model)\n    print(val_acc)")
    assert [score.expression for score in survey_of(validating).scores] == ["val_acc"]
    assert [score.expression for score in survey_of(code(text).replace("VALIDATE", "pass")).scores] == [
        "np.mean(losses)"
    ]


@pytest.mark.parametrize(
    ("epoch", "score"),
    [
        pytest.param(
            "loss = run(True)\n    val_acc = evaluate(model)\n    sched.step(loss)", "val_acc", id="validated"
        ),
        pytest.param("loss = run(True)\n    sched.step(loss)", "loss", id="nothing else"),
        pytest.param(
            "train_loss = run(True)\n    loss = run(False)\n    val_acc = evaluate(model)\n    sched.step(loss)",
            "loss",
            id="trains and validates",
        ),
    ],
)
def test_what_a_function_of_the_training_returns_is_no_score_where_the_loop_validates(epoch: str, score: str) -> None:
    text = """
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP
    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sched = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    def run(train):
        total = 0
        for x, y in loader:
            loss = criterion(model(x), y)
            if train:
                loss.backward()
                optimizer.step()
            total += loss.item()
        return total
    for epoch in range(10):
        EPOCH
    """
    assert [one.expression for one in survey_of(code(text).replace("EPOCH", epoch)).scores] == [score]


BUILT_APART = """
def build_optimizer(net):
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    return opt

"""


def apart(*lines: str) -> Script:
    """Return the survey of a script that builds its optimizer in a function, with these lines before its wrapper."""
    text = script().replace("model = Net()\n", "\n".join(lines) + "\n")
    text = text.replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n", "")
    return survey_of(text.replace("\n\n", f"\nfrom apex import amp\n{BUILT_APART}", 1))


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        pytest.param(("model = Net()", "optimizer = build_optimizer(model)"), "model = Net()", id="built before"),
        pytest.param(
            (
                "model = Net()",
                "optimizer = build_optimizer(model)",
                "model, optimizer = amp.initialize(model, optimizer)",
            ),
            "model = Net()",
            id="both come back from a library as they are",
        ),
        pytest.param(
            ("model = Net()", "model = convert(model)", "optimizer = build_optimizer(model)"),
            "model = convert(model)",
            id="converted before",
        ),
    ],
)
def test_model_is_there_before_the_function_that_builds_its_optimizer(lines: tuple[str, ...], place: str) -> None:
    survey = apart(*lines)
    assert [model.code.strip() for model in survey.models] == [place]
    assert [(o.target, o.keeps != "") for o in survey.optimizers] == [("optimizer", True)]
    assert survey.disorder == ""


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(
            ("early = Net()", "optimizer = build_optimizer(early)", "model = Sequential(early)"), id="of a part"
        ),
        pytest.param(
            ("early = Net()", "optimizer = torch.optim.SGD(early.parameters(), lr=0.1)", "model = Sequential(early)"),
            id="of a part, plainly",
        ),
        pytest.param(("args = 1", "model, optimizer = library.build(args)"), id="with the model, out of sight"),
    ],
)
def test_optimizer_that_a_function_builds_before_the_model_is_handed_over_after_it(lines: tuple[str, ...]) -> None:
    text = script().replace("model = Net()\n", "\n".join(lines) + "\n")
    text = text.replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n", "")
    builder = BUILT_APART if "build_optimizer" in lines[-2] else ""
    found = survey_of(text.replace("\n\n", f"\n{builder}\n", 1))
    (model,), (optimizer,) = found.models, found.optimizers
    assert found.disorder == ""
    assert optimizer.keeps
    assert optimizer.anchors["made"] is model.node
    assert model.code.strip() == lines[-1]


BUILDER = """
def get_model(ema=False):
    net = Net()
    return DDP(net.cuda())

"""


@pytest.mark.parametrize(
    ("lines", "lines_told"),
    [
        pytest.param("model = get_model()\nteacher = get_model(ema=True)", [8, 9], id="a copy for averages"),
        pytest.param("model, teacher = get_model(), get_model(True)", [8, 8], id="in one statement"),
        pytest.param("model = get_model()", [], id="once"),
        pytest.param("model = get_model()\nget_model(1, 2)", [], id="a call that can only fail"),
        pytest.param("model = get_model()\nget_model(of=2)", [], id="one by a name that it lacks"),
        pytest.param("model = get_model()\nget_model(**them)", [8, 9], id="one that may go well"),
        pytest.param("if a:\n    model = get_model()\nelse:\n    model = get_model(True)", [], id="by choice"),
        pytest.param("model = get_model() if a else get_model(True)", [], id="by choice in one statement"),
        pytest.param("model = get_model()\nteacher = copy.deepcopy(model)", [], id="copied"),
    ],
)
def test_builder_that_is_called_for_two_models_is_told(lines: str, lines_told: list[int]) -> None:
    text = script().replace("model = Net()\nmodel = DDP(model)\n", lines + "\n")
    survey = survey_of(text.replace("\n\n", f"\n{BUILDER}", 1))
    assert survey.repeated == [f"line {line}" for line in lines_told]


@pytest.mark.parametrize(
    ("last", "told"),
    [
        pytest.param("main(0)", True, id="both run"),
        pytest.param("main()", False, id="it lacks an argument"),
        pytest.param("sys.exit(0)\nmain(0)", False, id="never reached"),
        pytest.param("if a:\n    sys.exit(0)\nmain(0)", True, id="perhaps reached"),
    ],
)
def test_leftover_call_that_builds_nothing_is_no_second_one(last: str, told: bool) -> None:
    text = f"import sys\ndef main(rank):\n{indent(code(script()), '    ')}\nmain(0)\n{last}\n"
    assert bool(survey_of(text).repeated) is told


@pytest.mark.parametrize(
    ("building", "last"),
    [
        pytest.param("with cwd(ROOT):\n    model = Net()", "with cwd(ROOT):", id="in a context of its own"),
        pytest.param(
            "with cwd(ROOT):\n    model = Net()\nmodel.fc = Linear(3, 4)", "model.fc = Linear(3, 4)", id="after it"
        ),
        pytest.param(
            "if a:\n    if b:\n        model = Net()\nfor m in model.modules():\n    init.zeros_(m.bias)",
            "for m in model.modules():",
            id="after a choice",
        ),
        pytest.param(
            "model = Net()\nfor p in model.parameters():\n    p.requires_grad = True",
            "for p in model.parameters():",
            id="all trained",
        ),
        pytest.param(
            "model = Net()\nema = copy.deepcopy(model)\nmodel.fc = Linear(3, 4)", "model = Net()", id="copied"
        ),
        pytest.param(
            "model = Net()\nnn.init.zeros_(model.fc.bias)", "nn.init.zeros_(model.fc.bias)", id="one layer's bias"
        ),
        pytest.param("model = Net()\nwith timer():\n    summary(model)", "model = Net()", id="another context"),
        pytest.param("model = Net()\nfirst = model.fc.weight.data.mean()", "model = Net()", id="weights that are read"),
        pytest.param("model = Net()\nmodel.fc.weight.data.zero_()", "model.fc.weight.data.zero_()", id="set in place"),
        pytest.param(
            "model = Net()\nfor n, p in list(model.named_parameters()):\n    p.data[0] = 0",
            "for n, p in list(model.named_parameters()):",
            id="some weights of each layer",
        ),
        pytest.param(
            "model = Net()\nfor p in model.parameters():\n    total = total + p.data.sum()",
            "model = Net()",
            id="weights that are summed",
        ),
        pytest.param(
            "model = Net()\ndelta = AdapterModel(model)\ndelta.freeze_module(exclude=['deltas'])",
            "delta.freeze_module(exclude=['deltas'])",
            id="by what a library makes of it",
        ),
        pytest.param(
            "model = Net()\nif a:\n    delta = AdapterModel(net=model)\n    delta.freeze_module()",
            "if a:",
            id="by what a library makes of it for a choice",
        ),
        pytest.param("model = Net()\nprobe = Probe(model)\nprobe.cuda()", "model = Net()", id="an object beside it"),
        pytest.param(
            "model = Net()\nown = Own(model)\nown.show()", "model = Net()", id="by an own class that shows it"
        ),
    ],
)
def test_model_is_finished_after_what_changes_it(building: str, last: str) -> None:
    own = "class Own:\n    def __init__(self, net):\n        self.net = net\n"
    own += "    def show(self):\n        print(self.net)\n\n"
    (model,) = survey_of(script().replace("\n\n", f"\n\n{own}", 1).replace("model = Net()", building)).models
    assert model.code.strip().splitlines()[0] == last


SUMMED = "import torchsummary\nmodel = Net().to('cpu')\n"


@pytest.mark.parametrize(
    ("building", "last"),
    [
        pytest.param(
            f"{SUMMED}torchsummary.summary(model, (8,))", "torchsummary.summary(model, (8,))", id="a library's"
        ),
        pytest.param(f"{SUMMED}if first:\n    torchsummary.summary(model, (8,))", "if first:", id="under a condition"),
        pytest.param(
            "from thop import profile\nmodel = Net()\nmacs = profile(model.to('cpu').eval(), inputs=(x,))",
            "macs = profile(model.to('cpu').eval(), inputs=(x,))",
            id="as it is moved",
        ),
        pytest.param(
            "from thop import profile\nmodel = Net()\nmacs, size = profile(model, inputs=(x,))",
            "macs, size = profile(model, inputs=(x,))",
            id="with results",
        ),
        pytest.param(f"{SUMMED}summary(model)", "model = Net().to('cpu')", id="one of its own"),
        pytest.param(f"{SUMMED}torchsummary.summary(other, (8,))", "model = Net().to('cpu')", id="another model's"),
        pytest.param(
            f"{SUMMED}ema = copy.deepcopy(model)\ntorchsummary.summary(model, (8,))",
            "model = Net().to('cpu')",
            id="after a copy",
        ),
        pytest.param(
            f"{SUMMED}if args.resume:\n    model.load_state_dict(torch.load(args.resume))\n"
            "torchsummary.summary(model, (8,))",
            "model = Net().to('cpu')",
            id="after a checkpoint to resume from",
        ),
    ],
)
def test_model_is_finished_after_what_a_library_tells_of_it(building: str, last: str) -> None:
    (model,) = survey_of(script().replace("model = Net()", building)).models
    assert model.code.strip().splitlines()[0] == last


@pytest.mark.parametrize(
    ("layer", "run", "last"),
    [
        pytest.param("LazyLinear(2)", "model(x)", "model(x)", id="called"),
        pytest.param("LazyLinear(2)", "with torch.no_grad():\n    y = model(x)", "with torch.no_grad():", id="within"),
        pytest.param("LazyLinear(2)", "shape(model)", "shape(model)", id="in a function"),
        pytest.param("LazyLinear(2)", "other(x)", "model = Net()", id="another model"),
        pytest.param("Linear(2, 2)", "model(x)", "model = Net()", id="no lazy layer"),
        pytest.param("Linear(2, 2)", "shape(model)", "model = Net()", id="no lazy layer, in a function"),
    ],
)
def test_model_of_lazy_layers_is_finished_after_its_first_forward_pass(layer: str, run: str, last: str) -> None:
    shape = f"def shape(net):\n    return net(torch.zeros(1, 2)).shape\n\n\nhead = torch.nn.{layer}\n"
    (model,) = survey_of(script().replace("model = Net()", f"{shape}model = Net()\n{run}")).models
    assert model.code.strip().splitlines()[0] == last


@pytest.mark.parametrize(
    ("told", "last"),
    [
        pytest.param("net.resize(12)", "words, model = add(words, model)", id="of the model"),
        pytest.param("net.body.resize(12)", "words, model = add(words, model)", id="of a part"),
        pytest.param("further(net)", "words, model = add(words, model)", id="by a further function"),
        pytest.param("net.grow(12)", "words, model = add(words, model)", id="of a class that is read"),
        pytest.param("net.rebuild(12)", "words, model = add(words, model)", id="by another of its methods"),
        pytest.param("net.load(12)", "words, model = add(words, model)", id="by one that is not read"),
        pytest.param("net.show()", "model = Net()", id="which only tells"),
        pytest.param("net.tell()", "model = Net()", id="which only tells by another of its methods"),
        pytest.param("other.resize(12)", "model = Net()", id="of another object"),
        pytest.param("net.eval()", "model = Net()", id="which changes no layers"),
        pytest.param("print(net.size(12))", "model = Net()", id="for what it returns"),
        pytest.param("ok = net.rebuild(12)", "words, model = add(words, model)", id="and for what it returns"),
        pytest.param("net.rebuild(12).train()", "words, model = add(words, model)", id="before another in a chain"),
        pytest.param("shown = net.tell()", "model = Net()", id="which only tells, for what it returns"),
        pytest.param("opt = SGD(net.parameters(), lr=1)\n    net.resize(12)", "model = Net()", id="with an optimizer"),
    ],
)
def test_model_is_finished_after_a_function_that_calls_what_changes_it(told: str, last: str) -> None:
    own = "class Net(nn.Module):\n    def show(self):\n        print(self)\n\n    def grow(self, n):\n"
    own += "        self.fc = nn.Linear(n, 1)\n\n    def rebuild(self, n):\n        self.grow(n)\n\n"
    own += "    def load(self, n):\n        self.body.resize(n)\n\n"
    own += "    def tell(self):\n        self.show()\n        self.tell()\n\n\n"
    further = "def further(it):\n    it.resize(12)\n\n\n"
    helpers = f"{own}{further}def add(words, net):\n    {told}\n    return words, net\n\n\n"
    (model,) = survey_of(
        script().replace("model = Net()", f"{helpers}model = Net()\nwords, model = add(words, model)")
    ).models
    assert model.code.strip().splitlines()[0] == last


def test_model_is_finished_within_a_context_of_the_whole_training() -> None:
    text = script()
    head, _, rest = text.partition("model = Net()")
    (model,) = survey_of(f"{head}with run():\n{indent('model = Net()' + rest, '    ')}").models
    assert model.code.strip() == "model = Net()"


@pytest.mark.parametrize(
    ("before", "seen"),
    [
        pytest.param("model.module.fc = torch.nn.Linear(3, 4)", "gets another layer after it, at line 7", id="layer"),
        pytest.param("model.module.epoch = Counter(3)", "", id="no layer"),
        pytest.param("model.module.reset_parameters()", "", id="reset"),
        pytest.param("model.module.head.init_weights()", "", id="of a part"),
        pytest.param(
            "def xavier(m):\n    torch.nn.init.xavier_uniform_(m.weight)\nmodel.apply(xavier)",
            "",
            id="applied",
        ),
        pytest.param("def still(m):\n    m.eval()\nmodel.apply(still)", "", id="applied without a change"),
        pytest.param("for p in model.parameters():\n    torch.nn.init.normal_(p)", "", id="each"),
        pytest.param("for p in head.parameters():\n    torch.nn.init.normal_(p)", "", id="each of another"),
        pytest.param("meter.reset_parameters()", "", id="of another object"),
        pytest.param("def later():\n    model.module.reset_parameters()", "", id="never called"),
        pytest.param("model.features = torch.nn.DataParallel(model.features)", "", id="wrapped part"),
    ],
)
def test_what_does_not_fit_the_perforated_model_is_told(before: str, seen: str) -> None:
    disorder = survey_of(script(before=before)).disorder
    assert seen in disorder if seen else disorder == ""


_PUTS_IN = """
class Adapted(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner


def adapt(net):
    for number, block in enumerate(net.blocks):
        for name, part in block.named_children():
            added = Adapted(part)
            setattr(block, name, added)


def run(model):
    CHANGE
    model = DDP(model)
"""


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param("adapt(model)", "`setattr(block, name, added)` puts another layer into it", id="in each block"),
        pytest.param("model._modules['fc'] = torch.nn.Linear(3, 4)", "`model._modules['fc']` puts", id="by a key"),
        pytest.param("model.add_module('fc', torch.nn.Linear(3, 4))", "puts another layer into it", id="by a method"),
        pytest.param("model.fc = Adapted(model.fc)", "`model.fc` gets another layer", id="of an own class"),
        pytest.param("model.losses['main'] = torch.nn.MSELoss()", "", id="a loss"),
        pytest.param(
            "model.losses['main'] = torch.nn.NLLLoss(weight=shares)",
            "puts another layer into it",
            id="a loss that keeps",
        ),
        pytest.param("setattr(model, 'epoch', 3)", "", id="no layer"),
        pytest.param("setattr(other, 'fc', torch.nn.Linear(3, 4))", "", id="of another object"),
        pytest.param("losses['main'] = torch.nn.MSELoss()", "", id="of a dict"),
    ],
)
def test_layer_that_another_function_puts_into_the_model_is_told(change: str, told: str) -> None:
    head, _, rest = script().partition("model = Net()\n")
    rest = rest.replace("model = DDP(model)\n", "")
    text = f"{head}{_PUTS_IN.replace('CHANGE', change)}{indent(rest, '    ')}\n\nmodel = Net()\nrun(model)\n"
    disorder = survey_of(text).disorder
    assert told in disorder if told else disorder == ""


_RESIZES = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.heads = torch.nn.Embedding(9, 3), torch.nn.ModuleList([torch.nn.Linear(3, 4)])
        self.head = self.heads[0]

    def resize(self, count):
        old, new = self.words, torch.nn.Embedding(count, 3)
        self.words = new

    def resize_by_another(self, count):
        self.words = self.larger(count)

    def larger(self, count):
        return torch.nn.Embedding(count, 3)

    def choose(self, number):
        self.head = self.heads[number]

    def resize_token_embeddings(self, number):
        self.number = number


class Trainer:
    def __init__(self, model):
        self.model = model

    def prepare(self):
        self.critic = torch.nn.Linear(3, 1)


def run(model):
"""


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param("model.resize(10)", "`model.resize(10)` changes its layers after that, at line", id="an own one"),
        pytest.param("model.resize_by_another(10)", "`model.resize_by_another(10)` changes", id="by a further one"),
        pytest.param("model.choose(0)", "", id="a layer that is there"),
        pytest.param("model.resize_token_embeddings(10)", "", id="no layer, by a library's word for one"),
        pytest.param("Net().resize(10)", "", id="of another one"),
        pytest.param("Trainer(model).prepare()", "", id="of what holds it"),
    ],
)
@pytest.mark.parametrize("late", [True, False], ids=["late", "behind what builds it"])
def test_method_that_gives_the_model_another_layer_is_told(change: str, told: str, late: bool) -> None:
    """One right behind what builds it is before its dendrites."""
    head, _, rest = script().partition("model = Net()\n")
    rest = rest.replace("model = DDP(model)\n", "")
    early, inside = ("", f"    {change}\n") if late else (f"{change}\n", "")
    wrapped = f"{inside}    model = DDP(model)\n{indent(rest, '    ')}"
    text = f"{head}{_RESIZES}{wrapped}\n\nmodel = Net()\n{early}if args.train:\n    run(model)\n"
    disorder = survey_of(text).disorder
    assert told in disorder if told and late else disorder == ""


def test_method_of_a_library_that_gives_the_model_another_layer_is_told() -> None:
    head, _, rest = script().partition("model = Net()\n")
    built = "from transformers import BertModel\nmodel = BertModel.from_pretrained('bert')\nif args.train:\n"
    for change, told in (("model.resize_token_embeddings(9)", True), ("words.resize_token_embeddings(9)", False)):
        disorder = survey_of(f"{head}{built}    {change}\n{indent(rest, '    ')}").disorder
        assert (f"`{change}` changes its layers after that" in disorder) is told


_BUILT_OF = """
class Whole(torch.nn.Module):
    def __init__(self, backbone):
        super().__init__()
        backbone.fc = torch.nn.Linear(3, 4)
        self.backbone = backbone


"""
_PUTS = """
def headed(backbone):
    backbone.add_module('fc', torch.nn.Linear(3, 4))
    return backbone


"""


@pytest.mark.parametrize(
    ("putting", "name"),
    [pytest.param(_BUILT_OF, "Whole", id="constructor"), pytest.param(_PUTS, "headed", id="function")],
)
@pytest.mark.parametrize(
    ("given", "told"), [pytest.param("other", False, id="another object"), pytest.param("model", True, id="the model")]
)
def test_layer_is_put_into_what_the_call_is_given(putting: str, name: str, given: str, told: bool) -> None:
    built = f"{putting}model, other = Net(), Net()\nmodel = {name}(model)\n"
    disorder = survey_of(script(before=f"late = {name}({given})").replace("model = Net()\n", built)).disorder
    assert ("another layer" in disorder) == told


_PUTS_ONCE = """
def attach(net):
    BEGIN
    if CONDITION:
        PUT


def load():
    model = Net()
    EARLY
    return model


model = load()
"""


@pytest.mark.parametrize(
    ("begin", "condition"),
    [
        ("head = getattr(net, 'fc', None)", "head is None"),
        ("head = getattr(net, 'fc', None)", "not head"),
        ("pass", "not hasattr(net, 'fc')"),
        ("pass", "net.fc is None"),
        ("if hasattr(net, 'fc'):\n        return", "net is not None"),
    ],
)
@pytest.mark.parametrize("put", ["net.add_module('fc', torch.nn.Linear(3, 4))", "net.fc = torch.nn.Linear(3, 4)"])
def test_a_layer_that_a_model_gets_where_it_has_none_is_of_its_building(begin: str, condition: str, put: str) -> None:
    """Another call of the function, in each epoch, finds it there; where the first one comes late, it does not."""
    text = script(before="LATE").replace("model = Net()\n", _PUTS_ONCE.replace("PUT", put))
    text = text.replace("    for x", "    attach(model.module)\n    for x")

    def told(begin: str, condition: str, early: str = "attach(model)", late: str = "pass") -> str:
        called = text.replace("BEGIN", begin).replace("CONDITION", condition)
        return survey_of(called.replace("EARLY", early).replace("LATE", late)).disorder

    assert told(begin, condition) == ""
    assert "another layer" in told("pass", "args.more")
    assert "another layer" in told(begin, condition, "pass", "attach(model.module)")


@pytest.mark.parametrize("change", ["adapt(model)", "model.add_module('fc', torch.nn.Linear(3, 4))"])
def test_layer_that_is_put_into_the_model_where_it_is_built_is_of_the_building(change: str) -> None:
    functions = _PUTS_IN.partition("def run")[0]
    text = script().replace("\n\n", f"\n{functions}\n", 1).replace("model = Net()", f"model = Net()\n{change}")
    survey = survey_of(text)
    assert (survey.disorder, survey.models[0].code.strip()) == ("", change)


@pytest.mark.parametrize("change", ["adapt(net)", "net.fc = torch.nn.Linear(3, 4)", "setattr(net, name, Adapted(net))"])
@pytest.mark.parametrize("told", [False, True])
def test_a_function_that_builds_a_model_with_its_layers_builds_another_one_later(change: str, told: bool) -> None:
    """What it puts into that one is of no concern, unless the function also leads to the training."""
    functions = _PUTS_IN.partition("def run")[0]
    build = f"def build():\n    net = Net()\n    {change}\n    return net\n\n\n"
    head, _, rest = script().partition("model = Net()\n")
    if told:
        body = f"net = Net()\nmodel = net\n{rest}".replace("for epoch", f"{change}\nfor epoch", 1)
        text = f"{head}{functions}def run():\n{indent(body, '    ')}\n\nrun()\nother = run()\n"
    else:
        text = f"{head}{functions}{build}model = build()\n{rest}\nother = build()\n"
    assert ("another layer" in survey_of(text).disorder) == told


@pytest.mark.parametrize(
    ("before", "copy"),
    [
        pytest.param(
            "ref = Net()\nfor a, b in zip(model.modules(), ref.modules()):\n    copy_mask(a, b)",
            "ref",
            id="beside another model",
        ),
        pytest.param(
            "ema = copy.deepcopy(model)\nfor a, b in zip(model.parameters(), ema.parameters()):\n    b.data = a",
            "",
            id="beside its copy",
        ),
        pytest.param("slow = Net()\nslow.load_state_dict(model.module.state_dict())", "slow", id="loaded into another"),
        pytest.param("slow = copy.deepcopy(model)\nslow.load_state_dict(model.state_dict())", "", id="into its copy"),
        pytest.param(
            "slow = copy.deepcopy(model)\nif args.path:\n    slow = Net()\nslow.load_state_dict(model.state_dict())",
            "slow",
            id="into one that is built anew by an option",
        ),
        pytest.param(
            "slow = Net()\nslow = copy.deepcopy(model)\nslow.load_state_dict(model.state_dict())",
            "",
            id="into a copy that takes another one's place",
        ),
        pytest.param(
            "slow = Net()\nslow = copy.deepcopy(model)\nother = slow if args.path else DDP(slow).module\n"
            "other.load_state_dict(model.state_dict())",
            "",
            id="into such a copy by another name",
        ),
        pytest.param(
            "slow = Net()\nslow = Head(slow)\nslow = copy.deepcopy(model)\nother = slow\n"
            "other.load_state_dict(model.state_dict())",
            "",
            id="into a copy that takes the place of what holds another one",
        ),
        pytest.param(
            "slow = Net()\nother = slow\nslow = copy.deepcopy(model)\n"
            "for a, b in zip(model.parameters(), other.parameters()):\n    b.data = a",
            "other",
            id="beside another one that is kept by another name",
        ),
        pytest.param(
            "pair = [Net(), 1]\nslow = pair[0]\npair = 2\nslow.load_state_dict(model.state_dict())",
            "slow",
            id="loaded into another one of a list that is gone",
        ),
        pytest.param(
            "slow = copy.deepcopy(model) if args.path else copy.deepcopy(model).half()\n"
            "slow.load_state_dict(model.state_dict())",
            "",
            id="into either copy",
        ),
        pytest.param("model.load_state_dict(torch.load(path).state_dict())", "", id="from a file"),
        pytest.param("for a, b in zip(model.parameters(), numbers):\n    pass", "", id="beside numbers"),
    ],
)
def test_layers_that_are_paired_with_those_of_another_model_are_told(before: str, copy: str) -> None:
    unmatched = survey_of(script(before=before)).unmatched
    assert f"`{copy} = copy.deepcopy(model)`" in unmatched if copy else unmatched == ""
    assert ("as line 9 builds it" in unmatched) is ("if args" in before and bool(copy))


def test_the_advice_on_layers_that_are_paired_names_the_model_by_its_name_there() -> None:
    """In another function the copy and the model may go by other names, or the model by none."""
    walk = "    for a, b in zip(MODEL.parameters(), net.parameters()):\n        b.data = a\n"
    given = f"def sampled(trained):\n    net = Net()\n{walk.replace('MODEL', 'trained')}\n"
    paired = survey_of(given + script("sampled(model)")).unmatched
    assert "`net = copy.deepcopy(trained)`, or of what `trained` holds" in paired
    held = "class Sampler:\n    def __init__(self):\n        self.net = Net()\n\n    def run(self, trained):\n"
    held += indent(walk, "    ").replace("net.", "self.net.").replace("MODEL", "trained")
    paired = survey_of(f"{held}\n" + script("Sampler().run(model)")).unmatched
    assert paired.endswith("Let it be a copy of the perforated one")


@pytest.mark.parametrize("made", ["copy.deepcopy(net)", "Net()"])
def test_layers_are_paired_with_those_of_a_copy_that_is_made_in_the_function_of_the_model(made: str) -> None:
    build = f"def build():\n    net = Net()\n    slow = {made}\n    return slow, net\n"
    pairing = "    for a, b in zip(model.parameters(), slow.parameters()):\n        b.data = a\n"
    named = "    for name, b in slow.named_parameters():\n        b.data.copy_(model.state_dict()[name])\n"
    for follows in (pairing, named):
        text = script().replace("model = Net()", f"{build}slow, model = build()")
        text = text.replace("    for x", f"{follows}    for x")
        assert bool(survey_of(text).unmatched) is (made == "Net()")


@pytest.mark.parametrize(
    ("before", "found"),
    [
        pytest.param("slow = Net()\nslow.load_state_dict(model.module.state_dict())", "model.module", id="wrapped"),
        pytest.param("slow = Net()\nmodel = other\nslow.load_state_dict(model.state_dict())", "", id="of another"),
        pytest.param("slow = Net(2)\nslow.load_state_dict(model.module.state_dict())", "", id="another call"),
        pytest.param("slow = Net()\nslow.load_state_dict(torch.load(path))", "", id="another's weights"),
        pytest.param("slow = Net()\nslow = DDP(slow)\nslow.load_state_dict(model.state_dict())", "", id="two values"),
        pytest.param("copy = Net()\ncopy.load_state_dict(model.module.state_dict())", "", id="no room for a module"),
        pytest.param(
            "slow = Net()\nslow.load_state_dict(model.module.state_dict())\no = torch.optim.SGD(slow.parameters())",
            "",
            id="trained itself",
        ),
        pytest.param(
            "def later():\n    slow = Net()\n    slow.load_state_dict(model.state_dict())",
            "",
            id="in no function that runs",
        ),
    ],
)
def test_model_that_is_built_again_to_follow_the_trained_one_is_found(before: str, found: str) -> None:
    assert [one.model for one in survey_of(script(before=before)).followers] == [found] * bool(found)


def test_second_model_of_the_same_builder_beside_the_perforated_one_is_told() -> None:
    pairing = """

def build(ema=False):
    return Net()

def update(net, ema):
    for value, mean in zip(net.parameters(), ema.parameters()):
        mean.data = value

"""
    text = script("update(model, slow)").replace("model = Net()", "model = build()\nslow = build(ema=True)")
    assert "those of `ema`" in survey_of(text.replace("\n\n", pairing, 1)).unmatched


def test_model_that_is_built_and_wrapped_in_one_statement_is_told() -> None:
    helper = "\ndef wrap(model):\n    return DDP(model.cuda())\n\n"
    text = (
        script().replace("\n\n", f"\n{helper}", 1).replace("model = Net()\nmodel = DDP(model)", "model = wrap(Net())")
    )
    assert "line 7 already wraps it (by line 5)" in survey_of(text).disorder
    apart = survey_of(text.replace("wrap(Net())", "Net()\nmodel = wrap(model)"))
    assert apart.disorder == ""


@pytest.mark.parametrize(
    ("called", "wrappers"),
    [
        pytest.param("full(x)", ["full"], id="the one around"),
        pytest.param("model(x)", ["model"], id="the model alone"),
        pytest.param("full(x) + model(x)", ["model", "full"], id="both"),
        pytest.param("model.loss(x, y)", ["model"], id="by a method of its own"),
        pytest.param("model.module.loss(x, y)", ["model"], id="by a method of the bare one"),
        pytest.param(
            "full(x)\n        with torch.no_grad():\n            model(x)", ["full"], id="alone without gradients"
        ),
    ],
)
def test_of_two_wrappers_around_one_model_the_one_that_the_training_calls_counts(
    called: str, wrappers: list[str]
) -> None:
    text = script().replace("model = DDP(model)", "whole = WithLoss(model)\nmodel = DDP(model)\nfull = DDP(whole)")
    survey = survey_of(text.replace("criterion(model(x), y)", called))
    assert [wrapper.target for wrapper in survey.wrappers] == wrappers


FOLLOWED = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Trainer:
    def __init__(self):
        self.net, self.mean = build(), MEAN
        self.net = DDP(self.net)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def train(self):
        for epoch in range(9):
            for x in loader:
                self.net(x).mean().backward()
                self.optimizer.step()
            for p, q in zip(self.mean.parameters(), self.net.parameters()):
                p.data.lerp_(q.data, 0.1)

def build():
    return Net()

"""


@pytest.mark.parametrize("started", ["trainer = Trainer()\ntrainer.train()\n", "Trainer().train()\n"])
@pytest.mark.parametrize("mean", ["Net()", "copy.deepcopy(self.net)"])
def test_an_average_that_begins_by_itself_is_told_however_the_training_is_started(started: str, mean: str) -> None:
    text = f"import copy\n{code(FOLLOWED).replace('build(), MEAN', f'build(), {mean}')}{started}"
    assert bool(survey_of(text).unmatched) is (mean == "Net()")


AVERAGED = """
import copy
average = copy.deepcopy(model)
model = DDP(model)
average = DDP(average)
"""


@pytest.mark.parametrize("called", ["model(x)", "model.module.loss(x, y)"])
def test_of_a_model_and_a_copy_that_is_wrapped_too_the_one_that_is_trained_counts(called: str) -> None:
    loss = f"{called}\n        loss.backward()\n        with torch.no_grad():\n            average(x)"
    text = script().replace("model = DDP(model)", AVERAGED.strip()).replace("criterion(model(x), y)", loss)
    survey = survey_of(text)
    assert [wrapper.target for wrapper in survey.wrappers] == ["model"]
    assert (survey.bypass is not None) is ("module" in called)


@pytest.mark.parametrize(
    ("before", "wrap", "kinds", "choice"),
    [
        ("wrap = partial(DDP, device_ids=[0])", "wrap", ("ddp",), ""),
        ("wrap = DDP if many else nn.DataParallel", "wrap", ("ddp", "dp"), ""),
        ("wrap = DDP if many else (lambda one: one)", "wrap", ("ddp",), "DistributedDataParallel or something else"),
        ("wrap = {'a': DDP, 'b': DDP}", "wrap[name]", ("ddp",), ""),
        ("if many:\n    wrap = partial(DDP, device_ids=[0])\nelse:\n    wrap = DDP", "wrap", ("ddp",), ""),
    ],
)
def test_wrapper_by_another_name_is_one(before: str, wrap: str, kinds: tuple[str, ...], choice: str) -> None:
    text = script().replace("= DDP(model)", f"= {wrap}(model)")
    text = text.replace(
        "model = Net()", f"from functools import partial\nfrom torch import nn\n{before}\nmodel = Net()", 1
    )
    (wrapper,) = survey_of(text).wrappers
    assert (wrapper.kind, wrapper.kinds, wrapper.choice, wrapper.module) == ("ddp", kinds, choice, "model")


def test_what_a_partial_gives_a_wrapper_is_given() -> None:
    made = "from functools import partial\nwrap = partial(DDP, find_unused_parameters=True)\n"
    text = script().replace("model = Net()", f"{made}model = Net()", 1).replace("= DDP(model)", "= wrap(model)")
    assert [one.unused for one in survey_of(text).wrappers] == ["True"]
    text = text.replace("wrap(model)", "wrap(model, find_unused_parameters=False)")
    assert [one.unused for one in survey_of(text).wrappers] == ["False"]


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ("return net, [p for p in net.parameters()]", "build"),
        ("params = list(net.parameters())\n    return net, params", "build"),
        ("params = []\n    for p in net.parameters():\n        params.append(p)\n    return net, params", "build"),
        ("params = [{'params': net.parameters()}]\n    return net, params", "build"),
        ("size = [p for p in net.parameters()]\n    print(size)\n    return net, 1", ""),
        ("for p in net.parameters():\n        p.requires_grad = True\n    return net, 1", ""),
        ("other = Other()\n    return net, [p for p in other.parameters()]", ""),
    ],
)
def test_model_is_perforated_before_a_function_hands_its_parameters_out(lines: str, place: str) -> None:
    built = f"def build():\n    net = Net()\n    {lines}\n\nmodel, params = build()\n"
    (model,) = survey_of(
        script().replace("model = Net()\n", built).replace("SGD(model.parameters()", "SGD(params")
    ).models
    assert (model.scope.name, model.target) == (place, "net" if place else "model")


@pytest.mark.parametrize("name", ["Wrapped", "OwnParallel"])
def test_projects_own_subclass_of_a_wrapper_is_one(name: str) -> None:
    own = f"\nclass {name}(DDP):\n    INIT\n\n"
    text = script().replace("\n\n", f"\n{own}", 1).replace("= DDP(model)", f"= {name}(model)")
    (wrapper,) = survey_of(text.replace("INIT", "pass")).wrappers
    assert (wrapper.kind, wrapper.closed) == ("ddp", "")
    init = "def __init__(self, net):\n        super().__init__(net, find_unused_parameters=False)"
    (wrapper,) = survey_of(text.replace("INIT", init)).wrappers
    assert wrapper.closed == name
    (wrapper,) = survey_of(text.replace("INIT", init.replace("net)", "net, **kwargs)", 1))).wrappers
    assert wrapper.closed == ""


@pytest.mark.parametrize(
    ("making", "expected"),
    [
        pytest.param("optimizer = OPTIMIZERS[name](model.parameters(), lr=0.1)", ["optimizer"], id="by name"),
        pytest.param("optimizer, _ = library.make_optimizer(model)", ["optimizer"], id="in a tuple"),
        pytest.param("optimizer = make(model)['optimizer']", ["optimizer"], id="in a dict"),
        pytest.param("optimizer = Lamb(model.parameters())", ["optimizer"], id="of an own class"),
        pytest.param("stepper = library.make_stepper(model)", [], id="something else that steps"),
        pytest.param("scheduler = library.optim_scheduler(model)", [], id="scheduler"),
    ],
)
def test_optimizer_whose_gradients_the_model_zeroes_is_found(making: str, expected: list[str]) -> None:
    own = """

class Lamb(torch.optim.Optimizer):
    pass

def make(model):
    return {"optimizer": torch.optim.SGD(model.parameters(), lr=0.1), "epoch": 0}

"""
    text = script().replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", making)
    text = text.replace("optimizer.zero_grad()", "model.zero_grad()").replace("\n\n", own, 1)
    text = text.replace("optimizer.step()", f"{making.partition(' ')[0].strip(',')}.step()")
    assert [optimizer.target for optimizer in survey_of(text).optimizers] == expected


def test_an_optimizer_that_another_one_is_made_of_in_a_function_is_no_further_one() -> None:
    own = """

class Lookahead(torch.optim.Optimizer):
    def __init__(self, inner):
        self.inner = inner

    def step(self):
        self.inner.step()

def ranger(params):
    radam = torch.optim.RAdam(params)
    return Lookahead(radam)

"""
    making = "params = groups_of(model)\nif slow:\n    optimizer = ranger(params)\nelse:\n    optimizer = SGD(params)"
    text = script().replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", making)
    text = text.replace("\n\n", own, 1)
    assert [one.target for one in survey_of(text.replace("SGD(", "torch.optim.SGD(")).optimizers] == ["optimizer"]


def test_optimizer_in_an_object_around_it_is_handed_over_itself() -> None:
    own = "\nclass Noam:\n    def __init__(self, warmup, optimizer):\n        self.inner = optimizer\n\n"
    text = script().replace("\n\n", f"\n{own}", 1).replace("torch.optim.SGD(", "Noam(9, torch.optim.SGD(")
    optimizer = only_optimizer(text.replace("lr=0.1)", "lr=0.1))"))
    assert (optimizer.target, optimizer.held) == ("optimizer", ".inner")
    like_one = own.rstrip() + "\n        self.param_groups = optimizer.param_groups\n\n"
    assert only_optimizer(text.replace("lr=0.1)", "lr=0.1))").replace(own, like_one)).held == ""


def test_optimizer_that_an_object_in_a_tuple_builds_is_the_one() -> None:
    own = """
class Holder:
    def __init__(self, net):
        if fast:
            self.inner = torch.optim.SGD(net.parameters(), lr=0.1)
        else:
            self.inner = torch.optim.Adam(net.parameters(), lr=0.1)

    def zero_grad(self):
        self.inner.zero_grad()

    def step(self):
        self.inner.step()

def load(net):
    optimizer = Holder(net)
    return 1, optimizer

"""
    text = script().replace("\n\n", f"\n{own}", 1)
    text = text.replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", "size, optimizer = load(model)")
    assert only_optimizer(text).target == "self.inner"


def test_optimizer_that_is_used_instead_of_the_training_does_not_count() -> None:
    text = f"""
{TRAINER.partition("Trainer(Net())")[0]}
    def overfit(self):
        opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
        for i in range(1000):
            opt.zero_grad()
            criterion(self.model(1), 1).backward()
            opt.step()

trainer = Trainer(Net())
if tries:
    trainer.overfit()
else:
    trainer.fit()
"""
    assert only_optimizer(text).target == "self.optimizer"
    assert only_optimizer(text.replace("else:\n    trainer", "trainer")).target == "self.optimizer"
    made = "        opt = torch.optim.SGD(self.model.parameters(), lr=0.1)\n"
    beside = text.replace(made, "").replace(
        "    def overfit", f"    def make(self):\n{made}        self.opt = opt\n\n    def overfit"
    )
    beside = beside.replace("            opt.", "            self.opt.").replace(
        "else:\n    trainer", "trainer.make()\ntrainer"
    )
    assert len(survey_of(beside).optimizers) == 2


LEARNING_RATE = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Scheduled:
    def __init__(self, optimizer):
        self.inner = optimizer

    def step(self):
        self.inner.step()

    def zero_grad(self):
        self.inner.zero_grad()

def learning_rate(model, optimizer):
    MADE
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

def train(model, optimizer, scheduler):
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        if scheduler:
            scheduler.step()

def make(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return optimizer

def main(args):
    model = DDP(Net())
    optimizer = make(model)
    if args.half:
        optimizer = library.wrapped(optimizer)
    RUN
    for epoch in range(9):
        train(model, optimizer, None)

main(parser.parse_args())
"""


@pytest.mark.parametrize(
    "made",
    [
        pytest.param("optimizer = Scheduled(optimizer)", id="around the training's"),
        pytest.param("optimizer = torch.optim.SGD(model.parameters(), lr=1)", id="its own"),
    ],
)
@pytest.mark.parametrize(
    "run",
    [
        pytest.param("if args.find:\n        learning_rate(model, optimizer)\n        return", id="instead"),
        pytest.param("if args.find:\n        learning_rate(model, optimizer)", id="before it"),
        pytest.param("learning_rate(model, optimizer)", id="always before it"),
    ],
)
def test_optimizer_of_a_function_that_trains_by_itself_is_left_alone(made: str, run: str) -> None:
    text = LEARNING_RATE.replace("MADE", made).replace("RUN", run)
    for script_text in (text, text.replace("    if args.half:\n        optimizer = library.wrapped(optimizer)\n", "")):
        (optimizer,) = survey_of(script_text).optimizers
        assert optimizer.scope.name in ("main", "make")


def test_model_that_gets_something_else_around_it_where_it_is_not_wrapped_is_built_before() -> None:
    text = script().replace(
        "model = DDP(model)\n", "if many:\n    model = DDP(model)\nelse:\n    model = Plain(model)\n"
    )
    assert models_of(text) == [("model", 4, "")]


@pytest.mark.parametrize("where", ["", "    def wrapped(self):\n        return DDP(self)\n\n"])
def test_model_that_wraps_itself_is_the_object_whose_method_is_called(where: str) -> None:
    text = f"""
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Base(torch.nn.Module):
{where}    def fit(self):
        model = self
        if many:
            model = {"self.wrapped()" if where else "DDP(self)"}
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(9):
            for x in loader:
                optimizer.zero_grad()
                model(x).backward()
                optimizer.step()

class Net(Base):
    pass

net = Net()
net.fit()
"""
    (target, line, _), *others = models_of(text)
    assert (target, text.splitlines()[line], others) == ("net", "net = Net()", [])


def test_optimizer_that_an_object_builds_is_the_one() -> None:
    own = (
        "\nclass Holder:\n    def __init__(self, model):\n        self.inner = torch.optim.SGD(model.parameters())\n\n"
    )
    text = script().replace("\n\n", f"\n{own}", 1)
    assert only_optimizer(text.replace("torch.optim.SGD(model.parameters(), lr=0.1)", "Holder(model)")).target == (
        "self.inner"
    )


def test_optimizer_that_the_model_may_bring_is_handed_over_after_both_ways() -> None:
    made = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    ways = f"if hasattr(model.module, 'optimizer'):\n    optimizer = model.module.optimizer\nelse:\n    {made}"
    optimizer = only_optimizer(script().replace(made, ways))
    assert optimizer.keeps == "it may have another value (line 7)"
    assert optimizer.index.source.code(optimizer.anchors["made"]).startswith("if hasattr")
    nothing = only_optimizer(script().replace(made, f"if evaluate:\n    optimizer = None\nelse:\n    {made}"))
    assert nothing.plain


@pytest.mark.parametrize(
    ("before", "between", "wrapped"),
    [
        pytest.param("model = torch.load(p)", "exit()", 1, id="leaves the program"),
        pytest.param("model = torch.load(p)", "sys.exit(0)", 1, id="leaves it with a status"),
        pytest.param("model = torch.load(p)", "raise SystemExit", 1, id="raises"),
        pytest.param("model = torch.load(p)", "print(model)", 2, id="goes on"),
        pytest.param("model = torch.load(p)", "if a:\n        exit()", 2, id="may go on"),
    ],
)
def test_wrapper_in_a_branch_that_tests_and_leaves_is_none_of_training(before: str, between: str, wrapped: int) -> None:
    branch = f"if args.test:\n    {before}\n    model = DDP(model)\n    {between}\n"
    survey = survey_of(script().replace("model = Net()", f"{branch}model = Net()"))
    assert len(survey.wrappers) == sum(map(len, survey.groups)) == wrapped


def test_wrapper_that_gets_the_perforated_model_counts_wherever_it_is() -> None:
    test = "model = Net()\nif args.test:\n    model = DDP(model)\n    test(model)\n    exit()\n"
    assert len(survey_of(script().replace("model = Net()\n", test)).wrappers) == 2
    ways = "if a:\n    model = Net()\n    model = DDP(model)\nelse:\n    model = Big()\n    model = DDP(model)"
    assert len(survey_of(script().replace("model = Net()\nmodel = DDP(model)", ways)).wrappers) == 2
    returned = (
        "\ndef wrap(model):\n    if args.ddp:\n        model = DDP(model)\n        return model\n    return model\n"
    )
    text = script().replace("\n\n", f"\n{returned}\n", 1).replace("= DDP(model)\nopt", "= wrap(model)\nopt")
    assert len(survey_of(text).wrappers) == 1


@pytest.mark.parametrize("call", ["model = run(model=Net())", "run(Net())", "model = run(build())"])
def test_model_built_in_the_call_that_trains_is_perforated_where_it_has_a_name(call: str) -> None:
    training = script(after="return model.module").replace("model = Net()\n", "").partition("DDP\n\n")
    helpers = f"def build():\n    return Net()\n\ndef run(model):\n{indent(training[2], '    ')}\n"
    survey = survey_of(f"{training[0]}DDP\n{helpers}{call}\n")
    assert [(model.code.strip(), model.side) for model in survey.models] == [("model = DDP(model)", "before")]
    assert survey.disorder == ""


@pytest.mark.parametrize(
    ("walk", "told"),
    [
        ("for m in model.modules():\n    if isinstance(m, nn.Linear):\n        count += 1\n", 1),
        ("for m in model.modules():\n    if isinstance(m, nn.Linear):\n        count = count + 1\n", 1),
        ("for i, m in enumerate(model.modules()):\n    if type(m) in kinds:\n        chosen.append(i)\n", 1),
        ("for m in other.modules():\n    if isinstance(m, nn.Linear):\n        count += 1\n", 0),
        ("for m in model.modules():\n    if isinstance(m, nn.Linear):\n        group.append(m.weight)\n", 0),
        ("for m in model.modules():\n    if isinstance(m, nn.Linear):\n        nn.init.zeros_(m.bias)\n", 0),
        ("for m in model.modules():\n    count += 1\n", 0),
    ],
)
def test_modules_that_are_counted_after_the_perforation_are_told(walk: str, told: int) -> None:
    matches = survey_of(script(before=f"other = Net()\n{walk}")).module_counts
    assert [match.whose for match in matches] == ["model"] * told


@pytest.mark.parametrize(
    ("change", "last"),
    [
        pytest.param("quantize.prepare(model, inplace=True)", True, id="unread module"),
        pytest.param("replace_layers(model)", True, id="unread function"),
        pytest.param("summary(model)", False, id="shows it"),
        pytest.param("prepared = report(model)", False, id="gives something"),
        pytest.param("outer(model)", True, id="function that calls one"),
        pytest.param("harmless(model)", False, id="function that changes nothing"),
    ],
)
def test_function_that_changes_the_model_is_of_the_building(change: str, last: bool) -> None:
    functions = "def inner(m):\n    m._modules['fc'] = Fc()\n\ndef outer(net):\n    inner(net)\n\n"
    functions += "def harmless(net):\n    show(net)\n    return net\n\n"
    text = script().replace("\n\n", f"\n\n{functions}", 1).replace("model = Net()", f"model = Net()\n{change}")
    (model,) = survey_of(text).models
    assert model.code.strip() == (change if last else "model = Net()")


@pytest.mark.parametrize("ending", ["return model", "return model, model.parameters()"])
def test_new_head_in_the_function_that_wraps_is_told(ending: str) -> None:
    build = "def build():\n    model = Net()\n    model = DDP(model)\n    if a:\n        model.module.fc = HEAD\n"
    build += f"    {ending}\n\n"
    text = (
        script().replace("\n\n", f"\n\n{build}", 1).replace("model = Net()\nmodel = DDP(model)\n", "model = build()\n")
    )
    if "," in ending:
        text = text.replace("model = build()", "model, parameters = build()")
    assert "gets another layer" in survey_of(text.replace("HEAD", "torch.nn.Linear(8, 2)")).disorder
    assert "gets another layer" not in survey_of(text.replace("HEAD", "None")).disorder


def test_a_layer_that_a_function_replaces_before_the_perforation_is_not_late() -> None:
    before = "def finetune(net):\n    net.fc = torch.nn.Linear(8, 2)\n    return net\n\n"
    body = script().partition("DDP\n\n")[2].replace("Net()\n", "Net()\nif tune:\n    model = finetune(model)\n")
    main = f"def work(rank):\n{indent(body, '    ')}\nif many:\n    mp.spawn(work, nprocs=2)\nelse:\n    work(0)\n"
    head = f"import torch.multiprocessing as mp\n{script().partition('DDP')[0]}DDP\n\n"
    assert survey_of(head + before + main).disorder == ""


def test_optimizer_that_is_built_anew_beside_the_training_is_handed_over_before_it() -> None:
    text = script().replace(
        "for epoch", "if __name__ == '__main__':\n    optimizer = torch.optim.Adam(model.parameters())\n    for epoch"
    )
    head, _, loop = text.partition("    for epoch")
    found = survey_of(head + "    for epoch" + loop.replace("\n", "\n    ").rstrip() + "\n")
    made = found.index.statement(found.optimizers[0].anchors["made"])
    assert found.index.source.code(made.node).strip() == "optimizer = torch.optim.Adam(model.parameters())"
    assert found.late_optimizer is None


@pytest.mark.parametrize(
    ("begun", "turn", "told"),
    [
        pytest.param("", "if epoch == 3:\n    MADE", 2, id="anew in a turn"),
        pytest.param("if fresh:\n    MADE", "", 2, id="anew under an option"),
        pytest.param("if optimizer is None:\n    MADE", "", 1, id="where none is given"),
        pytest.param("if fresh:\n    MADE\nelse:\n    MADE", "", 1, id="in either branch"),
        pytest.param("MADE", "", 1, id="in any case"),
    ],
)
def test_optimizer_that_a_training_is_given_counts_beside_its_own_where_it_may_begin_with_it(
    begun: str, turn: str, told: int
) -> None:
    made = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    head, _, rest = script(turn.replace("MADE", made) or "pass").partition(f"{made}\n")
    body = indent(f"{begun.replace('MADE', made)}\n{rest[rest.index('for epoch') :]}", "    ")
    text = head.replace("\n\n", f"\n\ndef train(model, optimizer):\n{body}\n", 1)
    found = survey_of(f"{text}{made}\ntrain(model, optimizer)\n")
    assert [one.keeps != "" for one in found.optimizers] == [True]
    places = [found.optimizers[0].anchors["made"], *(one.node for one in found.rebuildings)]
    assert len(places) == told
    scopes = {found.index.statement(node).scope.name for node in places}
    assert scopes == ({"train", ""} if told == 2 else {"train"})


def test_optimizer_of_branches_that_each_train_is_handed_over_in_each() -> None:
    training = "    for epoch in range(9):\n        for x in data:\n            model(x).backward()\n"
    training += "            optimizer.step()\n"
    branch = f"    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n{training}"
    text = script().partition("optimizer =")[0] + f"if a:\n{branch}else:\n{branch}"
    found = survey_of(text)
    assert found.late_optimizer is None
    told = [*(one.anchors["made"] for one in found.optimizers), *(one.node for one in found.rebuildings)]
    places = [found.index.statement(node) for node in told]
    assert [place.following[0].node for place in places] == [loop.node for loop in found.loops]


@pytest.mark.parametrize("build", ["BUILD", "if epoch < 3:\n    BUILD\nelse:\n    BUILD2"])
def test_optimizer_that_is_built_in_each_turn_is_handed_over_there(tmp_path: Path, build: str) -> None:
    body = script("val_loss = evaluate(model)")
    made = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    built = indent(build.replace("BUILD2", made.replace("SGD", "Adam")).replace("BUILD", made), "    ")
    text = body.replace(f"{made}\n", "").replace("    for x, y", f"{built}\n    for x, y")
    plan = plan_of(tmp_path, text)
    assert plan.questions == []
    loop = rewritten(plan).partition("for epoch")[2]
    assert loop.count(f"\n{built}\n    GPA.pai_tracker.set_optimizer_instance(optimizer)\n    for x, y") == 1
    assert "set_optimizer(" not in loop


def test_optimizer_that_is_built_after_what_trains_in_its_turn_is_late() -> None:
    made = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    assert survey_of(script(made)).late_optimizer is not None


MADE = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"


@pytest.mark.parametrize(("built", "scopes"), [("build()", ["resumed", ""]), ("Net()", [""])])
def test_optimizer_of_branches_is_handed_over_in_each_that_builds_the_chosen_model(
    built: str, scopes: list[str]
) -> None:
    text = f"""
    def build():
        model = Net()
        model = DDP(model)
        return model

    def resumed():
        model = {built}
        optimizer = torch.optim.Adam(model.parameters())
        optimizer.load_state_dict(torch.load("last.pt"))
        return model, optimizer

    if a:
        model, optimizer = resumed()
    else:
        model = build()
        {MADE}
    """
    found = survey_of(DDP + code(text) + LOOP)
    assert [one.scope.name for one in (*found.optimizers, *found.rebuildings)] == scopes


@pytest.mark.parametrize(("wrapper", "late"), [("DDP", False), ("torch.nn.DataParallel", True)])
def test_optimizer_that_another_method_builds_anew_in_the_loop(wrapper: str, late: bool) -> None:
    text = f"""
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP

    class Trainer:
        def __init__(self, model):
            self.model = {wrapper}(model)
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

        def unfreeze(self):
            self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)

        def train(self):
            for epoch in range(10):
                if epoch == 5:
                    self.unfreeze()
                for x in loader:
                    self.optimizer.zero_grad()
                    self.model(x).backward()
                    self.optimizer.step()

    Trainer(Net()).train()
    """
    found = survey_of(text, in_process=True)
    assert [one.scope.name for one in found.rebuildings] == ["unfreeze"]
    assert (found.late_optimizer is not None) == late


def test_optimizer_that_comes_anew_as_one_of_several_values_is_that_one() -> None:
    make = "def make(net, x):\n    return x, torch.optim.SGD(net.parameters(), lr=0.1)\n"
    text = script(before=f"{make}x, optimizer = make(model, 0)\n").replace(
        "    for x, y in loader:",
        "    if epoch == 5:\n        x, optimizer = make(model, 1)\n    for x, y in loader:",
    )
    assert [one.target for one in survey_of(text).rebuildings] == ["optimizer"]


@pytest.mark.parametrize("build", ["torch.optim.Adam(model.parameters())", "make(model)"])
def test_optimizer_that_is_built_anew_at_a_turn_of_the_loop_is_handed_over_there_too(build: str) -> None:
    make = "def make(net):\n    return torch.optim.SGD(net.parameters(), lr=0.1)\n"
    text = script(before=f"{make}optimizer = {build}\n").replace(
        "    for x, y in loader:",
        f"    if epoch == 5:\n        thaw(model)\n        optimizer = {build}\n    for x, y in loader:",
    )
    found = survey_of(text)
    (optimizer,) = found.optimizers
    made = found.index.statement(optimizer.anchors["made"])
    assert (optimizer.late, "built in" in optimizer.keeps) == ("", True)
    assert made.parent is None
    assert [found.index.source.code(one.statement.parent.node)[:13] for one in found.rebuildings] == ["if epoch == 5"]  # type: ignore[union-attr]
    assert (
        survey_of(text.replace("DDP(model)", "torch.nn.DataParallel(model)"), in_process=True).late_optimizer
        is not None
    )


def test_optimizer_that_is_built_again_after_the_training_is_handed_over_before_it() -> None:
    text = script(after="optimizer = torch.optim.Adam(model.parameters())\nrefit(model, optimizer)")
    found = survey_of(text)
    made = found.index.statement(found.optimizers[0].anchors["made"])
    assert "SGD" in found.index.source.code(made.node)


def test_optimizer_that_a_function_returns_beside_the_model_without_naming_it() -> None:
    function = "def build():\n    model = Net()\n    return model, torch.optim.SGD(model.parameters(), lr=0.1)\n\n"
    text = script().replace(MADE, "").replace("model = Net()", f"{function}model, optimizer = build()")
    assert [one.target for one in survey_of(text).optimizers] == ["optimizer"]


@pytest.mark.parametrize(
    "made",
    [
        "getattr(torch.optim, args.opt)(model.parameters())",
        "getattr(torch.optim if args.plain else radam, args.opt)(model.parameters())",
        "torch.optim.__dict__[args.opt](model.parameters())",
        "{'sgd': torch.optim.SGD, 'adam': torch.optim.Adam}[args.opt](model.parameters())",
        "(torch.optim.SGD if args.plain else torch.optim.Adam)(model.parameters())",
        "functools.partial(torch.optim.SGD, lr=0.1)(model.parameters())",
        "CLASS(model.parameters())",
        "build(model)",
    ],
)
def test_optimizer_of_a_class_that_is_chosen_when_it_runs(made: str) -> None:
    before = "CLASS = {'sgd': torch.optim.SGD}[args.opt]\n\n"
    before += "def build(model):\n    return torch.optim.Adam(model.parameters())\n\n"
    text = (
        script()
        .replace("torch.optim.SGD(model.parameters(), lr=0.1)", made)
        .replace("model = Net", f"{before}model = Net")
    )
    text = text.replace("optimizer.step()", "settings['o'].step()").replace("optimizer.zero_grad()", "pass")
    assert [one.target for one in survey_of(text).optimizers] == ["optimizer"]


def test_what_is_chosen_of_another_module_or_dict_is_no_optimizer() -> None:
    text = script().replace("torch.optim.SGD(model.parameters(), lr=0.1)", "getattr(lib, name)(model.parameters())")
    text = text.replace("optimizer.step()", "pass").replace("optimizer.zero_grad()", "pass")
    assert survey_of(text).optimizers == []
    assert survey_of(text.replace("getattr(lib, name)", "{'a': Head}[name]")).optimizers == []


@pytest.mark.parametrize(
    ("made", "target"),
    [
        ("opts['model'] = OPT", "opts['model']"),
        ("opts = {'model': OPT, 'epoch': 0}", "opts['model']"),
        ("opts[name] = OPT", ""),
    ],
)
def test_optimizer_in_an_item(made: str, target: str) -> None:
    text = (
        script()
        .replace("optimizer = torch", "OPT = torch")
        .replace("OPT = torch.optim.SGD(model.parameters(), lr=0.1)", made)
    )
    text = text.replace("OPT", "torch.optim.SGD(model.parameters(), lr=0.1)").replace("optimizer.", "opts['model'].")
    found = survey_of(text).optimizers
    assert [one.target for one in found] == [target]
    assert all(one.keeps for one in found)


@pytest.mark.parametrize(
    "losses",
    ["losses = {}\nlosses['center'] = CenterLoss(9)", "losses = {'center': CenterLoss(9), 'xent': Cross()}"],
)
def test_optimizer_of_a_loss_in_an_item_is_left_alone(losses: str) -> None:
    made = f"{losses}\nopts = {{}}\ngroups = []\ngroups.append(0)\nopts['model'] = torch.optim.SGD(groups)\n"
    made += "opts['center'] = torch.optim.SGD(losses['center'].parameters(), lr=0.5)"
    text = script().replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", made)
    text = text.replace("optimizer.", "opts['model'].")
    assert [one.target for one in survey_of(text).optimizers] == ["opts['model']"]
    text = text.replace("CenterLoss(9)", "Part(model)")
    text = text.replace("opts['model'].step()", "opts['model'].step(); opts['center'].step()")
    assert [one.target for one in survey_of(text).optimizers] == ["opts['model']", "opts['center']"]


@pytest.mark.parametrize(
    ("returned", "found"),
    [("choice[args.opt]", ["optimizer"]), ("choice", ["choice['a']", "choice['b']", "optimizer"])],
)
def test_optimizer_that_a_function_chooses_of_a_dict_is_one(returned: str, found: list[str]) -> None:
    before = "def build(net):\n    choice = {'a': torch.optim.SGD(net.parameters()),"
    before += f" 'b': torch.optim.Adam(net.parameters())}}\n    return {returned}\n\n"
    text = script().replace("torch.optim.SGD(model.parameters(), lr=0.1)", "build(model)")
    text = text.replace("model = Net", f"{before}model = Net")
    assert [one.target for one in survey_of(text).optimizers] == found


def test_wrapper_of_an_own_class_that_takes_something_before_the_model() -> None:
    text = f"""
    import torch

    class Balanced(torch.nn.DataParallel):
        def __init__(self, size, *args, **kwargs):
            super().__init__(*args, **kwargs)

    net = Net()
    if a:
        model = Balanced(2, net, dim=1)
    else:
        model = torch.nn.DataParallel(net)
    {MADE}
    """
    found = survey_of(code(text) + LOOP)
    assert [wrapper.operand for wrapper in found.wrappers] == ["net", "net"]
    assert len(found.groups) == 1


def test_a_library_that_wraps_again_what_it_finds_in_a_wrapper_is_none_of_the_script() -> None:
    library = """
    def convert(module):
        if isinstance(module, torch.nn.DataParallel):
            inner = convert(module.module)
            inner = torch.nn.DataParallel(inner)
            return inner
        return module

    def wrapped(module):
        if not isinstance(module, torch.nn.DataParallel):
            module = torch.nn.DataParallel(module)
        return module

    """
    text = script().replace("DDP(model)", "wrapped(convert(model))")
    survey = survey_of(text.replace("model = Net()", f"{code(library)}model = Net()"))
    assert [wrapper.operand for wrapper in survey.wrappers] == ["module"]
    assert [model.target for model in survey.models] == ["model"]


@pytest.mark.parametrize(
    ("frozen", "method", "body", "found"),
    [
        pytest.param("p.requires_grad = False", "update", "b.data = b.data * m + a.data", True, id="momentum encoder"),
        pytest.param("p.requires_grad_(False)", "forward", "b.data.mul_(m).add_(a.data)", True, id="in place"),
        pytest.param("pass", "update", "b.data = b.data * m + a.data", False, id="not frozen"),
        pytest.param("p.requires_grad = False", "__init__", "b.data.copy_(a.data)", False, id="to begin with"),
        pytest.param("p.requires_grad = False", "copy", "b.data.copy_(a.data)", False, id="by a method"),
        pytest.param("p.requires_grad = False", "follow", "b.data = b.data * m + a.data", False, id="a copy to begin"),
        pytest.param("p.requires_grad = False", "forward", "loss = loss + (a - b).norm()", False, id="a distance"),
    ],
)
def test_part_of_the_model_that_follows_another(frozen: str, method: str, body: str, found: bool) -> None:
    net = "class Net(Module):\n    def __init__(self):\n        self.a, self.b = Body(), Body()\n"
    net += f"        for p in self.b.parameters():\n            {frozen}\n"
    net += "        self.copy()\n" if method == "copy" else ""
    begun = "        for a, b in zip(self.a.parameters(), self.b.parameters()):\n            b.data.copy_(a.data)\n"
    net += begun if method == "follow" else ""
    net += "" if method == "__init__" else f"\n    def {method}(self):\n"
    net += f"        for a, b in zip(self.a.parameters(), self.b.parameters()):\n            {body}\n\n"
    text = script().replace("model = Net()", f"{net}model = Net()")
    unmatched = survey_of(text).unmatched
    assert ("`self.a` and `self.b`" in unmatched) is found
    assert survey_of(f"GPA.pc.set_module_ids_to_track(['.a.0', '.b.0'])\n{text}").unmatched == ""


@pytest.mark.parametrize(
    ("begun", "told"),
    [
        ("self.b = copy.deepcopy(self.a)", False),
        ("self.b.load_state_dict(self.a.state_dict())", False),
        ("self.b = copy.deepcopy(self.c)", True),
        ("self.b.load_state_dict(torch.load('b.pt'))", True),
    ],
)
def test_a_part_that_is_built_as_a_copy_may_follow_what_it_copies(begun: str, told: bool) -> None:
    net = f"""
    import copy
    class Net(Module):
        def __init__(self):
            self.a, self.b, self.c = Body(), Body(), Body()
            {begun}
            self.b.requires_grad_(False)

        def update(self):
            for b, a in zip(self.b.parameters(), self.a.parameters()):
                b.data.lerp_(a.data, 0.1)

    """
    unmatched = survey_of(script().replace("model = Net()", f"{code(net)}model = Net()")).unmatched
    assert bool(unmatched) is told


@pytest.mark.parametrize(
    ("begun", "update", "told"),
    [
        pytest.param("self.b.requires_grad_(False)", "p.data = own.pop(0).data", True, id="frozen"),
        pytest.param("pass", "p.data = own.pop(0).data", True, id="without gradients"),
        pytest.param("self.c.requires_grad_(False)", "p.data.lerp_(named[name].data, 0.1)", False, id="by names"),
        pytest.param("self.c.requires_grad_(False)", "loss += p.norm()", False, id="a distance"),
        pytest.param("self.b = copy.deepcopy(self.a)", "p.data = own.pop(0).data", False, id="a copy"),
        pytest.param("self.begin()", "p.data = own.pop(0).data", False, id="a copy by a method"),
    ],
)
def test_parts_that_are_paired_by_the_order_of_their_parameters(begun: str, update: str, told: bool) -> None:
    net = f"""
    import copy
    class Net(Module):
        def __init__(self):
            self.a, self.b, self.c = Body(), Body(), Body()
            {begun}

        def begin(self):
            own = list(self.a.parameters())
            for p in self.BEGUN.parameters():
                p.data.copy_(own.pop(0).data)

        def update(self):
            own, named = list(self.a.parameters()), dict(self.a.named_parameters())
            loss = sum(p.norm() for p in self.a.parameters())
            for (name, _), p in zip(self.b.named_parameters(), self.b.parameters()):
                if 'lora_' not in name:
                    {update}

        @torch.no_grad()
        def goal(self, x):
            return self.b(x)

    """
    net = net.replace("BEGUN", "b" if "begin()" in begun else "a")
    text = script().replace("model = Net()", f"{code(net)}model = Net()")
    unmatched = survey_of(text).unmatched
    assert ("goes through the parameters of `self.a` and `self.b`" in unmatched) is told
    assert ("set_module_ids_to_track(['.a', '.b'])" in unmatched) is told
    trained = text.replace("    @torch.no_grad()\n", "")
    assert bool(survey_of(trained).unmatched) is (told and "requires_grad" in begun)


def test_head_that_is_got_by_its_name_is_initialised_before_dendrites() -> None:
    head = "for name, p in model.named_parameters():\n    print(name)\ngetattr(model, word).weight.data.normal_()\n"
    text = script().replace("model = DDP(model)", f"{head}model = DDP(model)")
    assert [model.code.strip() for model in survey_of(text).models] == ["getattr(model, word).weight.data.normal_()"]
    read = text.replace(".weight.data.normal_()", "(x)").replace("getattr", "show = getattr")
    assert [model.code.strip() for model in survey_of(read).models] == ["model = Net()"]


@pytest.mark.parametrize(
    ("copied", "step", "found"),
    [
        pytest.param("ema = ModelEma(model, 0.9)", "ema.update(model)", [False], id="of a library"),
        pytest.param("if args.ema:\n    ema = ModelEmaV2(model)", "ema.update(model)", [True], id="by an option"),
        pytest.param("ema = ExponentialMovingAverage(model.parameters())", "ema.update()", [False], id="parameters"),
        pytest.param("slow = copy.deepcopy(model)", "update_slow(model, slow)", [False], id="by a function"),
        pytest.param(
            "slow = copy.deepcopy(model)",
            "for p, q in zip(model.parameters(), slow.parameters()):\n    q.data.mul_(0.9).add_(p.data)",
            [False],
            id="by a loop",
        ),
        pytest.param(
            "def follow(new, old):\n    for key, value in new.items():\n        old[key].data.copy_(value)\n"
            "slow = copy.deepcopy(model)",
            "follow(model.state_dict(), slow.state_dict())",
            [False],
            id="by a function of the project",
        ),
        pytest.param("ema = ModelEma(model)", "pass", [], id="never updated"),
        pytest.param("first = copy.deepcopy(model)", "loss = distance(first, model)", [], id="snapshot"),
        pytest.param("pass", "best = copy.deepcopy(model)", [], id="snapshot in the loop"),
        pytest.param("best = copy.deepcopy(model.state_dict())", "pass", [], id="kept weights"),
        pytest.param("ema = ModelEma(other)", "ema.update(other)", [], id="of another"),
    ],
)
def test_copies_that_follow_the_model(copied: str, step: str, found: list[bool]) -> None:
    survey = survey_of(script(step, before=copied))
    assert [option for _, option in survey.averages] == found


HELD_PART = """
import copy
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def follow(new, old):
    for key, value in new.state_dict().items():
        old.state_dict()[key].copy_(value)

net = Net()
BEFORE
trainer = Trainer(net)
AFTER
model = DDP(trainer)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(9):
    for x in loader:
        model(x).mean().backward()
        optimizer.step()
        STEP
    val_loss = evaluate(model)
"""
COPIED = "slow = copy.deepcopy(net)"


@pytest.mark.parametrize(
    ("before", "after", "step", "told"),
    [
        pytest.param(COPIED, "", "follow(net, slow)", True, id="before"),
        pytest.param("", COPIED, "follow(net, slow)", False, id="after"),
        pytest.param(COPIED, "", "show(net, slow)", False, id="never followed"),
        pytest.param("other = Net()\nslow = copy.deepcopy(other)", "", "follow(net, slow)", False, id="of another"),
    ],
)
def test_a_copy_of_a_part_that_is_made_before_it_gets_dendrites(before: str, after: str, step: str, told: bool) -> None:
    text = HELD_PART.replace("BEFORE", before).replace("AFTER", after).replace("STEP", step)
    assert ("`slow` (line 10) is a copy of a part of it" in survey_of(text).unmatched) == told


def test_a_copy_of_settings_that_the_model_is_given_follows_nothing() -> None:
    text = HELD_PART.replace("net = Net()", "net = Settings()").replace("BEFORE", "settings = copy.deepcopy(net)")
    functions = """
    def train(model, settings):
        scaler = torch.cuda.amp.GradScaler(enabled=settings.half)
        count = 0
        for x in loader:
            count += settings.weight
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.norm)

    net ="""
    text = text.replace("AFTER", "").replace("net =", code(functions).rstrip("\n"), 1)
    survey = survey_of(text.replace("STEP", "train(model, settings)"))
    assert (survey.unmatched, survey.averages) == ("", [])


def test_the_model_that_is_a_copy_of_another_does_not_follow_itself() -> None:
    text = HELD_PART.replace("trainer = Trainer(net)", "trainer = copy.deepcopy(net)\ntrainer.requires_grad_(True)")
    text = text.replace("AFTER", "slow = copy.deepcopy(trainer)").replace("STEP", "follow(trainer, slow)")
    found = survey_of(text.replace("BEFORE\n", ""))
    assert [model.line for model in found.models] == [11]
    assert (found.unmatched, [place for place, _ in found.averages]) == ("", ["line 12"])


MEASURES = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

class Runner:
    def __init__(self):
        BEGUN
        self.net = DDP(Net())
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def step(self, x):
        self.net(x).mean().backward()
        self.optimizer.step()

    def validation(self):
        SET

class Other(Runner):
    pass

def main(args):
    runner, count = MADE, 0
    for epoch in range(9):
        for x in loader:
            runner.step(x)
            count += 1
        WHERE

if args.train:
    main(args)
"""


@pytest.mark.parametrize(
    ("begun", "set_as", "where", "made", "unset"),
    [
        pytest.param(
            "pass",
            "if dist.get_rank() == 0:\n            self.results = {'loss': evaluate(self.net)}",
            "runner.validation()",
            "Runner()",
            "dist.get_rank() == 0",
            id="on one rank",
        ),
        pytest.param(
            "pass",
            "if dist.get_rank() == 0:\n            self.results = {'loss': evaluate(self.net)}",
            "if count % 8 == 0:\n            runner.validation()",
            "Runner() if args.kind else Other()",
            "count % 8 == 0 and dist.get_rank() == 0",
            id="of a class by the options",
        ),
        pytest.param(
            "pass",
            "self.results = {'loss': evaluate(self.net)}",
            "if count % 8 == 0:\n            runner.validation()",
            "Runner()",
            "count % 8 == 0",
            id="every few steps",
        ),
        pytest.param(
            "pass", "self.results = {'loss': evaluate(self.net)}", "runner.validation()", "Runner()", "", id="always"
        ),
        pytest.param(
            "self.results = {}",
            "if dist.get_rank() == 0:\n            self.results = {'loss': evaluate(self.net)}",
            "runner.validation()",
            "Runner()",
            "",
            id="begun before",
        ),
        pytest.param(
            "pass",
            "if late:\n            self.results = {'loss': evaluate(self.net)}\n        "
            "else:\n            raise ValueError",
            "runner.validation()",
            "Runner()",
            "",
            id="or an exception",
        ),
        pytest.param(
            "pass",
            "if late:\n            self.results = {'loss': evaluate(self.net)}\n        else:\n            return",
            "runner.validation()",
            "Runner()",
            "late",
            id="or not",
        ),
    ],
)
def test_a_named_attribute_that_is_set_on_some_ways_only_is_told(
    begun: str, set_as: str, where: str, made: str, unset: str
) -> None:
    text = MEASURES.replace("BEGUN", begun).replace("SET", set_as).replace("WHERE", where).replace("MADE", made)
    (score,) = survey_of(text, metric="runner.results['loss']", mode="min").scores
    told = score.unset
    assert told[:2] == ("runner.results" if unset else "", unset)


#: The same with the epoch loop in a method of the object.
MEASURES_ITSELF = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

class Runner:
    def __init__(self):
        self.net = DDP(Net())
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def validation(self):
        SET

    def train(self):
        for self.epoch in range(9):
            for x in loader:
                self.net(x).mean().backward()
                self.optimizer.step()
            WHERE

Runner().train()
"""


@pytest.mark.parametrize(
    ("where", "condition", "unset"),
    [
        pytest.param("self.validation()", "", "", id="always"),
        pytest.param(
            "if self.epoch % 5 == 0:\n                self.validation()", "self.epoch % 5 == 0", "", id="some"
        ),
        pytest.param(
            "for x in held:\n                if x > 3:\n                    self.validation()", "", "", id="in turns"
        ),
        pytest.param(
            "if late: self.validation()\n            if hard: self.validation()", "", "hard", id="in two turns"
        ),
    ],
)
@pytest.mark.parametrize(
    ("metric", "value"),
    [("self.loss", "measure(self.net)"), ("self.loss['val']", "{'val': measure(self.net)}")],
    ids=["number", "item"],
)
def test_a_named_attribute_of_the_loops_own_object_is_brought_or_told(
    where: str, condition: str, unset: str, metric: str, value: str
) -> None:
    text = MEASURES_ITSELF.replace("SET", f"self.loss = {value}").replace("WHERE", where)
    (score,) = survey_of(text, metric=metric, mode="min").scores
    assert (score.kept is None, score.condition, score.unset[:2]) == (
        bool(unset),
        condition,
        ("self.loss" if unset else "", unset),
    )


_TWICE = "if late: self.validation()\n            if hard: self.validation()"
_ALWAYS = _TWICE.replace("if hard: ", "")
_SET = "self.all['val'] = measure(self.net)"


@pytest.mark.parametrize(
    ("begun", "made", "where", "unset"),
    [
        pytest.param("{}", _SET, _TWICE, "hard", id="under conditions"),
        pytest.param("{}", f"if full: {_SET}", _ALWAYS, "full", id="under one in the method"),
        pytest.param("{}", _SET, _ALWAYS, "", id="always"),
        pytest.param("{}", f"if full: {_SET}\n        else: {_SET} / 2", _ALWAYS, "", id="in each branch"),
        pytest.param("{'val': 9.0}", _SET, _TWICE, "", id="begun"),
        pytest.param("load()", _SET, _TWICE, "", id="of who knows what"),
        pytest.param("{}; self.all['val'] = 9", _SET, _TWICE, "", id="set before"),
        pytest.param("{}; self.all[key] = 9", _SET, _TWICE, "", id="by some key"),
        pytest.param("{}; self.all.update(known)", _SET, _TWICE, "", id="updated"),
    ],
)
def test_a_named_item_that_is_set_on_some_ways_only_is_told(begun: str, made: str, where: str, unset: str) -> None:
    text = MEASURES_ITSELF.replace("SET", made).replace("WHERE", where)
    text = text.replace("self.net = DDP", f"self.all = {begun}\n        self.net = DDP")
    (score,) = survey_of(text, metric="self.all['val']", mode="min").scores
    assert (score.kept, score.unset[:2]) == (None, ("self.all['val']" if unset else "", unset))


@pytest.mark.parametrize("branch", ["if full:", "if dist.get_rank() == 0:"])
def test_a_named_attribute_of_the_loops_own_object_is_taken_where_it_is_set(branch: str) -> None:
    made = f"{branch}\n            self.loss = {{'val': measure(self.net)}}"
    text = MEASURES_ITSELF.replace("SET", made).replace("WHERE", "self.validation()")
    (score,) = survey_of(text, metric="self.loss['val']", mode="min").scores
    assert score.kept is not None
    assert (score.kept.guarded, score.kept.expression) == (True, "self.loss['val']")


FOLLOWS = """
import copy, torch
from torch.nn.parallel import DistributedDataParallel as DDP

def build(width):
    return Net(width)

class Average:
    def __init__(self, model):
        self.mean = copy.deepcopy(bare(model)).eval()

class Runner:
    def __init__(self):
        self.net = build(16)
        self.net = DDP(self.net)
        self.slow = MADE
        self.follow(0)
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def follow(self, decay):
        HOW

    def step(self, x):
        self.net(x).mean().backward()
        self.optimizer.step()
        self.CALLED(0.9)

runner = Runner()
for epoch in range(9):
    for x in loader:
        runner.step(x)
    val_loss = evaluate(runner.slow)
"""
BY_ITEM = """new = dict(self.net.module.named_parameters())
        for name, p in self.slow.named_parameters():
            p.data.mul_(decay).add_(new[name].data, alpha=1 - decay)"""
BY_STATE = """new = bare(self.net).state_dict()
        for name, value in self.slow.state_dict().items():
            value.copy_(decay * value + (1 - decay) * new[name])"""
BY_ADDING = """for name, value in self.slow.state_dict().items():
            value *= decay
            value += (1 - decay) * bare(self.net).state_dict()[name].detach()"""
BY_TWO = """new, old = dict(self.net.module.named_parameters()), dict(self.slow.named_parameters())
        for name in old.keys():
            old[name].data = decay * old[name].data + (1 - decay) * new[name].data"""


@pytest.mark.parametrize(
    ("made", "how", "called", "told"),
    [
        pytest.param("build(16)", BY_ITEM, "follow", True, id="in place, by an item"),
        pytest.param("build(16)", BY_STATE, "follow", True, id="by its state"),
        pytest.param("build(16)", BY_TWO, "follow", True, id="two dicts"),
        pytest.param("build(16)", BY_ADDING, "follow", True, id="added to"),
        pytest.param("Average(self.net).mean", BY_ADDING, "follow", False, id="a copy that an object makes"),
        pytest.param("Other()", BY_ITEM, "follow", True, id="of another class"),
        pytest.param("copy.deepcopy(self.net.module)", BY_ITEM, "follow", False, id="a copy"),
        pytest.param("copy.deepcopy(self.net.module).eval()", BY_STATE, "follow", False, id="a copy that evaluates"),
        pytest.param("build(16)", BY_ITEM, "show", False, id="begins so, and follows no more"),
        pytest.param("build(16)", BY_ITEM.replace(".add_", ".show"), "follow", False, id="changes nothing"),
        pytest.param(
            "build(16)",
            BY_ITEM.replace("new[name].data, ", "kept[name].data, "),
            "follow",
            False,
            id="weights of no model",
        ),
    ],
)
def test_what_follows_the_model_by_names_without_being_its_copy_is_told(
    made: str, how: str, called: str, told: bool
) -> None:
    text = FOLLOWS.replace("MADE", made).replace("HOW", how).replace("CALLED", called)
    text = text.replace("def build", "def bare(net):\n    return net.module\n\ndef build")
    assert ("lets `self.slow` follow the model by the names" in survey_of(text).unmatched) is told


BY_MODEL = BY_TWO.replace("old.keys()", "new.keys()")


@pytest.mark.parametrize(
    ("how", "looked_up"),
    [
        pytest.param(BY_MODEL, True, id="the model's names"),
        pytest.param(BY_MODEL.replace("new.keys()", "new"), True, id="the model's names, of the dict itself"),
        pytest.param(BY_TWO, False, id="its own names"),
        pytest.param(BY_ITEM, False, id="its own weights"),
        pytest.param(
            BY_MODEL.replace("            old", "            if name in old:\n                old"),
            False,
            id="those it has",
        ),
        pytest.param(
            BY_MODEL.replace(
                "            old", "            if name not in old:\n                continue\n            old"
            ),
            False,
            id="only those it has",
        ),
        pytest.param(
            BY_MODEL.replace("            old", "            if name not in skipped:\n                old"),
            True,
            id="all but some",
        ),
        pytest.param(
            BY_MODEL.replace("            old", "            if name in set(new):\n                old"),
            True,
            id="those that the model has",
        ),
        pytest.param(
            BY_MODEL.replace("            old", "            if name in set(old) and value.ndim:\n                old"),
            False,
            id="those it has, by another spelling, and more",
        ),
        pytest.param(
            BY_MODEL.replace(
                "            old",
                "            if name in skipped or name not in old:\n                continue\n            old",
            ),
            False,
            id="only those it has, but some",
        ),
    ],
)
def test_it_is_told_for_what_is_so_of_the_names(how: str, looked_up: bool) -> None:
    text = FOLLOWS.replace("MADE", "build(16)").replace("HOW", how).replace("CALLED", "follow")
    told = survey_of(text.replace("def build", "def bare(net):\n    return net.module\n\ndef build")).unmatched
    assert ("it lacks their names, which are looked up in it" in told) is looked_up
    assert ("what is tested or saved of it would lack them" in told) is not looked_up


MIXED_IN = """now, old = self.net.module.state_dict(), self.slow.state_dict()
        for name in now.keys():
            now[name] = (1 - decay) * now[name] + decay * old[name]
        self.net.module.load_state_dict(now)"""


@pytest.mark.parametrize(
    ("made", "how", "called", "told"),
    [
        pytest.param("build(16)", MIXED_IN, "follow", True, id="by the model's names"),
        pytest.param(
            "build(16)",
            MIXED_IN.replace("in now.keys()", "in self.net.module.state_dict()"),
            "follow",
            True,
            id="of its state",
        ),
        pytest.param(
            "build(16)",
            MIXED_IN.replace("name in now.keys()", "name, value in now.items()"),
            "follow",
            True,
            id="beside values",
        ),
        pytest.param("build(16)", MIXED_IN, "show", False, id="once, before"),
        pytest.param("copy.deepcopy(self.net.module)", MIXED_IN, "follow", False, id="a copy"),
        pytest.param("build(16)", MIXED_IN.replace("in now.keys()", "in old"), "follow", False, id="its own names"),
        pytest.param(
            "build(16)", MIXED_IN.replace("* old[name]", "* old.get(name, 0)"), "follow", False, id="if it has them"
        ),
        pytest.param("build(16)", MIXED_IN.replace(" + decay * old[name]", ""), "follow", False, id="the model alone"),
        pytest.param(
            "build(16)",
            MIXED_IN.replace("            now[", "            if name in old:\n                now["),
            "follow",
            False,
            id="those it has",
        ),
        pytest.param(
            "build(16)",
            MIXED_IN.replace(
                "            now[name] = (1",
                "            try:\n                now[name] = (1",
            ).replace("* old[name]\n", "* old[name]\n            except KeyError:\n                pass\n"),
            "follow",
            False,
            id="and minds what it lacks",
        ),
        pytest.param(
            "build(16)",
            MIXED_IN.replace("now.keys()", "old").replace(
                "        self.net", "        for name in now:\n            now[name] = now[name] / 2\n        self.net"
            ),
            "follow",
            False,
            id="what has taken them in",
        ),
    ],
)
def test_what_the_names_of_the_model_are_looked_up_in_is_told(made: str, how: str, called: str, told: bool) -> None:
    text = FOLLOWS.replace("MADE", made).replace("HOW", how).replace("CALLED", called)
    unmatched = survey_of(text).unmatched
    assert ("looks up the names of the model's weights in those of `self.slow`" in unmatched) is told
    assert bool(unmatched) is told


MEASURING = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def evaluate(model):
    FIRST
    acc = sum(float(model(x).mean()) for x in val) / 9
    print(acc)

model = DDP(Net())
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(9):
    for x in loader:
        model(x).mean().backward()
        optimizer.step()
    evaluate(model)
"""


@pytest.mark.parametrize(
    ("first", "measures"),
    [
        pytest.param("model.eval()  # no loss.backward() here", ["acc"], id="a comment"),
        pytest.param('"Without loss.backward()."\n    model.eval()', ["acc"], id="documentation"),
        pytest.param("model.eval()\n    print('loss.backward()')", ["acc"], id="a text"),
        pytest.param("model.eval()\n    model(x).mean() . backward()", ["evaluate:acc"], id="spaced"),
    ],
)
def test_what_a_function_says_of_a_backward_pass_is_none(first: str, measures: list[str]) -> None:
    found = survey_of(MEASURING.replace("FIRST", first))
    assert [name for name, _ in found.measures] == measures


MADE_FOR = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Plain:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def fit(self):
        for epoch in range(9):
            for x in loader:
                self.model(x).mean().backward()
                self.optimizer.step()
            val_loss = evaluate(self.model)

class Deep(Plain):
    def __init__(self, model):
        super().__init__(model)
        self.core = PART

model = DDP(Net())
MADE.fit()
"""


@pytest.mark.parametrize(
    ("part", "made", "members"),
    [
        pytest.param("model.module", "Deep(model)", True, id="one class"),
        pytest.param("model.module", "(Deep if deep else Plain)(model)", True, id="one of two"),
        pytest.param("model.module", "{'deep': Deep, 'plain': Plain}[kind](model)", True, id="out of a dict"),
        pytest.param("model", "(Deep if deep else Plain)(model)", False, id="that asks nothing of the wrapper"),
    ],
)
def test_what_an_object_of_a_chosen_class_asks_of_the_wrapper_before_it_trains(
    part: str, made: str, members: bool
) -> None:
    found = survey_of(MADE_FOR.replace("PART", part).replace("MADE", made))
    assert [wrapper.members for wrapper in found.wrappers] == [members]


HANDED_OUT = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def follow(net, slow):
    new, old = dict(net.module.named_parameters()), dict(slow.named_parameters())
    for name in old:
        old[name].data.mul_(0.9).add_(new[name].data, alpha=0.1)

def begin(net, slow):
    net = DDP(net)
    return RETURNED

net = Net()
slow = Net()
net, slow = begin(net, slow)
optimizer = torch.optim.Adam(net.parameters())
for epoch in range(9):
    for x in loader:
        net(x).mean().backward()
        optimizer.step()
        follow(net, slow)
    val_loss = evaluate(slow)
"""


@pytest.mark.parametrize("returned", ["net, slow", "tuple(one for one in [net, slow] if one is not None)"])
def test_what_follows_the_model_is_told_where_both_are_handed_out(returned: str) -> None:
    text = HANDED_OUT.replace("RETURNED", returned)
    assert "lets `slow` follow the model by the names" in survey_of(text).unmatched


@pytest.mark.parametrize("returned", ["Adam(main), Adam(rest)", "made['main'], made['rest']"])
def test_optimizers_that_one_call_returns_are_several(returned: str) -> None:
    text = script().replace(
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", "optimizer, other = build(model)"
    )
    text = text.replace(
        "        optimizer.step()\n", "        optimizer.step()\n        other.zero_grad()\n        other.step()\n"
    )
    made = "    made = {key: Adam(part) for key, part in named(model)}\n" if "made" in returned else ""
    builder = (
        f"from torch.optim import Adam\ndef build(model):\n    main, rest = parts(model)\n{made}    return {returned}\n"
    )
    assert [o.target for o in survey_of(builder + text).optimizers] == ["optimizer", "other"]


@pytest.mark.parametrize(
    ("taken", "found"),
    [
        ("    net = restore(net)", ["net"]),
        ("    if snapshot:\n        net = restore(net)", []),
        ("    if snapshot:\n        net = restore(snapshot).net", []),
        ("    net = restore(snapshot).net", ["net"]),
        ("    if snapshot:\n        net = restore(net)\n    else:\n        net = fresh(net)", ["net"]),
        ("    net = Net()\n    if snapshot:\n        net = restore(net)", ["net"]),
    ],
)
def test_model_that_a_function_is_given_is_not_built_where_its_wrapper_comes_without(
    taken: str, found: list[str]
) -> None:
    text = f"{DDP}from elsewhere import fresh, restore\n\ndef train(net):\n{taken}\n    net = DDP(net)\n"
    text += indented(LOOP.replace("model(x)", "net(x)"))
    assert [model.target for model in survey_of(text).models] == found


@pytest.mark.parametrize(
    ("given", "other", "targets"),
    [
        ("critic", "other", ["optimizer"]),
        ("model.head", "other", ["optimizer", "other"]),
        ("model", "optimizer", ["made"]),  # built again
    ],
)
def test_optimizers_of_a_function_that_builds_one_for_each_model(given: str, other: str, targets: list[str]) -> None:
    builder = "def build(net, rate):\n    made = torch.optim.Adam(net.parameters(), rate)\n"
    builder += "    return made, StepLR(made, 9)\n"
    text = script().replace(
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
        f"critic = Net()\noptimizer, _ = build(model, 0.1)\n{other}, _ = build({given}, 0.2)",
    )
    text = text.replace(
        "        optimizer.step()\n",
        f"        optimizer.step()\n        {other}.zero_grad()\n        {other}.step()\n",
    )
    assert [o.target for o in survey_of(builder + text).optimizers] == targets


def test_scheduler_that_a_call_returns_beside_the_optimizer_is_none() -> None:
    text = script("scheduler.step()").replace(
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", "optimizer, scheduler = build(model)"
    )
    assert [o.target for o in survey_of("from elsewhere import build\n" + text).optimizers] == ["optimizer"]


@pytest.mark.parametrize(
    ("epoch", "scores"),
    [
        pytest.param('value = evaluate(model)["acc"]', [("value", "max")], id="an item of what is returned"),
        pytest.param("value = evaluate(model)[key]", [("value", "")], id="an item by a name"),
        pytest.param("acc = evaluate(model).to(device)", [("acc", "max")], id="moved"),
        pytest.param("n = evaluate(model).cpu()\nacc = n[0] / n[1]", [("acc", "max")], id="a ratio of two items"),
        pytest.param("r = evaluate(model)\nacc = r.stats()['x'][0]\nprint(r['m'])", [("acc", "max"), ("r['m']", "")]),
        pytest.param("r = evaluate(model)\nacc = r['acc']", [("r['acc']", "max")], id="named anew only"),
        pytest.param("r = evaluate(model)\nbest_acc = r['a'] / r['n']", [("r['a']", ""), ("r['n']", "")], id="a best"),
        pytest.param("for n in names:\n    acc = evaluate(n)['acc']", [], id="one of several"),
    ],
)
def test_score_out_of_what_validation_returns(epoch: str, scores: list[tuple[str, str]]) -> None:
    assert [(s.expression, s.direction) for s in survey_of(script(epoch)).scores] == scores


_KEEPER = """
def run_test(net, best):
    value = measure(net)
    if GUARDvalue > best:
        best = value
    return best, 1
"""


@pytest.mark.parametrize(("guard", "ranked"), [("", False), ("dist.get_rank() == 0 and ", True)])
def test_best_that_a_function_is_given_and_returns_is_the_score_where_no_other_is(guard: str, ranked: bool) -> None:
    text = _KEEPER.replace("GUARD", guard) + script("top, _ = run_test(model, top)", before="top = 0")
    (score,) = survey_of(text).scores
    assert (score.expression, score.direction, score.running, score.noted) == ("value", "max", "", True)
    (score,) = survey_of(text.replace("value = measure(net)", "value = (yield) or 1")).scores
    assert (score.expression, score.direction, score.running, score.ranked) == ("top", "max", "line 3", ranked)
    returned = text.replace("return best, 1", "return value, best").replace("top, _ =", "acc, top =")
    (score,) = survey_of(returned).scores
    assert (score.expression, score.running) == ("acc", "")


_FITTING = """
def fit(model, loader, val_loader):
    total_loss = val_loss = 0
    model.train()
    for n, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total_loss += loss.item()
    model.eval()
    for n, (x, y) in enumerate(val_loader):
        val_loss += criterion(model(x), y).item()
        show(val_loss / (n + 1))
    print(total_loss / len(loader), val_loss / len(val_loader))
"""


def test_value_of_the_function_that_trains_and_validates_can_be_named() -> None:
    text = script().replace("for x, y in loader:", "fit(model, loader, val_loader)")
    text = _FITTING + "\n".join(line for line in text.splitlines() if not line.startswith("        ")) + "\n"
    assert [name for name, _ in survey_of(text).measures] == ["val_loss / len(val_loader)"]
    (score,) = survey_of(text, metric="val_loss / len(val_loader)").scores
    assert (score.known, score.kept is not None, score.direction) == (True, True, "min")


_THAWING = """
def wake(net):
    for p in net.parameters():
        p.requires_grad = True

def train_all(net, on):
    for p in net.parameters():
        p.requires_grad = on

def freeze(net, on=True):
    for p in net.parameters():
        p.requires_grad_(not on)

def at_start(net, number):
    if number == 5:
        wake(net)

class State:
    now = 0

    def begin(self, number):
        self.now = number

    def step(self, net):
        if self.now == 5:
            wake(net)

state = State()
"""


#: As for attacks, which need the gradients of the data alone.
FROZEN_MEANWHILE = """if epoch >= rest:
    for p in net.parameters():
        p.requires_grad = False
    validate(net)
    for p in net.parameters():
        p.requires_grad = True"""


@pytest.mark.parametrize(
    ("epoch", "told"),
    [
        pytest.param(
            "if epoch >= rest and not free:\n    for p in net.parameters():\n        p.requires_grad = True", True
        ),
        pytest.param("if epoch < rest:\n    pass\nelse:\n    net.requires_grad_()", True, id="in the other branch"),
        pytest.param("if epoch == rest:\n    net.unfreeze_backbone()", True, id="by a method's name"),
        pytest.param("if epoch == rest:\n    net.Unfreeze_backbone()", True, id="capitalised"),
        pytest.param("if epoch == rest:\n    wake(net)", True, id="by a function"),
        pytest.param(
            "if epoch == rest:\n    optimizer.add_param_group({'params': net.parameters()})", True, id="by an optimizer"
        ),
        pytest.param("optimizer.add_param_group({'params': net.parameters()})", False, id="by one in every turn"),
        pytest.param("for p in net.parameters():\n    p.requires_grad = epoch >= rest", True, id="as the turn tells"),
        pytest.param("net.requires_grad_(epoch >= rest)", True, id="as the turn tells, all at once"),
        pytest.param("net.requires_grad_(rest < epoch)", True, id="the other way round"),
        pytest.param("if epoch == rest:\n    train_all(net, True)", True, id="by what a function is told"),
        pytest.param("if epoch == rest:\n    freeze(net, on=False)", True, id="by what one that freezes is told"),
        pytest.param("if epoch == rest:\n    freeze(net)", False, id="by a default"),
        pytest.param("if epoch == rest:\n    train_all(net, False)", False, id="a function is told to freeze"),
        pytest.param("train_all(net, epoch >= rest)", True, id="a function is told what the turn tells"),
        pytest.param("at_start(net, epoch)", True, id="in a function that is given the turn"),
        pytest.param("at_start(net, seed)", False, id="in a function that is given something else"),
        pytest.param("late = epoch > rest\nif late:\n    wake(net)", True, id="by a name for it"),
        pytest.param("state.begin(epoch)\nstate.step(net)", True, id="in a method of what keeps the turn"),
        pytest.param("state.step(net)", False, id="in a method of what is not told the turn"),
        pytest.param("net.requires_grad_(epoch < rest)", False, id="freezes from a turn on"),
        pytest.param("net.requires_grad_(train_all)", False, id="as something else tells"),
        pytest.param("if train_all:\n    wake(net)", False, id="not by the turn"),
        pytest.param("for p in net.parameters():\n    p.requires_grad = True", False, id="in every turn"),
        pytest.param(FROZEN_MEANWHILE, False, id="frozen for a validation"),
        pytest.param(FROZEN_MEANWHILE.replace("net.p", "net.head.p", 1), True, id="another part frozen"),
        pytest.param(FROZEN_MEANWHILE.replace("    validate(net)", "else:"), True, id="frozen in other turns"),
        pytest.param(
            FROZEN_MEANWHILE.replace("p.requires_grad = True", "if p.dim() > 1:\n            p.requires_grad = True"),
            True,
            id="frozen as a whole, let train in part",
        ),
        pytest.param(
            "if epoch == rest:\n    for p in net.parameters():\n        p.requires_grad = False\n"
            "        if p.dim() > 1:\n            p.requires_grad = True",
            True,
            id="frozen and in part let train at once",
        ),
        pytest.param(
            "if epoch == rest:\n    for p in net.parameters():\n        p.requires_grad = False", False, id="freezes"
        ),
    ],
)
def test_layers_that_rest_for_some_epochs_are_told(epoch: str, told: bool) -> None:
    (loop,) = survey_of(_THAWING + script(epoch, "net = model")).loops
    assert bool(loop.thaws) is told


_ATTACK = """
def attack(net, x):
    x = x.clone()
    x.requires_grad_(True)
    net(x).sum().backward()
    return x.grad

def train(net, whose, epoch):
    net.train()
    if epoch >= 5:
        WHAT

other, teacher = None, build()
teacher = DDP(teacher)

class Own(nn.Module):
    def wake(self):
        self.first.requires_grad_(True)
"""


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("attack(net, x)", False),
        ("attack(net, torch.randn(1))", False),
        ("x.requires_grad = True", False),
        ("whose.requires_grad_()", False),
        ("net.layers[-1].requires_grad_()", True),
        ("getattr(net, 'first').requires_grad_()", True),
        ("net.module.first.weight.requires_grad = True", True),
        ("for _, p in net.named_parameters():\n            p.requires_grad_(True)", True),
        ("for _, p in enumerate(list(net.parameters())[2:]):\n            p.requires_grad_(True)", True),
        ("[p.requires_grad_(True) for p in net.parameters()]", True),
        ("for _, p in dict(net.named_parameters()).items():\n            p.requires_grad_(True)", True),
        (
            "for g in optimizer.param_groups:\n            for p in g['params']:\n                p.requires_grad = 1",
            True,
        ),
        ("for p in x.values():\n            p.requires_grad = True", False),
        ("for part in [net.first, net.last]:\n            part.requires_grad_(True)", True),
        ("some = nn.Linear(1, 1)\n        some.requires_grad_(True)", True),
        ("Own().wake()", True),
        ("teacher.requires_grad_()", True),
        ("other.requires_grad_()", False),
    ],
)
def test_data_that_needs_gradients_are_no_layers_that_rest(what: str, told: bool) -> None:
    text = (
        "from torch import nn\n"
        + _ATTACK.replace("WHAT", what)
        + script("for x, y in loader:\n    train(model, y, epoch)")
    )
    (loop,) = survey_of(text).loops
    assert bool(loop.thaws) is told


@pytest.mark.parametrize(("counted", "told"), [("    turn += 1\n", True), ("    if bad:\n        turn += 1\n", False)])
def test_layers_that_rest_are_told_of_a_loop_that_counts_its_turns_by_itself(counted: str, told: bool) -> None:
    epoch = "if turn == rest:\n    net.requires_grad_(True)"
    head = next(line for line in script().splitlines() if line.startswith("for epoch"))
    text = script(epoch, "net = model").replace(head, f"turn = 0\nwhile True:\n{counted}    if stop():\n        break")
    (loop,) = survey_of(text).loops
    assert (loop.target, bool(loop.thaws)) == ("", told)


_REHEARSAL = """
def NAME(model, loader):
    before = {k: v.clone() for k, v in model.state_dict().items()}
    for epoch in range(2):
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
LAST
"""


@pytest.mark.parametrize(
    ("name", "last", "loops"),
    [
        pytest.param("warm", "    model.load_state_dict(before)", 1, id="gives the state back"),
        pytest.param("find_best_lr", "    plot()", 1, id="finder"),
        pytest.param("LRFinder", "    plot()", 1, id="finder's class"),
        pytest.param("pretrain", "    save(before)", 2, id="another training"),
        pytest.param(
            "pretrain", "        before = model.state_dict()\n    model.load_state_dict(before)", 2, id="best"
        ),
        pytest.param("tune", "        model.load_state_dict(before)", 2, id="begins anew in each turn"),
    ],
)
def test_loop_that_only_tries_is_no_training(name: str, last: str, loops: int) -> None:
    text = _REHEARSAL.replace("NAME", name).replace("LAST", last) + script(before=f"{name}(model, loader)")
    found = survey_of(text).loops
    assert (len(found), any(loop.scope.parent is None for loop in found)) == (loops, True)


def test_loop_of_an_evaluation_that_shares_the_step_of_training_is_no_training() -> None:
    step = """
        def step(model, x, y, training):
            loss = criterion(model(x), y)
            if training:
                loss.backward()

        def full_eval(model):
            model.eval()
            for n in range(10):
                for x, y in loader:
                    step(model, x, y, False)

    """
    text = code(step) + script("full_eval(model)").replace("loss.backward()", "step(model, x, y, True)")
    (loop,) = survey_of(text).loops
    assert loop.scope.parent is None


@pytest.mark.parametrize(
    ("test", "part"),
    [
        ("args.local_rank == -1 and args.check", "args.local_rank == -1"),
        ("args.late and (args.local_rank == -1 and args.check)", "args.local_rank == -1"),
        ("args.check and world_size == 1", "world_size == 1"),
        ("args.local_rank == -1 or args.check", ""),
        ("args.local_rank == -1 and (args.check or args.late)", "args.local_rank == -1"),
        ("args.check and (args.late or args.local_rank == -1)", ""),
        ("args.local_rank in [-1, 0]", ""),
        ("epoch % 5 == 1", ""),
    ],
)
def test_score_that_one_process_alone_makes_is_told(test: str, part: str) -> None:
    (score,) = survey_of(script(f"if {test}:\n    acc = validate(model)")).scores
    assert score.only_alone == part


PROCESSES = """\
import multiprocessing
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def work(rank):
    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()

for rank in range(2):
    process = multiprocessing.Process(target=work, args=(rank,))
    process.start()
"""


@pytest.mark.parametrize(("waits", "repeated"), [("", ""), ("    process.join()\n", "line 14")])
def test_processes_side_by_side_are_ranks_and_one_after_the_other_trainings(waits: str, repeated: str) -> None:
    (loop,) = survey_of(PROCESSES + waits).loops
    assert loop.repeated == repeated


TAKEN = "acc = validate(model)\nif acc > BEST:\n    BEST = acc"
TRAINER = """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Trainer:
    def __init__(self, model):
        self.best = 0.0
        self.model = DDP(model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self):
        for epoch in range(10):
            for x, y in loader:
                self.optimizer.zero_grad()
                criterion(self.model(x), y).backward()
                self.optimizer.step()
            acc = validate(self.model)
            if acc > self.best:
                self.best = acc

Trainer(Net()).fit()
"""


@pytest.mark.parametrize(
    ("text", "best"),
    [
        pytest.param(script(TAKEN, "BEST = 0.0").replace("BEST", "best_acc"), "best_acc", id="before the loop"),
        pytest.param(script(TAKEN, "BEST, first = -1, 0").replace("BEST", "top"), "top", id="with another"),
        pytest.param(script(TAKEN, "if resume:\n    BEST = 0.0").replace("BEST", "best_acc"), "", id="on some ways"),
        pytest.param(
            script(TAKEN.replace("if ", "if epoch == 0 or ")).replace("BEST", "best_acc"), "", id="in it alone"
        ),
        pytest.param(script(TAKEN, "BEST = 0").replace("BEST", "state.best"), "state.best", id="of some object"),
        pytest.param(script(TAKEN, "").replace("BEST", "state.best"), "", id="of an object that is not seen"),
        pytest.param(
            script("acc = validate(model)\nbest = max(best, acc)", "best = float('-inf')"), "best", id="by max"
        ),
        pytest.param(TRAINER, "self.best", id="of the trainer"),
        pytest.param(TRAINER.replace("__init__", "__post_init__"), "self.best", id="of a dataclass"),
        pytest.param(
            TRAINER.replace("        self.best = 0.0", "        self.reset()").replace(
                "    def fit", "    def reset(self):\n        self.best = 0.0\n\n    def fit"
            ),
            "self.best",
            id="of a method that the constructor calls",
        ),
        pytest.param(
            script(
                "acc = keeper.judge(model)",
                """
                class Keeper:
                    def __init__(self):
                        self.best = 0.0

                    def judge(self, model):
                        acc = validate(model)
                        if acc > self.best:
                            self.best = acc
                        return acc

                keeper = Keeper()
                """,
            ),
            "keeper.best",
            id="of another object",
        ),
        pytest.param(
            script(TAKEN, "if resume:\n    step, BEST = load(path)\nelse:\n    step, BEST = 0, -1.0").replace(
                "BEST", "best"
            ),
            "best",
            id="in both branches",
        ),
        pytest.param(
            script(TAKEN.replace("= acc", "= float(format(acc, '.4f'))"), "BEST = 0").replace("BEST", "top"),
            "top",
            id="rounded",
        ),
        pytest.param(script(TAKEN, "BEST = None").replace("BEST", "best"), "best", id="none yet"),
        pytest.param(
            script(TAKEN, "best = {'acc': 0.0}").replace("BEST", "best['acc']"), "best['acc']", id="an item of a dict"
        ),
        pytest.param(
            script("found = validate(model)\nif found['acc'] > best['acc']:\n    best = found", "best = {'acc': -1}"),
            "best",
            id="a dict that is kept whole",
        ),
        pytest.param(script(TAKEN, "best = (0.0, 0)").replace("BEST", "best[0]"), "", id="an item of a tuple"),
        pytest.param(script(TAKEN, "best = [0.0, 0]").replace("BEST", "best[0]"), "best[0]", id="an item of a list"),
        pytest.param(script(TAKEN, "best = [*old]").replace("BEST", "best[0]"), "best[0]", id="an item of others"),
        pytest.param(
            script(TAKEN, "best = {'acc': 0.0}\nif resume:\n    best = torch.load(path)").replace(
                "BEST", "best['acc']"
            ),
            "best['acc']",
            id="an item of a dict, or of a checkpoint",
        ),
        pytest.param(
            script(TAKEN, "best = dict(acc=0.0)").replace("BEST", "best['acc']"), "best['acc']", id="of a called dict"
        ),
        pytest.param(
            script("acc = validate(model)\nif acc > best['acc']:\n    best.update(acc=acc)", "best = {'acc': 0.0}"),
            "best",
            id="given by a method",
        ),
        pytest.param(
            script("acc = validate(model)\nif acc > best['acc']:\n    best.update(loss=acc)", "best = {'acc': 0.0}"),
            "best",
            id="filled by a method",
        ),
        pytest.param(
            script(TAKEN.replace("= acc", "= torch.tensor(acc)"), "BEST = torch.tensor(0.0)").replace("BEST", "best"),
            "best",
            id="made of the score",
        ),
        pytest.param(
            script(TAKEN.replace("= acc", "= math.ceil(acc)"), "BEST = 1.0").replace("BEST", "ymax"),
            "",
            id="a limit that is made of the score",
        ),
        pytest.param(
            script(
                TAKEN.replace("= acc", "= smooth(BEST, acc)"),
                "def smooth(old, new):\n    return 0.9 * old + 0.1 * new\n\n\nBEST = 1.0",
            ).replace("BEST", "mean"),
            "",
            id="what a function makes of the score and the best",
        ),
        pytest.param(
            script(TAKEN, "state = SimpleNamespace(best=0.0)").replace("BEST", "state.best"),
            "state.best",
            id="of a namespace",
        ),
        pytest.param(
            script(TAKEN, "class State:\n    best: float = 0.0\n\n\nstate = State()").replace("BEST", "state.best"),
            "state.best",
            id="of a class",
        ),
        pytest.param(
            script(TAKEN, "class State(library.Base):\n    best: float = 0.0\n\n\nstate = State(9.0)").replace(
                "BEST", "state.best"
            ),
            "",
            id="of a class that makes something of what it gets",
        ),
        pytest.param(
            script(
                "new = validate(model)\nif new.acc > best.acc:\n    best = new",
                "Result = namedtuple('Result', 'acc')\nbest = Result(acc=0.0)",
            ),
            "best",
            id="of what cannot be set",
        ),
    ],
)
def test_a_best_that_a_script_begins_with_and_reads_in_the_end_is_kept_for_that(text: str, best: str) -> None:
    read = best or re.findall(r"> ([\w.\[\]']+)", text)[0]
    end = f"        print({read})\n\nTrainer(Net())"
    text = text.replace("\nTrainer(Net())", end) if "Trainer" in text else f"{text}\nprint({read})\n"
    (score,) = survey_of(text).scores
    assert score.kept_for_end == [best][: len(best)]


@pytest.mark.parametrize(
    ("given", "direction"),
    [
        pytest.param("0, float('inf')", "min", id="in order"),
        pytest.param("best=float('inf')", "min", id="by its name"),
        pytest.param("*old", "min", id="who knows what"),
        pytest.param("0", "", id="another one, beside a default that no loss is lower than"),
    ],
)
def test_a_dataclass_begins_with_what_it_is_given(given: str, direction: str) -> None:
    before = "@dataclasses.dataclass\nclass State:\n    turn: int = 1\n    best: float = 0.0\n"
    taken = "value = validate(model)\nif value < state.best:\n    state.best = value"
    (score,) = survey_of(script(taken, f"import dataclasses\n\n\n{before}\n\nstate = State({given})")).scores
    assert score.direction == direction


@pytest.mark.parametrize(
    ("test", "taken", "score", "saves"),
    [
        pytest.param("acc > top[1]", "top = (epoch, acc)", "acc", True, id="item of a tuple"),
        pytest.param("acc > log.top[1]", "log.top = (epoch, acc)", "acc", True, id="in an attribute"),
        pytest.param("max(seen) == seen[-1]", "pass", "seen[-1]", True, id="of a list"),
        pytest.param("max(seen) == seen[-1]", "print()", "acc", False, id="of a list, saving nothing"),
        pytest.param("np.argmax(seen) == epoch", "pass", "seen[-1]", True, id="the place of it in a list"),
        pytest.param("np.argmax(seen) == epoch", "print()", "seen[-1]", False, id="its place, saving nothing"),
    ],
)
def test_a_best_of_another_form_is_known(test: str, taken: str, score: str, saves: bool) -> None:
    does = "torch.save(model, path)" if saves else "print(seen)"
    epoch = f"acc = validate(model)\nseen.append(acc)\nif {test}:\n    {taken}\n    {does}"
    (found,) = survey_of(script(epoch, "top, seen = (0, 0.0), []")).scores
    assert (found.expression, found.direction) == (score, "max")


@pytest.mark.parametrize(
    ("before", "turn", "found"),
    [
        pytest.param("step = 0\nif resume:\n    step = saved['step']", "step += 1", ["step"], id="from a checkpoint"),
        pytest.param("step = first * len(batches)", "step = step + 1", ["step"], id="worked out"),
        pytest.param("flag = torch.zeros(1)", "flag += 1", [], id="a flag of all ranks"),
        pytest.param("step = 0", "step += 1", [], id="begins with a number"),
        pytest.param("if resume:\n    step = saved['step']", "step += 1", [], id="without a value on every way"),
        pytest.param("step = saved['step']", "step += 1\nstep = 0", [], id="set back in a turn"),
        pytest.param("step = saved['step']", "print(step)", [], id="counts nothing"),
        pytest.param(
            "if resume:\n    step = saved['step']\nelse:\n    step = 0", "step += 1", ["step"], id="in both branches"
        ),
        pytest.param("total, step = 0.0, 0", "total += loss.item()", [], id="a sum"),
        pytest.param(
            "first = 0\nif resume:\n    first = saved['epoch'] + 1",
            "if epoch < first:\n    continue",
            ["first"],
            id="turns passed over",
        ),
        pytest.param("first = 0", "if epoch < first:\n    continue", [], id="turns passed over by a constant"),
        pytest.param("first = 0", "if epoch < first:\n    continue\nfirst = epoch", [], id="set in a turn"),
    ],
)
def test_counters_that_may_go_on_from_a_checkpoint_are_found(before: str, turn: str, found: list[str]) -> None:
    text = script(turn + "\nacc = validate(model)\nbest = max(best, acc)")
    head = next(line for line in text.splitlines() if line.lstrip().startswith("for epoch"))
    indent = head[: len(head) - len(head.lstrip())]
    lines = "".join(f"{indent}{line}\n" for line in before.splitlines())
    (loop,) = survey_of(text.replace(head, lines + head)).loops
    assert loop.resumed == found


@pytest.mark.parametrize(
    ("wrapping", "name"),
    [
        pytest.param("if many:\n    parallel = DDP(model)", "model", id="on one way"),
        pytest.param("if many:\n    parallel = DDP(model)\nelse:\n    parallel = model", "parallel", id="on both"),
        pytest.param("parallel = DDP(model)", "parallel", id="on the only one"),
    ],
)
def test_the_model_goes_by_a_name_that_has_a_value_on_every_way(wrapping: str, name: str) -> None:
    text = script("acc = validate(model)").replace("model = DDP(model)", wrapping)
    found = survey_of(text.replace("criterion(model(x), y)", "criterion(parallel(x) if many else model(x), y)"))
    assert {site.model for site in (*found.backwards, *found.scores)} == {name}
    assert found.scores


@pytest.mark.parametrize(
    ("test", "told"),
    [
        pytest.param("epoch == epochs - 1", True, id="the last turn"),
        pytest.param("epochs == epoch + 1 and first", True, id="the other way round"),
        pytest.param("epoch == epochs - 1 or epoch % 5 == 0", False, id="or another one"),
        pytest.param("epoch == start", False, id="the first turn"),
        pytest.param("epoch == epochs // 2", False, id="half of them"),
        pytest.param("epoch != epochs - 1", False, id="all others"),
    ],
)
@pytest.mark.parametrize("head", ["for epoch in range(epochs)", "for epoch in range(start, epochs)"])
def test_what_runs_in_the_planned_last_turn_alone_is_found(head: str, test: str, told: bool) -> None:
    text = script(f"if {test}:\n    final(model)").replace("for epoch in range(10)", head)
    (loop,) = survey_of(text).loops
    assert [site.code for site in loop.last_turns] == ([test.partition(" and")[0]] if told else [])


@pytest.mark.parametrize(
    "default", ["Mode.MEAN", "base.rate"], ids=["a member of an enumeration", "an attribute of an object"]
)
def test_an_option_may_have_something_of_the_projects_own_as_its_default(default: str) -> None:
    before = f"""
import argparse
class Mode(Enum):
    MEAN = 1
class Base:
    rate = 2
base = Base()
parser = argparse.ArgumentParser()
parser.add_argument("--mode", default={default})
args = parser.parse_args()
"""
    assert len(survey_of(script("acc = validate(model)", before)).scores) == 1


LOADS = """
def measure(number):
    test(torch.load(f"own_{number}.pt"))
"""


@pytest.mark.parametrize(
    ("after", "told"),
    [
        pytest.param("test(torch.load(f'net_{epochs - 1}.pt'))", True, id="the last one"),
        pytest.param("path = os.path.join(to, f'{epochs}.pt')\ntest(torch.load(path))", True, id="a path with a name"),
        pytest.param("for k in range(4, epochs + 1, 5):\n    test(torch.load(f'net_{k}.pt'))", True, id="each one"),
        pytest.param("for k in range(epochs):\n    measure(k)", True, id="in a function"),
        pytest.param("nets = [torch.load(f'net_{k}.pt') for k in range(epochs)]", True, id="all at once"),
        pytest.param(
            "last = f'net_{epochs - 1}.pt'\nif os.path.isfile(last):\n    test(torch.load(last))",
            False,
            id="one that may not be there",
        ),
        pytest.param(
            "last = Path(to) / f'net_{epochs - 1}.pt'\nif last.exists():\n    test(torch.load(last))",
            False,
            id="by a path's method",
        ),
        pytest.param(
            "nets = [torch.load(f'{k}.pt') for k in range(epochs) if os.path.exists(f'{k}.pt')]",
            False,
            id="those that are there",
        ),
        pytest.param(
            "if is_even(epochs):\n    test(torch.load(f'net_{epochs - 1}.pt'))", True, id="by a number that is asked of"
        ),
        pytest.param("for k in range(folds):\n    measure(k)", False, id="each fold"),
        pytest.param("for k in range(epochs):\n    test(torch.load('best.pt'))", False, id="a constant name"),
        pytest.param("test(torch.load(f'net_{best_epoch}.pt'))", False, id="the best one"),
        pytest.param("test(torch.load(f'net_{epoch}.pt'))", False, id="the last one there was"),
    ],
)
@pytest.mark.parametrize(
    ("saved", "by_turn"),
    [
        pytest.param("torch.save(state, f'net_{epoch}.pt')", True, id="by its turn"),
        pytest.param("torch.save(state, f'best_{epochs}_{epoch}.pt')", False, id="by the setting"),
        pytest.param("torch.save(state, 'best.pt')", False, id="by no number"),
    ],
)
def test_files_of_planned_turns_that_are_loaded_after_the_loop_are_found(
    after: str, told: bool, saved: str, by_turn: bool
) -> None:
    turn = f"acc = validate(model)\nif acc > best:\n    best, best_epoch = acc, epoch\n{saved}"
    text = script(turn, f"import os\nepochs, best_epoch = read(), 0{LOADS}", after).replace(
        "range(10)", "range(epochs)"
    )
    (loop,) = survey_of(text).loops
    assert len(loop.planned_files) == (told and by_turn)


WIDENED = """    def widen(self):
        if self.quick.out_features < 64:
            self.quick = nn.Linear(8, 64)"""
LAZY = """
import copy
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

def cached(method):
    def get(self):
        if self.slow is None:
            self.slow = method(self)
        return self.slow
    return get

class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.quick, self.slow = nn.Linear(8, 8), None
        BUILT

    @cached
    def follower(self):
        return copy.deepcopy(self.quick)

    def begin(self):
        self.slow = self.follower()

    def forward(self, x):
        RUN
        return self.quick(x)

model = DDP(Pair())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(9):
    for x in loader:
        model(x).mean().backward()
        optimizer.step()
    val_loss = evaluate(model)
"""


@pytest.mark.parametrize(
    ("built", "run", "asked"),
    [
        pytest.param("", "self.slow = copy.deepcopy(self.quick)", True, id="a copy"),
        pytest.param("", "self.begin()", True, id="in a method, by a decorated one"),
        pytest.param("", "self.head = nn.Linear(8, 8)", True, id="a layer"),
        pytest.param("self.begin()", "self.begin()", False, id="when it is built"),
        pytest.param("", "self.loss = nn.CrossEntropyLoss()", False, id="nothing to train"),
        pytest.param("", "self.seen = copy.deepcopy(x)", False, id="a copy of data"),
        pytest.param("", "slow = copy.deepcopy(self.quick)", False, id="not kept"),
        pytest.param("", "show(Pair())", False, id="in another one"),
        pytest.param(
            "", "if x.size(1) != 8:\n            self.quick = nn.Linear(9, 9)", False, id="where another does not fit"
        ),
        pytest.param("", "self.quick = nn.Linear(8, 8)", True, id="in the place of another, always"),
        pytest.param("", "if self.slow is None:\n            self.slow = nn.Linear(8, 8)", True, id="the first time"),
    ],
)
def test_a_layer_that_a_model_gets_when_it_runs(built: str, run: str, asked: bool) -> None:
    disorder = survey_of(LAZY.replace("BUILT", built).replace("RUN", run)).disorder
    assert ("gets a layer when it runs" in disorder) == asked


def test_a_layer_that_the_training_puts_in_the_place_of_another_is_no_spare_one() -> None:
    grown = LAZY.replace("BUILT", "").replace("RUN", "if x.size(1) != 8:\n            self.widen()")
    grown = grown.replace("    def begin(self):\n        self.slow = self.follower()", WIDENED)
    assert "gets a layer when it runs" not in survey_of(grown).disorder
    grown = grown.replace("x.size(1) != 8:\n            self.widen()", "x.size(1) != 8:\n            pass")
    assert "gets a layer when it runs" in survey_of(f"{grown}    model.module.widen()\n").disorder


WAYS = """
import torch
from torch import nn

model = Net()
HEAD
    model = nn.DataParallel(model)
else:
    torch.distributed.init_process_group("nccl")
    model = nn.parallel.DistributedDataParallel(model)
"""


@pytest.mark.parametrize(
    ("head", "kinds"),
    [
        ("if True:", ["dp"]),
        ("if 1:", ["dp"]),
        ("if not False:", ["dp"]),
        ("if many or True:", ["dp"]),
        ("if False:", ["ddp"]),
        ("if None:", ["ddp"]),
        ("if many and 0:", ["ddp"]),
        ("if many:\n    model.cuda()\nelif False:", ["ddp"]),
        ("if many:", ["dp", "ddp"]),
        ("if many and True:", ["dp", "ddp"]),
        ("if DEBUG is False:", ["dp", "ddp"]),
    ],
)
def test_a_branch_that_a_constant_rules_out_is_no_code(head: str, kinds: list[str]) -> None:
    assert [wrapper.kind for wrapper in survey_of(WAYS.replace("HEAD", head) + LOOP).wrappers] == kinds


def test_a_score_that_is_never_measured_is_none() -> None:
    dead = "if False:\n    acc = validate(model)\n    best = max(best, acc)\n"
    assert [score.value for score in survey_of(script(dead)).scores] == []
    assert [score.value for score in survey_of(script(dead.replace("False", "True"))).scores] == ["acc"]


OF_NONE = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Trainer:
    def __init__(self):
        self.model = DDP(Net())
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.loader = None
        GIVEN

    def validate(self):
        self.model.eval()
        return measure(self.model, self.loader)

    def train(self):
        for epoch in range(5):
            for x, y in data:
                loss = criterion(self.model(x), y)
                loss.backward()
                self.optimizer.step()
            if ASKED:
                acc = self.validate()
                best = max(best, acc)

trainer = Trainer()
BEFORE
trainer.train()
"""


@pytest.mark.parametrize(
    ("asked", "given", "before", "measured"),
    [
        ("self.loader is not None", "", "", False),
        ("self.loader", "self.loader = None", "", False),
        ("many and self.loader", "", "loader = DataLoader(data)", False),
        ("self.loader is not None", "self.loader = load()", "", True),
        ("self.loader is not None", "", "trainer.loader = load()", True),
        ("self.loader is not None", "", "setattr(trainer, name, load())", True),
        ("self.loader is not None", "vars(self).update(kept)", "", True),
        ("self.loader is None", "", "", True),
        ("many or self.loader", "", "", True),
    ],
)
def test_a_score_that_waits_for_what_is_ever_none_is_none(asked: str, given: str, before: str, measured: bool) -> None:
    found = survey_of(OF_NONE.replace("ASKED", asked).replace("GIVEN", given).replace("BEFORE", before))
    assert [score.value for score in found.scores] == ["acc"] * measured
    assert not found.validation


#: A usual trainer: it validates only where it is built with what to validate by.
HELD_OUT = """
import torch

class Trainer:
    def __init__(self, model, data, held_out=None):
        self.model = torch.nn.DataParallel(model)
        self.data, self.held_out = data, held_out

    def train(self):
        optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)

        def run(training):
            losses = []
            for x, y in self.data if training else self.held_out:
                loss = criterion(self.model(x), y)
                losses.append(loss.item())
                if training:
                    loss.backward()
                    optimizer.step()
            if not training:
                total = sum(losses) / len(losses)
                return total

        for epoch in range(5):
            run(True)
            if self.held_out is not None:
                total = run(False)
            if self.held_out is None:
                save(self.model)
                continue
            best = min(best, total)

BUILT
"""


@pytest.mark.parametrize(
    ("built", "measured"),
    [
        pytest.param("Trainer(Net(), data, None).train()", False, id="none is given"),
        pytest.param("Trainer(Net(), data).train()", False, id="by default"),
        pytest.param("Trainer(Net(), data, held_out=False).train()", True, id="no None"),
        pytest.param("Trainer(Net(), data, test).train()", True, id="one is given"),
        pytest.param("Trainer(*args).train()", True, id="what is not known"),
        pytest.param("Trainer(Net(), **given).train()", True, id="or by a name that is not"),
        pytest.param(
            "t = Trainer(Net(), data)\nif big:\n    t = Trainer(Net(), data, test)\nt.train()", True, id="one of two"
        ),
        pytest.param("t = Trainer(Net(), data)\nt.held_out = test\nt.train()", True, id="set from outside"),
        pytest.param(
            "class Own(Trainer):\n    def __init__(s):\n        super().__init__(Net(), data, test)\n\nOwn().train()",
            True,
            id="a subclass",
        ),
        pytest.param(
            "class Own(Trainer):\n    def __init__(self):\n"
            "        Trainer.__init__(self, Net(), None, test)\n\nOwn().train()",
            True,
            id="a subclass, by the class",
        ),
        pytest.param("make(Trainer)(Net(), data, test).train()\nTrainer(Net(), data).train()", True, id="handed on"),
        pytest.param("make(Trainer).train()\nTrainer(Net(), data).train()", True, id="built by another"),
        pytest.param(
            "from functools import partial\nmade = partial(Trainer, Net(), None)\nmade(test).train()",
            True,
            id="partly given",
        ),
    ],
)
def test_a_score_that_waits_for_what_no_object_is_built_with_is_none(built: str, measured: bool) -> None:
    found = survey_of(HELD_OUT.replace("BUILT", built))
    assert [score.value for score in found.scores] == ["total"] * measured
    mean = "sum(losses) / len(losses)"
    assert [name for _, name, _ in found.trained] == [mean] * (not measured)
    if not measured:
        named = survey_of(HELD_OUT.replace("BUILT", built), metric=mean)
        (score,) = named.scores
        assert score.kept is not None
        assert (score.known, score.condition, score.kept.noted) == (True, "", True)
        assert type(score.kept.node).__name__ == "For"  # of the batches: when it begins there is none


#: A training that collects something of each batch, and tells nothing else of itself.
COLLECTING = """
import torch

def pack(loss, count):
    return {"loss": loss.item(), "count": count}

def train(model):
    history = []
    for step, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        history.append(loss.item())

model = torch.nn.DataParallel(Net())
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(5):
    train(model)
"""


@pytest.mark.parametrize(
    ("collected", "offered"),
    [
        pytest.param("history.append(loss.item())", True, id="a number"),
        pytest.param("history.append(loss.detach().cpu())", True, id="a tensor of one"),
        pytest.param("history.append(float(gathered(loss)))", True, id="a number of a call"),
        pytest.param("history.append(pack(loss, len(x)))", False, id="a dict by a function"),
        pytest.param("history.append(dict(loss=loss.item()))", False, id="a dict"),
        pytest.param(
            "history.append(loss.item())\n        if step % 9 == 8:\n            history.clear()",
            False,
            id="emptied between",
        ),
    ],
)
def test_the_mean_of_what_a_training_collects_is_offered_where_all_of_it_is_numbers(
    collected: str, offered: bool
) -> None:
    found = survey_of(COLLECTING.replace("history.append(loss.item())", collected))
    mean = "sum(history) / len(history)"
    assert [name for _, name, _ in found.trained] == [mean if offered else "loss"]


REFINED = """
import copy
import torch
from torch import nn

class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 2)

class WithLoss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

def refine(model):
    RETURNS

model = UNet()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if args.prune:
    TRAINED = refine(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model = nn.DataParallel(model)
"""


@pytest.mark.parametrize(
    ("returns", "trained", "asked"),
    [
        pytest.param("small = copy.deepcopy(model)\n    return small", "model", True, id="a copy"),
        pytest.param("return copy.deepcopy(model)", "model", True, id="returned as it is made"),
        pytest.param("return UNet()", "model", True, id="another one"),
        pytest.param("model.fc.reset()\n    return model", "model", False, id="the same"),
        pytest.param("return WithLoss(model)", "model", False, id="what holds it"),
        pytest.param("return copy.deepcopy(model)", "teacher", False, id="trained by nothing"),
    ],
)
def test_a_model_that_is_made_of_the_perforated_one_and_trained_in_its_place(
    returns: str, trained: str, asked: bool
) -> None:
    text = REFINED.replace("RETURNS", returns).replace("TRAINED", trained)
    disorder = survey_of(text + LOOP).disorder
    assert ("`refine(...)` makes another model of it after that, at line" in disorder) == asked


def test_an_average_that_is_wrapped_beside_the_model_takes_no_place_of_it() -> None:
    train = """
        def train():
            if many:
                model_dp = nn.DataParallel(model)
            else:
                model_dp = model
            if args.decay:
                ema = copy.deepcopy(model)
                if many:
                    ema_dp = nn.DataParallel(ema)
                else:
                    ema_dp = ema
            else:
                ema = model
                ema_dp = model_dp
    """
    begin = REFINED[: REFINED.index("class WithLoss")]
    built = "model = UNet()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    loop = indented(LOOP.replace("model(", "model_dp("))
    assert survey_of(f"{begin}{built}{code(train)}{loop}\ntrain()\n").disorder == ""


@pytest.mark.parametrize(
    ("again", "asked"),
    [
        pytest.param(
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", True, id="with an optimizer of its own"
        ),
        pytest.param("other = torch.optim.SGD(head.parameters(), lr=0.1)", False, id="with another optimizer beside"),
        pytest.param("model.cuda()", False, id="with the one before"),
    ],
)
def test_what_is_not_read_makes_another_model_where_its_optimizer_is_built_again(again: str, asked: bool) -> None:
    begin, _, rest = REFINED.partition("def refine")
    text = f"{begin}from mine import refine\n{rest[rest.index('model = UNet()') :]}".replace("TRAINED", "model")
    first, _, third = text.partition("    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)")
    assert ("makes another model of it" in survey_of(f"{first}    {again}{third}{LOOP}").disorder) == asked


CACHING = """
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

class Cache(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(8))

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.cache = nn.Linear(8, 8), None

class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])

    def begin(self, data):
        GIVES

    def generate(self, x):
        self.begin([])
        return x

def build():
    return Decoder()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.decoder = build()

    def forward(self, x):
        return self.decoder.generate(x)

model = Net()
model = DDP(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(9):
    for x in loader:
        model(x).mean().backward()
        optimizer.step()
    val_loss = evaluate(model)
"""


@pytest.mark.parametrize(
    ("gives", "asked"),
    [
        pytest.param("self.cache = Cache()", "self.cache", id="to itself"),
        pytest.param("for layer in self.layers:\n            layer.cache = Cache()", "layer.cache", id="to each layer"),
        pytest.param(
            "for number, layer in enumerate(self.layers):\n            layer.cache = Cache().cuda()",
            "layer.cache",
            id="to each layer with its number",
        ),
        pytest.param("for one in data:\n            one.cache = Cache()", "", id="to what is none of it"),
        pytest.param("for layer in self.layers:\n            layer.cache = None", "", id="nothing"),
        pytest.param("for layer in self.layers:\n            cache = Cache()", "", id="to a name"),
    ],
)
def test_a_layer_that_parts_of_a_model_get_when_it_runs(gives: str, asked: str) -> None:
    disorder = survey_of(CACHING.replace("GIVES", gives)).disorder
    assert disorder.partition(" gets a layer when it runs")[0] == (f"`{asked}`" if asked else "")


HELPED = """
import torch
from torch import nn

def to_gpu(model, mode="DP"):
    if mode == "DP":
        model = nn.DataParallel(model)
        model = model.cuda()
    elif mode == "DDP":
        model = nn.parallel.DistributedDataParallel(model.cuda())
    return model

args.body, args.head = Body(), Head()
args.body = to_gpu(args.body)
args.head = to_gpu(args.head)
optimizer = torch.optim.SGD(args.head.parameters(), lr=0.1)
"""
FURTHER = "further = torch.optim.SGD(args.body.parameters(), lr=0.1)\n"


@pytest.mark.parametrize(
    ("model", "groups", "line"),
    [
        pytest.param("", 2, 0, id="none"),
        pytest.param("args.head", 1, 13, id="the second"),
        pytest.param("args.body", 1, 12, id="the first"),
        pytest.param("model", 0, 0, id="what the function calls both"),
    ],
)
def test_each_model_that_calls_of_a_function_wrap_can_be_named(model: str, groups: int, line: int) -> None:
    text = HELPED.replace("args.body, args.head = Body(), Head()", "args.body = Body()\nargs.head = Head()")
    found = survey_of(text + FURTHER + LOOP.replace("model(x)", "args.head(args.body(x))"), model=model)
    assert (len(found.groups), [one.line for one in found.models if line]) == (groups, [line] if line else [])
    assert (found.other_models or found.answers) == (["args.body", "args.head"] if groups != 1 else [model])


@pytest.mark.parametrize(
    ("given", "wrappers"),
    [
        pytest.param("gpu", [6, 9], id="what may be None"),
        pytest.param("0", [6], id="a number"),
        pytest.param("None", [9], id="None"),
    ],
)
def test_what_is_set_before_a_call_tells_which_wrapper_it_comes_to(given: str, wrappers: list[int]) -> None:
    text = HELPED.replace('(model, mode="DP")', "(model, args)").replace('mode == "DP"', "args.gpu is not None")
    text = text.replace('elif mode == "DDP"', "else").replace("to_gpu(args.body)", "to_gpu(args.body, args)")
    text = text.replace("args.head = to_gpu(args.head)", f"args.gpu = {given}\nargs.head = to_gpu(args.head, args)")
    found = survey_of(text + LOOP.replace("model(x)", "args.head(args.body(x))"), model="args.head")
    assert [wrapper.line for wrapper in found.groups[0]] == wrappers


def test_one_of_two_models_that_a_function_wraps_gets_dendrites_before_it_is_given_to_that(tmp_path: Path) -> None:
    text = HELPED.replace("args.body, args.head = Body(), Head()", "body = Body()\nhead = Head()")
    text = (
        (text + FURTHER).replace("args.", "") + LOOP.replace("model(x)", "head(body(x))") + "    acc = evaluate(head)\n"
    )
    (asked,) = (one for one in plan_of(tmp_path, text).questions if one.code == "PAI102")
    assert asked.message == (
        "`head` (line 16) is wrapped besides `body` (line 15), and only one model can get dendrites. "
        "Say which with --model NAME: body or head."
    )
    plan = plan_of(tmp_path, text, Options(model="head", metric="acc", mode="max"))
    assert plan.questions == []
    lines = [line.strip() for line in rewritten(plan).splitlines()]
    order = ["head = Head()", "head = UPA.perforate_model(", "body = to_gpu(body)", "head = to_gpu(head)"]
    assert [line for line in lines if line in order] == order
    assert lines.count("model = pai_distributed.on_one_device(model)") == 1


def test_a_function_that_wraps_a_frozen_teacher_too_wraps_one_that_trains() -> None:
    text = HELPED.replace("args.body = to_gpu", "args.body.requires_grad_(False)\nargs.body = to_gpu")
    found = survey_of(text + LOOP.replace("model(x)", "args.head(args.body(x))"))
    assert found.answers == ["args.head"]


def test_models_that_a_function_wraps_where_they_are_built_are_not_perforated_in_it() -> None:
    built = "if deep:\n    args.head = to_gpu(Deep())\nelse:\n    args.head = to_gpu(Head())\n"
    text = HELPED.replace("args.head = to_gpu(args.head)\n", built)
    found = survey_of(text + LOOP.replace("model(x)", "args.head(args.body(x))"), model="args.head")
    assert [model.scope.name for model in found.models] == [""]
    assert "already wraps it" in found.disorder


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("args.body = to_gpu(args.body)\n", "", id="called once"),
        pytest.param("args.body = to_gpu(args.body)\n", "args.head = to_gpu(args.head, 'DDP')\n", id="twice for one"),
        pytest.param("args.body = to_gpu(args.body)\n", "net = to_gpu(args.head)\n", id="by two names"),
        pytest.param("return model", "return None", id="gives nothing back"),
    ],
)
def test_a_function_that_wraps_one_model_in_either_way_wraps_one(old: str, new: str) -> None:
    found = survey_of(HELPED.replace(old, new) + LOOP.replace("model(x)", "args.head(x)"))
    assert ([len(wrappers) for wrappers in found.groups], found.plural) == ([2], "")


@pytest.mark.parametrize(
    ("deep", "flat"),
    [
        pytest.param("model = DDP(Deep())", "model = DDP(Flat())", id="both"),
        pytest.param(
            "model = Deep()\n    model = DDP(model)", "model = DDP(Flat())", id="one of them, the other after"
        ),
        pytest.param("net = Deep()\n    model = DDP(net)", "model = DDP(Flat())", id="the other by another name"),
    ],
)
def test_a_model_that_each_branch_wraps_where_it_builds_it_is_perforated_in_each(
    tmp_path: Path, deep: str, flat: str
) -> None:
    text = script("acc = evaluate(model)\nif acc > best:\n    best = acc", "best = 0")
    text = text.replace("model = Net()\nmodel = DDP(model)", f"if deep:\n    {deep}\nelse:\n    {flat}")
    plan = plan_of(tmp_path, text)
    assert plan.questions == []
    assert [part.count("perforate_model(") for part in rewritten(plan).partition("\nelse:\n")] == [1, 0, 1]


def test_a_model_that_a_branch_wraps_to_test_it_is_another_one() -> None:
    text = script().replace("model = Net()\nmodel = DDP(model)", "model = DDP(Net())")
    tests = "if sys.argv:\n    model = DDP(Net())\n    evaluate(model)\n    sys.exit()\nmodel = "
    assert len(survey_of(text.replace("model = ", tests, 1)).groups) == 2


def test_models_of_two_names_in_branches_are_two() -> None:
    built = "if deep:\n    model = DDP(Deep())\nelse:\n    other = DDP(Flat())"
    text = script("other(x).sum().backward()", "further = torch.optim.SGD(other.parameters(), lr=0.1)")
    assert len(survey_of(text.replace("model = Net()\nmodel = DDP(model)", built)).groups) == 2


VENDORED = """
import torch
import torch.nn as nn

class Vendored:
    def __init__(self, model):
        self.model = model

    def train(self):
        net = nn.DataParallel(self.model)
        for epoch in range(3):
            for x in self.batches():
                net(x).backward()

def shown(settings):
    return Vendored(settings).args

def step(forward, x):
    loss = forward(x)
    loss.backward()

model = Net()
shown(Other())
model = nn.DataParallel(model)
forwards = known(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    model.train()
    for x, y in loader:
        step(forwards["net"], x)
        optimizer.step()
    acc = evaluate(model)
"""


def test_a_model_that_only_a_method_wraps_and_trains_that_nothing_calls_is_not_the_trained_one() -> None:
    found = survey_of(VENDORED)
    assert [[wrapper.code for wrapper in wrappers] for wrappers in found.groups] == [["nn.DataParallel(model)"]]


_MORE = "if resume:\n        return model, states, 3\n    return model"


@pytest.mark.parametrize("back", [_MORE, _MORE[: _MORE.rindex("    return")]], ids=["or alone", "always"])
@pytest.mark.parametrize(
    ("body", "models"),
    [
        pytest.param("args.head, states, args.start", 1, id="one with its states"),
        pytest.param("args.body, states, args.start", 2, id="two with their states"),
    ],
)
def test_what_a_function_returns_beside_a_wrapped_model_is_none(back: str, body: str, models: int) -> None:
    text = HELPED.replace("return model", back).replace("args.body = ", f"{body} = ")
    if back != _MORE:
        text = text.replace("args.head = ", "args.head, states, start = ")
    found = survey_of(text + FURTHER + LOOP.replace("model(x)", "args.head(x)"))
    assert (found.plural, len(found.groups)) == ("", models)


PHASED = """
import copy
import torch
from torch.nn.parallel import DataParallel, DistributedDataParallel as DDP

def build(options):
    model = Net()
    if options.phase == "evaluate":
        return DataParallel(model)
    return model

def follow(mean, model):
    means, now = dict(mean.named_parameters()), dict(model.named_parameters())
    for name in means:
        means[name].data.mul_(0.9).add_(now[name].data, alpha=0.1)

options = parse()
options.phase = "train"
model = build(options)
later = copy.deepcopy(options)
later.phase = "evaluate"
average = build(later)
model = DDP(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


@pytest.mark.parametrize("follows", [True, False])
def test_a_function_that_builds_what_it_wraps_and_is_called_twice_is_told_as_that(
    tmp_path: Path, follows: bool
) -> None:
    text = PHASED + (f"{LOOP}    follow(average.module, model.module)\n" if follows else LOOP)
    assert survey_of(text).plural == ""
    (question,) = [one.message for one in plan_of(tmp_path, text).questions if one.code == "PAI102"]
    told = "lets `mean` follow the model by the names of its weights" if follows else "is called at line 19 and line 22"
    assert told in question


DEFINED = """
import os
import torch
from torch import nn

def begin(net, gpus):
    if len(gpus) > 1:
        net = nn.DataParallel(net, gpus)
    return net

def define(gpus):
    if deep:
        net = Deep()
    else:
        net = Net()
    return begin(net, gpus)

class Trainer:
    def __init__(self, gpus):
        self.net = define(gpus)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def load(self):
        if os.path.exists("last.pt"):
            self.net = nn.DataParallel(self.net)
            self.net.load_state_dict(torch.load("last.pt"))

    def train(self):
        self.load()
        for epoch in range(9):
            for x in loader:
                self.optimizer.zero_grad()
                self.net(x).mean().backward()
                self.optimizer.step()

Trainer([0, 1]).train()
"""


def test_a_model_that_is_wrapped_again_at_another_time_is_one() -> None:
    found = survey_of(DEFINED)
    assert [len(wrappers) for wrappers in found.groups] == [2]
    assert [(model.target, model.scope.name) for model in found.models] == [("net", "define")]
    assert found.disorder == ""


def test_two_models_of_one_function_are_two() -> None:
    text = DEFINED.replace("= nn.DataParallel(net, gpus)", "= net.cuda()")
    text = text.replace(
        "        self.net = define(gpus)\n", "        self.net = define(gpus)\n        self.other = define(gpus)\n"
    )
    text = text.replace(
        "            self.net.load", "            self.other = nn.DataParallel(self.other)\n            self.net.load"
    )
    text = text.replace("self.net(x)", "self.other(self.net(x))")
    text = text.replace("(self.net.parameters()", "([*self.net.parameters(), *self.other.parameters()]")
    assert [len(wrappers) for wrappers in survey_of(text).groups] == [1, 1]


@pytest.mark.parametrize(
    ("test", "option"),
    [
        ("is_distributed and args.amp", "args.amp"),
        ("args.amp and args.mode == 'fast'", "args.amp and args.mode == 'fast'"),
        ("is_distributed and epoch > 3", "args.mode == 'train'"),
        ("not (is_distributed and args.amp)", "args.mode == 'train'"),
    ],
)
def test_the_option_beside_how_a_script_is_started_leads_to_a_library(test: str, option: str) -> None:
    text = f"""
        import horovod.torch as hvd

        def step():
            if {test}:
                hvd.allreduce(1)

        if args.mode == 'train':
            step()
    """
    (framework,) = survey_of(text).frameworks
    assert framework.option == option
