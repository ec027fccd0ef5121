"""What calls make whose class a file of settings names: `hydra.utils.instantiate(cfg.agent)`."""

from __future__ import annotations

from pathlib import PurePath

import libcst as cst

from retrofit.knowledge.kinds import MakesConfigured, ReadsCommandLine
from retrofit.survey.index import Index
from retrofit.survey.nodes import argument, key_of
from retrofit.survey.scopes import Scope


def configured_calls(index: Index) -> list[cst.Call]:
    """Return the calls that make what a file of settings names."""
    made = index.knowledge.named(MakesConfigured)
    return [call for call in index.calls_to(*made) if call.args and not call.args[0].star]


def configured(index: Index) -> dict[cst.BaseExpression, Scope | None]:
    """Return what such a call runs, by what it calls, where the files name just one: None for none of the project's.

    Those count that stand under the key that the call names, or any of the project's where it names none, and of them
    the ones in the file that the script reads, or in those that this one takes by default, if there are any.
    """
    found: dict[cst.BaseExpression, Scope | None] = {}
    read = _files_read(index) if index.settings.targets else set()
    taken = _taken(index, read)
    for call in configured_calls(index) if index.settings.targets else ():
        key = _key(call.args[0].value)
        under = [one for one in index.settings.targets if (key == one.key if key else index.at(one.name))]
        chosen = [one for one in under if one.file in read] or [one for one in under if (one.key, one.file) in taken]
        names = {one.name for one in chosen or under}
        if len(names) == 1:
            found[call.func] = index.at(names.pop())
    return found


def _files_read(index: Index) -> set[str]:
    """Return the names of the files of settings that the script says it reads, without their endings."""
    readers = index.knowledge.named(ReadsCommandLine)
    given = [argument(call, readers[index.qualified(call.func)].settings) for call in index.calls_to(*readers)]
    return {PurePath(str(one.evaluated_value)).stem for one in given if isinstance(one, cst.SimpleString)}


def _taken(index: Index, read: set[str]) -> set[tuple[str, str]]:
    """Return what files take of groups of others by default, and what these take, as where they override a choice."""
    taken: set[tuple[str, str]] = set()
    waiting = [*read]
    for file in waiting:  # which become more
        chosen = index.settings.chosen.get(file, ())
        taken.update(one for one in chosen if one[0])
        waiting += {name for _, name in chosen} - {*waiting}
    return taken


def _key(node: cst.BaseExpression) -> str:
    """Return the key by which settings are taken out of others, "" for a name that may be any of them."""
    if isinstance(node, cst.Attribute):
        return node.attr.value
    key = key_of(node) or ""
    return "" if key.isdecimal() else key[1:-1]
