"""The table of lasting choices: every option is in it or is a deed, and each key does what its option does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from retrofit.cli import main
from retrofit.keys import DEEDS, EVERYWHERE, KEYS, Key, OneOf, Switch, keys_of
from retrofit.options import load_choices
from tests.conftest import SCRIPT, Folder

SHUFFLED = """\
import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
loader = DataLoader(dataset, shuffle=True, sampler=DistributedSampler(dataset))
"""

#: Has a fix that is not safe.
UNSAFE = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("nccl")
model = DDP(Net().cuda())
train(model)
if dist.get_rank() == 0:
    torch.save(model.state_dict(), "model.pt")
"""


def every_option() -> Iterator[tuple[str, str, click.Option]]:
    """Return each option of each command by its name without dashes, and those before the command's name."""
    for name, command in [("", main), *main.commands.items()]:
        for parameter in command.params:
            if isinstance(parameter, click.Option) and parameter.opts[-1] != "--version":
                yield name, next(word[2:] for word in parameter.opts if word.startswith("--")), parameter


# ---- the table


@pytest.mark.parametrize(("command", "name", "option"), list(every_option()))
def test_every_option_is_a_key_or_a_deed(command: str, name: str, option: click.Option) -> None:
    names = {key.name for key in keys_of(command) if key.option}
    assert (name in names) != (name in DEEDS)


def test_every_key_is_an_option_and_every_deed_one_too() -> None:
    found = {(command, name) for command, name, _ in every_option()}
    for key in KEYS:
        commands = ["", *main.commands] if key.commands == EVERYWHERE else key.commands
        assert not key.option or {(command, key.name) for command in commands} <= found
    assert {name for _, name in found} >= DEEDS


def test_keys_of_one_name_take_the_same() -> None:
    for key in KEYS:
        for other in KEYS:
            if key.name == other.name:
                assert (type(key.takes), key.takes.wanted) == (type(other.takes), other.takes.wanted)
                assert key is other or not {*key.commands} & {*other.commands}


@pytest.mark.parametrize("key", KEYS, ids=lambda key: f"{key.name} {key.commands[0]}")
def test_a_key_is_described_and_its_default_is_possible(key: Key) -> None:
    assert key.meaning.endswith((".", "?"))
    assert key.default_text not in ("", "None", "()")
    assert key.takes.wanted
    if key.default is not None and key.option and key.default != "":
        assert key.read(key.default) == key.default
    with pytest.raises(ValueError, match=rf"{key.name} is .*; it must be "):
        key.read(object())


@pytest.mark.parametrize("command", main.commands)
def test_the_help_of_a_command_says_which_options_can_be_keys(folder: Folder, command: str) -> None:
    text = " ".join(folder.run(command, "--help").out.split())
    sentence = re.search(r"Each option(?: but ([^.]*?))? can also stand in \[tool\.retrofit\]", text)
    assert sentence is not None
    deeds = {f"--{name}" for owner, name, _ in every_option() if owner == command and name in DEEDS}
    assert set(re.findall(r"--[\w-]+", sentence[1] or "")) == deeds


# ---- what each does as a key


def written(value: object) -> str:
    return (
        json.dumps(value)
        if not isinstance(value, dict)
        else "{" + ", ".join(f"{k} = {v}" for k, v in value.items()) + "}"
    )


VALUES: dict[str, Any] = {
    "metric": "val_acc",
    "model": "net",
    "optimizer": "adam",
    "module": ["trainer.trainer"],
    "save-name": "mine",
    "output-dimensions": ["fc=-1,0"],
    "rules": "mine",
    "nproc-per-node": 3,
    "gpus": "0,1",
    "settings": {"n_epochs_to_switch": 5},
    "select": ["DDP2"],
    "ignore": ["DDP2"],
    "exclude": ["old"],
    "knowledge": ["ours.toml"],
    "timeout": 7.5,
}


@pytest.mark.parametrize("key", [key for key in KEYS if key.option], ids=lambda key: key.name)
def test_a_key_is_read_and_the_command_line_wins(folder: Folder, key: Key) -> None:
    value: Any = VALUES.get(key.name, 9)
    if isinstance(key.takes, Switch):
        value = True
    elif isinstance(key.takes, OneOf):
        value = key.takes.words[-1]
    folder.write("pyproject.toml", f"[tool.retrofit]\n{key.name} = {written(value)}\n")
    near = folder.path / "train.py"
    command = "" if key.commands == EVERYWHERE else key.commands[0]
    read = load_choices(near, {}, command)[key.attribute]
    assert read == key.read(value, folder.path)
    other = False if isinstance(key.takes, Switch) else ["max_dendrites=2"] if key.name == "settings" else value
    choices = load_choices(near, {key.attribute: other}, command)
    assert choices[key.attribute] == key.read(other)
    assert (key.attribute in choices.commanded) != (key.attribute in choices.configured)
    assert load_choices(Path("/"), {}, command)[key.attribute] == key.default


def test_an_empty_string_is_no_choice(folder: Folder) -> None:
    folder.write("pyproject.toml", '[tool.retrofit]\nmode = ""\ngpus = ""\n')
    folder.write("train.py", SCRIPT)
    assert folder.run("apply", "--check", "train.py").code == 1


def test_rules_are_looked_for_from_pyproject(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = """\
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
    folder.write("project/mine/hello.toml", rule)
    folder.write("project/src/train.py", SCRIPT)
    folder.write("project/pyproject.toml", '[tool.retrofit]\nrules = "mine"\n')
    assert folder.run("apply", "project/src/train.py").code == 0
    assert 'print("hello")' in folder.text("project/src/train.py")
    monkeypatch.chdir(folder.path / "project" / "src")
    assert "MY001" in folder.run("rule").out


def test_a_project_does_not_say_which_program_is_started(folder: Folder) -> None:
    folder.write("pyproject.toml", '[tool.retrofit]\npython = "bin/harmful"\n')
    answer = folder.run("doctor")
    assert answer.code == 2
    assert "RF006 [tool.retrofit] has the unknown key 'python'" in answer.err


def test_the_keys_of_check_are_those_of_the_first_path(folder: Folder) -> None:
    folder.write("one/pyproject.toml", '[tool.retrofit]\nformat = "concise"\nfail-on = "error"\njobs = 1\n')
    folder.write("one/x.py", SHUFFLED.replace("shuffle=True", "shuffle=False"))
    folder.write("two/x.py", SHUFFLED)
    one = folder.run("check", "one", "two")
    assert all(re.match(r"(one|two)/x\.py:\d+:\d+: DDP", line) for line in one.out.splitlines())
    assert folder.run("check", "one/x.py").code == 0
    assert folder.run("check", "one/x.py", "--fail-on", "advice").code in (0, 1)
    assert "Found " in folder.run("check", "two", "one").out
    assert "Found " in folder.run("check", "--format", "full", "one", "two").out


def test_unsafe_fixes_are_for_the_files_of_the_project_that_allows_them(folder: Folder) -> None:
    folder.write("one/pyproject.toml", "[tool.retrofit]\nunsafe-fixes = true\n")
    folder.write("two/pyproject.toml", "")
    for name in ("one/x.py", "two/x.py"):
        folder.write(name, UNSAFE)
    changed = re.findall(r"^diff --git a/(\S+)", folder.run("check", "--diff", "one", "two").out, re.MULTILINE)
    assert changed == ["one/x.py"]
    assert folder.run("check", "--diff", "--no-unsafe-fixes", "one", "two").out == ""
    both = folder.run("check", "--diff", "--unsafe-fixes", "one", "two").out
    assert re.findall(r"^diff --git a/(\S+)", both, re.MULTILINE) == ["one/x.py", "two/x.py"]


def test_scripts_of_projects_with_other_rules_are_not_rewritten_together(folder: Folder) -> None:
    folder.write("one/train.py", SCRIPT)
    folder.write("two/train.py", SCRIPT)
    folder.write("one/pyproject.toml", "")
    folder.write("two/pyproject.toml", '[tool.retrofit]\nrules = "mine"\n')
    folder.write("two/mine/x.txt", "")
    for scripts in (["one/train.py", "two/train.py"], ["two/train.py", "one/train.py"]):
        [line] = folder.run("apply", *scripts).lines
        assert line == f"{scripts[1]}: RF006 its project has other rules than {scripts[0]}'s. Apply to them one by one."
    assert folder.run("apply", "--check", "--project-root", ".", "--rules", "two/mine", *scripts).code == 1


def test_a_key_can_be_quiet_and_coloured(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    folder.write("x.py", SHUFFLED)
    folder.write("pyproject.toml", '[tool.retrofit]\nquiet = true\ncolor = "always"\n')
    assert folder.run("apply", "--check", "train.py").out == ""
    assert folder.run("apply", "--no-quiet", "--check", "train.py").out
    assert "\x1b[31merror" in folder.run("check", "x.py").out
    assert "Took" in folder.run("-v", "check", "x.py").err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("jobs = 0", "jobs is 0; it must be a whole number, at least 1."),
        ("max-rounds = 3", "max-rounds is 3; it must be a whole number, at least 4."),
        ("timeout = 0", "timeout is 0; it must be a number greater than 0."),
        ('color = "red"', "color is 'red'; it must be auto, always or never."),
        ("quiet = 1", "quiet is 1; it must be true or false."),
        ("quiet = true\nverbose = true", "has both quiet and verbose."),
        ("rules = 3", "rules is 3; it must be a path."),
        ("unsafe-fix = true", "has the unknown key 'unsafe-fix'. Did you mean unsafe-fixes?"),
        ("dry-run = true", "has the unknown key 'dry-run'."),
        (
            '[tool.retrofit.per-file-ignores]\n"x" = "DDP2"',
            "per-file-ignores is {'x': 'DDP2'}; it must be a table of lists",
        ),
        ("severity = 3", "severity is 3; it must be a table of levels."),
    ],
)
@pytest.mark.parametrize("command", ["apply", "inspect", "verify", "check", "doctor"])
def test_a_wrong_key_is_one_located_line(folder: Folder, content: str, said: str, command: str) -> None:
    folder.write("train.py", "print(1)\n")
    folder.write("pyproject.toml", f"[tool.retrofit]\n{content}\n")
    answer = folder.run(command, *([] if command == "doctor" else ["train.py"]))
    assert answer.code == 2
    [line] = answer.lines
    assert line.startswith(f"pyproject.toml: RF006 [tool.retrofit] {said}")


def test_wrong_keys_keep_nobody_from_undoing_or_asking_what_they_mean(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    assert folder.run("apply", "train.py").code == 0
    folder.write("pyproject.toml", "[tool.retrofit]\nbanana = 1\n")
    assert folder.run("undo", "train.py").code == 0
    assert folder.run("rule", "RF006").code == 0


def test_select_all_on_the_command_line_wins_too(folder: Folder) -> None:
    folder.write("x.py", SHUFFLED)
    folder.write("pyproject.toml", '[tool.retrofit]\nselect = ["DDP5"]\n')
    assert folder.run("check", "x.py").code == 0
    assert folder.run("check", "--select", "ALL", "x.py").code == 1


@pytest.mark.parametrize("name", ["model", "optimizer"])
def test_what_an_item_holds_is_named_as_a_question_offers_it(name: str) -> None:
    (key,) = [one for one in KEYS if one.name == name]
    for answer in ('models["generator"]', "self.nets['body']", "nets[0]"):
        assert key.read(answer) == answer
