"""Batches that are packed up to a size that data decide, so that ranks take unlike numbers of steps in an epoch."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from tests.helpers import code, plan_of, rewritten, survey_of

#: A script that packs; tests replace the words in capitals.
PACKS = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rank, step, best, tokens, packed = dist.get_rank(), 1, 0, 0, []
for epoch in range(9):
    for i, x in enumerate(loader):
        TURN
        loss = criterion(model(packed))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        SCORED
        packed, tokens = [], 0
    ENDS
"""
WAITS = "packed.append(x)\ntokens += len(x)\nif tokens < args.budget:\n    continue"
VALIDATES = "if rank == 0 and step % 5 == 0:\n    acc = validate(model)\n    best = max(best, acc)\nstep += 1"


def packing(turn: str = WAITS, scored: str = VALIDATES, ends: str = "pass") -> str:
    """Return the script with what a turn does before its step, and after it, and an epoch after its batches."""
    text = PACKS.replace("        TURN", indent(turn, " " * 8)).replace("        SCORED", indent(scored, " " * 8))
    return code(text.replace("    ENDS", indent(ends, "    ")))


def question(folder: Path, text: str) -> str:
    """Return the only question about a script."""
    (asked,) = plan_of(folder, text).questions
    return asked.message


@pytest.mark.parametrize(
    "turn",
    [
        pytest.param(WAITS, id="a sum"),
        pytest.param(WAITS.replace("tokens += len(x)", "tokens = max(tokens, x.shape[1])"), id="a maximum"),
        pytest.param(WAITS.replace("if tokens <", "size = 2 * tokens\nif size <"), id="made of it"),
        pytest.param(f"{WAITS}\nif not packed:\n    continue", id="and where there is none"),
    ],
)
def test_a_score_of_a_number_of_steps_is_handed_over_at_the_step(tmp_path: Path, turn: str) -> None:
    plan = plan_of(tmp_path, packing(turn))
    assert [note.message for note in plan.notes if "only if step % 5 == 0;" in note.message]
    assert """
        pai_score = None
        if rank == 0 and step % 5 == 0:
            acc = validate(model)
            best = max(best, acc)
            pai_score = acc
        if step % 5 == 0:
            pai_distributed.report_validation_score(pai_score, model)
        step += 1
""" in rewritten(plan)


def test_what_each_turn_adds_up_anew_packs_nothing(tmp_path: Path) -> None:
    turn = (
        "loss = criterion(model(x))\npart = penalty(x)\nloss = loss + 0.1 * part\nif not isfinite(loss):\n    continue"
    )
    text = packing(turn, VALIDATES.replace("step % 5", "i % 5")).replace(
        "        loss = criterion(model(packed))\n", ""
    )
    plan = plan_of(tmp_path, text)
    assert not plan.questions
    assert "pai_distributed.report_validation_score(pai_score, model)" in rewritten(plan)


def test_it_is_so_in_the_block_that_takes_the_step(tmp_path: Path) -> None:
    """Also where nothing but steps ends the training: in its other turns no rank waits."""
    text = packing("packed.append(x)\ntokens += len(x)\nif tokens < args.budget:\n    print(i)\nelse:")
    head, _, rest = text.partition("        loss =")
    step, _, end = f"        loss ={rest}".partition("    pass\n")
    text = head + indent(step, "    ") + end
    for changed in (text, text.replace("for epoch in range(9):", "while True:")):
        (score,) = survey_of(changed).scores
        assert (score.when, score.condition, score.in_turn) == ("step % 5 == 0", "step % 5 == 0", True)
        report = score.index.statement(score.anchors["report"])
        assert [score.index.source.code(one.node) for one in report.following[:1]] == ["step += 1"]


@pytest.mark.parametrize(
    "scored",
    [
        pytest.param(VALIDATES.replace("rank == 0 and ", ""), id="all ranks"),
        pytest.param(
            VALIDATES.replace("step % 5 == 0", "due").replace("if", "due = step % 5 == 0\nif"), id="by a flag"
        ),
        pytest.param("step += 1\n" + VALIDATES.removesuffix("\nstep += 1"), id="counted before"),
    ],
)
def test_what_says_the_number_of_steps_is_alike_on_all_ranks(scored: str) -> None:
    (score,) = survey_of(packing(scored=scored)).scores
    assert (score.in_turn, score.unlike[0]) == (True, "")


@pytest.mark.parametrize(
    ("turn", "scored"),
    [
        pytest.param(WAITS, VALIDATES.replace("step %", "i %"), id="of turns"),
        pytest.param(f"step += 1\n{WAITS}", VALIDATES.removesuffix("\nstep += 1"), id="counted in each turn"),
        pytest.param(WAITS, VALIDATES.replace("step % 5 == 0", "epoch > 1 and step % 5 == 0"), id="of epochs too"),
        pytest.param(WAITS, VALIDATES.replace("step += 1", "if rank == 0:\n    step += 1"), id="counted on some"),
        pytest.param(WAITS, VALIDATES.replace("step % 5 == 0", "loss < 2"), id="of the data"),
    ],
)
def test_one_that_ranks_do_not_make_at_the_same_step_is_asked_about(tmp_path: Path, turn: str, scored: str) -> None:
    asked = question(tmp_path, packing(turn, scored))
    assert "takes a step only as data decide (`tokens < args.budget`, line " in asked
    assert "hand `acc` over at its end" in asked


def test_so_is_one_behind_the_block_that_takes_the_step(tmp_path: Path) -> None:
    """It comes in turns without a step as well, of which ranks have more or fewer."""
    head, _, rest = packing("packed.append(x)\ntokens += len(x)\nif tokens >= args.budget:").partition("        loss =")
    step, _, end = f"        loss ={rest}".partition("        if rank")
    counted = indent(step, "    ") + "            packed, tokens = [], 0\n            step += 1\n"
    end = end.replace("        step += 1\n        packed, tokens = [], 0\n", "")
    asked = question(tmp_path, f"{head}{counted}        if rank{end}")
    assert "takes a step only as data decide" in asked


def test_an_epoch_s_validation_is_handed_over_at_its_end_with_a_note(tmp_path: Path) -> None:
    ends = "acc = validate(model)\nbest = max(best, acc)"
    plan = plan_of(tmp_path, packing(scored="step += 1", ends=ends))
    (note,) = [note for note in plan.notes if "wait for each other" in note.message]
    assert "(`tokens < args.budget`, line 12)" in note.message
    assert "    report_validation_score(acc, model)" in rewritten(plan).replace("pai_distributed.", "")


@pytest.mark.parametrize(
    "turn",
    [
        pytest.param("packed.append(x)\nif (i + 1) % 4:\n    continue", id="so many turns"),
        pytest.param("packed.append(x)\nif len(packed) < 4:\n    continue", id="so many batches"),
        pytest.param("tokens += 1\npacked.append(x)\nif tokens < 4:\n    continue", id="so many, counted"),
        pytest.param("tokens += args.size\npacked.append(x)\nif tokens < 4:\n    continue", id="by a setting"),
        pytest.param("packed = x\nif not len(x):\n    continue", id="an empty batch"),
        pytest.param(
            "size = torch.tensor(len(x))\ndist.all_reduce(size)\ntokens += size.item()\nif tokens < 99:\n    continue",
            id="by what all ranks have",
        ),
        pytest.param("packed = x\ntokens += len(x)\nif tokens > 900:\n    print(tokens)", id="only shown"),
    ],
)
@pytest.mark.parametrize("epochs", ["", "validate"])
def test_turns_that_all_ranks_take_alike_stay_handed_over_by_epoch(turn: str, epochs: str) -> None:
    ends = "acc = validate(model)\nbest = max(best, acc)" if epochs else "pass"
    (score,) = survey_of(packing(turn, "step += 1" if epochs else VALIDATES, ends)).scores
    assert (score.in_turn, score.unlike) == (False, ("", "", False))


def test_data_that_were_seen_before_are_skipped_alike() -> None:
    """What is added up and never begins anew is no size of a step."""
    (score,) = survey_of(packing().replace("packed, tokens = [], 0", "packed = []")).scores
    assert (score.in_turn, score.unlike) == (False, ("", "", False))


def test_a_step_that_a_scaler_skips_is_a_step(tmp_path: Path) -> None:
    """All ranks skip it, and their pass over the loss has met: the gradients that are not finite are alike."""
    turn = "packed = x\ntokens += len(x)\nscale = scaler.get_scale()"
    scored = f"scaler.step(optimizer)\nscaler.update()\nif scaler.get_scale() < scale:\n    continue\n{VALIDATES}"
    (score,) = survey_of(packing(turn, scored).replace("optimizer.step()", "tokens = 0")).scores
    assert (score.in_turn, score.unlike[0]) == (False, "")
