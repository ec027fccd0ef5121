"""A rehearsal finds what a training would have died of hours later, passes what is sound, and changes nothing.

Broken scripts are one small script, rewritten and then spoiled, each in a way in which real scripts were found broken
after their rewriting. RETROFIT_TEST_WHOLE=1 tries all of them, and every fixture.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

import pytest

from tests.conftest import swapped
from tests.forked import training_python
from tests.projects import Project, apply, files_below, load_projects, run, shown
from tests.test_mirror import KEPT, helper
from tests.test_rounds import DDP, TWO_GPUS, in_processes

pytestmark = pytest.mark.real

WHOLE = bool(os.environ.get("RETROFIT_TEST_WHOLE"))


def rehearse(script: Path, *arguments: str, python: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Start a script's launcher from the folder of its project for no more than a rehearsal, on two processes."""
    (launcher,) = script.parent.glob("train_distributed.sh")
    settings = {"REHEARSE": "only", "NUM_GPUS": "2", "PYTHON": python or training_python(), "UNDRAWN_GRAPHS": "1"}
    return run(["bash", str(launcher), *arguments], script.parent, **settings, **environment)


def project(folder: Path, text: str, *options: str, entry: str = "train.py") -> Path:
    """Write a script, rewrite it, and return it."""
    script = folder / entry
    script.write_text(text)
    apply(script, *options)
    return script


# ---- what is broken


@dataclass(frozen=True)
class Broken:
    """A mistake in a rewritten script.

    Attributes:
        name: what is wrong.
        changes: what is replaced by what. The line that must be named ends with `# here`.
        cause: a regular expression for what must be said of it.
        stage: where the rehearsal must end.
        options: of the apply.
        hangs: whether time has to run out.
        quick: whether it is tried without RETROFIT_TEST_WHOLE.
    """

    name: str
    changes: tuple[tuple[str, str], ...]
    cause: str
    stage: str = "round 1"
    options: tuple[str, ...] = ()
    hangs: bool = False
    quick: bool = False


IMPORT = "import os\n"
REPORT = "        if pai_distributed.report_validation_score(acc, model, leave=False):\n"
SCORE = "        acc = validate(model, epoch)\n"
LOOP = "    for epoch in pai_distributed.planned_epochs(range(args.epochs)):\n"
AFTER = '        print("after the loop")\n'


def before_loop(line: str) -> tuple[tuple[str, str], ...]:
    return ((LOOP, f"    {line}  # here\n{LOOP}"),)


BROKEN = (
    Broken(
        "a collective call of rank 0 alone",
        ((SCORE, f"{SCORE}        if dist.get_rank() == 0:\n            dist.barrier()  # here\n"),),
        "rank 0 hangs in (barrier|wait)",
        hangs=True,
        quick=True,
    ),
    Broken(
        "a rank that does not come",
        (
            (SCORE, f"{SCORE}        while dist.get_rank() == 1:\n            time.sleep(0.1)  # here\n"),
            (IMPORT, f"{IMPORT}import time\n"),
        ),
        "rank 1 hangs in main",
        hangs=True,
    ),
    Broken(
        "a rank that does not come to a step, in evaluation mode",
        (
            (
                "            loss.backward()\n",
                "            model.eval()\n            while dist.get_rank() == 1:\n                time.sleep(0.1)\n"
                "            loss.backward()  # here\n",
            ),
            (IMPORT, f"{IMPORT}import time\n"),
        ),
        r"rank 0 hangs in _engine_run_backward, in a backward pass in evaluation mode \(.*\)",
        hangs=True,
    ),
    Broken(
        "a score that other ranks do not have",
        (
            (SCORE, '        stats = {"acc": validate(model, epoch)} if dist.get_rank() == 0 else {}\n'),
            (REPORT, f'        acc = stats["acc"]  # here\n{REPORT}'),
            ("        if acc > best_acc:\n", '        if (acc := stats.get("acc", 0)) > best_acc:\n'),
        ),
        "KeyError: 'acc'",
        quick=True,
    ),
    Broken(
        "a score that is gone at the hand-over",
        ((REPORT, "        del acc\n" + REPORT.replace("\n", "  # here\n")),),
        "UnboundLocalError: .*'acc'.*",
    ),
    Broken(
        "a learning rate by a formula that has no value after a while",
        (
            (SCORE, f'{SCORE}        optimizer.param_groups[0]["lr"] = 0.1 * math.sqrt(0.5 - epoch)  # here\n'),
            (IMPORT, f"{IMPORT}import math\n"),
        ),
        "ValueError: .*",
    ),
    Broken(
        "a package that only one branch needs",
        before_loop("from apex import amp"),
        "ModuleNotFoundError: No module named 'apex'",
        stage="the initialisation",
    ),
    Broken(
        "an optimizer that the library does not know",
        (
            (LOOP, f"    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n{LOOP}"),
            ("            optimizer.step()\n", "            optimizer.step()  # here\n"),
        ),
        "the SGD that steps here trains the model, but the library knows of another optimizer.*",
    ),
    Broken(
        "another working folder",
        before_loop('os.makedirs("run"), os.chdir("run"), open("settings.txt")'),
        r"FileNotFoundError: .*settings\.txt'",
        stage="the initialisation",
    ),
    Broken(
        "an end of the script's own",
        ((SCORE, f"{SCORE}        sys.exit()  # here\n"), (IMPORT, f"{IMPORT}import sys\n")),
        "the script leaves with status None",
    ),
    Broken(
        "a layer whose output the library misunderstands",
        (
            ("            loss.backward()\n", "            loss.backward()  # here\n"),
            ("args.pai_load_folder)\n", 'args.pai_load_folder, {"first": [-1, 0, -1]})\n'),
        ),
        "the library leaves with status 0: are a layer's output dimensions wrong.*",
        quick=True,
    ),
    Broken(
        "a structure that must never change",
        before_loop("assert len(list(model.parameters())) == 6"),
        "AssertionError",
        stage="round 2",
        quick=True,
    ),
    Broken(
        "what comes after training",
        ((AFTER, f'{AFTER}        Net().load_state_dict(torch.load("best.pt"))["loaded"]  # here\n'),),
        "(TypeError|RuntimeError|size mismatch|Unexpected|Missing).*",
        stage="round 2",
    ),
)


@pytest.mark.parametrize("broken", [one for one in BROKEN if WHOLE or one.quick], ids=lambda broken: broken.name)
def test_what_is_broken_is_found_and_named(broken: Broken, tmp_path: Path) -> None:
    script = project(tmp_path, DDP, *broken.options)
    script.write_text(swapped(script.read_text(), *broken.changes))
    (line,) = [number for number, text in enumerate(script.read_text().splitlines(), 1) if text.endswith("# here")]
    before = files_below(tmp_path)
    limits = {"PAI_REHEARSAL_SECONDS": "20"} if broken.hangs else {}
    result = rehearse(script, **limits)
    assert result.returncode not in (0, 75), shown(result)
    assert f"The rehearsal failed in {broken.stage}, after" in result.stdout, shown(result)
    assert re.search(rf"^    train\.py:{line}: ({broken.cause})$", result.stdout, re.MULTILINE), shown(result)
    assert {name: text for name, text in files_below(tmp_path).items() if "_rehearsal." not in name} == before
    (folder,) = tmp_path.glob("PAI_train_rehearsal.*")
    assert f"All output is in {folder}/output.log" in result.stdout


# ---- what is sound

#: Projects that stand for the others.
QUICK = {"ddp_one_pass", "dp_argparse"}
SOUND = [one for one in load_projects() if one.launcher != "none" and (WHOLE or one.name in QUICK)]


@pytest.mark.parametrize("fixture", SOUND, ids=lambda fixture: fixture.name)
def test_what_is_sound_passes_and_stays_as_it_was(fixture: Project, tmp_path: Path) -> None:
    script = fixture.copy("after", tmp_path)
    before = files_below(tmp_path)
    result = rehearse(script, *fixture.arguments)
    assert result.returncode == 0, shown(result)
    assert "a restart and a load went well in" in result.stdout
    assert "Not rehearsed" not in result.stdout
    assert files_below(tmp_path) == before


#: Each epoch looks at the whole data before it trains, and then asks for every sample of it.
EXTRACTS = """\
        found = {}
        for number, (inputs,) in enumerate(DataLoader(TensorDataset(torch.arange(32.0)), 1)):
            found[number] = inputs
"""


def extracting(folder: Path, text: str, asked: str) -> tuple[Path, int]:
    """Return a script that asks for so many of its samples, and the line where it does."""
    script = project(folder, text)
    taken = f"{EXTRACTS}        every = [found[number] for number in {asked}]  # here\n"
    script.write_text(swapped(script.read_text(), (LOOP, LOOP + taken)))
    lines = script.read_text().splitlines()
    return script, next(number for number, line in enumerate(lines, 1) if line.endswith("# here"))


def test_what_only_short_loaders_break_is_rehearsed_with_whole_ones(tmp_path: Path) -> None:
    """Also where it comes in a process that the script has started itself."""
    (tmp_path / "two_gpus.py").write_text(TWO_GPUS)
    started = "    torch.multiprocessing.spawn(main, args=(args,), nprocs=2)\n"
    script, _ = extracting(tmp_path, in_processes(started), "range(32)")
    result = rehearse(script)
    assert "KeyError: 12). Rehearsing again, with whole ones." in result.stdout, shown(result)
    assert "went well" in result.stdout, shown(result)


def test_what_whole_loaders_break_too_is_told(tmp_path: Path) -> None:
    script, line = extracting(tmp_path, DDP, "range(33)")
    result = rehearse(script)
    assert f"why it failed (train.py:{line}: KeyError: 12). Rehearsing again" in result.stdout, shown(result)
    assert result.returncode == 1
    assert f"    train.py:{line}: KeyError: 32\n" in result.stdout, shown(result)


def test_a_validation_that_short_loaders_never_come_to_is_rehearsed_with_whole_ones(tmp_path: Path) -> None:
    now_and_then = """\
            steps += 1
            if steps % 20 == 0:
                acc = validate(model, epoch)
                best_acc = max(acc, best_acc)
                print(acc)
"""
    before, after = DDP.split("        acc = validate(model, epoch)\n")
    text = before + now_and_then + after[after.index("    if dist.get_rank() == 0:\n        print(") :]
    script = project(tmp_path, swapped(text, ("    best_acc = 0.0\n", "    best_acc = 0.0\n    steps = 0\n")))
    result = rehearse(script, PAI_REHEARSAL_BATCHES="2")
    assert re.search(r"without a validation score.*Rehearsing again, with whole ones", result.stdout), shown(result)
    assert "went well" in result.stdout, shown(result)


WAITS = "        time.sleep(0.07)\n"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (5, "The rehearsal has come to no end in its time, but goes on, without a backward pass so far"),
        (1, "train.py:6: the process hangs in main"),
    ],
    ids=["goes on", "hangs"],
)
def test_what_is_on_its_way_to_training_when_the_time_is_over_hangs_where_it_stays(
    lines: int, said: str, tmp_path: Path
) -> None:
    script = f"import time\nimport pai_distributed.rehearsal\n\ndef main():\n    while True:\n{WAITS * lines}\nmain()\n"
    (helper(tmp_path) / "train.py").write_text(script)
    (tmp_path / "projects").touch()
    result = run([sys.executable, "train.py"], tmp_path, PAI_REHEARSAL=str(tmp_path), PAI_REHEARSAL_END="1")
    assert result.returncode == 1, shown(result)
    assert (tmp_path / "cause").read_text() == f"{said}\n"


@pytest.mark.parametrize(
    ("missing", "told"), [("out/epoch 4/net_4.pt", True), ("out/epoch 1/old_4.pt", False), ("out/last.pt", False)]
)
def test_a_file_of_an_epoch_that_a_rehearsal_has_not_is_told_as_that(missing: str, told: bool, tmp_path: Path) -> None:
    (helper(tmp_path) / "train.py").write_text(f"import pai_distributed.rehearsal\nopen({missing!r})\n")
    (folder := tmp_path / "out" / "epoch 1").mkdir(parents=True)
    (folder / "old_1.pt").touch()
    os.utime(folder / "old_1.pt", (1, 1))
    (tmp_path / "projects").touch()
    (folder / "net_1.pt").touch()
    result = run([sys.executable, "train.py"], tmp_path, PAI_REHEARSAL=str(tmp_path))
    assert result.returncode == 1, shown(result)
    cause = (tmp_path / "cause").read_text()
    assert missing in cause
    assert ("may end by its score, before that one" in cause) is told


def test_an_orderly_exit_is_no_failure(tmp_path: Path) -> None:
    script = project(
        tmp_path, swapped(DDP, ("    main()\n", "    sys.exit(main())\n"), (IMPORT, f"{IMPORT}import sys\n"))
    )
    result = rehearse(script)
    assert "went well" in result.stdout, shown(result)


# ---- what it leaves alone

#: Ways to write, in the main function, before the epochs. OUT is an argument, a whole path.
WRITES = """
    import logging
    import shutil
    import subprocess
    import numpy
    for place in (".", args.out):
        numpy.save(os.path.join(place, "old.npy"), numpy.ones(3))
        torch.save([1], os.path.join(place, "old.pt"))
        with open(os.path.join(place, "old.txt"), "a") as file:
            file.write("more")
        os.makedirs(os.path.join(place, "runs", "one"), exist_ok=True)
        subprocess.run(["sh", "-c", 'echo new > "$0"/new.txt && echo more >> "$0"/old.txt', place], check=True)
        shutil.rmtree(os.path.join(place, "gone"), ignore_errors=True)
        os.rename(os.path.join(place, "old.npy"), os.path.join(place, "moved.npy"))
    logging.basicConfig(filename=os.path.join(os.path.dirname(os.path.abspath(__file__)), "train.log"), force=True)
    logging.warning("written")
"""


def writing(folder: Path) -> str:
    """Return a script that writes here, and in a folder that its argument names, where all it writes is already."""
    for place in (folder, folder.parent / "out"):
        (place / "gone" / "deep").mkdir(parents=True)
        for name in ("old.npy", "old.pt", "old.txt", "gone/deep/leaf.txt"):
            (place / name).write_text("old")
    parsed = "    args = parser.parse_args()\n"
    return swapped(
        DDP,
        (parsed, f'    parser.add_argument("--out")\n{parsed}'),
        ("    best_acc = 0.0\n", f"    best_acc = 0.0\n    if dist.get_rank() == 0:{indent(WRITES, '    ')}"),
    )


def test_what_the_script_writes_is_gone_with_the_rehearsal(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    script = project(folder, writing(folder))
    before = files_below(tmp_path)
    result = rehearse(script, f"--out={tmp_path / 'out'}")
    assert result.returncode == 0, shown(result)
    assert "went well" in result.stdout, shown(result)
    assert files_below(tmp_path) == before


@pytest.mark.parametrize(
    ("write", "said"),
    [
        ("open({!r}, 'w')", "PermissionError: The rehearsal changes nothing outside its folder, .* writes {}"),
        pytest.param(
            "__import__('subprocess').run(['cp', __file__, {!r}], check=True)",
            "The rehearsal changes nothing outside its folder, which may be why: .*CalledProcessError: .*",
            marks=pytest.mark.skipif(not KEPT, reason="this system has no Landlock"),
        ),
    ],
    ids=["python", "program"],
)
def test_a_script_that_names_a_whole_path_to_write_is_not_rehearsed(write: str, said: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept.txt"
    kept.write_text("old")
    folder = tmp_path / "project"
    folder.mkdir()
    line = f"    {write.format(str(kept))}  # here\n"
    script = project(folder, swapped(DDP, ("    best_acc = 0.0\n", f"{line}    best_acc = 0.0\n")))
    number = script.read_text().splitlines().index(line.rstrip("\n")) + 1
    result = rehearse(script, python=sys.executable)
    assert result.returncode == 1, shown(result)
    said = rf"no fault of the script: train\.py:{number}: {said.format(re.escape(str(kept)))}\.$"
    assert re.search(said, result.stdout, re.MULTILINE), shown(result)
    assert kept.read_text() == "old"


def test_a_script_that_has_the_helper_in_it_rehearses_as_well(tmp_path: Path) -> None:
    script = project(tmp_path, DDP, "--inline")
    before = files_below(tmp_path)
    result = rehearse(script)
    assert "went well" in result.stdout, shown(result)
    assert files_below(tmp_path) == before


# ---- how it is short

_LOADERS = """
import torch
import pai_distributed.rehearsal
from torch.utils.data import DataLoader, IterableDataset

class Repeat:
    def __init__(self, sampler): self.sampler = sampler
    def __iter__(self):
        while True:
            yield from self.sampler

class MultiEpochs(DataLoader):  # as in timm and YOLO: one iterator for all epochs
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        object.__setattr__(self, "batch_sampler", Repeat(self.batch_sampler))
        self.iterator = super().__iter__()
    def __len__(self): return len(self.batch_sampler.sampler)
    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.iterator)

class Moving(MultiEpochs):
    def __iter__(self):
        for batch in super().__iter__():
            yield batch.to("cpu")

class Stream(IterableDataset):
    def __iter__(self): return iter(range(100))

data = list(range(100))
for loader in (DataLoader(data, 5, num_workers=1, persistent_workers=True), MultiEpochs(data, 5), Moving(data, 5)):
    assert len(loader) == 4
    assert [len(list(loader)) for _ in range(3)] == [4] * 3, loader
assert len(list(DataLoader(Stream(), 5))) == 4
assert len(list(DataLoader(data, 50))) == len(DataLoader(data, 50)) == 2

weight = torch.ones(1, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
batches = 0
for number, _ in enumerate(DataLoader(data, 5)):  # gradients are accumulated over more batches than there would be
    weight.sum().backward()
    batches += 1
    if number % 7 == 6:
        optimizer.step()
assert batches == 7, batches
"""


def test_every_kind_of_loader_is_short_and_lasts_until_a_step(tmp_path: Path) -> None:
    (tmp_path / "projects").touch()
    (helper(tmp_path) / "loaders.py").write_text(_LOADERS)
    settings = {"PAI_REHEARSAL": str(tmp_path), "PAI_REHEARSAL_BATCHES": "4"}
    result = run([sys.executable, "loaders.py"], tmp_path, **settings)
    assert result.returncode == 0, shown(result)
