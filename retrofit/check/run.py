"""Check many files, several at a time."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from retrofit.check.files import irrelevant, python_files
from retrofit.check.finding import Checked, Report, Wanted
from retrofit.check.settings import Settings, load_settings
from retrofit.errors import Problem, UserError
from retrofit.progress import Told, untold
from retrofit.reading import DEFAULT_MEGABYTES, read_file, size_fault
from retrofit.text import decode, syntax_fault
from retrofit.wording import counted

if TYPE_CHECKING:
    from retrofit.check.checker import Checker

#: From so many files on it pays to read them in several processes, and from so many relevant ones to check them so.
_MANY, _SEVERAL = 2000, 4

_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True)
class Result:
    """What a run over files comes to.

    Attributes:
        fixed: the files that fixes change, with their bytes before and after.
        read: what was done with each file and folder that was come across, and why.
    """

    report: Report
    fixed: dict[str, tuple[bytes, bytes]] = field(default_factory=dict)
    read: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class _Outcome:
    """What is said of one file.

    Attributes:
        faults: what is wrong with its project's settings.
    """

    path: str
    checked: Checked
    data: bytes = b""
    faults: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class Work:
    """What to do with each file.

    Attributes:
        chosen: the command line's settings, on top of each project's.
        wanted: what else than finding.
        root: the folder below which files may be fixed, None for each one's own project.
        max_file_size: how many megabytes a file may have.
    """

    chosen: Settings
    wanted: Wanted
    root: Path | None = None
    max_file_size: float = DEFAULT_MEGABYTES


def run(
    paths: Sequence[str],
    work: Work,
    jobs: int,
    given: tuple[str, bytes] | None = None,
    told: Told = untold,
) -> Result:
    """Check files and folders.

    Args:
        paths: as the user gave them.
        jobs: how many processes may work at a time.
        given: a file that comes from elsewhere, as its name and bytes.
        told: is told of each step, and how many of how many relevant files are checked.
    """
    problems: list[Problem] = []
    read: list[tuple[str, str]] = []
    told("listing files", "")
    files = list(dict.fromkeys(_listed(paths, work.chosen, problems, lambda path, why: read.append((path, why)))))
    told("reading", counted(len(files), "file"))
    waiting: list[str] = []
    candidates = map_many(partial(_candidate, frozenset(paths), work.chosen), files, jobs, _MANY, 200)
    for file, candidate in zip(files, candidates, strict=True):
        if isinstance(candidate, Problem):
            problems.append(candidate)
        elif candidate:
            read.append((file, candidate))
        else:
            waiting.append(file)
    outcomes: list[_Outcome] = []
    told("checking", counted(len(waiting), "file"))
    for outcome in map_many(partial(_check, work), waiting, jobs, _SEVERAL, 1):
        outcomes.append(outcome)
        told("checking", f"{len(outcomes)} of {counted(len(waiting), 'file')}")
    if given is not None:
        outcomes.append(_check_bytes(work, *given))
    for outcome in outcomes:
        problems += [*outcome.faults, *([outcome.checked.problem] if outcome.checked.problem else [])]
    report = Report(
        findings=tuple(finding for outcome in outcomes for finding in outcome.checked.findings),
        problems=tuple(dict.fromkeys(problems)),
        files=len(files) + (given is not None),
        repaired=tuple(code for outcome in outcomes for code in outcome.checked.repaired),
    )
    read += [(outcome.path, "checked") for outcome in outcomes if outcome.checked.problem is None]
    fixed = {o.path: (o.data, o.checked.fixed) for o in outcomes if o.checked.fixed is not None}
    return Result(report, fixed, tuple(read))


def _listed(
    paths: Sequence[str], chosen: Settings, problems: list[Problem], passed: Callable[[str, str], None]
) -> Iterator[str]:
    for path in paths:
        if os.path.isdir(path):
            settings, faults = load_settings(Path(os.path.realpath(path)), chosen)
            problems += faults
            yield from python_files(path, settings.exclude, str(settings.folder), passed)
        elif os.path.lexists(path):
            yield path
        else:
            problems.append(Problem(path, 0, 0, "RF001", "no such file or folder."))


def _candidate(given: frozenset[str], chosen: Settings, path: str) -> str | Problem | None:
    """Return None for a file that may be of interest, else why it is not, or what keeps it from being checked.

    Of a file that was given itself it is said also where nobody would look further that Python cannot read it.
    """
    try:
        data = read_file(path)
        why = irrelevant(data, lambda: _own_words(os.path.dirname(os.path.realpath(path)), chosen))
        if why and path in given:
            return syntax_fault(decode(data, path)[0], path) or why
        return why or None
    except OSError as error:
        return Problem(path, 0, 0, "RF001", f"cannot be read: {error.strerror}.")
    except UserError as error:
        return error.problems[0]


@cache
def _own_words(folder: str, chosen: Settings) -> tuple[bytes, ...]:
    """Return what the project of a folder knows by itself of libraries, in words.

    Raises:
        UserError: one of its files has a mistake.
    """
    path = f"{folder}/pyproject.toml"
    if chosen.knowledge or (os.path.isfile(path) and b"knowledge" in read_file(path)):
        from retrofit.knowledge import load_knowledge

        return load_knowledge(_settings(folder, chosen)[0].knowledge).own_words
    above = os.path.dirname(folder)
    return () if os.path.isfile(path) or above == folder else _own_words(above, chosen)


def _check(work: Work, path: str) -> _Outcome:
    try:
        return _check_bytes(work, path, read_file(path))
    except OSError as error:
        return _Outcome(path, Checked(problem=Problem(path, 0, 0, "RF001", f"cannot be read: {error.strerror}.")))


def _check_bytes(work: Work, shown: str, data: bytes) -> _Outcome:
    """Check one file's bytes by the settings of the project that its name is in."""
    real = os.path.realpath(shown)
    settings, faults = _settings(os.path.dirname(real), work.chosen)
    too_large = size_fault(data, work.max_file_size, shown)
    if too_large is not None:
        return _Outcome(shown, Checked(problem=too_large), data, tuple(faults))
    wanted = work.wanted
    if wanted.fixes and settings.unsafe_fixes:
        wanted = replace(wanted, fixes=wanted.fixes | {"unsafe"})
    checked = _checker().check(Path(real), shown, data, settings, wanted)
    if checked.fixed is not None:
        from retrofit.write.fence import outside, root_of

        fault = outside(root_of(Path(shown), work.root), Path(real))
        if fault:
            faults = [*faults, Problem(shown, 0, 0, "RF030", f"is not fixed: it {fault}")]
            checked = _checker().check(Path(real), shown, data, settings, replace(wanted, fixes=frozenset()))
    return _Outcome(shown, checked, data, tuple(faults))


@cache
def _settings(folder: str, chosen: Settings) -> tuple[Settings, list[Problem]]:
    return load_settings(Path(folder), chosen)


@cache
def _checker() -> Checker:
    from retrofit.check.checker import Checker

    return Checker()


def map_many(
    function: Callable[[_In], _Out], inputs: Sequence[_In], jobs: int, several: int, chunk: int
) -> Iterator[_Out]:
    """Yield what ``function`` returns for each input, in their order.

    Args:
        jobs: how many processes may work at a time.
        several: the number of inputs from which on it pays to start processes.
        chunk: how many inputs a process takes at a time.
    """
    jobs = min(jobs, len(inputs))
    if jobs < 2 or len(inputs) < several:
        yield from map(function, inputs)
        return
    import multiprocessing  # here, because it takes as long as the rest of a small check

    # fork starts fast, and there are no threads yet that it could hurt.
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() and sys.platform != "darwin" else None
    with multiprocessing.get_context(method).Pool(jobs) as pool:
        yield from pool.imap(function, inputs, chunk)
