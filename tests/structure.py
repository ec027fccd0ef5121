"""The same training in other statements, loops and functions, and what retrofit decides of it then.

`python -m tests.structure [CHANGE [NAME]]` prints what is decided otherwise; CHANGES has their names.
"""

from __future__ import annotations

import ast
import copy
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from retrofit.options import Options
from retrofit.plan import make_plan
from retrofit.survey.loops import VALIDATES
from retrofit.survey.sites.script import Script
from tests.helpers import recipe
from tests.metamorphic import Texts, scripts, unwrapped

Block = list[ast.stmt]
Parents = Mapping[ast.AST, ast.AST]
_SCOPES = (ast.FunctionDef, ast.Lambda, ast.ClassDef)
_TURNED = {ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Lt: ast.GtE, ast.LtE: ast.Gt}
_SWAPPED = {ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.Lt: ast.Gt, ast.LtE: ast.GtE}


class InapplicableError(Exception):
    """A change does not apply to a project."""


def needed(condition: object) -> None:
    """Leave a project alone to which a change does not apply."""
    if not condition:
        raise InapplicableError


def parsed(text: str) -> Block:
    """Return the statements of a text."""
    return ast.parse(text).body


def around(head: str, block: Iterable[ast.stmt]) -> ast.stmt:
    """Return a compound statement with a block in it."""
    made = parsed(head.replace(":", ":\n    pass", 1))[0]
    made.body = list(block)  # type: ignore[attr-defined]
    return made


def called(node: ast.AST | None) -> str:
    """Return the last name of what a call calls, "" for anything else."""
    function = node.func if isinstance(node, ast.Call) else None
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


@dataclass
class Training:
    """A project whose files are syntax trees, and what its plan finds where: places are a file's name and a line."""

    trees: dict[str, ast.Module]
    epochs: tuple[str, int]
    passes: Sequence[tuple[str, int]]

    def __post_init__(self) -> None:
        self.file, line = self.epochs
        self.tree = self.trees[self.file]
        self.parents = parents_of(self.tree)
        self.loop = next(n for n in ast.walk(self.tree) if isinstance(n, (ast.For, ast.While)) and n.lineno == line)
        self.owner = owner_of(self.loop, self.parents)
        self.block = block_of(self.loop, self.parents)

    @property
    def nodes(self) -> Iterator[ast.AST]:
        """Everything in all files."""
        return (node for tree in self.trees.values() for node in ast.walk(tree))

    def replace(self, *new: ast.stmt) -> None:
        """Put statements in the place of the loop."""
        at = self.block.index(self.loop)
        self.block[at : at + 1] = new

    def ranged(self) -> tuple[ast.For, str, str, str]:
        """Return the loop, its variable, and the ends of the range that it goes through."""
        needed(isinstance(self.loop, ast.For) and called(self.loop.iter) == "range" and not self.loop.orelse)
        assert isinstance(self.loop, ast.For)
        assert isinstance(self.loop.iter, ast.Call)
        ends = [ast.unparse(arg) for arg in self.loop.iter.args]
        needed(len(ends) < 3)
        return self.loop, ast.unparse(self.loop.target), "0" if len(ends) == 1 else ends[0], ends[-1]

    def validation(self) -> tuple[int, int]:
        """Return which of the loop's statements begin and end what is done with a validation."""
        body = self.loop.body
        simple = [n for n, one in enumerate(body) if isinstance(one, (ast.Assign, ast.Expr))]
        first = next((n for n in simple if any(VALIDATES.search(called(part)) for part in ast.walk(body[n]))), None)
        needed(first is not None)
        assert first is not None
        last, made = first, stores([body[first]])
        for number in range(first + 1, len(body)):
            if loads([body[number]]) & made:
                last = number
                made |= stores([body[number]])
        return first, last


def parents_of(tree: ast.Module) -> Parents:
    """Return what each node stands in."""
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def above(node: ast.AST, parents: Parents) -> Iterator[ast.AST]:
    """Yield what is around a node, innermost first."""
    while node in parents:
        node = parents[node]
        yield node


def owner_of(node: ast.AST, parents: Parents) -> ast.FunctionDef | ast.Module:
    """Return the function in which a node stands, or the module."""
    return next(one for one in above(node, parents) if isinstance(one, (ast.FunctionDef, ast.Module)))


def block_of(node: ast.AST, parents: Parents) -> Block:
    """Return the block of a statement."""
    blocks = [value for _, value in ast.iter_fields(parents[node]) if isinstance(value, list)]
    return next(block for block in blocks if node in block)


def _within(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield some nodes and what is in them, but for what other functions and classes do."""
    for node in nodes:
        yield node
        if not isinstance(node, _SCOPES):
            yield from _within(ast.iter_child_nodes(node))


def stores(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that get a value, but for those of comprehensions and imports."""
    found = list(_within(nodes))
    inner = {name for node in found if isinstance(node, ast.comprehension) for name in ast.walk(node.target)}
    named = [node for node in found if isinstance(node, ast.Name) and node not in inner]
    return {node.id for node in named if not isinstance(node.ctx, ast.Load)}


def loads(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names whose value is used, by functions in there too."""
    found = [node for top in nodes for node in ast.walk(top)]
    added = {ast.unparse(node.target) for node in found if isinstance(node, ast.AugAssign)}
    return {node.id for node in found if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)} | added


def _surely(block: Block) -> tuple[set[str], set[str]]:
    """Return the names that a block uses before it gives them a value, and those that have one behind it."""
    used, made = set[str](), set[str]()
    for one in block:
        if isinstance(one, (ast.If, ast.With)):
            head = [one.test] if isinstance(one, ast.If) else one.items
            ways = [_surely(one.body), _surely(one.orelse)] if isinstance(one, ast.If) else [_surely(one.body)]
            used |= (loads(head) | set[str]().union(*(way[0] for way in ways))) - made
            made |= set.intersection(*(way[1] for way in ways))
        else:
            used |= loads([one]) - made
            made |= stores([one]) if isinstance(one, (ast.Assign, ast.AnnAssign)) else set()
    return used, made


def take_out(training: Training, owner: ast.FunctionDef | ast.Module, block: Block, name: str, closure: bool) -> None:
    """Move a block of a loop to a function, which gets what it needs and returns what is used behind it.

    Args:
        closure: whether the function stands in the one around it, where it finds the other names.
    """
    tree = next(tree for tree in training.trees.values() if owner in ast.walk(tree))
    parents, first = parents_of(tree), block[0].lineno
    inside = {node for one in block for node in ast.walk(one)}
    leaving = (ast.Break, ast.Continue, ast.Return, ast.Yield, ast.Global)
    needed(not any(isinstance(node, leaving) for node in inside))
    outside = [node for node in _within(ast.iter_child_nodes(owner)) if node not in inside]
    earlier = {n.id for n in outside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.lineno <= first}
    earlier |= {arg.arg for arg in owner.args.args} if isinstance(owner, ast.FunctionDef) else set()
    used, surely = _surely(block)
    later = {node.id for node in outside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    later |= loads(node for node in outside if isinstance(node, (*_SCOPES, ast.AugAssign)))
    inputs = used & earlier
    outputs = stores(block) & (later | inputs)
    inputs |= outputs - surely
    shared = {one for node in ast.walk(tree) if isinstance(node, ast.Global) for one in node.names}
    needed(inputs <= earlier and not shared & (inputs | outputs))
    if closure:
        inputs &= stores([*block, *(n for n in above(block[0], parents) if isinstance(n, ast.For))])
    own = {"self"} & inputs if isinstance(parents.get(owner), ast.ClassDef) and not closure else set()
    given, back = ", ".join(sorted(inputs - own)), ", ".join(sorted(outputs))
    new = around(f"def {name}({', '.join([*own, *filter(None, [given])])}):", [*block, *parsed(back)])
    assert isinstance(new, ast.FunctionDef)
    if back:
        new.body[-1:] = around("def f():", [ast.Return(ast.parse(back, mode="eval").body)]).body  # type: ignore[attr-defined]
    block[:] = parsed(f"{back + ' = ' if back else ''}{'self.' if own else ''}{name}({given})")
    home = owner if closure else parents.get(owner, owner)
    line = first if closure or home is owner else owner.lineno  # type: ignore[union-attr]
    body: Block = home.body  # type: ignore[attr-defined]
    body.insert(max(n for n, one in enumerate(body) if one.lineno <= line), new)


# ---- functions


def epoch_function(training: Training, closure: bool = False) -> None:
    """Move an epoch to a function of its own."""
    needed(not closure or isinstance(training.owner, ast.FunctionDef))
    take_out(training, training.owner, training.loop.body, "run_epoch", closure)


def step_function(training: Training, closure: bool = False) -> None:
    """Move a step to a function of its own."""
    needed(len(training.passes) == 1)
    file, line = training.passes[0]
    parents = parents_of(training.trees[file])
    step = next(node for node in parents if isinstance(node, ast.stmt) and node.lineno == line)
    loop = next((one for one in above(step, parents) if isinstance(one, (*_SCOPES, ast.For, ast.While))), None)
    needed(isinstance(loop, ast.For) and loop is not training.loop)
    assert isinstance(loop, ast.For)
    owner = owner_of(loop, parents)
    needed(not closure or isinstance(owner, ast.FunctionDef))
    take_out(training, owner, loop.body, "train_step", closure)


def validation_function(training: Training, from_second: bool = False) -> None:
    """Validate, keep the best and save in a function of its own, or only keep the best and save."""
    first, last = training.validation()
    first += from_second
    needed(first <= last)
    part = training.loop.body[first : last + 1]
    take_out(training, training.owner, part, "after_epoch", False)
    training.loop.body[first : last + 1] = part


def wrapped_call(training: Training) -> None:
    """Validate by a function that calls the one that does."""
    made = {one.name: one for one in training.tree.body if isinstance(one, ast.FunctionDef)}
    calls = [node for node in training.nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    name = next((n for call in calls if VALIDATES.search(n := called(call)) and n in made), "")
    needed(name)
    new = f"def checked(*args, **kwargs):\n    result = {name}(*args, **kwargs)\n    print(result)\n    return result"
    training.tree.body.insert(training.tree.body.index(made[name]) + 1, parsed(new)[0])
    for call in calls:
        if called(call) == name:
            call.func = ast.Name("checked")


# ---- loops


def other_loop(training: Training, text: str, named: str = "") -> None:
    """Go through the epochs otherwise.

    Args:
        text: the code, with `BODY` where the epoch is.
        named: what the variable's name must have in it.
    """
    loop, name, first, end = training.ranged()
    needed(named in name)
    needed("continue" not in ast.unparse(loop))
    for word, code in (("NAME", name), ("FIRST", first), ("END", end), ("ALL", ast.unparse(loop.iter))):
        text = text.replace(word, code)
    new = parsed(text)
    head = new[-1]
    assert isinstance(head, (ast.For, ast.While))
    at = next(n for n, one in enumerate(head.body) if ast.unparse(one) == "BODY")
    head.body[at : at + 1] = loop.body
    training.replace(*new)


def set_around(training: Training, head: str) -> None:
    """Train within something else.

    Args:
        head: the code, with `pass` where the loop is.
    """
    _, _, first, end = training.ranged() if "END" in head else (None, "", "", "")
    training.replace(new := parsed(head.replace("END", end).replace("FIRST", first))[0])
    new.body = [training.loop]  # type: ignore[attr-defined]


def set_apart(training: Training, text: str) -> None:
    """Train and validate in the turns of a loop over both.

    Args:
        text: the code, with `TRAIN` and `VALID` where each is done.
    """
    first, _ = training.validation()
    body = training.loop.body
    new = parsed(text)
    blocks = [block for one in new for node in ast.walk(one) if (block := getattr(node, "body", None))]
    blocks += [block for one in new for node in ast.walk(one) if (block := getattr(node, "orelse", None))]
    for word, part in (("TRAIN", body[:first]), ("VALID", body[first : first + 1])):
        at = next(block for block in blocks if isinstance(block, list) and ast.unparse(block[0]) == word)
        at[:1] = part
    needed(first and not any(isinstance(node, ast.Continue) for one in body for node in ast.walk(one)))
    body[: first + 1] = new


def both_in_one(training: Training) -> None:
    """Train and validate by one function, which is told which of both."""
    first, _ = training.validation()
    made = {one.name: one for one in training.tree.body if isinstance(one, ast.FunctionDef)}
    calls = [node for one in training.loop.body[: first + 1] for node in ast.walk(one) if called(node) in made]
    ways = [call for call in calls if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)]
    needed(len(ways) == 2 and called(ways[0]) != called(ways[1]) and all("*" not in ast.unparse(one) for one in ways))
    names, bodies = [], []
    for call in ways:
        function = made[called(call)]
        uses = [node for node in training.nodes if isinstance(node, ast.Name) and node.id == function.name]
        needed(len(uses) == 1 and isinstance(training.owner, ast.FunctionDef))
        needed(not function.args.defaults and not function.args.kwonlyargs and not function.decorator_list)
        own = [one.arg for one in function.args.args]
        call.keywords += [ast.keyword(name, value) for name, value in zip(own, call.args, strict=False)]
        call.args = [ast.Constant("train" if call is ways[0] else "val")]
        names += [name for name in own if name not in names]
        bodies.append(function.body)
    given = "".join(f", {name}=None" for name in names)
    new = parsed(f"def run_epoch(split{given}):\n    if split == 'train':\n        pass\n    else:\n        pass")[0]
    assert isinstance(new, ast.FunctionDef)
    assert isinstance(new.body[0], ast.If)
    new.body[0].body, new.body[0].orelse = bodies
    at = max(training.tree.body.index(made[called(call)]) for call in ways)
    training.tree.body.insert(at + 1, new)
    for call in ways:
        training.tree.body.remove(made[called(call)])
        call.func = ast.Name("run_epoch")


def started(training: Training, text: str) -> None:
    """Start the processes otherwise than by torchrun.

    Args:
        text: the functions by which they are started, `launch` the one that is called.
    """
    guards = [one for one in training.tree.body if isinstance(one, ast.If) and "__name__" in ast.unparse(one.test)]
    needed(len(guards) == 1 and [ast.unparse(one) for one in guards[0].body] == ["main()"])
    at = training.tree.body.index(guards[0])
    guards[0].body = parsed("launch()")
    training.tree.body[at:at] = parsed(text)
    training.tree.body[_first_code(training.tree) : 0] = parsed("import os, socket\nimport torch.multiprocessing as mp")


def _first_code(tree: ast.Module) -> int:
    """Return where the first statement is that is no documentation and no import of what is to come."""
    return next(n for n, one in enumerate(tree.body) if isinstance(one, (ast.Import, ast.ImportFrom)))


# ---- what is returned


def returned(training: Training, built: str, taken: str, head: str = "", inline: bool = False) -> None:
    """Return otherwise what a validation measures.

    Args:
        built: the code of what it returns, with `NAMES` for its parts by their names, `CODES` for them alone.
        taken: the code that takes a part out of it, with `NAME` and `NUMBER`.
        head: the code of a class of it.
        inline: whether each use takes the part.
    """
    first, _ = training.validation()
    one = training.loop.body[first]
    functions = [node for node in training.nodes if isinstance(node, ast.FunctionDef)]
    needed(isinstance(one, ast.Assign) and sum(called(node) == called(one.value) for node in training.nodes) == 1)
    assert isinstance(one, ast.Assign)
    function = next((node for node in functions if node.name == called(one.value)), None)
    returns = [node for node in ast.walk(function) if isinstance(node, ast.Return)] if function is not None else []
    target = one.targets[0]
    targets = target.elts if isinstance(target, ast.Tuple) else [target]
    needed(len(returns) == 1 and all(isinstance(part, ast.Name) for part in targets))
    value = returns[0].value
    assert function is not None
    assert value is not None
    codes = [ast.unparse(part) for part in (value.elts if isinstance(value, ast.Tuple) else [value])]
    names = [part.id if part.id != "_" else f"part{n}" for n, part in enumerate(targets) if isinstance(part, ast.Name)]
    needed(len(names) == len(codes) and not codes[0].startswith(("{", "dict(")) and "averages" not in codes[0])
    pairs = [*zip(names, codes, strict=True), ("seen", "1")]
    by_name = ", ".join(f"{name!r}: {code}" for name, code in pairs)
    code = built.replace("NAMES", by_name).replace("CODES", ", ".join(code for _, code in pairs))
    returns[0].value = ast.parse(code, mode="eval").body
    tree = next(tree for tree in training.trees.values() if function in ast.walk(tree))
    at = next(n for n, part in enumerate(tree.body) if isinstance(part, (ast.FunctionDef, ast.ClassDef)))
    fields = "".join(f"\n    {name}: float" for name, _ in pairs)
    tree.body[at:at] = parsed(head.replace("FIELDS", fields))
    takers = [f"measured{taken.replace('NAME', name).replace('NUMBER', str(n))}" for n, name in enumerate(names)]
    one.targets = [ast.Name("measured", ast.Store())]
    taking = parsed("\n".join(f"{name} = {taker}" for name, taker in zip(names, takers, strict=True)))
    training.loop.body[first + 1 : first + 1] = [] if inline else taking
    for name, taker in zip(names, takers, strict=True) if inline else ():
        needed(sum(name in stores([node]) for node in ast.walk(training.owner) if isinstance(node, ast.Assign)) < 1)
        _Put(name, taker).visit(training.owner)


class _Put(ast.NodeTransformer):
    """Puts an expression in the place of a name."""

    def __init__(self, name: str, code: str) -> None:
        self._name, self._code = name, code

    def visit_Name(self, node: ast.Name) -> ast.AST:
        new = ast.parse(self._code, mode="eval").body
        if isinstance(node.ctx, ast.Store) and isinstance(new, (ast.Subscript, ast.Attribute)):
            new.ctx = ast.Store()
        return new if node.id == self._name else node


# ---- the best


def best_of(training: Training, text: str) -> None:
    """Keep the best otherwise than by `if score > best: best = score`.

    Args:
        text: the code, with `REST` where more is done for a better one.
    """
    for node in training.nodes:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and not node.orelse:
            score, best, kind = ast.unparse(node.test.left), ast.unparse(node.test.comparators[0]), node.test.ops[0]
            made = [one for one in node.body if ast.unparse(one) == f"{best} = {score}"]
            if made and type(kind) in _TURNED:
                break
    else:
        raise InapplicableError
    tree = next(tree for tree in training.trees.values() if node in ast.walk(tree))
    rest = [one for one in node.body if one not in made] or parsed("pass")
    worse = ast.unparse(ast.Compare(node.test.left, [_TURNED[type(kind)]()], node.test.comparators))
    swapped = ast.unparse(ast.Compare(node.test.comparators[0], [_SWAPPED[type(kind)]()], [node.test.left]))
    compared = ast.unparse(ast.Compare(ast.Name("a"), [kind], [ast.Name("b")]))
    most = "max" if isinstance(kind, (ast.Gt, ast.GtE)) else "min"
    words = {"TEST": ast.unparse(node.test), "WORSE": worse, "SWAPPED": swapped, "COMPARED": compared, "MOST": most}
    for word, code in {**words, "SCORE": score, "BEST": best}.items():
        text = text.replace(word, code)
    block, new = block_of(node, parents_of(tree)), parsed(text)
    for one in [one for top in new for one in ast.walk(top)]:
        for name in ("body", "orelse"):
            part = getattr(one, name, [])
            lines = [ast.unparse(line) for line in part] if isinstance(part, list) else []
            if "REST" in lines:
                part[lines.index("REST") :] = rest
    helpers = [one for one in new if isinstance(one, ast.FunctionDef)]
    at = block.index(node)
    block[at : at + 1] = [one for one in new if one not in helpers]
    first = next(n for n, one in enumerate(tree.body) if isinstance(one, (ast.FunctionDef, ast.ClassDef, ast.Assign)))
    tree.body[first:first] = helpers


def best_in(training: Training, made: str, taken: str, head: str = "") -> None:
    """Keep the best as a part of something.

    Args:
        made: the code of what it is a part of, with `VALUE` for what it begins with.
        taken: the code of the part.
        head: what stands before the functions and classes, with `VALUE` too.
    """
    best = next((one for one in training.block if isinstance(one, ast.Assign) and "best" in ast.unparse(one)), None)
    needed(best is not None and isinstance(best.targets[0], ast.Name))
    assert best is not None
    assert isinstance(best.targets[0], ast.Name)
    name, value = best.targets[0].id, ast.unparse(best.value)
    needed(not any(isinstance(node, ast.Global) and name in node.names for node in training.nodes))
    for one in training.block:
        if one is not best:
            _Put(name, taken).visit(one)
    at = training.block.index(best)
    holder = taken.partition("[")[0].partition(".")[0]
    training.block[at : at + 1] = parsed(f"{holder} = {made.replace('VALUE', value)}")
    top = next(n for n, one in enumerate(training.tree.body) if isinstance(one, (ast.FunctionDef, ast.ClassDef)))
    training.tree.body[top:top] = parsed(head.replace("VALUE", value))


# ---- conditions


class _Conditions(ast.NodeTransformer):
    """Says conditions otherwise."""

    def __init__(self, way: str) -> None:
        self._way = way

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        chained = len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)
        opposite = ast.UnaryOp(ast.Not(), node.test)
        if self._way == "turned" and node.orelse and not chained:
            return ast.If(opposite, node.orelse, node.body)
        if self._way == "passing" and not node.orelse and "__name__" not in ast.unparse(node.test):
            return ast.If(opposite, [ast.Pass()], node.body)
        if self._way == "nested" and isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And):
            first, *rest = node.test.values
            inner = ast.BoolOp(ast.And(), rest) if len(rest) > 1 else rest[0]
            return node if node.orelse else ast.If(first, [ast.If(inner, node.body, [])], [])
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if self._way != "written out" or not isinstance(node.value, ast.IfExp):
            return node
        ways: Block = [ast.Assign(copy.deepcopy(node.targets), way) for way in (node.value.body, node.value.orelse)]
        return ast.If(node.value.test, ways[:1], ways[1:])


def conditions(training: Training, way: str) -> None:
    """Say all conditions otherwise."""
    for tree in training.trees.values():
        _Conditions(way).visit(tree)


# ---- validation


def now_and_then(training: Training, passed_over: bool = False) -> None:
    """Validate every other epoch."""
    (first, last), (_, name, _, _) = training.validation(), training.ranged()
    body = training.loop.body
    if passed_over:
        needed(last == len(body) - 1)
        body.insert(first, around("for x in y:", parsed(f"if {name} % 2 != 0:\n    pass")).body[0])  # type: ignore[attr-defined]
        body[first].body = [ast.Continue()]  # type: ignore[attr-defined]
    else:
        body[first : last + 1] = [around(f"if ({name} + 1) % 2 == 0:", body[first : last + 1])]


def validated_if(training: Training, text: str) -> None:
    """Validate in some epochs.

    Args:
        text: the code, with `BODY` where that is done.
    """
    (first, last), (_, name, start, end) = training.validation(), training.ranged()
    for word, code in (("NAME", name), ("FIRST", start), ("END", end)):
        text = text.replace(word, code)
    body = training.loop.body
    new = parsed(text)
    choice = new[-1]
    assert isinstance(choice, (ast.If, ast.Try))
    block = choice.finalbody if isinstance(choice, ast.Try) and choice.finalbody else choice.body
    needed("continue" not in ast.unparse(training.loop))
    block[:1] = body[first : last + 1]
    if isinstance(choice, ast.Try) and choice.finalbody:
        choice.body, new, first = body[:first], [choice], 0
    helpers = [one for one in new if isinstance(one, ast.FunctionDef)]
    body[first : last + 1] = [one for one in new if one not in helpers]
    at = next(n for n, one in enumerate(training.tree.body) if isinstance(one, (ast.FunctionDef, ast.ClassDef)))
    training.tree.body[at:at] = helpers


def validated_too(training: Training, before: bool) -> None:
    """Validate once more, before the training or behind it."""
    more = [copy.deepcopy(training.loop.body[training.validation()[0]]), *parsed("print('measured')")]
    training.replace(*(more if before else ()), training.loop, *(() if before else more))


def noted(training: Training, text: str, made: str = "results = []", taken: str = "") -> None:
    """Keep what is measured in something of all epochs.

    Args:
        text: the code, with `NAME` for the variable and `VALUE` for what it gets.
        made: what begins before the loop.
        taken: the code that each use has in place of the variable, with `NAME`.
    """
    first, _ = training.validation()
    one = training.loop.body[first]
    needed(isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name))
    assert isinstance(one, ast.Assign)
    name = ast.unparse(one.targets[0])
    text = text.replace("NAME", name).replace("VALUE", ast.unparse(one.value))
    training.loop.body[first : first + 1] = parsed(text)
    for later in training.loop.body if taken else ():
        needed(name not in stores([later]))
        _Put(name, taken.replace("NAME", name)).visit(later)
    training.replace(*parsed(made), training.loop)


_SPAWNED = """
def work(rank, count):
    os.environ['RANK'] = os.environ['LOCAL_RANK'] = str(rank)
    os.environ['WORLD_SIZE'] = str(count)
    main()
def launch():
    os.environ['MASTER_ADDR'], os.environ['MASTER_PORT'] = 'localhost', '29500'
    mp.spawn(work, nprocs=torch.cuda.device_count(), args=(torch.cuda.device_count(),))
"""
_LAUNCHED = """
def free_port():
    with socket.socket() as one:
        one.bind(('', 0))
        return one.getsockname()[1]
def work(rank, function, count, port):
    os.environ['RANK'] = os.environ['LOCAL_RANK'] = str(rank)
    os.environ['WORLD_SIZE'] = str(count)
    os.environ['MASTER_ADDR'], os.environ['MASTER_PORT'] = 'localhost', str(port)
    function()
def launch(function=main):
    count = torch.cuda.device_count()
    if count > 1:
        mp.spawn(work, nprocs=count, args=(function, count, free_port()))
    else:
        function()
"""
_READ = (
    "start = int(open('turn').read()) if os.path.exists('turn') else FIRST\nfor NAME in range(start, END):\n    BODY"
)
_TUPLE = "from typing import NamedTuple\nclass Measured(NamedTuple):FIELDS"
_CLASS = "from dataclasses import dataclass\n@dataclass\nclass Measured:FIELDS"
_SIMPLE = "from types import SimpleNamespace"
_STATE = "from dataclasses import dataclass\n@dataclass\nclass State:\n    best: float = VALUE"
_HISTORY = """class History:
    def __init__(self):
        self.values = {}

    def add(self, name, value):
        self.values.setdefault(name, []).append(value)

    def last(self, name):
        return self.values[name][-1]"""
CHANGES: Mapping[str, Callable[[Training], None]] = {
    "epoch in a function": epoch_function,
    "epoch in a closure": partial(epoch_function, closure=True),
    "step in a function": step_function,
    "step in a closure": partial(step_function, closure=True),
    "validation in a function": validation_function,
    "keeping in a function": partial(validation_function, from_second=True),
    "validation called by another": wrapped_call,
    "while": partial(other_loop, text="NAME = FIRST\nwhile NAME < END:\n    BODY\n    NAME += 1"),
    "endless while": partial(
        other_loop, text="NAME = FIRST\nwhile True:\n    BODY\n    NAME += 1\n    if NAME >= END:\n        break"
    ),
    "while not done": partial(
        other_loop, text="NAME, done = FIRST, False\nwhile not done:\n    BODY\n    NAME += 1\n    done = NAME >= END"
    ),
    "bar": partial(other_loop, text="for NAME in tqdm(ALL):\n    BODY"),
    "named bar": partial(other_loop, text="bar = tqdm(ALL)\nfor NAME in bar:\n    BODY\n    bar.set_postfix(x=1)"),
    "trange": partial(other_loop, text="for NAME in trange(FIRST, END):\n    BODY"),
    "enumerated": partial(other_loop, text="for turn, NAME in enumerate(ALL):\n    BODY"),
    "named range": partial(other_loop, text="planned = ALL\nfor NAME in planned:\n    BODY"),
    "finally": partial(set_around, head="try:\n    pass\nfinally:\n    print('left')"),
    "interrupted": partial(set_around, head="try:\n    pass\nexcept KeyboardInterrupt:\n    print('interrupted')"),
    "with": partial(set_around, head="with open('log', 'w') as log:\n    pass"),
    "if": partial(set_around, head="if END > FIRST:\n    pass"),
    "dict": partial(returned, built="{NAMES}", taken="['NAME']"),
    "dict inline": partial(returned, built="{NAMES}", taken="['NAME']", inline=True),
    "list": partial(returned, built="[CODES]", taken="[NUMBER]"),
    "tuple inline": partial(returned, built="(CODES)", taken="[NUMBER]", inline=True),
    "named tuple": partial(returned, built="Measured(CODES)", taken=".NAME", head=_TUPLE, inline=True),
    "dataclass": partial(returned, built="Measured(CODES)", taken=".NAME", head=_CLASS),
    "best by a flag": partial(best_of, text="is_best = TEST\nBEST = MOST(SCORE, BEST)\nif is_best:\n    REST"),
    "best in an else": partial(best_of, text="if WORSE:\n    print('worse')\nelse:\n    BEST = SCORE\n    REST"),
    "best compared": partial(best_of, text="if SWAPPED:\n    BEST = SCORE\n    REST"),
    "best of both": partial(best_of, text="BEST = MOST(BEST, SCORE)\nif BEST == SCORE:\n    REST"),
    "best by a choice": partial(best_of, text="better = TEST\nBEST = SCORE if better else BEST\nif better:\n    REST"),
    "best by a function": partial(
        best_of,
        text="def is_better(a, b):\n    return COMPARED\nif is_better(SCORE, BEST):\n    BEST = SCORE\n    REST",
    ),
    "best in a dict": partial(best_in, made="{'best': VALUE, 'epoch': -1}", taken="state['best']"),
    "best in a called dict": partial(best_in, made="dict(best=VALUE, epoch=-1)", taken="state['best']"),
    "best in a list": partial(best_in, made="[VALUE, -1]", taken="bests[0]"),
    "best in a namespace": partial(best_in, made="SimpleNamespace(best=VALUE)", taken="state.best", head=_SIMPLE),
    "best in a record": partial(best_in, made="State()", taken="state.best", head=_STATE),
    "turned": partial(conditions, way="turned"),
    "passing": partial(conditions, way="passing"),
    "nested": partial(conditions, way="nested"),
    "written out": partial(conditions, way="written out"),
    "now and then": now_and_then,
    "passed over": partial(now_and_then, passed_over=True),
    "validated before": partial(validated_too, before=True),
    "validated behind": partial(validated_too, before=False),
    "history": partial(noted, text="results.append(VALUE)\nNAME = results[-1]"),
    "phases": partial(
        set_apart,
        text="for phase in ('train', 'val'):\n    if phase == 'train':\n        TRAIN\n    else:\n        VALID",
    ),
    "phases by a flag": partial(
        set_apart,
        text="for part in ['train', 'val']:\n    fits = part == 'train'\n    if not fits:\n        VALID\n"
        "    if fits:\n        TRAIN",
    ),
    "phases of a dict": partial(
        set_apart,
        text="parts = {'train': True, 'val': False}\nfor part, fits in parts.items():\n    if part == 'train':\n"
        "        TRAIN\n    if part == 'val':\n        VALID",
    ),
    "both in one function": both_in_one,
    "spawned": partial(started, text=_SPAWNED),
    "spawned by a launcher": partial(started, text=_LAUNCHED),
    "counted down": partial(
        other_loop, text="left, NAME = END - FIRST, FIRST\nwhile left:\n    BODY\n    left -= 1\n    NAME += 1"
    ),
    "counted in a dict": partial(
        other_loop,
        text="passed = {'turn': 0}\nwhile passed['turn'] < END - FIRST:\n    NAME = FIRST + passed['turn']\n    BODY\n"
        "    passed['turn'] += 1",
    ),
    "counted in the head": partial(other_loop, text="NAME = FIRST - 1\nwhile (NAME := NAME + 1) < END:\n    BODY"),
    "sliced": partial(
        other_loop,
        text="import itertools\nfor NAME in itertools.islice(itertools.count(FIRST), END - FIRST):\n    BODY",
    ),
    "paired": partial(
        other_loop, text="rates = [0.1] * END\nfor NAME, rate in zip(ALL, rates):\n    BODY", named="epoch"
    ),
    "one seed": partial(set_around, head="for seed in [1]:\n    pass"),
    "read": partial(other_loop, text=_READ),
    "now and at last": partial(validated_if, text="if (NAME + 1) % 2 == 0 or NAME == END - 1:\n    BODY"),
    "at some epochs": partial(validated_if, text="if NAME in (1, 3, 5, 9):\n    BODY"),
    "in the last epochs": partial(validated_if, text="if NAME >= END - 3:\n    BODY"),
    "by a due flag": partial(validated_if, text="due = NAME % 2 == 0 or NAME == END - 1\nif due:\n    BODY"),
    "by a due function": partial(
        validated_if, text="def is_due(turn):\n    return turn % 2 == 0\nif is_due(NAME):\n    BODY"
    ),
    "tried": partial(validated_if, text="try:\n    BODY\nexcept KeyboardInterrupt:\n    break"),
    "at last in any case": partial(validated_if, text="try:\n    pass\nfinally:\n    BODY"),
    "history object": partial(
        noted, text="h.add('NAME', VALUE)", made=f"{_HISTORY}\nh = History()", taken="h.last('NAME')"
    ),
    "logged": partial(noted, text="log['NAME'] = VALUE", made="log = {}", taken="log['NAME']"),
    "record": partial(noted, text="record = {'NAME': VALUE}\nresults.append(record)\nNAME = record['NAME']"),
}
#: What no fixture has been decided otherwise by, which a sample leaves out.
QUIET = (
    "phases", "both in one function", "spawned", "spawned by a launcher", "counted in the head", "sliced", "paired",
    "one seed", "read", "now and at last", "at some epochs", "in the last epochs", "by a due flag", "by a due function",
    "tried", "at last in any case",
)  # fmt: skip
#: What makes it no training of each epoch's own score.
SOMETIMES = (
    "now and then", "passed over", "now and at last", "at some epochs", "in the last epochs", "by a due flag",
    "by a due function",
)  # fmt: skip


# ---- what is decided


Facts = dict[str, object]


def _planned(texts: Texts, entry: str, sometimes: bool = False) -> tuple[Facts, Script]:
    """Return what an apply decides on a project, and where it found what."""
    with TemporaryDirectory() as made:
        folder = Path(made).resolve()
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        plan = make_plan(folder / entry, entry, recipe(), Options())
    script, score = plan.script, plan.script.score
    facts: Facts = {
        "asked": [question.code for question in plan.questions],
        "noted": Counter(note.code for note in plan.notes if not (sometimes and note.code == "PAI012")),
        "kind": script.kind,
        "models": len(script.models),
        "optimizers": [sorted(one.name.split(" or ")) for one in script.optimizers],
        "schedulers": len(script.schedulers),
        "loops": len(script.loops),
        "backwards": len(script.backwards),
        "score": score and (score.direction, score.ranks, score.made),
        "of some": score and (sometimes or bool(score.condition)),
    }
    return facts, script


@cache
def projects() -> dict[str, tuple[Texts, str]]:
    """Return the fixtures that have no dendrites yet: files with a line for each statement, and the entry script."""
    found: dict[str, tuple[Texts, str]] = {}
    for name, texts, entry in scripts():
        if name.startswith(("ddp_", "dp_")) and not any("perforatedai" in text for text in texts.values()):
            plain = {file: unwrapped(text) if file.endswith(".py") else text for file, text in texts.items()}
            found[name] = plain, entry
    return found


@cache
def _decided(name: str, sometimes: bool) -> tuple[Facts, tuple[str, int], tuple[tuple[str, int], ...]]:
    facts, script = _planned(*projects()[name], sometimes)
    (loop,) = script.loops
    return facts, (loop.shown, loop.line), tuple((one.shown, one.line) for one in script.backwards)


def changed(name: str, change: str) -> Texts | None:
    """Return the files of a project with a change, None where it does not apply."""
    texts, entry = projects()[name]
    _, epochs, passes = _decided(name, change in SOMETIMES)
    trees = {file: ast.parse(text) for file, text in texts.items() if file.endswith(".py")}
    at = Path(entry).parent
    files = {str(at / file): file for file in trees} | {file: file for file in trees}
    training = Training(trees, (files[epochs[0]], epochs[1]), [(files[file], line) for file, line in passes])
    try:
        CHANGES[change](training)
    except InapplicableError:
        return None
    ast.fix_missing_locations(training.tree)
    return {**texts, **{file: ast.unparse(ast.fix_missing_locations(tree)) + "\n" for file, tree in trees.items()}}


def decided_otherwise(name: str, change: str) -> dict[str, tuple[object, object]]:
    """Return what is decided otherwise of a project in which something is said in another way."""
    other = changed(name, change)
    if other is None or other == projects()[name][0]:
        return {}
    before, _, _ = _decided(name, change in SOMETIMES)
    after, _ = _planned(other, projects()[name][1], change in SOMETIMES)
    return {fact: (before[fact], after[fact]) for fact in before if before[fact] != after[fact]}


def main(change: str = "", part: str = "") -> None:
    """Print what is decided otherwise."""
    for one in [change] if change else CHANGES:
        some = [name for name in projects() if part in name]
        found = {name: told for name in some if (told := decided_otherwise(name, one))}
        applies = sum(changed(name, one) not in (None, projects()[name][0]) for name in some)
        print(f"{one}: {len(found)} of {applies} differ", *(f"    {n}: {told}" for n, told in found.items()), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
