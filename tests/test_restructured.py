"""What is decided of a training stays the same where its parts are in objects, modules, factories or dicts."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.metamorphic import scripts
from tests.projects import FIXTURES
from tests.restructured import CHANGES, differs
from tests.test_transaction import WHOLE

#: A sample of the projects, and of the changes of each: a plan takes half a second.
PROJECTS, FIRST, SOME = (1, 0, 1) if WHOLE else (9, 4, 11)
#: Projects that have dendrites already, whose blocks are read by their forms.
ADOPTED = ("integrated", "partial", "published", "release", "single_gpu")
#: Where something is rightly asked, or told, of the changed project alone.
ASKED = {
    "ddp_batch_scheduler": ("model-and-wrap", "build-tuple", "setup-tuple", "model-by-table"),
    "ddp_while_steps": ("setup-dict",),
}
#: What went wrong once.
MENDED = [
    ("arguments-dict", "ddp_imagenet_layout"),
    ("class", "ddp_meters"),
    ("as", "ddp_published_transformer"),
    ("dict-model", "ddp_rank_zero"),
    ("history", "ddp_package"),
    ("setup-dict", "ddp_amp"),
    ("setup-object", "ddp_history"),
]


def test_a_training_whose_parts_are_elsewhere_is_decided_on_the_same() -> None:
    some = [one for one in scripts() if (FIXTURES / one[0]).is_dir() and not any(word in one[0] for word in ADOPTED)]
    found = {}
    for number, (name, texts, entry) in enumerate(islice(some, FIRST, None, PROJECTS)):
        changes = [one for one in CHANGES if one not in ASKED.get(name, ())][number % SOME :: SOME]
        found.update({(name, change): lines for change, lines in differs(texts, entry, changes).items() if lines})
    assert found == {}


@pytest.mark.parametrize(("change", "name"), MENDED)
def test_what_was_mended_stays_so(change: str, name: str) -> None:
    texts, entry = next((texts, entry) for project, texts, entry in scripts() if project == name)
    assert differs(texts, entry, [change]) == {change: []}


def test_what_is_adopted_may_stand_in_a_class() -> None:
    """The load of `self.model` by hand goes, and the name in `self.folder` is known."""
    texts, entry = next((texts, entry) for project, texts, entry in scripts() if project == "ddp_published_conv")
    lines = differs(texts, entry, ["class"])["class"]
    assert not [line for line in lines if "asks" in line]
