"""The same program with its parts elsewhere: in objects, modules, factories, and what retrofit decides of it then.

`python -m tests.restructured CHANGE [NAME]` prints what differs; CHANGES has their names.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from retrofit.errors import UserError
from retrofit.options import Options
from retrofit.plan import Plan, make_plan
from tests.helpers import recipe
from tests.metamorphic import Texts, difference, scripts

FunctionNode = ast.FunctionDef | ast.Module
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


# ---- names


class _Names(ast.NodeVisitor):
    """What statements read and bind in their own scope."""

    def __init__(self) -> None:
        self.read: set[str] = set()
        self.bound: set[str] = set()
        self.kept: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        (self.read if isinstance(node.ctx, ast.Load) else self.bound).add(node.id)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.read.add(node.target.id)
        self.generic_visit(node)

    def _inner(self, nodes: Iterable[ast.AST], own: Iterable[str] = ()) -> None:
        inner = names_in(nodes)
        self.read |= inner.read - inner.bound - set(own)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.bound.add(node.name)
        self.kept.add(node.name)
        for one in [*node.decorator_list, *node.args.defaults]:
            self.visit(one)
        self._inner(node.body, parameters(node.args))
        for part in ast.walk(node):
            if isinstance(part, ast.Nonlocal):
                self.kept |= set(part.names)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.bound.add(node.name)
        self.kept.add(node.name)
        self._inner([*node.bases, *node.body])

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._inner([node.body], parameters(node.args))

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, _COMPREHENSIONS):
            self._inner(ast.iter_child_nodes(node))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = {(one.asname or one.name).split(".")[0] for one in node.names}
            self.bound |= names
            self.kept |= names
        else:
            super().visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self.kept |= {node.name} if node.name else set()
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.kept.add(node.target.id)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        self.kept |= set(node.names)


def names_in(nodes: Iterable[ast.AST]) -> _Names:
    """Return the names of statements or expressions."""
    names = _Names()
    for node in nodes:
        names.visit(node)
    return names


def parameters(arguments: ast.arguments) -> list[str]:
    """Return the names of a function's parameters."""
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [one.arg for one in [*every, *filter(None, (arguments.vararg, arguments.kwarg))]]


class _Replacing(ast.NodeTransformer):
    """Writes something else for names, as far as they are those of the scope."""

    def __init__(self, new: Mapping[str, str]) -> None:
        self._new = dict(new)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._new:
            return node
        made = expression(self._new[node.id])
        if not isinstance(made, ast.Constant):
            made.ctx = node.ctx  # type: ignore[attr-defined]
        return made

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        node.simple = int(isinstance(node.target, ast.Name))
        return node

    def _scope(self, node: ast.AST, own: Iterable[str]) -> ast.AST:
        outer, self._new = self._new, {name: new for name, new in self._new.items() if name not in set(own)}
        self.generic_visit(node)
        self._new = outer
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._scope(node, [*parameters(node.args), *names_in(node.body).bound])

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return self._scope(node, parameters(node.args))

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, _COMPREHENSIONS):
            return self._scope(node, names_in(ast.iter_child_nodes(node)).bound)
        return super().visit(node)


def expression(code: str) -> ast.expr:
    """Return the tree of an expression."""
    return ast.parse(code, mode="eval").body


def statements(code: str) -> list[ast.stmt]:
    """Return the trees of statements."""
    return ast.parse(code).body


def _function(name: str, *given: str) -> ast.FunctionDef:
    """Return a function that does nothing yet."""
    made = statements(f"def {name}({', '.join(given)}): pass")[0]
    assert isinstance(made, ast.FunctionDef)
    return made


def replaced(nodes: Iterable[ast.stmt], new: Mapping[str, str]) -> list[ast.stmt]:
    """Return statements with other code for names."""
    return [_Replacing(new).visit(node) for node in nodes]


def renamed_calls(tree: ast.AST, new: Mapping[str, str]) -> None:
    """Write something else for names everywhere below a node, where they are no locals."""
    _Replacing(new).visit(tree)


def leaves(node: ast.AST) -> bool:
    """Whether a statement may leave the function that it is in."""
    inner = (ast.FunctionDef, ast.Lambda, ast.ClassDef)
    if isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)):
        return True
    return not isinstance(node, inner) and any(map(leaves, ast.iter_child_nodes(node)))


# ---- where things are


@dataclass
class Program:
    """A project's files, and where the training is.

    Attributes:
        trees: the modules by their paths.
        entry: the path of the entry script.
        file: the path of the module with the epoch loop.
        function: the function that has the epoch loop, the module where none has.
        loop: the epoch loop.
        lines: the file and line of each site, with its kind.
    """

    trees: dict[str, ast.Module]
    entry: str
    file: str
    function: FunctionNode
    loop: ast.stmt
    lines: list[tuple[str, str, int]]

    @property
    def body(self) -> list[ast.stmt]:
        """The statements beside or around the epoch loop."""
        return self.function.body

    @property
    def at(self) -> int:
        """Where among them the loop is."""
        return next(n for n, one in enumerate(self.body) if self.loop in ast.walk(one))

    @property
    def known(self) -> set[str]:
        """The function's own names."""
        names = names_in(self.body)
        given = parameters(self.function.args) if isinstance(self.function, ast.FunctionDef) else []
        return {*given, *names.bound}

    def stands(self, kind: str, node: ast.AST) -> bool:
        """Whether a site of a kind is at a statement of the module with the loop."""
        ends = range(getattr(node, "lineno", 0), (getattr(node, "end_lineno", 0) or 0) + 1)
        return any(one == kind and file == self.file and line in ends for one, file, line in self.lines)

    def before(self, *kinds: str) -> list[int]:
        """Return which statements before the loop have sites of these kinds."""
        some = enumerate(self.body[: self.at])
        return [n for n, one in some if any(self.stands(kind, one) for kind in kinds)]

    def add(self, code: str | Sequence[ast.stmt]) -> None:
        """Put statements before the function with the loop, or before all but the imports."""
        body = self.trees[self.file].body
        if isinstance(self.function, ast.FunctionDef) and self.function in body:
            at = body.index(self.function)
        else:
            last = max((n for n, one in enumerate(body) if isinstance(one, (ast.Import, ast.ImportFrom))), default=-1)
            at = last + 1
        body[at:at] = statements(code) if isinstance(code, str) else code


Change = Callable[[Program], bool]


# ---- objects


def trainer_class(program: Program) -> bool:
    """Make the function an object: set up where it is built, trained by a method."""
    return _trainer(program, False)


def trainer_methods(program: Program) -> bool:
    """Make the function an object, and the functions that its loop calls methods."""
    return _trainer(program, True)


def _trainer(program: Program, methods: bool) -> bool:
    function, body = program.function, program.body
    if not isinstance(function, ast.FunctionDef) or function not in program.trees[program.file].body:
        return False
    if function.decorator_list:
        return False
    split = next((n for n, one in enumerate(body) if leaves(one) or n == program.at), 0)
    first, second = body[:split], body[split:]
    if not first:
        return False
    early, late = names_in(first), names_in(second)
    given = parameters(function.args)
    kept = early.kept | late.kept
    shared = ({*early.bound, *given} - kept) & (late.read | late.bound)
    passed = sorted((early.kept & early.bound) & late.read)
    new = {name: f"self.{name}" for name in shared}
    made = [*statements("".join(f"self.{name} = {name}\n" for name in given if name in shared)), *replaced(first, new)]
    made += statements("".join(f"self.{name} = {name}\n" for name in passed))
    trained = replaced(second, {**new, **{name: f"self.{name}" for name in passed}})
    for declared in [one for one in first if isinstance(one, ast.Global)]:
        trained.insert(0, declared)
    trainer = statements("class Session: pass")[0]
    assert isinstance(trainer, ast.ClassDef)
    start, run = _function("__init__", "self"), _function("train_all", "self")
    start.args, start.body, run.body = deepcopy(function.args), made, trained
    start.args.args.insert(0, ast.arg("self"))
    trainer.body = [start, run]
    top = program.trees[program.file].body
    if methods:
        for name in [one.name for one in top if isinstance(one, ast.FunctionDef) and one is not function]:
            _become_method(program, trainer, run, name)
    program.add([trainer])
    arguments = [
        *(one.arg for one in function.args.args),
        *(f"{one.arg}={one.arg}" for one in function.args.kwonlyargs),
    ]
    gives = any(isinstance(one, ast.Return) and one.value for one in ast.walk(run))
    function.body = statements(f"trainer = Session({', '.join(arguments)})\n{'return ' * gives}trainer.train_all()")
    return True


def _become_method(program: Program, trainer: ast.ClassDef, run: ast.FunctionDef, name: str) -> None:
    """Make a function that the training alone calls a method, with attributes for what it is given of them."""
    top = program.trees[program.file].body
    function = next(one for one in top if isinstance(one, ast.FunctionDef) and one.name == name)
    trees = [*program.trees.values(), trainer]
    uses = {id(one) for tree in trees for one in ast.walk(tree) if isinstance(one, ast.Name) and one.id == name}
    calls = [one for one in ast.walk(run) if isinstance(one, ast.Call) and ast.unparse(one.func) == name]
    imported = any(name in names_in(tree.body).kept for tree in program.trees.values() if function not in tree.body)
    plain = not any(isinstance(one, ast.Starred) for call in calls for one in call.args)
    plain = plain and all(one.arg for call in calls for one in call.keywords)
    if not calls or uses != {id(one.func) for one in calls} or imported or not plain or function.args.vararg:
        return
    names, stays = parameters(function.args), names_in(function.body)

    def told(call: ast.Call) -> dict[str, ast.expr]:
        given = dict(zip(names, call.args, strict=False))
        return {**given, **{one.arg: one.value for one in call.keywords if one.arg is not None}}

    codes = {one: {ast.unparse(told(call)[one]) if one in told(call) else "" for call in calls} for one in names}
    own = {one: code for one in codes if len(codes[one]) == 1 and (code := min(codes[one])).startswith("self.")}
    own = {one: code for one, code in own.items() if one not in stays.bound | stays.kept}
    for call in calls:
        call.keywords = [ast.keyword(one, value) for one, value in told(call).items() if one not in own]
        call.args, call.func = [], expression(f"self.{name}")
    function.body = replaced(function.body, own)
    defaults = dict(zip(reversed(names), reversed(function.args.defaults), strict=False))
    function.args.args = [ast.arg("self"), *(one for one in function.args.args if one.arg not in own)]
    function.args.defaults = [defaults[one] for one in names if one in defaults and one not in own]
    top.remove(function)
    trainer.body.append(function)


# ---- modules


def _move(program: Program) -> list[str]:
    """Move the functions and classes beside the loop's function to a module, and return their names."""
    top = program.trees[program.file].body
    imports = [one for one in top if isinstance(one, (ast.Import, ast.ImportFrom))]
    known = names_in(imports).bound
    movable: dict[str, ast.stmt] = {}
    for one in top:
        if isinstance(one, (ast.FunctionDef, ast.ClassDef)) and one is not program.function:
            movable[one.name] = one
        name = ast.unparse(one.targets[0]) if isinstance(one, ast.Assign) else ""
        if name.isidentifier() and not any(isinstance(part, ast.Call) for part in ast.walk(one)):
            movable[name] = one
    counts = Counter(name for one in top for name in names_in([one]).bound)
    nodes = [*ast.walk(program.trees[program.file])]
    declared = {name for one in nodes if isinstance(one, ast.Global) for name in one.names}
    every = set(counts)
    while True:
        bad = {
            name
            for name, one in movable.items()
            if counts[name] > 1
            or name in declared
            or name.startswith("_")
            or (names_in([one]).read & every) - known - movable.keys()
            or any(isinstance(part, ast.Global) for part in ast.walk(one))
        }
        if not bad:
            break
        for name in bad:
            del movable[name]
    if not any(isinstance(one, ast.FunctionDef) for one in movable.values()) or "/" in program.file:
        return []
    if any(isinstance(one, ast.ImportFrom) and one.level for one in imports) or program.file != program.entry:
        return []
    for one in movable.values():
        top.remove(one)
    copied = [deepcopy(one) for one in imports]
    future = [one for one in copied if isinstance(one, ast.ImportFrom) and one.module == "__future__"]
    copied = [*future, *(one for one in copied if one not in future)]
    program.trees["parts_of_it.py"] = ast.Module([*copied, *movable.values()], [])
    return [*movable]


def _imported(program: Program, code: str) -> bool:
    program.trees[program.file].body[_after_imports(program) : _after_imports(program)] = statements(code)
    return True


def _after_imports(program: Program) -> int:
    body = program.trees[program.file].body
    return 1 + max((n for n, one in enumerate(body) if isinstance(one, (ast.Import, ast.ImportFrom))), default=-1)


def moved_from(program: Program) -> bool:
    """Import the functions from a module of their own."""
    names = _move(program)
    return bool(names) and _imported(program, f"from parts_of_it import {', '.join(names)}")


def moved_as(program: Program) -> bool:
    """Import the module of the functions under another name."""
    names = _move(program)
    if not names:
        return False
    renamed_calls(program.trees[program.file], {name: f"E.{name}" for name in names})
    return _imported(program, "import parts_of_it as E")


def moved_star(program: Program) -> bool:
    """Import all of a module."""
    return bool(_move(program)) and _imported(program, "from parts_of_it import *")


def moved_package(program: Program) -> bool:
    """Import the functions from a package that has them from its modules."""
    names = _move(program)
    if not names:
        return False
    program.trees["lib/__init__.py"] = ast.parse("from .parts_of_it import *\n")
    program.trees["lib/parts_of_it.py"] = program.trees.pop("parts_of_it.py")
    return _imported(program, f"from lib import {', '.join(names)}")


def moved_module_of_package(program: Program) -> bool:
    """Import the module of the functions from a package."""
    names = _move(program)
    if not names:
        return False
    program.trees["lib/__init__.py"] = ast.parse("")
    program.trees["lib/parts_of_it.py"] = program.trees.pop("parts_of_it.py")
    renamed_calls(program.trees[program.file], {name: f"parts_of_it.{name}" for name in names})
    return _imported(program, "from lib import parts_of_it")


# ---- factories


def extract(program: Program, start: int, stop: int, name: str, shape: str = "", last: str = "") -> bool:
    """Put statements before the loop into a function that returns what they bind.

    Args:
        start: the first.
        stop: where they end.
        name: how the function is called.
        shape: "dict" for what returns a dictionary, "object" for an object with attributes.
        last: what is returned in place of the only name.
    """
    body, function = program.body, program.function
    if not isinstance(function, ast.FunctionDef):
        return False
    part, rest = body[start:stop], body[stop:]
    if any(map(leaves, part)) or any(isinstance(one, ast.Global) for one in part):
        return False
    names, after = names_in(part), names_in(rest)
    before = {*parameters(function.args), *names_in(body[:start]).bound}
    if names.kept & names.bound & after.read:
        return False
    given = sorted((names.read | names.bound) & before)
    results = [one for one in sorted(names.bound - names.kept) if one in after.read]
    if not results:
        return False
    made = _function(name, *given)
    call = f"{name}({', '.join(given)})"
    if shape == "dict":
        back = "{" + ", ".join(f"'{one}': {one}" for one in results) + "}"
        new = {one: f"parts['{one}']" for one in results}
    elif shape == "object":
        back = f"SimpleNamespace({', '.join(f'{one}={one}' for one in results)})"
        new = {one: f"parts.{one}" for one in results}
    else:
        back, new = last or ", ".join(results), {}
    made.body = [*part, *statements(f"return {back}")]
    taken = f"parts = {call}" if new else f"{', '.join(results)} = {call}"
    later = names_in(rest)
    if later.kept & set(new) or names_in(body[:start]).bound & set(new):
        return False
    program.add([made])
    if shape == "object":
        _imported(program, "from types import SimpleNamespace")
    body[start:] = [*statements(taken), *replaced(rest, new)]
    return True


def _calls_in(node: ast.stmt, name: str) -> bool:
    calls = [part for part in ast.walk(node) if isinstance(part, ast.Call)]
    return any(ast.unparse(part.func).split(".")[-1] == name for part in calls)


def factory(*kinds: str) -> Change:
    """Return what makes each thing of a kind in a function of its own."""

    def change(program: Program) -> bool:
        changed = False
        for kind in kinds:
            places = (
                [n for n, one in enumerate(program.body[: program.at]) if _calls_in(one, kind)]
                if kind[0].isupper()
                else program.before(kind)
            )
            for number, at in reversed([*enumerate(places)]):
                changed |= extract(program, at, at + 1, f"make_{kind.lower()}{number or ''}")
        return changed

    return change


def _built(program: Program) -> tuple[int, int]:
    places = program.before("model", "wrapper", "optimizer", "scheduler")
    return (min(places), max(places) + 1) if places else (0, 0)


def built_together(shape: str) -> Change:
    """Return what makes model, optimizer and scheduler in one function."""

    def change(program: Program) -> bool:
        start, stop = _built(program)
        return stop > start + 1 and extract(program, start, stop, "build", shape)

    return change


def built_and_wrapped(program: Program) -> bool:
    """Make and wrap the model in one function."""
    places = program.before("model", "wrapper")
    return bool(places) and extract(program, min(places), max(places) + 1, "get_model")


def built_all(shape: str) -> Change:
    """Return what sets up all before the loop in one function."""

    def change(program: Program) -> bool:
        start, stop = _built(program)
        while start > 0 and not leaves(before := program.body[start - 1]) and not isinstance(before, ast.FunctionDef):
            start -= 1
        return stop > start + 1 and extract(program, start, program.at, "setup", shape)

    return change


def _wrapping(program: Program) -> int | None:
    return next(iter(program.before("wrapper")), None)


def wrap_early_return(program: Program) -> bool:
    """Wrap the model in a function that returns it bare where there is one process."""
    at = _wrapping(program)
    if at is None or not isinstance(program.body[at], ast.Assign):
        return False
    value = program.body[at].value  # type: ignore[attr-defined]
    if not isinstance(value, ast.Call):
        return False
    if not extract(program, at, at + 1, "wrap"):
        return False
    top = program.trees[program.file].body
    wrap = next(one for one in top if isinstance(one, ast.FunctionDef) and one.name == "wrap")
    operand = ast.unparse(value.args[0]) if value.args else "model"
    several = re.search("Distributed|DDP", ast.unparse(wrap))
    condition = "not torch.distributed.is_initialized()" if several else "torch.cuda.device_count() < 2"
    wrap.body = [*statements(f"if {condition}:\n    return {operand}"), *statements(f"return {ast.unparse(value)}")]
    return True


def _assigned_call(program: Program, kind: str) -> tuple[int, ast.Assign, ast.Call] | None:
    for at in program.before(kind):
        one = program.body[at]
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Call):
            inner = one.value
            while isinstance(inner.func, ast.Attribute) and isinstance(inner.func.value, ast.Call):
                inner = inner.func.value
            return at, one, inner
    return None


def chosen_by_name(kind: str) -> Change:
    """Return what makes a thing by a name, in a function with a branch for each."""

    def change(program: Program) -> bool:
        found = _assigned_call(program, kind)
        if found is None or not extract(program, found[0], found[0] + 1, f"make_{kind}"):
            return False
        top = program.trees[program.file].body
        made = next(one for one in top if isinstance(one, ast.FunctionDef) and one.name == f"make_{kind}")
        made.args.args.insert(0, ast.arg("name"))
        assign = made.body[0]
        assert isinstance(assign, ast.Assign)
        target = ast.unparse(assign.targets[0])
        made.body = [
            *statements(f"if name == 'own':\n    {ast.unparse(assign)}\nelse:\n    raise ValueError(name)"),
            *statements(f"return {target}"),
        ]
        for node in ast.walk(program.function):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == f"make_{kind}":
                node.args.insert(0, ast.Constant("own"))
        return True

    return change


def chosen_by_table(kind: str) -> Change:
    """Return what makes a thing by a name, from a dictionary of classes."""

    def change(program: Program) -> bool:
        found = _assigned_call(program, kind)
        if found is None:
            return False
        call = found[2]
        if kind == "wrapper" or isinstance(call.func, ast.Subscript):
            return False
        program.add(f"CHOICES_{kind.upper()} = {{'own': {ast.unparse(call.func)}}}")
        call.func = expression(f"CHOICES_{kind.upper()}[name_of_{kind}]")
        program.body.insert(found[0], statements(f"name_of_{kind} = 'own'")[0])
        return True

    return change


# ---- arguments


def _parsed(program: Program) -> tuple[ast.Module, ast.stmt, set[str], dict[str, str]] | None:
    """Return the module, the statement that parses the command line, the options' names, and their defaults."""
    options: dict[str, str] = {}
    found: tuple[ast.Module, ast.stmt] | None = None
    for tree in program.trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
                words = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
                told = {one.arg: ast.unparse(one.value) for one in node.keywords}
                long = next((one for one in words if one.startswith("--")), words[0] if words else "")
                name = told.get("dest", repr(long.lstrip("-").replace("-", "_"))).strip("'\"")
                options[name] = told.get("default", "False" if "store_true" in told.get("action", "") else "None")
            if isinstance(node, (ast.Assign, ast.Return)) and ast.unparse(node).endswith(".parse_args()"):
                if found is not None:
                    return None
                found = tree, node
    return (*found, set(options), options) if found and options else None


_HOLDING = re.compile(r"(^|\.)(args|opt|opts|cfg|config|hparams|flags|arguments|settings|conf)$")


class _Items(ast.NodeTransformer):
    def __init__(self, options: set[str]) -> None:
        self._options = options

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if _HOLDING.search(ast.unparse(node.value)) and node.attr in self._options:
            return ast.Subscript(node.value, ast.Constant(node.attr), node.ctx)
        return node


def _all_options(program: Program, options: set[str]) -> set[str]:
    every = [node for tree in program.trees.values() for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    held = [node for node in every if _HOLDING.search(ast.unparse(node.value))]
    return options | {node.attr for node in held if isinstance(node.ctx, ast.Store)}


def arguments_dict(program: Program) -> bool:
    """Keep the parsed command line as a dictionary."""
    found = _parsed(program)
    if found is None or "vars(" in "".join(map(ast.unparse, program.trees.values())):
        return False
    _, statement, options, _ = found
    for tree in program.trees.values():
        _Items(_all_options(program, options)).visit(tree)
    statement.value = expression(f"vars({ast.unparse(statement.value)})")  # type: ignore[attr-defined]
    return True


def settings_dict(program: Program) -> bool:
    """Have the settings stand in a dictionary, without a command line."""
    found = _parsed(program)
    if found is None or "vars(" in "".join(map(ast.unparse, program.trees.values())):
        return False
    _, statement, options, defaults = found
    for tree in program.trees.values():
        _Items(_all_options(program, options)).visit(tree)
    _without_parser(program)
    statement.value = expression("{" + ", ".join(f"{name!r}: {value}" for name, value in defaults.items()) + "}")  # type: ignore[attr-defined]
    return True


def settings_namespace(program: Program) -> bool:
    """Have the settings stand in a plain object, without a command line."""
    found = _parsed(program)
    if found is None:
        return False
    tree, statement, _, defaults = found
    _without_parser(program)
    statement.value = expression(f"SimpleNamespace({', '.join(f'{name}={value}' for name, value in defaults.items())})")  # type: ignore[attr-defined]
    tree.body.insert(_first(tree), statements("from types import SimpleNamespace")[0])
    return True


def settings_dataclass(program: Program) -> bool:
    """Have the settings stand in a dataclass, without a command line."""
    found = _parsed(program)
    if found is None:
        return False
    tree, statement, _, defaults = found
    _without_parser(program)
    fields = "".join(f"    {name}: object = {value}\n" for name, value in defaults.items())
    statement.value = expression("Settings()")  # type: ignore[attr-defined]
    at = _first(tree)
    tree.body[at:at] = statements(f"from dataclasses import dataclass\n@dataclass\nclass Settings:\n{fields}")
    return True


def settings_module(program: Program) -> bool:
    """Have the settings stand in a module."""
    found = _parsed(program)
    if found is None or "/" in program.entry:
        return False
    tree, statement, _, defaults = found
    if any("." in value or "(" in value for value in defaults.values() if not re.fullmatch(r"[-\d.e]+", value)):
        return False
    _without_parser(program)
    statement.value = expression("settings_of_run")  # type: ignore[attr-defined]
    program.trees["settings_of_run.py"] = ast.parse("".join(f"{name} = {value}\n" for name, value in defaults.items()))
    tree.body.insert(_first(tree), statements("import settings_of_run")[0])
    return True


def _first(tree: ast.Module) -> int:
    return 1 + max((n for n, one in enumerate(tree.body) if isinstance(one, (ast.Import, ast.ImportFrom))), default=-1)


class _NoParser(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        code = ast.unparse(node.value)
        return None if re.search(r"^\w+\.(add_argument|set_defaults)\(", code) else node

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        return None if "ArgumentParser(" in ast.unparse(node.value) else node


def _without_parser(program: Program) -> None:
    for tree in program.trees.values():
        _NoParser().visit(tree)


# ---- the entry


def _guard(tree: ast.Module) -> ast.If | None:
    return next((one for one in tree.body if isinstance(one, ast.If) and "__name__" in ast.unparse(one.test)), None)


def main_function(program: Program) -> bool:
    """Put a script's statements into a function that a guard calls."""
    tree = program.trees[program.file]
    if program.function is not tree or program.file != program.entry or _guard(tree) is not None:
        return False
    stay = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    moved = [one for one in tree.body if not isinstance(one, stay)]
    left = [one for one in tree.body if isinstance(one, stay)]
    read = names_in([one for one in left if isinstance(one, (ast.FunctionDef, ast.ClassDef))]).read
    shared = sorted(names_in(moved).bound & read)
    tops = [one for one in moved if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)]
    moved = [one for one in moved if one not in tops]
    made = _function("main")
    made.body = [*(statements(f"global {', '.join(shared)}") if shared else []), *moved]
    tree.body = [*tops, *left, made, *statements("if __name__ == '__main__':\n    main()")]
    return True


def script_level(program: Program) -> bool:
    """Put the statements of the main function under the guard itself."""
    tree, function = program.trees[program.file], program.function
    guard = _guard(tree)
    if guard is None or not isinstance(function, ast.FunctionDef) or function not in tree.body:
        return False
    if any(map(leaves, function.body)):
        return False
    if len(guard.body) != 1 or ast.unparse(guard.body[0]) != f"{function.name}()" or parameters(function.args):
        return False
    others = names_in([one for one in tree.body if one is not function and one is not guard])
    if function.decorator_list or names_in(function.body).bound & (others.bound | others.read):
        return False
    guard.body = [one for one in function.body if not isinstance(one, ast.Global)]
    tree.body.remove(function)
    return True


def by_mode(program: Program) -> bool:
    """Choose by a name what the script does."""
    function = program.function
    tree = program.trees[program.file]
    guard = _guard(tree)
    if guard is None or not isinstance(function, ast.FunctionDef) or len(guard.body) != 1:
        return False
    call = ast.unparse(guard.body[0])
    if not call.startswith(f"{function.name}("):
        return False
    if not any(isinstance(one, ast.Import) and any(name.name == "os" for name in one.names) for one in tree.body):
        return False
    ways = f"if mode == 'train':\n    {call}\nelif mode == 'list':\n    print(os.listdir('.'))\n"
    guard.body = statements(f"mode = os.environ.get('MODE', 'train')\n{ways}else:\n    raise ValueError(mode)")
    return True


# ---- data structures


def _to_items(program: Program, names: Sequence[str], held: str, listed: bool = False) -> bool:
    """Keep locals of the function as the items of a dictionary, or of a list."""
    function, body = program.function, program.body
    own = names_in(body)
    given = set(parameters(function.args)) if isinstance(function, ast.FunctionDef) else set()
    if isinstance(function, ast.Module):
        others = names_in([one for one in body if isinstance(one, (ast.FunctionDef, ast.ClassDef))])
        given |= others.read
    some = [name for name in names if name in own.bound and name not in own.kept | given]
    if not some:
        return False
    new = {name: f"{held}[{number}]" if listed else f"{held}['{name}']" for number, name in enumerate(some)}
    first = next(n for n, one in enumerate(body) if set(some) & names_in([one]).bound)
    made = f"{held} = [None] * {len(some)}" if listed else f"{held} = {{}}"
    body[:] = [*body[:first], *statements(made), *replaced(body[first:], new)]
    return True


def _targets(program: Program, *kinds: str) -> list[str]:
    found = []
    for at in range(program.at):
        one = program.body[at]
        hit = any(program.stands(kind, one) if kind[0].islower() else _calls_in(one, kind) for kind in kinds)
        if hit:
            found += sorted(names_in([one]).bound)
    return [*dict.fromkeys(found)]


def in_dict(*kinds: str) -> Change:
    """Return what keeps what is made as the items of a dictionary."""
    return lambda program: _to_items(program, _targets(program, *kinds), "held")


def in_list(*kinds: str) -> Change:
    """Return what keeps what is made as the items of a list."""
    return lambda program: _to_items(program, _targets(program, *kinds), "held", True)


# ---- values


METER = """
class Meter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.sum = 0
        self.count = 0

    def update(self, value, n=1):
        self.sum += value
        self.count += n

    @property
    def avg(self):
        return self.sum / max(self.count, 1)
"""


class _Updates(ast.NodeTransformer):
    def __init__(self, meters: Mapping[str, str]) -> None:
        self._meters = meters

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.target, ast.Name) and node.target.id in self._meters:
            return ast.Expr(ast.Call(expression(f"{self._meters[node.target.id]}.update"), [node.value], []))
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if isinstance(node.targets[0], ast.Name) and node.targets[0].id in self._meters:
            return statements(f"{self._meters[node.targets[0].id]} = Meter()")[0]
        self.generic_visit(node)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return expression(f"{self._meters[node.id]}.sum") if node.id in self._meters else node


def _sums(function: ast.FunctionDef) -> list[str]:
    """Return the locals that begin at 0, and to which loops alone add."""
    begun = Counter(
        ast.unparse(one.targets[0])
        for one in ast.walk(function)
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant) and one.value.value == 0
    )
    added = [one for one in _looped(function) if isinstance(one, ast.AugAssign) and isinstance(one.op, ast.Add)]
    sums = {one.target.id for one in added if isinstance(one.target, ast.Name)}
    stored = Counter(
        one.id for one in ast.walk(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    )
    counts = Counter(ast.unparse(one.target) for one in dict.fromkeys(added))
    return sorted(name for name in sums if begun[name] == 1 and stored[name] == 1 + counts[name])


def _looped(function: ast.FunctionDef) -> list[ast.AST]:
    return [part for one in ast.walk(function) if isinstance(one, ast.For) for part in ast.walk(one)]


def meters(shape: str = "") -> Change:
    """Return what keeps sums in objects, each in a variable of its own or all in a dictionary."""

    def change(program: Program) -> bool:
        changed = False
        for tree in program.trees.values():
            mine = False
            for function in [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]:
                inside = [one for part in function.body for one in ast.walk(part)]
                nested = any(isinstance(one, (ast.FunctionDef, ast.Lambda, ast.Global)) for one in inside)
                names = [] if nested or program.loop in ast.walk(function) else _sums(function)
                if names:
                    made = {name: f"meters['{name}']" if shape == "dict" else name for name in names}
                    function.body = [_Updates(made).visit(one) for one in function.body]
                    if shape == "dict":
                        function.body[:0] = statements("meters = {}")
                    mine = True
            if mine:
                tree.body[_first(tree) : _first(tree)] = statements(METER)
            changed |= mine
        return changed

    return change


HISTORY = """
class History:
    def __init__(self):
        self.values = {}

    def add(self, name, value):
        self.values.setdefault(name, []).append(value)

    def last(self, name):
        return self.values[name][-1]
"""


def history(shape: str) -> Change:
    """Return what keeps the values of the epochs in lists, or in an object that has these."""

    def change(program: Program) -> bool:
        loop, body = program.loop, program.body
        if not isinstance(loop, (ast.For, ast.While)) or loop not in body:
            return False
        ahead = names_in([*body[: program.at], *([loop.target] if isinstance(loop, ast.For) else [])]).bound
        within = names_in(loop.body)
        stored = [one for one in ast.walk(loop) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
        counts = Counter(one.id for one in stored)
        if isinstance(program.function, ast.FunctionDef):
            ahead |= set(parameters(program.function.args))
        names = [
            one.targets[0].id
            for one in loop.body
            if isinstance(one, ast.Assign)
            and len(one.targets) == 1
            and isinstance(one.targets[0], ast.Name)
            and isinstance(one.value, ast.Call)
            and counts[one.targets[0].id] == 1
            and one.targets[0].id not in ahead | within.kept
        ]
        if not names or "history" in program.known:
            return False
        if shape == "object":
            put, taken, made = "history.add('{0}', None)", "history.last('{0}')", "history = History()"
            program.add(HISTORY)
        else:
            put, taken = "history['{0}'].append(None)", "history['{0}'][-1]"
            made = "history = {" + ", ".join(f"'{name}': []" for name in names) + "}"
        at = program.at
        new = {name: taken.format(name) for name in names}
        lines: list[ast.stmt] = []
        for one in loop.body:
            if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and one.targets[0].id in names:
                call = expression(put.format(one.targets[0].id))
                assert isinstance(call, ast.Call)
                call.args[-1] = _Replacing(new).visit(one.value)
                lines.append(ast.Expr(call))
            else:
                lines += replaced([one], new)
        loop.body = lines
        body[at + 1 :] = replaced(body[at + 1 :], new)
        body[at:at] = statements(made)
        return True

    return change


CHANGES: Mapping[str, Change] = {
    "class": trainer_class,
    "methods": trainer_methods,
    "from": moved_from,
    "as": moved_as,
    "star": moved_star,
    "package": moved_package,
    "module-of-package": moved_module_of_package,
    "make-model": factory("model"),
    "make-optimizer": factory("optimizer"),
    "make-scheduler": factory("scheduler"),
    "make-loaders": factory("DataLoader"),
    "make-each": factory("model", "wrapper", "optimizer", "scheduler"),
    "wrap": factory("wrapper"),
    "wrap-early": wrap_early_return,
    "model-and-wrap": built_and_wrapped,
    "build-tuple": built_together(""),
    "build-dict": built_together("dict"),
    "build-object": built_together("object"),
    "setup-tuple": built_all(""),
    "setup-dict": built_all("dict"),
    "setup-object": built_all("object"),
    "model-by-name": chosen_by_name("model"),
    "optimizer-by-name": chosen_by_name("optimizer"),
    "scheduler-by-name": chosen_by_name("scheduler"),
    "model-by-table": chosen_by_table("model"),
    "optimizer-by-table": chosen_by_table("optimizer"),
    "arguments-dict": arguments_dict,
    "settings-dict": settings_dict,
    "settings-namespace": settings_namespace,
    "settings-dataclass": settings_dataclass,
    "settings-module": settings_module,
    "main": main_function,
    "script": script_level,
    "mode": by_mode,
    "dict-loaders": in_dict("DataLoader"),
    "dict-optimizer": in_dict("optimizer", "scheduler"),
    "dict-model": in_dict("model", "wrapper"),
    "dict-all": in_dict("model", "wrapper", "optimizer", "scheduler", "DataLoader"),
    "list-optimizer": in_list("optimizer", "scheduler"),
    "list-loaders": in_list("DataLoader"),
    "meters": meters(),
    "meters-dict": meters("dict"),
    "history": history(""),
}


# ---- what is decided


def planned(texts: Texts, entry: str, folder: Path) -> Plan:
    """Return the plan of an apply on a project."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return make_plan(folder / entry, entry, recipe(), Options())


#: What the names of options and of the best so far decide on, not on the training.
_BESIDE = ("PAI002", "PAI008", "PAI022")


def decisions(plan: Plan) -> list[str]:
    """Return what a plan decides, whatever the things are called and wherever they stand."""
    script = plan.script
    said = [f"asks {one.code}" for one in plan.questions]
    said += [f"notes {one.code}" for one in plan.notes if one.code not in _BESIDE]
    said += [f"{script.kind}, loops {len(script.loops)}, backwards {len(script.backwards)}, steps {len(script.steps)}"]
    said += [f"optimizers {len(script.optimizers)}, models {len(script.models)}"]
    said += [f"scheduler {one.facts['class']} {one.facts['stepped']}" for one in script.schedulers]
    said += [f"score {one.direction} {one.facts['ranks']}" for one in script.scores]
    edits = [edit.code for edit in plan.edits if edit.kind != "add-import"]
    return sorted([*said, *{f"edit {code}" for code in edits if code not in _BESIDE}])


def program_of(texts: Texts, entry: str, plan: Plan) -> Program | None:
    """Return a project as its changes take it, None where there is no one epoch loop."""
    trees = {name: ast.parse(text) for name, text in texts.items() if name.endswith(".py")}
    if plan.script.loop is None:
        return None
    folder = plan.script.index.source.path
    for _ in Path(entry).parts:
        folder = folder.parent
    lines = [
        (kind, str(site.file.source.path.relative_to(folder)), site.line)
        for kind, site in plan.script.sites()
        if site is not plan.script
    ]
    file, line = next((file, line) for kind, file, line in lines if kind == "epoch-loop")
    tree = trees[file]
    loop = next(one for one in ast.walk(tree) if isinstance(one, (ast.For, ast.While)) and one.lineno == line)
    around = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and loop in ast.walk(one)]
    return Program(trees, entry, file, around[-1] if around else tree, loop, lines)


def changed(texts: Texts, entry: str, plan: Plan, name: str) -> dict[str, str] | None:
    """Return a project's files with a change made, None where it does not apply."""
    program = program_of(texts, entry, plan)
    if program is None or not CHANGES[name](program):
        return None
    new = {path: ast.unparse(ast.fix_missing_locations(tree)) + "\n" for path, tree in program.trees.items()}
    for path, text in new.items():
        compile(text, path, "exec")
    return {**texts, **new}


def plain(texts: Texts) -> dict[str, str]:
    """Return a project with each statement on a line."""
    return {name: ast.unparse(ast.parse(text)) + "\n" if name.endswith(".py") else text for name, text in texts.items()}


def differs(texts: Texts, entry: str, names: Sequence[str]) -> dict[str, list[str]]:
    """Return what is decided otherwise of a project with each change, as far as that applies."""
    found: dict[str, list[str]] = {}
    texts = plain(texts)
    with TemporaryDirectory() as made:
        before = planned(texts, entry, Path(made).resolve())
    for name in names:
        new = changed(texts, entry, before, name)
        if new is not None:
            with TemporaryDirectory() as made:
                try:
                    after = decisions(planned(new, entry, Path(made).resolve()))
                except UserError as error:
                    after = [f"refuses {one.code}" for one in error.problems]
            found[name] = difference(decisions(before), after)
    return found


def main(name: str, *projects: str) -> None:
    """Print what differs."""
    for project, texts, entry in scripts():
        if not projects or project in projects:
            for change, lines in differs(texts, entry, [*CHANGES] if name == "all" else [name]).items():
                print(*([f"{change} {project}", *lines] if lines else []), sep="\n    ", end="\n" if lines else "")


if __name__ == "__main__":
    main(*sys.argv[1:])
