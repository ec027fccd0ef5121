"""What a command is doing: a line on the terminal where it takes long, and the time that each step took."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

#: How work says which step it begins, with how far it is in it, or on how much it works; "" for neither.
Told = Callable[[str, str], None]

#: Seconds of work from which on the line is shown, and between its changes.
_PATIENCE = 2.0
_INTERVAL = 0.25
_ERASED = "\r\x1b[K"


def untold(step: str, detail: str) -> None:
    """Tell nobody."""


class Progress:
    """What a command is doing; called with each step, it is a `Told`.

    A timer's signal draws the line, so that there is no thread: nothing can outlive the command, draw into its output,
    or be copied half by a fork. Where there is no such signal, or another thread asks, there is no line.

    Args:
        write: puts text on the terminal at once, None where none shall be shown.
        columns: returns the terminal's width.
        clock: returns a time in seconds.
    """

    def __init__(
        self,
        write: Callable[[str], object] | None,
        columns: Callable[[], int] = lambda: 80,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write = write
        self._columns = columns
        self._clock = clock
        self._begun = self._since = clock()
        self._step = self._detail = ""
        self._times: dict[str, float] = {}
        self._drawn = self._held = False

    def __call__(self, step: str, detail: str = "") -> None:
        """Begin a step, or go on with it."""
        if step != self._step:
            self._note()
        self._step, self._detail = step, detail

    def _note(self) -> None:
        now = self._clock()
        if self._step:
            self._times[self._step] = self._times.get(self._step, 0.0) + now - self._since
        self._since = now

    def took(self) -> str:
        """Return how long everything took, and each step of it."""
        self._note()
        steps = ", ".join(f"{step} {seconds:.2f} s" for step, seconds in self._times.items())
        return f"Took {self._clock() - self._begun:.2f} s: {steps}."

    def draw(self) -> None:
        """Show the line, if it is time for that."""
        now = self._clock()
        if self._write is None or self._held or not self._step or now - self._begun < _PATIENCE:
            return
        line = f"{self._step} {self._detail}".rstrip() + f", {now - self._since:.0f} s"
        self._drawn = True
        self._write(_ERASED + line[: self._columns() - 1])

    @contextmanager
    def held(self) -> Iterator[None]:
        """Take the line away, so that other output has the terminal for itself."""
        self._held = True
        if self._write is not None and self._drawn:
            self._write(_ERASED)
        self._drawn = False
        try:
            yield
        finally:
            self._held = False

    @contextmanager
    def ticking(self) -> Iterator[None]:
        """Keep the line up to date for as long as the work goes on, and take it away in the end."""
        number = getattr(signal, "SIGALRM", None)
        if self._write is None or number is None or threading.current_thread() is not threading.main_thread():
            yield
            return

        def tick(number: int, frame: FrameType | None) -> None:
            self.draw()

        before = signal.signal(number, tick)
        signal.setitimer(signal.ITIMER_REAL, _PATIENCE, _INTERVAL)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(number, signal.SIG_DFL if before is None else before)
            with self.held():
                pass
