"""The journal and the transaction, for whatever may be in a project and in a record."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from retrofit.errors import UserError
from retrofit.write.files import Content
from retrofit.write.journal import Entry, Journal, Step, step_bytes, taken_path
from retrofit.write.new import NewFile
from retrofit.write.record import Written, recover_around, write_files
from retrofit.write.undo import undo
from tests.faults import around, no_flushes
from tests.test_transaction import WHOLE, at, failing_from

EXAMPLES = 2000 if WHOLE else 60

contents = st.none() | st.builds(Content, st.binary(max_size=20), st.integers(0, 0o777))
paths = st.text(min_size=1).filter(lambda path: not taken_path(path))
entries = st.builds(Entry, paths, contents, contents, st.lists(paths, max_size=2).map(tuple))
steps = st.builds(
    Step,
    command=st.sampled_from(["apply", "undo", "check --fix"]),
    entries=st.lists(
        entries.filter(lambda one: one.before is not None or one.after is not None),
        max_size=3,
        unique_by=lambda one: one.path.casefold(),
    ).map(tuple),
    time=st.text(max_size=5),
    uses=st.lists(paths, max_size=2).map(tuple),
    place=st.integers(0, 2**40),
    folders=st.lists(paths, max_size=2).map(tuple),
)


@given(step=steps, replaced=st.dictionaries(st.integers(0, 999_999_999), st.none() | steps, max_size=2))
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
def test_a_record_says_what_was_put_on_it(step: Step, replaced: dict[int, Step | None]) -> None:
    whole = Step(**{**vars(step), "replaces": replaced})
    with TemporaryDirectory() as folder:
        path = Path(folder, "0001.json")
        path.write_bytes(step_bytes(whole))
        assert Journal(Path(folder)).step(path) == whole


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["..", "/etc", "a/../b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(step=steps, value=values, seed=st.integers(0, 10_000), cut=st.integers(0, 2000) | st.none())
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
def test_of_a_damaged_record_nothing_is_taken_that_leads_elsewhere(
    step: Step, value: Any, seed: int, cut: int | None
) -> None:
    data = json.loads(step_bytes(step))
    holders = list(_holders(data))
    holder = random.Random(seed).choice(holders)
    holder[random.Random(seed).choice(list(holder) if isinstance(holder, dict) else range(len(holder)))] = value
    with TemporaryDirectory() as folder:
        path = Path(folder, "0001.json")
        path.write_bytes(json.dumps(data).encode()[:cut])
        codes = []
        found = Step("", ())
        try:
            found = Journal(Path(folder)).step(path)
        except UserError as error:
            codes = [problem.code for problem in error.problems]
        assert codes in ([], ["RF014"])
        for name in (*(entry.path for entry in found.entries), *found.uses, *found.folders, *found.scripts):
            assert not {"..", ".git", ".retrofit"} & set(name.split("/"))
            assert Path(folder, name).is_relative_to(folder)


def _holders(data: Any) -> Any:
    """Yield every list and table in some data that is not empty."""
    if isinstance(data, (dict, list)) and data:
        yield data
        for value in data.values() if isinstance(data, dict) else data:
            yield from _holders(value)


NAMES = ("train.py", "lib/steps.py", "lib/deep/new.py")
Files = dict[str, bytes]


class Project(RuleBasedStateMachine):
    """Commands that write, undo, are edited after and fail, in any order, beside what should come of them."""

    @initialize()
    def begin(self) -> None:
        self._made = TemporaryDirectory()
        self.folder = Path(self._made.name).resolve()
        self.script = self.folder / "train.py"
        self.script.write_bytes(b"0\n")
        self.files: Files = {"train.py": b"0\n"}
        self.history: list[Files] = []
        self.number = 0

    def _state(self) -> Files:
        return {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file() and ".retrofit" not in path.parts
        }

    def _new(self, names: frozenset[str]) -> Files:
        return {name: f"{self.number} {name}\n".encode() for name in {*names, "train.py"}}

    def _change(self, names: frozenset[str]) -> None:
        self.number += 1
        written = [NewFile(self.folder / name, self.files.get(name), data) for name, data in self._new(names).items()]
        write_files(self.folder, "apply", Written(self.script, written))

    @rule(names=st.frozensets(st.sampled_from(NAMES)))
    def write(self, names: frozenset[str]) -> None:
        self._change(names)
        self.history.append(self.files)
        self.files = {**self.files, **self._new(names)}

    @rule(names=st.frozensets(st.sampled_from(NAMES)), number=st.integers(0, 80), once=st.booleans())
    def fail(self, names: frozenset[str], number: int, once: bool) -> None:
        with suppress(UserError), failing_from(at(number), once):
            self._change(names)
        recover_around(self.script)
        if self._state() != self.files:  # all was written before it failed
            self.history.append(self.files)
            self.files = {**self.files, **self._new(names)}

    @rule(count=st.integers(1, 3))
    def undo(self, count: int) -> None:
        if not self.history:
            with pytest.raises(UserError, match="RF011"):
                undo(self.script, "train.py", count)
            return
        undo(self.script, "train.py", count)
        self.files = self.history[max(0, len(self.history) - count)]
        del self.history[-count:]

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "folder"):
            assert self._state() == self.files
            assert len(Journal(self.folder).numbers()) == len(self.history)
            left = {path.name for path in (self.folder / ".retrofit").glob("*") if not path.name[0].isdigit()}
            assert left <= {".gitignore", "lock"}  # which stay where a failing disk lets nothing be removed

    def teardown(self) -> None:
        if hasattr(self, "_made"):
            self._made.cleanup()


def test_writing_and_undoing_in_any_order_leaves_what_it_should() -> None:
    chosen = settings(max_examples=300 if WHOLE else 8, stateful_step_count=12, deadline=None, derandomize=True)
    with around(no_flushes):
        run_state_machine_as_test(Project, settings=chosen)
