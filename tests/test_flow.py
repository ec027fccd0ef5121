"""Where values come from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import libcst as cst
import pytest

from retrofit.survey.defaults import Defaults
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.origins import Origin
from retrofit.survey.scopes import Scope
from tests.helpers import source_of


def test_helpers_that_call_helpers_are_followed_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = "".join(f"def f{n + 1}(x):\n    return f{n}(x) if x else f{n}(x)\n" for n in range(15))
    index = Index(source_of(f"def f0(x):\n    return x\n{chain}model = Net()\nmodel = f15(model)\n"))
    steps = 0
    trace = Flow._trace

    def counted(self: Flow, *given: Any) -> Iterator[Origin]:
        nonlocal steps
        steps += 1
        return trace(self, *given)

    monkeypatch.setattr(Flow, "_trace", counted)
    flow = Flow(index)
    assert [index.source.code(o.node) for o in flow.origins(cst.Name("model"), index.scope)] == ["Net()"]
    assert steps < 1000


def test_a_condition_is_worked_out_without_a_walk_through_all_assignments(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"flag{n} = {n % 2}\nif flag{n}:\n    call{n}()\n" for n in range(100)]
    index = Index(source_of("".join(lines)))
    flow, steps = Flow(index), 0
    asked = Flow.variable

    def counted(self: Flow, name: str, scope: Scope) -> tuple[Scope, str]:
        nonlocal steps
        steps += 1
        return asked(self, name, scope)

    monkeypatch.setattr(Flow, "variable", counted)
    defaults = Defaults(index, flow)
    assert [defaults.leave_out(call) for call in index.calls] == [True, False] * 50
    assert steps < 1000


def test_an_object_may_be_its_own_part() -> None:
    index = Index(source_of("model = model.net\nmodel.net = wrap(model.net.module)\nmodel.net = model.net.cuda()\n"))
    assert [index.source.code(o.node) for o in Flow(index).origins(cst.Name("model"), index.scope)] == [
        "wrap(model.net.module)"
    ]
    index = Index(source_of("model = model.net\nmodel.net = model.net.cuda()\n"))
    assert [index.source.code(o.node) for o in Flow(index).origins(cst.Name("model"), index.scope)] == ["model.net"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("state = load()\nstate = state['model']\n", id="itself"),
        pytest.param("state = load()\nother = state['model']\nstate = other['net']\n", id="by another"),
        pytest.param("state = {'model': load()}\nstate = state['model']\n", id="a dict"),
    ],
)
def test_a_dict_may_be_an_item_of_itself(text: str) -> None:
    index = Index(source_of(text))
    found = Flow(index).origins(cst.Name("state"), index.scope)
    assert "load()" in [index.source.code(one.node) for one in found]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("made = REGISTRY.get(name)\nmade = made(x)\n", id="itself"),
        pytest.param("made = make\nmade = made(x)\n", id="a function of the project"),
        pytest.param("made = find()\nother = made(x)\nmade = other(y)\n", id="by another"),
        pytest.param("def run(made):\n    made = made(x)\n    return made\nmade = run(run)\n", id="a parameter"),
        pytest.param("made = torch.optim\nmade = getattr(made, name)\nmade = made(x)\n", id="an attribute"),
    ],
)
def test_a_name_may_be_bound_to_what_its_own_call_gives(text: str) -> None:
    index = Index(source_of("def make(x):\n    return Net(x)\n\n\n" + text))
    assert Flow(index).origins(cst.Name("made"), index.scope)


HELPERS = """
def load(path, net):
    net.load_state_dict(path)
    return net, path

def wrap(net):
    net = DDP(net)
    return net

def prepare(net):
    return wrap(net=net)

def first():
    a = A()
    a, _ = load("a.pt", a)
    a = prepare(a)

def second():
    b = B()
    b, _ = load("b.pt", b)
    b = prepare(b)
"""


@pytest.mark.parametrize(("name", "made"), [("a", "A()"), ("b", "B()")])
def test_what_a_function_hands_back_is_what_the_call_gives(name: str, made: str) -> None:
    text = f"from torch.nn.parallel import DistributedDataParallel as DDP\n{HELPERS}"
    index = Index(source_of(text))
    flow = Flow(index)
    scope = next(scope for scope in index.scopes if name in scope.assigned)
    assert [index.source.code(origin.node) for origin in flow.origins(cst.Name(name), scope)] == [made]


@pytest.mark.parametrize(
    ("returned", "made"),
    [
        pytest.param("tuple(one for one in [net, head] if one is not None)", "Head()", id="those that there are"),
        pytest.param("[one for one in (net, head) if one]", "Head()", id="of a list"),
        pytest.param("tuple([net, head])", "Head()", id="as they are"),
        pytest.param("tuple(one for one in [net, head] if wanted(one))", "give(Net(), Head())", id="some of them"),
        pytest.param("tuple(one for one in [net, head] if one is not net)", "give(Net(), Head())", id="all but one"),
        pytest.param("tuple(change(one) for one in [net, head])", "give(Net(), Head())", id="something else"),
        pytest.param("tuple(one for part in [net, head] for one in part)", "give(Net(), Head())", id="their parts"),
    ],
)
def test_an_item_of_what_goes_through_a_list_is_that_of_the_list(returned: str, made: str) -> None:
    text = f"def give(net, head):\n    return {returned}\n\nnet, head = give(Net(), Head())\n"
    index = Index(source_of(text))
    (origin,) = Flow(index).origins(cst.Name("head"), index.scope)
    assert index.source.code(origin.node) == made


OWN_OBJECT = """
class Fabric:
    def launch(self):
        return self

    def start(self):
        return self.launch()

    @staticmethod
    def other(self):
        return self

    @classmethod
    def kind(cls):
        return cls

    def follow(self):
        here = self.launch()
        return [here]

    def wrap(self, model):
        return model
"""


@pytest.mark.parametrize(
    ("value", "made"),
    [
        pytest.param("Fabric().launch()", "Fabric()", id="made there"),
        pytest.param("Fabric(2).launch().start()", "Fabric(2)", id="by another method, twice"),
        pytest.param("begun.launch()", "Fabric(1)", id="by a name"),
        pytest.param("Fabric().launch().wrap(Net())", "Net()", id="and another method"),
        pytest.param("Fabric.other(begun)", "Fabric(1)", id="a static method"),
        pytest.param("Fabric.launch(begun)", "Fabric(1)", id="called on the class"),
        pytest.param("Fabric.kind()", "Fabric", id="a class method"),
        pytest.param("Fabric().follow()", "[here]", id="in a list"),
    ],
)
def test_a_method_that_returns_its_own_object_gives_what_it_is_called_on(value: str, made: str) -> None:
    index = Index(source_of(f"{OWN_OBJECT}begun = Fabric(1)\nfound = {value}\n"))
    flow = Flow(index)
    found = {origin for one in flow.origins(cst.Name("found"), index.scope) for origin in flow.inside(one) or [one]}
    assert [index.source.code(one.node) for one in found] == [made]


def test_a_function_that_returns_one_value_or_several_gives_each_its_own() -> None:
    text = """
def load(net, optimizer=None):
    if optimizer is not None:
        return net, optimizer, 1
    return net

net = Net()
optimizer = Adam(net.parameters())
net, optimizer, start = load(net, optimizer)
"""
    index = Index(source_of(text))
    flow = Flow(index)
    made = {name: flow.origins(cst.Name(name), index.scope) for name in ("net", "optimizer")}
    assert {name: [index.source.code(o.node) for o in found] for name, found in made.items()} == {
        "net": ["Net()"],
        "optimizer": ["Adam(net.parameters())"],
    }


@pytest.mark.parametrize(
    ("chosen", "made"),
    [
        pytest.param("run, check = steps[f'{kind}-train'], steps[f'{kind}-test']", ["Adam()"], id="by what they take"),
        pytest.param("run, check = steps['a-train'], steps['b-test']", ["Adam()"], id="by their keys"),
        pytest.param("run = check = steps[kind]", ["Adam()"], id="by what they take, of one name"),
    ],
)
def test_of_the_functions_of_a_dict_those_are_called_that_fit(chosen: str, made: list[str]) -> None:
    text = f"""
def train(net, optimizer, epoch, mode):
    optimizer.step()

def test(net, epoch, *, mode):
    return net

steps = {{'a-train': train, 'a-test': test, 'b-test': test}}
{chosen}
optimizer = Adam()
run(net, optimizer, 1, "a")
check(net, name(), mode="b")
"""
    index = Index(source_of(text))
    flow = Flow(index)
    (scope,) = (scope for scope in index.scopes if scope.name == "train")
    assert [index.source.code(origin.node) for origin in flow.origins(cst.Name("optimizer"), scope)] == made


def test_a_call_that_fits_none_of_its_functions_may_run_each() -> None:
    text = "def a(x):\n    pass\ndef b(y):\n    pass\nrun = {'a': a, 'b': b}[kind]\nrun(1, 2, 3)\n"
    index = Index(source_of(text))
    flow = Flow(index)
    assert [len(flow.callers(scope)) for scope in index.scopes if scope.kind == "function"] == [1, 1]


STARRED = """
def setup():
    return A(), B()

def pair():
    both = setup()
    return both

def run(rank, first, second):
    pass

CALL
"""


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("run(0, *setup())", id="call"),
        pytest.param("things = setup()\nrun(0, *things)", id="name"),
        pytest.param("things = 0, A(), B()\nrun(*things)", id="tuple"),
        pytest.param("run(0, *pair())", id="of a helper"),
        pytest.param("a, b = pair()\nrun(*[0, a], b)", id="list"),
        pytest.param("things = A(), B()\na, b = things\nrun(0, a, second=b)", id="taken apart"),
        pytest.param("import torch\nthings = setup()\ntorch.multiprocessing.spawn(run, things)", id="spawned"),
    ],
)
def test_a_star_gives_each_parameter_its_item(call: str) -> None:
    index = Index(source_of(STARRED.replace("CALL", call)))
    flow, function = Flow(index), index.scope.inner["run"]
    made = [flow.deep_origins(cst.Name(name), function) for name in ("first", "second")]
    codes = [{index.source.code(o.node) for o in one if o.item is None} for one in made]
    assert codes == [{"A()"}, {"B()"}]


def test_a_function_among_what_a_process_is_given_is_run_there() -> None:
    text = "from torch.multiprocessing import spawn\ndef train(args):\n    pass\ndef main():\n    start(train, ())\n"
    text += "def start(run, args):\n    spawn(worker, args=(2, run, args))\n"
    index = Index(source_of(f"{text}def worker(rank, count, fn, args):\n    fn(*args)\nmain()\n"))
    assert [index.source.code(call) for call in Flow(index).callers(index.scope.inner["train"])] == ["fn(*args)"]


PARTS = """
class Net:
    def each(self, change):
        self.body = change(self.body)

def each(net, change):
    net.body = change(net.body)

class Holder:
    def __init__(self, change):
        self.change = change

    def each(self, net):
        net.body = self.change(net.body)

net = Net()

def main():
    def wrap(part):
        return part
    CALL

main()
"""


@pytest.mark.parametrize(
    ("call", "run"),
    [
        pytest.param("net.each(wrap)", "change(self.body)", id="method"),
        pytest.param("each(net, wrap)", "change(net.body)", id="function"),
        pytest.param("Holder(wrap).each(net)", "self.change(net.body)", id="attribute"),
        pytest.param("net.each(lambda part: wrap(part))", "wrap(part)", id="lambda"),
        pytest.param("net.each(other)", "", id="another"),
    ],
)
def test_a_function_that_is_handed_over_is_called_by_the_parameter(call: str, run: str) -> None:
    index = Index(source_of(PARTS.replace("CALL", call)))
    flow, wrap = Flow(index), index.scope.inner["main"].inner["wrap"]
    assert [index.source.code(one) for one in flow.callers(wrap)] == ([run] if run else [])
    given = [index.source.code(one.value) for one in flow.sources((wrap, "part")) if one.value is not None]
    assert given == ([run.partition("(")[2].rstrip(")")] if run else [])


IN_BRANCHES = """
def main(many):
    if many:
        def wrap(part):
            return part
        CALL
    else:
        def wrap(part):
            return part
        CALL

def each(net, change):
    net.body = change(net.body)

main(2)
"""


@pytest.mark.parametrize(
    ("call", "runs"),
    [
        pytest.param("net = wrap(net)", [["wrap(net)"], ["wrap(net)"]], id="name"),
        pytest.param("each(net, wrap)", [["change(net.body)"], ["change(net.body)"]], id="parameter"),
        pytest.param("if many > 3:\n            each(net, wrap)", [["change(net.body)"]] * 2, id="further inside"),
    ],
)
def test_a_name_means_the_function_of_its_own_branch(call: str, runs: list[list[str]]) -> None:
    index = Index(source_of(IN_BRANCHES.replace("CALL", call)))
    flow = Flow(index)
    called = [flow.callers(scope) for scope in index.scopes if scope.name == "wrap"]
    assert [[index.source.code(one) for one in calls] for calls in called] == runs


def test_what_follows_a_star_of_unknown_length_is_of_no_place_that_is_told() -> None:
    index = Index(source_of(STARRED.replace("CALL", "run(*setup(), C())")))
    made = Flow(index).deep_origins(cst.Name("second"), index.scope.inner["run"])
    assert "C()" not in {index.source.code(o.node) for o in made}


PROPERTY = """
class Trainer:
    def __init__(self):
        self._net = Net()

    HEAD
    def model(self):
        return wrap(self._net)

    def step(self, x):
        out = self.model(x)
        self.model.train()
        return out
"""


@pytest.mark.parametrize(
    ("head", "read"),
    [
        pytest.param("@property", True, id="property"),
        pytest.param("@functools.cached_property", True, id="kept"),
        pytest.param("@torch.no_grad()", False, id="method"),
    ],
)
def test_a_property_is_its_value_and_called_where_that_is_read(head: str, read: bool) -> None:
    index = Index(source_of(PROPERTY.replace("HEAD", head)))
    flow = Flow(index)
    step, method = (index.scope.inner["Trainer"].inner[name] for name in ("step", "model"))
    (call,) = index.calls_to("self.model")
    (out,) = flow.origins(cst.Name("out"), step)
    assert out.node is call
    assert (flow.called(call) is None, bool(flow.inside(out))) == (read, not read)
    assert call in flow.callers(method)
    found = flow.origins(cst.parse_expression("self.model"), step) if read else []
    assert [index.source.code(one.node) for one in found] == ["wrap(self._net)"] * read


OF_CLASS = """
class Engine:
    DECORATOR
    def train(FIRSTnet):
        net.loss()

engine = Engine()
CALL
"""


@pytest.mark.parametrize(
    ("decorator", "first", "call"),
    [
        pytest.param("staticmethod", "", "Engine.train(Net())", id="static, by the class"),
        pytest.param("staticmethod", "", "engine.train(Net())", id="static, by an object"),
        pytest.param("staticmethod", "", "Engine.train(net=Net())", id="static, by keyword"),
        pytest.param("classmethod", "cls, ", "Engine.train(Net())", id="of the class"),
        pytest.param("no_grad()", "self, ", "Engine.train(engine, Net())", id="unbound"),
        pytest.param("no_grad()", "self, ", "engine.train(Net())", id="bound"),
        pytest.param("staticmethod", "", "class Other(Engine):\n    pass\nOther.train(Net())", id="inherited"),
    ],
)
def test_a_method_gets_its_arguments_however_it_is_called(decorator: str, first: str, call: str) -> None:
    text = OF_CLASS.replace("DECORATOR", f"@{decorator}").replace("FIRST", first).replace("CALL", call)
    index = Index(source_of(text))
    flow, method = Flow(index), index.scope.inner["Engine"].inner["train"]
    assert len(flow.callers(method)) == 1
    assert [index.source.code(one.node) for one in flow.origins(cst.Name("net"), method)] == ["Net()"]


def test_a_method_is_called_by_the_name_that_it_was_given_last() -> None:
    bound = "add = parser.add_argument\nadd(1)\nadd = group.add_argument\nadd(2)\nadd = print\nadd(3)\n"
    index = Index(source_of(f"{bound}def main(add):\n    add(4)\n    parser.add_argument(5)\n"))
    found = [index.source.code(node) for call, of in index.method_calls("add_argument") for node in (call, of)]
    assert found == ["add(1)", "parser", "add(2)", "group", "parser.add_argument(5)", "parser"]


HANDED = """
def each(net):
    pass
def other(net):
    pass
class Loop:
    def __init__(self, turn):
        self.turn = turn
    def run(self):
        self.turn(net)
def train(turn):
    turn(net)
class Net:
    def __call__(self, x):
        pass
CALL
"""


@pytest.mark.parametrize(
    ("call", "called"),
    [
        ("train(each)", ["each"]),
        ("train(turn=each)\ntrain(each)", ["each"]),
        ("Loop(each).run()", ["each"]),
        ("train(each)\ntrain(other)", []),
        ("train(each if a else other)", []),
        ("train(each)\ntrain(made())", []),
        ("train(Net)", []),
        ("train()", []),
    ],
)
def test_a_function_that_is_handed_over_is_called_where_no_other_may_be(call: str, called: list[str]) -> None:
    index = Index(source_of(HANDED.replace("CALL", call)))
    flow = Flow(index)
    found = [flow.called(one) for one in index.calls if index.source.code(one) in ("turn(net)", "self.turn(net)")]
    assert [one.name for one in found if one is not None] == called


@pytest.mark.parametrize(
    ("parameters", "given", "passed_on"),
    [
        pytest.param("first, *rest", "one(), two(), three()", "first, *rest", id="through a star"),
        pytest.param("first, *rest, last=0", "one(), two(), three()", "first, *rest", id="before one by name alone"),
        pytest.param("*rest", "one(), two(), three()", "*rest", id="of all"),
        pytest.param("*rest", "one(), *(two(), three())", "*rest", id="that a star gives"),
        pytest.param("*rest", "two(), three()", "0, *rest", id="beside another"),
    ],
)
def test_what_a_function_passes_on_by_a_star_is_followed_to_its_place(
    parameters: str, given: str, passed_on: str
) -> None:
    text = "def inner(first, second, third):\n    return third\n"
    text += f"def outer({parameters}):\n    inner({passed_on})\nouter({given})\n"
    index = Index(source_of(text))
    flow, inner = Flow(index), index.scope.inner["inner"]
    found = [flow.origins(cst.Name(name), inner) for name in ("second", "third")]
    assert [[index.source.code(one.node) for one in origins] for origins in found] == [["two()"], ["three()"]]


@pytest.mark.parametrize(
    ("head", "name"),
    [
        pytest.param("class Net(Generic[M]):", "Net", id="generic"),
        pytest.param("class Base(Generic[M]):\n    pass\n\nclass Net(Base):", "Net", id="by its base"),
        pytest.param("class Net(metaclass=Table):", "", id="an item of a class"),
    ],
)
def test_a_generic_class_with_its_parameters_is_the_class(head: str, name: str) -> None:
    index = Index(source_of(f"from typing import Generic\n{head}\n    pass\n\nnet = Net[kind]()\n"))
    made = Flow(index).class_made(index.calls[0])
    assert (made.name if made is not None else "") == name


HOOKS = """
class Trainer:
    def call(self, name=PLAIN):
        getattr(self, WHICH)()

    def begin(self):
        print("begin")

    def train(self):
        HOOK
        for x in loader:
            model(x).mean().backward()

    def turn(self):
        BESIDE

trainer = Trainer()
START
"""


@pytest.mark.parametrize(
    ("names", "trains"),
    [
        pytest.param({"HOOK": "self.call('begin')"}, False, id="of the training"),
        pytest.param({"HOOK": "self.call(x)", "START": "trainer.train()"}, False, id="of a training that is called"),
        pytest.param({"HOOK": "getattr(self, x)()", "BESIDE": "self.call('begin')"}, False, id="in the training"),
        pytest.param({"BESIDE": "self.call('begin')"}, False, id="by what is given"),
        pytest.param({"BESIDE": "self.call('train')"}, True, id="which is it"),
        pytest.param({"BESIDE": "self.call()", "PLAIN": "'train'"}, True, id="by its default"),
        pytest.param({"BESIDE": "self.call('begin'), self.call()", "PLAIN": "'train'"}, True, id="by its default too"),
        pytest.param({"BESIDE": "self.call('begin')\n        self.call(x)"}, True, id="or anything"),
        pytest.param({"BESIDE": "self.call(x)", "WHICH": "f'on_{name}'"}, False, id="another beginning"),
        pytest.param({"BESIDE": "self.call(x)", "WHICH": "name + '_x'"}, False, id="another end"),
        pytest.param({"BESIDE": "self.call(x)", "WHICH": "'tra%s' % name"}, True, id="its beginning"),
        pytest.param({"BESIDE": "self.call(x)", "WHICH": "f't{name}n'"}, True, id="its beginning and end"),
        pytest.param({"BESIDE": "self.call(x)", "WHICH": "'tr' + name + 'in'"}, True, id="its end"),
    ],
)
def test_a_method_by_its_name_is_one_that_trains_where_it_can_be(names: dict[str, str], trains: bool) -> None:
    text = HOOKS
    for word, plain in {"PLAIN": "'begin'", "WHICH": "name", "HOOK": "pass", "BESIDE": "pass", "START": ""}.items():
        text = text.replace(word, names.get(word, plain))
    index = Index(source_of(text))
    flow = Flow(index)
    calls = [call for call in index.calls if index.source.code(call).startswith("getattr(self") and not call.args]
    found = {one.name for call in calls for one in flow.choices.called(call)}
    assert found == ({"train"} if trains else set())


class _Counted(list[tuple[cst.Return, Scope]]):
    """A list that counts how often it is gone through."""

    walks = 0

    def __iter__(self) -> Iterator[tuple[cst.Return, Scope]]:
        self.walks += 1
        return super().__iter__()


def test_the_returns_of_a_project_are_gone_through_once_for_all_its_functions() -> None:
    index = Index(source_of("def f(x):\n    return x\n\n\ndef g(x):\n    if x:\n        return 1\n    return 2\n"))
    returns = index.returns = _Counted(index.returns)
    f, g = index.scope.inner["f"], index.scope.inner["g"]
    assert [[*map(index.source.code, index.returned(one))] for one in (f, g, f, index.scope)] == [
        ["x"], ["1", "2"], ["x"], [],
    ]  # fmt: skip
    assert returns.walks == 1


def test_what_is_left_out_returns_and_binds_nothing_afterwards() -> None:
    index = Index(source_of("y = make()\n\n\ndef f(x):\n    z = make()\n    return z\n"))
    f = index.scope.inner["f"]
    calls = [*index.calls]
    assert index.returned(f)
    assert [index.target_of(call) for call in calls] == ["y", "z"]
    index.keep({index.scope})
    assert index.returned(f) == []
    assert [index.target_of(call) for call in calls] == ["y", ""]
