"""Find where an epoch loop lets parameters train by the number of its turn that rested before: frozen, or unstepped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from retrofit.knowledge.kinds import Wraps
from retrofit.survey.branches import exclude_each_other
from retrofit.survey.conditions import argument_of, given_constants, holds_with, rules_out
from retrofit.survey.counters import increments
from retrofit.survey.flow import Flow
from retrofit.survey.holders import WALKS
from retrofit.survey.index import Index
from retrofit.survey.names import Variable
from retrofit.survey.nodes import argument, dotted, last_name, mentions, method_name, names_in, nodes_in, receiver
from retrofit.survey.origins import Origin
from retrofit.survey.parameters import default_of
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.sites.loop import EpochLoop

#: Functions and methods that let parameters train, by their names.
_THAWS = re.compile(r"(?i)(un_?freeze|thaw)")

#: What gives, one after the other, what it is given.
_GIVING = frozenset(
    {"dict", "enumerate", "filter", "getattr", "iter", "itertools.chain", "list", "reversed", "tuple", "zip"}
)

_Letting = tuple[Statement, cst.BaseExpression | None]


def find_thaws(flow: Flow, loop: EpochLoop) -> list[tuple[str, str]]:
    """Return (place, code) of each `if` about the turn's number by which the loop lets frozen parameters train.

    What lets them may be a function's parameter, `set_trainable(model, True)`, and so may the number be.
    """
    index, turn = flow.index, _Turn(flow, loop)
    waiting, found = list(_letting(flow)), dict[cst.CSTNode, str]()
    for here, value in waiting:  # which grows
        lets, calls = value is None or holds_with(value, {}), flow.callers(here.scope)
        further: list[_Letting] = []
        if lets:
            asked = [(part, test) for part, test in turn.asked_around(here) if not _frozen_in(index, part, here)]
            found |= {part.node: f"if {index.source.code(test)}" for part, test in asked}
            further += [(index.statement(call), None) for call in calls if not rules_out(here, call, flow)]
        elif lets is None and turn.decides_from_some_on(here):  # `p.requires_grad = epoch >= 5`
            found[here.node] = index.source.code(here.node).strip()
        elif lets is None and value is not None:
            further += [(index.statement(call), _given(value, here.scope, call, flow)) for call in calls]
        waiting += [one for one in further if one not in waiting]
    return [(index.place(node, loop.file), head) for node, head in found.items()]


def _letting(flow: Flow) -> Iterator[_Letting]:
    """Yield what may let parameters train, with what tells whether it does, None where it surely does."""
    index, trained = flow.index, _Trained(flow)
    for attribute in index.attributes:
        if attribute.attr.value == "requires_grad" and trained.may_be(attribute.value):
            here, name = index.statement(attribute), dotted(attribute)
            yield from ((here, b.value) for b in index.bound_in(here) if b.target == name and b.value is not None)
    for call in index.calls:
        if method_name(call) == "requires_grad_" and trained.may_be(receiver(call)):
            yield index.statement(call), argument(call, "requires_grad", 0)
        elif _THAWS.match(last_name(call.func)) or method_name(call) == "add_param_group":
            yield index.statement(call), None


class _Trained:
    """Tells what is a parameter, a module or a list of them, rather than data, which may need gradients as well."""

    def __init__(self, flow: Flow) -> None:
        self._flow, self._index = flow, flow.index

    @cached_property
    def _modules(self) -> set[Origin | Variable]:
        """What is walked through or wrapped, looked for only where something asks for gradients."""
        wraps = self._index.knowledge.named(Wraps)
        walked = [held for _, held in self._index.method_calls(*WALKS)]
        wrapped = [call for call in self._index.calls if self._flow.class_called(call) in wraps]
        return {one for held in (*walked, *wrapped) for one in self._made(held)}

    def may_be(self, node: cst.BaseExpression | None) -> bool:
        """Whether something shows that an expression is one."""
        waiting: list[cst.CSTNode] = [node] if node is not None else []
        for here in waiting:  # which grows
            if not isinstance(here, cst.BaseExpression):
                continue
            made = self._made(here)
            if not self._modules.isdisjoint(made) or self._is_built(here):
                return True
            further = [*self._parts(here), *(one.node for one in made if isinstance(one, Origin))]
            waiting += [one for one in further if one not in waiting]
        return False

    def _made(self, node: cst.BaseExpression) -> set[Origin | Variable]:
        """Return where a value is made, for a name that nothing gives a value, such as a parameter's, that itself."""
        found = self._flow.deep_origins(node, self._index.scope_of(node))
        names = {one: dotted(one.node) for one in found}
        return {
            one if name is None else self._flow.variable(name, self._index.scope_of(one.node))
            for one, name in names.items()
        }

    def _is_built(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a module as it stands there, or walks through the parameters or modules of one."""
        if isinstance(node, cst.Call):
            made = self._flow.class_made(node)
            name = self._flow.root(made) if made is not None else self._index.qualified(node.func)
            built = name.startswith("torch.nn.") and not name.startswith("torch.nn.functional.")
            return built or method_name(node) in WALKS
        if isinstance(node, cst.Attribute) and node.attr.value == "param_groups":  # of an optimizer
            return True
        scope = self._index.scope_of(node)
        own = scope.enclosing_class if dotted(node) == scope.own else None
        return own is not None and self._flow.root(own).startswith("torch.nn.")

    def _parts(self, node: cst.BaseExpression) -> Iterator[cst.CSTNode]:
        """Yield what an expression is of: what its name goes through in a loop, what has it, or what a list has."""
        if isinstance(node, cst.Name):
            around = [one.for_in if isinstance(one, cst.BaseComp) else one for one in self._index.ancestors(node)]
            for loop in around:
                if isinstance(loop, (cst.For, cst.CompFor)) and mentions(loop.target, {node.value}):
                    yield loop.iter
        elif isinstance(node, (cst.Attribute, cst.Subscript)):
            yield node.value
        elif isinstance(node, cst.Call) and self._index.qualified(node.func) in _GIVING:
            yield from (arg.value for arg in node.args)
        elif (held := receiver(node)) is not None and method_name(node) in ("items", "values"):
            yield held
        elif isinstance(node, (cst.List, cst.Tuple)):
            yield from (one.value for one in node.elements)


def _frozen_in(index: Index, part: Statement, here: Statement) -> bool:
    """Whether all that is let train was frozen before in the same branch, and no more, for a validation in between."""

    def walked(one: Statement) -> list[str]:
        inside = [around.node for around in one.around if part in around.path[:-1]]
        heads = [
            one.iter if isinstance(one, cst.For) else one.test for one in inside if isinstance(one, (cst.For, cst.If))
        ]
        return [index.source.code(head) for head in heads]

    lets = {b.target for b in index.bound_in(here)}
    frozen = [b.statement for b in index.bound_in(part) if b.target in lets and dotted(b.value) == "False"]
    before = [one for one in frozen if one.scope is here.scope and one.order < here.order]
    return any(walked(one) == walked(here) and not exclude_each_other(one, here) for one in before)


def _given(value: cst.BaseExpression, function: Scope, call: cst.Call, flow: Flow) -> cst.BaseExpression | None:
    """Return what tells, where a function is called, whether an expression of its parameters holds in it."""
    holds = holds_with(value, given_constants(function, call, flow))
    if holds is None and (name := dotted(value)) in function.parameters:
        return argument_of(function, call, name) or default_of(function, name) or cst.Name("False")
    return cst.Name(str(bool(holds)))


class _Turn:
    """Tells what is about the number of an epoch loop's turn, whatever functions call it."""

    def __init__(self, flow: Flow, loop: EpochLoop) -> None:
        self._flow, self._loop = flow, loop
        counted = [one for one in flow.index.bound_in(loop.statement) if one.statement.parent is loop.statement]
        names = [loop.target] if loop.target else [one.target for one in counted if increments(one)]  # `while True`
        self._numbers = {flow.member(name, loop.scope) for name in names}

    def asked_around(self, here: Statement) -> Iterator[tuple[Statement, cst.BaseExpression]]:
        """Yield each `if` about the number that is around a statement in its function, and in the loop of its own."""
        for one in (here, *here.around):
            inside = one.scope is not self._loop.scope or self._loop.statement in one.path
            if inside and isinstance(one.node, cst.If) and self._is_about(one.node.test, one.scope):
                yield one, one.node.test

    def decides_from_some_on(self, here: Statement) -> bool:
        """Whether a statement compares so that it holds in all turns from some one on: `epoch >= 5`."""
        index = self._flow.index
        return any(self._is_from_some_on(one) for one in index.comparisons if index.statement(one) is here)

    def _is_from_some_on(self, test: cst.Comparison) -> bool:
        sides = (test.left, *(one.comparator for one in test.comparisons))
        operators = [type(one.operator) for one in test.comparisons]
        if operators in ([cst.LessThan], [cst.LessThanEqual]):
            sides = sides[::-1]
        elif operators not in ([cst.GreaterThan], [cst.GreaterThanEqual]):
            return False
        return self._is_about(sides[0], self._flow.index.scope_of(test))

    def _is_about(self, node: cst.CSTNode, scope: Scope) -> bool:
        waiting = [(name, scope) for name in names_in(node)] if self._numbers else []
        for name, here in waiting:  # which grows
            variable = self._flow.member(name, here)
            if variable in self._numbers:
                return True
            for source in self._flow.sources(variable):
                if source.value is not None and not any(isinstance(one, cst.Call) for one in nodes_in(source.value)):
                    names = [(one, source.scope) for one in names_in(source.value)]
                    waiting += [one for one in names if one not in waiting]
        return False
