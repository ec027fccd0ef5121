"""Tell the trainings of one script apart: the one of the wrapped model, and the one that the user chooses."""

from pathlib import Path
from textwrap import indent

import pytest

from retrofit.errors import UserError
from retrofit.options import Options
from tests.helpers import code, plan_of, rewritten, script, survey_of

CHOICE = """
import argparse
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def evaluate(model):
    return sum(float(model(x)) for x in val)

def train(model, optimizer):
    for epoch in range(9):
        for x, y in loader:
            optimizer.zero_grad()
            (model(x) - y).mean().backward()
            optimizer.step()
        val_loss = evaluate(model)
        if val_loss < best:
            torch.save(model.state_dict(), "best.pt")

def train_time(model, optimizer):
    for epoch in range(9):
        for x, y, t in loader:
            optimizer.zero_grad()
            (model(x, t) - y).mean().backward()
            optimizer.step()
        val_loss = evaluate(model)
        if val_loss < best:
            torch.save(model.state_dict(), "best.pt")

parser = argparse.ArgumentParser()
parser.add_argument("--time", action="store_true")
args = parser.parse_args()
model = DDP(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if args.time:
    train_time(model, optimizer)
else:
    train(model, optimizer)
"""

FALLBACK = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def train_epoch(model, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        (model(x) - y).mean().backward()
        optimizer.step()

def train_distributed():
    model = Net()
    model = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(9):
        train_epoch(model, optimizer)

def train_alone():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(9):
        train_epoch(model, optimizer)

RUN
"""

EITHER = "train_distributed() if torch.cuda.is_available() else train_alone()"


@pytest.mark.parametrize(("chosen", "line"), [("train_time.model", 19), ("train.model", 9)])
def test_one_of_several_training_functions_is_chosen(tmp_path: Path, chosen: str, line: int) -> None:
    found = survey_of(CHOICE)
    assert found.trainers == ["train.model", "train_time.model"]
    (loop,) = survey_of(CHOICE, model=chosen).loops
    assert loop.line == line
    assert "train.model or train_time.model" in str(plan_of(tmp_path, CHOICE).questions[0])
    plan = plan_of(tmp_path, CHOICE, Options(model=chosen, metric="val_loss", mode="min"))
    assert plan.questions == []
    assert rewritten(plan).count("planned_epochs(") == 1


METHODS = """
class Trainer:
    def __init__(self):
        self.model = DDP(Net())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self):
        for epoch in range(9):
            self.turn()
            val_loss = evaluate(self.model)
            if val_loss < best:
                torch.save(self.model.state_dict(), "best.pt")

    def train_long(self):
        for epoch in range(99):
            self.turn()

    def turn(self):
        for x, y in loader:
            self.optimizer.zero_grad()
            (self.model(x) - y).mean().backward()
            self.optimizer.step()

trainer = Trainer()
if args.time:
    trainer.train_long()
else:
    trainer.train()
"""


def test_one_of_several_training_methods_of_a_class_is_chosen(tmp_path: Path) -> None:
    before, _, after = CHOICE.partition("def train(")
    text = before + after[after.index("parser =") :].partition("model = DDP")[0] + METHODS
    (question,) = plan_of(tmp_path, text).questions
    assert "Say which trains with --model NAME: train.self.model or train_long.self.model." in question.message
    changed = rewritten(plan_of(tmp_path, text, Options(model="train.self.model")))
    assert "report_validation_score(val_loss, self.model" in changed


def test_no_name_is_asked_for_where_a_training_leads_to_the_others(tmp_path: Path) -> None:
    """It cannot be left out by the name of another one."""
    before, _, after = CHOICE.partition("def train(")
    head = before + after[after.index("parser =") :].partition("model = DDP")[0]
    short = "elif args.short:\n    for epoch in range(2):\n        trainer.turn()\nelse:"
    text = head + METHODS.replace("else:", short)
    plan = plan_of(tmp_path, text)
    assert plan.questions == []
    assert "report_validation_score(val_loss, self.model" in rewritten(plan)
    assert [note.line for note in plan.notes if "this is a training, too" in note.message] == [26]
    scored = text.replace(
        "range(99):\n            self.turn()",
        "range(99):\n            self.turn()\n            print(evaluate(self.model))",
    )
    (question,) = plan_of(tmp_path, scored).questions
    assert "line 19 (if `not args.short`), line 26 (if `args.time`), line 40 (if `args.short`)" in question.message
    assert "--model NAME" not in question.message
    assert question.message.endswith("line 19 or line 26.")


TASKS = """
import argparse
import torch

class Tasks:
    def __init__(self, several):
        self.several = several
        self.model = self.built()

    def built(self):
        model = Net()
        return torch.nn.DataParallel(model) if self.several else model
PRETRAINS
TRAINS

parser = argparse.ArgumentParser()
parser.add_argument("--task", default="train")
parser.add_argument("--several", action="store_true")
parser.add_argument("--runs", type=int, default=1)
args = parser.parse_args()
for run in range(args.runs):
    tasks = Tasks(args.several)
    if args.task == "train":
        tasks.train()
    else:
        tasks.pretrain()
"""
TASK = """
    def train(self):
        optimizer = torch.optim.Adam(self.model.parameters())
        for epoch in range(9):
            for x, y in loader:
                optimizer.zero_grad()
                loss = criterion(self.model(x), y)
                loss.backward()
                optimizer.step()
            val_loss = evaluate(self.model)
            if val_loss < best:
                torch.save(self.model.state_dict(), "best.pt")
"""


@pytest.mark.parametrize("task", ["train", "pretrain"])
def test_so_it_is_where_a_loop_repeats_both(tmp_path: Path, task: str) -> None:
    """That is around what the other one trains as well, and says nothing of it."""
    text = TASKS.replace("TRAINS", TASK, 2).replace(f"PRE{TASK}", TASK.replace("train", "pretrain"))
    changed = rewritten(plan_of(tmp_path, text, Options(model=f"{task}.self.model")))
    trained = changed[changed.index(f"def {task}(") :]
    assert trained.index("report_validation_score(val_loss") < trained.find("    def ", 9) % len(trained)


def test_trainings_of_which_one_runs_after_the_other_are_no_choice() -> None:
    both = CHOICE.replace("else:\n    train(model, optimizer)", "train(model, optimizer)")
    assert (len(survey_of(both).loops), survey_of(both).trainers) == (2, [])


def test_an_unknown_training_is_told() -> None:
    assert survey_of(CHOICE, model="fit.model").other_models == ["model"]


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(f"{EITHER}", id="either"),
        pytest.param("if cuda:\n    train_distributed()\nelse:\n    train_alone()", id="branches"),
        pytest.param("done = train_distributed()\nif not done:\n    train_alone()", id="fallback"),
    ],
)
def test_a_training_of_another_model_that_is_not_wrapped_is_left_alone(run: str) -> None:
    found = survey_of(FALLBACK.replace("RUN", run))
    assert ([loop.scope.name for loop in found.loops], found.trainers) == (["train_distributed"], [])
    assert [optimizer.scope.name for optimizer in found.optimizers] == ["train_distributed"]


def test_a_training_of_another_model_that_comes_first_is_asked_about_where_both_share_what_trains() -> None:
    assert len(survey_of(FALLBACK.replace("RUN", "train_alone()\ntrain_distributed()")).loops) == 2


#: A model of its own is trained before the wrapped one, perhaps with a part of that.
FIRST = """
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net = DDP(net)
if masked:
    other = Masked()
    its = torch.optim.SGD(other.parameters(), lr=0.1)
    other.encoder = net.encoder
    for epoch in range(3):
        for x in loader:
            other(x).mean().backward()
            its.step()
for epoch in range(9):
    for x in loader:
        optimizer.zero_grad()
        net(x).mean().backward()
        optimizer.step()
    val_loss = evaluate(net)
"""


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        pytest.param("", "", [15], id="another model"),
        pytest.param("other = Masked()", "other = net", [11, 15], id="the wrapped one"),
        pytest.param("its = torch.optim.SGD(other", "its = torch.optim.SGD(net", [11, 15], id="its parameters"),
    ],
)
def test_a_training_of_another_model_that_comes_first_is_told(
    tmp_path: Path, old: str, new: str, lines: list[int]
) -> None:
    head = "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
    text = head + FIRST.replace(old, new, 1)
    assert sorted(loop.line for loop in survey_of(text).loops) == lines
    plan = plan_of(tmp_path, text)
    assert ("PAI104" in {one.code for one in plan.questions}) == (len(lines) > 1)
    if len(lines) == 1:
        assert [note for note in plan.notes if "line 11 comes first in the initialisation run" in note.message]
        assert rewritten(plan).count("planned_epochs(") == rewritten(plan).count("finish_initialization()") == 1


#: What the model has learned is probed behind the epoch loop, by a model of its own that gets its features.
PROBED = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def fit(net, optimizer):
    for x in loader:
        optimizer.zero_grad()
        net(x).mean().backward()
        optimizer.step()

net = DDP(Net())
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(9):
    for x in loader:
        optimizer.zero_grad()
        net(x).mean().backward()
        optimizer.step()
    val_loss = evaluate(net)
encoder = net.module.encoder
probe = torch.nn.Linear(16, 4)
its = torch.optim.Adam(probe.parameters(), lr=0.1)
plan = torch.optim.lr_scheduler.StepLR(its, 2)
for turn in range(20):
    for x in loader:
        its.zero_grad()
        probe(encoder(x)).mean().backward()
        its.step()
    plan.step()
"""


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        pytest.param("", "", [12], id="a probe"),
        pytest.param(
            "its = torch.optim.Adam(probe", "its = torch.optim.Adam(encoder", [12, 22], id="the encoder itself"
        ),
        pytest.param("Linear(16, 4)", "Sequential(encoder, head)", [12, 22], id="the encoder in it"),
        pytest.param("    plan.step()", "    optimizer.step()", [12, 22], id="a step of the model"),
        pytest.param("    plan.step()", "    given.step()", [12, 22], id="a step of what is not known"),
    ],
)
def test_a_training_of_another_model_that_comes_after_is_left_alone(
    tmp_path: Path, old: str, new: str, lines: list[int]
) -> None:
    text = PROBED.replace(old, new, 1)
    assert sorted(loop.line for loop in survey_of(text).loops) == lines
    plan = plan_of(tmp_path, text)
    assert ("PAI104" in {one.code for one in plan.questions}) == (len(lines) > 1)
    if len(lines) == 1:
        assert not [note for note in plan.notes if "line 22" in note.message]
        probing = rewritten(plan).partition("encoder = net.module.encoder")[2]
        assert probing == text.partition("encoder = net.module.encoder")[2]


#: The evaluation in each epoch fits a probe of its own to what the model makes of the data.
PROBED_WITHIN = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Probe:
    def fit(self, x, y):
        self.head = torch.nn.Linear(4, 2)
        its = torch.optim.Adam(self.head.parameters(), lr=0.1)
        for epoch in range(3):
            for part in x:
                its.zero_grad()
                loss = criterion(self.head(part), y)
                loss.backward()
                its.step()

def evaluate(model):
    model.eval()
    features = model(data)
    Probe().fit(features.split(8), target)
    return (features.argmax(1) == target).float().mean().item()

net = DDP(Net())
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
done = 0
while done < 9:
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    acc = evaluate(net)
    best = max(best, acc)
    done += 1
"""
OF_PROBE = "its = torch.optim.Adam(self.head"


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        pytest.param("", "", [24], id="a probe"),
        pytest.param("while done < 9", "for turn in range(9)", [24], id="around by a range"),
        pytest.param(f"{OF_PROBE}.parameters()", "its = torch.optim.Adam(net.parameters()", [8], id="of the model"),
        pytest.param(f"{OF_PROBE}.parameters(), lr=0.1)", "its = make(self.head)", [24], id="of what is not known"),
        pytest.param("torch.nn.Linear(4, 2)", "net.module.head", [8], id="of a part of it"),
    ],
)
def test_a_training_of_another_model_in_the_turns_of_the_wrapped_ones_is_left_alone(
    tmp_path: Path, old: str, new: str, lines: list[int]
) -> None:
    text = code(PROBED_WITHIN).replace(old, new, 1)
    assert [loop.line for loop in survey_of(text).loops] == lines
    if "torch.optim.Adam(self.head" in text and lines == [24]:
        new_text = rewritten(plan_of(tmp_path, text))
        assert text[text.index("class Probe") : text.index("def evaluate")] in new_text
        assert new_text.count("finish_initialization()") == new_text.count("report_validation_score(acc, net)") == 1


def test_a_training_of_another_model_that_comes_after_is_asked_about_where_both_share_what_trains() -> None:
    text = PROBED.replace("    val_loss", "    fit(net, optimizer)\n    val_loss").replace(
        "    plan", "    fit(probe, its)\n    plan"
    )
    assert len(survey_of(text).loops) == 2


def test_a_training_of_which_it_is_not_known_what_it_trains_is_asked_about() -> None:
    unknown = FALLBACK.replace("RUN", EITHER).replace(
        "    model = Net()\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
        "    model, optimizer = make()",
    )
    assert len(survey_of(unknown).loops) == 2


def test_a_function_that_a_helper_is_given_to_start_is_run() -> None:
    started = FALLBACK.replace("def train_distributed():", "def train_distributed(rank):").replace(
        "RUN",
        "def start(run, processes):\n    torch.multiprocessing.spawn(run, args=(), nprocs=processes)\n\n"
        "if cuda:\n    start(train_distributed, 2)\nelse:\n    train_alone()",
    )
    found = survey_of(started)
    assert [loop.scope.name for loop in found.loops] == ["train_distributed"]
    assert found.spawning is not None


def test_a_class_that_trains_another_model_by_itself_may_start_the_training() -> None:
    distributed, alone = FALLBACK.replace("def train_distributed():", "def train_distributed(rank):").split(
        "def train_alone():"
    )
    alone, _, _ = alone.partition("RUN")
    starts = """
class Trainer:
    def __init__(self, workers):
        self.workers = workers

    def run(self):
        if self.workers > 1:
            torch.multiprocessing.spawn(train_distributed, args=(), nprocs=self.workers)
            return
        self.train_alone()
"""
    method = indent(f"def train_alone(self):{alone}", "    ")
    found = survey_of(f"{distributed}{starts}\n{method}\nTrainer(int(sys.argv[1])).run()\n")
    assert [loop.scope.name for loop in found.loops] == ["train_distributed"]
    assert len(found.spawns) == 1


@pytest.mark.parametrize(
    "step", ["self.step(x)", "self.optimizer.zero_grad(); self.model(x).backward(); self.optimizer.step()"]
)
def test_a_trainer_that_wraps_no_model_is_left_alone(step: str) -> None:
    trainer = """
class NAME:
    def __init__(self):
        self.model = Net()
        WRAP
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self, x):
        self.optimizer.zero_grad()
        self.model(x).backward()
        self.optimizer.step()

    def train(self):
        for epoch in range(9):
            for x in loader:
                STEP
"""
    one = trainer.replace("STEP", step)
    alone, wrapping = one.replace("NAME", "Alone").replace("WRAP", "pass"), one.replace("NAME", "Several")
    wrapping = wrapping.replace("WRAP", "self.model = DDP(self.model)")
    head = "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
    found = survey_of(f"{head}{alone}{wrapping}\ntrainer = Several() if cuda else Alone()\ntrainer.train()\n")
    assert [loop.scope.enclosing_class.name for loop in found.loops] == ["Several"]  # type: ignore[union-attr]


HEAD = "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"

#: A class that trains; tests replace the words in capitals.
TRAINER = """
class NAME:
    def __init__(self, args):
        BUILD
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def validate(self):
        return sum(float(self.model(x)) for x in val)

    def train(self):
        for epoch in range(9):
            for x in loader:
                self.optimizer.zero_grad()
                self.model(x).backward()
                self.optimizer.step()
            loss = self.validate()
            if loss < best:
                torch.save(self.model.state_dict(), "best.pt")
"""
WRAPPED = "self.model = DDP(Net())"
BUILT = "self.build(); self.model = DDP(self.model)"
BUILDS = """
class NAME(Base):
    def build(self):
        self.model = Net()
"""
LONGER = """
class Longer(Base):
    def train(self):
        for epoch in range(99):
            for x in loader:
                self.optimizer.zero_grad()
                self.model(x).backward()
                self.optimizer.step()
            loss = self.validate()
            if loss < best:
                torch.save(self.model.state_dict(), "best.pt")
"""

EACH = "".join(TRAINER.replace("NAME", name).replace("BUILD", WRAPPED) for name in ("First", "Second"))
OVERRIDDEN = TRAINER.replace("NAME", "Base").replace("BUILD", WRAPPED) + LONGER
ABSTRACT = TRAINER.replace("NAME", "Base").replace("BUILD", BUILT) + "".join(
    BUILDS.replace("NAME", name) for name in ("First", "Second")
)
REBUILT = TRAINER.replace("NAME", "Base").replace("BUILD", WRAPPED) + (
    "\nclass Second(Base):\n    def __init__(self, args):\n        self.model = DDP(Other())\n"
    "        self.optimizer = torch.optim.Adam(self.model.parameters())\n"
)

#: Ways to take one of two classes.
WAYS = {
    "branches": "if args.kind:\n    trainer = ONE(args)\nelse:\n    trainer = OTHER(args)\ntrainer.train()",
    "called in branches": "if args.kind:\n    ONE(args).train()\nelse:\n    OTHER(args).train()",
    "dict": "trainers = {'one': ONE, 'other': OTHER}\ntrainer = trainers[args.kind](args)\ntrainer.train()",
    "conditional": "trainer = (ONE if args.kind else OTHER)(args)\ntrainer.train()",
    "globals": "trainer = globals()[args.kind](args)\ntrainer.train()",
    "eval": "trainer = eval(args.kind)(args)\ntrainer.train()",
    "function": "def make():\n    if args.kind:\n        return ONE(args)\n    return OTHER(args)\n\nmake().train()",
}


def trains(script: str, way: str, one: str, other: str) -> str:
    return f"{HEAD}{script}\n{way.replace('OTHER', other).replace('ONE', one)}\n"


GENERIC = """
class Base(Generic[M]):
    def fit(self):
        for epoch in range(9):
            for x in loader:
                self.step(x)
            val_loss = total(self.model)

class Middle(Base[M], ABC):
    def step(self, x):
        self.model(x).backward()
        optimizer.step()

class Trainer(Middle[Net]):
    def __init__(self):
        self.model = DDP(Net())
"""


@pytest.mark.parametrize(
    ("bases", "made"),
    [
        pytest.param("Base[M], ABC", "Trainer()", id="generic bases"),
        pytest.param("Generic[M], Base[M]", "Trainer()", id="after what gives it nothing"),
        pytest.param("Base[M], ABC", "Trainer[Net]()", id="made of a generic class"),
    ],
)
def test_a_class_extends_what_its_base_is_made_of(bases: str, made: str) -> None:
    head = f"{HEAD}from typing import Generic, TypeVar\nM = TypeVar('M')\n"
    text = f"{head}{GENERIC.replace('Base[M], ABC', bases)}\ntrainer = {made}\ntrainer.fit()\n"
    loops = survey_of(text).loops
    assert [loop.scope.enclosing_class.name for loop in loops] == ["Base"]  # type: ignore[union-attr]


PORTIONS = """
class Base:
    @property
    @abc.abstractmethod
    def learn(self):
        raise NotImplementedError

    def train(self, batches, many):
        total = 0
        for number in range(many):
            total += self.learn(next(batches))
        UPDATE
        return total / many

class Plain(Base):
    def __init__(self):
        self.model = DDP(Net())
    def learn(self, batch):
        loss = self.model(batch)
        loss.backward()
        OWN
        return loss.item()

class Student(Plain):
    def learn(self, batch):
        loss = self.model(batch) + distance(batch)
        loss.backward()
        OWN
        return loss.item()

done = 0
while done < 1000:
    train_loss = trainer.train(batches, 50)
    done += 50
"""


@pytest.mark.parametrize(
    ("own", "update", "steps"),
    [
        pytest.param("optimizer.step()", "pass", False, id="each step its own"),
        pytest.param("pass", "optimizer.step()", True, id="gradients are added up"),
    ],
)
@pytest.mark.parametrize("made", ["trainer = Student()", "trainer = {'plain': Plain, 'student': Student}[kind]()"])
def test_turns_that_take_many_steps_by_the_method_of_one_of_several_classes(
    own: str, update: str, steps: bool, made: str
) -> None:
    text = PORTIONS.replace("OWN", own).replace("UPDATE", update).replace("\ndone = 0", f"\n{made}\ndone = 0")
    assert [loop.by_iteration for loop in survey_of(HEAD + text).loops] == [steps]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(
    ("script", "one", "other", "holders"),
    [
        pytest.param(EACH, "First", "Second", ["First First", "Second Second"], id="each builds, wraps and trains"),
        pytest.param(OVERRIDDEN, "Base", "Longer", ["Base Base", "Base Longer"], id="one has a loop of its own"),
        pytest.param(ABSTRACT, "First", "Second", ["First Base", "Second Base"], id="each builds for a common base"),
        pytest.param(REBUILT, "Base", "Second", ["Base Base", "Second Base"], id="one builds another model"),
    ],
)
def test_one_of_several_classes_that_train_is_chosen(
    script: str, one: str, other: str, holders: list[str], way: str
) -> None:
    """It is chosen by its name, wherever it has the loop and the model from."""
    text = trains(script, way, one, other)
    found = survey_of(text)
    offered = [*found.answers, *found.trainers, *found.builders]
    for name, where in zip((one, other), holders, strict=True):
        assert f"{name}.self.model" in offered
        found = survey_of(text, model=f"{name}.self.model")
        (loop,), (model,), (optimizer,) = found.loops, found.models, found.optimizers
        classes = [site.scope.enclosing_class for site in (model, loop)]
        assert " ".join(holder.name for holder in classes if holder) == where
        assert (found.answers, found.trainers, found.builders, found.plural) == (["self.model"], [], [], "")
        assert optimizer.keeps == ""


@pytest.mark.parametrize("script", [OVERRIDDEN, ABSTRACT])
def test_the_classes_to_choose_from_are_told(tmp_path: Path, script: str) -> None:
    names = ("Base", "Longer") if script == OVERRIDDEN else ("First", "Second")
    text = trains(script, WAYS["dict"], *names)
    (question,) = plan_of(tmp_path, text).questions
    assert f"Say which {'trains ' if script == OVERRIDDEN else ''}with --model NAME: " in str(question)
    assert " or ".join(f"{name}.self.model" for name in names) in str(question)
    plan = plan_of(tmp_path, text, Options(model=f"{names[1]}.self.model"))
    assert plan.questions == []
    assert "DDP(self.model" in rewritten(plan)


@pytest.mark.parametrize(
    ("script", "made", "left"),
    [
        pytest.param(EACH, "First", "Second", id="never named"),
        pytest.param(EACH, "Second", "First", id="never named, first of the file"),
        pytest.param(OVERRIDDEN, "Longer", "", id="overrides the loop"),
        pytest.param(OVERRIDDEN, "Base", "Longer", id="only extended"),
        pytest.param(ABSTRACT, "First", "Second", id="builds for its base"),
        pytest.param(REBUILT, "Second", "", id="builds another model"),
    ],
)
def test_the_class_of_which_an_object_is_made_decides(script: str, made: str, left: str) -> None:
    found = survey_of(f"{HEAD}{script}\n{made}(args).train()\n")
    (loop,), (model,) = found.loops, found.models
    assert (found.plural, found.answers) == ("", ["self.model"])
    assert left not in [site.scope.enclosing_class.name for site in (loop, model) if site.scope.enclosing_class]


@pytest.mark.parametrize(
    ("model", "plural"),
    [
        ("None", ""),
        ("Other()", "each of several classes builds its own, and the choice among them is made at run time: "),
    ],
    ids=["placeholder", "built"],
)
def test_a_base_class_that_only_names_the_model_builds_none(model: str, plural: str) -> None:
    """Where it builds one itself, that may be the one that is wrapped."""
    build = "super().__init__()\n        if args.kind:\n            self.model = Net()\n        "
    build += "self.model = DDP(self.model)"
    derived = TRAINER.replace("NAME:", "First(Base):").replace("BUILD", build)
    base = f"class Base:\n    def __init__(self):\n        self.model = {model}\n"
    found = survey_of(f"{HEAD}{base}{derived}\nFirst(args).train()\n")
    assert found.plural.partition("`")[0] == plural
    assert [m.scope.enclosing_class.name for m in found.models if m.scope.enclosing_class][-1] == "First"


def test_a_class_of_which_no_object_is_made_trains_nothing_where_a_function_trains() -> None:
    unused = TRAINER.replace("NAME", "Unused").replace("BUILD", WRAPPED)
    found = survey_of(f"{HEAD}{unused}\n{script(before='best = 9', after='isinstance(model, Unused)')}")
    assert (found.answers, [loop.scope.enclosing_class for loop in found.loops]) == (["model"], [None])


@pytest.mark.parametrize(
    "use", ["@register\nclass Second", "class Second"], ids=["registered", "found among the subclasses"]
)
def test_a_class_that_may_be_found_by_name_counts(use: str) -> None:
    made = "trainer = First(args) if args.kind else make(args)\nfor kind in Base.__subclasses__(): print(kind)"
    made = made if use.startswith("class") else made.partition("\n")[0]
    text = f"{HEAD}{ABSTRACT.replace('class Second', use)}\n{made}\ntrainer.train()\n"
    assert survey_of(text).builders == ["First.self.model", "Second.self.model"]


def test_a_method_that_is_overridden_and_called_all_the_same_counts() -> None:
    text = OVERRIDDEN.replace("for epoch in range(99):", "super().train()\n        for epoch in range(99):")
    assert len(survey_of(f"{HEAD}{text}\nLonger(args).train()\n").loops) == 2


def test_the_class_that_a_function_returns_trains() -> None:
    each = "".join(
        f"class {name}:\n    def __init__(self):\n        self.model = DDP(Net())\n"
        "    def train_epoch(self):\n        for x in loader:\n            self.model(x).backward()\n"
        for name in ("First", "Second")
    )
    kind = "def kind(name):\n    if name == 'first':\n        return First\n    return Second\n"
    loop = "trainer = kind(args.kind)()\nfor epoch in range(9):\n    trainer.train_epoch()\n"
    found = survey_of(f"{HEAD}{each}{kind}{loop}", model="Second.self.model")
    assert [one.target for one in found.loops] == ["epoch"]


@pytest.mark.parametrize(
    ("between", "own", "both"),
    [
        pytest.param("super().__init__(args)", "", False, id="never run"),
        pytest.param("Base.__init__(self, args)", "", False, id="never run, by the name of the class"),
        pytest.param("super().__init__(args)", "super().__init__(args)\n        ", True, id="run"),
    ],
)
def test_a_class_between_builds_its_bases_model_only_where_it_runs(between: str, own: str, both: bool) -> None:
    unlike = "\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    middle = f"\nclass Middle(Base):\n    def __init__(self, args):\n        {between}\n"
    text = unlike + REBUILT.replace("class Second(Base)", f"{middle.lstrip()}\nclass Second(Middle)")
    text = text.replace("        self.model = DDP(Other())", f"        {own}self.model = DDP(Other())")
    found = survey_of(f"{HEAD}{text}\nSecond(args).train()\n")
    assert found.answers == (["Base.self.model", "Second.self.model"] if both else ["self.model"])


def test_a_class_that_is_not_there_is_no_choice() -> None:
    text = trains(ABSTRACT, WAYS["branches"], "First", "Second")
    assert survey_of(text, model="Third.self.model").other_models == ["self.model"]
    assert survey_of(text, model="First.self.teacher").other_models == ["self.model"]


TWO_LOOPS = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def train(names):
    for x, y in loader:
        (names.net(x) - y).mean().backward()
        names.second.step()

net = DDP(Net())
names.net = net
first = torch.optim.Adam(net.parameters(), lr=0.01)
names.second = torch.optim.Adam(net.parameters(), lr=0.1)
BEGIN
    for epoch in range(9):
        for x, y in loader:
            (net(x) - y).mean().backward()
            first.step()
        val_loss = evaluate(net)
THEN
    for epoch in range(9):
        train(names)
        val_loss = evaluate(net)
"""


@pytest.mark.parametrize(
    ("begin", "then", "chosen", "loops", "earlier"),
    [
        pytest.param("if a:", "else:", "names.second", [20], [], id="the second of two branches"),
        pytest.param("if a:", "else:", "first", [14], [], id="the first of two branches"),
        pytest.param("if a:", "if True:", "names.second", [20], ["line 14"], id="the later one"),
        pytest.param("if a:", "if True:", "first", [14, 20], [], id="one after which another trains"),
        pytest.param("if a:", "else:", "", [14, 20], [], id="none"),
        pytest.param("if a:", "else:", "third", [14, 20], [], id="no optimizer of the script"),
    ],
)
def test_the_loop_that_steps_the_chosen_optimizer_counts(
    begin: str, then: str, chosen: str, loops: list[int], earlier: list[str]
) -> None:
    found = survey_of(TWO_LOOPS.replace("BEGIN", begin).replace("THEN", then), optimizer=chosen).loops
    assert (sorted(loop.line for loop in found), found[0].earlier) == (loops, earlier)


PASS = """
    for x, y in loader:
        optimizer.zero_grad()
        (model(x) - y).mean().backward()
        optimizer.step()
"""
SCORE = """
    val_loss = evaluate(model)
    if val_loss < best:
        best = val_loss
        torch.save(model.state_dict(), "best.pt")
"""
IN_A_ROW = f"""
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

model = Net()
model = DDP(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best, step = 9, 0
FIRST{PASS}
for epoch in range(9):{PASS}{SCORE}
"""


@pytest.mark.parametrize("head", ["for turn in range(3):", "while step < 5:\n    step += 1"])
def test_a_loop_that_warms_up_is_no_epoch_loop(tmp_path: Path, head: str) -> None:
    plan = plan_of(tmp_path, IN_A_ROW.replace("FIRST", head))
    assert plan.questions == []
    assert "for epoch in pai_distributed.planned_epochs(range(9)):" in rewritten(plan)
    assert rewritten(plan).count("planned_epochs(") == 1
    assert [note for note in plan.notes if "line 9 comes first in the initialisation run" in str(note)]


def test_trainings_in_a_row_of_which_each_is_measured_are_several() -> None:
    first = f"for turn in range(3):{SCORE}".rstrip()
    assert len(survey_of(IN_A_ROW.replace("FIRST", first)).loops) == 2
    assert len(survey_of(IN_A_ROW.replace("FIRST", "for turn in range(3):\n    evaluate(model)")).loops) == 2


@pytest.mark.parametrize(
    ("start", "told"),
    [
        pytest.param("main()", "", id="once"),
        pytest.param(
            "for task in range(5):\n    main()",
            ", both again in each turn of `for task in range(5)` (line 31)",
            id="again",
        ),
    ],
)
def test_a_loop_that_goes_through_several_trainings_again_is_told(tmp_path: Path, start: str, told: str) -> None:
    first = f"for turn in range(3):{SCORE}".rstrip()
    head, _, body = code(IN_A_ROW.replace("FIRST", first)).partition("model = Net()\n")
    text = f"{head}def main():\n    model = Net()\n{indent(body, '    ')}\n{start}\n"
    (question,) = [one for one in plan_of(tmp_path, text).questions if one.code == "PAI104"]
    assert question.message.startswith(
        f"several epoch loops were found: line 9, line 19{told}. Train in one loop, or split the script."
    )


def test_a_training_after_the_measured_one_is_no_warm_up() -> None:
    after = IN_A_ROW.replace(f"FIRST{PASS}", "").rstrip() + f"\nfor turn in range(3):{PASS}"
    assert len(survey_of(after).loops) == 2


STAGES = f"""
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

model = Net()
model = DDP(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best = 9
HEAD
    loss = losses[stage]
    for epoch in range(9):{indent(PASS + SCORE, "    ")}
"""


@pytest.mark.parametrize("items", ["range(args.first, 4)", "losses"])
def test_stages_of_one_training_are_counted_in_place_of_their_epochs(tmp_path: Path, items: str) -> None:
    plan = plan_of(tmp_path, STAGES.replace("HEAD", f"for stage in {items}:"))
    assert plan.questions == []
    assert f"for stage in pai_distributed.planned_epochs({items}, further=False):" in rewritten(plan)
    assert "    for epoch in range(9):" in rewritten(plan)
    (note,) = [note for note in plan.notes if note.code == "PAI011"]
    assert "with the epochs of `for epoch in range(9)` (line 11): each structure" in note.message
    assert plan_of(tmp_path, rewritten(plan)).questions == []


@pytest.mark.parametrize(
    ("head", "again"),
    [
        pytest.param("for stage in [args.stage]:", False, id="a single one"),
        pytest.param("for seed in seeds:", True, id="the same again"),
        pytest.param(
            "for stage in range(3):\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
            True,
            id="an optimizer",
        ),
        pytest.param("for stage in range(3):\n    model = DDP(model)", True, id="a wrapper"),
        pytest.param("while stage < 3:\n    stage += 1", True, id="no end that is known"),
    ],
)
def test_a_loop_that_trains_another_model_or_by_another_optimizer_is_of_no_stages(head: str, again: bool) -> None:
    (loop,) = survey_of(STAGES.replace("HEAD", head)).loops
    assert loop.target == "epoch"
    assert bool(loop.repeats) == again


SHARED_TRAINING = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def train(model, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    epoch = 1
    while epoch <= epochs:
        for x, y in loader:
            optimizer.zero_grad()
            (model(x) - y).mean().backward()
            optimizer.step()
        epoch += 1

class Trainer:
    def __init__(self, model):
        self.model = model

    def run(self):
        train(self.model, 9)

def first(model):
    train(model, 9)

def second(model):
    train(model, 9)

model = DDP(Net())
other = Net()
"""


@pytest.mark.parametrize(
    ("calls", "again"),
    [
        pytest.param("train(model, 9)\ntrain(model, 300)", ["train(model, 300)"], id="twice"),
        pytest.param("first(model)\nlabel()\nsecond(model)", ["second(model)"], id="by two functions"),
        pytest.param("it = Trainer(model)\nit.run()\nit.run()", ["it.run()"], id="by a method"),
        pytest.param("for stage in stages:\n    train(model, stage)", ["for stage in stages"], id="in a loop"),
        pytest.param(
            "train(model, 9)\nfor stage in stages:\n    train(model, stage)",
            ["for stage in stages", "train(model, stage)"],
            id="in a loop, too",
        ),
        pytest.param("for stage in [args.stage]:\n    train(model, stage)", [], id="in a loop of one turn"),
        pytest.param("for seed in seeds:\n    train(model, 9)", [], id="the same again"),
        pytest.param(
            "for n in range(3):\n    try:\n        train(model, 9)\n        break\n    except OSError:\n        wait()",
            [],
            id="until it has not failed",
        ),
        pytest.param(
            "for part in range(3):\n    try:\n        train(model, 9)\n    except OSError:\n        wait()\n"
            "    else:\n        break",
            [],
            id="else leaves",
        ),
        pytest.param(
            "for stage in stages:\n    if stage:\n        train(model, stage)\n        break",
            ["for stage in stages"],
            id="in one that is picked",
        ),
        pytest.param("while waiting():\n    train(model, 9)", [], id="until it goes through"),
        pytest.param("train(model, 9)", [], id="once"),
        pytest.param("train(other, 9)\ntrain(model, 9)", [], id="another model first"),
        pytest.param("Trainer(model).run()\nTrainer(other).run()", [], id="another object"),
        pytest.param("if warm:\n    first(model)\nelse:\n    second(model)", [], id="one or the other"),
        pytest.param("if warm:\n    first(model)\n    exit()\nsecond(model)", [], id="one leaves"),
        pytest.param("try:\n    first(model)\nexcept RuntimeError:\n    second(model)", [], id="where one has failed"),
    ],
)
def test_what_trains_one_model_further_is_told(calls: str, again: list[str]) -> None:
    script = survey_of(SHARED_TRAINING + calls)
    found = [script.index.source.code(one.node).splitlines()[0].rstrip(":") for one in script.loops[0].goes_on]
    assert found == again


IN_BRANCHES = f"""
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

model = Net()
model = DDP(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best = 9
if HEAD:
    for turn in range(3):{indent(PASS, "    ")}
else:
    for epoch in range(9):{indent(PASS + SCORE, "    ")}
"""


@pytest.mark.parametrize(
    ("head", "passes", "line"),
    [
        pytest.param("args.find_rate", PASS, 13, id="by an option"),
        pytest.param("FIND_RATE", "\n    train(model)", 16, id="by a constant"),
    ],
)
def test_a_loop_that_other_runs_take_in_place_of_the_measured_one_is_told(
    tmp_path: Path, head: str, passes: str, line: int
) -> None:
    text = IN_BRANCHES.replace("HEAD", head).replace(indent(PASS, "    "), indent(f"{passes}\n", "    "))
    text = text.replace(
        "best = 9", f"def train(model):{PASS}\nFIND_RATE, best = False, 9" if passes != PASS else "best = 9"
    )
    plan = plan_of(tmp_path, text)
    assert plan.questions == []
    assert "    for epoch in pai_distributed.planned_epochs(range(9)):" in rewritten(plan)
    assert rewritten(plan).count("planned_epochs(") == 1
    (note,) = [note for note in plan.notes if "does not come to the epoch loop" in note.message]
    assert note.line == line


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("else:", "        evaluate(model)\nelse:", id="both are measured"),
        pytest.param(indent(SCORE, "    "), "\n", id="none is measured"),
        pytest.param("HEAD", "rank != 0", id="of which each rank takes one"),
    ],
)
def test_trainings_in_two_branches_may_be_several(old: str, new: str) -> None:
    assert IN_BRANCHES.count(old) == 1
    assert len(survey_of(IN_BRANCHES.replace(old, new).replace("HEAD", "args.find_rate")).loops) == 2


BY_SETTING = """
import argparse
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def train_step(self, x):
        self.optimizer.zero_grad()
        self.model(x).mean().backward()
        self.optimizer.step()

    def validate(self):
        self.model.eval()
        val_loss = sum(float(self.model(x)) for x in val)
        self.model.train()
        return val_loss

    def by_epochs(self):
        for epoch in range(9):
            for x in loader:
                self.train_step(x)
            val_loss = self.validate()

    def by_steps(self):
        for number in range(1, 99):
            self.train_step(next(batches))
            if number % 9 == 0:
                val_loss = self.validate()

parser = argparse.ArgumentParser()
parser.add_argument("--mode", default="step")
args = parser.parse_args()
model = DDP(Net())
trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1))
if args.mode == "step":
    trainer.by_steps()
else:
    trainer.by_epochs()
"""


def test_a_training_by_steps_that_a_setting_chooses_instead_of_one_by_epochs_is_asked_about(tmp_path: Path) -> None:
    (question,) = plan_of(tmp_path, BY_SETTING).questions
    assert question.code == "PAI104"
    assert "line 22 (if `not (args.mode == 'step')`), line 28 (if `args.mode == 'step'`)" in question.message
    assert "--model NAME: by_epochs.model or by_steps.model" in question.message
    for chosen, line in (("by_epochs", 21), ("by_steps", 27)):
        (loop,) = survey_of(BY_SETTING, model=f"{chosen}.model").loops
        assert loop.line == line


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("    val_loss = self.validate()\n\nparser", "    print(number)\n\nparser", id="unmeasured"),
        pytest.param('default="step"', 'default="epoch"', id="only where the user asks for it"),
        pytest.param("else:\n    trainer", "if args.mode:\n    trainer", id="before it"),
    ],
)
def test_steps_beside_the_epochs_are_none_of_several_trainings_otherwise(old: str, new: str) -> None:
    """As those that measure how fast the model is, or warm it up."""
    assert BY_SETTING.count(old) == 1
    assert [loop.line for loop in survey_of(BY_SETTING.replace(old, new)).loops] == [21]


EACH_BY_OPTION = """
import argparse
import torch
from torch.nn.parallel import DataParallel, DistributedDataParallel

def train(args, model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model = DataParallel(model)
    for epoch in range(9):
        for x in loader:
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
        val_loss = evaluate(model)
        if val_loss < best:
            best = val_loss

def pretrain(args, model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if args.local_rank != -1:
        model = DistributedDataParallel(model)
    step = 0
    while True:
        optimizer.zero_grad()
        model(next(batches)).mean().backward()
        optimizer.step()
        step += 1
        if step % 9 == 0:
            val_loss = evaluate(model)
        if step > args.steps:
            break

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
parser.add_argument("--steps", type=int, default=99)
parser.add_argument("--pretrain", action="store_true")
parser.add_argument("--train", action="store_true")
args = parser.parse_args()
model = Net()
if args.pretrain:
    pretrain(args, model)
if args.train:
    train(args, model)
"""
TRAINS_ANYHOW = ("if args.train:\n    train", "train")


def test_a_training_by_steps_and_one_by_epochs_that_each_has_an_option_for_are_several(tmp_path: Path) -> None:
    (question,) = plan_of(tmp_path, code(EACH_BY_OPTION)).questions
    assert (question.code, question.line) == ("PAI104", 22)
    assert "line 8 (if `args.train`), line 22 (if `args.pretrain`)" in question.message
    assert question.message.endswith("`# retrofit: skip`: line 8 or line 22.")


@pytest.mark.parametrize(
    ("old", "new", "noted"),
    [
        pytest.param(*TRAINS_ANYHOW, ["line 22"], id="by an option for more"),
        pytest.param(
            f"if args.pretrain:\n    pretrain(args, model)\n{TRAINS_ANYHOW[0]}",
            f"pretrain(args, model)\n{TRAINS_ANYHOW[1]}",
            ["line 22"],
            id="always",
        ),
        pytest.param("        if step % 9 == 0:\n            val_loss = evaluate(model)\n", "", [], id="unmeasured"),
        pytest.param("    pretrain(args, model)\nif", "    pass\nif", [], id="that nothing calls"),
    ],
)
def test_steps_that_come_first_where_the_epochs_come_anyhow_are_no_further_training(
    old: str, new: str, noted: list[str]
) -> None:
    assert EACH_BY_OPTION.count(old) == 1
    (loop,) = survey_of(code(EACH_BY_OPTION.replace(old, new))).loops
    assert (loop.line, loop.earlier) == (8, noted)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        pytest.param([TRAINS_ANYHOW], "dp", id="before it"),
        pytest.param([("while True:", "while True:  # retrofit: skip")], "dp", id="passed over"),
        pytest.param(
            [
                ("if args.train", "elif args.train"),
                (
                    "            val_loss = evaluate(model)\n        if step >",
                    "            show(step)\n        if step >",
                ),
            ],
            "dp",
            id="instead",
        ),
        pytest.param(
            [
                TRAINS_ANYHOW,
                ("            break\n", "            return model\n"),
                ("    pretrain(", "    model = pretrain("),
            ],
            "ddp",
            id="whose model goes on",
        ),
        pytest.param(
            [TRAINS_ANYHOW, ("            break\n", "            train(args, model)\n")], "ddp", id="that leads to it"
        ),
    ],
)
def test_how_another_training_wraps_the_model_for_itself_tells_nothing_of_the_processes(
    changes: list[tuple[str, str]], kind: str
) -> None:
    text = EACH_BY_OPTION
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    found = survey_of(code(text))
    assert [loop.line for loop in found.loops] == [8]
    assert found.kind == kind


AGAIN = f"""
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

model = Net()
model = DDP(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best, step = 9, 0
HEAD
    batches = collect(model)
    for epoch in range(4):
        for x, y in batches:
            optimizer.zero_grad()
            (model(x) - y).mean().backward()
            optimizer.step()
    step += 100{SCORE}
"""


@pytest.mark.parametrize("head", ["while step < 1000:", "while True:", "for update in range(1, 99):"])
def test_passes_over_the_batches_of_one_turn_are_no_epochs(tmp_path: Path, head: str) -> None:
    assert [loop.line for loop in survey_of(AGAIN.replace("HEAD", head)).loops] == [8]
    assert plan_of(tmp_path, AGAIN.replace("HEAD", head)).questions == []


def test_the_epochs_of_each_fold_are_the_epochs() -> None:
    folds = AGAIN.replace("HEAD", "for fold in range(5):\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)")
    assert [loop.target for loop in survey_of(folds).loops] == ["epoch"]


TRIAL = """
from functools import partial
import optuna
import ray
import torch
from hyperopt import fmin, tpe
from ray import tune
from torch.nn.parallel import DistributedDataParallel as DDP

def objective(settings, folder=None):
    model = DDP(Net(settings))
    for epoch in range(9):
        for x, y in loader:
            (model(x) - y).mean().backward()
        val_loss = evaluate(model)
    return val_loss

"""


@pytest.mark.parametrize(
    ("started", "tried"),
    [
        pytest.param("study = optuna.create_study()\nstudy.optimize(objective, n_trials=9)\n", True, id="optuna"),
        pytest.param("optuna.create_study().optimize(lambda t: objective(t), 9)\n", True, id="within a lambda"),
        pytest.param("fmin(objective, space, algo=tpe.suggest)\n", True, id="hyperopt"),
        pytest.param("tune.run(partial(objective, folder='out'), num_samples=9)\n", True, id="ray, within partial"),
        pytest.param("ray.tune.Tuner(tune.with_parameters(objective, a=1)).fit()\n", True, id="ray's tuner"),
        pytest.param("def main(t):\n    objective(t)\n\nfmin(main, space)\n", True, id="by another function"),
        pytest.param(
            "def main(t):\n    objective(t)\n\nmain(0) if x else fmin(main, space)\n", False, id="or without it"
        ),
        pytest.param(
            "def run():\n    objective(1)\n\ndef main(t):\n    objective(t)\n\nrun() if x else fmin(main, space)\n",
            False,
            id="or by a function of its own",
        ),
        pytest.param("objective(settings)\n", False, id="once"),
        pytest.param("Planner().optimize(objective)\nobjective(1)\n", False, id="another object's method"),
        pytest.param("fmin(cheap, space)\nobjective(1)\n", False, id="another function"),
    ],
)
def test_a_training_that_a_library_runs_as_a_trial_is_told(started: str, tried: bool) -> None:
    (loop,) = survey_of(TRIAL + started).loops
    assert bool(loop.tried) is tried


@pytest.mark.parametrize(
    ("head", "several"),
    [
        ("for name in models:", True),
        ("for name, _ in models.items():", True),
        ("for name in ['net']:", False),
        ("for name in models:\n    if name == 'net':", False),
        ("if many:", False),
    ],
)
def test_models_that_a_loop_wraps_are_several(head: str, several: bool) -> None:
    indent = "    " * (head.count("\n") + 1)
    wraps = f"models = make()\nmodel, name = None, 'net'\n{head}\n{indent}model = DDP(models[name])\n"
    found = survey_of(IN_A_ROW.replace("model = Net()\nmodel = DDP(model)\n", wraps).replace(f"FIRST{PASS}", ""))
    assert found.plural == ("each turn of the loop at line 6 wraps one" if several else "")


def test_models_that_a_loop_wraps_are_told_from_the_one_that_is_wrapped_elsewhere() -> None:
    built = (
        "def build(name):\n    return DDP(Net(name))\nif many:\n    for name in tasks:\n        model = build(name)\n"
    )
    built += "else:\n    model = build(task)\n"
    found = survey_of(IN_A_ROW.replace("model = Net()\nmodel = DDP(model)\n", built).replace(f"FIRST{PASS}", ""))
    assert found.plural == (
        "each turn of the loop at line 7 wraps one (line 10 just one: to train that, leave the loop out)"
    )


@pytest.mark.parametrize(("later", "given"), [(True, "model(x)"), (False, "model(x)"), (False, "model")])
def test_what_an_evaluation_wraps_for_itself_in_a_loop_beside_the_training_is_no_further_model(
    later: bool, given: str
) -> None:
    wraps = "model = build()\nmodel = DDP(model)\n"
    tests = "for name in names:\n    evaluate(build())\n"
    functions = "def build():\n    return Net()\n"
    functions += "def evaluate(model):\n    if not wrapped:\n        model = DDP(model)\n    return " + given + "\n"
    text = IN_A_ROW.replace("model = Net()\nmodel = DDP(model)\n", functions + ("" if later else tests) + wraps)
    found = survey_of(text.replace(f"FIRST{PASS}", "") + (tests if later else ""))
    assert bool(found.plural) is (given == "model")  # which whoever calls it has wrapped


TESTED_INSTEAD = f"""
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def build():
    return DDP(Net())
def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best = 9
    for epoch in range(9):{indent(PASS, "    ")}{indent(SCORE, "    ")}
def main(args):
    BEGIN
        for run in range(args.runs):
            evaluate(build())
    THEN
        for run in range(args.runs):
            train(build())
"""


@pytest.mark.parametrize(
    ("begin", "then", "apart"),
    [
        pytest.param("if args.test:", "else:", True, id="in another branch"),
        pytest.param("if args.test:", "if not args.test:", True, id="under another condition"),
        pytest.param("if args.test:", "    return\n    if args.runs:", True, id="and returns"),
        pytest.param("if args.test:", "if args.train:", False, id="or before it"),
    ],
)
def test_what_a_loop_wraps_in_place_of_the_training_is_no_further_model(begin: str, then: str, apart: bool) -> None:
    found = survey_of(TESTED_INSTEAD.replace("BEGIN", begin).replace("THEN", then))
    assert (not found.plural) is apart


def test_a_loop_that_wraps_several_has_no_call_that_wraps_one_where_it_is_in_the_function_itself() -> None:
    built = "def wrap(models):\n    for name in models:\n        models[name] = DDP(models[name])\nmodels = make()\n"
    built += "wrap(models)\nmodel = models['net']\n"
    found = survey_of(IN_A_ROW.replace("model = Net()\nmodel = DDP(model)\n", built).replace(f"FIRST{PASS}", ""))
    assert found.plural == "each turn of the loop at line 5 wraps one"


def test_while_several_are_wrapped_nothing_is_said_of_the_loop_which_depends_on_the_one_that_is_meant(
    tmp_path: Path,
) -> None:
    wraps = "models = make()\nfor name in models:\n    models[name] = DDP(models[name])\nmodel = models['net']\n"
    text = IN_A_ROW.replace("model = Net()\nmodel = DDP(model)\n", wraps).replace(f"FIRST{PASS}", "")
    plan = plan_of(tmp_path, text.replace("for epoch in range(9):", "while going():"))
    codes = [question.code for question in plan.questions]
    assert "PAI102" in codes
    assert "PAI104" not in codes


def test_copies_that_are_wrapped_where_no_epoch_loop_is_seen_are_not_told_as_models(tmp_path: Path) -> None:
    text = """
    import copy
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP

    def rounded(model):
        copied = copy.deepcopy(model.module if isinstance(model, DDP) else model)
        return DDP(copied) if isinstance(model, DDP) else copied

    def train(model, optimizer):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()

    model = rounded(Net()) if args.all_ones else Net()
    model = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(9):
        chosen["train"](model, optimizer)
        for trial in range(3):
            acc = validate(rounded(model))
    """
    plan = plan_of(tmp_path, code(text))
    assert [question.code for question in plan.questions] == ["PAI104"]


#: A trainer of several models, each wrapped; tests replace the words in capitals.
OF_EACH = """
class Several:
    def __init__(self, nets):
        self.nets = torch.nn.ModuleDict({name: WRAP for name, net in nets.items()})
        self.optimizer = torch.optim.SGD(self.nets.parameters(), lr=0.1)

    def validate(self):
        return sum(float(self.nets["head"](self.nets["body"](x))) for x in val)

    def train(self):
        for epoch in range(9):
            for x in loader:
                self.optimizer.zero_grad()
                CALL.backward()
                self.optimizer.step()
            loss = self.validate()
            if loss < best:
                torch.save(loss, "best.pt")
"""
CALLED = 'self.nets["head"](self.nets["body"](x))'


def test_models_that_a_comprehension_wraps_are_several(tmp_path: Path) -> None:
    several = OF_EACH.replace("CALL", CALLED)
    text = f"{HEAD}{several.replace('WRAP', 'DDP(net)')}\nSeveral(make()).train()\n"
    assert survey_of(text).plural == "the comprehension at line 6 wraps each of several"
    (question,) = [one for one in plan_of(tmp_path, text).questions if one.code == "PAI102"]
    assert "wraps more than one model" in str(question)
    helped = several.replace("WRAP", "wrap(net)") + "\ndef wrap(net):\n    return DDP(net)\n"
    found = survey_of(f"{HEAD}{helped}\nSeveral(make()).train()\n")
    assert found.plural == "the comprehension at line 6 wraps each of several"


def test_a_comprehension_that_runs_trainings_wraps_no_several_models() -> None:
    one = TRAINER.replace("NAME", "One").replace("BUILD", WRAPPED)
    text = f"{HEAD}{one}\ndef run(seed):\n    One(seed).train()\n\ndone = [run(seed) for seed in range(3)]\n"
    assert survey_of(text).plural == ""


@pytest.mark.parametrize(
    ("call", "answers"),
    [
        pytest.param(CALLED, ["net", "self.model"], id="trains them"),
        pytest.param("other(x)", ["self.model"], id="trains something else"),
    ],
)
def test_models_that_a_comprehension_wraps_are_told_from_another_trainers(call: str, answers: list[str]) -> None:
    """One trainer wraps its only model by a name of its own; a run may be of the other."""
    one = TRAINER.replace("NAME", "One").replace("BUILD", WRAPPED)
    several = OF_EACH.replace("CALL", call).replace("WRAP", "DDP(net)")
    made = "trainer = One(args) if args.one else Several(make())\ntrainer.train()\n"
    assert survey_of(f"{HEAD}{several}{one}\n{made}").answers == answers


def test_either_wrapper_of_each_of_several_models_is_of_the_same_ones() -> None:
    head, wrapping, rest = OF_EACH.replace("CALL", CALLED).partition("        self.nets = torch")
    line, _, rest = f"{wrapping}{rest}".partition("\n")
    ways = [line.replace("WRAP", way) for way in ("DDP(net)", "torch.nn.DataParallel(net)")]
    several = f"{head}        if args.one:\n    {ways[0]}\n        else:\n    {ways[1]}\n{rest}"
    found = survey_of(f"{HEAD}{several}\nSeveral(make()).train()\n")
    assert (len(found.groups), found.plural) == (1, "the comprehension at line 7 wraps each of several")


ONE_OR_SEVERAL = """
import argparse
import torch

def evaluate(model, training=False):
    if args.n_gpu > 1 and training is False:
        model = torch.nn.DataParallel(model)
    with torch.no_grad():
        return sum(float(model(x)) for x in val)

def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if args.n_gpu > 1:
        model = torch.nn.DataParallel(model)
    if args.local_rank != -1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    best, step = 0, 0
    for epoch in range(9):
        for n, (x, y) in enumerate(loader):
            (model(x) - y).mean().backward()
            if n % 4 == 0:
                optimizer.step()
                step += 1
                if args.local_rank in (-1, 0) and step % 100 == 0:
                    if ALONE:
                        acc = evaluate(model, training=True)
                    if acc > best:
                        best = acc

def main():
    model = Net()
    train(model)
    print(evaluate(model))

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
parser.add_argument("--n_gpu", type=int)
args = parser.parse_args()
main()
"""
ALONE = ONE_OR_SEVERAL.replace("ALONE", "args.local_rank == -1")


def test_a_script_that_scores_with_one_process_alone_is_trained_so_where_the_user_says_it(tmp_path: Path) -> None:
    (asked,) = plan_of(tmp_path, ALONE).questions
    assert "so that rank 0 validates, or let one process" in asked.message
    assert asked.message.endswith("or let one process train on all GPUs, as line 14 does, by --launcher python.")
    (asked,) = plan_of(tmp_path, ALONE.replace("args.local_rank in (-1, 0) and ", "")).questions
    assert "so that all of them validate, or let one process" in asked.message
    plan = plan_of(tmp_path, ALONE, Options(launcher="python"))
    assert (plan.questions, plan.script.kind) == ([], "dp")
    assert rewritten(plan).count("initialize_tracker_settings()") == 2
    assert [note.message for note in plan.notes if "built anew" in note.message] == []
    both = plan_of(tmp_path, ONE_OR_SEVERAL.replace("ALONE", "step"))
    assert (both.questions, both.script.kind) == ([], "ddp")


def test_a_hand_over_within_a_loop_over_batches_is_made_only_where_a_counter_says_so(tmp_path: Path) -> None:
    by_steps = ALONE.replace("for epoch in range(9):", "while step < 900:")
    text = rewritten(plan_of(tmp_path, by_steps, Options(launcher="python")))
    assert "training_complete = n % 4 == 0 and step % 100 == 0 and args.local_rank == -1 and " in text
    other = by_steps.replace("step += 1\n", "step += draw()\n")
    text = rewritten(plan_of(tmp_path, other, Options(launcher="python")))
    assert "training_complete = pai_distributed.report_validation_score(" in text


def test_a_script_that_starts_its_processes_itself_stays_with_them(tmp_path: Path) -> None:
    spawned = (
        ONE_OR_SEVERAL.replace("ALONE", "step").removesuffix("main()\n")
        + "torch.multiprocessing.spawn(main, nprocs=2)\n"
    )
    assert plan_of(tmp_path, spawned, Options(launcher="python")).script.kind == "ddp"


ROUND_TRIP = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def spread(first, second):
    first = DDP(first)
    second = DDP(second)
    return tuple(one for one in [first, second] if one is not None)

maker, judge = Maker(), Judge()
maker, judge = spread(maker, judge)
optimizer = torch.optim.SGD([*maker.parameters(), *judge.parameters()], lr=0.1)
for epoch in range(9):
    for x in loader:
        judge(maker(x)).mean().backward()
        optimizer.step()
    acc = evaluate(maker)
    best = max(best, acc)
"""


def test_models_that_a_function_wraps_and_gives_back_under_their_names_are_two() -> None:
    survey = survey_of(ROUND_TRIP)
    assert [[wrapper.line for wrapper in group] for group in survey.groups] == [[5], [6]]
    assert survey.answers == ["first", "second"]
    one = survey_of(
        ROUND_TRIP.replace("    second = DDP(second)\n", "").replace(
            "first = DDP(first)", "first = DDP(first) if one else DDP(first, [0])"
        )
    )
    assert len(one.groups) == 1


PIECES = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader

model = DDP(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(data)
for n in rounds:
    for x in tqdm(loader):
        at = 0
        while at < len(x):
            for part in x[at].split(4):
                model(part).mean().backward()
            optimizer.step()
            at += 1
    acc = evaluate(model)
    best = max(best, acc)
"""


def test_a_loop_within_one_over_a_dataloader_is_over_no_epochs() -> None:
    assert [loop.line for loop in survey_of(PIECES).loops] == []
    counted = PIECES.replace("in rounds", "in range(9)")
    assert [loop.line for loop in survey_of(counted).loops] == [8]
    drawn = PIECES.replace("tqdm(loader)", "parts")  # of which nothing tells that it is no loop over epochs
    assert [loop.line for loop in survey_of(drawn).loops] == [11]


BOTH_BUILT = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def take_step(loss, used, other):
    loss.backward()
    used.step()
    other.zero_grad()

model = DDP(Net())
slow = torch.optim.SGD(model.parameters(), lr=0.1)
fast = torch.optim.Adam(model.parameters(), lr=0.1)
rates = torch.optim.lr_scheduler.StepLR(slow, 3)
for epoch in range(9):
    for x in loader:
        STEP
    for x in extra:
        take_step(model(x).mean(), used=fast, other=slow)
    acc = evaluate(model)
    best = max(best, acc)
    torch.save({"slow": slow.state_dict(), "fast": fast.state_dict()}, "last.pt")
"""


@pytest.mark.parametrize(
    ("step", "found"),
    [
        ("slow.zero_grad(); model(x).mean().backward(); fast.step()", ["fast"]),
        ("model(x).mean().backward(); scaler.step(fast)", ["fast"]),
        ("model(x).mean().backward(); fast.step(); slow.step()", ["slow", "fast"]),
        ("model(x).mean().backward(); fast.step(); engine.run(slow)", ["slow", "fast"]),
        ("model(x).mean().backward(); fast.step(); held.step()", ["slow", "fast"]),
    ],
)
def test_an_optimizer_that_nothing_steps_trains_nothing(step: str, found: list[str]) -> None:
    text = BOTH_BUILT.replace("STEP", step)
    if "scaler" in step:
        text = text.replace("model = DDP", "scaler = torch.amp.GradScaler()\nmodel = DDP")
    assert [optimizer.target for optimizer in survey_of(text).optimizers] == found


def test_a_list_of_models_that_a_loop_wraps_is_told_as_that_alone(tmp_path: Path) -> None:
    text = """
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP

    parts, wrapped = torch.nn.ModuleList([Net()]), []
    parts.append(Teacher())
    for part in parts:
        wrapped.append(DDP(part))
    optimizer = torch.optim.SGD(parts.parameters(), lr=0.1)
    for epoch in range(9):
        for x in loader:
            wrapped[0](x).mean().backward()
            optimizer.step()
        acc = evaluate(wrapped)
        best = max(best, acc)
    """
    (question,) = plan_of(tmp_path, code(text)).questions
    assert "this wraps more than one model" in question.message
    assert "each turn of the loop at line 6 wraps one" in question.message


def test_one_of_several_optimizers_of_the_model_can_be_named(tmp_path: Path) -> None:
    text = code(BOTH_BUILT.replace("STEP", "model(x).mean().backward(); slow.step(); fast.step()"))
    text = text.replace("torch.optim.Adam(model.parameters()", "torch.optim.Adam(masks(model)")
    (asked,) = plan_of(tmp_path, text).questions
    assert asked.message.endswith("or name the one with the layers that are to get dendrites by --optimizer NAME.")
    plan = plan_of(tmp_path, text, Options(optimizer="fast"))
    assert (plan.questions, rewritten(plan).count("set_optimizer_instance(")) == ([], 1)
    assert "set_optimizer_instance(fast)" in rewritten(plan)
    assert "slow = torch.optim.SGD(model.parameters(), lr=0.1)\n" in rewritten(plan)
    (asked,) = plan_of(tmp_path, text, Options(optimizer="other")).questions
    assert asked.message.startswith(
        "--optimizer other names none of these or more than one; several optimizers were found: "
    )
    held = text.replace("fast", "args.fast")
    assert "set_optimizer_instance(args.fast)" in rewritten(plan_of(tmp_path, held, Options(optimizer="fast")))


BATCHES_ALONE = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for n, x in enumerate(loader):
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
    VALIDATE
"""


def test_a_training_as_long_as_its_batches_last_takes_no_value_of_each_step(tmp_path: Path) -> None:
    tested = BATCHES_ALONE.replace("VALIDATE", "if is_valid_number(loss):\n        show(loss)")
    assert survey_of(tested).loops == []
    text = code(BATCHES_ALONE.replace("VALIDATE", "if n % 100 == 0:\n        acc = evaluate(model)"))
    (asked,) = plan_of(tmp_path, text, Options(metric="loss", mode="min")).questions
    assert "each turn of this loop takes one step" in asked.message
    assert plan_of(tmp_path, text, Options(metric="acc", mode="max")).questions == []


PLATEAU = "schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)"


@pytest.mark.parametrize(
    ("turn", "asked"),
    [
        ("if n % 4:\n    continue\noptimizer.step()\nmean_loss = total / 4", True),
        ("if n % 4 == 0:\n    optimizer.step()\n    mean_loss = total / 4", True),
        ("if n % 4 == 0:\n    update()\n    mean_loss = total / 4", True),
        ("optimizer.step()\nif n % 100:\n    continue\nmean_loss = total / 4", False),
        ("optimizer.step()\nif n % 100 == 0:\n    mean_loss = total / 4\n    schedule.step(mean_loss)", False),
        ("if n % 4 == 0:\n    optimizer.step()\nelse:\n    mean_loss = total / 4", False),
        ("update()\nif n % 100 == 0:\n    mean_loss = update(False)", False),
    ],
    ids=["passed over", "in the block", "by a function", "after the step", "schedule stepped", "other branch", "both"],
)
def test_what_keeps_a_score_from_a_turn_without_a_step_makes_it_no_rarer(
    tmp_path: Path, turn: str, asked: bool
) -> None:
    text = BATCHES_ALONE.replace("    optimizer.step()\n    VALIDATE\n", indent(f"total += loss\n{turn}\n", "    "))
    begins = f"{PLATEAU}\ndef update(learns=True):\n    if learns:\n        optimizer.step()\n    return total / 4\n\n"
    begins += "total = 0.0\n"
    text = text.replace("for n, x in enumerate(loader):", f"{begins}for n in range(9000):\n    x = next(batches)")
    questions = plan_of(tmp_path, code(text), Options(metric="mean_loss", mode="min")).questions
    assert any("each turn of this loop takes one step" in question.message for question in questions) == asked
    questions = plan_of(tmp_path, code(text), Options(metric="mean_loss", mode="min", rounds="planned")).questions
    assert questions == []


PASSED = """
if n % 100 == 0:
    for held in held_out:
        for name, value in measure(model, held):
            meters[name].update(value)
    show(meters["psnr"].item())
    RESET
"""


@pytest.mark.parametrize(
    ("epoch", "metric", "handed"),
    [
        pytest.param(
            PASSED.replace("RESET", "for name in names:\n        meters[name].reset()"),
            'meters["psnr"].item()',
            "        pai_score = meters['psnr'].item()\n        for name in names",
            id="before it begins anew",
        ),
        pytest.param(
            PASSED.replace("RESET", "meters['loss'].reset()"),
            'meters["psnr"].item()',
            'reset()\n        pai_distributed.report_validation_score(meters["psnr"].item()',
            id="another begins anew",
        ),
        pytest.param("meters['loss'].update(loss)", "meters['loss'].avg", "", id="of each step"),
    ],
)
def test_an_item_that_methods_fill_is_handed_over_where_they_have(
    tmp_path: Path, epoch: str, metric: str, handed: str
) -> None:
    text = BATCHES_ALONE.replace("    VALIDATE\n", indent(code(epoch).strip(), "    ") + "\n")
    text = text.replace("n, x in enumerate(loader):", "n in range(9000):\n    x = next(batches)").replace(
        "for n in", "meters = make(names)\nfor n in"
    )
    plan = plan_of(tmp_path, code(text), Options(metric=metric, mode="max"))
    if handed:
        assert plan.questions == []
        assert handed.replace("'", '"') in rewritten(plan).replace("'", '"')
    else:
        assert "each turn of this loop takes one step" in plan.questions[0].message


@pytest.mark.parametrize(
    ("told", "head", "offered"),
    [
        ("mean_loss = 0.9 * mean_loss + 0.1 * loss", "", False),
        ("loss_info = 'loss %f' % loss", "", False),
        ("if n % 100 == 0:\n        mean_loss = total_loss / 100", "", True),
        ("mean_loss += loss.item()", "for epoch in range(9):\n  mean_loss = 0", True),
        ("loss_info = 'loss %f' % loss", "for epoch in range(9):", False),
    ],
)
def test_a_value_that_would_be_refused_is_not_proposed(tmp_path: Path, told: str, head: str, offered: bool) -> None:
    text = BATCHES_ALONE.replace("VALIDATE", told)
    text = text.replace("for n, x in enumerate(loader):", f"{head}\n  for x in loader:").replace("\n    ", "\n      ")
    if not head:
        text = BATCHES_ALONE.replace("VALIDATE", told)
        text = text.replace("n, x in enumerate(loader):", "n in range(9000):\n    x = next(batches)")
    (asked,) = plan_of(tmp_path, code(text)).questions
    assert (" takes `mean_loss`" in asked.message) is offered
    assert " takes `loss_info`" not in asked.message
    if offered:
        assert plan_of(tmp_path, code(text), Options(metric="mean_loss", mode="min")).questions == []


LEARNER = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Learner(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def forward(self, x):
        return self.learn(self.net(x).mean())

    def learn(self, loss):
        loss.backward()
        self.optimizer.step()

model = DDP(Net())
learner = Learner(model)
for epoch in range(9):
    for x in loader:
        learner(x)
    acc = evaluate(model)
    best = max(best, acc)
"""


@pytest.mark.parametrize(("called", "loops"), [("learner(x)", [19]), ("other(x)", []), ("model(x)", [])])
def test_a_module_whose_forward_trains_is_called_to_train(called: str, loops: list[int]) -> None:
    text = LEARNER.replace("learner(x)", called)
    assert [loop.line for loop in survey_of(text).loops] == loops


LEARNS = """def train_on(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        for x in loader:
            model(x).sum().backward()

"""
TESTED = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def build():
    return torch.nn.Linear(2, 2)

def train():
    model = DDP(build())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(9):
        for x in loader:
            model(x).mean().backward()
            optimizer.step()
        acc = evaluate(model)
        best = max(best, acc)

@torch.no_grad()
def test():
    model = DDP(build())
    print(evaluate(model))

if mode == "train":
    train()
else:
    test()
"""


def test_a_model_that_is_only_tested_is_no_other_one_to_choose() -> None:
    assert [[wrapper.line for wrapper in group] for group in survey_of(TESTED).groups] == [[8]]
    both = survey_of(
        TESTED.replace("    print(evaluate(model))", "    train_on(model)").replace("@torch.no_grad()\n", LEARNS)
    )
    assert len(both.groups) == 2


TWICE = """
import argparse
import torch

def main(args):
    if args.only_test:
        model = Net()
        model.load_state_dict(torch.load("best.pt"))
        print(evaluate(model))
    else:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model = torch.nn.DataParallel(model)
        for epoch in range(9):
            for x in loader:
                model(x).mean().backward()
                optimizer.step()
            acc = evaluate(model)
            best = max(best, acc)

parser = argparse.ArgumentParser()
parser.add_argument("--only_test", action="store_true")
args = parser.parse_args()
main(args)
if not args.only_test:
    args.only_test = True
    main(args)
"""


@pytest.mark.parametrize(
    ("old", "new", "asked"),
    [
        pytest.param("", "", False, id="in the other branch"),
        pytest.param("    args.only_test = True\n", "", True, id="in the same one"),
        pytest.param("    args.only_test = True\n", "    args.only_test = ask()\n", True, id="nobody knows"),
        pytest.param("range(9):", "range(9):\n            args.only_test = False", True, id="set elsewhere as well"),
    ],
)
def test_a_call_by_which_a_model_is_not_built_again_is_told_by_what_is_set_before_it(
    tmp_path: Path, old: str, new: str, asked: bool
) -> None:
    plan = plan_of(tmp_path, code(TWICE.replace(old, new, 1)))
    assert ["is called at line" in question.message for question in plan.questions] == [True] * asked


BRANCHES = """
import argparse, torch
from torch.nn.parallel import DistributedDataParallel as DDP

def built(width):
    return DDP(Net(width))

def fit(model, optimizer):
    for epoch in range(9):
        for x, y in loader:
            (model(x) - y).mean().backward()
            optimizer.step()
        val_loss = evaluate(model)

def one(args):
    model = built(4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fit(model, optimizer)

def two(args):
    model = built(8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    fit(model, optimizer)

def main(args):
    BOTH

parser = argparse.ArgumentParser()
parser.add_argument("--staged", type=int)
main(parser.parse_args())
"""


@pytest.mark.parametrize(
    ("both", "apart"),
    [
        pytest.param("if args.staged: one(args)\n    else: two(args)", True, id="else"),
        pytest.param(
            "if args.staged is None:\n        one(args)\n    if args.staged is not None:\n        two(args)",
            True,
            id="is and is not",
        ),
        pytest.param(
            "if args.staged != 2:\n        one(args)\n    if args.staged == 2:\n        two(args)", True, id="!="
        ),
        pytest.param(
            "if args.staged in (1, 2):\n        one(args)\n    if args.staged not in (1, 2):\n        two(args)",
            True,
            id="in and not in",
        ),
        pytest.param(
            "if args.staged > 1:\n        one(args)\n    if args.staged == 1:\n        two(args)", True, id="more"
        ),
        pytest.param(
            "if args.staged < 0.5:\n        one(args)\n    if args.staged >= 1:\n        two(args)", True, id="less"
        ),
        pytest.param(
            "if args.staged > 0:\n        one(args)\n    if args.staged < 1:\n        two(args)", False, id="between"
        ),
        pytest.param("if args.staged:\n        one(args)\n        raise SystemExit\n    two(args)", True, id="raised"),
        pytest.param(
            "if args.staged != 2:\n        one(args)\n    if args.staged == 3:\n        two(args)",
            False,
            id="of others",
        ),
        pytest.param(
            "if args.staged is None:\n        one(args)\n        args.staged = 1\n"
            "    if args.staged is not None:\n        two(args)",
            False,
            id="given between",
        ),
        pytest.param(
            "try:\n        if args.staged:\n            one(args)\n            raise ValueError\n"
            "    except ValueError:\n        pass\n    two(args)",
            False,
            id="caught",
        ),
    ],
)
def test_trainings_of_which_one_runs_build_one_model(tmp_path: Path, both: str, apart: bool) -> None:
    plan = plan_of(tmp_path, code(BRANCHES.replace("BOTH", both)), Options(metric="val_loss", mode="min"))
    told = ["is called at line" in one.message for one in plan.questions]
    told += [True for one in plan.notes if one.code == "PAI121"]
    assert told == [True] * (not apart)


EARLY = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def load(only=False):
    model = Net()
    model.to(device)
    if only:
        RETURN
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return DDP(model), optimizer

model, optimizer = load()
for epoch in range(9):
    for x, y in loader:
        (model(x) - y).mean().backward()
        optimizer.step()
    val_loss = evaluate(model)
test(load(only=True))
"""


@pytest.mark.parametrize(
    ("old", "new", "asked"),
    [
        pytest.param("RETURN", "return model", False, id="returned early"),
        pytest.param("RETURN", "sys.exit(model)", False, id="left early"),
        pytest.param("RETURN", "print(model)", True, id="not left"),
        pytest.param("only=True", "only=ask()", True, id="nobody knows"),
        pytest.param("= load()", "= load()\nsize = load(only=True).size", False, id="asked for its size later"),
        pytest.param("model, opt", "size = load(only=True).size\nmodel, opt", False, id="asked for its size before"),
        pytest.param("model, opt", "size = load(only=ask())\nmodel, opt", True, id="nobody knows what comes before"),
    ],
)
def test_a_call_that_returns_before_the_optimizer_builds_no_second_model(
    tmp_path: Path, old: str, new: str, asked: bool
) -> None:
    plan = plan_of(tmp_path, code(EARLY.replace(old, new).replace("RETURN", "return model")))
    assert ["is called at line" in question.message for question in plan.questions] == [True] * asked
    if not asked:
        text = rewritten(plan)
        assert text.index("    if only:") < text.index("UPA.perforate_model(") < text.index("tracker.set_optimizer(")


IN_PHASES = """
import torch

class Runner:
    def __init__(self):
        self.load()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.model = torch.nn.DataParallel(self.model)

    def load(self):
        self.model = Net()
        self.model.load_state_dict(torch.load(args.weights))

    def run(self):
        if args.phase == "train":
            for epoch in range(9):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    (self.model(x) - y).mean().backward()
                    self.optimizer.step()
                val_acc = evaluate(self.model)
        elif args.phase == "test":
            self.load()
            print(evaluate(self.model))

runner = Runner()
runner.run()
"""
IN_A_FUNCTION = """
import torch

def load():
    return torch.nn.DataParallel(Net())

model = load()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if args.phase == "train":
    for epoch in range(9):
        for x, y in loader:
            optimizer.zero_grad()
            (model(x) - y).mean().backward()
            optimizer.step()
        val_acc = evaluate(model)
elif args.phase == "test":
    print(evaluate(load()))
"""


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        pytest.param(IN_PHASES, False, id="its optimizer between"),
        pytest.param(IN_PHASES.replace("elif", "if True or"), True, id="after it"),
        pytest.param(f"{IN_PHASES}args.phase = ask()\nrunner.run()\n", True, id="run again"),
        pytest.param(IN_A_FUNCTION, False, id="of a function"),
        pytest.param(IN_A_FUNCTION.replace("elif", "if True or"), True, id="of a function after it"),
    ],
)
def test_a_call_in_the_place_of_the_training_builds_no_second_model(tmp_path: Path, text: str, asked: bool) -> None:
    plan = plan_of(tmp_path, code(text))
    assert ["is called at line" in question.message for question in plan.questions] == [True] * asked


#: Classes that inherit from one, each with a model and a loop of its own.
SIBLINGS = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Small:
    def __new__(cls):
        model = torch.nn.Linear(8, 1)
        return DDP(model)

class Large:
    def __new__(cls):
        model = torch.nn.Linear(8, 8)
        return DDP(model)

class Trainer:
    def __init__(self):
        self.model = None

    def train(self):
        self.set_up()
        self.tune()
        self.run()

class One(Trainer):
    def set_up(self):
        self.model = Small()

    def tune(self):
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def run(self):
        for epoch in range(10):
            for x in loader:
                self.optimizer.zero_grad()
                self.model(x).mean().backward()
                self.optimizer.step()
            val_loss = evaluate(self.model)

class Other(Trainer):
    def set_up(self):
        self.model = Large()

    def tune(self):
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.1)

    def run(self):
        for turn in range(20):
            for x in loader:
                self.optimizer.zero_grad()
                self.model(x).abs().mean().backward()
                self.optimizer.step()
            val_loss = evaluate(self.model)

trainer = One() if small else Other()
trainer.train()
"""


@pytest.mark.parametrize("large", ["Large", "build_large"], ids=["its class", "a function"])
def test_a_loop_is_that_of_the_class_that_builds_the_chosen_model(tmp_path: Path, large: str) -> None:
    text = SIBLINGS.replace("Large()", f"{large}()")
    if large != "Large":
        text = text.replace("class Large:\n    def __new__(cls):", f"def {large}():").replace(
            "        model = torch.nn.Linear(8, 8)\n        return DDP(model)",
            "    model = torch.nn.Linear(8, 8)\n    return DDP(model)",
        )
    plan = plan_of(tmp_path, code(text), Options(model=f"{large}.model"))
    assert plan.questions == []
    new = rewritten(plan)
    assert new.count("report_validation_score(") == new.count("pai_tracker.set_optimizer") == 1
    assert new.index("class Other") < new.index("pai_tracker.set_optimizer") < new.index("report_validation_score(")


def test_objects_of_sibling_classes_that_one_run_trains_are_several_trainings(tmp_path: Path) -> None:
    text = SIBLINGS.replace("trainer = One() if small else Other()\n", "One().train()\ntrainer = Other()\n")
    plan = plan_of(tmp_path, code(text), Options(model="Large.model"))
    assert any("several epoch loops were found" in one.message for one in plan.questions)


MADE_BY_KEY = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Net(torch.nn.Module):
    def train_on(self, x, optimizer):
        for part in x:
            self(part).mean().backward()
            optimizer.step()

model = DDP(KINDS[kind]())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(9):
    model.module.train_on(next(batches), optimizer)
"""


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("train_on", ", unless `model.module.train_on` (line 14) does, of an object whose class is not seen"),
        ("run", ""),
    ],
)
def test_a_method_that_trains_and_is_not_seen_to_be_called_is_named_with_what_would_show_it(
    tmp_path: Path, call: str, told: str
) -> None:
    (question,) = plan_of(tmp_path, MADE_BY_KEY.replace("module.train_on", f"module.{call}")).questions
    assert f"nothing was found to call `train_on` (line 6){told}. Call that, by name or on an object that is" in (
        question.message
    )


def test_a_model_that_is_trained_besides_is_not_said_to_get_no_wrapper_where_it_has_one(tmp_path: Path) -> None:
    text = code("""
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP

    def fit(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(9):
            for x in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
            acc = evaluate(model)
            if acc > best:
                best = acc

    def begin():
        model = Net()
        model = DDP(model)
        fit(model)

    def resume():
        net = Net()
        net.load_state_dict(torch.load("net.pt"))
        net = DDP(net)
        fit(net)

    resume() if again else begin()
    """)
    (question,) = plan_of(tmp_path, text).questions
    assert "Say which with --model NAME" in question.message


ENGINES = """
import deepspeed
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def train_ddp():
    model = DDP(build())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best = 9
    for epoch in range(9):
        for x, y in loader:
            optimizer.zero_grad()
            (model(x) - y).mean().backward()
            optimizer.step()
        val_loss = evaluate(model)
        if val_loss < best:
            best = val_loss

def train_engine():
    model = build()
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters())
    for epoch in range(9):
        for x, y in loader:
            engine.backward((engine(x) - y).mean())
            engine.step()

def build():
    return Net()

RUN
"""


@pytest.mark.parametrize(
    ("run", "option"),
    [
        ("if strategy == 'ddp':\n    train_ddp()\nelse:\n    train_engine()", "not (strategy == 'ddp')"),
        ("if parallel == 'engine':\n    train_engine()\nelse:\n    train_ddp()", "parallel == 'engine'"),
        ("if use_engine:\n    train_engine()\nelse:\n    train_ddp()", "use_engine"),
    ],
)
def test_a_training_by_another_library_that_runs_instead_is_left_alone(tmp_path: Path, run: str, option: str) -> None:
    plan = plan_of(tmp_path, ENGINES.replace("RUN", run))
    assert plan.questions == []
    assert [note.message for note in plan.notes if f"DeepSpeed is used here where `{option}` holds" in note.message]
    changed = rewritten(plan)
    assert "engine.backward((engine(x) - y).mean())\n            engine.step()\n" in changed
    assert changed.count("report_validation_score(") == 1


def test_a_training_by_another_library_in_the_same_run_is_refused(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, ENGINES.replace("RUN", "train_engine()\ntrain_ddp()"))
    assert "PAI100" in {question.code for question in plan.questions}


#: On a single device the script trains a model of its own, in the function that begins the processes.
SPAWNED_OR_ALONE = """
import torch
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP

def train(rank, args):
    net = DDP(Net())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(9):
        for x in loader:
            optimizer.zero_grad()
            net(x).mean().backward()
            optimizer.step()
        val_loss = evaluate(net)

def main(args):
    if args.gpus > 1:
        mp.spawn(train, args=(args,), nprocs=2)
    else:
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for epoch in range(9):
            for x in loader:
                optimizer.zero_grad()
                net(x).mean().backward()
                optimizer.step()
            val_loss = evaluate(net)

main(parse())
"""


@pytest.mark.parametrize(
    ("old", "new", "loops"),
    [
        pytest.param("", "", [8], id="instead"),
        pytest.param("else:", "if args.alone:", [8, 21], id="or after it"),
        pytest.param("args.gpus > 1", "args.local_rank > 0", [8, 21], id="on another rank"),
        pytest.param("net = Net()\n        opt", "net = DDP(Net())\n        opt", [8, 21], id="wrapped as well"),
    ],
)
def test_another_model_that_a_run_trains_in_place_of_the_wrapped_one_goes_on_as_it_was(
    old: str, new: str, loops: list[int]
) -> None:
    found = survey_of(code(SPAWNED_OR_ALONE.replace(old, new, 1)))
    assert [loop.line for loop in found.loops] == loops
    assert [one.line for one in found.instead] == ([] if 21 in loops else [21])


def test_nothing_is_written_into_the_loop_of_another_model_in_the_same_function(tmp_path: Path) -> None:
    first, last = SPAWNED_OR_ALONE.index("    net = DDP"), SPAWNED_OR_ALONE.index("def main")
    body = SPAWNED_OR_ALONE[first:last].replace("net", "model").replace("\n    ", "\n        ").strip()
    whole = SPAWNED_OR_ALONE.replace("mp.spawn(train, args=(args,), nprocs=2)", body)
    text = f"{whole[: whole.index('def train')]}{whole[whole.index('def main') :]}"
    plan = plan_of(tmp_path, code(text), Options(mode="min"))
    assert not plan.questions
    assert text[text.index("    else:\n") : text.index("main(parse())")] in rewritten(plan)


STEPS_AND_SAVES = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(Net())
rank = dist.get_rank()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = 0
while step < 270:
    for batch in loader:
        model(batch).mean().backward()
        optimizer.step()
        step += 1
        if rank == 0 and step % 9 == 0:
            val_loss = evaluate(model)
        LATER
        show(step)
"""


@pytest.mark.parametrize(
    ("later", "behind"),
    [
        pytest.param("if rank == 0 and step % 30 == 0:\n            save(model)", "show(step)", id="by a choice"),
        pytest.param("torch.save(model, name)", "show(step)", id="always"),
        pytest.param("show(val_loss)", "show(step)", id="nothing is saved"),
        pytest.param("if step == 80:\n            break\n        save(model)", "pai_score = val_loss", id="leaves"),
        pytest.param("step = step + 1\n        save(model)", "pai_score = val_loss", id="another condition"),
        pytest.param(
            "model(batch).mean().backward()\n        optimizer.step()\n        save(model)",
            "pai_score = val_loss",
            id="trains on",
        ),
    ],
)
def test_a_score_of_some_steps_is_handed_over_when_the_step_has_saved_and_written(
    tmp_path: Path, later: str, behind: str
) -> None:
    text = code(STEPS_AND_SAVES).replace("LATER", later)
    plan = plan_of(tmp_path, text, Options(metric="val_loss", mode="min"))
    assert plan.questions == []
    lines = [line.strip() for line in rewritten(plan).splitlines()]
    assert lines[lines.index(behind) + 1] == "if step % 9 == 0:"
    assert lines[lines.index(behind) + 2].startswith("pai_distributed.report_validation_score(pai_score")


TWO_WAYS = """
import argparse
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def once(self):
        for x, y in loader:
            self.model(x).mean().backward()
            self.optimizer.step()

    def train(self):
        for epoch in range(9):
            for x, y in loader:
                self.model(x).mean().backward()
                self.optimizer.step()
            val_loss = evaluate(self.model)

args = parse()
model = DDP(Net())
trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1))
if args.once:
    trainer.once()
else:
    trainer.train()
"""


@pytest.mark.parametrize(
    ("old", "new", "passes"),
    [
        pytest.param("", "", 2, id="instead"),
        pytest.param("else:\n    trainer.train()", "trainer.train()", 1, id="before"),
        pytest.param("trainer.once()\nelse", "measure()\nelse", 1, id="never"),
        pytest.param("self.optimizer.step()\n\n", "show()\n\n", 1, id="without a step"),
        pytest.param("self.model(x).mean", "other(x).mean", 1, id="of another model"),
    ],
)  # fmt: skip
def test_a_training_without_epochs_that_runs_instead_is_told(tmp_path: Path, old: str, new: str, passes: int) -> None:
    plan = plan_of(tmp_path, code(TWO_WAYS.replace(old, new, 1)))
    assert plan.questions == []
    assert rewritten(plan).count("pai_distributed.finish_initialization()") == passes
    told = [note for note in plan.notes if "this is a training, too" in note.message]
    assert [note.line for note in told] == [11][: passes - 1]


PHASES = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def pretrain():
    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(9):
        for x in loader:
            model(x).mean().backward()
            optimizer.step()
        val_loss = evaluate(model)

def tune():
    net = DDP(Other())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(9):
        for x in loader:
            net(x).mean().backward()
            optimizer.step()
        val_loss = evaluate(net)

pretrain()
tune()
"""


@pytest.mark.parametrize(("model", "first"), [("net", True), ("model", False)])
def test_another_training_that_the_same_run_begins_with_is_told(tmp_path: Path, model: str, first: bool) -> None:
    plan = plan_of(tmp_path, code(PHASES), Options(model=model))
    assert plan.questions == []
    assert ["is trained first in" in note.message for note in plan.notes] == [True] * first


GENERATORS = code("""
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP

    def wrap(net):
        return net if alone else DDP(net)

    def build():
        nets = {"generator": Generator()}
        if adversarial:
            nets.update({"critic": Critic()})
        return nets

    class Solver:
        def __init__(self, nets, optimizers):
            self.wrapped = {name: wrap(net) for name, net in nets.items()}
            self.model, self.optimizer = self.wrapped["generator"], optimizers["generator"]

        def train(self):
            for epoch in range(10):
                for x, y in loader:
                    loss = criterion(self.model(x), y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                acc = validate(self.model)
                if acc > self.best:
                    self.best = acc

    nets = build()
    optimizers = {"generator": torch.optim.Adam(nets["generator"].parameters())}
    Solver(nets, optimizers).train()
    """)


def test_one_of_several_in_a_dict_is_rewritten_as_the_question_says(tmp_path: Path) -> None:
    (question,) = plan_of(tmp_path, GENERATORS).questions
    assert "the comprehension at line 15 wraps each of several. Leave the one" in question.message
    assert "wrap it by another, by `DDP(...)` itself" in question.message
    left = "nets.items() if name != 'generator'}\n        self.wrapped['generator'] = DDP(nets['generator'])"
    text = rewritten(plan_of(tmp_path, GENERATORS.replace("nets.items()}", left)))
    assert text.count('nets["generator"] = UPA.perforate_model(') == 1
    assert "\n    return net if alone else DDP(net)\n" in text


@pytest.mark.parametrize("head", ["with tqdm(loader) as bar:", "for first, *rest in loader:"])
def test_whatever_gives_a_name_a_value_in_an_epoch_is_looked_at(tmp_path: Path, head: str) -> None:
    text = f"""
    import torch
    from torch.nn.parallel import DistributedDataParallel as DDP

    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(9):
        {head}
            for x in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
        first, *rest = losses(model)
    """
    (question,) = plan_of(tmp_path, code(text)).questions
    assert question.code == "PAI105"


DISTILLED = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 2)

class Distiller(nn.Module):
    def __init__(self, teacher, student):
        super().__init__()
        self.connector = nn.Linear(2, 2)
        self.teacher = teacher
        self.student = student

    def forward(self, x):
        return self.student(x), (self.connector(self.student(x)) - self.teacher(x)).pow(2).mean()

teacher = Net()
student = Net()
distiller = Distiller(teacher, student)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
BESIDE
student = nn.DataParallel(student)
distiller = nn.DataParallel(distiller)
for epoch in range(9):
    for x, y in loader:
        optimizer.zero_grad()
        output, loss = distiller(x)
        loss.backward()
        optimizer.step()
        OTHER
    with torch.no_grad():
        acc = sum(float(student(x)) for x in val)
    if acc > best:
        best = acc
        torch.save(student.state_dict(), "best.pt")
"""
CONNECTING = ("beside = torch.optim.SGD(distiller.connector.parameters(), lr=0.1)", "beside.step()")


@pytest.mark.parametrize(
    ("beside", "step", "asked"),
    [
        pytest.param(*CONNECTING, True, id="another part is trained beside it"),
        pytest.param("", "", False, id="one optimizer trains"),
        pytest.param("optimizer.add_param_group({'params': distiller.connector.parameters()})", "", False, id="it all"),
        pytest.param(
            "head = Net()\n" + CONNECTING[0].replace("distiller.connector", "head"),
            CONNECTING[1],
            False,
            id="of no part",
        ),
    ],
)
def test_a_student_in_its_distiller_is_asked_about(tmp_path: Path, beside: str, step: str, asked: bool) -> None:
    text = DISTILLED.replace("BESIDE", beside).replace("OTHER", step)
    told = [question.message for question in plan_of(tmp_path, text).questions]
    asks = "Say which of the two gets dendrites, with --model student or --model distiller."
    assert any(asks in one for one in told) is asked


@pytest.mark.parametrize(("model", "optimizer"), [("student", "optimizer"), ("distiller", "beside")])
def test_a_student_is_chosen_in_its_distiller(tmp_path: Path, model: str, optimizer: str) -> None:
    text = DISTILLED.replace("BESIDE", CONNECTING[0]).replace("OTHER", CONNECTING[1])
    changed = rewritten(plan_of(tmp_path, text, Options(model=model)))
    assert changed.count("UPA.perforate_model(") == 1
    assert f"{model} = UPA.perforate_model(\n        {model}," in changed
    assert f"{optimizer}, _ = GPA.pai_tracker.setup_optimizer({model}, optimArgs)" in changed
    assert f"\n    {model} = nn.DataParallel({model})" in changed
    other = "distiller" if model == "student" else "student"
    assert f"\n{other} = nn.DataParallel({other})" in changed


def test_what_names_no_model_is_told_all_that_are_wrapped(tmp_path: Path) -> None:
    text = DISTILLED.replace("BESIDE", "").replace("OTHER", "")
    with pytest.raises(UserError, match="names none of the wrapped models: `student`, `distiller`"):
        plan_of(tmp_path, text, Options(model="teacher"))


def test_what_a_wrapper_trains_whose_gradients_it_awaits_is_no_choice(tmp_path: Path) -> None:
    """A DistributedDataParallel has to know that some have none; the one of the student's own is not called."""
    text = DISTILLED.replace("BESIDE", CONNECTING[0]).replace("OTHER", CONNECTING[1])
    text = text.replace("nn.DataParallel", "nn.parallel.DistributedDataParallel")
    with pytest.raises(UserError, match="--model student names none of the wrapped models: `distiller`"):
        plan_of(tmp_path, text, Options(model="student"))
    assert not any("--model" in question.message for question in plan_of(tmp_path, text).questions)
    changed = rewritten(plan_of(tmp_path, text, Options(model="distiller")))
    assert "distiller = UPA.perforate_model(" in changed


MODES = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Base:
    def start(self):
        mode = getattr(self, args.mode)
        for epoch in range(9):
            mode()

    def train(self):
        raise NotImplementedError

class Runner(Base):
    def __init__(self):
        self.model = DDP(Net())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self):
        for x in loader:
            self.step(x)

    def step(self, x):
        self.model(x).mean().backward()
        self.optimizer.step()

    def test(self):
        print(self.model(1))

runner = Runner()
"""
#: What starts a training, and whether it is seen to.
STARTS = {
    "of itself": ("runner.start()", True),
    "of an object": ("for epoch in range(9):\n    getattr(runner, args.mode)()", True),
    "with what it does not take": ("for epoch in range(9):\n    getattr(runner, args.mode)(epoch)", False),
    "of another object": ("for epoch in range(9):\n    getattr(things, args.mode)()", False),
}


@pytest.mark.parametrize(("start", "seen"), STARTS.values(), ids=STARTS)
def test_a_method_that_trains_is_what_a_mode_chooses(start: str, seen: bool) -> None:
    text = code(MODES) if "start" in start else code(MODES).replace("mode()", "print(mode)")
    script = survey_of(f"{text}{start}\n")
    assert ("epoch" in [one.target for one in script.loops]) is seen


BESIDE_A_WRAPPED_ONE = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def build():
    return Net()

def fit(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(9):
        for x in loader:
            model(x).mean().backward()
            optimizer.step()
        acc = validate(model)

def alone():
    model = build()
    fit(model)

def together(rank):
    model = build()
    model = DDP(model)
    fit(model)

if CHOICE:
    together(0)
else:
    alone()
"""


@pytest.mark.parametrize(
    ("choice", "says"),
    [
        ("args.distributed", ": `args.distributed` (line 25) chooses between them. Let both ways"),
        ("torch.cuda.device_count() > 1", ": where one GPU is seen, as in the initialisation run, it may be the one"),
    ],
)
def test_what_chooses_a_training_without_the_wrapper_is_told(tmp_path: Path, choice: str, says: str) -> None:
    (question,) = plan_of(tmp_path, BESIDE_A_WRAPPED_ONE.replace("CHOICE", choice), Options(mode="max")).questions
    assert question.code == "PAI102"
    assert says in question.message


#: A loop of a base class that counts in what the class overrides of which the object is made.
COUNTED_BELOW = """
import torch
from torch.nn.parallel import DistributedDataParallel

class Base:
    def __init__(self, model):
        self.model, self.step, self.calls = model, 0, 0
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def advance(self):
        self.model(draw()).mean().backward()
        self.optimizer.step()
        self.step += 1
    def train(self, best=0):
        while self.step < 900:
            self.advance()
            if self.step % 10 == 0:
                acc = evaluate(self.model)
                if acc > best:
                    best = acc

class Trainer(Base):
    def advance(self):
        for _ in range(2):
            self.model(draw()).mean().backward()
        self.optimizer.step()
        COUNT

Trainer(DistributedDataParallel(Net())).train()
"""


@pytest.mark.parametrize(
    ("count", "target"),
    [
        ("self.step += 1", ["self.step"]),
        pytest.param("self._end()\n    def _end(self):\n        self.step += 1", ["self.step"], id="by a further one"),
        pytest.param("self.calls += 1", [], id="another counter"),
        pytest.param("pass\n    def restore(self):\n        self.step += 1", [], id="not in the loop"),
    ],
)
def test_a_counter_may_be_raised_in_a_method_that_a_subclass_overrides(count: str, target: list[str]) -> None:
    assert [loop.target for loop in survey_of(COUNTED_BELOW.replace("COUNT", count)).loops] == target


@pytest.mark.parametrize(
    ("limit", "single"), [("range(1)", True), ("range(0, 1)", True), ("range(2)", False), ("range(1, first)", False)]
)
def test_a_loop_of_one_number_is_known(limit: str, single: bool) -> None:
    (loop,) = survey_of(script("acc = validate(model)").replace("range(10)", limit)).loops
    assert loop.single == single


#: A class that trains, as a copy of a library's own, of which only what nothing calls makes an object, and a script
#: that trains step by step by itself.
OF_A_COPY = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(self):
        model = DDP(self.model)
        for epoch in range(9):
            for x in loader:
                self.step(model, x)
            self.evaluate()

    def step(self, model, x):
        self.optimizer.zero_grad()
        model(x).mean().backward()
        self.optimizer.step()

    def evaluate(self):
        self.model.eval()
        return sum(float(self.model(x)) for x in val)

class Saves:
    def on_end(self, model):
        Trainer(model).save("out")

CALLBACKS = {"saves": Saves}

def run():
    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(99):
        model.train()
        STEPPED
        model(next(batches)).mean().backward()
        if step % 9 == 0:
            MEASURED

START
"""


@pytest.mark.parametrize("measured", ["acc = evaluate(model)", "print(step)"])
@pytest.mark.parametrize(
    ("stepped", "start", "lines"),
    [
        pytest.param("optimizer.step()", "run()", [34], id="which no run comes to"),
        pytest.param("optimizer.step()", "Trainer(Net()).train()", [11], id="which alone runs"),
        pytest.param("optimizer.step()", "CALLBACKS", [11], id="as nothing is seen to run"),
    ],
)
def test_a_training_that_nothing_calls_does_not_count_beside_one_that_runs(
    measured: str, stepped: str, start: str, lines: list[int]
) -> None:
    text = OF_A_COPY.replace("STEPPED", stepped).replace("START", start).replace("MEASURED", measured)
    assert [loop.line for loop in survey_of(text).loops] == lines


def test_it_counts_beside_what_steps_nothing_as_an_attack() -> None:
    text = OF_A_COPY.replace("STEPPED", "print(x.grad)").replace("START", "run()").replace("MEASURED", "print(step)")
    assert [loop.line for loop in survey_of(text).loops] == [11]


#: A function that wraps one model and trains it beside another's training; tests replace the words in capitals.
BESIDE_ANOTHER = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def parallel(net):
    return DDP(net)

def fit(probe, x):
    probe = WRAPPER(probe)
    own = torch.optim.SGD(probe.parameters(), lr=0.1)
    TURNS:
        own.zero_grad()
        probe(x).mean().backward()
        own.step()

def main():
    model, probe = Net(), Head()
    model = WRAPPER(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best = 0
    BEFORE
    for epoch in range(9):
        for x in loader:
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
        acc = validate(model)
        if acc > best:
            best = acc
    AFTER

main()
"""


@pytest.mark.parametrize("place", ["BEFORE", "AFTER"])
@pytest.mark.parametrize(
    ("wrapper", "turns", "told"),
    [
        ("DDP", "if True", ":12:9: PAI104 no loop was found around this backward pass."),
        ("parallel", "if True", ":12:9: PAI104 no loop was found around this backward pass."),
        ("parallel", "for epoch in range(9)", ":10:5: PAI105 no validation score was found in this epoch loop."),
    ],
)
def test_the_epoch_loop_of_another_model_is_none_of_the_named_one(
    wrapper: str, turns: str, told: str, place: str, tmp_path: Path
) -> None:
    text = code(BESIDE_ANOTHER).replace("TURNS", turns).replace("WRAPPER", wrapper).replace(place, "fit(probe, data)")
    text = text.replace("BEFORE", "pass").replace("AFTER", "pass")
    (question,) = plan_of(tmp_path, text, Options(model="probe")).questions
    assert told in str(question)
    plan = plan_of(tmp_path, text, Options(model="model"))
    assert ([*plan.questions], [loop.line for loop in plan.script.loops]) == ([], [21])
