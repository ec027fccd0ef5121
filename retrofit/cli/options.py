"""Options made from the keys, what a command is asked for with them, and what a shell completes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from retrofit.console import NORMAL, QUIET, VERBOSE, Console, chosen_color
from retrofit.errors import UserError
from retrofit.keys import Folder, Key, Number, OneOf, Rules, Switch, keys_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from retrofit.options import Choices

_F = TypeVar("_F", bound=Callable[..., Any])


class Asked:
    """What a command is asked for, besides its own deeds.

    Attributes:
        chosen: what was given on the command line for each key, by its name in Python; None or empty for nothing.
        console: where its words go.
        fault: what is wrong with the project's keys, None where nothing is.
        lenient: its choices, without the project's where these are wrong.
    """

    def __init__(self, command: str, chosen: Mapping[str, Any], near: Path, console: Console) -> None:
        from retrofit.options import load_choices

        self.chosen = chosen
        self.console = console
        self.fault: UserError | None = None
        self.lenient = load_choices(near, chosen, command, project=False)
        try:
            self.lenient = load_choices(near, chosen, command)
        except UserError as error:
            self.fault = error

    @property
    def choices(self) -> Choices:
        """Its choices.

        Raises:
            UserError: something is wrong with the project's keys.
        """
        if self.fault is not None:
            raise self.fault
        return self.lenient


def keyed(command: _F) -> _F:
    """Give a command the options of its keys; in their place it gets an `Asked`."""
    name = command.__name__
    keys = [key for key in keys_of(name) if key.option]

    @wraps(command)
    def run(**given: Any) -> Any:
        chosen = {key.attribute: given.pop(key.attribute) for key in keys}
        paths = [given.get("script"), *given.get("scripts", ()), *given.get("paths", ())]
        near = next((Path(path) for path in paths if path not in (None, "-")), Path("x"))
        context = click.get_current_context()
        asked = Asked(name, chosen, near / "x" if os.path.isdir(near) else near, context.obj)
        _set_up(context.obj, chosen, context.find_root().params, asked.lenient.configured)
        return command(asked, **given)

    return options(name)(run)  # type: ignore[return-value]


def options(name: str) -> Callable[[_F], _F]:
    """Return what gives a command the options of its keys.

    Args:
        name: the command, "" for the group of all.
    """

    def add(command: _F) -> _F:
        for key in reversed([key for key in keys_of(name) if key.option]):
            command = _option(key)(command)
        return command

    return add


def _option(key: Key) -> Callable[[_F], _F]:
    takes = key.takes
    name = f"--{key.name}/--no-{key.name}" if isinstance(takes, Switch) else f"--{key.name}"
    settings: dict[str, Any] = {"metavar": key.metavar} if key.metavar else {}
    if isinstance(takes, OneOf):
        settings["type"] = click.Choice(takes.words)
    elif isinstance(takes, Number):
        kind = click.IntRange(min=takes.lowest) if takes.whole else click.FloatRange(min=takes.lowest, min_open=True)
        settings["type"] = kind
    elif isinstance(takes, Folder):
        settings["type"] = click.Path(readable=False, path_type=Path)
    elif isinstance(takes, Rules):
        settings["shell_complete"] = complete_rules
    elif isinstance(takes, Switch):
        settings["default"] = None
    help_text = f"{key.meaning} [default: {key.default_text}]"
    return click.option(*filter(None, (key.short, name)), help=help_text, multiple=takes.repeated, **settings)


def _set_up(console: Console, own: Mapping[str, Any], above: Mapping[str, Any], configured: Mapping[str, Any]) -> None:
    """Make the console as loud and as coloured as chosen: behind the command's name, before it, or in the project."""
    levels = (_level(given) for given in (own, above, configured))
    console.level = next((level for level in levels if level is not None), NORMAL)
    commanded = own["color"] or above["color"]
    console.color = chosen_color(commanded, configured.get("color"), os.environ)
    console.insisted = commanded == "always"


def _level(given: Mapping[str, Any]) -> int | None:
    quiet, verbose = given.get("quiet"), given.get("verbose")
    if quiet and verbose:
        raise click.UsageError("--quiet and --verbose exclude each other.")
    if quiet is None and verbose is None:
        return None
    return QUIET if quiet else VERBOSE if verbose else NORMAL


def complete_rules(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the rules that begin so, by code or by name; the last one of several with commas between."""
    from retrofit.rules_folder import known_rules

    return _completed(known_rules(), incomplete)


def complete_codes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the rules and messages that begin so."""
    from retrofit.messages import load_messages
    from retrofit.rules_folder import known_rules

    return _completed({**known_rules(), **{code: one.title for code, one in load_messages().items()}}, incomplete)


def _completed(known: Mapping[str, str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    first, comma, word = incomplete.rpartition(",")
    codes = [(code, name) for code, name in known.items() if code.startswith(word.upper())]
    names = [(name, code) for code, name in known.items() if word and name.startswith(word) and " " not in name]
    return [CompletionItem(first + comma + value, help=told) for value, told in [*codes, *names]]
