"""`retrofit report`: what a training has come to, from the folder that it saves in."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Folder

LOAD = {
    "imports": ["import pai_distributed", "from nets import Net"],
    "build": "Net()",
    "call": "pai_distributed.load_final_model",
    "folder": "..",
}


def trained(
    dendrites: int, best: float, kept: bool | None = True, *, number: int = 1, parameters: int = 0
) -> dict[str, Any]:
    """What the helper writes of a structure."""
    counts = {"round": number, "dendrites": dendrites, "tries": 0, "parameters": parameters or 10 * (dendrites + 1)}
    return {**counts, "kept": kept, "epochs": 4, "best": best, "seconds": 30.4}


def facts(*structures: dict[str, Any], final: int | None = None, **more: Any) -> dict[str, Any]:
    """What the helper writes of a training, whose final model has some number of dendrites."""
    ended = {} if final is None else {"final": {"dendrites": final, "parameters": 10 * (final + 1), "score": 0.9}}
    return {
        "maximizing": True,
        "capacity_test": False,
        "structures": list(structures),
        "load": LOAD,
        **ended,
        **more,
    }


def told(folder: Folder, known: dict[str, Any]) -> list[str]:
    """What retrofit says of a training, line by line."""
    folder.write("PAI_train/rounds.json", json.dumps(known))
    before = folder.state()
    answer = folder.run("report", "PAI_train")
    assert (answer.code, answer.err) == (0, "")
    assert folder.state() == before
    return answer.out.splitlines()


def test_the_end_of_a_training_is_told_whole(folder: Folder) -> None:
    structures = [
        trained(0, 0.86035),
        trained(1, 0.9, number=2),
        trained(2, 0.88, False, number=3),
        trained(2, 0.89, False, number=4),
    ]
    assert told(folder, facts(*structures, final=1)) == [
        "Training is complete: 4 rounds, 16 epochs, 2 min 2 s.",
        "",
        "dendrites  parameters  epochs  time  best score",
        "        0          10       4  30 s     0.86035",
        "        1          20       4  30 s         0.9",
        "        2          30       4  30 s        0.88  dropped",
        "        2          30       4  30 s        0.89  dropped",
        "",
        "Dendrites paid: best score 0.9 with them, 0.86035 without, for 10 more parameters (+100%).",
        "The final model is PAI_train/best_model.pt: 20 parameters, 1 set of dendrites, score 0.9.",
        f"To load it for inference, in {folder.path}:",
        "",
        "    import pai_distributed",
        "    from nets import Net",
        "",
        "    model = Net()",
        '    model = pai_distributed.load_final_model(model, "PAI_train")',
    ]


def test_what_was_trained_beside_the_model_is_told(folder: Folder) -> None:
    final = {"dendrites": 0, "parameters": 10, "score": 0.9, "beside": True}
    said = "\n".join(told(folder, {**facts(trained(0, 0.9)), "final": final}))
    assert "What is trained beside it is in PAI_train/beside_best.pt, as it was at that score: load_final" in said


DROPPED = "dropped, as none was clearly better than 0.8. The model is the one without dendrites."


@pytest.mark.parametrize(
    ("known", "verdict"),
    [
        (
            facts(trained(0, 0.8), trained(1, 0.7, False), final=0),
            f"Dendrites did not pay: the only try was {DROPPED}",
        ),
        (
            facts(trained(0, 0.8), *[trained(1, 0.7, False)] * 2, final=0),
            f"Dendrites did not pay: both tries were {DROPPED}",
        ),
        (
            facts(trained(0, 0.8), *[trained(1, 0.7, False)] * 3),
            f"So far: Dendrites did not pay: all 3 tries were {DROPPED}",
        ),
        (
            facts(trained(0, 0.8), trained(1, 0.7), final=1, maximizing=False),
            "Dendrites paid: best score 0.7 with them, 0.8 without, for 10 more parameters (+100%).",
        ),
        (
            facts(trained(0, 0.7), trained(1, 0.8), final=1, maximizing=False),
            "Dendrites did not pay: best score 0.8 with them, 0.7 without, for 10 more parameters (+100%).",
        ),
        (
            facts(trained(0, 0.8), trained(1, 0.8, None)),
            "So far: Dendrites did not pay: best score 0.8 with them, 0.8 without, for 10 more parameters (+100%).",
        ),
        (facts(trained(0, 0.8), final=0), "No dendrites were tried."),
        (facts(trained(0, 0.8, None)), "No dendrites were tried yet."),
        (
            facts(trained(0, 0.8), trained(1, 0.9), final=1, capacity_test=True),
            "This was a capacity test: it shows that dendrites can be added, not whether they pay.",
        ),
    ],
)
def test_whether_dendrites_paid(folder: Folder, known: dict[str, Any], verdict: str) -> None:
    assert verdict in told(folder, known)


def test_a_training_that_goes_on_says_so(folder: Folder) -> None:
    lines = told(folder, facts(trained(0, 0.8), trained(1, 0.85, None, number=2)))
    assert lines[0] == "Training is not complete; so far: 2 rounds, 8 epochs, 1 min 1 s."
    assert lines[4].endswith("0.85  so far")
    assert "model" not in lines[-1]


def test_long_times_are_in_hours(folder: Folder) -> None:
    long = {**trained(0, 0.8, None), "seconds": 7380.0}
    assert told(folder, facts(long))[0].endswith("1 round, 4 epochs, 2 h 3 min.")


def test_programs_get_json(folder: Folder) -> None:
    folder.write("PAI_train/rounds.json", json.dumps(facts(trained(0, 0.8), trained(1, 0.9), final=1)))
    data = json.loads(folder.run("report", "--json", "PAI_train").out)
    assert (data["complete"], data["rounds"], data["epochs"], data["seconds"]) == (True, 1, 8, 60.8)
    assert [one["kept"] for one in data["structures"]] == [True, True]


def test_the_lines_that_load_fit_where_the_folder_is(folder: Folder) -> None:
    known = facts(trained(0, 0.8), final=0)
    folder.write("below/project/runs/PAI_train/rounds.json", json.dumps({**known, "load": {**LOAD, "folder": "../.."}}))
    lines = folder.run("report", "below/project/runs/PAI_train").out.splitlines()
    assert f"To load it for inference, in {folder.path}/below/project:" in lines
    assert lines[-1].endswith('(model, "runs/PAI_train")')

    folder.write("moved/rounds.json", json.dumps({**known, "load": {**LOAD, "folder": "../gone/project"}}))
    lines = folder.run("report", "moved").out.splitlines()
    assert "To load it for inference, in the folder of the training script:" in lines
    assert lines[-1].endswith(f'(model, "{folder.path}/moved")')


def test_what_the_record_holds_cannot_write_to_the_terminal(folder: Folder) -> None:
    lines = told(folder, facts(trained(0, 0.8), final=0, load={**LOAD, "build": "Net()\x1b[2J"}))
    assert "    model = Net()\\x1b[2J" in lines


# ---- a training whose helper has written no such record


def tables(folder: Folder, name: str, *rows: tuple[int, float]) -> None:
    """Write a table as the library does."""
    lines = [f"{parameters},{score}\n" for parameters, score in rows]
    folder.write(f"PAI_train/PAI_train{name}_best_arch_scores.csv", "Param Counts,Max Valid Scores\n" + "".join(lines))


def test_the_library_s_own_tables_tell_what_they_know(folder: Folder) -> None:
    tables(folder, "", (29, 0.86), (66, 0.98))
    tables(folder, "_05.11.2026.10.00.00_noImprove_lr_0", (29, 0.86), (66, 0.98), (103, 0.97))
    tables(folder, "_beforeSwitch_0", (29, 0.86))
    folder.write("PAI_train/rounds.json", '{"rounds": 3, "epochs": 30, "best": 0.98}')
    folder.write("PAI_train/.training_complete", "complete\n")
    assert folder.run("report", "PAI_train").out.splitlines() == [
        "Training is complete: 3 rounds, 30 epochs.",
        "",
        "dendrites  parameters  epochs  time  best score",
        "        0          29                      0.86",
        "        1          66                      0.98",
        "        2         103                      0.97  dropped",
        "",
        "Dendrites paid: best score 0.98 with them, 0.86 without, for 37 more parameters (+128%).",
        "The final model is PAI_train/best_model.pt: 66 parameters, 1 set of dendrites, score 0.98.",
    ]


def test_without_a_record_lower_scores_are_better_where_the_library_says_so(folder: Folder) -> None:
    tables(folder, "", (29, 0.86), (66, 0.7))
    folder.write("PAI_train/PAI_train_config.json", '{"maximizing_score": false}')
    out = folder.run("report", "PAI_train").out
    assert "Training is not complete; so far.\n" in out
    assert "0.7  so far\n" in out
    assert "So far: Dendrites paid: best score 0.7 with them, 0.86 without" in out


# ---- no training


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere", "nowhere: RF001 is not there. Give the folder that the training saves in, such as PAI_train."),
        ("notes", "notes: RF001 is no folder. Give the folder that the training saves in, such as PAI_train."),
        (
            "project",
            "project: RF022 has no record of a training, which begins with the first validation score. "
            "Did you mean project/PAI_train?",
        ),
        ("empty", "empty: RF022 has no record of a training, which begins with the first validation score."),
    ],
)
def test_a_folder_without_a_training(folder: Folder, name: str, said: str) -> None:
    folder.write("notes", "")
    folder.write("project/PAI_train/rounds.json", "{}")
    (folder.path / "empty").mkdir()
    answer = folder.run("report", name)
    assert (answer.code, answer.out, answer.lines) == (2, "", [said])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"structures": [1]}',
        '{"structures": {}}',
        '{"structures": [{"best": 1}]}',
        json.dumps(facts(trained(0, 0.8), final=0, load=[1])),
        json.dumps(facts({**trained(0, 0.8), "best": "high"})),
        "\xff",
    ],
)
def test_a_damaged_record_is_a_line_on_stderr(folder: Folder, text: str) -> None:
    folder.write("PAI_train/rounds.json", text.encode("latin-1"))
    answer = folder.run("report", "PAI_train")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("PAI_train: RF022 has ")


def test_it_says_so_where_the_record_cannot_be_read(folder: Folder) -> None:
    (folder.path / "PAI_train" / "rounds.json").mkdir(parents=True)
    assert folder.run("report", "PAI_train").lines == ["PAI_train: RF001 cannot be read: Is a directory."]


def test_it_imports_nothing_heavy(folder: Folder) -> None:
    folder.write("PAI_train/rounds.json", json.dumps(facts(trained(0, 0.8), final=0)))
    code = "from retrofit.cli import main; main(prog_name='retrofit')"
    command = [sys.executable, "-X", "importtime", "-c", code, "report", "PAI_train"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=folder.path)
    assert "Training is complete" in result.stdout
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in result.stderr.splitlines()}
    assert not imported & {"libcst", "jinja2", "torch", "rich", "pathspec", "perforatedai"}
    assert not list(Path(folder.path).rglob("*.pyc"))
