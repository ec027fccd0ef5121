"""What the helper finds wrong in a run, on the real library: each check speaks, and is silent close by."""

from __future__ import annotations

import copy
import gc
import json
import os
import re
import sys
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

from tests import test_runtime
from tests.test_runtime import SCRIPTS, Run, launch

pytestmark = test_runtime.pytestmark
helper, perforate = test_runtime.helper, test_runtime.perforate
HERE = Path(__file__).name


class Training:
    """A training of two layers in this process, after its initialisation."""

    def __init__(self, helper: ModuleType, model: Any) -> None:
        import torch

        self.helper, self.model = helper, model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        helper.set_optimizer_instance(self.optimizer)

    def step(self, *optimizers: Any, model: Any = None) -> None:
        """Take a step with optimizers, or with the registered one, of this model or another."""
        import torch

        optimizers = optimizers or (self.optimizer,)
        for optimizer in optimizers:
            optimizer.zero_grad()
        (model or self.model)(torch.ones(1, 2)).sum().backward()
        for optimizer in optimizers:
            optimizer.step()

    def evaluate(self, model: Any = None) -> None:
        """Evaluate the model, or another."""
        import torch

        with torch.no_grad():
            (model or self.model)(torch.ones(1, 2))

    def hand_over(self, score: Any, model: Any = None) -> None:
        """Hand a score over."""
        self.helper.add_validation_score(score, self.model if model is None else model)


@pytest.fixture
def training(helper: ModuleType, perforate: Callable[..., Any]) -> Training:
    """A training."""
    import torch

    def built() -> list[Any]:
        torch.manual_seed(0)
        return [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)]

    model = helper.load_latest_switch(perforate(*built()), None)
    model(torch.ones(1, 2)).sum().backward()
    with pytest.raises(SystemExit, match="0"):
        helper.finish_initialization()
    return Training(helper, helper.load_latest_switch(perforate(*built(), initialize=False), None))


@pytest.fixture
def ends(capsys: pytest.CaptureFixture[str]) -> Callable[..., None]:
    """See a call end the run with one line, which names a place here and has some words."""

    def ends(words: str, call: Callable[..., Any], *arguments: Any) -> None:
        capsys.readouterr()
        with pytest.raises(SystemExit, match="1"):
            call(*arguments)
        (line,) = capsys.readouterr().err.splitlines()
        assert re.match(rf"\[pai_distributed\] \S*{HERE}:\d+: .*{words}", line), line

    return ends


# ---- The model


def test_score_of_another_model(training: Training, ends: Callable[..., None]) -> None:
    ends("another model than load_latest_switch returned", training.hand_over, 0.5, copy.deepcopy(training.model))


@pytest.mark.parametrize("wrapper", ["DataParallel", "compile"])
def test_score_of_a_wrapper(training: Training, wrapper: str) -> None:
    import torch

    training.step()
    wrap: Any = {"DataParallel": torch.nn.DataParallel, "compile": torch.compile}[wrapper]
    training.hand_over(0.5, wrap(training.model))


def test_copy_is_not_the_perforated_model(
    helper: ModuleType, perforate: Callable[..., Any], ends: Callable[..., None]
) -> None:
    import torch

    model = perforate(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    for other in (copy.deepcopy(model), torch.nn.Linear(2, 2)):
        ends("what UPA.perforate_model returned", helper.load_latest_switch, other, None)
    assert helper.load_latest_switch(model, None) is model


def make(model: Any, name: str = "late") -> None:
    import torch

    model.add_module(name, torch.nn.Linear(2, 2))


def resize(model: Any) -> None:
    import torch

    model[0].bias = torch.nn.Parameter(torch.ones(1))


def test_another_model_that_is_built_after_steps_of_the_first(
    training: Training, perforate: Callable[..., Any], ends: Callable[..., None]
) -> None:
    import torch

    def build() -> None:
        built = perforate(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2), initialize=False)
        training.helper.load_latest_switch(built, None)

    build()  # before any training
    training.step()
    training.helper._pai.exit_status = None  # as in another process than the initialisation
    ends("a model is built here, and gets dendrites, after another one has trained", build)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (make, r"late.weight was not there before, and is of shape \(2, 2\) now"),
        (resize, r"0.bias was of shape \(2,\) before, and is of shape \(1,\) now"),
        (lambda model: model.__delitem__(1), r"1.weight was of shape \(2, 2\) before, and is not there now"),
    ],
)
def test_layers_that_the_script_changes_as_it_trains(
    training: Training, ends: Callable[..., None], change: Callable[[Any], None], said: str
) -> None:
    training.step()
    training.hand_over(0.5)
    change(training.model)
    ends(f"the script changes the layers of its model as it trains: {said}", training.hand_over, 0.6)


def test_layers_that_the_script_makes_before_the_first_score_or_ties(
    training: Training, capsys: pytest.CaptureFixture[str]
) -> None:
    make(training.model)
    training.step()
    training.hand_over(0.5)
    assert "No dendrites for late.weight, ...: made after the model was perforated" in capsys.readouterr().out
    assert set(json.loads(Path("PAI/late.json").read_text())) == {"late.weight", "late.bias"}
    training.model.late.weight = training.model[1].main_module.weight  # tied
    training.step()
    training.hand_over(0.6)


def test_layers_of_the_round_before_that_the_script_does_not_make(
    training: Training, ends: Callable[..., None]
) -> None:
    import torch

    training.helper._pai.late = {"late.weight": torch.ones(2, 2), "kept.weight": torch.ones(2, 2)}
    make(training.model, "kept")
    training.step()
    assert training.model.kept.weight.eq(1).all()
    ends(r"late.weight was of shape \(2, 2\) before, and is not there now", training.hand_over, 0.5)


@pytest.mark.parametrize("again", [True, False])
def test_what_the_script_sets_to_zero_again_is_told(
    training: Training, capsys: pytest.CaptureFixture[str], again: bool
) -> None:
    training.helper._pai_let_restored_weights_win(training.model)
    first = training.model[0].weight
    kept = first.data.clone()
    first.data[0] = 0  # by a mask that it keeps
    training.step()
    assert not first.eq(0).any()
    if again:
        first.data[0] = 0
    training.hand_over(0.5)
    first.data[0] = kept[0]
    training.step()
    training.hand_over(0.6)
    assert capsys.readouterr().out.count("sets to zero again what the round before had trained (0.weight") == again


# ---- The optimizer


def test_optimizer_that_the_library_does_not_know(training: Training, ends: Callable[..., None]) -> None:
    import torch

    other = torch.optim.Adam(training.model.parameters())
    training.step(other)
    ends("the Adam that steps here trains the model, but the library knows of another", training.hand_over, 0.5)


def test_optimizer_that_replaces_the_known_one(training: Training, ends: Callable[..., None]) -> None:
    import torch

    training.step()
    training.hand_over(0.5)
    other = torch.optim.Adam(training.model.parameters())
    training.step(other)
    training.hand_over(0.6)
    training.step(other)
    ends("the Adam that steps here", training.hand_over, 0.7)


def test_an_optimizer_that_is_built_before_the_model_is_perforated_is_registered_when_it_trains(
    helper: ModuleType, perforate: Callable[..., Any]
) -> None:
    import torch

    layers = [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)]
    optimizer = torch.optim.SGD([parameter for layer in layers for parameter in layer.parameters()], lr=0.1)
    tracker, helper.GPA.pai_tracker = helper.GPA.pai_tracker, []
    helper.set_optimizer_instance(optimizer)
    helper.GPA.pai_tracker = tracker
    model = helper.load_latest_switch(perforate(*layers), None)
    helper.fill_missing_gradients(model)
    assert helper.GPA.pai_tracker.member_vars["optimizer_instance"] is optimizer
    held = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    assert held == set(model.parameters())


def test_optimizers_in_turn(training: Training) -> None:
    import torch

    optimizers = [training.optimizer, torch.optim.Adam(training.model.parameters())]
    for epoch in range(6):
        training.step(optimizers[epoch % 2])
        training.hand_over(epoch / 10)


def test_optimizer_within_the_known_one(training: Training) -> None:
    """Such as that of SAM or Lookahead, which share its groups."""
    import torch

    class Around(torch.optim.Optimizer):
        def __init__(self, inner: Any) -> None:
            super().__init__(inner.param_groups, {})
            self.param_groups = inner.param_groups

    around = Around(training.optimizer)
    assert training.helper.set_optimizer_instance(around) is around
    for epoch in range(3):
        training.step()
        training.hand_over(epoch / 10)


def test_optimizer_of_another_model(training: Training) -> None:
    """Such as a discriminator's, which may take many steps before the generator's first."""
    import torch

    other = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    for epoch in range(3):
        training.step(optimizer, model=other)
        training.hand_over(epoch / 10)
    training.step()
    training.hand_over(0.5)


def test_parameters_are_not_read_where_there_is_no_score(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    """None may be handed over after each step."""
    read = mock.Mock(wraps=training.helper._pai_weights)
    monkeypatch.setattr(training.helper, "_pai_weights", read)
    training.step()
    training.hand_over(0.5)
    known = read.call_count
    for _ in range(3):
        training.step()
        training.hand_over(None)
    assert read.call_count == known
    training.hand_over(0.6)
    assert read.call_count == known + 1


def test_all_ranks_begin_anew_after_a_score_of_one(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gives dendrites to its optimizers, in which all must have the same, at its first step after a score."""
    import torch

    helper, cpu = training.helper, torch.device("cpu")
    for there in (None, 0.5):
        training.step()
        sums = torch.tensor([there or 0.0, float(there is not None), 0.0, 0.0])
        with monkeypatch.context() as grouped:
            grouped.setattr(helper, "_pai_grouped", lambda: True)
            grouped.setattr(helper, "_pai_rank", lambda: 1)
            grouped.setattr(helper, "_pai_meet", lambda *_: "")
            grouped.setattr(helper, "_pai_group_device", lambda _: cpu)
            grouped.setattr(helper.dist, "all_reduce", lambda mine, sums=sums: mine.add_(sums))
            assert helper._pai_common_score(None, training.model) == there
        assert bool(helper._pai.stepped) is (there is None)


def test_optimizers_that_are_gone_are_not_kept(training: Training) -> None:
    """Such as those of inner loops, each with a copy of the model."""
    import torch

    for _ in range(3):
        inner = copy.deepcopy(training.model)
        training.step(torch.optim.SGD(inner.parameters(), lr=0.1), model=inner)
    gc.collect()
    assert not training.helper._pai.stepped


def test_epochs_without_a_step_are_said_after_a_while(training: Training, capsys: pytest.CaptureFixture[str]) -> None:
    """Gradients are accumulated over more batches than an epoch has, or a loss scaler skips all steps."""
    import torch

    training.step()
    said = []
    for epoch in range(6):
        training.model(torch.ones(1, 2)).sum().backward()
        training.hand_over(epoch / 10)
        said.append("has changed for 3 scores: no optimizer steps" in capsys.readouterr().out)
    assert said == [False] * 3 + [True] + [False] * 2
    training.step()
    training.hand_over(0.6)


def test_optimizer_of_a_copy(training: Training, ends: Callable[..., None]) -> None:
    import torch

    optimizer = torch.optim.SGD(copy.deepcopy(training.model).parameters(), lr=0.1)
    training.helper.set_optimizer_instance(optimizer)
    training.step(optimizer)
    ends("has no parameter of the model, which stays as it was", training.hand_over, 0.5)


def test_optimizer_of_full_precision_copies(training: Training) -> None:
    """The script writes them back into the model."""
    import torch

    copies = [parameter.detach().clone() for parameter in training.model.parameters()]
    optimizer = torch.optim.SGD(copies, lr=0.1)
    training.helper.set_optimizer_instance(optimizer)
    for epoch in range(3):
        for one in copies:
            one.grad = torch.ones_like(one)
        optimizer.step()
        for one, parameter in zip(copies, training.model.parameters(), strict=True):
            parameter.data.copy_(one)
        training.hand_over(epoch / 10)


def test_loss_of_a_copy(training: Training, ends: Callable[..., None]) -> None:
    training.step(model=copy.deepcopy(training.model))
    ends("no gradient has come to any parameter of the model", training.hand_over, 0.5)


@pytest.mark.parametrize("begins", ["moving", "resting"])
def test_rate_of_zero_is_said_after_a_while(
    training: Training, capsys: pytest.CaptureFixture[str], begins: str
) -> None:
    """A warm-up may begin with it, and a cosine ends with it."""
    said = rf"for 3 scores: an optimizer steps at \S*{HERE}:\d+ with rates \[0\.0\]$"
    if begins == "moving":
        training.step()
        training.hand_over(0.1)
    training.optimizer.param_groups[0]["lr"] = 0.0
    for epoch in range(2, 7):
        training.step()
        training.hand_over(epoch / 10)
        assert len(re.findall(said, capsys.readouterr().out, re.MULTILINE)) == (epoch == 4)
    training.optimizer.param_groups[0]["lr"] = 0.1
    training.step()
    training.hand_over(0.8)


def test_nothing_left_to_learn_is_said_after_a_while(training: Training, capsys: pytest.CaptureFixture[str]) -> None:
    """As with a hinge loss of 0."""
    import torch

    training.step()
    training.hand_over(0.1)
    for epoch in range(2, 6):
        training.optimizer.zero_grad()
        (training.model(torch.ones(1, 2)).sum() * 0).backward()
        training.optimizer.step()
        training.hand_over(epoch / 10)
    assert re.search(r"for 3 scores: an optimizer steps at \S+ with rates \[0\.1\]", capsys.readouterr().out)


def with_dendrite(training: Training) -> list[Any]:
    """Give each layer a dendrite; return the parameters from before."""
    import torch

    before = list(training.model.parameters())
    training.model(torch.ones(1, 2)).sum().backward()
    with training.helper._pai_library_at_work(training.model):
        training.helper.GPA.pai_tracker.set_dendrite_training()
        training.helper.GPA.pai_tracker.set_neuron_training()
        training.helper._pai_rest(training.model)
    return before


@pytest.mark.parametrize("which", ["head", "biases"])
def test_what_an_optimizer_leaves_out_is_the_scripts_choice(training: Training, which: str) -> None:
    import torch

    before = with_dendrite(training)
    chosen = [p for p in before if p.dim() == 1] if which == "biases" else list(training.model[1].parameters())
    optimizer = torch.optim.SGD(chosen, lr=0.1)
    training.helper.set_optimizer_instance(optimizer)
    training.step(optimizer)
    training.hand_over(0.5)
    assert [p for group in optimizer.param_groups for p in group["params"]] == chosen


def test_an_optimizer_trains_the_dendrites_of_the_layers_that_it_trains(
    training: Training, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as one whose parameters are those of modules of some classes, or have some names."""
    import torch

    model = training.model
    before = with_dendrite(training)
    weights = [p for p in before if p.dim() == 2]
    biases = [p for p in before if p.dim() == 1]
    optimizer = torch.optim.SGD([{"params": weights, "lr": 0.1}, {"params": biases, "lr": 0.2}])
    training.helper.set_optimizer_instance(optimizer)
    training.step(optimizer)
    rates = {parameter: group["lr"] for group in optimizer.param_groups for parameter in group["params"]}
    named = [(name, p) for name, p in model.named_parameters() if "dendrite" in name and p.requires_grad]
    assert {name.rpartition(".")[2]: rates[p] for name, p in named} == {"weight": 0.1, "bias": 0.2, "0": 0.1}
    capsys.readouterr()
    old = [p.detach().clone() for p in model.parameters()]
    for _ in range(2):  # the first one weighs the dendrites, whose weight is 0 when they are new
        training.step(optimizer)
    assert not any(torch.equal(p, was) for p, was in zip(model.parameters(), old, strict=True) if p.requires_grad)
    training.hand_over(0.5)
    assert not capsys.readouterr().out


def test_dendrites_go_with_their_layer_where_names_are_chosen_as_a_whole(training: Training) -> None:
    """A dendrite's parameters have other names than those that the script knows."""
    import torch

    model = training.model
    with_dendrite(training)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name in ("0.bias", "1.weight", "1.bias")
    training.helper.keep_tracker_state_local(model)
    named = dict(model.named_parameters())
    assert all(p.requires_grad == ("weight" not in name) for name, p in named.items() if name in ("0.weight", "0.bias"))
    head = [p for name, p in named.items() if name in ("1.weight", "1.bias")]
    rest = [p for p in named.values() if not any(p is other for other in head)]
    optimizer = torch.optim.SGD([{"params": head, "lr": 0.1}, {"params": rest, "lr": 0.01}])
    training.helper.set_optimizer_instance(optimizer)
    training.step(optimizer)
    rates = {parameter: group["lr"] for group in optimizer.param_groups for parameter in group["params"]}
    assert {rates[p] for name, p in named.items() if name.startswith("1.") and p.requires_grad} == {0.1}
    learning = [
        name for name, p in named.items() if name.startswith("1.pai_dendrites.dendrite_modules") and p.requires_grad
    ]
    assert len(learning) == 2


# ---- The score


@pytest.mark.parametrize(
    "scores",
    [range(6), range(1, 7), range(8, 56, 8), range(7, 55, 8), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]],
    ids=["epochs", "epochs-from-1", "steps", "last-steps", "of-floats"],
)
def test_counter_is_no_score(training: Training, ends: Callable[..., None], scores: Iterable[float]) -> None:
    *first, last = scores
    for score in first:
        training.step()
        training.hand_over(score)
    training.step()
    ends(f"the score is a counter, of epochs or steps: .*, {last:g}. Hand over what", training.hand_over, last)


@pytest.mark.parametrize(
    "scores",
    [
        [51, 52, 53, 54, 55, 56, 57],
        [100] * 7,
        [1, 2, 3, 5, 6, 7, 8],
        [0.1, 0.2, 0.3, 0.4, 0.5, 0.6],
        [6, 5, 4, 3, 2, 1],
        [3, 0, 1, 2, 3, 4, 5],
    ],
    ids=["hits", "all-hits", "not-all-the-same", "no-integers", "errors", "later"],
)
def test_integers_are_scores(training: Training, scores: list[float]) -> None:
    for score in scores:
        training.step()
        assert training.helper._pai_common_score(score, training.model) == pytest.approx(score)


def test_old_score_is_no_new_one(training: Training, ends: Callable[..., None]) -> None:
    score = 0.5
    training.step()
    training.evaluate()
    training.hand_over(score)
    for _ in range(2):
        training.step()
        training.hand_over(score)
    training.step()
    ends(r"the score 0\.5 was handed over before, and the model was not evaluated since", training.hand_over, score)


def test_score_of_an_epoch_before_may_stand_in_now_and_then(training: Training) -> None:
    for epoch in range(9):
        training.step()
        if epoch % 3 == 0:
            training.evaluate()
            score = epoch / 10
        training.hand_over(score)


@pytest.mark.parametrize(
    "how",
    [
        "each batch",
        "two steps",
        "drawn in turn",
        "accumulated",
        "a step of two batches",
        "in one process",
        "as planned",
        "evaluated",
        "each second",
        "each pass",
        "no data loader",
        "rehearsed",
    ],
)
def test_score_of_a_single_batch_is_none(
    training: Training, ends: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    """But no fault where the user lets what is planned end a structure, which --rounds does only with restarts.

    A rehearsal, which has three scores, finds it too.
    """
    import torch

    if how == "rehearsed":
        monkeypatch.setattr(training.helper, "_pai_rehearsal", str(tmp_path))

    training.helper._pai.rounds = "planned" if how in ("in one process", "as planned") else ""
    training.helper._pai.restarts = how != "in one process"
    batches: Any = torch.utils.data.DataLoader(list(range(12)))  # type: ignore[arg-type]
    sound = how in ("as planned", "evaluated", "each second", "each pass", "no data loader")
    beside = iter(torch.utils.data.DataLoader([1] * 12))  # type: ignore[arg-type]
    scores = 0
    for epoch in range(4 if how == "each pass" else 1):
        for turn, _ in enumerate(range(6) if how == "no data loader" else batches):
            if turn % 2 or how not in ("accumulated", "a step of two batches"):
                training.step()
            if how == "two steps":
                training.step()
            if how == "drawn in turn":
                next(beside)
            if how == "evaluated":
                training.evaluate()
            if how == "each pass" or (how in ("each second", "a step of two batches") and turn % 2 == 0):
                continue
            if not sound and scores == (2 if how == "rehearsed" else 3):
                ends("a score is handed over after each batch or step, in the middle of a pass", training.hand_over, 1)
                return
            training.hand_over(turn / 7)
            scores += 1
        if how == "each pass":
            training.hand_over(epoch / 7)
    assert sound


@pytest.mark.parametrize("how", ["anew", "none between", "never evaluates", "no step", "in place"])
def test_same_score_may_be_right(training: Training, capsys: pytest.CaptureFixture[str], how: str) -> None:
    import torch

    fixed, tensor = 0.5, torch.zeros(1)
    for epoch in range(6):
        if how != "no step" or epoch == 0:
            training.step()
        if how == "in place" or (epoch == 0 and how != "never evaluates"):
            training.evaluate()
        tensor.fill_(0.5)
        new = {"anew": 2.0**epoch / 2 ** (epoch + 1), "in place": tensor, "none between": None}
        training.hand_over(fixed if epoch == 0 else new.get(how, fixed))
    assert "was handed over before" not in capsys.readouterr().out


def test_score_with_a_graph_is_not_kept(training: Training) -> None:
    score = training.model(training.model[0].main_module.weight).sum()
    training.hand_over(score)
    known = weakref.ref(score)
    del score
    gc.collect()
    assert known() is None


@pytest.mark.parametrize("evaluates", ["model", "copy", "wrapper"])
def test_best_so_far_is_said(training: Training, capsys: pytest.CaptureFixture[str], evaluates: str) -> None:
    import torch

    others = {"copy": copy.deepcopy(training.model), "wrapper": torch.nn.DataParallel(training.model)}
    best, said = 0.0, []
    for score in (0.1, 0.3, 0.2, 0.2, 0.5, 0.4, 0.4, 0.4):
        training.step()
        training.evaluate(others.get(evaluates))
        best = max(best, score)
        training.hand_over(best)
        said.append("is it the best so far?" in capsys.readouterr().out)
    assert said == [False] * 5 + [True] + [False] * 2


@pytest.mark.parametrize("score", ["saturated", "no hits yet"])
def test_same_score_of_an_evaluation(training: Training, capsys: pytest.CaptureFixture[str], score: str) -> None:
    hits = [1, 2, 2, 2, 2, 2, 2] if score == "saturated" else [0] * 7
    for number in hits:
        training.step()
        training.evaluate()
        training.hand_over(number / 2 if number else 0.0)
    assert "was handed over before" not in capsys.readouterr().out


@pytest.mark.parametrize("score", [0, 0.25, 1])
def test_a_score_that_never_changes_is_said_once(
    training: Training, capsys: pytest.CaptureFixture[str], score: float
) -> None:
    said = []
    for epoch in range(11):
        training.step()
        training.evaluate()
        training.hand_over(0.5 if epoch == 0 else score)
        said += re.findall(rf"{HERE}:\d+: the score was ([\d.]+) at 5 hand-overs in a row", capsys.readouterr().out)
        assert len(said) == (epoch >= 5)
    assert said == [f"{score:g}"]


@pytest.mark.parametrize("how", ["four", "resting"])
def test_a_score_may_stay_for_a_while(training: Training, capsys: pytest.CaptureFixture[str], how: str) -> None:
    for epoch in range(12):
        if how == "four" or epoch == 0:
            training.step()
        training.evaluate()
        training.hand_over(epoch // 4 if how == "four" else 0.5)
    assert "hand-overs in a row" not in capsys.readouterr().out


class Averages:
    """Averages of a model's weights, which can take their place."""

    def __init__(self, model: Any, swaps: str) -> None:
        self.model, self.swaps = model, swaps
        self.shadow = {name: weight.detach() + 1 for name, weight in model.named_parameters()}

    def put(self, weights: dict[str, Any]) -> dict[str, Any]:
        """Put weights in the place of the model's, which are returned."""
        own = {name: weight.detach() for name, weight in self.model.named_parameters()}
        if self.swaps != "data":
            own = {name: weight.clone() for name, weight in own.items()}
        if self.swaps == "load":
            self.model.load_state_dict(weights, strict=False)
        for name, weight in self.model.named_parameters():
            if self.swaps == "data":
                weight.data = weights[name]
            elif self.swaps == "copy":
                weight.data.copy_(weights[name])
        return own


@pytest.mark.parametrize("order", ["averages", "own first", "own last"])
@pytest.mark.parametrize("swaps", ["data", "copy", "load"])
def test_weights_that_were_put_back_before_their_score_is_handed_over_are_told(
    training: Training, capsys: pytest.CaptureFixture[str], swaps: str, order: str
) -> None:
    from torch.utils.data import DataLoader

    def evaluate() -> None:
        for _ in DataLoader([0]):  # type: ignore[arg-type]
            training.evaluate()

    said = []
    for epoch in range(3):
        training.step()
        if order == "own first":
            evaluate()
        averages = Averages(training.model, swaps)
        own = averages.put(averages.shadow)
        evaluate()
        averages.put(own)
        if order == "own last":
            evaluate()
        training.hand_over(0.5 + epoch)
        said += re.findall(rf"{HERE}:\d+: .* was evaluated with other weights than it has.*", capsys.readouterr().out)
    (line,) = said
    assert "If the score 0.5 is that of the others, hand it over before they are put back" in line


def test_compiled_code_need_not_stop_for_weights_that_are_evaluated(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setitem(sys.modules, training.helper.__name__, training.helper)  # where the compiler looks for it
    training.step()
    compiled = torch.compile(training.model, backend="eager", fullgraph=True)
    training.evaluate(compiled)
    training.step(model=compiled)
    training.hand_over(0.5)


@pytest.mark.parametrize("half", [False, True])
def test_a_copy_with_averaged_weights_that_is_evaluated_alone_is_told(
    training: Training, capsys: pytest.CaptureFixture[str], half: bool
) -> None:
    import torch

    training.step()
    average = torch.optim.swa_utils.AveragedModel(training.model)
    average.update_parameters(training.model)
    training.step()
    average.update_parameters(training.model)
    if half:
        average.to(torch.bfloat16)
    with torch.no_grad():
        average(torch.ones(1, 2, dtype=torch.bfloat16 if half else torch.float32))
    training.hand_over(0.5)
    assert "was evaluated with other weights" in capsys.readouterr().out


@pytest.mark.parametrize(
    "how",
    ["handed over first", "half", "half copy", "to", "rollback", "worse", "teacher", "step", "buffers", "wrapped"],
)
def test_the_weights_that_were_evaluated_are_those_of_the_score(
    training: Training, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    import torch

    model = training.model
    training.step()
    training.evaluate()
    training.hand_over(0.5)
    best = copy.deepcopy(model.state_dict())
    if how == "teacher":
        training.evaluate(copy.deepcopy(model))
    training.step()
    if how == "handed over first":
        averages = Averages(model, "data")
        own = averages.put(averages.shadow)
        training.evaluate()
        training.hand_over(0.75)
        averages.put(own)
    elif how in ("half", "half copy"):
        other = model.bfloat16() if how == "half" else copy.deepcopy(model).bfloat16()
        with torch.no_grad():
            other(torch.ones(1, 2, dtype=torch.bfloat16))
        model.float()
    elif how == "wrapped":
        training.evaluate(torch.nn.DataParallel(model))
    else:
        training.evaluate()
    if how == "to":
        model.to("cpu", torch.float64)
        model.float()
    elif how == "rollback":
        model.load_state_dict(best)
    elif how == "worse":
        Averages(model, "copy").put(Averages(model, "copy").shadow)
    elif how == "step":
        training.step()
    elif how == "buffers":
        for buffer in model.buffers():
            buffer.data = buffer.data.clone()
    training.hand_over(0.25 if how == "worse" else 0.75)
    assert "was evaluated with other weights" not in capsys.readouterr().out


def test_scores_of_one_rank_alone(helper: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    for ranks, unlike_zero in [(2, 1), (2, 1), (2, 2), (2, 1), (2, 1), (2, 0), (1, 1), (1, 1), (1, 1)]:
        helper._pai_note_zeros(ranks, unlike_zero)
    assert not capsys.readouterr().out
    for _ in range(4):
        helper._pai_note_zeros(4, 1)
    (said,) = capsys.readouterr().out.splitlines()
    assert f"{HERE}:" in said
    assert "the score is 0 on all ranks but one, now 3 times in a row, and the mean of the 4 ranks counts" in said


# ---- Ranks and processes


def test_ranks_that_hand_over_different_scores(tmp_path: Path) -> None:
    run = launch(tmp_path, "places", script="hand_over.py", ranks=2)
    assert run.status == 1
    here, there, *_ = called("report_validation_score")
    places = f"rank 0 at hand_over.py:{here}, rank 1 at hand_over.py:{there}"
    assert said(run) == [
        f"The ranks hand over scores of different places, {places}: all must hand over the same one, or None"
    ]


def test_a_rank_that_ends_its_training_alone(tmp_path: Path) -> None:
    """As by an early stopping that goes by what this rank alone has measured."""
    run = launch(tmp_path, "ends", script="hand_over.py", ranks=2)
    assert run.status == 1
    (line,) = said(run)
    assert line.startswith("Rank 1 ends its training where the others go on, to wait for it: let all ranks decide")


def test_fault_of_a_rank_ends_all(tmp_path: Path) -> None:
    run = launch(tmp_path, "rank 1", script="hand_over.py", ranks=2)
    assert run.status == 1
    place = f"hand_over.py:{called('report_validation_score')[2]}"
    assert [line.partition(": the score")[0] for line in said(run)] == [f"Rank 1: {place}"]


def test_a_rank_that_hands_its_score_over_early(tmp_path: Path) -> None:
    run = launch(tmp_path, "early", script="hand_over.py", ranks=2)
    assert (said(run), re.findall(r"score (.*)", run.output)) == ([], ["0.5", "0.5"])


def test_the_score_of_rank_0_alone(tmp_path: Path) -> None:
    run = launch(tmp_path, "of rank 0", script="hand_over.py", ranks=2)
    assert re.findall(r"score (.*)", run.output) == ["0.25", "0.25"]


@pytest.mark.parametrize(
    ("how", "cure"),
    [
        ("past the wrapper", "Call the wrapper there"),
        ("loaded", "load weights on all ranks"),
        ("own rate", "rank 0 has the learning rates [0.1], and rank 1 [0.05]. Let all ranks set the same"),
    ],
)
def test_ranks_that_train_different_models(tmp_path: Path, how: str, cure: str) -> None:
    run = launch(tmp_path, "trained", how, script="hand_over.py", ranks=2)
    assert run.status == 1
    (line,) = said(run)
    assert line.startswith(f"hand_over.py:{called('optimizer.step')[0]}: each rank trains a model of its own")
    assert cure in line


@pytest.mark.parametrize("how", ["by the wrapper", "by hand", "ignored", "rounding"])
def test_ranks_that_train_one_model(tmp_path: Path, how: str) -> None:
    run = launch(tmp_path, "trained", how, script="hand_over.py", ranks=2)
    assert (run.status, said(run)) == (0, [])
    assert sorted(re.findall(r"score (.*)", run.output)) == ["0.5", "0.5", "1.5", "1.5"]


def said(run: Run) -> list[str]:
    """What the helper says."""
    return re.findall(r"^\[pai_distributed\] (.*)", run.output, re.MULTILINE)


def called(name: str) -> list[int]:
    """The lines of hand_over.py that call a function."""
    lines = (SCRIPTS / "hand_over.py").read_text().splitlines()
    return [number for number, line in enumerate(lines, start=1) if f"{name}(" in line]


@pytest.mark.parametrize("places", [("a:1", "a:1"), ("", "a:1"), ("", "")])
def test_ranks_without_a_score_agree(helper: ModuleType, places: tuple[str, str]) -> None:
    assert helper._pai_first_fault([(place, "", 0.5 if place else None) for place in places]) == ""


@pytest.mark.parametrize(
    ("there", "apart"),
    [
        *((4.6e18, True), (-4.6e18, True), (1e-12, True), (0.0, False), (3.0, False), (3e4, False), (None, False)),
        *((float("nan"), False), (float("inf"), False)),
    ],
)
def test_scores_of_which_only_one_ranks_can_be_right(helper: ModuleType, there: float | None, apart: bool) -> None:
    """Such as one that another rank has not measured, but has in memory that nobody has written."""
    told = [("a:1", "", 0.3), ("a:1", "", there)]
    found = [helper._pai_first_fault(told) for _ in range(3)]
    assert found[:2] == ["", ""]
    assert ("a:1: the ranks' scores are" in found[2]) is apart
    assert not apart or {"0.3", f"{there:g}"} <= set(re.findall(r"-?[\d.]+(?:e[+-]\d+)?", found[2]))


def test_number_of_processes_has_changed(
    training: Training, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = Path("PAI/processes.json")
    record.write_text(json.dumps({"count": 4}))
    training.helper.keep_tracker_state_local(training.model)  # a training that begins
    assert json.loads(record.read_text()) == {"count": 1}
    monkeypatch.setattr(training.helper._pai, "switch_time", 1.0)
    training.helper.keep_tracker_state_local(training.model)
    record.write_text(json.dumps({"count": 4}))
    for accepted in ("", "2", "4"):
        monkeypatch.setenv("PAI_ACCEPT_WORLD_SIZE", accepted)
        with pytest.raises(SystemExit, match="1"):
            training.helper.keep_tracker_state_local(training.model)
        assert "Training began with 4 processes and would go on with 1" in capsys.readouterr().err
    for accepted, said in (("1", False), ("any", True)):
        record.write_text(json.dumps({"count": 4}))
        monkeypatch.setenv("PAI_ACCEPT_WORLD_SIZE", accepted)
        training.helper.keep_tracker_state_local(training.model)
        assert json.loads(record.read_text()) == {"count": 1}
        assert ("This round has 1 processes, and the one before had 4" in capsys.readouterr().out) is said


@pytest.mark.parametrize("another", [True, False])
def test_initialisations_at_the_same_time(
    helper: ModuleType, perforate: Callable[..., Any], capsys: pytest.CaptureFixture[str], another: bool
) -> None:
    import torch

    os.makedirs("PAI", exist_ok=True)
    record = Path("PAI/array_dims.csv")
    record.write_text("of a run before\n")
    model = helper.load_latest_switch(perforate(torch.nn.Linear(2, 2)), None)
    model(torch.ones(1, 2)).sum().backward()
    if another:
        record.unlink()
        record.write_text(".0,1,2\n")
        os.utime(record, ns=(1, 1))
    with pytest.raises(SystemExit, match="1" if another else "0"):
        helper.finish_initialization()
    assert ("Another process has initialised in PAI" in capsys.readouterr().err) is another


def test_an_optimizer_from_before_the_perforation_is_known_where_no_gradient_is_filled(
    helper: ModuleType, perforate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    layer = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    monkeypatch.setattr(helper.GPA, "pai_tracker", [])  # as it is before a model is perforated
    helper.set_optimizer_instance(optimizer)
    model = perforate(layer, initialize=False)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    helper.add_validation_score(0.5, model)
    assert helper.GPA.pai_tracker.member_vars["optimizer_instance"] is optimizer
