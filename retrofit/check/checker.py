"""Check one file: what the rules find there, less what its comments silence, and what the fixes make of it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from retrofit.check.files import uses_library
from retrofit.check.finding import Checked, Finding, Replacement, Wanted
from retrofit.check.pattern import launcher_findings, pattern_findings
from retrofit.check.places import located
from retrofit.check.settings import Settings
from retrofit.check.suppressions import Suppression, find_suppressions, unused
from retrofit.edits import Edit
from retrofit.errors import EngineError, UserError
from retrofit.evaluate import Evaluator, Found
from retrofit.habits.file import TrainingFile
from retrofit.knowledge import Knowledge, load_knowledge
from retrofit.proof import prove
from retrofit.rewrite import rewrite
from retrofit.rules import Recipe, Rule, load_recipe
from retrofit.rules_folder import rules_folder
from retrofit.source import Source
from retrofit.survey.index import Index
from retrofit.text import is_deep, too_deep, whole_lines

#: A fix may bring another finding about; more rounds than this are a circle.
_ROUNDS = 10
#: Kinds of sites that no finder finds: they come of what the other rules say.
_SPECIAL = ("suppression", "open-question")
_FIND_ONLY = Wanted()


class Checker:
    """Asks the rules in `rules/ddp` about files."""

    def __init__(self, folder: Path | None = None) -> None:
        self._recipe: Recipe = load_recipe(folder or rules_folder() / "ddp")

    @cached_property
    def _evaluator(self) -> Evaluator:
        return Evaluator(self._recipe, {})

    def check(
        self,
        path: Path,
        shown: str,
        data: bytes,
        settings: Settings,
        wanted: Wanted = _FIND_ONLY,
        knowledge: Knowledge | None = None,
    ) -> Checked:
        """Return what a file's check says.

        Args:
            path: the file's real path; nothing is read from or written to it here.
            shown: how messages name it.
            data: its bytes.
            knowledge: what is known of libraries, None for what comes with the program and what the settings name.
        """
        try:
            knowledge = knowledge or load_knowledge(settings.knowledge)
            source = Source(path, data, shown)
        except UserError as error:
            return Checked(problem=error.problems[0])
        try:
            repaired: list[str] = []
            for _ in range(_ROUNDS if wanted.fixes else 0):
                text, codes = self._fixed(source, settings, wanted.fixes, knowledge)
                if text == source.text:
                    break
                repaired += codes
                source = Source(path, source.encode(text), shown)
            findings = self._findings(source, settings, wanted.replacements, knowledge)
        except UserError as error:
            return Checked(problem=error.problems[0])
        except RecursionError:
            if not is_deep(source.text):
                raise
            return Checked(problem=too_deep(source.text, shown, "checked"))
        return Checked(tuple(findings), None, source.data if source.data != data else None, tuple(repaired))

    def _rules(self, settings: Settings, path: Path) -> list[Rule]:
        return [rule for rule in self._recipe.rules if settings.want(rule.code, rule.name, path)]

    def _candidates(
        self, source: Source, settings: Settings, knowledge: Knowledge
    ) -> tuple[TrainingFile, list[_Candidate]]:
        """Return what is to be reported of a file: what is found and not silenced, and what silences nothing."""
        history = self._recipe.history if uses_library(source.data) else None  # which takes its time to load
        file = TrainingFile(Index(source, knowledge=knowledge), history, self._recipe.module_functions)
        rules = self._rules(settings, source.path)
        ddp = [rule for rule in rules if rule.site not in _SPECIAL]
        found = [_candidate(source, one, settings) for one in self._evaluator.found(file, ddp)]
        if file.wrappers and file.sites("perforation"):
            unsettled = next((rule for rule in rules if rule.site == "open-question"), None)
            found += [
                _Candidate(replace(one, level=settings.level(one.code, one.name, one.level)))
                for one in pattern_findings(source, unsettled if file.trains else None, settings.knowledge)
                if settings.want(one.code, one.name, source.path)
            ]
        suppressions = find_suppressions(source.text)
        heard = []
        for one in found:
            lines = range(one.finding.line, one.finding.end_line + 1)
            silencing = [s for s in suppressions if s.line in lines and s.silences(one.finding.code)]
            for suppression in silencing:
                suppression.used.add(one.finding.code)
            if not silencing:
                heard.append(one)
        enabled = {rule.code for rule in rules}
        for rule in (rule for rule in rules if rule.site == "suppression"):
            heard += [_unused(source, rule, settings, *one) for one in unused(suppressions, enabled)]
        heard.sort(key=lambda one: (one.finding.line, one.finding.column, one.finding.code))
        for rule in (rule for rule in rules if rule.site == "restart-loop" and uses_library(source.data)):
            level = settings.level(rule.code, rule.name, rule.level)
            heard += [_Candidate(one) for one in launcher_findings(source, replace(rule, level=level))]
        return file, heard

    def _findings(self, source: Source, settings: Settings, replacements: bool, knowledge: Knowledge) -> list[Finding]:
        file, candidates = self._candidates(source, settings, knowledge)
        if not replacements:
            return [one.finding for one in candidates]
        found = []
        for one in candidates:
            changes = one.finding.replacements
            fix = one.finding.fix
            if one.edits:
                try:
                    changes = tuple(_replacements(source.text, _rewritten(file, one.edits)))
                except (EngineError, UserError):
                    fix = ""
            found.append(replace(one.finding, fix=fix, replacements=changes))
        return found

    def _fixed(
        self, source: Source, settings: Settings, kinds: frozenset[str], knowledge: Knowledge
    ) -> tuple[str, list[str]]:
        """Return a file's text after as many fixes as go together, and the codes of what they repair."""
        file, candidates = self._candidates(source, settings, knowledge)
        edits: list[Edit] = []
        text = source.text
        codes = []
        for one in candidates:
            if one.finding.fix in kinds and one.edits:
                try:
                    text = _rewritten(file, [*edits, *one.edits])
                except (EngineError, UserError):
                    continue
                edits += one.edits
                codes.append(one.finding.code)
        if not codes:  # comments, whose lines no other fix may have moved
            for one in reversed(candidates):
                if one.finding.fix in kinds and one.finding.replacements:
                    text = _replaced(text, one.finding.replacements)
                    codes.append(one.finding.code)
        return text, codes


@dataclass(frozen=True)
class _Candidate:
    """A finding before it is known whether a comment silences it.

    Attributes:
        edits: the changes that repair it.
    """

    finding: Finding
    edits: tuple[Edit, ...] = ()


def _candidate(source: Source, one: Found, settings: Settings) -> _Candidate:
    rule = one.rule
    level = one.level if one.level != rule.level else settings.level(rule.code, rule.name, rule.level)
    finding = Finding(
        file=source.shown,
        **located(source, *source.span(one.place)),
        code=rule.code,
        name=rule.name,
        level=level,
        message=one.message,
        fix=rule.fix if one.edits else "",
    )
    return _Candidate(finding, one.edits)


def _unused(source: Source, rule: Rule, settings: Settings, comment: Suppression, code: str, why: str) -> _Candidate:
    line = whole_lines(source.text)[comment.line - 1]
    end = comment.column + len(comment.text)
    finding = Finding(
        file=source.shown,
        line=comment.line,
        column=comment.column,
        end_line=comment.line,
        end_column=end,
        excerpt=(line.rstrip("\r\n"),),
        code=rule.code,
        name=rule.name,
        level=settings.level(rule.code, rule.name, rule.level),
        message=why,
        fix=rule.fix,
        replacements=(comment.without(code, line),),
    )
    return _Candidate(finding)


def _rewritten(file: TrainingFile, edits: Sequence[Edit]) -> str:
    """Return a file's text with ``edits`` applied and proven; an import that several ask for comes once."""
    once = list({(edit.kind, edit.node, edit.text): edit for edit in edits}.values())
    text = rewrite(file.index, once)
    prove(file.index.entry.source, once, text)
    return text


def _replacements(before: str, after: str) -> Iterator[Replacement]:
    """Yield the lines by which two texts differ."""
    old, new = whole_lines(before), whole_lines(after)
    for kind, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            yield Replacement(a + 1, b, "".join(new[c:d]))


def _replaced(text: str, replacements: Sequence[Replacement]) -> str:
    lines = whole_lines(text)
    for change in reversed(replacements):
        lines[change.first - 1 : change.last] = [change.text]
    return "".join(lines)
