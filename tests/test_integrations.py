"""Scripts that have dendrites already by another release of the library, or by retrofit."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrofit.options import Options
from tests.conftest import SCRIPT, swapped
from tests.helpers import plan_of, rewritten

_IMPORTS = "from perforatedai import globals_perforatedai as GPA\nfrom perforatedai import utils_perforatedai as UPA\n"
_MODEL = "    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))\n"
PERFORATED = (_MODEL, f"{_MODEL}    model = UPA.perforate_model(model, save_name='mine', maximizing_score=True)\n")


def with_(*pairs: tuple[str, str]) -> str:
    return swapped(SCRIPT, ("import argparse\n", f"import argparse\n\n{_IMPORTS}"), *pairs)


OLDER = {
    "models": ("from perforatedai import models_perforatedai as PM\n", "PM.ResNetPAI(model)"),
    "by its name": (
        "from perforatedai.utils_perforatedai import initialize_dendrites\n",
        "initialize_dendrites(model)",
    ),
    "newer": (_IMPORTS, "UPA.initialize_dendrites(model, torch.zeros(1, 4))"),
    "pb_utils": ("from perforatedai import pb_utils as PBU\n", "PBU.initializePB(model)"),
    "pb_globals": ("from perforatedai import pb_globals as PBG\n", "(PBG.switchMode, model)[1]"),
    "by the whole name": ("import perforatedai.pb_utils\n", "perforatedai.pb_utils.convertNetwork(model)"),
}


@pytest.mark.parametrize(("imports", "made"), OLDER.values(), ids=OLDER)
def test_another_release_is_refused_where_it_is_used(tmp_path: Path, imports: str, made: str) -> None:
    text = swapped(
        SCRIPT, ("import argparse\n", f"import argparse\n\n{imports}"), (_MODEL, f"{_MODEL}    model = {made}\n")
    )
    [question] = [q for q in plan_of(tmp_path, text).questions if q.code == "PAI108"]
    assert text.splitlines()[question.line - 1].strip() == f"model = {made}"
    assert question.message.startswith("`")


def test_what_retrofit_wrote_is_refused_neither_whole_nor_beside_a_single_gpu_integration(tmp_path: Path) -> None:
    for text in (SCRIPT, with_(PERFORATED)):
        first = rewritten(plan_of(tmp_path, text))
        again = plan_of(tmp_path, first)
        assert (again.questions, [file for file in again.files if file.path.name == "train.py"]) == ([], [])


def test_names_of_others_that_sound_alike_are_none_of_the_library(tmp_path: Path) -> None:
    text = swapped(
        SCRIPT,
        (_MODEL, f"{_MODEL}    model = initialize_pai(model)\n"),
        ("def main", "def initialize_pai(net):\n    return net\n\n\ndef main"),
    )
    assert plan_of(tmp_path, text).questions == []


SINGLE = f"""\
import torch
{_IMPORTS}
from data import Net, loader


def validate(model):
    print(f"{{model.kinds}} kinds")
    return 0.5


def main(args):
    model = Net()
    PERFORATED
    model = model.cuda()
    BUILT
    criterion = torch.nn.CrossEntropyLoss()
    for epoch in range(100):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        accuracy = validate(model)
        model, restructured, complete = GPA.pai_tracker.add_validation_score(accuracy, model)
        if complete:
            break
        if restructured:
            arguments = {{"params": model.parameters(), "lr": 0.1}}
            optimizer, _ = GPA.pai_tracker.setup_optimizer(model, arguments)


main(object())
"""
PERFORATES = "model = UPA.perforate_model(model, save_name=args.name, maximizing_score=True)"
BUILDS = """GPA.pai_tracker.set_optimizer(torch.optim.SGD)
    optimizer, _ = GPA.pai_tracker.setup_optimizer(model, {"params": model.parameters(), "lr": 0.1})"""
IN_PARALLEL = Options(data_parallel=True)


def single(perforated: str = PERFORATES, built: str = BUILDS) -> str:
    return swapped(SINGLE, ("PERFORATED", perforated), ("BUILT", built))


def test_a_single_gpu_integration_is_asked_how_it_is_to_be_wrapped_where_it_perforates(tmp_path: Path) -> None:
    [question] = plan_of(tmp_path, single()).questions
    assert (question.code, question.line) == ("PAI101", 15)
    assert "--data-parallel" in question.message


def test_a_single_gpu_integration_gets_a_wrapper_behind_its_optimizer(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, single(), IN_PARALLEL)
    assert [note.code for note in plan.notes] == ["PAI106"]  # the same folder, whatever its name is
    new = rewritten(plan)
    assert "model = torch.nn.DataParallel(model)" in new.partition("setup_optimizer(")[2].partition("criterion")[0]
    assert "getattr(model, 'module', model).kinds" in new  # with the other quotes than the f-string has
    assert "pai_distributed.save_name(args.name)" in new  # no launcher has to know it
    again = plan_of(tmp_path, new, IN_PARALLEL)
    assert (again.questions, [file for file in again.files if file.path.name == "train.py"]) == ([], [])


def test_it_gets_it_behind_the_perforation_where_its_optimizer_is_built_elsewhere(tmp_path: Path) -> None:
    built = "optimizer = build(model)"
    helper = "def build(model):\n    GPA.pai_tracker.set_optimizer(torch.optim.SGD)\n    arguments = "
    helper += (
        '{"params": model.parameters(), "lr": 0.1}\n    return GPA.pai_tracker.setup_optimizer(model, arguments)[0]'
    )
    text = swapped(single(built=built), ("\n\ndef main", f"\n\n{helper}\n\n\ndef main"))
    assert "DataParallel(model)" in rewritten(plan_of(tmp_path, text, IN_PARALLEL)).partition("model.cuda()")[0]


@pytest.mark.parametrize(
    ("perforated", "seen"),
    [
        ("nets = [UPA.perforate_model(model, save_name='mine')]", "gets no name here"),
        (f"{PERFORATES}\n    other = UPA.perforate_model(Net(), save_name='other')", "several models"),
    ],
)
def test_it_is_asked_which_model_is_meant_where_that_is_open(tmp_path: Path, perforated: str, seen: str) -> None:
    text = single(perforated, "optimizer = build(model)")
    assert seen in plan_of(tmp_path, text, IN_PARALLEL).questions[0].message


def test_a_model_that_a_function_perforates_is_wrapped_there_and_asked_where_it_is_used(tmp_path: Path) -> None:
    made = "def build(args):\n    model = Net()\n    if args.plain:\n        model.head = None\n        return model\n"
    made += "    else:\n        PERFORATED\n    return model\n\n\ndef main(args):\n"
    made += "    model = build(args)\n"
    text = swapped(SINGLE, ("def main(args):\n    model = Net()\n    PERFORATED\n", made))
    text = swapped(text, ("PERFORATED", PERFORATES), ("BUILT", BUILDS))
    new = rewritten(plan_of(tmp_path, text, IN_PARALLEL))
    assert "torch.nn.DataParallel(model)" in new.partition("def main")[0]
    assert "getattr(model, 'module', model).kinds" in new
    assert "        model.head = None\n" in new  # where it is in no wrapper


def test_the_scheduler_of_an_optimizer_that_the_script_gives_to_the_tracker_stays(tmp_path: Path) -> None:
    own = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n    "
    own += "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)\n    "
    own += "GPA.pai_tracker.set_optimizer_instance(optimizer)"
    text = swapped(single(built=own), ("        accuracy =", "        scheduler.step()\n        accuracy ="))
    new = rewritten(plan_of(tmp_path, text, IN_PARALLEL))
    assert "    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)\n" in new
    assert "        scheduler.step()\n" in new


def test_it_is_asked_what_a_wrapper_could_do_where_parts_of_the_model_are_called_one_by_one(tmp_path: Path) -> None:
    text = swapped(single(), ("criterion(model(x), y)", "criterion(model.head(model.body(x)), y)"))
    assert "calls `model`" in plan_of(tmp_path, text, IN_PARALLEL).questions[0].message


def test_what_is_saved_of_the_wrapped_model_is_remarked(tmp_path: Path) -> None:
    text = swapped(
        single(), ("        if complete:", "        torch.save(model.state_dict(), 'x.pt')\n        if complete:")
    )
    assert [note.code for note in plan_of(tmp_path, text, IN_PARALLEL).notes] == ["PAI038", "PAI106"]


def test_a_model_that_nobody_knows_is_wrapped(tmp_path: Path) -> None:
    text = swapped(
        single(), ("def main(args):\n    model = Net()\n", "def main(args, model):\n"), ("main(object())\n", "")
    )
    assert "torch.nn.DataParallel(model)" in rewritten(plan_of(tmp_path, text, IN_PARALLEL))


def test_what_is_read_of_the_model_after_a_hand_over_is_asked_of_the_model(tmp_path: Path) -> None:
    text = swapped(single(), ("        if complete:", "        print(model.kinds)\n        if complete:"))
    assert 'print(getattr(model, "module", model).kinds)' in rewritten(plan_of(tmp_path, text, IN_PARALLEL))


def test_a_training_that_is_a_trial_of_many_is_refused_with_dendrites_as_without(tmp_path: Path) -> None:
    text = swapped(single(), ("main(object())", "import wandb\nwandb.agent('sweep', lambda: main(object()))"))
    [question] = plan_of(tmp_path, text, IN_PARALLEL).questions
    assert (question.code, "trial" in question.message) == ("PAI104", True)


@pytest.mark.parametrize("made", ["perforate_model", "initialize_pai"])  # which has a name by itself
def test_a_save_name_that_is_set_later_goes_where_one_is_given(tmp_path: Path, made: str) -> None:
    perforated = "model = UPA.MADE(model)\n    GPA.pc.set_save_name(f'of_{args.name}')"
    text = single(perforated.replace("MADE", made))
    [question] = plan_of(tmp_path, text, IN_PARALLEL).questions
    assert (question.code, "--save-name NAME" in question.message) == ("PAI106", True)
    new = rewritten(plan_of(tmp_path, text, Options(data_parallel=True, save_name="mine")))
    assert 'save_name=pai_distributed.save_name("mine")' in new
    assert "set_save_name" not in new


def test_a_model_that_is_perforated_after_the_training_stays_as_it_is(tmp_path: Path) -> None:
    again = "    best = UPA.perforate_model(Net(), save_name='mine')\n"
    again += "    best = UPA.load_system(best, 'mine', 'best_model', True)"
    text = swapped(single(), ("\n\n\nmain(object())", f"\n{again}\n    print(best)\n\n\nmain(object())"))
    new = rewritten(plan_of(tmp_path, text, IN_PARALLEL))
    assert f"\n{again}\n" in new
    assert new.count("one_rank_at_a_time") == new.count("configure_library") == new.count("load_latest_switch") == 1


LATE = {
    "by a function": "GPA = None\nUPA = None\n\n\ndef begin():\n    global GPA, UPA\n    from perforatedai import "
    "globals_perforatedai as held\n    from perforatedai import utils_perforatedai as used\n    GPA = held\n    UPA = "
    "used\n\n\nbegin()\n",
    "by their names": "import importlib\n\nGPA: object = importlib.import_module('perforatedai.globals_perforatedai')\n"
    "UPA = importlib.import_module('perforatedai.utils_perforatedai')\n",
}


@pytest.mark.parametrize("imported", LATE.values(), ids=LATE)
def test_an_integration_that_imports_the_library_as_it_runs_is_known(tmp_path: Path, imported: str) -> None:
    new = rewritten(plan_of(tmp_path, swapped(single(), (_IMPORTS, imported)), IN_PARALLEL))
    assert "    with pai_distributed.one_rank_at_a_time():\n        model = UPA.perforate_model(" in new
    assert "pai_distributed.add_validation_score(accuracy, model)" in new


def test_a_name_of_two_modules_is_neither(tmp_path: Path) -> None:
    two = LATE["by their names"] + "if late:\n    UPA = importlib.import_module('other')\n"
    [question] = plan_of(tmp_path, swapped(single(), (_IMPORTS, two)), IN_PARALLEL).questions
    assert (question.code, "in a way that is known" in question.message) == ("PAI101", True)


def test_a_search_beside_a_training_of_its_own_is_stopped_where_it_begins(tmp_path: Path) -> None:
    started = "import sys\nimport wandb\n\n\ndef trial():\n    main(wandb.init())\n\n\n"
    chosen = "if 'search' in sys.argv:\n    wandb.agent('sweep', trial)\nelse:\n    main(object())"
    plan = plan_of(tmp_path, swapped(single(), ("main(object())", started + chosen)), IN_PARALLEL)
    assert [(note.code, note.line) for note in plan.notes if note.code == "PAI117"] == [("PAI117", 43)]
    new = rewritten(plan)
    stopped, _, rest = new.partition("    wandb.agent('sweep', trial)\n")
    assert "raise SystemExit(" in stopped.splitlines()[-1]
    assert rest == "else:\n    main(object())\n"
    again = plan_of(tmp_path, new, IN_PARALLEL)
    assert (again.questions, again.notes, [f for f in again.files if f.path.name == "train.py"]) == ([], [], [])


def test_a_module_of_the_models_name_is_no_use_of_the_model(tmp_path: Path) -> None:
    handed = "model, restructured, complete = GPA.pai_tracker.add_validation_score(acc, model)\n"
    loop = "for epoch in range(9):\n    for x, y in loader:\n        optimizer.zero_grad()\n        "
    loop += "loss(model(x), y).backward()\n        optimizer.step()\n    acc = test()\n    "
    text = f"import torch\n{_IMPORTS}from model import Net, loader, loss, test\nmodel = Net()\n"
    text += (
        "model = UPA.perforate_model(model, save_name='mine')\noptimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
    )
    text += f"model = torch.nn.parallel.DistributedDataParallel(model)\n{loop}{handed}    if complete:\n        break\n"
    assert [q.code for q in plan_of(tmp_path, text).questions] == []


def test_what_a_model_has_is_asked_of_the_model_in_its_wrapper(tmp_path: Path) -> None:
    asked = "            if hasattr(model, 'limit') and getattr(model, 'kinds', 0) and hasattr(model, 'module'):\n"
    asked += "                model.limit(1.0)\n"
    text = swapped(single(), ("            optimizer.step()\n", f"            optimizer.step()\n{asked}"))
    new = rewritten(plan_of(tmp_path, text, IN_PARALLEL))
    inner = 'getattr(model, "module", model)'
    assert f"if hasattr({inner}, 'limit') and getattr({inner}, 'kinds', 0) and hasattr(model, 'module'):" in new
    assert f"{inner}.limit(1.0)" in new
    again = plan_of(tmp_path, new, IN_PARALLEL)
    assert (again.questions, [file for file in again.files if file.path.name == "train.py"]) == ([], [])


@pytest.mark.parametrize(
    ("moved", "told"),
    [
        ("model.to(DEVICE)", True),
        ("model.cuda()", False),
        ("model.to('cuda')", False),
        ("model.to(f'cuda:{args.gpu}')", False),
        ("model.to(torch.device(torch.cuda.current_device()))", False),
    ],
)
def test_a_script_that_knows_no_gpu_is_told_where_its_model_must_be(tmp_path: Path, moved: str, told: bool) -> None:
    plan = plan_of(tmp_path, swapped(single(), ("model.cuda()", moved)), IN_PARALLEL)
    assert ("names a GPU" in " ".join(note.message for note in plan.notes)) == told


MPS = {
    "by a condition": ("'mps' if torch.backends.mps.is_available() else 'cpu'", True),
    "as it is": ("'mps:0'", True),
    "beside CUDA": ("'cuda' if torch.cuda.is_available() else 'mps'", False),
    "of another meaning": ("{'mps': 'cpu'}['mps']", False),
}


@pytest.mark.parametrize(("device", "asked"), MPS.values(), ids=MPS)
def test_a_script_on_the_one_gpu_of_an_apple_is_asked_where_it_names_it(
    tmp_path: Path, device: str, asked: bool
) -> None:
    moved = f"device = torch.device({device})\n    model.to(device)"
    plan = plan_of(tmp_path, swapped(single(), ("model.cuda()", moved)), IN_PARALLEL)
    assert [(one.code, one.line) for one in plan.questions] == [("PAI038", 16)] * asked


AFTER = {
    "moved to be used": ("    bare = model.to('cpu')\n", "    bare = {}.to('cpu')\n"),
    "as a device": ("    use(model.to(torch.device('cpu')))\n", "    use({}.to(torch.device('cpu')))\n"),
    "by its method": (
        "    torch.save(model.cpu().state_dict(), 'x')\n",
        "    torch.save({}.cpu().state_dict(), 'x')\n",
    ),
    "loaded into": (
        "    model = UPA.load_system(model, 'mine', 'best_model', True)\n",
        "    model = UPA.load_system({}, 'mine', 'best_model', True)\n",
    ),
    "moved where it is": ("    model.cpu()\n", "    model.cpu()\n"),
    "moved back": ("    model = model.to('cuda')\n", "    model = model.to('cuda')\n"),
    "under its name": ("    model = model.to('cpu')\n", "    model = model.to('cpu')\n"),
}


@pytest.mark.parametrize(("line", "written"), AFTER.values(), ids=AFTER)
def test_what_is_used_on_the_cpu_or_loaded_into_is_the_model_without_its_wrapper(
    tmp_path: Path, line: str, written: str
) -> None:
    text = swapped(single(), ("\n\n\nmain(object())", f"\n{line}\n\nmain(object())"))
    new = rewritten(plan_of(tmp_path, text, IN_PARALLEL))
    assert written.format('getattr(model, "module", model)') in new


def test_what_is_asked_of_the_model_before_it_is_wrapped_stays_as_it_is(tmp_path: Path) -> None:
    early = "    for kind in model.kinds:\n        if kind:\n            model.limit(kind)\n"
    text = swapped(single(), ("    model = model.cuda()\n", f"{early}    model = model.cuda()\n"))
    assert early in rewritten(plan_of(tmp_path, text, IN_PARALLEL))


def test_a_model_that_is_perforated_where_it_is_keeps_its_name(tmp_path: Path) -> None:
    alone = PERFORATES.removeprefix("model = ")
    assert rewritten(plan_of(tmp_path, single(alone), IN_PARALLEL)) == rewritten(
        plan_of(tmp_path, single(), IN_PARALLEL)
    )


def test_a_layer_that_a_model_gets_after_its_dendrites_is_asked_about(tmp_path: Path) -> None:
    layer = "    model.head = torch.nn.Linear(8, 2)\n"
    late = swapped(single(), ("    model = model.cuda()\n", f"{layer}    model = model.cuda()\n"))
    [question] = plan_of(tmp_path, late, IN_PARALLEL).questions
    assert (question.code, question.line) == ("PAI118", 15)
    assert "line 16" in question.message
    early = swapped(single(), ("    model = Net()\n", f"    model = Net()\n{layer}"))
    assert plan_of(tmp_path, early, IN_PARALLEL).questions == []


_REBUILDS = """\
        if restructured:
            arguments = {"params": model.parameters(), "lr": 0.1}
            optimizer, _ = GPA.pai_tracker.setup_optimizer(model, arguments)
"""
_NAMED = ("args.name", "'mine'")
GOES_ON = {
    "nothing at all": ("", "        pai_distributed.report_validation_score(accuracy, model)\n"),
    "a fixed word": (
        "        if restructured:\n            print('more of them')\n",
        "        pai_distributed.report_validation_score(accuracy, model)\n",
    ),
    "something else": (
        "        if restructured:\n            print('more of them', epoch)\n",
        "        model, restructured, complete = pai_distributed.add_validation_score(accuracy, model)\n",
    ),
}


@pytest.mark.parametrize(("done", "handed"), GOES_ON.values(), ids=GOES_ON)
def test_where_no_optimizer_is_built_anew_training_restarts(tmp_path: Path, done: str, handed: str) -> None:
    new = rewritten(plan_of(tmp_path, swapped(single(), _NAMED, (_REBUILDS, done)), IN_PARALLEL))
    assert "    pai_distributed.configure_library()\n" in new
    assert handed in new
    again = plan_of(tmp_path, new, IN_PARALLEL)
    assert (again.questions, [file for file in again.files if file.path.name == "train.py"]) == ([], [])


@pytest.mark.parametrize(
    "done",
    [
        _REBUILDS,
        "        if restructured:\n            optimizer = torch.optim.SGD(model.parameters())\n"
        "            GPA.pai_tracker.set_optimizer_instance(optimizer)\n",
        "        if restructured:\n            print('enough')\n            exit(0)\n",
    ],
    ids=["by the tracker", "by itself", "the end"],
)
def test_a_script_that_does_what_it_must_when_restructured_goes_on(tmp_path: Path, done: str) -> None:
    new = rewritten(plan_of(tmp_path, swapped(single(), _NAMED, (_REBUILDS, done)), IN_PARALLEL))
    assert "    pai_distributed.configure_library(restarts=False)\n" in new
    assert done in new


def test_a_script_that_ends_when_restructured_goes_on_under_any_name_of_the_model(tmp_path: Path) -> None:
    handed = "model, restructured, complete = GPA"
    ends = "        if restructured:\n            exit(0)\n        model = grown\n"
    text = swapped(single(), _NAMED, (_REBUILDS, ends), (handed, handed.replace("model", "grown")))
    assert "    pai_distributed.configure_library(restarts=False)\n" in rewritten(plan_of(tmp_path, text, IN_PARALLEL))


def test_it_goes_on_in_a_loop_that_asks_whether_training_is_complete(tmp_path: Path) -> None:
    loop = "    complete = False\n    while not complete:\n"
    text = swapped(
        single(), _NAMED, ("    for epoch in range(100):\n", loop), ("        if complete:\n            break\n", "")
    )
    new = rewritten(plan_of(tmp_path, text, IN_PARALLEL))
    assert "    pai_distributed.configure_library(restarts=False)\n" in new


FRESH = {
    "time": ("import time\n", "f'run_{time.time()}'"),
    "date": ("import datetime\n", "'run' + datetime.datetime.now().strftime('%H%M')"),
    "a run's id": ("import wandb\n", "f'run_{wandb.init().id}'"),
}


@pytest.mark.parametrize(("imported", "name"), FRESH.values(), ids=FRESH)
def test_a_save_name_that_is_another_one_at_each_start_is_asked_for(tmp_path: Path, imported: str, name: str) -> None:
    text = swapped(single(), ("import torch\n", f"{imported}import torch\n"), ("args.name", name))
    [question] = plan_of(tmp_path, text, IN_PARALLEL).questions
    assert (question.code, "--save-name" in question.message) == ("PAI119", True)
    plan = plan_of(tmp_path, text, Options(data_parallel=True, save_name="mine"))
    assert 'save_name=pai_distributed.save_name("mine")' in rewritten(plan)
    fixed = swapped(single(), ("args.name", "f'run_{args.kind}'"))
    assert plan_of(tmp_path, fixed, IN_PARALLEL).questions == []


SLASHED = {
    "written": ("'runs/rooms'", "has"),
    "joined": ("os.path.join('runs', args.kind)", "has"),
    "in a folder that may be none": ("os.path.join(args.kind, 'rooms')", "may have"),
    "in a text": ("f'{args.kind}/rooms'", "has"),
}


@pytest.mark.parametrize(("name", "says"), SLASHED.values(), ids=SLASHED)
def test_a_save_name_with_a_slash_is_asked_for(tmp_path: Path, name: str, says: str) -> None:
    text = swapped(single(), ("import torch\n", "import os\nimport torch\n"), ("args.name", name))
    [question] = plan_of(tmp_path, text, IN_PARALLEL).questions
    assert (question.code, question.line) == ("PAI120", 16)
    assert f"{says} a slash" in question.message
    assert "--save-name NAME" in question.message
    plan = plan_of(tmp_path, text, Options(data_parallel=True, save_name="mine"))
    assert 'save_name=pai_distributed.save_name("mine")' in rewritten(plan)
    fixed = swapped(text, (name, "os.path.basename(args.kind)"))
    assert plan_of(tmp_path, fixed, IN_PARALLEL).questions == []


@pytest.mark.parametrize(("given", "told"), [("args.old", ["PAI030"]), ("'mine'", [])])
def test_a_folder_of_the_users_choice_that_is_loaded_no_more_is_named(
    tmp_path: Path, given: str, told: list[str]
) -> None:
    loads = f"    if args.old:\n        model = UPA.load_system(model, {given}, 'latest', True)\n"
    wrapped = "    model = torch.nn.parallel.DistributedDataParallel(model)\n    criterion ="
    text = swapped(single(), ("    model = model.cuda()\n", f"{loads}    model = model.cuda()\n"))
    plan = plan_of(tmp_path, swapped(text, ("    criterion =", wrapped)), Options(save_name="mine"))
    assert [(n.code) for n in plan.notes if n.code == "PAI030"] == told
    assert "load_system" not in rewritten(plan)


BASELINE = """def baseline(model, optimizer, criterion):
    for epoch in range(9):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        print(validate(model))


def main"""


@pytest.mark.parametrize("loop", ["for epoch in range(100)", "while True"])
def test_of_two_trainings_the_one_that_hands_its_score_over_is_taken(tmp_path: Path, loop: str) -> None:
    given = "    if args.plain:\n        return baseline(model, optimizer, torch.nn.MSELoss())\n    criterion ="
    text = swapped(
        single(), ("def main", BASELINE), ("    criterion =", given), ("    for epoch in range(100)", f"    {loop}")
    )
    new = rewritten(plan_of(tmp_path, text, IN_PARALLEL))
    before, _, after = new.partition("def main")
    assert ("finish_initialization()" in before, "finish_initialization()" in after) == (False, True)
    again = plan_of(tmp_path, new, IN_PARALLEL)
    assert (again.questions, [file for file in again.files if file.path.name == "train.py"]) == ([], [])


@pytest.mark.parametrize("forced", ["epoch == 9", "force_switch=epoch == 9"])
def test_a_switch_that_the_script_forces_is_handed_on(tmp_path: Path, forced: str) -> None:
    given = "GPA.pai_tracker.add_validation_score(accuracy, model"
    text = swapped(single(), (f"{given})", f"{given}, {forced})"))
    assert f"= pai_distributed.add_validation_score(accuracy, model, {forced})" in rewritten(
        plan_of(tmp_path, text, IN_PARALLEL)
    )
    wrapped = ("    criterion =", "    model = torch.nn.parallel.DistributedDataParallel(model)\n    criterion =")
    plan = plan_of(tmp_path, swapped(text, wrapped), Options(save_name="mine"))
    assert f"pai_distributed.add_validation_score(accuracy, model, {forced})" in rewritten(plan)


def test_a_wrapper_of_the_scripts_own_is_left_as_it_is(tmp_path: Path) -> None:
    text = swapped(
        with_(PERFORATED), ("        acc = validate(", "        print(model.kinds)\n        acc = validate(")
    )
    assert rewritten(plan_of(tmp_path, text, IN_PARALLEL)) == rewritten(plan_of(tmp_path, text))


BEFORE_3 = """\
import torch
from perforatedai import pb_globals as PBG
from perforatedai import pb_models as PBM
from perforatedai import pb_utils as PBU

PBG.maxDendrites = 3
model = PBU.initializePB(torch.nn.Linear(4, 2))
PBG.pbTracker.setOptimizer(torch.optim.SGD)
optimizer = PBG.pbTracker.setupOptimizer(model, {"params": model.parameters(), "lr": 0.1})
for epoch in range(100):
    criterion(model(x), y).backward()
    optimizer.step()
    model, improved, restructured, complete = PBG.pbTracker.addValidationScore(validate(model), model, "rooms")
"""


def test_a_script_of_a_release_before_all_on_record_is_told_once_and_what_to_do(tmp_path: Path) -> None:
    [question] = plan_of(tmp_path, BEFORE_3).questions
    assert (question.code, question.line) == ("PAI108", 6)
    assert "before 3.0.0" in question.message
    assert "`UPA.perforate_model(" in question.message


def test_and_of_its_modules_only_where_the_script_uses_them(tmp_path: Path) -> None:
    unused = swapped(single(), ("import torch\n", "import torch\nfrom perforatedai import pb_models as PBM\n"))
    assert [question.code for question in plan_of(tmp_path, unused, IN_PARALLEL).questions] == ["PAI031"]


RETURNED = """def grow(net):
    return UPA.perforate_model(net, save_name='mine')


def main"""
IN_PLACE = "model = UPA.perforate_model(model, save_name='mine')"


@pytest.mark.parametrize(
    ("text", "name", "after"),
    [
        (swapped(single("model = grow(model)"), ("def main", RETURNED)), "net", "return net"),
        (single(f"{IN_PLACE}.cuda()"), "model", "model = model.cuda()"),
    ],
    ids=["returned", "moved"],
)
def test_a_perforated_model_without_a_name_gets_one_by_which_it_is_loaded(
    tmp_path: Path, text: str, name: str, after: str
) -> None:
    new = rewritten(plan_of(tmp_path, text, IN_PARALLEL))
    assert f"        {name} = UPA.perforate_model({name}, " in new
    loaded = new.index(f"    {name} = pai_distributed.load_latest_switch({name}, ")
    assert new.index(f"    {after}\n", loaded) > loaded


OTHER = "base = model\n    model = UPA.perforate_model(base, save_name='mine')"


def test_and_the_name_of_what_is_given_back_where_that_is_another(tmp_path: Path) -> None:
    new = rewritten(plan_of(tmp_path, single(f"{OTHER}.cuda()"), IN_PARALLEL))
    assert "        model = UPA.perforate_model(base, " in new
    loaded = new.index("    model = pai_distributed.load_latest_switch(model, ")
    assert new.index("    model = model.cuda()\n", loaded) > loaded
    read = single(f"{OTHER}.to(next(model.parameters()).device)")
    assert [question.code for question in plan_of(tmp_path, read, IN_PARALLEL).questions] == ["PAI042"]


EITHER = """def grow(net):
    if hasattr(UPA, 'perforate_model'):
        return UPA.perforate_model(net, save_name='mine')
    return UPA.initialize_pai(net, save_name='mine')


def main"""


def test_calls_of_which_one_run_has_one_are_of_one_model(tmp_path: Path) -> None:
    text = swapped(single("model = grow(model)"), ("def main", EITHER))
    assert plan_of(tmp_path, text, IN_PARALLEL).questions == []
    both = text.replace("        return UPA", "        UPA")
    assert [question.code for question in plan_of(tmp_path, both, IN_PARALLEL).questions] == ["PAI038"]


def test_and_one_that_is_put_elsewhere_at_once_is_asked_for_a_name(tmp_path: Path) -> None:
    [question] = plan_of(tmp_path, single(f"model = [{IN_PLACE[8:]}][0]"), IN_PARALLEL).questions
    assert question.code == "PAI042"
