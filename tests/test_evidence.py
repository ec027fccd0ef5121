"""What speaks for a score and against it: what decides on checkpoints, and in which direction."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from retrofit.options import Options
from retrofit.survey.scores.making import TRAINED
from tests.helpers import code, plan_of, rewritten, script, survey_of

SAVES = "    torch.save(model.state_dict(), 'best.pt')\n"
BOTH = "val_loss, quality = validate(model)\n"
STOPPING = """
class EarlyStopping:
    def __init__(self):
        self.best_score, self.bad = None, 0

    def __call__(self, value, model):
        score = TAKEN
        if self.best_score is None:
            self.best_score = score
        elif score < self.best_score + 0.1:
            self.bad += 1
        else:
            self.best_score = score
            torch.save(model.state_dict(), 'best.pt')

early_stopping = EarlyStopping()
"""
KEEPS = """
def keep(model, value):
    if len(kept) < 3 or value > kept[0]:
        torch.save(model.state_dict(), 'best.pt')
"""
HOLDER = """
class Net(nn.Module):
    def finish(self):
        self.error.reset()

    def show(self):
        print(self.error)

    def measure(self):
        self.error.reset()
        self.error.update(run(self))

"""
PLATEAU = "sched = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer{})\n"


@pytest.mark.parametrize(
    ("epoch", "decides"),
    [
        pytest.param(f"{BOTH}if keeper.improved(quality):\n{SAVES}", "quality", id="by an object"),
        pytest.param(f"{BOTH}better = keeper.improved(quality)\nif better:\n{SAVES}", "quality", id="by a flag"),
        pytest.param(f"{BOTH}keep(model, quality)", "quality", id="by a function"),
        pytest.param(f"{BOTH}if keeper.improved(val_loss):\n{SAVES}", "", id="by itself"),
        pytest.param(f"{BOTH}x = 1 - val_loss\nif keeper.improved(x):\n{SAVES}", "", id="by what is made of it"),
        pytest.param(f"{BOTH}if epoch % 5 == 0 and rank == 0:\n{SAVES}", "", id="every few epochs"),
        pytest.param(f"{BOTH}if keeper.improved(quality):\n    print(quality)", "", id="nothing is saved"),
        pytest.param(f"{BOTH}if total < low:\n    low = total\n{SAVES}", "total", id="by what the training makes"),
        pytest.param(f"{BOTH}if total < low:\n    low = total", "", id="of which nothing is saved"),
    ],
)
def test_what_decides_on_checkpoints_in_place_of_a_score_by_its_name_is_told(epoch: str, decides: str) -> None:
    text = script(epoch, code(KEEPS) + "low = 9").replace(
        "        loss.backward()\n", "        loss.backward()\n        total += loss\n"
    )
    (score,) = survey_of(text).scores
    assert (score.expression, score.outdone[0]) == ("val_loss", decides)
    assert survey_of(text, metric="val_loss").scores[0].outdone == ("", "")


def test_the_best_that_is_saved_is_the_score_beside_one_that_is_not() -> None:
    epoch = "a, b = validate(model)\nbest = max(best, a)\nearly_stopping(b, model)"
    for taken, direction in (("-value", "min"), ("value", "max")):
        (score,) = survey_of(script(epoch, code(STOPPING).replace("TAKEN", taken))).scores
        assert (score.expression, score.direction) == ("b", direction)


@pytest.mark.parametrize(
    "taken",
    [
        pytest.param("value if args.up else -value", id="in one"),
        pytest.param("value\n        if args.down:\n            score = -value", id="in two"),
    ],
)
def test_what_a_choice_turns_round_is_the_score_though_its_direction_is_asked_about(taken: str) -> None:
    """The function may leave before it, as where the early stopping is off."""
    stops = (
        code(STOPPING)
        .replace("TAKEN", taken)
        .replace("        score", "        if off:\n            return\n        score", 1)
    )
    found = survey_of(script("b = validate(model)\nearly_stopping(b, model)", stops)).scores
    assert [(score.expression, score.direction) for score in found] == [("b", "")]


@pytest.mark.parametrize(
    "taken",
    [
        pytest.param("value if args.up else -value", id="in one"),
        pytest.param("value\n        if args.down:\n            score = -value", id="in two"),
    ],
)
def test_what_a_choice_turns_round_whenever_it_is_called_is_compared_in_one_direction(taken: str) -> None:
    stops = code(STOPPING).replace("TAKEN", taken)
    found = survey_of(script("b = validate(model)\nearly_stopping(b, model)", stops)).scores
    assert [(score.expression, score.direction) for score in found] == [("score", "max")]


def test_what_a_worse_score_leaves_undone_is_done_by_a_better_one() -> None:
    both = "a, b = validate(model)\nif a < low:\n    low = a\n"
    epoch = f"{both}if b <= best:\n    continue\nbest = b\ntorch.save(model, path)"
    (score,) = survey_of(script(epoch, "low, best = 9, 0")).scores
    assert (score.expression, score.saved) == ("b", True)


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param("if is_better(acc, best):", id="by a function"),
        pytest.param("if self.better(best, acc.item()) or epoch == 0:", id="by a method"),
        pytest.param("flag = is_better(acc, best)\nif flag:", id="by a flag"),
    ],
)
def test_a_best_is_kept_where_a_call_compares_it(asked: str) -> None:
    epoch = f"loss, acc = validate(model)\n{asked}\n    best, when = acc, epoch\n    torch.save(model, path)"
    (score,) = survey_of(script(epoch, "best = 0")).scores
    assert (score.expression, score.direction, score.saved) == ("acc", "max", True)


@pytest.mark.parametrize(
    ("says", "direction"),
    [
        ("new > old", "max"),
        ("old > new", "min"),
        ("improves(new, old)", ""),
        ("new - 0.1 > old", "max"),
        ("new - old > 0.1", ""),
    ],
)
def test_the_function_that_compares_tells_the_direction(says: str, direction: str) -> None:
    epoch = "measured = validate(model)\nif is_better(best, measured):\n    best = measured"
    (score,) = survey_of(script(epoch, f"def is_better(old, new):\n    return {says}\n\nbest = first")).scores
    assert (score.expression, score.direction) == ("measured", direction)


@pytest.mark.parametrize(
    "asks",
    [
        "if not is_worse(measured, best):\n    best = measured",
        "if is_worse(measured, best):\n    pass\nelse:\n    best = measured",
        "if not is_worse(old=best, new=measured):\n    best = measured",
    ],
)
def test_a_function_that_tells_a_worse_score_tells_the_other_direction(asks: str) -> None:
    worse = "def is_worse(new, old):\n    return new < old\n\nbest = first"
    (score,) = survey_of(script(f"measured = validate(model)\n{asks}", worse)).scores
    assert (score.expression, score.direction) == ("measured", "max")


def test_no_best_is_kept_where_a_call_has_something_else() -> None:
    epoch = "best = validate(model)\nif reached(best, 3):\n    best = first"
    (score,) = survey_of(script(epoch, "best, first = 0, 0")).scores
    assert (score.direction, score.saved) == ("", False)


@pytest.mark.parametrize("kept", ["copy.deepcopy(model)", "{'acc': acc}", "(acc, epoch)", "schedule(epoch)"])
def test_what_a_call_is_given_with_its_best_is_no_score_where_no_validation_makes_a_number_of_it(kept: str) -> None:
    epoch = f"acc = validate(model)\nnow = {kept}\nif improved(now, best):\n    best = now"
    (score,) = survey_of(script(epoch, "import copy\nbest = None")).scores
    assert (score.expression, score.direction) == ("acc", "max")


def test_a_function_saves_whose_name_does_not_say_so() -> None:
    keeps = "def on_best(model):\n    torch.save(model.state_dict(), path)\n\n"
    epoch = "a, b = validate(model)\nif a < low:\n    low = a\nif b > best:\n    best = b\n    on_best(model)"
    (score,) = survey_of(script(epoch, f"{keeps}low, best = 9, 0")).scores
    assert (score.expression, score.saved) == ("b", True)


def test_a_method_does_not_save_because_a_function_of_its_name_does() -> None:
    """`model.train()` is not the script's own `train`, which saves."""
    trains = "def train(model):\n    torch.save(model.state_dict(), path)\n\nlow, best = 9, 0"
    epoch = f"a, b = validate(model)\nif a < low:\n    low = a\n    model.train()\nif b > best:\n    best = b\n{SAVES}"
    (score,) = survey_of(script(epoch, trains)).scores
    assert (score.expression, score.saved) == ("b", True)


def test_two_bests_that_are_both_saved_are_two_scores() -> None:
    epoch = f"a, b = validate(model)\nif a > best:\n    best = a\n{SAVES}early_stopping(b, model)"
    found = survey_of(script(epoch, code(STOPPING).replace("TAKEN", "-value"))).scores
    assert [score.expression for score in found] == ["a", "b"]


@pytest.mark.parametrize(
    ("epoch", "before", "direction"),
    [
        pytest.param("x, n = validate(model)\nif x < best:\n    best = x", "best = 0", "", id="lower than 0"),
        pytest.param("x, n = validate(model)\nif x < best:\n    best = x", "best = 9.5", "min", id="lower than 9.5"),
        pytest.param("x, n = validate(model)\nif x < best:\n    best = x", "best = 1e9", "min", id="lower than many"),
        pytest.param("x, n = validate(model)\nif x < best:\n    best = x", "best = -1", "", id="lower than -1"),
        pytest.param("x, n = validate(model)\nif x > best:\n    best = x", "best = -1", "max", id="higher than -1"),
        pytest.param(
            "x, n = validate(model)\nif x > best:\n    best = x", "best = float('inf')", "", id="higher than infinity"
        ),
        pytest.param(
            "x, n = validate(model)\nif x > best:\n    best = x", "best = -float('inf')", "max", id="than its contrary"
        ),
        pytest.param(
            "x, n = validate(model)\nif x > best['x']:\n    best['x'] = x", "best = {'x': np.inf}", "", id="in a dict"
        ),
        pytest.param(
            "loss = validate(model)\nif loss < best:\n    best = loss", "best = 0", "min", id="confirmed by its name"
        ),
        pytest.param(
            "acc = validate(model)\nif acc < best:\n    best = acc", "best = 9", "", id="a lower accuracy"
        ),
        pytest.param(
            "loss = -validate(model)\nif loss > best:\n    best = loss", "best = -9", "max", id="a loss turned round"
        ),
        pytest.param("acc = validate(model)\nsched.step(acc)", PLATEAU.format(""), "", id="a plateau by default"),
        pytest.param(
            "acc = validate(model)\nsched.step(acc)", PLATEAU.format(", 'max'"), "max", id="a plateau of its mode"
        ),
        pytest.param(
            "x = validate(model)\nsched.step(x)\nif x < best:\n    best = x",
            PLATEAU.format(", mode='max'") + "best = 9",
            "",
            id="a plateau beside the best",
        ),
        pytest.param(
            "x = validate(model)\nsched.step(x)\nif x > best:\n    best = x",
            PLATEAU.format("") + "best = 0",
            "max",
            id="one by default beside the best",
        ),
        pytest.param("acc = validate(model)\nearly_stopping(acc, model)", STOPPING, "", id="in a class"),
    ],
)  # fmt: skip
def test_direction_is_asked_for_where_the_script_contradicts_itself(epoch: str, before: str, direction: str) -> None:
    (score,) = survey_of(script(epoch, before.replace("TAKEN", "-value"))).scores
    assert (score.direction, bool(score.against)) == (direction, not direction)


BY_ONE_OF_ITS_OWN = "score = validate(model)\nif is_better(score, best):\n    best = score"


@pytest.mark.parametrize(
    ("epoch", "expression", "direction"),
    [
        pytest.param("score = validate(model)", "score", "", id="returned"),
        pytest.param(BY_ONE_OF_ITS_OWN, "score", "", id="by a test of its own"),
        pytest.param("score = validate(model)\nif -score[0] > best:\n    best = -score[0]", "score[0]", "", id="part"),
        pytest.param("early_stopping(score := validate(model), model)", "score", "", id="watched"),
        pytest.param("score = validate(model)\nif score < best:\n    best = score", "score", "min", id="kept"),
        pytest.param("f1_score = validate(model)", "f1_score", "max", id="of a measure"),
        pytest.param("score = validate_accuracy(model)", "score", "max", id="by who makes it"),
    ],
)  # fmt: skip
def test_a_score_is_not_better_higher_because_it_is_called_one(epoch: str, expression: str, direction: str) -> None:
    """An error or a loss goes by that name as well."""
    (score,) = survey_of(script(epoch)).scores
    assert (score.expression, score.direction) == (expression, direction)


def test_direction_of_a_score_that_the_user_names_is_asked_for_where_only_its_name_is_there(tmp_path: Path) -> None:
    text = script("score, other = measure(model)")
    (question,) = plan_of(tmp_path, text, Options(metric="score")).questions
    assert "--mode" in question.message


@pytest.mark.parametrize("name", ["acc", "accu"])
def test_contradiction_is_told(tmp_path: Path, name: str) -> None:
    text = script(f"{name} = validate(model)\nif {name} < best:\n    best = {name}", "best = 9")
    (question,) = plan_of(tmp_path, text).questions
    assert question.message == (
        f"whether a higher or a lower `{name}` is better is told in two ways: by line 15: {name} < best, and otherwise "
        f"as the name of `{name}` says that a higher one is. Say it with --mode max or --mode min."
    )


SUMMED = """
val_err = 0
with torch.no_grad():
    for j, batch in enumerate(val_loader):
        val_err += criterion(model(batch), batch)
val_err = val_err / (j + 1)
"""


@pytest.mark.parametrize(
    ("told", "expression"),
    [
        pytest.param("writer.add_scalar('v', val_err.mean(), epoch)", "val_err.mean()", id="a method"),
        pytest.param("print(np.mean(val_err))", "np.mean(val_err)", id="a function"),
        pytest.param("val_err = val_err.mean()", "val_err", id="one number from there on"),
        pytest.param("print(val_err)", "val_err", id="never more than a number"),
        pytest.param(
            "print(np.mean(val_err))\nif val_err < best:\n    best = val_err", "val_err", id="compared as it is"
        ),
    ],
)
def test_score_of_which_the_loop_takes_the_mean_is_that_mean(told: str, expression: str) -> None:
    (score,) = survey_of(script(SUMMED + told, "best = 9")).scores
    assert (score.expression, score.direction) == (expression, "min")


OVER_FILES = """
for epoch in range(3):
    for part in parts:
        for x, y in load(part):
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                model.eval()
                with torch.no_grad():
                    for x, y in held_out:
                        meter.update(criterion(model(x), y).item())
                value = meter.avg
                RESET
                if TESTED < low:
                    low = TESTED
                    torch.save(model.state_dict(), 'best.pt')
"""


def over_files(tested: str, reset: str = "meter.reset()") -> str:
    before, _, _ = script().partition("for epoch")
    before += "def begin_anew(one):\n    one.reset()\n"
    return before + code(OVER_FILES).replace("TESTED", tested).replace("RESET", reset)


@pytest.mark.parametrize("metric", ["", "value"])
def test_a_best_within_two_loops_over_batches_counts_where_an_evaluation_makes_it(metric: str) -> None:
    assert [score.expression for score in survey_of(over_files("value"), metric=metric).scores] == ["value"]
    trained = over_files("loss").replace(
        "            if step % 100 == 0:\n                model.eval()\n", "            if True:\n"
    )
    assert [score.made for score in survey_of(trained).scores] == [TRAINED]


@pytest.mark.parametrize(
    ("metric", "reset", "emptied"),
    [
        pytest.param("meter.avg", "meter.reset()", "", id="by its method, before which it is taken"),
        pytest.param("meter.avg", "begin_anew(meter)", "line 22", id="by a function"),
        pytest.param("meter.avg", "show(meter)", "", id="not emptied"),
        pytest.param("value", "meter.reset()", "", id="its value under a name"),
    ],
)
def test_a_named_value_that_begins_anew_before_it_can_be_handed_over_is_refused(
    metric: str, reset: str, emptied: str
) -> None:
    (score,) = survey_of(over_files("value", reset), metric=metric, mode="min").scores
    assert score.emptied == emptied


@pytest.mark.parametrize(
    ("last", "emptied"),
    [
        pytest.param("model.module.finish()", "line 27", id="its own, last in a turn"),
        pytest.param("model.module.finish()\nmodel.module.run(x)", "", id="before what may fill it"),
        pytest.param("model.module.show()", "", id="another one"),
        pytest.param("model.module.measure()", "", id="which fills it then"),
        pytest.param("other.finish()", "", id="another object's"),
    ],
)
def test_a_value_that_a_method_of_what_holds_it_lets_begin_anew_last_is_refused(last: str, emptied: str) -> None:
    epoch = "if rank == 0:\n    model(x)\n" + indent(last, "    ")
    text = script(epoch, code(HOLDER) + "other = Net()")
    (score,) = survey_of(text, metric="model.module.error.get()", mode="min").scores
    assert score.emptied == emptied


def test_a_named_value_is_taken_before_a_method_lets_it_begin_anew(tmp_path: Path) -> None:
    text = over_files("value").replace("def begin_anew", "meter = Meter()\ndef begin_anew")
    plan = plan_of(tmp_path, text, Options(metric="meter.avg", mode="min"))
    assert plan.questions == []
    assert "                pai_score = meter.avg\n                meter.reset()\n" in rewritten(plan)


@pytest.mark.parametrize(
    "fills",
    [
        pytest.param("meter.update(loss.item())", id="by its method"),
        pytest.param("if loss < 9:\n            meter.update(loss.item())", id="under a condition"),
        pytest.param("keep(meter, loss)", id="by a function"),
    ],
)
def test_a_named_part_of_an_object_is_handed_over_after_what_fills_it(fills: str) -> None:
    text = script("show(meter.avg)").replace(
        "        optimizer.step()\n", f"        optimizer.step()\n        {fills}\n"
    )
    text = text.replace("    for x, y in", "    meter = Meter()\n    for x, y in")
    (score,) = survey_of(text, metric="meter.avg", mode="min").scores
    assert score.index.source.code(score.anchors["report"]).strip() == "show(meter.avg)"
    assert (score.condition, score.emptied) == ("", "")


@pytest.mark.parametrize(
    ("test", "taken", "found"),
    [
        pytest.param("a + b > best_a + best_b", "best_a, best_b = a, b", [("a + b", "max")], id="sums"),
        pytest.param("best_a + best_b > b + a", "best_b, best_a = a, b", [("b + a", "min")], id="turned round"),
        pytest.param("a + b > best_a + best_b", "best_a, best_b = a, 0", [], id="of which one is not taken"),
        pytest.param("a > best_a + 0.1", "best_a = a", [("a", "max")], id="a margin"),
    ],
)
def test_a_sum_is_the_score_where_the_best_of_each_part_is_kept_by_it(
    test: str, taken: str, found: list[tuple[str, str]]
) -> None:
    epoch = f"a, b = validate(model)\nif {test}:\n    {taken}\n{SAVES}"
    scores = survey_of(script(epoch, "best_a = best_b = 0")).scores
    assert [(score.expression, score.direction) for score in scores if score.evidence != "--metric"] == found


def test_values_of_the_training_are_not_proposed_as_the_validations() -> None:
    epoch = "outs = run(model)\ntrain_acc = compare(outs)\nprint(train_acc)\nouts = test(model)"
    found = survey_of(script(epoch, "def test(model):\n    return {key: model(key) for key in sets}\n"))
    assert (found.scores, found.measures) == ([], [])


NEVER = """
def train(model, loader, val_loader=None):
    for epoch in range(9):
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        if TEST:
            acc = evaluate(model, val_loader)
            print(acc)


CALL
"""


@pytest.mark.parametrize("test", ["val_loader", "val_loader is not None", "val_loader and epoch % 2 == 0"])
@pytest.mark.parametrize(
    ("call", "runs"),
    [
        pytest.param("train(model, loader)", False, id="it is not given"),
        pytest.param("train(model, loader, val_loader=None)", False, id="it is None"),
        pytest.param("train(model, loader, val_loader)", True, id="it is given"),
        pytest.param("train(model, *loaders)", True, id="it may be given"),
        pytest.param("train(model, loader)\ntrain(model, loader, val_loader)", True, id="it is given once"),
        pytest.param(
            "torch.multiprocessing.spawn(train, args=(loader, val_loader))", True, id="it is given to processes"
        ),
    ],
)
def test_what_an_evaluation_gives_that_no_call_lets_run_is_no_score(test: str, call: str, runs: bool) -> None:
    head, _, _ = script().partition("for epoch")
    text = head + code(NEVER).replace("TEST", test).replace("CALL", call)
    assert [score.expression for score in survey_of(text).scores] == (["acc"] if runs else [])


@pytest.mark.parametrize(
    ("given", "saved", "expressions"),
    [
        ("val_loss, acc = evaluate(model)", 'torch.save(model, "low.pt")', ["acc", "val_loss"]),
        ("val_loss, acc = evaluate(model)", "print(epoch)", ["acc"]),
        ("val_loss = evaluate(model)\nacc = evaluate(model)", 'torch.save(model, "low.pt")', ["val_loss"]),
    ],
    ids=["measured together", "saved by one alone", "measured apart"],
)
def test_of_two_that_save_their_best_and_are_measured_together_none_is_taken_by_its_name(
    given: str, saved: str, expressions: list[str]
) -> None:
    epoch = f'{given}\nif acc > best:\n    best = acc\n    torch.save(model, "best.pt")'
    epoch += f"\nif val_loss < least:\n    least = val_loss\n    {saved}"
    assert [score.expression for score in survey_of(script(epoch, "best, least = 0, 9")).scores] == expressions


def test_what_is_measured_with_one_of_the_test_data_is_the_score() -> None:
    epoch = "val_acc, test_acc = evaluate(model)"
    for name in ("val", "test"):
        epoch += f'\nif {name}_acc > best_{name}:\n    best_{name} = {name}_acc\n    torch.save(model, "{name}.pt")'
    assert [score.expression for score in survey_of(script(epoch, "best_val = best_test = 0")).scores] == ["val_acc"]


@pytest.mark.parametrize("mean_first", [False, True])
def test_of_one_name_that_of_all_that_an_inner_loop_goes_through_is_the_score(mean_first: bool) -> None:
    inner = "for i, pair in enumerate(pairs):\n    acc = evaluate(model)\n    accs.append(acc)\n"
    inner += "    if acc > each[i]:\n        each[i] = acc"
    whole = "acc = sum(accs) / len(accs)\nif acc > best:\n    best = acc"
    begun = "accs, each, best = [], [0, 0], 0"
    (score,) = survey_of(script("\n".join([whole, inner] if mean_first else [inner, whole]), begun)).scores
    assert score.evidence.endswith("acc > best")
    assert not score.last[0]


def test_what_is_measured_behind_an_inner_loop_is_no_mean_of_it() -> None:
    """As on the test data, by the name that the validations of the loop have as well."""
    inner = "for part in parts:\n    acc = evaluate(model, part)\n    accs.append(acc)\n"
    inner += "    if acc > best:\n        best = acc"
    behind = "acc = evaluate(model, test)\nif acc > best_test:\n    best_test = acc"
    (score,) = survey_of(script(f"{inner}\n{behind}", "accs, best, best_test = [], 0, 0")).scores
    assert score.evidence.endswith("acc > best")


NEWEST = """
class Trainer:
    def __init__(self, model):
        self.model, self.past = DDP(model), {"dice": [], "loss": []}

    def save(self):
        if TEST:
            torch.save(self.model.state_dict(), "best.pt")

    def train(self, loader):
        for epoch in range(9):
            for x, y in loader:
                loss = criterion(self.model(x), y)
                loss.backward()
                optimizer.step()
            val_loss, dice = evaluate(self.model)
            self.past["loss"].append(val_loss)
            self.past["dice"].append(dice)
            self.save()


Trainer(model).train(loader)
"""


@pytest.mark.parametrize(
    ("test", "score"),
    [
        pytest.param('self.past["dice"][-1] == max(self.past["dice"])', ('self.past["dice"][-1]', "max"), id="highest"),
        pytest.param('min(self.past["loss"]) == self.past["loss"][-1]', ('self.past["loss"][-1]', "min"), id="lowest"),
        pytest.param('self.past["dice"][-1] > 0.5', ("val_loss", "min"), id="by a limit"),
        pytest.param('self.past["dice"][-1] == max(self.past["loss"])', ("val_loss", "min"), id="of another list"),
        pytest.param('self.past["dice"][0] == max(self.past["dice"])', ("val_loss", "min"), id="not the newest"),
    ],
)
def test_newest_of_a_history_that_a_method_compares_with_its_best(test: str, score: tuple[str, str]) -> None:
    head, _, _ = script().partition("model = DDP")
    found = survey_of(head + code(NEWEST).replace("TEST", test)).scores
    assert [(one.expression, one.direction) for one in found] == [score]


TUNED = """
class Tuner:
    @torch.no_grad()
    def tune(self, some, given=None):
        self.strength += sign(some)
        return self.strength

@torch.no_grad()
def hits(net, data):
    return share(net(data))

tuner = Tuner()
"""


@pytest.mark.parametrize(
    ("made", "found"),
    [
        pytest.param("strength = tuner.tune(out)", [], id="of what the batch came to"),
        pytest.param("strength = tuner.tune(held, out)", [], id="of that as well"),
        pytest.param("strength = hits(model, held)", ["strength"], id="of the model"),
    ],
)
def test_what_is_set_by_a_batch_of_the_training_is_no_score(made: str, found: list[str]) -> None:
    text = script("print(strength)", TUNED).replace(
        "loss = criterion(model(x), y)", "out = model(x)\n        loss = criterion(out, y)"
    )
    text = text.replace("optimizer.step()\n", f"optimizer.step()\n        if often:\n            {made}\n", 1)
    assert [score.expression for score in survey_of(text).scores] == found


_TESTS = """
best_acc = 0

def test():
    global best_acc
    acc = measured(model)
    if acc > best_acc:
        best_acc = acc
        torch.save(model, path)

"""


@pytest.mark.parametrize("around", ["test()", "for n in (1, 2):\n        test()", "test()\n    test()"])
def test_a_function_further_below_keeps_the_best(around: str) -> None:
    """Where a turn of the loop comes to it once."""
    found = survey_of(script("finish()", f"{code(_TESTS)}def finish():\n    {around}\n")).scores
    told = [(score.expression, score.direction, score.kept is not None and score.kept.noted) for score in found]
    assert told == ([("acc", "max", True)] if around == "test()" else [])


def test_a_function_on_the_way_leaves_some_turns_without_a_score() -> None:
    """A scheduler that steps in each turn then stays the script's own."""
    finish = "def finish(epoch):\n    if epoch % 2:\n        return\n    test()\n"
    (score,) = survey_of(script("finish(epoch)", code(_TESTS) + finish)).scores
    assert score.condition == "not (epoch % 2)"


@pytest.mark.parametrize("asked", ["if due:", "if due and ready:", "if ready and (due):"])
def test_a_best_is_taken_where_a_condition_holds_that_has_a_name(asked: str) -> None:
    named = "acc = validate(model)\ndue = rank == 0 and acc > best"
    (score,) = survey_of(script(f"{named}\n{asked}\n    best = acc\n    torch.save(model, path)", "best = 0")).scores
    assert (score.expression, score.saved, score.ranks) == ("acc", True, "all")


@pytest.mark.parametrize(
    ("keeps", "direction"),
    [
        pytest.param(
            "if new <= best:\n        return best\n    torch.save(0, path)\n    return new", "max", id="behind"
        ),
        pytest.param("if new < best:\n        pass\n    else:\n        torch.save(0, path)", "max", id="otherwise"),
        pytest.param("if new <= best:\n        torch.save(0, path)", "min", id="where it holds"),
    ],
)
def test_what_is_saved_where_no_comparison_holds_is_better_the_other_way_round(keeps: str, direction: str) -> None:
    function = f"def keep(new, best):\n    {keeps}\n\nbest = first"
    (score,) = survey_of(script("measured = validate(model)\nbest = keep(measured, best)", function)).scores
    assert (score.expression, score.direction) == ("measured", direction)


@pytest.mark.parametrize("asked", ["if keep(acc):", "won = keep(acc)\nif won:"])
def test_a_checkpoint_is_saved_where_a_function_answers_that_it_keeps_a_better_score(asked: str) -> None:
    keeps = "best = 0\ndef keep(new):\n    global best\n    if new > best:\n        best = new\n        return True\n"
    epoch = f"acc = validate(model)\n{asked}\n    torch.save(model, path)"
    (score,) = survey_of(script(epoch, keeps)).scores
    assert (score.expression, score.saved) == ("acc", True)


def test_a_best_is_kept_whole_in_an_item() -> None:
    epoch = "stats = validate(model)\nif stats['acc'] > state['best']['acc']:\n    state['best'] = stats"
    (score,) = survey_of(script(epoch, "state = {'best': {'acc': 0}}")).scores
    assert (score.expression, score.direction) == ("stats['acc']", "max")


def test_a_condition_by_which_no_best_is_taken_tells_of_none() -> None:
    named = "best, acc = limit(), validate(model)\ndue = acc > best"
    epoch = f"{named}\nif due:\n    print(acc)\nelse:\n    best = acc"
    (score,) = survey_of(script(epoch, "best = 0", "print(best)")).scores
    assert score.kept_for_end == []


def test_a_training_that_only_lets_another_model_evaluate_keeps_no_best_of_a_validation() -> None:
    text = code("""
    import torch
    model = torch.nn.parallel.DistributedDataParallel(Net())
    best = 9

    def taught(x):
        teacher.eval()
        return teacher(x)

    def run():
        global best
        total = 0
        for x in loader:
            loss = criterion(model(x), taught(x))
            loss.backward()
            total += loss.item()
        if total < best:
            best = total
        return total

    for epoch in range(10):
        total = run()
    """)
    assert survey_of(text).scores == []


def test_a_training_that_validates_by_a_function_keeps_the_best() -> None:
    epoch = (
        "def measured(net):\n    net.eval()\n    return net(x)\n\ndef run(net, best):\n    loss = net(x)\n"
        "    loss.backward()\n    optimizer.step()\n    if rank == 0:\n        acc = measured(net)\n"
        "        if acc > best:\n            best = acc\n    return best\n\nbest = 0\n"
    )
    text = f"import torch\nmodel = torch.nn.parallel.DistributedDataParallel(Net())\n{epoch}"
    (score,) = survey_of(f"{text}for epoch in range(10):\n    best = run(model, best)\n").scores
    assert (score.expression, score.direction, score.ranks) == ("acc", "max", "first")


def test_what_is_saved_of_a_score_whose_best_a_function_keeps_is_not_saved_by_it() -> None:
    keeps = "best = 0\ndef measure(model):\n    global best\n    acc = evaluate(model)\n"
    keeps += "    if acc > best:\n        best = acc\n    return acc\n"
    epoch = "acc = measure(model)\ntorch.save({'acc': acc, 'model': model.state_dict()}, 'last.pt')"
    (score,) = survey_of(script(epoch, keeps)).scores
    assert (score.expression, score.saved) == ("acc", False)


def test_an_item_of_what_each_epoch_makes_is_no_best_by_its_name() -> None:
    epoch = f"stats = evaluate(model)\nif stats['top_1'] > best:\n    best = stats['top_1']\n{SAVES}"
    (score,) = survey_of(script(epoch, "best = 0")).scores
    assert (score.expression, score.direction) == ("stats['top_1']", "max")


@pytest.mark.parametrize("best", ["kept['best']", "kept['max_acc']", "kept.max_acc", "self.top_acc", "max_acc"])
@pytest.mark.parametrize(
    "keeps",
    [
        f"is_best = acc > BEST\nBEST = max(acc, BEST)\nif is_best:\n{SAVES}",
        f"if acc > BEST:\n{SAVES}BEST = max(acc, BEST)",
    ],
    ids=["by a flag", "behind"],
)
def test_of_a_score_and_its_best_wherever_that_is_kept_the_score_is_taken(best: str, keeps: str) -> None:
    (score,) = survey_of(script("acc = evaluate(model)\n" + keeps.replace("BEST", best), f"{best} = 0")).scores
    assert (score.expression, score.direction) == ("acc", "max")


STOPPER = """
from torch.nn.parallel import DistributedDataParallel as DDP

class Stopper:
    def __init__(self, patience=3, mode="min"):
        self.patience = patience
        self.mode = mode
        self.best = None

    def __call__(self, score):
        if self.best is None:
            self.best = score
        if self.mode == "min":
            better = score < self.best
        else:
            better = score > self.best
        if better:
            self.best = score
        return not better

def validate(model):
    model.eval()
    return sum(float(model(x)) for x in val_loader)

model = DDP(Net())
stopper = MADE
for epoch in range(9):
    for x in loader:
        model(x).backward()
    number = validate(model)
    if stopper(number):
        break
"""


@pytest.mark.parametrize(
    ("made", "direction"),
    [
        pytest.param("Stopper(patience=5, mode='min')", "min", id="given by name"),
        pytest.param("Stopper(5, 'max')", "max", id="given by place"),
        pytest.param("Stopper()", "min", id="by default"),
        pytest.param("Stopper(mode=args.mode)", "", id="of the command line"),
        pytest.param("Stopper(*args)", "", id="of what is not known"),
        pytest.param("Stopper(mode='min')\nother = Stopper(mode='max')", "", id="another object"),
        pytest.param("Stopper(mode='min')\nstopper.mode = args.mode", "", id="set later"),
    ],
)
def test_what_a_keeper_was_built_for_tells_which_way_it_asks(made: str, direction: str) -> None:
    (score,) = survey_of(STOPPER.replace("MADE", made)).scores
    assert (score.expression, score.direction) == ("number", direction)
    assert bool(score.against) == (not direction)


#: A model and another one beside it, each with a score of its own.
BESIDE = """
import copy
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

net_train = DDP(Net())
net_base = copy.deepcopy(net_train)
optimizer = torch.optim.SGD(net_train.parameters(), lr=0.1)
for epoch in range(9):
    for x in loader:
        net_train(x).mean().backward()
        optimizer.step()
    with torch.no_grad():
        cost_train = TRAINED
        cost_base = OTHER
    print(cost_train, cost_base)
"""


@pytest.mark.parametrize(
    ("trained", "other", "names"),
    [
        pytest.param("measure(net_train, val)", "measure(net_base, val)", ["cost_train", "cost_base"], id="given"),
        pytest.param("net_train(held).mean()", "net_base(held).mean()", ["cost_train", "cost_base"], id="called"),
        pytest.param("measure(net_train, loader)", "measure(net_train, val)", ["cost_base"], id="of other data"),
        pytest.param("measure(net_train, loader)", "measure(net_base, val)", ["cost_base"], id="both"),
    ],
)
def test_of_the_trained_model_and_another_one_both_may_be_the_score(trained: str, other: str, names: list[str]) -> None:
    scores = survey_of(BESIDE.replace("TRAINED", trained).replace("OTHER", other)).scores
    assert [score.expression for score in scores] == names


@pytest.mark.parametrize("kept", ["minloss = min(minloss, val_loss)", "if is_best: minloss = val_loss"])
def test_what_takes_the_lowest_is_the_best_whatever_its_name_is(kept: str) -> None:
    epoch = f"{BOTH}is_best = val_loss <= minloss\n{kept}\nprint({{'minloss': minloss}})\nif is_best:\n{SAVES}"
    (score,) = survey_of(script(epoch, "minloss = 9.0")).scores
    assert (score.expression, score.direction) == ("val_loss", "min")


def test_a_key_that_an_option_names_is_looked_up_in_the_best(tmp_path: Path) -> None:
    epoch = "result = validate(model)\nif best is None or result[args.key] > best[args.key]:\n    best = result\n"
    plan = plan_of(tmp_path, script(f"{epoch}{SAVES}", "best = None"))
    assert "report_validation_score(result[args.key], model" in rewritten(plan)


MEAN = "error = total / len(held)"


@pytest.mark.parametrize(
    ("gathered", "last", "taken"),
    [
        pytest.param("total += error", MEAN, "error", id="the mean"),
        pytest.param("total = total + error", MEAN, "error", id="of a sum that is made anew"),
        pytest.param("errors.append(error)", "error = sum(errors) / len(errors)", "error", id="of a list"),
        pytest.param("meter.update(error)", "error = meter.avg", "error", id="of a meter"),
        pytest.param("total += error", f"if epoch % 2: {MEAN}", "pai_score", id="the last one: a mean at times"),
        pytest.param("total += error", "error = others / 3", "pai_score", id="the last one: a mean of others"),
        pytest.param("total += error", "error = error / total", "pai_score", id="the last one, as a part"),
    ],
)
@pytest.mark.parametrize("freq", ["", "if epoch % 3 == 0:\n"])
def test_a_name_that_has_the_mean_of_its_values_in_the_end_is_that(
    tmp_path: Path, gathered: str, last: str, taken: str, freq: str
) -> None:
    before = "others = epoch\nmeter = Meter()\ntotal, errors = 0, []\n"
    loop = indent(f"for x in held:\n    error = validate(model, x)\n    {gathered}\n{last}\n", "    " * bool(freq))
    text = script(f"{before}{freq}{loop}", "error = None")
    new = rewritten(plan_of(tmp_path, text, Options(metric="error", mode="min")))
    given = new[: new.index("report_validation_score(")].rpartition("pai_score = error")[0]
    assert f"report_validation_score({taken if not freq else 'pai_score'}, model" in new
    assert not freq or (last in given) == (taken == "error")


@pytest.mark.parametrize("asked", ["total > 0", "abs(total) > 0"])
def test_so_it_is_where_it_is_made_of_some_values_alone(tmp_path: Path, asked: str) -> None:
    """Which is no condition of the turn's, as `if epoch % 2` is."""
    loop = f"total = 0\nfor x in held:\n    error = validate(model, x)\n    total += error\nif {asked}:\n    {MEAN}\n"
    new = rewritten(plan_of(tmp_path, script(loop, "error = None"), Options(metric="error", mode="min")))
    assert f"        {MEAN}\n        pai_score = error\n" in new
