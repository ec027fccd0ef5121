"""What a script keeps with its best score for its end: there it is what the best round has left."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from retrofit.options import Options
from tests.helpers import plan_of, rewritten, script, survey_of

TAKEN = "acc = validate(model)\nif acc > best:\n    best = acc\n    "


@pytest.mark.parametrize(
    ("before", "taken", "after", "kept"),
    [
        pytest.param("", "pass", "print(best)", ["best"], id="the score"),
        pytest.param("", "when = epoch", "print(epochs)", [], id="nothing"),
        pytest.param("when = 0", "when = epoch", "print(when)", ["when"], id="the turn"),
        pytest.param("when = 0", "when = epoch", "print(best, when)", ["best", "when"], id="both"),
        pytest.param(
            "when, log = 0, {'test': []}",
            "when = epoch\nlog['test'].append(test(model))",
            "print(log['test'][when])",
            ["when", "log"],
            id="what is looked up by the turn",
        ),
        pytest.param("log = {'test': []}", "log['test'].append(acc)", "print(max(log['test']))", ["log"], id="a list"),
        pytest.param("log = [0.0] * epochs", "log[epoch] = acc", "print(max(log))", ["log"], id="a list, by items"),
        pytest.param("log = np.zeros(9)", "log[epoch] = acc", "np.save(path, log)", ["log"], id="an array"),
        pytest.param(
            "log = []", "pass\nlog = []\nlog.append(acc)", "print(log)", [], id="a list of the last turn alone"
        ),
        pytest.param("log = Log()", "log.update(acc)", "print(log)", [], id="an object of whatever kind"),
        pytest.param("run = {'net': model, 'at': 0}", "0\nrun['at'] = epoch", "test(run['net'])", [], id="objects"),
        pytest.param("run = {}\nrun['net'] = model", "0\nrun['at'] = epoch", "test(run['net'])", [], id="by items"),
        pytest.param("data = {'test': load()}", "0\ndata['train'] = load()", "test(data['test'])", [], id="calls"),
        pytest.param("log = [validate(model)]", "log.append(acc)", "print(max(log))", ["log"], id="first"),
        pytest.param("log = {k: [] for k in ks}", "log['a'].append(acc)", "print(log)", ["log"], id="lists by keys"),
        pytest.param("log = dict(net=model)", "0\nlog['at'] = epoch", "test(log['net'])", [], id="keywords"),
        pytest.param("log = {'at': -1, 'low': [1.5]}", "0\nlog['at'] = epoch", "print(log)", ["log"], id="data"),
        pytest.param("", "when = epoch", "print(best, when)", ["best"], id="without a value before"),
        pytest.param("when = 0", "when = epoch\nwhen = 2", "print(when)", [], id="with another value in each turn"),
        pytest.param("state = None", "state = model.state_dict()", "torch.save(state, path)", ["state"], id="weights"),
        pytest.param("told = {}", "told['at'] = epoch", "print(best, told)", ["best"], id="an item, not there yet"),
        pytest.param("file = None", "file = open(path)", "with open(path) as file: pass", [], id="made anew there"),
        pytest.param("when = 0", "when = epoch", "def tell(): print(when)\ntell()", ["when"], id="of a function"),
    ],
)
def test_what_a_better_score_gives_is_kept_for_what_reads_it_after_the_loop(
    before: str, taken: str, after: str, kept: list[str]
) -> None:
    (score,) = survey_of(script(f"{TAKEN}{taken}", f"best = 0.0\n{before}", after)).scores
    assert score.kept_for_end == kept


@pytest.mark.parametrize(
    ("noted", "after", "kept"),
    [
        ("files.append(path)", "average(files)", ["files"]),
        ("heapq.heappush(files, (acc, path))", "average(files)", ["files"]),
        ("files[path] = acc", "average(files)", ["files"]),
        ("files.append(path)", "pass", []),
    ],
)
def test_what_names_the_checkpoints_of_the_loop_is_kept_with_them(noted: str, after: str, kept: list[str]) -> None:
    epoch = f"{TAKEN}pass\npath = f'{{epoch}}.pt'\ntorch.save(model.state_dict(), path)\n{noted}"
    scores = survey_of(script(epoch, "import heapq\nbest, files = 0, []", after)).scores
    assert [score.kept_for_end for score in scores] == [kept]


@pytest.mark.parametrize(
    ("other", "after", "kept"),
    [
        ("if low < least:\n    least, at = low, epoch", "print(best, least, at)", ["best", "least", "at"]),
        ("best_low = min(low, best_low)", "print(best, best_low)", ["best", "best_low"]),
        ("if low < least:\n    least, at = low, epoch", "print(best)", ["best"]),
        ("if low < least:\n    least, at = low, epoch\nat = 0", "print(best, at)", ["best"]),
        ("if low < other:\n    other = low", "print(best, other)", ["best"]),
        ("least = low", "print(best, least)", ["best"]),
    ],
    ids=["compared", "by min", "not read", "with another value in each turn", "without a value before", "the last"],
)
def test_bests_of_other_scores_are_kept_as_they_were_in_the_best_round(other: str, after: str, kept: list[str]) -> None:
    """So are the files that the loop saves by them."""
    epoch = f"acc, low = validate(model)\nif acc > best:\n    best = acc\n{other}"
    text = script(epoch, "best, least, best_low, at = 0, 9, 9, 0", after)
    (score,) = survey_of(text, metric="acc", mode="max").scores
    assert (score.kept_for_end, score.lost_with_best) == (kept, "")


OWN_LIST = """
class Trainer:
    def __init__(self):
        self.model = DDP(Net())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.files, self.best = [], 0.0
    def keep(self, path):
        torch.save(self.model.state_dict(), path)
        self.files.append(path)
        self.files = self.files[-3:]
    def fit(self):
        for epoch in range(9):
            for x in loader:
                self.model(x).backward()
                self.optimizer.step()
            acc = validate(self.model)
            self.best = max(self.best, acc)
            self.keep(f"{epoch}.pt")
    def average(self):
        average(self.files)
trainer = Trainer()
trainer.fit()
"""


@pytest.mark.parametrize(("after", "kept"), [("trainer.average()", ["self.files"]), ("pass", [])])
def test_names_of_checkpoints_that_another_method_notes_are_kept_with_them(after: str, kept: list[str]) -> None:
    header = "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
    (score,) = survey_of(f"{header}{OWN_LIST}{after}\n").scores
    assert score.kept_for_end == kept


OWN_ORDER = """
class Result:
    def __init__(self, acc):
        self.acc = acc
    def better_than(self, other):
        return self.acc > other.acc
def validate(net):
    with torch.no_grad():
        return Result(run(net))
best, when = Result(0.0), 0
"""


@pytest.mark.parametrize(
    ("after", "kept"), [("print(best.acc)", ["best"]), ("print(best, when)", ["best", "when"]), ("print(epochs)", [])]
)
def test_best_object_that_tells_itself_is_kept_for_what_reads_it_after_the_loop(after: str, kept: list[str]) -> None:
    epoch = "result = validate(model)\nif result.better_than(best):\n    best, when = result, epoch"
    (score,) = survey_of(script(epoch, OWN_ORDER, after)).scores
    assert score.kept_for_end == kept


STOPS = """
class Stop:
    def __init__(self):
        self.best, self.bad, self.better, self.worse = None, 0, False, False

    def __call__(self, acc):
        FLAG
        if TEST:
            self.best, self.bad = acc, 0
            TRUE
        else:
            self.bad += 1
        return self.bad > 9

stop, best, when = Stop(), 0, 0
"""


@pytest.mark.parametrize(
    ("flag", "test", "true", "asked", "kept"),
    [
        ("self.better = self.best is None or acc > self.best", "self.better", "pass", "stop.better", True),
        ("self.better = False", "self.best is None or acc > self.best", "self.better = True", "stop.better", True),
        ("self.better = self.best is None or acc > self.best", "self.better", "pass", "not stop.better", False),
        ("self.worse = acc < self.best", "acc > self.best", "pass", "stop.worse", False),
        ("self.worse = True", "acc > self.best", "self.worse = False", "stop.worse", False),
    ],
    ids=["a condition", "constants", "turned round", "another condition", "constants the other way"],
)
def test_what_the_loop_keeps_by_a_flag_that_an_object_leaves_is_the_best_rounds(
    flag: str, test: str, true: str, asked: str, kept: bool
) -> None:
    before = STOPS.replace("FLAG", flag).replace("TEST", test).replace("TRUE", true)
    epoch = f"acc = validate(model)\nend = stop(acc)\nif {asked}:\n    best, when = acc, epoch\nif end:\n    break"
    (score,) = survey_of(script(epoch, before, "print(best, when)"), mode="max").scores
    assert score.kept_for_end == ["best", "when"] * kept


@pytest.mark.parametrize(
    ("made", "kept"), [("acc if up else -acc", ["best"]), ("acc", ["best"]), ("acc + self.bad", [])]
)
def test_so_it_is_where_the_object_turns_round_what_it_is_given(made: str, kept: list[str]) -> None:
    flag = f"v = {made}\n        self.better = self.best is None or v > self.best"
    before = STOPS.replace("FLAG", flag).replace("TEST", "self.better").replace("TRUE", "pass")
    before = before.replace("self.best, self.bad = acc, 0", "self.best = v")
    epoch = "res = validate(model)\nend = stop(res.acc)\nif stop.better:\n    best = res\nif end:\n    break"
    (score,) = survey_of(script(epoch, before, "print(best)"), metric="res.acc", mode="max").scores
    assert score.kept_for_end == kept


def test_what_another_branch_beside_an_elif_gives_is_not_kept_with_the_best() -> None:
    better, worse = "    best, when = acc, epoch\n", "    bad += 1"
    epoch = f"acc = validate(model)\nif best is None:\n{better}elif acc > best:\n{better}else:\n{worse}"
    (score,) = survey_of(script(epoch, "best, when, bad = None, 0, 0", "print(best, when, bad)")).scores
    assert score.kept_for_end == ["best", "when"]


@pytest.mark.parametrize(
    ("tie", "given", "kept"),
    [
        pytest.param("acc == best", "when = epoch", ["best", "when"], id="a tie"),
        pytest.param("best == acc and epoch % 2", "when = epoch", ["best", "when"], id="some ties"),
        pytest.param("acc == best", "ties += 1", ["best", "ties", "when"], id="a count of them"),
        pytest.param("acc > best / 2", "when = epoch", ["best"], id="a near miss"),
        pytest.param("epoch == 5", "when = epoch", ["best"], id="some turn"),
        pytest.param("acc != best", "when = epoch", ["best"], id="no tie"),
    ],
)
@pytest.mark.parametrize("first", [False, True])
def test_what_a_tie_with_the_best_gives_is_kept_with_it(tie: str, given: str, kept: list[str], first: bool) -> None:
    better = "acc > best", "best, when = acc, epoch"
    one, other = ((tie, given), better) if first else (better, (tie, given))
    epoch = f"acc = validate(model)\nif {one[0]}:\n    {one[1]}\nelif {other[0]}:\n    {other[1]}"
    (score,) = survey_of(script(epoch, "best, when, ties = 0, 0, 0", "print(best, when, ties)"), "acc", "max").scores
    assert score.kept_for_end == kept


OF_EITHER = """
acc, loss = validate(model)
if by == "acc":
    if acc > best:
        best, name = acc, f"acc{epoch}.pt"
ELSE:
    if loss < least:
        BETTER
"""


@pytest.mark.parametrize(
    ("otherwise", "better", "kept"),
    [
        pytest.param("elif by == 'loss'", "least, name = loss, f'loss{epoch}.pt'", ["name"], id="a best of its own"),
        pytest.param("else", "least = loss\n        name = f'loss{epoch}.pt'", ["name"], id="by lines"),
        pytest.param("else", "least = loss\n    name = f'loss{epoch}.pt'", [], id="in each turn"),
        pytest.param("else", "name = f'loss{epoch}.pt'", [], id="where no best is taken"),
    ],
)
def test_what_each_branch_gives_with_a_best_of_its_own_is_kept(otherwise: str, better: str, kept: list[str]) -> None:
    epoch = OF_EITHER.replace("ELSE", otherwise).replace("BETTER", better)
    before = "best, least, name = 0.0, float('inf'), ''"
    (score,) = survey_of(script(epoch, before, "print(name)"), metric="acc", mode="max").scores
    assert score.kept_for_end == kept


BEHIND_GUARD = """
if TEST:
    acc = validate(model)
    if acc <= best:
        continue
    best = acc
when = epoch
"""


@pytest.mark.parametrize(
    ("test", "kept"),
    [
        pytest.param("args.validate", ["when"], id="an option"),
        pytest.param("epoch % 5 == 0", [], id="the turn"),
        pytest.param("due(epoch)", [], id="what a call answers"),
    ],
)
def test_so_is_what_follows_the_choice_in_which_a_guard_stands_if_it_is_the_same_in_all_turns(
    test: str, kept: list[str]
) -> None:
    epoch = BEHIND_GUARD.replace("TEST", test)
    (score,) = survey_of(script(epoch, "best, when = 0.0, 0", "print(when)"), metric="acc", mode="max").scores
    assert score.kept_for_end == kept


@pytest.mark.parametrize(
    ("keeps", "kept"),
    [
        ("if acc - best > 0.1:\n    best, when = acc, epoch", ["best", "when"]),
        ("gain = acc - best\nif gain > 0.1:\n    best, when = acc, epoch", ["best", "when"]),
        ("gain = acc - best\nbest = 1 - best\ngain = 0.2\nif gain > 0.1:\n    best, when = acc, epoch", []),
        ("if time() - best > 60:\n    best, when = time(), epoch", []),
    ],
    ids=["compared", "by its name", "which has another value", "of no score"],
)
def test_so_is_what_is_given_where_the_difference_to_the_best_is_large(keeps: str, kept: list[str]) -> None:
    epoch = f"acc = validate(model)\n{keeps}"
    text = script(epoch, "from time import time\nbest, when = 0.0, 0", "print(best, when)")
    (score,) = survey_of(text, metric="acc", mode="max").scores
    assert score.kept_for_end == kept


def test_so_is_what_a_flag_gives_that_the_best_tells() -> None:
    epoch = "acc = validate(model)\nis_best = acc > best\nbest = max(acc, best)\nif is_best:\n    when = epoch"
    (score,) = survey_of(script(epoch, "best, when = 0.0, 0", "print(when)")).scores
    assert score.kept_for_end == ["when"]


@pytest.mark.parametrize("test", ["not is_best", "is_best is False", "is_best == False"])
def test_so_is_what_it_gives_where_it_is_not_false(test: str) -> None:
    flag = "acc = validate(model)\nis_best = acc > best\nbest = max(acc, best)\n"
    epoch = f"{flag}if {test}:\n    bad += 1\nelse:\n    when = epoch"
    (score,) = survey_of(script(epoch, "best, bad, when = 0.0, 0, 0", "print(bad, when)")).scores
    assert score.kept_for_end == ["when"]


@pytest.mark.parametrize(
    "keeps",
    [
        "if acc <= best:\n    continue\nbest, state = acc, epoch",
        "better = acc > best\nbest = max(acc, best)\nstate = epoch if better else state",
        "if acc > best:\n    best = acc\n    for name in names:\n        state[name] = net[name]",
    ],
    ids=["behind a guard", "by a choice", "by keys"],
)
def test_and_what_is_given_otherwise_where_the_score_is_better(keeps: str) -> None:
    epoch = f"acc = validate(model)\n{keeps}"
    (score,) = survey_of(script(epoch, "best, state = 0.0, {}", "print(best, state)"), mode="max").scores
    assert score.kept_for_end == ["best", "state"]


@pytest.mark.parametrize(
    ("end", "given", "lost"),
    [("bad > 3", "best", ""), ("rank == 0 and bad > 3", "best", "best"), ("rank == 0 and bad > 3", "best > 0", "")],
)
def test_what_some_ranks_alone_return_within_the_loop_is_told_of(end: str, given: str, lost: str) -> None:
    text = script(
        f"{TAKEN}bad = 0\nelse:\n    bad += 1\nif {end}:\n    return {given}", "best, bad = 0, 0", "return best"
    )
    built, loop, rest = text.partition("best, bad = 0, 0")
    (score,) = survey_of(f"{built}def fit():\n{indent(loop + rest, '    ')}\n\nprint(fit())\n").scores
    assert (score.kept_for_end, score.lost_with_best) == (["best"], lost)


@pytest.mark.parametrize(
    ("early", "late", "lost"),
    [
        pytest.param("best", "0", "best", id="where none is handed over"),
        pytest.param("best > 0", "0", "", id="what it tells"),
        pytest.param("0", "best", "", id="where it is kept by then"),
    ],
)
def test_what_is_returned_within_the_loop_is_told_of(early: str, late: str, lost: str) -> None:
    epoch = f"if broken():\n    return {early}\n{TAKEN}bad = 0\nelse:\n    bad += 1\nif bad > 3:\n    return {late}"
    built, loop, rest = script(epoch, "best, bad = 0, 0", "return best").partition("best, bad = 0, 0")
    (score,) = survey_of(f"{built}def fit():\n{indent(loop + rest, '    ')}\n\nprint(fit())\n").scores
    assert (score.kept_for_end, score.lost_with_best) == (["best"], lost)


@pytest.mark.parametrize(
    "keeps",
    [
        "if acc > best:\n    best, state = acc, epoch\nelse:\n    bad += 1",
        "if acc <= best:\n    bad += 1\nelse:\n    best, state = acc, epoch",
        "if acc > best: best, state = acc, epoch\nelse: bad += 1",
        "better = acc > best\nbest = max(acc, best)\nif better: state = epoch\nelse:\n    bad += 1",
        "better = acc > best\nbest = max(acc, best)\nif not better:\n    bad += 1\nelse:\n    state = epoch",
        "if acc > best:\n    best, state = acc, epoch\nelif epoch:\n    bad += 1",
    ],
)
def test_and_not_what_is_given_where_it_is_not_better(keeps: str) -> None:
    epoch = f"acc = validate(model)\n{keeps}"
    (score,) = survey_of(script(epoch, "best, state, bad = 0.0, 0, 0", "print(best, state, bad)"), mode="max").scores
    assert score.kept_for_end == ["best", "state"]


@pytest.mark.parametrize(
    "keeps",
    [
        "if acc > self.best:\n    self.best = acc\n    self.good(acc)\nelse:\n    self.wait()",
    ],
    ids=["beside a method"],
)
def test_nor_what_a_method_does_that_runs_where_it_is_not_better(keeps: str) -> None:
    text = script(f"acc = validate(model)\n{keeps}", "begun = 0", "print(self.best, self.when, self.bad)")
    built, begun, rest = text.partition("begun = 0")
    methods = (
        "class Trainer:\n    def __init__(self):\n        self.best, self.when, self.bad = 0, 0, 0\n\n"
        "    def good(self, acc):\n        self.when = acc\n\n"
        "    def wait(self):\n        self.bad += 1\n\n    def fit(self):\n"
    )
    (score,) = survey_of(f"{built}{methods}{indent(begun + rest, ' ' * 8)}\n\nTrainer().fit()\n", mode="max").scores
    assert score.kept_for_end == ["self.best", "self.when"]


def test_a_best_of_each_key_is_kept_in_whole_and_not_told_to_be_lost() -> None:
    epoch = "acc = validate(model)\nif acc > best[fold]:\n    best[fold] = acc"
    (score,) = survey_of(script(epoch, "fold, best = 0, [0.0] * 5", "print(best)"), mode="max").scores
    assert (score.kept_for_end, score.lost_with_best) == (["best"], "")


def test_and_a_whole_that_is_kept_and_what_a_list_is_added_to() -> None:
    epoch = "found = validate(model)\nif found['acc'] > best['acc']:\n    best = found"
    (score,) = survey_of(script(epoch, "best = {'acc': -1}", "print(best)")).scores
    assert score.kept_for_end == ["best"]
    epoch = "seen.append(validate(model))\nif np.argmax(seen) == epoch:\n    torch.save(model, path)"
    (score,) = survey_of(script(epoch, "seen = []", "print(max(seen))")).scores
    assert score.kept_for_end == ["seen"]


def test_a_dict_that_is_given_its_items_by_a_method_is_kept_whole_and_a_sum_is_not() -> None:
    epoch = "acc = validate(model)\nif acc > best['acc']:\n    best.update(acc=acc, when=epoch)"
    (score,) = survey_of(script(epoch, "best = {'acc': 0.0}", "print(best['when'])")).scores
    assert score.kept_for_end == ["best"]
    epoch = "a, b = validate(model)\nif a + b > best_a + best_b:\n    best_a, best_b = a, b\n    when = epoch"
    (score,) = survey_of(script(epoch, "best_a = best_b = when = 0", "print(best_a, when)")).scores
    assert score.kept_for_end == []


KEEPER = """
class Keeper:
    def __init__(self):
        self.best, self.state = 0, None

    def keep(self, net, acc):
        if acc > self.best:
            self.best, self.state = acc, net.state_dict()

    def finish(self, net):
        net.load_state_dict(self.state)

keeper = Keeper()
"""


@pytest.mark.parametrize(
    ("after", "kept"),
    [
        ("keeper.finish(model)", ["keeper.state"]),
        ("print(keeper.best)\nkeeper.finish(model)", ["keeper.best", "keeper.state"]),
        ("print(keeper)", []),
    ],
)
def test_an_objects_own_is_kept_by_the_loops_name_for_it(after: str, kept: list[str]) -> None:
    (score,) = survey_of(script("acc = validate(model)\nkeeper.keep(model, acc)", KEEPER, after)).scores
    assert score.kept_for_end == kept


SNAPSHOT = "\ndef snapshot():\n    global state\n    state = model.state_dict()\n    return acc\n"


@pytest.mark.parametrize(
    ("epoch", "kept"),
    [
        ("if acc > best:\n    best = acc\n    snapshot()", ["best", "state"]),
        ("if acc > best:\n    best = acc\n    through()", ["best", "state"]),
        ("if acc <= best:\n    continue\nbest = acc\nsnapshot()", ["best", "state"]),
        ("if acc > best:\n    best = acc\n    snapshot()\nsnapshot()", ["best"]),
        ("if acc > best:\n    best = acc\n    snapshot()\nstate = epoch", ["best"]),
        ("if acc > best and snapshot():\n    best = acc", ["best"]),
    ],
    ids=["called", "through another", "behind a guard", "in each turn too", "anew in each turn", "asked"],
)
def test_what_a_function_gives_is_kept_that_runs_for_a_better_score_alone(epoch: str, kept: list[str]) -> None:
    before = f"best, state = 0.0, None\n{SNAPSHOT}\ndef through():\n    snapshot()\n"
    (score,) = survey_of(script(f"acc = validate(model)\n{epoch}", before, "print(best, state)")).scores
    assert score.kept_for_end == kept


def test_so_is_what_another_method_of_the_keeper_takes() -> None:
    keeper = KEEPER.replace(
        "self.best, self.state = acc, net.state_dict()", "self.best = acc\n            self.take(net)"
    )
    keeper = keeper.replace("    def finish", "    def take(self, net):\n        self.state = net\n\n    def finish")
    (score,) = survey_of(
        script("acc = validate(model)\nkeeper.keep(model, acc)", keeper, "keeper.finish(model)")
    ).scores
    assert score.kept_for_end == ["keeper.state"]


OWN = """
class Keeper:
    def __init__(self):
        self._best, self._other, self.state = 0.0, 0.0, None

    @property
    def best(self):
        return self._best

    @property
    def percent(self):
        return 100 * self._best

    @property
    def other(self):
        return self._other

    def keep(self, acc):
        self._other = acc
        if acc > self.best:
            self._best = acc
            self.state = acc

keeper = Keeper()
"""


@pytest.mark.parametrize(
    ("read", "kept"),
    [
        ("keeper.best", ["keeper._best"]),
        ("keeper.percent", ["keeper._best"]),
        ("keeper.state", ["keeper.state"]),
        ("keeper.other", []),
    ],
)
@pytest.mark.parametrize("compared", ["self.best", "self._best"])
def test_a_best_is_kept_also_where_a_property_gives_it(compared: str, read: str, kept: list[str]) -> None:
    keeper = OWN.replace("acc > self.best", f"acc > {compared}")
    (score,) = survey_of(script("acc = validate(model)\nkeeper.keep(acc)", keeper, f"print({read})")).scores
    assert score.kept_for_end == kept


RECORD = "import dataclasses\n@dataclasses.dataclass\nclass Best:\n    acc: float = 0.0\n    when: int = 0\n\n"


@pytest.mark.parametrize(
    ("before", "compared", "taken", "kept"),
    [
        ("best = dict(acc=0.0)", "best['acc']", "best = dict(acc=acc, when=epoch)", ["best"]),
        (f"{RECORD}best = Best()", "best.acc", "best = Best(acc, epoch)", ["best"]),
        (f"{RECORD}best = Best()", "best.acc", "best = Best(acc=acc)", ["best"]),
        (f"{RECORD}best = Best()", "best.acc", "best = best._replace(acc=acc)", ["best"]),
        (f"{RECORD}best = Best()", "best.acc", "best = Best(when=acc)", []),
        ("best = dict(acc=0.0)", "best['acc']", "best = dict(when=acc)", []),
    ],
)
def test_a_record_is_kept_in_whole_that_is_made_anew_with_the_score(
    before: str, compared: str, taken: str, kept: list[str]
) -> None:
    epoch = f"acc = validate(model)\nif acc > {compared}:\n    {taken}"
    (score,) = survey_of(script(epoch, before, "print(best)")).scores
    assert score.kept_for_end == kept


@pytest.mark.parametrize("last", ["print(best)", "print(epochs)"])
def test_what_a_try_around_the_loop_runs_at_last_comes_after_it(last: str) -> None:
    text = script(f"{TAKEN}pass", "best = 0.0")
    built, loop, rest = text.partition("best = 0.0\n")
    (score,) = survey_of(f"{built}{loop}try:\n{indent(rest, '    ')}\nfinally:\n    {last}\n").scores
    assert score.kept_for_end == ["best"] * (last == "print(best)")


@pytest.mark.parametrize("finish", ["keeper.validate(model)", "finish(keeper)", "finish_all()"])
def test_a_best_in_an_object_is_kept_by_the_loops_name_for_it(finish: str) -> None:
    """Also where the loop gives the object to a function that validates with it."""
    keeps = (
        "class Keeper:\n    def __init__(self):\n        self.best = 0\n\n    def validate(self, model):\n"
        "        acc = measured(model)\n        if acc > self.best:\n            self.best = acc\n"
        "def finish(given):\n    given.validate(model)\n\ndef finish_all():\n    keeper.validate(model)\n\n"
        "keeper = Keeper()\n"
    )
    (score,) = survey_of(script(finish, keeps, "print(keeper.best)")).scores
    assert (score.direction, score.kept_for_end) == ("max", ["keeper.best"])


LOGGER = """
class Logger:
    def __init__(self):
        self.seen, self.best = [], 0

    def log(self, acc):
        self.seen.append(acc)
        if acc > self.best:
            self.best = acc

BEGUN
"""


@pytest.mark.parametrize(
    ("begun", "kept"),
    [
        ("logger = Logger()", ["logger.best"]),
        ("logger = None\nif rank == 0:\n    logger = Logger()", []),
        ("logger = Logger() if rank == 0 else None", []),
        ("logger = None\nlogger = Logger()", ["logger.best"]),
        ("logger = None\nif quiet:\n    logger = Logger()\nelse:\n    logger = Logger()", ["logger.best"]),
        ("if rank == 0:\n    logger = Logger()\nelse:\n    logger = None", []),
    ],
    ids=["of all ranks", "of rank 0", "of rank 0 by an expression", "given anew", "on either way", "or none"],
)
def test_what_an_object_of_rank_0_alone_keeps_is_not_asked_of_other_ranks(begun: str, kept: list[str]) -> None:
    epoch = "acc = validate(model)\nif rank == 0:\n    logger.log(acc)"
    (score,) = survey_of(
        script(epoch, LOGGER.replace("BEGUN", begun), "if rank == 0:\n    print(logger.best)"), metric="acc", mode="max"
    ).scores
    assert (score.kept_for_end, score.lost_with_best) == (kept, "" if kept else "self.best")


#: An object of the trainer's, which is made once more is known than as the trainer is.
SET_UP_LATER = """
class Trainer:
    def __init__(self, model):
        self.model, self.logger = model, None
        BEGUN

    def set_up(self):
        GUARDself.logger = Logger()

    def fit(self):
        self.set_up()
        for epoch in range(10):
            for x, y in loader:
                optimizer.zero_grad()
                loss = criterion(self.model(x), y)
                loss.backward()
                optimizer.step()
            acc = validate(self.model)
            self.logger.log(acc)
        print(self.logger.best)

Trainer(model).fit()
"""


@pytest.mark.parametrize(
    ("begun", "guard", "called", "kept"),
    [
        ("pass", "", "self.set_up()", ["self.logger.best"]),
        ("pass", "if rank == 0: ", "self.set_up()", []),
        ("pass", "", "if rank == 0: self.set_up()", []),
        ("if rank == 0: self.logger = Logger()", "pass #", "self.set_up()", []),
        ("self.logger = Logger()", "pass #", "self.set_up()", ["self.logger.best"]),
    ],
    ids=["by a method", "by it on rank 0", "by it as rank 0 calls it", "at once on rank 0", "at once"],
)
def test_what_a_method_makes_of_none_is_asked_of_all_ranks(
    begun: str, guard: str, called: str, kept: list[str]
) -> None:
    head = script("pass", LOGGER.replace("BEGUN", "")).partition("for epoch in")[0]
    trainer = (
        SET_UP_LATER.replace("BEGUN", begun)
        .replace("GUARD", guard)
        .replace("        self.set_up()", f"        {called}")
    )
    (score,) = survey_of(head + trainer, metric="acc", mode="max").scores
    assert (score.kept_for_end, score.lost_with_best) == (kept, "" if kept else "self.best")


#: An early stopping as most projects have it, copied from one to the next.
TURNED = """
class EarlyStopping:
    def __init__(self):
        self.best_score, self.counter, self.early_stop, self.loss_min = None, 0, False, float("inf")

    def __call__(self, loss, model):
        score = MADE
        if self.best_score is None:
            self.best_score = score
            self.save(loss, model)
        elif TEST:
            self.counter += 1
            self.early_stop = self.counter > 9
        else:
            self.best_score = score
            self.save(loss, model)
            self.counter = 0

    def save(self, loss, model):
        torch.save(model.state_dict(), "best.pt")
        self.loss_min = loss

stop = EarlyStopping()
"""


@pytest.mark.parametrize(
    ("made", "test", "after", "kept"),
    [
        ("-loss", "score < self.best_score + 0.1", "print(stop.loss_min)", ["stop.loss_min"]),
        ("-loss", "score < self.best_score", "print(stop.best_score)", ["stop.best_score"]),
        ("-loss", "self.best_score - score > 0.1", "print(stop.best_score)", ["stop.best_score"]),
        ("-loss", "self.counter < 3", "print(stop.best_score)", []),
    ],
    ids=["with a margin", "plain", "a difference", "not compared"],
)
def test_what_an_early_stopping_keeps_of_the_score_turned_round_is_the_best_rounds(
    made: str, test: str, after: str, kept: list[str]
) -> None:
    before = TURNED.replace("MADE", made).replace("TEST", test)
    epoch = "loss = validate(model)\nstop(loss, model)\nif stop.early_stop:\n    break"
    (score,) = survey_of(script(epoch, before, after), metric="loss", mode="min").scores
    assert score.kept_for_end == kept


#: An object is given each score, and answers whether it is the best.
ANSWERS = """
class Stopper:
    def __init__(self):
        self.best, self.bad = None, 0

    def step(self, value):
        if self.best is None or value > self.best:
            self.best, self.bad = value, 0
            return BETTER
        self.bad += 1
        return WORSE

stopper, when = Stopper(), 0
"""


@pytest.mark.parametrize(
    ("better", "worse", "asks", "kept"),
    [
        pytest.param("True", "False", "if stopper.step(acc):", ["when"], id="asked at once"),
        pytest.param("True", "False", "is_best = stopper.step(acc)\nif is_best:", ["when"], id="by a name"),
        pytest.param(
            "True, False", "False, self.bad > 4", "best, stop = stopper.step(acc)\nif best:", ["when"], id="of two"
        ),
        pytest.param(
            "True, False", "False, self.bad > 4", "best, stop = stopper.step(acc)\nif stop:", [], id="the other"
        ),
        pytest.param("False", "self.bad > 4", "if stopper.step(acc):", [], id="whether to stop"),
        pytest.param("False", "True", "if stopper.step(acc):", [], id="whether it is worse"),
        pytest.param("True", "False", "if stopper.step(acc) or epoch % 10 == 0:", [], id="or now and then"),
        pytest.param("True", "False", "if stopper.step(acc) or epoch == 0:", ["when"], id="or first"),
        pytest.param("True", "False", "if stopper.step(acc) and rank == 0:", ["when"], id="and more"),
        pytest.param("True", "False", "if not stopper.step(acc) and late:", [], id="worse, and more"),
        pytest.param("True", "False", "if not stopper.step(acc):\n    log()\nelse:", ["when"], id="otherwise"),
        pytest.param("True", "False", "if not stopper.step(acc) and late:\n    log()\nelse:", [], id="or otherwise"),
        pytest.param(
            "True", "False", "if not stopper.step(acc) or late:\n    log()\nelse:", ["when"], id="and otherwise"
        ),
    ],
)
def test_what_is_given_where_an_object_answers_that_the_score_is_better_is_kept(
    better: str, worse: str, asks: str, kept: list[str]
) -> None:
    before = ANSWERS.replace("BETTER", better).replace("WORSE", worse)
    epoch = f"acc = validate(model)\n{asks}\n    when = epoch"
    (score,) = survey_of(script(epoch, before, "print(when)")).scores
    assert (score.direction, score.kept_for_end) == ("max", kept)


#: A function is given the best so far, and answers whether the score is better by a variable of its own.
ANSWERS_BY_NAME = """
def early_stopping(value, best, bad):
    stop, better = False, BEGUN
    if TEST:
        best, bad = value, 0
        FLAG
    else:
        bad += 1
        stop = bad > 4
    return best, bad, stop, better

best, bad, when = 0, 0, 0
"""


@pytest.mark.parametrize(
    ("begun", "test", "flag", "asks", "kept"),
    [
        pytest.param("False", "value > best", "better = True", "if better:", ["when", "best"], id="set there"),
        pytest.param("value > best", "better", "pass", "if better:", ["when", "best"], id="asked there"),
        pytest.param("False", "value > best", "better = True", "if better and rank == 0:", ["when", "best"], id="more"),
        pytest.param("True", "value > best", "better = True", "if better:", ["best"], id="always"),
        pytest.param("False", "value > best", "better = bad > 1", "if better:", ["best"], id="something else"),
        pytest.param("False", "value > best", "better = True", "if stop:", ["best"], id="the other"),
        pytest.param("False", "value > best", "better = True", "if not better:", ["best"], id="worse"),
    ],
)
def test_so_is_what_a_function_answers_by_a_variable_of_its_own(
    begun: str, test: str, flag: str, asks: str, kept: list[str]
) -> None:
    before = ANSWERS_BY_NAME.replace("BEGUN", begun).replace("TEST", test).replace("FLAG", flag)
    epoch = f"acc = validate(model)\nbest, bad, stop, better = early_stopping(acc, best, bad)\n{asks}\n    when = epoch"
    (score,) = survey_of(script(epoch, before, "print(best, when)")).scores
    assert (score.direction, score.kept_for_end) == ("max", kept)


#: An object of a dataclass is given a record of several numbers, and keeps the one that is better by one of them.
RECORDED = """
from dataclasses import dataclass

@dataclass
class Skill:
    rmse: float
    mae: float

    def better_than(self, other):
        return other is None or self.rmse < other.rmse

def improved(new, old):
    return old is None or new.rmse < old.rmse

@dataclass
class Stopper:
    patience: int
    best: Skill | None = None
    bad: int = 0

    def __call__(self, skill):
        if ASKED:
            self.best, self.bad = GIVEN, 0
        else:
            self.bad += 1
        return self.bad > self.patience

def measured(net):
    return Skill(*validate(net))

stopper = Stopper(5)
"""


@pytest.mark.parametrize(
    ("asked", "given", "kept"),
    [
        pytest.param("skill.better_than(self.best)", "skill", True, id="by the record"),
        pytest.param("improved(skill, self.best)", "skill", True, id="by a function"),
        pytest.param("self.best is None or skill.rmse < self.best.rmse", "skill", True, id="at once"),
        pytest.param("self.best is None or skill.mae < self.best.mae", "skill", False, id="by another number"),
        pytest.param("self.bad > 5", "skill", False, id="by no comparison"),
        pytest.param("self.best is not None", "skill", False, id="by whether there is one"),
        pytest.param("improved(skill, self.worst)", "skill", False, id="with another"),
        pytest.param("skill.better_than(self.best)", "Skill(0, 0)", False, id="another record"),
    ],
)
def test_a_record_that_an_object_keeps_by_one_of_its_numbers_is_the_best_rounds(
    asked: str, given: str, kept: bool
) -> None:
    before = RECORDED.replace("ASKED", asked).replace("GIVEN", given)
    epoch = "skill = measured(model)\nstop = stopper(skill)"
    (score,) = survey_of(script(epoch, before, "print(stopper.best)"), metric="skill.rmse", mode="min").scores
    assert score.kept_for_end == ["stopper.best"] * kept


@pytest.mark.parametrize(
    ("test", "loop", "kept"),
    [
        ("better", "", ["when"]),
        ("better or epoch % 10 == 0", "", []),
        ("better or epoch == 0", "", ["when"]),
        ("better or epoch == start", "", []),
        ("better or epoch == start", "range(start, 10)", ["when"]),
        ("better or epoch == 9", "", []),
        ("not better and bad > 5", "", []),
        ("better and rank == 0", "", ["when"]),
    ],
)
@pytest.mark.parametrize("given", ["if TEST:\n    when = epoch", "when = epoch if TEST else when"])
def test_what_is_given_also_where_the_score_may_be_worse_is_not_kept_with_the_best(
    test: str, loop: str, kept: list[str], given: str
) -> None:
    epoch = f"acc = validate(model)\nbetter = acc > best\n{given.replace('TEST', test)}\nbest = max(acc, best)"
    text = script(epoch, "best, when, bad, start, rank = 0, 0, 0, 0, 0", "print(when)")
    (score,) = survey_of(text.replace("range(10)", loop or "range(10)")).scores
    assert score.kept_for_end == kept


def test_a_best_is_kept_by_no_name_that_its_object_gets_behind_the_loop() -> None:
    """It would have no value yet before the loop."""
    keeps = (
        "class Keeper:\n    def __init__(self):\n        self.best = 0\n\n    def validate(self, model):\n"
        "        acc = measured(model)\n        if acc > self.best:\n            self.best = acc\n"
        "def finish_all():\n    keeper.validate(model)\n\nkeeper = Keeper()\n"
    )
    (score,) = survey_of(script("finish_all()", keeps, "after = keeper\nprint(after.best)")).scores
    assert score.kept_for_end == ["keeper.best"]


def test_a_best_in_an_object_of_the_loops_function_is_kept_of_a_closure() -> None:
    keeps = "state = {'best': 0}\n\ndef keep(acc):\n    if acc > state['best']:\n        state['best'] = acc\n\n"
    body = script("acc = validate(model)\nkeep(acc)", keeps, "print(state['best'])").replace("\n", "\n    ")
    (score,) = survey_of(f"import torch\ndef main():\n    {body}\nmain()\n").scores
    assert (score.direction, score.kept_for_end) == ("max", ["state['best']"])


@pytest.mark.parametrize("taken", ["copy.deepcopy(model.state_dict())", "epoch"])
@pytest.mark.parametrize(("begun", "noted"), [("", True), ("state = None", False)])
def test_what_has_no_value_before_the_loop_is_told_of(tmp_path: Path, taken: str, begun: str, noted: bool) -> None:
    text = script(f"{TAKEN}state = {taken}", f"import copy\nbest = 0\n{begun}", "save(state)")
    plan = plan_of(tmp_path, text, Options(mode="max"))
    assert [note.code for note in plan.notes if "`state`, which" in note.message] == ["PAI022"] * noted
    assert ("keep_with_best(lambda: state)" in rewritten(plan)) is not noted


def test_the_end_has_what_the_best_round_has_kept(tmp_path: Path) -> None:
    text = script(f"{TAKEN}when = epoch", "best, when = 0, 0", "print(best, when)")
    new = rewritten(plan_of(tmp_path, text, Options(mode="max")))
    assert "pai_distributed.keep_with_best(lambda: (best, when))\nfor epoch in " in new
    assert "        break\nbest, when = pai_distributed.kept_with_best()\nprint(best, when)\n" in new
    assert plan_of(tmp_path, new, Options(mode="max")).edits == []


SET_BY_A_METHOD = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def validate(model):
    model.eval()
    with torch.no_grad():
        return sum(hits(model(x), y) for x, y in val_loader)

class Trainer:
    def __init__(self, model):
        self.model, self.best, self.when = DDP(model), 0.0, 0
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def BETTER(self, acc, epoch):
        self.best, self.when = acc, epoch
        torch.save(self.model.module.state_dict(), "best.pt")

    def fit(self):
        for epoch in range(9):
            self.model.train()
            for x, y in loader:
                self.optimizer.zero_grad()
                loss(self.model(x), y).backward()
                self.optimizer.step()
            acc = validate(self.model)
            if acc > self.best:
                self.note(acc, epoch)
        print(self.best, self.when)

Trainer(Net()).fit()
"""


@pytest.mark.parametrize(("method", "kept"), [("note", ["self.best", "self.when"]), ("other", [])])
def test_a_method_that_sets_the_best_itself_keeps_it(method: str, kept: list[str]) -> None:
    found = survey_of(SET_BY_A_METHOD.replace("BETTER", method)).scores
    assert [score.kept_for_end for score in found] == [kept]


HANDING = """
def evaluate(best, when, step):
    acc = validate(model)
    if acc > best:
        best = acc
        when = step
    BACK
"""


@pytest.mark.parametrize(
    ("back", "epoch", "kept"),
    [
        ("return best, when, acc", "best, when, _ = evaluate(best, when, epoch)", ["best", "when"]),
        ("return acc, when, best", "_, when, best = evaluate(best, step=epoch, when=when)", ["best", "when"]),
        ("return best", "best = evaluate(best, when, epoch)", ["best"]),
        ("return best, epoch", "best, when = evaluate(best, when, epoch)", ["best"]),
        ("return best, when, acc", "when, best, _ = evaluate(best, when, epoch)", []),
        ("return best, when, acc", "best, when, _ = evaluate(0, 0, epoch)", []),
        ("return best, when, acc", "best, when, _ = evaluate(best, when, epoch)\nwhen = epoch", ["best"]),
        (
            "if acc > 1:\n        return best, 0\n    return best, when",
            "best, when = evaluate(best, when, 1)",
            ["best"],
        ),
        ("return best, when, acc", "best, when = turn(best, when)", ["best", "when"]),
    ],
    ids=["two", "by name", "the best", "the turn itself", "others' places", "begun anew", "anew", "either", "through"],
)
def test_a_best_that_a_function_gets_and_hands_back_is_kept_by_the_loops_name(
    back: str, epoch: str, kept: list[str]
) -> None:
    through = (
        "def turn(one, two):\n    one, two, _ = evaluate(one, two, 0)\n    return one, two\n\nbest, when, _ = 0, 0, 0\n"
    )
    text = script(epoch, HANDING.replace("BACK", back) + through, "print(best, when)")
    assert [(score.kept_for_end, score.lost_with_best) for score in survey_of(text, mode="max").scores] == [(kept, "")]


@pytest.mark.parametrize(
    ("back", "epoch"),
    [
        ("max(best, acc)", "best = evaluate(best)"),
        ("max(best, acc), acc", "best, _ = evaluate(best)"),
        ("acc if acc > best else best", "best = evaluate(best)"),
    ],
)
def test_a_best_is_kept_that_the_function_only_returns_and_the_user_names(back: str, epoch: str) -> None:
    keeps = f"best = 0\ndef evaluate(best):\n    acc = validate(model)\n    return {back}\n"
    (score,) = survey_of(script(epoch, keeps, "print(best)"), metric="evaluate: acc").scores
    assert score.kept_for_end == ["best"]


@pytest.mark.parametrize(("metric", "kept"), [("evaluate: acc", ["best", "when"]), ("evaluate: step", [])])
def test_what_the_named_score_gives_is_kept_too(metric: str, kept: list[str]) -> None:
    """Which a function compares with what is there from call to call."""
    keeps = HANDING.replace("acc = v", "global best, when\n    acc = v").replace("best, when, step", "step")
    text = script("evaluate(epoch)", f"best, when = 0, 0\n{keeps.replace('BACK', 'return')}", "print(best, when)")
    (score,) = survey_of(text, metric=metric, mode="max").scores
    assert score.kept_for_end == kept


READ = "best = found = 0\nwhen = {}\n"


@pytest.mark.parametrize(
    ("after", "read"),
    [
        ("for when in names:\n    print(when)", False),
        ("with open(path) as file:\n    for when in names:\n        file.write(when)", False),
        ("for when in names:\n    print(when)\nprint(when)", True),
        ("for when in sorted(when):\n    print(when)", True),
        ("print({when: 1 for when in names}, tell(when=1))", False),
        ("print({name: 1 for name in when})", True),
        ("print(found.when)", False),
        ("if again:\n    when = 1\n    print(when)", False),
        ("if again:\n    when = 1\nprint(when)", True),
        ("if again:\n    when = 1\nelse:\n    when = 2\nprint(when)", False),
        ("when = when or 1\nprint(when)", True),
        ("when: dict = {}\nprint(when)", False),
        ("try:\n    when = load(path)\nfinally:\n    print(when)", True),
    ],
)
def test_what_the_code_after_the_loop_gives_a_name_itself_is_not_read_of_the_loop(after: str, read: bool) -> None:
    (score,) = survey_of(script(f"{TAKEN}when = epoch", READ, after), mode="max").scores
    assert score.kept_for_end == ["when"] * read


MANAGED = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Manager:
    def __init__(self, greater=True):
        self.greater, self.saved = greater, 0
        self.best = -float("inf") if greater else float("inf")
        self.best_epoch = -1

    def is_better(self, value):
        return value > self.best if self.greater else value < self.best

    def step(self, epoch, value):
        better = self.is_better(value)
        if ASKED:
            self.best, self.best_epoch = GIVEN
        self.saved += 1

class Trainer:
    def train(self):
        self.model = DDP(Net())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.ckpt = Manager()
        self.loop()
        AFTER

    def loop(self):
        for epoch in range(10):
            for x, y in loader:
                self.optimizer.zero_grad()
                criterion(self.model(x), y).backward()
                self.optimizer.step()
            self.evaluate(epoch)

    def evaluate(self, epoch):
        score = validate(self.model)
        self.ckpt.step(epoch, HANDED)

trainer = Trainer()
trainer.train()
BEHIND
"""
EVALUATING = MANAGED[MANAGED.index("    def evaluate(") : MANAGED.index("\ntrainer = ")].replace("HANDED", "score")
TOGETHER = f"class Data:\n    pass\n\nclass Evaluating:\n{EVALUATING}\nclass Trainer(Evaluating, Data):"


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        pytest.param({}, ["self.ckpt.best", "self.ckpt.best_epoch"], id="both"),
        pytest.param({"BEHIND": "print(trainer.ckpt.best)"}, ["self.ckpt.best"], id="behind the call"),
        pytest.param(
            {"self.evaluate(epoch)": "score = validate(self.model)\n            self.ckpt.step(epoch, score)"},
            ["self.ckpt.best", "self.ckpt.best_epoch"],
            id="given by the loop",
        ),
        pytest.param(
            {EVALUATING: "", "class Trainer:": TOGETHER},
            ["self.ckpt.best", "self.ckpt.best_epoch"],
            id="given by another base class",
        ),
        pytest.param({"AFTER": "print(self.ckpt.saved)"}, [], id="what each turn counts"),
        pytest.param({"ASKED": "self.is_better(value) and epoch"}, ["self.ckpt.best", "self.ckpt.best_epoch"], id="at"),
        pytest.param({"ASKED": "epoch % 2"}, [], id="by no comparison"),
        pytest.param({"ASKED": "value > 0.5"}, [], id="compared with another"),
        pytest.param({"HANDED": "epoch"}, [], id="another value"),
        pytest.param({"GIVEN": "epoch, value"}, [], id="the best of another"),
    ],
)
def test_what_an_object_keeps_with_the_score_that_the_user_names_is_kept(
    changes: dict[str, str], kept: list[str]
) -> None:
    """As it is given to a method whose own way of asking which one is better tells nothing of a score."""
    begun = {"ASKED": "better", "GIVEN": "value, epoch", "HANDED": "score", "AFTER": "pass", "BEHIND": ""}
    begun |= {"AFTER": "print(self.ckpt.best, self.ckpt.best_epoch)"} if "BEHIND" not in changes else {}
    text = MANAGED
    for name, code in {**begun, **changes}.items():
        text = text.replace(name, code)
    (score,) = survey_of(text, metric="score", mode="max").scores
    assert (score.kept_for_end, score.lost_with_best) == (kept, "")


ANEW = (
    "acc = evaluate(model)\nif epoch == 5:\n    best = 0\nif acc > best:\n    best = acc\n    torch.save(model, path)"
)
#: An object that keeps the best, and is told where another stage begins.
STOPPING = """
class Keeper:
    def __init__(self):
        self.begin()

    def begin(self):
        self.best = None

    def better(self, acc):
        if self.best is None or acc > self.best:
            self.best = acc
            return True
        return False

keeper = Keeper()
"""
TOLD_STAGE = (
    "acc = evaluate(model)\nif epoch == 5:\n    keeper.begin()\nif keeper.better(acc):\n    torch.save(model, path)"
)


@pytest.mark.parametrize(
    ("epoch", "before", "told"),
    [
        pytest.param(ANEW, "best = 0", "`best`", id="by the turn's number"),
        pytest.param(ANEW.replace("epoch == 5", "stage.ends()"), "best = 0", "`best`", id="as something says"),
        pytest.param(TOLD_STAGE, STOPPING, "`keeper.best`", id="in an object"),
        pytest.param(ANEW.replace("== 5", "== 0"), "best = 0", "", id="in the first turn"),
        pytest.param(ANEW, "", "", id="not before that"),
        pytest.param(ANEW.replace("    best = 0", "    other = 0"), "best = 0", "", id="something else"),
        pytest.param(ANEW.replace("epoch == 5", "best is None"), "best = None", "", id="where there is none"),
        pytest.param(TOLD_STAGE.replace("epoch == 5", "epoch == 0"), STOPPING, "", id="an object in the first turn"),
    ],
)
def test_a_best_that_begins_anew_within_the_training_is_told(
    tmp_path: Path, epoch: str, before: str, told: str
) -> None:
    """The tracker goes on comparing: what is measured from there on may be something else."""
    plan = plan_of(tmp_path, script(epoch, before), Options(metric="acc", mode="max"))
    notes = [note.message for note in plan.notes if "begins anew within the training" in note.message]
    assert plan.questions == []
    assert [note.partition(",")[0] for note in notes] == [told] * bool(told)
