"""What of the PerforatedAI pattern is missing or broken in a script that uses it already."""

from __future__ import annotations

from functools import cache

from retrofit.check.finding import Finding
from retrofit.check.places import located
from retrofit.errors import EngineError, UserError
from retrofit.options import Options
from retrofit.plan import Company, make_plan
from retrofit.rules import Recipe, load_recipe
from retrofit.rules_folder import rules_folder
from retrofit.source import Source


@cache
def _recipe() -> Recipe:
    return load_recipe(rules_folder() / "perforatedai")


def pattern_findings(source: Source) -> list[Finding]:
    """Return what the recipe would still change in a script that it was applied to, by `retrofit apply` or by hand.

    Only rules with a level are spoken of; the others' changes follow from theirs. Modules without `perforate_model` are
    passed over, and so is what a question keeps the recipe from judging.
    """
    recipe = _recipe()
    if "perforate_model(" not in source.text:
        return []
    try:
        plan = make_plan(
            source.path, source.shown, recipe, Options(), survey_only=True, company=Company({source.path: source.data})
        )
    except (UserError, EngineError):
        return []
    rules = {rule.code: rule for rule in recipe.rules if rule.level}
    index = plan.script.index
    found: dict[tuple[str, int], Finding] = {}
    for edit in plan.edits if not plan.questions else ():
        mine = index.source.file(edit.node)
        if edit.kind == "add-import" or edit.code not in rules or mine.path != source.path:
            continue
        rule = rules[edit.code]
        place = located(mine, *mine.span(edit.node))
        message = f"{rule.title}: this is not done here. `retrofit apply {source.shown}` does it."
        finding = Finding(file=source.shown, **place, code=rule.code, name=rule.name, level=rule.level, message=message)
        found.setdefault((rule.code, place["line"]), finding)
    return list(found.values())
