"""Which ranks run a statement, and which values are wrapped, as the rules of `retrofit check` ask it."""

from __future__ import annotations

import libcst as cst
import pytest

from retrofit.habits.file import TrainingFile
from retrofit.survey.flow import Flow
from retrofit.survey.ranks import of_some
from retrofit.survey.words import WARMING, speak
from tests.helpers import code, index_of

HERE = "here()"
#: Names that say nothing of what they are given, or something else.
GIVEN = """\
import torch.distributed as dist
from start import parts
ours = int(os.environ["RANK"]) if many else 0
ours = dist.get_rank()
us = ours
chief, others, world, first = us == 0, us != 0, dist.get_world_size(), epoch == 1
part, made = parts(), 1
part, other = parts()


def setup():
    world = {"rank": int(os.environ["RANK"]), "number": dist.get_rank(), "starts": epoch == 0}
    return {**world, "alone": world["number"] == 0} if many else world


info = setup()
alone, ours_too, begins, is_main = info["alone"], info["number"], info["starts"], info["starts"]
is_chief, is_root = make(), make()["flag"]
"""


def file_of(text: str) -> TrainingFile:
    """Return a script's file."""
    return TrainingFile(index_of(code(text)))


def ranks_here(text: str) -> str:
    """Return which ranks come to the call of `here` in a script."""
    file = file_of(text)
    return file.ranks(file.calls("here")[0])


@pytest.mark.parametrize(
    ("test", "ranks"),
    [
        ("rank == 0", "first"),
        ("not args.local_rank", "first"),
        ("is_main_process()", "first"),
        ("args.rank in (-1, 0)", "first"),
        ("not args.distributed or dist.get_rank() == 0", "first"),
        ("args.local_rank == -1 or dist.get_rank() == 0", "first"),
        ("rank != -1 and rank == 0", "first"),
        ("epoch > 3 and rank == 0", "first"),
        ("rank != 0", "others"),
        ("epoch % 10 == 0", "all"),
        ("args.evaluate", "all"),
        ("args.distributed", "all"),
        ("args.local_rank != -1", "all"),
        ("rank >= 0", "all"),
        ("-1 < rank", "all"),
        ("rank == -1", "unknown"),
        ("rank < 0", "unknown"),
        ("rank in (-1,)", "unknown"),
        ("args.gpu == 0", "unknown"),
        ("logger is not None", "unknown"),
        ("rank % args.every == args.offset", "unknown"),
        ("rank < args.writers", "unknown"),
        ("args.node_rank == 0", "unknown"),
        ("int(os.environ['NODE_RANK']) == 0", "unknown"),
        ("args.nr == 0", "unknown"),
        ("not args.nr", "unknown"),
        ("not proc_id", "unknown"),
        ("nr_epochs == 3", "all"),
        ("ours == 0", "first"),
        ("chief", "first"),
        ("not others", "first"),
        ("others", "others"),
        ("world == 0", "all"),
        ("first", "all"),
        ("part == 0", "unknown"),
        ("made == 0", "all"),
        ("info['alone']", "first"),
        ("alone", "first"),
        ("info['number'] == 0", "first"),
        ("ours_too == 0", "first"),
        ("info['starts']", "all"),
        ("begins", "all"),
        ("options['rank'] == 0", "first"),
        ("not options['local_rank']", "first"),
        ("options['is_main']", "first"),
        ("is_chief", "first"),
        ("is_root", "first"),
    ],
)
def test_conditions_tell_ranks(test: str, ranks: str) -> None:
    assert ranks_here(f"{GIVEN}if {test}:\n    here()\n") == ranks


@pytest.mark.parametrize(
    ("before", "test", "ranks"),
    [
        ("first = dist.get_rank() == 0", "first", "first"),
        ("saves = dist.get_rank() == 0", "saves", "first"),
        ("saves = dist.get_rank() == 0 or args.all", "saves", "unknown"),
        ("distributed = args.local_rank != -1", "distributed", "all"),
        ("distributed = args.local_rank != -1", "not distributed", "unknown"),
        ("folder = None\nif rank == 0:\n    folder = make()", "folder", "unknown"),
        ("best = 0\nif acc > best:\n    best = acc", "acc > best", "all"),
        ("folder = make() if rank == 0 else None", "folder is not None", "unknown"),
    ],
)
def test_flags_stand_for_their_conditions(before: str, test: str, ranks: str) -> None:
    assert ranks_here(f"{before}\nif {test}:\n    here()\n") == ranks


@pytest.mark.parametrize(
    ("test", "some"),
    [
        ("rank == 0", True),
        ("rank % 4 == 0", True),
        ("not rank", True),
        ("rank == args.writer", True),
        ("epoch > 3 and is_main_process()", True),
        ("not (args.distributed and dist.get_rank() != 0)", True),
        ("args.gpu == 0", True),
        ("args.gpu is not None", False),
        ("rank == -1", False),
        ("rank >= 0", False),
        ("local_rank is not None", False),
        ("frank > 3", False),
        ("say('rank 0')", False),
        ("master_address", False),
        ("epoch % 5 == 0", False),
        ("is_main", False),
        ("is_chief", True),
        ("info['alone'] and epoch > 3", True),
        ("info['starts']", False),
    ],
)
def test_conditions_that_hold_on_some_ranks(test: str, some: bool) -> None:
    flow = Flow(index_of(f"{GIVEN}if {test}:\n    pass\n"))
    (choice,) = flow.index.nodes_of(cst.If)
    assert of_some(flow, choice.test) is some


@pytest.mark.parametrize(
    ("leaves", "ranks"),
    [
        ("if rank != 0:\n        return", "first"),
        ("if distributed and rank != 0:\n        return", "unknown"),
        ("if args.gpu != 0:\n        return", "unknown"),
        ("if skip:\n        return", "all"),
        ("if rank == -1:\n        return", "all"),
        ("if not args.nr:\n        return", "unknown"),
    ],
)
def test_those_that_leave_early_do_not_come(leaves: str, ranks: str) -> None:
    assert ranks_here(f"def save():\n    {leaves}\n    here()\n\nsave()\n") == ranks


def test_a_function_runs_where_it_is_called() -> None:
    function = "def save():\n    here()\n\n"
    assert ranks_here(function) == "unknown"
    assert ranks_here(function + "save()\n") == "all"
    assert ranks_here(function + "if rank == 0:\n    save()\n") == "first"
    assert ranks_here(function + "save()\nif rank == 0:\n    save()\n") == "all"


def test_the_process_that_starts_the_ranks_is_none_of_them() -> None:
    script = """
    import torch.multiprocessing as mp

    def worker(rank):
        WORKER

    def main():
        MAIN
        if args.distributed:
            mp.spawn(worker, nprocs=2)
        else:
            worker(0)

    main()
    """
    assert ranks_here(script.replace("WORKER", HERE).replace("MAIN", "pass")) == "all"
    assert ranks_here(script.replace("WORKER", "pass").replace("MAIN", HERE)) == "unknown"


@pytest.mark.parametrize(
    "use",
    [
        "x = model.module.name if distributed else here(model)",
        "if isinstance(model, DDP):\n    model.module.f()\nelse:\n    here(model)",
        "if not distributed:\n    if x:\n        here(model)\nelif x:\n    model.module.f()",
    ],
)
def test_the_branch_beside_that_of_the_wrapper_has_a_bare_model(use: str) -> None:
    script = "from torch.nn.parallel import DistributedDataParallel as DDP\nmodel = DDP(Net())\n"
    file = file_of(f"{script}{use}\n")
    assert file.wrapper_of(file.calls("here")[0].args[0].value) is None


@pytest.mark.parametrize(
    ("after", "value", "wrapped"),
    [
        ("", "model", True),
        ("", "model.module", False),
        ("bare = model.module", "bare", False),
        ("bare = model.module if distributed else model", "bare", False),
        ("if distributed:\n    bare = model.module\nelse:\n    bare = model", "bare", False),
        ("other = model.eval()", "other", True),
        ("model = model.module", "model", False),
    ],
)
def test_wrapped_values_are_told_from_bare_ones(after: str, value: str, wrapped: bool) -> None:
    script = "from torch.nn.parallel import DistributedDataParallel as DDP\nmodel = DDP(Net())\n"
    file = file_of(f"{script}{after}\nhere({value})\n")
    assert (file.wrapper_of(file.calls("here")[0].args[0].value) is not None) == wrapped


def test_what_runs_before_the_wrapping_sees_a_bare_model() -> None:
    script = """
    from torch.nn.parallel import DistributedDataParallel as DDP

    class Trainer:
        def __init__(self):
            self.model = Net()
            CALL
            self.model = DDP(self.model)

        def load(self):
            here(self.model)
    """
    for call, wrapped in (("self.load()", False), ("pass", True)):
        file = file_of(script.replace("CALL", call))
        assert (file.wrapper_of(file.calls("here")[0].args[0].value) is not None) == wrapped


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("warm_up_epochs", True),
        ("WarmupCosine", True),
        ("lr_warmups", True),
        ("OneCycleLR", True),
        ("LINEAR_LR", True),
        ("warmth_up", False),
        ("swarm_upper", False),
        ("linearly", False),
    ],
)
def test_words_count_whole(name: str, told: bool) -> None:
    assert speak([name], WARMING) is told
