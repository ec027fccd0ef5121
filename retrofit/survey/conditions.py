"""What a call of a local function tells of the conditions in it, by the constants that it gives."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice

import libcst as cst

from retrofit.survey.branches import left_before
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.nodes import (
    argument,
    dotted,
    exits,
    last_name,
    last_of,
    method_name,
    names_in,
    nodes_in,
    receiver,
    wholes_of,
)
from retrofit.survey.parameters import default_of
from retrofit.survey.ranks import is_rank
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.settings import is_set_by_name

#: A value of which no more is told than that there is one.
SOMETHING = object()


def argument_of(function: Scope, call: cst.Call, name: str) -> cst.BaseExpression | None:
    """Return what a call gives to a parameter of a local function, None where it does not say."""
    held = receiver(call) if function.name == "__init__" and method_name(call) == function.name else None
    of_class = dotted(held) not in (None, "self")  # `Base.__init__(self, data)`
    number = function.parameters.index(name) - (function.holder is not None and not of_class)
    plain: list[cst.BaseExpression] = []
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == name:
            return arg.value
        if arg.star:
            return None
        if arg.keyword is None:
            plain.append(arg.value)
    return plain[number] if 0 <= number < len(plain) else None


def constant(node: cst.BaseExpression | None) -> object:
    """Return the value of a constant that is written down, `SOMETHING` for anything else."""
    if isinstance(node, cst.Name) and node.value in ("True", "False", "None"):
        return {"True": True, "False": False, "None": None}[node.value]
    if isinstance(node, (cst.SimpleString, cst.Integer)):
        return node.evaluated_value
    return SOMETHING


def taken_in_turn(node: cst.BaseExpression, index: Index) -> list[cst.BaseExpression]:
    """Return what a loop around a variable gives it in turn, as far as that is written out: `for x in ("a", "b")`."""
    name, around = dotted(node), [one.node for one in index.statement(node).path if isinstance(one.node, cst.For)]
    walks = [one.iter for one in around if name is not None and dotted(one.target) == name][-1:]
    return [one.value for walk in walks if isinstance(walk, (cst.Tuple, cst.List)) for one in walk.elements]


def holds_with(test: cst.BaseExpression, given: Mapping[str, object]) -> bool | None:
    """Tell whether a condition holds, as far as it is about parameters whose values are told."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner = holds_with(test.expression, given)
        return None if inner is None else not inner
    if isinstance(test, cst.BooleanOperation):
        parts = [holds_with(test.left, given), holds_with(test.right, given)]
        final = isinstance(test.operator, cst.Or)
        return final if final in parts else None if None in parts else not final
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        left, operator = test.left, test.comparisons[0].operator
        right = test.comparisons[0].comparator
        known = 0 if _is_of_each(left, given) else given.get(dotted(left) or "", SOMETHING)
        other = constant(right)
        if isinstance(operator, (cst.Is, cst.IsNot, cst.Equal, cst.NotEqual)) and other is not SOMETHING:
            same = known == other
            if known is SOMETHING and (other is not None or dotted(left) not in given):
                return None
            return same is isinstance(operator, (cst.Is, cst.Equal))
        return None
    if isinstance(test, cst.IfExp):
        first = holds_with(test.test, given)
        return None if first is None else holds_with(test.body if first else test.orelse, given)
    known = 0 if _is_of_each(test, given) else given.get(dotted(test) or "", constant(test))
    return None if known is SOMETHING else bool(known)


def _is_of_each(node: cst.BaseExpression, given: Mapping[str, object]) -> bool:
    """Whether an expression is what a count leaves when it is divided by one, which is nothing: `epoch % 1`."""
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Modulo):
        return False
    count = node.left
    if isinstance(count, cst.BinaryOperation) and isinstance(count.operator, cst.Add):
        count = count.left if isinstance(count.right, cst.Integer) else count.right
    return dotted(count) is not None and given.get(dotted(node.right) or "", constant(node.right)) == 1


def given_constants(function: Scope, call: cst.Call, flow: Flow, at: Statement | None = None) -> dict[str, object]:
    """Return the constants that a call gives to parameters of a function, or their defaults, and to their attributes.

    Of what is given and no constant it is told that there is something.

    Args:
        at: where they are read in it, None for anywhere.
    """
    plain = last_name(call.func) == function.name and not any(arg.star for arg in call.args)
    known: dict[str, object] = {}
    for name in function.parameters if plain else ():
        if not any(at is None or _comes_before(b.statement, at) for b in flow.index.bound([name], function)):
            value = argument_of(function, call, name) or default_of(function, name)
            known[name] = constant(value)
            known |= {f"{name}.{part}": one for part, one in _set_before(call, dotted(value), flow)}
    return known


def _comes_before(bound: Statement, read: Statement) -> bool:
    """Whether a statement may run before another one of its function."""
    turns = [one for one in read.around if isinstance(one.node, (cst.For, cst.While))]
    return bound.order < read.order or any(turn in bound.around for turn in turns)


def rules_out(here: Statement, call: cst.Call, flow: Flow) -> bool:
    """Whether a statement of a function does not run by a call, as that gives it constants."""
    asked = [*flow.index.guards(here.node)]
    leaving = [test for early in here.before if (test := leaves_if(early))]
    tests = [*leaving, *(test for test, _ in asked)]
    known = given_constants(here.scope, call, flow) if tests else {}
    names = {name for test in tests for name in names_in(test)}
    for flag in flow.index.bound(names, here.scope) if known else ():
        value = flag.value if flag.item is None else None
        if isinstance(value, cst.Call):
            value = _taken_of_keywords(value, here.scope, call)
        holds = holds_with(value, known) if value is not None else None
        if holds is not None and len(flow.index.bound([flag.target], here.scope)) == 1:
            known[flag.target] = holds  # `ddp = True if world_size else False`
    bound = {b.target for b in flow.index.bound(here.scope.parameters, here.scope)} if tests else set[str]()

    def holds_there(test: cst.BaseExpression) -> bool | None:
        if bound.isdisjoint(names_in(test)):
            return holds_with(test, known)
        # a parameter has what is given until it is bound: `if net is None: net = Net()`
        return holds_with(test, given_constants(here.scope, call, flow, flow.index.statement(test)) | known)

    if any(map(holds_there, leaving)):
        return True
    return any(holds_there(test) is (not held) for test, held in asked)


def _taken_of_keywords(taken: cst.Call, function: Scope, call: cst.Call) -> cst.BaseExpression | None:
    """Return the constant that a function takes by its name out of its `**kwargs`: `kwargs.pop("ddp", False)`."""
    star = function.node.params.star_kwarg if isinstance(function.node, cst.FunctionDef) else None
    if star is None or method_name(taken) not in ("get", "pop") or dotted(receiver(taken)) != star.name.value:
        return None
    name, default = constant(argument(taken, "key", 0)), argument(taken, "default", 1)
    named = (arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == name)
    value = next(named, default)
    return None if constant(value) is SOMETHING else value


def holds_under(test: cst.BaseExpression, call: cst.Call, flow: Flow) -> bool:
    """Whether a condition in a function holds by a call of it, as that stands under the same one, or a closer one.

    A call within it tells the same each time only where it asks for the rank.
    """
    index, function, caller = flow.index, flow.index.scope_of(test), flow.index.scope_of(call)
    roots = {name.partition(".")[0] for name in names_in(test)}
    given = {name: dotted(argument_of(function, call, name)) for name in roots.intersection(function.parameters)}
    given |= {function.own: dotted(receiver(call))} if function.own in given and function.holder is not None else {}
    others = [name for name in names_in(test) if name.partition(".")[0] not in given]
    parts = {whole for name in names_in(test) for whole in (name, *wholes_of(name))}
    asks = any(isinstance(one, cst.Call) and not is_rank(flow, one) for one in nodes_in(test))
    alike = all(flow.variable(name, function) == flow.variable(name, caller) for name in others)
    if asks or None in given.values() or not alike or index.bound(parts, function):
        return False
    wanted = _parsed(index, test)
    for name in (one for one in ast.walk(wanted) if isinstance(one, ast.Name)):
        name.id = given.get(name.id) or name.id
    for known in (known for known, held in index.guards(call) if held):
        around, read = index.statement(known), {whole for name in names_in(known) for whole in wholes_of(name)}
        given_anew = (around in b.statement.ancestors for b in index.bound(read, caller))
        if _follows(wanted, _parsed(index, known)) and not any(given_anew):
            return True
    return False


def _parsed(index: Index, test: cst.BaseExpression) -> ast.expr:
    return ast.parse(f"({index.source.code(test)})", mode="eval").body


def _follows(test: ast.expr, known: ast.expr) -> bool:
    """Whether a condition holds wherever another one does: `a or b` where `a`, or `b and c`, holds."""
    if isinstance(known, ast.BoolOp):
        each = [_follows(test, one) for one in known.values]
        if all(each) if isinstance(known.op, ast.Or) else any(each):
            return True
    if isinstance(test, ast.BoolOp):
        each = [_follows(one, known) for one in test.values]
        return any(each) if isinstance(test.op, ast.Or) else all(each)
    return ast.unparse(test) == ast.unparse(known)


def leaves_if(statement: Statement) -> cst.BaseExpression | None:
    """Return the condition under which an `if` ends its function: `if testing: return model`; None for none."""
    node = statement.node
    last = last_of(node.body) if isinstance(node, cst.If) else None
    ends = isinstance(last, (cst.Return, cst.Raise)) or exits(last)
    return node.test if isinstance(node, cst.If) and ends else None


def _set_before(call: cst.Call, name: str | None, flow: Flow) -> Iterator[tuple[str, object]]:
    """Yield the constants that attributes of an object get before a call, and nowhere else: `args.test = True`."""
    before = flow.index.statement(call).preceding if name is not None else []
    for binding in (one for early in before for one in flow.index.bound_by(early)):
        holder, _, part = binding.target.rpartition(".")
        if holder != name:
            continue
        value = constant(binding.value)
        told = value is not SOMETHING or dotted(binding.value) is None  # what another name has may be None
        if told and sum(other.target.endswith(f".{part}") for other in flow.index.bindings) == 1:
            yield part, value


def never_runs(here: Statement, flow: Flow, seen: frozenset[Scope] = frozenset()) -> bool:
    """Whether no call of a function, by the constants that it gives, runs a statement of it, or none of these runs."""
    calls = flow.callers(here.scope) if here.scope not in seen else []
    within = seen | {here.scope}
    return is_of_other_objects(here, flow) or (
        bool(calls)
        and all(rules_out(here, call, flow) or never_runs(flow.index.statement(call), flow, within) for call in calls)
    )


def is_of_other_objects(here: Statement, flow: Flow) -> bool:
    """Whether a method runs a statement by no object of the project, by the constants that all are given.

    So one that keeps the lowest score does not ask for a higher one: `if self.mode == "max"`, of `Stopper(mode="min")`.
    """
    if here.scope.enclosing_class is None:
        return False
    asked = [*flow.index.guards(here.node), *((one.test, False) for one in left_before(here))]
    names = {name for test, _ in asked for name in names_in(test)}
    known = {name: value for name in names if (value := _given_to_all(name, here.scope, flow)) is not SOMETHING}
    return bool(known) and any(holds_with(test, known) is (not held) for test, held in asked)


def _given_to_all(name: str, scope: Scope, flow: Flow) -> object:
    """Return the constant that an attribute of a method's object has in all objects, `SOMETHING` for any other."""
    holder, _, attribute = name.rpartition(".")
    if holder != scope.own or scope.enclosing_class is None:
        return SOMETHING
    named = [b for b in flow.index.bindings if b.target.rpartition(".")[2] == attribute]
    given = [b for b in named if "." in b.target or b.statement.scope.kind == "class"]
    values = {value for b in given for value in _values_of(b, flow)}
    if len(values) != 1 or SOMETHING in values or all(b.target != name for b in given):
        return SOMETHING
    named_too = is_set_by_name(flow, attribute, flow.family(scope.enclosing_class))
    return SOMETHING if named_too or scope.enclosing_class in _handed_on(flow) else values.pop()


@lru_cache(maxsize=1)
def _handed_on(flow: Flow) -> set[Scope]:
    """Return the classes that are given to what may make objects of them, or of an heir, by calls that are not seen."""
    found: set[Scope] = set()
    for node in flow.index.nodes_of(cst.Name):
        given, call = islice(flow.index.ancestors(node), 2)
        if not isinstance(given, cst.Arg) or not isinstance(call, cst.Call):
            continue
        if last_name(call.func) not in ("super", "isinstance", "issubclass"):
            meant = flow.defined(node, flow.index.scope_of(node))
            found.update(flow.lineage(meant) if meant is not None and meant.kind == "class" else ())
    return found


def _values_of(bound: Binding, flow: Flow) -> set[object]:
    """Return the constants that something gets, by all calls of a function that gives it its parameter."""
    maker, parameter = bound.statement.scope, dotted(bound.value) or ""
    if bound.item is not None or parameter not in maker.parameters:
        return {constant(bound.value) if bound.item is None else SOMETHING}
    calls = flow.callers(maker)
    plain = all(flow.called(call) is maker and not any(arg.star for arg in call.args) for call in calls)
    if not calls or not plain or flow.index.bound([parameter], maker):
        return {SOMETHING}
    return {constant(argument_of(maker, call, parameter) or default_of(maker, parameter)) for call in calls}
