"""Scripts that somebody has integrated by hand, by the published recipes or after them: in any order and style."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrofit.options import Options
from tests.conftest import SCRIPT, swapped
from tests.helpers import code, plan_of, rewritten

LOAD = """\
    if args.pai_load_folder is not None:
        import glob
        files = glob.glob(f'{args.pai_load_folder}/switch_*.pt')
        if files:
            # the newest one
            newest = max(int(name.split('switch_')[1].split('.pt')[0]) for name in files)
            model = UPA.load_system(model, args.pai_load_folder, f'switch_{newest}', True)
            print(f'switch {newest}')
        else:
            print('from the start')
"""
GUARD = """\
    if not args.perforate_model_parallel:
        GPA.pai_tracker.initialize_tracker_settings()
        model = DistributedDataParallel(model, find_unused_parameters=True)
"""
PREFILL = """\
            if args.distributed:
                for param in model.parameters():
                    if param.requires_grad and param.grad is None:
                        param.grad = torch.zeros_like(param)
"""
LEAVE = """\
            if args.perforate_model_parallel:
                GPA.pai_tracker.save_tracker_settings()
                print('saved')
                dist.barrier()
                exit(0)
"""
HAND_OVER = """\
        if args.distributed:
            bare = model.module
            bare, restructured, complete = GPA.pai_tracker.add_validation_score(acc, bare)
        else:
            model, restructured, complete = GPA.pai_tracker.add_validation_score(acc, model)
            model = model.to(device)
        if complete:
            print('complete')
            if args.distributed:
                if dist.get_rank() == 0:
                    os.makedirs('mine', exist_ok=True)
                    with open('mine/.training_complete', 'w') as file:
                        file.write('complete')
                dist.barrier()
                dist.destroy_process_group()
            sys.exit(0)
        elif restructured:
            print('restructured')
            if args.distributed:
                dist.barrier()
                dist.destroy_process_group()
            exit(0)
"""
HANDED = "        GPA.pai_tracker.add_validation_score(acc, model)\n"
PERFORATED = "    model = UPA.perforate_model(model, save_name='mine', maximizing_score=True)\n"
OPTIONS = """\
    parser.add_argument('--perforate_model_parallel', action='store_true')
    parser.add_argument('--pai_load_folder', default=None)
"""


def integrated(
    load: str = LOAD,
    guard: str = GUARD,
    prefill: str = PREFILL,
    leave: str = LEAVE,
    hand_over: str = HAND_OVER,
    perforated: str = PERFORATED,
    options: str = OPTIONS,
    before: str = "",
    after: str = "",
) -> str:
    """Return a script with the published recipe in it, some of its blocks in other forms."""
    return f"""\
import argparse
import os
import sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from perforatedai import globals_perforatedai as GPA
from perforatedai import utils_perforatedai as UPA

{before}
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--epochs', type=int, default=3)
{options}    args = parser.parse_args()
    args.distributed = True
    device = torch.device('cpu')
    dist.init_process_group('gloo')
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
{perforated}    model = model.to(device)
{load}    GPA.pai_tracker.set_optimizer(torch.optim.SGD)
    optimArgs = {{'params': model.parameters(), 'lr': 0.1}}
    optimizer, _ = GPA.pai_tracker.setup_optimizer(model, optimArgs)
{guard}    loader = [(torch.randn(8, 4), torch.randint(0, 2, (8,)))]
    for epoch in range(args.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
{prefill}            loss.backward()
{leave}            optimizer.step()
        acc = float(model(x).argmax(1).eq(y).float().mean())
{hand_over}{after}

if __name__ == '__main__':
    main()
"""


ADOPTED = """\
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    pai_distributed.configure_library()
    with pai_distributed.one_rank_at_a_time():
        model = UPA.perforate_model(model, save_name=pai_distributed.save_name('mine'), maximizing_score=True)
    model = pai_distributed.load_latest_switch(model, args.pai_load_folder)
    model = model.to(device)
    GPA.pai_tracker.set_optimizer(torch.optim.SGD)
    optimArgs = {'params': model.parameters(), 'lr': 0.1}
    optimizer, _ = GPA.pai_tracker.setup_optimizer(model, optimArgs)
    if not args.perforate_model_parallel:
        GPA.pai_tracker.initialize_tracker_settings()
        pai_distributed.keep_tracker_state_local(model)
        model = DistributedDataParallel(model, find_unused_parameters=True)
    loader = [(torch.randn(8, 4), torch.randint(0, 2, (8,)))]
    for epoch in pai_distributed.planned_epochs(range(args.epochs)):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            pai_distributed.fill_missing_gradients(model)
            loss.backward()
            if args.perforate_model_parallel:
                pai_distributed.finish_initialization()
            optimizer.step()
        acc = float(model(x).argmax(1).eq(y).float().mean())
        pai_distributed.report_validation_score(acc, model)
"""


def body(text: str) -> str:
    """Return what a script does from where it builds its model on."""
    start = text.index("    model = nn.Sequential")
    return text[start : text.index("\n\nif __name__")].rstrip("\n") + "\n"


def adopted(folder: Path, text: str) -> str:
    """Return what becomes of a script, in which a second apply must find nothing to do."""
    folder.mkdir(exist_ok=True)
    plan = plan_of(folder, text)
    assert plan.questions == []
    done = rewritten(plan)
    again = plan_of(folder, done)
    assert (again.questions, [file for file in again.files if file.path.name == "train.py"]) == ([], [])
    return done


def test_the_published_recipe_is_replaced_block_by_block(tmp_path: Path) -> None:
    text = integrated()
    done = adopted(tmp_path, text)
    assert body(done) == ADOPTED
    assert done.count("\n") < text.count("\n")


SAME: dict[str, dict[str, str]] = {
    "no load": {"load": ""},
    "no zeros": {"prefill": ""},
    "no exit": {"leave": ""},
    "the wrapper alone": {"guard": "    model = DistributedDataParallel(model, find_unused_parameters=True)\n"},
    "the call alone": {"hand_over": HANDED},
    "load by a listing": {
        "load": """\
    folder = args.pai_load_folder
    if folder and os.path.isdir(folder):
        numbers = []
        for name in sorted(os.listdir(folder)):
            if name.startswith('switch_') and name.endswith('.pt'):
                try:
                    numbers.append(int(name[7:-3]))
                except ValueError:
                    continue
        if len(numbers) > 0:
            model = UPA.load_system(model, folder, 'switch_%d' % max(numbers), True)
"""
    },
    "load with a lambda": {
        "load": """\
    found = sorted(Path('mine').glob('switch_*.pt'), key=lambda path: int(path.stem.split('_')[1]))
    if found:
        model = UPA.load_system(model, 'mine', found[-1].stem, True)
""",
        "before": "from pathlib import Path\n",
    },
    "zeros without a condition": {
        "prefill": """\
            for _, p in model.named_parameters():
                if p.grad is None:
                    p.grad = torch.zeros(p.shape)
"""
    },
    "exit at once": {
        "leave": """\
            if args.perforate_model_parallel is True:
                GPA.pai_tracker.save_tracker_settings(); sys.exit()
"""
    },
    "the answer in another order": {
        "hand_over": """\
        model, grown, done = GPA.pai_tracker.add_validation_score(acc, model)
        model.to(device)
        if grown and not done:
            optimArgs = {'params': model.parameters(), 'lr': 0.1}
            optimizer, _ = GPA.pai_tracker.setup_optimizer(model, optimArgs)
            model = DistributedDataParallel(model)
        if done:
            os._exit(0)
"""
    },
    "one rank alone": {"hand_over": f"        if dist.get_rank() == 0:\n    {HANDED}"},
    "one rank alone, in a line": {
        "hand_over": "        if not dist.get_rank(): GPA.pai_tracker.add_validation_score(acc, model)\n"
    },
    "as the recipe was before: one rank, which tells the others by tensors": {
        "hand_over": """\
        if args.distributed:
            if dist.get_rank() == 0:
                bare = model.module
                bare, restructured, complete = GPA.pai_tracker.add_validation_score(acc, bare)
                model.module = bare
                model.module = model.module.to(device)
            else:
                restructured = False
                complete = False
            one = torch.tensor([1 if restructured else 0], dtype=torch.int, device=device)
            other = torch.tensor([1 if complete else 0], dtype=torch.int, device=device)
            dist.broadcast(one, src=0)
            dist.broadcast(other, src=0)
            restructured = bool(one.item())
            complete = bool(other.item())
        else:
            model, restructured, complete = GPA.pai_tracker.add_validation_score(acc, model)
            model = model.to(device)
        if complete:
            dist.destroy_process_group()
            sys.exit(0)
        elif restructured:
            exit(0)
"""
    },
    "unwrapped in place": {
        "hand_over": """\
        _, _, finished = GPA.pai_tracker.add_validation_score(acc, model)
        if finished: break
"""
    },
}


@pytest.mark.parametrize("blocks", SAME.values(), ids=SAME)
def test_other_forms_of_a_block_give_the_same(tmp_path: Path, blocks: dict[str, str]) -> None:
    unread = "    folder = args.pai_load_folder\n"  # nothing else shows what it was for
    assert body(adopted(tmp_path, integrated(**blocks))).replace(unread, "") == ADOPTED


def test_the_option_is_brought_to_its_name_where_an_earlier_recipe_had_another(tmp_path: Path) -> None:
    done = adopted(tmp_path, integrated().replace("perforate_model_parallel", "initialize_pai_parallel"))
    assert body(done) == ADOPTED
    assert "initialize_pai" not in done
    assert done.count("'--perforate_model_parallel'") == 1


def test_an_option_of_that_name_without_the_library_is_left(tmp_path: Path) -> None:
    option = "    parser.add_argument('--initialize_pai_parallel', action='store_true')\n"
    text = swapped(SCRIPT, ("    args = parser.parse_args()\n", f"{option}    args = parser.parse_args()\n"))
    assert option in rewritten(plan_of(tmp_path, text))


def test_a_script_without_the_options_gets_them_once(tmp_path: Path) -> None:
    done = adopted(tmp_path, integrated(options="", load="", guard=SAME["the wrapper alone"]["guard"], leave=""))
    assert body(done) == ADOPTED
    assert done.count("'--perforate_model_parallel'") == done.count("'--pai_load_folder'") == 1


KEPT: dict[str, tuple[dict[str, str], str]] = {
    "its own end": (
        {
            "hand_over": """\
        model, restructured, complete = GPA.pai_tracker.add_validation_score(acc, model)
        if complete:
            torch.save(model.state_dict(), 'final.pt')
            break
        elif restructured:
            optimizer, _ = GPA.pai_tracker.setup_optimizer(model, {'params': model.parameters(), 'lr': 0.1})
"""
        },
        """\
        complete = pai_distributed.report_validation_score(acc, model, leave=False)
        if complete:
            torch.save(model.state_dict(), 'final.pt')
            break
""",
    ),
    "what comes after the loop": (
        {
            "hand_over": """\
        model, restructured, complete = GPA.pai_tracker.add_validation_score(acc, model)
        if complete:
            break
""",
            "after": "    print('at the end', acc)\n",
        },
        """\
        complete = pai_distributed.report_validation_score(acc, model, leave=False)
        if complete:
            break
    print('at the end', acc)
""",
    ),
    "what else reads the answer": (
        {
            "hand_over": """\
        model, restructured, complete = GPA.pai_tracker.add_validation_score(acc, model)
        history.append(restructured)
        if complete:
            break
""",
            "before": "history = []\n",
        },
        """\
        model, restructured, complete = pai_distributed.add_validation_score(acc, model)
        history.append(restructured)
        if complete:
            break
""",
    ),
    "what else is done at a restructuring": (
        {
            "hand_over": """\
        model, restructured, complete = GPA.pai_tracker.add_validation_score(acc, model)
        if restructured:
            tell(acc)
        elif complete:
            break
""",
            "before": "from telling import tell\n",
        },
        """\
        model, restructured, complete = pai_distributed.add_validation_score(acc, model)
        if restructured:
            tell(acc)
        elif complete:
            break
""",
    ),
    "what tells the others": (
        {
            "hand_over": """\
        if dist.get_rank() == 0:
            _, restructured, complete = GPA.pai_tracker.add_validation_score(acc, model.module)
        else:
            restructured = complete = False
        restructured, complete = tell_all(restructured, complete)
        if complete:
            break
""",
            "before": "from telling import tell_all\n",
        },
        """\
        _, restructured, complete = pai_distributed.add_validation_score(acc, model.module)
        restructured, complete = tell_all(restructured, complete)
        if complete:
            break
""",
    ),
    "further scores of rank 0, which the others hand over later": (
        {
            "hand_over": """\
        if dist.get_rank() == 0:
            GPA.pai_tracker.add_extra_score(acc, 'again')
            _, restructured, complete = GPA.pai_tracker.add_validation_score(acc, model.module)
        else:
            restructured = complete = False
        restructured, complete = tell_all(restructured, complete)
        if dist.get_rank() != 0 and not restructured and not complete:
            GPA.pai_tracker.add_extra_score(acc, 'again')
            _, _, _ = GPA.pai_tracker.add_validation_score(acc, model.module)
        if complete:
            break
""",
            "before": "from telling import tell_all\n",
        },
        """\
        GPA.pai_tracker.add_extra_score(acc, 'again')
        _, restructured, complete = pai_distributed.add_validation_score(acc, model.module)
        restructured, complete = tell_all(restructured, complete)
        if complete:
            break
""",
    ),
    "what is under the same condition": (
        {
            "guard": """\
    if not args.perforate_model_parallel:
        GPA.pai_tracker.initialize_tracker_settings()
        model = DistributedDataParallel(model, find_unused_parameters=True)
        writer = open('log.txt', 'w')
"""
        },
        """\
        pai_distributed.keep_tracker_state_local(model)
        model = DistributedDataParallel(model, find_unused_parameters=True)
        writer = open('log.txt', 'w')
""",
    ),
    "what else a load does": (
        {"load": LOAD.replace("print('from the start')", "torch.nn.init.zeros_(model[0].weight)")},
        """\
            print(f'switch {newest}')
        else:
            torch.nn.init.zeros_(model[0].weight)
""",
    ),
    "a model for a test": (
        {
            "after": """\
    if dist.get_rank() == 0:
        best = UPA.load_system(model, 'mine', 'best_model', True)
"""
        },
        """\
    if dist.get_rank() == 0:
        best = UPA.load_system(model, 'mine', 'best_model', True)
""",
    ),
}


@pytest.mark.parametrize(("blocks", "kept"), KEPT.values(), ids=KEPT)
def test_what_is_custom_stays(tmp_path: Path, blocks: dict[str, str], kept: str) -> None:
    done = adopted(tmp_path, integrated(**blocks))
    assert kept in done
    for name in ("initialize_tracker_settings", "load_latest_switch", "finish_initialization"):
        assert done.count(f"{name}(") == 1


ASKED: dict[str, tuple[dict[str, str], str, str]] = {
    "more in the exit": (
        {"leave": LEAVE.replace("print('saved')", "tell(loss)"), "before": "from telling import tell\n"},
        "tell(loss)",
        "`tell(loss)` belongs to the block around `save_tracker_settings`",
    ),
    "what the load finds is read later": (
        {"load": LOAD, "after": "    print(newest)\n"},
        "print(newest)",
        "`newest` belongs to the block around `load_system`",
    ),
    "the best model at the start": (
        {"load": "    model = UPA.load_system(model, 'mine', 'best_model', True)\n"},
        "model = UPA.load_system(model, 'mine', 'best_model', True)",
        "belongs to the block around `load_system`",
    ),
    "one rank alone, which does more": (
        {
            "hand_over": """\
        if dist.get_rank() == 0:
            write(acc)
            _, restructured, complete = GPA.pai_tracker.add_validation_score(acc, model.module)
        else:
            restructured = complete = False
        restructured, complete = tell_all(restructured, complete)
        if complete:
            break
""",
            "before": "from telling import tell_all, write\n",
        },
        "if dist.get_rank() == 0:",
        "only some ranks hand the score over here (`dist.get_rank() == 0`)",
    ),
    "one rank alone, beside which others do more": (
        {
            "hand_over": """\
        if dist.get_rank() == 0:
            _, restructured, complete = GPA.pai_tracker.add_validation_score(acc, model.module)
        else:
            restructured = complete = False
            waiting = True
        restructured, complete = tell_all(restructured, complete)
        if complete:
            break
""",
            "before": "from telling import tell_all\n",
        },
        "if dist.get_rank() == 0:",
        "only some ranks hand the score over here (`dist.get_rank() == 0`)",
    ),
    "a function that one rank alone calls": (
        {
            "hand_over": "        if dist.get_rank() == 0:\n            hand(acc, model)\n",
            "before": "def hand(score, net):\n    GPA.pai_tracker.add_validation_score(score, net)\n\n",
        },
        "GPA.pai_tracker.add_validation_score(score, net)",
        "only some ranks hand the score over here",
    ),
    "one rank alone, which has the score": (
        {
            "hand_over": f"        if dist.get_rank() == 0:\n            acc = judge(model)\n    {HANDED}",
            "before": "from telling import judge\n",
        },
        "if dist.get_rank() == 0:",
        "only some ranks hand the score over here (`dist.get_rank() == 0`)",
    ),
    "one rank alone, which had the score before": (
        {
            "hand_over": """\
        if dist.get_rank() == 0:
            best = judge(model)
        if dist.get_rank() == 0:
            GPA.pai_tracker.add_validation_score(best, model)
""",
            "before": "from telling import judge\n",
        },
        "if dist.get_rank() == 0:",
        "only some ranks hand the score over here (`dist.get_rank() == 0`)",
    ),
}


@pytest.mark.parametrize(("blocks", "line", "said"), ASKED.values(), ids=ASKED)
def test_what_is_not_sure_is_asked_where_it_stands(
    tmp_path: Path, blocks: dict[str, str], line: str, said: str
) -> None:
    text = integrated(**blocks)
    plan = plan_of(tmp_path, text)
    codes = [question.code for question in plan.questions]
    assert codes == ["PAI030"]
    assert plan.files == []
    assert text.splitlines()[plan.questions[0].line - 1].strip() == line
    assert said in plan.questions[0].message


def test_questions_of_the_other_rules_name_lines_of_the_file_as_it_is(tmp_path: Path) -> None:
    text = integrated(after="    model = DistributedDataParallel(nn.Linear(2, 2))\n").replace(
        "x, y in loader:\n            opt", "x, y in loader:\n            model(x); opt"
    )
    plan = plan_of(tmp_path, text, Options(metric="nothing_like_it"))
    lines = text.splitlines()
    assert all("DistributedDataParallel(" in lines[question.line - 1] for question in plan.questions)


def test_without_the_library_nothing_is_a_block(tmp_path: Path) -> None:
    text = code(
        """
        import torch
        from torch.nn.parallel import DistributedDataParallel as DDP
        from mine import load_system, tracker

        model = DDP(load_system(torch.nn.Linear(2, 2), 'folder', 'switch_2', True))
        """
    )
    plan = plan_of(tmp_path, text)
    assert "PAI030" not in {question.code for question in plan.questions}


def test_zeros_of_a_script_without_the_library_are_its_own(tmp_path: Path) -> None:
    zeros = PREFILL.replace("if args.distributed:", "if True:")
    text = swapped(SCRIPT, ("            loss.backward()\n", f"{zeros}            loss.backward()\n"))
    assert zeros in rewritten(plan_of(tmp_path, text))


def test_inline_hands_the_score_over_once(tmp_path: Path) -> None:
    done = rewritten(plan_of(tmp_path, integrated(), Options(inline=True)))
    assert done[done.index("\ndef main()") :].count("report_validation_score(") == 1


PLAIN = """\
    if args.dendrites:
        model = UPA.perforate_model(model, save_name='mine', maximizing_score=True)
        model = model.to(device)
        GPA.pai_tracker.set_optimizer(torch.optim.SGD)
        optimArgs = {'params': model.parameters(), 'lr': 0.1}
        optimizer, _ = GPA.pai_tracker.setup_optimizer(model, optimArgs)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
"""


def test_the_optimizer_of_a_training_without_dendrites_is_not_handed_over(tmp_path: Path) -> None:
    text = integrated(perforated="", load="")
    start, end = text.index("    model = model.to(device)\n"), text.index("    if not args.perforate_model")
    done = adopted(tmp_path, text[:start] + PLAIN + text[end:])
    assert "        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)\n" in done
    assert "set_optimizer_instance" not in done


def test_nor_where_the_tracker_builds_its_own_anew_in_the_loop(tmp_path: Path) -> None:
    again = """\
        if args.dendrites:
            model, grown, done = GPA.pai_tracker.add_validation_score(acc, model)
            history.append(grown)
            if grown:
                optimizer, _ = GPA.pai_tracker.setup_optimizer(model, {'params': model.parameters(), 'lr': 0.1})
"""
    text = integrated(perforated="", load="", hand_over=again, before="history = []\n")
    start, end = text.index("    model = model.to(device)\n"), text.index("    if not args.perforate_model")
    assert "set_optimizer_instance" not in adopted(tmp_path, text[:start] + PLAIN + text[end:])


BASELINE = """\
def build():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

def train_one(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return float(model(x).argmax(1).eq(y).float().mean())

def baseline(args, model, loader):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    best = 0.0
    for epoch in range(args.epochs):
        acc = train_one(model, loader, optimizer)
        if acc > best:
            best = acc
            torch.save(model.state_dict(), 'best.pt')

"""


def test_a_baseline_that_shares_model_and_epoch_with_the_training_is_left_as_it_is(tmp_path: Path) -> None:
    text = integrated(before=BASELINE, leave="", prefill="")
    start, end = (
        text.index("        for x, y in loader:\n            opt"),
        text.index("        if args.distributed:\n"),
    )
    text = text[:start] + "        acc = train_one(model, loader, optimizer)\n" + text[end:]
    text = text.replace(
        "    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))\n", "    model = build()\n"
    )
    other = "    if args.epochs == 3:\n        return baseline(args, build(), [])\n"
    done = adopted(tmp_path, text.replace("    device = torch.device", f"{other}    device = torch.device"))
    assert BASELINE[BASELINE.index("def baseline") :] in done
    assert done.count("pai_distributed.report_validation_score(acc, model)\n") == 1


def test_an_optimizer_for_a_first_step_is_not_handed_over_beside_another(tmp_path: Path) -> None:
    first = """\
    first = torch.optim.SGD(model.parameters(), lr=0.01)
    first.zero_grad()
    model(torch.randn(2, 4)).sum().backward()
    first.step()
"""
    text = integrated().replace("    GPA.pai_tracker.set_optimizer(", f"{first}    GPA.pai_tracker.set_optimizer(")
    done = adopted(tmp_path, text)
    assert first in done
    assert done.count("setup_optimizer(") == 1


def test_an_optimizer_for_what_is_trained_after_all_is_complete_is_not_handed_over(tmp_path: Path) -> None:
    later = """\
        if converging:
            continue
        model, restructured, complete = GPA.pai_tracker.add_validation_score(acc, model)
        history.append(restructured)
        if complete:
            converging = True
            optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
            continue
        if restructured:
            optimizer, _ = GPA.pai_tracker.setup_optimizer(model, {'params': model.parameters(), 'lr': 0.1})
"""
    before = "    converging, history = False, []\n    model = nn.DataParallel(model)\n"
    text = integrated(guard=before, hand_over=later)
    done = adopted(tmp_path, text)
    made = "            optimizer = torch.optim.Adam(model.parameters(), lr=0.01)\n"
    told = f"{made}            pai_distributed.set_optimizer_instance(optimizer)\n"
    assert made in done
    assert told not in done
    new = rewritten(plan_of(tmp_path, text.replace("if complete:\n", "if restructured:\n")))
    assert told in new
