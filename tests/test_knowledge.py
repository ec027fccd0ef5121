"""What is known of libraries: each entry is tested by its own example, and mistakes in files of it are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2.exceptions import UndefinedError

from retrofit.check.checker import Checker
from retrofit.check.settings import Settings
from retrofit.knowledge import Entry, Knowledge, knowledge_folder, load_knowledge, read_entries
from retrofit.source import Source
from retrofit.survey.script import Choices, survey
from retrofit.templates import RuleEnvironment

ENTRIES = [(path.stem, entry) for path in sorted(knowledge_folder().glob("*.toml")) for entry in read_entries(path)]


def finds(entry: Entry, knowledge: Knowledge) -> bool:
    """Whether what an entry's example should show is found by some knowledge."""
    source = Source(Path("/project/train.py"), entry.example.encode(), "train.py")
    names: dict[str, object] = {}
    if "codes" in entry.finds:
        checked = Checker().check(source.path, "train.py", source.data, Settings(), knowledge=knowledge)
        assert checked.problem is None
        names["codes"] = [finding.code for finding in checked.findings]
    if "script" in entry.finds:
        names["script"] = survey(source, Choices(knowledge=knowledge))
    try:
        return bool(RuleEnvironment().compile_expression(entry.finds, undefined_to_none=False)(**names) is True)
    except UndefinedError:  # of a list that is empty
        return False


def names_of(library: str, entry: Entry) -> str:
    return f"{library}-{[*entry.all_names, *entry.methods, *getattr(entry, 'modules', ())][0]}"


@pytest.mark.parametrize(("library", "entry"), ENTRIES, ids=[names_of(*one) for one in ENTRIES])
def test_entry_is_what_its_example_is_understood_by(library: str, entry: Entry) -> None:
    known = load_knowledge()
    rest = [one for one in known.entries if one != entry]
    assert len(rest) == len(known.entries) - 1
    assert finds(entry, known)
    assert not finds(entry, Knowledge(rest))
