"""Statements that share a line get lines of their own where something is written beside them, and nowhere else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from retrofit.explain import edits_text, explained
from retrofit.plan import Plan
from retrofit.survey.index import Index
from retrofit.unfold import unfolded
from tests.conftest import SCRIPT, Folder, swapped
from tests.helpers import plan_of, recipe, rewritten, script, source_of

#: Code in which all lines are shared, and the same on lines of its own.
FORMS = {
    "semicolons": ("a = 1; b = 2\n", "a = 1\nb = 2\n"),
    "at the end": ("a = 1;\n", "a = 1;\n"),
    "with a comment": ("# one\na = 1; b = 2;  # two\n", "# one\na = 1\nb = 2  # two\n"),
    "behind if": ("if a: b = 1\nc = 2\n", "if a:\n    b = 1\nc = 2\n"),
    "behind else": ("if a: b\nelif c: d\nelse: e; f\n", "if a:\n    b\nelif c:\n    d\nelse:\n    e\n    f\n"),
    "in a block": ("if a:\n  if b: c; d  # e\n  f\n", "if a:\n  if b:\n    c\n    d  # e\n  f\n"),
    "tabs": ("if a:\n\tif b: c\n\td\n", "if a:\n\tif b:\n\t\tc\n\td\n"),
    "other line ends": ("if a: b; c\r\nd\r\n", "if a:\r\n    b\r\n    c\r\nd\r\n"),
    "over several lines": ("a = [\n    1,\n]; b = 2\n", "a = [\n    1,\n]\nb = 2\n"),
    "loops and with": (
        "for a in b: c\nwhile a: b\nwith a: b\n",
        "for a in b:\n    c\nwhile a:\n    b\nwith a:\n    b\n",
    ),
    "definitions": ("def f(): return 1\nclass A: b = 1\n", "def f():\n    return 1\nclass A:\n    b = 1\n"),
    "strings": ("a = '''\n;\n'''; b = 'if x: y'\n", "a = '''\n;\n'''\nb = 'if x: y'\n"),
}


@pytest.mark.parametrize(("text", "expected"), FORMS.values(), ids=FORMS)
def test_statements_get_lines_of_their_own(text: str, expected: str) -> None:
    source = source_of(text)
    crowded = [statement.node for statement in Index(source).statements if statement.crowded]
    new = unfolded(source, crowded)
    assert new.text == expected
    assert new.data == source.data


def test_messages_name_the_lines_of_the_file_as_it_is() -> None:
    source = source_of("a; b; c\nd\nif e: f; g\nh\n")
    new = unfolded(source, [s.node for s in Index(source).statements if s.crowded])
    places = {new.code(s.node).strip(): new.position(s.node)[0] for s in Index(new).statements}
    assert [places[name] for name in "abcdfgh"] == [1, 1, 1, 2, 3, 3, 4]


def crowded_plan(folder: Path, *pairs: tuple[str, str]) -> Plan:
    plan = plan_of(folder, swapped(SCRIPT, *pairs))
    assert plan.questions == []
    return plan


STEP = "            optimizer.zero_grad()\n"
BACKWARD = "            loss.backward()\n            optimizer.step()\n"


def test_an_edit_comes_beside_the_one_statement_that_it_is_about(tmp_path: Path) -> None:
    plan = crowded_plan(tmp_path, (BACKWARD, "            loss.backward(); optimizer.step()  # both\n"))
    assert """\
            pai_distributed.fill_missing_gradients(model)
            loss.backward()
            if args.perforate_model_parallel:
                pai_distributed.finish_initialization()
            optimizer.step()  # both
""" in rewritten(plan)
    assert (
        next(file.before for file in plan.files if file.path.name == "train.py") == (tmp_path / "train.py").read_bytes()
    )


def test_lines_without_an_edit_stay_shared(tmp_path: Path) -> None:
    plan = crowded_plan(
        tmp_path, (BACKWARD, BACKWARD + "            if y is None: continue\n            a = 1; b = 2\n")
    )
    assert "            if y is None: continue\n            a = 1; b = 2\n" in rewritten(plan)


def test_a_question_names_the_line_of_the_file_as_it_is(tmp_path: Path) -> None:
    head = "if warm: acc = 0.5\nright = 0\nfor x, y in val_loader:\n    right += hits(model(x), y); acc = right / 9\n"
    head += "    best = max(best, acc)\n"
    text = script(f"{head}print(1); print(2)", "best = 0").replace(
        "model = Net()\nmodel = DDP", "model = Net(); model = DDP"
    )
    [question] = plan_of(tmp_path, text).questions
    assert text.splitlines()[question.line - 1] == "    print(1); print(2)"
    assert "it gets one at line 13 and 16," in question.message


def test_all_of_it_is_undone(folder: Folder) -> None:
    text = swapped(SCRIPT, (BACKWARD, "            loss.backward(); optimizer.step()\n"))
    folder.write("train.py", text)
    assert folder.run("apply", "train.py").code == 0
    ast.parse(folder.text("train.py"))
    assert folder.run("apply", "train.py").out == "train.py: nothing to do\n"
    assert folder.run("undo", "train.py").code == 0
    assert folder.text("train.py") == text


def test_each_change_is_told_with_the_line_of_the_file_as_it_is(tmp_path: Path) -> None:
    plan = crowded_plan(tmp_path, (BACKWARD, "            loss.backward(); optimizer.step()\n"))
    line = (tmp_path / "train.py").read_text().splitlines().index("            loss.backward(); optimizer.step()") + 1
    told = [row.split()[:2] for row in edits_text(plan, recipe().titles).splitlines()]
    assert [f"train.py:{line}", "PAI006"] in told
    diff = explained(plan, {plan.path: "train.py"}, recipe().titles)
    hunk = next(part for part in diff.split("PAI006 ")[1:])
    assert "+            loss.backward()" in hunk
