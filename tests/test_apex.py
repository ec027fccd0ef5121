"""NVIDIA Apex amp is refused wherever it may be reached, and told where only an option leads to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrofit.plan import Plan
from tests.conftest import SCRIPT, swapped
from tests.helpers import code, plan_of

_MODEL = "    model = DistributedDataParallel(model)\n"
_PARSED = "    args = parser.parse_args()\n"


def planned(folder: Path, used: str, option: str = "", head: str = "from apex import amp\n", before: str = "") -> Plan:
    """Return the plan for the small script with apex in it: before the wrapper, with an option and before `main`."""
    lines = "".join(f"    {line}\n" for line in code(used).splitlines())
    text = swapped(SCRIPT, ("import torch\n", f"import torch\n{head}"), (_MODEL, lines + _MODEL))
    text = swapped(text, (_PARSED, f"    parser.add_argument({option})\n{_PARSED}") if option else (_PARSED, _PARSED))
    return plan_of(folder, swapped(text, ("def main():\n", f"{code(before)}\n\ndef main():\n")))


USED = "model = amp.initialize(model)"

SETTINGS = """class Part:
    def __init__(self, known):
        self.amp = VALUE

class Settings:
    def __init__(self, known):
        self.part = Part(known.get('part', {}))

def loaded(path):
    return Settings(json.load(path))

config = loaded('settings.json')
"""
BY_SETTING = f"if config.part.amp != 'None':\n    {USED}"


def settings(value: str, after: str = "") -> dict[str, str]:
    """Return amp behind an attribute of a settings object that is made of what a file says."""
    return {"used": BY_SETTING, "before": SETTINGS.replace("VALUE", value) + code(after)}


REACHED = {
    "always": {"used": USED},
    "on by default": {"used": f"if args.amp:\n    {USED}", "option": "'--amp', default=True"},
    "off by an option": {"used": f"if args.amp:\n    {USED}", "option": "'--no-amp', dest='amp', action='store_false'"},
    "a level": {"used": f"if args.opt_level != 'O0':\n    {USED}", "option": "'--opt_level', default='O1'"},
    "by what is not known": {"used": f"if config.amp:\n    {USED}", "before": "config = load()"},
    "by what is set on": {
        "used": f"args.amp = True\nif args.amp:\n    {USED}",
        "option": "'--amp', action='store_true'",
    },
    "where it is installed": {
        "used": f"if amp is not None:\n    {USED}",
        "head": "try:\n    from apex import amp\nexcept ImportError:\n    amp = None\n",
    },
    "in place of another": {
        "used": USED,
        "head": "try:\n    from apex import amp\nexcept ImportError:\n    from torch.cuda import amp\n",
    },
    "by a function": {
        "used": "model = prepared(model)",
        "before": f"def prepared(model):\n    {USED}\n    return model\n",
    },
    "by its whole name": {"used": "model = apex.amp.initialize(model)", "head": "import apex\n"},
    "its scaled loss": {"used": "with amp.scale_loss(1, None) as scaled:\n    pass"},
    "under what it is set with": {"used": f"if args.lr != 1:\n    args.lr = 1\n    {USED}"},
    "imported where it is used": {"used": f"from apex import amp\n{USED}", "head": ""},
    "one of two": {"used": f"if args.amp:\n    {USED}\n{USED}", "option": "'--amp', action='store_true'"},
    "either of two": {"used": f"if args.amp or args.lr:\n    {USED}", "option": "'--amp', action='store_true'"},
    "as it is written down": settings("{'amp': 'O1'}.get('amp', 'None')"),
    "on by a setting": settings("'O1'"),
    "on where nothing is set": settings("known.get('amp', 'O1')"),
    "by a setting without a default": settings("known.get('amp')"),
    "by what the environment says": settings("os.environ.get('AMP', 'None')"),
    "by what is set later": settings("'None'", "config.part.amp = 'O1'"),
    "by what is set where it is not known": settings("'None'", "config.part.amp = chosen()"),
    "by a name": settings("'None'", "for name, value in given.items():\n    setattr(config.part, name, value)"),
    "by all names": settings("'None'\n        self.__dict__.update(known)"),
    "by its names": settings("'None'", "vars(config.part).update(given)"),
    "by a parser's own default": {
        "used": f"if args.amp:\n    {USED}",
        "option": "'--amp', action='store_true')\n    parser.set_defaults(amp=True",
    },
    "by a parser's defaults from a file": {
        "used": f"if args.amp:\n    {USED}",
        "option": "'--amp', action='store_true')\n    parser.set_defaults(**load('run.yaml')",
    },
    "by options that a file sets": {
        "used": f"for name, value in load().items():\n    setattr(args, name, value)\nif args.amp:\n    {USED}",
        "option": "'--amp', action='store_true'",
    },
    "by options that a file sets together": {
        "used": "vars(args).update(load())\nmodel = prepared(args, model)",
        "option": "'--amp', action='store_true'",
        "before": f"def prepared(given, model):\n    if given.amp:\n        {USED}\n    return model\n",
    },
    "by an option that is set by its name": {
        "used": f"setattr(args, 'amp', True)\nif args.amp:\n    {USED}",
        "option": "'--amp', action='store_true'",
    },
}


@pytest.mark.parametrize("given", REACHED.values(), ids=REACHED)
def test_amp_is_refused_where_it_may_be_reached(tmp_path: Path, given: dict[str, str]) -> None:
    plan = planned(tmp_path, **given)
    [question] = plan.questions
    used = (tmp_path / "train.py").read_text().splitlines()[question.line - 1]
    assert (question.code, "amp." in used, plan.files) == ("PAI100", True, [])
    assert question.message.startswith("NVIDIA Apex amp is used here")


ASKED_FOR = {
    "off by default": {"used": f"if args.amp:\n    {USED}", "option": "'--amp', action='store_true'"},
    "off as it is not": {
        "used": f"if not args.no:\n    pass\nelse:\n    {USED}",
        "option": "'--no', action='store_true'",
    },
    "no level": {"used": f"if args.opt_level != 'O0':\n    {USED}", "option": "'--opt-level', default='O0'"},
    "no name": {"used": f"if args.backend == 'apex':\n    {USED}", "option": "'--backend', default='native'"},
    "both of two": {"used": f"if args.amp and args.lr:\n    {USED}", "option": "'--amp', default=False"},
    "by a variable": {
        "used": f"use = None\nif args.amp:\n    use = 'apex'\nif use == 'apex':\n    {USED}",
        "option": "'--amp', action='store_true'",
    },
    "by a parameter of an imported name": {
        "used": "model = prepared(args, model)",
        "option": "'--amp', action='store_true'",
        "head": "from apex import amp\nfrom elsewhere import args\n",
        "before": f"def prepared(args, model):\n    if args.amp:\n        {USED}\n    return model\n",
    },
    "off by a setting": settings("'None'"),
    "off where nothing is set": settings("known.get('amp', 'None')"),
    "off as another name is set": settings("'None'", "setattr(config.part, 'rate', 1)\nsetattr(model, name, 1)"),
    "off as it is written down": settings("{'amp': 'None'}.get('amp', 'None')"),
    "off as other options are set": {
        "used": f"setattr(args, 'rate', 1)\nvars(model).update(load())\nif args.amp:\n    {USED}",
        "option": "'--amp', action='store_true')\n    parser.set_defaults(rate=1",
    },
    "off by a parser's own default": {
        "used": f"if args.amp:\n    {USED}",
        "option": "'--amp', action='store_true')\n    parser.set_defaults(amp=False",
    },
    "by a function": {
        "used": "if args.amp:\n    model = prepared(model)",
        "option": "'--amp', action='store_true'",
        "before": f"def prepared(model):\n    {USED}\n    return model\n",
    },
}


@pytest.mark.parametrize("given", ASKED_FOR.values(), ids=ASKED_FOR)
def test_amp_is_told_where_only_an_option_leads_to_it(tmp_path: Path, given: dict[str, str]) -> None:
    plan = planned(tmp_path, **given)
    assert plan.questions == []
    assert [(note.code, "train without" in note.message) for note in plan.notes] == [("PAI100", True)]


TRAINED = """
import click, fire, typer
import torch
from absl import app, flags
from absl.flags import FLAGS
from apex import amp
HEAD
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if ASKED:
        model = amp.initialize(model)
    model = torch.nn.parallel.DistributedDataParallel(model)
    best = 0
    for epoch in range(9):
        for x in loader:
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
        acc = evaluate(model)
        if acc > best:
            best = acc

RUN
"""
CLICK, ABSL = "@click.command()\n@click.option(OPTION)\ndef main(half, **others):", "flags.OPTION\ndef main(argv):"
LEVEL = "'--half', type=click.Choice(['O0', 'O1']), default="
COMMANDS = {
    "a flag of click's": (CLICK, "'--half', is_flag=True", "half", "main()", True),
    "with two spellings": (CLICK, "'-h/-f', '--half/--full'", "half", "main()", True),
    "by its own name": (CLICK, "'--fp16', 'half', is_flag=True", "half", "main(sys.argv[1:])", True),
    "a level of click's": (CLICK, f"{LEVEL}'O0'", "half != 'O0'", "main()", True),
    "absl's": (ABSL, "DEFINE_bool('half', False, 'what')", "FLAGS.half", "app.run(main)", True),
    "absl's by its whole name": (ABSL, "DEFINE_string('half', None, '')", "flags.FLAGS.half", "app.run(main)", True),
    "fire's": ("def main(half=False):", "", "half", "fire.Fire(main)", True),
    "typer's": ("def main(half: bool = OPTION):", "typer.Option(False)", "half", "typer.run(main)", True),
    "on with click": (CLICK, "'--half', is_flag=True, default=True", "half", "main()", False),
    "a level that is on": (CLICK, f"{LEVEL}'O1'", "half != 'O0'", "main()", False),
    "a text that is a number": (CLICK, "'--half', type=int, default='0'", "half", "main()", False),
    "another one": (CLICK, "'--other', is_flag=True", "half", "main()", False),
    "on with absl": (ABSL, "DEFINE_bool('half', True, 'what')", "FLAGS.half", "app.run(main)", False),
    "one of several": (CLICK, "'--half', 'half', flag_value='O1', default=True", "half == 'O1'", "main()", False),
    "set in code": (ABSL, "DEFINE_bool('half', False, '')\nFLAGS.half = 1", "FLAGS.half", "app.run(main)", False),
    "required of click's": (CLICK, "'--half', required=True", "half == 'O1'", "main()", False),
    "required with absl": (
        ABSL,
        "DEFINE_string('half', None, '', required=True)",
        "FLAGS.half",
        "app.run(main)",
        False,
    ),
    "required of typer's": (
        "def main(half: bool = OPTION):",
        "typer.Option(...)",
        "not half",
        "typer.run(main)",
        False,
    ),
    "no default of typer's": ("def main(half: bool = OPTION):", "typer.Option()", "half", "typer.run(main)", False),
    "on with fire": ("def main(half=True):", "", "half", "fire.Fire(main)", False),
    "not said with fire": ("def main(half):", "", "half", "fire.Fire(main)", False),
    "called with it": ("def main(half=False):", "", "half", "fire.Fire(main)\nmain(half=True)", False),
    "nobody's": ("def main(half=False):", "", "half", "start(main)", False),
    "of fire's by names": ("def main(half=True):", "", "half", "fire.Fire({'main': main})", False),
    "a command of typer's": ("@cli.command()\ndef main(half: bool = OPTION):", "True", "half", "cli()", False),
}


@pytest.mark.parametrize(("head", "option", "asked", "run", "off"), COMMANDS.values(), ids=COMMANDS)
def test_options_of_other_libraries_are_known(
    tmp_path: Path, head: str, option: str, asked: str, run: str, off: bool
) -> None:
    text = code(TRAINED).replace("HEAD", head).replace("OPTION", option).replace("ASKED", asked).replace("RUN", run)
    plan = plan_of(tmp_path, text)
    told = [f"where `{asked}` holds; train without" in note.message for note in plan.notes if note.code == "PAI100"]
    assert told == ([True] if off else [])
    assert [one.code for one in plan.questions] == (["PAI100"] if off is False else [])


UNUSED = {
    "imported": {"used": "pass"},
    "in what nothing calls": {"used": "pass", "before": f"def prepared(model):\n    {USED}\n    return model\n"},
    "torch's": {"used": "scaler = amp.GradScaler()", "head": "from torch.cuda import amp\n"},
    "a layer of it": {"used": "norm = FusedLayerNorm(8)", "head": "from apex.normalization import FusedLayerNorm\n"},
}


@pytest.mark.parametrize("given", UNUSED.values(), ids=UNUSED)
def test_amp_that_is_not_used_is_no_reason(tmp_path: Path, given: dict[str, str]) -> None:
    plan = planned(tmp_path, **given)
    assert (plan.questions, [note for note in plan.notes if "Apex" in note.message]) == ([], [])


@pytest.mark.parametrize(
    ("used", "told"),
    [
        pytest.param("if args.fp16:\n    held = FP16_Optimizer(held)", "note", id="by an option"),
        pytest.param("held = FP16_Optimizer(held)", "question", id="always"),
    ],
)
@pytest.mark.parametrize("module", ["apex.optimizers", "apex.fp16_utils"])
def test_an_optimizer_in_half_precision_is_told_also_where_the_option_is_on_by_default(
    tmp_path: Path, used: str, told: str, module: str
) -> None:
    plan = planned(tmp_path, used, "'--fp16', default=True", f"from {module} import FP16_Optimizer\n", "held = None")
    assert [one.code for one in plan.questions] == (["PAI100"] if told == "question" else [])
    notes = [note.message for note in plan.notes]
    assert ["where `args.fp16` holds; train without" in note for note in notes] == ([True] if told == "note" else [])


FIRST, SECOND = (
    "from apex.parallel import DistributedDataParallel",
    "from torch.nn.parallel import DistributedDataParallel",
)


@pytest.mark.parametrize(("tried", "other"), [(FIRST, SECOND), (SECOND, FIRST)])
def test_a_wrapper_that_may_be_apex_s_is_asked_about(tmp_path: Path, tried: str, other: str) -> None:
    text = SCRIPT.replace(f"{SECOND}\n", f"try:\n    {tried}\nexcept ImportError:\n    {other}\n")
    [question] = plan_of(tmp_path, text).questions
    assert question.code == "PAI100"
    assert text.splitlines()[question.line - 1] == _MODEL.rstrip("\n")
    assert question.message.endswith("Import torch's alone.")


def test_the_option_that_is_told_is_that_of_all_uses(tmp_path: Path) -> None:
    used = f"if args.folds:\n    if args.amp:\n        {USED}\nelif args.amp:\n    {USED}"
    [note] = planned(tmp_path, used, "'--amp', action='store_true'").notes
    assert "where `args.amp` holds; train without" in note.message


TWICE = {
    "by no option": (f"if args.amp:\n    {USED}\nother = amp.initialize(Other())", "other"),
    "by one that is on": (f"if args.amp:\n    {USED}\nif args.on:\n    other = amp.initialize(Other())", "other"),
    "first": (f"other = amp.initialize(Other())\nif args.amp:\n    {USED}", "other"),
}


@pytest.mark.parametrize(("used", "line"), TWICE.values(), ids=TWICE)
def test_the_line_that_is_told_is_the_one_that_no_option_keeps_from(tmp_path: Path, used: str, line: str) -> None:
    """Marked as nothing of the training's it leaves the note of the others, by an option that is off."""
    options = "'--on', default=True)\n    parser.add_argument('--amp', action='store_true'"
    [question] = planned(tmp_path, used, options).questions
    lines = (tmp_path / "train.py").read_text().splitlines()
    assert line in lines[question.line - 1]
    assert question.message.endswith(f"`# retrofit: skip`: line {question.line}.")
    plan = planned(tmp_path, used.replace("Other())", "Other())  # retrofit: skip"), options)
    assert plan.questions == []
    assert [note.message.startswith("NVIDIA Apex amp is used here where `args.amp`") for note in plan.notes] == [True]
