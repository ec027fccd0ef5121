"""What a check says of a file."""

from __future__ import annotations

from dataclasses import dataclass

from retrofit.errors import Problem


@dataclass(frozen=True)
class Replacement:
    """Lines of a file that a fix replaces.

    Attributes:
        first: the 1-based number of the first line that goes.
        last: that of the last one; ``first - 1`` where lines only come in before ``first``.
        text: what stands there then, with its line ends.
    """

    first: int
    last: int
    text: str


@dataclass(frozen=True)
class Finding:
    """A place in a file about which a rule has something to say.

    Attributes:
        file: the file as messages name it.
        line: 1-based, as are the others; the end is the first place behind it.
        level: "error", "warning", "advice", or "open" where something could not be judged.
        excerpt: the lines of the file that it stands in.
        fix: "safe" or "unsafe" where it can be repaired, "" where not.
        replacements: what the fix changes, in the order of the lines.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    code: str
    name: str
    level: str
    message: str
    excerpt: tuple[str, ...] = ()
    fix: str = ""
    replacements: tuple[Replacement, ...] = ()

    @property
    def place(self) -> str:
        """The place as `file:line:column`."""
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Checked:
    """The outcome for one file.

    Attributes:
        findings: in the order of the file.
        problem: why the file could not be checked, None where it could.
        fixed: its bytes after the fixes that were asked for, None where they change nothing.
        repaired: the codes of the findings that the fixes have repaired, one for each.
    """

    findings: tuple[Finding, ...] = ()
    problem: Problem | None = None
    fixed: bytes | None = None
    repaired: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """The outcome for everything that one command checks.

    Attributes:
        findings: file by file, each in the order of its lines.
        problems: what could not be checked, and why.
        files: how many files were looked at.
        repaired: the codes of the findings that fixes have repaired, one for each.
    """

    findings: tuple[Finding, ...]
    problems: tuple[Problem, ...] = ()
    files: int = 0
    repaired: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """What a check shall do besides finding.

    Attributes:
        fixes: the kinds of fixes to apply, of "safe" and "unsafe".
        replacements: whether findings say what their fixes change.
    """

    fixes: frozenset[str] = frozenset()
    replacements: bool = False
