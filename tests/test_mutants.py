"""Whatever a script looks like: refused at a place, or rewritten so that nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import retrofit.plan
from retrofit.rewrite import Rewriting, rewrite
from tests.conftest import SCRIPT, Folder, swapped
from tests.mutants import WrongError, installed, look, mutants
from tests.test_transaction import WHOLE

Many = Callable[[int, int], Iterator[tuple[str, Path, str, Sequence[str]]]]


@pytest.mark.parametrize(("many", "number"), [(mutants, 500 if WHOLE else 4), (installed, 300 if WHOLE else 3)])
def test_what_people_have_is_refused_or_loses_nothing(many: Many, number: int) -> None:
    wrong = []
    for what, folder, script, options in many(number, 13):
        try:
            look(folder, script, options)
        except WrongError as error:
            wrong.append(f"{what}: {error}")
    assert wrong == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    criterion = nn.CrossEntropyLoss()\n", "", "is gone"),
        ("    best_acc = 0.0\n", "    best_acc  = 0.0\n", "is gone"),
        ("  # why", "", "'# why'.* is lost"),
    ],
)
def test_a_look_sees_what_is_lost(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, old: str, new: str, message: str
) -> None:
    def broken(*given: Any) -> Rewriting:
        return Rewriting(swapped(rewrite(*given), (old, new)), {})

    folder.write(
        "train.py", swapped(SCRIPT, ("DistributedDataParallel(model)", "DistributedDataParallel(model)  # why"))
    )
    folder.write("root-of-mutant", "")
    monkeypatch.setattr(retrofit.plan, "rewriting", broken)
    monkeypatch.setattr(retrofit.plan, "_prove", lambda *given: None)
    with pytest.raises(WrongError, match=message):
        look(folder.path, "train.py")
