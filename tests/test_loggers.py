"""W&B, MLflow and TensorBoard: each has one run of all rounds, in which steps go on, and none of the initialisation."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import swapped
from tests.projects import shown
from tests.test_rounds import DDP, PRINTED, rounds, train

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore")]  # of the loggers, in this process

SIZE = "sum(parameter.numel() for parameter in model.parameters())"


def train_logging(folder: Path, imported: str, begin: str, log: str) -> None:
    """Train a script that logs on rank 0, for two rounds of six epochs."""
    text = swapped(
        DDP,
        ("import torch\n", f"{imported}\nimport torch\n"),
        ("    best_acc = 0.0\n", f"    if dist.get_rank() == 0:\n        {begin}\n    best_acc = 0.0\n"),
        (PRINTED, f"{PRINTED}            {log}\n"),
    )
    result = train(folder, text)
    assert [len(one) for one in rounds(result)] == [6, 6], shown(result)


@pytest.mark.parametrize("package", ["torch.utils.tensorboard", "tensorboardX"])
@pytest.mark.parametrize("where", ["", "'runs/mine'"], ids=["by-the-time", "named"])
def test_tensorboard_goes_on_in_the_folder_of_the_first_round(package: str, where: str, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard" if "torch" in package else package)
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    log = "writer.add_scalar('acc', acc, epoch)"
    train_logging(tmp_path, f"from {package} import SummaryWriter", f"writer = SummaryWriter({where})", log)
    (run,) = (tmp_path / "runs").iterdir()
    events = [event for file in sorted(run.iterdir()) for event in loader.EventFileLoader(str(file)).Load()]
    assert [event.step for event in events if event.summary.value] == list(range(12))


@pytest.mark.parametrize("package", ["torch.utils.tensorboard", "tensorboardX"])
def test_a_round_puts_its_own_files_in_the_folder_that_the_writer_names(package: str, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard" if "torch" in package else package)
    begin = "writer = SummaryWriter(); os.makedirs(os.path.join(writer.file_writer.get_logdir(), 'saved'))"
    imported = f"import os\nfrom {package} import SummaryWriter"
    train_logging(tmp_path, imported, begin, "writer.add_scalar('acc', acc, epoch)")
    runs = sorted((tmp_path / "runs").iterdir())
    assert [[*run.glob("events*")] != [] for run in runs] == [True, False]
    assert all((run / "saved").is_dir() for run in runs)


def wandb_records(file: Path) -> Iterator[Any]:
    """Yield the records of an offline run, which are LevelDB's log behind seven bytes."""
    protocol = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    data, at, whole = file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            record = protocol.Record()
            record.ParseFromString(whole)
            yield record
            whole = b""


@pytest.mark.parametrize(
    ("begin", "log"),
    [
        ("wandb.init(project='p', mode='offline')", "wandb.log({'acc': acc})"),
        ("wandb.init(project='p', mode='offline')", "wandb.log({'acc': acc}, step=epoch)"),
        ("run = wandb.init(project='p', mode='offline')", "run.log({'first': 1}, commit=False); run.log({'acc': acc})"),
    ],
    ids=["its-own-steps", "the-script-s-steps", "in-parts"],
)
def test_a_run_of_wandb_goes_on(begin: str, log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    train_logging(tmp_path, "import wandb", begin, log)
    files = sorted((tmp_path / "wandb").glob("*run-*/*.wandb"))
    records = [record for file in files for record in wandb_records(file)]
    assert len(files) == 2
    (name,) = {record.run.run_id for record in records if record.WhichOneof("record_type") == "run"}
    assert name == json.loads((tmp_path / "PAI_train" / "loggers.json").read_text())["wandb"]
    steps = [record.history.step.num for record in records if record.WhichOneof("record_type") == "history"]
    assert steps == list(range(12))


def test_settings_of_wandb_may_change_from_round_to_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that goes on has the first round's, which a script gives it again: `wandb.config.update(args)`."""
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    begin = "config = wandb.init(project='p', mode='offline').config; config.update({'pai_load_folder': None})"
    train_logging(tmp_path, "import wandb", begin, "config.update({'pai_load_folder': args.pai_load_folder})")


def test_wandb_may_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "disabled")
    train_logging(tmp_path, "import wandb", "wandb.init(project='p')", "wandb.log({'acc': acc})")
    assert not list(tmp_path.glob("wandb/*run-*"))


@pytest.mark.parametrize("started", ["mlflow.start_run()", "mlflow.set_experiment('e'); mlflow.start_run()"])
def test_a_run_of_mlflow_goes_on(started: str, tmp_path: Path) -> None:
    """A parameter that a later round would change, such as the model's size, keeps its value, and training goes on."""
    pytest.importorskip("mlflow")
    begin = f"mlflow.set_tracking_uri('sqlite:///mlflow.db'); {started}; mlflow.log_params({{'size': {SIZE}}}); "
    begin += f"mlflow.log_param('again', {SIZE})"
    log = "mlflow.log_metric('acc', acc, step=epoch); mlflow.log_metrics({'loss': -acc}, step=epoch)"
    train_logging(tmp_path, "import mlflow", begin, log)
    with sqlite3.connect(tmp_path / "mlflow.db") as store:

        def asked(query: str) -> list[Any]:
            return store.execute(query).fetchall()

        ((run, status),) = asked("SELECT run_uuid, status FROM runs WHERE lifecycle_stage = 'active'")
        assert status == "FINISHED"
        for name in ("acc", "loss"):
            steps = asked(f"SELECT step FROM metrics WHERE key = '{name}' AND run_uuid = '{run}' ORDER BY step")
            assert steps == [(step,) for step in range(12)]
        assert sorted(asked(f"SELECT key, value FROM params WHERE run_uuid = '{run}'")) == [
            ("again", "74"),
            ("size", "74"),
        ]
