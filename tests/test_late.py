"""Machines whose shared folder shows each of them late what another one has changed there, on the real library."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import swapped
from tests.late import shown_late
from tests.launching import DEADLINE, heed_signals, until  # noqa: F401 - a fixture
from tests.test_faults_of_runs import (
    SAVE,
    WHOLE,
    Machines,
    Project,
    Undisturbed,
    trained_undisturbed,  # noqa: F401 - a fixture
)
from tests.test_rounds import END

pytestmark = pytest.mark.real

#: Each rank says what model it has at the end.
TOLD = '    print(f"rank {dist.get_rank()} ends with {sum(p.sum() for p in model.parameters()):.9f}")\n'


Late = Callable[[int, float], Machines]


@pytest.fixture
def late(undisturbed: Undisturbed, tmp_path: Path) -> Iterator[Late]:
    """Give machines and what shows late what the first has got: the project, which has not been initialised yet."""
    with ExitStack() as stack:

        def machines(count: int, seconds: float) -> Machines:
            folders = stack.enter_context(shown_late(tmp_path, count, seconds))
            if not folders:
                pytest.skip("no FUSE: mfusepy, libfuse, fusermount or /dev/fuse is missing")
            made = Machines([Project(folder) for folder in folders])
            copy = tmp_path / "copy"
            shutil.copytree(undisturbed.after[0].folder, copy)
            (copy / SAVE / "array_dims.csv").unlink()
            (copy / "train.py").write_text(swapped((copy / "train.py").read_text(), (END, TOLD + END)))
            shutil.copytree(copy, folders[0], dirs_exist_ok=True)
            (folders[0] / "whole").touch()
            until(lambda: all((folder / "whole").exists() for folder in folders), "all see it")
            return made

        yield machines


@pytest.mark.parametrize(("count", "seconds"), [(2, 1), (2, 5), (3, 10)] if WHOLE else [(2, 1)])
def test_machines_train_to_the_same_model(count: int, seconds: float, late: Late, undisturbed: Undisturbed) -> None:
    """Their launchers wait for what a round begins with, and each machine for the best model at the end."""
    machines = late(count, seconds)
    launchers = [machines.start(number) for number in reversed(range(count))]
    assert [launcher.wait(DEADLINE) for launcher in launchers] == [0] * count, machines.said
    ends = [re.findall(r"rank \d ends with (\S+)", machines.said_by(number)) for number in range(count)]
    assert len(ends[0]) == 1 == len(set(map(tuple, ends))), ends
    first = undisturbed.after[4] if count == 2 else machines.projects[0]  # where it has as many ranks
    for project in machines.projects:
        assert project.model() == first.model()
        assert not project.processes
