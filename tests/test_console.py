"""What commands say: how loud, in which colours, at which width, to whom, and in which encoding."""

from __future__ import annotations

import json
import os
import pty
import re
import struct
import subprocess
import sys
from collections.abc import Callable

import pytest

from retrofit.check.checker import Checker
from retrofit.check.finding import Report
from retrofit.check.formats import render
from retrofit.check.settings import Settings
from retrofit.console import chosen_color
from retrofit.doctor.finding import Finding as Seen
from retrofit.doctor.finding import to_text
from retrofit.layout import PLAIN, View, columns
from tests.conftest import NOTED, SCRIPT, Folder, swapped

WIDTHS = (40, 80, 200)
#: A finding with a fix, and a note of apply.
SHUFFLED = """\
import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
loader = DataLoader(dataset, shuffle=True, sampler=DistributedSampler(dataset))
"""
REMARKABLE = swapped(SCRIPT, *NOTED)
Widen = Callable[[int], None]


def bare(text: str) -> str:
    """Return a text without its colours."""
    return re.sub(r"\x1b\[\d*m", "", text)


def set_up(folder: Folder) -> None:
    """Write a script to rewrite, one with a note, and one to find fault with."""
    folder.write("train.py", SCRIPT)
    folder.write("noted.py", REMARKABLE)
    folder.write("shuffled.py", SHUFFLED)
    folder.write("build/left.py", SHUFFLED)


# ---- how loud


def test_quiet_commands_say_what_was_asked_for_and_no_more(folder: Folder) -> None:
    set_up(folder)
    for arguments, code in (
        (["apply", "--check", "noted.py"], 1),
        (["apply", "noted.py"], 0),
        (["apply", "noted.py"], 0),
        (["undo", "noted.py"], 0),
        (["check", "--fix", "shuffled.py"], 0),
        (["check", "--select", "DDP2", "train.py"], 0),
    ):
        said = folder.run(*arguments, "-q")
        assert (said.code, said.out, said.err) == (code, "", "")


def test_quiet_leaves_diffs_findings_json_and_errors_as_they_are(folder: Folder) -> None:
    set_up(folder)
    for arguments in (
        ["apply", "--dry-run", "train.py"],
        ["inspect", "train.py"],
        ["inspect", "--json", "train.py"],
        ["check", "--diff", "shuffled.py"],
        ["check", "--format", "concise", "shuffled.py"],
        ["check", "--format", "json", "shuffled.py"],
        ["rule", "PAI009"],
        ["apply", "missing.py"],
        ["check", "missing.py"],
    ):
        loud, quiet = folder.run(*arguments), folder.run("-q", *arguments)
        assert (quiet.code, quiet.err) == (loud.code, loud.err)
        assert quiet.out == (loud.out if arguments != ["check", "missing.py"] else "")
    full = folder.run("check", "shuffled.py").out
    assert folder.run("check", "-q", "shuffled.py").out == full.partition("\n\nFound ")[0] + "\n"


def test_a_quiet_doctor_names_what_is_wrong_alone(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [Seen("port", "ok", "Free."), Seen("bash", "problem", "There is none.", "Install it.")]
    for found, code, out in (
        (seen, 1, "problem  bash  There is none.\n               Install it.\n"),
        (seen[:1], 0, ""),
    ):
        monkeypatch.setattr("retrofit.doctor.examine", lambda *asked, found=found: found)
        quiet = folder.run("doctor", "-q", "--python", "python3")
        assert (quiet.code, quiet.out, quiet.err) == (code, out, "")
        assert "Free." in folder.run("doctor", "--python", "python3").out


def test_an_option_without_effect_is_told_to_a_quiet_user_too(folder: Folder) -> None:
    set_up(folder)
    folder.run("apply", "train.py")
    assert "RF016 --mode" in folder.run("apply", "-q", "train.py", "--mode", "min").err


def test_verbose_check_says_what_was_read_and_passed_over(folder: Folder) -> None:
    set_up(folder)
    folder.write("plain.py", "print(1)\n")
    folder.write("secret/x.py", SHUFFLED)
    folder.write(".gitignore", "secret\n")
    folder.run("apply", "train.py")
    loud, verbose = folder.run("check", "."), folder.run("check", "-v", ".")
    assert verbose.out == loud.out
    told = dict(line.split(": ", 1) for line in verbose.lines)
    assert told["./shuffled.py"] == "checked"
    assert told["./plain.py"] == "passed over, nothing in it that a rule speaks of"
    assert told["./pai_distributed/score.py"] == "passed over, retrofit generated it"
    assert told["./build"] == "passed over, a folder of this name holds no code of the project's own"
    assert told["./secret"] == "passed over, named by .gitignore or exclude"
    assert re.search(r"^Took .*: listing files .* s, reading .* s, checking .* s\.$", verbose.err, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "loud"),
    [
        (["-q", "check", "-v", "x.py"], True),
        (["-v", "check", "x.py"], True),
        (["check", "x.py", "-v"], True),
        (["-v", "check", "x.py", "-q"], False),
        (["-v", "check", "x.py", "--no-verbose"], False),
    ],
)
def test_the_word_behind_the_commands_name_counts_more(folder: Folder, arguments: list[str], loud: bool) -> None:
    folder.write("x.py", "")
    assert ("Took" in folder.run(*arguments).err) == loud


@pytest.mark.parametrize("arguments", [["-q", "-v", "rule"], ["rule", "-qv"]])
def test_quiet_and_verbose_exclude_each_other(folder: Folder, arguments: list[str]) -> None:
    answer = folder.run(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert "--quiet and --verbose exclude each other" in answer.err


# ---- colours


@pytest.mark.parametrize(
    ("commanded", "environ", "configured", "color"),
    [
        (None, {}, None, "auto"),
        (None, {}, "always", "always"),
        (None, {"NO_COLOR": "1"}, "always", "never"),
        (None, {"FORCE_COLOR": "1"}, "never", "always"),
        (None, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, None, "never"),
        (None, {"NO_COLOR": "", "FORCE_COLOR": ""}, None, "auto"),
        ("always", {"NO_COLOR": "1"}, "never", "always"),
        ("never", {"FORCE_COLOR": "1"}, None, "never"),
        ("auto", {"NO_COLOR": "1"}, "always", "never"),
        ("auto", {}, "always", "auto"),
    ],
)
def test_who_decides_on_colours(
    commanded: str | None, environ: dict[str, str], configured: str | None, color: str
) -> None:
    assert chosen_color(commanded, configured, environ) == color


def test_on_a_terminal_levels_codes_and_diffs_have_colours(folder: Folder, on_terminal: Widen) -> None:
    set_up(folder)
    on_terminal(200)
    assert "\x1b[31merror\x1b[0m" in folder.run("check", "shuffled.py").out
    assert "\x1b[31merror\x1b[0m" in folder.run("check", "--format", "concise", "shuffled.py").out
    assert "\x1b[32m+import pai_distributed" in folder.run("apply", "--dry-run", "train.py").out
    assert "\x1b[32m+loader" in folder.run("check", "--diff", "shuffled.py").out
    assert "\x1b[31m\x1b[1mRF001\x1b[0m" in folder.run("apply", "missing.py").err
    for off in (["--color", "never"], ["--color=never", "-v"]):
        for arguments in (["check", "shuffled.py"], ["apply", "--dry-run", "train.py"], ["apply", "missing.py"]):
            answer = folder.run(*off, *arguments)
            assert "\x1b" not in answer.out + answer.err


@pytest.mark.parametrize("name", ["TERM", "NO_COLOR"])
def test_the_environment_takes_the_colours_of_a_terminal_away(
    folder: Folder, on_terminal: Widen, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    set_up(folder)
    on_terminal(80)
    monkeypatch.setenv(name, "dumb")
    assert "\x1b" not in folder.run("check", "shuffled.py").out


@pytest.mark.parametrize("form", ["json", "sarif", "github", "junit"])
def test_formats_for_programs_are_the_same_everywhere(folder: Folder, on_terminal: Widen, form: str) -> None:
    set_up(folder)
    arguments = ["check", "--format", form, "shuffled.py", "missing.py"]
    piped = folder.run(*arguments)
    on_terminal(40)
    assert folder.run("--color", "always", "-v", *arguments).out == piped.out


def test_force_color_does_not_break_a_patch(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(folder)
    plain = folder.run("apply", "--dry-run", "train.py").raw
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert folder.run("apply", "--dry-run", "train.py").raw == plain
    assert "\x1b[31merror" in folder.run("check", "shuffled.py").out
    assert "\x1b[32m+" in folder.run("apply", "--dry-run", "--color", "always", "train.py").out
    assert "\x1b" not in folder.run("inspect", "--json", "train.py").out


# ---- widths


def assert_laid_out(shown: str, plain: str, width: int, strict: bool = True) -> None:
    """Nothing is lost, no word is broken, and what is prose fits."""
    assert bare(shown).split() == plain.split()
    for line in bare(shown).splitlines():
        alone = len(re.findall(r"(?:`[^`\n]*`|\S)+", line)) == 1
        assert columns(line) <= width or alone or (not strict and line in plain.splitlines()), line


@pytest.mark.parametrize(
    ("arguments", "strict"),
    [
        ("inspect open.py", True),
        ("inspect -v train.py", True),
        ("apply open.py", True),
        ("apply --check noted.py", True),
        ("apply noted.py", False),
        ("apply --dry-run -v train.py", False),
        ("check --statistics .", True),
        ("check missing.py", True),
        ("undo train.py", True),
        ("rule", True),
        ("rule RF018", True),
        ("rule PAI009", False),
        ("rule DDP203", False),
        ("--version", True),
    ],
)
def test_output_at_any_width(folder: Folder, on_terminal: Widen, arguments: str, strict: bool) -> None:
    set_up(folder)
    best = ("            best_acc = acc\n", "            pass\n")
    folder.write("open.py", swapped(SCRIPT, best, ("acc = validate", "quality = validate")))
    words = arguments.split()
    plain = folder.run(*words)
    for width in WIDTHS:
        folder.write("noted.py", REMARKABLE)
        on_terminal(width)
        shown = folder.run(*words)
        assert shown.code == plain.code
        for told, whole in ((shown.out, plain.out), (shown.err, plain.err)):
            same = [re.sub(r"\d+\.\d\d s", "0.00 s", text) for text in (told, whole)]
            same = [re.sub(r"wrote (pai|train)\S+ \(\d+ lines\)\n", "", text) for text in same]
            assert_laid_out(same[0], same[1], width, strict)


@pytest.mark.parametrize("width", WIDTHS)
def test_findings_at_any_width(folder: Folder, width: int) -> None:
    path = folder.write("x.py", SHUFFLED)
    found = Checker().check(path, "x.py", SHUFFLED.encode(), Settings()).findings
    report = Report(found, files=1)
    shown, plain = render("full", report, View(width)), render("full", report)
    assert all(columns(line) <= width for line in shown.splitlines())
    if width == 200:
        assert shown == plain
    carets = shown.splitlines().index(next(line for line in shown.splitlines() if "^^" in line))
    code, below = shown.splitlines()[carets - 1 : carets + 1]
    assert code[below.index("^") :].startswith("DataLoader(dataset")
    assert len(below) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_the_doctors_sentences_are_broken_and_its_commands_are_not(width: int) -> None:
    command = "/opt/python/bin/python -m pip install --no-deps perforatedai==3.2.9"
    seen = [
        Seen("Python", "ok", "Python 3.11.2 (/opt/python/bin/python)."),
        Seen("perforatedai", "problem", "perforatedai is not installed.", command),
        Seen("port", "warning", "Port 29500 is taken.", "Set MASTER_PORT to another one, before every start."),
    ]
    shown = to_text(seen, View(width))
    assert shown.split() == to_text(seen).split()
    assert command in [line.strip() for line in shown.splitlines()]
    assert all(columns(line) <= width for line in shown.splitlines() if line.strip() != command and "(/" not in line)


def test_the_width_is_that_of_the_stream_and_columns_comes_first(tmp_path: str) -> None:
    """What a real terminal of 40 columns shows, while the other stream is a pipe."""
    ours, theirs = pty.openpty()
    try:
        import fcntl
        import termios

        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
        command = [sys.executable, "-m", "retrofit", "apply", "missing.py"]
        for told, width in (({}, 40), ({"COLUMNS": "60"}, 60)):
            result = subprocess.run(
                command, env={**environ, "TERM": "xterm", **told}, stdout=subprocess.PIPE, stderr=theirs, cwd=tmp_path,
                timeout=60, check=False,
            )  # fmt: skip
            assert result.returncode == 2
            shown = os.read(ours, 4096).decode().replace("\r\n", "\n")
            assert "\x1b[31m" in shown
            assert [len(line) <= width for line in bare(shown).splitlines()] == [True, True]
    finally:
        os.close(ours)
        os.close(theirs)


# ---- whoever reads it


def retrofit(*arguments: str, cwd: str, **settings: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "retrofit", *arguments]
    return subprocess.run(
        command, cwd=cwd, env={**os.environ, **settings}, capture_output=True, timeout=60, check=False
    )


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_stream_that_lacks_a_character_gets_it_with_a_backslash(folder: Folder, encoding: str) -> None:
    folder.write("entraîné→.py", SCRIPT)
    result = retrofit("inspect", "entraîné→.py", cwd=str(folder.path), PYTHONIOENCODING=encoding)
    assert (result.returncode, result.stderr) == (0, b"")
    name = {"ascii": b"entra\\xeen\\xe9\\u2192.py", "cp1252": "entraîné".encode("cp1252") + b"\\u2192.py"}[encoding]
    assert name + b":36" in result.stdout


def test_json_is_json_in_every_encoding(folder: Folder) -> None:
    folder.write("entraîné→.py", SHUFFLED)
    result = retrofit("check", "--format=json", "entraîné→.py", cwd=str(folder.path), PYTHONIOENCODING="ascii")
    assert json.loads(result.stdout)["findings"][0]["file"] == "entraîné→.py"


@pytest.mark.parametrize("arguments", ["rule", "rule PAI009", "--help", "apply --help", "--version"])
def test_a_reader_that_goes_away_is_no_mistake_of_ours(folder: Folder, arguments: str) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        command = [sys.executable, "-m", "retrofit", *arguments.split()]
        result = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, timeout=60, check=False)
    finally:
        os.close(theirs)
    assert result.returncode in (1, 128 + 13)
    assert result.stderr == b""


def test_plain_tables_are_as_before() -> None:
    seen = [Seen("GPU memory", "ok", "All free."), Seen("port", "problem", "Taken.", "one\ntwo")]
    assert to_text(seen, PLAIN).splitlines() == [
        "ok       GPU memory  All free.",
        "problem  port        Taken.",
        "                     one",
        "                     two",
    ]
