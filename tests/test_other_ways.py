"""A script that trains one of two models, of which the user names one."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrofit.options import Options
from tests.helpers import code, plan_of, rewritten, survey_of

TEXT = code("""
    import argparse
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP

    def main(args):
        body, head = Body(), Head()
        if args.train_all:
            net = Both(body, head)
            net = DDP(net)
            params = net.parameters()
        else:
            head = DDP(head)
            net = None
            params = head.parameters()
        optimizer = torch.optim.AdamW(params, lr=1e-3)
        best = 0
        for epoch in range(args.epochs):
            for x, y in loader:
                optimizer.zero_grad()
                out = net(x) if args.train_all else head(body(x))
                loss = criterion(out, y)
                loss.backward()
                optimizer.step()
            acc = validate(net, head)
            best = max(best, acc)

    parser = argparse.ArgumentParser()
    parser.add_argument("--train_all", action="store_true")
    main(parser.parse_args())
    """)


def test_where_another_model_may_be_trained_instead_nothing_is_demanded_of_it(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, TEXT, Options(model="net"))
    text = rewritten(plan)
    assert "GPA.pai_tracker.set_optimizer" not in text
    assert "    pai_distributed.set_optimizer_instance(optimizer)\n" in text
    assert "report_validation_score(acc, net)" in text
    told = "may train `head` instead (line 12), which goes on as before"
    assert any(told in note.message for note in plan.notes)


def test_a_whole_that_may_be_trained_instead_of_its_part_does_not_go_on_as_before(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, TEXT, Options(model="head"))
    told = "may train `net` instead (line 9), which has `head` with its dendrites in it"
    assert any(told in note.message for note in plan.notes)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("        head = DDP(head)\n", "", id="that is wrapped nowhere"),
        pytest.param("        head = DDP(head)\n", "        net = DDP(head)\n", id="by the same name"),
    ],
)
def test_where_one_model_is_wrapped_all_runs_train_it(tmp_path: Path, old: str, new: str) -> None:
    text = TEXT.replace(old, new).replace("        net = None\n", "")
    plan = plan_of(tmp_path, text, Options(model="net"))
    assert plan.questions or "GPA.pai_tracker.set_optimizer(" in rewritten(plan)


def test_both_models_in_one_run_are_no_choice() -> None:
    text = TEXT.replace("    else:\n", "    if args.train_head:\n").replace("        net = None\n", "")
    survey = survey_of(text, model="net")
    assert [wrapper.target for wrapper in survey.wrappers] == ["net"]
    assert survey.other_ways == []


def test_of_models_that_are_wrapped_apart_from_the_only_epoch_loop_one_is_to_be_named(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        code("""
            import argparse
            import torch
            from torch.nn.parallel import DistributedDataParallel as DDP

            def fit_alone(data):
                net = Net()
                optimizer = torch.optim.Adam(net.parameters())
                for i in range(100):
                    loss = criterion(net(data))
                    loss.backward()
                    optimizer.step()
                return float(loss)

            def fit_on_all(data):
                first, second = First(), Second()
                first = DDP(first)
                second = DDP(second)
                optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()])
                for epoch in range(100):
                    loss = criterion(second(first(data)))
                    loss.backward()
                    optimizer.step()

            def main(args):
                if args.alone:
                    for trial in range(args.trials):
                        score = fit_alone(load())
                else:
                    fit_on_all(load())

            parser = argparse.ArgumentParser()
            parser.add_argument("--alone", action="store_true")
            parser.add_argument("--trials", type=int, default=3)
            main(parser.parse_args())
            """),
    )
    assert [(one.line, one.code) for one in plan.questions if one.code == "PAI102"] == [(17, "PAI102")]
    assert any("Say which with --model NAME: first or second." in one.message for one in plan.questions)


TURNS = code("""
    import argparse
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP

    class Trainer:
        def __init__(self, model, optimizer, teacher=None):
            self.model, self.optimizer, self.teacher = model, optimizer, teacher

        def train(self):
            best = 0
            for epoch in range(9):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    self.model(x).sub(y).mean().backward()
                    self.optimizer.step()
                acc = validate(self.model)
                if acc > best:
                    best = acc

    def main(args):
        if args.first:
            small = Small()
            small = DDP(small)
            optimizer = torch.optim.SGD(small.parameters(), lr=0.1)
            Trainer(small, optimizer).train()
        if args.second:
            large = Large()
            large = DDP(large)
            adam = torch.optim.Adam(large.parameters())
            Trainer(large, adam).train()

    parser = argparse.ArgumentParser()
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--second", action="store_true")
    main(parser.parse_args())
    """)


@pytest.mark.parametrize("model", ["small", "large"])
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("", "", True),
        ("    if args.second", "    elif args.second", False),  # one of them a run
        ("Trainer(small, optimizer).train()", "warm_up(small, optimizer)", False),
        ("Trainer(large, adam)", "Trainer(large, adam, small)", True),  # with the one that is trained before
    ],
)
def test_another_model_that_the_same_run_trains_by_the_same_loop_is_told(
    tmp_path: Path, model: str, old: str, new: str, told: bool
) -> None:
    notes = [note.message for note in plan_of(tmp_path, TURNS.replace(old, new), Options(model=model)).notes]
    other = {"small": "large", "large": "small"}[model]
    assert any(f"may train `{other}` in the same run (line" in note for note in notes) is told
