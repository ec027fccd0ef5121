"""The generated helper, rules/perforatedai/pai_distributed/, on the real library.

The scripts in tests/runtime are written as `retrofit apply` writes them, and launched as users launch them, with
two gloo processes where several matter. A cure is tested with and without: taken out, what it cures must happen,
so that it also shows when a later version of the library needs it no more.
"""

import argparse
import ast
import atexit
import contextlib
import copy
import errno
import functools
import importlib.util
import io
import json
import math
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from retrofit.inline import inlining
from tests.forked import training_python
from tests.helpers import index_of, recipe
from tests.launching import free_port

pytestmark = [
    pytest.mark.real,
    # of the library and of torch, where a test uses them in this process
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:unclosed file .*array_dims.csv:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*array_dims.csv:pytest.PytestUnraisableExceptionWarning"),
]

HELPER = Path(__file__).parent.parent / "rules" / "perforatedai" / "pai_distributed"
SCRIPTS = Path(__file__).parent / "runtime"
SECONDS = 180
COPIER = "import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2].partition('=')[2])"
SLOW_RISE = ("--scores", "0.1,0.2,0.3,0.4,0.5,0.6")  # longer than the scheduler's step


class Run(NamedTuple):
    """What a launched script left behind."""

    status: int
    output: str
    folder: Path

    def rank(self, number: int) -> dict[str, Any]:
        """What train_ddp.py says of a rank."""
        return dict(json.loads((self.folder / f"rank{number}.json").read_text()))

    def switches(self, save: str = "PAI") -> list[str]:
        """The switch files that are there."""
        return sorted(path.name for path in (self.folder / save).glob("switch_*.pt"))


def launch(
    folder: Path,
    *arguments: str,
    script: str = "train_ddp.py",
    ranks: int = 0,
    capacity: bool = False,
    **variables: str,
) -> Run:
    """Launch a script of tests/runtime in a folder: with torchrun, or plainly where no ranks are given."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PAI_")}
    environment |= {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "PYTHONPATH": str(HELPER.parent), **variables}
    if capacity:
        environment["PAI_TESTING_DENDRITE_CAPACITY"] = "1"
    process = subprocess.Popen(
        [training_python(), *(torchrun if ranks else []), str(SCRIPTS / script), *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        pytest.fail(f"No end after {SECONDS} s:\n{output}")
    print(output)
    return Run(process.returncode, output, folder)


def array_dims(save: Path) -> set[str]:
    """The lines, in no order, of the record that the initialisation run makes."""
    return set((save / "array_dims.csv").read_text().splitlines())


def copied(source: Path, target: Path) -> Path:
    """A copy of a run's folder, to go on from."""
    return Path(shutil.copytree(source, target / "copy", dirs_exist_ok=True))


@pytest.fixture(scope="module")
def initialized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder after the initialisation run of the model without anything special."""
    run = launch(tmp_path_factory.mktemp("initialized"), "--perforate_model_parallel")
    assert (run.status, run.rank(0)["phase"]) == (0, "start")
    assert array_dims(run.folder / "PAI") == {".0,1,4", ".3,1,2"}
    return run.folder


@pytest.fixture(scope="module")
def one_switch(initialized: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of two ranks until the first dendrites, whose scores and lengths of tracker strings differ."""
    folder = copied(initialized, tmp_path_factory.mktemp("one_switch"))
    return launch(folder, *SLOW_RISE, "--spread", "0.05", "--extra-score-on-rank-0", ranks=2)


@pytest.fixture(scope="module")
def capacity_rounds(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """A capacity test from the initialisation run to completion, of a model with a three-dimensional output.

    Rank 0 alone has a score, and the library works on it only when rank 1 is as far as it can get.
    """
    folders = tmp_path_factory.mktemp("capacity")
    initialization = launch(folders, "--model", "Sequence", "--perforate_model_parallel", capacity=True)
    rounds = [initialization]
    load: tuple[str, ...] = ()
    while not (rounds[-1].folder / "PAI_capacity_test" / ".training_complete").exists() and len(rounds) < 6:
        folder = folders / f"round {len(rounds)}"
        shutil.copytree(rounds[-1].folder, folder, ignore=shutil.ignore_patterns("round *"))
        arguments = ("--model", "Sequence", "--validate-on-rank-0", "--rank-1-ahead", "--stay", *load)
        rounds.append(launch(folder, *arguments, ranks=2, capacity=True))
        load = ("--pai_load_folder", "PAI_capacity_test")
    return rounds


# ---- Rounds, to the end ------------------------------------------------------------------------------------


def test_restarts_until_complete(capacity_rounds: list[Run]) -> None:
    assert [run.status for run in capacity_rounds] == [0] * 5
    assert [run.switches("PAI_capacity_test") for run in capacity_rounds] == [
        [],
        ["switch_2.pt"],
        ["switch_2.pt", "switch_4.pt"],
        ["switch_2.pt", "switch_4.pt", "switch_6.pt"],
        ["switch_2.pt", "switch_4.pt", "switch_6.pt"],
    ]
    assert "Loaded PAI_capacity_test/switch_6.pt" in capacity_rounds[-1].output
    assert [run.rank(1)["phase"] for run in capacity_rounds[1:]] == ["start"] * 3 + ["after the loop"]


def test_score_of_rank_0_alone_counts(capacity_rounds: list[Run]) -> None:
    assert capacity_rounds[-1].rank(0)["scores"] == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_capacity_test_has_its_own_folder(capacity_rounds: list[Run]) -> None:
    assert not (capacity_rounds[-1].folder / "PAI").exists()


def test_ranks_end_with_the_same_model_after_a_capacity_test(capacity_rounds: list[Run]) -> None:
    run = capacity_rounds[-1]
    assert run.rank(0)["state"] == run.rank(1)["state"]
    assert any("dendrite_modules.layers.2" in name for name in run.rank(0)["state"])


def test_closing_words_load_the_final_model(capacity_rounds: list[Run], tmp_path: Path) -> None:
    run = capacity_rounds[-1]
    words = run.output.partition(f"To load it for inference, in {SCRIPTS}:\n\n")[2]
    warning, *lines = [line.strip() for line in words.splitlines()[:6]]
    assert warning == '# First put what trains in train_ddp below `if __name__ == "__main__":`, as importing it trains'
    assert len(re.findall("Training is complete", run.output)) == 1
    folder = copied(run.folder, tmp_path)
    source = (SCRIPTS / "train_ddp.py").read_text()
    model = source[source.index("class Sequence") : source.index("class Flat")]
    lines.remove("from train_ddp import Sequence")
    (folder / "use.py").write_text(
        f"import json, torch\nfrom torch import nn\n{model}\n" + "\n".join(lines) + "\n"
        "state = {name: value.tolist() for name, value in model.state_dict().items()}\n"
        "json.dump(state, open('loaded.json', 'w'))\n"
    )
    use = launch(folder, script=str(folder / "use.py"))
    assert (use.status, use.output) == (0, "")
    state = json.loads((folder / "loaded.json").read_text())
    assert state == run.rank(0)["state"]


def test_a_final_model_is_loaded_into_none_but_its_own(
    capacity_rounds: list[Run], helper: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    class Sequence(torch.nn.Module):
        def __init__(self, width: int = 4, more: str = "") -> None:
            super().__init__()
            self.token = torch.nn.Linear(6, width)
            self.norm = torch.nn.BatchNorm1d(5)
            self.head = torch.nn.Linear(width, 2)
            if more:
                self.add_module(more, torch.nn.Linear(2, 2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.as_tensor(self.head(torch.relu(self.norm(self.token(x))).mean(1)))

        def train(self, mode: bool = True) -> None:  # type: ignore[override] # as many scripts' models have it
            super().train(mode)

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    save = str(copied(capacity_rounds[-1].folder / "PAI_capacity_test", tmp_path))
    with pytest.raises(FileNotFoundError, match=r"elsewhere/best_model.pt is missing"):
        helper.load_final_model(Sequence(), str(tmp_path / "elsewhere"))
    with pytest.raises(ValueError, match=r"token.weight is \(4, 6\) there and \(3, 6\) here. Build it with"):
        helper.load_final_model(Sequence(3), save)
    with pytest.raises(ValueError, match=r"last.weight is missing there and \(2, 2\) here"):
        helper.load_final_model(Sequence(more="last"), save)
    part = torch.nn.Sequential(OrderedDict(token=torch.nn.Linear(6, 4), norm=torch.nn.BatchNorm1d(5)))
    with pytest.raises(ValueError, match=r"head.bias is \(2,\) there and missing here"):
        helper.load_final_model(part, save)

    model = helper.load_final_model(Sequence(), save)
    assert not model.training
    state = capacity_rounds[-1].rank(0)["state"]
    assert {name: value.tolist() for name, value in model.state_dict().items()} == state
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize(
    ("source", "guarded"), [("if __name__ == '__main__':\n    main()\n", True), ("main()\n", False)]
)
def test_lines_that_load_a_model_know_where_it_comes_from(
    source: str, guarded: bool, helper: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    class Local(torch.nn.Module):
        pass

    def lines(kind: Any, module: str) -> list[str]:
        kind.__module__ = module
        load = helper._pai_how_to_load(kind.__new__(kind))
        assert load["folder"] == ".."
        return [*load["imports"], load["build"]]

    def __init__(self: Any, width: int = 1) -> None:  # noqa: N807
        pass

    (tmp_path / "train.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAI_ROOT", str(tmp_path))
    helper.GPA.pc.set_save_name("PAI")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "train.py", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    plain = type("Net", (torch.nn.Module,), {})
    wide = type("Wide", (torch.nn.Module,), {"__init__": __init__})
    first = "from pai_distributed import load_final_model"
    warning = ['# First put what trains in train below `if __name__ == "__main__":`, as importing it trains']
    assert lines(plain, "nets.small") == [first, "from nets.small import Net", "Net()"]
    assert lines(plain, "__main__") == [*([] if guarded else warning), first, "from train import Net", "Net()"]
    assert lines(wide, "nets") == [first, "from nets import Wide", "Wide(<its arguments of training>)"]
    assert lines(Local, "nets")[-1].endswith("Local, built as for training>")


def test_ranks_end_with_the_same_model(one_switch: Run, tmp_path: Path) -> None:
    def last_round(name: str, *arguments: str) -> Run:
        folder = copied(one_switch.folder, tmp_path / name)
        common = ("--max-dendrites", "1", "--stay", "--pai_load_folder", "PAI")
        return launch(folder, *SLOW_RISE, *common, *arguments, ranks=2)

    with_cure = last_round("with")
    assert with_cure.status == 0
    assert with_cure.rank(0)["phase"] == with_cure.rank(1)["phase"] == "after the loop"
    assert with_cure.rank(0)["state"] == with_cure.rank(1)["state"]
    assert with_cure.rank(0)["dendrites"] == 1

    without = last_round("without", "--without", "best model on every rank")
    assert without.rank(0)["state"] != without.rank(1)["state"]


def test_leaves_the_ordinary_way(one_switch: Run) -> None:
    assert one_switch.status == 0
    for rank in (0, 1):  # `epochs` comes from a finally block, the file from an exit handler
        assert one_switch.rank(rank)["epochs"] == 8


def test_mean_of_the_ranks_scores_counts(one_switch: Run) -> None:
    assert one_switch.rank(0)["scores"] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    assert one_switch.rank(1)["scores"][:6] == one_switch.rank(0)["scores"]


def test_schedulers_of_all_ranks_step(one_switch: Run) -> None:
    assert one_switch.rank(0)["rate"] == one_switch.rank(1)["rate"] < 0.01


# ---- A cheap step ------------------------------------------------------------------------------------------


def test_no_step_searches_for_unused_parameters(capacity_rounds: list[Run], tmp_path: Path) -> None:
    assert [run.rank(0)["searches"] for run in capacity_rounds[1:]] == [False] * 4

    arguments = (
        "--model",
        "Sequence",
        "--stay",
        "--pai_load_folder",
        "PAI_capacity_test",
        "--without",
        "idle parts rest",
    )
    without = launch(copied(capacity_rounds[3].folder, tmp_path), *arguments, ranks=2, capacity=True)
    assert (without.status, without.rank(0)["searches"]) == (0, True)


def test_script_counts_its_own_parameters_before_dendrites(capacity_rounds: list[Run], tmp_path: Path) -> None:
    for run in capacity_rounds[:2]:
        assert run.rank(0)["parameters"]["counted"] == run.rank(0)["parameters"]["original"]
    assert capacity_rounds[2].rank(0)["parameters"]["counted"] > capacity_rounds[2].rank(0)["parameters"]["original"]

    arguments = ("--model", "Sequence", "--stay", "--pai_load_folder", "PAI_capacity_test", "--without")
    folder = copied(capacity_rounds[2].folder, tmp_path)
    without = launch(folder, *arguments, "templates hidden", ranks=2, capacity=True)
    with_cure = capacity_rounds[3].rank(0)["parameters"]
    assert without.rank(0)["parameters"]["counted"] > with_cure["counted"] > with_cure["original"]


def test_each_parameter_that_the_script_sees_gets_a_gradient(capacity_rounds: list[Run]) -> None:
    """With any number of dendrites: scripts look at all gradients, or give all parameters to a recomputation."""
    assert [run.rank(number)["idle"] for run in capacity_rounds[1:] for number in (0, 1)] == [[]] * 8
    name = "token.dendrites_to_top.0"
    assert name in capacity_rounds[3].rank(0)["loaded"]


def test_a_round_begins_with_just_what_was_saved(capacity_rounds: list[Run]) -> None:
    from safetensors.torch import load_file

    for number, (before, after) in enumerate(pairwise(capacity_rounds[1:]), start=1):
        saved = load_file(before.folder / "PAI_capacity_test" / f"switch_{2 * number}.pt")
        del saved["tracker_string"]  # loading it writes it anew
        for rank in (0, 1):
            loaded = after.rank(rank)["loaded"]
            assert {name: loaded.get(name) for name in saved} == {name: t.tolist() for name, t in saved.items()}
        assert any(".parent_module." in name for name in saved)
        assert any(name.endswith(".this_node_index") for name in saved)


def test_tensors_are_saved_that_are_tied_or_not_contiguous(helper: ModuleType, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    model = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    model.register_buffer("places", torch.arange(6.0).reshape(2, 3).T)
    model.tied = model.weight
    model.register_state_dict_post_hook(helper._pai_copy_tied_tensors)
    helper.UPA.save_file(model.state_dict(), tmp_path / "saved")
    saved = load_file(tmp_path / "saved")
    assert all(torch.equal(tensor, saved[name]) for name, tensor in model.state_dict(keep_vars=True).items())
    model.state_dict()["weight"].zero_()  # as an average of the weights is brought up to date
    assert not model.weight.any()


def test_a_layer_of_several_names_is_one_layer_and_goes_on(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    options = ("--model", "Shared", "--stay")
    load = (*options, "--pai_load_folder", "PAI_capacity_test")
    run = launch(tmp_path, *options, "--perforate_model_parallel", capacity=True)
    assert array_dims(tmp_path / "PAI_capacity_test") == {".body,1,4", ".last,1,2"}
    assert "No dendrites for" not in run.output
    assert launch(tmp_path, *options, capacity=True).switches("PAI_capacity_test") == ["switch_2.pt"]
    saved = load_file(tmp_path / "PAI_capacity_test" / "switch_2.pt")
    again = launch(tmp_path, *load, capacity=True)
    assert again.switches("PAI_capacity_test") == ["switch_2.pt", "switch_4.pt"]
    loaded = again.rank(0)["loaded"]
    known = {name for name in loaded if name != "tracker_string"}
    assert {name: loaded[name] for name in known} == {name: saved[name].tolist() for name in known}
    assert {"first.main_module.weight", "layers.0.main_module.weight", "body_norm.running_mean"} <= known
    assert loaded["layers.0.main_module.weight"] == loaded["first.main_module.weight"]
    without = launch(tmp_path, *load, "--without", "layers shared", capacity=True)
    assert without.status != 0


@pytest.mark.parametrize("names", [("question", "context"), ("context", "question")], ids=" first, ".join)
@pytest.mark.parametrize("shared", ["an encoder", "a layer", "a layer of two encoders"])
def test_what_a_model_has_under_several_names_has_dendrites_whatever_their_order_is(
    helper: ModuleType, perforate: Callable[..., Any], names: tuple[str, str], shared: str
) -> None:
    import torch

    linear, whole = torch.nn.Linear(2, 2), torch.nn.Module()
    first, second = torch.nn.Module(), torch.nn.Module()
    first.body = second.body = linear
    parts = {"an encoder": (first, first), "a layer": (linear, linear), "a layer of two encoders": (first, second)}
    for name, part in zip(names, parts[shared], strict=True):
        whole.add_module(name, part)
    model = helper.load_latest_switch(perforate(whole, torch.nn.Linear(2, 2)), None)
    assert list(model[0]._modules) == list(names)
    layer, last = helper.GPA.pai_tracker.neuron_module_vector
    assert (layer.main_module, last) == (linear, model[1])
    for part in model[0]._modules.values():
        assert (part if shared == "a layer" else part.body) is layer


def test_a_thawed_model_is_searched_for_unused_parameters(helper: ModuleType, perforate: Callable[..., Any]) -> None:
    import torch

    model = perforate(torch.nn.Linear(2, 2), initialize=False)
    helper._pai.model = model
    helper._pai_hide(model)
    assert helper.finds_unused_parameters() is False
    assert (
        helper.finds_unused_parameters(True) is helper.finds_unused_parameters({"find_unused_parameters": True}) is True
    )
    assert helper.finds_unused_parameters({"bucket_cap_mb": 1}) is False
    model[0].dendrites_to_top.extend(torch.nn.Parameter(torch.zeros(1, 2)) for _ in range(2))  # as after a dendrite
    model[0].dendrite_modules_added = 1
    assert helper.finds_unused_parameters() is True
    helper._pai_rest(model)
    assert helper.finds_unused_parameters() is False
    model.requires_grad_(True)  # which sees nothing of what rests
    assert helper.finds_unused_parameters() is False
    model[0].dendrites_to_top.requires_grad_(True)
    assert helper.finds_unused_parameters() is True


def test_a_chosen_wrapper_is_asked_to_search_where_it_can(helper: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    class Wrapper(torch.nn.parallel.DistributedDataParallel):
        def __init__(self, module: Any, **given: Any) -> None:
            self.__dict__["given"] = given

    class Shares(torch.nn.DataParallel[Any]):
        def __init__(self, module: Any, **given: Any) -> None:
            self.__dict__["given"] = given

    def given(wrapper: Any, **keywords: Any) -> Any:
        return helper.either_wrapper(wrapper)(torch.nn.Linear(2, 2), **keywords).__dict__["given"]

    monkeypatch.setattr(helper._pai, "backpropagates", True)
    assert given(Wrapper, dim=1) == {"dim": 1, "find_unused_parameters": True}
    assert given(Shares, dim=1) == {"dim": 1}
    monkeypatch.setattr(helper._pai, "backpropagates", False)
    partial = functools.partial(Wrapper, find_unused_parameters=True)
    assert given(partial) == {"find_unused_parameters": True}
    assert given(partial, find_unused_parameters=False) == {"find_unused_parameters": False}


def test_tables_are_of_the_newest_score_and_graphs_of_the_end(
    helper: ModuleType, perforate: Callable[..., Any]
) -> None:
    import torch

    model = perforate(torch.nn.Linear(2, 2), initialize=False)
    helper.GPA.pai_tracker.set_optimizer_instance(torch.optim.SGD(model.parameters(), lr=0.1))
    helper._pai.drawing = math.inf  # so that they are never due
    for number in range(1, 4):
        model(torch.ones(1, 2)).sum().backward()
        helper._pai_hand_over(number / 10, model)
        assert f"{number - 1},{number / 10}" in Path("PAI/PAIScores.csv").read_text()
    assert not Path("PAI/PAI.png").exists()
    helper._pai_draw_last_graphs()
    assert Path("PAI/PAI.png").exists()
    Path("PAI/PAI.png").unlink()
    helper._pai_draw_last_graphs()  # nothing new to show
    assert not Path("PAI/PAI.png").exists()
    helper._pai.drawing = 0.0  # so that they are always due
    helper._pai_hand_over(0.4, model)
    assert Path("PAI/PAI.png").exists()


def test_a_rehearsal_that_has_drawn_leaves_no_graphs_of_a_round_for_its_end(
    helper: ModuleType, perforate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it has restructured, the library may know too little of its scores to draw them: an IndexError."""
    import torch

    model = perforate(torch.nn.Linear(2, 2), initialize=False)
    helper.GPA.pai_tracker.set_optimizer_instance(torch.optim.SGD(model.parameters(), lr=0.1))
    model(torch.ones(1, 2)).sum().backward()
    helper._pai.drawing = 0.0  # so that they are always due
    helper._pai_hand_over(0.1, model)
    monkeypatch.setattr(helper, "_pai_rehearsal", "somewhere")
    assert helper._pai_has_drawn("PAI")
    helper._pai.drawing, helper._pai.of_library = math.inf, 1
    helper._pai_save_graphs()
    assert helper._pai.undrawn
    helper._pai_save_graphs("_before")
    helper._pai_save_graphs()
    assert not helper._pai.undrawn


def test_a_capacity_test_stays_one_where_the_script_turns_it_off_late(
    helper: ModuleType, perforate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    model = perforate(torch.nn.Linear(2, 2), initialize=False)
    helper.GPA.pai_tracker.set_optimizer_instance(torch.optim.SGD(model.parameters(), lr=0.1))
    for asked in ("0", "1"):
        monkeypatch.setenv("PAI_TESTING_DENDRITE_CAPACITY", asked)
        helper.GPA.pc.set_testing_dendrite_capacity(False)
        model(torch.ones(1, 2)).sum().backward()
        helper._pai_hand_over(0.5, model)
        assert helper.GPA.pc.get_testing_dendrite_capacity() is (asked == "1")


def test_a_switch_that_the_script_forces_is_the_librarys(helper: ModuleType, perforate: Callable[..., Any]) -> None:
    import torch

    model = perforate(torch.nn.Linear(2, 2), initialize=False)
    helper.GPA.pai_tracker.set_optimizer_instance(torch.optim.SGD(model.parameters(), lr=0.1))
    answers = []
    for forced in (False, False, True):
        model(torch.ones(1, 2)).sum().backward()
        answers.append(helper.add_validation_score(0.5, model, forced)[1])
    assert answers == [False, False, True]


@pytest.mark.parametrize("names", [["module"], ["module_list", "modulator"]])
def test_a_part_may_have_a_name_as_a_wrapper_has_for_its_model(
    helper: ModuleType, perforate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    import torch

    parts = OrderedDict({name: torch.nn.Sequential(torch.nn.Linear(2, 2)) for name in names})
    model = perforate(parts, initialize=False)
    monkeypatch.setattr(helper._pai, "model", model)
    helper.GPA.pai_tracker.set_optimizer_instance(torch.optim.SGD(model.parameters(), lr=0.1))
    model(torch.ones(1, 2)).sum().backward()
    assert helper.add_validation_score(0.5, model, True) == (model, True, False)
    model(torch.ones(1, 2)).sum().backward()
    assert {name: len(model.get_submodule(name)[0].dendrites_to_top) for name in names} == dict.fromkeys(names, 1)


# ---- Cures, with and without -------------------------------------------------------------------------------


def test_race_for_the_settings_file(tmp_path: Path) -> None:
    (tmp_path / "with").mkdir()
    (tmp_path / "without").mkdir()
    with_cure = launch(tmp_path / "with", "cured", script="race_for_settings.py", ranks=2)
    assert with_cure.status == 0
    assert json.loads((tmp_path / "with" / "PAI" / "PAI_config.json").read_text())["save_name"] == "PAI"
    without = launch(tmp_path / "without", "as it was", script="race_for_settings.py", ranks=2)
    assert without.status != 0
    assert "json.decoder.JSONDecodeError: Expecting value: line 1 column 1" in without.output


def test_race_for_the_best_model(capacity_rounds: list[Run], tmp_path: Path) -> None:
    with_cure = capacity_rounds[1]
    assert (with_cure.status, with_cure.switches("PAI_capacity_test")) == (0, ["switch_2.pt"])

    folder = copied(capacity_rounds[0].folder, tmp_path)
    arguments = ("--model", "Sequence", "--rank-1-ahead", "--without", "rank 0 first")
    without = launch(folder, *arguments, ranks=2, capacity=True)
    assert without.status != 0
    assert re.search(r"\[rank1\]: FileNotFoundError: .*PAI_capacity_test/best_model.pt", without.output)


def test_tracker_string_stays_out_of_the_broadcast(initialized: Path, one_switch: Run, tmp_path: Path) -> None:
    assert (one_switch.status, one_switch.switches()) == (0, ["switch_2.pt"])

    arguments = ("--extra-score-on-rank-0", "--without", "records hidden")
    without = launch(copied(initialized, tmp_path), *SLOW_RISE, *arguments, ranks=2)
    assert without.status != 0
    assert "Received data size doesn't match expected size" in without.output


def test_learning_rate_search_is_off_under_restarts(initialized: Path, one_switch: Run, tmp_path: Path) -> None:
    load = ("--pai_load_folder", "PAI")
    folder = copied(one_switch.folder, tmp_path / "with")
    with_cure = launch(folder, *SLOW_RISE, *load, PAI_ACCEPT_WORLD_SIZE="1")
    assert (with_cure.status, with_cure.switches()) == (0, ["switch_2.pt", "switch_4.pt"])

    folder = copied(initialized, tmp_path / "without")
    (folder / "PAI" / "PAI_config.json").unlink()  # it remembers that the search is off
    written = set()
    for arguments in ((), load, load):
        without = launch(folder, *SLOW_RISE, *arguments, "--without", "learning rate search off")
        assert without.status == 0
        assert "The model was restructured" in without.output
        assert without.switches() == ["switch_2.pt"]
        written.add((folder / "PAI" / "switch_2.pt").read_bytes())
    assert len(written) == 1


def test_output_dimensions_are_set_as_soon_as_found(capacity_rounds: list[Run], tmp_path: Path) -> None:
    with_cure = capacity_rounds[0].folder / "PAI_capacity_test"
    assert json.loads((with_cure / "output_dimensions.json").read_text()) == {".token": [-1, -1, 0]}
    assert array_dims(with_cure) == {".token,1,1,4", ".head,1,2"}

    initialize = ("--model", "Sequence", "--perforate_model_parallel")
    without = launch(tmp_path, *initialize, "--without", "output dimensions found")
    assert without.status == 0  # the library's
    assert "has not properly set this_output_dimensions" in without.output
    assert not (tmp_path / "PAI" / "array_dims.csv").exists()

    own_word = ("--output-dimensions", '{"token": [-1, -1, 0]}')
    launch(tmp_path, *initialize, *own_word, "--without", "output dimensions found")
    assert array_dims(tmp_path / "PAI") == {".token,1,1,4", ".head,1,2"}
    assert json.loads((tmp_path / "PAI" / "output_dimensions.json").read_text()) == {".token": [-1, -1, 0]}


def test_output_dimensions_are_set_before_loading(capacity_rounds: list[Run], tmp_path: Path) -> None:
    with_cure = capacity_rounds[2]
    assert "Loaded PAI_capacity_test/switch_2.pt" in with_cure.output
    assert "Error loading" not in with_cure.output

    folder = copied(capacity_rounds[1].folder, tmp_path)
    (folder / "PAI_capacity_test" / "output_dimensions.json").unlink()
    load = ("--pai_load_folder", "PAI_capacity_test")
    without = launch(folder, "--model", "Sequence", *load, capacity=True, PAI_ACCEPT_WORLD_SIZE="1")
    assert "Error loading token.dendrites_to_top.0: output with shape [1, 1]" in without.output


def test_optimizer_arguments_are_fresh_after_a_restructuring(tmp_path: Path) -> None:
    launch(tmp_path, "--perforate_model_parallel", script="train_dp.py")
    run = launch(tmp_path, script="train_dp.py")
    assert run.status == 0
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["parameters"] == [{"missing": 0, "stale": 0}] * 2
    assert [name for name, _, _ in result["after"]].count("PAI") == 0
    assert [end for end in result["after"] if end[1] or end[2]] == [
        ["DataParallel", True, False],
        ["DataParallel", False, True],
    ]
    assert "Training is complete" in run.output
    assert (tmp_path / "PAI" / ".training_complete").exists()

    launch(tmp_path, "--reuse-arguments", script="train_dp.py")
    reused = json.loads((tmp_path / "result.json").read_text())["parameters"]
    assert reused == [{"missing": 0, "stale": 0}, {"missing": 6, "stale": 0}], "before its first step"


def test_score_of_zero_counts(initialized: Path, tmp_path: Path) -> None:
    with_cure = launch(copied(initialized, tmp_path / "with"), "--scores", "0.0")
    assert (with_cure.status, with_cure.switches()) == (0, ["switch_2.pt"])
    without = launch(copied(initialized, tmp_path / "without"), "--scores", "0.0", "--without", "almost zero")
    assert (without.status, without.switches()) == (9, [])


def test_settings_file_of_another_machine_does_not_choose_the_device(initialized: Path, tmp_path: Path) -> None:
    folder = copied(initialized, tmp_path)
    path = folder / "PAI" / "PAI_config.json"
    settings = json.loads(path.read_text())
    foreign = json.dumps({**settings, "device": "xpu:3", "use_cuda": True})

    path.write_text(foreign)
    assert launch(folder, "--epochs", "1").status == 9
    path.write_text(foreign)
    without = launch(folder, "--epochs", "1", "--without", "own device")
    assert without.status not in (0, 9)
    assert "xpu" in without.output


@pytest.fixture(scope="module")
def trainer_rounds(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Run], list[dict[str, Any]]]:
    """A training with moving averages that loads weights in its constructor; and what rank 1 says of each round."""
    import torch

    folder = tmp_path_factory.mktemp("trainer")
    plain = {"scale": (6,), "norm.weight": (2,), "norm.running_mean": (2,), "mlp.weight": (4, 6), "mlp.bias": (4,)}
    torch.save({name: torch.full(shape, 3.0) for name, shape in plain.items()}, folder / "pretrained.pth")
    rounds, reports = [launch_trainer(folder, "--perforate_model_parallel", ranks=1)], []
    load: tuple[str, ...] = ()
    while not (folder / "PAI" / ".training_complete").exists() and len(rounds) < 6:
        rounds.append(launch_trainer(folder, *load))
        reports.append(rounds[-1].rank(1))
        load = ("--pai_load_folder", "PAI")
    return rounds, reports


def launch_trainer(folder: Path, *arguments: str, ranks: int = 2) -> Run:
    return launch(folder, *arguments, script="train_trainer.py", ranks=ranks)


def changed(report: dict[str, Any]) -> list[str]:
    """What is not as it was restored when training begins, but for the statistics of the first batch."""
    trained = report["trained"]
    return [name for name, value in report["restored"].items() if trained[name] != value and "running" not in name]


def test_moving_averages_of_weights(trainer_rounds: tuple[list[Run], list[dict[str, Any]]], tmp_path: Path) -> None:
    rounds, reports = trainer_rounds
    assert [run.status for run in rounds] == [0] * len(rounds)
    assert "Training is complete" in rounds[-1].output
    assert len(reports) > 1
    assert all(report["finite"] and report["epochs"] > 0 for report in reports)

    folder = copied(rounds[0].folder, tmp_path)
    shutil.rmtree(folder / "PAI")
    launch_trainer(folder, "--perforate_model_parallel", ranks=1)
    without = launch_trainer(folder, "--without", "records hidden")
    assert without.status != 0
    # The ranks' records differ in length; whether torch or gloo is the first to find that depends on which is sooner.
    assert re.search("The size of tensor a|Received data size doesn't match expected size", without.output)


def test_restored_weights_win(trainer_rounds: tuple[list[Run], list[dict[str, Any]]], tmp_path: Path) -> None:
    rounds, reports = trainer_rounds
    assert {"scale", "mlp.weight", "head.bias"} <= set(changed(reports[0]))
    assert [changed(report) for report in reports[1:]] == [["norm.num_batches_tracked"]] * len(reports[1:])
    said = [re.findall(r"had changed (\d+) of the restored weights", run.output) for run in rounds]
    assert [len(words) for words in said] == [0, 0] + [1] * len(reports[1:])

    load = ("--pai_load_folder", "PAI")
    compiled = launch_trainer(copied(rounds[0].folder, tmp_path / "compiled"), *load, "--compile")
    assert changed(compiled.rank(1)) == ["norm.num_batches_tracked"]
    without = launch_trainer(copied(rounds[0].folder, tmp_path / "without"), *load, "--without", "restored weights win")
    assert len(changed(without.rank(1))) > 1


def test_a_batch_without_a_score_leaves_the_one_that_was_noted(helper: ModuleType) -> None:
    for score in (0.5, 0.25, None):
        helper.note_score(score)
    assert [helper.noted_score(), helper.noted_score()] == [0.25, None]


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_layers_whose_weight_is_computed_get_dendrites(helper: ModuleType, perforate: Callable[..., Any]) -> None:
    import torch

    layer = torch.nn.utils.weight_norm(torch.nn.Linear(2, 2))
    layer(torch.ones(1, 2))
    model = helper.load_latest_switch(perforate(layer), None)
    model(torch.ones(1, 2)).sum().backward()
    with helper._pai_library_at_work(model):
        helper.GPA.pai_tracker.set_dendrite_training()
        helper.GPA.pai_tracker.set_neuron_training()
    model(torch.ones(1, 2)).sum().backward()
    assert {name for name, p in model.named_parameters() if p.grad is not None} >= {
        "0.bias",
        "0.weight_g",
        "0.weight_v",
    }
    assert "0.pai_dendrites.dendrite_modules.layers.0.weight_g" in model.state_dict()


def test_model_without_a_layer_for_dendrites(
    helper: ModuleType, perforate: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    with pytest.raises(SystemExit, match="1"):
        helper.load_latest_switch(perforate(layer), None)
    said = capsys.readouterr().err
    assert re.search(
        r"no layer that can have dendrites, which are .*\bLinear\b.*append_module_names_to_perforate", said
    )


@pytest.mark.parametrize(("restarted", "continues", "first"), [(True, False, 0), (True, True, 6), (False, False, 6)])
def test_a_schedule_begins_anew_in_a_restarted_round(
    helper: ModuleType, restarted: bool, continues: bool, first: int
) -> None:
    import torch

    helper._pai.switch_time, helper._pai.continues = float(restarted), continues
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    if not restarted or continues:
        optimizer.param_groups[0]["initial_lr"] = 0.1  # as it comes with its state
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5, last_epoch=5)
    assert scheduler.last_epoch == first


def begun_before(helper: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the training begun before anything that a folder holds was written, and the model be there."""
    (folder / "array_dims.csv").touch()
    os.utime(folder / "array_dims.csv", (1, 1))
    monkeypatch.setattr(helper, "load_folder", lambda: str(folder))
    monkeypatch.setattr(helper._pai, "model", object())


@pytest.mark.parametrize("copied", [False, True], ids=["as loaded", "a copy"])
@pytest.mark.parametrize(("written", "rate"), [("before the switch", 0.1), ("since", 0.05), ("never", 0.05)])
def test_what_is_loaded_of_an_earlier_round_is_known_also_as_a_copy(
    helper: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, rate: float, copied: bool
) -> None:
    """Such as one on another device: in a round of the same structure the rate would be that of a schedule's end."""
    import torch

    def built() -> tuple[Any, Any]:
        optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.ones(2))], lr=0.1)
        return optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, 8)

    def moved(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: moved(value) for name, value in part.items()}
        if isinstance(part, (list, tuple)):
            return [moved(value) for value in part]
        return part.to("cpu", copy=True) if isinstance(part, torch.Tensor) else part

    optimizer, schedule = built()
    optimizer.param_groups[0]["params"][0].grad = torch.ones(2)
    optimizer.step()
    schedule.step()
    optimizer.param_groups[0]["lr"] = 0.05
    states = {"optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}
    torch.save(states, tmp_path / "last.pt")
    begun_before(helper, tmp_path, monkeypatch)
    helper._pai.switch_time = os.path.getmtime(tmp_path / "last.pt") + (1 if written == "before the switch" else -1)
    helper._pai.restored = {"weight": torch.ones(2)}
    if written != "never":
        states = torch.load(tmp_path / "last.pt")
    optimizer, schedule = built()
    optimizer.param_groups[0]["lr"] = 0.1
    optimizer.load_state_dict(moved(states["optimizer"]) if copied else states["optimizer"])
    schedule.load_state_dict(moved(states["schedule"]) if copied else states["schedule"])
    assert (optimizer.param_groups[0]["lr"], schedule.last_epoch) == (rate, int(rate != 0.1))


@pytest.mark.parametrize("read", ["before the model is there", "after it"])
@pytest.mark.parametrize("written", ["before the training", "by an earlier round"])
def test_what_was_there_before_the_training_gives_each_round_its_rate(
    helper: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, read: str
) -> None:
    """And its schedule, as the first one had them, though the optimizer has more parameters by then."""
    import torch

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    schedule.step()
    torch.save({"opt": optimizer.state_dict(), "sched": schedule.state_dict()}, tmp_path / "last.pt")
    os.utime(tmp_path / "last.pt", (100, 100))
    (tmp_path / "array_dims.csv").touch()
    os.utime(tmp_path / "array_dims.csv", (200, 200) if written == "before the training" else (50, 50))
    monkeypatch.setattr(helper, "load_folder", lambda: str(tmp_path))
    states = torch.load(tmp_path / "last.pt")
    helper._pai.switch_time, helper._pai.restored, helper._pai.model = 300.0, {"weight": torch.ones(2)}, optimizer
    if read == "after it":
        states = torch.load(tmp_path / "last.pt")
    grown = torch.optim.SGD([torch.nn.Parameter(torch.ones(1)) for _ in range(2)], lr=0.1, momentum=0.9)
    again = torch.optim.lr_scheduler.ExponentialLR(grown, 0.5)
    grown.load_state_dict(states["opt"])
    again.load_state_dict(states["sched"])
    known = (0.05, 1) if written == "before the training" else (0.1, 0)
    assert (grown.param_groups[0]["lr"], again.last_epoch) == known


@pytest.fixture
def training(helper: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The helper as it is when the first round has made a step."""
    import torch

    monkeypatch.setenv("PAI_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    helper.GPA.pc.set_save_name("PAI")
    helper.GPA.pc.set_maximizing_score(True)
    (tmp_path / "PAI").mkdir()
    (tmp_path / "PAI" / "array_dims.csv").touch()
    helper._pai.model, helper._pai.steps = torch.nn.Linear(1, 1), 1
    sys.addaudithook(helper._pai_follow)
    yield helper
    helper._pai.steps = 0  # a hook stays for ever


def end_round(helper: ModuleType, score: float, *, kept: bool = True) -> None:
    """End a round with a best score, and begin the next one."""
    helper._pai.structures = [{"best": score, "kept": kept}]
    helper._pai_end_with_files(complete=False)
    helper._pai.switch_number += 1
    helper._pai.switch_time = 1.0


def held(*names: str) -> list[Any]:
    """Return what files hold, None for one that is not there."""
    import torch

    return [torch.load(name) if os.path.exists(name) else None for name in names]


def test_a_round_finds_the_files_of_the_script_as_the_first_one_did(training: ModuleType, tmp_path: Path) -> None:
    """Those that it has saved, however, until the end: there are those of the round with the best score alone.

    The others are still found by name, as where code behind the training loop reads the last epoch's.
    """
    import torch

    training._pai.steps = 0
    torch.save(0, "begun.pt")
    torch.save(0, "opened.pt")
    Path("list.json").write_text("0")
    for name in ("begun.pt", "opened.pt", "list.json"):
        os.utime(name, (1, 1))
    training._pai.steps = 1
    names = ("begun.pt", "best.pt", "top.pt", "last.pt", "to.pt")

    def save(number: int) -> None:
        torch.save(number, "begun.pt")
        for name in ("best.pt", "opened.pt"):
            with open(name, "wb") as file:
                torch.save(number, file)
        os.makedirs(f"checkpoint-{number}/rank", exist_ok=True)
        Path(f"checkpoint-{number}", "rank", "state.txt").write_text(str(number))
        shutil.copyfile("best.pt", "top.pt")
        torch.save(number, "new.pt")
        os.replace("new.pt", "last.pt")
        Path("list.json").write_text(str(number))
        with open("log.txt", "a") as file:
            file.write(str(number))
        if number < 3:
            os.symlink("last.pt", "to.pt")

    save(1)
    assert held(*names) == [1] * 5
    end_round(training, 0.5)
    assert [Path(name).read_text() for name in ("list.json", "log.txt")] == ["0", "1"]
    assert held(*names) == [0, None, None, None, None]
    assert not os.path.lexists("to.pt")
    assert held("opened.pt") == [0]
    assert not os.path.lexists("checkpoint-1")
    training._pai.steps = 0
    with pytest.raises(FileNotFoundError):
        torch.load("best.pt")
    training._pai.steps = 1
    assert torch.load("best.pt") == 1, "a file that this round has not saved is found where it is set aside"
    shutil.copyfile("top.pt", "export.pt")
    assert held("best.pt", "export.pt") == [1, 1]
    save(2)
    torch.save(2, "two.pt")
    end_round(training, 0.4)
    assert held(*names) == [0, None, None, None, None]
    torch.save(3, "last.pt")
    training._pai.structures = [{"best": 0.6, "kept": True}]
    training._pai_end_with_files(complete=True)
    assert held("two.pt", *names) == [None, 0, None, None, 3, None], "the best round has saved last.pt alone"
    assert held(*(f"PAI/others/{name}" for name in ("two.pt", *names))) == [2, 1, 1, 1, None, None]
    assert not os.path.lexists("to.pt")
    assert not os.path.exists("checkpoint-1")
    assert Path("PAI/others/checkpoint-2/rank/state.txt").read_text() == "2"
    assert [Path(name).read_text() for name in ("list.json", "log.txt")] == ["0", "12"]
    assert {*os.listdir("PAI")} == {"array_dims.csv", "begun", "others"}
    training._pai.complete = True
    assert torch.load("two.pt") == 2
    assert not os.path.exists("best.pt")


def test_the_files_of_a_folder_come_back_into_one_of_its_name(
    training: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another rank may have made that anew, or the script before its training."""
    import torch

    os.makedirs("out")
    torch.save(1, "out/best.pt")
    end_round(training, 0.5)
    training._pai.steps = 0
    os.makedirs("out")
    training._pai.steps = 1
    torch.save(2, "out/last.pt")
    training._pai.structures = [{"best": 0.4, "kept": True}]
    training._pai_end_with_files(complete=True)
    assert held("out/best.pt", "out/last.pt", "PAI/others/out/last.pt") == [1, None, 2]
    assert "cannot be moved" not in capsys.readouterr().out
    assert not os.path.exists("PAI/files")


def test_what_cannot_be_set_aside_in_the_end_is_not_lost(
    training: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    def replace(source: str, target: str, own: Any = os.replace) -> None:
        if "others" in target:
            raise OSError(errno.EIO, "bad disk")
        own(source, target)

    torch.save(1, "own.pt")
    end_round(training, 0.4)
    monkeypatch.setattr(os, "replace", replace)
    torch.save(2, "last.pt")
    training._pai.structures = [{"best": 0.5, "kept": True}]
    training._pai_end_with_files(complete=True)
    assert "PAI/files/own.pt cannot be moved" in capsys.readouterr().out
    assert held("PAI/files/own.pt", "last.pt") == [1, 2]


@pytest.mark.parametrize("last", ["kept", "dropped", "dropped, with a worse one before"])
def test_the_files_are_of_a_structure_that_was_kept(
    training: ModuleType, last: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dropped one may have the same score, or a higher one that is not clearly better. What it alone has saved goes.

    There are those files only once at a time: of two that were dropped those of the later one.
    """
    import torch

    names = ("best.pt", "own.pt", "PAI/others/own.pt")
    torch.save(1, "best.pt")
    end_round(training, 0.5)
    if "worse" in last:
        torch.save(2, "own.pt")
        torch.save(2, "best.pt")
        end_round(training, 0.5, kept=False)
    torch.save(3, "best.pt")
    torch.save(3, "own.pt")
    training._pai.structures = [{"best": 0.50001, "kept": last == "kept"}]
    training._pai_end_with_files(complete=True)
    assert held(*names) == ([3, 3, None] if last == "kept" else [1, None, 3])
    told = "own.pt: of what the script has saved, these (1) are of other structures" in capsys.readouterr().out
    assert told is (last != "kept")


def test_the_files_of_other_structures_are_set_aside_wherever_they_lie(
    training: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each start makes a folder of its own. What is there now of the best round is none of them."""
    import torch

    for number, (score, kept) in enumerate([(0.5, True), (0.4, False), (0.3, False)], start=1):
        os.makedirs(f"run-{number}")
        torch.save(number, f"run-{number}/best.pt")
        if number < 3:
            end_round(training, score, kept=kept)
    training._pai.structures = [{"best": 0.3, "kept": False}]
    training._pai_end_with_files(complete=True)
    assert held("run-1/best.pt", "run-2/best.pt", "run-3/best.pt") == [1, None, 1]
    told = re.findall(r"(\S+): of what the script has saved, these \((\d+)\)", capsys.readouterr().out)
    assert told == [("run-2/best.pt", "1")]


def test_what_compiled_code_writes_is_of_the_best_round_as_well(training: ModuleType, tmp_path: Path) -> None:
    """No event of Python's tells of it. A file outside of the folder counts too, what is saved in memory does not."""
    import safetensors.torch
    import torch

    outside = str(tmp_path.parent / f"{tmp_path.name}_outside.pt")
    names = ("module.pt", "function.pt", "mobile.pt", "exported.pt2", "weights.safetensors", outside)

    def save(number: int) -> None:
        model, example, jit = torch.nn.Linear(1, number), torch.ones(1), cast("Any", torch.jit)
        traced = jit.trace(model, example)
        jit.save(traced, "module.pt")
        jit.trace(lambda x: x * number, example).save("function.pt")
        traced._save_for_lite_interpreter("mobile.pt")
        torch.export.save(torch.export.export(model, (example,)), "exported.pt2")
        safetensors.torch.save_file({"number": torch.tensor(number)}, "weights.safetensors")
        traced.save(outside)
        jit.save(traced, io.BytesIO())

    def saved() -> list[Any]:
        return [Path(name).read_bytes() if os.path.exists(name) else None for name in names]

    save(1)
    best = saved()
    end_round(training, 0.5)
    assert saved() == [None] * len(names)
    save(2)
    assert not {*best} & {*saved()}
    training._pai.structures = [{"best": 0.4, "kept": True}]
    training._pai_end_with_files(complete=True)
    assert saved() == best


def test_files_of_one_path_below_the_start_folder_and_below_the_root_are_two(
    training: ModuleType, tmp_path: Path
) -> None:
    import torch

    outside = tmp_path.parent / f"{tmp_path.name}_outside" / "a.pt"
    below = Path(str(outside).lstrip(os.sep))
    for number, path in enumerate((outside, below)):
        path.parent.mkdir(parents=True)
        torch.save(number, path)
    end_round(training, 0.5)
    training._pai.structures = [{"best": 0.4, "kept": True}]
    training._pai_end_with_files(complete=True)
    assert held(str(outside), str(below)) == [0, 1]


@pytest.mark.parametrize("gone", ["renamed", "moved away", "removed"])
def test_a_file_of_before_the_training_that_the_script_takes_away_is_there_in_the_next_round(
    training: ModuleType, tmp_path: Path, gone: str
) -> None:
    import torch

    training._pai.steps = 0
    (tmp_path / "old").mkdir()
    Path("best.pt").write_text("0")
    os.utime("best.pt", (1, 1))
    training._pai.steps = 1

    def take(number: int) -> None:
        if gone == "removed":
            os.remove("best.pt")
        elif gone == "renamed":
            os.rename("best.pt", "last.pt")
        else:
            shutil.move("best.pt", "old")
        torch.save(number, "best.pt")

    for number in (1, 2):
        take(number)
        end_round(training, 0.5)
        assert Path("best.pt").read_text() == "0"
        Path("old/best.pt").unlink(missing_ok=True)
    take(3)
    training._pai.structures = [{"best": 0.6, "kept": True}]
    training._pai_end_with_files(complete=True)
    assert held("best.pt") == [3]


@pytest.mark.parametrize("goes_on", [True, False], ids=["goes on from it", "only writes on"])
def test_a_log_that_says_where_the_script_goes_on_is_in_each_round_what_it_was_in_the_first(
    training: ModuleType, goes_on: bool
) -> None:
    def write_on(number: int) -> None:
        training._pai.steps = 0
        training._pai.opened.clear()
        if goes_on:
            assert Path("log.txt").read_text() == "0"
        training._pai.steps = 1
        assert Path("log.txt").read_text()[0] == "0", "later it may look at it all the same"
        for _ in range(2):
            with open("log.txt", "a") as file:
                file.write(str(number))

    training._pai.steps = 0
    Path("log.txt").write_text("0")
    os.utime("log.txt", (1, 1))
    for number in (1, 2):
        write_on(number)
        end_round(training, 0.5 - number / 10)
    assert Path("log.txt").read_text() == ("0" if goes_on else "01122")
    write_on(3)
    training._pai.structures = [{"best": 0.1, "kept": True}]
    training._pai_end_with_files(complete=True)
    assert Path("log.txt").read_text() == ("011" if goes_on else "0112233")


@pytest.mark.parametrize(
    "start",
    [
        lambda: subprocess.run(["cp", "out/last.pt", "best.pt"], check=True),
        lambda: subprocess.run(["cp", "last.pt", "../best.pt"], check=True, cwd="out"),
        lambda: subprocess.run("rm -f best.pt && cp 'out/last.pt' best.pt", check=True, shell=True),
        lambda: os.system("mv out/last.* best.pt"),
        lambda: os.spawnvp(os.P_WAIT, "true", ["true"]) or os.system("cp out/last.pt . ; mv last.pt best.pt"),
        lambda: subprocess.run([sys.executable, "-c", COPIER, "out/last.pt", "--to=best.pt"], check=True),
    ],
)
def test_what_another_program_makes_of_the_files_is_of_the_round_too(
    training: ModuleType, start: Callable[[], object]
) -> None:
    import torch

    for number, score in ((1, 0.5), (2, 0.4)):
        os.makedirs("out", exist_ok=True)
        torch.save(number, "out/last.pt")
        start()
        assert held("best.pt") == [number]
        if number == 1:
            end_round(training, score)
            assert not os.path.exists("best.pt")
    training._pai.structures = [{"best": 0.4, "kept": True}]
    training._pai_end_with_files(complete=True)
    assert held("best.pt") == [1]


def test_what_another_program_only_reads_stays_and_what_it_replaces_is_there_again(training: ModuleType) -> None:
    """So does what it makes of no file that the script has saved."""
    import torch

    training._pai.steps = 0
    for name in ("best.pt", "given.txt", "list.txt"):
        Path(name).write_text("0")
        os.utime(name, (1, 1))
    training._pai.steps = 1
    torch.save(1, "last.pt")
    subprocess.run(["cp", "last.pt", "best.pt"], check=True)
    subprocess.run(["cat", "last.pt", "given.txt"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cp", "given.txt", "list.txt"], check=True)
    subprocess.run(["cp", "given.txt", "other.txt"], check=True)
    os.system("echo 'unfinished > /dev/null 2>&1")
    assert held("best.pt") == [1]
    end_round(training, 0.5)
    assert {name: Path(name).read_text() for name in os.listdir() if name != "PAI"} == dict.fromkeys(
        ("best.pt", "given.txt", "list.txt", "other.txt"), "0"
    )


def test_a_training_that_saves_nothing_ends_as_well(training: ModuleType) -> None:
    end_round(training, 0.5)
    training._pai.structures = [{"best": 0.4, "kept": True}]
    training._pai_end_with_files(complete=True)
    assert os.listdir("PAI") == ["array_dims.csv"]


def save_in(folder: str, number: int) -> None:
    """Save as a round does, in a folder with the time in its name, say."""
    import torch

    os.makedirs(folder)
    torch.save(number, f"{folder}/best.pt")


@pytest.mark.parametrize(
    ("folders", "found"),
    [
        (["out_11_05", "out_11_17", "out_12_00"], 2),  # each start's own: behind the loop the last one's is read
        (["out_11_05", "out_11_17", "log_12_00"], None),
        (["seed_1/a", "seed_1/b", "seed_1/c"], None),
    ],
)
def test_in_the_end_a_folder_with_the_time_in_its_name_has_the_best_files(
    training: ModuleType, folders: list[str], found: int | None
) -> None:
    for number, (folder, score) in enumerate(zip(folders[:2], (0.4, 0.5), strict=True), 1):
        save_in(folder, number)
        end_round(training, score)
    save_in(folders[2], 3)
    training._pai.structures = [{"best": 0.3, "kept": True}]
    training._pai_end_with_files(complete=True)
    assert held(*(f"{folder}/best.pt" for folder in folders)) == [None, 2, found]
    assert held(f"PAI/others/{folders[0]}/best.pt", f"PAI/others/{folders[2]}/best.pt") == [1, None if found else 3]
    assert not os.path.exists(folders[0])


def test_in_the_end_folders_of_one_round_that_are_named_alike_keep_their_files(training: ModuleType) -> None:
    for number in (1, 2):
        save_in(f"fold_{number}", number)
    end_round(training, 0.5)
    save_in("fold_3", 3)
    training._pai.structures = [{"best": 0.3, "kept": True}]
    training._pai_end_with_files(complete=True)
    assert held(*(f"fold_{number}/best.pt" for number in (1, 2, 3)), "PAI/others/fold_3/best.pt") == [1, 2, None, 3]


@pytest.mark.parametrize(
    "which",
    [
        "before a step",
        "drawn",
        "of the library",
        "complete",
        "in SAVE",
        "initializing",
        "of a logger",
        "safe",
        "rank 1",
    ],
)
def test_what_the_script_does_not_save_of_its_training_stays(
    training: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """What it does does not: by safetensors, say, or on another rank."""
    import torch
    from safetensors.torch import save_file

    name = {"in SAVE": "PAI/own.pt", "of a logger": "wandb/own.txt"}.get(which, "own.pt")
    states: dict[str, tuple[str, Any]] = {"before a step": ("steps", 0), "complete": ("complete", True)}
    states["drawn"] = ("loading", {threading.get_ident()})
    for one, value in states.items():
        if which == one:
            setattr(training._pai, *value)
    training._pai.of_library = int(which == "of the library")
    monkeypatch.setenv("RANK", str(int(which == "rank 1")))
    if which == "initializing":
        monkeypatch.setenv("PAI_PERFORATE_MODEL_PARALLEL", "1")
    if which == "safe":
        save_file({"one": torch.ones(1)}, name)
    elif which == "of a logger":
        os.mkdir("wandb")
        Path(name).write_text("1")
    else:
        torch.save(1, name)
    monkeypatch.setenv("RANK", "0")
    end_round(training, 0.5)
    assert os.path.exists(name) is (which not in ("safe", "rank 1"))


def test_what_a_round_that_was_killed_as_it_ended_has_saved_is_set_aside_by_the_next(
    training: ModuleType, tmp_path: Path
) -> None:
    import torch

    torch.save(1, "last.pt")
    training._pai.before = [{"best": 0.5, "kept": True}]
    for number, there in ((0, True), (1, False)):
        training._pai.files, training._pai.switch_number = {}, number
        training._pai_begin_with_files()
        assert os.path.exists("last.pt") is there


@pytest.mark.parametrize(("written", "loaded"), [("before the switch", []), ("since", [5])])
def test_an_own_schedule_loads_as_its_class_does(
    helper: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, loaded: list[int]
) -> None:
    """By another name, with more arguments, and with a result."""
    import torch

    class Own(torch.optim.lr_scheduler.ExponentialLR):
        def load_state_dict(self, values: Any, strict: bool = True) -> Any:
            return [] if strict else [values["step"]]

    torch.save({"step": 5}, tmp_path / "last.pt")
    begun_before(helper, tmp_path, monkeypatch)
    helper._pai.switch_time = os.path.getmtime(tmp_path / "last.pt") + (1 if written == "before the switch" else -1)
    helper._pai.restored = {"weight": torch.ones(2)}
    schedule = Own(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1), 0.5)
    values = torch.load(tmp_path / "last.pt")
    assert (schedule.load_state_dict(values, strict=False) or []) == loaded
    assert (schedule.load_state_dict(values=values, strict=False) or []) == loaded


def test_an_own_optimizer_may_say_of_its_groups_what_it_likes(helper: ModuleType) -> None:
    import torch

    class Own(torch.optim.SGD):
        def load_state_dict(self, values: Any) -> None:
            self.param_groups[0]["lr"] = values["param_groups"][0]["lr"]

    helper._pai.switch_time = 1.0
    optimizer = Own([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    optimizer.load_state_dict({"param_groups": [{"lr": 0.2}]})
    assert optimizer.param_groups[0]["lr"] == 0.2


def test_a_worker_keeps_no_samples_that_it_has_loaded(
    helper: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a process that trains keeps what it loads until its first batch, to know what is of another round."""
    torch = pytest.importorskip("torch")
    torch.save([0.5], tmp_path / "sample.pt")
    helper._pai.restored = {"weight": torch.ones(2)}
    kept = []
    for worker in (object(), None):
        monkeypatch.setattr(torch.utils.data, "get_worker_info", lambda of=worker: of)
        torch.load(tmp_path / "sample.pt")
        kept.append(len(helper._pai.ages))
    assert kept == [0, 2]


@pytest.mark.parametrize(("loaded", "said"), [("same", ""), ("own", ""), ("other", "are others than before")])
def test_parameters_beside_the_model_are_loaded(
    helper: ModuleType, perforate: Callable[..., Any], capsys: pytest.CaptureFixture[str], loaded: str, said: str
) -> None:
    import torch

    model = helper.load_latest_switch(perforate(torch.nn.Linear(2, 2)), None)
    beside, critic, norm = torch.nn.Parameter(torch.ones(2)), torch.nn.Linear(2, 1), torch.nn.BatchNorm1d(1)
    trained = torch.nn.ModuleList([critic, norm])
    norm.register_buffer("sized", torch.ones(2))
    helper.set_optimizer_instance(torch.optim.SGD([*model.parameters(), beside], lr=0.1))
    others = [torch.optim.SGD([*trained.parameters(), beside], lr=0.1), torch.optim.SGD([torch.ones(1)], lr=0.1)]
    parts = helper._pai_beside(model)
    assert [list(map(id, part)) for part in parts[:2]] == [[id(beside)], []]
    assert list(map(id, parts[2])) == list(map(id, trained.parameters()))
    critic.weight.data.fill_(3)
    norm.state_dict()["running_mean"].fill_(3)
    helper._pai_save_beside(model, parts[:3])
    if loaded == "other":
        beside.data = torch.ones(3)
    for parameter in (beside, critic.weight, *others[1].param_groups[0]["params"]):
        parameter.data.zero_()
    norm.reset_running_stats()
    norm.sized = torch.zeros(3)
    helper._pai.continues = loaded == "own"  # the script goes on from its own checkpoint of this round
    helper._pai.switch_number = 2
    helper._pai_read_beside()
    helper._pai_load_beside(model)
    helper._pai_tell_new(helper._pai_beside(model))
    assert bool(beside.data.all()) is (loaded == "same")
    assert bool((critic.weight == 3).all()) is (loaded != "own")
    assert bool(norm.running_mean == 3) is (loaded != "own")
    assert not norm.sized.any()
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(("others", "said"), [((), False), ((1,), True), ((1, 2), True)])
def test_another_number_of_ranks_than_those_that_had_their_own_beside_the_model_is_told(
    helper: ModuleType,
    perforate: Callable[..., Any],
    capsys: pytest.CaptureFixture[str],
    others: tuple[int, ...],
    said: bool,
) -> None:
    import torch

    model = helper.load_latest_switch(perforate(torch.nn.Linear(2, 2)), None)
    beside = torch.nn.Parameter(torch.ones(2))
    for other in others:
        Path(f"PAI/beside_0_rank{other}.pt").write_bytes(b"")
    brought_back(helper, model, [*model.parameters(), beside], [*model.parameters(), beside])
    assert beside.tolist() == [1, 1]
    told = f"rank {', '.join(map(str, (0, *others)))} had some, where there are 1 ranks now" in capsys.readouterr().out
    assert told is said


@pytest.mark.parametrize(
    ("rank", "ranks", "own", "given", "said"),
    [
        pytest.param(0, 1, (), 0, False, id="the same on all"),
        pytest.param(0, 2, (1,), 0, False, id="rank 0's"),
        pytest.param(1, 2, (1,), 1, False, id="that of another rank"),
        pytest.param(0, 1, (1,), 0, True, id="in one process"),
        pytest.param(2, 3, (1,), 0, True, id="in more than had some"),
    ],
)
def test_a_module_beside_the_final_model_is_as_this_rank_has_trained_it(
    helper: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    rank: int,
    ranks: int,
    own: tuple[int, ...],
    given: int,
    said: bool,
) -> None:
    import torch

    monkeypatch.setattr(helper, "_pai_rank", lambda: rank)
    monkeypatch.setattr(helper, "_pai_ranks", lambda: ranks)
    monkeypatch.setattr(helper, "_pai_say", print)
    head = torch.nn.Linear(2, 2)
    for one in (0, *own):
        kept = {name: torch.full_like(value, one) for name, value in head.state_dict().items()}
        torch.save({"modules": [kept]}, tmp_path / f"beside_best{f'_rank{one}' if one else ''}.pt")
    helper._pai_load_modules_beside((head,), str(tmp_path))
    assert bool((head.weight == given).all())
    assert ("rank 0, 1 had some, where there are" in capsys.readouterr().out) is said


@pytest.mark.parametrize("by_helper", [False, True])
def test_a_training_without_an_optimizer_is_told(
    helper: ModuleType, perforate: Callable[..., Any], capsys: pytest.CaptureFixture[str], by_helper: bool
) -> None:
    """As in a branch of several, where another object's optimizer trains; one that evaluates needs none there."""
    import torch
    from perforatedai import globals_perforatedai as GPA

    model = helper.load_latest_switch(perforate(torch.nn.Linear(2, 2)), None)
    tell = helper.set_optimizer_instance if by_helper else GPA.pai_tracker.set_optimizer_instance
    tell(None)
    with torch.no_grad():
        model(torch.ones(1, 2))
    for needs in (helper.fill_missing_gradients, lambda: helper._pai_torch_optimizer(None)):
        with pytest.raises(SystemExit, match="1"):
            needs()
        assert "the optimizer that the library is told of here is None" in capsys.readouterr().err
    tell(optimizer := torch.optim.SGD(model.parameters(), lr=0.1))
    assert GPA.pai_tracker.member_vars["optimizer_instance"] is optimizer
    helper.fill_missing_gradients(model)


def brought_back(helper: ModuleType, model: Any, order: list[Any], then: list[Any]) -> list[Any]:
    """Keep what is trained in one order, as a round does, and bring it back in another: the values of the first."""
    import torch

    values = [one.detach().clone() for one in order]
    optimizer = torch.optim.SGD(order, lr=0.1)
    helper.set_optimizer_instance(optimizer)
    helper._pai.beside_now = helper._pai_beside(model)
    helper._pai_save_beside(model, helper._pai.beside_now)
    helper._pai_save_with_beside(model, "PAI", "best_model")
    for one in order:
        one.data.zero_()
    optimizer.param_groups[0]["params"] = then
    helper._pai.switch_number = 2
    helper._pai_read_beside()
    helper._pai_load_beside(model)
    return values


def end_with_best(helper: ModuleType, model: Any, between: Callable[[], Any] = lambda: None) -> bool:
    """Keep a best model, and go back to it as at the end of training: whether anything was kept that passes left."""
    helper._pai_save_with_beside(model, "PAI", "best_model")
    between()
    helper._pai_give_left(model)
    return Path("PAI/left_best.pt").exists()


@pytest.mark.parametrize("inference", [False, True], ids=["no_grad", "inference_mode"])
def test_what_a_pass_leaves_goes_back_with_the_best_model(
    helper: ModuleType, perforate: Callable[..., Any], inference: bool
) -> None:
    """In whatever an attribute holds, and in a buffer that no state has; of a model's parts as well."""
    import torch

    class Leaving(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = torch.nn.Linear(2, 2)
            self.register_buffer("passing", None, persistent=False)
            self.counted = torch.zeros(1)

        def forward(self, x: Any) -> Any:
            self.passing, self.among, self.array = 2 * x, {"maps": [(x, 1)]}, x.detach().numpy()
            self.counted += 1
            return self.last(x)

    def passed(number: int) -> None:
        with torch.inference_mode() if inference else torch.no_grad():
            model(torch.full((1, 2), float(number)))

    model = helper.load_latest_switch(perforate(Leaving(), initialize=False), None)
    passed(1)
    assert end_with_best(helper, model, lambda: passed(5))
    part = model[0]
    assert (part.passing.tolist(), part.among["maps"][0][0].tolist()) == ([[2, 2]], [[1, 1]])
    assert (part.array.tolist(), part.counted.tolist(), part.among["maps"][0][1]) == ([[1, 1]], [1], 1)
    assert "passing" in part._buffers
    assert "tracker_string" not in "".join(model.state_dict())
    passed(7)
    assert part.passing.tolist() == [[14, 14]]


def test_what_no_pass_has_left_is_not_kept(helper: ModuleType, perforate: Callable[..., Any]) -> None:
    """Constants, other views of the model's own weights, and what is no tensor; nor what was left of another best."""
    import torch

    class Constant(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.last = torch.nn.LSTM(2, 2), torch.nn.Linear(2, 2)
            self.mean, self.words = torch.ones(2), ["a", "b"]
            self.register_buffer("mask", torch.ones(2), persistent=False)

        def forward(self, x: Any) -> Any:
            self.row = next(self.lstm.parameters()).detach()[0]
            self.ring: list[Any] = [self.mean]
            self.ring.append(self.ring)
            return self.last(self.lstm(x * self.mean * self.mask)[0])

    model = helper.load_latest_switch(perforate(Constant(), initialize=False), None)
    with torch.no_grad():
        model(torch.ones(1, 1, 2))
    assert not end_with_best(helper, model)
    model.seen = torch.ones(1)
    assert end_with_best(helper, model)
    del model.seen
    assert not end_with_best(helper, model)
    assert not hasattr(model, "seen")


@pytest.mark.parametrize("wrapped", [False, True], ids=["alone", "in a module"])
def test_what_is_trained_beside_the_model_goes_by_its_names(
    helper: ModuleType, perforate: Callable[..., Any], wrapped: bool
) -> None:
    """An optimizer over a set of parameters has them in another order in each process."""
    import torch

    model = helper.load_latest_switch(perforate(torch.nn.Linear(2, 2)), None)
    norm = torch.nn.BatchNorm1d(2)
    head = torch.nn.Sequential(torch.nn.Linear(2, 2), norm, torch.nn.Linear(2, 2))
    outer = torch.nn.Sequential(head) if wrapped else head
    norm.state_dict()["running_mean"].fill_(7)
    scale = torch.nn.Parameter(torch.ones(3))
    trained = [*outer.parameters(), scale]
    for number, one in enumerate(trained):
        one.data.fill_(number + 1)
    values = brought_back(helper, model, trained, [*model.parameters(), *reversed(trained)])
    assert all(map(torch.equal, trained, values))
    assert norm.state_dict()["running_mean"].tolist() == [7, 7]
    for one in trained:
        one.data.zero_()
    helper._pai.beside_now = helper._pai_beside(model)
    assert helper._pai_give_best(model, "PAI/beside_best.pt")
    assert all(map(torch.equal, trained, values))


@pytest.mark.parametrize(
    ("kind", "order", "named"),
    [
        ("heads", 1, ""),
        ("heads", -1, "bias of Linear (2, 2) (2,)"),
        ("tensors", 1, ""),
        ("tensors", -1, "(2,)"),
        ("heads of two sizes", -1, ""),
        ("tensors of two sizes", -1, ""),
    ],
)
def test_what_is_alike_beside_the_model_needs_an_order(
    helper: ModuleType,
    perforate: Callable[..., Any],
    capsys: pytest.CaptureFixture[str],
    kind: str,
    order: int,
    named: str,
) -> None:
    """Which of two heads of the same sizes is which, or of two tensors, is known by their order alone."""
    import torch

    model = helper.load_latest_switch(perforate(torch.nn.Linear(2, 2)), None)
    size = 3 if "two" in kind else 2
    heads = [torch.nn.Linear(2, 2), torch.nn.Linear(2, size)]
    trained = [parameter for head in heads for parameter in head.parameters()]
    if "tensors" in kind:
        trained = [torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.full((size,), 2.0))]
    every = [*model.parameters(), *trained]
    with pytest.raises(SystemExit, match="1") if named else contextlib.nullcontext():
        values = brought_back(helper, model, every, every[::order])
        assert all(map(torch.equal, every[-len(trained) :], values[-len(trained) :]))
    said = capsys.readouterr().err
    assert (f"are alike ({named}), so that" in said) is (named != "")
    assert ("tests/test_runtime.py" in said) is (named != "")


def test_layers_beside_the_model_that_the_first_batch_makes_are_loaded(
    helper: ModuleType, perforate: Callable[..., Any]
) -> None:
    import torch

    model = helper.load_latest_switch(perforate(torch.nn.Linear(2, 2)), None)
    head, new = (torch.nn.Sequential(torch.nn.LazyLinear(3), torch.nn.LazyBatchNorm1d()) for _ in range(2))
    head(torch.randn(4, 2))
    values = [one.detach().clone() for one in head.state_dict().values()]
    brought_back(helper, model, [*head.parameters()], [*new.parameters()])
    new.eval()(torch.randn(4, 2))
    assert all(map(torch.equal, new.state_dict().values(), values))


@pytest.mark.parametrize(("backends", "expected"), [("cuda:nccl", "cuda:1"), ("cpu:gloo,cuda:nccl", "cpu")])
def test_ranks_meet_where_their_backend_can(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, backends: str, expected: str
) -> None:
    """Also while a script has its model on the CPU, to save it."""
    import torch

    monkeypatch.setattr(torch.distributed, "get_backend_config", lambda: backends)
    monkeypatch.setattr(helper, "_pai_cuda_index", lambda: 1)
    assert helper._pai_group_device(torch.nn.Linear(2, 2)) == torch.device(expected)


def test_what_rank_0_has_written_is_waited_for(
    helper: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dist = pytest.importorskip("torch.distributed")
    monkeypatch.setenv("PAI_NODES_SECONDS", "0")
    path = tmp_path / "best_model.pt"
    path.write_bytes(b"older")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        assert Path(helper._pai_near(str(path), written=True)).read_bytes() == b"older"
        path.write_bytes(b"newer")
        with pytest.raises(SystemExit, match=r"Rank 0 waited 0 s to see .*best_model\.pt as rank 0 has written it"):
            helper._pai_await_written(str(path))
    finally:
        helper._pai_release()
        dist.destroy_process_group()


def test_a_rank_introduces_itself_where_the_script_has_taken_the_place_of_stderr(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    dist = pytest.importorskip("torch.distributed")
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=len, flush=str))  # as one that writes to a log
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        helper._pai_introduce()
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize(
    ("given", "later"),
    [
        pytest.param({}, False, id="without the launcher"),
        pytest.param({"PAI_SEED": "1", "PAI_PERFORATE_MODEL_PARALLEL": "1"}, False, id="the initialisation"),
        pytest.param({"PAI_SEED": "1"}, True, id="the first round"),
        pytest.param({"PAI_LOAD_FOLDER": "runs"}, True, id="a round that is started by hand"),
    ],
)
def test_only_the_launchers_starts_after_the_first_are_later_ones(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], later: bool
) -> None:
    for name in ("PAI_SEED", "PAI_PERFORATE_MODEL_PARALLEL", "PAI_LOAD_FOLDER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert helper.later_start() is later


@pytest.fixture
def save(helper: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a training be there whose rounds a test lets end."""
    helper.GPA.pc.set_maximizing_score(True)
    helper.GPA.pc.set_save_name(str(tmp_path))
    monkeypatch.setattr(helper.GPA, "pai_tracker", object())
    (tmp_path / "array_dims.csv").touch()


def end_with(
    helper: ModuleType, best: float, kept: Callable[[], Any], *, complete: bool = False, dropped: bool = False
) -> Any:
    """Let a round end whose best score is given: what it then has for the code after its training loop."""
    helper.keep_with_best(kept)
    structure = {"best": best, "kept": not dropped}
    helper._pai.structures, helper._pai.complete = [structure], complete
    if helper._pai_is_best_round():
        helper._pai_end_with_best(complete=complete)
    helper._pai.before.append(structure)
    return helper.kept_with_best()


@pytest.mark.parametrize(
    ("bests", "dropped", "expected"),
    [
        ((0.7, 0.5), False, ("first", 1)),
        ((0.5, 0.7), False, ("second", 2)),
        ((0.5, 0.5), False, ("second", 2)),
        ((0.5, 0.5), True, ("first", 1)),  # as best_model.pt is
        ((0.5, 0.50001), True, ("first", 1)),  # not clearly better, for the library
    ],
)
@pytest.mark.usefixtures("save")
def test_the_end_has_what_the_round_with_the_best_score_has_kept(
    helper: ModuleType, bests: tuple[float, float], dropped: bool, expected: tuple[str, int]
) -> None:
    first, second = bests
    assert end_with(helper, first, lambda: ("first", 1)) == ("first", 1)
    assert end_with(helper, second, lambda: ("second", 2), complete=True, dropped=dropped) == expected
    helper.keep_with_best(lambda: "another model's")
    assert helper.kept_with_best() == "another model's"
    helper._pai.structures = []  # started again, it passes its training over
    helper.keep_with_best(lambda: ("second", 2))
    assert helper.kept_with_best() == expected


@pytest.mark.usefixtures("save")
def test_the_model_and_its_copies_are_kept_by_their_weights(helper: ModuleType) -> None:
    """Another module of its class is none of them."""
    import torch

    def model(*layers: Any) -> Any:
        return torch.nn.Sequential(*layers or [torch.nn.Linear(1, 1)])

    helper._pai.model, copy, other = model(), model(), model(torch.nn.Tanh(), torch.nn.Linear(2, 3))
    end_with(helper, 0.7, lambda: (helper._pai.model, copy, other, 0.7))
    itself, copied, another, best = end_with(helper, 0.5, lambda: (None,) * 4, complete=True)
    assert itself is helper._pai.model
    assert copied is not itself
    assert (copied[0].weight, another[1].weight.tolist(), best) == (copy[0].weight, other[1].weight.tolist(), 0.7)


@pytest.mark.usefixtures("save")
def test_what_cannot_be_kept_from_round_to_round_is_said(
    helper: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    end_with(helper, 0.7, lambda: (0.7, threading.Lock()))
    assert "what the script keeps with its best score cannot be saved (" in capsys.readouterr().out
    assert end_with(helper, 0.5, lambda: (0.5, None), complete=True) == (0.7, None)  # all else is kept


@pytest.mark.usefixtures("save")
def test_a_value_alone_that_cannot_be_kept_is_the_last_rounds(helper: ModuleType) -> None:
    end_with(helper, 0.7, threading.Lock)
    assert end_with(helper, 0.5, lambda: 0.5, complete=True) == 0.5


def test_another_script_that_trains_by_the_same_code_has_its_own_best(helper: ModuleType) -> None:
    helper.keep_with_best(lambda: 0.5)
    assert helper.kept_with_best() == 0.5


@pytest.mark.parametrize(
    ("moves", "since", "planned"),
    [
        ([], True, True),
        ([], False, False),
        ([False], True, True),
        ([False], False, False),
        ([True], False, True),
        ([False, True], False, True),
        ([False, False], True, False),
    ],
)
def test_a_rate_that_moves_to_its_end_is_seen_with_few_scores(
    helper: ModuleType, moves: list[bool], since: bool, planned: bool
) -> None:
    helper._pai.rate_moves, helper._pai.rate_moved = moves, since
    assert helper._pai_is_planned() is planned


@pytest.mark.parametrize(
    ("moves", "planned"),
    [([False, False, True, True], True), ([False, False, True, False], False), ([False, True, True, True], True)],
)
def test_a_rate_that_the_library_moves_is_as_it_was_in_the_second_epoch(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, moves: list[bool], planned: bool
) -> None:
    known = {"optimizer_instance": None, "scheduler_instance": object()}
    monkeypatch.setattr(helper.GPA, "pai_tracker", SimpleNamespace(member_vars=known))
    helper._pai.rate_moves = moves
    assert helper._pai_is_planned() is planned


@pytest.mark.parametrize("by_itself", [False, True], ids=["at the planned end", "by itself"])
@pytest.mark.parametrize(
    ("ends", "switch", "planned"),
    [([True] * 3, 1.0, True), ([False] * 3, 1.0, False), ([True] * 3, 0.0, False), ("fades", 1.0, True)],
    ids=["moves to its end", "rests in the end", "a first round anew", "fades before its end"],
)
def test_a_rate_that_rests_first_is_waited_for_in_later_rounds_where_it_has_moved_to_its_end(
    helper: ModuleType,
    perforate: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    ends: list[bool] | str,
    switch: float,
    planned: bool,
    by_itself: bool,
) -> None:
    helper._pai.model = perforate(initialize=False)
    helper.GPA.pc.set_n_epochs_to_switch(3)
    helper._pai.last_score = 0.5
    rests = [False] * 4
    for name in ("_pai_meet", "_pai_share", "_pai_is_rehearsed"):
        monkeypatch.setattr(helper, name, lambda *_, **__: None)
    if isinstance(ends, str):
        monkeypatch.setattr(helper, "_pai_has_faded", lambda: True)
        helper._pai.rate_moves = [*rests, True, True, True]
        assert helper._pai_is_time(True)
    else:
        for number in helper.planned_epochs(range(8)):
            helper._pai.rate_moves += [*rests, *ends][number : number + 1]
            if by_itself and number == 6:
                helper.end_of_training()
                break
    helper._pai.rate_moves, helper._pai.rate_moved, helper._pai.switch_time = rests, False, switch
    assert helper._pai_is_planned() is planned


@pytest.mark.parametrize(("own", "of_rank_0"), [(range(9), range(5)), (range(5), range(9))])
def test_past_the_plan_all_ranks_end_by_the_turns_in_which_rank_0_has_had_scores(
    helper: ModuleType,
    perforate: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    own: Sequence[int],
    of_rank_0: Sequence[int],
) -> None:
    """A score at a step may come in unlike epochs of the ranks, where data decide how many steps an epoch has."""
    perforate(initialize=False)
    helper._pai.model = None
    monkeypatch.setattr(helper, "_pai_end_structure", lambda why: None)
    decided: list[Sequence[bool]] = []

    def turns(scored: Sequence[int], told: Callable[..., Sequence[bool]]) -> int:
        helper._pai.rate_moves, seen = [], 0
        monkeypatch.setattr(helper, "_pai_of_rank_0", told)
        for number in helper.planned_epochs(range(4)):
            helper._pai.steps, seen = helper._pai.steps + 1, number
            helper._pai.rate_moves += [False] * (number in scored)
        return seen

    def tells(*flags: bool) -> Sequence[bool]:
        decided.append(flags)
        return flags

    first = turns(of_rank_0, tells)
    assert turns(own, lambda *flags: decided.pop(0)) == first
    assert not decided


@pytest.mark.parametrize(
    ("steps", "turns"),
    [
        (lambda number: number < 4, 5),  # as an inner loop over epochs that ends with the plan
        (lambda number: number % 2, 9),  # every other turn validates alone
        (lambda number: number < 4 or number > 5, 5),
        (lambda number: False, 9),  # by no optimizer of torch's
    ],
)
def test_a_turn_past_the_plan_that_trains_nothing_is_the_last(
    helper: ModuleType, perforate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, steps: Any, turns: int
) -> None:
    perforate(initialize=False)
    helper._pai.model = None
    said: list[str] = []
    monkeypatch.setattr(helper, "_pai_end_structure", said.append)
    seen = []
    for number in helper.planned_epochs(range(4)):
        seen.append(number)
        helper._pai.steps += bool(steps(number))
        helper._pai.rate_moves.append(False)
        if number == 8:
            break
    assert len(seen) == turns
    ends = turns == 5
    assert said == ["The script trains nothing past its planned end"] * ends
    assert bool(helper._pai_read("planned").get("ends")) is ends


@pytest.fixture
def stopped(training: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The helper at a start in the first round, in which an earlier one was stopped after its ninth epoch of two.

    The script has loaded its own file of that, and the initialisation has run once more.
    """
    import torch

    torch.save({}, "last.pt")
    known: dict[str, Any] = {
        "round": 1,
        "kept": None,
        "switch": 0,
        "epochs": 9,
        "best": 0.5,
        "score": 0.4,
        "moves": [],
        "seconds": 1,
    }
    training._pai_write("rounds", {"structures": [known]})
    training._pai_write("planned", {"epoch": 0, "end of epochs": 2, "step": 0})
    later = os.path.getmtime("last.pt") + 9
    os.utime("PAI/array_dims.csv", (later, later))
    training._pai.steps, training._pai.files = 0, {}
    monkeypatch.setattr(training.GPA, "pai_tracker", TRACKER)
    training._pai_read_rounds(0)
    torch.load("last.pt")
    return training


def test_the_first_scores_of_a_start_say_nothing_of_the_rate_of_a_stopped_one(
    stopped: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library steps its scheduler from the second score of each process on."""
    monkeypatch.setitem(TRACKER.member_vars, "scheduler_instance", object())
    stopped._pai.under_way["moves"] = [True] * 4
    assert stopped._pai_take_up()
    stopped._pai.rate_moves += [False, False, True]
    assert stopped._pai_rate_ends()
    stopped._pai.rate_moves += [False]
    assert not stopped._pai_rate_ends()


def test_a_file_that_the_script_opens_itself_is_one_that_it_goes_on_from(stopped: ModuleType) -> None:
    import torch

    stopped._pai.read.clear()
    with open("last.pt", "rb") as file:
        torch.load(file)
    assert stopped._pai_resumes()


@pytest.mark.parametrize(
    ("change", "epochs", "ended"),
    [
        ({}, [9, 10, 11], []),
        ({"moves": [True] * 9}, [], [0.4]),  # a rate that had moved to the plan's end
        ({"loads": False}, [], []),  # it says by itself where it begins
        ({"end": 3}, [], []),  # another plan, as where it is only to evaluate
    ],
    ids=["goes on", "ends as planned", "of no file of this round", "another plan"],
)
def test_a_round_that_was_stopped_past_its_plan_goes_on_from_there(
    stopped: ModuleType, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], epochs: list[int], ended: list[float]
) -> None:
    shared: list[float] = []
    monkeypatch.setattr(stopped, "_pai_share", lambda number, *_, **__: shared.append(number))
    monkeypatch.setattr(stopped, "_pai_note_rate", lambda: None)
    monkeypatch.setattr(stopped._pai, "read", set() if "loads" in change else stopped._pai.read)
    stopped._pai.under_way["moves"] = change.get("moves", [False] * 9)
    seen = []
    for epoch in stopped.planned_epochs(range(9, change.get("end", 2))):
        seen.append(epoch)
        if epoch == 11:
            break
    assert (seen, stopped._pai.past_end, shared) == (epochs, bool(epochs), ended)
    if not ended:
        stopped.end_of_training()
    assert shared == [0.4] * bool(epochs or ended), "where it has only evaluated nothing ends"


@pytest.mark.parametrize("loads", [True, False])
def test_an_initialisation_begins_where_the_round_began_that_was_stopped(
    stopped: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], loads: bool
) -> None:
    monkeypatch.setattr(stopped, "initializing", lambda: True)
    monkeypatch.setattr(stopped._pai, "read", stopped._pai.read if loads else set())
    assert stopped.from_the_start(56, "step") == (0 if loads else 56)
    epochs = stopped.planned_epochs(range(9, 2))
    if loads:
        assert next(epochs) == 0
        return
    with pytest.raises(SystemExit, match="1"):
        next(epochs)
    assert "The initialisation run has no epoch to train: the script has planned none" in capsys.readouterr().err


@pytest.mark.parametrize(("loads", "steps"), [(True, 2), (True, 0), (False, 2)])
def test_a_round_that_was_stopped_after_its_last_score_ends_with_that(
    stopped: ModuleType, monkeypatch: pytest.MonkeyPatch, loads: bool, steps: int
) -> None:
    shared: list[tuple[float, bool]] = []
    monkeypatch.setattr(stopped, "_pai_share", lambda number, *_, again, **__: shared.append((number, again)))
    monkeypatch.setattr(stopped, "_pai_note_rate", lambda: None)
    monkeypatch.setattr(stopped._pai, "read", stopped._pai.read if loads else set())
    monkeypatch.setenv("PAI_SEED", "1")
    stopped._pai.steps = steps
    if loads:
        stopped.end_of_training()
    else:
        with pytest.raises(SystemExit, match="1"):
            stopped.end_of_training()
    assert shared == [(0.4, True)] * loads
    assert [one["epochs"] for one in stopped._pai.structures] == [9] * loads


def test_the_best_of_a_stopped_round_is_that_of_the_start_that_ends_it(
    stopped: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As best_model.pt is: the library begins anew with each start."""
    import torch

    net = torch.nn.Linear(1, 1)
    monkeypatch.setattr(stopped, "_pai_write_logbook", lambda *_: {})
    monkeypatch.setitem(TRACKER.member_vars, "num_dendrites_added", 1)
    known = stopped._pai.under_way
    known |= {"dendrites": 0, "tries": 0}
    stopped._pai_take_up()
    stopped._pai_note_score(0.3, net)
    assert stopped._pai.structures == [known]
    assert (known["best"], known["epochs"]) == (0.3, 10)
    known["best"] = None
    stopped._pai.last_score = 0.4
    stopped._pai_note_fate(False, net)
    assert known["best"] == 0.4


def test_what_a_stopped_first_round_has_saved_is_none_of_before_the_training(stopped: ModuleType) -> None:
    stopped._pai.steps = 1
    end_round(stopped, 0.5)
    assert held("last.pt", "PAI/files/last.pt") == [None, {}]


@pytest.mark.parametrize("saves", [True, False])
@pytest.mark.parametrize(
    ("begun", "there"), [(["train.py"], True), (["train.py", "last.pt"], False)], ids=["asked for", "as at first"]
)
def test_a_file_that_a_stopped_round_is_to_go_on_from_is_there_for_the_later_ones(
    stopped: ModuleType, monkeypatch: pytest.MonkeyPatch, saves: bool, begun: list[str], there: bool
) -> None:
    """Each is started with `--resume last.pt`. A script that has the name from the beginning looks whether it is."""
    import torch

    os.remove("PAI/begun")
    monkeypatch.setattr(sys, "argv", begun)
    stopped._pai_keep_beginning()
    monkeypatch.setattr(sys, "argv", ["train.py", "--resume=last.pt", "last.pt"])
    os.utime("last.pt")  # it was saved after the beginning, which is that of the last initialisation here
    os.utime("PAI/begun", (1, 1))
    for number in (1, 2):
        stopped._pai.steps = 1
        if saves:
            torch.save(number, "last.pt")
        end_round(stopped, 0.5 + number / 10)
        assert held("last.pt") == [{} if there else None]
        assert held("PAI/files/last.pt") == [number if saves else {}]
        stopped._pai.steps = 0
    assert not os.path.exists("PAI/first/last.pt")


@pytest.mark.parametrize(
    ("length", "planned"),
    [
        ({}, False),
        ({"t_total": 40}, True),
        ({"t_total": -1}, False),
        ({"schedule": SimpleNamespace(warmup=0.1, t_total=40.0)}, True),
        ({"schedule": SimpleNamespace(warmup=0.1, t_total=-1.0)}, False),
        ({"schedule": SimpleNamespace(total_steps=None)}, False),
    ],
)
def test_an_optimizer_that_knows_how_long_it_trains_ends_as_planned(
    helper: ModuleType, perforate: Callable[..., Any], length: dict[str, Any], planned: bool
) -> None:
    import torch

    perforate(torch.nn.Linear(2, 2))
    optimizer = torch.optim.SGD([{"params": torch.nn.Linear(1, 1).parameters(), **length}])
    helper.GPA.pai_tracker.set_optimizer_instance(optimizer)
    helper._pai.rate_moves = [False] * 3
    assert helper._pai_is_planned() is planned


START = """
import os
os.environ |= {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_NPROCS": "1"}
FIRST
import torch.distributed as dist
THEN
dist.init_process_group("gloo", URL)
dist.barrier()
sizes = [os.environ["SLURM_NTASKS"], os.environ["SLURM_NPROCS"]]
told = f"rank {os.environ['SLURM_PROCID']} of {' '.join(sizes)} {'SLURM_LOCALID' in os.environ}\\n"
os.write(1, told.encode())  # at once: the other rank writes too
"""


@pytest.mark.parametrize(("url", "late"), [("env://", False), ("tcp://127.0.0.1:PORT", False), ("env://", True)])
def test_a_port_of_the_scripts_own_and_a_schedulers_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, late: bool
) -> None:
    """A script may have set its port by the time that the helper is imported."""
    if late:  # what a process was started with, a fork does not have
        monkeypatch.setitem(globals(), "training_python", lambda: sys.executable)
    port = str(free_port())
    ranks = 'rank=int(os.environ["RANK"]), world_size=2' if url != "env://" else ""
    arguments = f"{url.replace('PORT', port)!r}" + (f", {ranks}" if ranks else "")
    lines = ["import pai_distributed", f'os.environ["MASTER_PORT"] = {port!r}']
    first, then = reversed(lines) if late else lines
    script = START.replace("FIRST", first).replace("THEN", then).replace("URL", arguments)
    (tmp_path / "train.py").write_text(script)
    run = launch(tmp_path, script=str(tmp_path / "train.py"), ranks=2)
    assert run.status == 0
    assert sorted(re.findall("rank .*", run.output)) == ["rank 0 of 2 2 False", "rank 1 of 2 2 False"]


GOES_ON = """
import atexit, multiprocessing, sys, threading
from pai_distributed import process
process._pai_seconds_for_others = 0.0
process._pai.by_gloo = GLOO
atexit.register(print, "saved")
KIND(target=EVENT().wait, name="watches", daemon=bool(sys.argv[1:])).start()
process._pai_leave(3)
"""
KINDS = {"a thread": ("threading.Thread", "threading.Event"), "a process": ("Forked.Process", "Forked.Event")}


@pytest.mark.parametrize(("kind", "gloo"), [("a thread", False), ("a process", False), ("a process", True)])
def test_what_goes_on_keeps_nobody_waiting_and_outlives_nobody(tmp_path: Path, kind: str, gloo: bool) -> None:
    """What outlived its round would hold the output that the test waits for."""
    made, event = KINDS[kind]
    text = GOES_ON.replace("KIND", made).replace("EVENT", event).replace("GLOO", str(gloo))
    (tmp_path / "train.py").write_text(text.replace("Forked", "multiprocessing.get_context('fork')"))
    for arguments, told in ((), True), (("daemon",), False):
        run = launch(tmp_path, *arguments, script=str(tmp_path / "train.py"))
        assert run.status == 3
        assert ("threads or processes of the script go on: watches" in run.output) is told
        assert run.output.count("saved") == 1


CAUGHT = """
import multiprocessing, sys, threading
from pai_distributed import process, start, watch
def batch(): next(iter(watch.torch.utils.data.DataLoader([0])))
def bare(leave):
    try: leave()
    except: pass
    batch()
def finally_going_on(leave):
    for _ in range(2):
        try: leave()
        finally: continue
    batch()
def other_thread(leave):
    try: leave()
    except: pass
    thread = threading.Thread(target=batch)
    thread.start(), thread.join()
def finally_evaluating(leave):
    try: leave()
    finally: batch(), print("cleaned up")
def own_exit(leave):
    try: sys.exit(4)
    except: pass
    batch()
def run(handles, leave):
    handles(leave)
    print("went on")
def leave(): process._pai_leave(3)
def fail(): process._pai_fail("wrong")
def stand_back(): process._pai_stand_back()
for handles in (bare, finally_going_on, other_thread, finally_evaluating, own_exit):
    for leaves in (leave, fail, stand_back):
        one = multiprocessing.get_context("fork").Process(target=run, args=(handles, leaves))
        one.start(), one.join()
        print(f"{handles.__name__} {leaves.__name__}: {one.exitcode}", flush=True)
"""


def test_a_script_that_catches_the_exit_trains_on_no_further(tmp_path: Path) -> None:
    """But what it does while the exit passes through, in a thread of its own, or of its own exit, is its own."""
    (tmp_path / "train.py").write_text(CAUGHT)
    output = launch(tmp_path, script=str(tmp_path / "train.py")).output
    ends = {"leave": 3, "fail": 1, "stand_back": 0}
    for handles, caught in ("bare", True), ("finally_going_on", True), ("other_thread", False):
        for leaves, status in ends.items():
            assert f"{handles} {leaves}: {status if caught else 0}\n" in output
    assert output.count("train.py:4: the script has caught the exit") == 4
    assert len(re.findall(r"train.py:(?:29|30): the script has caught the exit", output)) == 2  # as it leaves again
    assert output.count("wrong") == 4  # once each
    for leaves, status in ends.items():
        assert f"cleaned up\nfinally_evaluating {leaves}: {status}\n" in output
        assert f"went on\nown_exit {leaves}: 0\n" in output
    assert output.count("went on") == output.count("cleaned up") + 3 == 6


REPORTS = """
import atexit, sys
from pai_distributed import process, watch
def batch(): next(iter(watch.torch.utils.data.DataLoader([0])))
def report(): batch(), print("reported", flush=True)
atexit.register(report)
try: process._pai_leave(3)
except BaseException:
    if not sys.argv[1:]: raise
batch()
"""


@pytest.mark.parametrize("arguments", [(), ("catches",)])
def test_what_an_exit_handler_draws_is_clean_up(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "train.py").write_text(REPORTS)
    run = launch(tmp_path, *arguments, script=str(tmp_path / "train.py"))
    assert (run.status, run.output.count("reported")) == (3, 1)
    assert run.output.count("has caught the exit") == len(arguments)


LOOKS = """
import threading
from pai_distributed import watch
from pai_distributed.process import _pai
def step(): _pai.steps += 1
def batch(): next(iter(watch.torch.utils.data.DataLoader([0])))
def meeting(): _pai.meetings += 1
def score(): _pai.scores += 1
def another_rank(): store.add(watch._pai_key("signs"), 1)
def sleep(seconds):
    looks.append(seconds)
    if len(looks) in (19, 38, 57):
        sign()
watch.time.sleep = sleep
for sign in (step, batch, meeting, score, another_rank, int):
    looks, ended, store = [], threading.Event(), watch.dist.HashStore()
    watch._pai_look_for(7200.0, watch._pai_signs, lambda *_: ended.set(), store, 0, 2)
    ended.wait()
    print(f"{sign.__name__}: {len(looks)} looks")
"""


def test_ranks_that_go_on_do_not_hang(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOOKS)
    told = re.findall(r"(\w+): (\d+) looks", launch(tmp_path, script=str(tmp_path / "train.py")).output)
    assert told == [*((sign, "77") for sign in ("step", "batch", "meeting", "score", "another_rank")), ("int", "21")]


# ---- Scores that are none, and files that are not there ----------------------------------------------------


def test_scores_that_are_not_finite_are_skipped(initialized: Path, tmp_path: Path) -> None:
    scores = "0.1,nan,0.2,inf,nan,nan,nan,nan,0.5"
    run = launch(copied(initialized, tmp_path), "--scores", scores, ranks=2)
    for rank in (0, 1):
        assert run.rank(rank)["scores"] == [0.1, 0.2]
        assert run.rank(rank)["epochs"] == 7
    assert run.status != 0
    assert run.output.count("exitcode  : 3") == 2
    assert run.output.count("not counted") == 6
    assert "The validation score is inf, so it is not counted (1 in a row)" in run.output


def test_falls_back_from_a_switch_file_that_cannot_be_read(capacity_rounds: list[Run], tmp_path: Path) -> None:
    folder = copied(capacity_rounds[3].folder, tmp_path)
    newest = folder / "PAI_capacity_test" / "switch_6.pt"
    half = newest.stat().st_size // 2
    newest.write_bytes(newest.read_bytes()[:half])
    load = ("--pai_load_folder", "PAI_capacity_test")
    run = launch(folder, "--model", "Sequence", *load, capacity=True, PAI_ACCEPT_WORLD_SIZE="1")
    assert run.status == 0
    assert "PAI_capacity_test/switch_6.pt cannot be read" in run.output
    assert "Loaded PAI_capacity_test/switch_4.pt" in run.output
    assert newest.stat().st_size > half  # written again


def test_says_that_the_initialisation_run_is_missing(tmp_path: Path) -> None:
    run = launch(tmp_path)
    assert run.status == 1
    assert "PAI/array_dims.csv is missing. Run once" in run.output
    assert f"python {SCRIPTS / 'train_ddp.py'} --perforate_model_parallel" in run.output
    assert "Traceback" not in run.output
    assert "Pdb" not in run.output


# ---- Options -----------------------------------------------------------------------------------------------


def test_spawned_processes_know_the_options(tmp_path: Path) -> None:
    known = {"arguments": ["lr=1"], "initializing": True, "load_folder": "PAI"}
    options = ("--perforate_model_parallel", "lr=1", "--pai_load_folder", "PAI")
    assert launch(tmp_path, *options, script="spawn.py").status == 0
    assert json.loads((tmp_path / "rank0.json").read_text()) == {**known, "RANK": "0"}
    assert not (tmp_path / "rank1.json").exists()  # the initialisation is of one process
    (tmp_path / "group").unlink(missing_ok=True)  # where processes meet by a file, it must be new for each start
    assert launch(tmp_path, *options[1:], script="spawn.py").status == 0
    for rank in (0, 1):
        said = json.loads((tmp_path / f"rank{rank}.json").read_text())
        assert said == {**known, "initializing": False, "RANK": str(rank)}


# The names that the helper gives to owners of what it changes.
NAMED_OWNERS = {"_pai_sampler", "_pai_settings"}


def assigned_attributes(source: str) -> list[tuple[Any, str]]:
    """The attributes of others that a file assigns as it is imported, each with its owner."""
    body = ast.parse(source).body
    owners: dict[str, Any] = {}
    for statement in body:
        names = [ast.unparse(target) for target in statement.targets] if isinstance(statement, ast.Assign) else []
        if isinstance(statement, (ast.Import, ast.ImportFrom)) or not NAMED_OWNERS.isdisjoint(names):
            exec(compile(ast.Module([statement], []), "owners", "exec"), owners)
    targets = [target for statement in body if isinstance(statement, ast.Assign) for target in statement.targets]
    each = [one for target in targets for one in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return [(eval(ast.unparse(one.value), owners), one.attr) for one in each if isinstance(one, ast.Attribute)]


def keep_what_it_patches(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let torch and the library be after a test what they were before it, where the helper changes them."""
    import safetensors.torch
    import torch
    from perforatedai import globals_perforatedai, modules_perforatedai, utils_perforatedai

    schedulers = torch.optim.lr_scheduler
    loading = [kind for kind in vars(schedulers).values() if "load_state_dict" in getattr(kind, "__dict__", ())]
    of_library = [kind for kind in vars(modules_perforatedai).values() if hasattr(kind, "named_modules")]
    for owner, name in (
        *assigned_attributes(source), (atexit, "register"), (schedulers.OneCycleLR, "step"),
        (torch.optim.Optimizer, "__init_subclass__"), (schedulers.LRScheduler, "__init_subclass__"),
        (modules_perforatedai.PAINeuronModule, "forward"), (modules_perforatedai.PAINeuronModule, "__getstate__"),
        (utils_perforatedai, "save_net"), (utils_perforatedai, "load_net"), (safetensors.torch, "serialize_file"),
        (torch._C.PyTorchFileWriter, "__init__"), (torch._C.ScriptModule, "save"),
        (torch._C.ScriptModule, "_save_for_mobile"), (torch._C.ScriptFunction, "save"),
        *((kind, "named_modules") for kind in of_library),
        *((kind, "load_state_dict") for kind in loading),
    ):  # fmt: skip
        monkeypatch.setattr(owner, name, getattr(owner, name, None), raising=False)
    monkeypatch.setattr(atexit, "register", lambda function: function)
    monkeypatch.setattr(globals_perforatedai, "pc", globals_perforatedai.PAIConfig())
    for name in ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks"):
        monkeypatch.setattr(sys.modules["torch.optim.optimizer"], name, OrderedDict())


@pytest.fixture
def helper(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The helper as `--inline` puts it into one file, in this process, without options."""
    for name in ("PAI_PERFORATE_MODEL_PARALLEL", "PAI_LOAD_FOLDER", "PAI_PREFILL_GRADIENTS", "PAI_ROOT"):
        monkeypatch.setenv(name, "")  # so that what the helper sets is undone as well
        monkeypatch.delenv(name)
    monkeypatch.delenv("PAI_TESTING_DENDRITE_CAPACITY", raising=False)
    monkeypatch.setattr(sys, "argv", ["train.py"])
    file = tmp_path_factory.mktemp("helper") / "pai_distributed.py"
    imports = "from perforatedai import globals_perforatedai as GPA, utils_perforatedai as UPA\n"
    file.write_text(imports + inlining(recipe(), index_of(""))["helper_source"])
    keep_what_it_patches(file.read_text(), monkeypatch)
    specification = importlib.util.spec_from_file_location("pai_distributed", file)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "addaudithook", lambda hook: None)  # none goes again, and each slows all later tests
        specification.loader.exec_module(module)
    monkeypatch.setattr(module, "_pai_end_if_caught", lambda: None)  # as pytest.raises does
    return module


@pytest.fixture
def perforate(helper: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Perforate a model in this process, in an empty folder; for an initialisation run unless said otherwise."""
    monkeypatch.setenv("PAI_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def perforate(*layers: Any, initialize: bool = True) -> Any:
        import torch

        monkeypatch.setattr(sys, "argv", ["train.py", "--perforate_model_parallel"] if initialize else ["train.py"])
        helper.configure_library()
        with helper.one_rank_at_a_time():
            return helper.UPA.perforate_model(torch.nn.Sequential(*layers), save_name="PAI", maximizing_score=True)

    return perforate


@pytest.mark.parametrize(
    ("option", "given", "environment", "number"),
    [
        ({"type": int, "default": -1}, [], {"LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "a"}, 1),
        ({"type": int, "required": True}, [], {"LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "a"}, 1),
        ({"type": int, "default": -1}, ["--local_rank=3"], {"LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "a"}, 3),
        ({"type": int, "default": -1}, [], {"LOCAL_RANK": "1"}, -1),
        ({"type": int, "default": -1}, [], {}, -1),
    ],
    ids=["torchrun", "required", "given", "no torchrun", "one process"],
)
def test_an_option_for_the_local_rank_has_what_torchrun_gives_by_the_environment(
    helper: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    option: dict[str, Any],
    given: list[str],
    environment: dict[str, str],
    number: int,
) -> None:
    for name in ("LOCAL_RANK", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    parser = argparse.ArgumentParser()
    for name, settings in {"lr": {"type": float, "default": 0.1}, "local_rank": option}.items():
        parser.add_argument(f"--{name}", **settings)
    assert vars(parser.parse_args(given)) == {"lr": 0.1, "local_rank": number}


@pytest.mark.parametrize(
    ("arguments", "left", "initializing", "folder"),
    [
        ([], [], False, None),
        (["a", "--lr", "1"], ["a", "--lr", "1"], False, None),
        (["--perforate_model_parallel", "a"], ["a"], True, None),
        (["--pai_load_folder", "my folder", "a"], ["a"], False, "my folder"),
        (["a", "--pai_load_folder=x=y"], ["a"], False, "x=y"),
    ],
)
def test_options_are_read_and_taken(
    helper: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    left: list[str],
    initializing: bool,
    folder: str | None,
) -> None:
    given = ["train.py", *arguments]
    monkeypatch.setattr(sys, "argv", list(given))
    assert (helper.initializing(), helper.load_folder(), sys.argv) == (initializing, folder, given)
    for _ in range(2):  # also in a spawned process, whose sys.argv has been emptied before
        helper.take_options()
        assert (helper.initializing(), helper.load_folder()) == (initializing, folder)
        assert sys.argv == ["train.py", *left]


def test_option_without_its_folder(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "--pai_load_folder"])
    with pytest.raises(SystemExit, match="1"):
        helper.take_options()
    assert "--pai_load_folder needs the name of a folder" in capsys.readouterr().err


def test_save_name(helper: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert helper.save_name("PAI") == "PAI"
    monkeypatch.setenv("PAI_TESTING_DENDRITE_CAPACITY", "1")
    assert helper.save_name("PAI") == "PAI_capacity_test"


# ---- Small parts -------------------------------------------------------------------------------------------


def test_settings_exist(helper: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library takes settings that it does not know, and ignores them."""
    helper.configure_library()
    assert helper.GPA.pc._manually_set_keys == {
        "configuration_confirmed",
        "unwrapped_modules_confirmed",
        "testing_dendrite_capacity",
        "find_best_lr",
        "silent",
        "use_cuda",
        "device",
    }
    named = re.findall(r"GPA\.pc\.set_(\w+)\(", (HELPER / "library.py").read_text())
    assert [name for name in named if not hasattr(helper.GPA.pc, f"get_{name}")] == []


def test_gradients_are_filled_only_on_demand(helper: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    def filled() -> list[bool]:
        frozen = torch.nn.Linear(2, 2, bias=False).requires_grad_(False)
        model: Any = torch.nn.Sequential(torch.nn.Linear(2, 2), frozen)
        model[0].weight.grad = ones = torch.ones(2, 2)
        helper.fill_missing_gradients(model)
        assert model[0].weight.grad is ones
        assert model[0].bias.grad is None or model[0].bias.grad.tolist() == [0, 0]
        return [model[0].bias.grad is not None, model[1].weight.grad is not None]

    assert helper.GPA.pc.get_perforated_backpropagation() is False
    assert filled() == [False, False]
    monkeypatch.setenv("PAI_PREFILL_GRADIENTS", "1")
    assert filled() == [True, False]
    monkeypatch.delenv("PAI_PREFILL_GRADIENTS")
    monkeypatch.setattr(helper._pai, "backpropagates", True)
    assert filled() == [True, False]


def test_without_wrapper(helper: ModuleType) -> None:
    import torch

    model: Any = torch.nn.Sequential(torch.nn.Linear(2, 2))
    wrapper: Any = helper.without_wrapper(model)
    assert wrapper.module is model
    assert not hasattr(model, "module")  # or what unwraps a model would never end
    assert wrapper.device == helper.on_one_device(model).device == torch.device("cpu")
    wrapper.register_comm_hook(None, lambda state, bucket: bucket)
    wrapper._set_static_graph()
    with wrapper.no_sync(), wrapper.join(throw_on_early_termination=True):
        wrapper.require_backward_grad_sync = False
    assert list(wrapper.state_dict()) == [f"module.{name}" for name in model.state_dict()]
    assert wrapper(torch.ones(1, 2)).equal(model(torch.ones(1, 2)))
    assert wrapper.append == model.append  # for `model.module if isinstance(model, DDP) else model`
    assert getattr(wrapper, "nothing", None) is None
    assert copy.deepcopy(wrapper).module is not model
    assert helper._pai_unwrap(wrapper) is model


def test_what_stands_for_a_wrapper_says_that_it_is_one(helper: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script may choose parameters by names that it makes so, and go a way that only a wrapper does."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    model: Any = torch.nn.Sequential(torch.nn.Linear(2, 2))
    wrapper: Any = helper.without_wrapper(model)
    kinds = (DistributedDataParallel, torch.nn.DataParallel)
    assert [isinstance(wrapper, kind) for kind in kinds] == [True, False]
    monkeypatch.setattr(torch.distributed.distributed_c10d, "_get_default_group", lambda: "of one")
    monkeypatch.setitem(sys.modules, "pai_distributed", helper)
    assert (wrapper.device_ids, wrapper.process_group) == (None, "of one")
    wrapper.rate = 0.2
    file = io.BytesIO()
    torch.save(wrapper, file)
    file.seek(0)
    for copied in (torch.load(file, weights_only=False), copy.deepcopy(wrapper)):
        assert (type(copied), copied.rate) == (type(wrapper), 0.2)
        assert copied(torch.ones(1, 2)).equal(model(torch.ones(1, 2)))
    compiled: Any = torch.compile(wrapper, backend="eager")
    assert compiled(torch.ones(1, 2)).equal(model(torch.ones(1, 2)))


def test_what_a_script_sets_where_it_counts_one_gpu_reaches_the_model(helper: ModuleType) -> None:
    """DARTS' way: `model.module.rate = ...` where there are several GPUs, else `model.rate = ...`."""
    import torch

    model: Any = torch.nn.Sequential(torch.nn.Linear(2, 2))
    model.kept = 1
    wrapper: Any = helper.without_wrapper(model)
    assert "device" not in vars(model)
    wrapper.rate, wrapper.kept, wrapper.loss = 0.2, 2, torch.nn.L1Loss()
    assert (wrapper.rate, model.rate) == (0.2, 0.2)
    assert (wrapper.kept, model.kept) == (2, 1)  # as with DistributedDataParallel: what a wrapper is given is its own
    assert not hasattr(model, "loss")  # or its weights would have another name in what is saved
    wrapper.forward = wrapper.forward
    assert wrapper(torch.ones(1, 2)).equal(model(torch.ones(1, 2)))


def test_unwrap(helper: ModuleType) -> None:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    assert helper._pai_unwrap(model) is model
    assert helper._pai_unwrap(torch.nn.DataParallel(model)) is model
    compiled: Any = torch.compile(model)
    assert helper._pai_unwrap(torch.nn.DataParallel(compiled)) is model
    holding: Any = torch.nn.Module()  # such as one that adds the loss
    holding.module = model
    compiled = torch.compile(holding)
    assert helper._pai_unwrap(holding) is holding
    assert helper._pai_unwrap(torch.nn.DataParallel(compiled)) is holding
    assert helper._pai_unwrap(helper.without_wrapper(holding)) is holding
    scripted: Any = torch.jit.script(model)
    assert helper._pai_unwrap(scripted) is scripted


def test_a_wrapper_of_the_scripts_own_is_taken_off_the_model(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the interface of DataParallel where a run has one GPU."""
    import torch

    model, own, other = torch.nn.Linear(2, 2), torch.nn.Module(), torch.nn.Module()
    own.module, other.module = model, torch.nn.Conv2d(2, 2, 1)
    monkeypatch.setattr(helper._pai, "model", model)
    assert helper._pai_unwrap(own) is model
    assert helper._pai_unwrap(torch.nn.DataParallel(own)) is model
    assert helper._pai_unwrap(other) is other
    plain: Any = SimpleNamespace(module=model)
    assert helper._pai_unwrap(plain) is model
    shown = type("Shown", (torch.nn.Module,), {"module": property(lambda _: model)})()
    assert helper._pai_unwrap(shown) is model
    monkeypatch.setattr(helper._pai, "model", own)
    assert helper._pai_unwrap(torch.nn.DataParallel(own)) is own


@pytest.mark.parametrize("value", [0.5, "tensor", "tensor of one", "array", "array of one", 1, "0.5"])
def test_scores_of_all_kinds(helper: ModuleType, value: Any) -> None:
    import numpy
    import torch

    kinds = {
        "tensor": torch.tensor(0.5, requires_grad=True),
        "tensor of one": torch.tensor([0.5]),
        "array": numpy.float32(0.5),
        "array of one": numpy.array([0.5]),
    }
    net = torch.nn.Linear(1, 1)
    net(torch.ones(1)).backward()
    score = helper._pai_common_score(kinds.get(value, value), net)
    assert type(score) is float
    assert score == (1.0 if value == 1 else 0.5)
    assert helper._pai_common_score(None, net) is None


@pytest.mark.parametrize("value", [True, [0.5, 0.6], (0.5,), {"acc": 0.5}, "high", "tensor of two", "flag"])
def test_what_is_no_score_is_told(helper: ModuleType, value: Any, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    score = {"tensor of two": torch.ones(2), "flag": torch.tensor(True)}.get(str(value), value)
    with pytest.raises(SystemExit, match="1"):
        helper._pai_common_score(score, torch.nn.Linear(1, 1))
    kind = re.escape(type(score).__name__)
    said = rf"test_runtime\.py:\d+: the validation score must be one number, but it is of type {kind}: "
    assert re.search(said, capsys.readouterr().err)


TRACKER = SimpleNamespace(member_vars={})


def test_missing_scores_are_told_once(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    monkeypatch.setattr(helper.GPA, "pai_tracker", TRACKER)  # without one nothing is trained with dendrites
    assert [helper._pai_common_score(None, torch.nn.Linear(1, 1)) for _ in range(3)] == [None] * 3
    none = r"test_runtime\.py:\d+: there is no validation score \(None\)"
    assert len(re.findall(none, capsys.readouterr().out)) == 1
    helper._pai.steps = 1
    with pytest.raises(SystemExit, match="1"):
        helper.end_of_training()
    said = r"it was None, all 3 times that one was handed over at \S*test_runtime\.py:\d+\. Train"
    assert re.search(said, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("last", "noted", "shared"),
    [
        (None, 0.5, (0.5, True, False)),
        (0.25, 0.5, (0.25, False, True)),
        (0.25, None, (0.25, False, True)),
    ],
    ids=["in the first epoch", "in a later one, perhaps of a test", "nothing since"],
)
def test_a_training_that_ends_within_its_first_epoch_ends_with_what_that_has_noted(
    helper: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    last: float | None,
    noted: float | None,
    shared: tuple[Any, ...],
) -> None:
    import torch

    net, told = torch.nn.Linear(1, 1), list[tuple[Any, ...]]()
    net(torch.ones(1)).backward()
    monkeypatch.setattr(helper.GPA, "pai_tracker", TRACKER)
    monkeypatch.setattr(
        helper, "_pai_share", lambda number, _, leave, force, again: told.append((number, force, again))
    )
    helper._pai.model, helper._pai.steps, helper._pai.last_score = net, 1, last
    helper.note_score(noted)
    helper.end_of_training()
    assert told == [shared]


@pytest.mark.parametrize("at_end", [True, False])
def test_an_error_that_is_raised_at_a_loaders_end_may_be_one_of_a_short_one(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, at_end: bool
) -> None:
    monkeypatch.setattr(helper, "_pai_rehearsal", str(tmp_path))
    helper._pai_done.cuts = 1
    try:
        try:
            next(iter(() if at_end else (1,)))
        finally:
            raise TypeError("no batch")
    except TypeError as error:
        helper._pai_note_if_cut(error)
    assert (tmp_path / "cut").exists() is at_end


@pytest.mark.parametrize(
    ("by_clock", "steps", "cause"),
    [
        (True, 1, "The rehearsal is too short for a validation"),
        (False, 1, "without a validation score in this round"),
        (True, 0, "without a validation score in this round, or a step"),
    ],
)
def test_a_rehearsal_does_not_fail_for_want_of_a_score_that_waits_for_the_clock(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, by_clock: bool, steps: int, cause: str
) -> None:
    monkeypatch.setattr(helper, "_pai_rehearsal", str(tmp_path))
    helper.configure_library(by_clock=by_clock)
    helper._pai.steps, helper._pai_done.cuts = steps, 1
    with pytest.raises(SystemExit, match="1"):
        helper._pai_end_structure("The end is reached")
    assert cause in (tmp_path / "cause").read_text()
    assert (tmp_path / "cut").exists() == ("The rehearsal" not in cause)


@pytest.mark.parametrize(
    ("layer", "output", "dimensions"),
    [
        ("Linear", (4, 2), None),
        ("Linear", (4, 5, 2), [-1, -1, 0]),
        ("Linear", (4, 5, 6, 2), [-1, -1, -1, 0]),
        ("Conv1d", (4, 2, 6), None),
        ("Conv2d", (4, 2, 6, 6), None),
        ("Conv3d", (4, 2, 6, 6, 6), [-1, 0, -1, -1, -1]),
    ],
)
def test_output_dimensions_of_layers(
    helper: ModuleType, perforate: Callable[..., Any], layer: str, output: tuple[int, ...], dimensions: list[int] | None
) -> None:
    import torch

    linear = layer == "Linear"
    model = perforate(getattr(torch.nn, layer)(*((3, 2) if linear else (3, 2, 1))))
    model = helper.load_latest_switch(model, None)
    inputs = torch.ones((*output[:-1], 3) if linear else (output[0], 3, *output[2:]))
    assert model(inputs).shape == output
    assert helper._pai.found_dimensions == ({} if dimensions is None else {".0": dimensions})
    model(inputs).sum().backward()  # where the library checks them
    assert model[0].dendrite_module.dendrite_values[0].out_channels == 2


@pytest.mark.parametrize(
    ("layer", "arguments", "trained", "others"),
    [
        ("Linear", (3, 3), (4, 3, 3), [(3,), (4, 3), (2, 4, 3, 3)]),
        ("Linear", (3, 3), (4, 3), [(3,), (4, 3, 3)]),
        ("Conv1d", (3, 3, 1), (4, 3, 3), [(3, 3)]),
        ("Conv2d", (3, 3, 1), (4, 3, 3, 3), [(3, 3, 3)]),
        ("Conv2d", (3, 3, 1), (3, 3, 3), [(4, 3, 3, 3)]),
    ],
)
def test_dendrites_take_inputs_of_other_ranks_than_training_gave_first(
    helper: ModuleType,
    perforate: Callable[..., Any],
    layer: str,
    arguments: tuple[int, ...],
    trained: tuple[int, ...],
    others: list[tuple[int, ...]],
) -> None:
    import torch

    torch.manual_seed(0)
    model = helper.load_latest_switch(perforate(getattr(torch.nn, layer)(*arguments)), None)
    for _ in range(2):
        model(torch.randn(trained)).sum().backward()
        model[0]._forward_hooks.clear()  # those of the initialisation
        with helper._pai_library_at_work(model):
            helper.GPA.pai_tracker.set_dendrite_training()
            helper.GPA.pai_tracker.set_neuron_training()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "dendrites_to" in name:
                parameter.copy_(torch.randn_like(parameter))
    own, dendrites = model[0].main_module, model[0].dendrite_module

    def by_hand(inputs: Any) -> Any:
        """What the layer is to give for an input of any rank, with its neurons where its own layer has them."""
        of_neurons = (-1, *[1] * (len(arguments[2:]) and int(layer[-2])))
        first = torch.sigmoid(dendrites.layers[0](inputs))
        between = dendrites.dendrites_to_dendrites[1][0].view(of_neurons)
        second = torch.sigmoid(dendrites.layers[1](inputs) + between * first)
        to_top = model[0].dendrites_to_top[1].view(2, *of_neurons)
        return own(inputs) + to_top[0] * first + to_top[1] * second

    for shape in (trained, *others, trained):
        inputs, given = torch.randn(shape), []
        for forward in (model, by_hand):
            model.zero_grad()
            outputs = forward(inputs)
            (outputs * torch.linspace(-1, 1, outputs.numel()).view(outputs.shape)).sum().backward()
            given.append([outputs, *(parameter.grad for parameter in model.parameters())])
        assert given[0][0].shape == given[1][0].shape == inputs.shape
        for one, other in zip(*given, strict=True):
            torch.testing.assert_close(one, other)
    with pytest.raises(RuntimeError):  # after which a script may go on
        model(torch.ones(5))
    assert model[0].this_node_index == dendrites.this_node_index == model[0].this_output_dimensions.tolist().index(0)
    assert model[0].processor is None


def test_output_dimensions_are_those_of_what_has_a_gradient(helper: ModuleType, perforate: Callable[..., Any]) -> None:
    import torch

    model = helper.load_latest_switch(perforate(torch.nn.Linear(3, 2)), None)
    decode = torch.no_grad()(model)
    decode(torch.ones(4, 3))
    loss = model(torch.ones(4, 5, 3)).sum()
    decode(torch.ones(4, 3))  # as for an accuracy by the way
    model(torch.ones(4, 3))
    loss.backward()
    decode(torch.ones(4, 3))
    with pytest.raises(SystemExit, match="0"):
        helper.finish_initialization()
    assert array_dims(Path("PAI")) == {".0,1,1,2"}
    assert json.loads(Path("PAI/output_dimensions.json").read_text()) == {".0": [-1, -1, 0]}


def test_output_dimensions_that_the_script_sets_after_the_load_are_there_before_the_next(
    helper: ModuleType, perforate: Callable[..., Any]
) -> None:
    import torch

    model = helper.load_latest_switch(perforate(torch.nn.Linear(3, 2), torch.nn.Linear(2, 2)), None)
    model[0].set_this_output_dimensions([-1, -1, 0])
    model[1].set_this_output_dimensions([-1, -1, 0])
    model[1].set_this_output_dimensions([-1, 0])
    model[0](torch.ones(4, 5, 3)).sum().backward()
    model[1](torch.ones(4, 2)).sum().backward()
    with pytest.raises(SystemExit, match="0"):
        helper.finish_initialization()
    assert json.loads(Path("PAI/output_dimensions.json").read_text()) == {".0": [-1, -1, 0]}


def test_output_dimensions_of_an_unknown_layer(helper: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    with pytest.raises(SystemExit, match="1"):
        helper._pai_set_output_dimensions(torch.nn.Linear(1, 1), {"encoder": [-1, 0]})
    assert "Output dimensions of encoder: no such perforated layer" in capsys.readouterr().err


def test_gradients_are_filled_where_the_model_is_not_in_scope(
    perforate: Callable[..., Any], helper: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    model = helper.load_latest_switch(perforate(torch.nn.Linear(2, 2)), None)
    monkeypatch.setenv("PAI_PREFILL_GRADIENTS", "1")
    helper.fill_missing_gradients()
    assert [p.grad is not None for p in model.parameters() if p.requires_grad] == [True] * len(list(model.parameters()))


@pytest.mark.parametrize("told", [None, "0"])
def test_the_library_does_not_ask_the_driver_for_devices_when_it_is_imported(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, told: str | None
) -> None:
    """What the script asks later is answered as without the helper, by the driver, where nothing else was told."""
    name = "PYTORCH_NVML_BASED_CUDA_CHECK"
    monkeypatch.delenv(name, raising=False)
    if told:
        monkeypatch.setenv(name, told)
    asks = f"print('asked', os.environ.get('{name}'))"
    code = f"import os, sys; sys.path.insert(0, sys.argv[1]); import torch; torch.cuda.is_available = lambda: {asks}; "
    code += "import pai_distributed; from perforatedai import globals_perforatedai, utils_perforatedai; print('then'); "
    command = [sys.executable, "-c", f"{code}{asks}", str(HELPER.parent)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    early, _, late = said.partition("then\n")
    assert set(re.findall("asked (.*)", early)) == {told or "1"}
    assert re.findall("asked (.*)", late) == [str(told)]


def test_processes_that_train_each_for_itself_are_stopped(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    model = torch.nn.Linear(2, 2)
    monkeypatch.setattr(helper, "_pai_started", 2)
    for joined in (0, 1, 2):  # none, or each a group of its own, by a number that the script gives itself
        monkeypatch.setattr(helper.dist, "is_initialized", lambda joined=joined: joined > 0)
        monkeypatch.setattr(helper.dist, "get_world_size", lambda joined=joined: joined)
        monkeypatch.setattr(helper.dist, "get_rank", lambda: 0)
        if joined < 2:
            with pytest.raises(SystemExit, match="1"):
                helper.fill_missing_gradients(model)
            said = "2 processes were started together, but the script has not joined them"
            assert said in capsys.readouterr().err
    helper.fill_missing_gradients(model)
    monkeypatch.undo()
    helper.fill_missing_gradients(model)


def test_goes_on_after_a_backward_pass_of_something_else(perforate: Callable[..., Any], helper: ModuleType) -> None:
    import torch

    perforate(torch.nn.Linear(2, 2))
    helper.finish_initialization()
    assert not Path("PAI/array_dims.csv").exists()


def test_the_initialisation_leaves_no_checkpoint_of_its_training(
    perforate: Callable[..., Any], helper: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that always resumes would begin its first round with it."""
    import torch

    monkeypatch.setenv("PAI_PERFORATE_MODEL_PARALLEL", "1")
    model = perforate(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    torch.save({"old": 1}, "begin.pt")
    model[0](torch.ones(1, 2)).sum().backward()  # the other one may get a gradient later
    helper.finish_initialization()
    for number in (1, 2):
        torch.save({"epoch": number}, "last.pt")
        torch.save({"epoch": number}, "moved.pt")
        assert torch.load("last.pt") == {"epoch": number}
        Path("moved.pt").unlink()
    with pytest.raises(SystemExit, match="0"):
        helper.finish_initialization(last=True)
    assert not Path("last.pt").exists()
    assert torch.load("begin.pt") == {"old": 1}


def test_says_that_no_backward_pass_reaches_the_model(
    perforate: Callable[..., Any],
    helper: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import torch

    model = perforate(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)).requires_grad_(False)
    model[1].requires_grad_(True)
    monkeypatch.setattr(helper._pai, "idle_passes", 998)
    helper.finish_initialization()
    assert "gets a gradient" not in capsys.readouterr().out
    for _ in range(3):
        helper.finish_initialization()
    assert capsys.readouterr().out.count("gets a gradient: .0 (frozen), .1 (not used)") == 1
    helper.report_validation_score(1.0, model)
    with pytest.raises(SystemExit, match="1"):
        helper.report_validation_score(1.0, model)
    assert "gets a gradient: .0 (frozen), .1 (not used)" in capsys.readouterr().err


def test_waits_for_a_model_that_learns_after_another_one(
    perforate: Callable[..., Any], helper: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    model = perforate(torch.nn.Linear(2, 2))
    monkeypatch.setattr(helper._pai, "idle_passes", 999)
    helper.finish_initialization()
    model(torch.ones(1, 2)).sum().backward()
    with pytest.raises(SystemExit, match="0"):
        helper.finish_initialization()


def test_settings_that_the_script_has_made_stay(helper: ModuleType) -> None:
    settings = helper.GPA.pc
    settings.set_unwrapped_modules_confirmed(False)
    settings.set_testing_dendrite_capacity(True)
    helper.configure_library()
    assert settings.get_unwrapped_modules_confirmed() is False
    assert settings.get_testing_dendrite_capacity() is True
    assert settings.get_find_best_lr() is False
    assert settings.get_configuration_confirmed() is True


def test_a_capacity_test_is_one_whatever_the_script_has_set(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAI_TESTING_DENDRITE_CAPACITY", "1")
    helper.GPA.pc.set_testing_dendrite_capacity(False)
    helper.configure_library()
    assert helper.GPA.pc.get_testing_dendrite_capacity() is True


def test_evaluation_goes_through_the_dendrites_of_a_transformer(perforate: Callable[..., Any]) -> None:
    import torch

    model = perforate(torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)).eval()
    layers = [module for module in model.modules() if type(module).__name__ == "PAINeuronModule"]
    seen = set()
    for layer in layers:

        def note(value: Any, name: str = layer.name, forward: Callable[..., Any] = layer.forward) -> Any:
            seen.add(name)
            return forward(value)

        layer.forward = note  # a hook would itself turn the fast path off
    with torch.no_grad():
        model(torch.ones(1, 3, 4))
    assert seen == {layer.name for layer in layers} != set()


@pytest.mark.parametrize("cured", [True, False])
def test_copies_do_not_read_the_settings_file(
    perforate: Callable[..., Any], helper: ModuleType, monkeypatch: pytest.MonkeyPatch, cured: bool
) -> None:
    import torch

    model = perforate(torch.nn.Linear(2, 2))
    Path("PAI").mkdir(exist_ok=True)
    Path("PAI/PAI_config.json").write_text("")  # half written, by another rank
    if not cured:
        monkeypatch.delattr(type(helper.GPA.pc), "__deepcopy__")
        with pytest.raises(SystemExit, match="1"):  # each copy reads it
            copy.deepcopy(model)
    else:
        assert copy.deepcopy(model)[0].main_module.weight is not model[0].main_module.weight


@pytest.mark.skipif(sys.platform != "linux", reason="each process reads for itself")
def test_what_one_process_of_a_machine_has_read_serves_the_others(
    helper: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch.distributed as dist

    store = vars(dist)["HashStore"]()
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_store", lambda: store)
    monkeypatch.setattr(helper, "_pai_grouped", lambda: True)
    path, missing = tmp_path / "rounds.json", str(tmp_path / "missing")
    path.write_text("as the round begins")
    for text in ("written by the first", "written by the others"):
        helper._pai_places.clear()  # as in another process
        assert Path(helper._pai_near(str(path))).read_text() == "as the round begins"
        assert helper._pai_near(missing) == missing
        path.write_text(text)
    place = helper._pai_near(str(path))
    os.close(helper._pai_held.pop(0))
    assert Path(place).read_text() == "as the round begins", "the first one ends before this one has read it"
    helper._pai_release()
    assert helper._pai_near(str(path)) == str(path), "the first one has ended"


@pytest.mark.parametrize(
    ("way", "told"), [("exit", "by the exit at"), ("end", "before this. If"), ("complete", ""), ("failure", "")]
)
def test_a_rank_that_ends_by_itself_is_told_of_where_another_fails(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], way: str, told: str
) -> None:
    dist = pytest.importorskip("torch.distributed")
    monkeypatch.delattr(sys, "last_type", raising=False)
    monkeypatch.setattr(helper, "initializing", lambda: False)
    state = helper._pai
    state.restarts, state.model, state.complete = True, object(), way == "complete"
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        if way != "end":
            with pytest.raises(SystemExit):
                exit(1 if way == "failure" else 0)
        helper._pai_end_at_exit()
        error = RuntimeError("Connection closed by peer")
        helper._pai_end_at_error(type(error), error, None)
    finally:
        dist.destroy_process_group()
    said = capsys.readouterr().err
    assert "Connection closed by peer" in said
    assert told in said
    assert ("Rank 0 had ended" in said) is bool(told)
    assert (f"{Path(__file__).name}:" in said) is (way == "exit")


def test_a_settings_file_that_cannot_be_read_is_named(
    perforate: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    Path("PAI").mkdir()
    Path("PAI/PAI_config.json").write_text('{"max_dendrites": 7, ')
    with pytest.raises(SystemExit, match="1"):
        perforate(torch.nn.Linear(2, 2))
    said = capsys.readouterr().err
    assert re.search(r"PAI/PAI_config.json cannot be read \(.*\). Remove it to train with the settings", said)


def test_settings_of_single_layers_are_read(perforate: Callable[..., Any], helper: ModuleType) -> None:
    import torch

    for own in ({"module_settings": {".0": {"output_dimensions": [-1, -1, 0]}}}, {}):
        Path("PAI").mkdir(exist_ok=True)
        Path("PAI/PAI_config.json").write_text(json.dumps({"max_dendrites": 7, **own}))
        helper._pai_of_layers.clear()
        helper.GPA.pc._manually_set_keys.discard("max_dendrites")
        model = perforate(torch.nn.Linear(2, 2))
        assert helper.GPA.pc.get_max_dendrites() == 7
        assert len(model[0].this_output_dimensions) == (3 if own else 2)


def test_says_which_layers_are_not_used(
    helper: ModuleType, perforate: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    model = perforate(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2).requires_grad_(False), torch.nn.Linear(2, 2))
    helper.load_latest_switch(model, None)
    model[2](torch.ones(1, 2)).sum().backward()
    with pytest.raises(SystemExit, match="0"):
        helper.finish_initialization(last=True)
    said = capsys.readouterr().out
    assert "No dendrites for .1: frozen" in said
    assert "No dendrites for .0: no gradient came through them in the first batches" in said
    assert "let the first batches use it, and initialise again" in said
    assert array_dims(Path("PAI")) == {".2,1,2"}


def test_waits_for_a_layer_whose_backward_pass_comes_after_many_others_of_a_batch(
    helper: ModuleType, perforate: Callable[..., Any]
) -> None:
    import torch

    model = helper.load_latest_switch(perforate(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)), None)
    for _ in range(20):
        model[0](torch.ones(1, 2)).sum().backward()
        helper.finish_initialization()
    model[1](torch.ones(1, 2)).sum().backward()
    with pytest.raises(SystemExit, match="0"):
        helper.finish_initialization()
    assert array_dims(Path("PAI")) == {".0,1,2", ".1,1,2"}


@pytest.mark.parametrize("known_by", ["its step", "its loader"])
def test_a_layer_that_is_not_used_is_waited_for_eight_batches(
    helper: ModuleType, perforate: Callable[..., Any], known_by: str
) -> None:
    import torch

    model = helper.load_latest_switch(perforate(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)), None)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = iter(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(9))))
    for _ in range(7):
        if known_by == "its loader":
            next(loader)
        for _ in range(2):
            model[0](torch.ones(1, 2)).sum().backward()
            helper.finish_initialization()
        if known_by == "its step":
            optimizer.step()
    if known_by == "its loader":
        next(loader)
    model[0](torch.ones(1, 2)).sum().backward()
    with pytest.raises(SystemExit, match="0"):
        helper.finish_initialization()
    assert array_dims(Path("PAI")) == {".0,1,2"}


@pytest.mark.parametrize(("resting", "found"), [([1], {".0"}), ([0, 1], {".0", ".1"})], ids=["one", "the whole"])
def test_layers_frozen_behind_the_load_get_no_dendrites_though_gradients_go_through_them(
    helper: ModuleType, perforate: Callable[..., Any], resting: list[int], found: set[str]
) -> None:
    """A network that rests as a whole does so in turns with another one that trains by it."""
    import torch

    model = helper.load_latest_switch(perforate(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)), None)
    for number in resting:
        model[number].requires_grad_(False)
    model(torch.ones(1, 2, requires_grad=True)).sum().backward()
    with pytest.raises(SystemExit, match="0"):
        helper.finish_initialization(last=True)
    assert {line.partition(",")[0] for line in array_dims(Path("PAI"))} == found


@pytest.mark.parametrize(
    ("optimizers", "found"),
    [
        ([[1]], {".1"}),
        ([[0], [1]], {".0", ".1"}),
        ([[2]], {".0", ".1"}),
        ([[0, 1]], {".0", ".1"}),
        ([], {".0", ".1"}),
    ],
    ids=["one has a part", "each has one", "that of another model", "one has all", "none yet"],
)
def test_layers_that_no_optimizer_has_get_no_dendrites(
    helper: ModuleType,
    perforate: Callable[..., Any],
    capsys: pytest.CaptureFixture[str],
    optimizers: list[list[int]],
    found: set[str],
) -> None:
    """As where a script gives it those with some names alone: they grew what nothing trained, and were judged by it."""
    import torch

    model = helper.load_latest_switch(perforate(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)), None)
    parts = [*model, torch.nn.Linear(2, 2)]
    built = [torch.optim.SGD([p for one in some for p in parts[one].parameters()], 0.1) for some in optimizers]
    model(torch.ones(1, 2)).sum().backward()
    with pytest.raises(SystemExit, match="0"):
        helper.finish_initialization(last=len(found) == 1)
    assert {line.partition(",")[0] for line in array_dims(Path("PAI"))} == found
    assert ("No dendrites for .0: no optimizer has" in capsys.readouterr().out) is (len(found) == 1)
    assert (helper._pai_read("frozen_layers") == {".0": None}) is (len(found) == 1)
    del built


def test_a_copy_that_no_optimizer_has_grows_with_its_layer(helper: ModuleType, perforate: Callable[..., Any]) -> None:
    """As the target of a critic, averaged by pairs of parameters, where gradients go through it to an actor."""
    import torch

    layer = torch.nn.Linear(2, 2)
    model = helper.load_latest_switch(perforate(layer, copy.deepcopy(layer), torch.nn.Linear(2, 2)), None)
    optimizer = torch.optim.SGD(model[0].parameters(), 0.1)
    model(torch.ones(1, 2)).sum().backward()
    with pytest.raises(SystemExit, match="0"):
        helper.finish_initialization(last=True)
    assert {line.partition(",")[0] for line in array_dims(Path("PAI"))} == {".0", ".1"}
    del optimizer


@pytest.mark.parametrize("thaws", [False, True])
def test_layers_that_come_to_an_optimizer_later_are_waited_for(
    helper: ModuleType, perforate: Callable[..., Any], thaws: bool
) -> None:
    """As where parts of a model learn in turns; those of later epochs have theirs by the script's own word."""
    import torch

    model = helper.load_latest_switch(perforate(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)), None, thaws=thaws)
    for number in (0, 1):
        optimizer = torch.optim.SGD(model[number].parameters(), 0.1)
        model(torch.ones(1, 2)).sum().backward()
        with pytest.raises(SystemExit, match="0") if number or thaws else contextlib.nullcontext():
            helper.finish_initialization()
        optimizer.step()
        if thaws:
            break
    assert {line.partition(",")[0] for line in array_dims(Path("PAI"))} == {".0", ".1"}


def test_layers_that_learn_in_turns_have_their_dendrites(helper: ModuleType, perforate: Callable[..., Any]) -> None:
    """What rested in the first batch counted as frozen."""
    import torch

    model = helper.load_latest_switch(perforate(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)), None)
    for number in (0, 1):
        model[number].requires_grad_(True)
        model[1 - number].requires_grad_(False)
        model(torch.ones(1, 2, requires_grad=True)).sum().backward()
        with pytest.raises(SystemExit, match="0") if number else contextlib.nullcontext():
            helper.finish_initialization()
    assert {line.partition(",")[0] for line in array_dims(Path("PAI"))} == {".0", ".1"}


@pytest.mark.parametrize("early", [True, False])
def test_frozen_layers_stay_as_they_are(
    helper: ModuleType,
    perforate: Callable[..., Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    early: bool,
) -> None:
    import torch

    def built() -> list[Any]:
        torch.manual_seed(0)
        return [torch.nn.Linear(2, 2).requires_grad_(not early), torch.nn.Linear(2, 2)]

    model = helper.load_latest_switch(perforate(*built()), None)
    model[0].requires_grad_(False)
    model(torch.ones(1, 2)).sum().backward()
    with pytest.raises(SystemExit, match="0"):
        helper.finish_initialization(last=not early)
    assert "No dendrites for .0: frozen" in capsys.readouterr().out
    assert array_dims(Path("PAI")) == {".1,1,2"}
    monkeypatch.setattr(helper._pai, "frozen", {})
    model = helper.load_latest_switch(perforate(*built(), initialize=False), None)
    assert type(model[0]) is torch.nn.Linear
    assert [layer.name for layer in helper._pai_layers(model)] == [".1"]
    model.requires_grad_(True)  # thawed, it learns without dendrites
    helper.GPA.pai_tracker.set_dendrite_training()
    helper.GPA.pai_tracker.set_neuron_training()
    assert model(torch.ones(1, 2)).shape == (1, 2)


class OwnNorm:
    """A norm as projects have it of their own: it takes `weight` away, and sets it anew in each forward pass."""

    def __new__(cls, layer: Any) -> Any:
        import torch

        class Norm(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.module = layer
                weight = layer._parameters.pop("weight")
                layer.register_parameter("weight_bar", torch.nn.Parameter(weight.data))

            def forward(self, given: Any) -> Any:
                self.module.weight = self.module.weight_bar / self.module.weight_bar.norm()
                return self.module.forward(given)

        return Norm()


def test_a_layer_whose_weight_is_set_from_outside_stays_as_it_is(
    helper: ModuleType, perforate: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    torchs = torch.nn.utils.spectral_norm(torch.nn.Linear(2, 2))
    model = perforate(OwnNorm(torch.nn.Linear(2, 2)), torch.nn.Linear(2, 2), torchs)
    model = helper.load_latest_switch(model, None)
    assert type(model[0].module) is torch.nn.Linear
    model(torch.ones(1, 2)).sum().backward()
    with pytest.raises(SystemExit, match="0"):
        helper.finish_initialization()
    said = capsys.readouterr().out
    assert "No dendrites for .0.module: their weight is set from outside" in said
    assert "frozen" not in said
    assert {line.partition(",")[0] for line in array_dims(Path("PAI"))} == {".1", ".2"}
    assert helper._pai_read("frozen_layers") == {".0.module": None}


def test_says_so_where_all_weights_are_set_from_outside(
    helper: ModuleType, perforate: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    with pytest.raises(SystemExit, match="1"):
        helper.load_latest_switch(perforate(OwnNorm(torch.nn.Linear(2, 2))), None)
    assert ".0.module (its weight is set from outside)" in capsys.readouterr().err


def test_layers_that_thaw_have_dendrites(helper: ModuleType, perforate: Callable[..., Any]) -> None:
    import torch

    model = perforate(torch.nn.Linear(2, 2).requires_grad_(False), torch.nn.Linear(2, 2))
    model = helper.load_latest_switch(model, None, thaws=True)
    model(torch.ones(1, 2)).sum().backward()
    with pytest.raises(SystemExit, match="0"):
        helper.finish_initialization()
    assert array_dims(Path("PAI")) == {".0,1,2", ".1,1,2"}


def test_new_dendrites_of_a_frozen_layer_learn_when_the_script_thaws_it(
    helper: ModuleType, perforate: Callable[..., Any]
) -> None:
    import torch

    model = perforate(torch.nn.Linear(2, 2).requires_grad_(False), torch.nn.Linear(2, 2))
    model = helper.load_latest_switch(model, None, thaws=True)
    model(torch.ones(1, 2)).sum().backward()
    with pytest.raises(SystemExit, match="0"):
        helper.finish_initialization()
    built = perforate(torch.nn.Linear(2, 2).requires_grad_(False), torch.nn.Linear(2, 2), initialize=False)
    model = helper.load_latest_switch(built, None, thaws=True)
    helper.GPA.pai_tracker.set_dendrite_training()
    helper.GPA.pai_tracker.set_neuron_training()
    helper._pai_freeze_with_layers(model)
    for layer, learns in zip(model, (False, True), strict=True):
        assert len(list(layer.parameters())) > 2
        assert {parameter.requires_grad for parameter in layer.parameters()} == {learns}
    held = {parameter for parameter in model.parameters() if parameter.requires_grad}
    for parameter in model[0].parameters():
        parameter.requires_grad = True
    helper._pai_rest(model)
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert held.isdisjoint(model[0].parameters())


def test_optimizer_has_what_may_thaw(helper: ModuleType, perforate: Callable[..., Any]) -> None:
    import torch

    model = perforate(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    arguments = {"lr": 0.1}
    for cured in (False, True):
        if cured:
            helper.load_latest_switch(model.requires_grad_(True), None)
        model[0].requires_grad_(False)
        tracker = helper.GPA.pai_tracker
        tracker.set_optimizer(torch.optim.SGD)
        optimizer, _ = tracker.setup_optimizer(model, arguments | {"params": model.parameters()})
        held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        assert (id(model[0].main_module.weight) in held) is cured
        assert not model[0].main_module.weight.requires_grad


@pytest.mark.parametrize("frozen", [True, False])
def test_momentum_encoder_grows_with_its_encoder(
    helper: ModuleType, perforate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, frozen: bool
) -> None:
    import torch

    def built() -> list[Any]:
        encoder = torch.nn.Linear(2, 2)
        return [encoder, copy.deepcopy(encoder).requires_grad_(not frozen)]

    model = helper.load_latest_switch(perforate(*built()), None)
    with torch.no_grad():
        model[0].weight.mul_(2.0)
        momentum = model[1](torch.ones(1, 2))
    (model[0](torch.ones(1, 2)) + momentum).sum().backward()
    with pytest.raises(SystemExit, match="0"):
        helper.finish_initialization()
    assert array_dims(Path("PAI")) == {".0,1,2", ".1,1,2"}
    monkeypatch.setattr(helper._pai, "frozen", {})
    model = helper.load_latest_switch(perforate(*built(), initialize=False), None)
    helper.GPA.pai_tracker.set_dendrite_training()
    helper.GPA.pai_tracker.set_neuron_training()
    helper._pai_freeze_with_layers(model)
    pairs = list(zip(model[0].parameters(), model[1].parameters(), strict=True))
    assert all(one.shape == other.shape for one, other in pairs)
    assert all(not other.requires_grad for _, other in pairs) is frozen
    assert len(pairs) > 4


@pytest.mark.parametrize(
    ("twin", "trains", "graded"),
    [
        pytest.param(False, True, False, id="no copy"),
        pytest.param(True, False, False, id="in a validation"),
        pytest.param(True, True, True, id="with gradients"),
    ],
)
def test_a_layer_that_follows_no_other_one_does_not_grow_with_it(
    helper: ModuleType, perforate: Callable[..., Any], twin: bool, trains: bool, graded: bool
) -> None:
    import torch

    layer = torch.nn.Linear(2, 2)
    model = perforate(layer, copy.deepcopy(layer) if twin else torch.nn.Linear(2, 2))
    model = helper.load_latest_switch(model, None).train(trains)
    with torch.set_grad_enabled(graded):
        model[1](torch.ones(1, 2))
    model.train()[0](torch.ones(1, 2)).sum().backward()
    with pytest.raises(SystemExit, match="0"):
        helper.finish_initialization(last=True)
    assert array_dims(Path("PAI")) == {".0,1,2"}


def test_without_a_perforated_model_an_optimizer_is_none_of_the_librarys(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import torch

    monkeypatch.setattr(helper.GPA, "pai_tracker", [])
    model = torch.nn.Linear(2, 2)
    helper.set_optimizer_instance(torch.optim.SGD(model.parameters(), 0.1))
    model(torch.ones(1, 2)).sum().backward()
    monkeypatch.chdir(tmp_path)
    assert list(helper.planned_epochs(range(helper.from_the_start(2, "epoch"), 4))) == [2, 3]
    assert not list(tmp_path.iterdir())
    for given in ([0.5, model], [0.5]):
        assert not helper.report_validation_score(*given)
        with pytest.raises(SystemExit, match="1"):
            helper.add_validation_score(*given)
        assert "has no perforated model: rewrite it as well" in capsys.readouterr().err


def test_the_tracker_of_no_model_builds_what_the_script_built(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(helper.GPA, "pai_tracker", helper._PaiNoTracker())
    assert not helper.GPA.pai_tracker
    model = torch.nn.Linear(2, 2)
    helper.GPA.pai_tracker.initialize_tracker_settings()
    helper.GPA.pai_tracker.set_optimizer(torch.optim.SGD)
    arguments = {"params": model.parameters(), "lr": 0.5}
    optimizer, schedule = helper.GPA.pai_tracker.setup_optimizer(model, dict(arguments))
    assert (type(optimizer), optimizer.param_groups[0]["lr"], schedule) == (torch.optim.SGD, 0.5, None)
    helper.GPA.pai_tracker.set_scheduler(torch.optim.lr_scheduler.StepLR)
    arguments["params"] = model.parameters()
    optimizer, schedule = helper.GPA.pai_tracker.setup_optimizer(model, arguments, {"step_size": 3})
    assert (schedule.optimizer, schedule.step_size) == (optimizer, 3)
    helper.GPA.pai_tracker.set_optimizer_instance(optimizer)


@pytest.mark.parametrize("given", [("StepLR", {"step_size": 2}), ("ReduceLROnPlateau", {"patience": 1, "mode": "max"})])
def test_the_scores_of_no_model_step_the_schedule_as_the_script_did(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, given: tuple[str, dict[str, Any]]
) -> None:
    """For its own steps are taken out where the tracker builds it."""
    import torch

    kind, arguments = given
    tracker, model = helper._PaiNoTracker(), torch.nn.Linear(2, 2)
    monkeypatch.setattr(helper.GPA, "pai_tracker", tracker)
    tracker.set_optimizer(torch.optim.SGD)
    tracker.set_scheduler(getattr(torch.optim.lr_scheduler, kind))
    optimizer, _ = tracker.setup_optimizer(model, {"params": model.parameters(), "lr": 1.0}, arguments)
    rates = []
    for _ in range(4):
        optimizer.step()
        assert not helper.report_validation_score(0.5, model)
        rates.append(round(optimizer.param_groups[0]["lr"], 6))
    assert rates == {"StepLR": [1.0, 0.1, 0.1, 0.01], "ReduceLROnPlateau": [1.0, 1.0, 0.1, 0.1]}[kind]
    tracker.setup_optimizer(model, {"params": model.parameters(), "lr": 1.0})
    assert not helper.report_validation_score(None, model)


def test_a_run_that_trains_another_model_goes_on_as_before(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    monkeypatch.setattr(helper.GPA, "pai_tracker", [])
    monkeypatch.setenv("PAI_PREFILL_GRADIENTS", "1")
    helper.set_optimizer_instance(torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), 0.1))
    assert list(helper.planned_epochs(range(2))) == [0, 1]
    helper.fill_missing_gradients(None)
    assert not helper.report_validation_score(0.5, None)
    helper.end_of_training()
    with pytest.raises(SystemExit, match="1"):
        helper.finish_initialization()
    assert "This run trains another model" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--perforate_model_parallel"], ["--pai_load_folder", "saved"]])
def test_a_round_that_trains_another_model_is_told(
    helper: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    option: list[str],
) -> None:
    monkeypatch.setattr(helper.GPA, "pai_tracker", [])
    monkeypatch.setattr("sys.argv", ["train.py", *option])
    with pytest.raises(SystemExit, match="1"):
        helper.report_validation_score(0.5, None)
    assert "This run trains another model" in capsys.readouterr().err


class Bar:
    """A progress bar."""

    def __init__(self, iterable: Any, n: int = 0, total: int | None = None) -> None:
        self.iterable, self.n = iterable, n
        self.total = len(iterable) if total is None else total

    def __iter__(self) -> Any:
        return iter(self.iterable)


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        (lambda numbers: numbers, [0, 1, 2]),
        (Bar, [0, 1, 2]),
        (lambda numbers: Bar(numbers, numbers.start, 3), [0, 1, 2]),
        (lambda numbers: Bar(numbers, total=3), [0, 1, 2]),
        (list, [2]),
        (lambda numbers: Bar(list(numbers)), [2]),
    ],
)
def test_a_later_round_begins_where_the_first_one_did_however_its_epochs_are_shown(
    helper: ModuleType,
    perforate: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    shown: Callable[[range], Any],
    told: list[Any],
) -> None:
    import torch

    perforate(torch.nn.Linear(2, 2), initialize=False)
    list(helper._pai_from_the_start(shown(range(3))))
    monkeypatch.setattr(helper._pai, "switch_time", 1.0)
    planned = helper._pai_from_the_start(shown(range(2, 3)))
    assert not isinstance(planned, Bar) or (planned.n, planned.total) == (0, len(told))
    assert list(planned) == told


@pytest.mark.parametrize(("written", "begun"), [(0.0, 1), (2e9, 7)])
def test_a_number_that_was_just_read_counts_where_its_checkpoint_is_of_this_round(
    helper: ModuleType, perforate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, written: float, begun: int
) -> None:
    import torch

    perforate(torch.nn.Linear(2, 2), initialize=False)
    helper.from_the_start(1, "first")
    torch.save({"epoch": 6}, "last.pt")
    os.utime("last.pt", (written, written))
    monkeypatch.setattr(helper._pai, "switch_time", 1e9)
    monkeypatch.setattr(helper._pai, "restored", {"weight": torch.ones(1)})
    read = torch.load("last.pt")["epoch"] + 1
    assert helper.from_the_start(read, "first", just_read=True) == begun


def test_without_a_perforated_model_a_learning_rate_may_move(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(helper.GPA, "pai_tracker", [])
    optimizer = torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), 0.1)
    for rate in (0.1, 0.05, 0.02):
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
    assert optimizer.param_groups[0]["lr"] == 0.02


def test_says_that_the_model_has_changed(
    helper: ModuleType, perforate: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    model = perforate(torch.nn.Linear(2, 2))
    model(torch.ones(1, 2)).sum().backward()
    with pytest.raises(SystemExit, match="0"):
        helper.finish_initialization()
    helper._pai.exit_status = None  # as in another process
    model = perforate(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2), initialize=False)
    model = helper.load_latest_switch(model, None)
    with pytest.raises(SystemExit, match="1"):
        model(torch.ones(1, 2))
    assert "PAI/array_dims.csv was made with another model" in capsys.readouterr().err


@pytest.mark.parametrize(("folder", "ends"), [("", False), ("saved", True)])
def test_a_start_that_plans_no_epoch_goes_on_to_what_follows(
    helper: ModuleType, perforate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, folder: str, ends: bool
) -> None:
    """In a round of a training no epoch is one too few."""
    import torch

    perforate(torch.nn.Linear(8, 4), torch.nn.Linear(4, 2), initialize=False)
    monkeypatch.setenv("PAI_LOAD_FOLDER", folder)
    with pytest.raises(SystemExit) if ends else contextlib.nullcontext():
        assert list(helper.planned_epochs(range(0))) == []


def test_a_loop_that_goes_through_a_complete_training_again_trains_no_more(
    helper: ModuleType, perforate: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    perforate(torch.nn.Linear(8, 4), torch.nn.Linear(4, 2), initialize=False)
    helper._pai.complete = True
    assert list(helper.planned_epochs(range(3))) == []
    assert "the script's training loop is passed over" in capsys.readouterr().out


@pytest.mark.parametrize("in_process", [False, True])
def test_a_score_that_comes_when_training_is_complete_replaces_no_best_model(
    helper: ModuleType,
    perforate: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    in_process: bool,
) -> None:
    """Such as one of a second training by the same code, in a `while` loop."""
    import torch

    model = helper.load_latest_switch(perforate(torch.nn.Linear(8, 4), torch.nn.Linear(4, 2), initialize=False), None)
    helper._pai.complete = True
    monkeypatch.setattr(helper, "_pai_hand_over", lambda *_: pytest.fail("the score is handed over"))
    if in_process:
        assert helper.add_validation_score(0.5, model) == (model, False, True)
    else:
        assert helper.report_validation_score(0.5, model, leave=False)
    assert "the script's training loop is passed over" in capsys.readouterr().out


def test_a_start_that_only_evaluates_needs_no_initialisation(helper: ModuleType, perforate: Callable[..., Any]) -> None:
    import torch

    plain = torch.nn.Linear(2, 2)
    model = helper.load_latest_switch(perforate(torch.nn.Linear(2, 2), initialize=False), None)
    helper.keep_tracker_state_local(model)
    model.load_state_dict(torch.nn.Sequential(plain).state_dict())
    model.eval()
    assert torch.equal(model(torch.ones(1, 2)), plain(torch.ones(1, 2)))
    with torch.no_grad():
        assert torch.equal(model.train()(torch.ones(1, 2)), plain(torch.ones(1, 2)))
    assert not Path("PAI/processes.json").exists()
    helper.end_of_training()


@pytest.mark.parametrize("written", ["in this training", "before it"])
def test_what_a_training_has_saved_itself_is_loaded_with_all_that_it_holds(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, written: str
) -> None:
    """Such as its parsed command line, which torch does not load unless it is told to."""
    import torch

    monkeypatch.chdir(tmp_path)
    Path("PAI").mkdir()
    begun, saved = Path("PAI/array_dims.csv"), Path("last.pth")
    begun.touch()
    torch.save({"args": argparse.Namespace(lr=0.1), "epoch": 3}, saved)
    os.utime(begun, (1e9, 1e9))
    os.utime(saved, (1e9 + 1, 1e9 + 1) if written == "in this training" else (1e9 - 1, 1e9 - 1))
    with pytest.raises(pickle.UnpicklingError):
        torch.load(saved)
    monkeypatch.setattr(sys, "argv", ["train.py", "--pai_load_folder", "PAI"])
    if written == "in this training":
        assert torch.load(saved)["args"].lr == 0.1
        with pytest.raises(pickle.UnpicklingError):
            torch.load(saved, weights_only=True)
    else:
        with pytest.raises(pickle.UnpicklingError):
            torch.load(saved)


def test_what_a_script_asks_where_nobody_is_there_gets_an_empty_answer(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n"))
    assert input("delete it? ") == "yes"
    assert input("delete it? ") == ""
    assert re.search(r"test_runtime\.py:\d+: the script asks 'delete it\? ', but nobody", capsys.readouterr().out)
    with pytest.raises(EOFError):
        input("delete it? ")


def test_a_training_that_begins_when_one_is_complete_ends_the_script(
    helper: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    helper._pai.complete = True
    with pytest.raises(SystemExit, match="0"), helper.one_rank_at_a_time():
        pytest.fail("the model is perforated")
    assert "The script begins another one" in capsys.readouterr().out


def test_starts_from_the_beginning_where_no_switch_file_can_be_read(
    helper: ModuleType, perforate: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    model = perforate(torch.nn.Linear(2, 2))
    model(torch.ones(1, 2)).sum().backward()
    with pytest.raises(SystemExit, match="0"):
        helper.finish_initialization()
    for name in ("switch_2.pt", "switch_10.pt", "switch_x.pt", "beforeSwitch_4.pt"):
        Path("PAI", name).touch()
    model = perforate(torch.nn.Linear(2, 2), initialize=False)
    assert helper.load_latest_switch(model, "PAI") is model
    said = capsys.readouterr().out
    assert re.findall(r"(\S+) cannot be read", said) == ["PAI/switch_10.pt", "PAI/switch_2.pt"]
    assert "Starting from the beginning: PAI has no switch_N.pt that can be read" in said


def test_initialisation_run_without_a_batch(helper: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    net = torch.nn.Linear(1, 1)
    monkeypatch.setattr(sys, "argv", ["train.py", "--perforate_model_parallel"])
    assert helper.report_validation_score(0.5, net) is False  # the script may validate before it trains
    with pytest.raises(SystemExit, match="1"):
        helper.report_validation_score(0.5, net)


def test_score_from_before_the_first_step_is_passed_over_once(helper: ModuleType) -> None:
    import torch

    net = torch.nn.Linear(1, 1)
    assert [helper._pai_common_score(0.5, net) for _ in range(3)] == [None, 0.5, 0.5]


def test_score_after_a_step_counts(helper: ModuleType) -> None:
    import torch

    net = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(net.parameters())
    net(torch.ones(1)).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    assert helper._pai_common_score(0.5, net) == 0.5


def test_library_state_stays_out_of_the_broadcast(
    helper: ModuleType, perforate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    model = helper.load_latest_switch(perforate(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)), None)
    model._ddp_params_and_buffers_to_ignore = ["1.running_mean"]
    helper.keep_tracker_state_local(model)
    kept = {name for name, _ in model.named_buffers()} - set(model._ddp_params_and_buffers_to_ignore)
    assert kept == {"1.running_var", "1.num_batches_tracked"}
    monkeypatch.setattr(helper._pai, "backpropagates", True)
    model._ddp_params_and_buffers_to_ignore = []
    helper.keep_tracker_state_local(model)
    assert model._ddp_params_and_buffers_to_ignore == []


def tied() -> list[Any]:
    """Two layers of one weight."""
    import torch

    first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    second.weight = first.weight
    return [first, second]


def test_tied_parameters_are_saved_and_loaded_and_stay_tied(helper: ModuleType, perforate: Callable[..., Any]) -> None:
    import torch

    model = helper.load_latest_switch(perforate(*tied()), None)
    assert model[0].main_module.weight is model[1].main_module.weight
    model(torch.ones(1, 2)).sum().backward()  # so that the library knows shapes
    helper.UPA.save_system(model, "PAI", "tied")
    fresh = helper.load_latest_switch(perforate(*tied()), None)
    fresh = helper.UPA.load_system(fresh, "PAI", "tied", True)
    assert fresh[0].main_module.weight is fresh[1].main_module.weight
    assert torch.equal(fresh[0].main_module.weight, model[0].main_module.weight)
    fresh.load_state_dict(model.state_dict())


@pytest.mark.parametrize("module", ["PAINeuronModule", "TrackedNeuronModule"])
def test_a_parameter_that_is_given_to_a_layer_is_the_scripts_own_layers(
    helper: ModuleType, perforate: Callable[..., Any], module: str
) -> None:
    import torch

    first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    if module == "TrackedNeuronModule":
        helper.GPA.pc.append_module_ids_to_track([".1"])
    model = helper.load_latest_switch(perforate(first, second), None)
    assert type(model[1]).__name__ == module
    model[1].weight = model[0].weight
    assert model[1].main_module.weight is model[0].main_module.weight is model[1].weight
    assert [name for name, _ in model.named_parameters()] == ["0.weight", "0.bias", "1.bias"]
    model[1].scale = torch.nn.Parameter(torch.ones(1))
    assert "scale" in model[1]._parameters


def test_library_cannot_save_tied_parameters(helper: ModuleType, perforate: Callable[..., Any]) -> None:
    with pytest.raises(RuntimeError, match="share memory"):
        helper.UPA.save_system(perforate(*tied()), "PAI", "tied")


def test_optimizer_that_another_object_holds(
    helper: ModuleType,
    perforate: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import torch

    class Optimizer:
        def __init__(self, *kinds: Any) -> None:
            vars(self).update({f"optimizer{n}": kind(model.parameters()) for n, kind in enumerate(kinds)})

    model = perforate(torch.nn.Linear(2, 3), torch.nn.Linear(3, 2), initialize=False)
    held: Any = Optimizer(torch.optim.Adam)
    helper.set_optimizer_instance(held)
    assert helper.GPA.pai_tracker.member_vars["optimizer_instance"] is held.optimizer0
    helper.GPA.pai_tracker.member_vars["optimizer_instance"] = held  # as a script with DistributedDataParallel does
    monkeypatch.setattr(helper.GPA.pai_tracker, "add_validation_score", lambda score, net: (net, False, False))
    assert helper._pai_hand_over(0.5, model) == (False, False)
    for none in (Optimizer(), Optimizer(torch.optim.Adam, torch.optim.SGD)):
        with pytest.raises(SystemExit, match="1"):
            helper.set_optimizer_instance(none)
    said = capsys.readouterr().err
    assert "it is Optimizer, which has no param_groups, and 0 attributes that have" in said
    assert "it is Optimizer, which has no param_groups, and 2 attributes that have" in said


@pytest.mark.parametrize("restarts", [False, True])
def test_a_data_parallel_goes_on_restructured_or_leaves_for_a_restart(
    helper: ModuleType, perforate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    import torch

    model = perforate(torch.nn.Linear(2, 3), torch.nn.Linear(3, 2), initialize=False)
    helper.set_optimizer_instance(torch.optim.SGD(model.parameters(), lr=0.1))
    model(torch.ones(1, 2)).sum().backward()
    monkeypatch.setattr(helper.GPA.pai_tracker, "add_validation_score", lambda score, net: (net, True, False))
    monkeypatch.setattr(helper._pai, "restarts", restarts)
    wrapped = torch.nn.DataParallel(model)
    if restarts:
        with pytest.raises(SystemExit, match="0"):
            helper.add_validation_score(0.5, wrapped)
    else:
        assert helper.add_validation_score(0.5, wrapped) == (wrapped, True, False)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_weights_from_before_dendrites_are_loaded(
    helper: ModuleType, perforate: Callable[..., Any], wrapped: bool, strict: bool
) -> None:
    import torch

    layers = [torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2)]
    plain = {name: torch.full_like(value, 5) for name, value in torch.nn.Sequential(*layers).state_dict().items()}
    model = helper.load_latest_switch(perforate(*layers), None)
    loading = torch.nn.DataParallel(model) if wrapped else model
    loading.load_state_dict({f"module.{name}" if wrapped else name: plain[name] for name in plain}, strict=strict)
    own = [model[0].main_module, model[1], model[2].main_module]
    assert all((value == 5).all() for layer in own for value in layer.parameters())
    model(torch.ones(4, 2)).sum().backward()
    known = helper.own_state_dict(loading)
    assert list(known) == [f"module.{name}" if wrapped else name for name in plain]
    assert (known["module.2.weight" if wrapped else "2.weight"] == 5).all()
    state = model.state_dict()
    model.load_state_dict(state)  # its own names, as ever
    model.load_state_dict({**state, "0.weight": torch.zeros(3, 2)})  # a script may put weights into the model's own
    assert not model[0].main_module.weight.any()
    with pytest.raises(RuntimeError, match=r'Missing key.* "0\.weight"'):
        model.load_state_dict({name: plain[name] for name in list(plain)[1:]})


def test_weights_are_loaded_whose_names_have_lost_each_module(
    helper: ModuleType, perforate: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    model = helper.load_latest_switch(perforate(torch.nn.Sequential(torch.nn.Linear(2, 3))), None)
    saved = {f"module.{name}": torch.full_like(value, 5) for name, value in model.state_dict().items()}
    model.load_state_dict({name.replace("module.", ""): value for name, value in saved.items()}, strict=False)
    assert all((value == 5).all() for value in model[0][0].main_module.parameters())
    assert "stay as they were" not in capsys.readouterr().out
    model.load_state_dict({name.replace("0", "net", 1): value for name, value in saved.items()}, strict=False)
    said = capsys.readouterr().out
    assert "2 weights (0.0.weight, ...) were not in what the script loads, which has others" in said


def test_the_library_saves_all_of_a_model_whose_state_gives_the_script_a_part(
    helper: ModuleType, perforate: Callable[..., Any], tmp_path: Path
) -> None:
    import torch
    from safetensors.torch import load_file

    model: Any = perforate(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    whole = model.state_dict
    model.state_dict = lambda *given, **named: {k: v for k, v in whole(*given, **named).items() if k.startswith("1.")}
    helper.UPA.save_net(model, str(tmp_path), "all")
    (saved,) = tmp_path.glob("all.*")
    assert {name.partition(".")[0] for name in load_file(saved)} >= {"0", "1"}
    assert {name.partition(".")[0] for name in model.state_dict()} == {"1"}


def _weighted(helper: ModuleType) -> Any:
    """A model that computes its loss, by class weights of which it is given one row for each GPU, as in a list."""
    import torch

    class Weighted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = torch.nn.Linear(4, 2)

        def forward(self, x: Any, target: Any, weights: Any = ()) -> Any:
            return torch.nn.functional.cross_entropy(self.head(x), target, *(one.squeeze() for one in weights))

    return helper.on_one_device(Weighted())


@pytest.mark.parametrize("devices", [2, 4])
def test_the_initialisation_takes_one_devices_share_of_what_has_a_row_for_each(
    helper: ModuleType, capsys: pytest.CaptureFixture[str], devices: int
) -> None:
    import torch

    wrapper, x, target = _weighted(helper), torch.randn(8, 4), torch.arange(8) % 2
    weights = torch.tensor([[1.0, 2.0]]).repeat(devices, 1)
    shared = wrapper(x, target, weights=[weights])
    rows = 8 // devices
    assert shared.item() == wrapper.module(x[:rows], target[:rows], [weights[0]]).item()
    assert f"the share of one of {devices} devices" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("visible", "repeated", "split"),
    [("0,1", 2, True), ("0,1,2,3", 4, True), ("0,1", 1, False), ("0,1", 4, False), ("0", 2, False)],
    ids=["two", "four", "once", "crops", "one seen"],
)
def test_the_initialisation_gives_each_share_what_is_repeated_for_each_gpu(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, visible: str, repeated: int, split: bool
) -> None:
    """All images with a share of the captions on each GPU: together they make a square of scores."""
    import torch

    class Pairs(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = torch.nn.Linear(3, 3)

        def forward(self, images: Any, captions: Any) -> Any:
            return captions["words"] @ self.head(images).T, (len(images), captions["words"][:, 0])

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    images, captions = torch.randn(4, 3), torch.randn(4, 3)
    model = Pairs()
    scores, (count, firsts) = helper.on_one_device(model)(images.repeat(repeated, 1), {"words": captions})
    assert (scores.shape, count) == ((4, 4) if split else (4, 4 * repeated), 4 if split else 4 * repeated)
    assert torch.allclose(scores[:, :4], captions @ model.head(images).T)
    assert torch.equal(firsts, captions[:, 0])
    scores.sum().backward()
    assert model.head.weight.grad is not None


@pytest.mark.parametrize(
    ("rows", "weights", "error"),
    [(8, [], ""), (8, [(2,)], ""), (8, [(3,)], "weight tensor"), (7, [], "batch_size"), (8, [(1, 3)], "weight tensor")],
    ids=["no such row", "a row of two classes", "rows that are no devices", "other rows", "one row"],
)
def test_the_initialisation_takes_all_rows_where_the_model_does(
    helper: ModuleType, capsys: pytest.CaptureFixture[str], rows: int, weights: list[tuple[int, ...]], error: str
) -> None:
    import torch

    wrapper, x, target = _weighted(helper), torch.randn(8, 4), torch.arange(rows) % 2
    given = [torch.ones(shape) for shape in weights]
    with pytest.raises(Exception, match=error) if error else contextlib.nullcontext():
        whole = wrapper(x, target, given)
        assert whole.item() == wrapper.module(x, target, given).item()
    assert "devices" not in capsys.readouterr().out


def test_the_initialisation_runs_where_the_script_has_the_model(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it moves the model when it has wrapped it: torch looks for it on the wrapper's first device."""
    import torch

    wrapper = helper.on_one_device(torch.nn.Linear(2, 2))
    wrapper.forward = functools.partial(wrapper.forward.func, wrapper, lambda: wrapper.device_ids)
    assert wrapper() == []
    there = {0: "cuda:2"}
    monkeypatch.setattr(helper, "_pai_device", lambda model: torch.device(there[0]))
    assert wrapper() == [2]
    assert (wrapper.output_device, wrapper.src_device_obj) == (2, torch.device("cuda:2"))

    seen: list[Any] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(helper, "_pai_cuda_index", lambda: 1)
    monkeypatch.setattr(helper, "_pai_begin_replicas", lambda wrapper, module, ids: seen.append(ids))
    for there[0] in "cuda:2", "cpu":
        helper.on_one_device(torch.nn.Linear(2, 2))
    assert seen == [[2], [1]]


@pytest.mark.parametrize("initializing", [True, False])
def test_the_initialisation_run_waits_for_no_rank_that_has_more_batches(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, initializing: bool
) -> None:
    import torch
    from torch.distributed.algorithms.join import Join

    monkeypatch.setattr(helper, "initializing", lambda: initializing)
    expected = contextlib.nullcontext() if initializing else pytest.raises(AttributeError, match="join_hook")
    with expected, Join([torch.nn.Linear(2, 2)], throw_on_early_termination=True):  # type: ignore[list-item]
        pass


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("initializing", [True, False])
def test_what_shares_out_for_several_devices_need_not_for_the_one_of_the_initialisation(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, initializing: bool, devices: int
) -> None:
    import torch

    class Balanced(torch.nn.DataParallel[torch.nn.Module]):
        def scatter(self, inputs: Any, kwargs: Any, device_ids: Any) -> Any:
            return 8 // (devices - 1), kwargs, device_ids

    monkeypatch.setattr(helper, "initializing", lambda: initializing)
    monkeypatch.setattr(torch.nn.DataParallel, "scatter", lambda wrapper, *given: given)
    wrapper = Balanced(torch.nn.Linear(2, 2))
    shares = initializing or devices > 1
    with contextlib.nullcontext() if shares else pytest.raises(ZeroDivisionError):
        shared = wrapper.scatter(8, kwargs={}, device_ids=[0])
        assert shared == ((8, {}, []) if devices == 1 else (8, {}, [0]))


@pytest.mark.parametrize(
    ("initializing", "cuda", "given", "used"),
    [
        (True, False, [1, 0], [1]),
        (True, True, [1, 0], [1]),
        (True, False, None, None),
        (True, True, None, [0]),
        (False, True, [1, 0], [1, 0]),
        (False, True, None, None),
    ],
)
def test_the_initialisation_run_wraps_whatever_it_wraps_on_one_device(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, initializing: bool, cuda: bool, given: Any, used: Any
) -> None:
    """A loss that is wrapped beside the model names GPUs that the run does not see; a script may see all by itself."""
    import torch

    class Balanced(torch.nn.DataParallel[torch.nn.Module]):
        def __init__(self, module: torch.nn.Module, *, device_ids: list[int] | None) -> None:
            super().__init__(module, device_ids=device_ids, dim=1)

    seen: list[tuple[Any, ...]] = []
    monkeypatch.setattr(helper, "initializing", lambda: initializing)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(helper, "_pai_begin_replicas", lambda wrapper, *rest, **named: seen.append((*rest, named)))
    loss = torch.nn.MSELoss()
    torch.nn.DataParallel(loss, given)
    Balanced(loss, device_ids=given)
    assert seen == [(loss, used, {}), (loss, used, {"dim": 1})]


@pytest.mark.parametrize("initializing", [True, False])
def test_weights_of_a_wrapped_model_are_loaded_in_the_initialisation(
    helper: ModuleType, perforate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, initializing: bool
) -> None:
    import torch

    model = helper.load_latest_switch(perforate(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)), None)
    monkeypatch.setattr(helper, "initializing", lambda: initializing)
    plain = {name: torch.full_like(value, 5) for name, value in helper.own_state_dict(model).items()}
    wrapped = {f"module.{name}": value for name, value in plain.items()}
    for state in (wrapped, {f"module.{name}": value for name, value in model.state_dict().items()}):
        with contextlib.nullcontext() if initializing else pytest.raises(RuntimeError, match="Missing"):
            model.load_state_dict(state)
    assert (model[1].weight == 5).all() == initializing
    helper.without_wrapper(model).load_state_dict(wrapped)
    assert (model[1].weight == 5).all()
    with pytest.raises(RuntimeError, match="Unexpected"):  # not all have it
        model.load_state_dict(plain | {"module.more": torch.ones(1)})


@pytest.mark.parametrize("age", ["old", "new"])
@pytest.mark.parametrize(
    ("saved", "wrapped"), [("", 0), ("", 1), ("", 2), ("module.", 0), ("module.", 1), ("module.", 2)]
)
def test_a_restarted_round_passes_over_an_older_checkpoint_whatever_wrapped_it(
    helper: ModuleType, perforate: Callable[..., Any], age: str, saved: str, wrapped: int
) -> None:
    import torch

    model = helper.load_latest_switch(perforate(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)), None)
    state = {f"{saved}{name}": torch.full_like(value, 5) for name, value in model.state_dict().items()}
    helper._pai.switch_time = 1.0
    helper._pai.ages = {id(value): (value, age) for value in state.values()}
    whole = model
    for _ in range(wrapped):
        whole = torch.nn.DataParallel(whole)
    fits = age == "new" and wrapped >= saved.count("module.")
    whole.load_state_dict(state)
    assert bool((model[1].weight == 5).all()) == fits


def test_weights_from_before_dendrites_are_loaded_into_a_part(
    helper: ModuleType, perforate: Callable[..., Any]
) -> None:
    import torch

    part = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    plain = {name: torch.full_like(value, 5) for name, value in part.state_dict().items()}
    head = {name: torch.full_like(value, 7) for name, value in torch.nn.Linear(3, 2).state_dict().items()}
    model = helper.load_latest_switch(perforate(part, torch.nn.Linear(3, 2)), None)
    model[0].load_state_dict(plain)
    model[1].load_state_dict(head)  # a layer that has dendrites itself
    assert all((value == 5).all() for layer in (model[0][0].main_module, model[0][1]) for value in layer.parameters())
    assert all((value == 7).all() for value in model[1].main_module.parameters())
    with pytest.raises(RuntimeError, match="Unexpected"):
        model[0].load_state_dict(plain | {"2.weight": torch.ones(1)})


def test_a_whole_model_is_saved_and_loaded(
    helper: ModuleType, perforate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a batch in training too, for which the library's hook is a lambda."""
    import torch

    model = helper.load_latest_switch(perforate(torch.nn.Linear(2, 2)), None)
    given = torch.ones(1, 2)
    expected = model(given)
    assert model[0]._fb_hook_handle is not None
    monkeypatch.setitem(sys.modules, "pai_distributed", helper)  # as pickle looks for its functions
    torch.save(model, "model.pt")
    assert model[0]._fb_hook_handle is not None
    assert torch.load("model.pt", weights_only=False)(given).tolist() == expected.tolist()
    monkeypatch.delattr(helper.PA.PAINeuronModule, "__getstate__")
    with pytest.raises(AttributeError, match="Can't pickle local object"):
        torch.save(model, "model.pt")


@pytest.mark.parametrize("wrapper", ["", "module."])
def test_a_file_without_dendrites_is_asked_for_them_by_the_names_of_the_model(
    helper: ModuleType, perforate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, wrapper: str
) -> None:
    """As a restarted round begins. Of nothing else, and not as the first one does, where it has all names."""
    import torch

    model = helper.load_latest_switch(perforate(torch.nn.Linear(2, 2)), None)
    given = {"net": {wrapper + name: value for name, value in model.state_dict().items()}, "lr": {"x": 1}}
    torch.save(given, "pretrained.pt")
    assert type(torch.load("pretrained.pt")["net"]) is dict
    model[0].dendrite_module.layers.append(torch.nn.Linear(2, 2))
    model[0].dendrite_modules_added = 1
    own = {wrapper + name: value for name, value in model.state_dict().items()}
    monkeypatch.setattr(helper, "load_folder", lambda: "PAI")
    helper._pai.switch_time, helper._pai.restored = 4e9, {"0.weight": torch.ones(2, 2)}
    read = torch.load("pretrained.pt")
    assert own.keys() > read["net"].keys() == given["net"].keys()
    assert all(torch.equal(read["net"][name], value) for name, value in own.items())
    assert type(read["lr"]) is dict
    for name in ("0.bia", "0.pai_dendrites.other"):
        with pytest.raises(KeyError, match=re.escape(name)):
            read["net"][wrapper + name]


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float64", "float32"])
def test_the_dendrites_of_a_model_that_is_built_anew_are_of_its_precision(
    helper: ModuleType, perforate: Callable[..., Any], name: str
) -> None:
    """Where layers of it differ in that, those of each layer are of its own, as where norms stay float32."""
    import torch

    kind = getattr(torch, name)
    trained = helper.load_latest_switch(perforate(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)), None)
    for layer in trained:
        layer.dendrite_module.layers.append(torch.nn.Linear(2, 2))
        layer.dendrite_modules_added = 1
    helper._pai.complete = True
    whole, mixed = (torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)).to(kind) for _ in range(2))
    mixed[1].float()
    plain = {*whole.state_dict()}
    for model, last in ((whole, kind), (mixed, torch.float32)):
        expected = {"0": kind, "1": last}
        model.load_state_dict(trained.state_dict())
        state, given = model.state_dict(), trained.state_dict()
        assert state.keys() == given.keys()
        assert state["0.weight"].dtype is kind
        names = [name for name in given if name not in plain and given[name].is_floating_point()]
        assert len(names) >= 4
        assert all(torch.equal(state[name], given[name].to(expected[name[0]])) for name in names)
        assert all(state[name].dtype is expected[name[0]] for name in names)


@pytest.mark.parametrize("initialize", [True, False])
def test_a_model_that_a_file_has_in_its_wrapper_gets_dendrites_within(
    helper: ModuleType, perforate: Callable[..., Any], initialize: bool
) -> None:
    """In training the wrapper of the file stays; the initialisation run needs one of one device."""
    import torch

    perforate(torch.nn.Linear(2, 2), initialize=initialize)
    torch.save(torch.nn.DataParallel(torch.nn.Sequential(torch.nn.Linear(2, 2))), "model.pt")
    wrapped = torch.load("model.pt", weights_only=False)
    with helper.one_rank_at_a_time():
        model = helper.UPA.perforate_model(wrapped, save_name="PAI", maximizing_score=True)
    model = helper.load_latest_switch(model, None)
    assert type(model) is torch.nn.DataParallel
    assert (model is wrapped) != initialize
    assert model.module is wrapped.module
    assert helper._pai.model is model.module
    assert [type(layer).__name__ for layer in model.module._modules.values()] == ["PAINeuronModule"]


def test_a_distributed_wrapper_that_a_file_has_is_asked_about(
    helper: ModuleType, perforate: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its reducer knows the parameters of before."""
    import torch

    perforate(torch.nn.Linear(2, 2))
    kind = torch.nn.parallel.DistributedDataParallel
    with helper.one_rank_at_a_time(), pytest.raises(SystemExit, match="1"):
        helper.UPA.perforate_model(kind.__new__(kind), save_name="PAI", maximizing_score=True)
    assert re.search(r"\.py:\d+: the model has its DistributedDataParallel around it", capsys.readouterr().err)


def test_own_modules_are_those_from_before_dendrites(helper: ModuleType, perforate: Callable[..., Any]) -> None:
    import torch

    body = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    before, body_kinds = [body, *body, last := torch.nn.Linear(3, 2)], [*body]
    assert [helper.own_layer(child) for child in body] == body_kinds
    model = helper.load_latest_switch(perforate(body, last), None)
    model[0][0].dendrite_module.layers.append(torch.nn.Linear(2, 3))
    model[0][0].dendrite_modules_added = 1
    assert sum(isinstance(part, torch.nn.Linear) for part in model.modules()) == 3
    own = helper.own_modules(torch.nn.DataParallel(model))
    assert [type(part) for part in own[2:]] == [type(part) for part in before]
    assert own[3] is model[0][0].main_module
    assert [type(helper.own_layer(child)) for child in model[0].children()] == [type(part) for part in body_kinds]
    assert [part for _, part in helper.own_named_modules(model)] == own[1:]
    names = ["0.0.weight", "0.0.bias", "0.1.weight", "0.1.bias", "1.weight", "1.bias"]
    assert [name for name, _ in helper.own_named_parameters(model)] == names
    assert list(map(id, helper.own_parameters(model))) == [id(one) for _, one in helper.own_named_parameters(model)]
    assert len(list(model.named_parameters())) > len(names)


def test_a_function_is_applied_to_no_module_of_the_library(helper: ModuleType, perforate: Callable[..., Any]) -> None:
    """They have the weights of the layer within, which a function that starts what has a `weight` would start anew."""
    import torch

    model = helper.load_latest_switch(perforate(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)), None)
    model[0].dendrite_module.layers.append(torch.nn.Linear(2, 3))
    model[0].dendrite_modules_added = 1
    met: list[torch.nn.Module] = []
    assert model.apply(met.append) is model
    assert [type(part) for part in met].count(torch.nn.Linear) == 2
    assert sorted(map(id, met)) == sorted(map(id, model.modules()))


def gathered(module: Any, without: type) -> list[str]:
    """The names of parameters but those in layers of a kind, as transformers' `get_parameter_names` gathers them."""
    names: list[str] = []
    for name, child in module.named_children():
        if not isinstance(child, without):
            names += [f"{name}.{inner}" for inner in gathered(child, without)]
    return names + list(module._parameters)


def test_files_and_folders_may_be_given_by_name(helper: ModuleType, perforate: Callable[..., Any]) -> None:
    import torch

    torch.save(obj={"a": 1}, f="a.pt")
    os.makedirs("b")
    os.chdir(path="b")
    assert torch.load(f="../a.pt") == {"a": 1}


def test_a_walk_that_gathers_parameters_meets_the_scripts_layers(
    helper: ModuleType, perforate: Callable[..., Any]
) -> None:
    """And any other what runs, such as one that makes a model of the children."""
    import torch

    body = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    model = helper.load_latest_switch(perforate(body, torch.nn.Linear(3, 2)), None)
    names = gathered(model, torch.nn.BatchNorm1d)
    assert names == ["0.0.weight", "0.0.bias", "1.weight", "1.bias"]
    model[0][0].dendrite_module.layers.append(torch.nn.Linear(2, 3))
    model[0][0].dendrite_modules_added = 1
    grown = {f"0.0.pai_dendrites.dendrite_modules.layers.0.{name}" for name in ("weight", "bias")}
    assert {*names, *grown} <= {*gathered(model, torch.nn.BatchNorm1d)}
    assert {name for name, _ in model.named_parameters() if not name.startswith("0.1.")} <= {
        *gathered(model, torch.nn.BatchNorm1d)
    }
    assert [*model.children()] == [part for _, part in model.named_children()] == [model[0], model[1]]
    assert type(model[1]) is helper.PA.PAINeuronModule
    with helper._pai_as_library():
        assert "0.0.main_module.weight" in gathered(model, torch.nn.BatchNorm1d)


def test_a_part_has_the_names_from_before_dendrites(helper: ModuleType, perforate: Callable[..., Any]) -> None:
    import torch

    body = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    plain = {name: torch.full_like(value, 5) for name, value in body.state_dict().items()}
    model = helper.load_latest_switch(perforate(body, torch.nn.Linear(3, 2)), None)
    assert list(helper.own_state_dict(model[0])) == list(plain)
    model[0].load_state_dict(plain)
    assert (model[0][0].main_module.weight == 5).all()
    assert list(helper.own_state_dict(model[1])) == ["weight", "bias"]
    model[1].load_state_dict({"weight": torch.zeros(2, 3), "bias": torch.zeros(2)})
    assert not model[1].main_module.weight.any()
    helper.own_state_dict(model)["0.0.weight"].copy_(torch.ones(3, 2))
    assert (model[0][0].main_module.weight == 1).all()


@pytest.mark.parametrize(
    ("url", "machines", "torchrun", "anew"),
    [
        ("file:///shared/store", "1", True, True),
        ("file:///shared/store", "2", True, False),  # the others would look for it elsewhere
        ("file:///shared/store", "1", False, False),  # nothing says which processes begin together
        ("tcp://localhost:23456", "1", True, False),
    ],
)
def test_a_file_in_which_processes_meet_is_one_of_this_starts_own(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, url: str, machines: str, torchrun: bool, anew: bool
) -> None:
    monkeypatch.setenv("GROUP_WORLD_SIZE", machines)
    monkeypatch.setattr(helper, "_pai_of_torchrun", torchrun)
    monkeypatch.setattr(helper, "_pai_begun", lambda process: f"began_{process - os.getppid()}")
    own = f"file://{helper.tempfile.gettempdir()}/pai_meeting_{os.getppid()}_began_0_store"
    assert helper._pai_anew(url) == (own if anew else url)


@pytest.mark.parametrize(
    ("url", "theirs"),
    [("env://", True), ("env://host:3721", True), ("tcp://host:29500", True), ("tcp://host:3721", False)],
)
def test_a_port_of_the_scripts_own_is_not_that_of_torchruns_store(
    helper: ModuleType, monkeypatch: pytest.MonkeyPatch, url: str, theirs: bool
) -> None:
    monkeypatch.setenv("MASTER_PORT", "29500")
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    monkeypatch.setattr(helper, "_pai_port_of_torchrun", "29500")
    monkeypatch.setattr(helper, "_pai_rendezvous", lambda *_, **__: None)
    monkeypatch.setattr(helper, "_pai_in_this_attempt", lambda meetings: meetings)
    monkeypatch.setattr(helper, "initializing", lambda: False)
    helper._pai_meet_alone(url)
    assert (os.environ["TORCHELASTIC_USE_AGENT_STORE"] == "True") is theirs


@pytest.mark.skipif(sys.platform != "linux", reason="it is read where Linux tells it")
def test_a_process_is_known_by_when_it_began_as_well(helper: ModuleType) -> None:
    """Another one has its number in time: what that has left of a meeting was taken for this one's."""
    with subprocess.Popen(["sleep", "60"]) as later:
        mine, its = (int(helper._pai_begun(process)) for process in (os.getpid(), later.pid))
        later.kill()
    assert 0 < mine <= its
    assert helper._pai_begun(later.pid) == ""


def test_a_model_that_a_file_has_with_its_dendrites_is_told(
    helper: ModuleType, perforate: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """As where an interrupted round goes on from the whole model that it has saved."""
    import torch

    model = perforate(torch.nn.Sequential(torch.nn.Linear(2, 2)))
    with helper.one_rank_at_a_time(), pytest.raises(SystemExit, match="1"):
        helper.UPA.perforate_model(model, save_name="PAI", maximizing_score=True)
    assert re.search(r"\.py:\d+: the model has its dendrites already", capsys.readouterr().err)


def test_what_a_script_builds_of_the_librarys_own_class_of_layers_has_no_dendrites_yet(
    helper: ModuleType, perforate: Callable[..., Any]
) -> None:
    """A PAISequential is in a model before that is perforated, so that dendrites are of all that it holds."""
    import torch

    model = perforate(helper.GPA.PAISequential([torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)]))
    assert [layer.name for layer in helper._pai_layers(model)] == [".0"]
