"""Find where a script goes through its model as it is without dendrites: it counts layers, or raises at others."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from retrofit.survey.constructions import optimizer_statements
from retrofit.survey.counters import changes, increments, is_number
from retrofit.survey.flow import Flow
from retrofit.survey.holding import Holding
from retrofit.survey.nodes import dotted, mentions, method_name, names_in, nodes_in, receiver
from retrofit.survey.order import after_model
from retrofit.survey.origins import Origin
from retrofit.survey.scopes import Binding, Scope, Statement
from retrofit.survey.scores.filling import FILLS
from retrofit.survey.sites.model import Model, ModuleCount
from retrofit.survey.weights import freezes, of_model

_WALKS = ("modules", "named_modules", "named_parameters")
_PARAMETERS = ("parameters", "named_parameters")
#: What gives layers as the library has them: put into its own modules, where they have dendrites.
_DIRECT = ("children", "named_children")
_SIDE_BY_SIDE = frozenset({"zip", "itertools.zip_longest"})
_CLASS = frozenset({"isinstance", "issubclass", "type"})
_LACKING = frozenset({"difference", "symmetric_difference", "issubset", "issuperset"})


def find_module_counts(origins: set[Origin], models: list[Model], flow: Flow) -> list[ModuleCount]:
    """Return the walks through the perforated model that dendrites are to be left out of.

    Those that count the modules of a class, those that raise at a class or a name that they do not know, those before
    an assertion that all names are known, those that gather what is counted against all parameters, and those of whose
    parameters an optimizer gets some, or some are frozen, by their places.

    Args:
        origins: where the model is built.
        models: the places after which it is there.
    """
    walks, found = _Walks(origins, flow), []
    for call, model in flow.index.method_calls(*_WALKS, "parameters"):
        here, kind = flow.index.statement(call), method_name(call)
        if call.args or not any(after_model(here, one, flow) for one in models):
            continue
        known = kind in _WALKS and (walks.counts(call) or walks.raises(call) or walks.asserts(call))
        if known or call in walks.gathered or call in walks.placed:
            whose = flow.index.source.code(model)
            site = ModuleCount(node=call, index=flow.index, kind=kind, whose=whose)
            site.anchors["state"] = call
            found.append(site)
    for asked in walks.asked(models):
        found.append(ModuleCount(node=asked, index=flow.index, kind="layer", whose=flow.index.source.code(asked)))
        found[-1].anchors["state"] = asked
    return found


class _Walks:
    """Tells what walks through the model are for.

    Args:
        origins: where it is built.
        flow: of the whole project.
    """

    def __init__(self, origins: set[Origin], flow: Flow) -> None:
        self._origins, self._flow, self._index = origins, flow, flow.index
        classes = [built for origin in origins for built in flow.classes_made(origin.node)]
        self._classes = {one for built in classes for one in flow.lineage(built)}
        self._raising = set(self._loops_that_raise())
        self._asserted = list(self._names_that_are_asserted())
        self.gathered = set(self._gathered())
        self.placed = set(self._placed())

    def counts(self, call: cst.Call) -> bool:
        """Whether a loop counts or numbers the modules of a class."""
        here = self._index.statement(call)
        if not isinstance(here.node, cst.For) or method_name(call) != "modules" or not self._is_mine(call, here):
            return False
        numbered = isinstance(here.node.iter, cst.Call) and dotted(here.node.iter.func) == "enumerate"
        if call not in (here.node.iter, *(_walked(here.node.iter) if numbered else ())):
            return False
        counts = numbered or any(_adds_number(b) for b in self._index.bindings if here in b.statement.path)
        return counts and any(dotted(one.func) in ("isinstance", "type") for one in self._index.calls_in(here))

    def asked(self, models: list[Model]) -> Iterator[cst.Name]:
        """Yield the children of the model, or of a part of it, whose class is asked for where they may have dendrites.

        Those that `modules()` gives are the script's own layers all the same.
        """
        tests = [(call.args[0].value, call) for call in self._index.calls if dotted(call.func) in _CLASS and call.args]
        classes = [(one.value, one) for one in self._index.attributes if one.attr.value == "__class__"]
        for asked, test in (*tests, *classes):
            around = [one for one in (test, *self._index.ancestors(test)) if _compares(one)]
            if (
                isinstance(asked, cst.Name)
                and around
                and self._tells_layers(around[0])
                and self._is_child(asked, models)
            ):
                yield asked

    def _tells_layers(self, test: cst.CSTNode) -> bool:
        """Whether a condition is about classes of layers, by themselves or by their names."""
        return any(
            isinstance(one, cst.SimpleString) or self._index.qualified(one).startswith("torch.nn.")
            for one in nodes_in(test)
            if isinstance(one, (cst.SimpleString, cst.Name, cst.Attribute))
        )

    def _is_child(self, asked: cst.Name, models: list[Model]) -> bool:
        """Whether a loop goes through children of the perforated model."""
        here, index = self._index.statement(asked), self._index
        heads = [one.for_in if isinstance(one, cst.BaseSimpleComp) else one for one in index.ancestors(asked)]
        loops = [one for one in heads if isinstance(one, (cst.For, cst.CompFor))]
        loops = [one for one in loops if mentions(one.target, [asked.value])]
        walks = _walked(loops[0].iter) if loops else []
        if not any(method_name(walk) in _DIRECT and self._is_mine(walk, here) for walk in walks):
            return False
        calls = [*self._flow.callers(here.scope), *(call for call, _ in index.method_calls(here.scope.name))]
        while_built = here.scope.name == "__init__" or all(index.scope_of(call).name == "__init__" for call in calls)
        late = any(after_model(here, model, self._flow) for model in models)
        return late if here.scope.enclosing_class is None else not while_built

    def raises(self, call: cst.Call) -> bool:
        """Whether a loop raises at what it does not know, or is in one that does, and goes through what that gives."""
        here = self._index.statement(call)
        if here.node in self._raising and isinstance(here.node, cst.For) and call in _walked(here.node.iter):
            return self._is_mine(call, here)
        return any(one.node in self._raising and self._is_of_loop(call, one) for one in here.path if one is not here)

    def asserts(self, call: cst.Call) -> bool:
        """Whether what a walk gives is asserted to be known, later in the same function."""
        here = self._index.statement(call)
        if not any(scope is here.scope and here.order < order for scope, order in self._asserted):
            return False
        return self._is_mine(call, here) or any(self._is_of_loop(call, one) for one in here.path if one is not here)

    def _is_mine(self, call: cst.CSTNode, here: Statement) -> bool:
        """Whether a walk goes through the model, or a part of it, and not beside another walk, which it is to fit."""
        held = receiver(call)
        assert held is not None
        if self._is_beside_another(call, here):
            return False
        own = (dotted(held) or "").partition(".")[0] == "self" and here.scope.enclosing_class in self._classes
        name = dotted(held)
        given = self._flow.sources(self._flow.variable(name, here.scope)) if name in here.scope.parameters else []
        parts = [held, *(one.value for one in given if one.value is not None)]
        return own or any(of_model(one, self._origins, self._flow) for one in parts if one in self._index.parents)

    def _is_beside_another(self, call: cst.CSTNode, here: Statement) -> bool:
        """Whether a loop goes through what another walk gives at the same time, as an average of the model does."""
        zips = [one for one in self._index.ancestors(call) if isinstance(one, cst.Call)]
        beside = [arg.value for one in zips if self._index.qualified(one.func) in _SIDE_BY_SIDE for arg in one.args]
        made = [origin.node for one in beside for origin in self._flow.origins(one, here.scope)]
        return any(method_name(part) in _WALKS for one in made for part in nodes_in(one) if part is not call)

    def _is_of_loop(self, call: cst.Call, loop: Statement) -> bool:
        """Whether a walk goes through what a loop through the model gives."""
        if not isinstance(loop.node, cst.For):
            return False
        outer = [walk for walk in _walked(loop.node.iter) if method_name(walk) in _WALKS]
        given = dotted(receiver(call)) in set(names_in(loop.node.target))
        return given and any(self._is_mine(walk, loop) for walk in outer)

    def _loops_that_raise(self) -> Iterator[cst.For]:
        for node in [*self._index.nodes_of(cst.Raise), *self._index.nodes_of(cst.Assert)]:
            if isinstance(node, cst.Assert) and dotted(node.test) != "False":
                continue
            tests: list[cst.BaseExpression] = []
            for around in self._index.ancestors(node):
                if isinstance(around, cst.If):
                    tests.append(around.test)
                elif isinstance(around, cst.For) and any(_tells_apart(test, around.target) for test in tests):
                    yield around

    def _names_that_are_asserted(self) -> Iterator[tuple[Scope, int]]:
        """Where it is asserted that a collection of names has no others than another: the function, and the place."""
        for node in self._index.nodes_of(cst.Assert):
            here = self._index.statement(node)
            parts = [part for part in nodes_in(node.test) if _is_lacking(part)]
            compared = [name.partition(".")[0] for part in parts for name in names_in(part)]
            bound = [one.value for one in self._index.bound(compared, here.scope) if one.value is not None]
            walks = [part for value in bound for part in nodes_in(value) if method_name(part) in _WALKS[1:]]
            if any(self._is_mine(walk, here) for walk in walks):
                yield here.scope, here.order

    def _gathered(self) -> Iterator[cst.Call]:
        """Yield the walks that fill what an assertion counts against all parameters, and what gives it these.

        Where it counts as many, it has sorted all of them into groups for the optimizer.
        """
        index = self._index
        filled = [(dotted(held), index.statement(call)) for call, held in index.method_calls(*FILLS)]
        filled += [(b.target, b.statement) for b in index.bindings if changes(b)]
        for node in index.nodes_of(cst.Assert):
            here = index.statement(node)
            lengths = [one for one in nodes_in(node.test) if isinstance(one, cst.Call) and dotted(one.func) == "len"]
            counted = {name for one in lengths for name in names_in(one, called=False)}
            every = [walk for one in lengths for walk in _walked(one) if method_name(walk) == "parameters"]
            fills = [at for name, at in filled if name in counted and at.scope is here.scope and at.order < here.order]
            loops = [part.node for at in fills for part in at.around if isinstance(part.node, cst.For)]
            walks = [walk for one in loops for walk in _walked(one.iter) if method_name(walk) in _WALKS]
            yield from [one for one in (*every, *walks) if every and walks and self._is_mine(one, here)]

    def _placed(self) -> Iterator[cst.Call]:
        """Yield the walks that give parameters of which some are chosen by their places, to be trained or frozen.

        Dendrites move them. Where the places are worked out by a walk themselves, they move as well.
        """
        index = self._index
        walks = [call for call, _ in index.method_calls(*_PARAMETERS)]
        moving = Holding(walks, self._flow)
        for taken, whole, places in self._taken() if walks else ():
            here = index.statement(taken)
            made = [whole, *(one.node for one in self._flow.deep_origins(whole, here.scope))]
            mine = [walk for one in made for walk in _given_on(one) if walk in walks]
            mine = [walk for walk in mine if self._is_mine(walk, index.statement(walk))]
            if mine and not any(map(moving.holds, places)) and self._trains_some(taken):
                yield from mine

    def _taken(self) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression, list[cst.BaseExpression]]]:
        """Yield what takes some of a whole by their places, with the whole and what tells the places."""
        index = self._index
        for node in index.nodes_of(cst.Subscript):
            part = node.slice[0].slice
            bounds = [part.lower, part.upper, part.step] if isinstance(part, cst.Slice) else []
            if isinstance(part, cst.Slice) or (isinstance(part, cst.Index) and is_number(part.value)):
                yield node, node.value, [one for one in bounds if one is not None]
        for call in index.calls_to("itertools.islice"):
            if call.args:
                yield call, call.args[0].value, [arg.value for arg in call.args[1:]]
        loops: list[cst.For | cst.CompFor] = [*index.nodes_of(cst.For), *index.nodes_of(cst.CompFor)]
        for loop in loops:
            target, whole = loop.target, loop.iter
            if not isinstance(whole, cst.Call) or dotted(whole.func) != "enumerate" or not whole.args:
                continue
            numbers = [dotted(one.value) or "" for one in target.elements[:1]] if isinstance(target, cst.Tuple) else []
            tests = [one for one in nodes_in(loop) if isinstance(one, cst.Comparison) and mentions(one, numbers)]
            compared = [part for one in tests for part in (one.left, *(c.comparator for c in one.comparisons))]
            if numbers and tests:
                yield loop, whole.args[0].value, [one for one in compared if dotted(one) not in numbers]

    def _trains_some(self, taken: cst.CSTNode) -> bool:
        """Whether an optimizer is given what is taken, or that is frozen."""
        index = self._index
        if isinstance(taken, cst.For):
            return freezes(taken.body)
        holding = Holding({index.parents[taken] if isinstance(taken, cst.CompFor) else taken}, self._flow)
        loops = [one for one in index.nodes_of(cst.For) if freezes(one.body)]
        calls = [one for made in optimizer_statements(index) for one in index.calls_in(made)]
        given = [arg.value for one in calls for arg in one.args]
        return any(map(holding.holds, [*given, *(one.iter for one in loops)]))


def _given_on(node: cst.BaseExpression) -> list[cst.Call]:
    """Return the walks that give what a collection has, as they give it: `[p for _, p in net.named_parameters()]`."""
    if not isinstance(node, cst.BaseSimpleComp):
        return _walked(node)
    given = set(names_in(node.for_in.target))
    return _walked(node.for_in.iter) if dotted(node.elt) in given else []


def _walked(walk: cst.BaseExpression) -> list[cst.Call]:
    """Return what a loop goes through: within `enumerate`, `list`, a progress bar or the like too."""
    found = [walk] if isinstance(walk, cst.Call) else []
    while found and isinstance(found[-1].func, cst.Name) and found[-1].args:
        inner = found[-1].args[0].value
        if not isinstance(inner, cst.Call):
            break
        found.append(inner)
    return found


def _compares(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Comparison) or (isinstance(node, cst.Call) and dotted(node.func) == "isinstance")


def _is_lacking(node: cst.CSTNode) -> bool:
    """Whether an expression is what one set has and another lacks."""
    if isinstance(node, cst.BinaryOperation):
        return isinstance(node.operator, (cst.Subtract, cst.BitXor))
    return method_name(node) in _LACKING


def _adds_number(binding: Binding) -> bool:
    """Whether an assignment counts: `n += 1`."""
    return increments(binding) and any(isinstance(one, cst.Integer) for one in nodes_in(binding.statement.node))


def _tells_apart(test: cst.BaseExpression, target: cst.BaseExpression) -> bool:
    """Whether a condition asks for a class, or for words in a name that a loop gives."""
    parts = list(nodes_in(test))
    by_class = any(isinstance(one, cst.Call) and dotted(one.func) in _CLASS for one in parts)
    worded = any(isinstance(one, cst.SimpleString) for one in parts)
    return by_class or (worded and mentions(test, list(names_in(target))))
