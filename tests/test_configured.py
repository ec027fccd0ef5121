"""What is made of the class that a file of settings names, as hydra makes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from retrofit.configured import Target, read_settings
from retrofit.options import Options
from retrofit.plan import Plan, make_plan
from tests.helpers import code, recipe

AGENT = """
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel

class Agent:
    def __init__(self, width, lr):
        self.model = DistributedDataParallel(nn.Linear(8, width))
        self.optimizer = optim.Adam(self.model.parameters(), lr=lr)

    def update(self, x, y):
        self.optimizer.zero_grad()
        nn.functional.mse_loss(self.model(x), y).backward()
        self.optimizer.step()
"""
MAIN = """
import hydra
import torch

@hydra.main(config_path="conf", config_name="train")
def main(cfg):
    agent = MADE
    for epoch in range(cfg.epochs):
        agent.update(torch.randn(4, 8), torch.randn(4, 1))
        val_loss = agent.evaluate()

main()
"""
CONFIG = """
epochs: 10  # of training
agent:
  _target_: agent.Agent
  width: 16
  lr: 0.01
"""
OTHER = CONFIG.replace("agent.Agent", "other.Agent")
FILES = {"agent.py": AGENT, "other.py": AGENT, "conf/train.yaml": CONFIG}
KEYED, UNKEYED = "hydra.utils.instantiate(cfg.agent)", "hydra.utils.instantiate(cfg)"

Planner = Callable[..., Plan]

#: Of a group of files one is taken by default, and another by what is taken beside it.
ANOTHER = "defaults:\n- override /agent: two\n"
GROUP = {"conf/agent/one.yaml": "_target_: agent.Agent\n", "conf/agent/two.yaml": "_target_: other.Agent\n"}


@pytest.fixture
def plan(tmp_path: Path) -> Planner:
    """Return a function that plans an apply on a script that makes what trains by an expression."""

    def make(made: str, files: dict[str, str]) -> Plan:
        for name, text in {".git/x": "", "main.py": MAIN.replace("MADE", made), **files}.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(code(text) if name.endswith(".py") else text)
        options = Options(metric="val_loss", mode="min")
        return make_plan(tmp_path / "main.py", "main.py", recipe(), options)

    return make


def told_of(plan: Plan) -> list[tuple[str, int]]:
    return [(one.code, one.line) for one in plan.questions]


@pytest.mark.parametrize(
    ("made", "further"),
    [
        (KEYED, {}),
        ("hydra.utils.instantiate(cfg['agent'], lr=0.1)", {}),
        (KEYED, {"conf/test.yaml": OTHER}),  # of which the script reads none
        (KEYED, {"conf/train.yaml": "what: agent.Agent\nagent:\n  _target_: ${what}\n"}),
        (KEYED, {"conf/train.yaml": "epochs: 9\n", "conf/agent/one.yaml": "_target_: agent.Agent\nwidth: 16\n"}),
        (KEYED, {"conf/train.yaml": f"{CONFIG}test:\n  _target_: other.Agent\n"}),  # under another key
        (UNKEYED, {}),
        (KEYED, {"conf/train.yaml": "defaults:\n  - _self_\n  - agent: one\n\nepochs: 9\n", **GROUP}),
        (KEYED, {"conf/train.yaml": "epochs: 9\ndefaults:\n- override /of/agent@agent: one  # of two\n", **GROUP}),
        (KEYED, {"conf/train.yaml": "defaults:\n- optional agent: 'one.yaml'\n", **GROUP}),
        (KEYED, {"conf/train.yaml": "defaults:\n- base\n", "conf/base.yaml": "defaults:\n- agent: one\n", **GROUP}),
    ],
)
def test_what_trains_is_the_class_that_the_settings_name(plan: Planner, made: str, further: dict[str, str]) -> None:
    found = plan(made, {**FILES, **further})
    assert not found.questions
    assert {one.path.name for one in found.files} >= {"main.py", "agent.py"}


@pytest.mark.parametrize(
    ("made", "further"),
    [
        (KEYED, {"conf/train.yaml": "epochs: 9\n"}),
        (KEYED, {"conf/train.yaml": "epochs: 9\n", "conf/a.yaml": CONFIG, "conf/b.yaml": OTHER}),
        (KEYED, {"conf/train.yaml": "defaults:\n  - _self_\n\nepochs: 9\n", **GROUP}),
        (KEYED, {"conf/train.yaml": "defaults:\n- agent: one\n- of: first\n", "conf/of/first.yaml": ANOTHER, **GROUP}),
        (KEYED, {"conf/train.yaml": "epochs: 9\n", "conf/other.yaml": "defaults:\n  - agent: one\n", **GROUP}),
        (KEYED, {"conf/train.yaml": CONFIG.replace("agent:", "test:")}),
        (KEYED, {"conf/train.yaml": f"{CONFIG}  _partial_: true\n"}),  # nothing is made
        (UNKEYED, {"conf/train.yaml": f"{CONFIG}test:\n  _target_: other.Agent\n"}),
    ],
)
def test_which_class_it_is_is_asked_where_settings_do_not_tell(
    plan: Planner, made: str, further: dict[str, str]
) -> None:
    assert told_of(plan(made, {**FILES, **further})) == [
        ("PAI101", code(MAIN).splitlines().index("    agent = MADE") + 1)
    ]


def test_nothing_is_asked_of_what_a_library_makes(plan: Planner) -> None:
    found = plan(KEYED, {"conf/train.yaml": "agent:\n  _target_: torch.nn.Linear\n"})
    assert told_of(found)[0] == ("PAI101", 1)


def test_targets_are_read_with_their_keys(tmp_path: Path) -> None:
    text = """
here: pkg.There  # used below
net:
  parts:
    _target_: "pkg.Part"
    size: 3
  _target_: pkg.Net
optimizer:
  _partial_: true
  _target_: pkg.Adam
last:
  _target_: ${here}
unknown:
  _target_: ${oc.env:NET}
off: False
size: 4
size_of: {a: 1}
words: two words  # and more
quoted: "off"
"""
    (tmp_path / "train.yaml").write_text(text)
    (tmp_path / "other.txt").write_text("_target_: pkg.Other\n")
    assert read_settings(tmp_path).targets == [
        Target("train", "parts", "pkg.Part"),
        Target("train", "net", "pkg.Net"),
        Target("train", "last", "pkg.There"),
        Target("train", "unknown", "${oc.env:NET}"),
    ]
    values = read_settings(tmp_path).values
    plain = {key: [value for _, value in given or ()] for key, given in values.items()}
    assert plain["size"] == [3, 4]
    assert (plain["off"], plain["quoted"], plain["words"]) == ([False], ["off"], ["two words"])
    assert values["a"] is None
    assert values["size_of"] is values["net"] is None


@pytest.mark.parametrize(
    ("files", "by_option"),
    [
        ({"conf/train.yaml": "epochs: 9\nfp16: False  # with apex\n"}, True),
        ({"conf/train.yaml": "epochs: 9\ntrain:\n  fp16: no\n"}, True),
        ({"conf/train.yaml": "fp16: True\n"}, False),
        ({"conf/train.yaml": "fp16: False\n", "conf/large/more.yaml": "fp16: true\n"}, False),
        ({"conf/train.yaml": "fp16: ${half}\nhalf: False\n"}, False),
        ({"conf/train.yaml": "fp16: False\n", "agent.py": "self.fp16"}, False),
        ({"conf/train.yaml": "epochs: 9\n"}, False),
        ({"conf/train.yaml": "fp16: False\n", "conf/large/more.yaml": "train: {fp16: true}\n"}, False),
        ({"conf/train.yaml": "fp16: False\n", "conf/large/more.yaml": 'train: {"fp16":true}\n'}, False),
        ({"conf/train.yaml": "fp16: False\n", "agent.py": "cfg.fp16 = True"}, False),
        ({"conf/train.yaml": "fp16: False\n", "agent.py": "merge(cfg, 'train.fp16=true')"}, False),
        ({"conf/train.yaml": "fp16: False\n", "agent.py": "OmegaConf.update(cfg, 'train.fp16', True)"}, False),
        ({"conf/train.yaml": "fp16: False\n", "agent.py": "merge(['train.fp16=true'])"}, False),
        ({"conf/train.yaml": "fp16: False\n", "agent.py": "merge(f'train.fp16={chosen}')"}, False),
        ({"conf/train.yaml": "fp16: False\n", "agent.py": "merge(cfg, {'fp16': True})"}, False),
        ({"conf/train.yaml": "fp16: False\n", "agent.py": "cfg.train['fp16'] = True"}, False),
        ({"conf/train.yaml": "fp16: False\n", "agent.py": "cfg.train.update(fp16=True)"}, False),
        ({"conf/train.yaml": "fp16: False\n", "agent.py": "print('=> no training in fp16', 'with fp16:')"}, True),
        (
            {"conf/train.yaml": "fp16: False\n", "agent.py": "print(f'fp16={cfg.fp16}', 'fp16={}'.format(cfg.fp16))"},
            True,
        ),
        ({"conf/train.yaml": "fp16: False\n", "agent.py": "save({'fp16': cfg.train.fp16}, dict(fp16=cfg.fp16))"}, True),
        ({"conf/train.yaml": "fp16: False\n", "agent.py": "'Usage: train.py train.fp16=true'"}, True),
        ({"conf/train.yaml": "fp16: False\n", "agent.py": "class Machine: fp16 = True\nMACHINE = Machine()"}, False),
    ],
)
def test_library_counts_by_what_the_settings_say_of_its_option(
    plan: Planner, files: dict[str, str], by_option: bool
) -> None:
    made = "self.optimizer = optim.Adam(self.model.parameters(), lr=lr)"
    apex = "self.model, self.optimizer = amp.initialize(self.model, self.optimizer)"
    agent = AGENT.replace("width, lr", "cfg").replace(", width", ", 4").replace("lr=lr", "lr=0.1")
    made = made.replace("lr=lr", "lr=0.1")
    more = files.get("agent.py", "")
    asked = "self.fp16" if more == "self.fp16" else "cfg.fp16"
    agent = agent.replace(made, f"{made}\n        if {asked}:\n            from apex import amp\n            {apex}")
    main = MAIN.replace("import torch\n", "import torch\nfrom agent import Agent\n").replace("MADE", "Agent(cfg)")
    found = plan("", {**files, "agent.py": f"{agent}\n{more if asked.startswith('cfg') else ''}\n", "main.py": main})
    assert ("PAI100" in [one.code for one in found.notes], told_of(found) == []) == (by_option, by_option)


NUMBERED_MAIN = """
import os
import hydra
import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

class Trainer:
    def __init__(self, model, local_rank):
        self.local_rank = local_rank
        self.model = model

def begin(cfg):
    if cfg.local_rank != -1:
        torch.distributed.init_process_group("nccl")

def wrap(model, number):
    if number != -1:
        model = DistributedDataParallel(model)
    else:
        model = DataParallel(model)
    return model

@hydra.main(config_path="conf", config_name="train")
def main(cfg):
    begin(cfg)
    model = wrap(nn.Linear(8, 1), cfg.local_rank)
    trainer = Trainer(model, cfg.local_rank)
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(cfg.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        val_loss = evaluate(model)

main()
"""
HELD = NUMBERED_MAIN.replace("local_rank):\n        self.local_rank = local_rank", "cfg):\n        self.local_rank = X")
HELD = HELD.replace("X", "cfg.local_rank").replace("Trainer(model, cfg.local_rank)", "Trainer(model, cfg)")
FLAGGED = NUMBERED_MAIN.replace("begin(cfg)\n    model", "begin(cfg)\n    several = cfg.local_rank != -1\n    model")
FLAGGED = FLAGGED.replace("number != -1", "number").replace("1), cfg.local_rank", "1), several")
NUMBERS = {"conf/train.yaml": "epochs: 9\nlocal_rank: -1\n"}
#: As launchers gave it, which torch 2's spell otherwise.
OPTION_MAIN = NUMBERED_MAIN.replace("import os\n", "import os\nimport argparse\nparser = argparse.ArgumentParser()\n")
OPTION_MAIN = OPTION_MAIN.replace(
    "()\nimport h", "()\nparser.add_argument('--local_rank', type=int, default=-1)\nimport h"
)


@pytest.mark.parametrize(
    ("main", "files", "launcher", "asked"),
    [
        pytest.param(NUMBERED_MAIN, NUMBERS, "", True, id="of the settings alone"),
        pytest.param(HELD, NUMBERS, "", True, id="told further to an object"),
        pytest.param(FLAGGED, NUMBERS, "", True, id="by a flag"),
        pytest.param(NUMBERED_MAIN, NUMBERS, "python", False, id="for one process"),
        pytest.param(
            NUMBERED_MAIN, {"conf/train.yaml": "local_rank: ${oc.env:LOCAL_RANK}\n"}, "", False, id="of the environment"
        ),
        pytest.param(
            NUMBERED_MAIN.replace("    begin(cfg)", "    cfg.local_rank = int(os.environ.get('LOCAL_RANK', -1))"),
            NUMBERS,
            "",
            False,
            id="given by code",
        ),
        pytest.param(NUMBERED_MAIN.replace("number != -1", "cfg.several"), NUMBERS, "", False, id="for messages"),
        pytest.param(NUMBERED_MAIN, {"conf/train.yaml": "epochs: 9\n"}, "", False, id="not there"),
        pytest.param(NUMBERED_MAIN, {"conf/train.yaml": "local_rank: 0\n"}, "", False, id="the first's"),
        pytest.param(OPTION_MAIN, NUMBERS, "", False, id="an option too"),
    ],
)
def test_process_number_of_the_settings_is_asked_about(
    tmp_path: Path, main: str, files: dict[str, str], launcher: str, asked: bool
) -> None:
    for name, text in {".git/x": "", "main.py": code(main), **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    given = Options(metric="val_loss", mode="min", launcher=launcher)
    found = make_plan(tmp_path / "main.py", "main.py", recipe(), given)
    told = [one for one in found.questions if one.code == "PAI115"]
    line = next(n for n, text in enumerate(code(main).splitlines(), 1) if "1), " in text or "several = " in text)
    assert [one.line for one in told] == [line] * asked
    assert all('`cfg.local_rank = int(os.environ.get("LOCAL_RANK", -1))`' in one.message for one in told)
