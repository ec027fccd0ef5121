"""`# retrofit: skip`: what it passes over, where a question offers it, and where it stands for nothing."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from retrofit.plan import Plan
from tests.helpers import plan_of, plan_of_project, rewritten

OFFER = " What has nothing to do with this training is passed over where its line ends with `# retrofit: skip`: "
SCRIPT = """import sys
import torch
from torch import nn
from train_parts import loader, probe, val


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(8, 16), nn.Linear(16, 2)

    def forward(self, x):
        return self.two(torch.relu(self.one(x)))


def parallel(model):
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
    return model


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def predict():
    model = Net()
    model.load_state_dict(torch.load('model.pt'))
    model = parallel(model)
    evaluate(model, *val)


def main():
    if 'predict' in sys.argv:
        predict()
        return
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    model = parallel(model)
    best = 0
    for epoch in range(5):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        acc = evaluate(model, *val)
        if acc > best:
            best = acc
            torch.save(model.module.state_dict(), 'model.pt')


main()
"""


def skipping(text: str, *lines: str) -> str:
    for line in lines:
        assert text.count(f"{line}\n") == 1
        text = text.replace(f"{line}\n", f"{line}  # retrofit: skip\n")
    return text


def rewritten_again(folder: Path, text: str) -> str:
    plan = plan_of(folder, text)
    return rewritten(plan) if plan.edits else text


def asked(plan: Plan) -> list[str]:
    return [str(question) for question in plan.questions]


def test_a_question_names_the_lines_without_which_it_is_not_asked(tmp_path: Path) -> None:
    [question] = asked(plan_of(tmp_path, SCRIPT))
    assert question.startswith("train.py:18:17: PAI102 the model cannot be perforated")
    assert question.endswith(f"{OFFER}line 28.")


def test_what_is_skipped_stays_as_it_is_and_is_not_asked_about(tmp_path: Path) -> None:
    text = skipping(SCRIPT, "def predict():")
    plan = plan_of(tmp_path, text)
    assert not plan.questions
    new = rewritten(plan)
    assert text[text.index("def predict") : text.index("def main")] in new
    assert "model = UPA.perforate_model(" in new
    assert rewritten_again(tmp_path, new) == new


def test_the_head_of_a_with_goes_with_its_block(tmp_path: Path) -> None:
    text = skipping(SCRIPT, "def predict():").replace(
        "    best = 0\n", "    best = 0\n    with amp.scale_loss(model, optimizer) as scaled:\n        pass\n"
    )
    text = f"from apex import amp\n{text}"
    [question] = asked(plan_of(tmp_path, text))
    assert "PAI100 NVIDIA Apex amp" in question
    assert question.endswith(f"{OFFER}line 44.")
    assert not asked(plan_of(tmp_path, skipping(text, "    with amp.scale_loss(model, optimizer) as scaled:")))


@pytest.mark.parametrize("line", ["if late:", "else:"])
def test_of_an_if_the_one_block_is_skipped(tmp_path: Path, line: str) -> None:
    wraps = "    if late:\n        model = nn.DataParallel(model)\n    else:\n        model = nn.DataParallel(model)\n"
    text = skipping(SCRIPT, "def predict():").replace("    model = parallel(model)\n    best", f"{wraps}    best")
    kept = plan_of(tmp_path, skipping(text, f"    {line}"))
    assert [site.line for site in kept.script.wrappers] == [42 if line == "else:" else 44]


def test_of_two_loops_each_is_offered_where_a_run_takes_one_of_them(tmp_path: Path) -> None:
    text = skipping(SCRIPT, "def predict():")
    first, last = text.index("    for epoch"), text.index("\n\nmain()")
    loop = text[first:last]
    both = f"{text[:last]}{loop.replace('epoch', 'turn')}{text[last:]}"
    [question] = asked(plan_of(tmp_path, both))
    assert "PAI104 several epoch loops" in question
    assert OFFER not in question
    within = indent(loop, "    ")
    either = f"{text[:first]}    if late:\n{within}    else:\n{within.replace('epoch', 'turn')}{text[last:]}"
    [question] = asked(plan_of(tmp_path, either))
    assert question.endswith(f"{OFFER}line 44 or line 54.")
    assert not asked(plan_of(tmp_path, skipping(either, "        for turn in range(5):")))
    for second, conditions, offer in (
        ("    if last:\n", " (if `late`), line 54 (if `last`)", f"{OFFER}line 44 or line 54."),
        ("    if late:\n", ", line 54", ""),  # where a run comes to one of them, it does to both
        ("    with late:\n", " (if `late`), line 54", ""),
    ):
        own = f"{text[:first]}    if late:\n{within}{second}{within.replace('epoch', 'turn')}{text[last:]}"
        [question] = asked(plan_of(tmp_path, own))
        assert f"line 44{conditions}. Train in one loop" in question
        assert question.endswith(f"split the script.{offer}")


def test_what_would_leave_another_question_is_not_offered(tmp_path: Path) -> None:
    text = f"{SCRIPT[: SCRIPT.index('class Net')]}model = nn.DataParallel(net())\n"
    assert asked(plan_of(tmp_path, text))
    assert OFFER not in " ".join(asked(plan_of(tmp_path, text)))


def test_a_line_of_another_file_is_named_with_it(tmp_path: Path) -> None:
    first, last = SCRIPT.index("class Net"), SCRIPT.index("def main")
    head = "import torch\nfrom torch import nn\nfrom train_parts import val\n\n\n"
    (tmp_path / "parts.py").write_text(f"{head}{SCRIPT[first:last]}")
    (tmp_path / "train.py").write_text(f"from parts import *\n{SCRIPT[:first]}{SCRIPT[last:]}")
    [question] = asked(plan_of_project(tmp_path / "train.py"))
    assert question.startswith("parts.py:17:17: PAI102")
    assert question.endswith(f"{OFFER}line 27.")


@pytest.mark.parametrize(
    "more",
    [
        pytest.param("if False:\n    print()  # retrofit: skip\n", id="in code that never runs"),
        pytest.param("if late:  # retrofit: skip\n    print()  # retrofit: skip\n", id="within what is passed over"),
        pytest.param("for x in val:\n    print()\nelse:  # retrofit: skip\n    print()\n", id="in an else"),
        pytest.param("print('# retrofit: skip')\n", id="in a text"),
    ],
)
def test_nothing_is_asked_of_one_that_stands_where_it_may(tmp_path: Path, more: str) -> None:
    assert not asked(plan_of(tmp_path, f"{skipping(SCRIPT, 'def predict():')}{more}"))


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        pytest.param("import sys\n", "import sys\n# retrofit: skip\n", "2:1", id="on a line of its own"),
        pytest.param("AdamW(", "AdamW(  # retrofit: skip\n        ", "40:37", id="within a statement"),
    ],
)
def test_a_comment_that_passes_nothing_over_is_told(tmp_path: Path, old: str, new: str, place: str) -> None:
    text = skipping(SCRIPT.replace(old, new, 1), "def predict():")
    [question] = asked(plan_of(tmp_path, text))
    assert question.startswith(f"train.py:{place}: RF046 `# retrofit: skip` passes nothing over here.")


TWICE = """import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def train(model, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best = 0
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            (model(x) - y).mean().backward()
            optimizer.step()
        acc = evaluate(model)
        if acc > best:
            best = acc
            torch.save(model.state_dict(), "best.pt")

net = Net()
train(DDP(net), 9)
train(DDP(net), 20)
"""


def test_a_second_training_of_one_model_is_asked_about_and_may_be_passed_over(tmp_path: Path) -> None:
    (question,) = plan_of(tmp_path, TWICE).questions
    assert (question.code, question.line) == ("PAI104", 19)
    assert question.message.endswith(f"{OFFER}line 19.")
    assert plan_of(tmp_path, TWICE.replace("20)", "20)  # retrofit: skip")).questions == []
