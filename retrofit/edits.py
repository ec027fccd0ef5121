"""The closed set of changes that a rule may ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import libcst as cst

#: insert-before, insert-after: new statements beside the anchor, which keep the anchor's own lines as they are.
#: replace: new code in the place of a statement or an expression.
#: guard: new code around a statement, which stands where the template says `{{ original }}`.
#: remove: no statement any more; its comments stay.
#: take-out: no statement any more, and none of the comments in it.
#: set-keyword: a keyword argument of a call, added or changed; the template is `name=value`.
#: name-arguments: the positional arguments of a call get names; the template is the names of all, the first of which
#:   may be left empty, `,second,third`.
#: add-import: an import after the script's own ones, as far as they come before `last`.
Kind = Literal[
    "insert-before", "insert-after", "replace", "guard", "remove", "take-out", "set-keyword", "name-arguments",
    "add-import",
]  # fmt: skip
KINDS: tuple[str, ...] = get_args(Kind)

#: Stands for the guarded statement in a rendered guard template.
ORIGINAL = "__retrofit_original__"


@dataclass(frozen=True, eq=False)
class Edit:
    """One change of one file.

    Attributes:
        kind: what to do.
        node: the statement, expression or call that it is about; the module for add-import.
        text: the new code, indented from column 0.
        code: the rule that asks for it.
        last: for guard, the last of the statements that the code goes around, None for the one alone; it is a later
            one of the same block. For add-import, a statement that it has to come before.
        verbatim: whether the code is written as it is, in a style of its own: a whole module, perhaps.
    """

    kind: Kind
    node: cst.CSTNode
    text: str
    code: str
    last: cst.CSTNode | None = None
    verbatim: bool = False
