"""`retrofit demo`, from the new folder to what came of the training."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from retrofit.demo import command
from retrofit.demo.command import projects
from retrofit.demo.training import Stage, train
from retrofit.interpreter import Interpreter
from tests.conftest import Folder
from tests.forked import training_python
from tests.projects import FIXTURES, run, shown


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python that trains lacks torch and perforatedai."""
    monkeypatch.setattr(command, "look_at", lambda python: Interpreter(python, "3.11", "", "", 0))


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(("options", "kind"), [((), "ddp"), (("--dp",), "dp")])
def test_without_torch_it_shows_all_but_the_training(folder: Folder, options: tuple[str, ...], kind: str) -> None:
    answer = folder.run("demo", "a new one", *options)
    assert answer.code == 0, answer.err
    before = (FIXTURES / f"{kind}_demo" / "before" / "train.py").read_text()
    assert folder.text("a new one/train.py") != before
    assert {"a new one/train.py", "a new one/spirals.py", "a new one/train_distributed.sh"} <= folder.names()
    assert "PAI009 Wrap the model" in answer.out
    assert "+        model = " in answer.out
    assert "torch and perforatedai must be installed for /" in answer.out
    assert "pip install --no-deps perforatedai==" in answer.out.splitlines()[-1]
    assert folder.run("undo", "a new one/train.py").code == 0
    assert folder.text("a new one/train.py") == before


@pytest.mark.usefixtures("bare")
def test_nothing_that_is_there_is_touched(folder: Folder) -> None:
    folder.write("retrofit-demo/notes.txt", "mine")
    folder.write("file", "")
    before = folder.state()
    there, below = folder.run("demo"), folder.run("demo", "file/demo")
    assert (there.code, below.code) == (2, 2)
    assert there.lines == ["retrofit-demo: RF021 is there already. Name a new folder: retrofit demo FOLDER."]
    assert below.lines[0].startswith("file/demo: RF021 cannot be made: ")
    assert folder.state() == before


@pytest.mark.usefixtures("bare")
def test_a_folder_that_cannot_be_filled_is_taken_away(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **keywords: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copytree", fail)
    answer = folder.run("demo")
    assert answer.code == 2
    assert "RF021 cannot be written: [Errno 28] No space left on device. Nothing was left." in answer.err
    assert folder.state() == {}


LAUNCHER = """
echo 'train_distributed: Initialising: one batch with one process.'
echo 'noise'
echo 'train_distributed: Round 1: training starts from the beginning.'
echo 'epoch 1: loss 0.6, accuracy 0.5000'
echo 'epoch 2: loss 0.5, accuracy 0.7500'
echo 'train_distributed: Round 2: training continues from PAI_train/switch_2.pt.'
echo 'epoch 1: loss 0.4, accuracy 0.9000' >&2
exit STATUS
"""


def test_how_far_a_training_is(tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []
    ended: list[Stage] = []
    ticks = iter(range(100))
    log = tmp_path / "train.log"
    trained = train(
        ["bash", "-c", LAUNCHER.replace("STATUS", "3")],
        tmp_path,
        {"PATH": "/bin:/usr/bin"},
        log,
        lambda *step: told.append(step),
        ended.append,
        lambda: float(next(ticks)),
    )
    assert trained.status == 3
    assert trained.tail[-1] == "epoch 1: loss 0.4, accuracy 0.9000"
    assert log.read_text().splitlines() == trained.tail
    assert told[1] == ("initialisation", "")
    assert told[-1] == ("round 2", "1 epoch, best accuracy 0.9000")
    assert [str(stage) for stage in ended] == [
        "initialisation    1.0 s",
        "round 1           1.0 s  2 epochs, best accuracy 0.7500",
        "round 2           1.0 s  1 epoch, best accuracy 0.9000",
    ]


def test_a_failed_training_shows_its_end(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "look_at", lambda python: Interpreter("/nowhere/python", "3.11", "2", "3", 0))
    answer = folder.run("demo")
    assert answer.code == 1
    assert "/nowhere/python" in answer.err
    assert re.search(r"The training failed with status \d+\.$", answer.err)
    assert "train_distributed: " in folder.text("retrofit-demo/train.log")


@pytest.mark.real
@pytest.mark.parametrize("options", [(), ("--dp",)], ids=["ddp", "dp"])
def test_it_trains_to_the_end_and_the_model_loads(tmp_path: Path, options: tuple[str, ...]) -> None:
    python = training_python()  # README's own command has a plain one train
    environment = {"PYTHONPATH": str(FIXTURES.parent), "UNDRAWN_GRAPHS": "1"}
    result = run([python, "-m", "retrofit", "demo", "a demo", *options], tmp_path, **environment)
    assert result.returncode == 0, shown(result)
    rows = re.findall(r"^ *(\d+) +(\d+) +\d+ +\d+ s +(0\.\d+)$", result.stdout, re.MULTILINE)
    (none, before, without), *dendrites = rows
    assert none == "0"
    assert dendrites, "no dendrite was added"
    assert float(dendrites[-1][2]) > float(without)
    assert int(dendrites[-1][1]) > int(before)

    code = result.stdout.partition(f"To load it for inference, in {tmp_path}/a demo:")[2].partition("It took")[0]
    lines = [line.removeprefix("    ") for line in code.splitlines()]
    check = "from spirals import make_spirals\npoints, labels = make_spirals(2048, seed=2).tensors\n"
    check += "print('accuracy', (model.eval()(points).argmax(1) == labels).float().mean().item())\n"
    (tmp_path / "a demo" / "predict.py").write_text("\n".join([*lines, check]))
    loaded = run([python, "predict.py"], tmp_path / "a demo")
    assert loaded.returncode == 0, shown(loaded)
    accuracy = float(re.findall(r"^accuracy (.*)$", loaded.stdout, re.MULTILINE)[0])
    assert abs(accuracy - float(dendrites[-1][2])) < 1e-4


def test_the_projects_are_those_of_the_fixtures() -> None:
    assert {path.name for path in projects().glob("*_demo")} == {"ddp_demo", "dp_demo"}
