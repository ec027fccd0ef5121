"""Text at any width: no word and no code is broken, nothing is lost, and what is plain stays as it is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrofit.layout import PLAIN, View, columns

WIDTHS = st.integers(min_value=10, max_value=200)
WORDS = st.one_of(
    st.text("abcdefghij/-._:", min_size=1, max_size=30),
    st.text("ab /=(),", min_size=1, max_size=20).map(lambda code: f"`x{code}y`"),
    st.text("日本語é", min_size=1, max_size=9),
)
LINES = st.builds(lambda indent, words: " " * indent + " ".join(words), st.integers(0, 6), st.lists(WORDS, max_size=12))
TEXTS = st.lists(LINES, max_size=4).map("\n".join)


def units(text: str) -> list[str]:
    """Return what must stay whole: words, and code between backquotes."""
    return re.findall(r"(?:`[^`\n]*`|\S)+", text)


def assert_fits(text: str, width: int) -> None:
    """Each line fits, but where one unit alone is wider."""
    for line in text.split("\n"):
        assert columns(line) <= width or len(units(line)) == 1, line


@given(TEXTS, WIDTHS)
def test_lines_are_broken_between_words_only(text: str, width: int) -> None:
    wrapped = View(width).wrap(text)
    assert units(wrapped) == units(text)
    assert_fits(wrapped, width)


@given(LINES.filter(str.strip), WIDTHS)
def test_a_broken_line_goes_on_below_its_own_beginning(line: str, width: int) -> None:
    indent = " " * (2 + len(line) - len(line.lstrip()))
    first, *more = View(width).wrap(line, "  ", "+ ").split("\n")
    assert first.startswith(indent)
    assert all(part.startswith(indent + "+ ") for part in more)


@given(TEXTS, st.booleans())
def test_without_a_terminal_every_line_stays_whole(text: str, color: bool) -> None:
    assert View(color=color).wrap(text) == text
    assert PLAIN.paint(text, "red", bold=True) == text


@given(TEXTS)
def test_text_that_fits_is_not_touched(text: str) -> None:
    assert View(max(map(columns, text.split("\n")))).wrap(text) == text


@given(st.lists(st.tuples(WORDS, WORDS, LINES, TEXTS), max_size=5), WIDTHS)
def test_a_table_keeps_all_words_in_their_order(rows: list[tuple[str, str, str, str]], width: int) -> None:
    cells, below = [row[:3] for row in rows], [row[3] for row in rows]
    plain = PLAIN.table(cells, "  ", below)
    table = View(width).table(cells, "  ", below)
    assert units(table) == units(plain)
    assert_fits(View(width).table(cells, "  "), width)


def test_a_tables_columns_stand_below_each_other() -> None:
    rows = [("a", "longer", "Some prose that goes on in the line below."), ("longest", "b", "More.")]
    assert PLAIN.table(rows).splitlines() == [
        "a        longer  Some prose that goes on in the line below.",
        "longest  b       More.",
    ]
    assert View(50).table(rows).splitlines() == [
        "a        longer  Some prose that goes on in the",
        "                 line below.",
        "longest  b       More.",
    ]


def test_a_table_on_a_narrow_terminal_has_its_prose_below() -> None:
    rows = [("train.py:12", "score", "The validation score is found here."), ("other.py:1", "loop", "")]
    assert View(30).table(rows, below=["python -m pip install perforatedai", "Then go on. And on and on and on."]) == (
        "train.py:12  score\n    The validation score is\n    found here.\n    python -m pip install perforatedai\n"
        "other.py:1  loop\n    Then go on. And on and on\n    and on."
    )


@pytest.mark.parametrize("width", [None, 20])
def test_colours_take_no_room(width: int | None) -> None:
    rows = [("warning", "one two three four five six seven"), ("ok", "x")]
    colored = View(width, color=True)
    painted = [(colored.graded(level), text) for level, text in rows]
    assert re.sub(r"\x1b\[\d*m", "", colored.table(painted)) == View(width).table(rows)
    assert "\x1b[33mwarning\x1b[0m" in colored.table(painted)
