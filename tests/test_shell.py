"""Launch scripts that somebody wrote, by the published recipe or after it: what ours may take the place of."""

from __future__ import annotations

import pytest

from retrofit.shell import read_launcher
from tests.conftest import SCRIPT, Folder

LAUNCHER = "train_distributed.sh"
PUBLISHED = """\
#!/bin/bash
# starts train.py until the tracker says that it is enough
SAVE_NAME="mine"
PYTHON_SCRIPT="train.py"
NUM_GPUS=3

echo "once, for the settings"
python $PYTHON_SCRIPT --perforate_model_parallel

while true; do
    if [ -f "${SAVE_NAME}/.training_complete" ]; then
        echo "nothing left to do"
        break
    fi
    if ls "${SAVE_NAME}"/switch_*.pt 1> /dev/null 2>&1; then
        torchrun --nproc_per_node=$NUM_GPUS $PYTHON_SCRIPT --pai_load_folder $SAVE_NAME
    else
        torchrun --nproc_per_node=$NUM_GPUS $PYTHON_SCRIPT
    fi
    EXIT_CODE=$?
    if [ $EXIT_CODE -ne 0 ]; then
        echo "failed"; exit $EXIT_CODE
    fi
    sleep 2  # the structure is another one now
done
"""
START = "torchrun --nproc_per_node=$NUM_GPUS $PYTHON_SCRIPT --pai_load_folder $SAVE_NAME"


def read(text: str) -> tuple[str, str, list[tuple[int, str]]] | None:
    found = read_launcher(text, "train.py", ["perforate_model_parallel"], ["pai_load_folder"])
    return None if found is None else (found.processes, found.gpus, found.others)


#: What stands in it otherwise, with what is read of it.
SAME = {
    "as published": (START, START, "3", ""),
    "some GPUs": ('PYTHON_SCRIPT="train.py"', 'PYTHON_SCRIPT="train.py"\nexport CUDA_VISIBLE_DEVICES=0,2', "3", "0,2"),
    "GPUs at the start": (START, f"CUDA_VISIBLE_DEVICES=1,2 {START}", "3", "1,2"),
    "torch's own launcher": (START, START.replace("torchrun", "python3 -m torch.distributed.launch"), "3", ""),
    "another spelling": (
        START,
        START.replace("_per_node=$NUM_GPUS", "-per-node gpu").replace("proc-", "proc-"),
        "",
        "",
    ),
    "over two lines": (START, START.replace(" --pai", " \\\n            --pai"), "3", ""),
    "its own arguments": (START, f'{START} "$@"', "3", ""),
    "its own arguments by a name": (
        "NUM_GPUS=3\n",
        'NUM_GPUS=3\nMORE="$@"\nuntil false; do torchrun $PYTHON_SCRIPT --pai_load_folder $SAVE_NAME $MORE; done\n',
        "3",
        "",
    ),
    "a folder beside it": (START, START.replace("$PYTHON_SCRIPT", "./$PYTHON_SCRIPT"), "3", ""),
}


@pytest.mark.parametrize(("old", "new", "processes", "gpus"), SAME.values(), ids=SAME)
def test_it_starts_the_training_round_after_round(old: str, new: str, processes: str, gpus: str) -> None:
    text = PUBLISHED.replace(old, new)
    assert old == new or text != PUBLISHED
    found = read(text)
    assert found is not None
    assert found[1:] == (gpus, [])
    assert not processes or found[0] == processes


MORE = {
    "an argument": (
        START,
        f"{START} --epochs 9",
        "torchrun --nproc_per_node=3 train.py --pai_load_folder mine --epochs 9",
    ),
    "a log": ("sleep 2", "cp -r mine backup", "cp -r mine backup"),
    "an environment": ("#!/bin/bash", "#!/bin/bash\nsource venv/bin/activate", "source venv/bin/activate"),
    "a variable of another kind": ("#!/bin/bash", "export NCCL_DEBUG=INFO", "export NCCL_DEBUG=INFO"),
    "a variable at the start": (
        START,
        f"NCCL_DEBUG=INFO {START}",
        START.replace("$NUM_GPUS", "3").replace("$PYTHON_SCRIPT", "train.py").replace("$SAVE_NAME", "mine"),
    ),
    "a number found": ("NUM_GPUS=3", "NUM_GPUS=$(nvidia-smi -L | wc -l)", "nvidia-smi -L"),
    "what is piped": (START, f"{START} 2>&1 | tee log.txt", "tee log.txt"),
    "what is written to a file": (
        START,
        f"{START} > log.txt",
        "torchrun --nproc_per_node=3 train.py --pai_load_folder mine > log.txt",
    ),
    "a port": (
        START,
        START.replace("torchrun", "torchrun --master_port=4"),
        "torchrun --master_port=4 --nproc_per_node=3 train.py --pai_load_folder mine",
    ),
}


@pytest.mark.parametrize(("old", "new", "code"), MORE.values(), ids=MORE)
def test_what_it_does_besides_is_named(old: str, new: str, code: str) -> None:
    found = read(PUBLISHED.replace(old, new))
    assert found is not None
    assert code in [other for _, other in found[2]]


OTHERS = {
    "another script": PUBLISHED.replace("train.py", "other.py"),
    "once": "torchrun train.py --pai_load_folder mine\n",
    "a sweep": "for lr in 0.1 0.01; do\n    torchrun train.py --lr $lr\ndone\n",
    "nothing": "",
    "no shell": '"',
}


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_others_are_none(text: str) -> None:
    assert read(text) is None


def test_it_is_replaced_and_comes_back(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    folder.write(LAUNCHER, PUBLISHED)
    answer = folder.run("apply", "train.py")
    assert answer.code == 0
    assert f"{LAUNCHER}: RF038 started the training round after round" in answer.err + answer.out
    assert "[the launch script that was there]" in answer.out
    assert "NUM_GPUS:-3" in folder.text(LAUNCHER)
    assert folder.run("apply", "train.py").out.startswith("train.py: nothing to do")
    assert folder.run("undo", "train.py").code == 0
    assert folder.text(LAUNCHER) == PUBLISHED


def test_another_one_beside_ours_is_named(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    folder.write("rounds.sh", "while torchrun train.py --pai_load_folder mine; do\n    sleep 1\ndone\n")
    folder.write("once.sh", "torchrun train.py --pai_load_folder mine\n")
    answer = folder.run("apply", "train.py")
    (note,) = [line for line in answer.lines if "RF042" in line]
    assert note.startswith("rounds.sh: RF042 starts train.py round")
    assert "once.sh" not in answer.err
    assert "RF042" not in folder.run("apply", "train.py").err


def test_the_user_s_own_choice_counts(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    folder.write(LAUNCHER, PUBLISHED)
    assert folder.run("apply", "train.py", "--nproc-per-node", "2").code == 0
    assert "NUM_GPUS:-2" in folder.text(LAUNCHER)


def test_one_that_does_more_is_asked_about_where_it_does(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    folder.write(LAUNCHER, PUBLISHED.replace("sleep 2", "cp -r mine backup"))
    answer = folder.run("apply", "train.py")
    assert (answer.code, answer.out) == (2, "")
    [line] = answer.lines
    assert line.startswith(f"{LAUNCHER}:24:1: RF008 starts train.py round after round")
    assert "`cp -r mine backup`" in line
    assert folder.run("apply", "--force", "train.py").code == 0
