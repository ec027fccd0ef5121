"""What expressions that are written out have for items, or are one of: tuples, lists, dicts and conditions."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from retrofit.survey.nodes import dotted


def may_be(key: cst.BaseExpression, asked: cst.BaseExpression | None) -> bool:
    """Whether an item of a dict may be the one that is asked for, as far as both keys are written down."""
    if not isinstance(key, cst.SimpleString) or not isinstance(asked, cst.SimpleString):
        return True
    return key.evaluated_value == asked.evaluated_value


def _gone_through(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return what an expression gives the items of as they are: `[a, b]` for `tuple(x for x in [a, b] if x)`.

    Those that are None may be left out: where it is taken apart, as many names as items tell that there are all.
    """
    if isinstance(node, cst.Call) and dotted(node.func) in ("tuple", "list") and len(node.args) == 1:
        return _gone_through(node.args[0].value)
    if not isinstance(node, (cst.GeneratorExp, cst.ListComp)):
        return node
    walk, name = node.for_in, dotted(node.elt)
    as_it_is = name is not None and dotted(walk.target) == name and walk.inner_for_in is None
    return walk.iter if as_it_is and all(_is_there(one.test, name) for one in walk.ifs) else node


def _is_there(test: cst.BaseExpression, name: str | None) -> bool:
    """Whether a condition asks no more of something than that it is there."""
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        asked = test.comparisons[0]
        return (
            dotted(test.left) == name and isinstance(asked.operator, cst.IsNot) and dotted(asked.comparator) == "None"
        )
    return dotted(test) == name


def item_of(node: cst.BaseExpression, item: int) -> cst.BaseExpression | None:
    """Return an item of a tuple or list as it is written down, None where it cannot be told."""
    node = _gone_through(node)
    elements = node.elements[: item + 1] if isinstance(node, (cst.Tuple, cst.List)) else ()
    if len(elements) <= item or any(isinstance(one, cst.StarredElement) for one in elements):
        return None
    return elements[item].value


def items_of(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return what a display holds, what displays in it hold among that; anything else by itself."""
    if not isinstance(node, (cst.Tuple, cst.List, cst.Dict)):
        return [node]
    return [part for one in node.elements for part in items_of(one.value)]


def written(made: cst.BaseExpression, key: str) -> Iterator[cst.BaseExpression]:
    """Yield what a display has by a key."""
    if isinstance(made, cst.Dict):
        for one in made.elements:
            named = one.key if isinstance(one, cst.DictElement) else None
            if isinstance(named, (cst.SimpleString, cst.Integer)) and repr(named.evaluated_value) == key:
                yield one.value
    elif isinstance(made, (cst.List, cst.Tuple)) and key.isdigit():
        part = item_of(made, int(key))
        yield from [part] if part is not None else []


def chosen_of(node: cst.BaseExpression | None) -> list[cst.BaseExpression]:
    """Return what an expression is one of, by a condition, for want of another or by a key; nothing for any other."""
    if isinstance(node, cst.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, cst.Or):
        return [node.left, node.right]
    if isinstance(node, cst.Subscript) and isinstance(node.value, cst.Dict):
        return [element.value for element in node.value.elements]
    return [node.value] if isinstance(node, cst.NamedExpr) else []
