"""`retrofit check` as its users run it: files, settings, suppressions, fixes, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from retrofit.check.files import python_files
from retrofit.cli import main
from retrofit.rules import load_recipe
from retrofit.rules_folder import rules_folder
from tests.projects import FIXTURES

#: Two findings: an error with a safe fix, and nothing else.
BAD = """\
from torch.utils.data import DataLoader, DistributedSampler

sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, shuffle=True, sampler=sampler)
"""
GOOD = BAD.replace("shuffle=True", "shuffle=False")


def check(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(main, ["check", *arguments], input=given)


def codes(result: Result) -> list[str]:
    """Return the codes that concise output names, in its order."""
    return [line.split()[1] for line in result.stdout.splitlines() if ".py:" in line]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(BAD)
    return tmp_path


def test_a_finding_is_exit_code_1(project: Path) -> None:
    result = check("--format", "concise", "train.py")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0].startswith("train.py:4:10: DDP202 error ")


def test_nothing_found_is_said_aloud(project: Path) -> None:
    (project / "train.py").write_text(GOOD)
    result = check("train.py")
    assert result.exit_code == 0
    assert result.stdout


def test_fail_on_lets_milder_findings_pass(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.retrofit.severity]\nDDP202 = "advice"\n')
    assert check("--fail-on", "warning", "train.py").exit_code == 0
    assert check("train.py").exit_code == 1


@pytest.mark.parametrize("selector", ["DDP202", "DDP2", "shuffle-with-sampler", "ALL", "DDP3,DDP202"])
def test_select_takes_codes_beginnings_and_names(project: Path, selector: str) -> None:
    assert codes(check("--format", "concise", "--select", selector, "train.py")) == ["DDP202"]


def test_ignore_takes_rules_out(project: Path) -> None:
    assert check("--ignore", "shuffle-with-sampler", "train.py").exit_code == 0


def test_unknown_selector_is_a_problem_and_the_rest_is_checked(project: Path) -> None:
    result = check("--format", "concise", "--select", "DDP202,DDP999", "train.py")
    assert result.exit_code == 2
    assert codes(result) == ["DDP202"]
    assert result.stderr.startswith("--select: RF020 'DDP999' means no rule.")
    assert len(result.stderr.splitlines()) == 1


def test_settings_of_the_nearest_project_count(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.retrofit]\nignore = ["DDP202"]\n')
    (project / "other").mkdir()
    (project / "other" / "pyproject.toml").write_text('[tool.retrofit]\nselect = ["DDP2"]\n')
    (project / "other" / "train.py").write_text(BAD)
    result = check("--format", "concise", ".")
    assert [line.partition(":")[0] for line in result.stdout.splitlines() if "DDP202" in line] == ["./other/train.py"]


def test_per_file_ignores(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.retrofit.per-file-ignores]\n"tests/*" = ["DDP2"]\n')
    (project / "tests").mkdir()
    (project / "tests" / "case.py").write_text(BAD)
    result = check("--format", "concise", ".")
    assert [line.partition(":")[0] for line in result.stdout.splitlines() if "DDP202" in line] == ["./train.py"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.retrofit", "is no valid TOML file"),
        ('[tool.retrofit]\nselect = "DDP2"\n', "select is 'DDP2'; it must be a list such as [\"DDP2\"]."),
        ('[tool.retrofit]\nselect = ["DDP999"]\n', "'DDP999' means no rule"),
        ('[tool.retrofit.severity]\nDDP202 = "fatal"\n', "must be advice, warning or error"),
        ("[tool.retrofit]\nselects = []\n", "unknown key 'selects'. Did you mean select?"),
    ],
)
def test_broken_settings_are_one_line_and_the_files_are_checked(project: Path, text: str, message: str) -> None:
    (project / "pyproject.toml").write_text(text)
    (project / "second.py").write_text(BAD)
    result = check("--format", "concise", ".")
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert codes(result) == ["DDP202", "DDP202"]


def test_broken_settings_are_told_where_no_file_needs_them(project: Path) -> None:
    (project / "train.py").write_text("print(1)\n")
    (project / "pyproject.toml").write_text("[tool.retrofit")
    result = check(".")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("missing.py", None, "missing.py: RF001 no such file or folder."),
        ("latin.py", b"import torch.distributed\nname = '\xe9'\n", "latin.py:1:1: RF003 cannot be decoded"),
        ("broken.py", b"import torch.distributed\ndef f(:\n", "broken.py:2:7: RF004 is not Python 3"),
        ("plain.py", b"def f(:\n", "plain.py:1:7: RF004 is not Python 3"),
        ("zero.py", b"import torch.distributed\n\0\n", "zero.py: RF003 is not a text file."),
        ("folder.py", b"", "folder.py: RF001 cannot be read"),
    ],
)
def test_bad_input_is_one_line_and_the_others_are_checked(
    project: Path, name: str, data: bytes | None, message: str
) -> None:
    if data:
        (project / name).write_bytes(data)
    elif data is not None:
        (project / name).symlink_to(name)
    result = check("--format", "concise", name, "train.py")
    assert result.exit_code == 2
    assert result.stderr.startswith(message)
    assert len(result.stderr.splitlines()) == 1
    assert codes(result) == ["DDP202"]


def test_fix_writes_what_is_safe_and_undo_brings_it_back(project: Path) -> None:
    assert check("--fix", "train.py").exit_code == 0
    assert (project / "train.py").read_text() == GOOD
    assert CliRunner().invoke(main, ["undo", "train.py"]).exit_code == 0
    assert (project / "train.py").read_text() == BAD


def test_diff_writes_nothing(project: Path) -> None:
    result = check("--diff", "train.py")
    assert result.exit_code == 1
    assert "-loader = DataLoader(dataset, shuffle=True, sampler=sampler)" in result.stdout
    assert (project / "train.py").read_text() == BAD


def test_standard_input(project: Path) -> None:
    result = check("--format", "concise", "--stdin-filename", "src/new.py", "-", given=BAD)
    assert result.exit_code == 1
    assert result.stdout.startswith("src/new.py:4:10: DDP202")


@pytest.mark.parametrize("text", [BAD, GOOD, "print(1)\n"])
def test_standard_input_comes_out_repaired(project: Path, text: str) -> None:
    assert check("--fix", "-", given=text).stdout == text.replace("shuffle=True", "shuffle=False")


@pytest.mark.parametrize(
    "comment", ["# noqa: DDP202", "# noqa", "# retrofit: ignore[DDP202]", "# retrofit: ignore", "# noqa: E501,DDP202"]
)
def test_suppressed_in_its_line(project: Path, comment: str) -> None:
    assert check("-", given=f"{BAD.rstrip()}  {comment}\n").exit_code == 0


@pytest.mark.parametrize("rest", ["  # noqa: DDP203", "  # retrofit: ignore[DDP203]", '; "# noqa"'])
def test_other_codes_and_strings_suppress_nothing(project: Path, rest: str) -> None:
    assert check("--select", "DDP202", "-", given=f"{BAD.rstrip()}{rest}\n").exit_code == 1


def test_suppressed_on_any_line_of_the_call(project: Path) -> None:
    text = BAD.replace("dataset, shuffle", "\n    dataset,  # retrofit: ignore[DDP202]\n    shuffle")
    assert check("-", given=text).exit_code == 0


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
@pytest.mark.parametrize("before", ["x = '\u2028'", "x = '\x1c'", "x = 1\n\x0c"])
def test_unused_suppression_goes_and_every_line_end_stays(project: Path, before: str, end: str) -> None:
    text = f"import torch\n{before}\ny = 2  # retrofit: ignore[DDP202]\n".replace("\n", end or "\n")
    text = text if end else text.rstrip("\n")
    (project / "train.py").write_bytes(text.encode())
    assert check("--fix", "train.py").exit_code == 0
    assert (project / "train.py").read_bytes().decode() == text.replace("  # retrofit: ignore[DDP202]", "")


def test_folders_leave_out_what_is_not_the_project_s(project: Path) -> None:
    names = [
        "kept.py", "pkg/kept.py", "pkg/secret/left.py", "out/left.py", "keep.out/kept.py", "build/left.py",
        "env/left.py", "env/pyvenv.cfg", "site-packages/left.py", "torch/left.py", "torch/nn/parallel/distributed.py",
        "nb/readme.txt",
    ]  # fmt: skip
    for name in names:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("")
    (project / ".git").mkdir()
    (project / ".gitignore").write_text("/out/\n*.pyc\n")
    (project / "pkg" / ".gitignore").write_text("secret\n")
    assert list(python_files(".")) == ["./keep.out/kept.py", "./kept.py", "./pkg/kept.py", "./train.py"]
    assert list(python_files("pkg")) == ["pkg/kept.py"]
    assert list(python_files("out")) == ["out/left.py"]  # asked for by name
    assert list(python_files(".", ["kept.py"])) == ["./train.py"]
    assert list(python_files("torch/nn")) == ["torch/nn/parallel/distributed.py"]


def test_the_generated_helper_is_passed_over(project: Path) -> None:
    (project / "train.py").write_text(f'"""Generated by retrofit: a helper."""\n{BAD}')
    assert check("train.py").exit_code == 0


def test_many_files_are_checked_in_several_processes(project: Path) -> None:
    for number in range(6):
        (project / f"train{number}.py").write_text(BAD)
    alone, together = (check("--format", "concise", "--jobs", jobs, ".") for jobs in ("1", "2"))
    assert codes(together) == ["DDP202"] * 7
    assert together.stdout == alone.stdout


#: What is taken out of a retrofitted script, or put in, and the rule that finds it.
BROKEN = {
    "prefill": ("        pai_distributed.fill_missing_gradients(model)\n", "", "PAI006"),
    "second backward": (
        "        loss.backward()\n",
        "        loss.backward()\n        (2 * loss).backward()\n",
        "PAI010",
    ),
    "optimizer": (
        "model, optimArgs, schedArgs)\n",
        "model, optimArgs, schedArgs)\n    optimizer = torch.optim.Adam(model.parameters())\n",
        "PAI007",
    ),
    "unused parameters": (
        ",\n                                        find_unused_parameters=pai_distributed.finds_unused_parameters()",
        "",
        "PAI009",
    ),
    "tracker state": ("        pai_distributed.keep_tracker_state_local(model)\n", "", "PAI009"),
    "one rank": (
        "        if pai_distributed.report_validation_score(acc, model, leave=False):\n            break\n",
        "        if rank == 0:\n            pai_distributed.report_validation_score(acc, model)\n",
        "PAI201",
    ),
    "no score": (
        "        if pai_distributed.report_validation_score(acc, model, leave=False):\n            break\n",
        "",
        "PAI012",
    ),
    "scheduler": ("        acc = validate(", "        scheduler.step()\n        acc = validate(", "PAI202"),
    "checkpoint": ("    model = pai_distributed.load_latest_switch(model, args.pai_load_folder)\n", "", "PAI005"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_pattern_is_found(project: Path, broken: str) -> None:
    old, new, code = BROKEN[broken]
    text = (FIXTURES / "ddp_torchrun" / "after" / "train.py").read_text()
    assert old in text
    (project / "train.py").write_text(text)
    assert check("--select", "PAI", "train.py").exit_code == 0
    (project / "train.py").write_text(text.replace(old, new))
    result = check("--format", "concise", "--select", "PAI", "train.py")
    assert set(codes(result)) == {code}


ROUNDS = """\
set -u
# until nothing fails
while true; do
    torchrun --nproc_per_node=2 train.py --pai_load_folder PAI
    if [ $? -ne 0 ]; then exit 1; fi
done
"""
LAUNCHED = "import argparse\n\nparser = argparse.ArgumentParser()\nparser.add_argument('--pai_load_folder')\n"


def test_a_shell_script_beside_that_starts_rounds_by_their_status_is_found(project: Path) -> None:
    (project / "train.py").write_text(LAUNCHED)
    (project / "again.sh").write_text(ROUNDS)
    assert "again.sh:4:1: PAI231 error " in check("train.py").stdout
    assert check("train.py", "--ignore", "PAI231").exit_code == 0


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(ROUNDS.replace("while true", "until [ -f PAI/.training_complete ]"), id="until it is complete"),
        pytest.param(ROUNDS.replace("while true", "for round in 1 2 3"), id="so many"),
        pytest.param(ROUNDS.replace("train.py", "other.py"), id="another script"),
        pytest.param(ROUNDS.replace(" --pai_load_folder PAI", ""), id="without what the last one left"),
        pytest.param(ROUNDS.replace("while true; do", "").replace("\ndone", ""), id="once"),
    ],
)
def test_another_one_is_not(project: Path, rounds: str) -> None:
    (project / "train.py").write_text(LAUNCHED)
    (project / "again.sh").write_text(rounds)
    assert check("train.py").exit_code == 0


def test_an_open_question_does_not_fail_the_command(project: Path) -> None:
    rule = next(rule for rule in load_recipe(rules_folder() / "ddp").rules if rule.code == "PAI228")
    (project / "train.py").write_text(rule.examples[0].bad)
    result = check("--format", "concise", "--select", "PAI228", "train.py")
    assert [result.exit_code, *codes(result)] == [0, "PAI228"]
    assert check("--format", "concise", "--select", "PAI228", "--fail-on", "open", "train.py").exit_code == 1


def test_json_is_json(project: Path) -> None:
    assert json.loads(check("--format", "json", "train.py").stdout)
