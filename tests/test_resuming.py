"""A checkpoint that a script has saved in an earlier round neither ends a later one, nor keeps it from training."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from retrofit.options import Options
from tests.helpers import code, plan_of, rewritten, script, survey_of

SCRIPT = """
import os, sys, torch
from torch.nn.parallel import DistributedDataParallel as DDP

def main():
    model = Net()
    model = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best, first, stopper, stop = 0, 0, Stopper(), False
    if os.path.exists("last.pt"):
        state = torch.load("last.pt")
        model.load_state_dict(state["model"])
        RESUMED
    BEGUN
    for epoch in range(first, 10):
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        acc = evaluate(model)
        if acc > best:
            best = acc
        ENDED
        torch.save({"model": model.state_dict(), "epoch": epoch}, "last.pt")

main()
"""
STOPS = "stopper(acc)\nif stopper.stop:\n    break"


def resumed(taken: str = "pass", begun: str = "pass", ended: str = "pass") -> str:
    """Return the script that takes something from its checkpoint, looks at it before the loop, and ends in it."""
    text = code(SCRIPT).replace("RESUMED", taken.replace("\n", "\n        "))
    return text.replace("BEGUN", begun.replace("\n", "\n    ")).replace("ENDED", ended.replace("\n", "\n        "))


#: Rows of data are kept in a file, as a checkpoint is.
ROWS = """from torch.utils.data import DataLoader, Dataset

def read(name):
    if os.path.exists(name):
        return torch.load(name)
    rows = make(name)
    torch.save(rows, name)
    return rows

class Rows(Dataset):
    def __init__(self, name):
        self.rows = read(name)

    def __len__(self):
        return len(self.rows)

"""


def counted_by(number: str) -> str:
    """Return the script that ends after a number of steps of which it makes one of epochs."""
    begun = f"args = argparse.ArgumentParser().parse_args()\nargs.limit = args.steps // {number}"
    text = resumed("pass", begun, "if epoch > args.limit:\n    break")
    return text.replace("import os, ", "import argparse, os, ").replace("def main", f"{ROWS}def main")


AVERAGE = """class Average:
    def __init__(self, model):
        self.model = model
        self.shadow = {name: part.clone() for name, part in model.named_parameters()}

    def load(self, state):
        self.shadow = state['average']

    def update(self):
        for name, part in self.model.named_parameters():
            HOW

"""


CLASS = "class Vocoder"
VOCODER = f"""{CLASS}:
    def __init__(self):
        self.model = torch.load("vocoder.pt")

"""


def optional(given: str) -> str:
    """Return the script that ends by an option, which is named as what another object has of a file."""
    begun = f"parser = argparse.ArgumentParser()\nargs = {given}\nlimit = LIMITS[args.model]"
    text = resumed("pass", begun, "if epoch > limit:\n    break")
    return text.replace("import os, ", "import argparse, os, ").replace(
        "def main", f"{VOCODER}VOCODERS = [Vocoder]\n\ndef main"
    )


def averaged(taken: str, how: str = "self.shadow[name].lerp_(part, 0.1)") -> str:
    """Return the script that takes something of an average of its weights from its checkpoint."""
    text = resumed(taken).replace("def main", f"{AVERAGE.replace('HOW', how)}def main")
    text = text.replace("    best, ", "    average = Average(model)\n    best, ")
    return text.replace("optimizer.step()\n", "optimizer.step()\n            average.update()\n")


FILLS = "for name, part in model.named_parameters():\n    kept[name] = part\nmodel.load_state_dict(kept)"


def kept(how: str, taken: str) -> str:
    """Return the same, of one that is filled by names before the training, and goes through its own in it."""
    text = averaged(taken, how)
    filled = "{}\n        for name, part in model.named_parameters():\n            self.shadow[name] = part.clone()"
    text = text.replace("{name: part.clone() for name, part in model.named_parameters()}", filled)
    return text.replace("for name, part in self.model.named_parameters()", "for name, part in numbered(self.model)")


HELPERS = """def leave_if_over(known):
    if known["epoch"] >= 9:
        sys.exit()

def take(it, known):
    it.load_state_dict(known["stopper"])

def take_part(it, known):
    it.bad = known["bad"]

def forget(it, known):
    it = known["stopper"]

"""
FIT = """def fit(state):
    kept = state['model']
    for name, part in model.state_dict().items():
        if name not in kept:
            kept[name] = part
    model.load_state_dict(kept)

"""


def helped(taken: str, ended: str = "pass") -> str:
    """Return the script that takes something from its checkpoint by a function."""
    return resumed(taken, ended=ended).replace("def main", f"{HELPERS}def main")


@pytest.mark.parametrize(
    ("text", "guarded"),
    [
        pytest.param(helped("leave_if_over(state)"), "sys.exit()", id="a helper says so, and leaves"),
        pytest.param(helped("take(stopper, state)", STOPS), "it.load_state_dict", id="a helper lets it take"),
        pytest.param(
            helped("take_part(stopper, state)", "if stopper.bad > 3:\n    break"),
            "it.bad = ",
            id="a helper gives a part",
        ),
        pytest.param(
            resumed(
                "kept = state['average']", ended="for name, part in model.named_parameters():\n    kept[name] += part"
            ),
            "kept = state",
            id="an average by names in a variable",
        ),
        pytest.param(
            resumed("first = state['epoch'] + 1", "if first >= 10:\n    return"), "    return", id="all epochs are over"
        ),
        pytest.param(resumed("if state['finished']:\n    sys.exit()"), "    sys.exit()", id="a flag says so"),
        pytest.param(
            resumed("if state['finished']:\n    if dist.get_rank() == 0:\n        sys.exit()"),
            "    sys.exit()",
            id="a flag says so, and on a rank",
        ),
        pytest.param(
            resumed("stopper.load_state_dict(state['stopper'])", ended=STOPS), "stopper.load_state_dict", id="stopping"
        ),
        pytest.param(
            averaged("average.shadow = state['average']"), "average.shadow = state['average']", id="an average by names"
        ),
        pytest.param(
            averaged("average.load(state)"), "self.shadow = state['average']", id="an average by names, in its class"
        ),
        pytest.param(
            kept("self.shadow[name].lerp_(part, 0.1)", "average.shadow = state['average']"),
            "average.shadow = state['average']",
            id="an average that is filled before",
        ),
        pytest.param(
            kept("self.shadow[name].lerp_(part, 0.1)", "average.load(state)"),
            "self.shadow = state['average']",
            id="an average that is filled before, in its class",
        ),
        pytest.param(
            resumed("kept = state['kept']\n" + FILLS, ended="update(kept, model)"),
            "kept = state",
            id="an average in a variable that is filled before",
        ),
        pytest.param(
            resumed("stopper.__dict__.update(state['stopper'])", ended=STOPS), "stopper.__dict__", id="its attributes"
        ),
        pytest.param(
            resumed("stopper.bad, stopper.best = state['stopper']", ended=STOPS), "stopper.bad, ", id="two of them"
        ),
        pytest.param(resumed("stop = state['stop']", ended="if stop:\n    break"), "stop = state", id="a flag"),
        pytest.param(
            resumed("stopper = state['stopper']", ended="if stopper(acc):\n    break"),
            "stopper = state",
            id="an object",
        ),
    ],
)
def test_what_ends_a_training_by_an_earlier_rounds_checkpoint_does_so_in_the_first(
    tmp_path: Path, text: str, guarded: str
) -> None:
    plan = plan_of(tmp_path, text)
    assert len(plan.script.resumptions) == 1
    lines = [line.removeprefix("        ").removeprefix("    ") for line in rewritten(plan).splitlines()]
    (line,) = [
        n for n, one in enumerate(lines) if one.strip().startswith(guarded.strip()) and "load_folder" in lines[n - 1]
    ]
    assert lines[line - 1].strip() == "if not pai_distributed.load_folder():"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(averaged("average.shadow = state['average']", "self.all += part"), id="an average of all"),
        pytest.param(kept("part.lerp_(part, 0.1)", "average.shadow = state['average']"), id="filled, and never read"),
        pytest.param(
            resumed("kept = state['kept']\n" + FILLS, ended="kept = {'epoch': epoch}\nprint(kept)"),
            id="another value of that name",
        ),
        pytest.param(averaged("average.model = state['model']"), id="what is averaged"),
        pytest.param(
            resumed("for name, part in model.named_parameters():\n    part.data = state[name]"), id="weights by names"
        ),
        pytest.param(helped("forget(stopper, state)", STOPS), id="a helper's own name"),
        pytest.param(helped("take(model, state)", STOPS), id="a helper gives something else"),
        pytest.param(helped("pass", "leave_if_over({'epoch': epoch})"), id="a helper leaves by another number"),
        pytest.param(resumed("fit(state)").replace("def main", f"{FIT}def main"), id="weights that are made to fit"),
        pytest.param(resumed("first = state['epoch'] + 1"), id="a counter"),
        pytest.param(
            resumed(
                "pass", "if state is not None:\n    if sys.argv[1:]:\n        evaluate(model)\n        return"
            ).replace("    if os.path.exists", "    state = None\n    if os.path.exists"),
            id="an evaluation of what is there, by an option",
        ),
        pytest.param(resumed("best = state['best']", ended="if acc > best:\n    best = acc"), id="the best so far"),
        pytest.param(resumed("stopper.load_state_dict(state['stopper'])"), id="stops nothing"),
        pytest.param(
            resumed("pass", "kept = {'first': state['epoch'], 'worse': 0}", ended="if kept['worse'] > 3:\n    break"),
            id="all that begins a name, which is read later",
        ),
        pytest.param(
            resumed("pass", "kept = Kept(**state)", ended="if kept.worse > 3:\n    break"),
            id="an object with all that begins a name",
        ),
        pytest.param(
            resumed(
                "pass",
                "if only_test:\n    kept = {'worse': 9}\nelse:\n    kept = {'first': state['epoch'], 'worse': 0}",
                ended="if kept['worse'] > 3:\n    break",
            ),
            id="all that begins a name in its branch",
        ),
        pytest.param(resumed("pass", "if only_test:\n    evaluate(model)\n    return"), id="leaves by an option"),
        pytest.param(resumed("if 'model' not in state:\n    raise ValueError"), id="raises"),
        pytest.param(resumed(ended="if epoch > 5:\n    break"), id="a number of epochs"),
        pytest.param(
            resumed("stop = state['stop']", ended="if stop:\n    break").replace("torch.save(", "print("),
            id="not its own",
        ),
        pytest.param(counted_by("len(DataLoader(read('train')))"), id="how many batches a file has"),
        pytest.param(counted_by("len(Rows('train'))"), id="how many rows a data set has"),
        pytest.param(optional("argparse.ArgumentParser().parse_args()"), id="an option"),
        pytest.param(
            optional("argparse.ArgumentParser().parse_known_args()").replace("args =", "args, rest ="), id="a known one"
        ),
        pytest.param(optional("Options()").replace("class Voc", "class Options:\n    pass\n\nclass Voc"), id="a class"),
    ],
)
def test_what_an_earlier_rounds_checkpoint_does_not_end_is_left_alone(text: str) -> None:
    assert survey_of(text).resumptions == []


KEEPS = "class Kept:\n    def __init__(self):\n        self.bad = self.worse = 0\n\n"


def ended_by_a_part(made: str, taken: str, *, before: str = KEEPS) -> str:
    """Return the script that ends by an attribute of an object, of which it takes something from its checkpoint."""
    text = resumed(taken, ended="if epoch > kept.worse:\n    break").replace("    best, ", f"    {made}\n    best, ")
    return text.replace("import os, ", "import argparse, os, ").replace("def main", f"{before}def main")


PARSED = "kept = argparse.ArgumentParser().parse_args()"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        pytest.param(ended_by_a_part(PARSED, "kept.bad = state['bad']"), 0, id="another option"),
        pytest.param(ended_by_a_part(PARSED, "kept.worse = state['worse']"), 1, id="the option"),
        pytest.param(ended_by_a_part(PARSED, "kept.__dict__.update(state)"), 1, id="all options"),
        pytest.param(ended_by_a_part(PARSED, "take_part(kept, state)", before=HELPERS), 0, id="another by a helper"),
        pytest.param(
            ended_by_a_part(PARSED, "take_part(kept, state)", before=HELPERS.replace("it.bad", "it.worse")),
            1,
            id="the option, by a helper",
        ),
        pytest.param(ended_by_a_part("kept = Kept()", "kept.bad = state['bad']"), 0, id="another attribute"),
        pytest.param(ended_by_a_part("kept = Kept()", "kept.worse = state['worse']"), 1, id="the attribute"),
        pytest.param(ended_by_a_part("kept = Kept()", "kept = state['kept']"), 1, id="the object"),
        pytest.param(
            ended_by_a_part(
                "kept = Kept()", "kept.bad = state['bad']", before=f"{KEEPS}    def step(self):\n        print()\n\n"
            ),
            1,
            id="an object with code of its own",
        ),
        pytest.param(ended_by_a_part("kept = made()", "kept.bad = state['bad']"), 1, id="an object that is not known"),
    ],
)
def test_of_what_only_keeps_what_it_is_given_the_part_that_decides_is_the_state(text: str, number: int) -> None:
    found = len(survey_of(text).resumptions)
    assert found == number


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(counted_by("len(read('last'))"), id="how many a checkpoint has"),
        pytest.param(optional("argparse.ArgumentParser().parse_args([], Vocoder())"), id="options given to it"),
        pytest.param(
            optional("Options()").replace("def main", "class Options(Vocoder): pass\n\ndef main"), id="an heir"
        ),
        pytest.param(
            optional("Options()").replace("def main", "class Options(Base, Vocoder): pass\n\ndef main"), id="of two"
        ),
        pytest.param(optional("settings"), id="not known"),
        pytest.param(
            optional("argparse.ArgumentParser().parse_args()\nargs.model = torch.load('m')"), id="given to it"
        ),
    ],
)
def test_what_an_object_may_have_of_a_checkpoint_does_not_end_a_later_round(text: str) -> None:
    assert len(survey_of(text).resumptions) == 1


ENGINE = """
import os, torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Engine:
    def __init__(self, args):
        self.args, self.epochs, self.last, self.best = args, 1, args.last, 0
        self.model = DDP(Net())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        if os.path.exists("last.pt"):
            self.load("last.pt")

    def load(self, path):
        state = torch.load(path)
        TAKEN

    def train(self):
        BEGUN
        for epoch in range(self.epochs, self.last + 1):
            for x, y in loader:
                loss = criterion(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            self.epochs += 1
            acc = evaluate(self.model)
            torch.save({"attrs": self.__dict__}, "last.pt")

def same(given):
    return given

engine = Engine(same(parsed))
engine.train()
"""
ALL = "for key, value in state['attrs'].items():\n    setattr(self, key, value)"


def engine(taken: str = "pass", begun: str = "pass") -> str:
    """Return the script of an object that takes something from its checkpoint, and begins by something."""
    text = code(ENGINE).replace("TAKEN", taken.replace("\n", "\n        "))
    return text.replace("BEGUN", begun.replace("\n", "\n        "))


@pytest.mark.parametrize(
    ("text", "guarded"),
    [
        pytest.param(engine(ALL), "setattr(self, key, value)", id="each by its name"),
        pytest.param(
            engine(ALL).replace("\nengine.train()", ".train()"), "setattr(self, key, value)", id="built as it begins"
        ),
        pytest.param(
            engine("self.__dict__.update(state['attrs'])"), "self.__dict__.update", id="all of its attributes"
        ),
        pytest.param(engine("vars(self).update(state['attrs'])"), "vars(self).update", id="all that vars gives"),
        pytest.param(
            engine("self.epochs = state['epochs']", "assert self.epochs < self.last, 'trained already'"),
            "assert self.epochs",
            id="asserts that it begins before its end",
        ),
        pytest.param(
            engine("self.epochs = state['epochs']", "if self.epochs >= self.last:\n    raise ValueError('trained')"),
            "raise ValueError",
            id="raises where it begins past its end",
        ),
    ],
)
def test_an_object_that_resumes_begins_each_round_anew(tmp_path: Path, text: str, guarded: str) -> None:
    lines = rewritten(plan_of(tmp_path, text)).splitlines()
    (line,) = [n for n, one in enumerate(lines) if one.strip().startswith(guarded)]
    assert lines[line - 1].strip() == "if not pai_distributed.load_folder():"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(engine(ALL.replace("setattr(self", "setattr(self.args")), id="settings"),
        pytest.param(engine(ALL.replace("state['attrs']", "kept")), id="of no checkpoint"),
        pytest.param(engine(ALL).replace("self.epochs += 1", "pass"), id="what the training never changes"),
        pytest.param(
            engine(ALL)
            .replace("engine.train()", "evaluate(engine.train(), engine)")
            .replace('        if os.path.exists("last.pt"):\n            self.load("last.pt")\n', "")
            + "\ndef evaluate(value, engine):\n    engine.load('last.pt')\n",
            id="behind it",
        ),
        pytest.param(engine("setattr(self, 'best', state['best'])"), id="one that begins nothing"),
        pytest.param(engine("assert state['name'] == 'net'"), id="asserts something else"),
        pytest.param(engine("if state['epochs'] > 5:\n    raise ValueError"), id="raises for something else"),
        pytest.param(
            "def same(given):\n    return given\n\n"
            + resumed("same(state['args'])").replace(
                "    best, ", "    if same(options).bad:\n        return\n    best, "
            ),
            id="leaves before it loads",
        ),
        pytest.param(
            engine("same(state['args'])").replace(
                "engine = ", "parsed = same(parsed)\nif parsed.bad:\n    exit()\nengine = "
            ),
            id="leaves before what loads is called",
        ),
    ],
)
def test_an_object_that_takes_nothing_of_its_training_is_left_alone(text: str) -> None:
    places = [one.position for one in survey_of(text).resumptions]
    assert places == []


MISSING = """if options.evaluate:
    if os.path.isfile(options.evaluate):
        found = torch.load(options.evaluate)
        options = found["options"]
        only = True
    else:
        print("nothing is there")
        return
elif options.resume:
    if os.path.isfile(options.resume):
        options.first = torch.load(options.resume)["epoch"] + 1
    else:
        return
if only:
    return"""

TAKES_OPTIONS = "begun = options\nif options.resume:\n    options = torch.load('last.pt')['options']\n"


def asked_for(begun: str) -> str:
    """Return the script with what it does by its options before it builds its model."""
    text = resumed().replace("import os, ", "import argparse, os, ")
    parsed = "options = argparse.ArgumentParser().parse_args()\n\n\ndef main():\n    global options\n"
    text = text.replace("def main():\n", parsed)
    return text.replace("    model = Net()\n", f"    {begun.replace(chr(10), chr(10) + '    ')}\n    model = Net()\n")


@pytest.mark.parametrize(
    ("begun", "number"),
    [
        pytest.param(MISSING, 0, id="the other branch loads"),
        pytest.param(
            f"{TAKES_OPTIONS}if options.only:\n    return\noptions.folder = begun.folder", 0, id="an option of before"
        ),
        pytest.param(
            f"{TAKES_OPTIONS}options.only = begun.only\nif options.only:\n    return", 0, id="an option of this run"
        ),
        pytest.param(
            f"{TAKES_OPTIONS}if options.over:\n    return\noptions.over = True", 1, id="what the training changes"
        ),
        pytest.param(
            "options.first = torch.load('last.pt')['epoch']\nif options.first > 9:\n    return", 1, id="loads before"
        ),
    ],
)
def test_what_leaves_by_an_option_stays(begun: str, number: int) -> None:
    """So does what leaves where the file is missing that one names, and only the other branch loads it."""
    assert [one.code for one in survey_of(asked_for(begun)).resumptions] == ["return"] * number


SCHEDULE = "schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)"
TAKEN = "schedule.last_epoch = state['epoch']"
GUARD = "if not pai_distributed.load_folder():"
BEGUN = 'schedule.last_epoch = pai_distributed.from_the_start(schedule.last_epoch, "schedule.last_epoch")'


@pytest.mark.parametrize(
    ("made", "begins", "guarded"),
    [
        pytest.param(SCHEDULE, True, False, id="always"),
        pytest.param(f"schedule = None\n    if decays:\n        {SCHEDULE}", False, True, id="perhaps"),
        pytest.param("schedule = Schedule(optimizer)", False, False, id="of the script's own"),
    ],
)
def test_the_epoch_of_a_schedule_begins_anew_with_those_of_the_loop(
    tmp_path: Path, made: str, begins: bool, guarded: bool
) -> None:
    """Else its rate would be that of an end long past, or of no epoch at all."""
    text = resumed(f"first = state['epoch'] + 1\n{TAKEN}", ended="schedule.step()")
    plan = plan_of(tmp_path, text.replace("    best, first", f"    {made}\n    best, first"))
    assert plan.questions == []
    lines = [line.strip() for line in rewritten(plan).splitlines()]
    assert (BEGUN in lines) is begins
    assert (lines[lines.index(TAKEN) - 1] == GUARD) is guarded


MADE_ANEW = """def make_anew(schedule, optimizer, done):
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    SET
    return schedule

def main"""


@pytest.mark.parametrize(
    ("turn", "guarded"),
    [
        pytest.param("schedule = make_anew(schedule, optimizer, epoch + 1)", False, id="again in the training"),
        pytest.param("schedule.step()", True, id="before it alone"),
    ],
)
def test_a_schedule_that_is_made_anew_within_the_training_goes_on_in_all_rounds(
    tmp_path: Path, turn: str, guarded: bool
) -> None:
    told = "schedule.last_epoch = done - 1"
    begun = "schedule = None\nif decays:\n    schedule = make_anew(schedule, optimizer, first)"
    text = resumed("first = state['epoch'] + 1", begun, f"if epoch % 3 == 0:\n    {turn}")
    plan = plan_of(tmp_path, text.replace("def main", MADE_ANEW.replace("SET", told), 1))
    assert plan.questions == []
    lines = [line.strip() for line in rewritten(plan).splitlines()]
    assert (lines[lines.index(told) - 1] == GUARD) is guarded


CHOSEN = """if not os.path.exists("last.pt"):
        first, stop = 0, False
    else:
        state = torch.load("last.pt")
        model.load_state_dict(state["model"])
        first, stop = state["epoch"], state["stop"]
    """
ENDING = "if acc > 0.9:\n    stop = True\nif stop:\n    break"


@pytest.mark.parametrize(
    ("before", "asked"),
    [
        pytest.param("pass", ["first", "stop"], id="by one of two branches"),
        pytest.param("first = 0", ["stop"], id="one of two names"),
        pytest.param("first, stop = 0, False", [], id="also before"),
    ],
)
def test_names_that_later_rounds_would_read_without_a_value_are_asked_about(
    tmp_path: Path, before: str, asked: list[str]
) -> None:
    text = resumed(ended=ENDING).replace("best, first, stopper, stop = 0, 0, Stopper(), False", "best = 0")
    head, tail = text[: text.index("if os.path")], text[text.index("pass\n    for ") :]
    made = plan_of(tmp_path, f"{head}{before}\n    {CHOSEN}{tail}")
    assert [(one.code, one.line, one.column) for one in made.questions] == [("PAI024", 15, 9)] * len(asked)
    assert [one.message for one in made.questions] == [
        f"what gives `{name}` its value no longer runs here at each start, but what comes later reads `{name}` at all "
        "of them. Give it a value before, on every way there."
        for name in asked
    ]
    assert asked or "if not pai_distributed.load_folder():\n            first, stop =" in rewritten(made)


TESTED = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def build():
    return Net()

def train():
    model = build()
    BEFORE
    model = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        val_loss = evaluate(model)
    AFTER

def test():
    net = MADE
    net.load_state_dict(torch.load("best.pt"))

if mode in ("train", "all"):
    train()
if mode in ("test", "all"):
    test()
"""


def anew(made: str = "Other()", before: str = "pass", after: str = "pass") -> str:
    return code(TESTED).replace("MADE", made).replace("BEFORE", before).replace("AFTER", after)


LOADED = "net = build(); net.load_state_dict(torch.load('best.pt'))"


@pytest.mark.parametrize(
    ("text", "places"),
    [
        pytest.param(anew("build()"), [23], id="a test of its own"),
        pytest.param(anew(after=LOADED), [], id="behind the training, which knows the trained one"),
        pytest.param(anew("build()").replace('if mode in ("train", "all"):\n    ', ""), [], id="always behind it"),
        pytest.param(anew(after=f"if wanted:\n        {LOADED}"), [], id="behind it by an option"),
        pytest.param(anew("build()", after=LOADED), [23], id="both"),
        pytest.param(anew("build()") + f"if more:\n    {LOADED}\n", [23, 30], id="two tests"),
        pytest.param(
            anew("build()").replace("    train()", "    torch.multiprocessing.spawn(train, nprocs=2)"),
            [23],
            id="behind other processes",
        ),
        pytest.param(anew("make()"), [], id="another model"),
        pytest.param(anew(before=LOADED), [], id="a teacher, before the training"),
        pytest.param(anew(after="model.module.load_state_dict(torch.load('best.pt'))"), [], id="the trained one"),
    ],
)
def test_what_loads_weights_into_a_model_built_anew_is_told(tmp_path: Path, text: str, places: list[int]) -> None:
    made = plan_of(tmp_path, text)
    told = [note for note in made.notes if note.code == "PAI116"]
    assert made.questions == []
    assert [note.line for note in told] == places[:1]
    assert all(f"line {place}" in told[0].message for place in places[1:])


#: A model that is trained, or, by an option, loaded in place of that; the one that is tested may be another.
EITHER = """
import torch

def evaluate(net=None):
    GIVEN
    return score(net)

def main():
    model = torch.nn.DataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if not wanted:
        for epoch in range(10):
            for x, y in loader:
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            val_loss = evaluate(model)
    else:
        OTHERWISE

main()
"""
LOADS = "NAME.load_state_dict({k: v for k, v in torch.load('best.pt').items() if k in NAME.state_dict()})"
BY_OWN_NAMES = {name: LOADS.replace("NAME", name) for name in ("net", "model")}
OR_ANEW = f"if net is None:\n        net = Net()\n        net = net.cuda()\n        {BY_OWN_NAMES['net']}"


@pytest.mark.parametrize(
    ("given", "otherwise", "places"),
    [
        pytest.param(OR_ANEW, "evaluate()", [8], id="where a function gets none"),
        pytest.param(OR_ANEW, "evaluate(None)", [8], id="where it gets None"),
        pytest.param(OR_ANEW, "evaluate(model)", [], id="where it always gets one"),
        pytest.param(f"{OR_ANEW}\n    net = None", "evaluate()", [8], id="whatever it has then"),
        pytest.param(f"net = None\n    {OR_ANEW}", "evaluate()", [], id="in training too"),
        pytest.param(BY_OWN_NAMES["net"], "evaluate(Net())", [], id="what it gets, as in training"),
        pytest.param("pass", f"model = Net(); {BY_OWN_NAMES['model']}", [20], id="by the name of the trained one"),
        pytest.param(
            "pass", f"model = Net()\n        model = model.cuda(); {BY_OWN_NAMES['model']}", [21], id="which moves"
        ),
        pytest.param("pass", BY_OWN_NAMES["model"], [], id="the trained one"),
        pytest.param(
            "pass", f"model = Net(); model = Other(); {BY_OWN_NAMES['model']}", [], id="another one by its name"
        ),
    ],
)
def test_weights_for_a_model_made_in_place_of_the_trained_one_are_told(
    tmp_path: Path, given: str, otherwise: str, places: list[int]
) -> None:
    plan = plan_of(tmp_path, EITHER.replace("GIVEN", given).replace("OTHERWISE", otherwise))
    assert [note.line for note in plan.notes if note.code == "PAI116"] == places


OWN = """
class Net(torch.nn.Module):
    @classmethod
    def from_pretrained(cls, path):
        model = BUILT
        return model

"""
FILLED = 'cls()\n        model.layer.weight.data.copy_(torch.load(path)["w"])'
KNOWN = "net = Net.from_pretrained('out')"


@pytest.mark.parametrize(
    ("made", "text", "places"),
    [
        pytest.param("Net()", anew(after=KNOWN), [21], id="behind the training"),
        pytest.param(
            "Net.from_pretrained('bert')", anew(after=KNOWN), [21], id="as what was trained was, of another file"
        ),
        pytest.param("Net()", anew().replace("Other()", "Net.from_pretrained('out')"), [24], id="a test of its own"),
        pytest.param("Net()", anew(after=f"{KNOWN}; {KNOWN}"), [21, 21], id="two"),
        pytest.param("Net()", OWN.replace("BUILT", FILLED) + anew(after=KNOWN), [29], id="of its own, that fills it"),
        pytest.param("Net.from_pretrained('out')", anew(after=KNOWN), [], id="of the file that it begins with"),
        pytest.param("Net()", anew(after="net = Net.from_pretrained('bert')"), [], id="of a file that is not saved"),
        *(
            pytest.param("Net.from_pretrained('out')", anew(after=f"net = Net.from_pretrained('out', {given})"), places)
            for given, places in (("state_dict=torch.load(path)", [21]), ("state_dict=None", []))
        ),
        pytest.param(
            "Net()",
            anew(after=f"{KNOWN}; net.load_state_dict(torch.load('best.pt'))"),
            [],
            id="which then gets others, as the helper sees",
        ),
        pytest.param("Net()", anew(after=f"{KNOWN}; net.load(torch.load('best.pt'))"), [21], id="which then gets some"),
        pytest.param("Net()", anew(after="net = Net.from_pretrained(path)"), [21], id="of any file"),
        pytest.param("Net()", anew(after="for one in saved: net = Net.from_pretrained(one)"), [21], id="of each file"),
        *(
            pytest.param("Net()", anew(after=f"for one in ({each}): net = Net.from_pretrained(one)"), places, id=each)
            for each, places in {"'bert', 'roberta'": [], "'bert', 'out'": [21], "'bert', path": [21]}.items()
        ),
        pytest.param(
            "Net()",
            anew(after="for one in ('bert', 'roberta'): one = path + one; net = Net.from_pretrained(one)"),
            [21],
            id="of files that are made of constants",
        ),
        pytest.param("Net()", anew(before=KNOWN), [], id="before the training"),
        pytest.param("Net()", anew(before=f"if sys.argv[1:]:\n        {KNOWN}; return"), [11], id="instead of it"),
        pytest.param("Net()", anew(after="tokens = Tokens.from_pretrained('out')"), [], id="of another class"),
        pytest.param("Net()", OWN.replace("BUILT", "torch.load(path)") + anew(after=KNOWN), [], id="a whole file"),
        pytest.param(
            "Net()",
            OWN.replace("BUILT", "cls()\n        model.load_state_dict(torch.load(path))") + anew(after=KNOWN),
            [],
            id="of its own, which the helper sees",
        ),
        pytest.param(
            "Net()",
            "from huggingface_hub import PyTorchModelHubMixin as Hub\nclass Net(torch.nn.Module, Hub):\n    pass\n"
            + anew(after=KNOWN),
            [],
            id="of a library's, which the helper sees",
        ),
    ],
)
def test_what_builds_a_model_without_the_dendrites_of_its_file_is_told(
    tmp_path: Path, made: str, text: str, places: list[int]
) -> None:
    """It takes what has the names of a plain model's weights, and no more."""
    saved = "val_loss = evaluate(model)\n        model.module.save_pretrained('out')"
    text = text.replace("    return Net()", f"    return {made}").replace("val_loss = evaluate(model)", saved)
    plan = plan_of(tmp_path, f"import torch\n{text}")
    told = [note for note in plan.notes if note.code == "PAI116" and "leaves out" in note.message]
    assert plan.questions == []
    assert [note.line for note in told] == places[:1]
    assert all(f"so does line {place}" in told[0].message for place in places[1:])


#: A way to build a model that fills its layers one by one where it does not load a checkpoint of another library.
BY_LAYER = """
import torch

def fill_of_tf(model, path):
    model.load_state_dict(converted(path))

class Base(torch.nn.Module):
    @classmethod
    def from_pretrained(cls, path, from_tf=False, **kwargs):
        model = cls()
        LOADING
        return model

class Net(Base):
    pass
"""
#: What goes through the layers, as copies of transformers' own do.
THROUGH = """state = torch.load(path)
        def load(module, prefix=""):
            module._load_from_state_dict(state, prefix, {}, True, [], [], [])
            for name, child in module._modules.items():
                load(child, f"{prefix}{name}.")
        """
OTHERWISE = "if from_tf:\n            fill_of_tf(model, path)\n        else:\n            load(model)"


@pytest.mark.parametrize(
    ("loading", "given", "told"),
    [
        pytest.param(f"{THROUGH}{OTHERWISE}", "", True, id="of another library, by an option that is off"),
        pytest.param(f"{THROUGH}{OTHERWISE}", ", from_tf='.ckpt' in path", True, id="by one that may be on"),
        pytest.param(f"{THROUGH}{OTHERWISE}", ", from_tf=True", False, id="by one that is on"),
        pytest.param(
            f"{THROUGH}from_tf = kwargs.pop('tf', False)\n        {OTHERWISE}", ", tf=True", False, id="which is popped"
        ),
        pytest.param(
            f"{THROUGH}if from_tf:\n            fill_of_tf(model, path)\n            return model\n        load(model)",
            ", from_tf=wanted",
            True,
            id="by a way that is left first",
        ),
        *(
            pytest.param(
                f"if from_tf:\n            fill_of_tf(model, path)\n        else:\n            {filled}",
                ", from_tf=wanted",
                told,
                id=f"else by {filled}",
            )
            for filled, told in {
                "for name, one in model.named_parameters(): one.data.copy_(torch.load(path)[name])": True,
                "model.layer.weight.data.copy_(torch.zeros(2))": False,
            }.items()
        ),
        pytest.param("if from_tf:\n            fill_of_tf(model, path)", "", True, id="of none that is seen"),
        pytest.param("if path:\n            fill_of_tf(model, path)", "", False, id="where there is a file"),
        pytest.param(f"{THROUGH}load(model)\n        fill_of_tf(model, path)", "", False, id="one after the other"),
    ],
)
def test_what_fills_a_model_by_its_layers_is_told_where_another_way_loads_it(
    tmp_path: Path, loading: str, given: str, told: bool
) -> None:
    """The helper sees what `load_state_dict` loads alone."""
    text = BY_LAYER.replace("LOADING", loading) + anew(after=f"net = Net.from_pretrained('out'{given})")
    saved = "val_loss = evaluate(model)\n        model.module.save_pretrained('out')"
    plan = plan_of(tmp_path, text.replace("val_loss = evaluate(model)", saved))
    assert plan.questions == []
    assert ["leaves out" in note.message for note in plan.notes if note.code == "PAI116"] == [True] * told


@pytest.mark.parametrize(
    ("stars", "again", "told"), [("net", "net", True), ("net", "other", False), ("data, net", "net", True)]
)
def test_a_model_of_a_star_import_is_the_one_that_another_place_imports_by_name(
    tmp_path: Path, stars: str, again: str, told: bool
) -> None:
    everything = "".join(f"from {one} import *\n" for one in stars.split(", "))
    text = f"from {again} import Net as Again\n" + anew("Again()").replace("build()\n    pass", "Net()\n    pass")
    made = plan_of(tmp_path, everything + text)
    assert any(note.code == "PAI116" for note in made.notes) is told


def test_how_to_test_what_was_trained_is_told(tmp_path: Path) -> None:
    (note,) = plan_of(tmp_path, anew("build()")).notes
    assert note.message == (
        '`net.load_state_dict(torch.load("best.pt"))` loads into a model that is built anew: where this process has '
        "not trained before, it has no dendrites, so that what training saves with them does not fit, or goes into it "
        "without them. Test the model that was trained, or, in a process of its own, one that "
        "`pai_distributed.load_final_model(model, 'PAI_train')` makes of the new one"
    )


TRAINER = """
import os, torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Trainer:
    def __init__(self):
        self.model = DDP(Net())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.start, self.bad = 0, 0
        BEFORE
        if os.path.exists("last.pt"):
            state = torch.load("last.pt")
            self.model.load_state_dict(state["model"])
            self.start = state["epoch"]
        self.epoch = self.start

    def train(self):
        for epoch in range(self.start, 10):
            self.train_one_epoch()
            acc = evaluate(self.model)
            if acc > self.best:
                self.best = acc
            torch.save({"model": self.model.state_dict(), "epoch": self.epoch}, "last.pt")
            if self.epoch >= 10:
                exit()

    def train_one_epoch(self):
        COUNTED
        for x, y in loader:
            loss = criterion(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

trainer = Trainer()
trainer.train()
"""
LIMITED = "self.epoch += 1\n        if self.epoch > self.cfg.epochs:\n            exit()"
BEGUN_ANEW = 'self.epoch = pai_distributed.from_the_start(self.epoch, "self.epoch")'


@pytest.mark.parametrize(
    ("before", "counted", "guarded", "asked"),
    [
        pytest.param("pass", "self.epoch += 1", False, False, id="the only value of a counter"),
        pytest.param("self.epoch = 0", "self.epoch += 1", True, False, id="another before"),
        pytest.param("pass", "count(self)", False, True, id="the only value of something else"),
        pytest.param("self.cfg = Config(torch.load('c.pt'))", LIMITED, False, True, id="the only value of an object"),
        pytest.param("self.cfg = Config(**torch.load('c.pt'))", LIMITED, False, False, id="the options"),
    ],
)
def test_what_alone_gives_an_attribute_its_value_is_kept(
    tmp_path: Path, before: str, counted: str, guarded: bool, asked: bool
) -> None:
    plan = plan_of(tmp_path, TRAINER.replace("BEFORE", before).replace("COUNTED", counted))
    assert [question.code for question in plan.questions] == ["PAI024"] * asked
    if not asked:
        text = rewritten(plan)
        assert ("    if not pai_distributed.load_folder():\n            self.epoch = self.start\n" in text) is guarded
        assert (BEGUN_ANEW in text) is not guarded


@pytest.mark.parametrize(
    ("begun", "anew"),
    [
        pytest.param("count = first", True, id="the only value"),
        pytest.param("count = 0\nif first:\n    count = first", False, id="another before"),
    ],
)
def test_a_counter_that_something_else_may_move_begins_each_round_where_it_began(
    tmp_path: Path, begun: str, anew: bool
) -> None:
    ended = "count = moved(count)\nif each_epoch:\n    count += 1\nif count == 10:\n    break"
    plan = plan_of(tmp_path, resumed("first = state['epoch'] + 1", begun, ended))
    assert plan.questions == []
    assert ('    count = pai_distributed.from_the_start(count, "count")\n' in rewritten(plan)) is anew
    assert ("        if not pai_distributed.load_folder():\n            count = first" in rewritten(plan)) is not anew


SET_UP = """
def set_up(model):
    first, stopper = 0, Stopper()
    if os.path.exists("last.pt"):
        state = torch.load("last.pt")
        model.load_state_dict(state["model"])
        first = state["epoch"]
        RESTORED
    return RETURNED

"""


@pytest.mark.parametrize(
    "restored", ["pass", "stopper.bad = state['bad']", "stopper.load_state_dict(state['stopper'])"]
)
@pytest.mark.parametrize(
    ("returned", "taken", "first", "stopper"),
    [
        pytest.param("first, stopper", "first, stopper", "first", "stopper", id="tuple"),
        pytest.param("dict(first=first, stopper=stopper)", "parts", "parts['first']", "parts['stopper']", id="dict"),
        pytest.param("Parts(first=first, stopper=stopper)", "parts", "parts.first", "parts.stopper", id="object"),
    ],
)
def test_a_function_that_begins_the_training_leaves_out_what_ends_it_alone(
    tmp_path: Path, returned: str, taken: str, first: str, stopper: str, restored: str
) -> None:
    """The number of the epoch that it returns as well is none of that, and needs no other value."""
    text = resumed(ended=STOPS.replace("stopper", stopper)).replace("range(first, 10)", f"range({first}, 10)")
    begun, end = text.index("    best, first"), text.index("    pass\n    for ")
    text = f"{text[:begun]}    best = 0\n    {taken} = set_up(model)\n{text[end:]}"
    function = SET_UP.replace("RETURNED", returned).replace("RESTORED", restored)
    plan = plan_of(tmp_path, text.replace("\ndef main", f"{function}def main", 1))
    assert plan.questions == []
    guarded = f"        if not pai_distributed.load_folder():\n            {restored}\n" in rewritten(plan)
    assert guarded is (restored != "pass")


@pytest.mark.parametrize(
    ("key", "guarded"), [pytest.param("'test'", False, id="another"), pytest.param("'first'", True, id="the one")]
)
def test_an_option_in_a_dict_is_not_of_a_checkpoint_as_another_is(tmp_path: Path, key: str, guarded: bool) -> None:
    begun = f"if args[{key}]:\n    return"
    text = resumed("args['first'] = state['epoch']", begun).replace("import os", "import argparse, os")
    text = text.replace("range(first, 10)", "range(args['first'], 10)")
    text = text.replace("    best, ", "    args = vars(argparse.ArgumentParser().parse_args())\n    best, ")
    text = rewritten(
        plan_of(tmp_path, text.replace("def main():", "def main():\n    begin({})\n\n\ndef begin(given):"))
    )
    assert ("if not pai_distributed.load_folder():\n            return" in text) is guarded


def configured(made: str, asked: str, changed: str = "pass") -> str:
    """Return the script with what it makes of options that a checkpoint may have, and asks for at the end."""
    taken = "known = dict(epochs=10)\n        if resumes:\n            known = torch.load('last.pt')\n"
    taken += f"        self.settings = {made}"
    text = TRAINER.replace("BEFORE", taken).replace("COUNTED", changed)
    return text.replace("self.epoch = self.start", "pass").replace("self.epoch >= 10", f"{asked} >= 10")


@pytest.mark.parametrize(
    ("made", "asked", "changed", "questions"),
    [
        pytest.param("Settings(**known)", "self.settings.epochs", "pass", [], id="settings"),
        pytest.param("Settings(**known)", "self.settings", "pass", ["PAI024"], id="itself"),
        pytest.param("Stopper(known)", "self.settings.stop", "pass", ["PAI024"], id="an object of its state"),
        pytest.param("Settings(**known)", "self.settings.bad", "self.settings.bad += 1", ["PAI024"], id="it changes"),
    ],
)
def test_settings_that_may_be_of_a_checkpoint_end_no_later_round(
    tmp_path: Path, made: str, asked: str, changed: str, questions: list[str]
) -> None:
    """What a checkpoint keeps of the options is what the training was begun with; a state goes on from there."""
    text = configured(made, asked, changed)
    assert [question.code for question in plan_of(tmp_path, text).questions] == questions


@pytest.mark.parametrize(
    ("made", "asked", "changed", "number"),
    [
        pytest.param("Settings(**known)", "self.settings.epochs", "folder", 0, id="another setting"),
        pytest.param("Settings(**known)", "self.settings.epochs", "epochs", 1, id="the setting"),
        pytest.param("Stopper(10)", "self.settings.stop", "folder", 1, id="a part of a state"),
        pytest.param("Settings(**known)", "self.settings", "folder", 1, id="of what decides as a whole"),
    ],
)
def test_a_setting_that_does_not_end_the_training_is_given_in_each_round(
    made: str, asked: str, changed: str, number: int
) -> None:
    given = f"{made}\n        self.settings.{changed} = known['folder']"
    found = survey_of(configured(given, asked)).resumptions
    assert [f".{changed} =" in one.code for one in found if ".settings =" not in one.code] == [True] * number


NUMBERED = """import os
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Scheduled:
    def __init__(self, optimizer, steps):
        self.optimizer, self.steps = optimizer, steps

    def step(self):
        self.steps += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.steps**-0.5
        self.optimizer.step()

class Logger:
    def __init__(self, optimizer, steps):
        self.optimizer, self.steps = optimizer, steps

def main():
    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept = {int(name[5:-3]): name for name in os.listdir("ckpt")}
    losses = torch.zeros(10 * len(loader))
    step, last = 0, -1
    if kept:
        last = max(kept)
        model.load_state_dict(torch.load("ckpt/" + kept[last]))
        step = last
    schedule, logger = Scheduled(optimizer, steps=last + 1), Logger(optimizer, last)
    for epoch in range(10):
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            schedule.step()
            TURN
            step += 1
        acc = evaluate(model)
        print(acc)

main()
"""
KEPT = """if step % 6 == 0:
    torch.save(model.state_dict(), f"ckpt/step_{step}.pt")
    kept[step] = f"step_{step}.pt"
print("step", step)
writer.add_scalar("loss", loss, step + 1)"""


@pytest.mark.parametrize(
    ("turn", "anew"),
    [
        pytest.param(KEPT, False, id="numbers files"),
        pytest.param("torch.save(model.state_dict(), f'{step}.pt')", False, id="a file"),
        pytest.param(f"{KEPT}\nif step > 1000:\n    break", True, id="ends the training"),
        pytest.param(f"{KEPT}\noptimizer.param_groups[0]['lr'] = rate(step)", True, id="a rate"),
        pytest.param(f"{KEPT}\nlosses[step] = loss", True, id="an item of a list, which may have no more"),
        pytest.param(f"{KEPT}\nsaves(step)", True, id="for something that is not known"),
        pytest.param(f"{KEPT}\nlosses[step] = loss.item()", True, id="an item of a tensor"),
        pytest.param(
            "kept[step] = loss.item()\ntorch.save(model.state_dict(), 'last.pt')", True, id="an item, and no file"
        ),
        pytest.param(
            "torch.save(model.state_dict(), 'last.pt')\nif step % 6 == 0:\n    print(step)", True, id="numbers no file"
        ),
    ],
)
def test_a_counter_that_only_numbers_files_goes_on_in_a_later_round(tmp_path: Path, turn: str, anew: bool) -> None:
    """A script that keeps the files of the highest numbers would remove those of a round that begins anew."""
    text = NUMBERED.replace("TURN", turn.replace("\n", "\n            "))
    plan = plan_of(tmp_path, text, Options(metric="acc", mode="max"))
    assert plan.questions == []
    written = rewritten(plan)
    assert ('step = pai_distributed.from_the_start(step, "step")' in written) is anew
    assert (
        'Scheduled(optimizer, steps=pai_distributed.from_the_start(last, "last") + 1), Logger(optimizer, last)'
        in written
    )


@pytest.mark.parametrize("read", ["torch.load('infos.pt')", "pickle.load(open('infos.pkl', 'rb'))"])
def test_a_schedule_that_is_set_to_a_restored_number_begins_with_that_of_the_first_round(
    tmp_path: Path, read: str
) -> None:
    """It takes the number before the loop begins that anew; what sets no rate takes it as the script has it."""
    text = NUMBERED.replace("TURN", "if step > 1000:\n                break")
    text = text.replace('model.load_state_dict(torch.load("ckpt/" + kept[last]))', f"last = {read}['step']")
    given = "    schedule.steps = step\n    logger.steps = step\n"
    text = text.replace("    for epoch in", f"{given}    for epoch in").replace("import os\n", "import os, pickle\n")
    plan = plan_of(tmp_path, text, Options(metric="acc", mode="max"))
    assert plan.questions == []
    begun = "schedule.steps = pai_distributed.from_the_start(step, 'step')\n    logger.steps = step\n"
    assert begun in rewritten(plan)


COUNTED = """import argparse
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

class Net(torch.nn.Module):
    def __init__(self, args):
        super().__init__()
        self.begin(args)

    def begin(self, args):
        self.k = 10 * (args.start_epoch - 1)

def load(args, model):
    checkpoint = torch.load("last.pt")
    args.start_epoch = checkpoint["epoch"] + 1
    HANDED
    model.load_state_dict(checkpoint["model"])

def main(args):
    model = DDP(Net(args))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if args.resume:
        load(args, model)
    for epoch in range(args.start_epoch, args.epochs + 1):
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        acc = evaluate(model)
        torch.save({"epoch": epoch, "model": model.state_dict()}, "last.pt")

parser = argparse.ArgumentParser()
parser.add_argument("--start_epoch", type=int, default=1)
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--resume", action="store_true")
main(parser.parse_args())
"""


@pytest.mark.parametrize(
    ("handed", "anew"),
    [
        pytest.param("model.module.begin(args)", True, id="by a method"),
        pytest.param("model.module.k = 10 * (args.start_epoch - 1)", True, id="as an attribute"),
        pytest.param("print(args.start_epoch)", False, id="to nothing"),
        pytest.param("logger.step = 10 * (args.start_epoch - 1)", False, id="to no module"),
    ],
)
def test_a_restored_number_that_the_model_counts_on_from_begins_anew_where_it_is_read(
    tmp_path: Path, handed: str, anew: bool
) -> None:
    text = COUNTED.replace("HANDED", handed)
    if "begin" not in handed:
        text = text.replace("        self.begin(args)\n", "        self.k = 0\n").replace(
            "10 * (args.start_epoch - 1)\n\n", "0\n\n"
        )
    plan = plan_of(tmp_path, text, Options(metric="acc", mode="max"))
    assert plan.questions == []
    written = " ".join(rewritten(plan).split())
    first = 'pai_distributed.from_the_start( checkpoint["epoch"] + 1, "args.start_epoch", just_read=True )'
    assert (first.replace("( ", "(").replace(" )", ")") in written.replace("( ", "(").replace(" )", ")")) is anew
    assert (
        'args.start_epoch = pai_distributed.from_the_start(args.start_epoch, "args.start_epoch")' in written
    ) is anew
    if anew:
        again = plan_of(tmp_path, rewritten(plan), Options(metric="acc", mode="max"))
        assert "train.py" not in [file.path.name for file in again.files]


REPLAYED = """
import os, torch
from torch.nn.parallel import DistributedDataParallel as DDP
from helpers import Warmup

def load_epoch():
    return torch.load("last.pt")["epoch"]

model = DDP(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
first, other = 1, 5
if os.path.exists("last.pt"):
    first = load_epoch() + 1
    REPLAY
for epoch in range(first, 11):
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()
    acc = evaluate(model)
    torch.save({"epoch": epoch, "model": model.state_dict()}, "last.pt")
"""


@pytest.mark.parametrize(
    ("replay", "anew"),
    [
        pytest.param("for _ in range(1, first):\n        scheduler.step()", True, id="stepped as often"),
        pytest.param("while other < first:\n        other += 1\n        scheduler.step()", True, id="in a while"),
        pytest.param(
            "warm = Warmup()\n    for _ in range(1, first):\n        warm.step()", True, id="of a kind unknown"
        ),
        pytest.param("scheduler.step(first - 1)", True, id="stepped to it"),
        pytest.param("scheduler.step(other)", False, id="stepped to another number"),
        pytest.param("for _ in range(other):\n        scheduler.step()", False, id="stepped as often as otherwise"),
        pytest.param("print(first)", False, id="not stepped"),
    ],
)
def test_a_schedule_is_stepped_no_further_than_it_was_before_the_first_round(
    tmp_path: Path, replay: str, anew: bool
) -> None:
    text = code(REPLAYED).replace("REPLAY", replay)
    plan = plan_of(tmp_path, text, Options(metric="acc", mode="max"))
    assert plan.questions == []
    read = 'first = pai_distributed.from_the_start(load_epoch() + 1, "first", just_read=True)'
    begins = '\nfirst = pai_distributed.from_the_start(first, "first")'
    assert [one in rewritten(plan) for one in (read, begins)] == [anew, anew]


@pytest.mark.parametrize(
    ("newest", "anew"),
    [
        pytest.param("int(sorted(glob.glob('*.pt'))[-1][5:-3])", True, id="the last one's name"),
        pytest.param("max(int(name[5:-3]) for name in os.listdir('out'))", True, id="the highest in a folder"),
        pytest.param("max([int(path.stem[5:]) for path in Path('out').glob('*.pt')])", True, id="of a path"),
        pytest.param("int(args.resume[5:-3])", False, id="a name that an option gives each round alike"),
        pytest.param("int(os.environ['FIRST'])", False, id="no file's name"),
    ],
)
def test_a_schedule_is_stepped_no_further_by_the_number_in_the_name_of_a_file_of_the_round_before(
    tmp_path: Path, newest: str, anew: bool
) -> None:
    text = code(REPLAYED).replace("first = load_epoch() + 1", f"load_epoch()\n    first = {newest}")
    plan = plan_of(
        tmp_path,
        text.replace("REPLAY", "for _ in range(1, first):\n        scheduler.step()").replace(
            "import os, torch\n", "import glob, os, torch\nfrom pathlib import Path\n"
        ),
        Options(metric="acc", mode="max"),
    )
    assert plan.questions == []
    new = rewritten(plan)
    assert ["just_read=True" in new, 'first = pai_distributed.from_the_start(first, "first")' in new] == [anew, anew]


@pytest.mark.parametrize(
    ("otherwise", "value"),
    [
        pytest.param("model.load_state_dict(torch.load(f'{first}_model.pt'))", True, id="a file's name"),
        pytest.param("if first > 5:\n        print('late')", True, id="asked for"),
        pytest.param("print(other)", False, id="another number"),
    ],
)
def test_a_number_keeps_the_value_of_its_checkpoint_for_what_else_reads_it(
    tmp_path: Path, otherwise: str, value: bool
) -> None:
    replay = f"{otherwise}\n    for _ in range(1, first):\n        scheduler.step()"
    plan = plan_of(tmp_path, code(REPLAYED).replace("REPLAY", replay), Options(metric="acc", mode="max"))
    assert plan.questions == []
    new = rewritten(plan)
    stepped = 'in range(1, pai_distributed.from_the_start(first, "first", just_read=True)):'
    assert ["    first = load_epoch() + 1\n" in new, stepped in new] == [value, value]
    assert '\nfirst = pai_distributed.from_the_start(first, "first")' in new


def test_a_number_that_begins_the_loop_by_another_name_steps_no_schedule_further(tmp_path: Path) -> None:
    text = code(REPLAYED).replace("REPLAY", "for _ in range(1, first):\n        scheduler.step()\nbegin = first")
    plan = plan_of(
        tmp_path, text.replace("in range(first, 11)", "in range(begin, 11)"), Options(metric="acc", mode="max")
    )
    assert plan.questions == []
    assert 'in range(1, pai_distributed.from_the_start(first, "first", just_read=True)):' in rewritten(plan)
    assert '\nbegin = pai_distributed.from_the_start(begin, "begin")' in rewritten(plan)


OF_PARTS = """
def parts():
    return torch.load("weights.pt"), 3

def several():
    found = parts()
    return found

def fill(given):
    given["weights"] = torch.load("weights.pt")

def fill_another():
    kept = {}
    kept["weights"] = torch.load("weights.pt")
    return kept

"""


@pytest.mark.parametrize(
    ("begun", "told"),
    [
        pytest.param("weights, patience = parts()\nstopper = Stopper(patience)", False, id="another that is returned"),
        pytest.param("weights, patience = parts()\nstopper = Stopper(weights)", True, id="the one that is returned"),
        pytest.param("weights, patience = several()\nstopper = Stopper(patience)", False, id="another through a name"),
        pytest.param("weights, patience = several()\nstopper = Stopper(weights)", True, id="the one through a name"),
        pytest.param("stopper = Stopper(several()[0])", True, id="an item"),
        pytest.param("kept = {}\nstopper = Stopper(kept)", False, id="a dict of the same name"),
        pytest.param("known = {}\nfill(known)\nstopper = Stopper(known)", True, id="the dict of another name"),
        pytest.param("weights = torch.load('w.pt')\nstopper = Stopper(f(weights=3))", False, id="a keyword"),
        pytest.param("weights = torch.load('w.pt')\nstopper = Stopper(f(3).weights)", False, id="an attribute"),
        pytest.param("weights = torch.load('w.pt')\nstopper = Stopper(f(x=weights).y)", True, id="what is given"),
    ],
)
def test_what_ends_the_training_is_of_a_checkpoint_only_where_its_own_parts_are(begun: str, told: bool) -> None:
    text = resumed("pass", begun, STOPS).replace("first, stopper, stop = 0, 0, Stopper(), ", "first, stop = 0, 0, ")
    found = survey_of(text.replace("\ndef main", f"{OF_PARTS}def main", 1)).resumptions
    assert ["stopper = " in one.code for one in found] == [True] * told


#: What saves the weights of a model's layers by their names, at a new best,
BY_LAYERS = """
acc = evaluate(model)
if acc > best:
    best = acc
    state = {}
    for name, module in WALK:
        if isinstance(module, torch.nn.Linear):
            state[name + ".weight"], state[name + ".bias"] = module.weight, module.bias
    torch.save(state, folder + "/small.pt")
"""
#: and what loads them behind the training into a model.
OF_LAYERS = """
small = MADE
small.load_state_dict(torch.load(folder + "/PATH.pt"))
print(evaluate(small))
"""


@pytest.mark.parametrize(
    ("walk", "made", "path", "told"),
    [
        pytest.param("model.named_modules()", "Small()", "small", True, id="another class"),
        pytest.param("model.named_modules()", "Net()", "small", False, id="the same, which gets dendrites"),
        pytest.param("teacher.named_modules()", "Small()", "small", False, id="of another model"),
        pytest.param("model.named_modules()", "Small()", "other", False, id="of another file"),
        pytest.param("pai_distributed.own_named_modules(model)", "Small()", "small", False, id="of its own layers"),
    ],
)
def test_weights_by_layers_that_another_model_loads_are_told(
    tmp_path: Path, walk: str, made: str, path: str, told: bool
) -> None:
    before = "class Small(torch.nn.Module):\n    pass\nteacher, best = torch.nn.Linear(2, 2), 0\n"
    text = script(BY_LAYERS, before, OF_LAYERS).replace("WALK", walk).replace("MADE", made).replace("PATH", path)
    notes = [note for note in plan_of(tmp_path, text).notes if note.code == "PAI116"]
    assert ["gets no dendrites" in note.message for note in notes] == [True] * told
    assert [text.splitlines()[note.line - 1][:26] for note in notes] == ["small.load_state_dict(torc"] * told


@pytest.mark.parametrize("item", ["small", "other"])
def test_of_several_items_that_are_saved_those_of_layers_are_told(tmp_path: Path, item: str) -> None:
    before = "class Small(torch.nn.Module):\n    pass\nbest = 0\n"
    saved = BY_LAYERS.replace("torch.save(state, ", "torch.save({'small': state, 'other': other.state_dict()}, ")
    loaded = OF_LAYERS.replace('PATH.pt")', f'small.pt")["{item}"]').replace("MADE", "Small()")
    plan = plan_of(tmp_path, script(saved.replace("WALK", "model.named_modules()"), before, loaded))
    assert ["PAI116"] * (item == "small") == [note.code for note in plan.notes if "gets no dendrites" in note.message]


@pytest.mark.parametrize(
    ("taken", "ended", "anew"),
    [
        pytest.param("first = state['epoch'] + 1", "if epoch > first + 5:\n    break", True, id="it ends the training"),
        pytest.param("first = state['epoch'] + 1", "print(epoch - first)", True, id="it is read"),
        pytest.param("first = state['epoch'] + 1", "print(epoch)", False, id="it is not read"),
        pytest.param("first = int(os.environ['FIRST'])", "print(epoch - first)", False, id="of no checkpoint"),
        pytest.param("other = state['epoch'] + 1", "print(epoch - other)", False, id="no epoch begins with it"),
    ],
)
def test_the_number_of_the_first_epoch_is_in_the_turns_that_of_the_first_round(
    tmp_path: Path, taken: str, ended: str, anew: bool
) -> None:
    """Without it each would be another one's than that with which the epochs begin."""
    plan = plan_of(tmp_path, resumed(taken, ended=ended))
    assert (plan.questions, plan.script.resumptions) == ([], [])
    new = rewritten(plan)
    assert ('    first = pai_distributed.from_the_start(first, "first")\n    for epoch in' in new) is anew
    assert "from_the_start" not in new or anew


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        pytest.param("while True:\n    step(x)\n    if stop:\n        break", False, id="a loop within its batches"),
        pytest.param("for _ in x:\n    step(x)\nelse:\n    if stop:\n        break", True, id="behind such a loop"),
        pytest.param("if stop:\n    break", True, id="all batches of an epoch"),
    ],
)
def test_what_ends_a_loop_within_that_over_batches_ends_no_training(batch: str, told: bool) -> None:
    loss = "            loss = criterion(model(x), y)\n"
    text = resumed("stop = state['stop']").replace(loss, f"{indent(batch, ' ' * 12)}\n{loss}")
    assert [one.code for one in survey_of(text).resumptions] == ["stop = state['stop']"] * told


LOADS_ALL = """
def load():
    net = Net()
    if not os.path.exists("last.pt"):
        return net, {"stop": False}
    state = torch.load("last.pt")
    net.load_state_dict(state["model"])
    return net, state["seen"]
"""


@pytest.mark.parametrize(
    ("taken", "asked"),
    [
        pytest.param("net, seen = load()", ["seen"], id="beside the model"),
        pytest.param("loaded = load()\nnet, seen = loaded", ["seen"], id="beside the model, by a name"),
        pytest.param("loaded = load()\nnet, seen = loaded[0], None\nseen = loaded[1]", [], id="by itself"),
    ],
)
def test_a_state_that_comes_with_the_model_is_to_be_taken_by_itself(
    tmp_path: Path, taken: str, asked: list[str]
) -> None:
    epoch = "torch.save({'model': model.state_dict(), 'seen': seen}, 'last.pt')\nif seen['stop']:\n    break"
    text = script(f"acc = evaluate(model)\nif acc > best:\n    best = acc\n{epoch}", "best = 0")
    taken = f"import os\n{code(LOADS_ALL)}\n{taken}\nmodel = net\n"
    made = plan_of(tmp_path, text.replace("model = Net()\n", taken))
    told = [one.message for one in made.questions if one.code == "PAI024"]
    assert [one.partition("`")[2].partition("`")[0] for one in told] == asked
