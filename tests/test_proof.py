"""Each proof finds the broken rewriting that it is for, and lets a sound one pass."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import retrofit.plan
from retrofit.edits import Edit
from retrofit.errors import EngineError
from retrofit.options import Options
from retrofit.plan import make_plan
from retrofit.proof import prove
from retrofit.rewrite import Rewriting, rewrite
from retrofit.rules import Change, Recipe, Rule
from retrofit.source import Source
from retrofit.survey.index import Index
from retrofit.survey.scopes import File
from tests.conftest import SCRIPT, swapped
from tests.helpers import edits_of, index_of, plan_of, refusal_of, rewritten

TEXT = "import os\na = 1\nif a:\n    b = f(a)\n\n    c = 2\nd = 3\n"


def proof(change: tuple[str, str, str] | None, text: str, before: str = TEXT) -> None:
    index = index_of(before)
    prove(index.entry.source, edits_of(index, change) if change else [], text)


def test_unchanged_text_is_sound() -> None:
    proof(None, TEXT)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param(("insert-before", "d = 3", "x"), TEXT.replace("d = 3", "x\nd = 3"), id="insertion"),
        pytest.param(("replace", "d = 3", "x\ny"), TEXT.replace("d = 3", "x\ny"), id="replacement"),
        pytest.param(("replace", "f(a)", "g(a)"), TEXT.replace("f(a)", "g(a)"), id="expression"),
        pytest.param(("remove", "c = 2", ""), TEXT.replace("\n    c = 2\n", ""), id="removal with its blank line"),
        pytest.param(("guard", "d = 3", "if x:\n    pass"), TEXT.replace("d = 3", "if x:\n    d = 3"), id="guard"),
    ],
)
def test_sound_rewriting_passes(change: tuple[str, str, str], text: str) -> None:
    proof(change, text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TEXT.replace("d = 3\n", ""), id="line lost"),
        pytest.param(TEXT.replace("import os\na = 1\n", "a = 1\nimport os\n"), id="lines swapped"),
        pytest.param(TEXT.replace("a = 1", "a = 1 "), id="white space added"),
        pytest.param(TEXT.replace("a = 1", "a  = 1"), id="white space inside"),
        pytest.param(TEXT.replace("    c = 2", "        c = 2").replace("    b", "        b"), id="indented anew"),
        pytest.param(TEXT.replace("a = 1", "a = 1  # note"), id="comment added to a line"),
        pytest.param("", id="everything lost"),
    ],
)
def test_change_outside_the_edited_statements_is_found(text: str) -> None:
    with pytest.raises(EngineError, match="not asked to change"):
        proof(("insert-after", "d = 3", "x"), text)


@pytest.mark.parametrize("kind", ["insert-before", "insert-after"])
def test_insertion_may_not_change_its_neighbour(kind: str) -> None:
    with pytest.raises(EngineError, match="not asked to change"):
        proof((kind, "d = 3", "x"), TEXT.replace("d = 3", "x\nd = 4"))


def test_removal_may_not_take_another_statement() -> None:
    with pytest.raises(EngineError, match="not asked to change"):
        proof(("remove", "c = 2", ""), TEXT.replace("    b = f(a)\n\n    c = 2\n", "    pass\n"))


def test_comment_of_an_untouched_line_may_not_go() -> None:
    with pytest.raises(EngineError, match="not asked to change"):
        proof(("replace", "a = 1", "a = 2"), "# note\na = 2\n".removeprefix("# note\n"), "# note\na = 1\n")


@pytest.mark.parametrize(
    "new",
    [
        pytest.param("x = = 1", id="syntax"),
        pytest.param("return 1", id="return outside a function"),
        pytest.param("break", id="break outside a loop"),
        pytest.param("await x", id="await outside a function"),
        pytest.param("from __future__ import annotations", id="late __future__"),
    ],
)
def test_text_that_does_not_compile_is_found(new: str) -> None:
    with pytest.raises(EngineError, match=r"^train\.py: the rewritten file does not compile"):
        proof(("insert-after", "d = 3", new), TEXT + new + "\n")


@pytest.mark.parametrize(
    ("change", "text", "place"),
    [
        pytest.param(("replace", "f(  # one\n    a,  # two\n)", "g()"), "# one\nx = g()\n", "2:9", id="one"),
        pytest.param(("replace", "f(  # one\n    a,  # two\n)", "g()"), "# two\n# one\nx = g()\n", "2:9", id="order"),
    ],
)
def test_comment_that_would_be_lost_is_a_question_at_its_place(
    change: tuple[str, str, str], text: str, place: str
) -> None:
    problem = refusal_of(lambda: proof(change, text, "x = f(  # one\n    a,  # two\n)\n")).problems[0]
    assert (f"train.py:{place}", problem.code) == (str(problem).split(": ")[0], "RF037")
    assert problem.message.startswith("`# two` ")


def test_comment_of_a_removed_statement_may_go() -> None:
    proof(("remove", "x = f(  # one\n)", ""), "y\n", "x = f(  # one\n)\ny\n")


def test_comment_in_a_string_is_none() -> None:
    proof(("replace", "x = '# one'", "x = 1"), "x = 1\n", "x = '# one'\n")


@pytest.mark.parametrize("odd", ['epoch is "first"', "(1)(2)"])
def test_python_warns_of_nothing_in_the_scripts_own_code(tmp_path: Path, odd: str) -> None:
    """A warning is an error in these tests."""
    plan = plan_of(tmp_path, f"{SCRIPT}\nodd = lambda epoch: {odd}\n")
    assert plan.questions == []
    assert odd in rewritten(plan)


def test_changed_line_ends_are_no_changed_lines() -> None:
    proof(None, TEXT, TEXT.replace("\n", "\r\n"))


# Within the plan


def break_rewrite(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    def broken(index: Index, edits: list[Edit], file: File | None = None) -> Rewriting:
        text = rewrite(index, edits, file)
        assert old in text
        return Rewriting(text.replace(old, new), {})

    monkeypatch.setattr(retrofit.plan, "rewriting", broken)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        pytest.param("best_acc = 0.0", "best_acc = 1.0", "not asked to change", id="changed line"),
        pytest.param("    main()\n", "    main(\n", "does not compile", id="broken syntax"),
        pytest.param("loss.backward()", "loss.backward(); loss.backward()", "not asked to change", id="doubled call"),
        pytest.param("pai_distributed.fill_missing_gradients(model)", "pass", "second rewriting", id="edit lost"),
        pytest.param("import pai_distributed", "import os", "second rewriting", id="import lost"),
        pytest.param(
            "find_unused_parameters=pai_distributed.finds_unused_parameters()",
            "bucket_cap_mb=1",
            "second rewriting",
            id="keyword lost",
        ),
    ],
)
def test_broken_rewriting_is_an_error_of_ours_and_no_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, message: str
) -> None:
    break_rewrite(monkeypatch, old, new)
    with pytest.raises(EngineError, match=message):
        plan_of(tmp_path, SCRIPT)
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_rewriting_that_raises_a_question_is_an_error_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_rewrite(monkeypatch, "model = DistributedDataParallel(", "wrapped = DistributedDataParallel(")
    with pytest.raises(EngineError, match=r"PAI101 .*after the rewriting"):
        plan_of(tmp_path, SCRIPT)


def test_rule_that_never_stops_is_found(tmp_path: Path) -> None:
    edit = Change(kind="insert-before", template="print(1)")
    endless = Rule("TST001", "endless", "Endless", "backward", "true", "", "", changes=(edit,))
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    with pytest.raises(EngineError, match=r"second rewriting would change it again \(TST001\)"):
        make_plan(path, "train.py", Recipe(tmp_path, (endless,)), Options())


def test_name_that_a_function_would_take_for_its_own_is_found() -> None:
    before = "m = 1\nclass A:\n    def f(self):\n        print(m)\n        return 1\n"
    after = before.replace("        return", "        m = 2\n        return")
    with pytest.raises(EngineError, match=r"makes A\.f\.m local names"):
        proof(None, after, before)
    proof(None, before.replace("        return", "        n = 2\n        return"), before)
    proof(None, after.replace("        print", "        global m\n        print"), before)


def test_for_the_second_survey_only_what_changed_is_read_and_parsed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Counter[str] = Counter()
    made = Source.__init__

    def counting(source: Source, path: Path, data: bytes, shown: str) -> None:
        read[path.name] += 1
        made(source, path, data, shown)

    monkeypatch.setattr(Source, "__init__", counting)
    layers = "nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))"
    (tmp_path / "nets.py").write_text(f"from torch import nn\n\n\ndef build():\n    return {layers}.eval().train()\n")
    plan_of(
        tmp_path, swapped(SCRIPT, (layers, "nets.build()"), ("import argparse\n", "import argparse\n\nimport nets\n"))
    )
    assert read == {"train.py": 2, "nets.py": 1}
