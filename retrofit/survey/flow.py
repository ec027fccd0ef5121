"""Where a value comes from: names followed back through assignments, parameters and module wrappers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, takewhile

import libcst as cst

from retrofit.knowledge.kinds import ReturnsArguments, ReturnsModule, StartsProcesses, Wraps
from retrofit.survey.branches import exclude_each_other
from retrofit.survey.index import Index, Scope, Statement
from retrofit.survey.lookups import Lookups
from retrofit.survey.nodes import argument, attribute_asked, dotted, key_of, last_name, method_name, receiver

Variable = tuple[Scope, str]
#: So many arguments of a `*args` are followed, where a call has others in their place.
_MOST = 16


@dataclass(frozen=True, eq=False)
class Source:
    """One way in which a variable gets its value.

    Attributes:
        value: the expression that gives it, None where it is none of the project's.
        scope: the function that this stands in.
        item: which item of what it makes is meant, None for all of it.
        place: which item of the variable it is, as of `*args`, None where it is all of it.
    """

    value: cst.BaseExpression | None
    scope: Scope
    item: int | None = None
    place: int | None = None


@dataclass(frozen=True)
class Origin:
    """An expression at which a value is made.

    Attributes:
        node: the expression, a constructor's call in most cases.
        item: position in the returned tuple, None where the whole value is meant.
    """

    node: cst.BaseExpression
    item: int | None = None


def _gives(call: cst.Call, source: Source) -> bool:
    """Whether a call's arguments, or the object whose method it calls, give a parameter its value."""
    return source.value is receiver(call) or any(arg.value is source.value for arg in call.args)


def _may_be(key: cst.BaseExpression, asked: cst.BaseExpression | None) -> bool:
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


def _element(node: cst.BaseExpression, item: int) -> cst.BaseExpression | None:
    """Return an item of a tuple or list as it is written down, None where it cannot be told."""
    node = _gone_through(node)
    elements = node.elements[: item + 1] if isinstance(node, (cst.Tuple, cst.List)) else ()
    if len(elements) <= item or any(isinstance(one, cst.StarredElement) for one in elements):
        return None
    return elements[item].value


def _star_of(function: Scope) -> str:
    """Return the name of a function's `*args`, "" where it has none."""
    star = function.node.params.star_arg if isinstance(function.node, cst.FunctionDef) else None
    return star.name.value if isinstance(star, cst.Param) else ""


def _decorators(scope: Scope) -> set[str]:
    """Return the last names of what decorates a function."""
    nodes = scope.node.decorators if isinstance(scope.node, cst.FunctionDef) else ()
    return {last_name(one.decorator) for one in nodes}


def _written(made: cst.BaseExpression, key: str) -> Iterator[cst.BaseExpression]:
    """Yield what a display has by a key."""
    if isinstance(made, cst.Dict):
        for one in made.elements:
            written = one.key if isinstance(one, cst.DictElement) else None
            if isinstance(written, (cst.SimpleString, cst.Integer)) and repr(written.evaluated_value) == key:
                yield one.value
    elif isinstance(made, (cst.List, cst.Tuple)) and key.isdigit():
        element = _element(made, int(key))
        yield from [element] if element is not None else []


def _chosen_of(node: cst.BaseExpression | None) -> list[cst.BaseExpression]:
    """Return what an expression is one of, by a condition, for want of another or by a key; nothing for any other."""
    if isinstance(node, cst.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, cst.Or):
        return [node.left, node.right]
    if isinstance(node, cst.Subscript) and isinstance(node.value, cst.Dict):
        return [element.value for element in node.value.elements]
    return [node.value] if isinstance(node, cst.NamedExpr) else []


def _stars(call: cst.Call) -> bool:
    return any(arg.star for arg in call.args)


def _takes(function: Scope, call: cst.Call, more: bool = False) -> bool:
    """Whether a function has parameters for a call's arguments, and a call gives all that it must have.

    Args:
        more: whether it may give more than these.
    """
    if not isinstance(function.node, cst.FunctionDef) or any(arg.star for arg in call.args):
        return True
    params, method = function.node.params, function.parent is not None and function.parent.kind == "class"
    plain = [*params.posonly_params, *params.params][method:]
    given = sum(arg.keyword is None for arg in call.args)
    named = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    needed = {one.name.value for one in (*plain[given:], *params.kwonly_params) if one.default is None}
    known = {one.name.value for one in (*plain[given:], *params.kwonly_params)}
    fits = given <= len(plain) or isinstance(params.star_arg, cst.Param)
    return fits and (more or needed <= named) and (named <= known or params.star_kwarg is not None)


class Flow:
    """Follows values of a project.

    Args:
        index: its files.
        module_functions: qualified names of further functions that return their first argument's module, or that of
            another one, by its number: `name#1`.
    """

    def __init__(self, index: Index, module_functions: frozenset[str] = frozenset()) -> None:
        self.index = index
        self._numbers = {name: int(number or 0) for name, _, number in (one.partition("#") for one in module_functions)}
        known = index.knowledge
        self._wrappers = known.named(Wraps).keys()
        self._numbers = {name: one.argument for name, one in known.named(ReturnsModule).items()} | self._numbers
        self._functions = self._wrappers | self._numbers.keys()
        self._sources: dict[Variable, list[Source]] = defaultdict(list)
        self._callers: dict[Scope, list[cst.Call]] = defaultdict(list)
        self._passed: set[tuple[cst.Call, Scope]] = set()
        self._lineages: dict[Scope, list[Scope]] = {}
        self._variables: dict[tuple[str, Scope], Variable] = {}
        self._methods: dict[cst.Call, Scope] = {}
        self._members: dict[Variable, Variable] = {}
        self._passing: dict[tuple[cst.Call, int | None, cst.Call | None], list[Origin] | None] = {}
        self._looked_into: set[cst.Subscript] = set()
        #: The calls by which the function that is followed just now, and the one that calls it, are called.
        self._followed: dict[Scope, cst.Call] = {}
        self._known: dict[Variable, list[Origin]] | None = None  # none as long as values are still found
        self._deep: dict[Variable, set[Origin]] = {}
        self._made_of: dict[Variable, set[Origin]] = {}
        self._classes: dict[cst.Call, str] = {}
        self._functions_called: dict[cst.Call, Scope | None] = {}
        self._classes_with: dict[str, list[Scope]] = defaultdict(list)
        for scope in index.scopes:
            for name in scope.inner if scope.kind == "class" else ():
                self._classes_with[name].append(scope)
        for binding in index.bindings:
            variable = self.variable(binding.target, binding.statement.scope)
            self._sources[variable].append(Source(binding.value, binding.statement.scope, binding.item))
        self.lookups = Lookups(self)
        #: Methods that are read as attributes, or set as such.
        self._properties = {s for s in index.scopes if _decorators(s) & {"property", "cached_property", "setter"}}
        wrapping = [call for call in index.calls if index.qualified(call.func) in self._wrappers]
        #: Classes whose objects wrap themselves: only there it counts which object a method is called on.
        self._wrap_themselves = {
            index.scope_of(call).enclosing_class
            for call in wrapping
            if "self" in [dotted(arg.value) for arg in call.args]
        }
        #: What the name of each call means here: of which local function it is, or that of none.
        self._named = {call: self._function(call.func, index.scope_of(call)) for call in index.calls}
        self._given = {call: self._runs(call) for call in index.calls}
        for call in index.calls:
            for function in self._called_by_name(call):
                if not self._fails(call, function):
                    self._pass_arguments(call, function)
        for call in index.calls:
            for function in self._passed_to_run(call):
                self._pass_arguments(call, function)
        if self._properties:
            self._read_properties()
        self._method_names = {
            n for c in index.scopes if c.kind == "class" for n, s in c.inner.items() if s.kind == "function"
        }
        for _ in range(2):  # an object or a parameter may be known only where its holder's methods are, or its callers
            unknown = (call for call, function in self._named.items() if function is None)
            found = [(call, self._find_methods(call), self._chosen_to_run(call)) for call in unknown]
            for call, methods, functions in found:
                self._methods.pop(call, None)
                if len(methods) == 1:
                    self._methods[call] = methods[0]
                for function in (*methods, *functions):
                    self._pass_arguments(call, function)
            self._passing.clear()
            self._members.clear()
        self._known = {}

    def _read_properties(self) -> None:
        """Let properties be read as attributes: what they return is their value, and a call around runs them."""
        for node, scope in self.index.returns:
            if scope in self._properties:
                self._sources[self.variable(f"self.{scope.name}", scope)].append(Source(node.value, scope))
        for attribute in self.index.attributes:
            read = self.defined(attribute, self.index.scope_of(attribute))
            around = next((one for one in self.index.ancestors(attribute) if isinstance(one, cst.Call)), None)
            if read in self._properties and around is not None:
                self._callers[read].append(around)

    def behind_property(self, name: str, scope: Scope) -> str:
        """Return the attribute that a property gives, `runner._step` for `runner.step`; any other name as it is."""
        given = [one for one in self.sources(self.member(name, scope)) if one.scope in self._properties]
        holder, value = name.rpartition(".")[0], dotted(given[0].value) if len(given) == 1 else None
        return f"{holder}.{value.removeprefix('self.')}" if value is not None and value.startswith("self.") else name

    def variable(self, name: str, scope: Scope) -> Variable:
        """Return the variable that ``name`` means in ``scope``, by Python's scoping rules.

        Dotted names are variables of their own; `self.x` belongs to the class, and what is imported from another file
        of the project to that file.
        """
        if (name, scope) not in self._variables:
            self._variables[name, scope] = self._variable(name, scope)
        return self._variables[name, scope]

    def _variable(self, name: str, scope: Scope) -> Variable:
        first = name.partition(".")[0]
        if first == "self" and name != first:
            holder = scope.enclosing_class
            return (scope if holder is None else self.lineage(holder)[-1], name)
        here: Scope | None = scope
        while here is not None:
            skipped = here.kind == "class" and here is not scope
            if first in here.names and first not in here.outer and not skipped:
                return self.index.imported(name, here) or (here, name)
            here = here.parent
        return self.index.imported(name, scope.module) or (scope.module, name)

    def member(self, name: str, scope: Scope) -> Variable:
        """Return the variable that ``name`` means; of an object of a local class, `trainer.epoch`, the class's own."""
        holder, attribute = name.rpartition(".")[::2]
        if not holder or holder == "self":
            return self.variable(name, scope)
        origins = self.origins(cst.parse_expression(holder), scope)
        made = [deep.node for origin in origins for deep in (self.inside(origin) or [origin])]
        classes = {self.class_made(one) for one in made if isinstance(one, cst.Call)}
        found = classes.pop() if len(classes) == 1 else None
        if found is None:
            return self.variable(name, scope)
        return (self.lineage(found)[-1], f"self.{attribute}")

    def called(self, call: cst.Call) -> Scope | None:
        """Return the local function or method that ``call`` calls, as far as names and constructors tell."""
        if call in self._methods:
            return self._methods[call]
        if self._known is None:
            return self._function(call.func, self.index.scope_of(call))
        if call not in self._functions_called:
            found = self._functions_called[call] = self._function(call.func, self.index.scope_of(call))
            if found is None:  # as long as it is looked for, as a name may be bound to what its own call gives
                self._functions_called[call] = self._handed_over(call)
        return self._functions_called[call]

    def _handed_over(self, call: cst.Call) -> Scope | None:
        """Return the only function that is handed over to be called by a name: `train(net, each_epoch=train_epoch)`."""
        scope = self.index.scope_of(call)
        if dotted(call.func) is None or self._plain(call.func, scope) is None:
            return None
        meant = {self.defined(one.node, self.index.scope_of(one.node)) for one in self.origins(call.func, scope)}
        found = meant.pop() if len(meant) == 1 else None
        return found if found is not None and found.kind == "function" and found not in self._properties else None

    def _function(self, node: cst.BaseExpression, scope: Scope) -> Scope | None:
        found = self.defined(node, scope)
        if found in self._properties:
            return None  # what it returns is called
        return self._maker(found) if found is not None and found.kind == "class" else found

    def _maker(self, holder: Scope) -> Scope | None:
        """Return the method of a class that a call of it runs: `__init__`, or the `__new__` of one that has none."""
        return self._method(holder, "__init__") or self._method(holder, "__new__")

    def defined(self, node: cst.BaseExpression, scope: Scope) -> Scope | None:
        """Return the local function or class that a name means in ``scope``."""
        name = dotted(node)
        if name is None:
            return self._of_base(node, scope)
        if name.startswith("self.") and name.count(".") == 1 and scope.enclosing_class is not None:
            return self._method(scope.enclosing_class, name.removeprefix("self."))
        holder, name = self.variable(name, scope)
        owner = holder.inner.get(name.rpartition(".")[0])
        if owner is not None and owner.kind == "class":
            return self._method(owner, name.rpartition(".")[2])
        return self._standing(holder.inner[name], node) if name in holder.inner else None

    def _standing(self, found: Scope, node: cst.BaseExpression | None) -> Scope:
        """Return the function or class that a name means where it is read, of those that branches define by it."""
        here = self.index.statement(node) if node is not None and node in self.index.parents else None
        while here and found.earlier and exclude_each_other(self.index.statement(found.node), here):
            found = found.earlier
        return found

    def class_made(self, node: cst.CSTNode) -> Scope | None:
        """Return the local class of which a call makes an object."""
        found = self.defined(node.func, self.index.scope_of(node)) if isinstance(node, cst.Call) else None
        return found if found is not None and found.kind == "class" else None

    def _of_base(self, node: cst.BaseExpression, scope: Scope) -> Scope | None:
        """Return the base class's method that `super().name` means."""
        holder = scope.enclosing_class
        if holder is None or not isinstance(node, cst.Attribute) or not isinstance(node.value, cst.Call):
            return None
        if dotted(node.value.func) != "super":
            return None
        return next((c.inner[node.attr.value] for c in self.lineage(holder)[1:] if node.attr.value in c.inner), None)

    def lineage(self, holder: Scope) -> list[Scope]:
        """Return a class and its local base classes, the first base of each."""
        if holder not in self._lineages:
            found = self._lineages[holder] = [holder]
            while isinstance(node := found[-1].node, cst.ClassDef) and node.bases:
                base = self.defined(node.bases[0].value, found[-1].parent or holder)
                if base is None or base.kind != "class" or base in found:
                    break
                found.append(base)
        return self._lineages[holder]

    def _method(self, holder: Scope, name: str) -> Scope | None:
        """Return a method of a class: its own, an inherited one, or the one that its only subclass has for it."""
        found = next((c.inner[name] for c in self.lineage(holder) if name in c.inner), None)
        if found is not None and found not in self.index.refusing:
            return found
        heirs = [c for c in self._classes_with[name] if c is not holder and holder in self.lineage(c)]
        return heirs[0].inner[name] if len(heirs) == 1 else found

    def _called_by_name(self, call: cst.Call) -> list[Scope]:
        """Return the functions that a call may run, as far as its name tells: of `self.method()` each subclass's too.

        A closure that is handed to `optimizer.step` is run there.
        """
        scope = self.index.scope_of(call)
        name = dotted(call.func) or ""
        function = self._named[call]
        if name.startswith("self.") and name.count(".") == 1 and scope.enclosing_class is not None:
            holder, method = scope.enclosing_class, name.removeprefix("self.")
            heirs = [c.inner[method] for c in self._classes_with[method] if holder in self.lineage(c)[1:]]
            heirs = [heir for heir in heirs if heir not in self._properties]
            if found := list(dict.fromkeys([*([] if function is None else [function]), *heirs])):
                return found
        if function is not None:
            return [function]
        runs = [self._function(given, scope) for given in self._given[call]]
        return [function for function in runs if function is not None] or self._chosen_to_run(call)

    def _chosen_to_run(self, call: cst.Call) -> list[Scope]:
        """Return the functions of which a call runs one by a name for it, such as a parameter, or out of a dict."""
        if self._given[call]:
            return []
        meant = [self._maker(s) if s.kind == "class" else s for s in self.chosen(call)]
        functions = [function for function in meant if function is not None]
        return [function for function in functions if _takes(function, call)] or functions

    def _fails(self, call: cst.Call, function: Scope) -> bool:
        """Whether a call by name ends in a TypeError, for want of arguments, before anything of a function runs."""
        plain = isinstance(call.func, cst.Name) and function.parent is not None and function.parent.kind != "class"
        own = plain and not _decorators(function) and self._named[call] is function
        return own and not _takes(function, call)

    def _runs(self, call: cst.Call) -> list[cst.BaseExpression]:
        """Return the function that a call is given to run: in processes, or as an optimizer's closure."""
        if self.spawns(call):
            given = argument(call, "fn", 0)
        elif self.starts_process(call):
            given = argument(call, "target")
        elif method_name(call) == "step":
            given = argument(call, "closure", 0)
        else:
            given = None
        return [] if given is None else [given]

    def _passed_to_run(self, call: cst.Call) -> list[Scope]:
        """Return the functions that a call may be given to run by a name for them, as a parameter is one."""
        given, scope = self._given[call], self.index.scope_of(call)
        if not given or self._function(given[0], scope) is not None:
            return []
        origins = self.origins(given[0], scope)
        found = [self._function(origin.node, self.index.scope_of(origin.node)) for origin in origins]
        return list(dict.fromkeys(function for function in found if function is not None))

    def spawns(self, call: cst.Call) -> bool:
        """Whether a call starts processes, and waits for them: it is given a function and its arguments."""
        known = self.index.knowledge.known(StartsProcesses, self.index.qualified(call.func))
        return known is not None and known.how == "spawn"

    def starts_process(self, call: cst.Call) -> bool:
        """Whether a call makes a process of Python's `multiprocessing`, perhaps of one of its contexts."""
        known = self.index.knowledge.known(StartsProcesses, self.index.qualified(call.func))
        if known is not None and known.how == "process":
            return True
        return method_name(call) == "Process" and argument(call, "target") is not None

    def chosen(self, call: cst.Call) -> list[Scope]:
        """Return the local functions or classes of which a call calls one that is chosen.

        Of those that a name made at run time finds, they are the ones that take the call's arguments; where it gives
        none that is written down, nothing tells which are meant.
        """
        found = self.choices(call.func, self.index.scope_of(call))
        if self.lookups.found.isdisjoint(found):
            return found
        told = any(not arg.star for arg in call.args)
        return [one for one in found if told and self._accepts(one, call)]

    def _accepts(self, meant: Scope, call: cst.Call) -> bool:
        """Whether the arguments that are written down in a call fit a function, or the constructor of a class."""
        function = self._maker(meant) if meant.kind == "class" else meant
        if function is None:
            return self.root(meant) not in ("", "object")
        return _takes(function, call.with_changes(args=[arg for arg in call.args if not arg.star]), _stars(call))

    def _may_have(self, holder: Scope, attributes: Collection[str]) -> bool:
        """Whether the objects of a class may have some attributes: what it defines or sets, or extends unseen."""
        lineage = self.lineage(holder)
        known = {name for one in lineage for name in one.names}
        unseen = self.root(holder) not in ("", "object")
        return unseen or all(one in known or self._sources.get((lineage[-1], f"self.{one}")) for one in attributes)

    @cached_property
    def _attributes(self) -> dict[Variable, set[str]]:
        """What is asked of the objects that variables hold, but for what the code asks whether it is there."""
        found: defaultdict[Variable, set[str]] = defaultdict(set)
        asked = [one.args[1].value for one in self.index.calls if dotted(one.func) == "hasattr" and len(one.args) == 2]
        perhaps = {one.evaluated_value for one in asked if isinstance(one, cst.SimpleString)}
        for node in self.index.attributes:
            name = dotted(node.value)
            if name is not None and node.attr.value not in perhaps:
                scope = self.index.scope_of(node)
                if not self._sources.get(self.variable(f"{name}.{node.attr.value}", scope)):
                    found[self.variable(name, scope)].add(node.attr.value)
        return found

    def choices(
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
            seen: the variables that were followed already.
            key: the key of the item that is meant of a dict.
            item: which item of a tuple or list is meant then, None where it is none of one.
        """
        found: list[Scope] = []
        seen = set() if seen is None else seen
        if item is not None and node is not None and (part := _element(node, item)) is not None:
            node, item = part, None
        if isinstance(node, cst.IfExp):
            found = [one for way in (node.body, node.orelse) for one in self.choices(way, scope, seen, key, item)]
        elif isinstance(node, cst.Dict):
            items = [one for one in node.elements if not isinstance(one, cst.DictElement) or _may_be(one.key, key)]
            found = [one for element in items for one in self.choices(element.value, scope, seen, item=item)]
        elif isinstance(node, cst.Subscript):
            index = node.slice[0].slice
            found = self.choices(node.value, scope, seen, index.value if isinstance(index, cst.Index) else None, item)
            found += self.lookups.definitions(node, scope)
        elif isinstance(node, cst.Call):
            found = self._looked_up(node, scope, seen)
        elif node is not None and (name := dotted(node)) is not None:
            variable = self.variable(name, scope)
            meant = self.index.importable(variable[1], variable[0]) or [variable]
            found = [self._standing(here.inner[one], node) for here, one in meant if one in here.inner]
            if (variable, key, item) not in seen:
                seen.add((variable, key, item))
                for source in self.sources(variable):
                    of_it = item if source.item is None else source.item
                    found += self.choices(source.value, source.scope, seen, key, of_it)
                for one in self._put_in.get(variable, ()) if key is not None else ():
                    found += self.choices(one.value, one.scope, seen, item=item)
                found += [*self.lookups.looped(node, scope), *self.lookups.member(node, scope)]
        elif node is not None:
            found = self.lookups.member(node, scope)
        return [scope for scope in dict.fromkeys(found) if self.index.holds(scope)]

    @cached_property
    def _put_in(self) -> dict[Variable, list[Source]]:
        """What dicts that variables hold are given by keys made at run time: `names[name] = getattr(module, kind)`."""
        found = defaultdict[Variable, list[Source]](list)
        for binding in self.index.items:
            target, scope = cst.parse_expression(binding.target), binding.statement.scope
            held = dotted(target.value) if isinstance(target, cst.Subscript) else None
            if held is not None and key_of(target) is None and binding.value is not None and binding.item is None:
                found[self.variable(held, scope)].append(Source(binding.value, scope))
        return found

    def _looked_up(self, call: cst.Call, scope: Scope, seen: set[object]) -> list[Scope]:
        """Return what a call gives that looks something up, or calls a local function that does and returns it."""
        found = self.lookups.definitions(call, scope)
        if found or call in seen:
            return found
        seen.add(call)
        if dotted(call.func) == "next" and call.args and isinstance(call.args[0].value, cst.GeneratorExp):
            return self.choices(call.args[0].value.elt, scope, seen)
        function = self.called(call)
        for value in self.index.returned(function) if function is not None else ():
            found += self.choices(value, self.index.scope_of(value), seen)
        return found

    def _find_methods(self, call: cst.Call) -> list[Scope]:
        """Return the methods that a call on an object of local classes may run, or the objects' `__call__`."""
        ways = [(call.func, "__call__")]
        if (held := receiver(call)) is not None:
            ways.append((held, method_name(call)))
        for operand, name in ways:
            if name not in self._method_names or dotted(operand) == "self":
                continue
            if dotted(operand) is None and not isinstance(operand, cst.Call):
                continue
            origins = self.origins(operand, self.index.scope_of(call))
            origins += [deep for origin in origins for deep in self.inside(origin)]
            made = [origin.node for origin in origins if isinstance(origin.node, cst.Call)]
            methods: dict[Scope, None] = {}
            for node in made:
                scope = self.index.scope_of(node)
                defined = self.defined(node.func, scope)
                for one in [defined] if defined is not None else self.chosen(node):
                    method = self._method(one, name) if one.kind == "class" and self._fits(one, operand, call) else None
                    if method is not None and method not in self._properties:
                        methods.setdefault(method)
            if methods:
                return list(methods)
        return []

    def _fits(self, holder: Scope, operand: cst.BaseExpression, call: cst.Call) -> bool:
        """Whether an object may be of a class that was looked up, by all that is asked of what has the same name."""
        name = dotted(operand)
        if name is None or holder not in self.lookups.found:
            return True
        return self._may_have(holder, self._attributes[self.variable(name, self.index.scope_of(call))])

    def callers(self, function: Scope) -> list[cst.Call]:
        """Return the calls of a local function, `mp.spawn(function, ...)` among them."""
        return self._callers[function]

    def leading(self, statement: Statement) -> list[Statement]:
        """Return a statement, and those whose calls lead to it, at any depth."""
        found = {statement: None}
        waiting = [statement]
        while waiting:
            calls = {self.index.statement(call): None for call in self.callers(waiting.pop().scope)}
            waiting += [call for call in calls if call not in found]
            found |= calls
        return list(found)

    def on_every_way(self, node: cst.CSTNode, holds: Callable[[cst.CSTNode], bool]) -> bool:
        """Whether something holds of a node, or of a call on each way of calls that leads to its function."""
        known: dict[Scope, bool] = {}

        def told(here: cst.CSTNode) -> bool:
            if holds(here):
                return True
            scope = self.index.scope_of(here)
            if scope not in known:
                known[scope] = False  # where the function calls itself
                calls = self.callers(scope) if scope.kind == "function" else []
                known[scope] = bool(calls) and all(map(told, calls))
                holder = scope.parent.inner if scope.parent is not None and scope.parent.kind == "class" else {}
                if not known[scope] and holder.get("__init__", scope) is not scope:  # of an object that is not made
                    known[scope] = bool(made := self.callers(holder["__init__"])) and all(map(told, made))
            return known[scope]

        return told(node)

    def _pass_arguments(self, call: cst.Call, function: Scope) -> None:
        if (call, function) in self._passed:
            return
        self._passed.add((call, function))
        scope = self.index.scope_of(call)
        method = function.parent is not None and function.parent.kind == "class"
        parameters = function.parameters[1:] if method and self._binds(call, function) else function.parameters
        spawned = self.spawns(call)
        given = call.args
        if spawned or self.starts_process(call):
            passed = argument(call, "args", 1) if spawned else argument(call, "args")
            given = [cst.Arg(passed, star="*")] if passed is not None else []
            parameters = function.parameters[1:] if spawned else parameters
        self._callers[function].append(call)
        if method and function.parent in self._wrap_themselves and isinstance(call.func, cst.Attribute):
            self._sources[(function, "self")].append(Source(call.func.value, scope))
        for arg in given:
            if arg.keyword is not None and arg.keyword.value in function.parameters:
                self._sources[(function, arg.keyword.value)].append(Source(arg.value, scope))
        plain = [arg for arg in given if arg.keyword is None and arg.star != "**"]
        star = _star_of(function)
        number = parameters.index(star) if star in parameters else len(parameters)
        places: list[tuple[str, int | None]] = [(parameter, None) for parameter in parameters[:number]]
        places += [(star, place) for place in range(_MOST if star in parameters else 0)]
        for (parameter, place), source in zip(places, self._in_order(plain, scope), strict=False):
            self._sources[(function, parameter)].append(replace(source, place=place))

    def _binds(self, call: cst.Call, method: Scope) -> bool:
        """Whether what a method is called on is its first parameter, as it is not in `Class.method(net)`."""
        kinds = _decorators(method)
        if "staticmethod" in kinds or "classmethod" in kinds:
            return "classmethod" in kinds
        owner = receiver(call)
        named = self.defined(owner, self.index.scope_of(call)) if owner is not None and dotted(owner) else None
        return named is None or named.kind != "class"

    @staticmethod
    def _in_order(given: Sequence[cst.Arg], scope: Scope) -> Iterator[Source]:
        """Yield what a call gives its parameters by position; of what a star takes apart, its items, as far as told."""
        for arg in given:
            if not arg.star:
                yield Source(arg.value, scope)
                continue
            elements = arg.value.elements if isinstance(arg.value, (cst.Tuple, cst.List)) else ()
            told = elements and not any(isinstance(one, cst.StarredElement) for one in elements)
            yield from (Source(arg.value, scope, item) for item in (range(len(elements)) if told else count()))

    def module_operand(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """Return the module that ``node`` passes on: `x` for `x.cuda()`, `DDP(x)`, `x.module`; else None."""
        if isinstance(node, cst.Attribute) and node.attr.value in ("module", "_orig_mod"):
            return node.value
        if not isinstance(node, cst.Call):
            return None
        if attribute_asked(node) in ("module", "_orig_mod"):
            return node.args[0].value
        if method_name(node) in self.index.knowledge.module_methods:
            return receiver(node)
        name = self.class_called(node)
        if name in self._functions:
            return self.wrapped(node, self._numbers.get(name, 0))
        return None

    def wrapped(self, call: cst.Call, behind: int = 0) -> cst.BaseExpression | None:
        """Return what the call of a wrapper wraps, also behind what an own class takes: `Balanced(size, model)`.

        Args:
            behind: how many arguments come before it, where no class of the project says so.
        """
        defined = self.class_made(call)
        init = self._method(defined, "__init__") if defined is not None else None
        if init is not None and isinstance(init.node, cst.FunctionDef):
            names = [param.name.value for param in init.node.params.params[1:]]
            passes_on = isinstance(init.node.params.star_arg, cst.Param)
            behind = next((n for n, name in enumerate(names) if name in ("module", "model")), len(names) * passes_on)
        named = [arg.value for arg in call.args if arg.keyword and arg.keyword.value in ("module", "model")]
        plain = [arg.value for arg in takewhile(lambda arg: not arg.star, call.args) if arg.keyword is None]
        return next(iter([*named, *plain[behind : behind + 1]]), None)

    def class_called(self, call: cst.Call) -> str:
        """Return the full name of what is called, for a class of the project that extends a wrapper the wrapper's."""
        if self._known is None:
            return self._class_called(call)
        if call not in self._classes:
            self._classes[call] = self._class_called(call)
        return self._classes[call]

    def _class_called(self, call: cst.Call) -> str:
        name = self.index.qualified(call.func)
        written = dotted(call.func)
        if written is not None and not name.startswith("torch."):
            holder, inside = self.variable(written, self.index.scope_of(call))
            file = holder.file
            if file is not None and inside in file.aliases and file.scope is not self.index.file(call).scope:
                name = file.aliases[inside]  # a module of the project passes it on
        meant = {full for full, _ in self.meanings(call.func, self.index.scope_of(call))}
        if len(meant) == 1 and meant <= self._functions:
            name = meant.pop()  # a variable of the script: `DDP = nn.parallel.DistributedDataParallel`
        ddp, dp = (meant & names for names in self.index.knowledge.wrappers.values())
        name = next(iter(ddp or dp), name)
        if name.rpartition(".")[2] in self._wrapper_classes:
            defined = self.class_made(call)
            return name if defined is None else self.root(defined)
        return name

    def meanings(
        self,
        node: cst.BaseExpression | None,
        scope: Scope,
        given: tuple[cst.Arg, ...] = (),
        seen: frozenset[Variable] = frozenset(),
    ) -> Iterator[tuple[str, tuple[cst.Arg, ...]]]:
        """Yield the full names that a class or function may have, through variables, conditions, dicts and partials.

        Each comes with the arguments that partials give it. A name is empty for what has none.
        """
        name = dotted(node)
        if isinstance(node, cst.Dict):
            for element in node.elements:
                yield from self.meanings(element.value, scope, given, seen)
        elif isinstance(node, cst.Subscript):
            yield from self.meanings(node.value, scope, given, seen)
        elif chosen := _chosen_of(node):
            for one in chosen:
                yield from self.meanings(one, scope, given, seen)
        elif isinstance(node, cst.Call) and self.index.qualified(node.func) == "functools.partial" and node.args:
            yield from self.meanings(node.args[0].value, scope, (*given, *node.args[1:]), seen)
        elif node is None or name is None:
            yield "", given
        else:
            variable, full = self.variable(name, scope), self.index.qualified(node)
            sources = () if full.startswith("torch.") else self.sources(variable)
            for source in sources if variable not in seen else ():
                yield from self.meanings(source.value, source.scope, given, seen | {variable})
            if not sources:
                yield full, given

    @cached_property
    def _wrapper_classes(self) -> set[str]:
        """The names by which classes of the project that extend a wrapper may be called."""
        names = {c.name for c in self.index.scopes if c.kind == "class" and self.root(c) in self._functions}
        for file in self.index.files:
            names |= {name for name, full in file.aliases.items() if full.rpartition(".")[2] in names}
        return names

    def root(self, holder: Scope) -> str:
        """Return the full name of the first class beyond the project that a class of the project extends, or ""."""
        first = self.lineage(holder)[-1].node
        return self.index.qualified(first.bases[0].value) if isinstance(first, cst.ClassDef) and first.bases else ""

    def origins(self, node: cst.BaseExpression, scope: Scope, item: int | None = None) -> list[Origin]:
        """Return the expressions at which the value of ``node``, or an item of it, is made."""
        variable = self._plain(node, scope) if item is None else None
        if variable is None or self._known is None:
            return list(dict.fromkeys(self._trace(node, scope, item, set())))
        if variable not in self._known:
            self._known[variable] = list(dict.fromkeys(self._trace(node, scope, None, set())))
        return list(self._known[variable])

    def origins_by(self, node: cst.BaseExpression, scope: Scope, calls: Iterable[cst.Call]) -> list[Origin]:
        """Return where the value of ``node`` is made, as far as some of the calls of its function give it."""
        followed, found = self._followed, list[Origin]()
        for call in calls:
            self._followed = {**followed, scope: call}
            found += self._trace(node, scope, None, set())
        self._followed = followed
        return list(dict.fromkeys(found))

    def _plain(self, node: cst.BaseExpression, scope: Scope) -> Variable | None:
        """Return the variable that an expression is, None where it is more, or the variable never gets a value."""
        name = dotted(node) if self.module_operand(node) is None else None
        variable = self.variable(name, scope) if name is not None else None
        return variable if variable is not None and self._sources.get(variable) else None

    def _trace(self, node: cst.BaseExpression, scope: Scope, item: int | None, seen: set[object]) -> Iterator[Origin]:
        operand = self.module_operand(node)
        if operand is not None:
            yield from self._trace(operand, scope, item, seen)
        elif chosen := _chosen_of(node):
            for one in chosen:
                yield from self._trace(one, scope, item, seen)
        elif isinstance(node, (cst.Name, cst.Attribute)) and (name := dotted(node)) is not None:
            variable = self.variable(name, scope)
            if self._sources.get(variable):
                yield from self._trace_variable(variable, seen, item)
            elif variable not in seen:
                seen.add(variable)
                yield Origin(node, item)
        elif isinstance(node, cst.Subscript) and (kept := self._kept(node, scope)):
            for value, inside, number in kept:
                if value not in seen:
                    seen.add(value)
                    yield from self._trace(value, inside, item if number is None else number, seen)
        elif item is not None and (part := _element(node, item)) is not None:
            yield from self._trace(part, scope, None, seen)
        elif isinstance(node, cst.Call) and (given := self._handed_through(node, item)) is not None:
            yield from self._trace(given, scope, None, seen)
        elif isinstance(node, cst.Call) and (passed_on := self._passed_on(node, item)) is not None:
            yield from passed_on
        else:
            yield Origin(node, item)

    def _trace_variable(self, variable: Variable, seen: set[object], item: int | None = None) -> Iterator[Origin]:
        if (variable, item) in seen:
            return
        seen.add((variable, item))
        found = False
        call = self._followed.get(variable[0]) if variable[1] in variable[0].parameters else None
        for source in self._sources.get(variable, ()):
            if call is not None and source.scope is not variable[0] and not _gives(call, source):
                continue  # it is what another call gives
            if None not in (item, source.place) and item != source.place:
                continue
            wanted = source.item if source.item is not None or source.place is not None else item
            if source.value is not None:
                for origin in self._trace(source.value, source.scope, wanted, seen):
                    found = True
                    yield origin
        scope, name = variable
        if not found and "." in name:  # only changed here: `trainer.model = DDP(trainer.model)`
            if variable not in self._members:
                self._members[variable] = variable  # while it is looked for, as an object may be its own part
                self._members[variable] = self.member(name, scope)
            for origin in self._trace_variable(self._members[variable], seen, item):
                found = True
                yield origin
        if not found and "." in name and (before := self._before_it_changes(variable)) is not None:
            yield Origin(before, item)

    def _before_it_changes(self, variable: Variable) -> cst.BaseExpression | None:
        """Return what an attribute is made of that gets all its values from itself: `algo.model = DDP(algo.model)`.

        That may be by a local function: `algo.model = wrap(algo.model)`.
        """
        for source in self._sources.get(variable, ()):
            node = source.value
            while node is not None and (operand := self.module_operand(node)) is not None:
                node = operand
            given = [arg.value for arg in node.args] if isinstance(node, cst.Call) and self.called(node) else []
            itself = [one for one in (node, *given) if one is not source.value and dotted(one) == variable[1]]
            if itself:
                return itself[0]
        return None

    def _kept(self, node: cst.Subscript, scope: Scope) -> list[tuple[cst.BaseExpression, Scope, int | None]]:
        """Return what an item of a dict or list is given, where its key is written down, and the dict is made."""
        key = key_of(node)
        if self._known is None or key is None or node in self._looked_into:
            return []
        self._looked_into.add(node)  # `state = state["model"]`: what holds it may be made of it
        found: list[tuple[cst.BaseExpression, Scope, int | None]] = []
        for made in self._holders(node.value, scope):
            found += [(value, self.index.scope_of(value), None) for value in _written(made, key)]
            found += self._items.get((made, key), ())
        self._looked_into.remove(node)
        return found

    def _holders(self, node: cst.BaseExpression, scope: Scope) -> list[cst.BaseExpression]:
        """Return where a dict or list is made, of which an item is taken or given."""
        made = self.deep_origins(node, scope) if dotted(node) is not None else self.origins(node, scope)
        return [origin.node for origin in made if dotted(origin.node) is None]

    @cached_property
    def _items(self) -> dict[tuple[cst.BaseExpression, str], list[tuple[cst.BaseExpression, Scope, int | None]]]:
        """What items of dicts and lists are given after these are made, by where they are made and the key."""
        found = self.__dict__["_items"] = defaultdict(list)  # while it is looked for, as an item may hold a dict itself
        for binding in self.index.items:
            target, scope = cst.parse_expression(binding.target), binding.statement.scope
            key = key_of(target)
            if isinstance(target, cst.Subscript) and key is not None and binding.value is not None:
                for made in self._holders(target.value, scope):
                    found[made, key].append((binding.value, scope, binding.item))
        return found

    def _handed_through(self, call: cst.Call, item: int | None) -> cst.BaseExpression | None:
        """Return which argument a function of a library hands back as it is, None for any other function."""
        known = self.index.knowledge.known(ReturnsArguments, self.index.qualified(call.func))
        names, number = known.arguments if known is not None else (), item or 0
        if number >= len(names):
            return None
        plain = [arg.value for arg in call.args if arg.keyword is None]
        by_name = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
        return by_name.get(names[number], plain[number] if number < len(plain) else None)

    def _passed_on(self, call: cst.Call, item: int | None) -> list[Origin] | None:
        """Return the origins that a local function, such as a helper that wraps a model, passes on from a call of it.

        None where the function makes the value itself. Two calls are told apart, the inner one of a function by which
        that one is called; beyond that a parameter may be what any call gives.
        """
        function = self.called(call)
        if function is None or function.name == "__init__":
            return None
        scope, followed = self.index.scope_of(call), self._followed
        around = followed.get(scope)
        if (call, item, around) not in self._passing:
            self._passing[call, item, around] = []  # while it is followed, as it may call itself
            self._followed = {**({scope: around} if around is not None else {}), function: call}
            values = self.returned(function, item)
            found = [origin for value, left in values for origin in self._trace(value, function, left, set())]
            self._followed = followed
            outside = [origin for origin in dict.fromkeys(found) if not self._made_in(origin.node, function)]
            self._passing[call, item, around] = outside or None
        return self._passing[call, item, around]

    def returned(self, function: Scope, item: int | None) -> list[tuple[cst.BaseExpression, int | None]]:
        """Return the expressions that a function returns, or their ``item`` where they are tuples.

        The item is given with an expression of which it is still to be taken.
        """
        values = self.index.returned(function)
        if item is None:
            return [(value, None) for value in values]
        tuples = [value for value in values if isinstance(value, cst.Tuple)]
        found: list[tuple[cst.BaseExpression, int | None]] = [
            (value.elements[item].value, None) for value in tuples if item < len(value.elements)
        ]
        # Beside them, a name alone is returned to who takes one value.
        others = (v for v in values if v not in tuples and not (found and isinstance(v, (cst.Name, cst.Attribute))))
        return found + [(value, item) for value in others]

    def _made_in(self, node: cst.CSTNode, function: Scope) -> bool:
        return any(ancestor is function.node for ancestor in self.index.ancestors(node))

    def inside(self, origin: Origin) -> list[Origin]:
        """Return where a local function makes the value that ``origin``, a call of it, stands for."""
        call = origin.node
        function = self.called(call) if isinstance(call, cst.Call) else None
        if not isinstance(call, cst.Call) or function is None or function.name == "__init__":
            return []
        followed, self._followed = self._followed, {function: call}
        values = self.returned(function, origin.item)
        found = list(dict.fromkeys(o for value, left in values for o in self._trace(value, function, left, set())))
        self._followed = followed
        return found

    def closure(self, origins: set[Origin]) -> set[Origin]:
        """Return ``origins`` together with those inside the local functions that make them."""
        found: set[Origin] = set()
        waiting = list(origins)
        while waiting:
            origin = waiting.pop()
            if origin not in found:
                found.add(origin)
                waiting += self.inside(origin)
        return found

    def deep_origins(self, node: cst.BaseExpression, scope: Scope) -> set[Origin]:
        """Return the origins of ``node`` together with those inside the local functions that make them."""
        variable = self._plain(node, scope)
        if variable is None or self._known is None:
            return self.closure(set(self.origins(node, scope)))
        if variable not in self._deep:
            self._deep[variable] = self.closure(set(self.origins(node, scope)))
        return self._deep[variable]

    def sources(self, variable: Variable) -> list[Source]:
        """Return every value that ``variable`` is given anywhere."""
        return self._sources.get(variable, [])

    def given(self, node: cst.BaseExpression, scope: Scope) -> list[Source]:
        """Return every value that a variable, or the attribute or item of an object, is given in any function."""
        name = dotted(node)
        found = list(self.sources(self.variable(name, scope))) if name is not None else []
        if isinstance(node, (cst.Attribute, cst.Subscript)):
            part = self.index.source.code(node)[len(self.index.source.code(node.value)) :]
            others = [b for b in (*self.index.bindings, *self.index.items) if b.target.endswith(part)]
            holders = self.deep_origins(node.value, scope) if others else set()
            for b in others:
                holder, inside = cst.parse_expression(b.target[: -len(part)]), b.statement.scope
                if not holders.isdisjoint(self.deep_origins(holder, inside)):
                    found.append(Source(b.value, inside, b.item))
        return found

    def names_of(self, origins: set[Origin], scope: Scope) -> list[str]:
        """Return the names visible in ``scope`` whose value may be one of ``origins``, the nearest first."""
        found: list[str] = []
        for name, here in self._visible(scope):
            variable = self.variable(name, here)
            if variable not in self._made_of:
                self._made_of[variable] = self.closure(set(self._trace_variable(variable, set())))
            if not origins.isdisjoint(self._made_of[variable]):
                found.append(name)
        return found

    def _visible(self, scope: Scope) -> Iterator[tuple[str, Scope]]:
        shadowed: set[str] = set()
        around: list[Scope] = []
        here: Scope | None = scope
        while here is not None:
            if here.kind != "class" or here is scope:
                for name in [*here.parameters, *sorted(here.names - set(here.parameters))]:
                    if name not in shadowed and name not in here.outer:
                        shadowed.add(name)
                        yield name, here
                around.append(here)
            here = here.parent
        for owner, name in list(self._sources):  # attributes of objects that have names here
            first = name.partition(".")[0]
            if owner in around and first != name and first != "self" and self.variable(first, scope)[0] is owner:
                yield name, scope
        if scope.enclosing_class is not None:
            holder = self.lineage(scope.enclosing_class)[-1]
            for owner, name in list(self._sources):
                if owner is holder and name.startswith("self."):
                    yield name, scope

    def enclosing_loops(self, statement: Statement, seen: frozenset[Scope] = frozenset()) -> Iterator[list[Statement]]:
        """Yield the loops around ``statement``, innermost first, once for each way of calls that leads there.

        A loop that starts processes and waits for none of them, as for one on each GPU, is not around what they do.
        """
        loops = [s for s in (statement, *statement.around) if isinstance(s.node, (cst.For, cst.While))]
        scope = statement.scope
        callers = [] if scope.kind != "function" or scope in seen else self.callers(scope)
        if not callers:
            yield loops
        for call in callers:
            for outer in self.enclosing_loops(self.index.statement(call), seen | {scope}):
                yield [*loops, *(one for one in outer if not self._starts_side_by_side(one, call))]

    def _starts_side_by_side(self, loop: Statement, call: cst.Call) -> bool:
        if not self.starts_process(call) or loop not in self.index.statement(call).path:
            return False
        joining = [self.index.statement(call) for call, _ in self.index.method_calls("join") if not call.args]
        return not any(loop in one.path for one in joining)

    def uncalled(self, statement: Statement) -> Scope | None:
        """Return the function around a statement, or one that leads to it, that nothing calls; None where all are."""
        scope, seen = statement.scope, set()
        while scope.kind == "function" and scope not in seen:
            seen.add(scope)
            callers = self.callers(scope)
            if not callers:
                return scope
            scope = self.index.scope_of(callers[0])
        return None
