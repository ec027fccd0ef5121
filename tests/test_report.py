"""How rules are listed and explained."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from retrofit.report import rule_list, rule_markdown, rule_text
from retrofit.rules import Rule, load_recipe
from retrofit.rules_folder import rules_folder

RULES = {rule.code: rule for name in ("ddp", "perforatedai") for rule in load_recipe(rules_folder() / name).rules}
CHECKED = [rule for rule in RULES.values() if rule.level]


def test_rules_of_both_folders_are_listed_in_columns() -> None:
    lines = rule_list(RULES.values()).splitlines()
    assert [line.split()[:2] for line in lines] == [[rule.code, rule.name] for rule in RULES.values()]
    titles = {line.index(rule.title) for line, rule in zip(lines, RULES.values(), strict=True)}
    assert len(titles) == 1
    assert lines[0].split()[2] == "warning"
    assert rule_list([]) == ""


def test_a_rule_of_check_is_explained_with_its_examples() -> None:
    rule = RULES["DDP203"]
    text = rule_text(rule)
    assert text.startswith(
        "DDP203 set-epoch-missing: A DistributedSampler is never told the epoch.\n\nLevel: warning. "
    )
    parts = [
        "Fix: safe, `retrofit check --fix` applies it.",
        "`DistributedSampler` makes its order from",
        "Reported:\n\n    from torch.utils.data import DataLoader\n",
        "Fixed:\n\n    from torch.utils.data import DataLoader\n",
        "        sampler.set_epoch(epoch)\n",
        "Not reported:\n\n    from torch.utils.data import DataLoader\n",
        "To silence it, end the line with `# retrofit: ignore[DDP203]` or `# noqa: DDP203`",
        "Source: seeds/002",
    ]
    places = [text.index(part) for part in parts]
    assert all(a < b for a, b in pairwise(places))
    assert "{{" not in text  # the edits' templates say nothing that the examples do not


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (replace(RULES["DDP203"], fix="", unsure="true"), "warning, advice where it depends on code that the file"),
        (replace(RULES["DDP203"], fix="", changes=()), "Level: warning. Fix: none."),
        (RULES["PAI006"], "Level: warning. Fix: `retrofit apply` does it."),
        (replace(RULES["DDP203"], fix="unsafe"), "unsafe, `retrofit check --fix --unsafe-fixes` applies it"),
        (replace(RULES["DDP203"], level="advice", unsure="true"), "Level: advice. Fix"),
    ],
)
def test_level_and_fix_are_said(rule: Rule, said: str) -> None:
    assert said in rule_text(rule)


@pytest.mark.parametrize("rule", CHECKED, ids=lambda rule: rule.code)
def test_every_checked_rule_says_how_to_silence_it(rule: Rule) -> None:
    for text in (rule_text(rule), rule_markdown(rule)):
        assert f"Level: {rule.level}" in text
        assert f"`# retrofit: ignore[{rule.code}]`" in text.replace("\n", " ")
        assert f"Source: {rule.source}" in text
        assert not any(line != line.rstrip() for line in text.split("\n"))


def test_a_rule_of_apply_alone_has_no_level() -> None:
    rule = next(rule for rule in RULES.values() if not rule.level and rule.changes)
    assert "Level:" not in rule_text(rule)
    assert "ignore[" not in rule_text(rule)


def test_markdown_keeps_code_as_it_is() -> None:
    example = RULES["DDP203"].examples[0]
    assert f"```python\n{example.bad.strip()}\n```" in rule_markdown(RULES["DDP203"])
