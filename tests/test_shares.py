"""Ranks that go through shares of their own may take unequal steps, and wait for each other at the score."""

from __future__ import annotations

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
