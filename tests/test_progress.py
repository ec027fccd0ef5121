"""The line that says what a command is doing, by a clock of the test's own."""

from __future__ import annotations

import signal
import threading

import pytest

from retrofit.progress import Progress


class Terminal:
    """A clock, and what would be on a terminal's line."""

    def __init__(self) -> None:
        self.now = 100.0
        self.line = ""

    def write(self, text: str) -> None:
        assert text.startswith("\r\x1b[K")
        self.line = text.removeprefix("\r\x1b[K")

    def progress(self, columns: int = 80) -> Progress:
        return Progress(self.write, lambda: columns, lambda: self.now)


@pytest.fixture
def terminal() -> Terminal:
    return Terminal()


def test_nothing_is_shown_before_two_seconds(terminal: Terminal) -> None:
    progress = terminal.progress()
    progress("surveying", "12 files")
    terminal.now += 1.9
    progress.draw()
    assert terminal.line == ""
    terminal.now += 0.2
    progress.draw()
    assert terminal.line == "surveying 12 files, 2 s"


def test_the_line_says_how_far_the_step_is_and_how_long_it_takes(terminal: Terminal) -> None:
    progress = terminal.progress()
    progress("reading")
    terminal.now += 5
    progress("listing")
    progress.draw()
    assert terminal.line == "listing, 0 s"
    for done in (119, 120):
        progress("checking", f"{done} of 480 files")
        terminal.now += 3
    progress.draw()
    assert terminal.line == "checking 120 of 480 files, 6 s"


def test_the_line_is_away_while_something_is_printed_and_in_the_end(terminal: Terminal) -> None:
    progress = terminal.progress()
    progress("proving")
    terminal.now += 3
    progress.draw()
    with progress.held():
        assert terminal.line == ""
        progress.draw()  # a signal may come at any moment
        assert terminal.line == ""
    progress.draw()
    assert terminal.line


@pytest.mark.parametrize("columns", [10, 40])
def test_the_line_never_fills_the_terminals_last_column(terminal: Terminal, columns: int) -> None:
    progress = terminal.progress(columns)
    progress("surveying", "files " * 20)
    terminal.now += 3
    progress.draw()
    assert len(terminal.line) == columns - 1


def test_the_time_of_each_step_is_told(terminal: Terminal) -> None:
    progress = terminal.progress()
    for step, seconds in (("reading", 0.25), ("surveying", 1.5), ("reading", 0.5)):
        progress(step, "")
        terminal.now += seconds
    assert progress.took() == "Took 2.25 s: reading 0.75 s, surveying 1.50 s."


def test_a_timer_draws_the_line_and_leaves_nothing_behind(terminal: Terminal) -> None:
    before = signal.getsignal(signal.SIGALRM)
    threads = threading.active_count()
    progress = terminal.progress()
    progress("waiting")
    terminal.now += 2
    with progress.ticking():
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
        assert threading.active_count() == threads
        signal.raise_signal(signal.SIGALRM)
        assert terminal.line == "waiting, 2 s"
    assert terminal.line == ""
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before


def test_the_line_goes_also_where_the_work_fails(terminal: Terminal) -> None:
    progress = terminal.progress()
    progress("waiting")
    terminal.now += 2

    def fail() -> None:
        with progress.ticking():
            progress.draw()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert terminal.line == ""
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_without_a_terminal_there_is_no_timer() -> None:
    progress = Progress(None)
    with progress.ticking():
        progress("working")
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        progress.draw()


def test_in_another_thread_there_is_no_timer(terminal: Terminal) -> None:
    failed = []

    def work() -> None:
        try:
            with terminal.progress().ticking():
                pass
        except ValueError as error:  # only the main thread may have handlers
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert failed == []
