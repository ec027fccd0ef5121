"""What is looked up by a name made at run time: `getattr(module, kind)`, `globals()[kind]`, or `REGISTRY.get(kind)`.

Of an object's methods, `getattr(self, mode)`, that is one that trains.

So it is by `eval(kind)`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from retrofit.survey.nodes import dotted, last_name, method_name, receiver
from retrofit.survey.parameters import default_of
from retrofit.survey.scopes import File, Scope

if TYPE_CHECKING:
    from retrofit.survey.flow import Flow
    from retrofit.survey.names import Variable

#: What a string calls, whose value is taken: `eval("run_" + mode + "(args)")`.
_CALLED = re.compile(r"\(.*\)$", re.DOTALL)
#: What gives the definitions of a module as a dict.
_VARS = frozenset({"vars", "inspect.getmembers"})


def _literal(node: cst.BaseExpression | None) -> str:
    value = node.evaluated_value if isinstance(node, cst.SimpleString) else None
    return value if isinstance(value, str) else ""


def _end(node: cst.BaseExpression) -> str:
    """Return how a string ends, as far as it is written down."""
    if isinstance(node, cst.FormattedString) and node.parts and isinstance(node.parts[-1], cst.FormattedStringText):
        return node.parts[-1].value
    return _literal(node.right) if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add) else ""


def _comprehensions(node: cst.BaseComp) -> Iterator[cst.CompFor]:
    here: cst.CompFor | None = node.for_in if isinstance(node, (cst.BaseSimpleComp, cst.DictComp)) else None
    while here is not None:
        yield here
        here = here.inner_for_in


def _binds(target: cst.BaseExpression, name: str) -> bool:
    if isinstance(target, (cst.Tuple, cst.List)):
        return any(_binds(element.value, name) for element in target.elements)
    return dotted(target) == name


def _is_dict(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Attribute) and node.attr.value == "__dict__"


class Lookups:
    """Tells what classes and functions of the project may be found by a name that is made at run time.

    Args:
        flow: of the whole project. It is asked only when something is looked up.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow, self._index = flow, flow.index
        #: All that was found so.
        self.found: set[Scope] = set()
        #: What of it may be meant, as more than its being there tells for it.
        self._told: set[Scope] = set()
        #: What functions lead to, as far as the flow knows by now.
        self.led_to: dict[Scope, set[Scope]] = {}

    @cached_property
    def nodes(self) -> list[cst.Call | cst.Subscript]:
        """Every expression that looks something up, as far as its form tells."""
        index = self._index
        late = [call for call in index.calls if self._asks_module(call) or self._evaluates(call)]
        registries = {name for _, name in self.registered}
        asked: list[cst.Call | cst.Subscript] = [
            call for call in index.calls if registries and dotted(receiver(call)) is not None
        ]
        own = index.calls_to("globals")
        asked += [call for call in index.calls if receiver(call) in own] if own else []
        every = registries or index.late or own
        asked += [one for one in index.nodes_of(cst.Subscript) if every or _is_dict(one.value)]
        return [*late, *asked]

    def definitions(self, node: cst.BaseExpression, scope: Scope) -> list[Scope]:
        """Return the classes and functions of which a lookup finds one; nothing for any other expression.

        Args:
            node: the expression.
            scope: the function that it stands in.
        """
        found: list[Scope] = []
        if isinstance(node, cst.Call) and self._asks_module(node):
            found = self._members(self._modules(node.args[0].value, scope, set()))
            found = self._fitting(node.args[1].value, scope, found) or self._methods(node, scope)
        elif isinstance(node, cst.Call) and self._evaluates(node):
            found = self._members([self._index.file(node)], inside=True)
            found = self._fitting(node.args[0].value, scope, found)
        elif isinstance(node, cst.Subscript):
            found = self._items(node.value, node.slice[0].slice, scope)
        elif isinstance(node, cst.Call) and method_name(node) == "get" and node.args:
            found = self._items(node.func.value, node.args[0], scope) if isinstance(node.func, cst.Attribute) else []
        told = [] if self._is_among_all(node) else found
        for one in self.registrations(node, scope):
            defined = one if isinstance(one, Scope) else self._flow.defined(one, self._index.scope_of(one))
            told += [defined] if defined is not None else []
        self._told.update(told)
        self.found.update(found, told)
        return list(dict.fromkeys([*found, *told]))

    def _methods(self, call: cst.Call, scope: Scope) -> list[Scope]:
        """Return the methods of an object that train and that no call names, for a mode to choose one of them.

        None is one that leads to the choice: it would run itself.
        """
        flow, held, name = self._flow, call.args[0].value, call.args[1].value
        candidates = [one for one in flow.training_methods if self._may_be(name, scope, one.name)]
        candidates = [one for one in candidates if scope not in self._run_by(one)]
        own = scope.enclosing_class if dotted(held) == scope.own else None
        origins = flow.origins(held, scope) if candidates and own is None else []
        made = [one for one in (own, *(flow.class_made(origin.node) for origin in origins)) if one is not None]
        heirs = [one.holder for one in candidates if one.holder is not None and own in flow.lineage(one.holder)]
        lineage = {base for one in (*made, *heirs) for base in flow.lineage(one)}
        return [one for one in candidates if one.holder in lineage]

    def may_mean(self, found: Scope, scope: Scope) -> bool:
        """Whether what was found may be meant in a function: of all that a module has, only a function that trains.

        Any other may be a helper of it, or what leads there: nothing but its number of arguments would tell for it.
        """
        if found.kind == "class" or found not in self.found - self._told:
            return True
        return found in self._flow.training and scope not in self._run_by(found)

    def _is_among_all(self, node: cst.BaseExpression) -> bool:
        """Whether a lookup gives any one of all that its module has, as no name is written down."""
        if isinstance(node, cst.Call) and method_name(node) != "get":
            return self._evaluates(node)
        key = node.slice[0].slice if isinstance(node, cst.Subscript) else next(iter(getattr(node, "args", ())), None)
        held = node.value if isinstance(node, cst.Subscript) else receiver(node)
        named = isinstance(key, (cst.Index, cst.Arg)) and bool(_literal(key.value))
        return not named and held in self._index.calls_to("globals")

    def _run_by(self, function: Scope) -> set[Scope]:
        """Return a function and all that it leads to."""
        if function not in self.led_to:
            found, waiting = set[Scope](), [function]
            while waiting:
                if (here := waiting.pop()) not in found:
                    found.add(here)
                    called = map(self._flow.called, self._index.calls_of(here))
                    waiting += [one for one in called if one is not None]
            self.led_to[function] = found
        return self.led_to[function]

    def _may_be(self, node: cst.BaseExpression, scope: Scope, name: str) -> bool:
        """Whether a string may be a name, by how it begins and ends, or by all that calls give for it."""
        own = dotted(node) or ""
        given = [source.value for source in self._flow.sources((scope, own))] if own in scope.parameters else []
        given += [value for value in given[:1] and [default_of(scope, own)] if value is not None]
        if given and all(map(_literal, given)):
            return name in map(_literal, given)
        sources = self._flow.sources(self._flow.variable(own, scope)) if own and own not in scope.parameters else []
        if (
            len(sources) == 1
            and sources[0].value is not None
            and sources[0].item is None
            and sources[0].value is not node
        ):
            node, scope = sources[0].value, sources[0].scope
        begin, end = self._beginning(node, scope), _CALLED.sub("", _end(node))
        return not f"{begin}{end}_".isidentifier() or (name.startswith(begin) and name.endswith(end))

    def _items(self, held: cst.BaseExpression, key: cst.CSTNode, scope: Scope) -> list[Scope]:
        """Return what a dict of a module's definitions may hold by a key, which may be written down."""
        own = held in self._index.calls_to("globals")
        found = self._members(self._modules_of_dict(held, scope, set()), inside=own)
        name = _literal(key.value) if isinstance(key, (cst.Index, cst.Arg)) else ""
        found = [one for one in found if name in ("", one.name)]
        return self._fitting(key.value, scope, found) if isinstance(key, (cst.Index, cst.Arg)) and not name else found

    def _fitting(self, name: cst.BaseExpression, scope: Scope, found: list[Scope]) -> list[Scope]:
        """Return those of some definitions that a string may name, as far as it is written down: `"run_" + mode`.

        What code has by another name than its own is none that is told apart so.
        """
        return [one for one in found if self._may_be(name, scope, one.name)] or found

    def member(self, node: cst.BaseExpression, scope: Scope) -> list[Scope]:
        """Return what a name is of a module that a name made at run time imports: `import_module(name).train`."""
        if not self._index.late or not isinstance(node, cst.Attribute):
            return []
        return [one for one in self._members(self._modules(node.value, scope, set())) if one.name == node.attr.value]

    def looped(self, node: cst.BaseExpression, scope: Scope) -> list[Scope]:
        """Return what a name is in a loop over a module's definitions: `for name, kind in vars(module).items()`."""
        name = dotted(node) if self._index.late else None
        found: list[Scope] = []
        for iterated in self._iterated(node, name, scope) if name is not None else ():
            held = receiver(iterated) if method_name(iterated) in ("items", "values") else iterated
            found += self._members(self._modules_of_dict(held, scope, set())) if held is not None else []
        self._told.update(found)
        self.found.update(found)
        return found

    def registrations(self, node: cst.BaseExpression, scope: Scope) -> list[Scope | cst.BaseExpression]:
        """Return what a registry may give where it is asked: `REGISTRY.get(kind)`, `REGISTRY[kind]`."""
        if isinstance(node, cst.Subscript):
            held: cst.BaseExpression | None = node.value
        else:
            held = receiver(node) if isinstance(node, cst.Call) and node.args else None
        name = dotted(held)
        if name is None or not self.registered:
            return []
        kept = self.registered.get(self._variable(name, scope), [])
        storing = {method for method, _ in kept}
        return [] if method_name(node) in storing else [one for _, one in kept]

    @cached_property
    def registered(self) -> dict[Variable, list[tuple[str, Scope | cst.BaseExpression]]]:
        """What registries hold, by the variables that are registries, each with the method that took it.

        A registry is an object at the top level of a module, or of a class there, by whose method a class or function
        is decorated, or what is made as such a one is. What that method is given by a call is held too.
        """
        found: defaultdict[Variable, list[tuple[str, Scope | cst.BaseExpression]]] = defaultdict(list)
        for scope in self._index.scopes:
            node = scope.node
            outside = scope.parent is not None and scope.parent.kind == "module"
            for one in node.decorators if outside and isinstance(node, (cst.ClassDef, cst.FunctionDef)) else ():
                taker = one.decorator.func if isinstance(one.decorator, cst.Call) else one.decorator
                if isinstance(taker, cst.Attribute) and (registry := self._registry(taker.value)) is not None:
                    found[registry].append((taker.attr.value, scope))
        ways = {(self._maker(registry), method) for registry, kept in found.items() for method, _ in kept}
        for call in self._index.calls if found else ():
            held, method = receiver(call), method_name(call)
            registry = self._registry(held) if held is not None else None
            if registry is not None and (self._maker(registry), method) in ways:
                found[registry] += [(method, arg.value) for arg in call.args if dotted(arg.value) is not None]
        return dict(found)

    def _maker(self, registry: Variable) -> tuple[str, Scope | None]:
        """Return what a registry is made by, its full name, with the module where that is the module's own."""
        made = self._flow.sources(registry)[0].value
        full = self._index.qualified(made.func) if isinstance(made, cst.Call) else ""
        return full, None if "." in full else registry[0]

    def _variable(self, name: str, scope: Scope) -> Variable:
        """Return the variable that a name means, that of a class for an attribute of it."""
        holder, _, attribute = name.rpartition(".")
        outer, own = self._flow.variable(holder or name, scope)
        found = outer.inner.get(own) if holder else None
        if found is None or found.kind != "class":
            return self._flow.variable(name, scope)
        return found, attribute

    def _registry(self, node: cst.BaseExpression) -> Variable | None:
        """Return the variable of a module or class that an expression is, where it holds what a call makes."""
        name = dotted(node)
        if name is None:
            return None
        variable = self._variable(name, self._index.scope_of(node))
        made = [source.value for source in self._flow.sources(variable)]
        plain = variable[0].kind != "function" and "." not in variable[1]
        return variable if plain and len(made) == 1 and isinstance(made[0], cst.Call) else None

    @staticmethod
    def _asks_module(call: cst.Call) -> bool:
        return dotted(call.func) == "getattr" and len(call.args) >= 2 and not _literal(call.args[1].value)

    def _evaluates(self, call: cst.Call) -> bool:
        named = bool(call.args) and not _literal(call.args[0].value) and call in self._index.calls_to("eval")
        return named and not self._index.scope_of(call).binds("eval")  # the project's own is no lookup

    def _members(self, files: list[File], inside: bool = False) -> list[Scope]:
        """Return the classes and functions at the top level of some modules, and those that packages pass on.

        Args:
            files: the modules.
            inside: whether a module itself looks them up, which has those that it imports as well.
        """
        found: list[Scope] = []
        for file in files:
            found += file.scope.inner.values()
            stars = [one for one in self._index.files if one.name in file.stars] if inside else []
            names = [*file.aliases, *(name for one in stars for name in one.scope.inner)]
            for name in names if inside or file.source.path.name == "__init__.py" else ():
                here = self._index.importable(name, file.scope)
                found += [scope.inner[inside] for scope, inside in here if inside in scope.inner]
        return [one for one in dict.fromkeys(found) if self._index.holds(one)]

    def _modules_of_dict(self, node: cst.BaseExpression, scope: Scope, seen: set[object]) -> list[File]:
        if isinstance(node, cst.Attribute) and _is_dict(node):
            return self._modules(node.value, scope, seen)
        if isinstance(node, cst.Call) and self._index.qualified(node.func) in _VARS and node.args:
            return self._modules(node.args[0].value, scope, seen)
        return [self._index.file(node)] if node in self._index.calls_to("globals") else []

    def _modules(self, node: cst.BaseExpression | None, scope: Scope, seen: set[object]) -> list[File]:
        """Return the modules, perhaps imported by a name made at run time, of which an expression gives one."""
        found: list[File] = []
        name = dotted(node)
        if node is None or node in seen:
            return []
        if (imported := self._index.module_meant(node)) is not None:
            return [imported]
        if not self._index.late:
            return []
        seen.add(node)
        if isinstance(node, cst.IfExp):
            found = [*self._modules(node.body, scope, seen), *self._modules(node.orelse, scope, seen)]
        elif isinstance(node, cst.Call) and last_name(node.func) in ("import_module", "__import__"):
            found = self._imported(node, scope)
        elif isinstance(node, cst.Call):
            function = self._flow.called(node)
            for value in self._index.returned(function) if function is not None else ():
                found += self._modules(value, self._index.scope_of(value), seen)
        elif name is not None:
            for source in self._flow.sources(self._flow.variable(name, scope)):
                found += self._modules(source.value, source.scope, seen) if source.item is None else []
            for iterated in self._iterated(node, name, scope):
                found += self._elements(iterated, scope, seen)
        return list(dict.fromkeys(found))

    def _elements(self, node: cst.BaseExpression | None, scope: Scope, seen: set[object]) -> list[File]:
        """Return the modules of which a list gives one."""
        found: list[File] = []
        name = dotted(node)
        if isinstance(node, (cst.List, cst.Tuple)):
            found = [one for element in node.elements for one in self._modules(element.value, scope, seen)]
        elif isinstance(node, cst.BaseSimpleComp):
            found = self._modules(node.elt, scope, seen)
        elif name is not None:
            for source in self._flow.sources(self._flow.variable(name, scope)):
                found += self._elements(source.value, source.scope, seen)
        return found

    def _iterated(self, node: cst.BaseExpression, name: str, scope: Scope) -> list[cst.BaseExpression]:
        """Return what loops and comprehensions go through by a name, as it is where it stands."""
        found = [
            one.iter
            for around in self._index.ancestors(node)
            if isinstance(around, cst.BaseComp)
            for one in _comprehensions(around)
            if _binds(one.target, name)
        ]
        loops = [one.node for one in self._index.loops if one.scope is scope and isinstance(one.node, cst.For)]
        return found or [loop.iter for loop in loops if _binds(loop.target, name)]

    def _imported(self, call: cst.Call, scope: Scope) -> list[File]:
        """Return the modules of which a call imports one by a name made at run time, as far as its beginning tells."""
        named = call.args[0].value if call.args else None
        if named is None or _literal(named):
            return []
        begins = self._beginning(named, scope)
        return [file for file in self._index.late_files if begins.startswith(".") or file.name.startswith(begins)]

    def _beginning(self, node: cst.BaseExpression, scope: Scope) -> str:
        """Return how a string begins, as far as it is written down."""
        while isinstance(node, cst.BinaryOperation):
            node = node.left
        if isinstance(node, cst.FormattedString) and node.parts and isinstance(node.parts[0], cst.FormattedStringText):
            return node.parts[0].value
        return _literal(node) if "%" not in _literal(node) else _literal(node).partition("%")[0]
