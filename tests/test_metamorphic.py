"""Comments, documentation, layout, locals' names and the order of functions change nothing that is said or written."""

from __future__ import annotations

from itertools import islice

import pytest

from tests import structure
from tests.metamorphic import CHANGES, apply_differs, check_differs, dressed, examples, scripts
from tests.test_transaction import WHOLE

#: What a sample leaves out: each project takes a third of a second, each file a hundredth.
EVERY = dict.fromkeys(CHANGES, (8, 8)) | {"dressed": (6, 4), "renamed": (6, 4)}
#: Where it begins, so that each change is made to other ones.
FIRST = {change: number for number, change in enumerate(CHANGES)}


@pytest.mark.parametrize("change", CHANGES)
def test_a_script_in_other_words_is_rewritten_the_same(change: str) -> None:
    step = 1 if WHOLE else EVERY[change][0]
    chosen = islice(scripts(), FIRST[change] % step, None, step)
    some = {name: apply_differs(texts, entry, change) for name, texts, entry in chosen}
    assert {name: lines for name, lines in some.items() if lines} == {}


@pytest.mark.parametrize("change", CHANGES)
def test_the_same_is_found_in_a_file_in_other_words(change: str) -> None:
    step = 1 if WHOLE else EVERY[change][1]
    chosen = islice(examples(), FIRST[change] % step, None, step)
    some = {name: check_differs(text, change) for name, text in chosen}
    assert {name: lines for name, lines in some.items() if lines} == {}


def test_what_dresses_a_script_leaves_its_statements() -> None:
    text = dressed("def f(x):\n    if x:\n        return 'a'\n    else:\n        return 'b'\n")
    assert text.count("# ") == 11  # before and behind each statement
    assert text.count('"""') == 2
    assert 'return "a"  # ' in text


TORCH = "import os\nfrom torch import nn\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n\n\n"
BEFORE = TORCH + "def f(x):\n    return DDP(nn.Linear(1, 2), x)\n\n\ndef g():\n    return f(os.sep)\n"


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ("wrapped", "DDP(nn.Linear(1,\n         2),\n         x)"),
        ("qualified", "torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 2), x)"),
        ("reordered", "DDP\nfrom torch import nn\nimport os\n"),
        ("reordered", "def g():\n    return f(os.sep)\n\n\ndef f(x):"),
    ],
)
def test_what_changes_a_script(change: str, part: str) -> None:
    assert part in CHANGES[change]().files({"train.py": BEFORE})["train.py"]


def test_a_statement_that_was_wrapped_is_one_line_again() -> None:
    change = CHANGES["unwrapped"]()
    assert change.files({"train.py": "x = f(1,  # one\n    2); y = [\n]\n"}) == {"train.py": "x = f(1, 2)\ny = []\n"}


@pytest.mark.parametrize("change", [one for one in structure.CHANGES if WHOLE or one not in structure.QUIET])
def test_the_same_is_decided_of_a_training_in_other_statements(change: str) -> None:
    names = [*structure.projects()]
    few, number = names[::4], [*structure.CHANGES].index(change)  # what is decided of them before is worked out once
    chosen = names if WHOLE else [few[number % len(few)]]
    some = {name: structure.decided_otherwise(name, change) for name in chosen}
    assert {name: told for name, told in some.items() if told} == {}


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ("epoch in a function", "best_acc = run_epoch(best_acc, device, epoch, model, "),
        ("epoch in a function", "    return best_acc\n"),
        ("epoch in a closure", "    def run_epoch(best_acc, epoch):"),
        ("step in a function", "total = train_step(device, labels, model, optimizer, points, total)"),
        ("while not done", "        done = epoch >= args.epochs"),
        ("dict inline", "if measured['acc'] > best_acc:"),
        ("best by a function", "if is_better(acc, best_acc):"),
        ("turned", "if not torch.cuda.is_available():"),
        ("now and then", "if (epoch + 1) % 2 == 0:\n            acc = validate("),
        ("phases by a flag", "            if not fits:\n                acc = validate("),
        ("phases of a dict", "            if part == 'val':\n                acc = validate("),
        ("spawned by a launcher", "if __name__ == '__main__':\n    launch()"),
        ("by a due function", "        if is_due(epoch):\n            acc = validate("),
        ("at last in any case", "        finally:\n            acc = validate("),
    ],
)
def test_what_changes_the_structure_of_a_training(change: str, part: str) -> None:
    texts = structure.changed("ddp_demo", change)
    assert texts is not None
    assert part in texts["train.py"]
