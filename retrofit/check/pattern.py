"""What of the PerforatedAI pattern is missing or broken in a script that uses it already."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from retrofit.check.finding import Finding
from retrofit.check.places import Located, located
from retrofit.errors import EngineError, Problem, UserError
from retrofit.habits.pitfalls import TELLS
from retrofit.launch import is_ours
from retrofit.options import Options
from retrofit.outputs import Company
from retrofit.plan import make_plan
from retrofit.reading import read_file
from retrofit.rules import Recipe, Rule, load_recipe
from retrofit.rules_folder import rules_folder
from retrofit.shell import read_launcher
from retrofit.source import Source
from retrofit.text import split_lines


@cache
def _recipe() -> Recipe:
    return load_recipe(rules_folder() / "perforatedai")


def pattern_findings(source: Source, unsettled: Rule | None, knowledge: tuple[Path, ...] = ()) -> list[Finding]:
    """Return what the recipe would still change in a script that it was applied to, by `retrofit apply` or by hand.

    Only rules with a level are spoken of; the others' changes follow from theirs.

    Args:
        source: a script in which a model is made to grow dendrites.
        unsettled: the rule of the questions that keep the recipe from judging it, None where they are left out.
        knowledge: files that say what further libraries do.
    """
    recipe = _recipe()
    try:
        plan = make_plan(
            source.path,
            source.shown,
            recipe,
            Options(knowledge=knowledge),
            survey_only=True,
            company=Company({source.path: source.data}),
        )
    except UserError as error:
        return _questions(source, error.problems, unsettled)
    except EngineError:
        return []
    if plan.questions:
        return _questions(source, plan.questions, unsettled)
    rules = {rule.code: rule for rule in recipe.rules if rule.level}
    index = plan.script.index
    found: dict[tuple[str, int], Finding] = {}
    for edit in plan.edits:
        mine = index.source.file(edit.node)
        if edit.kind == "add-import" or edit.code not in rules or mine.path != source.path:
            continue
        rule = rules[edit.code]
        place = located(mine, *mine.span(edit.node))
        message = f"{rule.title}: this is not done here. `retrofit apply {source.shown}` does it."
        finding = Finding(file=source.shown, **place, code=rule.code, name=rule.name, level=rule.level, message=message)
        found.setdefault((rule.code, place["line"]), finding)
    return list(found.values())


def launcher_findings(source: Source, rule: Rule) -> list[Finding]:
    """Return where shell scripts beside a training script start it round after round, by its exit status alone.

    Args:
        rule: what is said of such a loop in Python.
    """
    signs, found = _recipe().signs, []
    for path in sorted(source.path.parent.glob("*.sh")):
        text = read_file(path).decode(errors="replace") if path.is_file() else ""
        started = read_launcher(text, source.path.name, [signs.flag, *signs.earlier_flags], [signs.folder])
        if started is None or not started.endless or TELLS.search(text) or is_ours(text):
            continue
        shown, line = os.path.join(os.path.dirname(source.shown), path.name), text.split("\n")[started.endless - 1]
        place = Located(
            line=started.endless, column=1, end_line=started.endless, end_column=len(line) + 1, excerpt=(line,)
        )
        found.append(
            Finding(file=shown, **place, code=rule.code, name=rule.name, level=rule.level, message=rule.message)
        )
    return found


def _questions(source: Source, problems: Sequence[Problem], rule: Rule | None) -> list[Finding]:
    """Return what has to be answered before the rest can be judged."""
    if rule is None:
        return []
    found = []
    for problem in (one for one in problems if one.line and one.file == source.shown):
        line = split_lines(source.text)[problem.line - 1]
        message = f"{rule.message} {problem.code} asks: {problem.message}"
        place = Located(
            line=problem.line,
            column=problem.column,
            end_line=problem.line,
            end_column=len(line) + 1,
            excerpt=(line,),
        )
        found.append(
            Finding(file=source.shown, **place, code=rule.code, name=rule.name, level=rule.level, message=message)
        )
    return found
