"""A perforated model has the names that the script has for it, on the real library, before dendrites and with them."""

from __future__ import annotations

import copy
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests import test_runtime

pytestmark = test_runtime.pytestmark
helper, perforate = test_runtime.helper, test_runtime.perforate


def layers() -> list[Any]:
    """A convolution, a batch norm that the library only tracks, a block, and a head that a block holds as well."""
    import torch

    torch.manual_seed(0)
    head = torch.nn.Linear(4, 2)
    block = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3, 4), torch.nn.ReLU())
    return [torch.nn.Conv1d(3, 3, 1), torch.nn.BatchNorm1d(3), block, head]


@pytest.fixture
def plain() -> Any:
    """The model as it was."""
    import torch

    return torch.nn.Sequential(*layers())


@pytest.fixture
def model(helper: ModuleType, perforate: Callable[..., Any]) -> Any:
    """The model with layers of the library."""
    return helper.load_latest_switch(perforate(*layers()), None)


@pytest.fixture
def grown(helper: ModuleType, model: Any) -> Any:
    """The model with a dendrite."""
    grow(helper, model)
    assert model[0].dendrite_modules_added == 1
    return model


def grow(helper: ModuleType, model: Any) -> None:
    """Give each layer a dendrite."""
    import torch

    model(torch.ones(2, 3, 1)).sum().backward()
    with helper._pai_library_at_work(model):
        helper.GPA.pai_tracker.set_dendrite_training()
        helper.GPA.pai_tracker.set_neuron_training()


def of_library(module: Any) -> bool:
    return type(module).__module__.startswith("perforatedai")


def test_before_dendrites_it_has_the_names_and_modules_of_before(plain: Any, model: Any) -> None:
    assert list(model.state_dict()) == list(plain.state_dict())
    assert model.state_dict()._metadata == {**model.state_dict()._metadata, **plain.state_dict()._metadata}
    for walk in ("named_parameters", "named_buffers", "named_modules"):
        for part, same in ((plain, model), (plain[2], model[2])):
            assert [name for name, _ in getattr(same, walk)()] == [name for name, _ in getattr(part, walk)()]
    assert [type(module) for module in model.modules()] == [type(module) for module in plain.modules()]
    assert [name for name, _ in model[0].named_parameters()] == ["weight", "bias"]  # a layer by itself
    assert list(model[0].state_dict()) == ["weight", "bias"]
    assert model.get_parameter("2.1.weight") is dict(model.named_parameters())["2.1.weight"]


def test_checkpoints_of_before_and_of_now_are_the_same(plain: Any, model: Any) -> None:
    import torch

    for part in plain.parameters():
        part.data.fill_(5)
    model.load_state_dict(plain.state_dict())
    assert all((parameter == 5).all() for parameter in model.parameters())
    for part in model.parameters():
        part.data.fill_(6)
    plain.load_state_dict(model.state_dict())
    assert all((parameter == 6).all() for parameter in plain.parameters())
    wrapped = torch.nn.DataParallel(model)
    assert list(wrapped.state_dict()) == [f"module.{name}" for name in plain.state_dict()]
    wrapped.load_state_dict(torch.nn.DataParallel(plain).state_dict())


def test_what_a_script_does_with_names_does_what_it_did(plain: Any, model: Any) -> None:
    import torch

    known = model.state_dict()
    for part in plain.parameters():
        part.data.fill_(5)
    known.update({name: value for name, value in plain.state_dict().items() if name in known})
    model.load_state_dict(known)
    assert all((parameter == 5).all() for parameter in model.parameters())
    saved = {f"module.{name}": value.clone() for name, value in model.state_dict().items()}
    assert not model.load_state_dict({name.replace("module.", ""): saved[name] for name in saved}).missing_keys
    average, now = dict(plain.named_parameters()), dict(model.named_parameters())
    for name in average:
        assert torch.equal(average[name], now[name])
    masks = {name: torch.zeros_like(value) for name, value in average.items()}
    for name, value in model.named_parameters():
        if name in masks:
            value.data *= masks[name]
    assert not any(value.any() for value in model.parameters())
    decay = {f"{path}.{name}" for path, m in model.named_modules() for name, _ in m.named_parameters(recurse=False)}
    decay.remove("3.weight")


def test_a_walk_through_layers_meets_each_parameter_once(helper: ModuleType, grown: Any) -> None:
    walked = [p for module in grown.modules() for p in module._parameters.values() if p is not None]
    assert len(walked) == len(set(walked))
    assert set(walked) == set(grown.parameters())  # so DistributedDataParallel finds them, which walks like this
    assert not any(of_library(module) for module in grown.modules())
    everywhere = list(helper._pai_modules(grown))
    assert set(walked) == {p for module in everywhere for p in module._parameters.values() if p is not None}
    with helper._pai_library_at_work(grown):
        assert any(of_library(module) for module in grown.modules())


def test_the_first_parameter_is_there_without_a_walk_through_the_model(model: Any) -> None:
    class Watched(dict[str, Any]):
        looks = 0

        def items(self) -> Any:
            Watched.looks += 1
            return super().items()

    for module in model.modules():
        module._parameters = Watched(module._parameters)
    next(model.parameters())
    assert Watched.looks <= 2  # the root has none
    assert len(list(model.parameters())) == 8


def test_a_module_of_the_library_names_its_own_parts_as_others_do(grown: Any) -> None:
    names = [name for name, _ in grown[0].dendrite_module.named_parameters()]
    assert "layers.0.weight" in names
    assert not any(name.startswith(".") for name in names)


def test_dendrites_have_names_of_their_own(plain: Any, grown: Any) -> None:
    names = [name for name, _ in grown.named_parameters()]
    own = [name for name in names if "pai_dendrites" not in name]
    assert own == [name for name, _ in plain.named_parameters()]
    assert "0.pai_dendrites.dendrite_modules.layers.0.weight" in names
    assert set(names) <= set(grown.state_dict())
    assert all(grown.get_parameter(name) is parameter for name, parameter in grown.named_parameters())
    assert not any("main_module" in name or "parent_module" in name for name in grown.state_dict())
    with pytest.raises(RuntimeError, match=r"Unexpected key.*pai_dendrites"):
        plain.load_state_dict(grown.state_dict())
    assert plain.load_state_dict(grown.state_dict(), strict=False).missing_keys == []


def test_a_checkpoint_with_dendrites_says_how_it_is_loaded(
    helper: ModuleType, grown: Any, perforate: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    state = grown.state_dict()
    grown.load_state_dict(state)
    assert "has dendrites" not in capsys.readouterr().out
    without = helper.load_latest_switch(perforate(*layers()), None)
    without.load_state_dict(state, strict=False)
    assert "has dendrites, and the model has none: start with --pai_load_folder" in capsys.readouterr().out


@pytest.mark.parametrize("complete", [False, True])
def test_what_leaves_the_dendrites_of_a_checkpoint_out_is_told(
    helper: ModuleType,
    plain: Any,
    grown: Any,
    tmp_path: Path,
    complete: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By the names that a model without them has, torch finds nothing amiss."""
    import torch

    before = {name: value.clone() for name, value in plain.state_dict().items()}
    torch.save(before, tmp_path / "before.pt")
    torch.save({"net": grown.state_dict(), "epoch": 1}, tmp_path / "best.pt")
    if complete:
        monkeypatch.setenv("PAI_LOAD_FOLDER", "PAI")
    helper._pai.complete = complete
    known = torch.load(tmp_path / "best.pt")["net"]
    for state in (torch.load(tmp_path / "before.pt"), before, {name: value + 1 for name, value in before.items()}):
        plain.load_state_dict(state)
    grown.load_state_dict(known)
    assert "has dendrites" not in capsys.readouterr().out
    plain.load_state_dict({**before, **{name: value for name, value in known.items() if name in before}})
    cure = "build the model by" if complete else "start with --pai_load_folder"
    assert f"has dendrites, and the model has none: {cure}" in capsys.readouterr().out


@pytest.mark.parametrize("way", ["only its own names", "all of its names"])
def test_a_model_built_anew_is_told_to_lack_them_where_no_training_has_ended(
    helper: ModuleType,
    plain: Any,
    grown: Any,
    tmp_path: Path,
    way: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is evaluated beside the one that is trained, as by a start with the folder that does not train."""
    import torch

    monkeypatch.setenv("PAI_LOAD_FOLDER", "PAI")
    torch.save(grown.state_dict(), tmp_path / "best.pt")
    state = plain.state_dict()
    state.update(torch.load(tmp_path / "best.pt"))
    own = {name: state[name] for name in plain.state_dict()}
    other: torch.nn.Module = torch.nn.ModuleList(layers())
    other.load_state_dict(own)
    assert "has dendrites, and the model has none" not in capsys.readouterr().out
    plain.load_state_dict(own if way == "only its own names" else state, strict=False)
    assert "has dendrites, and the model has none: build the model by load_final_model" in capsys.readouterr().out


@pytest.mark.parametrize("made", [True, False])
def test_a_model_that_is_used_before_it_gets_its_dendrites_is_told(
    helper: ModuleType, plain: Any, made: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A start with the folder may evaluate alone, where no switch file brings them."""
    import torch

    monkeypatch.setenv("PAI_LOAD_FOLDER", "PAI")
    plain.load_state_dict(
        {**plain.state_dict(), "0.pai_dendrites.dendrite_modules.layers.0.weight": torch.ones(3, 3, 1)}
    )
    assert "has dendrites, and the model has none" not in capsys.readouterr().out
    helper._pai.model = plain if made else None
    torch.nn.Linear(3, 1)(torch.ones(2, 3))
    assert "has dendrites, and the model has none" not in capsys.readouterr().out
    plain.eval()(torch.ones(2, 3, 1))
    assert ("the model has none: build the model by load_final_model" in capsys.readouterr().out) is not made


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_model_built_anew_when_training_is_complete_takes_its_dendrites(
    helper: ModuleType, plain: Any, grown: Any, wrapped: bool
) -> None:
    import torch

    saved = {name: torch.full_like(value, 0.5) for name, value in grown.state_dict().items()}
    kept = {name: value.clone() for name, value in grown.state_dict().items()}
    helper._pai.complete = True
    built = torch.nn.DataParallel(plain) if wrapped else plain
    built.eval().load_state_dict({f"module.{name}" if wrapped else name: value for name, value in saved.items()})
    loaded = plain.state_dict()
    assert saved.keys() == loaded.keys()
    assert all(loaded[name].equal(value) for name, value in saved.items())
    assert all(value.equal(kept[name]) for name, value in grown.state_dict().items())
    assert not any(module.training for module in plain.modules())
    grown.eval().load_state_dict(saved)
    assert plain(torch.ones(2, 3, 1)).equal(grown(torch.ones(2, 3, 1)))


@pytest.mark.parametrize(
    "way",
    ["name by name", "what it has", "what it has by its keys", "what fits", "a copy", "a union", "what it gets"],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_model_built_anew_takes_them_where_a_script_asks_it_for_their_names(
    helper: ModuleType, plain: Any, grown: Any, way: str, wrapped: bool
) -> None:
    import torch

    saved = {name: torch.full_like(value, 0.5) for name, value in grown.state_dict().items()}
    saved = {f"module.{name}" if wrapped else name: value for name, value in saved.items()}
    helper._pai.complete = True
    built = torch.nn.DataParallel(plain) if wrapped else plain
    own = built.state_dict()
    if way == "name by name":
        for name in saved:
            built.state_dict()[name].copy_(saved[name])
    elif way == "what fits":
        fitting = {name: value for name, value in saved.items() if name in own and own[name].shape == value.shape}
        own.update(fitting)
        built.load_state_dict(own)
    elif way == "a copy":
        own = own.copy()
        own.update({name: value for name, value in saved.items() if name in own})
        built.load_state_dict(own)
    elif way == "a union":
        built.load_state_dict(own | {name: value for name, value in saved.items() if name in own | {}})
    elif way == "what it gets":
        for name, value in saved.items():
            if own.get(name) is not None:
                own[name] = value
        built.load_state_dict(own)
    else:
        names = own if way == "what it has" else own.keys()
        built.load_state_dict({name: value for name, value in saved.items() if name in names})
    loaded = built.state_dict()
    assert saved.keys() == loaded.keys()
    assert all(loaded[name].equal(value) for name, value in saved.items())


def test_the_state_of_a_model_built_anew_is_an_ordinary_one(
    helper: ModuleType, plain: Any, grown: Any, tmp_path: Path
) -> None:
    import torch

    helper._pai.complete = True
    own = plain.state_dict()
    assert "0.weight" in own
    assert "0.other" not in own
    with pytest.raises(KeyError, match=r"0\.other"):
        own["0.other"]
    assert own._metadata.keys() >= {"", "0", "2.1"}
    assert own.get("0.other", 5) == 5
    assert list(reversed(own.keys())) == list(reversed(own)) == list(own)[::-1]
    assert own.copy()._metadata == own._metadata
    assert not any("pai_dendrites" in name for name in plain.state_dict())
    torch.save(own, tmp_path / "own.pt")
    loaded = torch.load(tmp_path / "own.pt", weights_only=True)
    assert type(loaded) is type(copy.deepcopy(own)) is OrderedDict
    assert list(loaded) == list(own)


def test_a_model_built_anew_of_layers_that_wait_for_their_sizes_takes_its_dendrites(
    helper: ModuleType, grown: Any
) -> None:
    import torch

    saved = {name: torch.full_like(value, 0.5) for name, value in grown.state_dict().items()}
    helper._pai.complete = True
    block = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(4), torch.nn.ReLU())
    built = torch.nn.Sequential(torch.nn.Conv1d(3, 3, 1), torch.nn.BatchNorm1d(3), block, torch.nn.Linear(4, 2))
    built.load_state_dict(saved)
    loaded = built.state_dict()
    assert all(loaded[name].equal(value) for name, value in saved.items())


@pytest.mark.parametrize("grows_by", ["what is loaded", "another state"])
def test_what_a_script_holds_of_a_model_built_anew_stays_part_of_it(
    helper: ModuleType, plain: Any, grown: Any, grows_by: str
) -> None:
    import torch

    saved = {name: torch.full_like(value, 0.5) for name, value in grown.state_dict().items()}
    helper._pai.complete = True
    own, weights = plain.state_dict(), dict(plain.named_parameters())
    if grows_by == "another state":
        assert all(name in plain.state_dict() for name in saved)
    plain.load_state_dict(saved)
    assert [name for name in saved if name not in own] == []
    loaded = plain.state_dict()
    assert all(loaded[name].equal(value) and own[name].equal(value) for name, value in saved.items())
    weights["0.weight"].data.fill_(6)
    own["0.bias"].fill_(7)
    assert plain.state_dict()["0.weight"].unique() == 6
    assert plain.state_dict()["0.bias"].unique() == 7


@pytest.mark.parametrize("filled", [True, False])
def test_a_model_built_anew_takes_its_dendrites_where_a_script_fills_its_parameters(
    helper: ModuleType, plain: Any, grown: Any, tmp_path: Path, filled: bool
) -> None:
    import torch

    helper._pai.complete = True
    torch.save(grown.state_dict(), tmp_path / "best.pt")
    saved = torch.load(tmp_path / "best.pt")
    try:
        for name, value in (*plain.named_parameters(), *plain.named_buffers()):
            value.data.copy_(saved[name])
        plain[3].bias.data += not filled
        out = plain.eval()(torch.ones(2, 3, 1))
    finally:
        helper._pai_watches.pop().remove()
    assert any("pai_dendrites" in name for name in plain.state_dict()) is filled
    assert out.allclose(grown.eval()(torch.ones(2, 3, 1))) is filled


def test_so_it_does_where_another_library_has_read_the_file(
    helper: ModuleType, plain: Any, grown: Any, tmp_path: Path
) -> None:
    import safetensors.torch
    import torch

    safetensors.torch.save_file(dict(grown.state_dict()), tmp_path / "best.safetensors")
    saved = safetensors.torch.load_file(tmp_path / "best.safetensors")
    helper._pai.complete = True
    helper._pai_watch_filled()
    try:
        for name, value in (*plain.named_parameters(), *plain.named_buffers()):
            value.data.copy_(saved[name])
        out = plain.eval()(torch.ones(2, 3, 1))
    finally:
        helper._pai_watches.pop().remove()
    assert out.allclose(grown.eval()(torch.ones(2, 3, 1)))


def test_a_state_has_what_a_script_has_put_into_it_or_taken_out_when_it_grows(
    helper: ModuleType, plain: Any, grown: Any
) -> None:
    import torch

    helper._pai.complete = True
    own = plain.state_dict()
    before = {name: value.clone() for name, value in own.items()}
    own["3.weight"] = torch.ones(9, 4)
    del own["0.bias"]
    assert all(name in own for name in grown.state_dict() if "pai_dendrites" in name)
    assert own["3.weight"].shape == (9, 4)
    assert "0.bias" not in own
    assert all(plain.state_dict()[name].equal(value) for name, value in before.items())


def test_a_model_built_anew_tests_one_checkpoint_after_another(
    helper: ModuleType, plain: Any, grown: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    first = {name: torch.full_like(value, 2) for name, value in plain.state_dict().items()}
    second = {name: torch.full_like(value, 3) for name, value in grown.state_dict().items()}
    other = {**second, "0.pai_dendrites.dendrite_modules.layers.1.weight": torch.ones(1)}
    helper._pai.complete = True
    for state in (second, first, second):
        plain.eval().load_state_dict(state)
        loaded = plain.state_dict()
        assert state.keys() == loaded.keys()
        assert all(loaded[name].equal(value) for name, value in state.items())
        assert not any(module.training for module in plain.modules())
    assert "The model keeps its weights" not in capsys.readouterr().out
    plain.load_state_dict(other)  # of a structure that was dropped: the final model is tested
    assert all(value.equal(grown.state_dict()[name]) for name, value in plain.state_dict().items())
    assert "The model keeps its weights" in capsys.readouterr().out


def test_another_model_takes_no_dendrites_when_training_is_complete(helper: ModuleType, grown: Any) -> None:
    import torch

    helper._pai.complete = True
    for other in (torch.nn.Sequential(*layers()[:3]), torch.nn.ModuleList(layers())):
        with pytest.raises(RuntimeError, match=r"Unexpected key.*pai_dendrites"):
            other.load_state_dict(grown.state_dict())


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_model_of_another_class_takes_the_weights_that_it_has_in_training(
    helper: ModuleType,
    plain: Any,
    grown: Any,
    wrapped: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A teacher follows its student without dendrites, which it has no place for."""
    import torch

    monkeypatch.setenv("PAI_LOAD_FOLDER", "PAI")
    teacher: torch.nn.Module = torch.nn.ModuleList(layers())
    state = {name: torch.full_like(value, 2) for name, value in grown.state_dict().items()}
    if wrapped:
        teacher, state = torch.nn.DataParallel(teacher), {f"module.{name}": value for name, value in state.items()}
    for _ in range(2):
        teacher.load_state_dict(state)
    assert all((value == 2).all() for value in teacher.state_dict().values())
    assert capsys.readouterr().out.count("takes over no dendrites") == 1
    with pytest.raises(RuntimeError, match=r"Unexpected key.*pai_dendrites"):
        plain.load_state_dict(grown.state_dict())  # of the trained one's class, which may be tested
    smaller = torch.nn.ModuleList(layers()[:1])
    with pytest.raises(RuntimeError, match=r"Unexpected key.*pai_dendrites"):
        smaller.load_state_dict(grown.state_dict())


@pytest.mark.parametrize(
    "cut", [lambda name: name, lambda name: name.replace("module.", ""), lambda name: name.split("module.")[-1]]
)
def test_weights_of_dendrites_are_saved_and_loaded_by_those_names(grown: Any, cut: Callable[[str], str]) -> None:
    import torch

    wrapped = torch.nn.DataParallel(grown) if cut("module.x") == "x" else grown
    state = {cut(name): torch.full_like(value, 3) for name, value in wrapped.state_dict().items()}
    grown.load_state_dict(state)
    assert all((parameter == 3).all() for parameter in grown.parameters())


def test_the_library_saves_and_loads_by_its_own_names(helper: ModuleType, grown: Any) -> None:
    import safetensors

    helper.UPA.save_net(grown, "PAI", "kept")
    with safetensors.safe_open("PAI/kept.pt", framework="pt") as file:
        names = set(file.keys())
    assert {"0.main_module.weight", "0.dendrite_module.layers.0.weight", "1.weight"} <= names
    before = copy.deepcopy(grown.state_dict())
    for parameter in grown.parameters():
        parameter.data.zero_()
    loaded = helper.UPA.load_net(grown, "PAI", "kept")
    assert all(value.equal(before[name]) for name, value in loaded.state_dict().items())


def test_buffers_that_a_model_gets_as_it_runs_are_loaded_before_it_has(helper: ModuleType, grown: Any) -> None:
    import torch

    sizes = {"made": 3, "filled": 4, "widened": 5}
    for name, size in sizes.items():
        grown[2].register_buffer(name, torch.full((size,), 7.0))
    grown[2].note = torch.ones(2)  # no buffer
    helper.UPA.save_net(grown, "PAI", "kept")
    del grown[2].made
    grown[2].filled, grown[2].widened = None, torch.zeros(2)
    loaded = helper.UPA.load_net(grown, "PAI", "kept")
    assert all(loaded[2].get_buffer(name).equal(torch.full((size,), 7.0)) for name, size in sizes.items())
    assert loaded[2].note.equal(torch.ones(2))


def test_layers_and_parameters_that_a_model_gets_later_wait_for_it(helper: ModuleType, grown: Any) -> None:
    import torch

    def get(module: Any, value: float) -> None:
        module[2].graph = torch.nn.Sequential(torch.nn.BatchNorm1d(2))
        module[2].graph[0].weight.data.fill_(value)
        module[2].register_parameter("scale", torch.nn.Parameter(torch.full((2,), value)))

    get(grown, 7.0)
    helper.UPA.save_net(grown, "PAI", "kept")
    del grown[2].graph, grown[2].scale
    helper._pai.late_parameters = {"2.scale": None}
    helper.UPA.load_net(grown, "PAI", "kept")
    helper._pai_give_late(grown)
    assert {"graph", "scale"}.isdisjoint(dir(grown[2]))
    get(grown, 0.0)
    helper._pai_give_late(grown)
    assert grown[2].graph[0].weight.tolist() == grown[2].scale.tolist() == [7.0, 7.0]
    assert isinstance(grown[2].scale, torch.nn.Parameter)
    assert not helper._pai.late


@pytest.mark.parametrize("which", ["model", "grown"])
def test_replicas_have_the_modules_of_the_library(
    which: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    model = request.getfixturevalue(which)
    copies = lambda tensors, devices, detach=False: [[t.clone() for t in tensors] for _ in devices]  # noqa: E731 - as on GPUs
    monkeypatch.setattr(sys.modules["torch.nn.parallel.replicate"], "_broadcast_coalesced_reshape", copies)
    replicas = torch.nn.DataParallel(model).replicate(model, [0, 1])
    x = torch.randn(2, 3, 1)
    model.eval()
    assert all(torch.equal(replica.eval()(x), model(x)) for replica in replicas)
    assert not any(replica[0].main_module is model[0].main_module for replica in replicas)


def test_a_profiler_registers_its_buffers_on_all_modules(helper: ModuleType, model: Any) -> None:
    import torch

    def count(module: Any) -> None:
        module.register_buffer("total_ops", torch.zeros(1))

    of_library = [part for part in helper._pai_modules(model) if part not in list(model.modules())]
    model.apply(count)
    model[0].total_ops += 1
    assert model[0].main_module.total_ops == 0
    assert len(of_library) > 3
    assert all(part.total_ops.numel() == 1 for part in of_library)
    with helper._pai_as_library():  # as it saves
        assert not any("total_ops" in part.state_dict(keep_vars=True) for part in of_library)


@pytest.mark.parametrize("which", ["model", "grown"])
def test_a_function_that_registers_what_does_not_count_comes_to_each_layer_once(
    request: pytest.FixtureRequest, which: str
) -> None:
    import torch

    model = request.getfixturevalue(which)

    def start(module: Any) -> None:
        if hasattr(module, "weight"):
            module.weight.data.mul_(2)
            module.register_buffer("mask", torch.rand_like(module.weight) + 0.5)

    before = model[0].weight.detach().clone()
    model.apply(start)
    assert model[0].weight.equal(2 * before)
    assert model[0].mask is model[0].main_module.mask


def test_the_parameters_of_dendrites_have_what_the_script_gives_those_of_the_layers(
    helper: ModuleType, model: Any
) -> None:
    """But no tensor, which is of the other's values, and no dict in common; what they were given themselves stays."""
    for name, parameter in model.named_parameters():
        parameter.decays, parameter.began = name.endswith("weight"), parameter.detach().clone()
        parameter.moments = {"steps": 0}
    model[3].requires_grad_(False)
    grow(helper, model)
    of_dendrites = {name: part for name, part in model.named_parameters() if "pai_dendrites" in name}
    assert {name for name, _ in model.named_parameters()} > of_dendrites.keys()
    copied = {name: part for name, part in of_dendrites.items() if name.endswith(("weight", "bias"))}
    assert len(copied) == 6
    assert all(part.decays is name.endswith("weight") for name, part in copied.items())
    assert all(hasattr(part, "decays") and not hasattr(part, "began") for part in of_dendrites.values())
    for part in of_dendrites.values():
        part.moments["steps"] += 1
        part.decays = None
    assert all(part.moments["steps"] == (name in of_dendrites) for name, part in model.named_parameters())
    grow(helper, model)
    assert {part.decays for part in model.parameters()} == {True, False, None}
