"""Tell whether a value that a name is given somewhere can be there where the name is read."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from retrofit.survey.flow import Flow, Variable
from retrofit.survey.index import Index, Scope, Statement
from retrofit.survey.loops import called_in
from retrofit.survey.nodes import children, dotted, leaves, names_in
from retrofit.survey.order import runs_always


def replaced(name: str, given: Statement | Scope, read: cst.CSTNode, flow: Flow) -> bool:
    """Whether what a statement or an argument gives a name is replaced before it is read, or comes later."""
    index, here = flow.index, flow.index.statement(read)
    if isinstance(given, Statement) and _comes_later(name, given, here):
        return True
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


def _comes_later(name: str, given: Statement, here: Statement) -> bool:
    """Whether a function gives its own variable a value only behind another statement, and does not come back to it."""
    own = given.scope is here.scope and "." not in name and name not in here.scope.outer
    turns = [one for one in given.around if isinstance(one.node, (cst.For, cst.While))]
    return own and given.order > here.last and not any(one in here.path for one in turns)


def excluded(value: cst.CSTNode, read: cst.CSTNode, flow: Flow) -> bool:
    """Whether a value is given under a condition that does not hold where it is read."""
    index = flow.index
    given, here = index.statement(value), index.scope_of(read)
    under = [(_meant(one, given.scope, flow), one, holds) for one, holds in conditions(index, value)]
    for test, holds in conditions(index, read) if under else ():
        meant = _meant(test, here, flow)
        for other, one, held in under:
            if held is not holds and other == meant:
                names = [(name, given.scope) for name in names_in(one)] + [(name, here) for name in names_in(test)]
                return not any(_changes(name, scope, given, index) for name, scope in names)
    return False


def conditions(index: Index, node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """Yield the conditions on the way to a node in its function, each with whether it holds there."""
    here = index.statement(node)
    early = [one.node for part in (here, *here.around) for one in part.preceding]
    left = [(one.test, False) for one in early if isinstance(one, cst.If) and leaves(one.body)]
    for test, holds in (*index.guards(node), *left):
        while isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            test, holds = test.expression, not holds
        yield test, holds


def _meant(test: cst.CSTNode, scope: Scope, flow: Flow) -> object:
    """Return what a test asks for: the same as another one where its variables get all that they are from the same."""
    name = dotted(test)
    if name is None:
        parts = children(test)
        kind = (type(test), type(getattr(test, "operator", None)))
        return (kind, *(_meant(part, scope, flow) for part in parts)) if parts else flow.index.source.code(test)
    variable, seen = flow.variable(name, scope), set[Variable]()
    while variable not in seen and len(sources := flow.sources(variable)) == 1 and sources[0].item is None:
        seen.add(variable)
        given = dotted(sources[0].value)
        variable = flow.variable(given, sources[0].scope) if given is not None else variable
    return variable


def _changes(name: str, scope: Scope, given: Statement, index: Index) -> bool:
    """Whether what a condition asks for may be another thing after a value is given under it."""
    for bound in (one.statement for one in index.bound([name], scope)):
        if any(isinstance(part.node, (cst.For, cst.While)) for part in bound.around):
            return True
        if scope is given.scope and bound.order > given.order:
            return True
    return False
