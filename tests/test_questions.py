"""Each question of apply: a script for which it is asked, and others close by for which there is none.

Every script is the plain one with a few texts swapped. What several questions could be asked about is in
test_spellings.py, and what is said of scripts that are no Python, or of another library, in test_refusals.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pytest

from retrofit.options import Options
from retrofit.plan import Plan, make_plan
from retrofit.rules import Recipe
from tests.helpers import code, plan_of, recipe, rewritten, script
from tests.test_across_files import PROGRAM
from tests.test_spellings import PLAIN

Swaps = tuple[tuple[str, str], ...]

IMPORT = "import torch\n"
SCORE = "acc = evaluate(model)\nif acc > best:\n    best = acc\n"
BUILT = "model = Net()\n"
WRAPPED = "model = DDP(model)\n"
OPTIMIZER = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
EPOCHS = "for epoch in range(10):\n"
CALLED = "criterion(model(x), y)"
ZERO, BACKWARD, STEP = (
    f"        {call}\n" for call in ("optimizer.zero_grad()", "loss.backward()", "optimizer.step()")
)
BATCHES = f"    for x, y in loader:\n        loss = {CALLED}\n{ZERO}{BACKWARD}{STEP}"
#: A turn of the loop that takes one step.
STEPPED = (
    BATCHES,
    f"    x, y = next(batches)\n    loss = {CALLED}\n" + "".join(part[4:] for part in (ZERO, BACKWARD, STEP)),
)
ALL = PLAIN[PLAIN.index(BUILT) :].rstrip("\n") + "\n"

CHOSEN = "model = Wrap(model)\n"
JOIN = "from torch.distributed.algorithms.join import Join\n"
DP = ("DistributedDataParallel as DDP", "DataParallel as DDP")
PLAINLY = Options()
IN_PROCESS = Options(in_process=True)
SINGLE_GPU = Options(data_parallel=True)
ADAM = "torch.optim.Adam(model.parameters())"
FITTING = (
    "def fit(model, epoch):\n    for x, y in loader:\n        loss = criterion(model(x), y)\n        loss.backward()\n"
)
RANK = "torch.distributed.get_rank()"
UPA = (IMPORT, f"from perforatedai import utils_perforatedai as UPA\n{IMPORT}")
GPA = (IMPORT, f"from perforatedai import globals_perforatedai as GPA\n{IMPORT}")
GROUPED = (
    "groups = [p for p in model.parameters() if p.dim() > 1]\n"
    "optimizer = torch.optim.SGD([{'params': groups}], lr=0.1)\n"
)
GROWN = f"{BUILT}model = UPA.perforate_model(model, save_name='mine', maximizing_score=True)\n"
COPIES = """\
from torch.nn import Module
from torch.nn.parallel.parallel_apply import parallel_apply
from torch.nn.parallel.replicate import replicate


class Copies(Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *inputs):
        return parallel_apply(replicate(self.module, [0, 1]), inputs)


"""
HANDED = "model, grown, done = GPA.pai_tracker.add_validation_score(acc, model)\n"


#: A loop over as many epochs as something tells, and its last statements with one more.
COUNTED = "for epoch in range(epochs):\n"
SCORED = "".join(f"    {line}\n" for line in SCORE.splitlines())
GATHERED = f"{SCORED}    seen.append(acc)\n"


TOLD = "def validate(net):\n    acc = evaluate(net)\n    print(acc)\n"


def trained_within(ahead: str, step: str = "        beside.step()\n") -> Swaps:
    """Return the swaps that train the model within a whole, which is wrapped as well, and so is what it has besides.

    Args:
        ahead: what stands before the wrappers.
        step: what follows on the optimizer's.
    """
    whole = "class Whole(torch.nn.Module):\n    def __init__(self, net):\n        super().__init__()\n"
    whole += "        self.net, self.head = net, torch.nn.Linear(2, 2)\n\n\n"
    return (
        (IMPORT, f"{IMPORT}\n\n{whole}"),
        (BUILT + WRAPPED, BUILT),
        (
            OPTIMIZER,
            f"whole = Whole(model)\n{OPTIMIZER}{ahead}{WRAPPED}whole = DDP(whole)\n".replace(
                "DDP", "torch.nn.DataParallel"
            ),
        ),
        (CALLED, "criterion(whole(x), y)"),
        (STEP, STEP + step),
    )


def inner(text: str) -> str:
    """Return code as a block."""
    return "".join(f"    {line}\n" if line else "\n" for line in text.splitlines())


def within(head: str, after: str = "", imported: str = "") -> Swaps:
    """Let a function have all of the training.

    Args:
        head: the line that begins it, perhaps with what it stands in.
        after: what follows on it.
        imported: what is imported as well.
    """
    body, last = inner(ALL), head.splitlines()[-1]
    for _ in range((len(last) - len(last.lstrip())) // 4):
        body = inner(body)
    return ((IMPORT, f"{imported}{IMPORT}"), (ALL, f"{head}{body}\n\n{after}"))


POOLS = "import torch.multiprocessing as mp\n"
MEASURED = "if often():\n    val_loss = evaluate(model)\n    print(val_loss)\n"
AROUND = ALL.replace(
    ALL[ALL.index(EPOCHS) :], f"for level in levels:\n{inner(EPOCHS + BATCHES + inner(inner(MEASURED)))}"
)
#: Loops around the epochs with an optimizer of their own each.
FURTHER = ALL.replace(ALL[ALL.index(OPTIMIZER) :], f"for stage in stages:\n{inner(ALL[ALL.index(OPTIMIZER) :])}")
#: A model that a function builds and trains, as in each turn, or all turns.
FITS = f"def fit():\n{inner(BUILT + WRAPPED + OPTIMIZER)}{BATCHES}    return evaluate(model)\n\n\n"
EACH_ANEW = f"{FITS}best = 0\n{EPOCHS}    acc = fit()\n{inner(SCORE[SCORE.index('if') :])}"
#: One that a function builds for a turn.
BUILDS_FOR_IT = "    model, optimizer = build()\n"
BUILT_FOR_IT = EACH_ANEW.replace(
    f"def fit():\n{inner(BUILT + WRAPPED + OPTIMIZER)}",
    f"kept = []\n\n\ndef build():\n{inner(BUILT + WRAPPED + OPTIMIZER)}    kept.append((model, optimizer))\n"
    "    return model, optimizer\n\n\ndef fit(model, optimizer):\n",
).replace("    acc = fit()\n", f"{BUILDS_FOR_IT}    acc = fit(model, optimizer)\n")


def before(text: str, place: str = BUILT) -> tuple[str, str]:
    """Return the swap that puts code before a line."""
    return place, text + place


def scored(text: str) -> tuple[str, str]:
    """Return the swap of the epoch's score."""
    return inner(SCORE), inner(text)


def looped(head: str, ahead: str, last: str = "") -> Swaps:
    """Return the swaps of the epoch loop's head, of what is before it, and of its last statement."""
    return before(ahead, "best = 0\n"), (EPOCHS, f"{head}\n"), scored(SCORE + last)


def tried(started: str) -> Swaps:
    """Return the swap that puts the training into a function, which is started so."""
    return ((ALL, f"def train():\n{inner(ALL)}\n{started}"), (IMPORT, f"{IMPORT}import wandb\n"))


def phases(started: str) -> tuple[str, str]:
    """Return the swap that puts the training into a function, and that of another model into a second one."""
    other = ALL.replace("model", "net").replace("Net()", "Other()")
    both = f"def first(rank):\n{inner(ALL)}\ndef second(rank):\n{inner(other)}\n"
    return ALL, f"{both}from torch.multiprocessing import spawn\n{started}"


def clocked(last: str) -> Swaps:
    """Return the swaps of a clock that is read before the epoch loop, and of the loop's last statement."""
    return before("import time\nbegun = time.time()\n", "best = 0\n"), scored(SCORE + last)


def unused(text: str) -> str:
    """Return code behind a `raise`."""
    return f"def old(model):\n    raise NotImplementedError\n{inner(text)}\n"


@dataclass(frozen=True)
class Question:
    """When a question is asked.

    Attributes:
        asked: the swaps with which it is, and it alone.
        silent: those with which there is none, by what they look like.
        options: the user's choices.
        files: what lies beside the script.
    """

    asked: Swaps
    silent: Mapping[str, Swaps]
    options: Options = PLAINLY
    files: Mapping[str, str] = field(default_factory=dict)


STARTS = "import os\nfrom lib import fit\nnet = fit.build()\n"
BUILD = "def build():\n    net = Net()\n    net = DDP(net)\n    return net\n\n\n"
EACH = "for net in nets:\n    model = DDP(net)\n"
WRAP = "def wrap(net):\n    return DDP(net)\n\n\n"
TRAIN = f"def train(model):\n{BATCHES}\n\n"
OPTIONS = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr')\n"
BY_HAND = f"{OPTIONS}parser.add_argument('--rank', type=int, default=0)\nargs = parser.parse_args()\n"
HELD = "class Held:\n    pass\n\n\nheld = Held()\n"
BUILDS = "def __init__(self):\n        self.encoder = self.net = Net()"
OF_HELD = "held.encoder = DDP(held.encoder)\nmodel = held.encoder\n"


TESTER = (
    "class Tester:\n    def __init__(self):\n        {}\n\n    def test(self, net):\n        {}\n\n\nt = Tester()\n"
)


def resuming(taken: str, last: str) -> Swaps:
    """Return the swaps of what an object takes from a checkpoint before the epoch loop, and of the loop's end."""
    return before(f"{HELD}state = torch.load('last.pt')\n{taken}", "best = 0\n"), scored(
        f"{SCORE}{last}torch.save({{'stop': acc > 0.9, 'n': epoch}}, 'last.pt')\n"
    )


LOADS = (
    "def load():\n    net = Net()\n    if not os.path.exists('last.pt'):\n        return net, {'stop': False}\n"
    "    return net, torch.load('last.pt')\n\n\n"
)
SEES = "torch.save({'stop': seen['stop']}, 'last.pt')\nif seen['stop']:\n    break\n"


KEEPS = (
    "def validate(model, best):\n    acc = evaluate(model)\n"
    "    if {}acc > best:\n        best = acc\n{}    return best\n\n\n"
)
TWICE = "log(validate(model, best))\nbest = validate(model, best)\n"
FROM, STEPS = "import os\nimport sys\nfrom pathlib import Path\n\n", "from steps import train\n"
JOINED = "sys.path.insert(0, os.path.join(here, 'lib'))\n"
CLOSURES = f"def train():\n{BATCHES}\n\ndef validate():\n    return evaluate(model)\n\n\n"
FIT = "best = 0\n" + EPOCHS + "    train()\n    acc = validate()\n    best = max(best, acc)\n"


def packed(scored_if: str, size: str = "len(x)") -> Swaps:
    """Return the swaps of batches that are packed up to a size, and of a score within the loop over them."""
    counted = f"        size += {size}\n        if size < 99:\n            continue\n"
    taken = f"    for i, (x, y) in enumerate(loader):\n{counted}"
    last = f"{STEP}        if {scored_if}:\n{inner(inner(inner(SCORE)))}        size = 0\n        step += 1\n"
    begun = before("size = step = 0\n", "best = 0\n")
    return begun, ("    for x, y in loader:\n", taken), (STEP, last), scored("print(epoch)\n")


HANDED = "GPA.pai_tracker.add_validation_score(acc, model)"
HOLDS = f"{BUILT}here = Box()\nhere.net = model\n"
ENDS = f"model, grown, done = {HANDED}\nif grown:\n    exit()\n"
SAVED = "        if args.perforate_model_parallel:\n            GPA.pai_tracker.save_tracker_settings()\n"
SAVED_BY_HELD = SAVED.replace("GPA.pai_tracker", "held")

METERED = "meter = Meter()\nfor part in parts:\n{}    meter.update(evaluate(model, part))\n    log(meter.avg)\n{}{}"
BESIDE = "group = dist.new_group()\n"
PARTED = "dist.destroy_process_group(group)\n"
AT_TIMES = f"{SCORE}group = dist.new_group() if acc else None\n"
PARTING = before(
    "import torch.distributed as dist\n\nover = False\n\n\ndef clean():\n    dist.destroy_process_group()\n\n\n"
    "def meet():\n    dist.init_process_group()\n\n\n",
    IMPORT,
)


def learnt(call: str, parameters: str = "model, schedule=None", above: str = "") -> Swaps:
    """Let a function train, and the epoch loop call it so."""
    return ((EPOCHS + BATCHES, f"{above}def learn({parameters}):\n{BATCHES}\n\n{EPOCHS}    {call}\n"),)


QUESTIONS: dict[str, Question] = {
    "PAI001 1": Question(
        (before("def kept_with_best():\n    pass\n\n\n"),),
        {
            "a method": (before("class Best:\n    def kept_with_best(self):\n        pass\n\n\n"),),
            "an attribute of a plain object": (before("held.kept_with_best: int = 0\n"),),
            "an argument": (before("log(kept_with_best=0)\n"),),
        },
        Options(inline=True),
    ),
    "PAI002 1": Question(
        (before("from . import args, parser\nconfig = Config(**vars(args))\n"),),
        {
            "told, and not handed on": (before("from . import args, parser\nprint(vars(args))\n"),),
            "read by a module of another package": (
                before("from options import args, parser\nconfig = Config(**vars(args))\n"),
            ),
            "read by a function": (before("from reading import read\nconfig = Config(**vars(read()))\n"),),
        },
        files={
            "__init__.py": f"{OPTIONS}args = parser.parse_args()\n",
            "options.py": f"{OPTIONS}args = parser.parse_args()\n",
            "reading.py": f"{OPTIONS}\n\ndef read():\n    return parser.parse_args()\n",
        },
    ),
    "PAI007 1": Question(
        (DP, ("SGD(model.parameters()", "SGD(groups(model)")),
        {
            "several statements in a line": (DP, (OPTIMIZER, f"steps = 0; {OPTIMIZER}")),
            "parameters by a name": (
                DP,
                (OPTIMIZER, "params = model.parameters()\noptimizer = torch.optim.SGD(params)\n"),
            ),
            "another one behind a raise": (DP, before(unused(f"optimizer = {ADAM}"))),
        },
        IN_PROCESS,
    ),
    "PAI007 2": Question(
        (DP, GPA, (OPTIMIZER, GROUPED), scored(f"{SCORE}{ENDS}")),
        {
            "of the model": (DP, GPA, scored(f"{SCORE}{ENDS}")),
            "by a restart": (DP, GPA, (OPTIMIZER, GROUPED), scored(f"{SCORE}{HANDED}")),
            "told by the script": (
                DP,
                GPA,
                (OPTIMIZER, f"{GROUPED}GPA.pai_tracker.set_optimizer_instance(optimizer)\n"),
                scored(f"{SCORE}{ENDS}"),
            ),
        },
    ),
    "PAI011 1": Question(
        clocked("if time.time() - begun > 60:\n    break\n"),
        {
            "another limit": clocked("if epoch > 60:\n    break\n"),
            "a time that is told": clocked("if time.time() - begun > 60:\n    print(acc)\n"),
            "a batch loop of its own": clocked("for x in loader:\n    if time.time() - begun > 60:\n        break\n"),
            "what the time is kept beside": clocked("spent = time.time() - begun\nif acc > 0.9:\n    break\n"),
        },
    ),
    "PAI011 2": Question(
        (PARTING, scored(f"{SCORE}clean()\n")),
        {
            "behind the loop": (PARTING, (inner(SCORE), f"{inner(SCORE)}clean()\n")),
            "and the loop is left": (PARTING, scored(f"{SCORE}if acc > 0.9:\n    clean()\n    break\n")),
            "as it fails": (PARTING, scored(f"{SCORE}try:\n    check()\nexcept OSError:\n    clean()\n")),
            "in a function that leaves": (
                before("def stop():\n    torch.distributed.destroy_process_group()\n    sys.exit(1)\n\n"),
                scored(f"{SCORE}if acc != acc:\n    stop()\n"),
            ),
            "of a plain object": (scored(f"{SCORE}group.destroy_process_group()\n"),),
            "of a group beside it": (PARTING, scored(f"{BESIDE}{SCORE}dist.destroy_process_group(group)\n")),
            "of a group beside it, where it is there": (
                PARTING,
                scored(f"{AT_TIMES}if group is not None and acc:\n    {PARTED}"),
            ),
            "of one of several beside it": (PARTING, scored(f"group, _ = dist.new_subgroups(2)\n{SCORE}{PARTED}")),
            "where a constant rules it out": (PARTING, scored(f"{SCORE}if over:\n    clean()\n")),
            "made anew": (PARTING, scored(f"{SCORE}clean()\nmeet()\n")),
        },
    ),
    "PAI011 3": Question(
        (
            before(JOIN),
            (EPOCHS, f"with Join([model]):\n    {EPOCHS}"),
            *(
                (part, "".join(f"    {line}\n" for line in part.splitlines()))
                for part in (BATCHES, "".join(f"    {line}\n" for line in SCORE.splitlines()))
            ),
        ),
        {
            "around the batches": (
                before(JOIN),
                (BATCHES, "    with Join([model]):\n" + "".join(f"    {line}\n" for line in BATCHES.splitlines())),
            ),
        },
    ),
    "PAI014 1": Question(
        (before("from absl import flags\nflags.DEFINE_integer('local_rank', 0, '')\n", IMPORT),),
        {
            "of the environment": (
                before(
                    "import os\nfrom absl import flags\n"
                    "flags.DEFINE_integer('local_rank', int(os.environ.get('LOCAL_RANK', 0)), '')\n",
                    IMPORT,
                ),
            ),
            "another flag": (before("from absl import flags\nflags.DEFINE_integer('steps', 0, '')\n", IMPORT),),
        },
    ),
    "PAI014 2": Question(
        (),
        {
            "DataParallel": (DP,),
            "an import that is not used": (
                ("import DistributedDataParallel as DDP", "import DataParallel as DDP, DistributedDataParallel"),
            ),
            "DistributedDataParallel behind a raise": (
                ("import DistributedDataParallel as DDP", "import DataParallel as DDP, DistributedDataParallel as D"),
                before(unused("return D(model)")),
            ),
        },
        IN_PROCESS,
    ),
    "PAI024 1": Question(
        resuming("held.stop = state['stop']\n", "if held.stop:\n    break\n"),
        {
            "another before": resuming("held.stop = False\nheld.stop = state['stop']\n", "if held.stop:\n    break\n"),
            "a counter": resuming("held.n = state['n']\n", "held.n += 1\nif held.n > 9:\n    break\n"),
            "ends nothing": resuming("held.stop = state['stop']\n", "print(held.stop)\n"),
        },
    ),
    "PAI024 2": Question(
        (("model = Net()\n", f"{LOADS}model, seen = load()\n"), scored(f"{SCORE}{SEES}")),
        {
            "the model's alone": (("model = Net()\n", f"{LOADS}model = load()[0]\n"), scored(SCORE)),
            "by itself": (
                ("model = Net()\n", f"{LOADS}model, seen = load()[0], None\nseen = load()[1]\n"),
                scored(f"{SCORE}{SEES}"),
            ),
            "ends nothing": (
                ("model = Net()\n", f"{LOADS}model, seen = load()\n"),
                scored(f"{SCORE}torch.save(seen, 'last.pt')\n"),
            ),
        },
    ),
    "PAI030 1": Question(
        (GPA, scored(f"if {RANK} == 0:\n    tell(acc)\n    {HANDED}\n{SCORE}")),
        {
            "on all ranks": (GPA, scored(f"{HANDED}\n{SCORE}")),
            "nothing more": (GPA, scored(f"if {RANK} == 0:\n    {HANDED}\n{SCORE}")),
            "a plain object's": (before(HELD), scored(f"if {RANK} == 0:\n    held.add_validation_score(acc)\n{SCORE}")),
            "behind a raise": (GPA, before(unused(f"if {RANK} == 0:\n    {HANDED}"))),
        },
    ),
    "PAI030 2": Question(
        (GPA, (BACKWARD, f"{BACKWARD}{SAVED}            tell(loss)\n")),
        {
            "nothing more": (GPA, (BACKWARD, f"{BACKWARD}{SAVED}            exit()\n")),
            "a plain object's": (before(HELD), (BACKWARD, f"{BACKWARD}{SAVED_BY_HELD}            tell(loss)\n")),
            "behind a raise": (GPA, before(unused("GPA.pai_tracker.save_tracker_settings()\ntell(later)"))),
        },
    ),
    "PAI031 1": Question(
        (GPA, before("kinds = GPA.pc.get_modules_to_convert()\n")),
        {
            "one that means the same": (GPA, before("GPA.pc.get_input_dimensions()\n")),
            "a plain object's": (before(f"{HELD}kinds = held.pc.get_modules_to_convert()\n"),),
            "asked for": (GPA, before("if hasattr(GPA.pc, 'later'): kinds = GPA.pc.get_modules_to_convert()\n")),
            "behind a raise": (GPA, before(unused("return GPA.pc.get_modules_to_convert()"))),
        },
    ),
    "PAI032 1": Question(
        (GPA, before("GPA.pc.set_metric(1)\n")),
        {
            "two of one list": (
                GPA,
                before("GPA.pc.set_modules_to_convert([Net])\nGPA.pc.append_module_names_to_convert(['A'])\n"),
            ),
            "a plain object's": (before(f"{HELD}held.pc.set_metric(1)\n"),),
            "behind a raise": (GPA, before(unused("GPA.pc.set_metric(1)"))),
        },
    ),
    "PAI038 1": Question(
        (UPA, (BUILT, GROWN), (WRAPPED, ""), ("model(x)", "model.head(x)")),
        {"called whole as well": (UPA, (BUILT, GROWN), (WRAPPED, ""), (CALLED, f"{CALLED} + model.head(x).sum()"))},
        options=SINGLE_GPU,
    ),
    "PAI038 2": Question(
        (
            UPA,
            (BUILT, GROWN + GROWN.replace("model", "other").replace("perforate_other", "perforate_model")),
            (WRAPPED, ""),
        ),
        {"another one as it is": (UPA, (BUILT, f"{GROWN}other = Net()\n"), (WRAPPED, ""))},
        options=SINGLE_GPU,
    ),
    "PAI038 3": Question(
        (UPA, (BUILT, f"{HOLDS}{GROWN.removeprefix(BUILT)}"), (WRAPPED, ""), (CALLED, "criterion(here.net(x), y)")),
        {
            "the perforated one": (
                UPA,
                (BUILT, f"{HOLDS}{GROWN.removeprefix(BUILT)}here.net = model\n"),
                (WRAPPED, ""),
                (CALLED, "criterion(here.net(x), y)"),
            ),
            "not called": (UPA, (BUILT, f"{HOLDS}{GROWN.removeprefix(BUILT)}"), (WRAPPED, "")),
        },
        options=SINGLE_GPU,
    ),
    "PAI038 4": Question(
        (UPA, (BUILT, f"{GROWN}model.to('mps')\n"), (WRAPPED, "")),
        {
            "on the CPU": (UPA, (BUILT, f"{GROWN}model.to('cpu')\n"), (WRAPPED, "")),
            "with others": (
                UPA,
                (BUILT, f"{GROWN}model.to('cuda' if torch.cuda.is_available() else 'mps')\n"),
                (WRAPPED, ""),
            ),
        },
        options=SINGLE_GPU,
    ),
    "PAI041 1": Question(
        (GPA, before("GPA.pai_tracker.setOptimizer(torch.optim.SGD)\n")),
        {
            "one that it has": (GPA, before("GPA.pai_tracker.set_optimizer(torch.optim.SGD)\n")),
            "a plain object's": (before(f"{HELD}held.pai_tracker.setOptimizer(torch.optim.SGD)\n"),),
            "asked for": (
                GPA,
                before("if hasattr(GPA.pai_tracker, 'setOptimizer'): GPA.pai_tracker.setOptimizer(torch.optim.SGD)\n"),
            ),
        },
    ),
    "PAI042 1": Question(
        (UPA, (BUILT, f"{BUILT}nets = [UPA.perforate_model(model, save_name='mine')]\n"), (WRAPPED, "")),
        {
            "a name": (UPA, (BUILT, GROWN), (WRAPPED, "")),
            "in its place": (UPA, (BUILT, f"{BUILT}UPA.perforate_model(model, save_name='mine')\n"), (WRAPPED, "")),
        },
        options=SINGLE_GPU,
    ),
    "PAI043 1": Question(
        (
            before("epochs, seen = read(), []\naxis = range(epochs)\n", "best = 0\n"),
            (EPOCHS, COUNTED),
            (SCORED, f"{GATHERED}plt.plot(axis, seen)\n"),
        ),
        {
            "after the loop": (
                before("epochs, seen = read(), []\n", "best = 0\n"),
                (EPOCHS, COUNTED),
                (SCORED, f"{GATHERED}plt.plot(range(epochs), seen)\n"),
            ),
            "alone": (
                before("epochs, seen = read(), []\naxis = range(epochs)\n", "best = 0\n"),
                (EPOCHS, COUNTED),
                (SCORED, f"{GATHERED}plt.plot(axis)\n"),
            ),
        },
    ),
    "PAI100 1": Question(
        (before("engine = deepspeed.initialize(model)\n", OPTIMIZER), before("import deepspeed\n", IMPORT)),
        {
            "a module of the project": (before("from accelerators import deepspeed\n", IMPORT),),
            "a plain object of that name": (before("deepspeed = Timer()\ndeepspeed.initialize()\n"),),
            "an option": (
                before(
                    "if args.deepspeed:\n    import deepspeed\n    engine = deepspeed.initialize(model)\n", OPTIMIZER
                ),
            ),
        },
        files={"accelerators.py": "deepspeed = None\n"},
    ),
    "PAI101 1": Question(
        (UPA, (BUILT, GROWN), (WRAPPED, "")),
        {
            "a wrapper": (UPA, (BUILT, GROWN)),
            "a wrapper by its module": (
                UPA,
                (BUILT, GROWN),
                (WRAPPED, "model = torch.nn.parallel.DataParallel(model)\n"),
            ),
        },
    ),
    "PAI101 2": Question(
        ((WRAPPED, ""),),
        {
            "by its module": ((WRAPPED, "model = torch.nn.parallel.DistributedDataParallel(model)\n"),),
            "a name for it": ((WRAPPED, f"Parallel = DDP\n{WRAPPED.replace('DDP', 'Parallel')}"),),
            "an annotated name": ((WRAPPED, f"Parallel: type = DDP\n{WRAPPED.replace('DDP', 'Parallel')}"),),
            "an own class of it": ((WRAPPED, f"class Own(DDP):\n    pass\n\n\n{WRAPPED.replace('DDP', 'Own')}"),),
            "a conditional expression": ((WRAPPED, "model = DDP(model) if several else model\n"),),
            "by keyword": ((WRAPPED, "model = DDP(module=model)\n"),),
        },
    ),
    "PAI101 3": Question(
        (before("import importlib\nnets = importlib.import_module(name)\n", OPTIMIZER), (WRAPPED, "")),
        {"a wrapper": (before("import importlib\nnets = importlib.import_module(name)\n", OPTIMIZER),)},
    ),
    "PAI101 4": Question(
        ((WRAPPED, "wrapped = DDP(model)\n"),),
        {
            "the wrapper is called": (
                (WRAPPED, "wrapped = DDP(model)\n"),
                (CALLED, CALLED.replace("model", "wrapped")),
            ),
            "one of both": ((WRAPPED, "wrapped = DDP(model)\nmodel = wrapped if several else model\n"),),
            "within the loop": ((WRAPPED, "wrapped = DDP(model)\n"), (CALLED, f"{CALLED} + library.loss(wrapped)")),
        },
    ),
    "PAI101 5": Question(
        (UPA, (BUILT, "model = UPA.grown(Net())\n"), (WRAPPED, "")),
        {
            "a wrapper": (UPA, (BUILT, "model = UPA.grown(Net())\n")),
            "of a plain object": ((BUILT, "model = held.grown(Net())\n"),),
        },
    ),
    "PAI101 6": Question(
        (before(COPIES, BUILT), (WRAPPED, "model = Copies(model)\n")),
        {
            "a wrapper": (before(COPIES, BUILT), (WRAPPED, f"{WRAPPED}other = Copies(head)\n")),
            "around one": (before(COPIES.replace("(Module)", "(DDP)"), BUILT), (WRAPPED, "model = Copies(model)\n")),
        },
    ),
    "PAI101 7": Question(
        (before("import hydra\nnet = hydra.utils.instantiate(cfg.net)\n", OPTIMIZER), (WRAPPED, "")),
        {"a wrapper": (before("import hydra\nnet = hydra.utils.instantiate(cfg.net)\n", OPTIMIZER),)},
    ),
    "PAI102 1": Question(
        (
            before("other = DDP(Net())\nsecond = torch.optim.SGD(other.parameters(), lr=0.1)\n", OPTIMIZER),
            (CALLED, "criterion(other(model(x)), y)"),
        ),
        {
            "without an optimizer": (
                before("other = DDP(Net())\n", OPTIMIZER),
                (CALLED, "criterion(other(model(x)), y)"),
            ),
            "exclusive branches": ((WRAPPED, f"if gpu:\n    {WRAPPED}else:\n    net = DDP(model)\n    model = net\n"),),
            "one-line exclusive branches": (
                (WRAPPED, "if gpu: model = DDP(model, [gpu])\nelse: model = DDP(model)\n"),
            ),
            "behind a raise": (before(unused("other = DDP(Net())\nother(x).backward()\n")),),
            "a frozen teacher": (
                before("teacher: Net = Net()\nteacher.requires_grad_(False)\nteacher: DDP = DDP(teacher)\n", OPTIMIZER),
                (CALLED, "criterion(model(x), teacher(x))"),
            ),
            "another name": ((WRAPPED, "net = model\nmodel = DDP(net)\n"),),
            "a function, in exclusive branches": (
                (BUILT + WRAPPED, f"{WRAP}if a: model = wrap(Net())\nelse: model = wrap(Other())\n"),
            ),
            "a function, annotated": ((WRAPPED, f"{WRAP}model: DDP = wrap(model)\n"),),
            "a function, behind a raise": ((WRAPPED, f"{WRAP}{unused('other = wrap(Net())')}model = wrap(model)\n"),),
        },
    ),
    "PAI102 2": Question(
        ((WRAPPED, ""), (CALLED, "criterion(DDP(model)(x), y)")),
        {
            "moved in the same statement": ((WRAPPED, "model = DDP(model).cuda()\n"),),
            "returned": ((WRAPPED, f"{WRAP}model = wrap(model)\n"),),
            "returned, walrus": ((WRAPPED, f"{WRAP}print(model := wrap(model))\n"),),
            "behind a raise": (before(unused("run(DDP(model))")),),
        },
    ),
    "PAI102 3": Question(
        ((WRAPPED, "model.features = DDP(model.features)\n"),),
        {
            "an attribute of a plain object": ((BUILT + WRAPPED, f"{HELD}held.encoder = Net()\n{OF_HELD}"),),
            "annotated": (
                (BUILT + WRAPPED, f"{HELD}held.encoder: Net = Net()\n{OF_HELD.replace('r =', 'r: DDP =', 1)}"),
            ),
            "of a namespace": ((BUILT + WRAPPED, f"held = types.SimpleNamespace()\nheld.encoder = Net()\n{OF_HELD}"),),
            "made by its class": (
                (
                    BUILT + WRAPPED,
                    HELD.replace("pass", BUILDS) + OF_HELD,
                ),
            ),
        },
    ),
    "PAI102 4": Question(
        ((BUILT + WRAPPED, f"{BUILD}model = build()\nteacher = build()\n"),),
        {
            "exclusive branches": (
                (BUILT + WRAPPED, f"{BUILD}if a:\n    model = build()\nelse:\n    model = build()\n"),
            ),
            "on one line": ((BUILT + WRAPPED, f"{BUILD}if a: model = build()\nelse: model = build()\n"),),
            "exclusive returns": (
                (
                    BUILT + WRAPPED,
                    f"{BUILD}def get():\n    if a:\n        return build()\n    return build()\n\n\nmodel = get()\n",
                ),
            ),
            "behind a raise": ((BUILT + WRAPPED, f"{BUILD}{unused('teacher = build()')}model = build()\n"),),
        },
    ),
    "PAI102 5": Question(
        ((BUILT + WRAPPED, f"nets = make()\n{EACH}"),),
        {
            "one alone": ((BUILT + WRAPPED, f"net = Net()\n{EACH.replace('nets', '[net]')}"),),
        },
    ),
    "PAI102 6": Question(
        ((WRAPPED + OPTIMIZER, f"{OPTIMIZER}{WRAPPED}model = Other()\n"),),
        {
            "annotated head": (before("model.fc: Linear = torch.nn.Linear(2, 2)\n", WRAPPED),),
            "head on one line": (before("if own: model.fc = torch.nn.Linear(2, 2)\n", WRAPPED),),
            "head in the same line": ((BUILT, "model = Net(); model.fc = torch.nn.Linear(2, 2)\n"),),
            "wrapped after its optimizer": ((WRAPPED + OPTIMIZER, OPTIMIZER + WRAPPED),),
            "another optimizer behind a raise": (before(unused(f"other = {ADAM}\nother.step()")),),
            "exclusive branches": ((BUILT, "if a: model = Net()\nelse: model = Other()\n"),),
        },
    ),
    "PAI102 7": Question(
        ((WRAPPED, f"{WRAPPED}slow = Net(2)\nslow.load_state_dict(model.module.state_dict())\n"),),
        {
            "built as the model is": (
                (WRAPPED, f"{WRAPPED}slow = Net()\nslow.load_state_dict(model.module.state_dict())\n"),
            ),
            "from a file": ((WRAPPED, f"{WRAPPED}slow = Net(2)\nslow.load_state_dict(torch.load('slow.pt'))\n"),),
        },
    ),
    "PAI102 8": Question(
        ((BUILT, ""),),
        {
            "by a name that is chosen": ((BUILT, "model = getattr(models, name)()\n"),),
            "walrus": ((BUILT, "print(model := Net())\n"),),
            "of a list": ((BUILT, "models = [Net()]\nmodel = models[0]\n"),),
            "of a factory": ((BUILT, "make = lambda: Net()\nmodel = make()\n"),),
            "made by the class of a plain object": (
                (
                    BUILT + WRAPPED,
                    HELD.replace("pass", BUILDS) + OF_HELD.replace("encoder", "net"),
                ),
            ),
        },
    ),
    "PAI102 9": Question(
        (before("Wrap = DDP if many else (lambda net: net)\n"), (WRAPPED, CHOSEN)),
        {
            "one of each kind": (
                before("from torch.nn import DataParallel\n\nWrap = DDP if many else DataParallel\n"),
                (WRAPPED, CHOSEN),
            ),
            "one of them": (before("Wrap = DDP\n"), (WRAPPED, CHOSEN)),
            "with other arguments": (
                before("from functools import partial\n\nWrap = partial(DDP, device_ids=[0]) if gpu else DDP\n"),
                (WRAPPED, CHOSEN),
            ),
            "of a dict": (before("Wrap = {'a': DDP, 'b': DDP}[name]\n"), (WRAPPED, CHOSEN)),
        },
    ),
    "PAI102 10": Question(
        ((BUILT + WRAPPED, "if many:\n    model = DDP(Net())\nelse:\n    model = Net()\n"),),
        {
            "built before": ((WRAPPED, "if many:\n    model = DDP(model)\n"),),
            "both by a name": (
                (BUILT + WRAPPED, "if many:\n    model = Net()\n    model = DDP(model)\nelse:\n    model = Net()\n"),
            ),
            "for a test": (
                (BUILT + WRAPPED, "if many:\n    model = DDP(Net())\nelse:\n    test(Net())\n    exit()\n"),
            ),
            "to load what is best": (
                (BUILT + WRAPPED, "model = DDP(Net())\n"),
                (inner(SCORE), inner(SCORE) + "model = Net()\ntest(model)\n"),
            ),
        },
    ),
    "PAI102 11": Question(
        (phases("spawn(first, nprocs=2)\nspawn(second, nprocs=2)\n"),),
        {
            "before it": (phases("spawn(second, nprocs=2)\nspawn(first, nprocs=2)\n"),),
            "in its own process": (phases("first(0)\nsecond(0)\n"),),
            "one of them": (phases("spawn(second if late else first, nprocs=2)\n"),),
            "instead of it": (phases("if late:\n    spawn(second)\nelse:\n    spawn(first)\n"),),
        },
        Options(model="model"),
    ),
    "PAI102 12": Question(
        trained_within("beside = torch.optim.SGD(whole.head.parameters(), lr=0.1)\n"),
        {
            "by one optimizer": trained_within("optimizer.add_param_group({'params': whole.head.parameters()})\n", ""),
            "nothing else": trained_within("", ""),
        },
    ),
    "PAI102 13": Question(
        ((BUILT + WRAPPED, f"{BUILD}model = build()\nteacher = build()  # retrofit: skip\n"),),
        {
            "another function": ((BUILT + WRAPPED, f"{BUILD}model = build()\nteacher = make()  # retrofit: skip\n"),),
            "not passed over": ((BUILT + WRAPPED, f"{BUILD}model = build()\n"),),
        },
    ),
    "PAI102 14": Question(
        ((WRAPPED, f"group = torch.distributed.new_group(ranks=[{RANK}])\nmodel = DDP(model, process_group=group)\n"),),
        {
            "of all": ((WRAPPED, "model = DDP(model, process_group=torch.distributed.new_group())\n"),),
            "of two": (
                (WRAPPED, f"own = [{RANK}, 1 - {RANK}]\nmodel = DDP(model, process_group=new_group(own))\n"),
                (IMPORT, f"{IMPORT}from torch.distributed import new_group\n"),
            ),
            "of several machines": (
                (
                    WRAPPED,
                    f"group = torch.distributed.new_group([{RANK}]) if alone else None\n"
                    "model = DDP(model, process_group=group)\n",
                ),
            ),
        },
    ),
    "PAI103 1": Question(
        (before(f"other = {ADAM}\n", "best = 0\n"), (STEP, f"{STEP[:-1]}; other.step()\n")),
        {
            "never stepped": (before(f"other = {ADAM}\n", "best = 0\n"),),
            "exclusive branches": ((OPTIMIZER, f"if adam: optimizer = {ADAM}\nelse: {OPTIMIZER}"),),
            "another name, annotated": (
                (OPTIMIZER, f"{OPTIMIZER.replace('optimizer', 'sgd: SGD', 1)}optimizer: SGD = sgd\n"),
            ),
            "behind a raise": (before(unused(f"other = {ADAM}\nother.step()")),),
            "of another's parameters": (
                before("other = torch.optim.Adam(criterion.parameters())\n", "best = 0\n"),
                (STEP, f"{STEP[:-1]}; other.step()\n"),
            ),
            "of an image": (before("other = torch.optim.Adam([torch.zeros(2)])\nother.step()\n", "best = 0\n"),),
            "where none of it is called": (before(f"def old(model):\n    other = {ADAM}\n    other.step()\n\n\n"),),
        },
    ),
    "PAI103 2": Question(
        (
            (OPTIMIZER, f"optimizers = [{ADAM}, {ADAM}]\n"),
            (ZERO, "        for one in optimizers: one.zero_grad()\n"),
            (STEP, "        for one in optimizers: one.step()\n"),
        ),
        {
            "a dict's item": ((OPTIMIZER, f"held = {{'sgd': {ADAM}}}\noptimizer = held['sgd']\n"),),
            "one in a list": ((OPTIMIZER, f"optimizers = [{ADAM}]\noptimizer = optimizers[0]\n"),),
            "walrus in a list": ((OPTIMIZER, f"optimizers = [optimizer := {ADAM}]\n"),),
            "unpacked": ((OPTIMIZER, f"(optimizer,) = [{ADAM}]\n"),),
            "a plain object's": ((OPTIMIZER, f"{HELD}held.optimizer = {ADAM}\noptimizer = held.optimizer\n"),),
        },
    ),
    "PAI103 3": Question(
        ((OPTIMIZER, ""), (ZERO, ""), (STEP, "")),
        {
            "by a name that is chosen": ((OPTIMIZER, "optimizer = getattr(torch.optim, name)(model.parameters())\n"),),
            "a name for it": ((OPTIMIZER, "make = torch.optim.SGD\noptimizer = make(model.parameters(), lr=0.1)\n"),),
            "a library's": ((OPTIMIZER, "optimizer = create_optimizer(args, model)\n"),),
            "an own class": (
                (OPTIMIZER, "class Own(torch.optim.SGD):\n    pass\n\n\noptimizer = Own(model.parameters())\n"),
            ),
            "built where the model has no name": (
                (
                    ALL,
                    "class Trainer:\n    def __init__(self, nets):\n"
                    "        self.optimizer = torch.optim.SGD(nets[0].parameters(), lr=0.1)\n\n\ndef main():\n"
                    + inner(
                        ALL.replace(OPTIMIZER, "trainer = Trainer([model])\n").replace(
                            "optimizer.", "trainer.optimizer."
                        )
                    )
                    + "\n\nmain()\n",
                ),
            ),
        },
    ),
    "PAI103 4": Question(
        (scored(f"{SCORE}optimizer = {ADAM}\n"),),
        {
            "in each turn": ((OPTIMIZER, ""), (EPOCHS, f"{EPOCHS}    {OPTIMIZER}")),
            "behind continue": ((EPOCHS, f"{EPOCHS}    if bad:\n        continue\n        optimizer = {ADAM}\n"),),
            "before it on one line": ((OPTIMIZER, f"optimizer = None\nif optimizer is None: {OPTIMIZER}"),),
            "in a block before it": ((OPTIMIZER, f"with device:\n    {OPTIMIZER}"),),
        },
    ),
    "PAI103 5": Question(
        (),
        {
            "its own name": (
                (OPTIMIZER, OPTIMIZER.replace("optimizer =", "sgd =")),
                (ZERO, ZERO.replace("optimizer", "sgd")),
                (STEP, STEP.replace("optimizer", "sgd")),
            ),
            "one of several": (before(f"sgd = {ADAM}\n", "best = 0\n"), (STEP, f"{STEP[:-1]}; sgd.step()\n")),
        },
        options=Options(optimizer="sgd"),
    ),
    "PAI103 6": Question(
        ((OPTIMIZER, f"if split:\n    optimizer = {{'a': make(1), 'b': make(2)}}\nelse:\n    {OPTIMIZER}"),),
        {
            "one in either branch": ((OPTIMIZER, f"if split:\n    optimizer = {ADAM}\nelse:\n    {OPTIMIZER}"),),
            "an empty one where nothing trains": (
                (OPTIMIZER, f"if idle:\n    optimizer = {{}}\nelse:\n    {OPTIMIZER}"),
            ),
            "of groups": (
                (OPTIMIZER, "params = [{'params': model.parameters()}]\noptimizer = torch.optim.SGD(params)\n"),
            ),
            "before it": ((OPTIMIZER, f"optimizer = [1]\n{OPTIMIZER}"),),
        },
    ),
    "PAI104 1": Question(
        ((BACKWARD, ""),),
        {
            "of an expression": ((BACKWARD, "        (loss / 2).backward()\n"),),
            "walrus": ((BACKWARD, "        (loss := loss / 2).backward()\n"),),
            "by a function": ((BACKWARD, "        torch.autograd.backward([loss])\n"),),
            "by a scaler, in the same line": ((BACKWARD, "        n = 1; scaler.scale(loss).backward()\n"),),
            "in a module found by parents": (
                before(f"{FROM}sys.path.append(str(Path(__file__).resolve().parents[0] / 'lib'))\n{STEPS}", IMPORT),
                (BATCHES, "    train(model, optimizer, loader)\n"),
            ),
            "in a module found by dirname": (
                before(f"{FROM}here: str = os.path.dirname(os.path.abspath(__file__))\n{JOINED}{STEPS}", IMPORT),
                (BATCHES, "    train(model, optimizer, loader)\n"),
            ),
        },
        files={"lib/steps.py": f"def train(model, optimizer, loader):\n{BATCHES}"},
    ),
    "PAI104 2": Question(
        (
            (BATCHES, "    step()\n"),
            before("def train():\n    criterion(model(x), y).backward()\n    optimizer.step()\n\n\n"),
        ),
        {
            "called in a line with others": ((BATCHES, "    n = 1; train(model)\n"), before(TRAIN)),
            "called by walrus": ((BATCHES, "    print(out := train(model))\n"), before(TRAIN)),
            "one of two functions": (
                (BATCHES, "    run = train if a else other\n    run(model)\n"),
                before(TRAIN + TRAIN.replace("train", "other")),
            ),
            "a plain object's method": (
                (BATCHES, "    held.train(model)\n"),
                before(f"class Held:\n    def train(self, model):\n{inner(BATCHES)}\n\nheld: Held = Held()\n"),
            ),
        },
    ),
    "PAI104 3": Question(
        ((EPOCHS, "while best < 0.9:\n"),),
        {
            "a counter": looped("while epoch < 10:", "epoch = 0\n", "epoch = 1 + epoch\n"),
            "an annotated counter": looped("while epoch < 10:", "epoch: int = 0\n", "epoch: int = epoch + 1\n"),
            "a walrus head": looped("while (epoch := epoch + 1) < 10:", "epoch = -1\n"),
            "a counter on one line": looped("while epoch < 10:", "epoch = 0\n", "if a: epoch += 1\n"),
            "a counter among others": looped("while epoch < 10:", "epoch = 0\n", "n = 0; epoch += 1\n"),
            "of a plain object": looped("while held.epoch < 10:", f"{HELD}held.epoch = 0\n", "held.epoch += 1\n"),
            "of a list": looped("for epoch in epochs:", "epochs = [1, 2, 3]\n"),
        },
    ),
    "PAI104 4": Question(
        ((EPOCHS, f"{EPOCHS}{BATCHES}    acc = evaluate(model)\n{EPOCHS}"),),
        {
            "before the epochs, without a score": ((EPOCHS, f"{EPOCHS}{BATCHES}{EPOCHS}"),),
            "behind a raise": (before(unused(EPOCHS + BATCHES)),),
            "a search for the rate": (
                before(f"def find_lr(model):\n{inner(EPOCHS + BATCHES)}\n\nfind_lr(model)\n", "best = 0\n"),
            ),
            "without a backward pass": ((EPOCHS, f"{EPOCHS}    for x, y in loader:\n        model(x)\n{EPOCHS}"),),
        },
    ),
    "PAI104 5": Question(
        ((ALL, f"for fold in range(5):\n{inner(ALL)}"),),
        {
            "a single one": ((ALL, f"for fold in [args.fold]:\n{inner(ALL)}"),),
            "one that is chosen": ((ALL, f"for fold in range(5):\n    if fold == args.fold:\n{inner(inner(ALL))}"),),
            "the others passed over": (
                (ALL, f"for fold in range(5):\n    if args.fold != fold: continue\n{inner(ALL)}"),
            ),
            "left after the first": ((ALL, f"for fold in range(5):\n{inner(ALL)}    break\n"),),
            "behind a raise": (before(unused(f"for fold in range(5):\n{inner(ALL)}")),),
        },
    ),
    "PAI104 6": Question(
        tried("wandb.agent(sweep, function=train, count=30)\n"),
        {
            "called by itself": tried("train()\n"),
            "called by itself too": tried(
                "if args.sweep:\n    wandb.agent(sweep, function=train)\nelse:\n    train()\n"
            ),
            "another function": tried("wandb.agent(sweep, function=score)\ntrain()\n"),
            "of a plain object": tried("wandb = Agents()\nwandb.agent(sweep, function=train)\ntrain()\n"),
            "behind a raise": tried(f"{unused('wandb.agent(sweep, function=train)')}train()\n"),
        },
    ),
    "PAI104 7": Question(
        ((inner(SCORE), f"{inner(SCORE)}    if acc > 0.9: break\nelse:\n    print(best)\n"),),
        {
            "after the loop": ((inner(SCORE), f"{inner(SCORE)}    if acc > 0.9: break\nprint(best)\n"),),
            "of a loop inside": ((BATCHES, f"{BATCHES}    else:\n        print(epoch)\n"),),
        },
    ),
    "PAI104 8": Question(
        ((ALL, f"if {RANK} < host:\n{inner(ALL)}else:\n    torch.distributed.scatter_object_list(given, orders)\n"),),
        {
            "all of them train": (
                (ALL, f"if {RANK} < host:\n    log()\nelse:\n    torch.distributed.barrier()\n{ALL}"),
            ),
            "by an option": ((ALL, f"if args.train:\n{inner(ALL)}else:\n    torch.distributed.barrier()\n"),),
            "without a part in the group": ((ALL, f"if {RANK} < host:\n{inner(ALL)}else:\n    serve()\n"),),
            "that may train as well": (
                (ALL, f"if {RANK} == 0 and done:\n    torch.distributed.barrier()\n    exit()\n{ALL}"),
            ),
            "in two ways": (
                (
                    ALL,
                    f"def train(log):\n{inner(ALL)}\n\nif {RANK} == 0:\n    train(print)\nelse:\n"
                    "    torch.distributed.barrier()\n    train(None)\n",
                ),
            ),
        },
    ),
    "PAI104 9": Question(
        ((PLAIN, f"{STARTS}os.system('python lib/fit.py')\n"),),
        {
            "that trains itself": (before("import os\nos.system('python lib/fit.py')\n", IMPORT),),
        },
        files={"lib/fit.py": PROGRAM},
    ),
    "PAI104 10": Question(
        ((ZERO, f"        break\n{ZERO}"),),
        {
            "sometimes": ((ZERO, f"        if over():\n            break\n{ZERO}"),),
            "behind it": ((STEP, f"{STEP}        break\n"),),
        },
    ),
    "PAI104 11": Question(
        ((ALL, AROUND.replace("range(10)", "range(1)")),),
        {
            "more turns": ((ALL, AROUND.replace("level", "seed")),),
            "two turns": ((ALL, AROUND.replace("level", "seed").replace("range(10)", "range(1, 3)")),),
            "nothing around": ((EPOCHS, EPOCHS.replace("10", "1")),),
        },
    ),
    "PAI104 12": Question(
        ((ALL, FURTHER),),
        {
            "the same again": ((ALL, FURTHER.replace("stage", "seed")),),
            "one of them": ((ALL, FURTHER.replace("in stages:", "in [stages[0]]:")),),
            "stages of one optimizer": (
                (
                    ALL,
                    ALL.replace(ALL[ALL.index(EPOCHS) :], f"for stage in stages:\n{inner(ALL[ALL.index(EPOCHS) :])}"),
                ),
            ),
        },
    ),
    "PAI104 13": Question(
        learnt("learn(model, scheduler=schedule)"),
        {
            "by its name": learnt("learn(model, schedule=schedule)"),
            "of any name": learnt("learn(model, scheduler=schedule)", "model, **more"),
            "of a dict": learnt("learn(model, **{'schedule': schedule})"),
            "where another one does not": learnt("learn(model) if schedule else learn(model, scheduler=schedule)"),
            "through a decorator": learnt("learn(model, scheduler=schedule)", above="@lenient\n"),
        },
    ),
    "PAI104 14": Question(
        ((ALL, EACH_ANEW),),
        {
            "before the loop": (
                (ALL, BUILT + WRAPPED + OPTIMIZER + EACH_ANEW.replace(inner(BUILT + WRAPPED + OPTIMIZER), "")),
            ),
            "in its first turn": (
                (
                    ALL,
                    BUILT_FOR_IT.replace(
                        "    model, optimizer = build()", "    if not epoch: model, optimizer = build()"
                    ),
                ),
            ),
            "if it is not kept": (
                (ALL, BUILT_FOR_IT.replace("def build():\n", "def build():\n    if kept:\n        return kept[0]\n")),
            ),
        },
    ),
    "PAI104 15": Question(
        within("def main():\n"),
        {
            "called": within("def main():\n", "main()\n"),
            "called where it is the main program": within("def main():\n", "if __name__ == '__main__': main()\n"),
            "given to what may call it": within("def main(*_):\n", "app.run(main)\n"),
            "kept by a decorator": within("@command\ndef main():\n"),
            "of a group of commands": within("@cli.command()\ndef main():\n", "cli()\n"),
            "started in processes": within(
                "def main(*_):\n", "mp.spawn(main, nprocs=2)\n", "import torch.multiprocessing as mp\n"
            ),
            "by any name": within("def main():\n", "globals()[wanted]()\n"),
            "by a name in a module": within(
                "def main():\n", "getattr(sys.modules[__name__], wanted)()\n", "import sys\n"
            ),
            "by a written name": within("def main():\n", "locate('train.main')()\n"),
            "by an expression": within("def main():\n", "eval(wanted)\n"),
            "by code in a text": within("def main():\n", "exec('main()')\n"),
            "by any code": within("def main():\n", "exec(wanted)\n"),
            "by all names": within("def main():\n", "for one in list(vars().values()): one()\n"),
            "by what reads the command line": within("def main():\n", "fire.Fire()\n", "import fire\n"),
            "out of a dict": within("def main():\n", "{'main': main}[wanted]()\n"),
            "as one of two": within("if x:\n    def main(): pass\nelse:\n    def main():\n", "main()\n"),
            "of a class": within("class Job:\n    def main(self):\n", "Job().main()\n"),
            "of a class that is started by its name": within(
                "class Job:\n    def main(self):\n", "fire.Fire(Job)\n", "import fire\n"
            ),
            "of what a library finds": within(
                "class Job(Command):\n    def main(self):\n", "run_all()\n", "from jobs import Command, run_all\n"
            ),
            "of what extends it": within(
                "class Job:\n    def __init_subclass__(cls): jobs.append(cls)\nclass Own(Job):\n    def main(self):\n",
                "jobs[0]().main()\n",
                "jobs = []\n",
            ),
            "of what a file holds": within("class Job:\n    def main(self):\n", "pickle.load(open(wanted)).main()\n"),
            "of a metaclass": within("class Job(metaclass=Kept):\n    def main(self):\n", "jobs[0]().main()\n"),
            "of subclasses": within(
                "class Job: pass\nclass Own(Job):\n    def main(self):\n", "Job.__subclasses__()[0]().main()\n"
            ),
        },
    ),
    "PAI104 16": Question(
        within("def main(rank):\n", "with mp.Pool(2) as pool: pool.map(main, [0, 1])\n", POOLS),
        {
            "spawned": within("def main(rank):\n", "mp.spawn(main, nprocs=2)\n", POOLS),
            "started one by one": within(
                "def main(rank):\n", "for rank in range(2): mp.Process(target=main, args=(rank,)).start()\n", POOLS
            ),
            "of something else": within(
                "def main():\n", "mp.Pool(2).map(os.remove, files)\nmain()\n", f"import os\n{POOLS}"
            ),
            "by a method of its own": within(
                "def main():\n", "class Held:\n    def map(self, run): run()\nHeld().map(main)\n", POOLS
            ),
        },
    ),
    "PAI105 1": Question(
        ((inner(SCORE), ""),),
        {
            "on one line": (scored("acc = evaluate(model); best = max(acc, best)\n"),),
            "walrus head": (scored("if best < (acc := evaluate(model)): best = acc\n"),),
            "of a plain object": (
                before(f"{HELD}held.best = 0\n", "best = 0\n"),
                scored("held.acc = evaluate(model)\nheld.best = max(held.best, held.acc)\n"),
            ),
            "made by a factory": (
                before(
                    "def make():\n    def score(net): return evaluate(net)\n    return score\n\n\nscorer = make()\n"
                ),
                scored("acc = scorer(model)\nbest = max(best, acc)\n"),
            ),
        },
    ),
    "PAI105 2": Question(
        (),
        {
            "a name of the loop": (scored("f1 = evaluate(model)\n"),),
            "annotated, on one line": (scored("if True: f1: float = evaluate(model)\n"),),
            "walrus": (scored("print(f1 := evaluate(model))\n"),),
        },
        Options(metric="f1", mode="max"),
    ),
    "PAI105 3": Question(
        (scored("val_loss, val_acc = evaluate(model)\n"),),
        {
            "the best of one": (scored("val_loss, val_acc = evaluate(model)\nif val_acc > best: best = val_acc\n"),),
            "exclusive branches": (
                scored("if a: acc = evaluate(model)\nelse: acc = test(model)\nif acc > best: best = acc\n"),
            ),
            "behind a raise": (
                scored(f"{SCORE}if bad:\n    raise E\n    f1 = test(model)\n    best = max(best, f1)\n"),
            ),
            "walrus": (scored("if (val_acc := evaluate(model)[1]) > best: best = val_acc\n"),),
        },
    ),
    "PAI105 4": Question(
        (scored("quality = evaluate(model)\n"),),
        {
            "compared": (scored("quality: float = evaluate(model)\nif best < quality: best = quality\n"),),
            "walrus head": (scored("if (quality := evaluate(model)) > best: best = quality\n"),),
            "a plateau": (
                before("plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, 'max')\n", "best = 0\n"),
                scored("quality = evaluate(model); plateau.step(quality)\n"),
            ),
        },
    ),
    "PAI105 5": Question(
        (
            DP,
            (
                "best = 0\n" + EPOCHS + BATCHES + inner(SCORE),
                f"{CLOSURES}def fit(model):\n{inner(FIT)}\n\nfit('big')\n",
            ),
        ),
        {
            "in scope": (
                DP,
                ("best = 0\n" + EPOCHS + BATCHES + inner(SCORE), f"{CLOSURES}def fit():\n{inner(FIT)}\n\nfit()\n"),
            )
        },
        IN_PROCESS,
    ),
    "PAI105 6": Question(
        (scored(f"if {RANK} != 0: continue\n{SCORE}"),),
        {
            "all ranks": (scored(f"if epoch % 5: continue\n{SCORE}"),),
            "after the score": (scored(f"{SCORE}if {RANK} != 0: continue\nsave(model)\n"),),
            "behind a raise": (scored(f"if bad:\n    raise E\n    if {RANK} != 0: continue\n{SCORE}"),),
            "exclusive branches": (scored(f"if {RANK} != 0: log()\nelse: save()\n{SCORE}"),),
            "in a loop of its own": (scored(f"for x in loader:\n    if {RANK} != 0: continue\n{SCORE}"),),
        },
    ),
    "PAI105 7": Question(
        (scored(f"if epoch == 9:\n{inner(SCORE)}"),),
        {
            "every few": (scored(f"if epoch % 5 == 0 or epoch == 9:\n{inner(SCORE)}"),),
            "every one but one": (scored(f"if epoch == 0: pass\nelse:\n{inner(SCORE)}"),),
            "exclusive branches": (
                scored("if epoch == 9: acc = test(model)\nelse: acc = evaluate(model)\nbest = max(best, acc)\n"),
            ),
            "told in one epoch": (scored(f"{SCORE}if epoch == 9: print(acc)\n"),),
        },
    ),
    "PAI105 8": Question(
        ((EPOCHS, "while True:\n"), STEPPED),
        {
            "every so many": (
                *looped("while step < 1000:", "step = 0\n", "")[:2],
                STEPPED,
                scored(f"step += 1\nif step % 100 == 0:\n{inner(SCORE)}"),
            ),
            "epochs of one step": (STEPPED,),
            "all data in each": (
                before("x, y = load()\n", "best = 0\n"),
                (EPOCHS, "for i in range(10):\n"),
                (STEPPED[0], STEPPED[1].replace("    x, y = next(batches)\n", "")),
            ),
            "a loop over batches": ((EPOCHS, "while True:\n"),),
        },
    ),
    "PAI105 9": Question(
        (scored("if one: acc = evaluate(model)\nelse: acc = [evaluate(net) for net in nets]\nlog(acc)\n"),),
        {
            "their mean": (
                scored(
                    "acc: list = [evaluate(net) for net in nets]\nacc: float = sum(acc) / 2\nbest = max(best, acc)\n"
                ),
            ),
            "their mean in one branch": (
                scored(
                    "if one: acc = evaluate(model)\nelse: acc = [evaluate(net) for net in nets]; acc = sum(acc) / 2\n"
                    "best = max(best, acc)\n"
                ),
            ),
            "one of them": (scored("acc = [evaluate(net) for net in nets][0]\nbest = max(best, acc)\n"),),
            "listed later": (scored(f"{SCORE}acc = [evaluate(net) for net in nets]\n"),),
        },
    ),
    "PAI105 10": Question(
        (before(KEEPS.format(f"{RANK} == 0 and ", "")), scored(TWICE)),
        {
            "noted by the one call": (
                before(KEEPS.format(f"{RANK} == 0 and ", "")),
                scored("best = validate(model, best)\n"),
            ),
            "the epoch's own is returned with it": (
                before(KEEPS.format(f"{RANK} == 0 and ", "").replace("return best", "return acc, best")),
                scored("acc, best = validate(model, best)\n"),
            ),
        },
    ),
    "PAI105 11": Question(
        (scored(f"if args.world_size == 1:\n{inner(SCORE)}"),),
        {
            "or another condition": (scored(f"if args.world_size == 1 or args.always:\n{inner(SCORE)}"),),
            "exclusive branches": (
                scored(
                    "if args.world_size == 1: acc = evaluate(model)\nelse: acc = test(model)\nbest = max(best, acc)\n"
                ),
            ),
            "told by it": (scored(f"{SCORE}if args.world_size == 1: print(acc)\n"),),
        },
    ),
    "PAI105 12": Question(
        (scored("if loss < best: best = loss\n"),),
        {
            "of other data": (
                scored("with torch.no_grad(): loss = criterion(model(u), v)\nif loss < best: best = loss\n"),
            ),
            "under the same name": (scored("loss = evaluate(model)\nif loss < best: best = loss\n"),),
            "beside it": (scored("log(loss)\nerr = evaluate(model)\nif err < best: best = err\n"),),
            "a second pass": (
                scored(
                    "for x, y in held_out:\n    loss = criterion(model(x), y)\n    total += loss\n"
                    "if total > best: best = total\n"
                ),
            ),
        },
    ),
    "PAI105 13": Question(
        (scored("val_acc, quality = evaluate(model)\nif keeper.improved(quality): torch.save(model, path)\n"),),
        {
            "by itself": (
                scored("val_acc, quality = evaluate(model)\nif keeper.improved(val_acc): torch.save(model, path)\n"),
            ),
            "told the user": (scored("val_acc, quality = evaluate(model)\nif quality > 9: print(quality)\n"),),
            "behind a raise": (
                scored(
                    "val_acc, quality = evaluate(model)\nif bad:\n    raise E\n"
                    "    if keeper.improved(quality): torch.save(model, path)\n"
                ),
            ),
        },
    ),
    "PAI105 14": Question(
        (scored("acc = evaluate(model)\ntorch.distributed.reduce(acc, 1)\nif acc > best: best = acc\n"),),
        {
            "on rank 0": (
                scored("acc = evaluate(model)\ntorch.distributed.reduce(acc, 0)\nif acc > best: best = acc\n"),
            ),
            "of another value": (scored(f"torch.distributed.reduce(n, 1)\n{SCORE}"),),
            "given to all": (
                scored(
                    "acc = evaluate(model)\ntorch.distributed.reduce(acc, 1)\ntorch.distributed.broadcast(acc, 1)\n"
                    "if acc > best: best = acc\n"
                ),
            ),
        },
    ),
    "PAI105 15": Question(
        (scored("acc = evaluate(model) if epoch % 5 == 0 else 0.0\nif acc > best: best = acc\n"),),
        {
            "None": (scored("acc = evaluate(model) if epoch % 5 == 0 else None\nif acc and acc > best: best = acc\n"),),
            "on other ranks": (scored(f"acc = evaluate(model) if {RANK} == 0 else 0.0\nif acc > best: best = acc\n"),),
            "by another condition": (scored("acc = evaluate(model) if data else 0.0\nif acc > best: best = acc\n"),),
        },
    ),
    "PAI105 16": Question(
        (scored("for held in sets: acc = evaluate(model, held)\nif acc > best: best = acc\n"),),
        {
            "one of them": (
                scored("for held in sets:\n    if held == 'val': acc = evaluate(held)\nif acc > best: best = acc\n"),
            ),
            "their best": (
                scored("acc = 0\nfor held in sets: acc = max(acc, evaluate(held))\nif acc > best: best = acc\n"),
            ),
            "left after one": (
                scored("for held in sets: acc = evaluate(model, held); break\nif acc > best: best = acc\n"),
            ),
            "another loop": (scored(f"for held in sets: other = evaluate(held)\n{SCORE}"),),
        },
    ),
    "PAI105 17": Question(
        (
            before(
                FITTING + "    if epoch % 5 == 0: loss = evaluate(model)\n    return loss\n\n\n",
            ),
            scored("loss = fit(model, epoch)\nif loss < best: best = loss\n"),
        ),
        {
            "a name of its own": (
                before(
                    FITTING + "    err = evaluate(model)\n    return err\n\n\n",
                ),
                scored("loss = fit(model, epoch)\nif loss < best: best = loss\n"),
            ),
            "in the loop": (scored("if epoch % 5 == 0: loss = evaluate(model)\nif loss < best: best = loss\n"),),
        },
    ),
    "PAI105 18": Question(
        (
            before("total = 0\n"),
            scored("for x in held: total += evaluate(x)\nacc = total / 2\nif acc > best: best = acc\n"),
        ),
        {
            "begun anew": (
                before("total = 0\n"),
                scored("total = 0\nfor x in held: total += evaluate(x)\nacc = total / 2\nif acc > best: best = acc\n"),
            ),
            "beside it": (before("total = 0\n"), scored(f"{SCORE}total += acc\nlog(total)\n")),
        },
    ),
    "PAI105 19": Question(
        (scored(METERED.format("", "    meter.reset()\n", "")),),
        {
            "before each part": (scored(METERED.format("    meter.reset()\n", "", "")),),
            "afterwards": (scored(METERED.format("", "", "meter.reset()\n")),),
        },
        Options(metric="meter.avg", mode="max"),
    ),
    "PAI105 20": Question(
        (before(KEEPS.format("", "")), scored(TWICE)),
        {
            "noted by the one call": (before(KEEPS.format("", "")), scored("best = validate(model, best)\n")),
            "the epoch's own is returned with it": (
                before(KEEPS.format("", "").replace("return best", "return acc, best")),
                scored("acc, best = validate(model, best)\n"),
            ),
            "the epoch's own is kept beside it": (
                before(KEEPS.format("", "")),
                scored("acc = validate(model, 0)\nbest = max(best, acc)\n"),
            ),
        },
    ),
    "PAI105 21": Question(
        (
            (EPOCHS, "for i in range(10):\n"),
            (STEPPED[0], STEPPED[1].replace("next(batches)", "draw()")),
            scored("total = loss.item()\n"),
        ),
        {
            "a loop over batches": ((EPOCHS, "for i in range(10):\n"), scored("total = loss.item()\n")),
            "epochs of one step": (
                (STEPPED[0], STEPPED[1].replace("next(batches)", "draw()")),
                scored("total = loss.item()\n"),
            ),
            "every so many": (
                (EPOCHS, "for i in range(10):\n"),
                (STEPPED[0], STEPPED[1].replace("next(batches)", "draw()")),
                scored("if i % 100 == 0:\n    total = loss.item()\n"),
            ),
            "evaluated": (
                (EPOCHS, "for i in range(10):\n"),
                (STEPPED[0], STEPPED[1].replace("next(batches)", "draw()")),
                scored("total = evaluate(model)\n"),
            ),
        },
        Options(metric="total", mode="min"),
    ),
    "PAI105 22": Question(
        (before(TOLD + TOLD.replace("validate", "test")), scored("validate(model)\ntest(model)\n")),
        {
            "one alone": (before(TOLD + TOLD.replace("validate", "test")), scored("validate(model)\n")),
            "another name": (
                before(TOLD + TOLD.replace("validate", "test").replace("acc", "rate")),
                scored("validate(model)\ntest(model)\n"),
            ),
        },
        Options(metric="acc", mode="max"),
    ),
    "PAI105 23": Question(
        (
            before(TESTER.format("pass", f"if {RANK} == 0:\n            self.acc = evaluate(net)")),
            scored("t.test(model)\n"),
        ),
        {
            "always": (before(TESTER.format("pass", "self.acc = evaluate(net)")), scored("t.test(model)\n")),
            "begun with the object": (
                before(TESTER.format("self.acc = None", f"if {RANK} == 0:\n            self.acc = evaluate(net)")),
                scored("t.test(model)\n"),
            ),
            "set by the loop": (
                before(TESTER.format("pass", "return evaluate(net)")),
                scored("t.acc = t.test(model)\n"),
            ),
        },
        Options(metric="t.acc", mode="max"),
    ),
    "PAI105 24": Question(
        packed("i % 5 == 0"),
        {
            "by steps": packed("step % 5 == 0"),
            "so many batches": packed("i % 5 == 0", "1"),
            "in one process": (DP, *packed("i % 5 == 0")),
        },
    ),
    "PAI106 1": Question(
        (UPA, before("model = UPA.perforate_model(model, save_name='mine')\n", WRAPPED)),
        {
            "the same": (UPA, before("model = UPA.perforate_model(model, save_name='other')\n", WRAPPED)),
            "an own function's": (before("model = own.perforate_model(model, save_name='mine')\n", WRAPPED),),
        },
        Options(save_name="other"),
    ),
    "PAI106 2": Question(
        (UPA, before("model = UPA.perforate_model(model, save_name=args.name)\n", WRAPPED)),
        {
            "written": (UPA, before("model: Net = UPA.perforate_model(model, save_name='mine')\n", WRAPPED)),
            "left out": (UPA, before("model = UPA.perforate_model(model)\n", WRAPPED)),
            "an own function's": (before("model = own.perforate_model(model, save_name=args.name)\n", WRAPPED),),
        },
    ),
    "PAI106 3": Question(
        (
            GPA,
            before("import perforatedai.utils_perforatedai as UPA\nmodel = UPA.perforate_model(model)\n", WRAPPED),
            before("GPA.pc.set_save_name('mine')\n"),
        ),
        {
            "an own object's": (before(f"{HELD}held.pc.set_save_name('mine')\n"),),
            "behind a raise": (GPA, before(unused("GPA.pc.set_save_name('mine')"))),
        },
    ),
    "PAI107 1": Question(
        (before("import parts\nfrom .data import loader\n", IMPORT),),
        {
            "tried": (
                before(
                    "try:\n    from .data import loader\nexcept ImportError:\n    from data import loader\n", IMPORT
                ),
            ),
            "an option": (before("if zipped: from .data import loader\n", WRAPPED),),
            "behind a raise": (before(unused("from .data import loader")),),
        },
        files={"data.py": "", "parts.py": ""},
    ),
    "PAI108 1": Question(
        (before("from perforatedai import pb_globals as PBG\n\nPBG.maxDendrites = 3\n"),),
        {
            "a plain object's": (before("PBG = held\nPBG.maxDendrites = 3\n"),),
            "a module of the project": (before("from own import pb_globals as PBG\n\nPBG.maxDendrites = 3\n"),),
        },
        files={"own.py": "pb_globals = None\n"},
    ),
    "PAI108 2": Question(
        (UPA, before("model = UPA.initialize_dendrites(model)\n", WRAPPED)),
        {
            "an own function": (
                before(
                    "def initialize_dendrites(net):\n    return net\n\n\nmodel = initialize_dendrites(model)\n", WRAPPED
                ),
            ),
            "behind a raise": (UPA, before(unused("return UPA.initialize_dendrites(model)"))),
            "an earlier name of the same": (UPA, before("model = UPA.initialize_pai(model)\n", WRAPPED)),
        },
    ),
    "PAI114 1": Question(
        (DP, before("ema = ModelEma(model)\n", OPTIMIZER), (STEP, f"{STEP}        ema.update(model)\n")),
        {
            "of another": (
                DP,
                before("ema = ModelEma(teacher)\n", OPTIMIZER),
                (STEP, f"{STEP}        ema.update(teacher)\n"),
            ),
            "of the loss": (DP, before("ema = Ema()\n", OPTIMIZER), (STEP, f"{STEP}        ema.update(loss)\n")),
            "behind a raise": (DP, before(unused("ema = ModelEma(model)\nema.update(model)"))),
        },
        IN_PROCESS,
    ),
    "PAI115 1": Question(
        (before(f"{BY_HAND}torch.distributed.init_process_group(rank=args.rank)\n"),),
        {
            "of the environment": (before(f"{BY_HAND}torch.distributed.init_process_group()\n"),),
            "of a plain object": (before(f"{HELD}torch.distributed.init_process_group(rank=held.rank)\n"),),
            "the variable by default": (
                before(
                    BY_HAND.replace("default=0", "default=os.environ['RANK']")
                    + "torch.distributed.init_process_group(rank=args.rank)\n"
                ),
            ),
            "behind a raise": (
                before(
                    unused("torch.distributed.init_process_group(rank=0)") + "torch.distributed.init_process_group()\n"
                ),
            ),
        },
    ),
    "PAI118 1": Question(
        (UPA, (BUILT, f"{GROWN}model.head = torch.nn.Linear(8, 2)\n")),
        {"before its dendrites": (UPA, (BUILT, GROWN.replace("model = UPA", "model.head = Net(2)\nmodel = UPA")))},
    ),
    "PAI119 1": Question(
        (UPA, (BUILT, f"import time\n{GROWN}".replace("'mine'", "f'run_{time.time()}'"))),
        {"the time beside it": (UPA, (BUILT, f"import time\nbegun = time.time()\n{GROWN}"))},
    ),
    "PAI120 1": Question(
        (UPA, (BUILT, GROWN.replace("'mine'", "'runs/mine'"))),
        {"a file in that folder": (UPA, (BUILT, f"{GROWN}path = 'runs/mine'\n"))},
    ),
}


@cache
def numbered() -> Recipe:
    """Return the recipe with the code and number of each question before its message."""
    rules = []
    for rule in recipe().rules:
        asks = [replace(ask, message=f"{rule.code} {n}: {ask.message}") for n, ask in enumerate(rule.asks, start=1)]
        rules.append(replace(rule, asks=tuple(asks)))
    return replace(recipe(), rules=tuple(rules))


def plan(folder: Path, question: Question, swaps: Swaps) -> Plan:
    for name, text in question.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(code(text))
    text = PLAIN
    for old, _ in swaps:
        assert PLAIN.count(old) == 1, f"{old!r} is there {PLAIN.count(old)} times"
    for old, new in sorted(swaps, key=lambda swap: PLAIN.index(swap[0]), reverse=True):  # none finds what another wrote
        start = PLAIN.index(old)
        text = text[:start] + new + text[start + len(old) :]
    (folder / "train.py").write_text(text)
    return make_plan(folder / "train.py", "train.py", numbered(), question.options)


def test_every_question_is_here() -> None:
    assert [*QUESTIONS] == [f"{rule.code} {n}" for rule in recipe().rules for n in range(1, len(rule.asks) + 1)]


@pytest.mark.parametrize("name", QUESTIONS)
def test_it_is_asked_where_it_is_so(tmp_path: Path, name: str) -> None:
    questions = plan(tmp_path, QUESTIONS[name], QUESTIONS[name].asked).questions
    assert [question.message.partition(":")[0] for question in questions] == [name]


@pytest.mark.parametrize(
    "swap",
    [
        ("", ""),
        ("    model = Net()\n", "    if wide:\n        model = Net(9)\n    else:\n        model = Net()\n"),
        ("    model = Net()\n", "    if bad:\n        raise ValueError\n    model = Net()\n"),
    ],
    ids=["plainly", "one of two kinds", "behind a check"],
)
def test_a_model_that_a_function_builds_for_each_turn_is_asked_about(tmp_path: Path, swap: tuple[str, str]) -> None:
    questions = plan(tmp_path, QUESTIONS["PAI104 14"], ((ALL, BUILT_FOR_IT.replace(*swap)),)).questions
    assert [question.message.partition(":")[0] for question in questions] == ["PAI104 14"]


@pytest.mark.parametrize("end", [PARTED, f"if group is None:\n    {PARTED}", f"if acc:\n    {PARTED}"])
def test_a_group_that_may_be_none_is_the_one_of_all_ranks(tmp_path: Path, end: str) -> None:
    questions = plan(tmp_path, QUESTIONS["PAI011 2"], (PARTING, scored(f"{AT_TIMES}{end}"))).questions
    assert [question.message.partition(":")[0] for question in questions] == ["PAI011 2"]


@pytest.mark.parametrize("called", [False, True])
def test_a_wrapper_that_nothing_calls_is_told(tmp_path: Path, called: bool) -> None:
    wraps = f"def wrap(module):\n    return DDP(module)\n\n\nmodel = {'wrap' if called else 'chosen.wrap'}(given)\n"
    (question,) = plan(tmp_path, QUESTIONS["PAI102 8"], ((BUILT + WRAPPED, wraps),)).questions
    assert question.message.startswith("PAI102 8")
    assert ("nothing was found to call `wrap` (line " in question.message) is not called


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("model, scheduler=1", "gives `scheduler`, which `learn` does not take"),
        ("model, 1, 2, 3", "gives 4 arguments by position, of which `learn` takes 2"),
        ("schedule=1", "does not give `model`, which `learn` must have"),
        ("model, model=net", "gives `model` twice"),
    ],
)
def test_a_call_that_fails_for_its_arguments_is_told_where_it_stands(tmp_path: Path, given: str, why: str) -> None:
    text = PLAIN
    for old, new in learnt(f"learn({given})"):
        text = text.replace(old, new)
    (question,) = plan_of(tmp_path, text).questions
    at = next(number for number, line in enumerate(text.splitlines(), 1) if f"learn({given})" in line)
    assert (question.code, question.line) == ("PAI104", at)
    assert question.message.startswith(f"`learn(...)` {why}: it fails here, and nothing else was found to call `learn`")


def test_a_call_that_cannot_wrap_is_told_where_it_stands(tmp_path: Path) -> None:
    wraps = "def wrap(module):\n    return DDP(module)\n\n\nmodel = wrap(given, device=0)\n"
    (question,) = plan(tmp_path, QUESTIONS["PAI102 8"], ((BUILT + WRAPPED, wraps),)).questions
    assert question.message.startswith("PAI104 13")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"if {RANK} == 9:\n    serve()\n    exit()\n{ALL}", id="before they leave"),
        pytest.param(f"if {RANK} == 9: serve()\nelse:\n{inner(ALL)}", id="in the first branch"),
        pytest.param(f"if alone: pass\nelif {RANK} == 9: serve()\nelse:\n{inner(ALL)}", id="in one of several"),
    ],
)
def test_ranks_that_never_train_are_found_elsewhere(tmp_path: Path, text: str) -> None:
    serves = "def serve():\n    torch.distributed.scatter_object_list(given, orders)\n\n\n"
    (question,) = plan(tmp_path, QUESTIONS["PAI104 8"], ((ALL, serves + text),)).questions
    assert "they run `torch.distributed.scatter_object_list` (line " in question.message


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(f"    if {RANK} == 0: print(best)\n", id="told by one"),
        pytest.param(
            f"    if bad:\n        raise E\n        if {RANK} == 0 and acc > best: best = acc\n", id="behind a raise"
        ),
    ],
)
def test_a_best_so_far_that_all_ranks_know_is_asked_about_as_such(tmp_path: Path, after: str) -> None:
    asked = QUESTIONS["PAI105 20"]
    keeps = KEEPS.format("", after).replace("best):", "kept):\n    best = kept")
    swaps = before(keeps), scored("best = validate(model, best)\n")
    (question,) = plan(tmp_path, asked, swaps).questions
    assert "which never falls" in question.message
    assert "--metric acc --mode max takes the epoch's own" in question.message
    named = replace(asked, options=replace(PLAINLY, metric="best", mode="max"))
    assert plan(tmp_path, named, swaps).questions == []


@pytest.mark.parametrize(
    ("keeps", "own"),
    [
        pytest.param("if s / n < best_loss:\n    best_loss = s / len(loader)\n", "min", id="lower"),
        pytest.param("if (s / n) >= best_loss:\n    bad = 1\nelse:\n    best_loss = s / 9\n", "min", id="else"),
        pytest.param("if not s / n <= best_acc:\n    best_acc = s / 9\n", "max", id="not lower"),
        pytest.param("if s / n < best_loss:\n    best_loss = s / n\n", "", id="the epoch's own is known"),
        pytest.param("if loss > 9.0:\n    loss = s / n\n", "", id="a limit"),
        pytest.param("if epoch % 2:\n    val_loss = s / n\n", "", id="some epochs"),
        pytest.param("val_loss = s / n\nif val_loss < low:\n    val_loss = s / n\n", "", id="each epoch"),
    ],
)
def test_a_best_so_far_that_the_loop_takes_otherwise_is_asked_about(tmp_path: Path, keeps: str, own: str) -> None:
    sums = "model.eval()\ns, n = 0, 0\nwith torch.no_grad():\n    for x, y in loader:\n"
    swaps, asked = (scored(f"{sums}        s += model(x)\n        n += 1\n{keeps}"),), Question((), {})
    questions = plan(tmp_path, asked, swaps).questions
    assert len(questions) == bool(own)
    for question in questions:
        assert "which never falls" in question.message
        assert f"--metric 's / n' --mode {own} takes the epoch's own" in question.message
        answered = replace(asked, options=replace(PLAINLY, metric="s / n", mode=own))
        assert "_score(s / n" in rewritten(plan(tmp_path, answered, swaps))


@pytest.mark.parametrize(
    ("keeps", "call"),
    [
        pytest.param((("best):", "kept):\n    best, _ = kept"),), "(best, epoch)", id="in a tuple"),
        pytest.param((("best):", "kept):\n    best = kept[0]"),), "(best, epoch)", id="as an item"),
        pytest.param((("best):", "kept):\n    best = kept"),), "best", id="by another name"),
        pytest.param(
            (("        best = acc\n    return best", "        return acc\n    return best"),), "best", id="either"
        ),
        pytest.param(
            (("    if acc > best:\n        best = acc\n", ""), ("return best", "return acc if acc > best else best")),
            "best",
            id="by a choice",
        ),
    ],
)
def test_a_best_so_far_is_known_however_it_comes_and_goes(tmp_path: Path, keeps: Swaps, call: str) -> None:
    asked, function = QUESTIONS["PAI105 20"], KEEPS.format("", "")
    for old, new in keeps:
        assert old in function
        function = function.replace(old, new, 1)
    (question,) = plan(tmp_path, asked, (before(function), scored(f"best = validate(model, {call})\n"))).questions
    assert "which never falls" in question.message
    assert "--mode max takes the best all the same" in question.message
    for first in ("0", "-9.5", "float('-inf')", "chosen"):  # by the training, as a threshold
        anew = scored(f"chosen = choose(model)\nbest_acc = validate(model, {call.replace('best', first)})\n")
        made = plan(tmp_path, asked, (before(function), anew))
        assert not any("which never falls" in question.message for question in made.questions)


@pytest.mark.parametrize(
    ("question", "swaps"),
    [
        pytest.param(question, swaps, id=f"{name}-{look}")
        for name, question in QUESTIONS.items()
        for look, swaps in question.silent.items()
    ],
)
def test_nothing_is_asked_where_it_is_not_so(tmp_path: Path, question: Question, swaps: Swaps) -> None:
    made = plan(tmp_path, question, swaps)
    assert made.questions == []
    new = rewritten(made)
    compile(new, "train.py", "exec")
    assert "perforate_model(" in new
    assert "add_validation_score(" in new or "report_validation_score(" in new


@pytest.mark.parametrize(("metric", "leaving"), [("best_acc", 0), ("loss", 1)])
def test_where_ranks_leave_is_told_of_a_score_that_the_loop_has(tmp_path: Path, metric: str, leaving: int) -> None:
    text = script("if rank == 0:\n    continue\nloss = evaluate(model)\nprint(loss)")
    plan = plan_of(tmp_path, text, Options(metric=metric, mode="max"))
    assert sum("some ranks leave" in question.message for question in plan.questions) == leaving
    assert plan.questions
