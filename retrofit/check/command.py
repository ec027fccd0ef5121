"""`retrofit check` from its options to its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from retrofit.check.finding import LEVELS, Report, Wanted
from retrofit.check.run import Result, Work, run
from retrofit.check.settings import Settings, unknown
from retrofit.errors import UserError, shown_path

if TYPE_CHECKING:
    from rich.progress import Progress

_NOTHING, _FOUND, _PROBLEM = 0, 1, 2
#: Formats whose readers want to know what a fix changes.
_WITH_REPLACEMENTS = ("json", "sarif")
#: From so many files on, a bar shows how it goes.
_BAR = 20


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the command line asks for.

    Attributes:
        fixes: the kinds of fixes to work out.
        write: whether to write what they change, `-` to standard output.
        diff: whether to print it as a diff.
        form: a format, or "statistics".
        fail_on: the mildest level for exit code 1.
        jobs: processes that may work at a time, None for one on each CPU.
        stdin_name: what to call standard input.
        root: the folder below which files may be fixed, None for each one's own project.
        max_file_size: how many megabytes a file may have, None for what each project says.
    """

    paths: tuple[str, ...]
    fixes: frozenset[str]
    write: bool
    diff: bool
    form: str
    fail_on: str
    jobs: int | None
    stdin_name: str
    root: Path | None = None
    max_file_size: float | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


def fixes(wanted: bool, unsafe: bool) -> frozenset[str]:
    """Return the kinds of fixes that the options ask for."""
    if not wanted:
        return frozenset()
    return frozenset({"safe", "unsafe"} if unsafe else {"safe"})


def check(request: Request) -> int:
    """Check what is asked for, print the outcome, and return the exit code.

    Raises:
        UserError: no rule is selected that exists, or a repaired file cannot be written.
    """
    problems = [*unknown(request.select, "--select"), *unknown(request.ignore, "--ignore")]
    known = [selector for selector in request.select if not unknown([selector], "")]
    if request.select and not known:
        raise UserError(*problems)
    chosen = Settings(
        select=tuple(known) or Settings.select,
        ignore=request.ignore,
        exclude=request.exclude,
        max_file_size=request.max_file_size or Settings.max_file_size,
    )
    work = Work(chosen, Wanted(request.fixes, request.form in _WITH_REPLACEMENTS), request.root)
    given = (request.stdin_name, sys.stdin.buffer.read()) if "-" in request.paths else None
    paths = [path for path in request.paths if path != "-"]
    if request.write:
        _recover(paths)
    with _bar() as progress:
        result = run(paths, work, request.jobs or os.cpu_count() or 1, given, progress)
    if request.diff:
        _print_diff(result)
    else:
        if request.write:
            _write(result, given, request.root)
        text = _rendered(request.form, result.report)
        click.echo(text, nl=bool(text), err=request.write and given is not None)
    for problem in (*problems, *result.report.problems):
        click.echo(str(problem), err=True)
    if problems or result.report.problems:
        return _PROBLEM
    return _exit_code(request, result)


def _recover(paths: Sequence[str]) -> None:
    """See to what a command left unfinished where this one writes."""
    from retrofit.write.record import recover_around

    for path in paths:
        for line in recover_around(Path(path)):
            click.echo(line, err=True)


def _exit_code(request: Request, result: Result) -> int:
    worst = [f for f in result.report.findings if LEVELS.index(f.level) >= LEVELS.index(request.fail_on)]
    return _FOUND if worst or (request.diff and result.fixed) else _NOTHING


def _rendered(form: str, report: Report) -> str:
    from retrofit.check import formats

    return formats.render(form, report)


def _write(result: Result, given: tuple[str, bytes] | None, chosen: Path | None) -> None:
    """Write repaired files, and what was given on standard input, repaired or not, to standard output."""
    from retrofit.plan import NewFile
    from retrofit.write.fence import root_of
    from retrofit.write.record import Written, write_files

    fixed = dict(result.fixed)
    if given is not None:
        name, data = given
        sys.stdout.buffer.write(fixed.pop(name, (data, data))[1])
        sys.stdout.buffer.flush()
    written: dict[Path, list[Written]] = {}
    for name, (before, after) in fixed.items():
        path = Path(os.path.realpath(name))
        written.setdefault(root_of(Path(name), chosen), []).append(Written(path, [NewFile(path, before, after)]))
    for root, files in written.items():
        write_files(root, "check --fix", *files)


def _print_diff(result: Result) -> None:
    from retrofit.plan import NewFile
    from retrofit.report import diff

    for path, (before, after) in result.fixed.items():
        click.echo(diff(NewFile(Path(path), before, after), shown_path(Path(path))), nl=False)


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    """Yield what shows how many files are checked: a bar on stderr, where that is a terminal and they are many."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    bars: list[Progress] = []

    def show(done: int, total: int) -> None:
        if total >= _BAR and not bars:  # not before, as processes that are forked must have no threads
            bars.append(_new_bar(total))
        for bar in bars:
            bar.update(bar.task_ids[0], completed=done)

    try:
        yield show
    finally:
        for bar in bars:
            bar.stop()


def _new_bar(total: int) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    bar.add_task("checking", total=total)
    bar.start()
    return bar
