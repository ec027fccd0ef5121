"""Weights that other processes load into models of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import swapped
from tests.helpers import code, plan_of, survey_of

TEXT = code("""
import ray, torch
import torch.multiprocessing as mp
from torch import nn

class Net(nn.Module):
    pass

class Runner:
    def __init__(self):
        self.net = MADE

    def job(self, weights):
        self.take(weights[0])
        return rollout(self.net)

    def take(self, weights):
        self.net.load_state_dict(TAKEN)

@ray.remote
class Actor(Runner):
    pass

class Kept:
    def put(self, weights):
        self.weights = weights

def play(queue):
    net = Net()
    while True:
        net.load_state_dict(queue.get())

def main():
    net = Net()
    queue = mp.Queue()
    BEGUN
    model = nn.DataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(10):
        sent = []
        weights = net.state_dict()
        sent.append(weights)
        SENT
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        val_loss = evaluate(model)

main()
""")
ACTOR = "actor = Actor.remote()"


def sending(sent: str, begun: str = ACTOR, made: str = "Net()", taken: str = "weights") -> str:
    return swapped(TEXT, ("BEGUN", begun), ("SENT", sent), ("MADE", made), ("TAKEN", taken))


STARTED = "mp.Process(target=play, args=(queue,)).start()"


@pytest.mark.parametrize(
    ("text", "places"),
    [
        pytest.param(sending("result = actor.job.remote(sent)"), ("line 42", "line 17"), id="an actor"),
        pytest.param(sending("sent = ray.put(sent)"), ("line 42", "line 17"), id="a store"),
        pytest.param(sending("queue.put(weights)", STARTED, "Other()"), ("line 42", "line 30"), id="a queue"),
    ],
)
def test_weights_that_another_process_loads_into_a_model_of_its_own_are_asked_about(
    tmp_path: Path, text: str, places: tuple[str, str]
) -> None:
    (question,) = plan_of(tmp_path, text).questions
    assert question.message == (
        f"the layers of the model would be paired with others: {places[0]} sends its weights to another process, which "
        f"loads them into a model of its own at {places[1]}. That gets no dendrites, so they would no longer fit. Send "
        "the model itself with its dendrites, `copy.deepcopy(net).cpu()`, and let that process use what it gets."
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(sending("result = actor.job.remote(other.state_dict())"), id="another's weights"),
        pytest.param(sending("result = actor.job.remote(copy.deepcopy(net))"), id="the model"),
        pytest.param(sending("result = actor.job.remote(sent)", made="Other()"), id="into another model"),
        pytest.param(sending("actor.job(sent)"), id="nothing is sent"),
        pytest.param(sending("actor.job.remote(sent)", taken="torch.load('begun.pt')"), id="of a file"),
        pytest.param(sending("pool.submit(torch.save, weights, 'net.pt')"), id="to be saved"),
        pytest.param(sending("Kept().put(weights)"), id="to an object of its own"),
    ],
)
def test_other_weights_are_not(text: str) -> None:
    assert survey_of(text.replace("net.load_state_dict(queue.get())", "pass")).unmatched == ""
