"""Ask a recipe's rules about each site of a script or a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, cast

import libcst as cst

from retrofit.edits import KINDS, ORIGINAL, Edit, Kind
from retrofit.errors import Problem, UserError, shown_path
from retrofit.habits.kinds import KINDS as HABITS
from retrofit.rules import SITES, STAGES, Change, Recipe, Remark, Rule
from retrofit.survey.scopes import File
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.file import EditedFile
from retrofit.survey.sites.script import Script

if TYPE_CHECKING:
    from jinja2 import Environment, Template
    from jinja2.environment import TemplateExpression

    from retrofit.habits.file import TrainingFile


@dataclass(frozen=True)
class Outcome:
    """What a recipe says of a script.

    Attributes:
        edits: the changes, in the order of the rules.
        questions: what has to be answered first.
        notes: what the user should know.
        skips: the sites, in groups that go together, which may have nothing to do with the training, by question.
    """

    edits: list[Edit]
    questions: list[Problem]
    notes: list[Problem]
    skips: dict[Problem, list[list[Site]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """What a rule of `retrofit check` finds at a site.

    Attributes:
        place: the node that it is about.
        level: the rule's level, or "advice" where it depends on code that cannot be seen.
        edits: the changes that repair it, none where there is no fix.
    """

    rule: Rule
    place: cst.CSTNode
    message: str
    level: str
    edits: tuple[Edit, ...] = ()


@contextmanager
def _naming(rule: Rule | None) -> Iterator[None]:
    """Say which rule holds a mistake in a condition or a template."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        where = shown_path(rule.path) if rule is not None and rule.path is not None else "recipe.toml"
        name = f"{rule.code} " if rule is not None else ""
        what = " ".join(f"{type(error).__name__}: {error}".split())
        message = f"{name}has a mistake in a condition or template: {what}"
        raise UserError(Problem(where, 0, 0, "RF007", message)) from error


def _edited_files(script: Script, edits: list[Edit], names: Iterable[str]) -> list[Site]:
    """The files that ``edits`` change, or that use one of ``names`` without importing it."""
    index = script.index
    written: dict[File, list[str]] = {file: [] for file in index.files}
    for edit in edits:
        written[index.file(edit.node)].append(edit.text)
    for file, texts in written.items():
        unknown = set(names) - file.scope.names - index.bound_names
        texts += [f"{name}." for name in sorted(unknown) if re.search(rf"\b{name}\.", file.source.read())]
    return [
        EditedFile(
            node=file.source.module,
            index=index,
            entry=file is index.entry,
            written="\n".join(texts),
            neighbours=script.neighbours.get(file.name, ()),
        )
        for file, texts in written.items()
        if texts
    ]


@cache
def _environment() -> Environment:
    from retrofit.templates import RuleEnvironment

    return RuleEnvironment()


@cache
def _expression(text: str) -> TemplateExpression:
    return _environment().compile_expression(text, undefined_to_none=False)


@cache
def _template(text: str) -> Template:
    return _environment().from_string(text)


class Evaluator:
    """Asks a recipe's rules about a script's sites.

    Args:
        recipe: the rules.
        options: what the user chose, for conditions and templates.
        texts: further texts that templates may print, by name.
        adopted: whether the rules of the first stage have changed the script.
    """

    def __init__(
        self,
        recipe: Recipe,
        options: Mapping[str, object],
        texts: Mapping[str, str] | None = None,
        adopted: bool = False,
    ) -> None:
        self._recipe = recipe
        self._options = options
        self._texts = texts or {}
        self._adopted = adopted
        self._seen: TrainingFile | None = None

    @property
    def afresh(self) -> Evaluator:
        """The same for a script that nothing has changed."""
        return Evaluator(self._recipe, self._options, self._texts)

    def context(self, script: Script, file: File | None = None) -> dict[str, object]:
        """Return the names that conditions and templates see at every site of a file.

        Args:
            script: the survey.
            file: the file, by whose imports names are chosen; None for the entry script.
        """
        file = file or script.index.entry
        names: dict[str, object] = {
            "script": script,
            "options": self._options,
            "original": ORIGINAL,
            "adopted": self._adopted,
            **self._texts,
        }
        names.update(self._imported(file))
        for name, expression in self._recipe.values.items():
            names[name] = self.evaluate(expression, names)
        return names

    def _imported(self, file: File) -> dict[str, str]:
        """Return the names that stand for the recipe's modules in a file."""
        return {name: file.imported_as(module) or name for name, module in self._recipe.imports.items()}

    def evaluate(self, expression: str, names: Mapping[str, object]) -> object:
        """Return the value of a Jinja2 expression."""
        return _expression(expression)(**names)

    def render(self, template: str, names: Mapping[str, object]) -> str:
        """Return the text of a Jinja2 template."""
        return _template(template).render(**names) if "{" in template else template

    def first(self, script: Script) -> Outcome:
        """Return what the rules of the first stages say, up to those of a stage that change or ask something."""
        notes: list[Problem] = []
        for stage in STAGES[:-1]:
            found = self.outcome(script, stage)
            notes += found.notes
            if found.questions:
                return Outcome([], self._asked_first(script) or found.questions, notes)
            if found.edits:
                return Outcome(found.edits, [], notes)
        return Outcome([], [], notes)

    def _asked_first(self, script: Script) -> list[Problem]:
        """Return the questions that take the place of those of an earlier stage."""
        rules = tuple(rule for rule in self._recipe.rules if rule.asked == "first")
        asking = Evaluator(replace(self._recipe, rules=rules), self._options, self._texts, self._adopted)
        return asking.outcome(script).questions

    def outcome(self, script: Script, stage: str = "") -> Outcome:
        """Return everything that the recipe's rules of one stage say of a script."""
        rules = [rule for rule in self._recipe.rules if rule.stage == stage]
        with _naming(None):
            shared = {file: self.context(script, file) for file in script.index.files}
        named = {kind: [site for other, site in script.sites() if other == kind] for kind in SITES - HABITS.keys()}
        asked = {site for rule in rules for site in (rule.site, *(change.site for change in rule.changes))}
        named.update((kind, list(self._habits(script).sites(kind))) for kind in asked & HABITS.keys())
        edits: dict[Rule, list[Edit]] = {rule: [] for rule in rules}
        notes: list[Problem] = []

        def at(kind: str) -> Iterator[tuple[Site, dict[str, object]]]:
            calls = script.calls(kind.removeprefix("call:")) if kind.startswith("call:") else []
            return ((site, self._names_at(site, script, shared[site.file])) for site in calls or named.get(kind, []))

        def matching(rule: Rule) -> list[tuple[Site, dict[str, object]]]:
            return [(site, names) for site, names in at(rule.site) if self.evaluate(rule.when, names)]

        own = {}
        for rule in rules:
            with _naming(rule):
                own[rule] = matching(rule)
        skips = self._asked(own)
        if skips:
            return Outcome([], [*skips], notes, skips)
        for last in (False, True):  # what is said of edited files comes when all others are known
            if last:
                made = [edit for ordered in edits.values() for edit in ordered]
                named["edited-file"] = _edited_files(script, made, self._recipe.imports)
            for rule in rules:
                with _naming(rule):
                    if last == (rule.site == "edited-file"):
                        own[rule] = matching(rule) if last else own[rule]
                        for site, names in own[rule]:
                            notes += (note for _, note in self._remarks(rule, rule.notes, site, names))
                    for change in rule.changes:
                        if last != ("edited-file" in (rule.site, change.site)):
                            continue
                        for site, names in at(change.site) if change.site else own[rule]:
                            if self.evaluate(change.when, names):
                                edits[rule].append(self._edit(rule, change, site, names))
        return Outcome([edit for ordered in edits.values() for edit in ordered], [], notes)

    def _asked(self, own: Mapping[Rule, list[tuple[Site, dict[str, object]]]]) -> dict[Problem, list[list[Site]]]:
        """Return what rules ask at their sites, each question with the sites that may have nothing to do with it."""
        found: dict[Problem, list[list[Site]]] = {}
        for rule, places in own.items():
            with _naming(rule):
                for site, names in places:
                    for ask, question in self._remarks(rule, rule.asks, site, names):
                        sites = cast(list[Site | list[Site]], self.evaluate(ask.skip, names)) if ask.skip else []
                        found.setdefault(question, []).extend(x if isinstance(x, list) else [x] for x in sites)
        return found

    def _habits(self, script: Script) -> TrainingFile:
        """Return the whole of a project as the rules of `retrofit check` see one file."""
        if self._seen is None or self._seen.index is not script.index:
            from retrofit.habits.file import TrainingFile

            self._seen = TrainingFile(script.index, self._recipe.history, flow=script.flow)
        return self._seen

    def _names_at(self, site: Site, script: Script, shared: Mapping[str, object]) -> dict[str, object]:
        """Return the names that conditions and templates see at a site."""
        names = {**shared, "site": site}
        if site is not script:
            site.arguments = site.arguments or script.namespace(site)
            for name, expression in self._recipe.site_values.items():
                names[name] = self.evaluate(expression, names)
        return names

    def found(self, file: TrainingFile, rules: Iterable[Rule]) -> Iterator[Found]:
        """Yield what ``rules`` find in a file."""
        with _naming(None):
            shared = {**self._imported(file.index.entry), "file": file, "original": ORIGINAL}
        for rule in rules:
            with _naming(rule):
                for site in file.sites(rule.site):
                    names = {**shared, "site": site}
                    if not self.evaluate(rule.when, names):
                        continue
                    changes = [change for change in rule.changes if self.evaluate(change.when, names)]
                    yield Found(
                        rule=rule,
                        place=site.anchor(rule.at) if rule.at else site.node,
                        message=" ".join(self.render(rule.message, names).split()),
                        level="advice" if self.evaluate(rule.unsure, names) else rule.level,
                        edits=tuple(self._edit(rule, change, site, names) for change in changes),
                    )

    def _edit(self, rule: Rule, change: Change, site: Site, names: Mapping[str, object]) -> Edit:
        kind = self.render(change.kind, names)
        if kind not in KINDS:
            raise ValueError(f"unknown edit {kind!r}")
        importing = kind == "add-import"
        node = site.file.source.module if importing else site.anchor(change.at)
        last = (site.anchors.get(change.last) if importing else site.anchor(change.last)) if change.last else None
        return Edit(cast(Kind, kind), node, self.render(change.template, names), rule.code, last)

    def _remarks(
        self, rule: Rule, remarks: Iterable[Remark], site: Site, names: Mapping[str, object]
    ) -> Iterator[tuple[Remark, Problem]]:
        for remark in remarks:
            if self.evaluate(remark.when, names):
                place = self.evaluate(remark.at, names) if remark.at else site
                line, column = place.position if isinstance(place, Site) else site.position
                message = " ".join(self.render(remark.message, names).split())
                shown = place.shown if isinstance(place, Site) else site.shown
                yield remark, Problem(shown, line, column, rule.code, message)
