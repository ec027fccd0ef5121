"""What a project says of its checks in `[tool.retrofit]`, and the command line on top of it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from retrofit.check.finding import LEVELS
from retrofit.errors import Problem, UserError, shown_path
from retrofit.options import megabytes, project_table
from retrofit.reading import DEFAULT_MEGABYTES
from retrofit.rules_folder import rules_folder


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
        folder: where the settings come from; patterns are relative to it.
        max_file_size: how many megabytes a file may have.
    """

    select: tuple[str, ...] = ("ALL",)
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    severity: tuple[tuple[str, str], ...] = ()
    exclude: tuple[str, ...] = ()
    folder: Path = Path()
    max_file_size: float = DEFAULT_MEGABYTES

    def want(self, code: str, name: str, path: Path) -> bool:
        """Whether a rule counts in a file."""
        ignored = list(self.ignore)
        for pattern, selectors in self.per_file_ignores:
            if _matches(pattern, path, self.folder):
                ignored += selectors
        selected = any(covers(selector, code, name) for selector in self.select)
        return selected and not any(covers(selector, code, name) for selector in ignored)

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


@cache
def known_rules() -> dict[str, str]:
    """Return the codes of all rules with their names, as the names of their files tell them."""
    found = {}
    for path in sorted(rules_folder().glob("*/*.toml")):
        code, _, name = path.stem.partition("-")
        if name:
            found[code] = name
    return found


def load_settings(folder: Path, chosen: Settings) -> tuple[Settings, list[Problem]]:
    """Return the settings of the nearest pyproject.toml at or above a folder, and what is wrong with them.

    Args:
        folder: a real path.
        chosen: what the command line says; what differs from the defaults wins, and what is ignored is added.
    """
    try:
        path, table = project_table(folder / "x")
        own = _typed(path, table) if path is not None else Settings()
    except UserError as error:
        return chosen, list(error.problems)
    if chosen.select != Settings.select:
        own = replace(own, select=chosen.select)
    if chosen.max_file_size != Settings.max_file_size:
        own = replace(own, max_file_size=chosen.max_file_size)
    return replace(own, ignore=own.ignore + chosen.ignore, exclude=own.exclude + chosen.exclude), []


def _typed(path: Path, table: dict[str, Any]) -> Settings:
    found = Settings(
        select=_words(path, "select", table.get("select", ["ALL"])),
        ignore=_words(path, "ignore", table.get("ignore", [])),
        exclude=_words(path, "exclude", table.get("exclude", [])),
        folder=path.parent,
        max_file_size=megabytes(path, table.get("max-file-size", DEFAULT_MEGABYTES)),
    )
    pairs = {key: table.get(key, {}) for key in ("per-file-ignores", "severity")}
    for key, value in pairs.items():
        if not isinstance(value, dict):
            raise _fault(path, key, "must be a table")
    ignores = tuple((pattern, _words(path, "per-file-ignores", v)) for pattern, v in pairs["per-file-ignores"].items())
    for selector, level in pairs["severity"].items():
        if level not in LEVELS:
            raise _fault(
                path, "severity", f"{selector} is {level!r}; it must be {', '.join(LEVELS[:-1])} or {LEVELS[-1]}"
            )
    found = replace(found, per_file_ignores=ignores, severity=tuple(pairs["severity"].items()))
    selectors = [*found.select, *found.ignore, *pairs["severity"], *(word for _, words in ignores for word in words)]
    problems = unknown(selectors, f"{shown_path(path)}: [tool.retrofit]")
    if problems:
        raise UserError(*problems)
    return found


def _words(path: Path, key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise _fault(path, key, 'must be a list such as ["DDP2"]')
    return tuple(value)


def _fault(path: Path, key: str, what: str) -> UserError:
    return UserError(Problem(shown_path(path), 0, 0, "RF006", f"[tool.retrofit] {key} {what}."))


def unknown(selectors: Iterable[str], where: str) -> list[Problem]:
    """Return a problem for each selector that means no rule."""
    rules = known_rules()
    problems = []
    for selector in dict.fromkeys(selectors):
        if re.fullmatch(r"\w[\w-]*", selector) and any(covers(selector, code, name) for code, name in rules.items()):
            continue
        near = difflib.get_close_matches(selector, [*rules, *rules.values()], 1)
        hint = f" Did you mean {near[0]}?" if near else " `retrofit rule` lists them."
        problems.append(Problem(where, 0, 0, "RF020", f"{selector!r} means no rule.{hint}"))
    return problems
