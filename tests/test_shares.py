"""Ranks that go through shares of their own may take unequal steps, and wait for each other at the score."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.helpers import plan_of, script

FILES = """
    for file in mine:
        for x, y in load(file):
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    val_loss = evaluate(model)
"""


def shared(mine: str, before: str = "rank, world = get_rank(), 4") -> str:
    """Return the script that trains on each of its rank's files."""
    text = script("EPOCHS", f"{before}\nmine = {mine}")
    head = text[: text.index("    for x, y")]
    return head.rstrip() + FILES


@pytest.mark.parametrize(
    "mine",
    [
        pytest.param("files[rank::world]", id="a slice"),
        pytest.param("tqdm(sorted(files)[int(os.environ['RANK']) :: world])", id="a slice by the environment"),
        pytest.param("[files[i] for i in range(rank, len(files), world)]", id="a range"),
        pytest.param("[file for i, file in enumerate(files) if i % world == rank]", id="a remainder"),
        pytest.param("DataLoader(Files(files[rank::world]), batch_size=1)", id="a loader"),
    ],
)
def test_a_share_of_each_rank_is_told(tmp_path: Path, mine: str) -> None:
    (note,) = plan_of(tmp_path, shared(mine)).notes
    assert (note.code, note.line) == ("PAI011", 8)
    assert "` is another share for each rank, and where one is longer than others its rank takes more" in note.message
    assert "into `with model.join():`" in note.message


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(shared("files"), id="all of them"),
        pytest.param(shared("files[::2]"), id="every second"),
        pytest.param(shared("files[rank : total : world]"), id="as many for each"),
        pytest.param(shared("files[start::world]", "start = int(args.first)"), id="from another number on"),
        pytest.param(shared("files", "print(files[rank::world])"), id="shown"),
        pytest.param(shared("files", "def test(rank):\n    run(files[rank::world])"), id="tested"),
        pytest.param(
            shared("files[rank::world]").replace(
                "model = DDP(model)", "model = DDP(model)\nwith model.join():\n    pass"
            ),
            id="joined",
        ),
        pytest.param(shared("files[rank::world]").replace("DistributedDataParallel", "DataParallel"), id="one process"),
    ],
)
def test_what_all_ranks_have_as_many_of_is_no_share(tmp_path: Path, text: str) -> None:
    made = plan_of(tmp_path, text)
    assert made.questions == []
    assert [note for note in made.notes if "share" in note.message] == []


JOIN = "from torch.distributed.algorithms.join import Join\n"


def within(context: str, around: str, before: str = "", imported: str = JOIN) -> str:
    """Return the script with a context around its loop over epochs, or over batches, by the head of that."""
    head, epochs = (imported + script("val_loss = evaluate(model)", before)).split("for epoch")
    head, loop, rest = head, f"for epoch{epochs}", ""
    if around == "batches":
        first, loop = loop.split("    for x")
        loop, rest = f"    for x{loop}".split("    val_loss")
        head, rest = head + first, f"    val_loss{rest}"
    indent = "    " * (around == "batches")
    return f"{head}{indent}with {context}:\n{textwrap.indent(loop, '    ')}{rest}"


@pytest.mark.parametrize(
    ("context", "before"),
    [
        ("Join([model])", ""),
        ("model.join()", ""),
        ("joined", "joined = Join([model]) if isinstance(model, DDP) else nullcontext()"),
        ("open('log'), Join([model], enable=True)", ""),
    ],
)
def test_ranks_that_run_ahead_to_other_epochs_are_asked_about(tmp_path: Path, context: str, before: str) -> None:
    (question,) = plan_of(tmp_path, within(context, "epochs", before)).questions
    assert question.code == "PAI011"
    assert "a rank that has no more batches goes on with its next epoch" in question.message
    assert plan_of(tmp_path, within(context, "batches", before)).questions == []


def test_ranks_run_ahead_in_a_function_that_such_a_context_calls_too(tmp_path: Path) -> None:
    head, epochs = (JOIN + script("val_loss = evaluate(model)")).split("for epoch")
    inside = textwrap.indent(f"for epoch{epochs}", "    ")
    text = f"{head}def train():\n{inside}\nwith Join([model]):\n    train()\n"
    (question,) = plan_of(tmp_path, text).questions
    assert (question.code, question.line) == ("PAI011", text[: text.index("with Join")].count("\n") + 1)


def test_another_context_around_the_epochs_is_none_in_which_ranks_run_ahead(tmp_path: Path) -> None:
    for context, imported in (("lock.acquire()", JOIN), ("Join([model])", "from project import Join\n")):
        assert plan_of(tmp_path, within(context, "epochs", imported=imported)).questions == []
    text = within("Join([model])", "epochs").replace("DistributedDataParallel", "DataParallel")
    assert plan_of(tmp_path, text).questions == []
