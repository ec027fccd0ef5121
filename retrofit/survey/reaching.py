"""Tell whether a value that a name is given somewhere can be there where the name is read."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index, Scope, Statement
from retrofit.survey.loops import called_in
from retrofit.survey.nodes import leaves, names_in
from retrofit.survey.order import runs_always


def replaced(name: str, given: Statement | Scope, read: cst.CSTNode, flow: Flow) -> bool:
    """Whether what a statement gives a name, or a call a function's parameter, is replaced before it is read."""
    index, here = flow.index, flow.index.statement(read)
    if isinstance(given, Statement):
        scope, ways = given.scope, [([part], part.following) for part in (given, *given.around)]
    else:
        body = given.node.body if isinstance(given.node, cst.FunctionDef) else None
        scope, ways = given, [([], index.statements_in(body))] if body is not None else []
    others = {one.statement.node for one in index.bound([name], scope) if one.statement is not given}
    for first, following in ways if others else ():
        for number, later in enumerate(following, 1):
            if runs_always(later.node, others):
                between = [*first, *following[:number]]
                within = any(one in here.path for one in between)
                return not within and here.scope not in called_in(index, flow, *between)
    return False


def excluded(value: cst.CSTNode, read: cst.CSTNode, flow: Flow) -> bool:
    """Whether a value is given under a condition that does not hold where it is read."""
    index = flow.index
    denied = [
        test
        for test, holds in conditions(index, read)
        for one, other in conditions(index, value)
        if holds is not other and one.deep_equals(test)
    ]
    scopes = (index.scope_of(value), index.scope_of(read))
    return any(_settled(test, scopes, index.statement(value), flow) for test in denied)


def conditions(index: Index, node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """Yield the conditions on the way to a node in its function, each with whether it holds there."""
    here = index.statement(node)
    early = [one.node for part in (here, *here.around) for one in part.preceding]
    left = [(one.test, False) for one in early if isinstance(one, cst.If) and leaves(one.body)]
    for test, holds in (*index.guards(node), *left):
        while isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            test, holds = test.expression, not holds
        yield test, holds


def _settled(test: cst.BaseExpression, scopes: tuple[Scope, Scope], given: Statement, flow: Flow) -> bool:
    """Whether a test in one function asks the same as in another, and nothing it asks for changes there any more."""
    for name in names_in(test):
        if len({flow.variable(name, scope) for scope in scopes}) > 1:
            return False
        for bound in flow.index.bound([name], scopes[0]) + flow.index.bound([name], scopes[1]):
            loops = any(isinstance(one.node, (cst.For, cst.While)) for one in bound.statement.around)
            if loops or (bound.statement.scope is given.scope and bound.statement.order > given.order):
                return False
    return True
