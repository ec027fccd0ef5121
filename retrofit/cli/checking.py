"""The commands that find and explain: `check` and `rule`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from retrofit.cli.frame import OK, Command
from retrofit.cli.options import Asked, complete_codes, keyed
from retrofit.cli.shared import (
    MAX_FILE_SIZE,
    PROJECT_ROOT,
    named_recipe,
)
from retrofit.errors import Problem, UserError
from retrofit.wording import did_you_mean

if TYPE_CHECKING:
    pass


@click.command(
    cls=Command,
    examples=(
        ("Check all of a project:", "retrofit check ."),
        ("Repair what can be repaired safely:", "retrofit check --fix src"),
        ("Only some rules, and not in some files:", "retrofit check --select DDP2,DDP3 --exclude old src"),
        ("One line a finding, from warnings on:", "retrofit check --format concise --fail-on warning ."),
    ),
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(readable=False), metavar="PATH...")
@click.option("--fix", is_flag=True, help="Repair what can be repaired safely. [default: off]")
@click.option("--diff", is_flag=True, help="Print the diff of the repairs, and write nothing. [default: off]")
@click.option("--statistics", is_flag=True, help="Print a count for each rule instead. [default: off]")
@click.option(
    "--stdin-filename",
    type=click.Path(readable=False),
    metavar="NAME",
    default="stdin.py",
    help="What to call the input of `-`. [default: stdin.py]",
)
@PROJECT_ROOT
@MAX_FILE_SIZE
@keyed
def check(
    asked: Asked,
    paths: tuple[str, ...],
    fix: bool,
    diff: bool,
    statistics: bool,
    stdin_filename: str,
    project_root: Path | None,
    max_file_size: float,
) -> int:
    """Find mistakes in each PATH's use of DDP.

    A PATH is a file, a folder with all its Python files, or `-` for standard input. In folders, files that .gitignore
    names are passed over, and so are virtual environments, installed packages, build folders, and PyTorch itself.
    A comment `# noqa: DDP203` or `# retrofit: ignore[DDP203]` silences a rule in its line.

    Exit codes: 0 nothing found; 1 something found; 2 a file or setting that cannot be read, the others are checked.
    """
    from retrofit.check import command

    choices = asked.lenient
    given = {
        name: tuple(word for words in asked.chosen[name] for word in words.split(","))
        for name in ("select", "ignore", "exclude")
    }
    request = command.Request(
        paths=paths,
        unsafe_fixes=asked.chosen["unsafe_fixes"],
        write=fix and not diff,
        diff=diff,
        form="statistics" if statistics else choices["format"],
        fail_on=choices["fail_on"],
        jobs=choices["jobs"],
        stdin_name=stdin_filename,
        problems=asked.fault.problems if asked.fault else (),
        root=project_root,
        max_file_size=max_file_size,
        knowledge=choices.commanded.get("knowledge", ()),
        **given,
    )
    return command.check(request, asked.console)


@click.command(
    cls=Command,
    examples=(
        ("List all rules:", "retrofit rule"),
        ("Explain one, by its code or name:", "retrofit rule PAI009"),
        ("Explain a message:", "retrofit rule RF010"),
    ),
)
@click.argument("code", required=False, metavar="[CODE]", shell_complete=complete_codes)
@keyed
def rule(asked: Asked, code: str | None) -> int:
    """List the rules, or explain the one with CODE.

    It says what the rule does, why, the code that it writes, and where it comes from. The CODE of any other message,
    such as RF010, is explained too.
    """
    from retrofit.messages import load_messages, message_text

    view = asked.console.out
    message = load_messages().get((code or "").upper())
    if message is not None:
        asked.console.result(message_text(message, view))
        return OK
    from retrofit import report

    rules = sorted(
        [*named_recipe(None, "ddp").rules, *named_recipe(asked.choices["rules"]).rules], key=lambda rule: rule.code
    )
    if code is None:
        asked.console.result(report.rule_list(rules, view))
        return OK
    for known in rules:
        if code.lower() in (known.code.lower(), known.name):
            asked.console.result(report.rule_text(known, view))
            return OK
    names = [name for known in rules for name in (known.code, known.name)]
    hint = did_you_mean(code, [*names, *load_messages()])
    raise UserError(Problem(code, 0, 0, "RF013", f"is no rule.{hint} `retrofit rule` lists them."))
