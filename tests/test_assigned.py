"""Which names may have no value where they are read; the read that is asked about is `it` in `take(it)`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from retrofit.assigned import unassigned, unassigned_names
from retrofit.options import Options
from tests.helpers import code, plan_of, rewritten, script


def faults(text: str) -> list[int]:
    """Return the lines at which `it` may have no value where it is taken."""
    text = code(text)
    taken = [match.start(1) for match in re.finditer(r"\btake\((it)\)", text)]
    return [text.count("\n", 0, offset) + 1 for offset in unassigned(text, taken)]


SURE = {
    "the opposite later": "if a:\n    it = 1\nprint(b)\nif not a:\n    it = 2\ntake(it)\n",
    "the opposite of both": "if rank == 0 and a:\n    it = 1\nif not a or rank != 0:\n    it = 2\ntake(it)\n",
    "the opposite of one or the other": "if a or b:\n    it = 1\nif not b and not a:\n    it = 2\ntake(it)\n",
    "the opposite in brackets": "if not (a and b == 1):\n    it = 1\nif b == 1 and a:\n    it = 2\ntake(it)\n",
    "the opposite of three": "if a or (b and c):\n    it = 1\nif not (c and b) and not a:\n    it = 2\ntake(it)\n",
    "before": "it = 1\ntake(it)",
    "annotated": "it: float = 1\ntake(it)",
    "tuple": "[_, (it, *_)] = f()\ntake(it)",
    "walrus": "if (it := f()):\n    pass\ntake(it)",
    "walrus behind and, where it holds": "if a and (it := f()):\n    take(it)",
    "walrus behind or, where it fails": "if a or (it := f()):\n    pass\nelse:\n    take(it)",
    "walrus in the head of a while": "while (it := f()) > 0:\n    take(it)\ntake(it)",
    "both branches": "if a:\n    it = 1\nelse:\n    it = 2\ntake(it)",
    "all branches": "if a:\n    it = 1\nelif b:\n    it = 2\nelse:\n    it = 3\ntake(it)",
    "one line": "if a: it = 1\nelse: it = 2\ntake(it)",
    "several in a line": "a = 1; it = 2; take(it)",
    "the other branch leaves": "for x in y:\n    if a:\n        continue\n    else:\n        it = 1\n    take(it)",
    "the other branch raises": "if a:\n    it = 1\nelse:\n    raise ValueError\ntake(it)",
    "the other branch exits": "import sys\nif a:\n    it = 1\nelse:\n    sys.exit(1)\ntake(it)",
    "left before": "def f(a):\n    if not a:\n        return\n    if a:\n        it = 1\n    take(it)",
    "the same condition": "if a:\n    it = 1\nb = 2\nif a:\n    take(it)",
    "a part of the condition": "if a:\n    it = 1\nif a and b:\n    take(it)",
    "both parts of the condition": "if a:\n    if b:\n        it = 1\nif a and b:\n    take(it)",
    "one of two conditions": "if a:\n    it = 1\nif b:\n    it = 2\nif b:\n    take(it)",
    "the opposite condition": "if not a:\n    it = 1\nif a:\n    pass\nelse:\n    take(it)",
    "the opposite comparison": "if rank != 0:\n    pass\nelse:\n    it = 1\nif rank == 0:\n    take(it)",
    "another constant": "if phase == 'train':\n    pass\nelse:\n    it = 1\nif phase == 'val':\n    take(it)",
    "a condition that calls": "if dist.get_rank() == 0:\n    it = 1\nif dist.get_rank() == 0:\n    take(it)",
    "asserted": "if a:\n    it = 1\nassert a\ntake(it)",
    "a conditional expression": "if a:\n    it = 1\nb = take(it) if a else 0",
    "in the loop": "for it in y:\n    take(it)",
    "a loop that has items": "for x in [1, 2]:\n    it = x\ntake(it)",
    "a range that has items": "for x in range(1, 3):\n    it = x\ntake(it)",
    "for ever": "while True:\n    it = 1\n    if a:\n        break\ntake(it)",
    "a loop's else": "for x in y:\n    if a:\n        it = 1\n        break\nelse:\n    it = 2\ntake(it)",
    "an earlier turn keeps it": "it = 0\nfor x in y:\n    take(it)\n    it = 1",
    "deleted and made again": "it = 0\nfor x in y:\n    take(it)\n    del it\n    it = 1",
    "with": "with open(a) as it:\n    take(it)\ntake(it)",
    "in a with": "with torch.no_grad():\n    it = 1\ntake(it)",
    "try": "try:\n    it = 1\nexcept E:\n    it = 2\ntake(it)",
    "try that raises again": "try:\n    it = 1\nexcept E:\n    raise\ntake(it)",
    "try with else": "try:\n    f()\nexcept E:\n    it = 1\nelse:\n    it = 2\ntake(it)",
    "finally": "try:\n    f()\nfinally:\n    it = 1\ntake(it)",
    "before a try": "it = 0\ntry:\n    it = f()\nexcept E:\n    take(it)",
    "match": "match a:\n    case 1:\n        it = 1\n    case _:\n        it = 2\ntake(it)",
    "captured": "match a:\n    case [it, *_]:\n        take(it)",
    "imported": "import numpy as it\ntake(it)",
    "defined": "def it():\n    pass\ntake(it)",
    "a parameter": "def f(a, *, it=0):\n    take(it)",
    "from outside": "def f():\n    take(it)\nit = 1\nf()",
    "of the function around": "def f():\n    def g():\n        take(it)\n    it = 1\n    return g",
    "global": "def f():\n    global it\n    take(it)\nit = 1",
    "global, by another function": "def f():\n    global it\n    it = 1\ndef g():\n    take(it)",
    "starred": "from settings import *\ntake(it)",
    "starred in a function": "from settings import *\ndef f():\n    take(it)",
    "executed": "exec(open('settings.py').read())\ntake(it)",
    "read before by the program": "if a:\n    it = 1\nprint(it)\ntake(it)",
    "read before in a test": "if a:\n    it = 1\nif it > 0 and b:\n    pass\ntake(it)",
    "a comprehension's own": "best = max(take(it) for it in y)",
    "a comprehension's own, behind another": "best = [take(it) for x in y for it in x if take(it)]",
    "a lambda's own": "f = lambda it: take(it)",
    "a class's own": "class A:\n    it = 1\n    take(it)",
    "unreachable": "def f():\n    return 1\n    take(it)\n    it = 1",
    "augmented": "it = 1\nit += 1\ntake(it)",
    "of an attribute's object": "it = f()\nit.x = 1\nit['y'] = 2\ntake(it)",
}

UNSURE = {
    "the opposite of one": "if a and b:\n    it = 1\nif not a:\n    it = 2\ntake(it)\n",
    "the opposite of one of two": "if a or b:\n    it = 1\nif not b:\n    it = 2\ntake(it)\n",
    "the opposite of others": "if a or b:\n    it = 1\nif not a and not c:\n    it = 2\ntake(it)\n",
    "the opposite of two that change": "if a or b:\n    it = 1\nb = c\nif not b and not a:\n    it = 2\ntake(it)\n",
    "the opposite of what changes": "if a:\n    it = 1\na = b\nif not a:\n    it = 2\ntake(it)\n",
    "never": "take(it)",
    "after": "def f():\n    take(it)\n    it = 1",
    "only declared": "def f():\n    it: int\n    take(it)",
    "deleted": "it = 1\ndel it\ntake(it)",
    "deleted with others": "it = 1\ndel a, (it, b)\ntake(it)",
    "deleted under a condition": "it = 1\nif a:\n    del it\ntake(it)",
    "deleted in the turn before": "it = 1\nfor x in y:\n    take(it)\n    del it",
    "one branch": "if a:\n    it = 1\ntake(it)",
    "one of three branches": "if a:\n    it = 1\nelif b:\n    it = 2\nelse:\n    pass\ntake(it)",
    "one line": "if a: it = 1\ntake(it)",
    "the opposite condition": "if a:\n    it = 1\nif not a:\n    take(it)",
    "another condition": "if a:\n    it = 1\nif b:\n    take(it)",
    "one part of the condition": "if a and b:\n    it = 1\nif a:\n    take(it)",
    "the condition has changed": "if a:\n    it = 1\na = f()\nif a:\n    take(it)",
    "the condition's attribute has changed": "if a.b:\n    it = 1\na.b = f()\nif a.b:\n    take(it)",
    "the condition's item has changed": "if a['b']:\n    it = 1\na['b'] = f()\nif a['b']:\n    take(it)",
    "the condition changes in the other branch": "if a:\n    it = 1\nelse:\n    a = 1\nif a:\n    take(it)",
    "the condition changes in the branch": "if a is None:\n    a = 1\nelse:\n    it = 1\nif a:\n    take(it)",
    "the condition changes from turn to turn": "for a in y:\n    if a:\n        it = 1\nif a:\n    take(it)",
    "a call with arguments": "if f(a):\n    it = 1\nif f(a):\n    take(it)",
    "a loop without a pass": "for x in y:\n    it = x\ntake(it)",
    "a loop's own variable": "for it in y:\n    pass\ntake(it)",
    "a range without a number": "for x in range(0, n):\n    it = x\ntake(it)",
    "a while without a pass": "while a:\n    it = 1\ntake(it)",
    "a break before": "for x in [1, 2]:\n    if a:\n        break\n    it = 1\ntake(it)",
    "a continue before": "for x in [1, 2]:\n    if a:\n        continue\n    it = 1\ntake(it)",
    "walrus behind and": "if a and (it := f()):\n    pass\ntake(it)",
    "walrus in a comprehension": "[it := x for x in y]\ntake(it)",
    "a conditional walrus": "a = (it := 1) if b else 2\ntake(it)",
    "a comprehension's variable": "def f():\n    [it for it in y]\n    take(it)",
    "a comprehension's first source": "def f():\n    [it for it in take(it)]",
    "suppressed": "with contextlib.suppress(E):\n    it = f()\ntake(it)",
    "a handler that goes on": "try:\n    it = f()\nexcept E:\n    pass\ntake(it)",
    "in a handler": "try:\n    it = f()\nexcept E:\n    take(it)",
    "in finally": "try:\n    it = f()\nfinally:\n    take(it)",
    "deleted in a try": "it = 1\ntry:\n    del it\n    it = f()\nexcept E:\n    take(it)",
    "the handler's own": "try:\n    f()\nexcept E as it:\n    pass\ntake(it)",
    "a match that may not": "match a:\n    case 1:\n        it = 1\n    case 2:\n        it = 2\ntake(it)",
    "a captured name elsewhere": "match a:\n    case [it]:\n        pass\ntake(it)",
    "another class's": "class A:\n    it = 1\n    def f(self):\n        take(it)",
    "of another function": "def f():\n    it = 1\ndef g():\n    take(it)",
    "read before under a condition": "if a:\n    it = 1\nif b:\n    print(it)\ntake(it)",
    "read before in a part that may be passed over": "if a:\n    it = 1\nif b and it > 0:\n    pass\ntake(it)",
    "another constant": "if phase == 'train':\n    it = 1\nif phase == 'val':\n    take(it)",
}


@pytest.mark.parametrize("text", SURE.values(), ids=SURE)
def test_a_name_that_has_a_value_on_every_way_is_no_fault(text: str) -> None:
    assert faults(text) == []


@pytest.mark.parametrize("text", SURE.values(), ids=SURE)
def test_so_in_a_function(text: str) -> None:
    body = text.replace("\n", "\n    ")
    if "import *" not in text and "global" not in text:
        assert faults(f"def outer(a, b, y, n, rank, phase):\n    {body}\n") == []


@pytest.mark.parametrize("text", UNSURE.values(), ids=UNSURE)
def test_a_name_that_some_way_leaves_without_a_value_is_a_fault(text: str) -> None:
    assert len(faults(text)) >= 1


def test_each_place_is_told_by_itself() -> None:
    text = "if a:\n    it = 1\n    take(it)\ntake(it)\nif a:\n    take(it)\n"
    assert faults(text) == [4]


def test_letters_of_several_bytes_before_it_do_not_matter() -> None:
    assert faults("a = 'äö'; take(it)\nit = 1\nb = 'äö'; take(it)") == [1]


def test_what_is_not_asked_about_is_not_told() -> None:
    assert unassigned("print(nothing)\n", []) == []


@pytest.mark.parametrize("head", ["for x in y", "while y"])
@pytest.mark.parametrize(
    ("body", "fault"), [("it = 1", False), ("if new: break\n    it = 1", True), ("if x: it = 1", True)]
)
def test_where_each_loop_makes_a_pass_its_end_has_what_a_turn_gives(head: str, body: str, fault: bool) -> None:
    text = f"{head}:\n    {body}\ntake(it)\n"
    new = [text.index("new")] if "new" in text else []
    assert unassigned_names(text, ["it"]) == {"it"}
    assert unassigned_names(text, ["it"], new) == ({"it"} if fault else set())
    assert unassigned_names(text, ["it"], []) == ({"it"} if fault and not new else set())


#: Loops that the script leaves by itself, and whether any of its ways has a value.
LEFT = {
    "on one way of two": ("if a: break\n    it = 1\n    if b: break", True),
    "on the only one": ("it = 1\n    if b: break", True),
    "on none": ("if a: break\n    if b: break", False),
    "on one under a condition": ("if c: it = 1\n    if b: break", False),
}


@pytest.mark.parametrize(("body", "known"), LEFT.values(), ids=LEFT)
def test_a_loop_has_what_one_of_its_own_ways_out_gives_but_for_new_ones(body: str, known: bool) -> None:
    text = f"while True:\n    {body}\ntake(it)\n"
    left = text.replace("    ", "    if new: break\n    ", 1)
    assert unassigned_names(text, ["it"], []) == (set() if known else {"it"})
    assert unassigned_names(left, ["it"], [left.index("new")]) == {"it"}


#: The score of a loop that may make no pass.
MEASURED = """
right = 0
for x, y in val_loader:
    right += hits(model(x), y)
    acc = right / len(held_out)
    if acc > best:
        best = acc
"""


def test_a_score_that_only_a_loop_gives_is_none_where_the_loop_makes_no_pass(tmp_path: Path) -> None:
    new = rewritten(plan_of(tmp_path, script(MEASURED, "best = 0")))
    assert "\n    acc = None\n    for x, y in val_loader:\n" in new


def test_a_name_that_new_code_would_read_too_early_is_asked_about(tmp_path: Path) -> None:
    text = script(f"if warm:\n    acc = 0.5\n{MEASURED}", "best = 0")
    plan = plan_of(tmp_path, text)
    [question] = plan.questions
    assert (question.line, question.code, plan.files) == (18, "PAI012", [])
    assert question.message.startswith(
        "`acc` may have no value where the new code for this place reads it: it gets one at"
    )
    assert question.message.endswith("Assign it on every way.")  # None is no answer, where a model is asked about


def test_what_the_script_itself_reads_in_the_same_place_is_its_own_affair(tmp_path: Path) -> None:
    text = script("acc = evaluate(model)\nif acc > best:\n    best = acc", "best = 0")
    assert plan_of(tmp_path, text.replace("range(10)", "range(epochs)")).questions == []
    assert plan_of(tmp_path, text.replace("lr=0.1", "lr=lr").replace("BEFORE", "if a:\n    lr = 0.1")).questions == []


@pytest.mark.parametrize(
    ("later", "asked"),
    [
        ("", False),
        ("print(model)", False),
        ("if b:\n    log(b)", False),
        ("for n in range(epochs):\n    log(model)\nif b:\n    exit()", False),
        ("for n in range(epochs):\n    if b: log(model)\nif b:\n    exit()", True),
        ("for n in range(epochs):\n    for x in y:\n        log(model)\nif b:\n    exit()", False),
        ("for n in range(epochs):\n    for x in y:\n        if b: log(model)\nif b:\n    exit()", True),
        ("for n in range(epochs):\n    while b:\n        log(model)\nif b:\n    exit()", True),
        ("for n in others:\n    log(model)\nif b:\n    exit()", True),
        ("if b:\n    model = model.half()", False),
        ("if b:\n    log(model)\n    raise SystemExit", False),
        ("if b:\n    log(model)\nelif c:\n    model = model.half()\n    raise SystemExit\nelse:\n    pass", False),
        ("if b:\n    log(model)\nelif c:\n    raise SystemExit\nelse:\n    log(model)", True),
        ("if c:\n    log(model)\nelse:\n    raise ValueError(c)\nif b:\n    exit()", False),
        ("if c:\n    log(model)\nelse:\n    raise Pruned(c)\nif b:\n    exit()", True),
        ("if c:\n    log(model)\nelse:\n    raise SystemExit(c)", True),
        ("if c:\n    log(model)\nelif d:\n    raise ValueError(c)\nif b:\n    exit()", True),
        ("if b:\n    raise SystemExit", True),
        ("if b: raise SystemExit", True),
        ("if b:\n    exit()", True),
        ("try:\n    log(model)\nexcept NameError:\n    print(b)", True),
    ],
)
def test_so_where_the_statements_that_come_next_read_it(tmp_path: Path, later: str, asked: bool) -> None:
    text = script(MEASURED, "acc = best = 0").replace(
        "model = Net()\n", f"if a:\n    model = Net()\nelif b:\n    model = Other()\n{later}\n"
    )
    assert bool(plan_of(tmp_path, text).questions) == asked


def test_an_optimizer_is_handed_over_in_each_branch_where_a_choice_may_build_none(tmp_path: Path) -> None:
    """An evaluation needs none, and leaves before anything reads it."""
    built = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    choice = f"if kind == 'sgd':\n    {built}elif kind == 'adam':\n    {built.replace('SGD', 'Adam')}"
    text = script(MEASURED, "acc = best = 0\nif testing:\n    print(evaluate(model))\n    exit()")
    new = rewritten(plan_of(tmp_path, text.replace(built, choice)))
    assert new.count("    GPA.pai_tracker.set_optimizer_instance(optimizer)\n") == 2
    new = rewritten(plan_of(tmp_path, text.replace(built, f"{choice}else:\n    {built.replace('SGD', 'Adagrad')}")))
    assert new.count("\nGPA.pai_tracker.set_optimizer_instance(optimizer)\n") == 1
    several = choice.replace("elif", "if")
    new = rewritten(plan_of(tmp_path, text.replace(built, several)))
    assert new.count("    GPA.pai_tracker.set_optimizer_instance(optimizer)\n") == 2
    for sure in (
        f"optimizer = torch.optim.Adagrad(model.parameters())\n{several}",
        several.replace("if kind == 'adam'", "else", 1),
    ):
        new = rewritten(
            plan_of(tmp_path, text.replace(built, f"{sure}if rest:\n    {built.replace('SGD', 'Adagrad')}"))
        )
        assert new.count("\nGPA.pai_tracker.set_optimizer_instance(optimizer)\n") == 1


def test_so_where_the_statements_around_the_block_read_it(tmp_path: Path) -> None:
    """A function that builds a model of some names alone, and returns it whatever its name."""
    text = script(MEASURED, "acc = best = 0")
    wrapped = next(line for line in text.splitlines() if line.startswith("model = DDP("))
    text = text.replace("model = Net()\n", "if name == 'net':\n    model = Net()\n")
    assert plan_of(tmp_path, text.replace(wrapped, f"if many:\n    {wrapped}")).questions == []


@pytest.mark.parametrize("epoch", ["del stats", "del x, stats", "if verbose:\n    del stats"])
def test_a_score_is_kept_before_what_it_is_taken_from_is_deleted(tmp_path: Path, epoch: str) -> None:
    text = script(f"stats = evaluate(model)\nif stats['acc'] > best:\n    best = stats['acc']\n{epoch}", "best = 0")
    new = rewritten(plan_of(tmp_path, text))
    assert "    stats = evaluate(model)\n    pai_score = stats['acc']\n" in new
    assert new.rstrip().endswith("pai_distributed.report_validation_score(pai_score, model)")


def test_a_value_of_the_last_batch_is_kept_before_what_it_is_taken_from_is_deleted(tmp_path: Path) -> None:
    text = script().replace("loss = criterion(model(x), y)", "losses = criterion(model(x), y)")
    text = text.replace("loss.backward()", "losses['all'].backward()")
    text = text.replace("optimizer.step()\n", "optimizer.step()\n        del x, losses\n")
    new = rewritten(plan_of(tmp_path, text, Options(metric="losses['all']", mode="min")))
    assert "    pai_score = None\n    for x, y in loader:\n" in new
    kept, _, after = new.partition("        del x, losses\n")
    assert "        pai_score = losses['all']\n" in kept
    assert "\n    pai_distributed.report_validation_score(pai_score, model)\n" in after


#: A score that is measured again only under further conditions.
AGAIN = """
if epoch % 2 == 0:
    if rank == 0:
        result = evaluate(model, None)
        save(result[1])
    if short:
        for n in (500, 200):
            if rank == 0:
                result = evaluate(model, n)
"""


def test_a_score_that_is_measured_again_under_further_conditions_counts_as_it_is_first(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, script(AGAIN, "rank = dist.get_rank()"), Options(metric="result[1]", mode="min"))
    assert plan.questions == []
    new = rewritten(plan)
    assert "        save(result[1])\n            pai_score = result[1]\n        if short:\n" in new
    assert any("it gets another value later (line 21)" in note.message for note in plan.notes)


#: A score that each turn has, whose name some turns use again.
USED_AGAIN = """
FLAG
acc = 0.0
for x, y in val_loader:
    acc += compare(model(x), y)
acc /= len(val_loader)
log(acc)
if TEST:
    for x, y in singles:
        acc += compare(model(x), y)
"""


@pytest.mark.parametrize(
    ("flag", "test", "first"),
    [
        pytest.param("", "epoch % 10 == 0", True, id="by the turn"),
        pytest.param("often = epoch % 10 == 0", "often", True, id="by a flag of it"),
        pytest.param("turns += 1", "turns > 3", True, id="by a counter of turns"),
        pytest.param("", "args.more", False, id="by an option"),
        pytest.param("", "acc > 1", False, id="by its own value"),
        pytest.param("n = 0\nfor x in val_loader:\n    n += 1", "n > 0", False, id="by a counter within a turn"),
    ],
)
def test_a_score_whose_name_some_turns_use_again_counts_where_each_turn_has_it(
    tmp_path: Path, flag: str, test: str, first: bool
) -> None:
    text = script(USED_AGAIN.replace("FLAG", flag).replace("TEST", test), "turns = 0")
    plan = plan_of(tmp_path, text, Options(metric="acc", mode="max"))
    assert plan.questions == []
    assert ("    acc /= len(val_loader)\n    pai_score = acc\n" in rewritten(plan)) is first
    assert any("another value later" in note.message for note in plan.notes) is first


def test_a_score_that_is_measured_again_where_each_turn_has_it_counts_as_it_is_last(tmp_path: Path) -> None:
    again = "acc = evaluate(model)\nif average:\n    acc = evaluate(mean)\nlog(acc)"
    plan = plan_of(tmp_path, script(again), Options(metric="acc", mode="max"))
    assert rewritten(plan).rstrip().endswith("log(acc)\n    pai_distributed.report_validation_score(acc, model)")
    assert not any("later" in note.message for note in plan.notes)


def test_what_another_branch_sets_is_no_later_value(tmp_path: Path) -> None:
    epoch = "if epoch % 5 == 0:\n    stats = evaluate(model)\nelse:\n    stats = None\nlog(stats)"
    plan = plan_of(tmp_path, script(epoch), Options(metric="stats['acc']", mode="max"))
    assert "pai_score = stats['acc']\n" in rewritten(plan)
    assert not any("later" in note.message for note in plan.notes)
