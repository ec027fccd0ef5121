"""What a call's arguments are to the parameters of a function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import libcst as cst

from retrofit.survey.names import Source
from retrofit.survey.scopes import Scope


def star_of(function: Scope) -> str:
    """Return the name of a function's `*args`, "" where it has none."""
    star = function.node.params.star_arg if isinstance(function.node, cst.FunctionDef) else None
    return star.name.value if isinstance(star, cst.Param) else ""


def default_of(function: Scope, name: str) -> cst.BaseExpression | None:
    """Return what a parameter is where a call does not give it, None where a call must."""
    assert isinstance(function.node, cst.FunctionDef)
    params = function.node.params
    return next((p.default for p in (*params.params, *params.kwonly_params) if p.name.value == name), None)


def takes(function: Scope, call: cst.Call, more: bool = False) -> bool:
    """Whether a function has parameters for a call's arguments, and a call gives all that it must have.

    Args:
        more: whether it may give more than these.
    """
    return not misfit(function, call, more)


def misfit(function: Scope, call: cst.Call, more: bool = False) -> str:
    """Return what a call gives a function that it does not take, or lacks, for the words "it ..."; "" for nothing."""
    if not isinstance(function.node, cst.FunctionDef) or any(arg.star for arg in call.args):
        return ""
    params, method, name = function.node.params, function.holder is not None, function.name
    plain = [*params.posonly_params, *params.params][method:]
    given = sum(arg.keyword is None for arg in call.args)
    named = dict.fromkeys(arg.keyword.value for arg in call.args if arg.keyword is not None)
    known = [*plain[given:], *params.kwonly_params]
    if given > len(plain) and not isinstance(params.star_arg, cst.Param):
        return f"gives {given} arguments by position, of which `{name}` takes {len(plain)}"
    further = [one for one in named if one not in {one.name.value for one in known}]
    if further and params.star_kwarg is None:
        again = further[0] in {one.name.value for one in plain}
        return f"gives `{further[0]}`" + (" twice" if again else f", which `{name}` does not take")
    lacking = [one.name.value for one in known if one.default is None and one.name.value not in named]
    return f"does not give `{lacking[0]}`, which `{name}` must have" if lacking and not more else ""


def in_order(given: Sequence[cst.Arg], scope: Scope) -> Iterator[Source]:
    """Yield what a call gives its parameters by position; of what a star takes apart, its items, as far as told."""
    for arg in given:
        if not arg.star:
            yield Source(arg.value, scope)
            continue
        elements = arg.value.elements if isinstance(arg.value, (cst.Tuple, cst.List)) else ()
        told = elements and not any(isinstance(one, cst.StarredElement) for one in elements)
        yield from (Source(arg.value, scope, item) for item in (range(len(elements)) if told else count()))
