"""What counts: assignments that make a value of the one before, `n += 1`."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

import libcst as cst

from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import dotted, names_in, nodes_in, parted, unquoted
from retrofit.survey.scopes import Binding, Scope, Statement


def changes(binding: Binding) -> list[cst.AugAssign]:
    """Return the `total += loss` by which a statement changes a variable or an item, nothing where it sets it anew."""
    node = binding.statement.node
    small = node.body if isinstance(node, (cst.SimpleStatementLine, cst.SimpleStatementSuite)) else ()
    return [one for one in small if isinstance(one, cst.AugAssign) and _is(one.target, binding)]


def carries_on(binding: Binding) -> bool:
    """Whether an assignment makes a value of the one before: `total += loss`, `mean = 0.9 * mean + 0.1 * loss`."""
    return binding.target in names_in(binding.value) if binding.value is not None else bool(changes(binding))


def increments(binding: Binding) -> bool:
    """Whether an assignment adds to what it assigns to: `n += 1`, `n = n + 1`."""
    value = binding.value
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add):
        return _is(value.left, binding) or _is(value.right, binding)
    return any(isinstance(one.operator, cst.AddAssign) for one in changes(binding)[:1])


def counts_alike(binding: Binding) -> bool:
    """Whether an assignment counts on, alike on all ranks: `step += 1`."""
    return increments(binding) and set(names_in(binding.statement.node)) == {binding.target}


def counts(binding: Binding) -> bool:
    """Whether an assignment counts on or down, perhaps beginning anew: also `n -= 1`, `n = 0 if better else n + 1`."""
    value = binding.value
    if isinstance(value, cst.IfExp):
        return any(counts(replace(binding, value=one)) for one in (value.body, value.orelse))
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Subtract):
        return _is(value.left, binding)
    return increments(binding) or any(isinstance(one.operator, cst.SubtractAssign) for one in changes(binding))


def is_number(value: cst.BaseExpression | None) -> bool:
    """Whether an expression is a whole number as it stands, perhaps with a sign."""
    return isinstance(value.expression if isinstance(value, cst.UnaryOperation) else value, cst.Integer)


def read_in(index: Index, test: cst.BaseExpression) -> list[str]:
    """Return the names that a condition reads, and the items of what has a name."""
    items = [part for part in nodes_in(test) if isinstance(part, cst.Subscript) and dotted(part.value) is not None]
    return [*names_in(test, called=False), *map(index.source.code, items)]


def given_in(index: Index, flow: Flow, loop: Statement, running: set[Scope], name: str) -> list[Binding]:
    """Return what gives a variable, or a dictionary's item, its values in a loop's turns.

    Args:
        running: the local functions that run in it.
    """
    if "[" in name:
        made = _numbered(index, flow, loop, name)
    else:
        variable, last = flow.member(name, loop.scope), name.rpartition(".")[2]
        made = [b for b in index.bindings if b.target.rpartition(".")[2] == last]
        made = [b for b in made if flow.member(b.target, b.statement.scope) == variable]
    return [b for b in made if loop in b.statement.path or b.statement.scope in running]


def counts_turns(index: Index, loop: Statement, binding: Binding) -> bool:
    """Whether an assignment counts in a loop, and not where something has failed in it: that counts attempts."""
    within = takewhile(lambda part: part is not loop.node, index.ancestors(binding.statement.node))
    return counts(binding) and not any(isinstance(part, cst.ExceptHandler) for part in within)


def handed_through(index: Index, flow: Flow, change: Binding) -> bool:
    """Whether a counter is what a function returns that is given it, perhaps with others: `loss, n = train(n)`."""
    function = flow.called(change.value) if isinstance(change.value, cst.Call) else None
    given = change.value.args if isinstance(change.value, cst.Call) else ()
    if function is None or not any(dotted(arg.value) == change.target for arg in given):
        return False
    if change.item is None:
        return True
    counted = {b.target for b in index.bindings if b.statement.scope is function and increments(b)}
    several = [value.elements for value in index.returned(function) if isinstance(value, cst.Tuple)]
    return any(dotted(items[change.item].value) in counted for items in several if change.item < len(items))


def _numbered(index: Index, flow: Flow, loop: Statement, name: str) -> list[Binding]:
    """Return what gives an item of a dictionary its values, nothing where it may begin with another than a number.

    That of a checkpoint would go on from there in each round.
    """
    holder, keys = parted(unquoted(name))
    held = flow.origins(cst.parse_expression(holder), loop.scope)
    begun = [
        is_number(one.value)
        for made in held
        for one in (made.node.elements if isinstance(made.node, cst.Dict) else ())
        if isinstance(one, cst.DictElement) and [unquoted(index.source.code(one.key))] == keys
    ]
    keyed = [one for made in held if isinstance(made.node, cst.Call) for one in flow.by_key(made.node, "".join(keys))]
    begun += map(is_number, keyed)
    alike = [(b, *parted(unquoted(b.target))) for b in index.items]
    same = [
        b
        for b, whole, others in alike
        if others == keys and flow.origins(cst.parse_expression(whole), b.statement.scope) == held
    ]
    updated = any(dotted(one) == holder for _, one in index.method_calls("update"))
    known = begun == [True] * len(held) and all(counts(b) or is_number(b.value) for b in same)
    return same if held and known and not updated else []


def _is(node: cst.BaseExpression, binding: Binding) -> bool:
    """Whether an expression is what an assignment assigns to, a variable or an item."""
    if not isinstance(node, cst.Subscript):
        return dotted(node) == binding.target
    return unquoted(cst.Module(body=[]).code_for_node(node)) == unquoted(binding.target)
