"""Every rule of `retrofit check` against its own examples, which are its documentation as well."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from retrofit.check import LEVELS
from retrofit.check.checker import Checker
from retrofit.check.finding import Checked, Wanted
from retrofit.check.settings import Settings
from retrofit.habits.file import TrainingFile
from retrofit.rules import Example, Rule, load_recipe
from retrofit.rules_folder import known_rules, rules_folder
from retrofit.survey.nodes import dotted
from tests.helpers import index_of

CHECKER = Checker()
RULES = load_recipe(rules_folder() / "ddp").rules
BAD = [(rule, example) for rule in RULES for example in rule.examples if example.bad]
GOOD = [(rule, example) for rule in RULES for example in rule.examples if example.good]
FIXTURES = Path(__file__).parent.parent / "fixtures"
FIXES = frozenset({"safe", "unsafe"})


def checked(text: str, rule: Rule, fixes: frozenset[str] = frozenset()) -> Checked:
    """Check an example by one rule; what comments silence shows only where the rules that they name count as well."""
    settings = Settings() if rule.site == "suppression" else Settings(select=(rule.code,))
    return CHECKER.check(Path("/project/train.py"), "train.py", text.lstrip("\n").encode(), settings, Wanted(fixes))


@pytest.mark.parametrize(("rule", "example"), BAD, ids=[f"{rule.code}-{n}" for n, (rule, _) in enumerate(BAD)])
def test_bad_examples_are_reported(rule: Rule, example: Example) -> None:
    outcome = checked(example.bad, rule)
    assert outcome.problem is None
    assert {finding.code for finding in outcome.findings} == {rule.code}


@pytest.mark.parametrize(("rule", "example"), GOOD, ids=[f"{rule.code}-{n}" for n, (rule, _) in enumerate(GOOD)])
def test_good_examples_are_silent(rule: Rule, example: Example) -> None:
    outcome = checked(example.good, rule)
    assert outcome.problem is None
    assert outcome.findings == ()


@pytest.mark.parametrize(("rule", "example"), BAD, ids=[f"{rule.code}-{n}" for n, (rule, _) in enumerate(BAD)])
def test_fixes_repair_what_is_reported(rule: Rule, example: Example) -> None:
    outcome = checked(example.bad, rule, FIXES)
    if not example.fixed:
        assert outcome.fixed is None
        return
    assert outcome.fixed is not None
    assert outcome.fixed.decode() == example.fixed.lstrip("\n")
    assert outcome.findings == ()
    assert checked(example.fixed, rule).findings == ()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_rules_are_complete(rule: Rule) -> None:
    bad = [example for example in rule.examples if example.bad]
    good = [example for example in rule.examples if example.good]
    assert bad
    assert len(good) >= len(bad)
    assert rule.level in LEVELS
    assert rule.message
    assert bool(rule.fix) == any(example.fixed for example in bad)
    assert known_rules()[rule.code] == rule.name


@pytest.mark.parametrize("project", sorted(FIXTURES.glob("*/after")), ids=lambda path: path.parent.name)
def test_rewritten_projects_have_nothing_of_the_library_against_them(project: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(project, tmp_path / "project")  # or all files around it here would be asked
    for path in sorted(copy.rglob("*.py")):
        findings = CHECKER.check(path, path.name, path.read_bytes(), Settings(select=("PAI2",))).findings
        assert [(one.code, one.line) for one in findings] == []


def test_a_layer_that_is_given_back_to_its_model_ends_the_search_for_its_value() -> None:
    file = TrainingFile(index_of("net = Net()\nconv = net.conv\nnet.conv = conv\n"))
    assert {dotted(file.value_of(one)) for one in file.index.attributes} == {"net.conv"}
