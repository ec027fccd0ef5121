"""What the files of a project hold, as it is asked for: by node, by scope, by name, and by what imports mean."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import TypeVar, cast

import libcst as cst

from retrofit.configured import NO_SETTINGS, Settings
from retrofit.knowledge import Knowledge, load_knowledge
from retrofit.source import Source
from retrofit.survey.gathering import Gathered
from retrofit.survey.nodes import argument, dotted, last_name, receiver
from retrofit.survey.scopes import Binding, File, Scope, Statement

_Node = TypeVar("_Node", bound=cst.CSTNode)


#: What these names mean where nothing in a file gives them a meaning but a star import.
_USUAL_NAMES = {"torch": "torch", "nn": "torch.nn", "optim": "torch.optim"}
_ASKING_ENVIRONMENT = ("os.getenv", "os.environ.get", "os.environ.pop", "os.environ.setdefault")


def _module_imported(node: cst.BaseExpression | None) -> str:
    """Return the module that `import_module("y")` imports, "" where no name is written down, or for anything else."""
    imports = isinstance(node, cst.Call) and last_name(node.func) == "import_module"
    given = argument(node, "name", 0) if isinstance(node, cst.Call) and imports else None
    return str(given.evaluated_value) if isinstance(given, cst.SimpleString) else ""


class Index(Gathered):
    """What the files of a project hold, gathered in one walk over each.

    Args:
        source: the entry script.
        provided: full names of functions that a recipe provides, such as `helper.function`; where they stand in the
            entry script itself, their bodies are passed over.
        modules: the other files, by the full names of their modules.
        module: the entry script's own full name, "" where it need not have one.
        inlining: whether what the recipe provides is about to stand in the entry script, and is called there already.
        knowledge: what is known of libraries, None for what the program comes with.
        late: the modules that are imported by a name made at run time.
        settings: what files of settings say.
    """

    def __init__(
        self,
        source: Source,
        provided: frozenset[str] = frozenset(),
        modules: Mapping[str, Source] | None = None,
        module: str = "",
        inlining: bool = False,
        knowledge: Knowledge | None = None,
        late: Collection[str] = (),
        settings: Settings = NO_SETTINGS,
    ) -> None:
        self.provided, self.settings = provided, settings
        names = {name.rpartition(".")[2] for name in provided}
        defined = {node.name.value for node in source.module.body if isinstance(node, cst.FunctionDef)}
        self.inlined = bool(names) and 2 * len(names & defined) > len(names)
        self.bare = names if self.inlined or inlining else set()
        passed_over = names if self.inlined else set()
        super().__init__({"": source, **(modules or {})}, module, passed_over, knowledge or load_knowledge())
        self._resolved: dict[tuple[str, Scope], list[tuple[Scope, str]]] = {}
        self._kept: set[Scope] | None = None
        self._bound: dict[tuple[str, Scope], list[tuple[int, Binding]]] = {}
        self._calls_of: dict[Scope, list[cst.Call]] = {}
        self._calls_to: dict[tuple[str, ...], list[cst.Call]] = {}
        self._methods: list[tuple[cst.Call, cst.Attribute]] | None = None
        self._method_calls: dict[tuple[str, ...], list[tuple[cst.Call, cst.BaseExpression]]] = {}
        self._orders: list[int] = []
        self._returned: dict[Scope, list[cst.BaseExpression]] = {}
        self._bound_by: dict[Statement, list[Binding]] = {}
        self._places: list[tuple[int, int, Binding]] = []  # of values, by the orders of their statements
        self._qualified: dict[cst.CSTNode, str] = {}
        self.entry = self.files[0]
        self.scope = self.entry.scope
        self._modules = {file.name: file for file in self.files[1:]}
        self.late = frozenset(late)
        self.late_files = [file for file in self.files if file.name in self.late]
        self._name_late_imports()
        self._name_chosen_modules()
        self._adopt_methods()
        for file in self.files:
            for name, full in _USUAL_NAMES.items() if file.stars else ():
                if name not in file.scope.names:
                    file.aliases.setdefault(name, full)

    def _name_late_imports(self) -> None:
        """Know modules that the script imports when it runs: `x = import_module("y")`, or in a function, for all."""
        values: dict[tuple[File, str], set[str | None]] = {}
        for one in self.bindings:
            file, scope, value = self.file_of(one.statement.scope), one.statement.scope, one.value
            if dotted(value) == "None" or "." in one.target:
                continue
            full = _module_imported(value) or None
            if full is None and isinstance(value, cst.Name) and one.target in scope.outer:
                full = next(iter(scope.imports.get(value.value, ())), None)
            values.setdefault((file, one.target), set()).add(full)
        for (file, name), fulls in values.items():
            if len(fulls) == 1 and (full := next(iter(fulls))) is not None and name not in file.aliases:
                file.aliases = {name: full, **file.aliases}  # rather than the function's own name for it

    def _name_chosen_modules(self) -> None:
        """Take a name of imported modules, of which the script chooses one, as if each were imported by that name.

        `import_module("y")` is one of them.
        """
        held: dict[tuple[Scope, str], list[str]] = {}
        for one in self.bindings:
            scope, (first, _, rest) = one.statement.scope, (dotted(one.value) or "").partition(".")
            if first != "None" and "." not in one.target:
                module = _module_imported(one.value) or self.file_of(scope).aliases.get(first, "")
                held.setdefault((scope, one.target), []).append(f"{module}.{rest}" if rest else module)
        for (scope, name), modules in held.items():
            if name not in scope.parameters and self._modules.keys() >= {*modules}:
                scope.assigned.discard(name)
                scope.imports[name] = [*dict.fromkeys((*scope.imports.get(name, ()), *modules))]
                self.file_of(scope).aliases[name] = modules[-1]

    def _adopt_methods(self) -> None:
        """Let functions be methods of the class whose body imports them: `class Net: from .steps import train`."""
        adopted: dict[Scope, list[tuple[Scope, str]]] = {}
        for holder in [scope for scope in self.scopes if scope.kind == "class"]:
            for name in holder.imports:
                found = self.imported(name, holder)
                function = found[0].inner.get(found[1]) if found is not None else None
                if function is not None and function.parameters:
                    adopted.setdefault(function, []).append((holder, name))
        for function, ((holder, name), *others) in adopted.items():
            if not others:  # else nothing tells whose object it is called on
                holder.inner.setdefault(name, function)
                function.adopter = holder

    def file(self, node: cst.CSTNode) -> File:
        """Return the file that ``node`` stands in."""
        if len(self.files) == 1 or node not in self.parents:
            return next((file for file in self.files if file.source.module is node), self.files[0])
        return self.file_of(self.statement(node).scope)

    def place(self, node: cst.CSTNode, beside: File | None = None) -> str:
        """Return "line N" as messages print it, with the name of any file other than ``beside``, the entry script's."""
        file = self.file(node)
        return f"line {self.source.position(node)[0]}" + (
            "" if file is (beside or self.entry) else f" of {file.source.shown}"
        )

    def imported(self, name: str, scope: Scope) -> tuple[Scope, str] | None:
        """Return what an imported name means in the project's file that defines it.

        Args:
            name: a name or dotted path as it stands in the code.
            scope: the scope that binds the name.

        Returns:
            the defining module's scope and the name there; None for what is not imported from a file of the project,
            or is one of several things there.
        """
        found = self.importable(name, scope)
        return found[0] if len(found) == 1 else None

    def importable(self, name: str, scope: Scope) -> list[tuple[Scope, str]]:
        """Return all that an imported name may mean in the project's files, as `imported` does for one.

        That is nothing where the scope gives the name something else as well; see `imported_too`.
        """
        if not self._modules or name.partition(".")[0] in scope.assigned:
            return []
        return self.imported_too(name, scope)

    def imported_too(self, name: str, scope: Scope) -> list[tuple[Scope, str]]:
        """Return all that a name may mean in the project's files where it is imported, perhaps in a branch alone."""
        if (name, scope) not in self._resolved:
            self._resolved[name, scope] = self._imported(name, scope, frozenset())
        return self._resolved[name, scope]

    def module_meant(self, node: cst.BaseExpression) -> File | None:
        """Return the project's file that an expression means as a module, None for anything else."""
        first = (dotted(node) or "").partition(".")[0]
        if not self._modules or node not in self.parents or first not in self.file(node).aliases:
            return None
        hidden = any(first in scope.assigned for scope in self.scope_of(node).searched)
        return None if hidden else self._modules.get(self.qualified(node))

    def member_imported(self, node: cst.BaseExpression) -> tuple[Scope, str] | None:
        """Return what `import_module("y").x` means, as `imported` does for a name; None for anything else."""
        if not isinstance(node, cst.Attribute) or not (full := _module_imported(node.value)):
            return None
        found = self._member(f"{full}.{node.attr.value}", frozenset())
        return found[0] if len(found) == 1 else None

    def at(self, full: str) -> Scope | None:
        """Return the class or function of a module that has a full name, None where that is none of the project's."""
        found = self._member(full, frozenset())
        return found[0][0].inner.get(found[0][1]) if len(found) == 1 else None

    def _imported(self, name: str, scope: Scope, seen: frozenset[tuple[str, str]]) -> list[tuple[Scope, str]]:
        file = self.file_of(scope)
        first, _, rest = name.partition(".")
        if seen and first in scope.assigned:
            return []
        seen |= {(file.name, first)}
        of_file = [file.aliases[first]] if first in file.aliases and first not in scope.assigned else []
        fulls = scope.imports.get(first, of_file)
        if fulls:
            ways = [self._member(f"{full}.{rest}" if rest else full, seen) for full in fulls]
            return list(dict.fromkeys(one for way in ways for one in way))
        for star in reversed(file.stars) if first not in file.scope.names else ():  # a later one hides what came before
            owner = self._modules.get(star)
            if owner is None or (owner.name, first) in seen:
                continue
            if first in owner.scope.names:
                return self._member(f"{star}.{name}", seen)
            if passed_on := self._imported(name, owner.scope, seen):
                return passed_on
        return []

    def _member(self, full: str, seen: frozenset[tuple[str, str]]) -> list[tuple[Scope, str]]:
        """Resolve `package.module.name` to its module and `name`, through modules that pass an import on.

        A package that imports from a module of its own that is not read leads back to itself, with a longer
        name each time: it is followed once, like modules that import each other.
        """
        parts = full.split(".")
        for end in range(len(parts) - 1, 0, -1):
            file = self._modules.get(".".join(parts[:end]))
            if file is not None:
                if (file.name, parts[end]) in seen:
                    return []
                name = ".".join(parts[end:])
                return self._imported(name, file.scope, seen) or [(file.scope, name)]
        return []

    def keep(self, scopes: set[Scope]) -> None:
        """Leave out what is in other scopes than these."""
        self._kept = scopes
        self.statements = [s for s in self.statements if s.scope in scopes]
        self.loops = [s for s in self.loops if s.scope in scopes]
        self.calls = [node for node in self.calls if self.scope_of(node) in scopes]
        self._calls_of, self._calls_to, self._methods, self._method_calls, self._orders = {}, {}, None, {}, []
        self._returned, self._bound_by, self._places = {}, {}, []
        self.comparisons = [node for node in self.comparisons if self.scope_of(node) in scopes]
        self.attributes = [node for node in self.attributes if self.scope_of(node) in scopes]
        self.bindings = [b for b in self.bindings if b.statement.scope in scopes]
        self._bound.clear()
        self.items = [b for b in self.items if b.statement.scope in scopes]
        self.appended = [b for b in self.appended if b.statement.scope in scopes]
        self.returns = [(node, scope) for node, scope in self.returns if scope in scopes]
        for file in self.files:
            file.imports = [(s, module) for s, module in file.imports if s.scope in scopes]

    def bound(self, names: Collection[str], scope: Scope) -> list[Binding]:
        """Return where one of some names gets a value in a scope, in the order of the file."""
        if not self._bound:
            for number, binding in enumerate(self.bindings):
                self._bound.setdefault((binding.target, binding.statement.scope), []).append((number, binding))
        found = [one for name in names for one in self._bound.get((name, scope), ())]
        return [binding for _, binding in (found if len(names) == 1 else sorted(found, key=itemgetter(0)))]

    @cached_property
    def _of_kind(self) -> dict[type[cst.CSTNode], list[cst.CSTNode]]:
        found: dict[type[cst.CSTNode], list[cst.CSTNode]] = {}
        for node in self.parents:
            found.setdefault(type(node), []).append(node)
        return found

    def nodes_of(self, kind: type[_Node]) -> list[_Node]:
        """Return all nodes of a kind, also those of scopes that were left out."""
        return cast("list[_Node]", self._of_kind.get(kind, []))

    def calls_of(self, scope: Scope) -> Sequence[cst.Call]:
        """Return the calls that a scope makes, in the order of the file, those of the functions in it left out."""
        if not self._calls_of:
            for call in self.calls:
                self._calls_of.setdefault(self.scope_of(call), []).append(call)
        return self._calls_of.get(scope, ())

    def calls_to(self, *names: str) -> list[cst.Call]:
        """Return the calls of what has one of some full names, in the order of the files."""
        if names not in self._calls_to:
            self._calls_to[names] = [call for call in self.calls if self.qualified(call.func) in names]
        return self._calls_to[names]

    def method_calls(self, *names: str) -> list[tuple[cst.Call, cst.BaseExpression]]:
        """Return the calls of methods of some names, in the order of the files, each with what it is a method of.

        That may be by a name that the method was given: `add = parser.add_argument`, `add("--epochs")`.
        """
        if self._methods is None:
            aliases = {b.target for b in self.bindings if isinstance(b.value, cst.Attribute)}
            methods = ((call, self._method(call, aliases)) for call in self.calls)
            self._methods = [(call, method) for call, method in methods if method is not None]
        if names not in self._method_calls:
            self._method_calls[names] = [(c, m.value) for c, m in self._methods if m.attr.value in names]
        return self._method_calls[names]

    def _method(self, call: cst.Call, aliases: Collection[str]) -> cst.Attribute | None:
        """Return the method that a call calls, by one of some aliases as well; None for any other."""
        if not isinstance(call.func, cst.Name) or call.func.value not in aliases:
            return call.func if isinstance(call.func, cst.Attribute) else None
        name, here = call.func.value, self.statement(call)
        owner = next((s for s in (here.scope, *here.scope.around) if name in s.names), here.scope)
        bound = [
            one for one in self.bound((name,), owner) if owner is not here.scope or one.statement.order < here.order
        ]
        value = bound[-1].value if bound and name not in owner.parameters else None
        return value if isinstance(value, cst.Attribute) and bound[-1].item is None else None

    @cached_property
    def refusing(self) -> set[Scope]:
        """The functions that others are to write, as they raise NotImplementedError."""
        raised = [(node, node.exc) for node in self.nodes_of(cst.Raise)]
        named = [(node, one.func if isinstance(one, cst.Call) else one) for node, one in raised]
        return {self.scope_of(node) for node, one in named if dotted(one) == "NotImplementedError"}

    @property
    def environment(self) -> list[tuple[str, cst.CSTNode]]:
        """The environment variables that are used by their names, each with the expression that does."""
        items = [node for node in self.nodes_of(cst.Subscript) if self.holds(self.scope_of(node))]
        nodes = (*self.calls_to(*_ASKING_ENVIRONMENT), *items)
        return [(name, node) for node in nodes if (name := self.environment_variable(node))]

    def environment_variable(self, node: cst.CSTNode) -> str:
        """Return the environment variable that an expression is, "" where it is none, or has no plain name."""
        if isinstance(node, cst.Call):
            key = argument(node, "key", 0) if self.qualified(node.func) in _ASKING_ENVIRONMENT else None
        else:
            of_it = isinstance(node, cst.Subscript) and self.qualified(node.value) == "os.environ"
            key = getattr(node.slice[0].slice, "value", None) if isinstance(node, cst.Subscript) and of_it else None
        return str(key.evaluated_value) if isinstance(key, cst.SimpleString) else ""

    def calls_in(self, statement: Statement) -> list[cst.Call]:
        """Return the calls that stand in a statement, in the order of the file, those of the functions in it too."""
        if not self._orders:
            self._orders = [self.statement(call).order for call in self.calls]
        first, end = bisect_left(self._orders, statement.order), bisect_right(self._orders, statement.last)
        return self.calls[first:end]

    def bound_by(self, statement: Statement) -> Sequence[Binding]:
        """Return the values that a statement itself gives to names, in the order of the file."""
        if not self._bound_by:
            for binding in self.bindings:
                self._bound_by.setdefault(binding.statement, []).append(binding)
        return self._bound_by.get(statement, ())

    def target_of(self, value: cst.CSTNode) -> str:
        """Return the name to which a value is assigned plainly, "" where it is not."""
        here = self.bound_by(self.statement(value))
        return next((b.target for b in here if b.value is value and b.item is None), "")

    def bound_in(self, statement: Statement) -> list[Binding]:
        """Return what a statement gives values to, names and items, what the functions in it do included."""
        if not self._places:
            everything = enumerate((*self.bindings, *self.items))
            self._places = sorted((one.statement.order, number, one) for number, one in everything)
        first = bisect_left(self._places, statement.order, key=itemgetter(0))
        end = bisect_right(self._places, statement.last, key=itemgetter(0))
        return [one for _, _, one in sorted(self._places[first:end], key=itemgetter(1))]

    @cached_property
    def bound_names(self) -> set[str]:
        """Every name that is assigned, or is a parameter, anywhere in the file."""
        names = {binding.target for binding in self.bindings}
        return names.union(*(scope.parameters for scope in self.scopes))

    @property
    def scopes(self) -> list[Scope]:
        """The modules and every class and function in them, but for what was left out."""
        return [scope for scope in self._scope_of.values() if self.holds(scope)]

    def returned(self, function: Scope | None) -> list[cst.BaseExpression]:
        """Return the values that a function returns."""
        if not self._returned:
            for node, scope in self.returns:
                if node.value is not None:
                    self._returned.setdefault(scope, []).append(node.value)
        return [*self._returned.get(function, ())] if function is not None else []

    def holds(self, scope: Scope) -> bool:
        """Whether a scope counts, or was left out."""
        return self._kept is None or scope in self._kept

    def statement(self, node: cst.CSTNode) -> Statement:
        """Return the innermost statement that holds ``node``."""
        found = self._statement_of.get(node)
        if found is None:
            here: cst.CSTNode = node
            while found is None:
                here = self.parents[here]
                found = self._statement_of.get(here)
            self._statement_of[node] = found
        return found

    def statements_in(self, suite: cst.BaseSuite) -> list[Statement]:
        """Return the statements of a block."""
        first = suite if isinstance(suite, cst.SimpleStatementSuite) else suite.body[0]
        return self._statement_of[first].siblings

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the nodes around ``node``, innermost first."""
        here: cst.CSTNode | None = self.parents.get(node)
        while here is not None:
            yield here
            here = self.parents.get(here)

    def inside(self, node: cst.CSTNode, *kinds: type[cst.CSTNode]) -> bool:
        """Whether a node of one of some kinds is around ``node``."""
        return any(isinstance(around, kinds) for around in self.ancestors(node))

    def called_on(self, node: cst.CSTNode) -> Iterator[cst.Call]:
        """Yield the calls of methods on what an expression gives, one after the other: of `a` in `a.b().c()`."""
        attribute = self.parents.get(node)
        call = self.parents.get(attribute) if isinstance(attribute, cst.Attribute) else None
        if isinstance(call, cst.Call) and receiver(call) is node:
            yield call
            yield from self.called_on(call)

    def guards(self, node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, bool]]:
        """Yield the conditions around a node in its function, innermost first, each with whether it holds there."""
        inner = node
        for around in self.ancestors(node):
            if isinstance(around, (cst.FunctionDef, cst.ClassDef)):
                return
            if isinstance(around, (cst.If, cst.IfExp)) and inner is not around.test:
                yield around.test, inner is around.body
            elif isinstance(around, cst.BooleanOperation) and inner is around.right:
                yield around.left, isinstance(around.operator, cst.And)
            inner = around

    def scope_of(self, node: cst.CSTNode) -> Scope:
        """Return the scope that ``node`` is evaluated in."""
        return self.statement(node).scope

    def function_scope(self, node: cst.CSTNode) -> Scope:
        """Return the scope that a function or class definition opens."""
        return self._scope_of[node]

    def qualified(self, node: cst.CSTNode | None) -> str:
        """Return a name's full path with import aliases resolved, "" where it is no plain name."""
        if node is None:
            return ""
        found = self._qualified.get(node)
        if found is None:
            first, _, rest = (dotted(node) or "").partition(".")
            full = self.file(node).aliases.get(first, first) if first else ""
            found = self._qualified[node] = f"{full}.{rest}" if rest else full
        return found

    def meanings(self, node: cst.CSTNode) -> list[str]:
        """Return the full paths that a name may have, several where an `if` or a `try` decides what is imported."""
        first, _, rest = (dotted(node) or "").partition(".")
        scope = self.scope_of(node)
        owner = next((one for one in (scope, *scope.around) if first in one.imports), None)
        fulls = owner.imports[first] if owner is not None else []
        return [f"{full}.{rest}" if rest else full for full in fulls] or [self.qualified(node)]

    def is_provided(self, function: cst.CSTNode) -> bool:
        """Whether a recipe provides a function, in its own module or in the entry script."""
        name = self.qualified(function)
        return name in self.provided or name in self.bare
