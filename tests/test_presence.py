"""A score is handed over under the conditions without which it cannot be evaluated, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrofit.options import Options
from tests.helpers import code, plan_of, rewritten, script, survey_of

_CALL = "    pai_distributed.report_validation_score("

#: The end of an epoch, and what is handed over there.
GUARDED = {
    "not None": ("if stats is not None and stats['acc'] > best:\n    best = stats['acc']", "stats is not None"),
    "truth": ("if stats and stats['acc'] > best:\n    best = stats['acc']", "stats"),
    "key": ("if 'acc' in stats:\n    best = max(best, stats['acc'])", "'acc' in stats"),
    "size": ("if len(stats) > 0 and stats['acc'] > best:\n    best = stats['acc']", "len(stats) > 0"),
    "no size": ("if not len(stats):\n    pass\nelif stats['acc'] > best:\n    best = stats['acc']", "len(stats)"),
    "otherwise": ("if stats is None:\n    pass\nelse:\n    best = max(best, stats['acc'])", "stats is not None"),
    "one line": ("if stats is not None: best = max(best, stats['acc'])", "stats is not None"),
    "an expression": ("best = max(best, stats['acc']) if stats else best", "stats"),
    "or": (
        "if stats is None or stats['acc'] < best:\n    print('no')\nelse:\n    best = stats['acc']",
        "stats is not None",
    ),
    "beside a rank": ("if rank == 0 and stats and stats['acc'] > best:\n    best = stats['acc']", "stats"),
    "two": ("if stats:\n    if 'acc' in stats:\n        best = max(best, stats['acc'])", "stats and 'acc' in stats"),
}


@pytest.mark.parametrize(("epoch", "guard"), GUARDED.values(), ids=GUARDED)
def test_a_question_whether_the_score_is_there_is_asked_again(tmp_path: Path, epoch: str, guard: str) -> None:
    text = script(f"stats = evaluate(model, loader)\n{epoch}", "best = 0")
    assert f"{_CALL}stats['acc'] if {guard} else None, model)\n" in rewritten(plan_of(tmp_path, text))


def test_so_for_the_key_by_which_it_is_taken(tmp_path: Path) -> None:
    epoch = (
        "stats = evaluate(model)\nif save_best is not None and stats[save_best] > best:\n    best = stats[save_best]"
    )
    new = rewritten(plan_of(tmp_path, script(epoch, "best = 0"), Options(mode="max")))
    assert f"{_CALL}stats[save_best] if save_best is not None else None, model)\n" in new


#: How the score is compared, and what happens where that fails; with what is handed over.
TRIED = {
    "no such item": ("stats['acc']", "except KeyError:", "stats['acc'] if 'acc' in stats else None"),
    "one of several": ("stats['acc']", "except (IndexError, KeyError):", "stats['acc'] if 'acc' in stats else None"),
    "an item of an item": (
        "stats['val']['acc']",
        "except KeyError:",
        "stats['val']['acc'] if 'val' in stats and 'acc' in stats['val'] else None",
    ),
    "an item of a list": ("stats['acc'][-1]", "except KeyError:", "stats['acc'][-1] if 'acc' in stats else None"),
    "of another kind": ("stats['acc']", "except OSError:", "stats['acc']"),
    "of any kind": ("stats['acc']", "except Exception:", "stats['acc']"),
}


#: What ranks have that do not measure, and what is asked for before an item of it is taken.
OF_OTHERS = {
    "a number": ("1, 1", "hasattr(results, '__getitem__')"),
    "one below zero": ("-1, 0", "hasattr(results, '__getitem__')"),
    "no": ("False, None", "hasattr(results, '__getitem__')"),
    "nothing": ("None, 1", "results is not None"),
    "the same": ("[acc], 0", ""),
    "another": ("guess(model), 0", ""),
}


@pytest.mark.parametrize(("other", "asked"), OF_OTHERS.values(), ids=OF_OTHERS)
def test_an_item_is_not_taken_of_what_has_none_on_other_ranks(tmp_path: Path, other: str, asked: str) -> None:
    made = (
        f"def measure(model):\n    acc = hits(model)\n    if not rank:\n        return [acc], 3\n    return {other}\n"
    )
    best = "    if results[0] > best:\n        best = results[0]\n        torch.save(model.state_dict(), 'best.pt')"
    text = script(f"results, images = measure(model)\nif rank == 0:\n{best}", f"{made}rank, best = dist.get_rank(), 0")
    given = f"results[0] if {asked} else None" if asked else "results[0]"
    assert f"{_CALL}{given}, model" in rewritten(plan_of(tmp_path, f"import torch.distributed as dist\n{text}"))


@pytest.mark.parametrize(("filled", "asked"), [("if epoch % 4 == 0:", True), ("with torch.no_grad():", False)])
def test_an_item_of_an_item_is_taken_where_that_has_been_filled(tmp_path: Path, filled: str, asked: bool) -> None:
    fill = f"    {filled}\n        stats[part]['acc'] = evaluate(model, part)"
    epoch = f"for part in ['train', 'valid']:\n    stats[part] = {{}}\n{fill}\nprint(stats)"
    text = script(epoch, "stats = {'train': {}, 'valid': {}}")
    new = rewritten(plan_of(tmp_path, text, Options(metric="stats['valid']['acc']", mode="max")))
    score = "stats['valid']['acc']" + (" if 'acc' in stats['valid'] else None" if asked else "")
    assert f"{_CALL}{score}, model)\n" in new.replace('"', "'")


F1 = "from sklearn.metrics import f1_score\n    "
#: What an evaluation returns for its other task, and whether the score is asked for.
BY_TASK = {
    "a number": ("return loss(model).item()", True),
    "arithmetic": ("hit = count(model) / 8\n    return hit", True),
    "a constant": ("return 0.0", True),
    "a library's number": ("from sklearn import metrics\n    return metrics.hamming_loss(y, of(model))", True),
    "one of all classes": (f"{F1}return f1_score(y, of(model), average='macro')", True),
    "one of each class": (f"{F1}return f1_score(y, of(model), average=None)", False),
    "one of each class, perhaps": (f"{F1}return f1_score(y, of(model), average=kind)", False),
    "a dict of another score": ("return {'watch': 'f1', 'f1': 3}", False),
    "two dicts": ("return {'watch': 'f1'} | scores(model)", False),
    "what is not seen": ("return scores(model)", False),
    "nothing at all": ("raise ValueError", False),
}


@pytest.mark.parametrize("before", ["if task == 'labels':\n    continue\nif ", "if task != 'labels' and "])
@pytest.mark.parametrize(("other", "asked"), BY_TASK.values(), ids=BY_TASK)
def test_so_where_another_task_has_a_number_instead(tmp_path: Path, before: str, other: str, asked: bool) -> None:
    made = f"def evaluate(model):\n    if task == 'rank':\n        return {{'watch': 'acc', 'acc': 1}}\n    {other}\n"
    score = "result[result['watch']]"
    best = f"best = {score}\n    torch.save(model.state_dict(), 'best.pt')"
    text = script(f"result = evaluate(model)\n{before}{score} > best:\n    {best}", "best = result = 0.0")
    new = rewritten(plan_of(tmp_path, code(made) + text, Options(mode="max")))
    present = " if hasattr(result, 'keys') else None" if asked else ""
    assert f"report_validation_score({score}{present}, model" in new


@pytest.mark.parametrize("made", ["stats = evaluate(model)", "stats = {}\nfor k, v in evaluate(model): stats[k] = v"])
@pytest.mark.parametrize(("score", "fails", "given"), TRIED.values(), ids=TRIED)
def test_so_where_the_script_goes_on_without_its_item(
    tmp_path: Path, score: str, fails: str, given: str, made: str
) -> None:
    epoch = f"{made}\ntry:\n    better = {score} > best\n{fails}\n    better = False\n"
    epoch += f"if better:\n    best = {score}\n    torch.save(model.state_dict(), 'best.pt')"
    new = rewritten(plan_of(tmp_path, script(epoch, "best = 0"), Options(mode="max")))
    assert f"{_CALL}{given}, model)\n" in new


def test_so_for_an_attribute(tmp_path: Path) -> None:
    epoch = "meter = evaluate(model)\nif meter is not None:\n    best = max(best, meter.acc)"
    new = rewritten(plan_of(tmp_path, script(epoch, "best = 0")))
    assert f"{_CALL}meter.acc if meter is not None else None, model)\n" in new


def test_so_in_the_function_that_keeps_it(tmp_path: Path) -> None:
    head = """
    def test(model, epoch):
        global best
        with torch.no_grad():
            stats = measure(model)
        if stats is not None and stats['acc'] > best:
            best = stats['acc']

    """
    new = rewritten(plan_of(tmp_path, code(head) + script("test(model, epoch)", "best = 0")))
    assert "\n    return stats['acc'] if stats is not None else None\n" in new


#: What only some ranks have, and what is handed over.
OTHER_RANKS = {
    "{}": ("stats = evaluate(model) if rank == 0 else {}", "'acc' in stats"),
    "None": ("stats = evaluate(model) if rank == 0 else None", "stats is not None"),
    "either": ("stats = {} if rank else evaluate(model) if ready else None", "stats is not None and 'acc' in stats"),
    "a function's {}": ("stats = on_first(model)", "'acc' in stats"),
    "a function's end": ("stats = only_first(model)", "stats is not None"),
    "a function's None": ("stats = by_name(model)", "stats is not None"),
    "a function's early end": ("stats = but_first(model)", "stats is not None"),
    "a function's begun {}": ("stats = filled_on_first(model)", "'acc' in stats"),
    "a function's None beside a key that is made": ("stats = of_split(model, 'a')", "stats is not None"),
    "the first of two": ("stats, count = two(model)", "stats is not None"),
}
_FUNCTIONS = """
def on_first(model):
    if rank != 0:
        return {}
    with torch.no_grad():
        return {'acc': model(1)}


def only_first(model):
    if rank == 0:
        return {'acc': model(1)}


def by_name(model):
    if rank == 0:
        found = {'acc': model(1)}
    else:
        found = None
    barrier()
    return found


def but_first(model):
    if rank != 0:
        return
    return {'acc': model(1)}


def of_split(model, split):
    found = None
    if rank == 0:
        found = {split + 'cc': model(1)}
    return found


def filled_on_first(model):
    found = {}
    if rank == 0:
        found['acc'] = model(1)
    return found


def two(model):
    if rank != 0:
        return None, 0
    return {'acc': model(1)}, 1


def of_splits(model):
    found = {}
    for split in ('loss', 'acc'):
        found[split] = model(1)
    return found


def on_all(model):
    found = None
    found = {}
    found['acc'] = model(1)
    return found


"""


@pytest.mark.parametrize(("made", "guard"), OTHER_RANKS.values(), ids=OTHER_RANKS)
def test_what_other_ranks_do_not_have_is_not_looked_into_there(tmp_path: Path, made: str, guard: str) -> None:
    text = script(f"{made}\nif rank == 0 and stats['acc'] > best:\n    best = stats['acc']", "best = 0")
    new = rewritten(plan_of(tmp_path, code(_FUNCTIONS) + text))
    assert f"{_CALL}stats['acc'] if {guard} else None, model)\n" in new


#: Its only loop is over steps, some of which validate.
_STEPS = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def set_up():
    dist.init_process_group("nccl")
    return {"rank": dist.get_rank(), "writes": dist.get_rank() == 0}


def evaluate(model):
    with torch.no_grad():
        return sum(float(model(x)) for x in val_loader)


info = set_up()
writes, is_main = info["writes"], begun["here"]
model = DDP(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(400):
    model(next(batches)).mean().backward()
    optimizer.step()
    if step % 20 == 0 and TEST:
        val_loss = evaluate(model)
        print(val_loss)
"""


@pytest.mark.parametrize("test", ["writes", "info['writes']", "is_main", "info['rank'] == 0", "begun['rank'] == 0"])
def test_a_rank_is_known_in_an_item_of_what_a_function_returns(tmp_path: Path, test: str) -> None:
    """The score is handed over on every rank: one alone would wait for the others."""
    new = rewritten(plan_of(tmp_path, code(_STEPS.replace("TEST", test))))
    assert f"\n    if step % 20 == 0:\n    {_CALL}pai_score, model)\n" in new


#: Where nothing of the kind is to be asked.
PLAIN = {
    "no condition": ("stats = evaluate(model)\nbest = max(best, stats['acc'])", "stats['acc']"),
    "another condition": (
        "stats = evaluate(model)\nif save and stats['acc'] > best:\n    best = stats['acc']",
        "stats['acc']",
    ),
    "its value": (
        "stats = evaluate(model)\nif stats['acc'] > 0.5 and stats['acc'] > best:\n    best = stats['acc']",
        "stats['acc']",
    ),
    "a rank": ("stats = evaluate(model)\nif rank == 0:\n    best = max(best, stats['acc'])", "stats['acc']"),
    "a name": ("acc = evaluate(model)\nif acc is not None and acc > best:\n    best = acc", "acc"),
    "a full one everywhere": (
        "stats = {'acc': f()} if ready else {'acc': 0}\nbest = max(best, stats['acc'])",
        "stats['acc']",
    ),
    "what a loop fills": ("stats = of_splits(model)\nbest = max(best, stats['acc'])", "stats['acc']"),
    "what is filled on all": ("stats = on_all(model)\nbest = max(best, stats['acc'])", "stats['acc']"),
    "or": (
        "stats = evaluate(model)\nif stats is not None or stats['acc'] > best:\n    best = stats['acc']",
        "stats['acc']",
    ),
}


@pytest.mark.parametrize(("epoch", "value"), PLAIN.values(), ids=PLAIN)
def test_no_other_condition_is_asked(tmp_path: Path, epoch: str, value: str) -> None:
    new = rewritten(plan_of(tmp_path, code(_FUNCTIONS) + script(epoch, "best = 0")))
    assert f"{_CALL}{value}, model)\n" in new


def test_a_condition_around_the_place_where_it_is_made_is_not_asked_twice(tmp_path: Path) -> None:
    epoch = "if loader is not None:\n    stats = evaluate(model)\n    best = max(best, stats['acc'])"
    new = rewritten(plan_of(tmp_path, script(epoch, "best = 0")))
    assert "        pai_score = stats['acc']\n" in new


@pytest.mark.parametrize("wrapped", [True, False], ids=["in a with", "at once"])
def test_a_loss_of_batches_begins_before_them_as_there_may_be_none(tmp_path: Path, wrapped: bool) -> None:
    text = script().replace("EPOCH", "")
    batches = text[text.index("    for x, y") : text.index("    pass")]
    inside = "    with tqdm(loader) as bar:\n" + "".join(f"    {line}\n" for line in batches.splitlines())
    plan = plan_of(tmp_path, text.replace(batches, inside) if wrapped else text, Options(metric="loss", mode="min"))
    assert plan.questions == []
    lines = [line.strip() for line in rewritten(plan).splitlines()]
    first = "with tqdm(loader) as bar:" if wrapped else "for x, y in loader:"
    assert lines[lines.index(first) - 1] == "loss = None"
    assert "pai_distributed.report_validation_score(loss, model)" in lines


@pytest.mark.parametrize(
    ("score", "value"),
    [
        ("stats['acc'].mean()", "stats['acc'].mean() if stats is not None else None"),
        ("stats['acc']", "stats['acc'] if stats is not None else None"),
        ("stats", "stats"),
    ],
)
def test_one_of_some_batches_is_noted_only_where_it_is_measured(tmp_path: Path, score: str, value: str) -> None:
    head = """
    def fit(model, epoch):
        for step, (x, y) in enumerate(loader):
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 8 == 0:
                stats = evaluate(model)
            else:
                stats = None
            key = 'acc'
            if stats is not None:
                print(stats[key])
        return loss

    """
    text = script()
    batches = text[text.index("    for x, y") : text.index("    pass")]
    text = code(head) + text.replace(batches, "    fit(model, epoch)\n")
    new = rewritten(plan_of(tmp_path, text, Options(metric=score, mode="max")))
    assert f"pai_distributed.note_score({value})\n" in new


METERED = """
MADE
model.eval()
for step, (x, y) in enumerate(val_loader):
    with torch.no_grad():
        hit = right(model(x), y)
    FILLED
if rank == 0:
    print(meter.mean())
"""
#: How a validation fills its meter, and the condition under which that has something in it.
FILLED_BY = {
    "rank 0": ("if rank == 0:\n        meter.update(hit)", "rank == 0"),
    "rank 0 at times": ("if rank == 0 and step % 2:\n        meter.update(hit)", "rank == 0"),
    "one process or rank 0": ("if not multi or rank == 0:\n        meter.update(hit)", "(not multi or rank == 0)"),
    "not the others": ("if rank != 0:\n        pass\n    else:\n        meter.update(hit)", "not (rank != 0)"),
    "all ranks": ("meter.update(hit)", ""),
    "each rank": ("if rank == 0:\n        meter.update(hit)\n    else:\n        meter.update(hit.mean())", ""),
    "perhaps all ranks": ("if rank == 0:\n        meter.update(hit)\n    gather(meter)", ""),
    "some batches": ("if step % 2:\n        meter.update(hit)", ""),
    "all ranks, shown by one": ("meter.update(hit)\n    if rank == 0:\n        meter.show(hit)", ""),
}


@pytest.mark.parametrize(("filled", "guard"), FILLED_BY.values(), ids=FILLED_BY)
def test_what_some_ranks_alone_fill_is_read_on_these(filled: str, guard: str) -> None:
    text = script(METERED.replace("MADE", "meter = Meter()").replace("FILLED", filled))
    (score,) = survey_of(text, "meter.mean()['acc']", "max").scores
    assert score.value == "meter.mean()['acc']" + (f" if {guard} else None" if guard else "")


@pytest.mark.parametrize(
    ("returned", "guard"), [("{'acc': validate(model)}", ""), ("Meter()", " if rank == 0 else None")]
)
def test_what_begins_with_something_in_it_is_not_what_some_ranks_fill(returned: str, guard: str) -> None:
    filled = METERED.replace("MADE", "meter = measured(model)").replace("FILLED", FILLED_BY["rank 0"][0])
    text = script(filled, f"def measured(model):\n    return {returned}\n")
    (score,) = survey_of(text, "meter['acc']", "max").scores
    assert score.value == f"meter['acc']{guard}"


def test_what_all_ranks_have_filled_before_it_began_anew_is_nothing_to_that(tmp_path: Path) -> None:
    made = "meter = Meter()\nmeter.update(loss)\nmeter = Meter()"
    text = script(METERED.replace("MADE", made).replace("FILLED", FILLED_BY["rank 0"][0]))
    new = rewritten(plan_of(tmp_path, text, Options(metric="meter.mean()['acc']", mode="max")))
    assert "meter.mean()['acc'] if rank == 0 else None" in new


@pytest.mark.parametrize("ranks", ["rank 0", "all ranks"])
def test_in_a_function_too_what_some_ranks_alone_fill_is_read_on_these(ranks: str) -> None:
    filled, guard = FILLED_BY[ranks]
    body = METERED.replace("MADE", "meter = Meter()").replace("FILLED", filled)
    text = script("validate(model)", "def validate(model):" + body.replace("\n", "\n    "))
    (score,) = survey_of(text, "validate:meter.mean()['acc']", "max").scores
    assert score.kept is not None
    assert score.kept.present == guard


@pytest.mark.parametrize(
    ("later", "guarded"),
    [
        ("log.update(epoch=epoch)", True),
        ("log.update({'epoch': epoch}, at=now())", True),
        ("log['epoch'] = epoch", True),
        ("log['acc'] = evaluate(model)", False),
        ("log.update(acc=evaluate(model))", False),
        ("log.update(**evaluate(model))", False),
        ("log.update(evaluate(model))", False),
        ("log.update({'epoch': epoch, **evaluate(model)})", False),
    ],
)
def test_what_gives_a_dict_other_items_does_not_fill_the_one_that_is_read(
    tmp_path: Path, later: str, guarded: bool
) -> None:
    epoch = f"log = {{}}\nif rank == 0:\n    log.update(evaluate(model))\n{later}\nprint(log)"
    new = rewritten(plan_of(tmp_path, script(epoch), Options(metric="log['acc']", mode="max")))
    assert (f"{_CALL}log['acc'], model)" not in new) is guarded
