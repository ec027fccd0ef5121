"""Comments, documentation, empty lines, quotes and the names of locals change nothing of what is found or written."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.metamorphic import apply_differs, check_differs, dressed, examples, scripts
from tests.test_transaction import WHOLE

CHANGES = ("dressed", "bare", "renamed")
#: What a sample leaves out: each project takes a second, each file a hundredth of it.
EVERY = {"dressed": (3, 1), "bare": (12, 12), "renamed": (3, 1)}


@pytest.mark.parametrize("change", CHANGES)
def test_a_script_in_other_words_is_rewritten_the_same(change: str) -> None:
    step = 1 if WHOLE else EVERY[change][0]
    some = {name: apply_differs(texts, entry, change) for name, texts, entry in islice(scripts(), None, None, step)}
    assert {name: lines for name, lines in some.items() if lines} == {}


@pytest.mark.parametrize("change", CHANGES)
def test_the_same_is_found_in_a_file_in_other_words(change: str) -> None:
    step = 1 if WHOLE else EVERY[change][1]
    some = {name: check_differs(text, change) for name, text in islice(examples(), None, None, step)}
    assert {name: lines for name, lines in some.items() if lines} == {}


def test_what_dresses_a_script_leaves_its_statements() -> None:
    text = dressed("def f(x):\n    if x:\n        return 'a'\n    else:\n        return 'b'\n")
    assert text.count("# ") == 11  # before and behind each statement
    assert text.count('"""') == 2
    assert 'return "a"  # ' in text
