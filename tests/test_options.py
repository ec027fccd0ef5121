"""Choices: each option, each key of `[tool.retrofit]`, which of them wins, and what is said of wrong ones."""

from __future__ import annotations

import json
import re
from typing import Literal

import pytest

from retrofit.keys import Expression
from retrofit.options import Options, load_options
from tests.conftest import SCRIPT, Folder, swapped

LAUNCHER = "train_distributed.sh"
TWO_RUNS = """\
import torch
from torch import nn
from torch.nn import DataParallel


def pretrain():
    model = DataParallel(nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best_acc = 0
    for epoch in range(9):
        for x in loader:
            model(x).sum().backward()
            optimizer.step()
        acc = masked(model)
        best_acc = max(best_acc, acc)


def finetune():
    model = DataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best_acc = 0
    for epoch in range(9):
        for x, y in loader:
            criterion(model(x), y).backward()
            optimizer.step()
        acc = validate(model)
        best_acc = max(best_acc, acc)


pretrain() if first else finetune()
"""
TWO_SCORES = swapped(
    SCRIPT,
    ("acc = validate", "val_loss, val_acc = validate"),
    ("        if acc > best_acc:\n            best_acc = acc\n", ""),
)
TWO_MODELS = swapped(
    SCRIPT,
    (
        "    model = DistributedDataParallel(model)\n",
        "    model = DistributedDataParallel(model)\n    teacher = nn.Linear(4, 2)\n"
        "    teacher = DistributedDataParallel(teacher)\n    second = torch.optim.SGD(teacher.parameters(), lr=0.1)\n",
    ),
)
How = Literal["option", "key"]


def choose(folder: Folder, how: How, **choices: str) -> list[str]:
    """Return the arguments that make choices, on the command line or by pyproject.toml."""
    named = {name.replace("_", "-"): value for name, value in choices.items()}
    if how == "option":
        return [word for name, value in named.items() for word in (f"--{name}", value)]
    lines = [f"{name} = {value if value.isdigit() else json.dumps(value)}\n" for name, value in named.items()]
    folder.write("pyproject.toml", "".join(["[tool.retrofit]\n", *lines]))
    return []


# ---- what each choice does, on the command line and as a key

HOW = pytest.mark.parametrize("how", ["option", "key"])


@HOW
@pytest.mark.parametrize(
    ("choices", "lines"),
    [
        (
            {"nproc_per_node": "4", "gpus": "0,1", "launcher": "launch", "save_name": "my_run-1.2"},
            {
                "NUM_GPUS=${NUM_GPUS:-4}",
                'export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES-0,1}"',
                "LAUNCHER=${LAUNCHER:-launch}",
                "SAVE_NAME=my_run-1.2",
            },
        ),
        (
            {"nproc_per_node": "gpu", "gpus": "0", "launcher": "python"},
            {
                "NUM_GPUS=${NUM_GPUS:-gpu}",
                'export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES-0}"',
                "LAUNCHER=${LAUNCHER:-python}",
            },
        ),
    ],
    ids=["all", "others"],
)
def test_a_launch_choice_stands_in_the_launcher(
    folder: Folder, how: How, choices: dict[str, str], lines: set[str]
) -> None:
    folder.write("train.py", SCRIPT)
    assert folder.run("apply", "train.py", *choose(folder, how, **choices)).code == 0
    assert lines <= set(folder.text(LAUNCHER).splitlines())


@HOW
@pytest.mark.parametrize(
    ("choices", "code"),
    [
        ({"save_name": "mine", "mode": "min"}, r"save_name\([\"']mine[\"']\), maximizing_score=False"),
        ({"metric": "hits['acc']", "mode": "max"}, r"report_validation_score\(hits\[.acc.\], model"),
        ({"metric": "1 - acc", "mode": "min"}, r"report_validation_score\(1 - acc, model"),
        ({"metric": "acc"}, r"report_validation_score\(acc, model"),
    ],
    ids=["save-name and mode", "item", "operation", "name"],
)
def test_a_choice_about_the_script_stands_in_the_script(
    folder: Folder, how: How, choices: dict[str, str], code: str
) -> None:
    folder.write("train.py", swapped(SCRIPT, ("        acc = ", "        hits = {'acc': 0.5}\n        acc = ")))
    assert folder.run("apply", "train.py", *choose(folder, how, **choices)).code == 0
    text = folder.text("train.py")
    assert re.search(code, text)
    assert f"maximizing_score={choices.get('mode') != 'min'}" in text


def test_the_default_save_name_is_made_of_the_scripts_name(folder: Folder) -> None:
    folder.write("my net.py", SCRIPT)
    folder.run("apply", "my net.py")
    assert re.search(r"save_name\([\"']PAI_my_net[\"']\)", folder.text("my net.py"))
    assert "SAVE_NAME=PAI_my_net" in folder.text(LAUNCHER).splitlines()


@HOW
def test_metric_decides_between_several_scores_and_brings_its_direction(folder: Folder, how: How) -> None:
    folder.write("train.py", TWO_SCORES)
    assert folder.run("apply", "train.py").code == 2
    assert folder.run("apply", "train.py", *choose(folder, how, metric="val_loss")).code == 0
    text = folder.text("train.py")
    assert "report_validation_score(val_loss, model" in text
    assert "maximizing_score=False" in text


@HOW
@pytest.mark.parametrize("model", ["finetune.model", "train.py:finetune.model"])
def test_model_is_told_by_what_wraps_it_where_several_have_its_name(folder: Folder, how: How, model: str) -> None:
    folder.write("train.py", TWO_RUNS)
    asked = folder.run("apply", "train.py")
    assert asked.code == 2
    assert "Say which with --model NAME: pretrain.model or finetune.model." in asked.err
    assert folder.run("apply", "train.py", *choose(folder, how, model=model)).code == 0
    text = folder.text("train.py")
    assert TWO_RUNS[TWO_RUNS.index("def pretrain") : TWO_RUNS.index("def finetune")] in text
    assert text.count("perforate_model(") == 1


@HOW
def test_model_decides_between_several_wrapped_models(folder: Folder, how: How) -> None:
    folder.write("train.py", TWO_MODELS)
    assert folder.run("apply", "train.py").code == 2
    assert folder.run("apply", "train.py", *choose(folder, how, model="model")).code == 0
    text = folder.text("train.py")
    assert text.count("perforate_model(") == 1
    assert "    teacher = DistributedDataParallel(teacher)\n" in text


@pytest.mark.parametrize("how", ["options", "key"])
def test_output_dimensions_of_several_layers_go_into_one_dict(folder: Folder, how: str) -> None:
    folder.write("train.py", SCRIPT)
    arguments = ["--output-dimensions", "0=-1,0", "--output-dimensions", "encoder.fc=-1,-1,0"]
    if how == "key":
        folder.write("pyproject.toml", '[tool.retrofit]\noutput-dimensions = ["0=-1,0", "encoder.fc=-1,-1,0"]\n')
        arguments = []
    assert folder.run("apply", "train.py", *arguments).code == 0
    found = re.search(r"load_latest_switch\(.*output_dimensions=(\{.*\})\)", folder.text("train.py"))
    assert found is not None
    assert found[1].replace('"', "'") == "{'0': [-1, 0], 'encoder.fc': [-1, -1, 0]}"


@pytest.mark.parametrize("entry", ["fc=-1, 0", "fc = -1,0"])
def test_white_space_in_output_dimensions_does_no_harm(folder: Folder, entry: str) -> None:
    options = load_options(folder.path / "train.py", {"output_dimensions": (entry,)})
    assert options.for_rules()["output_dimensions"] in ("{'fc': [0, -1]}", "{'fc': [-1, 0]}")


def test_options_combine(folder: Folder) -> None:
    folder.write("train.py", TWO_SCORES)
    options = ["--nproc-per-node", "2", "--gpus", "1,0", "--save-name", "x", "--metric", "val_acc", "--mode", "max"]
    assert folder.run("apply", "train.py", *options).code == 0
    launcher = folder.text(LAUNCHER).splitlines()
    assert {"NUM_GPUS=${NUM_GPUS:-2}", "SAVE_NAME=x"} <= set(launcher)
    assert "nothing to do" in folder.run("apply", "train.py", *options).out


def test_a_launch_choice_made_later_changes_the_launcher_alone(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    folder.run("apply", "train.py")
    script = folder.text("train.py")
    for choice in (("--nproc-per-node", "3"), ("--gpus", "2,3"), ("--launcher", "launch")):
        answer = folder.run("apply", "train.py", *choice)
        assert answer.code == 0
        assert "rewrote train_distributed.sh" in answer.out
        assert choice[1] in folder.text(LAUNCHER)
        assert folder.text("train.py") == script
        assert folder.mode(LAUNCHER) & 0o100
    assert "nothing to do" in folder.run("apply", "train.py", *choice).out


@pytest.mark.parametrize(
    "choice", [("--mode", "min"), ("--metric", "1 - acc"), ("--output-dimensions", "0=0,-1")], ids=" ".join
)
def test_a_choice_that_the_rewritten_script_contradicts_is_not_ignored_silently(
    folder: Folder, choice: tuple[str, str]
) -> None:
    folder.write("train.py", SCRIPT)
    folder.run("apply", "train.py")
    answer = folder.run("apply", "train.py", *choice)
    assert answer.err
    assert choice[0] in answer.err


def test_a_save_name_that_the_rewritten_script_contradicts_is_a_question(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    folder.run("apply", "train.py")
    before = folder.state()
    answer = folder.run("apply", "train.py", "--save-name", "other")
    assert answer.code == 2
    [line] = answer.lines
    assert "PAI106" in line
    assert "PAI_train" in line
    assert folder.state() == before


# ---- where choices come from


def test_apply_names_the_option_that_a_choice_came_from(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    choices = {"--save-name": "x", "--nproc-per-node": "2", "--launcher": "launch", "--gpus": "0,3", "--mode": "max"}
    out = folder.run("apply", "train.py", *(word for choice in choices.items() for word in choice)).out
    choices["--mode"] = r"\(higher is better\)"
    for source, value in choices.items():
        assert re.search(rf" {value}\s+\[{source}\]$", out, re.MULTILINE)


def test_apply_names_pyproject_as_the_source_of_its_choices(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    choices = {"save_name": "x", "nproc_per_node": "2", "launcher": "launch", "gpus": "0,3"}
    out = folder.run("apply", "train.py", *choose(folder, "key", **choices)).out
    for value in choices.values():
        assert re.search(rf" {value}\s+\[pyproject\.toml\]$", out, re.MULTILINE)


@pytest.mark.parametrize("choices", [{"mode": "max"}, {"metric": "1 - acc", "mode": "min"}], ids=["mode", "metric"])
def test_apply_names_pyproject_as_the_source_of_the_score(folder: Folder, choices: dict[str, str]) -> None:
    folder.write("train.py", SCRIPT)
    out = folder.run("apply", "train.py", *choose(folder, "key", **choices)).out
    assert re.search(r"validation score .*\[pyproject\.toml\]$", out, re.MULTILINE)


def test_apply_says_of_what_it_found_where_that_is(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    out = folder.run("apply", "train.py").out
    line = 1 + SCRIPT[: SCRIPT.index("optimizer = ")].count("\n")
    assert re.search(rf"torch\.optim\.SGD, built by the tracker\s+\[line {line}\]$", out, re.MULTILINE)
    assert re.search(r"torchrun\s+\[default\]$", out, re.MULTILINE)


# ---- which pyproject.toml counts, and what wins


@pytest.mark.parametrize(
    ("name", "key", "option", "line"),
    [
        ("nproc-per-node", "2", "3", "NUM_GPUS=${NUM_GPUS:-3}"),
        ("launcher", "launch", "torchrun", "LAUNCHER=${LAUNCHER:-torchrun}"),
        ("save-name", "key", "option", "SAVE_NAME=option"),
    ],
)
def test_the_command_line_wins(folder: Folder, name: str, key: str, option: str, line: str) -> None:
    folder.write("train.py", SCRIPT)
    choose(folder, "key", **{name: key})
    assert folder.run("apply", "train.py", f"--{name}", option).code == 0
    assert line in folder.text(LAUNCHER).splitlines()


def test_the_command_line_wins_for_each_key_by_itself(folder: Folder) -> None:
    folder.write("pyproject.toml", "[tool.retrofit]\nmode = 'min'\nsave-name = 'kept'\noutput-dimensions = ['a=0']\n")
    folder.write("train.py", SCRIPT)
    options = load_options(folder.path / "train.py", {"mode": "max", "output_dimensions": ("b=-1,0",), "inline": None})
    assert (options.mode, options.save_name, options.output_dimensions) == ("max", "kept", ("b=-1,0",))
    assert options.commanded == {"mode", "output_dimensions"}
    assert options.configured == {"save_name"}


def test_the_nearest_pyproject_above_the_script_counts_not_the_one_here(folder: Folder) -> None:
    folder.write("pyproject.toml", "[tool.retrofit]\nnproc-per-node = 2\n")
    folder.write("project/pyproject.toml", "[tool.retrofit]\nnproc-per-node = 3\n")
    folder.write("project/src/deep/train.py", SCRIPT)
    assert folder.run("apply", "project/src/deep/train.py").code == 0
    assert "NUM_GPUS=${NUM_GPUS:-3}" in folder.text(f"project/src/deep/{LAUNCHER}").splitlines()


def test_a_nearer_pyproject_without_our_table_hides_the_farther_one(folder: Folder) -> None:
    folder.write("pyproject.toml", "[tool.retrofit]\nnproc-per-node = 2\n")
    folder.write("project/pyproject.toml", "[project]\nname = 'x'\n")
    script = folder.write("project/train.py", SCRIPT)
    assert load_options(script, {}) == Options()


@pytest.mark.parametrize("content", ["", "tool = 3\n", "[tool.retrofit]\n", "[tool.other]\nx = 1\n", "# nothing\n"])
def test_a_pyproject_without_choices_leaves_the_defaults(folder: Folder, content: str) -> None:
    folder.write("pyproject.toml", content)
    assert load_options(folder.write("train.py", SCRIPT), {}) == Options()


@pytest.mark.parametrize("command", ["apply", "inspect"])
def test_inspect_and_apply_read_the_same_choices(folder: Folder, command: str) -> None:
    folder.write("pyproject.toml", "[tool.retrofit]\nmetric = 'val_acc'\n")
    folder.write("train.py", TWO_SCORES)
    answer = folder.run(command, "train.py")
    assert answer.code == 0
    assert "val_acc" in answer.out


def test_inline_as_a_key_writes_no_helper(folder: Folder) -> None:
    folder.write("pyproject.toml", "[tool.retrofit]\ninline = true\n")
    folder.write("train.py", SCRIPT)
    assert folder.run("apply", "train.py").code == 0
    assert not [name for name in folder.names() if "pai_distributed" in name]


# ---- wrong ones


def refused(folder: Folder, *options: str) -> str:
    """Apply to a plain script; return the one line that refuses it, after a look that nothing was written."""
    folder.write("train.py", SCRIPT)
    before = folder.state()
    answer = folder.run("apply", "train.py", *options)
    assert (answer.code, answer.out) == (2, "")
    assert folder.state() == before
    [line] = answer.lines
    return line


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("nproc-per-node", "0", "a number of processes, or gpu"),
        ("nproc-per-node", "-1", "a number of processes, or gpu"),
        ("nproc-per-node", "two", "a number of processes, or gpu"),
        ("nproc-per-node", "1.5", "a number of processes, or gpu"),
        ("nproc-per-node", "2; rm -rf x", "a number of processes, or gpu"),
        ("gpus", "0, 1", "GPU numbers such as 0,1"),
        ("gpus", "0,", "GPU numbers such as 0,1"),
        ("gpus", "$(id)", "GPU numbers such as 0,1"),
        ("save-name", "a b", "letters, digits"),
        ("save-name", "../up", "letters, digits"),
        ("save-name", "..", "letters, digits"),
        ("save-name", "a/b", "letters, digits"),
        ("save-name", "ü", "letters, digits"),
        ("save-name", "$HOME", "letters, digits"),
        ("save-name", "a\n", "letters, digits"),
        ("model", "my model", "a variable's name"),
        ("model", "1st", "a variable's name"),
        ("metric", "acc +", "no expression of one value"),
        ("metric", "acc = 1", "no expression of one value"),
        ("metric", "acc; import os", "no expression of one value"),
        ("metric", "yield acc", "no expression of one value"),
        ("metric", "validate:stats[...]", "such as stats['acc1'] or stats[0]"),
        ("metric", "mean(hits.all[...]) / 2", "such as hits.all['acc1'] or hits.all[0]"),
        ("output-dimensions", "fc", "LAYER=NUMBERS"),
        ("output-dimensions", "=0", "LAYER=NUMBERS"),
        ("output-dimensions", "fc=", "LAYER=NUMBERS"),
        ("output-dimensions", "fc=-1,-1", "LAYER=NUMBERS"),
        ("output-dimensions", "fc=0,x", "LAYER=NUMBERS"),
    ],
)
def test_an_impossible_value_is_one_line_that_names_option_and_value(
    folder: Folder, name: str, value: str, wanted: str
) -> None:
    line = refused(folder, f"--{name}", value)
    assert line.startswith(f"--{name}: RF006 ")
    assert repr(value) in line
    assert wanted in line


def test_digits_of_other_scripts_are_no_number_of_processes(folder: Folder) -> None:
    refused(folder, "--nproc-per-node", "1٣")


@pytest.mark.parametrize(
    ("entries", "wanted"),
    [
        (["fc=0,0"], "one 0 where the layer's neurons are and -1 elsewhere"),
        (["fc=0,7"], "one 0 where the layer's neurons are and -1 elsewhere"),
        (["fc=0", "fc=-1,0"], "a layer is named twice"),
        pytest.param(
            ["fc=0", "fc =-1,0"],
            "a layer is named twice",
        ),
    ],
)
def test_output_dimensions_that_make_no_sense_are_refused(folder: Folder, entries: list[str], wanted: str) -> None:
    assert wanted in refused(folder, *(word for entry in entries for word in ("--output-dimensions", entry)))


@pytest.mark.parametrize("metric", [" acc", "acc "])
def test_white_space_around_a_metric_does_no_harm(folder: Folder, metric: str) -> None:
    folder.write("train.py", SCRIPT)
    answer = folder.run("apply", "train.py", "--metric", metric)
    assert answer.code == 0
    assert f"[line {SCRIPT[: SCRIPT.index('if acc >')].count(chr(10)) + 1}:" in answer.out


def test_a_metric_that_is_no_single_value_is_refused(folder: Folder) -> None:
    refused(folder, "--metric", "acc, loss", "--mode", "max")


def test_dots_beside_another_key_stand_for_nothing_to_be_filled_in() -> None:
    assert Expression().read("scores[..., 0].mean()") == "scores[..., 0].mean()"


@pytest.mark.parametrize("value", ["validate:acc", "validate@dev:acc", "run@sets['dev']:stats['acc']"])
def test_an_expression_may_have_its_function_and_what_that_is_given_before_it(value: str) -> None:
    assert Expression().read(value) == value
    with pytest.raises(ValueError, match="no expression of one value"):
        Expression().read(value.replace(":", ":@"))


@pytest.mark.parametrize("metric", ["val_acc", "stats['acc1']", "meter.avg"])
def test_a_metric_that_the_script_does_not_know_is_refused(folder: Folder, metric: str) -> None:
    line = refused(folder, "--metric", metric, "--mode", "max")
    assert re.split(r"\W", metric)[0] in line


def test_a_model_that_is_not_wrapped_is_refused_with_the_names_that_are(folder: Folder) -> None:
    line = refused(folder, "--model", "netX")
    assert " RF015 " in line
    assert "netX" in line
    assert "--model" in line
    assert "`model`" in line


def _key(folder: Folder, content: str) -> str:
    folder.write("pyproject.toml", content)
    line = refused(folder)
    assert "pyproject.toml: " in line
    assert " RF006 " in line
    return line


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("nproc_per_node", "nproc-per-node"),
        ("nproc-per-nodes", "nproc-per-node"),
        ("gpu", "gpus"),
        ("metrics", "metric"),
        ("save_name", "save-name"),
        ("output_dimensions", "output-dimensions"),
        ("Mode", "mode"),
    ],
)
def test_a_misspelt_key_is_one_line_with_the_nearest_one(folder: Folder, key: str, near: str) -> None:
    line = _key(folder, f"[tool.retrofit]\n{key} = 1\n")
    assert repr(key) in line
    assert f"Did you mean {near}?" in line


@pytest.mark.parametrize("key", ["banana", "given", "pyproject"])
def test_an_unknown_key_is_one_line_with_all_that_are_known(folder: Folder, key: str) -> None:
    line = _key(folder, f"[tool.retrofit]\n{key} = 1\n")
    for known in ("nproc-per-node", "gpus", "launcher", "save-name", "metric", "mode", "output-dimensions", "inline"):
        assert known in line
    assert "pyproject." not in line.partition("RF006")[2]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("inline", '"yes"'),
        ("inline", "1"),
        ("nproc-per-node", "true"),
        ("nproc-per-node", "2.5"),
        ("nproc-per-node", "[2]"),
        ("gpus", "[0, 1]"),
        ("gpus", "true"),
        ("save-name", "2024-01-01"),
        ("mode", "{}"),
        ("output-dimensions", '"fc=0"'),
        ("output-dimensions", "[1]"),
        ("metric", "[]"),
    ],
)
def test_a_value_of_a_wrong_type_is_one_line_with_its_key(folder: Folder, key: str, value: str) -> None:
    assert f" {key} " in _key(folder, f"[tool.retrofit]\n{key} = {value}\n").partition("RF006")[2]


@pytest.mark.parametrize(
    ("key", "value"), [("launcher", "mpirun"), ("mode", "up"), ("nproc-per-node", 0), ("save-name", "a b")]
)
def test_an_impossible_value_of_a_key_is_one_line_that_names_the_file(
    folder: Folder, key: str, value: str | int
) -> None:
    line = _key(folder, f"[tool.retrofit]\n{key} = {value!r}\n")
    assert repr(value) in line
    assert key in line


@pytest.mark.parametrize(("key", "value"), [("metric", "'acc +'"), ("output-dimensions", "['fc']")])
def test_the_file_is_named_also_for_a_wrong_expression_or_dimension(folder: Folder, key: str, value: str) -> None:
    _key(folder, f"[tool.retrofit]\n{key} = {value}\n")


@pytest.mark.parametrize(
    "content", ["[tool.retrofit\n", "[tool.retrofit]\nmode = \n", "x = 1\nx = 2\n", "[tool.retrofit]\nmode = 'max\n"]
)
def test_broken_toml_is_one_line_that_says_where(folder: Folder, content: str) -> None:
    assert re.search(r"line \d|end of document", _key(folder, content))


def test_toml_in_another_encoding_is_one_line(folder: Folder) -> None:
    folder.write("pyproject.toml", "# é\n".encode("latin-1"))
    assert "pyproject.toml: RF006 " in refused(folder)


@pytest.mark.parametrize("content", ["[tool]\nretrofit = 3\n", "[[tool.retrofit]]\nmode = 'max'\n"])
def test_something_else_than_a_table_is_one_line(folder: Folder, content: str) -> None:
    assert "tool" in _key(folder, content)


def test_pyproject_is_named_as_seen_from_here(folder: Folder) -> None:
    assert _key(folder, "[tool.retrofit]\nbanana = 1\n").startswith("pyproject.toml: ")


def test_a_wrong_pyproject_says_so_whatever_the_command_line(folder: Folder) -> None:
    folder.write("pyproject.toml", "[tool.retrofit]\nbanana = 1\n")
    assert "banana" in refused(folder, "--mode", "max")
