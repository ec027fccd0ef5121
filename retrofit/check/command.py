"""`retrofit check` from its options to its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from retrofit.check import LEVELS
from retrofit.check.finding import Wanted
from retrofit.check.formats import FOR_PEOPLE, render
from retrofit.check.run import Result, Work, run
from retrofit.check.settings import Settings, unknown
from retrofit.console import Console
from retrofit.errors import Problem, UserError, shown_path
from retrofit.reading import DEFAULT_MEGABYTES
from retrofit.write.new import NewFile

_NOTHING, _FOUND, _PROBLEM = 0, 1, 2
#: Formats whose readers want to know what a fix changes.
_WITH_REPLACEMENTS = ("json", "sarif")


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the command line asks for.

    Attributes:
        unsafe_fixes: whether fixes may change what is trained, None where each file's project says so.
        write: whether to write what they change, `-` to standard output.
        diff: whether to print it as a diff.
        form: a format, or "statistics".
        fail_on: the mildest level for exit code 1.
        jobs: processes that may work at a time, None for one on each CPU.
        stdin_name: what to call standard input.
        problems: what is wrong with the project's keys, without which the files are checked all the same.
        root: the folder below which files may be fixed, None for each one's own project.
        max_file_size: how many megabytes a file may have.
    """

    paths: tuple[str, ...]
    unsafe_fixes: bool | None
    write: bool
    diff: bool
    form: str
    fail_on: str
    jobs: int | None
    stdin_name: str
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    knowledge: tuple[Path, ...] = ()
    problems: tuple[Problem, ...] = ()
    root: Path | None = None
    max_file_size: float = DEFAULT_MEGABYTES


def check(request: Request, console: Console) -> int:
    """Check what is asked for, print the outcome, and return the exit code.

    Raises:
        UserError: no rule is selected that exists, or a repaired file cannot be written.
    """
    problems = [*request.problems, *unknown(request.select, "--select"), *unknown(request.ignore, "--ignore")]
    known = [selector for selector in request.select if not unknown([selector], "")]
    if request.select and not known:
        raise UserError(*problems)
    chosen = Settings(
        select=tuple(known),
        ignore=request.ignore,
        exclude=request.exclude,
        unsafe_fixes=request.unsafe_fixes,
        knowledge=request.knowledge,
    )
    fixes = frozenset({"safe"} if request.write or request.diff else ())
    work = Work(chosen, Wanted(fixes, request.form in _WITH_REPLACEMENTS), request.root, request.max_file_size)
    given = (request.stdin_name, sys.stdin.buffer.read()) if "-" in request.paths else None
    paths = [path for path in request.paths if path != "-"]
    if request.write:
        _recover(paths, console)
    with console.progress(request.form in FOR_PEOPLE) as told:
        result = run(paths, work, request.jobs or os.cpu_count() or 1, given, told)
        for path, what in result.read:
            console.detail(f"{path}: {what}")
    if request.diff:
        _print_diff(result, console)
    else:
        if request.write:
            _write(result, given, request.root)
        beside = request.write and given is not None  # the repaired file has stdout
        text = render(request.form, result.report, console.err if beside else console.out, console.quiet)
        if text:
            (console.complain if beside else console.result)(text)
    for problem in dict.fromkeys((*problems, *result.report.problems)):
        console.problem(problem)
    if problems or result.report.problems:
        return _PROBLEM
    return _exit_code(request, result)


def _recover(paths: Sequence[str], console: Console) -> None:
    """See to what a command left unfinished where this one writes."""
    from retrofit.write.record import recover_around

    for path in paths:
        for problem in recover_around(Path(path)):
            console.problem(problem)


def _exit_code(request: Request, result: Result) -> int:
    worst = [f for f in result.report.findings if LEVELS.index(f.level) >= LEVELS.index(request.fail_on)]
    return _FOUND if worst or (request.diff and result.fixed) else _NOTHING


def _write(result: Result, given: tuple[str, bytes] | None, chosen: Path | None) -> None:
    """Write repaired files, and what was given on standard input, repaired or not, to standard output."""
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


def _print_diff(result: Result, console: Console) -> None:
    from retrofit.explain import colored
    from retrofit.report import diff

    for path, (before, after) in result.fixed.items():
        file = NewFile(Path(path), before, after)
        console.result(colored(diff(file, shown_path(Path(path))), console.patch), nl=False)
