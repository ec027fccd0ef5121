"""Values of a validation that are no numbers: strings, objects, pictures; and which numbers are offered for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import code, plan_of, script, survey_of

VALIDATE = """
    def validate(net, step=0):
        total, hits = 0.0, []
        with torch.no_grad():
            for x, y in val_loader:
                total += criterion(net(x), y).item()
                hits.append(hit(net(x), y))
        MADE
        return RETURNED
"""


def measured(
    returned: str, made: str = "pass", epoch: str = "acc = validate(model)\nprint(acc)"
) -> tuple[str, list[str]]:
    """Return the score, and what the question for one names where there is none."""
    before = code(VALIDATE).replace("MADE", made).replace("RETURNED", returned)
    found = survey_of(script(epoch, before))
    return " ".join(score.expression for score in found.scores), [name for name, _ in found.measures]


@pytest.mark.parametrize(
    ("made", "returned", "offered"),
    [
        pytest.param("mean = total / 9", "f'loss {mean:.3f}'", ["validate:mean"], id="f-string"),
        pytest.param("pass", "f'{step} {total / 9:.3f}'", ["validate:total / 9"], id="made in it"),
        pytest.param("pass", "'%d %.3f' % (step, total)", ["validate:total"], id="percent"),
        pytest.param("sums = [total / 2]", "'{} {}'.format(*([step] + sums))", ["validate:sums[...]"], id="format"),
        pytest.param("text = '{:.3f}'", "text.format(total)", ["validate:total"], id="format of a name"),
        pytest.param("pass", "'loss ' + str(total)", ["validate:total"], id="str"),
        pytest.param("line = f'{total}'\n    line += '!'", "line", ["validate:total"], id="of a name"),
        pytest.param(
            "out = {'loss': total, 'n': 9}",
            "' '.join(f'{key} {value}' for key, value in out.items())",
            ["validate:out['loss']"],
            id="join",
        ),
        pytest.param("acc = np.mean(hits)\n    print(step, acc)", "'done %d' % step", ["validate:acc"], id="logged"),
        pytest.param("pass", "f'step {step}'", [], id="no number in it"),
    ],
)  # fmt: skip
def test_numbers_in_a_string_are_offered_in_its_place(made: str, returned: str, offered: list[str]) -> None:
    assert measured(returned, made) == ("", offered)


@pytest.mark.parametrize(
    ("full", "offered"),
    [("", ["stats['val_loss']"]), (", True", ["stats['val_loss']", "stats['val_psnr']"])],
    ids=["never", "always"],
)
@pytest.mark.parametrize(
    "given",
    ["stats['val_psnr'] = peak(net)", "return {'val_loss': total, 'val_psnr': 1 / total}"],
    ids=["filled", "returned"],
)
def test_what_a_call_never_comes_to_is_not_offered(given: str, full: str, offered: list[str]) -> None:
    validate = VALIDATE.replace("step=0", "full=False").replace(
        "MADE", f"stats = {{}}\n        stats['val_loss'] = total\n        if full:\n            {given}"
    )
    epoch = f"stats = validate(model{full})\nprint(stats)"
    found = survey_of(script(epoch, code(validate.replace("RETURNED", "stats"))))
    assert sorted(name for name, _ in found.measures) == offered


@pytest.mark.parametrize(
    "returned", ["float(f'{total:.3f}')", "float('%.3f' % total)", "round(total, 3)", "total", "9 % int(total)"]
)
def test_numbers_are_taken_as_they_are(returned: str) -> None:
    assert measured(returned) == ("acc", [])


@pytest.mark.parametrize(
    ("made", "returned", "score"),
    [
        pytest.param("better = total < net.best", "better", "total", id="comparison"),
        pytest.param("better = not total > net.best", "better", "", id="negation"),
        pytest.param("new = False\n    if total < net.best:\n        new = True", "new", "", id="constants"),
        pytest.param("high = max(hits) > 9", "float(high)", "acc", id="as a number"),
        pytest.param("mean = False\n    if net.rank == 0:\n        mean = total / 9", "mean", "acc", id="or none"),
    ],
)  # fmt: skip
def test_whether_a_validation_was_better_is_no_score(made: str, returned: str, score: str) -> None:
    assert measured(returned, made)[0] == score


def test_a_number_that_two_functions_keep_is_told_by_its_name_in_the_inner_one() -> None:
    before = code(VALIDATE).replace("MADE", "mean = total / 9").replace("    return RETURNED\n", "")
    text = script("finish(model)", f"{before}\ndef finish(model):\n    validate(model)\n    print(model)\n")
    (score,) = survey_of(text, metric="validate:mean", mode="min").scores
    assert (score.written, score.known) == ("mean", True)


def test_an_offered_number_is_taken_and_a_string_is_not() -> None:
    before = code(VALIDATE).replace("MADE", "mean = total / 9").replace("RETURNED", "f'loss {mean:.3f}'")
    text = script("acc = validate(model)\nprint(acc)", before)
    (score,) = survey_of(text, metric="validate:mean", mode="min").scores
    assert (score.written, score.known, score.unfit) == ("mean", True, ("", ""))
    (score,) = survey_of(text, metric="acc", mode="min").scores
    assert score.unfit == ("a string", "line 14")


@pytest.mark.parametrize(
    ("tokenizer", "returned", "kind"),
    [
        pytest.param("Tokenizer.from_file('t.json')", "TOKENS.decode(hits)", "a string", id="tokenizers"),
        pytest.param("tiktoken.get_encoding('gpt2')", "TOKENS.decode(hits)", "a string", id="tiktoken"),
        pytest.param("AutoTokenizer.from_pretrained('t')", "TOKENS.decode(hits)", "a string", id="transformers"),
        pytest.param("AutoTokenizer.from_pretrained('t')", "TOKENS.batch_decode(hits)", "a string", id="of a batch"),
        pytest.param("AutoTokenizer.from_pretrained('t')", "TOKENS.vocab_size", "", id="a number of it"),
        pytest.param("AutoTokenizer.from_pretrained('t')", "TOKENS.get_vocab_size()", "", id="another method"),
        pytest.param("Decoder()", "TOKENS.decode(hits)", "", id="of what is not known"),
    ],
)
def test_what_a_tokenizer_decodes_is_a_string(tokenizer: str, returned: str, kind: str) -> None:
    imports = "import tiktoken\nfrom tokenizers import Tokenizer\nfrom transformers import AutoTokenizer\n"
    before = f"{imports}tokens = {tokenizer}\n" + code(VALIDATE).replace("step=0", "coder").replace("MADE", "pass")
    before = before.replace("RETURNED", returned.replace("TOKENS", "coder"))
    epoch = "acc = validate(model, tokens)\nprint(acc)"
    assert [score.expression for score in survey_of(script(epoch, before)).scores] == ([] if kind else ["acc"])
    (score,) = survey_of(script(epoch, before), metric="acc").scores
    assert score.unfit[0] == kind


@pytest.mark.parametrize("returned", ["accs", "total, accs"])
def test_a_list_that_is_returned_and_not_taken_is_several_values(returned: str) -> None:
    made = "accs = [[t, {0: 0}] for t in (1, 2)]\n    for i in (0, 1):\n        accs[i][1][0] = hits[i]"
    before = code(VALIDATE).replace("MADE", made).replace("RETURNED", returned)
    (score,) = survey_of(script("validate(model)", before)).scores
    assert (score.written, score.unfit) == ("accs", ("several values", "line 13"))
    (score,) = survey_of(script("validate(model)", before), metric="accs[1][1][0]", mode="max").scores
    assert score.unfit == ("", "")


@pytest.mark.parametrize("taken", ["float(validate(model))", "float(text)"])
def test_a_number_that_is_made_of_a_string_is_taken(taken: str) -> None:
    epoch = f"text = validate(model)\nloss = {taken}\nif loss < best:\n    best = loss"
    before = code(VALIDATE).replace("MADE", "pass").replace("RETURNED", "f'{total}'") + "best = 9\n"
    assert [score.expression for score in survey_of(script(epoch, before)).scores] == ["loss"]


def test_strings_are_not_offered_beside_numbers() -> None:
    before = (
        code(VALIDATE)
        .replace("MADE", "out = {'text': ''}")
        .replace("return RETURNED", "out['loss'] = total / 2\n    out['text'] = f'{total}'\n    return out")
    )
    found = survey_of(script("out = validate(model)\nprint(out['text'])", before))
    assert (found.scores, [name for name, _ in found.measures]) == ([], ["out['loss']"])
    both = "val_loss, acc = evaluate(model)\nline = f'{val_loss} {acc}'\nprint(line)"
    assert [name for name, _ in survey_of(script(both)).measures] == []


def test_what_a_metric_computes_in_the_loop_is_offered_by_its_name() -> None:
    epoch = (
        "model.eval()\nfor x, y in val:\n    metric.add_batch(model(x), y)\nresult = metric.compute()\nprint(result)"
    )
    found = survey_of(script(epoch))
    assert (found.scores, [name for name, _ in found.measures]) == ([], ["result"])


OBJECTS = {
    "a property": ("@property\n    def avg(self):\n        return self.total / self.n", ["acc.avg"]),
    "a method that divides": ("def mean_loss(self):\n        return self.total / self.n", ["acc.mean_loss()"]),
    "a dict of them": ("def all(self):\n        return {'a': self.total / self.n}", ["acc.all()[...]"]),
    "an attribute": ("loss = 0.0", ["acc.loss"]),
    "a field": ("loss: float", ["acc.loss"]),
    "a string": ("def text(self):\n        return 'n %d' % self.n", ["acc.ATTRIBUTE"]),
    "what needs more": ("def of(self, n):\n        return self.total / n", ["acc.ATTRIBUTE"]),
}


@pytest.mark.parametrize(("member", "offered"), OBJECTS.values(), ids=OBJECTS)
def test_numbers_of_an_object_are_offered_in_its_place(member: str, offered: list[str]) -> None:
    before = f"class Meter:\n    total = n = 1\n    {member}\n\n" + code(VALIDATE)
    before = before.replace("MADE", "meter = Meter()").replace("RETURNED", "meter")
    found = survey_of(script("acc = validate(model)\nlog(acc)", before))
    assert (found.scores, [name for name, _ in found.measures]) == ([], offered)


def test_what_the_loop_reads_of_an_object_is_offered() -> None:
    before = "import torchmetrics\n" + code(VALIDATE)
    before = before.replace("MADE", "f1 = torchmetrics.F1Score().to(0)").replace("RETURNED", "f1")
    found = survey_of(script("acc = validate(model)\nprint(acc.compute())", before))
    assert (found.scores, [name for name, _ in found.measures]) == ([], ["acc.compute()"])


@pytest.mark.parametrize(
    ("epoch", "made", "score"),
    [
        pytest.param("outs = validate(model)", "shown = net(0)", "", id="nothing reads them"),
        pytest.param("outs = validate(model)\ntorch.save(outs, 'x')", "shown = net(0)", "", id="saved"),
        pytest.param("outs = validate(model)\nwriter.add_images('x', outs)", "shown = net(0)", "", id="shown"),
        pytest.param("found = validate(model)\nprint(found)", "shown = net(0)", "found", id="printed"),
        pytest.param("found = validate(model)\nx = found / 2", "shown = net(0)", "found", id="divided"),
        pytest.param("found = validate(model)", "shown = total / 2", "found", id="made of numbers"),
        pytest.param("loss = validate(model)", "shown = net(0)", "loss", id="by its name"),
        pytest.param("found = elsewhere.validate(model)", "shown = 1", "found", id="of what is not known"),
    ],
)
def test_pictures_of_a_validation_are_no_score(epoch: str, made: str, score: str) -> None:
    assert measured("shown", made, epoch)[0] == score


@pytest.mark.parametrize(
    ("made", "epoch", "offered"),
    [
        pytest.param("utils.Meter()", "meter = validate(model, meter)\nmeter.means()", ["meter.ATTRIBUTE"], id="asked"),
        pytest.param("utils.Meter()", "meter = validate(model, meter)\nx = meter.avg", ["meter.avg"], id="a number"),
        pytest.param("utils.PSNR(1)", "acc = validate(model, meter)\nx = acc.item()", None, id="in capitals"),
        pytest.param("Meter()", "meter = validate(model, meter)", ["meter.loss"], id="of a class that is known"),
    ],
)  # fmt: skip
def test_an_object_that_a_validation_is_given_and_returns_is_no_number(
    made: str, epoch: str, offered: list[str] | None
) -> None:
    before = "class Meter:\n    loss = 0.0\n\n" + code(VALIDATE).replace("MADE", "pass").replace("RETURNED", "step")
    found = survey_of(script(epoch, f"{before}\nmeter = {made}\n"))
    taken = [] if offered is not None else ["acc"]
    assert [score.expression for score in found.scores] == taken
    assert [name for name, _ in found.measures] == (offered or [])


@pytest.mark.parametrize(
    ("epoch", "offered"),
    [
        pytest.param("out = {}\nfor n in sets:\n    out[n] = validate(model)", {"out[...]": "line 23"}, id="by name"),
        pytest.param("for n in sets:\n    acc = validate(model)", {"acc": "line 22, of the last turn alone"}, id="one"),
    ],
)  # fmt: skip
def test_scores_of_several_sets_are_told_as_such(epoch: str, offered: dict[str, str]) -> None:
    before = code(VALIDATE).replace("MADE", "pass").replace("RETURNED", "total")
    found = survey_of(script(epoch, before))
    assert (found.scores, dict(found.measures)) == ([], offered)


def test_what_is_made_of_a_string_is_no_number_either() -> None:
    before = code(VALIDATE).replace("MADE", "pass").replace("RETURNED", "f'{total}'")
    found = survey_of(script("told = validate(model)\nline = told + '!'\nprint(line)", before))
    assert (found.scores, [name for name, _ in found.measures]) == ([], ["validate:total"])


@pytest.mark.parametrize("test", ["state['early_stop']", "not state['early_stop']", "late and state['early_stop']"])
def test_an_item_that_a_loop_only_asks_about_is_no_score(test: str) -> None:
    text = script(f"loss_state = evaluate(model, state)\nif {test.replace('state', 'loss_state')}:\n    BODY")
    assert survey_of(text.replace("BODY", "break")).scores == []
    read = survey_of(text.replace("BODY", "print(loss_state['early_stop'])")).scores
    assert [score.expression for score in read] == ["loss_state['early_stop']"]


def test_items_of_which_a_loop_takes_the_mean_are_numbers(tmp_path: Path) -> None:
    body = """sums = {}
for k in ("a", "b"):
    if f"val/{k}" not in sums:
        sums[f"val/{k}"] = [evaluate(model)]
    else:
        sums[f"val/{k}"].append(evaluate(model))
MEAN
if sums["val/a"] > best:
    best = sums["val/a"]"""
    mean = "for k, v in sums.items():\n    sums[k] = sum(v) / len(v)"
    assert plan_of(tmp_path, script(body.replace("MEAN", mean), "best = 0")).questions == []
    (question,) = plan_of(tmp_path, script(body.replace("MEAN", "pass"), "best = 0")).questions
    assert "is several values" in question.message


@pytest.mark.parametrize(
    ("made", "returned", "given", "kind"),
    [
        pytest.param("pass", "{1: total} if step else total", "model", "", id="by default"),
        pytest.param("pass", "{1: total} if step else total", "model, step=0", "", id="as given"),
        pytest.param("pass", "{1: total} if step else total", "model, 1", "several values", id="the other one"),
        pytest.param("pass", "{1: total} if step else total", "model, epoch", "several values", id="either"),
        pytest.param("step = epoch", "{1: total} if step else total", "model", "several values", id="made in it"),
        pytest.param("if step:\n        return {1: total}", "total", "model", "", id="by a statement"),
        pytest.param(
            "if not step:\n        return {1: total}", "total", "model", "several values", id="the other statement"
        ),
    ],
)
def test_what_a_call_returns_is_what_its_arguments_choose(made: str, returned: str, given: str, kind: str) -> None:
    before = code(VALIDATE).replace("MADE", made).replace("RETURNED", returned)
    epoch = f"acc = validate({given})\nif acc > best:\n    best = acc"
    (score,) = survey_of(script(epoch, f"{before}\nbest = 0")).scores
    assert score.unfit[0] == kind


@pytest.mark.parametrize(
    ("row", "mean", "kind"),
    [
        ("[2 * loss, loss]", "np.mean(losses, axis=0)", "several values"),
        ("[one.item() for one in loss]", "np.mean(losses, 0)", "several values"),
        ("np.array([2 * loss, loss])", "np.mean(losses, axis=-1)", "several values"),
        ("[2 * loss, loss]", "np.mean(losses)", ""),
        ("[2 * loss, loss]", "np.mean(losses, axis=None)", ""),
        ("[2 * loss, loss]", "np.mean(losses, axis=(0, 1))", ""),
        ("[2 * loss, loss]", "np.mean(np.mean(losses, axis=0))", ""),
        ("loss", "np.mean(losses, axis=0)", ""),
        ("[2 * loss, loss]", "np.array(losses).mean(0)", "several values"),
        ("[2 * loss, loss]", "np.asarray(losses).sum(axis=0)", "several values"),
        ("[2 * loss, loss]", "torch.tensor(losses).mean(dim=0)", "several values"),
        ("[2 * loss, loss]", "np.array(losses).mean()", ""),
        ("[2 * loss, loss]", "np.array(losses).mean(0).mean()", ""),
        ("[2 * loss, loss]", "np.array(losses).take(0)", ""),
        ("loss", "np.array(losses).mean(0)", ""),
    ],
)
def test_a_mean_of_each_column_is_no_number(tmp_path: Path, row: str, mean: str, kind: str) -> None:
    epoch = f"""losses = []
model.eval()
for x, y in val_loader:
    loss = criterion(model(x), y)
    losses.append({row})
val_loss = {mean}
print(f"Val loss: {{val_loss}}")"""
    text = f"import numpy as np\n{script(epoch)}"
    (score,) = survey_of(text).scores
    assert (score.expression, score.unfit[0]) == ("val_loss", kind)
    assert [one.code for one in plan_of(tmp_path, text).questions] == (["PAI105"] if kind else [])


@pytest.mark.parametrize(
    ("read", "kind"),
    [
        ("print(val_loss[0], val_loss[1])", "several values"),
        ("print(val_loss[0])", ""),
        ("print(val_loss)", ""),
        ("print(val_loss[1:])", ""),
        ("print(val_loss[1])\nval_loss = val_loss[0]", ""),
        ("print(names[1])", ""),
        ("log(val_loss)\nval_loss = measure(model)\nprint(val_loss[1])", ""),
    ],
)
def test_what_has_a_further_item_is_no_number(tmp_path: Path, read: str, kind: str) -> None:
    """An array may have but one number, and its first item is that; a name may get another value behind."""
    epoch = f"""losses = np.zeros((8, 2))
model.eval()
for number, (x, y) in enumerate(val_loader):
    losses[number, :] = measure(model(x), y)
val_loss = losses.mean(axis=0)
{read}"""
    text = f"import numpy as np\n{script(epoch)}"
    (score,) = survey_of(text).scores
    assert score.unfit[0] == kind
    assert [one.code for one in plan_of(tmp_path, text).questions] == (["PAI105"] if kind else [])


@pytest.mark.parametrize(
    "walk",
    [
        "for iou in ious[name]:\n    seen.append(iou)",
        "seen += [iou for iou in ious[name]]",
        "for iou in ious['iou']:\n    seen.append(iou)",
    ],
)
def test_an_item_of_a_dict_is_no_other_item_that_the_loop_walks_over(walk: str) -> None:
    epoch = f"""stats, seen, name = {{}}, [], "box"
ious = validate(model)
{walk}
stats["iou"] = np.mean(seen)
if stats["iou"] > best:
    best = stats["iou"]"""
    (score,) = survey_of(f"import numpy as np\nbest = 0\n{script(epoch)}").scores
    assert (score.written, score.unfit) == ('stats["iou"]', ("", ""))


@pytest.mark.parametrize(
    ("made", "array", "kind"),
    [
        ("total / len(val_loader)", "np.array(val_loss)", ""),
        ("loss.item()", "np.array(val_loss)", ""),
        ("[total, loss]", "np.array(val_loss)", "several values"),
        ("measure(model)", "np.array(val_loss)", "several values"),
        ("total", "np.array([val_loss, total])", "several values"),
    ],
)
def test_an_array_of_a_number_is_one_value(made: str, array: str, kind: str) -> None:
    epoch = f"""total = 0
model.eval()
for x, y in val_loader:
    loss = criterion(model(x), y)
    total += loss.item()
val_loss = {made}
given = {array}
print(given)"""
    (score,) = survey_of(f"import numpy as np\n{script(epoch)}", metric="given", mode="min").scores
    assert score.unfit[0] == kind


CONSTANT = {
    "returned": ("pass", "0", "0"),
    "of a name": ("mean = 0.0", "mean", "0.0"),
    "in a tuple": ("mean = -1", "(mean, hits)[0]", "-1"),
    "by each branch": ("mean = 0\n    if step:\n        mean = 0", "mean", "0"),
    "by another name": ("mean = 0\n    out = mean", "out", "0"),
    "added to": ("mean = 0\n    mean += 1", "mean", ""),
    "one of two": ("mean = 0\n    if step:\n        mean = 1", "mean", ""),
    "of a loop": ("for mean in hits:\n        pass", "mean", ""),
    "by an inner function": (
        "mean = 0\n    def add(x):\n        nonlocal mean\n        mean = x\n    add(total)",
        "mean",
        "",
    ),
    "by all functions": ("global mean\n    mean = 0\n    add(total)", "mean", ""),
    "of an attribute": ("net.mean = 0\n    net.add(total)", "net.mean", ""),
    "of an item": ("out = {'mean': 0}\n    add(out)", "out['mean']", ""),
    "measured": ("pass", "total", ""),
}


@pytest.mark.parametrize(("made", "returned", "number"), CONSTANT.values(), ids=CONSTANT)
def test_a_number_that_no_epoch_changes_is_no_score(made: str, returned: str, number: str) -> None:
    """A validation that returns the 0 it began with has forgotten what it measured: no structure would be better."""
    before = code(VALIDATE).replace("MADE", made).replace("RETURNED", returned)
    before += "plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\n"
    before += "def add(x):\n    global mean\n    mean = x\n"
    text = script("val_loss = validate(model)\nplateau.step(val_loss)", before)
    found = survey_of(text)
    (score,) = found.scores
    assert (score.expression, score.unfit[0]) == ("val_loss", number and f"always {number}")
    assert not any("val_loss" in name for name, _ in found.measures)


def test_what_is_named_before_the_epochs_alone_is_no_score_either(tmp_path: Path) -> None:
    """Another value that may be one comes first; where there is none, the question says so, and what is left."""
    epoch = "val_acc = 0\nif val_acc > best:\n    best = val_acc\nMORE"
    text = f"import torch\n{script(epoch, 'best, val_acc = 0, 0')}"
    (question,) = plan_of(tmp_path, text.replace("MORE", "pass")).questions
    assert "`val_acc` is always 0 (line " in question.message
    assert "of its training --metric loss --mode min takes `loss`" in question.message
    (score,) = survey_of(text.replace("MORE", "acc = evaluate(model)")).scores
    assert (score.expression, score.unfit[0]) == ("acc", "")
    text = text.replace("    val_acc = 0", "    pass").replace("MORE", "pass")
    assert survey_of(text).scores == []
    (score,) = survey_of(text, metric="val_acc").scores
    assert score.unfit == ("always 0", "line 18")


GIVEN = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Plain:
    pass

class Number(Plain):
    def __float__(self):
        return 1.0

def train(model, loader, optimizer, scheduler, other):
    for x, y in loader:
        loss = criterion(model(x), y)
        PASS
        optimizer.step()

def main():
    model = DDP(torch.nn.Linear(1, 1))
    loader = torch.utils.data.DataLoader(data)
    optimizer = torch.optim.AdamW(model.parameters())
    WRAP
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    other = OTHER
    for epoch in range(9):
        train(model, loader, optimizer, scheduler, other)

main()
"""


@pytest.mark.parametrize(
    ("step", "wrap"),
    [
        ("loss.backward()", "pass"),
        ("scaler.scale(loss).backward()", "pass"),
        ("optimizer.backward(loss)", "pass"),
        ("optimizer.backward(loss)", "optimizer = FP16_Optimizer(optimizer)"),
        ("loss.backward(torch.ones_like(loss))", "pass"),
    ],
)
def test_the_loss_is_offered_and_no_optimizer_that_is_given_it(step: str, wrap: str) -> None:
    found = survey_of(GIVEN.replace("PASS", step).replace("WRAP", wrap).replace("OTHER", "1"))
    assert [name for _, name, _ in found.trained] == ["loss"]


@pytest.mark.parametrize(
    ("metric", "other", "kind"),
    [
        ("optimizer", "1", "an object of `AdamW`"),
        ("scheduler", "1", "an object of `StepLR`"),
        ("loader", "1", "an object of `DataLoader`"),
        ("model", "1", "an object of `Linear`"),
        ("other", "Plain()", "an object of `Plain`"),
        ("other", "Number()", ""),
        ("other", "torch.nn.Parameter(x)", ""),
        ("other", "utils.PSNR(1)", ""),
        ("other", "torch.optim.SGD(p) if given else 1.0", ""),
    ],
)
def test_what_a_function_is_given_is_no_number_where_it_is_an_object(metric: str, other: str, kind: str) -> None:
    text = GIVEN.replace("PASS", "loss.backward()").replace("WRAP", "pass").replace("OTHER", other)
    (score,) = survey_of(text, metric, "min").scores
    assert score.unfit[0] == kind


def test_several_values_are_known_through_functions_that_hand_them_on() -> None:
    deep = "def ranked(net):\n    hits = [0] * 3\n    hits = [one / 9 for one in hits]\n    return hits, 1\n\n"
    for number, called in enumerate(("ranked", "on1", "on2")[:2], start=1):
        deep += f"def on{number}(net):\n    hits, n = {called}(net)\n    return hits, n\n\n"
    found = survey_of(script("accs, n = on2(model)\nif accs > best:\n    best = accs", f"{deep}best = 0"))
    assert [score.unfit[0] for score in found.scores] == ["several values"]


GATHERS = """
    from collections import defaultdict

    def validate(net):
        found = defaultdict(list)
        for x, y in val_loader:
            found["accs"].append(hit(net(x), y))
        END
"""


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        pytest.param("return found", "several values", id="as they are"),
        pytest.param("return {name: mean(all) for name, all in found.items()}", "", id="a mean of each"),
        pytest.param("for name in found:\n    found[name] = mean(found[name])\nreturn found", "", id="in its place"),
        pytest.param("found['accs'] = mean(found['accs'])\nreturn found", "", id="of one"),
        pytest.param("reduce(found)\nreturn found", "", id="by a function"),
    ],
)
def test_an_item_that_begins_as_a_list_is_several_values(end: str, kind: str) -> None:
    before = code(GATHERS).replace("END", end.replace("\n", "\n    "))
    (score,) = survey_of(script("ret = validate(model)\nprint(ret['accs'])", before)).scores
    assert score.unfit[0] == kind


@pytest.mark.parametrize(
    ("epoch", "kind"),
    [
        pytest.param("for acc in ret['accs']:\n    print(acc)", "several values", id="a loop"),
        pytest.param("print([f'{acc:.3f}' for acc in ret['accs']])", "several values", id="a comprehension"),
        pytest.param("for name in ret:\n    print(name, ret['accs'])", "", id="of what it is in"),
        pytest.param("for acc in ret['classes']:\n    print(acc)", "", id="of another item"),
        pytest.param("for acc in ret['classes']:\n    print(acc, float(ret['accs']))", "", id="of one, beside a call"),
        pytest.param("for acc in ret['accs']:\n    print(acc)\nret = other(ret)", "", id="given anew"),
    ],
)
def test_what_the_epoch_loop_goes_through_is_several_values(epoch: str, kind: str) -> None:
    text = script(f"ret = validate(model)\nprint(ret['accs'])\n{epoch}", "def validate(net):\n    return measure(net)")
    score = next(one for one in survey_of(text).scores if one.expression == "ret['accs']")
    assert score.unfit[0] == kind


@pytest.mark.parametrize("line", ["for x in errors: print(x)", "print(errors[3])"])
def test_what_never_runs_is_looked_through_in_peace(line: str) -> None:
    found = survey_of(
        script("acc = validate(model)\nprint(acc)", f"def old(errors):\n    raise ValueError\n    {line}\n")
    )
    assert [score.expression for score in found.scores] == ["acc"]
