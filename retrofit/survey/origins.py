"""Where a value comes from: names followed back through assignments, parameters and module wrappers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, takewhile
from operator import itemgetter

import libcst as cst

from retrofit.knowledge.kinds import ReturnsArguments, ReturnsModule, Wraps
from retrofit.survey.displays import chosen_of, item_of, written
from retrofit.survey.index import Index
from retrofit.survey.names import Names, Source, Variable, decorators
from retrofit.survey.nodes import attribute_asked, dotted, key_of, method_name, receiver
from retrofit.survey.scopes import Scope

#: What makes an object, or a dict, that has what its keywords name.
_OF_KEYWORDS = frozenset({"dict", "types.SimpleNamespace", "argparse.Namespace"})


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


class Origins(Names):
    """Follows values of a project.

    Args:
        index: its files.
        module_functions: qualified names of further functions that return their first argument's module, or that of
            another one, by its number: `name#1`.
    """

    def __init__(self, index: Index, module_functions: frozenset[str]) -> None:
        super().__init__(index)
        further = {name: int(number or 0) for name, _, number in (one.partition("#") for one in module_functions)}
        self._numbers = {name: one.argument for name, one in index.knowledge.named(ReturnsModule).items()} | further
        self._wrappers = index.knowledge.named(Wraps).keys()
        self._functions = self._wrappers | self._numbers.keys()
        self._methods: dict[cst.Call, Scope] = {}
        #: The methods of which a call runs one, as its object may be of several classes.
        self._one_of: dict[cst.Call, list[Scope]] = {}
        self._members: dict[Variable, Variable] = {}
        self._passing: dict[tuple[cst.Call, int | None, cst.Call | None], list[Origin] | None] = {}
        self._looked_into: set[cst.Subscript | Variable] = set()
        #: The calls by which the function that is followed just now, and the one that calls it, are called.
        self._followed: dict[Scope, cst.Call] = {}
        self._known: dict[Variable, list[Origin]] | None = None  # none as long as values are still found
        self._deep: dict[Variable, set[Origin]] = {}
        self._made_of: dict[Variable, set[Origin]] = {}
        self._numbered, self._names_given = 0, dict[Scope, list[tuple[int, str]]]()
        self._classes: dict[cst.Call, str] = {}
        self._functions_called: dict[cst.Call, Scope | None] = {}

    def properties(self, name: str, scope: Scope) -> list[Scope]:
        """Return the properties that are read by a name, `runner.step`, one for each `return` of theirs."""
        if not any(one.name == name.rpartition(".")[2] for one in self._properties):
            return []
        return [one.scope for one in self.sources(self.member(name, scope)) if one.scope in self._properties]

    def behind_property(self, name: str, scope: Scope) -> str:
        """Return the attribute that a property gives, `runner._step` for `runner.step`; any other name as it is."""
        given = [value for one in self.properties(name, scope) for value in self.index.returned(one)]
        holder, value = name.rpartition(".")[0], dotted(given[0]) if len(given) == 1 else None
        return f"{holder}.{value.removeprefix('self.')}" if value is not None and value.startswith("self.") else name

    def member(self, name: str, scope: Scope) -> Variable:
        """Return the variable that ``name`` means; of an object of a local class, `trainer.epoch`, the class's own.

        An item, `best[args.metric]`, is none.
        """
        holder, attribute = name.rpartition(".")[::2]
        if not holder or holder == "self" or "[" in name:
            return self.variable(name, scope)
        origins = self.origins(cst.parse_expression(holder), scope)
        made = [deep.node for origin in origins for deep in (self.inside(origin) or [origin])]
        classes = {self.class_made(one) for one in made if isinstance(one, cst.Call)}
        found = classes.pop() if len(classes) == 1 else None
        if found is None:
            return self.variable(name, scope)
        return (self.family(found), f"self.{attribute}")

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
        """Return the only function that is handed over to be called by a name: `train(net, each_epoch=train_epoch)`.

        So is one that a function defines and gives back, alone or among others: `begin, end = metrics(model)`.
        """
        scope = self.index.scope_of(call)
        if dotted(call.func) is None or self._plain(call.func, scope) is None:
            return None
        made = [one for origin in self.origins(call.func, scope) for one in self.inside(origin) or [origin]]
        meant = {self.defined(one.node, self.index.scope_of(one.node)) for one in made}
        found = meant.pop() if len(meant) == 1 else None
        return found if found is not None and found.kind == "function" and found not in self._properties else None

    def module_operand(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """Return the module that ``node`` passes on: `x` for `x.cuda()`, `DDP(x)`, `x.module`; else None."""
        if isinstance(node, cst.Attribute) and node.attr.value in ("module", "_orig_mod"):
            return node.value
        if not isinstance(node, cst.Call):
            return None
        if attribute_asked(node) in ("module", "_orig_mod"):
            return node.args[0].value
        if method_name(node) in self.index.knowledge.module_methods:
            own = self.called(node)  # of a class that extends no library's, what its `train` or `eval` gives is its own
            return receiver(node) if own is None or own.holder is None or self.root(own.holder) else None
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

    @cached_property
    def _wrapper_classes(self) -> set[str]:
        """The names by which classes of the project that extend a wrapper may be called."""
        names = {c.name for c in self.index.scopes if c.kind == "class" and self.root(c) in self._functions}
        for file in self.index.files:
            names |= {name for name, full in file.aliases.items() if full.rpartition(".")[2] in names}
        return names

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
        elif chosen := chosen_of(node):
            for one in chosen:
                yield from self._trace(one, scope, item, seen)
        elif (held := self._itself(node, scope)) is not None:
            yield from self._trace(held, self.index.scope_of(held), item, seen)
        elif isinstance(node, (cst.Name, cst.Attribute)) and (name := dotted(node)) is not None:
            variable = self.variable(name, scope)
            if self._sources.get(variable):
                yield from self._trace_variable(variable, seen, item)
            elif variable not in seen:
                found = [*self._trace_variable(variable, seen, item)]
                seen.add(variable)
                yield from found or [Origin(node, item)]
        elif isinstance(node, cst.Subscript) and (kept := self._kept(node, scope)):
            for value, inside, number in kept:
                if value not in seen:
                    seen.add(value)
                    yield from self._trace(value, inside, item if number is None else number, seen)
        elif item is not None and (part := item_of(node, item)) is not None:
            yield from self._trace(part, scope, None, seen)
        elif isinstance(node, cst.Call) and (given := self._handed_through(node, item)) is not None:
            yield from self._trace(given, scope, None, seen)
        elif isinstance(node, cst.Call) and (passed_on := self._passed_on(node, item)) is not None:
            yield from passed_on
        else:
            yield Origin(node, item)

    def _itself(self, node: cst.BaseExpression, scope: Scope) -> cst.BaseExpression | None:
        """Return what a method is called on that gives back its own object, `Fabric().launch()`; else None.

        Where that is the object of another method, it is followed as far as the call of that one is known.
        """
        call = self._followed.get(scope)
        if call is None or scope.holder is None or dotted(node) not in scope.parameters[:1]:
            return None
        held, around = receiver(call), self.index.scope_of(call)
        unknown = dotted(held) == around.own and around not in self._followed
        return held if self._binds(call, scope) and not unknown else None

    def _binds(self, call: cst.Call, method: Scope) -> bool:
        """Whether what a method is called on is its first parameter, as it is not in `Class.method(net)`."""
        kinds = decorators(method)
        if "staticmethod" in kinds or "classmethod" in kinds:
            return "classmethod" in kinds
        owner = receiver(call)
        named = self.defined(owner, self.index.scope_of(call)) if owner is not None and dotted(owner) else None
        return named is None or named.kind != "class"

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
        for value in () if found else self._of_record(variable):
            for origin in self._trace(value, self.index.scope_of(value), item, seen):
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
            found += [(value, self.index.scope_of(value), None) for value in self.by_key(made, key)]
            found += self._items.get((made, key), ())
        self._looked_into.remove(node)
        return found

    def _of_record(self, variable: Variable) -> list[cst.BaseExpression]:
        """Return what an attribute is given where its object is made of keywords: `SimpleNamespace(model=model)`."""
        scope, name = variable
        holder, _, attribute = name.rpartition(".")
        if holder in ("", "self") or self._known is None or variable in self._looked_into:
            return []
        self._looked_into.add(variable)  # what holds it may be made of it
        made = self._holders(cst.parse_expression(holder), scope)
        self._looked_into.remove(variable)
        return [value for one in made for value in self.by_key(one, repr(attribute))]

    def by_key(self, made: cst.BaseExpression, key: str) -> Iterator[cst.BaseExpression]:
        """Yield what a display, or a call that makes a dict or a namespace of its keywords, has by a key."""
        yield from written(made, key)
        if isinstance(made, cst.Call) and self.index.qualified(made.func) in _OF_KEYWORDS:
            yield from (arg.value for arg in made.args if arg.keyword is not None and repr(arg.keyword.value) == key)

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
        functions = self.run_by(call)
        if not functions:
            return None
        scope = self.index.scope_of(call)
        around = self._followed.get(scope)
        if (call, item, around) not in self._passing:
            self._passing[call, item, around] = []  # while it is followed, as it may call itself
            followed = {scope: around} if around is not None else {}
            passed = []
            for function in functions:
                found = self._given_back(function, item, {**followed, function: call})
                outside = [one for one in found if function.node not in self.index.ancestors(one.node)]
                passed.append([one for one in outside if dotted(one.node) != "None"])  # what it keeps is none as yet
            every = dict.fromkeys(chain.from_iterable(passed))
            self._passing[call, item, around] = [*every] if all(passed) else None
        return self._passing[call, item, around]

    def run_by(self, call: cst.Call) -> list[Scope]:
        """Return the local functions of which a call runs one, and gives what that returns."""
        function = self.called(call)
        if function is None:
            return self._one_of.get(call, [])
        return [] if function.name == "__init__" else [function]

    def _given_back(self, function: Scope, item: int | None, calls: dict[Scope, cst.Call]) -> list[Origin]:
        """Return where the values are made that a function returns, or an item of them, by some calls."""
        followed, self._followed = self._followed, calls
        values = self.returned(function, item)
        found = dict.fromkeys(origin for value, left in values for origin in self._trace(value, function, left, set()))
        self._followed = followed
        return list(found)

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

    def inside(self, origin: Origin) -> list[Origin]:
        """Return where a local function makes the value that ``origin``, a call of it, stands for."""
        call = origin.node
        if not isinstance(call, cst.Call):
            return []
        found = (self._given_back(function, origin.item, {function: call}) for function in self.run_by(call))
        return list(dict.fromkeys(chain.from_iterable(found)))

    def closure(self, origins: set[Origin]) -> set[Origin]:
        """Return ``origins`` together with those inside the local functions that make them."""
        return set(self.through(origins))

    def through(self, origins: Iterable[Origin]) -> list[Origin]:
        """Return the same, those that are given before those inside of them."""
        found = dict.fromkeys(origins)
        waiting = list(found)
        for origin in waiting:
            further = [one for one in self.inside(origin) if one not in found]
            found |= dict.fromkeys(further)
            waiting += further
        return waiting

    def deep_origins(self, node: cst.BaseExpression, scope: Scope) -> set[Origin]:
        """Return the origins of ``node`` together with those inside the local functions that make them."""
        variable = self._plain(node, scope)
        if variable is None or self._known is None:
            return self.closure(set(self.origins(node, scope)))
        if variable not in self._deep:
            self._deep[variable] = self.closure(set(self.origins(node, scope)))
        return self._deep[variable]

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

    def _given_to(self, owner: Scope) -> list[tuple[int, str]]:
        """Return which names of a scope get values, each with its number among all."""
        if self._numbered != len(self._sources):  # none is taken away again
            self._numbered = len(self._sources)
            self._names_given = defaultdict(list)
            for number, (holder, name) in enumerate(self._sources):
                self._names_given[holder].append((number, name))
        return self._names_given.get(owner, [])

    def _visible(self, scope: Scope) -> Iterator[tuple[str, Scope]]:
        shadowed: set[str] = set()
        around = scope.searched
        for here in around:
            for name in [*here.parameters, *sorted(here.names - set(here.parameters))]:
                if name not in shadowed and name not in here.outer:
                    shadowed.add(name)
                    yield name, here
        given = [(number, name, owner) for owner in around for number, name in self._given_to(owner)]
        for _, name, owner in sorted(given, key=itemgetter(0)):  # attributes of objects that have names here
            first = name.partition(".")[0]
            if first != name and first != "self" and self.variable(first, scope)[0] is owner:
                yield name, scope
        if scope.enclosing_class is not None and any(scope.own in here.parameters for here in around):
            holder = self.family(scope.enclosing_class)
            for _, name in self._given_to(holder):
                if name.startswith("self."):
                    yield f"{scope.own}{name.removeprefix('self')}", scope
