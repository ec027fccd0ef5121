"""A score that lies in functions below the epoch loop can be named, and is brought to the loop."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import indent

import pytest

from retrofit.options import Options
from retrofit.plan import Plan
from tests.helpers import code, plan_of, rewritten, script

MEASURE = """
def measure(model, loader):
    hits = 0
    for x, y in loader:
        hits += model(x) == y
    acc = hits / len(loader)
    print(acc)
"""
VALIDATE = """

def validate(model, loader):
    with torch.no_grad():
        measure(model, loader)
    print('validated')


"""
DEEP = code(MEASURE) + VALIDATE
INNER = "def inner(model, loader):\n    measure(model, loader)\n\n\n"
#: A function that keeps two values.
SEVERAL = """
def validate(model, loader):
    with torch.no_grad():
        acc = model(1)
        out = {}
        out['loss'] = 1
    print(acc)
"""


def inner(text: str) -> str:
    """Return code as the epoch loop has it."""
    return "".join(f"    {line}\n" for line in text.splitlines())


def planned(folder: Path, functions: str, epoch: str = "validate(model, loader)", metric: str = "") -> Plan:
    text = code(functions).rstrip("\n") + "\n\n\n" + script(epoch)
    return plan_of(folder, text, Options(metric=metric, mode="max" if metric else ""))


def run(new: str, **names: object) -> object:
    """Return what `validate` gives back or notes in a rewritten script, of which only the functions are run."""
    noted = _Noted()
    scope: dict[str, object] = {"torch": _Torch, "pai_distributed": noted, **names}
    tree = ast.parse(new)
    tree.body = [statement for statement in tree.body if isinstance(statement, ast.FunctionDef)]
    exec(compile(tree, "train.py", "exec"), scope)
    validate = scope["validate"]
    assert callable(validate)
    given = validate(lambda x: x, [(1, 1), (1, 2)])
    return noted.score if "noted_score()" in new else given


class _Noted:
    score: object = None

    def note_score(self, score: object) -> None:
        self.score = score


class _Torch:
    class no_grad:  # noqa: N801
        def __enter__(self) -> None: ...
        def __exit__(self, *given: object) -> None: ...


#: How the loop hands over what is noted.
NOTED = "pai_distributed.report_validation_score(pai_distributed.noted_score(), model)\n"
BROUGHT = {
    "two calls down": (DEEP, "acc"),
    "by the function's name": (DEEP, "measure:acc"),
    "a dict's item": (
        DEEP.replace("acc = ", "out = {}\n    out['acc'] = ").replace("print(acc)", "print(out)"),
        "out['acc']",
    ),
    "a tuple's": (DEEP.replace("acc = ", "both = 1, ").replace("print(acc)", "print(both)"), "both[1]"),
    "an attribute's": (
        DEEP.replace("acc = ", "meter = Meter()\n    meter.avg = ").replace("print(acc)", "print(meter.avg)"),
        "meter.avg",
    ),
    "what is returned and not taken": (DEEP.replace("print(acc)", "return acc"), "acc"),
    "three calls down": (
        DEEP.replace("        measure(", "        inner(").replace("def validate", f"{INNER}def validate"),
        "acc",
    ),
    "under a condition": (DEEP.replace("        measure(", "        if rank == 0:\n            measure("), "acc"),
}


@pytest.mark.parametrize(("functions", "metric"), BROUGHT.values(), ids=BROUGHT)
def test_a_value_below_the_loop_is_brought_to_it(tmp_path: Path, functions: str, metric: str) -> None:
    plan = planned(tmp_path, functions, metric=metric)
    assert plan.questions == []
    assert ("validation score", f"{metric} (higher is better)") in [decision[:2] for decision in plan.decisions]
    new = rewritten(plan)
    assert f"    validate(model, loader)\n    {NOTED}" in new
    assert run(new, rank=0, Meter=type("Meter", (), {})) == 0.5
    if "rank" in functions:
        assert run(new, rank=1) is None


#: A function that gives a name its value in a choice.
CHOICE = """
def validate(model, loader):
    with torch.no_grad():
        print(1)
    BEFORE
    if rank == 1:
        acc = model(1)
    elif rank == 2:
        acc = model(2)
    LAST
"""
#: One that does so for each batch.
CHOICES = """
def validate(model, loader):
    with torch.no_grad():
        for x, y in loader:
            if x != y:
                stats = {'acc': [model(1)]}
            else:
                stats = {'acc': [model(3)]}
            print(len(stats))
"""


@pytest.mark.parametrize(
    ("functions", "metric", "values"),
    [
        pytest.param(CHOICE.replace("LAST", "else:\n        acc = model(3)"), "acc", [3, 1, 2], id="in all branches"),
        pytest.param(
            CHOICE.replace("LAST", "else:\n        acc = model(3)\n    print(acc)"), "acc", [3, 1, 2], id="and read"
        ),
        pytest.param(CHOICE.replace("BEFORE", "acc = model(3)"), "acc", [3, 1, 2], id="in some once more"),
        pytest.param(CHOICES, "stats['acc'][0] + 1", [2, 2, 2], id="for each batch"),
    ],
)
def test_a_value_of_several_branches_is_brought_from_each(
    tmp_path: Path, functions: str, metric: str, values: list[int]
) -> None:
    plan = planned(tmp_path, functions.replace("BEFORE", "pass").replace("LAST", "pass"), metric=metric)
    assert (plan.questions, [note.message for note in plan.notes if "only if" in note.message]) == ([], [])
    assert [run(rewritten(plan), rank=rank) for rank in range(3)] == values


@pytest.mark.parametrize(("metric", "values"), [("acc", [None, 1, 2]), ("acc + 1", [None, 2, 3])])
def test_a_value_of_some_branches_alone_is_noted_in_these(tmp_path: Path, metric: str, values: list[int]) -> None:
    plan = planned(tmp_path, CHOICE.replace("BEFORE", "pass").replace("LAST", "pass"), metric=metric)
    new = rewritten(plan)
    assert [run(new, rank=rank) for rank in range(3)] == values
    assert new.count(f"note_score({metric})") == 2


END = "def end(model, loader):\n    validate(model, loader)\n\n\n"
TRAIN = """def train(model, loader):
    for step, x in enumerate(loader):
        model(x).backward()
        if step % 100 == 0:
            validate(model, loader)


"""
#: Functions that validate once in so many batches, and at the end of each epoch.
OFTEN = DEEP + TRAIN + END
EACH_EPOCH = "train(model, loader)\nend(model, loader)"


@pytest.mark.parametrize(
    ("functions", "epoch", "last"),
    [
        pytest.param(OFTEN, EACH_EPOCH, "end", id="in two functions"),
        pytest.param(
            OFTEN.replace("            validate(", "            check(") + END.replace("end", "check"),
            EACH_EPOCH,
            "end",
            id="in one that the batches call",
        ),
        pytest.param(
            f"{OFTEN}{END.replace('end', 'first')}first(1, [])\n", EACH_EPOCH, "end", id="and before the training"
        ),
        pytest.param(
            DEEP,
            "for step in range(9):\n    validate(model, loader)\nvalidate(model, loader)",
            "validate",
            id="in the loop",
        ),
        pytest.param(
            DEEP,
            "for x in loader:\n    model(x).backward()\n    validate(model, loader)\nvalidate(model, loader)",
            "validate",
            id="in the loop that trains",
        ),
    ],
)
def test_a_validation_at_the_end_of_each_epoch_counts_before_those_among_batches(
    tmp_path: Path, functions: str, epoch: str, last: str
) -> None:
    plan = planned(tmp_path, functions, epoch, "acc")
    assert plan.questions == []
    new = rewritten(plan)
    assert f"\n    {last}(model, loader)\n    {NOTED}" in new
    assert new.count("report_validation_score(") == new.count("note_score(acc)") == 1
    assert run(new) == 0.5


@pytest.mark.parametrize(
    ("functions", "epoch"),
    [
        pytest.param(OFTEN.replace("    validate(", "    low = validate("), EACH_EPOCH, id="taken"),
        pytest.param(
            OFTEN.replace("            validate(", "            low = validate("), EACH_EPOCH, id="taken in batches"
        ),
        pytest.param(OFTEN.replace("    for step, x in enumerate(loader):\n", ""), EACH_EPOCH, id="in none of them"),
        pytest.param(
            OFTEN + END.replace("end", "again"),
            f"{EACH_EPOCH}\nagain(model, loader)",
            id="two in each epoch",
        ),
    ],
)
def test_a_validation_whose_epochs_are_not_plain_gives_none(tmp_path: Path, functions: str, epoch: str) -> None:
    assert planned(tmp_path, functions, epoch, "measure:acc").questions


#: A function that measures two sets in each epoch, and prints what it finds.
TWICE = "validate(model, dev)\nvalidate(model, test, name='final')"
IN_TURN = "for one in ({}):\n    validate(model, one)\nvalidate(model, dev)"
SETS = """
def validate(model, loader, name='dev'):
    with torch.no_grad():
        acc = sum(model(x) == y for x, y in loader) / 2
    print(name, acc)


"""


@pytest.mark.parametrize("metric", ["acc", "validate:acc"])
def test_of_several_calls_of_a_function_the_question_names_each_by_what_it_alone_is_given(
    tmp_path: Path, metric: str
) -> None:
    (question,) = planned(tmp_path, SETS, TWICE, metric).questions
    assert "--metric validate@dev:acc (line 20) or --metric validate@test:acc (line 21)." in question.message


@pytest.mark.parametrize("word", ["test", "final"])
def test_a_call_that_is_named_by_what_it_is_given_gives_the_score(tmp_path: Path, word: str) -> None:
    new = rewritten(planned(tmp_path, SETS, TWICE, f"validate@{word}:acc"))
    assert f"    {TWICE.replace(chr(10), chr(10) + '    pai_score = ')}\n    pai_distributed.report_validation" in new
    assert run(new) == 0.5


def test_a_call_that_is_named_counts_beside_one_that_is_given_others_in_turn(tmp_path: Path) -> None:
    new = rewritten(planned(tmp_path, SETS, IN_TURN.format("test, test"), "validate@dev:acc"))
    assert "\n    pai_score = validate(model, dev)\n" in new
    assert run(new) == 0.5


@pytest.mark.parametrize(
    ("functions", "epoch", "metric"),
    [
        pytest.param(SETS, TWICE, "validate@model:acc", id="both are given it"),
        pytest.param(SETS, "validate(model, dev)", "validate@test:acc", id="the only one is not"),
        pytest.param(SETS, IN_TURN.format("dev, test"), "validate@dev:acc", id="another is in turn"),
        pytest.param(SETS.replace("print(name, acc)", "return 1"), TWICE, "validate@dev:acc", id="gives another back"),
    ],
)
def test_a_word_that_tells_no_call_apart_is_asked_about(
    tmp_path: Path, functions: str, epoch: str, metric: str
) -> None:
    assert planned(tmp_path, functions, epoch, metric).questions


EITHER = "if rank == 0:\n    validate(model, loader)\nelse:\n    validate(model, None)"


@pytest.mark.parametrize(
    "calls",
    [
        EITHER,
        EITHER.replace("else", "elif rank == 1"),
        EITHER.replace("else:\n    ", "else:\n    other = "),
        EITHER.replace("else", "elif rank == 1") + "\nelse:\n    validate(model, loader)",
    ],
    ids=["two", "some", "taken in one", "three"],
)
@pytest.mark.parametrize("functions", [DEEP, f"{MEASURE.replace('measure', 'validate')}\n\n"], ids=["below", "there"])
def test_a_function_called_in_one_of_several_branches_gives_its_value_in_each(
    tmp_path: Path, functions: str, calls: str
) -> None:
    new = rewritten(planned(tmp_path, functions, calls, "acc"))
    assert inner(calls) + f"    {NOTED}" in new
    assert run(new) == 0.5


#: A trainer that validates among its batches, and lets what it has measured begin anew at once.
AMONG = """
class Trainer:
    def __init__(self, model):
        self.model = model
        self.losses = defaultdict(float)

    def run(self):
        for epoch in range(10):
            self.train()

    def train(self):
        for x in loader:
            loss = self.model(x)
            loss.backward()
            optimizer.step()
            if rank == 0 and epoch % 8 == 0:
                self.check()

    def check(self):
        for x in held:
            self.losses["mel"] += float(self.model(x))
        print(dict(self.losses))
        self.losses = defaultdict(float)
        END


"""


@pytest.mark.parametrize("metric", ["self.losses['mel']", "check:self.losses['mel']"])
def test_a_value_of_a_validation_among_the_batches_is_noted_before_it_begins_anew(tmp_path: Path, metric: str) -> None:
    head = script().partition("for epoch")[0] + AMONG + "Trainer(model).run()\n"
    plan = plan_of(tmp_path, head.replace("END", "return 1"), Options(metric=metric, mode="min"))
    new = rewritten(plan)
    check = new.partition("def check")[2]
    assert 0 < check.index('note_score(self.losses["mel"])') < check.index("self.losses = ")
    assert f"            self.train()\n            {NOTED}" in new
    named = plan_of(tmp_path, head.replace("END", "yield 1"), Options(metric="check:self.losses['mel']", mode="min"))
    assert ["has no meaning in this epoch loop" in one.message for one in named.questions] == [True]


#: A trainer whose validation prints what a meter of the trainer has.
METERS = """
class Trainer:
    def __init__(self, model):
        self.model = model
        self.meter = Meter()

    def run(self):
        for epoch in range(10):
            self.train()
            self.validate()

    def train(self):
        for x in loader:
            loss = self.model(x)
            loss.backward()
            optimizer.step()

    def validate(self):
        size = len(next(iter(held))[0])
        print(f"{size} of {len(held)}")
        for x in held:
            with torch.no_grad():
                self.meter.update(self.model(x).item(), size)
        print(f"{self.meter.avg}")
        END

    def begin(self):
        self.meter.__init__()


"""
#: How it lets the meter begin anew.
ANEW = ["self.meter.__init__()", "self.meter.reset()", "self.meter = Meter()", "self.begin()"]


def metered(end: str) -> str:
    return script().partition("for epoch")[0] + METERS.replace("END", end) + "Trainer(model).run()\n"


@pytest.mark.parametrize("end", ANEW)
@pytest.mark.parametrize("metric", ["self.meter.avg", "validate:self.meter.avg"])
def test_what_a_validation_sets_back_is_taken_before_that(tmp_path: Path, metric: str, end: str) -> None:
    options = Options(metric=metric, mode="max")
    for ending, taken in ((end, "pai_score = X"), (f"{end}\n        return 1", "pai_distributed.note_score(X)")):
        new = rewritten(plan_of(tmp_path, metered(ending), options))
        validate = new.partition("def validate")[2].partition("def begin")[0]
        assert 0 < validate.index(f"        {taken.replace('X', 'self.meter.avg')}\n") < validate.index(end)
        assert "report_validation_score(self" not in new


def test_what_a_validation_does_not_set_back_is_handed_over_as_the_loop_has_it(tmp_path: Path) -> None:
    new = rewritten(plan_of(tmp_path, metered("return 1"), Options(metric="self.meter.avg", mode="max")))
    assert "pai_distributed.report_validation_score(self.meter.avg, model)" in new


@pytest.mark.parametrize("end", ["return 1", *ANEW])
def test_the_question_names_what_a_validation_prints_of_the_meters_that_it_fills(tmp_path: Path, end: str) -> None:
    (question,) = plan_of(tmp_path, metered(end)).questions
    assert "Its validation knows `validate:self.meter.avg` (line " in question.message
    assert "size" not in question.message


OF_SETS = "for loader in loaders:\n    validate(model, loader)"
IN_VALIDATION = DEEP.replace("        measure(", "        for loader in loaders:\n            measure(")


@pytest.mark.parametrize(("functions", "epoch"), [(DEEP, OF_SETS), (IN_VALIDATION, "validate(model, loaders)")])
def test_of_a_function_that_a_loop_over_sets_calls_the_last_value_counts_if_it_is_named(
    tmp_path: Path, functions: str, epoch: str
) -> None:
    plan = planned(tmp_path, functions, epoch, "acc")
    assert indent(f"{epoch}\n{NOTED}", "    ") in rewritten(plan)
    [note] = [one.message for one in plan.notes if "last one's alone counts" in one.message]
    assert "`acc` is made anew in each turn of `for loader in loaders:`" in note
    assert planned(tmp_path, functions.replace("print(acc)", "if acc > best:\n        best = acc"), epoch).questions


def test_a_function_called_twice_in_a_turn_gives_none(tmp_path: Path) -> None:
    assert planned(tmp_path, DEEP, EITHER.replace("else:\n    ", ""), "measure:acc").questions


@pytest.mark.parametrize(
    ("ending", "call"),
    [
        ("    return 1\n", "one = measure(model, loader)"),
        ("    return 1, 2\n", "one, *more = measure(model, loader)"),
        ("    if hits:\n        return 1\n    return 2\n", "one = measure(model, loader)"),
        ("    return 1\n", "one = measure(model, loader) + 1"),
        ("    return 1\n", "one = two = measure(model, loader)"),
        ("    return 1\n", "measure(model, loader)"),
        ("    for hits in loader:\n        return 1\n", "one = measure(model, loader)"),
    ],
    ids=["one", "two", "one of two", "in an expression", "two names", "not taken", "in a loop"],
)
def test_a_function_that_returns_something_else_notes_the_score(tmp_path: Path, ending: str, call: str) -> None:
    text = rewritten(planned(tmp_path, f"{MEASURE.lstrip()}{ending}\n\n", call, "acc"))
    assert "    acc = hits / len(loader)\n    pai_distributed.note_score(acc)\n    print(acc)\n" + ending in text
    assert f"    {call}\n    {NOTED}" in text


@pytest.mark.parametrize(
    ("leaves", "told"),
    [
        ("    if epoch % 5:\n        return 0\n", ["not (epoch % 5)"]),
        ("    if dist.get_rank() != 0:\n        return 0\n", []),
        ("", []),
    ],
    ids=["in some turns", "on some ranks", "never"],
)
@pytest.mark.parametrize("last", ["    return 1\n", ""], ids=["noted", "returned"])
def test_a_function_that_returns_before_it_has_a_score_is_told(
    tmp_path: Path, leaves: str, told: list[str], last: str
) -> None:
    leaves = leaves if last else leaves.replace("return 0", "return")
    functions = MEASURE.lstrip().replace("    hits = 0\n", f"{leaves}    hits = 0\n") + last
    plan = planned(tmp_path, f"import torch.distributed as dist\n\n\n{functions}\n\n", "measure(model, loader)", "acc")
    assert ("note_score(" in rewritten(plan)) is bool(last)
    found = [note.message for note in plan.notes if note.code == "PAI012"]
    assert [message.partition("only if ")[2].partition(";")[0] for message in found] == told


@pytest.mark.parametrize("turns", ["for x, y in loader", "while more()"])
def test_a_sum_is_noted_once_it_is_whole(tmp_path: Path, turns: str) -> None:
    functions = MEASURE.replace("for x, y in loader", turns).replace("    acc = hits / len(loader)\n", "")
    text = rewritten(planned(tmp_path, f"{functions}    return 1\n\n\n", "one = measure(model, loader)", "hits"))
    assert "        hits += model(x) == y\n    pai_distributed.note_score(hits)\n" in text


ENDING = "stop = validate(model, loader)\nif stop or epoch == 9:\n    validate(model, held_out)\n    break"


@pytest.mark.parametrize(
    ("functions", "epoch"),
    [
        pytest.param(DEEP.replace("    print('validated')", "    return 1"), ENDING, id="taken"),
        pytest.param(DEEP, ENDING.replace("stop = ", ""), id="alone"),
    ],
)
def test_a_test_after_which_the_loop_ends_is_no_second_validation(tmp_path: Path, functions: str, epoch: str) -> None:
    new = rewritten(planned(tmp_path, functions, epoch, "measure:acc"))
    assert inner(epoch) + f"    {NOTED}" in new


@pytest.mark.parametrize(
    "epoch",
    [
        ENDING.replace("    break", "    print(stop)"),
        ENDING.replace("if stop or epoch == 9", "for held_out in sets"),
    ],
    ids=["the loop goes on", "an inner loop ends"],
)
def test_a_second_validation_is_asked_about_where_the_loop_goes_on(tmp_path: Path, epoch: str) -> None:
    assert epoch != ENDING
    functions = DEEP.replace("    print('validated')", "    return 1")
    assert planned(tmp_path, functions, epoch, "measure:acc").questions


def test_the_question_names_what_can_be_brought_with_function_and_line(tmp_path: Path) -> None:
    [question] = planned(tmp_path, DEEP).questions
    assert "Its validation knows `acc` (line 5 in `measure`): choose one with --metric EXPR" in question.message


@pytest.mark.parametrize(
    ("step", "known"),
    [
        pytest.param("mean_loss += (model(x) - mean_loss) / (i + 1)", "mean_loss", id="added to"),
        pytest.param("mean_loss = mean_loss + (model(x) - mean_loss) / (i + 1)", "mean_loss", id="set"),
        pytest.param("mean_loss = (mean_loss * i + model(x)) / (i + 1)", "mean_loss", id="weighted"),
        pytest.param("mean_loss += model(x)", "mean_loss / len(loader)", id="a sum"),
    ],
)
def test_the_question_names_the_mean_that_a_validation_keeps(tmp_path: Path, step: str, known: str) -> None:
    """And no number by which it changes from batch to batch; the mean that is made of a sum at the end is one."""
    text = "@torch.no_grad()\ndef measure(model, loader):\n    mean_loss = 0\n    for i, x in enumerate(loader):\n"
    text += f"        {step}\n    print({known})\n"
    (question,) = planned(tmp_path, text, "measure(model, loader)").questions
    assert f"Its validation knows `{known}` (line " in question.message
    assert planned(tmp_path, text, "measure(model, loader)", known).questions == []


@pytest.mark.parametrize("path", ["Path(folder)", "folder / 'a.png'", "folder / f'{step}.png'"])
def test_the_question_offers_no_path_that_a_function_prints(tmp_path: Path, path: str) -> None:
    text = "from pathlib import Path\n\n\n@torch.no_grad()\ndef draw(model, folder, step):\n"
    text += f"    model.eval()\n    path = {path}\n    save_image(model(1), path)\n    print(f'{{path}}')\n"
    (question,) = planned(tmp_path, text, "draw(model, folder, epoch)").questions
    assert "draw:path" not in question.message
    assert "`path`" not in question.message


@pytest.mark.parametrize("logged", ["pass", "with torch.no_grad():\n            val_acc = f(x)"])
def test_the_question_names_what_a_validation_has_that_the_training_pass_runs_at_its_end(
    tmp_path: Path, logged: str
) -> None:
    """Not what that pass logs of its own batches."""
    trains = f"def run(model, loader):\n    for x in loader:\n        model(x).backward()\n        {logged}\n"
    functions = f"@torch.no_grad()\n{code(MEASURE)}\n\n{trains}    measure(model, held_out)\n"
    (question,) = planned(tmp_path, functions, "run(model, loader)").questions
    assert "Its validation knows `acc` (line 6 in `measure`): choose one with --metric EXPR" in question.message


@pytest.mark.parametrize(
    ("name", "given", "place"),
    [
        pytest.param("acc", "print", "line 5 in `measure`", id="told by its name"),
        pytest.param("mean", "scheduler.step", "line 6 in `measure`", id="given to a scheduler"),
        pytest.param("mean", "decay", "line 6 in `measure`", id="given to what steps one"),
    ],
)
def test_the_question_names_what_a_validation_behind_another_function_has(
    tmp_path: Path, name: str, given: str, place: str
) -> None:
    decay = "def decay(value):\n    if not warms_up:\n        scheduler.step(value)\n\n\n"
    functions = (
        code(MEASURE).replace("hits", "found").replace("acc", name).replace("print(", f"{given}(")
        + VALIDATE
        + TRAIN
        + END
        + decay
    )
    (question,) = planned(tmp_path, functions, EACH_EPOCH).questions
    assert f"Its validation knows `{name}` ({place}): choose one with --metric EXPR" in question.message
    assert planned(tmp_path, functions, EACH_EPOCH, name).questions == []


def test_what_a_scheduler_of_the_projects_own_returns_is_nothing_that_a_validation_knows(tmp_path: Path) -> None:
    functions = """
    class Cycle:
        def step(self):
            rate = self.turn()
            return rate, 0.9


    def train(model, loader):
        for x in loader:
            model(x).backward()
            if cycle is not None:
                cycle.step()
        model.eval()
        draw(model(x))


    cycle = Cycle()
    """
    (question,) = planned(tmp_path, functions, "train(model, loader)").questions
    assert "`rate`" not in question.message


def test_the_question_names_no_item_by_a_key_that_is_worked_out(tmp_path: Path) -> None:
    told = "    out = {}\n    for name in names:\n        out['loss ' + name] = hits\n"
    (question,) = planned(tmp_path, DEEP.replace("    print(acc)\n", f"{told}    print(acc)\n")).questions
    assert "`acc` (line 5 in `measure`): choose" in question.message


#: Of a dict, one item after the other.
BY_TURNS = """
def validate(model, loader):
    model.eval()
    known = {'loss': 1, 'f1': 0}
    out = {}
    for name in ('loss', 'f1'):
        value = torch.tensor(known[name])
        torch.distributed.all_reduce(value)
        out[name] = value.item() / 2
    print(out)
"""


def test_an_item_that_a_loop_fills_by_its_variable_is_taken_behind_that_loop(tmp_path: Path) -> None:
    """In its first turn the dict has the first of the names alone."""
    plan = planned(tmp_path, BY_TURNS, metric="out['f1']")
    assert plan.questions == []
    assert "    print(out)\n    return out['f1']\n" in rewritten(plan)


def test_what_is_named_in_the_question_answers_it(tmp_path: Path) -> None:
    [question] = planned(tmp_path, SEVERAL).questions
    named = [part.partition("`")[0] for part in question.message.split("`")[1::2]]
    offered = [name for name in named if name in ("acc", "out['loss']")]
    assert offered == ["acc", "out['loss']"]
    for name in offered:
        assert planned(tmp_path, SEVERAL, metric=name).questions == []


def test_a_training_functions_variable_of_that_name_is_not_taken_for_it(tmp_path: Path) -> None:
    train = "def train(model, loader):\n    acc = model(1)\n    print(acc)\n\n\n"
    new = rewritten(planned(tmp_path, train + DEEP, "train(model, loader)\nvalidate(model, loader)", "acc"))
    assert new.index("def measure") < new.index("note_score(acc)")
    new = rewritten(planned(tmp_path, train + DEEP, "train(model, loader)\nvalidate(model, loader)", "train:acc"))
    assert "pai_score = train(model, loader)" in new


def test_a_training_pass_has_no_name_that_a_validation_called_twice_has_too(tmp_path: Path) -> None:
    train = "def train(model, loader):\n    acc = model(1)\n    acc.backward()\n    print(acc)\n\n\n"
    twice = "train(model, loader)\nvalidate(model, loader)\nif averages:\n    validate(model, loader)"
    [question] = planned(tmp_path, train + DEEP, twice, "acc").questions
    assert (
        "`acc` has no meaning in this epoch loop; say whose is meant with --metric train:acc (line 2). It cannot be \
brought to it from `measure` (line 11): let each function"
        in question.message
    )
    for functions, epoch, metric in ((train + DEEP, twice, "train:acc"), (train, "train(model, loader)", "acc")):
        assert "pai_score = train(model, loader)" in rewritten(planned(tmp_path, functions, epoch, metric))


NOT_BROUGHT = {
    "called twice": (DEEP.replace("        measure(", "        measure(model, loader)\n        measure("), "acc"),
    "a generator": (DEEP.replace("print(acc)", "yield acc"), "acc"),
    "nowhere": (DEEP, "f1"),
}


@pytest.mark.parametrize(("functions", "metric"), NOT_BROUGHT.values(), ids=NOT_BROUGHT)
def test_what_cannot_be_brought_is_asked_about(tmp_path: Path, functions: str, metric: str) -> None:
    [question] = planned(tmp_path, functions, metric=metric).questions
    assert question.code == "PAI105"
    assert "has no meaning in this epoch loop" in question.message
    assert ("cannot be brought to it from `measure` (line 5)" in question.message) is (metric != "f1")


def test_a_function_that_has_no_such_variable_is_told_from_one_that_has(tmp_path: Path) -> None:
    [question] = planned(tmp_path, DEEP, metric="evaluate:acc").questions
    assert "`acc` has no meaning in this epoch loop; say whose is meant with --metric measure:acc (line 5)." in (
        question.message
    )


SAVES = """
def save(state):
    model = state.pop("model")
    print(SHOWN)
    torch.save(model.state_dict(), "last.pt")
"""


@pytest.mark.parametrize(
    ("shown", "handed"),
    [
        pytest.param("1", "report_validation_score(model.module.error.get(), model)", id="which it does not read"),
        pytest.param("model.module.error.get()", "pai_score = save({'model': model})", id="which it reads"),
    ],
)
def test_what_the_loop_knows_is_not_looked_for_in_a_function_with_a_variable_of_that_name(
    tmp_path: Path, shown: str, handed: str
) -> None:
    saves = code(SAVES).replace("SHOWN", shown)
    assert handed in rewritten(planned(tmp_path, saves, "save({'model': model})", "model.module.error.get()"))


#: A pass of the training, of whose cost another function makes the value, and a third one tells it.
PASS = """
def weighted(losses):
    cost = 0
    for one in losses:
        cost = cost + one
    return cost


def tell(cost):
    print(cost)


def train(model, loader):
    cost = weighted(model(1))
    cost.backward()
    tell(cost.item())


"""


def test_what_makes_a_variable_and_what_is_given_it_are_no_others_of_its_name(tmp_path: Path) -> None:
    twice = f"{code(PASS)}def other(model, loader):\n    weighted(model(2))\n\n\n"
    new = rewritten(planned(tmp_path, twice, "train(model, loader)\nother(model, loader)", "cost"))
    assert "    tell(cost.item())\n    return cost\n" in new
    assert "pai_score = train(model, loader)" in new


def test_what_is_given_a_variable_and_makes_another_of_its_name_is_one_that_may_be_meant(tmp_path: Path) -> None:
    """It is given the function that makes the loss, under the name of what it comes to."""
    functions = """
def validate(model, loader, cost):
    total = cost(model(loader))
    cost = total / 2
    print(cost)


def run(model, loader, cost):
    for x in loader:
        cost(model(x)).backward()
    validate(model, loader, cost)


"""
    new = rewritten(planned(tmp_path, code(functions), "run(model, loader, criterion)", "cost"))
    assert "    cost = total / 2\n    pai_distributed.note_score(cost)\n" in new


def test_what_is_made_as_it_is_returned_among_others_is_noted_before_that(tmp_path: Path) -> None:
    measure = MEASURE.replace("    acc = hits / len(loader)\n", "").replace("print(acc)", "return [hits / 9, 1]")
    new = rewritten(planned(tmp_path, f"{measure}\n\n", "print(measure(model, loader))", "hits / 9"))
    assert "    pai_distributed.note_score(hits / 9)\n    return [hits / 9, 1]\n" in new


def test_a_function_that_is_given_a_best_under_the_name_of_a_score_makes_none(tmp_path: Path) -> None:
    functions = """
def keep(net, acc):
    torch.save([net, acc], 'best.pt')


def run(model, loader):
    global top
    acc = sum(model(x) for x in loader)
    if acc > top:
        top = acc
        keep(model, top)
    return 1


"""
    new = rewritten(planned(tmp_path, f"top = 0\n{code(functions)}", "n = run(model, loader)", "acc"))
    assert "for x in loader)\n    pai_distributed.note_score(acc)\n" in new
    assert new.count("note_score(") == 1


METER = """
class Mean:
    def update(self, value):
        self.sum = value

    @property
    def avg(self):
        return self.sum
"""


@pytest.mark.parametrize(
    ("head", "metric", "known"),
    [
        ("class Meter:", "val.mean", False),
        ("class Meter(Mean):", "val.mean", False),
        ("class Meter(Mean):", "val.avg", True),
        ("class Meter(Mean):", "val.sum", True),
        ("class Meter(Base):", "val.mean", True),
        ("class Meter:\n    mean = 0", "val.mean", True),
        ("class Meter:\n    def __getattr__(self, name):\n        return self", "val.mean", True),
        ("class Meter:\n    def update(self, one):\n        setattr(self, 'mean', one)", "val.mean", True),
        ("class Meter:\n    def update(self, one):\n        setattr(self, 'sum', one)", "val.mean", False),
        ("class Meter:\n    def update(self, name):\n        object.__setattr__(self, name, 1)", "val.mean", True),
        ("class Meter:\n    def update(self, name):\n        self.__dict__[name] = 1", "val.mean", True),
        ("class Meter:\n    def update(self, found):\n        self.__dict__.update(found)", "val.mean", True),
    ],
)
@pytest.mark.parametrize("below", [True, False])
def test_an_attribute_that_the_projects_class_does_not_have_has_no_meaning(
    tmp_path: Path, head: str, metric: str, known: bool, below: bool
) -> None:
    made = "val = Meter()\nval.update(1)\nprint(val)\n"
    before = f"{METER}\n{head}\n    pass\n\ndef measure():\n{indent(made, '    ')}\n"
    text = script("measure()" if below else made, before)
    questions = plan_of(tmp_path, text, Options(metric=metric, mode="max")).questions
    assert any("has no meaning in this epoch loop" in one.message for one in questions) is not known


KEEPING = """
def deeper(model, key):
    own = {key: model(key)}
    print(own)

def validate(model, key="acc"):
    deeper(model, key)
    result = measure(model)
    return result
"""


@pytest.mark.parametrize(
    ("head", "metric", "known"),
    [
        ("", "found[name]", False),
        ("", "found[len(found) - 1]", True),
        ("name = 'acc'", "found[name]", True),
        ("def other():\n    name = 1", "found[name]", False),
        ("print([name for name in names])", "found[name]", False),
        ("from names import *", "found[name]", True),
        ("", "np.mean(found)", False),
        ("", "sum(found[name] for name in found)", True),
        ("", "sum(one for one in found if one > least)", False),
        ("", "max(found, key=lambda one: one.acc)", True),
        ("", "validate:result[name]", False),
        ("import numpy as np", "np.mean(found)", True),
        ("from json import loads as f", "f(found)", True),
        ("def other():\n    global name\n    name = 1", "found[name]", True),
        ("", "validate:result[key]", False),  # of what it returns, where the loop takes it
        ("", "deeper:own[key]", True),
        ("", "deeper:own[name]", False),
        ("", "found[epoch]", True),
    ],
)
def test_a_name_beside_the_score_s_own_must_have_a_value_where_it_is_read(
    tmp_path: Path, head: str, metric: str, known: bool
) -> None:
    before = f"{head}\n\n{code(KEEPING)}"
    plan = plan_of(tmp_path, script("found = validate(model)", before), Options(metric=metric, mode="max"))
    assert any("has no meaning in this epoch loop" in one.message for one in plan.questions) is not known


def test_which_direction_is_better_is_not_asked_of_what_has_no_meaning(tmp_path: Path) -> None:
    text = code(DEEP) + "\n\n" + script("validate(model, loader)")
    [question] = plan_of(tmp_path, text, Options(metric="f1_of_none")).questions
    assert "has no meaning in this epoch loop" in question.message


BEST = """
best = 0

def validate(GIVEN):
    net.eval()
    acc = run(net)
    if rank == 0 and acc > best:
        best = acc
        save(net)
    return best
"""


@pytest.mark.parametrize(
    ("given", "loop"),
    [
        pytest.param("net", "low = validate(model)", id="compared elsewhere"),
        pytest.param("net, best", "best = validate(model, best)", id="the best"),
    ],
)
def test_the_score_behind_a_best_is_noted_where_the_loop_takes_the_best(tmp_path: Path, given: str, loop: str) -> None:
    before = code(BEST).replace("GIVEN", given)
    before = before if "best" in given else before.replace("    net.eval()", "    global best\n    net.eval()")
    new = rewritten(plan_of(tmp_path, script(loop, before + "rank = dist.get_rank()\n")))
    assert "    acc = run(net)\n    pai_distributed.note_score(acc)\n    if rank == 0 and acc > best:\n" in new
    assert f"    {loop}\n    {NOTED}" in new


def test_the_score_behind_a_best_is_asked_for_where_it_is_made_twice(tmp_path: Path) -> None:
    loop = "log(validate(model, best))\nbest = validate(model, best)"
    before = code(BEST).replace("GIVEN", "net, best") + "rank = dist.get_rank()\n"
    (question,) = plan_of(tmp_path, script(loop, before)).questions
    told = "Return the epoch's own score to this loop, and name it with --metric EXPR and --mode max."
    assert told in question.message


COUNTED = """
def validate(model, loader):
    total, n = 0.0, FIRST
    for x, y in loader:
        total += model(x) + y
        n += 1
        BATCH
    END
"""


@pytest.mark.parametrize(
    ("first", "batch", "end"),
    [
        pytest.param("0", "pass", "print(total / n)", id="told after the batches"),
        pytest.param("0", "print(total / n)", "pass", id="told in each batch"),
        pytest.param("0", "pass", "print(total / n)\n    n = 99", id="another value later"),
    ],
)
def test_an_expression_is_handed_over_as_it_is_where_all_its_names_have_their_values(
    tmp_path: Path, first: str, batch: str, end: str
) -> None:
    functions = code(COUNTED).replace("FIRST", first).replace("BATCH", batch).replace("END", end)
    plan = planned(tmp_path, functions, metric="total / n")
    assert plan.questions == []
    assert run(rewritten(plan)) == 2.5


@pytest.mark.parametrize("metric", ["(pair[0] / pair[1])", "pair[0] / pair[1]", "pair"])
def test_an_expression_whose_value_takes_the_place_of_its_name_goes_by_that(tmp_path: Path, metric: str) -> None:
    functions = """
    def validate(model, loader):
        pair = [5.0, 2.0]
        pair = float((pair[0] / pair[1]))
        print(pair)
    """
    plan = planned(tmp_path, functions, metric=metric)
    assert plan.questions == []
    assert run(rewritten(plan)) == 2.5


def test_a_mean_that_takes_the_name_of_what_it_is_made_of_is_proposed_by_it(tmp_path: Path) -> None:
    functions = """
    def validate(model, loader):
        val_loss = model(loader)
        val_loss = (val_loss[0] / val_loss[1]).item()
        print(val_loss)
    """
    (asked,) = planned(tmp_path, functions).questions
    assert "`val_loss` (line" in asked.message
    assert "val_loss[0]" not in asked.message


FILLED = """
def rate(outs):
    scores = {}
    FILL
    return scores
def validate(net):
    net.eval()
    return 0, rate(run(net))

def learn(net):
    for x, y in loader:
        loss = criterion(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    low, scores = validate(net)
    print(low, scores['acc'])
"""


@pytest.mark.parametrize(
    "fill",
    [
        "scores['n'] = len(outs)\n    scores['acc'] = mean(outs)",
        "for key in ('n', 'acc'):\n        scores[key] = measure(key, outs)",
        "scores['acc'] = 0\n    for out in outs:\n        scores['acc'] += out",
    ],
)
def test_an_item_is_noted_once_its_dict_is_filled(tmp_path: Path, fill: str) -> None:
    text = script("learn(model)", FILLED.replace("FILL", fill))
    new = rewritten(plan_of(tmp_path, text, Options(metric="scores['acc']", mode="max")))
    assert f"    {fill}\n    pai_distributed.note_score(scores['acc'])\n    return scores\n" in new


ITEMS = """
def validate(net):
    losses = [float(net(x)) for x in held]
    result = {"loss": sum(losses), "wer": sum(losses) / 2}
    return RETURNED
"""


@pytest.mark.parametrize(
    ("returned", "epoch", "taken"),
    [
        pytest.param("result", "got = validate(model)", 'got["wer"]', id="of what it returns"),
        pytest.param("result, 3", "got, n = validate(model)", 'got["wer"]', id="of an item"),
        pytest.param("{'all': result}", "got = validate(model)", 'got["all"]["wer"]', id="within an item"),
        pytest.param(
            "result", "got = validate(model)\ngot = learn(model)", "pai_score", id="before the name gets another value"
        ),
        pytest.param("result['loss']", "got = validate(model)", "pai_distributed.noted_score()", id="of another item"),
    ],
)
@pytest.mark.parametrize("metric", ["validate:result['wer']", "result['wer']"])
def test_an_item_of_a_functions_dict_is_had_of_what_it_returns(
    tmp_path: Path, metric: str, returned: str, epoch: str, taken: str
) -> None:
    text = script(epoch, ITEMS.replace("RETURNED", returned))
    new = rewritten(plan_of(tmp_path, text, Options(metric=metric, mode="min")))
    assert f"report_validation_score({taken}, model)" in new
    assert taken != "pai_score" or '    got = validate(model)\n    pai_score = got["wer"]\n' in new


def test_what_no_function_of_that_name_has_is_not_taken_of_the_loop(tmp_path: Path) -> None:
    text = script("result = validate(model)", ITEMS.replace("RETURNED", "result"))
    [question] = plan_of(tmp_path, text, Options(metric="measure:result['wer']", mode="min")).questions
    assert "has no meaning in this epoch loop" in question.message
