"""Load rules from TOML files, and ask each about each site.

A rule says at which kind of site it works, when, and what it changes (`edits`), asks (`asks`) or remarks (`notes`), or
what `retrofit check` reports there (`message`). Conditions are Jinja2 expressions and code is written as Jinja2
templates, both over the sites of the survey.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import libcst as cst

from retrofit.edits import KINDS, ORIGINAL, Edit, Kind
from retrofit.errors import Problem, UserError, shown_path
from retrofit.habits.kinds import KINDS as HABITS
from retrofit.history import History, load_history
from retrofit.survey.blocks import NO_SIGNS, Signs
from retrofit.survey.blocks import Kind as BlockKind
from retrofit.survey.index import File
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.file import EditedFile
from retrofit.survey.sites.script import SITE_KINDS, Script
from retrofit.toml import read_toml

if TYPE_CHECKING:
    from jinja2 import Environment, Template
    from jinja2.environment import TemplateExpression

    from retrofit.habits.file import TrainingFile

_SITES = frozenset({"script", "epoch-loop", "edited-file", *SITE_KINDS, *HABITS, "suppression", "open-question"})


#: One after the other: the rules of each see a script as those before it leave it, which are asked until they change
#: nothing any more.
STAGES = ("history", "first", "")


@dataclass(frozen=True)
class Change:
    """One edit that a rule makes.

    Attributes:
        kind: what to do; a Jinja2 template where it depends on the site.
        template: the code, as a Jinja2 template; empty for `remove`.
        when: a further condition for this edit alone.
        at: the site's anchor that it is about, "" for the statement that holds the site.
        site: the kind of site that it is made at, whatever the rule's own condition; "" for the rule's own sites.
        last: for `guard`, the site's anchor up to which the code goes around, "" for the one statement.
    """

    kind: str
    template: str
    when: str = "true"
    at: str = ""
    site: str = ""
    last: str = ""


@dataclass(frozen=True)
class Remark:
    """A question that keeps a script from being rewritten, or a note that does not.

    Attributes:
        when: the condition under which it is raised.
        message: what was seen and what answers it, as a Jinja2 template.
        at: a site to point at, as an expression, "" for the rule's own site.
    """

    when: str
    message: str
    at: str = ""


@dataclass(frozen=True)
class Example:
    """Code that shows a rule, and tests it.

    Attributes:
        bad: code in which the rule finds something, "" for none.
        fixed: the same after the rule's fix, "" where it has none.
        good: code in which it finds nothing, "" for none.
    """

    bad: str = ""
    fixed: str = ""
    good: str = ""


@dataclass(frozen=True)
class Rule:
    """A rule as its TOML file says it.

    Attributes:
        path: the file, None for a rule that comes from none.
        level: of what `retrofit check` finds by it, one of its levels; "" where check leaves it out.
        message: what a finding says, as a Jinja2 template.
        at: the site's anchor that a finding points at, "" for the site itself.
        unsure: a condition under which a finding depends on code that cannot be seen, and is advice only.
        fix: "safe" or "unsafe" where its changes repair what was found, "" where it has none.
        stage: "history" where all other rules see the script as its changes leave it, "first" where all but those do.
    """

    code: str
    name: str
    title: str
    site: str
    when: str
    why: str
    source: str
    level: str = ""
    message: str = ""
    at: str = ""
    unsure: str = "false"
    fix: str = ""
    stage: str = ""
    changes: tuple[Change, ...] = ()
    asks: tuple[Remark, ...] = ()
    notes: tuple[Remark, ...] = ()
    examples: tuple[Example, ...] = ()
    path: Path | None = None


@dataclass(frozen=True)
class Output:
    """A file that the recipe puts beside the script.

    Attributes:
        path: its name.
        template: the file in the rules folder that it is made from.
        when: the condition under which it is wanted.
        executable: whether it may be run.
        launcher: whether it is the launch script.
    """

    path: str
    template: str
    when: str = "true"
    executable: bool = False
    launcher: bool = False


@dataclass(frozen=True)
class Recipe:
    """A folder of rules with what they share.

    Attributes:
        folder: where it is.
        rules: in the order of their codes.
        imports: names that templates print, with the module each stands for, which may be imported as another name.
        values: further names for templates, as Jinja2 expressions, worked out in order.
        site_values: the same for names that depend on the site.
        module_functions: qualified names of functions that return the module they are given.
        handover: qualified names of functions by which a script gives its optimizer to the library.
        signs: what tells what a script has in the place of what the recipe writes.
        settings: (code of the default, what it is for) of each setting of the library that a user may choose, by its
            name.
        helper: the name of the package of the folder that is put beside the script, "" for none.
        outputs: files put beside the script, those of the helper first.
        next_steps: what to tell the user after an apply, as a Jinja2 template.
        extra: the user's own folder of further rules, None for none.
        history_folder: where the history of the library is that the rules are about, None for none.
    """

    folder: Path
    rules: tuple[Rule, ...]
    imports: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    site_values: Mapping[str, str] = field(default_factory=dict)
    module_functions: frozenset[str] = frozenset()
    handover: frozenset[str] = frozenset()
    signs: Signs = NO_SIGNS
    helper: str = ""
    settings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    outputs: tuple[Output, ...] = ()
    next_steps: str = ""
    extra: Path | None = None
    history_folder: Path | None = None

    @cached_property
    def history(self) -> History | None:
        """What the releases of the library have that the rules are about."""
        return None if self.history_folder is None else load_history(self.history_folder)

    @cached_property
    def titles(self) -> dict[str, str]:
        """The titles of the rules by their codes."""
        return {rule.code: rule.title for rule in self.rules}

    @cached_property
    def helper_sources(self) -> dict[str, str]:
        """The texts of the helper package's modules, by their names, each after those that it imports."""
        files = (self.folder / self.helper).glob("*.py") if self.helper else ()
        texts = {path.stem: path.read_text(encoding="utf-8") for path in files}
        needs = {name: set(re.findall(r"^from \.(\w+) import", text, re.MULTILINE)) for name, text in texts.items()}
        return {name: texts[name] for name in TopologicalSorter(dict(sorted(needs.items()))).static_order()}

    @cached_property
    def provided(self) -> frozenset[str]:
        """The full names of the functions in the helper package."""
        names = re.findall(r"^def (\w+)", "\n".join(self.helper_sources.values()), re.MULTILINE)
        return frozenset(f"{self.helper}.{name}" for name in names)


@dataclass(frozen=True)
class Outcome:
    """What a recipe says of a script.

    Attributes:
        edits: the changes, in the order of the rules.
        questions: what has to be answered first.
        notes: what the user should know.
    """

    edits: list[Edit]
    questions: list[Problem]
    notes: list[Problem]


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


def load_recipe(folder: Path, extra: Path | None = None) -> Recipe:
    """Load a folder of rules.

    Args:
        folder: holds recipe.toml and one TOML file a rule, which are read once in a process.
        extra: a folder of further rules; a rule with a known code takes its place.

    Raises:
        UserError: a file is no valid TOML or no valid rule.
    """
    rules = {rule.code: rule for rule in _own_rules(folder)}
    if extra is not None:
        if not extra.is_dir():
            raise UserError(Problem(str(extra), 0, 0, "RF007", "is no folder of rules. Give --rules a folder."))
        rules.update({rule.code: rule for rule in _load_rules(extra)})
    shared = read_toml(folder / "recipe.toml", "RF007")
    return Recipe(
        folder=folder,
        rules=tuple(rules[code] for code in sorted(rules)),
        imports=shared.get("imports", {}),
        values=shared.get("values", {}),
        site_values=shared.get("site_values", {}),
        module_functions=frozenset(shared.get("module_functions", ())),
        handover=frozenset(shared.get("handover", ())),
        signs=_signs(shared.get("blocks", {})),
        settings=shared.get("settings", {}),
        helper=shared.get("helper", ""),
        outputs=(
            *_helper_outputs(folder, shared.get("helper", "")),
            *(Output(**output) for output in shared.get("outputs", ())),
        ),
        next_steps=shared.get("next_steps", ""),
        extra=extra,
        history_folder=folder / shared["history"] if "history" in shared else None,
    )


def _signs(blocks: dict[str, Any]) -> Signs:
    """Return what `[blocks]` of a recipe says: its kinds are the tables in it."""
    kinds = {name: BlockKind(**value) for name, value in blocks.items() if isinstance(value, dict)}
    return Signs(kinds, **{name: value for name, value in blocks.items() if name not in kinds})


def _helper_outputs(folder: Path, helper: str) -> Iterator[Output]:
    for path in sorted((folder / helper).rglob("*.py")) if helper else ():
        name = path.relative_to(folder).as_posix()
        yield Output(name, name, when="not inlined")


@cache
def _own_rules(folder: Path) -> tuple[Rule, ...]:
    return tuple(_load_rules(folder))


def _load_rules(folder: Path) -> Iterator[Rule]:
    known: dict[str, Path] = {}
    for path in sorted(folder.glob("*.toml")):
        if path.name != "recipe.toml":
            rule = _rule(path)
            other = known.setdefault(rule.code, path)
            if other is not path:
                message = f"has the code {rule.code}, as {other.name} has. Give it one of its own."
                raise UserError(Problem(str(path), 0, 0, "RF007", message))
            yield rule


def _rule(path: Path) -> Rule:
    data = read_toml(path, "RF007")
    try:
        changes = data.pop("edits", [])
        if "edit" in data:
            changes = [{"edit": data.pop("edit"), "template": data.pop("template", ""), "at": data.pop("at", "")}]
        rule = Rule(
            changes=tuple(Change(kind=change.pop("edit"), **{"template": "", **change}) for change in changes),
            asks=tuple(Remark(**ask) for ask in data.pop("asks", [])),
            notes=tuple(Remark(**note) for note in data.pop("notes", [])),
            examples=tuple(Example(**example) for example in data.pop("examples", [])),
            path=path,
            **{"when": "true", **data},
        )
        _expect_texts(rule, *rule.changes, *rule.asks, *rule.notes, *rule.examples)
    except (TypeError, KeyError, AttributeError) as error:
        raise UserError(Problem(str(path), 0, 0, "RF007", f"is no valid rule: {error}")) from None
    unknown = [change.kind for change in rule.changes if change.kind not in KINDS and "{{" not in change.kind]
    unknown += [site for site in (rule.site, *(c.site for c in rule.changes)) if not _known_site(site)]
    if unknown:
        raise UserError(Problem(str(path), 0, 0, "RF007", f"names an unknown edit or site: {', '.join(unknown)}"))
    return rule


def _expect_texts(*parts: Rule | Change | Remark | Example) -> None:
    """Raise where a part of a rule has something else than a text where a text should be."""
    for key, value in (item for part in parts for item in vars(part).items()):
        if not isinstance(value, (str, tuple, Path)):
            raise TypeError(f"{key} is {value!r:.40}, and should be a text")


def _known_site(site: str) -> bool:
    return site in _SITES or site.startswith("call:") or not site


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
            if found.questions or found.edits:
                return Outcome(found.edits, found.questions, notes)
        return Outcome([], [], notes)

    def outcome(self, script: Script, stage: str = "") -> Outcome:
        """Return everything that the recipe's rules of one stage say of a script."""
        rules = [rule for rule in self._recipe.rules if rule.stage == stage]
        with _naming(None):
            shared = {file: self.context(script, file) for file in script.index.files}
        named = {kind: [site for other, site in script.sites() if other == kind] for kind in _SITES - HABITS.keys()}
        asked = {site for rule in rules for site in (rule.site, *(change.site for change in rule.changes))}
        named.update((kind, list(self._habits(script).sites(kind))) for kind in asked & HABITS.keys())
        edits: dict[Rule, list[Edit]] = {rule: [] for rule in rules}
        questions: list[Problem] = []
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
                for site, names in own[rule]:
                    questions += self._remarks(rule, rule.asks, site, names)
        if questions:
            return Outcome([], questions, notes)
        for last in (False, True):  # what is said of edited files comes when all others are known
            if last:
                made = [edit for ordered in edits.values() for edit in ordered]
                named["edited-file"] = _edited_files(script, made, self._recipe.imports)
            for rule in rules:
                with _naming(rule):
                    if last == (rule.site == "edited-file"):
                        own[rule] = matching(rule) if last else own[rule]
                        for site, names in own[rule]:
                            notes += self._remarks(rule, rule.notes, site, names)
                    for change in rule.changes:
                        if last != ("edited-file" in (rule.site, change.site)):
                            continue
                        for site, names in at(change.site) if change.site else own[rule]:
                            if self.evaluate(change.when, names):
                                edits[rule].append(self._edit(rule, change, site, names))
        return Outcome([edit for ordered in edits.values() for edit in ordered], questions, notes)

    def _habits(self, script: Script) -> TrainingFile:
        """Return the whole of a project as the rules of `retrofit check` see one file."""
        if self._seen is None or self._seen.index is not script.index:
            from retrofit.habits.file import TrainingFile

            recipe, source = self._recipe, script.index.entry.source
            self._seen = TrainingFile(source, recipe.history, recipe.module_functions, script.index)
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
        node = site.file.source.module if kind == "add-import" else site.anchor(change.at)
        last = site.anchor(change.last) if change.last else None
        return Edit(cast(Kind, kind), node, self.render(change.template, names), rule.code, last)

    def _remarks(
        self, rule: Rule, remarks: Iterable[Remark], site: Site, names: Mapping[str, object]
    ) -> Iterator[Problem]:
        for remark in remarks:
            if self.evaluate(remark.when, names):
                place = self.evaluate(remark.at, names) if remark.at else site
                line, column = place.position if isinstance(place, Site) else site.position
                message = " ".join(self.render(remark.message, names).split())
                yield Problem(place.shown if isinstance(place, Site) else site.shown, line, column, rule.code, message)
