"""What a project's files of settings say: values, and the classes of which the script makes objects, as in hydra."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from retrofit.late_imports import data_files

#: What a file holds that may read settings so, for the files of settings of most projects are not even looked for.
MAY_BE_CONFIGURED = re.compile(rb"\bhydra\b")
#: A key of a YAML file with its value, as far as one stands beside it.
_KEY = re.compile(r"^( *)([\w.]+):(?:[ \t]+(\S.*?))?[ \t]*\r?$", re.MULTILINE)
#: Any key, also within braces.
_ANY_KEY = re.compile(r"([\w.]+)(?:[\"'][ \t]*:|[ \t]*:(?=\s|$))", re.MULTILINE)
_COMMENT = re.compile(r"(^|\s)#[^\n]*")
#: What a file takes of groups of files, by hydra's documentation: `defaults:`, and `- trainer: ddp` below.
_DEFAULTS = re.compile(r"^defaults:[ \t]*\r?\n((?:[ \t]*(?:-[^\n]*)?\r?\n)*)", re.MULTILINE)
_CHOSEN = re.compile(
    r"-[ \t]+(?:(?:override|optional)[ \t]+)*(?:[\w/]*?(\w+)(?:@[\w.]+)?:[ \t]+)?"
    r"[\"']?([\w./-]+?)(?:\.ya?ml)?[\"']?[ \t]*\r?$",
    re.MULTILINE,
)
_REFERENCE = re.compile(r"\$\{([\w.]+)\}")
#: Words that are no text in YAML, in small letters.
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False, "null": None, "~": None}


class Target(NamedTuple):
    """A class, or a function, that a file of settings names.

    Attributes:
        file: the file's name, without its ending.
        key: the key under which the settings stand, for those of a whole file the folder's.
        name: its full name.
    """

    file: str
    key: str
    name: str


class Settings(NamedTuple):
    """What files of settings say.

    Attributes:
        targets: the classes and functions that they name as `_target_`, but for what is only prepared to be made.
        values: by their last keys, the values that they give, each with the keys and the folder that hold it; None
            where one of them is not plain.
        chosen: by the names of files, the groups of others, with the one that they take of each by default; "" for the
            group of one that stands beside them.
    """

    targets: Sequence[Target] = ()
    values: Mapping[str, list[tuple[tuple[str, ...], object]] | None] = MappingProxyType({})
    chosen: Mapping[str, Sequence[tuple[str, str]]] = MappingProxyType({})


NO_SETTINGS = Settings()


def read_settings(root: Path) -> Settings:
    """Read a project's YAML files.

    Args:
        root: the project's folder.
    """
    targets: list[Target] = []
    given: dict[str, list[tuple[tuple[str, ...], object]] | None] = {}
    chosen: dict[str, list[tuple[str, str]]] = {}
    for path, data in data_files(root, (".yaml", ".yml")):
        around = [(-1, path.parent.name)]  # the keys that hold what is read, with their indentation
        values: dict[tuple[str, ...], str] = {}
        text = _COMMENT.sub("", data.decode(errors="replace"))
        found = _KEY.findall(text)
        chosen.setdefault(path.stem, []).extend(_CHOSEN.findall("".join(_DEFAULTS.findall(f"{text}\n"))))
        unread = Counter(_ANY_KEY.findall(text)) - Counter(name for _, name, _ in found)
        given.update(dict.fromkeys(unread))
        for indentation, key, value in found:
            while around[-1][0] >= len(indentation):
                around.pop()
            around.append((len(indentation), key))
            way = tuple(name for _, name in around)
            values[way] = value
            known, read = given.get(key, []), _plain(value)
            given[key] = None if known is None or read is None else [*known, *((way[:-1], one) for one in read)]
        for (*holders, key), value in values.items():
            if key == "_target_" and (*holders, "_partial_") not in values:
                reference = _REFERENCE.fullmatch(value)
                named = (path.parent.name, *reference[1].split(".")) if reference else ()
                targets.append(Target(path.stem, holders[-1], values.get(named, value).strip("\"'")))
    return Settings(targets, given, chosen)


def _plain(value: str) -> list[object] | None:
    """Return what is written as a YAML file's value; None where it is no plain one, or refers to another."""
    if not value or value[0] in "[{&*!|>" or "${" in value:
        return None
    if value.lower() in _WORDS:
        return [_WORDS[value.lower()]]
    try:
        return [ast.literal_eval(value)]
    except (ValueError, SyntaxError):
        return [value]
