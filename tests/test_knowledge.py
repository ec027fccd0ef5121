"""What is known of libraries: each entry is tested by its own example, and mistakes in files of it are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2.exceptions import UndefinedError

from retrofit.check.checker import Checker
from retrofit.check.settings import Settings
from retrofit.errors import UserError
from retrofit.knowledge import Knowledge, knowledge_folder, load_knowledge, read_entries
from retrofit.knowledge.kinds import Entry, Fresh, Wraps
from retrofit.source import Source
from retrofit.survey.script import Choices, survey
from retrofit.templates import RuleEnvironment
from tests.conftest import Folder

ENTRIES = [(path.stem, entry) for path in sorted(knowledge_folder().glob("*.toml")) for entry in read_entries(path)]


def finds(entry: Entry, knowledge: Knowledge) -> bool:
    """Whether what an entry's example should show is found by some knowledge."""
    source = Source(Path("/project/train.py"), entry.example.encode(), "train.py")
    names: dict[str, object] = {}
    if "codes" in entry.finds:
        checked = Checker().check(source.path, "train.py", source.data, Settings(), knowledge=knowledge)
        assert checked.problem is None
        names["codes"] = [finding.code for finding in checked.findings]
    if "script" in entry.finds:
        names["script"] = survey(source, Choices(knowledge=knowledge))
    try:
        return bool(RuleEnvironment().compile_expression(entry.finds, undefined_to_none=False)(**names) is True)
    except UndefinedError:  # of a list that is empty
        return False


def names_of(library: str, entry: Entry) -> str:
    return f"{library}-{[*entry.all_names, *entry.methods, *getattr(entry, 'modules', ())][0]}"


@pytest.mark.parametrize(("library", "entry"), ENTRIES, ids=[names_of(*one) for one in ENTRIES])
def test_entry_is_what_its_example_is_understood_by(library: str, entry: Entry) -> None:
    known = load_knowledge()
    rest = [one for one in known.entries if one != entry]
    assert len(rest) == len(known.entries) - 1
    assert finds(entry, known)
    assert not finds(entry, Knowledge(rest))


def test_of_several_entries_for_a_name_the_last_one_counts() -> None:
    name = "torch.nn.DataParallel"
    known = load_knowledge()
    assert Knowledge([*known.entries, Wraps(by="ddp", names=(name,))]).named(Wraps)[name].by == "ddp"


@pytest.mark.parametrize(
    ("name", "found"), [("time.time", True), ("time", False), ("timeit.time", False), ("datetime.datetime.now", True)]
)
def test_a_star_is_all_of_a_module(name: str, found: bool) -> None:
    assert (load_knowledge().known(Fresh, name) is not None) is found


# ---- what a project knows by itself

OURS = """\
[[wraps]]
by = "ddp"
names = ["mylib.smart_wrap"]

[[optimizer]]
names = ["mylib.Lamb"]

[[backpropagates]]
names = ["mylib.Scaler", "mylib.go_back"]
loss = {loss = 0}
optimizer = {optimizer = 1}
"""
SETTINGS = '[tool.retrofit]\nknowledge = ["tools/mylib.toml"]\n'
SCRIPT = """\
import mylib

loader = torch.utils.data.DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = mylib.smart_wrap(Net())
first = mylib.Lamb(model.parameters(), lr=0.1)
amp = mylib.Scaler()
best = 0.0
for epoch in range(9):
    for x, y in loader:
        amp(criterion(model(x), y), first)
    acc = validate(model)
    if acc > best:
        best = acc
"""


def test_apply_understands_what_a_project_says_of_a_library(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    assert folder.run("apply", "train.py").code == 2
    folder.write("pyproject.toml", SETTINGS)
    folder.write("tools/mylib.toml", OURS)
    answer = folder.run("apply", "train.py")
    assert (answer.code, answer.err) == (0, "")
    text = folder.text("train.py")
    assert "mylib.smart_wrap(model, find_unused_parameters=pai_distributed.finds_unused_parameters())" in text
    assert "GPA.pai_tracker.set_optimizer_instance(first)" in text
    assert "        pai_distributed.fill_missing_gradients(model)\n        amp(criterion(model(x), y), first)\n" in text
    assert folder.run("apply", "train.py").out.startswith("train.py: nothing to do")


def test_a_function_backpropagates_as_an_object_does(folder: Folder) -> None:
    folder.write("tools/mylib.toml", OURS)
    folder.write("train.py", SCRIPT.replace("amp(", "mylib.go_back("))
    assert folder.run("apply", "--knowledge", "tools/mylib.toml", "train.py").code == 0
    assert "fill_missing_gradients(model)\n        mylib.go_back(" in folder.text("train.py")


def test_a_wrapper_is_given_no_argument_that_it_is_known_not_to_take(folder: Folder) -> None:
    folder.write("tools/mylib.toml", OURS.replace("[[optimizer]]", 'parameters = ["model"]\n\n[[optimizer]]'))
    folder.write("train.py", SCRIPT)
    assert folder.run("apply", "--knowledge", "tools/mylib.toml", "train.py").code == 0
    assert "mylib.smart_wrap(model)\n" in folder.text("train.py")


def test_apply_reads_the_modules_that_use_what_a_project_knows(folder: Folder) -> None:
    folder.write("pyproject.toml", SETTINGS)
    folder.write("tools/mylib.toml", OURS)
    folder.write("wrapping.py", "import mylib\ndef wrapped(net):\n    return mylib.smart_wrap(net)\n")
    text = SCRIPT.replace("mylib.smart_wrap(", "wrapping.wrapped(").replace("import ", "import wrapping, ")
    folder.write("train.py", text)
    answer = folder.run("inspect", "train.py")
    assert answer.code == 0
    assert "wrapping.py" in answer.out


@pytest.mark.parametrize(
    ("known", "found"), [("", False), (OURS, True), (OURS.replace("mylib.Scaler", "mylib.Other"), False)]
)
def test_check_understands_what_a_project_says_of_a_library(folder: Folder, known: str, found: bool) -> None:
    folder.write("train.py", "import torch.distributed as dist\ndist.init_process_group('nccl')\n" + SCRIPT)
    folder.write("pyproject.toml", SETTINGS)
    folder.write("tools/mylib.toml", known)
    assert ("DDP201" in folder.run("check", ".").out) is found


@pytest.mark.parametrize(("call", "passed"), [("smart_wrap(Net(), no_such=1)", False), ("prepare(Net())", True)])
def test_check_passes_over_no_file_that_uses_what_its_project_knows(folder: Folder, call: str, passed: bool) -> None:
    folder.write("sub/train.py", f"import mylib\nmodel = mylib.{call}\n")
    folder.write("pyproject.toml", SETTINGS)
    folder.write("tools/mylib.toml", OURS)
    answer = folder.run("check", "-v", "sub")
    assert ("DDP108" not in answer.out) is passed
    assert ("passed over, nothing in it" in answer.err) is passed


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[wrap]]\n", ":1:1: RF043 knows no kind of entry 'wrap'. Did you mean wraps?"),
        ("[wraps]\n", ":1:1: RF043 wraps must be written as [[wraps]]."),
        ("\n[[wraps]]\nnames = ['a.b']\n", ":2:1: RF043 [[wraps]] lacks by."),
        ("[[wraps]]\nby = 'fsdp'\n", ":1:1: RF043 [[wraps]] by is 'fsdp'; it must be ddp or dp."),
        ("[[wraps]]\nby = 'dp'\n", ":1:1: RF043 [[wraps]] names nothing: give it names or methods."),
        ("[[loss]]\nname = ['a.b']\n", ":1:1: RF043 [[loss]] has the unknown key 'name'. Did you mean names?"),
        ("[[loss]]\nnames = 'a.b'\n", ":1:1: RF043 [[loss]] names is 'a.b'; it must be a list of strings."),
        (
            "[[loss]]\nnames = ['a.b']\nexample = '''\n[[loss]]\n'''\n[[loss]]\nnames = ['a.c']\ntensors = ['w']\n",
            ":6:1: RF043 [[loss]] tensors is ['w']; it must be a table such as {loss = 0}.",
        ),
        (
            "[[optimizer]]\nsignatures = {a = 3}\n",
            ":1:1: RF043 [[optimizer]] a is 3; it must be a list of strings.",
        ),
        ("[[wraps\n", ": RF043 is no valid TOML file: "),
    ],
)
def test_a_mistake_is_one_line_with_its_place(folder: Folder, text: str, told: str) -> None:
    folder.write("pyproject.toml", SETTINGS)
    folder.write("tools/mylib.toml", text)
    folder.write("train.py", SCRIPT)
    for command in ("check", "apply", "inspect"):
        answer = folder.run(command, "train.py")
        assert answer.code == 2
        assert answer.err.count("\n") == 1
        assert answer.err.startswith(f"{Path('tools/mylib.toml')}{told}")


def test_a_file_that_is_not_there_is_told(folder: Folder) -> None:
    folder.write("train.py", SCRIPT)
    for command in ("check", "apply"):
        answer = folder.run(command, "--knowledge", "none.toml", "train.py")
        assert (answer.code, answer.err) == (2, "none.toml: RF043 cannot be read: No such file or directory.\n")


def test_mistakes_of_own_entries_are_mistakes_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("[[loss]]\nnames = ['a.b']\nfinds = 3\n")
    with pytest.raises(UserError, match="finds is 3; it must be a string"):
        read_entries(path)
