"""What functions and classes a call may mean, of which an import, a condition or a dict chooses one."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from retrofit.knowledge.kinds import Wraps
from retrofit.survey.displays import chosen_of, item_of, may_be
from retrofit.survey.names import Source, Variable
from retrofit.survey.nodes import dotted, method_name, receiver
from retrofit.survey.parameters import takes
from retrofit.survey.scopes import Scope, Statement

if TYPE_CHECKING:
    from retrofit.survey.flow import Flow


class Choices:
    """Tells what a call may mean.

    Args:
        flow: of the whole project.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow, self._index, self._lookups = flow, flow.index, flow.lookups
        #: What classes names mean, as far as it was asked for: as long as nothing gets further values.
        self.classes: dict[object, list[Scope]] = {}

    def of(
        self,
        node: cst.BaseExpression | None,
        scope: Scope,
        seen: set[object] | None = None,
        key: cst.BaseExpression | None = None,
        item: int | None = None,
    ) -> list[Scope]:
        """Return the local functions or classes of which an import, a condition or a dict of them chooses one.

        Args:
            node: what may mean them.
            scope: the function that it stands in.
            seen: what was followed already, to which it adds: what was found by that is not found again.
            key: the key of the item that is meant of a dict.
            item: which item of a tuple or list is meant then, None where it is none of one.
        """
        found: list[Scope] = []
        seen = set() if seen is None else seen
        if item is not None and node is not None and (part := item_of(node, item)) is not None:
            node, item = part, None
        if not isinstance(node, cst.Subscript) and (chosen := chosen_of(node)):
            found = [one for way in chosen for one in self.of(way, scope, seen, key, item)]
        elif isinstance(node, cst.Dict):
            items = [one for one in node.elements if not isinstance(one, cst.DictElement) or may_be(one.key, key)]
            found = [one for element in items for one in self.of(element.value, scope, seen, item=item)]
        elif isinstance(node, cst.Subscript):
            index = node.slice[0].slice
            found = self.of(node.value, scope, seen, index.value if isinstance(index, cst.Index) else None, item)
            found += self._lookups.definitions(node, scope)
        elif isinstance(node, cst.Call):
            found = self._looked_up(node, scope, seen, item)
        elif node is not None and (name := dotted(node)) is not None:
            variable = self._flow.variable(name, scope)
            meant = self._index.imported_too(variable[1], variable[0]) or [variable]
            found = [self._flow.standing(here.inner[one], node) for here, one in meant if one in here.inner]
            if (variable, key, item) not in seen:
                seen.add((variable, key, item))
                found += self._decorated.get(variable, [])
                for source in (*self._flow.sources(variable), *self._of_class(node, scope)):
                    of_it = item if source.item is None else source.item
                    found += self.of(source.value, source.scope, seen, key, of_it)
                for by, one in self._put_in.get(variable, ()) if key is not None else ():
                    found += self.of(one.value, one.scope, seen, item=item) if may_be(by, key) else []
                found += [*self._lookups.looped(node, scope), *self._lookups.member(node, scope)]
        elif node is not None:
            found = self._lookups.member(node, scope)
        return [scope for scope in dict.fromkeys(found) if self._index.holds(scope)]

    @cached_property
    def _put_in(self) -> dict[Variable, list[tuple[cst.BaseExpression, Source]]]:
        """What dicts that variables hold are given, each with its key: `names[name] = getattr(module, kind)`."""
        found = defaultdict[Variable, list[tuple[cst.BaseExpression, Source]]](list)
        for binding in self._index.items:
            target, scope = cst.parse_expression(binding.target), binding.statement.scope
            held = dotted(target.value) if isinstance(target, cst.Subscript) else None
            by = target.slice[0].slice if isinstance(target, cst.Subscript) else None
            if held is not None and isinstance(by, cst.Index) and binding.value is not None and binding.item is None:
                found[self._flow.variable(held, scope)].append((by.value, Source(binding.value, scope)))
        return found

    @cached_property
    def _decorated(self) -> dict[Variable, list[Scope]]:
        """What parameters get of what they decorate: by `@register`, or by what `@register("net")` returns."""
        found = defaultdict[Variable, list[Scope]](list)
        for scope in self._index.scopes:
            given = scope.node.decorators if isinstance(scope.node, (cst.ClassDef, cst.FunctionDef)) else ()
            for taker in [one.decorator for one in given if scope.parent is not None]:
                called = taker.func if isinstance(taker, cst.Call) else taker
                function = self._flow.defined(called, scope.parent or scope)
                takers = [function] if function is not None and function.holder is None else []
                if isinstance(taker, cst.Call):
                    back = [(one, dotted(value)) for one in takers for value in self._index.returned(one)]
                    takers = [one.inner[name] for one, name in back if name in one.inner]
                for one in takers:
                    if one.kind == "function" and one.parameters:
                        found[one, one.parameters[0]].append(scope)
        return found

    @cached_property
    def _bodies(self) -> set[str]:
        """The names to which bodies of classes give values."""
        return {one.target for one in self._index.bindings if one.statement.scope.kind == "class"}

    def _of_class(self, node: cst.BaseExpression, scope: Scope) -> list[Source]:
        """Return what the body of a class gives an attribute that is read of the class, or of an object of it."""
        if not isinstance(node, cst.Attribute) or node.attr.value not in self._bodies:
            return []
        own = [scope.enclosing_class] if dotted(node.value) == scope.own and scope.enclosing_class else []
        holders = own or self._classes_of(node.value, scope)
        lineage = [base for one in holders for base in self._flow.lineage(one)]
        return [source for one in lineage for source in self._flow.sources((one, node.attr.value))]

    def _classes_of(self, node: cst.BaseExpression, scope: Scope) -> list[Scope]:
        """Return the classes that an expression may mean itself."""
        name = dotted(node)
        meant = node if name is None else self._flow.variable(name, scope)
        if meant not in self.classes:
            self.classes[meant] = []  # as it may lead back to itself
            self.classes[meant] = [one for one in self.of(node, scope) if one.kind == "class"]
        return self.classes[meant]

    def _looked_up(self, call: cst.Call, scope: Scope, seen: set[object], item: int | None) -> list[Scope]:
        """Return what a call gives that looks something up, or calls a local function that does and returns it."""
        found = self._lookups.definitions(call, scope)
        if found or (call, item) in seen:
            return found
        seen.add((call, item))
        if dotted(call.func) == "next" and call.args and isinstance(call.args[0].value, cst.GeneratorExp):
            return self.of(call.args[0].value.elt, scope, seen)
        functions, held = self._flow.run_by(call), receiver(call)
        if not functions and held is not None and method_name(call) == "get" and call.args:
            key, *others = [arg.value for arg in call.args]  # of a dict, with what it gives for another key
            kept = self.of(held, scope, seen, key, item) if self._flow.defined(held, scope) is None else []
            found += [*kept, *(one for other in others for one in self.of(other, scope, seen, item=item))]
        for value in [one for function in functions for one in self._index.returned(function)]:
            found += self.of(value, self._index.scope_of(value), seen, item=item)
        return found

    def called(self, call: cst.Call) -> list[Scope]:
        """Return the local functions or classes of which a call calls one that is chosen.

        Of those that a name made at run time finds, they are the ones that take the call's arguments; where it gives
        none that is written down, nothing tells which are meant, but of methods that train. A module's own functions
        are none that train nothing, and none that leads to the call. What wraps a model that it is given lies beside
        models, and is none, unless the call gives it one.
        """
        found = self.of(call.func, self._index.scope_of(call))
        if self._lookups.found.isdisjoint(found):
            return found
        told = any(not arg.star for arg in call.args) or {*found}.issubset(self._flow.training_methods)
        found = [one for one in found if self._lookups.may_mean(one, self._index.scope_of(call))]
        fitting = [one for one in found if told and self._accepts(one, call)]
        roots = {self._flow.root(one) for one in fitting if one.kind == "class"}
        models = any(one.startswith("torch.nn.") for one in roots - self._index.knowledge.named(Wraps).keys())
        if not models or self._wrapping.isdisjoint(fitting) or any(self._makes_model(arg.value) for arg in call.args):
            return fitting
        return [one for one in fitting if one not in self._wrapping]

    def _makes_model(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a model, as far as the class of which it is made tells."""
        made = self._flow.origins(node, self._index.scope_of(node))
        calls = [origin.node for origin in made if isinstance(origin.node, cst.Call)]
        kinds = [(self._flow.class_made(call), self._flow.class_called(call)) for call in calls]
        return any((self._flow.root(kind) if kind else name).startswith("torch.nn.") for kind, name in kinds)

    @cached_property
    def _wrapping(self) -> set[Scope]:
        """The functions that wrap what they are given."""
        wraps = self._index.knowledge.named(Wraps)
        calls = [call for call in self._index.calls if self._flow.class_called(call) in wraps]
        wrapped = [(self._index.scope_of(call), dotted(self._flow.wrapped(call))) for call in calls]
        return {scope for scope, name in wrapped if scope.kind == "function" and name in scope.parameters}

    def _accepts(self, meant: Scope, call: cst.Call) -> bool:
        """Whether the arguments that are written down in a call fit a function, or the constructor of a class."""
        function = self._flow.maker(meant) if meant.kind == "class" else meant
        if function is None:
            return self._flow.root(meant) not in ("", "object")
        plain = [arg for arg in call.args if not arg.star]
        return takes(function, call.with_changes(args=plain), len(plain) < len(call.args))

    def fit(self, holder: Scope, operand: cst.BaseExpression, call: cst.Call) -> bool:
        """Whether an object may be of a class that was looked up, by all that is asked of what has the same name."""
        name = dotted(operand)
        if name is None or holder not in self._lookups.found:
            return True
        if self._flow.root(holder) not in ("", "object"):
            return True  # it may inherit them unseen
        lineage = self._flow.lineage(holder)
        known = {name for one in lineage for name in one.names}
        here = self._index.statement(call)
        sure = {early for part in here.path for early in part.preceding}
        anew = [b.statement.order for b in self._index.bound([name], here.scope) if b.statement in sure]
        asked = self._attributes[self._flow.variable(name, here.scope)]
        later = {one for one, at in asked if at.scope is not here.scope or at.order >= max(anew, default=0)}
        return all(one in known or self._flow.sources((self._flow.family(holder), f"self.{one}")) for one in later)

    @cached_property
    def _attributes(self) -> dict[Variable, set[tuple[str, Statement]]]:
        """What is asked of the objects that variables hold, but for what the code asks whether it is there."""
        found = defaultdict[Variable, set[tuple[str, Statement]]](set)
        asked = [one.args[1].value for one in self._index.calls if dotted(one.func) == "hasattr" and len(one.args) == 2]
        perhaps = {one.evaluated_value for one in asked if isinstance(one, cst.SimpleString)}
        for node in self._index.attributes:
            name = dotted(node.value)
            if name is not None and node.attr.value not in perhaps:
                scope = self._index.scope_of(node)
                if not self._flow.sources(self._flow.variable(f"{name}.{node.attr.value}", scope)):
                    found[self._flow.variable(name, scope)].add((node.attr.value, self._index.statement(node)))
        return found
