"""Wrong input: one line on stderr a problem, `file:line:col: CODE message`, exit code 2, and no file touched.

In the scripts below `«` stands before what a message must point at.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass

import pytest

from tests.conftest import SCRIPT, Folder, swapped

PLACE = re.compile(r"(?P<file>[^:]+):(?P<line>\d+):(?P<column>\d+): (?P<code>PAI\d{3}|RF\d{3}) (?P<message>.+)")

GAN = """\
import torch
import torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group('nccl')
    netG = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 64))
    netD = nn.Sequential(nn.Linear(64, 32), nn.LeakyReLU(), nn.Linear(32, 1))
    netG = DDP(netG)
    netD = «DDP(netD)
    criterion = nn.BCEWithLogitsLoss()
    optimizerD = optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizerG = optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
    for epoch in range(25):
        for real in [torch.randn(8, 64)] * 10:
            optimizerD.zero_grad()
            output = netD(real)
            errD = criterion(output, torch.ones_like(output))
            errD.backward()
            optimizerD.step()
            optimizerG.zero_grad()
            output = netD(netG(torch.randn(8, 16)))
            errG = criterion(output, torch.ones_like(output))
            errG.backward()
            optimizerG.step()


main()
"""

LIGHTNING = """\
import torch
«import lightning as L
from torch import nn


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 2)

    def training_step(self, batch, _):
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


trainer = L.Trainer(accelerator='gpu', devices=4, strategy='ddp', max_epochs=3)
trainer.fit(Classifier(), torch.utils.data.DataLoader([]))
"""

ACCELERATE = """\
import torch
from torch import nn
«from accelerate import Accelerator

accelerator = Accelerator()
model = nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters())
loader = torch.utils.data.DataLoader([])
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        accelerator.backward(nn.functional.cross_entropy(model(x), y))
        optimizer.step()
"""

TRAINER = """\
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments


def main():
    data = load_dataset('imdb')
    model = AutoModelForSequenceClassification.from_pretrained('bert-base-cased')
    trainer = «Trainer(model=model, args=TrainingArguments('out'), train_dataset=data['train'])
    trainer.train()


main()
"""

OWN_TRAINER = """\
import transformers
from torch import nn


«class WeightedTrainer(transformers.Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        return nn.functional.cross_entropy(model(**inputs).logits, inputs['labels'])


WeightedTrainer(model=None).train()
"""

DEEPSPEED = """\
import argparse

import torch
«import deepspeed

parser = argparse.ArgumentParser()
parser = deepspeed.add_config_arguments(parser)
args = parser.parse_args()
model = torch.nn.Linear(4, 2)
engine, _, loader, _ = deepspeed.initialize(args=args, model=model, model_parameters=model.parameters())
for epoch in range(3):
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(engine(x), y)
        engine.backward(loss)
        engine.step()
"""

FSDP = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

dist.init_process_group('nccl')
model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2)).cuda()
model = «FSDP(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in []:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""

FULLY_SHARD = swapped(
    FSDP,
    ("FullyShardedDataParallel as FSDP", "fully_shard"),
    ("model = «FSDP(model)", "«fully_shard(model)"),
)

HOROVOD = """\
import torch
«import horovod.torch as hvd

hvd.init()
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size())
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
for epoch in range(3):
    for x, y in []:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""

PARTED_GRAPH = swapped(
    SCRIPT,
    ("import torch\n", "import dgl\nimport torch\n"),
    (
        "    model = DistributedDataParallel(model)\n",
        "    «dgl.distributed.initialize('ip.txt')\n    model = DistributedDataParallel(model)\n",
    ),
)

WRAP = "    model = DistributedDataParallel(model)\n"
TRACK = "        if acc > best_acc:\n            best_acc = acc\n"
VALIDATE = "        acc = validate(model, loader)\n"
LOOP = "    for epoch in range(args.epochs):\n"
OPTIMIZER = "    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)\n"

NO_WRAPPER = "«" + swapped(SCRIPT, (WRAP, ""))
NOT_CALLED = swapped(
    SCRIPT,
    (WRAP, ""),
    (LOOP, f"    fit(DistributedDataParallel(model), args)\n{LOOP}"),
    ("criterion(model(x), y)", "criterion(«model(x), y)"),
)
INSIDE_LOOP = swapped(
    SCRIPT, (WRAP, ""), ("criterion(model(x), y)", "criterion(«DistributedDataParallel(model)(x), y)")
)
STEP = "            optimizer.step()\n"
BOTH_STEP = (STEP, STEP + STEP.replace("optimizer", "other"))
TWO_OPTIMIZERS = swapped(
    SCRIPT, (OPTIMIZER, OPTIMIZER + "    other = «torch.optim.Adam(model.parameters())\n"), BOTH_STEP
)
NO_OPTIMIZER = swapped(
    SCRIPT,
    (OPTIMIZER, ""),
    ("            optimizer.zero_grad()\n", ""),
    ("            optimizer.step()\n", ""),
)
NO_BACKWARD = swapped(SCRIPT, ("            loss.backward()\n", ""))
NO_EPOCHS = swapped(SCRIPT, (LOOP, "    while best_acc < 0.9:\n"), ("loss.backward()", "«loss.backward()"))
TWO_LOOPS = swapped(
    SCRIPT,
    (
        LOOP,
        "    for epoch in range(2):\n        for x, y in loader:\n            model(x).sum().backward()\n"
        "        acc = validate(model, epoch)\n    «" + LOOP.lstrip(),
    ),
)
FOLDS = """\
from torch import nn, optim
for fold in range(5):
    model = nn.DataParallel(nn.Linear(4, 2))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    best = 0
    «for epoch in range(9):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        acc = validate(model)
        best = max(best, acc)
"""
NO_SCORE = swapped(SCRIPT, (VALIDATE + TRACK, ""), (LOOP, "    «" + LOOP.lstrip()))
TWO_SCORES = swapped(SCRIPT, (VALIDATE + TRACK, "        «val_loss, val_acc = validate(model, loader)\n"))
NO_DIRECTION = swapped(SCRIPT, (VALIDATE + TRACK, "        «quality = validate(model, loader)\n"))
KEPT_SCORE = swapped(
    SCRIPT,
    (VALIDATE + TRACK, "        validate(model, loader)\n"),
    (
        "    return hits / total\n",
        "    acc = hits / total\n    print(acc)\n",
    ),
    (LOOP, "    «" + LOOP.lstrip()),
)
SAVE_NAME = swapped(
    SCRIPT,
    (
        WRAP,
        "    model = «UPA.perforate_model(model, save_name=args.name, maximizing_score=True)\n" + WRAP,
    ),
    ("from torch import nn\n", "from perforatedai import utils_perforatedai as UPA\nfrom torch import nn\n"),
    ("    args = parser", "    parser.add_argument('--name', default='run')\n    args = parser"),
)
IMPORTED_MODEL = swapped(
    SCRIPT,
    ("    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))\n", ""),
    ("from torch import nn\n", "from nets import model\nfrom torch import nn\n"),
    ("= DistributedDataParallel(model)", "= «DistributedDataParallel(model)"),
)


@dataclass(frozen=True)
class Case:
    """A script that is refused.

    Attributes:
        script: its text, with `«` before what the message must point at.
        code: the message's code.
        words: what the message must mention.
    """

    script: str
    code: str
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        """The script without the mark."""
        assert self.script.count("«") <= 1
        return self.script.replace("«", "")

    @property
    def place(self) -> tuple[int, int]:
        """1-based line and column of the mark."""
        before = self.script[: self.script.index("«")]
        return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


CASES = {
    "empty": Case("«", "PAI101", ("DistributedDataParallel", "DataParallel")),
    "blank": Case("«\n\n", "PAI101", ("DistributedDataParallel", "DataParallel")),
    "no wrapper": Case(NO_WRAPPER, "PAI101", ("DistributedDataParallel", "DataParallel")),
    "GAN": Case(GAN, "PAI102", ("`netD`", "`netG`", "line 11", "--model NAME")),
    "not called": Case(NOT_CALLED, "PAI101", ("the bare model", "line 31", "called nowhere around the backward pass")),
    "wrapped in the loop": Case(INSIDE_LOOP, "PAI102", ("`model = DistributedDataParallel(...)`",)),
    "imported model": Case(IMPORTED_MODEL, "PAI102", ("`model`", "not found")),
    "two optimizers": Case(TWO_OPTIMIZERS, "PAI103", ("`optimizer` (line 29)", "`other` (line 30)")),
    "no optimizer": Case(NO_OPTIMIZER, "PAI103", ("no optimizer",)),
    "no backward": Case(NO_BACKWARD, "PAI104", ("`.backward()`",)),
    "no epoch loop": Case(NO_EPOCHS, "PAI104", ("line 36", "`for epoch in range(...)`")),
    "a model a fold": Case(FOLDS, "PAI104", ("line 2", "one fold")),
    "two epoch loops": Case(TWO_LOOPS, "PAI104", ("32", "36")),
    "no score": Case(NO_SCORE, "PAI105", ("--metric", "--mode")),
    "kept score": Case(KEPT_SCORE, "PAI105", ("knows `acc`", "line 17", "--metric EXPR", "--mode")),
    "two scores": Case(TWO_SCORES, "PAI105", ("`val_loss` (line 38)", "`val_acc` (line 38)", "--metric EXPR")),
    "no direction": Case(NO_DIRECTION, "PAI105", ("`quality`", "line 38", "--mode max", "--mode min")),
    "save_name": Case(SAVE_NAME, "PAI106", ("`args.name`", "--save-name NAME")),
    "Lightning": Case(LIGHTNING, "PAI100", ("Lightning", "plain PyTorch loop")),
    "pytorch_lightning": Case(
        swapped(LIGHTNING, ("import lightning as L", "import pytorch_lightning as L")), "PAI100", ("Lightning",)
    ),
    "Accelerate": Case(ACCELERATE, "PAI100", ("Accelerate", "DistributedDataParallel")),
    "Trainer": Case(TRAINER, "PAI100", ("Hugging Face Trainer", "plain PyTorch loop")),
    "own Trainer": Case(OWN_TRAINER, "PAI100", ("Hugging Face Trainer",)),
    "DeepSpeed": Case(DEEPSPEED, "PAI100", ("DeepSpeed", "DistributedDataParallel")),
    "FSDP": Case(FSDP, "PAI100", ("FSDP", "DistributedDataParallel")),
    "fully_shard": Case(FULLY_SHARD, "PAI100", ("FSDP", "DistributedDataParallel")),
    "Horovod": Case(HOROVOD, "PAI100", ("Horovod", "DistributedDataParallel")),
    "DGL's servers": Case(PARTED_GRAPH, "PAI100", ("dgl.distributed", "launch.py", "DistributedDataParallel")),
}


def refused(folder: Folder, content: str | bytes, *options: str) -> list[str]:
    """Apply to a script that must be refused; return the lines that do, after a look that nothing was touched."""
    folder.write("deep/train.py", content)
    before = folder.state()
    answer = folder.run("apply", "deep/train.py", *options)
    assert (answer.code, answer.out) == (2, "")
    assert folder.state() == before
    return answer.lines


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_one_line_says_what_was_seen_and_what_answers_it(folder: Folder, case: Case) -> None:
    [line] = refused(folder, case.text)
    found = PLACE.fullmatch(line)
    assert found is not None, line
    assert (found["file"], found["code"]) == ("deep/train.py", case.code)
    for word in case.words:
        assert word in found["message"]
    assert found["message"].endswith(".")


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=name) for name, case in CASES.items() if name not in ("no optimizer", "no backward")],
)
def test_the_position_is_that_of_what_was_seen(folder: Folder, case: Case) -> None:
    [line] = refused(folder, case.text)
    found = PLACE.fullmatch(line)
    assert found is not None, line
    assert (int(found["line"]), int(found["column"])) == case.place


@pytest.mark.parametrize("name", sorted(CASES))
def test_inspect_shows_the_same_question_and_exits_with_0(folder: Folder, name: str) -> None:
    folder.write("deep/train.py", CASES[name].text)
    answer = folder.run("inspect", "deep/train.py")
    assert (answer.code, answer.err) == (0, "")
    [line] = refused(folder, CASES[name].text)
    assert f"  {line}\n" in answer.out


@pytest.mark.parametrize("mode", ["--check", "--dry-run", "--inline", "--force"])
def test_no_mode_of_apply_gets_past_a_question(folder: Folder, mode: str) -> None:
    assert refused(folder, CASES["no direction"].text, mode) == refused(folder, CASES["no direction"].text)


# ---- the option that a message names answers it


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("no score", ["--metric", "loss"]),
        ("two scores", ["--metric", "val_acc"]),
        ("no direction", ["--mode", "max"]),
        ("no direction", ["--mode", "min"]),
    ],
    ids=str,
)
def test_the_option_that_the_message_names_answers_it_for_good(folder: Folder, name: str, options: list[str]) -> None:
    [line] = refused(folder, CASES[name].text)
    assert options[0] in line
    assert folder.run("apply", "deep/train.py", *options).code == 0
    compile(folder.text("deep/train.py"), "train.py", "exec")
    assert folder.run("apply", "deep/train.py").out == "deep/train.py: nothing to do\n"


def test_a_save_name_answers_the_question_for_the_launcher(folder: Folder) -> None:
    [line] = refused(folder, CASES["save_name"].text)
    assert "--save-name" in line
    assert folder.run("apply", "deep/train.py", "--save-name", "run").code == 0
    assert "SAVE_NAME=run\n" in folder.text("deep/train_distributed.sh")
    assert "nothing to do" in folder.run("apply", "deep/train.py", "--save-name", "run").out


def test_a_save_name_is_not_asked_for_again(folder: Folder) -> None:
    folder.write("train.py", CASES["save_name"].text)
    assert folder.run("apply", "train.py", "--save-name", "run").code == 0
    assert folder.run("apply", "train.py").out == "train.py: nothing to do\n"


@pytest.mark.parametrize("model", ["netG", "netD"])
def test_the_model_of_a_gan_brings_the_next_question(folder: Folder, model: str) -> None:
    [line] = refused(folder, CASES["GAN"].text, "--model", model)
    assert " PAI105 no validation score" in line


@pytest.mark.parametrize(("model", "metric"), [("netG", "errG"), ("netD", "errD")])
def test_a_gan_with_all_its_questions_answered_is_rewritten(folder: Folder, model: str, metric: str) -> None:
    folder.write("train.py", CASES["GAN"].text)
    options = ["--model", model, "--metric", metric, "--mode", "min"]
    assert folder.run("apply", "train.py", *options).code == 0
    text = folder.text("train.py")
    assert f"{model} = UPA.perforate_model(" in text.replace("(\n", "(")
    other = "netD" if model == "netG" else "netG"
    assert f"{other} = DDP({other})" in text
    assert "nothing to do" in folder.run("apply", "train.py", *options).out


def test_an_option_that_does_not_help_is_not_named(folder: Folder) -> None:
    [line] = refused(folder, CASES["two optimizers"].text)
    assert "--model" not in line or not refused(folder, CASES["two optimizers"].text, "--model", "model")


def test_several_problems_are_all_named_in_the_order_of_their_lines(folder: Folder) -> None:
    script = swapped(
        NO_DIRECTION.replace("«", ""),
        (OPTIMIZER, OPTIMIZER + "    other = torch.optim.Adam(model.parameters())\n"),
        BOTH_STEP,
    )
    lines = refused(folder, script)
    places = [PLACE.fullmatch(line) for line in lines]
    assert [found["code"] for found in places if found] == ["PAI103", "PAI105"]
    order = [(int(found["line"]), int(found["column"])) for found in places if found]
    assert order == sorted(order)


# ---- another library beside a plain loop


def test_another_library_beside_a_wrapped_model_is_a_question(folder: Folder) -> None:
    accelerate = "import torch\nfrom accelerate import Accelerator\naccelerator = Accelerator()\n"
    script = swapped(SCRIPT, ("import torch\n", accelerate))
    [line] = refused(folder, script)
    assert line.startswith("deep/train.py:5:1: PAI100 Hugging Face Accelerate ")


def test_nvidia_apex_beside_a_wrapped_model_is_a_question(folder: Folder) -> None:
    script = swapped(
        SCRIPT,
        ("import torch\n", "import torch\nfrom apex import amp\n"),
        ("    criterion = ", "    amp.initialize(model)\n    criterion = "),
    )
    [line] = refused(folder, script)
    place = 1 + script[: script.index("amp.initialize")].count("\n")
    assert line.startswith(f"deep/train.py:{place}:5: PAI100 NVIDIA Apex amp ")


# ---- what is no script at all


@pytest.mark.parametrize("command", ["apply", "inspect"])
@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("nowhere.py", "RF001", ("no such file",)),
        ("no/such/folder/train.py", "RF001", ("no such file",)),
        ("folder", "RF002", ("is a directory",)),
        (".", "RF002", ("is a directory",)),
        ("file.py/train.py", "RF001", ("Not a directory",)),
        ("dangling.py", "RF001", ("no such file",)),
        pytest.param(
            "loop.py",
            "RF001",
            ("symbolic links",),
        ),
    ],
)
def test_a_path_without_a_file_is_one_line(
    folder: Folder, command: str, name: str, code: str, words: tuple[str, ...]
) -> None:
    folder.write("file.py", SCRIPT)
    folder.write("folder/train.py", SCRIPT)
    (folder.path / "dangling.py").symlink_to("nowhere.py")
    (folder.path / "loop.py").symlink_to("loop.py")
    before = folder.state()
    answer = folder.run(command, name)
    assert (answer.code, answer.out) == (2, "")
    [line] = answer.lines
    assert line.startswith(f"{name}: {code} ")
    for word in words:
        assert word in line
    assert folder.state() == before


@pytest.mark.parametrize(
    "content",
    [
        b"\x00\x01\x02",
        b"\x7fELF\x02\x01\x00",
        b"\x89PNG\r\n\x1a\n\x00",
        b"\xff\xfe\x80",
        b"x = '\xe9'\n",
        SCRIPT.encode("utf-16"),
    ],
    ids=["NUL", "ELF", "PNG", "no UTF-8", "latin-1", "UTF-16"],
)
def test_what_is_no_text_is_one_line(folder: Folder, content: bytes) -> None:
    [line] = refused(folder, content)
    assert re.match(r"deep/train\.py(:1:1)?: RF003 ", line)


def test_an_unknown_encoding_is_one_line_that_names_it(folder: Folder) -> None:
    [line] = refused(folder, b"# -*- coding: banana -*-\nx = 1\n")
    assert line.startswith("deep/train.py:1:1: RF003 ")
    assert "banana" in line


NOT_PYTHON = {
    "text": "Dear all,\nthis is a letter.\n",
    "shell": "#!/bin/sh\necho hello\nexit 0\n",
    "JSON lines": "{\n  'a': tru e\n}\n",
    "no name": "x = 1\ndef (:\n    pass\n",
    "unclosed": "x = 1\ny = (1,\n",
    "indentation": "if x:\ny = 1\n",
    "string": "x = 1\ny = 'abc\n",
    "tabs": "if 1:\n        x = 1\n\ty = 1\n",
}
PYTHON_2 = {
    "print": 'import os\nprint "hello"\n',
    "print %": 'if x:\n    print "hello %s" % x\n',
    "exec": "import os\nexec 'x = 1'\n",
    "raise": "raise ValueError, 'x'\n",
    "octal": "x = 0777\n",
    "backticks": "x = `y`\n",
    "<>": "x = 1 <> 2\n",
    "except": "try:\n    pass\nexcept ValueError, error:\n    raise\n",
}


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in NOT_PYTHON.items()])
def test_what_is_no_python_is_one_line_with_a_position(folder: Folder, text: str) -> None:
    [line] = refused(folder, text)
    found = PLACE.fullmatch(line)
    assert found is not None
    assert found["code"] == "RF004"
    assert 1 <= int(found["line"]) <= text.count("\n") + 1


@pytest.mark.parametrize(
    ("text", "place"),
    [
        pytest.param("x = 1\ndef (:\n    pass\n", (2, 5), id="no name"),
        pytest.param("x = 1\ny = 'abc\n", (2, 5), id="string"),
        pytest.param("x = 1\ny = 0777\n", (2, 5), id="octal"),
        pytest.param("x = 1\ny = 1 1\n", (2, 7), id="two values"),
        pytest.param("if x:\ny = 1\n", (2, 1), id="indentation"),
        pytest.param("import os\nprint 'x'\n", (2, 1), id="print"),
    ],
)
def test_the_position_of_wrong_syntax_is_where_python_stumbles(
    folder: Folder, text: str, place: tuple[int, int]
) -> None:
    [line] = refused(folder, text)
    found = PLACE.fullmatch(line)
    assert found is not None
    assert (int(found["line"]), int(found["column"])) == place


BEFORE_3_14 = pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python 3.14 takes `except A, b:`")


@pytest.mark.parametrize(
    "text",
    [pytest.param(t, id=name, marks=BEFORE_3_14 if name == "except" else ()) for name, t in PYTHON_2.items()],
)
def test_python_2_is_refused_as_syntax(folder: Folder, text: str) -> None:
    [line] = refused(folder, text)
    assert " RF004 " in line


@pytest.mark.parametrize("name", ["print", "print %", "exec"])
def test_python_2_is_recognised_by_name(folder: Folder, name: str) -> None:
    [line] = refused(folder, PYTHON_2[name])
    assert "Python 2" in line.replace("Python 3", "")


@BEFORE_3_14
def test_a_script_that_python_cannot_compile_is_not_rewritten(folder: Folder) -> None:
    refused(
        folder,
        swapped(
            SCRIPT,
            (
                "    best_acc = 0.0\n",
                "    try:\n        best_acc = 0.0\n    except ValueError, error:\n        raise\n",
            ),
        ),
    )


@pytest.mark.parametrize("wrong", ["return 1\n", "break\n", "nonlocal x\n", "x = yield\n"])
def test_a_script_with_a_statement_in_a_wrong_place_is_not_rewritten(folder: Folder, wrong: str) -> None:
    [line] = refused(folder, SCRIPT + wrong)
    assert line.startswith(f"deep/train.py:{1 + SCRIPT.count(chr(10))}:")
    assert " RF004 " in line


def test_very_deep_nesting_is_one_line(folder: Folder) -> None:
    folder.write("train.py", "x = " + "(" * 20_000 + ")" * 20_000 + "\n")
    command = [sys.executable, "-m", "retrofit", "apply", "train.py"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)
