"""The words that a rule may use: every kind of site, and every property of each, as the code defines them."""

from __future__ import annotations

import inspect
import re
import typing
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import FunctionType

from retrofit.habits.kinds import KINDS as HABITS
from retrofit.habits.sites import Call
from retrofit.survey.sites.base import Site
from retrofit.survey.sites.call import CallSite
from retrofit.survey.sites.file import EditedFile
from retrofit.survey.sites.loop import EpochLoop
from retrofit.survey.sites.script import SITE_KINDS, Script

#: The types of values that rules cannot read.
_KEPT_FROM_RULES = re.compile(r"cst\.|(Statement|Scope|Index|Ranks|Callable|Iterator)\b")


@dataclass(frozen=True)
class Word:
    """A property or method that conditions and templates may use.

    Attributes:
        name: as rules write it, a method with its parameters.
        type: of its value, as the code annotates it.
        meaning: what the code's docstrings say of it; "" where they say nothing.
    """

    name: str
    type: str
    meaning: str


def apply_kinds() -> dict[str, type[Site]]:
    """Return the class of each kind of site that rules of `retrofit apply` name."""
    fields = typing.get_type_hints(Script)
    found: dict[str, type[Site]] = {"script": Script}
    for kind in SITE_KINDS:
        many = f"{kind.replace('-', '_')}s"
        listed = fields[many] if many in fields else _returned(getattr(Script, many).fget)
        found[kind] = typing.get_args(listed)[0]
    return {**found, "epoch-loop": EpochLoop, "edited-file": EditedFile, "call:NAME": CallSite}


def check_kinds() -> dict[str, type[Site]]:
    """Return the class of each kind of site that rules of `retrofit check` name."""
    found: dict[str, type[Site]] = {}
    for kind, module in HABITS.items():
        finder = getattr(import_module(f"retrofit.habits.{module}"), f"find_{kind.replace('-', '_')}s")
        found[kind] = typing.get_args(_returned(finder))[0]
    return {**found, "call:NAME": Call}


def _returned(function: FunctionType) -> object:
    return typing.get_type_hints(function)["return"]


def layers(kinds: dict[str, type[Site]]) -> dict[str, list[type]]:
    """Return, for each kind of site, the classes that define its words, its own one first, without `Site` itself."""
    return {
        kind: [part for part in cls.__mro__ if issubclass(part, Site) and part is not Site]
        for kind, cls in kinds.items()
    }


def shared(kinds: dict[str, type[Site]]) -> list[type]:
    """Return the classes whose words several kinds of sites have, those nearest to `Site` first."""
    counts = Counter(part for parts in layers(kinds).values() for part in parts)
    return sorted((part for part, count in counts.items() if count > 1), key=lambda part: len(part.__mro__))


def words_of(cls: type) -> list[Word]:
    """Return the words for rules that a class itself defines, in the order of the code.

    Left out is what the sandbox of `retrofit.templates` keeps from rules: nodes of the tree and parts of the index.
    What the class only gives another value, without a docstring of its own, is a word of its base class.
    """
    names = [name for name in {**inspect.get_annotations(cls), **vars(cls)} if not name.startswith("_")]
    inherited = {name for base in cls.__mro__[1:] for name in (*inspect.get_annotations(base), *vars(base))}
    words = [word for name in names if (word := _word(cls, name)).meaning or name not in inherited]
    return [word for word in words if not _KEPT_FROM_RULES.match(word.type)]


def _word(cls: type, name: str) -> Word:
    annotation = inspect.get_annotations(cls).get(name)
    meaning = described(cls).get(name, "")
    if annotation is not None:
        return Word(name, annotation, meaning)
    member = vars(cls)[name]
    function: FunctionType = getattr(member, "fget", getattr(member, "func", member))
    meaning = meaning or " ".join(inspect.cleandoc(function.__doc__ or "").split("\n\n")[0].split())
    signature = inspect.signature(function)
    if not isinstance(member, (property, cached_property)):
        parameters = [str(one.replace(annotation=one.empty)) for one in list(signature.parameters.values())[1:]]
        name = f"{name}({', '.join(parameters)})"
    return Word(name, signature.return_annotation, meaning)


def described(cls: type) -> dict[str, str]:
    """Return what the list of attributes in a class's docstring says, by name."""
    listed = inspect.cleandoc(cls.__doc__ or "").partition("Attributes:\n")[2].partition("\n\n")[0]
    found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", listed, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def introduction(cls: type) -> str:
    """Return what a class's docstring says before it lists attributes."""
    text = inspect.cleandoc(cls.__doc__ or "").partition("Attributes:\n")[0]
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n")).strip()
