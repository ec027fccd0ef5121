"""What a project says of its checks in `[tool.retrofit]`, and the command line on top of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path

from retrofit.errors import Problem, UserError, shown_path
from retrofit.options import project_table
from retrofit.rules_folder import known_rules
from retrofit.wording import did_you_mean


@dataclass(frozen=True)
class Settings:
    """Which rules count, and how much.

    A selector is a code (`DDP203`), the beginning of one (`DDP`, `DDP2`), a rule's name, or `ALL`.

    Attributes:
        select: the selectors of the rules that count.
        ignore: those of rules that do not.
        per_file_ignores: the same for the files that a pattern, as in .gitignore, names.
        severity: the level of rules in place of their own.
        exclude: patterns, as in .gitignore, of files that are passed over.
        unsafe_fixes: whether a fix may change what is trained, None where nobody says so.
        knowledge: files that say what further libraries do.
        folder: where the settings come from; patterns are relative to it.
    """

    select: tuple[str, ...] = ("ALL",)
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    severity: tuple[tuple[str, str], ...] = ()
    exclude: tuple[str, ...] = ()
    unsafe_fixes: bool | None = None
    knowledge: tuple[Path, ...] = ()
    folder: Path = Path()

    def want(self, code: str, name: str, path: Path) -> bool:
        """Whether a rule counts in a file."""
        ignored = list(self.ignore)
        for pattern, selectors in self.per_file_ignores:
            if _matches(pattern, path, self.folder):
                ignored += selectors
        selected = any(covers(selector, code, name) for selector in self.select)
        return selected and not any(covers(selector, code, name) for selector in ignored)

    def selectors(self) -> list[str]:
        """Return every selector."""
        by_file = [selector for _, selectors in self.per_file_ignores for selector in selectors]
        return [*self.select, *self.ignore, *(selector for selector, _ in self.severity), *by_file]

    def level(self, code: str, name: str, level: str) -> str:
        """Return the level of a rule whose own one is ``level``; the closest selector counts."""
        chosen = [(len(selector), value) for selector, value in self.severity if covers(selector, code, name)]
        return max(chosen)[1] if chosen else level


def covers(selector: str, code: str, name: str) -> bool:
    """Whether a selector means a rule."""
    return selector == "ALL" or code.startswith(selector.upper()) or selector == name


def _matches(pattern: str, path: Path, folder: Path) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        relative = path.relative_to(folder)
    except ValueError:
        return False
    return GitIgnoreSpec.from_lines([pattern]).match_file(relative.as_posix())


def load_settings(folder: Path, chosen: Settings) -> tuple[Settings, list[Problem]]:
    """Return the settings of the nearest pyproject.toml at or above a folder, and what is wrong with them.

    Args:
        folder: a real path.
        chosen: what the command line says; what it selects wins, what it ignores and excludes is added.
    """
    own = Settings()
    problems: list[Problem] = []
    try:
        path, table = project_table(folder / "x")
        if path is not None:
            names = {field.name for field in fields(Settings)} - {"folder"}
            values = {key.replace("-", "_"): value for key, value in table.items()}
            read = Settings(folder=path.parent, **{name: values[name] for name in names & values.keys()})
            problems = unknown(read.selectors(), f"{shown_path(path)}: [tool.retrofit]")
            own = own if problems else read
    except UserError as error:
        problems = list(error.problems)
    merged = replace(
        own,
        select=chosen.select or own.select,
        ignore=own.ignore + chosen.ignore,
        exclude=own.exclude + chosen.exclude,
        knowledge=chosen.knowledge or own.knowledge,
        unsafe_fixes=own.unsafe_fixes if chosen.unsafe_fixes is None else chosen.unsafe_fixes,
    )
    return merged, problems


def unknown(selectors: Iterable[str], where: str) -> list[Problem]:
    """Return a problem for each selector that means no rule."""
    rules = known_rules()
    problems = []
    for selector in dict.fromkeys(selectors):
        if re.fullmatch(r"\w[\w-]*", selector) and any(covers(selector, code, name) for code, name in rules.items()):
            continue
        hint = did_you_mean(selector, [*rules, *rules.values()]) or " `retrofit rule` lists them."
        problems.append(Problem(where, 0, 0, "RF020", f"{selector!r} means no rule.{hint}"))
    return problems
