"""A script that insists on a new folder does so at its first start alone: a training has several."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from retrofit.project import load_project
from tests.helpers import code, plan_of, rewritten, script, survey_of

ARGUMENTS = """
import argparse, os, sys, time
from pathlib import Path
parser = argparse.ArgumentParser()
args = parser.parse_args()
"""
SCORE = "acc = evaluate(model)\nif acc > best:\n    best = acc"
MADE = "os.makedirs(args.out, exist_ok=True)\n"


def begun(text: str) -> str:
    """Return the script that begins with some code."""
    return script(SCORE, "best = 0").replace("\n\n", f"\n{ARGUMENTS}{code(text)}\n", 1)


@pytest.mark.parametrize(
    ("text", "new"),
    [
        pytest.param("os.makedirs(args.out)", "exist_ok=not args.perforate_model_parallel)", id="made"),
        pytest.param("os.makedirs(args.out, exist_ok=False)", "exist_ok=not args.perf", id="made, and said so"),
        pytest.param("os.mkdir(args.out)", "os.makedirs(args.out, exist_ok=not args.perf", id="one folder made"),
        pytest.param(
            "import shutil\nshutil.copytree('src', args.out)",
            "copytree('src', args.out, dirs_exist_ok=not args.perf",
            id="copied",
        ),
        pytest.param("os.makedirs(time.strftime('%d-%H%M'))", "exist_ok=not args.perf", id="named by the minute"),
        pytest.param(
            "from datetime import datetime\nout = Path('runs') / datetime.now().strftime('%Y-%m-%d')\nout.mkdir()",
            "out.mkdir(exist_ok=not args.perf",
            id="named by the day",
        ),
        pytest.param(
            "from datetime import datetime\nos.mkdir(f'{datetime.now():%H%M}')",
            "exist_ok=not args.perf",
            id="by a format",
        ),
        pytest.param("Path(args.out).mkdir()", "Path(args.out).mkdir(exist_ok=not args.perf", id="a path's method"),
        pytest.param(
            "out = 'runs' / Path(args.out)\nout.mkdir()", "out.mkdir(exist_ok=not args.perf", id="behind a text"
        ),
        pytest.param(
            "out = Path('runs') / args.name\nout.mkdir(parents=True)", "True, exist_ok=not args.perf", id="of a path"
        ),
        pytest.param(
            f"assert not os.path.exists(args.out)\n{MADE}",
            "if args.perforate_model_parallel:\n    assert not os.path.exists(args.out)",
            id="asserted",
        ),
        pytest.param(
            f"assert len(os.listdir(args.out)) == 0\n{MADE}",
            "if args.perforate_model_parallel:\n    assert len(os.listdir(args.out)) == 0",
            id="asserted to be empty",
        ),
        pytest.param(
            f"assert args.force or len(os.listdir(args.out)) <= 1\n{MADE}",
            "if args.perforate_model_parallel:\n    assert args.force or len(os.listdir(args.out)) <= 1",
            id="asserted to have little in it",
        ),
        pytest.param(
            "def ended():\n    return Path('done').exists()\nif ended():\n    sys.exit(1)\nPath('done').write_text('')",
            "    if args.perforate_model_parallel:\n        sys.exit(1)",
            id="left where a function finds what is written",
        ),
        pytest.param(
            f"if os.listdir(args.out) == []:\n    pass\nelse:\n    sys.exit(1)\n{MADE}",
            "    if args.perforate_model_parallel:\n        sys.exit(1)",
            id="left where it is not empty, otherwise",
        ),
        pytest.param(
            f"if os.path.exists(args.out):\n    raise ValueError(args.out)\n{MADE}",
            "    if args.perforate_model_parallel:\n        raise ValueError(args.out)",
            id="raised",
        ),
        pytest.param(
            "if os.path.isfile(args.out):\n    raise ValueError(args.out)\ntorch.save(1, args.out)",
            "    if args.perforate_model_parallel:\n        raise ValueError(args.out)",
            id="raised of a file that it saves",
        ),
        pytest.param(
            f"if os.path.isdir(args.out) and os.listdir(args.out) and not args.force:\n    sys.exit(1)\n{MADE}",
            "    if args.perforate_model_parallel:\n        sys.exit(1)",
            id="left where it is not empty",
        ),
        pytest.param(
            "if os.path.exists(args.out):\n    if args.debug:\n        pass\n    else:\n        raise ValueError\n"
            f"{MADE}",
            "        if args.perforate_model_parallel:\n            raise ValueError",
            id="raised, but for an option",
        ),
        pytest.param(
            "if os.path.exists(args.out + '/' + args.name):\n    raise ValueError\n"
            "path = Path(args.out) / args.name\npath.mkdir(exist_ok=True)",
            "    if args.perforate_model_parallel:\n        raise ValueError",
            id="a folder that has a name when it is made",
        ),
        pytest.param(
            "try:\n    os.makedirs(args.out)\nexcept FileExistsError:\n    if not args.debug:\n        sys.exit(1)",
            "        if args.perforate_model_parallel:\n            sys.exit(1)",
            id="left where it cannot be made, but for an option",
        ),
        pytest.param(
            "if not os.path.exists(args.out):\n    os.makedirs(args.out)\nelse:\n    sys.exit(1)",
            "    if args.perforate_model_parallel:\n        sys.exit(1)",
            id="left otherwise",
        ),
        pytest.param(
            "if args.fast:\n    pass\nelif Path(args.out).exists():\n    raise ValueError\n" + MADE,
            "    if args.perforate_model_parallel:\n        raise ValueError",
            id="a further condition",
        ),
        pytest.param(
            "try:\n    os.makedirs(args.out)\nexcept IOError:\n    print('there')\n    if args.start is None:\n"
            "        exit(1)",
            "        if args.perforate_model_parallel:\n            exit(1)",
            id="tried, and left by any error of files but where an option goes on",
        ),
        pytest.param(
            "try:\n    os.mkdir(args.out)\nexcept (OSError, ValueError):\n    print('there')\n    raise",
            "    if args.perforate_model_parallel:\n        raise",
            id="tried, and raised again",
        ),
        pytest.param(
            "try:\n    os.makedirs(args.out)\nexcept FileExistsError:\n    sys.exit(1)",
            "    if args.perforate_model_parallel:\n        sys.exit(1)",
            id="left where it cannot be made",
        ),
        pytest.param(
            "path = os.path.join(args.out, 'best.pt')\nif os.path.exists(path):\n    raise ValueError\n"
            "torch.save(1, path)",
            "    if args.perforate_model_parallel:\n        raise ValueError",
            id="a file that it saves",
        ),
        pytest.param(
            f"{MADE}if os.path.exists(os.path.join(args.out, 'log.txt')):\n    raise ValueError\n"
            "log = Logger(args.out)",
            "    if args.perforate_model_parallel:\n        raise ValueError",
            id="a file that something may write",
        ),
        pytest.param(
            f"{MADE}if os.path.exists(os.path.join(args.out, 'log.txt')):\n    raise ValueError\n"
            "path = f'{args.out}/log.txt'\nlog = Logger(path)",
            "    if args.perforate_model_parallel:\n        raise ValueError",
            id="a file that something may write, by its name",
        ),
        pytest.param(
            "if os.path.exists(args.out):\n    raise ValueError\ntorch.save(1, os.path.join(args.out, 'best.pt'))",
            "    if args.perforate_model_parallel:\n        raise ValueError",
            id="a folder that it saves in",
        ),
        pytest.param(
            "if os.path.exists(os.path.join(args.out, args.name)):\n    raise ValueError\n"
            "torch.save(1, os.path.join(args.out, 'best.pt'))",
            "    if args.perforate_model_parallel:\n        raise ValueError",
            id="a file whose name is not known",
        ),
    ],
)
def test_what_is_to_be_new_is_so_at_the_first_start_alone(tmp_path: Path, text: str, new: str) -> None:
    plan = plan_of(tmp_path, begun(text))
    assert len(plan.script.new_folders) == 1
    assert new in rewritten(plan)


LOOP = begun("").partition("best = 0\n")[2]


def trained(choice: str) -> str:
    """Return a choice with the epoch loop, which saves a file, in the place of each call of `main`."""
    loop = LOOP.replace("    acc = ", "    torch.save(1, 'best.pt')\n    acc = ")
    return f"{choice}\n".replace("    main()\n", indent(loop, "    "))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            "if not os.path.exists('best.pt'):\n    main()\nelse:\n    sys.exit(1)",
            "if not os.path.exists('best.pt') or not args.perforate_model_parallel:\n    main()\nelse:\n"
            "    sys.exit(1)",
            id="else leaves",
        ),
        pytest.param(
            "if os.path.exists('best.pt'):\n    print('there')\nelif wanted():\n    main()",
            "if os.path.exists('best.pt') and args.perforate_model_parallel:\n    print('there')\nelif wanted():\n"
            "    main()",
            id="trains otherwise",
        ),
        pytest.param(
            "if wanted() and not os.path.exists('best.pt'):\n    main()",
            "if wanted() and (not os.path.exists('best.pt') or not args.perforate_model_parallel):\n    main()",
            id="one part of the test",
        ),
        pytest.param(
            "if wanted() or os.path.exists('best.pt'):\n    print('there')\nelse:\n    main()",
            "if wanted() or os.path.exists('best.pt') and args.perforate_model_parallel:\n    print('there')\nelse:\n"
            "    main()",
            id="one part of the test, that it is there",
        ),
    ],
)
def test_a_later_round_trains_where_its_results_are(tmp_path: Path, old: str, new: str) -> None:
    written = rewritten(plan_of(tmp_path, begun("").replace(LOOP, trained(old))))
    assert all(line in written.splitlines() for line in code(new).splitlines() if "main()" not in line)


@pytest.mark.parametrize(
    "choice",
    [
        pytest.param("if os.path.exists('best.pt'):\n    main()", id="trains further what is there"),
        pytest.param("if os.path.exists('best.pt'):\n    resume()\n    main()\nelse:\n    main()", id="trains anyway"),
        pytest.param("if os.path.exists('data.pt'):\n    main()\nelse:\n    sys.exit(1)", id="needs what is there"),
        pytest.param("if not os.path.exists('STOP'):\n    main()", id="written by somebody else"),
    ],
)
def test_a_choice_that_is_about_something_else_stays(choice: str) -> None:
    assert survey_of(begun("").replace(LOOP, trained(choice))).new_folders == []


MODEL = "model = DDP(model)\n"
INIT = "args.perforate_model_parallel"
RESUMED = """
def load(path):
    model = Net()
    model.load_state_dict(torch.load(path))
    return model

def build():
    return Net()

"""


def taking_up(text: str) -> str:
    """Return the script that chooses by some code what its model is."""
    text = text.replace("LOADS", "model = load(os.path.join(args.out, 'last.pt'))").replace("BUILDS", "model = build()")
    whole = begun("").replace("\n\nimport", f"\n{code(RESUMED)}\nimport", 1)
    head, made, rest = whole.rpartition(MODEL)
    return f"{head.rpartition('model = ')[0]}{code(text)}{made}{rest}"


THERE = "os.path.exists(args.out)"
CHOOSES = "if there:\n    LOADS\nelse:\n    BUILDS\n"
FRESH = "if fresh:\n    BUILDS\nelse:\n    LOADS\n"


@pytest.mark.parametrize(
    ("text", "new"),
    [
        pytest.param(f"there = {THERE}\n{MADE}{CHOOSES}", f"there = {THERE} and {INIT}", id="by a name"),
        pytest.param(
            f"there = {THERE} and args.resumes\n{MADE}{CHOOSES}",
            f"there = {THERE} and {INIT} and args.resumes",
            id="by a name, for one of two reasons",
        ),
        pytest.param(f"fresh = not {THERE}\n{MADE}{FRESH}", f"fresh = not {THERE} or not {INIT}", id="that denies"),
        pytest.param(
            "out = Path(args.out)\nthere = out.exists()\nout.mkdir(exist_ok=True)\n"
            "if not there and args.new:\n    BUILDS\nelif args.new:\n    LOADS\nelse:\n    model = load(args.new)\n",
            f"there = out.exists() and {INIT}",
            id="a path, a further condition",
        ),
        pytest.param(
            f"there = {THERE}\nos.makedirs(args.out + '/log', exist_ok=True)\n{CHOOSES}",
            f"there = {THERE} and {INIT}",
            id="a folder in it",
        ),
        pytest.param(
            f"def opened():\n    there = {THERE}\n    {MADE}    return 1, there\n_, there = opened()\n{CHOOSES}",
            f"there = {THERE} and {INIT}",
            id="by a function",
        ),
        pytest.param(
            f"if {THERE}:\n    LOADS\nelse:\n    os.makedirs(args.out)\n    BUILDS\n",
            f"if {THERE} and {INIT}:",
            id="at once",
        ),
    ],
)
def test_a_folder_that_the_initialisation_makes_is_none_to_resume_from(tmp_path: Path, text: str, new: str) -> None:
    written = rewritten(plan_of(tmp_path, taking_up(text)))
    assert new in [line.strip() for line in written.splitlines()]
    assert "os.makedirs(args.out)\n" not in written  # it is there in each round


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{MADE}there = {THERE}\n{CHOOSES}", id="made before, so that it is always there"),
        pytest.param(f"there = {THERE}\nif there:\n    LOADS\nelse:\n    BUILDS\n", id="not made"),
        pytest.param(f"there = os.path.exists(args.data)\n{MADE}{CHOOSES}", id="another one"),
        pytest.param(f"there = os.path.exists(args.out + '/last.pt')\n{MADE}{CHOOSES}", id="a file in it"),
        pytest.param(f"there = os.path.exists(os.path.join(args.out, args.name))\n{MADE}{CHOOSES}", id="perhaps in it"),
        pytest.param(
            f"there = {THERE}\n{MADE}"
            "if there and os.path.exists(args.last):\n    model = load(args.last)\nelse:\n    BUILDS\n"
            "if there:\n    if os.listdir(args.out):\n        LOADS\n",
            id="what is there to load is asked for",
        ),
        pytest.param(f"there = {THERE}\n{MADE}if there:\n    print(args.out)\nBUILDS\n", id="loads nothing"),
        pytest.param(
            f"BUILDS\nif {THERE}:\n    data = torch.load(args.out + '/data.pt')\nelse:\n"
            "    os.makedirs(args.out)\n    data = prepare()\n    torch.save(data, args.out + '/data.pt')\n",
            id="data that is prepared once",
        ),
    ],
)
def test_what_a_script_resumes_from_is_left_alone(text: str) -> None:
    assert survey_of(taking_up(text)).new_folders == []


def test_a_folder_that_must_be_new_may_be_known_by_a_name(tmp_path: Path) -> None:
    text = f"there = {THERE}\n{MADE}if there:\n    raise ValueError\n"
    assert f"    if {INIT}:\n        raise ValueError" in rewritten(plan_of(tmp_path, begun(text)))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("os.makedirs(args.out, exist_ok=True)", id="may be there"),
        pytest.param("os.makedirs(args.out, 0o755, True)", id="may be there, by position"),
        pytest.param(
            "import shutil\nshutil.copytree('src', args.out, dirs_exist_ok=True)", id="may be there, where it is copied"
        ),
        pytest.param("if not os.path.exists(args.out):\n    os.makedirs(args.out)", id="looked for"),
        pytest.param("try:\n    os.makedirs(args.out)\nexcept FileExistsError:\n    pass", id="tried"),
        pytest.param("try:\n    os.makedirs(args.out)\nexcept PermissionError:\n    sys.exit(1)", id="forbidden"),
        pytest.param("try:\n    args.start()\nexcept FileExistsError:\n    sys.exit(1)", id="made elsewhere"),
        pytest.param(
            "import errno\ntry:\n    os.makedirs(args.out)\nexcept OSError as error:\n"
            "    if error.errno != errno.EEXIST:\n        raise",
            id="any other error",
        ),
        pytest.param(
            "try:\n    os.makedirs(args.out)\nexcept OSError:\n    if not os.path.isdir(args.out):\n        raise",
            id="where it is no folder",
        ),
        pytest.param("try:\n    open(args.out, 'w')\nexcept OSError:\n    sys.exit(1)", id="no folder made"),
        pytest.param("os.makedirs(os.path.join('runs', str(time.time())))", id="with the time in it"),
        pytest.param(
            "from datetime import datetime\nos.mkdir(f'{datetime.now():%d-%H:%M:%S}')",
            id="with the seconds by a format",
        ),
        pytest.param("from datetime import datetime\nos.mkdir(f'{datetime.now()}')", id="with the whole time"),
        pytest.param(
            "now = time.strftime('%d-%H%M%S')\nout = f'runs/{now}'\nos.makedirs(out)", id="with a name for the time"
        ),
        pytest.param("remote.mkdir(args.out)", id="of another kind"),
        pytest.param("if os.path.exists('STOP'):\n    raise SystemExit", id="written by somebody else"),
        pytest.param("if os.path.exists('index'):\n    raise SystemExit\nprint(open('index').read())", id="only read"),
        pytest.param(
            "if os.path.exists('index'):\n    raise SystemExit\nprint(open('index', 'rb'))", id="so by its mode"
        ),
        pytest.param(
            "def ended():\n    return Path('STOP').exists()\nif ended():\n    sys.exit(1)\nPath('done').touch()",
            id="written by somebody else, as a function finds",
        ),
        pytest.param(
            "def fails():\n    return not Path('done').exists()\nif fails():\n    sys.exit(1)\nPath('done').touch()",
            id="left where a function does not find it",
        ),
        pytest.param(
            "if os.path.exists(args.out) and not os.path.isfile(args.out):\n    raise ValueError\nopen(args.out, 'w')",
            id="there, but no file",
        ),
        pytest.param(
            f"if os.path.isfile(args.out):\n    raise ValueError\n{MADE}torch.save(1, os.path.join(args.out, 'a.pt'))",
            id="a file in the way of a folder",
        ),
        pytest.param(
            "if Path(args.out).is_file():\n    raise ValueError\nmodel.save_pretrained(Path(args.out))",
            id="a file in the way of a library's folder",
        ),
        pytest.param(f"if not os.path.exists(args.data):\n    raise ValueError\n{MADE}", id="missing"),
        pytest.param(f"if not os.path.exists(args.out):\n    raise ValueError\n{MADE}", id="missing, of its own"),
        pytest.param(f"assert os.path.exists(args.out)\n{MADE}", id="asserted to be there"),
        pytest.param(f"assert len(os.listdir(args.out)) > 0\n{MADE}", id="asserted to have something in it"),
        pytest.param(f"if len(os.listdir(args.out)) == 0:\n    raise ValueError\n{MADE}", id="empty"),
        pytest.param(f"if os.path.exists(args.out) is False:\n    raise ValueError\n{MADE}", id="missing, compared"),
        pytest.param(
            f"if os.path.exists(args.out):\n    if len(load(args.out)) != args.size:\n        raise ValueError\n{MADE}",
            id="of another kind than what is there",
        ),
        pytest.param(
            "if os.path.exists(args.out):\n    differing = load(args.out) != args.size\n    if differing:\n"
            f"        raise ValueError\n{MADE}",
            id="of another kind than what is there, by a name",
        ),
        pytest.param(f"if os.path.exists(args.out):\n    print(args.out)\n{MADE}", id="told"),
        pytest.param(
            "out = os.path.join(args.out, 'runs')\nos.makedirs(out, exist_ok=True)\n"
            "if os.path.exists(os.path.join(out, args.name + '.pth')):\n"
            "    sys.exit(1)\ntorch.save(1, os.path.join(out, args.name + '_best' + '.pth'))",
            id="a file beside those that it saves",
        ),
        pytest.param(
            "if Path(f'{args.out}/done').exists():\n    sys.exit(1)\ntorch.save(1, args.out + '/best.pt')",
            id="a file beside the one that it saves",
        ),
        pytest.param(
            "if Path(args.out + '/old').exists():\n    sys.exit(1)\n(Path(args.out) / 'new').mkdir(exist_ok=True)",
            id="a folder beside the one that it makes",
        ),
    ],
)
def test_what_may_be_there_is_left_alone(text: str) -> None:
    assert survey_of(begun(text)).new_folders == []


def test_a_function_that_saves_once_is_left_alone() -> None:
    saves = "def save(path):\n    if os.path.exists(path):\n        return\n    torch.save(1, path)\n\nsave('x.pt')"
    assert survey_of(begun(saves)).new_folders == []


def test_a_condition_that_is_made_of_itself_is_followed_once() -> None:
    text = "args.new = args.new and len(args.widths) > 1\nassert not (args.new and args.plain)"
    assert survey_of(begun(text)).new_folders == []


def test_a_path_that_is_made_of_itself_is_followed_once(tmp_path: Path) -> None:
    up = "def make(root):\n    while not root.exists():\n        root = root.parent\n    root.mkdir()\nmake(args.out)"
    assert survey_of(begun(up)).new_folders == []
    drawn = "out = args.out\nfor name in 'ab':\n    out = os.path.join(out, name) + str(out)\nos.makedirs(out)"
    assert len(survey_of(begun(drawn)).new_folders) == 1


@pytest.mark.parametrize(
    "text",
    [
        "if not os.path.exists(args.out):\n    os.makedirs(args.out)\n    log = open('log')\nelse:\n    sys.exit(1)",
        "try:\n    os.makedirs(args.out)\n    log = open('log', 'w')\nexcept FileExistsError:\n    sys.exit(1)",
    ],
    ids=["a branch", "a block that is tried"],
)
def test_a_name_that_only_a_new_folder_gives_a_value_is_asked_about(tmp_path: Path, text: str) -> None:
    used = begun(text).replace("    acc = ", "    print(epoch, file=log)\n    acc = ")
    (question,) = plan_of(tmp_path, used).questions
    assert (question.code, question.line) == ("PAI023", used.count("\n", 0, used.index("sys.exit")) + 1)
    assert question.message == (
        "the script no longer leaves here at each start, but what comes later reads `log` at all of them. Give it a "
        "value before, on every way there."
    )
    plan = plan_of(tmp_path, used.replace("\nif not", "\nlog = None\nif not").replace("\ntry", "\nlog = None\ntry"))
    assert plan.questions == []


@pytest.mark.parametrize("test", ["__name__ == '__main__'", '__name__ == "__main__" and ready'])
def test_what_an_imported_module_does_as_the_main_program_is_passed_over(tmp_path: Path, test: str) -> None:
    """Nor is it asked what it loads: nothing of it is surveyed."""
    module = "import torch\nfrom torch import optim\n\ndef build():\n    return 1\n\n"
    module += f"if {test}:\n    net = torch.load('n.pt')\n"
    (tmp_path / "net.py").write_text(module)
    text = begun(f"from net import build\nbuild()\n{MADE}")
    assert plan_of(tmp_path, text).questions == []


@pytest.mark.parametrize(
    ("body", "new"),
    [
        pytest.param("os.makedirs(path)", "exist_ok=pai_distributed.later_start()", id="made"),
        pytest.param(
            "if os.path.exists(path) and not force:\n    raise OSError(path)\nopen(path, 'w')",
            "if not pai_distributed.later_start():",
            id="raised",
        ),
        pytest.param(
            "if os.path.isdir(path): sys.exit(path)\nos.makedirs(path)",
            "if not pai_distributed.later_start():",
            id="left",
        ),
        pytest.param(
            "if not force and os.path.exists(path):\n    sys.exit(path)\nopen(path, 'w')",
            "if not pai_distributed.later_start():",
            id="asked last",
        ),
        pytest.param(
            "if (\n    not force\n    and os.path.exists(path)\n):\n    sys.exit(path)\nopen(path, 'w')",
            "if not pai_distributed.later_start():",
            id="asked in lines",
        ),
        pytest.param(
            "there = os.path.exists(path)\nif there and not force:\n    sys.exit(path)\nopen(path, 'w')",
            "if not pai_distributed.later_start():",
            id="by a name",
        ),
        pytest.param(
            "assert not os.path.isdir(path)\nos.makedirs(path)", "if not pai_distributed.later_start():", id="asserted"
        ),
    ],
)
def test_a_module_that_does_nothing_else_is_read_for_that(tmp_path: Path, body: str, new: str) -> None:
    (tmp_path / "places.py").write_text(f"import os, sys\n\ndef start(path, force):\n{indent(body, '    ')}\n")
    plan = plan_of(tmp_path, begun("from places import start\nstart(args.out, args.force)"))
    (module,) = (file.after.decode() for file in plan.files if file.path.name == "places.py")
    assert new in module


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("os.makedirs(os.path.join(path, 'a'), exist_ok=True)", id="taken as it is"),
        pytest.param("if not os.path.exists(path):\n    os.makedirs(path)", id="asked for"),
        pytest.param("try:\n    os.mkdir(path)\nexcept OSError:\n    pass", id="tried"),
        pytest.param("if not os.path.exists(path):\n    raise OSError(path)", id="refused where it lacks"),
        pytest.param("if force and not os.path.exists(path):\n    raise OSError(path)", id="refused as forced"),
    ],
)
def test_one_that_takes_what_is_there_is_not(tmp_path: Path, body: str) -> None:
    (tmp_path / "places.py").write_text(f"import os\n\ndef start(path, force):\n{indent(body, '    ')}\n")
    (tmp_path / "train.py").write_text(begun("from places import start\nstart(args.out, args.force)"))
    assert not load_project(tmp_path / "train.py", "train.py").modules
