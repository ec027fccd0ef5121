"""Loops whose turns are steps of the model, in each of which an adversary takes some of its own first."""

from __future__ import annotations

import pytest

from tests.helpers import code, survey_of

TURNS = """
import torch

model, critic = Net(), Critic()
optimizer = torch.optim.Adam(model.parameters())
other = torch.optim.Adam(critic.parameters())


def criticise(x):
    critic(model(x)).backward()
    other.step()


def train(x):
    other.zero_grad()
    loss = critic(model(x))
    loss.backward()
    scaler.step(optimizer)
    return loss.item()


while step < 900:
    step += 1
    x = next(batches)
    for _ in range(5):
        criticise(x)
    loss = train(x)
"""
WRAPPED = "from torch.nn.parallel import DistributedDataParallel as DDP\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("", "", id="in functions"),
        pytest.param("    loss = train(x)\n", "    if step > 9:\n        loss = train(x)\n", id="under a condition"),
        pytest.param("while step < 900:\n    step += 1\n", "for turn in range(900):\n", id="counted"),
        pytest.param("\n\ndef criticise", f"{WRAPPED}model = DDP(model)\n\n\ndef criticise", id="of a wrapped model"),
        pytest.param(
            "\n\ndef criticise",
            f"{WRAPPED}model, critic = DDP(model), DDP(critic)\n\n\ndef criticise",
            id="which is wrapped, too",
        ),
    ],
)
def test_steps_of_an_adversary_make_no_epoch_of_a_turn_of_one_step(old: str, new: str) -> None:
    (loop,) = survey_of(code(TURNS.replace(old, new) if old else TURNS)).loops
    assert (loop.by_iteration, loop.by_step, len(loop.inner)) == (True, True, 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("    other.step()", "    optimizer.step()", id="steps of the same optimizer"),
        pytest.param("while step < 900:\n    step += 1\n", "for epoch in range(9):\n", id="epochs"),
        pytest.param("while step < 900:\n    step += 1\n", "for turn in range(epochs):\n", id="a number of epochs"),
        pytest.param(
            "_ in range(5):\n        criticise(x)", "x in loader:\n        criticise(x)", id="goes over batches"
        ),
        pytest.param(
            "    x = next(batches)\n    for _ in range(5):\n",
            "    for _ in range(500):\n        x = next(batches)\n",
            id="draws all batches itself",
        ),
        pytest.param("    scaler.step(optimizer)", "    scheduler.step()", id="no step beside it"),
        pytest.param(
            "\n\ndef criticise", f"{WRAPPED}critic = DDP(critic)\n\n\ndef criticise", id="steps of the wrapped model"
        ),
    ],
)
def test_loop_in_a_turn_may_be_the_epoch_s(old: str, new: str) -> None:
    assert old in TURNS
    (loop,) = survey_of(code(TURNS.replace(old, new))).loops
    assert (loop.by_iteration, loop.by_step) == (False, False)
