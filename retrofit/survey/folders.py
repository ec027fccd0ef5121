"""Find where a script insists that what it writes is not there yet: each later start of a training ends there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from itertools import takewhile

import libcst as cst

from retrofit.knowledge.kinds import AsksForPath, Fresh, MakesFolder, WritesPath
from retrofit.survey.flow import Flow
from retrofit.survey.index import Index
from retrofit.survey.loops import called_in
from retrofit.survey.nodes import (
    argument,
    caught_by,
    children,
    dotted,
    exits,
    mentions,
    method_name,
    names_in,
    nodes_in,
    receiver,
)
from retrofit.survey.order import leading_to, leads_to, may_follow
from retrofit.survey.paths import BUILDERS, is_same, relation
from retrofit.survey.scopes import Scope, Statement
from retrofit.survey.sites.folder import NewFolder
from retrofit.survey.sites.loop import EpochLoop

#: The exceptions that a FileExistsError is caught as, too. Python's documentation, "Exception hierarchy".
_ABOVE = frozenset({"OSError", "IOError", "EnvironmentError", "Exception", "BaseException"})


def find_new_folders(index: Index, flow: Flow, loops: list[EpochLoop]) -> list[NewFolder]:
    """Return what makes a folder that must not be there, and what keeps from training where the script's files are.

    Args:
        loops: the epoch loops.
    """
    writing = [(path, call) for call in index.calls for path in _written(index, call)]
    training = leading_to(loops, flow)
    trains = {around for one in training for around in index.ancestors(one.node)}
    asked, instead, told = list[cst.CSTNode](), set[cst.CSTNode | None](), dict[cst.BaseExpression, cst.If]()
    for choice, part in _choosing(flow, trains):
        if any(_is_written(path, writing, flow) for path in _asked_for(index, part)):
            told[part] = choice
            instead.update({choice.body, choice.orelse} - trains)
    told |= _taking_up(flow, training)
    made = [_asking(index, part) for part in told]
    made += [site for call in index.calls if (site := _made(index, flow, call, [*told.values()])) is not None]
    for node in (*index.nodes_of(cst.Raise), *index.nodes_of(cst.Expr), *index.nodes_of(cst.Return)):
        here = index.statement(node)
        leaves = isinstance(node, cst.Raise) or exits(node)
        if leaves or (isinstance(node, cst.Return) and leads_to(here, training)):
            insists = any(_is_written(path, writing, flow) for path in _paths(flow, node))
            asked += [node] if insists and instead.isdisjoint(index.ancestors(node)) else []
    for test in index.nodes_of(cst.Assert):
        paths = [path for part in _holding(flow, test.test, affirmed=False) for path in _asked_for(index, part)]
        asked += [test] if any(_is_written(path, writing, flow) for path in paths) else []
    return [*made, *(NewFolder(node=node, index=index) for node in asked if index.holds(index.scope_of(node)))]


def _choosing(flow: Flow, trains: Set[cst.CSTNode]) -> Iterator[tuple[cst.If, cst.BaseExpression]]:
    """Yield the choices of which one branch alone trains, each with what its test asks that does not hold there.

    Args:
        trains: what is around the statements that lead to the epoch loop.
    """
    for choice in flow.index.nodes_of(cst.If):
        body = choice.body in trains
        if (choice.orelse in trains) is not body:
            yield from ((choice, part) for part in _holding(flow, choice.test, affirmed=not body))


def _taking_up(flow: Flow, training: set[Statement]) -> dict[cst.BaseExpression, cst.If]:
    """Return what asks for a folder before the script makes it, each with the choice whose branch loads then.

    The initialisation makes the folder, and saves nothing. A choice that asks for what is in it, too, needs no help.

    Args:
        training: the statements that lead to the epoch loop.
    """
    index, found = flow.index, dict[cst.BaseExpression, cst.If]()
    making = [(path, index.statement(call)) for call in index.calls for path in _folders(index, call)]
    making = [one for one in making if any(leads_to(way, training) for way in flow.leading(one[1]))]
    for choice in index.nodes_of(cst.If) if making else ():
        for branch, other in ((choice.body, choice.orelse), (choice.orelse, choice.body)):
            if not _loads_unasked(flow, branch) or _writes(flow, other):
                continue
            parts = _holding(flow, choice.test, affirmed=branch is choice.body)
            asked = [(part, path) for part in parts for path in _asked_for(index, part)]
            made = [part for part, path in asked if any(_is_made_after(path, *one, flow) for one in making)]
            found |= {part: choice for part in made if len(made) == len(asked)}
    return found


def _is_made_after(path: cst.BaseExpression, folder: cst.BaseExpression, making: Statement, flow: Flow) -> bool:
    """Whether a folder that a statement makes is one that was asked for, or in it, and was not made by then."""
    here = flow.index.statement(path)
    if may_follow(here, making, flow) and here not in making.around:
        return False
    return is_same(folder, path, flow) or relation(folder, path, flow) == "inside"


def _folders(index: Index, call: cst.Call) -> list[cst.BaseExpression]:
    """Return the path of the folder that a call makes, and that whose method it is; nothing for any other call."""
    if not _makes_folder(index, call):
        return []
    return [path for path in (argument(call, "name", 0), receiver(call)) if path is not None]


def _loads_unasked(flow: Flow, branch: cst.CSTNode | None) -> bool:
    """Whether a branch loads a file, and asks for none."""
    calls = _calls_in(flow, branch)
    loads = any(flow.index.qualified(call.func) == "torch.load" for call in calls)
    return loads and not any(True for call in calls for _ in _asked_for(flow.index, call))


def _writes(flow: Flow, branch: cst.CSTNode | None) -> bool:
    """Whether a branch writes a file, as data that is prepared once."""
    calls = [call for call in _calls_in(flow, branch) if not _makes_folder(flow.index, call)]
    return any(True for call in calls for _ in _written(flow.index, call))


def _calls_in(flow: Flow, branch: cst.CSTNode | None) -> list[cst.Call]:
    """Return the calls of a branch, and of the local functions that it calls."""
    index, suite = flow.index, branch.body if isinstance(branch, cst.Else) else branch
    if suite is None or not all(one in index.parents for one in children(suite)):
        return []  # what a module that is imported does as the main program is passed over
    blocks = index.statements_in(suite) if isinstance(suite, cst.BaseSuite) else [index.statement(suite)]
    called = [call for scope in called_in(index, flow, *blocks) for call in index.calls_of(scope)]
    return [*(call for block in blocks for call in index.calls_in(block)), *called]


def _asking(index: Index, asked: cst.BaseExpression) -> NewFolder:
    """Return the site of a test, or of the value that it knows by a name, by what it asks for."""
    around = [asked, *takewhile(lambda one: isinstance(one, cst.BaseExpression), index.ancestors(asked))]
    inner = list(takewhile(lambda one: not isinstance(one, cst.BooleanOperation), around))
    part, denies, code = inner[-1], len(inner) > 1, index.source.code(inner[-1])
    joined = len(around) > len(inner)
    return NewFolder(node=around[-1], index=index, part=code, denies=denies, joined=joined, anchors={"part": part})


def _made(index: Index, flow: Flow, call: cst.Call, told: list[cst.If]) -> NewFolder | None:
    """Return a call that makes a folder and fails where it is there, if nothing around it sees to that.

    Args:
        told: the choices that no longer do, as they take the folder for missing in each round.
    """
    held, here, path = receiver(call), index.statement(call), None
    made = index.knowledge.known(MakesFolder, index.qualified(call.func))
    makers = [one for one in index.knowledge.of(MakesFolder) if made is None and method_name(call) in one.methods]
    if makers and held is not None and _is_path(held, here.scope, flow, set()):
        made, path = makers[0], held
    if made is None or (made.instead and held is None):
        return None
    ((keyword, last),) = made.takes.items()
    path = next((argument(call, *one) for one in made.path.items()), path)
    allowed = argument(call, keyword, last) or cst.Name("False")
    around = [one.node for one in here.around]
    looked = any(
        True for one in around if isinstance(one, cst.If) and one not in told for _ in _asked_for(index, one.test)
    )
    minded = dotted(allowed) != "False" or looked or any(isinstance(one, cst.Try) for one in around)
    if minded or path is None or is_fresh(path, flow, to_the_second=True):
        return None
    maker = f"{index.source.code(call.func).rpartition('.')[0]}.{made.instead}" if made.instead else ""
    return NewFolder(node=call, index=index, makes=keyword, maker=maker, anchors={"call": call, "function": call.func})


def _is_path(node: cst.BaseExpression, scope: Scope, flow: Flow, seen: set[cst.CSTNode]) -> bool:
    """Whether an expression is one of `pathlib`'s paths; what was looked at already is in ``seen``."""
    for made in (origin.node for origin in flow.origins(node, scope)):
        if made in seen:
            continue
        seen.add(made)
        if isinstance(made, cst.Call) and flow.index.qualified(made.func).startswith("pathlib."):
            return True
        of = made.func if isinstance(made, cst.Call) else made
        inner = [of.value] if isinstance(of, cst.Attribute) else []
        if isinstance(of, cst.BinaryOperation) and isinstance(of.operator, cst.Divide):
            inner = [of.left, of.right]  # `"runs" / path` is one as well
        if any(_is_path(one, flow.index.scope_of(one), flow, seen) for one in inner):
            return True
    return False


def is_fresh(path: cst.BaseExpression, flow: Flow, *, to_the_second: bool = False) -> bool:
    """Whether a path has the time of its making, or a number that is drawn, in it.

    Args:
        path: the path.
        flow: the project's values.
        to_the_second: of a time without its seconds it is not, as the next start may be within the same minute.
    """
    waiting: list[cst.CSTNode] = [path]
    seen: set[cst.CSTNode] = set()
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        if to_the_second and _without_seconds(one):
            continue
        if isinstance(one, cst.Call) and _fresh(one, flow) == "":
            return True
        if isinstance(one, cst.Attribute) and one.attr.value in _fresh_attributes(one.value, flow):
            return True
        if isinstance(one, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)):
            scope = flow.index.scope_of(one)
            made = [origin.node for origin in flow.deep_origins(one, scope)]
            waiting += made
            waiting += [given.value for given in flow.given(one, scope) if given.value is not None]
            added = flow.index.nodes_of(cst.AugAssign)
            waiting += [part.value for part in added if is_same(part.target, one, flow)]
            if isinstance(one, cst.Subscript) and one not in made:
                continue  # what else the dict holds is nothing to it
        waiting += children(one)
    return False


def _without_seconds(node: cst.CSTNode) -> bool:
    """Whether a time is written by a format without its seconds: `now.strftime("%m%d-%H%M")`, `f"{now:%H%M}"`."""
    if isinstance(node, cst.FormattedStringExpression):
        texts = [part.value for part in node.format_spec or () if isinstance(part, cst.FormattedStringText)]
    elif method_name(node) == "strftime" and isinstance(node, cst.Call):
        texts = [str(one.value.evaluated_value) for one in node.args if isinstance(one.value, cst.SimpleString)]
    else:
        return False
    return any("%" in text and not re.search("%-?[SsfTXcr+]", text) for text in texts)


def _fresh(node: cst.BaseExpression, flow: Flow) -> str | None:
    """Return the attribute of a value that is another one at each start, "" for the value itself; None for others."""
    known = flow.index.knowledge.known(Fresh, flow.index.qualified(node.func if isinstance(node, cst.Call) else node))
    return known.attribute if known is not None else None


def _fresh_attributes(node: cst.BaseExpression, flow: Flow) -> set[str]:
    """Return the attributes of what an expression stands for that are others at each start, as the `id` of a run."""
    made = [node, *(origin.node for origin in flow.origins(node, flow.index.scope_of(node)))]
    return {attribute for one in made if (attribute := _fresh(one, flow))}


def _written(index: Index, call: cst.Call) -> Iterator[cst.BaseExpression]:
    """Yield what a call that writes gets, and the path whose method it is."""
    method, held = method_name(call), receiver(call)
    known = index.knowledge
    entry = known.named(WritesPath).get(index.qualified(call.func))
    if entry is not None and entry.mode:
        mode = next((argument(call, *one) for one in entry.mode.items()), None)
        if mode is None or (isinstance(mode, cst.SimpleString) and not set("wax+").intersection(mode.raw_value)):
            return  # it reads
    if entry is not None or method in known.methods(WritesPath):
        yield from (arg.value for arg in call.args)
        yield from [held] if held is not None and method in known.methods(WritesPath) else []


def _paths(flow: Flow, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Yield what is there where some code runs, as the innermost `if` around it says, or a failure to make it.

    One that is about a setting alone says nothing of it: `if not args.debug`. One about what was found out of what is
    there insists on more than a new folder: that it was made with the settings of this run, say.
    """
    index = flow.index
    around = list(index.ancestors(node))
    choices = (cst.If, cst.ExceptHandler, cst.FunctionDef, cst.For, cst.While)
    choice = next((one for one in around if isinstance(one, choices) and not _is_of_setting(flow, one)), None)
    inner = list(takewhile(lambda one: not isinstance(one, choices) or isinstance(one, cst.If), around))
    handler = next((one for one in around[len(inner) :] if isinstance(one, choices)), None)
    if isinstance(handler, cst.ExceptHandler) and not any(_asks_of_failure(index, one, handler) for one in inner):
        yield from _not_made(index, handler)
        return
    if isinstance(choice, cst.If):
        passed = [one for one in around[: around.index(choice)] if isinstance(one, cst.If)]
        told = {b.target for b in index.bound_in(index.statement(choice))}
        if any(not told.isdisjoint(names_in(one.test)) for one in passed):
            return
        holds = choice.body in around
        asked, denied = (
            [path for part in _answered(flow, choice.test, affirmed) for path in _asked_for(index, part)]
            for affirmed in (holds, not holds)
        )
        others = {index.source.code(path) for path in denied}  # there, but no file, as `a and not b` says of one path
        yield from (path for path in asked if index.source.code(path) not in others)


def _asks_of_failure(index: Index, choice: cst.CSTNode, handler: cst.ExceptHandler) -> bool:
    """Whether an `if` in an exception's handler asks for it, or for a path: it may be there, and all is well."""
    if not isinstance(choice, cst.If):
        return False
    caught = dotted(handler.name.name) if handler.name is not None else None
    asked = any(True for _ in _asked_for(index, choice.test))
    return asked or (caught is not None and mentions(choice.test, [caught]))


def _not_made(index: Index, handler: cst.ExceptHandler) -> Iterator[cst.BaseExpression]:
    """Yield what may be there already where an exception's handler runs."""
    kinds = {index.qualified(kind) for kind in caught_by(handler)}
    wide = not kinds or not kinds.isdisjoint(_ABOVE)
    for call in index.calls_in(index.statement(handler)):
        if "FileExistsError" in kinds or (wide and _makes_folder(index, call)):
            yield from _written(index, call)


def _answered(flow: Flow, test: cst.BaseExpression, affirmed: bool) -> Iterator[cst.BaseExpression]:
    """Yield what holds where a condition does, or does not, and that by which a function of the project answers so."""
    for part in _holding(flow, test, affirmed):
        function = flow.called(part) if isinstance(part, cst.Call) else None
        yield part
        for value in flow.index.returned(function) if function is not None else ():
            yield from _holding(flow, value, affirmed=True)


def _is_of_setting(flow: Flow, choice: cst.CSTNode) -> bool:
    """Whether an `if` asks for variables and attributes alone, none of a path's, and compares and calls nothing."""
    asks = (cst.Call, cst.Comparison, cst.Subscript)
    if not isinstance(choice, cst.If) or any(isinstance(one, asks) for one in nodes_in(choice.test)):
        return False
    parts = [part for affirmed in (True, False) for part in _holding(flow, choice.test, affirmed)]
    return not any(True for part in parts for _ in _asked_for(flow.index, part))


def _holding(
    flow: Flow, test: cst.BaseExpression, affirmed: bool, seen: frozenset[cst.CSTNode] = frozenset()
) -> Iterator[cst.BaseExpression]:
    """Yield the parts of a condition that hold where it does, or else those that do not; of what a name is as well."""
    if isinstance(test, cst.BooleanOperation):
        yield from _holding(flow, test.left, affirmed, seen)
        yield from _holding(flow, test.right, affirmed, seen)
    elif isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        yield from _holding(flow, test.expression, not affirmed, seen)
    elif isinstance(test, cst.Comparison) and _denies(test):
        yield from [] if affirmed else [test.left]
    elif isinstance(test, (cst.Name, cst.Attribute)):
        made = [origin.node for origin in flow.deep_origins(test, flow.index.scope_of(test))]
        for value in (one for one in made if one not in seen):  # `args.new = args.new and args.name` is made of itself
            if isinstance(value, cst.BaseExpression) and not isinstance(value, (cst.Name, cst.Attribute)):
                yield from _holding(flow, value, affirmed, seen | {value})
    elif affirmed:
        yield test


def _denies(test: cst.Comparison) -> bool:
    """Whether a comparison says that there is nothing, or little: `len(os.listdir(path)) == 0`."""
    operator, other = test.comparisons[0].operator, test.comparisons[0].comparator
    if isinstance(operator, (cst.Equal, cst.Is)):
        empty = isinstance(other, cst.List) and not other.elements
        return empty or dotted(other) == "False" or (isinstance(other, cst.Integer) and other.evaluated_value == 0)
    return isinstance(operator, (cst.LessThan, cst.LessThanEqual)) and isinstance(other, cst.Integer)


def _asked_for(index: Index, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Yield the paths of which an expression asks whether they are there."""
    names, methods = index.knowledge.named(AsksForPath), index.knowledge.methods(AsksForPath)
    for call in nodes_in(node):
        if isinstance(call, cst.Call) and index.qualified(call.func) in names:
            yield from (arg.value for arg in call.args[:1])
        elif method_name(call) in methods and (held := receiver(call)) is not None:
            yield held


def _is_of_file(index: Index, call: cst.CSTNode, kind: type[AsksForPath] | type[WritesPath]) -> bool:
    """Whether a call asks for, or writes, a file alone: a folder that is made is none."""
    function, method = index.qualified(call.func) if isinstance(call, cst.Call) else "", method_name(call)
    return any(one.file and (function in one.names or method in one.methods) for one in index.knowledge.of(kind))


def _is_written(path: cst.BaseExpression, writing: list[tuple[cst.BaseExpression, cst.Call]], flow: Flow) -> bool:
    """Whether the script writes what a path names, or something in it.

    Of a path that is asked for as a file's, what makes it a folder, or writes something in it, does not.

    Args:
        path: the path.
        writing: what calls that write are given, and these.
        flow: the project's values.
    """
    asking = next(one for one in flow.index.ancestors(path) if isinstance(one, cst.Call))
    file = _is_of_file(flow.index, asking, AsksForPath)
    for given, call in writing:
        made = [origin.node for origin in flow.origins(given, flow.index.scope_of(given))]
        for other in (given, *(one for one in made if isinstance(one, cst.BinaryOperation))):
            known = relation(path, other, flow) if _names_same(path, other, flow) else "apart"
            no_file = not _is_of_file(flow.index, call, WritesPath) or relation(other, path, flow) == "inside"
            if (known == "" and not (file and no_file)) or (
                known == "inside" and (not _makes_folder(flow.index, call) or _is_used(path, other, flow))
            ):
                return True
    return False


def _makes_folder(index: Index, call: cst.Call) -> bool:
    return index.qualified(call.func) in ("os.makedirs", "os.mkdir") or method_name(call) == "mkdir"


def _is_used(path: cst.BaseExpression, folder: cst.BaseExpression, flow: Flow) -> bool:
    """Whether anything that the script does with a folder may be to put there what a path in it names."""
    index = flow.index
    passed_over: set[cst.CSTNode] = {origin.node for origin in flow.origins(folder, index.scope_of(folder))}
    for call in index.calls:
        for one in (*_asked_for(index, call), *([call] if _makes_folder(index, call) else [])):
            passed_over.update(nodes_in(one))
    builders = {call for call in index.calls if index.qualified(call.func) in BUILDERS}
    used = [arg.value for call in index.calls if call not in builders | passed_over for arg in call.args]
    used += [*builders, *(bound.value for bound in index.bindings if bound.value is not None)]
    return any(
        _names_same(folder, one, flow) and relation(path, one, flow) != "apart"
        for one in used
        if one not in passed_over
    )


def _names_same(path: cst.BaseExpression, other: cst.BaseExpression, flow: Flow) -> bool:
    """Whether two paths are built from one variable, attribute or, where the first has neither, from one text."""
    index = flow.index
    names, others = list(names_in(path, called=False)), set(names_in(other, called=False))
    if not names:
        return index.source.code(path) == index.source.code(other)
    here, there = index.scope_of(path), index.scope_of(other)
    attributes = {name.rpartition(".")[2] for name in others if "." in name}
    variables = {flow.variable(name, there) for name in others}
    return any(
        name.rpartition(".")[2] in attributes if "." in name else flow.variable(name, here) in variables
        for name in names
    ) or not set(flow.origins(path, here)).isdisjoint(flow.origins(other, there))
