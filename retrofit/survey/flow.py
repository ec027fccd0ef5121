"""What calls what, and so what values the parameters of functions get."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property

import libcst as cst

from retrofit.knowledge.kinds import ReadsCommandLine, RunsDecorated, StartsProcesses
from retrofit.survey.choices import Choices
from retrofit.survey.index import Index
from retrofit.survey.lookups import Lookups
from retrofit.survey.names import Source, decorators
from retrofit.survey.nodes import argument, dotted, method_name, receiver
from retrofit.survey.origins import Origins
from retrofit.survey.parameters import in_order, misfit, star_of, takes
from retrofit.survey.scopes import Scope, Statement

#: So many arguments of a `*args` are followed, where a call has others in their place.
_MOST = 16
#: What decorates methods that are called on classes.
_OF_CLASSES = frozenset({"classmethod", "staticmethod"})


def _fields(holder: Scope) -> list[str]:
    """Return the names that the body of a class annotates, as a dataclass's or a NamedTuple's fields are."""
    lines = holder.node.body.body if isinstance(holder.node, cst.ClassDef) else ()
    parts = [part for line in lines if isinstance(line, cst.SimpleStatementLine) for part in line.body]
    return [name for part in parts if isinstance(part, cst.AnnAssign) and (name := dotted(part.target)) is not None]


class Flow(Origins):
    """Follows the calls and values of a project.

    Args:
        index: its files.
        module_functions: qualified names of further functions that return their first argument's module, or that of
            another one, by its number: `name#1`.
    """

    def __init__(self, index: Index, module_functions: frozenset[str] = frozenset()) -> None:
        super().__init__(index, module_functions)
        self._callers: dict[Scope, list[cst.Call]] = defaultdict(list)
        self._passed: set[tuple[cst.Call, Scope]] = set()
        self.lookups = Lookups(self)
        self.choices = Choices(self)
        #: Classes whose objects wrap themselves: only there it counts which object a method is called on.
        self._wrap_themselves = {
            index.scope_of(call).enclosing_class
            for call in index.calls
            if index.qualified(call.func) in self._wrappers and "self" in [dotted(arg.value) for arg in call.args]
        }
        #: What the name of each call means here: of which local function it is, or that of none.
        self._named = {call: self._function(call.func, index.scope_of(call)) for call in index.calls}
        self._given = {call: self._runs(call) for call in index.calls}
        named = {*self._named.values()}
        #: The functions that train, as far as names tell.
        self.training = training = self._training()
        #: The methods that train, and that no call names.
        self.training_methods = [one for one in index.scopes if one in training and one.holder and one not in named]
        #: The first call by name of each function that fails before any of it runs, and why.
        self.failing: dict[Scope, tuple[cst.Call, str]] = {}
        for call in index.calls:
            for function in self._called_by_name(call):
                if why := self._why_fails(call, function):
                    self.failing.setdefault(function, (call, why))
                else:
                    self._pass_arguments(call, function)
        for call in index.calls:
            self._fill_fields(call)
        for call in index.calls:
            for function in self._passed_to_run(call):
                self._pass_arguments(call, function)
        if self._properties:
            self._read_properties()
        holders = [scope for scope in index.scopes if scope.kind == "class"]
        self._method_names = {n for c in holders for n, one in c.inner.items() if one.kind == "function"}
        self._forwards = {one for one in training if one.name == "forward"}
        self._class_methods = {n for c in holders for n, one in c.inner.items() if decorators(one) & _OF_CLASSES}
        for _ in range(2):  # an object or a parameter may be known only where its holder's methods are, or its callers
            self.choices.classes.clear()
            unknown = (call for call, function in self._named.items() if function is None)
            found = [(call, self._find_methods(call), self._chosen_to_run(call)) for call in unknown]
            for call, methods, functions in found:
                self._methods.pop(call, None)
                makes = any(one.name in ("__init__", "__new__") for one in functions)
                self._one_of[call] = [] if makes else [*methods, *functions]
                if len(methods) == 1:
                    self._methods[call] = methods[0]
                for function in (*methods, *functions):
                    self._pass_arguments(call, function)
            self._passing.clear()
            self._members.clear()
            self.lookups.led_to.clear()
        self.choices.classes.clear()
        self._known = {}

    def fields(self, made: Scope) -> list[str]:
        """Return the fields of a class as a dataclass gets them in order, those that it inherits first."""
        return list(dict.fromkeys(name for one in reversed(self.lineage(made)) for name in _fields(one)))

    def _fill_fields(self, call: cst.Call) -> None:
        """Let what a class without an `__init__` is called with be its fields' values, as in a dataclass."""
        made, scope = self.class_made(call), self.index.scope_of(call)
        if made is None or self.maker(made) is not None:
            return
        given = in_order([arg for arg in call.args if arg.keyword is None and not arg.star], scope)
        plain = zip(self.fields(made), given, strict=False)
        named = [(arg.keyword.value, Source(arg.value, scope)) for arg in call.args if arg.keyword is not None]
        for name, source in [*plain, *named]:
            self._sources[(self.family(made), f"self.{name}")].append(source)

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

    def overriding(self, call: cst.Call) -> list[Scope]:
        """Return the methods of subclasses that a call `self.method()` runs where the object is one of theirs."""
        holder, name = self.index.scope_of(call).enclosing_class, dotted(call.func) or ""
        if holder is None or not name.startswith("self.") or name.count(".") > 1:
            return []
        method = name.removeprefix("self.")
        heirs = [c.inner[method] for c in self._classes_with[method] if holder in self.lineage(c)[1:]]
        return [heir for heir in heirs if heir not in self._properties]

    def classes_made(self, node: cst.CSTNode) -> list[Scope]:
        """Return the local classes of which a call makes an object, of one of them where a dict or the like chooses."""
        if not isinstance(node, cst.Call):
            return []
        own = self.class_made(node)
        return [one for one in self.choices.called(node) if one.kind == "class"] if own is None else [own]

    def _called_by_name(self, call: cst.Call) -> list[Scope]:
        """Return the functions that a call may run, as far as its name tells: of `self.method()` each subclass's too.

        A closure that is handed to `optimizer.step` is run there.
        """
        scope, function = self.index.scope_of(call), self._named[call]
        if found := list(dict.fromkeys([*([] if function is None else [function]), *self.overriding(call)])):
            return found
        runs = [self._function(given, scope) for given in self._given[call]]
        return [function for function in runs if function is not None] or self._chosen_to_run(call)

    def _chosen_to_run(self, call: cst.Call) -> list[Scope]:
        """Return the functions of which a call runs one by a name for it, such as a parameter, or out of a dict."""
        if self._given[call]:
            return []
        meant = [self.maker(s) if s.kind == "class" else s for s in self.choices.called(call)]
        functions = [function for function in meant if function is not None]
        return [function for function in functions if takes(function, call)] or functions

    def _why_fails(self, call: cst.Call, function: Scope) -> str:
        """Tell why a call by name ends in a TypeError before anything of a function runs, "" where it does not."""
        plain = isinstance(call.func, cst.Name) and function.holder is None and not decorators(function)
        if not plain or self._named[call] is not function:
            return ""
        return misfit(function, call.with_changes(args=self.arguments(call)))

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

    def _find_methods(self, call: cst.Call) -> list[Scope]:
        """Return the methods that a call on an object of local classes may run, or the objects' `__call__`.

        A module's call runs its `forward`, which counts where that trains by itself.
        """
        ways = [(call.func, "__call__"), *([(call.func, "forward")] if self._forwards else [])]
        if (held := receiver(call)) is not None:
            ways.append((held, method_name(call)))
        for operand, name in ways:
            if name not in self._method_names or dotted(operand) == "self":
                continue
            scope = self.index.scope_of(call)
            meant = self.choices.of(operand, scope) if name in self._class_methods else []
            found = [self._method(one, name) for one in meant if one.kind == "class"]
            methods = {one: None for one in found if one is not None and decorators(one) & _OF_CLASSES}
            if methods:
                return list(methods)
            if dotted(operand) is None and not isinstance(operand, cst.Call):
                continue
            origins = self.through(self.origins(operand, scope))
            made = [origin.node for origin in origins if isinstance(origin.node, cst.Call)]
            for node in made:
                defined = self.defined(node.func, self.index.scope_of(node))
                for one in [defined] if defined is not None else self.choices.called(node):
                    method = (
                        self._method(one, name)
                        if one.kind == "class" and self.choices.fit(one, operand, call)
                        else None
                    )
                    if method is None or method in self._properties:
                        continue
                    if operand is not call.func or name != "forward" or method in self._forwards:
                        methods.setdefault(method)
            if methods:
                return list(methods)
        return []

    def _training(self) -> set[Scope]:
        """Return the functions that hold a backward pass, or call one that does by its name."""
        found = {self.index.scope_of(call) for call, _ in self.index.method_calls("backward")}
        waiting = found
        while waiting:
            waiting = {self.index.scope_of(c) for c, function in self._named.items() if function in waiting} - found
            found = found | waiting
        return found

    def _pass_arguments(self, call: cst.Call, function: Scope) -> None:
        if (call, function) in self._passed:
            return
        self._passed.add((call, function))
        scope = self.index.scope_of(call)
        method = function.holder is not None
        parameters = function.parameters[1:] if method and self._binds(call, function) else function.parameters
        spawned = self.spawns(call)
        given = self.arguments(call)
        if spawned or self.starts_process(call):
            passed = argument(call, "args", 1) if spawned else argument(call, "args")
            given = [cst.Arg(passed, star="*")] if passed is not None else []
            parameters = function.parameters[1:] if spawned else parameters
        self._callers[function].append(call)
        if method and function.holder in self._wrap_themselves and isinstance(call.func, cst.Attribute):
            self._sources[(function, "self")].append(Source(call.func.value, scope))
        if method and isinstance(call.func, cst.Attribute) and "classmethod" in decorators(function):
            for own in function.parameters[:1]:
                self._sources[(function, own)].append(Source(call.func.value, scope))
        for arg in given:
            if arg.keyword is not None and arg.keyword.value in function.parameters:
                self._sources[(function, arg.keyword.value)].append(Source(arg.value, scope))
        plain = [arg for arg in given if arg.keyword is None and arg.star != "**"]
        star = star_of(function)
        number = parameters.index(star) if star in parameters else len(parameters)
        places: list[tuple[str, int | None]] = [(parameter, None) for parameter in parameters[:number]]
        places += [(star, place) for place in range(_MOST if star in parameters else 0)]
        for (parameter, place), source in zip(places, in_order(plain, scope), strict=False):
            self._sources[(function, parameter)].append(replace(source, place=place))

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

    def callers(self, function: Scope) -> list[cst.Call]:
        """Return the calls of a local function, `mp.spawn(function, ...)` among them."""
        return self._callers[function]

    def running(self, call: cst.Call) -> list[Scope]:
        """Return the local functions of which a call runs one, constructors and what it is given to run among them."""
        return self._functions_run.get(call, [])

    @cached_property
    def _functions_run(self) -> dict[cst.Call, list[Scope]]:
        found: dict[cst.Call, list[Scope]] = defaultdict(list)
        for function, calls in self._callers.items():
            for call in calls:
                found[call].append(function)
        return found

    def is_chosen(self, call: cst.Call) -> bool:
        """Whether a call may run one of several functions: by a parameter, or out of a dict."""
        return self._named[call] is None and len(self._chosen_to_run(call)) > 1

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
                holder = scope.holder.inner if scope.holder is not None else {}
                if not known[scope] and holder.get("__init__", scope) is not scope:  # of an object that is not made
                    known[scope] = bool(made := self.callers(holder["__init__"])) and all(map(told, made))
            return known[scope]

        return told(node)

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
                return None if scope in self.commands or self._runs_decorated(scope) else scope
            scope = self.index.scope_of(callers[0])
        return None

    @cached_property
    def commands(self) -> set[Scope]:
        """The functions that a library runs with what the command line says: `fire.Fire(main)`."""
        calls = self.index.calls_to(*self.index.knowledge.named(ReadsCommandLine))
        given = [(call.args[0].value, self.index.scope_of(call)) for call in calls if call.args]
        found = [self._function(node, scope) for node, scope in given]
        return {one for one in found if one is not None}

    def _runs_decorated(self, function: Scope) -> bool:
        """Whether an object of a library runs a function that a method of it decorates: `@experiment.automain`."""
        known = self.index.knowledge.named(RunsDecorated)
        nodes = function.node.decorators if isinstance(function.node, cst.FunctionDef) and function.parent else ()
        for node in [one.decorator for one in nodes if isinstance(one.decorator, cst.Attribute)]:
            for made in self.origins(node.value, function.parent or function):
                runs = known.get(self.index.qualified(made.node.func)) if isinstance(made.node, cst.Call) else None
                if runs is not None and node.attr.value in runs.decorators:
                    return True
        return False
