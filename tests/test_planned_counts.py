"""What has an item for each epoch, and is taken together with the planned number of epochs after the loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import plan_of, rewritten, script

HEAD = "epochs = read()\nlosses, history = [], {'acc': []}\n"
TURN = "acc = evaluate(model)\nlosses.append(acc)\nhistory['acc'].append(acc)"
FILLING = """
epochs, noted = read(), []

class Log:
    def __init__(self):
        self.noted = []

    def note(self, value):
        self.noted.append(value)

def note(value):
    noted.append(value)

def note_all(values):
    for value in values:
        noted.append(value)

def begin(value):
    global own
    own = []
    own.append(value)

log = Log()
"""


def rewritten_after(tmp_path: Path, after: str, before: str = "") -> str:
    """Return what becomes of code after an epoch loop that fills lists."""
    text = script(TURN, HEAD + before, after).replace("range(10)", "range(epochs)")
    plan = plan_of(tmp_path, text)
    assert [one.message for one in plan.questions] == []
    return rewritten(plan)


@pytest.mark.parametrize(
    ("after", "anew"),
    [
        ("plt.plot(range(epochs), losses)", "plt.plot(range(len(losses)), losses)"),
        ("plt.plot(range(1, epochs + 1), losses)", "plt.plot(range(1, len(losses) + 1), losses)"),
        ("x = np.arange(1, epochs + 1)\nplt.plot(x, losses)", "x = np.arange(1, len(losses) + 1)\n"),
        ("x = [1 + k for k in range(epochs)]\nplt.plot(x, losses)", "for k in range(len(losses))]"),
        ("plt.plot(range(epochs), history['acc'])", "plt.plot(range(len(history['acc'])), history['acc'])"),
        ("plt.plot(range(epochs), [float(x) for x in losses])", "plt.plot(range(len(losses)), ["),
        ("losses = [float(x) for x in losses]\nplt.plot(range(epochs), losses)", "plt.plot(range(len(losses)), "),
        ("table({'epoch': list(range(epochs)), 'loss': losses})", "{'epoch': list(range(len(losses))),"),
        ("list(zip(range(epochs), losses, strict=True))", "zip(range(len(losses)), losses"),
        ("for k in range(epochs):\n    print(k, losses[k])", "for k in range(len(losses)):"),
        ("def draw(values):\n    plt.plot(range(epochs), values)\ndraw(losses)", "(range(len(values)), values)"),
        ("table = np.zeros(epochs, np.float32)\ntable[:] = losses", "table = np.zeros(len(losses), np.float32)"),
        (
            "table = torch.zeros(epochs)\ntable[:] = torch.tensor(losses, dtype=kind)",
            "table = torch.zeros(len(losses))",
        ),
        ("plt.plot(np.full(epochs, 3), losses)", "plt.plot(np.full(len(losses), 3), losses)"),
        ("if rank == 0:\n    plt.plot(range(epochs), losses)", "    plt.plot(range(len(losses)), losses)"),
    ],
)
def test_the_items_are_counted_in_place_of_the_planned_epochs(tmp_path: Path, after: str, anew: str) -> None:
    text = script(TURN, f"import numpy as np\n{HEAD}", after).replace("range(10)", "range(epochs)")
    plan = plan_of(tmp_path, text)
    assert plan.questions == []
    assert anew in rewritten(plan).partition("report_validation_score")[2]
    assert [note.code for note in plan.notes].count("PAI043") == 1


@pytest.mark.parametrize(
    "after",
    [
        "plt.plot(range(len(losses)), losses)",
        "plt.plot(range(other), losses)",
        "plt.plot(range(epochs), other)",
        "plt.plot(range(epochs))\nplt.plot(losses)",
        "for k, x in zip(range(epochs), losses):\n    print(k, x)",
        "for k in range(epochs):\n    print(other[k], losses)",
        "print(losses, epochs)",
        "table = torch.zeros(epochs)\ntable[:2] = torch.tensor(losses)",
        "table = torch.zeros(epochs)\ntable[:] = torch.tensor(other)",
        "table = torch.zeros(other)\ntable[:] = torch.tensor(losses)",
    ],
)
def test_what_does_not_depend_on_both_stays(tmp_path: Path, after: str) -> None:
    assert rewritten_after(tmp_path, after).endswith(f"{after}\n")


def test_what_each_batch_fills_has_no_item_for_each_epoch(tmp_path: Path) -> None:
    after = "plt.plot(range(epochs), steps)"
    text = script(TURN, f"{HEAD}steps = []", after).replace("range(10)", "range(epochs)")
    text = text.replace("optimizer.step()\n", "optimizer.step()\n        steps.append(loss)\n")
    assert rewritten(plan_of(tmp_path, text)).endswith(f"{after}\n")


@pytest.mark.parametrize(
    ("turn", "items", "anew"),
    [
        pytest.param("note(acc)", "noted", True, id="in a function"),
        pytest.param("log.note(acc)", "log.noted", True, id="in a method"),
        pytest.param("for k in range(2):\n    note(acc)", "noted", False, id="called oftener"),
        pytest.param("note_all(acc)", "noted", False, id="in a loop of the function"),
        pytest.param("begin(acc)", "own", False, id="in a list that each call makes"),
        pytest.param("note(acc)", "log.noted", False, id="in another list"),
    ],
)
def test_what_a_function_of_each_epoch_fills_is_counted_too(tmp_path: Path, turn: str, items: str, anew: bool) -> None:
    text = script(f"acc = evaluate(model)\n{turn}", FILLING, f"plt.plot(range(epochs), {items})").replace(
        "range(10)", "range(epochs)"
    )
    plan = plan_of(tmp_path, text)
    assert plan.questions == []
    assert (f"plt.plot(range(len({items})), {items})" in rewritten(plan)) is anew
    assert [note.code for note in plan.notes].count("PAI043") == anew


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = range(epochs)", "plt.plot(x, losses)"),
        ("", "plt.plot(range(0, epochs, 5), losses)"),
        ("table = torch.zeros(epochs)", "table[:] = torch.tensor(losses)"),
    ],
)
def test_a_count_at_which_the_items_are_not_known_is_asked_about(tmp_path: Path, before: str, after: str) -> None:
    text = script(TURN, HEAD + before, after).replace("range(10)", "range(epochs)")
    [question] = plan_of(tmp_path, text).questions
    assert question.code == "PAI043"
    assert "counts the epochs that are planned, but " in question.message
