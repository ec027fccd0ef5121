"""Tests of options that are off, and lead to what no rewriting covers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import code, plan_of, rewritten, script

PARSER = """
import argparse
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
parser = argparse.ArgumentParser()
parser.add_argument("--on", default=True)
parser.add_argument("--off", action="store_true")
args = parser.parse_args()
"""
MOMENTUM = """
class Momentum(torch.nn.Module):
    def __init__(self, net, slow):
        super().__init__()
        self.net, self.slow = net, slow
        self.slow.requires_grad_(False)

    def forward(self, x):
        self.follow()
        return self.net(x)

    def follow(self):
        for a, b in zip(self.net.parameters(), self.slow.parameters()):
            b.data = b.data * 0.9 + a.data * 0.1
"""
#: A score that is found, so that nothing else is asked.
SCORE = "acc = validate(model)\nprint(acc)"


def _text(built: str = "", wrapped: str = "", head: str = "") -> str:
    text = script(epoch=SCORE).replace("model = Net()\n", f"{head}\nmodel = Net()\n{built}\n")
    text = text.replace("optimizer =", f"{wrapped}\noptimizer =", 1)
    return f"{text.partition('import torch')[0]}import torch\n{code(PARSER)}{text.partition('import torch')[2]}"


@pytest.mark.parametrize(
    ("built", "wrapped", "why"),
    [
        pytest.param("", "if args.off:\n    kind = 1\n    model = FSDP(model)", "FSDP is used", id="sharded"),
        pytest.param(
            "", "if args.on:\n    kind = 1\nelse:\n    kind = 2\n    model = FSDP(model)", "FSDP is used", id="else"
        ),
        pytest.param(
            "",
            "if args.on:\n    pass\nelif rank:\n    kind = 2\n    model = FSDP(model)",
            "FSDP is used",
            id="elif",
        ),
        pytest.param(
            "if args.off:\n    slow = Net()\n    model = Momentum(model, slow)", "", "are paired", id="momentum model"
        ),
        pytest.param("", "if args.off:\n    ref = Net()\n    ref.load_state_dict(model.state_dict())", "", id="a copy"),
        pytest.param(
            "",
            "ref = Other()\nif args.off:\n    kind = 1\n    ref.load_state_dict(model.module.state_dict())",
            "are paired",
            id="loaded into another",
        ),
    ],
)
def test_a_run_that_takes_an_option_that_is_off_leaves(tmp_path: Path, built: str, wrapped: str, why: str) -> None:
    plan = plan_of(tmp_path, _text(built, wrapped, code(MOMENTUM)))
    assert plan.questions == []
    notes = [note.message for note in plan.notes if note.code == "PAI121"]
    assert [why in note for note in notes] == ([True] if why else [])
    lines = [line.strip() for line in rewritten(plan).splitlines()]
    stops = [number for number, line in enumerate(lines) if line.startswith("raise SystemExit(")]
    assert [lines[number + 1].split()[0] for number in stops] == (
        [(built or wrapped).split(":\n")[-1].split()[0]] if why else []
    )


@pytest.mark.parametrize(
    ("option", "test", "off"),
    [
        pytest.param("'--kind', required=True", "args.kind == 'fsdp'", False, id="required"),
        pytest.param("'--kind', required=must", "args.kind", False, id="perhaps required"),
        pytest.param("'--kind', required=True, default=''", "args.kind", False, id="a default that is never used"),
        pytest.param("'--kind', type=int, required=True", "args.kind is not None", False, id="a number"),
        pytest.param("'--kind', choices=['fsdp', 'ddp'], required=True", "args.kind == 'fsdp'", False, id="a choice"),
        pytest.param("'kind'", "args.kind == 'fsdp'", False, id="by its place"),
        pytest.param("'--kind', required=False", "args.kind == 'fsdp'", True, id="not required"),
        pytest.param("'kind', nargs='?', default='ddp'", "args.kind == 'fsdp'", True, id="perhaps by its place"),
        pytest.param("'--kind', choices=['a', 'ddp'], required=True", "args.kind == 'fsdp'", True, id="no choice"),
    ],
)
def test_an_option_that_must_be_given_is_not_off(tmp_path: Path, option: str, test: str, off: bool) -> None:
    text = _text("", f"if {test}:\n    kind = 1\n    model = FSDP(model)")
    plan = plan_of(tmp_path, text.replace('"--on", default=True', option))
    assert (plan.questions == [], any(note.code == "PAI121" for note in plan.notes)) == (off, off)


@pytest.mark.parametrize("required", [True, False])
def test_one_of_a_group_that_must_be_given_is_not_off(tmp_path: Path, required: bool) -> None:
    text = _text("", "if args.off:\n    kind = 1\n    model = FSDP(model)")
    group = f"group = parser.add_mutually_exclusive_group(required={required})\ngroup.add_argument"
    plan = plan_of(tmp_path, text.replace('parser.add_argument("--off"', f'{group}("--off"'))
    assert (plan.questions == []) is not required


@pytest.mark.parametrize(
    ("built", "wrapped", "question"),
    [
        pytest.param("", "if args.on:\n    model = FSDP(model)", "PAI102", id="on by default"),
        pytest.param("", "if config.more:\n    model = FSDP(model)", "PAI102", id="not known"),
        pytest.param("", "model = FSDP(model) if args.off else model", "PAI102", id="within an expression"),
        pytest.param(
            "if args.on:\n    model = Momentum(model, Net())", "", "PAI102", id="momentum model, on by default"
        ),
        pytest.param(
            "model = Momentum(model, Net())\nif args.off:\n    Momentum(model, Net())", "", "PAI102", id="always"
        ),
    ],
)
def test_an_option_that_may_be_on_is_a_question(tmp_path: Path, built: str, wrapped: str, question: str) -> None:
    plan = plan_of(tmp_path, _text(built, wrapped, code(MOMENTUM)))
    assert {problem.code for problem in plan.questions} == {question}


@pytest.mark.parametrize(
    ("wrapped", "option"),
    [
        pytest.param("if args.off:\n    model = FSDP(model)", "args.off", id="if"),
        pytest.param("if args.on:\n    kind = 1\nelse:\n    model = FSDP(model)", "not args.on", id="else"),
        pytest.param(
            "if args.number == 0:\n    kind = 1\nelse:\n    model = FSDP(model)",
            "not (args.number == 0)",
            id="else of more",
        ),
        pytest.param(
            "if args.off:\n    sharded = FSDP(model)\n    if args.on:\n        model = FSDP(model)\n    else:\n"
            "        model = FSDP(model, 2)",
            "args.off",
            id="the outer one leaves for all in it",
        ),
    ],
)
def test_the_note_says_where_it_leaves(tmp_path: Path, wrapped: str, option: str) -> None:
    number = "parser.add_argument('--number', type=int, default=0)\nargs = parser"
    plan = plan_of(tmp_path, _text(wrapped=wrapped).replace("args = parser", number))
    (note,) = [note.message for note in plan.notes if note.code == "PAI121"]
    assert note.startswith(f"where `{option}` leads, the script leaves with a message now")
    assert rewritten(plan).count("raise SystemExit(") == 1


TRAINER = """
    import argparse
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP

    class Trainer:
        def __init__(self, loader, sweep=SWEEP):
            self.sweep = sweep
            self.build()

        def build(self):
            self.model = Net()
            self.model = DDP(self.model)
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

        def train(self, loader):
            if self.sweep:
                loader = more()
                self.build()
            best = 0
            for epoch in range(9):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    loss = criterion(self.model(x), y)
                    loss.backward()
                    self.optimizer.step()
                acc = validate(self.model)
                best = max(best, acc)

    parser = argparse.ArgumentParser()
    parser.add_argument("--sweep")
    args = parser.parse_args()
    trainer = Trainer(loaderGIVEN)
    trainer.train(loader)
    """


@pytest.mark.parametrize(
    ("default", "given", "leaves"),
    [
        pytest.param("None", ", args.sweep", True, id="an option"),
        pytest.param("None", ", sweep=args.sweep", True, id="by name"),
        pytest.param("None", "", True, id="the default"),
        pytest.param("'all'", "", False, id="a default that is on"),
        pytest.param("None", ", sweep_of(1)", False, id="what nothing tells"),
        pytest.param("None", ", *args.sweep", False, id="in a list"),
    ],
)
def test_a_model_that_an_option_builds_once_more_is_told_of_there(
    tmp_path: Path, default: str, given: str, leaves: bool
) -> None:
    plan = plan_of(tmp_path, code(TRAINER.replace("SWEEP", default).replace("GIVEN", given)))
    assert [one.code for one in plan.questions] == ([] if leaves else ["PAI102"])
    left = '        if self.sweep:\n            raise SystemExit("this option does not go with dendrites: the model is'
    assert not leaves or left in rewritten(plan)


@pytest.mark.parametrize(
    ("wrapped", "body", "refused"),
    [
        pytest.param("if args.modes:\n    model = DDP(model)\n    model = FSDP(model)", "", True, id="further"),
        pytest.param("if args.modes:\n    model = FSDP(DDP(model))", "", True, id="around it"),
        pytest.param("if args.modes:\n    model = wrap(model)", "net = FSDP(DDP(net))", True, id="in a function"),
        pytest.param("if args.modes:\n    model = FSDP(model)\nelse:\n    model = DDP(model)", "", False, id="instead"),
        pytest.param("model = DDP(model)\nif args.modes:\n    model = FSDP(model)", "", False, id="by its own option"),
    ],
)
def test_what_every_wrapper_goes_with_is_no_option(tmp_path: Path, wrapped: str, body: str, refused: bool) -> None:
    """Without that option nothing would train on several processes: no way is left that is covered."""
    head = f"def wrap(net):\n    {body or 'pass'}\n    return net\n"
    text = _text(wrapped="WRAPPED", head=head).replace("model = DDP(model)\nWRAPPED", wrapped)
    text = text.replace("args = parser", "parser.add_argument('--modes', type=int)\nargs = parser", 1)
    questions = plan_of(tmp_path, text).questions
    assert any("FSDP is used here, which the recipe does not cover" in one.message for one in questions) is refused


WITHIN = """
    import argparse
    import torch
    from torch import nn
    from apex import amp
    from apex.fp16_utils import FP16_Optimizer

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 2)

        def forward(self, x):
            return self.layer(x)

    MOMENTUM

    def main(args):
        best = 0
        if args.train:
            model = Net()
            BUILT
            model = nn.DataParallel(model)
            optimizer = torch.optim.Adam(model.parameters())
            for epoch in range(9):
                for x, y in loader:
                    optimizer.zero_grad()
                    criterion(model(x), y).backward()
                    optimizer.step()
                acc = validate(model)
                if acc > best:
                    best = acc
                    torch.save(model.state_dict(), "best.pt")

    parser = argparse.ArgumentParser()
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--off", action="store_true")
    parser.add_argument("--on", default=True)
    main(parser.parse_args())
    """
#: What is built under an option, and what is asked, where not only the option, off by default, keeps from it.
BUILT = {
    "off": ("if args.off:\n    optimizer = FP16_Optimizer(optimizer)", ["PAI121"], []),
    "on": ("if args.on:\n    optimizer = FP16_Optimizer(optimizer)", ["PAI100"], []),
    "always": ("optimizer = FP16_Optimizer(optimizer)", [], ["PAI100"]),
    "that may be left out": ("if args.off:\n    model = amp.initialize(model)", ["PAI100"], []),
    "on, that may be left out": ("if args.on:\n    model = amp.initialize(model)", [], ["PAI100"]),
    "paired, off": ("if args.off:\n    model = Momentum(model, Net())", ["PAI121"], []),
    "paired": ("model = Momentum(model, Net())", [], ["PAI102"]),
}


@pytest.mark.parametrize(("built", "noted", "asked"), BUILT.values(), ids=BUILT)
@pytest.mark.parametrize("train", ["args.train", "args.train and args.data"])
def test_the_option_that_leads_to_the_training_keeps_from_nothing_else(
    tmp_path: Path, train: str, built: str, noted: list[str], asked: list[str]
) -> None:
    """A run that trains at all was given it; what stands under it as well is reached by that run."""
    text = code(WITHIN).replace("MOMENTUM", code(MOMENTUM)).replace("if args.train:", f"if {train}:")
    text = text.replace("        BUILT", "\n".join(f"        {line}" for line in built.splitlines()))
    plan = plan_of(tmp_path, text)
    assert [problem.code for problem in plan.questions] == asked
    assert [note.code for note in plan.notes if note.code in ("PAI100", "PAI121")] == noted
    assert all("args.train" not in note.message for note in plan.notes)
