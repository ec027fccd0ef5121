"""No question is asked for the spelling of what is there: each script is the small one in other words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import swapped
from tests.helpers import plan_of, rewritten, script

_BUILT = "model = Net()\n"
_WRAPPED = "model = DDP(model)\n"
_OPTIMIZER = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
_STEP = "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n"
_SCORE = "    acc = evaluate(model)\n    if acc > best:\n        best = acc"
PLAIN = script("acc = evaluate(model)\nif acc > best:\n    best = acc", "best = 0")


def made(body: str, returned: str, taken: str) -> tuple[tuple[str, str], ...]:
    """Return the swaps by which a function makes model and optimizer."""
    function = (
        "def build():\n" + "".join(f"    {line}\n" for line in body.splitlines()) + f"    return {returned}\n\n\n"
    )
    return ((_BUILT + _WRAPPED + _OPTIMIZER, f"{function}{taken}\n"),)


def _held(maker: str) -> tuple[tuple[str, str], ...]:
    text = PLAIN.replace("optimizer.", "held.optimizer.").replace(
        "optimizer = torch.optim", "held.optimizer = torch.optim"
    )
    text = text.replace("torch.held.optimizer", "torch.optimizer").replace(
        "model = Net()", f"{maker}\nheld.model = Net()"
    )
    text = text.replace("model = DDP(model)", "held.model = DDP(held.model)").replace("(model.par", "(held.model.par")
    return (
        (
            PLAIN,
            text.replace("criterion(model", "criterion(held.model").replace("evaluate(model", "evaluate(held.model"),
        ),
    )


_OBJECTS = """\
class Held:
    def __init__(self, n):
        self.model = Net(n)
        self.model = DDP(self.model)


class Other(Held):
    pass


def chosen():
    if big:
        return Other(2)
    return Held(1)


model = chosen().model
"""

#: The swaps of each script, and what is among its new lines.
SPELLINGS: dict[str, tuple[tuple[tuple[str, str], ...], str]] = {
    "annotated model": (((_BUILT, "model: nn.Module = Net()\n"),), "UPA.perforate_model("),
    "annotated wrapper": (((_WRAPPED, "model: DDP = DDP(model)\n"),), "    model: DDP = DDP(model, find_unused"),
    "annotated optimizer": (
        ((_OPTIMIZER, _OPTIMIZER.replace("optimizer =", "optimizer: Optim =")),),
        "set_optimizer_inst",
    ),
    "annotated score": ((("    acc = ", "    acc: float = "),), "report_validation_score(acc, model)"),
    "wrapper behind if": (((_WRAPPED, "if many: model = DDP(model)\n"),), "    if not pai_distributed.initializing():"),
    "wrapper behind else": (
        ((_WRAPPED, f"if one: pass\nelse: {_WRAPPED}"),),
        "    if not pai_distributed.initializing():",
    ),
    "best behind if": ((("best:\n        best", "best: best"),), "report_validation_score(acc, model)"),
    "backward behind if": (
        (("        loss.backward()", "        if train: loss.backward()"),),
        "            if pai_distributed",
    ),
    "step on a line": (
        ((_STEP, "        optimizer.zero_grad(); loss.backward(); optimizer.step()\n"),),
        "finish_initialization",
    ),
    "build on a line": (((_BUILT + _WRAPPED, "model = Net(); model = DDP(model)\n"),), "UPA.perforate_model("),
    "optimizer on a line": (((_OPTIMIZER, _OPTIMIZER[:-1] + "; steps = 0\n"),), "\nsteps = 0\n"),
    "last on a line": (
        ((_SCORE, f"{_SCORE}\n    print(acc); save(model)"),),
        "    save(model)\n    pai_distributed.report",
    ),
    "walrus score": (
        ((_SCORE, "    if (acc := evaluate(model)) > best:\n        best = acc"),),
        "report_validation_score(acc",
    ),
    "walrus batches": (
        (
            (
                "    for x, y in loader:\n",
                "    it = iter(loader)\n    while (pair := next(it, None)) is not None:\n        x, y = pair\n",
            ),
        ),
        "finish_initialization()",
    ),
    "walrus model": (((_BUILT + _WRAPPED, "model = DDP(net := Net())\n"),), "model = (net := Net())"),
    "walrus range": ((("range(10)", "range(epochs := 10)"),), "planned_epochs(range(epochs := 10))"),
    "a factory": (
        made(_BUILT + _OPTIMIZER, "model, optimizer", f"model, optimizer = build()\n{_WRAPPED}"),
        "perforate_model",
    ),
    "a factory that wraps": (
        made(_BUILT + _WRAPPED + _OPTIMIZER, "model, optimizer", "model, optimizer = build()"),
        "setup_opt",
    ),
    "a factory's dict": (
        made(
            _BUILT + _WRAPPED + _OPTIMIZER,
            "{'model': model, 'optimizer': optimizer}",
            "made = build()\nmodel, optimizer = made['model'], made['optimizer']",
        ),
        "setup_optimizer(",
    ),
    "a plain object": (_held("class Held: pass\nheld = Held()"), "report_validation_score(acc, held.model)"),
    "a namespace": (_held("held = types.SimpleNamespace()"), "report_validation_score(acc, held.model)"),
    "two names": (((_WRAPPED, "model = ddp = DDP(model)\n"),), "else:\n    model = ddp = model\n"),
    "a tuple": (((_BUILT, "model, step = Net(), 0\n"),), "UPA.perforate_model("),
    "either model": (((_BUILT, "if big:\n    model = Net(2)\nelse:\n    model = Net(1)\n"),), "UPA.perforate_model("),
    "either wrapper": (
        ((_WRAPPED, f"if gpu is not None:\n    {_WRAPPED[:-2]}, device_ids=[gpu])\nelse:\n    {_WRAPPED}"),),
        "UPA.perforate_model(",
    ),
    "either call of a builder": (
        (
            (
                _BUILT,
                "def build(n):\n    return Net(n)\n\n\nif big:\n    model = build(2)\nelse:\n    model = build(1)\n",
            ),
        ),
        "UPA.perforate_model(",
    ),
    "either object, by return": (((_BUILT + _WRAPPED, _OBJECTS),), "UPA.perforate_model("),
    "either optimizer": (
        ((_OPTIMIZER, f"if adam:\n    optimizer = torch.optim.Adam(model.parameters())\nelse:\n    {_OPTIMIZER}"),),
        "set_optimizer_instance(optimizer)",
    ),
    "match": (
        ((_BUILT, "match name:\n    case 'a':\n        model = Net(2)\n    case _:\n        model = Net(1)\n"),),
        "perforate",
    ),
    "classes in a dict": (((_BUILT, "nets = {'a': Net, 'b': Net2}\nmodel = nets[name]()\n"),), "UPA.perforate_model("),
    "optimizers in a dict": (
        (
            (
                _OPTIMIZER,
                "optimizer = {'sgd': torch.optim.SGD, 'adam': torch.optim.Adam}[name](model.parameters(), lr=0.1)\n",
            ),
        ),
        "pai_tracker.set_optimizer",
    ),
    "a build behind raise": (
        ((_BUILT, f"def old():\n    raise ValueError\n    {_BUILT}    {_WRAPPED}    {_OPTIMIZER}\n\n{_BUILT}"),),
        "UPA.perforate_model(",
    ),
    "a loop behind return": (
        (
            (
                _BUILT,
                "def old(model):\n    return\n    for epoch in range(3):\n        for x, y in loader:\n"
                f"            model(x).backward()\n            optimizer.step()\n\n\nold(None)\n{_BUILT}",
            ),
        ),
        "UPA.perforate_model(",
    ),
}


@pytest.mark.parametrize(("swaps", "expected"), SPELLINGS.values(), ids=SPELLINGS)
def test_a_script_in_other_words_is_rewritten(
    tmp_path: Path, swaps: tuple[tuple[str, str], ...], expected: str
) -> None:
    plan = plan_of(tmp_path, swapped(PLAIN, *swaps))
    assert plan.questions == []
    assert expected in rewritten(plan)
