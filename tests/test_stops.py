"""Where some ranks alone would leave the epoch loop, all end the training together; elsewhere a loop's ends stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrofit.options import Options
from retrofit.plan import Plan
from tests.helpers import plan_of, rewritten, script, survey_of

BEGUN = """\
import torch.distributed as dist
class Stopper:
    def __init__(self):
        self.over = False
    def __call__(self, acc):
        self.over = acc > 0.9
rank, best, waited, stopper, stop = dist.get_rank(), 0, 0, Stopper(), False
"""
SCORE = "acc = evaluate(model)\nif acc > best:\n    best = acc\n"


@pytest.mark.parametrize(
    "ended",
    [
        pytest.param("if early and rank == 0 and stops(acc):\n    break", id="at once"),
        pytest.param("if rank == 0:\n    if acc > 0.9:\n        print(acc)\n        break", id="around"),
        pytest.param("if rank != 0:\n    continue\nif acc > 0.9:\n    break", id="held back"),
        pytest.param("stop = False\nif rank == 0:\n    stop = acc > 0.9\nif stop:\n    break", id="by a name"),
        pytest.param("if rank == 0:\n    waited += 1\ndone = waited > 3\nif done:\n    break", id="by a counter"),
        pytest.param("if rank == 0:\n    stopper(acc)\nif stopper.over:\n    break", id="by an object"),
        pytest.param(
            "if rank == 0:\n    if acc > kept:\n        kept, waited = acc, 0\n    else:\n        waited += 1\n"
            "if waited > 3:\n    break",
            id="by a patience",
        ),
    ],
)
def test_a_break_of_some_ranks_is_made_one_of_all(tmp_path: Path, ended: str) -> None:
    text = script(SCORE + ended, BEGUN)
    (loop,) = survey_of(text).loops
    assert ([stop.code for stop in loop.stops], loop.ends) == (["break"], [])
    plan = plan_of(tmp_path, text)
    assert plan.questions == []
    after = rewritten(plan)
    assert "    pai_distributed.stop_training()\n" in after
    assert "end_of_training" not in after


@pytest.mark.parametrize("left", ["return", "sys.exit()"])
def test_what_else_ends_the_training_of_some_ranks_is_told(tmp_path: Path, left: str) -> None:
    loop = script(SCORE + f"if rank == 0 and acc > 0.9:\n    {left}", "rank = dist.get_rank()\nbest = 0")
    begun, _, rest = loop.partition("model = Net()")
    text = begun + "import sys\nimport torch.distributed as dist\n\ndef main():\n"
    text += "".join(f"    {line}\n" if line else "\n" for line in f"model = Net(){rest}".splitlines()) + "\nmain()\n"
    notes = [note for note in plan_of(tmp_path, text).notes if note.code == "PAI027"]
    (line,) = [number for number, one in enumerate(text.splitlines(), 1) if one.strip() == left]
    assert [note.line for note in notes] == [line]
    assert f"`{left}` may end the training on some ranks only" in notes[0].message


@pytest.mark.parametrize(
    "ended",
    [
        "if acc > 0.9:\n    break",
        "if rank == 0:\n    print(acc)\nif epoch > 5:\n    break",
        "if rank == 0:\n    kept = max(acc, best)\nif acc < 0.1:\n    waited += 1\nif waited > 3:\n    break",
        "if rank == 0:\n    stop = acc > 0.9\nflags = [stop]\ndist.broadcast_object_list(flags)\nstop = flags[0]\n"
        "if stop:\n    break",
        "flag = torch.zeros(1)\nif rank == 0:\n    flag += 1\ndist.broadcast(flag, 0)\nif flag > 0:\n    break",
        "stopper(acc)\nif stopper.over:\n    break",
        "for x in loader:\n    if rank == 0:\n        break",
    ],
)
def test_an_end_of_all_ranks_stays(tmp_path: Path, ended: str) -> None:
    text = script(SCORE + ended, BEGUN)
    (loop,) = survey_of(text).loops
    assert loop.stops == []
    assert "stop_training" not in rewritten(plan_of(tmp_path, text))


#: A training that hands its score over among its batches, as it does when it is measured.
AMONG_BATCHES = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

class Stopper:
    def __init__(self):
        self.over, self.best = False, 0
    def __call__(self, acc):
        self.over = acc < self.best

stopper, step, best, bad, stop, rank = Stopper(), 0, 0, 0, False, dist.get_rank()
model = DDP(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while step < 900:
    for x in loader:
        HEAD
        model(x).mean().backward()
        optimizer.step()
        step += 1
        if rank == 0 and step % 10 == 0:
            acc = evaluate(model)
            if acc > best:
                best = acc
            MEASURED
    EPOCH
"""


def among_batches(measured: str, epoch: str, head: str = "pass") -> str:
    """Return such a training with statements where it has measured, at the end of an epoch and before a batch."""
    parts = (("MEASURED", measured, 12), ("EPOCH", epoch, 4), ("HEAD", head, 8))
    text = AMONG_BATCHES
    for word, one, depth in parts:
        text = text.replace(word, one.replace("\n", "\n" + " " * depth))
    return text


@pytest.mark.parametrize(
    ("measured", "epoch", "head"),
    [
        pytest.param("stopper(acc)\nif stopper.over:\n    break", "if stopper.over:\n    break", "pass", id="object"),
        pytest.param("if acc < best:\n    stop = True\n    break", "if stop:\n    break", "pass", id="name"),
        pytest.param("stopper(acc)", "if stopper.over:\n    break", "if stopper.over:\n    break", id="next"),
    ],
)
def test_a_break_by_way_of_the_batches_does_not_leave_the_hand_over_out(
    tmp_path: Path, measured: str, epoch: str, head: str
) -> None:
    plan = plan_of(tmp_path, among_batches(measured, epoch, head))
    assert plan.questions == []
    assert [note for note in plan.notes if note.code == "PAI027"] == []
    after = rewritten(plan)
    assert after.count("pai_distributed.stop_training()\n") == 2
    assert "break\n" not in after


@pytest.mark.parametrize("ended", ["x is None", "step >= 800"])
def test_a_break_of_all_ranks_stays_that_ends_the_training_by_the_same_name(tmp_path: Path, ended: str) -> None:
    """What is behind it has nothing to go on with: it waits for no hand-over."""
    head = f"if {ended}:\n    stop = True\n    break"
    text = among_batches("if acc < best:\n    stop = True\n    break", "if stop:\n    break", head)
    after = rewritten(plan_of(tmp_path, text))
    assert after.count("pai_distributed.stop_training()\n") == 2
    assert f"        if {ended}:\n            stop = True\n            break\n" in after


@pytest.mark.parametrize(
    ("measured", "epoch", "head", "told"),
    [
        pytest.param("if acc < best:\n    break", "pass", "pass", True, id="of the batches alone"),
        pytest.param(
            "stop = acc < best\nif step == 40:\n    break", "if stop and step > 9:\n    break", "pass", True, id="apart"
        ),
        pytest.param("stopper(acc)", "pass", "if step == 900:\n    break", False, id="of all ranks"),
        pytest.param("for _ in some:\n    break", "pass", "pass", False, id="of another loop"),
    ],
)
def test_a_break_of_the_batches_alone_stays_and_is_told_where_some_ranks_come_to_no_hand_over(
    tmp_path: Path, measured: str, epoch: str, head: str, told: bool
) -> None:
    text = among_batches(measured, epoch, head)
    plan = plan_of(tmp_path, text)
    assert rewritten(plan).count("stop_training") == (epoch != "pass")
    notes = [note for note in plan.notes if note.code == "PAI027"]
    lines = [number for number, one in enumerate(text.splitlines(), 1) if one == " " * 16 + "break"]
    assert [note.line for note in notes] == (lines if told else [])
    assert all("before they hand the score over" in note.message for note in notes)


#: Epochs that a generator yields, each with its score, and what goes through them.
YIELDED = """
import torch

def epochs(model, optimizer):
    for epoch in range(9):
        for x in loader:
            model(x).mean().backward()
            optimizer.step()
        acc = evaluate(model)
        GIVEN

model = torch.nn.DataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best = 0
for acc in epochs(model, optimizer):
    if acc > best:
        best = acc
    END
print(best)
"""


def planned_by_turns(folder: Path, end: str, given: str = "yield acc") -> Plan:
    """Return what becomes of such a script, with another end of a turn."""
    text = YIELDED.replace("GIVEN", given).replace("END", end.replace("\n", "\n    "))
    return plan_of(folder, text, Options(metric="acc", mode="max"))


def test_a_turn_that_ends_what_goes_through_the_epochs_still_hands_its_score_over(tmp_path: Path) -> None:
    after = rewritten(planned_by_turns(tmp_path, "if acc > 0.9:\n    break"))
    assert "    if acc > 0.9:\n        pai_distributed.stop_training()\nprint(best)" in after
    assert after.index("yield acc") < after.index("report_validation_score(")


@pytest.mark.parametrize("end", ["if acc > 0.9:\n    break\nprint(acc)", "if acc > 0.9:\n    exit()"])
def test_what_else_ends_it_is_told(tmp_path: Path, end: str) -> None:
    plan = planned_by_turns(tmp_path, end)
    assert "stop_training" not in rewritten(plan)
    [note] = [note for note in plan.notes if note.code == "PAI027"]
    assert "leaves before the score of this turn is handed over (line 10)" in note.message


@pytest.mark.parametrize(
    ("end", "given"),
    [
        pytest.param("print(acc)", "yield acc", id="nothing ends it"),
        pytest.param("for x in some:\n    break", "yield acc", id="another loop ends"),
        pytest.param("if acc > 0.9:\n    break", "found.append(acc)\n    return found", id="nothing is yielded"),
    ],
)
def test_what_ends_no_turns_of_the_epochs_stays(tmp_path: Path, end: str, given: str) -> None:
    plan = planned_by_turns(tmp_path, end, given)
    assert "stop_training" not in rewritten(plan)
    assert [note for note in plan.notes if note.code == "PAI027"] == []


STOPPED = """\
import signal, sys, threading
import torch.distributed as dist
stopped, told, seen, asked, best = False, threading.Event(), {"now": False}, None, 0
class Watch:
    def __init__(self):
        self.over = self.late = False
        signal.signal(signal.SIGTERM, self.take)
    def take(self, number, frame):
        self.end()
    def end(self):
        self.over = True
def take(number, frame):
    global stopped, asked
    stopped, asked = True, number
    told.set()
    seen["now"] = True
def is_over():
    return stopped
signal.signal(signal.SIGUSR1, handler=take)
rung = False
def ring(number, frame):
    global rung
    rung = True
signal.signal(signal.SIGALRM, ring)
signal.alarm(3600)
watch = Watch()
"""


@pytest.mark.parametrize(
    ("ended", "last"),
    [
        pytest.param("if stopped:\n    break\nprint(acc)", "break", id="a name"),
        pytest.param("if stopped and acc:\n    print(acc)\n    sys.exit(0)", "sys.exit(0)", id="and more"),
        pytest.param("if asked is not None or told.is_set():\n    break", "break", id="either of two"),
        pytest.param("if seen['now']:\n    break", "break", id="an item"),
        pytest.param("if watch.over:\n    break\nprint(acc)", "break", id="an object"),
        pytest.param("if is_over():\n    break", "break", id="a function"),
        pytest.param(
            "over = torch.tensor(float(stopped))\ndist.all_reduce(over)\nif over.item() > 0:\n    break",
            "break",
            id="of all ranks",
        ),
        pytest.param("if dist.get_rank() == 0 and stopped:\n    break", "break", id="of one rank"),
    ],
)
@pytest.mark.parametrize("after", ["", "print(best)"])
def test_a_signal_that_ends_the_training_interrupts_it(tmp_path: Path, ended: str, last: str, after: str) -> None:
    text = script(SCORE + ended, STOPPED, after)
    (loop,) = survey_of(text).loops
    assert ([(stop.code, stop.signalled) for stop in loop.stops], loop.ends) == ([(last, True)], [])
    plan = plan_of(tmp_path, text)
    assert (plan.questions, [note for note in plan.notes if note.code == "PAI027"]) == ([], [])
    after = rewritten(plan)
    assert f"        pai_distributed.interrupt_training()\n        {last}\n" in after
    assert "early=True" not in after
    assert after.count("report_validation_score(") == 1


@pytest.mark.parametrize(
    "ended",
    [
        pytest.param("if stopped or acc > 0.9:\n    break", id="or the score"),
        pytest.param("stopped = acc > 0.9\nif stopped:\n    break", id="set by the training too"),
        pytest.param("if not stopped and acc > 0.9:\n    break", id="without a signal"),
        pytest.param("if watch.late:\n    break", id="nothing sets it"),
        pytest.param("if max(stopped, acc > 0.9):\n    break", id="the larger of it and another"),
        pytest.param("if rung:\n    break", id="an alarm of its own"),
        pytest.param("if epoch > 5:\n    break", id="a number"),
    ],
)
def test_what_ends_a_training_beside_a_signal_is_its_end(tmp_path: Path, ended: str) -> None:
    text = script(f"{SCORE}{ended}\nprint(acc)", STOPPED)
    assert [stop.signalled for loop in survey_of(text).loops for stop in loop.stops] == []
    after = rewritten(plan_of(tmp_path, text))
    assert "interrupt_training" not in after
    assert after.count("report_validation_score(") == 2


def test_a_head_that_asks_for_a_signal_is_told(tmp_path: Path) -> None:
    text = script(SCORE, STOPPED).replace("for epoch in range(10):", "epoch = 0\nwhile epoch < 90 and not stopped:")
    text = text.replace(SCORE.split("\n")[0], f"epoch += 1\n    {SCORE.split(chr(10))[0]}")
    (note,) = [note for note in plan_of(tmp_path, text).notes if note.code == "PAI027"]
    assert "a signal ends the loop by `epoch < 90 and not stopped`" in note.message
