"""What `retrofit verify` concludes from what it has seen, and how it keeps the user's project as it is."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result

from retrofit.cli import main
from retrofit.errors import Problem, UserError
from retrofit.interpreter import Interpreter
from retrofit.layout import View
from retrofit.options import Options
from retrofit.plan import make_plan
from retrofit.verify import processes
from retrofit.verify.causes import between_ranks, cause, trap
from retrofit.verify.judge import Check, Training, judge
from retrofit.verify.record import Event, Round, cut_rounds, read_events
from retrofit.verify.report import to_text
from retrofit.verify.scratch import Scratch, copy_project
from retrofit.verify.trial import Limits, Trial
from retrofit.verify.verdict import Request, Verdict, _raise_if_untried
from tests.conftest import NOTED, SCRIPT, Folder, swapped
from tests.helpers import recipe, refusal_of

# ---- the report ------------------------------------------------------------------------------------------------------


def _verdict(rounds: list[Round]) -> Verdict:
    training = _training(*rounds)
    request = Request(Path("train.py"), "train.py", (), "python", 2, True, False, 4, 10, 60, None)
    limits = Limits(2, True, 4, 10, 60)
    interpreter = Interpreter("python", "3.11", "2.13.0", "3.2.9", 0)
    return Verdict(request, True, (), limits, interpreter, training, judge(training), 31.0)


def _disproven() -> Verdict:
    rounds = _proven()
    _event(rounds[1], 1, "score").update(score=0.6)
    return _verdict(rounds)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_report_fits_the_terminal_and_loses_nothing(width: int) -> None:
    for verdict in (_verdict(_proven()), _disproven()):
        shown, plain = to_text(verdict, View(width)), to_text(verdict)
        assert shown.split() == plain.split()
        assert max(map(len, shown.splitlines())) <= width


def test_the_report_of_failures_leaves_out_what_went_well() -> None:
    lines = to_text(_disproven(), failures_only=True).splitlines()
    assert lines[0].startswith("failed  score  round 2: the ranks gave the tracker different scores, 0.5, 0.6")
    assert lines[1] == ""
    assert lines[2].startswith("train.py: disproven, rewritten (2 simulated GPUs")


def test_a_quiet_verify_says_nothing_of_a_proven_script(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write("train.py", SCRIPT)
    for verdict, code, lines in ((_verdict(_proven()), 0, 0), (_disproven(), 1, 4)):

        def verify(
            request: Request, recipe: object, options: object, ended: Callable[[Round], None], noted: object,
            told: object, verdict: Verdict = verdict,
        ) -> Verdict:  # fmt: skip
            ended(verdict.training.initial)
            return verdict

        monkeypatch.setattr("retrofit.verify.verdict.verify", verify)
        loud, quiet = folder.run("verify", "train.py"), folder.run("verify", "-q", "train.py")
        assert (quiet.code, len(quiet.out.splitlines()), quiet.err) == (code, lines, "")
        assert len(loud.out.splitlines()) > 10
        assert loud.err.startswith("initialisation ")


class _Trial:
    """Runs the script as it was: it hangs, or comes as far as the rewritten one has."""

    impossible = ""

    def __init__(self, hangs: bool) -> None:
        self.hangs = hangs

    def run_unchanged(self, *_: object) -> tuple[Round, str]:
        stacks = {"rank 1": ["barrier", "main (train.py:7)"]} if self.hangs else {}
        return Round("the script as it was", stacks=stacks), "it left with status -9" if self.hangs else ""


def test_a_script_that_hangs_is_tried_as_it_was(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    plan = make_plan(Path("train.py"), "train.py", recipe(), Options(metric="acc", mode="max"))
    hung = _round(1, ended="hung", switch="", stacks={"rank 1": ["barrier", "main (train.py:9)"]})
    for rank in hung.ranks:
        hung.ranks[rank] = [{"kind": "perforated", "layers": 2, "place": "train.py:1", "rank": rank, "time": 0.0}]
    training, request = _training(hung, complete=False), _verdict([hung]).request

    def judged(hangs: bool) -> None:
        assert not list(_raise_if_untried(request, cast("Trial", _Trial(hangs)), training, plan, applied=True))

    judged(hangs=False)  # it is the rewriting that hangs
    said = str(refusal_of(lambda: judged(hangs=True)))
    assert "before its rewriting it does not run here either. rank 1 is in barrier, called by main (train.py:7)" in said


def test_an_integration_that_asks_at_a_terminal_is_not_to_blame_for_what_fails_after(folder: Folder) -> None:
    perforated = "from perforatedai import utils_perforatedai as UPA\nimport argparse\n"
    before = swapped(
        SCRIPT,
        ("import argparse\n", perforated),
        (
            "    criterion =",
            "    model = UPA.perforate_model(model, save_name='mine', maximizing_score=True)\n    criterion =",
        ),
    )
    folder.write("train.py", before)
    plan = make_plan(Path("train.py"), "train.py", recipe(), Options(metric="acc", mode="max"))

    def failing(error: str, message: str) -> Round:
        event = {"kind": "error", "error": error, "message": message, "place": "train.py:9", "rank": 0, "time": 0.0}
        return Round("round 1", ranks={0: [event]}, ended="failed", status=1)

    class Failing(_Trial):
        def run_unchanged(self, *_: object) -> tuple[Round, str]:
            return failing("BdbQuit", "quit"), "bdb.BdbQuit"

    def judged(last: Round) -> list[Problem]:
        training, request = _training(last, complete=False), _verdict([last]).request
        return list(_raise_if_untried(request, cast("Trial", Failing(False)), training, plan, applied=True))

    (note,) = judged(failing("TypeError", "no model"))
    assert note.code == "RF040"
    assert "BdbQuit" in note.message
    assert "it does not run here either" in str(refusal_of(lambda: judged(failing("BdbQuit", "quit"))))


def test_what_apply_remarks_is_told_before_the_training(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_interpreter(request: Request) -> Interpreter:
        raise UserError(Problem("train.py", 0, 0, "RF018", "cannot be tried"))

    monkeypatch.setattr("retrofit.verify.verdict._interpreter", no_interpreter)
    folder.write("train.py", swapped(SCRIPT, *NOTED))
    (note,) = [line for line in folder.run("apply", "--dry-run", "train.py").lines if ": PAI" in line]
    assert folder.run("verify", "train.py").lines[0] == note
    assert note not in folder.run("verify", "-q", "train.py").err


# ---- judging ---------------------------------------------------------------------------------------------------------


def _round(number: int, *, ended: str = "restructured", ranks: int = 2, **changes: Any) -> Round:
    """A round of one epoch of one step in which everything is as it should be."""
    one = Round(
        f"round {number}",
        ranks={rank: _events(rank) for rank in range(ranks)},
        loaded=f"switch_{2 * number - 2}" if number > 1 else "",
        switch=f"switch_{2 * number}" if ended == "restructured" else "",
        ended=ended,
    )
    for name, value in changes.items():
        setattr(one, name, value)
    return one


def _events(rank: int) -> list[Event]:
    handover = {"number": 1, "score": 0.5, "left_out": [], "parameters": 7, "buffers": {"bn.count": 1}, "steps": 1}
    events: list[Event] = [
        {"kind": "wrapper", "place": "train.py:1", "waits_for": [], "broadcasts_records": False},
        {"kind": "optimizer", "optimizer": "SGD", "scheduler": "StepLR", "rates": [0.1], "place": "train.py:2"},
        {"kind": "step", "number": 1, "digest": 5, "rates": [0.1]},
        {"kind": "handover", "place": "train.py:9", "idle_schedulers": [], **handover},
        {"kind": "score", "score": 0.5, "restructured": True, "complete": False, "rates": [0.1], "expected": [0.1]},
    ]
    return [{**event, "process": 100 + rank, "rank": rank, "time": float(at)} for at, event in enumerate(events)]


def _training(*rounds: Round, kind: str = "ddp", complete: bool = True) -> Training:
    initialized = {"kind": "initialized", "steps": 0, "waits": False, "process": 1, "rank": 0, "time": 0.0}
    perforated = {"kind": "perforated", "layers": 3, "place": "train.py:1", "process": 1, "rank": 0, "time": 0.0}
    initial = Round("initialisation", ranks={0: [perforated, initialized]}, ended="initialised")
    return Training(kind, initial, list(rounds), complete, max_rounds=10)


def _proven() -> list[Round]:
    last = _round(3, ended="complete")
    last.ranks[0].append({"kind": "loaded", "name": "best_model", "different": [], "rank": 0, "time": 9.0})
    return [_round(1), _round(2), last]


def _event(one: Round, rank: int, kind: str) -> Event:
    return one.of(rank, kind)[0]


def _failed(checks: list[Check]) -> dict[str, str]:
    return {check.name: check.detail for check in checks if check.result == "failed"}


def test_a_sound_training_is_proven() -> None:
    checks = judge(_training(*_proven()))
    assert {check.result for check in checks} == {"ok"}
    assert len({check.name for check in checks}) == len(checks) == 11


@pytest.mark.parametrize(
    ("kind", "changes", "check", "cause_words"),
    [
        ("wrapper", {"waits_for": ["fc.candidate_to_top.0"]}, "wrapper", "waits for gradients that never come, of fc."),
        ("wrapper", {"broadcasts_records": True}, "wrapper", "tracker_string is in the wrapper's broadcast"),
        ("step", {"digest": 6}, "parameters", "round 2: the ranks' parameters differ after step 1"),
        ("handover", {"parameters": 8}, "parameters", "round 2: the ranks' parameters differ at score 1"),
        (
            "handover",
            {"left_out": ["fc.weight"]},
            "optimizer",
            "in no optimizer: 1 trainable parameter of the model, fc.weight",
        ),
        (
            "handover",
            {"idle_schedulers": ["train.py:5"]},
            "learning rate",
            "belongs to an optimizer that does not train",
        ),
        ("score", {"score": "nan"}, "score", "rank 1 gave the tracker nan, not a finite number"),
        ("score", {"score": 0.6}, "score", "different scores, 0.5, 0.6"),
        ("score", {"expected": [0.01]}, "learning rate", "rank 1 has 0.1 where StepLR says 0.01"),
        ("step", {"rates": [0.2]}, "learning rate", "the ranks have different ones at step 1"),
    ],
)
def test_what_one_rank_does_wrong_in_one_round(kind: str, changes: Event, check: str, cause_words: str) -> None:
    rounds = _proven()
    _event(rounds[1], 1, kind).update(changes)
    failed = _failed(judge(_training(*rounds)))
    assert list(failed) == [check]
    assert cause_words in failed[check]


def test_a_scheduler_that_the_script_steps_besides_the_tracker() -> None:
    rounds = _proven()
    step = {"kind": "scheduler-step", "scheduler": "StepLR", "owned": True, "place": "train.py:7", "time": 1.0}
    rounds[0].ranks[0].append(step)
    assert list(_failed(judge(_training(*rounds)))) == ["learning rate"]
    step["owned"] = False
    assert not _failed(judge(_training(*rounds)))


def test_parameters_that_the_script_itself_leaves_out_are_a_warning_but_never_those_of_dendrites() -> None:
    rounds = _proven()
    for one in rounds:
        for rank in (0, 1):
            _event(one, rank, "handover")["left_out"] = ["backbone.weight"]
    checks = judge(_training(*rounds))
    assert [check.name for check in checks if check.result == "warning"] == ["optimizer"]
    assert not _failed(checks)
    for one in rounds:
        for rank in (0, 1):
            _event(one, rank, "handover")["left_out"] = ["fc.dendrite_module.layers.0.weight"]
    assert list(_failed(judge(_training(*rounds)))) == ["optimizer"]


def test_buffers_that_differ_are_a_warning() -> None:
    rounds = _proven()
    _event(rounds[0], 1, "handover")["buffers"] = {"bn.count": 2}
    checks = judge(_training(*rounds))
    assert [(check.name, check.result) for check in checks if check.result != "ok"] == [("buffers", "warning")]


def test_a_rank_that_takes_no_part_is_the_cause_and_not_what_it_led_to() -> None:
    one = _round(1, ended="failed", switch="")
    one.ranks[1] = [event for event in one.ranks[1] if event["kind"] not in ("handover", "score")]
    lost = {"kind": "error", "error": "RuntimeError", "message": "gloo: Connection closed by peer", "place": "a.py:1"}
    one.ranks[1].append({**lost, "rank": 1, "time": 8.0})
    checks = judge(_training(one, complete=False))
    assert next(iter(_failed(checks))) == "score"
    # but a rank that died of something else did not leave the others waiting on purpose
    one.ranks[1][-1].update(error="IndexError", message="list index out of range")
    failed = _failed(judge(_training(one, complete=False)))
    assert "score" not in failed
    assert "failed on rank 1: IndexError: list index out of range" in failed["rounds"]


def test_a_hang_names_every_rank() -> None:
    stacks = {"rank 0": ["barrier", "main (train.py:7)"], "rank 1": ["all_reduce", "validate (train.py:3)"]}
    one = _round(1, ended="hung", switch="", stacks=stacks)
    failed = _failed(judge(_training(one, complete=False)))
    assert "rank 0 waits in barrier, called by main (train.py:7); rank 1 waits in all_reduce" in failed["rounds"]


@pytest.mark.parametrize(
    ("changes", "check", "words"),
    [
        ({"ended": "failed", "switch": ""}, "rounds", "ended on its own after 1 epoch"),
        ({"switch": "switch_2"}, "rounds", "do not advance"),
        ({"output": "x\n(Pdb) \n"}, "library", "stopped for a question"),
    ],
)
def test_a_round_that_goes_wrong_as_a_whole(changes: dict[str, Any], check: str, words: str) -> None:
    rounds = _proven()[:2]
    for name, value in changes.items():
        setattr(rounds[1], name, value)
    failed = _failed(judge(_training(*rounds, complete=False)))
    assert words in failed[check]


@pytest.mark.parametrize(("waits", "result"), [(False, "warning"), (True, "ok")])
def test_an_initialisation_that_takes_steps_waits_for_layers_or_is_told(waits: bool, result: str) -> None:
    training = _training(*_proven())
    _event(training.initial, 0, "initialized").update(steps=3, waits=waits)
    (check,) = [check for check in judge(training) if check.name == "initialisation"]
    assert check.result == result
    assert check.detail.startswith("left after 3 optimizer step")


def test_an_initialisation_that_wrote_nothing_fails() -> None:
    training = _training(complete=False)
    training.initial.ended = "failed"
    training.initial.ranks[0].append(
        {"kind": "error", "error": "KeyError", "message": "'x'", "place": "train.py:3", "rank": 0, "time": 1.0}
    )
    checks = judge(training)
    assert _failed(checks) == {"initialisation": "initialisation failed: KeyError: 'x'"}
    assert checks[0].place == "train.py:3"


def test_an_initialisation_that_wrote_elsewhere_names_the_change_of_folder() -> None:
    training = _training(complete=False)
    training.initial.ended = "failed"
    training.initial.ranks[0].append({"kind": "moved", "place": "train.py:3", "rank": 0, "time": 1.0})
    assert "changes its working folder" in _failed(judge(training))["initialisation"]


def test_what_torchrun_says_of_its_workers_is_no_cause() -> None:
    training = _training(complete=False)
    training.initial.ended, training.initial.ranks = "failed", {}
    training.initial.output = "converting a single layer without a name, add a layer_name\n"
    training.initial.ranks[-1] = [{"kind": "error", "error": "ChildFailedError", "message": "=====", "time": 1.0}]
    assert "the model is itself a single layer" in _failed(judge(training))["initialisation"]


def test_checkpoints_that_load_in_part_and_a_final_model_that_does_not() -> None:
    rounds = _proven()
    rounds[1].ranks[0].append(
        {"kind": "loaded", "name": "switch_2", "different": ["fc.weight"], "rank": 0, "time": 0.5}
    )
    del rounds[2].ranks[0][-1]
    assert list(_failed(judge(_training(*rounds)))) == ["checkpoints", "completion"]


def test_rounds_that_never_end_are_not_complete() -> None:
    failed = _failed(judge(_training(_round(1), complete=False)))
    assert "not within 10 rounds" in failed["completion"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("RuntimeError: Expected to have finished reduction in the prior iteration before", "find_unused_parameters"),
        (".fc1 has not properly set this_output_dimensions", "output dimensions are wrong"),
        ("RuntimeError: Some tensors share memory, this will lead to duplicates", "tied weights"),
        ("FileNotFoundError: No such file or directory: 'PAI/best_model.pt'", "before rank 0 had"),
    ],
)
def test_known_messages_have_a_cause(text: str, words: str) -> None:
    assert words in cause(text)
    assert cause("ValueError: something else") == ""


def test_messages_between_ranks_and_traps() -> None:
    assert between_ranks("[...gloo/transport/tcp/pair.cc:537] Read error: Connection reset by peer")
    assert not between_ranks("IndexError: list index out of range")
    assert trap("fine\n> x.py(3)f()\n(Pdb) \n") == "(Pdb)"
    assert trap("fine\n") == ""


# ---- the record ------------------------------------------------------------------------------------------------------


def _write(folder: Path, stage: str, process: int, *events: Event) -> None:
    lines = [json.dumps({"process": process, "rank": None, "time": 0.0, **event}) for event in events]
    (folder / f"{stage}-{process}.jsonl").write_text("\n".join(lines) + "\n")


def test_events_are_put_together_by_rank_and_by_purpose(tmp_path: Path) -> None:
    start = {"kind": "start", "parent": 1, "initializing": False}
    # torchrun of the initialisation, its worker, torchrun of the training, its two workers
    _write(tmp_path, "round1", 10, {**start, "initializing": True})
    _write(tmp_path, "round1", 11, {**start, "parent": 10, "rank": 0}, {"kind": "initialized", "rank": 0})
    _write(tmp_path, "round1", 20, start, {"kind": "error", "error": "ChildFailedError"})
    _write(tmp_path, "round1", 21, {**start, "parent": 20}, {"kind": "step", "rank": 1})
    _write(tmp_path, "round1", 22, {**start, "parent": 20, "rank": 0}, {"kind": "step", "rank": 0})
    _write(tmp_path, "round2", 30, start)
    initial, training = read_events(tmp_path, "round1")
    assert [event["kind"] for event in initial[0]] == ["start", "initialized"]
    assert {rank: [event["kind"] for event in events] for rank, events in training.items()} == {
        -1: ["error"],
        0: ["start", "step"],
        1: ["start", "step"],
    }


def test_the_last_line_of_a_killed_process_may_be_unfinished(tmp_path: Path) -> None:
    _write(tmp_path, "round1", 5, {"kind": "start", "parent": 1, "initializing": False, "rank": 0})
    with open(tmp_path / "round1-5.jsonl", "a") as file:
        file.write('{"kind": "st')
    assert [event["kind"] for event in read_events(tmp_path, "round1")[1][0]] == ["start"]


def test_a_training_in_one_process_is_cut_where_it_was_restructured() -> None:
    kinds = [("step", None), ("score", False), ("score", True), ("step", None), ("score", False)]
    events = [{"kind": kind, "restructured": restructured, "complete": False} for kind, restructured in kinds]
    assert [len(ranks[0]) for ranks in cut_rounds({0: events})] == [3, 2]
    events[-1].update(restructured=True, complete=True)
    assert [len(ranks[0]) for ranks in cut_rounds({0: events})] == [3, 2]


# ---- the copy --------------------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in which a script could be trained."""
    root = tmp_path / "home" / "work" / "project"
    (root / "package").mkdir(parents=True)
    (root / "pyproject.toml").write_text("")
    (root / "train.py").write_text("import package\n")
    (root / "package" / "__init__.py").write_text("")
    monkeypatch.chdir(root)
    return root


def _copy(script: str, folder: Path) -> Scratch:
    folder.mkdir(parents=True)
    return copy_project(Path(script), folder)


def test_the_copy_stands_where_the_project_does(project: Path, tmp_path: Path) -> None:
    scratch = _copy("train.py", tmp_path / "scratch")
    assert scratch.original == project
    assert scratch.root == tmp_path / "scratch" / "root"
    assert str(scratch.project) == f"{scratch.root}{project}"
    assert scratch.script.read_text() == "import package\n"
    assert scratch.cwd == scratch.project == scratch.script.parent


def test_the_working_folder_stands_for_itself_in_the_copy(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "data").mkdir()
    monkeypatch.chdir(project / "data")
    scratch = _copy("../train.py", tmp_path / "scratch")
    assert scratch.cwd == scratch.project / "data"
    monkeypatch.chdir(project.parent)
    scratch = _copy("project/train.py", tmp_path / "another")
    assert scratch.original == project.parent
    assert scratch.script == scratch.cwd / "project" / "train.py"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    scratch = _copy(str(project / "train.py"), tmp_path / "third")
    assert scratch.original == project
    assert str(scratch.cwd) == f"{scratch.root}{tmp_path}/elsewhere"


def test_only_what_was_copied_has_a_copy_that_may_be_rewritten(project: Path, tmp_path: Path) -> None:
    scratch = _copy("train.py", tmp_path / "scratch")
    shutil.rmtree(scratch.project / "package")
    (scratch.project / "package").symlink_to(project / "package")  # as where there are very many files
    assert scratch.copy_of(project / "train.py") == scratch.project / "train.py"
    assert scratch.copy_of(project / "new.py") == scratch.project / "new.py"
    assert scratch.copy_of(project / "package" / "__init__.py") is None
    assert scratch.copy_of(project.parent / "datasets" / "x.py") is None


_TERMINAL = """
import os, sys
print(sys.stdin.isatty(), os.get_terminal_size(0).columns, os.popen("stty size").read().split())
for _ in range(3):
    print(repr(sys.stdin.readline()))
"""


def test_a_script_finds_a_terminal_at_which_nobody_types(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _TERMINAL]
    ended = processes.run(command, tmp_path, os.environ, tmp_path, tmp_path / "log", 60, lambda: None)
    assert ended.output.splitlines() == ["True 80 ['24', '80']", *["''"] * 3]


@pytest.mark.parametrize("keep", ["there", "train.py/below"])
def test_a_folder_that_cannot_be_kept_is_refused_before_the_training(keep: str, project: Path) -> None:
    (project / "there").mkdir()
    (project / "train.py").write_text("")
    result = _cli("verify", "train.py", "--keep", keep)
    assert result.exit_code == 2
    assert "train.py: RF018 cannot be tried: " in result.stderr
    assert keep.partition("/")[0] in result.stderr
    assert "Traceback" not in result.stderr


def test_fewer_rounds_than_a_capacity_test_has_are_refused() -> None:
    result = _cli("verify", "train.py", "--max-rounds", "3")
    assert result.exit_code == 2
    assert "3 is not in the range x>=4" in result.stderr


def _cli(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_of_a_long_output_the_end_is_read(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.stdout.buffer.write(b'first' + b'\\xff' * 3_000_000 + b'last')"]
    ended = processes.run(command, tmp_path, os.environ, tmp_path, tmp_path / "log", 60, lambda: None)
    assert ended.output.endswith("last")
    assert len(ended.output) == 2**20
