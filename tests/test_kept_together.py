"""Several functions may keep one best between them: a turn has the score of the one that it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrofit.options import Options
from tests.helpers import plan_of, rewritten, script

KEEPS = """
def NAME(net):
    global BEST
    net.eval()
    acc = run(net)
    if acc > BEST:
        BEST = acc


"""


def keeping(name: str, best: str = "best") -> str:
    """Return a function that keeps a best."""
    return KEEPS.replace("NAME", name).replace("BEST", best)


TWO = f"{keeping('validate')}{keeping('bench')}best = 0\n"
APART = f"{keeping('validate')}{keeping('bench', 'low')}best = low = 0\n"
NOTED = "    acc = run(net)\n    pai_distributed.note_score(acc)\n"
HANDED = "    pai_distributed.report_validation_score(pai_distributed.noted_score(), model)\n"


@pytest.mark.parametrize(
    ("loop", "condition"),
    [
        pytest.param("if full:\n    validate(model)\nelse:\n    bench(model)", "", id="one or the other"),
        pytest.param(
            "if full:\n    validate(model)\nif fast:\n    bench(model)", "full or fast", id="each by an option"
        ),
        pytest.param("if full:\n    validate(model)\nbench(model)", "", id="one always"),
    ],
)
def test_each_function_that_keeps_the_same_best_notes_its_score(tmp_path: Path, loop: str, condition: str) -> None:
    plan = plan_of(tmp_path, script(loop, TWO))
    new = rewritten(plan)
    assert (new.count(NOTED), new.count(HANDED)) == (2, 1)
    assert new.index("bench(model)\n") < new.index(HANDED)
    told = [note.message.partition(";")[0] for note in plan.notes if note.code == "PAI012"]
    assert told == ([f"there is a score only if {condition}"] if condition else [])


BELOW = """
class Trainer:
    def __init__(self, model):
        self.net, self.best, self.top = model, 0, 0

    def train(self):
        for i, (x, y) in enumerate(loader):
            criterion(self.net(x), y).backward()
            optimizer.step()
            if often and i % 4 == 0:
                self.glance()
        if full:
            self.validate()

    def validate(self):
        self.net.eval()
        acc = run(self.net)
        if acc > self.best:
            self.best = acc

    def glance(self):
        self.net.eval()
        acc = run(self.net)
        if acc > self.best:
            self.best = acc


"""


def test_a_score_of_methods_below_the_loop_says_when_one_of_them_runs(tmp_path: Path) -> None:
    text = script("", f"{BELOW.strip()}\ntrainer = Trainer(model)")
    plan = plan_of(tmp_path, f"{text[: text.index('for epoch')]}for epoch in range(90):\n    trainer.train()\n")
    assert rewritten(plan).count("        acc = run(self.net)\n        pai_distributed.note_score(acc)\n") == 2
    (note,) = (one.message for one in plan.notes if one.code == "PAI012")
    assert note.startswith("there is a score only if often and i % 4 == 0 or full;")


@pytest.mark.parametrize(
    ("loop", "before"),
    [
        pytest.param(
            "if full:\n    validate(model)\nelse:\n    bench(model)",
            APART,
            id="a best each",
        ),
        pytest.param("validate(model)\nbench(model)", TWO, id="both in each turn"),
    ],
)
def test_functions_that_measure_something_each_are_asked_about(tmp_path: Path, loop: str, before: str) -> None:
    (question,) = plan_of(tmp_path, script(loop, before)).questions
    assert "`validate:acc` (line " in question.message
    assert "`bench:acc` (line " in question.message
    chosen = rewritten(plan_of(tmp_path, script(loop, before), Options(metric="bench:acc", mode="max")))
    assert "pai_score = bench(model)" in chosen
    assert "pai_score = validate(model)" not in chosen


KINDS = """
class Plain:
    def measure(self, net):
        net.eval()
        acc = run(net)
        print(acc)


class Deep(Plain):
    def measure(self, net):
        net.eval()
        ACC = run(net) / 2
        print(ACC)


judge = Deep() if deep else Plain()
"""


@pytest.mark.parametrize("loop", ["judge.measure(model)", "if epoch % 2:\n    judge.measure(model)"])
def test_a_score_is_named_where_a_call_runs_a_method_of_one_of_several_classes(tmp_path: Path, loop: str) -> None:
    options = Options(metric="acc", mode="max")
    plan = plan_of(tmp_path, script(loop, KINDS.replace("ACC", "acc")), options)
    new = rewritten(plan)
    assert (new.count("pai_distributed.note_score(acc)\n"), new.count(HANDED)) == (2, 1)
    told = [note.message.partition(";")[0] for note in plan.notes if note.code == "PAI012"]
    assert told == ["there is a score only if epoch % 2"] * loop.startswith("if")


def test_a_score_that_one_of_the_classes_alone_has_is_asked_about(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, script("judge.measure(model)", KINDS.replace("ACC", "dice")), Options(metric="acc"))
    assert [one.code for one in plan.questions] == ["PAI105"]


def test_such_a_score_is_offered_where_its_best_is_kept(tmp_path: Path) -> None:
    kept = KINDS.replace("ACC", "acc").replace("print(acc)", "if acc > self.best:\n            self.best = acc")
    (asked,) = plan_of(tmp_path, script("judge.measure(model)", kept)).questions
    assert "knows `acc` (line " in asked.message
