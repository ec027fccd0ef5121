"""What all commands share: help that fits the terminal, near words for wrong ones, errors as lines and exit codes."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from retrofit.console import Console
from retrofit.errors import EngineError, Interrupted, Problem, UserError
from retrofit.keys import DEEDS, keys_of
from retrofit.layout import View
from retrofit.wording import did_you_mean, listed

OK, FOUND, QUESTION, OUR_ERROR = 0, 1, 2, 123

#: Help has no longer lines than this on a wider terminal, and from this width on what an option means stands beside it.
_WIDEST, _BESIDE = 100, 70


class Formatter(click.HelpFormatter):
    """Lays help out so that no word and no example is broken, at any width."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        super().__init__(indent_increment, width or min(shutil.get_terminal_size().columns, max_width or _WIDEST))
        self._view = View(self.width)

    @property
    def _indent(self) -> str:
        return " " * self.current_indent

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Write the line that shows how the command is called."""
        self.write(self._view.wrap(f"{prefix or 'Usage: '}{prog} {args}".rstrip(), hang="    ") + "\n")

    def write_text(self, text: str) -> None:
        """Write paragraphs."""
        paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
        self.write(self._view.wrap("\n\n".join(paragraphs), self._indent) + "\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write terms with what they mean, beside them or below."""
        rows = list(rows)
        beside = self.width >= _BESIDE
        column = min(max((len(term) for term, _ in rows), default=0), col_max) if beside else 2
        for term, meaning in rows:
            text = self._view.wrap(meaning, self._indent + " " * (column + col_spacing))
            if beside and len(term) <= column:
                text = self._indent + term + text[self.current_indent + len(term) :]
            else:
                text = self._view.wrap(term, self._indent, "  ") + "\n" + text
            self.write(text + "\n")

    def write_examples(self, examples: Iterable[tuple[str, str]]) -> None:
        """Write commands as they are typed, each below what it is for."""
        for what, command in examples:
            self.write(self._view.wrap(what, self._indent) + f"\n{self._indent}  {command}\n")


class _Context(click.Context):
    formatter_class = Formatter


class Command(click.Command):
    """A command with examples.

    Args:
        examples: what each is for, and the command as it is typed.
    """

    context_class = _Context

    def __init__(self, *args: Any, examples: Sequence[tuple[str, str]] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.examples = examples

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the first sentence of the help, whole at any width."""
        return super().get_short_help_str(1000)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write which options are keys, then the examples."""
        assert isinstance(formatter, Formatter)
        formatter.write_paragraph()
        formatter.write_text(self.on_keys())
        with formatter.section("Examples"):
            formatter.write_examples(self.examples)

    def on_keys(self) -> str:
        """Return which options can be keys of pyproject.toml."""
        names = [name[2:] for option in self.params for name in option.opts if name.startswith("--")]
        deeds = [f"--{name}" for name in names if name in DEEDS]
        more = [key.name for key in keys_of(self.name or "") if not key.option]
        text = f"Each option{' but ' + listed(deeds) if deeds else ''} can also stand in [tool.retrofit] of "
        text += "pyproject.toml, as a key without the dashes."
        return text + (f" So can {listed(more)}, which are no options." if more else "")


class Group(click.Group):
    """All commands: what they raise becomes lines on stderr and an exit code, what they return is the exit code."""

    context_class = _Context
    command_class = Command

    def __init__(self, *args: Any, examples: Sequence[tuple[str, str]] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.examples = examples

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run a command; what a stream's encoding lacks is written with backslashes."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        return super().main(*args, obj=Console(), **settings)

    def make_context(self, *args: Any, **settings: Any) -> click.Context:
        """Read what stands before the command's name."""
        with _guarded(settings["obj"] if "obj" in settings else Console()):
            return super().make_context(*args, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command and leave with its exit code."""
        with _guarded(ctx.obj):
            sys.exit(super().invoke(ctx) or OK)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one has nearly its name."""
        if args[0] not in self.commands and not ctx.resilient_parsing and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}.{did_you_mean(args[0], list(self.commands))}")
        return super().resolve_command(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then how a shell learns to complete commands."""
        assert isinstance(formatter, Formatter)
        with formatter.section("Examples"):
            formatter.write_examples(self.examples)
        with formatter.section("Shell completion"):
            formatter.write_examples(
                (
                    ("In ~/.bashrc (bash 4.4 or newer):", 'eval "$(_RETROFIT_COMPLETE=bash_source retrofit)"'),
                    ("In ~/.zshrc, behind compinit:", 'eval "$(_RETROFIT_COMPLETE=zsh_source retrofit)"'),
                    ("In ~/.config/fish/config.fish:", "_RETROFIT_COMPLETE=fish_source retrofit | source"),
                )
            )


@contextmanager
def _guarded(console: Console) -> Iterator[None]:
    """Turn what goes wrong into lines on stderr and an exit code."""
    try:
        _find_working_folder()
        yield
    except click.UsageError as error:
        if type(error).show is not click.UsageError.show:  # it shows the help
            raise
        usage = [error.ctx.get_usage(), f"Try '{error.ctx.command_path} --help' for help.", ""] if error.ctx else []
        console.complain("\n".join([*usage, f"Error: {error.format_message()}"]))
        code = QUESTION
    except UserError as error:
        for problem in error.problems:
            console.problem(problem)
        code = QUESTION
    except Interrupted as error:
        console.complain("Stopped. Nothing of it is left.")
        code = 128 + error.number
    except KeyboardInterrupt:
        console.complain("Stopped.")
        code = 128 + signal.SIGINT
    except BrokenPipeError:  # whoever read our output has gone
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - what is left in the buffer goes there at exit
        code = 128 + signal.SIGPIPE
    except OSError as error:  # a disk or a permission that gives way where nobody expects it
        file = str(error.filename or "stdout")
        console.problem(Problem(file, 0, 0, "RF010", f"cannot be read or written: {error.strerror or error}."))
        code = QUESTION
    except EngineError as error:
        console.complain(f"retrofit failed its own check, and changed nothing: {error}")
        console.complain("This is a mistake of retrofit. Please report it with the script, or the part that matters.")
        code = OUR_ERROR
    except (click.exceptions.Exit, click.Abort):
        raise
    except Exception as error:
        if os.environ.get("RETROFIT_TRACEBACK"):
            raise
        console.complain(f"retrofit failed, and changed nothing: {type(error).__name__}: {error}")
        console.complain("This is a mistake of retrofit. RETROFIT_TRACEBACK=1 shows where; please report it.")
        code = OUR_ERROR
    else:
        return
    sys.exit(code)


def _find_working_folder() -> None:
    try:
        os.getcwd()
    except OSError:
        message = "the working folder is gone. Change to one that is there."
        raise UserError(Problem(".", 0, 0, "RF036", message)) from None
