"""The command line: it asks the engine, and prints. Slow imports stand where they are used."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from retrofit import __version__
from retrofit.cli.checking import check, rule
from retrofit.cli.frame import Group
from retrofit.cli.options import options
from retrofit.cli.rewriting import apply, inspect, launch, undo
from retrofit.cli.running import demo, doctor, report, verify
from retrofit.rules_folder import proven_versions

if TYPE_CHECKING:
    from retrofit.console import Console


def _version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        proven = " and ".join(f"{package} {versions[-1]}" for package, versions in proven_versions().items())
        console: Console = context.obj
        text = f"retrofit {__version__}, Python {'.'.join(map(str, sys.version_info[:3]))}\nproven with {proven}"
        console.result(console.out.wrap(text, hang="  "))
        context.exit()


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples=(
        ("What would change, and why?", "retrofit apply --dry-run -v train.py"),
        ("Change it:", "retrofit apply train.py"),
        ("Does the result train here, over every restart?", "retrofit verify train.py"),
        ("What is wrong with the DDP in a folder?", "retrofit check src"),
    ),
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Print the versions, and exit.",
)
@options("")
def main(**chosen: Any) -> None:
    """Rewrite a multi-GPU PyTorch training script so that it trains with PerforatedAI's dendrites.

    Lasting choices can also stand in [tool.retrofit] of the project's pyproject.toml, the one nearest to the script;
    the command line wins. The help of each command says which of its options can.

    Exit codes: 0 done, or nothing to do; 1 something was found; 2 a question, an unsupported script or wrong usage;
    123 a mistake of retrofit itself. A script that cannot be rewritten whole is not touched.
    """


for _command in (inspect, apply, launch, verify, doctor, demo, report, check, undo, rule):
    main.add_command(_command)
