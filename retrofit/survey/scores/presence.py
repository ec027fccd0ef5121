"""Where a score can be taken out of what may not be there: `stats["acc"]` of `None`, or of `{}` on the other ranks."""

from __future__ import annotations

import re

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import conjuncts
from retrofit.survey.nodes import dotted, leaves, method_name, names_in, nodes_in, unquoted
from retrofit.survey.ranks import condition, of_some
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.scores.filling import FILLS, Filling
from retrofit.survey.scores.standins import StandIn
from retrofit.survey.scores.values import bare_of, still_empty, way_to_root, written
from retrofit.survey.scores.ways import bracketed, tests_around

_SIZES = (cst.GreaterThan, cst.NotEqual, cst.GreaterThanEqual)


def presence(flow: Flow, node: cst.BaseExpression, made: Statement, stand_ins: list[StandIn]) -> list[str]:
    """Return the code of the conditions under which an expression has a value, as far as the script knows of any.

    They are those under which it looks at the expression itself, those that follow from what its variable may be, and
    that of the ranks that alone fill its object.

    Args:
        node: the expression.
        made: the statement after which it is known; what is around that holds anyway.
        stand_ins: the constants that it may be.
    """
    if isinstance(bare_of(node), cst.Name):
        return []  # the helper takes None
    index = flow.index
    tests = _tested(index, node, made) if node in index.parents else []
    found = [*tests, *_lacking(index, node, stand_ins)]
    return list(dict.fromkeys(found or _ranks_that_fill(flow, node, made)))


def _ranks_that_fill(flow: Flow, node: cst.BaseExpression, made: Statement) -> set[str]:
    """Return the condition of the ranks that alone fill what an expression is taken out of, as far as it is one."""
    source = flow.index.source
    ranks = [_ranks_around(flow, one, made) for one in _fills(flow, node, made)]
    told = [
        {bracketed(flow.index, part) if holds else f"not ({source.code(part)})" for part, holds in one} for one in ranks
    ]
    return set.intersection(*told) if told else set()


def filled_on_first(flow: Flow, node: cst.BaseExpression, made: Statement) -> cst.Call | None:
    """Return what fills, on rank 0 alone, that which an expression is taken out of; None where other ranks may too.

    Args:
        node, made: as for `presence`.
    """
    fills = _fills(flow, node, made)
    alone = [
        any(condition(flow, part) == ("first" if holds else "others") for part, holds in _ranks_around(flow, one, made))
        for one in fills
    ]
    return fills[0] if fills and all(alone) else None


def _fills(flow: Flow, node: cst.BaseExpression, made: Statement) -> list[cst.Call]:
    """Return the calls that alone fill what an expression is taken out of, which has nothing in it before."""
    index, filling = flow.index, Filling(flow, node)
    begun = [b for b in index.bound(filling.names, made.scope) if b.statement.order <= made.order]
    since = max((b.statement.order for b in begun), default=0)
    given = [b.value for b in begun if b.statement.order == since and b.value is not None]
    if not all(still_empty(index, one) for value in given for one in _returned(flow, value)):
        return []  # it has something in it to begin with
    items = [b for b in index.items if b.statement.scope is made.scope and b.target.partition("[")[0] in filling.names]
    own, constant = unquoted(written(index, bare_of(node))), re.compile(r"[^\[]*\['\w+'\]")
    if constant.fullmatch(own):  # which an item by another constant key is not
        items = [b for b in items if unquoted(b.target) == own or not constant.fullmatch(unquoted(b.target))]
    if any(b.statement.order >= since for b in items):
        return []  # it is not by calls alone
    calls = [one for one in index.calls_of(made.scope) if index.statement(one).order >= since]
    reading = {*nodes_in(node)}  # a mean that it takes of a list fills that no more
    fills = [one for one in calls if filling.by(one) or (one not in reading and filling.may_be_by(one))]
    # Where nothing has filled it by then, it is read at the function's end.
    fills = [one for one in fills if index.statement(one).order <= made.last] or fills
    return fills if any(method_name(one) in FILLS for one in fills) else []


def _returned(flow: Flow, value: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return what the local function returns that an expression calls, itself where it calls none."""
    function = flow.called(value) if isinstance(value, cst.Call) else None
    return flow.index.returned(function) if function is not None and function.kind == "function" else [value]


def _ranks_around(flow: Flow, call: cst.Call, made: Statement) -> list[tuple[cst.BaseExpression, bool]]:
    """Return the parts of the conditions around a call that choose ranks, but for those around a statement.

    Each is given with whether it holds there.
    """
    index = flow.index
    around = [(test, holds) for test, holds in index.guards(call) if index.statement(test) not in made.around]
    parts = [(part, holds) for test, holds in around for part in (conjuncts(test) if holds else [test])]
    return [(part, holds) for part, holds in parts if of_some(flow, part)]


def _tested(index: Index, node: cst.BaseExpression, made: Statement) -> list[str]:
    """Return the conditions on the way to an expression that ask whether what it is made of is there."""
    names = {name for part in _parts(node) for name in names_in(part)}
    around = {part.node for part in made.path}
    found: list[str] = []
    inner: cst.CSTNode = node
    for outer in index.ancestors(node):
        tests: list[tuple[cst.BaseExpression, bool]] = []
        if isinstance(outer, (cst.If, cst.IfExp)) and outer not in around and inner is not outer.test:
            tests = [(outer.test, inner is outer.body)]
        elif isinstance(outer, cst.BooleanOperation) and inner is outer.right:
            tests = [(outer.left, isinstance(outer.operator, cst.And))]
        elif isinstance(outer, cst.Try) and inner is outer.body and minds_a_key(index, outer):
            held = outer in around and outer is not made.node  # behind which it need not have gone well
            found = [*([] if held else _looked_up(index, node)), *found]
        elif isinstance(outer, (cst.For, cst.While, cst.FunctionDef)):
            break
        if isinstance(outer, cst.BaseStatement) and outer is index.statement(outer).node:
            left = [early.node for early in index.statement(outer).preceding if early.order > made.order]
            tests += [(one.test, False) for one in left if isinstance(one, cst.If) and leaves(one.body)]
        for test, holds in tests:
            found = [*_asked(index, test, holds, names), *found]
        inner = outer
    return found


def minds_a_key(index: Index, tried: cst.Try) -> bool:
    """Whether a `try` goes on where a dict has no item by a key."""
    kinds = [kind for one in tried.handlers if one.type is not None for kind in nodes_in(one.type)]
    return any(isinstance(kind, cst.Name) and index.qualified(kind) == "KeyError" for kind in kinds)


def _looked_up(index: Index, node: cst.BaseExpression) -> list[str]:
    """Return what must hold for the items that an expression takes out of dicts to be there."""
    items = [part for part in way_to_root(node) if isinstance(part, cst.Subscript)]
    keyed = [one for one in items if not re.fullmatch(r"-?\d+", index.source.code(one.slice[0]))]  # no list's items
    return [f"{written(index, one.slice[0])} in {written(index, one.value)}" for one in reversed(keyed)]


def _parts(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return the variable of an expression, and the keys by which items are taken out of it."""
    keys = [
        element.slice.value
        for part in way_to_root(node)
        if isinstance(part, cst.Subscript)
        for element in part.slice
        if isinstance(element.slice, cst.Index)
    ]
    return [*[part for part in way_to_root(node) if dotted(part) is not None], *keys]


def _asked(index: Index, test: cst.BaseExpression, holds: bool, names: set[str]) -> list[str]:
    """Return the parts of a condition that ask whether one of some names has a value, as code that is true then."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return _asked(index, test.expression, not holds, names)
    if isinstance(test, cst.BooleanOperation):
        joined = isinstance(test.operator, cst.And) is holds
        return [code for part in (test.left, test.right) for code in _asked(index, part, holds, names) if joined]
    code, about = index.source.code(test), test
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        operator, right = test.comparisons[0].operator, test.comparisons[0].comparator
        negated, word = isinstance(operator, (cst.Is, cst.NotIn)), ""
        if isinstance(operator, (cst.In, cst.NotIn)):
            about, word = right, "in"
        elif isinstance(operator, (cst.Is, cst.IsNot)) and dotted(right) == "None":
            about, word = test.left, "is not"
        elif isinstance(operator, _SIZES) and isinstance(test.left, cst.Call):
            about = test.left
        if word:
            code = f"{index.source.code(test.left)} {word} {index.source.code(right)}"
            holds = negated is not holds
    if isinstance(about, cst.Call) and dotted(about.func) == "len" and len(about.args) == 1:
        about = about.args[0].value
    return [code] if holds and dotted(about) in names else []


def _lacking(index: Index, node: cst.BaseExpression, stand_ins: list[StandIn]) -> list[str]:
    """Return what must hold as the variable of an expression may be None, empty or a number, not what is measured."""
    subscripts, found = [part for part in way_to_root(node) if isinstance(part, cst.Subscript)], list[str]()
    whole = [one for one in stand_ins if one.whole]
    plain = any(one.plain for one in whole)
    for number, part in reversed([*enumerate(subscripts, start=1)]):
        name, here = written(index, part.value), [one for one in whole if one.deep == number]
        if any(one.absent for one in here):
            found.append(f"{name} is not None")
        if any(isinstance(one.value, (cst.Dict, cst.DictComp)) for one in here):
            found.append(f"{written(index, part.slice[0])} in {name}")
        if any(one.plain for one in here):
            found.append(f"hasattr({name}, 'keys')")
        elif not plain and any(_is_single(one) for one in here):
            found.append(f"hasattr({name}, '__getitem__')")
    return found


def _is_single(one: StandIn) -> bool:
    """Whether a constant is a number, or says yes or no, of which no item can be taken."""
    return not (one.absent or isinstance(one.value, (cst.Dict, cst.DictComp)))


def ends_on_others(flow: Flow, function: Scope) -> bool:
    """Whether a function returns a value on some ranks only."""
    index = flow.index
    valued: list[bool] = []
    others: list[bool] = []
    for one, scope in index.returns:
        if scope is function:
            ranked = _of_some_ranks(flow, index.statement(one))
            (others if one.value is None or dotted(one.value) == "None" else valued).append(ranked)
    return bool(valued) and (all(valued) or any(others))


def _of_some_ranks(flow: Flow, place: Statement) -> bool:
    return any(of_some(flow, test) for test in tests_around(place))
