"""The one way in which retrofit tells its user that it cannot go on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


def shown_path(path: Path) -> str:
    """Return a path as messages name it: from the working folder, where it is below it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


@dataclass(frozen=True)
class Problem:
    """Something that keeps a script from being rewritten.

    Attributes:
        file: path as the user gave it, or relative to the working folder.
        line: 1-based line, 0 where the file as a whole is meant.
        column: 1-based column, 0 where the file as a whole is meant.
        code: stable code of the rule or check, such as ``PAI102``.
        message: what was seen and what answers it.
    """

    file: str
    line: int
    column: int
    code: str
    message: str

    def __str__(self) -> str:
        return self.shown(self.code)

    def shown(self, code: str) -> str:
        """Return the line that tells it.

        Args:
            code: how its code is shown, perhaps in colours.
        """
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        message = " ".join(line.strip() for line in self.message.splitlines())  # which may hold code of several lines
        return f"{place}: {code} {message}"


class UserError(Exception):
    """A wrong input or an open question: exit code 2, one line a problem, nothing written."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class EngineError(Exception):
    """A mistake of retrofit itself, found by its own proofs: exit code 123, nothing written."""


class Interrupted(BaseException):
    """A signal asked to stop, and everything that was begun is tidied up: exit code 128 and its number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
