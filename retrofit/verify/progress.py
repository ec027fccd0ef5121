"""Show how a verification goes on: a line a round, and a bar on a terminal."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from retrofit.verify.record import Round
from retrofit.verify.report import round_line

#: The initialisation, and the rounds of a capacity test: three dendrites, then completion.
_EXPECTED = 5


class Progress:
    """Lines on stderr, with a bar below them where that is a terminal."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        self._bar = Bar(*columns, console=self._console, transient=True, disable=not self._console.is_terminal)
        self._task = self._bar.add_task("initialisation", total=_EXPECTED)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def ended(self, one: Round) -> None:
        """Show that a round has ended."""
        self._console.print(round_line(one), markup=False)
        done = int(self._bar.tasks[0].completed) + 1
        self._bar.update(self._task, advance=1, total=max(_EXPECTED, done + 1), description=f"round {done}")
