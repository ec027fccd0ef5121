"""A command line that is handed on whole is left alone: the helper takes its two options before it is parsed."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from retrofit.options import Options
from retrofit.plan import Plan
from tests.conftest import SCRIPT, swapped
from tests.helpers import code, plan_of, plan_of_project, rewritten, script

_PARSED = "    args = parser.parse_args()\n"
_SCORED = "val_loss = evaluate(model)\nbest = min(best, val_loss)"


def planned(folder: Path, *lines: str) -> Plan:
    return plan_of(folder, swapped(SCRIPT, (_PARSED, _PARSED + "".join(f"    {line}\n" for line in lines))))


HANDED_ON = {
    "to a function": ("run(**vars(args))",),
    "to a class": ("config = Config(**vars(args))",),
    "to a class, by its dict": ("config = Config(name='a', **args.__dict__)",),
    "by a name": ("options = vars(args)", "config = Config(**options)"),
    "by a copy": ("options = dict(vars(args))", "config = Config(**options)"),
    "one by one": ("for name, value in vars(args).items():", "    setattr(config, name, value)"),
    "all of them": ("for name in vars(args):", "    config.add(name)"),
    "a sweep": ("for chosen in itertools.product(*vars(args).values()):", "    print(chosen)"),
    "in a comprehension": ("fields = {name: Field(value) for name, value in vars(args).items()}",),
    "in a dict": ("config = Config({**vars(args)})",),
}


def test_the_helper_takes_the_options_where_a_library_reads_the_command_line_besides(tmp_path: Path) -> None:
    new = rewritten(plan_of(tmp_path, swapped(SCRIPT, ("    main()\n", "    import fire\n    fire.Fire(main)\n"))))
    assert "pai_distributed.take_options()" in new
    assert "'--perforate_model_parallel'" not in new


@pytest.mark.parametrize("lines", HANDED_ON.values(), ids=HANDED_ON)
def test_the_helper_takes_the_options_of_what_is_handed_on_whole(tmp_path: Path, lines: tuple[str, ...]) -> None:
    new = rewritten(planned(tmp_path, *lines))
    assert "import pai_distributed\n" in new
    assert new.index("pai_distributed.take_options()") < new.index("parse_args()")
    assert "'--perforate_model_parallel'" not in new
    assert "args.perforate_model_parallel" not in new
    assert "pai_distributed.load_latest_switch(model, pai_distributed.load_folder())" in new


@pytest.mark.parametrize(
    "read", ["args = parser.parse_args()", "def parse():\n    return parser.parse_args()\n\nargs = parse()"]
)
def test_the_helper_takes_them_before_the_command_line_is_read_also_where_imports_follow(
    tmp_path: Path, read: str
) -> None:
    head = f"import argparse\n\nparser = argparse.ArgumentParser()\n{read}\nconfig = Config(**vars(args))\n\n"
    new = rewritten(plan_of(tmp_path, head + script(epoch=_SCORED)))
    assert new.index("import pai_distributed") < new.index("pai_distributed.take_options()") < new.index("parse_args()")


LOOKED_AT = {
    "a copy": ("argv = sys.argv[0:]", True),
    "a word": ("os.environ['CUDA_VISIBLE_DEVICES'] = words[1]", True),
    "what is put in their place": ("sys.argv = sys.argv[:1]", True),
    "the script's own name": ("HERE = os.path.dirname(sys.argv[0]) + words[0]", False),
}


@pytest.mark.parametrize(("look", "first"), LOOKED_AT.values(), ids=LOOKED_AT)
def test_the_helper_takes_them_before_the_script_looks_at_the_words_itself(
    tmp_path: Path, look: str, first: bool
) -> None:
    head = f"import os\nimport sys\nfrom sys import argv as words\n\n{look}\n"
    new = rewritten(plan_of(tmp_path, head + script(epoch=_SCORED)))
    assert (new.index("pai_distributed.take_options()") < new.index(look)) is first


def test_the_options_go_to_the_parser_that_the_script_itself_reads(tmp_path: Path) -> None:
    """It may have its own options from another, and a module that is imported may read some for itself."""
    (tmp_path / "scores.py").write_text(
        "import argparse\n\n\nclass Options:\n    def __init__(self):\n"
        "        self.parser = argparse.ArgumentParser()\n        self.parser.add_argument('--scene')\n\n"
        "    def read(self):\n        return self.parser.parse_known_args()[0]\n\n\noptions = Options().read()\n"
    )
    head = code("""
        import argparse
        from scores import options

        def common():
            parser = argparse.ArgumentParser(add_help=False)
            parser.add_argument('--lr')
            return parser

        parser = argparse.ArgumentParser(parents=[common()])
        args = parser.parse_args()
    """)
    (tmp_path / "train.py").write_text(head + script(epoch=_SCORED))
    plan = plan_of_project(tmp_path / "train.py")
    assert [file.path.name for file in plan.files if b"'--perforate_model_parallel'" in file.after] == ["train.py"]


def test_a_parser_that_takes_over_its_own_name_has_an_end(tmp_path: Path) -> None:
    again = "parser = argparse.ArgumentParser(parents=[parser], add_help=False)\n"
    head = f"import argparse\n\nparser = argparse.ArgumentParser()\n{again}{again}args = parser.parse_args()\n\n"
    new = rewritten(plan_of(tmp_path, head + script(epoch=_SCORED)))
    assert new.count("'--perforate_model_parallel'") == 1


@pytest.mark.parametrize(
    ("again", "before"),
    [
        pytest.param("parser = argparse.ArgumentParser()", "read, rest =", id="another"),
        pytest.param("parser = argparse.ArgumentParser(); print()", "read, rest =", id="of one line"),
        pytest.param("if rest:\n    parser = argparse.ArgumentParser()", "args =", id="perhaps another"),
        pytest.param("parser = same(parser)", "args =", id="the same, which a function gives back"),
        pytest.param("", "args =", id="the same"),
    ],
)
@pytest.mark.parametrize("inside", ["for name in ('--lr', '--wd'):", "if rest:"])
def test_the_options_go_to_the_parser_that_a_block_adds_others_to_if_it_is_no_later_one(
    tmp_path: Path, again: str, before: str, inside: str
) -> None:
    head = "import argparse\n\ndef same(one):\n    return one\n\nparser = argparse.ArgumentParser()\n"
    head += f"parser.add_argument('--seed')\nread, rest = parser.parse_known_args()\n{again}\n{inside}\n"
    head += "    parser.add_argument('--one')\nargs = parser.parse_args(rest)\n\n"
    new = rewritten(plan_of(tmp_path, head + script(epoch=_SCORED)))
    assert new.count("'--perforate_model_parallel'") == 1
    assert new.partition("'--pai_load_folder'")[2].index(before) < 200


def test_the_options_go_before_the_first_reading_of_a_parser_that_gets_more_behind_it(tmp_path: Path) -> None:
    """Which ended the script at them: it reads the whole command line."""
    head = "import argparse\n\nparser = argparse.ArgumentParser()\nparser.add_argument('--given')\n"
    head += "args = parser.parse_args()\nfor name in vars(args):\n    parser.add_argument(f'--other_{name}')\n"
    new = rewritten(plan_of(tmp_path, f"{head}args = parser.parse_args()\n\n{script(epoch=_SCORED)}"))
    assert new.index("'--pai_load_folder'") < new.index("args = parser.parse_args()")


def test_the_definition_of_a_function_that_reads_a_parser_is_no_reading(tmp_path: Path) -> None:
    """The options went between the two functions."""
    head = "import argparse\n\nparser = argparse.ArgumentParser()\n\ndef parse():\n    return parser.parse_args()\n\n"
    head += "parser.add_argument('--given')\n\ndef main():\n    args = parse()\n"
    text = f"{head}{indent(script(epoch=_SCORED), '    ')}\nmain()\n"
    assert "add_argument('--given')\nparser.add_argument('--perforate" in rewritten(plan_of(tmp_path, text))


_FIRST = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--rank')\n"

SEVERAL = {
    "one before it of that name": (_FIRST + "FLAGS = parser.parse_args()\n", ""),
    "a list of all words": (_FIRST + "FLAGS = parser.parse_args(sys.argv[1:])\n", ""),
    "where a function says what is read": (
        _FIRST + "def read(argv=None):\n    return parser.parse_args(argv)\nread()\n",
        "",
    ),
    "where a module is imported": ("from options import FLAGS\n", _FIRST + "FLAGS = parser.parse_args()\n"),
    "a class of its own": ("class Own(argparse.ArgumentParser):\n    pass\nFLAGS = Own().parse_args()\n", ""),
}


@pytest.mark.parametrize(("head", "options"), SEVERAL.values(), ids=SEVERAL)
def test_the_helper_takes_the_options_where_another_parser_reads_the_whole_command_line_too(
    tmp_path: Path, head: str, options: str
) -> None:
    """Each would end the script at what it does not know."""
    (tmp_path / "options.py").write_text(options)
    (tmp_path / "train.py").write_text(f"import argparse\nimport sys\n\n{head}\n{SCRIPT}")
    [new] = [one.after.decode() for one in plan_of_project(tmp_path / "train.py").files if one.path.name == "train.py"]
    assert "--perforate_model_parallel'" not in new
    assert new.index("pai_distributed.take_options()") < new.index(head.splitlines()[-1])
    assert "pai_distributed.load_latest_switch(model, pai_distributed.load_folder())" in new


def test_the_helper_takes_the_options_where_a_condition_chooses_the_parser(tmp_path: Path) -> None:
    other = "    if quick:\n        parser = argparse.ArgumentParser()\n        parser.add_argument('--one')\n"
    new = rewritten(plan_of(tmp_path, "quick = 0\n" + swapped(SCRIPT, (_PARSED, other + _PARSED))))
    assert new.index("pai_distributed.take_options()") < new.index("parse_args()")
    assert "args.perforate_model_parallel" not in new


BESIDE = {
    "what it knows": ("FLAGS, rest = parser.parse_known_args()\n", ""),
    "words of its own": ("FLAGS = parser.parse_args(['--rank', '1'])\n", ""),
    "what another left over": ("FLAGS, rest = parser.parse_known_args()\nFLAGS = parser.parse_args(rest)\n", ""),
    "in a module's own run": ("import options\n", "if __name__ == '__main__':\n    FLAGS = parser.parse_args()\n"),
    "in a function that nothing calls": ("def read():\n    return parser.parse_args()\n", ""),
    "by what a library adds to it": ("", ""),
}


@pytest.mark.parametrize(("head", "options"), BESIDE.values(), ids=BESIDE)
def test_the_scripts_own_parser_has_them_where_another_one_reads_a_part(
    tmp_path: Path, head: str, options: str
) -> None:
    """And they are read of its own namespace."""
    (tmp_path / "options.py").write_text(_FIRST + options)
    more = "    parser = library.add_arguments(parser)\n" if not head else ""
    text = swapped(SCRIPT, (_PARSED, more + _PARSED))
    (tmp_path / "train.py").write_text(f"import library\n{_FIRST}{head}\n{text}")
    [new] = [one.after.decode() for one in plan_of_project(tmp_path / "train.py").files if one.path.name == "train.py"]
    assert "take_options" not in new
    assert new.index("def main()") < new.index("'--perforate_model_parallel'")
    assert "pai_distributed.load_latest_switch(model, args.pai_load_folder)" in new


@pytest.mark.parametrize(
    ("read", "option", "launcher"),
    [
        pytest.param("parse_args()", "'--lr'", "torchrun", id="one does not know it"),
        pytest.param("parse_args()", "'--local_rank'", "launch", id="both know it"),
        pytest.param("parse_known_args()[0]", "'--lr'", "launch", id="one passes over it"),
    ],
)
def test_a_process_is_told_its_number_by_an_option_where_all_parsers_take_it(
    tmp_path: Path, read: str, option: str, launcher: str
) -> None:
    head = (
        f"import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument({option})\nFLAGS = parser.{read}\n"
    )
    text = swapped(
        SCRIPT,
        ("    parser.add_argument('--lr'", "    parser.add_argument('--local_rank')\n    parser.add_argument('--lr'"),
    )
    tested = f"def test():\n{indent(head, '    ')}\nif len(sys.argv) == 1:\n    test()\n    sys.exit()\n"
    for first, expected in (head, launcher), (f"import sys\n{tested}", "launch"):  # in another run
        plan = plan_of(tmp_path, first + text)
        [started] = [one.after.decode() for one in plan.files if one.path.name == "train_distributed.sh"]
        assert f"\nLAUNCHER=${{LAUNCHER:-{expected}}}\n" in started


def test_they_are_read_of_no_namespace_of_another_parser(tmp_path: Path) -> None:
    lines = (_PARSED, "    print(parser.parse_args())\n"), ("args.lr", "FLAGS.lr"), ("args.epochs", "FLAGS.epochs")
    head = _FIRST + "FLAGS, rest = parser.parse_known_args()\n"
    new = rewritten(plan_of(tmp_path, head + swapped(SCRIPT, *lines)))
    assert "'--perforate_model_parallel'" in new
    assert "FLAGS.perforate_model_parallel" not in new
    assert "if pai_distributed.initializing():" in new


def test_so_where_nothing_is_kept_of_it(tmp_path: Path) -> None:
    text = swapped(
        SCRIPT,
        ("def main():\n    parser", "def parse():\n    parser"),
        (_PARSED, "    train(**vars(parser.parse_args()))\n\n\ndef train(epochs, lr):\n"),
        ("    main()\n", "    parse()\n"),
        ("lr=args.lr", "lr=lr"),
        ("range(args.epochs)", "range(epochs)"),
    )
    new = rewritten(plan_of(tmp_path, text))
    assert "pai_distributed.take_options()" in new
    assert "'--perforate_model_parallel'" not in new


KEPT = {
    "made of itself": ("fields = {}", "fields = fields.copy()", "for name in fields.items():", "    config.add(name)"),
    "told": ("print(vars(args))",),
    "told one by one": ("for name, value in sorted(vars(args).items()):", "    print(f'{name}: {value}')"),
    "logged": ("for name, value in vars(args).items():", "    logging.info('%s: %s', name, value)"),
    "printed as a dict": ("pprint.pprint({k: v for k, v in vars(args).items() if v is not None})",),
    "a text": ("text = ', '.join(f'{name}={value}' for name, value in vars(args).items())",),
    "as it is": ("wandb.init(config=vars(args))",),
    "to what takes anything": ("args = argparse.Namespace(**vars(args))",),
    "another dict": ("other = load()", "config = Config(**vars(other))", "run(**dict(lr=args.lr))"),
    "one of them": ("lr = vars(args)['lr']",),
}


@pytest.mark.parametrize("lines", KEPT.values(), ids=KEPT)
def test_the_scripts_own_parser_has_the_options_otherwise(tmp_path: Path, lines: tuple[str, ...]) -> None:
    new = rewritten(planned(tmp_path, *lines))
    assert "'--perforate_model_parallel'" in new
    assert "take_options" not in new


_READ = {
    "by argparse": "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr', type=float)\n"
    "parser.add_argument('--epochs', type=int)\nargs = parser.parse_args()\n",
    "by a parser of its own": "import argparse\n\n\nclass Parser(argparse.ArgumentParser):\n    pass\n\n\n"
    "def read():\n    return Parser().parse_args()\n\n\nargs = read()\n",
}


def _read_elsewhere(folder: Path, read: str, imported: str) -> Plan:
    (folder / "options.py").write_text(read)
    start = SCRIPT.index("    parser = ")
    text = SCRIPT[:start] + "    config = Config(**vars(args))\n" + SCRIPT[SCRIPT.index(_PARSED) + len(_PARSED) :]
    (folder / "train.py").write_text(text.replace("import argparse\n", f"{imported}\n"))
    return plan_of_project(folder / "train.py")


@pytest.mark.parametrize("read", _READ.values(), ids=_READ)
@pytest.mark.parametrize("imported", ["from options import args", "from between import args"])
def test_the_helper_takes_them_before_a_module_reads_the_command_line_as_it_is_imported(
    tmp_path: Path, read: str, imported: str
) -> None:
    (tmp_path / "between.py").write_text("from options import args\n")
    new = rewritten(_read_elsewhere(tmp_path, read, imported))
    assert new.index("import pai_distributed") < new.index("pai_distributed.take_options()") < new.index(imported)


def test_a_command_line_that_is_read_by_the_package_of_the_script_is_asked_about(tmp_path: Path) -> None:
    """That has read it before the script begins."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text(_READ["by argparse"])
    [question] = _read_elsewhere(package, "", "from package import args").questions
    assert question.code == "PAI002"
    assert "`vars(args)`" in question.message
    assert "__init__.py" in question.message


def test_a_module_that_reads_it_in_a_function_is_imported_as_ever(tmp_path: Path) -> None:
    read = _READ["by a parser of its own"].replace("\n\nargs = read()", "")
    new = rewritten(_read_elsewhere(tmp_path, f"{read}args = {{}}\n", "from options import args"))
    assert new.index("from options import args") < new.index("pai_distributed.take_options()")


REPLACED = {
    "by a file": ("args = SimpleNamespace(**json.load(open(args.config)))", True),
    "by a library": ("args = Config.fromfile(args.config)", True),
    "with more in it": ("args = argparse.Namespace(**vars(args), config=1)", False),
    "by a function": ("args = checked(args)", False),
    "in an item": ("args.config = 1", False),
}


@pytest.mark.parametrize(("line", "replaced"), REPLACED.values(), ids=REPLACED)
@pytest.mark.parametrize("way", ["here", "returned", "handed on"])
def test_options_are_not_read_of_an_object_that_takes_the_place_of_the_namespace(
    tmp_path: Path, line: str, replaced: bool, way: str
) -> None:
    handed = "    work(args)\n\n\ndef work(args):\n" if way == "handed on" else ""
    swaps = [(_PARSED, f"{_PARSED}    {line}\n{handed}")]
    if way == "returned":
        swaps = [
            ("def main():\n    parser", "def parse():\n    parser"),
            (_PARSED, f"{_PARSED}    {line}\n    return args\n\n\ndef main():\n    args = parse()\n"),
        ]
    new = rewritten(plan_of(tmp_path, swapped(SCRIPT, *swaps)))
    assert "'--perforate_model_parallel'" in new
    assert ("args.perforate_model_parallel" not in new) is replaced
    assert ("pai_distributed.initializing()" in new) is replaced


@pytest.mark.parametrize(
    ("given", "known"),
    [
        pytest.param("args", True, id="as it is"),
        pytest.param("vars(args)", False, id="a dict"),
        pytest.param("load(options)", False, id="made of a dict"),
        pytest.param("again", False, id="a dict by the name that it had"),
        pytest.param("options if plain else args", False, id="a dict or not"),
    ],
)
def test_options_are_not_read_of_a_dict_that_another_function_is_given(tmp_path: Path, given: str, known: bool) -> None:
    built, loop, trained = script("acc = evaluate(model)").partition("for epoch")
    text = f"import argparse\n\n{built}\ndef fit(params):\n{indent(loop + trained, '    ')}\n\ndef main():\n"
    text += "    parser = argparse.ArgumentParser()\n    args = parser.parse_args()\n    options = vars(args)\n"
    text += f"    again = parser.parse_args()\n    again = vars(again)\n    fit({given})\n\nmain()\n"
    changed = rewritten(plan_of(tmp_path, text, Options(mode="max")))
    assert ("if params.perforate_model_parallel:" in changed) is known
    assert ("if pai_distributed.initializing():" in changed) is not known
