"""`# retrofit: skip`: what it passes over, where a question offers it, and where it stands for nothing."""

from __future__ import annotations

from pathlib import Path

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


def evaluate(model, x, y):
    if not isinstance(model, nn.DataParallel):
        model = nn.DataParallel(model)
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def predict():
    model = Net()
    model.load_state_dict(torch.load('model.pt'))
    evaluate(model, *val)


def main():
    if 'predict' in sys.argv:
        predict()
        return
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    model = nn.DataParallel(model)
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
WRAPPED = "        model = nn.DataParallel(model)\n"


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
    assert question.endswith(f"{OFFER}line 18.")


def test_what_is_skipped_stays_as_it_is_and_is_not_asked_about(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, skipping(SCRIPT, WRAPPED.rstrip()))
    assert not plan.questions
    new = rewritten(plan)
    assert "        model = nn.DataParallel(model)  # retrofit: skip\n    model.eval()\n" in new
    assert "model = UPA.perforate_model(" in new
    assert rewritten_again(tmp_path, new) == new


@pytest.mark.parametrize("line", ["def predict():", "    if not isinstance(model, nn.DataParallel):"])
def test_a_block_is_skipped_by_the_line_that_begins_it(tmp_path: Path, line: str) -> None:
    assert not asked(plan_of(tmp_path, skipping(SCRIPT, line)))


def test_the_head_of_a_with_goes_with_its_block(tmp_path: Path) -> None:
    text = SCRIPT.replace(f"{WRAPPED}    model.eval()\n", "        pass\n    model.eval()\n")
    text = text.replace(
        "    best = 0\n", "    best = 0\n    with amp.scale_loss(model, optimizer) as scaled:\n        pass\n"
    )
    text = f"from apex import amp\n{text}"
    [question] = asked(plan_of(tmp_path, text))
    assert "PAI100 NVIDIA Apex amp" in question
    assert question.endswith(f"{OFFER}line 39.")
    assert not asked(plan_of(tmp_path, skipping(text, "    with amp.scale_loss(model, optimizer) as scaled:")))


def test_of_two_loops_each_is_offered_that_leaves_a_training(tmp_path: Path) -> None:
    text = SCRIPT.replace(f"{WRAPPED}    model.eval()\n", "        pass\n    model.eval()\n")
    first, last = text.index("    for epoch"), text.index("\n\nmain()")
    text = f"{text[:last]}{text[first:last].replace('epoch', 'turn')}{text[last:]}"
    [question] = asked(plan_of(tmp_path, text))
    assert "PAI104 several epoch loops" in question
    assert question.endswith(f"{OFFER}line 38 or line 47.")
    assert not asked(plan_of(tmp_path, skipping(text, "    for turn in range(5):")))


def test_what_would_leave_another_question_is_not_offered(tmp_path: Path) -> None:
    text = f"{SCRIPT[: SCRIPT.index('class Net')]}model = nn.DataParallel(net())\n"
    assert asked(plan_of(tmp_path, text))
    assert OFFER not in " ".join(asked(plan_of(tmp_path, text)))


def test_a_line_of_another_file_is_named_with_it(tmp_path: Path) -> None:
    first, last = SCRIPT.index("def evaluate"), SCRIPT.index("def predict")
    (tmp_path / "judge.py").write_text(f"import torch\nfrom torch import nn\n\n\n{SCRIPT[first:last]}")
    text = f"from judge import evaluate\n{SCRIPT[:first]}{SCRIPT[last:]}"
    (tmp_path / "train.py").write_text(text)
    [question] = asked(plan_of_project(tmp_path / "train.py"))
    assert question.endswith(f"{OFFER}line 7 of judge.py.")


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        pytest.param("import sys\n", "import sys\n# retrofit: skip\n", "2:1", id="on a line of its own"),
        pytest.param("AdamW(", "AdamW(  # retrofit: skip\n        ", "35:37", id="within a statement"),
    ],
)
def test_a_comment_that_passes_nothing_over_is_told(tmp_path: Path, old: str, new: str, place: str) -> None:
    text = skipping(SCRIPT.replace(old, new, 1), "        model = nn.DataParallel(model)")
    [question] = asked(plan_of(tmp_path, text))
    assert question.startswith(f"train.py:{place}: RF046 `# retrofit: skip` passes nothing over here.")
