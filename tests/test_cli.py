"""The command line as its users meet it: help, inspect, apply, rule."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import click
import pytest

from retrofit import __version__
from retrofit.cli import main
from retrofit.rules_folder import rules_folder
from retrofit.toml import read_toml
from tests.conftest import NOTED, SCRIPT, Folder, swapped
from tests.helpers import HELPER

OPEN = swapped(
    SCRIPT, ("        if acc > best_acc:\n            best_acc = acc\n", ""), ("acc = validate", "quality = validate")
)
DATA_PARALLEL = swapped(
    SCRIPT,
    ("torch.nn.parallel import DistributedDataParallel", "torch.nn import DataParallel"),
    ("DistributedDataParallel(model)", "DataParallel(model)"),
    ("    dist.init_process_group('gloo')\n", ""),
    ("    dist.destroy_process_group()\n", ""),
)
RECORD = ".retrofit"


def retrofit(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "retrofit", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)


def squeezed(text: str) -> str:
    """Leave out all white space, since help wraps its lines."""
    return "".join(text.split())


def every_option() -> Iterator[tuple[str, click.Option]]:
    """Return each command's options, without --help."""
    for name, command in main.commands.items():
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                yield name, parameter


# ---- help and start-up


@pytest.mark.parametrize(("command", "option"), [pytest.param(c, o, id=f"{c}{o.opts[-1]}") for c, o in every_option()])
def test_help_names_each_option_with_its_default(folder: Folder, command: str, option: click.Option) -> None:
    answer = folder.run(command, "--help")
    assert answer.code == 0
    assert option.opts[-1] in answer.out
    assert option.help is not None
    assert re.search(r"\[default: [^]]+\]$", option.help)
    assert squeezed(option.help) in squeezed(answer.out)


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("command", ["", *main.commands])
def test_both_help_flags_work_for_every_command(folder: Folder, command: str, flag: str) -> None:
    answer = folder.run(*filter(None, [command, flag]))
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("Usage: ")


def test_help_lists_the_exit_codes_and_all_commands(folder: Folder) -> None:
    text = " ".join(folder.run("--help").out.split())
    codes = text.partition("Exit codes: ")[2]
    assert re.findall(r"(?:^|; )(\d+) ", codes) == ["0", "1", "2", "123"]
    for command in ("apply", "inspect", "rule", "undo"):
        assert re.search(rf"\b{command} ", text.partition("Commands:")[2])


def test_help_describes_each_command_in_whole_sentences(folder: Folder) -> None:
    listed = folder.run("--help").out.partition("Commands:")[2]
    assert "..." not in listed


def test_version_names_retrofit_python_and_what_was_proven(folder: Folder) -> None:
    shared = read_toml(rules_folder() / "perforatedai" / "recipe.toml", "test")
    torch, perforatedai = (shared["proven"][package][-1] for package in ("torch", "perforatedai"))
    answer = folder.run("--version")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines() == [
        f"retrofit {__version__}, Python {platform.python_version()}",
        f"proven with torch {torch} and perforatedai {perforatedai}",
    ]


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        (["banana"], "banana"),
        (["apply", "train.py", "--banana"], "--banana"),
        (["apply"], "SCRIPT"),
        (["apply", "train.py", "other.py"], "other.py"),
        (["apply", "train.py", "--mode", "up"], "'up'"),
        (["apply", "train.py", "--launcher", "mpirun"], "'mpirun'"),
        (["apply", "train.py", "--metric"], "--metric"),
        (["rule", "PAI001", "PAI002"], "PAI002"),
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2_and_names_the_word(folder: Folder, arguments: list[str], seen: str) -> None:
    folder.write("train.py", SCRIPT)
    before = folder.state()
    answer = folder.run(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert seen in answer.lines[-1]
    assert folder.state() == before


@pytest.mark.parametrize("arguments", ["--version", "--help", "check plain.py", "rule RF006"])
def test_start_up_imports_nothing_heavy(folder: Folder, arguments: str) -> None:
    folder.write("plain.py", "print(1)\n")
    command = [sys.executable, "-X", "importtime", "-m", "retrofit", *arguments.split()]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in result.stderr.splitlines()}
    assert {"retrofit", "click"} <= imported
    assert not imported & {"libcst", "jinja2", "torch", "rich", "yaml", "numpy", "multiprocessing", "difflib"}


# ---- inspect


def test_inspect_shows_each_site_with_file_and_line(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    before = folder.state()
    answer = folder.run("inspect", "train.py")
    assert (answer.code, answer.err) == (0, "")
    shown = {tuple(line.split()[:2]) for line in answer.out.splitlines() if line.startswith("train.py:")}
    lines = SCRIPT.splitlines()
    expected = {
        ("parser", "parser.add_argument('--lr'"),
        ("model", "model = nn.Sequential"),
        ("wrapper", "model = DistributedDataParallel"),
        ("optimizer", "optimizer = "),
        ("epoch-loop", "for epoch in"),
        ("backward", "loss.backward()"),
        ("score", "if acc > best_acc"),
    }
    found = {
        (f"train.py:{1 + n}", k)
        for k, text in expected
        for n, line in enumerate(lines)
        if line.strip().startswith(text)
    }
    assert shown == found
    assert "No open question." in answer.out
    assert folder.state() == before


def test_inspect_json_gives_the_place_and_code_of_each_site(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    answer = folder.run("inspect", "train.py", "--json")
    data = json.loads(answer.out)
    assert set(data) == {"file", "kind", "sites", "questions", "notes"}
    assert (data["file"], data["kind"], data["questions"], data["notes"]) == ("train.py", "ddp", [], [])
    lines = SCRIPT.splitlines()
    for site in data["sites"]:
        assert set(site) == {"kind", "file", "line", "column", "code", "facts"}
        assert lines[site["line"] - 1][site["column"] - 1 :].startswith(site["code"]), site
    assert {site["kind"] for site in data["sites"]} >= {
        "wrapper",
        "model",
        "optimizer",
        "backward",
        "score",
        "epoch-loop",
    }
    [score] = [site for site in data["sites"] if site["kind"] == "score"]
    assert score["facts"]["expression"] == "acc"
    assert score["facts"]["direction"] == "max"


def test_inspect_shows_open_questions_and_exits_with_0(folder: Folder) -> None:
    folder.write("train.py", OPEN)
    answer = folder.run("inspect", "train.py")
    assert (answer.code, answer.err) == (0, "")
    assert "Open questions: 1\n" in answer.out
    assert re.search(r"^  train\.py:\d+:\d+: PAI105 .*--mode", answer.out, re.MULTILINE)


def test_inspect_json_holds_questions_and_notes_with_their_places(folder: Folder) -> None:
    text = swapped(OPEN, *NOTED)
    folder.write("train.py", text)
    data = json.loads(folder.run("inspect", "train.py", "--json").out)
    [question] = data["questions"]
    assert data["notes"] == []  # about what would be written, which is open yet
    answered = json.loads(folder.run("inspect", "train.py", "--json", "--mode", "max").out)
    [note] = answered["notes"]
    assert answered["questions"] == []
    for remark in (question, note):
        assert set(remark) == {"line", "column", "code", "message"}
    counted, scored = (
        next(n for n, line in enumerate(text.splitlines(), 1) if code in line)
        for code in ("if len(sys.argv)", "quality = validate(")
    )
    assert (question["code"], question["line"], question["column"]) == ("PAI105", scored, 9)
    assert (note["code"], note["line"], note["column"]) == ("PAI002", counted, 8)


def test_inspect_takes_the_answers_to_its_questions(folder: Folder) -> None:
    folder.write("train.py", OPEN)
    assert "No open question." in folder.run("inspect", "train.py", "--mode", "max").out


def test_inspect_of_a_script_that_another_library_owns_shows_that(folder: Folder) -> None:
    folder.write("train.py", "import torch\nimport deepspeed\n\ndeepspeed.initialize()\n")
    answer = folder.run("inspect", "train.py")
    assert answer.code == 0
    assert "train.py:2:1: PAI100 DeepSpeed" in answer.out


# ---- apply


def test_apply_writes_script_helper_and_executable_launcher(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    answer = folder.run("apply", "train.py")
    assert (answer.code, answer.err) == (0, "")
    assert folder.names() == {"train.py", *HELPER, "train_distributed.sh"}
    assert os.access("train_distributed.sh", os.X_OK)
    for name in ("train.py", *HELPER):
        assert folder.mode(name) & 0o111 == 0
        compile(folder.text(name), name, "exec")
    subprocess.run(["bash", "-n", "train_distributed.sh"], check=True)


def test_apply_says_what_it_did_why_and_what_to_run_in_a_few_lines(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    out = folder.run("apply", "train.py").out
    assert len(out.splitlines()) <= 12
    for name in ("train.py", "pai_distributed/", "train_distributed.sh"):
        assert re.search(rf"^(wrote|rewrote) {re.escape(name)} ", out, re.MULTILINE)
    line = next(n for n, text in enumerate(SCRIPT.splitlines(), 1) if "if acc > best_acc" in text)
    assert re.search(rf"acc \(higher is better\)\s+\[line {line}: acc > best_acc\]", out)
    assert out.splitlines()[-1].startswith("Train with: ./train_distributed.sh")


def test_apply_counts_the_lines_of_new_files_right(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    said = dict(re.findall(r"wrote (\S+) \((\d+) lines\)", folder.run("apply", "train.py").out))
    assert said == {
        "pai_distributed/": str(sum(len(folder.text(name).splitlines()) for name in HELPER)),
        "train_distributed.sh": str(len(folder.text("train_distributed.sh").splitlines())),
    }


@pytest.mark.parametrize("place", ["train.py", "deep/train.py"])
def test_the_command_that_apply_names_can_be_run_where_apply_was_run(folder: Folder, place: str) -> None:
    folder.write(place, SCRIPT)
    command = folder.run("apply", place).out.splitlines()[-1].removeprefix("Train with: ").split()[0]
    assert (folder.path / command).is_file()


def test_apply_to_data_parallel_in_its_process_writes_no_launcher_and_names_both_commands(folder: Folder) -> None:
    folder.write("my train.py", DATA_PARALLEL)
    answer = folder.run("apply", "--in-process", "my train.py")
    assert answer.code == 0
    assert folder.names() == {"my train.py", *HELPER}
    assert answer.out.splitlines()[-2:] == [
        "Initialise once with: CUDA_VISIBLE_DEVICES=0 python 'my train.py' --perforate_model_parallel [your arguments]",
        "Then train with:      python 'my train.py' [your arguments]",
    ]


@pytest.mark.parametrize("script", [SCRIPT, DATA_PARALLEL], ids=["ddp", "dp"])
def test_a_second_apply_finds_nothing_to_do_and_touches_nothing(folder: Folder, script: str) -> None:
    folder.write("train.py", script)
    assert folder.run("apply", "train.py").code == 0
    before = folder.state()
    answer = folder.run("apply", "train.py")
    assert (answer.code, answer.out, answer.err) == (0, "train.py: nothing to do\n", "")
    assert folder.state() == before


def test_apply_puts_the_files_beside_a_script_in_another_folder(folder: Folder) -> None:
    folder.write("a/b/train.py", SCRIPT)
    assert folder.run("apply", "a/b/train.py").code == 0
    assert folder.names() == {"a/b/train.py", *(f"a/b/{name}" for name in HELPER), "a/b/train_distributed.sh"}


def test_apply_takes_an_absolute_path_and_a_path_upwards(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    script = folder.write("a/train.py", SCRIPT)
    folder.write("b/c/x", "")
    monkeypatch.chdir(folder.path / "b" / "c")
    assert folder.run("apply", "--check", str(script)).code == 1
    answer = folder.run("apply", "../../a/train.py")
    assert answer.code == 0
    assert "a/train_distributed.sh" in folder.names()
    assert "nothing to do" in folder.run("apply", str(script)).out


@pytest.mark.parametrize("name", ["it's.py", 'été; "$HOME".py', "train"])
def test_odd_script_names_work_from_apply_to_undo(folder: Folder, name: str) -> None:
    folder.write(f"odd folder/{name}", SCRIPT)
    assert folder.run("apply", f"odd folder/{name}").code == 0
    launcher = folder.text("odd folder/train_distributed.sh").partition("\nabove=")[0]
    folder.write("odd folder/ask.sh", launcher + '\nprintf %s "$PYTHON_SCRIPT"')
    asked = subprocess.run(["bash", "odd folder/ask.sh"], capture_output=True, text=True, check=True)
    Path("odd folder/ask.sh").unlink()
    assert asked.stdout == f"{folder.path}/odd folder/{name}"
    saved = re.search(r"save_name\(['\"]([^'\"]*)['\"]\)", folder.text(f"odd folder/{name}"))
    assert saved is not None
    assert re.fullmatch(r"PAI_[A-Za-z0-9_.-]+", saved[1])
    assert "nothing to do" in folder.run("apply", f"odd folder/{name}").out
    assert folder.run("undo", f"odd folder/{name}").code == 0
    assert folder.names() == {f"odd folder/{name}"}


def test_a_script_name_that_begins_with_a_dash_works_behind_two_dashes(folder: Folder) -> None:
    folder.write("-train.py", SCRIPT)
    assert folder.run("apply", "--", "-train.py").code == 0
    assert "pai_distributed" in folder.text("-train.py")


# ---- apply --check and --dry-run


def test_check_exits_with_1_and_writes_nothing_until_all_is_applied(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    before = folder.state()
    answer = folder.run("apply", "--check", "train.py")
    assert answer.code == 1
    assert answer.out.splitlines() == [
        "would write train.py",
        "would write pai_distributed/",
        "would write train_distributed.sh",
    ]
    assert folder.state() == before
    folder.run("apply", "train.py")
    before = folder.state()
    assert folder.run("apply", "--check", "train.py").code == 0
    assert folder.state() == before


@pytest.mark.parametrize("missing", ["pai_distributed/score.py", "train_distributed.sh"])
def test_check_notices_a_missing_companion_and_apply_writes_that_alone(folder: Folder, missing: str) -> None:
    folder.write("train.py", SCRIPT)
    folder.run("apply", "train.py")
    whole = folder.text(missing)
    (folder.path / missing).unlink()
    script = (folder.path / "train.py").stat().st_mtime_ns
    answer = folder.run("apply", "--check", "train.py")
    assert (answer.code, answer.out) == (1, f"would write {missing}\n")
    assert folder.run("apply", "train.py").code == 0
    assert folder.text(missing) == whole
    assert (folder.path / "train.py").stat().st_mtime_ns == script


def test_dry_run_writes_nothing_and_exits_with_0_but_1_with_check(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    before = folder.state()
    answer = folder.run("apply", "--dry-run", "train.py")
    assert answer.code == 0
    assert folder.run("apply", "--dry-run", "--check", "train.py") == type(answer)(1, answer.out, "", answer.raw)
    assert folder.state() == before


def test_dry_run_after_apply_has_nothing_to_show(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    folder.run("apply", "train.py")
    answer = folder.run("apply", "--dry-run", "train.py")
    assert answer.code == 0
    assert "nothing to do" in answer.out
    assert "@@" not in answer.out


CASES = [
    pytest.param("train.py", SCRIPT.encode(), id="plain"),
    pytest.param("a/b/train.py", SCRIPT.encode(), id="in a folder"),
    pytest.param("train.py", SCRIPT.replace("\n", "\r\n").encode(), id="CRLF"),
    pytest.param("train.py", b"\xef\xbb\xbf" + SCRIPT.encode(), id="BOM"),
    pytest.param("train.py", SCRIPT.replace("share of hits", "share of hits, é").encode(), id="UTF-8"),
    pytest.param("train.py", SCRIPT.removesuffix("\n").encode(), id="no last line end"),
    pytest.param("train.py", SCRIPT.replace("import torch\n", "import torch  # a\fb\n", 1).encode(), id="FF"),
    pytest.param("train.py", SCRIPT.replace("Train.", "Train\u2028ing.").encode(), id="U+2028"),
    pytest.param(
        "train.py",
        ("# -*- coding: latin-1 -*-\n" + SCRIPT.replace("Train.", "Entraîner.")).encode("latin-1"),
        id="latin-1",
    ),
    pytest.param("my train.py", SCRIPT.encode(), id="spaces"),
    pytest.param("été/it's.py", SCRIPT.encode(), id="unicode and quote"),
]


@pytest.mark.parametrize(("name", "content"), CASES)
def test_the_dry_runs_diff_gives_exactly_what_apply_writes(folder: Folder, name: str, content: bytes) -> None:
    folder.write(name, content)
    answer = folder.run("apply", "--dry-run", name)
    assert answer.code == 0
    tools = {"patch": ["patch", "-p1", "--binary", "--batch", "--fuzz=0"], "git": ["git", "apply", "-"]}
    patched = {tool: folder.path.parent / tool for tool in tools if shutil.which(tool)}
    for tool, copy in patched.items():
        shutil.copytree(folder.path, copy)
        subprocess.run(tools[tool], cwd=copy, input=answer.raw, check=True, capture_output=True)
    assert folder.run("apply", name).code == 0
    for copy in patched.values():
        assert Folder(copy).names() == folder.names()
        for file in folder.names():
            assert (copy / file).read_bytes() == (folder.path / file).read_bytes()


def test_the_dry_runs_diff_names_files_from_the_projects_root_where_some_lie_above(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = "def run(loss):\n    loss.backward()\n"
    folder.write("pyproject.toml", "")
    folder.write("lib/steps.py", loop)
    folder.write("tools/train.py", "from lib.steps import run\n" + SCRIPT.replace("loss.backward()", "run(loss)"))
    monkeypatch.chdir(folder.path / "tools")
    answer = folder.run("apply", "--dry-run", "train.py")
    names = re.findall(r"^diff --git a/(\S+) ", answer.out, re.MULTILINE)
    assert {"tools/train.py", "lib/steps.py", "pai_distributed/score.py"} <= set(names)
    subprocess.run(["git", "init", "-q"], cwd=folder.path, check=True)
    subprocess.run(["git", "apply", "-"], cwd=folder.path, input=answer.raw, check=True, capture_output=True)
    assert "fill_missing_gradients" in folder.text("lib/steps.py") or "initializing" in folder.text("lib/steps.py")


def test_the_dry_runs_diff_makes_the_launcher_executable(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    diff = folder.run("apply", "--dry-run", "train.py").raw
    subprocess.run(["git", "apply", "-"], input=diff, check=True, capture_output=True)
    assert folder.mode("train_distributed.sh") & 0o100


def test_dry_run_shows_foreign_files_as_replaced_only_with_force(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    folder.write("train_distributed.sh", "echo mine\n")
    assert folder.run("apply", "--dry-run", "train.py").code == 2
    answer = folder.run("apply", "--dry-run", "--force", "train.py")
    assert answer.code == 0
    assert "\n-echo mine\n" in answer.out


def test_a_note_goes_to_stderr_so_that_the_diff_stays_a_diff(folder: Folder) -> None:
    folder.write("train.py", swapped(SCRIPT, *NOTED))
    answer = folder.run("apply", "--dry-run", "train.py")
    assert re.fullmatch(r"train\.py:\d+:8: PAI002 `len\(sys\.argv\) == 1` counts words .*\n", answer.err)
    assert answer.out.startswith("diff --git a/train.py b/train.py\n--- a/train.py\n+++ b/train.py\n")


def test_a_note_is_said_once_when_something_is_written(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    folder.run("apply", "train.py")
    folder.write("train_distributed.sh", folder.text("train_distributed.sh") + "# mine\n")
    for mode in ("--check", "--dry-run"):
        answer = folder.run("apply", "train.py", mode)
        assert (answer.code, answer.out, answer.err) == (0, "train.py: nothing to do\n", "")


# ---- several scripts


ENGINE = """\
def train_one_epoch(model, loader, criterion, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
"""
SHARING = swapped(
    SCRIPT,
    ("import torch\n", "from engine import train_one_epoch\nimport torch\n"),
    (
        """        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
""",
        "        train_one_epoch(model, loader, criterion, optimizer)\n",
    ),
)


@pytest.fixture
def sharing(folder: Folder) -> Folder:
    """A folder with two scripts that train by the same module."""
    for name in ("first.py", "second.py"):
        folder.write(name, SHARING)
    folder.write("engine.py", ENGINE)
    return folder


def test_scripts_that_share_a_module_are_rewritten_together(sharing: Folder) -> None:
    answer = sharing.run("apply", "first.py", "second.py")
    assert (answer.code, answer.err) == (0, "")
    launchers = {"train_distributed.sh": "first", "train_distributed_second.sh": "second"}
    assert sharing.names() == {"first.py", "second.py", "engine.py", *HELPER, *launchers}
    assert sharing.text("engine.py").count("finish_initialization()") == 1
    for launcher, script in launchers.items():
        text = sharing.text(launcher)
        assert f"SAVE_NAME=PAI_{script}\n" in text
        assert f"PYTHON_SCRIPT=$here/{script}.py\n" in text
        assert f"#   ./{launcher} [arguments" in text
        assert f"Train with: ./{launcher} [arguments of {script}.py]" in answer.out
    for name in ("engine.py", "first.py", "second.py"):
        assert len(re.findall(rf"^rewrote {re.escape(name)} ", answer.out, re.MULTILINE)) == 1


def test_several_scripts_become_what_they_become_one_by_one(sharing: Folder) -> None:
    sharing.run("apply", "first.py", "second.py")
    together = {name: sharing.text(name) for name in sharing.names()}
    for name in ("second.py", "first.py"):
        assert sharing.run("undo", name).code == 0
    assert sharing.names() == {"first.py", "second.py", "engine.py"}
    assert sharing.text("engine.py") == ENGINE
    sharing.run("apply", "first.py")
    (sharing.path / "train_distributed.sh").rename(sharing.path / "train_distributed_first.sh")
    sharing.run("apply", "second.py")
    for name in ("first.py", "second.py", "engine.py", *HELPER):
        assert sharing.text(name) == together[name]


def test_a_second_apply_to_several_scripts_finds_nothing_to_do(sharing: Folder) -> None:
    sharing.run("apply", "first.py", "second.py")
    before = sharing.state()
    for command in (["first.py", "second.py"], ["second.py", "first.py"], ["second.py"]):
        answer = sharing.run("apply", *command)
        assert answer.code == 0
        assert answer.out.splitlines() == [f"{name}: nothing to do" for name in command]
        assert sharing.run("apply", "--check", *command).code == 0
    assert sharing.state() == before


def test_one_refused_script_keeps_all_from_being_written(sharing: Folder) -> None:
    best = ("        if acc > best_acc:\n            best_acc = acc\n", "")
    sharing.write("second.py", swapped(SHARING, best, ("acc = validate", "quality = validate")))
    before = sharing.state()
    for order in (["first.py", "second.py"], ["second.py", "first.py"]):
        answer = sharing.run("apply", *order, "missing.py")
        assert (answer.code, answer.out) == (2, "")
        assert {line.partition(":")[0] for line in answer.lines} == {"second.py", "missing.py"}
        assert sharing.state() == before


def test_one_file_that_cannot_be_written_keeps_all_from_being_written(sharing: Folder) -> None:
    sharing.write("deep/third.py", SCRIPT)
    (sharing.path / "deep" / "train_distributed.sh").mkdir()
    before = sharing.state()
    assert sharing.run("apply", "first.py", "deep/third.py").code == 2
    assert sharing.state() == before


def test_check_and_dry_run_of_several_scripts_name_each_file_once(sharing: Folder) -> None:
    before = sharing.state()
    command = ["first.py", "second.py"]
    answer = sharing.run("apply", "--check", *command)
    assert answer.code == 1
    said = [line.removeprefix("would write ") for line in answer.out.splitlines()]
    assert len(said) == len(set(said)) == 6
    shown = sharing.run("apply", "--dry-run", *command)
    assert (shown.code, shown.err) == (0, "")
    names = re.findall(r"^diff --git a/\S+ b/(\S+)$", shown.out, re.MULTILINE)
    assert sorted(names) == sorted([*(name for name in said if name != "pai_distributed/"), *HELPER])
    assert sharing.state() == before
    subprocess.run(["git", "init", "-q"], cwd=sharing.path, check=True)
    subprocess.run(["git", "apply", "-"], cwd=sharing.path, input=shown.raw, check=True)
    by_diff = {name: sharing.text(name) for name in names}
    subprocess.run(["git", "apply", "-R", "-"], cwd=sharing.path, input=shown.raw, check=True)
    sharing.run("apply", *command)
    assert {name: sharing.text(name) for name in names} == by_diff


def test_several_scripts_need_folders_of_their_own_for_checkpoints(sharing: Folder) -> None:
    before = sharing.state()
    answer = sharing.run("apply", "--save-name", "same", "first.py", "second.py")
    assert (answer.code, answer.out) == (2, "")
    assert "--save-name: RF006" in answer.err
    assert sharing.state() == before


# ---- rule


def test_rule_lists_each_rule_once_in_order(folder: Folder) -> None:
    answer = folder.run("rule")
    assert answer.code == 0
    codes = [line.split()[0] for line in answer.out.splitlines()]
    shipped = sorted(path.name.partition("-")[0] for path in Path(__file__).parents[1].glob("rules/*/*-*.toml"))
    assert codes == shipped
    assert all(a < b for a, b in pairwise(codes))


@pytest.mark.parametrize("code", ["PAI006", "pai006", "gradient-prefill", "Gradient-Prefill"])
def test_rule_explains_by_code_and_by_name_in_any_case(folder: Folder, code: str) -> None:
    answer = folder.run("rule", code)
    assert answer.code == 0
    assert answer.out.startswith("PAI006 gradient-prefill: ")
    for part in ("Dendrites train in turns", "fill_missing_gradients", "Source: "):
        assert part in answer.out


def test_every_rule_can_be_explained(folder: Folder) -> None:
    for line in folder.run("rule").out.splitlines():
        code, name = line.split()[:2]
        answer = folder.run("rule", code)
        assert answer.code == 0
        assert answer.out.startswith(f"{code} {name}: ")
        assert "Source: " in answer.out


@pytest.mark.parametrize("code", ["PAI999", "gradient prefill", "", "PAI00"])
def test_an_unknown_rule_is_one_line_and_exit_2(folder: Folder, code: str) -> None:
    answer = folder.run("rule", code)
    assert (answer.code, answer.out) == (2, "")
    [line] = answer.lines
    assert line.startswith(f"{code}: RF013 ")
    assert "retrofit rule" in line


RULE = """\
code = "MY001"
name = "hello"
title = "Say hello"
site = "backward"
edit = "insert-before"
template = 'print("hello")'
when = "not site.preceded_by('hello')"
why = "To be polite."
source = "my own"
"""


def test_rules_of_a_users_folder_are_listed_explained_and_applied(folder: Folder) -> None:
    folder.write("mine/hello.toml", RULE)
    folder.write("train.py", SCRIPT)
    assert re.search(r"^MY001 +hello ", folder.run("rule", "--rules", "mine").out, re.MULTILINE)
    assert "To be polite." in folder.run("rule", "--rules", "mine", "hello").out
    assert folder.run("apply", "train.py", "--rules", "mine").code == 0
    assert '            print("hello")\n' in folder.text("train.py")
    assert "nothing to do" in folder.run("apply", "train.py", "--rules", "mine").out


def test_a_users_rule_with_a_known_code_takes_its_place(folder: Folder) -> None:
    folder.write("mine/hello.toml", RULE.replace("MY001", "PAI006"))
    assert "PAI006 hello: " in folder.run("rule", "pai006", "--rules", "mine").out


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        ("code = [", "valid TOML"),
        ("code = 'MY001'\n", "missing"),
        (RULE + "banana = 1\n", "banana"),
        (RULE.replace('"backward"', '"banana"'), "banana"),
        (RULE.replace('"insert-before"', '"banana"'), "banana"),
        (RULE.replace("not site", "not not ("), "MY001"),
        (RULE.replace('print("hello")', "{{ banana }}"), "banana"),
        (RULE.replace('print("hello")', 'print("hello"'), "no Python"),
    ],
)
def test_a_broken_rule_is_one_line_and_exit_2(folder: Folder, content: str, seen: str) -> None:
    folder.write("mine/hello.toml", content)
    folder.write("train.py", SCRIPT)
    before = folder.state()
    answer = folder.run("apply", "train.py", "--rules", "mine")
    assert (answer.code, answer.out) == (2, "")
    [line] = answer.lines
    assert "RF007" in line
    assert seen in line
    assert folder.state() == before


@pytest.mark.parametrize("command", [["rule"], ["apply", "train.py"], ["inspect", "train.py"]], ids=" ".join)
def test_a_missing_rules_folder_is_one_line_and_exit_2(folder: Folder, command: list[str]) -> None:
    folder.write("train.py", SCRIPT)
    answer = folder.run(*command, "--rules", "nowhere")
    assert (answer.code, answer.out) == (2, "")
    [line] = answer.lines
    assert line.startswith("nowhere: RF007 ")


# ---- mistakes of our own


@pytest.mark.parametrize("error", ["EngineError", "IndexError"])
def test_a_mistake_of_retrofit_exits_with_123_and_no_traceback(tmp_path: Path, error: str) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    code = (
        "import retrofit.plan\nfrom retrofit.errors import EngineError\n"
        f"def broken(*args, **more): raise {error}('broken')\n"
        "retrofit.plan.rewriting = broken\nfrom retrofit.cli import main\nmain(['apply', 'train.py'])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 123
    assert "Traceback" not in result.stderr
    assert "broken" in result.stderr
    assert "report" in result.stderr
    assert (tmp_path / "train.py").read_text() == SCRIPT


def test_the_module_runs_as_a_program_with_the_same_exit_codes(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    assert retrofit("apply", "--check", "train.py", cwd=tmp_path).returncode == 1
    missing = retrofit("apply", "nowhere.py", cwd=tmp_path)
    assert missing.returncode == 2
    assert missing.stderr.startswith("nowhere.py: RF001 ")
    assert missing.stderr.count("\n") == 1
