"""Load rules from TOML files.

A rule says at which kind of site it works, when, and what it changes (`edits`), asks (`asks`) or remarks (`notes`), or
what `retrofit check` reports there (`message`). Conditions are Jinja2 expressions and code is written as Jinja2
templates, both over the sites of the survey.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from retrofit.edits import KINDS
from retrofit.errors import Problem, UserError
from retrofit.habits.kinds import KINDS as HABITS
from retrofit.history import History, load_history
from retrofit.survey.blocks import NO_SIGNS, Signs
from retrofit.survey.blocks import Kind as BlockKind
from retrofit.survey.sites.script import SITE_KINDS
from retrofit.toml import read_toml

#: The kinds of sites at which rules work.
SITES = frozenset({"script", "epoch-loop", "edited-file", *SITE_KINDS, *HABITS, "suppression", "open-question"})

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
        last: for `guard`, the site's anchor up to which the code goes around, "" for the one statement; for
            `add-import`, the anchor that it has to come before, where the site has it.
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
        skip: of a question, sites that may have nothing to do with the training, as an expression for a list of them,
            and of lists where several go together; "" for none.
    """

    when: str
    message: str
    at: str = ""
    skip: str = ""


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
        asked: "first" where its questions take the place of those of earlier stages, which are of no use then; "last"
            where they come when those of other rules are answered.
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
    asked: str = ""
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
        names = [path.stem for path in (self.folder / self.helper).glob("*.py")] if self.helper else []
        return _sources(self.folder / self.helper, names)

    @cached_property
    def launcher_sources(self) -> dict[str, str]:
        """The same of the launcher's modules, of which the last one is the program."""
        return _sources(self.folder / self.helper / "nodes", ["launcher"])

    @cached_property
    def provided(self) -> frozenset[str]:
        """The full names of the functions in the helper package."""
        names = re.findall(r"^def (\w+)", "\n".join(self.helper_sources.values()), re.MULTILINE)
        return frozenset(f"{self.helper}.{name}" for name in names)


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


def _sources(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the texts of modules and of those in their folder that they import, each after what it imports."""
    texts: dict[str, str] = {}
    needs: dict[str, list[str]] = {}
    left = sorted(names)
    for name in left:  # which grows
        texts[name] = (folder / f"{name}.py").read_text(encoding="utf-8")
        imported = sorted(set(re.findall(r"^from \.?(\w+) import", texts[name], re.MULTILINE)))
        needs[name] = [module for module in imported if (folder / f"{module}.py").exists()]
        left += [module for module in needs[name] if module not in left]
    return {name: texts[name] for name in TopologicalSorter(needs).static_order()}


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
    return site in SITES or site.startswith("call:") or not site
