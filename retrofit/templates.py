"""Jinja2 as rules may use it: a rule is data, so it reads what the sites say of a script, and can do nothing else.

It runs in Jinja2's sandbox. Names are those that it is given, filters those of `FILTERS`, attributes the public ones of
sites that are sites or plain values again, and of plain values `METHODS`. Anything else is a mistake of the rule.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from types import BuiltinMethodType, MethodType
from typing import Any

from jinja2 import StrictUndefined
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS as _KNOWN
from jinja2.runtime import LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from retrofit.habits.file import TrainingFile
from retrofit.survey.scopes import File
from retrofit.survey.sites.base import Site

_PLAIN = (type(None), bool, int, float, str, list, tuple, dict, set, frozenset)
#: What rules may ask, and what may be the answer: of a file they only see whether it is the same.
_ASKED = (Site, TrainingFile)
_ANSWERS = (*_PLAIN, *_ASKED, File)
#: What may be called of texts, lists and dicts.
METHODS = frozenset(
    {
        "count", "endswith", "get", "isalnum", "isalpha", "isdigit", "isidentifier", "items", "keys", "lower",
        "lstrip", "partition", "removeprefix", "removesuffix", "rpartition", "rsplit", "rstrip", "split",
        "splitlines", "startswith", "strip", "upper", "values",
    }
)  # fmt: skip
#: Longer texts and lists than this are no code that a rule writes.
_LONGEST = 100_000


def _repr(value: object) -> str:
    if not isinstance(value, _PLAIN):
        raise SecurityError(f"repr is for plain values, not for a {type(value).__name__}")
    return repr(value)


def _quote(value: str) -> str:
    """Return a value as one word of a shell script."""
    return shlex.quote(value)


#: The filters that templates and conditions may use; `repr` writes Python, `quote` shell.
FILTERS: Mapping[str, Any] = {
    **{
        name: _KNOWN[name]
        for name in (
            "abs", "capitalize", "default", "first", "groupby", "indent", "int", "join", "last", "length", "list",
            "lower", "map", "max", "min", "reject", "rejectattr", "replace", "reverse", "select", "selectattr", "sort",
            "sum", "trim", "unique", "upper",
        )
    },
    "repr": _repr,
    "quote": _quote,
}  # fmt: skip


class RuleEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox in which conditions and templates of rules are worked out."""

    intercepted_binops = frozenset({"*", "**"})

    def __init__(self, **chosen: Any) -> None:
        super().__init__(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False, **chosen)
        self.globals.clear()
        self.filters = dict(FILTERS)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a rule may read an attribute."""
        if isinstance(obj, _ASKED):
            return not attr.startswith("_") and isinstance(value, (*_ANSWERS, MethodType))
        if isinstance(obj, _PLAIN):
            return attr in METHODS
        return isinstance(obj, LoopContext) and super().is_safe_attribute(obj, attr, value)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        """Refuse what a rule may not read at once, whatever it would do with it."""
        raise SecurityError(f"{attribute!r} of a {type(obj).__name__} is not for rules")

    def is_safe_callable(self, obj: Any) -> bool:
        """Whether a rule may call something: what sites can be asked, and the methods of plain values."""
        if isinstance(obj, MethodType):
            return isinstance(obj.__self__, (*_ASKED, LoopContext))
        return isinstance(obj, (Macro, BuiltinMethodType))  # those of plain values, for others cannot be reached

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Multiply what does not get too long by it; nothing else is intercepted."""
        sizes = [len(one) if isinstance(one, (str, list, tuple)) else one for one in (left, right)]
        if operator == "**" or (sizes != [left, right] and sizes[0] * sizes[1] > _LONGEST):
            raise SecurityError(f"{operator} makes too much of it")
        return super().call_binop(context, operator, left, right)
