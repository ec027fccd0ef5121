"""Scripts that were integrated with an earlier release of the library: brought to the newest one's names first."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrofit.rules_folder import proven_versions, rules_folder
from tests.conftest import SCRIPT
from tests.helpers import plan_of, rewritten
from tests.test_adoption import ADOPTED, PERFORATED, SAME, adopted, body, integrated

OLD = "    model = UPA.initialize_pai(model, save_name='mine', maximizing_score=True)\n"
ALONE = "    optimizer = GPA.pai_tracker.setup_optimizer(model, optimArgs)\n"
PAIR = "    optimizer, _ = GPA.pai_tracker.setup_optimizer(model, optimArgs)\n"


def old(perforated: str = OLD, **blocks: str) -> str:
    """Return a script of an earlier release, in which the optimizer alone is returned."""
    text = integrated(perforated=perforated, **blocks)
    assert PAIR in text
    return text.replace(PAIR, ALONE)


def test_an_old_integration_becomes_what_a_present_one_does(tmp_path: Path) -> None:
    done = adopted(tmp_path, old())
    assert body(done) == ADOPTED
    assert "initialize_pai" not in done


@pytest.mark.parametrize("blocks", SAME.values(), ids=SAME)
def test_with_half_of_the_blocks(tmp_path: Path, blocks: dict[str, str]) -> None:
    unread = "    folder = args.pai_load_folder\n"
    assert body(adopted(tmp_path, old(**blocks))).replace(unread, "") == ADOPTED


BEGINNING = "    pai_distributed.configure_library()\n    with pai_distributed.one_rank_at_a_time():\n        model = "

#: Where the model is perforated, with what becomes of it.
MADE = {
    "nothing given": ("UPA.initialize_pai(model)", "UPA.perforate_model(model, save_name={'PAI'})"),
    "by position": (
        "UPA.initialize_pai(model, True, 'rooms', False, False)",
        "UPA.perforate_model(model, doing_pai=True, save_name={'rooms'}, making_graphs=False, maximizing_score=False)",
    ),
    "the rest by position": (
        "UPA.initialize_pai(model, True, maximizing_score=False)",
        "UPA.perforate_model(model, doing_pai=True, maximizing_score=False, save_name={'PAI'})",
    ),
    "by position in a present one": (
        "UPA.perforate_model(model, True, 'rooms')",
        "UPA.perforate_model(model, doing_pai=True, save_name={'rooms'})",
    ),
}


@pytest.mark.parametrize(("given", "made"), MADE.values(), ids=MADE)
def test_save_name_and_direction_are_kept(tmp_path: Path, given: str, made: str) -> None:
    done = adopted(tmp_path, old(f"    model = {given}\n"))
    made = made.replace("{", "pai_distributed.save_name(").replace("}", ")")
    assert f"{BEGINNING}{made}\n" in done


IMPORTED = {
    "alone": (
        "from perforatedai.utils_perforatedai import initialize_pai",
        "from perforatedai.utils_perforatedai import perforate_model as initialize_pai",
    ),
    "with others": (
        "from perforatedai.utils_perforatedai import load_system, initialize_pai  # both",
        "from perforatedai.utils_perforatedai import load_system, perforate_model as initialize_pai  # both",
    ),
    "by another name": (
        "from perforatedai.utils_perforatedai import (\n    initialize_pai as grow,\n)",
        "from perforatedai.utils_perforatedai import (\n    perforate_model as grow,\n)",
    ),
}


@pytest.mark.parametrize(("given", "made"), IMPORTED.values(), ids=IMPORTED)
def test_imports_take_the_new_name(tmp_path: Path, given: str, made: str) -> None:
    name = "grow" if "grow" in given else "initialize_pai"
    done = adopted(tmp_path, old(f"    model = {name}(model, save_name='mine')\n", before=f"{given}\n", load=""))
    assert f"{made}\n" in done
    assert f"model = {name}(model, save_name=pai_distributed.save_name('mine'))" in done


def test_settings_in_a_module_that_nothing_else_changes(tmp_path: Path) -> None:
    (tmp_path / "chosen.py").write_text(
        "from perforatedai import globals_perforatedai as GPA\n\nGPA.pc.set_input_dimensions([-1, 0])\n"
    )
    text = old(before="import chosen\n")
    files = {file.path.name: file.after.decode() for file in plan_of(tmp_path, text).files}
    assert "GPA.pc.set_output_dimensions([-1, 0])" in files["chosen.py"]


def test_a_copy_of_the_library_itself_is_left_alone_and_told(tmp_path: Path) -> None:
    library = tmp_path / "perforatedai"
    library.mkdir()
    names = {"__init__": "", "globals_perforatedai": "", "utils_perforatedai": ""}
    names["utils_perforatedai"] = (
        "from perforatedai import globals_perforatedai as GPA\n\n\ndef initialize_pai(model, save_name='PAI'):\n"
        "    kinds = GPA.pc.get_modules_to_convert()\n    return GPA.pai_tracker.initialize(model, kinds)\n"
    )
    for name, text in names.items():
        (library / f"{name}.py").write_text(text)
    plan = plan_of(tmp_path, old())
    assert plan.questions == []
    assert "UPA.perforate_model(" in rewritten(plan)
    assert not [file for file in plan.files if file.path.parent == library]
    [note] = [note for note in plan.notes if note.code == "RF039"]
    assert note.file == "perforatedai"


def test_names_in_a_module_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "grown.py").write_text(
        "from perforatedai import utils_perforatedai as U\n\n\ndef grow(net):\n"
        "    net = U.initialize_pai(net, True, 'mine')\n    return net\n"
    )
    text = old("    model = grow(model)\n", before="from grown import grow\n", load="")
    files = {file.path.name: file.after.decode() for file in plan_of(tmp_path, text).files}
    assert "U.perforate_model(net, doing_pai=True, save_name=" in files["grown.py"]


TAKEN = {
    "of an object": ("    self.optimizer = {}\n", "    self.optimizer, _ = {}\n"),
    "typed": ("    optimizer: object = {}\n", "    optimizer: object = {}[0]\n"),
    "none for a scheduler": ("    optimizer = {None}\n", "    optimizer, _ = {None}\n"),
    "a pair by arguments": ("    optimizer, scheduler = {s}\n", "    optimizer, scheduler = {s}\n"),
    "already of the pair": ("    optimizer = {}[0]\n", "    optimizer = {}[0]\n"),
}


@pytest.mark.parametrize(("given", "made"), TAKEN.values(), ids=TAKEN)
def test_the_optimizer_is_taken_out_of_the_pair(tmp_path: Path, given: str, made: str) -> None:
    def filled(text: str) -> str:
        for mark, more in (("{}", ""), ("{None}", ", None"), ("{s}", ", schedArgs")):
            text = text.replace(mark, f"GPA.pai_tracker.setup_optimizer(model, optimArgs{more})")
        return text

    text = f"""\
from perforatedai import globals_perforatedai as GPA
from perforatedai import utils_perforatedai as UPA
from torch.nn.parallel import DistributedDataParallel


def build(self, model, optimArgs, schedArgs):
    model = UPA.initialize_pai(model, save_name='mine')
{filled(given)}    self.model = DistributedDataParallel(model)
"""
    assert changed(tmp_path, text) == text.replace("initialize_pai", "perforate_model").replace(
        filled(given), filled(made)
    )


def changed(folder: Path, text: str) -> str:
    """Return a script as the rules of the first stage leave it, whatever the others say of it."""
    return plan_of(folder, text).script.index.source.text


#: Settings, with what becomes of them.
SET = {
    "another name": ("GPA.pc.set_input_dimensions([-1, 0])", "GPA.pc.set_output_dimensions([-1, 0])"),
    "a list that is added to": (
        "GPA.pc.append_modules_to_convert([nn.GRU])",
        "GPA.pc.append_modules_to_perforate([nn.GRU])",
    ),
    "types alone": (
        "GPA.pc.set_modules_to_convert([nn.Linear])",
        "GPA.pc.set_module_names_to_perforate(['PAISequential'])\nGPA.pc.set_modules_to_perforate([nn.Linear])",
    ),
    "names alone": (
        "GPA.pc.set_module_names_to_convert(['Block'])",
        "GPA.pc.set_module_names_to_perforate(['Block'])\n"
        "GPA.pc.append_module_names_to_perforate(['Conv1d', 'Conv2d', 'Conv3d', 'Linear'])",
    ),
    "both": (
        "GPA.pc.set_modules_to_convert([nn.Linear])\nGPA.pc.set_module_names_to_convert(['Block'])",
        "GPA.pc.set_modules_to_perforate([nn.Linear])\nGPA.pc.set_module_names_to_perforate(['Block'])",
    ),
    "types, then more names": (
        "GPA.pc.set_modules_to_convert([nn.Linear])\nGPA.pc.append_module_names_to_convert(['Block'])",
        "GPA.pc.set_module_names_to_perforate(['PAISequential'])\nGPA.pc.set_modules_to_perforate([nn.Linear])\n"
        "GPA.pc.append_module_names_to_perforate(['Block'])",
    ),
    "more names, then types": (
        "GPA.pc.append_module_names_to_convert(['Block'])\nGPA.pc.set_modules_to_convert([nn.Linear])",
        "GPA.pc.set_module_names_to_perforate(['PAISequential'])\nGPA.pc.append_module_names_to_perforate(['Block'])\n"
        "GPA.pc.set_modules_to_perforate([nn.Linear])",
    ),
    "what is there": (
        "GPA.pc.set_module_names_to_convert(GPA.pc.get_module_names_to_convert())",
        "GPA.pc.set_module_names_to_perforate(GPA.pc.get_module_names_to_perforate())",
    ),
    "types, then what is there and more names": (
        "GPA.pc.set_modules_to_convert([nn.Linear])\n"
        "GPA.pc.set_module_names_to_convert(GPA.pc.get_module_names_to_convert() + ['Block'])",
        "GPA.pc.set_module_names_to_perforate(['PAISequential'])\nGPA.pc.set_modules_to_perforate([nn.Linear])\n"
        "GPA.pc.set_module_names_to_perforate(GPA.pc.get_module_names_to_perforate() + ['Block'])",
    ),
    "present ones": ("GPA.pc.set_n_epochs_to_switch(3)", "GPA.pc.set_n_epochs_to_switch(3)"),
    "of an add-on": ("GPA.pc.set_p_epochs_to_switch(3)", "GPA.pc.set_p_epochs_to_switch(3)"),
}


@pytest.mark.parametrize(("given", "made"), SET.values(), ids=SET)
def test_settings_are_kept(tmp_path: Path, given: str, made: str) -> None:
    assert f"\n{made}\n" in adopted(tmp_path, old(before=f"{given}\n"))


def test_what_is_read_in_one_of_two_ways_is_told(tmp_path: Path) -> None:
    text = old(before="GPA.pc.set_modules_to_convert([nn.Linear])\n")
    [note] = [note for note in plan_of(tmp_path, text).notes if note.code == "PAI032"]
    assert text.splitlines()[note.line - 1] == "GPA.pc.set_modules_to_convert([nn.Linear])"
    assert "take that line out" in note.message


def test_a_setting_that_no_release_has_is_left_and_told(tmp_path: Path) -> None:
    for text in (
        old(before="GPA.pc.set_n_epoch_to_switch(3)\n"),
        integrated(before="GPA.pc.set_n_epoch_to_switch(3)\n"),
    ):
        plan = plan_of(tmp_path, text)
        [note] = [note for note in plan.notes if note.code == "PAI032"]
        assert text.splitlines()[note.line - 1] == "GPA.pc.set_n_epoch_to_switch(3)"
        assert "n_epochs_to_switch?" in note.message
        assert "GPA.pc.set_n_epoch_to_switch(3)\n" in rewritten(plan)


ASKED = {
    "no successor that means the same": (
        "from perforatedai import modules_perforatedai as MPA\nnames = MPA.DENDRITE_SAVE_VALUES\n",
        "names = MPA.DENDRITE_SAVE_VALUES",
        "PAI031",
    ),
    "a list that is read for another": (
        "GPA.pc.set_modules_to_track(GPA.pc.get_modules_to_convert())\n",
        "GPA.pc.set_modules_to_track(GPA.pc.get_modules_to_convert())",
        "PAI031",
    ),
    "a list that is read": (
        "kinds = GPA.pc.get_modules_to_convert()\n",
        "kinds = GPA.pc.get_modules_to_convert()",
        "PAI031",
    ),
    "a name that may be lost": (
        "if nn:\n    GPA.pc.append_module_names_to_convert(['Block'])\nGPA.pc.set_modules_to_convert([nn.Linear])\n",
        "GPA.pc.set_modules_to_convert([nn.Linear])",
        "PAI032",
    ),
    "a setting with another meaning": ("GPA.pc.set_metric('acc')\n", "GPA.pc.set_metric('acc')", "PAI032"),
}


@pytest.mark.parametrize(("before", "line", "rule"), ASKED.values(), ids=ASKED)
def test_what_does_not_mean_the_same_is_asked(tmp_path: Path, before: str, line: str, rule: str) -> None:
    text = old(before=before)
    [question] = plan_of(tmp_path, text).questions
    assert (question.code, text.splitlines()[question.line - 1]) == (rule, line)


def test_the_coming_release_is_asked_about_beside_blocks_that_are_replaced(tmp_path: Path) -> None:
    text = integrated("", perforated="    model = UPA.initialize_dendrites(model, torch.randn(1, 4))\n")
    assert [question.code for question in plan_of(tmp_path, text).questions] == ["PAI108"]


def test_a_script_that_asks_what_there_is_keeps_both(tmp_path: Path) -> None:
    text = integrated(before="grow = UPA.initialize_pai if hasattr(UPA, 'initialize_pai') else UPA.perforate_model\n")
    assert "grow = UPA.initialize_pai if hasattr(UPA, 'initialize_pai') else UPA.perforate_model\n" in adopted(
        tmp_path, text
    )


TRIED = {
    "the library may not be there": (
        "    try:\n        model = UPA.initialize_pai(model, save_name='mine')\n"
        "    except ImportError:\n        sys.exit(1)\n",
        "UPA.perforate_model(model, save_name=pai_distributed.save_name('mine'))",
    ),
    "both names": (
        "    try:\n        model = UPA.perforate_model(model, save_name='mine')\n"
        "    except AttributeError:\n        model = UPA.initialize_pai(model, save_name='mine')\n",
        "",
    ),
}


@pytest.mark.parametrize(("given", "made"), TRIED.values(), ids=TRIED)
def test_what_is_tried_is_left_alone_only_beside_its_successor(tmp_path: Path, given: str, made: str) -> None:
    plan = plan_of(tmp_path, old(given, load=""))
    assert [question.code for question in plan.questions] == ([] if made else ["PAI108"])
    assert not made or made in rewritten(plan)


def test_a_present_script_keeps_what_it_calls_a_pair(tmp_path: Path) -> None:
    text = integrated(perforated=PERFORATED).replace(
        PAIR, "    made = GPA.pai_tracker.setup_optimizer(model, optimArgs)\n    optimizer = made[0]\n"
    )
    assert "    made = GPA.pai_tracker.setup_optimizer(model, optimArgs)\n" in rewritten(plan_of(tmp_path, text))


def test_another_release_than_the_recipe_was_proven_with_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for installed, told in (("3.2.9", []), ("3.3.0", ["perforatedai 3.3.0"])):
        monkeypatch.setattr("retrofit.plan.version", lambda package, installed=installed: installed)
        notes = plan_of(tmp_path, SCRIPT).notes
        assert [note.file for note in notes if note.code == "RF041"] == told


def test_the_helper_knows_the_releases_that_the_recipe_was_proven_with() -> None:
    text = (rules_folder() / "perforatedai" / "pai_distributed" / "library.py").read_text()
    known = ", ".join(f'"{release}"' for release in proven_versions()["perforatedai"])
    assert f"_pai_proven = ({known},)\n" in text


OPTIMIZER = "    GPA.pai_tracker.set_optimizer(torch.optim.SGD)\n"


def test_a_method_that_the_tracker_never_had_is_asked_about_with_the_one_that_is_meant(tmp_path: Path) -> None:
    text = integrated()
    assert OPTIMIZER in text
    [question] = plan_of(tmp_path, text.replace("set_optimizer(", "setOptimizer(")).questions
    assert (question.code, question.line) == ("PAI041", text[: text.index(OPTIMIZER)].count("\n") + 1)
    assert "`setOptimizer`" in question.message
    assert "Did you mean set_optimizer?" in question.message


POSSIBLE = {
    "asked for first": (
        "    if hasattr(GPA.pai_tracker, 'setOptimizer'):\n        GPA.pai_tracker.setOptimizer(torch.optim.SGD)\n"
    ),
    "a part of it": "    GPA.pai_tracker.member_vars.get('mode')\n",
    "of another object": "    held = argparse.Namespace(setOptimizer=print)\n    held.setOptimizer(torch.optim.SGD)\n",
}


@pytest.mark.parametrize("more", POSSIBLE.values(), ids=POSSIBLE)
def test_and_not_where_it_may_be_there(tmp_path: Path, more: str) -> None:
    done = adopted(tmp_path, integrated().replace(OPTIMIZER, f"{OPTIMIZER}{more}"))
    assert body(done) == ADOPTED.replace(OPTIMIZER, f"{OPTIMIZER}{more}")


def test_a_training_that_another_library_owns_is_refused_before_its_settings_are_asked_about(tmp_path: Path) -> None:
    asked = "import transformers\n" + integrated(before="GPA.pc.set_metric('acc')\n")
    start = asked.index("    for epoch in")
    owned = asked[:start] + "    transformers.Trainer(model=model).train()\n" + asked[asked.index("\n\nif __name__") :]
    assert {question.code for question in plan_of(tmp_path, asked).questions} == {"PAI032"}
    assert {question.code for question in plan_of(tmp_path, owned).questions} == {"PAI100"}
