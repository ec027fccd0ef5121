"""Help at any width, its examples, near words for wrong ones, and what shells complete."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.shell_completion import BashComplete

from retrofit.cli import main
from retrofit.cli.frame import Command, Group
from retrofit.messages import load_messages
from retrofit.rules_folder import known_rules
from tests.conftest import Folder

#: As the installed program calls it.
CALL = "from retrofit.cli import main; main(prog_name='retrofit')"


def examples() -> Iterator[tuple[str, str]]:
    """Return every example with the command whose help has it."""
    for name, command in [("", main), *main.commands.items()]:
        assert isinstance(command, (Command, Group))
        assert 2 <= len(command.examples) <= 4
        for _, example in command.examples:
            yield name, example


@pytest.mark.parametrize("command", ["", *main.commands])
def test_help_loses_nothing_and_breaks_no_word_at_any_width(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    texts = {}
    for width in (40, 80, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        texts[width] = folder.run(*filter(None, [command, "--help"])).out
        for line in texts[width].splitlines():
            typed = re.match(r"    (retrofit|eval|_RETROFIT)", line)
            alone = len(line.split()) == 1 or re.fullmatch(r"  --[\w-]+ \S+", line)
            assert len(line) <= min(width, 100) or typed or alone, line
    assert texts[40].split() == texts[80].split() == texts[200].split()


@pytest.mark.parametrize(("command", "example"), list(examples()))
def test_an_example_is_right_and_stands_in_the_help_as_it_is_typed(folder: Folder, command: str, example: str) -> None:
    assert f"    {example}\n" in folder.run(*filter(None, [command, "--help"])).out
    program, name, *arguments = shlex.split(example)
    assert program == "retrofit"
    assert command in ("", name)
    above = click.Context(main, info_name=program, **main.context_settings)
    assert main.commands[name].make_context(name, arguments, above)  # parses them


def test_a_command_that_is_nearly_right_is_told(folder: Folder) -> None:
    for wrong, right in (("aply", "apply"), ("verfy", "verify"), ("rules", "rule")):
        answer = folder.run(wrong)
        assert (answer.code, answer.out) == (2, "")
        assert answer.lines[-1] == f"Error: No such command '{wrong}'. Did you mean {right}?"
    assert folder.run("banana").lines[-1] == "Error: No such command 'banana'."


@pytest.mark.parametrize(
    ("arguments", "near"),
    [(["apply", "--dryrun", "x.py"], "--dry-run"), (["check", "--selct", "DDP2", "."], "--select")],
)
def test_an_option_that_is_nearly_right_is_told(folder: Folder, arguments: list[str], near: str) -> None:
    assert near in folder.run(*arguments).lines[-1]


# ---- completion


def completed(*words: str) -> list[str]:
    """Return what a shell is told of the last word."""
    *before, last = words
    return [
        item.value for item in BashComplete(main, {}, "retrofit", "_RETROFIT_COMPLETE").get_completions(before, last)
    ]


def test_commands_options_and_choices_are_completed() -> None:
    assert completed("a") == ["apply"]
    assert set(completed("")) >= set(main.commands)
    assert completed("apply", "--dry") == ["--dry-run"]
    assert {"--metric", "--mode", "--model"} <= set(completed("apply", "--m"))
    programs, systems = ["torchrun", "launch", "python"], ["slurm", "submitit", "trainjob", "skypilot"]
    assert completed("apply", "--launcher", "") == programs + systems
    assert completed("--color", "") == ["auto", "always", "never"]
    assert completed("check", "--format", "s") == ["sarif"]


def test_rules_and_messages_are_completed_by_code_and_name() -> None:
    codes = [code for code in known_rules() if code.startswith("PAI0")]
    assert completed("rule", "PAI0") == codes
    assert completed("rule", "pai009") == ["PAI009"]
    assert completed("rule", "grad") == ["gradient-prefill"]
    assert completed("rule", "RF01") == [code for code in load_messages() if code.startswith("RF01")]
    assert completed("check", "--select", "DDP203,DDP50") == [
        f"DDP203,{code}" for code in known_rules() if code.startswith("DDP50")
    ]
    assert completed("check", "--ignore", "set-ep") == ["set-epoch-missing"]


@pytest.mark.parametrize(
    "words", [["apply"], ["check"], ["undo"], ["apply", "--rules"], ["verify", "--python"], ["verify", "--keep"]]
)
def test_files_are_completed_by_the_shell(words: list[str]) -> None:
    complete = BashComplete(main, {}, "retrofit", "_RETROFIT_COMPLETE")
    [item] = complete.get_completions(words, "tr")
    assert (item.type, item.value) == ("file", "tr")


def test_completion_imports_nothing_heavy(folder: Folder) -> None:
    environ = {
        **os.environ,
        "_RETROFIT_COMPLETE": "zsh_complete",
        "COMP_WORDS": "retrofit rule PAI00",
        "COMP_CWORD": "2",
    }
    command = [sys.executable, "-X", "importtime", "-c", CALL]
    result = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.startswith("plain\nPAI001\nimports\n")
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in result.stderr.splitlines()}
    assert not imported & {"libcst", "jinja2", "torch", "rich", "pathspec"}


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_the_line_for_bash_that_help_shows_completes(folder: Folder) -> None:
    help_text = folder.run("--help").out
    line = next(line.strip() for line in help_text.splitlines() if "bash_source" in line)
    program = folder.write("bin/retrofit", f'#!/bin/sh\nexec "{sys.executable}" -c "{CALL}" "$@"\n', 0o755)
    script = f"""
        (( BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404 )) || {{ echo old; exit; }}
        {line}
        COMP_WORDS=(retrofit rule PAI00) COMP_CWORD=2
        _retrofit_completion retrofit rule
        echo "${{COMPREPLY[@]}}"
    """
    result = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    expected = " ".join(code for code in known_rules() if code.startswith("PAI00"))
    assert result.stdout.strip() in (expected, "old")
