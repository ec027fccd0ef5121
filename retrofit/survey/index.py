"""One walk over each file's tree: statements, scopes, calls, assignments and import aliases, with their parents."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import TypeVar, cast

import libcst as cst

from retrofit.knowledge import Knowledge, load_knowledge
from retrofit.knowledge.kinds import GoesOver
from retrofit.source import Source, Sources
from retrofit.survey.nodes import (
    argument,
    children,
    dotted,
    guards_main,
    last_name,
    leaves,
    method_name,
    never_runs,
    receiver,
)

_Node = TypeVar("_Node", bound=cst.CSTNode)


@dataclass(eq=False)
class Scope:
    """A module, class or function body in which names live.

    Attributes:
        kind: "module", "class" or "function".
        name: as in the source, "" for the module.
        parameters: a function's parameter names in order, `self` included.
        names: every name bound in this scope.
        assigned: those of them that are bound otherwise than by an import.
        imports: what the names that it imports stand for, several things where an `if` decides.
        outer: names declared global or nonlocal.
        file: a module's file, None for any other scope.
        earlier: the function or class that the scope around this one gave this name before, None for none.
    """

    kind: str
    name: str
    parent: Scope | None
    node: cst.CSTNode
    parameters: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    assigned: set[str] = field(default_factory=set)
    imports: dict[str, list[str]] = field(default_factory=dict)
    outer: set[str] = field(default_factory=set)
    inner: dict[str, Scope] = field(default_factory=dict)
    file: File | None = None
    earlier: Scope | None = None

    @property
    def module(self) -> Scope:
        """The module's scope that this one is in."""
        return self if self.parent is None else self.parent.module

    @property
    def around(self) -> Iterator[Scope]:
        """The scopes around this one, innermost first."""
        parent = self.parent
        while parent is not None:
            yield parent
            parent = parent.parent

    @property
    def searched(self) -> list[Scope]:
        """The scopes that are searched for a name which is read here, this one first: of classes no other."""
        return [self, *(scope for scope in self.around if scope.kind != "class")]

    def binds(self, name: str) -> bool:
        """Whether the code gives ``name`` a meaning here; a module counts whole."""
        return any(name in scope.names and name not in scope.outer for scope in self.searched)

    @property
    def enclosing_class(self) -> Scope | None:
        """The class whose method this scope is, or is in."""
        scope: Scope | None = self
        while scope is not None and scope.kind != "class":
            scope = scope.parent
        return scope


@dataclass(eq=False)
class Statement:
    """A statement and its place among its siblings.

    Attributes:
        siblings: the statements of the block it stands in, itself included.
        parent: the compound statement that holds its block, None at module level.
        order: how many statements of the project begin before it.
        last: the order of the last statement that it holds, its own where it holds none.
        crowded: whether it shares its line with another statement (`if x: a`, `a; b`).
    """

    node: cst.BaseStatement | cst.BaseSuite
    scope: Scope
    parent: Statement | None
    siblings: list[Statement]
    index: int
    order: int
    crowded: bool = False
    last: int = -1

    @property
    def ancestors(self) -> Iterator[Statement]:
        """The statements around this one, innermost first, the function's or class's own statement last."""
        parent = self.parent
        while parent is not None:
            yield parent
            parent = parent.parent

    @property
    def around(self) -> list[Statement]:
        """The statements around this one in its own function, innermost first."""
        return [one for one in self.ancestors if one.scope is self.scope]

    @property
    def path(self) -> list[Statement]:
        """The way from module level down to this statement, itself last."""
        return [*reversed(list(self.ancestors)), self]

    @property
    def following(self) -> list[Statement]:
        """The later statements of the same block."""
        return self.siblings[self.index + 1 :]

    @property
    def preceding(self) -> list[Statement]:
        """The earlier statements of the same block, nearest first."""
        return self.siblings[: self.index][::-1]


@dataclass(eq=False)
class File:
    """One file of a project.

    Attributes:
        name: its module's full name, "" for the entry script.
        package: the full name of the package that its relative imports start from, "" where none is known.
        aliases: what each imported name stands for, as a full path.
        imports: every import, as its statement and the module.
        stars: the modules of which it imports everything.
        body: its statements at module level.
    """

    source: Source
    name: str
    scope: Scope
    aliases: dict[str, str] = field(default_factory=dict)
    imports: list[tuple[Statement, str]] = field(default_factory=list)
    stars: list[str] = field(default_factory=list)
    body: list[Statement] = field(default_factory=list)
    package: str = ""

    def imported_as(self, module: str) -> str | None:
        """Return the name under which ``module`` is imported here, None where it is not."""
        return next((name for name, full in self.aliases.items() if full == module), None)


@dataclass(eq=False)
class Binding:
    """A value given to a name: an assignment, a loop target, a `with ... as`.

    Attributes:
        target: the name, or dotted path such as `self.model`.
        value: the expression, None where it cannot be told (loop targets).
        item: position in an unpacked tuple, None for a plain assignment.
    """

    target: str
    value: cst.BaseExpression | None
    item: int | None
    statement: Statement


#: What these names mean where nothing in a file gives them a meaning but a star import.
_USUAL_NAMES = {"torch": "torch", "nn": "torch.nn", "optim": "torch.optim"}
_ASKING_ENVIRONMENT = ("os.getenv", "os.environ.get", "os.environ.pop", "os.environ.setdefault")


#: What is written of types, which is not evaluated or makes nothing.
_TYPES = (cst.Annotation, cst.TypeParameters)
#: Kinds of nodes of which more is noted than where they stand.
_NOTED = frozenset(
    {
        cst.AnnAssign, cst.AsName, cst.Assign, cst.Attribute, cst.AugAssign, cst.Call, cst.Comparison, cst.Global,
        cst.Import, cst.ImportFrom, cst.IndentedBlock, cst.NamedExpr, cst.Nonlocal, cst.Return,
        cst.SimpleStatementSuite,
    }
)  # fmt: skip


class Index:
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
    ) -> None:
        self.knowledge = knowledge or load_knowledge()
        modules = modules or {}
        self.module = module
        self.source: Source | Sources = Sources([source, *modules.values()]) if modules else source
        self.provided = provided
        names = {name.rpartition(".")[2] for name in provided}
        defined = {node.name.value for node in source.module.body if isinstance(node, cst.FunctionDef)}
        self.inlined = bool(names) and 2 * len(names & defined) > len(names)
        self._passed_over = names if self.inlined else set()
        self.bare = names if self.inlined or inlining else set()
        self.statements: list[Statement] = []
        self.calls: list[cst.Call] = []
        self.bindings: list[Binding] = []
        self.items: list[Binding] = []
        self.appended: list[Binding] = []
        self.comparisons: list[cst.Comparison] = []
        self.attributes: list[cst.Attribute] = []
        self.returns: list[tuple[cst.Return, Scope]] = []
        self.loops: list[Statement] = []
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self._statement_of: dict[cst.CSTNode, Statement] = {}
        self._resolved: dict[tuple[str, Scope], list[tuple[Scope, str]]] = {}
        self._scope_of: dict[cst.CSTNode, Scope] = {}
        self._kept: set[Scope] | None = None
        self._bound: dict[tuple[str, Scope], list[tuple[int, Binding]]] = {}
        self._calls_of: dict[Scope, list[cst.Call]] = {}
        self._calls_to: dict[tuple[str, ...], list[cst.Call]] = {}
        self._methods: list[tuple[cst.Call, cst.Attribute]] | None = None
        self._method_calls: dict[tuple[str, ...], list[tuple[cst.Call, cst.BaseExpression]]] = {}
        self._orders: list[int] = []
        self._qualified: dict[cst.CSTNode, str] = {}
        self.files = [self._file(name, one) for name, one in {"": source, **modules}.items()]
        self.entry = self.files[0]
        self.scope = self.entry.scope
        self._modules = {file.name: file for file in self.files[1:]}
        self.late = frozenset(late)
        self.late_files = [file for file in self.files if file.name in self.late]
        self._name_late_imports()
        self._name_chosen_modules()
        for file in self.files:
            for name, full in _USUAL_NAMES.items() if file.stars else ():
                if name not in file.scope.names:
                    file.aliases.setdefault(name, full)

    def _file(self, name: str, source: Source) -> File:
        module = source.module
        scope = self._scope_of[module] = Scope("module", "", None, module)
        file = scope.file = File(source, name, scope)
        full = name or self.module
        file.package = full if name and source.path.name == "__init__.py" else full.rpartition(".")[0]
        for node in module.body:
            self.parents[node] = module
        file.body = self._block(module.body, scope, None)
        return file

    def _name_late_imports(self) -> None:
        """Know modules that the script imports when it runs: `x = import_module("y")`, or in a function, for all."""
        values: dict[tuple[File, str], set[str | None]] = {}
        for one in self.bindings:
            file, scope, value = self.file_of(one.statement.scope), one.statement.scope, one.value
            if dotted(value) == "None" or "." in one.target:
                continue
            full = None
            if isinstance(value, cst.Call) and last_name(value.func) == "import_module" and value.args:
                given = value.args[0].value
                full = given.evaluated_value if isinstance(given, cst.SimpleString) else None
            elif isinstance(value, cst.Name) and one.target in scope.outer:
                full = next(iter(scope.imports.get(value.value, ())), None)
            values.setdefault((file, one.target), set()).add(full if isinstance(full, str) else None)
        for (file, name), fulls in values.items():
            if len(fulls) == 1 and (full := next(iter(fulls))) is not None and name not in file.aliases:
                file.aliases = {name: full, **file.aliases}  # rather than the function's own name for it

    def _name_chosen_modules(self) -> None:
        """Take a name of imported modules, of which the script chooses one, as if each were imported by that name."""
        held: dict[tuple[Scope, str], list[str]] = {}
        for one in self.bindings:
            scope, (first, _, rest) = one.statement.scope, (dotted(one.value) or "").partition(".")
            if first != "None" and "." not in one.target:
                module = self.file_of(scope).aliases.get(first, "")
                held.setdefault((scope, one.target), []).append(f"{module}.{rest}" if rest else module)
        for (scope, name), modules in held.items():
            if name not in scope.parameters and self._modules.keys() >= {*modules}:
                scope.assigned.discard(name)
                scope.imports[name] = [*dict.fromkeys((*scope.imports.get(name, ()), *modules))]
                self.file_of(scope).aliases[name] = modules[-1]

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

    def file_of(self, scope: Scope) -> File:
        """Return the file that ``scope`` is in."""
        file = scope.module.file
        assert file is not None
        return file

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
        """Return all that an imported name may mean in the project's files, as `imported` does for one."""
        if not self._modules:
            return []
        if (name, scope) not in self._resolved:
            self._resolved[name, scope] = self._imported(name, scope, frozenset())
        return self._resolved[name, scope]

    def _imported(self, name: str, scope: Scope, seen: frozenset[tuple[str, str]]) -> list[tuple[Scope, str]]:
        file = self.file_of(scope)
        first, _, rest = name.partition(".")
        seen |= {(file.name, first)}
        if first in scope.assigned:
            return []
        fulls = scope.imports.get(first, [file.aliases[first]] if first in file.aliases else [])
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

    def target_of(self, value: cst.CSTNode) -> str:
        """Return the name to which a value is assigned plainly, "" where it is not."""
        return next((b.target for b in self.bindings if b.value is value and b.item is None), "")

    def bound_in(self, statement: Statement) -> list[Binding]:
        """Return what a statement gives values to, names and items, what the functions in it do included."""
        inside = range(statement.order, statement.last + 1)
        return [one for bound in (self.bindings, self.items) for one in bound if one.statement.order in inside]

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
        return [node.value for node, scope in self.returns if scope is function and node.value is not None]

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

    def _block(self, body: object, scope: Scope, parent: Statement | None, crowded: bool = False) -> list[Statement]:
        siblings: list[Statement] = []
        assert isinstance(body, (list, tuple))
        left = False
        for node in body:
            statement = Statement(node, scope, parent, siblings, len(siblings), len(self.statements), crowded)
            siblings.append(statement)
            self._statement_of[node] = statement
            if not left:
                self.statements.append(statement)
                self._enter(node, statement)
                statement.last = len(self.statements) - 1
            left = left or leaves(node)
        return siblings

    def _enter(self, node: cst.CSTNode, statement: Statement) -> None:
        if isinstance(node, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
            statement.crowded = isinstance(node, cst.SimpleStatementSuite) or len(node.body) > 1
            self._walk_children(node, statement)
        elif isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            self._define(node, statement)
        else:
            if isinstance(node, (cst.For, cst.While)):
                self.loops.append(statement)
            if isinstance(node, cst.For):
                self._bind(node.target, None, statement)
            if not self._never_runs(node, statement):
                self._walk_children(node, statement)

    def _never_runs(self, node: cst.CSTNode, statement: Statement) -> bool:
        """Whether a statement is the `if __name__ == "__main__"` of a module that is only imported."""
        alone = isinstance(node, cst.If) and node.orelse is None and statement.scope.parent is None
        return alone and self.file_of(statement.scope).name != "" and guards_main(node)

    def _define(self, node: cst.FunctionDef | cst.ClassDef, statement: Statement) -> None:
        outer = statement.scope
        outer.names.add(node.name.value)
        outer.assigned.add(node.name.value)
        function = isinstance(node, cst.FunctionDef)
        scope = Scope("function" if function else "class", node.name.value, outer, node)
        scope.earlier = outer.inner.get(scope.name)
        outer.inner[scope.name] = scope
        if outer.parent is None:
            self.file_of(outer).aliases.pop(scope.name, None)  # its own definition takes the place of an import
        self._scope_of[node] = scope
        for decorator in node.decorators:
            self._walk(decorator, node, statement)
        if isinstance(node, cst.FunctionDef):
            params = node.params
            star = [params.star_arg] if isinstance(params.star_arg, cst.Param) else []
            for param in (*params.posonly_params, *params.params, *star, *params.kwonly_params):
                scope.parameters.append(param.name.value)
                if param.default is not None:
                    self._walk(param.default, node, statement)
            scope.names.update(scope.parameters)
            scope.assigned.update(scope.parameters)
        else:
            for argument in (*node.bases, *node.keywords):
                self._walk(argument, node, statement)
        self.parents[node.body] = node
        if outer.parent is None and scope.name in self._passed_over and self.file_of(outer).name == "":
            return
        self._suite(node.body, scope, statement)

    def _suite(self, suite: cst.BaseSuite, scope: Scope, parent: Statement) -> None:
        if isinstance(suite, cst.SimpleStatementSuite):
            self.parents[suite] = parent.node
            self._block([suite], scope, parent, crowded=True)
        else:
            for line in suite.body:
                self.parents[line] = suite
            self._block(suite.body, scope, parent)

    def _walk_children(self, node: cst.CSTNode, statement: Statement) -> None:
        ruled_out = never_runs(node) if node.__class__ is cst.If else None
        for child in children(node):
            if child is ruled_out:
                self._pass_over(child, node, statement)
            elif child.__class__ not in _TYPES:
                self._walk(child, node, statement)

    def _pass_over(self, node: cst.CSTNode, parent: cst.CSTNode, statement: Statement) -> None:
        """Note of code that never runs only where it stands."""
        self.parents[node] = parent
        if not isinstance(node, cst.BaseSuite):
            for child in children(node):
                self._pass_over(child, node, statement)
            return
        siblings: list[Statement] = []
        for line in node.body if isinstance(node, cst.IndentedBlock) else [node]:
            one = Statement(line, statement.scope, statement, siblings, len(siblings), len(self.statements))
            siblings.append(one)
            self._statement_of[line] = one
            for child in children(line):
                self._pass_over(child, line, one)
            if line is not node:
                self.parents[line] = node

    def _walk(self, node: cst.CSTNode, parent: cst.CSTNode, statement: Statement) -> None:
        self.parents[node] = parent
        self._statement_of[node] = statement
        if node.__class__ not in _NOTED:
            self._walk_children(node, statement)
        elif isinstance(node, cst.BaseSuite):
            self._suite(node, statement.scope, statement)
        elif isinstance(node, (cst.Import, cst.ImportFrom)):
            self._import(node, statement)
        elif isinstance(node, (cst.Global, cst.Nonlocal)):
            statement.scope.outer.update(item.name.value for item in node.names)
        else:
            self._note(node, statement)
            self._walk_children(node, statement)

    def _note(self, node: cst.CSTNode, statement: Statement) -> None:
        if isinstance(node, cst.Call):
            self.calls.append(node)
            self._append(node, statement)
        elif isinstance(node, cst.Attribute):
            self.attributes.append(node)
        elif isinstance(node, cst.Assign):
            for target in node.targets:
                self._bind(target.target, node.value, statement)
        elif isinstance(node, (cst.AnnAssign, cst.NamedExpr)):
            if node.value is not None:
                self._bind(node.target, node.value, statement)
        elif isinstance(node, cst.AugAssign):
            self._bind(node.target, None, statement)
        elif isinstance(node, cst.AsName):
            self._bind(node.name, self._entered(self.parents[node]), statement)
        elif isinstance(node, cst.Comparison):
            self.comparisons.append(node)
        elif isinstance(node, cst.Return):
            self.returns.append((node, statement.scope))

    def _entered(self, item: cst.CSTNode) -> cst.BaseExpression | None:
        """Return what a `with` gives a name, where that is a progress bar, which gives itself; None for any other."""
        made = item.item if isinstance(item, cst.WithItem) else None
        bars = self.knowledge.last_names(GoesOver)
        return made if isinstance(made, cst.Call) and last_name(made.func) in bars else None

    def _bind(self, target: cst.CSTNode, value: cst.BaseExpression | None, statement: Statement) -> None:
        if isinstance(target, (cst.Tuple, cst.List)):
            values = value.elements if isinstance(value, (cst.Tuple, cst.List)) else None
            for number, element in enumerate(target.elements):
                if values is not None and len(values) == len(target.elements):
                    self._bind(element.value, values[number].value, statement)
                else:
                    self._bind_name(element.value, value, number, statement)
        else:
            self._bind_name(target, value, None, statement)

    def _bind_name(
        self, target: cst.CSTNode, value: cst.BaseExpression | None, item: int | None, statement: Statement
    ) -> None:
        name = dotted(target)
        if name is not None:
            self.bindings.append(Binding(name, value, item, statement))
            if "." not in name:
                scope = statement.scope.module if name in statement.scope.outer else statement.scope
                scope.names.add(name)
                scope.assigned.add(name)
        elif isinstance(target, cst.Subscript):
            held = target.value
            while isinstance(held, cst.Subscript):
                held = held.value
            if dotted(held) is not None:
                self.items.append(Binding(self.source.code(target), value, item, statement))

    def _append(self, call: cst.Call, statement: Statement) -> None:
        """Note what a list gets appended as a value of its last item."""
        held = receiver(call)
        if held is not None and method_name(call) == "append" and len(call.args) == 1:
            target = f"{self.source.code(held)}[-1]"
            self.appended.append(Binding(target, call.args[0].value, None, statement))

    def _import(self, node: cst.Import | cst.ImportFrom, statement: Statement) -> None:
        file = self.file_of(statement.scope)
        prefix = ""
        if isinstance(node, cst.ImportFrom):
            module = _absolute(file, len(node.relative), dotted(node.module) or "")
            prefix = module + "." if module else ""
            written = "." * len(node.relative) + (dotted(node.module) or "")
            file.imports.append((statement, module if file.name else written))
        if isinstance(node.names, cst.ImportStar):
            file.stars.append(prefix[:-1])
            return
        for alias in node.names:
            name = dotted(alias.name) or ""
            if isinstance(node, cst.Import):
                file.imports.append((statement, name))
            bound = alias.asname.name if alias.asname is not None else None
            known_as = bound.value if isinstance(bound, cst.Name) else name if prefix else name.partition(".")[0]
            full = known_as if not prefix and bound is None else prefix + name
            if full == known_as:
                file.aliases.setdefault(known_as, full)
            else:
                file.aliases[known_as] = full
            statement.scope.names.add(known_as)
            ways = statement.scope.imports.setdefault(known_as, [])
            if not any(isinstance(part.node, (cst.If, cst.Try)) for part in statement.path):
                ways.clear()  # what was imported before is hidden
            if full not in ways:
                ways.append(full)


def _absolute(file: File, dots: int, module: str) -> str:
    """Return the full name of a module that is imported relative to a file's package."""
    if not dots:
        return module
    if not file.name and not file.package:
        return "." * (dots if dots > 1 else 0) + module  # what stands beside the script needs no package
    package = file.package.split(".") if file.package else []
    return ".".join([*package[: len(package) + 1 - dots], *([module] if module else [])])
