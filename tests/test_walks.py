"""Walks through the perforated model in which a script raises at what it does not know leave dendrites out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import code, plan_of, rewritten, script, survey_of

BY_CLASS = """
for module in model.modules():
    if isinstance(module, torch.nn.Linear):
        weights += module.parameters()
    elif len(module._modules) == 0:
        if len(list(module.parameters())) > 0:
            raise ValueError(type(module))
"""
BY_NAME = """
for name, parameter in model.named_parameters():
    if name.endswith("weight"):
        weights.append(parameter)
    else:
        raise ValueError(name)
"""
BY_BOTH = """
def groups_of(net):
    decay = set()
    for path, module in net.named_modules():
        for name, _ in module.named_parameters():
            if isinstance(module, torch.nn.Linear):
                decay.add(f"{path}.{name}")
    known = {name: one for name, one in net.named_parameters()}
    assert len(known.keys() - decay) == 0
    return [known[name] for name in decay]

weights = groups_of(model)
"""
BY_NUMBER = """
def groups_of(net):
    decay, rest = [], []
    for module in net.modules():
        if isinstance(module, torch.nn.Linear):
            decay.append(module.weight)
            rest.append(module.bias)
        elif isinstance(module, torch.nn.BatchNorm1d):
            rest += [module.weight, module.bias]
    assert len(list(net.parameters())) == len(decay) + len(rest)
    return [{"params": decay}, {"params": rest, "weight_decay": 0}]

groups = groups_of(model)
"""


@pytest.mark.parametrize(
    ("walk", "found"),
    [
        pytest.param(BY_CLASS, [("modules", "model")], id="by class"),
        pytest.param(
            BY_CLASS.replace("raise ValueError(type(module))", "assert False"), [("modules", "model")], id="asserted"
        ),
        pytest.param(
            BY_CLASS.replace("module in model.modules()", "n, (_, module) in enumerate(list(model.named_modules()))"),
            [("named_modules", "model")],
            id="listed and numbered",
        ),
        pytest.param(
            BY_CLASS.replace("model.modules", "model.module.layers.modules"),
            [("modules", "model.module.layers")],
            id="a part",
        ),
        pytest.param(
            BY_CLASS.replace("module in model.modules()", "module, own in zip(model.modules(), other.modules())"),
            [],
            id="beside another model",
        ),
        pytest.param(
            "shadow = list(other.modules())\n"
            + BY_CLASS.replace(
                "module in model.modules()", "n, (module, own) in enumerate(zip(model.modules(), shadow))"
            ),
            [],
            id="beside what another model has given",
        ),
        pytest.param(
            """
            for module, own in zip(model.modules(), other.modules()):
                for name, parameter in module.named_parameters(recurse=False):
                    if not isinstance(module, torch.nn.Linear):
                        raise ValueError(name)
            """,
            [],
            id="within a loop beside another model",
        ),
        pytest.param(
            BY_CLASS.replace("module in model.modules()", "module, n in zip(model.modules(), range(9))"),
            [("modules", "model")],
            id="beside numbers",
        ),
        pytest.param(BY_NAME, [("named_parameters", "model")], id="by name"),
        pytest.param(
            BY_BOTH,
            [("named_modules", "net"), ("named_parameters", "module"), ("named_parameters", "net")],
            id="by both",
        ),
        pytest.param(BY_NUMBER, [("modules", "net"), ("parameters", "net")], id="by number"),
        pytest.param(
            BY_NUMBER.replace("groups_of(model)", "groups_of(model.layers)"),
            [("modules", "net"), ("parameters", "net")],
            id="by number, of a part",
        ),
        pytest.param(BY_NUMBER.replace("net.parameters()", "groups"), [], id="a number of others"),
        pytest.param(BY_NUMBER.replace("groups_of(model)", "groups_of(other)"), [], id="another model's number"),
        pytest.param(BY_BOTH.replace("    assert len(known.keys() - decay) == 0\n", ""), [], id="unasserted"),
        pytest.param(BY_CLASS.replace("model.modules", "other.modules"), [], id="another model"),
        pytest.param(BY_CLASS.replace("raise ValueError(type(module))", "print(module)"), [], id="printed"),
        pytest.param(BY_NAME.replace('name.endswith("weight")', "parameter.isfinite().all()"), [], id="at a bad value"),
        pytest.param(BY_NAME.replace('name.endswith("weight")', "name in shadow"), [], id="at an unknown name"),
        pytest.param(BY_NAME.replace("raise ValueError(name)", "rest.append(name)"), [], id="no raise"),
    ],
)
def test_walks_that_raise_at_what_they_do_not_know(walk: str, found: list[tuple[str, str]]) -> None:
    sites = survey_of(script(before=f"other = Net()\n{code(walk)}")).module_counts
    assert [(site.kind, site.whose) for site in sites] == found


def test_what_is_counted_without_dendrites_needs_no_note(tmp_path: Path) -> None:
    walk = BY_NUMBER.replace("net.", "model.").replace("groups_of(net)", "groups_of(_)")
    plan = plan_of(tmp_path, script("acc = evaluate(model)", code(walk)))
    assert "len(list(pai_distributed.own_parameters(model))) ==" in rewritten(plan)
    assert plan.notes == []


def test_a_walk_before_the_perforation_knows_all() -> None:
    text = script().replace("model = DDP(model)\n", f"{code(BY_CLASS)}model = DDP(model)\n")
    early = survey_of(text.replace("weights += module.parameters()", "torch.nn.init.zeros_(module.bias)"))
    assert early.module_counts == []


def test_a_method_of_the_model_that_raises_is_called_with_it_perforated(tmp_path: Path) -> None:
    own = """
class Net(torch.nn.Module):
    def policies(self):
        weights = []
        for module in self.modules():
            if isinstance(module, torch.nn.Linear):
                weights += module.parameters()
            elif list(module.parameters(recurse=False)):
                raise ValueError(module)
        return weights

"""
    text = script("acc = evaluate(model)\nif acc > best:\n    best = acc", "best = 0").replace("\n\n", f"\n{own}\n", 1)
    text = text.replace("SGD(model.parameters()", "SGD(model.module.policies()")
    new = rewritten(plan_of(tmp_path, text))
    assert "for module in pai_distributed.own_modules(self):" in new


BY_CHILD = """
for child in model.children():
    if type(child) == torch.nn.Linear:
        child.weight.requires_grad = False
"""


@pytest.mark.parametrize(
    ("walk", "found"),
    [
        pytest.param(BY_CHILD, [("layer", "child")], id="type"),
        pytest.param(
            BY_CHILD.replace("type(child) == torch.nn.Linear", "isinstance(child, torch.nn.Linear)"),
            [("layer", "child")],
            id="isinstance",
        ),
        pytest.param(
            BY_CHILD.replace("type(child) == torch.nn.Linear", "child.__class__.__name__ == 'Linear'"),
            [("layer", "child")],
            id="its class's name",
        ),
        pytest.param(
            BY_CHILD.replace("child in model.children()", "name, child in model.module.body.named_children()"),
            [("layer", "child")],
            id="of a part, with its name",
        ),
        pytest.param(
            "sizes = [c.bias.numel() for c in model.children() if type(c) is torch.nn.Linear]", [("layer", "c")]
        ),
        pytest.param(BY_CHILD.replace("children", "modules"), [], id="modules are its own"),
        pytest.param(BY_CHILD.replace("model.", "other."), [], id="of another model"),
        pytest.param(BY_CHILD.replace("torch.nn.Linear", "Block"), [], id="a class that has no dendrites"),
        pytest.param("for child in model.children():\n    print(type(child))\n", [], id="only said"),
    ],
)
def test_children_whose_class_is_asked_for(walk: str, found: list[tuple[str, str]]) -> None:
    sites = survey_of(script(before=f"other = Net()\n{code(walk)}")).module_counts
    assert [(site.kind, site.whose) for site in sites] == found


def test_children_of_a_model_that_is_not_perforated_yet_are_its_own() -> None:
    text = script().replace("model = DDP(model)\n", f"{code(BY_CHILD)}model = DDP(model)\n")
    assert (
        survey_of(text.replace("child.weight.requires_grad = False", "torch.nn.init.zeros_(child.bias)")).module_counts
        == []
    )


@pytest.mark.parametrize(
    ("use", "late"),
    [
        pytest.param("", False, id="only when it is built"),
        pytest.param("length = model.module.length(16)\n", True, id="later as well"),
    ],
)
def test_a_method_of_the_model_asks_for_the_class_of_its_children(tmp_path: Path, use: str, late: bool) -> None:
    own = """
class Net(torch.nn.Module):
    def __init__(self):
        self.body = torch.nn.Sequential(torch.nn.Linear(4, 2))
        self.size = self.length(16)

    def length(self, n):
        for child in self.body.children():
            if type(child) == torch.nn.Linear:
                n = n - child.in_features
        return n

"""
    text = script("acc = evaluate(model)\nif acc > best:\n    best = acc", f"best = 0\n{use}").replace(
        "\n\n", f"\n{own}\n", 1
    )
    new = rewritten(plan_of(tmp_path, text))
    assert ("if type(pai_distributed.own_layer(child)) == torch.nn.Linear:" in new) is late


BY_PLACE = """
params = list(model.named_parameters())
optimizer = torch.optim.SGD([p for _, p in params[:10]], lr=0.1)
"""
FROZEN_BY_PLACE = """
for n, p in enumerate(model.parameters()):
    if n < 4:
        p.requires_grad = False
"""
HALVES = """
params = list(model.parameters())
half = len(params) // 2
optimizer = torch.optim.SGD([{"params": params[:half]}, {"params": params[half:], "lr": 0.1}], lr=0.01)
"""


@pytest.mark.parametrize(
    ("walk", "found"),
    [
        pytest.param(BY_PLACE, [("named_parameters", "model")], id="a slice"),
        pytest.param(BY_PLACE.replace("p for _, p in params[:10]", "params[-1][1]"), ["named_parameters"], id="one"),
        pytest.param(BY_PLACE.replace("10", "args.first"), ["named_parameters"], id="an option"),
        pytest.param(
            "optimizer = torch.optim.SGD(list(model.module.layers.parameters())[-4:], lr=0.1)",
            [("parameters", "model.module.layers")],
            id="of a part",
        ),
        pytest.param(
            """
            def last_of(weights):
                return [{"params": weights[-4:]}]

            learning = [p for p in model.parameters() if p.requires_grad]
            optimizer = torch.optim.SGD(last_of(learning), lr=0.1)
            """,
            ["parameters"],
            id="in a function",
        ),
        pytest.param(
            "import itertools\noptimizer = torch.optim.SGD(itertools.islice(model.parameters(), 4), lr=0.1)",
            ["parameters"],
            id="islice",
        ),
        pytest.param(
            "optimizer = torch.optim.SGD([p for n, p in enumerate(model.parameters()) if n > 3], lr=0.1)",
            ["parameters"],
            id="by number",
        ),
        pytest.param(FROZEN_BY_PLACE, ["parameters"], id="frozen by number"),
        pytest.param(
            "for p in list(model.parameters())[:-2]:\n    p.requires_grad_(False)", ["parameters"], id="frozen slice"
        ),
        pytest.param(FROZEN_BY_PLACE.replace("if n < 4", 'if "head" in str(p)'), [], id="frozen by another test"),
        pytest.param(FROZEN_BY_PLACE.replace("p.requires_grad = False", "print(n)"), [], id="printed by number"),
        pytest.param(HALVES, [], id="places that move"),
        pytest.param(BY_PLACE.replace("params[:10]", "params").replace("list(model", "list(other"), [], id="another's"),
        pytest.param(BY_PLACE.replace("params[:10]", "params"), [], id="all of them"),
        pytest.param(BY_PLACE.replace("params[:10]", "params") + "print(params[:10])", [], id="some are printed"),
    ],
)
def test_parameters_that_are_chosen_by_their_places(walk: str, found: list[tuple[str, str] | str]) -> None:
    before = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    text = script(before=f"other = Net()\n{code(walk)}")
    sites = survey_of(text.replace(before, "") if "optimizer" in walk else text).module_counts
    assert [(site.kind, site.whose) for site in sites] == [
        (one, "model") if isinstance(one, str) else one for one in found
    ]


GROUPED = """
class Net(torch.nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Linear(width, 2))

    def old(self):
        return list(self.body.parameters())[:-2]

    def fresh(self):
        return list(self.body[1].parameters())


class Wide(Net):
    pass


def wide():
    return Wide(8)


KINDS = {"net": Net, "wide": Wide}
"""


@pytest.mark.parametrize(
    ("built", "placed"),
    [
        pytest.param("Net()", True, id="by name"),
        pytest.param("KINDS[args.kind]()", True, id="out of a dict"),
        pytest.param("KINDS.get(args.kind, Net)()", True, id="got out of a dict"),
        pytest.param("KINDS['wide'](*[8])", True, id="of a class that extends it"),
        pytest.param("(Wide if args.wide else Net)()", True, id="by a condition"),
        pytest.param("{'wide': wide}[args.kind]()", True, id="by a function out of a dict"),
        pytest.param("{'other': Other}[args.kind]()", False, id="another class out of a dict"),
    ],
)
def test_a_method_of_a_class_that_a_dict_holds_chooses_parameters_by_places(built: str, placed: bool) -> None:
    groups = 'torch.optim.SGD([{"params": model.old()}, {"params": model.fresh(), "lr": 0.1}], lr=0.1)'
    other = GROUPED.replace("class Net", "class Other").split("class Wide")[0].replace("[:-2]", "")
    text = script().replace("\n\n", f"\n{GROUPED}\n{other}\n", 1).replace("model = Net()", f"model = {built}", 1)
    sites = survey_of(text.replace("torch.optim.SGD(model.parameters(), lr=0.1)", groups)).module_counts
    assert [(site.kind, site.whose) for site in sites] == [("parameters", "self.body")] * placed
