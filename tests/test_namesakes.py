"""A word of the user's for the score that is the name of several variables: which is meant is plain, or asked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from retrofit.options import Options
from retrofit.plan import Plan
from tests.helpers import code, plan_of, rewritten, script

VALIDATE = """
def validate(net):
    with torch.no_grad():
        acc = measure(net)
        print(acc)
"""
TEST = VALIDATE.replace("validate", "test").replace("measure(net)", "measure(net, 'test')")
OTHER = """
def best_of(values):
    global best
    acc = sum(values) / len(values)
    if acc > best:
        best = acc
        return True
"""
#: A validation that has the name in the last epoch alone, while what keeps the best has it in each.
LAST = f"""{OTHER}
def validate(net):
    with torch.no_grad():
        values = measure(net)
        if best_of(values):
            torch.save(net.state_dict(), "best.pt")
        if is_last():
            acc = 0
            for value in values:
                acc += value
            keep(acc)
"""


def planned(folder: Path, functions: str, turn: str, metric: str = "acc") -> Plan:
    text = script(turn, "best = 0").replace("model = Net()\n", f"{code(functions)}model = Net()\n")
    return plan_of(folder, text, Options(metric=metric, mode="max"))


@pytest.mark.parametrize(
    ("functions", "turn", "told"),
    [
        pytest.param(
            VALIDATE + TEST, "validate(model)\ntest(model)", ["validate:acc", "test:acc"], id="one after the other"
        ),
        pytest.param(LAST, "validate(model)", ["validate:acc", "best_of:acc"], id="under a condition"),
        pytest.param(
            VALIDATE + TEST,
            "if a:\n    validate(model)\nelse:\n    test(model)",
            ["validate:acc", "test:acc"],
            id="by choice",
        ),
    ],
)
def test_which_of_several_is_meant_is_asked(tmp_path: Path, functions: str, turn: str, told: list[str]) -> None:
    [question] = planned(tmp_path, functions, turn).questions
    assert question.code == "PAI105"
    assert all(one in question.message for one in told)
    answers = re.findall(r"--metric (\S+)", question.message)
    assert answers == told
    for answer in answers:
        plan = planned(tmp_path, functions, turn, answer)
        assert plan.questions == []
        function = rewritten(plan).partition(f"def {answer.partition(':')[0]}(")[2].partition("\nmodel = ")[0]
        gives = "note_score(acc)" if answer == "best_of:acc" else "return "
        assert gives in function.partition("\ndef ")[0]


def test_one_of_them_may_be_a_parameter(tmp_path: Path) -> None:
    given = "def validate(net, acc):\n    net.eval()\n    return acc\n"
    [question] = planned(tmp_path, given + TEST, "rate = validate(model, measure(model))\ntest(model)").questions
    assert (
        "the name `acc`. Say which is meant: --metric validate:acc (line 4) or --metric test:acc (" in question.message
    )


@pytest.mark.parametrize(
    ("functions", "turn"),
    [
        pytest.param(VALIDATE, "validate(model)", id="one alone"),
        pytest.param(VALIDATE + TEST, "validate(model)", id="the other is not called"),
        pytest.param(
            f"{VALIDATE}    return acc\n{TEST}", "acc = validate(model)\ntest(model)\nprint(acc)", id="the loop's own"
        ),
        pytest.param(
            f"def measure(net):\n    acc = net.score()\n    return acc\n{VALIDATE}",
            "validate(model)",
            id="of which it is made",
        ),
        pytest.param(OTHER + VALIDATE.replace("print(acc)", "best_of([acc])"), "validate(model)", id="further in"),
        pytest.param(
            "def each(net, x):\n    acc = net(x)\n    print(acc)\n"
            + VALIDATE.replace("acc =", "for x in held_out:\n            each(net, x)\n        acc ="),
            "validate(model)",
            id="of each batch",
        ),
        pytest.param(f"def note(acc):\n    print(acc)\n{VALIDATE}", "validate(model)\nnote(1)", id="a parameter"),
        pytest.param(
            f"def train(net):\n    acc = net.hits()\n    net(x).backward()\n{VALIDATE}",
            "train(model)\nvalidate(model)",
            id="of the training",
        ),
        pytest.param(
            f"def note(net):\n    acc = net.hits()\n    print(acc)\n{VALIDATE}",
            "note(model)\nvalidate(model)",
            id="no validation",
        ),
    ],
)
def test_what_is_plain_is_not_asked(tmp_path: Path, functions: str, turn: str) -> None:
    assert planned(tmp_path, functions, turn).questions == []


@pytest.mark.parametrize(
    ("functions", "offered"), [(VALIDATE, ["acc"]), (VALIDATE + TEST, ["validate:acc", "test:acc"])]
)
def test_what_is_offered_is_the_word_by_which_it_is_meant(tmp_path: Path, functions: str, offered: list[str]) -> None:
    text = script("validate(model)\ntest(model)").replace("model = Net()\n", f"{code(functions)}model = Net()\n")
    [question] = plan_of(tmp_path, text).questions
    assert re.findall(r"`(\S+)` \(line", question.message) == offered


OWN = """
@torch.no_grad()
def validate(model):
    model.eval()
    total = {"loss": measure(model)}
    print(total)


"""


@pytest.mark.parametrize(
    ("functions", "metric", "told"),
    [
        pytest.param(OWN, "total['loss']", True, id="which validates"),
        pytest.param(OWN.replace("total", "other"), "total['loss']", False, id="of another name"),
        pytest.param(OWN, "validate:total['loss']", False, id="which is named"),
        pytest.param(OWN.replace("print(total)", "return total"), "best['loss']", False, id="which gives it"),
        pytest.param(
            OWN.replace("@torch.no_grad()\ndef validate", "def show").replace(".eval", ".show"),
            "total['loss']",
            False,
            id="which does not validate",
        ),
    ],
)
def test_the_training_s_own_variable_is_told_from_that_of_a_validation(
    tmp_path: Path, functions: str, metric: str, told: bool
) -> None:
    turn = "show(model)" if "def show" in functions else "best = validate(model)"
    text = script(turn).replace(
        "        loss.backward()\n", "        loss.backward()\n        total = {'loss': loss.item()}\n"
    )
    text = text.replace("model = Net()\n", f"{code(functions)}model = Net()\n")
    plan = plan_of(tmp_path, text, Options(metric=metric, mode="min"))
    assert plan.questions == []
    notes = [note.message for note in plan.notes if "what the validation makes" in note.message]
    assert [one.partition("is --metric ")[2] for one in notes] == ["\"validate:total['loss']\""] * told
