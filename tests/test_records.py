"""What keeps the parts of a training by their names: dicts, namespaces, dataclasses, objects of own classes."""

from pathlib import Path

import pytest

from tests.helpers import plan_of, rewritten

FIELDS = "    model: object\n    optimizer: object\n    scheduler: object = None\n"
TEXT = """
import argparse
import torch
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple
from torch.nn.parallel import DistributedDataParallel as DDP

KIND

def build():
    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    return MADE

parts = build()
for epoch in range(9):
    for x, y in loader:
        GET[optimizer].zero_grad()
        GET[model](x).backward()
        GET[optimizer].step()
    measured, other = evaluate(GET[model])
    GET[scheduler].step(measured)
"""
NAMED = "(model=model, optimizer=optimizer, scheduler=scheduler)"
PLAIN = "(model, optimizer, scheduler)"


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        pytest.param("", f"SimpleNamespace{NAMED}", id="namespace"),
        pytest.param("", f"argparse.Namespace{NAMED}", id="argparse's"),
        pytest.param("", f"dict{NAMED}", id="dict"),
        pytest.param(f"@dataclass\nclass Kind:\n{FIELDS}", f"Kind{NAMED}", id="dataclass"),
        pytest.param(f"@dataclass\nclass Kind:\n{FIELDS}", f"Kind{PLAIN}", id="dataclass in its order"),
        pytest.param(f"class Kind(NamedTuple):\n{FIELDS}", f"Kind{PLAIN}", id="named tuple"),
        pytest.param(
            f"@dataclass\nclass Base:\n    model: object\n@dataclass\nclass Kind(Base):\n{FIELDS[18:]}",
            f"Kind{PLAIN}",
            id="inherited",
        ),
        pytest.param(
            "class Kind:\n    def __init__(self, model, optimizer, scheduler):\n"
            "        self.model, self.optimizer, self.scheduler = model, optimizer, scheduler\n",
            f"Kind{NAMED}",
            id="own class",
        ),
    ],
)
def test_what_steps_a_part_of_it_is_known(tmp_path: Path, kind: str, made: str) -> None:
    get = ("parts['", "']") if made.startswith("dict") else ("parts.", "")
    text = TEXT.replace("KIND", kind).replace("MADE", made)
    plan = plan_of(
        tmp_path,
        text.replace("GET[", get[0])
        .replace("].", f"{get[1]}.")
        .replace("](", f"{get[1]}(")
        .replace("])", f"{get[1]})"),
    )
    assert plan.questions == []
    assert plan.script.score is not None
    assert (plan.script.score.expression, plan.script.score.direction) == ("measured", "min")
    assert [step.per for step in plan.script.schedulers[0].steps] == ["epoch"]
    assert "scheduler.step" not in rewritten(plan)
